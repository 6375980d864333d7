//! Rewrites aggregates over distinct values as GROUP BY, so that they spill to disk.
//!
//! If there is one set of distinct values, and the other aggregates can be merged from partial results, the rule reads
//! the input once. Before, and after:
//!
//! ```text
//! SELECT g, count(*), avg(y), count(DISTINCT x) FROM t GROUP BY g
//!
//! SELECT g, sum(a), sum(b) / sum(c), count(x)
//! FROM (SELECT g, x, count(*) AS a, sum(y) AS b, count(y) AS c FROM t GROUP BY g, x) GROUP BY g
//! ```
//!
//! Otherwise it computes each set of values in a branch of its own. Before, and after:
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
//! It uses branches for [`Aim::Memory`], and for groups with sets of texts whose input is cheap to read again.
//!
//! DataFusion stores the values of a `COUNT(DISTINCT x)` in memory, in one set for each group. These sets do not spill,
//! and they use more memory than their values need: 32 KiB for a set of texts, however few its values. Groups spill, and
//! use only the memory that their contents need. DataFusion's own rule `single_distinct_aggregation_to_group_by` makes
//! groups of the values in one case only. In that case, the statement has one set of values and otherwise only sums and
//! extremes. This rule covers the other cases.
//!
//! Branches run the input once for each set and once for the rest, so each run must return the same rows. The rule
//! changes nothing if the input has a LIMIT, a window or a volatile function. The same applies to anything else that may
//! depend on the order of rows.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    self, Aggregate, AggregateUDF, Expr, ExprSchemable as _, LogicalPlan, LogicalPlanBuilder, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::session::PlanGoal;
use crate::sums;

/// Functions that ignore nulls, and whose result with DISTINCT is that over distinct values.
const FUNCTIONS: [&str; 5] = ["count", "sum", "avg", "min", "max"];
/// Values that are distinct.
const VALUE: &str = "__value";
/// Column that names the branch of the union from which a row is.
const BRANCH: &str = "__branch";

/// The rule.
#[derive(Debug)]
pub(crate) struct DistinctRewrite(pub(crate) PlanGoal);

impl OptimizerRule for DistinctRewrite {
    fn name(&self) -> &str {
        "distinct_rewrite"
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
        let found = aggregate.aggr_expr.iter().map(distinct).collect::<Result<Vec<_>>>()?;
        let has_sets = aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
        if found.iter().all(Option::is_none) || has_sets {
            return Ok(Transformed::no(plan));
        }
        let changed = match in_one_pass(aggregate, &found)? {
            None if self.0 == PlanGoal::Memory || is_better_apart(aggregate, &found)? => {
                split_by_distinct(aggregate, &found)?
            }
            changed => changed,
        };
        Ok(changed.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// An aggregate over distinct values.
struct Distinct {
    /// The argument; null in the rows that the aggregate's filter excludes.
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

/// An aggregate that is computed from others over parts of its rows.
struct DecomposedAggregate {
    /// The aggregates over the rows of a part, and, under the same name, over all parts.
    parts: Vec<(String, Expr, Expr)>,
    /// The result, computed from the aggregates over all parts by their names.
    made: Expr,
}

fn of_parts(expr: &Expr, schema: &DFSchema, number: usize) -> Result<Option<DecomposedAggregate>> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr.clone().unalias() else {
        return Ok(None);
    };
    if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
        return Ok(None);
    }
    let part = |name: String, of_rows: Arc<AggregateUDF>, of_parts: Arc<AggregateUDF>| {
        let of_rows = AggregateFunction { func: of_rows, params: params.clone() };
        let of_parts =
            AggregateFunction::new_udf(of_parts, vec![column(&name)], false, None, Vec::new(), None);
        (name, Expr::AggregateFunction(of_rows), Expr::AggregateFunction(of_parts))
    };
    let whole = name(number);
    Ok(match func.name() {
        "count" => {
            Some(DecomposedAggregate { made: column(&whole), parts: vec![part(whole, func, sum_udaf())] })
        }
        "min" | "max" => Some(DecomposedAggregate {
            made: column(&whole),
            parts: vec![part(whole, Arc::clone(&func), func)],
        }),
        // A sum of rounded sums is another.
        "sum" | "avg" => match in_images(&func, &params.args, schema)? {
            Some((image, of_images)) => {
                Some(DecomposedAggregate { made: column(&whole), parts: vec![part(whole, image, of_images)] })
            }
            None if func.name() == "sum" => Some(DecomposedAggregate {
                made: column(&whole),
                parts: vec![part(whole, Arc::clone(&func), func)],
            }),
            None => None,
        },
        _ => None,
    })
}

/// The aggregate that returns the image of a sum over a part, and the one that merges images; none if the function has
/// no images.
fn in_images(
    function: &AggregateUDF,
    arguments: &[Expr],
    schema: &DFSchema,
) -> Result<Option<(Arc<AggregateUDF>, Arc<AggregateUDF>)>> {
    let [argument] = arguments else { return Ok(None) };
    let parts = sums::in_parts(function, &argument.get_type(schema)?);
    Ok(parts.map(|(image, of_images)| (Arc::new(image), Arc::new(of_images))))
}

/// Groups of the values and, in each, of the rest's parts: where there is one set of values, and the rest has parts.
fn in_one_pass(aggregate: &Aggregate, found: &[Option<Distinct>]) -> Result<Option<LogicalPlan>> {
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let mut values = found.iter().flatten().map(|distinct| &distinct.value);
    let Some(value) = values.next() else { return Ok(None) };
    if values.any(|other| other != value) {
        return Ok(None);
    }
    let (mut inner, mut outer, mut made) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (expr, found)) in aggr_expr.iter().zip(found).enumerate() {
        if let Some(Distinct { function, .. }) = found {
            outer.push(aggregate_over(function, VALUE).alias(name(number)));
            made.push(column(&name(number)));
        } else {
            let Some(of_parts) = of_parts(expr, input.schema(), number)? else { return Ok(None) };
            for (name, of_rows, of_parts) in of_parts.parts {
                inner.push(of_rows.alias(&name));
                outer.push(of_parts.alias(name));
            }
            made.push(of_parts.made);
        }
    }
    let groups = grouped(group_expr).chain([value.clone().alias(VALUE)]).collect();
    let plan = group(input.as_ref().clone(), groups, inner)?;
    let plan = group(plan, group_columns(group_expr).collect(), outer)?;
    named(plan, aggregate, made)
}

/// Returns true if sets of values are many and large, and their input is cheap to read again.
fn is_better_apart(aggregate: &Aggregate, found: &[Option<Distinct>]) -> Result<bool> {
    let mut has_texts = false;
    for Distinct { value, .. } in found.iter().flatten() {
        let ty = value.get_type(aggregate.input.schema())?;
        has_texts |= ty.is_string() || ty.is_binary();
    }
    let is_cheap = |plan: &LogicalPlan| -> Result<bool> {
        let costs = |node: &LogicalPlan| {
            let passes_on = matches!(
                node,
                LogicalPlan::Projection(_)
                    | LogicalPlan::Filter(_)
                    | LogicalPlan::TableScan(_)
                    | LogicalPlan::SubqueryAlias(_)
                    | LogicalPlan::Union(_)
            );
            Ok(!passes_on)
        };
        Ok(!plan.exists(costs)?)
    };
    Ok(has_texts && !aggregate.group_expr.is_empty() && is_cheap(&aggregate.input)?)
}

/// A plan whose columns go on under other names.
struct AggregateBranch {
    plan: LogicalPlan,
    /// The columns by the number of an aggregate.
    gives: Vec<(usize, Expr)>,
}

/// Splits an aggregate by its sets of distinct values, each a plan of its own, joined by group.
fn split_by_distinct(aggregate: &Aggregate, found: &[Option<Distinct>]) -> Result<Option<LogicalPlan>> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    if !is_the_same_each_time(input, group_expr)? {
        return Ok(None);
    }
    let mut branches: Vec<AggregateBranch> = Vec::new();
    let rest: Vec<usize> = (0..aggr_expr.len()).filter(|number| found[*number].is_none()).collect();
    if !rest.is_empty() {
        let named = rest.iter().map(|number| aggr_expr[*number].clone().unalias().alias(name(*number)));
        let plan = group(input.as_ref().clone(), grouped(group_expr).collect(), named.collect())?;
        let gives = rest.iter().map(|number| (*number, column(&name(*number))));
        branches.push(AggregateBranch { plan, gives: gives.collect() });
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
        let once = grouped(group_expr).chain([value.clone().alias(VALUE)]).collect();
        let once = group(input.as_ref().clone(), once, Vec::new())?;
        let of_value = found.iter().enumerate().filter_map(|(number, found)| {
            let found = found.as_ref().filter(|found| found.value == *value)?;
            Some((number, aggregate_over(&found.function, VALUE)))
        });
        let of_value: Vec<(usize, Expr)> = of_value.collect();
        let named = of_value.iter().map(|(number, function)| function.clone().alias(name(*number)));
        let plan = group(once, group_columns(group_expr).collect(), named.collect())?;
        let gives = of_value.iter().map(|(number, _)| (*number, column(&name(*number))));
        branches.push(AggregateBranch { plan, gives: gives.collect() });
    }

    let mut from = vec![0; aggr_expr.len()];
    let mut all: Option<LogicalPlanBuilder> = None;
    for (branch, number) in branches.into_iter().zip(0_i32..) {
        let mut columns: Vec<Expr> = group_columns(group_expr).collect();
        columns.push(lit(number).alias(BRANCH));
        for (aggregate, from) in from.iter_mut().enumerate() {
            let given = branch.gives.iter().find(|(given, _)| *given == aggregate);
            columns.push(match given {
                Some((_, expr)) => {
                    *from = number;
                    expr.clone()
                }
                None => {
                    let none =
                        ScalarValue::try_new_null(schema.field(group_expr.len() + aggregate).data_type())?;
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
        let filter = column(BRANCH).eq(lit(*from));
        let (first, args) = (first_value_udaf(), vec![column(&name(number))]);
        let first = AggregateFunction::new_udf(first, args, false, Some(Box::new(filter)), vec![], None);
        Expr::AggregateFunction(first).alias(name(number))
    });
    let plan = group(all.build()?, group_columns(group_expr).collect(), firsts.collect())?;
    named(plan, aggregate, (0..aggr_expr.len()).map(|number| column(&name(number))))
}

/// A plan's groups and what is made of its aggregates, named as those of the aggregate that it replaces.
fn named(
    plan: LogicalPlan,
    replaced: &Aggregate,
    made: impl IntoIterator<Item = Expr>,
) -> Result<Option<LogicalPlan>> {
    let mut columns = Vec::with_capacity(replaced.schema.fields().len());
    let groups = group_columns(&replaced.group_expr).map(|group| (group, true));
    for ((expr, is_group), (qualifier, field)) in
        groups.chain(made.into_iter().map(|made| (made, false))).zip(replaced.schema.iter())
    {
        // A sum of a decimal's sums has more places.
        let expr = expr.cast_to(field.data_type(), plan.schema())?;
        let column = if is_group || field.is_nullable() {
            expr
        } else {
            // A count; it is there in each group, which nobody can tell of a sum or a first value.
            let Ok(zero) = ScalarValue::new_zero(field.data_type()) else { return Ok(None) };
            coalesce(vec![expr, Expr::Literal(zero, None)])
        };
        columns.push(column.alias_qualified(qualifier.cloned(), field.name()));
    }
    LogicalPlanBuilder::new(plan).project(columns)?.build().map(Some)
}

/// An aggregate over a column.
fn aggregate_over(function: &AggregateFunction, name: &str) -> Expr {
    let mut function = function.clone();
    function.params.args = vec![column(name)];
    Expr::AggregateFunction(function)
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

fn group_name(number: usize) -> String {
    format!("__group_{number}")
}

/// The grouping keys, under names that no other column has.
fn grouped(group_expr: &[Expr]) -> impl Iterator<Item = Expr> {
    group_expr.iter().enumerate().map(|(number, expr)| expr.clone().alias(group_name(number)))
}

fn group_columns(group_expr: &[Expr]) -> impl Iterator<Item = Expr> {
    (0..group_expr.len()).map(|number| column(&group_name(number)))
}

fn name(number: usize) -> String {
    format!("__aggregate_{number}")
}

fn group(input: LogicalPlan, groups: Vec<Expr>, aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?))
}

/// Returns true if a plan returns the same rows, in any order, each time it is run.
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
            | LogicalPlan::Extension(_)
            | LogicalPlan::Distinct(logical_expr::Distinct::All(_)) => true,
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.is_empty(),
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            _ => false,
        };
        if let LogicalPlan::TableScan(scan) = node {
            // The work table of a recursive query may be read in one place only.
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

    /// Returns the rows of a statement as text, in no order, the number of times that its plan reads `t`, and the number of its
    /// aggregates that are still over distinct values.
    async fn answer(context: &SessionContext, text: &str) -> (Vec<String>, usize, usize) {
        let frame = context.sql(text).await.unwrap();
        let plan = frame.clone().into_optimized_plan().unwrap();
        let scans = plan.display_indent().to_string().matches("TableScan: t").count();
        let mut distinct_left = 0;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Aggregate(aggregate) = node {
                let found = aggregate.aggr_expr.iter().map(distinct).collect::<Result<Vec<_>>>()?;
                distinct_left += found.iter().flatten().count();
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        let rows = pretty_format_batches(&frame.collect().await.unwrap()).unwrap().to_string();
        let mut rows: Vec<String> = rows.lines().map(str::to_owned).collect();
        rows.sort_unstable();
        (rows, scans, distinct_left)
    }

    /// The sessions without the rule, and with it for each aim.
    async fn contexts() -> [SessionContext; 3] {
        let with = |aim| {
            let rule = Arc::new(DistinctRewrite(aim));
            let state = SessionStateBuilder::new().with_default_features().with_optimizer_rule(rule);
            SessionContext::new_with_state(state.build())
        };
        let contexts = [SessionContext::new(), with(PlanGoal::Speed), with(PlanGoal::Memory)];
        for context in &contexts {
            sums::functions().into_iter().for_each(|function| context.register_udaf(function));
            let made = "CREATE TABLE t AS SELECT \
                 CASE value % 5 WHEN 0 THEN NULL ELSE concat('g', value % 4) END AS g, \
                 CASE value % 7 WHEN 0 THEN NULL ELSE value % 11 END AS x, value % 13 AS y, \
                 CASE value % 6 WHEN 0 THEN 'NaN'::double WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 ELSE value / 4.0 END AS f, \
                 (value % 17)::decimal(8, 2) AS d, \
                 make_array(value % 3) AS l, to_timestamp(value % 9) AS at, value % 2 = 0 AS even \
                 FROM range(0, 1000)";
            context.sql(made).await.unwrap().collect().await.unwrap();
        }
        contexts
    }

    /// Checks that for each aim a statement returns the same as without the rule, has no set of values, and reads `t` so often;
    /// `None`: as often as without.
    async fn all_are_grouped([plain, fast, small]: &[SessionContext; 3], text: &str, scans: Option<usize>) {
        let (expected, once, left) = answer(plain, text).await;
        assert_ne!(left, 0, "{text}");
        for context in [fast, small] {
            assert_eq!(answer(context, text).await, (expected.clone(), scans.unwrap_or(once), 0), "{text}");
        }
    }

    #[tokio::test]
    async fn one_set_of_values_is_grouped_in_one_pass() {
        let contexts = contexts().await;
        for text in [
            "SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY g",
            "SELECT count(*), count(x), count(DISTINCT x), sum(DISTINCT x), max(DISTINCT x) FROM t",
            "SELECT g, avg(DISTINCT x), count(*) FROM t GROUP BY g",
            "SELECT count(*) AS n, count(DISTINCT x) AS d, avg(y) AS a FROM (SELECT * FROM t WHERE y < 0)",
            "SELECT g, count(*), count(DISTINCT x) FROM t WHERE y < 0 GROUP BY g",
            "SELECT f, count(DISTINCT g), sum(y), avg(y), min(g), max(at), count(x), sum(d), min(d) FROM t GROUP BY f",
            "SELECT g, avg(f), sum(f), min(y), max(y), count(DISTINCT y) FROM t GROUP BY g",
            "SELECT g, avg(x) FILTER (WHERE y > 100), avg(x) FILTER (WHERE even), count(*) FILTER (WHERE even), \
             count(*) FILTER (WHERE y > 100), count(DISTINCT x) FILTER (WHERE even) FROM t GROUP BY g",
            "SELECT upper(g) AS g, x + 1, count(DISTINCT y % 3) + count(*) FROM t GROUP BY upper(g), x + 1",
            "SELECT count(n), count(DISTINCT c) FROM (SELECT g, count(*) AS n, count(DISTINCT x) AS c FROM t GROUP BY g)",
            "SELECT l, at, count(DISTINCT f), count(y) FROM t GROUP BY l, at",
            "SELECT a.g, count(DISTINCT b.x), count(*) FROM t a JOIN (SELECT DISTINCT x, even FROM t) b \
             ON a.x = b.x AND a.even = b.even WHERE a.y IN (SELECT max(x) FROM t GROUP BY y) GROUP BY a.g",
            "SELECT g, count(DISTINCT x) + avg(y) FROM t GROUP BY g HAVING count(*) > 100 ORDER BY count(DISTINCT x) LIMIT 3",
            "SELECT g, count(*), count(DISTINCT r) FROM (SELECT g, row_number() OVER (ORDER BY y, x, f) % 9 AS r FROM t) GROUP BY g",
        ] {
            all_are_grouped(&contexts, text, None).await;
        }
    }

    #[tokio::test]
    async fn sets_of_values_are_grouped_apart_where_memory_is_little() {
        let [plain, fast, small] = contexts().await;
        for (text, scans) in [
            ("SELECT count(*), count(DISTINCT x), count(DISTINCT y) FROM t", 3),
            ("SELECT g, count(DISTINCT x), count(DISTINCT y) FROM t WHERE x > 100 GROUP BY g", 2),
            ("SELECT count(DISTINCT x) FILTER (WHERE even), count(DISTINCT x), sum(DISTINCT x) FROM t", 2),
            ("SELECT g, count(DISTINCT x), avg(d) FROM t GROUP BY g", 2),
            ("SELECT l, at, count(DISTINCT f), count(DISTINCT l), stddev(y) FROM t GROUP BY l, at", 3),
            (
                "SELECT g FROM t GROUP BY g HAVING count(DISTINCT x) > 9 AND count(*) > 100 AND sum(DISTINCT y) > 5",
                3,
            ),
            ("SELECT (SELECT count(DISTINCT x) + count(*) FROM t), count(DISTINCT y), stddev(y) FROM t", 3),
            ("SELECT g, array_agg(DISTINCT even ORDER BY even), count(DISTINCT x) FROM t GROUP BY g", 2),
            ("SELECT count(DISTINCT g), count(DISTINCT x) FROM t", 2),
            (
                "SELECT y, count(DISTINCT g), count(DISTINCT x) FROM (SELECT DISTINCT g, x, y FROM t) GROUP BY y",
                2,
            ),
        ] {
            let (expected, once, left) = answer(&plain, text).await;
            assert_ne!(left, 0, "{text}");
            let (rows, fast_scans, _) = answer(&fast, text).await;
            assert_eq!((rows, fast_scans), (expected.clone(), once), "{text}");
            assert_eq!(answer(&small, text).await, (expected, scans, 0), "{text}");
        }
    }

    #[tokio::test]
    async fn sets_of_texts_of_groups_are_grouped_apart() {
        let contexts = contexts().await;
        for (text, scans) in [
            ("SELECT f, count(DISTINCT g), avg(DISTINCT y), max(DISTINCT y), count(x) FROM t GROUP BY f", 3),
            (
                "SELECT y, count(DISTINCT g), stddev(x) FROM (SELECT * FROM t WHERE x > 2) AS few GROUP BY y",
                2,
            ),
            (
                "SELECT y, count(DISTINCT upper(g)), count(DISTINCT x) FROM (SELECT g, x, y FROM t UNION ALL SELECT g, y, x FROM t) \
                 GROUP BY y",
                4,
            ),
        ] {
            all_are_grouped(&contexts, text, Some(scans)).await;
        }
    }

    #[tokio::test]
    async fn what_may_not_be_the_same_each_time_is_read_once() {
        let [_, _, small] = contexts().await;
        for from in [
            "(SELECT * FROM t LIMIT 10)",
            "(SELECT * FROM t ORDER BY f LIMIT 10)",
            "(SELECT *, random() AS r FROM t) WHERE r < 0.5",
            "(SELECT *, row_number() OVER (PARTITION BY g) AS r FROM t) WHERE r < 3",
            "(SELECT DISTINCT ON (g) * FROM t)",
            "(SELECT first_value(x) AS x, g FROM t GROUP BY g)",
        ] {
            let text = format!("SELECT g, stddev(x), count(DISTINCT x) FROM {from} GROUP BY g");
            assert_eq!(answer(&small, &text).await.1, 1, "{from}");
        }
        let recursive = "WITH RECURSIVE r(n, c) AS (SELECT 1 AS n, 1 AS c UNION ALL \
             SELECT max(n) + 1, count(DISTINCT c) FROM r HAVING max(n) < 10 AND count(DISTINCT n) > 0) \
             SELECT count(*) FROM r";
        assert!(answer(&small, recursive).await.0.contains(&"| 10       |".to_owned()));
        let text = "SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY ROLLUP (g)";
        assert_eq!(answer(&small, text).await.1, 1);
    }
}
