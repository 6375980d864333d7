//! Positions in a query's text, and the errors that point at them.

use crate::{Dialect, QueryError, QueryErrors};

/// A half-open range of bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        // Texts are shorter than 4 GiB: `ParseOptions::text_bytes_max` is held below that.
        Span { start: start as u32, end: end as u32 }
    }

    /// The span from the start of this to the end of `other`.
    pub(crate) fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

/// A fault before its place is worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `None`: the query as a whole.
    pub(crate) span: Option<Span>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn at(span: Span, message: impl Into<String>) -> Fault {
        Fault { span: Some(span), message: message.into(), hint: None }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Fault {
        Fault { span: None, message: message.into(), hint: None }
    }

    /// The fault for a part of the language that this version does not support yet.
    pub(crate) fn not_yet(span: Span, what: &str) -> Fault {
        Fault::at(span, format!("{what} is not supported yet"))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }
}

/// The most faults reported of one query.
const FAULTS_MAX: usize = 50;

/// Turns faults into errors with line, column and excerpt, in the order of the text. Columns count characters; in Bullet's dialect UTF-16 units, as Java has it.
pub(crate) fn locate(text: &str, mut faults: Vec<Fault>, dialect: Dialect) -> QueryErrors {
    faults.sort_by_key(|fault| fault.span.map_or(u32::MAX, |span| span.start));
    faults.dedup();
    faults.truncate(FAULTS_MAX);
    // Faults are in order, so one walk over the text finds all lines.
    let mut line = 1;
    let mut line_start = 0;
    let errors = faults.into_iter().map(|fault| {
        let Some(span) = fault.span else {
            return QueryError {
                line: None,
                column: None,
                message: fault.message,
                hint: fault.hint,
                excerpt: String::new(),
            };
        };
        let at = floor_char(text, span.start as usize);
        while let Some((_, next)) = line_end(text, line_start)
            && next <= at
        {
            line += 1;
            line_start = next;
        }
        let (end, _) = line_end(text, line_start).unwrap_or((text.len(), text.len()));
        let at_in_line = at.min(end);
        let before = &text[line_start..at_in_line];
        let column = match dialect {
            Dialect::Native => before.chars().count(),
            Dialect::Bullet => before.encode_utf16().count(),
        };
        QueryError {
            line: Some(line),
            column: Some(column as u32 + 1),
            message: fault.message,
            hint: fault.hint,
            excerpt: excerpt(&text[line_start..end], at_in_line - line_start, span.end as usize - line_start),
        }
    });
    QueryErrors(errors.collect())
}

fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// The end of the line that begins at `start`, and the start of the next one; `None` for the last line.
fn line_end(text: &str, start: usize) -> Option<(usize, usize)> {
    let found = start + text[start..].find(['\n', '\r'])?;
    let width = if text[found..].starts_with("\r\n") { 2 } else { 1 };
    Some((found, found + width))
}

/// Characters shown on either side of a fault; longer lines are cut.
const EXCERPT_CHARS: usize = 60;

/// The line and carets under `start..end` of it (bytes).
fn excerpt(line: &str, start: usize, end: usize) -> String {
    let before: Vec<char> = line[..start].chars().rev().take(EXCERPT_CHARS + 1).collect();
    let cut_before = before.len() > EXCERPT_CHARS;
    let mut shown = String::new();
    let mut indent = 0;
    if cut_before {
        shown.push('…');
        indent += 1;
    }
    for &c in before.iter().take(EXCERPT_CHARS).rev() {
        indent += push_shown(&mut shown, c);
    }
    let mut carets = 0;
    let mut rest = line[start..].char_indices();
    for (offset, c) in rest.by_ref().take(EXCERPT_CHARS) {
        let width = push_shown(&mut shown, c);
        if start + offset < end {
            carets += width;
        }
    }
    if rest.next().is_some() {
        shown.push('…');
    }
    let shown = shown.trim_end();
    format!("{shown}\n{}{}", " ".repeat(indent), "^".repeat(carets.max(1)))
}

/// Adds a character as a terminal can show it; answers the columns it takes.
fn push_shown(shown: &mut String, c: char) -> usize {
    if c.is_control() {
        shown.push(' ');
        return 1;
    }
    shown.push(c);
    match u32::from(c) {
        // Combining marks, joiners, variation selectors.
        0x0300..=0x036F | 0x200B..=0x200F | 0x20D0..=0x20FF | 0xFE00..=0xFE0F => 0,
        // Hangul, CJK, kana, full-width forms, emoji.
        0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF => 2,
        0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1F64F => 2,
        0x1F680..=0x1F6FF | 0x1F900..=0x1FAFF | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, fault: &str, expected: (u32, u32, &str)) {
        let start = text.find(fault).unwrap();
        let errors =
            locate(text, vec![Fault::at(Span::new(start, start + fault.len()), "wrong")], Dialect::Native);
        let error = &errors.0[0];
        assert_eq!(
            (error.line.unwrap(), error.column.unwrap(), error.excerpt.as_str()),
            expected,
            "in {text:?}"
        );
    }

    #[test]
    fn caret_stands_under_the_fault() {
        check("SELECT x", "x", (1, 8, "SELECT x\n       ^"));
        check("SELECT\n  abc\nFROM", "abc", (2, 3, "  abc\n  ^^^"));
        check("a\r\nb\rcd", "d", (3, 2, "cd\n ^"));
        check("\t\tx", "x", (1, 3, "  x\n  ^"));
        check("'名前' x", "x", (1, 6, "'名前' x\n       ^"));
        check("'e\u{301}' x", "x", (1, 6, "'e\u{301}' x\n    ^"));
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let errors = locate(&text, vec![Fault::at(Span::new(500, 501), "wrong")], Dialect::Native);
        assert_eq!(errors.0[0].column, Some(501));
        assert!(errors.0[0].excerpt.chars().count() < 300);
        assert!(errors.0[0].excerpt.starts_with("…aaa"));
    }

    #[test]
    fn a_fault_at_the_end_of_the_text_has_a_place() {
        let errors = locate("ab", vec![Fault::at(Span::new(2, 2), "more expected")], Dialect::Native);
        assert_eq!(errors.to_string(), "1:3: more expected\nab\n  ^");
    }
}
