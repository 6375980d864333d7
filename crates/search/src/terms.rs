//! The keys of terms in the dictionary of a field.

use swiftwater_text::{TERM_BYTES_MAX, TokenKind, query::Number, term_key};

/// The only term of a field for presence.
pub(crate) const PRESENT: &[u8] = b"";
/// Before the key of a stem; no other key begins so, as it is no UTF-8.
pub(crate) const STEM: u8 = 0xff;
/// Before the key of a whole text.
pub(crate) const TEXT: u8 = b't';
/// Before a number.
const NUMBER: u8 = b'n';
/// Before a truth value.
const BOOLEAN: u8 = b'b';

/// True if a token is marked as a stem in its key.
pub(crate) fn is_stem(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Stem | TokenKind::PartStem)
}

/// Writes the key of a token.
pub(crate) fn push_word(kind: TokenKind, token: &str, key: &mut Vec<u8>) {
    if is_stem(kind) {
        key.push(STEM);
    }
    key.extend_from_slice(term_key(token).as_bytes());
}

/// Writes the key of a whole text.
pub(crate) fn push_text(text: &str, key: &mut Vec<u8>) {
    key.push(TEXT);
    key.extend_from_slice(term_key(text).as_bytes());
}

/// Writes the key of a number: equal numbers have equal keys, be they whole or floating-point.
pub(crate) fn push_number(number: Number, key: &mut Vec<u8>) {
    /// 2^127, beyond the largest `i128`.
    const END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    key.push(NUMBER);
    let text = match number {
        Number::Integer(integer) => integer.to_string(),
        Number::Float(float) if float.fract() == 0.0 && (-END..END).contains(&float) => {
            (float as i128).to_string()
        }
        Number::Float(float) => format!("f{:x}", float.to_bits()),
    };
    key.extend_from_slice(text.as_bytes());
}

/// Writes the key of a truth value.
pub(crate) fn push_boolean(boolean: bool, key: &mut Vec<u8>) {
    key.extend_from_slice(&[BOOLEAN, u8::from(boolean)]);
}

/// True if the text of a key may be shortened, so that the row decides.
pub(crate) fn may_be_shortened(text: &str) -> bool {
    // A shortened one ends on the border of a character.
    text.len() >= TERM_BYTES_MAX - 3
}
