//! One value of one event, borrowed from its source: read from JSON text and from columns, and written as JSON.

use std::ops::Range;

use arrow_array::{
    Array, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, ListArray, MapArray,
    StringViewArray, TimestampMicrosecondArray, cast::AsArray,
};
use bumpalo::{Bump, collections::Vec as BumpVec};

use crate::{
    Column, Kind, Tagged, Values,
    build::dedup_last,
    grammar::{self, Verdict},
    number::{self, PlainInteger},
    scan::string_stop,
    text::{each_element, each_field, unescape, value_end},
    time,
};

/// A value as expressions see it: 24 bytes, copied freely. Text and containers borrow from the event's bytes, from a
/// column, or from the arena of the evaluation that made them.
///
/// `Error` stands beside `Null`: a value that *cannot be had* (an element past the end of a list, a failed cast, a
/// division by zero) is not a value that is missing. Each dialect decides what becomes of it.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Missing, or a JSON `null`.
    Null,
    /// It cannot be had.
    Error,
    /// BOOLEAN.
    Boolean(bool),
    /// INTEGER.
    Integer(i32),
    /// LONG.
    Long(i64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// STRING.
    String(&'a str),
    /// TIMESTAMP: microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// A list, in order.
    List(&'a [Value<'a>]),
    /// A map, in the order of the event's text; of equal keys only the last is here.
    Map(&'a [(&'a str, Value<'a>)]),
}

impl Column {
    /// The value of one row; [`Value::Error`] where it cannot be had. Containers of a tagged column are parsed into the
    /// arena, and so are those of a typed one.
    pub fn value<'a>(&'a self, row: usize, arena: &'a Bump) -> Value<'a> {
        if self.errors.as_ref().is_some_and(|errors| errors.value(row)) {
            return Value::Error;
        }
        match &self.values {
            Values::Boolean(array) => boolean(array, row),
            Values::Integer(array) => integer(array, row),
            Values::Long(array) => long(array, row),
            Values::Float(array) => float(array, row),
            Values::Double(array) => double(array, row),
            Values::String(array) => string(array, row),
            Values::Timestamp(array) => timestamp(array, row),
            Values::Nested(array) => element(array.as_ref(), row, arena),
            Values::Tagged(tagged) => tagged.value(row, arena),
        }
    }

    /// Adds the values of these rows to `out`, in their order. The column's type is looked at once, not per row.
    pub fn fill<'a>(&'a self, rows: &[u32], arena: &'a Bump, out: &mut Vec<Value<'a>>) {
        let from = out.len();
        let rows_at = rows.iter().map(|&row| row as usize);
        match &self.values {
            Values::Boolean(array) => out.extend(rows_at.map(|row| boolean(array, row))),
            Values::Integer(array) => out.extend(rows_at.map(|row| integer(array, row))),
            Values::Long(array) => out.extend(rows_at.map(|row| long(array, row))),
            Values::Float(array) => out.extend(rows_at.map(|row| float(array, row))),
            Values::Double(array) => out.extend(rows_at.map(|row| double(array, row))),
            Values::String(array) => out.extend(rows_at.map(|row| string(array, row))),
            Values::Timestamp(array) => out.extend(rows_at.map(|row| timestamp(array, row))),
            Values::Nested(array) => out.extend(rows_at.map(|row| element(array.as_ref(), row, arena))),
            Values::Tagged(tagged) => out.extend(rows_at.map(|row| tagged.value(row, arena))),
        }
        if let Some(errors) = &self.errors {
            for (value, &row) in out[from..].iter_mut().zip(rows) {
                if errors.value(row as usize) {
                    *value = Value::Error;
                }
            }
        }
    }
}

impl Tagged {
    /// The value of one row; null where it is in error, which only the column knows.
    pub fn value<'a>(&'a self, row: usize, arena: &'a Bump) -> Value<'a> {
        let kind = self.kinds[row];
        let place = self.offsets[row] as usize;
        if kind == Kind::String as i8 {
            Value::String(self.strings.value(place))
        } else if kind == Kind::Long as i8 {
            Value::Long(self.longs.value(place))
        } else if kind == Kind::Null as i8 {
            Value::Null
        } else if kind == Kind::Double as i8 {
            Value::Double(self.doubles.value(place))
        } else if kind == Kind::Boolean as i8 {
            Value::Boolean(self.booleans.value(place))
        } else {
            read_value(self.containers.value(place), 0, arena).0
        }
    }
}

macro_rules! read_row {
    ($($name:ident: $array:ty => $variant:ident;)*) => {$(
        #[inline(always)]
        fn $name(array: &$array, row: usize) -> Value<'_> {
            if array.is_null(row) { Value::Null } else { Value::$variant(array.value(row)) }
        }
    )*};
}

read_row! {
    boolean: BooleanArray => Boolean;
    integer: Int32Array => Integer;
    long: Int64Array => Long;
    float: Float32Array => Float;
    double: Float64Array => Double;
    string: StringViewArray => String;
    timestamp: TimestampMicrosecondArray => Timestamp;
}

/// One element of an array as the decoder makes them.
fn element<'a>(array: &'a dyn Array, row: usize, arena: &'a Bump) -> Value<'a> {
    let any = array.as_any();
    if let Some(array) = any.downcast_ref::<ListArray>() {
        list_element(array, row, arena)
    } else if let Some(array) = any.downcast_ref::<MapArray>() {
        map_element(array, row, arena)
    } else if let Some(array) = any.downcast_ref::<StringViewArray>() {
        string(array, row)
    } else if let Some(array) = any.downcast_ref::<Int64Array>() {
        long(array, row)
    } else if let Some(array) = any.downcast_ref::<Float64Array>() {
        double(array, row)
    } else if let Some(array) = any.downcast_ref::<BooleanArray>() {
        boolean(array, row)
    } else if let Some(array) = any.downcast_ref::<Int32Array>() {
        integer(array, row)
    } else if let Some(array) = any.downcast_ref::<Float32Array>() {
        float(array, row)
    } else if let Some(array) = any.downcast_ref::<TimestampMicrosecondArray>() {
        timestamp(array, row)
    } else {
        Value::Error
    }
}

fn list_element<'a>(array: &'a ListArray, row: usize, arena: &'a Bump) -> Value<'a> {
    if array.is_null(row) {
        return Value::Null;
    }
    let offsets = array.value_offsets();
    let values = array.values().as_ref();
    let parts = (offsets[row]..offsets[row + 1]).map(|at| element(values, at as usize, arena));
    Value::List(BumpVec::from_iter_in(parts, arena).into_bump_slice())
}

fn map_element<'a>(array: &'a MapArray, row: usize, arena: &'a Bump) -> Value<'a> {
    if array.is_null(row) {
        return Value::Null;
    }
    let offsets = array.value_offsets();
    let (keys, values) = (array.keys().as_string_view(), array.values().as_ref());
    let parts = (offsets[row]..offsets[row + 1]).map(|at| {
        let at = at as usize;
        (keys.value(at), element(values, at, arena))
    });
    Value::Map(BumpVec::from_iter_in(parts, arena).into_bump_slice())
}

/// Reads one JSON value with nothing but white space around it; `None` if the text is not that, or nests deeper than
/// 512 levels. Whole numbers that fit are Long, others Double. Texts without escapes borrow from `json`.
pub fn parse_value<'a>(json: &'a str, arena: &'a Bump) -> Option<Value<'a>> {
    let space = |c| matches!(c, ' ' | '\n' | '\r' | '\t');
    let text = json.trim_matches(space);
    let first = text.bytes().next()?;
    // The grammar takes a number for finished only when something follows.
    let verdict = if matches!(first, b'-' | b'0'..=b'9') {
        grammar::value(&[text.as_bytes(), b" "].concat(), 0, grammar::DEPTH_MAX)
    } else {
        grammar::value(text.as_bytes(), 0, grammar::DEPTH_MAX)
    };
    (verdict == Verdict::End(text.len())).then(|| read_value(text, 0, arena).0)
}

/// The fields of an event that was checked ([`crate::EventBatch::event`]): names, and values as they are written. Of
/// fields with equal names, the last one is returned. Text that was not checked may give nonsense, or panic.
pub fn event_fields<'a>(event: &'a str, arena: &'a Bump) -> Vec<(&'a str, &'a str)> {
    let mut fields = Vec::new();
    if event.starts_with('{') {
        each_field(event.as_bytes(), 0, |key, escaped, at| {
            let (end, _) = value_end(event.as_bytes(), at);
            fields.push((read_string(event, key, escaped, arena), &event[at..end]));
            end
        });
        let kept = dedup_last(&mut fields, |(key, _)| *key);
        fields.truncate(kept);
    }
    fields
}

/// Reads the value at `at` in a text that is known to be good there; and where it ends.
fn read_value<'a>(text: &'a str, at: usize, arena: &'a Bump) -> (Value<'a>, usize) {
    let bytes = text.as_bytes();
    match bytes[at] {
        b'[' => {
            let mut parts = BumpVec::new_in(arena);
            let end = each_element(bytes, at, |at| {
                let (part, end) = read_value(text, at, arena);
                parts.push(part);
                end
            });
            (Value::List(parts.into_bump_slice()), end)
        }
        b'{' => {
            let mut fields = BumpVec::new_in(arena);
            let end = each_field(bytes, at, |key, escaped, at| {
                let (value, end) = read_value(text, at, arena);
                fields.push((read_string(text, key, escaped, arena), value));
                end
            });
            let kept = dedup_last(&mut fields, |(key, _)| *key);
            fields.truncate(kept);
            (Value::Map(fields.into_bump_slice()), end)
        }
        _ => {
            let (end, escaped) = value_end(bytes, at);
            (read_scalar(text, at..end, escaped, arena), end)
        }
    }
}

fn read_scalar<'a>(text: &'a str, place: Range<usize>, escaped: bool, arena: &'a Bump) -> Value<'a> {
    let scalar = &text.as_bytes()[place.clone()];
    match scalar[0] {
        b'"' => Value::String(read_string(text, place.start + 1..place.end - 1, escaped, arena)),
        b't' => Value::Boolean(true),
        b'f' => Value::Boolean(false),
        b'n' => Value::Null,
        _ => match number::plain_integer(scalar) {
            PlainInteger::Value(value) => Value::Long(value),
            PlainInteger::TooLarge | PlainInteger::Scaled => Value::Double(number::double(scalar)),
        },
    }
}

/// The content of the string whose text, without its quotes, is at `place`.
fn read_string<'a>(text: &'a str, place: Range<usize>, escaped: bool, arena: &'a Bump) -> &'a str {
    let inner = &text[place];
    if !escaped {
        return inner;
    }
    let mut plain = Vec::with_capacity(inner.len());
    unescape(inner.as_bytes(), &mut plain);
    arena.alloc_str(&String::from_utf8_lossy(&plain))
}

/// Adds `value` to `out` as JSON without white space. Null and Error are `null`; numbers that are not finite are the
/// texts `"NaN"`, `"Infinity"` and `"-Infinity"`; other doubles the shortest text that reads back the same, which always
/// has a point or an exponent; TIMESTAMP is RFC 3339 text in UTC.
pub fn write_json(value: &Value<'_>, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to memory cannot fail.
    let _ = match *value {
        Value::Null | Value::Error => out.write_all(b"null"),
        Value::Boolean(value) => out.write_all(if value { b"true" } else { b"false" }),
        Value::Integer(value) => write!(out, "{value}"),
        Value::Long(value) => write!(out, "{value}"),
        Value::Float(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::Double(value) if value.is_finite() => write!(out, "{value:?}"),
        Value::Float(value) => out.write_all(not_finite(f64::from(value))),
        Value::Double(value) => out.write_all(not_finite(value)),
        Value::String(text) => {
            write_string(text, out);
            Ok(())
        }
        Value::Timestamp(micros) => {
            out.push(b'"');
            time::write_rfc3339(micros, out);
            out.write_all(b"\"")
        }
        Value::List(parts) => {
            out.push(b'[');
            for (place, part) in parts.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_json(part, out);
            }
            out.write_all(b"]")
        }
        Value::Map(fields) => {
            out.push(b'{');
            for (place, (key, part)) in fields.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write_json(part, out);
            }
            out.write_all(b"}")
        }
    };
}

fn not_finite(value: f64) -> &'static [u8] {
    if value.is_nan() {
        b"\"NaN\""
    } else if value > 0.0 {
        b"\"Infinity\""
    } else {
        b"\"-Infinity\""
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    use std::io::Write;
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let stop = string_stop::<false>(rest, 0);
        out.extend_from_slice(&rest[..stop]);
        let Some(&byte) = rest.get(stop) else { break };
        // Writing to memory cannot fail.
        let _ = match byte {
            b'"' => out.write_all(b"\\\""),
            b'\\' => out.write_all(b"\\\\"),
            b'\n' => out.write_all(b"\\n"),
            b'\r' => out.write_all(b"\\r"),
            b'\t' => out.write_all(b"\\t"),
            control => write!(out, "\\u{control:04x}"),
        };
        rest = &rest[stop + 1..];
    }
    out.push(b'"');
}
