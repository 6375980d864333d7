//! Rows that are stored whole in memory and looked up by some of their columns.
//!
//! They arrive as JSON objects. The lookup columns are determined at the first lookup.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bumpalo::Bump;
use swiftwater_event::{DecodePlan, Decoder, EventBatch, Path, Type, Value, Want, WantId};
use swiftwater_lang::Dialect;

use crate::{
    KeyRows, LookupRequest,
    expr::{encode_group_value, requested_values},
    operate::OwnedValue,
    value_in,
};

/// Rows by the values of some columns, which are encoded as keys of groups.
type Places = HashMap<Box<[u8]>, Vec<u32>>;

/// Rows that are held in memory.
#[derive(Debug)]
pub struct MemoryRows {
    plan: DecodePlan,
    bindings: Vec<WantId>,
    rows: Vec<Box<[OwnedValue]>>,
    bytes: usize,
    /// The places by the columns used for look-ups.
    places: Mutex<HashMap<Box<[usize]>, Arc<Places>>>,
}

impl MemoryRows {
    /// A table without rows, with these columns.
    pub fn new(columns: &[(Box<str>, Type)]) -> MemoryRows {
        let want = |(name, ty): &(Box<str>, Type)| Want { path: Path::field(name.clone()), ty: ty.clone() };
        let wants: Vec<Want> = columns.iter().map(want).collect();
        let plan = DecodePlan::new(wants.iter().cloned());
        let place = |want: &Want| plan.wants().iter().position(|other| other == want).unwrap_or(0);
        let bindings = wants.iter().map(|want| WantId(place(want) as u32)).collect();
        MemoryRows { bindings, plan, rows: Vec::new(), bytes: 0, places: Mutex::default() }
    }

    /// Takes more rows in.
    pub fn add(&mut self, decoder: &mut Decoder, batch: &EventBatch) {
        let decoded = decoder.decode(batch, &self.plan);
        let all: Vec<u32> = (0..batch.len() as u32).collect();
        let arena = Bump::new();
        let columns = requested_values(&decoded, &self.bindings, &all, Dialect::Native, &arena);
        for row in 0..batch.len() {
            let values = columns.iter().map(|column| match column.get(row) {
                None | Some(Value::Error) => OwnedValue::NULL,
                Some(value) => OwnedValue::of(value),
            });
            let values: Box<[OwnedValue]> = values.collect();
            // Beside the row, what finding it takes.
            self.bytes +=
                values.iter().map(|value| size_of::<OwnedValue>() + value.heap_bytes()).sum::<usize>() + 64;
            self.rows.push(values);
        }
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes that they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows of each key.
    pub fn find<'a>(&self, look_up: &LookupRequest<'_>, arena: &'a Bump) -> Vec<KeyRows<'a>> {
        let places = self.places_by(look_up.key);
        let mut encoded = Vec::new();
        let found = look_up.keys.iter().map(|key| {
            encoded.clear();
            key.iter().for_each(|value| encode_group_value(value, Dialect::Native, &mut encoded));
            let rows = places.get(&encoded[..]).map_or(&[][..], Vec::as_slice);
            let row_in = |&row: &u32| {
                let values = self.rows[row as usize].iter().zip(look_up.columns);
                &*arena.alloc_slice_fill_iter(values.map(|(value, is_wanted)| match *is_wanted {
                    true => value_in(&value.get(arena), arena),
                    false => Value::Null,
                }))
            };
            &*arena.alloc_slice_fill_iter(rows.iter().map(row_in))
        });
        found.collect()
    }

    fn places_by(&self, columns: &[usize]) -> Arc<Places> {
        let mut all = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = all.get(columns) {
            return Arc::clone(places);
        }
        let mut places = Places::new();
        let arena = Bump::new();
        let mut encoded = Vec::new();
        for (row, values) in self.rows.iter().enumerate() {
            encoded.clear();
            let mut key = columns
                .iter()
                .map(|&column| values.get(column).map_or(Value::Null, |value| value.get(&arena)));
            // A null is equal to nothing.
            let has_null = key.any(|value| {
                encode_group_value(&value, Dialect::Native, &mut encoded);
                matches!(value, Value::Null)
            });
            if !has_null {
                places.entry(encoded.as_slice().into()).or_default().push(row as u32);
            }
        }
        let places = Arc::new(places);
        all.insert(columns.into(), Arc::clone(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    #[test]
    fn rows_are_found_by_any_columns_and_nulls_by_none() {
        let columns = [("id".into(), Type::LONG), ("k".into(), Type::STRING), ("n".into(), Type::Any)];
        let mut rows = MemoryRows::new(&columns);
        let text = "{\"id\":1,\"k\":\"a\",\"n\":1.5}\n{\"id\":2,\"k\":\"a\"}\n{\"k\":\"b\",\"n\":[1]}\n";
        let batch = check_block(text.as_bytes().to_vec().into(), &CheckLimits::default(), 1).batch;
        rows.add(&mut Decoder::default(), &batch);
        let arena = Bump::new();
        let counts = |columns: &[usize], keys: &[&[Value<'_>]]| -> Vec<usize> {
            let look_up = LookupRequest { keys, key: columns, columns: &[true; 3], now: 0 };
            rows.find(&look_up, &arena).iter().map(|rows| rows.len()).collect()
        };
        assert_eq!(
            counts(&[1], &[&[Value::String("a")], &[Value::String("b")], &[Value::Long(1)]]),
            [2, 1, 0]
        );
        assert_eq!(counts(&[0], &[&[Value::Double(2.0)], &[Value::Null]]), [1, 0]);
        assert_eq!(counts(&[0, 1], &[&[Value::Long(1), Value::String("a")]]), [1]);
        let look_up =
            LookupRequest { keys: &[&[Value::Long(1)]], key: &[0], columns: &[false, false, true], now: 0 };
        let found = &rows.find(&look_up, &arena)[0];
        assert!(matches!(found[0], [Value::Null, Value::Null, Value::Double(1.5)]), "{found:?}");
        assert_eq!(rows.len(), 3);
    }
}
