//! The dictionary of a field: its terms in the order of their keys, and the places of the rows of each.
//!
//! It is a sorted string table (Chang et al., OSDI 2006): blocks of 4 KB, in which a key has the bytes that differ from the key
//! before, and an index of blocks. tantivy's own dictionary, a finite-state transducer, takes several times as long to write and
//! to read in order, and is read whole before the first look-up.
//!
//! ```text
//! block: terms | start of postings | start of positions | for each term: rows, bytes of postings, bytes of positions | keys
//! ```
//!
//! Numbers are LEB128. The places of the terms of a field follow one another without gaps.

use std::{io, sync::Arc};

use tantivy::{
    InvertedIndexReader,
    directory::FileSlice,
    postings::{BlockSegmentPostings, SegmentPostings, TermInfo},
    schema::IndexRecordOption,
};
use tantivy_sstable::{
    Dictionary, SSTable, Streamer, Writer,
    value::{ValueReader, ValueWriter},
};

use crate::numbers::{Numbers, push_number};

/// Keys with the places of rows.
struct TermTable;

/// Writes the dictionary of a field.
pub(crate) type DictionaryWriter<W> = Writer<W, PlacesWriter>;

/// The terms of a field, with their rows.
pub(crate) struct FieldTerms {
    dictionary: Dictionary<TermTable>,
    rows: Arc<InvertedIndexReader>,
    postings: FileSlice,
    positions: FileSlice,
}

/// Terms in the order of their keys.
pub(crate) struct TermStream<'f>(Streamer<'f, TermTable>);

/// The places of the terms of a block.
#[derive(Default)]
pub(crate) struct PlacesWriter {
    /// The first term's ones; none in the beginning.
    starts: Option<(usize, usize)>,
    terms: u64,
    encoded: Vec<u8>,
}

/// The places of the terms of a block.
#[derive(Default)]
pub(crate) struct PlacesReader(Vec<TermInfo>);

impl SSTable for TermTable {
    type Value = TermInfo;
    type ValueReader = PlacesReader;
    type ValueWriter = PlacesWriter;
}

impl ValueWriter for PlacesWriter {
    type Value = TermInfo;

    fn write(&mut self, term: &TermInfo) {
        self.starts.get_or_insert((term.postings_range.start, term.positions_range.start));
        self.terms += 1;
        push_number(u64::from(term.doc_freq), &mut self.encoded);
        push_number(term.postings_range.len() as u64, &mut self.encoded);
        push_number(term.positions_range.len() as u64, &mut self.encoded);
    }

    fn serialize_block(&self, out: &mut Vec<u8>) {
        let (postings, positions) = self.starts.unwrap_or_default();
        push_number(self.terms, out);
        push_number(postings as u64, out);
        push_number(positions as u64, out);
        out.extend_from_slice(&self.encoded);
    }

    fn clear(&mut self) {
        self.starts = None;
        self.terms = 0;
        self.encoded.clear();
    }
}

impl ValueReader for PlacesReader {
    type Value = TermInfo;

    fn value(&self, index: usize) -> &TermInfo {
        &self.0[index]
    }

    fn load(&mut self, block: &[u8]) -> io::Result<usize> {
        let mut numbers = Numbers { bytes: block };
        let mut next = || numbers.next().ok_or(io::ErrorKind::UnexpectedEof);
        let (terms, mut postings, mut positions) = (next()?, next()? as usize, next()? as usize);
        self.0.clear();
        for _ in 0..terms {
            let (rows, postings_end, positions_end) =
                (next()?, postings + next()? as usize, positions + next()? as usize);
            self.0.push(TermInfo {
                doc_freq: rows as u32,
                postings_range: postings..postings_end,
                positions_range: positions..positions_end,
            });
            (postings, positions) = (postings_end, positions_end);
        }
        Ok(block.len() - numbers.bytes.len())
    }
}

/// Begins to write a dictionary.
pub(crate) fn write_dictionary<W: io::Write>(out: W) -> io::Result<DictionaryWriter<W>> {
    Dictionary::<TermTable>::builder(out)
}

impl FieldTerms {
    /// `postings` and `positions` are the bytes that places are in.
    pub(crate) fn open(
        dictionary: FileSlice,
        rows: Arc<InvertedIndexReader>,
        (postings, positions): (FileSlice, FileSlice),
    ) -> io::Result<FieldTerms> {
        Ok(FieldTerms { dictionary: Dictionary::open(dictionary)?, rows, postings, positions })
    }

    /// The bytes of the rows of all terms.
    pub(crate) fn postings(&self) -> &FileSlice {
        &self.postings
    }

    /// The bytes of the positions of all terms.
    pub(crate) fn positions(&self) -> &FileSlice {
        &self.positions
    }

    /// The term of a key.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Option<TermInfo>> {
        self.dictionary.get(key)
    }

    /// The terms whose keys begin with a prefix.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> io::Result<TermStream<'_>> {
        Ok(TermStream(self.dictionary.prefix_range(prefix).into_stream()?))
    }

    /// The rows of a term, block by block.
    pub(crate) fn row_blocks(&self, term: &TermInfo) -> io::Result<BlockSegmentPostings> {
        self.rows.read_block_postings_from_terminfo(term, IndexRecordOption::Basic)
    }

    /// The rows of a term with as much of their counts and positions as the option says.
    pub(crate) fn rows(&self, term: &TermInfo, option: IndexRecordOption) -> io::Result<SegmentPostings> {
        self.rows.read_postings_from_terminfo(term, option)
    }
}

impl TermStream<'_> {
    /// Moves to the next term; false at the end.
    pub(crate) fn advance(&mut self) -> bool {
        self.0.advance()
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.0.key()
    }

    pub(crate) fn term(&self) -> &TermInfo {
        self.0.value()
    }
}
