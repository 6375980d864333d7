//! Corrects the precedence of `IS [NOT] DISTINCT FROM` in the syntax tree.
//!
//! ```text
//! a IS DISTINCT FROM b OR c         before: a IS DISTINCT FROM (b OR c)           after: (a IS DISTINCT FROM b) OR c
//! x AND a IS DISTINCT FROM b OR c   before: x AND (a IS DISTINCT FROM (b OR c))   after: (x AND a IS DISTINCT FROM b) OR c
//! ```
//!
//! The parser (sqlparser 0.62) reads everything that follows, `b OR c`, as the right operand of the comparison. It also
//! binds the terms before the comparison to the whole. The rewrite proceeds bottom-up. Bracketed expressions are marked
//! in the tree and remain unchanged.

use std::{mem, ops::ControlFlow};

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use crate::{SqlError, walk::walk_statement_mut};

/// Corrects the comparisons of a statement.
pub(crate) fn regroup(statement: &mut Statement) {
    // It never breaks off.
    let _ = walk_statement_mut(statement, &mut Regroup);
}

struct Regroup;

impl VisitorMut for Regroup {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Some((last, looseness_max)) = last_of(expr)
            && looseness(last) > looseness_max
        {
            let around = mem::replace(last, nothing());
            let inner = mem::replace(expr, around);
            put_around_first(expr, inner, looseness_max);
        }
        ControlFlow::Continue(())
    }
}

/// The last operand of what takes too much, and how loosely it may bind.
fn last_of(expr: &mut Expr) -> Option<(&mut Expr, usize)> {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => Some((right, 0)),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some((expr, 0)),
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } => Some((right, 1)),
        _ => None,
    }
}

/// Wraps an expression without its last operand around the first one that binds at least as tightly as that.
fn put_around_first(expr: &mut Expr, mut inner: Expr, looseness_max: usize) {
    let is_loose = looseness(expr) > looseness_max;
    match expr {
        Expr::BinaryOp { left, .. } if is_loose => put_around_first(left, inner, looseness_max),
        first => {
            if let Some((last, _)) = last_of(&mut inner) {
                mem::swap(last, first);
            }
            *first = inner;
        }
    }
}

/// 2: an OR that is in no brackets, 1: an AND, 0: what binds more tightly.
fn looseness(expr: &Expr) -> usize {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => 2,
        Expr::BinaryOp { op: BinaryOperator::And, .. } => 1,
        _ => 0,
    }
}

fn nothing() -> Expr {
    Expr::Value(Value::Null.into())
}
