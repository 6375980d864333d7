//! Finds the columns that a grouped query selects without grouping by them.
//!
//! DataFusion's error names only the first such column; the hint names them all.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Visitor};

use crate::{SqlError, walk::walk};

/// Columns that a hint names.
const COLUMNS_TOLD: usize = 20;

/// The columns, as they are written, in the order of the first select that lacks some.
pub(crate) fn ungrouped(statement: &Statement, is_aggregate: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut selects = Selects { is_aggregate, found: Vec::new() };
    if let Statement::Statement(statement) = statement {
        // Neither pass breaks off.
        let _ = walk(statement, &mut selects);
    }
    selects.found.truncate(COLUMNS_TOLD);
    selects.found
}

struct Selects<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    found: Vec<String>,
}

impl Visitor for Selects<'_> {
    type Break = SqlError;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        let grouped: &[Expr] = match &select.group_by {
            GroupByExpr::Expressions(expressions, _) if self.found.is_empty() => expressions,
            _ => return ControlFlow::Continue(()),
        };
        let mut columns =
            Columns { is_aggregate: self.is_aggregate, grouped, found: Vec::new(), aggregates: 0, depth: 0 };
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                let _ = walk(expr, &mut columns);
            }
        }
        if let Some(having) = &select.having {
            let _ = walk(having, &mut columns);
        }
        let is_grouped = columns.aggregates > 0 || !grouped.is_empty();
        if is_grouped && !columns.found.is_empty() {
            self.found = columns.found;
        }
        ControlFlow::Continue(())
    }
}

struct Columns<'a> {
    is_aggregate: &'a dyn Fn(&str) -> bool,
    grouped: &'a [Expr],
    found: Vec<String>,
    /// Aggregates met in all.
    aggregates: usize,
    /// The number of aggregates, subqueries or grouped expressions around the visitor.
    depth: usize,
}

impl Columns<'_> {
    fn shields(&self, expr: &Expr) -> bool {
        let is_aggregate = match expr {
            Expr::Function(function) => {
                function.over.is_none() && (self.is_aggregate)(&function.name.to_string())
            }
            Expr::Subquery(_) | Expr::Exists { .. } => true,
            _ => false,
        };
        is_aggregate || self.grouped.contains(expr)
    }
}

impl Visitor for Columns<'_> {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        if matches!(expr, Expr::Function(_)) && self.shields(expr) && !self.grouped.contains(expr) {
            self.aggregates += 1;
        }
        if self.shields(expr) {
            self.depth += 1;
        } else if self.depth == 0 && matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            let column = expr.to_string();
            if !self.found.contains(&column) {
                self.found.push(column);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        if self.shields(expr) {
            self.depth -= 1;
        }
        ControlFlow::Continue(())
    }
}
