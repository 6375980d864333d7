//! Measures throughput: how fast events are checked, matched and answered, by whole processes on all cores.
//!
//! The compared points run by turns, so that other load of the machine affects all of them alike.

use std::collections::HashMap;

use crate::{
    args::Args,
    data::Load,
    measured::{self, Measured},
    table::{Row, Table, Verdict, grouped, mib},
    task::{Kind, Outcome, Task},
    workload::Spec,
};

/// A point, by kind and by standing queries.
type Point = (Kind, usize);

/// Runs all points and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let alone =
        [(Kind::Engine, 0), (Kind::Engine, 1), (Kind::Baseline, 1), (Kind::Input, 1), (Kind::InputGroups, 1)];
    let turns: [&[Point]; 3] =
        [&alone, &[(Kind::Engine, 50), (Kind::Engine, 1000)], &[(Kind::Engine, 100), (Kind::Engine, 10_000)]];
    let mut all = HashMap::new();
    for points in turns {
        run_points(args, points, &mut all)?;
    }
    let mut row = |what: &str, point: Point| -> anyhow::Result<()> {
        table.push(all[&point].row(what, None)?);
        Ok(())
    };
    for queries in [0, 1, 50, 100, 1000, 10_000] {
        let plural = if queries == 1 { "query" } else { "queries" };
        row(&format!("throughput, {} standing {plural}", grouped(queries as u64)), (Kind::Engine, queries))?;
    }
    row("throughput of one query over an input (`run_input`)", (Kind::Input, 1))?;
    row("throughput of a GROUP BY over an input, 9,000 groups", (Kind::InputGroups, 1))?;
    row("baseline: `serde_json` into `Value`, one field compared", (Kind::Baseline, 1))?;
    let ratio =
        |what: &str, of: Point, to: Point, needed: &str, passes: fn(f64) -> bool| -> anyhow::Result<Row> {
            let (wall, cpu) = (
                all[&of].ratio(&all[&to], |run| run.seconds)?,
                all[&of].ratio(&all[&to], |run| run.cpu_seconds)?,
            );
            Ok(Row {
                what: what.to_owned(),
                figure: format!("{:.2}", wall.median()),
                conditions: format!(
                    "by turns, {:.2} to {:.2}; {:.2} by processor time",
                    wall.least(),
                    wall.most(),
                    cpu.median()
                ),
                needed: needed.to_owned(),
                verdict: Verdict::of(passes(wall.median())),
            })
        };
    let one = (Kind::Engine, 1);
    table.push(ratio("speed with 1 query to baseline's", (Kind::Baseline, 1), one, "≥ 3", |ratio| {
        ratio >= 3.0
    })?);
    let many = ((Kind::Engine, 1000), (Kind::Engine, 50));
    table.push(ratio("cost with 1,000 queries to that with 50", many.0, many.1, "< 1.3", |ratio| {
        ratio < 1.3
    })?);
    Ok(())
}

/// Runs points by turns, each over events made for its queries.
fn run_points(args: &Args, points: &[Point], all: &mut HashMap<Point, Measured>) -> anyhow::Result<()> {
    let mut loads: HashMap<usize, Load> = HashMap::new();
    for &(_, queries) in points {
        // Without queries any events will do.
        let planted = queries.max(1);
        if let std::collections::hash_map::Entry::Vacant(vacant) = loads.entry(planted) {
            eprintln!("making {} of events for {planted} queries", mib(args.file_bytes()));
            vacant.insert(Load::generate(
                &args.data(),
                Spec::Published { queries: planted },
                args.file_bytes(),
            )?);
        }
    }
    for round in 1..=args.rounds() {
        for &(kind, standing) in points {
            let load = &loads[&standing.max(1)];
            let task = Task::new(kind, load.spec, standing, args.tuning);
            let outcome = task.run(load)?;
            eprintln!(
                "round {round}: {}",
                measured::round_text(&format!("{kind:?}, {standing} queries"), load, &outcome)
            );
            let measured = all.entry((kind, standing)).or_insert_with(|| Measured::of(load));
            let fault = fault(task, load, &outcome);
            measured.push(outcome, fault);
        }
    }
    Ok(())
}

/// The fault of a point's answers, if there is one.
fn fault(task: Task, load: &Load, outcome: &Outcome) -> Option<String> {
    if task.kind != Kind::InputGroups {
        return task.fault(load, outcome);
    }
    if outcome.events != load.events || outcome.rejected != 0 {
        let Outcome { events, rejected, .. } = outcome;
        return Some(format!("{events} events and {rejected} rejected, not {}", load.events));
    }
    let wrong = outcome.groups.iter().zip(&load.groups).filter(|(found, truth)| found != truth).count();
    (wrong > 0 || outcome.groups.len() != load.groups.len()).then(|| format!("{wrong} groups are wrong"))
}
