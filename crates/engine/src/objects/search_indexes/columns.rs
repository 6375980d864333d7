//! The columns of a stream or table that a search index may cover.

use swiftwater_catalog::{ObjectKind, kind::search_index::IndexedColumn};
use swiftwater_event::StreamName;
use swiftwater_lang::ddl::SearchIndexChange;
use swiftwater_sql::{SqlError, Tables, type_name};

use crate::{EngineError, durable::history::History, shared::Shared, tables::field_metadata::values_of};

impl History {
    /// The columns of a stored stream or plain table. `named` are those that a statement names: where one of them was not found
    /// in a stream's events so far, the events that were acknowledged are looked at first.
    pub(super) async fn indexed_columns(
        &self,
        shared: &Shared,
        table: &str,
        named: &[&str],
    ) -> Result<Vec<IndexedColumn>, EngineError> {
        let object = self.with_catalog(|catalog| catalog.indexed_object(table))?;
        let tables = shared.tables.get().ok_or(EngineError::NoHistory)?;
        if object.kind != ObjectKind::Stream {
            let schema = tables.plain_schema(table).await.map_err(|error| unreadable(&error))?;
            let schema = schema.ok_or_else(|| EngineError::not_found(ObjectKind::Table, table))?;
            let columns = schema.fields().iter().map(|field| IndexedColumn {
                name: field.name().as_str().into(),
                ty: type_name(field.data_type()),
                values: values_of(field.data_type()),
            });
            return Ok(columns.collect());
        }
        let stored = StreamName::new(table).ok().and_then(|name| self.stored(&name));
        let stored = stored.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, table))?;
        let known = || {
            let declared = stored.declared();
            let found = declared.columns.found();
            let columns = declared.create.columns.iter().chain(&found);
            columns.map(|column| IndexedColumn::new(&column.name, &column.ty)).collect::<Vec<_>>()
        };
        let columns = known();
        let is_known = |name: &str| columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
        if stored.declared().create.is_declared() || named.iter().all(|name| is_known(name)) {
            return Ok(columns);
        }
        match tables.table(table, None).await {
            Ok(_) => Ok(known()),
            Err(error) => Err(unreadable(&error)),
        }
    }
}

/// The columns of a table cannot be read at present.
fn unreadable(error: &SqlError) -> EngineError {
    EngineError::Table(error.to_string())
}

/// The columns that changes of an index name, as far as they must exist.
pub(super) fn named_columns(changes: &[SearchIndexChange]) -> Vec<&str> {
    let mut named = Vec::new();
    for change in changes {
        match change {
            SearchIndexChange::Add { column, .. } => named.push(&**column),
            SearchIndexChange::SetDefaults(columns) => named.extend(columns.iter().map(|column| &**column)),
            _ => {}
        }
    }
    named
}
