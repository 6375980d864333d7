//! Changes of the catalog. Each change is one record of the log, so it is ordered against events; the catalog is the sum of
//! all changes. Statements are written in their normal form, which parses to the same statement.
//!
//! ```text
//! change = {"format": 1, "at": ms, "change": {"ddl": statement} | {"view": …} | {"found": columns} | {"job": step of a run} | …}
//! ```
//!
//! Fields may be added; they are missing in older records. Any other change raises the format. A format newer than
//! [`FORMAT`] is refused.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{AlterSearchIndex, CreateSearchIndex, CreateView, Ddl};

use crate::{
    Catalog, CatalogError, ObjectKind, SourceNames, WireError,
    format::{FORMAT, check_format},
    kind::{
        alert::AlertStart,
        durable_query::DurableQueryStep,
        job::JobStep,
        lookup_join::TableColumns,
        search_index::IndexedColumn,
        sink::{Delivered, SinkStart},
        stream::found,
    },
    statement::read,
};

/// A change, as it is written in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeRecord {
    format: u32,
    /// Time of the change.
    pub at: Millis,
    /// The change.
    pub change: Change,
}

/// A change of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A statement was carried out: CREATE, ALTER or DROP of a stream, a job, an endpoint, a search index or a saved
    /// object, DROP of other objects.
    Ddl(String),
    /// A view was created, of the events of its stream from an offset on.
    View {
        /// The statement.
        text: String,
        /// The offset.
        from: u64,
        /// Tables that its events are joined with, and their columns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tables: Vec<TableColumns>,
    },
    /// An alert was created.
    Alert {
        /// The statement.
        text: String,
        /// The position or window that it starts at.
        #[serde(flatten)]
        start: AlertStart,
    },
    /// A join was created, of the events in the log from a position on.
    Join {
        /// The statement.
        text: String,
        /// The position.
        from: u64,
    },
    /// A sink was created.
    Sink {
        /// The statement.
        text: String,
        /// The position or window that it starts at.
        #[serde(flatten)]
        start: SinkStart,
    },
    /// A sink has delivered.
    Delivered {
        /// Its number.
        sink: u32,
        /// Its progress.
        delivered: Delivered,
    },
    /// All columns that were found so far in a stream's events: names and types.
    Found {
        /// The stream's number.
        stream: u32,
        /// The columns.
        columns: Vec<(Box<str>, String)>,
    },
    /// Durable queries have changed.
    Detached(DurableQueryStep),
    /// A run of a job has changed.
    Job {
        /// The job's number.
        job: u32,
        /// The number of the run.
        run: u64,
        /// The step that the run has made.
        step: JobStep,
    },
    /// A link was made or opened.
    Link {
        /// Its key.
        key: Box<str>,
        /// The state that it stands for; none: it was opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Box<str>>,
    },
}

impl Change {
    /// True if it is written also where the log has no room for events: a statement may make room. Changes that objects
    /// make by themselves are not, as they would use that room up.
    pub fn is_urgent(&self) -> bool {
        !matches!(
            self,
            Change::Delivered { .. } | Change::Detached(_) | Change::Job { .. } | Change::Link { .. }
        )
    }
}

impl ChangeRecord {
    /// A change that was made at a time.
    pub fn new(at: Millis, change: Change) -> ChangeRecord {
        ChangeRecord { format: FORMAT, at, change }
    }

    /// The record's bytes in the log.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// The change of a record in the log.
    pub fn from_bytes(bytes: &[u8]) -> Result<ChangeRecord, WireError> {
        check_format(bytes, "a change of the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| WireError::Form { what: "a change", source })
    }
}

impl Catalog {
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

    /// Checks a view as [`Catalog::check`] does, and returns its stream and the view below it.
    pub fn check_view(&self, create: &CreateView) -> Result<Option<SourceNames>, CatalogError> {
        let (stream, below) = self.source_of_view(create)?;
        let source = (stream.create.name.clone(), below.map(|below| below.create.name.clone()));
        let mut changed = self.clone();
        Ok(changed.create_view(create, (0, &[]), 0)?.then_some(source))
    }

    /// Checks `CREATE SEARCH INDEX` over the columns of the stream or table, as its owner has them. The change names the
    /// columns as they are declared there.
    pub fn check_create_index(
        &self,
        create: &CreateSearchIndex,
        columns: &[IndexedColumn],
    ) -> Result<Option<Change>, CatalogError> {
        let create = self.resolve_create_index(create, columns)?;
        Ok(create.map(|create| Change::Ddl(create.to_string())))
    }

    /// Checks `ALTER SEARCH INDEX` as [`Catalog::check_create_index`] does.
    pub fn check_alter_index(
        &self,
        alter: &AlterSearchIndex,
        columns: &[IndexedColumn],
    ) -> Result<Option<Change>, CatalogError> {
        let alter = self.resolve_alter_index(alter, columns)?;
        Ok(alter.map(|alter| Change::Ddl(alter.to_string())))
    }

    /// Applies a change that was logged.
    pub fn apply(&mut self, record: &ChangeRecord) -> Result<(), WireError> {
        let at = record.at;
        match &record.change {
            Change::Ddl(text) => check_applied(text, self.apply_ddl(&read(text)?, at)),
            Change::View { text, from, tables } => {
                let Ddl::CreateView(create) = read(text)? else { return Err(WireError::unexpected(text)) };
                check_applied(text, self.create_view(&create, (*from, tables), at))
            }
            Change::Alert { text, start } => {
                let Ddl::CreateAlert(create) = read(text)? else { return Err(WireError::unexpected(text)) };
                check_applied(text, self.create_alert(&create, start, at))
            }
            Change::Join { text, from } => {
                let Ddl::CreateJoin(create) = read(text)? else { return Err(WireError::unexpected(text)) };
                check_applied(text, self.create_join(&create, *from, at))
            }
            Change::Sink { text, start } => {
                let Ddl::CreateSink(create) = read(text)? else { return Err(WireError::unexpected(text)) };
                check_applied(text, self.sinks.create(&create, start.clone(), at))
            }
            Change::Detached(step) => {
                self.durable_queries.apply(step);
                Ok(())
            }
            Change::Delivered { sink, delivered } => {
                self.sinks.deliver(*sink, delivered);
                Ok(())
            }
            Change::Found { stream, columns } => {
                if let Some(entry) = self.streams.values_mut().find(|entry| entry.id == *stream) {
                    entry.found = found(columns)?;
                }
                Ok(())
            }
            Change::Link { key, state } => {
                Arc::make_mut(&mut self.saved).put_link(key, state.as_deref(), at);
                Ok(())
            }
            Change::Job { job, run, step } => {
                if let Some(job) = self.jobs.values_mut().find(|entry| entry.id == *job) {
                    job.apply(*run, step, at);
                }
                Ok(())
            }
        }
    }

    /// True if anything changed.
    pub(crate) fn apply_ddl(&mut self, ddl: &Ddl, at: Millis) -> Result<bool, CatalogError> {
        match ddl {
            Ddl::CreateStream(create) => self.create_stream(create, at),
            Ddl::AlterStream(alter) => self.alter_stream(alter),
            Ddl::DropStream { name, if_exists } => self.drop_stream(name, *if_exists),
            // They begin at an offset, a position or a window, which the statement does not say.
            Ddl::CreateView(_) | Ddl::CreateSink(_) | Ddl::CreateJoin(_) => Ok(false),
            // As earlier versions wrote it.
            Ddl::CreateAlert(create) => self.create_alert(create, &AlertStart::default(), at),
            Ddl::DropJoin { name, if_exists } => self.drop_join(name, *if_exists),
            Ddl::DropSink { name, if_exists } => self.sinks.drop(name, *if_exists),
            Ddl::DropView { name, if_exists } => self.drop_view(name, *if_exists),
            Ddl::DropAlert { name, if_exists } => self.drop_alert(name, *if_exists),
            Ddl::CreateJob(create) => self.create_job(create, at),
            Ddl::AlterJob { name, change } => {
                let job = self.jobs.get_mut(name);
                job.ok_or_else(|| CatalogError::not_found(ObjectKind::Job, &**name))?.alter(change, at)
            }
            Ddl::DropJob { name, if_exists } => self.drop_job(name, *if_exists),
            Ddl::CreateEndpoint(create) => self.create_endpoint(create, at),
            Ddl::DropEndpoint { name, if_exists } => self.endpoints.drop(name, *if_exists),
            Ddl::CreateSearchIndex(create) => self.search_indexes.create(create, at),
            Ddl::AlterSearchIndex(alter) => self.search_indexes.alter(alter),
            Ddl::DropSearchIndex { table, if_exists } => self.search_indexes.drop(table, *if_exists),
            Ddl::CreateSaved(create) => Arc::make_mut(&mut self.saved).create(create, at),
            Ddl::DropSaved { name, if_exists } => Arc::make_mut(&mut self.saved).drop(name, *if_exists),
            // It is a position, and no declaration.
            Ddl::SkipPartition(_)
            | Ddl::RunJob { .. }
            | Ddl::RebuildSearchIndex(_)
            | Ddl::Show(_)
            | Ddl::Describe { .. }
            | Ddl::DescribeEndpoint { .. }
            | Ddl::DescribeSearchIndex { .. } => Ok(false),
        }
    }
}

fn check_applied(text: &str, applied: Result<bool, CatalogError>) -> Result<(), WireError> {
    applied.map(|_| ()).map_err(|error| WireError::statement(text, error))
}
