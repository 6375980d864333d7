//! `date_format` of the native dialect: DataFusion's function with strftime patterns; a pattern without `%` is refused.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use crate::SqlError;

/// DataFusion's function under its other name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StrftimeOnly(Arc<ScalarUDF>);

impl StrftimeOnly {
    pub(super) fn new(function: Arc<ScalarUDF>) -> StrftimeOnly {
        StrftimeOnly(function)
    }
}

impl ScalarUDFImpl for StrftimeOnly {
    fn name(&self) -> &str {
        "date_format"
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(pattern)))) = arguments.args.get(1)
            && !pattern.contains('%')
        {
            let error = SqlError::invalid(format!("the pattern `{pattern}` of date_format has no %")).with_hint(
                "date_format uses patterns of strftime: date_format(ts, '%Y-%m-%d'). to_char uses those of \
                 PostgreSQL: to_char(ts, 'YYYY-MM-DD'). With dialect=spark, date_format uses those of Spark.",
            );
            return Err(DataFusionError::External(Box::new(error)));
        }
        self.0.invoke_with_args(arguments)
    }
}
