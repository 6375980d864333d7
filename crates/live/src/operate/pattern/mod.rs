//! Patterns: matches consist of single events, key by key, in the order of the stream or of event time.
//!
//! Shards evaluate each event by itself: which variables it may be, and which of its values are needed
//! ([`crate::step`]). One automaton where the shards meet then goes through the events of each key. From every event
//! that may be a pattern's first, one match begins. It takes each later event of its key as soon as it can, and never
//! goes back ([`automaton`]). So the order of the events alone determines the matches, no answer needs a choice, and an
//! event costs one step for each open match of its key. A match is discarded when an excluded event comes, or when its
//! time is over. Such ends are processed in the order of time, whatever the key.
//!
//! By event time, events wait until the watermark has reached them. They are then taken in the order of their times;
//! those of one time in the order of the stream.
//!
//! A match is a row to all that follows: filter, windows, groups, an outer query. Queries do not share a pattern's
//! state, because the open matches depend on when the query began.
//!
//! A pure step machine, as the [`Collector`](super::Collector) that it is part of. Limits: the open matches of one key;
//! the bytes of all of them count as the query's.

mod automaton;
mod partial;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};
use swiftwater_lang::{Dialect, plan::Skip};

pub(crate) use automaton::Automaton;
use automaton::MatchTransition;
use partial::{Cell, Partial};

use super::{RowTimes, owned::OwnedValue};
use crate::{
    MaxEventTime, NO_TIME,
    expr::{EvalCounts, Program, Rows, Scratch, decode_group_value},
    standing::CompiledPattern,
};

/// An event that may be of a pattern.
#[derive(Debug, Clone)]
pub struct PatternEvent {
    /// Its row in its batch.
    pub row: u32,
    /// Its arrival.
    pub arrival: Millis,
    /// Its time, and the latest event time of its batch before it, if the pattern goes by event time.
    pub at: Millis,
    /// See `at`.
    pub peak: MaxEventTime,
    /// Its key.
    pub(crate) key: Box<[u8]>,
    /// The variables that it may be by itself, as bits.
    pub(crate) variables: u32,
    /// The values that conditions and measures read of it.
    pub(crate) values: Box<[OwnedValue]>,
}

/// The events of a batch that may be of a pattern, in its order.
#[derive(Debug, Clone, Default)]
pub struct PatternChunk {
    /// They.
    pub events: Vec<PatternEvent>,
    /// The batch's times.
    pub times: RowTimes,
}

/// A complete match.
#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) key: Arc<[u8]>,
    pub(crate) start: Millis,
    /// Time at which it was complete.
    pub(crate) end: Millis,
    cells: Box<[Cell]>,
}

/// The matches that are begun.
#[derive(Debug)]
pub(crate) struct Matches {
    /// The partial matches of each key, in the order of their first events.
    begun: HashMap<Arc<[u8]>, Vec<Partial>>,
    /// The time limit of each, with the number of its first event.
    ends: BTreeMap<(Millis, u64), Arc<[u8]>>,
    /// Events that wait for the watermark.
    waiting: BTreeMap<(Millis, u64), PatternEvent>,
    /// Events so far.
    events: u64,
    /// The present time.
    now: Millis,
    /// The latest event time.
    peak: MaxEventTime,
    bytes: usize,
    /// Matches that were made rows of.
    pub(crate) given: u64,
    pub(crate) late: u64,
    /// Values that could not be used, and operations that could not be done, since they were last taken.
    pub(crate) mistyped: u64,
    pub(crate) counts: EvalCounts,
    /// The reason why it cannot continue.
    pub(crate) failure: Option<Box<str>>,
    scratch: Scratch,
}

/// Bytes of a key with matches besides them, and of an event that waits besides its values.
const KEY_BYTES: usize = 96;
const WAITING_BYTES: usize = size_of::<PatternEvent>() + 48;

/// The parameters for making matches.
#[derive(Clone, Copy)]
pub(crate) struct Recognizer<'q> {
    pub(crate) pattern: &'q CompiledPattern,
    pub(crate) dialect: Dialect,
    /// The most matches that may be begun with one key.
    pub(crate) partials_max: usize,
}

impl Matches {
    pub(crate) fn new() -> Matches {
        Matches {
            begun: HashMap::new(),
            ends: BTreeMap::new(),
            waiting: BTreeMap::new(),
            events: 0,
            now: NO_TIME,
            peak: MaxEventTime::NONE,
            bytes: 0,
            given: 0,
            late: 0,
            mistyped: 0,
            counts: EvalCounts::default(),
            failure: None,
            scratch: Scratch::default(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The time at which the first match is complete because its time is over, for patterns by arrival.
    pub(crate) fn due(&self, pattern: &CompiledPattern) -> Option<Millis> {
        let waits = pattern.lateness_ms.is_none() && pattern.automaton.waits();
        waits.then(|| self.ends.first_key_value().map(|((end, _), _)| *end)).flatten()
    }

    /// Takes an event, in the order of the stream.
    pub(crate) fn take(&mut self, of: Recognizer<'_>, event: PatternEvent, out: &mut Vec<Match>) {
        if of.pattern.lateness_ms.is_none() {
            let at = event.arrival;
            return self.accept_at(of, &event, at, out);
        }
        self.advance_to(of, event.peak, out);
        if event.at == NO_TIME {
            return;
        }
        if event.at < self.now {
            self.late += 1;
            return;
        }
        self.bytes += waiting_bytes(&event);
        self.events += 1;
        self.waiting.insert((event.at, self.events), event);
    }

    /// Advances to the latest event time so far, for patterns by the events' own time.
    pub(crate) fn advance_to(&mut self, of: Recognizer<'_>, latest: MaxEventTime, out: &mut Vec<Match>) {
        let Some(lateness) = of.pattern.lateness_ms else { return };
        if latest.time > self.peak.time {
            self.peak = latest;
            self.release(of, latest.time.saturating_sub_unsigned(lateness), out);
        }
    }

    /// The latest event time.
    pub(crate) fn peak(&self) -> MaxEventTime {
        self.peak
    }

    /// The arrival at which an idle stream releases the next event, or completes a match; none if nothing waits.
    pub(crate) fn idle_due(&self, pattern: &CompiledPattern) -> Option<Millis> {
        let lateness = pattern.lateness_ms?;
        let waiting = self.waiting.first_key_value().map(|((at, _), _)| *at);
        let ends = self.ends.first_key_value().map(|((end, _), _)| *end);
        let next = waiting.into_iter().chain(ends.filter(|_| pattern.automaton.waits())).min()?;
        self.peak.idle_arrival_of(next.checked_add_unsigned(lateness)?)
    }

    /// Takes the events that have waited, up to the watermark, for patterns by the events' own time.
    fn release(&mut self, of: Recognizer<'_>, watermark: Millis, out: &mut Vec<Match>) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= watermark) {
            let ((at, _), event) = first.remove_entry();
            self.bytes -= waiting_bytes(&event);
            self.accept_at(of, &event, at, out);
        }
        self.expire(of, watermark, out);
    }

    /// Ends the input: waiting events are taken, and time stops at `now`, or with the latest event.
    pub(crate) fn finish(&mut self, of: Recognizer<'_>, now: Millis, out: &mut Vec<Match>) {
        match of.pattern.lateness_ms {
            None => self.expire(of, now, out),
            Some(_) => self.release(of, self.peak.time, out),
        }
    }

    /// Time has come to `now`: ends the matches that took too long, or that waited for that.
    pub(crate) fn expire(&mut self, of: Recognizer<'_>, now: Millis, out: &mut Vec<Match>) {
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= now) {
            let ((end, number), key) = first.remove_entry();
            let Some(mut begun) = self.begun.remove(&key) else { continue };
            if let Some(place) = begun.iter().position(|partial| partial.first == number) {
                let partial = begun.remove(place);
                self.bytes -= partial.bytes();
                let automaton = &of.pattern.automaton;
                if automaton.waits() && automaton.is_complete(partial.reached) {
                    let (key, start) = (Arc::clone(&key), partial.start);
                    out.push(Match { key, start, end, cells: partial.cells });
                    self.drop_common(of, &mut begun, partial.last);
                }
            }
            self.restore(key, begun);
        }
        self.now = self.now.max(now);
    }

    /// Accepts an event, in the order of time.
    fn accept_at(&mut self, of: Recognizer<'_>, event: &PatternEvent, at: Millis, out: &mut Vec<Match>) {
        if self.failure.is_some() {
            return;
        }
        let at = at.max(self.now);
        self.expire(of, at, out);
        self.events += 1;
        let number = self.events;
        let known = self.begun.remove_entry(&event.key[..]);
        let (key, mut begun) = match known {
            Some((key, begun)) => {
                self.bytes -= KEY_BYTES + key.len();
                (key, begun)
            }
            None => (Arc::from(&event.key[..]), Vec::new()),
        };
        let is_taken = self.walk_all(of, event, &key, (at, number), &mut begun, out);
        if !is_taken {
            self.begin(of, event, &key, (at, number), &mut begun, out);
        }
        self.insert(key, begun);
    }

    /// Advances the matches of an event's key; returns true if a match that it completes has the event for itself.
    fn walk_all(
        &mut self,
        of: Recognizer<'_>,
        event: &PatternEvent,
        key: &Arc<[u8]>,
        (at, number): (Millis, u64),
        begun: &mut Vec<Partial>,
        out: &mut Vec<Match>,
    ) -> bool {
        let automaton = &of.pattern.automaton;
        let mut place = 0;
        while place < begun.len() {
            let partial = &mut begun[place];
            let walk = automaton
                .walk(partial.reached, |variable| self.may_be(of, event, key, Some(&*partial), at, variable));
            match walk {
                MatchTransition::Passes => place += 1,
                MatchTransition::Breaks => {
                    let partial = begun.remove(place);
                    self.forget(of, &partial);
                }
                MatchTransition::Takes(variable, reached) => {
                    self.bytes -= partial.bytes();
                    (partial.reached, partial.last) = (reached, number);
                    self.mistyped += partial.take(&of.pattern.measures, variable, &event.values, of.dialect);
                    self.bytes += partial.bytes();
                    if automaton.waits() || !automaton.is_complete(reached) {
                        place += 1;
                        continue;
                    }
                    let partial = begun.remove(place);
                    self.forget(of, &partial);
                    let start = partial.start;
                    out.push(Match { key: Arc::clone(key), start, end: at, cells: partial.cells });
                    if of.pattern.skip == Skip::PastLastRow {
                        self.drop_common(of, begun, number);
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Begins a match with an event, if it may be the first.
    fn begin(
        &mut self,
        of: Recognizer<'_>,
        event: &PatternEvent,
        key: &Arc<[u8]>,
        (at, number): (Millis, u64),
        begun: &mut Vec<Partial>,
        out: &mut Vec<Match>,
    ) {
        let automaton = &of.pattern.automaton;
        let may_begin = automaton.begin(|variable| self.may_be(of, event, key, None, at, variable));
        let Some((variable, reached)) = may_begin else { return };
        let mut partial = Partial::new(&of.pattern.measures, reached, number, at);
        self.mistyped += partial.take(&of.pattern.measures, variable, &event.values, of.dialect);
        if !automaton.waits() && automaton.is_complete(reached) {
            out.push(Match { key: Arc::clone(key), start: at, end: at, cells: partial.cells });
            if of.pattern.skip == Skip::PastLastRow {
                self.drop_common(of, begun, number);
            }
            return;
        }
        if begun.len() >= of.partials_max {
            let failure = format!(
                "more than {} matches of the pattern are begun with one key (`engine.pattern_partials_max`): let fewer events \
                 begin one, shorten WITHIN, or raise the limit",
                of.partials_max
            );
            self.failure = Some(failure.into());
            return;
        }
        self.bytes += partial.bytes();
        self.ends.insert((end_of(of, &partial), number), Arc::clone(key));
        begun.push(partial);
    }

    /// Drops the partial matches that began up to the last event of a match, which has this number, if no event may be
    /// in two matches.
    fn drop_common(&mut self, of: Recognizer<'_>, begun: &mut Vec<Partial>, last: u64) {
        if of.pattern.skip == Skip::PastLastRow {
            for partial in begun.extract_if(.., |partial| partial.first <= last) {
                self.forget(of, &partial);
            }
        }
    }

    /// Removes a partial match.
    fn forget(&mut self, of: Recognizer<'_>, partial: &Partial) {
        self.bytes -= partial.bytes();
        self.ends.remove(&(end_of(of, partial), partial.first));
    }

    fn restore(&mut self, key: Arc<[u8]>, begun: Vec<Partial>) {
        self.bytes -= KEY_BYTES + key.len();
        self.insert(key, begun);
    }

    fn insert(&mut self, key: Arc<[u8]>, begun: Vec<Partial>) {
        if !begun.is_empty() {
            self.bytes += KEY_BYTES + key.len();
            self.begun.insert(key, begun);
        }
    }

    /// True if an event may be a variable's in a match; `partial`: what it is so far.
    fn may_be(
        &mut self,
        of: Recognizer<'_>,
        event: &PatternEvent,
        key: &[u8],
        partial: Option<&Partial>,
        at: Millis,
        variable: usize,
    ) -> bool {
        if event.variables & (1 << variable) == 0 {
            return false;
        }
        let Some(further) = &of.pattern.further[variable] else { return true };
        let arena = Bump::new();
        let nothing: Box<[Cell]>;
        let (start, cells) = match partial {
            Some(partial) => (partial.start, &partial.cells),
            None => {
                nothing = Partial::new_cells(&of.pattern.measures);
                (at, &nothing)
            }
        };
        let mut slots = slots(of);
        push_match(of, key, (Value::Long(start), Value::Null), cells, &arena, &mut slots);
        slots.extend(event.values.iter().map(|value| vec![value.get(&arena)]));
        filter_slots(further, &slots, 1, at, &mut self.scratch, &arena, &mut self.counts) == [0]
    }
}

/// Columns for the slots of matches.
pub(crate) fn slots<'a>(of: Recognizer<'_>) -> Vec<Vec<Value<'a>>> {
    vec![Vec::new(); of.pattern.keys.len() + 2 + of.pattern.measures.len()]
}

impl Match {
    /// Appends its slots to their columns.
    pub(crate) fn push<'a>(&'a self, of: Recognizer<'_>, arena: &'a Bump, slots: &mut [Vec<Value<'a>>]) {
        let times = (Value::Long(self.start), Value::Long(self.end));
        push_match(of, &self.key, times, &self.cells, arena, slots);
    }
}

fn push_match<'a>(
    of: Recognizer<'_>,
    key: &[u8],
    (start, end): (Value<'a>, Value<'a>),
    cells: &'a [Cell],
    arena: &'a Bump,
    slots: &mut [Vec<Value<'a>>],
) {
    let keys = of.pattern.keys.len();
    let mut rest = key;
    for column in &mut slots[..keys] {
        let (value, behind) = decode_group_value(rest, arena);
        rest = behind;
        column.push(value);
    }
    slots[keys].push(start);
    slots[keys + 1].push(end);
    for (cell, column) in cells.iter().zip(&mut slots[keys + 2..]) {
        column.push(cell.value(of.dialect, arena));
    }
}

/// The rows for which a condition over slots holds.
pub(crate) fn filter_slots<'a>(
    condition: &Program,
    slots: &'a [Vec<Value<'a>>],
    count: usize,
    now: Millis,
    scratch: &mut Scratch,
    arena: &'a Bump,
    counts: &mut EvalCounts,
) -> Vec<u32> {
    let mut kept = Vec::new();
    condition.filter_rows(&Rows::Slots { columns: slots, count, now }, scratch, arena, counts, &mut kept);
    kept
}

fn end_of(of: Recognizer<'_>, partial: &Partial) -> Millis {
    partial.start.saturating_add_unsigned(of.pattern.within_ms)
}

fn waiting_bytes(event: &PatternEvent) -> usize {
    let values = event.values.iter().map(|value| size_of::<OwnedValue>() + value.heap_bytes());
    WAITING_BYTES + event.key.len() + values.sum::<usize>()
}
