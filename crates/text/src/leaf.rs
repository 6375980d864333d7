//! One condition on the values of one column.

use std::{cmp::Ordering, ops::Range};

use regex::{Regex, RegexBuilder};

use crate::{
    columns::{SearchColumn, TextKind, Value},
    phrase::{NoPhrase, Phrase, Tokens, phrase, word},
    prefilter::Required,
    query::{
        Number, Scalar, Test,
        scalar::{Period, time},
    },
    term::{Pattern, Piece},
};

/// Bytes that a compiled regular expression may have.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// Bytes of which the texts of numbers are made, infinite ones too.
const NUMBER_BYTES: &[u8] = b"0123456789+-.eEinfNaN";

/// A condition on a column.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) column: u32,
    /// The tokens that it asks, by their number in the matcher.
    pub(crate) token_set: Option<usize>,
    pub(crate) test: LeafTest,
    /// The weight of its scores.
    #[cfg(feature = "arrow")]
    pub(crate) weight: f32,
}

/// A condition, ready to be evaluated.
#[derive(Debug)]
pub(crate) enum LeafTest {
    Value(ValueTest),
    Literal(Box<str>),
    Expression(Regex),
    Range { low: Option<(Bound, bool)>, high: Option<(Bound, bool)> },
    Exists,
}

/// A word or a phrase as what it means for values of each type.
#[derive(Debug, Default)]
pub(crate) struct ValueTest {
    /// Among the tokens of a text.
    pub(crate) phrase: Option<Phrase>,
    /// The whole of a text and, with a separator, what is below it.
    pub(crate) whole: Option<(Pattern, Option<Box<str>>)>,
    pub(crate) number: Option<Number>,
    /// The JSON text of a number, where there are wildcards.
    pub(crate) number_text: Option<Pattern>,
    pub(crate) boolean: Option<bool>,
    pub(crate) period: Option<Period>,
}

/// A bound of a range.
#[derive(Debug)]
pub(crate) enum Bound {
    Number(Number),
    Period(Period),
    Text(Box<str>),
}

/// The reason why a condition cannot be evaluated.
#[derive(Debug)]
pub(crate) struct TestFault {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

fn fault(message: impl Into<String>, hint: &str) -> TestFault {
    TestFault { message: message.into(), hint: Some(hint.to_owned()) }
}

/// Binds a condition to a column.
pub(crate) fn bind_test(
    column: &SearchColumn,
    test: &Test,
    now_micros: Option<i64>,
) -> Result<LeafTest, TestFault> {
    match test {
        Test::Word { pieces, distance } => {
            bind_word(column, pieces, *distance, now_micros).map(LeafTest::Value)
        }
        Test::Phrase { text, slop, is_open } => {
            bind_phrase(column, text, (*slop, *is_open), now_micros).map(LeafTest::Value)
        }
        Test::Literal(text) => Ok(LeafTest::Literal(text.as_str().into())),
        Test::Expression(text) => bind_expression(text).map(LeafTest::Expression),
        Test::Range { low, high } => bind_range(low.as_ref(), high.as_ref(), now_micros),
        Test::Exists => Ok(LeafTest::Exists),
    }
}

fn bind_word(
    column: &SearchColumn,
    pieces: &[Piece],
    distance: u8,
    now_micros: Option<i64>,
) -> Result<ValueTest, TestFault> {
    let mut test = match pieces {
        [Piece::Text(text)] if distance == 0 => by_type(text, now_micros),
        _ => ValueTest { number_text: (distance == 0).then(|| whole(pieces)), ..ValueTest::default() },
    };
    match &column.kind {
        TextKind::Words => {
            let found = word(&column.analyzer, pieces, distance);
            test.phrase = Some(found.map_err(|why| no_phrase(why, &written(pieces)))?);
        }
        kind => {
            let pattern = match pieces {
                [Piece::Text(text)] if distance > 0 => Pattern::Fuzzy { word: text.clone(), distance },
                pieces => whole(pieces),
            };
            test.whole = Some((pattern, separator(kind)));
        }
    }
    Ok(test)
}

fn bind_phrase(
    column: &SearchColumn,
    text: &str,
    (slop, is_open): (u32, bool),
    now_micros: Option<i64>,
) -> Result<ValueTest, TestFault> {
    let mut test = if is_open { ValueTest::default() } else { by_type(text, now_micros) };
    match &column.kind {
        TextKind::Words => {
            let found = phrase(&column.analyzer, text, slop, is_open);
            test.phrase = Some(found.map_err(|why| no_phrase(why, text))?);
        }
        _ if slop > 0 => {
            let hint = "Leave out `~`, or search a column that is indexed as TEXT.";
            return Err(fault("a column that is compared as a whole has no words to displace", hint));
        }
        kind => {
            let pattern = if is_open { Pattern::Prefix(text.into()) } else { Pattern::Exact(text.into()) };
            test.whole = Some((pattern, separator(kind)));
        }
    }
    Ok(test)
}

fn separator(kind: &TextKind) -> Option<Box<str>> {
    match kind {
        TextKind::Path { separator } => Some(separator.clone()),
        TextKind::Words | TextKind::Whole => None,
    }
}

/// The test of a text on values that are not texts.
fn by_type(text: &str, now_micros: Option<i64>) -> ValueTest {
    let scalar = Scalar { text: text.to_owned(), is_quoted: false };
    ValueTest {
        number: scalar.number(),
        period: scalar.period(now_micros),
        boolean: match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        ..ValueTest::default()
    }
}

fn whole(pieces: &[Piece]) -> Pattern {
    match pieces {
        [Piece::Text(text)] => Pattern::Exact(text.clone()),
        [Piece::Text(text), Piece::Any] => Pattern::Prefix(text.clone()),
        pieces => Pattern::Wildcard(pieces.into()),
    }
}

fn written(pieces: &[Piece]) -> String {
    let written = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::One => "?",
        Piece::Any => "*",
    });
    written.collect()
}

fn no_phrase(why: NoPhrase, text: &str) -> TestFault {
    match why {
        NoPhrase::NoTokens => fault(
            format!("`{text}` has no letters or digits"),
            "A text of other characters is found by column:=\"text\".",
        ),
        NoPhrase::WildcardInRun => fault(
            format!("`{text}` has a wildcard within a text without spaces"),
            "Write a regular expression, as in column:/東.都/.",
        ),
        NoPhrase::FuzzyOfSeveral => fault(
            format!("`{text}` is not one word, and `~` is for one word"),
            "Write a word of letters and digits, without wildcards, of a script with spaces.",
        ),
    }
}

fn bind_expression(text: &str) -> Result<Regex, TestFault> {
    RegexBuilder::new(text).size_limit(EXPRESSION_BYTES_MAX).build().map_err(|error| {
        let looks_around = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| text.contains(look));
        match error {
            _ if looks_around => fault(
                "regular expressions cannot look around",
                "Join two expressions by AND or NOT: column:/a/ AND NOT column:/b/.",
            ),
            regex::Error::CompiledTooBig(_) => fault(
                format!("the regular expression needs more than {EXPRESSION_BYTES_MAX} bytes"),
                "Shorten its repetitions, such as {1000}.",
            ),
            error => {
                let message = error.to_string();
                let why = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                fault(
                    format!("the regular expression cannot be read: {why}"),
                    "Put \\ before a character that is meant itself.",
                )
            }
        }
    })
}

fn bind_range(
    low: Option<&(Scalar, bool)>,
    high: Option<&(Scalar, bool)>,
    now_micros: Option<i64>,
) -> Result<LeafTest, TestFault> {
    let relative = [low, high].into_iter().flatten().find(|(scalar, _)| scalar.relative_micros().is_some());
    if let (Some((scalar, _)), None) = (relative, now_micros) {
        return Err(fault(
            format!("`{}` has no meaning here", scalar.text),
            "Write a time, as in 2026-01-31T12:00:00Z.",
        ));
    }
    let bound = |bound: Option<&(Scalar, bool)>| {
        bound.map(|(scalar, is_included)| (Bound::of(scalar, now_micros), *is_included))
    };
    let (low, high) = (bound(low), bound(high));
    if let (Some((low, _)), Some((high, _))) = (&low, &high)
        && std::mem::discriminant(low) != std::mem::discriminant(high)
    {
        let hint = "Write two numbers, two times or two texts; quotation marks make a text of a number.";
        return Err(fault("the bounds of the range are of different types", hint));
    }
    Ok(LeafTest::Range { low, high })
}

impl Bound {
    fn of(scalar: &Scalar, now_micros: Option<i64>) -> Bound {
        if let Some(number) = scalar.number() {
            return Bound::Number(number);
        }
        match scalar.period(now_micros) {
            Some(period) => Bound::Period(period),
            None => Bound::Text(scalar.text.as_str().into()),
        }
    }

    /// The order of a value and the bound; none if they cannot be compared. A value within a period is equal to it.
    fn compared(&self, value: Value<'_>) -> Option<Ordering> {
        match (self, value) {
            (Bound::Number(bound), Value::Number(number)) => number.compare(*bound),
            (Bound::Number(bound), Value::Time(micros)) => compare_millis(micros, *bound),
            (Bound::Number(bound), Value::Text(text)) => Number::parse(text)?.compare(*bound),
            (Bound::Period(period), Value::Time(micros)) => Some(period.compared(micros)),
            (Bound::Period(period), Value::Text(text)) => Some(period.compared(time(text)?.from)),
            (Bound::Text(bound), Value::Text(text)) => Some(text.cmp(bound)),
            _ => None,
        }
    }
}

impl Period {
    fn compared(self, micros: i64) -> Ordering {
        if micros < self.from {
            Ordering::Less
        } else if micros < self.to {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }
}

impl LeafTest {
    /// Returns true if it needs the tokens of texts.
    pub(crate) fn needs_tokens(&self) -> bool {
        matches!(self, LeafTest::Value(ValueTest { phrase: Some(_), .. }))
    }

    pub(crate) fn is_in_tokens(&self, values: &[Tokens]) -> bool {
        let LeafTest::Value(ValueTest { phrase: Some(phrase), .. }) = self else { return false };
        values.iter().any(|tokens| phrase.is_in(tokens))
    }

    /// Returns true if a value satisfies it, its tokens aside.
    pub(crate) fn is_satisfied(&self, value: Value<'_>) -> bool {
        match self {
            LeafTest::Exists => true,
            LeafTest::Value(test) => test.is_satisfied(value),
            LeafTest::Literal(literal) => on_text(value, |text| text.contains(&**literal)),
            LeafTest::Expression(expression) => on_text(value, |text| expression.is_match(text)),
            LeafTest::Range { low, high } => {
                let is_within = |bound: &Option<(Bound, bool)>, beyond: Ordering| match bound {
                    None => true,
                    Some((bound, is_included)) => bound.compared(value).is_some_and(|ordering| {
                        ordering == beyond || (*is_included && ordering == Ordering::Equal)
                    }),
                };
                is_within(low, Ordering::Greater) && is_within(high, Ordering::Less)
            }
        }
    }

    /// Literals of which the JSON text of a row that satisfies it has one. `is_of_texts`: its column has no other
    /// values.
    pub(crate) fn required(&self, is_of_texts: bool) -> Option<Required> {
        // The text of a number need not be the one in JSON: `5e2` is 500.
        let is_certain = |text: &str| is_of_texts || !text.bytes().all(|byte| NUMBER_BYTES.contains(&byte));
        match self {
            LeafTest::Value(test) => test.required(is_of_texts),
            LeafTest::Literal(literal) if is_certain(literal) => Required::literal(literal),
            LeafTest::Expression(expression) if is_of_texts => Required::of_expression(expression.as_str()),
            LeafTest::Expression(expression) => {
                Required::of_expression(expression.as_str()).filter(|required| required.all(is_certain))
            }
            LeafTest::Literal(_) | LeafTest::Range { .. } | LeafTest::Exists => None,
        }
    }

    /// Adds the places in a text that satisfy it.
    pub(crate) fn places(&self, text: &str, tokens: &Tokens, places: &mut Vec<Range<usize>>) {
        match self {
            LeafTest::Value(ValueTest { phrase: Some(phrase), .. }) => phrase.places(tokens, places),
            LeafTest::Value(test) if test.is_satisfied(Value::Text(text)) => places.push(0..text.len()),
            LeafTest::Literal(literal) => {
                let found = text.match_indices(&**literal);
                places.extend(found.map(|(at, found)| at..at + found.len()));
            }
            LeafTest::Expression(expression) => {
                let found = expression.find_iter(text).filter(|found| !found.is_empty());
                places.extend(found.map(|found| found.range()));
            }
            LeafTest::Value(_) | LeafTest::Range { .. } | LeafTest::Exists => {}
        }
    }
}

impl ValueTest {
    fn required(&self, is_of_texts: bool) -> Option<Required> {
        let is_other = self.number.is_some() || self.number_text.is_some() || self.period.is_some();
        if self.whole.is_some() || (is_other && !is_of_texts) {
            return None;
        }
        // A truth value has the same text in JSON.
        self.phrase.as_ref().and_then(Required::of_phrase)
    }

    fn is_satisfied(&self, value: Value<'_>) -> bool {
        match value {
            Value::Text(text) => self.whole.as_ref().is_some_and(|(pattern, separator)| {
                pattern.matches(text)
                    || separator.as_ref().is_some_and(|separator| {
                        text.match_indices(&**separator).any(|(at, _)| pattern.matches(&text[..at]))
                    })
            }),
            Value::Number(number) => {
                let is_equal = |wanted: &Number| number.compare(*wanted) == Some(Ordering::Equal);
                self.number.as_ref().is_some_and(is_equal)
                    || self.number_text.as_ref().is_some_and(|pattern| pattern.matches(&json_text(number)))
            }
            Value::Boolean(boolean) => {
                let text = if boolean { "true" } else { "false" };
                self.boolean == Some(boolean)
                    || self.number_text.as_ref().is_some_and(|pattern| pattern.matches(text))
            }
            Value::Time(micros) => {
                let is_equal = |number| compare_millis(micros, number) == Some(Ordering::Equal);
                self.period.is_some_and(|period| period.compared(micros) == Ordering::Equal)
                    || self.number.is_some_and(is_equal)
            }
        }
    }
}

/// Compares a time in microseconds with a number of milliseconds.
fn compare_millis(micros: i64, millis: Number) -> Option<Ordering> {
    let micros_wanted = match millis {
        Number::Integer(millis) => Number::Integer(millis.saturating_mul(1000)),
        Number::Float(millis) => Number::Float(millis * 1000.0),
    };
    Number::Integer(micros.into()).compare(micros_wanted)
}

/// A condition on texts, which reads other values as JSON has them. Times have no text of their own.
fn on_text(value: Value<'_>, is_satisfied: impl FnOnce(&str) -> bool) -> bool {
    match value {
        Value::Text(text) => is_satisfied(text),
        Value::Number(number) => is_satisfied(&json_text(number)),
        Value::Boolean(boolean) => is_satisfied(if boolean { "true" } else { "false" }),
        Value::Time(_) => false,
    }
}

fn json_text(number: Number) -> String {
    match number {
        Number::Integer(integer) => integer.to_string(),
        Number::Float(float) => float.to_string(),
    }
}
