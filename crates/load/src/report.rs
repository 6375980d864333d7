//! Counts the outcomes of requests by kind during a run, and merges the counts at the end.

use std::collections::BTreeMap;

use crate::histogram::Histogram;

/// One request that has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The kind, by its place in the plan.
    pub request: usize,
    /// The time at which it was due, in nanoseconds since the beginning.
    pub due_nanos: u64,
    /// Time from then to the end of its answer, or to its failure.
    pub latency_nanos: u64,
    /// The way the last attempt ended.
    pub outcome: Outcome,
    /// True if that is a failure.
    pub is_failure: bool,
    /// Number of attempts.
    pub attempts: u32,
    /// Bytes of all attempts, heads included.
    pub sent_bytes: u64,
    /// Bytes of their answers.
    pub received_bytes: u64,
}

/// The way an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The answer had this status.
    Answered(u16),
    /// The server could not be reached.
    Unreachable,
    /// The connection ended before the answer.
    Closed,
    /// The answer was late.
    TimedOut,
    /// The answer was not HTTP/1.1.
    Malformed,
}

impl Outcome {
    /// The status, or 0 where there was none.
    pub fn status(self) -> u16 {
        match self {
            Outcome::Answered(status) => status,
            _ => 0,
        }
    }

    /// The name in a word or a number.
    pub fn name(self) -> String {
        match self {
            Outcome::Answered(status) => status.to_string(),
            Outcome::Unreachable => "unreachable".to_owned(),
            Outcome::Closed => "closed".to_owned(),
            Outcome::TimedOut => "timed out".to_owned(),
            Outcome::Malformed => "malformed".to_owned(),
        }
    }
}

/// Requests of one kind, or of all.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Latencies in nanoseconds, of failures too.
    pub latency: Histogram,
    /// Requests that failed with their last attempt.
    pub failures: u64,
    /// Attempts after a first one.
    pub retries: u64,
    /// Bytes sent, heads included.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Number of requests by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
}

impl Counts {
    /// Counts one.
    pub(crate) fn record(&mut self, sample: &Sample) {
        self.latency.record(sample.latency_nanos);
        self.failures += u64::from(sample.is_failure);
        self.retries += u64::from(sample.attempts.saturating_sub(1));
        self.sent_bytes += sample.sent_bytes;
        self.received_bytes += sample.received_bytes;
        *self.outcomes.entry(sample.outcome).or_default() += 1;
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Counts) {
        self.latency.merge(&other.latency);
        self.failures += other.failures;
        self.retries += other.retries;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        for (outcome, count) in &other.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The counts by the requests' places in the plan.
    pub kinds: Vec<Counts>,
    /// Time from the end of the warm-up to the last answer.
    pub seconds: f64,
    /// Requests that were due and not sent before the run was over.
    pub unsent: u64,
}

impl Report {
    /// All kinds together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.kinds.iter().for_each(|counts| total.merge(counts));
        total
    }
}

/// The requests that ended within an interval.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its end, in seconds since the beginning.
    pub at_seconds: f64,
    /// Its duration.
    pub seconds: f64,
    /// Requests of all kinds.
    pub latency: Histogram,
    /// Number of those that failed.
    pub failures: u64,
}
