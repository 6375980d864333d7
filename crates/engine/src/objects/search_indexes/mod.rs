//! Search indexes: their statements.
//!
//! A definition changes the answers of searches as soon as it is logged: each reader of a table gets it with the fields of the
//! table ([`FieldMetadata`](crate::tables::field_metadata::FieldMetadata)). Index files are built afterwards, and change the time of a search, never its answer.
//! [`History::notify_index_builder`] is the one place where their builder learns of a change; after a start, it reads the
//! definitions of the catalog.

mod columns;
mod ddl;
mod show;

pub(crate) use ddl::DropSearchIndex;

use std::sync::Arc;

use swiftwater_catalog::kind::search_index::SearchIndexEntry;
use swiftwater_lang::ddl::{CreateSearchIndex, RebuildSearchIndex};

use crate::durable::history::History;

/// A change that the builder of index files follows.
pub(crate) enum IndexChange<'c> {
    /// An index was created or altered: files of earlier definitions are of no use any more.
    Defined(&'c SearchIndexEntry),
    /// The index of a stream or table was dropped, alone or with it.
    Dropped(&'c str),
    /// The files of a range of time are to be built again.
    Rebuild(&'c RebuildSearchIndex),
}

impl History {
    /// The search index of a stream or table, if it has one.
    pub(crate) fn index_of(&self, table: &str) -> Option<Arc<CreateSearchIndex>> {
        self.with_catalog(|catalog| catalog.search_indexes().of(table).map(|entry| Arc::clone(&entry.create)))
    }

    /// The index of a stream or table is gone, alone or with it.
    pub(crate) fn end_index(&self, table: &str) {
        self.notify_index_builder(&IndexChange::Dropped(table));
    }

    /// Notifies the builder of index files of a change; answers whether there is anything to build. There are no index files
    /// yet, so there never is.
    pub(crate) fn notify_index_builder(&self, change: &IndexChange<'_>) -> bool {
        match change {
            IndexChange::Defined(SearchIndexEntry { id, create, .. }) => {
                tracing::info!(table = &*create.table, definition = id, "a search index is defined");
            }
            IndexChange::Dropped(table) => tracing::debug!(table, "the table has no search index"),
            IndexChange::Rebuild(RebuildSearchIndex { table, .. }) => {
                tracing::info!(table = &**table, "a search index has no files to build again");
            }
        }
        false
    }
}
