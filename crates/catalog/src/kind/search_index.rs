//! Search indexes: one per stored stream or plain table, which names it. An index is dropped with its stream or table.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, Primitive, Type, did_you_mean};
use swiftwater_lang::ddl::{
    AlterSearchIndex, AlterStream, CreateSearchIndex, Ddl, DefinitionError, SYSTEM_COLUMNS,
    SearchIndexChange, type_text,
};
use swiftwater_text::{ColumnIndex, IndexKind, SearchDefinition};

use crate::{
    Catalog, CatalogError, Change, Dependency, Object, ObjectKind, WireError, catalog::read,
    kind::stream::StreamEntry,
};

/// All search indexes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchIndexes {
    next: u32,
    indexes: BTreeMap<Box<str>, SearchIndexEntry>,
}

/// A search index that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchIndexEntry {
    /// The number of its definition. An altered index has another; no number is used again.
    pub id: u32,
    /// When it was created.
    pub created: Millis,
    /// Its declaration as it is now.
    pub create: Arc<CreateSearchIndex>,
}

/// All search indexes within a snapshot of the catalog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SearchIndexesSnapshot {
    next: u32,
    indexes: Vec<SearchIndexSnapshot>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SearchIndexSnapshot {
    id: u32,
    created: Millis,
    text: String,
}

/// A column of a stream or table that a search index may cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedColumn {
    /// Its name.
    pub name: Box<str>,
    /// Its type, as messages name it.
    pub ty: String,
    /// The values that it can have.
    pub values: ColumnValues,
}

/// The values that a column can have, at any depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnValues {
    /// It can have texts.
    pub has_texts: bool,
    /// It can have values that are found whole: texts, whole numbers or booleans.
    pub has_whole: bool,
}

impl ColumnValues {
    /// Texts.
    pub const TEXTS: ColumnValues = ColumnValues { has_texts: true, has_whole: true };
    /// Whole numbers or booleans.
    pub const WHOLE: ColumnValues = ColumnValues { has_texts: false, has_whole: true };
    /// Neither.
    pub const OTHER: ColumnValues = ColumnValues { has_texts: false, has_whole: false };

    /// The values of a type.
    pub fn of(ty: &Type) -> ColumnValues {
        match ty {
            Type::Any | Type::Primitive(Primitive::String) => ColumnValues::TEXTS,
            Type::Primitive(Primitive::Boolean | Primitive::Integer | Primitive::Long) => ColumnValues::WHOLE,
            Type::Primitive(_) => ColumnValues::OTHER,
            Type::List(ty) | Type::Map(ty) => ColumnValues::of(ty),
        }
    }

    /// The values of either.
    #[must_use]
    pub fn or(self, other: ColumnValues) -> ColumnValues {
        ColumnValues {
            has_texts: self.has_texts || other.has_texts,
            has_whole: self.has_whole || other.has_whole,
        }
    }

    /// True if values of a column can be indexed as its declared kinds; the error is the first kind for which they cannot.
    fn check(self, index: &ColumnIndex) -> Result<(), IndexKind> {
        let is_path = index.facet.as_ref().is_some_and(|facet| facet.separator.is_some());
        let is_possible = |kind| match kind {
            IndexKind::Text => self.has_texts,
            IndexKind::Facet if is_path => self.has_texts,
            IndexKind::Id | IndexKind::Facet => self.has_whole,
        };
        index.kinds().find(|kind| !is_possible(*kind)).map_or(Ok(()), Err)
    }
}

impl IndexedColumn {
    /// A column of a stream.
    pub fn new(name: &str, ty: &Type) -> IndexedColumn {
        IndexedColumn { name: name.into(), ty: type_text(ty), values: ColumnValues::of(ty) }
    }
}

impl StreamEntry {
    /// The columns that a search index may cover: those that are declared, or were found so far.
    pub fn indexed_columns(&self) -> Vec<IndexedColumn> {
        let declared = self.create.columns.iter().map(|column| IndexedColumn::new(&column.name, &column.ty));
        declared.chain(self.found.iter().map(|column| IndexedColumn::new(&column.name, &column.ty))).collect()
    }
}

impl SearchIndexEntry {
    /// The index as an object.
    pub fn object(&self) -> Object {
        ObjectKind::SearchIndex.named(&*self.create.table)
    }

    /// Its columns.
    pub fn definition(&self) -> &SearchDefinition {
        &self.create.definition
    }
}

impl SearchIndexes {
    /// All, by the names of their streams and tables.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &SearchIndexEntry> {
        self.indexes.values()
    }

    /// The index of a stream or table, if it has one.
    pub fn of(&self, table: &str) -> Option<&SearchIndexEntry> {
        self.indexes.get(table)
    }

    /// The index of a stream or table; an error if it has none.
    pub fn get(&self, table: &str) -> Result<&SearchIndexEntry, CatalogError> {
        self.of(table).ok_or_else(|| CatalogError::not_found(ObjectKind::SearchIndex, table))
    }

    pub(crate) fn create(&mut self, create: &CreateSearchIndex, at: Millis) -> Result<bool, CatalogError> {
        if self.indexes.contains_key(&create.table) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::SearchIndex, &create.table);
        }
        let create = Arc::new(CreateSearchIndex { if_not_exists: false, ..create.clone() });
        let entry = SearchIndexEntry { id: self.allocate(), created: at, create };
        self.indexes.insert(entry.create.table.clone(), entry);
        Ok(true)
    }

    pub(crate) fn alter(&mut self, alter: &AlterSearchIndex) -> Result<bool, CatalogError> {
        let entry = self.get(&alter.table)?;
        let altered = entry.create.altered(&alter.changes)?;
        if altered == *entry.create {
            return Ok(false);
        }
        let entry = SearchIndexEntry { create: Arc::new(altered), ..entry.clone() };
        let entry = SearchIndexEntry { id: self.allocate(), ..entry };
        self.indexes.insert(entry.create.table.clone(), entry);
        Ok(true)
    }

    pub(crate) fn drop(&mut self, table: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.indexes.remove(table) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::SearchIndex, table)),
            removed => Ok(removed.is_some()),
        }
    }

    fn allocate(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn snapshot(&self) -> SearchIndexesSnapshot {
        let indexes = self.indexes.values().map(|SearchIndexEntry { id, created, create }| {
            let text = create.to_string();
            SearchIndexSnapshot { id: *id, created: *created, text }
        });
        SearchIndexesSnapshot { next: self.next, indexes: indexes.collect() }
    }

    pub(crate) fn from_snapshot(snapshot: &SearchIndexesSnapshot) -> Result<SearchIndexes, WireError> {
        let mut indexes = BTreeMap::new();
        for SearchIndexSnapshot { id, created, text } in &snapshot.indexes {
            let Ddl::CreateSearchIndex(create) = read(text)? else { return Err(WireError::unexpected(text)) };
            let entry = SearchIndexEntry { id: *id, created: *created, create: Arc::new(create) };
            indexes.insert(entry.create.table.clone(), entry);
        }
        Ok(SearchIndexes { next: snapshot.next, indexes })
    }
}

impl SearchIndexesSnapshot {
    pub(crate) fn is_empty(&self) -> bool {
        self.next == 0
    }
}

impl Catalog {
    /// Forgets the index of a table that is gone. It is not logged: a start finds an index without a table again.
    pub fn forget_index(&mut self, table: &str) {
        self.search_indexes.indexes.remove(table);
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

    /// As [`Catalog::check`], of `CREATE SEARCH INDEX` over the columns of the stream or table, as its owner has them. The
    /// change names the columns as they are declared there.
    pub fn check_create_index(
        &self,
        create: &CreateSearchIndex,
        columns: &[IndexedColumn],
    ) -> Result<Option<Change>, CatalogError> {
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
        Ok(Some(Change::Ddl(create.altered(&[])?.to_string())))
    }

    /// As [`Catalog::check_create_index`], of `ALTER SEARCH INDEX`.
    pub fn check_alter_index(
        &self,
        alter: &AlterSearchIndex,
        columns: &[IndexedColumn],
    ) -> Result<Option<Change>, CatalogError> {
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
        Ok(is_changed.then(|| Change::Ddl(alter.to_string())))
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
