//! Evaluates `x = ANY (list)` in three-valued logic.
//!
//! ```text
//! x = ANY (list)     becomes  equals_any(list, x)
//! ```
//!
//! A null among the elements makes the result unknown, unless another element is equal. DataFusion 55 plans the
//! comparison as `array_has`. It returns false there, and null for a null `x` and an empty list.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// `array_has` with PostgreSQL's nulls.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct EqualsAny(Arc<ScalarUDF>);

impl EqualsAny {
    pub(super) const NAME: &str = "equals_any";

    pub(super) fn new(array_has: Arc<ScalarUDF>) -> EqualsAny {
        EqualsAny(array_has)
    }
}

impl ScalarUDFImpl for EqualsAny {
    fn name(&self) -> &str {
        EqualsAny::NAME
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    // Constant lists become `IN`, whose nulls are PostgreSQL's.
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(arguments, context)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = arguments.args.clone();
        let rows = arguments.number_rows;
        let [list, value] = given.as_slice() else { return plan_err!("ANY compares a value with a list") };
        if list.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        }
        let is_constant = given.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { rows };
        let found = self.0.invoke_with_args(arguments)?.to_array(rows)?;
        let (lists, values) = (list.to_array(rows)?, value.to_array(rows)?);
        let element = match lists.data_type() {
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
                element.data_type().clone()
            }
            other => return plan_err!("ANY of {other}, which is not a list"),
        };
        let lists = cast(&lists, &DataType::LargeList(Arc::new(Field::new_list_field(element, true))))?;
        let (lists, found) = (lists.as_list::<i64>(), found.as_boolean());
        let answers = (0..rows).map(|row| {
            if lists.is_null(row) {
                return None;
            }
            let elements = lists.value(row);
            if elements.is_empty() {
                return Some(false);
            }
            if values.is_null(row) {
                return None;
            }
            let is_found = found.is_valid(row) && found.value(row);
            (is_found || elements.logical_null_count() == 0).then_some(is_found)
        });
        let answers: BooleanArray = answers.collect();
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(Arc::new(answers)),
        })
    }
}
