//! Dumps the whole contents of a view store at one instant to bytes, and loads another store from them.
//!
//! ```text
//! dump     := "swiftwater views" version keyspace* 00        version := 01
//! keyspace := 01 name pair* 00
//! pair     := 01 key state
//! name, key, state := length (4 bytes, big endian) byte*
//! ```
//!
//! Keyspaces are those of the files by name, keys those of the files in their order, each once. Input that breaks off, or
//! continues after its end, is not a dump. The caller verifies that no bit has changed. One pair is in memory at a time,
//! however large the dump.

use std::{
    collections::HashSet,
    fs,
    io::{self, BufReader, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use crate::{POSITIONS, ViewStore, ViewStoreError, ViewStoreOptions, name_of, name_of_log, of_view};

/// The way a dump begins, the version last.
const HEAD: &[u8] = b"swiftwater views\x01";

const MORE: u8 = 1;
const END: u8 = 0;

/// Bytes of files in memory while a store is made, which reads none.
const CACHE_BYTES: u64 = 1 << 20;

/// The reason why a store cannot be dumped, or loaded from a dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ViewStoreError),
    /// The bytes cannot be read, or written.
    #[error("the state of views cannot be copied")]
    Io(#[from] io::Error),
    /// They are not what a store was written down as.
    #[error("this is not a copy of views: {0}")]
    Damaged(&'static str),
    /// The store was closed, or is opened anew.
    #[error("the files of the views were closed during the copy")]
    Closed,
}

/// All that a store keeps, as it was at one instant.
pub struct StoreSnapshot {
    snapshot: Snapshot,
    keyspaces: Vec<Keyspace>,
    is_closed: Arc<AtomicBool>,
    path: PathBuf,
}

impl StoreSnapshot {
    /// Writes the dump. A snapshot holds the files, so this ends early if the store releases them.
    pub fn write(&self, to: &mut impl Write) -> Result<(), DumpError> {
        to.write_all(HEAD)?;
        for keyspace in &self.keyspaces {
            to.write_all(&[MORE])?;
            push(to, keyspace.name().as_bytes())?;
            for pair in self.snapshot.iter(keyspace) {
                if self.is_closed.load(Ordering::Relaxed) {
                    return Err(DumpError::Closed);
                }
                let (key, state) = pair.into_inner().map_err(|error| failed(&self.path, &error))?;
                to.write_all(&[MORE])?;
                push(to, &key)?;
                push(to, &state)?;
            }
            to.write_all(&[END])?;
        }
        Ok(to.write_all(&[END])?)
    }
}

impl ViewStore {
    /// All that is kept, as it is.
    pub fn snapshot_all(&self) -> Result<StoreSnapshot, ViewStoreError> {
        self.with(|opened| {
            let kept = opened.views.values().chain(opened.logs.values());
            let mut keyspaces: Vec<Keyspace> = kept.chain([&opened.positions]).cloned().collect();
            keyspaces.sort_unstable_by(|a, b| a.name().cmp(b.name()));
            let (snapshot, is_closed) = (opened.db.snapshot(), Arc::clone(&opened.is_closed));
            Ok(StoreSnapshot { snapshot, keyspaces, is_closed, path: self.path.clone() })
        })
    }

    /// Makes a store from the dump of another one, durable when this returns, in a new directory. If it fails, the
    /// directory is of no use.
    pub fn load(path: &Path, from: impl Read) -> Result<(), DumpError> {
        let mut from = BufReader::new(from);
        let mut head = [0; HEAD.len()];
        from.read_exact(&mut head).map_err(broken_off)?;
        if head != HEAD {
            return Err(DumpError::Damaged("it has another beginning, or another version"));
        }
        fs::create_dir(path)?;
        let store = ViewStore::open(path, ViewStoreOptions { cache_bytes: CACHE_BYTES })?;
        let mut seen = HashSet::new();
        while has_more(&mut from)? {
            let name = next(&mut from)?;
            let name = String::from_utf8(name).ok().filter(|name| is_name(name) && !seen.contains(name));
            let name = name.ok_or(DumpError::Damaged("a part has no unique name"))?;
            store.load_keyspace(&name, &mut from)?;
            seen.insert(name);
        }
        match from.read(&mut [0])? {
            0 => Ok(store.with(|opened| opened.db.persist(PersistMode::SyncAll))?),
            _ => Err(DumpError::Damaged("it continues after its end")),
        }
    }

    fn load_keyspace(&self, name: &str, from: &mut impl Read) -> Result<(), DumpError> {
        let options = if name == POSITIONS { KeyspaceCreateOptions::default } else { of_view };
        let rows = self.with(|opened| opened.db.keyspace(name, options))?;
        let fault = |error: fjall::Error| DumpError::Store(failed(&self.path, &error));
        let (mut ingestion, mut last) = (rows.start_ingestion().map_err(fault)?, Vec::new());
        while has_more(from)? {
            let (key, state) = (next(from)?, next(from)?);
            // The files take no others, and do not say so.
            if key <= last || key.len() > usize::from(u16::MAX) {
                return Err(DumpError::Damaged("a key is out of order, or too long"));
            }
            ingestion.write(&key[..], state).map_err(fault)?;
            last = key;
        }
        ingestion.finish().map_err(fault)
    }
}

fn failed(path: &Path, error: &fjall::Error) -> ViewStoreError {
    ViewStoreError::Store { path: path.into(), what: error.to_string() }
}

/// True if a store has a part of this name.
fn is_name(name: &str) -> bool {
    let id = |head: &str| name.strip_prefix(head)?.parse().ok();
    let is_of = |head: &str, name_of: fn(u32) -> String| id(head).is_some_and(|id| name == name_of(id));
    name == POSITIONS || is_of("view-", name_of) || is_of("changes-", name_of_log)
}

fn push(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| ErrorKind::FileTooLarge)?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(bytes)
}

fn broken_off(error: io::Error) -> DumpError {
    match error.kind() {
        ErrorKind::UnexpectedEof => DumpError::Damaged("it ends early"),
        _ => error.into(),
    }
}

fn has_more(from: &mut impl Read) -> Result<bool, DumpError> {
    let mut mark = [0];
    from.read_exact(&mut mark).map_err(broken_off)?;
    match mark {
        [MORE] => Ok(true),
        [END] => Ok(false),
        _ => Err(DumpError::Damaged("a mark is invalid")),
    }
}

/// The next bytes, as many as are said to follow.
fn next(from: &mut impl Read) -> Result<Vec<u8>, DumpError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(broken_off)?;
    let (length, mut bytes) = (u32::from_be_bytes(length), Vec::new());
    // No room is made for what may not follow.
    from.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == u64::from(length) { Ok(bytes) } else { Err(DumpError::Damaged("it ends early")) }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ops::Bound};

    use proptest::prelude::*;

    use super::*;
    use crate::{Commit, LogSnapshot};

    const OPTIONS: ViewStoreOptions = ViewStoreOptions { cache_bytes: 1 << 20 };
    const VIEWS: u32 = 3;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
    /// The checkpoint of a view, its keys and its log.
    type ViewContents = (Option<(u64, Vec<u8>)>, Pairs, Pairs);

    /// All that can be read of a store, by view.
    fn all(store: &ViewStore) -> Vec<ViewContents> {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let of_view = |view| {
            let (rows, log) = (store.snapshot(view).unwrap(), store.log(view).unwrap());
            let pairs = |of: &crate::ViewSnapshot| of.range(everything).collect::<Result<_, _>>().unwrap();
            (store.checkpoint(view).unwrap(), pairs(&rows), pairs(&log))
        };
        (0..VIEWS).map(of_view).collect()
    }

    fn commit(store: &ViewStore, view: u32, position: u64, changes: &BTreeMap<Vec<u8>, Option<u8>>) {
        let changes: Vec<(&[u8], Option<[u8; 1]>)> =
            changes.iter().map(|(key, state)| (&key[..], state.map(|state| [state]))).collect();
        let changes = changes.iter().map(|(key, state)| (*key, state.as_ref().map(|state| &state[..])));
        let log = (view > 0).then_some(LogSnapshot { done: &[], over: 0, without: &[] });
        store.commit_all(&[Commit { view, changes, position, note: &[7; 3], below: None, log }]).unwrap();
    }

    fn dump(store: &ViewStore) -> Vec<u8> {
        let mut bytes = Vec::new();
        store.snapshot_all().unwrap().write(&mut bytes).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
        #[test]
        fn a_store_that_is_made_of_another_is_as_that_was(
            commits in proptest::collection::vec((0..VIEWS, proptest::collection::btree_map(
                proptest::collection::vec(any::<u8>(), 0..3), any::<Option<u8>>(), 0..9)), 0..12),
            damages in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 3),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let store = ViewStore::open(&dir.path().join("one"), OPTIONS).unwrap();
            for (position, (view, changes)) in commits.iter().enumerate() {
                commit(&store, *view, position as u64, changes);
            }
            let (then, snapshot) = (all(&store), store.snapshot_all().unwrap());
            // Later changes are not in it, and a later drop of a view does not remove it.
            commit(&store, 0, 99, &BTreeMap::from([(b"later".to_vec(), Some(1))]));
            store.delete(1).unwrap();
            let mut bytes = Vec::new();
            snapshot.write(&mut bytes).unwrap();
            let two = dir.path().join("two");
            ViewStore::load(&two, &bytes[..]).unwrap();
            let again = ViewStore::open(&two, OPTIONS).unwrap();
            prop_assert_eq!(all(&again), then);
            prop_assert_eq!(dump(&again), &bytes[..]);
            // It is a store as any other.
            commit(&again, 0, 100, &BTreeMap::from([(b"later".to_vec(), Some(2))]));
            prop_assert_eq!(again.get(0, b"later").unwrap(), Some(vec![2]));
            for (number, (at, by)) in damages.iter().enumerate() {
                let (at, to) = (at.index(bytes.len()), |name: &str| dir.path().join(format!("{name}-{number}")));
                let cut = ViewStore::load(&to("cut"), &bytes[..at]).unwrap_err();
                let broken_off = matches!(cut, DumpError::Damaged("it ends early"));
                prop_assert!(broken_off, "{} bytes: {:?}", at, cut);
                let mut damaged = bytes.clone();
                damaged[at] ^= by;
                // It may be that of other states; it is never more than an error.
                let _ = ViewStore::load(&to("damaged"), &damaged[..]);
            }
        }
    }

    #[test]
    fn what_is_no_dump_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let text = |length: u32, bytes: &[u8]| [&length.to_be_bytes(), bytes].concat();
        let (view, key) = (text(6, b"view-1"), text(1, b"b"));
        for (number, (parts, why)) in [
            (vec![&[END][..], b"x"], "it continues after its end"),
            (vec![&[MORE], &text(1 << 31, b"view-1")], "it ends early"),
            (vec![&[MORE], &text(7, b"view-01"), &[END, END]], "a part has no unique name"),
            (vec![&[MORE], &text(1, b"\xff"), &[END, END]], "a part has no unique name"),
            (vec![&[MORE], &view, &[END, MORE], &view, &[END, END]], "a part has no unique name"),
            (vec![&[7]], "a mark is invalid"),
            (vec![&[MORE], &view, &[MORE], &text(0, b""), &key], "a key is out of order, or too long"),
            (
                vec![&[MORE], &view, &[MORE], &key, &key, &[MORE], &key, &key],
                "a key is out of order, or too long",
            ),
            (
                vec![&[MORE], &view, &[MORE], &text(1 << 16, &[7; 1 << 16]), &key],
                "a key is out of order, or too long",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let bytes = [HEAD, &parts.concat()].concat();
            let refused = ViewStore::load(&dir.path().join(number.to_string()), &bytes[..]).unwrap_err();
            assert_eq!(refused.to_string(), format!("this is not a copy of views: {why}"), "{number}");
        }
        let other = b"swiftwater views\x02\0";
        let refused = ViewStore::load(&dir.path().join("other"), &other[..]).unwrap_err();
        assert!(refused.to_string().ends_with("or another version"), "{refused}");
        // An existing store is not added to.
        let refused = ViewStore::load(dir.path(), &[HEAD, &[END]].concat()[..]).unwrap_err();
        assert!(matches!(&refused, DumpError::Io(error) if error.kind() == ErrorKind::AlreadyExists));
    }

    #[test]
    fn a_store_that_is_closed_does_not_wait_for_who_writes_it_down() {
        let dir = tempfile::tempdir().unwrap();
        let store = ViewStore::open(dir.path(), OPTIONS).unwrap();
        commit(&store, 0, 1, &BTreeMap::from([(b"a".to_vec(), Some(1))]));
        let snapshot = store.snapshot_all().unwrap();
        drop(store);
        assert!(matches!(snapshot.write(&mut Vec::new()), Err(DumpError::Closed)));
    }
}
