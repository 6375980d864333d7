//! Checkpoints of a durable query: the resume points that it passes, and how it goes on from one after a restart.

use std::sync::Arc;

use swiftwater_catalog::kind::durable_query::{QueryCheckpoint, ResumePoint};
use swiftwater_event::Millis;

use super::Running;
use crate::subscriber_queue::Numbering;

impl Running {
    /// It goes on where a durable query was, and has seen nothing yet.
    pub(crate) fn resume(&mut self) {
        let handle = Arc::clone(&self.handle);
        let Some(following) = &handle.following else { return };
        self.first_offset = following.first;
        let (from, given) = (following.from.from.unwrap_or_default(), following.from.given);
        let Some(given) = given else { return };
        let work = self.work();
        (work.emits, work.records, work.result_errors) = (given.emits, given.records, given.result_errors);
        work.counts.matched = from.matched;
        work.counts.mistyped = from.mistyped;
        work.counts.expression_errors =
            from.expression_errors - from.result_errors.min(from.expression_errors) + given.result_errors;
        work.collector.resume(match following.numbering {
            Numbering::Emits => given.number,
            Numbering::Records => given.records,
        });
    }

    /// The progress of a durable query, at this time and when everything before `position` was looked at.
    pub(crate) fn checkpoint(&self, time: Millis, position: u64) -> Option<QueryCheckpoint> {
        if self.handle.following.as_ref()?.resumes_anywhere() && self.work.is_some() {
            self.pass_at(time, position);
        }
        let collector = self.work.as_ref().map(|work| &work.collector);
        Some(self.handle.following.as_ref()?.checkpoint(self.handle.mailbox.frontier(), collector, time))
    }

    /// Records the position of a durable query, after its last answer.
    pub(super) fn pass_at(&self, at: Millis, position: u64) {
        let (Some(following), Some(work)) = (&self.handle.following, &self.work) else { return };
        let counts = self.counts(position);
        following.passed(ResumePoint {
            number: self.number(),
            at,
            offset: position,
            emits: work.emits,
            records: work.records,
            matched: counts.matched,
            mistyped: counts.mistyped,
            expression_errors: counts.expression_errors,
            result_errors: work.result_errors,
        });
    }

    /// The number of the last emit.
    pub(super) fn number(&self) -> u64 {
        match &self.handle.following {
            Some(_) if self.numbers_records() => self.records(),
            _ => self.emits(),
        }
    }

    pub(super) fn numbers_records(&self) -> bool {
        self.handle.following.as_ref().is_some_and(|following| following.numbering == Numbering::Records)
    }
}
