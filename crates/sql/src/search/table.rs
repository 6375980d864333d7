//! Expands the table function `search('stream', 'words')` in the syntax tree.
//!
//! ```text
//! before: FROM search('logs', 'timeout') AS l
//! after:  FROM (SELECT *, CAST(NULL AS DOUBLE) AS _score FROM "logs" WHERE search('timeout')) AS l
//! ```
//!
//! `_score` is null: rows that are scanned have no scores.

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Query, Statement as SqlStatement, TableAlias, TableFactor,
    Value, VisitorMut,
};

use crate::walk::walk_statement_mut;
use crate::{ErrorKind, SqlError};

/// Expands the calls of a statement.
pub(crate) fn expand_tables(statement: &mut Statement) -> Result<(), SqlError> {
    walk_statement_mut(statement, &mut Expand)
}

struct Expand;

impl VisitorMut for Expand {
    type Break = SqlError;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = table else {
            return ControlFlow::Continue(());
        };
        if !name.to_string().eq_ignore_ascii_case(super::NAME) {
            return ControlFlow::Continue(());
        }
        let texts: Vec<&str> = args.args.iter().filter_map(text_of).collect();
        let ([stream, query], 2) = (texts.as_slice(), args.args.len()) else {
            let error =
                SqlError::new(ErrorKind::Invalid, "the table search has a stream and a query, both texts");
            return ControlFlow::Break(error.with_hint("Write FROM search('logs', 'timeout')."));
        };
        let text = format!(
            "SELECT *, CAST(NULL AS DOUBLE) AS _score FROM \"{}\" WHERE search('{}')",
            stream.replace('"', "\"\""),
            query.replace('\'', "''")
        );
        let subquery = match query_of(&text) {
            Ok(subquery) => subquery,
            Err(error) => return ControlFlow::Break(error),
        };
        let alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(super::NAME),
            columns: Vec::new(),
            at: None,
        });
        *table = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        ControlFlow::Continue(())
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
