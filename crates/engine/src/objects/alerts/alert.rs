//! One alert: its condition and its counters.

use std::sync::{Arc, atomic::AtomicU64};

use swiftwater_catalog::kind::alert::AlertEntry;
use swiftwater_event::{EventBatch, Millis, Step, StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions, QueryError, QueryErrors, Schema,
    ddl::{AlertTarget, CreateAlert},
    parse, parse_condition,
};
use swiftwater_live::{RowCondition, Shard, StandingQuery};
use swiftwater_sinks::Webhook;
use swiftwater_views::{ViewStore, ViewStoreError};

use crate::{
    EngineError, RuntimeError,
    durable::history::History,
    objects::{
        sinks::{DeliverError, Retry},
        views::{View, ViewChange, query_error},
    },
    supervisor::DropSignal,
    tables::rows::as_events,
};

/// An alert at work.
pub(crate) struct Alert {
    pub(crate) entry: AlertEntry,
    pub(super) view: Arc<View>,
    condition: RowCondition,
    pub(super) store: Arc<ViewStore>,
    pub(super) counts: Counts,
    /// The present failure, and its attempts.
    pub(super) tries: Retry,
    pub(super) dropped: DropSignal,
}

/// The counters of an alert that are shown.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Keys that meet the condition.
    pub(super) met: AtomicU64,
    /// Keys that meet it and are not told: there are too many.
    pub(super) passed_over: AtomicU64,
    pub(super) position: AtomicU64,
    /// Messages since the start, those of them that the stream's columns refused, and those that went elsewhere.
    pub(super) messages: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) dead: AtomicU64,
}

/// The target of notifications, opened.
pub(super) enum NotificationTarget {
    Stream(StreamName),
    Webhook(Box<Webhook>),
}

/// The reason why an alert does not continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The firing keys, and the number of the last sent message, are known from its files alone.
    #[error(
        "its files were damaged, so the server cannot determine which messages were sent; DROP it and CREATE it again"
    )]
    Damaged,
    #[error("its state cannot be persisted")]
    Store(#[from] ViewStoreError),
    #[error("its view cannot be read, or its stream cannot be written")]
    Engine(#[from] EngineError),
    #[error("its messages cannot be delivered")]
    Deliver(#[from] DeliverError),
}

const SEARCH_HINT: &str = "Name a column: SEARCH(column, 'words').";

/// Compiles the condition of an alert on rows of these columns; the places of its faults are those in the condition's text.
pub(super) fn compile(
    create: &CreateAlert,
    columns: &[(Box<str>, Type)],
    now: Millis,
) -> Result<RowCondition, EngineError> {
    let schema = Schema::new(columns.iter().cloned());
    let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, now) };
    // On lines of its own: an error names the line after it.
    let text = format!("SELECT 1 AS met FROM STREAM(\"rows\") WHERE (\n{}\n)", create.condition);
    let statement = parse(&text, &options).map_err(|mut errors| {
        errors
            .0
            .iter_mut()
            .for_each(|error| error.line = error.line.map(|line| line.saturating_sub(1).max(1)));
        EngineError::Runtime(RuntimeError::Query(errors))
    })?;
    parse_condition(&create.condition, &options).map_err(RuntimeError::Query)?;
    for (path, _) in statement.query.paths() {
        if path.is_event() {
            let error = QueryError {
                hint: Some(SEARCH_HINT.to_owned()),
                ..query_error("SEARCH without a column is for events, and an alert watches rows".to_owned())
            };
            return Err(EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![error]))));
        }
        let Some(Step::Key(name)) = path.steps().first() else { continue };
        if !columns.iter().any(|(column, _)| column == name) {
            let columns: Vec<&str> = columns.iter().map(|(column, _)| &**column).collect();
            let hint = format!("Columns are {}.", columns.join(", "));
            let of = create.view().map_or("the query".to_owned(), |view| format!("view `{view}`"));
            let error =
                QueryError { hint: Some(hint), ..query_error(format!("{of} has no column `{name}`")) };
            return Err(EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![error]))));
        }
    }
    let query = StandingQuery::compile(statement.query).map_err(|error| {
        EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![query_error(error.to_string())])))
    })?;
    RowCondition::new(query).ok_or(EngineError::NoHistory)
}

impl Alert {
    pub(super) fn new(entry: AlertEntry, view: Arc<View>, now: Millis) -> Result<Alert, EngineError> {
        let condition = compile(&entry.create, &view.columns, now)?;
        let store = Arc::clone(&view.store);
        Ok(Alert {
            entry,
            view,
            condition,
            store,
            counts: Counts::default(),
            tries: Retry::default(),
            dropped: DropSignal::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.create.name
    }

    /// The producer of its messages. No other has this one's number and time of creation.
    pub(super) fn id(&self) -> String {
        format!("swiftwater/alert/{}-{}", self.entry.id, self.entry.created)
    }

    /// True if the view is its own.
    pub(super) fn has_own_view(&self) -> bool {
        self.view.entry.owner.is_some()
    }

    /// The present failure of it, or of the view that it has for itself.
    pub(super) fn failing(&self) -> Option<String> {
        let of_view = || self.view.failing().filter(|_| self.has_own_view());
        self.tries.failing().map(|(why, _)| why).or_else(of_view)
    }

    /// Messages that are told at once.
    pub(super) fn batch_rows(&self) -> usize {
        let rows = self.entry.create.options.delivery.batch_rows;
        match &self.entry.create.target {
            AlertTarget::Stream(_) => STREAM_ROWS,
            AlertTarget::Webhook(_) => rows.unwrap_or(1) as usize,
        }
    }

    /// The target of notifications.
    pub(super) fn target(&self, history: &History) -> Result<NotificationTarget, DeliverError> {
        Ok(match &self.entry.create.target {
            AlertTarget::Stream(name) => NotificationTarget::Stream(name.clone()),
            AlertTarget::Webhook(url) => {
                let options = &self.entry.create.options.delivery;
                NotificationTarget::Webhook(Box::new(history.webhook(url, options, self.batch_rows() > 1)?))
            }
        })
    }

    /// True for each row that meets the condition, in the order of the rows; a key without a row does not.
    pub(super) fn meet(&self, shard: &mut Shard, changes: &[ViewChange]) -> Vec<bool> {
        let with_rows: Vec<usize> =
            (0..changes.len()).filter(|&place| changes[place].row.is_some()).collect();
        let mut meets = vec![false; changes.len()];
        let rows = with_rows.iter().filter_map(|&place| changes[place].row.as_deref());
        for row in self.condition.rows(shard, &rows_as_events(rows)) {
            if let Some(&place) = with_rows.get(row as usize) {
                meets[place] = true;
            }
        }
        meets
    }
}

/// Messages that a stream is told at once.
const STREAM_ROWS: usize = 1000;

/// JSON objects as a batch, an event each.
fn rows_as_events<'r>(rows: impl Iterator<Item = &'r [u8]>) -> EventBatch {
    let mut text = Vec::new();
    for row in rows {
        text.extend_from_slice(row);
        text.push(b'\n');
    }
    as_events(text)
}
