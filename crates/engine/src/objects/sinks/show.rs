//! Sinks as they are created, and as they are told of: `SHOW SINKS`, `SHOW CREATE SINK`, `DESCRIBE SINK`.

use std::{path::PathBuf, sync::Arc};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_catalog::{
    Change, ObjectKind,
    kind::sink::{SinkEntry, SinkStart, digits},
};
use swiftwater_event::{Millis, StreamName, Type};
use swiftwater_lang::ddl::{CreateSink, SinkTarget};
use swiftwater_live::columns::arrow_type;
use swiftwater_sinks::FileSink;
use swiftwater_sql::{SqlError, can_be_inserted, type_name};

use crate::{
    Engine, EngineError, Principal, RuntimeError,
    durable::{directory::DataDir, history::History},
    objects::views::{NeededBy, View},
    shared::Shared,
    statements::{table, texts},
    tables::{HistoryTables, from_engine},
};

/// How a sink fares.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkStatus {
    /// Its name.
    pub name: String,
    /// The view that it is of.
    pub view: String,
    /// Where it delivers to: `STREAM s`.
    pub target: String,
    /// When it was created.
    pub created: Millis,
    /// Deliveries so far, and rows in them.
    pub delivered: (u64, u64),
    /// Rows that went to the stream for what cannot be delivered.
    pub dead_rows: u64,
    /// Milliseconds of event time from the end of what is delivered to the last window that is closed; none before the first.
    pub behind_ms: Option<u64>,
    /// Of a sink of changes: those that are held for the sinks of its view, and how many of them went undelivered as there
    /// were too many, since the start.
    pub changes: Option<(u64, u64)>,
    /// Tries since the last delivery.
    pub tries: u32,
    /// Why the last one failed, if it did.
    pub failing: Option<String>,
}

impl History {
    /// The directory that files of sinks are below.
    pub(super) fn sinks_dir(&self) -> Result<PathBuf, EngineError> {
        match (&*self.config.sinks_dir, &self.dir) {
            ("", Some(dir)) => Ok(DataDir::sinks(dir)),
            ("", None) => Err(EngineError::NoHistory),
            (configured, _) => Ok(configured.into()),
        }
    }

    /// Creates a sink; answers whether that changed anything. The caller changes the catalog, one at a time.
    pub(crate) async fn create_sink(
        &self,
        shared: &Shared,
        create: &CreateSink,
    ) -> Result<bool, EngineError> {
        let (known, sinks) = self
            .with_catalog(|catalog| (catalog.sinks().get(&create.name).is_ok(), catalog.sinks().all().len()));
        if known {
            // Says so, or that this is no error.
            let created =
                self.with_catalog(|catalog| catalog.sinks().clone().create(create, SinkStart::default(), 0));
            return Ok(created?);
        }
        if sinks >= self.config.sinks_max {
            return Err(EngineError::Runtime(RuntimeError::Limit {
                what: "number of sinks",
                setting: "sinks.sinks_max",
                wanted: sinks as u64 + 1,
                limit: self.config.sinks_max as u64,
            }));
        }
        let view = self.view(&create.view)?;
        let windows = view.query.windows();
        if windows.is_none() && !create.of_changes {
            return Err(EngineError::SinkOfNoWindows(create.view.to_string()));
        }
        let stream = |name: &str| -> Result<(), EngineError> {
            let found = StreamName::new(name).ok().and_then(|name| self.stored(&name));
            let stored = found.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name))?;
            if stored.name == view.stream {
                return Err(EngineError::SinkIntoItself(name.to_owned()));
            }
            Ok(())
        };
        match &create.target {
            SinkTarget::Stream(name) => stream(name)?,
            SinkTarget::Table(name) => {
                let tables = shared.tables.get().ok_or(EngineError::NoHistory)?;
                let is_there =
                    tables.is_plain(name).map_err(|error| EngineError::Table(error.to_string()))?;
                if !is_there {
                    return Err(EngineError::not_found(ObjectKind::Table, &**name));
                }
                check_columns(tables, name, &view).await?;
            }
            SinkTarget::File(path) => {
                let file = FileSink::new(&self.sinks_dir()?, path)
                    .map_err(|error| EngineError::SinkTarget(error.to_string()))?;
                self.with_catalog(|catalog| catalog.sinks().check_file(create))?;
                // It is the sink's alone: what others wrote would be cut off with the first delivery.
                if file.path().metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
                    return Err(EngineError::SinkFileThere(path.to_string()));
                }
            }
            SinkTarget::Webhook(url) => self.check_webhook(url, &create.options)?,
        }
        create.options.dead_letter.as_deref().map_or(Ok(()), stream)?;
        self.with_catalog(|catalog| catalog.check_no_way_round(create.streams(), &[view.stream.as_str()]))?;
        let mut start = SinkStart { view: view.id(), ..SinkStart::default() };
        if create.of_changes {
            start.after = Some(digits(&view.retain_changes()));
        } else {
            // Before it is looked how far the view is, so that no commit deletes what is closed from here on. Its task says
            // where it begins.
            let id = self.with_catalog(|catalog| catalog.sinks().next_id());
            view.needs_windows(NeededBy::Sink(id));
            start.from = windows.and_then(|windows| windows.first_open(view.at().latest()));
        }
        let recorded = self.record(Change::Sink { text: create.to_string(), start }).await;
        if create.of_changes {
            self.let_go_of_changes(&view);
        }
        if recorded.is_err() {
            self.let_go_of_windows();
        }
        recorded?;
        self.sinks.changed.notify_one();
        Ok(true)
    }

    fn sink_status(&self, entry: &SinkEntry) -> SinkStatus {
        let failing = self.sinks.of(entry.id).and_then(|work| work.tries.failing());
        let of_changes = entry.create.of_changes;
        let behind = || {
            if of_changes {
                return None;
            }
            let view = self.view(&entry.create.view).ok()?;
            let windows = view.query.windows()?;
            let open = windows.first_open(view.at().latest())?;
            let key = entry.delivered.last_key()?;
            let done = windows.next(swiftwater_live::Key::window_of_ordered(&key)?);
            Some(open.saturating_sub(done).max(0) as u64)
        };
        SinkStatus {
            name: entry.create.name.to_string(),
            view: entry.create.view.to_string(),
            target: entry.create.target.to_string(),
            created: entry.created,
            delivered: (entry.delivered.count, entry.delivered.rows),
            dead_rows: entry.delivered.dead,
            behind_ms: behind(),
            changes: self
                .view(&entry.create.view)
                .ok()
                .filter(|_| of_changes)
                .map(|view| view.changes_held()),
            tries: failing.as_ref().map_or(0, |(_, tries)| *tries),
            failing: failing.map(|(why, _)| why),
        }
    }

    /// All sinks, by name.
    pub(crate) fn sink_statuses(&self) -> Vec<SinkStatus> {
        let entries: Vec<SinkEntry> = self.with_catalog(|catalog| catalog.sinks().all().cloned().collect());
        entries.iter().map(|entry| self.sink_status(entry)).collect()
    }

    pub(crate) fn show_sinks(&self) -> RecordBatch {
        shown(&self.sink_statuses())
    }

    pub(crate) fn show_create_sink(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let text = self.with_catalog(|catalog| catalog.sinks().get(name).map(|sink| sink.create.to_string()));
        let text = text.map_err(from_engine)?;
        Ok(table([("sink", texts([name])), ("statement", texts([&*text]))]))
    }

    pub(crate) fn describe_sink(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let entry = self.with_catalog(|catalog| catalog.sinks().get(name).cloned()).map_err(from_engine)?;
        Ok(shown(&[self.sink_status(&entry)]))
    }
}

/// Refuses a table that has not the columns of a view, or has them of types that the view's values never are.
async fn check_columns(tables: &HistoryTables, table: &str, view: &View) -> Result<(), EngineError> {
    let found = tables.plain_schema(table).await.map_err(|error| EngineError::Table(error.to_string()))?;
    let found = found.ok_or_else(|| EngineError::not_found(ObjectKind::Table, table))?;
    let fault = |(name, ty): &(Box<str>, Type)| match found.field_with_name(name) {
        Err(_) => Some(format!("it has no column `{name}`")),
        Ok(column) if can_be_inserted(&arrow_type(ty), column.data_type()) => None,
        Ok(column) => {
            let there = type_name(column.data_type());
            Some(format!("column `{name}` is {there} there, and {ty} in the view"))
        }
    };
    let faults: Vec<String> = view.columns.iter().filter_map(fault).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => {
            let (table, view) = (table.to_owned(), view.name().to_owned());
            Err(EngineError::SinkColumns { table, view, faults })
        }
    }
}

fn shown(sinks: &[SinkStatus]) -> RecordBatch {
    let numbers = |of: fn(&SinkStatus) -> Option<u64>| -> ArrayRef {
        Arc::new(sinks.iter().map(|sink| of(sink).map(|number| number as i64)).collect::<Int64Array>())
    };
    let created = sinks.iter().map(|sink| sink.created);
    table([
        ("sink", texts(sinks.iter().map(|sink| sink.name.as_str()))),
        ("view", texts(sinks.iter().map(|sink| sink.view.as_str()))),
        ("target", texts(sinks.iter().map(|sink| sink.target.as_str()))),
        ("created", Arc::new(TimestampMillisecondArray::from_iter_values(created).with_timezone("UTC"))),
        ("deliveries", numbers(|sink| Some(sink.delivered.0))),
        ("rows", numbers(|sink| Some(sink.delivered.1))),
        ("dead_rows", numbers(|sink| Some(sink.dead_rows))),
        ("behind_ms", numbers(|sink| sink.behind_ms)),
        ("changes_held", numbers(|sink| sink.changes.map(|changes| changes.0))),
        ("changes_lost", numbers(|sink| sink.changes.map(|changes| changes.1))),
        ("tries", numbers(|sink| Some(u64::from(sink.tries)))),
        ("failing", Arc::new(sinks.iter().map(|sink| sink.failing.clone()).collect::<StringArray>())),
    ])
}

impl Engine {
    /// All sinks, by name.
    pub fn sinks(&self, _principal: &Principal) -> Vec<SinkStatus> {
        self.shared().history.get().map(|history| history.sink_statuses()).unwrap_or_default()
    }
}
