//! Classifies characters: those that separate tokens, those of words, and those of scripts that are written without spaces.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, GeneralCategory, Script},
    script::ScriptWithExtensions,
};

/// The role of a character in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// It separates tokens.
    Separator,
    /// A letter or digit of a script with spaces between its words.
    Word,
    /// A letter or digit of a script without spaces: Han, kana, Thai, Lao, Khmer, Myanmar.
    Unspaced,
    /// A mark, which belongs to the character before it.
    Mark,
}

/// The scripts whose words have no spaces between them.
const UNSPACED: [Script; 7] = [
    Script::Han,
    Script::Hiragana,
    Script::Katakana,
    Script::Thai,
    Script::Lao,
    Script::Khmer,
    Script::Myanmar,
];

/// The class of a character: letters (L), marks (M) and decimal digits (Nd) are of tokens, all else separates.
pub(crate) fn class(c: char) -> Class {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() { Class::Word } else { Class::Separator };
    }
    match CodePointMapData::<GeneralCategory>::new().get(c) {
        GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark | GeneralCategory::EnclosingMark => {
            Class::Mark
        }
        GeneralCategory::UppercaseLetter
        | GeneralCategory::LowercaseLetter
        | GeneralCategory::TitlecaseLetter
        | GeneralCategory::ModifierLetter
        | GeneralCategory::OtherLetter
        | GeneralCategory::DecimalNumber => {
            if is_unspaced(c) {
                Class::Unspaced
            } else {
                Class::Word
            }
        }
        _ => Class::Separator,
    }
}

/// Returns true if a letter or digit is of a script without spaces. A letter of several scripts, such as the long vowel mark
/// of kana, is if one of them is.
fn is_unspaced(c: char) -> bool {
    // Below are Latin, Greek, Cyrillic, Hebrew, Arabic and Indic scripts.
    if c < '\u{0E00}' {
        return false;
    }
    match CodePointMapData::<Script>::new().get(c) {
        Script::Common | Script::Inherited => {
            let scripts = ScriptWithExtensions::new();
            UNSPACED.iter().any(|script| scripts.has_script(c, *script))
        }
        script => UNSPACED.contains(&script),
    }
}

/// Returns true if normalisation removes a character, such as a variation selector.
pub(crate) fn is_ignorable(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_marks_and_digits_are_of_tokens() {
        for (c, expected) in [
            ('a', Class::Word),
            ('7', Class::Word),
            ('_', Class::Separator),
            ('-', Class::Separator),
            ('é', Class::Word),
            ('\u{301}', Class::Mark),
            ('Ж', Class::Word),
            ('ش', Class::Word),
            ('한', Class::Word),
            ('٣', Class::Word),
            ('漢', Class::Unspaced),
            ('々', Class::Unspaced),
            ('か', Class::Unspaced),
            ('ー', Class::Unspaced),
            ('ｶ', Class::Unspaced),
            ('ﾞ', Class::Unspaced),
            ('ก', Class::Unspaced),
            ('ວ', Class::Unspaced),
            ('ក', Class::Unspaced),
            ('မ', Class::Unspaced),
            ('²', Class::Separator),
            ('😀', Class::Separator),
            ('\u{200D}', Class::Separator),
            ('。', Class::Separator),
        ] {
            assert_eq!(class(c), expected, "{c:?}");
        }
    }
}
