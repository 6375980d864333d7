//! Stream joins: write the pairs of matching events of two stored streams into a third.
//!
//! The crate `live` decides which events pair; this depends only on the order of the log. The task of a join ([`task`])
//! reads the log from its position. In one commit it persists the events that it retains ([`state`]), its position, and the
//! pairs for the target. The position is exact to the pair, and the pairs have a number of their own. Only then does it
//! append the pairs, and the target stores each number once. After a crash at any instant, the same pairs therefore exist,
//! each once. The log retains what a join has not committed. Pairs that the target cannot take wait on disk, so that a full
//! log can still be trimmed.

mod ddl;
mod join;
mod show;
mod state;
mod task;

pub(crate) use ddl::DropJoin;
pub(crate) use join::Join;
