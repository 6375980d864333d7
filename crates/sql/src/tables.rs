//! [`Tables`], the trait that provides tables to statements; the engine implements it over streams, views and stored
//! tables.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::execution::SendableRecordBatchStream;

use crate::SqlError;

/// An earlier state of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// `FOR VERSION AS OF 3`: after that commit.
    Version(i64),
    /// `FOR TIMESTAMP AS OF '2026-01-01T00:00:00Z'`: the last commit not after it, in milliseconds since 1970, UTC.
    Timestamp(i64),
}

/// The kind of a table, as `SHOW TABLES` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// A stored stream: events can be inserted, never overwritten.
    Stream,
    /// A table of rows, made by `CREATE TABLE` or by an INSERT of the spark dialect.
    Table,
    /// A view: read only.
    View,
}

impl TableKind {
    /// The name in information_schema.
    pub fn as_str(self) -> &'static str {
        match self {
            TableKind::Stream => "STREAM",
            TableKind::Table => "BASE TABLE",
            TableKind::View => "VIEW",
        }
    }
}

/// The tables that can be queried, and the destinations of rows. Names are exact here: statements resolve case before.
#[async_trait]
pub trait Tables: Send + Sync + 'static {
    /// All names with what they stand for, in any order. Called once or twice a statement: it should cost little.
    fn names(&self) -> Vec<(String, TableKind)>;

    /// Returns true if [`Tables::names`] lists all; otherwise a table that it lacks may exist.
    fn names_all(&self) -> bool {
        true
    }

    /// A consistent snapshot of a table, now or as it was; none if there is no such table.
    ///
    /// A snapshot of now holds every event that was acknowledged before the call.
    async fn table(&self, name: &str, at: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError>;

    /// The names of the tables of the schema `system`, in lower case: what there is to tell of the engine itself.
    fn system_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// One of those, as it is now.
    async fn system_table(&self, _name: &str) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        Ok(None)
    }

    /// The columns that an INSERT may fill, in order; none if nothing can be inserted.
    ///
    /// A stream's own columns, without those that the system maintains. As a default, all columns.
    async fn insertable(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        Ok(self.table(name, None).await?.map(|table| table.schema()))
    }

    /// The columns of a table as DESCRIBE tells them: one that no row can lack is not nullable. As a default, those of
    /// [`Tables::table`], of which a row that was put in before may lack what none may now.
    async fn described(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        Ok(self.table(name, None).await?.map(|table| table.schema()))
    }

    /// Makes a table of rows, empty or with these rows in it, and returns their number. It is visible with all of them or not
    /// at all. If it fails, or its caller is dropped, nothing remains. With `if_not_exists` an existing table is unchanged and
    /// none is returned.
    async fn create_table(
        &self,
        name: &str,
        schema: SchemaRef,
        rows: Option<SendableRecordBatchStream>,
        if_not_exists: bool,
    ) -> Result<Option<u64>, SqlError>;

    /// Returns true if an existing table was made by this very statement, which was begun before and did not learn of
    /// its end.
    async fn was_made_here(&self, _name: &str) -> Result<bool, SqlError> {
        Ok(false)
    }

    /// Returns true if a missing table was dropped by this very statement, which was begun before and did not learn of
    /// its end.
    fn was_dropped_here(&self, _name: &str) -> bool {
        false
    }

    /// Drops a table of rows; an error of kind NotFound if there is none.
    async fn drop_table(&self, name: &str) -> Result<(), SqlError>;

    /// Inserts rows into a table, or events into a stream, and returns their number: all of them, in one commit, or
    /// none.
    ///
    /// The batches have the columns that the statement names, with the names and types of [`Tables::insertable`]; what
    /// is not named takes its default or is null. With `overwrite` the rows replace all that were there.
    async fn insert(
        &self,
        name: &str,
        rows: SendableRecordBatchStream,
        overwrite: bool,
    ) -> Result<u64, SqlError>;
}
