//! Throughput: how fast events are checked, matched and answered, whole processes on all cores.
//!
//! The points that are compared run by turns, so that what else the machine does falls on all of them alike.

use std::collections::HashMap;

use crate::{
    args::Args,
    child::{Kind, Outcome, Task},
    data::Load,
    machine,
    samples::Samples,
    table::{Row, Table, Verdict, grouped, mib},
};

/// A point, by kind and by standing queries.
type Point = (Kind, usize);

/// What all rounds of a point found.
struct Measured {
    outcomes: Vec<Outcome>,
    bytes: u64,
    events: u64,
    fault: Option<String>,
}

/// Runs all points and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let alone =
        [(Kind::Engine, 0), (Kind::Engine, 1), (Kind::Baseline, 1), (Kind::Input, 1), (Kind::InputGroups, 1)];
    let turns: [&[Point]; 3] =
        [&alone, &[(Kind::Engine, 50), (Kind::Engine, 1000)], &[(Kind::Engine, 100), (Kind::Engine, 10_000)]];
    let mut all = HashMap::new();
    for points in turns {
        turn(args, points, &mut all)?;
    }
    let mut row = |what: &str, point: Point| -> anyhow::Result<()> {
        table.push(all[&point].row(what)?);
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
fn turn(args: &Args, points: &[Point], all: &mut HashMap<Point, Measured>) -> anyhow::Result<()> {
    let mut loads: HashMap<usize, Load> = HashMap::new();
    for &(_, queries) in points {
        // Without queries any events will do.
        let planted = queries.max(1);
        if let std::collections::hash_map::Entry::Vacant(vacant) = loads.entry(planted) {
            eprintln!("making {} of events for {planted} queries", mib(args.file_bytes()));
            vacant.insert(Load::generate(&args.data(), planted, args.file_bytes())?);
        }
    }
    for round in 1..=args.rounds() {
        for &(kind, standing) in points {
            let load = &loads[&standing.max(1)];
            let task = Task { kind, planted: load.queries, standing, tuning: args.tuning };
            let outcome = task.run(load)?;
            let gbps = load.bytes as f64 / outcome.seconds / 1e9;
            eprintln!(
                "round {round}: {kind:?}, {standing} queries: {gbps:.2} GB/s, {:.2} s of processor time a GB, \
                 {:.2} cores, {} page faults, {:.2} s to submit",
                outcome.cpu_seconds / load.bytes as f64 * 1e9,
                outcome.cpu_seconds / outcome.seconds,
                outcome.minor_faults,
                outcome.submit_seconds,
            );
            let measured = all.entry((kind, standing)).or_insert_with(|| Measured {
                outcomes: Vec::new(),
                bytes: load.bytes,
                events: load.events,
                fault: None,
            });
            measured.fault = measured.fault.take().or_else(|| fault(task, load, &outcome));
            measured.outcomes.push(outcome);
        }
    }
    Ok(())
}

/// What is wrong with a point's answers, if anything.
fn fault(task: Task, load: &Load, outcome: &Outcome) -> Option<String> {
    if outcome.events != load.events || outcome.rejected != 0 {
        let Outcome { events, rejected, .. } = outcome;
        return Some(format!("{events} events and {rejected} rejected, not {}", load.events));
    }
    if outcome.dropped != 0 {
        return Some(format!("{} records were lost", outcome.dropped));
    }
    if task.kind == Kind::InputGroups {
        let wrong = outcome.groups.iter().zip(&load.groups).filter(|(found, truth)| found != truth).count();
        return (wrong > 0 || outcome.groups.len() != load.groups.len())
            .then(|| format!("{wrong} groups are wrong"));
    }
    let truth = &load.truth[..task.standing];
    let wrong = outcome.matches.iter().zip(truth).filter(|(found, truth)| found != truth).count();
    (wrong > 0 || outcome.matches.len() != truth.len())
        .then(|| format!("{wrong} of {} counts are wrong", truth.len()))
}

impl Measured {
    fn samples(&self, value: impl Fn(&Outcome) -> f64) -> anyhow::Result<Samples> {
        Samples::new(self.outcomes.iter().map(value).collect())
    }

    /// By rounds, a value here to the same value there, an event each.
    fn ratio(&self, other: &Measured, value: impl Fn(&Outcome) -> f64) -> anyhow::Result<Samples> {
        let rounds = self.outcomes.iter().zip(&other.outcomes);
        let scale = other.events as f64 / self.events as f64;
        Samples::new(rounds.map(|(ours, theirs)| value(ours) / value(theirs) * scale).collect())
    }

    fn row(&self, what: &str) -> anyhow::Result<Row> {
        let speed = self.samples(|run| self.events as f64 / run.seconds)?;
        let cores = self.samples(|run| run.cpu_seconds / run.seconds)?;
        let cpu = self.samples(|run| run.cpu_seconds / self.bytes as f64 * 1e9)?;
        let own = self.samples(|run| run.peak_own_bytes as f64)?.most() as u64;
        let peak = self.samples(|run| run.peak_bytes as f64)?.most() as u64;
        let events_per_second = speed.median();
        let megabytes = events_per_second * self.bytes as f64 / self.events as f64 / 1e6;
        let conditions = format!(
            "{:.2} GiB mapped, page cache warm, {:.2} of {} cores busy; {} to {} events/s in {} runs; {:.2} s of \
             processor time a GB; peak memory {} and the file ({})",
            self.bytes as f64 / f64::from(1 << 30),
            cores.median(),
            machine::cores(),
            grouped(speed.least() as u64),
            grouped(speed.most() as u64),
            self.outcomes.len(),
            cpu.median(),
            mib(own),
            mib(peak),
        );
        Ok(Row {
            what: what.to_owned(),
            figure: format!(
                "{} events/s, {} MB/s",
                grouped(events_per_second as u64),
                grouped(megabytes as u64)
            ),
            conditions: match &self.fault {
                Some(fault) => format!("{fault}; {conditions}"),
                None => conditions,
            },
            needed: String::new(),
            verdict: if self.fault.is_some() { Verdict::Wrong } else { Verdict::Told },
        })
    }
}
