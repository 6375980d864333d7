//! Finds the edges where one request may end and the next begin: after the end of a line that ends an event.
//!
//! JSON text contains no newline within a string. In no array or object do two objects follow one another without a comma.
//! An edge is therefore a newline at depth 0. The depth is known to be 0 before each `{` on a later line than a `}` with
//! nothing between them. A faulty text has edges again from there on. The same bytes have the same edges, however they are
//! cut into blocks.

/// A depth that is not known.
const UNKNOWN: u32 = 1 << 30;

/// The state of a scan through a text from block to block.
#[derive(Debug)]
pub(super) struct Edges {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The last byte that is no white space.
    last: u8,
    /// A line ended behind it.
    is_line_ended: bool,
    /// The text so far ends at an edge.
    is_at_edge: bool,
}

impl Edges {
    /// The scan of a text that begins between events.
    pub(super) fn at_start() -> Edges {
        Edges { depth: 0, in_string: false, escaped: false, last: 0, is_line_ended: true, is_at_edge: false }
    }

    /// The scan of a text that begins anywhere.
    pub(super) fn anywhere() -> Edges {
        Edges { depth: UNKNOWN, ..Edges::at_start() }
    }

    pub(super) fn is_at_edge(&self) -> bool {
        self.is_at_edge
    }

    /// Reads on to the first edge with at least `from` bytes of the text before it, or to the end; returns the number of bytes
    /// read.
    pub(super) fn read(&mut self, text: &[u8], from: usize) -> usize {
        for (at, byte) in text.iter().enumerate() {
            self.is_at_edge = self.push(*byte);
            if self.is_at_edge && at + 1 >= from {
                return at + 1;
            }
        }
        text.len()
    }

    fn push(&mut self, byte: u8) -> bool {
        match byte {
            b'\n' => {
                (self.in_string, self.escaped, self.is_line_ended) = (false, false, true);
                return self.depth == 0;
            }
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                self.last = byte;
            }
            _ if self.in_string || byte.is_ascii_whitespace() => return false,
            b'{' | b'[' => {
                if byte == b'{' && self.last == b'}' && self.is_line_ended {
                    self.depth = 0;
                }
                self.depth += 1;
                self.last = byte;
            }
            b'}' | b']' => {
                // One too many is a fault, and what is not known stays so.
                self.depth = if self.depth >= UNKNOWN / 2 { UNKNOWN } else { self.depth.saturating_sub(1) };
                self.last = byte;
            }
            _ => self.last = byte,
        }
        self.is_line_ended = false;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks all edges with `|`, whatever the blocks.
    fn check(expected: &str) {
        let text = expected.replace('|', "");
        for size in 1..=text.len() {
            let mut edges = Edges::at_start();
            let mut marked = String::new();
            for block in text.as_bytes().chunks(size) {
                let mut rest = block;
                while !rest.is_empty() {
                    let read = edges.read(rest, 0);
                    marked.push_str(std::str::from_utf8(&rest[..read]).unwrap());
                    if edges.is_at_edge() {
                        marked.push('|');
                    }
                    rest = &rest[read..];
                }
            }
            assert_eq!(marked, expected, "blocks of {size}");
        }
    }

    #[test]
    fn edges_stand_between_events_only() {
        check("{\"a\":1}\n|{\"a\":\"}\\\"{\"} \r\n|\n|{}");
        check("{\n \"a\": {\n  \"b\": 1\n }\n}\n|{\n}\n|");
        check("[{},\n{}\n,[{\n}]\n]\n|");
        check("{\"x\":[\n{\"a\":1},\n{\"b\":2}\n]}\n|");
        check("no event\n|{\"a\":\"open\n{}\n{}\n|{}\n|");
        check("}}]\n|{}\n|");
    }

    #[test]
    fn edge_is_found_from_within_a_text() {
        let events = ["{\"a\":\"}\"}\n", "{\"a\":{\n\"b\":2}\n}\n", "{\"a\":3}\n", "{\"a\":4}\n"];
        let text = events.concat();
        let ends: Vec<usize> = (1..=events.len()).map(|count| events[..count].concat().len()).collect();
        for from in 0..ends[1] {
            let mut edges = Edges::anywhere();
            let read = edges.read(&text.as_bytes()[from..], 0);
            assert!(edges.is_at_edge() && ends.contains(&(from + read)), "{from}: {}", from + read);
        }
    }
}
