//! The part of a stream's events that results are of, where the events are matched elsewhere.

use std::{
    fmt::Debug,
    sync::{Arc, atomic::AtomicI64},
};

use swiftwater_event::Millis;
use swiftwater_live::QueryNumber;

use crate::{emit::ClusterMeta, lock_order::OrderedMutex};

/// The knowledge of the partitions that results of a remote stream's queries have.
pub trait Coverage: Debug + Send + Sync {
    /// The partitions whose events a result of a query has: of the window from one time to another, or of all until now. None
    /// for a query that it does not know.
    fn of(&self, query: QueryNumber, window: Option<(Millis, Millis)>) -> Option<ClusterMeta>;
}

/// The state of a stream whose events are matched elsewhere.
#[derive(Debug)]
pub(crate) struct RemoteState {
    /// Windows that end here or before are closed.
    pub(crate) time: AtomicI64,
    pub(crate) coverage: Arc<dyn Coverage>,
    /// Queries that have ended, for the room above; true if only the engine ends.
    pub(crate) ended: OrderedMutex<Vec<(QueryNumber, bool)>>,
}
