//! Templates: texts with random places, such as `/stats/{1..50000}` and `/swipe/{left|right}/`.
//!
//! `{a..b}` is a whole number from a to b, both included; `{x|y}` one of these words, which are letters, digits, `_`, `-`
//! and `.`; `{n}` the request's number, from 0. Any other brace is literal, so that JSON can be written.

use std::ops::Range;

use swiftwater_generate::Rng;

/// See the head of this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    /// The first number and how many there are.
    Number(i64, u64),
    Word(Vec<Vec<u8>>),
    Sequence,
}

/// The reason why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{{{place}}}`: {why}")]
pub struct TemplateError {
    place: String,
    why: &'static str,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// Fails if a place has the form of one, and no number or no word to be filled with.
    pub fn new(text: &str) -> Result<Template, TemplateError> {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                Some((place, behind)) if let Some(piece) = piece(place)? => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece);
                    rest = behind;
                }
                _ => {
                    let (one, behind) = rest.split_at(first.len_utf8());
                    plain.extend_from_slice(one.as_bytes());
                    rest = behind;
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template { pieces })
    }

    /// Adds the text with its places filled.
    #[inline]
    pub fn push(&self, number: u64, rng: &mut Rng, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Number(first, count) => {
                    let drawn = first
                        .wrapping_add_unsigned(((u128::from(rng.bits()) * u128::from(*count)) >> 64) as u64);
                    out.extend_from_slice(digits.format(drawn).as_bytes());
                }
                Piece::Word(words) => out.extend_from_slice(&words[rng.below(words.len())]),
                Piece::Sequence => out.extend_from_slice(digits.format(number).as_bytes()),
            }
        }
    }

    /// The text where no place has to be filled.
    pub fn plain(&self) -> Option<&[u8]> {
        match self.pieces.as_slice() {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// The place between braces, if it has the form of one.
fn piece(place: &str) -> Result<Option<Piece>, TemplateError> {
    let fault = |why| TemplateError { place: place.to_owned(), why };
    if place == "n" {
        return Ok(Some(Piece::Sequence));
    }
    if let Some((from, to)) = place.split_once("..") {
        let is_number = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
        };
        if !(is_number(from) && is_number(to)) {
            return Ok(None);
        }
        let read = |text: &str| {
            text.replace('_', "").parse::<i64>().map_err(|_| fault("a number does not fit into 64 bits"))
        };
        let Range { start, end } = read(from)?..read(to)?;
        if end < start {
            return Err(fault("the first number is above the second"));
        }
        let count = end.abs_diff(start).checked_add(1).ok_or_else(|| fault("too many numbers"))?;
        return Ok(Some(Piece::Number(start, count)));
    }
    let is_word =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if place.contains('|') && place.split('|').all(is_word) {
        return Ok(Some(Piece::Word(place.split('|').map(|word| word.as_bytes().to_vec()).collect())));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn filled(text: &str, count: u64) -> Vec<String> {
        let (template, mut rng) = (Template::new(text).unwrap(), Rng::new(1));
        let one = |number| {
            let mut out = Vec::new();
            template.push(number, &mut rng, &mut out);
            String::from_utf8(out).unwrap()
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn places_are_filled() {
        let found: HashSet<String> = filled("/a/{1..3}/{x|y}/é", 500).into_iter().collect();
        assert_eq!(found.len(), 6);
        assert!(found.contains("/a/3/x/é"), "{found:?}");
        assert_eq!(filled("{n}-{n}", 2), ["0-0", "1-1"]);
        assert_eq!(filled("{-2..-2}", 1), ["-2"]);
        let all = filled(&format!("{{{}..{}}}", i64::MIN + 1, i64::MAX), 50);
        assert!(all.iter().any(|number| number.starts_with('-')) && all.len() == 50);
    }

    #[test]
    fn other_braces_stand_for_themselves() {
        for text in
            ["{\"a\": {\"b\": [1, 2]}}", "{", "}{", "{}", "{a}", "{1..}", "{a b|c}", "{\"x\":\"a..b\"}"]
        {
            assert_eq!(filled(text, 1), [text]);
            assert_eq!(Template::new(text).unwrap().plain(), Some(text.as_bytes()));
        }
        assert_eq!(filled("{\"id\":{7..7}}", 1), ["{\"id\":7}"]);
    }

    #[test]
    fn what_cannot_be_filled_is_refused() {
        let fault = |text| Template::new(text).unwrap_err().to_string();
        assert_eq!(fault("/{5..1}"), "`{5..1}`: the first number is above the second");
        assert_eq!(
            fault("/{1..99999999999999999999}"),
            "`{1..99999999999999999999}`: a number does not fit into 64 bits"
        );
    }
}
