//! An immutable part of the index: some standing queries and the tables by which a batch finds them.
//!
//! Queries with equal filters are one *group*. Each group is found by its access predicate: the condition that holds
//! most rarely, filed in the table of its path; of an OR, one condition of each operand. What else must hold is checked
//! straight on the columns, and only what no condition says is left to an expression. Groups without a condition worth
//! filing are tested on every event. Cost of a batch: one look-up per event and indexed path, the checks of the groups
//! found, and the filters that nothing finds; nothing for whom nothing was found. After Fabret et al., SIGMOD 2001.

use std::{collections::HashMap, sync::Arc};

use swiftwater_event::{Decoded, WantId};

use super::{
    QueryNumber,
    entry::Entry,
    filter::{Filter, Node},
    number::Span,
    statistics::{Sample, estimate},
    table::{PathTable, TableBuilder},
};

/// Part of the index.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Ascending by number.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The entries' numbers.
    pub(super) numbers: Vec<QueryNumber>,
    pub(super) groups: Vec<Group>,
    /// Places of entries, by group.
    pub(super) members: Vec<u32>,
    pub(super) checks: Vec<Check>,
    pub(super) tables: Vec<PathTable>,
    /// Groups that are tested on every event.
    pub(super) scans: Vec<u32>,
    /// Queries found by an index that go by the events' own time: they hear of batches without matches too.
    pub(super) timed: Vec<u32>,
    /// Candidates that an event was expected to have when the part was built.
    pub(super) expected: f64,
    scanned: usize,
    bytes: usize,
}

/// Queries with one filter.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) first_member: u32,
    pub(super) member_count: u32,
    pub(super) first_check: u32,
    pub(super) check_count: u16,
    /// The checks do not say all: the filter's conditions are gone through as they are joined.
    pub(super) is_tree: bool,
    pub(super) has_residual: bool,
    pub(super) is_sampled: bool,
}

/// Something that must hold of a candidate besides what found it.
#[derive(Debug)]
pub(super) enum Check {
    /// A number within these.
    Number { column: WantId, longs: Span, doubles: Span },
    /// Another condition, by its number.
    Other { column: WantId, condition: u16 },
}

/// A condition that lets through more than this share of the events finds nobody: to test a whole batch at once is
/// cheaper than to file what most events have.
const ACCESS_SHARE_MAX: f64 = 0.5;

impl Part {
    /// Of these entries, ascending by number; `sample`: what recent events were like.
    pub(crate) fn build(entries: Vec<Arc<Entry>>, sample: Option<&Sample>) -> Part {
        let mut part = Part::default();
        let groups = grouped(&entries);
        let mut tables: HashMap<WantId, TableBuilder<'_>> = HashMap::new();
        for (number, places) in groups.iter().enumerate() {
            let entry = &entries[places[0] as usize];
            let filter = &entry.query.filter;
            let (checks_before, members_before) = (part.checks.len(), part.members.len());
            let access = Access::choose(filter, sample);
            match &access {
                Some(access) => {
                    part.expected += access.share;
                    for &condition in &access.conditions {
                        let condition = condition as usize;
                        let table = tables.entry(entry.conditions[condition]).or_default();
                        let is_filed = table.add(&filter.conditions[condition].test, number as u32);
                        debug_assert!(is_filed, "only what can be filed is chosen");
                    }
                    if entry.query.event_time.is_some() {
                        part.timed.extend(places);
                    }
                }
                None => {
                    part.scans.push(number as u32);
                    part.scanned += places.len();
                }
            }
            let mut is_tree = false;
            for (at, node) in filter.all.iter().enumerate() {
                if access.as_ref().is_some_and(|access| access.node == at && access.proves) {
                    continue;
                }
                match node {
                    Node::Test(condition) => {
                        let column = entry.conditions[*condition as usize];
                        part.checks.push(Check::of(filter, *condition, column));
                    }
                    Node::Any(_) => is_tree = true,
                }
            }
            part.members.extend(places);
            part.groups.push(Group {
                first_member: members_before as u32,
                member_count: places.len() as u32,
                first_check: checks_before as u32,
                // A filter has at most 1,024 conditions.
                check_count: (part.checks.len() - checks_before) as u16,
                is_tree,
                has_residual: entry.query.residual.is_some(),
                is_sampled: entry.query.plan.sample.is_some(),
            });
        }
        part.tables = tables.into_iter().map(|(column, table)| table.finish(column)).collect();
        part.tables.sort_unstable_by_key(|table| table.column);
        part.bytes = part.count_bytes(&entries);
        part.numbers = entries.iter().map(|entry| entry.number).collect();
        part.entries = entries;
        part
    }

    fn count_bytes(&self, entries: &[Arc<Entry>]) -> usize {
        let bindings = |entry: &Entry| {
            let all = [&entry.conditions, &entry.residual, &entry.body, &entry.time];
            all.into_iter()
                .filter(|list| !list.is_empty())
                .map(|list| 16.max(list.len() * 4 + 8))
                .sum::<usize>()
        };
        let entries = entries.iter().map(|entry| size_of::<Entry>() + 16 + 8 + 8 + bindings(entry));
        entries.sum::<usize>()
            + self.groups.len() * size_of::<Group>()
            + self.members.len() * 4
            + self.checks.len() * size_of::<Check>()
            + self.tables.iter().map(PathTable::bytes).sum::<usize>()
    }

    /// Queries in it, ended ones too.
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Where a query stands.
    pub(crate) fn place_of(&self, number: QueryNumber) -> Option<u32> {
        self.numbers.binary_search(&number).ok().map(|place| place as u32)
    }

    /// Queries that every event is tested for.
    pub(crate) fn scanned(&self) -> usize {
        self.scanned
    }

    /// Bytes held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn members_of(&self, group: &Group) -> &[u32] {
        &self.members[group.first_member as usize..(group.first_member + group.member_count) as usize]
    }

    pub(super) fn checks_of(&self, group: &Group) -> &[Check] {
        &self.checks[group.first_check as usize..group.first_check as usize + usize::from(group.check_count)]
    }
}

/// Places of entries with equal filters, in order of their first. Queries of samples, and of lateral views (whose
/// filters are parts of what is written), are each by themselves.
fn grouped(entries: &[Arc<Entry>]) -> Vec<smallvec::SmallVec<[u32; 2]>> {
    let mut groups: Vec<smallvec::SmallVec<[u32; 2]>> = Vec::with_capacity(entries.len());
    let mut by_hash: HashMap<u128, u32> = HashMap::with_capacity(entries.len());
    for (place, entry) in entries.iter().enumerate() {
        let query = &entry.query;
        if query.plan.sample.is_none() && query.plan.views.is_empty() {
            let group = *by_hash.entry(query.filter.hash).or_insert(groups.len() as u32) as usize;
            if let Some(places) = groups.get_mut(group) {
                places.push(place as u32);
                continue;
            }
        }
        groups.push(smallvec::smallvec![place as u32]);
    }
    groups
}

impl Check {
    fn of(filter: &Filter, condition: u16, column: WantId) -> Check {
        const NONE: Span = (1, 0);
        if let super::condition::Test::Set(set) = &filter.conditions[condition as usize].test
            && set.texts.is_empty()
            && set.booleans == 0
        {
            let one = |spans: &[Span]| match spans {
                [] => Some(NONE),
                [span] => Some(*span),
                _ => None,
            };
            if let (Some(longs), Some(doubles)) = (one(&set.spans.longs), one(&set.spans.doubles)) {
                return Check::Number { column, longs, doubles };
            }
        }
        Check::Other { column, condition }
    }

    /// Whether it holds of a row.
    #[inline]
    pub(super) fn holds(&self, entry: &Entry, decoded: &Decoded, row: u32) -> bool {
        use super::condition::{Cell, cell};
        match self {
            Check::Number { column, longs, doubles } => match cell(decoded.column(*column), row as usize) {
                Cell::Long(key) => longs.0 <= key && key <= longs.1,
                Cell::Double(key) => doubles.0 <= key && key <= doubles.1,
                _ => false,
            },
            Check::Other { column, condition } => {
                let condition = &entry.query.filter.conditions[*condition as usize];
                condition.test.holds_at(decoded.column(*column), row)
            }
        }
    }
}

/// How a group is found.
pub(crate) struct Access {
    /// Of which of the things that must all hold.
    pub(crate) node: usize,
    /// Whether being found by it proves that it holds.
    pub(crate) proves: bool,
    /// The share of events that it finds.
    pub(crate) share: f64,
    /// Conditions to file the group by.
    conditions: smallvec::SmallVec<[u16; 4]>,
}

impl Access {
    /// The thing that holds most rarely of those that must all hold.
    pub(crate) fn choose(filter: &Filter, sample: Option<&Sample>) -> Option<Access> {
        let mut best: Option<Access> = None;
        for (at, node) in filter.all.iter().enumerate() {
            let mut conditions = smallvec::SmallVec::new();
            let Some(share) = rarest(filter, node, sample, &mut conditions) else { continue };
            if share < ACCESS_SHARE_MAX && best.as_ref().is_none_or(|best| share < best.share) {
                let proves = match node {
                    Node::Test(_) => true,
                    Node::Any(branches) => branches.iter().all(|branch| matches!(&**branch, [Node::Test(_)])),
                };
                best = Some(Access { node: at, proves, share, conditions });
            }
        }
        best
    }

    /// How that is done, for people.
    pub(crate) fn how(&self, filter: &Filter) -> &'static str {
        use super::condition::Test;
        let [condition] = *self.conditions else { return "a table for each" };
        match &filter.conditions[condition as usize].test {
            Test::Text(_) => "hash table",
            Test::Set(set) if set.has_points_only() => "hash table",
            Test::Set(_) | Test::TextSpan(_) => "ordered index",
            Test::Prefixes(_) => "table of prefixes",
            Test::Contains(_) => "a search for all such texts at once",
            Test::Null { .. } | Test::NotNull => "list",
            Test::NotText(_) => "nothing",
        }
    }
}

/// The conditions by which whatever makes the node hold is found, and the share of events that they find; none where
/// there are no such.
fn rarest(
    filter: &Filter,
    node: &Node,
    sample: Option<&Sample>,
    conditions: &mut smallvec::SmallVec<[u16; 4]>,
) -> Option<f64> {
    match node {
        Node::Test(number) => {
            let condition = &filter.conditions[*number as usize];
            if matches!(condition.test, super::condition::Test::NotText(_)) {
                return None;
            }
            conditions.push(*number);
            Some(estimate(sample, condition))
        }
        Node::Any(branches) => {
            let mut share = 0.0;
            for branch in branches {
                let mut best: Option<(f64, smallvec::SmallVec<[u16; 4]>)> = None;
                for node in branch {
                    let mut these = smallvec::SmallVec::new();
                    let Some(of_node) = rarest(filter, node, sample, &mut these) else { continue };
                    if best.as_ref().is_none_or(|(least, _)| of_node < *least) {
                        best = Some((of_node, these));
                    }
                }
                let (of_branch, these) = best?;
                share += of_branch;
                conditions.extend(these);
            }
            Some(share)
        }
    }
}
