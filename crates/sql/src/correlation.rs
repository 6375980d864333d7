//! Plans EXISTS with outer columns in select lists, and refuses correlated subqueries that DataFusion would plan wrongly.
//!
//! ```text
//! SELECT a, EXISTS (SELECT 1 FROM u WHERE u.b = t.a) AS found FROM t
//!
//! before: Projection: t.a, EXISTS (…) AS found     after: Projection: t.a, __mark_1.mark AS found
//!           TableScan: t                                    LeftMark Join: __mark_1.c0 = t.a
//!           subquery: Filter: u.b = outer_ref(t.a)            TableScan: t
//!                       TableScan: u                          SubqueryAlias: __mark_1
//!                                                               Projection: u.b AS c0
//!                                                                 TableScan: u
//! ```
//!
//! DataFusion 55 plans correlated subqueries as joins: it moves the conditions on outer columns from the subquery into
//! the join. This is correct only if the condition may be applied after every operator above it in the subquery.
//! DataFusion does not check this for window functions, UNION, unnest, the nullable side of an outer join, and LIMIT and
//! OFFSET under EXISTS. [`check`] refuses outer columns under these operators; a LIMIT without OFFSET at the top of a
//! query is allowed.
//!
//! DataFusion plans such joins for WHERE conditions only. [`marked`] plans EXISTS in select lists by a mark join. The
//! mark join adds a boolean column: whether the subquery has a row.

use std::collections::BTreeSet;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, Result as DataFusionResult};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, LogicalPlanBuilder, lit, not};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use crate::SqlError;
use crate::error::state;

/// Returns true if a query uses columns of an outer query.
pub(crate) fn is_correlated(query: &LogicalPlan) -> bool {
    !query.all_out_ref_exprs().is_empty()
}

/// Returns true if a query returns exactly one row for any tables: an aggregate without GROUP BY, or a SELECT without
/// FROM.
pub(crate) fn of_one_row(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Projection(node) => of_one_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => of_one_row(&node.input),
        LogicalPlan::Sort(node) => node.fetch.is_none() && of_one_row(&node.input),
        LogicalPlan::Aggregate(node) => node.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(node) => node.produce_one_row,
        _ => false,
    }
}

/// Refuses a correlated query that would be planned as something else.
pub(crate) fn check(query: &LogicalPlan) -> DataFusionResult<()> {
    check_below(query, true)
}

/// `is_top`: nothing above chooses among the rows.
fn check_below(query: &LogicalPlan, is_top: bool) -> DataFusionResult<()> {
    if !is_correlated(query) {
        return Ok(());
    }
    match query {
        LogicalPlan::Window(_) => return Err(refused("under a window function")),
        LogicalPlan::Union(_) => return Err(refused("under UNION")),
        LogicalPlan::Unnest(_) => return Err(refused("under unnest")),
        LogicalPlan::Limit(limit) if !is_top || has_offset(limit) => {
            return Err(refused("under LIMIT or OFFSET"));
        }
        LogicalPlan::Join(join) => {
            let sides = match join.join_type {
                JoinType::Left => [None, Some(&join.right)],
                JoinType::Right => [Some(&join.left), None],
                JoinType::Full => [Some(&join.left), Some(&join.right)],
                _ => [None, None],
            };
            if sides.into_iter().flatten().any(|side| is_correlated(side)) {
                return Err(refused("under an outer join"));
            }
        }
        _ => {}
    }
    let is_top = is_top
        && matches!(query, LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Sort(_));
    query.inputs().into_iter().try_for_each(|input| check_below(input, is_top))
}

fn has_offset(limit: &Limit) -> bool {
    limit.skip.as_ref().is_some_and(|skip| **skip != lit(0_i64))
}

fn refused(place: &str) -> datafusion::common::DataFusionError {
    let message = format!("not supported: a column of the outer query {place} in a subquery");
    let hint = "Write the subquery as a join, with that condition in ON.";
    SqlError::invalid(message).with_state(state::NOT_SUPPORTED).with_hint(hint).into()
}

/// Plans EXISTS with outer columns where DataFusion does not: in lists of columns.
pub(crate) fn marked(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let mut marks = 0;
    Ok(plan.transform_up_with_subqueries(|node| in_node(node, &mut marks)).data()?)
}

fn in_node(node: LogicalPlan, marks: &mut usize) -> DataFusionResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = node else { return Ok(Transformed::no(node)) };
    let is_exists = |expr: &Expr| Ok(matches!(expr, Expr::Exists(_)));
    if !projection.expr.iter().any(|expr| expr.exists(is_exists).unwrap_or(false)) {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let mut input = projection.input.as_ref().clone();
    let names = NamePreserver::new_for_projection();
    let mut columns = Vec::with_capacity(projection.expr.len());
    for expr in projection.expr {
        let name = names.save(&expr);
        let marked = expr.transform(|expr| match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                *marks += 1;
                let (marked, mark) = mark(input.clone(), &subquery.subquery, *marks)?;
                input = marked;
                Ok(Transformed::yes(if negated { not(mark) } else { mark }))
            }
            other => Ok(Transformed::no(other)),
        });
        columns.push(name.restore(marked.data()?));
    }
    Ok(Transformed::yes(LogicalPlanBuilder::from(input).project(columns)?.build()?))
}

/// The column of the query around that an expression is, if it is one.
pub(crate) fn outer_column(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::OuterReferenceColumn(_, column) => Some(column.clone()),
        _ => None,
    }
}

/// The input with a column that is true if the query has rows, and that column.
fn mark(input: LogicalPlan, query: &LogicalPlan, number: usize) -> DataFusionResult<(LogicalPlan, Expr)> {
    let mut pulled = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
    let query = query.clone().rewrite(&mut pulled).data()?;
    if !pulled.can_pull_up {
        return Err(refused("in such a place"));
    }
    let alias = format!("__mark_{number}");
    let inner: BTreeSet<&Column> = pulled.correlated_subquery_cols_map.values().flatten().collect();
    let on = conjunction(pulled.join_filters).unwrap_or_else(|| lit(true));
    // Its columns may have the names of others, so they get new ones.
    let mut wanted = Vec::new();
    let on = on.transform(|expr| match expr {
        Expr::Column(column) if inner.contains(&column) => {
            let name = format!("c{}", wanted.len());
            wanted.push(Expr::Column(exposed(&query, column)?).alias(&name));
            Ok(Transformed::yes(Expr::Column(Column::new(Some(alias.as_str()), name))))
        }
        other => Ok(Transformed::no(other)),
    });
    let on = on.data()?;
    if wanted.is_empty() {
        wanted.push(lit(true).alias("c0"));
    }
    let query = LogicalPlanBuilder::from(query).project(wanted)?.alias(alias.as_str())?.build()?;
    let marked = LogicalPlanBuilder::from(input).join_on(query, JoinType::LeftMark, Some(on))?.build()?;
    Ok((marked, Expr::Column(Column::new(Some(alias), "mark"))))
}

/// The column of a query that was a column of a table within it.
fn exposed(query: &LogicalPlan, column: Column) -> DataFusionResult<Column> {
    if query.schema().has_column(&column) {
        return Ok(column);
    }
    match query.schema().qualified_fields_with_unqualified_name(&column.name).as_slice() {
        [one] => Ok(Column::from(*one)),
        _ => Err(refused("in such a place")),
    }
}
