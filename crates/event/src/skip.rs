//! Finds the end of a value by its brackets and quotes alone, whatever else is wrong with it, in chunks of any size.

use crate::{
    grammar::DEPTH_MAX,
    scan::{is_space, quote_or_backslash},
};

/// The reason why a [`Skipper`] stopped, with the place of the byte at which it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bracket that closes the outermost one; it is read.
    Closed(usize),
    /// A `,` or a closing bracket while no bracket is open; it is not read.
    Separator(usize),
    /// A `{` after a `}` and a newline, which is the beginning of another event; it is not read.
    Boundary(usize),
    /// The brackets do not balance: a wrong one, too many, or a newline within a string. It is not read.
    Broken(usize),
}

/// Reads a value from its first byte on.
#[derive(Debug)]
pub(crate) struct Skipper {
    /// The open brackets, outermost first.
    open: Vec<u8>,
    in_string: bool,
    escaped: bool,
    /// The last byte that is not white space was `}`.
    after_brace: bool,
    /// A newline came since then.
    newline: bool,
    /// True if [`Stop::Boundary`] is looked for: an array of events has none.
    boundaries: bool,
}

impl Skipper {
    /// The most brackets that are followed; far more than any event may have.
    const OPEN_MAX: usize = 128 * DEPTH_MAX;

    pub(crate) fn new(boundaries: bool) -> Skipper {
        Skipper {
            open: Vec::new(),
            in_string: false,
            escaped: false,
            after_brace: false,
            newline: false,
            boundaries,
        }
    }

    /// True if what was read ends within a string.
    pub(crate) fn in_string(&self) -> bool {
        self.in_string
    }

    /// True if `byte`, coming next, would begin another event.
    pub(crate) fn at_boundary(&self, byte: u8) -> bool {
        self.boundaries && byte == b'{' && !self.in_string && self.after_brace && self.newline
    }

    /// Reads on from `bytes[at]`; `None` when all of `bytes` is read without a stop.
    pub(crate) fn read(&mut self, bytes: &[u8], mut at: usize) -> Option<Stop> {
        while at < bytes.len() {
            if self.in_string {
                at = self.read_string(bytes, at)?;
                if self.in_string {
                    return Some(Stop::Broken(at));
                }
                continue;
            }
            let byte = bytes[at];
            if is_space(byte) {
                self.newline |= byte == b'\n';
                at += 1;
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' if self.at_boundary(byte) => return Some(Stop::Boundary(at)),
                b'{' | b'[' if self.open.len() == Self::OPEN_MAX => return Some(Stop::Broken(at)),
                b'{' | b'[' => self.open.push(byte),
                b',' | b']' if self.open.is_empty() => return Some(Stop::Separator(at)),
                // Closes what was opened last, if that is its own: `{` and `}`, `[` and `]` are two apart.
                b'}' | b']' if self.open.pop() != Some(byte - 2) => return Some(Stop::Broken(at)),
                _ => {}
            }
            self.after_brace = byte == b'}';
            self.newline = false;
            if self.open.is_empty() && matches!(byte, b'}' | b']') {
                return Some(Stop::Closed(at));
            }
            at += 1;
        }
        None
    }

    /// Reads to the end of a string, or to a newline in it; `None` if neither comes.
    fn read_string(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.escaped {
                if at == bytes.len() {
                    return None;
                }
                // A backslash does not hide a newline: a string is broken there either way.
                if bytes[at] != b'\n' {
                    at += 1;
                }
                self.escaped = false;
            }
            let stop = quote_or_backslash(bytes, at);
            if let Some(newline) = memchr::memchr(b'\n', &bytes[at..stop]) {
                return Some(at + newline);
            }
            match bytes.get(stop)? {
                b'"' => {
                    self.in_string = false;
                    return Some(stop + 1);
                }
                _ => self.escaped = true,
            }
            at = stop + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Stop>) {
        for split in 0..text.len() {
            let (head, tail) = text.as_bytes().split_at(split);
            let mut skipper = Skipper::new(true);
            let found = skipper.read(head, 0).or_else(|| {
                skipper.read(tail, 0).map(|stop| match stop {
                    Stop::Closed(at) => Stop::Closed(at + split),
                    Stop::Separator(at) => Stop::Separator(at + split),
                    Stop::Boundary(at) => Stop::Boundary(at + split),
                    Stop::Broken(at) => Stop::Broken(at + split),
                })
            });
            assert_eq!(found, expected, "{text} split at {split}");
        }
    }

    #[test]
    fn values_end_by_their_brackets() {
        check(r#"{"a":["}\"]",{}]} "#, Some(Stop::Closed(16)));
        check(r#"{x"\\" ["#, None);
        check(r#"nonsense , "#, Some(Stop::Separator(9)));
        check("{\"a\": {} \n {", Some(Stop::Boundary(11)));
        check("{\"a\": {} \n \"b\" {", None);
        check("{\"a\": \"x\n", Some(Stop::Broken(8)));
        check("{\"a\": \"x\\\n", Some(Stop::Broken(9)));
        check("{[}", Some(Stop::Broken(2)));
        check("}", Some(Stop::Broken(0)));
    }
}
