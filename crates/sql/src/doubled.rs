//! `SELECT length, length FROM wiki`: what is selected twice gets a name of its own, as DataFusion refuses two columns
//! of one name.
//!
//! Only the outermost select has its items named, with every branch of a set operation, and only those without an alias
//! that are written as an earlier one is: `length_2`, `count_2`, and `column_3` for what has no name. Beside a `*` it is what has
//! the name of a column of the tables, with an alias too: `SELECT *, length`, `SELECT *, length * 2 AS length`. Columns of
//! subqueries are not known here, and refused still. Once the statement is planned, what has the name of an
//! earlier column is named apart too: of `SELECT * FROM a JOIN b USING (k)`, or of a join of a table with itself.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{Column, Result as DataFusionResult};
use datafusion::logical_expr::{Expr as Planned, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SelectItem, SetExpr, Statement as SqlStatement, TableFactor,
    VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use crate::SchemaRef;

/// The statement's tables, by the names that they have in it.
type Schemas = HashMap<String, SchemaRef>;

/// Names what a statement selects twice.
pub(crate) fn name_apart(statement: &mut Statement, schemas: &Schemas) {
    match statement {
        Statement::Statement(statement) => in_statement(statement, schemas),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                in_body(&mut query.body, schemas);
            }
        }
        Statement::Explain(explain) => name_apart(&mut explain.statement, schemas),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

fn in_statement(statement: &mut SqlStatement, schemas: &Schemas) {
    match statement {
        SqlStatement::Query(query) => in_body(&mut query.body, schemas),
        SqlStatement::Explain { statement, .. } => in_statement(statement, schemas),
        SqlStatement::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                in_body(&mut query.body, schemas);
            }
        }
        _ => {}
    }
}

fn in_body(body: &mut SetExpr, schemas: &Schemas) {
    match body {
        SetExpr::Select(select) => {
            let all = columns_of_star(select, schemas);
            in_items(&mut select.projection, all);
        }
        SetExpr::Query(query) => in_body(&mut query.body, schemas),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left, schemas);
            in_body(right, schemas);
        }
        _ => {}
    }
}

/// The columns that a `*` among the items stands for, as far as they are of tables; none where there is no `*`, or one that
/// leaves columns out.
fn columns_of_star(select: &Select, schemas: &Schemas) -> HashSet<String> {
    let is_whole = |options: &WildcardAdditionalOptions| {
        let WildcardAdditionalOptions { opt_ilike, opt_exclude, opt_except, opt_replace, opt_rename, .. } =
            options;
        opt_ilike.is_none()
            && opt_exclude.is_none()
            && opt_except.is_none()
            && opt_replace.is_none()
            && opt_rename.is_none()
    };
    let has_star =
        select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(star) if is_whole(star)));
    if !has_star {
        return HashSet::new();
    }
    let tables = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let names = tables.filter_map(|table| match table {
        TableFactor::Table { name, .. } => name.0.last()?.as_ident(),
        _ => None,
    });
    let schemas = names.filter_map(|name| schemas.get(&name.value));
    schemas.flat_map(|schema| schema.fields()).map(|field| field.name().clone()).collect()
}

/// `all`: the columns of a `*` among the items.
fn in_items(items: &mut [SelectItem], all: HashSet<String>) {
    let mut taken: HashSet<String> = items.iter().filter_map(own_name).map(str::to_lowercase).collect();
    taken.extend(all.iter().map(|name| name.to_lowercase()));
    let mut seen: HashSet<String> = HashSet::with_capacity(items.len());
    let mut apart = |base: &str, mut number: usize| loop {
        let name = format!("{base}_{number}");
        if taken.insert(name.to_lowercase()) {
            break Ident::new(name);
        }
        number += 1;
    };
    // Columns of two tables, and aliases, may have one name, however they are written.
    let mut shown: HashSet<String> = items.iter().filter_map(alias_of).map(str::to_owned).collect();
    for alias in items.iter_mut().filter_map(alias_mut).filter(|alias| all.contains(&alias.value)) {
        *alias = apart(&alias.value, 2);
    }
    shown.extend(all);
    for (index, item) in items.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let bare = bare(expr);
        let is_first = seen.insert(bare.to_string());
        let is_shown = column_name(&bare).is_some_and(|name| !shown.insert(name.to_owned()));
        if is_first && !is_shown {
            continue;
        }
        let alias = match name_of(&bare) {
            Some(name) => apart(name, 2),
            None => apart("column", index + 1),
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

fn alias_mut(item: &mut SelectItem) -> Option<&mut Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
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
