//! Rewrites arithmetic on a plan so that it fails on overflow of whole numbers and on division by zero.
//!
//! ```text
//! a, b whole numbers: before: a + b, -a     after: checked_add(a, b), checked_negate(a)
//! x, y doubles:       before: x / y         after: checked_divide(x, y)
//! ```
//!
//! DataFusion 55 adds, subtracts, multiplies and negates whole numbers so that they wrap around
//! (apache/datafusion#17539). It returns infinity or NaN for a division of doubles by zero. Its physical expression has a
//! checked mode, but its planner never enables it. The functions that replace the operators have the operators' names, so
//! no column gets another name.
//!
//! Limits: overflow of a DOUBLE is infinity, as in DataFusion.

use arrow::array::{Array, ArrayRef, Datum, Scalar};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{ScalarFunction, schema_name_from_exprs};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast,
};

use super::{casts, intervals, texts};
use crate::Dialect;

/// The plan with arithmetic that is checked, and casts that are PostgreSQL's.
pub(crate) fn checked(plan: LogicalPlan, dialect: Dialect) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let schema = match node.inputs().as_slice() {
            [] => node.schema().as_ref().clone(),
            inputs => merge_schema(inputs),
        };
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| rewritten(expr, &schema, dialect))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        let node = node.transform_data(|node| Ok(intervals::ordered(node)))?;
        intervals::check(&node.data, &schema)?;
        match node.transformed {
            true => Ok(Transformed::yes(node.data.recompute_schema()?)),
            false => Ok(node),
        }
    })?;
    Ok(rewritten.data)
}

fn rewritten(expr: Expr, schema: &DFSchema, dialect: Dialect) -> Result<Transformed<Expr>> {
    if let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr
        && let Some(wanted) = Checked::of(*op)
    {
        let ty = match expr.get_type(schema) {
            Ok(ty) => ty,
            // It is told of where its types are.
            Err(_) => return Ok(Transformed::no(expr)),
        };
        let both = [left.get_type(schema)?, right.get_type(schema)?];
        let are_numbers = both.iter().all(|ty| ty.is_numeric() || ty.is_null());
        let divides = matches!(wanted, Checked::Divide | Checked::Modulo);
        let is_wanted = match divides {
            false => ty.is_integer(),
            true => ty.is_floating() && !is_not_zero(right),
        };
        if are_numbers && is_wanted {
            let arguments = [left.as_ref(), right.as_ref()].into_iter().zip(both);
            let arguments = arguments.map(|(operand, is)| match is == ty {
                true => operand.clone(),
                false => cast(operand.clone(), ty.clone()),
            });
            return Ok(Transformed::yes(wanted.call(arguments.collect())));
        }
        return Ok(match with_hours(left, right, &both, dialect) {
            Some([left, right]) => {
                let (left, right) = (Box::new(left), Box::new(right));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op: *op, right }))
            }
            None => Transformed::no(expr),
        });
    }
    match &expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }) => {
            texts::in_concat(expr, schema, dialect)
        }
        Expr::Negative(inner) if inner.get_type(schema).is_ok_and(|ty| ty.is_signed_integer()) => {
            Ok(Transformed::yes(Checked::Negate.call(vec![inner.as_ref().clone()])))
        }
        Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => {
            intervals::compared(expr, schema)
        }
        Expr::Cast(_) if dialect == Dialect::Native => casts::rewritten(expr, schema),
        Expr::ScalarFunction(_) => {
            let expr = intervals::parts(expr, schema)?;
            match dialect {
                Dialect::Native if !expr.transformed => casts::rounded(expr.data, schema),
                _ => Ok(expr),
            }
        }
        _ => Ok(Transformed::no(expr)),
    }
}

/// A date to which an interval is added is a time, as the interval may have hours: DataFusion drops these. To Spark a date and whole
/// days are a date.
fn with_hours(left: &Expr, right: &Expr, types: &[DataType; 2], dialect: Dialect) -> Option<[Expr; 2]> {
    let is_date = |ty: &DataType| matches!(ty, DataType::Date32 | DataType::Date64);
    let is_interval = |ty: &DataType| matches!(ty, DataType::Interval(_));
    let has_hours = |interval: &Expr| match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds != 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => false,
        _ => true,
    };
    let time = |date: &Expr| cast(date.clone(), DataType::Timestamp(TimeUnit::Microsecond, None));
    let is_wanted = |interval: &Expr| dialect == Dialect::Native || has_hours(interval);
    match types {
        [date, interval] if is_date(date) && is_interval(interval) && is_wanted(right) => {
            Some([time(left), right.clone()])
        }
        [interval, date] if is_interval(interval) && is_date(date) && is_wanted(left) => {
            Some([left.clone(), time(right)])
        }
        _ => None,
    }
}

fn is_not_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            value.is_null()
                || value.cast_to(&DataType::Float64).is_ok_and(|value| match value {
                    ScalarValue::Float64(Some(value)) => value != 0.0,
                    _ => false,
                })
        }
        Expr::Cast(cast) => is_not_zero(&cast.expr),
        Expr::Alias(alias) => is_not_zero(&alias.expr),
        _ => false,
    }
}

/// An operator that fails rather than to give another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Checked {
    Add,
    Subtract,
    Multiply,
    Negate,
    Divide,
    Modulo,
}

impl Checked {
    fn of(op: Operator) -> Option<Checked> {
        match op {
            Operator::Plus => Some(Checked::Add),
            Operator::Minus => Some(Checked::Subtract),
            Operator::Multiply => Some(Checked::Multiply),
            Operator::Divide => Some(Checked::Divide),
            Operator::Modulo => Some(Checked::Modulo),
            _ => None,
        }
    }

    fn call(self, arguments: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(self.function().into(), arguments))
    }

    fn function(self) -> ScalarUDF {
        let arguments = if self == Checked::Negate { 1 } else { 2 };
        let signature = Signature::any(arguments, Volatility::Immutable);
        ScalarUDF::from(CheckedFunction { operator: self, signature })
    }

    fn name(self) -> &'static str {
        match self {
            Checked::Add => "checked_add",
            Checked::Subtract => "checked_subtract",
            Checked::Multiply => "checked_multiply",
            Checked::Negate => "checked_negate",
            Checked::Divide => "checked_divide",
            Checked::Modulo => "checked_modulo",
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Checked::Add => "+",
            Checked::Subtract | Checked::Negate => "-",
            Checked::Multiply => "*",
            Checked::Divide => "/",
            Checked::Modulo => "%",
        }
    }
}

/// The function of each operator.
#[cfg(feature = "distributed")]
pub(crate) fn checked_functions() -> Vec<ScalarUDF> {
    use Checked::{Add, Divide, Modulo, Multiply, Negate, Subtract};
    [Add, Subtract, Multiply, Negate, Divide, Modulo].map(Checked::function).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedFunction {
    operator: Checked,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedFunction {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let symbol = self.operator.symbol();
        match arguments {
            [one] => Ok(format!("({symbol} {})", schema_name_from_exprs(std::slice::from_ref(one))?)),
            [left, right] => Ok(format!(
                "{} {symbol} {}",
                schema_name_from_exprs(std::slice::from_ref(left))?,
                schema_name_from_exprs(std::slice::from_ref(right))?
            )),
            _ => plan_err!("an operator has one or two operands"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(ty) => Ok(ty.clone()),
            None => plan_err!("an operator has one or two operands"),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [one] => {
                let is_constant = matches!(one, ColumnarValue::Scalar(_));
                let negated = numeric::neg(&one.to_array(1)?)?;
                value(negated, is_constant)
            }
            [left, right] => {
                let is_constant =
                    matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
                let (left, right) = (Operand::of(left)?, Operand::of(right)?);
                let operate = match self.operator {
                    Checked::Add => numeric::add,
                    Checked::Subtract | Checked::Negate => numeric::sub,
                    Checked::Multiply => numeric::mul,
                    Checked::Divide => numeric::div,
                    Checked::Modulo => numeric::rem,
                };
                if matches!(self.operator, Checked::Divide | Checked::Modulo) {
                    right.check_divisor(&left)?;
                }
                value(operate(left.datum(), right.datum())?, is_constant)
            }
            _ => plan_err!("an operator has one or two operands"),
        }
    }
}

fn value(array: ArrayRef, is_constant: bool) -> Result<ColumnarValue> {
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => ColumnarValue::Array(array),
    })
}

/// A column, or a value that is the same in each row.
enum Operand {
    Column(ArrayRef),
    Constant(Scalar<ArrayRef>),
}

impl Operand {
    fn of(value: &ColumnarValue) -> Result<Operand> {
        Ok(match value {
            ColumnarValue::Array(array) => Operand::Column(ArrayRef::clone(array)),
            ColumnarValue::Scalar(value) => Operand::Constant(value.to_scalar()?),
        })
    }

    fn datum(&self) -> &dyn Datum {
        match self {
            Operand::Column(array) => array,
            Operand::Constant(scalar) => scalar,
        }
    }

    fn array(&self) -> &dyn Array {
        self.datum().get().0
    }

    /// Fails where a divisor is zero, in a row whose dividend is a number.
    fn check_divisor(&self, dividend: &Operand) -> Result<()> {
        let fault = || Err(DataFusionError::from(ArrowError::DivideByZero));
        let divisors = arrow::compute::cast(self.array(), &DataType::Float64)?;
        let divisors = arrow::array::AsArray::as_primitive::<arrow::datatypes::Float64Type>(&divisors);
        let is_zero = |row: usize| divisors.is_valid(row) && divisors.value(row) == 0.0;
        let dividends = dividend.array();
        match (self, dividend) {
            (Operand::Constant(_), _) if !divisors.is_empty() && is_zero(0) => {
                if dividends.null_count() < dividends.len() { fault() } else { Ok(()) }
            }
            (Operand::Constant(_), _) => Ok(()),
            (Operand::Column(_), Operand::Constant(_)) => {
                if dividends.is_valid(0) && (0..divisors.len()).any(is_zero) { fault() } else { Ok(()) }
            }
            (Operand::Column(_), Operand::Column(_)) => {
                let has_fault = (0..divisors.len()).any(|row| is_zero(row) && dividends.is_valid(row));
                if has_fault { fault() } else { Ok(()) }
            }
        }
    }
}
