//! Group commit for deliveries into a table: one commit inserts all waiting portions.
//!
//! A portion of rows, all of one window, is a delivery with its own number, as in every other target. A commit of several
//! portions has the number of the last one (`txn`). The table refuses a commit if it already has a part of it. After a crash
//! between the commit and the record in the catalog, the same portions are read again, because a closed window never
//! changes. Portions whose numbers the table has are skipped. The grouping therefore does not affect the result.
//! Limits: [`ROWS_MAX`] and [`BYTES_MAX`], in units of whole portions.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use swiftwater_catalog::kind::sink::{Delivered, SinkEntry};
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::Application;

use super::{
    deliver::{DeliverError, insert},
    task::{id_of, rows_of_portion},
};
use crate::{
    EngineError,
    durable::history::{History, run_blocking},
    objects::views::{At as ViewAt, View},
    shared::Shared,
};

/// Rows of one commit.
const ROWS_MAX: u64 = 100_000;
/// Their bytes as JSON.
const BYTES_MAX: usize = 8 << 20;
/// Portions of one commit, those without rows included.
const PORTIONS_MAX: u64 = 10_000;

/// Portions that go into a table together.
struct Gathered {
    /// Rows that the table has not got, in batches of one schema.
    batches: Vec<RecordBatch>,
    /// The progress of the sink with them.
    delivered: Delivered,
}

/// A commit that did not come about.
pub(super) struct NotGrouped {
    /// Number of deliveries in it.
    pub(super) deliveries: u64,
    pub(super) error: DeliverError,
}

impl From<DeliverError> for NotGrouped {
    fn from(error: DeliverError) -> NotGrouped {
        NotGrouped { deliveries: 1, error }
    }
}

fn not_joined(error: arrow_schema::ArrowError) -> SqlError {
    SqlError::new(SqlErrorKind::Internal, "rows of several deliveries cannot be joined").with_source(error)
}

impl History {
    /// The last delivery of a sink that a table has, by its number: it may be one that the catalog does not know of.
    pub(super) async fn last_in_table(
        &self,
        shared: &Arc<Shared>,
        table: &str,
        entry: &SinkEntry,
    ) -> Result<Option<u64>, DeliverError> {
        let tables = shared.tables.get().ok_or(EngineError::NoHistory)?;
        Ok(tables.last_inserted(table, &id_of(entry)).await?)
    }

    /// Inserts what has gathered for a sink since its last delivery; returns how far it is then, and nothing where there is
    /// none. `inserted`: the last delivery that the table had before.
    pub(super) async fn deliver_together(
        &self,
        shared: &Arc<Shared>,
        (view, table): (&View, &str),
        (entry, at): (&SinkEntry, ViewAt),
        inserted: Option<u64>,
    ) -> Result<Option<Delivered>, NotGrouped> {
        let gathered = run_blocking(usize::MAX, || self.gather(view, entry, at, inserted));
        let Some(Gathered { batches, delivered }) = gathered.map_err(DeliverError::from)? else {
            return Ok(None);
        };
        if let [first, ..] = &batches[..] {
            let deliveries = delivered.count - entry.delivered.count;
            let failed = |error| NotGrouped { deliveries, error };
            let rows = concat_batches(&first.schema(), &batches);
            let rows = rows.map_err(|error| failed(not_joined(error).into()))?;
            let first = inserted.map_or(entry.delivered.count, |last| entry.delivered.count.max(last + 1));
            let by = Application { first, ..Application::one(id_of(entry), delivered.count - 1) };
            insert(shared, by, (table, view.name()), rows).await.map_err(failed)?;
        }
        Ok(Some(delivered))
    }

    /// Reads portions behind the last delivery, without the rows of those that were inserted.
    fn gather(
        &self,
        view: &View,
        entry: &SinkEntry,
        at: ViewAt,
        inserted: Option<u64>,
    ) -> Result<Option<Gathered>, EngineError> {
        let (limit, now) = (rows_of_portion(entry), self.clock.now());
        let mut gathered = Gathered { batches: Vec::new(), delivered: entry.delivered.clone() };
        let (mut rows, mut bytes, mut portions) = (0, 0, 0);
        while rows < ROWS_MAX && bytes < BYTES_MAX && portions < PORTIONS_MAX {
            let Gathered { batches, delivered } = &mut gathered;
            let after = delivered.last_key();
            let Some(portion) = view.closed(after.as_deref(), entry.from, at.latest(), limit, now)? else {
                break;
            };
            portions += 1;
            if portion.count == 0 {
                // HAVING leaves all of them out.
                delivered.pass(&portion.last);
                continue;
            }
            (rows, bytes) = (rows + portion.count, bytes + portion.rows.len());
            if inserted.is_none_or(|inserted| inserted < delivered.count) {
                // Undeclared columns have the types of the values in a portion.
                match (batches.first(), view.record_batch(portion.rows, portion.now)) {
                    (None, batch) => batches.push(batch?),
                    (Some(first), Ok(batch)) if first.schema() == batch.schema() => batches.push(batch),
                    (Some(_), _) => break,
                }
            }
            *delivered = delivered.after(portion.count, 0, &portion.last, 0);
        }
        Ok((portions > 0).then_some(gathered))
    }
}
