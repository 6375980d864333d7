//! Runs one query over a mapped file, as `swiftwater query --input` does.

use std::{ops::ControlFlow, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use serde_json::Value;
use swiftwater_engine::{EngineConfig, InputOptions, InputSource, run_input};
use swiftwater_event::{CheckLimits, SystemClock};
use swiftwater_lang::Dialect;

use crate::{
    args::Tuning,
    data::{GROUPS_MAX, GROUPS_QUERY},
    run_engine::config,
    task::{Outcome, Stopwatch, Task},
};

fn options(tuning: Tuning) -> anyhow::Result<InputOptions> {
    let config = EngineConfig { shards: tuning.shards, ..config(tuning)? };
    Ok(InputOptions {
        config,
        check: CheckLimits::default(),
        dialect: Dialect::Native,
        schema: None,
        time_field: None,
        times: false,
        ..InputOptions::default()
    })
}

/// Runs a query; `on_records` gets the text and number of each emit's records.
fn query(
    task: Task,
    bytes: Bytes,
    text: &str,
    mut on_records: impl FnMut(&[u8], u64),
) -> anyhow::Result<Outcome> {
    let options = options(task.tuning)?;
    let since = Stopwatch::now();
    let summary = run_input(
        InputSource::Bytes(bytes),
        text,
        &options,
        Arc::new(SystemClock::new()),
        &mut |_| {},
        &mut |emit| {
            on_records(&emit.records.text, emit.records.count);
            ControlFlow::Continue(())
        },
    )?;
    let mut outcome = Outcome { events: summary.accepted, rejected: summary.rejected, ..Outcome::default() };
    since.record(&mut outcome);
    Ok(outcome)
}

/// The first of the planted queries.
pub(crate) fn run(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let text = task.queries().into_iter().next().context("no query was planted")?;
    let mut records = 0;
    let outcome = query(task, bytes, &text, |_, count| records += count)?;
    Ok(Outcome { matches: vec![records], ..outcome })
}

/// [`GROUPS_QUERY`].
pub(crate) fn run_groups(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let mut text = Vec::new();
    let outcome = query(task, bytes, GROUPS_QUERY, |records, _| text.extend_from_slice(records))?;
    let mut groups = vec![(0, 0); GROUPS_MAX];
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let record: Value = serde_json::from_slice(line).context("a record is no JSON")?;
        let (key, count, sum) = (record["l1"].as_u64(), record["n"].as_u64(), record["total"].as_i64());
        let key = key.and_then(|key| usize::try_from(key).ok()).context("a record without its key")?;
        let group = groups.get_mut(key).context("a record of no group that there is")?;
        *group = (count.context("a record without its count")?, sum.context("a record without its sum")?);
    }
    Ok(Outcome { groups, ..outcome })
}
