//! Names each repeated column of a select list, because DataFusion refuses two columns of one name.
//!
//! ```text
//! SELECT length, length FROM wiki      becomes  SELECT length, length AS length_2 FROM wiki
//! SELECT count(*), count(*) FROM t     becomes  SELECT count(*), count(*) AS count_2 FROM t
//! SELECT 1 + 1, 1 + 1                  becomes  SELECT 1 + 1, 1 + 1 AS column_2
//! SELECT *, length FROM wiki           becomes  SELECT *, length AS length_2 FROM wiki
//! ```
//!
//! Only the items of the outermost select are renamed, in every branch of a set operation. An item is renamed if it has
//! no alias and repeats the text of an earlier item; an item without a name becomes `column_3`. Beside a `*` or a `t.*`,
//! an item is renamed if it has the name of a column of these tables. This includes aliases:
//! `SELECT *, length * 2 AS length`. Columns of subqueries are not known here; duplicates of them are still refused.
//!
//! After planning, an output column that has the name of an earlier one is renamed too, and `Int64(1) + Int64(1)` becomes
//! `1 + 1`. This covers `SELECT * FROM a JOIN b USING (k)` and a join of a table with itself.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::{Column, Result as DataFusionResult};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{
    CreateMemoryTable, DdlStatement, Expr as Planned, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement as SqlStatement, TableFactor, VisitorMut, WildcardAdditionalOptions,
};

use crate::standard_forms::NAMELESS;
use crate::walk::walk_mut;
use crate::words::name_in_sql;
use crate::{SchemaRef, SqlError};

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
            let stars = tables_of_stars(select, schemas);
            in_items(&mut select.projection, &stars);
        }
        SetExpr::Query(query) => in_body(&mut query.body, schemas),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left, schemas);
            in_body(right, schemas);
        }
        _ => {}
    }
}

/// The tables all of whose columns are selected, by `*` or `t.*`, with the names that they have in the select.
fn tables_of_stars(select: &Select, schemas: &Schemas) -> Vec<(String, SchemaRef)> {
    let relations = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let tables = relations.filter_map(|relation| match relation {
        TableFactor::Table { name, alias, .. } => {
            let name = name.0.last()?.as_ident()?;
            let qualifier = alias.as_ref().map_or(name, |alias| &alias.name);
            Some((qualifier.value.clone(), Arc::clone(schemas.get(&name.value)?)))
        }
        _ => None,
    });
    let is_of = |item: &SelectItem, table: &str| match item {
        SelectItem::Wildcard(options) => is_whole(options),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            let name = name.0.last().and_then(ObjectNamePart::as_ident);
            is_whole(options) && name.is_some_and(|name| name.value == table)
        }
        _ => false,
    };
    tables.filter(|(table, _)| select.projection.iter().any(|item| is_of(item, table))).collect()
}

/// Returns true if a `*` excludes no column and renames none.
fn is_whole(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions { opt_ilike, opt_exclude, opt_except, opt_replace, opt_rename, .. } =
        options;
    opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
}

fn in_items(items: &mut [SelectItem], stars: &[(String, SchemaRef)]) {
    let of_star = |name: &str| stars.iter().any(|(_, schema)| schema.column_with_name(name).is_some());
    let is_of_star = |expr: &Expr| match expr {
        Expr::Identifier(column) => of_star(&column.value),
        Expr::CompoundIdentifier(idents) => match idents.as_slice() {
            [table, column] => stars.iter().any(|(name, schema)| {
                *name == table.value && schema.column_with_name(&column.value).is_some()
            }),
            _ => false,
        },
        _ => false,
    };
    let mut taken: HashSet<String> = items.iter().filter_map(own_name).map(str::to_lowercase).collect();
    let fields = stars.iter().flat_map(|(_, schema)| schema.fields());
    taken.extend(fields.map(|field| field.name().to_lowercase()));
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
    for alias in items.iter_mut().filter_map(alias_mut).filter(|alias| of_star(&alias.value)) {
        *alias = apart(&alias.value, 2);
    }
    for (index, item) in items.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let bare = bare(expr);
        let is_first = seen.insert(bare.to_string());
        let is_shown = column_name(&bare).is_some_and(|name| !shown.insert(name.to_owned()));
        if is_first && !is_shown && !is_of_star(&bare) {
            continue;
        }
        let alias = match name_of(&bare) {
            Some(name) => apart(name, 2),
            None => apart("column", index + 1),
        };
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// The plan, with what has the name of an earlier column named apart, and constants in names as they are in SQL; of what is
/// written somewhere, its query.
pub(crate) fn columns_apart(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let apart = |input: Arc<LogicalPlan>| columns_apart(Arc::unwrap_or_clone(input)).map(Arc::new);
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)) => {
            let input = apart(table.input)?;
            Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(CreateMemoryTable { input, ..table })))
        }
        LogicalPlan::Copy(copy) => {
            let input = apart(copy.input)?;
            Ok(LogicalPlan::Copy(CopyTo { input, ..copy }))
        }
        query => columns_of_query_apart(query),
    }
}

fn columns_of_query_apart(plan: LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let schema = Arc::clone(plan.schema());
    // A computed column belongs to no table.
    let names: Vec<Cow<'_, str>> = schema
        .iter()
        .map(|(qualifier, field)| match qualifier {
            Some(table) if !table.table().starts_with(NAMELESS) => field.name().into(),
            _ => name_in_sql(field.name()).into(),
        })
        .collect();
    let mut taken: HashSet<Cow<'_, str>> = names.iter().cloned().collect();
    let is_as_planned = names.iter().zip(schema.fields()).all(|(name, field)| name == field.name());
    if taken.len() == names.len() && is_as_planned {
        return Ok(plan);
    }
    let mut seen: HashSet<&str> = HashSet::with_capacity(names.len());
    let mut columns = Vec::with_capacity(names.len());
    for ((qualifier, field), name) in schema.iter().zip(&names) {
        let column = Planned::Column(Column::from((qualifier, field)));
        if seen.insert(name) {
            columns.push(if name == field.name() { column } else { column.alias(name.as_ref()) });
            continue;
        }
        let mut number = 2;
        let apart = loop {
            let apart = format!("{name}_{number}");
            if taken.insert(apart.clone().into()) {
                break apart;
            }
            number += 1;
        };
        columns.push(column.alias(apart));
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

/// The expression without casts, time zones, brackets and the case of functions, none of which is in DataFusion's name
/// for it.
fn bare(expr: &Expr) -> Expr {
    let mut bare = expr.clone();
    // It never breaks off.
    let _ = walk_mut(&mut bare, &mut Bare);
    bare
}

struct Bare;

impl VisitorMut for Bare {
    type Break = SqlError;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            Expr::Cast { expr: inner, .. }
            | Expr::AtTimeZone { timestamp: inner, .. }
            | Expr::Nested(inner) => {
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
