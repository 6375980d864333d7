//! A table at one version: its files with their statistics, its schema, and how far its stream is in it.
//!
//! The owner has the newest version in memory and derives the next from what it commits. The Delta log is replayed only
//! when a table is opened. Cost per commit: one pointer per file. A version never changes: its readers continue to read
//! it.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    sync::Arc,
};

use arrow_schema::Schema;
use datafusion_common::{ScalarValue, Statistics, stats::Precision};
use swiftwater_event::Millis;

use crate::{
    actions::{Add, Commit, MetaData, Remove},
    checksums::Checksums,
    error::{Result, StoreError},
    layout::Layout,
    load, schema,
    spec::OFFSET_COLUMN,
    stats,
};

/// The setting in a table's metadata that says whose it is: `stream` or `plain`.
pub(crate) const KIND_KEY: &str = "swiftwater.kind";

/// One file of a table.
#[derive(Debug)]
pub(crate) struct FileEntry {
    pub(crate) add: Add,
    pub(crate) rows: Option<u64>,
    /// Values of the partition columns.
    pub(crate) partition: Vec<ScalarValue>,
    /// The statistics over all columns of the layout.
    pub(crate) statistics: Arc<Statistics>,
    /// The checksums of its bytes, if they are known.
    pub(crate) checksums: Option<Arc<Checksums>>,
}

impl FileEntry {
    fn new(add: Add, layout: &Layout) -> FileEntry {
        let value = |field: &Arc<arrow_schema::Field>| {
            let text =
                add.partition_values.get(field.name()).cloned().flatten().filter(|text| !text.is_empty());
            let typed = text.and_then(|text| ScalarValue::try_from_string(text, field.data_type()).ok());
            typed.or_else(|| ScalarValue::try_from(field.data_type()).ok()).unwrap_or(ScalarValue::Null)
        };
        let partition: Vec<ScalarValue> = layout.partition_fields().iter().map(value).collect();
        let (rows, statistics) =
            stats::from_delta(add.stats.as_deref(), add.size, &layout.file_schema(), &partition);
        let checksums = Checksums::of(&add).map(Arc::new);
        FileEntry { add, rows, partition, statistics, checksums }
    }

    fn bound(&self, index: usize, upper: bool) -> Option<&ScalarValue> {
        let column = self.statistics.column_statistics.get(index)?;
        match if upper { &column.max_value } else { &column.min_value } {
            Precision::Exact(value) | Precision::Inexact(value) => Some(value),
            Precision::Absent => None,
        }
    }

    /// The latest time in a column, in microseconds; `None` if that is not known.
    pub(crate) fn latest_micros(&self, time_column: usize) -> Option<i64> {
        match self.bound(time_column, true)? {
            ScalarValue::TimestampMicrosecond(micros, _) => *micros,
            _ => None,
        }
    }

    /// The earliest and the latest time in a column, in microseconds; none if they are not known.
    pub(crate) fn times_micros(&self, time_column: usize) -> Option<(i64, i64)> {
        match self.bound(time_column, false)? {
            ScalarValue::TimestampMicrosecond(micros, _) => {
                Some(((*micros)?, self.latest_micros(time_column)?))
            }
            _ => None,
        }
    }

    pub(crate) fn first_offset(&self, layout: &Layout) -> Option<i64> {
        match self.bound(layout.schema.index_of(OFFSET_COLUMN).ok()?, false)? {
            ScalarValue::Int64(offset) => *offset,
            _ => None,
        }
    }

    /// The offsets of its rows: from the first one to the one behind the last; none if they are not known.
    pub(crate) fn offsets(&self, layout: &Layout) -> Option<Range<u64>> {
        let ScalarValue::Int64(Some(last)) = self.bound(layout.schema.index_of(OFFSET_COLUMN).ok()?, true)?
        else {
            return None;
        };
        Some(u64::try_from(self.first_offset(layout)?).ok()?..u64::try_from(*last).ok()? + 1)
    }

    /// The action that takes this file out.
    pub(crate) fn remove(&self, now: Millis, data_change: bool) -> Remove {
        Remove {
            path: self.add.path.clone(),
            deletion_timestamp: now,
            data_change,
            extended_file_metadata: true,
            partition_values: self.add.partition_values.clone(),
            size: self.add.size,
        }
    }
}

/// A table at one version.
#[derive(Debug, Clone)]
pub(crate) struct TableVersions {
    pub(crate) version: u64,
    pub(crate) metadata: MetaData,
    pub(crate) layout: Layout,
    /// The files in the order of their rows: by offset in a stream's table, else as they were added.
    pub(crate) files: Vec<Arc<FileEntry>>,
    /// The next offset of the stream that is not in the table.
    pub(crate) committed: u64,
    /// The last version that each application has inserted, of those that were asked for.
    pub(crate) applications: BTreeMap<Box<str>, u64>,
    /// Files that are no longer part of it, and since when.
    pub(crate) removed: Vec<(Box<str>, Millis)>,
    /// The version of the last checkpoint when the log was read; 0 if there is none.
    pub(crate) checkpointed: u64,
}

impl TableVersions {
    /// A table from what its log says.
    pub(crate) fn new(
        table: &str,
        version: u64,
        metadata: MetaData,
        time_column: Option<&str>,
        adds: Vec<Add>,
        removed: Vec<(Box<str>, Millis)>,
        committed: u64,
    ) -> Result<TableVersions> {
        let layout = layout_of(table, &metadata, time_column)?;
        let mut files: Vec<_> = adds.into_iter().map(|add| Arc::new(FileEntry::new(add, &layout))).collect();
        files.sort_by_key(|file| (file.first_offset(&layout), file.add.modification_time));
        Ok(TableVersions {
            version,
            metadata,
            layout,
            files,
            committed,
            applications: BTreeMap::new(),
            removed,
            checkpointed: 0,
        })
    }

    /// Returns true if the table belongs to a stream.
    pub(crate) fn is_stream(&self) -> bool {
        self.metadata.configuration.get(KIND_KEY).is_some_and(|kind| kind == "stream")
    }

    /// The files with their statistics in the order of another layout's columns.
    pub(crate) fn files_in(&self, layout: &Layout) -> Vec<Arc<FileEntry>> {
        self.files.iter().map(|file| Arc::new(FileEntry::new(file.add.clone(), layout))).collect()
    }

    /// The table after one more commit.
    pub(crate) fn after(&self, version: u64, commit: &Commit) -> Result<TableVersions> {
        let mut next = self.clone();
        next.version = version;
        if let Some(metadata) = &commit.metadata {
            next.layout = layout_of(&self.layout.table, metadata, Some(&self.layout.time_column))?;
            next.metadata = metadata.clone();
            // Statistics are by position in the layout.
            next.files = self.files_in(&next.layout);
        }
        let gone: HashSet<&str> = commit.removes.iter().map(|remove| remove.path.as_str()).collect();
        // New files take the positions of those that they replace.
        let place = next.files.iter().position(|file| gone.contains(file.add.path.as_str()));
        let added = commit.adds.iter().map(|add| Arc::new(FileEntry::new(add.clone(), &next.layout)));
        let added: Vec<_> = added.collect();
        next.files.retain(|file| !gone.contains(file.add.path.as_str()));
        let place = place.unwrap_or(next.files.len()).min(next.files.len());
        next.files.splice(place..place, added);
        let removed =
            commit.removes.iter().map(|remove| (remove.path.as_str().into(), remove.deletion_timestamp));
        next.removed.extend(removed);
        for txn in &commit.txns {
            let version = u64::try_from(txn.version).unwrap_or(0);
            if txn.app_id == load::app_id(&self.layout.table) {
                next.committed = version;
            } else {
                next.applications.insert(txn.app_id.as_str().into(), version);
            }
        }
        Ok(next)
    }
}

fn layout_of(table: &str, metadata: &MetaData, time_column: Option<&str>) -> Result<Layout> {
    let corrupt = |what: &str| StoreError::Corrupt { table: table.into(), what: what.into() };
    let schema = schema::from_delta(&metadata.schema_string)
        .ok_or_else(|| corrupt("a schema with types that are not known"))?;
    let partition: Vec<Box<str>> =
        metadata.partition_columns.iter().map(|name| name.as_str().into()).collect();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    Ok(Layout::new(table, fields, &partition, time_column))
}

/// A value of a partition column as the Delta log writes it; `None` for null.
pub(crate) fn partition_text(value: &ScalarValue) -> Option<String> {
    match value {
        value if value.is_null() => None,
        value => Some(value.to_string()),
    }
}

/// The metadata of a table with this schema.
pub(crate) fn metadata(
    table: &str,
    id: String,
    schema: &Schema,
    partition: &[Box<str>],
    configuration: Vec<(String, String)>,
    created: Millis,
) -> Result<MetaData> {
    let schema_string = schema::to_delta(schema).ok_or_else(|| StoreError::Spec {
        table: table.into(),
        why: "a column has a type that Delta Lake does not have".into(),
    })?;
    Ok(MetaData {
        id,
        name: Some(table.to_owned()),
        format: serde_json::json!({"provider": "parquet", "options": {}}),
        schema_string,
        partition_columns: partition.iter().map(ToString::to_string).collect(),
        configuration: configuration.into_iter().collect(),
        created_time: Some(created),
    })
}
