//! The queries that several nodes can compute together.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use swiftwater_event::Millis;
use swiftwater_lang::{
    Dialect,
    plan::{Body, Query, Raw, Star, Window, WindowClock},
};
use swiftwater_live::{SliceBoundaries, StandingQuery, event_filter};

use crate::QueryNumber;

/// The reason why a query cannot be computed on several nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDistributed {
    /// Its answer depends on the order of all events, which partitions do not have, or on what is on one node: see [`events_of`].
    #[error("the query needs all events on one node")]
    NeedsEvents,
    /// Its groups have no end.
    #[error(
        "groups over a cluster are answered at the end of a window or of the query: add WINDOWING, or an end as in STREAM(60000, TIME)"
    )]
    NoEnd,
    /// It samples, and needs all events on one node.
    #[error("over a cluster, only queries that nodes compute together can have SAMPLE")]
    Sample,
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
    /// The operator that computes it.
    pub operator: OperatorKey,
    /// The query by which workers match its events: without LIMIT, as those of one batch may be before it begins.
    pub(crate) matched: Arc<StandingQuery>,
    pub(crate) cuts: SliceBoundaries,
    /// The longest slice of its windows; none: its only slice is as long as its life.
    pub(crate) span_ms: Option<u64>,
    /// The number of records after which it is over.
    pub(crate) records_max: Option<u64>,
    /// Its windows wait for all partitions, however long.
    pub waits: bool,
    /// Its node computes it from whole events; it sees them in this way.
    pub(crate) events: Option<OfEvents>,
}

/// The way in which a node's query sees the events that workers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OfEvents {
    /// By ascending times, those of one time by partition and offset; false: as they come.
    pub(crate) in_order: bool,
    /// The maximum distance of an event's own time ahead of its message's, if windows go by it; `u64::MAX` if there is no limit.
    pub(crate) ahead_ms: Option<u64>,
}

/// The name of an operator: equal for queries that match the same events and make the same of them, with windows of the same lengths. A
/// hash of 128 bits, which only the node that serves a query computes: other releases may write it otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorKey(pub u64, pub u64);

impl OperatorKey {
    fn of(query: &StandingQuery) -> OperatorKey {
        let plan = &query.plan;
        let text = match query.meaning() {
            Some(meaning) => format!("{meaning:?} {:?}", plan.window),
            None => format!(
                "{:?} {:?} {:?} {:?} {:?} {:?}",
                plan.dialect, plan.sample, plan.views, plan.filter, plan.body, plan.order_by
            ),
        };
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &text).hash(&mut hasher);
            hasher.finish()
        };
        OperatorKey(hash(0), hash(1))
    }
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
        Ok(DistributedQuery::unchecked(number, begins, ends, query))
    }

    fn unchecked(
        number: QueryNumber,
        begins: Millis,
        ends: Option<Millis>,
        query: Arc<StandingQuery>,
    ) -> DistributedQuery {
        let of_windows = SliceBoundaries::of(&query, begins);
        let span_ms = of_windows.series().iter().map(|series| series.every).max();
        // Windows begin with the query.
        let mut cuts = if span_ms.is_some() { of_windows } else { SliceBoundaries::at(begins) };
        if let Some(ends) = ends {
            cuts = cuts.and(&SliceBoundaries::at(ends));
        }
        let operator = OperatorKey::of(&query);
        let matched = match query.plan.limit {
            Some(_) if matches!(query.plan.body, Body::Raw(_)) => {
                StandingQuery::compile(Query { limit: None, ..query.plan.clone() })
                    .map_or_else(|_| Arc::clone(&query), Arc::new)
            }
            _ => Arc::clone(&query),
        };
        let plan = &query.plan;
        let is_over_by_records =
            plan.window == Window::None && plan.order_by.is_empty() && matches!(plan.body, Body::Raw(_));
        let records_max = plan.limit.filter(|_| is_over_by_records);
        let events = None;
        DistributedQuery {
            number,
            begins,
            ends,
            query,
            operator,
            matched,
            cuts,
            span_ms,
            records_max,
            waits: false,
            events,
        }
    }

    /// A query that its node computes from whole events ([`events_of`]), as its answer depends on their order or on what the node alone
    /// has.
    pub fn of_events(
        number: QueryNumber,
        begins: Millis,
        ends: Option<Millis>,
        plan: &Query,
    ) -> Result<DistributedQuery, NotDistributed> {
        let query = StandingQuery::compile(events_of(plan)?).map_err(|_| NotDistributed::NeedsEvents)?;
        let is_of_records = matches!(plan.body, Body::Raw(_)) && plan.pattern.is_none();
        let in_order = !is_of_records || plan.window != Window::None;
        let ahead_ms = plan.event_time().map(|_| plan.max_ahead_ms().unwrap_or(u64::MAX));
        let events = Some(OfEvents { in_order, ahead_ms });
        Ok(DistributedQuery { events, ..DistributedQuery::unchecked(number, begins, ends, Arc::new(query)) })
    }

    /// The same query with another number and beginning.
    #[must_use]
    pub fn at(self, number: QueryNumber, begins: Millis, ends: Option<Millis>) -> DistributedQuery {
        let DistributedQuery { query, operator, events, waits, .. } = self;
        let moved = DistributedQuery::unchecked(number, begins, ends, query);
        DistributedQuery { operator, events, waits, ..moved }
    }

    /// The same query, computed by the operator that its node has named.
    #[must_use]
    pub fn by(self, operator: OperatorKey) -> DistributedQuery {
        DistributedQuery { operator, ..self }
    }

    /// True if its node computes it from events.
    pub fn is_of_events(&self) -> bool {
        self.events.is_some()
    }

    /// True if its results are groups.
    pub fn has_groups(&self) -> bool {
        matches!(self.query.plan.body, Body::Group(_))
    }

    /// True if it sees the events of this time.
    pub(crate) fn sees(&self, time: Millis) -> bool {
        time >= self.begins && self.ends.is_none_or(|ends| time < ends)
    }
}

/// The query for the events that one node needs to compute a query alone: all that may match it. With windows by the events' own time
/// these are all events, as each of them may close windows.
pub fn events_of(plan: &Query) -> Result<Query, NotDistributed> {
    if plan.sample.is_some() {
        return Err(NotDistributed::Sample);
    }
    Ok(Query {
        duration_ms: None,
        pattern: None,
        views: Vec::new(),
        filter: event_filter(plan).filter(|_| plan.event_time().is_none()),
        body: Body::Raw(Raw { star: Some(Star::default()), columns: Vec::new() }),
        order_by: Vec::new(),
        limit: None,
        window: Window::None,
        outer: None,
        ..plan.clone()
    })
}

fn check(query: &StandingQuery, has_end: bool) -> Result<(), NotDistributed> {
    let plan = &query.plan;
    let goes_by_arrival = match &plan.window {
        Window::None | Window::Time { clock: WindowClock::Arrival, .. } => true,
        Window::Time { .. } | Window::Records { .. } | Window::Session { .. } => false,
    };
    if let Body::Group(_) = &plan.body
        && plan.window == Window::None
        && !has_end
        && plan.pattern.is_none()
    {
        return Err(NotDistributed::NoEnd);
    }
    let is_ordered = match &plan.body {
        Body::Raw(_) => false,
        Body::Group(group) => group.aggregates.iter().any(|one| one.function.is_ordered()),
    };
    let has_joins = query.joins().next().is_some();
    let is_distributed = plan.dialect == Dialect::Native
        && plan.pattern.is_none()
        && goes_by_arrival
        && !is_ordered
        && !has_joins;
    if is_distributed { Ok(()) } else { Err(NotDistributed::NeedsEvents) }
}
