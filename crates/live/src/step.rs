//! One shard's step: takes a batch; returns the records of RAW queries, and the cost of the batch for each query.
//!
//! Groups stay in the shard's state until they are flushed.

mod event_time;
mod fold;
mod pattern;
mod shape;
mod shared_outputs;

use std::ops::ControlFlow;

use bumpalo::Bump;
use bytes::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;
use swiftwater_event::{Decoded, Decoder, EventBatch, Millis, Value};
use swiftwater_lang::plan::Window;

use crate::{
    JoinFailure,
    expr::{EvalCounts, Rows, Scratch},
    matching::{
        CountsRows, Entry, Finder, Index, MatchInput, Matched, QueryNumber, mistyped_rows, prefetch,
        sampled_rows,
    },
    operate::{
        Groups, Matches, OwnedValue, Partial, PatternChunk, RecordWriter, RowChunk, RowTimes, explode,
    },
    standing::{CompiledBody, CompiledViews},
};
use event_time::EventTimes;
pub use event_time::{MaxEventTime, NO_TIME, known_time};
use fold::Fold;
pub use fold::{EventTimeFold, Generation, SingleRow};
use shape::{ShapeInput, Shapes};
use shared_outputs::SharedOutputs;

/// The input of a step.
pub struct StepInput<'b> {
    /// The events.
    pub batch: &'b EventBatch,
    /// Arrival of each event, ascending; empty: that of the batch.
    pub arrivals: &'b [Millis],
    /// The arrival of the stream's last event before the batch; none if there was none, or it is unknown.
    pub before: Option<Millis>,
    /// The place of the first event in its source, and whether the others follow by number (else by byte).
    pub place: SourcePosition,
    /// Now, in microseconds since 1970, for the records' times.
    pub now_micros: i64,
    /// Bytes of one query's records of the batch; with more, they are cut ([`RowChunk::is_cut`]).
    pub record_bytes_max: usize,
    /// Elapsed nanoseconds, for accounting only: no answer depends on it.
    pub nanos: &'b dyn Fn() -> u64,
}

/// Rows whose columns are computed before the first of them is written.
const PART_ROWS: usize = 1024;

/// The position of events in their source, for sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourcePosition {
    /// The first event's number; the others follow it.
    Number(u64),
    /// The first byte's place.
    Byte(u64),
}

impl SourcePosition {
    /// The first event's number or byte.
    pub(crate) fn first(self) -> u64 {
        match self {
            SourcePosition::Number(first) | SourcePosition::Byte(first) => first,
        }
    }
}

/// The result of a step for one query.
#[derive(Debug)]
pub struct QueryStep {
    /// Number of the query.
    pub number: QueryNumber,
    /// Events that its access predicate found.
    pub candidates: u64,
    /// Events that its residual was tested on.
    pub residual_tests: u64,
    /// Events that it matched.
    pub matches: u64,
    /// Matched events with a value that does not fit its wanted type.
    pub mistyped: u64,
    /// Matched events whose times are too far ahead of their arrival, so that they belong to no window.
    pub ahead: u64,
    /// Operations that could not be done.
    pub expression_errors: u64,
    /// Nanoseconds spent on its residual and operators; sampled where many queries match.
    pub nanos: u64,
    /// Bytes by which its state grew.
    pub grown_bytes: i64,
    /// Its records, if it is RAW.
    pub rows: Option<Box<RowChunk>>,
    /// Each matched event by itself, if it has windows by record, or sessions, over groups.
    pub single_rows: Vec<SingleRow>,
    /// Each matched event by itself, if it looks for a pattern.
    pub pattern: Option<Box<PatternChunk>>,
    /// The contribution of the batch by the events' own time, if its windows go by that.
    pub timed: Option<Box<EventTimeFold>>,
    /// The reason why its events could not be joined: then nothing of this counts.
    pub failure: Option<Box<JoinFailure>>,
}

/// Nanoseconds that a step spent in each stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepNanos {
    /// Turning bytes into columns.
    pub decode: u64,
    /// Finding queries.
    pub matching: u64,
    /// Making records and groups.
    pub operate: u64,
}

/// A shard's own state: its decoder, its buffers, and the groups of the queries that stand.
#[derive(Default)]
pub struct Shard {
    decoder: Decoder,
    scratch: Scratch,
    finder: Finder,
    /// Scratch space of lateral views, whose rows are operated on while they are made.
    view_scratch: Scratch,
    /// Records of the query in hand.
    text: Vec<u8>,
    groups: HashMap<QueryNumber, QuerySlices>,
    /// Batches in which many queries matched.
    crowded: u64,
}

/// Slices of a query's groups; mostly there is one.
type QuerySlices = SmallVec<[Partial; 1]>;

/// Distance in queries at which the memory of a query is prefetched.
const AHEAD: usize = 8;

/// Room for records that is kept from one query to the next.
const TEXT_KEPT_BYTES: usize = 1 << 20;

/// If more queries than this match in a batch, reading the clock for each would cost more than many of them do.
const TIMED_EACH_MAX: usize = 64;
/// One batch of so many is then timed, and stands for all of them.
const TIMED_ONE_OF: u64 = 16;

impl Shard {
    /// Matches a batch with all queries of the index.
    pub fn step(&mut self, index: &Index, input: &StepInput<'_>, out: &mut Vec<QueryStep>) -> StepNanos {
        let rows = input.batch.len();
        if rows == 0 {
            // An idle tick: event time advances, and nothing else happens.
            index.idle().filter(|entry| input.idle_until(entry).is_some()).for_each(|entry| {
                let timed = EventTimeFold::new(input, entry, MaxEventTime::NONE);
                out.push(QueryStep { timed: Some(Box::new(timed)), ..QueryStep::nothing(entry.number) });
            });
            return StepNanos::default();
        }
        if index.is_empty() {
            return StepNanos::default();
        }
        let start = (input.nanos)();
        let decoded = self.decoder.decode(input.batch, &index.all);
        let decoded_at = (input.nanos)();
        if index.statistics.is_due() {
            let sample = self.decoder.decode(&input.batch.select(&sampled_rows(rows)), &index.all);
            index.statistics.store_sample(&index.all, sample);
        }
        let place = |row: u32| input.place_of(row);
        let match_input = MatchInput {
            decoded: &decoded,
            now: input.batch.meta().arrival,
            place: &place,
            nanos: input.nanos,
        };
        let mut finder = std::mem::take(&mut self.finder);
        let matched: Vec<Matched<'_>> = index
            .find(&match_input, &mut finder, &mut self.scratch)
            .iter()
            .filter(|found| index.has_begun(found))
            .inspect(|found| prefetch(std::slice::from_ref(found.entry), 0))
            .collect();
        let matched_at = (input.nanos)();
        let late = self.decode_late(index, input.batch, &matched);
        let late_at = (input.nanos)();
        let arena = Bump::new();
        let all_rows: Vec<u32> = (0..rows as u32).collect();
        let now = input.batch.meta().arrival;
        let shapes = Shapes::of(&matched, &decoded, late.as_ref(), &all_rows, now, &mut self.scratch, &arena);
        // The events' own times, by the expression that says them.
        let mut times: Vec<(&str, EventTimes)> = Vec::new();
        let is_crowded = matched.len() > TIMED_EACH_MAX;
        self.crowded += u64::from(is_crowded);
        let weight = match (is_crowded, self.crowded % TIMED_ONE_OF) {
            (false, _) => 1,
            (true, 0) => TIMED_ONE_OF,
            (true, _) => 0,
        };
        let mut late_rows = Vec::new();
        let mut alike = SharedOutputs::default();
        out.reserve(matched.len());
        for (place, found) in matched.iter().enumerate() {
            if let Some(ahead) = matched.get(place + AHEAD) {
                let entry = ahead.entry;
                match entry.counts_rows {
                    Some(_) => prefetch(std::slice::from_ref(&*entry.slices), 0),
                    None => prefetch(std::slice::from_ref(&*entry.query), 0),
                }
            }
            if let Some(how) = found.entry.counts_rows
                && let Some(step) = self.count(input, found, how, weight)
            {
                out.push(step);
                continue;
            }
            if let Some(step) = alike.step(place, &matched, out) {
                out.push(step);
                continue;
            }
            let body = match &late {
                Some(late) if found.entry.body_is_late && !found.entry.body().is_empty() => {
                    late_rows.clear();
                    late_rows.extend(found.rows.iter().map(|row| late.places[*row as usize]));
                    Body { decoded: &late.decoded, rows: &late_rows }
                }
                _ => Body { decoded: &decoded, rows: found.rows },
            };
            let times = match &found.entry.query.event_time {
                None => None,
                Some(time) => {
                    let known = times.iter().position(|(text, _)| *text == time.text);
                    let place = known.unwrap_or_else(|| {
                        let scratch = &mut self.scratch;
                        let at: (_, &dyn Fn(u32) -> Millis) = (now, &|row| input.arrival(row));
                        times.push((
                            &time.text,
                            EventTimes::of(time, &decoded, found.entry.time(), at, scratch),
                        ));
                        times.len() - 1
                    });
                    Some(&times[place].1)
                }
            };
            let shape = shapes.input_of(found.entry);
            let step = self.operate(input, found, &body, times, shape, weight);
            out.push(step);
        }
        self.finder = finder;
        StepNanos {
            decode: decoded_at - start + (late_at - matched_at),
            matching: matched_at - decoded_at,
            operate: (input.nanos)() - late_at,
        }
    }

    /// Decodes what matched events have at the paths that only matched events are asked for.
    fn decode_late(
        &mut self,
        index: &Index,
        batch: &EventBatch,
        matched: &[Matched<'_>],
    ) -> Option<MaterializedColumns> {
        let mut rows: Vec<u32> = matched
            .iter()
            .filter(|found| found.entry.body_is_late && !found.entry.body().is_empty())
            .flat_map(|found| found.rows.iter().copied())
            .collect();
        if rows.is_empty() {
            return None;
        }
        rows.sort_unstable();
        rows.dedup();
        let mut places = vec![0; batch.len()];
        for (place, &row) in rows.iter().enumerate() {
            places[row as usize] = place as u32;
        }
        let decoded = self.decoder.decode(&batch.select(&rows), &index.late);
        Some(MaterializedColumns { decoded, places })
    }

    /// Adds a batch to a query that only counts: one addition. `None` if its rows may be of several slices.
    fn count(
        &mut self,
        input: &StepInput<'_>,
        found: &Matched<'_>,
        how: CountsRows,
        weight: u64,
    ) -> Option<QueryStep> {
        let nanos = || if weight > 0 { (input.nanos)() } else { 0 };
        let start_nanos = nanos();
        let entry = found.entry;
        let mut step = QueryStep::of(found);
        if !found.rows.is_empty() {
            let first = input.place.first();
            let (epoch, start) = match how {
                CountsRows::Whole => (entry.slices.epoch(first), i64::MIN),
                CountsRows::Sliced if input.arrivals.is_empty() => {
                    let arrival = input.batch.meta().arrival;
                    entry.slices.with(first, |epoch, cuts| (epoch, cuts.start_of(arrival)))
                }
                CountsRows::Sliced => return None,
            };
            let slices = self.groups.entry(entry.number).or_default();
            match slices.iter_mut().rfind(|slice| slice.start == start && slice.epoch == epoch) {
                Some(slice) => {
                    slice.groups.count_rows(found.rows.len());
                }
                None => {
                    let groups = Groups::of_rows(found.rows.len() as u64, entry.query.dialect());
                    step.grown_bytes = groups.bytes() as i64;
                    slices.push(Partial { epoch, start, groups });
                }
            }
        }
        step.nanos += (nanos() - start_nanos) * weight;
        Some(step)
    }

    /// `weight`: how many batches its time stands for.
    fn operate(
        &mut self,
        input: &StepInput<'_>,
        found: &Matched<'_>,
        body: &Body<'_>,
        times: Option<&EventTimes>,
        shape: Option<&ShapeInput<'_>>,
        weight: u64,
    ) -> QueryStep {
        let nanos = || if weight > 0 { (input.nanos)() } else { 0 };
        let start = nanos();
        let entry = found.entry;
        let mut counts = EvalCounts { expression_errors: found.expression_errors };
        let mut step = QueryStep::of(found);
        self.text.clear();
        step.timed = times.map(|times| Box::new(EventTimeFold::new(input, entry, times.latest)));
        let at = BatchContext { input, entry, times, shape };
        if !found.rows.is_empty() {
            step.mistyped += mistyped_rows(body.decoded, body.rows, entry.body());
            match &entry.query.views {
                None => {
                    let rows = Rows::Events {
                        decoded: body.decoded,
                        bindings: entry.body(),
                        rows: body.rows,
                        now: input.batch.meta().arrival,
                    };
                    // Nothing is left to break off.
                    let _ = self.operate_rows(&at, (found.rows, &[]), rows, &mut counts, &mut step);
                }
                Some(views) => self.explode(&at, views, found, body, &mut counts, &mut step),
            }
            if let Some(times) = times {
                for &row in found.rows.iter().filter(|&&row| times.times[row as usize] == NO_TIME) {
                    let count = if times.is_ahead(row) { &mut step.ahead } else { &mut step.mistyped };
                    *count += 1;
                }
            }
        }
        if let Some(chunk) = &mut step.rows {
            chunk.text = self.finish_text();
        }
        step.expression_errors = counts.expression_errors;
        step.nanos = found.nanos + (nanos() - start) * weight;
        step
    }

    /// The records that were made last, in as many bytes as they need.
    fn finish_text(&mut self) -> Bytes {
        if self.text.capacity() <= TEXT_KEPT_BYTES {
            return Bytes::copy_from_slice(&self.text);
        }
        std::mem::take(&mut self.text).into_boxed_slice().into()
    }

    /// Makes rows of matched events by lateral views, and operates on them.
    fn explode(
        &mut self,
        at: &BatchContext<'_>,
        views: &CompiledViews,
        found: &Matched<'_>,
        body: &Body<'_>,
        counts: &mut EvalCounts,
        step: &mut QueryStep,
    ) {
        let input = at.input;
        let matches = Matches {
            decoded: body.decoded,
            rows: body.rows,
            bindings: found.entry.body(),
            event_bytes: &|place| input.batch.span(found.rows[place] as usize).len(),
            now: input.batch.meta().arrival,
        };
        let mut scratch = std::mem::take(&mut self.view_scratch);
        // The event whose rows come now, and how many have come: its rows follow one another.
        let (mut event, mut rows_of_event) = (usize::MAX, 0);
        let failure = explode(
            views,
            found.entry.query.dialect(),
            &matches,
            &mut scratch,
            counts,
            &mut |made, counts| {
                let matched: Vec<u32> = made.matches.iter().map(|&place| found.rows[place]).collect();
                let row_of_event = made.matches.iter().map(|&place| {
                    rows_of_event = if place == event { rows_of_event + 1 } else { 0 };
                    event = place;
                    rows_of_event
                });
                let row_of_event: Vec<u32> = row_of_event.collect();
                let flow = self.operate_rows(at, (&matched, &row_of_event), made.rows, counts, step);
                if let Some(chunk) = &mut step.rows {
                    let new = chunk.len() - chunk.matched.len();
                    chunk.matched.extend(made.matches[..new].iter().map(|&place| place as u64 + 1));
                }
                flow
            },
        );
        step.failure = failure.map(Box::new);
        self.view_scratch = scratch;
    }

    /// Operates on rows; `matched` are the rows of their events in the batch, and where lateral views made them which of its
    /// event's rows each is. Breaks off where the query needs no more rows of this batch.
    fn operate_rows(
        &mut self,
        at: &BatchContext<'_>,
        (matched, row_of_event): (&[u32], &[u32]),
        rows: Rows<'_>,
        counts: &mut EvalCounts,
        step: &mut QueryStep,
    ) -> ControlFlow<()> {
        if let Some(pattern) = &at.entry.query.pattern {
            self.pattern_events(at, pattern, matched, rows, counts, step);
            return ControlFlow::Continue(());
        }
        match &at.entry.query.body {
            CompiledBody::Raw { .. } => {
                let chunk = &mut **step.rows.get_or_insert_default();
                let flow = self.records(at.input, at.entry, matched, rows, counts, chunk);
                if let Some(times) = at.times {
                    let of = |&row: &u32| (times.times[row as usize], times.peaks[row as usize]);
                    chunk.event_times.extend(chunk.rows[chunk.event_times.len()..].iter().map(of));
                }
                flow
            }
            CompiledBody::Group(group) => {
                self.fold(&Fold { at, group, matched, row_of_event, rows }, counts, step);
                ControlFlow::Continue(())
            }
        }
    }

    fn records(
        &mut self,
        input: &StepInput<'_>,
        entry: &Entry,
        matched: &[u32],
        all_rows: Rows<'_>,
        counts: &mut EvalCounts,
        chunk: &mut RowChunk,
    ) -> ControlFlow<()> {
        let CompiledBody::Raw { star, columns, order } = &entry.query.body else {
            return ControlFlow::Break(());
        };
        let plan = &entry.query.plan;
        // No later match of the batch can be among the first so many.
        let most = match plan.limit {
            Some(limit) if order.is_empty() && plan.window == Window::None => {
                usize::try_from(limit).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        };
        let mut writer = RecordWriter::new(columns, entry.query.dialect(), false);
        writer.omits_event_null &= !entry.query.is_outer;
        let meta = input.batch.meta();
        chunk.times = RowTimes { sent: meta.sent_micros, read: meta.read_micros, matched: input.now_micros };
        let matched = &matched[..matched.len().min(most.saturating_sub(chunk.len()))];
        // A part at a time, so that what is computed and not yet written stays small.
        for (part, matched) in matched.chunks(PART_ROWS).enumerate() {
            let arena = Bump::new();
            let from = part * PART_ROWS;
            let input_rows = all_rows.part(from..from + matched.len());
            let mut evaluate = |program: &crate::expr::Program| {
                let mut values = self.scratch.take_values();
                program.evaluate(&input_rows, &mut self.scratch, &arena, counts, &mut values);
                values
            };
            let values: Evaluated<'_> = columns.iter().map(|column| evaluate(&column.program)).collect();
            let order: Evaluated<'_> = order.iter().map(|(program, _)| evaluate(program)).collect();
            for (place, &row) in matched.iter().enumerate() {
                if self.text.len() > input.record_bytes_max {
                    chunk.is_cut = true;
                    return ControlFlow::Break(());
                }
                match star {
                    Some(star) => {
                        let event = input.batch.event(row as usize);
                        writer.write_star(event, star, &values, place, &arena, &mut self.text);
                    }
                    None => writer.write(&values, place, &mut self.text),
                }
                chunk.ends.push(self.text.len());
                chunk.rows.push(row);
                chunk.arrivals.push(input.arrival(row));
                if !order.is_empty() {
                    chunk.keys.push(order.iter().map(|values| OwnedValue::of(&values[place])).collect());
                }
            }
            values.into_iter().chain(order).for_each(|values| self.scratch.emit_values(values));
        }
        if chunk.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Makes the shard fit for further batches after a step that panicked: what it had in hand is thrown away, groups are
    /// kept. The queries that the step was for must be ended.
    pub fn recover(&mut self) {
        self.decoder = Decoder::default();
        self.scratch = Scratch::default();
        self.finder = Finder::default();
        self.view_scratch = Scratch::default();
        self.text = Vec::new();
    }

    /// True if it holds slices of a query.
    pub fn holds(&self, number: QueryNumber) -> bool {
        self.groups.get(&number).is_some_and(|slices| !slices.is_empty())
    }

    /// Takes out a query's slices that begin before `before`.
    pub fn flush(&mut self, number: QueryNumber, before: i64) -> Vec<Partial> {
        let Some(slices) = self.groups.get_mut(&number) else { return Vec::new() };
        let flushed = drain_where(slices, |slice| slice.start < before);
        if slices.is_empty() {
            self.groups.remove(&number);
        }
        flushed
    }

    /// Takes out a query's slices of the epochs before this one.
    pub fn flush_epochs(&mut self, number: QueryNumber, before: u64) -> Vec<Partial> {
        let Some(slices) = self.groups.get_mut(&number) else { return Vec::new() };
        drain_where(slices, |slice| slice.epoch < before)
    }

    /// Takes out all that is held of a query.
    pub fn remove(&mut self, number: QueryNumber) -> Vec<Partial> {
        self.groups.remove(&number).unwrap_or_default().into_vec()
    }
}

/// Drains those for which the condition is true, in their order.
fn drain_where(slices: &mut QuerySlices, is_taken: impl Fn(&Partial) -> bool) -> Vec<Partial> {
    let (taken, left) = std::mem::take(slices).into_iter().partition::<Vec<_>, _>(is_taken);
    slices.extend(left);
    taken
}

impl QueryStep {
    /// The counts of finding a query's matches, without results yet.
    fn of(found: &Matched<'_>) -> QueryStep {
        QueryStep {
            candidates: found.candidates,
            residual_tests: found.residual_tests,
            matches: found.rows.len() as u64,
            mistyped: found.mistyped,
            expression_errors: found.expression_errors,
            nanos: found.nanos,
            ..QueryStep::nothing(found.entry.number)
        }
    }

    /// The result for a query without a match.
    pub fn nothing(number: QueryNumber) -> QueryStep {
        QueryStep {
            number,
            candidates: 0,
            residual_tests: 0,
            matches: 0,
            mistyped: 0,
            ahead: 0,
            expression_errors: 0,
            nanos: 0,
            grown_bytes: 0,
            rows: None,
            single_rows: Vec::new(),
            pattern: None,
            timed: None,
            failure: None,
        }
    }
}

impl StepInput<'_> {
    /// The number of an event of the batch, or the place of its first byte.
    fn place_of(&self, row: u32) -> u64 {
        match self.place {
            SourcePosition::Number(first) => first + u64::from(row),
            SourcePosition::Byte(first) => first + self.batch.span(row as usize).start as u64,
        }
    }

    fn arrival(&self, row: u32) -> Millis {
        self.arrivals.get(row as usize).copied().unwrap_or(self.batch.meta().arrival)
    }

    /// The arrival that event time advances to before the batch, if the stream was idle for as long as the query waits.
    fn idle_until(&self, entry: &Entry) -> Option<Millis> {
        let idle_after = entry.query.event_time.as_ref()?.idle_after_ms?;
        let arrival = self.arrival(0);
        (arrival >= self.before?.saturating_add_unsigned(idle_after)).then_some(arrival)
    }
}

impl EventTimeFold {
    /// The event times of a batch, without partials yet.
    fn new(input: &StepInput<'_>, entry: &Entry, latest: MaxEventTime) -> EventTimeFold {
        EventTimeFold {
            idle_until: input.idle_until(entry),
            latest,
            epoch: entry.slices.epoch(input.place.first()),
            generations: Vec::new(),
        }
    }
}

/// The values of some columns, by row.
type Evaluated<'v> = SmallVec<[Vec<Value<'v>>; 4]>;

/// The input from a batch for the operators of a query.
struct BatchContext<'s> {
    input: &'s StepInput<'s>,
    entry: &'s Entry,
    /// The events' own times, where its windows go by these.
    times: Option<&'s EventTimes>,
    /// The shared input of aggregations of its shape, if it was computed for all of them.
    shape: Option<&'s ShapeInput<'s>>,
}

/// The input of a body: columns, and for each matched event its row in them.
struct Body<'d> {
    decoded: &'d Decoded,
    rows: &'d [u32],
}

/// Columns of matched events only.
struct MaterializedColumns {
    decoded: Decoded,
    /// The row of each matched event of the batch in them.
    places: Vec<u32>,
}
