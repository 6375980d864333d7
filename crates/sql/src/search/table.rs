//! Expands the table function `search('stream', 'words')` and the function `search_score` in the syntax tree.
//!
//! ```text
//! before: FROM search('logs', 'timeout') AS l
//! after:  FROM (SELECT *, search_score('timeout') AS _score FROM "logs" WHERE search('timeout')) AS l
//!
//! before: SELECT search_score(l.message, 'timeout') FROM logs AS l
//! after:  SELECT search_score_of(l.message, 'timeout', (SELECT search_statistics(message, 'timeout') FROM logs)) FROM logs AS l
//! ```
//!
//! Statistics are those of all rows of the table. A statement that reads no `_score` does not compute it: it is null there.

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SelectItem,
    Statement as SqlStatement, TableAlias, TableFactor, TableWithJoins, Value, VisitorMut,
};

use super::{NAME, NAME_SCORE, NAME_SCORE_OF, statistics};
use crate::walk::walk_statement_mut;
use crate::{ErrorKind, SqlError};

/// The column of scores.
const SCORE: &str = "_score";

/// Expands the calls of a statement.
pub(crate) fn expand_tables(statement: &mut Statement) -> Result<(), SqlError> {
    let mut finds = FindScores { has_table: false, is_read: false };
    walk_statement_mut(statement, &mut finds)?;
    if finds.has_table {
        walk_statement_mut(statement, &mut ExpandTables { reads_scores: finds.is_read })?;
    }
    walk_statement_mut(statement, &mut ExpandScores { scopes: Vec::new() })
}

fn is_called(name: &impl ToString, wanted: &str) -> bool {
    name.to_string().eq_ignore_ascii_case(wanted)
}

/// Finds whether a statement has the table function, and reads its scores.
struct FindScores {
    has_table: bool,
    is_read: bool,
}

impl VisitorMut for FindScores {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { name, args: Some(_), .. } = table {
            self.has_table |= is_called(name, NAME);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let is_wildcard =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        self.is_read |= select.projection.iter().any(is_wildcard);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let name = match expr {
            Expr::Identifier(name) => Some(&*name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        self.is_read |= name.is_some_and(|name| name.value.eq_ignore_ascii_case(SCORE));
        ControlFlow::Continue(())
    }
}

struct ExpandTables {
    reads_scores: bool,
}

impl VisitorMut for ExpandTables {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = table else {
            return ControlFlow::Continue(());
        };
        if !is_called(name, NAME) {
            return ControlFlow::Continue(());
        }
        let texts: Vec<&str> = args.args.iter().filter_map(text_of).collect();
        let ([stream, query], 2) = (texts.as_slice(), args.args.len()) else {
            let error =
                SqlError::new(ErrorKind::Invalid, "the table search has a stream and a query, both texts");
            return ControlFlow::Break(error.with_hint("Write FROM search('logs', 'timeout')."));
        };
        let query = query.replace('\'', "''");
        let score = match self.reads_scores {
            true => format!("{NAME_SCORE}('{query}')"),
            false => "CAST(NULL AS DOUBLE)".to_owned(),
        };
        let text = format!(
            "SELECT *, {score} AS {SCORE} FROM \"{}\" WHERE {NAME}('{query}')",
            stream.replace('"', "\"\"")
        );
        let subquery = match query_of(&text) {
            Ok(subquery) => subquery,
            Err(error) => return ControlFlow::Break(error),
        };
        let alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(NAME),
            columns: Vec::new(),
            at: None,
        });
        *table = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        ControlFlow::Continue(())
    }
}

/// Adds statistics to the calls of `search_score`.
struct ExpandScores {
    /// The tables of the SELECTs around, the innermost last.
    scopes: Vec<Vec<TableFactor>>,
}

impl VisitorMut for ExpandScores {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        let of = |from: &TableWithJoins| {
            let joined = from.joins.iter().map(|join| join.relation.clone());
            std::iter::once(from.relation.clone()).chain(joined).collect::<Vec<_>>()
        };
        self.scopes.push(select.from.iter().flat_map(of).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<SqlError> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        if !is_called(&call.name, NAME_SCORE) {
            return ControlFlow::Continue(());
        }
        match self.add_statistics(call) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn refused(message: &str) -> SqlError {
    SqlError::new(ErrorKind::Invalid, message.to_owned())
        .with_hint("Write SELECT search_score(message, 'words') FROM logs WHERE search(message, 'words').")
}

impl ExpandScores {
    fn add_statistics(&self, call: &mut Function) -> Result<(), SqlError> {
        let FunctionArguments::List(list) = &mut call.args else {
            return Err(refused("search_score has a column and a query"));
        };
        let (value, query) = match list.args.as_slice() {
            [query] => (None, query),
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), query] => (Some(value), query),
            _ => return Err(refused("search_score has a column and a query")),
        };
        let Some(text) = text_of(query) else {
            return Err(refused("the query of search_score must be a constant text"));
        };
        let (qualifier, column) = match value {
            None => (None, None),
            Some(Expr::Identifier(column)) => (None, Some(column)),
            Some(Expr::CompoundIdentifier(names)) => match names.as_slice() {
                [table, column] => (Some(table), Some(column)),
                _ => return Err(refused("search_score is of a column of a table")),
            },
            Some(_) => return Err(refused("search_score is of a column of a table")),
        };
        let table = self.table(qualifier)?;
        let column = column.map_or(String::new(), |column| format!("{column}, "));
        let text = text.replace('\'', "''");
        let text = format!("SELECT {}({column}'{text}') FROM {table}", statistics::NAME);
        let statistics = Expr::Subquery(query_of(&text)?);
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(statistics)));
        call.name = vec![Ident::new(NAME_SCORE_OF)].into();
        Ok(())
    }

    /// The table that a column of the innermost SELECT is of, as it stands after FROM.
    fn table(&self, qualifier: Option<&Ident>) -> Result<String, SqlError> {
        let tables = self.scopes.last().map_or(&[][..], Vec::as_slice);
        let is_called = |table: &&TableFactor| match (table, qualifier) {
            (_, None) => true,
            (
                TableFactor::Table { alias: Some(alias), .. }
                | TableFactor::Derived { alias: Some(alias), .. },
                Some(qualifier),
            ) => alias.name.value == qualifier.value,
            (TableFactor::Table { name, .. }, Some(qualifier)) => {
                let last = name.0.last().and_then(|part| part.as_ident());
                last.is_some_and(|name| name.value == qualifier.value)
            }
            _ => false,
        };
        let found: Vec<&TableFactor> = tables.iter().filter(is_called).collect();
        match found.as_slice() {
            [TableFactor::Table { args: None, .. }] => {
                let mut table = found[0].clone();
                if let TableFactor::Table { alias, .. } = &mut table {
                    *alias = None;
                }
                Ok(table.to_string())
            }
            [_] => Err(refused("search_score is of a column of a table, not of a subquery")),
            [] => Err(refused("search_score needs a table of the FROM clause")),
            _ => Err(refused(
                "search_score is of one table: write the table before the column, as in l.message",
            )),
        }
    }
}

fn text_of(argument: &FunctionArg) -> Option<&str> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn query_of(text: &str) -> Result<Box<Query>, SqlError> {
    let mut parser = DFParserBuilder::new(text).build().map_err(SqlError::from)?;
    match parser.parse_statement().map_err(SqlError::from)? {
        Statement::Statement(statement) => match *statement {
            SqlStatement::Query(query) => Ok(query),
            _ => Err(SqlError::internal("a search is no query")),
        },
        _ => Err(SqlError::internal("a search is no query")),
    }
}
