//! Measures equality queries, one to a hundred thousand, on one path and spread over fifty, with 1 % of the events matching.
//! They run in the process from a mapped file, and over HTTP with the sender on the same cores.
//!
//! All points read one file, in which every set of queries has its own matches.

use anyhow::ensure;
use bytes::Bytes;

use crate::{
    args::Args,
    data::Load,
    http_load::{self, Sent},
    machine,
    measured::Measured,
    samples::Samples,
    server::Running,
    table::{Row, Table, Verdict, grouped, mib},
    task::{Kind, Task},
    workload::{EQUALITY_SETS, Spec},
};

const EVENTS_MIN: f64 = 2e6;
const HTTP_EVENTS_MIN: f64 = 800e3;
const RATIO_MAX: f64 = 1.25;
const STREAM: &str = "load";

/// Runs all points by turns and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    eprintln!("making {} of events for equality queries", mib(args.file_bytes()));
    let load = Load::generate(&args.data(), Spec::Equality, args.file_bytes())?;
    let mut first = 0;
    let tasks = EQUALITY_SETS.map(|(queries, paths)| {
        let task = Task { first, ..Task::new(Kind::Engine, Spec::Equality, queries, args.tuning) };
        first += queries;
        (name(queries, paths), task)
    });
    let all = Measured::by_turns(&load, &tasks, args.rounds())?;
    for ((what, _), measured) in tasks.iter().zip(&all) {
        table.push(measured.row(&format!("{what}, in the process"), Some(EVENTS_MIN))?);
    }
    for (place, (queries, paths)) in EQUALITY_SETS.into_iter().enumerate().skip(3) {
        let ratio = all[place].ratio(&all[0], |run| run.seconds)?;
        let busy = all[place].ratio(&all[0], |run| run.cpu_seconds)?.median();
        let what = format!("cost of {} to that of one query, in the process", name(queries, paths));
        table.push(ratio_row(what, &ratio, &format!("; {busy:.2} by processor time")));
    }
    over_http(args, table, &load, &tasks)
}

fn name(queries: usize, paths: usize) -> String {
    let plural = if queries == 1 { "query" } else { "queries" };
    match paths {
        _ if queries == 1 => format!("1 equality {plural}"),
        1 => format!("{} equality {plural} on one path", grouped(queries as u64)),
        _ => format!("{} equality {plural} over {paths} paths", grouped(queries as u64)),
    }
}

fn ratio_row(what: String, ratio: &Samples, more: &str) -> Row {
    Row {
        what,
        figure: format!("{:.2}", ratio.median()),
        conditions: format!("by turns, {:.2} to {:.2}{more}", ratio.least(), ratio.most()),
        needed: format!("< {RATIO_MAX}"),
        verdict: Verdict::of(ratio.median() < RATIO_MAX),
    }
}

fn over_http(args: &Args, table: &mut Table, load: &Load, tasks: &[(String, Task)]) -> anyhow::Result<()> {
    // SAFETY: the file has no name, and whoever holds it only reads it by now.
    let mapped = unsafe { memmap2::Mmap::map(&load.file) }?;
    let bytes = Bytes::from_owner(mapped);
    ensure!(bytes.len() as u64 == load.bytes, "the file has another length than was written");
    let mut all: Vec<Vec<Sent>> = tasks.iter().map(|_| Vec::new()).collect();
    let mut faults: Vec<Option<String>> = vec![None; tasks.len()];
    let mut what = "";
    for round in 1..=args.rounds() {
        for (place, (name, task)) in tasks.iter().enumerate() {
            // A server that has just begun is as good as one of many rounds, and its queries' counts are this round's.
            let server = Running::start()?;
            what = server.what;
            let ids = http_load::start_detached(server.address, STREAM, &task.queries())?;
            let sent = http_load::send(server.address, STREAM, &bytes, machine::cores())?;
            eprintln!("round {round}: {name}, over HTTP: {:.2} GB/s", load.bytes as f64 / sent.seconds / 1e9);
            let truth = &load.truth[task.first..task.first + task.standing];
            let counts = http_load::matches(server.address, &ids)?;
            let wrong = counts.iter().zip(truth).filter(|(found, truth)| found != truth).count();
            if wrong > 0 {
                faults[place] = Some(format!("{wrong} of {} counts are wrong", truth.len()));
            } else if sent.accepted != load.events || sent.rejected != 0 {
                faults[place] = Some(format!(
                    "{} events and {} rejected, not {}",
                    sent.accepted, sent.rejected, load.events
                ));
            }
            all[place].push(sent);
        }
    }
    for (((name, _), sent), fault) in tasks.iter().zip(&all).zip(faults) {
        let speed = Samples::new(sent.iter().map(|sent| load.events as f64 / sent.seconds).collect())?;
        table.push(Row {
            what: format!("{name}, over HTTP"),
            figure: format!("{} events/s", grouped(speed.median() as u64)),
            conditions: format!(
                "{}{what}, {} in bodies of {} over {} connections, the sender on the same {} cores; {} to {} events/s \
                 in {} runs",
                fault.as_ref().map_or_else(String::new, |fault| format!("{fault}; ")),
                mib(load.bytes),
                mib(http_load::BODY_BYTES as u64),
                machine::cores(),
                machine::cores(),
                grouped(speed.least() as u64),
                grouped(speed.most() as u64),
                speed.len(),
            ),
            needed: format!("≥ {} events/s", grouped(HTTP_EVENTS_MIN as u64)),
            verdict: match fault {
                Some(_) => Verdict::Wrong,
                None => Verdict::of(speed.median() >= HTTP_EVENTS_MIN),
            },
        });
    }
    for place in 3..tasks.len() {
        let ratios = all[place].iter().zip(&all[0]).map(|(many, one)| many.seconds / one.seconds);
        let ratio = Samples::new(ratios.collect())?;
        table.push(ratio_row(
            format!("cost of {} to that of one query, over HTTP", tasks[place].0),
            &ratio,
            "",
        ));
    }
    Ok(())
}
