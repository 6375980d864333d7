//! What rollups cost on one core: 62 dimensions by 20 sums, each dimension alone, from nested records of 2 KB; and one
//! grouping by 6 dimensions with 4 sums, by how many groups there are. Prints events a second of the whole way from JSON, of
//! decoding alone, and of aggregation alone, by the processor's time of the one thread.
#![allow(clippy::print_stdout, reason = "its table is its output")]

use std::{fmt::Write as _, sync::Arc};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, Offset, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, Place, Shard, StandingQuery, StepInput, StepNanos};
use swiftwater_testkit::{ProbeRecords, Rng, rollup_query};

fn batches(count: usize, events: usize, mut record: impl FnMut(&mut String)) -> Vec<EventBatch> {
    let mut sequence = 0;
    let batch = |_| {
        let mut text = String::new();
        for _ in 0..events {
            record(&mut text);
            sequence += 1;
        }
        let checked = check_block(Bytes::from(text), &CheckLimits::default(), 1);
        assert_eq!(checked.batch.len(), events);
        checked.batch.with_meta(EventMeta { first: Offset(sequence), ..EventMeta::default() })
    };
    (0..count).map(batch).collect()
}

/// Takes the batches in again and again, each as long as it takes to have so many events.
fn measure(name: &str, text: &str, batches: &[EventBatch], events: usize) {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    let query = Arc::new(StandingQuery::compile(plan).expect(text));
    let index = Index::default().with(0, &query);
    let (mut shard, mut steps) = (Shard::default(), Vec::new());
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    // Once over all, so that the groups are there.
    let mut total = StepNanos::default();
    let mut taken = 0;
    for warm in [true, false] {
        let mut done = 0;
        total = StepNanos::default();
        while done < if warm { batches.iter().map(EventBatch::len).sum() } else { events } {
            for batch in batches {
                let input = StepInput {
                    batch,
                    arrivals: &[],
                    place: Place::Number(0),
                    now_micros: 0,
                    record_bytes_max: usize::MAX,
                    nanos: &clock,
                };
                let nanos = shard.step(&index, &input, &mut steps);
                steps.clear();
                total.decode += nanos.decode;
                total.matching += nanos.matching;
                total.operate += nanos.operate;
                done += batch.len();
            }
        }
        taken = done;
    }
    let bytes: usize = batches.iter().map(|batch| batch.bytes().len()).sum();
    let held: usize = batches.iter().map(EventBatch::len).sum();
    let groups: usize = shard.remove(0).iter().map(|partial| partial.groups.len()).sum();
    let rate = |nanos: u64| taken as f64 / (nanos.max(1) as f64 / 1e9) / 1e3;
    println!(
        "{name:32} {groups:>9} groups {:>6} B/event  all {:>8.0} k/s  decode {:>8.0} k/s  aggregate {:>8.0} k/s",
        bytes / held,
        rate(total.decode + total.matching + total.operate),
        rate(total.decode),
        rate(total.operate),
    );
}

fn main() {
    let events =
        std::env::var("ROLLUP_EVENTS").ok().and_then(|events| events.parse().ok()).unwrap_or(200_000);
    let mut records = ProbeRecords::new(7);
    let probes = batches(20, 1000, |out| records.write(out));
    measure("62 dimensions alone, 20 sums", &rollup_query(""), &probes, events);
    for groups in [10, 1000, 10_000, 100_000, 1_000_000] {
        let mut rng = Rng::new(11);
        let records = batches(100, 4000, |out| {
            let group = rng.below(groups);
            let _ = writeln!(
                out,
                "{{\"a\":\"a-{}\",\"b\":\"b-{}\",\"c\":\"c-{}\",\"d\":{},\"e\":{},\"f\":\"f-{group}\",\"v\":{},\"w\":{},\"x\":{},\"y\":{}}}",
                group % 7,
                group % 30,
                group % 100,
                group % 3,
                group % 1000,
                rng.below(1000),
                rng.below(1000),
                rng.below(100_000),
                rng.below(10),
            );
        });
        let text = "SELECT SUM(v) AS v, SUM(w) AS w, SUM(x) AS x, SUM(y) AS y FROM STREAM() GROUP BY a, b, c, d, e, f";
        measure(&format!("6 dimensions, 4 sums, {groups}"), text, &records, events * 10);
    }
}
