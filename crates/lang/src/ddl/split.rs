//! Splits a text into statements at `;` outside of strings, quotes, comments and `$$ … $$`.
//!
//! It knows no grammar, so statements of any kind can be mixed.

/// One statement of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementText<'a> {
    /// The statement, without the `;` and the space around it.
    pub text: &'a str,
    /// Its start in the whole text, in bytes.
    pub start: usize,
    /// The line on which it begins, from 1.
    pub line: u32,
    /// The column at which it begins, in characters from 1.
    pub column: u32,
}

/// The statements of a text, in order; what holds nothing but space and comments is none. An open quote continues to
/// the end: the parser of the statement reports it. Linear in the text.
pub fn split_statements(text: &str) -> Vec<StatementText<'_>> {
    let mut pieces = Vec::new();
    let mut place = TextCursor { at: 0, line: 1, line_start: 0 };
    let mut start = 0;
    let mut at = 0;
    let mut has_words = false;
    loop {
        let end = text.as_bytes().get(at);
        if matches!(end, None | Some(b';')) {
            let piece = &text[start..at];
            if has_words {
                let from = start + (piece.len() - piece.trim_start().len());
                place.advance_to(text, from);
                let column = text[place.line_start..from].chars().count() as u32 + 1;
                pieces.push(StatementText { text: piece.trim(), start: from, line: place.line, column });
            }
            if end.is_none() {
                return pieces;
            }
            at += 1;
            start = at;
            has_words = false;
            continue;
        }
        let (length, is_word) = skip(&text[at..]);
        has_words |= is_word;
        at += length;
    }
}

/// The largest number of a `$1`, `$2`, … outside of strings, quotes, comments and `$$ … $$`; 0: there is none.
pub fn placeholders(text: &str) -> usize {
    let (mut at, mut most) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let (length, _) = skip(rest);
        if length == 1
            && let Some(digits) = rest.strip_prefix('$')
        {
            let end = digits.bytes().take(4).take_while(u8::is_ascii_digit).count();
            most = most.max(digits[..end].parse().unwrap_or(0));
        }
        at += length;
    }
    most
}

/// The bytes of space and comments at the beginning of a text.
pub(crate) fn space_len(text: &str) -> usize {
    let mut at = 0;
    while at < text.len() {
        match skip(&text[at..]) {
            (length, false) => at += length,
            (_, true) => break,
        }
    }
    at
}

/// The bytes of what begins here and cannot be cut, and whether it is more than space or a comment. `rest` is not empty.
fn skip(rest: &str) -> (usize, bool) {
    let all = rest.len();
    let until = |from: usize, end: &str| rest[from..].find(end).map_or(all, |found| from + found + end.len());
    let bytes = rest.as_bytes();
    match (bytes[0], bytes.get(1)) {
        (b'-', Some(b'-')) => (rest.find('\n').unwrap_or(all), false),
        (b'/', Some(b'*')) => (comment(bytes), false),
        (quote @ (b'\'' | b'"' | b'`'), _) => (until(1, char::from(quote).encode_utf8(&mut [0; 4])), true),
        (b'$', Some(b'$')) => (until(2, "$$"), true),
        (byte, _) if byte.is_ascii() => (1, !byte.is_ascii_whitespace()),
        _ => {
            let c = rest.chars().next().unwrap_or(' ');
            (c.len_utf8(), !c.is_whitespace())
        }
    }
}

/// The bytes of a comment, with those within it.
fn comment(bytes: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A place that only goes forward.
struct TextCursor {
    at: usize,
    line: u32,
    line_start: usize,
}

impl TextCursor {
    fn advance_to(&mut self, text: &str, to: usize) {
        while let Some(found) = text[self.at..to].find('\n') {
            self.at += found + 1;
            self.line += 1;
            self.line_start = self.at;
        }
        self.at = to;
    }
}
