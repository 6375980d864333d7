//! Writes a nested value as its JSON text, as in CSV, for files that DataFusion writes.

use std::sync::Arc;

use arrow::array::StringBuilder;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::cells::Cells;

/// A function of one argument of any type. No statement can call it by its name.
pub(crate) fn json_text() -> ScalarUDF {
    ScalarUDF::from(JsonText { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonText {
    signature: Signature,
}

impl ScalarUDFImpl for JsonText {
    fn name(&self) -> &str {
        "json_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else {
            return Err(DataFusionError::Internal("json_text takes one value".to_owned()));
        };
        let rows = arguments.number_rows;
        let cells = Cells::new(&value.to_array(rows)?)?;
        let mut texts = StringBuilder::with_capacity(rows, 0);
        let mut text = Vec::new();
        for row in 0..rows {
            text.clear();
            if cells.write_plain(row, &mut text) {
                texts.append_value(String::from_utf8_lossy(&text));
            } else {
                texts.append_null();
            }
        }
        Ok(ColumnarValue::Array(Arc::new(texts.finish())))
    }
}
