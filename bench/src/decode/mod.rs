//! Measures how many bytes per second one core decodes into Arrow columns, beside other parsers at the same task in the same
//! run.
//!
//! All parsers walk blocks of 256 KiB in memory by turns; there are more blocks than caches hold. Ours gets checked batches,
//! as in the engine. The others get the same events one by one, with their ends known. Their UTF-8 and grammar are unchecked
//! where they allow it: the task at its easiest for each. The outputs are compared, value by value, on some of the blocks; a
//! difference is a wrong answer. The cost of the check itself is reported beside it. Time is the thread's own, so other load
//! of the machine counts little.
//!
//! Our decoder chooses its vector instructions at run time, but sonic-rs at compile time. A second program, this one
//! compiled for the machine (`make bench` builds it and names it in [`NATIVE`]), therefore repeats all measurements. Our
//! shipped build is compared with the better of the two.

mod blocks;
mod columns;
mod compare;
mod others;
mod ours;
mod rows;
mod structure;

use std::{
    hint::black_box,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use arrow_array::ArrayRef;

use serde::{Deserialize, Serialize};

use crate::{
    args::Args,
    machine,
    table::{Table, mib},
};
pub(crate) use blocks::{Block, Order, blocks};
use columns::{Field, fields};
use ours::Ours;

/// One way to make columns of events.
trait Contestant {
    fn name(&self) -> &'static str;
    /// A column for each wanted field, with a row an event.
    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>>;
}

/// The first argument of this program when it measures for another.
pub(crate) const WORD: &str = "decode";
/// The variable that names the program compiled for this machine.
const NATIVE: &str = "SWIFTWATER_BENCH_NATIVE";
/// Bytes of different blocks: more than a share of a large cache.
const BYTES: usize = 640 << 20;
/// Over which more than 2 GiB are walked.
const ROUNDS: usize = 4;
/// Number of paths wanted of each event; none: it is only checked.
const PATHS: [usize; 5] = [0, 1, 4, 20, 92];

/// The size of a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Extent {
    bytes: usize,
    rounds: usize,
}

/// The conditions of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Contest {
    order: Order,
    paths: usize,
    extent: Extent,
    fault: Option<String>,
    /// By name, GB/s of each round; ours first.
    speeds: Vec<Speeds>,
}

/// A name and GB/s of each round.
type Speeds = (String, Vec<f64>);

/// Measures on one core and adds the rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let extent = if args.quick {
        Extent { bytes: BYTES / 16, rounds: 1 }
    } else {
        Extent { bytes: BYTES, rounds: args.rounds().max(ROUNDS) }
    };
    let (passes, own) = measure(extent)?;
    let native = match std::env::var_os(NATIVE) {
        None => Vec::new(),
        Some(program) => {
            let output = Command::new(&program)
                .args([WORD, &serde_json::to_string(&extent)?])
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()
                .and_then(std::process::Child::wait_with_output)
                .with_context(|| format!("cannot run {}", program.display()))?;
            ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
            serde_json::from_slice(&output.stdout).context("the other program gave no speeds")?
        }
    };
    structure::add(&passes, extent, table)?;
    rows::add(&own, &native, table)
}

/// Measures for another program.
pub(crate) fn run_for_another(words: &[String]) -> anyhow::Result<()> {
    let [extent] = words else { anyhow::bail!("say how much is to be measured") };
    let (_, contests) = measure(serde_json::from_str(extent).context("the extent is JSON")?)?;
    println!("{}", serde_json::to_string(&contests)?);
    Ok(())
}

fn measure(extent: Extent) -> anyhow::Result<(Vec<structure::Passes>, Vec<Contest>)> {
    // A thread of its own, so that nothing else is kept to its core.
    std::thread::scope(|scope| {
        let work = scope.spawn(|| -> anyhow::Result<(Vec<structure::Passes>, Vec<Contest>)> {
            machine::pin_to_cores(1)?;
            let mut contests = Vec::new();
            let mut passes = Vec::new();
            for order in [Order::Kept, Order::Shuffled] {
                eprintln!("making {} of events, {}", mib(extent.bytes as u64), order.name());
                let blocks = blocks(order, extent.bytes);
                if order == Order::Kept {
                    passes = structure::measure(&blocks, extent)?;
                }
                for paths in PATHS.into_iter().filter(|&paths| paths > 0 || order == Order::Kept) {
                    let contest = if paths == 0 {
                        checks(&blocks, extent)?
                    } else {
                        contest(&blocks, order, paths, extent)?
                    };
                    eprintln!("{}, {paths} paths: {:.2?}", order.name(), contest.speeds);
                    contests.push(contest);
                }
            }
            Ok((passes, contests))
        });
        work.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })
}

/// A timed function and its name: it takes a block and returns its number of events.
type Turn<'w> = (&'static str, &'w mut dyn FnMut(&Block) -> anyhow::Result<usize>);

/// Times each contestant by turns over all blocks.
fn race(blocks: &[Block], rounds: usize, turns: &mut [Turn<'_>]) -> anyhow::Result<Vec<Speeds>> {
    let bytes: usize = blocks.iter().map(|block| block.text.len()).sum();
    let rows: usize = blocks.iter().map(|block| block.batch.len()).sum();
    let mut speeds: Vec<_> = turns.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    for _ in 0..rounds {
        for ((name, work), (_, speeds)) in turns.iter_mut().zip(&mut speeds) {
            let start = machine::thread_seconds();
            let mut seen = 0;
            for block in blocks {
                seen += work(block)?;
            }
            let seconds = machine::thread_seconds() - start;
            ensure!(seen == rows, "{name} saw {seen} events of {rows}");
            speeds.push(bytes as f64 / seconds / 1e9);
        }
    }
    Ok(speeds)
}

fn contest(blocks: &[Block], order: Order, paths: usize, extent: Extent) -> anyhow::Result<Contest> {
    let wanted = fields(paths);
    let mut contestants = contestants(&wanted);
    let fault = compare::fault(&mut contestants, &wanted, blocks)?;
    let names: Vec<&'static str> = contestants.iter().map(|contestant| contestant.name()).collect();
    let mut works: Vec<_> = contestants
        .iter_mut()
        .map(|contestant| {
            move |block: &Block| {
                let columns = contestant.decode(block)?;
                let rows = columns.first().context("no column")?.len();
                black_box(columns);
                Ok(rows)
            }
        })
        .collect();
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (name, work) in names.into_iter().zip(&mut works) {
        turns.push((name, work));
    }
    Ok(Contest { order, paths, extent, fault, speeds: race(blocks, extent.rounds, &mut turns)? })
}

/// Measures the cost of checking events without using them.
fn checks(blocks: &[Block], extent: Extent) -> anyhow::Result<Contest> {
    let mut simd_json = others::SimdJson::new(&[]);
    let speeds = race(
        blocks,
        extent.rounds,
        &mut [
            ("check", &mut ours::check),
            ("serde_json into `IgnoredAny`", &mut others::serde_json_ignoring),
            ("simd-json into a tape", &mut |block| simd_json.tapes(block)),
        ],
    )?;
    Ok(Contest { order: Order::Kept, paths: 0, extent, fault: None, speeds })
}

/// The decoder of so many fields.
pub(crate) fn ours(paths: usize) -> Ours {
    Ours::new(&fields(paths), false)
}

/// The columns of a block.
pub(crate) fn columns_of(ours: &mut Ours, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
    ours.decode(block)
}

/// Ours first, then ours with the check before it, then all others.
fn contestants(wanted: &[Field]) -> Vec<Box<dyn Contestant>> {
    let mut all: Vec<Box<dyn Contestant>> =
        vec![Box::new(Ours::new(wanted, false)), Box::new(Ours::new(wanted, true))];
    all.extend(others::all(wanted));
    all
}
