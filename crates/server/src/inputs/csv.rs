//! Converts CSV (RFC 4180) with a header to JSON objects, one per line.
//!
//! The first record names the fields. An unquoted value that is written like a JSON number, `true` or `false` becomes that;
//! an empty one is left out. All other values, and all quoted ones, are text. If a stream declares a column for a field, the
//! column decides the type of a value, quoted or not. A STRING is text (`01234`, `12345`); JSON, lists and maps are parsed
//! as JSON; for other columns, a value written like a number or a boolean becomes that. The server's output in CSV can
//! therefore be sent back.
//!
//! A record with fewer values than names leaves the last ones out. A record with more values is refused, and so is one with
//! an unquoted carriage return that no newline follows. Each record becomes one line, and each further line of a quoted
//! value an empty one. Line numbers in errors are therefore those of the CSV. A header that is not UTF-8, or has a name
//! twice, is an error, and no record after it is read. Names may be empty, but a value of a second empty name is refused.
//!
//! Limits: a record has at most [`RECORD_BYTES_MAX`] bytes; a longer one is refused.

use std::collections::HashMap;

use axum::http::{HeaderMap, header};
use swiftwater_event::{Checked, Primitive, RefusedText, Type};
use swiftwater_lang::ddl::SYSTEM_COLUMNS;

/// The longest record.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// Prefix of a line that describes the fault of a record: no object begins with it, so it is refused, with its line.
const FAULT: &[u8] = b"# ";
/// A fault is shorter than this.
pub(crate) const FAULT_BYTES: usize = 128;
const NOT_UTF8: &str = "is not UTF-8";
/// A byte order mark, in UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";
const LONE_RETURN: &str = "has a carriage return that no newline follows";
/// The way a member without a name begins.
const EMPTY_NAME: &[u8] = b"\"\":";
/// A name in a fault is cut near here.
const NAME_BYTES_TOLD: usize = 32;
/// The separator between a fault and the text of its record, if that is kept.
const TEXT: u8 = b'\t';
/// A newline of such a text: no text in UTF-8 has this byte.
const NEWLINE: u8 = 0xFF;

/// Replaces the lines that describe faults by the faults of the records and their texts.
pub(crate) fn report_faults(checked: &mut Checked) {
    for RefusedText { rejection, text, .. } in &mut checked.refused {
        let Some(told) = text.strip_prefix(FAULT) else { continue };
        let (told, record) = match told.iter().position(|byte| *byte == TEXT) {
            Some(end) => (&told[..end], Some(&told[end + 1..])),
            None => (told, None),
        };
        rejection.message = String::from_utf8_lossy(told).into_owned();
        let described = checked.rejections.iter_mut().filter(|described| described.line == rejection.line);
        described.for_each(|described| described.message.clone_from(&rejection.message));
        if let Some(record) = record {
            *text = record.iter().map(|byte| if *byte == NEWLINE { b'\n' } else { *byte }).collect();
        }
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|field| field.to_str().ok()).unwrap_or_default()
}

/// True if a body is CSV.
pub(crate) fn is_csv(headers: &HeaderMap) -> bool {
    let media_type = content_type(headers).split(';').next().unwrap_or_default().trim();
    ["text/csv", "application/csv"].iter().any(|csv| media_type.eq_ignore_ascii_case(csv))
}

/// True if a body of CSV says that its first record names nothing: `header=absent` (RFC 7111, section 5.1).
pub(crate) fn is_without_header(headers: &HeaderMap) -> bool {
    content_type(headers).split(';').skip(1).filter_map(|parameter| parameter.split_once('=')).any(
        |(name, value)| {
            name.trim().eq_ignore_ascii_case("header")
                && value.trim().trim_matches('"').eq_ignore_ascii_case("absent")
        },
    )
}

/// Reads CSV in pieces of any size, and makes lines of JSON of it.
#[derive(Debug, Default)]
pub struct CsvEvents {
    /// The names, as the beginnings of members: `"name":`.
    names: Option<Vec<Vec<u8>>>,
    /// The value that is being read, quotes taken off.
    value: Vec<u8>,
    quoted: bool,
    /// The declared types of fields, by name.
    declared: HashMap<Box<str>, Declared>,
    /// The same of the header's names, in their order.
    columns: Vec<Option<Declared>>,
    state: State,
    /// Values of the record that were read.
    values: usize,
    /// The record so far: names, or an object without its end.
    record: Vec<u8>,
    header: Vec<Vec<u8>>,
    header_bytes: usize,
    /// Newlines within values of this record.
    more_lines: usize,
    /// The record is longer than may be.
    is_too_long: bool,
    /// The first value of the record that cannot be one, from 1, and why.
    bad_value: Option<(usize, &'static str)>,
    /// The last byte was a carriage return outside of quotes.
    has_return: bool,
    /// The header has a fault, so no record is an event.
    has_no_names: bool,
    /// The most bytes of the text of a record that is no event, which stand behind its fault; 0: none do.
    text_bytes_kept: usize,
    /// The beginning of the record's text, in the pieces before, as far as it is kept.
    text: Vec<u8>,
}

/// The values that a declared column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declared {
    Text,
    /// Lists, maps, or any JSON.
    Json,
    /// Numbers, truth values, times.
    Scalar,
    /// A column that the server has by itself: it is left out.
    System,
}

impl Declared {
    fn of(ty: &Type) -> Declared {
        match ty {
            Type::Primitive(Primitive::String) => Declared::Text,
            Type::Any | Type::List(_) | Type::Map(_) => Declared::Json,
            Type::Primitive(_) => Declared::Scalar,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// The beginning of a value.
    #[default]
    Begin,
    Plain,
    Quoted,
    /// After a quote within a value in quotes: its end, or half of a quote in it.
    Quote,
}

impl CsvEvents {
    /// Sets the number of bytes of text that the lines of faulty records contain, for [`report_faults`].
    pub(crate) fn keeping(text_bytes_kept: usize) -> CsvEvents {
        CsvEvents { text_bytes_kept, ..CsvEvents::default() }
    }

    /// Reads values of these fields as what is declared of them.
    #[must_use]
    pub fn declared<N: Into<Box<str>>>(self, fields: impl IntoIterator<Item = (N, Type)>) -> CsvEvents {
        let fields = fields.into_iter().map(|(name, ty)| (name.into(), Declared::of(&ty)));
        let mut declared: HashMap<Box<str>, Declared> = fields.collect();
        if !declared.is_empty() {
            declared.extend(SYSTEM_COLUMNS.map(|name| (name.into(), Declared::System)));
        }
        CsvEvents { declared, ..self }
    }

    /// The fault of a record, if a line describes one.
    pub fn fault(line: &[u8]) -> Option<&str> {
        std::str::from_utf8(line.strip_prefix(FAULT)?).ok()
    }

    /// Reads on; adds the events that are complete.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut begin = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' && self.state != State::Quoted {
                self.end_line(&bytes[begin..at], out);
                begin = at + 1;
            } else {
                self.byte(byte);
            }
        }
        let rest = &bytes[begin..];
        let room = self.text_bytes_kept - self.text.len();
        self.text.extend_from_slice(&rest[..rest.len().min(room)]);
    }

    /// The text is at its end: adds the last event, if it has no newline.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Quoted {
            self.push_fault("the text ends inside quotes", &[], out);
            out.push(b'\n');
        } else if self.state != State::Begin || self.values > 0 {
            self.end_record(&[], out);
        }
    }

    /// `text`: of the line's text, what is in this piece.
    fn end_line(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if self.state == State::Begin && self.values == 0 {
            out.push(b'\n');
        } else {
            self.end_record(text, out);
        }
        self.text.clear();
        self.has_return = false;
    }

    /// Writes the fault of a record as a line; the record's text continues with `rest`.
    fn push_fault(&self, told: &str, rest: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(FAULT);
        out.extend_from_slice(told.as_bytes());
        if self.text_bytes_kept > 0 {
            out.push(TEXT);
            let kept = self.text.iter().chain(rest).take(self.text_bytes_kept);
            out.extend(kept.map(|byte| if *byte == b'\n' { NEWLINE } else { *byte }));
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.has_return && byte != b'\r' {
            self.has_return = false;
            self.bad_value.get_or_insert((self.values + 1, LONE_RETURN));
        }
        match (self.state, byte) {
            (State::Quoted, b'"') => self.state = State::Quote,
            (State::Quoted, _) => {
                self.more_lines += usize::from(byte == b'\n');
                self.push_byte(byte);
            }
            (State::Quote, b'"') => {
                self.push_byte(b'"');
                self.state = State::Quoted;
            }
            (State::Begin, b'"') => {
                self.quoted = true;
                self.state = State::Quoted;
            }
            // The first name of all, behind a byte order mark.
            (State::Plain, b'"') if self.names.is_none() && self.values == 0 && self.value == MARK => {
                self.value.clear();
                self.quoted = true;
                self.state = State::Quoted;
            }
            (_, b',') => self.end_value(),
            // Before a newline it belongs to that.
            (State::Begin | State::Plain | State::Quote, b'\r') => self.has_return = true,
            (_, byte) => {
                self.push_byte(byte);
                self.state = State::Plain;
            }
        }
    }

    fn push_byte(&mut self, byte: u8) {
        if self.record.len() + self.value.len() < RECORD_BYTES_MAX {
            self.value.push(byte);
        } else {
            self.is_too_long = true;
        }
    }

    fn end_value(&mut self) {
        match &self.names {
            None => {
                // A byte order mark is no part of a name.
                let first = self.header.is_empty() && self.value.starts_with(MARK);
                let mut member = Vec::new();
                let name = &self.value[if first { 3 } else { 0 }..];
                if std::str::from_utf8(name).is_err() {
                    self.bad_value.get_or_insert((self.values + 1, NOT_UTF8));
                }
                // All of it is kept until the last record, so all of it is bounded.
                self.header_bytes += name.len() + size_of::<Vec<u8>>();
                if self.header_bytes > RECORD_BYTES_MAX {
                    self.is_too_long = true;
                } else {
                    let declared = std::str::from_utf8(name).ok().and_then(|name| self.declared.get(name));
                    self.columns.push(declared.copied());
                    push_text(name, &mut member);
                    member.push(b':');
                    self.header.push(member);
                }
            }
            Some(names) => {
                let declared = self.columns.get(self.values).copied().flatten();
                let is_there = (self.quoted || !self.value.is_empty()) && declared != Some(Declared::System);
                if let Some(name) = names.get(self.values)
                    && is_there
                {
                    if name.is_empty() {
                        self.bad_value.get_or_insert((self.values + 1, "has no name in the header"));
                    }
                    self.record.push(if self.record.is_empty() { b'{' } else { b',' });
                    self.record.extend_from_slice(name);
                    if std::str::from_utf8(&self.value).is_err() {
                        self.bad_value.get_or_insert((self.values + 1, NOT_UTF8));
                    }
                    let is_scalar = || is_json_scalar(&self.value);
                    let is_as_it_is = match declared {
                        None => !self.quoted && is_scalar(),
                        Some(Declared::Text | Declared::System) => false,
                        Some(Declared::Json) => !self.quoted && is_scalar() || is_json(&self.value),
                        Some(Declared::Scalar) => is_scalar(),
                    };
                    if is_as_it_is {
                        // Newlines between tokens of JSON are space; an event is one line.
                        let one_line = self.value.iter().map(|byte| if *byte < b' ' { b' ' } else { *byte });
                        self.record.extend(one_line);
                    } else {
                        push_text(&self.value, &mut self.record);
                    }
                }
            }
        }
        self.values += 1;
        self.value.clear();
        self.quoted = false;
        self.state = State::Begin;
    }

    fn end_record(&mut self, text: &[u8], out: &mut Vec<u8>) {
        self.end_value();
        match &self.names {
            None => {
                let mut header = std::mem::take(&mut self.header);
                if let Some(told) = self.header_fault(&mut header) {
                    self.has_no_names = true;
                    self.push_fault(&told, text, out);
                }
                self.names = Some(header);
            }
            Some(_) if self.has_no_names => {}
            Some(_) if self.is_too_long => self.push_fault("this record is too long", text, out),
            Some(names) if self.values > names.len() => {
                let told = format!("{} values, and {} names in the header", self.values, names.len());
                self.push_fault(&told, text, out);
            }
            Some(_) if let Some((number, why)) = self.bad_value => {
                self.push_fault(&format!("value {number} {why}"), text, out);
            }
            Some(_) => {
                if self.record.is_empty() {
                    self.record.push(b'{');
                }
                self.record.push(b'}');
                out.extend_from_slice(&self.record);
            }
        }
        out.resize(out.len() + 1 + self.more_lines, b'\n');
        self.record.clear();
        self.values = 0;
        self.more_lines = 0;
        self.is_too_long = false;
        self.bad_value = None;
    }

    /// Checks the header. Takes away the second empty name and those after it: values of theirs are refused.
    fn header_fault(&self, header: &mut [Vec<u8>]) -> Option<String> {
        if self.is_too_long {
            return Some("the header is too long".to_owned());
        }
        if let Some((number, why)) = self.bad_value {
            return Some(format!("name {number} of the header {why}"));
        }
        let mut seen: HashMap<&[u8], usize> = HashMap::new();
        let mut empty = Vec::new();
        for (index, member) in header.iter().enumerate() {
            let Some(first) = seen.insert(member, index) else { continue };
            if member == EMPTY_NAME {
                empty.push(index);
                continue;
            }
            let name = String::from_utf8_lossy(&member[1..member.len() - 2]);
            let cut = name.char_indices().map(|(at, _)| at).find(|at| *at >= NAME_BYTES_TOLD);
            let name = &name[..cut.unwrap_or(name.len())];
            return Some(format!(
                "the header has `{name}` twice, in columns {} and {}",
                first + 1,
                index + 1
            ));
        }
        empty.into_iter().for_each(|index| header[index].clear());
        None
    }
}

/// True if a text is a number, `true` or `false` as JSON writes them.
fn is_json(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'[' | b'{' | b'"'))
        && serde_json::from_slice::<serde_json::Value>(text).is_ok()
}

fn is_json_scalar(text: &[u8]) -> bool {
    if matches!(text, b"true" | b"false") {
        return true;
    }
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some((b'e' | b'E', exponent)) = rest.split_first() {
        let unsigned = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let count = digits(unsigned);
        return count > 0 && count == unsigned.len();
    }
    rest.is_empty()
}

/// Adds a JSON string.
fn push_text(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    fn events(text: &str, piece: usize) -> String {
        let (mut csv, mut out) = (CsvEvents::default(), Vec::new());
        text.as_bytes().chunks(piece.max(1)).for_each(|piece| csv.push(piece, &mut out));
        csv.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_not_utf8_is_told_with_its_place_in_the_csv() {
        let check = |text: &[u8], expected: &str| {
            for piece in 1..=text.len() {
                let (mut csv, mut out) = (CsvEvents::default(), Vec::new());
                text.chunks(piece).for_each(|piece| csv.push(piece, &mut out));
                csv.finish(&mut out);
                assert_eq!(String::from_utf8(out).unwrap(), expected, "in pieces of {piece}");
            }
        };
        let event = "{\"a\":1,\"b\":2}";
        check(b"a,b\n1,2\n\xff,3\n1,2\n", &format!("\n{event}\n# value 1 is not UTF-8\n{event}\n"));
        check(b"a,b\n1,\"\xff\"", "\n# value 2 is not UTF-8\n");
        check(b"a,\xff\n1,2\n3,4\n", "# name 2 of the header is not UTF-8\n\n\n");
    }

    #[test]
    fn carriage_return_that_no_newline_follows_is_told() {
        let told = "has a carriage return that no newline follows";
        check("a,b\r1,2\r3,4\r", &format!("# name 2 of the header {told}\n"));
        check(
            "a,b\r\n1,x\ry\r\n\"1\r\",2\r\r\n3\r,4\n5,6\r",
            &format!(
                "\n# value 2 {told}\n{{\"a\":\"1\\r\",\"b\":2}}\n# value 1 {told}\n{{\"a\":5,\"b\":6}}\n"
            ),
        );
    }

    #[test]
    fn declared_columns_say_what_values_are() {
        let list = Type::list(Type::LONG).unwrap();
        let declared =
            [("zip", Type::STRING), ("n", Type::LONG), ("up", Type::BOOLEAN), ("l", list), ("j", Type::Any)];
        let text = concat!(
            "_offset,zip,n,up,l,j,other,_time\n",
            "7,01234,5,true,\"[1,2]\",\"{\"\"a\"\":\n1}\",12,2026-01-01T00:00:00Z\n",
            "8,12345,\"6\",\"false\",,\"\"\"text\"\"\",\"12\",\n",
            "9,true,x,\"\",\"[1,\",plain,,\n",
        );
        let expected = concat!(
            "\n{\"zip\":\"01234\",\"n\":5,\"up\":true,\"l\":[1,2],\"j\":{\"a\": 1},\"other\":12}\n\n",
            "{\"zip\":\"12345\",\"n\":6,\"up\":false,\"j\":\"text\",\"other\":\"12\"}\n",
            "{\"zip\":\"true\",\"n\":\"x\",\"up\":\"\",\"l\":\"[1,\",\"j\":\"plain\"}\n",
        );
        for piece in 1..text.len() {
            let (mut csv, mut out) = (CsvEvents::default().declared(declared.clone()), Vec::new());
            text.as_bytes().chunks(piece).for_each(|piece| csv.push(piece, &mut out));
            csv.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn header_has_a_bound() {
        let names = RECORD_BYTES_MAX / size_of::<Vec<u8>>() + 2;
        assert_eq!(events(&format!("{}\n1\n", ",".repeat(names)), 1 << 16), "# the header is too long\n\n");
    }

    #[test]
    fn header_has_each_name_once() {
        check("z,a,z\n1,2,3\n4\n", "# the header has `z` twice, in columns 1 and 3\n\n\n");
        check(
            "a,,\n1,,\n1,2,\n1,2,3\n1,,3\n",
            concat!(
                "\n{\"a\":1}\n{\"a\":1,\"\":2}\n",
                "# value 3 has no name in the header\n# value 3 has no name in the header\n"
            ),
        );
        let long = "é".repeat(1000);
        let told = events(&format!("{long},{long}\n1,2\n"), 7);
        assert!(told.len() < FAULT_BYTES && told.ends_with("in columns 1 and 2\n\n"), "{told}");
    }

    fn check(text: &str, expected: &str) {
        for piece in 1..=text.len() {
            assert_eq!(events(text, piece), expected, "{text:?} in pieces of {piece}");
        }
    }

    #[test]
    fn records_become_events() {
        check("a,b\n1,x\n", "\n{\"a\":1,\"b\":\"x\"}\n");
        check("a,b\r\n-1.5e3,true\r\n\"1\",\"\"", "\n{\"a\":-1.5e3,\"b\":true}\n{\"a\":\"1\",\"b\":\"\"}\n");
        check(
            "\u{feff}a\n007\n1.\n.5\n0\n-0\n1e\nfalsey\n",
            "\n{\"a\":\"007\"}\n{\"a\":\"1.\"}\n{\"a\":\".5\"}\n{\"a\":0}\n{\"a\":-0}\n{\"a\":\"1e\"}\n{\"a\":\"falsey\"}\n",
        );
        check("\u{feff}\"a,b\",c\n1,2\n", "\n{\"a,b\":1,\"c\":2}\n");
        check("\u{feff}\"\u{feff}\"\n\u{feff}\"\n", "\n{\"\":\"\u{feff}\\\"\"}\n");
        check("a,b,c\n,2\n\n,,\n", "\n{\"b\":2}\n\n{}\n");
        check("\"a \"\"x\"\"\"\n\"l\n2\"\n3\n", "\n{\"a \\\"x\\\"\":\"l\\n2\"}\n\n{\"a \\\"x\\\"\":3}\n");
        check("a\nx\"y\n\"p\"q\n", "\n{\"a\":\"x\\\"y\"}\n{\"a\":\"pq\"}\n");
        check("a\n1,2\n3\n", "\n# 2 values, and 1 names in the header\n{\"a\":3}\n");
        check("a\n\\\t\u{1}é\n", "\n{\"a\":\"\\\\\\t\\u0001é\"}\n");
        check("a,b", "\n");
        check("a\n1\n\"b\n2", "\n{\"a\":1}\n# the text ends inside quotes\n");
        check("\"a", "# the text ends inside quotes\n");
    }

    #[test]
    fn of_records_that_are_no_events_the_text_is_kept_as_it_was() {
        let text = "a\r\n1,\"x\n\ty\"\r\n2\n{\"b\":1},3\n\"4\n5";
        let limits = CheckLimits { refused_bytes_kept: FAULT_BYTES + 8, ..CheckLimits::default() };
        for piece in 1..=text.len() {
            let (mut csv, mut out) = (CsvEvents::keeping(FAULT_BYTES + 8), Vec::new());
            text.as_bytes().chunks(piece).for_each(|piece| csv.push(piece, &mut out));
            csv.finish(&mut out);
            let mut checked = check_block(out.into(), &limits, 1);
            report_faults(&mut checked);
            let refused = checked.refused.iter().map(|refused| {
                let text = String::from_utf8_lossy(&refused.text).into_owned();
                (refused.rejection.line, refused.rejection.message.as_str(), text)
            });
            let of_two = "2 values, and 1 names in the header";
            let expected = [
                (2, of_two, "1,\"x\n\ty\"".to_owned()),
                (5, of_two, "{\"b\":1},3".to_owned()),
                (6, "the text ends inside quotes", "\"4\n5".to_owned()),
            ];
            assert_eq!(refused.collect::<Vec<_>>(), expected, "in pieces of {piece}");
        }
        let (mut csv, mut out) = (CsvEvents::keeping(FAULT_BYTES + 8), Vec::new());
        csv.push(format!("a\n1,{}\n", "x".repeat(1000)).as_bytes(), &mut out);
        let mut checked = check_block(out.into(), &limits, 1);
        report_faults(&mut checked);
        let RefusedText { text, is_cut, .. } = &checked.refused[0];
        assert!(*is_cut && text.starts_with(b"1,xxx") && text.len() < limits.refused_bytes_kept);
    }

    proptest! {
        #[test]
        fn any_table_is_read_back(
            rows in prop::collection::vec(prop::collection::vec("[a\",\n\r 0-9é]{0,4}", 2), 0..6), piece in 1usize..9
        ) {
            let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
            let mut text = "a,b\n".to_owned();
            for row in &rows {
                text += &format!("{}\n", row.iter().map(quoted).collect::<Vec<_>>().join(","));
            }
            let events = events(&text, piece);
            let read: Vec<Vec<String>> = events.lines().filter(|line| !line.is_empty()).map(|line| {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                ["a", "b"].map(|name| event[name].as_str().unwrap().to_owned()).to_vec()
            }).collect();
            prop_assert_eq!(read, rows);
        }
    }
}
