//! Reads one aggregate of a row expression, `sum(price * qty)`, so that it can stand in a statement that others write.
//!
//! The expression is parsed and printed again from its syntax tree: no text of the caller's reaches a statement. Refused are
//! other functions, subqueries and parameters. Columns are checked when the statement is planned.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value, ValueWithSpan, Visitor,
};

use crate::text::parse_expression;
use crate::walk::walk;
use crate::{ErrorKind, SqlError};

/// Bytes of an expression.
const TEXT_BYTES_MAX: usize = 4096;

/// One aggregate of an expression over the columns of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument as SQL; none for `count(*)`.
    pub argument: Option<String>,
}

/// A function of [`AggregateCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    /// The average.
    Avg,
    /// The sum.
    Sum,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// The number of values, or of rows.
    Count,
    /// The value of the first row.
    First,
}

const FUNCTIONS: [(&str, AggregateFunction); 6] = [
    ("avg", AggregateFunction::Avg),
    ("sum", AggregateFunction::Sum),
    ("min", AggregateFunction::Min),
    ("max", AggregateFunction::Max),
    ("count", AggregateFunction::Count),
    ("first", AggregateFunction::First),
];

impl AggregateFunction {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(_, function)| *function == self).map_or("", |(name, _)| name)
    }
}

impl AggregateCall {
    /// Reads `FUNCTION(expression)` or `count(*)`.
    pub fn parse(text: &str) -> Result<AggregateCall, SqlError> {
        const FORMS: &str =
            "Write one of avg, sum, min, max, count and first over an expression: sum(price * qty).";
        let refused = |message: String| SqlError::new(ErrorKind::Invalid, message).with_hint(FORMS);
        if text.len() > TEXT_BYTES_MAX {
            return Err(refused(format!("the expression has more than {TEXT_BYTES_MAX} bytes")));
        }
        let Expr::Function(call) = parse_expression(text)? else {
            return Err(refused(format!("`{text}` is no aggregate")));
        };
        let name = call.name.to_string();
        let function = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
        let Some((_, function)) = function else {
            return Err(refused(format!("`{name}` is no aggregate that a search computes")));
        };
        let is_plain = call.over.is_none()
            && call.filter.is_none()
            && call.within_group.is_empty()
            && call.null_treatment.is_none()
            && matches!(call.parameters, FunctionArguments::None);
        let FunctionArguments::List(list) = &call.args else {
            return Err(refused(format!("`{text}` has no argument")));
        };
        if !is_plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            return Err(refused(format!("`{text}` has more than a function and its argument")));
        }
        let argument = match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => Some(argument),
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if *function == AggregateFunction::Count => {
                None
            }
            _ => return Err(refused(format!("`{name}` takes one expression"))),
        };
        if let Some(argument) = argument
            && let ControlFlow::Break(error) = walk(argument, &mut OfOneRow)
        {
            return Err(error.with_hint(FORMS));
        }
        Ok(AggregateCall { function: *function, argument: argument.map(Expr::to_string) })
    }
}

/// Refuses what is no expression over one row.
struct OfOneRow;

impl Visitor for OfOneRow {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<SqlError> {
        ControlFlow::Break(SqlError::new(ErrorKind::Invalid, "an aggregate of a search has no subquery"))
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<SqlError> {
        match &value.value {
            Value::Placeholder(name) => {
                let message = format!("an aggregate of a search has no parameter `{name}`");
                ControlFlow::Break(SqlError::new(ErrorKind::Invalid, message))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_aggregates_of_an_expression_over_one_row_are_read() {
        let read = AggregateCall::parse("SUM(price * (qty + 1))").unwrap();
        assert_eq!(read.function.name(), "sum");
        assert_eq!(read.argument.as_deref(), Some("price * (qty + 1)"));
        assert_eq!(AggregateCall::parse("count(*)").unwrap().argument, None);
        let quoted = AggregateCall::parse("first(\"a \"\"b\" || 'it''s')").unwrap();
        assert_eq!(quoted.argument.as_deref(), Some("\"a \"\"b\" || 'it''s'"));
        for text in [
            "",
            "price",
            "sum(price",
            "sum(price))",
            "sum(price) FROM logs",
            "sum(price); DROP STREAM logs",
            "sum(price) -- more\n, 1",
            "sum((SELECT max(x) FROM secrets))",
            "sum(CASE WHEN EXISTS (SELECT 1 FROM secrets) THEN 1 END)",
            "sum(x IN (SELECT y FROM secrets))",
            "sum($1)",
            "sum(*)",
            "sum(a, b)",
            "sum(DISTINCT a)",
            "sum(a) OVER ()",
            "sum(a) FILTER (WHERE b)",
            "first(a ORDER BY b)",
            "median(a)",
            "abs(a)",
        ] {
            assert!(AggregateCall::parse(text).is_err(), "{text}");
        }
    }
}
