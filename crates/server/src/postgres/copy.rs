//! Reads and writes the rows of `COPY`: PostgreSQL's own text, and its CSV. (PostgreSQL's documentation of COPY, "File
//! Formats".)
//!
//! Input comes in pieces of any size. Knows nothing of types: a value is text, or none for a null.
//! Limits: a row of [`ROW_BYTES_MAX`] bytes.

use swiftwater_sql::{CopyForm, forms::PgWriter};

/// The longest row that is read.
const ROW_BYTES_MAX: usize = 16 << 20;

/// A row that was read, and the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) values: Vec<Option<String>>,
}

/// Reads rows.
pub(super) struct CopyReader {
    form: CopyForm,
    state: State,
    /// Text: the line so far. CSV: the value so far.
    bytes: Vec<u8>,
    /// A value of CSV has been in quotes, if in part.
    was_quoted: bool,
    /// The last byte of the value is a carriage return outside of quotes: before a newline it belongs to that.
    is_return: bool,
    values: Vec<Option<String>>,
    /// Bytes of the row so far.
    row_bytes: usize,
    /// The line that is being read, and that on which the row began.
    line: u64,
    began: u64,
    /// The header was read, or there is none.
    is_past_header: bool,
    /// `\.` was read: what follows is passed over.
    is_ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    /// Text: after a backslash. CSV, within quotes: after the escape.
    Escaped,
    /// The state within quotes.
    Quoted,
    /// The state after a quote within quotes, where that is the escape, too: the end, or half of a quote.
    Quote,
}

impl CopyReader {
    pub(super) fn new(form: CopyForm) -> CopyReader {
        let is_past_header = !form.has_header;
        CopyReader {
            form,
            state: State::Plain,
            bytes: Vec::new(),
            was_quoted: false,
            is_return: false,
            values: Vec::new(),
            row_bytes: 0,
            line: 1,
            began: 1,
            is_past_header,
            is_ended: false,
        }
    }

    /// Reads on, and adds the rows that are complete; the error has the fault and its line.
    pub(super) fn push(&mut self, bytes: &[u8], rows: &mut Vec<Row>) -> Result<(), String> {
        for &byte in bytes {
            if self.is_ended {
                return Ok(());
            }
            self.row_bytes += 1;
            if self.row_bytes > ROW_BYTES_MAX {
                return Err(format!("line {}: the row is longer than {ROW_BYTES_MAX} bytes", self.began));
            }
            match self.form.is_csv {
                true => self.byte_of_csv(byte, rows)?,
                false => self.byte_of_text(byte, rows)?,
            }
            self.line += u64::from(byte == b'\n');
        }
        Ok(())
    }

    /// Ends the input: adds the last row, if it has no end.
    pub(super) fn finish(&mut self, rows: &mut Vec<Row>) -> Result<(), String> {
        if self.is_ended || self.row_bytes == 0 {
            return Ok(());
        }
        match (self.form.is_csv, self.state) {
            (true, State::Quoted | State::Escaped) => {
                Err(format!("line {}: a value in quotes has no end", self.began))
            }
            (true, _) => self.end_csv_row(rows),
            (false, _) => self.end_text_row(rows),
        }
    }

    fn byte_of_text(&mut self, byte: u8, rows: &mut Vec<Row>) -> Result<(), String> {
        if byte == b'\n' && self.state == State::Plain {
            return self.end_text_row(rows);
        }
        self.bytes.push(byte);
        self.state = match (self.state, byte) {
            (State::Plain, b'\\') => State::Escaped,
            _ => State::Plain,
        };
        Ok(())
    }

    fn end_text_row(&mut self, rows: &mut Vec<Row>) -> Result<(), String> {
        let mut line = std::mem::take(&mut self.bytes);
        if line.last() == Some(&b'\r') && !ends_escaped(&line[..line.len() - 1]) {
            line.pop();
        }
        if line == b"\\." {
            self.is_ended = true;
            return Ok(());
        }
        let mut from = 0;
        let mut is_escaped = false;
        for at in 0..=line.len() {
            match line.get(at) {
                Some(byte) if is_escaped || *byte != self.form.delimiter => {
                    is_escaped = !is_escaped && *byte == b'\\';
                }
                _ => {
                    let value = &line[from..at];
                    let value = match value == self.form.null.as_bytes() {
                        true => None,
                        false => Some(self.text(unescaped(value))?),
                    };
                    self.values.push(value);
                    from = at + 1;
                }
            }
        }
        self.end_row(rows);
        Ok(())
    }

    fn byte_of_csv(&mut self, byte: u8, rows: &mut Vec<Row>) -> Result<(), String> {
        let (quote, escape) = (self.form.quote, self.form.escape);
        let was_return = std::mem::take(&mut self.is_return);
        match self.state {
            State::Quoted if byte == escape && escape != quote => self.state = State::Escaped,
            State::Quoted if byte == quote => {
                self.state = if escape == quote { State::Quote } else { State::Plain };
            }
            State::Quoted => self.bytes.push(byte),
            State::Escaped => {
                // It stands for itself before anything else.
                if byte != quote && byte != escape {
                    self.bytes.push(escape);
                }
                self.bytes.push(byte);
                self.state = State::Quoted;
            }
            State::Quote if byte == quote => {
                self.bytes.push(quote);
                self.state = State::Quoted;
            }
            State::Quote | State::Plain => {
                self.state = State::Plain;
                if byte == quote {
                    self.was_quoted = true;
                    self.state = State::Quoted;
                } else if byte == self.form.delimiter {
                    self.end_csv_value()?;
                } else if byte == b'\n' {
                    if was_return {
                        self.bytes.pop();
                    }
                    self.end_csv_row(rows)?;
                } else {
                    self.bytes.push(byte);
                    self.is_return = byte == b'\r';
                }
            }
        }
        Ok(())
    }

    fn end_csv_value(&mut self) -> Result<(), String> {
        let bytes = std::mem::take(&mut self.bytes);
        let is_null = !self.was_quoted && bytes == self.form.null.as_bytes();
        let value = if is_null { None } else { Some(self.text(bytes)?) };
        self.values.push(value);
        self.was_quoted = false;
        Ok(())
    }

    fn end_csv_row(&mut self, rows: &mut Vec<Row>) -> Result<(), String> {
        if self.values.is_empty() && !self.was_quoted && self.bytes == b"\\." {
            self.is_ended = true;
            return Ok(());
        }
        self.end_csv_value()?;
        self.end_row(rows);
        Ok(())
    }

    fn end_row(&mut self, rows: &mut Vec<Row>) {
        let values = std::mem::take(&mut self.values);
        if std::mem::replace(&mut self.is_past_header, true) {
            rows.push(Row { line: self.began, values });
        }
        self.row_bytes = 0;
        self.began = self.line + 1;
        self.state = State::Plain;
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String, String> {
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        text.ok_or_else(|| format!("line {}: a value is not UTF-8", self.began))
    }
}

/// True if the last backslash stands for itself no more: what follows is escaped.
fn ends_escaped(bytes: &[u8]) -> bool {
    bytes.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// A value of text with its escapes taken off.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        let byte = value[at];
        at += 1;
        if byte != b'\\' || at == value.len() {
            out.push(byte);
            continue;
        }
        let escaped = value[at];
        at += 1;
        let digits = |from: usize, most: usize, radix: u32| {
            let digits = value[from..].iter().take(most);
            digits.map_while(|byte| char::from(*byte).to_digit(radix)).collect::<Vec<u32>>()
        };
        let number =
            |digits: &[u32], radix: u32| digits.iter().fold(0, |sum, digit| sum * radix + digit) as u8;
        match escaped {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let octal = digits(at - 1, 3, 8);
                out.push(number(&octal, 8));
                at += octal.len() - 1;
            }
            b'x' => match digits(at, 2, 16).as_slice() {
                [] => out.push(b'x'),
                hex => {
                    out.push(number(hex, 16));
                    at += hex.len();
                }
            },
            other => out.push(other),
        }
    }
    out
}

/// Adds the line that names the columns.
pub(super) fn write_header<'a>(names: impl Iterator<Item = &'a str>, form: &CopyForm, out: &mut Vec<u8>) {
    for (column, name) in names.enumerate() {
        if column > 0 {
            out.push(form.delimiter);
        }
        write_value(name.as_bytes(), false, form, out);
    }
    out.push(b'\n');
}

/// Adds a row of an answer that has so many columns.
pub(super) fn write_row(writer: &PgWriter, row: usize, columns: usize, form: &CopyForm, out: &mut Vec<u8>) {
    let mut value = Vec::new();
    for column in 0..columns {
        if column > 0 {
            out.push(form.delimiter);
        }
        value.clear();
        match writer.write(row, column, &mut value) {
            true => write_value(&value, columns == 1, form, out),
            false => out.extend_from_slice(form.null.as_bytes()),
        }
    }
    out.push(b'\n');
}

/// `is_alone`: in its row, where `\.` would end all.
fn write_value(value: &[u8], is_alone: bool, form: &CopyForm, out: &mut Vec<u8>) {
    if !form.is_csv {
        for &byte in value {
            let escape = match byte {
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                11 => b'v',
                12 => b'f',
                b'\r' => b'r',
                b'\\' => b'\\',
                byte if byte == form.delimiter => byte,
                byte => {
                    out.push(byte);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', escape]);
        }
        return;
    }
    let is_special =
        |byte: &u8| *byte == form.delimiter || *byte == form.quote || matches!(byte, b'\n' | b'\r');
    let needs_quotes =
        value == form.null.as_bytes() || value.iter().any(is_special) || (is_alone && value == b"\\.");
    if !needs_quotes {
        out.extend_from_slice(value);
        return;
    }
    out.push(form.quote);
    for &byte in value {
        if byte == form.quote || byte == form.escape {
            out.push(form.escape);
        }
        out.push(byte);
    }
    out.push(form.quote);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> CopyForm {
        let null = "\\N".to_owned();
        CopyForm { is_csv: false, delimiter: b'\t', null, has_header: false, quote: b'"', escape: b'"' }
    }

    fn csv() -> CopyForm {
        CopyForm { is_csv: true, delimiter: b',', null: String::new(), ..text() }
    }

    fn read(form: &CopyForm, bytes: &[u8], piece: usize) -> Result<Vec<Row>, String> {
        let (mut reader, mut rows) = (CopyReader::new(form.clone()), Vec::new());
        for piece in bytes.chunks(piece) {
            reader.push(piece, &mut rows)?;
        }
        reader.finish(&mut rows)?;
        Ok(rows)
    }

    /// Rows as `line:value|value`, a null as `~`.
    #[track_caller]
    fn check(form: &CopyForm, bytes: &str, expected: Result<&str, &str>) {
        for piece in 1..=bytes.len() {
            let rows = read(form, bytes.as_bytes(), piece);
            let shown = rows.map(|rows| {
                let row = |row: &Row| {
                    let values = row.values.iter().map(|value| value.as_deref().unwrap_or("~"));
                    format!("{}:{}", row.line, values.collect::<Vec<_>>().join("|"))
                };
                rows.iter().map(row).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(shown.as_deref().map_err(String::as_str), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn text_is_read_with_its_escapes() {
        check(&text(), "1\ta\n2\t\\N\n\t\n", Ok("1:1|a 2:2|~ 3:|"));
        check(&text(), "a\\tb\\\\\\x41\\101\\q\t\\\t\r\nlast\tone", Ok("1:a\tb\\AAq|\t 2:last|one"));
        check(&text(), "a\\\nb\nc\n", Ok("1:a\nb 3:c"));
        check(&text(), "a\n\\.\nb\n", Ok("1:a"));
        check(&CopyForm { has_header: true, ..text() }, "a\tb\n1\t2\n", Ok("2:1|2"));
    }

    #[test]
    fn csv_is_read_with_its_quotes() {
        check(&csv(), "1,a\n,\"\"\n\"x\"\"y,\nz\",w\r\n\"q\"\r\nl", Ok("1:1|a 2:~| 3:x\"y,\nz|w 5:q 6:l"));
        check(&csv(), "a\"b,\"c\n\"d\n", Err("line 2: a value in quotes has no end"));
        let odd = CopyForm { delimiter: b';', null: "-".to_owned(), quote: b'\'', escape: b'\\', ..csv() };
        check(&odd, "'a\\'b\\\\c\\d';-;'-';\n", Ok("1:a'b\\c\\d|~|-|"));
        check(&csv(), "a\n\\.\nb\n", Ok("1:a"));
    }

    #[test]
    fn what_is_no_utf8_is_told() {
        let fault = Err("line 2: a value is not UTF-8".to_owned());
        assert_eq!(read(&text(), b"a\n\xff\n", 9).map(|_| ()), fault);
        assert_eq!(read(&csv(), b"a\n\xff\n", 9).map(|_| ()), fault);
        assert_eq!(read(&text(), b"a\n\\000\n", 9).map(|_| ()), fault);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            rows in prop::collection::vec(prop::collection::vec(prop::option::of("[a\\\\.N\t,;'\"\n\r-]{0,5}"), 1..4), 0..5),
            form in prop::sample::select(vec![
                text(),
                csv(),
                CopyForm { delimiter: b';', null: "-".to_owned(), quote: b'\'', escape: b'\\', ..csv() },
                CopyForm { delimiter: b',', null: String::new(), ..text() },
            ]),
            piece in 1usize..7,
        ) {
            let mut written = Vec::new();
            for row in &rows {
                for (column, value) in row.iter().enumerate() {
                    if column > 0 {
                        written.push(form.delimiter);
                    }
                    match value {
                        Some(value) => write_value(value.as_bytes(), row.len() == 1, &form, &mut written),
                        None => written.extend_from_slice(form.null.as_bytes()),
                    }
                }
                written.push(b'\n');
            }
            let mut expected = rows.clone();
            if !form.is_csv && form.null.is_empty() {
                // In the text format an empty value cannot be distinguished from a null that is written as an empty
                // text.
                let empty = |value: &mut Option<String>| if value.as_deref() == Some("") { *value = None };
                expected.iter_mut().flatten().for_each(empty);
            }
            let read: Vec<_> = read(&form, &written, piece).unwrap().into_iter().map(|row| row.values).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), is_csv in any::<bool>()) {
            let _ = read(&if is_csv { csv() } else { text() }, &bytes, 7);
        }
    }
}
