//! The bytes of partial results that one process makes and another merges: groups, and the records of matched events.
//!
//! ```text
//! groups := 0 varint count, byte is_there             of a query that only counts rows
//!         | 1 varint n, n (key, state)                key, state := varint n, n bytes
//! rows   := varint n, byte is_cut, byte has, 3 i64    the times: sent, read, matched
//!           n (varint row, varint arrival less that before, text,
//!              (has & 1) varint matched, (has & 2) varint k, k value)
//! ```
//!
//! States and values have the form in which views store them (`cells/image.rs`). Other bytes give [`InvalidState`], never a panic.

use std::ops::Range;

use bumpalo::Bump;
use swiftwater_event::Millis;

use super::{
    Groups, InvalidState, OwnedValue, RowChunk, RowTimes,
    cells::image::{
        decode_value, encode_value, push_bytes, push_varint, read_array, read_bytes, read_varint,
    },
    group_table::GroupTable,
};
use crate::standing::{CompiledBody, StandingQuery};

/// Flags of what each record has beside its text.
const HAS_MATCHED: u8 = 1;
const HAS_KEYS: u8 = 2;

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

impl Groups {
    /// Their bytes, in parts of `bytes_max` or little more, which merge to the whole. Groups of the native dialect only.
    pub fn encode(&self, bytes_max: usize) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        if let Some((count, is_there)) = self.counted() {
            let mut out = vec![0];
            push_varint(count, &mut out);
            out.push(u8::from(is_there));
            parts.push(out);
        }
        let Some(table) = self.as_table() else { return parts };
        let (mut groups, mut count, mut state) = (Vec::new(), 0, Vec::new());
        for group in 0..table.len() {
            push_bytes(table.key(group), &mut groups);
            state.clear();
            table.encode_state(group, &mut state);
            push_bytes(&state, &mut groups);
            count += 1;
            if groups.len() >= bytes_max || group + 1 == table.len() {
                let mut out = vec![1];
                push_varint(count, &mut out);
                out.append(&mut groups);
                parts.push(out);
                count = 0;
            }
        }
        parts
    }

    /// The groups of a query of the native dialect that `bytes` begin with.
    pub fn decode(query: &StandingQuery, bytes: &mut &[u8]) -> Result<Groups, InvalidState> {
        let CompiledBody::Group(group) = &query.body else { return Err(InvalidState) };
        let [form] = read_array(bytes)?;
        if form == 0 {
            let count = read_varint(bytes)?;
            let [is_there] = read_array(bytes)?;
            if !group.counts_rows() || is_there > 1 || (is_there == 0 && count > 0) {
                return Err(InvalidState);
            }
            return Ok(Groups::of_counted(count, is_there == 1, query.dialect()));
        }
        if form != 1 {
            return Err(InvalidState);
        }
        let mut table = GroupTable::new(group, query.dialect());
        for _ in 0..read_varint(bytes)? {
            let key = read_bytes(bytes)?;
            let state = read_bytes(bytes)?;
            if table.find(key).is_some() {
                return Err(InvalidState);
            }
            table.insert_state(key, state)?;
        }
        Ok(Groups::of_table(table))
    }
}

impl RowChunk {
    /// Appends the records. Those of windows by the events' own time have no such form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.event_times.is_empty());
        push_varint(self.len() as u64, out);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let has = flag(!self.matched.is_empty(), HAS_MATCHED) | flag(!self.keys.is_empty(), HAS_KEYS);
        out.extend([u8::from(self.is_cut), has]);
        for micros in [self.times.sent, self.times.read, self.times.matched] {
            out.extend(micros.to_le_bytes());
        }
        let mut before = 0;
        for place in 0..self.len() {
            push_varint(u64::from(self.rows[place]), out);
            let arrival = self.arrivals[place];
            push_varint(zigzag(arrival.wrapping_sub(before)), out);
            before = arrival;
            push_bytes(self.record(place), out);
            if let Some(matched) = self.matched.get(place) {
                push_varint(*matched, out);
            }
            if let Some(keys) = self.keys.get(place) {
                let arena = Bump::new();
                push_varint(keys.len() as u64, out);
                keys.iter().for_each(|key| encode_value(&key.get(&arena), out));
            }
        }
    }

    /// The records that `bytes` begin with.
    pub fn decode(bytes: &mut &[u8]) -> Result<RowChunk, InvalidState> {
        let count = read_varint(bytes)?;
        let [is_cut, has] = read_array(bytes)?;
        let mut micros = || read_array(bytes).map(i64::from_le_bytes);
        let times = RowTimes { sent: micros()?, read: micros()?, matched: micros()? };
        let mut chunk = RowChunk { is_cut: is_cut != 0, times, ..RowChunk::default() };
        let mut text = Vec::new();
        let mut before: Millis = 0;
        for _ in 0..count {
            chunk.rows.push(u32::try_from(read_varint(bytes)?).map_err(|_| InvalidState)?);
            before = before.wrapping_add(unzigzag(read_varint(bytes)?));
            chunk.arrivals.push(before);
            text.extend_from_slice(read_bytes(bytes)?);
            chunk.ends.push(text.len());
            if has & HAS_MATCHED != 0 {
                chunk.matched.push(read_varint(bytes)?);
            }
            if has & HAS_KEYS != 0 {
                let mut keys = Vec::new();
                for _ in 0..read_varint(bytes)? {
                    keys.push(OwnedValue::of(&decode_value(bytes, &Bump::new())?));
                }
                chunk.keys.push(keys.into());
            }
        }
        chunk.text = text.into();
        Ok(chunk)
    }

    /// The records of these places.
    pub fn range(&self, places: Range<usize>) -> RowChunk {
        if places == (0..self.len()) {
            return self.clone();
        }
        let before = self.matched(places.start);
        let matched = self.matched.get(places.clone()).unwrap_or_default();
        let matched = matched.iter().map(|matched| matched - before).collect();
        RowChunk { matched, ..self.pick(&places.collect::<Vec<usize>>()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use swiftwater_event::Value;
    use swiftwater_lang::{Dialect, ParseOptions, parse};

    use super::*;
    use crate::operate::{GroupInput, group_input::InputValues};

    fn compiled(text: &str) -> StandingQuery {
        let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
        StandingQuery::compile(plan).expect(text)
    }

    /// Counts and sums by key.
    fn groups_of(query: &StandingQuery, rows: &[(Option<i64>, f64)]) -> Groups {
        let CompiledBody::Group(group) = &query.body else { panic!("it makes groups") };
        let mut groups = Groups::new(group, Dialect::Native);
        let keys = rows.iter().map(|(key, _)| key.map_or(Value::Null, Value::Long)).collect();
        let values = rows.iter().map(|(_, value)| Value::Double(*value)).collect();
        let input = GroupInput {
            keys: vec![keys],
            aggregates: vec![InputValues::Rows, InputValues::Values(values)],
            ..GroupInput::default()
        };
        groups.update(rows.len(), &input);
        groups
    }

    fn shown(query: &StandingQuery, groups: &Groups) -> Vec<String> {
        let CompiledBody::Group(group) = &query.body else { panic!("it makes groups") };
        let arena = Bump::new();
        let slots = groups.evaluate(group, &arena).slots;
        let row = |row: usize| slots.iter().map(|slot| format!("{:?} ", slot[row])).collect::<String>();
        let mut rows: Vec<String> = (0..groups.len()).map(row).collect();
        rows.sort_unstable();
        rows
    }

    fn rows() -> impl Strategy<Value = Vec<(Option<i64>, f64)>> {
        let value = prop_oneof![4 => -1e9..1e9, 1 => Just(f64::INFINITY), 1 => Just(0.1), 1 => Just(1e300)];
        proptest::collection::vec((proptest::option::of(-3i64..9), value), 0..40)
    }

    proptest! {
        #[test]
        fn decoded_groups_are_those_that_were_encoded(
            parts in proptest::collection::vec(rows(), 1..4),
            bytes_max in 1usize..200,
        ) {
            let query = compiled("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM STREAM() GROUP BY k");
            let all: Vec<_> = parts.iter().flatten().copied().collect();
            let mut merged = groups_of(&query, &[]);
            for part in &parts {
                for bytes in groups_of(&query, part).encode(bytes_max) {
                    let mut rest = &bytes[..];
                    merged.merge(&Groups::decode(&query, &mut rest).unwrap());
                    prop_assert!(rest.is_empty());
                    for end in 0..bytes.len() {
                        prop_assert!(Groups::decode(&query, &mut &bytes[..end]).is_err());
                    }
                }
            }
            prop_assert_eq!(shown(&query, &merged), shown(&query, &groups_of(&query, &all)));
        }

        #[test]
        fn other_bytes_are_an_error_or_a_state(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let query = compiled("SELECT k, COUNT(*) AS n, SUM(x) AS s FROM STREAM() GROUP BY k");
            if let Ok(groups) = Groups::decode(&query, &mut &bytes[..]) {
                shown(&query, &groups);
            }
            let _ = RowChunk::decode(&mut &bytes[..]);
        }

        #[test]
        fn decoded_records_are_those_that_were_encoded(
            records in proptest::collection::vec((".{0,9}", any::<i64>(), 0u64..3, any::<i64>()), 0..20),
            has in (any::<bool>(), any::<bool>()),
            cut in (0usize..25, 0usize..25),
        ) {
            let mut chunk = RowChunk::default();
            let (mut text, mut matched) = (Vec::new(), 0);
            for (row, (record, arrival, more, key)) in records.iter().enumerate() {
                text.extend_from_slice(record.as_bytes());
                chunk.ends.push(text.len());
                chunk.rows.push(3 * row as u32);
                chunk.arrivals.push(*arrival);
                matched += more;
                if has.0 {
                    chunk.matched.push(matched);
                }
                if has.1 {
                    chunk.keys.push([OwnedValue::of(&Value::Long(*key)), OwnedValue::of(&Value::Null)].into());
                }
            }
            chunk.text = text.into();
            let mut bytes = Vec::new();
            chunk.encode(&mut bytes);
            let mut rest = &bytes[..];
            let decoded = RowChunk::decode(&mut rest).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(format!("{decoded:?}"), format!("{chunk:?}"));
            for end in 0..bytes.len() {
                prop_assert!(RowChunk::decode(&mut &bytes[..end]).is_err());
            }
            let start = cut.0.min(chunk.len());
            let end = cut.1.clamp(start, chunk.len());
            let part = chunk.range(start..end);
            prop_assert_eq!(part.len(), end - start);
            prop_assert_eq!(part.matched(part.len()) + chunk.matched(start), chunk.matched(end));
        }
    }

    #[test]
    fn counted_rows_are_a_number() {
        let query = compiled("SELECT COUNT(*) AS n FROM STREAM()");
        for (count, is_there) in [(0, false), (0, true), (700, true)] {
            let parts = Groups::of_counted(count, is_there, Dialect::Native).encode(1);
            let decoded = Groups::decode(&query, &mut &parts[0][..]).unwrap();
            assert_eq!(decoded.counted(), Some((count, is_there)));
        }
        // Rows, and no group.
        assert!(Groups::decode(&query, &mut &[0, 5, 0][..]).is_err());
    }
}
