//! One point of throughput, in a process of its own: the events come as standard input, a file that is mapped; the task
//! as JSON in the arguments; the outcome goes out as JSON.

use std::{
    fs::File,
    os::fd::AsFd,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::Context;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use swiftwater_event::first_cut;

use crate::{
    args::Tuning,
    data::{Groups, Load},
    machine, run_baseline, run_engine, run_input, run_shared,
    shared::Set,
};

/// The first argument of a child.
pub(crate) const WORD: &str = "child";
const BLOCK_BYTES: usize = 256 << 10;

/// What a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// All queries stand on a stream that the events are appended to.
    Engine,
    /// The events are parsed by `serde_json` and one field is compared.
    Baseline,
    /// The first query runs over the input.
    Input,
    /// The grouping query runs over the input.
    InputGroups,
    /// The queries of a set stand on a stream that the events are appended to.
    Shared(Set),
}

/// What a child is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// Queries that the events were made for.
    pub(crate) planted: usize,
    /// Queries that stand.
    pub(crate) standing: usize,
    pub(crate) tuning: Tuning,
}

/// What a child found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) events: u64,
    pub(crate) rejected: u64,
    /// From the first block to the last record.
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) minor_faults: u64,
    /// Seconds to let the queries stand, before.
    pub(crate) submit_seconds: f64,
    pub(crate) peak_bytes: u64,
    /// The most that was seen of memory that is no mapped file.
    pub(crate) peak_own_bytes: u64,
    /// Records of each standing query.
    pub(crate) matches: Vec<u64>,
    pub(crate) groups: Groups,
    /// Of each query that was asked for one answer: the sum of its column `n`, and its records.
    pub(crate) answers: Vec<(u64, u64)>,
    /// Memory that came with the queries and what they hold.
    pub(crate) bytes_per_query: u64,
    /// Records that were lost for a slow reader.
    pub(crate) dropped: u64,
}

impl Task {
    /// Does it in a new process.
    pub(crate) fn run(self, load: &Load) -> anyhow::Result<Outcome> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let output = Command::new(program)
            .arg(WORD)
            .arg(serde_json::to_string(&self)?)
            .stdin(load.file.try_clone()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .context("cannot run a child")?;
        anyhow::ensure!(output.status.success(), "the child for {self:?} ended with {}", output.status);
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the child for {self:?} gave no outcome"))
    }
}

/// What the child does.
pub(crate) fn run(words: &[String]) -> anyhow::Result<()> {
    let [task] = words else { anyhow::bail!("a child has one argument") };
    let task: Task = serde_json::from_str(task).context("a child's task is JSON")?;
    let file =
        File::from(std::io::stdin().as_fd().try_clone_to_owned().context("a child's input is a file")?);
    // SAFETY: the file has no name, and whoever holds it only reads it by now.
    let mapped = unsafe { memmap2::Mmap::map(&file) }.context("cannot map the events")?;
    let bytes = Bytes::from_owner(mapped);
    let mut outcome = match task.kind {
        Kind::Engine => run_engine::run(task, bytes)?,
        Kind::Baseline => run_baseline::run(task, bytes)?,
        Kind::Input => run_input::run(task, bytes)?,
        Kind::InputGroups => run_input::run_groups(task, bytes)?,
        Kind::Shared(set) => run_shared::run(task, set, bytes)?,
    };
    let memory = machine::memory("self");
    outcome.peak_bytes = memory.peak;
    outcome.peak_own_bytes = outcome.peak_own_bytes.max(memory.own);
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Time, processor time and page faults since some moment.
pub(crate) struct Since {
    wall: Instant,
    cpu_seconds: f64,
    minor_faults: u64,
}

impl Since {
    pub(crate) fn now() -> Since {
        Since {
            minor_faults: machine::minor_faults(),
            cpu_seconds: machine::cpu_seconds(),
            wall: Instant::now(),
        }
    }

    /// Writes down what has passed.
    pub(crate) fn note(&self, outcome: &mut Outcome) {
        outcome.seconds = self.wall.elapsed().as_secs_f64();
        outcome.cpu_seconds = machine::cpu_seconds() - self.cpu_seconds;
        outcome.minor_faults = machine::minor_faults() - self.minor_faults;
    }
}

/// Events cut into blocks, for whoever takes the next.
pub(crate) struct Blocks {
    bytes: Bytes,
    block_bytes: usize,
    next: AtomicUsize,
}

impl Blocks {
    pub(crate) fn new(bytes: Bytes, tuning: Tuning) -> Arc<Blocks> {
        let block_bytes = if tuning.block_kib == 0 { BLOCK_BYTES } else { tuning.block_kib << 10 };
        Arc::new(Blocks { bytes, block_bytes, next: AtomicUsize::new(0) })
    }

    /// The next block; whole events, and none in two blocks.
    pub(crate) fn next(&self) -> Option<Bytes> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let start = number.checked_mul(self.block_bytes).filter(|&start| start < self.bytes.len())?;
            let (start, end) = (self.cut(start), self.cut(start + self.block_bytes));
            if start < end {
                return Some(self.bytes.slice(start..end));
            }
        }
    }

    /// The place between two events that follows `near`: the same for the block that ends there and the one that begins.
    fn cut(&self, near: usize) -> usize {
        match near {
            0 => 0,
            _ if near >= self.bytes.len() => self.bytes.len(),
            _ => first_cut(&self.bytes[near..]).map_or(self.bytes.len(), |cut| near + cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::events;

    #[test]
    fn blocks_are_all_events_each_once() {
        let mut text = Vec::new();
        events(1).write(50, &mut text);
        for block_kib in [1, 2, 5, 1000] {
            let blocks = Blocks::new(text.clone().into(), Tuning { block_kib, ..Tuning::default() });
            let mut joined = Vec::new();
            while let Some(block) = blocks.next() {
                assert!(block.starts_with(b"{\"s01\"") && block.ends_with(b"}\n"));
                joined.extend_from_slice(&block);
            }
            assert!(joined == text, "{block_kib} KiB");
        }
    }
}
