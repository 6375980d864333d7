//! The tables that one statement of a job's run sees: those of SQL, but only the new events of a stream if the job requests
//! that. Also records the tables that the statement has dropped, for a second attempt.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use swiftwater_catalog::{
    Change,
    kind::job::{JobStep, StreamRead},
};
use swiftwater_sql::{At, SqlError, TableProvider, Tables, rows_between};
use swiftwater_store::OFFSET_COLUMN;

use crate::{
    durable::{history::History, stored_stream::StoredStream},
    error::sql::from_engine,
    tables::{HistoryTables, scoped::TableOverrides},
};

pub(super) struct JobReads {
    pub(super) history: Arc<History>,
    pub(super) job: u32,
    pub(super) run: u64,
    /// The end of each stream when the attempt began, by the stream's number; none: streams are read whole.
    pub(super) ends: Option<Arc<HashMap<u32, u64>>>,
}

impl JobReads {
    /// The offsets that the run reads of a stream, logged before it reads them. An attempt after the first reads the same.
    async fn read(&self, stored: &StoredStream, ends: &HashMap<u32, u64>) -> Result<StreamRead, SqlError> {
        let id = stored.id.0;
        let end = ends.get(&id).copied().unwrap_or_else(|| stored.acknowledged(&self.history.log));
        let (known, unread) = self.history.with_catalog(|catalog| {
            let job = catalog.job_of(self.job);
            let known = job.and_then(|job| job.open()).and_then(|run| run.reads.get(&id)).cloned();
            (known, job.map(|job| job.unread(id, stored.name.as_str(), end)))
        });
        if let Some(known) = known {
            // By an attempt that may have been ended before that was on disk.
            self.history.all_synced().await.map_err(from_engine)?;
            return Ok(known);
        }
        let read = unread.unwrap_or(StreamRead { stream: stored.name.as_str().into(), from: end, to: end });
        let step = JobStep::Reads { id, read: read.clone() };
        let change = Change::Job { job: self.job, run: self.run, step };
        self.history.record(change).await.map_err(from_engine)?;
        Ok(read)
    }
}

#[async_trait]
impl TableOverrides for JobReads {
    async fn before_drop(&self, name: &str) -> Result<(), SqlError> {
        if self.was_dropped(name) {
            return self.history.all_synced().await.map_err(from_engine);
        }
        let step = JobStep::Drops { table: name.into() };
        let change = Change::Job { job: self.job, run: self.run, step };
        self.history.record(change).await.map_err(from_engine)
    }

    fn was_dropped(&self, name: &str) -> bool {
        self.history.with_catalog(|catalog| {
            let run = catalog.job_of(self.job).and_then(|job| job.open());
            run.is_some_and(|run| run.drops.iter().any(|dropped| dropped.eq_ignore_ascii_case(name)))
        })
    }

    async fn table(
        &self,
        tables: &HistoryTables,
        name: &str,
        at: Option<At>,
    ) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        let (None, Some(ends), Some(stored)) = (at, &self.ends, tables.stored(name)?) else {
            return Ok(None);
        };
        let StreamRead { from, to, .. } = self.read(&stored, ends).await?;
        // It has all that was acknowledged before, so all that is read.
        let Some(table) = tables.table(name, None).await? else { return Ok(None) };
        rows_between(table, OFFSET_COLUMN, from..to).map(Some)
    }
}
