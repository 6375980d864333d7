//! Group commit: all waiting portions are delivered at once, to a table in one commit, to a topic in one transaction.
//!
//! A portion of rows, all of one window, one commit of the view or one planned run of events, is a delivery with its own number, as in every other
//! target. Several that are delivered at once have the number of the last one, which the target records with them (`txn` of a
//! table). After a crash between that and the record in the catalog, the same portions are read again, because a closed window,
//! the changes of a commit and the events of a plan never change. Portions whose numbers the target has are skipped. The grouping therefore does not
//! affect the result. Limits: [`ROWS_MAX`] and [`BYTES_MAX`], in units of whole portions.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use swiftwater_catalog::kind::sink::{Delivered, SinkEntry};
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::Application;

use super::{
    deliver::{DeliverError, insert},
    rows::Rows,
    task::id_of,
};
use crate::{
    EngineError,
    durable::history::{History, run_blocking},
    objects::views::Portion,
    shared::Shared,
};

/// Rows of one commit.
const ROWS_MAX: u64 = 100_000;
/// Their bytes as JSON.
const BYTES_MAX: usize = 8 << 20;
/// Portions of one commit, those without rows included.
const PORTIONS_MAX: u64 = 10_000;

/// Portions that are delivered at once.
pub(super) struct Gathered {
    /// Those that the target has not got, with the progress of the sink with each.
    pub(super) portions: Vec<(Portion, Delivered)>,
    /// The progress with all, also those without rows.
    pub(super) delivered: Delivered,
}

/// A group that was not delivered.
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
        (source, table): (&Rows, &str),
        entry: &SinkEntry,
        inserted: Option<u64>,
    ) -> Result<Option<Delivered>, NotGrouped> {
        let gathered = run_blocking(usize::MAX, || {
            self.gather(source, entry, inserted)?.map(|gathered| batches(source, entry, gathered)).transpose()
        });
        let Some((batches, delivered)) = gathered.map_err(DeliverError::from)? else {
            return Ok(None);
        };
        if let [first, ..] = &batches[..] {
            let deliveries = delivered.count - entry.delivered.count;
            let failed = |error| NotGrouped { deliveries, error };
            let rows = concat_batches(&first.schema(), &batches);
            let rows = rows.map_err(|error| failed(not_joined(error).into()))?;
            let first = inserted.map_or(entry.delivered.count, |last| entry.delivered.count.max(last + 1));
            let by = Application { first, ..Application::one(id_of(entry), delivered.count - 1) };
            insert(shared, by, (table, source.name()), rows).await.map_err(failed)?;
        }
        Ok(Some(delivered))
    }

    /// Reads portions behind the last delivery, without the rows of those that the target has: up to number `has`. None if
    /// there are no portions.
    pub(super) fn gather(
        &self,
        source: &Rows,
        entry: &SinkEntry,
        has: Option<u64>,
    ) -> Result<Option<Gathered>, EngineError> {
        let mut gathered = Gathered { portions: Vec::new(), delivered: entry.delivered.clone() };
        let (mut rows, mut bytes, mut portions) = (0, 0, 0);
        while rows < ROWS_MAX && bytes < BYTES_MAX && portions < PORTIONS_MAX {
            let delivered = &mut gathered.delivered;
            let Some(portion) = source.next_portion(entry, delivered, self.clock.now())? else { break };
            portions += 1;
            if portion.count == 0 {
                *delivered = source.pass(delivered, &portion.last);
                continue;
            }
            (rows, bytes) = (rows + portion.count, bytes + portion.rows.len());
            let is_new = has.is_none_or(|has| has < delivered.count);
            *delivered = delivered.after(portion.count, 0, &portion.last, 0);
            if is_new {
                gathered.portions.push((portion, delivered.clone()));
            }
        }
        Ok((portions > 0).then_some(gathered))
    }
}

/// Portions as batches of one schema, and the progress with them: undeclared columns have the types of the values in a portion,
/// so a group ends before a portion of another schema.
fn batches(
    source: &Rows,
    entry: &SinkEntry,
    gathered: Gathered,
) -> Result<(Vec<RecordBatch>, Delivered), EngineError> {
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut before = entry.delivered.clone();
    for (portion, delivered) in gathered.portions {
        match (batches.first(), source.record_batch(portion.rows, portion.now)) {
            (None, batch) => batches.push(batch?),
            (Some(first), Ok(batch)) if first.schema() == batch.schema() => batches.push(batch),
            (Some(_), _) => return Ok((batches, before)),
        }
        before = delivered;
    }
    Ok((batches, gathered.delivered))
}
