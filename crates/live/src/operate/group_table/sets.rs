//! Groups of several grouping sets in one table. The sets share keys and arguments, which are evaluated and encoded once
//! a batch. Each set finds its groups through a hash table of its own, and a key begins with the number of its set. If a
//! view stores the groups by window, the window's start precedes that.
//!
//! ```text
//! key := [start] [set] value*        both as values; the values of a set are those of its keys
//! ```

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::Dialect;

use super::{GroupTable, SelectedRows};
use crate::{
    expr::{decode_group_value, encode_group_value, encode_whole},
    operate::{
        cells::Cells,
        group_input::{Combinations, GroupInput},
    },
    standing::CompiledGroup,
};

/// Bytes of a whole number in a key.
const WHOLE_BYTES: usize = 9;

/// Rows that are taken in set by set, so that what they bring stays near.
const ROWS_AT_ONCE: usize = 256;

/// The prefix of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KeyPrefix {
    is_windowed: bool,
    has_sets: bool,
}

impl KeyPrefix {
    pub(super) fn of(sets: &[Box<[usize]>], is_windowed: bool) -> KeyPrefix {
        KeyPrefix { is_windowed, has_sets: !sets.is_empty() }
    }

    pub(super) fn tables(self, sets: &[Box<[usize]>]) -> usize {
        if self.has_sets { sets.len() } else { 1 }
    }

    /// The hash table of a key, and how many of its bytes need not be hashed: they are the same for all in the table.
    pub(super) fn table(self, key: &[u8]) -> (usize, usize) {
        match (self.has_sets, self.is_windowed) {
            (false, _) => (0, 0),
            (true, false) => (whole(key) as usize, WHOLE_BYTES),
            (true, true) => (key.get(WHOLE_BYTES..).map_or(0, whole) as usize, 0),
        }
    }
}

/// The number that a key begins with; 0 where there is none, which no key is.
pub(super) fn whole(key: &[u8]) -> i64 {
    match key.get(1..).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => i64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// A number as keys have it.
pub(super) fn encoded(number: i64) -> [u8; WHOLE_BYTES] {
    let mut bytes = [0; WHOLE_BYTES];
    encode_whole(number, &mut bytes);
    bytes
}

impl GroupTable {
    /// No groups yet; their keys will begin with the starts of windows.
    pub(crate) fn windowed(group: &CompiledGroup) -> GroupTable {
        GroupTable { lead: KeyPrefix::of(&group.sets, true), ..GroupTable::new(group, Dialect::Native) }
    }

    /// Takes in rows, each in a group of every set.
    pub(super) fn update_sets(&mut self, rows: usize, input: &GroupInput<'_>) -> u64 {
        let columns: Vec<Combinations> = input.keys.iter().map(|values| encoded_column(values)).collect();
        let all_rows: Vec<u32> = (0..rows as u32).collect();
        let sets = std::sync::Arc::clone(&self.sets);
        let (mut groups, mut key) = (Vec::with_capacity(ROWS_AT_ONCE), Vec::new());
        let mut mistyped = 0;
        for chunk in all_rows.chunks(ROWS_AT_ONCE) {
            for (number, set) in sets.iter().enumerate() {
                groups.clear();
                match &**set {
                    [] => groups.resize(chunk.len(), self.group_of_set(number, &[])),
                    [one] => {
                        let column = &columns[*one];
                        let of = |&row: &u32| self.group_of_set(number, column.get(row));
                        groups.extend(chunk.iter().map(of));
                    }
                    several => groups.extend(chunk.iter().map(|&row| {
                        key.clear();
                        several.iter().for_each(|&one| key.extend_from_slice(columns[one].get(row)));
                        self.group_of_set(number, &key)
                    })),
                }
                let unusable = self.update_cells(SelectedRows::some(chunk, &groups), input);
                // A value that cannot be used is one, in however many sets.
                mistyped += if number == 0 { unusable } else { 0 };
            }
        }
        mistyped
    }

    /// The group of a set with these values as its key.
    pub(super) fn group_of_set(&mut self, set: usize, key: &[u8]) -> u32 {
        use std::hash::BuildHasher;
        let hash = self.hasher.hash_one(key);
        let first = encoded(set as i64);
        self.group_hashed(set, hash, WHOLE_BYTES, &first, key, &[])
    }

    pub(super) fn decode_key_of_set<'a>(
        &self,
        group: usize,
        values: usize,
        arena: &'a Bump,
        out: &mut Vec<Value<'a>>,
    ) {
        let key = self.key(group);
        let mut rest = if self.lead.is_windowed { &key[WHOLE_BYTES..] } else { key };
        if !self.lead.has_sets {
            for _ in 0..values {
                let (value, after) = decode_group_value(rest, arena);
                out.push(value);
                rest = after;
            }
            return;
        }
        rest = &rest[WHOLE_BYTES..];
        let first = out.len();
        out.resize(first + values, Value::Null);
        for &one in &*self.sets[self.set(group)] {
            let (value, after) = decode_group_value(rest, arena);
            out[first + one] = value;
            rest = after;
        }
    }

    /// The number of a group's set.
    fn set(&self, group: usize) -> usize {
        let key = self.key(group);
        let rest = if self.lead.is_windowed { &key[WHOLE_BYTES..] } else { key };
        (whole(rest) as usize).min(self.sets.len().saturating_sub(1))
    }

    /// The values of GROUPING, and the set of each group where there are sets.
    pub(super) fn groupings<'a>(
        &self,
        groups: &[u32],
        group: &CompiledGroup,
    ) -> (Vec<Vec<Value<'a>>>, Vec<u32>) {
        let sets: Vec<u32> = match self.sets.is_empty() {
            true => Vec::new(),
            false => groups.iter().map(|&group| self.set(group as usize) as u32).collect(),
        };
        let column = |asked: &[usize]| {
            let of =
                |set: &[usize]| asked.iter().fold(0, |bits, key| bits << 1 | i64::from(!set.contains(key)));
            let by_set: Vec<i64> = self.sets.iter().map(|set| of(set)).collect();
            match sets.is_empty() {
                true => vec![Value::Long(0); groups.len()],
                false => sets.iter().map(|&set| Value::Long(by_set[set as usize])).collect(),
            }
        };
        (group.groupings.iter().map(|asked| column(asked)).collect(), sets)
    }

    /// The value of an aggregate with a lane.
    pub(super) fn value_of_lane<'a>(&self, aggregate: usize, group: usize) -> Value<'a> {
        match &self.cells[aggregate] {
            Cells::Sum(wide) => self.lanes.sum(aggregate, group, wide).sum(self.dialect),
            Cells::Average(wide) => self.lanes.sum(aggregate, group, wide).average(),
            _ => Value::Long(self.lanes.count(aggregate, group) as i64),
        }
    }
}

/// The values of a key as groups have them, by row.
fn encoded_column(values: &[Value<'_>]) -> Combinations {
    Combinations::of_rows(values.len(), |row, out| encode_group_value(&values[row], Dialect::Native, out))
}
