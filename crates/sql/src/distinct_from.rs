//! `a IS [NOT] DISTINCT FROM b OR c` is `(a IS DISTINCT FROM b) OR c`. The parser (sqlparser 0.62) takes all that follows as
//! what `a` is held against, `b OR c`, and what stands before with it: `x AND a IS DISTINCT FROM b OR c` is
//! `x AND (…)` then. The tree is put right from below. What was written in brackets is marked so, and left.

use std::{mem, ops::ControlFlow};

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use crate::{SqlError, walk::walk_statement_mut};

/// Puts the comparisons of a statement right.
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

/// Puts an expression that lacks its last operand around the first one that binds no more loosely than that.
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
