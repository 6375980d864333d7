//! Aggregates over distinct values, each set of values apart: for [`Aim::Memory`](crate::session::Aim).
//!
//! DataFusion keeps the values of a `COUNT(DISTINCT x)` in memory, a set for each group, which does not spill. Groups do. It makes
//! groups of the values itself where a statement has but one set of them and nothing else but sums and extremes
//! (`single_distinct_aggregation_to_group_by`); here is what it leaves:
//!
//! ```text
//! SELECT g, count(*), count(DISTINCT x), sum(DISTINCT y) FROM t GROUP BY g
//!
//! SELECT g, first_value(a) FILTER (WHERE branch = 0), first_value(b) FILTER (WHERE branch = 1), …
//! FROM (SELECT g, 0 AS branch, count(*) AS a, NULL AS b, NULL AS c FROM t GROUP BY g
//!       UNION ALL SELECT g, 1, NULL, count(x), NULL FROM (SELECT g, x FROM t GROUP BY g, x) GROUP BY g
//!       UNION ALL SELECT g, 2, NULL, NULL, sum(y) FROM (SELECT g, y FROM t GROUP BY g, y) GROUP BY g)
//! GROUP BY g
//! ```
//!
//! The input is run once for each set and once for the rest, so it must be the same each time: where it has a LIMIT, a window, a
//! function that is not the same each time, or anything else that may depend on the order of rows, nothing is changed.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result, ScalarValue};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{self, Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// What passes over nulls, and is the same whether it meets each value once or sees to that itself.
const FUNCTIONS: [&str; 5] = ["count", "sum", "avg", "min", "max"];
/// Which of the plans that are put together a row is from.
const BRANCH: &str = "__branch";

/// The rule.
#[derive(Debug)]
pub(crate) struct DistinctApart;

impl OptimizerRule for DistinctApart {
    fn name(&self) -> &str {
        "distinct_apart"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>, DataFusionError> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        Ok(apart(aggregate)?.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// An aggregate over distinct values.
struct Distinct {
    /// What it is of; null where the aggregate's filter leaves a row out.
    value: Expr,
    /// The aggregate as it is over values that are distinct.
    function: AggregateFunction,
}

fn distinct(expr: &Expr) -> Result<Option<Distinct>> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr.clone().unalias() else {
        return Ok(None);
    };
    let AggregateFunctionParams { mut args, distinct, filter, order_by, null_treatment } = params;
    let (true, [], None, true) = (distinct, &*order_by, null_treatment, FUNCTIONS.contains(&func.name()))
    else {
        return Ok(None);
    };
    let (Some(value), true) = (args.pop(), args.is_empty()) else { return Ok(None) };
    let value = match filter {
        Some(filter) => when(*filter, value).end()?,
        None => value,
    };
    let function = AggregateFunction::new_udf(func, Vec::new(), false, None, Vec::new(), None);
    Ok(Some(Distinct { value, function }))
}

/// A plan whose columns go on under other names.
struct Branch {
    plan: LogicalPlan,
    /// By the number of an aggregate.
    gives: Vec<(usize, Expr)>,
}

fn apart(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let groups = group_expr.len();
    if schema.fields().len() != groups + aggr_expr.len()
        || group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)))
    {
        return Ok(None);
    }
    let found = aggr_expr.iter().map(distinct).collect::<Result<Vec<_>>>()?;
    if found.iter().all(Option::is_none) || !is_the_same_each_time(input, group_expr)? {
        return Ok(None);
    }
    let group_names: Vec<String> = (0..groups).map(|group| format!("__group_{group}")).collect();
    let grouped = || group_expr.iter().zip(&group_names).map(|(expr, name)| expr.clone().alias(name));
    let group_columns = || group_names.iter().map(|name| Expr::Column(Column::from_name(name)));

    let mut branches: Vec<Branch> = Vec::new();
    let rest: Vec<usize> = (0..aggr_expr.len()).filter(|number| found[*number].is_none()).collect();
    if !rest.is_empty() {
        let named = rest.iter().map(|number| aggr_expr[*number].clone().unalias().alias(name(*number)));
        let plan = group(input.as_ref().clone(), grouped().collect(), named.collect())?;
        let gives = rest.iter().map(|number| (*number, Expr::Column(Column::from_name(name(*number)))));
        branches.push(Branch { plan, gives: gives.collect() });
    }
    let mut values: Vec<&Expr> = found.iter().flatten().map(|distinct| &distinct.value).collect();
    let mut seen: Vec<&Expr> = Vec::new();
    values.retain(|value| {
        !seen.contains(value) && {
            seen.push(value);
            true
        }
    });
    for value in values {
        let once = grouped().chain([value.clone().alias("__value")]).collect();
        let once = group(input.as_ref().clone(), once, Vec::new())?;
        let of_value = found.iter().enumerate().filter_map(|(number, found)| {
            let found = found.as_ref().filter(|found| found.value == *value)?;
            let mut function = found.function.clone();
            function.params.args = vec![Expr::Column(Column::from_name("__value"))];
            Some((number, Expr::AggregateFunction(function)))
        });
        let of_value: Vec<(usize, Expr)> = of_value.collect();
        let named = of_value.iter().map(|(number, function)| function.clone().alias(name(*number)));
        let plan = group(once, group_columns().collect(), named.collect())?;
        let gives =
            of_value.iter().map(|(number, _)| (*number, Expr::Column(Column::from_name(name(*number)))));
        branches.push(Branch { plan, gives: gives.collect() });
    }

    let mut from = vec![0; aggr_expr.len()];
    let mut all: Option<LogicalPlanBuilder> = None;
    for (branch, number) in branches.into_iter().zip(0_i32..) {
        let mut columns: Vec<Expr> = group_columns().collect();
        columns.push(lit(number).alias(BRANCH));
        for (aggregate, from) in from.iter_mut().enumerate() {
            let given = branch.gives.iter().find(|(given, _)| *given == aggregate);
            columns.push(match given {
                Some((_, expr)) => {
                    *from = number;
                    expr.clone()
                }
                None => {
                    let none = ScalarValue::try_new_null(schema.field(groups + aggregate).data_type())?;
                    Expr::Literal(none, None).alias(name(aggregate))
                }
            });
        }
        let plan = LogicalPlanBuilder::new(branch.plan).project(columns)?;
        all = Some(match all {
            Some(all) => all.union(plan.build()?)?,
            None => plan,
        });
    }
    let Some(all) = all else { return Ok(None) };

    let firsts = from.iter().enumerate().map(|(number, from)| {
        let column = Expr::Column(Column::from_name(name(number)));
        let filter = Expr::Column(Column::from_name(BRANCH)).eq(lit(*from));
        let first = AggregateFunction::new_udf(
            first_value_udaf(),
            vec![column],
            false,
            Some(Box::new(filter)),
            vec![],
            None,
        );
        Expr::AggregateFunction(first).alias(name(number))
    });
    let plan = group(all.build()?, group_columns().collect(), firsts.collect())?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (number, (qualifier, field)) in schema.iter().enumerate() {
        let column = match number.checked_sub(groups) {
            None => Expr::Column(Column::from_name(&group_names[number])),
            Some(number) => {
                let first = Expr::Column(Column::from_name(name(number)));
                if field.is_nullable() {
                    first
                } else {
                    // A count; it is there in each group, which nobody can tell of a first value.
                    let Ok(zero) = ScalarValue::new_zero(field.data_type()) else { return Ok(None) };
                    coalesce(vec![first, Expr::Literal(zero, None)])
                }
            }
        };
        columns.push(column.alias_qualified(qualifier.cloned(), field.name()));
    }
    LogicalPlanBuilder::new(plan).project(columns)?.build().map(Some)
}

fn name(number: usize) -> String {
    format!("__aggregate_{number}")
}

fn group(input: LogicalPlan, groups: Vec<Expr>, aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?))
}

/// Whether a plan gives the same rows, in any order, each time it is run.
fn is_the_same_each_time(plan: &LogicalPlan, group_expr: &[Expr]) -> Result<bool> {
    let mut is_same = !group_expr.iter().any(Expr::is_volatile);
    plan.apply_with_subqueries(|node| {
        is_same &= match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::Distinct(logical_expr::Distinct::All(_)) => true,
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.is_empty(),
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            _ => false,
        };
        if let LogicalPlan::TableScan(scan) = node {
            // What a recursive query has so far may be read in one place only.
            let is_recursive = source_as_provider(&scan.source)?.downcast_ref::<CteWorkTable>().is_some();
            is_same &= scan.fetch.is_none() && !is_recursive;
        }
        is_same &= !node.expressions().iter().any(Expr::is_volatile);
        Ok(if is_same { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_same)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// What a statement gives, row by row, in no order; and how often its plan reads `t`.
    async fn answer(context: &SessionContext, text: &str) -> (Vec<String>, usize) {
        let frame = context.sql(text).await.unwrap();
        let plan = frame.clone().into_optimized_plan().unwrap();
        let scans = plan.display_indent().to_string().matches("TableScan: t").count();
        let rows = pretty_format_batches(&frame.collect().await.unwrap()).unwrap().to_string();
        let mut rows: Vec<String> = rows.lines().map(str::to_owned).collect();
        rows.sort_unstable();
        (rows, scans)
    }

    async fn contexts() -> [SessionContext; 2] {
        let rule = Arc::new(DistinctApart);
        let plain = SessionContext::new();
        let state = SessionStateBuilder::new().with_default_features().with_optimizer_rule(rule).build();
        let contexts = [plain, SessionContext::new_with_state(state)];
        for context in &contexts {
            let made = "CREATE TABLE t AS SELECT \
                 CASE value % 5 WHEN 0 THEN NULL ELSE concat('g', value % 4) END AS g, \
                 CASE value % 7 WHEN 0 THEN NULL ELSE value % 11 END AS x, value % 13 AS y, \
                 CASE value % 6 WHEN 0 THEN 'NaN'::double WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 ELSE value / 4.0 END AS f, \
                 make_array(value % 3) AS l, to_timestamp(value % 9) AS at, value % 2 = 0 AS even \
                 FROM range(0, 1000)";
            context.sql(made).await.unwrap().collect().await.unwrap();
        }
        contexts
    }

    #[tokio::test]
    async fn answers_are_the_same_and_values_are_grouped() {
        let [plain, apart] = contexts().await;
        for (text, scans) in [
            ("SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY g", 2),
            ("SELECT count(*), count(DISTINCT x), count(DISTINCT y) FROM t", 3),
            ("SELECT count(*) AS n, count(DISTINCT x) AS d FROM (SELECT * FROM t WHERE y < 0)", 2),
            ("SELECT g, count(DISTINCT x), count(DISTINCT y) FROM t WHERE x > 100 GROUP BY g", 2),
            ("SELECT count(DISTINCT x) FILTER (WHERE even), count(DISTINCT x), sum(DISTINCT x) FROM t", 2),
            ("SELECT f, count(DISTINCT g), avg(DISTINCT y), max(DISTINCT y), count(x) FROM t GROUP BY f", 4),
            ("SELECT l, at, count(DISTINCT f), count(DISTINCT l), stddev(y) FROM t GROUP BY l, at", 3),
            (
                "SELECT upper(g) AS g, x + 1, count(DISTINCT y % 3) + count(*) FROM t GROUP BY upper(g), x + 1",
                2,
            ),
            (
                "SELECT g FROM t GROUP BY g HAVING count(DISTINCT x) > 9 AND count(*) > 100 AND sum(DISTINCT y) > 5",
                3,
            ),
            (
                "SELECT a.g, count(DISTINCT b.x), count(*) FROM t a JOIN (SELECT DISTINCT x, even FROM t) b \
                 ON a.x = b.x AND a.even = b.even WHERE a.y IN (SELECT max(x) FROM t GROUP BY y) GROUP BY a.g",
                3,
            ),
            (
                "SELECT count(n), count(DISTINCT c) FROM (SELECT g, count(*) AS n, count(DISTINCT x) AS c FROM t GROUP BY g)",
                2,
            ),
            ("SELECT (SELECT count(DISTINCT x) + count(*) FROM t), count(DISTINCT y) FROM t", 3),
            ("SELECT g, array_agg(DISTINCT even ORDER BY even), count(DISTINCT x) FROM t GROUP BY g", 2),
        ] {
            let (expected, before) = answer(&plain, text).await;
            let (rows, after) = answer(&apart, text).await;
            assert_eq!(rows, expected, "{text}");
            assert_eq!(after, scans, "{text}: {before} before");
        }
    }

    #[tokio::test]
    async fn what_may_not_be_the_same_each_time_is_read_once() {
        let [_, apart] = contexts().await;
        for from in [
            "(SELECT * FROM t LIMIT 10)",
            "(SELECT * FROM t ORDER BY f LIMIT 10)",
            "(SELECT *, random() AS r FROM t) WHERE r < 0.5",
            "(SELECT *, row_number() OVER (PARTITION BY g) AS r FROM t) WHERE r < 3",
            "(SELECT DISTINCT ON (g) * FROM t)",
            "(SELECT first_value(x) AS x, g FROM t GROUP BY g)",
        ] {
            let text = format!("SELECT g, count(*), count(DISTINCT x) FROM {from} GROUP BY g");
            assert_eq!(answer(&apart, &text).await.1, 1, "{from}");
        }
        let recursive = "WITH RECURSIVE r(n, c) AS (SELECT 1 AS n, 1 AS c UNION ALL SELECT max(n) + 1, count(DISTINCT c) FROM r HAVING max(n) < 10) \
             SELECT count(*) FROM r";
        assert!(answer(&apart, recursive).await.0.contains(&"| 10       |".to_owned()));
        let text = "SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY ROLLUP (g)";
        assert_eq!(answer(&apart, text).await.1, 1);
    }
}
