//! Encodes and decodes the messages of PostgreSQL's protocol (its documentation, chapter "Message Formats").

use std::io;

use swiftwater_sql::SqlError;

/// Writes messages into a buffer; each gets its length when it ends.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn message(&mut self, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let from = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let length = i32::try_from(self.bytes.len() - from).unwrap_or(i32::MAX);
        self.bytes[from..from + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(crate) fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            text(name, out);
            text(value, out);
        });
    }

    pub(crate) fn complete(&mut self, tag: &str) {
        self.message(b'C', |out| text(tag, out));
    }

    /// `state`: `I` idle, `T` in a transaction, `E` in one that failed.
    pub(crate) fn ready(&mut self, state: u8) {
        self.message(b'Z', |out| out.push(state));
    }

    /// An error with its place as a count of characters, from 1, of the text in which so many stand before `statement`.
    pub(crate) fn error(&mut self, error: &SqlError, statement: &str, before: usize) {
        self.error_of("ERROR", error, statement, before);
    }

    /// An error after which the connection ends.
    pub(crate) fn fatal(&mut self, error: &SqlError) {
        self.error_of("FATAL", error, "", 0);
    }

    /// Sends a warning, which does not end anything.
    pub(crate) fn warning(&mut self, what: &str) {
        self.message(b'N', |out| {
            for (kind, value) in [(b'S', "WARNING"), (b'V', "WARNING"), (b'C', "01000"), (b'M', what)] {
                out.push(kind);
                text(value, out);
            }
            out.push(0);
        });
    }

    fn error_of(&mut self, severity: &str, error: &SqlError, statement: &str, before: usize) {
        self.message(b'E', |out| {
            let mut field = |kind: u8, value: &str| {
                out.push(kind);
                text(value, out);
            };
            field(b'S', severity);
            field(b'V', severity);
            field(b'C', error.state());
            field(b'M', &error.to_string());
            if let Some(hint) = error.hint() {
                field(b'H', hint);
            }
            if let Some(place) = error.place() {
                let lines: usize = statement
                    .split_inclusive('\n')
                    .take(usize::try_from(place.line).unwrap_or(1).saturating_sub(1))
                    .map(|line| line.chars().count())
                    .sum();
                let position = (before + lines) as u64 + place.column;
                field(b'P', &position.to_string());
            }
            out.push(0);
        });
    }
}

/// A text with the zero at its end; a zero within would end it early.
pub(crate) fn text(value: &str, out: &mut Vec<u8>) {
    out.extend(value.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// Reads the parts of a message; what is not there is an error, never a panic.
pub(crate) struct Incoming<'a>(pub(crate) &'a [u8]);

impl<'a> Incoming<'a> {
    pub(crate) fn read_bytes(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| malformed("a message is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn i16(&mut self) -> io::Result<i16> {
        let bytes = self.read_bytes(2)?;
        Ok(i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(crate) fn i32(&mut self) -> io::Result<i32> {
        let bytes = self.read_bytes(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The number of things that follow; never negative.
    pub(crate) fn count(&mut self) -> io::Result<usize> {
        usize::try_from(self.i16()?).map_err(|_| malformed("a count is negative"))
    }

    pub(crate) fn text(&mut self) -> io::Result<String> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or_else(|| malformed("a text has no end"))?;
        let text = self.read_bytes(end)?;
        self.read_bytes(1)?;
        String::from_utf8(text.to_vec()).map_err(|_| malformed("a text is not UTF-8"))
    }
}

pub(crate) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_an_error() {
        assert!(Incoming(b"ab").i32().is_err());
        assert!(Incoming(b"ab").text().is_err());
        assert!(Incoming(&[0xff, 0xff]).count().is_err());
        let mut message = Incoming(b"ab\0\0\x05");
        assert_eq!(message.text().unwrap(), "ab");
        assert_eq!(message.count().unwrap(), 5);
    }

    #[test]
    fn a_message_has_its_length() {
        let mut out = Outgoing::default();
        out.ready(b'I');
        assert_eq!(out.bytes, [b'Z', 0, 0, 0, 5, b'I']);
    }
}
