//! Rewrites forms of the SQL standard that DataFusion 55 does not plan into forms that it plans.
//!
//! | form | becomes |
//! | --- | --- |
//! | `FETCH FIRST n ROWS ONLY` | `LIMIT n` |
//! | `x LIKE 'a!%' ESCAPE '!'` | `x LIKE 'a\%'`, because `\` is the default escape character |
//! | `(a, b) = (c, d)`, `<`, … | comparisons of the elements; the first that differ decide |
//! | `(a, b) IN ((1, 2), …)` | `OR` of such equations |
//! | `(a, b) IN (SELECT c, d …)` | the same of two values, which [`membership`](crate::membership) rewrites further |
//! | `FROM (SELECT …), (SELECT …)` | each subquery with a name |
//!
//! The equations preserve the three-valued logic. Forms without such a meaning are refused: `WITH TIES`, an `ESCAPE` of
//! several characters, and an `ESCAPE` with a pattern that is not a literal.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause,
    Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator, Value,
    ValueWithSpan, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::SqlError;
use crate::error::state;
use crate::walk::walk_statement_mut;

/// The function that makes a value of a row's elements, each with a name before it.
pub(crate) const ROW: &str = "named_struct";
/// The name of a query whose rows are compared with a row, and the beginning of its columns' names.
pub(crate) const ROWS: &str = "__rows";

/// The beginning of the names of subqueries that have none.
pub(crate) const NAMELESS: &str = "__subquery_";

/// Rewrites a statement to the forms that DataFusion plans.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<(), SqlError> {
    let mut pass = Pass { nameless: 0 };
    walk_statement_mut(statement, &mut pass)
}

struct Pass {
    /// Subqueries in FROM that have got a name.
    nameless: usize,
}

fn flow(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

fn refused(what: &str, hint: &str) -> SqlError {
    SqlError::invalid(format!("not supported: {what}")).with_state(state::NOT_SUPPORTED).with_hint(hint)
}

impl VisitorMut for Pass {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        flow(fetch_as_limit(query))
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<SqlError> {
        self.name(relation);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        flow(match expr {
            Expr::Like { pattern, escape_char: escape @ Some(_), .. }
            | Expr::ILike { pattern, escape_char: escape @ Some(_), .. } => without_escape(pattern, escape),
            Expr::InList { expr: row, list, negated } => match elements(row) {
                Some(row) => {
                    let (row, list, negated) = (row.to_vec(), mem::take(list), *negated);
                    in_rows(&row, list).map(|found| *expr = if negated { not(found) } else { found })
                }
                None => Ok(()),
            },
            Expr::InSubquery { expr: row, subquery, .. } => match elements(row) {
                Some(elements) => in_query(elements, subquery).map(|value| **row = value),
                None => Ok(()),
            },
            Expr::BinaryOp { left, op, right } => match (elements(left), elements(right)) {
                (Some(left), Some(right)) => compared(left, op, right).map(|compared| {
                    if let Some(compared) = compared {
                        *expr = compared;
                    }
                }),
                _ => Ok(()),
            },
            _ => Ok(()),
        })
    }
}

impl Pass {
    /// Names a subquery that has no name: DataFusion tells its columns from another's by it.
    fn name(&mut self, relation: &mut TableFactor) {
        if let TableFactor::Derived { alias: alias @ None, .. } = relation {
            self.nameless += 1;
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident::new(format!("{NAMELESS}{}", self.nameless)),
                columns: Vec::new(),
                at: None,
            });
        }
    }
}

fn fetch_as_limit(query: &mut Query) -> Result<(), SqlError> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties {
        let hint = "Number the rows with rank() OVER (ORDER BY …), and select those of a rank up to that.";
        return Err(refused("FETCH … WITH TIES", hint));
    }
    if fetch.percent {
        return Err(refused(
            "FETCH … PERCENT",
            "State the number of rows: FETCH FIRST 10 ROWS ONLY, or LIMIT 10.",
        ));
    }
    let rows = fetch.quantity.unwrap_or_else(|| number("1"));
    match &mut query.limit_clause {
        none @ None => {
            *none = Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() });
            Ok(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            Ok(())
        }
        Some(_) => Err(refused("FETCH beside LIMIT", "Write one of them.")),
    }
}

/// The pattern with `\` before what another character escapes.
fn without_escape(pattern: &mut Expr, escape: &mut Option<ValueWithSpan>) -> Result<(), SqlError> {
    let said = match escape.take().map(|escape| escape.value) {
        Some(Value::SingleQuotedString(said)) => said,
        _ => return Err(refused("an ESCAPE that is not text", "Write a character: ESCAPE '!'.")),
    };
    let mut characters = said.chars();
    let character = match (characters.next(), characters.next()) {
        (character, None) => character,
        _ => return Err(refused("an ESCAPE of several characters", "Write one: ESCAPE '!'.")),
    };
    if character == Some('\\') {
        return Ok(());
    }
    let Expr::Value(value) = pattern else {
        return Err(refused(
            "ESCAPE with a pattern that is not a literal",
            "Without ESCAPE, `\\` escapes: replace(pattern, '!', '\\').",
        ));
    };
    let Value::SingleQuotedString(text) = &mut value.value else {
        return Err(refused("ESCAPE with a pattern that is not text", "Write the pattern in single quotes."));
    };
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(next) = characters.next() {
        match next {
            next if Some(next) == character => match characters.next() {
                Some(literal) => escaped.extend(['\\', literal]),
                None => {
                    return Err(SqlError::invalid("the pattern ends with its escape character")
                        .with_hint(format!("Write it twice for the character itself: '{said}{said}'.")));
                }
            },
            '\\' => escaped.push_str("\\\\"),
            other => escaped.push(other),
        }
    }
    *text = escaped;
    Ok(())
}

/// The elements of a row in brackets.
fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(elements) => Some(elements),
        Expr::Nested(inner) => elements(inner),
        _ => None,
    }
}

/// `(a, b) IN (query)` with rows as values, which `membership` compares element by element.
fn in_query(row: &[Expr], query: &mut Query) -> Result<Expr, SqlError> {
    let text = format!("(SELECT 1 FROM (SELECT 1) AS {ROWS})");
    let parsed =
        Parser::new(&GenericDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let unread = |error| SqlError::internal("a row is not read").with_source(error);
    let name = |place: usize| Ident::new(format!("{ROWS}_{}", place + 1));
    let columns = (0..row.len()).map(|place| Expr::CompoundIdentifier(vec![Ident::new(ROWS), name(place)]));
    let mut rows = *parsed.map_err(unread)?;
    let mut body = rows.body.as_mut();
    while let SetExpr::Query(query) = body {
        body = query.body.as_mut();
    }
    if let SetExpr::Select(select) = body {
        select.projection = vec![SelectItem::UnnamedExpr(value_of_row(columns.collect())?)];
        if let Some(TableFactor::Derived { subquery, alias: Some(alias), .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            let columns =
                (0..row.len()).map(|place| TableAliasColumnDef { name: name(place), data_type: None });
            alias.columns = columns.collect();
            mem::swap(subquery.as_mut(), query);
        }
    }
    *query = rows;
    value_of_row(row.to_vec())
}

fn value_of_row(elements: Vec<Expr>) -> Result<Expr, SqlError> {
    let parsed = Parser::new(&GenericDialect {})
        .try_with_sql(&format!("{ROW}(1)"))
        .and_then(|mut parser| parser.parse_expr());
    let mut call = parsed.map_err(|error| SqlError::internal("a row is not read").with_source(error))?;
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut call {
        let named = elements.into_iter().enumerate().flat_map(|(place, element)| [text(place), element]);
        list.args = named.map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))).collect();
    }
    Ok(call)
}

/// `(a, b) IN ((1, 2), …)`.
fn in_rows(row: &[Expr], list: Vec<Expr>) -> Result<Expr, SqlError> {
    let mut found: Option<Expr> = None;
    for other in &list {
        let Some(other) = elements(other) else {
            return Err(SqlError::invalid("a row is compared with a value that is not a row")
                .with_hint("Write rows of as many elements: (a, b) IN ((1, 2), (3, 4))."));
        };
        let equal = all_equal(row, other)?;
        found = Some(match found {
            None => equal,
            Some(found) => operation(found, BinaryOperator::Or, equal),
        });
    }
    Ok(Expr::Nested(Box::new(found.unwrap_or_else(|| boolean(false)))))
}

fn all_equal(left: &[Expr], right: &[Expr]) -> Result<Expr, SqlError> {
    of_one_length(left, right)?;
    let pairs = left.iter().zip(right).map(|(left, right)| equal(left.clone(), right.clone()));
    Ok(Expr::Nested(Box::new(pairs.reduce(and).unwrap_or_else(|| boolean(true)))))
}

fn of_one_length(left: &[Expr], right: &[Expr]) -> Result<(), SqlError> {
    match left.len() == right.len() {
        true => Ok(()),
        false => Err(SqlError::invalid(format!(
            "a row of {} elements is compared with one of {}",
            left.len(),
            right.len()
        ))),
    }
}

/// A comparison of two rows, if the operator is one.
fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>, SqlError> {
    let strict = match op {
        BinaryOperator::Eq => return all_equal(left, right).map(Some),
        BinaryOperator::NotEq => return all_equal(left, right).map(|equal| Some(not(equal))),
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return Ok(None),
    };
    of_one_length(left, right)?;
    let mut pairs = left.iter().zip(right).rev();
    let Some((last, other)) = pairs.next() else { return Ok(None) };
    let mut compared = operation(last.clone(), op.clone(), other.clone());
    for (left, right) in pairs {
        let is_equal = and(equal(left.clone(), right.clone()), compared);
        let differs = operation(left.clone(), strict.clone(), right.clone());
        compared = Expr::Nested(Box::new(operation(differs, BinaryOperator::Or, is_equal)));
    }
    Ok(Some(compared))
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn and(left: Expr, right: Expr) -> Expr {
    operation(left, BinaryOperator::And, right)
}

fn equal(left: Expr, right: Expr) -> Expr {
    operation(left, BinaryOperator::Eq, right)
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

fn boolean(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

fn text(place: usize) -> Expr {
    Expr::Value(Value::SingleQuotedString((place + 1).to_string()).into())
}

fn number(text: &str) -> Expr {
    Expr::Value(Value::Number(text.to_owned(), false).into())
}
