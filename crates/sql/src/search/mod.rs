//! Plans `search('words')`, `search(column, 'words')`, `search_at(micros, 'words', 'or')`, `search_snippet(column, 'words', 80)`
//! and `search_score(column, 'words')`.
//!
//! ```text
//! before: search('timeout status:500')     after: search(message, title, status, _event)
//! before: search(title, 'timeout')         after: search(title)
//! ```
//!
//! The query, a constant text, moves into the function, which is compiled once a statement. Its arguments are the columns
//! that the query reads, so other columns are not scanned. `swiftwater-text` evaluates it over each row. The answer is never
//! null. `now` in a query is the start of the statement; `search_at` states it, in microseconds since 1970, and the operator
//! between words side by side.

mod facet;
#[cfg(feature = "distributed")]
mod message;
mod statistics;
mod table;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::cast::as_binary_array;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, exec_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, ColumnarValue, Expr, ExprSchemable, Like, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility, lit,
};
#[cfg(feature = "distributed")]
pub(crate) use message::SearchMessage;
use swiftwater_text::query::{Number, Operator as WordsOperator};
use swiftwater_text::{
    IndexCondition, IndexKind, IndexLeaf, IndexQuery, Literal, MatcherScratch, Pattern, QueryFaults,
    SearchField, TableSearch,
};

use crate::guarded::unguarded;
use crate::{ErrorKind, SqlError};
use statistics::UnboundStatistics;
pub(crate) use table::expand_tables;

const NAME: &str = "search";
const NAME_AT: &str = "search_at";
const NAME_SNIPPET: &str = "search_snippet";
/// As a statement has it; [`table`] adds the statistics.
const NAME_SCORE: &str = "search_score";
const NAME_SCORE_OF: &str = "search_score_of";
const NAME_SCORE_AT: &str = "search_score_at";

/// The most values of an `IN` that an index is asked for.
const IN_LIST_MAX: usize = 1000;
/// Characters of a snippet where none are stated.
const SNIPPET_CHARS: usize = 160;
/// Characters of a snippet.
const SNIPPET_CHARS_MAX: i64 = 100_000;

/// Makes a session know the function.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let signature = Signature::one_of(vec![TypeSignature::Any(1), TypeSignature::Any(2)], Volatility::Stable);
    state.register_udf(Arc::new(ScalarUDF::from(UnboundSearch { name: NAME, signature })))?;
    let signature = Signature::any(3, Volatility::Immutable);
    state.register_udf(Arc::new(ScalarUDF::from(UnboundSearch { name: NAME_AT, signature })))?;
    let signature = Signature::one_of(vec![TypeSignature::Any(2), TypeSignature::Any(3)], Volatility::Stable);
    state.register_udf(Arc::new(ScalarUDF::from(UnboundSearch { name: NAME_SNIPPET, signature })))?;
    let one_or_two = || vec![TypeSignature::Any(1), TypeSignature::Any(2)];
    let signature = Signature::one_of(one_or_two(), Volatility::Stable);
    state.register_udf(Arc::new(ScalarUDF::from(UnboundSearch { name: NAME_SCORE, signature })))?;
    let signature = Signature::one_of(vec![TypeSignature::Any(2), TypeSignature::Any(3)], Volatility::Stable);
    state.register_udf(Arc::new(ScalarUDF::from(UnboundSearch { name: NAME_SCORE_OF, signature })))?;
    let signature = Signature::any(4, Volatility::Immutable);
    state.register_udf(Arc::new(ScalarUDF::from(UnboundSearch { name: NAME_SCORE_AT, signature })))?;
    let signature = Signature::one_of(one_or_two(), Volatility::Stable);
    let unbound = UnboundStatistics { name: statistics::NAME, signature };
    state.register_udaf(Arc::new(AggregateUDF::from(unbound)))?;
    let signature = Signature::any(3, Volatility::Immutable);
    let unbound = UnboundStatistics { name: statistics::NAME_AT, signature };
    state.register_udaf(Arc::new(AggregateUDF::from(unbound)))?;
    state.register_udf(Arc::new(ScalarUDF::from(facet::Facet::new())))?;
    state.register_function_rewrite(Arc::new(Bind))
}

/// The function as a statement has it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UnboundSearch {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for UnboundSearch {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            NAME_SNIPPET => DataType::Utf8View,
            NAME_SCORE | NAME_SCORE_OF | NAME_SCORE_AT => DataType::Float64,
            _ => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} has no columns here", self.name)
    }
}

/// Replaces the function by one that is bound to columns.
#[derive(Debug)]
struct Bind;

impl FunctionRewrite for Bind {
    fn name(&self) -> &str {
        "bind_search"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        match &expr {
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let Some(unbound) = func.inner().downcast_ref::<UnboundSearch>() else {
                    return Ok(Transformed::no(expr));
                };
                let bound = bind(unbound.name, args, schema)?;
                Ok(bound.map_or_else(|| Transformed::no(expr.clone()), Transformed::yes))
            }
            Expr::AggregateFunction(call) if call.func.inner().is::<UnboundStatistics>() => {
                let args = call.params.args.as_slice();
                let (query, values, fields) = match args {
                    [value, query] => Query::of(constant(query)?).of_value(value, schema)?,
                    [query] => Query::of(constant(query)?).of_rows(schema)?,
                    [now, query, operator] => query_at(now, query, operator)?.of_rows(schema)?,
                    _ => return Ok(Transformed::no(expr)),
                };
                let bound = BoundSearch::new(query, fields)?;
                let mut call = call.clone();
                call.params.args = bound.args(&values);
                if call.params.args.is_empty() {
                    // An aggregate of nothing has no rows.
                    call.params.args.push(lit(true));
                }
                let BoundSearch { query, fields, search, .. } = bound;
                let statistics = statistics::BoundStatistics::new(query, fields, search);
                call.func = Arc::new(AggregateUDF::from(statistics));
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            _ => Ok(Transformed::no(expr)),
        }
    }
}

/// The function bound to the columns that it reads; none with arguments that it does not have.
fn bind(name: &str, args: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let (query, (values, fields), statistics) = match (name, args) {
        (NAME_SNIPPET, [value, query, rest @ ..]) => {
            let output = Output::Snippet { chars: snippet_chars(rest.first())? };
            let (query, values, fields) =
                Query { output, ..Query::of(constant(query)?) }.of_value(value, schema)?;
            (query, (values, fields), None)
        }
        (NAME_SCORE, _) => {
            let message = "search_score needs a table of the FROM clause";
            let error = SqlError::new(ErrorKind::Invalid, message);
            return Err(error.with_hint("Write SELECT search_score(message, 'words') FROM logs.").into());
        }
        (NAME_SCORE_OF, [value, query, statistics]) => {
            let query = Query { output: Output::Score, ..Query::of(constant(query)?) };
            let (query, values, fields) = query.of_value(value, schema)?;
            (query, (values, fields), Some(statistics))
        }
        (NAME_SCORE_OF, [query, statistics]) => {
            let query = Query { output: Output::Score, ..Query::of(constant(query)?) };
            let (query, values, fields) = query.of_rows(schema)?;
            (query, (values, fields), Some(statistics))
        }
        (NAME_SCORE_AT, [now, query, operator, statistics]) => {
            let query = Query { output: Output::Score, ..query_at(now, query, operator)? };
            let (query, values, fields) = query.of_rows(schema)?;
            (query, (values, fields), Some(statistics))
        }
        (_, [query]) => {
            let (query, values, fields) = Query::of(constant(query)?).of_rows(schema)?;
            (query, (values, fields), None)
        }
        (_, [value, query]) => {
            let (query, values, fields) = Query::of(constant(query)?).of_value(value, schema)?;
            (query, (values, fields), None)
        }
        (_, [now, query, operator]) => {
            let (query, values, fields) = query_at(now, query, operator)?.of_rows(schema)?;
            (query, (values, fields), None)
        }
        _ => return Ok(None),
    };
    let bound = BoundSearch::new(query, fields)?;
    let mut args = bound.args(&values);
    args.extend(statistics.cloned());
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(bound)), args))))
}

/// The query of `search_at`.
fn query_at(now: &Expr, query: &Expr, operator: &Expr) -> Result<Query> {
    let Expr::Literal(ScalarValue::Int64(Some(now)), _) = now else {
        let error = SqlError::new(ErrorKind::Invalid, "the time of search_at must be a constant BIGINT");
        return Err(error.with_hint("Write search_at(1767225600000000, 'words', 'and').").into());
    };
    let operator = match constant(operator)? {
        "and" => WordsOperator::And,
        "or" => WordsOperator::Or,
        other => {
            let message = format!("the operator of search_at is 'and' or 'or', not '{other}'");
            return Err(SqlError::new(ErrorKind::Invalid, message).into());
        }
    };
    Ok(Query { operator, now_micros: Some(*now), ..Query::of(constant(query)?) })
}

/// A query with what it searches: the values of columns, and their fields.
type SearchOf = (Query, Vec<Expr>, Vec<SearchField>);

impl Query {
    /// A search of the rows of the only table in scope.
    fn of_rows(self, schema: &DFSchema) -> Result<SearchOf> {
        let (tables, fields): (Vec<_>, Vec<_>) = schema.iter().unzip();
        if tables.windows(2).any(|pair| pair[0] != pair[1]) {
            let error =
                SqlError::new(ErrorKind::Invalid, "search('…') is of one table, and several are in scope");
            return Err(error
                .with_hint("Name a column, search(t.message, '…'), or search in a subquery.")
                .into());
        }
        let columns = schema.columns().into_iter().map(Expr::Column).collect();
        Ok((self, columns, fields.into_iter().map(|field| SearchField::of(field)).collect()))
    }

    /// A search of one value.
    fn of_value(self, value: &Expr, schema: &DFSchema) -> Result<SearchOf> {
        let field = SearchField::of(value.to_field(schema)?.1.as_ref());
        Ok((Query { is_of_value: true, ..self }, vec![value.clone()], vec![field]))
    }
}

fn snippet_chars(chars: Option<&Expr>) -> Result<usize> {
    let chars = match chars {
        None => return Ok(SNIPPET_CHARS),
        Some(Expr::Literal(ScalarValue::Int64(Some(chars)), _)) => *chars,
        Some(_) => 0,
    };
    match usize::try_from(chars) {
        Ok(number) if (1..=SNIPPET_CHARS_MAX).contains(&chars) => Ok(number),
        _ => {
            let message =
                format!("a snippet has from 1 to {SNIPPET_CHARS_MAX} characters, a constant number");
            let error = SqlError::new(ErrorKind::Invalid, message);
            Err(error.with_hint("Write search_snippet(message, 'words', 80).").into())
        }
    }
}

fn constant(query: &Expr) -> Result<&str> {
    let text = match query {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    };
    text.ok_or_else(|| {
        let error = SqlError::new(ErrorKind::Invalid, "the query of search must be a constant text");
        error.with_hint("Write search('words') or search(column, 'words').").into()
    })
}

/// The answer of a function for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Output {
    /// True if the row satisfies the query.
    Truth,
    /// The text around the first match, of at most so many characters.
    Snippet { chars: usize },
    /// The score. The last argument has the statistics.
    Score,
}

/// The search of one call of the function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Query {
    text: Box<str>,
    operator: WordsOperator,
    /// It searches one value instead of a row.
    is_of_value: bool,
    output: Output,
    /// The meaning of `now`, in microseconds since 1970; none until the plan is optimized.
    now_micros: Option<i64>,
}

impl Query {
    fn of(text: &str) -> Query {
        Query {
            text: text.into(),
            operator: WordsOperator::And,
            is_of_value: false,
            output: Output::Truth,
            now_micros: None,
        }
    }
}

/// The function with its query, over the columns that the query reads.
#[derive(Debug)]
struct BoundSearch {
    query: Query,
    fields: Vec<SearchField>,
    search: Arc<TableSearch>,
    signature: Signature,
}

impl BoundSearch {
    fn new(query: Query, fields: Vec<SearchField>) -> Result<BoundSearch> {
        // The columns that are read do not depend on the time. The optimizer binds it before rows are searched.
        let now = Some(query.now_micros.unwrap_or(0));
        let search = match query.is_of_value {
            true => TableSearch::of_value(&query.text, query.operator, fields[0].clone(), now),
            false => TableSearch::of_rows(&query.text, query.operator, fields.clone(), now),
        };
        let search = Arc::new(search.map_err(|faults| fault(&faults))?);
        let signature = Signature::one_of(
            vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
            // With a known `now` it is a function of its arguments alone.
            if query.now_micros.is_some() { Volatility::Immutable } else { Volatility::Stable },
        );
        Ok(BoundSearch { query, fields, search, signature })
    }
}

impl BoundSearch {
    /// The values that are read, of those of all fields.
    fn args(&self, values: &[Expr]) -> Vec<Expr> {
        self.search.needed().iter().map(|&place| values[place].clone()).collect()
    }
}

impl PartialEq for BoundSearch {
    fn eq(&self, other: &BoundSearch) -> bool {
        self.query == other.query && self.fields == other.fields
    }
}

impl Eq for BoundSearch {}

impl Hash for BoundSearch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.query.hash(state);
        self.fields.hash(state);
    }
}

impl ScalarUDFImpl for BoundSearch {
    fn name(&self) -> &str {
        match self.query.output {
            Output::Truth => NAME,
            Output::Snippet { .. } => NAME_SNIPPET,
            Output::Score => NAME_SCORE,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let query = ScalarValue::from(&*self.query.text);
        Ok(match (self.query.is_of_value, args, self.query.output) {
            (true, [value], Output::Snippet { chars }) => {
                format!("search_snippet({value}, {query}, {chars})")
            }
            (true, [value, ..], _) => format!("{}({value}, {query})", self.name()),
            _ => format!("{}({query})", self.name()),
        })
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.query.output {
            Output::Truth => DataType::Boolean,
            Output::Snippet { .. } => DataType::Utf8View,
            Output::Score => DataType::Float64,
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let (None, Some(start)) = (self.query.now_micros, info.query_execution_start_time()) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let query = Query { now_micros: Some(start.timestamp_micros()), ..self.query.clone() };
        let bound = BoundSearch::new(query, self.fields.clone())?;
        let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::from(bound)), args);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.query.now_micros.is_none() {
            return exec_err!("a search was not bound to the time of its statement");
        }
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|value| value.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let answer: ArrayRef = match self.query.output {
            Output::Truth => Arc::new(self.search.matches(&arrays, rows, &mut MatcherScratch::default())),
            Output::Snippet { chars } => self.snippets(&arrays, rows, chars),
            Output::Score => self.scores(&arrays, rows)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?),
            false => ColumnarValue::Array(answer),
        })
    }
}

/// The query of a search index that a filter of a scan contains: its searches, `=` and `IN` on columns of kind ID or FACET, and
/// `LIKE` on columns of kind TEXT.
/// None if it has none of them. Other conditions are unknown to an index. `schema` is the table's.
pub fn index_query(filter: &Expr, schema: &Schema) -> Option<IndexQuery> {
    match (FilterReader { schema, is_negated: false }).query(filter) {
        IndexQuery::Unknown => None,
        query => Some(query),
    }
}

/// Reads the parts of a filter that an index knows.
#[derive(Clone, Copy)]
struct FilterReader<'s> {
    schema: &'s Schema,
    /// True below NOT, where a comparison with null must not become true.
    is_negated: bool,
}

impl FilterReader<'_> {
    fn query(self, filter: &Expr) -> IndexQuery {
        match filter {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                let both = vec![self.query(left), self.query(right)];
                if both.iter().all(|query| *query == IndexQuery::Unknown) {
                    return IndexQuery::Unknown;
                }
                match filter {
                    Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => IndexQuery::All(both),
                    _ => IndexQuery::Any(both),
                }
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (&**left, &**right) {
                (Expr::Column(column), Expr::Literal(value, _))
                | (Expr::Literal(value, _), Expr::Column(column)) => self.equality(column, value),
                _ => IndexQuery::Unknown,
            },
            Expr::InList(InList { expr, list, negated: false }) if list.len() <= IN_LIST_MAX => {
                let Expr::Column(column) = &**expr else { return IndexQuery::Unknown };
                let values = list.iter().map(|value| match value {
                    Expr::Literal(value, _) => self.equality(column, value),
                    _ => IndexQuery::Unknown,
                });
                let values: Vec<IndexQuery> = values.collect();
                match values.contains(&IndexQuery::Unknown) {
                    true => IndexQuery::Unknown,
                    false => IndexQuery::Any(values),
                }
            }
            Expr::Like(like) if !like.negated => self.like(like),
            Expr::Not(not) => match (FilterReader { is_negated: true, ..self }).query(not) {
                IndexQuery::Unknown => IndexQuery::Unknown,
                // A search is never null, but what it is joined with may be: a row of which that is so is not selected either way.
                query => IndexQuery::Not(Box::new(query)),
            },
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let func = unguarded(func);
                match func.inner().downcast_ref::<BoundSearch>() {
                    Some(bound) => bound.index_query(args),
                    None => IndexQuery::Unknown,
                }
            }
            _ => IndexQuery::Unknown,
        }
    }

    /// A column whose texts are like a pattern: those that have the words of its literals.
    fn like(self, like: &Like) -> IndexQuery {
        let (Expr::Column(column), Expr::Literal(pattern, _)) = (&*like.expr, &*like.pattern) else {
            return IndexQuery::Unknown;
        };
        let field = self.schema.field_with_name(&column.name).ok().map(SearchField::of);
        let pattern = pattern.try_as_str().flatten();
        let (Some(field), Some(pattern), false) = (field, pattern, self.is_negated) else {
            return IndexQuery::Unknown;
        };
        let literals = like_literals(pattern, like.escape_char.unwrap_or('\\'));
        let last = literals.len() - 1;
        let of_literal = |(number, text): (usize, &String)| {
            let literal = Literal { text, starts_text: number == 0, ends_text: number == last };
            let columns = vec![(field.clone(), IndexCondition::Phrase(field.literal_words(&literal)?))];
            Some(IndexQuery::Leaf(IndexLeaf { columns, is_exact: false, event: None }))
        };
        let queries: Vec<IndexQuery> = literals.iter().enumerate().filter_map(of_literal).collect();
        if queries.is_empty() { IndexQuery::Unknown } else { IndexQuery::All(queries) }
    }

    /// A column that is equal to a constant.
    fn equality(self, column: &Column, value: &ScalarValue) -> IndexQuery {
        let field = self.schema.field_with_name(&column.name).ok().map(SearchField::of);
        let index = field.as_ref().and_then(SearchField::column_index);
        let (Some(field), Some(index), false) = (field, index, self.is_negated) else {
            return IndexQuery::Unknown;
        };
        let is_id = index.has(IndexKind::Id);
        let (condition, is_exact) = match (&field.ty, value) {
            _ if field.is_json => return IndexQuery::Unknown,
            (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, value) => {
                let Some(Some(text)) = value.try_as_str() else { return IndexQuery::Unknown };
                match is_id {
                    true => (IndexCondition::Whole(Pattern::Exact(text.into())), true),
                    // Values below it have the same term.
                    false if index.has(IndexKind::Facet) => {
                        (IndexCondition::Category(Pattern::Exact(text.into())), false)
                    }
                    false => return IndexQuery::Unknown,
                }
            }
            (DataType::Int64, ScalarValue::Int64(Some(number))) if is_id => {
                (IndexCondition::Number(Number::Integer((*number).into())), true)
            }
            _ => return IndexQuery::Unknown,
        };
        IndexQuery::Leaf(IndexLeaf { columns: vec![(field, condition)], is_exact, event: None })
    }
}

impl BoundSearch {
    /// The query of an index that a call with these arguments is.
    fn index_query(&self, args: &[Expr]) -> IndexQuery {
        // An index is of the table's columns, not of expressions that have their places or names.
        let needed = self.search.needed();
        let is_of_columns = args.len() == needed.len()
            && args.iter().zip(needed).all(|(argument, place)| match argument {
                Expr::Column(column) => *column.name == *self.fields[*place].name,
                _ => false,
            });
        let is_condition = self.query.output == Output::Truth && self.query.now_micros.is_some();
        match is_of_columns && is_condition {
            true => self.search.index_query(),
            false => IndexQuery::Unknown,
        }
    }
}

impl BoundSearch {
    /// The score of each row; null where it does not satisfy the query. The last array has the statistics, the same in each row.
    fn scores(&self, arrays: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let Some((statistics, columns)) = arrays.split_last() else {
            return exec_err!("search_score has no statistics");
        };
        let texts = as_binary_array(statistics)?;
        let Some(bytes) = texts.iter().next().flatten() else {
            return Ok(new_null_array(&DataType::Float64, rows));
        };
        if texts.iter().any(|other| other != Some(bytes)) {
            return exec_err!("search_score has several statistics");
        }
        let statistics = statistics::read(&self.search, bytes)?;
        Ok(Arc::new(self.search.scores(columns, rows, &mut MatcherScratch::default(), &statistics)))
    }

    /// The text around the first match of each row; null where there is none.
    fn snippets(&self, arrays: &[ArrayRef], rows: usize, chars: usize) -> ArrayRef {
        let mut scratch = MatcherScratch::default();
        let found = self.search.matches(arrays, rows, &mut scratch);
        let snippets = (0..rows).map(|row| {
            if !found.value(row) {
                return None;
            }
            let highlights = self.search.highlights(arrays, row, &mut scratch);
            let first = highlights.first()?;
            Some(snippet(&first.text, first.places.first()?.start, chars))
        });
        Arc::new(StringViewArray::from_iter(snippets))
    }
}

/// The literals between the wildcards of a pattern of LIKE, empty ones too: the first begins the text, the last ends it.
fn like_literals(pattern: &str, escape: char) -> Vec<String> {
    let mut literals = vec![String::new()];
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            '%' | '_' => {
                literals.push(String::new());
                continue;
            }
            // One that escapes nothing stands for itself.
            _ if character == escape => characters.next().unwrap_or(character),
            _ => character,
        };
        if let Some(last) = literals.last_mut() {
            last.push(literal);
        }
    }
    literals
}

/// At most so many characters of a text, with the match at a byte in them. `…` stands for text that is left out.
fn snippet(text: &str, at: usize, chars: usize) -> String {
    let total = text.chars().count();
    if total <= chars {
        return text.to_owned();
    }
    let before = text[..at].chars().count();
    // A quarter stands before the match.
    let start = before.saturating_sub(chars / 4).min(total - chars);
    let mut snippet: String = text.chars().skip(start).take(chars).collect();
    if start > 0 {
        snippet.insert(0, '…');
    }
    if start + chars < total {
        snippet.push('…');
    }
    snippet
}

fn fault(faults: &QueryFaults) -> SqlError {
    let error = SqlError::new(ErrorKind::Invalid, format!("the search cannot be read: {faults}"));
    match faults.0.iter().find_map(|fault| fault.hint.clone()) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::{like_literals, snippet};

    #[test]
    fn literals_of_like_are_between_wildcards() {
        assert_eq!(like_literals("a%b_c", '\\'), ["a", "b", "c"]);
        assert_eq!(like_literals("%refused%", '\\'), ["", "refused", ""]);
        assert_eq!(like_literals(r"100\% of\_it%", '\\'), ["100% of_it", ""]);
        assert_eq!(like_literals("10!%!!%", '!'), ["10%!", ""]);
    }

    #[test]
    fn snippet_has_the_match_and_marks_cuts() {
        assert_eq!(snippet("a timeout", 2, 20), "a timeout");
        let text = format!("{}timeout{}", "é".repeat(50), "ü".repeat(50));
        assert_eq!(snippet(&text, 100, 12), "…ééétimeoutüü…");
        assert_eq!(snippet(&text, 0, 4), "éééé…");
        assert_eq!(snippet(&text, text.len() - 2, 4), "…üüüü");
    }
}
