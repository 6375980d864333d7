//! Finds queries by the keys and sizes of containers and the lengths of texts: SIZEOF, SIZEIS and CONTAINSKEY of the
//! native dialect.
//!
//! A value is read once per row, however many queries test it.

use bumpalo::Bump;
use swiftwater_event::{Column, Kind, Value, Values};

use super::{
    bloom_filter::Mask,
    interval_index::{Domain, IntervalIndex},
    number::{Span, long_key},
    points::{PointIndex, TextKey, TextPointIndex},
    table::{Hits, add},
};

/// The size of a row's value, where it has one.
pub(super) fn size_at(column: &Column, row: usize) -> Option<u64> {
    let arena = Bump::new();
    crate::expr::native_size(&column.value(row, &arena)).map(key_of_size)
}

/// True if a row's value has a key.
pub(super) fn has_key_at(column: &Column, row: usize, key: &str) -> bool {
    let arena = Bump::new();
    crate::expr::native_has_key(&column.value(row, &arena), key)
}

fn key_of_size(size: usize) -> u64 {
    long_key(i64::try_from(size).unwrap_or(i64::MAX))
}

/// The queries that ask for sizes and keys at one path.
#[derive(Debug)]
pub(super) struct ContainerIndex {
    sizes: PointIndex,
    size_spans: Option<IntervalIndex>,
    keys: TextPointIndex,
}

impl ContainerIndex {
    pub(super) fn new(
        sizes: Vec<(u64, u32)>,
        size_spans: Vec<(Span, u32)>,
        keys: Vec<(&str, u32)>,
    ) -> Option<ContainerIndex> {
        if sizes.is_empty() && size_spans.is_empty() && keys.is_empty() {
            return None;
        }
        Some(ContainerIndex {
            sizes: PointIndex::new(sizes),
            size_spans: (!size_spans.is_empty()).then(|| IntervalIndex::new(Domain::Long, &size_spans)),
            keys: TextPointIndex::new(keys),
        })
    }

    /// Appends who is found by the rows of a column; somebody may be found by a row more than once.
    pub(super) fn look_up(&self, column: &Column, rows: usize, hits: &mut Hits) {
        let Values::Tagged(tagged) = &column.values else { return };
        let has_sizes = !self.sizes.is_empty() || self.size_spans.is_some();
        let mut arena = Bump::new();
        for row in 0..rows {
            let kind = tagged.kinds[row];
            let is_container = kind == Kind::List as i8 || kind == Kind::Map as i8;
            let is_text_to_measure = has_sizes && kind == Kind::String as i8;
            if !is_container && !is_text_to_measure {
                continue;
            }
            let value = tagged.value(row, &arena);
            if has_sizes && let Some(size) = crate::expr::native_size(&value) {
                let key = key_of_size(size);
                if self.sizes.may_have(key) {
                    add(hits, self.sizes.get(key), row);
                }
                if let Some(spans) = &self.size_spans {
                    spans.stab(key, |ways| add(hits, ways, row));
                }
            }
            if !self.keys.is_empty() {
                each_key(&value, &mut |key| {
                    let text = TextKey::of(key.as_bytes());
                    if self.keys.sieve().has(Mask::ALL.hash(text.as_view())) {
                        add(hits, self.keys.get(text, key.as_bytes()), row);
                    }
                });
            }
            if is_container {
                arena.reset();
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.sizes.bytes() + self.size_spans.as_ref().map_or(0, IntervalIndex::bytes) + self.keys.bytes()
    }
}

/// The keys that CONTAINSKEY finds: of a map and of maps in it, or of maps in a list.
fn each_key(value: &Value<'_>, each: &mut impl FnMut(&str)) {
    let of_map = |value: &Value<'_>, each: &mut dyn FnMut(&str)| {
        if let Value::Map(entries) = value {
            entries.iter().for_each(|(key, _)| each(key));
        }
    };
    of_map(value, each);
    match value {
        Value::Map(entries) => entries.iter().for_each(|(_, value)| of_map(value, each)),
        Value::List(items) => items.iter().for_each(|value| of_map(value, each)),
        _ => {}
    }
}
