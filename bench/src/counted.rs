//! Runs the main cases, each a few thousand events on one thread, for a program that counts instructions: see
//! `tests/instructions.rs`.
//!
//! Everything is set up and run once before; only [`swiftwater_counted`] is to be counted.

use std::hint::black_box;

use anyhow::ensure;
use bytes::Bytes;
use swiftwater_event::{CheckLimits, EventBatch, check_block};
use swiftwater_live::{Index, QueryStep, Shard, SourcePosition, StepInput};

use crate::{
    decode::{Order, blocks, columns_of, ours},
    run_matching::index,
    workload::{Answer, Spec},
};

/// The first argument of this program when its instructions are counted; the second, if there is one, names the case.
pub(crate) const WORD: &str = "counted";
/// Events of one case, at most: a counting program takes fifty times as long.
const EVENTS: usize = 560;
const BLOCK_EVENTS: usize = 140;

/// The counted work: the symbol is found by its name.
#[inline(never)]
fn swiftwater_counted(work: &mut dyn FnMut()) {
    work();
    // So that the call above is no jump out of here.
    black_box(());
}

/// Runs a case, and prints how many events were counted; without a name it prints the names, one a line.
pub(crate) fn run(words: &[String]) -> anyhow::Result<()> {
    let names = || CASES.map(|(name, _)| name);
    match words {
        [] => println!("{}", names().join("\n")),
        [name] => match CASES.iter().find(|(case, _)| case == name) {
            Some((_, case)) => println!("{}", case()?),
            None => anyhow::bail!("no case `{name}`; there are: {}", names().join(", ")),
        },
        _ => anyhow::bail!("name one case: {}", names().join(", ")),
    }
    Ok(())
}

/// A case: it answers how many events were counted.
type Case = fn() -> anyhow::Result<usize>;

/// All cases, by name.
const CASES: [(&str, Case); 10] = [
    ("check", check),
    ("decode-1", || decode(Order::Kept, 1)),
    ("decode-4", || decode(Order::Kept, 4)),
    ("decode-20", || decode(Order::Kept, 20)),
    ("decode-92", || decode(Order::Kept, 92)),
    ("decode-4-shuffled", || decode(Order::Shuffled, 4)),
    ("equality-1", || step(planted(1))),
    ("equality-1000", || step(planted(1000))),
    ("equality-10000", || step(planted(10_000))),
    ("mixed-2000", || step(Spec::Mixed { queries: 2000, answer: Answer::Field })),
];

fn planted(queries: usize) -> Spec {
    Spec::Planted { queries, paths: queries.min(50), matches_per_thousand: 10 }
}

/// Runs `work` once, then once more to be counted.
fn counted(mut work: impl FnMut()) {
    work();
    swiftwater_counted(&mut work);
}

fn check() -> anyhow::Result<usize> {
    let blocks = blocks(Order::Kept, 1 << 20);
    counted(|| {
        for block in &blocks {
            black_box(check_block(block.text.clone(), &CheckLimits::default(), 1));
        }
    });
    Ok(blocks.iter().map(|block| block.batch.len()).sum())
}

fn decode(order: Order, paths: usize) -> anyhow::Result<usize> {
    let blocks = blocks(order, 1 << 20);
    let mut ours = ours(paths);
    counted(|| {
        for block in &blocks {
            // Decoding cannot fail; columns are looked at by the tests and by every run of the benchmarks.
            let _ = black_box(columns_of(&mut ours, block));
        }
    });
    Ok(blocks.iter().map(|block| block.batch.len()).sum())
}

fn step(spec: Spec) -> anyhow::Result<usize> {
    let mut workload = spec.begin();
    let mut batches = Vec::new();
    for _ in 0..EVENTS / BLOCK_EVENTS {
        let mut text = Vec::new();
        workload.write(BLOCK_EVENTS, &mut text);
        let checked = check_block(Bytes::from(text), &CheckLimits::default(), 1);
        ensure!(checked.rejected == 0, "a good event was refused");
        batches.push(checked.batch);
    }
    let index = index(&workload.queries())?;
    let mut matched = 0;
    let (mut shard, mut steps) = (Shard::default(), Vec::new());
    counted(|| matched = all_steps(&mut shard, &index, &batches, &mut steps));
    let truth: u64 = workload.truth().iter().sum();
    ensure!(matched == truth, "{matched} matches, not {truth}");
    Ok(EVENTS)
}

fn all_steps(shard: &mut Shard, index: &Index, batches: &[EventBatch], steps: &mut Vec<QueryStep>) -> u64 {
    let mut matched = 0;
    for (number, batch) in batches.iter().enumerate() {
        let input = StepInput {
            batch,
            arrivals: &[],
            before: None,
            place: SourcePosition::Number((number * BLOCK_EVENTS) as u64),
            now_micros: 0,
            record_bytes_max: 64 << 20,
            nanos: &|| 0,
        };
        shard.step(index, &input, steps);
        matched += steps.drain(..).map(|step| step.matches).sum::<u64>();
    }
    matched
}
