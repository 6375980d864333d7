//! One query over an input that ends: the same matcher and operators, run in the calling process, as fast as the input
//! can be read, with the same answer for any number of shards.
//!
//! A mapped file is cut into blocks between events; shards check blocks and look at them in parallel, and what they make
//! of them is merged in the order of the input. Bytes that come from a reader, and arrays, are split into events one
//! piece after another, and looked at in parallel from there on.

mod deal;
mod feed;

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc, OnceLock,
        atomic::AtomicBool,
        mpsc::{self, SyncSender},
    },
};

use bytes::Bytes;
use deal::Deal;
use feed::{Feed, Piece};
use swiftwater_event::{
    CheckLimits, Checked, Clock, DecodePlan, Decoder, EventBatch, EventMeta, Millis, Offset, Path, Primitive,
    Rejection, StreamName, TimeUnit, Type, Values, Want, check_block,
};
use swiftwater_lang::{
    Dialect, ParseOptions, Schema,
    plan::{Body, Literal, Query, Statement, Window},
};
use swiftwater_live::{
    Collector, CollectorLimits, Index, Partial, Place, QueryStep, ResultSet, Shard, SlicePlan, StandingQuery,
    StepInput,
};

use crate::{
    Emit, EndReason, EngineConfig, QueryForm, QueryMeta, RuntimeError, StreamMeta,
    panic_guard::guarded,
    query::active::{EmitContext, QueryHandle, Running, Totals},
    query::id::QueryId,
    query::warnings::warnings_of,
    runtime::{compile, spawn, with_shards},
    stream::lock,
    subscriber_queue::SubscriberQueue,
};

/// Where the bytes come from.
pub enum InputSource {
    /// All of them at once: a mapped file. Cut into blocks that all shards check and look at in parallel.
    Bytes(Bytes),
    /// Read to the end, by one shard after another.
    Reader(Box<dyn std::io::Read + Send>),
}

/// How an input is to be looked at.
#[derive(Clone, Default)]
pub struct InputOptions {
    /// Limits and shards.
    pub config: EngineConfig,
    /// Which events are refused.
    pub check: CheckLimits,
    /// Whose rules hold.
    pub dialect: Dialect,
    /// Declared types of fields.
    pub schema: Option<Arc<Schema>>,
    /// The path that says when an event arrived (RFC 3339 text, or whole milliseconds); arrival never goes back: an
    /// event with an earlier time, or none, arrives with the one before it, and those before any with a time in 1970.
    /// Windows then lie on multiples of their length. Without it the input has no time: windows by time close at its
    /// end.
    pub time_field: Option<Path>,
    /// Each record tells its times.
    pub times: bool,
    /// The types of the records' values, where they are known apart from the schema that the query is checked against.
    pub types: Option<Arc<Schema>>,
    /// What `$1`, `$2`, … of the text stand for.
    pub parameters: Vec<Literal>,
    /// How the query is written.
    pub form: QueryForm,
    /// Workers that Bullet would have dealt the records to, record k to worker k mod n: the rows of a RAW result
    /// without a window by record depend on it. 1, and with a `time_field`: they come in the order of the input.
    pub workers: usize,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputSummary {
    /// Good events looked at.
    pub accepted: u64,
    /// Events refused.
    pub rejected: u64,
    /// The first of them.
    pub rejections: Vec<Rejection>,
    /// Bytes read.
    pub bytes: u64,
}

/// An input that could not be looked at to its end.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The query was refused.
    #[error(transparent)]
    Engine(#[from] RuntimeError),
    /// Reading failed.
    #[error("the input could not be read to its end")]
    Read(#[from] std::io::Error),
}

/// Where time begins for an input that has times of its own, and its windows: 1970.
const TIME_BEGINS: Millis = 0;
const QUERY: swiftwater_live::QueryNumber = 1;

/// Runs one query over an input; `on_emit` gets each emit in order, the last one with `finished`, and may stop it.
/// `on_progress` is told the bytes looked at so far, now and then.
pub fn run_input(
    source: InputSource,
    text: &str,
    options: &InputOptions,
    clock: Arc<dyn Clock>,
    on_progress: &mut dyn FnMut(u64),
    on_emit: &mut dyn FnMut(Emit) -> ControlFlow<()>,
) -> Result<InputSummary, InputError> {
    let config = with_shards(options.config.clone());
    let started = clock.now();
    let parse_options = ParseOptions {
        dialect: options.dialect,
        schema: options.schema.as_deref(),
        types: options.types.as_deref(),
        joined: None,
        parameters: &options.parameters,
        lists_rows: false,
        now: started,
        text_bytes_max: config.query_text_bytes_max,
    };
    let statement = options.form.parse(text, &parse_options).map_err(RuntimeError::Query)?;
    let doubts = match options.form {
        QueryForm::Bql => swiftwater_lang::doubts(text, &parse_options, &[]),
        QueryForm::Json => Vec::new(),
    };
    let warnings = warnings_of(doubts)?;
    let matched = matched_query(&statement, options, &config)?;
    let query = Arc::new(compile(statement, &config)?);
    let matched = matched.unwrap_or_else(|| Arc::clone(&query));
    let origin = if options.time_field.is_some() { TIME_BEGINS } else { started };
    let slices = Arc::new(SlicePlan::of(&query, origin));
    let index = Index::default().with_slices(QUERY, &matched, &slices);
    let may_block = matches!(source, InputSource::Reader(_));
    let feed = Arc::new(Feed::new(source, options, config.shards));
    let totals = Totals::default();
    let (results, inbox) = mpsc::sync_channel(config.shards * 2);
    let worker = Arc::new(Worker {
        index,
        closes: slices.at(0).1.start_of(started) > i64::MIN,
        options: options.clone(),
        feed: Arc::clone(&feed),
        clock: Arc::clone(&clock),
        started,
    });
    let threads: Vec<_> = (0..config.shards)
        .map(|number| {
            let (worker, results) = (Arc::clone(&worker), results.clone());
            spawn(&format!("input-{number}"), move || worker.run(&results))
        })
        .collect();
    drop(results);
    let mut merger = Merger::new(query, options, &config, &totals, &*clock, started, warnings);
    let outcome = merger.run(&feed, &inbox, on_progress, on_emit);
    feed.stop();
    // Workers that wait for room in the channel must see that nobody reads it any more.
    drop(inbox);
    // One that waits for a reader's next bytes is left to find out when they come: that may be never.
    if !may_block {
        for thread in threads {
            let _ = thread.join();
        }
    }
    outcome
}

/// What a shard made of a piece.
struct Made {
    number: u64,
    accepted: u64,
    rejected: u64,
    rejections: Vec<Rejection>,
    /// Lines that the piece begins with are counted from 1 in its rejections: how many lines it has.
    lines: Option<u64>,
    bytes: u64,
    step: Option<QueryStep>,
    slices: Vec<Partial>,
    /// The latest arrival in it.
    latest: Millis,
}

enum Message {
    Made(Box<Made>),
    /// A shard has no more to do; the groups that it holds.
    Left(Vec<Partial>),
}

struct Worker {
    index: Index,
    /// Slices of groups are over before the input is.
    closes: bool,
    options: InputOptions,
    feed: Arc<Feed>,
    clock: Arc<dyn Clock>,
    started: Millis,
}

impl Worker {
    fn run(&self, results: &SyncSender<Message>) {
        let mut shard = Shard::default();
        let mut times = self.options.time_field.clone().map(Times::new);
        while let Some((number, piece)) = self.feed.take() {
            let made = guarded("a piece of the input could not be looked at", || {
                self.look_at(number, piece, &mut shard, times.as_mut())
            });
            let Ok(made) = made else {
                self.feed
                    .fail(std::io::Error::other("the program failed on a piece of it, as its log describes"));
                return;
            };
            if results.send(Message::Made(Box::new(made))).is_err() {
                return;
            }
        }
        // The merger may have stopped reading: then nobody wants it.
        let _ = results.send(Message::Left(shard.remove(QUERY)));
    }

    fn look_at(&self, number: u64, piece: Piece, shard: &mut Shard, times: Option<&mut Times>) -> Made {
        let (checked, place, bytes, lines) = match piece {
            Piece::Block(block, at) => {
                // Only the first block can begin with a byte order mark, and only it begins at line 1: the others are
                // counted from 2, and the merger knows.
                let first_line = if at == 0 { 1 } else { 2 };
                let lines = newlines(&block);
                let size = block.len() as u64;
                (check_block(block, &self.options.check, first_line), Place::Byte(at), size, Some(lines))
            }
            Piece::Checked(checked, first, read) => (checked, Place::Number(first), read, None),
        };
        let Checked { batch, rejected, rejections, .. } = checked;
        let read_micros = self.clock.now_micros();
        let batch = batch.with_meta(EventMeta {
            arrival: self.started,
            sent_micros: 0,
            read_micros,
            first: Offset(0),
        });
        let arrivals = times.map_or_else(Vec::new, |times| times.of(&batch));
        let nothing = if self.options.time_field.is_some() { TIME_BEGINS } else { self.started };
        let latest = arrivals.last().copied().unwrap_or(nothing);
        let mut steps = Vec::new();
        let nanos = || self.clock.monotonic_nanos();
        let input = StepInput {
            batch: &batch,
            arrivals: &arrivals,
            before: None,
            place,
            now_micros: self.clock.now_micros(),
            record_bytes_max: self.options.config.emit_bytes_max,
            nanos: &nanos,
        };
        shard.step(&self.index, &input, &mut steps);
        // Windows close while the input is read only where it has times; what is not cut stays until the end.
        let slices = if arrivals.is_empty() || !self.closes { Vec::new() } else { shard.remove(QUERY) };
        Made {
            number,
            accepted: batch.len() as u64,
            rejected,
            rejections,
            lines,
            bytes,
            step: steps.pop(),
            slices,
            latest,
        }
    }
}

/// Counted by sums of one byte each, of as many bytes as such a sum can hold: the compiler makes vectors of it.
fn newlines(block: &[u8]) -> u64 {
    let sums = block.chunks(255).map(|part| part.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>());
    sums.map(u64::from).sum()
}

/// Reads events' own times.
struct Times {
    plan: DecodePlan,
    decoder: Decoder,
}

impl Times {
    fn new(path: Path) -> Times {
        let ty = Type::Primitive(Primitive::Timestamp(TimeUnit::Millisecond));
        Times { plan: DecodePlan::new([Want { path, ty }]), decoder: Decoder::new() }
    }

    /// The running maximum of the events' times, from nothing: the merger knows what came before.
    fn of(&mut self, batch: &EventBatch) -> Vec<Millis> {
        let decoded = self.decoder.decode(batch, &self.plan);
        let Some(Values::Timestamp(micros)) = decoded.columns.first().map(|column| &column.values) else {
            return Vec::new();
        };
        let mut latest = TIME_BEGINS;
        micros
            .iter()
            .map(|micros| {
                latest = latest.max(micros.map_or(TIME_BEGINS, |micros| micros.div_euclid(1000)));
                latest
            })
            .collect()
    }
}

/// Puts together what the shards made, in the order of the input.
struct Merger<'m> {
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
    fn new(
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
            ends: None,
            is_detached: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
            mailbox: SubscriberQueue::default(),
            following: None,
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

    fn run(
        &mut self,
        feed: &Feed,
        inbox: &mpsc::Receiver<Message>,
        on_progress: &mut dyn FnMut(u64),
        on_emit: &mut dyn FnMut(Emit) -> ControlFlow<()>,
    ) -> Result<InputSummary, InputError> {
        let mut early: BTreeMap<u64, Box<Made>> = BTreeMap::new();
        let mut next = 0;
        let mut left = Vec::new();
        let mut ending = None;
        'input: for message in inbox {
            match message {
                Message::Left(groups) => left.extend(groups),
                Message::Made(made) => {
                    early.insert(made.number, made);
                    while let Some(made) = early.remove(&next) {
                        next += 1;
                        feed.done();
                        match self.take(*made, on_emit) {
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
        if let Some(error) = lock(&feed.flow).error.take() {
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

    fn take(
        &mut self,
        made: Made,
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
            let full = dealt.and_then(|(deal, rows)| deal.take(&rows, first));
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
            },
            stream_exists: true,
            looks: None,
            now: now_micros.div_euclid(1000),
            now_micros,
            is_again: false,
        }
    }
}

/// Whether a query's rows depend on the workers that records are dealt to.
fn is_dealt(query: &Query, options: &InputOptions) -> bool {
    options.workers > 1
        && options.time_field.is_none()
        && query.dialect == Dialect::Bullet
        && matches!(query.body, Body::Raw(_))
        && !matches!(query.window, Window::Records { .. })
}

/// The query that matches are made by, where it is not the query itself: each worker may have to give as many rows as
/// the result may have, so that of one batch there can be more.
fn matched_query(
    statement: &Statement,
    options: &InputOptions,
    config: &EngineConfig,
) -> Result<Option<Arc<StandingQuery>>, RuntimeError> {
    if !is_dealt(&statement.query, options) {
        return Ok(None);
    }
    let mut statement = statement.clone();
    statement.query.limit = None;
    Ok(Some(Arc::new(compile(statement, config)?)))
}

fn input_name() -> StreamName {
    StreamName::new("input").expect("`input` follows the rules for names")
}
