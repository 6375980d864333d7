//! The demo's two live streams, ready to be sent to a server: New York's flights of 2013, replayed, and this machine.
//!
//! Both append NDJSON to a buffer of the caller's. Neither reads a clock, waits or starts a thread: the caller passes the
//! time, so a replay with the same times gives the same bytes. Neither knows the engine, the server or the wire.
//!
//! ```text
//! let mut replay = Flights::open()?.replay(now_ms, Speed::default());
//! replay.push_due(now_ms, &mut out, 10_000);      // then wait until replay.next_due()
//! let mut sampler = HostSampler::new()?;
//! sampler.sample(now_ms, 1_000, &mut out);          // then wait a second
//! ```

mod flights;
mod host;
mod text;

pub(crate) use flights::{Flights, Replay, Speed};
pub(crate) use host::HostSampler;

/// The reason why a demo stream could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The embedded flights are not a zstd frame, which no build from a whole work tree shows.
    #[error("cannot decompress the embedded flights")]
    Decompress(#[source] std::io::Error),
    /// The embedded flights are not in the format of `examples/flights/pack.py`.
    #[error("the embedded flights are malformed: {what}; run `examples/flights/pack.py` and build again")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
    /// The system does not tell of itself, as on platforms that `sysinfo` does not know.
    #[error("cannot sample this machine")]
    Machine(#[source] sysinfo::Error),
    /// A speed that is not a number above 0, nor `max`.
    #[error("`{text}` is not a speed; write a number above 0, such as `600` or `0.5x`, or `max`")]
    Speed {
        /// The given text.
        text: String,
    },
}
