//! Measures rollups: 62 dimensions by 20 sums, each dimension alone, from nested records of 2 KB, through the whole engine;
//! and aggregation alone, on one core.
//!
//! Each dimension's counts must add up to all events.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Context, ensure};
use bytes::Bytes;
use swiftwater_engine::{EndReason, Engine, EngineConfig, Principal, SubmitOptions};
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, SystemClock, check_block};
use swiftwater_generate::{DIMENSIONS, MEASURES, TelecomSettings, Workload};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, Shard, SourcePosition, StandingQuery, StepInput};
use swiftwater_testkit::Rng;

use crate::{
    args::Args,
    machine,
    run_engine::{config, feed, joined},
    samples::Samples,
    table::{Row, Table, Verdict, grouped, mib},
    task::{Blocks, Outcome, Stopwatch},
};

/// Records that are made; they are sent again until there are enough.
const RECORDS: usize = 40_000;

/// Events a second of the whole flow that are wanted, and of aggregation by six keys on a core.
const FLOW_WANTED: f64 = 200_000.0;
const ALONE_WANTED: f64 = 5_000_000.0;

/// Measures and adds the rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let mut records = Workload::Telecom(TelecomSettings::default()).begin(7)?;
    let mut text = Vec::new();
    (0..RECORDS).for_each(|_| records.push(&mut text));
    let times = if args.quick { 1 } else { 25 };
    let bytes = Bytes::from(text.repeat(times));
    let (mut speeds, mut cpu) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds() {
        let outcome = flow(args, &bytes)?;
        eprintln!("round {round}: rollups: {:.2} s", outcome.seconds);
        ensure!(outcome.events == (RECORDS * times) as u64, "{} events were taken", outcome.events);
        speeds.push(outcome.events as f64 / outcome.seconds);
        cpu.push(outcome.cpu_seconds / outcome.events as f64 * 1e6);
    }
    let (speeds, cpu) = (Samples::new(speeds)?, Samples::new(cpu)?);
    table.push(Row {
        what: "62 dimensions alone, 20 sums, from JSON".to_owned(),
        figure: format!("{} events/s", grouped(speeds.median() as u64)),
        conditions: format!(
            "{} of records of about 2 KB, {} cores; {} to {} events/s in {} runs; {:.1} µs of processor time an event; \
             all dimensions add up",
            mib(bytes.len() as u64),
            machine::cores(),
            grouped(speeds.least() as u64),
            grouped(speeds.most() as u64),
            speeds.len(),
            cpu.median(),
        ),
        needed: format!(">= {}", grouped(FLOW_WANTED as u64)),
        verdict: Verdict::of(speeds.median() >= FLOW_WANTED),
    });
    for groups in [1000, 10_000, 100_000] {
        let rate = alone(groups, if args.quick { 400_000 } else { 8_000_000 })?;
        table.push(Row {
            what: format!("aggregation alone, 6 keys and 4 sums, {} groups", grouped(groups as u64)),
            figure: format!("{} events/s a core", grouped(rate as u64)),
            conditions: "from decoded columns; by the thread's processor time".to_owned(),
            needed: format!(">= {}", grouped(ALONE_WANTED as u64)),
            verdict: Verdict::of(rate >= ALONE_WANTED),
        });
    }
    Ok(())
}

/// Sums all measures by each dimension alone.
fn query() -> String {
    let sums: Vec<String> = MEASURES.iter().map(|name| format!("SUM(meas.{name}) AS {name}")).collect();
    let (sums, sets) = (sums.join(", "), DIMENSIONS.join(", "));
    format!("SELECT COUNT(*) AS n, {sums} FROM STREAM(MAX, TIME) GROUP BY GROUPING SETS ({sets})")
}

/// Appends all records to an engine on which the query stands, and holds its answer against how many there were.
fn flow(args: &Args, bytes: &Bytes) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let config = EngineConfig { state_bytes_max: 16 << 30, ..config(args.tuning)? };
    let engine = Engine::start(config, Arc::new(SystemClock::new()));
    let options = SubmitOptions { one_answer: true, ..SubmitOptions::default() };
    let mut query = engine.submit(&Principal::local(), &query(), options).context("the query is refused")?;
    let blocks = Blocks::new(bytes.clone(), args.tuning);
    let mut outcome = Outcome::default();
    let since = Stopwatch::now();
    let feeders: Vec<_> = (0..machine::cores())
        .map(|number| {
            let (engine, blocks) = (engine.clone(), Arc::clone(&blocks));
            thread::Builder::new().name(format!("feeder-{number}")).spawn(move || feed(&engine, &blocks))
        })
        .collect();
    for feeder in feeders {
        let (events, rejected) = joined(feeder?)??;
        (outcome.events, outcome.rejected) = (outcome.events + events, outcome.rejected + rejected);
    }
    runtime.block_on(engine.drained());
    since.record(&mut outcome);
    engine.end_query(&Principal::local(), &query.query().id, EndReason::EndOfInput)?;
    let mut counted = 0;
    while let Some(emit) = query.next_blocking() {
        for line in emit.records.text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let record: serde_json::Value = serde_json::from_slice(line).context("a record is no JSON")?;
            counted += record["n"].as_u64().unwrap_or(0);
        }
    }
    let wanted = outcome.events * DIMENSIONS.len() as u64;
    ensure!(counted == wanted, "the dimensions count {counted} events, not {wanted}");
    drop(query);
    runtime.block_on(engine.shutdown(Duration::from_secs(10)));
    Ok(outcome)
}

/// Events that a core aggregates in a second, by keys of six values.
fn alone(groups: usize, events: usize) -> anyhow::Result<f64> {
    let mut rng = Rng::new(11);
    let mut batch = || -> EventBatch {
        let mut text = String::new();
        for _ in 0..4000 {
            let group = rng.below(groups);
            let keys = [group % 7, group % 30, group % 100, group % 3, group % 1000, group];
            let [a, b, c, d, e, f] = keys;
            let [v, w, x, y] = [1000, 1000, 100_000, 10].map(|bound| rng.below(bound));
            text.push_str(&format!(
                "{{\"a\":\"a-{a}\",\"b\":\"b-{b}\",\"c\":\"c-{c}\",\"d\":{d},\"e\":{e},\"f\":\"f-{f}\",\"v\":{v},\"w\":{w},\"x\":{x},\"y\":{y}}}\n"
            ));
        }
        check_block(Bytes::from(text), &CheckLimits::default(), 1).batch.with_meta(EventMeta::default())
    };
    let batches: Vec<EventBatch> = (0..100).map(|_| batch()).collect();
    let text =
        "SELECT SUM(v) AS v, SUM(w) AS w, SUM(x) AS x, SUM(y) AS y FROM STREAM() GROUP BY a, b, c, d, e, f";
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).context("a query")?.query;
    let query = Arc::new(StandingQuery::compile(plan).context("a query")?);
    let index = Index::default().with(0, &query);
    let (mut shard, mut steps, mut nanos, mut done) = (Shard::default(), Vec::new(), 0, 0);
    let clock = || (machine::thread_seconds() * 1e9) as u64;
    while done < events {
        for batch in &batches {
            let input = StepInput {
                batch,
                arrivals: &[],
                before: None,
                place: SourcePosition::Number(0),
                now_micros: 0,
                record_bytes_max: usize::MAX,
                nanos: &clock,
            };
            nanos += shard.step(&index, &input, &mut steps).operate;
            steps.clear();
            done += batch.len();
        }
    }
    Ok(done as f64 / (nanos.max(1) as f64 / 1e9))
}
