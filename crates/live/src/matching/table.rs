//! The index table of one path: maps its values to the queries that test for them.

use std::{collections::BTreeMap, sync::Arc};

use aho_corasick::{AhoCorasick, MatchKind};
use arrow_array::{Array, StringViewArray};
use swiftwater_event::{Column, Kind, Values, WantId};

use super::{
    bloom_filter::Mask,
    condition::{Test, TextSpan},
    contents::ContainerIndex,
    interval_index::{Domain, IntervalIndex},
    number::{Span, double_key, long_key},
    pattern::{Pattern, Patterns},
    points::{PointIndex, Prefixes, TextKey, TextPointIndex},
    posting::{Columns, View},
    word_table::{RowWordNumbers, WordTable},
    word_test::{WordAccess, WordCounts},
};

/// The queries that ask for values at one path. Postings are numbers of ways.
#[derive(Debug)]
pub(crate) struct PathTable {
    pub(crate) column: WantId,
    texts: TextPointIndex,
    longs: PointIndex,
    doubles: PointIndex,
    long_spans: Option<IntervalIndex>,
    double_spans: Option<IntervalIndex>,
    prefixes: Prefixes,
    text_spans: Vec<TextIntervalIndex>,
    contains: Option<Contains>,
    patterns: Option<Patterns>,
    contents: Option<ContainerIndex>,
    /// Words of texts at any depth.
    words: Option<Box<WordTable>>,
    /// FALSE, TRUE.
    booleans: [Box<[u32]>; 2],
    /// Null tests: of queries for which a missing path is null, and of the others.
    nulls: [Box<[u32]>; 2],
    not_null: Box<[u32]>,
}

/// The inputs of a table.
#[derive(Debug, Default)]
pub(crate) struct TableBuilder<'t> {
    texts: Vec<(&'t str, u32)>,
    longs: Vec<(u64, u32)>,
    doubles: Vec<(u64, u32)>,
    long_spans: Vec<(Span, u32)>,
    double_spans: Vec<(Span, u32)>,
    prefixes: Vec<(&'t [u8], u32)>,
    text_spans: [Vec<(&'t TextSpan, u32)>; 2],
    contains: BTreeMap<&'t [u8], Vec<u32>>,
    patterns: Vec<(&'t Arc<Pattern>, u32)>,
    sizes: Vec<(u64, u32)>,
    size_spans: Vec<(Span, u32)>,
    keys: Vec<(&'t str, u32)>,
    words: Vec<(WordAccess<&'t str>, u32)>,
    booleans: [Vec<u32>; 2],
    nulls: [Vec<u32>; 2],
    not_null: Vec<u32>,
}

/// Pairs of a way and a row, the way in the upper half.
pub(crate) type Hits = Vec<u64>;

#[inline]
pub(super) fn add(hits: &mut Hits, groups: &[u32], row: usize) {
    for &group in groups {
        hits.push(u64::from(group) << 32 | row as u64);
    }
}

impl<'t> TableBuilder<'t> {
    /// Files a group under all values that a test holds of; `counts`: of the words of recent events. False where the test
    /// is not one to find anybody by.
    pub(super) fn add(&mut self, test: &'t Test, group: u32, counts: Option<&WordCounts>) -> bool {
        match test {
            Test::Text(text) => self.texts.push((text, group)),
            Test::Set(set) => {
                self.texts.extend(set.texts.iter().map(|text| (&**text, group)));
                spread(&set.spans.longs, group, &mut self.longs, &mut self.long_spans);
                spread(&set.spans.doubles, group, &mut self.doubles, &mut self.double_spans);
                for value in 0..2 {
                    if set.booleans >> value & 1 == 1 {
                        self.booleans[value].push(group);
                    }
                }
            }
            Test::TextSpan(span) => self.text_spans[usize::from(span.utf16)].push((span, group)),
            Test::Prefixes(prefixes) => {
                self.prefixes.extend(prefixes.iter().map(|prefix| (&**prefix, group)))
            }
            Test::Contains(finder) => self.contains.entry(finder.needle()).or_default().push(group),
            Test::Null { errors } => self.nulls[usize::from(!errors)].push(group),
            Test::Pattern(pattern) => match &pattern.required {
                Some(required) => return self.add(required, group, counts),
                None => self.patterns.push((pattern, group)),
            },
            Test::Size(spans) => spread(spans, group, &mut self.sizes, &mut self.size_spans),
            Test::Key(key) => self.keys.push((key, group)),
            Test::Words(words) => {
                self.words.extend(words.accesses(counts).map(|access| (access, group)));
            }
            Test::NotNull => self.not_null.push(group),
            Test::NotText(_) => return false,
        }
        true
    }

    /// `with_automata`: what takes long to make is made.
    pub(crate) fn finish(self, column: WantId, with_automata: bool) -> PathTable {
        let stabbing =
            |domain, spans: Vec<(Span, u32)>| (!spans.is_empty()).then(|| IntervalIndex::new(domain, &spans));
        PathTable {
            column,
            texts: TextPointIndex::new(self.texts),
            longs: PointIndex::new(self.longs),
            doubles: PointIndex::new(self.doubles),
            long_spans: stabbing(Domain::Long, self.long_spans),
            double_spans: stabbing(Domain::Double, self.double_spans),
            prefixes: Prefixes::new(self.prefixes),
            text_spans: self
                .text_spans
                .into_iter()
                .zip([false, true])
                .filter(|(spans, _)| !spans.is_empty())
                .map(|(spans, utf16)| TextIntervalIndex::new(spans, utf16))
                .collect(),
            contains: Contains::new(self.contains),
            patterns: Patterns::new(&self.patterns, with_automata),
            contents: ContainerIndex::new(self.sizes, self.size_spans, self.keys),
            words: (!self.words.is_empty()).then(|| Box::new(WordTable::new(self.words))),
            booleans: self.booleans.map(Into::into),
            nulls: self.nulls.map(Into::into),
            not_null: self.not_null.into(),
        }
    }
}

/// Spans of so few keys are points.
const POINTS_MAX: u64 = 2;

fn spread(from: &[Span], group: u32, points: &mut Vec<(u64, u32)>, spans: &mut Vec<(Span, u32)>) {
    for &(first, last) in from {
        if last - first < POINTS_MAX {
            points.extend((first..=last).map(|key| (key, group)));
        } else {
            spans.push(((first, last), group));
        }
    }
}

impl PathTable {
    /// Appends the postings that the rows of a column find; a row may find a posting more than once. `passed` is scratch
    /// space.
    pub(super) fn look_up(&self, columns: &Columns<'_>, hits: &mut Hits, passed: &mut Vec<u32>) {
        let (column, rows) = (columns.decoded.column(self.column), columns.decoded.rows);
        match columns.views[self.column.0 as usize] {
            View::Texts(texts) => self.all_texts(texts, hits, passed),
            View::Longs(longs) => self.all_longs(longs, hits, passed),
            View::Doubles(doubles) => self.all_doubles(doubles, hits, passed),
            View::Mixed(column) => self.look_up_values(column, rows, hits),
        }
        if let Some(contents) = &self.contents {
            contents.look_up(column, rows, hits);
        }
        if let Some(words) = &self.words {
            self.all_words(words, columns, hits);
        }
        if !self.has_nulls() {
            return;
        }
        for row in 0..rows {
            let is_null = super::condition::cell(column, row) == super::condition::Cell::Null;
            if !is_null {
                add(hits, &self.not_null, row);
                continue;
            }
            add(hits, &self.nulls[0], row);
            if column.errors.as_ref().is_none_or(|errors| !errors.value(row)) {
                add(hits, &self.nulls[1], row);
            }
        }
    }

    /// Looks up the words of all rows.
    fn all_words(&self, table: &WordTable, columns: &Columns<'_>, hits: &mut Hits) {
        let column = columns.decoded.column(self.column);
        let rows = columns.decoded.rows;
        let mut words = columns.words.borrow_mut();
        let mut found = RowWordNumbers::default();
        for row in 0..rows {
            let of_row = words.of_row(self.column, column, rows, row);
            table.look_up(of_row, row, &mut found, hits);
        }
    }

    fn has_nulls(&self) -> bool {
        !self.not_null.is_empty() || self.nulls.iter().any(|groups| !groups.is_empty())
    }

    fn has_longs(&self) -> bool {
        !self.longs.is_empty() || self.long_spans.is_some()
    }

    fn has_doubles(&self) -> bool {
        !self.doubles.is_empty() || self.double_spans.is_some()
    }

    fn has_texts(&self) -> bool {
        !self.texts.is_empty()
            || !self.prefixes.is_empty()
            || !self.text_spans.is_empty()
            || self.contains.is_some()
            || self.patterns.is_some()
    }

    fn look_up_values(&self, column: &Column, rows: usize, hits: &mut Hits) {
        match &column.values {
            Values::Tagged(tagged) => {
                let (kinds, offsets) = (&tagged.kinds[..rows], &tagged.offsets[..rows]);
                for (row, (&kind, &at)) in kinds.iter().zip(offsets).enumerate() {
                    let at = at as usize;
                    match kind {
                        kind if kind == Kind::String as i8 => self.text(tagged.strings.value(at), row, hits),
                        kind if kind == Kind::Long as i8 => {
                            self.long(long_key(tagged.longs.value(at)), row, hits)
                        }
                        kind if kind == Kind::Double as i8 => {
                            self.double(double_key(tagged.doubles.value(at)), row, hits)
                        }
                        kind if kind == Kind::Boolean as i8 => {
                            add(hits, &self.booleans[usize::from(tagged.booleans.value(at))], row)
                        }
                        _ => {}
                    }
                }
            }
            Values::String(array) if self.has_texts() => valid(array, rows, |row| {
                self.text(array.value(row), row, hits);
            }),
            Values::Boolean(array) => valid(array, rows, |row| {
                add(hits, &self.booleans[usize::from(array.value(row))], row);
            }),
            Values::Integer(array) if self.has_longs() => valid(array, rows, |row| {
                self.long(long_key(i64::from(array.value(row))), row, hits);
            }),
            Values::Long(array) if self.has_longs() => valid(array, rows, |row| {
                self.long(long_key(array.value(row)), row, hits);
            }),
            Values::Float(array) if self.has_doubles() => valid(array, rows, |row| {
                self.double(double_key(f64::from(array.value(row))), row, hits);
            }),
            Values::Double(array) if self.has_doubles() => valid(array, rows, |row| {
                self.double(double_key(array.value(row)), row, hits);
            }),
            // No query asks here for values of other kinds, nor for times and containers.
            _ => {}
        }
    }

    /// One table after another over all rows, so that each loop is short and its table stays in the cache.
    fn all_texts(&self, texts: &StringViewArray, hits: &mut Hits, passed: &mut Vec<u32>) {
        let views = texts.views();
        let text = |row: usize| texts.value(row).as_bytes();
        let key_of = |row: usize| match TextKey::is_short(views[row]) {
            true => TextKey::of_view(views[row]),
            false => TextKey::of(text(row)),
        };
        if !self.texts.is_empty() {
            passed.clear();
            self.texts.sieve().sift(views, Mask::ALL, text, passed);
            ahead(
                passed,
                |row| self.texts.prefetch(key_of(row)),
                |row| add(hits, self.texts.get(key_of(row), text(row)), row),
            );
        }
        for class in self.prefixes.classes() {
            let (sieve, mask) = class.sieve();
            passed.clear();
            sieve.sift(views, mask, text, passed);
            for &row in &*passed {
                let row = row as usize;
                self.prefixes.find_in(class, text(row), |ways| add(hits, ways, row));
            }
        }
        if !self.text_spans.is_empty() || self.contains.is_some() || self.patterns.is_some() {
            for row in 0..texts.len() {
                self.within_text(texts.value(row), row, hits);
            }
        }
    }

    fn all_longs(&self, longs: &[i64], hits: &mut Hits, passed: &mut Vec<u32>) {
        let key = |row: usize| long_key(longs[row]);
        all_points(&self.longs, longs.len(), key, hits, passed);
        if let Some(spans) = &self.long_spans {
            all_spans(spans, longs.len(), |row| longs[row] as f64, key, hits, passed);
        }
    }

    fn all_doubles(&self, doubles: &[f64], hits: &mut Hits, passed: &mut Vec<u32>) {
        let key = |row: usize| double_key(doubles[row]);
        all_points(&self.doubles, doubles.len(), key, hits, passed);
        if let Some(spans) = &self.double_spans {
            all_spans(spans, doubles.len(), |row| doubles[row], key, hits, passed);
        }
    }

    fn text(&self, text: &str, row: usize, hits: &mut Hits) {
        let key = TextKey::of(text.as_bytes());
        if !self.texts.is_empty() && self.texts.sieve().has(Mask::ALL.hash(key.as_view())) {
            add(hits, self.texts.get(key, text.as_bytes()), row);
        }
        self.prefixes.find(key, text.as_bytes(), |ways| add(hits, ways, row));
        self.within_text(text, row, hits);
    }

    fn within_text(&self, text: &str, row: usize, hits: &mut Hits) {
        for spans in &self.text_spans {
            spans.find(text, |groups| add(hits, groups, row));
        }
        if let Some(contains) = &self.contains {
            contains.find(text, |groups| add(hits, groups, row));
        }
        if let Some(patterns) = &self.patterns {
            patterns.find(text, |ways| add(hits, ways, row));
        }
    }

    #[inline]
    fn long(&self, key: u64, row: usize, hits: &mut Hits) {
        if !self.longs.is_empty() && self.longs.may_have(key) {
            add(hits, self.longs.get(key), row);
        }
        if let Some(spans) = &self.long_spans {
            spans.stab(key, |groups| add(hits, groups, row));
        }
    }

    #[inline]
    fn double(&self, key: u64, row: usize, hits: &mut Hits) {
        if !self.doubles.is_empty() && self.doubles.may_have(key) {
            add(hits, self.doubles.get(key), row);
        }
        if let Some(spans) = &self.double_spans {
            spans.stab(key, |groups| add(hits, groups, row));
        }
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        let spans = [&self.long_spans, &self.double_spans].into_iter().flatten().map(IntervalIndex::bytes);
        let lists =
            self.booleans.iter().chain(&self.nulls).chain([&self.not_null]).map(|list| list.len() * 4);
        size_of::<PathTable>()
            + self.texts.bytes()
            + self.longs.bytes()
            + self.doubles.bytes()
            + self.prefixes.bytes()
            + spans.chain(lists).sum::<usize>()
            + self.text_spans.iter().map(TextIntervalIndex::bytes).sum::<usize>()
            + self.contains.as_ref().map_or(0, Contains::bytes)
            + self.patterns.as_ref().map_or(0, Patterns::bytes)
            + self.contents.as_ref().map_or(0, ContainerIndex::bytes)
            + self.words.as_ref().map_or(0, |words| size_of::<WordTable>() + words.bytes())
    }
}

/// Looks up the keys of all rows.
fn all_points(
    points: &PointIndex,
    rows: usize,
    key: impl Fn(usize) -> u64,
    hits: &mut Hits,
    passed: &mut Vec<u32>,
) {
    if points.is_empty() {
        return;
    }
    sift(rows, |row| points.may_have(key(row)), passed);
    ahead(passed, |row| points.prefetch(key(row)), |row| add(hits, points.get(key(row)), row));
}

/// Looks up the intervals that contain each row's value.
fn all_spans(
    spans: &IntervalIndex,
    rows: usize,
    value: impl Fn(usize) -> f64,
    key: impl Fn(usize) -> u64,
    hits: &mut Hits,
    passed: &mut Vec<u32>,
) {
    passed.clear();
    spans.sift(rows, &value, passed);
    ahead(passed, |row| spans.prefetch(value(row)), |row| spans.stab(key(row), |ways| add(hits, ways, row)));
}

/// Rows that pass, 64 at a time, without a branch: most do not.
#[inline(always)]
fn sift(rows: usize, passes: impl Fn(usize) -> bool, passed: &mut Vec<u32>) {
    passed.clear();
    let mut from = 0;
    while from < rows {
        let count = (rows - from).min(64);
        let mut bits = 0_u64;
        for at in 0..count {
            bits |= u64::from(passes(from + at)) << at;
        }
        while bits != 0 {
            passed.push(from as u32 + bits.trailing_zeros());
            bits &= bits - 1;
        }
        from += count;
    }
}

/// Rows whose memory is asked for before the first of them is looked up.
const AHEAD: usize = 64;

/// Calls for each row, after memory for it and its neighbours was asked for.
#[inline(always)]
fn ahead(rows: &[u32], ask: impl Fn(usize), mut each: impl FnMut(usize)) {
    for rows in rows.chunks(AHEAD) {
        rows.iter().for_each(|&row| ask(row as usize));
        rows.iter().for_each(|&row| each(row as usize));
    }
}

/// Calls for each row that is not null.
#[inline]
fn valid<A: Array>(array: &A, rows: usize, mut each: impl FnMut(usize)) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => (0..rows).for_each(each),
        Some(nulls) => nulls.valid_indices().take_while(|&row| row < rows).for_each(&mut each),
    }
}

/// Intervals of text: their bounds cut the line of all texts into pieces, whose numbers are the keys of a [`IntervalIndex`].
#[derive(Debug)]
struct TextIntervalIndex {
    utf16: bool,
    /// Ascending; `true`: behind the text, else before it.
    cuts: Box<[(Box<str>, bool)]>,
    pieces: IntervalIndex,
}

impl TextIntervalIndex {
    fn new(spans: Vec<(&TextSpan, u32)>, utf16: bool) -> TextIntervalIndex {
        type Cut<'t> = (&'t str, bool);
        let order = |a: &Cut<'_>, b: &Cut<'_>| super::order_text(a.0, b.0, utf16).then(a.1.cmp(&b.1));
        // A low bound that excludes its text begins after it.
        let low = |span: &'_ TextSpan| span.low.as_ref().map(|(text, within)| (text.clone(), !within));
        let high = |span: &'_ TextSpan| span.high.as_ref().map(|(text, within)| (text.clone(), *within));
        let mut cuts: Vec<(Box<str>, bool)> =
            spans.iter().flat_map(|(span, _)| [low(span), high(span)]).flatten().collect();
        cuts.sort_unstable_by(|a, b| order(&(&*a.0, a.1), &(&*b.0, b.1)));
        cuts.dedup();
        let place = |cut: &(Box<str>, bool)| {
            cuts.partition_point(|other| order(&(&*other.0, other.1), &(&*cut.0, cut.1)).is_lt()) as u64
        };
        let pieces: Vec<(Span, u32)> = spans
            .iter()
            .map(|(span, group)| {
                let from = low(span).map_or(0, |cut| place(&cut) + 1);
                let to = high(span).map_or(cuts.len() as u64, |cut| place(&cut));
                ((from, to), *group)
            })
            .filter(|((from, to), _)| from <= to)
            .map(|((from, to), group)| ((piece_key(from), piece_key(to)), group))
            .collect();
        TextIntervalIndex { utf16, cuts: cuts.into(), pieces: IntervalIndex::new(Domain::Long, &pieces) }
    }

    fn find(&self, text: &str, found: impl FnMut(&[u32])) {
        let passed = |cut: &(Box<str>, bool)| match super::order_text(text, &cut.0, self.utf16) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => !cut.1,
            std::cmp::Ordering::Greater => true,
        };
        self.pieces.stab(piece_key(self.cuts.partition_point(passed) as u64), found);
    }

    fn bytes(&self) -> usize {
        self.pieces.bytes() + self.cuts.iter().map(|(text, _)| text.len() + 32).sum::<usize>()
    }
}

fn piece_key(piece: u64) -> u64 {
    long_key(piece as i64)
}

/// Texts that are looked for within texts, all at once (Aho and Corasick, CACM 1975).
#[derive(Debug)]
struct Contains {
    /// The automaton; none if the literals are too many for it (2^31 states): then each is searched by itself.
    automaton: Option<AhoCorasick>,
    /// The literals in the order of the automaton's patterns.
    literals: Vec<Literal>,
}

/// A text that is looked for.
#[derive(Debug)]
struct Literal {
    text: Box<[u8]>,
    groups: Box<[u32]>,
}

impl Contains {
    fn new(literals: BTreeMap<&[u8], Vec<u32>>) -> Option<Contains> {
        if literals.is_empty() {
            return None;
        }
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(literals.keys()).ok();
        let literals = literals
            .into_iter()
            .map(|(text, groups)| Literal { text: text.into(), groups: groups.into() })
            .collect();
        Some(Contains { automaton, literals })
    }

    fn find(&self, text: &str, mut found: impl FnMut(&[u32])) {
        match &self.automaton {
            Some(automaton) => {
                for hit in automaton.find_overlapping_iter(text) {
                    found(&self.literals[hit.pattern().as_usize()].groups);
                }
            }
            None => {
                let has = |literal: &[u8]| memchr::memmem::find(text.as_bytes(), literal).is_some();
                let found_there = self.literals.iter().filter(|literal| has(&literal.text));
                found_there.for_each(|literal| found(&literal.groups));
            }
        }
    }

    fn bytes(&self) -> usize {
        let literals = self.literals.iter().map(|literal| literal.text.len() + literal.groups.len() * 4 + 32);
        self.automaton.as_ref().map_or(0, AhoCorasick::memory_usage) + literals.sum::<usize>()
    }
}
