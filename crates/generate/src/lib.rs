//! Generates events of published workloads from a seed: one JSON object per line, as fast as they can be written.
//!
//! The same seed gives the same bytes, on every machine. Bytes are written directly: no event is a tree or has its own
//! allocation.
//! Knows nothing of streams, servers or files; the command `swiftwater generate` and the benchmarks write the output.

mod articles;
mod exact;
mod faults;
mod logs;
pub mod published;
mod rng;
mod smart_home;
mod swipes;
mod telecom;
mod zipf;

pub use faults::{Fault, FaultInjector};
pub use logs::LogsSettings;
pub use rng::Rng;
pub use swipes::SwipesSettings;
pub use telecom::{DIMENSIONS, MEASURES, NOISE_MAX, TelecomSettings};

use std::fmt;

/// A generator of events of one kind, one after another.
pub trait Events: Send {
    /// Adds the next event and a line break.
    fn push(&mut self, out: &mut Vec<u8>);
}

/// The kind of events to generate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Workload {
    /// Readings of devices in houses, 115 bytes each.
    SmartHome,
    /// Articles of an encyclopaedia, 3.5 KB each.
    Articles,
    /// Log lines of services, 350 bytes each.
    Logs(LogsSettings),
    /// Swipes of a matching app, 330 bytes each.
    Swipes(SwipesSettings),
    /// Records of probes in a telephone network, 2 KB each.
    Telecom(TelecomSettings),
}

/// The most that a skew may be.
pub const SKEW_MAX: f64 = 4.0;
/// The most values that are drawn of.
pub const VALUES_MAX: u32 = 1 << 24;

/// The reason why a workload cannot be generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WorkloadError {
    /// A skew that is not in `[0, SKEW_MAX]`.
    Skew(f64),
    /// A number of users that is not in `[1, VALUES_MAX]`.
    Users(u32),
    /// A rate that is not above 0.
    Rate(f64),
    /// The noise exceeds [`NOISE_MAX`].
    Noise(u32),
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadError::Skew(skew) => write!(f, "a skew of {skew}: allowed are 0 to {SKEW_MAX}"),
            WorkloadError::Users(users) => write!(f, "{users} users: allowed are 1 to {VALUES_MAX}"),
            WorkloadError::Noise(noise) => write!(f, "a noise of {noise}: {NOISE_MAX} is the most"),
            WorkloadError::Rate(rate) => write!(f, "{rate} events a second: the rate must be above 0"),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl Workload {
    /// Begins with the first event. The tables to draw from (up to 50 MB) are made here, in a fraction of a second.
    ///
    /// # Errors
    ///
    /// Fails if a setting is out of its range.
    pub fn begin(&self, seed: u64) -> Result<Box<dyn Events>, WorkloadError> {
        let skew = |skew: f64| {
            if (0.0..=SKEW_MAX).contains(&skew) { Ok(()) } else { Err(WorkloadError::Skew(skew)) }
        };
        let rate = |rate: f64| {
            if rate > 0.0 && rate.is_finite() { Ok(()) } else { Err(WorkloadError::Rate(rate)) }
        };
        Ok(match self {
            Workload::SmartHome => Box::new(smart_home::SmartHome::new(seed)),
            Workload::Articles => Box::new(articles::Articles::new(seed)),
            Workload::Logs(settings) => {
                rate(settings.events_per_second)?;
                Box::new(logs::Logs::new(seed, settings))
            }
            Workload::Swipes(settings) => {
                skew(settings.skew)?;
                for users in [settings.swipers, settings.swipees] {
                    if !(1..=VALUES_MAX).contains(&users) {
                        return Err(WorkloadError::Users(users));
                    }
                }
                Box::new(swipes::Swipes::new(seed, settings))
            }
            Workload::Telecom(settings) => {
                skew(settings.skew)?;
                rate(settings.events_per_second)?;
                if settings.noise > NOISE_MAX {
                    return Err(WorkloadError::Noise(settings.noise));
                }
                Box::new(telecom::Telecom::new(seed, settings))
            }
        })
    }
}
