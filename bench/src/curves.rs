//! Measures the cost of an event as a curve. The variables are the number of queries, of matches, of paths and of cores, and
//! the events' size.

use std::fmt::Write;

use crate::{
    args::Args,
    data::Load,
    machine,
    plot::{self, Curve},
    table::{Row, Table, Verdict, grouped},
    task::{Kind, Task},
    workload::Spec,
};

/// One measured point.
struct Point {
    x: f64,
    events_per_second: f64,
    bytes_per_event: f64,
    cores: f64,
}

/// The quantity that varies, and its values.
struct Sweep {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    xs: Vec<usize>,
    /// The events, the queries that stand and the cores, for a number.
    point: fn(usize) -> (Spec, usize, usize),
}

const MANY: usize = 1000;

fn planted(queries: usize, paths: usize, matches_per_thousand: usize) -> Spec {
    Spec::Planted { queries, paths, matches_per_thousand }
}

fn sweeps(is_quick: bool) -> Vec<Sweep> {
    let most = if is_quick { 10_000 } else { 1_000_000 };
    vec![
        Sweep {
            name: "queries",
            title: "Cost of an event by standing queries (equality, over 50 paths, 1 % of events match)",
            axis: "standing queries",
            xs: [1, 10, 100, 1000, 10_000, 100_000, 1_000_000].into_iter().filter(|&x| x <= most).collect(),
            point: |x| (planted(x, x.min(50), 10), x, 0),
        },
        Sweep {
            name: "matches",
            title: "Cost of an event by its matches (10,000 queries over 50 paths, whole events out)",
            axis: "matches of a thousand events",
            xs: vec![1, 10, 100, 1000, 10_000, 50_000],
            point: |x| (planted(10_000, 50, x), 10_000, 0),
        },
        Sweep {
            name: "paths",
            title: "Cost of an event by paths read (1,000 equality queries, 1 % of events match)",
            axis: "paths",
            xs: vec![1, 2, 5, 10, 20, 50],
            point: |x| (planted(MANY, x, 10), MANY, 0),
        },
        Sweep {
            name: "sizes",
            title: "Cost of an event by its size (1,000 equality queries on one path)",
            axis: "bytes of an event",
            xs: vec![100, 300, 1000, 3000, 10_000, 100_000, 1_000_000],
            point: |x| (Spec::Sized { bytes: x }, MANY, 0),
        },
        Sweep {
            name: "cores",
            title: "Cost of an event by cores (1,000 equality queries over 50 paths)",
            axis: "cores",
            xs: (1..=machine::cores()).collect(),
            point: |x| (planted(MANY, 50, 10), MANY, x),
        },
    ]
}

/// Measures all curves, adds a row for each, and draws them where results are written down.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let mut numbers =
        "curve,x,events_per_second,nanoseconds_per_event,bytes_per_event,cores_busy\n".to_owned();
    for sweep in sweeps(args.quick) {
        let mut points = Vec::new();
        let mut fault = None;
        for &x in &sweep.xs {
            let (spec, standing, cores) = (sweep.point)(x);
            let load = Load::generate(&args.data(), spec, args.file_bytes() / 8)?;
            let task = Task { cores, ..Task::new(Kind::Engine, spec, standing, args.tuning) };
            let outcome = task.run(&load)?;
            let wrong = task.fault(&load, &outcome);
            fault = fault.or(wrong.map(|wrong| format!("at {x}: {wrong}")));
            let point = Point {
                x: x as f64,
                events_per_second: load.events as f64 / outcome.seconds,
                bytes_per_event: load.bytes as f64 / load.events as f64,
                cores: outcome.cpu_seconds / outcome.seconds,
            };
            eprintln!(
                "{}: {}: {} events/s",
                sweep.name,
                grouped(x as u64),
                grouped(point.events_per_second as u64)
            );
            let Point { x, events_per_second, bytes_per_event, cores } = point;
            let nanos = 1e9 / events_per_second;
            writeln!(
                numbers,
                "{},{x},{events_per_second:.0},{nanos:.1},{bytes_per_event:.0},{cores:.2}",
                sweep.name
            )?;
            points.push(point);
        }
        let told = points
            .iter()
            .map(|point| format!("{}: {}", grouped(point.x as u64), grouped(point.events_per_second as u64)));
        table.push(Row {
            what: sweep.title.to_owned(),
            figure: told.collect::<Vec<_>>().join("; ") + " events/s",
            conditions: format!(
                "{}in the process, all cores unless said, one run each; results/{}.svg",
                fault.as_ref().map_or_else(String::new, |fault| format!("{fault}; ")),
                sweep.name
            ),
            needed: String::new(),
            verdict: if fault.is_some() { Verdict::Wrong } else { Verdict::Told },
        });
        if args.write {
            let curve = Curve {
                title: sweep.title,
                axis: sweep.axis,
                points: points.iter().map(|point| (point.x, 1e9 / point.events_per_second)).collect(),
            };
            plot::draw(&args.results().join("results"), sweep.name, &curve)?;
        }
    }
    if args.write {
        plot::numbers(&args.results().join("results"), &numbers)?;
    }
    Ok(())
}
