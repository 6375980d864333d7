//! Measures the groups of a view by a million keys, from columns in memory, on one core. It folds batches into groups of
//! their own, merges these into the state, and extracts the changes as often as a commit would.

use std::{collections::HashMap, sync::Arc};

use anyhow::Context;
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, Offset, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{
    Changes, Index, KeyedPart, KeyedQuery, Shard, SourcePosition, StandingQuery, StepInput, ViewTime, by_part,
};

use super::pairs::{QUERY, lines};
use crate::{
    args::Args,
    machine,
    table::{Row, Table, Verdict, grouped},
};

const KEYS: usize = 1_000_000;
const WANTED: f64 = 2e6;
/// As a view has them.
const PARTS: usize = 32;
/// Events of a batch: 4 MiB of text, as a view takes what has come meanwhile.
const BATCH_EVENTS: usize = 170_000;
const SECONDS_BETWEEN_COMMITS: f64 = 1.0;

/// Measures and adds the row.
pub(super) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let rounds = if args.quick { 1 } else { 6 };
    let made: Vec<(EventBatch, u64)> = (0..12).map(batch).collect();
    let query = KeyedQuery::new(compiled()?, None).context("it is no view")?;
    let mut parts: Vec<KeyedPart> = (0..PARTS)
        .map(|_| KeyedPart::new(&query, true))
        .collect::<Option<_>>()
        .context("it has no groups")?;
    let mut shard = Shard::default();
    let (mut offset, mut total) = (0, 0);
    let (mut all, mut decoding, mut commits, mut since_commit) = (0.0, 0.0, 0, 0.0);
    let mut kept = HashMap::new();
    // The first round makes the groups.
    for round in 0..=rounds {
        if round == 1 {
            (all, decoding, commits, since_commit) = (0.0, 0.0, 0, 0.0);
        }
        for (batch, sum) in &made {
            let batch = batch.clone().with_meta(EventMeta { first: Offset(offset), ..*batch.meta() });
            offset += batch.len() as u64;
            total += sum;
            let start = machine::thread_seconds();
            let fold = query.fold(&mut shard, &batch, ViewTime::default());
            let groups = fold.groups.context("nothing was folded")?;
            let (chosen, _) = by_part(&groups, PARTS, usize::MAX);
            for (part, chosen) in parts.iter_mut().zip(&chosen) {
                part.merge(&query, &groups, chosen, (offset, batch.meta().arrival));
            }
            drop(groups);
            let took = machine::thread_seconds() - start;
            (all, since_commit) = (all + took, since_commit + took);
            if since_commit >= SECONDS_BETWEEN_COMMITS {
                let start = machine::thread_seconds();
                let mut changes = Changes::default();
                for part in &mut parts {
                    part.cut(&query, &mut changes);
                    part.checkpoint_committed();
                }
                all += machine::thread_seconds() - start;
                store_changes(&changes, &mut kept);
                (commits, since_commit) = (commits + 1, 0.0);
            }
            decoding += decoded(&batch)?;
        }
    }
    let mut changes = Changes::default();
    parts.iter_mut().for_each(|part| part.cut(&query, &mut changes));
    store_changes(&changes, &mut kept);
    let (keys, counted, summed) = state_totals(&query, &kept)?;
    let is_right = counted == offset && summed == total && keys <= KEYS as u64;
    let events = rounds as f64 * made.iter().map(|(batch, _)| batch.len()).sum::<usize>() as f64;
    let rate = events / (all - decoding);
    table.push(Row {
        what: "updates of a view by 1,000,000 random keys, from columns in memory".to_owned(),
        figure: format!("{} events/s a core", grouped(rate as u64)),
        conditions: format!(
            "{}COUNT and SUM; {} events in batches of {}, {} keys there from the start, {commits} commits cut out, not \
             written; by the thread's processor time, without {:.2} µs an event to decode, with which it is {} events/s",
            if is_right { "" } else { "its counts do not add up; " },
            grouped(events as u64),
            grouped(BATCH_EVENTS as u64),
            grouped(keys),
            decoding / events * 1e6,
            grouped((events / all) as u64),
        ),
        needed: format!("≥ {} events/s", grouped(WANTED as u64)),
        verdict: if is_right { Verdict::of(rate >= WANTED) } else { Verdict::Wrong },
    });
    Ok(())
}

fn compiled() -> anyhow::Result<StandingQuery> {
    let plan = parse(QUERY, &ParseOptions::new(Dialect::Native, 0)).context("a query")?.query;
    StandingQuery::compile(plan).context("a query")
}

fn batch(seed: u64) -> (EventBatch, u64) {
    let (text, sum) = lines(seed, BATCH_EVENTS, KEYS);
    (check_block(text, &CheckLimits::default(), 1).batch.with_meta(EventMeta::default()), sum)
}

/// Seconds that decoding and matching take of a batch.
fn decoded(batch: &EventBatch) -> anyhow::Result<f64> {
    let index = Index::default().with(0, &Arc::new(compiled()?));
    let clock = || (machine::thread_seconds() * 1e9) as u64;
    let input = StepInput {
        batch,
        arrivals: &[],
        before: None,
        place: SourcePosition::Number(0),
        now_micros: 0,
        record_bytes_max: usize::MAX,
        nanos: &clock,
    };
    let nanos = Shard::default().step(&index, &input, &mut Vec::new());
    Ok((nanos.decode + nanos.matching) as f64 / 1e9)
}

/// States by key, as a store would have them.
type StateMap = HashMap<Vec<u8>, Vec<u8>>;

fn store_changes(changes: &Changes, kept: &mut StateMap) {
    for (key, state) in changes.iter() {
        match state {
            Some(state) => drop(kept.insert(key.to_vec(), state.to_vec())),
            None => drop(kept.remove(key)),
        }
    }
}

/// Keys, events and the sum over all states.
fn state_totals(query: &KeyedQuery, kept: &StateMap) -> anyhow::Result<(u64, u64, u64)> {
    let mut groups = query.no_groups().context("it has no groups")?;
    for (key, state) in kept {
        query.add_state(&mut groups, key, state, 0).context("a state is none")?;
    }
    let (mut keys, mut counted, mut summed) = (0, 0, 0);
    for line in query.rows(groups, 0).text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let row: serde_json::Value = serde_json::from_slice(line).context("a row is no JSON")?;
        keys += 1;
        counted += row["n"].as_u64().unwrap_or(0);
        summed += row["total"].as_u64().unwrap_or(0);
    }
    Ok((keys, counted, summed))
}
