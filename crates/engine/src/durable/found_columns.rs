//! Declares the columns that are found in the events of a stream.

use swiftwater_catalog::Change;
use swiftwater_live::columns::InferredColumn;
use swiftwater_store::Table;

use super::{
    history::{History, table_error},
    spec::table_spec,
    stored_stream::StoredStream,
};
use crate::EngineError;

impl History {
    /// Writes down that columns were found in a stream's events, and gives them to its table.
    pub(crate) async fn found(
        &self,
        stored: &StoredStream,
        table: &Table,
        columns: Vec<InferredColumn>,
    ) -> Result<(), EngineError> {
        let columns = columns.into_iter().map(|column| (column.name, column.ty.to_string())).collect();
        let change = Change::Found { stream: stored.id.0, columns };
        match self.record(change.clone()).await {
            // The log gets room when the table has these events, and it gets them when this is written down.
            Err(EngineError::DiskFull) => self.record_by_snapshot(change).await?,
            recorded => recorded?,
        }
        let entry = self.catalog.newest().stream(&stored.name).cloned();
        let Some(entry) = entry.filter(|entry| entry.id == stored.id.0) else { return Ok(()) };
        let spec = table_spec(&entry.create, &entry.found);
        table.alter(&spec).await.map_err(|error| table_error(&error))
    }
}
