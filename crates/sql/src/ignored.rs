//! Rewrites or refuses clauses that the parser accepts and DataFusion ignores.
//!
//! ```text
//! GROUP BY a, b WITH ROLLUP              becomes  GROUP BY ROLLUP (a, b)
//! GROUP BY a, b WITH CUBE                becomes  GROUP BY CUBE (a, b)
//! GROUP BY a, b GROUPING SETS (…)        becomes  GROUP BY GROUPING SETS (…)
//! ```
//!
//! These clauses mean what they mean in Spark. A clause without a meaning here is refused: DataFusion's answer would not
//! be the requested one.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, ColumnDef, DataType, Expr, GroupByExpr, GroupByWithModifier, Query,
    Select, Statement as SqlStatement, TableFactor, VisitorMut,
};

use crate::text::place_of_span;
use crate::walk::walk_statement_mut;
use crate::{SqlError, error::state};

/// Rewrites clauses that DataFusion would ignore so that it knows them, or refuses them.
pub(crate) fn none_ignored(statement: &mut Statement) -> Result<(), SqlError> {
    walk_statement_mut(statement, &mut Pass)
}

struct Pass;

fn refused(clause: &str) -> SqlError {
    SqlError::invalid(format!("not supported: {clause}")).with_state(state::NOT_SUPPORTED)
}

fn check(clauses: &[(bool, &str)]) -> ControlFlow<SqlError> {
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, clause)) => ControlFlow::Break(refused(clause)),
        None => ControlFlow::Continue(()),
    }
}

impl VisitorMut for Pass {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<SqlError> {
        match statement {
            SqlStatement::CreateTable(table) => {
                table.columns.iter().try_for_each(|column| match limits_length(&column.data_type) {
                    true => ControlFlow::Break(unlimited(column)),
                    false => ControlFlow::Continue(()),
                })
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        check(&[
            (query.for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
        ])
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        check(&[(select.prewhere.is_some(), "PREWHERE"), (!select.connect_by.is_empty(), "CONNECT BY")])?;
        match with_modifiers(&mut select.group_by) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table { sample, partitions, with_hints, index_hints, .. } => check(&[
                (sample.is_some(), "TABLESAMPLE"),
                (!partitions.is_empty(), "PARTITION of a table"),
                (!with_hints.is_empty() || !index_hints.is_empty(), "hints of a table"),
            ]),
            TableFactor::Derived { sample, .. } => check(&[(sample.is_some(), "TABLESAMPLE")]),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns true if a type limits the length of texts. Tables do not: all texts have one type.
fn limits_length(ty: &DataType) -> bool {
    match ty {
        DataType::Char(_) | DataType::Character(_) => true,
        DataType::Varchar(length)
        | DataType::CharacterVarying(length)
        | DataType::CharVarying(length)
        | DataType::Nvarchar(length) => matches!(length, Some(CharacterLength::IntegerLength { .. })),
        DataType::String(length) => length.is_some(),
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => limits_length(element),
        DataType::Struct(fields, _) => fields.iter().any(|field| limits_length(&field.field_type)),
        _ => false,
    }
}

fn unlimited(column: &ColumnDef) -> SqlError {
    let (name, ty) = (&column.name.value, &column.data_type);
    refused(&format!("the type {ty} of column `{name}`: a table does not limit the length of texts"))
        .at(place_of_span(column.name.span))
        .with_hint("Declare it VARCHAR, and insert x::VARCHAR(3) to cut texts off.")
}

/// `GROUP BY a, b WITH ROLLUP` is `GROUP BY ROLLUP (a, b)`, and so with CUBE; `GROUP BY a, b GROUPING SETS (…)` has these sets.
fn with_modifiers(group_by: &mut GroupByExpr) -> Result<(), SqlError> {
    let (expressions, modifiers) = match group_by {
        GroupByExpr::Expressions(expressions, modifiers) => (expressions, modifiers),
        GroupByExpr::All(modifiers) if modifiers.is_empty() => return Ok(()),
        GroupByExpr::All(_) => return Err(refused("WITH behind GROUP BY ALL")),
    };
    let one_each = |expressions: &mut Vec<Expr>| std::mem::take(expressions).into_iter().map(|one| vec![one]);
    let sets = match modifiers.as_slice() {
        [] => return Ok(()),
        [GroupByWithModifier::Rollup] => Expr::Rollup(one_each(expressions).collect()),
        [GroupByWithModifier::Cube] => Expr::Cube(one_each(expressions).collect()),
        [GroupByWithModifier::GroupingSets(sets)] => sets.clone(),
        _ => return Err(refused("WITH TOTALS, and more than one WITH behind GROUP BY")),
    };
    modifiers.clear();
    *expressions = vec![sets];
    Ok(())
}
