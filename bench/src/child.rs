//! Runs one point of throughput in a separate process. Standard input is the events, a file that is mapped; the task is JSON
//! in the arguments; the outcome is written as JSON.

use std::{fs::File, os::fd::AsFd};

use anyhow::Context;
use bytes::Bytes;

use crate::{
    machine, run_baseline, run_changes, run_engine, run_input, run_matching, run_paced, run_shared,
    task::{Kind, Task},
};

/// Runs the task of the child.
pub(crate) fn run(words: &[String]) -> anyhow::Result<()> {
    let [task] = words else { anyhow::bail!("a child has one argument") };
    let task: Task = serde_json::from_str(task).context("a child's task is JSON")?;
    machine::pin_to_cores(task.cores)?;
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
        Kind::Counts => run_shared::run_counts(task, bytes)?,
        Kind::Matching => run_matching::run(task, bytes)?,
        Kind::Paced => run_paced::run(task, bytes)?,
        Kind::Changes { is_quick } => run_changes::run(task, bytes, is_quick)?,
    };
    let memory = machine::memory("self");
    outcome.peak_bytes = memory.peak;
    outcome.peak_own_bytes = outcome.peak_own_bytes.max(memory.own);
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}
