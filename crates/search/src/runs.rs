//! Sorted runs: the terms of some rows, in the order of their keys, written to scratch files.
//!
//! ```text
//! head: length of the key (4), rows (4), count in the last row (4), length of the list (4), key
//! ```
//!
//! The heads are in one spool and the lists in another, so the next key of a run is known before the list of its last one is
//! read. A run of later rows is behind that of earlier rows; a term in several of them has a head for each, in this order.
//! [`RUNS_MAX`] runs of one level are merged into one of the next, so a few per level are read at the end. An external merge
//! sort; Knuth, volume 3, 5.4.

use std::io::{self, Read, Write};

use crate::scratch::{BuildLimits, Spool, SpoolReader};

/// Runs of one level.
const RUNS_MAX: usize = 16;
const HEAD_BYTES: usize = 16;

/// The rows of a term in one run, without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTerm {
    pub(crate) rows: u32,
    /// The occurrences in the last of the rows.
    pub(crate) count: u32,
    /// Bytes of the list.
    pub(crate) bytes: u32,
}

/// The terms of some rows.
#[derive(Debug)]
pub(crate) struct Run {
    heads: Spool,
    lists: Spool,
}

impl Run {
    pub(crate) fn new(limits: &BuildLimits) -> Run {
        Run { heads: Spool::new(Some(limits)), lists: Spool::new(Some(limits)) }
    }

    /// Appends a term, whose key is not before that of the last one.
    pub(crate) fn push(&mut self, key: &[u8], term: RunTerm, list: &[u8]) -> io::Result<()> {
        self.push_head(key, term)?;
        self.lists.write_all(list)
    }

    /// Ends the run: from now on it has no memory.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.heads.leave_memory()?;
        self.lists.leave_memory()
    }

    fn push_head(&mut self, key: &[u8], term: RunTerm) -> io::Result<()> {
        let numbers = [key.len() as u32, term.rows, term.count, term.bytes];
        let mut head = [0; HEAD_BYTES];
        for (number, place) in numbers.iter().zip(head.chunks_exact_mut(4)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        self.heads.write_all(&head)?;
        self.heads.write_all(key)
    }
}

/// The runs of all rows so far.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Those of lower levels are of later rows.
    levels: Vec<Vec<Run>>,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Adds the run of the next rows.
    pub(crate) fn push(&mut self, mut run: Run, limits: &BuildLimits) -> io::Result<()> {
        run.close()?;
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(run);
            if self.levels[level].len() < RUNS_MAX {
                break;
            }
            run = merge_runs(&std::mem::take(&mut self.levels[level]), limits)?;
        }
        Ok(())
    }

    /// All runs, in the order of their rows.
    pub(crate) fn into_runs(self) -> Vec<Run> {
        self.levels.into_iter().rev().flatten().collect()
    }
}

/// The run of the rows of some runs, one behind the other.
fn merge_runs(runs: &[Run], limits: &BuildLimits) -> io::Result<Run> {
    let mut merged = Run::new(limits);
    let mut reader = RunsReader::new(runs)?;
    let (mut key, mut list) = (Vec::new(), Vec::new());
    while reader.next_term(&mut key)? {
        for at in 0..reader.found.len() {
            let (_, term) = reader.found[at];
            reader.read_list(at, &mut list)?;
            merged.push(&key, term, &list)?;
        }
    }
    merged.close()?;
    Ok(merged)
}

/// Reads the terms of runs in the order of their keys.
pub(crate) struct RunsReader<'r> {
    runs: Vec<RunReader<'r>>,
    /// The run and the rows of each list of the term, in the order of rows.
    found: Vec<(usize, RunTerm)>,
}

struct RunReader<'r> {
    heads: SpoolReader<'r>,
    lists: SpoolReader<'r>,
    key: Vec<u8>,
    /// None behind the last one.
    next: Option<RunTerm>,
}

impl RunReader<'_> {
    fn advance(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES];
        // A run ends between two heads.
        if self.heads.read(&mut head[..1])? == 0 {
            self.next = None;
            return Ok(());
        }
        self.heads.read_exact(&mut head[1..])?;
        let mut numbers = [0; 4];
        for (number, bytes) in numbers.iter_mut().zip(head.as_chunks::<4>().0) {
            *number = u32::from_le_bytes(*bytes);
        }
        let [key_bytes, rows, count, bytes] = numbers;
        self.key.resize(key_bytes as usize, 0);
        self.heads.read_exact(&mut self.key)?;
        self.next = Some(RunTerm { rows, count, bytes });
        Ok(())
    }
}

impl<'r> RunsReader<'r> {
    pub(crate) fn new(runs: &'r [Run]) -> io::Result<RunsReader<'r>> {
        let mut readers = Vec::with_capacity(runs.len());
        for run in runs {
            let (heads, lists) = (run.heads.reader(), run.lists.reader());
            let mut reader = RunReader { heads, lists, key: Vec::new(), next: None };
            reader.advance()?;
            readers.push(reader);
        }
        Ok(RunsReader { runs: readers, found: Vec::new() })
    }

    /// The next key, if it begins with a prefix.
    pub(crate) fn next_key(&self, prefix: &[u8]) -> Option<&[u8]> {
        let keys = self.runs.iter().filter(|run| run.next.is_some()).map(|run| run.key.as_slice());
        keys.min().filter(|key| key.starts_with(prefix))
    }

    /// Moves to the next term, and writes its key; false behind the last one. All lists of a term are read before this is
    /// called again.
    pub(crate) fn next_term(&mut self, key: &mut Vec<u8>) -> io::Result<bool> {
        self.found.clear();
        let Some(least) = self.next_key(&[]) else { return Ok(false) };
        key.clear();
        key.extend_from_slice(least);
        for (number, run) in self.runs.iter_mut().enumerate() {
            while let Some(term) = run.next.filter(|_| run.key == *key) {
                self.found.push((number, term));
                run.advance()?;
            }
        }
        Ok(true)
    }

    /// The number of lists of the term.
    pub(crate) fn lists(&self) -> usize {
        self.found.len()
    }

    /// Reads the next list of the term, by its number.
    pub(crate) fn read_list(&mut self, number: usize, list: &mut Vec<u8>) -> io::Result<RunTerm> {
        let (run, term) = self.found[number];
        list.resize(term.bytes as usize, 0);
        self.runs[run].lists.read_exact(list)?;
        Ok(term)
    }
}
