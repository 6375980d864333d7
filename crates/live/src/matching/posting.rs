//! Postings: each is one way to a group of queries, with the condition that finds the group and what else must hold
//! where that condition does.
//!
//! A group has one posting, unless its access predicate is an OR. Then it has one for each condition that the OR is
//! filed under, and each tests its own branch only. Most postings fit one cache line: who is found, and which bounds of
//! a number must hold besides.

use std::cell::RefCell;

use arrow_array::StringViewArray;
use swiftwater_event::{Column, Decoded, Kind, Values, WantId};

use super::{
    QueryNumber,
    condition::{Cell, Test, cell},
    entry::Entry,
    filter::Filter,
    number::{Span, double_key, long_key},
    row_words::RowWords,
};

/// A way to a group.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Posting {
    /// Number of the group's first member.
    pub(super) number: QueryNumber,
    /// The place of the group's first member.
    pub(super) place: u32,
    pub(super) group: u32,
    pub(super) first_check: u32,
    pub(super) check_count: u16,
    /// The group has one member, and its rows are neither sampled nor tested by an expression.
    pub(super) is_plain: bool,
    /// True if it is plain, the group has this way only, and nothing is left to test but `bounds`.
    pub(super) is_simple: bool,
    /// The checks do not say all: the filter's conditions are gone through as they are joined.
    pub(super) is_tree: bool,
    /// A number that must lie within bounds, if there is such a check: it is the one that is met most.
    pub(super) bounds: Bounds,
}

/// The test that a number at a path is within bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    column: WantId,
    longs: Span,
    doubles: Span,
}

/// A further condition that a candidate must meet.
#[derive(Debug)]
pub(super) enum Check {
    /// A number within these.
    Number(Bounds),
    /// A condition of another kind, by its number.
    Other {
        /// The column.
        column: WantId,
        /// The condition.
        condition: u16,
    },
}

/// No number.
const NONE: Span = (1, 0);

impl Bounds {
    /// The bounds of no column: there is nothing to test.
    pub(super) const ABSENT: Bounds = Bounds { column: WantId(u32::MAX), longs: NONE, doubles: NONE };

    pub(super) fn are_absent(&self) -> bool {
        self.column == Bounds::ABSENT.column
    }

    /// True if they hold of a row, or are absent.
    #[inline]
    pub(super) fn hold(&self, views: &[View<'_>], row: u32) -> bool {
        self.are_absent() || self.hold_at(views[self.column.0 as usize], row)
    }

    #[inline]
    fn hold_at(&self, view: View<'_>, row: u32) -> bool {
        let within = |span: Span, key: u64| span.0 <= key && key <= span.1;
        match view {
            View::Longs(longs) => within(self.longs, long_key(longs[row as usize])),
            View::Doubles(doubles) => within(self.doubles, double_key(doubles[row as usize])),
            View::Texts(_) => false,
            View::Mixed(column) => match cell(column, row as usize) {
                Cell::Long(key) => within(self.longs, key),
                Cell::Double(key) => within(self.doubles, key),
                _ => false,
            },
        }
    }
}

impl Check {
    pub(super) fn of(filter: &Filter, condition: u16, column: WantId) -> Check {
        if let Test::Set(set) = &filter.conditions[condition as usize].test
            && set.texts.is_empty()
            && set.booleans == 0
        {
            let one = |spans: &[Span]| match spans {
                [] => Some(NONE),
                [span] => Some(*span),
                _ => None,
            };
            if let (Some(longs), Some(doubles)) = (one(&set.spans.longs), one(&set.spans.doubles)) {
                return Check::Number(Bounds { column, longs, doubles });
            }
        }
        Check::Other { column, condition }
    }

    /// True if it holds of a row.
    #[inline]
    pub(super) fn holds(&self, entry: &Entry, input: &Columns<'_>, row: u32) -> bool {
        match self {
            Check::Number(bounds) => bounds.hold(&input.views, row),
            Check::Other { column, condition } => {
                let condition = &entry.query.filter.conditions[*condition as usize];
                input.holds(&condition.test, *column, row)
            }
        }
    }
}

/// The columns of a batch, and what is known of each as a whole.
pub(super) struct Columns<'c> {
    pub(super) decoded: &'c Decoded,
    /// The views by column.
    pub(super) views: Vec<View<'c>>,
    /// The words of rows that were asked for.
    pub(super) words: RefCell<RowWords>,
}

/// A column of one kind of values without nulls, or any other.
#[derive(Clone, Copy)]
pub(super) enum View<'c> {
    /// Whole numbers.
    Longs(&'c [i64]),
    /// Other numbers only.
    Doubles(&'c [f64]),
    /// Texts only.
    Texts(&'c StringViewArray),
    /// Any values.
    Mixed(&'c Column),
}

impl<'c> Columns<'c> {
    /// `words`: memory for the words of the rows.
    pub(super) fn of(decoded: &'c Decoded, mut words: RowWords) -> Columns<'c> {
        words.clear();
        let views = decoded.columns.iter().map(|column| View::of(column, decoded.rows)).collect();
        Columns { decoded, views, words: RefCell::new(words) }
    }

    /// True if a test holds of a row of a column.
    pub(super) fn holds(&self, test: &Test, id: WantId, row: u32) -> bool {
        let column = self.decoded.column(id);
        match test {
            Test::Words(test) => {
                let mut words = self.words.borrow_mut();
                test.holds(words.of_row(id, column, self.decoded.rows, row as usize))
            }
            test => test.holds_at(column, row),
        }
    }
}

impl<'c> View<'c> {
    fn of(column: &'c Column, rows: usize) -> View<'c> {
        use arrow_array::Array;
        let view = match &column.values {
            Values::Tagged(tagged) => {
                // Without a branch a row: nearly always it is all of them or not even the first.
                let only = |kind: Kind| {
                    let is_it =
                        |part: &[i8]| part.iter().fold(true, |all, &other| all & (other == kind as i8));
                    tagged.kinds.chunks(64).all(is_it)
                };
                let is_all = |kind: Kind, children: usize| children == rows && only(kind);
                // A child has its values in the order of rows: where all rows are of one kind and the child has as many,
                // row and place are the same.
                match () {
                    () if is_all(Kind::String, tagged.strings.len()) => View::Texts(&tagged.strings),
                    () if is_all(Kind::Long, tagged.longs.len()) => View::Longs(tagged.longs.values()),
                    () if is_all(Kind::Double, tagged.doubles.len()) => {
                        View::Doubles(tagged.doubles.values())
                    }
                    () => View::Mixed(column),
                }
            }
            Values::String(array) if array.null_count() == 0 => View::Texts(array),
            Values::Long(array) if array.null_count() == 0 => View::Longs(array.values()),
            Values::Double(array) if array.null_count() == 0 => View::Doubles(array.values()),
            _ => View::Mixed(column),
        };
        let count = match view {
            View::Texts(texts) => texts.len(),
            View::Longs(longs) => longs.len(),
            View::Doubles(doubles) => doubles.len(),
            View::Mixed(_) => rows,
        };
        if count == rows { view } else { View::Mixed(column) }
    }
}
