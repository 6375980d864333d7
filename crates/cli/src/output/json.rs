//! Writes the JSON forms of an answer: NDJSON, emits, and one document.

use std::io::{self, Write};

use super::{Emit, Form, lines};

/// A record a line.
pub(super) struct Ndjson<'a> {
    out: Box<dyn Write + 'a>,
}

impl<'a> Ndjson<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> Self {
        Ndjson { out }
    }
}

impl Form for Ndjson<'_> {
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()> {
        self.out.write_all(emit.records)?;
        self.out.flush()
    }

    fn end(&mut self, _: &str) -> io::Result<()> {
        self.out.flush()
    }
}

/// An emit a line.
pub(super) struct Emits<'a> {
    out: Box<dyn Write + 'a>,
}

impl<'a> Emits<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> Self {
        Emits { out }
    }
}

impl Form for Emits<'_> {
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()> {
        self.out.write_all(b"{\"records\":[")?;
        write_separated(&mut self.out, emit.records, b",")?;
        writeln!(self.out, "],\"meta\":{}}}", emit.meta_text)?;
        self.out.flush()
    }

    fn end(&mut self, _: &str) -> io::Result<()> {
        self.out.flush()
    }

    fn shows_meta(&self) -> bool {
        true
    }
}

/// One document: `{"records": […], "meta": {…}}`, or `{"windows": [{"window": {…}, "records": […]}, …], "meta": {…}}`.
/// Written as it comes, so that it needs no memory; it is JSON once it is complete.
pub(super) struct Document<'a> {
    out: Box<dyn Write + 'a>,
    /// The content: nothing, records or windows.
    holds: Holds,
    first: bool,
}

#[derive(PartialEq, Clone, Copy)]
enum Holds {
    Unknown,
    Records,
    Windows,
}

impl<'a> Document<'a> {
    pub(super) fn new(out: Box<dyn Write + 'a>) -> Self {
        Document { out, holds: Holds::Unknown, first: true }
    }

    fn separate(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(separator)
    }
}

impl Form for Document<'_> {
    fn emit(&mut self, emit: &Emit<'_>) -> io::Result<()> {
        if self.holds == Holds::Unknown {
            self.holds = if emit.meta.window.is_some() { Holds::Windows } else { Holds::Records };
            self.out.write_all(if self.holds == Holds::Windows {
                b"{\"windows\":["
            } else {
                b"{\"records\":["
            })?;
        }
        if self.holds == Holds::Windows {
            // The last emit of a windowed query may be without a window, and is then without records.
            if emit.meta.window.is_some() {
                let window = window_text(emit.meta_text)?;
                self.separate()?;
                write!(self.out, "{{\"window\":{window},\"records\":[")?;
                write_separated(&mut self.out, emit.records, b",")?;
                self.out.write_all(b"]}")?;
            }
        } else {
            for record in lines(emit.records) {
                self.separate()?;
                self.out.write_all(record)?;
            }
        }
        self.out.flush()
    }

    fn end(&mut self, meta_text: &str) -> io::Result<()> {
        if self.holds == Holds::Unknown {
            self.out.write_all(b"{\"records\":[")?;
        }
        let meta = if meta_text.is_empty() { "null" } else { meta_text };
        writeln!(self.out, "{}],\"meta\":{meta}}}", if self.first { "" } else { "\n" })?;
        self.out.flush()
    }

    fn shows_meta(&self) -> bool {
        true
    }
}

/// The window of an emit, in its own spelling.
fn window_text(meta_text: &str) -> io::Result<Box<serde_json::value::RawValue>> {
    #[derive(serde::Deserialize)]
    struct Window {
        window: Box<serde_json::value::RawValue>,
    }
    Ok(serde_json::from_str::<Window>(meta_text)?.window)
}

fn write_separated(out: &mut dyn Write, records: &[u8], separator: &[u8]) -> io::Result<()> {
    for (at, record) in lines(records).enumerate() {
        if at > 0 {
            out.write_all(separator)?;
        }
        out.write_all(record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::tests::written, *};

    const WINDOWED: &[(&str, &str)] = &[
        ("{\"n\":1}\n{\"n\":2}\n", r#"{"window":{"number":1}}"#),
        ("", r#"{"window":{"number":2}}"#),
        ("", r#"{"window":null,"query":{"finished":"x"}}"#),
    ];

    #[test]
    fn ndjson_is_a_record_a_line() {
        assert_eq!(written(|out| Box::new(Ndjson::new(out)), WINDOWED), "{\"n\":1}\n{\"n\":2}\n");
    }

    #[test]
    fn emits_are_an_emit_a_line() {
        let expected = "{\"records\":[{\"n\":1},{\"n\":2}],\"meta\":{\"window\":{\"number\":1}}}\n";
        assert!(written(|out| Box::new(Emits::new(out)), WINDOWED).starts_with(expected));
    }

    #[test]
    fn a_document_is_json_whatever_came() {
        let cases: [&[(&str, &str)]; 4] =
            [&[], &[("", "{}")], &[("{\"n\":1}\n", "{}"), ("{\"n\":2}\n", "{}")], WINDOWED];
        let documents = cases.map(|emits| {
            let text = written(|out| Box::new(Document::new(out)), emits);
            serde_json::from_str::<serde_json::Value>(&text).unwrap().to_string()
        });
        assert_eq!(documents[0], r#"{"records":[],"meta":null}"#);
        assert_eq!(documents[1], r#"{"records":[],"meta":{}}"#);
        assert_eq!(documents[2], r#"{"records":[{"n":1},{"n":2}],"meta":{}}"#);
        let windows =
            r#"[{"window":{"number":1},"records":[{"n":1},{"n":2}]},{"window":{"number":2},"records":[]}]"#;
        assert_eq!(documents[3], format!(r#"{{"windows":{windows},"meta":{}}}"#, WINDOWED[2].1));
    }
}
