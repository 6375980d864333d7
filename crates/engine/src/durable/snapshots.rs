//! Reads and writes the files of the catalog's snapshots.
//!
//! `catalog-N.json` with the highest N is the valid one. A new snapshot is written completely and synced under another name
//! before it gets its own. Older snapshots are deleted only afterwards. So one complete snapshot always exists.

use std::{
    io::{self, IoSlice},
    sync::Arc,
};

use swiftwater_catalog::Snapshot;
use swiftwater_log::Disk;

use crate::HistoryError;

/// The disk of the snapshots.
pub(crate) struct Snapshots {
    disk: Arc<dyn Disk>,
    number: u64,
}

const UNFINISHED: &str = "catalog.new";

impl Snapshots {
    /// Reads the newest snapshot, if there is one.
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<(Snapshots, Option<Snapshot>), HistoryError> {
        let newest = numbers(&*disk).map_err(HistoryError::Snapshot)?.into_iter().max();
        let snapshot = match newest {
            None => None,
            Some(number) => {
                let bytes = read(&*disk, &name(number)).map_err(HistoryError::Snapshot)?;
                Some(Snapshot::from_bytes(&bytes)?)
            }
        };
        Ok((Snapshots { disk, number: newest.unwrap_or(0) }, snapshot))
    }

    /// Replaces the last snapshot by a new one.
    pub(crate) fn write(&mut self, snapshot: &Snapshot) -> Result<(), HistoryError> {
        self.replace(&snapshot.to_bytes()).map_err(HistoryError::Snapshot)
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let disk = &*self.disk;
        if disk.names()?.iter().any(|name| **name == *UNFINISHED) {
            disk.remove(UNFINISHED)?;
        }
        let file = disk.create(UNFINISHED, bytes.len() as u64)?;
        file.write_all_at(&mut [IoSlice::new(bytes)], 0)?;
        file.sync()?;
        let number = self.number + 1;
        disk.rename(UNFINISHED, &name(number))?;
        disk.sync_names()?;
        self.number = number;
        for old in numbers(disk)?.into_iter().filter(|old| *old < number) {
            disk.remove(&name(old))?;
        }
        Ok(())
    }
}

fn name(number: u64) -> String {
    format!("catalog-{number}.json")
}

fn numbers(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let number = |name: &str| name.strip_prefix("catalog-")?.strip_suffix(".json")?.parse().ok();
    Ok(disk.names()?.iter().filter_map(|name| number(name)).collect())
}

fn read(disk: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.open(name)?;
    let mut bytes = vec![0; file.bytes()? as usize];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], read as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    Ok(bytes)
}
