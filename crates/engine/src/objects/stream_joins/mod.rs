//! Joins: pairs of events of two stored streams, which go into a third.
//!
//! Which events are pairs is told in `live`; it follows from the order of the log and from nothing else. A task for each join
//! ([`task`]) reads the log from where it was, and puts on disk, in one commit: what it keeps of events ([`state`]), how far it
//! is, to the pair, and the pairs that are to go into the target, under a number of their own. Only then are these appended, and
//! the target stores each number once. So after a crash, wherever it comes, the same pairs are there, each once.
//! The log keeps what a join has not committed. Pairs that the target cannot take at present wait on disk, so that a log that is full
//! gets room all the same.

mod join;
mod show;
mod state;
mod task;

pub(crate) use join::{Join, JoinHolds};
pub use show::JoinsMetrics;
pub(crate) use task::joins_at_start;
