//! Collects the first values of a group, in the order of the stream, within limits of number and bytes.
//!
//! The result is the longest prefix of all values that is within both limits. For a set, these are the distinct values,
//! each at its first position. If a value is left out, every later one is left out too, whatever room there is. The
//! position of the first omitted value is stored, and this makes merging exact. A partial contains all values before that
//! position. A value behind it cannot be in the whole either, because the values that fill the partial also fill the
//! whole.

use std::hash::BuildHasher;

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::Value;

use super::RowPosition;
use crate::{
    expr::decode_group_value,
    operate::cells::image::{InvalidState, decode_value, push_bytes, push_varint, read_bytes, read_varint},
};

/// Bytes of all values of a group that are collected, as they are kept.
const COLLECTED_BYTES_MAX: usize = 1 << 20;

/// Values of a set are looked for one by one where there are no more.
const SCANNED_MAX: usize = 16;

/// The first values of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct CollectedValues {
    values: Values,
    /// The position of the first value that was omitted.
    cut: Option<RowPosition>,
    /// The places of a set's values by hash, if it has many; made when a value is first searched for.
    index: Option<Box<ValueIndex>>,
}

/// Values in order, one behind another: however many there are, they lie in two places.
#[derive(Debug, Clone, Default)]
struct Values {
    entries: Vec<Entry>,
    /// The values in the encoding of groups for a set, so that equal values are equal bytes; else in the encoding of
    /// states.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: RowPosition,
    /// The end of its value.
    end: u32,
}

#[derive(Debug, Clone, Default)]
struct ValueIndex {
    hasher: DefaultHashBuilder,
    places: HashTable<u32>,
}

impl Values {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn first(&self) -> Option<RowPosition> {
        self.entries.first().map(|entry| entry.at)
    }

    fn last(&self) -> Option<RowPosition> {
        self.entries.last().map(|entry| entry.at)
    }

    fn get(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.entries[place - 1].end };
        &self.bytes[start as usize..self.entries[place].end as usize]
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = (RowPosition, &[u8])> {
        (0..self.len()).map(|place| (self.entries[place].at, self.get(place)))
    }

    /// All values together must be within [`COLLECTED_BYTES_MAX`].
    fn push(&mut self, at: RowPosition, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.entries.push(Entry { at, end: self.bytes.len() as u32 });
    }

    /// Retains the first values.
    fn truncate(&mut self, count: usize) {
        self.entries.truncate(count);
        self.bytes.truncate(self.entries.last().map_or(0, |last| last.end as usize));
    }
}

impl CollectedValues {
    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let index =
            self.index.as_ref().map_or(0, |index| size_of::<ValueIndex>() + 5 * index.places.capacity());
        self.values.entries.capacity() * size_of::<Entry>() + self.values.bytes.capacity() + index
    }

    /// True if a value that stands there may be among the first.
    pub(crate) fn may_take(&self, at: RowPosition) -> bool {
        self.cut.is_none_or(|cut| at < cut)
    }

    /// Takes in a row's value.
    pub(crate) fn take(&mut self, at: RowPosition, value: &[u8], is_set: bool, values_max: u32) {
        if self.values.last().is_none_or(|last| last < at) {
            self.append(at, value, is_set, values_max);
        } else {
            let mut one = CollectedValues::default();
            one.append(at, value, false, values_max);
            self.merge(&one, is_set, values_max);
        }
    }

    /// Takes in a value that stands behind all that are there.
    fn append(&mut self, at: RowPosition, value: &[u8], is_set: bool, values_max: u32) {
        if !self.may_take(at) || is_set && self.has(value) {
            return;
        }
        let bytes = self.values.bytes.len() + value.len();
        if self.values.len() >= values_max as usize || bytes > COLLECTED_BYTES_MAX {
            self.cut = Some(at);
            return;
        }
        self.values.push(at, value);
        self.index_last();
    }

    /// Takes in another partial.
    pub(crate) fn merge(&mut self, other: &CollectedValues, is_set: bool, values_max: u32) {
        let follows = match (self.values.last(), other.values.first()) {
            (Some(last), Some(first)) => last < first,
            _ => true,
        };
        if follows && self.values.len() > 0 {
            for (at, value) in other.values.iter() {
                self.append(at, value, is_set, values_max);
            }
            self.cut_at(other.cut);
            return;
        }
        let ours = std::mem::take(self);
        let (mut ours_left, mut theirs_left) =
            (ours.values.iter().peekable(), other.values.iter().peekable());
        self.cut = [ours.cut, other.cut].into_iter().flatten().min();
        while let Some((at, value)) = match (ours_left.peek(), theirs_left.peek()) {
            (Some(a), Some(b)) if b.0 < a.0 => theirs_left.next(),
            (Some(_), _) => ours_left.next(),
            (None, _) => theirs_left.next(),
        } {
            self.append(at, value, is_set, values_max);
        }
    }

    /// Removes the values from there on: they are not among the first.
    fn cut_at(&mut self, cut: Option<RowPosition>) {
        let Some(cut) = cut.filter(|cut| self.cut.is_none_or(|ours| *cut < ours)) else { return };
        self.cut = Some(cut);
        // The omitted values came after those of the other one: they were appended before.
        let kept = self.values.entries.partition_point(|entry| entry.at < cut);
        if kept < self.values.len() {
            self.values.truncate(kept);
            self.index = None;
        }
    }

    /// True if a set has a value.
    fn has(&mut self, value: &[u8]) -> bool {
        let CollectedValues { values, index, .. } = self;
        if values.len() <= SCANNED_MAX {
            return values.iter().any(|(_, other)| other == value);
        }
        let index = index.get_or_insert_with(|| {
            let mut index = Box::<ValueIndex>::default();
            (0..values.len()).for_each(|place| index.insert(place, values));
            index
        });
        let hash = index.hasher.hash_one(value);
        index.places.find(hash, |place| values.get(*place as usize) == value).is_some()
    }

    /// Makes the last value be found, where there is an index.
    fn index_last(&mut self) {
        if let Some(index) = &mut self.index {
            index.insert(self.values.len() - 1, &self.values);
        }
    }

    /// The values, as a list.
    pub(crate) fn evaluate<'a>(&self, is_set: bool, arena: &'a Bump) -> Value<'a> {
        let value = |(_, mut value): (RowPosition, &[u8])| match is_set {
            true => decode_group_value(value, arena).0,
            // A value that was encoded here can be decoded.
            false => decode_value(&mut value, arena).unwrap_or(Value::Null),
        };
        Value::List(arena.alloc_slice_fill_iter(self.values.iter().map(value)))
    }

    /// Appends the state.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(2 * self.values.len() as u64 + u64::from(self.cut.is_some()), out);
        let mut before = 0;
        let mut position = |at: RowPosition, out: &mut Vec<u8>| {
            push_varint(at.event - before, out);
            push_varint(u64::from(at.row), out);
            before = at.event;
        };
        for (at, value) in self.values.iter() {
            position(at, out);
            push_bytes(value, out);
        }
        // It is behind all that are kept.
        if let Some(cut) = self.cut {
            position(cut, out);
        }
    }

    /// Reads what [`CollectedValues::encode`] wrote.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<CollectedValues, InvalidState> {
        let count = read_varint(bytes)?;
        let mut before = 0_u64;
        let mut position = |bytes: &mut &[u8]| {
            before = before.checked_add(read_varint(bytes)?).ok_or(InvalidState)?;
            let row = u32::try_from(read_varint(bytes)?).map_err(|_| InvalidState)?;
            Ok(RowPosition { event: before, row })
        };
        let mut collected = CollectedValues::default();
        let values = &mut collected.values;
        // Each takes at least so much besides its value.
        let most = bytes.len() / 3;
        let expected = usize::try_from(count / 2).map_or(most, |count| count.min(most));
        values.entries.reserve_exact(expected);
        values.bytes.reserve(bytes.len().min(8 * expected));
        for _ in 0..count / 2 {
            let (at, value) = (position(bytes)?, read_bytes(bytes)?);
            if values.bytes.len() + value.len() > COLLECTED_BYTES_MAX {
                return Err(InvalidState);
            }
            values.push(at, value);
        }
        if count % 2 == 1 {
            collected.cut = Some(position(bytes)?);
        }
        Ok(collected)
    }
}

impl ValueIndex {
    fn insert(&mut self, place: usize, values: &Values) {
        let ValueIndex { hasher, places } = self;
        let hash = |place: &u32| hasher.hash_one(values.get(*place as usize));
        let place = place as u32;
        places.insert_unique(hash(&place), place, hash);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const IS_OF: [bool; 2] = [false, true];

    /// The values to collect from rows in their order.
    fn naive(rows: &[u8], is_set: bool, most: u32) -> Vec<u8> {
        let mut before = BTreeSet::new();
        let new = rows.iter().copied().filter(|value| !is_set || before.insert(*value));
        new.take(most as usize).collect()
    }

    fn at(place: usize) -> RowPosition {
        RowPosition { event: place as u64 / 3, row: place as u32 % 3 }
    }

    proptest! {
        /// The result does not depend on which state took in which rows, in which order, nor on writes and reads of the
        /// states.
        #[test]
        fn the_first_values_are_the_same_however_rows_are_dealt(
            rows in prop::collection::vec((0_u8..60, 0_usize..3), 0..300),
            order in Just([0, 1, 2]).prop_shuffle(),
            backwards in any::<bool>(),
            most in 0_u32..70,
        ) {
            for is_set in IS_OF {
                let mut parts = vec![CollectedValues::default(); 3];
                let mut dealt: Vec<(usize, u8, usize)> =
                    rows.iter().enumerate().map(|(place, &(value, part))| (place, value, part)).collect();
                if backwards {
                    dealt.reverse();
                }
                for (place, value, part) in dealt {
                    parts[part].take(at(place), &[value], is_set, most);
                    if place % 50 == 0 {
                        let mut text = Vec::new();
                        parts[part].encode(&mut text);
                        let mut rest = &text[..];
                        parts[part] = CollectedValues::decode(&mut rest).expect("what was written");
                        prop_assert!(rest.is_empty());
                    }
                }
                let mut whole = CollectedValues::default();
                order.iter().for_each(|&part: &usize| whole.merge(&parts[part], is_set, most));
                let values: Vec<u8> = whole.values.iter().map(|(_, value)| value[0]).collect();
                let all: Vec<u8> = rows.iter().map(|(value, _)| *value).collect();
                prop_assert_eq!(values, naive(&all, is_set, most));
            }
        }
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let mut one = CollectedValues::default();
        one.take(at(7), b"value", true, 3);
        let mut text = Vec::new();
        one.encode(&mut text);
        for end in 0..text.len() {
            assert!(CollectedValues::decode(&mut &text[..end]).is_err(), "{end}");
        }
        assert!(CollectedValues::decode(&mut &[0xff; 12][..]).is_err());
    }
}
