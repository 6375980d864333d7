//! Measures the matcher alone, on one core, from decoded columns: events a second of CPU time by the number of standing
//! queries.
//!
//! Each row also has the number of matches of an event, verified against a loop over all queries on a sample.
//!
//! `cargo bench -p swiftwater-live --bench matching [-- MOST_QUERIES [LEAST_QUERIES [MILLISECONDS]] [NAME]]`; NAME is the
//! start of a workload's name, MILLISECONDS is how long each workload is measured.
//!
//! Events have 50 fields: every third contains numbers, the others texts of 3 to 12 letters, out of 10,600 each. Paths of
//! queries are drawn by Zipf's law with exponent 1. The mixed workload consists of these queries:
//!
//! - 40 %: one equality.
//! - 25 %: an equality, and a range that selects half of the events.
//! - 15 %: a range that selects 30 % of the events, and one that selects 0.01 %.
//! - 10 %: IN of three values.
//! - 5 %: a prefix or a regular expression.
//! - 5 %: an OR of two of the former.
//!
//! With 100,000 queries, an event has about ten matches.

#![allow(clippy::print_stdout, reason = "the table is what this is for")]

use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Decoded, Decoder, EventBatch, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{Index, Matching, StandingQuery};
use swiftwater_testkit::{Rng, oracle};

const PATHS: usize = 50;
const VALUES: usize = 10_600;
const NUMBERS: usize = 90_000;
/// Events of a batch, and batches.
const ROWS: usize = 1024;
const BATCHES: usize = 12;
/// Queries and events that are counted by a loop.
const TRUTH_QUERIES: usize = 400;
const TRUTH_EVENTS: usize = 300;
const MILLISECONDS: usize = 1200;

fn is_number(path: usize) -> bool {
    path % 3 == 2
}

/// The text of a value: three letters that tell it, and more that follow from it.
fn text(path: usize, value: usize) -> String {
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    let len = 3 + path % 10;
    let mut bits = Rng::new((value * PATHS + path) as u64).bits();
    let mut rest = value;
    let mut text = String::new();
    for at in 0..len {
        let from = if at < 3 { rest & 31 } else { (bits & 31) as usize };
        text.push(char::from(letters[from]));
        rest >>= 5;
        bits >>= 5;
    }
    text
}

fn event(rng: &mut Rng, out: &mut String) {
    out.push('{');
    for path in 0..PATHS {
        let comma = if path > 0 { "," } else { "" };
        let _ = match is_number(path) {
            true if path.is_multiple_of(2) => write!(out, "{comma}\"p{path}\":{}", rng.below(NUMBERS)),
            true => write!(out, "{comma}\"p{path}\":0.{:05}", 10_000 + rng.below(NUMBERS)),
            false => write!(out, "{comma}\"p{path}\":\"{}\"", text(path, rng.below(VALUES))),
        };
    }
    out.push_str("}\n");
}

/// Draws queries.
struct Draw {
    /// Paths of texts, then of numbers, each with the sum of the weights so far.
    ranked: [Vec<(usize, f64)>; 2],
}

impl Draw {
    fn new() -> Draw {
        let ranked = |number: bool| {
            let mut sum = 0.0;
            let paths = (0..PATHS).filter(|&path| is_number(path) == number);
            paths
                .map(|path| {
                    sum += 1.0 / (path + 1) as f64;
                    (path, sum)
                })
                .collect()
        };
        Draw { ranked: [ranked(false), ranked(true)] }
    }

    fn path(&self, number: bool, rng: &mut Rng) -> usize {
        let ranked = &self.ranked[usize::from(number)];
        let at = rng.share() * ranked[ranked.len() - 1].1;
        ranked[ranked.partition_point(|(_, sum)| *sum <= at).min(ranked.len() - 1)].0
    }

    fn equals(&self, rng: &mut Rng) -> String {
        let path = self.path(false, rng);
        format!("p{path} = '{}'", text(path, rng.below(VALUES)))
    }

    fn range(&self, share: f64, rng: &mut Rng) -> String {
        let path = self.path(true, rng);
        let width = ((NUMBERS as f64 * share) as usize).max(1);
        let from = rng.below(NUMBERS - width + 1);
        let literal = |value: usize| match path.is_multiple_of(2) {
            true => value.to_string(),
            false => format!("{:.5}", (10_000 + value) as f64 / 100_000.0),
        };
        format!("p{path} >= {} AND p{path} < {}", literal(from), literal(from + width))
    }

    fn mixed(&self, place: usize, rng: &mut Rng) -> String {
        match place % 20 {
            0..8 => self.equals(rng),
            8..13 => format!("{} AND {}", self.equals(rng), self.range(0.5, rng)),
            13..16 => format!("{} AND {}", self.range(0.3, rng), self.range(0.0001, rng)),
            16 | 17 => {
                let path = self.path(false, rng);
                let first = rng.below(VALUES);
                let [a, b, c] = [0, 1, 2].map(|more| text(path, (first + more * VALUES / 3) % VALUES));
                format!("p{path} IN ['{a}', '{b}', '{c}']")
            }
            18 => {
                let path = self.path(false, rng);
                let start = &text(path, rng.below(VALUES))[..3];
                match rng.chance(0.5) {
                    true => format!("p{path} LIKE '{start}%'"),
                    false => format!("p{path} RLIKE '{start}[a-p]?.*'"),
                }
            }
            _ => {
                let [one, other] = [rng.below(18), rng.below(18)].map(|place| self.mixed(place, rng));
                format!("({one}) OR ({other})")
            }
        }
    }
}

fn compiled(condition: &str) -> Arc<StandingQuery> {
    let text = format!("SELECT p0 FROM STREAM() WHERE {condition}");
    let plan = parse(&text, &ParseOptions::new(Dialect::Native, 0))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    Arc::new(StandingQuery::compile(plan.query).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// The index as it is when all is quiet, and the mean time of adding a query, rebuilds in the background apart.
fn index_of(queries: &[Arc<StandingQuery>], sample: &EventBatch) -> (Index, Duration) {
    let mut index = Index::default();
    let mut total = Duration::ZERO;
    for (number, query) in queries.iter().enumerate() {
        let start = ran();
        index = index.with(number as u64, query);
        total += ran() - start;
        if number % 100 == 0
            && let Some(rebuild) = index.rebuild()
        {
            index = index.rebuilt(rebuild.run());
        }
    }
    index.observe(&Decoder::default().decode(sample, index.plan()));
    if let Some(rebuild) = index.rebuild_now() {
        index = index.rebuilt(rebuild.run());
    }
    (index, total / queries.len().max(1) as u32)
}

/// Compares the index with a loop over some of the queries and some of the events.
fn check(queries: &[Arc<StandingQuery>], index: &Index, texts: &[String], batch: &EventBatch) {
    let decoded = Decoder::default().decode(batch, index.plan());
    let mut found: BTreeMap<u64, usize> = BTreeMap::new();
    Matching::default().matches(index, &decoded, |number, rows| {
        found.insert(number, rows.iter().filter(|&&row| (row as usize) < TRUTH_EVENTS).count());
    });
    let events = oracle::read(&texts[..TRUTH_EVENTS]);
    let step = (queries.len() / TRUTH_QUERIES).max(1);
    for number in (0..queries.len()).step_by(step) {
        let expected = oracle::matching(&queries[number].plan, &events).expect("no part of it fails").len();
        let found = found.get(&(number as u64)).copied().unwrap_or(0);
        assert_eq!(found, expected, "{:?}", queries[number].plan.filter);
    }
}

/// Time that this thread has run so far: on a shared machine it is more exact than the time passed.
fn ran() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number of nanoseconds");
    Duration::from_nanos(nanos)
}

fn measure(
    name: &str,
    queries: &[Arc<StandingQuery>],
    texts: &[Vec<String>],
    batches: &[EventBatch],
    least: Duration,
) {
    let (index, adding) = index_of(queries, &batches[0]);
    check(queries, &index, &texts[0], &batches[0]);
    let decoded: Vec<Decoded> =
        batches.iter().map(|batch| Decoder::default().decode(batch, index.plan())).collect();
    let mut matching = Matching::default();
    let mut matches = 0_u64;
    let mut round = |decoded: &[Decoded]| {
        let start = ran();
        for batch in decoded {
            matching.matches(&index, batch, |_, rows| matches += rows.len() as u64);
        }
        ran() - start
    };
    round(&decoded);
    let (mut rounds, mut time) = (0, Duration::ZERO);
    while time < least || rounds < 3 {
        time += round(&decoded);
        rounds += 1;
    }
    let events = (ROWS * BATCHES) as f64;
    let matches = matches as f64 / events / f64::from(rounds + 1);
    println!(
        "{name:<20} {:>9} queries {:>11.0} events/s {matches:>8.3} matches/event {:>6} B/query, added in {:>5.1} µs",
        queries.len(),
        events * f64::from(rounds) / time.as_secs_f64(),
        index.bytes() / queries.len().max(1),
        adding.as_secs_f64() * 1e6,
    );
}

fn main() {
    let mut numbers = Vec::new();
    let mut only = String::new();
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        match argument.parse::<usize>() {
            Ok(number) => numbers.push(number),
            Err(_) => only = argument,
        }
    }
    let number = |place: usize, default: usize| numbers.get(place).copied().unwrap_or(default);
    let (most, least) = (number(0, 1_000_000), number(1, 0));
    let time = Duration::from_millis(number(2, MILLISECONDS) as u64);
    let mut rng = Rng::new(1);
    let mut texts = Vec::new();
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let mut block = String::new();
        (0..ROWS).for_each(|_| event(&mut rng, &mut block));
        texts.push(block.lines().map(str::to_owned).collect::<Vec<_>>());
        batches.push(check_block(Bytes::from(block.into_bytes()), &CheckLimits::default(), 1).batch);
    }
    let draw = Draw::new();
    type Condition<'c> = Box<dyn Fn(usize, &mut Rng) -> String + 'c>;
    let workloads: [(&str, Condition<'_>, &[usize]); 3] = [
        (
            "equality, one path",
            Box::new(|_, rng| format!("p0 = '{}'", text(0, rng.below(VALUES * 8)))),
            &[1, 1_000, 100_000],
        ),
        (
            "equality, 50 paths",
            Box::new(|_, rng| {
                let path = rng.below(PATHS);
                match is_number(path) {
                    true if path.is_multiple_of(2) => format!("p{path} = {}", rng.below(NUMBERS)),
                    true => format!("p{path} = 0.{:05}", 10_000 + rng.below(NUMBERS)),
                    false => format!("p{path} = '{}'", text(path, rng.below(VALUES))),
                }
            }),
            &[1, 1_000, 100_000],
        ),
        (
            "mixed",
            Box::new(|place, rng| draw.mixed(place, rng)),
            &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
        ),
    ];
    for (name, condition, counts) in &workloads {
        for &count in
            counts.iter().filter(|&&count| (least..=most).contains(&count) && name.starts_with(&only))
        {
            let mut rng = Rng::new(2);
            let queries: Vec<_> = (0..count).map(|place| compiled(&condition(place, &mut rng))).collect();
            measure(name, &queries, &texts, &batches, time);
        }
    }
}
