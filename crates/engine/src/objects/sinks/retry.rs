//! Counts retries since the last success, and decides how long to back off, what to report, and when to give up.

use std::time::Duration;

use swiftwater_event::Backoff;
use swiftwater_lang::ddl::SinkOptions;

use super::DeliverError;
use swiftwater_runtime::lock_order::OrderedMutex;

/// Pauses between tries.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(60));

/// Tries since something came about.
#[derive(Debug, Default)]
pub(crate) struct Retry(OrderedMutex<Option<(String, Backoff)>>);

impl Retry {
    /// Records a failed attempt. Returns true if its reason is new, and the pause before the next one.
    pub(crate) fn failed(&self, why: String) -> (bool, Duration) {
        let mut failing = self.0.lock();
        let (before, mut backoff) = failing.take().unwrap_or((String::new(), RETRY));
        let (is_news, pause) = (before != why, backoff.pause());
        *failing = Some((why, backoff));
        (is_news, pause)
    }

    /// Records a success.
    pub(crate) fn record_success(&self) {
        self.0.lock().take();
    }

    /// The error of the last attempt, and the number of failures since the last success, if any.
    pub(crate) fn failing(&self) -> Option<(String, u32)> {
        self.0.lock().as_ref().map(|(why, backoff)| (why.clone(), backoff.failures()))
    }

    /// True if the rows that cannot be delivered go to the dead-letter stream.
    pub(crate) fn is_exhausted(&self, options: &SinkOptions, error: &DeliverError) -> bool {
        if options.dead_letter.is_none() {
            return false;
        }
        let tries = self.failing().map_or(0, |(_, tries)| tries);
        error.is_final() || options.retries.is_some_and(|retries| tries >= retries)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_begin_anew_when_it_came_about() {
        let tries = Retry::default();
        let pauses: Vec<u64> = (0..12).map(|_| tries.failed("no".to_owned()).1.as_millis() as u64).collect();
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[9..], [51_200, 60_000, 60_000]);
        assert!(!tries.failed("no".to_owned()).0);
        assert!(tries.failed("still not".to_owned()).0);
        assert_eq!(tries.failing().unwrap(), ("still not".to_owned(), 14));
        tries.record_success();
        assert_eq!(tries.failing(), None);
        assert_eq!(tries.failed("no".to_owned()), (true, Duration::from_millis(100)));
    }

    #[test]
    fn only_what_has_somewhere_to_go_is_given_up() {
        let (tries, error) = (Retry::default(), DeliverError::Refused(Vec::new()));
        let later = DeliverError::Engine(crate::RuntimeError::ShuttingDown.into());
        let mut options = SinkOptions { retries: Some(1), ..SinkOptions::default() };
        assert!(!tries.is_exhausted(&options, &error));
        options.dead_letter = Some("lost".into());
        assert!(tries.is_exhausted(&options, &error), "it would fail again");
        assert!(!tries.is_exhausted(&options, &later));
        tries.failed(String::new());
        assert!(tries.is_exhausted(&options, &later));
    }
}
