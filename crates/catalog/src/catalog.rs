//! The catalog's contents: all named durable objects, and the checks of a statement against them.

use std::collections::{BTreeMap, BTreeSet};

use swiftwater_event::StreamName;
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{CreateView, Ddl},
    parse_kept_ddl,
};

use crate::{
    CatalogError, Change, ObjectKind, WireError,
    kind::{
        alert::AlertEntry, durable_query::DurableQueries, endpoint::Endpoints, job::JobEntry,
        search_index::SearchIndexes, sink::Sinks, stream::StreamEntry, stream_join::JoinEntry,
        view::ViewEntry,
    },
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
    /// The id of the store that has the tables, once it is known. It is not logged: a store can be asked for it again.
    pub store: Option<Box<str>>,
    /// Plain tables that are there, so that one is missed whose files are gone. They are not logged either: a store says
    /// which it has, and a table that was made just before a crash is recorded at the next start.
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

    /// All search indexes.
    pub fn search_indexes(&self) -> &SearchIndexes {
        &self.search_indexes
    }

    /// The change that a statement would make, which is not made; `None` where it would change nothing, and says that this is
    /// no error.
    pub fn check(&self, ddl: &Ddl) -> Result<Option<Change>, CatalogError> {
        let mut changed = self.clone();
        let has_changed = changed.apply_ddl(ddl, 0)?;
        // Not where a change is applied: it was checked when it was made, and earlier versions allowed some drops.
        match ddl {
            Ddl::DropStream { name, .. } if has_changed => {
                self.check_unused(&ObjectKind::Stream.named(name.as_str()))?;
            }
            Ddl::DropView { name, .. } if has_changed => {
                self.check_unused(&ObjectKind::View.named(&**name))?;
            }
            Ddl::AlterStream(alter) if has_changed => changed.check_index_of(alter)?,
            _ => {}
        }
        Ok(has_changed.then(|| Change::Ddl(ddl.to_string())))
    }

    /// As [`Catalog::check`], of a view, and which stream and which view it is of.
    pub fn check_view(&self, create: &CreateView) -> Result<Option<SourceNames>, CatalogError> {
        let (stream, below) = self.source_of_view(create)?;
        let source = (stream.create.name.clone(), below.map(|below| below.create.name.clone()));
        let mut changed = self.clone();
        Ok(changed.create_view(create, (0, &[]), 0)?.then_some(source))
    }
}

/// The statement of a text that the catalog has written.
pub fn read(text: &str) -> Result<Ddl, WireError> {
    let ddl = parse_kept_ddl(text, &ParseOptions::new(Dialect::Native, 0))
        .map_err(|errors| WireError::statement(text, errors))?;
    ddl.ok_or_else(|| WireError::statement(text, "it is not a statement of the catalog"))
}
