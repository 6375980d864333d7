//! The results of all rounds of one point, and the table row that reports them.

use crate::{
    data::Load,
    machine,
    samples::Samples,
    table::{Row, Verdict, grouped, mib},
    task::{Outcome, Task},
};

/// All rounds of a point.
pub(crate) struct Measured {
    outcomes: Vec<Outcome>,
    bytes: u64,
    events: u64,
    fault: Option<String>,
}

/// One round, for whoever watches.
pub(crate) fn round_text(what: &str, load: &Load, outcome: &Outcome) -> String {
    format!(
        "{what}: {:.2} GB/s, {:.2} s of processor time a GB, {:.2} cores, {} page faults, {:.2} s to submit",
        load.bytes as f64 / outcome.seconds / 1e9,
        outcome.cpu_seconds / load.bytes as f64 * 1e9,
        outcome.cpu_seconds / outcome.seconds,
        outcome.minor_faults,
        outcome.submit_seconds,
    )
}

impl Measured {
    pub(crate) fn of(load: &Load) -> Measured {
        Measured { outcomes: Vec::new(), bytes: load.bytes, events: load.events, fault: None }
    }

    /// Adds a round; the first fault is kept.
    pub(crate) fn push(&mut self, outcome: Outcome, fault: Option<String>) {
        self.fault = self.fault.take().or(fault);
        self.outcomes.push(outcome);
    }

    /// Runs tasks by turns over one file, so that what else the machine does falls on all of them alike.
    pub(crate) fn by_turns(
        load: &Load,
        tasks: &[(String, Task)],
        rounds: usize,
    ) -> anyhow::Result<Vec<Measured>> {
        let mut all: Vec<Measured> = tasks.iter().map(|_| Measured::of(load)).collect();
        for round in 1..=rounds {
            for ((what, task), measured) in tasks.iter().zip(&mut all) {
                let outcome = task.run(load)?;
                eprintln!("round {round}: {}", round_text(what, load, &outcome));
                let fault = task.fault(load, &outcome);
                measured.push(outcome, fault);
            }
        }
        Ok(all)
    }

    /// The fault of any round's answers.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub(crate) fn samples(&self, value: impl Fn(&Outcome) -> f64) -> anyhow::Result<Samples> {
        Samples::new(self.outcomes.iter().map(value).collect())
    }

    /// By rounds, a value here to the same value there, an event each.
    pub(crate) fn ratio(&self, other: &Measured, value: impl Fn(&Outcome) -> f64) -> anyhow::Result<Samples> {
        let rounds = self.outcomes.iter().zip(&other.outcomes);
        let scale = other.events as f64 / self.events as f64;
        Samples::new(rounds.map(|(ours, theirs)| value(ours) / value(theirs) * scale).collect())
    }

    /// A row of the table; `least` is how many events a second there should be.
    pub(crate) fn row(&self, what: &str, least: Option<f64>) -> anyhow::Result<Row> {
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
            needed: least.map_or_else(String::new, |least| format!("≥ {} events/s", grouped(least as u64))),
            verdict: match (&self.fault, least) {
                (Some(_), _) => Verdict::Wrong,
                (None, Some(least)) => Verdict::of(events_per_second >= least),
                (None, None) => Verdict::Told,
            },
        })
    }
}
