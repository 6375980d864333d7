//! Extracts literal texts from a pattern: texts with which every match begins, or that every match contains.
//!
//! The literals of a regular expression are derived from its syntax tree. Nothing is guessed, so they are necessary, and
//! usually not sufficient.

use regex_syntax::hir::{Hir, HirKind, literal::Extractor};

/// The literals that every matching text has.
#[derive(Debug, PartialEq)]
pub(crate) enum RequiredText {
    /// It begins with one of these; none is empty.
    Prefixes(Vec<Box<[u8]>>),
    /// It has this in it; not empty.
    Contains(Box<[u8]>),
}

/// Number of alternatives that are distinguished.
const PREFIXES_MAX: usize = 16;

/// Longer ones are cut.
const LITERAL_BYTES_MAX: usize = 64;

/// The requirement of a regular expression in the syntax of the `regex` crate.
pub(crate) fn of_regex(pattern: &str) -> Option<RequiredText> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let mut extractor = Extractor::new();
    extractor.limit_total(PREFIXES_MAX).limit_literal_len(LITERAL_BYTES_MAX);
    if let Some(literals) = extractor.extract(&hir).literals()
        && !literals.is_empty()
        && literals.iter().all(|literal| !literal.is_empty())
    {
        let mut prefixes: Vec<Box<[u8]>> = literals.iter().map(|literal| literal.as_bytes().into()).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        return Some(RequiredText::Prefixes(prefixes));
    }
    let longest = longest_literal(&hir)?;
    Some(RequiredText::Contains(longest[..longest.len().min(LITERAL_BYTES_MAX)].into()))
}

/// The longest literal that no way through the expression goes around.
fn longest_literal(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(capture) => longest_literal(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => longest_literal(&repetition.sub),
        HirKind::Concat(parts) => {
            parts.iter().filter_map(longest_literal).max_by_key(|literal| literal.len())
        }
        _ => None,
    }
}

/// The requirement of LIKE, and true if it is sufficient.
pub(crate) fn of_like(pattern: &str) -> (Option<RequiredText>, bool) {
    let mut texts: Vec<String> = vec![String::new()];
    let mut has_one = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' | '_' => {
                has_one |= c == '_';
                texts.push(String::new());
            }
            '\\' => texts.last_mut().into_iter().for_each(|text| text.push(chars.next().unwrap_or('\\'))),
            c => texts.last_mut().into_iter().for_each(|text| text.push(c)),
        }
    }
    let bytes = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
    let only_first = texts.len() > 1 && texts[1..].iter().all(String::is_empty);
    if !texts[0].is_empty() {
        return (Some(RequiredText::Prefixes(vec![bytes(&texts[0])])), only_first && !has_one);
    }
    let Some(longest) = texts.iter().max_by_key(|text| text.len()).filter(|text| !text.is_empty()) else {
        return (None, false);
    };
    let is_alone = texts.iter().filter(|text| !text.is_empty()).count() == 1
        && texts.last().is_some_and(String::is_empty)
        && !has_one;
    (Some(RequiredText::Contains(bytes(longest))), is_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(required: Option<RequiredText>, expected: &str) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found = match required {
            None => "-".to_owned(),
            Some(RequiredText::Prefixes(prefixes)) => {
                prefixes.iter().map(|prefix| format!("{}*", text(prefix))).collect::<Vec<_>>().join(" ")
            }
            Some(RequiredText::Contains(literal)) => format!("*{}*", text(&literal)),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn literals_of_regular_expressions() {
        for (pattern, expected) in [
            (r"\A(?:abc.*)\z", "abc*"),
            (r"\A(?:(?:abc|abd)[0-9]+)\z", "abc* abd*"),
            (r"\A(?:.*abc.*)\z", "*abc*"),
            (r"\A(?:.*a.*bcd.*)\z", "*bcd*"),
            (r"\A(?:.*(abc)+x?)\z", "*abc*"),
            (r"\A(?:a?.*)\z", "-"),
            (r"\A(?:[a-z]*)\z", "-"),
            (r"\A(?:(?i)é.*)\z", "É* é*"),
            (r"\A(?:|abc)\z", "-"),
        ] {
            check(of_regex(pattern), expected);
        }
    }

    #[test]
    fn literals_of_like() {
        for (pattern, expected, exact) in [
            ("abc%", "abc*", true),
            ("abc", "abc*", false),
            ("a_%", "a*", false),
            ("%abc%", "*abc*", true),
            ("%%abc%%", "*abc*", true),
            ("%abc", "*abc*", false),
            ("_abc%", "*abc*", false),
            (r"100\%%", "100%*", true),
            ("%", "-", false),
            ("", "-", false),
            ("ab%cdef%", "ab*", false),
        ] {
            let (required, is_all) = of_like(pattern);
            check(required, expected);
            assert_eq!(is_all, exact, "{pattern}");
        }
    }
}
