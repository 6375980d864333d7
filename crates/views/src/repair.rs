//! Repairs a store whose files are damaged: copies the readable parts into a new store, and lists the rest.
//!
//! Damage is detected before the files are opened ([`faults_of`]). The library takes a keyspace without its `current` file
//! for a new one, deletes keyspaces that are missing from its list, and panics at unexpected names. If a store cannot be
//! opened, the repair tries it without one keyspace after another, then without its journals. The positions then show what
//! is missing. The state of a view is read and copied completely, or it is lost.
//!
//! The damaged files stay in `DIRECTORY.damaged`, the newest set only.

use std::{
    any::Any,
    fs,
    io::{self, ErrorKind, Read as _, Seek as _, SeekFrom},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use fjall::{Keyspace, KeyspaceCreateOptions, LsmError, PersistMode, Readable};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    Opened, POSITIONS, ViewStore, ViewStoreError, decode_checkpoint,
    mark::{StoreManifest, ViewEntry, beside},
    name_of, name_of_log, of_view,
};

/// The key of a keyspace's own position, which is written with each commit. It is behind all keys of rows.
pub(crate) const OWN_POSITION: &[u8] = b"position";

/// A keyspace's own position, and whether the view's log has the same commit.
pub(crate) fn own_position(position: u64, has_log: bool) -> [u8; 9] {
    let mut own = [u8::from(has_log); 9];
    own[..8].copy_from_slice(&position.to_be_bytes());
    own
}

/// Decodes a recorded position; a value of another form belongs to no commit.
pub(crate) fn own_position_in(own: &[u8]) -> (u64, bool) {
    let read = own.split_first_chunk().filter(|(_, rest)| rest.len() == 1);
    read.map_or((u64::MAX, false), |(position, rest)| (u64::from_be_bytes(*position), rest == [1]))
}

/// The file by which the library knows its own, and what is in it.
const VERSION_FILE: (&str, &[u8]) = ("version", b"FJL\x03");

/// True if an error of the library says that files are damaged, rather than that the system does not give them out.
pub(crate) fn is_damage(error: &fjall::Error) -> bool {
    let of_io = |error: &io::Error| {
        matches!(
            error.kind(),
            ErrorKind::UnexpectedEof
                | ErrorKind::NotFound
                | ErrorKind::InvalidData
                // A place before the beginning of a file that is too short.
                | ErrorKind::InvalidInput
                | ErrorKind::NotADirectory
                | ErrorKind::IsADirectory
        )
    };
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => of_io(error),
        fjall::Error::Locked | fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted => false,
        _ => true,
    }
}

/// The faults of the files, as far as they can be found before opening: keyspaces and stray names to move away, each with
/// the reason.
fn faults_of(path: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut faults = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let (name, file) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let journal = name.strip_suffix(".jnl").map(|number| number.parse::<u64>().is_ok());
        let is_known = ["version", "lock", "keyspaces", DONE].contains(&&*name) || journal == Some(true);
        if !is_known || journal == Some(true) && !entry.file_type()?.is_file() {
            faults.push((file, "it is not a file of the store".to_owned()));
        }
    }
    let keyspaces = match fs::read_dir(path.join("keyspaces")) {
        Ok(keyspaces) => keyspaces,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(faults),
        Err(error) => return Err(error),
    };
    for entry in keyspaces {
        let entry = entry?;
        let is_keyspace = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if !is_keyspace || !entry.file_type()?.is_dir() {
            faults.push((entry.path(), "it is not a keyspace".to_owned()));
        } else if let Some(why) = fault_of(&entry.path())? {
            faults.push((entry.path(), why));
        }
    }
    Ok(faults)
}

/// The fault of a keyspace: its list of tables must have the checksum in `current`, and its tables their names.
fn fault_of(keyspace: &Path) -> io::Result<Option<String>> {
    let current = match fs::read(keyspace.join("current")) {
        Ok(current) => current,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Some("its file `current` is missing".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let parts = current.split_first_chunk::<8>().and_then(|(version, rest)| {
        let (checksum, kind) = rest.split_first_chunk::<16>()?;
        (kind == [0]).then_some((u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
    });
    let Some((version, checksum)) = parts else {
        return Ok(Some("its file `current` cannot be read".to_owned()));
    };
    match fs::read(keyspace.join(format!("v{version}"))) {
        Ok(list) if xxh3_128(&list) == checksum => {}
        Ok(_) => return Ok(Some(format!("its list of tables, `v{version}`, has another checksum"))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Some(format!("its list of tables, `v{version}`, is missing")));
        }
        Err(error) => return Err(error),
    }
    match fs::read_dir(keyspace.join("tables")) {
        Ok(tables) => {
            for table in tables {
                let table = table?;
                let is_table = table.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
                if !is_table || !table.file_type()?.is_file() {
                    return Ok(Some("one of its tables is not a table".to_owned()));
                }
                if !has_table_of_contents(&table.path())? {
                    let name = table.file_name();
                    let name = name.to_string_lossy();
                    return Ok(Some(format!("the table of contents of its table `{name}` is damaged")));
                }
            }
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The end of a table file: `SFA!`, version, kind of checksum, checksum and place of the table of contents, and its length.
const TRAILER_BYTES: u64 = 4 + 1 + 1 + 16 + 8 + 8;
/// A table of contents has about ten entries of some 30 bytes.
const CONTENTS_BYTES_MAX: u64 = 1 << 20;

/// Returns true if the table of contents of a table file has its checksum. The library allocates memory for as many entries as
/// it claims to have before it compares the checksum (sfa 1.0), so a flipped bit could abort the process.
fn has_table_of_contents(table: &Path) -> io::Result<bool> {
    let mut file = fs::File::open(table)?;
    let Some(end) = file.metadata()?.len().checked_sub(TRAILER_BYTES) else { return Ok(false) };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut trailer)?;
    let Some((checksum, rest)) = trailer[6..].split_first_chunk::<16>() else { return Ok(false) };
    let Some((place, _)) = rest.split_first_chunk::<8>() else { return Ok(false) };
    let place = u64::from_le_bytes(*place);
    let Some(bytes) = end.checked_sub(place).filter(|bytes| *bytes <= CONTENTS_BYTES_MAX) else {
        return Ok(false);
    };
    let mut contents = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(place))?;
    file.read_exact(&mut contents)?;
    Ok(xxh3_128(&contents) == u128::from_le_bytes(*checksum))
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the library panicked").to_owned()
}

/// A view that the store lacks, or has at another position than it must.
fn lacks(opened: &Opened, id: u32, marked: Option<&ViewEntry>) -> fjall::Result<Option<String>> {
    let noted = opened.positions.get(id.to_be_bytes())?.and_then(|bytes| decode_checkpoint(&bytes));
    let own = match opened.views.get(&id) {
        Some(rows) => rows.get(OWN_POSITION)?,
        None if noted.is_some() => return Ok(Some("its keyspace is missing".to_owned())),
        None => None,
    };
    let own = own.map(|bytes| own_position_in(&bytes));
    if let Some((position, true)) = own {
        let of_log = opened.logs.get(&id).map(|log| log.get(OWN_POSITION)).transpose()?.flatten();
        if of_log.map(|bytes| own_position_in(&bytes)) != Some((position, true)) {
            return Ok(Some("the log of its changes is missing, or of another commit".to_owned()));
        }
    }
    let (own, position) = (own.map(|(position, _)| position), noted.map(|(position, _)| position));
    Ok(match marked {
        // A commit that was not marked any more.
        Some(marked) if position.is_none_or(|position| position < marked.position) && !marked.is_lost => {
            let position = position.map_or("nowhere".to_owned(), |position| format!("at {position}"));
            Some(format!("it is {position}, and must be at {}", marked.position))
        }
        // Stores of older versions have no positions in their keyspaces.
        _ if own != position && (own.is_some() || marked.is_some()) => {
            Some("its keyspace and the list of positions are of different commits".to_owned())
        }
        _ => None,
    })
}

impl ViewStore {
    /// Opens the files, as they are or repaired; returns the content that the store must have from now on.
    pub(crate) fn open_or_repair(&self) -> Result<(Opened, StoreManifest), ViewStoreError> {
        let (path, repaired) = (&self.path, beside(&self.path, ".repaired"));
        if repaired.join(DONE).exists() {
            // A repair that was cut off had done all but this.
            self.swap(&repaired).map_err(|error| self.io_error(&error))?;
        }
        let mark = match StoreManifest::read(path) {
            Ok(mark) => mark,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                tracing::warn!(path = %path.display(), "the record of the views' positions is damaged; the positions \
                     in the store are used");
                None
            }
            Err(error) => return Err(self.io_error(&error)),
        };
        let must = mark.clone().unwrap_or_default();
        let found = match path.exists() {
            true => faults_of(path).map_err(|error| self.io_error(&error))?,
            false => Vec::new(),
        };
        let has_files = path.join("keyspaces").exists();
        let lacks_version =
            has_files && fs::read(path.join(VERSION_FILE.0)).ok().as_deref() != Some(VERSION_FILE.1);
        let mut why = found.iter().map(|(file, why)| format!("{}: {why}", file.display())).next();
        if lacks_version {
            why = why.or_else(|| Some("its file `version` is missing, or has other bytes".to_owned()));
        }
        if must.is_damaged {
            why = why.or_else(|| Some("a read found damage".to_owned()));
        }
        if why.is_none() {
            match self.open_caught() {
                Ok(opened) => match self.first_lack(&opened, &must)? {
                    None => {
                        let mut mark = must;
                        if mark.views.is_empty() {
                            mark = self.marked_now(&opened)?;
                        }
                        return Ok((opened, mark));
                    }
                    Some(lack) => why = Some(lack),
                },
                Err(OpenError::Library(error)) if !is_damage(&error) => return Err(self.error(&error)),
                Err(error) => why = Some(error.to_string()),
            }
        }
        let why = why.unwrap_or_default();
        tracing::error!(path = %path.display(), why, "the files of the views are damaged; their readable parts are \
             copied into a new store");
        self.repair(found, must)
    }

    fn io_error(&self, error: &io::Error) -> ViewStoreError {
        ViewStoreError::Store { path: self.path.clone(), what: error.to_string() }
    }

    fn open_caught(&self) -> Result<Opened, OpenError> {
        let opened = catch_unwind(AssertUnwindSafe(|| self.open_files_of(&self.path)));
        match opened {
            Ok(opened) => opened.map_err(OpenError::Library),
            Err(panic) => Err(OpenError::Panic(panic_message(&*panic))),
        }
    }

    /// The first view that the store lacks, and why.
    fn first_lack(&self, opened: &Opened, must: &StoreManifest) -> Result<Option<String>, ViewStoreError> {
        for id in ids_of(opened, must) {
            match lacks(opened, id, must.views.get(&id)) {
                Ok(None) => {}
                Ok(Some(why)) => return Ok(Some(format!("view number {id}: {why}"))),
                Err(error) if is_damage(&error) => return Ok(Some(error.to_string())),
                Err(error) => return Err(self.error(&error)),
            }
        }
        Ok(None)
    }

    /// The manifest entries for the content of a store that were not recorded before.
    fn marked_now(&self, opened: &Opened) -> Result<StoreManifest, ViewStoreError> {
        let mut mark = StoreManifest::default();
        for (&id, rows) in &opened.views {
            let own = rows.get(OWN_POSITION).map_err(|error| self.error(&error))?;
            let position = own.map(|bytes| own_position_in(&bytes).0);
            mark.views.extend(position.map(|position| (id, ViewEntry { position, is_lost: false })));
        }
        Ok(mark)
    }

    /// Makes a new store of what can be read.
    fn repair(
        &self,
        found: Vec<(PathBuf, String)>,
        must: StoreManifest,
    ) -> Result<(Opened, StoreManifest), ViewStoreError> {
        let (path, repaired, damaged) =
            (&self.path, beside(&self.path, ".repaired"), beside(&self.path, ".damaged"));
        let io = |error: io::Error| self.io_error(&error);
        remove(&repaired).map_err(io)?;
        remove(&damaged).map_err(io)?;
        fs::create_dir_all(path).map_err(io)?;
        fs::create_dir_all(&damaged).map_err(io)?;
        for (file, _) in found {
            quarantine_file(&file, &damaged).map_err(io)?;
        }
        let old = self.open_what_can_be(&damaged)?;
        let into = ViewStore::unopened(&repaired, &self.options);
        let new = into.open_files_of(&repaired).map_err(|error| into.error(&error))?;
        let mut mark = StoreManifest::default();
        if let Some(old) = old {
            for id in ids_of(&old, &must) {
                let marked = must.views.get(&id).copied();
                let why = match lacks(&old, id, marked.as_ref()) {
                    Ok(None) => match copy(&old, &new, id) {
                        Ok(Some(position)) => {
                            let is_lost = marked.is_some_and(|marked| marked.is_lost);
                            mark.views.insert(id, ViewEntry { position, is_lost });
                            continue;
                        }
                        Ok(None) if marked.is_none() => continue,
                        Ok(None) => "its state is missing".to_owned(),
                        Err(CopyError::Read(why)) => why,
                        Err(CopyError::Write(error)) => return Err(into.error(&error)),
                    },
                    Ok(Some(why)) => why,
                    Err(error) => error.to_string(),
                };
                tracing::error!(view = id, why, "the state of a view is damaged");
                mark.views.insert(
                    id,
                    ViewEntry { position: marked.map_or(0, |marked| marked.position), is_lost: true },
                );
            }
        } else {
            let lost = must.views.iter().map(|(&id, marked)| (id, ViewEntry { is_lost: true, ..*marked }));
            mark.views.extend(lost);
        }
        new.db.persist(PersistMode::SyncAll).map_err(|error| into.error(&error))?;
        drop(new);
        fs::write(repaired.join(DONE), []).map_err(io)?;
        // Before the new store has its name: it has less than the old mark says.
        mark.write(path).map_err(io)?;
        self.swap(&repaired).map_err(io)?;
        let opened = self.open_files_of(path).map_err(|error| self.error(&error))?;
        Ok((opened, mark))
    }

    /// Renames a repaired store to the name of the damaged one.
    fn swap(&self, repaired: &Path) -> io::Result<()> {
        let damaged = beside(&self.path, ".damaged");
        if self.path.exists() {
            for entry in fs::read_dir(&self.path)?.collect::<io::Result<Vec<_>>>()? {
                quarantine_file(&entry.path(), &damaged)?;
            }
            fs::remove_dir(&self.path)?;
        }
        fs::rename(repaired, &self.path)?;
        fs::remove_file(self.path.join(DONE))?;
        match self.path.parent() {
            Some(parent) => fs::File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Opens as much of the damaged files as can be; none of them where that is nothing.
    fn open_what_can_be(&self, damaged: &Path) -> Result<Option<Opened>, ViewStoreError> {
        let io = |error: io::Error| self.io_error(&error);
        if !self.path.join("keyspaces/0").exists() {
            // Without their names keyspaces are of no use, and the library would delete them.
            return Ok(None);
        }
        fs::write(self.path.join(VERSION_FILE.0), VERSION_FILE.1).map_err(io)?;
        let is_open = |opened: Result<Opened, OpenError>| match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(OpenError::Library(error)) if !is_damage(&error) => Err(self.error(&error)),
            Err(_) => Ok(None),
        };
        if let Some(opened) = is_open(self.open_caught())? {
            return Ok(Some(opened));
        }
        let mut keyspaces: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(self.path.join("keyspaces")).map_err(io)? {
            keyspaces.push(entry.map_err(io)?.path());
        }
        // The list of names is needed.
        keyspaces.retain(|keyspace| !keyspace.ends_with("0"));
        keyspaces.sort();
        for keyspace in &keyspaces {
            quarantine_file(keyspace, damaged).map_err(io)?;
            if let Some(opened) = is_open(self.open_caught())? {
                return Ok(Some(opened));
            }
            let name = keyspace.file_name().unwrap_or_default();
            fs::rename(damaged.join(name), keyspace).map_err(io)?;
        }
        for entry in fs::read_dir(&self.path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            if file.extension().is_some_and(|extension| extension == "jnl") {
                quarantine_file(&file, damaged).map_err(io)?;
            }
        }
        is_open(self.open_caught())
    }
}

/// The file by which a repaired store is known to be whole.
const DONE: &str = "repaired";

/// The reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("{0}")]
    Library(fjall::Error),
    #[error("the library panicked: {0}")]
    Panic(String),
}

enum CopyError {
    Read(String),
    Write(fjall::Error),
}

/// All views that are there, or must be.
fn ids_of(opened: &Opened, must: &StoreManifest) -> Vec<u32> {
    let mut ids: Vec<u32> = opened.views.keys().chain(must.views.keys()).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Copies what is kept of a view, its log and its position; none where it has no position.
fn copy(old: &Opened, new: &Opened, id: u32) -> Result<Option<u64>, CopyError> {
    let read = |error: fjall::Error| CopyError::Read(error.to_string());
    let noted = old.positions.get(id.to_be_bytes()).map_err(read)?;
    let Some((noted, (position, _))) =
        noted.and_then(|bytes| Some((bytes.clone(), decode_checkpoint(&bytes)?)))
    else {
        return Ok(None);
    };
    let name = |log: bool| if log { name_of_log(id) } else { name_of(id) };
    for (keyspace, is_log) in [(old.views.get(&id), false), (old.logs.get(&id), true)] {
        let Some(from) = keyspace else { continue };
        let copied = catch_unwind(AssertUnwindSafe(|| copy_rows(old, from, new, &name(is_log))));
        copied.unwrap_or_else(|panic| Err(CopyError::Read(panic_message(&*panic)))).inspect_err(|_| {
            for log in [false, true] {
                if let Ok(copied) = new.db.keyspace(&name(log), of_view) {
                    let _ = new.db.delete_keyspace(copied);
                }
            }
        })?;
    }
    let mut batch = new.db.batch().durability(Some(PersistMode::SyncData));
    batch.insert(&new.positions, id.to_be_bytes(), noted);
    batch.commit().map_err(CopyError::Write)?;
    Ok(Some(position))
}

fn copy_rows(old: &Opened, from: &Keyspace, new: &Opened, name: &str) -> Result<(), CopyError> {
    let to = new.db.keyspace(name, of_view).map_err(CopyError::Write)?;
    let mut ingestion = to.start_ingestion().map_err(CopyError::Write)?;
    for pair in old.db.snapshot().iter(from) {
        let (key, state) = pair.into_inner().map_err(|error| CopyError::Read(error.to_string()))?;
        ingestion.write(key, state).map_err(CopyError::Write)?;
    }
    ingestion.finish().map_err(CopyError::Write)
}

fn quarantine_file(file: &Path, damaged: &Path) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    match fs::rename(file, damaged.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The keyspace of the positions of a store.
pub(crate) fn positions_of(db: &fjall::Database) -> fjall::Result<Keyspace> {
    db.keyspace(POSITIONS, KeyspaceCreateOptions::default)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ops::Bound};

    use super::*;
    use crate::{Commit, LogSnapshot, ViewStoreOptions};

    const OPTIONS: ViewStoreOptions = ViewStoreOptions { cache_bytes: 1 << 20 };
    const EVERYTHING: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);
    const VIEWS: [u32; 3] = [2, 3, 11];

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
    /// The checkpoint of a view, its rows and its log.
    type ViewContents = (Option<(u64, Vec<u8>)>, Pairs, Pairs);

    fn contents_of(store: &ViewStore, view: u32) -> Result<ViewContents, ViewStoreError> {
        let rows = store.snapshot(view)?.range(EVERYTHING).collect::<Result<_, _>>()?;
        let log = store.log(view)?.range(EVERYTHING).collect::<Result<_, _>>()?;
        Ok((store.checkpoint(view)?, rows, log))
    }

    fn commit(store: &ViewStore, round: u64) {
        for view in VIEWS {
            let rows: Vec<([u8; 8], Vec<u8>)> =
                (0..40).map(|key: u64| (key.to_be_bytes(), vec![view as u8 ^ round as u8; 30])).collect();
            let changes = rows.iter().map(|(key, state)| (&key[..], Some(&state[..])));
            let log = (view == 3).then_some(LogSnapshot { done: &[], over: 0, without: &[] });
            let position = round * 40 + u64::from(view);
            store.commit_all(&[Commit { view, changes, position, note: b"n", below: None, log }]).unwrap();
        }
    }

    /// A store of three views, of which a part is in sorted files and a part in journals.
    fn create_store(path: &Path) -> BTreeMap<u32, ViewContents> {
        let store = ViewStore::open(path, OPTIONS).unwrap();
        for round in 0..3 {
            commit(&store, round);
            let flushed = store.with(|opened| {
                let keyspaces = opened.views.values().chain(opened.logs.values());
                // The positions are in the journal alone for one round.
                let positions = (round != 1).then_some(&opened.positions);
                keyspaces.chain(positions).try_for_each(Keyspace::rotate_memtable_and_wait)
            });
            flushed.unwrap();
        }
        commit(&store, 3);
        VIEWS.map(|view| (view, contents_of(&store, view).unwrap())).into()
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all.extend(files(&path));
            } else {
                all.push(path);
            }
        }
        all.sort();
        all
    }

    fn copy_all(from: &Path, to: &Path) {
        for file in files(from) {
            let to = to.join(file.strip_prefix(from).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(file, to).unwrap();
        }
    }

    /// Each view is what it was, or is said to be lost; where a read fails, so after the next opening.
    fn check(path: &Path, whole: &BTreeMap<u32, ViewContents>, what: &str) -> usize {
        let mut lost = 0;
        for opening in 0..3 {
            let store = ViewStore::open(path, OPTIONS).unwrap_or_else(|error| panic!("{what}: {error}"));
            lost = 0;
            let mut failed = false;
            for (&view, whole) in whole {
                match contents_of(&store, view) {
                    _ if store.is_lost(view) => lost += 1,
                    Ok(kept) => assert_eq!(&kept, whole, "{what}, view {view}, opening {opening}"),
                    Err(ViewStoreError::Damaged { .. }) if opening == 0 => failed = true,
                    Err(error) => panic!("{what}, view {view}, opening {opening}: {error}"),
                }
            }
            if !failed {
                for view in store.lost() {
                    let changes = [(&b"k"[..], Some(&b"anew"[..]))].into_iter();
                    store.commit(view, changes, 1).unwrap();
                    assert_eq!(
                        contents_of(&store, view).unwrap().1.len(),
                        1,
                        "{what}: nothing is left of what was"
                    );
                    store.delete(view).unwrap();
                }
                break;
            }
        }
        lost
    }

    /// Bits of one file that are flipped in a long run.
    const FLIPS_MAX: usize = 50;

    #[test]
    fn whatever_file_is_damaged_each_view_is_whole_or_said_to_be_lost_and_the_store_opens() {
        // Many stores are opened: in memory, where that can be, as nothing here is of what a disk does.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let made = dir.path().join("made");
        let whole = create_store(&made.join("views"));
        let all = files(&made);
        assert!(all.len() > 15, "{all:?}");
        let cases_max = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(0);
        // Seeded: what fails here fails again.
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below.max(1) as u64) as usize
        };
        let (mut lost, mut cases) = (0, 0);
        for file in &all {
            let name = file.strip_prefix(&made).unwrap();
            let bytes = fs::read(file).unwrap();
            let whole_ways: [(&str, Option<Vec<u8>>); 4] = [
                ("gone", None),
                ("empty", Some(Vec::new())),
                ("cut in half", Some(bytes[..bytes.len() / 2].to_vec())),
                ("zeros", Some(vec![0; bytes.len()])),
            ];
            // Each file in one of these ways and one bit of it, or in all and up to FLIPS_MAX bits, each in a copy of its own:
            // a journal has 64 MiB.
            let ways = if cases_max == 0 { vec![random(4)] } else { (0..4).collect() };
            let ways = ways.into_iter().map(|way| {
                let (how, damaged) = &whole_ways[way];
                ((*how).to_owned(), damaged.clone())
            });
            let flips: Vec<(usize, usize)> = (0..cases_max.clamp(1, FLIPS_MAX).min(8 * bytes.len()))
                .map(|_| (random(bytes.len()), random(8)))
                .collect();
            let flips = flips.into_iter().map(|(place, bit)| {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << bit;
                (format!("bit {bit} of byte {place}"), Some(flipped))
            });
            for (how, damaged) in ways.chain(flips) {
                let case = dir.path().join(format!("case-{cases}"));
                cases += 1;
                copy_all(&made, &case);
                match &damaged {
                    Some(bytes) => fs::write(case.join(name), bytes).unwrap(),
                    None => {
                        fs::rename(case.join(name), case.join(format!("{}.old", name.display()))).unwrap()
                    }
                }
                lost += check(&case.join("views"), &whole, &format!("{}: {how}", name.display()));
                fs::remove_dir_all(case).unwrap();
            }
        }
        assert!(lost > 0 && lost < cases * VIEWS.len(), "{lost} of {cases}");
    }

    #[test]
    fn a_store_that_is_gone_has_lost_all_its_views() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("views");
        create_store(&path);
        fs::remove_dir_all(&path).unwrap();
        let store = ViewStore::open(&path, OPTIONS).unwrap();
        assert_eq!(store.lost(), VIEWS);
        commit(&store, 0);
        assert_eq!(store.lost(), VIEWS, "their owner says when they are whole");
        store.record_rebuilt(3);
        drop(store);
        assert_eq!(ViewStore::open(&path, OPTIONS).unwrap().lost(), [2, 11]);
    }

    #[test]
    fn a_store_that_somebody_else_has_open_is_not_taken_for_a_damaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("views");
        create_store(&path);
        let store = ViewStore::open(&path, OPTIONS).unwrap();
        assert!(matches!(ViewStore::open(&path, OPTIONS), Err(ViewStoreError::Store { .. })));
        drop(store);
        assert!(ViewStore::open(&path, OPTIONS).unwrap().lost().is_empty());
    }

    #[test]
    fn table_of_contents_that_claims_too_many_entries_is_found_before_memory_is_allocated_for_them() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("made");
        let whole = create_store(&made.join("views"));
        let of_keyspaces = files(&made.join("views/keyspaces"));
        let tables: Vec<PathBuf> =
            of_keyspaces.into_iter().filter(|file| file.parent().unwrap().ends_with("tables")).collect();
        assert!(tables.len() >= 3, "{tables:?}");
        for (number, table) in tables.iter().enumerate() {
            assert!(has_table_of_contents(table).unwrap());
            let path = dir.path().join(number.to_string());
            copy_all(&made, &path);
            let damaged = path.join(table.strip_prefix(&made).unwrap());
            let mut bytes = fs::read(&damaged).unwrap();
            let place = bytes.windows(4).rposition(|bytes| bytes == b"TOC!").unwrap();
            bytes[place + 7] = 0xff;
            fs::write(&damaged, bytes).unwrap();
            assert!(!has_table_of_contents(&damaged).unwrap());
            check(&path.join("views"), &whole, &damaged.display().to_string());
        }
    }
}
