//! `SELECT length, length FROM wiki`: what is selected twice gets a name of its own, as DataFusion refuses two columns
//! of one name.
//!
//! Only the outermost select has its items named, with every branch of a set operation, and only those without an alias
//! that are written as an earlier one is: `length_2`, `count_2`, and `column_3` for what has no name. Columns that come
//! from a `*` are not known here, so `SELECT *, length` is refused still. Once the statement is planned, what has the name of an
//! earlier column is named apart too: of `SELECT * FROM a JOIN b USING (k)`, or of a join of a table with itself.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{Column, Result as DataFusionResult};
use datafusion::logical_expr::{Expr as Planned, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, SelectItem, SetExpr, Statement as SqlStatement, VisitMut, VisitorMut,
};

/// Names what a statement selects twice.
pub(crate) fn name_apart(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => in_statement(statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                in_body(&mut query.body);
            }
        }
        Statement::Explain(explain) => name_apart(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

fn in_statement(statement: &mut SqlStatement) {
    match statement {
        SqlStatement::Query(query) => in_body(&mut query.body),
        SqlStatement::Explain { statement, .. } => in_statement(statement),
        SqlStatement::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                in_body(&mut query.body);
            }
        }
        _ => {}
    }
}

fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => in_items(&mut select.projection),
        SetExpr::Query(query) => in_body(&mut query.body),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        _ => {}
    }
}

fn in_items(items: &mut [SelectItem]) {
    let mut taken: HashSet<String> = items.iter().filter_map(own_name).map(str::to_lowercase).collect();
    let mut seen: HashSet<String> = HashSet::with_capacity(items.len());
    // Columns of two tables, and aliases, may have one name, however they are written.
    let mut shown: HashSet<String> = items.iter().filter_map(alias_of).map(str::to_owned).collect();
    for (index, item) in items.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let bare = bare(expr);
        let is_first = seen.insert(bare.to_string());
        let is_shown = column_name(&bare).is_some_and(|name| !shown.insert(name.to_owned()));
        if is_first && !is_shown {
            continue;
        }
        let (base, mut number) = match name_of(&bare) {
            Some(name) => (name.to_owned(), 2),
            None => ("column".to_owned(), index + 1),
        };
        let alias = loop {
            let name = format!("{base}_{number}");
            if taken.insert(name.to_lowercase()) {
                break Ident::new(name);
            }
            number += 1;
        };
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// The plan, with what has the name of an earlier column named apart.
pub(crate) fn columns_apart(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    let mut taken: HashSet<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    if taken.len() == schema.fields().len() {
        return Ok(plan);
    }
    let mut seen: HashSet<&str> = HashSet::with_capacity(taken.len());
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (qualifier, field) in schema.iter() {
        let column = Planned::Column(Column::from((qualifier, field)));
        if seen.insert(field.name()) {
            columns.push(column);
            continue;
        }
        let mut number = 2;
        let name = loop {
            let name = format!("{}_{number}", field.name());
            if taken.insert(name.clone()) {
                break name;
            }
            number += 1;
        };
        columns.push(column.alias(name));
    }
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn alias_of(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
        _ => None,
    }
}

/// The name of a column, if it is one.
fn column_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => name_of(expr),
        _ => None,
    }
}

/// The name that an item has without our doing.
fn own_name(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::UnnamedExpr(expr) => name_of(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
        _ => None,
    }
}

fn name_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(ident) => Some(&ident.value),
        Expr::CompoundIdentifier(idents) => idents.last().map(|ident| ident.value.as_str()),
        Expr::Function(function) => {
            function.name.0.last().and_then(ObjectNamePart::as_ident).map(|ident| ident.value.as_str())
        }
        _ => None,
    }
}

/// Without casts, brackets and the case of functions, none of which shows in the name that DataFusion gives it.
fn bare(expr: &Expr) -> Expr {
    let mut bare = expr.clone();
    let _ = VisitMut::visit(&mut bare, &mut Bare);
    bare
}

struct Bare;

impl VisitorMut for Bare {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => {
                let inner = (**inner).clone();
                *expr = inner;
            }
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(ident) = part {
                        ident.value = ident.value.to_lowercase();
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
