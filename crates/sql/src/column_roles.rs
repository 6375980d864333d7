//! The roles of an answer's columns: what a chart of it has on which axis. They are read from the plan.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

/// The role of a column in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnRole {
    /// A key of the groups.
    Key,
    /// A value computed of a group's rows, and the name of the one aggregate that it is, if it is no more than that.
    Measure(Option<String>),
    /// A time or a date.
    Time,
    /// Anything else.
    Other,
}

/// The roles of a plan's columns, in their order.
pub(crate) fn column_roles(plan: &LogicalPlan) -> Vec<ColumnRole> {
    let roles = roles_of(plan);
    let fields = plan.schema().fields();
    let is_time = |ty: &DataType| matches!(ty, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    let timed = roles.into_iter().zip(fields).map(|(role, field)| match role {
        ColumnRole::Key | ColumnRole::Other if is_time(field.data_type()) => ColumnRole::Time,
        role => role,
    });
    timed.collect()
}

fn roles_of(plan: &LogicalPlan) -> Vec<ColumnRole> {
    let count = plan.schema().fields().len();
    let unknown = || vec![ColumnRole::Other; count];
    let found = match plan {
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, count),
        LogicalPlan::Projection(projection) => {
            let below = roles_of(&projection.input);
            let of = |expr: &Expr| of_expr(expr, &projection.input, &below);
            projection.expr.iter().map(of).collect()
        }
        LogicalPlan::Distinct(_) => {
            let below = plan.inputs().first().map(|input| roles_of(input)).unwrap_or_default();
            let key = |role| if role == ColumnRole::Other { ColumnRole::Key } else { role };
            below.into_iter().map(key).collect()
        }
        LogicalPlan::Window(window) => {
            let mut roles = roles_of(&window.input);
            roles.resize(count, ColumnRole::Other);
            roles
        }
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => unknown(),
        // Sort, Limit, Filter and their like pass all columns on.
        _ => match plan.inputs().as_slice() {
            [input] => roles_of(input),
            _ => unknown(),
        },
    };
    if found.len() == count { found } else { unknown() }
}

fn of_aggregate(aggregate: &Aggregate, count: usize) -> Vec<ColumnRole> {
    let keys = count.saturating_sub(aggregate.aggr_expr.len());
    let measures = aggregate.aggr_expr.iter().map(|expr| ColumnRole::Measure(aggregate_name(expr)));
    std::iter::repeat_n(ColumnRole::Key, keys).chain(measures).collect()
}

fn aggregate_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Alias(alias) => aggregate_name(&alias.expr),
        Expr::AggregateFunction(call) => Some(call.func.name().to_uppercase()),
        _ => None,
    }
}

fn of_expr(expr: &Expr, input: &LogicalPlan, below: &[ColumnRole]) -> ColumnRole {
    let role_of = |column| {
        let place = input.schema().maybe_index_of_column(column);
        place.and_then(|place| below.get(place)).cloned().unwrap_or(ColumnRole::Other)
    };
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input, below),
        Expr::Column(column) => role_of(column),
        expr => {
            let (mut has_measure, mut has_key) = (false, false);
            // Nothing in here fails.
            let _ = expr.apply(|part| {
                if let Expr::Column(column) = part {
                    match role_of(column) {
                        ColumnRole::Measure(_) => has_measure = true,
                        ColumnRole::Key => has_key = true,
                        _ => {}
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            });
            match (has_measure, has_key) {
                (true, _) => ColumnRole::Measure(None),
                // An expression over keys alone names the group as they do.
                (false, true) => ColumnRole::Key,
                (false, false) => ColumnRole::Other,
            }
        }
    }
}
