//! Work between commits: compaction, checkpoints of the Delta log, clean-up of the log, vacuum, retention.
//!
//! One such task runs at a time per table, beside appends and commits. It reads only files that no longer change and
//! writes only files that no version has. The table's owner commits its result, after a check that it still holds. So
//! maintenance can neither conflict with a commit nor delay one. While the next commit is due already, or callers wait
//! to append, files are merged only if there are very many: waiting rows have priority.
//!
//! Compaction is by size classes, as in log-structured merge trees (O'Neil et al., Acta Informatica 1996): neighbours of
//! about one size are merged, so a row is rewritten once per class and not with every commit. If a table has a
//! retention, files are merged only with those whose youngest rows are of about one age. A file expires as a whole, so
//! rows that are merged with younger rows stay as long as these.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use datafusion_common::ScalarValue;
use deltalake::checkpoints::create_checkpoint;
use futures_util::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStoreExt};
use parquet::{
    arrow::ParquetRecordBatchStreamBuilder,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};
use swiftwater_event::Millis;

use crate::{
    actions::{self, Add},
    companions::{self, Companions},
    encode::Encoder,
    error::{Result, StoreError},
    layout::Layout,
    load::TableLocation,
    options::StoreOptions,
    read::ObjectReader,
    table_version::{FileEntry, TableVersions},
};

/// Files below this size are one class.
const SMALL_BYTES: u64 = 64 << 10;
/// Rows that are read at a time while files are rewritten, and the bytes of values that they may have on average.
const READ_ROWS: usize = 16 << 10;
const READ_BYTES: u64 = 32 << 20;
/// No commit of another program is under way as long as this.
const ORPHAN_AGE: Duration = Duration::from_secs(3600);
/// Files that one compaction merges, in units of the setting `compact_files`.
pub(crate) const COMPACT_FILES_FACTOR: usize = 16;

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

/// The times at which files of a table with a retention expire, in slots: only files of one slot are merged.
///
/// A slot is as wide as a quarter of the retention, or of the interval of upkeep if that is longer, so a merge lets rows stay
/// at most so much longer, and there are nine slots or so of rows that have not expired. Times that lie far ahead of the
/// clock have slots as wide as a quarter of that distance at most: so there are few of these, too.
struct RetentionSlots {
    time: usize,
    now_micros: i64,
    keep_after_micros: i64,
    width_micros: i64,
}

/// Number of slots of a retention.
const SLOTS: i64 = 4;

impl RetentionSlots {
    fn new(
        ledger: &TableVersions,
        options: &StoreOptions,
        retention: Duration,
        now: Millis,
    ) -> Option<RetentionSlots> {
        let time = ledger.layout.schema.index_of(&ledger.layout.time_column).ok()?;
        let longest = millis(retention.max(options.upkeep_interval)).saturating_mul(1000);
        Some(RetentionSlots {
            time,
            now_micros: now.saturating_mul(1000),
            keep_after_micros: retention_cutoff_micros(retention, now),
            width_micros: (longest / SLOTS).max(1),
        })
    }

    /// The slot of a file; `None` if it has no time. Expired files have a slot of their own.
    fn of(&self, file: &FileEntry) -> Option<(u32, i64)> {
        let latest = file.latest_micros(self.time)?;
        if latest < self.keep_after_micros {
            return Some((0, i64::MIN));
        }
        let ahead = latest.saturating_sub(self.now_micros) / self.width_micros.saturating_mul(SLOTS);
        let doublings = if ahead > 0 { ahead.ilog2() } else { 0 };
        Some((doublings, latest.div_euclid(self.width_micros.saturating_mul(1 << doublings))))
    }
}

/// The files to merge next, if any.
pub(crate) fn to_compact(
    ledger: &TableVersions,
    options: &StoreOptions,
    retention: Option<Duration>,
    now: Millis,
) -> Option<Vec<Arc<FileEntry>>> {
    let slots = retention.and_then(|retention| RetentionSlots::new(ledger, options, retention, now));
    let fan = options.compact_files as u64;
    let class = |file: &FileEntry| (file.add.size / SMALL_BYTES).max(1).ilog(fan);
    // A file that is large enough stays; nothing is gained by merging what is over half of that.
    let is_large = |file: &FileEntry| file.add.size > options.compact_file_bytes / 2;
    let mut small = 0;
    let mut classes: Vec<u32> = Vec::new();
    for file in ledger.files.iter().filter(|file| !is_large(file)) {
        small += 1;
        let class = class(file);
        if let Err(place) = classes.binary_search(&class) {
            classes.insert(place, class);
        }
    }
    // This is asked after each commit, and mostly there is nothing to merge.
    if small < options.compact_files {
        return None;
    }
    // Partitions in the order of their first files.
    let mut numbers: HashMap<(&[ScalarValue], _), usize> = HashMap::new();
    let mut partitions: Vec<Vec<&Arc<FileEntry>>> = Vec::new();
    for file in &ledger.files {
        let slot = slots.as_ref().and_then(|slots| slots.of(file));
        let number = *numbers.entry((&file.partition, slot)).or_insert(partitions.len());
        if number == partitions.len() {
            partitions.push(Vec::new());
        }
        partitions[number].push(file);
    }
    for upper in classes {
        for files in &partitions {
            let (mut run, mut bytes) = (Vec::new(), 0);
            for file in files {
                if is_large(file) || class(file) > upper || bytes + file.add.size > options.compact_file_bytes
                {
                    if run.len() >= options.compact_files {
                        return Some(run);
                    }
                    (run, bytes) = (Vec::new(), 0);
                    if is_large(file) || class(file) > upper {
                        continue;
                    }
                }
                run.push(Arc::clone(file));
                bytes += file.add.size;
                if run.len() >= options.compact_files * COMPACT_FILES_FACTOR {
                    return Some(run);
                }
            }
            if run.len() >= options.compact_files {
                return Some(run);
            }
        }
    }
    None
}

/// Writes the rows of these files anew, in their order, in this layout.
pub(crate) async fn rewrite(
    place: &TableLocation,
    layout: &Layout,
    files: &[Arc<FileEntry>],
    file_bytes_max: u64,
    now: Millis,
    data_change: bool,
) -> Result<Vec<Add>> {
    let mut encoder = Encoder::new(place.clone(), layout.clone(), now, data_change);
    match rewrite_into(&mut encoder, place, layout, files, file_bytes_max).await {
        Ok(()) => encoder.finish().await,
        Err(error) => {
            encoder.abort().await;
            Err(error)
        }
    }
}

async fn rewrite_into(
    encoder: &mut Encoder,
    place: &TableLocation,
    layout: &Layout,
    files: &[Arc<FileEntry>],
    file_bytes_max: u64,
) -> Result<()> {
    let failed = StoreError::parquet("reading a file to rewrite it");
    for file in files {
        let path = place.file(&file.add.path);
        let store = Arc::new(place.checked(std::slice::from_ref(file)));
        let reader = ObjectReader { store, path, size: file.add.size };
        let builder = ParquetRecordBatchStreamBuilder::new(reader).await.map_err(&failed)?;
        let rows = rows_at_once(builder.metadata());
        let mut batches = builder.with_batch_size(rows).build().map_err(&failed)?;
        while let Some(batch) = batches.next().await {
            let batch = with_partition(&batch.map_err(&failed)?, layout, file)?;
            encoder.write(&layout.conform(&batch)?).await?;
        }
        if encoder.largest_bytes() >= file_bytes_max {
            encoder.finish_files().await?;
        }
    }
    Ok(())
}

/// Number of rows of a file that are read at a time: fewer if its texts are long.
pub(crate) fn rows_at_once(file: &ParquetMetaData) -> usize {
    let bytes_of = |column: &ColumnChunkMetaData| {
        // Texts count by their own length: a dictionary may have one text that every row uses.
        let texts = column.unencoded_byte_array_data_bytes().unwrap_or(0);
        u64::try_from(texts.max(column.uncompressed_size())).unwrap_or(0)
    };
    let rows = file.row_groups().iter().map(|group| {
        let bytes: u64 = group.columns().iter().map(bytes_of).sum();
        let a_row = bytes.div_ceil(u64::try_from(group.num_rows()).unwrap_or(0).max(1));
        usize::try_from(READ_BYTES / a_row.max(1)).unwrap_or(READ_ROWS)
    });
    rows.min().unwrap_or(READ_ROWS).clamp(1, READ_ROWS)
}

/// The rows of a file with the values that its partition says.
pub(crate) fn with_partition(batch: &RecordBatch, layout: &Layout, file: &FileEntry) -> Result<RecordBatch> {
    if layout.partitions == 0 {
        return Ok(batch.clone());
    }
    let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    for (field, value) in layout.partition_fields().iter().zip(&file.partition) {
        fields.push(Arc::clone(field));
        let column = value.to_array_of_size(batch.num_rows()).map_err(|error| StoreError::Corrupt {
            table: layout.table.clone(),
            what: format!("a partition value that cannot be read: {error}").into(),
        })?;
        columns.push(column);
    }
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new(schema, columns).map_err(StoreError::arrow("reading a partition"))
}

/// Writes a checkpoint of a version, so that opening the table need not read the log before it; then deletes what the
/// log need not keep.
pub(crate) async fn checkpoint(place: &TableLocation, version: u64, keep_after: Millis) -> Result<()> {
    let failed = StoreError::delta(&place.table, "writing a checkpoint");
    let table = place.delta(Some(version)).await?.ok_or_else(|| StoreError::NoTable(place.table.clone()))?;
    create_checkpoint(&table, None).await.map_err(failed)?;
    clean_log(place, keep_after).await
}

/// Deletes entries of the log that no version younger than a time needs.
async fn clean_log(place: &TableLocation, keep_after: Millis) -> Result<()> {
    let log = place.root().join("_delta_log");
    let listing = StoreError::store("listing the Delta log");
    let objects: Vec<ObjectMeta> = place.store.list(Some(&log)).try_collect().await.map_err(listing)?;
    let is_old = |object: &ObjectMeta| object.last_modified.timestamp_millis() < keep_after;
    let checkpoints = objects.iter().filter(|object| is_old(object));
    let Some(oldest_kept) =
        checkpoints.filter_map(|object| actions::checkpoint_of(object.location.filename()?)).max()
    else {
        return Ok(());
    };
    let mut gone: Vec<(u64, _)> = objects
        .iter()
        .filter_map(|object| {
            let name = object.location.filename()?;
            let version = actions::version_of(name).or_else(|| actions::checkpoint_of(name))?;
            (version < oldest_kept).then(|| (version, object.location.clone()))
        })
        .collect();
    // From the oldest on, so that what is left has no gap if this ends early.
    gone.sort();
    for (_, location) in gone {
        if !delete(place, &location).await? {
            break;
        }
    }
    Ok(())
}

/// Deletes an object; returns false if it may not be deleted, as while a snapshot of the tables pins it.
async fn delete(place: &TableLocation, location: &object_store::path::Path) -> Result<bool> {
    let Some(_leave) = place.pins.delete_permit().await else { return Ok(false) };
    match place.store.delete(location).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(true),
        Err(error) => Err(StoreError::store("deleting a file")(error)),
    }
}

/// Deletes files that are part of no version that is kept: removed longer ago than `keep`, or of an earlier life, of which
/// nothing is under way, and older than `keep`: checkpoints leave out what was removed so long ago, so the log may have nothing
/// of them any more. Files of this life that no version has ever had stay: a statement may insert them, however long it takes.
/// Other unused files are deleted after [`ORPHAN_AGE`]. Returns the removed ones that are gone.
pub(crate) async fn vacuum(
    place: &TableLocation,
    ledger: &TableVersions,
    companions: &Companions,
    now: Millis,
    keep: Duration,
) -> Result<HashSet<Box<str>>> {
    let (keep_after, orphans_after) = (before(now, keep), before(now, keep.max(ORPHAN_AGE)));
    let live: HashSet<&str> = ledger.files.iter().map(|file| file.add.path.as_str()).collect();
    let removed: HashMap<&str, Millis> =
        ledger.removed.iter().map(|(path, since)| (&**path, *since)).collect();
    let root = place.root();
    let mut gone: HashSet<Box<str>> = ledger
        .removed
        .iter()
        .filter(|(_, since)| *since < keep_after)
        .map(|(path, _)| path.clone())
        .collect();
    let mut objects = place.store.list(Some(&root));
    let mut doomed = Vec::new();
    while let Some(object) = objects.next().await {
        let object = object.map_err(StoreError::store("listing a table's files"))?;
        let Some(parts) = object.location.prefix_match(&root) else { continue };
        let path = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
        let is_log = path.starts_with("_delta_log/");
        if live.contains(path.as_str()) || (is_log && !path.ends_with(".tmp")) {
            continue;
        }
        if companions::is_companion(&path) {
            // Data files that go now take their companions along with the next vacuum.
            if companions.is_obsolete(&path, |file| live.contains(file) || removed.contains_key(file)) {
                doomed.push(object.location);
            }
            continue;
        }
        // A file that was never part of the table belongs to a commit that failed or is under way.
        let is_gone = match removed.get(path.as_str()) {
            Some(since) => *since < keep_after,
            None if place.life.has_written(&path) => false,
            None if place.life.is_after(&path) => object.last_modified.timestamp_millis() < keep_after,
            None => object.last_modified.timestamp_millis() < orphans_after,
        };
        if is_gone {
            doomed.push(object.location);
        }
    }
    drop(objects);
    for location in doomed {
        if !delete(place, &location).await? {
            // The next vacuum takes it up again.
            return Ok(HashSet::new());
        }
    }
    gone.retain(|path| !live.contains(&**path));
    Ok(gone)
}

/// Files whose youngest row is older than the retention.
pub(crate) fn expired(ledger: &TableVersions, retention: Duration, now: Millis) -> Vec<Arc<FileEntry>> {
    let Ok(time) = ledger.layout.schema.index_of(&ledger.layout.time_column) else { return Vec::new() };
    let keep_after = retention_cutoff_micros(retention, now);
    let is_expired =
        |file: &&Arc<FileEntry>| file.latest_micros(time).is_some_and(|latest| latest < keep_after);
    ledger.files.iter().filter(is_expired).cloned().collect()
}

/// Rows whose time is before this have expired.
fn retention_cutoff_micros(retention: Duration, now: Millis) -> i64 {
    before(now, retention).saturating_mul(1000)
}

/// The time before which something of this age lies.
pub(crate) fn before(now: Millis, age: Duration) -> Millis {
    now.saturating_sub(millis(age))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, StringArray};
    use parquet::{
        arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
        file::properties::WriterProperties,
    };

    use super::*;

    #[test]
    fn rows_with_long_texts_are_read_a_few_at_a_time() {
        let rows_of = |text: &dyn Fn(i64) -> String| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200));
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..200).map(text)));
            let batch = RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap();
            let properties = WriterProperties::builder().set_max_row_group_row_count(Some(64)).build();
            let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            let file = bytes::Bytes::from(writer.into_inner().unwrap());
            rows_at_once(ParquetRecordBatchReaderBuilder::try_new(file).unwrap().metadata())
        };
        assert_eq!(rows_of(&|_| "short".to_owned()), READ_ROWS);
        // The same text in each row is in the file once.
        let long = "x".repeat(64 << 10);
        assert!((500..=512).contains(&rows_of(&|_| long.clone())), "{}", rows_of(&|_| long.clone()));
        // One row group of long texts is enough.
        let some = rows_of(&|n| if n < 64 { format!("{n}{long}") } else { String::new() });
        assert!((500..=512).contains(&some), "{some}");
        let one = rows_of(&|n| if n == 199 { "x".repeat(40 << 20) } else { String::new() });
        assert_eq!(one, 6, "eight rows of five megabytes each, on average");
    }
}
