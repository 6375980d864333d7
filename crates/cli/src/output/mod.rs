//! Writes answers for people and programs: tables, NDJSON, emits, one JSON document, CSV.
//!
//! A writer gets each emit in order, then the end. It flushes after each emit, so that the reader of a live answer has it at
//! once. Knows nothing of the source of emits.

mod csv;
mod json;
mod record;
mod scroll;
mod table;
mod terminal;

pub(crate) use table::cut;

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::OutputForm;

/// One emit.
pub(crate) struct Emit<'a> {
    /// Its records: one JSON object a line, each line ended.
    pub(crate) records: &'a [u8],
    /// Their meta, as JSON.
    pub(crate) meta_text: &'a str,
    /// The same, read.
    pub(crate) meta: &'a Meta,
}

/// The fields of an emit's meta that the forms use; missing ones are empty.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Meta {
    /// The query.
    pub(crate) query: QueryPart,
    /// The window of the records.
    pub(crate) window: Option<WindowPart>,
    /// The stream.
    pub(crate) stream: StreamPart,
    /// Events since the query began.
    pub(crate) counts: CountsPart,
    /// Further warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// The error that ended the query.
    pub(crate) error: Option<ErrorPart>,
}

/// The error in a [`Meta`].
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorPart {
    /// The fault.
    pub(crate) message: String,
    /// The advice to the user.
    pub(crate) hint: Option<String>,
}

/// The query in a [`Meta`].
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct QueryPart {
    /// Its identity.
    pub(crate) id: String,
    /// The end of the query; only in the last emit.
    pub(crate) finished: Option<serde_json::Value>,
    /// The reason of the end.
    pub(crate) reason: Option<String>,
    /// Names of the columns, where they are known before the events are.
    pub(crate) columns: Option<Vec<String>>,
}

/// The window in a [`Meta`].
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct WindowPart {
    /// The kind of windows.
    pub(crate) kind: String,
    /// The number, from 1.
    pub(crate) number: u64,
    /// Its first instant.
    pub(crate) start: String,
    /// The first instant after it.
    pub(crate) end: String,
}

/// The stream in a [`Meta`].
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct StreamPart {
    /// Its name.
    pub(crate) name: String,
    /// Milliseconds behind.
    pub(crate) lag_ms: u64,
}

/// The counts in a [`Meta`].
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct CountsPart {
    /// Looked at.
    pub(crate) seen: u64,
    /// Matched.
    pub(crate) matched: u64,
    /// Number of events with a value that did not fit.
    pub(crate) mistyped: u64,
    /// Number of events after their window.
    pub(crate) late: u64,
    /// Number of events with a time too far ahead of their arrival.
    pub(crate) ahead: u64,
    /// Lost because this reader was slow.
    pub(crate) dropped: u64,
    /// Operations that could not be done.
    pub(crate) expression_errors: u64,
}

/// Writes answers in a form.
pub(crate) trait Form {
    /// The next emit.
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()>;
    /// The end of the answer. `meta_text` is the last emit's, empty if there was none.
    fn end(&mut self, meta_text: &str) -> io::Result<()>;
    /// Returns true if the meta is in the output, so that it need not be shown beside it.
    fn shows_meta(&self) -> bool {
        false
    }
}

/// A form, writing to `out`. `terminal` has its width and height if the output is a terminal.
pub(crate) fn form<'a>(
    form: OutputForm,
    out: Box<dyn Write + 'a>,
    terminal: Option<Size>,
) -> Box<dyn Form + 'a> {
    match form {
        OutputForm::Table => match terminal {
            Some(size) => Box::new(terminal::TerminalTable::new(out, size)),
            None => Box::new(scroll::PlainTable::new(out)),
        },
        OutputForm::Ndjson => Box::new(json::Ndjson::new(out)),
        OutputForm::Emits => Box::new(json::Emits::new(out)),
        OutputForm::Json => Box::new(json::Document::new(out)),
        OutputForm::Csv => Box::new(csv::Csv::new(out)),
    }
}

/// A terminal's size, asked anew each time: people drag windows about.
pub(crate) type Size = Box<dyn Fn() -> (usize, usize)>;

/// The size of the terminal on standard output: rows and columns.
pub(crate) fn terminal_size() -> Size {
    Box::new(|| {
        let (rows, columns) = console::Term::stdout().size();
        (usize::from(rows).max(4), usize::from(columns).max(20))
    })
}

/// An emit as a server sends it.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    records: Vec<&'a RawValue>,
    #[serde(borrow)]
    meta: &'a RawValue,
}

/// Reads an emit as a server sends it, records in their own spelling, and hands it on.
pub(crate) fn with_wire_emit<T>(line: &[u8], then: impl FnOnce(&Emit<'_>) -> T) -> serde_json::Result<T> {
    let wire: Wire<'_> = serde_json::from_slice(line)?;
    let meta = serde_json::from_str(wire.meta.get())?;
    let mut records = Vec::with_capacity(line.len());
    for record in &wire.records {
        // A record that a proxy or a person spread over lines is one line again; text in JSON holds no bare line ends.
        records.extend(
            record.get().bytes().map(|byte| if byte == b'\n' || byte == b'\r' { b' ' } else { byte }),
        );
        records.push(b'\n');
    }
    Ok(then(&Emit { records: &records, meta_text: wire.meta.get(), meta: &meta }))
}

/// The lines of records.
fn lines(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    records.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

impl Meta {
    /// One line that tells a person how the answer stands.
    pub(crate) fn summary(&self) -> String {
        let CountsPart { seen, matched, mistyped, late, ahead, dropped, expression_errors } = self.counts;
        let mut out = format!("{} of {} events matched", grouped(matched), grouped(seen));
        let counts = [
            (mistyped, "mistyped"),
            (late, "late"),
            (ahead, "ahead of their time"),
            (dropped, "records lost"),
            (expression_errors, "expression errors"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            out.push_str(&format!(", {} {what}", grouped(count)));
        }
        if self.stream.lag_ms > 1_000 {
            out.push_str(&format!(", {} s behind", self.stream.lag_ms / 1_000));
        }
        if let Some(window) = &self.window {
            let (start, end) = (clock_part(&window.start), clock_part(&window.end));
            out = format!("window {} ({start} to {end}) · {out}", window.number);
        }
        out
    }
}

/// A number with its thousands apart: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The time of day of an RFC 3339 time, in UTC as it stands there.
fn clock_part(time: &str) -> &str {
    time.split_once('T').map_or(time, |(_, clock)| clock.trim_end_matches('Z'))
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;

    /// The output of a form for these emits: records as lines, meta as JSON.
    pub(super) fn written(
        make: impl FnOnce(Box<dyn Write>) -> Box<dyn Form>,
        emits: &[(&str, &str)],
    ) -> String {
        #[derive(Clone, Default)]
        struct Shared(Rc<RefCell<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.borrow_mut().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let out = Shared::default();
        let mut form = make(Box::new(out.clone()));
        let mut last = "";
        for (records, meta_text) in emits {
            let meta = serde_json::from_str(meta_text).unwrap();
            form.emit(&Emit { records: records.as_bytes(), meta_text, meta: &meta }).unwrap();
            last = meta_text;
        }
        form.end(last).unwrap();
        drop(form);
        let bytes = out.0.borrow().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn wire_emits_keep_the_spelling_of_records() {
        let line = br#"{"records": [{"n": 1.0, "big": 123456789012345678901}, {"t":"a\nb"}], "meta": {"counts": {"seen": 5}, "new": 1}}"#;
        let records = with_wire_emit(line, |emit| {
            assert_eq!(emit.meta.counts.seen, 5);
            String::from_utf8(emit.records.to_vec()).unwrap()
        });
        let records = records.unwrap();
        assert_eq!(records, "{\"n\": 1.0, \"big\": 123456789012345678901}\n{\"t\":\"a\\nb\"}\n");
    }

    #[test]
    fn the_summary_names_what_is_not_as_it_should_be() {
        let meta = r#"{"window": {"kind": "tumbling", "number": 3, "start": "2026-01-01T10:00:00.000Z", "end": "2026-01-01T10:00:05.000Z"},
            "counts": {"seen": 1234567, "matched": 42, "dropped": 1}}"#;
        let meta: Meta = serde_json::from_str(meta).unwrap();
        let expected =
            "window 3 (10:00:00.000 to 10:00:05.000) · 42 of 1,234,567 events matched, 1 records lost";
        assert_eq!(meta.summary(), expected);
    }
}
