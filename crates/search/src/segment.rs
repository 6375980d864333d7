//! Segments, in memory or in a file, as tantivy reads them.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tantivy::{
    Directory, HasLen, Index, IndexSettings, SegmentReader,
    columnar::ColumnarWriter,
    directory::{
        CompositeFile, CompositeWrite, DirectoryLock, FileHandle, FileSlice, Lock, OwnedBytes, WatchCallback,
        WatchHandle, WritePtr,
        error::{DeleteError, LockError, OpenReadError, OpenWriteError},
        footer::Footer,
    },
    fieldnorm::FieldNormReader,
    index::SegmentId,
    schema::Field,
    termdict::TermDictionaryBuilder,
};

use crate::{
    companion::Companion,
    dictionary::FieldTerms,
    encoding::{Parts, TOKENS_BYTES},
    error::CompanionError,
    fields::{IndexField, schema_of},
};

/// The terms of some rows.
#[derive(Debug, PartialEq)]
pub struct Segment {
    pub(crate) rows: u32,
    /// All columns of its rows, covered or not.
    pub(crate) columns: BTreeSet<String>,
    pub(crate) fields: Vec<IndexField>,
    pub(crate) parts: Parts,
}

/// The bytes of the parts of a segment.
pub(crate) struct PartHandles {
    pub(crate) terms: Arc<dyn FileHandle>,
    pub(crate) postings: Arc<dyn FileHandle>,
    pub(crate) positions: Arc<dyn FileHandle>,
    pub(crate) lengths: Arc<dyn FileHandle>,
}

/// A segment that can be asked.
pub(crate) struct OpenSegment {
    /// The bytes of the dictionaries.
    pub(crate) dictionary_bytes: usize,
    reader: SegmentReader,
    dictionaries: CompositeFile,
    postings: CompositeFile,
    positions: CompositeFile,
    /// By field, of those that were asked.
    terms: Vec<OnceLock<Arc<FieldTerms>>>,
}

impl Segment {
    /// The number of its rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Its fields.
    pub fn fields(&self) -> &[IndexField] {
        &self.fields
    }

    /// The number of its bytes.
    pub fn bytes(&self) -> usize {
        let Parts { terms, postings, positions, lengths } = &self.parts;
        terms.length() + postings.length() + positions.length() + lengths.length()
    }

    /// Opens it, to be asked.
    pub fn open(self) -> Result<Companion, CompanionError> {
        let Segment { rows, columns, fields, parts } = self;
        let handles = PartHandles {
            terms: parts.terms.into_handle(),
            postings: parts.postings.into_handle(),
            positions: parts.positions.into_handle(),
            lengths: parts.lengths.into_handle(),
        };
        Companion::of_parts(rows, columns, fields, handles)
    }
}

impl OpenSegment {
    pub(crate) fn open(
        rows: u32,
        fields: &[IndexField],
        handles: PartHandles,
    ) -> Result<OpenSegment, CompanionError> {
        let footer = footer()?;
        let dictionary_bytes = handles.terms.len();
        let mut files = HashMap::new();
        let with_footer =
            |part| -> Arc<dyn FileHandle> { Arc::new(WithFooter { part, footer: footer.clone() }) };
        files.insert("term", with_footer(Arc::new(no_dictionaries(fields.len())?)));
        files.insert("idx", with_footer(Arc::clone(&handles.postings)));
        files.insert("pos", with_footer(Arc::clone(&handles.positions)));
        files.insert("fieldnorm", with_footer(handles.lengths));
        files.insert("store", with_footer(Arc::new(OwnedBytes::empty())));
        files.insert("fast", with_footer(Arc::new(no_fast_fields()?)));
        let directory: Box<dyn Directory> = Box::new(PartsDirectory { files, small: Arc::default() });
        let index = Index::create(directory, schema_of(fields), IndexSettings::default());
        let index = index.map_err(CompanionError::encoding)?;
        let segment = index.segment(index.new_segment_meta(SegmentId::generate_random(), rows));
        let reader = SegmentReader::open(&segment).map_err(CompanionError::encoding)?;
        let open = |part| CompositeFile::open(&FileSlice::new(part)).map_err(CompanionError::from_read);
        Ok(OpenSegment {
            dictionary_bytes,
            reader,
            dictionaries: open(handles.terms)?,
            postings: open(handles.postings)?,
            positions: open(handles.positions)?,
            terms: fields.iter().map(|_| OnceLock::new()).collect(),
        })
    }

    /// The terms of a field.
    pub(crate) fn terms(&self, number: usize) -> Result<Arc<FieldTerms>, CompanionError> {
        if let Some(terms) = self.terms[number].get() {
            return Ok(Arc::clone(terms));
        }
        let field = Field::from_field_id(number as u32);
        let rows = self.reader.inverted_index(field).map_err(CompanionError::encoding)?;
        let dictionary = self.dictionaries.open_read(field);
        let dictionary = dictionary.ok_or_else(|| CompanionError::encoding("a dictionary is missing"))?;
        let part = |part: &CompositeFile| part.open_read(field).unwrap_or_else(FileSlice::empty);
        let (postings, positions) = (part(&self.postings), part(&self.positions));
        // The number of tokens is before the places.
        let postings = postings.slice_from(postings.len().min(TOKENS_BYTES));
        let terms =
            FieldTerms::open(dictionary, rows, (postings, positions)).map_err(CompanionError::from_read)?;
        Ok(Arc::clone(self.terms[number].get_or_init(|| Arc::new(terms))))
    }

    /// The lengths of the texts of a field.
    pub(crate) fn lengths(&self, number: usize) -> Result<FieldNormReader, CompanionError> {
        let field = Field::from_field_id(number as u32);
        self.reader.get_fieldnorms_reader(field).map_err(CompanionError::encoding)
    }
}

/// The end that tantivy expects of each file: its version. Check sums are ours.
fn footer() -> Result<OwnedBytes, CompanionError> {
    /// The number by which tantivy knows a footer.
    const MAGIC: u32 = 1337;
    static FOOTER: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = match FOOTER.get() {
        Some(bytes) => bytes,
        None => {
            let footer = Footer { version: tantivy::version().clone(), crc: 0 };
            let mut bytes = serde_json::to_vec(&footer).map_err(CompanionError::encoding)?;
            let length = bytes.len() as u32;
            bytes.extend(length.to_le_bytes());
            bytes.extend(MAGIC.to_le_bytes());
            FOOTER.get_or_init(|| bytes)
        }
    };
    Ok(OwnedBytes::new(bytes.as_slice()))
}

/// Empty dictionaries of tantivy's own: ours are read beside it.
fn no_dictionaries(fields: usize) -> io::Result<OwnedBytes> {
    static DICTIONARY: OnceLock<Vec<u8>> = OnceLock::new();
    let dictionary = match DICTIONARY.get() {
        Some(dictionary) => dictionary,
        None => {
            let dictionary = TermDictionaryBuilder::create(Vec::new())?.finish()?;
            DICTIONARY.get_or_init(|| dictionary)
        }
    };
    let mut bytes = Vec::new();
    let mut parts = CompositeWrite::wrap(&mut bytes);
    for number in 0..fields {
        parts.for_field(Field::from_field_id(number as u32)).write_all(dictionary)?;
    }
    parts.close()?;
    Ok(OwnedBytes::new(bytes))
}

/// The columns of tantivy's own, of which there are none.
fn no_fast_fields() -> Result<OwnedBytes, CompanionError> {
    static COLUMNS: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = match COLUMNS.get() {
        Some(bytes) => bytes,
        None => {
            let mut bytes = Vec::new();
            ColumnarWriter::default().serialize(0, None, &mut bytes)?;
            COLUMNS.get_or_init(|| bytes)
        }
    };
    Ok(OwnedBytes::new(bytes.as_slice()))
}

/// A part of a segment with tantivy's footer behind it.
#[derive(Debug)]
struct WithFooter {
    part: Arc<dyn FileHandle>,
    footer: OwnedBytes,
}

impl HasLen for WithFooter {
    fn len(&self) -> usize {
        self.part.len() + self.footer.len()
    }
}

impl FileHandle for WithFooter {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let part = self.part.len();
        if range.end <= part {
            return self.part.read_bytes(range);
        }
        if range.start >= part {
            return Ok(self.footer.slice(range.start - part..range.end - part));
        }
        let mut bytes = self.part.read_bytes(range.start..part)?.as_slice().to_vec();
        bytes.extend_from_slice(&self.footer[..range.end - part]);
        Ok(OwnedBytes::new(bytes))
    }
}

/// The files of one segment as tantivy asks for them. Nothing is ever written but the description of the index, which stays in
/// memory.
#[derive(Clone)]
struct PartsDirectory {
    /// By the ending of their names.
    files: HashMap<&'static str, Arc<dyn FileHandle>>,
    small: Arc<Mutex<HashMap<PathBuf, Vec<u8>>>>,
}

impl fmt::Debug for PartsDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartsDirectory").finish_non_exhaustive()
    }
}

impl PartsDirectory {
    fn file(&self, path: &Path) -> Option<&Arc<dyn FileHandle>> {
        self.files.get(path.extension()?.to_str()?)
    }
}

impl Directory for PartsDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.file(path).map(Arc::clone).ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        Err(DeleteError::FileDoesNotExist(path.to_owned()))
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        let small = self.small.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.file(path).is_some() || small.contains_key(path))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        Err(OpenWriteError::FileAlreadyExists(path.to_owned()))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let small = self.small.lock().unwrap_or_else(PoisonError::into_inner);
        small.get(path).cloned().ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.small.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), data.to_vec());
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, _: &Lock) -> Result<DirectoryLock, LockError> {
        Err(LockError::LockBusy)
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}
