//! Measures concurrent aggregations: a thousand of each kind at once, and the cost of queries of one shape that share it.
//!
//! All match about a tenth of the events, by the field `l1` (1,000 to 9,999). Answers are checked against a count of `l1`
//! made while the events were written: the number of events in the groups, and the number of distinct values.

use std::collections::HashMap;

use crate::{
    args::Args,
    data::Load,
    machine,
    samples::Samples,
    table::{Row, Table, Verdict, grouped, mib},
    task::{Kind, Outcome, Set, Task},
    workload::Spec,
};

/// Queries of a set.
const MANY: usize = 1000;

/// The share of a count of distinct values by which it may be off: three standard deviations and more.
const DISTINCT_ERROR: f64 = 0.05;

impl Set {
    /// Below which `l1` the query of this place keeps events: of 9,000 values 450 to 1,449, so a tenth on average.
    fn below(self, place: usize) -> usize {
        match self {
            Set::OneMeaning => 1900,
            Set::GroupBy => 1450 + place / 10 * 10,
            Set::ManyConstants | Set::CountDistinct | Set::Quantile | Set::Top => 1450 + place,
        }
    }

    /// The text of the query of this place.
    pub(crate) fn query(self, place: usize) -> String {
        let below = self.below(place);
        match self {
            Set::OneMeaning => {
                let filter =
                    if place.is_multiple_of(2) { format!("l1 < {below}") } else { format!("{below} > l1") };
                format!(
                    "SELECT l2 % 10 AS g{place}, COUNT(*) AS n, SUM(l3) AS s FROM STREAM(MAX, TIME) WHERE {filter} \
                     GROUP BY l2 % 10 ORDER BY n LIMIT {}",
                    place + 10
                )
            }
            Set::ManyConstants => format!(
                "SELECT l2 % 10 AS g, COUNT(*) AS n, SUM(l3) AS s FROM STREAM(MAX, TIME) WHERE l1 < {below} \
                 GROUP BY l2 % 10"
            ),
            Set::GroupBy => format!(
                "SELECT l2 % {modulus} AS g, COUNT(*) AS n, SUM(l3) AS s FROM STREAM(MAX, TIME) WHERE l1 < {below} \
                 GROUP BY l2 % {modulus}",
                modulus = 2 + place % 10
            ),
            Set::CountDistinct => {
                format!("SELECT COUNT(DISTINCT s60) AS n FROM STREAM(MAX, TIME) WHERE l1 < {below}")
            }
            Set::Quantile => format!(
                "SELECT QUANTILE(l2, MANUAL, 0.5, 0.9, 0.99) FROM STREAM(MAX, TIME) WHERE l1 < {below}"
            ),
            Set::Top => format!("SELECT TOP(10, l4 % 100) FROM STREAM(MAX, TIME) WHERE l1 < {below}"),
        }
    }

    /// The fault in the answer of the query of this place: the sum of its column `n`, and its records.
    fn fault(self, place: usize, (sum, records): (u64, u64), load: &Load) -> Option<String> {
        let truth: u64 = load.groups.iter().take(self.below(place)).map(|(count, _)| count).sum();
        let is_right = match self {
            Set::OneMeaning | Set::ManyConstants | Set::GroupBy => sum == truth,
            Set::CountDistinct => (sum as f64 - truth as f64).abs() <= truth as f64 * DISTINCT_ERROR,
            Set::Quantile => records == 3,
            Set::Top => records == 10,
        };
        (!is_right).then(|| format!("query {place} has {records} records of {sum} events, not {truth}"))
    }
}

/// A set, and how many of its queries stand.
type Point = (Set, usize);

/// Runs all points by turns and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let bytes = args.file_bytes() / 4;
    eprintln!("making {} of events", mib(bytes));
    let load = Load::generate(&args.data(), Spec::Published { queries: 1 }, bytes)?;
    let points: [(Point, &str); 7] = [
        ((Set::OneMeaning, 1), "one GROUP BY"),
        ((Set::OneMeaning, MANY), "1,000 GROUP BY of one meaning, written differently"),
        ((Set::ManyConstants, MANY), "1,000 GROUP BY that differ in a constant of the filter"),
        ((Set::GroupBy, MANY), "1,000 GROUP BY of 10 shapes"),
        ((Set::CountDistinct, MANY), "1,000 COUNT DISTINCT"),
        ((Set::Quantile, MANY), "1,000 QUANTILE"),
        ((Set::Top, MANY), "1,000 TOP"),
    ];
    let mut all: HashMap<Point, Vec<Outcome>> = HashMap::new();
    let mut faults: HashMap<Point, String> = HashMap::new();
    for round in 1..=args.rounds() {
        for &(point, what) in &points {
            let task = Task::new(Kind::Shared(point.0), load.spec, point.1, args.tuning);
            let outcome = task.run(&load)?;
            eprintln!(
                "round {round}: {what}: {:.2} s, {:.2} s to submit",
                outcome.seconds, outcome.submit_seconds
            );
            if let Some(fault) = fault(point, &outcome, &load) {
                faults.insert(point, fault);
            }
            all.entry(point).or_default().push(outcome);
        }
    }
    for (point, what) in points {
        let outcomes = &all[&point];
        let speed = Samples::new(outcomes.iter().map(|run| load.events as f64 / run.seconds).collect())?;
        let memory = Samples::new(outcomes.iter().map(|run| run.bytes_per_query as f64).collect())?;
        let conditions = format!(
            "each keeps a tenth of the events; {} mapped, {} cores; {} to {} events/s in {} runs; {} bytes a query",
            mib(load.bytes),
            machine::cores(),
            grouped(speed.least() as u64),
            grouped(speed.most() as u64),
            outcomes.len(),
            grouped(memory.median() as u64),
        );
        let fault = faults.get(&point);
        table.push(Row {
            what: what.to_owned(),
            figure: format!("{} events/s", grouped(speed.median() as u64)),
            conditions: fault.map_or_else(String::new, |fault| format!("{fault}; ")) + &conditions,
            needed: String::new(),
            verdict: if fault.is_some() { Verdict::Wrong } else { Verdict::Told },
        });
    }
    let one = &all[&(Set::OneMeaning, 1)];
    for (set, what, most) in [
        (Set::OneMeaning, "cost of 1,000 of one meaning to that of one", 2.0),
        (Set::ManyConstants, "cost of 1,000 that differ in a constant to that of one", 5.0),
    ] {
        let ratios = all[&(set, MANY)].iter().zip(one).map(|(many, one)| many.seconds / one.seconds);
        let ratios = Samples::new(ratios.collect())?;
        table.push(Row {
            what: what.to_owned(),
            figure: format!("{:.2}", ratios.median()),
            conditions: format!("by turns, {:.2} to {:.2}", ratios.least(), ratios.most()),
            needed: format!("< {most}"),
            verdict: Verdict::of(ratios.median() < most),
        });
    }
    Ok(())
}

/// The fault of a run's answers, if there is one.
fn fault((set, standing): Point, outcome: &Outcome, load: &Load) -> Option<String> {
    if outcome.events != load.events || outcome.rejected != 0 {
        let Outcome { events, rejected, .. } = outcome;
        return Some(format!("{events} events and {rejected} rejected, not {}", load.events));
    }
    if outcome.answers.len() != standing {
        return Some(format!("{} answers, not {standing}", outcome.answers.len()));
    }
    outcome.answers.iter().enumerate().find_map(|(place, answer)| set.fault(place, *answer, load))
}
