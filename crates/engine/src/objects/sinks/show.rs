//! `SHOW SINKS`, `SHOW CREATE SINK`, `DESCRIBE SINK`, and the status of sinks.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_catalog::kind::sink::SinkEntry;
use swiftwater_event::Millis;
use swiftwater_sql::SqlError;

use crate::{
    Engine, Principal,
    durable::history::History,
    statements::{table, texts},
    tables::from_engine,
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
