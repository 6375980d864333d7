//! Durable queries: detached live queries over stored streams. After a restart they continue with what they had counted.
//!
//! The catalog, and so the log, has each query, the offset that it begins at, how far its reader is, and its end. The
//! query runs on a stream of its own that gets the synced events of the stored stream and nothing else ([`follower`]).
//! Time advances from one event's arrival to the next, so every replay of these events has the same result. A restart
//! replays them from where each query needs them ([`submit`]), and nothing is handed over while events come.

mod checkpoint;
mod follower;
mod plan;
mod replay;
mod submit;

pub(crate) use follower::Followers;
