//! Walks over syntax trees with dynamically dispatched visitors, so that the walk is compiled once.
//!
//! sqlparser's walk is generic over its visitor. Each visitor has some four hundred functions, one for each type of node.
//! Here passes are visitors behind a pointer. These functions therefore exist once for passes that read, and once for
//! passes that change the tree.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement as SqlStatement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

use crate::SqlError;

/// Visits a node and all below it with a pass.
pub(crate) fn walk(node: &impl Visit, pass: &mut dyn Visitor<Break = SqlError>) -> ControlFlow<SqlError> {
    node.visit(&mut Reading(pass))
}

/// Changes a node and all below it with a pass.
pub(crate) fn walk_mut(
    node: &mut impl VisitMut,
    pass: &mut dyn VisitorMut<Break = SqlError>,
) -> ControlFlow<SqlError> {
    node.visit(&mut Changing(pass))
}

/// Changes a statement of any kind with a pass.
pub(crate) fn walk_statement_mut(
    statement: &mut Statement,
    pass: &mut dyn VisitorMut<Break = SqlError>,
) -> Result<(), SqlError> {
    let flow = match statement {
        Statement::Statement(statement) => walk_mut(statement, pass),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk_mut(query, pass),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return walk_statement_mut(&mut explain.statement, pass),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Reading<'p>(&'p mut dyn Visitor<Break = SqlError>);

struct Changing<'p>(&'p mut dyn VisitorMut<Break = SqlError>);

macro_rules! forward {
    ($($method:ident($node:ty)),* $(,)?) => {
        $(fn $method(&mut self, node: $node) -> ControlFlow<SqlError> {
            self.0.$method(node)
        })*
    };
}

impl Visitor for Reading<'_> {
    type Break = SqlError;

    forward! {
        pre_visit_query(&Query),
        post_visit_query(&Query),
        pre_visit_select(&Select),
        post_visit_select(&Select),
        pre_visit_relation(&ObjectName),
        post_visit_relation(&ObjectName),
        pre_visit_table_factor(&TableFactor),
        post_visit_table_factor(&TableFactor),
        pre_visit_expr(&Expr),
        post_visit_expr(&Expr),
        pre_visit_statement(&SqlStatement),
        post_visit_statement(&SqlStatement),
        pre_visit_value(&ValueWithSpan),
        post_visit_value(&ValueWithSpan),
    }
}

impl VisitorMut for Changing<'_> {
    type Break = SqlError;

    forward! {
        pre_visit_query(&mut Query),
        post_visit_query(&mut Query),
        pre_visit_select(&mut Select),
        post_visit_select(&mut Select),
        pre_visit_relation(&mut ObjectName),
        post_visit_relation(&mut ObjectName),
        pre_visit_table_factor(&mut TableFactor),
        post_visit_table_factor(&mut TableFactor),
        pre_visit_expr(&mut Expr),
        post_visit_expr(&mut Expr),
        pre_visit_statement(&mut SqlStatement),
        post_visit_statement(&mut SqlStatement),
        pre_visit_value(&mut ValueWithSpan),
        post_visit_value(&mut ValueWithSpan),
    }
}
