//! The query that a search index answers: conditions on the terms of its fields, and which of them decide alone.
//!
//! ```text
//! message:timeout -host:web*      All[ Leaf{message: timeout}, Not(Leaf{host: web*}) ]
//! ```
//!
//! An index answers each leaf with the rows that *certainly* satisfy it and those that *possibly* do; negation exchanges the
//! two. Rows that are possible and not certain are evaluated. A condition that an index cannot answer is
//! [`IndexQuery::Unknown`], of which every row is possible.

use std::ops::Range;

use crate::{
    definition::ColumnIndex,
    leaf::{Leaf, LeafTest},
    literal_words::{Literal, expression_words, literal_words},
    matcher::Matcher,
    phrase::Phrase,
    query::Number,
    table::{EVENT_COLUMN, SearchField, Source, TableSearch, has_texts, is_nested, is_plain, is_text},
    term::Pattern,
};

/// A query as a search index is asked it.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexQuery {
    /// Every row.
    Everything,
    /// A condition that no index answers.
    Unknown,
    /// All of them.
    All(Vec<IndexQuery>),
    /// One of them.
    Any(Vec<IndexQuery>),
    /// The query must not match.
    Not(Box<IndexQuery>),
    /// A condition on columns.
    Leaf(IndexLeaf),
}

/// A condition on columns: one of several terms of fields.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexLeaf {
    /// The conditions of which one must be satisfied, each on a column.
    pub columns: Vec<(SearchField, IndexCondition)>,
    /// True if a row with these terms satisfies the leaf; else they are only required.
    pub is_exact: bool,
    /// The condition on rows that have the event's own text.
    pub event: Option<EventRows>,
}

/// The rows that have the event's own text beside their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRows {
    /// The column with the text.
    pub column: SearchField,
    /// The condition by which such a row is possible beside those of columns; without one, each such row is.
    pub condition: Option<IndexCondition>,
    /// True if values of the event precede those of columns, so that terms of columns do not decide.
    pub precedes_columns: bool,
}

/// A condition on the terms of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexCondition {
    /// `TEXT`: these words.
    Phrase(Phrase),
    /// `ID`: a text that satisfies a pattern.
    Whole(Pattern),
    /// `FACET`: a text, or an ancestor of it, that satisfies a pattern.
    Category(Pattern),
    /// `ID`: this number.
    Number(Number),
    /// `ID`: this truth value.
    Boolean(bool),
    /// Any kind: the column has a value.
    Exists,
}

impl TableSearch {
    /// The query as an index is asked it. An index covers the columns whose fields have a
    /// [`ColumnIndex`](SearchField::index).
    pub fn index_query(&self) -> IndexQuery {
        self.matcher.index_query(&|leaf| self.index_leaf(leaf))
    }

    fn index_leaf(&self, leaf: &Leaf) -> IndexQuery {
        let event = self.fields.iter().position(|field| *field.name == *EVENT_COLUMN);
        let mut found = IndexLeaf { columns: Vec::new(), is_exact: true, event: None };
        let is_answered = match (self.source(leaf.column), self.all_texts()) {
            (Some(source), _) => self.add_source(&leaf.test, source, event, &mut found),
            (None, None) => {
                let bound = self.fields[0].column_index();
                self.add_column(&leaf.test, (0, bound.as_ref()), false, &mut found)
            }
            (None, Some(texts)) => {
                let is_answered =
                    texts.iter().all(|&place| self.add_column(&leaf.test, (place, None), true, &mut found));
                found.event = event.map(|place| EventRows {
                    column: self.fields[place].clone(),
                    condition: self.event_condition(&leaf.test, (place, None), true),
                    precedes_columns: false,
                });
                is_answered
            }
        };
        if is_answered { IndexQuery::Leaf(found) } else { IndexQuery::Unknown }
    }

    /// Adds the conditions on the columns of a path; false if an index does not answer one.
    fn add_source(
        &self,
        test: &LeafTest,
        source: &Source,
        event: Option<usize>,
        found: &mut IndexLeaf,
    ) -> bool {
        // The column by which the condition was bound.
        let bound = source.columns.iter().find_map(|(place, _)| self.fields[*place].column_index());
        let bound = bound.as_ref();
        for (place, rest) in &source.columns {
            found.is_exact &= rest.is_empty();
            if !self.add_column(test, (*place, bound), false, found) {
                return false;
            }
        }
        if source.in_event.is_some() {
            found.event = event.map(|place| EventRows {
                column: self.fields[place].clone(),
                condition: self.event_condition(test, (place, bound), false),
                precedes_columns: true,
            });
        }
        true
    }

    /// The condition on the text of events that contain what satisfies a test, which was bound to a column of this index.
    fn event_condition(
        &self,
        test: &LeafTest,
        (place, bound): (usize, Option<&ColumnIndex>),
        is_of_texts: bool,
    ) -> Option<IndexCondition> {
        let index = self.fields[place].column_index().filter(is_plain)?;
        index.text?;
        if !bound.is_none_or(is_plain) {
            return None;
        }
        let conditions = conditions(test, &index, Types { has_texts: true, has_others: !is_of_texts })?;
        match <[(IndexCondition, bool); 1]>::try_from(conditions) {
            Ok([(condition @ IndexCondition::Phrase(_), _)]) => Some(condition),
            _ => None,
        }
    }

    /// Adds the conditions on a column; false if an index does not answer them, as it compares texts otherwise than the column
    /// that the test was bound to.
    fn add_column(
        &self,
        test: &LeafTest,
        (place, bound): (usize, Option<&ColumnIndex>),
        is_of_texts: bool,
        found: &mut IndexLeaf,
    ) -> bool {
        let field = &self.fields[place];
        let Some(index) = field.column_index() else { return false };
        let is_same = match bound {
            Some(bound) => {
                bound.text_kind() == index.text_kind() && bound.analyzer_options() == index.analyzer_options()
            }
            None => is_plain(&index),
        };
        if !is_same {
            return false;
        }
        let types = Types::of(field);
        let types = Types { has_others: types.has_others && !is_of_texts, ..types };
        match conditions(test, &index, types) {
            None => false,
            Some(conditions) => {
                for (condition, is_exact) in conditions {
                    found.is_exact &= is_exact;
                    found.columns.push((field.clone(), condition));
                }
                true
            }
        }
    }
}

impl Matcher {
    /// The query with its leaves as an index is asked them.
    pub(crate) fn index_query(&self, leaf: &dyn Fn(&Leaf) -> IndexQuery) -> IndexQuery {
        self.map_root(&IndexQueryMaker { matcher: self, leaf })
    }
}

/// Makes an [`IndexQuery`] of the clauses of a matcher.
pub(crate) struct IndexQueryMaker<'m> {
    matcher: &'m Matcher,
    leaf: &'m dyn Fn(&Leaf) -> IndexQuery,
}

impl IndexQueryMaker<'_> {
    /// All of the required ones; without any, one of the optional ones.
    pub(crate) fn all(&self, required: Vec<IndexQuery>, optional: Vec<IndexQuery>) -> IndexQuery {
        match (required.is_empty(), optional.is_empty()) {
            (true, true) => IndexQuery::Everything,
            (true, false) => IndexQuery::Any(optional),
            (false, _) => IndexQuery::All(required),
        }
    }

    /// One of several leaves.
    pub(crate) fn one_of(&self, leaves: Range<usize>) -> IndexQuery {
        IndexQuery::Any(self.matcher.leaves()[leaves].iter().map(self.leaf).collect())
    }
}

/// The types that values of a column can have.
#[derive(Debug, Clone, Copy)]
struct Types {
    has_texts: bool,
    has_others: bool,
}

impl Types {
    fn of(field: &SearchField) -> Types {
        let has_texts = has_texts(&field.ty);
        let is_text = is_text(&field.ty);
        Types { has_texts, has_others: field.is_json || !is_text && (is_nested(&field.ty) || !has_texts) }
    }
}

/// The conditions of which a row that satisfies the test has one, each with whether it decides alone; none if the index of
/// the column does not answer.
fn conditions(test: &LeafTest, index: &ColumnIndex, types: Types) -> Option<Vec<(IndexCondition, bool)>> {
    let value = match test {
        LeafTest::Value(value) => value,
        LeafTest::Exists => return Some(vec![(IndexCondition::Exists, true)]),
        LeafTest::Literal(_) | LeafTest::Expression(_) => {
            if !types.has_texts || types.has_others || index.text.is_none() {
                return None;
            }
            let words = match test {
                LeafTest::Expression(expression) => expression_words(expression.as_str(), index),
                LeafTest::Literal(text) => {
                    literal_words(&Literal { text, starts_text: false, ends_text: false }, index)
                }
                _ => None,
            };
            return Some(vec![(IndexCondition::Phrase(words?), false)]);
        }
        LeafTest::Range { .. } => return None,
    };
    let mut found = Vec::new();
    if types.has_texts {
        if let Some(phrase) = &value.phrase {
            index.text?;
            found.push((IndexCondition::Phrase(phrase.clone()), phrase.slop == 0));
        }
        if let Some((pattern, _)) = &value.whole {
            // The kind by which the query was bound.
            let condition = match (&index.facet, &index.id) {
                (Some(_), _) => IndexCondition::Category(pattern.clone()),
                (None, Some(_)) => IndexCondition::Whole(pattern.clone()),
                (None, None) => return None,
            };
            found.push((condition, true));
        }
    }
    if types.has_others {
        let is_asked = value.number.is_some()
            || value.number_text.is_some()
            || value.boolean.is_some()
            || value.period.is_some();
        if is_asked && (index.id.is_none() || value.number_text.is_some() || value.period.is_some()) {
            return None;
        }
        found.extend(value.number.map(|number| (IndexCondition::Number(number), true)));
        found.extend(value.boolean.map(|boolean| (IndexCondition::Boolean(boolean), true)));
    }
    Some(found)
}
