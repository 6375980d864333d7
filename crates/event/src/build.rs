//! Makes Arrow columns of values whose places are known, a whole column at a time.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Float64Array, Int64Array, ListArray, MapArray,
    PrimitiveArray, StringViewArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;

use crate::{
    Kind, Primitive, Tagged, TimeUnit, Type, Values,
    number::{self, Plain},
    text::{each_element, each_field, unescape},
    time,
    walk::Slot,
};

/// The buffer that slots point into.
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    /// The same bytes, as Arrow shares them.
    shared: Buffer,
    scratch: Vec<u8>,
}

/// Rows whose value does not fit the type, in order, each once.
type Misfits = Vec<u32>;

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Source<'a> {
        Source { bytes, shared: Buffer::from(bytes.clone()), scratch: Vec::new() }
    }

    /// The column of these values wanted as `ty`.
    pub(crate) fn column(&mut self, ty: &Type, slots: &[Slot]) -> (Values, Misfits) {
        let mut misfits = Vec::new();
        let values = match ty {
            Type::Any => Values::Tagged(self.tagged(slots)),
            Type::Primitive(primitive) => self.primitive(*primitive, slots, &mut misfits),
            Type::List(inner) | Type::Map(inner) if holds_any(inner) => {
                let open = if matches!(ty, Type::List(_)) { b'[' } else { b'{' };
                let mut kept = slots.to_vec();
                for (row, slot) in kept.iter_mut().enumerate() {
                    if self.first_byte(*slot).is_some_and(|first| first != open) {
                        misfits.push(row as u32);
                        *slot = Slot::MISSING;
                    }
                }
                Values::Tagged(self.tagged(&kept))
            }
            Type::List(inner) => Values::Nested(self.list(inner, slots, &mut misfits)),
            Type::Map(inner) => Values::Nested(self.map(inner, slots, &mut misfits)),
        };
        (values, misfits)
    }

    /// The first byte of a value; `None` if there is none, or if it is `null`.
    #[inline(always)]
    fn first_byte(&self, slot: Slot) -> Option<u8> {
        if !slot.is_there() {
            return None;
        }
        let first = self.bytes[slot.start()];
        (first != b'n').then_some(first)
    }

    fn primitive(&mut self, primitive: Primitive, slots: &[Slot], misfits: &mut Misfits) -> Values {
        let is_number = |first: u8| matches!(first, b'-' | b'0'..=b'9');
        match primitive {
            Primitive::Boolean => {
                let nulls = Nulls::of(
                    slots,
                    misfits,
                    |slot| self.first_byte(slot),
                    |first| matches!(first, b't' | b'f'),
                );
                let values =
                    BooleanBuffer::collect_bool(slots.len(), |row| self.first_byte(slots[row]) == Some(b't'));
                Values::Boolean(BooleanArray::new(values, nulls))
            }
            Primitive::Integer => Values::Integer(self.numbers(slots, misfits, |text| {
                if is_number(text[0]) { number::integer(text)?.try_into().ok() } else { None }
            })),
            Primitive::Long => Values::Long(self.numbers(slots, misfits, |text| {
                if is_number(text[0]) { number::integer(text) } else { None }
            })),
            Primitive::Float => Values::Float(self.numbers(slots, misfits, |text| {
                if is_number(text[0]) { Some(number::float(text)) } else { number::special_float(text) }
            })),
            Primitive::Double => Values::Double(self.numbers(slots, misfits, |text| {
                if is_number(text[0]) { Some(number::double(text)) } else { number::special(text) }
            })),
            Primitive::Timestamp(unit) => {
                let mut scratch = std::mem::take(&mut self.scratch);
                let values = self.numbers(slots, misfits, |text| timestamp(text, unit, &mut scratch));
                self.scratch = scratch;
                Values::Timestamp(values)
            }
            Primitive::String => Values::String(self.strings(slots, misfits)),
        }
    }

    /// A column of numbers: what `read` makes of each text; `None` is a misfit.
    #[inline(always)]
    fn numbers<T: ArrowPrimitiveType>(
        &self,
        slots: &[Slot],
        misfits: &mut Misfits,
        mut read: impl FnMut(&[u8]) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let mut values = Vec::with_capacity(slots.len());
        let mut nulls = Nulls::new(slots.len());
        for (row, slot) in slots.iter().enumerate() {
            let value = match self.first_byte(*slot) {
                None => None,
                Some(_) => {
                    let value = read(slot.text(self.bytes));
                    if value.is_none() {
                        misfits.push(row as u32);
                    }
                    value
                }
            };
            nulls.push(value.is_some());
            values.push(value.unwrap_or_default());
        }
        PrimitiveArray::new(values.into(), nulls.finish())
    }

    fn strings(&mut self, slots: &[Slot], misfits: &mut Misfits) -> StringViewArray {
        let mut nulls = Nulls::new(slots.len());
        let mut views = Views::with_capacity(slots.len());
        for (row, slot) in slots.iter().enumerate() {
            match self.first_byte(*slot) {
                Some(b'"') => {
                    nulls.push(true);
                    views.push_string(self.bytes, *slot);
                }
                other => {
                    if other.is_some() {
                        misfits.push(row as u32);
                    }
                    nulls.push(false);
                    views.views.push(0);
                }
            }
        }
        views.finish(&self.shared, nulls.finish())
    }

    /// A row after another, as long as they are of one kind: most columns are of one kind throughout.
    fn tagged(&self, slots: &[Slot]) -> Tagged {
        let rows = slots.len();
        let mut kinds = Vec::with_capacity(rows);
        let mut offsets = Vec::with_capacity(rows);
        let (mut booleans, mut longs, mut doubles) = (Vec::new(), Vec::new(), Vec::new());
        let (mut strings, mut containers) = (Views::default(), Views::default());
        // Whatever is nothing else: so each turn takes a row at least.
        let is_number = |first: Option<u8>| !matches!(first, None | Some(b'"' | b'{' | b'[' | b't' | b'f'));
        while kinds.len() < rows {
            let rest = &slots[kinds.len()..];
            let firsts = rest.iter().map(|&slot| self.first_byte(slot));
            // How many rows are of the kind, and the place of the first of them among its values.
            let (kind, count, from) = match self.first_byte(rest[0]) {
                None => {
                    let count = firsts.take_while(Option::is_none).count();
                    kinds.resize(kinds.len() + count, Kind::Null as i8);
                    offsets.resize(kinds.len(), 0);
                    continue;
                }
                Some(b'"') => {
                    let from = strings.views.len();
                    strings.views.reserve(rest.len());
                    let run = rest.iter().take_while(|slot| self.first_byte(**slot) == Some(b'"'));
                    run.for_each(|slot| strings.push_string(self.bytes, *slot));
                    (Kind::String, strings.views.len() - from, from)
                }
                Some(open @ (b'{' | b'[')) => {
                    let from = containers.views.len();
                    let run = rest.iter().take_while(|slot| self.first_byte(**slot) == Some(open));
                    run.for_each(|slot| containers.push(self.bytes, slot.start(), slot.end()));
                    let kind = if open == b'{' { Kind::Map } else { Kind::List };
                    (kind, containers.views.len() - from, from)
                }
                Some(b't' | b'f') => {
                    let from = booleans.len();
                    let run = firsts.map_while(|first| match first {
                        Some(first @ (b't' | b'f')) => Some(first == b't'),
                        _ => None,
                    });
                    booleans.extend(run);
                    (Kind::Boolean, booleans.len() - from, from)
                }
                Some(_) => {
                    let numbers = || rest.iter().take_while(|slot| is_number(self.first_byte(**slot)));
                    let from = longs.len();
                    longs.reserve(rest.len());
                    for slot in numbers() {
                        let Plain::Value(value) = number::plain_integer(slot.text(self.bytes)) else { break };
                        longs.push(value);
                    }
                    match longs.len() - from {
                        // The first is none that fits, so it is a double.
                        0 => {
                            let from = doubles.len();
                            doubles.reserve(rest.len());
                            for slot in numbers() {
                                let text = slot.text(self.bytes);
                                if let Plain::Value(_) = number::plain_integer(text) {
                                    break;
                                }
                                doubles.push(number::double(text));
                            }
                            (Kind::Double, doubles.len() - from, from)
                        }
                        count => (Kind::Long, count, from),
                    }
                }
            };
            kinds.resize(kinds.len() + count, kind as i8);
            offsets.extend((from..from + count).map(|place| place as i32));
        }
        Tagged {
            kinds: kinds.into(),
            offsets: offsets.into(),
            booleans: BooleanArray::from(booleans),
            longs: Int64Array::from(longs),
            doubles: Float64Array::from(doubles),
            strings: strings.finish(&self.shared, None),
            containers: containers.finish(&self.shared, None),
        }
    }

    fn list(&mut self, inner: &Type, slots: &[Slot], misfits: &mut Misfits) -> ArrayRef {
        let mut elements = Vec::new();
        let (offsets, nulls) = self.containers(b'[', slots, misfits, |bytes, at| {
            each_element(bytes, at, |at| {
                let element = Slot::read(bytes, at);
                elements.push(element);
                element.end()
            });
            elements.len()
        });
        let values = self.parts(inner, &elements, &offsets, misfits);
        let field = Field::new("item", values.data_type().clone(), true);
        Arc::new(ListArray::new(Arc::new(field), OffsetBuffer::new(offsets), values, nulls))
    }

    fn map(&mut self, inner: &Type, slots: &[Slot], misfits: &mut Misfits) -> ArrayRef {
        let (mut keys, mut values) = (Views::default(), Vec::new());
        let mut entries = Entries::default();
        let (offsets, nulls) = self.containers(b'{', slots, misfits, |bytes, at| {
            for (key, value) in entries.read(bytes, at) {
                keys.push_string(bytes, *key);
                values.push(*value);
            }
            values.len()
        });
        let values = self.parts(inner, &values, &offsets, misfits);
        let keys: ArrayRef = Arc::new(keys.finish(&self.shared, None));
        let fields = Fields::from(vec![
            Field::new("key", DataType::Utf8View, false),
            Field::new("value", values.data_type().clone(), true),
        ]);
        let entries = StructArray::new(fields, vec![keys, values], None);
        let field = Field::new("entries", entries.data_type().clone(), false);
        Arc::new(MapArray::new(Arc::new(field), OffsetBuffer::new(offsets), entries, nulls, false))
    }

    /// Offsets and nulls of a column of containers; `read` takes one in and gives how many parts there are by then.
    fn containers(
        &self,
        open: u8,
        slots: &[Slot],
        misfits: &mut Misfits,
        mut read: impl FnMut(&[u8], usize) -> usize,
    ) -> (ScalarBuffer<i32>, Option<NullBuffer>) {
        let mut offsets = Vec::with_capacity(slots.len() + 1);
        let mut nulls = Nulls::new(slots.len());
        let mut count = 0;
        offsets.push(0);
        for (row, slot) in slots.iter().enumerate() {
            let first = self.first_byte(*slot);
            if first == Some(open) {
                count = read(self.bytes, slot.start());
            } else if first.is_some() {
                misfits.push(row as u32);
            }
            nulls.push(first == Some(open));
            offsets.push(count as i32);
        }
        (offsets.into(), nulls.finish())
    }

    /// The parts of a column of containers; a part that does not fit makes its row a misfit.
    fn parts(&mut self, ty: &Type, parts: &[Slot], offsets: &[i32], misfits: &mut Misfits) -> ArrayRef {
        let (values, part_misfits) = self.column(ty, parts);
        if !part_misfits.is_empty() {
            let rows =
                part_misfits.iter().map(|&part| offsets.partition_point(|&offset| offset <= part as i32) - 1);
            misfits.extend(rows.map(|row| row as u32));
            misfits.sort_unstable();
            misfits.dedup();
        }
        values.into_array()
    }
}

impl Values {
    /// As an Arrow array. A tagged column inside a container does not occur; it would be its containers' texts.
    fn into_array(self) -> ArrayRef {
        match self {
            Values::Boolean(array) => Arc::new(array),
            Values::Integer(array) => Arc::new(array),
            Values::Long(array) => Arc::new(array),
            Values::Float(array) => Arc::new(array),
            Values::Double(array) => Arc::new(array),
            Values::String(array) => Arc::new(array),
            Values::Timestamp(array) => Arc::new(array),
            Values::Nested(array) => array,
            Values::Tagged(tagged) => Arc::new(tagged.containers),
        }
    }
}

fn holds_any(ty: &Type) -> bool {
    match ty {
        Type::Any => true,
        Type::Primitive(_) => false,
        Type::List(inner) | Type::Map(inner) => holds_any(inner),
    }
}

fn timestamp(text: &[u8], unit: TimeUnit, scratch: &mut Vec<u8>) -> Option<i64> {
    match text[0] {
        b'"' => {
            let inner = &text[1..text.len() - 1];
            if !inner.contains(&b'\\') {
                return time::from_rfc3339(inner);
            }
            scratch.clear();
            unescape(inner, scratch);
            time::from_rfc3339(scratch)
        }
        b'-' | b'0'..=b'9' => time::from_unit(number::integer(text)?, unit),
        _ => None,
    }
}

/// The fields of one object, of equal keys only the last.
#[derive(Default)]
pub(crate) struct Entries {
    fields: Vec<(Slot, Slot)>,
}

impl Entries {
    /// Reads the object at `at`: keys (with their quotes) and values, in the order of the text.
    pub(crate) fn read(&mut self, bytes: &[u8], at: usize) -> &[(Slot, Slot)] {
        self.fields.clear();
        each_field(bytes, at, |key, escaped, value| {
            let value = Slot::read(bytes, value);
            self.fields.push((Slot::new(key.start - 1, key.end + 1, escaped), value));
            value.end()
        });
        self.keep_last(bytes);
        &self.fields
    }

    fn keep_last(&mut self, bytes: &[u8]) {
        let kept = if self.fields.iter().all(|(key, _)| !key.is_escaped()) {
            keep_last(&mut self.fields, |(key, _)| key.text(bytes))
        } else {
            keep_last(&mut self.fields, |(key, _)| {
                let (mut plain, text) = (Vec::new(), key.text(bytes));
                unescape(&text[1..text.len() - 1], &mut plain);
                plain
            })
        };
        self.fields.truncate(kept);
    }
}

/// Moves the last of all fields with equal keys to the front, in their order, and says how many there are.
pub(crate) fn keep_last<F: Copy, K: Eq + Hash>(fields: &mut [F], key: impl Fn(&F) -> K) -> usize {
    const FEW: usize = 12;
    let mut kept = 0;
    if fields.len() <= FEW {
        for place in 0..fields.len() {
            let this = key(&fields[place]);
            if fields[place + 1..].iter().all(|later| key(later) != this) {
                fields[kept] = fields[place];
                kept += 1;
            }
        }
        return kept;
    }
    let last: HashMap<K, usize> =
        fields.iter().enumerate().map(|(place, field)| (key(field), place)).collect();
    for place in 0..fields.len() {
        if last.get(&key(&fields[place])) == Some(&place) {
            fields[kept] = fields[place];
            kept += 1;
        }
    }
    kept
}

/// Which rows are null, kept only once there is one.
struct Nulls {
    valid: Vec<u64>,
    count: usize,
    any: bool,
}

impl Nulls {
    fn new(rows: usize) -> Nulls {
        Nulls { valid: Vec::with_capacity(rows.div_ceil(64)), count: 0, any: false }
    }

    fn of(
        slots: &[Slot],
        misfits: &mut Misfits,
        first_byte: impl Fn(Slot) -> Option<u8>,
        fits: impl Fn(u8) -> bool,
    ) -> Option<NullBuffer> {
        let mut nulls = Nulls::new(slots.len());
        for (row, slot) in slots.iter().enumerate() {
            let first = first_byte(*slot);
            let good = first.is_some_and(&fits);
            if first.is_some() && !good {
                misfits.push(row as u32);
            }
            nulls.push(good);
        }
        nulls.finish()
    }

    #[inline(always)]
    fn push(&mut self, valid: bool) {
        if self.count.is_multiple_of(64) {
            self.valid.push(0);
        }
        if let Some(word) = self.valid.last_mut() {
            *word |= u64::from(valid) << (self.count % 64);
        }
        self.any |= !valid;
        self.count += 1;
    }

    fn finish(self) -> Option<NullBuffer> {
        self.any.then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(self.valid), 0, self.count)))
    }
}

/// Texts as Arrow views: into the source, and where they held escapes, into a buffer of their own.
#[derive(Default)]
struct Views {
    views: Vec<u128>,
    unescaped: Vec<u8>,
}

impl Views {
    fn with_capacity(rows: usize) -> Views {
        Views { views: Vec::with_capacity(rows), unescaped: Vec::new() }
    }

    /// Adds what the string in `slot` (with its quotes) says.
    #[inline(always)]
    fn push_string(&mut self, bytes: &[u8], slot: Slot) {
        if slot.is_escaped() {
            let start = self.unescaped.len();
            unescape(&bytes[slot.start() + 1..slot.end() - 1], &mut self.unescaped);
            self.views.push(view(&self.unescaped, start, self.unescaped.len(), 1));
        } else {
            self.push(bytes, slot.start() + 1, slot.end() - 1);
        }
    }

    #[inline(always)]
    fn push(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.views.push(view(bytes, start, end, 0));
    }

    fn finish(self, shared: &Buffer, nulls: Option<NullBuffer>) -> StringViewArray {
        let mut buffers = vec![shared.clone()];
        if !self.unescaped.is_empty() {
            buffers.push(Buffer::from_vec(self.unescaped));
        }
        // SAFETY: every view was made by `view` of a place within the buffer it names, and what lies there is a whole
        // string (or container) of an event whose UTF-8 was checked, or was made by `unescape` from one.
        unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(self.views), buffers, nulls) }
    }
}

/// Arrow's view of `bytes[start..end]`, which lies in buffer number `buffer`: the length, then the text itself up to
/// 12 bytes, or its first 4, the buffer and the place.
#[inline(always)]
fn view(bytes: &[u8], start: usize, end: usize, buffer: u32) -> u128 {
    let len = end - start;
    if len > 12 {
        let prefix = [bytes[start], bytes[start + 1], bytes[start + 2], bytes[start + 3]];
        return len as u128
            | u128::from(u32::from_le_bytes(prefix)) << 32
            | u128::from(buffer) << 64
            | (start as u128) << 96;
    }
    let mut text = [0; 16];
    match bytes.get(start..start + 16) {
        Some(more) => text.copy_from_slice(more),
        None => text[..len].copy_from_slice(&bytes[start..end]),
    }
    let text = u128::from_le_bytes(text) & ((1 << (8 * len)) - 1);
    text << 32 | len as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_keep_the_last_in_its_place() {
        let read = |text: &str| {
            let mut entries = Entries::default();
            let fields = entries.read(text.as_bytes(), 0);
            let shown = fields
                .iter()
                .map(|(_, value)| String::from_utf8_lossy(value.text(text.as_bytes())).into_owned());
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(read(r#"{"a":1,"b":2,"a":3}"#), "2 3");
        assert_eq!(read(r#"{"a":1,"b":2,"\u0061":3}"#), "2 3");
        let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":{n}", n % 30)).collect();
        assert_eq!(read(&format!("{{{}}}", many.join(","))).split(' ').count(), 30);
    }

    #[test]
    fn timestamps_are_utc_microseconds() {
        assert_eq!(
            arrow_array::types::TimestampMicrosecondType::DATA_TYPE,
            DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None)
        );
    }
}
