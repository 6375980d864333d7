//! What is named and durable: streams, views, joins, jobs and endpoints ([`EndpointEntries`]). Plain tables are known to the store by
//! themselves; here are their names alone.
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

mod cycles;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{AlterStream, CreateJob, CreateStream, CreateView, Ddl},
    joined_names, parse, parse_kept_ddl, stream_of,
};

use swiftwater_live::columns::InferredColumn;

use super::{
    HistoryError,
    alerts::{AlertEntry, AlertStart},
    durable_query::{DetachedEntries, DetachedStep},
    endpoints::EndpointEntries,
    jobs::{JobEntry, JobStep},
    lookup_join::TableColumns,
    quarantine::{QUARANTINE, wants_quarantine},
    sinks::{Delivered, SinkStart, Sinks},
    stream_joins::JoinEntry,
};
use crate::EngineError;
use snapshot::found;
pub(crate) use snapshot::{ReceiptSnapshot, Snapshot, StreamNumbers};

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
    /// Plain tables that are there, so that one is missed whose files are gone. They are not logged either: a store says
    /// which it has, and what was made just before a crash is noted at the next start.
    pub(super) plain: BTreeSet<Box<str>>,
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

impl Change {
    /// Whether it is written down also where the log has no room for events: what a statement asks for may make room. What
    /// goes on by itself is not, as it would use that up.
    pub(crate) fn is_urgent(&self) -> bool {
        !matches!(self, Change::Delivered { .. } | Change::Detached(_) | Change::Job { .. })
    }
}

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

    /// Tells jobs what time it is, as the log does with what it says of them.
    pub(crate) fn jobs_see_time(&mut self, now: Millis) {
        self.jobs.values_mut().for_each(|job| job.see_time(now));
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
        let changes = changed.apply_ddl(ddl, 0)?;
        // Not where it is applied: older versions let go of what a sink delivers to, and wrote that down.
        if let Ddl::DropStream { name, .. } = ddl
            && changes
        {
            self.sinks.check_stream(name.as_str())?;
            self.check_quarantine(name)?;
        }
        Ok(changes.then(|| Change::Ddl(ddl.to_string())))
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

    /// An error where it is the stream that bad events of another are kept in.
    fn check_quarantine(&self, name: &StreamName) -> Result<(), EngineError> {
        let is_kept = |entry: &&StreamEntry| entry.create.name != *name && wants_quarantine(&entry.create);
        match self.streams.values().find(is_kept).filter(|_| name.as_str() == QUARANTINE) {
            None => Ok(()),
            Some(entry) => Err(EngineError::QuarantineOf(entry.create.name.to_string())),
        }
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
}

/// The names of what a view's events are joined with.
pub(super) fn joined_by(create: &CreateView) -> Vec<Box<str>> {
    joined_names(&create.query, &ParseOptions::new(Dialect::Native, 0))
}

pub(super) fn exists(kind: &'static str, name: &str, is_fine: bool) -> Result<bool, EngineError> {
    if is_fine { Ok(false) } else { Err(EngineError::Exists { kind, name: name.to_owned() }) }
}

pub(super) fn read(text: &str) -> Result<Ddl, HistoryError> {
    let fault = |why: String| HistoryError::Statement { text: text.to_owned(), why };
    let ddl = parse_kept_ddl(text, &ParseOptions::new(Dialect::Native, 0))
        .map_err(|errors| fault(errors.to_string()))?;
    ddl.ok_or_else(|| fault("it is no statement of the catalog".to_owned()))
}

pub(super) fn unexpected(text: &str) -> HistoryError {
    HistoryError::Statement { text: text.to_owned(), why: "it is another statement than expected".to_owned() }
}

#[cfg(test)]
mod tests;
