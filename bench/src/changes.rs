//! Measures adding and ending queries while a hundred thousand run and events flow.

use crate::{
    args::Args,
    data::Load,
    run_changes::{
        self, ADD, CHANGES_PER_SECOND, CHANGING_BATCHES, END, EVENTS_PER_SECOND, PACED, QUIET_BATCHES,
        UNPACED,
    },
    samples::Samples,
    table::{Row, Table, Verdict, grouped},
    task::{Kind, Outcome, Task},
    workload::{Answer, Spec},
};

const QUERIES: usize = 100_000;
const MS_MAX: f64 = 1.0;
/// About the bytes of an event, and more.
const EVENT_BYTES: f64 = 2000.0;

/// Measures in a process of its own and adds the rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let queries = if args.quick { QUERIES / 10 } else { QUERIES };
    let spec = Spec::Mixed { queries, answer: Answer::Field };
    // More than flows in all phases, also if they take longer than they should.
    let seconds = run_changes::phase(args.quick).as_secs_f64() * 5.0;
    let load = Load::generate(&args.data(), spec, (EVENTS_PER_SECOND * EVENT_BYTES * seconds) as u64)?;
    let task = Task::new(Kind::Changes { is_quick: args.quick }, spec, queries, args.tuning);
    let outcome = task.run(&load)?;
    let fault = fault(spec, &outcome);
    let conditions = |more: String| {
        let fault = fault.as_ref().map_or_else(String::new, |fault| format!("{fault}; "));
        format!(
            "{fault}{} mixed queries standing, {} events/s flowing, {more}",
            grouped(queries as u64),
            grouped(EVENTS_PER_SECOND as u64)
        )
    };
    let verdict = |passed| if fault.is_some() { Verdict::Wrong } else { Verdict::of(passed) };
    for (name, what) in [(ADD, "adding a query"), (END, "ending a query")] {
        let samples = Samples::new(outcome.span(name)?.to_vec())?;
        let (p50, p99, most) = (samples.quantile(0.5), samples.quantile(0.99), samples.most());
        table.push(Row {
            what: what.to_owned(),
            figure: format!("p50 {p50:.3} ms, p99 {p99:.3} ms, at most {most:.3} ms"),
            conditions: conditions(format!(
                "{} changes/s of which {} are timed",
                grouped(CHANGES_PER_SECOND as u64),
                grouped(samples.len() as u64)
            )),
            needed: format!("p99 < {MS_MAX} ms"),
            verdict: verdict(p99 < MS_MAX),
        });
    }
    let (paced, most) = (outcome.span(PACED)?[0], outcome.span(UNPACED)?[0]);
    table.push(Row {
        what: "changes a second from one thread".to_owned(),
        figure: grouped(most as u64),
        conditions: conditions(format!(
            "as fast as they are taken; {} where {} were wanted",
            grouped(paced as u64),
            grouped(CHANGES_PER_SECOND as u64)
        )),
        needed: format!("≥ {}", grouped(CHANGES_PER_SECOND as u64)),
        verdict: verdict(most >= CHANGES_PER_SECOND),
    });
    let (quiet, changing) = (outcome.span(QUIET_BATCHES)?, outcome.span(CHANGING_BATCHES)?);
    let told = |batches: &[f64]| format!("p99 ≤ {} µs, slowest ≤ {} µs", batches[0], batches[1]);
    table.push(Row {
        what: "batches from read to matched while queries change".to_owned(),
        figure: told(changing),
        conditions: conditions(format!(
            "{} of {} batches; without changes {}, of {}",
            "bounds of a histogram",
            grouped(changing[2] as u64),
            told(quiet),
            grouped(quiet[2] as u64)
        )),
        needed: String::new(),
        verdict: if fault.is_some() { Verdict::Wrong } else { Verdict::Told },
    });
    Ok(())
}

/// The fault of the counts of the queries that stood all the time: the events are made again, as many as were sent.
fn fault(spec: Spec, outcome: &Outcome) -> Option<String> {
    let mut workload = spec.begin();
    let mut text = Vec::new();
    for _ in 0..outcome.events {
        text.clear();
        workload.write(1, &mut text);
    }
    if outcome.dropped > 0 {
        return Some(format!("{} records were lost", outcome.dropped));
    }
    let wrong = outcome.matches.iter().zip(workload.truth()).filter(|(found, truth)| found != truth).count();
    (wrong > 0 || outcome.matches.len() != workload.truth().len())
        .then(|| format!("{wrong} of {} counts are wrong", workload.truth().len()))
}
