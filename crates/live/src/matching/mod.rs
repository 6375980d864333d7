//! Finds, for a batch of events, the queries that each concerns.

pub(crate) mod access;
mod index;
mod part;

pub use index::{Index, QueryNumber};
pub use part::is_sampled;
pub(crate) use part::{Entry, MatchInput, Matched, mistyped_rows};
