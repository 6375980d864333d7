//! A simulated disk in memory that distinguishes written from synced data, and on demand loses power, fails and fills up.
//!
//! After a crash, unsynced writes are lost, present, or present in part. A part extends up to a byte of one write, or
//! consists of random sectors, because caches write in any order. The same is true of names that were created, changed or
//! removed and not synced. A sync that fails loses the data that it should have made durable, and the next sync succeeds all
//! the same, as on Linux.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind, IoSlice},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use swiftwater_log::{Disk, DiskFile};

use crate::{Power, Rng, power::Current};

const SECTOR_BYTES: usize = 512;

/// The fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The power goes off: this call and all that follow fail, until [`SimDisk::restart`].
    PowerLoss,
    /// The call fails, with part of it done.
    Io,
    /// The call fails for want of room, with part of it done.
    Full,
}

/// A disk in memory. Clones are the same disk.
///
/// ```
/// use swiftwater_log::Disk;
/// use swiftwater_testkit::SimDisk;
///
/// let disk = SimDisk::new(7);
/// let file = disk.create("a", 4)?;
/// disk.sync_names()?;
/// file.write_all_at(&mut [std::io::IoSlice::new(b"both")], 0)?;
/// file.sync()?;
/// file.write_all_at(&mut [std::io::IoSlice::new(b"lost")], 0)?;
/// let mut after = [0; 4];
/// disk.only_synced().open("a")?.read_at(&mut after, 0)?;
/// assert_eq!(&after, b"both");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    /// A sync that was held may go on.
    released: Arc<Condvar>,
}

struct State {
    files: BTreeMap<u64, Content>,
    names: Names,
    synced_names: Names,
    /// The changes of names since they were synced.
    name_changes: Vec<NameChange>,
    next_file: u64,
    calls: u64,
    faults: BTreeMap<u64, Fault>,
    /// The error with which all calls fail.
    fails: Option<ErrorKind>,
    is_off: bool,
    /// Number of times that the power came back: files that were open before are closed.
    lives: u64,
    bytes_max: u64,
    holds_syncs: bool,
    /// Its power supply, and its name there.
    power: Option<(Power, &'static str)>,
    rng: Rng,
}

type Names = BTreeMap<Box<str>, u64>;

#[derive(Debug, Clone)]
enum NameChange {
    Set(Box<str>, u64),
    Removed(Box<str>),
}

fn change_names(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Set(name, file) => _ = names.insert(name.clone(), *file),
        NameChange::Removed(name) => _ = names.remove(name),
    }
}

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        // Memory that nobody writes costs nothing: files are made much longer than what is written into them.
        Change::Length(length) if bytes.is_empty() => *bytes = vec![0; *length],
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Write(at, written) => {
            let end = at + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at..end].copy_from_slice(written);
        }
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.changes.push(change);
    }

    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            apply(&mut self.synced, &change);
        }
    }

    /// Applies a loss of power: some unsynced changes remain.
    fn crash(&mut self, rng: &mut Rng) {
        let changes = std::mem::take(&mut self.changes);
        match rng.below(4) {
            0 => {}
            1 => changes.iter().for_each(|change| apply(&mut self.synced, change)),
            2 => {
                let whole = rng.below(changes.len() + 1);
                changes[..whole].iter().for_each(|change| apply(&mut self.synced, change));
                if let Some(Change::Write(at, written)) = changes.get(whole) {
                    let torn = written[..rng.below(written.len() + 1)].to_vec();
                    apply(&mut self.synced, &Change::Write(*at, torn));
                }
            }
            _ => {
                for change in &changes {
                    match change {
                        Change::Length(_) => apply(&mut self.synced, change),
                        Change::Write(at, written) => self.crash_by_sectors(*at, written, rng),
                    }
                }
            }
        }
        self.now = self.synced.clone();
    }

    fn crash_by_sectors(&mut self, at: usize, written: &[u8], rng: &mut Rng) {
        let mut from = 0;
        while from < written.len() {
            let sector_end = (at + from + 1).next_multiple_of(SECTOR_BYTES) - at;
            let to = sector_end.min(written.len());
            if rng.below(2) == 0 {
                apply(&mut self.synced, &Change::Write(at + from, written[from..to].to_vec()));
            }
            from = to;
        }
    }
}

/// The way a call goes on.
enum Outcome {
    Done,
    /// It fails, and a caller that could have done part of it has done so.
    Partly(io::Error),
}

impl State {
    /// Counts a call, and returns its outcome.
    fn call(&mut self, what: &str) -> io::Result<Outcome> {
        if self.is_off {
            return Err(io::Error::other("the power is off"));
        }
        if let Some((power, name)) = &self.power {
            match power.call(name, what) {
                Current::On => {}
                Current::GoesOff { .. } => {
                    self.is_off = true;
                    return Ok(Outcome::Partly(io::Error::other("the power went off")));
                }
                Current::Off => {
                    self.is_off = true;
                    return Err(io::Error::other("the power is off"));
                }
            }
        }
        let call = self.calls;
        self.calls += 1;
        if let Some(kind) = self.fails {
            return Ok(Outcome::Partly(kind.into()));
        }
        Ok(match self.faults.remove(&call) {
            None => Outcome::Done,
            Some(Fault::PowerLoss) => {
                self.is_off = true;
                Outcome::Partly(io::Error::other("the power went off"))
            }
            Some(Fault::Io) => Outcome::Partly(io::Error::from_raw_os_error(5)),
            Some(Fault::Full) => Outcome::Partly(ErrorKind::StorageFull.into()),
        })
    }

    /// A call that is done or not.
    fn whole_call(&mut self, what: &str) -> io::Result<()> {
        whole(self.call(what)?)
    }

    fn used_bytes(&self) -> u64 {
        let files: BTreeSet<u64> = self.names.values().copied().collect();
        files.iter().filter_map(|file| self.files.get(file)).map(|file| file.now.len() as u64).sum()
    }

    fn change_name(&mut self, change: NameChange) {
        change_names(&mut self.names, &change);
        self.name_changes.push(change);
    }

    fn file_named(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl SimDisk {
    /// An empty disk without a limit; `seed` decides what crashes leave.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk {
            state: Arc::new(Mutex::new(State {
                files: BTreeMap::new(),
                names: Names::new(),
                synced_names: Names::new(),
                name_changes: Vec::new(),
                next_file: 0,
                calls: 0,
                faults: BTreeMap::new(),
                fails: None,
                is_off: false,
                lives: 0,
                bytes_max: u64::MAX,
                holds_syncs: false,
                power: None,
                rng: Rng::new(seed),
            })),
            released: Arc::new(Condvar::new()),
        }
    }

    /// Makes a disk as [`SimDisk::new`] does, on a power supply that other devices share; its calls are counted under
    /// `name`.
    pub fn on(power: &Power, name: &'static str, seed: u64) -> SimDisk {
        let disk = SimDisk::new(seed);
        disk.state().power = Some((power.clone(), name));
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of calls there were; the first has the number 0.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Makes a call fail; others before and after are as they would be.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        self.state().faults.insert(call, fault);
    }

    /// Makes every call fail from now on, or none.
    pub fn fail_all(&self, kind: Option<ErrorKind>) {
        self.state().fails = kind;
    }

    /// The number of bytes all files together can have.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.state().bytes_max = bytes_max;
    }

    /// Blocks syncs of files until it is called with `false`: a very slow disk.
    pub fn block_syncs(&self, holds: bool) {
        self.state().holds_syncs = holds;
        self.released.notify_all();
    }

    /// True if the power went off.
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// The power comes back, if it was off or not: what was synced is there, of the rest what chance has left. Files that
    /// are open are good for nothing any more, and no fault is planned.
    pub fn restart(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let kept = state.rng.below(state.name_changes.len() + 1);
        for change in state.name_changes.drain(..).take(kept) {
            change_names(&mut state.synced_names, &change);
        }
        state.names = state.synced_names.clone();
        let named: BTreeSet<u64> = state.names.values().copied().collect();
        state.files.retain(|file, _| named.contains(file));
        for content in state.files.values_mut() {
            content.crash(&mut state.rng);
        }
        state.lives += 1;
        state.is_off = false;
        state.faults.clear();
        state.fails = None;
        state.holds_syncs = false;
        self.released.notify_all();
    }

    /// Another disk, with only the synced content of this one.
    pub fn only_synced(&self) -> SimDisk {
        let disk = SimDisk::new(0);
        {
            let state = self.state();
            let mut other = disk.state();
            other.names = state.synced_names.clone();
            other.synced_names = state.synced_names.clone();
            other.next_file = state.next_file;
            for (&file, content) in &state.files {
                let synced = content.synced.clone();
                other.files.insert(file, Content { now: synced.clone(), synced, changes: Vec::new() });
            }
        }
        disk
    }

    /// Another disk, with the content that a loss of power at this moment could leave on this one: all synced data,
    /// and a random part of the rest, the last write torn. Handles of this disk cannot reach the other.
    pub fn after_power_loss(&self, power: &Power, name: &'static str, seed: u64) -> SimDisk {
        let disk = SimDisk::on(power, name, seed);
        {
            let state = self.state();
            let mut other = disk.state();
            other.files = state.files.clone();
            other.names = state.names.clone();
            other.synced_names = state.synced_names.clone();
            other.name_changes = state.name_changes.clone();
            other.next_file = state.next_file;
            other.bytes_max = state.bytes_max;
        }
        disk.restart();
        disk
    }

    /// Changes one byte of a file, as a disk that goes bad does.
    pub fn damage(&self, name: &str, at: usize) {
        let mut state = self.state();
        let file = state.file_named(name).expect("the file is there");
        let content = state.files.get_mut(&file).expect("names lead to files");
        content.sync();
        content.now[at] ^= 0x55;
        content.synced[at] ^= 0x55;
    }
}

impl Disk for SimDisk {
    fn names(&self) -> io::Result<Vec<Box<str>>> {
        let mut state = self.state();
        state.whole_call("names")?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let outcome = state.call("create")?;
        if state.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if state.used_bytes().saturating_add(bytes) > state.bytes_max {
            return Err(ErrorKind::StorageFull.into());
        }
        let file = state.next_file;
        state.next_file += 1;
        state.change_name(NameChange::Set(name.into(), file));
        let mut content = Content::default();
        match outcome {
            Outcome::Done => {}
            Outcome::Partly(error) => {
                // The name is there, the room is not.
                state.files.insert(file, content);
                return Err(error);
            }
        }
        content.change(Change::Length(bytes as usize));
        state.files.insert(file, content);
        Ok(Box::new(SimFile { disk: self.clone(), file, life: state.lives }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.whole_call("open")?;
        let file = state.file_named(name)?;
        Ok(Box::new(SimFile { disk: self.clone(), file, life: state.lives }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call("rename")?;
        let file = state.file_named(from)?;
        state.change_name(NameChange::Removed(from.into()));
        state.change_name(NameChange::Set(to.into(), file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call("remove")?;
        state.file_named(name)?;
        state.change_name(NameChange::Removed(name.into()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        state.whole_call("sync names")?;
        state.name_changes.clear();
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.whole_call("free bytes")?;
        Ok(state.bytes_max.saturating_sub(state.used_bytes()))
    }
}

struct SimFile {
    disk: SimDisk,
    file: u64,
    life: u64,
}

impl SimFile {
    /// Makes a call on the file: whether it is done whole, and what it is done with.
    fn call<T>(
        &self,
        what: &str,
        does: impl FnOnce(&mut Content, &mut Rng, Outcome) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        if state.lives != self.life {
            return Err(io::Error::other("the power was off since this file was opened"));
        }
        let outcome = state.call(what)?;
        let State { files, rng, .. } = &mut *state;
        let content = files.get_mut(&self.file).ok_or(ErrorKind::NotFound)?;
        does(content, rng, outcome)
    }
}

fn whole(outcome: Outcome) -> io::Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Partly(error) => Err(error),
    }
}

impl DiskFile for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        self.call("length", |content, _, outcome| whole(outcome).map(|()| content.now.len() as u64))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.call("read", |content, _, outcome| {
            whole(outcome)?;
            let there = content.now.get(at as usize..).unwrap_or_default();
            let length = there.len().min(into.len());
            into[..length].copy_from_slice(&there[..length]);
            Ok(length)
        })
    }

    fn write_all_at(&self, parts: &mut [IoSlice<'_>], at: u64) -> io::Result<()> {
        self.call("write", |content, rng, outcome| {
            let mut bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            if matches!(outcome, Outcome::Partly(_)) {
                bytes.truncate(rng.below(bytes.len() + 1));
            }
            content.change(Change::Write(at as usize, bytes));
            whole(outcome)
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        while state.holds_syncs && !state.is_off {
            state = self.disk.released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.call("sync", |content, _, outcome| {
            match &outcome {
                Outcome::Done => content.sync(),
                // The pages to be written count as clean: no later sync writes them.
                Outcome::Partly(error) if error.raw_os_error().is_some() => content.changes.clear(),
                Outcome::Partly(_) => {}
            }
            whole(outcome)
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.call("truncate", |content, _, outcome| {
            whole(outcome)?;
            content.change(Change::Length(bytes as usize));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &dyn DiskFile, bytes: &[u8], at: u64) -> io::Result<()> {
        file.write_all_at(&mut [IoSlice::new(bytes)], at)
    }

    fn content(disk: &SimDisk, name: &str) -> Vec<u8> {
        let file = disk.open(name).unwrap();
        let mut bytes = vec![0; file.bytes().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    #[test]
    fn crash_keeps_what_was_synced_and_any_part_of_the_rest() {
        let mut kept = BTreeSet::new();
        for seed in 0..200 {
            let disk = SimDisk::new(seed);
            let file = disk.create("a", 2000).unwrap();
            disk.sync_names().unwrap();
            write(&*file, &[1; 2000], 0).unwrap();
            file.sync().unwrap();
            write(&*file, &[2; 1000], 500).unwrap();
            disk.restart();
            assert!(file.bytes().is_err(), "it was opened before");
            let bytes = content(&disk, "a");
            assert_eq!((&bytes[..500], &bytes[1500..]), (&[1; 500][..], &[1; 500][..]), "seed {seed}");
            kept.insert(bytes.iter().filter(|&&byte| byte == 2).count());
        }
        assert!(kept.contains(&0) && kept.contains(&1000) && kept.len() > 10, "{kept:?}");
    }

    #[test]
    fn names_are_lost_until_they_are_synced() {
        let (mut with, mut without) = (0, 0);
        for seed in 0..50 {
            let disk = SimDisk::new(seed);
            disk.create("a", 1).unwrap();
            disk.sync_names().unwrap();
            disk.rename("a", "b").unwrap();
            assert_eq!(disk.names().unwrap(), ["b".into()]);
            disk.restart();
            match disk.names().unwrap().first().map(|name| &**name) {
                Some("b") => with += 1,
                _ => without += 1,
            }
        }
        assert!(with > 0 && without > 0);
    }

    #[test]
    fn failed_sync_loses_what_it_should_have_kept() {
        let disk = SimDisk::new(1);
        let file = disk.create("a", 3).unwrap();
        disk.sync_names().unwrap();
        file.sync().unwrap();
        write(&*file, b"abc", 0).unwrap();
        disk.fail_at(disk.calls(), Fault::Io);
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(content(&disk, "a"), b"abc");
        assert_eq!(content(&disk.only_synced(), "a"), [0; 3]);
    }

    #[test]
    fn full_disk_says_so_until_there_is_room() {
        let disk = SimDisk::new(1);
        disk.set_bytes_max(100);
        disk.create("a", 60).unwrap();
        assert_eq!(disk.create("b", 60).err().unwrap().kind(), ErrorKind::StorageFull);
        assert_eq!(disk.free_bytes().unwrap(), 40);
        disk.remove("a").unwrap();
        disk.create("b", 60).unwrap();
    }

    #[test]
    fn power_goes_off_at_a_call_and_stays_off() {
        let disk = SimDisk::new(3);
        disk.fail_at(1, Fault::PowerLoss);
        disk.create("a", 1).unwrap();
        disk.sync_names().unwrap_err();
        disk.names().unwrap_err();
        assert!(disk.is_off());
        disk.restart();
        disk.names().unwrap();
    }
}
