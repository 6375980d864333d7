//! Plans `x IN (query)`, `x NOT IN (query)` and `x < ANY (query)` in the three-valued logic of the SQL standard.
//!
//! With `y` as the column of the query:
//!
//! ```text
//! x = ANY (query)   CASE WHEN EXISTS (query WHERE y = x) THEN true
//!                        WHEN x IS NULL AND EXISTS (query) OR EXISTS (query WHERE y IS NULL) THEN NULL
//!                        ELSE false END
//! x NOT IN (query)  NOT (x = ANY (query)), and x <> ALL (query) is the same
//! ```
//!
//! The growth of a plan by copied queries is bounded ([`COPIED_OPERATORS_MAX`], [`COPIES_MAX`]).
//!
//! In a condition of WHERE that must be true, the unknown is as good as false, and no CASE is needed: the first EXISTS is a join, and
//! the others, unless the query is correlated, are computed once. The query is read up to three times; one that gives other rows each
//! time (`LIMIT` without `ORDER BY`, `random()`) is no good operand.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, Result as DataFusionResult, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
    not,
};

use crate::correlation::{check, is_correlated, of_one_row, outer_column};
use crate::error::state;
use crate::standard_forms::{ROW, ROWS};
use crate::{ErrorKind, SqlError};

/// A plan may grow by its copied queries to so many operators, and [`COPIES_MAX`] for each that it had: a nested comparison with three
/// values quadruples its plan with each level.
const COPIED_OPERATORS_MAX: usize = 256;
const COPIES_MAX: usize = 8;

/// Plans all comparisons with queries of a statement as what they mean.
pub(crate) fn in_three_values(plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let operators_max = COPIED_OPERATORS_MAX + COPIES_MAX * operators(&plan, usize::MAX)?;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let node = in_node(node)?;
        if node.transformed && operators(&node.data, operators_max)? > operators_max {
            let message = "comparisons with queries are nested so deep that their plan is too large";
            let hint = "Write x NOT IN (SELECT y FROM t) as NOT EXISTS (SELECT 1 FROM t WHERE y = x), or write the inner query's \
                        rows into a table first.";
            return Err(SqlError::new(ErrorKind::Limit, format!("{message}; the limit is {operators_max} operators"))
                .with_hint(hint)
                .into());
        }
        Ok(node)
    });
    Ok(rewritten.data()?)
}

/// Number of operators of a plan, its subqueries included; counting stops shortly after the limit.
fn operators(plan: &LogicalPlan, limit: usize) -> DataFusionResult<usize> {
    let mut count = 0;
    plan.apply_with_subqueries(|_| {
        count += 1;
        Ok(if count > limit { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(count)
}

fn in_node(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    if !node.expressions().iter().any(has_query) {
        return Ok(Transformed::no(node));
    }
    match node {
        LogicalPlan::Filter(filter) => {
            let mut conditions = Vec::new();
            for condition in split_conjunction_owned(filter.predicate) {
                conditions.extend(in_condition(condition, &filter.input)?);
            }
            let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        LogicalPlan::Projection(_) => in_columns(node),
        other => before(other),
    }
}

fn in_columns(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let mut expr = in_expr(expr, &inputs)?;
        expr.data = name.restore(expr.data);
        Ok(expr)
    })
}

/// Computes the comparisons of a sort, a window, a grouping or a join as columns of its input.
fn before(node: LogicalPlan) -> DataFusionResult<Transformed<LogicalPlan>> {
    let columns = node.schema().columns();
    let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    let mut computed: Vec<Vec<Expr>> = vec![Vec::new(); inputs.len()];
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let expr = expr.transform_down(|expr| {
            if !matches!(expr, Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_)) {
                return Ok(Transformed::no(expr));
            }
            let used = used_columns(&expr);
            let of = |input: &LogicalPlan| used.iter().all(|column| input.schema().has_column(column));
            let Some(input) = inputs.iter().position(of) else {
                let message = "not supported: a subquery in ON that uses columns of both sides of the join";
                let hint = "Write the condition in WHERE.";
                return Err(SqlError::invalid(message)
                    .with_state(state::NOT_SUPPORTED)
                    .with_hint(hint)
                    .into());
            };
            let name = format!("{VALUE}_{input}_{}", computed[input].len());
            computed[input].push(expr.alias(&name));
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        });
        exprs.push(name.restore(expr.data()?));
    }
    if computed.iter().all(Vec::is_empty) {
        return in_columns(node);
    }
    let inputs = inputs.into_iter().zip(computed).map(|(input, computed)| {
        if computed.is_empty() {
            return Ok(input);
        }
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let all = columns.chain(computed).collect::<Vec<_>>();
        in_columns(LogicalPlanBuilder::from(input).project(all)?.build()?).data()
    });
    let inputs = inputs.collect::<DataFusionResult<Vec<_>>>()?;
    let node = in_columns(node.with_new_exprs(exprs, inputs)?)?.data;
    if node.schema().columns() == columns {
        return Ok(Transformed::yes(node));
    }
    let columns = columns.into_iter().map(Expr::Column);
    Ok(Transformed::yes(LogicalPlanBuilder::from(node).project(columns)?.build()?))
}

/// The columns of the query around a comparison that it uses.
fn used_columns(expr: &Expr) -> HashSet<Column> {
    let (operand, query) = match expr {
        Expr::InSubquery(InSubquery { expr, subquery, .. })
        | Expr::SetComparison(SetComparison { expr, subquery, .. }) => (Some(expr), subquery),
        Expr::Exists(Exists { subquery, .. }) => (None, subquery),
        _ => return HashSet::new(),
    };
    let mut used: HashSet<Column> = query.outer_ref_columns.iter().filter_map(outer_column).collect();
    used.extend(operand.iter().flat_map(|operand| operand.column_refs()).cloned());
    used
}

fn has_query(expr: &Expr) -> bool {
    let is_query = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::Exists(_) | Expr::ScalarSubquery(_)
        ))
    };
    expr.exists(is_query).unwrap_or(false)
}

/// A condition that must be true: the conditions that must all be.
fn in_condition(condition: Expr, input: &Arc<LogicalPlan>) -> DataFusionResult<Vec<Expr>> {
    let inputs = std::slice::from_ref(input.as_ref());
    match Membership::of(condition)? {
        Ok((comparison, true)) => match comparison.with_the_only_row() {
            Some(comparison) => Ok(vec![comparison]),
            None => comparison.is_found(inputs).map(|found| vec![found]),
        },
        Ok((comparison, false)) => comparison.is_never_found(inputs),
        Err(other) => Ok(vec![in_expr(other, inputs)?.data]),
    }
}

/// An expression whose value counts, nulls too.
fn in_expr(expr: Expr, inputs: &[LogicalPlan]) -> DataFusionResult<Transformed<Expr>> {
    expr.transform_up(|expr| match Membership::of(expr)? {
        Ok((comparison, true)) => comparison.value(inputs).map(Transformed::yes),
        Ok((comparison, false)) => comparison.value(inputs).map(|value| Transformed::yes(not(value))),
        Err(Expr::Exists(Exists { subquery, negated })) => {
            let found = exists(subquery)?;
            Ok(Transformed::yes(if negated { not(found) } else { found }))
        }
        Err(Expr::ScalarSubquery(subquery)) => {
            check(&subquery.subquery)?;
            Ok(Transformed::no(Expr::ScalarSubquery(subquery)))
        }
        Err(other) => Ok(Transformed::no(other)),
    })
}

/// The beginning of the names of a query's columns, and of what is computed before a node.
const VALUE: &str = "__value";

/// A column of a query among whose rows something is looked for.
fn column(place: usize) -> Expr {
    Expr::Column(Column::new_unqualified(format!("{VALUE}_{place}")))
}

/// The elements of a row that `standard_forms` made; else the value.
fn elements(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::ScalarFunction(function) if function.name() == ROW => {
            function.args.iter().skip(1).step_by(2).cloned().collect()
        }
        Expr::Alias(alias) => elements(&alias.expr),
        other => vec![other.clone()],
    }
}

/// `operand = ANY (query)`, with any comparison in the place of `=`.
struct Membership {
    operand: Expr,
    comparison: Operator,
    query: Subquery,
}

impl Membership {
    /// The comparison that an expression is, and whether it or its contrary; else the expression.
    fn of(expr: Expr) -> DataFusionResult<Result<(Membership, bool), Expr>> {
        Ok(match expr {
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let membership = Membership { operand: *expr, comparison: Operator::Eq, query: subquery };
                Ok((membership, !negated))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                match (quantifier, op.negate()) {
                    (SetQuantifier::Any, Some(_)) => {
                        Ok((Membership { operand: *expr, comparison: op, query: subquery }, true))
                    }
                    // All compare so if none compares otherwise.
                    (SetQuantifier::All, Some(contrary)) => {
                        Ok((Membership { operand: *expr, comparison: contrary, query: subquery }, false))
                    }
                    (_, None) => {
                        let message = format!("not supported: `{op}` with ANY or ALL of a query");
                        return Err(SqlError::invalid(message).with_state(state::NOT_SUPPORTED).into());
                    }
                }
            }
            Expr::Not(inner) if matches!(*inner, Expr::InSubquery(_) | Expr::SetComparison(_)) => {
                Membership::of(*inner)?.map(|(membership, is_itself)| (membership, !is_itself))
            }
            other => Err(other),
        })
    }

    /// The values that the operand is compared with, one for each element of a row, and the plan that has them.
    fn values(&self) -> (Vec<Expr>, LogicalPlan) {
        let query = self.query.subquery.as_ref();
        let column =
            |query: &LogicalPlan, place| Expr::Column(Column::from(query.schema().qualified_field(place)));
        if let LogicalPlan::Projection(projection) = query
            && let LogicalPlan::SubqueryAlias(rows) = projection.input.as_ref()
            && rows.alias.table() == ROWS
        {
            // DataFusion loses outer columns below an alias with a condition right above it.
            let rows = rows.input.as_ref();
            return (
                (0..rows.schema().fields().len()).map(|place| column(rows, place)).collect(),
                rows.clone(),
            );
        }
        (vec![column(query, 0)], query.clone())
    }

    /// The query's rows for which a condition on each [`column`] is true. The columns get names that nothing else has: the operand
    /// may be a column of the same table.
    fn rows_where(&self, condition: impl Fn(usize) -> DataFusionResult<Expr>) -> DataFusionResult<Subquery> {
        let (values, plan) = self.values();
        let conditions = (0..values.len()).map(condition).collect::<DataFusionResult<Vec<_>>>()?;
        let named =
            values.into_iter().enumerate().map(|(place, value)| value.alias(format!("{VALUE}_{place}")));
        let plan = LogicalPlanBuilder::from(plan)
            .project(named)?
            .filter(conjunction(conditions).unwrap_or_else(|| lit(true)))?
            .build()?;
        Ok(Subquery {
            outer_ref_columns: plan.all_out_ref_exprs(),
            subquery: Arc::new(plan),
            spans: self.query.spans.clone(),
        })
    }

    /// The comparisons of each element.
    fn comparison(&self, inputs: &[LogicalPlan]) -> impl Fn(usize) -> DataFusionResult<Expr> {
        let operands = elements(&self.operand);
        move |place| {
            let operand = operands.get(place).cloned().ok_or_else(|| {
                SqlError::invalid(format!(
                    "a row of {} elements is compared with longer ones",
                    operands.len()
                ))
            })?;
            Ok(compared(outer(operand, inputs)?, self.comparison, column(place)))
        }
    }

    /// The condition that the comparison is true for some row; nulls do not match.
    fn is_found(&self, inputs: &[LogicalPlan]) -> DataFusionResult<Expr> {
        exists(self.rows_where(self.comparison(inputs))?)
    }

    /// The conditions under which the comparison with some row is unknown, each by itself.
    fn are_unknown(&self, inputs: &[LogicalPlan]) -> DataFusionResult<Vec<Expr>> {
        if self.values().0.len() > 1 {
            let comparison = self.comparison(inputs);
            let not_false = |place| Ok(Expr::IsNotFalse(Box::new(comparison(place)?)));
            return Ok(vec![exists(self.rows_where(not_false)?)?]);
        }
        let mut unknown = Vec::new();
        if is_nullable(&self.operand, inputs)? {
            unknown.push(self.operand.clone().is_null().and(exists(self.query.clone())?));
        }
        if self.query.subquery.schema().field(0).is_nullable() {
            unknown.push(exists(self.rows_where(|place| Ok(column(place).is_null()))?)?);
        }
        Ok(unknown)
    }

    /// The conditions under which it is certain that no row compares so.
    fn is_never_found(&self, inputs: &[LogicalPlan]) -> DataFusionResult<Vec<Expr>> {
        if let Some(comparison) = self.with_the_only_row() {
            return Ok(vec![not(comparison)]);
        }
        let mut conditions = vec![not(self.is_found(inputs)?)];
        conditions.extend(self.are_unknown(inputs)?.into_iter().map(not));
        Ok(conditions)
    }

    /// The value of the membership test: true if the comparison holds for some row, null if that is unknown.
    fn value(&self, inputs: &[LogicalPlan]) -> DataFusionResult<Expr> {
        if let Some(comparison) = self.with_the_only_row() {
            return Ok(comparison);
        }
        let found = self.is_found(inputs)?;
        let Some(unknown) = self.are_unknown(inputs)?.into_iter().reduce(Expr::or) else {
            return Ok(found);
        };
        let null = Expr::Literal(ScalarValue::Boolean(None), None);
        let when_then_expr =
            vec![(Box::new(found), Box::new(lit(true))), (Box::new(unknown), Box::new(null))];
        Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(lit(false))) }))
    }

    /// A query that has one row always, as a sum of all rows, is compared as a value: its row would be lost in a join.
    fn with_the_only_row(&self) -> Option<Expr> {
        let is_value = of_one_row(&self.query.subquery) && is_correlated(&self.query.subquery);
        is_value.then(|| {
            compared(self.operand.clone(), self.comparison, Expr::ScalarSubquery(self.query.clone()))
        })
    }
}

fn compared(left: Expr, comparison: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), comparison, Box::new(right)))
}

fn is_nullable(expr: &Expr, inputs: &[LogicalPlan]) -> DataFusionResult<bool> {
    // The columns may be of any of a join's inputs.
    for input in inputs {
        if expr.column_refs().into_iter().all(|column| input.schema().has_column(column)) {
            return expr.nullable(input.schema().as_ref());
        }
    }
    Ok(true)
}

/// The condition that a query has rows. One that does not depend on the outer query is asked once, for one row.
fn exists(query: Subquery) -> DataFusionResult<Expr> {
    if of_one_row(&query.subquery) {
        return Ok(lit(true));
    }
    if is_correlated(&query.subquery) {
        check(&query.subquery)?;
        return Ok(Expr::Exists(Exists { subquery: query, negated: false }));
    }
    let rows = LogicalPlanBuilder::from(query.subquery.as_ref().clone())
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64))])?
        .build()?;
    let rows = Subquery { subquery: Arc::new(rows), outer_ref_columns: Vec::new(), spans: query.spans };
    Ok(Expr::ScalarSubquery(rows).gt(lit(0_i64)))
}

/// The expression as it stands within a subquery.
fn outer(expr: Expr, inputs: &[LogicalPlan]) -> DataFusionResult<Expr> {
    let outer = expr.transform(|expr| match expr {
        Expr::Column(column) => {
            let field = inputs.iter().find_map(|input| input.schema().field_from_column(&column).ok());
            match field {
                Some(field) => Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column))),
                None => Ok(Transformed::no(Expr::Column(column))),
            }
        }
        Expr::OuterReferenceColumn(_, column) => {
            let message = format!(
                "not supported: `{}`, a column of a query two levels out, compared with the rows of a query",
                column.name
            );
            let hint = "Write the inner query as a join.";
            Err(SqlError::invalid(message).with_state(state::NOT_SUPPORTED).with_hint(hint).into())
        }
        Expr::ScalarSubquery(query) if is_correlated(&query.subquery) => {
            let message =
                "not supported: a subquery with columns of the outer query, compared with the rows of another";
            let hint = "Compute it in a subquery in FROM.";
            Err(SqlError::invalid(message).with_state(state::NOT_SUPPORTED).with_hint(hint).into())
        }
        other => Ok(Transformed::no(other)),
    });
    outer.data()
}
