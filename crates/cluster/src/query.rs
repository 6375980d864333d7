//! The queries that several nodes can compute together.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use swiftwater_event::Millis;
use swiftwater_lang::{
    Dialect,
    plan::{Body, Query, Window, WindowClock},
};
use swiftwater_live::{SliceBoundaries, StandingQuery};

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
    /// The operator that computes it.
    pub operator: OperatorKey,
    /// The query by which workers match its events: without LIMIT, as those of one batch may be before it begins.
    pub(crate) matched: Arc<StandingQuery>,
    pub(crate) cuts: SliceBoundaries,
    /// The longest slice of its windows; none: its only slice is as long as its life.
    pub(crate) span_ms: Option<u64>,
    /// The number of records after which it is over.
    pub(crate) records_max: Option<u64>,
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
        Ok(DistributedQuery { number, begins, ends, query, operator, matched, cuts, span_ms, records_max })
    }

    /// The same query, computed by the operator that its node has named.
    #[must_use]
    pub fn by(self, operator: OperatorKey) -> DistributedQuery {
        DistributedQuery { operator, ..self }
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
