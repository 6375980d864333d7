//! Matches a batch with a part of the index: looks rows up path by path, sorts what was found by group, checks the
//! candidates, and evaluates the rest of their filters as expressions.
//!
//! The pairs of posting and row are ordered by a counting sort, digit by digit. Memory that a look-up or a posting will
//! need is prefetched some rows before it is needed.

use bumpalo::Bump;
use swiftwater_event::{Decoded, Millis, WantId};

use super::{
    QueryNumber,
    ended::EndedSet,
    entry::Entry,
    filter::{Filter, Node},
    index_segment::IndexSegment,
    points::prefetch,
    posting::{Columns, Posting},
    row_words::RowWords,
    table::Hits,
};
use crate::expr::{EvalCounts, Rows, Scratch};

/// The matches of one query in a batch.
pub(crate) struct Matched<'p> {
    pub(crate) number: QueryNumber,
    pub(crate) entry: &'p Entry,
    /// Rows, ascending.
    pub(crate) rows: &'p [u32],
    pub(crate) candidates: u64,
    pub(crate) residual_tests: u64,
    pub(crate) expression_errors: u64,
    pub(crate) mistyped: u64,
    pub(crate) nanos: u64,
}

/// A group that a batch found, its rows still in the buffers of a [`Finder`].
#[derive(Debug)]
struct CandidateGroup {
    /// Number of the member.
    number: QueryNumber,
    /// The member's place in its part.
    place: u32,
    part: u32,
    start: u32,
    count: u32,
    candidates: u32,
    /// The candidates were tested on what is left.
    is_tested: bool,
    /// Index of the cost of the rest of the filter; 0: it has none.
    cost: u32,
}

/// The cost of evaluating the rest of a filter.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    expression_errors: u64,
    mistyped: u64,
    nanos: u64,
}

/// Buffers of the search, used again for every batch.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    hits: Hits,
    sorted: Hits,
    counts: Vec<u32>,
    rows: Vec<u32>,
    candidates: Vec<u32>,
    kept: Vec<u32>,
    found: Vec<CandidateGroup>,
    /// The first is of those without a rest.
    costs: Vec<Cost>,
    words: RowWords,
}

/// The matches of a batch.
pub(crate) struct Matches<'p> {
    parts: smallvec::SmallVec<[&'p IndexSegment; 5]>,
    found: &'p [CandidateGroup],
    rows: &'p [u32],
    costs: &'p [Cost],
    /// Candidates that the tables told of.
    pub(crate) hits: u64,
}

impl<'p> Matches<'p> {
    /// One query after another.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Matched<'p>> {
        let (rows, costs) = (self.rows, self.costs);
        self.found.iter().map(move |found| {
            let cost = &costs[found.cost as usize];
            Matched {
                number: found.number,
                entry: &self.parts[found.part as usize].entries[found.place as usize],
                rows: &rows[found.start as usize..(found.start + found.count) as usize],
                candidates: u64::from(found.candidates),
                residual_tests: if found.is_tested { u64::from(found.candidates) } else { 0 },
                expression_errors: cost.expression_errors,
                mistyped: cost.mistyped,
                nanos: cost.nanos,
            }
        })
    }
}

/// A batch as the matcher sees it.
pub(crate) struct MatchInput<'b> {
    pub(crate) decoded: &'b Decoded,
    pub(crate) now: Millis,
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

/// True if a sample of `share` of the events has the one at `place`: a function of the place alone, so a sample is the
/// same however often and wherever it is taken, and a smaller one is part of a larger one.
pub fn is_sampled(place: u64, share: f64) -> bool {
    // SplitMix64 (Steele et al., OOPSLA 2014) spreads neighbouring places evenly.
    let mut mixed = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    ((mixed >> 11) as f64) < share * (1u64 << 53) as f64
}

impl Finder {
    /// Finds the matches of a batch in the parts. Queries that are candidates without a match appear with no rows, and
    /// so do all that go by the events' own time.
    pub(crate) fn find<'p>(
        &'p mut self,
        parts: impl IntoIterator<Item = (&'p IndexSegment, &'p EndedSet)>,
        input: &MatchInput<'_>,
        scratch: &mut Scratch,
    ) -> Matches<'p> {
        let mut hits = 0;
        self.rows.clear();
        self.found.clear();
        self.costs.clear();
        self.costs.push(Cost::default());
        let columns = Columns::of(input.decoded, std::mem::take(&mut self.words));
        let mut all = smallvec::SmallVec::<[&IndexSegment; 5]>::new();
        for (number, (part, ended)) in parts.into_iter().enumerate() {
            all.push(part);
            hits += Search { finder: self, part, number: number as u32, ended, input, columns: &columns }
                .run(scratch);
        }
        self.words = columns.words.into_inner();
        Matches { parts: all, found: &self.found, rows: &self.rows, costs: &self.costs, hits }
    }

    /// Sorts hits by way; those of a way remain in their order: by counting if there are many (least significant digit
    /// first, Knuth vol. 3, 5.2.5).
    fn sort_hits(&mut self, ways: usize) {
        const DIGIT: u32 = 9;
        const FEW: usize = 256;
        if self.hits.len() <= FEW {
            self.hits.sort_unstable();
            return;
        }
        let bits = usize::BITS - ways.leading_zeros();
        let mut shift = 32;
        while shift < 32 + bits {
            let digit = |hit: u64| (hit >> shift) as usize & ((1 << DIGIT) - 1);
            self.counts.clear();
            self.counts.resize(1 << DIGIT, 0);
            for &hit in &self.hits {
                self.counts[digit(hit)] += 1;
            }
            let mut next = 0;
            for count in &mut self.counts {
                next += std::mem::replace(count, next);
            }
            self.sorted.clear();
            self.sorted.resize(self.hits.len(), 0);
            for &hit in &self.hits {
                let place = &mut self.counts[digit(hit)];
                self.sorted[*place as usize] = hit;
                *place += 1;
            }
            std::mem::swap(&mut self.hits, &mut self.sorted);
            shift += DIGIT;
        }
    }
}

/// A search in one part.
struct Search<'s> {
    finder: &'s mut Finder,
    part: &'s IndexSegment,
    /// The part's.
    number: u32,
    ended: &'s EndedSet,
    input: &'s MatchInput<'s>,
    columns: &'s Columns<'s>,
}

/// Distance in hits at which the memory of a way is prefetched.
const AHEAD: usize = 12;

impl<'s> Search<'s> {
    /// Searches all tables; returns the number of candidates.
    fn run(&mut self, scratch: &mut Scratch) -> u64 {
        let part = self.part;
        self.finder.hits.clear();
        for table in &part.tables {
            let Finder { hits, kept, .. } = &mut *self.finder;
            table.look_up(self.columns, hits, kept);
        }
        self.finder.sort_hits(part.ways.len());
        let before = self.finder.found.len();
        let hits = std::mem::take(&mut self.finder.hits);
        let mut at = 0;
        while at < hits.len() {
            if let Some(ahead) = hits.get(at + AHEAD) {
                prefetch(&part.ways, (ahead >> 32) as usize);
            }
            let way = &part.ways[(hits[at] >> 32) as usize];
            at = match (way.is_simple, way.is_plain) {
                (true, _) => self.simple(way, &hits, at),
                (false, true) => self.plain(way, &hits, at),
                (false, false) => self.group(way.group, &hits, at, scratch),
            };
        }
        if !part.timed.is_empty() {
            self.report_timed(before);
        }
        for &way in &part.scans {
            let all = u64::from(way) << 32;
            let rows: Hits = (0..self.columns.decoded.rows as u64).map(|row| all | row).collect();
            self.group(part.ways[way as usize].group, &rows, 0, scratch);
        }
        let count = hits.len() as u64;
        self.finder.hits = hits;
        count
    }

    /// Takes a query's hits from `at` on, if there is at most one number to test; returns their end.
    fn simple(&mut self, way: &Posting, hits: &[u64], mut at: usize) -> usize {
        let first_hit = at;
        let finder = &mut *self.finder;
        let start = finder.rows.len();
        let number = hits[at] >> 32;
        let mut is_ascending = true;
        let mut last = None;
        while let Some(&hit) = hits.get(at)
            && hit >> 32 == number
        {
            let row = hit as u32;
            is_ascending &= last < Some(row);
            last = Some(row);
            if way.bounds.hold(&self.columns.views, row) {
                finder.rows.push(row);
            }
            at += 1;
        }
        if self.ended.has(way.place) {
            finder.rows.truncate(start);
            return at;
        }
        let mut candidates = at - first_hit;
        // Several values of one query may have found one row.
        if !is_ascending {
            candidates = in_order(&mut finder.rows, start).max(1);
        }
        finder.found.push(CandidateGroup {
            number: way.number,
            place: way.place,
            part: self.number,
            start: start as u32,
            count: (finder.rows.len() - start) as u32,
            candidates: candidates as u32,
            is_tested: !way.bounds.are_absent(),
            cost: 0,
        });
        at
    }

    /// Takes the hits of all ways to a group of one member from `at` on, which conditions decide completely; returns
    /// their end. Nothing but the ways is read, as a rule.
    fn plain(&mut self, of: &Posting, hits: &[u64], mut at: usize) -> usize {
        let start = self.finder.rows.len();
        let (mut ways, mut candidates, mut is_tested) = (0, 0, false);
        while let Some((way, end)) = self.next_way(of.group, hits, at) {
            at = end;
            candidates += self.finder.candidates.len();
            ways += 1;
            is_tested |= self.test(way, of.place);
            self.finder.rows.extend_from_slice(&self.finder.candidates);
        }
        let rows = &mut self.finder.rows;
        if self.ended.has(of.place) {
            rows.truncate(start);
            return at;
        }
        if ways > 1 && rows.len() > start + 1 {
            in_order(rows, start);
        }
        self.finder.found.push(CandidateGroup {
            number: of.number,
            place: of.place,
            part: self.number,
            start: start as u32,
            count: (self.finder.rows.len() - start) as u32,
            candidates: candidates as u32,
            is_tested,
            cost: 0,
        });
        at
    }

    /// Adds the rows of the way whose hits begin at a place to the candidates, in order, each once, if it is one to
    /// this group; also returns the end of its hits.
    fn next_way(&mut self, group: u32, hits: &[u64], at: usize) -> Option<(&'s Posting, usize)> {
        let number = hits.get(at)? >> 32;
        let way = &self.part.ways[number as usize];
        if way.group != group {
            return None;
        }
        let rows = &mut self.finder.candidates;
        rows.clear();
        rows.extend(hits[at..].iter().take_while(|hit| **hit >> 32 == number).map(|&hit| hit as u32));
        let end = at + rows.len();
        if !rows.is_sorted_by(|a, b| a < b) {
            in_order(rows, 0);
        }
        Some((way, end))
    }

    /// Takes the hits of all ways to a group from `at` on, tests the other conditions, and reports the matches to all
    /// members; returns the end of the group's hits.
    fn group(&mut self, number: u32, hits: &[u64], mut at: usize, scratch: &mut Scratch) -> usize {
        let part = self.part;
        let group = &part.groups[number as usize];
        let members = part.members_of(group);
        let first = members.iter().copied().find(|&place| !self.ended.has(place));
        let start = self.finder.rows.len();
        let (mut ways, mut candidates, mut is_tested) = (0, 0, group.has_residual);
        while let Some((way, end)) = self.next_way(number, hits, at) {
            at = end;
            let Some(first) = first else { continue };
            if group.is_sampled {
                let entry = &part.entries[first as usize];
                self.finder.candidates.retain(|&row| self.input.samples(entry, row));
            }
            candidates += self.finder.candidates.len();
            ways += 1;
            is_tested |= self.test(way, first);
            self.finder.rows.extend_from_slice(&self.finder.candidates);
        }
        let Some(first) = first else { return at };
        let entry = &*part.entries[first as usize];
        if group.is_sampled && candidates == 0 && entry.query.event_time.is_none() {
            return at;
        }
        if ways > 1 {
            in_order(&mut self.finder.rows, start);
        }
        let cost = if group.has_residual { self.test_rest(entry, start, scratch) } else { 0 };
        let finder = &mut *self.finder;
        let mut others = members.iter().filter(|&&place| place > first && !self.ended.has(place)).peekable();
        let told = |place: u32, cost: u32| CandidateGroup {
            number: part.numbers[place as usize],
            place,
            part: self.number,
            start: start as u32,
            count: (finder.rows.len() - start) as u32,
            candidates: candidates as u32,
            is_tested,
            cost,
        };
        finder.found.push(told(first, cost));
        // All members share the counts; the time counts for the first one.
        let mut of_others = cost;
        if cost > 0 && others.peek().is_some() {
            of_others = finder.costs.len() as u32;
            finder.costs.push(Cost { nanos: 0, ..finder.costs[cost as usize] });
        }
        finder.found.extend(others.map(|&place| told(place, of_others)));
        at
    }

    /// Retains the candidates that meet the conditions which the way does not prove, for the query at a place;
    /// returns true if there were any.
    fn test(&mut self, way: &Posting, place: u32) -> bool {
        let rows = &mut self.finder.candidates;
        if !way.bounds.are_absent() {
            rows.retain(|&row| way.bounds.hold(&self.columns.views, row));
        }
        if way.check_count == 0 && !way.is_tree {
            return !way.bounds.are_absent();
        }
        let entry = &*self.part.entries[place as usize];
        for check in self.part.checks_of(way) {
            rows.retain(|&row| check.holds(entry, self.columns, row));
        }
        if way.is_tree {
            let filter = &entry.query.filter;
            let tree = Tree { filter, bindings: entry.conditions(), columns: self.columns };
            rows.retain(|&row| tree.any_nodes_hold(&filter.all, row));
        }
        true
    }

    /// Retains the rows from a place on for which the rest of a filter is true; returns the index of its cost.
    fn test_rest(&mut self, entry: &Entry, from: usize, scratch: &mut Scratch) -> u32 {
        let finder = &mut *self.finder;
        let rows = &finder.rows[from..];
        let Some(residual) = entry.query.residual.as_ref().filter(|_| !rows.is_empty()) else { return 0 };
        let start = (self.input.nanos)();
        let arena = Bump::new();
        let mut counts = EvalCounts::default();
        let decoded = self.columns.decoded;
        let input = Rows::Events { decoded, bindings: entry.residual(), rows, now: self.input.now };
        residual.program.filter_rows(&input, scratch, &arena, &mut counts, &mut finder.kept);
        finder.costs.push(Cost {
            expression_errors: counts.expression_errors,
            mistyped: mistyped_rows(decoded, rows, entry.residual()),
            nanos: (self.input.nanos)() - start,
        });
        finder.rows.truncate(from);
        finder.rows.extend_from_slice(&finder.kept);
        finder.costs.len() as u32 - 1
    }

    /// Reports the queries without candidates that go by the events' own time.
    fn report_timed(&mut self, before: usize) {
        let part = self.part;
        let met: std::collections::HashSet<u32> =
            self.finder.found[before..].iter().map(|found| found.place).collect();
        let others = part.timed.iter().filter(|&place| !self.ended.has(*place) && !met.contains(place));
        self.finder.found.extend(others.map(|&place| CandidateGroup {
            number: part.numbers[place as usize],
            place,
            part: self.number,
            start: 0,
            count: 0,
            candidates: 0,
            is_tested: false,
            cost: 0,
        }));
    }
}

/// Sorts and deduplicates the rows from a place on; returns their number.
fn in_order(rows: &mut Vec<u32>, from: usize) -> usize {
    rows[from..].sort_unstable();
    let mut kept = from;
    for at in from..rows.len() {
        if at == from || rows[at] != rows[kept - 1] {
            rows[kept] = rows[at];
            kept += 1;
        }
    }
    rows.truncate(kept);
    kept - from
}

/// A filter's conditions as they are joined, over a batch.
struct Tree<'t> {
    filter: &'t Filter,
    bindings: &'t [WantId],
    columns: &'t Columns<'t>,
}

impl Tree<'_> {
    fn any_nodes_hold(&self, nodes: &[Node], row: u32) -> bool {
        nodes.iter().filter(|node| matches!(node, Node::Any(_))).all(|node| self.holds(node, row))
    }

    fn holds(&self, node: &Node, row: u32) -> bool {
        match node {
            Node::Test(number) => {
                let number = *number as usize;
                self.columns.holds(&self.filter.conditions[number].test, self.bindings[number], row)
            }
            Node::Any(branches) => {
                branches.iter().any(|branch| branch.iter().all(|node| self.holds(node, row)))
            }
        }
    }
}

/// Those of the rows with a value that does not fit the wanted type of one of these columns.
pub(crate) fn mistyped_rows(decoded: &Decoded, rows: &[u32], columns: &[WantId]) -> u64 {
    let masks: Vec<_> = columns.iter().filter_map(|want| decoded.column(*want).mistyped.as_ref()).collect();
    if masks.is_empty() {
        return 0;
    }
    rows.iter().filter(|&&row| masks.iter().any(|mask| mask.value(row as usize))).count() as u64
}
