//! What is named and durable: streams, views, joins, jobs and endpoints ([`EndpointEntries`]). (Plain tables are known to the store by themselves.)
//!
//! A change is one record of the log, so that it is ordered against events; the catalog is what all changes come to.
//! A snapshot (`catalog.json`) stands for the changes before its position, so that the log can be trimmed. Statements are
//! kept in their normal form, which reads back as the same.
//!
//! ```text
//! snapshot = {"format": 1, "written_by": version, "position": where in the log, "next_stream": id, "streams": […], …}
//! change   = {"format": 1, "at": ms, "change": {"ddl": statement} | {"view": …} | {"found": columns} | {"job": step of a run}}
//! ```
//!
//! Fields may be added, and are then not there in what is older; whatever else changes raises the format. A format that is
//! newer than [`FORMAT`] is refused. Pure: reads no clock, and does no I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{AlterStream, CreateJob, CreateStream, CreateView, Ddl},
    joined_names, parse, parse_ddl, stream_of,
};

use swiftwater_live::columns::InferredColumn;

use super::{
    HistoryError,
    alerts::{AlertEntry, AlertSnapshot, AlertStart},
    detached::{DetachedEntries, DetachedSnapshot, DetachedStep},
    endpoints::{EndpointEntries, EndpointsSnapshot},
    jobs::{JobEntry, JobSnapshot, JobStep},
    joins::TableColumns,
    sinks::{Delivered, SinkStart, Sinks, SinksSnapshot},
    stream_joins::{JoinEntry, JoinSnapshot},
};
use crate::EngineError;

/// The form of snapshots and changes that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// All that is named.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Catalog {
    next_stream: u32,
    streams: BTreeMap<StreamName, StreamEntry>,
    /// Stored streams that were dropped and whose tables may still be there, in whole or in part.
    dropped: BTreeSet<StreamName>,
    next_view: u32,
    pub(super) views: BTreeMap<Box<str>, ViewEntry>,
    pub(super) alerts: BTreeMap<Box<str>, AlertEntry>,
    pub(super) joins: BTreeMap<Box<str>, JoinEntry>,
    next_job: u32,
    jobs: BTreeMap<Box<str>, JobEntry>,
    endpoints: EndpointEntries,
    pub(crate) sinks: Sinks,
    pub(crate) detached: DetachedEntries,
    /// The id of the store that has the tables, once it is known. It is not logged: a store can be asked for it again.
    pub(super) store: Option<Box<str>>,
}

/// The stream, and the view if it is one, that a view is of.
pub(crate) type SourceNames = (StreamName, Option<Box<str>>);

/// A view that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ViewEntry {
    /// Its number among those that are kept; never given to another.
    pub(crate) id: u32,
    /// When it was created.
    pub(crate) created: Millis,
    /// Its declaration.
    pub(crate) create: CreateView,
    /// The stream that it is of, by number; of a view of a view, the stream that the lowest one is of.
    pub(crate) stream: u32,
    /// The view that it is of, by number, if it is of one.
    pub(crate) of: Option<u32>,
    /// It is of the stream's events from this offset on.
    pub(crate) from: u64,
    /// The alert that has it for itself. Such a view has a name that nobody can write.
    pub(crate) owner: Option<Box<str>>,
    /// The names of what its events are joined with.
    pub(crate) joined: Vec<Box<str>>,
    /// The tables among that, with the columns that they had.
    pub(crate) tables: Vec<TableColumns>,
}

/// A stream that was created.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamEntry {
    /// Its number in the log; never given to another.
    pub(crate) id: u32,
    /// When it was created.
    pub(crate) created: Millis,
    /// Its declaration as it is now.
    pub(crate) create: CreateStream,
    /// Columns that were found in its events.
    pub(crate) found: Vec<InferredColumn>,
}

/// A change, as it stands in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChangeRecord {
    format: u32,
    /// When it was made.
    pub(crate) at: Millis,
    /// What.
    pub(crate) change: Change,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    /// A statement was carried out: CREATE, ALTER or DROP of a stream, a job or an endpoint, DROP of what is left.
    Ddl(String),
    /// A view was created, of the events of its stream from an offset on.
    View {
        text: String,
        from: u64,
        /// Tables that its events are joined with, and their columns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tables: Vec<TableColumns>,
    },
    /// An alert was created.
    Alert {
        text: String,
        #[serde(flatten)]
        start: AlertStart,
    },
    /// A join was created, of what stands in the log from a place on.
    Join { text: String, from: u64 },
    /// A sink was created, of a view's windows from one on.
    Sink {
        text: String,
        #[serde(flatten)]
        start: SinkStart,
    },
    /// A sink has delivered.
    Delivered { sink: u32, delivered: Delivered },
    /// All columns that were found so far in a stream's events: names and types.
    Found { stream: u32, columns: Vec<(Box<str>, String)> },
    /// Something happened to a durable query, or to several.
    Detached(DetachedStep),
    /// Something happened to a run of a job.
    Job { job: u32, run: u64, step: JobStep },
}

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
    /// Not in a backup: what is restored lies in another store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<Box<str>>,
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
    /// Its producers, whoever wrote longest ago first, with what is known of their requests.
    #[serde(default)]
    pub(crate) producers: Vec<(Box<str>, Vec<ReceiptSnapshot>)>,
}

/// A request of a producer: number, parts, events, offset after them, place in the log after them.
pub(crate) type ReceiptSnapshot = (u64, u32, u64, u64, u64);

impl ChangeRecord {
    pub(crate) fn new(at: Millis, change: Change) -> ChangeRecord {
        ChangeRecord { format: FORMAT, at, change }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ChangeRecord, HistoryError> {
        check_format(bytes, "a change of the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what: "a change", source })
    }
}

/// Tells a form that is newer than this version before anything else of it is read.
fn check_format(bytes: &[u8], what: &'static str) -> Result<(), HistoryError> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
        #[serde(default)]
        written_by: Option<String>,
    }
    let head: Head =
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what, source })?;
    if head.format > FORMAT {
        return Err(HistoryError::Newer {
            what,
            found: head.format,
            known: FORMAT,
            written_by: head.written_by.unwrap_or_else(|| "a newer version".to_owned()),
        });
    }
    Ok(())
}

impl Snapshot {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("texts and numbers are JSON")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Snapshot, HistoryError> {
        check_format(bytes, "the catalog")?;
        serde_json::from_slice(bytes).map_err(|source| HistoryError::Catalog { what: "the catalog", source })
    }
}

impl Catalog {
    /// All streams, by name.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&StreamName, &StreamEntry)> {
        self.streams.iter()
    }

    pub(crate) fn stream(&self, name: &StreamName) -> Option<&StreamEntry> {
        self.streams.get(name)
    }

    /// The streams whose tables are to be deleted.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = &StreamName> {
        self.dropped.iter()
    }

    pub(crate) fn is_dropped(&self, name: &StreamName) -> bool {
        self.dropped.contains(name)
    }

    /// Nothing is left of the table of a dropped stream. It is not logged: to look once more costs little.
    pub(crate) fn forget_dropped(&mut self, name: &StreamName) {
        self.dropped.remove(name);
    }

    /// All views, those of alerts, too.
    pub(crate) fn views(&self) -> impl ExactSizeIterator<Item = &ViewEntry> {
        self.views.values()
    }

    /// Gives a number out, to a view, an alert or a join.
    pub(super) fn take_view_number(&mut self) -> u32 {
        self.next_view += 1;
        self.next_view - 1
    }

    /// The number that the next view gets.
    pub(crate) fn next_view(&self) -> u32 {
        self.next_view
    }

    /// A view of a name; an error if there is none.
    pub(crate) fn view(&self, name: &str) -> Result<&ViewEntry, EngineError> {
        let named = self.views.get(name).filter(|view| view.owner.is_none());
        named.ok_or_else(|| EngineError::NoView(name.to_owned()))
    }

    /// The view that another is of, if it is of one.
    pub(crate) fn below(&self, view: &ViewEntry) -> Option<&ViewEntry> {
        view.of.and_then(|of| self.views.values().find(|below| below.id == of))
    }

    /// The stream that a view would be of, and the view below it where it would be of one; an error where there is none, or
    /// its events are not kept.
    pub(crate) fn source_of_view(
        &self,
        create: &CreateView,
    ) -> Result<(&StreamEntry, Option<&ViewEntry>), EngineError> {
        let options = ParseOptions::new(Dialect::Native, 0);
        let name = match stream_of(&create.query, &options) {
            Some(named) => named.ok_or(EngineError::ViewOfNoStream)?,
            // What is wrong with the query says more than that it names no stream.
            None => {
                parse(&create.query, &options).map_err(EngineError::Query)?;
                return Err(EngineError::ViewOfNoStream);
            }
        };
        let no_stream = || EngineError::NoStream(name.to_string());
        if let Some(below) = self.views.get(name.as_str()) {
            let stream = self.streams.values().find(|stream| stream.id == below.stream);
            return Ok((stream.ok_or_else(no_stream)?, Some(below)));
        }
        let entry = self.streams.get(&name).ok_or_else(no_stream)?;
        match entry.create.is_stored() {
            true => Ok((entry, None)),
            false => Err(EngineError::ViewOfUnstored(name.to_string())),
        }
    }

    /// All endpoints.
    pub(crate) fn endpoints(&self) -> &EndpointEntries {
        &self.endpoints
    }

    /// All jobs, by name.
    pub(crate) fn jobs(&self) -> impl ExactSizeIterator<Item = &JobEntry> {
        self.jobs.values()
    }

    /// A job of a name; an error if there is none.
    pub(crate) fn job(&self, name: &str) -> Result<&JobEntry, EngineError> {
        self.jobs.get(name).ok_or_else(|| EngineError::NoJob(name.to_owned()))
    }

    /// The job of a number, if it was not dropped.
    pub(crate) fn job_of(&self, id: u32) -> Option<&JobEntry> {
        self.jobs.values().find(|job| job.id == id)
    }

    /// What a statement would change, without changing it; `None` where it would change nothing, and says that this is
    /// no error.
    pub(crate) fn check(&self, ddl: &Ddl) -> Result<Option<Change>, EngineError> {
        let mut changed = self.clone();
        Ok(changed.apply_ddl(ddl, 0)?.then(|| Change::Ddl(ddl.to_string())))
    }

    /// As [`Catalog::check`], of a view, and which stream and which view it is of.
    pub(crate) fn check_view(&self, create: &CreateView) -> Result<Option<SourceNames>, EngineError> {
        let (stream, below) = self.source_of_view(create)?;
        let source = (stream.create.name.clone(), below.map(|below| below.create.name.clone()));
        let mut changed = self.clone();
        Ok(changed.create_view(create, (0, &[]), 0)?.then_some(source))
    }

    /// Applies a change that was logged.
    pub(crate) fn apply(&mut self, record: &ChangeRecord) -> Result<(), HistoryError> {
        match &record.change {
            Change::Ddl(text) => {
                let ddl = read(text)?;
                let applied = self.apply_ddl(&ddl, record.at);
                applied.map_err(|error| HistoryError::Statement {
                    text: text.clone(),
                    why: error.to_string(),
                })?;
            }
            Change::View { text, from, tables } => {
                let Ddl::CreateView(create) = read(text)? else { return Err(unexpected(text)) };
                let created = self.create_view(&create, (*from, tables), record.at);
                created.map_err(|error| HistoryError::Statement {
                    text: text.clone(),
                    why: error.to_string(),
                })?;
            }
            Change::Alert { text, start } => {
                let Ddl::CreateAlert(create) = read(text)? else { return Err(unexpected(text)) };
                let created = self.create_alert(&create, start, record.at);
                created.map_err(|error| HistoryError::Statement {
                    text: text.clone(),
                    why: error.to_string(),
                })?;
            }
            Change::Join { text, from } => {
                let Ddl::CreateJoin(create) = read(text)? else { return Err(unexpected(text)) };
                let created = self.create_join(&create, *from, record.at);
                created.map_err(|error| HistoryError::Statement {
                    text: text.clone(),
                    why: error.to_string(),
                })?;
            }
            Change::Sink { text, start } => {
                let Ddl::CreateSink(create) = read(text)? else { return Err(unexpected(text)) };
                let created = self.sinks.create(&create, start.clone(), record.at);
                created.map_err(|error| HistoryError::Statement {
                    text: text.clone(),
                    why: error.to_string(),
                })?;
            }
            Change::Detached(step) => self.detached.apply(step),
            Change::Delivered { sink, delivered } => self.sinks.deliver(*sink, delivered),
            Change::Found { stream, columns } => {
                let entry = self.streams.values_mut().find(|entry| entry.id == *stream);
                if let Some(entry) = entry {
                    entry.found = found(columns)?;
                }
            }
            Change::Job { job, run, step } => {
                if let Some(job) = self.jobs.values_mut().find(|entry| entry.id == *job) {
                    job.apply(*run, step, record.at);
                }
            }
        }
        Ok(())
    }

    /// Whether anything changed.
    fn apply_ddl(&mut self, ddl: &Ddl, at: Millis) -> Result<bool, EngineError> {
        match ddl {
            Ddl::CreateStream(create) => self.create_stream(create, at),
            Ddl::AlterStream(alter) => self.alter_stream(alter),
            Ddl::DropStream { name, if_exists } => self.drop_stream(name, *if_exists),
            // They are of a stream from an offset on, or of windows from one on, which a statement does not say.
            Ddl::CreateView(_) | Ddl::CreateSink(_) | Ddl::CreateJoin(_) => Ok(false),
            // As older versions wrote it down.
            Ddl::CreateAlert(create) => self.create_alert(create, &AlertStart::default(), at),
            Ddl::DropJoin { name, if_exists } => self.drop_join(name, *if_exists),
            Ddl::DropSink { name, if_exists } => self.sinks.drop(name, *if_exists),
            Ddl::DropView { name, if_exists } => {
                self.check_unwatched(name)?;
                self.check_unjoined("view", name)?;
                if self.endpoints.of_view(name).is_some() {
                    return Err(self.has_endpoint("view", name));
                }
                if let Some(sink) = self.sink_of(name) {
                    return Err(EngineError::ViewHasSink { view: name.to_string(), sink: sink.to_owned() });
                }
                if let Some(entry) = self.views.get(name)
                    && let Some(upper) = self.views.values().find(|upper| upper.of == Some(entry.id))
                {
                    return Err(EngineError::ViewHasView {
                        view: name.to_string(),
                        upper: upper.create.name.to_string(),
                    });
                }
                match self.views.remove(name) {
                    None if !if_exists => Err(EngineError::NoView(name.to_string())),
                    removed => Ok(removed.is_some()),
                }
            }
            Ddl::DropAlert { name, if_exists } => self.drop_alert(name, *if_exists),
            Ddl::CreateJob(create) => self.create_job(create, at),
            Ddl::AlterJob { name, change } => {
                let job = self.jobs.get_mut(name).ok_or_else(|| EngineError::NoJob(name.to_string()))?;
                job.alter(change, at)
            }
            Ddl::DropJob { name, if_exists } => match self.jobs.remove(name) {
                None if !if_exists => Err(EngineError::NoJob(name.to_string())),
                removed => Ok(removed.is_some()),
            },
            Ddl::CreateEndpoint(create) if self.endpoints.get(&create.name).is_ok() => {
                self.endpoints.create(create, at)
            }
            Ddl::CreateEndpoint(create) => {
                if let Some(stream) = create.stream().filter(|stream| !self.streams.contains_key(*stream)) {
                    return Err(EngineError::NoStream(stream.to_string()));
                }
                create.view().map_or(Ok(()), |view| self.view(view).map(|_| ()))?;
                self.endpoints.create(create, at)
            }
            Ddl::DropEndpoint { name, if_exists } => self.endpoints.remove(name, *if_exists),
            Ddl::RunJob { .. } | Ddl::Show(_) | Ddl::Describe { .. } | Ddl::DescribeEndpoint { .. } => {
                Ok(false)
            }
        }
    }

    /// Refuses to let go of what a view's events are joined with.
    pub(crate) fn check_unjoined(&self, kind: &'static str, name: &str) -> Result<(), EngineError> {
        let view = self.views.values().find(|view| view.joined.iter().any(|joined| **joined == *name));
        match view {
            None => Ok(()),
            Some(view) => {
                let view = view.create.name.to_string();
                Err(EngineError::JoinedByView { kind, name: name.to_owned(), view })
            }
        }
    }

    /// The name of a sink of a view.
    fn sink_of(&self, view: &str) -> Option<&str> {
        self.views.get(view).and_then(|view| self.sinks.of_view(view.id))
    }

    fn create_stream(&mut self, create: &CreateStream, at: Millis) -> Result<bool, EngineError> {
        if self.streams.contains_key(&create.name) {
            return exists("stream", create.name.as_str(), create.if_not_exists);
        }
        if self.views.contains_key(create.name.as_str()) {
            return exists("view", create.name.as_str(), false);
        }
        let create = CreateStream { if_not_exists: false, ..create.clone() };
        if create.is_stored() {
            // Its table is created when nothing is left of the one before.
            self.dropped.remove(&create.name);
        }
        let entry = StreamEntry { id: self.next_stream, created: at, create, found: Vec::new() };
        self.next_stream += 1;
        self.streams.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    fn alter_stream(&mut self, alter: &AlterStream) -> Result<bool, EngineError> {
        let Some(entry) = self.streams.get_mut(&alter.name) else {
            return if alter.if_exists {
                Ok(false)
            } else {
                Err(EngineError::NoStream(alter.name.to_string()))
            };
        };
        let altered = entry.create.altered(alter).map_err(EngineError::Alter)?;
        let has_changed = altered != entry.create;
        entry.create = altered;
        Ok(has_changed)
    }

    fn create_view(
        &mut self,
        create: &CreateView,
        (from, tables): (u64, &[TableColumns]),
        at: Millis,
    ) -> Result<bool, EngineError> {
        if self.views.contains_key(&create.name) {
            return exists("view", &create.name, create.if_not_exists);
        }
        if self.streams.keys().any(|stream| stream.as_str() == &*create.name) {
            return exists("stream", &create.name, false);
        }
        let (stream, below) = self.source_of_view(create)?;
        let (stream, of) = (stream.id, below.map(|below| below.id));
        let create = CreateView { if_not_exists: false, ..create.clone() };
        let joined = joined_by(&create);
        let (id, tables) = (self.take_view_number(), tables.to_vec());
        let entry = ViewEntry { id, created: at, create, stream, of, from, owner: None, joined, tables };
        self.views.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    fn drop_stream(&mut self, name: &StreamName, if_exists: bool) -> Result<bool, EngineError> {
        if let Some(id) = self.streams.get(name).map(|entry| entry.id)
            && let Some(view) = self.views.values().find(|view| view.stream == id)
        {
            return Err(view.keeps(name));
        }
        self.check_untold(name.as_str())?;
        self.check_streams_unjoined(name)?;
        if self.endpoints.of_stream(name.as_str()).is_some() {
            return Err(self.has_endpoint("stream", name.as_str()));
        }
        let Some(entry) = self.streams.remove(name) else {
            return if if_exists { Ok(false) } else { Err(EngineError::NoStream(name.to_string())) };
        };
        self.jobs.values_mut().for_each(|job| job.forget_stream(entry.id));
        self.detached.forget_stream(entry.id);
        if entry.create.is_stored() {
            self.dropped.insert(entry.create.name);
        }
        Ok(true)
    }

    /// What keeps a view or stream from being dropped.
    fn has_endpoint(&self, kind: &'static str, name: &str) -> EngineError {
        let entry = self.endpoints.of_view(name).filter(|_| kind == "view");
        let entry = entry.or_else(|| self.endpoints.of_stream(name));
        let endpoint = entry.map_or_else(String::new, |entry| entry.create.name.to_string());
        EngineError::HasEndpoint { kind, name: name.to_owned(), endpoint }
    }

    /// What a stream would be declared as after a statement; none where there is no such stream.
    pub(crate) fn altered(&self, alter: &AlterStream) -> Result<Option<StreamEntry>, EngineError> {
        let mut changed = self.clone();
        changed.alter_stream(alter)?;
        Ok(changed.streams.remove(&alter.name))
    }

    fn create_job(&mut self, create: &CreateJob, at: Millis) -> Result<bool, EngineError> {
        if self.jobs.contains_key(&create.name) {
            return exists("job", &create.name, create.if_not_exists);
        }
        let create = CreateJob { if_not_exists: false, ..create.clone() };
        let job = JobEntry::new(self.next_job, create, at)?;
        self.next_job += 1;
        self.jobs.insert(job.create.name.clone(), job);
        Ok(true)
    }

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
            store: self.store.clone(),
        }
    }

    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Result<Catalog, HistoryError> {
        let (next_stream, next_job) = (snapshot.next_stream, snapshot.next_job);
        let (next_view, store) = (snapshot.next_view, snapshot.store.clone());
        let mut catalog = Catalog { next_stream, next_view, next_job, store, ..Catalog::default() };
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
    /// Why a stream cannot go, or not change so.
    pub(crate) fn keeps(&self, stream: &StreamName) -> EngineError {
        let stream = stream.to_string();
        match &self.owner {
            None => EngineError::StreamHasView { stream, view: self.create.name.to_string() },
            Some(alert) => EngineError::StreamIsWatched { stream, alert: alert.to_string() },
        }
    }

    fn snapshot(&self) -> ViewSnapshot {
        let text = Ddl::CreateView(self.create.clone()).to_string();
        let (id, created, stream, of, from) = (self.id, self.created, self.stream, self.of, self.from);
        ViewSnapshot { id, created, text, stream, of, from, tables: self.tables.clone() }
    }
}

/// The names of what a view's events are joined with.
pub(super) fn joined_by(create: &CreateView) -> Vec<Box<str>> {
    joined_names(&create.query, &ParseOptions::new(Dialect::Native, 0))
}

pub(super) fn exists(kind: &'static str, name: &str, is_fine: bool) -> Result<bool, EngineError> {
    if is_fine { Ok(false) } else { Err(EngineError::Exists { kind, name: name.to_owned() }) }
}

fn found(columns: &[(Box<str>, String)]) -> Result<Vec<InferredColumn>, HistoryError> {
    let column = |(name, ty): &(Box<str>, String)| match Type::parse(ty) {
        Ok(ty) => Ok(InferredColumn { name: name.clone(), ty }),
        Err(error) => Err(HistoryError::Statement { text: format!("{name} {ty}"), why: error.to_string() }),
    };
    columns.iter().map(column).collect()
}

pub(super) fn read(text: &str) -> Result<Ddl, HistoryError> {
    let fault = |why: String| HistoryError::Statement { text: text.to_owned(), why };
    let ddl = parse_ddl(text, &ParseOptions::new(Dialect::Native, 0))
        .map_err(|errors| fault(errors.to_string()))?;
    ddl.ok_or_else(|| fault("it is no statement of the catalog".to_owned()))
}

pub(super) fn unexpected(text: &str) -> HistoryError {
    HistoryError::Statement { text: text.to_owned(), why: "it is another statement than expected".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{super::jobs::StreamRead, *};

    fn ddl(text: &str) -> Ddl {
        read(text).unwrap()
    }

    fn carry_out(catalog: &mut Catalog, text: &str) -> Result<bool, EngineError> {
        if let Ddl::CreateAlert(create) = ddl(text) {
            let start = AlertStart { events_from: create.query().map(|_| 5), from: Some(9) };
            if !catalog.check_alert(&create)? {
                return Ok(false);
            }
            let record = ChangeRecord::new(7, Change::Alert { text: text.to_owned(), start });
            catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
            return Ok(true);
        }
        if let Ddl::CreateView(create) = ddl(text) {
            if catalog.check_view(&create)?.is_none() {
                return Ok(false);
            }
            let record =
                ChangeRecord::new(7, Change::View { text: text.to_owned(), from: 3, tables: Vec::new() });
            catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
            return Ok(true);
        }
        if let Ddl::CreateJoin(create) = ddl(text) {
            if !catalog.check_join(&create)? {
                return Ok(false);
            }
            let record = ChangeRecord::new(7, Change::Join { text: text.to_owned(), from: 4 });
            catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
            return Ok(true);
        }
        let Some(change) = catalog.check(&ddl(text))? else { return Ok(false) };
        let record = ChangeRecord::new(7, change);
        catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
        Ok(true)
    }

    fn names(catalog: &Catalog) -> Vec<(&str, u32)> {
        catalog.streams().map(|(name, entry)| (name.as_str(), entry.id)).collect()
    }

    #[test]
    fn number_of_a_dropped_stream_is_not_given_again() {
        let mut catalog = Catalog::default();
        carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
        carry_out(&mut catalog, "CREATE STREAM b (x LONG)").unwrap();
        carry_out(&mut catalog, "DROP STREAM b").unwrap();
        carry_out(&mut catalog, "CREATE STREAM b (y STRING)").unwrap();
        assert_eq!(names(&catalog), [("a", 0), ("b", 2)]);
    }

    #[test]
    fn table_of_a_dropped_stream_is_owed_until_it_is_gone() {
        let mut catalog = Catalog::default();
        let dropped =
            |catalog: &Catalog| catalog.dropped().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
        for text in ["CREATE STREAM a (x LONG)", "CREATE STREAM b (x LONG)", "CREATE STREAM live"] {
            carry_out(&mut catalog, text).unwrap();
            carry_out(&mut catalog, &text.replace("CREATE", "DROP").replace(" (x LONG)", "")).unwrap();
        }
        assert_eq!(dropped(&catalog), ["a", "b"], "what is not stored has no table");
        carry_out(&mut catalog, "CREATE STREAM a").unwrap();
        assert_eq!(dropped(&catalog), ["a", "b"], "its name was taken by a stream without a table");
        carry_out(&mut catalog, "DROP STREAM a").unwrap();
        carry_out(&mut catalog, "CREATE STREAM a (y LONG)").unwrap();
        assert_eq!(dropped(&catalog), ["b"], "the next one's table is nobody's debt");
        catalog.forget_dropped(&StreamName::new("b").unwrap());
        assert!(dropped(&catalog).is_empty());
    }

    #[test]
    fn what_exists_is_a_conflict_unless_that_is_fine() {
        let mut catalog = Catalog::default();
        carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
        let error = carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap_err();
        assert_eq!(error.to_string(), "there is a stream `a` already");
        assert!(!carry_out(&mut catalog, "CREATE STREAM IF NOT EXISTS a (x LONG)").unwrap());
        assert!(carry_out(&mut catalog, "DROP STREAM nix").is_err());
        assert!(!carry_out(&mut catalog, "DROP STREAM IF EXISTS nix").unwrap());
    }

    #[test]
    fn refused_statement_changes_nothing() {
        let mut catalog = Catalog::default();
        carry_out(&mut catalog, "CREATE STREAM a (x LONG)").unwrap();
        let before = catalog.clone();
        assert!(carry_out(&mut catalog, "ALTER STREAM a ADD COLUMN y LONG, ADD COLUMN x LONG").is_err());
        assert_eq!(catalog, before);
    }

    #[test]
    fn snapshot_reads_back_as_the_same_catalog() {
        let mut catalog = Catalog::default();
        for text in [
            "CREATE STREAM a (x LONG NOT NULL CHECK (x > 0), ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') \
             WITH (retention = '30 days')",
            "ALTER STREAM a ADD COLUMN \"größe\" DOUBLE DEFAULT 1.5",
            "CREATE STREAM gone (x LONG)",
            "DROP STREAM gone",
            "CREATE MATERIALIZED VIEW gone AS SELECT COUNT(*) FROM STREAM(a)",
            "DROP VIEW gone",
            "CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x",
            "CREATE MATERIALIZED VIEW above AS SELECT n, COUNT(*) AS xs FROM STREAM(v) GROUP BY n",
            "CREATE STREAM told WITH (store = true)",
            "CREATE ALERT gone ON (SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x) WHEN n > 1 INTO told",
            "DROP ALERT gone",
            "CREATE ALERT on_view ON v WHEN n > 1 INTO told",
            "CREATE ALERT hot ON (SELECT x, MAX(\"größe\") AS m FROM STREAM(a) GROUP BY x) WHEN m > ')' INTO \
             WEBHOOK 'http://x/' WITH (retries = 5, dead_letter = told)",
            "CREATE STREAM pairs (x LONG)",
            "CREATE JOIN gone INTO pairs AS SELECT u.x FROM STREAM(a) u JOIN STREAM(a) w ON u.x = w.x AND \
             w.ts BETWEEN u.ts AND u.ts + INTERVAL '1 hour'",
            "DROP JOIN gone",
            "CREATE JOIN j INTO pairs AS SELECT u.x FROM STREAM(a) u JOIN STREAM(a) w ON u.x = w.x AND \
             w.ts BETWEEN u.ts AND u.ts + INTERVAL '1 hour' WHERE u.y <> w.y",
            "CREATE ENDPOINT GET '/gone' AS SELECT 1 AS one",
            "DROP ENDPOINT GET '/gone'",
            "CREATE ENDPOINT GET '/v/{x}' (x LONG CHECK (x > 0) ELSE 404 'it''s none') AS SELECT n FROM v WHERE x = $x",
            "CREATE ENDPOINT POST '/a' (x LONG NOT NULL) INTO a WITH (ack = memory)",
            "CREATE JOB dropped SCHEDULE '@daily' AS SELECT 1",
            "DROP JOB dropped",
            "CREATE JOB j SCHEDULE '0 * * * *' WITH (incremental = true) AS INSERT INTO t SELECT ';' FROM a",
            "ALTER JOB j SET (time_zone = 'Europe/Berlin')",
            "ALTER JOB j DISABLE",
        ] {
            carry_out(&mut catalog, text).unwrap();
        }
        let read = StreamRead { stream: "a".into(), from: 0, to: 5 };
        for (run, step) in [
            (1, JobStep::Began { due: Some(3_600_000) }),
            (1, JobStep::Reads { id: 0, read: read.clone() }),
            (1, JobStep::Failed { error: "once".to_owned(), millis: 2 }),
            (1, JobStep::Succeeded { rows: 7, millis: 3 }),
            (2, JobStep::Began { due: None }),
            (2, JobStep::Reads { id: 0, read: StreamRead { from: 5, to: 9, ..read } }),
            (2, JobStep::Did { rows: 3, millis: 4 }),
            (2, JobStep::Failed { error: "more than once".to_owned(), millis: 5 }),
        ] {
            let record = ChangeRecord::new(11, Change::Job { job: 1, run, step });
            catalog.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
        }
        let numbers = StreamNumbers {
            position: 10,
            next_offset: 20,
            producers: vec![("p".into(), vec![(1, 1, 2, 3, 4)])],
        };
        let snapshot = catalog.snapshot(99, |_| Some(numbers.clone()));
        let again = Snapshot::from_bytes(&snapshot.to_bytes()).unwrap();
        assert_eq!((again.position, &again.streams[0].numbers), (99, &numbers));
        let mut read_back = Catalog::from_snapshot(&again).unwrap();
        assert_eq!(read_back, catalog);
        // What comes after does the same to both.
        for text in [
            "ALTER JOB j ENABLE",
            "CREATE JOB k SCHEDULE '@hourly' AS SELECT 2",
            "CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) FROM STREAM(a)",
            "DROP VIEW w",
            "CREATE ENDPOINT POST '/v/{id}' (id LONG) INTO a",
            "DROP ENDPOINT POST '/v/{other}'",
            "DROP ENDPOINT POST '/a'",
            "DROP ENDPOINT GET '/v/{x}'",
            "DROP VIEW above",
            "DROP ALERT on_view",
            "DROP VIEW v",
            "DROP ALERT hot",
            "DROP JOIN j",
            "DROP STREAM a",
        ] {
            carry_out(&mut catalog, text).unwrap();
            carry_out(&mut read_back, text).unwrap();
            assert_eq!(read_back, catalog, "{text}");
        }
        assert_eq!(catalog.job("k").unwrap().id, 2, "a number is not given again");
    }

    #[test]
    fn snapshot_and_the_changes_after_it_come_to_the_same() {
        const TEXTS: [&str; 9] = [
            "CREATE STREAM IF NOT EXISTS a (x LONG)",
            "DROP STREAM IF EXISTS a",
            "CREATE JOB IF NOT EXISTS j SCHEDULE '@hourly' AS SELECT 1",
            "CREATE JOB IF NOT EXISTS k SCHEDULE '30 2 * * *' WITH (time_zone = 'Europe/Berlin') AS SELECT 2",
            "ALTER JOB j DISABLE",
            "ALTER JOB k ENABLE",
            "ALTER JOB k SET SCHEDULE '*/5 * * * *'",
            "DROP JOB IF EXISTS j",
            "ALTER JOB j SET (incremental = true)",
        ];
        for seed in 0..50 {
            let mut rng = swiftwater_testkit::Rng::new(seed);
            let (mut catalog, mut other) = (Catalog::default(), Catalog::default());
            for at in 0..60 {
                let change = if rng.chance(0.4) {
                    // What is refused is not logged.
                    let Ok(Some(change)) = catalog.check(&ddl(TEXTS[rng.below(TEXTS.len())])) else {
                        continue;
                    };
                    change
                } else {
                    let (id, from) = (rng.below(2) as u32, rng.below(9) as u64);
                    let read = StreamRead { stream: "a".into(), from, to: from + 3 };
                    let steps = [
                        JobStep::Began { due: rng.chance(0.5).then_some(at * 1_000_000) },
                        JobStep::Reads { id, read },
                        JobStep::Did { rows: 2, millis: 1 },
                        JobStep::Failed { error: format!("number {at}"), millis: 1 },
                        JobStep::Succeeded { rows: 1, millis: 1 },
                    ];
                    let job = rng.below(catalog.next_job as usize + 1) as u32;
                    let run = catalog
                        .job_of(job)
                        .map_or(1, |job| job.open().map_or(job.next_run(), |run| run.number));
                    Change::Job { job, run, step: rng.pick(&steps) }
                };
                let record = ChangeRecord::new(at * 1_000_000, change);
                catalog.apply(&record).unwrap();
                other.apply(&ChangeRecord::from_bytes(&record.to_bytes()).unwrap()).unwrap();
                if rng.chance(0.2) {
                    let bytes = other.snapshot(0, |_| None).to_bytes();
                    other = Catalog::from_snapshot(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
                }
                assert_eq!(other, catalog, "seed {seed}, change {at}");
            }
        }
    }

    #[test]
    fn jobs_are_created_altered_and_dropped_by_name() {
        let mut catalog = Catalog::default();
        let create = "CREATE JOB j SCHEDULE '@daily' AS SELECT 1";
        carry_out(&mut catalog, create).unwrap();
        assert_eq!(carry_out(&mut catalog, create).unwrap_err().to_string(), "there is a job `j` already");
        let before = catalog.clone();
        assert!(
            !carry_out(&mut catalog, "CREATE JOB IF NOT EXISTS j SCHEDULE '@hourly' AS SELECT 2").unwrap()
        );
        assert!(!carry_out(&mut catalog, "ALTER JOB j ENABLE").unwrap(), "it is");
        for (text, error) in [
            ("ALTER JOB nix ENABLE", "no job `nix`"),
            ("DROP JOB nix", "no job `nix`"),
            (
                "ALTER JOB j SET SCHEDULE '0 0 30 2 *'",
                "the schedule `0 0 30 2 *` names a time that never comes",
            ),
            ("CREATE JOB k SCHEDULE '@daily' WITH (time_zone = 'Nix') AS SELECT 1", "no time zone `Nix`"),
        ] {
            assert_eq!(carry_out(&mut catalog, text).unwrap_err().to_string(), error);
        }
        assert_eq!(catalog, before);
        assert!(carry_out(&mut catalog, "ALTER JOB j DISABLE").unwrap());
        assert_eq!(catalog.job("j").unwrap().next_due(), None);
        assert!(carry_out(&mut catalog, "DROP JOB j").unwrap());
        assert!(!carry_out(&mut catalog, "DROP JOB IF EXISTS j").unwrap());
    }

    #[test]
    fn views_are_of_a_stored_stream_and_hold_it() {
        let mut catalog = Catalog::default();
        let view = "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) FROM STREAM(a)";
        let mut told = |text: &str| match carry_out(&mut catalog, text) {
            Ok(changed) => changed.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(told(view), "no stream `a`");
        assert_eq!(told("CREATE STREAM a"), "true");
        assert_eq!(told(view), "stream `a` is not stored, and a view is of what is");
        assert_eq!(told("ALTER STREAM a SET (store = true)"), "true");
        assert_eq!(
            told("CREATE MATERIALIZED VIEW a AS SELECT COUNT(*) FROM STREAM(a)"),
            "there is a stream `a` already"
        );
        assert_eq!(told(view), "true");
        assert_eq!(told(view), "there is a view `v` already");
        assert_eq!(told(&view.replace("VIEW v", "VIEW IF NOT EXISTS v")), "false");
        assert_eq!(told("CREATE STREAM v"), "there is a view `v` already");
        assert_eq!(told("DROP STREAM a"), "view `v` is of stream `a`");
        let upper = "CREATE MATERIALIZED VIEW u AS SELECT COUNT(*) FROM STREAM(v)";
        assert_eq!(told(upper), "true");
        assert_eq!(told("DROP VIEW v"), "view `u` is of view `v`");
        assert_eq!(told("DROP STREAM a"), "view `u` is of stream `a`");
        assert_eq!(told(&upper.replace("VIEW u", "VIEW w").replace("(v)", "(u)")), "true");
        assert_eq!(told("DROP VIEW u"), "view `w` is of view `u`");
        assert_eq!(told("DROP VIEW w"), "true");
        assert_eq!(told("DROP VIEW u"), "true");
        assert_eq!(told("DROP VIEW v"), "true");
        assert_eq!(told("DROP VIEW v"), "no view `v`");
        assert_eq!(told("DROP VIEW IF EXISTS v"), "false");
        assert_eq!(told(view), "true");
        assert_eq!(
            catalog.view("v").map(|view| (view.id, view.from)),
            Ok((3, 3)),
            "a number is not given again"
        );
    }

    #[test]
    fn alerts_hold_what_they_are_of() {
        let mut catalog = Catalog::default();
        let mut told = |text: &str| match carry_out(&mut catalog, text) {
            Ok(changed) => changed.to_string(),
            Err(error) => error.to_string(),
        };
        let alert =
            "CREATE ALERT hot ON (SELECT x, COUNT(*) AS n FROM STREAM(a) GROUP BY x) WHEN n > 1 INTO told";
        let hook = alert.replace("INTO told", "INTO WEBHOOK 'http://x/'").replace("hot", "hook");
        assert_eq!(told(alert), "no stream `a`");
        assert_eq!(told("CREATE STREAM a (x LONG)"), "true");
        assert_eq!(told(alert), "no stream `told`");
        assert_eq!(told("CREATE STREAM told"), "true");
        assert_eq!(told(alert), "stream `told` is not stored, and an alert tells one that is");
        assert_eq!(told("ALTER STREAM told SET (store = true)"), "true");
        assert_eq!(
            told(&alert.replace("INTO told", "INTO a")),
            "the query is of stream `a`: its alert would tell of itself"
        );
        assert_eq!((told(alert), told(&hook)), ("true".to_owned(), "true".to_owned()));
        assert_eq!(told(alert), "there is a alert `hot` already");
        assert_eq!(told(&alert.replace("ALERT hot", "ALERT IF NOT EXISTS hot")), "false");
        assert_eq!(told("DROP STREAM a"), "the query of alert `hook` is of stream `a`");
        assert_eq!(told("DROP STREAM told"), "alert `hot` tells stream `told`");
        assert_eq!(told("DROP VIEW \"alert.hot\""), "no view `alert.hot`");
        assert_eq!((told("DROP ALERT hook"), told("DROP ALERT hot")), ("true".to_owned(), "true".to_owned()));
        assert_eq!(told("DROP ALERT IF EXISTS hot"), "false");
        assert_eq!((told("DROP STREAM a"), told("DROP STREAM told")), ("true".to_owned(), "true".to_owned()));
        let (streams, views) = (catalog.streams().count(), catalog.views().len());
        assert_eq!((streams, views, catalog.next_view()), (0, 0, 4), "each took two numbers");
    }

    #[test]
    fn endpoints_hold_what_they_are_of() {
        let mut catalog = Catalog::default();
        let mut told = |text: &str| match carry_out(&mut catalog, text) {
            Ok(changed) => changed.to_string(),
            Err(error) => error.to_string(),
        };
        let (post, get) = ("CREATE ENDPOINT POST '/a' INTO a", "CREATE ENDPOINT GET '/v' AS SELECT n FROM v");
        assert_eq!(told(post), "no stream `a`");
        assert_eq!(told("CREATE STREAM a (x LONG)"), "true");
        assert_eq!(told(get), "no view `v`");
        assert_eq!(told("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(a)"), "true");
        assert_eq!((told(post), told(get)), ("true".to_owned(), "true".to_owned()));
        assert_eq!(told(post), "there is an endpoint POST '/a' already");
        assert_eq!(told("CREATE ENDPOINT IF NOT EXISTS POST '/a' INTO nix"), "false");
        assert_eq!(told("DROP VIEW v"), "endpoint GET '/v' is of view `v`");
        assert_eq!(told("DROP ENDPOINT GET '/v'"), "true");
        assert_eq!(told("DROP VIEW v"), "true");
        assert_eq!(told("DROP STREAM IF EXISTS a"), "endpoint POST '/a' is of stream `a`");
        assert_eq!(told("DROP ENDPOINT POST '/a'"), "true");
        assert_eq!(told("DROP ENDPOINT POST '/a'"), "no endpoint POST '/a'");
        assert_eq!(told("DROP ENDPOINT IF EXISTS POST '/a'"), "false");
        assert_eq!(told("DROP STREAM a"), "true");
        let older =
            br#"{"format": 1, "written_by": "0.1.0", "position": 5, "next_stream": 1, "streams": []}"#;
        let older = Catalog::from_snapshot(&Snapshot::from_bytes(older).unwrap()).unwrap();
        assert_eq!(older.endpoints().len(), 0, "what is older has none");
    }

    #[test]
    fn newer_format_is_refused_and_says_what_to_do() {
        let newer = br#"{"format": 2, "written_by": "9.0.0", "shape": "unknown"}"#;
        let error = Snapshot::from_bytes(newer).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the catalog has format 2, written by 9.0.0; this version reads up to 1"
        );
        assert!(ChangeRecord::from_bytes(newer).is_err());
        assert!(matches!(Snapshot::from_bytes(b"{}"), Err(HistoryError::Catalog { .. })));
    }
}
