//! An immutable segment of the index: some standing queries, and the tables by which a batch finds them.
//!
//! Queries with equal filters are one *group*. Each group is found by its access predicate: the condition that is true
//! most rarely, filed in the table of its path. An OR is filed under one condition of each operand. The remaining
//! conditions are checked directly on the columns. An expression evaluates only the rest that no condition covers. Groups
//! without a condition worth indexing are tested on every event. Cost of a batch: one look-up per event and indexed path,
//! the checks of the groups found, and the filters that no index finds. Queries that were not found cost nothing. After
//! Fabret et al., SIGMOD 2001.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use swiftwater_event::WantId;

use super::{
    QueryNumber,
    condition::Test,
    entry::Entry,
    filter::{Filter, Node},
    posting::{Bounds, Check, Posting},
    statistics::{Sample, estimate},
    table::{PathTable, TableBuilder},
};

/// Part of the index.
#[derive(Debug, Default)]
pub(crate) struct IndexSegment {
    /// Ascending by number.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The entries' numbers.
    pub(super) numbers: Vec<QueryNumber>,
    pub(super) groups: Vec<Group>,
    /// Ways to groups, in the order of these: what tables tell of. A group that is tested on every event has one, which no
    /// table has.
    pub(super) ways: Vec<Posting>,
    /// Places of entries, by group.
    pub(super) members: Vec<u32>,
    pub(super) checks: Vec<Check>,
    pub(super) tables: Vec<PathTable>,
    /// The ways of groups that are tested on every event.
    pub(super) scans: Vec<u32>,
    /// Queries found by an index that go by the events' own time: they hear of batches without matches too.
    pub(super) timed: Vec<u32>,
    /// Queries whose event time advances while the stream is idle.
    pub(super) idle: Vec<u32>,
    /// The shortest idle time of these queries.
    pub(super) idle_after_ms: Option<u64>,
    /// Candidates that an event was expected to have when the part was built.
    pub(super) expected: f64,
    scanned: usize,
    bytes: usize,
    /// The way in which the group of each entry is found, if it is known and will be needed again.
    accesses: Vec<Option<Option<Access>>>,
}

/// A query that a part is built of.
#[derive(Debug)]
pub(crate) struct IndexEntry {
    pub(crate) entry: Arc<Entry>,
    /// The way it is found, if that was chosen before.
    pub(crate) access: Option<Option<Access>>,
}

/// The effort for building a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuildEffort {
    /// A caller waits for it: earlier choices are reused, and automata of patterns are not made.
    Quick,
    /// It is built in the background, and will stay.
    Thorough,
}

/// Queries with one filter.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) first_member: u32,
    pub(super) member_count: u32,
    pub(super) has_residual: bool,
    pub(super) is_sampled: bool,
}

/// A condition that lets through more than this share of the events finds nobody: to test a whole batch at once is
/// cheaper than to file what most events have.
const ACCESS_SHARE_MAX: f64 = 0.5;

/// To find queries by words, the texts of every event are divided into words. That costs as much as dividing those of the
/// candidates where another condition lets through more than this share of the events, and several queries have it.
const WORDS_SHARE_MIN: f64 = 0.01;

impl IndexSegment {
    /// Builds a part of these entries, ascending by number; `sample`: statistics of recent events.
    pub(crate) fn build(
        mut filed: Vec<IndexEntry>,
        sample: Option<&Sample>,
        care: BuildEffort,
    ) -> IndexSegment {
        let mut part = IndexSegment::default();
        let entries: Vec<Arc<Entry>> = filed.iter().map(|filed| Arc::clone(&filed.entry)).collect();
        if care == BuildEffort::Quick {
            part.accesses.resize_with(entries.len(), || None);
        }
        let groups = grouped(&entries);
        let mut tables: HashMap<WantId, TableBuilder<'_>> = HashMap::new();
        for (number, places) in groups.iter().enumerate() {
            let entry = &*entries[places[0] as usize];
            let filter = &entry.query.filter;
            let known = match care {
                BuildEffort::Quick => places.iter().find_map(|&place| filed[place as usize].access.take()),
                BuildEffort::Thorough => None,
            };
            let access = known.unwrap_or_else(|| Access::choose(filter, sample));
            let group = Group {
                first_member: part.members.len() as u32,
                member_count: places.len() as u32,
                has_residual: entry.query.residual.is_some(),
                is_sampled: entry.query.plan.sample.is_some(),
            };
            let way = |part: &mut IndexSegment, found: Option<ConditionProof<'_>>| {
                let is_only = access.as_ref().is_none_or(|access| access.conditions.len() == 1);
                let is_plain = group.member_count == 1 && !group.has_residual && !group.is_sampled;
                let way = part.posting_of(entry, found);
                part.ways.push(Posting {
                    number: entry.number,
                    place: places[0],
                    group: number as u32,
                    is_plain,
                    is_simple: is_plain && is_only && way.check_count == 0 && !way.is_tree,
                    ..way
                });
                part.ways.len() as u32 - 1
            };
            match &access {
                Some(access) => {
                    part.expected += access.share;
                    for &(condition, branch) in &access.conditions {
                        let way = way(&mut part, Some(access.proof_of(filter, condition, branch)));
                        let condition = condition as usize;
                        let table = tables.entry(entry.conditions()[condition]).or_default();
                        let condition = &filter.conditions[condition];
                        let counts = sample.and_then(|sample| sample.word_counts(condition));
                        let is_filed = table.add(&condition.test, way, counts);
                        debug_assert!(is_filed, "only what can be filed is chosen");
                    }
                    let is_timed = |place: &&u32| entries[**place as usize].query.event_time.is_some();
                    part.timed.extend(places.iter().filter(is_timed));
                }
                None => {
                    let way = way(&mut part, None);
                    part.scans.push(way);
                    part.scanned += places.len();
                }
            }
            part.members.extend(places);
            part.groups.push(group);
            if let Some(kept) = part.accesses.get_mut(places[0] as usize) {
                *kept = Some(access);
            }
        }
        for (place, entry) in (0..).zip(&entries) {
            let Some(idle_after) = entry.query.event_time.as_ref().and_then(|time| time.idle_after_ms) else {
                continue;
            };
            part.idle.push(place);
            part.idle_after_ms = Some(part.idle_after_ms.map_or(idle_after, |least| least.min(idle_after)));
        }
        part.tables = tables
            .into_iter()
            .map(|(column, table)| table.finish(column, care == BuildEffort::Thorough))
            .collect();
        part.tables.sort_unstable_by_key(|table| table.column);
        // They stay as they are now.
        part.ways.shrink_to_fit();
        part.members.shrink_to_fit();
        part.groups.shrink_to_fit();
        part.checks.shrink_to_fit();
        part.bytes = part.count_bytes(&entries);
        part.numbers = entries.iter().map(|entry| entry.number).collect();
        part.entries = entries;
        part
    }

    /// The posting of a query, with the checks that a found condition does not prove; `None`: nothing is proven.
    fn posting_of(&mut self, entry: &Entry, found: Option<ConditionProof<'_>>) -> Posting {
        let filter = &entry.query.filter;
        let first_check = self.checks.len();
        let mut way = Posting {
            number: 0,
            place: 0,
            group: 0,
            first_check: first_check as u32,
            check_count: 0,
            is_plain: false,
            is_simple: false,
            is_tree: false,
            bounds: Bounds::ABSENT,
        };
        let branch = found.iter().flat_map(|found| found.branch).map(|node| (None, node));
        let nodes = filter.all.iter().enumerate().map(|(at, node)| (Some(at), node)).chain(branch);
        for (at, node) in nodes {
            if let Some(found) = &found {
                let is_known = match node {
                    // The found condition may be all of its node; a node with OR is tested by branch.
                    _ if at == Some(found.node) => found.is_enough,
                    Node::Test(condition) => *condition == found.condition && found.is_proven,
                    Node::Any(_) => false,
                };
                if is_known {
                    continue;
                }
            }
            match node {
                Node::Test(condition) => {
                    let column = entry.conditions()[*condition as usize];
                    match Check::of(filter, *condition, column) {
                        Check::Number(bounds) if way.bounds.are_absent() => way.bounds = bounds,
                        check => self.checks.push(check),
                    }
                }
                Node::Any(_) => way.is_tree = true,
            }
        }
        // A filter has at most 1,024 conditions.
        way.check_count = (self.checks.len() - first_check) as u16;
        way
    }

    fn count_bytes(&self, entries: &[Arc<Entry>]) -> usize {
        let entries = entries.iter().map(|entry| entry.bytes() + 8 + 8);
        entries.sum::<usize>()
            + self.groups.len() * size_of::<Group>()
            + self.ways.len() * size_of::<Posting>()
            + self.members.len() * 4
            + self.checks.len() * size_of::<Check>()
            + self.tables.iter().map(PathTable::bytes).sum::<usize>()
    }

    /// A query as another part may be built of it.
    pub(crate) fn filed(&self, place: usize) -> IndexEntry {
        IndexEntry {
            entry: Arc::clone(&self.entries[place]),
            access: self.accesses.get(place).cloned().flatten(),
        }
    }

    /// Queries in it, ended ones too.
    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The place of a query.
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

    pub(super) fn checks_of(&self, way: &Posting) -> &[Check] {
        &self.checks[way.first_check as usize..way.first_check as usize + usize::from(way.check_count)]
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

/// The way a group is found.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// Index of the node in the filter's AND.
    pub(crate) node: usize,
    /// True if being found by it proves that it holds.
    pub(crate) proves: bool,
    /// The share of events that it finds.
    pub(crate) share: f64,
    /// Conditions to file the group by, each with the branch of the OR that it is of, if that is one.
    conditions: AccessConditions,
}

/// The facts proven by a condition by which a group is filed.
struct ConditionProof<'f> {
    condition: u16,
    /// True if it is proven by being found.
    is_proven: bool,
    /// Index of its node in the filter's AND.
    node: usize,
    /// True if the condition is all of the node, except `branch`.
    is_enough: bool,
    /// The other conditions of the branch, if this is one branch of an OR.
    branch: &'f [Node],
}

impl Access {
    /// The thing that holds most rarely of those that must all hold.
    pub(crate) fn choose(filter: &Filter, sample: Option<&Sample>) -> Option<Access> {
        let mut best: Option<(f64, Access)> = None;
        for (at, node) in filter.all.iter().enumerate() {
            let mut conditions = smallvec::SmallVec::new();
            let share = match node {
                Node::Test(_) => rarest(filter, node, sample, 0, &mut conditions),
                Node::Any(branches) => rarest_of_each(filter, branches, sample, None, &mut conditions),
            };
            let Some(share) = share else { continue };
            let has_words = has_words(filter, &conditions);
            let cost = if has_words { share.max(WORDS_SHARE_MIN) } else { share };
            // What is filed with a word tests an event faster than its condition does.
            let is_rare = share < ACCESS_SHARE_MAX || has_words;
            if is_rare && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                let proves = match node {
                    Node::Test(condition) => is_proven(filter, *condition),
                    Node::Any(branches) => branches.iter().all(
                        |branch| matches!(&**branch, [Node::Test(condition)] if is_proven(filter, *condition)),
                    ),
                };
                best = Some((cost, Access { node: at, proves, share, conditions }));
            }
        }
        best.map(|(_, access)| access)
    }

    /// The facts proven by one of the conditions.
    fn proof_of<'f>(&self, filter: &'f Filter, condition: u16, branch: u16) -> ConditionProof<'f> {
        let is_proven = is_proven(filter, condition);
        let (is_enough, branch): (bool, &[Node]) = match &filter.all[self.node] {
            Node::Test(_) => (is_proven, &[]),
            Node::Any(branches) => {
                let branch = &branches[branch as usize];
                // An OR within a branch has its own conditions filed: all is gone through then.
                match branch.iter().all(|node| matches!(node, Node::Test(_))) {
                    true => (true, branch),
                    false => (false, &[]),
                }
            }
        };
        ConditionProof { condition, is_proven, node: self.node, is_enough, branch }
    }

    /// The way in which it is found, for people.
    pub(crate) fn how(&self, filter: &Filter) -> Cow<'static, str> {
        let of_test = |test: &Test| match test {
            Test::Text(_) => "hash table",
            Test::Set(set) if set.has_points_only() => "hash table",
            Test::Set(_) | Test::TextSpan(_) => "ordered index",
            Test::Prefixes(_) => "table of prefixes",
            Test::Contains(_) => "a search for all such texts at once",
            Test::Pattern(_) => "one automaton for all such patterns",
            Test::Size(_) | Test::Key(_) => "one reading of the value for all who ask for its size or keys",
            Test::Null { .. } | Test::NotNull => "list",
            Test::NotText(_) | Test::Words(_) => "nothing",
        };
        let [(condition, _)] = *self.conditions else { return "a table for each".into() };
        match &filter.conditions[condition as usize].test {
            Test::Pattern(pattern) => pattern
                .required
                .as_ref()
                .map_or_else(|| "one automaton for all such patterns", of_test)
                .into(),
            Test::Words(words) => {
                let terms: Vec<String> = words.accesses(None).map(|access| access.term.to_string()).collect();
                format!("table of words, under {}", terms.join(", ")).into()
            }
            test => of_test(test).into(),
        }
    }
}

/// True if one of the conditions is on words.
fn has_words(filter: &Filter, conditions: &AccessConditions) -> bool {
    conditions
        .iter()
        .any(|(condition, _)| matches!(filter.conditions[usize::from(*condition)].test, Test::Words(_)))
}

fn is_proven(filter: &Filter, condition: u16) -> bool {
    filter.conditions[condition as usize].test.is_proven_when_found()
}

/// Conditions to file a group by, each with the outermost branch that it is of.
type AccessConditions = smallvec::SmallVec<[(u16, u16); 4]>;

/// The conditions by which whatever makes the node hold is found, and the share of events that they find; none where
/// there are no such.
fn rarest(
    filter: &Filter,
    node: &Node,
    sample: Option<&Sample>,
    branch: u16,
    conditions: &mut AccessConditions,
) -> Option<f64> {
    match node {
        Node::Test(number) => {
            let condition = &filter.conditions[*number as usize];
            if matches!(condition.test, Test::NotText(_)) {
                return None;
            }
            conditions.push((*number, branch));
            Some(estimate(sample, condition))
        }
        Node::Any(branches) => rarest_of_each(filter, branches, sample, Some(branch), conditions),
    }
}

/// Does the same as [`rarest`], for each operand of an OR; `outer`: the branch that contains all of it, if it is within
/// one.
fn rarest_of_each(
    filter: &Filter,
    branches: &[Box<[Node]>],
    sample: Option<&Sample>,
    outer: Option<u16>,
    conditions: &mut AccessConditions,
) -> Option<f64> {
    let mut share = 0.0;
    for (at, branch) in branches.iter().enumerate() {
        // A filter has at most 1,024 conditions, and no branch has none.
        let number = outer.unwrap_or(at as u16);
        let mut best: Option<(f64, AccessConditions)> = None;
        for node in branch {
            let mut these = AccessConditions::new();
            let Some(of_node) = rarest(filter, node, sample, number, &mut these) else { continue };
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
