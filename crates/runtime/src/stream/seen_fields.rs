//! The names of fields in a sample of a stream's events: all of the first events, then a few per second. With more than
//! [`FIELDS_MAX`] fields, the sample knows nothing.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

use bumpalo::Bump;
use swiftwater_event::{EventBatch, Millis, event_fields};

use crate::lock_order::OrderedMutex;

/// Fields of a stream that are remembered; with more, it is taken to have any.
const FIELDS_MAX: usize = 256;
/// Number of first events that are all read.
const EVENTS_ALL: u64 = 4096;
/// Number of later events read at a time, at most once in [`EVERY_MS`].
const EVENTS_SOME: usize = 8;
const EVERY_MS: i64 = 1000;

/// The names of fields that a sample of a stream's events had.
#[derive(Debug, Default)]
pub(crate) struct SeenFields {
    names: OrderedMutex<BTreeSet<Box<str>>>,
    events: AtomicU64,
    /// Time of the last sample.
    at: AtomicI64,
}

impl SeenFields {
    /// Reads the fields of some events of a batch, now and then.
    pub(crate) fn sample(&self, batch: &EventBatch, now: Millis) {
        let is_first = self.events.load(Ordering::Relaxed) < EVENTS_ALL;
        let is_due = now.saturating_sub(self.at.load(Ordering::Relaxed)) >= EVERY_MS;
        if batch.is_empty() || !is_first && !is_due {
            return;
        }
        self.at.store(now, Ordering::Relaxed);
        let count = batch.len().min(if is_first { EVENTS_ALL as usize } else { EVENTS_SOME });
        self.events.fetch_add(count as u64, Ordering::Relaxed);
        let mut names = self.names.lock();
        let mut arena = Bump::new();
        for row in 0..count {
            if names.len() > FIELDS_MAX {
                return;
            }
            if let Ok(event) = std::str::from_utf8(batch.event(row)) {
                for (name, _) in event_fields(event, &arena) {
                    if !names.contains(name) && names.len() <= FIELDS_MAX {
                        names.insert(name.into());
                    }
                }
            }
            arena.reset();
        }
    }

    /// The names; none where there are too many.
    pub(crate) fn names(&self) -> Vec<Box<str>> {
        let names = self.names.lock();
        if names.len() > FIELDS_MAX { Vec::new() } else { names.iter().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    fn batch(text: String) -> EventBatch {
        check_block(text.into(), &CheckLimits::default(), 1).batch
    }

    #[test]
    fn fields_are_known_from_a_bounded_sample() {
        let seen = SeenFields::default();
        seen.sample(&batch("{\"a\":1}\n{\"b\":{\"c\":2}}".to_owned()), 0);
        assert_eq!(seen.names(), ["a".into(), "b".into()]);
        let many: Vec<String> = (0..EVENTS_ALL).map(|_| "{\"a\":1}".to_owned()).collect();
        seen.sample(&batch(many.join("\n")), 0);
        // From then on a few of a batch, and not of each.
        seen.sample(&batch("{\"late\":1}".to_owned()), EVERY_MS - 1);
        assert_eq!(seen.names().len(), 2);
        seen.sample(&batch("{\"late\":1}".to_owned()), EVERY_MS);
        assert_eq!(seen.names().len(), 3);
        let wide: Vec<String> = (0..FIELDS_MAX).map(|field| format!("\"f{field}\":1")).collect();
        seen.sample(&batch(format!("{{{}}}", wide.join(","))), 2 * EVERY_MS);
        assert_eq!(seen.names(), Vec::<Box<str>>::new());
    }
}
