//! Compares dates with dates where a statement compares a date with a constant time.
//!
//! ```text
//! SELECT … WHERE shipped < DATE '1994-01-01' + INTERVAL '1 year'
//!
//! before: Filter: CAST(shipped AS Timestamp(µs)) < TimestampMicrosecond(788918400000000, None)
//! after:  Filter: shipped < Date32("1995-01-01")
//! ```
//!
//! A date plus an interval is a time, as in PostgreSQL. DataFusion then casts the column of each row, and neither the
//! statistics of a file nor those of a row group rule anything out. A day begins at midnight, so each of these comparisons
//! has one among days: `day < 10:30` is `day <= that day`, and `day >= 10:30` is `day > that day`.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule of DataFusion's that computes constants.
const COMPUTES_CONSTANTS: &str = "simplify_expressions";

/// The rules, with ours where constants are computed and filters not yet in scans.
pub(crate) fn compare_dates(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let place = rules.iter().position(|rule| rule.name() == COMPUTES_CONSTANTS);
    rules.insert(place.map_or(0, |place| place + 1), Arc::new(DateComparisons));
    rules
}

#[derive(Debug)]
struct DateComparisons;

impl OptimizerRule for DateComparisons {
    fn name(&self) -> &'static str {
        "date_comparisons"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Expressions of other operators name the columns that they return.
        if !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            return Ok(Transformed::no(plan));
        }
        let mut schema = DFSchema::empty();
        for input in plan.inputs() {
            schema.merge(input.schema());
        }
        plan.map_expressions(|expr| expr.transform_up(|expr| Ok(by_days(expr, &schema))))
    }
}

/// A comparison of days in place of one of times, if there is one.
fn by_days(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else { return Transformed::no(expr) };
    let found = match (cast_date(left, schema), cast_date(right, schema)) {
        (Some(date), None) => day_of(right).and_then(|day| compared(date, *op, day)),
        (None, Some(date)) => op.swap().and_then(|op| day_of(left).and_then(|day| compared(date, op, day))),
        _ => None,
    };
    found.map_or_else(|| Transformed::no(expr), Transformed::yes)
}

/// The date that an expression makes a time of.
fn cast_date<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a Expr> {
    let Expr::Cast(Cast { expr: date, field }) = expr else { return None };
    let is_time = matches!(field.data_type(), DataType::Timestamp(_, zone) if is_utc(zone.as_deref()));
    (is_time && matches!(date.get_type(schema), Ok(DataType::Date32))).then_some(&**date)
}

fn is_utc(zone: Option<&str>) -> bool {
    matches!(zone, None | Some("UTC" | "+00:00"))
}

/// The day of a constant time, and whether the time is the day's first moment.
fn day_of(expr: &Expr) -> Option<(i32, bool)> {
    let Expr::Literal(value, _) = expr else { return None };
    let (time, unit, zone) = match value {
        ScalarValue::TimestampSecond(Some(time), zone) => (*time, TimeUnit::Second, zone),
        ScalarValue::TimestampMillisecond(Some(time), zone) => (*time, TimeUnit::Millisecond, zone),
        ScalarValue::TimestampMicrosecond(Some(time), zone) => (*time, TimeUnit::Microsecond, zone),
        ScalarValue::TimestampNanosecond(Some(time), zone) => (*time, TimeUnit::Nanosecond, zone),
        _ => return None,
    };
    let in_a_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let in_a_day = 86_400 * in_a_second;
    let day = i32::try_from(time.div_euclid(in_a_day)).ok()?;
    is_utc(zone.as_deref()).then_some((day, time.rem_euclid(in_a_day) == 0))
}

fn compared(date: &Expr, op: Operator, (day, is_midnight): (i32, bool)) -> Option<Expr> {
    let op = match (op, is_midnight) {
        (Operator::Lt, false) => Operator::LtEq,
        (Operator::GtEq, false) => Operator::Gt,
        (Operator::LtEq | Operator::Gt, _) | (Operator::Lt | Operator::GtEq, true) => op,
        (Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom, true) => op,
        _ => return None,
    };
    let day = Expr::Literal(ScalarValue::Date32(Some(day)), None);
    Some(Expr::BinaryExpr(BinaryExpr { left: Box::new(date.clone()), op, right: Box::new(day) }))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::context::SessionContext;
    use datafusion::logical_expr::{cast, col, lit};
    use datafusion::prelude::SessionConfig;
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn operators() -> impl Strategy<Value = Operator> {
        prop::sample::select(vec![
            Operator::Eq,
            Operator::NotEq,
            Operator::Lt,
            Operator::LtEq,
            Operator::Gt,
            Operator::GtEq,
            Operator::IsDistinctFrom,
            Operator::IsNotDistinctFrom,
        ])
    }

    fn schema() -> DFSchema {
        let field = arrow::datatypes::Field::new("d", DataType::Date32, true);
        DFSchema::try_from(arrow::datatypes::Schema::new(vec![field])).unwrap()
    }

    fn times() -> impl Strategy<Value = i64> {
        let near = prop::sample::select(vec![0, 1, -1, DAY / 2, DAY - 1]);
        prop_oneof![(-3_i64..3, near).prop_map(|(day, rest)| day * DAY + rest), -(5 * DAY)..5 * DAY]
    }

    proptest! {
        /// The comparison of days has the value of that of times, on either side of the operator.
        #[test]
        fn days_compare_as_times(
            days in prop::collection::vec(prop::option::of(-4_i32..4), 1..12),
            op in operators(),
            time in times(),
            nanoseconds in any::<bool>(),
            is_first in any::<bool>(),
        ) {
            let unit = if nanoseconds { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
            let constant = match nanoseconds {
                true => ScalarValue::TimestampNanosecond(Some(time * 1000), None),
                false => ScalarValue::TimestampMicrosecond(Some(time), None),
            };
            let (left, right) = (cast(col("d"), DataType::Timestamp(unit, None)), lit(constant));
            let (left, right) = if is_first { (left, right) } else { (right, left) };
            let of_times =
                Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) });
            let schema = schema();
            let of_days = by_days(of_times.clone(), &schema).data;
            let context = SessionContext::new_with_config(SessionConfig::new());
            let column = arrow::array::Date32Array::from(days.clone());
            let batch = arrow::record_batch::RecordBatch::try_new(
                Arc::new(schema.as_arrow().clone()),
                vec![Arc::new(column)],
            )
            .unwrap();
            let values = |expr: Expr| {
                let expr = context.create_physical_expr(expr, &schema).unwrap();
                expr.evaluate(&batch).unwrap().into_array(days.len()).unwrap()
            };
            prop_assert_eq!(&values(of_times.clone()), &values(of_days.clone()), "{} {}", of_times, of_days);
        }
    }

    #[test]
    fn a_constant_that_is_no_midnight_has_a_day() {
        let at = |time| lit(ScalarValue::TimestampMicrosecond(Some(time), None));
        let day = |day| lit(ScalarValue::Date32(Some(day)));
        let time = || cast(col("d"), DataType::Timestamp(TimeUnit::Microsecond, None));
        let by_days = |expr| by_days(expr, &schema()).data;
        assert_eq!(by_days(time().lt(at(9_000 * DAY))), col("d").lt(day(9_000)));
        assert_eq!(by_days(time().lt(at(9_000 * DAY + 1))), col("d").lt_eq(day(9_000)));
        assert_eq!(by_days(time().gt_eq(at(-DAY + 1))), col("d").gt(day(-1)));
        assert_eq!(by_days(at(DAY).lt(time())), col("d").gt(day(1)));
        // No day is such a time: it is null or false, which no comparison of days is.
        assert_eq!(by_days(time().eq(at(1))), time().eq(at(1)));
    }
}
