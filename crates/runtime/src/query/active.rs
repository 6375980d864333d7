//! A standing query as it runs: its collector, its reader, what it has cost, and how its results become emits.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use swiftwater_catalog::kind::durable_query::{QueryCheckpoint, ResumePoint};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{
    Dialect,
    plan::{Body, Window},
};
use swiftwater_live::{
    Collector, CollectorLimits, Partial, QueryNumber, QueryStep, ResultSet, ResultWindow, SingleRow, Slices,
    StandingQuery, Timed,
};
use tracing::warn;

use crate::{
    Counts, EndReason, EngineConfig, Finished, QueryCost, QueryMeta, Records, StreamMeta, WindowMeta,
    limits::{self, Full},
    operator::{Operator, Tally},
    query::resume_point::ResumePoints,
    rate::{EmitRate, Looks},
    subscriber_queue::{Delivery, EmitRest, Numbering, SubscriberQueue, Waiting},
};

/// What everybody may know of a query without a lock.
#[derive(Debug)]
pub struct QueryHandle {
    /// Its number in this process.
    pub number: QueryNumber,
    /// What its emits say of it.
    pub meta: Arc<QueryMeta>,
    /// The stream that it names.
    pub stream: StreamName,
    pub(crate) dialect: Dialect,
    /// When its duration will be over.
    pub(crate) ends: Option<Millis>,
    pub(crate) is_detached: AtomicBool,
    /// It was killed, and its last results are there for who asks for them by its id.
    pub(crate) is_killed: AtomicBool,
    pub(crate) mailbox: SubscriberQueue,
    /// Where it is durable, what is to be known of that.
    pub following: Option<Box<ResumePoints>>,
    /// Why it is not, where it outlives its asker.
    pub(crate) fleeting: OnceLock<Fleeting>,
    /// What its asker should know: in its first emit and in its last.
    pub(crate) warnings: Box<[String]>,
}

/// Why a query that outlives its asker does not outlive the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fleeting {
    /// It is one of Bullet's.
    Bullet,
    /// Its records tell when they were answered.
    Times,
    /// Its stream is not stored.
    Unstored,
    /// Its events are joined first.
    Joined,
    /// So many go on that no further one may.
    TooMany,
}

impl Fleeting {
    /// What is said of it, of a query over this stream.
    pub fn why(self, stream: &StreamName, config: &EngineConfig) -> Box<str> {
        match self {
            Fleeting::Bullet => {
                "by Bullet's rules windows end when the clock is looked at, which leaves no trace".into()
            }
            Fleeting::Times => "its records tell when they were answered (`times`)".into(),
            Fleeting::Unstored => format!("stream `{stream}` is not stored").into(),
            Fleeting::Joined => {
                "its events are joined with rows as these were when each came, which cannot be had again"
                    .into()
            }
            Fleeting::TooMany => {
                let most = config.detached_durable_max;
                format!("{most} queries that go on stand already (`engine.detached_durable_max`)").into()
            }
        }
    }
}

/// What changes as it runs; its stream's merge lock guards it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) handle: Arc<QueryHandle>,
    query: Arc<StandingQuery>,
    limits: CollectorLimits,
    /// Made when there is something to do: most of very many queries wait for a first match.
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

/// What a query has made, and what it has cost.
#[derive(Debug)]
pub(crate) struct QueryWork {
    pub(crate) collector: Collector,
    /// Its merged groups, where it shares them with nobody.
    slices: Slices,
    /// The operator whose groups it looks at, where others may too.
    pub(crate) operator: Option<QueryNumber>,
    /// What that one has done for it, and its share of that one's bytes.
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
    /// What was last added to the engine's total for it.
    accounted_bytes: u64,
    /// The position after the last event that it sees, once LIMIT is reached or its end has begun.
    pub(crate) last_position: Option<u64>,
    /// Why it has ended.
    pub(crate) ended: Option<EndReason>,
}

/// Numbers of the whole engine that queries add to.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) submitted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) records_out: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) records_dropped: AtomicU64,
    pub(crate) subscriber_bytes: Apart,
    pub(crate) state_bytes: AtomicU64,
}

impl Totals {
    /// Something that held `before` bytes holds `bytes`; answers what all hold. Where that is the same nothing is
    /// written, for all threads read it.
    pub(crate) fn account(&self, before: u64, bytes: u64) -> u64 {
        if bytes == before {
            return self.state_bytes.load(Ordering::Relaxed);
        }
        let total = self.state_bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        total.wrapping_add(bytes).wrapping_sub(before)
    }
}

/// Alone in its cache lines: readers write it while shards write what stands beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart(pub(crate) AtomicU64);

impl std::ops::Deref for Apart {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// What is known where emits are made.
pub(crate) struct EmitContext<'e> {
    pub(crate) config: &'e EngineConfig,
    pub(crate) totals: &'e Totals,
    pub(crate) stream: StreamMeta,
    pub(crate) stream_exists: bool,
    /// The stream's looks at the clock, where there are such.
    pub(crate) looks: Option<&'e Looks>,
    pub(crate) now: Millis,
    pub(crate) now_micros: i64,
    /// Events are gone through again: how often a query answers is told of by no clock.
    pub(crate) is_again: bool,
}

impl Running {
    /// A query that has done nothing yet.
    pub(crate) fn new(
        handle: Arc<QueryHandle>,
        query: Arc<StandingQuery>,
        limits: CollectorLimits,
        first_offset: u64,
    ) -> Running {
        // What is not there yet cannot say when its next window closes, nor what it shares.
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

    /// What it makes; it begins now if it has not.
    pub(crate) fn work(&mut self) -> &mut QueryWork {
        let (query, limits, started) = (&self.query, self.limits, self.handle.meta.received);
        self.work.get_or_insert_with(|| {
            Box::new(QueryWork::new(Collector::new(Arc::clone(query), started, started, limits)))
        })
    }

    /// It goes on where a durable query was, and has seen nothing yet.
    pub(crate) fn resume(&mut self) {
        let handle = Arc::clone(&self.handle);
        let Some(following) = &handle.following else { return };
        self.first_offset = following.first;
        let (from, given) = (following.from.from.unwrap_or_default(), following.from.given);
        let Some(given) = given else { return };
        let work = self.work();
        (work.emits, work.records, work.result_errors) = (given.emits, given.records, given.result_errors);
        work.counts.matched = from.matched;
        work.counts.mistyped = from.mistyped;
        work.counts.expression_errors =
            from.expression_errors - from.result_errors.min(from.expression_errors) + given.result_errors;
        work.collector.resume(match following.numbering {
            Numbering::Emits => given.number,
            Numbering::Records => given.records,
        });
    }

    /// Notes for a durable query where it is, behind what it gave out last.
    fn pass_at(&self, at: Millis, position: u64) {
        let (Some(following), Some(work)) = (&self.handle.following, &self.work) else { return };
        let counts = self.counts(position);
        following.passed(ResumePoint {
            number: self.number(),
            at,
            offset: position,
            emits: work.emits,
            records: work.records,
            matched: counts.matched,
            mistyped: counts.mistyped,
            expression_errors: counts.expression_errors,
            result_errors: work.result_errors,
        });
    }

    /// The number of the last emit.
    fn number(&self) -> u64 {
        match &self.handle.following {
            Some(_) if self.numbers_records() => self.records(),
            _ => self.emits(),
        }
    }

    fn numbers_records(&self) -> bool {
        self.handle.following.as_ref().is_some_and(|following| following.numbering == Numbering::Records)
    }

    /// Why it has ended, and before which event.
    pub(crate) fn end(&self) -> (EndReason, u64) {
        let work = self.work.as_ref();
        let last = work.and_then(|work| work.last_position);
        let reason = work.and_then(|work| work.ended.clone());
        (reason.unwrap_or(EndReason::Killed), last.unwrap_or(self.first_offset))
    }

    /// How far a durable query is, at this time and when everything before `position` was looked at.
    pub(crate) fn note(&self, time: Millis, position: u64) -> Option<QueryCheckpoint> {
        if self.handle.following.as_ref()?.goes_on_anywhere() && self.work.is_some() {
            self.pass_at(time, position);
        }
        let collector = self.work.as_ref().map(|work| &work.collector);
        Some(self.handle.following.as_ref()?.note(self.handle.mailbox.frontier(), collector, time))
    }

    /// It begins with another collector than its own.
    pub(crate) fn begin(&mut self, collector: Collector) {
        self.work = Some(Box::new(QueryWork::new(collector)));
    }

    /// Slices by arrival that begin before this are over at `now`; none where there are no such.
    pub(crate) fn is_over_before(&self, now: Millis) -> Option<i64> {
        self.work.as_ref().and_then(|work| work.collector.is_over_before(now))
    }

    /// As [`Collector::closes_singly`].
    pub(crate) fn closes_singly(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.collector.closes_singly())
    }

    /// As [`Collector::lags`].
    pub(crate) fn lags(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.collector.lags())
    }

    /// From where on it needs slices.
    pub(crate) fn needs_from(&self) -> i64 {
        self.work.as_ref().map_or(i64::MIN, |work| work.collector.needs_from())
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

    /// The kind of the window that Bullet tells of a last emit, though nothing is left for it.
    pub(crate) fn last_window(&self) -> Option<&'static str> {
        let plan = &self.query.plan;
        match plan.window {
            Window::None => None,
            _ if plan.dialect == Dialect::Native => None,
            Window::Records { .. } => Some("record"),
            _ => Some("tumbling"),
        }
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

    /// Takes one shard's step on one batch, whose first event has the offset `first`.
    pub(crate) fn accept_step(
        &mut self,
        mut step: QueryStep,
        first: u64,
        out: &mut Vec<ResultSet>,
        now_micros: i64,
    ) {
        let work = self.work();
        work.cost.candidates += step.candidates;
        work.cost.residual_tests += step.residual_tests;
        work.cost.matches += step.matches;
        work.cost.cpu_nanos += step.nanos;
        work.counts.matched += step.matches;
        work.counts.mistyped += step.mistyped;
        work.counts.ahead += step.ahead;
        work.counts.expression_errors += step.expression_errors;
        work.shard_bytes += step.grown_bytes;
        if let Some(until) = step.timed.as_ref().and_then(|timed| timed.idle_until) {
            work.collector.advance_idle(until, &mut work.slices, now_micros, out);
            if work.collector.is_done() {
                work.last_position = Some(first);
            }
        }
        let mut done_at = None;
        let mut is_cut = false;
        if let Some(rows) = &mut step.rows {
            is_cut = rows.is_cut;
            let taken = work.collector.rows(rows, now_micros, out);
            if work.collector.is_done() {
                // What came after the last record that LIMIT asks for was not looked at, however batches were cut.
                work.counts.matched -= step.matches - rows.matched(taken);
                let last = taken.checked_sub(1).map_or(0, |last| u64::from(rows.rows[last]) + 1);
                done_at = Some(first + last);
            }
        }
        work.last_position = done_at.or(work.last_position);
        if let Some(chunk) = step.pattern.take() {
            let rows: Vec<u32> = chunk.events.iter().map(|event| event.row).collect();
            let taken = work.collector.pattern_events(*chunk, &mut work.slices, now_micros, out);
            if work.collector.is_done() {
                work.counts.matched -= (rows.len() - taken) as u64;
                let last = taken.checked_sub(1).map_or(0, |last| u64::from(rows[last]) + 1);
                work.last_position = Some(first + last);
            }
        }
        let is_in_order = !step.single_rows.is_empty() || step.timed.is_some();
        work.counts.late = work.collector.late();
        self.is_cut |= is_cut;
        if is_in_order {
            self.accept_in_order(step.single_rows, step.timed.map(|timed| *timed), out, now_micros);
        }
        self.count_pattern_faults();
    }

    /// Advances event time, as the stream was idle until then.
    pub(crate) fn advance_idle(&mut self, until: Millis, out: &mut Vec<ResultSet>, now_micros: i64) {
        let work = self.work();
        work.collector.advance_idle(until, &mut work.slices, now_micros, out);
    }

    /// The arrival at which an idle stream closes something of this query alone.
    pub(crate) fn idle_due(&self) -> Option<Millis> {
        let work = self.work.as_ref().filter(|_| !self.is_ending)?;
        work.collector.idle_due(&work.slices)
    }

    /// Takes the matched events of a batch one by one, and what it brings by the events' own time.
    pub(crate) fn accept_in_order(
        &mut self,
        single_rows: Vec<SingleRow>,
        timed: Option<Timed>,
        out: &mut Vec<ResultSet>,
        now_micros: i64,
    ) {
        let work = self.work();
        if !single_rows.is_empty() {
            work.collector.single_rows(single_rows, &mut work.slices, now_micros, out);
        }
        if let Some(timed) = timed {
            work.collector.timed(timed, &mut work.slices, now_micros, out);
        }
        work.counts.late = work.collector.late();
    }

    /// Counts what making the matches of a pattern could not do or use.
    fn count_pattern_faults(&mut self) {
        let work = self.work();
        let faults = work.collector.take_pattern_faults();
        work.counts.mistyped += faults.mistyped;
        work.counts.expression_errors += faults.expression_errors;
    }

    /// Takes slices that were held on a shard.
    pub(crate) fn accept_slices(&mut self, partials: Vec<Partial>) {
        for partial in partials {
            let work = self.work();
            work.shard_bytes -= partial.groups.bytes() as i64;
            work.collector.partial(partial, &mut work.slices);
        }
    }

    /// Closes the windows by arrival that are over at `now`, or the one that the last event closes; of its operator's
    /// groups, where there is one.
    pub(crate) fn close(
        &mut self,
        operator: Option<&mut Operator>,
        now: Option<Millis>,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        let work = self.work();
        let operator = operator.filter(|operator| !operator.passes_on);
        work.collector.share(operator.as_ref().is_some_and(|operator| operator.is_shared()));
        let slices = operator.map_or(&mut work.slices, |operator| &mut operator.slices);
        let parts = work.collector.parts();
        match now {
            Some(now) => work.collector.close_by_arrival(now, slices, now_micros, out),
            None => work.collector.close_by_event(slices, now_micros, out),
        }
        let parts = work.collector.parts() - parts;
        if let Some(rate) = &mut work.rate {
            rate.add_parts(parts);
        }
        self.count_pattern_faults();
    }

    /// Its last result is to hold only what matching had handed on by the last look at the clock.
    pub(crate) fn cut_off(&mut self) {
        self.work().collector.cut_off();
    }

    /// Makes the last results.
    pub(crate) fn finish(
        &mut self,
        operator: Option<&mut Operator>,
        now: Millis,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        let work = self.work();
        let operator = operator.filter(|operator| !operator.passes_on);
        work.collector.share(operator.as_ref().is_some_and(|operator| operator.is_shared()));
        let slices = operator.map_or(&mut work.slices, |operator| &mut operator.slices);
        work.collector.finish(now, slices, now_micros, out);
        self.count_pattern_faults();
    }

    /// Gives results to the reader, and leaves none. With `finished`, the last of them (or an empty one) is the query's
    /// last emit. Answers why the query must be ended, if it must.
    pub(crate) fn give_out(
        &mut self,
        results: &mut Vec<ResultSet>,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> Option<EndReason> {
        if finished.is_none()
            && !self.is_ending
            && !context.is_again
            && self.handle.dialect == Dialect::Native
            && let Some(too_often) = self.rate(context.config).check(context.now)
        {
            self.is_ending = true;
            results.clear();
            return Some(EndReason::RateLimited(too_often));
        }
        if finished.is_some() && results.is_empty() {
            results.push(self.nothing(context.now));
        }
        self.rate_until(context.now + 1, context).add(results.len() as u64);
        self.is_finished |= finished.is_some();
        let count = results.len();
        let mut must_end = None;
        for (place, mut result) in results.drain(..).enumerate() {
            let is_last = finished.is_some() && place + 1 == count;
            let window_end = result.window.map_or(i64::MIN, |window| window.end);
            if !is_last && !context.is_again && !self.rate(context.config).admits(context.now) {
                let is_durable = self.handle.following.is_some();
                let work = self.work();
                work.counts.expression_errors += result.expression_errors;
                if is_durable {
                    // What is left out has its number: when it is made again it may be there.
                    work.emits += 1;
                    work.records += result.count;
                    work.result_errors += result.expression_errors;
                }
                self.handle.mailbox.count_dropped(result.count);
                context.totals.records_dropped.fetch_add(result.count, Ordering::Relaxed);
                continue;
            }
            let emit = self.emit(&mut result, finished.clone().filter(|_| is_last), context);
            self.pass_at(window_end, context.stream.position);
            let size = emit.records.text.len();
            if size > context.config.emit_bytes_max && finished.is_none() {
                must_end = Some(EndReason::Failed(limits::one_result(size, context.config)));
                break;
            }
            let totals = context.totals;
            match self.handle.mailbox.put(emit, context.config, &totals.subscriber_bytes) {
                Delivery::Queued { dropped, full } => {
                    totals.records_dropped.fetch_add(dropped, Ordering::Relaxed);
                    // Once for each query: what is lost from then on is counted, in `meta` and in the metrics.
                    if let Some(Full { setting, held, limit }) = full {
                        warn!(
                            query = %self.handle.meta.id, setting, held, limit,
                            "a reader is slower than its answers, the oldest are dropped: read faster, ask for less, or \
                             raise the limit"
                        );
                    }
                }
                Delivery::CutOff(full) => {
                    must_end = Some(EndReason::Failed(full.cut_off()));
                    break;
                }
            }
        }
        must_end.filter(|_| !std::mem::replace(&mut self.is_ending, true))
    }

    /// Counts what matching handed on in one batch to windows by record, in Bullet.
    pub(crate) fn count_parts(&mut self, step: &QueryStep, context: &EmitContext<'_>) {
        let Some(rows) = &step.rows else { return };
        if self.handle.dialect == Dialect::Bullet && matches!(self.query.plan.window, Window::Records { .. })
        {
            let events = rows.rows.chunk_by(|one, next| one == next).count();
            self.rate_until(context.now + 1, context).add_parts(events as u64);
        }
    }

    /// Why it must be ended, if it answers more often than Bullet lets it: that is found out before a window closes.
    pub(crate) fn exceeds_rate(&mut self, context: &EmitContext<'_>) -> Option<EndReason> {
        if self.handle.dialect == Dialect::Native || self.is_ending {
            return None;
        }
        let too_often = self.rate_until(context.now, context).check(context.now)?;
        self.is_ending = true;
        Some(EndReason::RateLimited(too_often))
    }

    /// As [`Running::rate`], with the intervals ended in Bullet that ended before `until` while nothing was told.
    fn rate_until(&mut self, until: Millis, context: &EmitContext<'_>) -> &mut EmitRate {
        let is_bullet = self.handle.dialect == Dialect::Bullet;
        let rate = self.rate(context.config);
        if let Some(looks) = context.looks.filter(|_| is_bullet) {
            rate.catch_up(looks, until);
        }
        rate
    }

    /// How often it may answer, and does.
    fn rate(&mut self, config: &EngineConfig) -> &mut EmitRate {
        let (dialect, received) = (self.handle.dialect, self.handle.meta.received);
        self.work().rate.get_or_insert_with(|| EmitRate::new(config, dialect, received))
    }

    /// A result without records. By Bullet's rules it has a window wherever the query has one.
    pub(crate) fn nothing(&self, now: Millis) -> ResultSet {
        let number = self.emits() + 1;
        let window =
            self.last_window().map(|kind| ResultWindow { kind, number, records: 0, start: now, end: now });
        ResultSet { window, ..ResultSet::default() }
    }

    /// Makes an emit of a result, of which nothing but what is to be known besides its records may be used any more.
    pub(crate) fn emit(
        &mut self,
        result: &mut ResultSet,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> Waiting {
        let work = self.work();
        work.emits += 1;
        work.records += result.count;
        work.counts.expression_errors += result.expression_errors;
        work.result_errors += result.expression_errors;
        work.cost.bytes_out += result.text.len() as u64;
        let mut warnings = Vec::new();
        if !context.stream_exists {
            warnings.push(format!("stream `{}` has had no event yet", context.stream.name));
        }
        warnings.extend(work.rate.as_ref().and_then(EmitRate::warning));
        let is_first = work.emits == 1;
        if is_first || finished.is_some() {
            warnings.extend_from_slice(&self.handle.warnings);
        }
        context.totals.records_out.fetch_add(result.count, Ordering::Relaxed);
        context.totals.bytes_out.fetch_add(result.text.len() as u64, Ordering::Relaxed);
        let is_plain = finished.is_none()
            && warnings.is_empty()
            && result.window.is_none()
            && result.sketches.is_empty()
            && result.inner_sketches.is_none()
            && result.failure.is_none();
        let is_empty_last = finished.is_some() && result.count == 0 && self.numbers_records();
        let rest = || EmitRest {
            finished: finished.map(|reason| Finished { at: context.now, reason, cost: self.cost() }),
            window: result.window.map(|window| WindowMeta {
                kind: window.kind,
                number: window.number,
                records: window.records,
                start: window.start,
                end: window.end,
                emitted: context.now,
            }),
            sketches: std::mem::take(&mut result.sketches),
            inner_sketches: result.inner_sketches.take(),
            failure: result.failure.take(),
            warnings,
        };
        let rest = (!is_plain).then(|| Box::new(rest()));
        let records = Records { text: std::mem::take(&mut result.text), count: result.count };
        Waiting {
            records,
            // The last emit has a number of its own, though it has no record.
            number: self.number() + u64::from(is_empty_last),
            position: context.stream.position,
            lag_ms: context.stream.lag_ms,
            sample: context.stream.sample,
            counts: self.counts(context.stream.position),
            rest,
        }
    }

    /// What it has counted, when all before `position` were looked at.
    fn counts(&self, position: u64) -> Counts {
        let seen = self.seen(position);
        let Some(work) = &self.work else { return Counts { seen, ..Counts::default() } };
        Counts {
            seen,
            matched: work.counts.matched + work.shared.matches,
            mistyped: work.counts.mistyped + work.shared.mistyped,
            expression_errors: work.counts.expression_errors + work.shared.expression_errors,
            late: work.counts.late + work.shared.late,
            ahead: work.counts.ahead + work.shared.ahead,
            ..work.counts
        }
    }

    /// What it has cost.
    pub(crate) fn cost(&self) -> QueryCost {
        let Some(work) = &self.work else { return QueryCost::default() };
        QueryCost {
            candidates: work.cost.candidates + work.shared.candidates,
            residual_tests: work.cost.residual_tests + work.shared.residual_tests,
            matches: work.cost.matches + work.shared.matches,
            cpu_nanos: work.cost.cpu_nanos + work.shared.nanos,
            ..work.cost
        }
    }

    /// Events seen, when all before `position` were looked at.
    pub(crate) fn seen(&self, position: u64) -> u64 {
        let last = self.work.as_ref().and_then(|work| work.last_position);
        last.unwrap_or(position).saturating_sub(self.first_offset)
    }

    /// Bytes of state held anywhere, its share of its operator's among them.
    pub(crate) fn state_bytes(&self) -> u64 {
        self.work.as_ref().map_or(0, |work| work.bytes() + work.shared_bytes)
    }

    /// Brings the engine's total up to date; answers why the query must be ended, if it holds too much.
    pub(crate) fn account(&mut self, config: &EngineConfig, totals: &Totals) -> Option<EndReason> {
        let is_cut = self.is_cut;
        let work = self.work();
        let bytes = work.bytes();
        let before = std::mem::replace(&mut work.accounted_bytes, bytes);
        let total = totals.account(before, bytes);
        let reason = if is_cut {
            limits::one_batch(config)
        } else if let Some(failure) = work.collector.failure() {
            failure.to_owned()
        } else if bytes > config.query_state_bytes_max as u64 {
            limits::query_state(bytes, config)
        } else if bytes > before && total > config.state_bytes_max as u64 {
            limits::all_state(total, config)
        } else {
            return None;
        };
        if std::mem::replace(&mut self.is_ending, true) { None } else { Some(EndReason::Failed(reason)) }
    }

    /// When it is next to be looked at: a window closes, or its duration is over.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        let work = self.work.as_ref();
        let closes = work.and_then(|work| work.collector.due());
        let told = work.and_then(|work| work.rate.as_ref()?.due());
        [closes, self.handle.ends, told].into_iter().flatten().min()
    }

    /// Takes its state out of the engine's total.
    pub(crate) fn forget(&mut self, totals: &Totals) {
        if let Some(work) = &mut self.work {
            totals.state_bytes.fetch_sub(std::mem::take(&mut work.accounted_bytes), Ordering::Relaxed);
        }
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
