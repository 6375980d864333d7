//! Indexable conditions: one path, and one test that needs no other value.
//!
//! The index finds queries by them, and tests them on candidates directly on the columns, without an expression.
//!
//! A condition is true of a value exactly if its source expression is. It does not distinguish the other results of the
//! expression (false, null, error).

use std::sync::Arc;

use arrow_array::{Array, StringViewArray};
use memchr::memmem::Finder;
use swiftwater_event::{Column, Kind, Values, Want};

use super::{
    contents,
    number::{Span, Spans, double_key, long_key},
    pattern::Pattern,
    word_test::WordTest,
};

/// A test of the value at one path.
#[derive(Debug)]
pub struct Condition {
    /// The path of the value.
    pub want: Want,
    /// The test of the value.
    pub test: Test,
}

/// The test of a value. It is false for kinds of values that it does not name. False of whatever kind of value it does
/// not name.
#[derive(Debug)]
pub enum Test {
    /// This text.
    Text(Box<str>),
    /// A text, but not this one.
    NotText(Box<str>),
    /// One of these values.
    Set(Box<ValueSet>),
    /// Text between bounds.
    TextSpan(Box<TextSpan>),
    /// Text that begins with one of these.
    Prefixes(Box<[Box<[u8]>]>),
    /// Text that has this in it.
    Contains(Box<Finder<'static>>),
    /// Text that matches an expression.
    Pattern(Arc<Pattern>),
    /// A text, list or map of a size within one of these, as the native dialect has sizes.
    Size(Box<[Span]>),
    /// A map or list that has this key, as the native dialect has it.
    Key(Box<str>),
    /// Words, in all texts of the value.
    Words(Box<WordTest>),
    /// No value.
    Null {
        /// True if a path that cannot be had counts as none.
        errors: bool,
    },
    /// Any value.
    NotNull,
}

/// Values of several kinds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueSet {
    /// Texts, ascending, each once.
    pub(crate) texts: Vec<Box<str>>,
    /// Numbers.
    pub(crate) spans: Spans,
    /// Bit 0: FALSE; bit 1: TRUE.
    pub(crate) booleans: u8,
}

/// Bounds of text; `bool`: the bound itself is within.
#[derive(Debug, Clone, PartialEq)]
pub struct TextSpan {
    pub(crate) low: Option<(Box<str>, bool)>,
    pub(crate) high: Option<(Box<str>, bool)>,
    /// Ordered by UTF-16 units, not by bytes.
    pub(crate) utf16: bool,
}

/// A value as conditions see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'c> {
    Null,
    Boolean(bool),
    /// A whole number's key.
    Long(u64),
    /// A double's key.
    Double(u64),
    Text(&'c str),
    Other,
}

impl Test {
    /// True if it holds of a value; nulls that are errors are told apart by the caller, and so is what a cell does not say.
    fn holds(&self, cell: Cell<'_>) -> bool {
        match (self, cell) {
            (Test::Text(text), Cell::Text(value)) => **text == *value,
            (Test::NotText(text), Cell::Text(value)) => **text != *value,
            (Test::Set(set), cell) => set.has(cell),
            (Test::TextSpan(span), Cell::Text(value)) => span.has(value),
            (Test::Prefixes(prefixes), Cell::Text(value)) => {
                prefixes.iter().any(|prefix| value.as_bytes().starts_with(prefix))
            }
            (Test::Pattern(pattern), Cell::Text(value)) => pattern.matches(value),
            (Test::Contains(finder), Cell::Text(value)) => finder.find(value.as_bytes()).is_some(),
            (Test::Null { .. }, Cell::Null) => true,
            (Test::NotNull, cell) => cell != Cell::Null,
            _ => false,
        }
    }

    /// True if it holds of a row of a column.
    pub(crate) fn holds_at(&self, column: &Column, row: u32) -> bool {
        let is_error =
            |column: &Column| column.errors.as_ref().is_some_and(|errors| errors.value(row as usize));
        match self {
            Test::Null { errors: false } if is_error(column) => false,
            Test::Size(spans) => contents::size_at(column, row as usize)
                .is_some_and(|key| spans.iter().any(|&(from, to)| from <= key && key <= to)),
            Test::Key(key) => contents::has_key_at(column, row as usize, key),
            Test::Words(words) => words.holds_at(column, row as usize),
            test => test.holds(cell(column, row as usize)),
        }
    }

    /// True if it holds of every value by which a table finds it.
    pub(crate) fn is_proven_when_found(&self) -> bool {
        match self {
            Test::Pattern(pattern) => pattern.required.is_none(),
            Test::Words(words) => words.is_proven_when_found(),
            _ => true,
        }
    }

    /// The share of values that it may hold of, where nothing is known about them.
    pub(crate) fn guess(&self) -> f64 {
        const ONE: f64 = 0.001;
        match self {
            Test::Text(_) => ONE,
            Test::NotText(_) | Test::NotNull => 1.0,
            Test::Set(set) => set.guess(),
            Test::TextSpan(span) if span.low.is_some() && span.high.is_some() => 0.1,
            Test::TextSpan(_) => 0.3,
            Test::Prefixes(prefixes) => {
                let one = |prefix: &[u8]| 0.1 * 0.4_f64.powi(prefix.len().min(5) as i32);
                prefixes.iter().map(|prefix| one(prefix)).sum::<f64>().min(1.0)
            }
            Test::Contains(_) => 0.02,
            Test::Pattern(pattern) => pattern.required.as_ref().map_or(0.2, Test::guess),
            Test::Size(_) => 0.2,
            Test::Words(words) => words.guess,
            Test::Key(_) => 0.1,
            Test::Null { .. } => 0.2,
        }
    }
}

impl ValueSet {
    fn has(&self, cell: Cell<'_>) -> bool {
        match cell {
            Cell::Text(value) => self.texts.binary_search_by(|text| (**text).cmp(value)).is_ok(),
            Cell::Long(key) => self.spans.has_long(key),
            Cell::Double(key) => self.spans.has_double(key),
            Cell::Boolean(value) => self.booleans >> u8::from(value) & 1 == 1,
            Cell::Null | Cell::Other => false,
        }
    }

    /// True if it has single values only.
    pub(crate) fn has_points_only(&self) -> bool {
        self.spans.longs.iter().chain(&self.spans.doubles).all(|(from, to)| to - from <= 1)
    }

    fn guess(&self) -> f64 {
        let numbers = |spans: &[(u64, u64)]| -> f64 {
            let of = |&(from, to): &(u64, u64)| match (from, to) {
                (from, to) if to - from <= 1 => 0.001,
                (0, _) | (_, u64::MAX) => 0.3,
                _ => 0.1,
            };
            spans.iter().map(of).sum()
        };
        let numbers = numbers(&self.spans.longs).max(numbers(&self.spans.doubles));
        let booleans = 0.4 * f64::from(self.booleans.count_ones());
        (self.texts.len() as f64 * 0.001 + numbers + booleans).min(1.0)
    }

    /// Values in both.
    pub(crate) fn intersect(&self, other: &ValueSet) -> ValueSet {
        let texts = self.texts.iter().filter(|text| other.texts.binary_search(text).is_ok());
        ValueSet {
            texts: texts.cloned().collect(),
            spans: self.spans.intersect(&other.spans),
            booleans: self.booleans & other.booleans,
        }
    }

    /// Values in either.
    pub(crate) fn add(&mut self, other: ValueSet) {
        self.texts.extend(other.texts);
        self.texts.sort_unstable();
        self.texts.dedup();
        self.spans.add(other.spans);
        self.booleans |= other.booleans;
    }
}

impl TextSpan {
    pub(crate) fn has(&self, value: &str) -> bool {
        use std::cmp::Ordering;
        let order = |bound: &str| super::order_text(value, bound, self.utf16);
        let within = |bound: &Option<(Box<str>, bool)>, inner: Ordering| match bound {
            None => true,
            Some((bound, inclusive)) => {
                let ordering = order(bound);
                ordering == inner || *inclusive && ordering.is_eq()
            }
        };
        within(&self.low, Ordering::Greater) && within(&self.high, Ordering::Less)
    }

    /// Text in both; they must be of one order.
    pub(crate) fn intersect(&self, other: &TextSpan) -> TextSpan {
        let tighter =
            |one: &Option<(Box<str>, bool)>, two: &Option<(Box<str>, bool)>, low: bool| match (one, two) {
                (None, other) | (other, None) => other.clone(),
                (Some(a), Some(b)) => {
                    let ordering = super::order_text(&a.0, &b.0, self.utf16);
                    let ordering = if low { ordering } else { ordering.reverse() };
                    // The exclusive one of two equal bounds is tighter.
                    let first_is_tighter = ordering.is_gt() || ordering.is_eq() && !a.1;
                    Some(if first_is_tighter { a.clone() } else { b.clone() })
                }
            };
        TextSpan {
            low: tighter(&self.low, &other.low, true),
            high: tighter(&self.high, &other.high, false),
            utf16: self.utf16,
        }
    }
}

/// The value of a row.
#[inline]
pub(crate) fn cell(column: &Column, row: usize) -> Cell<'_> {
    fn number<A: Array>(array: &A, row: usize, value: impl FnOnce() -> u64, double: bool) -> Cell<'static> {
        if array.is_null(row) {
            return Cell::Null;
        }
        if double { Cell::Double(value()) } else { Cell::Long(value()) }
    }
    match &column.values {
        Values::Tagged(tagged) => {
            let at = tagged.offsets[row] as usize;
            match tagged.kinds[row] {
                kind if kind == Kind::Null as i8 => Cell::Null,
                kind if kind == Kind::String as i8 => Cell::Text(tagged.strings.value(at)),
                kind if kind == Kind::Long as i8 => Cell::Long(long_key(tagged.longs.value(at))),
                kind if kind == Kind::Double as i8 => Cell::Double(double_key(tagged.doubles.value(at))),
                kind if kind == Kind::Boolean as i8 => Cell::Boolean(tagged.booleans.value(at)),
                _ => Cell::Other,
            }
        }
        Values::String(array) => text(array, row),
        Values::Boolean(array) if array.is_null(row) => Cell::Null,
        Values::Boolean(array) => Cell::Boolean(array.value(row)),
        Values::Integer(array) => number(array, row, || long_key(i64::from(array.value(row))), false),
        Values::Long(array) => number(array, row, || long_key(array.value(row)), false),
        Values::Float(array) => number(array, row, || double_key(f64::from(array.value(row))), true),
        Values::Double(array) => number(array, row, || double_key(array.value(row)), true),
        Values::Timestamp(array) if array.is_null(row) => Cell::Null,
        Values::Nested(array) if array.is_null(row) => Cell::Null,
        Values::Timestamp(_) | Values::Nested(_) => Cell::Other,
    }
}

fn text(array: &StringViewArray, row: usize) -> Cell<'_> {
    if array.is_null(row) { Cell::Null } else { Cell::Text(array.value(row)) }
}
