//! Plans the steps of the durable queries over a stream, such as begins and ends, and between which events each runs.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use swiftwater_catalog::kind::durable_query::QueryCheckpoint;
use swiftwater_event::Millis;

use crate::{EndReason, SubmitOptions};
use swiftwater_runtime::parts::{QueryHandle, WantedQuery};

/// The planned steps, and the position reached.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The steps in their order.
    pub(super) steps: VecDeque<Step>,
    /// The offset of the next event that is given.
    pub(super) position: u64,
    /// Time has come so far.
    pub(super) time: Millis,
    /// Queries that have begun.
    pub(super) standing: Vec<Arc<QueryHandle>>,
    /// Their last checkpoint in the log.
    pub(super) noted: BTreeMap<Box<str>, QueryCheckpoint>,
    /// True if there is no follower any more.
    pub(super) is_over: bool,
}

pub(super) struct Step {
    /// It is done before the event at this offset.
    pub(super) offset: u64,
    /// The least time of the step.
    pub(super) at: Millis,
    /// It is written down.
    pub(super) is_sure: bool,
    pub(super) query: Arc<QueryHandle>,
    pub(super) what: PlannedAction,
}

/// The action of a step.
pub(super) enum PlannedAction {
    /// A query begins.
    Begin(Box<(WantedQuery, SubmitOptions)>),
    /// It ends.
    End(EndReason),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Plan {
    /// Plans a step, behind those that are done before the same event and no later: after a restart an end comes before a later one
    /// of another query, whichever is planned first.
    pub(super) fn add(
        &mut self,
        query: &Arc<QueryHandle>,
        (offset, at): (u64, Millis),
        what: PlannedAction,
        is_sure: bool,
    ) {
        let place = self.steps.partition_point(|step| (step.offset, step.at) <= (offset, at));
        self.steps.insert(place, Step { offset, at, is_sure, query: Arc::clone(query), what });
    }

    /// The last step planned for a query was logged, or will not be.
    pub(super) fn confirm(&mut self, query: &Arc<QueryHandle>, is_written: bool) {
        let of_query = |step: &Step| !step.is_sure && Arc::ptr_eq(&step.query, query);
        let Some(place) = self.steps.iter().position(of_query) else { return };
        if is_written {
            self.steps[place].is_sure = true;
        } else {
            self.steps.remove(place);
        }
    }

    /// True if a query has begun or is to.
    pub(super) fn has(&self, query: &Arc<QueryHandle>) -> bool {
        let all = self.standing.iter().chain(self.steps.iter().map(|step| &step.query));
        all.into_iter().any(|one| Arc::ptr_eq(one, query))
    }
}
