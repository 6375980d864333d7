//! Builds Arrow columns from values whose places are known, one whole column after another.
//!
//! Containers are read here and nowhere before, from mark to mark. The keys of a map are first assumed to be those that
//! the previous map had at the same places, and compared byte by byte. Whole numbers are read eight digits at once
//! ([`crate::number`]). Strings without escapes become views into the batch's own bytes; strings with escapes are
//! copied.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, Float64Array, Int64Array, ListArray, MapArray,
    PrimitiveArray, StringViewArray, StructArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{FieldRef, Fields};
use bytes::Bytes;

use crate::{
    Kind, Primitive, Tagged, TimeUnit, Values,
    layout::Layout,
    number::{self, PlainInteger},
    scan::{same, skip_blank},
    structure::{
        Marks,
        block::{self, Block, Isa, with_block},
    },
    text::{string_end, unescape},
    time,
    views::{Nulls, Views},
    walk::Slot,
};

/// The buffer that slots point into.
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
    marks: &'a Marks,
    isa: Isa,
    /// The same bytes, as Arrow shares them.
    shared: Arc<[Buffer]>,
    scratch: Vec<u8>,
    /// Scratch for the parts of a column of containers, and for the keys of objects.
    parts: Vec<Slot>,
    seen: Vec<SeenField>,
    /// Starts of objects of which some fields were omitted, as a later one has the same key.
    doubled: Vec<u32>,
}

/// Does the same as [`Source::column`], with the instructions of `B` allowed.
///
/// # Safety
///
/// The machine has them.
#[inline(always)]
unsafe fn column<B: Block>(
    source: &mut Source<'_>,
    layout: &Layout,
    slots: &[Slot],
) -> (Values, MistypedRows) {
    source.column_here(layout, slots)
}

/// Rows whose value does not fit the type, in order, each once.
type MistypedRows = Vec<u32>;

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a Bytes, marks: &'a Marks) -> Source<'a> {
        Source {
            bytes,
            marks,
            isa: block::widest(),
            shared: Arc::new([Buffer::from(bytes.clone())]),
            scratch: Vec::new(),
            parts: Vec::new(),
            seen: Vec::new(),
            doubled: Vec::new(),
        }
    }

    /// Starts of objects that columns do not describe completely, as they have a key twice: places in the buffer, in no
    /// order.
    pub(crate) fn into_doubled(self) -> Vec<u32> {
        self.doubled
    }

    /// The column of these values.
    pub(crate) fn column(&mut self, layout: &Layout, slots: &[Slot]) -> (Values, MistypedRows) {
        let (isa, source) = (self.isa, self);
        with_block!(isa, column(
            source: &mut Source<'_>,
            layout: &Layout,
            slots: &[Slot],
        ) -> (Values, MistypedRows))
    }

    #[inline(always)]
    fn column_here(&mut self, layout: &Layout, slots: &[Slot]) -> (Values, MistypedRows) {
        let mut misfits = Vec::new();
        let values = match layout {
            Layout::Tagged => Values::Tagged(self.tagged(slots)),
            Layout::TaggedWithin(open) => {
                let mut kept = slots.to_vec();
                for (row, slot) in kept.iter_mut().enumerate() {
                    if self.first_byte(*slot).is_some_and(|first| first != *open) {
                        misfits.push(row as u32);
                        *slot = Slot::MISSING;
                    }
                }
                Values::Tagged(self.tagged(&kept))
            }
            Layout::Primitive(primitive) => self.primitive(*primitive, slots, &mut misfits),
            Layout::List(field, inner) => Values::Nested(self.list(field, inner, slots, &mut misfits)),
            Layout::Map(field, fields, inner) => {
                Values::Nested(self.map(field, fields, inner, slots, &mut misfits))
            }
        };
        (values, misfits)
    }

    /// The first byte of a value; `None` if there is none, or if it is `null`.
    #[inline(always)]
    fn first_byte(&self, slot: Slot) -> Option<u8> {
        // A slot without a value begins behind all bytes.
        let &first = self.bytes.get(slot.start())?;
        (first != b'n').then_some(first)
    }

    #[inline(always)]
    fn primitive(&mut self, primitive: Primitive, slots: &[Slot], misfits: &mut MistypedRows) -> Values {
        let is_number = |first: u8| matches!(first, b'-' | b'0'..=b'9');
        match primitive {
            Primitive::Boolean => {
                let mut nulls = Nulls::default();
                let values = BooleanBuffer::collect_bool(slots.len(), |row| {
                    let first = self.first_byte(slots[row]);
                    let fits = matches!(first, Some(b't' | b'f'));
                    if first.is_some() && !fits {
                        misfits.push(row as u32);
                    }
                    nulls.push(fits);
                    first == Some(b't')
                });
                Values::Boolean(BooleanArray::new(values, nulls.finish()))
            }
            Primitive::Integer => Values::Integer(self.numbers(slots, misfits, |text, start| {
                if is_number(text[start]) { number::integer_in(text, start)?.try_into().ok() } else { None }
            })),
            Primitive::Long => Values::Long(self.numbers(slots, misfits, |text, start| {
                if is_number(text[start]) { number::integer_in(text, start) } else { None }
            })),
            Primitive::Float => Values::Float(self.numbers(slots, misfits, |text, start| {
                let text = &text[start..];
                if is_number(text[0]) { Some(number::float(text)) } else { number::special_float(text) }
            })),
            Primitive::Double => Values::Double(self.numbers(slots, misfits, |text, start| {
                let text = &text[start..];
                if is_number(text[0]) { Some(number::double(text)) } else { number::special(text) }
            })),
            Primitive::Timestamp(unit) => {
                let mut scratch = std::mem::take(&mut self.scratch);
                let values =
                    self.numbers(slots, misfits, |text, start| timestamp(&text[start..], unit, &mut scratch));
                self.scratch = scratch;
                Values::Timestamp(values)
            }
            Primitive::String => Values::String(self.strings(slots, misfits)),
        }
    }

    /// A column of numbers: what `read` makes of each, given the text up to its end and where it begins there; `None` is
    /// a misfit.
    #[inline(always)]
    fn numbers<T: ArrowPrimitiveType>(
        &self,
        slots: &[Slot],
        misfits: &mut MistypedRows,
        mut read: impl FnMut(&[u8], usize) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let mut nulls = Nulls::default();
        let mut values = vec![T::Native::default(); slots.len()];
        for (row, (slot, place)) in slots.iter().zip(&mut values).enumerate() {
            let mut value = None;
            if self.first_byte(*slot).is_some() {
                value = read(&self.bytes[..slot.end()], slot.start());
                if value.is_none() {
                    misfits.push(row as u32);
                }
            }
            nulls.push(value.is_some());
            *place = value.unwrap_or_default();
        }
        PrimitiveArray::new(values.into(), nulls.finish())
    }

    #[inline(always)]
    fn strings(&mut self, slots: &[Slot], misfits: &mut MistypedRows) -> StringViewArray {
        let mut nulls = Nulls::default();
        let mut texts = Views::default();
        let mut views = vec![0; slots.len()];
        for (row, (slot, view)) in slots.iter().zip(&mut views).enumerate() {
            let first = self.first_byte(*slot);
            if first == Some(b'"') {
                *view = texts.string(self.bytes, *slot);
            } else if first.is_some() {
                misfits.push(row as u32);
            }
            nulls.push(first == Some(b'"'));
        }
        texts.views = views;
        texts.finish(&self.shared, nulls.finish())
    }

    /// A row after another, as long as they are of one kind: most columns are of one kind throughout.
    #[inline(always)]
    fn tagged(&self, slots: &[Slot]) -> Tagged {
        let rows = slots.len();
        let mut kinds = Vec::with_capacity(rows);
        let mut offsets = Vec::with_capacity(rows);
        let (mut booleans, mut longs, mut doubles) = (Vec::new(), Vec::new(), Vec::new());
        let (mut strings, mut containers) = (Views::default(), Views::default());
        // Any other value counts as a number, so each turn takes at least one row.
        let is_number = |first: Option<u8>| !matches!(first, None | Some(b'"' | b'{' | b'[' | b't' | b'f'));
        while kinds.len() < rows {
            let rest = &slots[kinds.len()..];
            let firsts = rest.iter().map(|&slot| self.first_byte(slot));
            // The number of rows of the kind, and the place of the first of them among its values.
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
                        let text = &self.bytes[..slot.end()];
                        let PlainInteger::Value(value) = number::plain_integer_in(text, slot.start()) else {
                            break;
                        };
                        longs.push(value);
                    }
                    match longs.len() - from {
                        // The first is none that fits, so it is a double.
                        0 => {
                            let from = doubles.len();
                            doubles.reserve(rest.len());
                            for slot in numbers() {
                                let text = slot.text(self.bytes);
                                if let PlainInteger::Value(_) = number::plain_integer(text) {
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

    #[inline(always)]
    fn list(
        &mut self,
        field: &FieldRef,
        inner: &Layout,
        slots: &[Slot],
        misfits: &mut MistypedRows,
    ) -> ArrayRef {
        let mut elements = Elements { values: self.empty(likely_parts(slots)) };
        let (offsets, nulls) = self.containers(&mut elements, slots, misfits);
        let values = self.parts(inner, elements.values, &offsets, misfits);
        Arc::new(ListArray::new(Arc::clone(field), OffsetBuffer::new(offsets), values, nulls))
    }

    #[inline(always)]
    fn map(
        &mut self,
        field: &FieldRef,
        fields: &Fields,
        inner: &Layout,
        slots: &[Slot],
        misfits: &mut MistypedRows,
    ) -> ArrayRef {
        let likely = likely_parts(slots);
        let mut entries = Entries {
            keys: Views::with_capacity(likely),
            values: self.empty(likely),
            seen: std::mem::take(&mut self.seen),
            doubled: std::mem::take(&mut self.doubled),
        };
        entries.seen.clear();
        let (offsets, nulls) = self.containers(&mut entries, slots, misfits);
        let Entries { keys, values, seen, doubled } = entries;
        (self.seen, self.doubled) = (seen, doubled);
        let values = self.parts(inner, values, &offsets, misfits);
        let keys: ArrayRef = Arc::new(keys.finish(&self.shared, None));
        let entries = StructArray::new(fields.clone(), vec![keys, values], None);
        Arc::new(MapArray::new(Arc::clone(field), OffsetBuffer::new(offsets), entries, nulls, false))
    }

    /// Room for so many places of parts.
    fn empty(&mut self, parts: usize) -> Vec<Slot> {
        let mut room = std::mem::take(&mut self.parts);
        room.clear();
        room.reserve(parts);
        room
    }

    /// Offsets and nulls of a column of containers, whose parts are added to `parts`.
    #[inline(always)]
    fn containers<P: Parts>(
        &self,
        parts: &mut P,
        slots: &[Slot],
        misfits: &mut MistypedRows,
    ) -> (ScalarBuffer<i32>, Option<NullBuffer>) {
        let mut offsets = vec![0; slots.len() + 1];
        let mut nulls = Nulls::default();
        for (row, (slot, end)) in slots.iter().zip(&mut offsets[1..]).enumerate() {
            let first = self.first_byte(*slot);
            if first == Some(P::OPEN) {
                parts.read(self.bytes, self.marks, slot.start());
            } else if first.is_some() {
                misfits.push(row as u32);
            }
            nulls.push(first == Some(P::OPEN));
            *end = parts.count() as i32;
        }
        (offsets.into(), nulls.finish())
    }

    /// The parts of a column of containers; a part that does not fit makes its row a misfit.
    fn parts(
        &mut self,
        layout: &Layout,
        parts: Vec<Slot>,
        offsets: &[i32],
        misfits: &mut MistypedRows,
    ) -> ArrayRef {
        let (values, part_misfits) = self.column(layout, &parts);
        self.parts = parts;
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
    /// Converts the values to an Arrow array. A tagged column inside a container does not occur; it would be its
    /// containers' texts.
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

/// Number of parts of these containers for which there should be room.
fn likely_parts(containers: &[Slot]) -> usize {
    2 * containers.iter().filter(|slot| slot.is_there()).count()
}

/// The parts of containers, one container after another.
trait Parts {
    /// The bracket that such a container begins with.
    const OPEN: u8;
    /// Adds the parts of the container that begins at `at`, in the order of the text.
    fn read(&mut self, bytes: &[u8], marks: &Marks, at: usize);
    /// The number of values so far.
    fn count(&self) -> usize;
}

/// The elements of lists.
struct Elements {
    values: Vec<Slot>,
}

impl Parts for Elements {
    const OPEN: u8 = b'[';

    #[inline(always)]
    fn read(&mut self, bytes: &[u8], marks: &Marks, at: usize) {
        let mut at = skip_blank(bytes, at + 1);
        while bytes[at] != b']' {
            let (end, mark) = marks.value_end(bytes, at);
            self.values.push(Slot::new(at, end, marks.is_escaped(bytes, at, end)));
            at = mark;
            if bytes[mark] == b',' {
                at = skip_blank(bytes, mark + 1);
            }
        }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.values.len()
    }
}

/// The fields of objects; of equal keys of one only the last.
#[derive(Default)]
struct Entries {
    keys: Views,
    values: Vec<Slot>,
    /// Keys of earlier objects, by their place.
    seen: Vec<SeenField>,
    /// Starts of objects that have a key twice.
    doubled: Vec<u32>,
}

/// The key that an object had at some place: most likely the next one has the same there.
#[derive(Clone, Copy)]
struct SeenField {
    /// The text from the bracket or comma before the key to before the first byte of the value.
    start: u32,
    len: u32,
    /// The key, as a view.
    view: u128,
}

impl Entries {
    /// Places that are remembered.
    const SEEN_MAX: usize = 64;

    /// The key behind the bracket or comma at `at`, which is its object's `place`th, and where its value begins.
    #[inline(always)]
    fn key(&mut self, bytes: &[u8], place: usize, at: usize) -> (u128, usize) {
        if let Some(&SeenField { start, len, view }) = self.seen.get(place)
            && same(bytes, start as usize, at, len as usize)
            && bytes[at + len as usize] > b' '
        {
            return (view, at + len as usize);
        }
        self.new_key(bytes, place, at)
    }

    #[inline(never)]
    fn new_key(&mut self, bytes: &[u8], place: usize, at: usize) -> (u128, usize) {
        let key = skip_blank(bytes, at + 1);
        let (quote, escaped) = string_end(bytes, key + 1);
        let colon = skip_blank(bytes, quote + 1);
        let value = skip_blank(bytes, colon + 1);
        let view = self.keys.string(bytes, Slot::new(key, quote + 1, escaped));
        let field = SeenField { start: at as u32, len: (value - at) as u32, view };
        if let Some(seen) = self.seen.get_mut(place) {
            *seen = field;
        } else if place < Self::SEEN_MAX {
            // Keys are met one after another, so this one is the next to be remembered.
            self.seen.push(field);
        }
        (view, value)
    }

    /// Removes all but the last of the fields with equal keys from the place `from` on; they are those of the object
    /// that begins at `at`.
    fn dedup_last(&mut self, bytes: &[u8], at: usize, from: usize) {
        const FEW: usize = 12;
        let keys = &self.keys.views[from..];
        let is_new = |(place, &key)| keys[..place].iter().all(|&before| !self.keys.equal(bytes, before, key));
        if keys.len() <= FEW && keys.iter().enumerate().all(is_new) {
            return;
        }
        let mut fields: Vec<(u128, Slot)> =
            keys.iter().copied().zip(self.values[from..].iter().copied()).collect();
        let kept = dedup_last(&mut fields, |(key, _)| self.keys.text_of(bytes, *key));
        if kept < fields.len() {
            self.doubled.push(at as u32);
        }
        self.keys.views.truncate(from);
        self.values.truncate(from);
        for (key, value) in &fields[..kept] {
            self.keys.views.push(*key);
            self.values.push(*value);
        }
    }
}

impl Parts for Entries {
    const OPEN: u8 = b'{';

    #[inline(always)]
    fn read(&mut self, bytes: &[u8], marks: &Marks, at: usize) {
        let from = self.values.len();
        if bytes[skip_blank(bytes, at + 1)] == b'}' {
            return;
        }
        let (begin, mut at, mut place) = (at, at, 0);
        loop {
            let (key, value) = self.key(bytes, place, at);
            let (end, mark) = marks.value_end(bytes, value);
            self.keys.views.push(key);
            self.values.push(Slot::new(value, end, marks.is_escaped(bytes, value, end)));
            place += 1;
            at = mark;
            if bytes[mark] == b'}' {
                break;
            }
        }
        let differ = match self.keys.views[from..] {
            [] | [_] => true,
            [first, second] => !self.keys.equal(bytes, first, second),
            _ => false,
        };
        if !differ {
            self.dedup_last(bytes, begin, from);
        }
    }

    #[inline(always)]
    fn count(&self) -> usize {
        self.values.len()
    }
}

/// Moves the last of all fields with equal keys to the front, in their order, and returns how many there are.
pub(crate) fn dedup_last<F: Copy, K: Eq + Hash>(fields: &mut [F], key: impl Fn(&F) -> K) -> usize {
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

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    #[test]
    fn equal_keys_keep_the_last_in_its_place() {
        let read = |text: &str| {
            let mut entries = Entries::default();
            let marks = Marks::of(text.as_bytes(), &[(0, text.len() as u32)]);
            entries.read(text.as_bytes(), &marks, 0);
            let values = entries.values.iter();
            let shown = values.map(|value| String::from_utf8_lossy(value.text(text.as_bytes())).into_owned());
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
