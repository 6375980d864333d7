//! Finds the parts of names in program code: `getHTTPUser2` is `get`, `HTTP`, `User` and `2`.
//!
//! A part begins at a capital after a small letter, at the last capital of several before a small letter, and where letters
//! and digits meet.

use std::ops::Range;

use icu_properties::{CodePointMapData, props::GeneralCategory};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Capital,
    Small,
    Digit,
    /// A letter without case.
    Other,
}

/// The case of a character; none of a mark, which belongs to the character before.
fn case(c: char) -> Option<Case> {
    Some(match CodePointMapData::<GeneralCategory>::new().get(c) {
        GeneralCategory::UppercaseLetter | GeneralCategory::TitlecaseLetter => Case::Capital,
        GeneralCategory::LowercaseLetter => Case::Small,
        GeneralCategory::DecimalNumber => Case::Digit,
        GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark | GeneralCategory::EnclosingMark => {
            return None;
        }
        _ => Case::Other,
    })
}

/// Visits the parts of a word, in bytes, if there are several.
pub(crate) fn for_each_part(word: &str, mut visit: impl FnMut(Range<usize>)) {
    let mut start = 0;
    // The character before, and where it begins.
    let mut before: Option<(Case, usize)> = None;
    let mut is_before_capital = false;
    for (at, c) in word.char_indices() {
        let Some(case) = case(c) else { continue };
        if let Some((last, last_at)) = before {
            let begins = match (last, case) {
                // `HTTPUser`: the last capital begins the part.
                (Case::Capital, Case::Small) => (is_before_capital && last_at > start).then_some(last_at),
                (last, case) => (last != case).then_some(at),
            };
            if let Some(begins) = begins {
                visit(start..begins);
                start = begins;
            }
        }
        is_before_capital = matches!(before, Some((Case::Capital, _))) && case == Case::Capital;
        before = Some((case, at));
    }
    if start > 0 {
        visit(start..word.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_at_changes_of_case_and_at_digits() {
        for (word, expected) in [
            ("camelCase", &["camel", "Case"][..]),
            ("HTTPServer", &["HTTP", "Server"]),
            ("getX", &["get", "X"]),
            ("XRay", &["X", "Ray"]),
            ("Case", &[]),
            ("plain", &[]),
            ("ALL", &[]),
            ("utf8", &["utf", "8"]),
            ("a1b2", &["a", "1", "b", "2"]),
            ("parseÜberschrift", &["parse", "Überschrift"]),
            ("e\u{301}Ab", &["e\u{301}", "Ab"]),
        ] {
            let mut found = Vec::new();
            for_each_part(word, |range| found.push(&word[range]));
            assert_eq!(found, expected, "{word}");
        }
    }
}
