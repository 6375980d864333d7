//! The first values of a group, in the order of the stream.
//!
//! What is kept is the longest beginning of all values (of a set: of those that are different, each where it came first)
//! that is within both limits. Where a value was left out, so is every later one, whatever room there is: the place of the
//! first that was left out is kept, and that makes merging exact. A partial keeps all that stands before that place, and
//! what stands behind it cannot be in the whole either, as the values that fill the partial fill the whole too.

use std::hash::BuildHasher;

use bumpalo::Bump;
use hashbrown::{DefaultHashBuilder, HashTable};
use swiftwater_event::Value;

use super::RowPosition;
use crate::{
    expr::decode_group_value,
    operate::cells::image::{NoState, decode_value, push_bytes, push_varint, take_bytes, take_varint},
};

/// Bytes of all values of a group that are collected, as they are kept.
const COLLECTED_BYTES_MAX: usize = 1 << 20;

/// Values of a set are looked for one by one where there are no more.
const SCANNED_MAX: usize = 16;

/// The first values of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    /// In order.
    entries: Vec<Entry>,
    /// Bytes of all values.
    value_bytes: usize,
    /// Where the first value stood that was left out.
    cut: Option<RowPosition>,
    /// Of a set with many values, their places by hash.
    index: Option<Box<ValueIndex>>,
}

#[derive(Debug, Clone)]
struct Entry {
    at: RowPosition,
    /// Of a set as groups have it, so that equal values are equal bytes; else as states have it.
    value: Box<[u8]>,
}

#[derive(Debug, Clone, Default)]
struct ValueIndex {
    hasher: DefaultHashBuilder,
    places: HashTable<u32>,
}

impl Collected {
    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let index =
            self.index.as_ref().map_or(0, |index| size_of::<ValueIndex>() + 5 * index.places.capacity());
        self.entries.capacity() * size_of::<Entry>() + self.value_bytes + index
    }

    /// Whether a value that stands there may be among the first.
    pub(crate) fn may_take(&self, at: RowPosition) -> bool {
        self.cut.is_none_or(|cut| at < cut)
    }

    /// Takes in a row's value.
    pub(crate) fn take(&mut self, at: RowPosition, value: &[u8], is_set: bool, values_max: u32) {
        if self.entries.last().is_none_or(|last| last.at < at) {
            self.append(at, value, is_set, values_max);
        } else {
            let entries = vec![Entry { at, value: value.into() }];
            let one = Collected { entries, value_bytes: value.len(), ..Collected::default() };
            self.merge(&one, is_set, values_max);
        }
    }

    /// Takes in a value that stands behind all that are there.
    fn append(&mut self, at: RowPosition, value: &[u8], is_set: bool, values_max: u32) {
        if !self.may_take(at) || is_set && self.has(value) {
            return;
        }
        let bytes = self.value_bytes + value.len();
        if self.entries.len() >= values_max as usize || bytes > COLLECTED_BYTES_MAX {
            self.cut = Some(at);
            return;
        }
        self.value_bytes = bytes;
        self.entries.push(Entry { at, value: value.into() });
        if is_set {
            self.index_last();
        }
    }

    /// Takes in another partial.
    pub(crate) fn merge(&mut self, other: &Collected, is_set: bool, values_max: u32) {
        let follows = match (self.entries.last(), other.entries.first()) {
            (Some(last), Some(first)) => last.at < first.at,
            _ => true,
        };
        if follows && !self.entries.is_empty() {
            for entry in &other.entries {
                self.append(entry.at, &entry.value, is_set, values_max);
            }
            self.cut_at(other.cut, is_set);
            return;
        }
        let ours = std::mem::take(self);
        let (mut ours_left, mut theirs_left) =
            (ours.entries.iter().peekable(), other.entries.iter().peekable());
        self.cut = [ours.cut, other.cut].into_iter().flatten().min();
        while let Some(next) = match (ours_left.peek(), theirs_left.peek()) {
            (Some(a), Some(b)) if b.at < a.at => theirs_left.next(),
            (Some(_), _) => ours_left.next(),
            (None, _) => theirs_left.next(),
        } {
            self.append(next.at, &next.value, is_set, values_max);
        }
    }

    /// Nothing from there on is among the first.
    fn cut_at(&mut self, cut: Option<RowPosition>, is_set: bool) {
        let Some(cut) = cut.filter(|cut| self.cut.is_none_or(|ours| *cut < ours)) else { return };
        self.cut = Some(cut);
        // What is left out by that stood behind what the other one has: it was appended before.
        let kept = self.entries.partition_point(|entry| entry.at < cut);
        if kept < self.entries.len() {
            self.value_bytes -= self.entries[kept..].iter().map(|entry| entry.value.len()).sum::<usize>();
            self.entries.truncate(kept);
            if is_set {
                self.index_all();
            }
        }
    }

    fn has(&self, value: &[u8]) -> bool {
        match &self.index {
            None => self.entries.iter().any(|entry| *entry.value == *value),
            Some(index) => {
                let hash = index.hasher.hash_one(value);
                let is_it = |place: &u32| *self.entries[*place as usize].value == *value;
                index.places.find(hash, is_it).is_some()
            }
        }
    }

    /// Makes the last value be found.
    fn index_last(&mut self) {
        match &mut self.index {
            Some(index) => {
                let ValueIndex { hasher, places } = &mut **index;
                let hash = |place: &u32| hasher.hash_one(&*self.entries[*place as usize].value);
                let last = self.entries.len() as u32 - 1;
                places.insert_unique(hash(&last), last, hash);
            }
            None if self.entries.len() > SCANNED_MAX => self.index_all(),
            None => {}
        }
    }

    fn index_all(&mut self) {
        self.index = None;
        if self.entries.len() > SCANNED_MAX {
            let mut index = Box::<ValueIndex>::default();
            let ValueIndex { hasher, places } = &mut *index;
            let hash = |place: &u32| hasher.hash_one(&*self.entries[*place as usize].value);
            for place in 0..self.entries.len() as u32 {
                places.insert_unique(hash(&place), place, hash);
            }
            self.index = Some(index);
        }
    }

    /// The values, as a list.
    pub(crate) fn evaluate<'a>(&self, is_set: bool, arena: &'a Bump) -> Value<'a> {
        let value = |entry: &Entry| match is_set {
            true => decode_group_value(&entry.value, arena).0,
            // What was encoded here can be decoded.
            false => decode_value(&mut &*entry.value, arena).unwrap_or(Value::Null),
        };
        Value::List(arena.alloc_slice_fill_iter(self.entries.iter().map(value)))
    }

    /// Appends the state.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_varint(2 * self.entries.len() as u64 + u64::from(self.cut.is_some()), out);
        let mut before = 0;
        let mut position = |at: RowPosition, out: &mut Vec<u8>| {
            push_varint(at.event - before, out);
            push_varint(u64::from(at.row), out);
            before = at.event;
        };
        for entry in &self.entries {
            position(entry.at, out);
            push_bytes(&entry.value, out);
        }
        // It is behind all that are kept.
        if let Some(cut) = self.cut {
            position(cut, out);
        }
    }

    /// Reads what [`Collected::encode`] wrote.
    pub(crate) fn decode(bytes: &mut &[u8], is_set: bool) -> Result<Collected, NoState> {
        let count = take_varint(bytes)?;
        let mut before = 0_u64;
        let mut position = |bytes: &mut &[u8]| {
            before = before.checked_add(take_varint(bytes)?).ok_or(NoState)?;
            let row = u32::try_from(take_varint(bytes)?).map_err(|_| NoState)?;
            Ok(RowPosition { event: before, row })
        };
        let mut collected = Collected::default();
        for _ in 0..count / 2 {
            let (at, value) = (position(bytes)?, take_bytes(bytes)?);
            collected.value_bytes += value.len();
            collected.entries.push(Entry { at, value: value.into() });
        }
        if count % 2 == 1 {
            collected.cut = Some(position(bytes)?);
        }
        if is_set {
            collected.index_all();
        }
        Ok(collected)
    }
}
