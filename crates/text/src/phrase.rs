//! Words one after the other: made of the text of a query, and found among the tokens of a value.

use std::ops::Range;

use crate::{
    analyzer::{Analyzer, AnalyzerScratch, Token, TokenKind},
    classes::{Class, class},
    term::{Pattern, Piece, Term},
};

/// Terms at positions relative to the first one. One word is a phrase of one term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// The terms, by position.
    pub terms: Vec<(u32, Term)>,
    /// Number of positions by which terms may be displaced against one another.
    pub slop: u32,
}

/// The reason why a text is no phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPhrase {
    /// It has no letters and digits.
    NoTokens,
    /// A run of a script without spaces has wildcards.
    WildcardInRun,
    /// A word with differing characters is not one word.
    FuzzyOfSeveral,
}

/// The tokens of one value.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    text: String,
    tokens: Vec<Stored>,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    text: (usize, usize),
    kind: TokenKind,
    position: u32,
    start: usize,
    end: usize,
}

impl Tokens {
    /// Fills it with the tokens of a text.
    pub(crate) fn fill(&mut self, analyzer: &Analyzer, text: &str, scratch: &mut AnalyzerScratch) {
        self.text.clear();
        self.tokens.clear();
        analyzer.for_each_token(text, scratch, |token| {
            let from = self.text.len();
            self.text.push_str(token.text);
            let Token { kind, position, start, end, .. } = token;
            self.tokens.push(Stored { text: (from, self.text.len()), kind, position, start, end });
        });
    }

    /// The number of tokens.
    #[cfg(feature = "arrow")]
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Visits each token: true if it is a stem, and its text.
    #[cfg(feature = "arrow")]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(bool, &str)) {
        for stored in &self.tokens {
            let is_stem = matches!(stored.kind, TokenKind::Stem | TokenKind::PartStem);
            visit(is_stem, &self.text[stored.text.0..stored.text.1]);
        }
    }

    fn is_match(&self, stored: &Stored, term: &Term) -> bool {
        term.matches(stored.kind, &self.text[stored.text.0..stored.text.1])
    }

    fn at(&self, position: u32) -> impl Iterator<Item = &Stored> {
        let from = self.tokens.partition_point(|stored| stored.position < position);
        self.tokens[from..].iter().take_while(move |stored| stored.position == position)
    }
}

impl Phrase {
    /// Returns true if it is among the tokens.
    pub(crate) fn is_in(&self, tokens: &Tokens) -> bool {
        let mut is_found = false;
        self.find(tokens, |_| {
            is_found = true;
            false
        });
        is_found
    }

    /// The number of its occurrences; at most one if words may be displaced.
    #[cfg(feature = "arrow")]
    pub(crate) fn count(&self, tokens: &Tokens) -> u64 {
        if self.slop > 0 {
            return u64::from(self.is_in(tokens));
        }
        let mut count = 0;
        self.find(tokens, |_| {
            count += 1;
            true
        });
        count
    }

    /// Adds the places in the original text where it is.
    pub(crate) fn places(&self, tokens: &Tokens, places: &mut Vec<Range<usize>>) {
        self.find(tokens, |found| {
            places.extend(found.iter().map(|(start, end)| *start..*end));
            true
        });
    }

    /// Visits each occurrence, as the places of its tokens, until the visitor answers that it has enough.
    fn find(&self, tokens: &Tokens, mut visit: impl FnMut(&[(usize, usize)]) -> bool) {
        if self.slop > 0 && self.terms.len() > 1 {
            self.find_displaced(tokens, visit);
            return;
        }
        let Some((_, first)) = self.terms.first() else { return };
        let mut places = Vec::with_capacity(self.terms.len());
        for stored in tokens.tokens.iter().filter(|stored| tokens.is_match(stored, first)) {
            places.clear();
            places.push((stored.start, stored.end));
            let others = self.terms[1..].iter().map_while(|(offset, term)| {
                let position = stored.position.checked_add(*offset)?;
                let found = tokens.at(position).find(|other| tokens.is_match(other, term))?;
                Some((found.start, found.end))
            });
            places.extend(others);
            if places.len() == self.terms.len() && !visit(&places) {
                return;
            }
        }
    }

    /// Terms with a slop: each at a token of its own, where displacements (position less relative position) differ by at
    /// most the slop.
    fn find_displaced(&self, tokens: &Tokens, mut visit: impl FnMut(&[(usize, usize)]) -> bool) {
        let displacements: Vec<Vec<(i64, usize)>> = self
            .terms
            .iter()
            .map(|(offset, term)| {
                let found = tokens.tokens.iter().enumerate();
                let found = found.filter(|(_, stored)| tokens.is_match(stored, term));
                found
                    .map(|(number, stored)| (i64::from(stored.position) - i64::from(*offset), number))
                    .collect()
            })
            .collect();
        let mut starts: Vec<i64> = displacements.iter().flatten().map(|(at, _)| *at).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut next_start = i64::MIN;
        for start in starts {
            if start < next_start {
                continue;
            }
            let window = start..=start + i64::from(self.slop);
            let near: Vec<Vec<usize>> = displacements
                .iter()
                .map(|of_term| {
                    let from = of_term.partition_point(|(at, _)| at < window.start());
                    of_term[from..]
                        .iter()
                        .take_while(|(at, _)| window.contains(at))
                        .map(|(_, at)| *at)
                        .collect()
                })
                .collect();
            let Some(chosen) = assign(&near, tokens) else { continue };
            let places: Vec<(usize, usize)> = chosen
                .iter()
                .map(|number| (tokens.tokens[*number].start, tokens.tokens[*number].end))
                .collect();
            if !visit(&places) {
                return;
            }
            next_start = window.end() + 1;
        }
    }
}

/// A token for each term, at positions that differ (Kuhn, "The Hungarian Method for the Assignment Problem", 1955).
fn assign(candidates: &[Vec<usize>], tokens: &Tokens) -> Option<Vec<usize>> {
    fn augment(
        term: usize,
        candidates: &[Vec<usize>],
        tokens: &Tokens,
        seen: &mut Vec<u32>,
        taken: &mut Vec<(u32, usize, usize)>,
    ) -> bool {
        for number in &candidates[term] {
            let position = tokens.tokens[*number].position;
            if seen.contains(&position) {
                continue;
            }
            seen.push(position);
            let holder = taken.iter().position(|(at, _, _)| *at == position);
            let is_free = holder.is_none_or(|at| augment(taken[at].1, candidates, tokens, seen, taken));
            if is_free {
                taken.retain(|(at, by, _)| *at != position && *by != term);
                taken.push((position, term, *number));
                return true;
            }
        }
        false
    }
    let mut taken = Vec::new();
    for term in 0..candidates.len() {
        if !augment(term, candidates, tokens, &mut Vec::new(), &mut taken) {
            return None;
        }
    }
    taken.sort_unstable_by_key(|(_, term, _)| *term);
    Some(taken.into_iter().map(|(_, _, number)| number).collect())
}

/// A token of a query, with its text.
struct QueryToken {
    text: Box<str>,
    kind: TokenKind,
    position: u32,
    end: usize,
}

/// The phrase of a text. The last word of an open one may go on.
pub(crate) fn phrase(analyzer: &Analyzer, text: &str, slop: u32, is_open: bool) -> Result<Phrase, NoPhrase> {
    let (terms, positions) = terms(analyzer, text, is_open, false);
    if positions == 0 {
        return Err(NoPhrase::NoTokens);
    }
    Ok(relative(terms, slop))
}

/// The terms of a text by position, and how many positions it has. A single word is matched as a whole; among others,
/// positions are those of its parts.
fn terms(analyzer: &Analyzer, text: &str, is_open: bool, is_among_others: bool) -> (Vec<(u32, Term)>, u32) {
    let mut all: Vec<QueryToken> = Vec::new();
    analyzer.for_each_token(text, &mut AnalyzerScratch::default(), |token| {
        let Token { kind, position, end, .. } = token;
        all.push(QueryToken { text: token.text.into(), kind, position, end });
    });
    let Some(last) = all.iter().map(|token| token.position).max() else { return (Vec::new(), 0) };
    let is_of_parts = |kind| matches!(kind, TokenKind::Part | TokenKind::PartStem);
    let is_of_first = |token: &QueryToken| token.position == 0 || is_of_parts(token.kind);
    let is_one_word = !is_among_others && all.iter().all(is_of_first);
    let has_stems = analyzer.options().stem.is_some();
    let mut terms: Vec<(u32, Term)> = Vec::new();
    for (number, token) in all.iter().enumerate() {
        match token.kind {
            TokenKind::Pair => terms.push((token.position, exact(&token.text, false))),
            TokenKind::Last => {
                let is_in_pair = number.checked_sub(1).is_some_and(|before| {
                    let before = &all[before];
                    before.kind == TokenKind::Pair
                        && before.position + 1 == token.position
                        && before.end == token.end
                });
                if !is_in_pair {
                    terms.push((token.position, prefix(&token.text)));
                }
            }
            kind => {
                let mut same_place =
                    all[number + 1..].iter().take_while(|next| next.position == token.position);
                let has_parts = same_place.any(|next| next.kind == TokenKind::Part);
                let is_chosen = if is_of_parts(kind) { !is_one_word } else { is_one_word || !has_parts };
                let is_prefix = is_open && (token.position == last || is_one_word);
                let is_stem = matches!(kind, TokenKind::Stem | TokenKind::PartStem);
                if is_chosen && is_stem == (has_stems && !is_prefix) {
                    let term = if is_prefix { prefix(&token.text) } else { exact(&token.text, is_stem) };
                    terms.push((token.position, term));
                }
            }
        }
    }
    (terms, last + 1)
}

fn prefix(text: &str) -> Term {
    Term { pattern: Pattern::Prefix(text.into()), is_stem: false }
}

fn exact(text: &str, is_stem: bool) -> Term {
    Term { pattern: Pattern::Exact(text.into()), is_stem }
}

fn relative(mut terms: Vec<(u32, Term)>, slop: u32) -> Phrase {
    let first = terms.first().map_or(0, |(position, _)| *position);
    for (position, _) in &mut terms {
        *position -= first;
    }
    Phrase { terms, slop }
}

/// The phrase of a word with wildcards, or with characters that may differ.
pub(crate) fn word(analyzer: &Analyzer, pieces: &[Piece], distance: u8) -> Result<Phrase, NoPhrase> {
    if let [Piece::Text(text)] = pieces {
        let found = phrase(analyzer, text, 0, false)?;
        if distance == 0 {
            return Ok(found);
        }
        let mut words = text.chars().map(class).filter(|class| *class != Class::Mark);
        if !words.all(|class| class == Class::Word) {
            return Err(NoPhrase::FuzzyOfSeveral);
        }
        let mut word = String::new();
        analyzer.push_normalized(text, &mut word);
        let pattern = Pattern::Fuzzy { word: word.into(), distance };
        return Ok(Phrase { terms: vec![(0, Term { pattern, is_stem: false })], slop: 0 });
    }
    if distance > 0 {
        return Err(NoPhrase::FuzzyOfSeveral);
    }
    let tokens = token_pieces(pieces);
    let is_among_others = tokens.len() > 1;
    let (mut all, mut position) = (Vec::new(), 0);
    for (class, mut pieces) in tokens {
        if class == Some(Class::Unspaced) {
            // Wildcards at the ends of a run make no difference: a run is open at both ends.
            let is_text = |piece: &Piece| *piece != Piece::Any;
            let end = pieces.iter().rposition(is_text).map_or(0, |last| last + 1);
            pieces.truncate(end);
            pieces.drain(..pieces.iter().position(is_text).unwrap_or(0));
            if pieces.len() > 1 {
                return Err(NoPhrase::WildcardInRun);
            }
        }
        if let [Piece::Text(text)] = &pieces[..] {
            let (terms, positions) = terms(analyzer, text, false, is_among_others);
            all.extend(terms.into_iter().map(|(offset, term)| (position + offset, term)));
            position += positions;
        } else {
            all.push((position, Term { pattern: pattern(analyzer, &pieces), is_stem: false }));
            position += 1;
        }
    }
    if all.is_empty() { Err(NoPhrase::NoTokens) } else { Ok(relative(all, 0)) }
}

/// The pattern of the pieces of one token.
fn pattern(analyzer: &Analyzer, pieces: &[Piece]) -> Pattern {
    let normalized = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => {
            let mut out = String::new();
            analyzer.push_normalized(text, &mut out);
            Piece::Text(out.into())
        }
        wildcard => wildcard.clone(),
    });
    let pieces: Vec<Piece> = normalized.collect();
    match &pieces[..] {
        [Piece::Text(prefix), Piece::Any] => Pattern::Prefix(prefix.clone()),
        _ => Pattern::Wildcard(pieces.into()),
    }
}

/// The pieces of a word by token: separators and changes between scripts divide it.
fn token_pieces(pieces: &[Piece]) -> Vec<(Option<Class>, Vec<Piece>)> {
    let mut tokens: Vec<(Option<Class>, Vec<Piece>)> = Vec::new();
    // The text that the last token goes on with, and whether it may go on.
    let (mut text, mut is_open) = (String::new(), false);
    let flush = |tokens: &mut Vec<(Option<Class>, Vec<Piece>)>, text: &mut String| {
        if let Some((_, pieces)) = tokens.last_mut()
            && !text.is_empty()
        {
            pieces.push(Piece::Text(std::mem::take(text).into()));
        }
    };
    for piece in pieces {
        let Piece::Text(of) = piece else {
            flush(&mut tokens, &mut text);
            match tokens.last_mut() {
                Some((_, last)) if is_open => last.push(piece.clone()),
                _ => tokens.push((None, vec![piece.clone()])),
            }
            is_open = true;
            continue;
        };
        for c in of.chars() {
            let last = tokens.last().filter(|_| is_open).and_then(|(class, _)| *class);
            let of = match class(c) {
                Class::Separator => {
                    is_open = false;
                    continue;
                }
                Class::Mark => last.unwrap_or(Class::Word),
                class => class,
            };
            if !is_open || last.is_some_and(|last| last != of) {
                flush(&mut tokens, &mut text);
                tokens.push((None, Vec::new()));
            }
            if let Some((class, _)) = tokens.last_mut() {
                *class = Some(of);
            }
            text.push(c);
            is_open = true;
        }
    }
    flush(&mut tokens, &mut text);
    tokens
}
