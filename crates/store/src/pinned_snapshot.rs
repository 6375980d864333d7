//! Pinned snapshots: all tables as they are at one time, as files to copy. Also puts such files into an empty store.
//!
//! While a snapshot exists, no file of any table is deleted: commits, compaction and checkpoints continue, and their
//! obsolete files wait for the next vacuum. A dropped table is nevertheless deleted at once, which invalidates the snapshots
//! that contain it.

use std::{
    collections::HashSet,
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::{
    actions, companions,
    encode::PART_BYTES,
    error::{Result, StoreError},
    load::TableLocation,
    store::Store,
    table_version::TableVersions,
};

/// The pins that prevent the deletion of files.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// The gate, locked for reading while a file is deleted, and for writing when a snapshot begins: a file is either
    /// deleted before the snapshot is taken, or stays.
    gate: RwLock<()>,
    standing: Mutex<Vec<Weak<Pin>>>,
}

#[derive(Debug, Default)]
struct Pin {
    /// The tables of the cut, when they are known.
    tables: OnceLock<HashSet<Box<str>>>,
    /// The table that was dropped.
    void: OnceLock<Box<str>>,
}

impl Pins {
    async fn pin(&self) -> Arc<Pin> {
        let _nothing_is_deleted = self.gate.write().await;
        let pin = Arc::new(Pin::default());
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.retain(|pin| pin.strong_count() > 0);
        standing.push(Arc::downgrade(&pin));
        pin
    }

    /// A permit to delete files, until it is dropped; none while a snapshot is pinned.
    pub(crate) async fn delete_permit(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let leave = self.gate.read().await;
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.iter().all(|pin| pin.strong_count() == 0).then_some(leave)
    }

    /// A table is marked as dropped, and its files go.
    pub(crate) fn drop_table(&self, table: &str) {
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        for pin in standing.iter().filter_map(Weak::upgrade) {
            // A cut that is still looking around may have seen it.
            if pin.tables.get().is_none_or(|tables| tables.contains(table)) {
                let _ = pin.void.set(table.into());
            }
        }
    }
}

/// The contents of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotOptions {
    /// True to leave companions out: they can be built anew.
    pub without_companions: bool,
}

/// All tables of a store as they were at one time: none of its files is deleted as long as it lives.
#[derive(Debug)]
pub struct PinnedStore {
    store: Store,
    pin: Arc<Pin>,
    files: Vec<StoredFile>,
}

/// A file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Path below the store's root, `/` between the parts, the table's name first.
    pub path: Box<str>,
    /// Its length.
    pub bytes: u64,
    /// True if a file of this path and length always has the same bytes, even if the table is dropped and created
    /// again.
    pub is_unique: bool,
}

impl PinnedStore {
    pub(crate) async fn new(store: &Store, options: SnapshotOptions) -> Result<PinnedStore> {
        let pin = store.pins().pin().await;
        let mut cut = PinnedStore { store: store.clone(), pin, files: Vec::new() };
        let looked = cut.list_files(options).await;
        // A table that was dropped meanwhile is why it could not be read.
        match cut.void() {
            Some(table) => Err(StoreError::Dropped(table.into())),
            None => looked.map(|()| cut),
        }
    }

    async fn list_files(&mut self, options: SnapshotOptions) -> Result<()> {
        let mut tables = HashSet::new();
        for name in self.store.tables().await? {
            let Some(table) = self.store.table(&name).await? else { continue };
            let ledger = Arc::clone(&table.shared.state().ledger);
            self.files.extend(files(&table.shared.place, &ledger).await?);
            let format = table.shared.companions.format().filter(|_| !options.without_companions);
            if let Some(format) = format {
                let stored = companions::stored(&table.shared.place, format.definition(), &ledger.files);
                // One that is built anew may have other bytes.
                self.files.extend(stored.await?.into_iter().map(|object| StoredFile {
                    path: object.location.as_ref().into(),
                    bytes: object.size,
                    is_unique: false,
                }));
            }
            tables.insert(name);
        }
        let _ = self.pin.tables.set(tables);
        Ok(())
    }

    /// The files of all tables.
    pub fn files(&self) -> &[StoredFile] {
        &self.files
    }

    /// The table that was dropped since, if one was: its files are gone, and the cut is no longer whole.
    pub fn void(&self) -> Option<&str> {
        self.pin.void.get().map(|table| &**table)
    }

    /// Bytes of a file.
    pub async fn read(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let path = parse(path)?;
        let read = self.store.objects().get_range(&path, range).await;
        read.map_err(StoreError::store("reading a file"))
    }
}

/// The files that make up a version of a table: its data, and the log from the last checkpoint on.
async fn files(place: &TableLocation, ledger: &TableVersions) -> Result<Vec<StoredFile>> {
    let version = ledger.version;
    let log = place.log().await?;
    let name = |object: &object_store::ObjectMeta| object.location.filename().map(str::to_owned);
    let whole = |name: String| {
        let is_whole =
            name.ends_with(".checkpoint.parquet") && name.len() == "00000000000000000000".len() + 19;
        is_whole.then(|| actions::checkpoint_of(&name)).flatten()
    };
    let checkpoints = log.iter().filter_map(|object| whole(name(object)?));
    let base = checkpoints.filter(|checkpoint| *checkpoint <= version).max().unwrap_or(0);
    let mut files = Vec::new();
    for object in &log {
        let Some(name) = name(object) else { continue };
        let of = actions::version_of(&name).or_else(|| actions::checkpoint_of(&name));
        if of.is_some_and(|of| (base..=version).contains(&of)) {
            let path = object.location.as_ref().into();
            files.push(StoredFile { path, bytes: object.size, is_unique: false });
        }
    }
    for file in &ledger.files {
        let path = place.file(&file.add.path);
        files.push(StoredFile { path: path.as_ref().into(), bytes: file.add.size, is_unique: true });
    }
    Ok(files)
}

fn parse(path: &str) -> Result<Path> {
    let fault = |error: object_store::path::Error| StoreError::Location {
        location: path.into(),
        why: error.to_string().into(),
    };
    Path::parse(path).map_err(fault)
}

impl Store {
    /// All tables as they are, to be copied. Waits for deletions that are under way.
    pub async fn cut(&self, options: SnapshotOptions) -> Result<PinnedStore> {
        PinnedStore::new(self, options).await
    }

    /// Returns true if there is nothing at its location.
    pub async fn is_empty(&self) -> Result<bool> {
        let mut list = self.objects().list(None);
        let first = list.try_next().await.map_err(StoreError::store("listing what is there"))?;
        Ok(first.is_none())
    }

    /// Length of a file; none if it does not exist.
    pub async fn file_bytes(&self, path: &str) -> Result<Option<u64>> {
        match self.objects().head(&parse(path)?).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(StoreError::store("looking for a file")(error)),
        }
    }

    /// Begins to put a file, for a store that nobody has opened tables of.
    pub fn put_file(&self, path: &str) -> Result<FilePut> {
        let (objects, path) = (Arc::clone(self.objects()), parse(path)?);
        Ok(FilePut { objects, path, buffer: BytesMut::new(), upload: None })
    }
}

/// A file on its way into a store: it has its name, durably, when [`finish`](Self::finish) returns, and not before.
#[derive(Debug)]
pub struct FilePut {
    objects: Arc<dyn ObjectStore>,
    path: Path,
    buffer: BytesMut,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl FilePut {
    /// Adds bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= PART_BYTES {
            let failed = StoreError::store("uploading a file");
            let part = self.buffer.split_to(PART_BYTES).freeze();
            if self.upload.is_none() {
                self.upload = Some(self.objects.put_multipart(&self.path).await.map_err(&failed)?);
            }
            if let Some(upload) = &mut self.upload {
                upload.put_part(PutPayload::from(part)).await.map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// Completes the upload under its name.
    pub async fn finish(mut self) -> Result<()> {
        let failed = StoreError::store("completing a file");
        let rest = PutPayload::from(self.buffer.split().freeze());
        match &mut self.upload {
            None => self.objects.put(&self.path, rest).await.map(drop).map_err(failed),
            Some(upload) => {
                if rest.content_length() > 0 {
                    upload.put_part(rest).await.map_err(&failed)?;
                }
                upload.complete().await.map(drop).map_err(failed)
            }
        }
    }

    /// Aborts the upload.
    pub async fn abort(mut self) {
        if let Some(upload) = &mut self.upload {
            // An upload that cannot be aborted has no name; the object store has to delete it.
            let _ = upload.abort().await;
        }
    }
}
