//! A sample of recent events, up to 256, decoded. Conditions are tried on it before one is chosen as a query's access
//! predicate. If events have many more candidates than expected, access predicates are chosen anew. No answer depends on
//! the sample, only its cost.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use swiftwater_event::{DecodePlan, Decoded};

use super::{
    condition::{Condition, Test},
    word_test::WordCounts,
};

/// Events of a sample at most.
pub(crate) const SAMPLE_ROWS: usize = 256;

/// The rows of a sample on which conditions are tried that read containers.
const SAMPLE_ROWS_OF_CONTAINERS: usize = 32;

/// A sample is taken of the first batch, and of every so many after it.
const BATCHES_PER_SAMPLE: u64 = 256;

/// Weight of a condition's own estimate, in rows, beside the sample.
const PRIOR_ROWS: f64 = 4.0;

/// Events after which a drift is tested; twice as many after each new choice of access predicates, so that a choice
/// without a better alternative is not repeated.
const EVENTS_TO_DRIFT: u64 = 20_000;
/// An event may have so many times the candidates that it was expected to have…
const DRIFT: f64 = 4.0;
/// …and so many more.
const CANDIDATES_ALLOWED: f64 = 16.0;

/// The sample of a stream, shared by all versions of its index.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    batches: AtomicU64,
    latest: Mutex<Option<Arc<Sample>>>,
    /// Events and candidates since access predicates were last chosen.
    events: AtomicU64,
    candidates: AtomicU64,
    /// Times that they were chosen anew.
    chosen: AtomicU64,
}

/// A sample of recent events.
#[derive(Debug)]
pub(crate) struct Sample {
    plan: Arc<DecodePlan>,
    decoded: Decoded,
    /// By column; counted when the first search is filed.
    words: Box<[OnceLock<WordCounts>]>,
}

impl Sample {
    /// How many of its events have each word of what a condition is on, if that is on words.
    pub(super) fn word_counts(&self, condition: &Condition) -> Option<&WordCounts> {
        let Test::Words(_) = condition.test else { return None };
        let place = self.plan.find(&condition.want)?.0 as usize;
        let (column, counts) = (self.decoded.columns.get(place)?, self.words.get(place)?);
        Some(counts.get_or_init(|| WordCounts::of(column, self.decoded.rows)))
    }
}

impl Statistics {
    /// Counts a batch; returns true if a sample is to be taken of it.
    pub(crate) fn is_due(&self) -> bool {
        self.batches.fetch_add(1, Ordering::Relaxed).is_multiple_of(BATCHES_PER_SAMPLE)
    }

    /// Stores a sample.
    pub(crate) fn store_sample(&self, plan: &Arc<DecodePlan>, decoded: Decoded) {
        let words = decoded.columns.iter().map(|_| OnceLock::new()).collect();
        let sample = Arc::new(Sample { plan: Arc::clone(plan), decoded, words });
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(sample);
    }

    /// Counts events, and the candidates that tables told of.
    pub(crate) fn count(&self, events: u64, candidates: u64) {
        self.events.fetch_add(events, Ordering::Relaxed);
        self.candidates.fetch_add(candidates, Ordering::Relaxed);
    }

    /// True if events have many more candidates than was expected when access predicates were chosen.
    pub(crate) fn has_drifted(&self, expected: f64) -> bool {
        let events = self.events.load(Ordering::Relaxed);
        let chosen = self.chosen.load(Ordering::Relaxed).min(32);
        if events < EVENTS_TO_DRIFT << chosen {
            return false;
        }
        let candidates = self.candidates.load(Ordering::Relaxed);
        candidates as f64 > events as f64 * (expected * DRIFT + CANDIDATES_ALLOWED)
    }

    /// Access predicates are being chosen anew.
    pub(crate) fn has_settled(&self) {
        self.events.store(0, Ordering::Relaxed);
        self.candidates.store(0, Ordering::Relaxed);
        self.chosen.fetch_add(1, Ordering::Relaxed);
    }

    /// The latest sample.
    pub(crate) fn latest(&self) -> Option<Arc<Sample>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Rows of a batch for a sample: evenly spread.
pub(crate) fn sampled_rows(rows: usize) -> Vec<u32> {
    let taken = rows.min(SAMPLE_ROWS);
    (0..taken).map(|at| (at * rows / taken) as u32).collect()
}

/// The share of events that a condition holds of: of the sample, and where that says little, as a rule.
pub(crate) fn estimate(sample: Option<&Sample>, condition: &Condition) -> f64 {
    if let Test::Words(words) = &condition.test {
        return words.share(sample.and_then(|sample| sample.word_counts(condition)));
    }
    let guess = condition.test.guess();
    let Some(sample) = sample else { return guess };
    let Some(want) = sample.plan.find(&condition.want) else { return guess };
    let Some(column) = sample.decoded.columns.get(want.0 as usize) else { return guess };
    let (test, rows) = match &condition.test {
        // An expression takes long to test; what finds it is what counts.
        Test::Pattern(pattern) => match &pattern.required {
            Some(required) => (required, SAMPLE_ROWS),
            None => return guess,
        },
        // A container is read for each row.
        test @ (Test::Size(_) | Test::Key(_)) => (test, SAMPLE_ROWS_OF_CONTAINERS),
        test => (test, SAMPLE_ROWS),
    };
    let rows = sample.decoded.rows.min(rows);
    let held = (0..rows as u32).filter(|&row| test.holds_at(column, row)).count();
    (held as f64 + guess * PRIOR_ROWS) / (rows as f64 + PRIOR_ROWS)
}
