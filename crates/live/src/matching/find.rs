//! A batch meets a part: rows are looked up path by path, what was found is put in order by group, candidates are
//! checked, and what is left is tested by expressions.

use bumpalo::Bump;
use swiftwater_event::{Decoded, Millis, WantId};

use super::{
    QueryNumber,
    ended::Ended,
    entry::Entry,
    filter::{Filter, Node},
    part::{Group, Part},
    table::Hits,
};
use crate::expr::{EvalCounts, Rows, Scratch};

/// What a batch matched of one query.
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

/// What a batch matched, its rows still in the buffers of a [`Finder`].
#[derive(Debug)]
pub(super) struct Found<'p> {
    number: QueryNumber,
    entry: &'p Entry,
    start: u32,
    count: u32,
    candidates: u32,
    residual_tests: u32,
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

impl Finder {
    /// What a batch matches of the parts. Queries that are candidates without a match appear with no rows, and so do all
    /// that go by the events' own time.
    pub(crate) fn find<'p>(
        &'p mut self,
        parts: impl IntoIterator<Item = (&'p Part, &'p Ended)>,
        input: &MatchInput<'_>,
        scratch: &mut Scratch,
    ) -> (Vec<Matched<'p>>, u64) {
        let mut found = Vec::new();
        let mut hits = 0;
        self.rows.clear();
        for (part, ended) in parts {
            hits += self.find_in(part, ended, input, scratch, &mut found);
        }
        let rows = &self.rows;
        let matched = found.into_iter().map(|found| Matched {
            number: found.number,
            entry: found.entry,
            rows: &rows[found.start as usize..(found.start + found.count) as usize],
            candidates: u64::from(found.candidates),
            residual_tests: u64::from(found.residual_tests),
            expression_errors: found.expression_errors,
            mistyped: found.mistyped,
            nanos: found.nanos,
        });
        (matched.collect(), hits)
    }

    /// Answers how many candidates the tables told of.
    fn find_in<'p>(
        &mut self,
        part: &'p Part,
        ended: &Ended,
        input: &MatchInput<'_>,
        scratch: &mut Scratch,
        found: &mut Vec<Found<'p>>,
    ) -> u64 {
        self.hits.clear();
        for table in &part.tables {
            table.look_up(input.decoded.column(table.column), input.decoded.rows, &mut self.hits);
        }
        self.sort_hits(part.groups.len());
        let before = found.len();
        let hits = std::mem::take(&mut self.hits);
        let mut at = 0;
        while at < hits.len() {
            let group = (hits[at] >> 32) as u32;
            self.candidates.clear();
            let mut is_ascending = true;
            while let Some(&hit) = hits.get(at)
                && (hit >> 32) as u32 == group
            {
                let row = hit as u32;
                is_ascending &= self.candidates.last().is_none_or(|&last| last < row);
                self.candidates.push(row);
                at += 1;
            }
            // Several conditions may have found one row.
            if !is_ascending {
                self.candidates.sort_unstable();
                self.candidates.dedup();
            }
            self.test(part, ended, &part.groups[group as usize], input, scratch, found);
        }
        self.hits = hits;
        if !part.timed.is_empty() {
            self.tell_timed(part, ended, before, found);
        }
        for &group in &part.scans {
            self.candidates.clear();
            self.candidates.extend(0..input.decoded.rows as u32);
            self.test(part, ended, &part.groups[group as usize], input, scratch, found);
        }
        self.hits.len() as u64
    }

    /// Those that no event found, and that go by the events' own time.
    fn tell_timed<'p>(&self, part: &'p Part, ended: &Ended, before: usize, found: &mut Vec<Found<'p>>) {
        let met: std::collections::HashSet<u64> = found[before..]
            .iter()
            .filter(|found| found.entry.query.event_time.is_some())
            .map(|found| found.entry.number)
            .collect();
        for &place in &part.timed {
            let entry = &part.entries[place as usize];
            if !ended.has(place) && !met.contains(&entry.number) {
                found.push(Found {
                    number: entry.number,
                    entry,
                    start: 0,
                    count: 0,
                    candidates: 0,
                    residual_tests: 0,
                    expression_errors: 0,
                    mistyped: 0,
                    nanos: 0,
                });
            }
        }
    }

    /// Tests the candidate rows on what must hold besides, and tells all members of the group.
    fn test<'p>(
        &mut self,
        part: &'p Part,
        ended: &Ended,
        group: &Group,
        input: &MatchInput<'_>,
        scratch: &mut Scratch,
        found: &mut Vec<Found<'p>>,
    ) {
        let members = part.members_of(group);
        let Some(&first) = members.iter().find(|&&place| !ended.has(place)) else { return };
        let entry = &*part.entries[first as usize];
        if group.is_sampled {
            self.candidates.retain(|&row| input.samples(entry, row));
            if self.candidates.is_empty() && entry.query.event_time.is_none() {
                return;
            }
        }
        let candidates = self.candidates.len() as u32;
        let mut told = Found {
            number: part.numbers[first as usize],
            entry,
            start: self.rows.len() as u32,
            count: 0,
            candidates,
            residual_tests: 0,
            expression_errors: 0,
            mistyped: 0,
            nanos: 0,
        };
        let checks = part.checks_of(group);
        if !checks.is_empty() || group.is_tree {
            told.residual_tests = candidates;
            for check in checks {
                self.candidates.retain(|&row| check.holds(entry, input.decoded, row));
            }
            if group.is_tree {
                let filter = &entry.query.filter;
                let tree = Tree { filter, columns: &entry.conditions, decoded: input.decoded };
                self.candidates.retain(|&row| tree.any_nodes_hold(&filter.all, row));
            }
        }
        if group.has_residual
            && let Some(residual) = &entry.query.residual
        {
            told.residual_tests = candidates;
            if !self.candidates.is_empty() {
                let start = (input.nanos)();
                let arena = Bump::new();
                let mut counts = EvalCounts::default();
                let rows = Rows::Events {
                    decoded: input.decoded,
                    bindings: &entry.residual,
                    rows: &self.candidates,
                    now: input.now,
                };
                residual.program.keep(&rows, scratch, &arena, &mut counts, &mut self.kept);
                told.expression_errors = counts.expression_errors;
                told.mistyped = mistyped_rows(input.decoded, &self.candidates, &entry.residual);
                told.nanos = (input.nanos)() - start;
                std::mem::swap(&mut self.candidates, &mut self.kept);
            }
        }
        self.rows.extend_from_slice(&self.candidates);
        told.count = self.candidates.len() as u32;
        let others = members.iter().filter(|&&place| place > first && !ended.has(place));
        let again = Found { nanos: 0, ..told };
        found.push(told);
        found.extend(others.map(|&place| {
            let place = place as usize;
            Found { number: part.numbers[place], entry: &part.entries[place], ..again }
        }));
    }

    /// Puts hits in order by group, those of a group as they came: by counting where there are many (least significant
    /// digit first, Knuth vol. 3, 5.2.5).
    fn sort_hits(&mut self, groups: usize) {
        const DIGIT: u32 = 9;
        const FEW: usize = 256;
        if self.hits.len() <= FEW {
            self.hits.sort_unstable();
            return;
        }
        let bits = usize::BITS - groups.leading_zeros();
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

impl<'p> Copy for Found<'p> {}

impl<'p> Clone for Found<'p> {
    fn clone(&self) -> Found<'p> {
        *self
    }
}

/// A filter's conditions as they are joined, over a batch.
struct Tree<'t> {
    filter: &'t Filter,
    columns: &'t [WantId],
    decoded: &'t Decoded,
}

impl Tree<'_> {
    fn any_nodes_hold(&self, nodes: &[Node], row: u32) -> bool {
        nodes.iter().filter(|node| matches!(node, Node::Any(_))).all(|node| self.holds(node, row))
    }

    fn holds(&self, node: &Node, row: u32) -> bool {
        match node {
            Node::Test(number) => {
                let number = *number as usize;
                self.filter.conditions[number].test.holds_at(self.decoded.column(self.columns[number]), row)
            }
            Node::Any(branches) => {
                branches.iter().any(|branch| branch.iter().all(|node| self.holds(node, row)))
            }
        }
    }
}

/// Of some rows, those with a value that does not fit the type that one of these columns wants.
pub(crate) fn mistyped_rows(decoded: &Decoded, rows: &[u32], columns: &[WantId]) -> u64 {
    let masks: Vec<_> = columns.iter().filter_map(|want| decoded.column(*want).mistyped.as_ref()).collect();
    if masks.is_empty() {
        return 0;
    }
    rows.iter().filter(|&&row| masks.iter().any(|mask| mask.value(row as usize))).count() as u64
}
