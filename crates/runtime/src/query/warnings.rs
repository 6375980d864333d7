//! Warns about a submitted query that can match nothing. If declared types prove it, this is an error.
//!
//! Field names are checked against the declared columns, the columns found in a stored stream's events, and a sample of the
//! events of this process. The sample is bounded: all of the first events, then a few per second. For a stream with more
//! than [`FIELDS_MAX`] fields, it knows nothing. Only the native dialect is checked, and only BQL as text.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
};

use bumpalo::Bump;
use swiftwater_event::{EventBatch, Millis, StreamName, did_you_mean, event_fields};
use swiftwater_lang::{Dialect, QueryErrors, QueryWarning, warnings};

use crate::lock_order::OrderedMutex;
use crate::{QueryForm, Runtime, RuntimeError, SubmitOptions};

/// Fields of a stream that are remembered; with more, it is taken to have any.
const FIELDS_MAX: usize = 256;
/// So many events are all looked at,
const EVENTS_ALL: u64 = 4096;
/// then so many, not more often than in so many milliseconds.
const EVENTS_SOME: usize = 8;
const EVERY_MS: i64 = 1000;

/// The names of fields that a sample of a stream's events had.
#[derive(Debug, Default)]
pub(crate) struct SeenFields {
    names: OrderedMutex<BTreeSet<Box<str>>>,
    events: AtomicU64,
    /// When some were looked at last.
    at: AtomicI64,
}

impl SeenFields {
    /// Looks at some events of a batch, now and then.
    pub(crate) fn look(&self, batch: &EventBatch, now: Millis) {
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
    fn names(&self) -> Vec<Box<str>> {
        let names = self.names.lock();
        if names.len() > FIELDS_MAX { Vec::new() } else { names.iter().cloned().collect() }
    }
}

/// Warnings of doubts; an error where some are certain.
pub(crate) fn warnings_of(doubts: Vec<QueryWarning>) -> Result<Vec<String>, RuntimeError> {
    let (certain, others): (Vec<QueryWarning>, Vec<QueryWarning>) =
        doubts.into_iter().partition(|doubt| doubt.is_certain);
    match certain.is_empty() {
        true => Ok(others.iter().map(QueryWarning::to_string).collect()),
        false => {
            Err(RuntimeError::Query(QueryErrors(certain.into_iter().map(|doubt| doubt.warning).collect())))
        }
    }
}

impl Runtime {
    /// The warnings for a query over a stream that can match nothing.
    pub fn warnings(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
        stream: &StreamName,
    ) -> Result<Vec<String>, RuntimeError> {
        if options.dialect != Dialect::Native || options.form != QueryForm::Bql {
            return Ok(Vec::new());
        }
        let seen = self.seen_fields(stream);
        let seen: Vec<&str> = seen.iter().map(|name| &**name).collect();
        let (found, _) =
            self.with_parse_options(text, options, now, |options| warnings(text, options, &seen));
        warnings_of(found)
    }

    /// Fields that events of a stream have; none where they are not known.
    fn seen_fields(&self, stream: &StreamName) -> Vec<Box<str>> {
        let shared = self.shared();
        let durable = shared.durable.get();
        if durable.is_some_and(|durable| durable.is_view(stream.as_str())) {
            return Vec::new();
        }
        let mut names = shared.find_stream(stream).map(|stream| stream.fields.names()).unwrap_or_default();
        names.extend(durable.map(|durable| durable.found_fields(stream)).unwrap_or_default());
        names
    }

    /// That a stream has had no event, and which other name may have been meant.
    pub(crate) fn no_event_yet(&self, stream: &StreamName) -> String {
        let shared = self.shared();
        let mut names = shared.stream_names();
        if let Some(durable) = shared.durable.get() {
            names.extend(durable.names());
        }
        names.retain(|name| name != stream.as_str());
        let alike = names.iter().map(String::as_str).find(|name| name.eq_ignore_ascii_case(stream.as_str()));
        let near = alike.or_else(|| did_you_mean(stream.as_str(), names.iter().map(String::as_str)));
        match near {
            Some(near) => format!("stream `{stream}` has had no event yet. Did you mean `{near}`?"),
            None => format!("stream `{stream}` has had no event yet"),
        }
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
        seen.look(&batch("{\"a\":1}\n{\"b\":{\"c\":2}}".to_owned()), 0);
        assert_eq!(seen.names(), ["a".into(), "b".into()]);
        let many: Vec<String> = (0..EVENTS_ALL).map(|_| "{\"a\":1}".to_owned()).collect();
        seen.look(&batch(many.join("\n")), 0);
        // From then on a few of a batch, and not of each.
        seen.look(&batch("{\"late\":1}".to_owned()), EVERY_MS - 1);
        assert_eq!(seen.names().len(), 2);
        seen.look(&batch("{\"late\":1}".to_owned()), EVERY_MS);
        assert_eq!(seen.names().len(), 3);
        let wide: Vec<String> = (0..FIELDS_MAX).map(|field| format!("\"f{field}\":1")).collect();
        seen.look(&batch(format!("{{{}}}", wide.join(","))), 2 * EVERY_MS);
        assert_eq!(seen.names(), Vec::<Box<str>>::new());
    }
}
