//! The objects of the catalog as they run, by kind: their tasks, state and status.

pub(crate) mod alerts;
pub(crate) mod durable_query;
pub(crate) mod endpoints;
pub(crate) mod jobs;
pub(crate) mod lookup_join;
pub(crate) mod sinks;
pub(crate) mod stream_joins;
pub(crate) mod views;
