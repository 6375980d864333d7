//! Snapshots of the catalog: one (`catalog-N.json`) replaces all changes before its position, so that the log can be
//! trimmed.
//!
//! ```text
//! snapshot = {"format": 1, "written_by": version, "position": position in the log, "next_stream": id, "streams": […], …}
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use swiftwater_event::StreamName;
use swiftwater_lang::ddl::Ddl;

use crate::{
    Catalog, StreamNumbers, WireError,
    format::{FORMAT, check_format},
    kind::{
        alert::AlertSnapshot,
        durable_query::{DurableQueries, DurableQuerySnapshots},
        endpoint::{Endpoints, EndpointsSnapshot},
        job::{JobEntry, JobSnapshot},
        saved::{SavedObjects, SavedObjectsSnapshot},
        search_index::{SearchIndexes, SearchIndexesSnapshot},
        sink::{Sinks, SinksSnapshot},
        stream::{StreamEntry, StreamSnapshot},
        stream_join::{JoinEntry, JoinSnapshot},
        view::{ViewEntry, ViewSnapshot},
    },
    statement::read,
};

/// A snapshot, as its file has it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The form; see [`FORMAT`].
    pub format: u32,
    /// The version that wrote it.
    pub written_by: String,
    /// Changes before this place in the log are in it.
    pub position: u64,
    /// The number that the next stream gets.
    pub next_stream: u32,
    /// All streams.
    pub streams: Vec<StreamSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Box<str>>,
    #[serde(default)]
    next_view: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    views: Vec<ViewSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    alerts: Vec<AlertSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    joins: Vec<JoinSnapshot>,
    #[serde(default)]
    next_job: u32,
    #[serde(default)]
    jobs: Vec<JobSnapshot>,
    #[serde(default, skip_serializing_if = "EndpointsSnapshot::is_empty")]
    endpoints: EndpointsSnapshot,
    #[serde(default)]
    sinks: SinksSnapshot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    detached: DurableQuerySnapshots,
    #[serde(default, skip_serializing_if = "SearchIndexesSnapshot::is_empty")]
    search_indexes: SearchIndexesSnapshot,
    #[serde(default, skip_serializing_if = "SavedObjectsSnapshot::is_empty")]
    saved: SavedObjectsSnapshot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plain: Vec<Box<str>>,
    /// The id of the store; none in a backup, which is restored to another store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Box<str>>,
}

impl Snapshot {
    /// The least position up to which the log was synced when this was written: all events counted here are before it.
    pub fn log_end(&self) -> u64 {
        self.streams.iter().map(|stream| stream.numbers.position).fold(self.position, u64::max)
    }

    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts and numbers are JSON")
    }

    /// The snapshot of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Snapshot, WireError> {
        check_format(bytes, "the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| WireError::Form { what: "the catalog", source })
    }
}

impl Catalog {
    /// The snapshot of the catalog; `numbers` returns the numbers of a stream, if it is stored.
    pub fn snapshot(
        &self,
        position: u64,
        numbers: impl Fn(&StreamEntry) -> Option<StreamNumbers>,
    ) -> Snapshot {
        let streams = self.streams.values().map(|entry| entry.snapshot(numbers(entry).unwrap_or_default()));
        Snapshot {
            format: FORMAT,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            position,
            next_stream: self.next_stream,
            streams: streams.collect(),
            dropped: self.dropped.iter().map(|name| name.as_str().into()).collect(),
            next_view: self.next_view,
            views: self.views.values().filter(|view| view.owner.is_none()).map(ViewEntry::snapshot).collect(),
            alerts: self.alerts.values().map(|alert| self.snapshot_of_alert(alert)).collect(),
            joins: self.joins.values().map(JoinEntry::snapshot).collect(),
            next_job: self.next_job,
            jobs: self.jobs.values().map(JobEntry::snapshot).collect(),
            endpoints: self.endpoints.snapshot(),
            sinks: self.sinks.snapshot(),
            detached: self.durable_queries.snapshot(),
            search_indexes: self.search_indexes.snapshot(),
            saved: self.saved.snapshot(),
            plain: self.plain.iter().cloned().collect(),
            store: self.store.clone(),
        }
    }

    /// The catalog that a snapshot stands for.
    pub fn from_snapshot(snapshot: &Snapshot) -> Result<Catalog, WireError> {
        let (next_stream, next_job) = (snapshot.next_stream, snapshot.next_job);
        let (next_view, store) = (snapshot.next_view, snapshot.store.clone());
        let mut catalog = Catalog { next_stream, next_view, next_job, store, ..Catalog::default() };
        catalog.plain.extend(snapshot.plain.iter().cloned());
        for stream in &snapshot.streams {
            let entry = StreamEntry::from_snapshot(stream)?;
            catalog.streams.insert(entry.create.name.clone(), entry);
        }
        for name in &snapshot.dropped {
            catalog.dropped.extend(StreamName::new(name).ok());
        }
        for view in &snapshot.views {
            catalog.add_view(ViewEntry::from_snapshot(view)?);
        }
        for snapshot in &snapshot.alerts {
            catalog.add_alert(snapshot)?;
        }
        for snapshot in &snapshot.joins {
            let entry = JoinEntry::from_snapshot(snapshot)?;
            catalog.joins.insert(entry.create.name.clone(), entry);
        }
        for snapshot in &snapshot.jobs {
            let text = snapshot.text();
            let Ddl::CreateJob(create) = read(text)? else { return Err(WireError::unexpected(text)) };
            let job = JobEntry::from_snapshot(snapshot, create)
                .map_err(|error| WireError::statement(text, error))?;
            catalog.jobs.insert(job.create.name.clone(), job);
        }
        catalog.sinks = Sinks::from_snapshot(&snapshot.sinks, |text| match read(text)? {
            Ddl::CreateSink(create) => Ok(create),
            _ => Err(WireError::unexpected(text)),
        })?;
        catalog.durable_queries = DurableQueries::from_snapshot(&snapshot.detached);
        catalog.search_indexes = SearchIndexes::from_snapshot(&snapshot.search_indexes)?;
        catalog.endpoints = Endpoints::from_snapshot(&snapshot.endpoints, |text| match read(text)? {
            Ddl::CreateEndpoint(create) => Ok(create),
            _ => Err(WireError::unexpected(text)),
        })?;
        let saved = SavedObjects::from_snapshot(&snapshot.saved, |text| match read(text)? {
            Ddl::CreateSaved(create) => Ok(create),
            _ => Err(WireError::unexpected(text)),
        })?;
        catalog.saved = Arc::new(saved);
        Ok(catalog)
    }
}
