//! Compares intervals by their length: a month is 30 days and a day is 24 hours, as in PostgreSQL.
//!
//! ```text
//! before: a < b     after: interval_length(a) < interval_length(b)     also for IN, BETWEEN, CASE a WHEN b, ORDER BY
//! ```
//!
//! DataFusion 55 compares months, then days, then the rest, so 25 hours are less than a day. Comparisons and `ORDER BY`
//! are rewritten to lengths ([`compared`], [`ordered`]). Everything else that compares values is refused for intervals
//! ([`check`]). The difference of two times is a duration, which has one length only.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Between, Case, InList, ScalarFunction, Sort};
use datafusion::logical_expr::{
    self, BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::any_of_list::EqualsAny;
use crate::SqlError;
use crate::error::state;

const DAY: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;
const PRECISION: u8 = 38;

/// Aggregates and window functions that compare no values.
const NOT_COMPARING: [&str; 9] =
    ["array_agg", "avg", "count", "first_value", "lag", "last_value", "lead", "nth_value", "sum"];
/// Scalar functions that compare their arguments, or the elements of a list.
const COMPARING: [&str; 19] = [
    "array_distinct",
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_max",
    "array_min",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_sort",
    "array_union",
    "arrays_overlap",
];

/// A comparison of intervals, by their length.
pub(super) fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(InList { expr, list, negated }) => {
            let all: Vec<&Expr> = std::iter::once(expr.as_ref()).chain(&list).collect();
            Ok(match many_lengths(&all, schema) {
                Some(mut lengths) => {
                    let expr = Box::new(lengths.remove(0));
                    Transformed::yes(Expr::InList(InList { expr, list: lengths, negated }))
                }
                None => Transformed::no(Expr::InList(InList { expr, list, negated })),
            })
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr }) => {
            let whens = when_then_expr.iter().map(|(when, _)| when.as_ref());
            let all: Vec<&Expr> = std::iter::once(operand.as_ref()).chain(whens).collect();
            let Some(mut lengths) = many_lengths(&all, schema) else {
                let case = Case { expr: Some(operand), when_then_expr, else_expr };
                return Ok(Transformed::no(Expr::Case(case)));
            };
            let operand = Some(Box::new(lengths.remove(0)));
            let thens = when_then_expr.into_iter().map(|(_, then)| then);
            let when_then_expr = lengths.into_iter().map(Box::new).zip(thens).collect();
            Ok(Transformed::yes(Expr::Case(Case { expr: operand, when_then_expr, else_expr })))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            match lengths([&left, &right], schema) {
                Some([left, right]) => {
                    let (left, right) = (Box::new(left), Box::new(right));
                    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
                }
                None => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            }
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let between = |expr, low, high| Expr::Between(Between { expr, negated, low, high });
            Ok(match lengths([&expr, &low, &high], schema) {
                Some([expr, low, high]) => {
                    Transformed::yes(between(Box::new(expr), Box::new(low), Box::new(high)))
                }
                None => Transformed::no(between(expr, low, high)),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// `date_part('microsecond', interval)` and the like: DataFusion 55 loses the fraction of more than two seconds.
pub(super) fn parts(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
    let (true, [Expr::Literal(part, _), interval]) = (call.func.name() == "date_part", call.args.as_slice())
    else {
        return Ok(Transformed::no(expr));
    };
    let per_second = match part.try_as_str().flatten().unwrap_or_default().to_lowercase().as_str() {
        "microsecond" | "microseconds" | "us" => 1e6,
        "millisecond" | "milliseconds" | "ms" => 1e3,
        _ => return Ok(Transformed::no(expr)),
    };
    if !interval.get_type(schema).is_ok_and(|ty| matches!(ty, DataType::Interval(_))) {
        return Ok(Transformed::no(expr));
    }
    let epoch = call.func.call(vec![logical_expr::lit("epoch"), interval.clone()]);
    let seconds = epoch % logical_expr::lit(60.0) * logical_expr::lit(per_second);
    Ok(Transformed::yes(datafusion::functions::math::round().call(vec![seconds])))
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The lengths of what is compared, where one is an interval and the others can be.
fn lengths<const N: usize>(compared: [&Expr; N], schema: &DFSchema) -> Option<[Expr; N]> {
    many_lengths(&compared, schema)?.try_into().ok()
}

fn many_lengths(compared: &[&Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    let mut types = Vec::with_capacity(compared.len());
    for expr in compared {
        types.push(expr.get_type(schema).ok()?);
    }
    let is_length = |ty: &DataType| {
        ty.is_null() || ty.is_string() || matches!(ty, DataType::Interval(_) | DataType::Duration(_))
    };
    let has_interval = types.iter().any(|ty| matches!(ty, DataType::Interval(_)));
    if !has_interval || !types.iter().all(is_length) {
        return None;
    }
    Some(compared.iter().zip(&types).map(|(expr, ty)| length(expr, ty)).collect())
}

fn length(expr: &Expr, ty: &DataType) -> Expr {
    let ty = match ty {
        DataType::Duration(_) => DataType::Duration(TimeUnit::Nanosecond),
        _ => DataType::Interval(IntervalUnit::MonthDayNano),
    };
    let operand = logical_expr::cast(expr.clone(), ty);
    let function = interval_length();
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![operand]))
}

/// `ORDER BY` of intervals, by their length.
pub(super) fn ordered(node: LogicalPlan) -> Transformed<LogicalPlan> {
    let LogicalPlan::Sort(mut sort) = node else { return Transformed::no(node) };
    let mut is_changed = false;
    for key in &mut sort.expr {
        if let Ok(ty @ DataType::Interval(_)) = key.expr.get_type(sort.input.schema()) {
            key.expr = length(&key.expr, &ty);
            is_changed = true;
        }
    }
    Transformed::new_transformed(LogicalPlan::Sort(sort), is_changed)
}

/// Refuses what would compare intervals otherwise than by their length.
pub(super) fn check(node: &LogicalPlan, schema: &DFSchema) -> Result<()> {
    let is_found = |exprs: &[Expr]| exprs.iter().any(|expr| is_interval(expr, schema));
    let has_field = |schema: &DFSchema| schema.fields().iter().any(|field| has_interval(field.data_type()));
    match node {
        LogicalPlan::Aggregate(aggregate) => {
            let keys = aggregate.schema.fields().len().saturating_sub(aggregate.aggr_expr.len());
            let mut keys = aggregate.schema.fields().iter().take(keys);
            if keys.any(|field| has_interval(field.data_type())) {
                return refused("GROUP BY and DISTINCT of intervals");
            }
        }
        LogicalPlan::Distinct(Distinct::All(input)) if has_field(input.schema()) => {
            return refused("DISTINCT, UNION, INTERSECT and EXCEPT of intervals");
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let order = on.sort_expr.iter().flatten().map(|key| &key.expr);
            if is_found(&on.on_expr) || order.into_iter().any(|key| is_interval(key, schema)) {
                return refused("DISTINCT ON of intervals");
            }
        }
        LogicalPlan::RecursiveQuery(query) if query.is_distinct && has_field(node.schema()) => {
            return refused("DISTINCT, UNION, INTERSECT and EXCEPT of intervals");
        }
        LogicalPlan::Join(join)
            if join
                .on
                .iter()
                .any(|(left, right)| is_interval(left, schema) || is_interval(right, schema)) =>
        {
            return refused("a join by equal intervals");
        }
        // Rows, lists and structs of intervals: those themselves are ordered by length.
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| is_interval(&key.expr, schema)) => {
            return refused("ORDER BY of lists and rows of intervals");
        }
        _ => {}
    }
    let mut fault = None;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            fault = fault.take().or_else(|| comparing(expr, schema));
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match fault {
        Some(fault) => refused(&fault),
        None => Ok(()),
    }
}

/// The name of the operation that compares intervals in an expression; its operands are not searched.
fn comparing(expr: &Expr, schema: &DFSchema) -> Option<String> {
    let is_found = |exprs: &[Expr]| exprs.iter().any(|expr| is_interval(expr, schema));
    let ordered = |keys: &[Sort]| keys.iter().any(|key| is_interval(&key.expr, schema));
    let refused = |name: &str| Some(format!("{name} of intervals"));
    match expr {
        Expr::ScalarFunction(call) => {
            let is_comparing = COMPARING.contains(&call.name())
                || matches!(call.name(), "greatest" | "least" | "nullif")
                || call.name() == EqualsAny::NAME;
            let name = if call.name() == EqualsAny::NAME { "ANY" } else { call.name() };
            (is_comparing && is_found(&call.args)).then(|| refused(name)).flatten()
        }
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            if ordered(&params.order_by) {
                return refused("ORDER BY in an aggregate");
            }
            let compares = params.distinct || !NOT_COMPARING.contains(&call.func.name());
            (compares && is_found(&params.args)).then(|| refused(call.func.name())).flatten()
        }
        Expr::WindowFunction(call) => {
            let params = &call.params;
            if is_found(&params.partition_by) || ordered(&params.order_by) {
                return refused("PARTITION BY and ORDER BY in OVER");
            }
            let compares = params.distinct || !NOT_COMPARING.contains(&call.fun.name());
            (compares && is_found(&params.args)).then(|| refused(call.fun.name())).flatten()
        }
        _ => None,
    }
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| has_interval(&ty))
}

/// Returns true if values of a type are intervals, or contain some.
fn has_interval(ty: &DataType) -> bool {
    match ty {
        DataType::Interval(_) => true,
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _)
        | DataType::Map(element, _) => has_interval(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_interval(field.data_type())),
        DataType::Dictionary(_, values) => has_interval(values),
        _ => false,
    }
}

fn refused(what: &str) -> Result<()> {
    let error = SqlError::invalid(format!("not supported: {what}"))
        .with_state(state::NOT_SUPPORTED)
        .with_hint("Compare their seconds: extract(epoch FROM x).");
    Err(DataFusionError::External(Box::new(error)))
}

/// The number of nanoseconds of an interval.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length(Signature);

/// The function that compares intervals by their length.
pub(crate) fn interval_length() -> ScalarUDF {
    ScalarUDF::from(Length(Signature::any(1, Volatility::Immutable)))
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(PRECISION, 0))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else {
            return plan_err!("interval_length takes an interval");
        };
        let is_constant = matches!(value, ColumnarValue::Scalar(_));
        let values = value.to_array(1)?;
        let lengths: Decimal128Array = match values.data_type() {
            DataType::Duration(_) => {
                let nanos = cast(&values, &DataType::Int64)?;
                nanos.as_primitive::<Int64Type>().iter().map(|nanos| nanos.map(i128::from)).collect()
            }
            _ => {
                let intervals = values.as_primitive::<IntervalMonthDayNanoType>();
                let length = |interval: arrow::datatypes::IntervalMonthDayNano| {
                    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
                    days * DAY + i128::from(interval.nanoseconds)
                };
                intervals.iter().map(|interval| interval.map(length)).collect()
            }
        };
        let lengths: ArrayRef = Arc::new(lengths.with_precision_and_scale(PRECISION, 0)?);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lengths, 0)?),
            false => ColumnarValue::Array(lengths),
        })
    }
}
