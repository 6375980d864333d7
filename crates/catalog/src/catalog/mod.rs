//! The catalog's contents: all named durable objects. The statements over each kind are in the modules below.

mod alert;
mod endpoint;
mod job;
mod search_index;
mod stream;
mod stream_join;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use swiftwater_event::StreamName;

use crate::kind::{
    alert::AlertEntry, durable_query::DurableQueries, endpoint::Endpoints, job::JobEntry,
    saved::SavedObjects, search_index::SearchIndexes, sink::Sinks, stream::StreamEntry,
    stream_join::JoinEntry, view::ViewEntry,
};

/// All that is named and durable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalog {
    pub(crate) next_stream: u32,
    pub(crate) streams: BTreeMap<StreamName, StreamEntry>,
    /// Stored streams that were dropped and whose tables may still be there, in whole or in part.
    pub(crate) dropped: BTreeSet<StreamName>,
    pub(crate) next_view: u32,
    pub(crate) views: BTreeMap<Box<str>, ViewEntry>,
    pub(crate) alerts: BTreeMap<Box<str>, AlertEntry>,
    pub(crate) joins: BTreeMap<Box<str>, JoinEntry>,
    pub(crate) next_job: u32,
    pub(crate) jobs: BTreeMap<Box<str>, JobEntry>,
    pub(crate) endpoints: Endpoints,
    pub(crate) sinks: Sinks,
    pub(crate) durable_queries: DurableQueries,
    pub(crate) search_indexes: SearchIndexes,
    /// Shared, because the catalog is copied for each change of any object.
    pub(crate) saved: Arc<SavedObjects>,
    /// The id of the store that has the tables, once it is known. It is not logged: a store can be asked for it again.
    pub store: Option<Box<str>>,
    /// Plain tables that are there, so that one is missed whose files are gone. They are not logged either: a store
    /// lists its own, and a table that was made just before a crash is recorded at the next start.
    pub plain: BTreeSet<Box<str>>,
}

/// The stream, and the view if it is one, that a view is of.
pub type SourceNames = (StreamName, Option<Box<str>>);

impl Catalog {
    /// All sinks.
    pub fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// All endpoints.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// All durable queries.
    pub fn durable_queries(&self) -> &DurableQueries {
        &self.durable_queries
    }

    /// All saved objects and links.
    pub fn saved(&self) -> &SavedObjects {
        &self.saved
    }

    /// All search indexes.
    pub fn search_indexes(&self) -> &SearchIndexes {
        &self.search_indexes
    }
}
