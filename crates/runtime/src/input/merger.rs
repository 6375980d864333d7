//! Merges what the workers of an input made, in the order of the input, and makes the emits of the query.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32},
        mpsc,
    },
};

use swiftwater_event::{Clock, Millis};
use swiftwater_lang::plan::Window;
use swiftwater_live::{Collector, CollectorLimits, ResultSet, StandingQuery};

use super::{
    deal::{Deal, is_dealt},
    feed::Feed,
    options::{InputError, InputOptions, InputSummary, QUERY, TIME_BEGINS, input_name},
    worker::{Message, WorkerOutput},
};
use crate::{
    Emit, EndReason, EngineConfig, QueryMeta, StreamMeta,
    query::active::{EmitContext, Running},
    query::handle::QueryHandle,
    query::id::QueryId,
    query::linger::FOR_GOOD,
    query::totals::Totals,
    subscriber_queue::SubscriberQueue,
};

/// Merges the output of the shards, in the order of the input.
pub(super) struct Merger<'m> {
    running: Running,
    config: &'m EngineConfig,
    options: &'m InputOptions,
    totals: &'m Totals,
    clock: &'m dyn Clock,
    summary: InputSummary,
    lines: u64,
    /// The latest arrival of all pieces so far.
    latest: Millis,
    /// Rows that wait for the end, where they are dealt to workers.
    deal: Option<Deal>,
}

impl<'m> Merger<'m> {
    pub(super) fn new(
        query: Arc<StandingQuery>,
        options: &'m InputOptions,
        config: &'m EngineConfig,
        totals: &'m Totals,
        clock: &'m dyn Clock,
        started: Millis,
        warnings: Vec<String>,
    ) -> Merger<'m> {
        let limits = CollectorLimits {
            one_answer: false,
            answer_rows_default: config.answer_rows_default,
            emits_empty_windows: options.time_field.is_none(),
            times: options.times,
            closes_singly: false,
            pattern_partials_max: config.pattern_partials_max,
        };
        let meta = Arc::new(QueryMeta {
            id: QueryId::new(started, QUERY, &std::hash::RandomState::new()),
            text: Arc::clone(&query.plan.text),
            printed: Arc::clone(&query.plan.printed),
            received: started,
            sample: query.plan.sample,
            columns: query.column_names(),
        });
        let handle = QueryHandle {
            number: QUERY,
            meta,
            stream: input_name(),
            dialect: query.dialect(),
            ends_at: Millis::MAX,
            is_detached: AtomicBool::new(false),
            linger_ms: AtomicU32::new(FOR_GOOD),
            is_killed: AtomicBool::new(false),
            mailbox: SubscriberQueue::default(),
            following: None,
            remote: None,
            fleeting: OnceLock::new(),
            warnings: warnings.into(),
        };
        let grid_start = if options.time_field.is_some() { 0 } else { started };
        let is_dealt = is_dealt(&query.plan, options);
        let first_full_wins = query.plan.window == Window::None;
        let collector = Collector::new(Arc::clone(&query), started, grid_start, limits);
        let deal = is_dealt.then(|| Deal::new(options.workers, collector.row_limit(), first_full_wins));
        let mut running = Running::new(Arc::new(handle), query, limits, 0);
        running.begin(collector);
        Merger {
            running,
            config,
            options,
            totals,
            clock,
            summary: InputSummary::default(),
            lines: 0,
            latest: if options.time_field.is_some() { TIME_BEGINS } else { started },
            deal,
        }
    }

    pub(super) fn run(
        &mut self,
        feed: &Feed,
        inbox: &mpsc::Receiver<Message>,
        on_progress: &mut dyn FnMut(u64),
        on_emit: &mut dyn FnMut(Emit) -> ControlFlow<()>,
    ) -> Result<InputSummary, InputError> {
        let mut early: BTreeMap<u64, Box<WorkerOutput>> = BTreeMap::new();
        let mut next = 0;
        let mut left = Vec::new();
        let mut ending = None;
        'input: for message in inbox {
            match message {
                Message::Left(groups) => left.extend(groups),
                Message::WorkerOutput(made) => {
                    early.insert(made.number, made);
                    while let Some(made) = early.remove(&next) {
                        next += 1;
                        feed.done();
                        match self.add_output(*made, on_emit) {
                            ControlFlow::Continue(()) => {}
                            ControlFlow::Break(reason) => {
                                ending = Some(reason);
                                break 'input;
                            }
                        }
                    }
                    on_progress(self.summary.bytes);
                }
            }
        }
        if let Some(error) = feed.flow.lock().error.take() {
            return Err(error.into());
        }
        if ending == Some(EndReason::Client) {
            return Ok(std::mem::take(&mut self.summary));
        }
        self.running.accept_slices(left);
        let reason = ending.unwrap_or(EndReason::EndOfInput);
        let mut results = Vec::new();
        if !matches!(reason, EndReason::Failed(_)) {
            let now_micros = self.clock.now_micros();
            for mut rows in self.deal.take().into_iter().flat_map(Deal::end) {
                self.running.work().collector.rows(&mut rows, now_micros, &mut results);
            }
            // Without times, all that came belongs to the one window that the end closes.
            self.running.finish(None, self.latest, now_micros, &mut results);
        }
        if results.is_empty() {
            results.push(self.running.nothing(self.context().now));
        }
        let last = results.len() - 1;
        let context = self.context();
        for (place, result) in results.into_iter().enumerate() {
            let finished = (place == last).then(|| reason.clone());
            if on_emit(self.emit(result, finished, &context)).is_break() {
                break;
            }
        }
        Ok(std::mem::take(&mut self.summary))
    }

    fn add_output(
        &mut self,
        made: WorkerOutput,
        on_emit: &mut dyn FnMut(Emit) -> ControlFlow<()>,
    ) -> ControlFlow<EndReason> {
        let described =
            self.options.check.rejections_described_max.saturating_sub(self.summary.rejections.len());
        let first_line = if self.lines == 0 { 1 } else { 2 };
        self.summary.rejections.extend(made.rejections.into_iter().take(described).map(|mut rejection| {
            if made.lines.is_some() {
                rejection.line = rejection.line + self.lines + 1 - first_line;
            }
            rejection
        }));
        self.lines += made.lines.unwrap_or(0);
        self.summary.accepted += made.accepted;
        self.summary.rejected += made.rejected;
        self.summary.bytes += made.bytes;
        let now_micros = self.clock.now_micros();
        let mut results = Vec::new();
        self.running.close(None, Some(self.latest), now_micros, &mut results);
        if let Some(mut step) = made.step {
            if let Some(rows) = &mut step.rows {
                rows.arrivals.iter_mut().for_each(|arrival| *arrival = (*arrival).max(self.latest));
            }
            step.single_rows.iter_mut().for_each(|row| row.arrival = row.arrival.max(self.latest));
            let events = step.pattern.iter_mut().flat_map(|chunk| &mut chunk.events);
            events.for_each(|event| event.arrival = event.arrival.max(self.latest));
            let first = self.summary.accepted - made.accepted;
            let dealt = self.deal.as_mut().and_then(|deal| Some((deal, step.rows.take()?)));
            let full = dealt.and_then(|(deal, rows)| deal.deal(&rows, first));
            self.running.accept_step(step, first, &mut results, now_micros);
            for mut rows in full.into_iter().flatten() {
                self.running.work().collector.rows(&mut rows, now_micros, &mut results);
            }
        }
        self.running.accept_slices(made.slices);
        self.latest = self.latest.max(made.latest);
        let context = self.context();
        let is_done = self.running.work().collector.is_done();
        for result in results {
            // The last rows of a LIMIT go out with the end.
            if on_emit(self.emit(result, None, &context)).is_break() {
                return ControlFlow::Break(EndReason::Client);
            }
        }
        if is_done {
            return ControlFlow::Break(EndReason::Limit);
        }
        match self.running.account(self.config, self.totals) {
            Some(reason) => ControlFlow::Break(reason),
            None => ControlFlow::Continue(()),
        }
    }

    fn emit(
        &mut self,
        mut result: ResultSet,
        finished: Option<EndReason>,
        context: &EmitContext<'_>,
    ) -> Emit {
        let emit = self.running.emit(&mut result, finished, context);
        emit.into_emit(&self.running.handle.meta, &context.stream.name)
    }

    fn context(&self) -> EmitContext<'m> {
        let now_micros = self.clock.now_micros();
        EmitContext {
            config: self.config,
            totals: self.totals,
            stream: StreamMeta {
                name: input_name(),
                position: self.summary.accepted,
                lag_ms: 0,
                sample: None,
                lost: 0,
            },
            stream_exists: true,
            looks: None,
            coverage: None,
            now: now_micros.div_euclid(1000),
            now_micros,
            is_again: false,
        }
    }
}
