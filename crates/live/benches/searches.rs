//! Measures standing searches over log lines of 350 bytes, from JSON to counts: lines a second by the number of searches.
//!
//! `cargo bench -p swiftwater-live --bench searches [-- [THREADS] [SECONDS] [SEARCHES]]`; without numbers, two threads,
//! three seconds for each row, and 1 to 10,000 searches. Each thread checks, decodes and matches blocks of its own, as the shards of an engine do. Rates are
//! by processor time, as other programs may run on the same cores.
//!
//! The searches are those of [`swiftwater_testkit::log_searches`]. What a sample of them finds is compared with a loop over
//! lines that shares no code with the engine.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "the table is what this is for")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the machine's clock")]

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Decoder, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, QueryNumber, Shard, SourcePosition, StandingQuery, StepInput};
use swiftwater_testkit::log_searches::{LogSearch, LogWords, log_lines, log_searches};

const BLOCK_BYTES: usize = 256 << 10;
const BLOCKS: usize = 128;
const CHECKED_SEARCHES: usize = 200;
const CHECKED_BLOCKS: usize = 8;

fn blocks() -> Vec<Bytes> {
    let mut lines = log_lines();
    let block = |_| {
        let mut block = Vec::new();
        while block.len() < BLOCK_BYTES {
            lines.push(&mut block);
        }
        Bytes::from(block)
    };
    (0..BLOCKS).map(block).collect()
}

fn compiled(search: &LogSearch) -> Arc<StandingQuery> {
    let text = format!("SELECT COUNT(*) AS n FROM STREAM(MAX, TIME) WHERE SEARCH('{}')", search.text());
    let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0)).unwrap();
    Arc::new(StandingQuery::compile(plan.query).unwrap())
}

/// The index as it is when all is quiet, and the mean time of adding a query, rebuilds in the background apart.
fn index_of(searches: &[LogSearch], sample: &Bytes) -> (Index, Duration) {
    let mut index = Index::default();
    let mut total = Duration::ZERO;
    for (number, query) in (0..).zip(searches.iter().map(compiled)) {
        let start = Instant::now();
        index = index.with(number, &query);
        total += start.elapsed();
        if number == 0 {
            let batch = check_block(sample.clone(), &CheckLimits::default(), 1).batch;
            let rows: Vec<u32> = (0..256).collect();
            index.observe(&Decoder::default().decode(&batch.select(&rows), index.plan()));
        }
        if number % 100 == 0
            && let Some(rebuild) = index.rebuild()
        {
            index = index.rebuilt(rebuild.run());
        }
    }
    if let Some(rebuild) = index.rebuild_now() {
        index = index.rebuilt(rebuild.run());
    }
    (index, total / searches.len().max(1) as u32)
}

/// Counts of a block for each search: lines, matches, candidates.
fn step(
    index: &Index,
    shard: &mut Shard,
    block: &Bytes,
    each: &mut dyn FnMut(QueryNumber, u64, u64),
) -> usize {
    let batch = check_block(block.clone(), &CheckLimits::default(), 1).batch;
    let input = StepInput {
        batch: &batch,
        arrivals: &[],
        before: None,
        place: SourcePosition::Number(0),
        now_micros: 0,
        record_bytes_max: usize::MAX,
        nanos: &|| 0,
    };
    let mut steps = Vec::new();
    shard.step(index, &input, &mut steps);
    steps.iter().for_each(|step| each(step.number, step.matches, step.candidates));
    batch.len()
}

fn check(searches: &[LogSearch], index: &Index, blocks: &[Bytes]) {
    let mut found: HashMap<QueryNumber, u64> = HashMap::new();
    let mut shard = Shard::default();
    for block in &blocks[..CHECKED_BLOCKS] {
        step(index, &mut shard, block, &mut |number, matches, _| {
            *found.entry(number).or_default() += matches
        });
    }
    let text: Vec<u8> = blocks[..CHECKED_BLOCKS].concat();
    let lines: Vec<LogWords> = std::str::from_utf8(&text).unwrap().lines().map(LogWords::of).collect();
    for number in (0..searches.len()).step_by((searches.len() / CHECKED_SEARCHES).max(1)) {
        let expected = lines.iter().filter(|line| searches[number].matches(line)).count() as u64;
        let found = found.get(&(number as u64)).copied().unwrap_or(0);
        assert_eq!(found, expected, "{}", searches[number].text());
    }
}

/// The processor time of this thread so far.
fn ran() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number of nanoseconds"))
}

fn measure(searches: &[LogSearch], blocks: &[Bytes], threads: usize, least: Duration) -> f64 {
    let (index, adding) = index_of(searches, &blocks[0]);
    check(searches, &index, blocks);
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let totals: Vec<([u64; 3], Duration)> = thread::scope(|scope| {
        let run = || {
            let mut shard = Shard::default();
            let mut total = [0; 3];
            let before = ran();
            while start.elapsed() < least {
                let block = &blocks[next.fetch_add(1, Ordering::Relaxed) % blocks.len()];
                let [_, matches, candidates] = &mut total;
                let lines = step(&index, &mut shard, block, &mut |_, matched, tested| {
                    *matches += matched;
                    *candidates += tested;
                });
                total[0] += lines as u64;
            }
            (total, ran() - before)
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = totals.iter().map(|(_, ran)| ran.as_secs_f64()).sum::<f64>() / threads as f64;
    let [lines, matches, candidates] =
        [0, 1, 2].map(|place| totals.iter().map(|(total, _)| total[place]).sum::<u64>() as f64);
    println!(
        "{:>7} searches {:>10.0} lines/s {:>7.3} matches/line {:>7.3} candidates/line {:>6} B/search, added in {:>6.1} µs",
        searches.len(),
        lines / seconds,
        matches / lines,
        candidates / lines,
        index.bytes() / searches.len().max(1),
        adding.as_secs_f64() * 1e6,
    );
    seconds / lines
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |place: usize, default: usize| numbers.get(place).copied().unwrap_or(default);
    let (threads, least) = (number(0, 2), Duration::from_secs(number(1, 3) as u64));
    let blocks = blocks();
    let searches = log_searches(10_000);
    let measure = |count: usize| measure(&searches[..count.min(searches.len())], &blocks, threads, least);
    match numbers.get(2) {
        Some(&count) => {
            measure(count);
        }
        None => {
            let cost = [1, 100, 1000, 10_000].map(measure);
            println!("cost of 10,000 searches to that of 100: {:.2}", cost[3] / cost[1]);
        }
    }
}
