//! Durable queries: detached live queries over stored streams, which go on after a restart with what they had counted.
//!
//! What such a query is, from which event on, and how far its reader is, is in the catalog, so in the log. It is given
//! its stream's synced events and nothing else ([`follower`]): each follows from the one before, and time from their arrivals,
//! so whoever goes through them again comes to the same. A restart does, from where each query needs them ([`submit`]).

mod checkpoint;
mod follower;
mod plan;
mod replay;
mod submit;

pub(crate) use follower::{FOLLOWER, Followers};
