//! The groups of an aggregation, found by key through one hash table.
//!
//! Native keys are stored in their encoded form ([`crate::expr::encode_group_value`]): equal keys are equal bytes.
//! Bullet's are the texts of the values with `|` between them; if texts with a `|` of their own make two keys one, the
//! first one's values are shown. Cost of an update: one hash and one probe a row, then one pass over the rows per
//! aggregate.
//!
//! The groups of a batch are found in three runs over its rows: hashes, then the groups that have these hashes, then
//! their keys. So with a hundred thousand groups, the processor waits for the memory of several rows at once.
//!
//! Bullet returns a sample of the groups if there are more than [`SAMPLED`]: those whose keys have the least hashes, so
//! that every shard has the same ones and their counts are exact.

mod deletion;
mod keyed;
mod sets;

use std::{hash::BuildHasher, sync::Arc};

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::Value;
use swiftwater_lang::{Dialect, plan::AggregateFunction};
use swiftwater_sketch::{DistinctFigures, hash_of_bytes, sample_figures};

use self::sets::KeyPrefix;
use super::{
    cells::Cells,
    group_input::{Combinations, GroupInput, InputValues, PASSED_OVER, SelectedRows},
    packed_counters::PackedCounters,
    sketch_cells::encode_combination,
    sketch_meta::{SketchFigures, SketchMeta},
    table::TableCells,
};
use crate::{
    expr::{decode_group_value, encode_group_value},
    matching::prefetch,
    standing::CompiledGroup,
};

/// Groups that Bullet keeps.
const SAMPLED: usize = 512;

/// Groups that are held before all but [`SAMPLED`] are dropped: so often is seldom.
const SAMPLED_HELD_MAX: usize = 4 * SAMPLED;

/// Groups by key, and their cells.
#[derive(Debug, Clone)]
pub struct GroupTable {
    /// One for each grouping set, or for all.
    tables: Vec<HashTable<Slot>>,
    hasher: DefaultHashBuilder,
    /// All keys' bytes, one after another.
    key_bytes: Vec<u8>,
    /// The end of each group's key in `key_bytes`.
    key_ends: Vec<usize>,
    /// The length of each value of each key, for keys that are texts.
    key_widths: Vec<u32>,
    /// Values of a key.
    key_values: usize,
    /// Groups of keys with such a hash or a greater one are passed over; `None`: there are none such.
    dropped_from: Option<u64>,
    cells: Vec<Cells>,
    /// Counts and sums of whole numbers.
    lanes: PackedCounters,
    table_cells: Option<TableCells>,
    /// The keys of each grouping set; none: all keys are one.
    sets: Arc<[Box<[usize]>]>,
    /// The parts of a key before the values of keys.
    lead: KeyPrefix,
    heap_bytes: usize,
    dialect: Dialect,
    /// The deletions by group; empty if there were none.
    deletions: Vec<Deletion>,
}

/// A group in a hash table.
#[derive(Debug, Clone, Copy)]
struct Slot {
    group: u32,
    /// [`tag`] of its key's hash: nearly all other keys are told apart by it, without a look at their bytes.
    tag: u32,
}

/// The part of a hash that the hash table itself makes little use of.
fn tag(hash: u64) -> u32 {
    (hash >> 25) as u32
}

/// Rows ahead whose groups' keys are asked for, and where these begin.
const AHEAD: usize = 8;

/// Bytes of keys below which all are in the cache already.
const FAR_BYTES: usize = 1 << 18;

/// The deletion of a group by its own rows ([`CompiledGroup::deletes`]).
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
    /// The grouping set of each row, if there are sets.
    pub(crate) set_of_row: Vec<u32>,
    /// The precision of approximate values in them.
    pub(crate) sketches: Vec<SketchMeta>,
    /// The reason why there are no rows, in Bullet's dialect.
    pub(crate) failure: Option<&'static str>,
}

impl GroupTable {
    /// No groups yet.
    pub(crate) fn new(group: &CompiledGroup, dialect: Dialect) -> GroupTable {
        let functions = group.aggregates.iter().map(|aggregate| aggregate.function);
        let cells = functions.map(|function| Cells::new(function, &group.sizes)).collect();
        let aggregates = group.aggregates.iter();
        let lanes =
            PackedCounters::new(aggregates.map(|one| (one.function, !one.arguments.is_empty())), dialect);
        let table_cells = group.table.as_ref().map(|table| TableCells::new(&table.function, &group.sizes));
        let sets = (Arc::clone(&group.sets), KeyPrefix::of(&group.sets, false));
        GroupTable::with_cells((cells, lanes, table_cells), sets, group.keys.len(), dialect)
    }

    /// The group of an aggregation that only counts rows, where it is there: so many.
    pub(super) fn of_rows(count: Option<u64>, dialect: Dialect) -> GroupTable {
        let function = AggregateFunction::Count;
        let mut lanes = PackedCounters::new([(function, false)].into_iter(), dialect);
        let cells = match lanes.has(0) {
            true => Cells::Count(Vec::new()),
            false => Cells::Count(count.into_iter().collect()),
        };
        if let Some(count) = count {
            lanes.push(&[Some((count, 0))]);
        }
        let cells = (vec![cells], lanes, None);
        let mut table = GroupTable::with_cells(cells, (Arc::default(), KeyPrefix::default()), 0, dialect);
        if count.is_some() {
            table.group(&[], &[]);
        }
        table
    }

    fn with_cells(
        (cells, lanes, table_cells): (Vec<Cells>, PackedCounters, Option<TableCells>),
        (sets, lead): (Arc<[Box<[usize]>]>, KeyPrefix),
        key_values: usize,
        dialect: Dialect,
    ) -> GroupTable {
        GroupTable {
            tables: vec![HashTable::new(); lead.tables(&sets)],
            sets,
            lead,
            lanes,
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

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, about: keys, cells, table.
    pub(crate) fn bytes(&self) -> usize {
        let table_cell = self.table_cells.as_ref().map_or(0, TableCells::cell_bytes);
        let cells = self.cells.iter().enumerate().filter(|(place, _)| !self.lanes.has(*place));
        let of_cells = cells.map(|(_, cells)| cells.cell_bytes()).sum::<usize>();
        let per_group =
            size_of::<usize>() + size_of::<Slot>() + 1 + of_cells + self.lanes.group_bytes() + table_cell;
        let keys = self.key_bytes.len() + size_of_val(&self.key_widths[..]);
        size_of::<GroupTable>() + keys + self.len() * per_group + self.heap_bytes
    }

    /// Takes in rows. Returns the number of values that could not be used for their type.
    pub(super) fn update(&mut self, rows: usize, input: &GroupInput<'_>) -> u64 {
        if !self.sets.is_empty() {
            return self.update_sets(rows, input);
        }
        let mut group_of_row = Vec::with_capacity(rows);
        if self.key_values == 0 && rows > 0 {
            group_of_row.resize(rows, self.group(&[], &[]));
        } else if self.dialect.keys_are_text() {
            let (mut key, mut widths) = (Vec::new(), Vec::new());
            for row in 0..rows {
                key.clear();
                widths.clear();
                let is_key = self.encode_text_key(&input.keys, row, &mut key, &mut widths);
                group_of_row.push(if is_key { self.group(&key, &widths) } else { PASSED_OVER });
            }
        } else {
            self.groups_of_rows(rows, input, &mut group_of_row);
        }
        if !input.deletes.is_empty() {
            self.delete(&mut group_of_row, &input.deletes);
        }
        self.update_cells(SelectedRows::all(&group_of_row), input)
    }

    fn groups_of_rows(&mut self, rows: usize, input: &GroupInput<'_>, group_of_row: &mut Vec<u32>) {
        let dialect = self.dialect;
        let keys = Combinations::of_rows(rows, |row, out| {
            input.keys.iter().for_each(|column| encode_group_value(&column[row], dialect, out));
        });
        self.groups_of_keys(rows, |row| keys.get(row as u32), group_of_row);
    }

    /// Appends the groups of keys that are no texts; new ones where there are none.
    ///
    /// All are hashed before any is looked for, and each is looked for by its hash before any is compared: of many groups
    /// each step waits for memory, and those of several keys wait at once.
    fn groups_of_keys<'k>(&mut self, count: usize, key: impl Fn(usize) -> &'k [u8], groups: &mut Vec<u32>) {
        let before = groups.len();
        let places: Vec<(usize, usize, u64)> = (0..count)
            .map(|at| {
                let (table, skipped) = self.lead.table(key(at));
                (table, skipped, self.hasher.hash_one(&key(at)[skipped..]))
            })
            .collect();
        let likely = |(at, &(table, skipped, hash)): (usize, &(usize, usize, u64))| {
            let tag = tag(hash);
            match self.tables[table].find(hash, |slot| slot.tag == tag) {
                Some(slot) => slot.group,
                None => self.group_hashed(table, hash, skipped, &[], key(at), &[]),
            }
        };
        groups.extend(places.iter().enumerate().map(likely));
        let groups = &mut groups[before..];
        let is_far = self.key_bytes.len() > FAR_BYTES;
        for at in 0..count {
            if is_far {
                if let Some(&group) = groups.get(at + 2 * AHEAD) {
                    prefetch(&self.key_ends, group as usize);
                }
                if let Some(&group) = groups.get(at + AHEAD) {
                    prefetch(&self.key_bytes, self.key_start(group as usize));
                }
            }
            let key = key(at);
            if self.key(groups[at] as usize) != key {
                let (table, skipped, hash) = places[at];
                groups[at] = self.group_hashed(table, hash, skipped, &[], key, &[]);
            }
        }
    }

    /// Does the same as [`GroupTable::update`], for some rows of an input whose keys were encoded before; native only.
    /// The group of each key is looked for once.
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
        self.update_cells(SelectedRows::some(rows, &group_of_row), input)
    }

    fn update_cells(&mut self, rows: SelectedRows<'_>, input: &GroupInput<'_>) -> u64 {
        self.resize_cells();
        let (dialect, groups) = (self.dialect, self.len());
        let (mut mistyped, mut grown) = (self.lanes.update(rows, &input.lanes, &mut self.cells), 0);
        for (place, (cells, taken)) in self.cells.iter_mut().zip(&input.aggregates).enumerate() {
            if self.lanes.has(place) {
                // Only what a lane cannot take in is left.
                let InputValues::Values(_) = taken else { continue };
                cells.resize(groups);
            }
            let (unusable, heap) = cells.update(rows, taken, &input.order, dialect);
            (mistyped, grown) = (mistyped + unusable, grown + heap);
        }
        for (cells, taken) in self.table_cells.iter_mut().zip(&input.table) {
            let (unusable, heap) = cells.update(rows, taken);
            (mistyped, grown) = (mistyped + unusable, grown + heap);
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
            // The part of our groups that the other one would have dropped was counted only here.
            self.retain_below_bound();
        }
        self.drop_most();
    }

    /// Merges the chosen groups; returns our group for each.
    fn merge_some(&mut self, other: &GroupTable, chosen: &[u32]) -> Vec<u32> {
        self.merge_keyed(other, chosen, &[])
    }

    /// Their keys are ours behind these bytes.
    fn merge_keyed(&mut self, other: &GroupTable, chosen: &[u32], first: &[u8]) -> Vec<u32> {
        let mut group_of = vec![PASSED_OVER; other.len()];
        let mut key = Vec::new();
        if first.is_empty() && !self.dialect.keys_are_text() {
            let mut ours = Vec::with_capacity(chosen.len());
            self.groups_of_keys(chosen.len(), |at| other.key(chosen[at] as usize), &mut ours);
            chosen.iter().zip(ours).for_each(|(&theirs, ours)| group_of[theirs as usize] = ours);
            return self.merge_cells(other, group_of);
        }
        for &group in chosen {
            let theirs = other.key(group as usize);
            let ours = match first {
                [] => theirs,
                first => {
                    key.clear();
                    key.extend_from_slice(first);
                    key.extend_from_slice(theirs);
                    &key
                }
            };
            group_of[group as usize] = self.group(ours, other.widths(group as usize));
        }
        self.merge_cells(other, group_of)
    }

    /// Takes in the cells of another's groups, each into the group of ours that is told; answers these.
    fn merge_cells(&mut self, other: &GroupTable, group_of: Vec<u32>) -> Vec<u32> {
        self.resize_cells();
        self.lanes.merge(&other.lanes, &group_of, &mut self.cells);
        for (place, (ours, theirs)) in self.cells.iter_mut().zip(&other.cells).enumerate() {
            if self.lanes.has(place) && theirs.is_in_use() {
                ours.resize(self.key_ends.len());
            }
            let heap = ours.merge(theirs, &group_of, self.dialect);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
        if let (Some(ours), Some(theirs)) = (&mut self.table_cells, &other.table_cells) {
            let heap = ours.merge(theirs, &group_of);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
        group_of
    }

    /// Retains the cells of these aggregates, in this order, each once.
    pub(super) fn pick_cells(&mut self, places: &[usize]) {
        if places.iter().copied().eq(0..self.cells.len()) {
            return;
        }
        self.lanes.pick(places);
        let mut cells: Vec<Option<Cells>> = std::mem::take(&mut self.cells).into_iter().map(Some).collect();
        self.cells = places.iter().filter_map(|&place| cells.get_mut(place)?.take()).collect();
    }

    /// Makes sure that there is the one group of an aggregation without keys.
    pub(super) fn ensure_single(&mut self) {
        if self.sets.is_empty() {
            self.group(&[], &[]);
        }
        for set in 0..self.sets.len() {
            if self.sets[set].is_empty() {
                self.group_of_set(set, &[]);
            }
        }
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
        let mut key = Vec::with_capacity(columns.len());
        for &group in &groups {
            key.clear();
            self.decode_key(group as usize, columns.len(), arena, &mut key);
            columns.iter_mut().zip(&key).for_each(|(column, value)| column.push(*value));
        }
        let is_whole = groups.len() == self.len();
        for (place, (cells, aggregate)) in self.cells.iter().zip(&group.aggregates).enumerate() {
            let mut column = Vec::with_capacity(self.len());
            if self.lanes.has(place) {
                column.extend((0..self.len()).map(|group| self.value_of_lane(place, group)));
            } else {
                cells.evaluate(0..self.len(), self.dialect, arena, &mut column);
            }
            if !is_whole {
                column = groups.iter().map(|&group| column[group as usize]).collect();
            }
            columns.push(column);
            sketches.extend(cells.meta(&aggregate.text));
        }
        let (groupings, sets) = self.groupings(&groups, group);
        let table = self.table_cells.as_ref().zip(group.table.as_ref());
        sketches.extend(table.and_then(|(cells, table)| cells.meta(table)));
        let Some((cells, table)) = table.filter(|(_, table)| table.listed.is_empty()) else {
            let list = |(cells, table): (&TableCells, _)| -> Vec<Value<'a>> {
                groups.iter().map(|&group| cells.list(table, group, arena)).collect()
            };
            columns.extend(table.map(list));
            columns.extend(groupings);
            return GroupRows {
                slots: columns,
                group_of_row: groups,
                set_of_row: sets,
                sketches,
                failure: None,
            };
        };
        let is_bullet = self.dialect == Dialect::Bullet;
        let failure = if is_bullet { cells.failure(table, &groups) } else { None };
        let (rows, place_of_row) = cells.evaluate(table, &groups, self.dialect, arena);
        for column in &mut columns {
            *column = place_of_row.iter().map(|&place| column[place as usize]).collect();
        }
        columns.extend(rows);
        let of_places =
            |column: Vec<Value<'a>>| place_of_row.iter().map(|&place| column[place as usize]).collect();
        columns.extend(groupings.into_iter().map(of_places));
        let set_of_row = match sets.is_empty() {
            true => sets,
            false => place_of_row.iter().map(|&place| sets[place as usize]).collect(),
        };
        let group_of_row = place_of_row.iter().map(|&place| groups[place as usize]).collect();
        GroupRows { slots: columns, group_of_row, set_of_row, sketches, failure }
    }

    /// The slots of one group, but for the bounds of its window: its keys, what its aggregates come to, its groupings. Native
    /// only, and where an aggregate makes several rows, these are a list.
    pub(super) fn evaluate_one<'a>(
        &'a self,
        group: &CompiledGroup,
        number: usize,
        arena: &'a Bump,
        out: &mut Vec<Value<'a>>,
    ) {
        self.decode_key(number, group.keys.len(), arena, out);
        for (place, cells) in self.cells.iter().enumerate() {
            match self.lanes.has(place) {
                true => out.push(self.value_of_lane(place, number)),
                false => cells.evaluate(number..number + 1, self.dialect, arena, out),
            }
        }
        if let (Some(cells), Some(table)) = (&self.table_cells, &group.table) {
            out.push(cells.list(table, number as u32, arena));
        }
        if !group.groupings.is_empty() {
            let (groupings, _) = self.groupings(&[number as u32], group);
            out.extend(groupings.into_iter().flatten());
        }
    }

    /// Appends the values of a group's key, of which there are so many.
    fn decode_key<'a>(&self, group: usize, values: usize, arena: &'a Bump, out: &mut Vec<Value<'a>>) {
        let mut rest = self.key(group);
        if self.dialect.keys_are_text() {
            for &width in self.widths(group).iter().take(values) {
                let (text, after) = rest.split_at(rest.len().min(width as usize));
                out.push(Value::String(arena.alloc_str(&String::from_utf8_lossy(text))));
                rest = after.get(1..).unwrap_or_default();
            }
            return;
        }
        if self.lead != KeyPrefix::default() {
            return self.decode_key_of_set(group, values, arena, out);
        }
        for _ in 0..values {
            let (value, after) = decode_group_value(rest, arena);
            out.push(value);
            rest = after;
        }
    }

    /// True if groups are sampled where there are many.
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

    /// Bounds the memory if groups are sampled.
    fn drop_most(&mut self) {
        if self.is_sampled() && self.len() > SAMPLED_HELD_MAX {
            let (groups, bound) = self.sample();
            self.retain(&groups, bound);
        }
    }

    fn retain_below_bound(&mut self) {
        let Some(bound) = self.dropped_from else { return };
        let below = |&group: &u32| hash_of_bytes(self.key(group as usize)) < bound;
        let groups: Vec<u32> = (0..self.len() as u32).filter(below).collect();
        if groups.len() < self.len() {
            self.retain(&groups, Some(bound));
        }
    }

    fn retain(&mut self, groups: &[u32], dropped_from: Option<u64>) {
        let mut kept = self.emptied();
        kept.dropped_from = dropped_from;
        kept.merge_some(self, groups);
        *self = kept;
    }

    /// A table of the same form, without groups.
    fn emptied(&self) -> GroupTable {
        let cells = self.cells.iter().map(Cells::emptied).collect();
        let table_cells = self.table_cells.as_ref().map(TableCells::emptied);
        let sets = (Arc::clone(&self.sets), self.lead);
        GroupTable::with_cells(
            (cells, self.lanes.emptied(), table_cells),
            sets,
            self.key_values,
            self.dialect,
        )
    }

    /// A group's key.
    pub fn key(&self, group: usize) -> &[u8] {
        &self.key_bytes[self.key_start(group)..self.key_ends[group]]
    }

    fn key_start(&self, group: usize) -> usize {
        group.checked_sub(1).map_or(0, |before| self.key_ends[before])
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
        let (table, skipped) = self.lead.table(key);
        let hash = self.hasher.hash_one(&key[skipped..]);
        self.group_hashed(table, hash, skipped, &[], key, widths)
    }

    /// Finds or adds a key whose first bytes are separate, by the hash of the bytes after the skipped ones.
    fn group_hashed(
        &mut self,
        table: usize,
        hash: u64,
        skipped: usize,
        first: &[u8],
        key: &[u8],
        widths: &[u32],
    ) -> u32 {
        let (key_bytes, key_ends) = (&self.key_bytes, &self.key_ends);
        let key_of = |group: u32| {
            let start = if group == 0 { 0 } else { key_ends[group as usize - 1] };
            &key_bytes[start + skipped..key_ends[group as usize]]
        };
        let hasher = &self.hasher;
        let hashed = &key[skipped - first.len()..];
        let tag = tag(hash);
        let entry = self.tables[table].entry(
            hash,
            |slot| slot.tag == tag && key_of(slot.group) == hashed,
            |slot| hasher.hash_one(key_of(slot.group)),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => found.get().group,
            hashbrown::hash_table::Entry::Vacant(vacant) => {
                if self.dropped_from.is_some_and(|bound| hash_of_bytes(key) >= bound) {
                    return PASSED_OVER;
                }
                let group = self.key_ends.len() as u32;
                vacant.insert(Slot { group, tag });
                self.key_bytes.extend_from_slice(first);
                self.key_bytes.extend_from_slice(key);
                self.key_ends.push(self.key_bytes.len());
                self.key_widths.extend_from_slice(widths);
                group
            }
        }
    }

    fn resize_cells(&mut self) {
        let groups = self.key_ends.len();
        self.lanes.resize(groups);
        for (place, cells) in self.cells.iter_mut().enumerate() {
            // The cells of a lane exist once they were needed.
            if !self.lanes.has(place) || cells.is_in_use() {
                cells.resize(groups);
            }
        }
        if let Some(cells) = &mut self.table_cells {
            cells.resize(groups);
        }
    }
}
