//! The simulated power of a machine: all disks and stores on it stop at one call to any of them.
//!
//! Calls to all of them are counted, in the order in which they come, and by kind. Each disk or store itself determines what
//! a crash leaves of it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The power of several disks and stores. Clones are the same one.
///
/// ```
/// use swiftwater_log::Disk;
/// use swiftwater_testkit::{Power, SimDisk};
///
/// let power = Power::new();
/// let (one, other) = (SimDisk::on(&power, "one", 1), SimDisk::on(&power, "other", 2));
/// power.off_at(2_u64, false);
/// one.create("a", 1)?;
/// one.sync_names()?;
/// assert!(other.names().is_err() && one.names().is_err());
/// assert_eq!(power.went_off_at().as_deref(), Some("other: names"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Power {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: u64,
    off_at: Option<(At, bool)>,
    went_off_at: Option<String>,
    counts: BTreeMap<String, u64>,
}

/// The call at which it goes off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The one of this number.
    Call(u64),
    /// The one of this kind, as [`Power::counts`] names it, that so many of its kind come before.
    Kind(String, u64),
}

impl From<u64> for At {
    fn from(call: u64) -> At {
        At::Call(call)
    }
}

/// The way a call finds the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Current {
    On,
    /// It goes off in this call, of which nothing, part, or all (`has_effect`) is done.
    GoesOff {
        has_effect: bool,
    },
    Off,
}

impl Power {
    /// Power that stays on until it is told otherwise.
    pub fn new() -> Power {
        Power::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of calls there were; the first has the number 0.
    pub fn calls(&self) -> u64 {
        self.inner().calls
    }

    /// Switches it off at this call; with `has_effect` a store on the network still executes that call.
    pub fn off_at(&self, at: impl Into<At>, has_effect: bool) {
        self.inner().off_at = Some((at.into(), has_effect));
    }

    /// True if it went off.
    pub fn is_off(&self) -> bool {
        self.inner().went_off_at.is_some()
    }

    /// The call in which it went off.
    pub fn went_off_at(&self) -> Option<String> {
        self.inner().went_off_at.clone()
    }

    /// The number of calls there were of each kind, as `device: what`.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.inner().counts.clone()
    }

    /// Counts a call, and returns its outcome.
    pub(crate) fn call(&self, device: &str, what: impl fmt::Display) -> Current {
        let mut inner = self.inner();
        if inner.went_off_at.is_some() {
            return Current::Off;
        }
        let call = inner.calls;
        inner.calls += 1;
        let what = format!("{device}: {what}");
        let is_it = |at: &At| match at {
            At::Call(at) => *at == call,
            At::Kind(kind, before) => {
                *kind == what && inner.counts.get(&what).copied().unwrap_or(0) == *before
            }
        };
        let goes_off = inner.off_at.as_ref().filter(|(at, _)| is_it(at)).map(|(_, has_effect)| *has_effect);
        match goes_off {
            Some(has_effect) => {
                inner.went_off_at = Some(what);
                Current::GoesOff { has_effect }
            }
            None => {
                *inner.counts.entry(what).or_default() += 1;
                Current::On
            }
        }
    }
}
