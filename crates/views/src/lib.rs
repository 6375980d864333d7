//! The view store: the state of views on disk. Each view has keys in order, a state for each, and the position of these
//! states.
//!
//! One store contains all views of a node. A commit writes changed keys and the new position together, durably or not at
//! all; states are opaque bytes to this room. It is built on fjall, a log-structured merge tree (after O'Neil et al., "The
//! Log-Structured Merge-Tree", 1996). fjall has a journal and sorted files, and compacts them on its own threads. Calls
//! block on the disk, so callers use threads that may block.
//!
//! `bench/stores` measures it beside RocksDB, with 10 million keys and durable commits of 400,000 random ones. Both took
//! some 340,000 to 550,000 updates a second on two busy cores. In each round, fjall took a tenth to a half more, without
//! RocksDB's pauses of several seconds, and read random keys 1.4 to 1.9 times as fast. RocksDB took a third of the memory
//! and two thirds of the disk. A Rust library builds everywhere without a C++ compiler, which decided the choice.
//!
//! A store that failed to write accepts nothing more until it is reopened, which the next call does. Updates that were not
//! durable are lost then, and their owner commits them again.
//!
//! A snapshot of the whole store at one instant can be written out, and a new store loaded from it ([`StoreSnapshot`]).
//!
//! Damaged files never prevent reading the rest: see [`repair`]. [`ViewStore::is_lost`] lists a view whose rows are lost
//! until its owner reports that they are rebuilt.

mod dump;
mod mark;
mod repair;

use std::{
    collections::HashMap,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use mark::{StoreManifest, ViewEntry};
use repair::{OWN_POSITION, is_damage, own_position, positions_of};

pub use dump::{DumpError, StoreSnapshot};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 60_000;

/// The most keys that a commit deletes.
pub const CLEARED_AT_ONCE: usize = 20_000;

/// Bytes of a view's changes that are held in memory, besides the journal, before they go into a sorted file.
const MEMTABLE_BYTES: u64 = 16 << 20;

/// Bytes of the journal, which a start reads.
const JOURNAL_BYTES_MAX: u64 = 96 << 20;

/// The keyspace of all views' positions.
const POSITIONS: &str = "positions";

/// Limits of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewStoreOptions {
    /// Bytes of files that are held in memory, for reading.
    pub cache_bytes: u64,
}

/// The reason why views cannot be persisted, or read.
#[derive(Debug, thiserror::Error)]
pub enum ViewStoreError {
    /// The files cannot be used.
    #[error("the views in {} cannot be used: {what}", path.display())]
    Store {
        /// Their directory.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A file is damaged.
    #[error(
        "a file of the views in {} is damaged: {what}; the next start of the server rebuilds its contents", path.display()
    )]
    Damaged {
        /// Their directory.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A key is too long.
    #[error("a key of {0} bytes, the limit is {KEY_BYTES_MAX}")]
    KeyTooLong(usize),
}

/// The views of a node.
pub struct ViewStore {
    path: PathBuf,
    options: ViewStoreOptions,
    /// The open store; none while it is opened again.
    opened: RwLock<Option<Opened>>,
    /// The recorded content that it must have; locked after `opened`.
    mark: Arc<Mutex<StoreManifest>>,
    is_new: bool,
}

struct Opened {
    db: Database,
    positions: Keyspace,
    views: HashMap<u32, Keyspace>,
    /// The changes of views, by the place of each change: see [`place_of`].
    logs: HashMap<u32, Keyspace>,
    /// The flag for holders of the files.
    is_closed: Arc<AtomicBool>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// The changes to a view's change log with a commit, besides the new entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSnapshot<'c> {
    /// Changes up to this place go.
    pub done: &'c [u8],
    /// Number of further changes to remove, the oldest first.
    pub over: u64,
    /// Keys whose changes do not go into the log, in order.
    pub without: &'c [&'c [u8]],
}

/// Changes that a commit pruned from a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrunedChanges {
    /// Number of delivered changes.
    pub done: u64,
    /// Number of changes that were not delivered.
    pub over: u64,
}

/// The place of a key's change in the log: in the order of the commits, by their positions, and of the keys in one.
pub fn place_of(position: u64, key: &[u8]) -> Vec<u8> {
    [&position.to_be_bytes(), key].concat()
}

/// The position of the commit and the key of the change that has this place.
pub fn change_at(place: &[u8]) -> Option<(u64, &[u8])> {
    let (position, key) = place.split_first_chunk()?;
    Some((u64::from_be_bytes(*position), key))
}

/// A view's keys as they were at one commit. It holds the files, so it cannot be read any more once the store releases
/// them to open them again.
pub struct ViewSnapshot {
    snapshot: Snapshot,
    view: u32,
    positions: Keyspace,
    rows: Option<Keyspace>,
    is_closed: Arc<AtomicBool>,
    path: PathBuf,
    mark: Arc<Mutex<StoreManifest>>,
}

/// The changes of a view to make durable.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'c, C> {
    /// Number of the view.
    pub view: u32,
    /// Changed keys, those without a state deleted.
    pub changes: C,
    /// The view's position after it.
    pub position: u64,
    /// Bytes beside the position.
    pub note: &'c [u8],
    /// No keys below this one are left: those that are there go, up to [`CLEARED_AT_ONCE`] of them, and changed ones are
    /// passed over.
    pub below: Option<&'c [u8]>,
    /// The changes go into the view's log, too, and what it need not keep any more goes out of it, up to twice as many, or to
    /// [`CLEARED_AT_ONCE`].
    pub log: Option<LogSnapshot<'c>>,
}

impl<'c, C: Iterator<Item = (&'c [u8], Option<&'c [u8]>)> + Clone> Commit<'c, C> {
    /// Changes of keys that are not left out.
    fn retained_changes(&self) -> impl Iterator<Item = (&'c [u8], Option<&'c [u8]>)> + Clone {
        let below = self.below;
        self.changes.clone().filter(move |(key, _)| below.is_none_or(|below| *key >= below))
    }

    fn write(
        &self,
        opened: &Opened,
        batch: &mut fjall::OwnedWriteBatch,
    ) -> Result<PrunedChanges, fjall::Error> {
        let mut cleared = PrunedChanges::default();
        // Entries written in order are near each other: the files' tables in memory are lists by key.
        let mut kept: Vec<_> = self.retained_changes().collect();
        kept.sort_unstable_by_key(|(key, _)| *key);
        if let Some(cut) = &self.log {
            let log = opened.logs.get(&self.view).ok_or(fjall::Error::KeyspaceDeleted)?;
            for (key, state) in kept.iter().filter(|(key, _)| cut.without.binary_search(key).is_err()) {
                // No state is empty.
                batch.insert(log, stored_key(&place_of(self.position, key)), state.unwrap_or_default());
            }
            let done = stored_key(cut.done);
            for pair in log.range(stored_key(&[])..).take(CLEARED_AT_ONCE.max(2 * kept.len())) {
                let place = pair.key()?;
                if place[..] <= done[..] {
                    cleared.done += 1;
                } else if cleared.over < cut.over {
                    cleared.over += 1;
                } else {
                    break;
                }
                batch.remove(log, place);
            }
        }
        let rows = opened.views.get(&self.view).ok_or(fjall::Error::KeyspaceDeleted)?;
        for (key, state) in kept {
            match state {
                Some(state) => batch.insert(rows, stored_key(key), state),
                None => batch.remove(rows, stored_key(key)),
            }
        }
        if let Some(below) = self.below {
            for pair in rows.range(stored_key(&[])..stored_key(below)).take(CLEARED_AT_ONCE) {
                batch.remove(rows, pair.key()?);
            }
        }
        let own = own_position(self.position, self.log.is_some());
        batch.insert(rows, OWN_POSITION, own);
        if self.log.is_some()
            && let Some(log) = opened.logs.get(&self.view)
        {
            batch.insert(log, OWN_POSITION, own);
        }
        let noted = [&self.position.to_be_bytes(), self.note].concat();
        batch.insert(&opened.positions, self.view.to_be_bytes(), noted);
        Ok(cleared)
    }
}

impl std::fmt::Debug for ViewStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewStore").field("path", &self.path).finish_non_exhaustive()
    }
}

fn of_view() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES)
}

fn name_of(view: u32) -> String {
    format!("view-{view}")
}

fn name_of_log(view: u32) -> String {
    format!("changes-{view}")
}

impl ViewStore {
    /// Opens the views of a directory, which is made where there is none.
    pub fn open(path: &Path, options: ViewStoreOptions) -> Result<ViewStore, ViewStoreError> {
        let mut store = ViewStore::unopened(path, &options);
        // A repair that was cut off has its files elsewhere, and a mark.
        store.is_new = !path.exists() && !mark::beside(path, ".mark").exists();
        let (opened, mark) = store.open_or_repair()?;
        *store.locked_mark() = mark;
        *store.opened.write().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        store.write_mark(|_| ());
        Ok(store)
    }

    fn unopened(path: &Path, options: &ViewStoreOptions) -> ViewStore {
        ViewStore {
            path: path.into(),
            options: options.clone(),
            opened: RwLock::new(None),
            mark: Arc::default(),
            is_new: false,
        }
    }

    fn open_files_of(&self, path: &Path) -> fjall::Result<Opened> {
        let builder = Database::builder(path).cache_size(self.options.cache_bytes);
        let db = builder
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .worker_threads(1)
            .manual_journal_persist(true)
            .open()?;
        let positions = positions_of(&db)?;
        let (mut views, mut logs) = (HashMap::new(), HashMap::new());
        for name in db.list_keyspace_names() {
            let id_behind = |head: &str| name.strip_prefix(head).and_then(|id| id.parse().ok());
            if let Some(id) = id_behind("view-") {
                views.insert(id, db.keyspace(&name, of_view)?);
            } else if let Some(id) = id_behind("changes-") {
                logs.insert(id, db.keyspace(&name, of_view)?);
            }
        }
        Ok(Opened { db, positions, views, logs, is_closed: Arc::default() })
    }

    fn locked_mark(&self) -> MutexGuard<'_, StoreManifest> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the store must have, and writes that down. Without it nothing is lost but the guard.
    fn write_mark(&self, change: impl FnOnce(&mut StoreManifest)) {
        let mut mark = self.locked_mark();
        change(&mut mark);
        if let Err(error) = mark.write(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the positions of the views cannot be written beside \
                 their files");
        }
    }

    /// True if a view's data was damaged, and its owner has not reported its rebuild yet.
    pub fn is_lost(&self, view: u32) -> bool {
        self.locked_mark().views.get(&view).is_some_and(|marked| marked.is_lost)
    }

    /// True if there were neither files nor a mark of them when it was opened.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// A view was kept before and nothing of it is left, which a new store cannot know.
    pub fn record_lost(&self, view: u32) {
        self.write_mark(|mark| {
            mark.views.insert(view, ViewEntry { position: 0, is_lost: true });
        });
    }

    /// All views that are lost ([`ViewStore::is_lost`]).
    pub fn lost(&self) -> Vec<u32> {
        let mark = self.locked_mark();
        mark.views.iter().filter(|(_, marked)| marked.is_lost).map(|(&id, _)| id).collect()
    }

    /// A view has all again that was lost.
    pub fn record_rebuilt(&self, view: u32) {
        if self.is_lost(view) {
            self.write_mark(|mark| {
                if let Some(marked) = mark.views.get_mut(&view) {
                    marked.is_lost = false;
                }
            });
        }
    }

    fn error(&self, error: &fjall::Error) -> ViewStoreError {
        recorded_error(&self.path, &self.mark, error)
    }

    /// Calls a function with the files, and opens them if they are closed.
    fn with<T>(&self, work: impl Fn(&Opened) -> fjall::Result<T>) -> Result<T, ViewStoreError> {
        loop {
            let opened: RwLockReadGuard<'_, _> = self.opened.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(opened) = &*opened {
                return work(opened).map_err(|error| self.error(&error));
            }
            drop(opened);
            let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
            if opened.is_none() {
                *opened = Some(self.open_files_of(&self.path).map_err(|error| self.error(&error))?);
            }
        }
    }

    /// The views that there are.
    pub fn views(&self) -> Result<Vec<u32>, ViewStoreError> {
        self.with(|opened| Ok(opened.views.keys().copied().collect()))
    }

    /// The position of a view; none where nothing was committed.
    pub fn position(&self, view: u32) -> Result<Option<u64>, ViewStoreError> {
        Ok(self.checkpoint(view)?.map(|(position, _)| position))
    }

    /// The checkpoint of a view: the position of its last commit, and the note that was committed with it.
    pub fn checkpoint(&self, view: u32) -> Result<Option<(u64, Vec<u8>)>, ViewStoreError> {
        let bytes = self.with(|opened| opened.positions.get(view.to_be_bytes()))?;
        Ok(bytes.and_then(|bytes| decode_checkpoint(&bytes)))
    }

    /// Makes durable, together, changed keys, of which those without a state are deleted, and the new position of a view.
    /// A view begins with its first commit. If it fails, none of it counts.
    pub fn commit<'c>(
        &self,
        view: u32,
        changes: impl Iterator<Item = (&'c [u8], Option<&'c [u8]>)> + Clone,
        position: u64,
    ) -> Result<(), ViewStoreError> {
        self.commit_all(&[Commit { view, changes, position, note: &[], below: None, log: None }]).map(|_| ())
    }

    /// Does the same as [`ViewStore::commit`], for several views: all of it is durable, or none. Returns the changes
    /// removed from the log of each.
    pub fn commit_all<'c, C>(&self, commits: &[Commit<'c, C>]) -> Result<Vec<PrunedChanges>, ViewStoreError>
    where
        C: Iterator<Item = (&'c [u8], Option<&'c [u8]>)> + Clone,
    {
        for commit in commits {
            if let Some((key, _)) = commit.retained_changes().find(|(key, _)| key.len() > KEY_BYTES_MAX) {
                return Err(ViewStoreError::KeyTooLong(key.len()));
            }
            self.begin(commit.view, commit.log.is_some())?;
        }
        let committed = self.with(|opened| {
            let mut batch = opened.db.batch().durability(Some(PersistMode::SyncData));
            let cleared =
                commits.iter().map(|commit| commit.write(opened, &mut batch)).collect::<Result<_, _>>()?;
            batch.commit().map(|()| cleared)
        });
        if committed.is_err() {
            let views: Vec<u32> = commits.iter().map(|commit| commit.view).collect();
            tracing::warn!(?views, "views could not be written; their files are opened again");
            *self.opened.write().unwrap_or_else(PoisonError::into_inner) = None;
            return committed;
        }
        self.write_mark(|mark| {
            for commit in commits {
                let marked =
                    mark.views.entry(commit.view).or_insert(ViewEntry { position: 0, is_lost: false });
                marked.position = commit.position;
            }
        });
        committed
    }

    fn begin(&self, view: u32, has_log: bool) -> Result<(), ViewStoreError> {
        let is_there = |opened: &Opened| {
            Ok(opened.views.contains_key(&view) && (!has_log || opened.logs.contains_key(&view)))
        };
        while !self.with(is_there)? {
            let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(opened) = &mut *opened {
                let rows = opened.db.keyspace(&name_of(view), of_view);
                opened.views.insert(view, rows.map_err(|error| self.error(&error))?);
                if has_log {
                    let log = opened.db.keyspace(&name_of_log(view), of_view);
                    opened.logs.insert(view, log.map_err(|error| self.error(&error))?);
                }
            }
        }
        Ok(())
    }

    /// The state of a key.
    pub fn get(&self, view: u32, key: &[u8]) -> Result<Option<Vec<u8>>, ViewStoreError> {
        self.with(|opened| match opened.views.get(&view) {
            Some(rows) => Ok(rows.get(stored_key(key))?.map(|state| state.to_vec())),
            None => Ok(None),
        })
    }

    /// All keys of a view as they are.
    pub fn snapshot(&self, view: u32) -> Result<ViewSnapshot, ViewStoreError> {
        self.with(|opened| {
            let (snapshot, rows) = (opened.db.snapshot(), opened.views.get(&view).cloned());
            Ok(self.snapshot_of(opened, view, snapshot, rows))
        })
    }

    fn snapshot_of(
        &self,
        opened: &Opened,
        view: u32,
        snapshot: Snapshot,
        rows: Option<Keyspace>,
    ) -> ViewSnapshot {
        let (positions, is_closed) = (opened.positions.clone(), Arc::clone(&opened.is_closed));
        let (path, mark) = (self.path.clone(), Arc::clone(&self.mark));
        ViewSnapshot { snapshot, view, positions, rows, is_closed, path, mark }
    }

    /// The log of a view's changes as it is: a state by the place of each change, an empty one where the key was deleted.
    pub fn log(&self, view: u32) -> Result<ViewSnapshot, ViewStoreError> {
        self.with(|opened| {
            let (snapshot, rows) = (opened.db.snapshot(), opened.logs.get(&view).cloned());
            Ok(self.snapshot_of(opened, view, snapshot, rows))
        })
    }

    /// Views that have a log of their changes.
    pub fn logs(&self) -> Result<Vec<u32>, ViewStoreError> {
        self.with(|opened| Ok(opened.logs.keys().copied().collect()))
    }

    /// Deletes the log of a view's changes; that there is none is no error.
    pub fn delete_log(&self, view: u32) -> Result<(), ViewStoreError> {
        self.with(|_| Ok(()))?;
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        let Some(opened) = &mut *opened else { return Ok(()) };
        let deleted = opened.logs.remove(&view).map_or(Ok(()), |log| opened.db.delete_keyspace(log));
        deleted.map_err(|error| self.error(&error))
    }

    /// Deletes a view with all its keys; that there is none is no error.
    pub fn delete(&self, view: u32) -> Result<(), ViewStoreError> {
        self.delete_log(view)?;
        self.write_mark(|mark| {
            mark.views.remove(&view);
        });
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        let Some(opened) = &mut *opened else { return Ok(()) };
        let deleted = (|| {
            // The position first: without it, what is left of a view is nobody's.
            let mut batch = opened.db.batch().durability(Some(PersistMode::SyncData));
            batch.remove(&opened.positions, view.to_be_bytes());
            batch.commit()?;
            match opened.views.remove(&view) {
                Some(rows) => opened.db.delete_keyspace(rows),
                None => Ok(()),
            }
        })();
        deleted.map_err(|error| self.error(&error))
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> Result<u64, ViewStoreError> {
        self.with(|opened| opened.db.disk_space())
    }
}

/// An error of the library. Damage of files is recorded, so that the next start makes a new store of them.
fn recorded_error(path: &Path, mark: &Mutex<StoreManifest>, error: &fjall::Error) -> ViewStoreError {
    let (path, what) = (path.to_owned(), error.to_string());
    if !is_damage(error) {
        return ViewStoreError::Store { path, what };
    }
    let mut mark = mark.lock().unwrap_or_else(PoisonError::into_inner);
    if !mark.is_damaged {
        tracing::error!(path = %path.display(), what, "a file of the views is damaged; the next start rebuilds its \
             contents");
        mark.is_damaged = true;
        if let Err(error) = mark.write(&path) {
            tracing::warn!(path = %path.display(), %error, "the damage cannot be recorded");
        }
    }
    ViewStoreError::Damaged { path, what }
}

/// Every key has a byte before it, so that none is empty, which is no key for the files: a view without keys has one row.
fn stored_key(key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(key.len() + 1);
    stored.push(b'k');
    stored.extend_from_slice(key);
    stored
}

/// A position, and the note that was committed with it.
fn decode_checkpoint(bytes: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (position, note) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*position), note.to_vec()))
}

impl ViewSnapshot {
    /// The checkpoint at the time of the snapshot, as [`ViewStore::checkpoint`].
    pub fn checkpoint(&self) -> Result<Option<(u64, Vec<u8>)>, ViewStoreError> {
        let bytes = self.snapshot.get(&self.positions, self.view.to_be_bytes());
        Ok(bytes.map_err(|error| self.error(&error))?.and_then(|bytes| decode_checkpoint(&bytes)))
    }

    /// The state of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ViewStoreError> {
        let Some(rows) = &self.rows else { return Ok(None) };
        let state = self.snapshot.get(rows, stored_key(key)).map_err(|error| self.error(&error))?;
        Ok(state.map(|state| state.to_vec()))
    }

    fn error(&self, error: &fjall::Error) -> ViewStoreError {
        recorded_error(&self.path, &self.mark, error)
    }

    /// Keys from one bound to another with their states, in order.
    pub fn range<'s>(
        &'s self,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>), ViewStoreError>> + use<'s> {
        let to = match to.map(stored_key) {
            Bound::Unbounded => Bound::Excluded(vec![b'k' + 1]),
            to => to,
        };
        let bounds = (from.map(stored_key), to);
        let rows = self.rows.as_ref().map(|rows| self.snapshot.range(rows, bounds));
        rows.into_iter().flatten().map(|pair| match pair.into_inner() {
            _ if self.is_closed.load(Ordering::Relaxed) => Err(ViewStoreError::Store {
                path: self.path.clone(),
                what: "their files were closed".to_owned(),
            }),
            Ok((key, state)) => Ok((key[1..].to_vec(), state.to_vec())),
            Err(error) => Err(self.error(&error)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const OPTIONS: ViewStoreOptions = ViewStoreOptions { cache_bytes: 1 << 20 };

    fn all(store: &ViewStore, view: u32, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<(Vec<u8>, Vec<u8>)> {
        store.snapshot(view).unwrap().range(bounds).collect::<Result<_, _>>().unwrap()
    }

    fn commit(store: &ViewStore, view: u32, changes: &[(&[u8], &[u8])], position: u64) {
        let changes = changes.iter().map(|(key, state)| (*key, Some(*state)));
        store.commit(view, changes, position).unwrap();
    }

    const EVERYTHING: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

    #[test]
    fn keys_and_position_are_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
        assert_eq!(store.position(7).unwrap(), None);
        commit(&store, 7, &[(b"b", b"1"), (b"", b"whole"), (b"a\0", b"2")], 10);
        commit(&store, 7, &[(b"b", b"3")], 11);
        commit(&store, 8, &[], 5);
        let old = store.snapshot(7).unwrap();
        commit(&store, 7, &[(b"b", b"4")], 12);
        let seen: Vec<_> = old.range(EVERYTHING).map(|pair| pair.unwrap().1).collect();
        assert_eq!(seen, [&b"whole"[..], b"2", b"3"]);
        drop((old, store));
        let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
        assert_eq!((store.position(7).unwrap(), store.position(8).unwrap()), (Some(12), Some(5)));
        assert_eq!(store.get(7, b"b").unwrap().as_deref(), Some(&b"4"[..]));
        assert_eq!(store.get(7, b"c").unwrap(), None);
        let mut views = store.views().unwrap();
        views.sort_unstable();
        assert_eq!(views, [7, 8]);
    }

    #[test]
    fn a_deleted_view_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
        commit(&store, 1, &[(b"a", b"1")], 1);
        commit(&store, 2, &[(b"a", b"2")], 2);
        store.delete(1).unwrap();
        store.delete(1).unwrap();
        assert_eq!((store.position(1).unwrap(), store.get(1, b"a").unwrap()), (None, None));
        assert!(all(&store, 1, EVERYTHING).is_empty());
        assert_eq!(store.get(2, b"a").unwrap().as_deref(), Some(&b"2"[..]));
        drop(store);
        assert_eq!(ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap().views().unwrap(), [2]);
    }

    #[test]
    fn a_key_that_is_too_long_is_refused_and_the_rest_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
        let long = vec![b'x'; KEY_BYTES_MAX + 1];
        let refused = store.commit(1, [(&long[..], Some(&b"1"[..]))].into_iter(), 1);
        assert_eq!(refused.unwrap_err().to_string(), "a key of 60001 bytes, the limit is 60000");
        assert_eq!(store.position(1).unwrap(), None);
        commit(&store, 1, &[(&long[1..], b"1")], 1);
        assert_eq!(store.get(1, &long[1..]).unwrap().as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn a_log_has_every_change_of_every_commit_until_it_is_done_with() {
        let dir = tempfile::tempdir().unwrap();
        let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
        let log = |store: &ViewStore| -> Vec<(u64, Vec<u8>, Vec<u8>)> {
            let pairs = store.log(5).unwrap().range(EVERYTHING).collect::<Result<Vec<_>, _>>().unwrap();
            let change = |(place, state): (Vec<u8>, Vec<u8>)| {
                let (position, key) = change_at(&place).unwrap();
                (position, key.to_vec(), state)
            };
            pairs.into_iter().map(change).collect()
        };
        let commit = |changes: &[(&[u8], Option<&[u8]>)], position, cut| {
            let changes = changes.iter().copied();
            let commit = Commit { view: 5, changes, position, note: &[], below: None, log: cut };
            store.commit_all(&[commit]).unwrap()[0]
        };
        let (first_place, before) = (place_of(255, b""), place_of(254, b"z"));
        let cut = |done| Some(LogSnapshot { done, over: 0, without: &[] });
        assert_eq!(commit(&[(b"a", Some(b"0"))], 250, None), PrunedChanges::default());
        assert!(log(&store).is_empty(), "nobody wants it");
        commit(&[(b"", Some(b"1")), (b"b", None)], 255, cut(b""));
        commit(&[(b"b", Some(b"2"))], 256, cut(b""));
        let (first, second, third) =
            ((255, vec![], b"1".to_vec()), (255, b"b".to_vec(), vec![]), (256, b"b".to_vec(), b"2".to_vec()));
        assert_eq!(log(&store), [first, second.clone(), third.clone()]);
        assert_eq!(commit(&[], 257, cut(&first_place)), PrunedChanges { done: 1, over: 0 });
        assert_eq!(log(&store), [second, third.clone()]);
        let over = Some(LogSnapshot { done: &before, over: 1, without: &[b"b", b"d"] });
        let changes: [(&[u8], Option<&[u8]>); 3] =
            [(b"d", Some(b"4")), (b"c", Some(b"3")), (b"b", Some(b"5"))];
        assert_eq!(commit(&changes, 258, over), PrunedChanges { done: 0, over: 1 });
        let last = (258, b"c".to_vec(), b"3".to_vec());
        assert_eq!(log(&store), [third, last.clone()]);
        drop(store);
        let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
        assert_eq!((log(&store).last(), store.logs().unwrap()), (Some(&last), vec![5]));
        store.delete_log(5).unwrap();
        assert!(log(&store).is_empty() && store.logs().unwrap().is_empty());
        for (key, state) in [(b"b", b"5"), (b"c", b"3"), (b"d", b"4")] {
            assert_eq!(
                store.get(5, key).unwrap().as_deref(),
                Some(&state[..]),
                "it is kept, in the log or not"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
        #[test]
        fn ranges_are_those_of_a_sorted_map(
            commits in proptest::collection::vec(proptest::collection::vec((proptest::collection::vec(0u8..4, 0..3), any::<Option<u8>>()), 0..12), 1..5),
            from in proptest::collection::vec(0u8..4, 0..3),
            to in proptest::collection::vec(0u8..4, 0..3),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let store = ViewStore::open(&dir.path().join("views"), OPTIONS).unwrap();
            let mut map = BTreeMap::new();
            for (position, changes) in commits.iter().enumerate() {
                let changes: BTreeMap<&[u8], Option<[u8; 1]>> =
                    changes.iter().map(|(key, state)| (&key[..], state.map(|state| [state]))).collect();
                let pairs = changes.iter().map(|(key, state)| (*key, state.as_ref().map(|state| &state[..])));
                store.commit(3, pairs, position as u64).unwrap();
                for (key, state) in changes {
                    match state {
                        Some(state) => map.insert(key.to_vec(), state.to_vec()),
                        None => map.remove(key),
                    };
                }
            }
            let expected = |bounds: (Bound<&[u8]>, Bound<&[u8]>)| -> Vec<(Vec<u8>, Vec<u8>)> {
                map.range::<[u8], _>(bounds).map(|(key, state)| (key.clone(), state.clone())).collect()
            };
            prop_assert_eq!(all(&store, 3, EVERYTHING), expected(EVERYTHING));
            if from < to {
                let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
                prop_assert_eq!(all(&store, 3, bounds), expected(bounds));
            }
            let after = (Bound::Excluded(&from[..]), Bound::Unbounded);
            prop_assert_eq!(all(&store, 3, after), expected(after));
        }
    }
}
