//! The rows that a sink delivers: of a view as far as it is on disk, or of events that were read.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::RecordBatch;
use swiftwater_catalog::kind::sink::{Delivered, SinkEntry};
use swiftwater_event::Millis;

use super::{event_query::EventQuery, row_schema::RowColumns};
use crate::{
    EngineError,
    objects::views::{At as ViewAt, Portion, View},
};

/// Rows of a delivery where the sink does not say.
const BATCH_ROWS: u32 = 1000;

/// The rows that a sink delivers.
pub(super) enum Rows {
    /// Of a view, as far as it is on disk.
    View(Arc<View>, ViewAt),
    /// Of events, in order.
    Events(EventRows),
}

/// Rows of events that were read and are not delivered.
pub(super) struct EventRows {
    pub(super) query: Arc<EventQuery>,
    /// Planned deliveries, in order.
    pub(super) portions: VecDeque<Portion>,
    /// The number of events among theirs that are deleted.
    pub(super) lost: u64,
}

/// The most rows of a delivery of a sink.
pub(super) fn batch_rows(entry: &SinkEntry) -> u64 {
    u64::from(entry.create.options.batch_rows.unwrap_or(BATCH_ROWS))
}

impl Rows {
    /// The name by which SQL knows them while they are inserted.
    pub(super) fn name(&self) -> &str {
        match self {
            Rows::View(view, _) => view.name(),
            Rows::Events(events) => events.query.stored.name.as_str(),
        }
    }

    /// Their columns.
    pub(super) fn columns(&self) -> RowColumns {
        match self {
            Rows::View(view, _) => RowColumns::of_view(view),
            Rows::Events(events) => RowColumns::of_query(&events.query),
        }
    }

    /// Rows, a line of JSON each, as a table.
    pub(super) fn record_batch(&self, rows: Vec<u8>, now: Millis) -> Result<RecordBatch, EngineError> {
        match self {
            Rows::View(view, _) => view.record_batch(rows, now),
            Rows::Events(events) => events.query.record_batch(rows, now),
        }
    }

    /// The next rows behind a sink's progress: of one window that is closed, of one commit, or of a planned delivery.
    pub(super) fn next_portion(
        &self,
        entry: &SinkEntry,
        delivered: &Delivered,
        now: Millis,
    ) -> Result<Option<Portion>, EngineError> {
        let after = || delivered.last_key();
        match self {
            Rows::View(view, at) if entry.create.is_of_changes() => {
                view.changes_kept(after().as_deref(), at.position, batch_rows(entry), now)
            }
            Rows::View(view, at) => {
                view.closed(after().as_deref(), entry.from, at.latest(), batch_rows(entry), now)
            }
            Rows::Events(events) => {
                let after = after().unwrap_or_default();
                // Places of offsets are in the order of these.
                Ok(events.portions.iter().find(|portion| portion.last > after).cloned())
            }
        }
    }

    /// The progress after a portion without rows. One of a view is no delivery: HAVING leaves all of its rows out. One of events was
    /// planned when it had rows, so it may have been delivered.
    pub(super) fn pass(&self, delivered: &Delivered, last: &[u8]) -> Delivered {
        match self {
            Rows::View(..) => {
                let mut passed = delivered.clone();
                passed.pass(last);
                passed
            }
            Rows::Events(_) => delivered.after(0, 0, last, delivered.bytes),
        }
    }
}
