//! The condition of a query on one token, and the key of a token in an index.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_128;

use crate::analyzer::TokenKind;

/// Tokens of more bytes are in an index by a prefix and a hash.
pub const TERM_BYTES_MAX: usize = 255;
/// Bytes of the hash of a long token, in hexadecimal digits.
const HASH_BYTES: usize = 32;

/// A piece of a pattern within a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These characters.
    Text(Box<str>),
    /// `?`: one character.
    One,
    /// `*`: any number of characters.
    Any,
}

/// A condition on the text of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// This very text.
    Exact(Box<str>),
    /// It begins so.
    Prefix(Box<str>),
    /// It has these pieces, one after the other and nothing else.
    Wildcard(Box<[Piece]>),
    /// A word from which at most so many characters are inserted, removed or replaced (Levenshtein, 1966).
    Fuzzy {
        /// The text.
        word: Box<str>,
        /// The limit.
        distance: u8,
    },
}

/// A condition on one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The condition on its text.
    pub pattern: Pattern,
    /// True if it is on stems; else it is on words, parts, pairs and last characters.
    pub is_stem: bool,
}

impl Term {
    /// Returns true if a token satisfies it.
    pub fn matches(&self, kind: TokenKind, text: &str) -> bool {
        let is_stem = matches!(kind, TokenKind::Stem | TokenKind::PartStem);
        is_stem == self.is_stem && self.pattern.matches(text)
    }
}

impl Pattern {
    /// Returns true if a text satisfies it.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Exact(word) => **word == *text,
            Pattern::Prefix(prefix) => text.starts_with(&**prefix),
            Pattern::Wildcard(pieces) => match &**pieces {
                // The forms that all terms of an index are compared with.
                [Piece::Any, Piece::Text(part), Piece::Any] => text.contains(&**part),
                [Piece::Any, Piece::Text(part)] => text.ends_with(&**part),
                pieces => has_pieces(pieces, text),
            },
            Pattern::Fuzzy { word, distance } => is_within(word, text, usize::from(*distance)),
        }
    }

    /// The text that each token which satisfies it begins with, perhaps empty.
    pub fn prefix(&self) -> &str {
        match self {
            Pattern::Exact(text) | Pattern::Prefix(text) => text,
            Pattern::Wildcard(pieces) => match pieces.first() {
                Some(Piece::Text(text)) => text,
                _ => "",
            },
            Pattern::Fuzzy { .. } => "",
        }
    }
}

/// Returns true if a text has these pieces. Linear but for going back to the last `*`, as each `*` before it has found its
/// shortest match.
fn has_pieces(pieces: &[Piece], text: &str) -> bool {
    let (mut piece, mut rest) = (0, text);
    // After the last `*`: the piece behind it, and the text from which it was tried.
    let mut last_any: Option<(usize, &str)> = None;
    loop {
        let next = match pieces.get(piece) {
            None if rest.is_empty() => return true,
            None => None,
            Some(Piece::Any) => {
                last_any = Some((piece + 1, rest));
                Some(rest)
            }
            Some(Piece::One) => after_one(rest),
            Some(Piece::Text(text)) => rest.strip_prefix(&**text),
        };
        if let Some(next) = next {
            (piece, rest) = (piece + 1, next);
            continue;
        }
        let Some((behind, from)) = last_any else { return false };
        let Some(from) = after_one(from) else { return false };
        last_any = Some((behind, from));
        (piece, rest) = (behind, from);
    }
}

fn after_one(text: &str) -> Option<&str> {
    let first = text.chars().next()?;
    Some(&text[first.len_utf8()..])
}

/// Returns true if the distance of two texts, in characters, is at most so much.
fn is_within(a: &str, b: &str, distance_max: usize) -> bool {
    // A token of megabytes is no near miss of a word of a query.
    if a.len().abs_diff(b.len()) > distance_max * 4 {
        return false;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > distance_max {
        return false;
    }
    // Only cells near the diagonal can be small enough: `row[j]` is the distance of a[..i] and b[..i + j - distance_max].
    let (width, far) = (2 * distance_max + 1, distance_max + 1);
    let mut row: Vec<usize> = (0..width).map(|j| j.checked_sub(distance_max).unwrap_or(far)).collect();
    for i in 1..=a.len() {
        let mut next = vec![far; width];
        for j in 0..width {
            let Some(of_b) = (i + j).checked_sub(distance_max).filter(|of_b| *of_b <= b.len()) else {
                continue;
            };
            let mut least = if of_b == 0 { i } else { row[j] + usize::from(a[i - 1] != b[of_b - 1]) };
            if j + 1 < width {
                least = least.min(row[j + 1] + 1);
            }
            if j > 0 && of_b > 0 {
                least = least.min(next[j - 1] + 1);
            }
            next[j] = least.min(far);
        }
        row = next;
    }
    row.get(b.len() + distance_max - a.len()).is_some_and(|distance| *distance <= distance_max)
}

/// The key of a token in an index: the token or, for a long one, a prefix and a hash of the whole. Different long tokens may
/// have one key, so the row decides.
pub fn term_key(token: &str) -> Cow<'_, str> {
    if token.len() <= TERM_BYTES_MAX {
        return Cow::Borrowed(token);
    }
    let prefix = key_prefix(token);
    Cow::Owned(format!("{prefix}{:032x}", xxh3_128(token.as_bytes())))
}

/// The part of a token, or of a prefix of it, that its key is known to begin with.
pub fn key_prefix(text: &str) -> &str {
    &text[..text.floor_char_boundary(TERM_BYTES_MAX - HASH_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wildcard(pattern: &str) -> Pattern {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut text = String::new();
        for c in pattern.chars() {
            if matches!(c, '*' | '?') {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                }
                pieces.push(if c == '*' { Piece::Any } else { Piece::One });
            } else {
                text.push(c);
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.into()));
        }
        Pattern::Wildcard(pieces.into())
    }

    #[test]
    fn wildcards_match_within_a_token() {
        for (pattern, text, expected) in [
            ("conn*", "connection", true),
            ("conn*", "con", false),
            ("t?me*out", "timeout", true),
            ("t?me*out", "tmeout", false),
            ("*fused", "refused", true),
            ("*fused", "fusedx", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "b a", false),
            ("?", "é", true),
            ("?", "éé", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("*ab", "aab", true),
            ("a**b", "ab", true),
        ] {
            assert_eq!(wildcard(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    /// The distance by its definition.
    fn distance(a: &[char], b: &[char]) -> usize {
        match (a.split_last(), b.split_last()) {
            (None, _) => b.len(),
            (_, None) => a.len(),
            (Some((x, a_rest)), Some((y, b_rest))) => {
                let replaced = distance(a_rest, b_rest) + usize::from(x != y);
                replaced.min(distance(a_rest, b) + 1).min(distance(a, b_rest) + 1)
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn fuzzy_is_the_distance_of_levenshtein(a in "[aé漢]{0,6}", b in "[aé漢]{0,6}", most in 1_usize..3) {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            let expected = distance(&chars(&a), &chars(&b)) <= most;
            proptest::prop_assert_eq!(is_within(&a, &b, most), expected);
        }

        #[test]
        fn keys_have_a_bound_and_the_prefix_of_their_token(token in "[aé漢]{0,200}", cut in 0_usize..200) {
            let key = term_key(&token);
            proptest::prop_assert!(key.len() <= TERM_BYTES_MAX);
            let prefix = &token[..token.floor_char_boundary(cut)];
            proptest::prop_assert!(key.starts_with(key_prefix(prefix)));
        }
    }

    #[test]
    fn long_tokens_with_equal_beginnings_have_keys_of_their_own() {
        let (a, b) = ("x".repeat(1000), format!("{}y", "x".repeat(999)));
        assert_ne!(term_key(&a), term_key(&b));
        assert_eq!(term_key("short"), "short");
    }
}
