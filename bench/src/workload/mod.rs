//! Defines the events and the queries over them. Both are seeded, so that a child makes the same queries as its parent made
//! events for. The expected answers are counted while the events are written.

mod log_searches;
mod mixed;
mod planted;
mod sized;

use serde::{Deserialize, Serialize};
use swiftwater_testkit::published::PublishedEvents;

use log_searches::SearchedLogs;
pub(crate) use mixed::{Answer, Mixed};
use planted::{Planted, Set};
use sized::Sized;

/// The share of the events that match a query, where nothing else is said.
pub(crate) const MATCH_SHARE: f64 = 0.01;
const SEED: u64 = 20_260_101;

/// A workload by its few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Spec {
    /// Equality queries spread over 50 paths; 1 % of the events match one of them.
    Published {
        /// Their number; 0: no event matches anything.
        queries: usize,
    },
    /// The sets of [`EQUALITY_SETS`], one after another; 1 % of the events match one query of each set.
    Equality,
    /// As the first, with the number of paths chosen, and how many of the queries an event matches.
    Planted {
        /// Their number.
        queries: usize,
        /// Over which they are spread.
        paths: usize,
        /// Queries that a thousand events match, all together.
        matches_per_thousand: usize,
    },
    /// Queries of six forms over 50 paths by Zipf's law; an event matches about ten of 100,000.
    Mixed {
        /// Their number.
        queries: usize,
        /// The kind of each answer.
        answer: Answer,
    },
    /// Searches over log lines of 350 bytes, of which a line matches about one of ten thousand.
    SearchedLogs {
        /// How many.
        queries: usize,
    },
    /// A thousand equality queries on one path of events of about so many bytes; 1 % of the events match.
    Sized {
        /// Bytes of an event.
        bytes: usize,
    },
}

/// Queries and paths of each set of [`Spec::Equality`].
pub(crate) const EQUALITY_SETS: [(usize, usize); 5] =
    [(1, 1), (1000, 1), (1000, 50), (100_000, 1), (100_000, 50)];

/// Events being written.
pub(crate) trait Workload {
    /// The text of each query.
    fn queries(&self) -> Vec<String>;
    /// Appends so many events, each on a line.
    fn write(&mut self, events: usize, out: &mut Vec<u8>);
    /// Number of the events written so far that match each query.
    fn truth(&self) -> &[u64];
}

impl Spec {
    /// Begins it; always the same.
    pub(crate) fn begin(self) -> Box<dyn Workload> {
        match self {
            Spec::Published { queries } => Box::new(published(queries)),
            Spec::Equality => Box::new(Planted::exclusive(
                SEED,
                &EQUALITY_SETS.map(|(queries, paths)| Set { queries, paths }),
            )),
            Spec::Planted { queries, paths, matches_per_thousand } => {
                let matches = matches_per_thousand as f64 / 1000.0;
                Box::new(Planted::together(SEED, Set { queries, paths }, matches))
            }
            Spec::Mixed { queries, answer } => Box::new(Mixed::new(SEED, queries, answer)),
            Spec::SearchedLogs { queries } => Box::new(SearchedLogs::new(queries)),
            Spec::Sized { bytes } => Box::new(Sized::new(SEED, bytes)),
        }
    }

    /// Events made between two writes: some megabytes.
    pub(crate) fn chunk_events(self) -> usize {
        match self {
            Spec::Sized { bytes } => (4_000_000 / bytes).max(1),
            _ => 2000,
        }
    }
}

/// The events that a file holds for so many queries, and the queries.
pub(crate) fn published(queries: usize) -> PublishedEvents {
    PublishedEvents::new(SEED, queries, if queries == 0 { 0.0 } else { MATCH_SHARE })
}

impl Workload for PublishedEvents {
    fn queries(&self) -> Vec<String> {
        PublishedEvents::queries(self)
    }

    fn write(&mut self, events: usize, out: &mut Vec<u8>) {
        PublishedEvents::write(self, events, out);
    }

    fn truth(&self) -> &[u64] {
        PublishedEvents::truth(self)
    }
}

/// `SELECT what FROM …` with a condition.
fn query_text(what: &str, condition: &str) -> String {
    format!("SELECT {what} FROM STREAM(MAX, TIME) WHERE {condition}")
}
