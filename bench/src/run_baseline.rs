//! Runs the task as a program without an engine would: parses each event into a tree, and compares one field.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use anyhow::Context;
use bytes::Bytes;
use serde_json::Value;

use crate::{
    machine,
    task::{Blocks, Outcome, Stopwatch, Task},
};

/// Looks for the first query's value in its field, with a thread a core.
pub(crate) fn run(task: Task, bytes: Bytes) -> anyhow::Result<Outcome> {
    let query = task.queries().into_iter().next().context("no query was planted")?;
    let (field, value) = condition(&query).context("the query has another form than is thought")?;
    let blocks = Blocks::new(bytes, task.tuning);
    let [events, rejected, matches] = [const { AtomicU64::new(0) }; 3];
    let since = Stopwatch::now();
    thread::scope(|scope| {
        for _ in 0..machine::cores() {
            scope.spawn(|| {
                while let Some(block) = blocks.next() {
                    let mut counts = [0; 3];
                    for line in block.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                        match serde_json::from_slice::<Value>(line) {
                            Ok(event) => {
                                counts[0] += 1;
                                counts[2] +=
                                    u64::from(event.get(field).and_then(Value::as_str) == Some(value));
                            }
                            Err(_) => counts[1] += 1,
                        }
                    }
                    for (total, count) in [&events, &rejected, &matches].into_iter().zip(counts) {
                        total.fetch_add(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut outcome = Outcome {
        events: events.into_inner(),
        rejected: rejected.into_inner(),
        matches: vec![matches.into_inner()],
        ..Outcome::default()
    };
    since.record(&mut outcome);
    Ok(outcome)
}

/// Field and value of `… WHERE field = 'value'`.
fn condition(query: &str) -> Option<(&str, &str)> {
    let (_, condition) = query.split_once(" WHERE ")?;
    let (field, value) = condition.split_once(" = ")?;
    Some((field, value.strip_prefix('\'')?.strip_suffix('\'')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_is_found() {
        let queries = crate::workload::published(1).queries();
        let (field, value) = condition(&queries[0]).unwrap();
        assert_eq!((field, value.len()), ("s01", 36));
    }
}
