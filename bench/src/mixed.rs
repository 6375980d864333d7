//! Measures the hundred thousand mixed queries that [`crate::workload`] defines: on all cores, JSON included; and the
//! matcher alone on one core.

use crate::{
    args::Args,
    data::Load,
    measured::Measured,
    table::{Row, Table, Verdict, grouped, mib},
    task::{Kind, Task},
    workload::{Answer, Spec},
};

const QUERIES: usize = 100_000;
const EVENTS_MIN: f64 = 1e6;
const MATCHING_EVENTS_MIN: f64 = 1.2e6;

/// Bytes of events for the first estimate of the speed.
const TRIAL_BYTES: u64 = 64 << 20;
/// The longest that one point should take.
const SECONDS_MAX: f64 = 60.0;

/// Bytes of events to run through: as many as requested, unless that would take too long.
fn worth(args: &Args, spec: Spec, queries: usize) -> anyhow::Result<u64> {
    let load = Load::generate(&args.data(), spec, TRIAL_BYTES)?;
    let outcome = Task::new(Kind::Engine, spec, queries, args.tuning).run(&load)?;
    let most = load.bytes as f64 / outcome.seconds * SECONDS_MAX;
    Ok(args.file_bytes().min((most as u64).max(TRIAL_BYTES)))
}

/// Runs all points by turns and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let queries = if args.quick { QUERIES / 10 } else { QUERIES };
    let spec = |answer| Spec::Mixed { queries, answer };
    let bytes = worth(args, spec(Answer::Field), queries)?;
    eprintln!("making {} of events for {queries} mixed queries", mib(bytes));
    let load = Load::generate(&args.data(), spec(Answer::Field), bytes)?;
    let matches = load.truth.iter().sum::<u64>() as f64 / load.events as f64;
    let task = |kind, answer| Task::new(kind, spec(answer), queries, args.tuning);
    let tasks = [
        ("mixed, a field of each match".to_owned(), task(Kind::Engine, Answer::Field)),
        ("mixed, counts".to_owned(), task(Kind::Counts, Answer::Count)),
        ("mixed, the matcher alone".to_owned(), Task { cores: 1, ..task(Kind::Matching, Answer::Count) }),
    ];
    let all = Measured::by_turns(&load, &tasks, args.rounds())?;
    let what = |form: &str| {
        format!("{} mixed queries, {matches:.1} matches an event, {form}", grouped(queries as u64))
    };
    let least = (!args.quick).then_some(EVENTS_MIN);
    table.push(all[0].row(&what("`SELECT` of one field, each match delivered"), least)?);
    table.push(all[1].row(&what("`COUNT(*)`, one answer each at the end"), least)?);
    let alone = &all[2];
    let speed = alone.samples(|run| load.events as f64 / run.stage_seconds)?;
    table.push(Row {
        what: what("from Arrow, matching alone"),
        figure: format!("{} events/s", grouped(speed.median() as u64)),
        conditions: format!(
            "{}one core; {} to {} events/s in {} runs",
            alone.fault().map_or_else(String::new, |fault| format!("{fault}; ")),
            grouped(speed.least() as u64),
            grouped(speed.most() as u64),
            speed.len(),
        ),
        needed: if args.quick {
            String::new()
        } else {
            format!("≥ {} events/s", grouped(MATCHING_EVENTS_MIN as u64))
        },
        verdict: match alone.fault() {
            Some(_) => Verdict::Wrong,
            None if args.quick => Verdict::Told,
            None => Verdict::of(speed.median() >= MATCHING_EVENTS_MIN),
        },
    });
    Ok(())
}
