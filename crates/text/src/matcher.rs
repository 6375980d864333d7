//! A query bound to columns, and its evaluation over one row.

use std::{ops::Range, sync::Arc};

use crate::{
    analyzer::{Analyzer, AnalyzerScratch},
    columns::{SearchColumn, SearchColumns, SearchRow, Value},
    faults::{Faults, QueryFaults},
    leaf::{Leaf, bind_test},
    phrase::Tokens,
    prefilter::Required,
    query::{Clause, Node, Operator, Test, parser::parse},
    word_condition::{WordConditionBuilder, WordNode},
};

#[cfg(feature = "arrow")]
use crate::index_query::{IndexQuery, IndexQueryMaker};

/// Regular expressions that a query may have.
pub const EXPRESSIONS_MAX: usize = 64;

/// A query that rows can be asked.
#[derive(Debug)]
pub struct Matcher {
    root: Bound,
    leaves: Vec<Leaf>,
    /// The sets of tokens to compute: values of a column, divided by an analyzer.
    token_sets: Vec<(u32, Arc<Analyzer>)>,
}

/// A clause whose columns are known.
#[derive(Debug)]
pub(crate) enum Bound {
    Everything,
    All {
        required: Vec<Bound>,
        optional: Vec<Bound>,
    },
    Any(Vec<Bound>),
    Not(Box<Bound>),
    /// A condition on one of several columns.
    OneOf(Range<usize>),
}

/// Memory that is used again from row to row.
#[derive(Debug, Default)]
pub struct MatcherScratch {
    analyzer: AnalyzerScratch,
    /// The number of values of each token set, and their tokens; none if they were not divided yet.
    sets: Vec<(Option<usize>, Vec<Tokens>)>,
}

struct Binder<'q, 'c> {
    columns: &'c dyn SearchColumns,
    now_micros: Option<i64>,
    faults: Faults<'q>,
    matcher: Matcher,
    expressions: usize,
    /// The weight of the clause that is bound, with those of the clauses around it.
    weight: f32,
}

impl Matcher {
    /// Parses a query and binds it to columns. `now_micros` is what `now` means, in microseconds since 1970;
    /// without it `now` is refused.
    pub fn new(
        query: &str,
        operator: Operator,
        columns: &dyn SearchColumns,
        now_micros: Option<i64>,
    ) -> Result<Matcher, QueryFaults> {
        let (clause, faults) = parse(query, operator);
        let matcher = Matcher { root: Bound::Everything, leaves: Vec::new(), token_sets: Vec::new() };
        let mut binder = Binder { columns, now_micros, faults, matcher, expressions: 0, weight: 1.0 };
        binder.matcher.root = binder.bind(&clause);
        let Binder { faults, matcher, .. } = binder;
        faults.or(matcher)
    }

    /// Returns true if a row satisfies the query.
    pub fn matches(&self, row: &dyn SearchRow, scratch: &mut MatcherScratch) -> bool {
        self.begin_row(scratch);
        self.is_satisfied(&self.root, row, scratch)
    }

    /// Forgets the tokens of the row before.
    pub(crate) fn begin_row(&self, scratch: &mut MatcherScratch) {
        scratch.sets.resize_with(self.token_sets.len(), Default::default);
        for (count, _) in &mut scratch.sets {
            *count = None;
        }
    }

    /// The tokens of each text of a token set.
    pub(crate) fn tokens<'s>(
        &self,
        set: usize,
        row: &dyn SearchRow,
        scratch: &'s mut MatcherScratch,
    ) -> &'s [Tokens] {
        self.divide(set, row, scratch);
        let (count, tokens) = &scratch.sets[set];
        &tokens[..count.unwrap_or(0)]
    }

    /// The column whose texts a token set is of.
    #[cfg(feature = "arrow")]
    pub(crate) fn column_of(&self, set: usize) -> u32 {
        self.token_sets[set].0
    }

    #[cfg(feature = "arrow")]
    pub(crate) fn root(&self) -> &Bound {
        &self.root
    }

    /// Returns true if every row satisfies it.
    pub fn is_everything(&self) -> bool {
        matches!(self.root, Bound::Everything)
    }

    /// The columns that it asks, by their numbers, each once.
    pub fn columns(&self) -> Vec<u32> {
        let mut columns: Vec<u32> = self.leaves.iter().map(|leaf| leaf.column).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The places in a text of a column that satisfy a condition of the query which is not negated: sorted, apart from one
    /// another, in bytes.
    pub fn highlights(&self, column: u32, text: &str, scratch: &mut MatcherScratch) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        self.highlight(&self.root, (column, text), scratch, &mut places);
        merge_places(places)
    }

    fn highlight(
        &self,
        bound: &Bound,
        (column, text): (u32, &str),
        scratch: &mut MatcherScratch,
        places: &mut Vec<Range<usize>>,
    ) {
        match bound {
            Bound::Everything | Bound::Not(_) => {}
            Bound::All { required, optional } => {
                for bound in required.iter().chain(optional) {
                    self.highlight(bound, (column, text), scratch, places);
                }
            }
            Bound::Any(any) => {
                for bound in any {
                    self.highlight(bound, (column, text), scratch, places);
                }
            }
            Bound::OneOf(leaves) => {
                for leaf in self.leaves[leaves.clone()].iter().filter(|leaf| leaf.column == column) {
                    let mut tokens = Tokens::default();
                    if let Some(set) = leaf.token_set {
                        tokens.fill(&self.token_sets[set].1, text, &mut scratch.analyzer);
                    }
                    leaf.test.places(text, &tokens, places);
                }
            }
        }
    }

    /// Literals of which the JSON text of a row that satisfies the query has one; `is_of_texts` is true for a column
    /// whose only values are texts.
    pub(crate) fn required(&self, is_of_texts: &dyn Fn(u32) -> bool) -> Option<Required> {
        self.required_by(&self.root, is_of_texts)
    }

    fn required_by(&self, bound: &Bound, is_of_texts: &dyn Fn(u32) -> bool) -> Option<Required> {
        let by = |bound| self.required_by(bound, is_of_texts);
        match bound {
            Bound::Everything | Bound::Not(_) => None,
            Bound::All { required, optional } if required.is_empty() => match &optional[..] {
                [] => None,
                optional => Required::any(optional.iter().map(by)),
            },
            Bound::All { required, .. } => Required::best(required.iter().map(by)),
            Bound::Any(any) => Required::any(any.iter().map(by)),
            Bound::OneOf(leaves) => {
                let leaves = &self.leaves[leaves.clone()];
                Required::any(leaves.iter().map(|leaf| leaf.test.required(is_of_texts(leaf.column))))
            }
        }
    }

    /// What the words of a row have that satisfies the query, and whether that is enough. `is_default`: a column is of all
    /// values.
    pub(crate) fn required_words(
        &self,
        builder: &mut WordConditionBuilder,
        is_default: &dyn Fn(u32) -> bool,
    ) -> Option<(WordNode, bool)> {
        self.required_words_of(&self.root, builder, is_default)
    }

    fn required_words_of(
        &self,
        bound: &Bound,
        builder: &mut WordConditionBuilder,
        is_default: &dyn Fn(u32) -> bool,
    ) -> Option<(WordNode, bool)> {
        let mut each = |bounds: &[Bound]| {
            bounds.iter().map(|bound| self.required_words_of(bound, builder, is_default)).collect()
        };
        match bound {
            Bound::Everything => WordConditionBuilder::all(Vec::new()),
            Bound::All { required, optional } if required.is_empty() && !optional.is_empty() => {
                WordConditionBuilder::any(each(optional))
            }
            Bound::All { required, .. } => WordConditionBuilder::all(each(required)),
            Bound::Any(any) => WordConditionBuilder::any(each(any)),
            Bound::Not(not) => WordConditionBuilder::not(self.required_words_of(not, builder, is_default)),
            Bound::OneOf(leaves) => {
                let leaves = &self.leaves[leaves.clone()];
                let test = |leaf: &Leaf| builder.test(&leaf.test, is_default(leaf.column));
                WordConditionBuilder::any(leaves.iter().map(test).collect())
            }
        }
    }

    /// The conditions of the query.
    #[cfg(feature = "arrow")]
    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The query as an index is asked it.
    #[cfg(feature = "arrow")]
    pub(crate) fn map_root(&self, maker: &IndexQueryMaker<'_>) -> IndexQuery {
        map_bound(&self.root, maker)
    }

    fn is_satisfied(&self, bound: &Bound, row: &dyn SearchRow, scratch: &mut MatcherScratch) -> bool {
        match bound {
            Bound::Everything => true,
            Bound::All { required, optional } => {
                required.iter().all(|bound| self.is_satisfied(bound, row, scratch))
                    && (!required.is_empty()
                        || optional.is_empty()
                        || optional.iter().any(|bound| self.is_satisfied(bound, row, scratch)))
            }
            Bound::Any(any) => any.iter().any(|bound| self.is_satisfied(bound, row, scratch)),
            Bound::Not(not) => !self.is_satisfied(not, row, scratch),
            Bound::OneOf(leaves) => {
                self.leaves[leaves.clone()].iter().any(|leaf| self.has_leaf(leaf, row, scratch))
            }
        }
    }

    pub(crate) fn has_leaf(&self, leaf: &Leaf, row: &dyn SearchRow, scratch: &mut MatcherScratch) -> bool {
        if let Some(set) = leaf.token_set
            && leaf.test.is_in_tokens(self.tokens(set, row, scratch))
        {
            return true;
        }
        let mut is_found = false;
        row.for_each_value(leaf.column, &mut |value| {
            is_found = is_found || leaf.test.is_satisfied(value);
        });
        is_found
    }

    /// Divides the texts of a token set, once a row.
    fn divide(&self, set: usize, row: &dyn SearchRow, scratch: &mut MatcherScratch) {
        let MatcherScratch { analyzer: of_analyzer, sets } = scratch;
        let (count, tokens) = &mut sets[set];
        if count.is_some() {
            return;
        }
        let (column, analyzer) = &self.token_sets[set];
        let mut filled = 0;
        row.for_each_value(*column, &mut |value| {
            if let Value::Text(text) = value {
                if tokens.len() == filled {
                    tokens.push(Tokens::default());
                }
                tokens[filled].fill(analyzer, text, of_analyzer);
                filled += 1;
            }
        });
        *count = Some(filled);
    }
}

#[cfg(feature = "arrow")]
fn map_bound(bound: &Bound, maker: &IndexQueryMaker<'_>) -> IndexQuery {
    let all = |bounds: &[Bound]| bounds.iter().map(|bound| map_bound(bound, maker)).collect();
    match bound {
        Bound::Everything => IndexQuery::Everything,
        Bound::All { required, optional } => maker.all(all(required), all(optional)),
        Bound::Any(any) => IndexQuery::Any(all(any)),
        Bound::Not(not) => IndexQuery::Not(Box::new(map_bound(not, maker))),
        Bound::OneOf(leaves) => maker.one_of(leaves.clone()),
    }
}

/// Places sorted and merged, so that none touches another's bytes.
pub(crate) fn merge_places(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_unstable_by_key(|place| (place.start, place.end));
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match apart.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => apart.push(place),
        }
    }
    apart
}

impl Binder<'_, '_> {
    fn bind(&mut self, clause: &Clause) -> Bound {
        let outer = self.weight;
        self.weight *= clause.boost;
        let bound = self.bind_node(clause);
        self.weight = outer;
        bound
    }

    fn bind_node(&mut self, clause: &Clause) -> Bound {
        let mut all = |clauses: &[Clause]| clauses.iter().map(|clause| self.bind(clause)).collect();
        match &clause.node {
            Node::Everything => Bound::Everything,
            Node::All { required, optional } => {
                Bound::All { required: all(required), optional: all(optional) }
            }
            Node::Any(any) => Bound::Any(all(any)),
            Node::Not(not) => Bound::Not(Box::new(self.bind(not))),
            Node::Condition { column, test } => {
                let columns = match column {
                    None => self.columns.defaults(),
                    Some(column) => match self.columns.column(&column.path) {
                        Ok(column) => vec![column],
                        Err(unknown) => {
                            self.faults.add(column.span.start, unknown.message, unknown.hint);
                            return Bound::Everything;
                        }
                    },
                };
                self.bind_test(&columns, test, clause.span.start)
            }
        }
    }

    fn bind_test(&mut self, columns: &[SearchColumn], test: &Test, at: usize) -> Bound {
        if let Test::Expression(_) = test {
            self.expressions += 1;
            if self.expressions == EXPRESSIONS_MAX + 1 {
                let message = format!("a query has at most {EXPRESSIONS_MAX} regular expressions");
                self.faults.add(at, message, None);
            }
            if self.expressions > EXPRESSIONS_MAX {
                return Bound::Everything;
            }
        }
        let from = self.matcher.leaves.len();
        for column in columns {
            match bind_test(column, test, self.now_micros) {
                Ok(test) => {
                    let token_set = test.needs_tokens().then(|| self.token_set(column));
                    self.matcher.leaves.push(Leaf {
                        column: column.id,
                        token_set,
                        test,
                        #[cfg(feature = "arrow")]
                        weight: self.weight * column.boost,
                    });
                }
                Err(fault) => {
                    // The same is wrong with each of several columns.
                    self.faults.add(at, fault.message, fault.hint);
                    break;
                }
            }
        }
        Bound::OneOf(from..self.matcher.leaves.len())
    }

    fn token_set(&mut self, column: &SearchColumn) -> usize {
        let sets = &mut self.matcher.token_sets;
        let is_same = |(id, analyzer): &(u32, Arc<Analyzer>)| {
            *id == column.id && analyzer.options() == column.analyzer.options()
        };
        sets.iter().position(is_same).unwrap_or_else(|| {
            sets.push((column.id, Arc::clone(&column.analyzer)));
            sets.len() - 1
        })
    }
}
