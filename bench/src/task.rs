//! The task of a child process and its outcome, both passed as JSON, and the parts common to all tasks.

use std::{
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
    machine,
    workload::Spec,
};

/// The first argument of a child.
pub(crate) const WORD: &str = "child";
const BLOCK_BYTES: usize = 256 << 10;

/// The kind of a child's task.
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
    /// All queries stand as with [`Kind::Engine`], but are asked for one answer, which counts.
    Counts,
    /// The matcher alone, on one thread.
    Matching,
    /// All queries stand while events come at a steady rate.
    Paced,
    /// All queries stand while events flow and other queries come and go.
    Changes { is_quick: bool },
}

/// Queries that stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Set {
    /// One grouping query, or as many that mean the same and are written in different ways.
    OneMeaning,
    /// Grouping queries that differ in a constant of their filter alone.
    ManyConstants,
    /// Grouping queries of ten shapes.
    GroupBy,
    CountDistinct,
    Quantile,
    Top,
}

/// The task of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// The workload for which the events were made.
    pub(crate) spec: Spec,
    /// The first of its queries that stands.
    pub(crate) first: usize,
    /// Queries that stand.
    pub(crate) standing: usize,
    /// Cores that the child may use; 0: all.
    pub(crate) cores: usize,
    pub(crate) tuning: Tuning,
}

/// The results of a child.
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
    /// For each query of one answer: the sum of its column `n`, and its records.
    pub(crate) answers: Vec<(u64, u64)>,
    /// Memory that came with the queries and what they hold.
    pub(crate) bytes_per_query: u64,
    /// Seconds of the stage that was measured alone.
    pub(crate) stage_seconds: f64,
    /// Other measurements, by name.
    pub(crate) spans: Vec<(String, Vec<f64>)>,
    /// Records that were lost for a slow reader.
    pub(crate) dropped: u64,
}

impl Task {
    /// The first `standing` queries, on all cores.
    pub(crate) fn new(kind: Kind, spec: Spec, standing: usize, tuning: Tuning) -> Task {
        Task { kind, spec, first: 0, standing, cores: 0, tuning }
    }

    /// The texts of the queries that stand.
    pub(crate) fn queries(self) -> Vec<String> {
        let mut queries = self.spec.begin().queries();
        queries.truncate(self.first + self.standing);
        queries.split_off(self.first.min(queries.len()))
    }

    /// The fault of an outcome's counts, if there is one.
    pub(crate) fn fault(self, load: &Load, outcome: &Outcome) -> Option<String> {
        if outcome.events != load.events || outcome.rejected != 0 {
            let Outcome { events, rejected, .. } = outcome;
            return Some(format!("{events} events and {rejected} rejected, not {}", load.events));
        }
        if outcome.dropped != 0 {
            return Some(format!("{} records were lost", outcome.dropped));
        }
        let truth = &load.truth[self.first..self.first + self.standing];
        let wrong = outcome.matches.iter().zip(truth).filter(|(found, truth)| found != truth).count();
        (wrong > 0 || outcome.matches.len() != truth.len())
            .then(|| format!("{wrong} of {} counts are wrong", truth.len()))
    }

    /// Does it in a new process.
    pub(crate) fn run(self, load: &Load) -> anyhow::Result<Outcome> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
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

impl Outcome {
    /// The measurements under a name.
    pub(crate) fn span(&self, name: &str) -> anyhow::Result<&[f64]> {
        let span = self.spans.iter().find(|(known, _)| known == name);
        span.map(|(_, values)| values.as_slice()).with_context(|| format!("{name} was not measured"))
    }
}

/// Time, processor time and page faults since some moment.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu_seconds: f64,
    minor_faults: u64,
}

impl Stopwatch {
    pub(crate) fn now() -> Stopwatch {
        Stopwatch {
            minor_faults: machine::minor_faults(),
            cpu_seconds: machine::cpu_seconds(),
            wall: Instant::now(),
        }
    }

    /// Writes down what has passed.
    pub(crate) fn record(&self, outcome: &mut Outcome) {
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
    use crate::workload::published;

    #[test]
    fn blocks_are_all_events_each_once() {
        let mut text = Vec::new();
        published(1).write(50, &mut text);
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
