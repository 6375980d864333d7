//! `SELECT length, length FROM wiki`: what is selected twice gets a name of its own, as DataFusion refuses two columns
//! of one name.
//!
//! Only the outermost select has its items named, with every branch of a set operation, and only those without an alias
//! that are written as an earlier one is: `length_2`, `count_2`, and `column_3` for what has no name. Columns that come
//! from a `*` are not known here, so `SELECT *, length` is refused still.

use std::collections::HashSet;
use std::ops::ControlFlow;

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
    for (index, item) in items.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let bare = bare(expr);
        if seen.insert(bare.to_string()) {
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
