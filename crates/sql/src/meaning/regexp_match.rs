//! `regexp_match` as in PostgreSQL: one element for each group of the pattern, null if the group matched nothing.
//!
//! DataFusion 55 omits such elements, so the following ones change their positions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use regex::Regex;

use crate::SqlError;
use crate::error::state;

/// Compiled patterns of one batch; where rows have more, the oldest are compiled again.
const PATTERNS_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RegexpMatch(Arc<ScalarUDF>);

impl RegexpMatch {
    pub(super) fn new(theirs: Arc<ScalarUDF>) -> RegexpMatch {
        RegexpMatch(theirs)
    }
}

impl ScalarUDFImpl for RegexpMatch {
    fn name(&self) -> &str {
        "regexp_match"
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let columns = arguments.args.iter().map(|value| Ok(cast(&value.to_array(rows)?, &DataType::Utf8)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let text_of = |column: usize, row: usize| {
            let column = columns.get(column)?.as_string::<i32>();
            column.is_valid(row).then(|| column.value(row))
        };
        let mut patterns: HashMap<(&str, &str), Regex> = HashMap::new();
        let mut matches = ListBuilder::new(StringBuilder::new());
        for row in 0..rows {
            let flags = if columns.len() > 2 { text_of(2, row) } else { Some("") };
            let (Some(text), Some(pattern), Some(flags)) = (text_of(0, row), text_of(1, row), flags) else {
                matches.append_null();
                continue;
            };
            if !patterns.contains_key(&(pattern, flags)) {
                if patterns.len() >= PATTERNS_MAX {
                    patterns.clear();
                }
                patterns.insert((pattern, flags), compiled(pattern, flags)?);
            }
            let Some(groups) = patterns.get(&(pattern, flags)).and_then(|pattern| pattern.captures(text))
            else {
                matches.append_null();
                continue;
            };
            // Without groups the whole match is the one element.
            let first = usize::from(groups.len() > 1);
            for group in groups.iter().skip(first) {
                matches.values().append_option(group.map(|group| group.as_str()));
            }
            matches.append(true);
        }
        let matches: ArrayRef = Arc::new(matches.finish());
        let matches = cast(&matches, arguments.return_field.data_type())?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&matches, 0)?),
            false => ColumnarValue::Array(matches),
        })
    }
}

fn compiled(pattern: &str, flags: &str) -> Result<Regex> {
    let fault = |error: SqlError| DataFusionError::External(Box::new(error));
    if flags.contains('g') {
        let error = SqlError::invalid("regexp_match() does not support the flag `g`")
            .with_state(state::INVALID_TEXT)
            .with_hint("It returns the first match only: leave the flag out.");
        return Err(fault(error));
    }
    let whole = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
    Regex::new(&whole).map_err(|error| {
        fault(
            SqlError::invalid(format!("the regular expression `{pattern}` does not compile"))
                .with_source(error),
        )
    })
}
