//! The scan of a table's files as a message to another machine that reaches the same store.
//!
//! DataFusion's own message of a scan has its files, columns, filters and limit. This one has the parts that it lacks: the checksums
//! of the files, and the rows that companions selected. The receiver reads the files through its own store.

use std::{collections::HashMap, sync::Arc};

use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::{
    PartitionedFile,
    file_groups::FileGroup,
    file_scan_config::{FileScanConfig, FileScanConfigBuilder},
};
use datafusion_datasource_parquet::{
    CachedParquetFileReaderFactory, ParquetRowSelection, source::ParquetSource,
};
use datafusion_execution::runtime_env::RuntimeEnv;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use serde::{Deserialize, Serialize};

use crate::{
    checksums::{CheckedReaders, CheckedStore, Checksums},
    store::Store,
};

/// The checksums of a file that a scan reads; none if they are not known.
#[derive(Debug, Clone)]
pub(crate) struct FileChecksums(pub(crate) Option<Arc<Checksums>>);

/// The files of a scan, by their paths.
#[derive(Serialize, Deserialize)]
struct ScanMessage(HashMap<String, FileMessage>);

#[derive(Serialize, Deserialize)]
struct FileMessage {
    /// The tag of its checksums.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    checksums: Option<String>,
    /// The rows that are selected: numbers of rows that are left out and read, by turns; none: all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    rows: Option<Vec<u64>>,
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The parts of a scan that DataFusion's message of it lacks. An error if it is no scan of a table.
pub fn scan_message(scan: &FileScanConfig) -> Result<Vec<u8>> {
    let mut files = HashMap::new();
    for file in scan.file_groups.iter().flat_map(FileGroup::files) {
        let Some(FileChecksums(checksums)) = file.extensions.get::<FileChecksums>() else {
            return Err(DataFusionError::NotImplemented("a scan of files that are no table's".to_owned()));
        };
        let rows = file.extensions.get::<ParquetRowSelection>().map(|rows| turns(rows.selection()));
        let message = FileMessage { checksums: checksums.as_ref().map(|sums| sums.tag()), rows };
        files.insert(file.object_meta.location.to_string(), message);
    }
    serde_json::to_vec(&ScanMessage(files)).map_err(other)
}

/// The numbers of rows that are left out and read, by turns.
fn turns(selection: &RowSelection) -> Vec<u64> {
    let mut turns = Vec::new();
    for selector in selection.iter() {
        let is_read_next = turns.len() % 2 == 1;
        if selector.skip == is_read_next {
            turns.push(0);
        }
        turns.push(selector.row_count as u64);
    }
    turns
}

fn selection(turns: &[u64]) -> RowSelection {
    let selector = |(place, rows): (usize, &u64)| {
        let rows = usize::try_from(*rows).unwrap_or(usize::MAX);
        if place % 2 == 0 { RowSelector::skip(rows) } else { RowSelector::select(rows) }
    };
    RowSelection::from(turns.iter().enumerate().map(selector).collect::<Vec<_>>())
}

impl Store {
    /// The scan of a message, over this store. `scan` is what DataFusion's message says.
    pub fn scan_of_message(
        &self,
        message: &[u8],
        scan: FileScanConfig,
        runtime: &RuntimeEnv,
    ) -> Result<FileScanConfig> {
        let ScanMessage(mut files) = serde_json::from_slice(message).map_err(other)?;
        let Some(source) = scan.file_source.downcast_ref::<ParquetSource>() else {
            return Err(DataFusionError::NotImplemented("a scan of other files than Parquet".to_owned()));
        };
        let mut checked = HashMap::new();
        let mut completed = |mut file: PartitionedFile| {
            let message = files.get_mut(file.object_meta.location.as_ref());
            if let Some(FileMessage { checksums, rows }) = message {
                let tag = checksums.as_deref();
                if let Some(sums) = tag.and_then(|tag| Checksums::of_tag(tag, file.object_meta.size)) {
                    checked.insert(file.object_meta.location.clone(), Arc::new(sums));
                }
                if let Some(rows) = rows {
                    file = file.with_extension(ParquetRowSelection::new(selection(rows)));
                }
            }
            file
        };
        let groups = scan.file_groups.iter().map(|group| {
            let files = group.files().iter().cloned().map(&mut completed).collect();
            FileGroup::new(files)
        });
        let groups = groups.collect();
        let store = Arc::new(CheckedStore { inner: Arc::clone(self.objects()), files: checked });
        runtime.register_object_store(self.url().as_ref(), Arc::clone(self.objects()));
        let cache = runtime.cache_manager.get_file_metadata_cache();
        let readers = CheckedReaders(CachedParquetFileReaderFactory::new(store, cache));
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
        let mut scan =
            FileScanConfigBuilder::from(scan).with_source(Arc::new(source)).with_file_groups(groups).build();
        scan.object_store_url = self.url().clone();
        Ok(scan)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selections_are_read_back(selectors in prop::collection::vec((any::<bool>(), 1_usize..9), 0..12)) {
            let selectors = selectors.into_iter().map(|(skip, row_count)| RowSelector { row_count, skip });
            let written = RowSelection::from(selectors.collect::<Vec<_>>());
            let selected = |selection: &RowSelection| {
                let rows = selection.iter().flat_map(|selector| vec![selector.skip; selector.row_count]);
                rows.collect::<Vec<_>>()
            };
            prop_assert_eq!(selected(&selection(&turns(&written))), selected(&written));
        }
    }
}
