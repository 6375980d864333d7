//! A partial: the mergeable state of one aggregation, its groups found by key through one hash table.
//!
//! Keys are kept in their encoded form ([`crate::expr::encode_group_value`]): equal keys are equal bytes. Cost of an update:
//! one hash and one probe a row, then one pass over the rows per aggregate.

use std::hash::BuildHasher;

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::cells::Cells;
use crate::{
    expr::{decode_group_value, encode_group_value},
    standing::CompiledGroup,
};

/// The groups of one query (of one of its windows, on one shard, or merged).
#[derive(Debug)]
pub struct Groups {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// All keys' encodings, one after another.
    key_bytes: Vec<u8>,
    /// Where each group's key ends in `key_bytes`.
    key_ends: Vec<usize>,
    cells: Vec<Cells>,
    heap_bytes: usize,
    dialect: Dialect,
}

/// Groups as rows.
#[derive(Debug)]
pub(crate) struct GroupRows<'a> {
    /// Keys, then aggregates, then the columns of the aggregate that gives rows; each a column with one value per row.
    pub(crate) slots: Vec<Vec<Value<'a>>>,
    /// The group that each row is of, ascending.
    pub(crate) group_of_row: Vec<u32>,
}

impl Groups {
    /// No groups yet.
    pub(crate) fn new(group: &CompiledGroup, dialect: Dialect) -> Groups {
        let functions = group.aggregates.iter().map(|aggregate| aggregate.function);
        Groups {
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            key_bytes: Vec::new(),
            key_ends: Vec::new(),
            cells: functions.map(Cells::new).collect(),
            heap_bytes: 0,
            dialect,
        }
    }

    /// Groups so far.
    pub fn len(&self) -> usize {
        self.key_ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.key_ends.is_empty()
    }

    /// Bytes held, about: keys, cells, table.
    pub fn bytes(&self) -> usize {
        let per_group = 8 + 5 + self.cells.iter().map(Cells::cell_bytes).sum::<usize>();
        size_of::<Groups>() + self.key_bytes.len() + self.len() * per_group + self.heap_bytes
    }

    /// Takes in rows: one value per key and row, one per aggregate and row (none for COUNT(*)). Answers how many
    /// values could not be used for their type.
    pub(crate) fn update(
        &mut self,
        rows: usize,
        keys: &[Vec<Value<'_>>],
        arguments: &[Option<Vec<Value<'_>>>],
    ) -> u64 {
        let mut key = Vec::new();
        let mut group_of_row = Vec::with_capacity(rows);
        for row in 0..rows {
            key.clear();
            for column in keys {
                encode_group_value(&column[row], self.dialect, &mut key);
            }
            group_of_row.push(self.group(&key));
        }
        self.resize_cells();
        let mut mistyped = 0;
        for (cells, argument) in self.cells.iter_mut().zip(arguments) {
            match argument {
                None => cells.count_rows(&group_of_row),
                Some(values) => {
                    let (unusable, heap) = cells.update(&group_of_row, values, self.dialect);
                    mistyped += unusable;
                    self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
                }
            }
        }
        mistyped
    }

    /// Takes in all groups of another partial of the same query.
    pub(crate) fn merge(&mut self, other: &Groups) {
        let group_of: Vec<u32> = (0..other.len()).map(|group| self.group(other.key(group))).collect();
        self.resize_cells();
        for (ours, theirs) in self.cells.iter_mut().zip(&other.cells) {
            let heap = ours.merge(theirs, &group_of, self.dialect);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
    }

    /// Makes sure that there is the one group of an aggregation without keys.
    pub(crate) fn ensure_single(&mut self) {
        self.group(&[]);
        self.resize_cells();
    }

    /// The rows of all groups. A group with an aggregate that gives rows has as many as that gives, others one.
    pub(crate) fn evaluate<'a>(&'a self, group: &CompiledGroup, arena: &'a Bump) -> GroupRows<'a> {
        let keys = group.keys.len();
        let mut columns: Vec<Vec<Value<'a>>> = (0..keys).map(|_| Vec::with_capacity(self.len())).collect();
        for group in 0..self.len() {
            let mut rest = self.key(group);
            for column in &mut columns {
                let (value, after) = decode_group_value(rest, arena);
                column.push(value);
                rest = after;
            }
        }
        for cells in &self.cells {
            let mut column = Vec::with_capacity(self.len());
            cells.evaluate(self.dialect, arena, &mut column);
            columns.push(column);
        }
        GroupRows { slots: columns, group_of_row: (0..self.len() as u32).collect() }
    }

    fn key(&self, group: usize) -> &[u8] {
        let start = if group == 0 { 0 } else { self.key_ends[group - 1] };
        &self.key_bytes[start..self.key_ends[group]]
    }

    fn group(&mut self, key: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let (key_bytes, key_ends) = (&self.key_bytes, &self.key_ends);
        let key_of = |group: u32| {
            let start = if group == 0 { 0 } else { key_ends[group as usize - 1] };
            &key_bytes[start..key_ends[group as usize]]
        };
        let hasher = &self.hasher;
        let entry =
            self.table.entry(hash, |&group| key_of(group) == key, |&group| hasher.hash_one(key_of(group)));
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                let group = self.key_ends.len() as u32;
                vacant.insert(group);
                self.key_bytes.extend_from_slice(key);
                self.key_ends.push(self.key_bytes.len());
                group
            }
        }
    }

    fn resize_cells(&mut self) {
        let groups = self.key_ends.len();
        for cells in &mut self.cells {
            cells.resize(groups);
        }
    }
}
