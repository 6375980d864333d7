//! The queries that several nodes can compute together.

use std::sync::Arc;

use swiftwater_event::Millis;
use swiftwater_lang::{
    Dialect,
    plan::{Body, Window, WindowClock},
};
use swiftwater_live::{SliceBoundaries, SlicePlan, StandingQuery};

use crate::QueryNumber;

/// The reason why a query cannot be computed on several nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDistributed {
    /// It is in Bullet's dialect.
    #[error("queries over a cluster are in the native dialect")]
    Bullet,
    /// It looks for a pattern.
    #[error("MATCH_RECOGNIZE needs the order of all events, which partitions do not have")]
    Pattern,
    /// Its events are joined.
    #[error("events of a cluster cannot be joined: tables and views are on one node")]
    Join,
    /// Its windows are by record, or sessions.
    #[error("windows over a cluster are by TIME: TUMBLING(n, TIME), or EVERY(n, TIME, …)")]
    Window,
    /// Its windows go by the events' own time.
    #[error("windows over a cluster go by the time of the message: TIME in place of EVENT")]
    EventTime,
    /// An aggregate depends on the order of all events.
    #[error("{0} depends on the order of all events, which partitions do not have")]
    Ordered(&'static str),
    /// Its groups have no end.
    #[error(
        "groups over a cluster are answered at the end of a window or of the query: add WINDOWING, or an end as in STREAM(60000, TIME)"
    )]
    NoEnd,
}

/// A query that several nodes compute.
#[derive(Debug, Clone)]
pub struct DistributedQuery {
    /// Its number.
    pub number: QueryNumber,
    /// The time from which on it sees events: that of its message.
    pub begins: Millis,
    /// The end of its duration: it sees no event from then on.
    pub ends: Option<Millis>,
    /// It, compiled.
    pub query: Arc<StandingQuery>,
    pub(crate) cuts: SliceBoundaries,
}

impl DistributedQuery {
    /// A query that begins at the time of its message, and ends at another, or when it is ended.
    pub fn new(
        number: QueryNumber,
        begins: Millis,
        ends: Option<Millis>,
        query: Arc<StandingQuery>,
    ) -> Result<DistributedQuery, NotDistributed> {
        check(&query, ends.is_some())?;
        let mut cuts = SliceBoundaries::of(&query, begins).and(&SliceBoundaries::at(begins));
        if let Some(ends) = ends {
            cuts = cuts.and(&SliceBoundaries::at(ends));
        }
        Ok(DistributedQuery { number, begins, ends, query, cuts })
    }

    /// True if its results are groups.
    pub fn has_groups(&self) -> bool {
        matches!(self.query.plan.body, Body::Group(_))
    }

    /// True if it sees the events of this time.
    pub(crate) fn sees(&self, time: Millis) -> bool {
        time >= self.begins && self.ends.is_none_or(|ends| time < ends)
    }

    pub(crate) fn slices(&self) -> Arc<SlicePlan> {
        Arc::new(SlicePlan::new(self.cuts.clone()))
    }
}

fn check(query: &StandingQuery, has_end: bool) -> Result<(), NotDistributed> {
    let plan = &query.plan;
    if plan.dialect != Dialect::Native {
        return Err(NotDistributed::Bullet);
    }
    if plan.pattern.is_some() {
        return Err(NotDistributed::Pattern);
    }
    if query.joins().next().is_some() {
        return Err(NotDistributed::Join);
    }
    match &plan.window {
        Window::Records { .. } | Window::Session { .. } => return Err(NotDistributed::Window),
        Window::Time { clock: WindowClock::Event { .. }, .. } => return Err(NotDistributed::EventTime),
        Window::None | Window::Time { clock: WindowClock::Arrival, .. } => {}
    }
    let Body::Group(group) = &plan.body else { return Ok(()) };
    if let Some(ordered) = group.aggregates.iter().find(|one| one.function.is_ordered()) {
        return Err(NotDistributed::Ordered(ordered.function.name()));
    }
    match plan.window == Window::None && !has_end {
        true => Err(NotDistributed::NoEnd),
        false => Ok(()),
    }
}
