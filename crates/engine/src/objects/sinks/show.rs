//! `SHOW SINKS`, `SHOW CREATE SINK`, `DESCRIBE SINK`, and the status of sinks.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_catalog::kind::sink::SinkEntry;
use swiftwater_sql::SqlError;

use crate::{
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
    status::SinkStatus,
};

impl History {
    fn sink_status(&self, entry: &SinkEntry) -> SinkStatus {
        let failing = self.objects.sinks.of(entry.id).and_then(|work| work.tries.failing());
        let of_changes = entry.create.is_of_changes();
        let view = || entry.create.view().and_then(|view| self.view(view).ok());
        let behind = || {
            if of_changes {
                return None;
            }
            let view = view()?;
            let windows = view.query.windows()?;
            let open = windows.first_open(view.at().latest())?;
            let key = entry.delivered.last_key()?;
            let done = windows.next(swiftwater_live::Key::window_of_ordered(&key)?);
            Some(open.saturating_sub(done).max(0) as u64)
        };
        SinkStatus {
            name: entry.create.name.to_string(),
            view: entry.create.view().map(str::to_owned),
            stream: entry.create.query().map(|query| query.stream.to_string()),
            target: entry.create.target.to_string(),
            created: entry.created,
            delivered: (entry.delivered.count, entry.delivered.rows),
            dead_rows: entry.delivered.dead,
            behind_ms: behind(),
            changes: view().filter(|_| of_changes).map(|view| view.changes_held()),
            events: entry.create.query().and_then(|query| {
                let next = self.stored(&query.stream)?.next();
                Some((next.saturating_sub(entry.delivered.offset()), entry.delivered.lost))
            }),
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
        ("view", Arc::new(sinks.iter().map(|sink| sink.view.clone()).collect::<StringArray>())),
        ("stream", Arc::new(sinks.iter().map(|sink| sink.stream.clone()).collect::<StringArray>())),
        ("target", texts(sinks.iter().map(|sink| sink.target.as_str()))),
        ("created", Arc::new(TimestampMillisecondArray::from_iter_values(created).with_timezone("UTC"))),
        ("deliveries", numbers(|sink| Some(sink.delivered.0))),
        ("rows", numbers(|sink| Some(sink.delivered.1))),
        ("dead_rows", numbers(|sink| Some(sink.dead_rows))),
        ("behind_ms", numbers(|sink| sink.behind_ms)),
        ("changes_held", numbers(|sink| sink.changes.map(|changes| changes.0))),
        ("changes_lost", numbers(|sink| sink.changes.map(|changes| changes.1))),
        ("events_behind", numbers(|sink| sink.events.map(|events| events.0))),
        ("events_lost", numbers(|sink| sink.events.map(|events| events.1))),
        ("tries", numbers(|sink| Some(u64::from(sink.tries)))),
        ("failing", Arc::new(sinks.iter().map(|sink| sink.failing.clone()).collect::<StringArray>())),
    ])
}
