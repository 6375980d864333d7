//! An oracle of text search, written from the definition of its language alone: slow, simple, and without code of the room
//! that it checks. Random rows and queries over small alphabets of all scripts go with it.
//!
//! A text is a sequence of units: a word is one, and so is each character of a run of a script without spaces. A phrase is
//! found where its units follow one another; characters that are adjacent in the query must be adjacent in one run.

use std::collections::BTreeMap;

use caseless::Caseless;
use regex::Regex;
use swiftwater_generate::Rng;
use unicode_normalization::UnicodeNormalization;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchValue {
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
}

/// A row: the values of each column.
pub type SearchedRow = BTreeMap<&'static str, Vec<SearchValue>>;

/// The columns of random rows: two of texts, which are the default ones, and one of numbers.
pub const SEARCH_COLUMNS: [&str; 3] = ["a", "b", "n"];

/// A query.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchQuery {
    /// Every row.
    Everything,
    /// All of them.
    And(Vec<SearchQuery>),
    /// One of them.
    Or(Vec<SearchQuery>),
    /// The query must not match.
    Not(Box<SearchQuery>),
    /// A condition on a column, or on one of the default columns.
    Test(Option<&'static str>, SearchTest),
}

/// A condition on a column.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchTest {
    /// The units of a text, one after the other; the last word of an open one may go on.
    Phrase {
        /// The text.
        text: String,
        /// The distance by which words may be displaced against one another.
        slop: usize,
        /// True if the last word may go on.
        is_open: bool,
        /// True if it is written in quotation marks.
        is_quoted: bool,
    },
    /// A token with `*` and `?`.
    Wildcard(String),
    /// A token with so many characters inserted, removed or replaced.
    Fuzzy(String, usize),
    /// This very text.
    Literal(String),
    /// A number between two, each included or not.
    Between(Option<(i64, bool)>, Option<(i64, bool)>),
    /// The value exists.
    Exists,
}

/// A word, or a character of the run of this number.
#[derive(Debug, Clone, PartialEq)]
enum Unit {
    Word(String),
    Character(char, usize),
}

/// The oracle.
#[derive(Debug)]
pub struct SearchOracle {
    letter: Regex,
    mark: Regex,
    unspaced: Regex,
}

impl Default for SearchOracle {
    fn default() -> SearchOracle {
        let of = |class: &str| Regex::new(&format!("^[{class}]$")).expect("it is a class");
        SearchOracle {
            letter: of(r"\p{L}\p{Nd}"),
            mark: of(r"\p{M}"),
            unspaced: of(r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ーｰﾞﾟ"),
        }
    }
}

/// toNFKC_Casefold of a whole text.
fn normalized(text: &str) -> String {
    let once: String = text.nfd().default_case_fold().nfkc().collect();
    let twice: String = once.chars().default_case_fold().nfkc().collect();
    // These are the ignorable characters that random texts have.
    twice.chars().filter(|c| !matches!(c, '\u{FE0F}' | '\u{200D}' | '\u{AD}')).nfc().collect()
}

impl SearchOracle {
    /// True if a row satisfies a query.
    pub fn matches(&self, query: &SearchQuery, row: &SearchedRow) -> bool {
        match query {
            SearchQuery::Everything => true,
            SearchQuery::And(all) => all.iter().all(|query| self.matches(query, row)),
            SearchQuery::Or(any) => any.iter().any(|query| self.matches(query, row)),
            SearchQuery::Not(not) => !self.matches(not, row),
            SearchQuery::Test(Some(column), test) => {
                row.get(column).is_some_and(|values| values.iter().any(|value| self.has(test, value)))
            }
            SearchQuery::Test(None, test) => {
                let defaults = ["a", "b"].iter().filter_map(|column| row.get(column));
                defaults.flatten().any(|value| self.has(test, value))
            }
        }
    }

    fn has(&self, test: &SearchTest, value: &SearchValue) -> bool {
        match (test, value) {
            (SearchTest::Exists | SearchTest::Between(None, None), _) => true,
            (SearchTest::Literal(literal), SearchValue::Text(text)) => text.contains(literal),
            (SearchTest::Literal(literal), SearchValue::Number(number)) => {
                number.to_string().contains(literal)
            }
            (SearchTest::Between(low, high), value) => {
                let number = match value {
                    SearchValue::Number(number) => Some(*number),
                    SearchValue::Text(text) => {
                        let digits = text.trim_start_matches('-');
                        let is_number = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
                        if is_number { text.parse().ok() } else { None }
                    }
                };
                number.is_some_and(|number| {
                    let above = |(low, is_in): &(i64, bool)| {
                        number > *low as f64 || (*is_in && number == *low as f64)
                    };
                    let below = |(high, is_in): &(i64, bool)| {
                        number < *high as f64 || (*is_in && number == *high as f64)
                    };
                    low.as_ref().is_none_or(above) && high.as_ref().is_none_or(below)
                })
            }
            (SearchTest::Phrase { text, slop, is_open, .. }, SearchValue::Text(value)) => {
                self.has_phrase(&self.units(value), &self.units(text), *slop, *is_open)
            }
            (SearchTest::Phrase { text, is_open, .. }, SearchValue::Number(number)) => {
                !is_open && text.parse::<f64>().is_ok_and(|wanted| wanted == *number)
            }
            (SearchTest::Wildcard(pattern), SearchValue::Text(value)) => {
                let pattern: Vec<char> = normalized(pattern).chars().collect();
                self.tokens(value).iter().any(|token| is_like(&pattern, token))
            }
            (SearchTest::Wildcard(pattern), SearchValue::Number(number)) => {
                let pattern: Vec<char> = pattern.chars().collect();
                is_like(&pattern, &number.to_string().chars().collect::<Vec<_>>())
            }
            (SearchTest::Fuzzy(wanted, most), SearchValue::Text(value)) => {
                let wanted: Vec<char> = normalized(wanted).chars().collect();
                self.tokens(value).iter().any(|token| distance(&wanted, token) <= *most)
            }
            (SearchTest::Fuzzy(..), SearchValue::Number(_)) => false,
        }
    }

    /// The tokens of a text: its words, and of runs the pairs of adjacent characters and the last one.
    fn tokens(&self, text: &str) -> Vec<Vec<char>> {
        let units = self.units(text);
        let token = |(at, unit): (usize, &Unit)| match (unit, units.get(at + 1)) {
            (Unit::Word(word), _) => word.chars().collect(),
            (Unit::Character(a, run), Some(Unit::Character(b, next))) if run == next => vec![*a, *b],
            (Unit::Character(a, _), _) => vec![*a],
        };
        units.iter().enumerate().map(token).collect()
    }

    fn units(&self, text: &str) -> Vec<Unit> {
        // Maximal runs of letters, marks and digits, cut where the script changes to one without spaces or back.
        let mut runs: Vec<(bool, String)> = Vec::new();
        let mut is_inside = false;
        for c in text.chars() {
            let of = c.to_string();
            let (is_letter, is_mark) = (self.letter.is_match(&of), self.mark.is_match(&of));
            if !is_letter && !is_mark {
                is_inside = false;
                continue;
            }
            let is_unspaced = is_letter && self.unspaced.is_match(&of);
            match runs.last_mut() {
                Some((kind, run)) if is_inside && (is_mark || *kind == is_unspaced) => run.push(c),
                _ => runs.push((is_unspaced, of)),
            }
            is_inside = true;
        }
        let mut units = Vec::new();
        for (number, (is_unspaced, run)) in runs.into_iter().enumerate() {
            let run = normalized(&run);
            if is_unspaced {
                units.extend(run.chars().map(|c| Unit::Character(c, number)));
            } else if !run.is_empty() {
                units.push(Unit::Word(run));
            }
        }
        units
    }

    fn has_phrase(&self, text: &[Unit], wanted: &[Unit], slop: usize, is_open: bool) -> bool {
        let fits = |at: usize, number: usize| match (&text[at], &wanted[number]) {
            (Unit::Word(word), Unit::Word(wanted_word)) if is_open && number + 1 == wanted.len() => {
                word.starts_with(wanted_word)
            }
            (Unit::Word(word), Unit::Word(wanted)) => word == wanted,
            (Unit::Character(c, _), Unit::Character(wanted, _)) => c == wanted,
            _ => false,
        };
        if slop == 0 {
            return (0..=text.len().saturating_sub(wanted.len())).any(|start| {
                text.len() >= start + wanted.len()
                    && (0..wanted.len()).all(|number| fits(start + number, number))
                    && (1..wanted.len()).all(|number| match (&wanted[number - 1], &wanted[number]) {
                        (Unit::Character(_, one), Unit::Character(_, other)) if one == other => {
                            matches!((&text[start + number - 1], &text[start + number]),
                                (Unit::Character(_, one), Unit::Character(_, other)) if one == other)
                        }
                        _ => true,
                    })
            });
        }
        // Words only: every choice of different places.
        let mut places = Vec::new();
        self.displaced(text.len(), wanted.len(), slop, &fits, &mut places)
    }

    fn displaced(
        &self,
        text: usize,
        wanted: usize,
        slop: usize,
        fits: &dyn Fn(usize, usize) -> bool,
        places: &mut Vec<usize>,
    ) -> bool {
        if places.len() == wanted {
            let moved = places.iter().enumerate().map(|(number, at)| *at as i64 - number as i64);
            let (least, most) = (moved.clone().min().unwrap_or(0), moved.max().unwrap_or(0));
            return most - least <= slop as i64;
        }
        (0..text).any(|at| {
            if places.contains(&at) || !fits(at, places.len()) {
                return false;
            }
            places.push(at);
            let is_found = self.displaced(text, wanted, slop, fits, places);
            places.pop();
            is_found
        })
    }
}

fn is_like(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|from| is_like(rest, &text[from..])),
        Some(('?', rest)) => !text.is_empty() && is_like(rest, &text[1..]),
        Some((c, rest)) => text.first() == Some(c) && is_like(rest, &text[1..]),
    }
}

/// The distance by its definition.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            next.push((row[j] + usize::from(x != y)).min(row[j + 1] + 1).min(next[j] + 1));
        }
        row = next;
    }
    row[b.len()]
}

impl SearchQuery {
    /// The query as a user writes it.
    pub fn text(&self) -> String {
        match self {
            SearchQuery::Everything => "*".to_owned(),
            SearchQuery::And(all) => format!("({})", joined(all, " ")),
            SearchQuery::Or(any) => format!("({})", joined(any, " OR ")),
            SearchQuery::Not(not) => format!("NOT {}", not.text()),
            SearchQuery::Test(column, test) => {
                let column = column.map_or(String::new(), |column| format!("{column}:"));
                format!("{column}{}", test.text())
            }
        }
    }
}

fn joined(queries: &[SearchQuery], by: &str) -> String {
    let texts: Vec<String> = queries.iter().map(SearchQuery::text).collect();
    texts.join(by)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A word in which no character is an operator.
fn escaped(word: &str) -> String {
    let mut out = String::new();
    for c in word.chars() {
        if c.is_whitespace() || "\\:\"()^~*?-+=/<>[]{}".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl SearchTest {
    fn text(&self) -> String {
        match self {
            SearchTest::Phrase { text, is_quoted: false, .. } => escaped(text),
            SearchTest::Phrase { text, slop, is_open, .. } => {
                let slop = if *slop > 0 { format!("~{slop}") } else { String::new() };
                format!("{}{slop}{}", quoted(text), if *is_open { "*" } else { "" })
            }
            SearchTest::Wildcard(pattern) => pattern.clone(),
            SearchTest::Fuzzy(word, distance) => format!("{}~{distance}", escaped(word)),
            SearchTest::Literal(text) => format!("={}", quoted(text)),
            SearchTest::Between(low, high) => {
                let bound = |bound: &Option<(i64, bool)>| {
                    bound.map_or("*".to_owned(), |(number, _)| number.to_string())
                };
                let (opening, closing) = (
                    if low.is_none_or(|(_, is_in)| is_in) { '[' } else { '{' },
                    if high.is_none_or(|(_, is_in)| is_in) { ']' } else { '}' },
                );
                format!("{opening}{} TO {}{closing}", bound(low), bound(high))
            }
            SearchTest::Exists => "*".to_owned(),
        }
    }
}

/// Pieces of random texts: several spellings of a word, all scripts without spaces, marks, digits, emoji, both directions.
const PIECES: [&str; 44] = [
    "read",
    "Read",
    "READ",
    "reed",
    "timeout",
    "time",
    "Out",
    "a",
    "b",
    "ab",
    "foo.bar",
    "É",
    "é",
    "e\u{301}",
    "straße",
    "STRASSE",
    "ＡＢＣ",
    "abc",
    "ﬁle",
    "file",
    "한국",
    "하",
    "שלום",
    "سلام",
    "Ж",
    "ж",
    "🎉",
    "❤\u{FE0F}",
    "東京都",
    "東京",
    "京都",
    "都",
    "ｶﾞス",
    "ガス",
    "カ",
    "ไทย",
    "ไท",
    "ລາວ",
    "ខ្មែរ",
    "မြန်",
    "12",
    "1",
    "x2",
    "٣",
];

/// The separators between the pieces of random texts, or none.
const SEPARATORS: [&str; 8] = [" ", " ", " ", "", "-", "_", ", ", "\n"];

/// A random text of up to so many pieces.
pub fn random_text(rng: &mut Rng, pieces_max: usize) -> String {
    let mut text = String::new();
    for number in 0..rng.below(pieces_max + 1) {
        if number > 0 {
            text.push_str(rng.pick(&SEPARATORS));
        }
        text.push_str(rng.pick(&PIECES));
    }
    text
}

/// A random row.
pub fn random_row(rng: &mut Rng) -> SearchedRow {
    let mut row = SearchedRow::new();
    for column in ["a", "b"] {
        let values = (0..rng.below(3)).map(|_| SearchValue::Text(random_text(rng, 6))).collect();
        row.insert(column, values);
    }
    let number = |rng: &mut Rng| SearchValue::Number((rng.below(8) as f64) / 2.0);
    let numbers = (0..rng.below(3)).map(|_| number(rng)).collect();
    row.insert("n", numbers);
    row
}

impl SearchOracle {
    /// A random query whose conditions have a meaning, nested up to so deep.
    pub fn random_query(&self, rng: &mut Rng, depth: usize) -> SearchQuery {
        if depth > 0 && rng.chance(0.5) {
            let some = |rng: &mut Rng| {
                let count = 1 + rng.below(3);
                (0..count).map(|_| self.random_query(rng, depth - 1)).collect()
            };
            return match rng.below(3) {
                0 => SearchQuery::And(some(rng)),
                1 => SearchQuery::Or(some(rng)),
                _ => SearchQuery::Not(Box::new(self.random_query(rng, depth - 1))),
            };
        }
        if rng.chance(0.02) {
            return SearchQuery::Everything;
        }
        let column = rng.pick(&[None, None, Some("a"), Some("b"), Some("n")]);
        let test = self.random_test(rng, column);
        // Without a column, `*` is every row, and the others need one.
        match (&test, column) {
            (SearchTest::Exists | SearchTest::Literal(_) | SearchTest::Between(..), None) => {
                SearchQuery::Test(Some("a"), test)
            }
            _ => SearchQuery::Test(column, test),
        }
    }

    fn random_test(&self, rng: &mut Rng, column: Option<&str>) -> SearchTest {
        let has_units = |text: &str| !self.units(text).is_empty();
        let text = |rng: &mut Rng, most| loop {
            let text = random_text(rng, most);
            if has_units(&text) {
                return text;
            }
        };
        match rng.below(10) {
            0 => SearchTest::Exists,
            1 => SearchTest::Literal(text(rng, 2)),
            2 => {
                let bound =
                    |rng: &mut Rng| (!rng.chance(0.2)).then(|| (rng.below(6) as i64 - 1, rng.chance(0.5)));
                SearchTest::Between(bound(rng), bound(rng))
            }
            3 => SearchTest::Wildcard(
                rng.pick(&["re*", "r?ad", "*ad", "*i*e*", "??", "t*t", "Ti*", "é*", "1*", "?.5"]).to_owned(),
            )
            .for_words(column),
            4 => {
                let word =
                    rng.pick(&["read", "rad", "timeot", "é", "abc", "straße", "file", "x2"]).to_owned();
                SearchTest::Fuzzy(word, 1 + rng.below(2))
            }
            5 => {
                let words = ["read", "time", "a", "b", "ab", "file"];
                let count = 2 + rng.below(2);
                let text: Vec<&str> = (0..count).map(|_| rng.pick(&words)).collect();
                let text = text.join(" ");
                SearchTest::Phrase { text, slop: 1 + rng.below(3), is_open: false, is_quoted: true }
            }
            6 => {
                let number = rng.pick(&["1", "0.5", "3", "2.0"]).to_owned();
                SearchTest::Phrase { text: number, slop: 0, is_open: false, is_quoted: rng.chance(0.5) }
            }
            _ => {
                let (is_quoted, is_open) = (rng.chance(0.5), rng.chance(0.3));
                SearchTest::Phrase { text: text(rng, 3), slop: 0, is_open: is_open && is_quoted, is_quoted }
            }
        }
    }
}

impl SearchTest {
    /// A pattern with a separator in it is of several tokens; only a number's text has it in one.
    fn for_words(self, column: Option<&str>) -> SearchTest {
        match self {
            SearchTest::Wildcard(pattern) if pattern.contains('.') && column != Some("n") => {
                SearchTest::Wildcard("re?d".to_owned())
            }
            test => test,
        }
    }
}

/// Scores of rows by their definition: BM25 over the rows that are given, all of them.
#[derive(Debug)]
pub struct ScoreOracle<'r> {
    oracle: &'r SearchOracle,
    rows: &'r [SearchedRow],
    /// The texts that words without a column are looked for in: columns that are one text together, with their weight.
    pub defaults: Vec<(Vec<&'static str>, f64)>,
}

impl<'r> ScoreOracle<'r> {
    /// The scores among these rows, where the texts of both default columns are one.
    pub fn new(oracle: &'r SearchOracle, rows: &'r [SearchedRow]) -> ScoreOracle<'r> {
        ScoreOracle { oracle, rows, defaults: vec![(vec!["a", "b"], 1.0)] }
    }

    /// The score of a row; none if it does not satisfy the query.
    pub fn score(&self, query: &SearchQuery, row: &SearchedRow) -> Option<f64> {
        if !self.oracle.matches(query, row) {
            return None;
        }
        Some(match query {
            // Two negations are none.
            SearchQuery::Not(not) => match &**not {
                SearchQuery::Not(query) => self.score(query, row).unwrap_or(0.0),
                _ => 0.0,
            },
            SearchQuery::Everything => 0.0,
            SearchQuery::And(all) | SearchQuery::Or(all) => {
                all.iter().filter_map(|query| self.score(query, row)).sum()
            }
            SearchQuery::Test(Some(column), test) => {
                let weight = self.defaults.iter().find(|(columns, _)| **columns == [*column]);
                self.of_columns(test, &[*column], row).unwrap_or(0.0)
                    * weight.map_or(1.0, |(_, weight)| *weight)
            }
            SearchQuery::Test(None, test) => {
                let scores = self.defaults.iter().filter_map(|(columns, weight)| {
                    self.of_columns(test, columns, row).map(|score| score * weight)
                });
                scores.fold(0.0, f64::max)
            }
        })
    }

    /// The score of a condition on columns whose texts are one; none if no value satisfies it.
    fn of_columns(&self, test: &SearchTest, columns: &[&str], row: &SearchedRow) -> Option<f64> {
        let values = || columns.iter().filter_map(|column| row.get(column)).flatten();
        if !values().any(|value| self.oracle.has(test, value)) {
            return None;
        }
        let texts = |row: &SearchedRow| -> Vec<String> {
            let values = columns.iter().filter_map(|column| row.get(column)).flatten();
            let texts = values.filter_map(|value| match value {
                SearchValue::Text(text) => Some(text.clone()),
                SearchValue::Number(_) => None,
            });
            texts.collect()
        };
        let SearchTest::Phrase { text, slop, is_open, .. } = test else { return Some(1.0) };
        let units = self.oracle.units(text);
        // A run of a script without spaces may go on anyway.
        if *is_open && matches!(units.last(), Some(Unit::Word(_))) {
            return Some(1.0);
        }
        let Some(terms) = self.terms(&units) else { return Some(1.0) };
        let count: usize = texts(row)
            .iter()
            .map(|text| {
                let found = self.oracle.units(text);
                match slop {
                    0 => (0..found.len())
                        .filter(|start| {
                            let end = (start + units.len()).min(found.len());
                            self.oracle.has_phrase(&found[*start..end], &units, 0, false)
                        })
                        .count(),
                    _ => usize::from(self.oracle.has_phrase(&found, &units, *slop, false)),
                }
            })
            .sum();
        if count == 0 {
            return Some(1.0);
        }
        let tokens = |row: &SearchedRow| -> Vec<Vec<char>> {
            texts(row).iter().flat_map(|text| self.oracle.tokens(text)).collect()
        };
        let documents: Vec<Vec<Vec<char>>> =
            self.rows.iter().map(tokens).filter(|tokens| !tokens.is_empty()).collect();
        let all = documents.len() as f64;
        let average = documents.iter().map(Vec::len).sum::<usize>() as f64 / all;
        let idf = |term: &Vec<char>| {
            let found = documents.iter().filter(|tokens| tokens.contains(term)).count() as f64;
            (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
        };
        let (idf, count) = (terms.iter().map(idf).sum::<f64>(), count as f64);
        let length = kept_length(tokens(row).len()) as f64;
        Some(idf * count / (count + 1.2 * (1.0 - 0.75 + 0.75 * length / average)))
    }

    /// The tokens of a phrase; none if one of them is a single character of a script without spaces, which is a prefix.
    fn terms(&self, units: &[Unit]) -> Option<Vec<Vec<char>>> {
        let mut terms = Vec::new();
        for (at, unit) in units.iter().enumerate() {
            let is_in_run = |other: Option<&Unit>| match (unit, other) {
                (Unit::Character(_, run), Some(Unit::Character(_, other))) => run == other,
                _ => false,
            };
            match (unit, units.get(at + 1)) {
                (Unit::Word(word), _) => terms.push(word.chars().collect()),
                (Unit::Character(a, _), next @ Some(Unit::Character(b, _))) if is_in_run(next) => {
                    terms.push(vec![*a, *b]);
                }
                _ if at > 0 && is_in_run(units.get(at - 1)) => {}
                _ => return None,
            }
        }
        Some(terms)
    }
}

/// The greatest length of at most so many tokens that Lucene's byte for lengths can have.
fn kept_length(tokens: usize) -> usize {
    let kept = |byte: usize| match byte {
        0..40 => byte,
        _ => 24 + ((8 | ((byte - 24) & 7)) << ((byte - 24) / 8 - 1)),
    };
    (0..100).map(kept).filter(|length| *length <= tokens).max().unwrap_or(0)
}
