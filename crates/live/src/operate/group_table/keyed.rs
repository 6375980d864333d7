//! A group table whose groups can be removed as bytes and restored by key, as a view does.

use swiftwater_event::Millis;

use super::{
    GroupTable, PASSED_OVER, Slot,
    sets::{encoded, whole},
    tag,
};
use crate::operate::{
    Groups,
    cells::{
        Cells, SumCell,
        image::{InvalidState, push_varint, read_varint},
    },
};

impl GroupTable {
    /// The group of a key, in the encoding of [`crate::expr::encode_group_value`].
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        use std::hash::BuildHasher;
        let (table, skipped) = self.lead.table(key);
        let hash = self.hasher.hash_one(key.get(skipped..)?);
        let tag = tag(hash);
        let is_it = |slot: &Slot| slot.tag == tag && self.key(slot.group as usize) == key;
        self.tables.get(table)?.find(hash, is_it).map(|slot| slot.group)
    }

    /// Does the same as [`GroupTable::merge`], for some groups; appends our group for each. Native only.
    pub(crate) fn merge_chosen(&mut self, other: &GroupTable, chosen: &[u32], ours: &mut Vec<u32>) {
        let group_of = self.merge_some(other, chosen);
        ours.extend(
            chosen.iter().map(|&group| group_of[group as usize]).filter(|&group| group != PASSED_OVER),
        );
    }

    /// The same of all groups. Native only.
    pub(crate) fn merge_all(&mut self, other: &GroupTable) {
        let all: Vec<u32> = (0..other.len() as u32).collect();
        self.merge_some(other, &all);
    }

    /// Takes in the groups of a window that begins there; here a key begins with that.
    pub(crate) fn merge_window(&mut self, start: Millis, groups: &Groups) {
        let made;
        let theirs = match groups.as_table() {
            Some(table) => table,
            None => {
                made = groups.clone().into_table();
                &made
            }
        };
        let chosen: Vec<u32> = (0..theirs.len() as u32).collect();
        self.merge_keyed(theirs, &chosen, &encoded(start));
    }

    /// Start of the window of a group.
    pub(crate) fn window(&self, group: usize) -> Millis {
        whole(self.key(group))
    }

    /// Start of the window of a key.
    pub(crate) fn window_of(key: &[u8]) -> Millis {
        whole(key)
    }

    /// A table of the chosen groups.
    pub(crate) fn subset(&self, chosen: &[u32]) -> GroupTable {
        let mut subset = self.emptied();
        subset.merge_some(self, chosen);
        subset
    }

    /// Retracts some groups of another partial from ours, which are all here, and whose aggregates are counts and sums.
    pub(crate) fn retract_selected(&mut self, other: &GroupTable, chosen: &[u32]) {
        let mut group_of = vec![PASSED_OVER; other.len()];
        for &group in chosen {
            group_of[group as usize] = self.group(other.key(group as usize), &[]);
        }
        self.resize_cells();
        self.lanes.retract(&other.lanes, &group_of, &mut self.cells);
        for (place, (ours, theirs)) in self.cells.iter_mut().zip(&other.cells).enumerate() {
            if self.lanes.has(place) && theirs.is_in_use() {
                ours.resize(self.key_ends.len());
            }
            ours.retract(theirs, &group_of);
        }
    }

    /// The number of rows a group has, by the aggregate that counts them; none where more was taken out of it than there was.
    pub(crate) fn rows_left(&self, counting: usize, group: usize) -> Option<u64> {
        let rows = self.lanes.count(counting, group);
        let is_sound = |(place, cells): (usize, &Cells)| match cells {
            Cells::Sum(wide) | Cells::Average(wide) => self.lanes.sum(place, group, wide).is_sound(rows),
            _ => self.lanes.count(place, group) <= rows,
        };
        let is_right = i64::try_from(rows).is_ok() && self.cells.iter().enumerate().all(is_sound);
        is_right.then_some(rows)
    }

    /// Appends a group's state, which [`GroupTable::insert_state`] reads.
    pub(crate) fn encode_state(&self, group: usize, out: &mut Vec<u8>) {
        for (place, cells) in self.cells.iter().enumerate() {
            match cells {
                _ if !self.lanes.has(place) => cells.encode(group, out),
                Cells::Sum(wide) | Cells::Average(wide) => self.lanes.sum(place, group, wide).encode(out),
                _ => push_varint(self.lanes.count(place, group), out),
            }
        }
        self.table_cells.iter().for_each(|cells| cells.encode(group, out));
    }

    /// Adds a group with its state; its key must be new. If the bytes are no state, the table is unchanged.
    pub(crate) fn insert_state(&mut self, key: &[u8], mut state: &[u8]) -> Result<u32, InvalidState> {
        let group = self.len();
        if let Err(error) = self.read_state(&mut state) {
            for (place, cells) in self.cells.iter_mut().enumerate() {
                if !self.lanes.has(place) || cells.is_in_use() {
                    cells.resize(group);
                }
            }
            self.lanes.truncate(group);
            self.table_cells.iter_mut().for_each(|cells| cells.resize(group));
            return Err(error);
        }
        self.heap_bytes += self.cells.iter().map(|cells| cells.heap_bytes(group)).sum::<usize>();
        self.heap_bytes += self.table_cells.iter().map(|cells| cells.heap_bytes(group)).sum::<usize>();
        Ok(self.group(key, &[]))
    }

    /// Appends a cell to each aggregate's.
    fn read_state(&mut self, state: &mut &[u8]) -> Result<(), InvalidState> {
        let group = self.len();
        let mut of_lanes = vec![None; self.cells.len()];
        for (place, cells) in self.cells.iter_mut().enumerate() {
            if !self.lanes.has(place) {
                cells.decode(state)?;
                continue;
            }
            of_lanes[place] = match cells {
                Cells::Sum(wide) | Cells::Average(wide) => {
                    let cell = SumCell::decode(state)?;
                    let whole = cell.as_whole();
                    if whole.is_none() || !wide.is_empty() {
                        wide.resize_with(group, SumCell::default);
                        wide.push(if whole.is_none() { cell } else { SumCell::default() });
                    }
                    whole
                }
                _ => Some((read_varint(state)?, 0)),
            };
        }
        self.lanes.push(&of_lanes);
        if let Some(cells) = &mut self.table_cells {
            cells.decode(state)?;
        }
        if state.is_empty() { Ok(()) } else { Err(InvalidState) }
    }
}
