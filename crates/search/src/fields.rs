//! The fields of a segment: each column is one field for each kind that it is indexed as, and one for having a value.

use serde::{Deserialize, Serialize};
use swiftwater_text::{ColumnIndex, EVENT_COLUMN, SearchField};
use tantivy::schema::{IndexRecordOption, Schema, TextFieldIndexing, TextOptions};

/// The terms of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldKind {
    /// One term, of each row that has a value.
    Presence,
    /// Words, with the positions of each.
    Words,
    /// Words and how often they occur; their positions are not known.
    WordCounts,
    /// Whole values.
    Values,
    /// Whole values and their ancestors.
    Categories,
}

/// A field of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexField {
    /// The column.
    pub column: String,
    /// The type of the column, as Arrow prints it, and whether its texts are JSON.
    pub ty: String,
    /// The kinds that the column is indexed as, as the metadata of its field.
    pub index: String,
    /// Its terms.
    pub kind: FieldKind,
    /// The number of terms in all rows together, each occurrence counted.
    pub tokens: u64,
    /// The number of rows that have a term.
    pub rows: u64,
    /// The number of different terms.
    pub terms: u64,
}

impl FieldKind {
    /// True if lengths of texts are kept, for scores.
    pub(crate) fn has_lengths(self) -> bool {
        matches!(self, FieldKind::Words | FieldKind::WordCounts)
    }

    pub(crate) fn record_option(self) -> IndexRecordOption {
        match self {
            FieldKind::Words => IndexRecordOption::WithFreqsAndPositions,
            FieldKind::WordCounts => IndexRecordOption::WithFreqs,
            FieldKind::Presence | FieldKind::Values | FieldKind::Categories => IndexRecordOption::Basic,
        }
    }
}

impl IndexField {
    fn new(field: &SearchField, index: &str, kind: FieldKind) -> IndexField {
        let (column, ty) = (field.name.to_string(), type_name(field));
        IndexField { column, ty, index: index.to_owned(), kind, tokens: 0, rows: 0, terms: 0 }
    }

    /// True if it is of the same column, type, definition and kind.
    pub(crate) fn is_same(&self, other: &IndexField) -> bool {
        (&self.column, &self.ty, &self.index, self.kind)
            == (&other.column, &other.ty, &other.index, other.kind)
    }
}

/// The type of a column as fields have it.
pub(crate) fn type_name(column: &SearchField) -> String {
    if column.is_json { format!("{} of JSON", column.ty) } else { column.ty.to_string() }
}

/// The fields of the columns that an index covers, with the place of each column in `columns`. The rows that have the event's own
/// text are always known, as it precedes columns.
pub(crate) fn fields_of(columns: &[SearchField]) -> Vec<(usize, IndexField)> {
    let mut fields = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        if let (Some(metadata), Some(index)) = (&column.index, column.column_index()) {
            fields.extend(
                kinds_of(&index).into_iter().map(|kind| (place, IndexField::new(column, metadata, kind))),
            );
        } else if *column.name == *EVENT_COLUMN {
            fields.push((place, IndexField::new(column, "", FieldKind::Presence)));
        }
    }
    fields
}

fn kinds_of(index: &ColumnIndex) -> Vec<FieldKind> {
    let mut kinds = vec![FieldKind::Presence];
    kinds.extend(index.text.map(|text| match text.has_positions {
        true => FieldKind::Words,
        false => FieldKind::WordCounts,
    }));
    kinds.extend(index.id.map(|_| FieldKind::Values));
    kinds.extend(index.facet.as_ref().map(|_| FieldKind::Categories));
    kinds
}

/// The fields as tantivy numbers them: in their order.
pub(crate) fn schema_of(fields: &[IndexField]) -> Schema {
    let mut schema = Schema::builder();
    for (number, field) in fields.iter().enumerate() {
        let indexing = TextFieldIndexing::default()
            .set_index_option(field.kind.record_option())
            .set_fieldnorms(field.kind.has_lengths());
        schema.add_text_field(&number.to_string(), TextOptions::default().set_indexing_options(indexing));
    }
    schema.build()
}
