//! A partial: the mergeable state of one aggregation.
//!
//! An aggregation that only counts rows is a number, because most of very many counting queries have seen few events. A
//! step of such a query is one addition. Any other aggregation is a table of groups
//! ([`group_table`](super::group_table)).

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::{
    group_input::{Combinations, GroupInput},
    group_table::{GroupRows, GroupTable},
};
use crate::standing::CompiledGroup;

/// The groups of one query (of one of its windows, on one shard, or merged).
#[derive(Debug, Clone)]
pub struct Groups(GroupStorage);

#[derive(Debug, Clone)]
enum GroupStorage {
    /// The count of `COUNT(*)` alone, without keys.
    Rows {
        count: u64,
        /// True if the one group is there.
        is_there: bool,
        dialect: Dialect,
    },
    Table(Box<GroupTable>),
}

impl Groups {
    /// No groups yet.
    pub(crate) fn new(group: &CompiledGroup, dialect: Dialect) -> Groups {
        Groups(match group.counts_rows() {
            true => GroupStorage::Rows { count: 0, is_there: false, dialect },
            false => GroupStorage::Table(Box::new(GroupTable::new(group, dialect))),
        })
    }

    /// The groups of so many rows that are only counted.
    pub(crate) fn of_rows(count: u64, dialect: Dialect) -> Groups {
        Groups::of_counted(count, count > 0, dialect)
    }

    /// The count of rows that are only counted, and whether their group is there.
    pub(crate) fn counted(&self) -> Option<(u64, bool)> {
        match &self.0 {
            GroupStorage::Rows { count, is_there, .. } => Some((*count, *is_there)),
            GroupStorage::Table(_) => None,
        }
    }

    /// The groups of such a count.
    pub(crate) fn of_counted(count: u64, is_there: bool, dialect: Dialect) -> Groups {
        Groups(GroupStorage::Rows { count, is_there, dialect })
    }

    /// Groups so far.
    pub fn len(&self) -> usize {
        match &self.0 {
            GroupStorage::Rows { is_there, .. } => usize::from(*is_there),
            GroupStorage::Table(table) => table.len(),
        }
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, about: keys, cells, table.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            GroupStorage::Rows { .. } => size_of::<Groups>(),
            GroupStorage::Table(table) => size_of::<Groups>() + table.bytes(),
        }
    }

    /// Counts rows if they are only counted; returns true if they are.
    pub(crate) fn count_rows(&mut self, rows: usize) -> bool {
        let GroupStorage::Rows { count, is_there, .. } = &mut self.0 else { return false };
        *count += rows as u64;
        *is_there |= rows > 0;
        true
    }

    /// Takes in rows. Returns the number of values that could not be used for their type.
    pub(crate) fn update(&mut self, rows: usize, input: &GroupInput<'_>) -> u64 {
        if self.count_rows(rows) {
            return 0;
        }
        self.table().update(rows, input)
    }

    /// Does the same as [`Groups::update`], for some rows of an input whose keys were encoded before; native only.
    /// The group of each key is looked for once.
    pub(crate) fn update_some(&mut self, rows: &[u32], input: &GroupInput<'_>, keys: &Combinations) -> u64 {
        if self.count_rows(rows.len()) {
            return 0;
        }
        self.table().update_some(rows, input, keys)
    }

    /// Takes in all groups of another partial of the same query.
    pub fn merge(&mut self, other: &Groups) {
        match (&mut self.0, &other.0) {
            (
                GroupStorage::Rows { count, is_there, .. },
                GroupStorage::Rows { count: theirs, is_there: are_theirs_there, .. },
            ) => {
                *count += theirs;
                *is_there |= are_theirs_there;
            }
            (_, GroupStorage::Table(theirs)) => self.table().merge(theirs),
            (GroupStorage::Table(_), GroupStorage::Rows { .. }) => {
                let mut theirs = other.clone();
                self.table().merge(theirs.table());
            }
        }
    }

    /// Retains the cells of these aggregates, in this order, each once.
    pub(crate) fn pick_cells(&mut self, places: &[usize]) {
        // Counted rows have one aggregate.
        if !matches!((&self.0, places), (GroupStorage::Rows { .. }, [0])) {
            self.table().pick_cells(places);
        }
    }

    /// Makes sure that there is the one group of an aggregation without keys.
    pub(crate) fn ensure_single(&mut self) {
        match &mut self.0 {
            GroupStorage::Rows { is_there, .. } => *is_there = true,
            GroupStorage::Table(table) => table.ensure_single(),
        }
    }

    /// The rows of all groups. A group with an aggregate that gives rows has as many as that gives, others one.
    pub(crate) fn evaluate<'a>(&'a self, group: &CompiledGroup, arena: &'a Bump) -> GroupRows<'a> {
        match &self.0 {
            GroupStorage::Rows { count, is_there, .. } => {
                let rows = usize::from(*is_there);
                GroupRows {
                    slots: vec![vec![Value::Long(*count as i64); rows]],
                    group_of_row: vec![0; rows],
                    set_of_row: Vec::new(),
                    sketches: Vec::new(),
                    failure: None,
                }
            }
            GroupStorage::Table(table) => table.evaluate(group, arena),
        }
    }

    /// Converts the groups to a table.
    pub(crate) fn into_table(mut self) -> GroupTable {
        self.table();
        match self.0 {
            GroupStorage::Table(table) => *table,
            GroupStorage::Rows { .. } => unreachable!("it was made a table above"),
        }
    }

    /// The table, where it is one.
    pub(crate) fn as_table(&self) -> Option<&GroupTable> {
        match &self.0 {
            GroupStorage::Rows { .. } => None,
            GroupStorage::Table(table) => Some(table),
        }
    }

    /// The groups of a table.
    pub(crate) fn of_table(table: GroupTable) -> Groups {
        Groups(GroupStorage::Table(Box::new(table)))
    }

    /// The table; what was a number becomes one where it meets the groups of an aggregation that shares them with others.
    fn table(&mut self) -> &mut GroupTable {
        if let GroupStorage::Rows { count, is_there, dialect } = self.0 {
            self.0 = GroupStorage::Table(Box::new(GroupTable::of_rows(is_there.then_some(count), dialect)));
        }
        match &mut self.0 {
            GroupStorage::Table(table) => table,
            GroupStorage::Rows { .. } => unreachable!("it was made a table above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::{ParseOptions, parse};

    use super::*;
    use crate::standing::{CompiledBody, StandingQuery};

    fn compiled(text: &str) -> StandingQuery {
        let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
        StandingQuery::compile(plan).expect(text)
    }

    fn group_of(query: &StandingQuery) -> &CompiledGroup {
        let CompiledBody::Group(group) = &query.body else { panic!("it makes groups") };
        group
    }

    /// Returns nothing for no group, else the count.
    fn shown(groups: &Groups, group: &CompiledGroup) -> Vec<String> {
        let arena = Bump::new();
        let rows = groups.evaluate(group, &arena);
        assert_eq!(rows.group_of_row.len(), groups.len());
        rows.slots[0].iter().map(|value| format!("{value:?}")).collect()
    }

    #[test]
    fn only_a_count_of_all_rows_is_a_number() {
        let is_number = |text: &str| {
            let query = compiled(text);
            matches!(Groups::new(group_of(&query), Dialect::Native).0, GroupStorage::Rows { .. })
        };
        assert!(is_number("SELECT COUNT(*) AS n FROM STREAM()"));
        assert!(is_number("SELECT COUNT(*) * 2 AS n FROM STREAM() WINDOWING TUMBLING(1000, TIME)"));
        for text in [
            "SELECT COUNT(a) AS n FROM STREAM()",
            "SELECT COUNT(*) AS n, SUM(a) AS s FROM STREAM()",
            "SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY a",
            "SELECT COUNT(*) FILTER (WHERE a = 1) AS n FROM STREAM()",
            "SELECT COUNT(DISTINCT a) AS n FROM STREAM()",
        ] {
            assert!(!is_number(text), "{text}");
        }
    }

    #[test]
    fn a_number_and_a_table_of_counts_merge_to_the_same_either_way() {
        let query = compiled("SELECT COUNT(*) AS n FROM STREAM()");
        let group = group_of(&query);
        let number = |count: u64| Groups::of_rows(count, Dialect::Native);
        let table = |count: u64| {
            let mut groups = number(count);
            groups.table();
            groups
        };
        for (ours, theirs, sum) in [(0, 0, None), (3, 0, Some(3)), (0, 4, Some(4)), (3, 4, Some(7))] {
            let expected: Vec<String> =
                sum.map(|sum| format!("{:?}", Value::Long(sum))).into_iter().collect();
            for mut whole in [number(ours), table(ours)] {
                for other in [number(theirs), table(theirs)] {
                    let mut merged = whole.clone();
                    merged.merge(&other);
                    assert_eq!(shown(&merged, group), expected, "{whole:?} {other:?}");
                }
                whole.ensure_single();
                assert_eq!(whole.len(), 1);
            }
        }
    }
}
