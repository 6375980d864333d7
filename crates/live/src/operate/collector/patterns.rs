//! Turns the matches of a pattern into the rows of a query: records, or grouped and aggregated rows.
//!
//! A match counts when it is complete. Windows by arrival contain it at that time; windows by record contain matches in
//! the order in which they are complete.

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};

use super::{Collector, ResultSet};
use crate::{
    MaxEventTime, SingleRow,
    expr::{EvalCounts, Program, Rows, Scratch, encode_group_value},
    operate::{
        Axis, GroupInput, Groups, OwnedValue, Partial, PatternChunk, RecordWriter, RowChunk, RowPosition,
        RowTimes, Slices, StreamOrder,
        pattern::{Match, Matches, Recognizer, filter_slots, slots},
    },
    standing::{CompiledBody, CompiledGroup, StandingQuery},
};

/// The errors in making matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatternFaults {
    /// Values that could not be used for their type.
    pub mistyped: u64,
    /// Operations that could not be done.
    pub expression_errors: u64,
}

impl Collector {
    /// Takes the events of a batch that may be of a pattern; batches must come in the order of the stream. Returns the
    /// number of events taken: fewer than there are if LIMIT is reached.
    pub fn pattern_events(
        &mut self,
        chunk: PatternChunk,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) -> usize {
        let count = chunk.events.len();
        // Events after the last match of the LIMIT are ignored.
        let looks_at_each = self.order.limit.is_some() && self.axis == Axis::None;
        let mut found = Vec::new();
        for (place, event) in chunk.events.into_iter().enumerate() {
            if self.is_done {
                return place;
            }
            if looks_at_each {
                // A match that was complete before an event is complete independently of the clock's checks.
                self.expire_pattern(event.arrival, slices, now_micros, out);
                if self.is_done {
                    return place;
                }
            }
            self.recognize(&mut found, |matches, of, found| matches.take(of, event, found));
            if looks_at_each {
                self.emit_matches(&mut found, chunk.times, slices, now_micros, out);
            }
        }
        self.emit_matches(&mut found, chunk.times, slices, now_micros, out);
        count
    }

    /// The latest event time so far is this.
    pub(super) fn pattern_time(
        &mut self,
        latest: MaxEventTime,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.find_matches(slices, now_micros, out, |matches, of, found| {
            matches.advance_to(of, latest, found)
        });
    }

    /// Advances a pattern by arrival to `now`.
    pub(super) fn expire_pattern(
        &mut self,
        now: Millis,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.find_matches(slices, now_micros, out, |matches, of, found| {
            if of.pattern.lateness_ms.is_none() {
                matches.expire(of, now, found);
            }
        });
    }

    /// Ends a pattern at `now`.
    pub(super) fn finish_pattern(
        &mut self,
        now: Millis,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.find_matches(slices, now_micros, out, |matches, of, found| matches.finish(of, now, found));
    }

    /// Time at which the next match may be complete because its time is over.
    pub(super) fn pattern_due(&self) -> Option<Millis> {
        self.pattern.as_ref()?.due(self.query.pattern.as_ref()?)
    }

    /// The errors in making matches since the last call.
    pub fn drain_pattern_faults(&mut self) -> PatternFaults {
        let Some(matches) = &mut self.pattern else { return PatternFaults::default() };
        PatternFaults {
            mistyped: std::mem::take(&mut matches.mistyped),
            expression_errors: std::mem::take(&mut matches.counts).expression_errors,
        }
    }

    /// The reason why it cannot continue.
    pub fn failure(&self) -> Option<&str> {
        self.pattern.as_ref()?.failure.as_deref()
    }

    fn find_matches(
        &mut self,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
        find: impl FnOnce(&mut Matches, Recognizer<'_>, &mut Vec<Match>),
    ) {
        if self.pattern.is_none() || self.is_done {
            return;
        }
        let mut found = Vec::new();
        self.recognize(&mut found, find);
        // They are of no batch.
        let times = RowTimes { sent: 0, read: now_micros, matched: now_micros };
        self.emit_matches(&mut found, times, slices, now_micros, out);
    }

    fn recognize(
        &mut self,
        found: &mut Vec<Match>,
        find: impl FnOnce(&mut Matches, Recognizer<'_>, &mut Vec<Match>),
    ) {
        let (Some(matches), Some(pattern)) = (&mut self.pattern, &self.query.pattern) else { return };
        let of = Recognizer {
            pattern,
            dialect: self.query.dialect(),
            partials_max: self.limits.pattern_partials_max,
        };
        find(matches, of, found);
    }

    /// Makes rows of the matches, and leaves none.
    fn emit_matches(
        &mut self,
        found: &mut Vec<Match>,
        times: RowTimes,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        if found.is_empty() {
            return;
        }
        let query = std::sync::Arc::clone(&self.query);
        let (Some(pattern), Some(matches)) = (&query.pattern, &mut self.pattern) else { return };
        let of = Recognizer { pattern, dialect: query.dialect(), partials_max: 0 };
        let arena = Bump::new();
        let mut columns = slots(of);
        found.iter().for_each(|one| one.push(of, &arena, &mut columns));
        let mut ends: Vec<Millis> = found.iter().map(|one| one.end).collect();
        let now = now_micros.div_euclid(1000);
        let counts = &mut matches.counts;
        if let Some(filter) = &pattern.filter {
            let kept =
                filter_slots(filter, &columns, ends.len(), now, &mut Scratch::default(), &arena, counts);
            ends = kept.iter().map(|&row| ends[row as usize]).collect();
            columns = picked(&columns, &kept);
        }
        let rows = MatchRows { columns: &columns, ends: &ends, now, arena: &arena };
        match &query.body {
            CompiledBody::Raw { .. } => {
                let mut chunk = rows.records(&query, counts);
                chunk.times = times;
                self.rows(&mut chunk, now_micros, out);
            }
            CompiledBody::Group(group) if matches!(self.axis, Axis::Records) || self.sessions.is_some() => {
                let singles = (0..ends.len() as u32).map(|row| {
                    let columns = picked(&columns, &[row]);
                    let at = ends[row as usize];
                    let one = MatchRows { columns: &columns, ends: &[at], now, arena: &arena };
                    let key = one.key(group, &query);
                    SingleRow {
                        arrival: at,
                        at,
                        peak: MaxEventTime::NONE,
                        key,
                        groups: one.groups(group, &query, matches),
                    }
                });
                let singles = singles.collect();
                self.single_rows(singles, slices, now_micros, out);
            }
            CompiledBody::Group(group) => {
                let cuts = self.shape.map(|shape| shape.cuts());
                let start_of = |at: Millis| cuts.as_ref().map_or(i64::MIN, |cuts| cuts.start_of(at));
                let mut from = 0;
                while from < ends.len() {
                    // They are complete one after another, so each slice's stand together.
                    let start = start_of(ends[from]);
                    let behind = ends[from..].iter().position(|&at| start_of(at) != start);
                    let to = behind.map_or(ends.len(), |behind| from + behind);
                    let places: Vec<u32> = (from as u32..to as u32).collect();
                    let columns = picked(&columns, &places);
                    let part = MatchRows { columns: &columns, ends: &ends[from..to], now, arena: &arena };
                    let groups = part.groups(group, &query, matches);
                    slices.add(Partial { epoch: 0, start, groups });
                    from = to;
                }
            }
        }
        found.clear();
    }
}

/// The given rows of columns.
fn picked<'a>(columns: &[Vec<Value<'a>>], rows: &[u32]) -> Vec<Vec<Value<'a>>> {
    columns.iter().map(|column| rows.iter().map(|&row| column[row as usize]).collect()).collect()
}

/// The slots of matches, in columns.
struct MatchRows<'r, 'a> {
    columns: &'r [Vec<Value<'a>>],
    ends: &'r [Millis],
    now: Millis,
    arena: &'r Bump,
}

impl<'r, 'a: 'r> MatchRows<'r, 'a> {
    fn rows(&self) -> Rows<'r> {
        Rows::Slots { columns: self.columns, count: self.ends.len(), now: self.now }
    }

    fn evaluate(&self, program: &Program, counts: &mut EvalCounts) -> Vec<Value<'r>> {
        let mut values = Vec::new();
        program.evaluate(&self.rows(), &mut Scratch::default(), self.arena, counts, &mut values);
        values
    }

    fn records(&self, query: &StandingQuery, counts: &mut EvalCounts) -> RowChunk {
        let mut chunk = RowChunk::default();
        let CompiledBody::Raw { columns, order, .. } = &query.body else { return chunk };
        let writer = RecordWriter::new(columns, query.dialect(), false);
        let values: Vec<_> = columns.iter().map(|column| self.evaluate(&column.program, counts)).collect();
        let order: Vec<_> = order.iter().map(|(program, _)| self.evaluate(program, counts)).collect();
        let mut text = Vec::new();
        for (place, end) in self.ends.iter().enumerate() {
            writer.write(&values, place, &mut text);
            chunk.ends.push(text.len());
            chunk.rows.push(0);
            chunk.arrivals.push(*end);
            if !order.is_empty() {
                chunk.keys.push(order.iter().map(|values| OwnedValue::of(&values[place])).collect());
            }
        }
        chunk.text = text.into();
        chunk
    }

    fn groups(&self, group: &CompiledGroup, query: &StandingQuery, matches: &mut Matches) -> Groups {
        let mut groups = Groups::new(group, query.dialect());
        if !groups.count_rows(self.ends.len()) {
            let counts = &mut matches.counts;
            let mut evaluate = |program: &Program| self.evaluate(program, counts);
            let rows = self.ends.len();
            let mut input = GroupInput::evaluate(group, rows, query.dialect(), false, &mut evaluate);
            if group.is_ordered() {
                let numbers = (matches.given..).take(self.ends.len());
                let positions = numbers.map(|event| RowPosition { event, row: 0 });
                input.order = StreamOrder { positions: positions.collect(), ..StreamOrder::default() };
            }
            matches.given += self.ends.len() as u64;
            matches.mistyped += groups.update(self.ends.len(), &input);
        }
        groups
    }

    /// The key of a single match's session.
    fn key(&self, group: &CompiledGroup, query: &StandingQuery) -> Box<[u8]> {
        let mut key = Vec::new();
        for program in &group.keys {
            let values = self.evaluate(program, &mut EvalCounts::default());
            values.iter().for_each(|value| encode_group_value(value, query.dialect(), &mut key));
        }
        key.into()
    }
}
