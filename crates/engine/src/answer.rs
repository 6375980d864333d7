//! Builds the answers of SHOW, DESCRIBE and the other statements of the engine as record batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};

/// A record batch of these columns, by name. All have the same number of rows, and any value may be null.
pub(crate) fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("all columns have as many rows")
}

/// A column of texts without nulls.
pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}
