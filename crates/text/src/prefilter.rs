//! Finds out that an event cannot match a query by its JSON text alone, before it is parsed.
//!
//! A query is reduced to *required literals*: an event that matches has one of them in its text, in any spelling of capitals.
//! All of an AND are required, so the longest one is chosen; of an OR there is one for each alternative. Negations, ranges and
//! `*` require nothing, nor does a number, which JSON can write as `5e2`. A query without required literals has no prefilter.
//!
//! A text without the literals may still match where its characters are spelled otherwise: by escapes, or by characters that
//! normalisation maps to ASCII (`ＡＢＣ`) or removes. Such a text *may match*, and is evaluated. [`PLAIN`] lists characters that
//! cannot spell a letter or digit of ASCII; a test compares it with the normalisation of each of them.
//!
//! Limits: queries of events whose columns have the default analyzer ([`EventSearch`]); stems require nothing. More than
//! [`LITERALS_MAX`] literals, or one of less than [`LITERAL_BYTES_MIN`] bytes, are no prefilter, as it would save nothing.

use std::ops::RangeInclusive;

use memchr::memchr_iter;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};
use swiftwater_event::EventBatch;

use crate::{
    event_search::EventSearch,
    phrase::Phrase,
    term::{Pattern, Piece},
};

const LITERALS_MAX: usize = 32;
const LITERAL_BYTES_MIN: usize = 2;

/// Characters whose normalisation is not empty, and has no letter or digit of ASCII.
const PLAIN: [RangeInclusive<char>; 14] = [
    // Latin letters with accents, but `ß`.
    '\u{C0}'..='\u{DE}',
    '\u{E0}'..='\u{FF}',
    // Cyrillic.
    '\u{400}'..='\u{52F}',
    // Arabic letters and digits.
    '\u{620}'..='\u{64A}',
    '\u{660}'..='\u{669}',
    // Devanagari.
    '\u{900}'..='\u{97F}',
    // Thai.
    '\u{E01}'..='\u{E5B}',
    // Dashes and quotation marks.
    '\u{2010}'..='\u{2027}',
    // Punctuation of Chinese and Japanese, kana.
    '\u{3000}'..='\u{30FF}',
    // Han.
    '\u{3400}'..='\u{4DBF}',
    '\u{4E00}'..='\u{9FFF}',
    // Hangul.
    '\u{AC00}'..='\u{D7A3}',
    // Wide punctuation.
    '\u{FF01}'..='\u{FF0F}',
    // Emoji.
    '\u{1F300}'..='\u{1FAFF}',
];

/// Literals and properties of the JSON text of every matching event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Required {
    /// One of these, in ASCII and small letters. Without any, no text of ASCII matches.
    literals: Vec<String>,
    /// One of the alternatives has characters beyond ASCII, so a text that has such characters may match.
    has_other_scripts: bool,
    /// A literal has characters that JSON may write with a backslash, other than as `\u`.
    has_separators: bool,
}

impl Required {
    /// A text that values have; none if it is too short to exclude any.
    pub(crate) fn literal(text: &str) -> Option<Required> {
        if !text.is_ascii() {
            return Some(Required { has_other_scripts: true, ..Required::default() });
        }
        let has_separators = !text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (text.len() >= LITERAL_BYTES_MIN).then(|| Required {
            literals: vec![text.to_ascii_lowercase()],
            has_other_scripts: false,
            has_separators,
        })
    }

    /// Returns true if the condition holds for each literal.
    pub(crate) fn all(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.literals.iter().all(|literal| is_such(literal))
    }

    /// The requirement for one of several alternatives; none if an alternative requires nothing.
    pub(crate) fn any(all: impl IntoIterator<Item = Option<Required>>) -> Option<Required> {
        let mut any = Required::default();
        for required in all {
            let required = required?;
            any.has_other_scripts |= required.has_other_scripts;
            any.has_separators |= required.has_separators;
            any.literals.extend(required.literals);
        }
        any.literals.sort_unstable();
        any.literals.dedup();
        (any.literals.len() <= LITERALS_MAX).then_some(any)
    }

    /// The requirement for all of several: the one that excludes most.
    pub(crate) fn best(all: impl IntoIterator<Item = Option<Required>>) -> Option<Required> {
        all.into_iter().flatten().max_by_key(Required::selectivity)
    }

    /// Long literals are rare, and few rarer than many.
    fn selectivity(&self) -> (usize, usize) {
        let shortest = self.literals.iter().map(String::len).min();
        (shortest.unwrap_or(usize::MAX), usize::MAX - self.literals.len())
    }

    /// The requirement of a phrase for the texts that contain it: the best of its terms.
    pub(crate) fn of_phrase(phrase: &Phrase) -> Option<Required> {
        Required::best(phrase.terms.iter().map(|(_, term)| match &term.pattern {
            _ if term.is_stem => None,
            Pattern::Exact(text) | Pattern::Prefix(text) => Required::literal(text),
            Pattern::Wildcard(pieces) => Required::best(pieces.iter().map(|piece| match piece {
                Piece::Text(text) => Required::literal(text),
                Piece::One | Piece::Any => None,
            })),
            Pattern::Fuzzy { word, distance } => Required::of_fuzzy(word, usize::from(*distance)),
        }))
    }

    /// The requirement of a fuzzy word: it is divided into equal parts, one more than the characters that may differ,
    /// so that one part is unchanged.
    fn of_fuzzy(word: &str, distance: usize) -> Option<Required> {
        if !word.is_ascii() {
            return None;
        }
        let parts = distance + 1;
        let cuts: Vec<usize> = (0..=parts).map(|part| word.len() * part / parts).collect();
        Required::any(cuts.windows(2).map(|cut| Required::literal(&word[cut[0]..cut[1]])))
    }

    /// The requirement of a regular expression for the texts in which it matches.
    pub(crate) fn of_expression(expression: &str) -> Option<Required> {
        Required::of_hir(&regex_syntax::parse(expression).ok()?)
    }

    fn of_hir(hir: &Hir) -> Option<Required> {
        match hir.kind() {
            HirKind::Literal(literal) => Required::literal(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Capture(capture) => Required::of_hir(&capture.sub),
            HirKind::Repetition(repetition) if repetition.min > 0 => Required::of_hir(&repetition.sub),
            HirKind::Concat(all) => Required::best(all.iter().map(Required::of_hir)),
            HirKind::Alternation(any) => Required::any(any.iter().map(Required::of_hir)),
            HirKind::Repetition(_) | HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => None,
        }
    }
}

/// A necessary condition on the JSON text of an event. See the head of this module.
///
/// ```
/// use swiftwater_text::{EventSearch, Prefilter, query::Operator};
///
/// let search = EventSearch::of_event("refused -retry", Operator::And, None).unwrap();
/// let prefilter = Prefilter::of(&search).unwrap();
/// assert!(prefilter.may_match(br#"{"message": "Connection REFUSED"}"#));
/// assert!(prefilter.may_match(br#"{"message": "connection ref\u0075sed"}"#));
/// assert!(!prefilter.may_match(br#"{"message": "connection closed"}"#));
/// ```
#[derive(Debug, Clone)]
pub struct Prefilter {
    /// Finds one of the literals; none if there are none.
    finder: Option<Regex>,
    required: Required,
}

impl Prefilter {
    /// The prefilter of a search of events; none if every event may match, as far as is known.
    pub fn of(search: &EventSearch) -> Option<Prefilter> {
        let required = search.required()?;
        let finder = if required.literals.is_empty() {
            None
        } else {
            let literals: Vec<String> =
                required.literals.iter().map(|literal| regex::escape(literal)).collect();
            let mut builder = RegexBuilder::new(&literals.join("|"));
            Some(builder.case_insensitive(true).unicode(false).build().ok()?)
        };
        Some(Prefilter { finder, required })
    }

    /// Returns true if an event with this JSON text may match; false only if it does not. The text is UTF-8, one JSON object,
    /// and its values are read as JSON has them. Cost: a fraction of a nanosecond per byte.
    pub fn may_match(&self, json: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|finder| finder.is_match(json)) || self.may_be_hidden(json)
    }

    /// The events of a batch that may match, by row. Cost: as of [`Prefilter::may_match`], but literals are searched in the
    /// whole buffer at once, not event by event.
    pub fn candidates(&self, batch: &EventBatch) -> Vec<u32> {
        let bytes = batch.bytes();
        let find = |from| self.finder.as_ref().and_then(|finder| finder.find_at(bytes, from));
        // The beginning of the next literal, from the current event on. The bytes between events may contain one, too.
        let start_of_next = |from| find(from).map_or(usize::MAX, |found| found.start());
        let mut next = start_of_next(0);
        let mut candidates = Vec::new();
        for row in 0..batch.len() {
            let span = batch.span(row);
            if next < span.start {
                next = start_of_next(span.start);
            }
            if next < span.end || self.may_be_hidden(&bytes[span]) {
                candidates.push(row as u32);
            }
        }
        candidates
    }

    /// Returns true if characters that are spelled otherwise may be a literal.
    fn may_be_hidden(&self, json: &[u8]) -> bool {
        let hides = |at: usize| self.required.has_separators || json.get(at + 1) == Some(&b'u');
        if memchr_iter(b'\\', json).any(hides) {
            return true;
        }
        if is_ascii(json) {
            return false;
        }
        self.required.has_other_scripts || !is_plain(json)
    }
}

/// Returns true if all bytes are ASCII. Reads words of eight bytes, fast without vectors of the compiler too.
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let high = words.iter().fold(0, |high, word| high | u64::from_ne_bytes(*word));
    high & 0x8080_8080_8080_8080 == 0 && rest.is_ascii()
}

/// Returns true if all characters are ASCII or [`PLAIN`].
fn is_plain(text: &[u8]) -> bool {
    std::str::from_utf8(text)
        .is_ok_and(|text| text.chars().all(|c| c.is_ascii() || PLAIN.iter().any(|plain| plain.contains(&c))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;
    use crate::{nfkc_casefold, query::Operator};

    fn required(query: &str) -> Option<String> {
        let search = EventSearch::of_event(query, Operator::And, None).unwrap();
        let Required { mut literals, has_other_scripts, .. } = search.required()?;
        if has_other_scripts {
            literals.push("…".to_owned());
        }
        Some(literals.join("|"))
    }

    #[test]
    fn queries_are_reduced_to_literals() {
        for (query, expected) in [
            ("Timeout", Some("timeout")),
            ("read timeout", Some("timeout")),
            ("read OR timeout", Some("read|timeout")),
            ("read (timeout OR refused)", Some("refused|timeout")),
            ("timeout -retry", Some("timeout")),
            ("-timeout", None),
            ("a OR timeout", None),
            ("a timeout", Some("timeout")),
            ("\"connection refused\"~2", Some("connection")),
            ("\"conn refus\"*", Some("refus")),
            ("foo.barbaz", Some("barbaz")),
            ("t?me*out", Some("out")),
            ("t?m", None),
            ("refuzed~1", Some("ref|uzed")),
            ("ab~1", None),
            ("500", Some("500")),
            ("status:500", None),
            ("status:5*", None),
            ("status:ok", Some("ok")),
            ("status:true", Some("true")),
            ("seen:2026-01-01", None),
            ("status:>5", None),
            ("status:*", None),
            ("*", None),
            ("message:=\"GET /a\"", Some("get /a")),
            ("status:=\"500\"", None),
            ("message:/re(ad)+ (timeout|closed)/", Some("closed|timeout")),
            ("message:/(?i)timeout/", None),
            ("東京", Some("…")),
            ("東京 OR timeout", Some("timeout|…")),
            ("straße", Some("strasse")),
        ] {
            assert_eq!(required(query).as_deref(), expected, "{query}");
        }
    }

    #[test]
    fn hidden_spellings_may_match() {
        let may_match = |query: &str, json: &str| {
            let search = EventSearch::of_event(query, Operator::And, None).unwrap();
            Prefilter::of(&search).unwrap().may_match(json.as_bytes())
        };
        for (query, json, expected) in [
            ("timeout", r#"{"m": "TimeOut"}"#, true),
            ("timeout", r#"{"m": "time out"}"#, false),
            ("timeout", r#"{"m": "\u0054imeout"}"#, true),
            ("timeout", r#"{"m": "a\n\tb \"c\""}"#, false),
            ("timeout", r#"{"m": "ｔｉｍｅｏｕｔ"}"#, true),
            ("timeout", "{\"m\": \"time\u{AD}out\"}", true),
            ("timeout", r#"{"m": "接続がタイムアウトしました"}"#, false),
            ("strasse", r#"{"m": "Straße"}"#, true),
            ("kelvin", "{\"m\": \"\u{212A}elvin\"}", true),
            ("m:=\"a/b\"", r#"{"m": "a\/b"}"#, true),
            ("m:=\"a/b\"", r#"{"m": "a-b"}"#, false),
            ("東京", r#"{"m": "tokyo"}"#, false),
            ("東京", r#"{"m": "京都"}"#, true),
        ] {
            assert_eq!(may_match(query, json), expected, "{query}: {json}");
        }
    }

    #[test]
    fn plain_characters_spell_no_letter_or_digit_of_ascii() {
        for c in PLAIN.into_iter().flatten() {
            let folded = nfkc_casefold(&c.to_string());
            let is_plain = !folded.is_empty() && !folded.bytes().any(|byte| byte.is_ascii_alphanumeric());
            assert!(is_plain, "{c} (U+{:04X}): {folded}", u32::from(c));
        }
    }
}
