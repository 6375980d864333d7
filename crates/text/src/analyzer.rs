//! Divides text into tokens.
//!
//! A token is a maximal run of letters, marks and digits; everything else separates. It is normalised by
//! [toNFKC_Casefold](crate::nfkc_casefold). Scripts that are written without spaces have no words to find: their runs become
//! overlapping pairs of characters and the last character, so that a query finds every substring of a run.
//!
//! ```text
//! Read TIMEOUT, 東京都 5     token      read timeout 東京 京都 都 5
//!                            position      0       1    2    3  4 5
//! ```
//!
//! No word is left out for being frequent, short or long. Cost: ASCII text is read once, byte by byte, and copied only where
//! it has capitals.

use rust_stemmers::Stemmer;
use smallvec::SmallVec;

use crate::{
    classes::{Class, class},
    code_parts::for_each_part,
    normalize::{fold_accents, push_nfkc_casefold},
};

pub use rust_stemmers::Algorithm as Language;

/// The rules by which the text of a column is divided and normalised.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AnalyzerOptions {
    /// The language whose inflections are the same word.
    pub stem: Option<Language>,
    /// True if accents of Latin, Greek and Cyrillic letters make no difference.
    pub fold_accents: bool,
    /// True if the parts of names like `camelCase` are tokens, too.
    pub split_code: bool,
}

/// The part of a text that a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenKind {
    /// A word.
    Word,
    /// A part of a word: `case` of `camelCase`. The word itself is at the position of its first part.
    Part,
    /// Two adjacent characters of a run without spaces.
    Pair,
    /// The last character of a run without spaces.
    Last,
    /// The stem of a word.
    Stem,
    /// The stem of a part.
    PartStem,
}

/// A token of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'t> {
    /// The normalised text.
    pub text: &'t str,
    /// The part of the text that it stands for.
    pub kind: TokenKind,
    /// Its position among the tokens; tokens of one word share positions.
    pub position: u32,
    /// Its beginning in the original text, in bytes.
    pub start: usize,
    /// Its end there.
    pub end: usize,
}

/// Divides the text of a column into tokens.
pub struct Analyzer {
    options: AnalyzerOptions,
    stemmer: Option<Stemmer>,
}

/// Memory that is used again from text to text.
#[derive(Debug, Default)]
pub struct AnalyzerScratch {
    text: String,
    part: String,
    characters: Vec<Character>,
}

/// A normalised character of a run without spaces, and the bytes of the original that it is of.
#[derive(Debug, Clone, Copy)]
struct Character {
    c: char,
    start: usize,
    end: usize,
}

impl std::fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Analyzer").field(&self.options).finish()
    }
}

impl Default for Analyzer {
    fn default() -> Analyzer {
        Analyzer::new(AnalyzerOptions::default())
    }
}

impl Analyzer {
    /// An analyzer with these options.
    pub fn new(options: AnalyzerOptions) -> Analyzer {
        Analyzer { options, stemmer: options.stem.map(Stemmer::create) }
    }

    /// Its options.
    pub fn options(&self) -> &AnalyzerOptions {
        &self.options
    }

    /// Visits the tokens of a text, by position.
    pub fn for_each_token(
        &self,
        text: &str,
        scratch: &mut AnalyzerScratch,
        mut visit: impl FnMut(Token<'_>),
    ) {
        let bytes = text.as_bytes();
        let (mut at, mut position) = (0, 0);
        while at < bytes.len() {
            let start = at;
            while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                at += 1;
            }
            if bytes.get(at).is_none_or(u8::is_ascii) {
                if at > start {
                    self.word(text, (start, at), &mut position, scratch, &mut visit);
                }
                at += usize::from(at < bytes.len());
                continue;
            }
            // The maximal run has other characters than ASCII, or what follows is one that separates.
            at = start + self.run(text, start, &mut position, scratch, &mut visit);
        }
    }

    /// Visits the tokens of the maximal run that begins at a byte; answers its length, or that of the separator there.
    fn run(
        &self,
        text: &str,
        from: usize,
        position: &mut u32,
        scratch: &mut AnalyzerScratch,
        visit: &mut impl FnMut(Token<'_>),
    ) -> usize {
        // A run is of sub-runs of words and of scripts without spaces; marks belong to the character before.
        let (mut start, mut kind) = (from, None);
        let mut end = text.len();
        for (offset, c) in text[from..].char_indices() {
            let at = from + offset;
            let next = match class(c) {
                Class::Separator => {
                    end = at;
                    break;
                }
                Class::Mark => kind.unwrap_or(Class::Word),
                class => class,
            };
            if let Some(of) = kind
                && of != next
            {
                self.sub_run(text, (start, at), of, position, scratch, visit);
                start = at;
            }
            kind = Some(next);
        }
        if let Some(of) = kind {
            self.sub_run(text, (start, end), of, position, scratch, visit);
            return end - from;
        }
        text[from..].chars().next().map_or(1, char::len_utf8)
    }

    fn sub_run(
        &self,
        text: &str,
        (start, end): (usize, usize),
        of: Class,
        position: &mut u32,
        scratch: &mut AnalyzerScratch,
        visit: &mut impl FnMut(Token<'_>),
    ) {
        if of == Class::Unspaced {
            pairs(text, (start, end), position, scratch, visit);
        } else {
            self.word(text, (start, end), position, scratch, visit);
        }
    }

    fn word(
        &self,
        text: &str,
        (start, end): (usize, usize),
        position: &mut u32,
        scratch: &mut AnalyzerScratch,
        visit: &mut impl FnMut(Token<'_>),
    ) {
        let original = &text[start..end];
        let AnalyzerScratch { text: buffer, part, .. } = scratch;
        let Some(word) = self.normalized(original, buffer) else { return };
        self.visit_word(Token { text: word, kind: TokenKind::Word, position: *position, start, end }, visit);
        let mut parts = 0;
        if self.options.split_code {
            for_each_part(original, |range| {
                let Some(text) = self.normalized(&original[range.clone()], part) else { return };
                let (start, end) = (start + range.start, start + range.end);
                let token = Token { text, kind: TokenKind::Part, position: *position + parts, start, end };
                self.visit_word(token, visit);
                parts += 1;
            });
        }
        *position += parts.max(1);
    }

    /// Visits a word or a part, and its stem. Inlined, so that a token is in registers rather than copied through memory.
    #[inline(always)]
    fn visit_word(&self, token: Token<'_>, visit: &mut impl FnMut(Token<'_>)) {
        visit(token);
        if let Some(stemmer) = &self.stemmer {
            let stem = stemmer.stem(token.text);
            let kind = if token.kind == TokenKind::Part { TokenKind::PartStem } else { TokenKind::Stem };
            visit(Token { text: &stem, kind, ..token });
        }
    }

    /// A word as it is compared; none where nothing of it is left.
    fn normalized<'b>(&self, original: &'b str, buffer: &'b mut String) -> Option<&'b str> {
        if original.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            return Some(original);
        }
        buffer.clear();
        self.push_normalized(original, buffer);
        (!buffer.is_empty()).then_some(buffer.as_str())
    }

    /// Appends a text of letters, marks and digits as it is compared.
    pub(crate) fn push_normalized(&self, original: &str, out: &mut String) {
        let from = out.len();
        push_nfkc_casefold(original, out);
        if self.options.fold_accents {
            fold_accents(out, from);
        }
    }
}

/// Visits the overlapping pairs of a run without spaces, and its last character.
fn pairs(
    text: &str,
    (start, end): (usize, usize),
    position: &mut u32,
    scratch: &mut AnalyzerScratch,
    visit: &mut impl FnMut(Token<'_>),
) {
    let AnalyzerScratch { text: buffer, characters, .. } = scratch;
    characters.clear();
    normalized_characters(text, (start, end), buffer, characters);
    for (at, first) in characters.iter().enumerate() {
        let mut pair = [0; 8];
        let mut length = first.c.encode_utf8(&mut pair).len();
        let (kind, end) = match characters.get(at + 1) {
            Some(second) => {
                length += second.c.encode_utf8(&mut pair[length..]).len();
                (TokenKind::Pair, second.end)
            }
            None => (TokenKind::Last, first.end),
        };
        let text = std::str::from_utf8(&pair[..length]).expect("two characters were encoded");
        visit(Token { text, kind, position: *position, start: first.start, end });
        *position += 1;
    }
}

/// Normalises a run piece by piece, so that each normalised character has its place in the original. A piece is a character
/// with what may combine with it; no piece combines with the next one.
fn normalized_characters(
    text: &str,
    (from, to): (usize, usize),
    buffer: &mut String,
    characters: &mut Vec<Character>,
) {
    let mut starts: SmallVec<[usize; 64]> = SmallVec::new();
    for (offset, c) in text[from..to].char_indices() {
        // The voiced sound marks of half-width kana are letters, and combine all the same.
        let combines = class(c) == Class::Mark || matches!(c, '\u{FF9E}' | '\u{FF9F}');
        if offset == 0 || !combines {
            starts.push(from + offset);
        }
    }
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(to);
        buffer.clear();
        push_nfkc_casefold(&text[*start..end], buffer);
        characters.extend(buffer.chars().map(|c| Character { c, start: *start, end }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analyzed(options: AnalyzerOptions, text: &str) -> String {
        let mut all: Vec<String> = Vec::new();
        Analyzer::new(options).for_each_token(text, &mut AnalyzerScratch::default(), |token| {
            let Token { text: of, kind, position, start, end } = token;
            let mark = match kind {
                TokenKind::Word | TokenKind::Pair | TokenKind::Last => "",
                TokenKind::Part => "/",
                TokenKind::Stem | TokenKind::PartStem => "~",
            };
            all.push(format!("{position}:{mark}{of}={}", &text[start..end]));
        });
        all.join(" ")
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(analyzed(AnalyzerOptions::default(), text), expected, "{text}");
    }

    #[test]
    fn words_are_runs_of_letters_marks_and_digits() {
        check("", "");
        check("  --  ", "");
        check("Read TIMEOUT, 5s", "0:read=Read 1:timeout=TIMEOUT 2:5s=5s");
        check("foo.bar_baz", "0:foo=foo 1:bar=bar 2:baz=baz");
        check("Größe cafe\u{301}!", "0:grösse=Größe 1:café=cafe\u{301}");
        check("naïveté—ok", "0:naïveté=naïveté 1:ok=ok");
        check("a\u{FE0F} ❤\u{FE0F} b", "0:a=a\u{FE0F} 1:b=b");
        check("שלום world", "0:שלום=שלום 1:world=world");
        check("한국어 text", "0:한국어=한국어 1:text=text");
        check("ＡＢＣ", "0:abc=ＡＢＣ");
    }

    #[test]
    fn runs_without_spaces_become_pairs_and_the_last_character() {
        check("東京都", "0:東京=東京 1:京都=京都 2:都=都");
        check("abc東京5", "0:abc=abc 1:東京=東京 2:京=京 3:5=5");
        check("都", "0:都=都");
        check("ｶﾞｽ", "0:ガス=ｶﾞｽ 1:ス=ｽ");
        check("か\u{3099}", "0:が=か\u{3099}");
        check("ไทย", "0:ไท=ไท 1:ทย=ทย 2:ย=ย");
        check("カー。", "0:カー=カー 1:ー=ー");
    }

    #[test]
    fn parts_of_names_in_code_are_found_where_declared() {
        let options = AnalyzerOptions { split_code: true, ..AnalyzerOptions::default() };
        let found = analyzed(options, "getHTTPUser2 failed plain");
        let expected = "0:gethttpuser2=getHTTPUser2 0:/get=get 1:/http=HTTP 2:/user=User 3:/2=2 4:failed=failed \
                        5:plain=plain";
        assert_eq!(found, expected);
    }

    #[test]
    fn stems_and_accents_where_declared() {
        let options = AnalyzerOptions { stem: Some(Language::English), ..AnalyzerOptions::default() };
        assert_eq!(analyzed(options, "Connections"), "0:connections=Connections 0:~connect=Connections");
        let options = AnalyzerOptions { fold_accents: true, ..AnalyzerOptions::default() };
        assert_eq!(analyzed(options, "Café"), "0:cafe=Café");
    }

    #[test]
    fn long_tokens_are_whole() {
        let long = "x".repeat(1 << 20);
        let mut lengths = Vec::new();
        Analyzer::default().for_each_token(&long, &mut AnalyzerScratch::default(), |token| {
            lengths.push(token.text.len());
        });
        assert_eq!(lengths, [1 << 20]);
    }
}
