//! Measures standing searches over log lines: ten thousand of one to four words, with OR, NOT and phrases, each match
//! delivered; and their cost beside that of a hundred.

use crate::{
    args::Args,
    data::Load,
    measured::Measured,
    table::{Row, Table, Verdict, grouped, mib},
    task::{Kind, Task},
    workload::Spec,
};

const QUERIES: usize = 10_000;
const FEW_QUERIES: usize = 100;
const EVENTS_MIN: f64 = 400e3;
const RATIO_MAX: f64 = 1.25;
/// Each line is compared with many searches, word by word, when it is made.
const BYTES_MAX: u64 = 256 << 20;

/// Runs both points by turns and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let queries = if args.quick { QUERIES / 10 } else { QUERIES };
    let spec = Spec::SearchedLogs { queries };
    let bytes = args.file_bytes().min(BYTES_MAX);
    eprintln!("making {} of log lines for {queries} standing searches", mib(bytes));
    let load = Load::generate(&args.data(), spec, bytes)?;
    let matches = load.truth.iter().sum::<u64>() as f64 / load.events as f64;
    let tasks = [queries, FEW_QUERIES].map(|standing| {
        let name = format!("{} standing searches", grouped(standing as u64));
        (name, Task::new(Kind::Engine, spec, standing, args.tuning))
    });
    let all = Measured::by_turns(&load, &tasks, args.rounds())?;
    let what = format!("{}, {matches:.2} matches a line, each delivered", tasks[0].0);
    table.push(all[0].row(&what, (!args.quick).then_some(EVENTS_MIN))?);
    table.push(all[1].row(&format!("{}, each match delivered", tasks[1].0), None)?);
    let ratio = all[0].ratio(&all[1], |run| run.cpu_seconds)?;
    table.push(Row {
        what: format!("cost of {} to that of {FEW_QUERIES}, by processor time", tasks[0].0),
        figure: format!("{:.2}", ratio.median()),
        conditions: format!("by turns, {:.2} to {:.2}", ratio.least(), ratio.most()),
        needed: if args.quick { String::new() } else { format!("< {RATIO_MAX}") },
        verdict: match args.quick {
            true => Verdict::Told,
            false => Verdict::of(ratio.median() < RATIO_MAX),
        },
    });
    Ok(())
}
