//! Backups: a consistent snapshot of all durable state, pinned while a client fetches it.
//!
//! A snapshot takes four things, in this order:
//!
//! 1. the catalog's snapshot;
//! 2. a snapshot of the state of views, alerts and joins;
//! 3. every table at its newest version;
//! 4. the log up to its synced end.
//!
//! The engine deletes no log segments and no files of tables from before the first step until after the last. The log
//! therefore starts no later than the first event that a table or a view lacks. It ends beyond everything that the catalog,
//! a table or a view counts. Opening a restored directory is the same as opening the directory after a crash at that
//! instant. A snapshot includes everything that was synced before it was requested.
//!
//! Neither the catalog nor the view store is written while a snapshot is taken. Sinks, alerts and joins persist their state
//! before they write numbered events or rows to streams and tables. All such writes that the log and tables of a snapshot
//! contain are therefore in its view store, too, under the same numbers. The state of the view store is written to a
//! temporary file after normal work has resumed; the file is deleted with the snapshot.
//!
//! A snapshot that no client accesses for [`BACKUP_KEPT`] expires. At most [`BACKUPS_MAX`] exist at once. Knows nothing of
//! HTTP.

mod manifest;
mod restore;
mod views_file;

use std::{
    collections::{HashMap, HashSet},
    hash::RandomState,
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use swiftwater_event::{Clock, Millis};
use swiftwater_log::{LogError, LogSnapshot};
use swiftwater_store::{PinnedStore, SnapshotOptions, StoreError};
use swiftwater_views::StoreSnapshot;

use crate::durable::{
    directory::DataDir,
    history::{History, causes},
    stored_stream::unavailable,
};
use crate::{BackupError, EngineError, QueryId};

use swiftwater_runtime::lock_order::OrderedMutex;
use views_file::ViewsFile;

pub use manifest::{BackupFile, BackupManifest, Checksum, MANIFEST_NAME, ManifestError};
pub use restore::{BackupFault, RestoreError, restore, verify_backup};

/// Cuts that stand at once: one more is refused.
pub const BACKUPS_MAX: usize = 4;
/// The time a cut stands that nobody reads.
pub const BACKUP_KEPT: Duration = Duration::from_secs(600);
/// The name of what views, alerts and joins keep.
const VIEWS_NAME: &str = "views/kept";
/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 4 << 20;
/// Files whose checksums are made at a time.
const CHECKED_AT_ONCE: usize = 4;

/// The contents of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupOptions {
    /// True to leave the files of search indexes out; a restored server builds them anew.
    pub without_search_index: bool,
}

/// The cuts that stand.
#[derive(Default)]
pub(crate) struct Backups {
    standing: OrderedMutex<HashMap<String, Arc<Backup>>>,
    /// Checksums of the last cut's files, of those that never change: the next cut need not read them.
    known: OrderedMutex<HashMap<(Box<str>, u64), Checksum>>,
    /// Locked while a snapshot is made.
    beginning: tokio::sync::Mutex<()>,
    taken: AtomicU64,
    secret: RandomState,
}

/// A cut that stands: its files can be read as long as this lives.
pub struct Backup {
    manifest: BackupManifest,
    /// The index of a file in the manifest, by its name.
    numbers: HashMap<String, usize>,
    cut: Arc<Cut>,
}

/// The snapshots that a backup consists of, held open.
struct Cut {
    sources: Vec<Source>,
    taken: Millis,
    catalog: Bytes,
    log: LogSnapshot,
    store: PinnedStore,
    clock: Arc<dyn Clock>,
    touched: AtomicU64,
}

/// A file, and where its bytes are.
#[derive(Debug, Clone)]
struct Source {
    name: String,
    bytes: u64,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Catalog,
    /// The file of this number of the log's cut.
    Log(usize),
    /// The path in the store, and whether its bytes are ever the same.
    Store(Box<str>, bool),
    Views(Arc<ViewsFile>),
}

/// The reason why a file of a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BackupReadError {
    /// It is in the log.
    #[error("the log cannot be read")]
    Log(#[from] LogError),
    /// It is in the store.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// It was put aside.
    #[error("the state of views cannot be read")]
    Views(#[from] io::Error),
    /// A thread ended.
    #[error("a thread of this process ended early")]
    Broken,
}

impl Backup {
    /// Its contents.
    pub fn manifest(&self) -> &BackupManifest {
        &self.manifest
    }

    /// A file of it.
    pub fn file(&self, name: &str) -> Result<&BackupFile, EngineError> {
        Ok(&self.manifest.files[self.number(name)?])
    }

    /// Bytes of a file, piece by piece.
    pub fn read(
        &self,
        name: &str,
        range: Range<u64>,
    ) -> Result<impl Stream<Item = Result<Bytes, BackupReadError>> + Send + use<>, EngineError> {
        Ok(self.cut.read(self.number(name)?, range))
    }

    fn number(&self, name: &str) -> Result<usize, EngineError> {
        let no_file = || BackupError::NoFile { id: self.manifest.id.clone(), name: name.to_owned() };
        Ok(self.numbers.get(name).copied().ok_or_else(no_file)?)
    }
}

impl Cut {
    fn read(
        self: &Arc<Self>,
        number: usize,
        range: Range<u64>,
    ) -> impl Stream<Item = Result<Bytes, BackupReadError>> + Send + use<> {
        let cut = Arc::clone(self);
        let end = range.end.min(cut.sources[number].bytes);
        let count = end.saturating_sub(range.start).div_ceil(PIECE_BYTES);
        let pieces = (0..count).map(move |piece| {
            let begin = range.start + piece * PIECE_BYTES;
            begin..(begin + PIECE_BYTES).min(end)
        });
        // The next piece is read while the last one is on its way.
        futures_util::stream::iter(pieces).map(move |piece| Arc::clone(&cut).piece(number, piece)).buffered(2)
    }

    async fn piece(self: Arc<Self>, number: usize, range: Range<u64>) -> Result<Bytes, BackupReadError> {
        self.touch();
        match self.sources[number].place.clone() {
            Place::Catalog => Ok(self.catalog.slice(range.start as usize..range.end as usize)),
            Place::Store(path, _) => Ok(self.store.read(&path, range).await?),
            Place::Log(file) => {
                let read = move || {
                    let mut piece = vec![0; (range.end - range.start) as usize];
                    self.log.files()[file].read_exact_at(&mut piece, range.start)?;
                    Ok(Bytes::from(piece))
                };
                wait_for_disk(read).await
            }
            Place::Views(aside) => wait_for_disk(move || Ok(aside.read(range)?)).await,
        }
    }

    fn touch(&self) {
        self.touched.store(self.clock.monotonic_nanos(), Ordering::Relaxed);
    }

    fn is_forgotten(&self) -> bool {
        let age = self.clock.monotonic_nanos().saturating_sub(self.touched.load(Ordering::Relaxed));
        u128::from(age) >= BACKUP_KEPT.as_nanos()
    }

    /// Fails if a table was dropped that is in it.
    fn check_whole(&self) -> Result<(), EngineError> {
        match self.store.void() {
            Some(table) => Err(BackupError::TableDropped { table: table.to_owned() }.into()),
            None => Ok(()),
        }
    }
}

/// Runs work that waits for the disk.
async fn wait_for_disk(
    read: impl FnOnce() -> Result<Bytes, BackupReadError> + Send + 'static,
) -> Result<Bytes, BackupReadError> {
    tokio::task::spawn_blocking(read).await.map_err(|_| BackupReadError::Broken)?
}

impl Backups {
    /// Ends backups that nobody has read for long.
    pub(crate) fn expire(&self) {
        self.standing.lock().retain(|id, backup| {
            // Each reader of a file holds the snapshot.
            let is_kept = !backup.cut.is_forgotten() || Arc::strong_count(&backup.cut) > 1;
            if !is_kept {
                tracing::info!(%id, "an unread backup was ended");
            }
            is_kept
        });
    }

    /// Registers a backup.
    fn add(&self, backup: &Arc<Backup>) -> Result<(), EngineError> {
        let mut standing = self.standing.lock();
        if standing.len() >= BACKUPS_MAX {
            return Err(BackupError::TooMany { standing: standing.len() }.into());
        }
        standing.insert(backup.manifest.id.clone(), Arc::clone(backup));
        Ok(())
    }
}

impl History {
    /// Makes a cut, which stands until it is ended, or left alone for long.
    pub(crate) async fn start_backup(&self, options: BackupOptions) -> Result<Arc<Backup>, EngineError> {
        let backups = &self.backups;
        let _one_at_a_time = backups.beginning.lock().await;
        backups.expire();
        if backups.standing.lock().len() >= BACKUPS_MAX {
            return Err(BackupError::TooMany { standing: BACKUPS_MAX }.into());
        }
        let began = self.clock.monotonic_nanos();
        let number = backups.taken.fetch_add(1, Ordering::Relaxed);
        let (mut cut, views) = self.cut(options).await?;
        if let Some(views) = views {
            self.write_views_file(&mut cut, views, number).await?;
        }
        let cut = Arc::new(cut);
        let files = self.check_sums(&cut).await;
        cut.check_whole()?;
        let files = files.map_err(|error| BackupError::Unavailable(causes(&error)))?;
        let id = QueryId::new(self.clock.now(), number, &backups.secret).to_string();
        let numbers = files.iter().enumerate().map(|(number, file)| (file.name.clone(), number)).collect();
        let manifest = BackupManifest::new(id, cut.taken, cut.log.end().0, files);
        cut.touch();
        let backup = Arc::new(Backup { manifest, numbers, cut });
        backups.add(&backup)?;
        let millis = self.clock.monotonic_nanos().saturating_sub(began) / 1_000_000;
        let (id, files, bytes) = (&backup.manifest.id, backup.manifest.files.len(), backup.manifest.bytes());
        tracing::info!(%id, files, bytes, position = backup.manifest.log_position, millis, "a backup started");
        Ok(backup)
    }

    /// A running backup.
    pub(crate) fn backup(&self, id: &str) -> Result<Arc<Backup>, EngineError> {
        self.backups.expire();
        let found = self.backups.standing.lock().get(id).cloned();
        let backup = found.ok_or_else(|| BackupError::NotFound(id.to_owned()))?;
        backup.cut.check_whole()?;
        backup.cut.touch();
        Ok(backup)
    }

    /// Ends a backup; a file that is being read is read to its end.
    pub(crate) fn end_backup(&self, id: &str) -> Result<(), EngineError> {
        let ended = self.backups.standing.lock().remove(id);
        ended.map(drop).ok_or_else(|| BackupError::NotFound(id.to_owned()).into())
    }

    async fn cut(&self, options: BackupOptions) -> Result<(Cut, Option<StoreSnapshot>), EngineError> {
        // No stream is made, altered or dropped meanwhile.
        let _one_at_a_time = self.statement_lock.lock().await;
        // Nor does the log learn of anything that was done to a table since that was looked at: a run of a job that is
        // said to have succeeded has its rows in the cut. One that has them and is not said to is taken up, and passes over.
        // And nothing new is told by sinks, alerts and joins, as what they tell is kept before.
        let _catalog_and_views_stay = self.backup_lock.write().await;
        let held = self.log.retain_all();
        let mut catalog = self.snapshot();
        catalog.store = None;
        let catalog = Bytes::from(catalog.to_bytes());
        let views = self.view_files.opened();
        let views = views.map(|views| views.snapshot_all()).transpose();
        let views = views.map_err(|error| BackupError::Unavailable(causes(&error)))?;
        let store_options = SnapshotOptions { without_companions: options.without_search_index };
        let store = self.store.cut(store_options).await.map_err(from_store)?;
        let taken = self.clock.now();
        if self.log.usage().segments == 0 {
            // A log without a file would begin at 0 again, whatever the snapshot counts.
            self.tick(taken).await?;
        }
        // So that the log has everything that the snapshot counts. One that cannot be written may get room only by what waits for
        // this.
        let synced = self.log.synced(self.log.horizons().appended);
        let sync_time_max = Duration::from_millis(self.config.backup_sync_ms_max);
        match tokio::time::timeout(sync_time_max, synced).await {
            Ok(synced) => synced.map_err(unavailable)?,
            Err(_) => return Err(self.stall_error().unwrap_or_else(|| unavailable(LogError::Failing))),
        }
        let log = self.log.cut();
        drop(held);
        let source = |name: String, bytes: u64, place: Place| Source { name, bytes, place };
        let mut sources =
            vec![source("catalog/catalog-1.json".to_owned(), catalog.len() as u64, Place::Catalog)];
        for (number, file) in log.files().iter().enumerate() {
            sources.push(source(format!("log/{}", file.name()), file.bytes(), Place::Log(number)));
        }
        for file in store.files() {
            let place = Place::Store(file.path.clone(), file.is_unique);
            sources.push(source(format!("tables/{}", file.path), file.bytes, place));
        }
        let (clock, touched) = (Arc::clone(&self.clock), AtomicU64::default());
        Ok((Cut { sources, taken, catalog, log, store, clock, touched }, views))
    }

    /// Writes down what views keep, beside the cut that it is of.
    async fn write_views_file(
        &self,
        cut: &mut Cut,
        views: StoreSnapshot,
        number: u64,
    ) -> Result<(), EngineError> {
        let dir = self.dir.as_ref().map(DataDir::spill).ok_or(EngineError::NoHistory)?;
        let path = dir.join(format!("backup-{number}.views"));
        let put = tokio::task::spawn_blocking(move || ViewsFile::put(&views, &path)).await;
        let put = put.map_err(|_| BackupError::Unavailable(causes(&BackupReadError::Broken)))?;
        let aside = put.map_err(|error| BackupError::Unavailable(causes(&error)))?;
        let bytes = aside.bytes();
        let place = Place::Views(Arc::new(aside));
        cut.sources.push(Source { name: VIEWS_NAME.to_owned(), bytes, place });
        Ok(())
    }

    /// The files of a cut with their checksums: those of the tables' data that are known are not read again.
    async fn check_sums(&self, cut: &Arc<Cut>) -> Result<Vec<BackupFile>, BackupReadError> {
        let known = &self.backups.known;
        let checked = (0..cut.sources.len()).map(|number| async move {
            let Source { name, bytes, place } = cut.sources[number].clone();
            let key = match place {
                Place::Store(path, true) => Some((path, bytes)),
                _ => None,
            };
            let found = key.as_ref().and_then(|key| known.lock().get(key).copied());
            let crc32c = match found {
                Some(found) => found,
                None => {
                    let add = |sum: Checksum, piece: Bytes| async move { Ok(sum.and(&piece)) };
                    cut.read(number, 0..bytes).try_fold(Checksum::default(), add).await?
                }
            };
            if let Some(key) = key {
                known.lock().insert(key, crc32c);
            }
            Ok(BackupFile { name, bytes, crc32c })
        });
        let files = futures_util::stream::iter(checked).buffered(CHECKED_AT_ONCE).try_collect().await;
        // Files that are no longer in a snapshot are forgotten.
        let there: HashSet<&str> = cut.store.files().iter().map(|file| &*file.path).collect();
        known.lock().retain(|(path, _), _| there.contains(&**path));
        files
    }
}

fn from_store(error: StoreError) -> EngineError {
    match error {
        StoreError::Dropped(table) => BackupError::TableDropped { table: table.into() }.into(),
        error => BackupError::Unavailable(causes(&error)).into(),
    }
}
