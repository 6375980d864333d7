//! A module for each kind of object: its entry in the catalog, what a snapshot holds of it, and what creates and drops it.

pub mod alert;
pub mod durable_query;
pub mod endpoint;
pub mod job;
pub mod lookup_join;
pub mod sink;
pub mod stream;
pub mod stream_join;
pub mod view;
