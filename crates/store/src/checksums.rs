//! Checksums of a table's files. They detect a flipped bit before a row is made of it, and name the file.
//!
//! Parquet has checksums of its pages, but the library that writes it does not support them. So each file has a CRC-32C for
//! each block of its bytes, footer included. They are in the tags of its `add` action, where other engines ignore them. A
//! reader of a part of the file reads the surrounding blocks and checks them. Files without the tag, as older versions and
//! other engines write them, are read unchecked.
//!
//! ```text
//! "tags": {"swiftwater.crc32c": block bytes ":" (8 hex digits){blocks}}
//! ```
//!
//! A block has [`BLOCK_BYTES`], or a multiple, so that a file has at most [`BLOCKS_MAX`]. A read therefore costs at most two
//! blocks more than requested, and the tag at most 2 KB. In memory, a table uses 4 bytes for each block.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion_common::Result as DataFusionResult;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::{CachedParquetFileReaderFactory, ParquetFileReaderFactory};
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures_util::{FutureExt, StreamExt, TryFutureExt, future::BoxFuture, stream, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::{ParquetError, Result as ParquetResult},
    file::metadata::ParquetMetaData,
};

use crate::actions::Add;

/// The tag for a file's checksums in its `add` action.
pub(crate) const TAG: &str = "swiftwater.crc32c";

/// Bytes that have a checksum of their own, in small files.
const BLOCK_BYTES: usize = 256 << 10;
/// The most checksums of a file.
const BLOCKS_MAX: usize = 256;

/// The checksums of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checksums {
    size: u64,
    block_bytes: u64,
    blocks: Box<[u32]>,
}

/// A file whose bytes are not those that were written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("file `{path}` is damaged: bytes {} to {} are not those that were written", range.start, range.end)]
pub(crate) struct CorruptFile {
    path: Path,
    range: Range<u64>,
}

/// Builds the checksums of a file while it is written.
#[derive(Debug, Default)]
pub(crate) struct ChecksumBuilder {
    blocks: Vec<u32>,
    /// Checksum of the bytes of the last block so far.
    last: u32,
    last_bytes: usize,
    size: u64,
}

impl ChecksumBuilder {
    /// Takes the next bytes of the file.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        self.size += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.last_bytes));
            self.last = crc32c::crc32c_append(self.last, now);
            self.last_bytes += now.len();
            if self.last_bytes == BLOCK_BYTES {
                self.blocks.push(std::mem::take(&mut self.last));
                self.last_bytes = 0;
            }
            bytes = rest;
        }
    }

    /// The checksums of the whole file.
    pub(crate) fn finish(mut self) -> Checksums {
        if self.last_bytes > 0 {
            self.blocks.push(self.last);
        }
        let mut block_bytes = BLOCK_BYTES;
        while self.blocks.len() > BLOCKS_MAX {
            let of = |index: usize| {
                let begin = (index * block_bytes) as u64;
                (self.size - begin).min(block_bytes as u64) as usize
            };
            let pairs = (0..self.blocks.len()).step_by(2).map(|first| match self.blocks.get(first + 1) {
                Some(second) => crc32c::crc32c_combine(self.blocks[first], *second, of(first + 1)),
                None => self.blocks[first],
            });
            self.blocks = pairs.collect();
            block_bytes *= 2;
        }
        Checksums { size: self.size, block_bytes: block_bytes as u64, blocks: self.blocks.into() }
    }
}

impl Checksums {
    /// The checksums of a tag; none if it does not fit a file of this size.
    pub(crate) fn of(add: &Add) -> Option<Checksums> {
        Checksums::of_tag(add.tags.as_ref()?.get(TAG)?.as_deref()?, add.size)
    }

    /// The checksums of a tag's text.
    pub(crate) fn of_tag(tag: &str, size: u64) -> Option<Checksums> {
        let (block_bytes, sums) = tag.split_once(':')?;
        let block_bytes: u64 = block_bytes.parse().ok().filter(|bytes| *bytes > 0)?;
        let (sums, rest) = sums.as_bytes().as_chunks::<8>();
        let sum = |digits: &[u8; 8]| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        let blocks: Box<[u32]> = sums.iter().map(sum).collect::<Option<_>>()?;
        let is_whole = rest.is_empty() && size.div_ceil(block_bytes) == blocks.len() as u64;
        is_whole.then_some(Checksums { size, block_bytes, blocks })
    }

    pub(crate) fn tag(&self) -> String {
        let mut tag = format!("{}:", self.block_bytes);
        for sum in &self.blocks {
            tag.push_str(&format!("{sum:08x}"));
        }
        tag
    }

    /// The whole blocks that a range lies in.
    fn around(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start / self.block_bytes * self.block_bytes;
        start..range.end.next_multiple_of(self.block_bytes).min(self.size)
    }

    /// Checks whole blocks from an offset on.
    fn check(&self, path: &Path, start: u64, bytes: &[u8]) -> std::result::Result<(), CorruptFile> {
        let first = (start / self.block_bytes) as usize;
        let mut at = start;
        for (block, sum) in bytes.chunks(self.block_bytes as usize).zip(&self.blocks[first..]) {
            let range = at..at + block.len() as u64;
            if crc32c::crc32c(block) != *sum {
                return Err(CorruptFile { path: path.clone(), range });
            }
            at = range.end;
        }
        Ok(())
    }
}

/// A store that checks what it reads of files whose checksums are known.
#[derive(Debug)]
pub(crate) struct CheckedStore {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) files: HashMap<Path, Arc<Checksums>>,
}

impl fmt::Display for CheckedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

fn damaged(damaged: CorruptFile) -> object_store::Error {
    object_store::Error::Generic { store: "swiftwater", source: Box::new(damaged) }
}

#[async_trait]
impl ObjectStore for CheckedStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let Some(sums) = self.files.get(location).filter(|_| !options.head) else {
            return self.inner.get_opts(location, options).await;
        };
        let wanted = match &options.range {
            None => 0..sums.size,
            Some(GetRange::Bounded(range)) => range.start..range.end.min(sums.size),
            Some(GetRange::Offset(start)) => *start..sums.size,
            Some(GetRange::Suffix(bytes)) => sums.size.saturating_sub(*bytes)..sums.size,
        };
        if wanted.is_empty() {
            return self.inner.get_opts(location, options).await;
        }
        let whole = sums.around(&wanted);
        let options = GetOptions { range: Some(GetRange::Bounded(whole.clone())), ..options };
        let got = self.inner.get_opts(location, options).await?;
        let (meta, attributes, found) = (got.meta.clone(), got.attributes.clone(), got.range.clone());
        let bytes = got.bytes().await?;
        if found != whole || bytes.len() as u64 != whole.end - whole.start {
            return Err(damaged(CorruptFile { path: location.clone(), range: whole }));
        }
        sums.check(location, whole.start, &bytes).map_err(damaged)?;
        let piece = (wanted.start - whole.start) as usize..(wanted.end - whole.start) as usize;
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes.slice(piece))]).boxed());
        Ok(GetResult { payload, meta, range: wanted, attributes })
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Readers of a table's files for DataFusion.
#[derive(Debug)]
pub(crate) struct CheckedReaders(pub(crate) CachedParquetFileReaderFactory);

impl ParquetFileReaderFactory for CheckedReaders {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DataFusionResult<Box<dyn AsyncFileReader + Send>> {
        let reader = self.0.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader(reader)))
    }
}

/// Reports damage as such, and not as a store that cannot be reached.
struct CheckedReader(Box<dyn AsyncFileReader + Send>);

/// An error of a store as Parquet has it.
pub(crate) fn parquet_error(error: ParquetError) -> ParquetError {
    let ParquetError::External(source) = &error else { return error };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**source);
    while let Some(found) = cause {
        if let Some(damaged) = found.downcast_ref::<CorruptFile>() {
            return ParquetError::General(damaged.to_string());
        }
        cause = found.source();
    }
    error
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        self.0.get_bytes(range).map_err(parquet_error).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        self.0.get_byte_ranges(ranges).map_err(parquet_error).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        self.0.get_metadata(options).map_err(parquet_error).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use object_store::{ObjectStoreExt, memory::InMemory};

    use super::*;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| ((at * 2_654_435_761) >> 7) as u8).collect()
    }

    fn sums_of(bytes: &[u8], pieces: usize) -> Checksums {
        let mut summing = ChecksumBuilder::default();
        bytes.chunks(pieces).for_each(|piece| summing.take(piece));
        summing.finish()
    }

    fn add(size: u64, tag: &str) -> Add {
        Add {
            path: "a".to_owned(),
            partition_values: BTreeMap::new(),
            size,
            modification_time: 0,
            data_change: true,
            stats: None,
            tags: Some([(TAG.to_owned(), Some(tag.to_owned()))].into()),
        }
    }

    #[test]
    fn sums_do_not_depend_on_the_pieces_and_are_read_back() {
        for count in
            [1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES - 1, (BLOCKS_MAX + 1) * BLOCK_BYTES + 5]
        {
            let bytes = bytes(count);
            let sums = sums_of(&bytes, usize::MAX);
            assert_eq!(sums_of(&bytes, 100_003), sums);
            assert!(sums.blocks.len() <= BLOCKS_MAX);
            let path = Path::from("a");
            sums.check(&path, 0, &bytes).unwrap();
            let (tag, size) = (sums.tag(), count as u64);
            assert_eq!(Checksums::of(&add(size, &tag)), Some(sums));
            assert_eq!(Checksums::of(&add(size + BLOCK_BYTES as u64 * 2, &tag)), None, "of another file");
        }
        assert_eq!(Checksums::of(&add(5, "0:")), None);
        assert_eq!(Checksums::of(&add(5, "262144:xyzxyzxy")), None);
    }

    #[tokio::test]
    async fn whatever_range_is_read_is_right_or_names_the_damaged_file() {
        let bytes = bytes(5 * BLOCK_BYTES + 77);
        let path = Path::from("t/a.parquet");
        let store = Arc::new(InMemory::new());
        let sums = Arc::new(sums_of(&bytes, usize::MAX));
        let checked = CheckedStore { inner: Arc::clone(&store) as _, files: [(path.clone(), sums)].into() };
        let mut damaged = bytes.clone();
        let flipped = 2 * BLOCK_BYTES + 9;
        damaged[flipped] ^= 4;
        let size = bytes.len() as u64;
        let ranges = [0..1, 0..size, size - 8..size, 300_000..300_001, 524_280..524_300, 786_431..1_000_000];
        for (stored, is_whole) in [(&bytes, true), (&damaged, false)] {
            store.put(&path, stored.clone().into()).await.unwrap();
            for range in &ranges {
                let blocks = range.start as usize / BLOCK_BYTES..=(range.end as usize - 1) / BLOCK_BYTES;
                let got = checked.get_range(&path, range.clone()).await;
                if is_whole || !blocks.contains(&2) {
                    assert_eq!(got.unwrap(), bytes[range.start as usize..range.end as usize]);
                } else {
                    let error = got.unwrap_err().to_string();
                    assert!(
                        error.contains("file `t/a.parquet` is damaged: bytes 524288 to 786432"),
                        "{error}"
                    );
                }
            }
        }
        store.put(&path, bytes[..bytes.len() - 1].to_vec().into()).await.unwrap();
        assert!(checked.get_range(&path, size - 8..size).await.is_err(), "it was cut");
    }
}
