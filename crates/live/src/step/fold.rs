//! Folds matched rows into partials of groups.
//!
//! Rows go into slices by arrival or event time. If the order of the stream counts, each row is a partial of its own.

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};
use swiftwater_lang::plan::Window;

use super::{BatchContext, MaxEventTime, NO_TIME, QuerySlices, QueryStep, Shard, event_time::EventTimes};
use crate::{
    expr::{EvalCounts, Program, Rows, Scratch, encode_group_value},
    operate::{Axis, GroupInput, Groups, Partial, RowPosition, SliceBoundaries, StreamOrder},
    standing::CompiledGroup,
};

/// A matched event by itself, for windows that are made in the order of the stream: by record, and sessions.
#[derive(Debug, Clone)]
pub struct SingleRow {
    /// Its arrival.
    pub arrival: Millis,
    /// Its time, if windows go by that; else its arrival.
    pub at: Millis,
    /// The latest event time of the batch before it.
    pub peak: MaxEventTime,
    /// The key of its session.
    pub key: Box<[u8]>,
    /// It, as a group.
    pub groups: Groups,
}

/// The contribution of a batch to a query whose windows go by the events' own time.
#[derive(Debug)]
pub struct EventTimeFold {
    /// The stream was idle before the batch: event time first advances to this arrival.
    pub idle_until: Option<Millis>,
    /// Partials, in the order of the stream.
    pub generations: Vec<Generation>,
    /// The latest event time of the batch.
    pub latest: MaxEventTime,
    /// The epoch that the batch is of.
    pub epoch: u64,
}

/// Partials of events between which the watermark closes no window, whatever came before the batch.
#[derive(Debug)]
pub struct Generation {
    /// The latest event time of the batch before them.
    pub peak: MaxEventTime,
    /// They, and of how many events each is.
    pub partials: Vec<(Partial, u64)>,
}

/// Rows to be folded.
pub(super) struct Fold<'s> {
    pub(super) at: &'s BatchContext<'s>,
    pub(super) group: &'s CompiledGroup,
    /// The row of each one's event in the batch.
    pub(super) matched: &'s [u32],
    /// For rows of lateral views, the number of each among those of its event; else empty.
    pub(super) row_of_event: &'s [u32],
    pub(super) rows: Rows<'s>,
}

impl Shard {
    pub(super) fn fold(&mut self, fold: &Fold<'_>, counts: &mut EvalCounts, step: &mut QueryStep) {
        let (entry, times) = (fold.at.entry, fold.at.times);
        let window = &entry.query.plan.window;
        let scratch = &mut self.scratch;
        if let Window::Records { .. } | Window::Session { .. } = window {
            return fold.singly(scratch, counts, step);
        }
        let (epoch, cuts) = entry.slices.at(fold.at.input.place.first());
        let mut folding = FoldContext { scratch, counts, step };
        match (Axis::of(window), times) {
            (Axis::Event { .. }, Some(times)) => {
                let generations = fold.by_event_time(times, epoch, &cuts, &mut folding);
                if let Some(timed) = &mut step.timed {
                    timed.generations.extend(generations);
                }
            }
            _ => {
                let slices = self.groups.entry(entry.number).or_default();
                fold.by_arrival(slices, epoch, &cuts, &mut folding);
            }
        }
    }
}

/// Places of rows, by where their slices begin.
type PlacesBySlice = Vec<(i64, Vec<u32>)>;

/// The scratch space of folding, and the counts that it reports.
struct FoldContext<'f> {
    scratch: &'f mut Scratch,
    counts: &'f mut EvalCounts,
    step: &'f mut QueryStep,
}

impl Fold<'_> {
    fn new_groups(&self) -> Groups {
        Groups::new(self.group, self.at.entry.query.dialect())
    }

    fn by_arrival(
        &self,
        slices: &mut QuerySlices,
        epoch: u64,
        cuts: &SliceBoundaries,
        folding: &mut FoldContext<'_>,
    ) {
        let matched = self.matched;
        let start_of = |place: usize| cuts.start_of(self.at.input.arrival(matched[place]));
        let mut from = 0;
        while from < matched.len() {
            // Arrival never goes back, so each slice's rows stand together.
            let start = start_of(from);
            let is_one = self.at.input.arrivals.is_empty() || start_of(matched.len() - 1) == start;
            let to = if is_one {
                matched.len()
            } else {
                (from..matched.len()).find(|&place| start_of(place) != start).unwrap_or(matched.len())
            };
            let place = slices.iter().rposition(|slice| slice.start == start && slice.epoch == epoch);
            let place = place.unwrap_or_else(|| {
                slices.push(Partial { epoch, start, groups: self.new_groups() });
                slices.len() - 1
            });
            let held = &mut slices[place].groups;
            // A slice's first rows bring what it takes up while empty: all of it is taken off when it is flushed.
            let before = if held.is_empty() { 0 } else { held.bytes() as i64 };
            self.update(self.rows.part(from..to), from..to, held, folding);
            folding.step.grown_bytes += held.bytes() as i64 - before;
            from = to;
        }
    }

    fn by_event_time(
        &self,
        times: &EventTimes,
        epoch: u64,
        cuts: &SliceBoundaries,
        folding: &mut FoldContext<'_>,
    ) -> Vec<Generation> {
        // The places of each slice, by generation: whatever the watermark was before the batch, it passes a cut within
        // the batch only where the latest time of the batch itself does.
        let mut generations: Vec<(MaxEventTime, Millis, PlacesBySlice)> = Vec::new();
        for (place, &row) in self.matched.iter().enumerate() {
            let (at, peak) = (times.times[row as usize], times.peaks[row as usize]);
            if at == NO_TIME {
                continue;
            }
            let passed = if peak.time == NO_TIME { NO_TIME } else { cuts.reached_at(peak.time) };
            if generations.last().is_none_or(|(_, of, _)| *of != passed) {
                generations.push((peak, passed, Vec::new()));
            }
            let Some((_, _, slices)) = generations.last_mut() else { continue };
            let start = cuts.start_of(at);
            match slices.iter_mut().rfind(|(of, _)| *of == start) {
                Some((_, places)) => places.push(place as u32),
                None => slices.push((start, vec![place as u32])),
            }
        }
        let ids = self.rows.selection();
        let mut partial = |start: i64, places: Vec<u32>| {
            let mut groups = self.new_groups();
            let rows: Vec<u32> = places.iter().map(|&place| ids[place as usize]).collect();
            let of = places.iter().map(|&place| place as usize);
            self.update(self.rows.select(&rows), of, &mut groups, folding);
            // Rows of one event stand together.
            let events = places.chunk_by(|&a, &b| self.matched[a as usize] == self.matched[b as usize]);
            (Partial { epoch, start, groups }, events.count() as u64)
        };
        let generations = generations.into_iter().map(|(peak, _, slices)| Generation {
            peak,
            partials: slices.into_iter().map(|(start, places)| partial(start, places)).collect(),
        });
        generations.collect()
    }

    fn singly(&self, scratch: &mut Scratch, counts: &mut EvalCounts, step: &mut QueryStep) {
        let entry = self.at.entry;
        let dialect = entry.query.dialect();
        let has_sessions = matches!(entry.query.plan.window, Window::Session { .. });
        for (place, &row) in self.matched.iter().enumerate() {
            let arrival = self.at.input.arrival(row);
            let at = self.at.times.map_or(arrival, |times| times.times[row as usize]);
            if at == NO_TIME {
                continue;
            }
            let rows = self.rows.part(place..place + 1);
            let mut key = Vec::new();
            if has_sessions {
                let arena = Bump::new();
                for program in &self.group.keys {
                    let mut values = Vec::new();
                    program.evaluate(&rows, scratch, &arena, &mut EvalCounts::default(), &mut values);
                    values.iter().for_each(|value| encode_group_value(value, dialect, &mut key));
                }
            }
            let mut groups = self.new_groups();
            self.update(rows, place..place + 1, &mut groups, &mut FoldContext { scratch, counts, step });
            let peak = self.at.times.map_or(MaxEventTime::NONE, |times| times.peaks[row as usize]);
            step.single_rows.push(SingleRow { arrival, at, peak, key: key.into(), groups });
        }
    }

    fn order(&self, places: impl Iterator<Item = usize>) -> StreamOrder<'_> {
        let mut order = StreamOrder::default();
        let has_events = self.group.aggregates.iter().any(|aggregate| aggregate.function.is_event());
        for place in places {
            let row = self.matched[place];
            let row_of_event = self.row_of_event.get(place).copied().unwrap_or(0);
            order.positions.push(RowPosition { event: self.at.input.place_of(row), row: row_of_event });
            if has_events {
                // It was checked when it came in.
                let event = self.at.input.batch.event(row as usize);
                order.events.push(std::str::from_utf8(event).unwrap_or_default());
            }
        }
        order
    }

    /// Folds rows, which stand at these places among the matched ones, into groups.
    fn update(
        &self,
        rows: Rows<'_>,
        places: impl ExactSizeIterator<Item = usize>,
        groups: &mut Groups,
        folding: &mut FoldContext<'_>,
    ) {
        let count = places.len();
        if groups.count_rows(count) {
            return;
        }
        if let Some(shape) = self.at.shape {
            let rows = rows.selection();
            folding.step.mistyped += groups.update_some(rows, &shape.values, &shape.keys);
            return;
        }
        let arena = Bump::new();
        let mut evaluate = |program: &Program| {
            let mut values: Vec<Value<'_>> = Vec::new();
            program.evaluate(&rows, folding.scratch, &arena, folding.counts, &mut values);
            values
        };
        let dialect = self.at.entry.query.dialect();
        let mut input = GroupInput::evaluate(self.group, count, dialect, false, &mut evaluate);
        if self.group.is_ordered() {
            input.order = self.order(places);
        }
        folding.step.mistyped += groups.update(count, &input);
    }
}
