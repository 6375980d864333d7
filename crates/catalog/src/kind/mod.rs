//! One module for each kind of object: its entry in the catalog, its snapshot, and the changes that create and drop it.

pub mod alert;
pub mod durable_query;
pub mod endpoint;
pub mod job;
pub mod lookup_join;
pub mod saved;
pub mod search_index;
pub mod sink;
pub mod stream;
pub mod stream_join;
pub mod view;
