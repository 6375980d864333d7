//! Search indexes: their statements.
//!
//! A definition changes the answers of searches as soon as it is logged: each reader of a table gets it with the fields of the
//! table ([`FieldMetadata`](crate::tables::field_metadata::FieldMetadata)). Index files are built afterwards, and change the time of a
//! search, never its answer. [`History::connect_index`] is the one place where a table learns which it has.

mod columns;
mod ddl;
mod figures;
mod show;

pub(crate) use ddl::DropSearchIndex;

use std::sync::Arc;

use swiftwater_lang::ddl::CreateSearchIndex;

use crate::durable::history::History;

impl History {
    /// The search index of a stream or table, if it has one.
    pub(crate) fn index_of(&self, table: &str) -> Option<Arc<CreateSearchIndex>> {
        self.with_catalog(|catalog| catalog.search_indexes().of(table).map(|entry| Arc::clone(&entry.create)))
    }
}
