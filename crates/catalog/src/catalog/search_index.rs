//! The statements over search indexes.

use swiftwater_event::did_you_mean;
use swiftwater_lang::ddl::{
    AlterSearchIndex, AlterStream, CreateSearchIndex, DefinitionError, SYSTEM_COLUMNS, SearchIndexChange,
};
use swiftwater_text::{ColumnIndex, SearchDefinition};

use crate::{
    Catalog, CatalogError, Dependency, Object, ObjectKind,
    kind::{search_index::IndexedColumn, stream::StreamEntry},
};

impl StreamEntry {
    /// The columns that a search index may cover: those that are declared, or were found so far.
    pub fn indexed_columns(&self) -> Vec<IndexedColumn> {
        let declared = self.create.columns.iter().map(|column| IndexedColumn::new(&column.name, &column.ty));
        declared.chain(self.found.iter().map(|column| IndexedColumn::new(&column.name, &column.ty))).collect()
    }
}

impl Catalog {
    /// Forgets the index of a table that is gone. It is not logged: a start finds an index without a table again.
    pub fn forget_index(&mut self, table: &str) {
        let _ = self.search_indexes.drop(table, true);
    }

    /// The names of indexes whose tables are gone: they name neither a stored stream nor, by `is_table`, a plain table.
    pub fn orphaned_indexes(&self, is_table: impl Fn(&str) -> bool) -> Vec<Box<str>> {
        let is_stream = |name: &str| self.known_stream(name).is_ok_and(|stream| stream.create.is_stored());
        let tables = self.search_indexes.all().map(|entry| &entry.create.table);
        tables.filter(|table| !is_stream(table) && !is_table(table)).cloned().collect()
    }

    /// The stored stream or plain table of a name, as a search index can be of it; an error if there is none.
    pub fn indexed_object(&self, table: &str) -> Result<Object, CatalogError> {
        match self.known_stream(table) {
            Ok(stream) if stream.create.is_stored() => Ok(stream.object()),
            // A table may have the name of a stream that is live-only.
            _ if self.plain.contains(table) => Ok(ObjectKind::Table.named(table)),
            _ if self.has_view(table) => Err(CatalogError::ViewIndexed(table.to_owned())),
            found => {
                found.map_err(|_| CatalogError::NothingToIndex(table.to_owned()))?;
                Err(CatalogError::NotStored { stream: table.to_owned(), by: ObjectKind::SearchIndex })
            }
        }
    }

    /// The statement with the columns as they are declared in the stream or table; none if it would change nothing.
    pub(crate) fn resolve_create_index(
        &self,
        create: &CreateSearchIndex,
        columns: &[IndexedColumn],
    ) -> Result<Option<CreateSearchIndex>, CatalogError> {
        if !self.search_indexes.clone().create(create, 0)? {
            return Ok(None);
        }
        let columns = Columns { table: self.indexed_object(&create.table)?, columns };
        let mut definition =
            SearchDefinition { covers_all: create.definition.covers_all, ..SearchDefinition::default() };
        for (name, index) in &create.definition.columns {
            let column: Box<str> = columns.check(name, index)?.into();
            let twice = |kind| DefinitionError::KindTwice { column: column.clone(), kind };
            definition.add(&column, index.clone()).map_err(twice)?;
        }
        definition.defaults = columns.defaults(&create.definition.defaults)?;
        let create = CreateSearchIndex { definition, ..create.clone() };
        Ok(Some(create.altered(&[])?))
    }

    /// Resolves `ALTER SEARCH INDEX` as [`Catalog::resolve_create_index`] does.
    pub(crate) fn resolve_alter_index(
        &self,
        alter: &AlterSearchIndex,
        columns: &[IndexedColumn],
    ) -> Result<Option<AlterSearchIndex>, CatalogError> {
        let entry = self.search_indexes.get(&alter.table)?;
        let columns = Columns { table: self.indexed_object(&alter.table)?, columns };
        let mut changes = alter.changes.clone();
        for change in &mut changes {
            match change {
                SearchIndexChange::Add { column, index } => *column = columns.check(column, index)?.into(),
                SearchIndexChange::SetDefaults(names) => *names = columns.defaults(names)?,
                _ => {}
            }
        }
        let alter = AlterSearchIndex { table: alter.table.clone(), changes };
        let is_changed = entry.create.altered(&alter.changes)? != *entry.create;
        Ok(is_changed.then_some(alter))
    }

    /// An error where a stream, as it was altered, has a column whose values its search index cannot have.
    pub(crate) fn check_index_of(&self, alter: &AlterStream) -> Result<(), CatalogError> {
        let index = self.search_indexes.of(alter.name.as_str());
        let Some((index, stream)) = index.zip(self.streams.get(&alter.name)) else { return Ok(()) };
        for column in stream.indexed_columns() {
            let declared = index.definition().columns.iter().find(|(name, _)| *name == column.name);
            if declared.is_some_and(|(_, index)| column.values.check(index).is_err()) {
                let dependency = Dependency::on_column(index.object(), stream.object(), &*column.name);
                return Err(CatalogError::InUse(dependency));
            }
        }
        Ok(())
    }
}

/// The columns of the stream or table that an index is of.
struct Columns<'c> {
    table: Object,
    columns: &'c [IndexedColumn],
}

impl Columns<'_> {
    /// The column of a name: the one of this very name, or the one that differs in letter case.
    fn named(&self, name: &str) -> Result<&IndexedColumn, CatalogError> {
        let names = || self.columns.iter();
        let exact = names().find(|column| *column.name == *name);
        let found =
            exact.or_else(|| names().find(|column| column.name.to_lowercase() == name.to_lowercase()));
        found.ok_or_else(|| CatalogError::NoIndexedColumn {
            table: self.table.clone(),
            column: name.to_owned(),
            is_system: SYSTEM_COLUMNS.iter().any(|system| system.eq_ignore_ascii_case(name)),
            near: did_you_mean(name, names().map(|column| &*column.name)).map(str::to_owned),
        })
    }

    /// The name of a column that can be indexed so.
    fn check(&self, name: &str, index: &ColumnIndex) -> Result<&str, CatalogError> {
        let IndexedColumn { name, ty, values } = self.named(name)?;
        let refused = |kind| CatalogError::NotIndexed { column: name.to_string(), ty: ty.clone(), kind };
        values.check(index).map_err(refused)?;
        Ok(name)
    }

    /// The names of default columns. Those that `*` covers need texts, too.
    fn defaults(&self, names: &[Box<str>]) -> Result<Vec<Box<str>>, CatalogError> {
        let text = ColumnIndex { text: Some(Default::default()), ..ColumnIndex::default() };
        names.iter().map(|name| self.check(name, &text).map(Into::into)).collect()
    }
}

#[cfg(test)]
mod tests;
