//! A standing query as it runs: its collector, the operator that it shares, and when it is next to be looked at.
//!
//! The merge of its stream owns it. The modules below take its steps in, make its emits, checkpoint it and account for
//! it.

mod checkpoint;
mod emits;
mod steps;
mod usage;

use std::sync::Arc;

use swiftwater_event::Millis;
use swiftwater_lang::plan::{Body, Window};
use swiftwater_live::{Collector, CollectorLimits, QueryNumber, Slices, StandingQuery};

pub(crate) use self::emits::EmitContext;
use crate::{Counts, EndReason, QueryCost, operator::Tally, query::handle::QueryHandle, rate::EmitRate};

/// The state that changes as it runs; its stream's merge lock guards it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) handle: Arc<QueryHandle>,
    query: Arc<StandingQuery>,
    limits: CollectorLimits,
    /// The state, made when there is something to do: most of very many queries wait for a first match.
    work: Option<Box<QueryWork>>,
    /// The first event that it sees.
    pub(crate) first_offset: u64,
    /// Its end was asked for, so that it is not asked for again.
    pub(crate) is_ending: bool,
    /// Records were lost to the bound on one batch's.
    pub(crate) is_cut: bool,
    /// It is being taken out of the stream.
    pub(crate) is_leaving: bool,
    /// Its last emit was made.
    pub(crate) is_finished: bool,
    /// Its place in the stream's agenda.
    pub(crate) due: Option<Millis>,
}

/// The results and costs of a query.
#[derive(Debug)]
pub(crate) struct QueryWork {
    pub(crate) collector: Collector,
    /// Its merged groups, where it shares them with nobody.
    slices: Slices,
    /// The operator whose groups it looks at, where others may too.
    pub(crate) operator: Option<QueryNumber>,
    /// The work of that operator for it, and its share of that one's bytes.
    pub(crate) shared: Tally,
    pub(crate) shared_bytes: u64,
    counts: Counts,
    cost: QueryCost,
    emits: u64,
    rate: Option<EmitRate>,
    records: u64,
    /// Operations that could not be done in making emits; `counts` has them, too.
    result_errors: u64,
    /// Bytes that its groups hold on the shards.
    shard_bytes: i64,
    /// Its bytes as last added to the engine's total.
    accounted_bytes: u64,
    /// The position after the last event that it sees, once LIMIT is reached or its end has begun.
    pub(crate) last_position: Option<u64>,
    /// The reason of its end.
    pub(crate) ended: Option<EndReason>,
}

impl Running {
    /// A query that has done nothing yet.
    pub(crate) fn new(
        handle: Arc<QueryHandle>,
        query: Arc<StandingQuery>,
        limits: CollectorLimits,
        first_offset: u64,
    ) -> Running {
        // A query without a state has no time at which its next window closes, and shares nothing.
        let waits = query.plan.window == Window::None && matches!(query.plan.body, Body::Raw(_));
        let mut running = Running {
            handle,
            query,
            limits,
            work: None,
            first_offset,
            is_ending: false,
            is_leaving: false,
            is_cut: false,
            is_finished: false,
            due: None,
        };
        if !waits {
            running.work();
        }
        running
    }

    /// Its work; the work begins now if it has not.
    pub(crate) fn work(&mut self) -> &mut QueryWork {
        let (query, limits, started) = (&self.query, self.limits, self.handle.meta.received);
        self.work.get_or_insert_with(|| {
            Box::new(QueryWork::new(Collector::new(Arc::clone(query), started, started, limits)))
        })
    }

    /// It begins with another collector than its own.
    pub(crate) fn begin(&mut self, collector: Collector) {
        self.work = Some(Box::new(QueryWork::new(collector)));
    }

    /// The reason of its end, and the first event that it did not see.
    pub(crate) fn end(&self) -> (EndReason, u64) {
        let work = self.work.as_ref();
        let last = work.and_then(|work| work.last_position);
        let reason = work.and_then(|work| work.ended.clone());
        (reason.unwrap_or(EndReason::Killed), last.unwrap_or(self.first_offset))
    }

    /// Slices by arrival that begin before this are over at `now`; none where there are no such.
    pub(crate) fn is_over_before(&self, now: Millis) -> Option<i64> {
        self.work.as_ref().and_then(|work| work.collector.is_over_before(now))
    }

    /// True if its results are of windows, or of groups at its end.
    pub(crate) fn has_windows(&self) -> bool {
        self.query.plan.window != Window::None || matches!(self.query.plan.body, Body::Group(_))
    }

    /// Returns true if windows close singly, as [`Collector::closes_singly`].
    pub(crate) fn closes_singly(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.collector.closes_singly())
    }

    /// Returns true if closed windows wait, as [`Collector::lags`].
    pub(crate) fn lags(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.collector.lags())
    }

    /// The position from which on it needs slices.
    pub(crate) fn needs_from(&self) -> i64 {
        self.work.as_ref().map_or(i64::MIN, |work| work.collector.needs_from())
    }

    /// The time of its next check: a window closes, or its duration is over.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        let work = self.work.as_ref();
        let closes = work.and_then(|work| work.collector.due());
        let told = work.and_then(|work| work.rate.as_ref()?.due());
        [closes, self.handle.ends(), told].into_iter().flatten().min()
    }

    /// The arrival at which an idle stream closes something of this query alone.
    pub(crate) fn idle_due(&self) -> Option<Millis> {
        let work = self.work.as_ref().filter(|_| !self.is_ending)?;
        work.collector.idle_due(&work.slices)
    }

    /// The operator whose groups it looks at, where others may too.
    pub(crate) fn operator(&self) -> Option<QueryNumber> {
        self.work.as_ref().and_then(|work| work.operator)
    }

    /// Emits so far.
    pub(crate) fn emits(&self) -> u64 {
        self.work.as_ref().map_or(0, |work| work.emits)
    }

    /// Records so far.
    pub(crate) fn records(&self) -> u64 {
        self.work.as_ref().map_or(0, |work| work.records)
    }

    /// Reads what a step needs; what it answers means nothing.
    pub(crate) fn touch(&self) -> u64 {
        let handle = self.handle.number ^ u64::from(self.handle.mailbox.has_tasks());
        let Some(work) = &self.work else { return handle };
        let counts =
            work.counts.seen ^ work.counts.expression_errors ^ work.cost.candidates ^ work.cost.cpu_nanos;
        let rest = work.emits ^ work.accounted_bytes ^ u64::from(work.rate.is_some());
        handle ^ counts ^ rest ^ work.collector.touch()
    }
}

impl QueryWork {
    fn new(collector: Collector) -> QueryWork {
        QueryWork {
            collector,
            slices: Slices::default(),
            operator: None,
            shared: Tally::default(),
            shared_bytes: 0,
            counts: Counts::default(),
            cost: QueryCost::default(),
            emits: 0,
            rate: None,
            records: 0,
            result_errors: 0,
            shard_bytes: 0,
            accounted_bytes: 0,
            last_position: None,
            ended: None,
        }
    }

    fn bytes(&self) -> u64 {
        let merged = self.collector.bytes() + self.slices.bytes();
        merged as u64 + u64::try_from(self.shard_bytes).unwrap_or(0)
    }
}
