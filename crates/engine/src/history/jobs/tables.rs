//! What one statement of a run sees and writes to: the tables of SQL, but that of a stream only what is new, where the
//! job asks for that, and that its INSERT is done once.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use swiftwater_sql::{
    At, SchemaRef, SendableRecordBatchStream, SqlError, TableKind, TableProvider, Tables, rows_between,
};
use swiftwater_store::{Application, OFFSET_COLUMN};

use super::entry::{JobStep, StreamRead};
use crate::history::{
    catalog::Change,
    state::History,
    stored::Stored,
    tables::{HistoryTables, from_engine},
};

pub(super) struct JobTables {
    pub(super) history: Arc<History>,
    pub(super) tables: Arc<HistoryTables>,
    pub(super) job: u32,
    pub(super) run: u64,
    /// Where each stream ended when the attempt began, by its number; none: streams are read whole.
    pub(super) ends: Option<Arc<HashMap<u32, u64>>>,
    /// In whose name the statement writes.
    pub(super) application: Application,
}

impl JobTables {
    /// What the run reads of a stream, written down before it does. An attempt after the first reads the same.
    async fn read(&self, stored: &Stored, ends: &HashMap<u32, u64>) -> Result<StreamRead, SqlError> {
        let id = stored.id.0;
        let end = ends.get(&id).copied().unwrap_or_else(|| stored.next());
        let (known, unread) = self.history.with_catalog(|catalog| {
            let job = catalog.job_of(self.job);
            let known = job.and_then(|job| job.open()).and_then(|run| run.reads.get(&id)).cloned();
            (known, job.map(|job| job.unread(id, stored.name.as_str(), end)))
        });
        if let Some(known) = known {
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
impl Tables for JobTables {
    fn names(&self) -> Vec<(String, TableKind)> {
        self.tables.names()
    }

    fn names_all(&self) -> bool {
        self.tables.names_all()
    }

    async fn table(&self, name: &str, at: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        let (None, Some(ends), Some(stored)) = (at, &self.ends, self.tables.stored(name)?) else {
            return self.tables.table(name, at).await;
        };
        let StreamRead { from, to, .. } = self.read(&stored, ends).await?;
        // It has all that was appended before, so all that is read.
        let Some(table) = self.tables.table(name, None).await? else { return Ok(None) };
        rows_between(table, OFFSET_COLUMN, from..to).map(Some)
    }

    fn system_names(&self) -> &'static [&'static str] {
        self.tables.system_names()
    }

    async fn system_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        self.tables.system_table(name).await
    }

    async fn insertable(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        self.tables.insertable(name).await
    }

    async fn create_table(
        &self,
        name: &str,
        schema: SchemaRef,
        if_not_exists: bool,
    ) -> Result<bool, SqlError> {
        self.tables.create_table(name, schema, if_not_exists).await
    }

    async fn drop_table(&self, name: &str) -> Result<(), SqlError> {
        self.tables.drop_table(name).await
    }

    async fn insert(
        &self,
        name: &str,
        rows: SendableRecordBatchStream,
        overwrite: bool,
    ) -> Result<u64, SqlError> {
        self.tables.insert_once(name, rows, overwrite, &self.application).await
    }
}
