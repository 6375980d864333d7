//! Describes views: `SHOW VIEWS`, `SHOW CREATE VIEW`, `DESCRIBE VIEW`, and over HTTP.

use std::sync::{Arc, atomic::Ordering};

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::ddl::Ddl;
use swiftwater_sql::SqlError;

use super::View;
use crate::{
    ViewsMetrics,
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
};

/// The status of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewStatus {
    /// Its name.
    pub name: String,
    /// The stream that it is of.
    pub stream: StreamName,
    /// The view that it is of, if it is of one; then the stream is what the lowest of them is of.
    pub of_view: Option<String>,
    /// Its query.
    pub query: String,
    /// Time of its creation.
    pub created: Millis,
    /// It is of the stream's events from this offset on.
    pub from: u64,
    /// The offset of the first event that it does not count yet.
    pub position: u64,
    /// The offset up to which all is on disk.
    pub committed: u64,
    /// Events of the stream that it does not count yet.
    pub lag_events: u64,
    /// Its columns, by name and type.
    pub columns: Vec<(String, String)>,
    /// It still takes events from the stream's table, which the log does not have for it; of a view of a view, rows that
    /// were there before it.
    pub from_table: bool,
    /// Keys that are in memory.
    pub keys_held: u64,
    /// Bytes that these take, about.
    pub held_bytes: u64,
    /// Events read since the start, and those of them that are the view's.
    pub events: (u64, u64),
    /// Faults since the start: values that did not fit their type, failed operations, keys that were too long.
    pub faults: (u64, u64, u64),
    /// Events of closed windows since the start.
    pub late: u64,
    /// Events since the start whose times were too far ahead of their arrival.
    pub ahead: u64,
    /// Lookups of keys since the start: found in memory, and on disk.
    pub reads: (u64, u64),
    /// The time up to which the windows of a view are closed.
    pub watermark: Option<Millis>,
    /// The reason why it is not maintained, or does not continue, if so.
    pub failing: Option<String>,
}

impl View {
    pub(crate) fn status(&self) -> ViewStatus {
        let (keys_held, held_bytes) = self.memory_use();
        // Before the stream's next offset is looked at, which is never behind.
        let position = self.at().position;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        ViewStatus {
            name: self.name().to_owned(),
            stream: self.stream.clone(),
            of_view: self.below().map(str::to_owned),
            query: self.entry.create.query.to_string(),
            created: self.entry.created,
            from: self.entry.from,
            position,
            committed: self.committed(),
            lag_events: self.stored.next().saturating_sub(position),
            columns: self.columns.iter().map(|(name, ty)| (name.to_string(), ty.to_string())).collect(),
            from_table: self.is_behind.load(Ordering::Relaxed),
            keys_held,
            held_bytes,
            events: (read(&counts.events), read(&counts.matched)),
            faults: (read(&counts.mistyped), read(&counts.errors), read(&counts.long_keys)),
            late: read(&counts.late),
            ahead: read(&counts.ahead),
            reads: (read(&counts.reads_held), read(&counts.reads_stored)),
            watermark: self.query.windows().and_then(|windows| windows.watermark(self.at().latest())),
            failing: self.failing().or_else(|| self.rebuilding()),
        }
    }
}

impl History {
    pub(crate) fn views_metrics(&self) -> ViewsMetrics {
        let (alerts, alerts_firing, alerts_failing) = self.alerts_metrics();
        let mut all = ViewsMetrics { alerts, alerts_firing, alerts_failing, ..ViewsMetrics::default() };
        for view in self.all_views().iter().map(|view| view.status()) {
            all.views += 1;
            all.lag_events += view.lag_events;
            all.keys_held += view.keys_held;
            all.held_bytes += view.held_bytes;
            all.reads_held += view.reads.0;
            all.reads_stored += view.reads.1;
            all.failing += u64::from(view.failing.is_some());
        }
        all
    }

    pub(crate) fn show_views(&self) -> RecordBatch {
        let views: Vec<ViewStatus> = self.named_views().iter().map(|view| view.status()).collect();
        let numbers = |of: fn(&ViewStatus) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(views.iter().map(|view| of(view) as i64)))
        };
        let created = views.iter().map(|view| view.created);
        table([
            ("view", texts(views.iter().map(|view| view.name.as_str()))),
            ("stream", texts(views.iter().map(|view| view.stream.as_str()))),
            ("of_view", Arc::new(views.iter().map(|view| view.of_view.clone()).collect::<StringArray>())),
            ("created", Arc::new(TimestampMillisecondArray::from_iter_values(created).with_timezone("UTC"))),
            ("position", numbers(|view| view.position)),
            ("committed", numbers(|view| view.committed)),
            ("lag_events", numbers(|view| view.lag_events)),
            (
                "from_table",
                Arc::new(views.iter().map(|view| Some(view.from_table)).collect::<BooleanArray>()),
            ),
            ("keys_held", numbers(|view| view.keys_held)),
            ("held_bytes", numbers(|view| view.held_bytes)),
            ("late", numbers(|view| view.late)),
            ("ahead", numbers(|view| view.ahead)),
            ("watermark", {
                let watermarks = views.iter().map(|view| view.watermark);
                Arc::new(watermarks.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
            }),
            ("failing", Arc::new(views.iter().map(|view| view.failing.clone()).collect::<StringArray>())),
        ])
    }

    pub(crate) fn show_create_view(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let view = self.view(name).map_err(from_engine)?;
        let text = Ddl::CreateView(view.entry.create.clone()).to_string();
        Ok(table([("view", texts([name])), ("statement", texts([&*text]))]))
    }

    pub(crate) fn describe_view(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let view = self.view(name).map_err(from_engine)?;
        let types: Vec<String> = view.columns.iter().map(|(_, ty)| ty.to_string()).collect();
        Ok(table([
            ("column", texts(view.columns.iter().map(|(name, _)| &**name))),
            ("type", texts(types.iter().map(String::as_str))),
            ("nullable", Arc::new(BooleanArray::from(vec![true; types.len()])) as ArrayRef),
        ]))
    }
}
