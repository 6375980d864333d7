//! The words that every text with a literal in it has, so that an index finds the rows that may contain the literal.
//!
//! ```text
//! %failed after 10 ms%     f*l*ed: open at its start    after, 10: whole    ms: open at its end
//!                          *failed                      after, 10           m*
//! ```
//!
//! A token is whole if a separator, or the start or end of the text, is on both sides of it. The first and the last token of a
//! literal may be parts of longer ones. Of an open end the last character is left out, as a mark that follows may change it.
//! The row decides.

use regex_syntax::hir::{Hir, HirKind, Look};

use crate::{
    analyzer::{Analyzer, AnalyzerScratch, Token, TokenKind},
    columns::TextKind,
    definition::ColumnIndex,
    phrase::Phrase,
    table::{SearchField, is_text},
    term::{Pattern, Piece, Term},
};

/// The fewest characters of a part of a token that is asked for: shorter ones are parts of most tokens.
const PART_CHARS_MIN: usize = 3;

/// A literal that texts contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal<'l> {
    /// Its characters.
    pub text: &'l str,
    /// True if nothing precedes it in the text.
    pub starts_text: bool,
    /// True if nothing follows it in the text.
    pub ends_text: bool,
}

impl SearchField {
    /// The words by which the search index of this column of texts finds the rows that may contain a literal; none if it has no
    /// such words, or the index no words.
    pub fn literal_words(&self, literal: &Literal<'_>) -> Option<Phrase> {
        let index = self.column_index().filter(|index| is_text(&self.ty) && index.text.is_some())?;
        literal_words(literal, &index)
    }
}

/// The words, one after the other, that every text with a literal in it has; none if there are none.
pub(crate) fn literal_words(literal: &Literal<'_>, index: &ColumnIndex) -> Option<Phrase> {
    if index.text_kind() != TextKind::Words {
        return None;
    }
    let Literal { text, starts_text, ends_text } = *literal;
    let options = index.analyzer_options();
    // Tokens that are divided have positions within, of which a part of a token tells nothing.
    let has_parts = !options.split_code;
    let is_separator = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    let separated = |at: usize| text.as_bytes().get(at).is_some_and(is_separator);
    let mut whole: Vec<(u32, Term)> = Vec::new();
    let (mut open_start, mut open_end) = (None, None);
    Analyzer::new(options).for_each_token(text, &mut AnalyzerScratch::default(), |token| {
        let Token { text: word, kind, position, start, end } = token;
        if kind != TokenKind::Word {
            return;
        }
        let is_closed_before = start.checked_sub(1).map_or(starts_text, separated);
        let is_closed_behind = if end == text.len() { ends_text } else { separated(end) };
        let is_part = has_parts && word.is_ascii() && word.len() == end - start;
        match (is_closed_before, is_closed_behind) {
            (true, true) => whole.push((position, term(Pattern::Exact(word.into())))),
            (true, false) if is_part && end == text.len() && word.len() > PART_CHARS_MIN => {
                open_end = Some((position, term(Pattern::Prefix(word[..word.len() - 1].into()))));
            }
            (false, is_closed_behind) if is_part && start == 0 => {
                let open = if is_closed_behind { 0 } else { usize::from(end == text.len()) };
                let part = &word[..word.len() - open];
                if part.len() >= PART_CHARS_MIN && (is_closed_behind || end == text.len()) {
                    let mut pieces = vec![Piece::Any, Piece::Text(part.into())];
                    pieces.extend((!is_closed_behind).then_some(Piece::Any));
                    open_start = Some((position, term(Pattern::Wildcard(pieces.into()))));
                }
            }
            _ => {}
        }
    });
    // An open start is looked for in all terms of the field, so only where nothing else is known.
    let open_start = open_start.filter(|_| whole.is_empty() && open_end.is_none());
    let terms: Vec<(u32, Term)> = open_start.into_iter().chain(whole).chain(open_end).collect();
    let first = terms.first()?.0;
    let terms = terms.into_iter().map(|(position, term)| (position - first, term)).collect();
    Some(Phrase { terms, slop: 0 })
}

fn term(pattern: Pattern) -> Term {
    Term { pattern, is_stem: false }
}

/// The words, one after the other, that every text has in which a regular expression finds something: those of its best literal.
pub(crate) fn expression_words(expression: &str, index: &ColumnIndex) -> Option<Phrase> {
    let mut found: Vec<Phrase> = Vec::new();
    add_literals(&regex_syntax::parse(expression).ok()?, &mut |literal| {
        found.extend(literal_words(literal, index));
    });
    found.into_iter().max_by_key(rank)
}

/// Whole words and beginnings first, then the longer ones.
fn rank(phrase: &Phrase) -> (bool, usize) {
    let is_found_by_prefix = phrase.terms.iter().any(|(_, term)| !term.pattern.prefix().is_empty());
    (is_found_by_prefix, phrase.terms.iter().map(|(_, term)| length(&term.pattern)).sum())
}

fn length(pattern: &Pattern) -> usize {
    match pattern {
        Pattern::Exact(text) | Pattern::Prefix(text) | Pattern::Fuzzy { word: text, .. } => text.len(),
        Pattern::Wildcard(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::One | Piece::Any => 0,
            })
            .sum(),
    }
}

/// Visits the literals that every text has in which an expression finds something.
fn add_literals(hir: &Hir, visit: &mut dyn FnMut(&Literal<'_>)) {
    let of_one = std::slice::from_ref(hir);
    let parts = match hir.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => of_one,
    };
    for (number, part) in parts.iter().enumerate() {
        let is_look = |at: Option<usize>, look: Look| {
            at.and_then(|at| parts.get(at)).is_some_and(|part| *part.kind() == HirKind::Look(look))
        };
        match part.kind() {
            HirKind::Literal(literal) => {
                let Ok(text) = std::str::from_utf8(&literal.0) else { continue };
                visit(&Literal {
                    text,
                    starts_text: is_look(number.checked_sub(1), Look::Start),
                    ends_text: is_look(number.checked_add(1), Look::End),
                });
            }
            HirKind::Capture(capture) => add_literals(&capture.sub, visit),
            HirKind::Repetition(repetition) if repetition.min > 0 => add_literals(&repetition.sub, visit),
            // Within a concatenation there is no other.
            HirKind::Concat(_)
            | HirKind::Repetition(_)
            | HirKind::Alternation(_)
            | HirKind::Empty
            | HirKind::Class(_)
            | HirKind::Look(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{AnalyzerOptions, TextIndex, phrase::Tokens};

    fn indexes() -> [ColumnIndex; 3] {
        let of = |options: AnalyzerOptions| ColumnIndex {
            text: Some(TextIndex { analyzer: options, boost: 1.0, has_positions: true }),
            ..ColumnIndex::default()
        };
        let plain = AnalyzerOptions::default();
        [
            of(plain),
            of(AnalyzerOptions { fold_accents: true, ..plain }),
            of(AnalyzerOptions { split_code: true, ..plain }),
        ]
    }

    fn has(text: &str, phrase: &Phrase, index: &ColumnIndex) -> bool {
        let mut tokens = Tokens::default();
        tokens.fill(&Analyzer::new(index.analyzer_options()), text, &mut AnalyzerScratch::default());
        phrase.is_in(&tokens)
    }

    fn words(literal: &str) -> Option<String> {
        let literal = Literal { text: literal, starts_text: false, ends_text: false };
        literal_words(&literal, &indexes()[0]).map(|phrase| shown(&phrase))
    }

    fn shown(phrase: &Phrase) -> String {
        let terms = phrase.terms.iter().map(|(position, term)| {
            let text = match &term.pattern {
                Pattern::Exact(text) => text.to_string(),
                Pattern::Prefix(text) => format!("{text}*"),
                Pattern::Wildcard(pieces) => pieces
                    .iter()
                    .map(|piece| match piece {
                        Piece::Text(text) => &**text,
                        Piece::One => "?",
                        Piece::Any => "*",
                    })
                    .collect(),
                Pattern::Fuzzy { word, .. } => format!("{word}~"),
            };
            format!("{position}:{text}")
        });
        terms.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_of_literals() {
        assert_eq!(words(" timeout ").as_deref(), Some("0:timeout"));
        assert_eq!(words("failed after 10 ms").as_deref(), Some("0:after 1:10"));
        assert_eq!(words("failed after").as_deref(), Some("0:afte*"));
        assert_eq!(words("failed a").as_deref(), Some("0:*failed"));
        assert_eq!(words("imeou").as_deref(), Some("0:*imeo*"));
        assert_eq!(words("/a.b/"), Some("0:a 1:b".to_owned()));
        assert_eq!((words("ab"), words("é timé"), words("--")), (None, None, None));
    }

    #[test]
    fn words_of_expressions() {
        let index = &indexes()[0];
        let words = |text| expression_words(text, index).map(|phrase| shown(&phrase));
        assert_eq!(words("user [0-9]+ was refused by").as_deref(), Some("0:was 1:refused"));
        assert_eq!(words("^refused$").as_deref(), Some("0:refused"));
        assert_eq!(words("^refused").as_deref(), Some("0:refuse*"));
        assert_eq!(words("(timeout )+x").as_deref(), Some("0:*timeout"));
        assert_eq!((words("(timeout )?x"), words("a|b"), words("(?i)timeout")), (None, None, None));
    }

    proptest! {
        #[test]
        fn texts_with_a_literal_have_its_words(
            text in "[abAB1 ._\u{301}\u{308}\u{AD}\u{200D}éßİK漢字ก्가ﬁ²-]{0,24}",
            cut in any::<(usize, usize)>(),
            is_expression in any::<bool>(),
        ) {
            let places: Vec<usize> =
                text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (a, b) = (places[cut.0 % places.len()], places[cut.1 % places.len()]);
            let (from, to) = (a.min(b), a.max(b));
            let literal =
                Literal { text: &text[from..to], starts_text: from == 0, ends_text: to == text.len() };
            for index in &indexes() {
                let found = match is_expression {
                    true => expression_words(&format!("{}.*", regex_syntax::escape(literal.text)), index),
                    false => literal_words(&literal, index),
                };
                if let Some(phrase) = found {
                    prop_assert!(has(&text, &phrase, index), "{literal:?} {}", shown(&phrase));
                }
            }
        }
    }
}
