//! `facet(path, level)`: the first levels of a path, which is a text such as `books/fiction/new`.
//!
//! `facet('books/fiction/new', 2)` is `books/fiction`. A path with fewer levels is itself, and null is null.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::{ErrorKind, SqlError};

const NAME: &str = "facet";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Facet {
    signature: Signature,
}

impl Facet {
    pub(crate) fn new() -> Facet {
        Facet { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Facet {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let [paths, levels] = args.args.as_slice() else {
            return Err(refused("facet has a path and a level"));
        };
        let array = |value: &ColumnarValue, ty: &DataType| -> Result<ArrayRef> {
            Ok(cast(&value.clone().into_array(rows)?, ty)?)
        };
        let (paths, levels) = (array(paths, &DataType::Utf8View)?, array(levels, &DataType::Int64)?);
        let (paths, levels) = (paths.as_string_view(), levels.as_primitive::<Int64Type>());
        let mut values = Vec::with_capacity(rows);
        for (path, level) in paths.iter().zip(levels.iter()) {
            let (Some(path), Some(level)) = (path, level) else {
                values.push(None);
                continue;
            };
            let level = usize::try_from(level).ok().filter(|level| *level > 0);
            let level = level.ok_or_else(|| refused("the level of facet is a whole number from 1"))?;
            values.push(Some(first_levels(path, level)));
        }
        let values: ArrayRef = Arc::new(StringViewArray::from_iter(values));
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

fn first_levels(path: &str, levels: usize) -> &str {
    let end = path.match_indices('/').nth(levels - 1).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

fn refused(message: &str) -> datafusion::error::DataFusionError {
    SqlError::new(ErrorKind::Invalid, message)
        .with_hint("Write facet(category, 2) for the first two levels.")
        .into()
}

#[cfg(test)]
mod tests {
    use super::first_levels;

    #[test]
    fn path_has_its_first_levels() {
        for (levels, expected) in [(1, "a"), (2, "a/b"), (3, "a/b/c"), (4, "a/b/c")] {
            assert_eq!(first_levels("a/b/c", levels), expected);
        }
        assert_eq!((first_levels("", 1), first_levels("/x", 1), first_levels("é/x", 1)), ("", "", "é"));
    }
}
