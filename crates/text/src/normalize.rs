//! Normalises text so that spellings of the same word are equal: Unicode's toNFKC_Casefold, and the folding of accents.
//!
//! toNFKC_Casefold maps each character to its NFKC_Casefold mapping and brings the whole into NFC (The Unicode Standard,
//! section 3.13, R5). ICU4X has no table of that mapping; it is derived here as the standard does: case folding and NFKC
//! until nothing changes, without default ignorable characters.

use std::sync::LazyLock;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizer, ComposingNormalizerBorrowed, DecomposingNormalizer};
use icu_properties::{CodePointSetData, props::ChangesWhenNfkcCasefolded};

use crate::classes::is_ignorable;

/// The version of Unicode whose properties and mappings are used.
pub const UNICODE_VERSION: &str = "18.0";

/// Characters below have their mapping in a table.
const TABLE_END: u32 = 0x2000;

/// Combining marks of Latin, Greek and Cyrillic letters, by block. Marks of other scripts change a word's meaning.
const ACCENTS: [std::ops::RangeInclusive<char>; 5] = [
    '\u{300}'..='\u{36F}',
    '\u{1AB0}'..='\u{1AFF}',
    '\u{1DC0}'..='\u{1DFF}',
    '\u{20D0}'..='\u{20FF}',
    '\u{FE20}'..='\u{FE2F}',
];

/// Letters with a stroke and ligatures, which do not decompose.
const PLAIN_LETTERS: [(char, &str); 10] = [
    ('ø', "o"),
    ('ł', "l"),
    ('đ', "d"),
    ('ħ', "h"),
    ('ŧ', "t"),
    ('ı', "i"),
    ('ð', "d"),
    ('þ', "th"),
    ('æ', "ae"),
    ('œ', "oe"),
];

/// The combining iota below a letter. It folds to a letter, so marks must be in canonical order before (The Unicode Standard,
/// section 3.13, D147).
const IOTA_BELOW: char = '\u{345}';

enum Mapping {
    Same,
    One(char),
    Other(Box<str>),
}

static TABLE: LazyLock<Box<[Mapping]>> = LazyLock::new(|| {
    (0..TABLE_END).map(|code| char::from_u32(code).map_or(Mapping::Same, mapping)).collect()
});

fn nfc() -> ComposingNormalizerBorrowed<'static> {
    ComposingNormalizer::new_nfc()
}

/// The mapping of NFKC_Casefold of one character.
fn mapping(c: char) -> Mapping {
    if !CodePointSetData::new::<ChangesWhenNfkcCasefolded>().contains(c) {
        return Mapping::Same;
    }
    let (fold, nfkc) = (CaseMapper::new(), ComposingNormalizer::new_nfkc());
    let mut text = c.to_string();
    loop {
        let decomposed = DecomposingNormalizer::new_nfd().normalize(&text).into_owned();
        let once = nfkc.normalize(&fold.fold_string(&decomposed)).into_owned();
        let twice = nfkc.normalize(&fold.fold_string(&once)).into_owned();
        let next: String = twice.chars().filter(|c| !is_ignorable(*c)).collect();
        if next == text {
            break;
        }
        text = next;
    }
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(only), None) => Mapping::One(only),
        _ => Mapping::Other(text.into()),
    }
}

/// Appends toNFKC_Casefold of a text, in canonical decomposition where that makes a difference: canonically equivalent texts
/// are equal.
pub fn push_nfkc_casefold(text: &str, out: &mut String) {
    if text.is_ascii() {
        out.extend(text.chars().map(|c| c.to_ascii_lowercase()));
        return;
    }
    let decomposed;
    let mut text = text;
    if text.chars().any(|c| c == IOTA_BELOW || ('\u{1F80}'..='\u{1FFC}').contains(&c)) {
        decomposed = DecomposingNormalizer::new_nfd().normalize(text);
        text = &decomposed;
    }
    let from = out.len();
    for c in text.chars() {
        let computed;
        let mapping = match TABLE.get(c as usize) {
            Some(mapping) => mapping,
            None => {
                computed = mapping(c);
                &computed
            }
        };
        match mapping {
            Mapping::Same => out.push(c),
            Mapping::One(only) => out.push(*only),
            Mapping::Other(text) => out.push_str(text),
        }
    }
    if !nfc().is_normalized(&out[from..]) {
        let normalized = nfc().normalize(&out[from..]).into_owned();
        out.truncate(from);
        out.push_str(&normalized);
    }
}

/// toNFKC_Casefold of a text.
///
/// ```
/// assert_eq!(swiftwater_text::nfkc_casefold("Straße ＡＢＣ"), "strasse abc");
/// ```
pub fn nfkc_casefold(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_nfkc_casefold(text, &mut out);
    out
}

/// Removes the accents of Latin, Greek and Cyrillic letters from the end of a normalised text, from the byte `from` on.
pub(crate) fn fold_accents(text: &mut String, from: usize) {
    if text[from..].is_ascii() {
        return;
    }
    let decomposed = DecomposingNormalizer::new_nfd().normalize(&text[from..]).into_owned();
    text.truncate(from);
    for c in decomposed.chars() {
        if ACCENTS.iter().any(|accents| accents.contains(&c)) {
            continue;
        }
        match PLAIN_LETTERS.iter().find(|(letter, _)| *letter == c) {
            Some((_, plain)) => text.push_str(plain),
            None => text.push(c),
        }
    }
    let composed = nfc().normalize(&text[from..]).into_owned();
    text.truncate(from);
    text.push_str(&composed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_word_are_equal() {
        for (text, expected) in [
            ("Timeout", "timeout"),
            ("STRASSE", "strasse"),
            ("straße", "strasse"),
            ("ＡＢＣ１２", "abc12"),
            ("ﬁle", "file"),
            ("e\u{301}", "é"),
            ("É", "é"),
            ("Σίσυφος", "σίσυφοσ"),
            ("ᾳ", "αι"),
            ("\u{345}", "ι"),
            ("İ", "i\u{307}"),
            ("ｶﾞ", "ガ"),
            ("한국", "한국"),
            ("co\u{AD}op", "coop"),
            ("a\u{FE0F}", "a"),
            ("ǅ", "dž"),
            ("", ""),
        ] {
            assert_eq!(nfkc_casefold(text), expected, "{text}");
        }
    }

    #[test]
    fn accents_are_folded_where_a_letter_stays_the_same_word() {
        for (text, expected) in
            [("café", "cafe"), ("łódź", "lodz"), ("smørrebrød", "smorrebrod"), ("ガ", "ガ"), ("กำ", "กํา")]
        {
            let mut folded = nfkc_casefold(text);
            fold_accents(&mut folded, 0);
            assert_eq!(folded, expected, "{text}");
        }
    }
}
