//! An immutable part of the index: some standing queries and the tables by which a batch finds them.
//!
//! Each query is found by its access predicate: a hash table per path from value to queries; a small bit set in front
//! of each table tells most values that nobody asked for. Queries without one are tested on every event, those with
//! equal filters once for all. Cost of an event: one look-up per indexed path, the residuals of the queries it is a
//! candidate of, and the filters that have no access predicate. After Fabret et al., SIGMOD 2001.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasher,
    sync::Arc,
};

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::{Column, DecodePlan, Decoded, Kind, Millis, Values, Want, WantId};

use super::access::{Access, AccessValue, number_key};
use crate::{
    QueryNumber,
    expr::{EvalCounts, Rows, Scratch, Wants},
    operate::SlicePlan,
    standing::StandingQuery,
};

/// A query in a part.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: QueryNumber,
    pub(crate) query: Arc<StandingQuery>,
    /// Columns of the residual's wants.
    residual: Vec<WantId>,
    /// Columns of the body's wants: in the plan for all events, or (`body_is_late`) in the one for matched events.
    pub(crate) body: Vec<WantId>,
    /// The body's paths are decoded only of events that matched.
    pub(crate) body_is_late: bool,
    /// Columns of the event time's wants.
    pub(crate) time: Vec<WantId>,
    /// How groups are cut into slices.
    pub(crate) slices: Arc<SlicePlan>,
}

/// A standing query as the index is told of it.
pub(crate) type Standing<'q> = (QueryNumber, &'q Arc<StandingQuery>, &'q Arc<SlicePlan>);

/// What a batch matched of one query.
pub(crate) struct Matched<'p> {
    pub(crate) entry: &'p Entry,
    /// Rows, ascending.
    pub(crate) rows: Vec<u32>,
    pub(crate) candidates: u64,
    pub(crate) residual_tests: u64,
    pub(crate) expression_errors: u64,
    pub(crate) mistyped: u64,
    pub(crate) nanos: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Part {
    entries: Vec<Entry>,
    equals: Vec<EqualTable>,
    scans: Vec<Scan>,
    /// Queries with an access predicate that go by the events' own time: they hear of batches without matches too.
    timed: Vec<u32>,
    bytes: usize,
}

/// Queries without access predicate that have one filter: places of entries.
#[derive(Debug)]
struct Scan {
    members: Vec<u32>,
}

/// The queries that ask for certain values at one path.
#[derive(Debug)]
struct EqualTable {
    want: WantId,
    hasher: DefaultHashBuilder,
    strings: HashTable<(Box<str>, Vec<u32>)>,
    /// A bit for each of `strings`, by [`sketch`]: a clear one means that nobody asks for the value.
    sketch: Vec<u64>,
    numbers: HashMap<u64, Vec<u32>>,
    booleans: [Vec<u32>; 2],
}

impl Part {
    /// Queries that every event is tested for.
    pub(crate) fn scanned(&self) -> usize {
        self.scans.iter().map(|scan| scan.members.len()).sum()
    }

    /// Builds the tables for these queries. `all` must hold their filters' wants, and the bodies' of those whose body
    /// is not late; `late` the others.
    pub(crate) fn build<'q>(
        queries: impl IntoIterator<Item = Standing<'q>>,
        all: &DecodePlan,
        late: &DecodePlan,
    ) -> Part {
        let mut part = Part::default();
        let mut tables: HashMap<Want, usize> = HashMap::new();
        let mut scans: HashMap<&str, usize> = HashMap::new();
        for (number, query, slices) in queries {
            let place = part.entries.len() as u32;
            let body_is_late = body_is_late(query);
            part.entries.push(Entry {
                number,
                query: Arc::clone(query),
                residual: query
                    .residual
                    .as_ref()
                    .map_or_else(Vec::new, |residual| bind(&residual.wants, all)),
                body: bind(&query.body_wants, if body_is_late { late } else { all }),
                body_is_late,
                time: query.event_time.as_ref().map_or_else(Vec::new, |time| bind(&time.wants, all)),
                slices: Arc::clone(slices),
            });
            if query.event_time.is_some() && query.access.is_some() {
                part.timed.push(place);
            }
            part.bytes += size_of::<Entry>() + 64;
            match &query.access {
                Some(access) => {
                    let table = *tables.entry(access.want.clone()).or_insert_with(|| {
                        let want = all.find(&access.want).expect("the plan holds every filter's wants");
                        part.equals.push(EqualTable::new(want));
                        part.equals.len() - 1
                    });
                    part.bytes += part.equals[table].insert(access, place);
                }
                None => {
                    let text = query.residual.as_ref().map_or("", |residual| &residual.text);
                    let scan = *scans.entry(text).or_insert_with(|| {
                        part.scans.push(Scan { members: Vec::new() });
                        part.scans.len() - 1
                    });
                    part.scans[scan].members.push(place);
                }
            }
        }
        for table in &mut part.equals {
            part.bytes += table.finish();
        }
        part
    }

    /// Queries in it, ended ones too.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends what the batch matches; queries that are candidates without a match appear with no rows, and so do all
    /// that go by the events' own time.
    pub(crate) fn matches<'p>(
        &'p self,
        batch: &MatchInput<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<Matched<'p>>,
    ) {
        let mut hits: Vec<(u32, u32)> = Vec::new();
        for table in &self.equals {
            table.look_up(batch.decoded.column(table.want), batch.decoded.rows, &mut hits);
        }
        hits.sort_unstable();
        hits.dedup();
        for run in hits.chunk_by(|a, b| a.0 == b.0) {
            let entry = &self.entries[run[0].0 as usize];
            if !(batch.stands)(entry.number) {
                continue;
            }
            let rows: Vec<u32> =
                run.iter().map(|&(_, row)| row).filter(|&row| batch.samples(entry, row)).collect();
            if !rows.is_empty() {
                out.push(self.test(entry, rows, batch, scratch));
            }
        }
        if !self.timed.is_empty() {
            let met: HashSet<QueryNumber> = out.iter().map(|found| found.entry.number).collect();
            let entries = self.timed.iter().map(|&place| &self.entries[place as usize]);
            let missed = entries.filter(|entry| (batch.stands)(entry.number) && !met.contains(&entry.number));
            out.extend(missed.map(|entry| Matched {
                entry,
                rows: Vec::new(),
                candidates: 0,
                residual_tests: 0,
                expression_errors: 0,
                mistyped: 0,
                nanos: 0,
            }));
        }
        for scan in &self.scans {
            let mut shared: Option<Matched<'p>> = None;
            for &place in &scan.members {
                let entry = &self.entries[place as usize];
                if !(batch.stands)(entry.number) {
                    continue;
                }
                if entry.query.plan.sample.is_some() {
                    let rows =
                        (0..batch.decoded.rows as u32).filter(|&row| batch.samples(entry, row)).collect();
                    out.push(self.test(entry, rows, batch, scratch));
                    continue;
                }
                let first = shared.get_or_insert_with(|| {
                    self.test(entry, (0..batch.decoded.rows as u32).collect(), batch, scratch)
                });
                out.push(Matched {
                    entry,
                    rows: first.rows.clone(),
                    nanos: if first.entry.number == entry.number { first.nanos } else { 0 },
                    ..*first
                });
            }
        }
    }

    fn test<'p>(
        &'p self,
        entry: &'p Entry,
        rows: Vec<u32>,
        batch: &MatchInput<'_>,
        scratch: &mut Scratch,
    ) -> Matched<'p> {
        let candidates = rows.len() as u64;
        let Some(residual) = &entry.query.residual else {
            return Matched {
                entry,
                rows,
                candidates,
                residual_tests: 0,
                expression_errors: 0,
                mistyped: 0,
                nanos: 0,
            };
        };
        let start = (batch.nanos)();
        let arena = Bump::new();
        let mut counts = EvalCounts::default();
        let mut kept = Vec::new();
        let input =
            Rows::Events { decoded: batch.decoded, bindings: &entry.residual, rows: &rows, now: batch.now };
        residual.program.keep(&input, scratch, &arena, &mut counts, &mut kept);
        Matched {
            entry,
            rows: kept,
            candidates,
            residual_tests: candidates,
            expression_errors: counts.expression_errors,
            mistyped: mistyped_rows(batch.decoded, &rows, &entry.residual),
            nanos: (batch.nanos)() - start,
        }
    }
}

/// A batch as the matcher sees it.
pub(crate) struct MatchInput<'b> {
    pub(crate) decoded: &'b Decoded,
    pub(crate) now: Millis,
    /// Whether a query still stands.
    pub(crate) stands: &'b dyn Fn(QueryNumber) -> bool,
    /// The place of a row in its source, for sampling.
    pub(crate) place: &'b dyn Fn(u32) -> u64,
    /// Elapsed nanoseconds, for accounting only.
    pub(crate) nanos: &'b dyn Fn() -> u64,
}

impl MatchInput<'_> {
    fn samples(&self, entry: &Entry, row: u32) -> bool {
        entry.query.plan.sample.is_none_or(|share| is_sampled((self.place)(row), share))
    }
}

/// Whether a sample of `share` of the events has the one at `place`: a function of the place alone, so a sample is the
/// same however often and wherever it is taken, and a smaller one is part of a larger one.
pub fn is_sampled(place: u64, share: f64) -> bool {
    // SplitMix64 (Steele et al., OOPSLA 2014) spreads neighbouring places evenly.
    let mut mixed = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    ((mixed >> 11) as f64) < share * (1u64 << 53) as f64
}

/// A query that is found by an index matches few events: its body's paths are decoded of those only.
pub(crate) fn body_is_late(query: &StandingQuery) -> bool {
    query.access.is_some()
}

fn bind(wants: &Wants, plan: &DecodePlan) -> Vec<WantId> {
    wants.as_slice().iter().map(|want| plan.find(want).expect("the plan holds every query's wants")).collect()
}

impl EqualTable {
    fn new(want: WantId) -> EqualTable {
        EqualTable {
            want,
            hasher: DefaultHashBuilder::default(),
            strings: HashTable::new(),
            sketch: Vec::new(),
            numbers: HashMap::new(),
            booleans: [Vec::new(), Vec::new()],
        }
    }

    /// Answers the bytes newly held.
    fn insert(&mut self, access: &Access, place: u32) -> usize {
        let mut bytes = 0;
        for value in &access.values {
            match value {
                AccessValue::String(text) => {
                    let hasher = &self.hasher;
                    let entry = self.strings.entry(
                        hasher.hash_one(text.as_bytes()),
                        |(other, _)| other == text,
                        |(other, _)| hasher.hash_one(other.as_bytes()),
                    );
                    entry.or_insert_with(|| (text.clone(), Vec::new())).into_mut().1.push(place);
                    bytes += text.len() + 48;
                }
                AccessValue::Number(number) => {
                    self.numbers.entry(number_key(*number)).or_default().push(place);
                    bytes += 48;
                }
                AccessValue::Boolean(value) => {
                    self.booleans[usize::from(*value)].push(place);
                    bytes += 4;
                }
            }
        }
        bytes
    }

    /// Sizes the sketch once all values are known: 16 to 32 bits a value.
    fn finish(&mut self) -> usize {
        let bits = (self.strings.len() * 16).next_power_of_two().max(64);
        self.sketch = vec![0; bits / 64];
        for (text, _) in &self.strings {
            let bit = sketch(text.as_bytes()) as usize & (bits - 1);
            self.sketch[bit / 64] |= 1 << (bit % 64);
        }
        bits / 8
    }

    fn look_up(&self, column: &Column, rows: usize, hits: &mut Vec<(u32, u32)>) {
        match &column.values {
            Values::Tagged(tagged) => {
                for row in 0..rows {
                    let at = tagged.offsets[row] as usize;
                    match tagged.kinds[row] {
                        kind if kind == Kind::String as i8 => {
                            // SAFETY: a row's offset is a place in the child that its kind names.
                            self.string(unsafe { tagged.strings.value_unchecked(at) }, row, hits);
                        }
                        kind if kind == Kind::Long as i8 => {
                            self.number(tagged.longs.value(at) as f64, row, hits)
                        }
                        kind if kind == Kind::Double as i8 => {
                            self.number(tagged.doubles.value(at), row, hits)
                        }
                        kind if kind == Kind::Boolean as i8 => {
                            self.boolean(tagged.booleans.value(at), row, hits)
                        }
                        _ => {}
                    }
                }
            }
            Values::String(array) => array.iter().enumerate().for_each(|(row, value)| {
                if let Some(text) = value {
                    self.string(text, row, hits);
                }
            }),
            Values::Boolean(array) => array.iter().enumerate().for_each(|(row, value)| {
                if let Some(value) = value {
                    self.boolean(value, row, hits);
                }
            }),
            Values::Integer(array) => self.numbers(array.iter().map(|value| value.map(f64::from)), hits),
            Values::Long(array) => {
                self.numbers(array.iter().map(|value| value.map(|value| value as f64)), hits)
            }
            Values::Float(array) => self.numbers(array.iter().map(|value| value.map(f64::from)), hits),
            Values::Double(array) => self.numbers(array.iter(), hits),
            Values::Timestamp(_) | Values::Nested(_) => {}
        }
    }

    #[inline]
    fn string(&self, text: &str, row: usize, hits: &mut Vec<(u32, u32)>) {
        let bit = sketch(text.as_bytes()) as usize & (self.sketch.len() * 64 - 1);
        if self.sketch[bit / 64] & (1 << (bit % 64)) == 0 {
            return;
        }
        if let Some((_, places)) =
            self.strings.find(self.hasher.hash_one(text.as_bytes()), |(other, _)| **other == *text)
        {
            hits.extend(places.iter().map(|&place| (place, row as u32)));
        }
    }

    fn numbers(&self, values: impl Iterator<Item = Option<f64>>, hits: &mut Vec<(u32, u32)>) {
        values.enumerate().for_each(|(row, value)| {
            if let Some(value) = value {
                self.number(value, row, hits);
            }
        });
    }

    fn number(&self, value: f64, row: usize, hits: &mut Vec<(u32, u32)>) {
        if let Some(places) = self.numbers.get(&number_key(value)) {
            hits.extend(places.iter().map(|&place| (place, row as u32)));
        }
    }

    fn boolean(&self, value: bool, row: usize, hits: &mut Vec<(u32, u32)>) {
        hits.extend(self.booleans[usize::from(value)].iter().map(|&place| (place, row as u32)));
    }
}

/// A few bits of a text, cheaply: its ends and its length.
#[inline]
fn sketch(text: &[u8]) -> u64 {
    let (first, last) = if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        let byte = |at: usize| u64::from(text.get(at).copied().unwrap_or(0));
        (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
    };
    let mixed = (first ^ last.rotate_left(23) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// Of some rows, those with a value that does not fit the type that one of these columns wants.
pub(crate) fn mistyped_rows(decoded: &Decoded, rows: &[u32], columns: &[WantId]) -> u64 {
    let masks: Vec<_> = columns.iter().filter_map(|want| decoded.column(*want).mistyped.as_ref()).collect();
    if masks.is_empty() {
        return 0;
    }
    rows.iter().filter(|&&row| masks.iter().any(|mask| mask.value(row as usize))).count() as u64
}
