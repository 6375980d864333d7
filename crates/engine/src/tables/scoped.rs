//! The tables that one statement of the engine itself sees and writes. Some may differ from those of SQL, and its INSERT
//! takes effect once, under a number.

use std::sync::Arc;

use async_trait::async_trait;
use swiftwater_sql::{At, SchemaRef, SendableRecordBatchStream, SqlError, TableKind, TableProvider, Tables};
use swiftwater_store::Application;

use crate::tables::HistoryTables;

/// Tables that a statement sees otherwise than everybody does.
#[async_trait]
pub(crate) trait TableOverrides: Send + Sync + 'static {
    /// Such a table; none where the statement sees what there is. `tables` has all that there is.
    async fn table(
        &self,
        tables: &HistoryTables,
        name: &str,
        at: Option<At>,
    ) -> Result<Option<Arc<dyn TableProvider>>, SqlError>;

    /// A table is about to be dropped.
    async fn before_drop(&self, _name: &str) -> Result<(), SqlError> {
        Ok(())
    }

    /// True if this statement, begun before, has dropped such a table, or was about to.
    fn was_dropped(&self, _name: &str) -> bool {
        false
    }
}

/// The tables of one statement.
pub(crate) struct ScopedTables<S> {
    pub(crate) tables: Arc<HistoryTables>,
    pub(crate) otherwise: S,
    /// The application in whose name the statement writes.
    pub(crate) application: Application,
}

#[async_trait]
impl<S: TableOverrides> Tables for ScopedTables<S> {
    fn names(&self) -> Vec<(String, TableKind)> {
        self.tables.names()
    }

    fn names_all(&self) -> bool {
        self.tables.names_all()
    }

    async fn table(&self, name: &str, at: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        match self.otherwise.table(&self.tables, name, at).await? {
            Some(table) => Ok(Some(table)),
            None => self.tables.table(name, at).await,
        }
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

    async fn described(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        self.tables.described(name).await
    }

    async fn create_table(
        &self,
        name: &str,
        schema: SchemaRef,
        rows: Option<SendableRecordBatchStream>,
        if_not_exists: bool,
    ) -> Result<Option<u64>, SqlError> {
        self.tables.create_once(name, schema, rows, if_not_exists, Some(&self.application)).await
    }

    async fn was_made_here(&self, name: &str) -> Result<bool, SqlError> {
        self.tables.was_made_by(name, &self.application).await
    }

    fn was_dropped_here(&self, name: &str) -> bool {
        self.otherwise.was_dropped(name)
    }

    async fn drop_table(&self, name: &str) -> Result<(), SqlError> {
        self.otherwise.before_drop(name).await?;
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
