//! The metadata of a table's fields: which texts are JSON, and how a search index compares the values of a column.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use swiftwater_catalog::kind::search_index::ColumnValues;
use swiftwater_lang::ddl::CreateSearchIndex;
use swiftwater_store::EVENT_COLUMN;
use swiftwater_text::{SEARCH_METADATA, SearchDefinition, json_field};

/// Metadata of a table's fields beyond their types.
pub(crate) struct FieldMetadata {
    /// Columns whose texts are JSON.
    pub(crate) json: Vec<Box<str>>,
    /// The search index of the table, if it has one.
    pub(crate) index: Option<Arc<CreateSearchIndex>>,
}

impl FieldMetadata {
    /// The field with its metadata; none for a field that has none.
    pub(crate) fn describe(&self, field: &Field) -> Option<Field> {
        let is_json =
            *field.data_type() == DataType::Utf8View && self.json.iter().any(|name| **name == **field.name());
        let described = is_json.then(|| json_field(field));
        let indexed = self
            .index
            .as_ref()
            .and_then(|index| index_field(described.as_ref().unwrap_or(field), &index.definition));
        indexed.or(described)
    }
}

/// The field with its kinds in an index; none for a field that the index does not cover.
fn index_field(field: &Field, definition: &SearchDefinition) -> Option<Field> {
    let name = field.name().as_str();
    let index = definition.column(name)?;
    // Beside the declared columns, `*` covers those with texts.
    let is_declared = definition.columns.iter().any(|(declared, _)| **declared == *name);
    if !is_declared && name != EVENT_COLUMN && !values_of(field.data_type()).has_texts {
        return None;
    }
    let mut metadata = field.metadata().clone();
    metadata.insert(SEARCH_METADATA.to_owned(), index.to_metadata());
    Some(field.clone().with_metadata(metadata))
}

/// The values of a type, at any depth. Keys of maps are no values.
pub(crate) fn values_of(ty: &DataType) -> ColumnValues {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnValues::TEXTS,
        DataType::Boolean => ColumnValues::WHOLE,
        ty if ty.is_integer() => ColumnValues::WHOLE,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => values_of(field.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                fields.last().map_or(ColumnValues::OTHER, |values| values_of(values.data_type()))
            }
            _ => ColumnValues::OTHER,
        },
        DataType::Struct(fields) => fields
            .iter()
            .map(|field| values_of(field.data_type()))
            .fold(ColumnValues::OTHER, ColumnValues::or),
        DataType::Dictionary(_, values) => values_of(values),
        _ => ColumnValues::OTHER,
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_ddl};
    use swiftwater_text::{SearchField, TextIndex};

    use super::*;

    fn index(text: &str) -> Option<Arc<CreateSearchIndex>> {
        let text = format!("CREATE SEARCH INDEX ON t ({text}");
        match parse_ddl(&text, &ParseOptions::new(Dialect::Native, 0)) {
            Ok(Some(Ddl::CreateSearchIndex(create))) => Some(Arc::new(create)),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// The names of the fields with metadata of an index, and whether they are default columns.
    fn covered(metadata: &FieldMetadata) -> Vec<(String, bool)> {
        let fields = [
            ("_offset", DataType::Int64),
            ("_event", DataType::Utf8View),
            ("message", DataType::Utf8View),
            ("body", DataType::Utf8View),
            ("host", DataType::Utf8),
            ("status", DataType::Int64),
            ("tags", DataType::new_list(DataType::Utf8View, true)),
            ("sizes", DataType::new_list(DataType::Int64, true)),
        ];
        let described = fields.into_iter().filter_map(|(name, ty)| {
            let field = metadata.describe(&Field::new(name, ty, true))?;
            let is_json = SearchField::of(&field).is_json;
            assert_eq!(is_json, metadata.json.iter().any(|json| **json == *name), "{name}");
            let index = swiftwater_text::ColumnIndex::from_metadata(field.metadata().get(SEARCH_METADATA)?)?;
            Some((name.to_owned(), index.is_default))
        });
        described.collect()
    }

    #[test]
    fn fields_have_the_kinds_that_the_definition_says() {
        let names = |text: &str, expected: &[(&str, bool)]| {
            let metadata = FieldMetadata { json: vec!["body".into()], index: index(text) };
            let found = covered(&metadata);
            let found: Vec<(&str, bool)> =
                found.iter().map(|(name, is_default)| (&**name, *is_default)).collect();
            assert_eq!(found, expected, "{text}");
        };
        names("message TEXT, status ID)", &[("message", true), ("status", false)]);
        names("*)", &[("_event", true), ("message", true), ("body", true), ("host", true), ("tags", true)]);
        names(
            "message TEXT, host ID, sizes ID, *) WITH (default = message)",
            &[
                ("_event", false),
                ("message", true),
                ("body", false),
                ("host", false),
                ("tags", false),
                ("sizes", false),
            ],
        );
        let none = FieldMetadata { json: vec!["body".into()], index: None };
        assert_eq!(covered(&none), []);
    }

    #[test]
    fn metadata_is_the_declared_index() {
        let metadata =
            FieldMetadata { json: Vec::new(), index: index("message TEXT BOOST 2, message FACET '/')") };
        let field = metadata.describe(&Field::new("message", DataType::Utf8View, true)).unwrap();
        let index = SearchField::of(&field).column_index().unwrap();
        assert_eq!(index.text, Some(TextIndex { boost: 2.0, ..TextIndex::default() }));
        assert_eq!(index.facet.and_then(|facet| facet.separator).as_deref(), Some("/"));
    }

    #[test]
    fn keys_of_maps_are_no_values() {
        let entries = |ty: DataType| {
            let fields = vec![Field::new("key", DataType::Utf8, false), Field::new("value", ty, true)];
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields.into()), false)), false)
        };
        assert_eq!(values_of(&entries(DataType::Int64)), ColumnValues::WHOLE);
        assert_eq!(values_of(&entries(DataType::Utf8)), ColumnValues::TEXTS);
        let fields = vec![Field::new("a", DataType::Float64, true), Field::new("b", DataType::Boolean, true)];
        assert_eq!(values_of(&DataType::Struct(fields.into())), ColumnValues::WHOLE);
        assert_eq!(values_of(&DataType::Float64), ColumnValues::OTHER);
    }
}
