//! Checks that the copies of a large constant fit in memory before the constant becomes a column.
//!
//! ```text
//! before: SELECT 'a large text', x FROM t     after: SELECT spread('a large text'), x FROM t
//! ```
//!
//! A constant is one value until something needs it as a column. Examples: `array_agg(range(1, 100000)) OVER ()`,
//! `unnest` of a list that is the same for each row, a text in a SELECT. DataFusion then copies it for each of up to
//! 8,192 rows in one call. These are gigabytes that no pool counts. In an optimized plan, each large constant is wrapped
//! in a function. The function checks whether the copies fit, and then returns the constant. Functions and comparisons
//! take a constant as one value, so their constants are not wrapped.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result, human_readable_size};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::watched;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// A constant is large if the copies of a batch would take more than the memory of its statement divided by this.
const LARGE_SHARE: usize = 8;
/// The copies of a constant may take the memory of their statement divided by this.
const COPIES_SHARE: usize = 2;

/// Wraps a constant that is large, and unwraps those of a parent that takes them as one value. For a walk from the leaves up.
pub(crate) fn spread(expr: Expr, memory_bytes_max: usize) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Literal(ref value, _)
            if value.size().saturating_mul(BATCH_ROWS) > memory_bytes_max / LARGE_SHARE =>
        {
            let func = Arc::new(spread_function(memory_bytes_max));
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: vec![expr] })))
        }
        Expr::ScalarFunction(mut call) if !is_spread(&call.func) && !call.func.short_circuits() => {
            call.args = call.args.into_iter().map(constant).collect();
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        Expr::BinaryExpr(mut binary) => {
            (*binary.left, *binary.right) = (constant(*binary.left), constant(*binary.right));
            Ok(Transformed::yes(Expr::BinaryExpr(binary)))
        }
        Expr::Like(mut like) => {
            (*like.expr, *like.pattern) = (constant(*like.expr), constant(*like.pattern));
            Ok(Transformed::yes(Expr::Like(like)))
        }
        Expr::InList(mut list) => {
            list.list = list.list.into_iter().map(constant).collect();
            Ok(Transformed::yes(Expr::InList(list)))
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            params.args = with_options(params.args, memory_bytes_max)?;
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })))
        }
        Expr::WindowFunction(mut window) => {
            window.params.args = with_options(window.params.args, memory_bytes_max)?;
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The arguments of an aggregate or of a window function. Those behind the first, as the separator of `string_agg` and the default of
/// `lag`, have to be constants in the plan, and are copied all the same.
fn with_options(args: Vec<Expr>, memory_bytes_max: usize) -> Result<Vec<Expr>> {
    let mut given = Vec::with_capacity(args.len());
    for (index, arg) in args.into_iter().enumerate() {
        if index == 0 {
            given.push(arg);
            continue;
        }
        let arg = constant(arg);
        if let Expr::Literal(value, _) = &arg {
            check(value.size().saturating_mul(BATCH_ROWS), memory_bytes_max)?;
        }
        given.push(arg);
    }
    Ok(given)
}

/// Returns true if it is the function that constants are wrapped in.
pub(crate) fn is_spread(func: &ScalarUDF) -> bool {
    func.inner().is::<Spread>()
}

fn constant(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if is_spread(&call.func) && call.args.len() == 1 => {
            call.args.remove(0)
        }
        other => other,
    }
}

fn check(bytes: usize, memory_bytes_max: usize) -> Result<()> {
    if bytes <= memory_bytes_max / COPIES_SHARE {
        return watched::check_room(bytes);
    }
    // Worded as the pool's own, which errors are made of.
    Err(DataFusionError::ResourcesExhausted(format!(
        "Failed to allocate additional {} for the copies of a constant, which may be half of the limit for the total memory pool: \
         expressions(pool_size: {})",
        human_readable_size(bytes),
        human_readable_size(memory_bytes_max),
    )))
}

/// The function that checks the room of a constant.
pub(crate) fn spread_function(memory_bytes_max: usize) -> ScalarUDF {
    ScalarUDF::from(Spread::new(memory_bytes_max))
}

/// Returns its only argument, a constant, if its copies for each row have room.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    signature: Signature,
    memory_bytes_max: usize,
}

impl Spread {
    fn new(memory_bytes_max: usize) -> Spread {
        // Not folded into a constant again.
        Spread { signature: Signature::any(1, Volatility::Volatile), memory_bytes_max }
    }
}

impl ScalarUDFImpl for Spread {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|arg| arg.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let value = arguments.args.into_iter().next();
        let value = value.ok_or_else(|| DataFusionError::Internal("a constant is one value".to_owned()))?;
        if let ColumnarValue::Scalar(value) = &value {
            check(value.size().saturating_mul(rows), self.memory_bytes_max)?;
        }
        Ok(value)
    }
}
