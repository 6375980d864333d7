//! How many bytes a second one core turns into Arrow columns, beside other parsers at the same task in the same run.
//!
//! Blocks of 256 KiB in memory, more of them than caches hold, are walked by all by turns. Ours gets checked batches, as
//! in the engine; the others get the same events one by one, with their ends known and their UTF-8 and grammar
//! unchecked where they can do without: the task at its easiest for each. What each makes is compared, value by value, on
//! some of the blocks; a difference is a wrong answer. Beside it stands what checking costs first. Time is the thread's
//! own, so what else the machine does counts little.

mod blocks;
mod columns;
mod compare;
mod others;
mod ours;

use std::hint::black_box;

use anyhow::{Context, ensure};
use arrow_array::ArrayRef;

use crate::{
    args::Args,
    machine,
    samples::Samples,
    table::{Row, Table, Verdict, mib},
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

/// Bytes of different blocks: more than a share of a large cache.
const BYTES: usize = 640 << 20;
/// Over which more than 2 GiB are walked.
const ROUNDS: usize = 4;
/// What ours should reach, in GB/s.
const GOALS: [(Order, usize, Option<f64>); 8] = [
    (Order::Kept, 1, Some(6.0)),
    (Order::Kept, 4, Some(5.0)),
    (Order::Kept, 20, Some(2.5)),
    (Order::Kept, 92, Some(1.2)),
    (Order::Shuffled, 1, Some(2.0)),
    (Order::Shuffled, 4, Some(1.8)),
    (Order::Shuffled, 20, Some(1.2)),
    (Order::Shuffled, 92, None),
];

/// Measures on one core and adds the rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let (bytes, rounds) = if args.quick { (BYTES / 16, 1) } else { (BYTES, args.rounds().max(ROUNDS)) };
    // A thread of its own, so that nothing else is kept to its core.
    std::thread::scope(|scope| {
        let work = scope.spawn(|| -> anyhow::Result<()> {
            machine::keep_to(1)?;
            for order in [Order::Kept, Order::Shuffled] {
                eprintln!("making {} of events, {}", mib(bytes as u64), order.name());
                let blocks = blocks(order, bytes);
                if order == Order::Kept {
                    checks(&blocks, rounds, table)?;
                }
                for &(_, paths, goal) in GOALS.iter().filter(|(of, ..)| *of == order) {
                    contest(&blocks, order, paths, goal, rounds, table)?;
                }
            }
            Ok(())
        });
        work.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })
}

/// A named measurement: GB/s, a value a round.
struct Speeds {
    name: &'static str,
    samples: Samples,
}

/// What is timed, by name: it takes a block and answers its events.
type Turn<'w> = (&'static str, &'w mut dyn FnMut(&Block) -> anyhow::Result<usize>);

/// Times each contestant by turns over all blocks.
fn race(blocks: &[Block], rounds: usize, contestants: &mut [Turn<'_>]) -> anyhow::Result<Vec<Speeds>> {
    let bytes: usize = blocks.iter().map(|block| block.text.len()).sum();
    let rows: usize = blocks.iter().map(|block| block.batch.len()).sum();
    let mut speeds = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for ((name, work), speeds) in contestants.iter_mut().zip(&mut speeds) {
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
    let named = contestants
        .iter()
        .zip(speeds)
        .map(|((name, _), speeds)| Ok(Speeds { name, samples: Samples::new(speeds)? }));
    named.collect()
}

fn contest(
    blocks: &[Block],
    order: Order,
    paths: usize,
    goal: Option<f64>,
    rounds: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    let wanted = fields(paths);
    let mut contestants = contestants(&wanted)?;
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
    let speeds = race(blocks, rounds, &mut turns)?;
    let (ours, others) = (&speeds[0], &speeds[2..]);
    let best = others.iter().max_by(|a, b| a.samples.median().total_cmp(&b.samples.median()));
    let best = best.context("there is no other")?;
    let told = speeds[1..].iter().map(|speed| format!("{} {:.2}", speed.name, speed.samples.median()));
    let gbps = ours.samples.median();
    let bytes: usize = blocks.iter().map(|block| block.text.len()).sum();
    let what = format!("decode {paths} {} of each event to Arrow, {}", plural(paths), order.name());
    table.push(Row {
        what: what.clone(),
        figure: format!("{gbps:.2} GB/s"),
        conditions: format!(
            "{}one core, {} of different blocks in memory, {rounds} rounds, {:.2} to {:.2}; in the same run, GB/s: {}",
            fault.as_ref().map_or_else(String::new, |fault| format!("{fault}; ")),
            mib(bytes as u64),
            ours.samples.least(),
            ours.samples.most(),
            told.collect::<Vec<_>>().join(", "),
        ),
        needed: goal.map_or_else(String::new, |goal| format!("≥ {goal} GB/s")),
        verdict: match (&fault, goal) {
            (Some(_), _) => Verdict::Wrong,
            (None, Some(goal)) => Verdict::of(gbps >= goal),
            (None, None) => Verdict::Told,
        },
    });
    if order == Order::Kept && [4, 92].contains(&paths) {
        let (rival, least) = if paths == 4 { (best, 4.0) } else { (arrow_json(others).unwrap_or(best), 3.0) };
        let ratio = gbps / rival.samples.median();
        table.push(Row {
            what: format!("{what}: speed to that of {}", rival.name),
            figure: format!("{ratio:.2}"),
            conditions: "medians, by turns".to_owned(),
            needed: format!("≥ {least}"),
            verdict: Verdict::of(ratio >= least),
        });
    }
    Ok(())
}

fn plural(paths: usize) -> &'static str {
    if paths == 1 { "path" } else { "paths" }
}

fn arrow_json(others: &[Speeds]) -> Option<&Speeds> {
    others.iter().find(|speed| speed.name == others::ARROW_JSON)
}

/// The decoder of so many fields.
pub(crate) fn ours(paths: usize) -> Ours {
    Ours::new(&fields(paths), false)
}

/// What it makes of a block.
pub(crate) fn columns_of(ours: &mut Ours, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
    ours.decode(block)
}

/// Ours first, then ours with the check before it, then all others.
fn contestants(wanted: &[Field]) -> anyhow::Result<Vec<Box<dyn Contestant>>> {
    let mut all: Vec<Box<dyn Contestant>> =
        vec![Box::new(Ours::new(wanted, false)), Box::new(Ours::new(wanted, true))];
    all.extend(others::all(wanted)?);
    Ok(all)
}

/// What it costs to know that events are valid, before anything is made of them.
fn checks(blocks: &[Block], rounds: usize, table: &mut Table) -> anyhow::Result<()> {
    let mut simd_json = others::SimdJson::new(&[]);
    let speeds = race(
        blocks,
        rounds,
        &mut [
            ("check", &mut ours::check),
            ("serde_json into `IgnoredAny`", &mut others::serde_json_ignoring),
            ("simd-json into a tape", &mut |block| simd_json.tapes(block)),
        ],
    )?;
    let told = speeds[1..].iter().map(|speed| format!("{} {:.2}", speed.name, speed.samples.median()));
    let own = &speeds[0].samples;
    table.push(Row {
        what: "split and check: UTF-8 and the whole grammar".to_owned(),
        figure: format!("{:.2} GB/s", own.median()),
        conditions: format!(
            "one core, {rounds} rounds, {:.2} to {:.2}; in the same run, GB/s: {}",
            own.least(),
            own.most(),
            told.collect::<Vec<_>>().join(", ")
        ),
        needed: String::new(),
        verdict: Verdict::Told,
    });
    Ok(())
}
