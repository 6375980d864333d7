//! The groups of an aggregation, found by key through one hash table.
//!
//! Native keys are kept in their encoded form ([`crate::expr::encode_group_value`]): equal keys are equal bytes. Bullet's
//! are the texts of the values with `|` between them; where texts with a `|` of their own make two keys one, the first
//! one's values are shown. Cost of an update: one hash and one probe a row, then one pass over the rows per aggregate.
//!
//! Bullet keeps a sample of the groups where there are more than [`SAMPLED`]: those whose keys have the least hashes, so
//! that every shard keeps the same ones and what is counted of them is exact.

mod deletion;
mod keyed;

use std::hash::BuildHasher;

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::Value;
use swiftwater_lang::Dialect;
use swiftwater_sketch::{DistinctFigures, hash_of_bytes, sample_figures};

use super::{
    cells::Cells,
    sketch_cells::encode_combination,
    sketch_meta::{SketchFigures, SketchMeta},
    table::TableCells,
    taken::{Combinations, GroupInput, PASSED_OVER, Picked},
};
use crate::{
    expr::{decode_group_value, encode_group_value},
    standing::CompiledGroup,
};

/// Groups that Bullet keeps.
const SAMPLED: usize = 512;

/// Groups that are held before all but [`SAMPLED`] are dropped: so often is seldom.
const SAMPLED_HELD_MAX: usize = 4 * SAMPLED;

/// Groups by key, and their cells.
#[derive(Debug, Clone)]
pub struct GroupTable {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// All keys' bytes, one after another.
    key_bytes: Vec<u8>,
    /// Where each group's key ends in `key_bytes`.
    key_ends: Vec<usize>,
    /// Of keys that are texts: the length of each value of each key.
    key_widths: Vec<u32>,
    /// Values of a key.
    key_values: usize,
    /// Groups of keys with such a hash or a greater one are passed over; `None`: there are none such.
    dropped_from: Option<u64>,
    cells: Vec<Cells>,
    table_cells: Option<TableCells>,
    heap_bytes: usize,
    dialect: Dialect,
    /// By group, what was deleted of it; empty where nothing was.
    deletions: Vec<Deletion>,
}

/// What was deleted of a group by its own rows ([`CompiledGroup::deletes`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Deletion {
    #[default]
    None,
    /// All that was before what is here.
    Before,
    /// All: nothing is here.
    All,
}

/// Groups as rows.
#[derive(Debug)]
pub(crate) struct GroupRows<'a> {
    /// Keys, then aggregates, then the columns of the aggregate that gives rows; each a column with one value per row.
    pub(crate) slots: Vec<Vec<Value<'a>>>,
    /// The group that each row is of, ascending.
    pub(crate) group_of_row: Vec<u32>,
    /// How exact approximate values in them are.
    pub(crate) sketches: Vec<SketchMeta>,
    /// In Bullet's dialect, why there are no rows.
    pub(crate) failure: Option<&'static str>,
}

impl GroupTable {
    /// No groups yet.
    pub(crate) fn new(group: &CompiledGroup, dialect: Dialect) -> GroupTable {
        let functions = group.aggregates.iter().map(|aggregate| aggregate.function);
        let cells = functions.map(|function| Cells::new(function, &group.sizes)).collect();
        let table_cells = group.table.as_ref().map(|table| TableCells::new(&table.function, &group.sizes));
        GroupTable::with_cells(cells, table_cells, group.keys.len(), dialect)
    }

    /// The group of an aggregation that only counts rows, where it is there: so many.
    pub(super) fn of_rows(count: Option<u64>, dialect: Dialect) -> GroupTable {
        let counts = Cells::Count(count.into_iter().collect());
        let mut table = GroupTable::with_cells(vec![counts], None, 0, dialect);
        if count.is_some() {
            table.group(&[], &[]);
        }
        table
    }

    fn with_cells(
        cells: Vec<Cells>,
        table_cells: Option<TableCells>,
        key_values: usize,
        dialect: Dialect,
    ) -> GroupTable {
        GroupTable {
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            key_bytes: Vec::new(),
            key_ends: Vec::new(),
            key_widths: Vec::new(),
            key_values,
            dropped_from: None,
            cells,
            table_cells,
            heap_bytes: 0,
            dialect,
            deletions: Vec::new(),
        }
    }

    /// Groups so far.
    pub fn len(&self) -> usize {
        self.key_ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, about: keys, cells, table.
    pub(crate) fn bytes(&self) -> usize {
        let table_cell = self.table_cells.as_ref().map_or(0, TableCells::cell_bytes);
        let per_group = 8 + 5 + self.cells.iter().map(Cells::cell_bytes).sum::<usize>() + table_cell;
        let keys = self.key_bytes.len() + size_of_val(&self.key_widths[..]);
        size_of::<GroupTable>() + keys + self.len() * per_group + self.heap_bytes
    }

    /// Takes in rows. Answers how many values could not be used for their type.
    pub(super) fn update(&mut self, rows: usize, input: &GroupInput<'_>) -> u64 {
        let mut group_of_row = Vec::with_capacity(rows);
        if self.key_values == 0 && rows > 0 {
            group_of_row.resize(rows, self.group(&[], &[]));
        }
        let (mut key, mut widths) = (Vec::new(), Vec::new());
        for row in group_of_row.len()..rows {
            key.clear();
            widths.clear();
            let is_key = if self.dialect.keys_are_text() {
                self.encode_text_key(&input.keys, row, &mut key, &mut widths)
            } else {
                input.keys.iter().for_each(|column| encode_group_value(&column[row], self.dialect, &mut key));
                true
            };
            group_of_row.push(if is_key { self.group(&key, &widths) } else { PASSED_OVER });
        }
        if !input.deletes.is_empty() {
            self.delete(&mut group_of_row, &input.deletes);
        }
        self.update_cells(Picked::all(&group_of_row), input)
    }

    /// As [`GroupTable::update`], of some rows of an input whose keys were encoded before; native only. The group of each
    /// key is looked for once.
    pub(super) fn update_some(&mut self, rows: &[u32], input: &GroupInput<'_>, keys: &Combinations) -> u64 {
        let mut group_of_key = vec![PASSED_OVER; keys.places()];
        let mut group_of = |row: u32| {
            let key = keys.place_of_row[row as usize];
            let group = &mut group_of_key[key as usize];
            if *group == PASSED_OVER {
                *group = self.group(keys.get(key), &[]);
            }
            *group
        };
        let group_of_row: Vec<u32> = rows.iter().map(|&row| group_of(row)).collect();
        self.update_cells(Picked::some(rows, &group_of_row), input)
    }

    fn update_cells(&mut self, rows: Picked<'_>, input: &GroupInput<'_>) -> u64 {
        self.resize_cells();
        let dialect = self.dialect;
        let of_values = self.cells.iter_mut().zip(&input.aggregates);
        let of_rows = self.table_cells.iter_mut().zip(&input.table);
        let (mut mistyped, mut grown) = (0, 0);
        for (unusable, heap) in of_values
            .map(|(cells, taken)| cells.update(rows, taken, &input.order, dialect))
            .chain(of_rows.map(|(cells, taken)| cells.update(rows, taken)))
        {
            mistyped += unusable;
            grown += heap;
        }
        self.heap_bytes = self.heap_bytes.saturating_add_signed(grown);
        self.drop_most();
        mistyped
    }

    /// False where a value has no text, or where all of the key has none (Bullet's sketches take in no empty text): its
    /// row is of no group.
    fn encode_text_key(
        &self,
        keys: &[Vec<Value<'_>>],
        row: usize,
        key: &mut Vec<u8>,
        widths: &mut Vec<u32>,
    ) -> bool {
        for place in 0..keys.len() {
            if place > 0 {
                key.push(b'|');
            }
            let before = key.len();
            if !encode_combination(&keys[place..=place], row, self.dialect, true, key) {
                return false;
            }
            widths.push((key.len() - before) as u32);
        }
        keys.is_empty() || !key.is_empty()
    }

    /// Takes in all groups of another partial of the same query.
    pub(super) fn merge(&mut self, other: &GroupTable) {
        if let Some(theirs) = other.dropped_from {
            self.dropped_from = Some(self.dropped_from.map_or(theirs, |ours| ours.min(theirs)));
        }
        let all: Vec<u32> = (0..other.len() as u32).collect();
        self.merge_some(other, &all);
        if self.dropped_from.is_some() {
            // What of ours the other would have dropped was counted only here.
            self.retain_below_bound();
        }
        self.drop_most();
    }

    /// Answers which group of ours each chosen one is.
    fn merge_some(&mut self, other: &GroupTable, chosen: &[u32]) -> Vec<u32> {
        let mut group_of = vec![PASSED_OVER; other.len()];
        for &group in chosen {
            group_of[group as usize] = self.group(other.key(group as usize), other.widths(group as usize));
        }
        self.resize_cells();
        for (ours, theirs) in self.cells.iter_mut().zip(&other.cells) {
            let heap = ours.merge(theirs, &group_of, self.dialect);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
        if let (Some(ours), Some(theirs)) = (&mut self.table_cells, &other.table_cells) {
            let heap = ours.merge(theirs, &group_of);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
        group_of
    }

    /// Leaves the cells of these aggregates, in this order, each once.
    pub(super) fn pick_cells(&mut self, places: &[usize]) {
        if places.iter().copied().eq(0..self.cells.len()) {
            return;
        }
        let mut cells: Vec<Option<Cells>> = std::mem::take(&mut self.cells).into_iter().map(Some).collect();
        self.cells = places.iter().filter_map(|&place| cells.get_mut(place)?.take()).collect();
    }

    /// Makes sure that there is the one group of an aggregation without keys.
    pub(super) fn ensure_single(&mut self) {
        self.group(&[], &[]);
        self.resize_cells();
    }

    /// The rows of all groups. A group with an aggregate that gives rows has as many as that gives, others one.
    pub(super) fn evaluate<'a>(&'a self, group: &CompiledGroup, arena: &'a Bump) -> GroupRows<'a> {
        let mut sketches = Vec::new();
        let groups: Vec<u32> = if self.is_sampled() {
            let (groups, bound) = self.sample();
            sketches.push(self.sample_meta(&groups, bound));
            groups
        } else {
            (0..self.len() as u32).collect()
        };
        let mut columns: Vec<Vec<Value<'a>>> = Vec::new();
        columns.resize_with(group.keys.len(), || Vec::with_capacity(groups.len()));
        for &group in &groups {
            self.decode_key(group as usize, arena, &mut columns);
        }
        let is_whole = groups.len() == self.len();
        for (cells, aggregate) in self.cells.iter().zip(&group.aggregates) {
            let mut column = Vec::with_capacity(self.len());
            cells.evaluate(self.dialect, arena, &mut column);
            if !is_whole {
                column = groups.iter().map(|&group| column[group as usize]).collect();
            }
            columns.push(column);
            sketches.extend(cells.meta(&aggregate.text));
        }
        let (Some(cells), Some(table)) = (&self.table_cells, &group.table) else {
            return GroupRows { slots: columns, group_of_row: groups, sketches, failure: None };
        };
        sketches.extend(cells.meta(table));
        let is_bullet = self.dialect == Dialect::Bullet;
        let failure = if is_bullet { cells.failure(table, &groups) } else { None };
        let (rows, place_of_row) = cells.evaluate(table, &groups, self.dialect, arena);
        for column in &mut columns {
            *column = place_of_row.iter().map(|&place| column[place as usize]).collect();
        }
        columns.extend(rows);
        let group_of_row = place_of_row.iter().map(|&place| groups[place as usize]).collect();
        GroupRows { slots: columns, group_of_row, sketches, failure }
    }

    fn decode_key<'a>(&self, group: usize, arena: &'a Bump, columns: &mut [Vec<Value<'a>>]) {
        let mut rest = self.key(group);
        if self.dialect.keys_are_text() {
            for (column, &width) in columns.iter_mut().zip(self.widths(group)) {
                let (text, after) = rest.split_at(rest.len().min(width as usize));
                column.push(Value::String(arena.alloc_str(&String::from_utf8_lossy(text))));
                rest = after.get(1..).unwrap_or_default();
            }
            return;
        }
        for column in columns {
            let (value, after) = decode_group_value(rest, arena);
            column.push(value);
            rest = after;
        }
    }

    /// Whether groups are sampled where there are many.
    fn is_sampled(&self) -> bool {
        self.dialect.groups_max().is_some() && self.key_values > 0
    }

    /// The groups with the least hashes, in the order of the groups, and the hash that all others have or exceed.
    fn sample(&self) -> (Vec<u32>, Option<u64>) {
        let all: Vec<u32> = (0..self.len() as u32).collect();
        if self.len() <= SAMPLED {
            return (all, self.dropped_from);
        }
        let mut by_hash: Vec<(u64, u32)> =
            all.into_iter().map(|group| (hash_of_bytes(self.key(group as usize)), group)).collect();
        let (least, (bound, _), _) = by_hash.select_nth_unstable(SAMPLED);
        let mut groups: Vec<u32> = least.iter().map(|(_, group)| *group).collect();
        groups.sort_unstable();
        (groups, Some(*bound))
    }

    fn sample_meta(&self, groups: &[u32], bound: Option<u64>) -> SketchMeta {
        let hashes: Vec<u64> = groups.iter().map(|&group| hash_of_bytes(self.key(group as usize))).collect();
        let figures: DistinctFigures = sample_figures(&hashes, bound, self.bytes() as u64);
        SketchMeta {
            aggregate: "GROUP BY".into(),
            is_estimated: bound.is_some(),
            figures: SketchFigures::Groups(figures),
        }
    }

    /// Keeps memory bounded where groups are sampled.
    fn drop_most(&mut self) {
        if self.is_sampled() && self.len() > SAMPLED_HELD_MAX {
            let (groups, bound) = self.sample();
            self.keep(&groups, bound);
        }
    }

    fn retain_below_bound(&mut self) {
        let Some(bound) = self.dropped_from else { return };
        let below = |&group: &u32| hash_of_bytes(self.key(group as usize)) < bound;
        let groups: Vec<u32> = (0..self.len() as u32).filter(below).collect();
        if groups.len() < self.len() {
            self.keep(&groups, Some(bound));
        }
    }

    fn keep(&mut self, groups: &[u32], dropped_from: Option<u64>) {
        let mut kept = self.emptied();
        kept.dropped_from = dropped_from;
        kept.merge_some(self, groups);
        *self = kept;
    }

    /// Without groups.
    fn emptied(&self) -> GroupTable {
        let cells = self.cells.iter().map(Cells::emptied).collect();
        let table_cells = self.table_cells.as_ref().map(TableCells::emptied);
        GroupTable::with_cells(cells, table_cells, self.key_values, self.dialect)
    }

    /// A group's key.
    pub fn key(&self, group: usize) -> &[u8] {
        let start = if group == 0 { 0 } else { self.key_ends[group - 1] };
        &self.key_bytes[start..self.key_ends[group]]
    }

    fn widths(&self, group: usize) -> &[u32] {
        if self.dialect.keys_are_text() {
            &self.key_widths[group * self.key_values..(group + 1) * self.key_values]
        } else {
            &[]
        }
    }

    /// The group of a key, a new one where there is none; [`PASSED_OVER`] where it would be one that was dropped.
    fn group(&mut self, key: &[u8], widths: &[u32]) -> u32 {
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
                if self.dropped_from.is_some_and(|bound| hash_of_bytes(key) >= bound) {
                    return PASSED_OVER;
                }
                let group = self.key_ends.len() as u32;
                vacant.insert(group);
                self.key_bytes.extend_from_slice(key);
                self.key_ends.push(self.key_bytes.len());
                self.key_widths.extend_from_slice(widths);
                group
            }
        }
    }

    fn resize_cells(&mut self) {
        let groups = self.key_ends.len();
        for cells in &mut self.cells {
            cells.resize(groups);
        }
        if let Some(cells) = &mut self.table_cells {
            cells.resize(groups);
        }
    }
}
