//! The records of the log; the log knows their heads and nothing more.

use swiftwater_event::{Millis, Offset};

use crate::LogPosition;

/// The most bytes of a producer's id.
pub const PRODUCER_ID_BYTES_MAX: usize = 256;

/// The number of a stream, as the catalog gave it. Never used again for another stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What a record is, and all that is known of it without its payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Events of one stream.
    Events(EventsHead),
    /// A change of the catalog.
    Catalog,
    /// Time has passed.
    Tick {
        /// The time then.
        now: Millis,
    },
}

/// What holds for all events of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct EventsHead {
    /// Whose events.
    pub stream: StreamId,
    /// The offset of the first of them in its stream; the others follow without a gap.
    pub first: Offset,
    /// The number of its events.
    pub events: u32,
    /// When they arrived.
    pub arrival: Millis,
    /// When their sender says they were sent, in microseconds since 1970; 0: it does not say.
    pub sent_micros: i64,
    /// Which part of all events these are, where the sender took a sample of them.
    pub sample: Option<f64>,
    /// Who sent them, where it numbers what it sends.
    pub producer: Option<Producer>,
    /// Which part they are of what the producer's number stands for, from 0.
    pub part: u16,
}

/// A sender that numbers what it sends, so that what it sends again is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Producer {
    /// Its name, of at most [`PRODUCER_ID_BYTES_MAX`] bytes.
    pub id: Box<str>,
    /// The number of what it sent.
    pub sequence: u64,
    /// A hash of what it sent under this number and part, before anything of it was refused; 0: it is not known.
    pub hash: u64,
}

/// A record as it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<'a> {
    /// Where it begins.
    pub position: LogPosition,
    /// Where the next begins.
    pub end: LogPosition,
    /// What it is.
    pub head: Head,
    /// What it holds, as it was before it was packed.
    pub payload: &'a [u8],
}
