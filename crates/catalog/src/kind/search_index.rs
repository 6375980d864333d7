//! Search indexes: one per stored stream or plain table, which names it. An index is dropped with its stream or table.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, Primitive, Type};
use swiftwater_lang::ddl::{AlterSearchIndex, CreateSearchIndex, Ddl, type_text};
use swiftwater_text::{ColumnIndex, IndexKind, SearchDefinition};

use crate::{CatalogError, Object, ObjectKind, WireError, statement::read};

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
    /// Time of its creation.
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
    /// Values that are whole numbers or booleans.
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
    pub(crate) fn check(self, index: &ColumnIndex) -> Result<(), IndexKind> {
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
