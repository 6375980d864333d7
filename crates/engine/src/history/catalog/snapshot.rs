//! The catalog as it is written down and read back.

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName, Type};
use swiftwater_lang::ddl::{COLUMNS_MAX, Ddl, column_name_fault};
use swiftwater_live::columns::InferredColumn;

use super::{Catalog, FORMAT, StreamEntry, ViewEntry, check_format, joined_by, read, unexpected};
use crate::history::{
    HistoryError,
    alerts::AlertSnapshot,
    durable_query::{DetachedEntries, DetachedSnapshot},
    endpoints::{EndpointEntries, EndpointsSnapshot},
    jobs::{JobEntry, JobSnapshot},
    lookup_join::TableColumns,
    sinks::{Sinks, SinksSnapshot},
    stream_joins::{JoinEntry, JoinSnapshot},
};

/// A snapshot, as it stands in its file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) format: u32,
    pub(crate) written_by: String,
    /// Changes before this place in the log are in it.
    pub(crate) position: u64,
    pub(crate) next_stream: u32,
    pub(crate) streams: Vec<StreamSnapshot>,
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
    detached: DetachedSnapshot,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plain: Vec<Box<str>>,
    /// Not in a backup: what is restored lies in another store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::history) store: Option<Box<str>>,
}

/// A view within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ViewSnapshot {
    id: u32,
    created: Millis,
    text: String,
    stream: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<u32>,
    from: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableColumns>,
}

/// A stream within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StreamSnapshot {
    pub(crate) id: u32,
    pub(crate) created: Millis,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    found: Vec<(Box<str>, String)>,
    #[serde(flatten)]
    pub(crate) numbers: StreamNumbers,
}

/// How far a stream is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamNumbers {
    /// Events before this place in the log are counted in what follows.
    pub(crate) position: u64,
    /// The offset of the stream's next event.
    pub(crate) next_offset: u64,
    /// The offset of the first event that was stored; none if there was none, or an older version took it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept_from: Option<u64>,
    /// Its producers, whoever wrote longest ago first, with what is known of their requests.
    #[serde(default)]
    pub(crate) producers: Vec<(Box<str>, Vec<ReceiptSnapshot>)>,
    /// Hashes of what they sent: producer, number, part, hash. Older versions have none, and read past them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hashes: Vec<(Box<str>, u64, u32, u64)>,
}

/// A request of a producer: number, parts, events, offset after them, place in the log after them.
pub(crate) type ReceiptSnapshot = (u64, u32, u64, u64, u64);

impl Snapshot {
    /// Up to where the log was synced at least when this was written down: all that is counted here is there before.
    pub(crate) fn log_end(&self) -> u64 {
        self.streams.iter().map(|stream| stream.numbers.position).fold(self.position, u64::max)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts and numbers are JSON")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Snapshot, HistoryError> {
        check_format(bytes, "the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what: "the catalog", source })
    }
}

impl Catalog {
    /// What is to be written down; `numbers` says how far a stream is, if it is stored.
    pub(crate) fn snapshot(
        &self,
        position: u64,
        numbers: impl Fn(&StreamEntry) -> Option<StreamNumbers>,
    ) -> Snapshot {
        let streams = self.streams.values().map(|entry| StreamSnapshot {
            id: entry.id,
            created: entry.created,
            text: Ddl::CreateStream(entry.create.clone()).to_string(),
            found: entry.found.iter().map(|column| (column.name.clone(), column.ty.to_string())).collect(),
            numbers: numbers(entry).unwrap_or_default(),
        });
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
            detached: self.detached.snapshot(),
            plain: self.plain.iter().cloned().collect(),
            store: self.store.clone(),
        }
    }

    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Result<Catalog, HistoryError> {
        let (next_stream, next_job) = (snapshot.next_stream, snapshot.next_job);
        let (next_view, store) = (snapshot.next_view, snapshot.store.clone());
        let mut catalog = Catalog { next_stream, next_view, next_job, store, ..Catalog::default() };
        catalog.plain.extend(snapshot.plain.iter().cloned());
        for StreamSnapshot { id, created, text, found: columns, .. } in &snapshot.streams {
            let Ddl::CreateStream(create) = read(text)? else { return Err(unexpected(text)) };
            let entry = StreamEntry { id: *id, created: *created, create, found: found(columns)? };
            catalog.streams.insert(entry.create.name.clone(), entry);
        }
        for name in &snapshot.dropped {
            catalog.dropped.extend(StreamName::new(name).ok());
        }
        for ViewSnapshot { id, created, text, stream, of, from, tables } in &snapshot.views {
            let Ddl::CreateView(create) = read(text)? else { return Err(unexpected(text)) };
            let joined = joined_by(&create);
            let (id, created, stream, of, from) = (*id, *created, *stream, *of, *from);
            let tables = tables.clone();
            let entry = ViewEntry { id, created, create, stream, of, from, owner: None, joined, tables };
            catalog.views.insert(entry.create.name.clone(), entry);
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
            let Ddl::CreateJob(create) = read(text)? else { return Err(unexpected(text)) };
            let job = JobEntry::from_snapshot(snapshot, create)
                .map_err(|error| HistoryError::Statement { text: text.to_owned(), why: error.to_string() })?;
            catalog.jobs.insert(job.create.name.clone(), job);
        }
        catalog.sinks = Sinks::from_snapshot(&snapshot.sinks, |text| match read(text)? {
            Ddl::CreateSink(create) => Ok(create),
            _ => Err(unexpected(text)),
        })?;
        catalog.detached = DetachedEntries::from_snapshot(&snapshot.detached);
        catalog.endpoints = EndpointEntries::from_snapshot(&snapshot.endpoints, |text| match read(text)? {
            Ddl::CreateEndpoint(create) => Ok(create),
            _ => Err(unexpected(text)),
        })?;
        Ok(catalog)
    }
}

impl ViewEntry {
    fn snapshot(&self) -> ViewSnapshot {
        let text = Ddl::CreateView(self.create.clone()).to_string();
        let (id, created, stream, of, from) = (self.id, self.created, self.stream, self.of, self.from);
        ViewSnapshot { id, created, text, stream, of, from, tables: self.tables.clone() }
    }
}

pub(super) fn found(columns: &[(Box<str>, String)]) -> Result<Vec<InferredColumn>, HistoryError> {
    let column = |(name, ty): &(Box<str>, String)| match Type::parse(ty) {
        Ok(ty) => Ok(InferredColumn { name: name.clone(), ty }),
        Err(error) => Err(HistoryError::Statement { text: format!("{name} {ty}"), why: error.to_string() }),
    };
    // An earlier version took some for columns that a table cannot have; in the events' text they are all the same.
    let can_be = |(name, _): &&(Box<str>, String)| column_name_fault(name).is_none();
    columns.iter().filter(can_be).take(COLUMNS_MAX).map(column).collect()
}
