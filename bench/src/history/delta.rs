//! Reads a Delta table's own log: commits, their times, and the files of the newest version.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Interval of the checks for the next commit.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time without a commit after which all is done.
const QUIET: Duration = Duration::from_secs(8);
/// Nobody waits longer for commits to get on.
const PATIENCE: Duration = Duration::from_secs(120);

/// A file of the newest version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataFile {
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

/// A commit of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) at: SystemTime,
    /// The offset after the last event that is in the table.
    pub(super) committed: u64,
}

/// A table, as far as its log was read.
#[derive(Debug)]
pub(super) struct Delta {
    directory: PathBuf,
    next: u64,
    pub(super) commits: Vec<Commit>,
    /// By their path below the table.
    pub(super) files: BTreeMap<String, DataFile>,
    /// Files that were merged into others so far.
    pub(super) merged: u64,
}

impl Delta {
    pub(super) fn open(directory: PathBuf) -> Delta {
        Delta { directory, next: 0, commits: Vec::new(), files: BTreeMap::new(), merged: 0 }
    }

    /// The offset after the last event that is in the table.
    pub(super) fn committed(&self) -> u64 {
        self.commits.last().map_or(0, |commit| commit.committed)
    }

    /// Reads what was committed since.
    pub(super) fn follow(&mut self) -> anyhow::Result<()> {
        loop {
            let path = self.directory.join(format!("_delta_log/{:020}.json", self.next));
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                text => text.with_context(|| format!("cannot read {}", path.display()))?,
            };
            let at = fs::metadata(&path)?.modified()?;
            self.take(&text, at).with_context(|| format!("{} is no commit", path.display()))?;
            self.next += 1;
        }
    }

    /// Waits until so many events are in the table.
    pub(super) fn wait_for(&mut self, events: u64) -> anyhow::Result<()> {
        let (mut last, mut since) = (self.committed(), Instant::now());
        loop {
            self.follow()?;
            let committed = self.committed();
            if committed >= events {
                return Ok(());
            }
            if committed > last {
                (last, since) = (committed, Instant::now());
            }
            ensure!(
                since.elapsed() < PATIENCE,
                "the table stays at {committed} of {events} events: see what the server says"
            );
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until nothing is committed any more: rows that waited for their time, files that were merged.
    pub(super) fn wait_for_commits(&mut self) -> anyhow::Result<()> {
        let (mut last, mut since, start) = (self.next, Instant::now(), Instant::now());
        while since.elapsed() < QUIET && start.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
            self.follow()?;
            if self.next > last {
                (last, since) = (self.next, Instant::now());
            }
        }
        Ok(())
    }

    fn take(&mut self, text: &str, at: SystemTime) -> anyhow::Result<()> {
        for line in text.lines() {
            let action: Value = serde_json::from_str(line)?;
            if let Some(add) = action.get("add") {
                let path = add["path"].as_str().context("a file has no path")?;
                let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap_or("{}"))?;
                let file = DataFile {
                    bytes: add["size"].as_u64().context("a file has no size")?,
                    rows: stats["numRecords"].as_u64().context("a file has no number of rows")?,
                };
                self.files.insert(path.to_owned(), file);
            }
            if let Some(remove) = action.get("remove") {
                let path = remove["path"].as_str().context("a file has no path")?;
                self.files.remove(path).context("a file that is not there is taken out")?;
                self.merged += 1;
            }
            if let Some(committed) = action.pointer("/txn/version").and_then(Value::as_u64) {
                self.commits.push(Commit { at, committed });
            }
        }
        Ok(())
    }

    /// Bytes of the files of the newest version.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    /// Rows in them.
    pub(super) fn rows(&self) -> u64 {
        self.files.values().map(|file| file.rows).sum()
    }

    /// Their paths.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.keys().map(|path| self.directory.join(path)).collect()
    }

    /// Bytes of all that is in the table's directory: earlier versions and the log too.
    pub(super) fn bytes_with_all(&self) -> anyhow::Result<u64> {
        bytes_below(&self.directory)
    }
}

fn bytes_below(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += bytes_below(&entry.path())?,
            Ok(found) => bytes += found.len(),
            // A file that was given its name, or deleted, meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_which_files_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("_delta_log");
        fs::create_dir(&log).unwrap();
        let add = |path: &str, bytes: u64, rows: u64| {
            let stats = format!("{{\\\"numRecords\\\":{rows}}}");
            format!("{{\"add\":{{\"path\":\"{path}\",\"size\":{bytes},\"stats\":\"{stats}\"}}}}\n")
        };
        let txn = |version: u64| format!("{{\"txn\":{{\"appId\":\"a\",\"version\":{version}}}}}\n");
        let commits = [
            "{\"metaData\":{}}\n".to_owned(),
            add("a", 100, 10) + &txn(10),
            add("b", 90, 9) + &txn(19),
            add("c", 150, 19) + "{\"remove\":{\"path\":\"a\"}}\n{\"remove\":{\"path\":\"b\"}}\n",
        ];
        let mut delta = Delta::open(directory.path().to_owned());
        for (version, text) in commits.iter().enumerate() {
            fs::write(log.join(format!("{version:020}.json")), text).unwrap();
            delta.follow().unwrap();
        }
        assert_eq!((delta.bytes(), delta.rows(), delta.committed(), delta.merged), (150, 19, 19, 2));
        assert_eq!(delta.commits.len(), 2);
        assert_eq!(delta.paths(), [directory.path().join("c")]);
        assert!(delta.bytes_with_all().unwrap() > 100);
        delta.wait_for(19).unwrap();
    }
}
