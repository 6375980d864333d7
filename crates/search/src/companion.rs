//! The file of a segment: written whole, and read in parts that are checked when they are first read.
//!
//! ```text
//! magic (8) | terms | postings | positions | lengths | CRC-32C of each 64 KiB before | description (JSON) | end (24)
//! end: length of the description, CRC-32C of it, format, magic
//! ```
//!
//! The description names the index's definition and the data file with its size and rows, and lists the fields. A reader that
//! expects others refuses the file, as it does one of another format or one whose bytes changed.

use std::{
    collections::BTreeSet,
    fmt, io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use tantivy::{
    HasLen,
    directory::{FileHandle, OwnedBytes},
};

use crate::{
    error::CompanionError,
    fields::IndexField,
    scratch::CHUNK_BYTES,
    segment::{OpenSegment, PartHandles, Segment},
};

/// The version of the format. Files of another one are built anew.
pub const FORMAT: u32 = 2;
/// The bytes that one check sum is of.
pub const BLOCK_BYTES: usize = 64 << 10;
/// The parts of a file before its description.
const PARTS: usize = 4;
const MAGIC: &[u8; 8] = b"SWSEARCH";
/// The length of the end: two lengths and sums of four bytes, the format, and the magic.
const END_BYTES: usize = 24;
/// Bytes that are read first, which mostly include the description.
const FIRST_READ_BYTES: usize = 64 << 10;

/// The bytes of a file.
pub trait ReadBytes: Send + Sync + fmt::Debug + 'static {
    /// The number of bytes.
    fn length(&self) -> usize;
    /// Reads some of them, all or an error.
    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>>;
}

/// The data file that a companion is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its path in the table.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its rows.
    pub rows: u32,
}

#[derive(Serialize, Deserialize)]
struct Description {
    definition: String,
    data_file: DataFile,
    columns: BTreeSet<String>,
    fields: Vec<IndexField>,
    /// The ends of terms, postings, positions and lengths.
    ends: [usize; PARTS],
}

/// A segment that can be asked for rows.
pub struct Companion {
    pub(crate) rows: u32,
    pub(crate) columns: BTreeSet<String>,
    pub(crate) fields: Vec<IndexField>,
    pub(crate) segment: OpenSegment,
}

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Companion").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Writes the companion of a data file. `definition` names the index's definition.
pub fn write_companion(
    segment: &Segment,
    definition: &str,
    data_file: &DataFile,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let parts = &segment.parts;
    let mut ends = [0; PARTS];
    let (mut end, mut sums) = (MAGIC.len(), BlockSums::default());
    out.write_all(MAGIC)?;
    sums.add(MAGIC);
    let parts = [&parts.terms, &parts.postings, &parts.positions, &parts.lengths];
    for (number, part) in parts.iter().enumerate() {
        for from in (0..part.length()).step_by(CHUNK_BYTES) {
            let bytes = part.read_at(from..(from + CHUNK_BYTES).min(part.length()))?;
            out.write_all(&bytes)?;
            sums.add(&bytes);
        }
        end += part.length();
        ends[number] = end;
    }
    let (columns, fields) = (segment.columns.clone(), segment.fields.clone());
    let description = Description {
        definition: definition.to_owned(),
        data_file: data_file.clone(),
        columns,
        fields,
        ends,
    };
    let mut described: Vec<u8> = sums.finish().iter().flat_map(|sum| sum.to_le_bytes()).collect();
    let sums_length = described.len();
    described.extend(serde_json::to_vec(&description)?);
    out.write_all(&described)?;
    out.write_all(&(sums_length as u32).to_le_bytes())?;
    out.write_all(&((described.len() - sums_length) as u32).to_le_bytes())?;
    out.write_all(&crc32c::crc32c(&described).to_le_bytes())?;
    out.write_all(&FORMAT.to_le_bytes())?;
    out.write_all(MAGIC)
}

/// The check sums of blocks.
#[derive(Default)]
struct BlockSums {
    sums: Vec<u32>,
    sum: u32,
    length: usize,
}

impl BlockSums {
    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.length));
            self.sum = crc32c::crc32c_append(self.sum, now);
            self.length += now.len();
            if self.length == BLOCK_BYTES {
                self.sums.push(std::mem::take(&mut self.sum));
                self.length = 0;
            }
            bytes = rest;
        }
    }

    fn finish(mut self) -> Vec<u32> {
        if self.length > 0 {
            self.sums.push(self.sum);
        }
        self.sums
    }
}

impl Companion {
    /// Opens the companion of a data file.
    pub fn open(
        bytes: Arc<dyn ReadBytes>,
        definition: &str,
        data_file: &DataFile,
    ) -> Result<Companion, CompanionError> {
        let (description, sums) = read_description(&*bytes)?;
        let [terms, postings, positions, lengths] = description.ends;
        if description.definition != definition {
            return Err(CompanionError::Foreign("another definition".to_owned()));
        }
        if description.data_file != *data_file {
            let DataFile { path, bytes, rows } = &description.data_file;
            return Err(CompanionError::Foreign(format!(
                "the data file {path} of {bytes} bytes and {rows} rows"
            )));
        }
        let mut from = MAGIC.len();
        let checked = Arc::new(CheckedBytes::new(bytes, sums, lengths));
        let mut part = |end: usize| -> Arc<dyn FileHandle> {
            let range = std::mem::replace(&mut from, end)..end;
            Arc::new(CheckedPart { bytes: Arc::clone(&checked), range })
        };
        let handles = PartHandles {
            terms: part(terms),
            postings: part(postings),
            positions: part(positions),
            lengths: part(lengths),
        };
        let Description { data_file, columns, fields, .. } = description;
        Companion::of_parts(data_file.rows, columns, fields, handles)
    }

    pub(crate) fn of_parts(
        rows: u32,
        columns: BTreeSet<String>,
        fields: Vec<IndexField>,
        handles: PartHandles,
    ) -> Result<Companion, CompanionError> {
        let segment = OpenSegment::open(rows, &fields, handles)?;
        Ok(Companion { rows, columns, fields, segment })
    }

    /// The number of its rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The bytes of its dictionaries of terms.
    pub fn dictionary_bytes(&self) -> usize {
        self.segment.dictionary_bytes
    }

    /// Its fields.
    pub fn fields(&self) -> &[IndexField] {
        &self.fields
    }
}

fn damaged(what: &str) -> CompanionError {
    CompanionError::Damaged(what.to_owned())
}

fn read_description(bytes: &dyn ReadBytes) -> Result<(Description, Vec<u32>), CompanionError> {
    let length = bytes.length();
    if length < MAGIC.len() + END_BYTES {
        return Err(damaged("it is too short"));
    }
    let first_read = length.min(FIRST_READ_BYTES);
    let read = bytes.read(length - first_read..length)?;
    let (before, end) = read.split_at(read.len() - END_BYTES);
    let number = |at: usize| {
        let mut number = [0; 4];
        number.copy_from_slice(&end[at..at + 4]);
        u32::from_le_bytes(number)
    };
    if end[16..] != *MAGIC {
        return Err(damaged("its end is missing"));
    }
    if number(12) != FORMAT {
        return Err(CompanionError::Foreign(format!("format {}, not {FORMAT}", number(12))));
    }
    let (sums_length, json_length) = (number(0) as usize, number(4) as usize);
    let described_length = sums_length + json_length;
    let end_of_parts = length.checked_sub(END_BYTES + described_length).filter(|end| *end >= MAGIC.len());
    let end_of_parts = end_of_parts.ok_or_else(|| damaged("its description is cut"))?;
    let described = match before.len().checked_sub(described_length) {
        Some(from) => before[from..].to_vec(),
        None => bytes.read(end_of_parts..length - END_BYTES)?,
    };
    if crc32c::crc32c(&described) != number(8) {
        return Err(damaged("its description has another check sum"));
    }
    let (sums, json) = described.split_at(sums_length);
    let sums: Vec<u32> = sums
        .chunks_exact(4)
        .map(|sum| {
            let mut number = [0; 4];
            number.copy_from_slice(sum);
            u32::from_le_bytes(number)
        })
        .collect();
    let description: Description = serde_json::from_slice(json).map_err(CompanionError::encoding)?;
    let are_ordered = description.ends.is_sorted() && description.ends[PARTS - 1] == end_of_parts;
    if !are_ordered || sums.len() != end_of_parts.div_ceil(BLOCK_BYTES) {
        return Err(damaged("its description does not fit its length"));
    }
    Ok((description, sums))
}

/// Bytes of which each block is compared with its check sum when it is first read.
#[derive(Debug)]
struct CheckedBytes {
    bytes: Arc<dyn ReadBytes>,
    sums: Vec<u32>,
    checked: Vec<AtomicBool>,
    /// The end of the last block.
    end: usize,
}

impl CheckedBytes {
    fn new(bytes: Arc<dyn ReadBytes>, sums: Vec<u32>, end: usize) -> CheckedBytes {
        let checked = sums.iter().map(|_| AtomicBool::new(false)).collect();
        CheckedBytes { bytes, sums, checked, end }
    }

    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let is_checked = |block: usize| self.checked[block].load(Ordering::Relaxed);
        if blocks.clone().all(is_checked) {
            return self.bytes.read(range);
        }
        let from = blocks.start * BLOCK_BYTES;
        let whole = self.bytes.read(from..(blocks.end * BLOCK_BYTES).min(self.end))?;
        for (block, bytes) in blocks.zip(whole.chunks(BLOCK_BYTES)) {
            if crc32c::crc32c(bytes) != self.sums[block] {
                let message = format!("block {block} has another check sum");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.checked[block].store(true, Ordering::Relaxed);
        }
        Ok(whole[range.start - from..range.end - from].to_vec())
    }
}

/// A part of checked bytes.
#[derive(Debug)]
struct CheckedPart {
    bytes: Arc<CheckedBytes>,
    range: Range<usize>,
}

impl HasLen for CheckedPart {
    fn len(&self) -> usize {
        self.range.len()
    }
}

impl FileHandle for CheckedPart {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let from = self.range.start;
        let bytes = self.bytes.read(from + range.start..from + range.end)?;
        Ok(OwnedBytes::new(bytes))
    }
}
