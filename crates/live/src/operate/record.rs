//! Writes records as JSON text, one object a line.

use bumpalo::Bump;
use swiftwater_event::{Value, event_fields, write_json};
use swiftwater_lang::{Dialect, plan::Star};

use crate::standing::{CompiledBody, CompiledColumn, StandingQuery};

/// Writes records of computed columns.
pub(crate) struct RecordWriter<'q> {
    columns: &'q [CompiledColumn],
    nulls_are_shown: bool,
    omits_null: bool,
    /// True if null fields of the event are omitted, for `*`.
    pub(crate) omits_event_null: bool,
    /// The columns to write; none: all.
    pub(crate) wanted: Option<&'q [bool]>,
}

impl<'q> RecordWriter<'q> {
    /// `nulls_are_shown`: aggregates that have no value are written as null in every dialect; what is computed of them
    /// is as any other column.
    pub(crate) fn new(
        columns: &'q [CompiledColumn],
        dialect: Dialect,
        nulls_are_shown: bool,
    ) -> RecordWriter<'q> {
        let omits_null = dialect.omits_null_columns();
        RecordWriter { columns, nulls_are_shown, omits_null, omits_event_null: omits_null, wanted: None }
    }

    /// One record of the columns alone; `values[c][row]` is column c's.
    pub(crate) fn write(&self, values: &[Vec<Value<'_>>], row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_columns(values, row, true, out);
        out.extend_from_slice(b"}\n");
    }

    /// One record of the event's own fields and, after them, the columns.
    pub(crate) fn write_star(
        &self,
        event: &[u8],
        star: &Star,
        values: &[Vec<Value<'_>>],
        row: usize,
        arena: &Bump,
        out: &mut Vec<u8>,
    ) {
        if self.columns.is_empty() && star.without.is_empty() && !self.omits_event_null {
            write_line(event, out);
            return;
        }
        let start = out.len();
        out.push(b'{');
        let mut is_first = true;
        for (name, value) in event_fields(std::str::from_utf8(event).unwrap_or_default(), arena) {
            // If null columns are omitted, they do not replace a field of the event either.
            let replaced = self.columns.iter().zip(values).any(|(column, values)| {
                &*column.name == name
                    && !(self.omits_null && matches!(values[row], Value::Null | Value::Error))
            });
            let left_out = star.without.iter().any(|other| **other == *name);
            let omitted = self.omits_event_null && value == "null";
            if replaced || left_out || omitted {
                continue;
            }
            separate(&mut is_first, out);
            write_json(&Value::String(name), out);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        self.write_columns(values, row, is_first, out);
        out.push(b'}');
        join_lines(&mut out[start..]);
        out.push(b'\n');
    }

    fn write_columns(&self, values: &[Vec<Value<'_>>], row: usize, mut is_first: bool, out: &mut Vec<u8>) {
        for (place, (column, values)) in self.columns.iter().zip(values).enumerate() {
            if !is_wanted(self.wanted, place) {
                continue;
            }
            let value = &values[row];
            // An error has no text in any dialect: it is omitted if nulls are, and is null otherwise.
            let omitted = match value {
                Value::Null => self.omits_null && !(self.nulls_are_shown && column.program.is_slot()),
                Value::Error => self.omits_null,
                _ => false,
            };
            if omitted {
                continue;
            }
            separate(&mut is_first, out);
            out.extend_from_slice(column.json_name.as_bytes());
            write_json(value, out);
        }
    }
}

/// True if a column is among those that are wanted.
pub(crate) fn is_wanted(wanted: Option<&[bool]>, column: usize) -> bool {
    wanted.is_none_or(|wanted| wanted.get(column).copied().unwrap_or(false))
}

/// The record of one row of a view, of the values of its columns, as [`RecordWriter::write`] writes it, without the line's end.
pub(crate) fn write_row(query: &StandingQuery, values: &[Value<'_>], out: &mut Vec<u8>) {
    let CompiledBody::Group(group) = &query.body else { return };
    let mut is_first = true;
    out.push(b'{');
    for (column, value) in group.columns.iter().zip(values) {
        separate(&mut is_first, out);
        out.extend_from_slice(column.json_name.as_bytes());
        write_json(value, out);
    }
    out.push(b'}');
}

fn separate(is_first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
}

/// An event's own text, made one line.
fn write_line(event: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(event);
    join_lines(&mut out[start..]);
    out.push(b'\n');
}

/// Line ends stand only between an event's tokens, where a space does as well.
fn join_lines(text: &mut [u8]) {
    for byte in text {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_over_several_lines_becomes_one() {
        let mut out = Vec::new();
        write_line(b"{\r\n \"a\": 1\n}", &mut out);
        assert_eq!(out, b"{   \"a\": 1 }\n");
    }
}
