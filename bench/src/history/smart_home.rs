//! Stores readings of devices in houses, as published, runs the published queries, counts them as they arrive, and after
//! their store stopped.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use swiftwater_generate::Workload;

use super::{
    asked::{self, Question, is_close},
    catching_up,
    duckdb::DuckDb,
    fresh,
    sustained::{self, RequiredRate},
};
use crate::{
    args::Args,
    bodies::Bodies,
    sending::Plan,
    stored::Stored,
    table::{Row, Table, Verdict, grouped, mib},
};

pub(super) const STREAM: &str = "smartHomeData";
pub(super) const DECLARED: &str = "CREATE STREAM smartHomeData (house_id INT, metro_area STRING, state STRING, \
                                   device_id INT, power_reading FLOAT, is_peak BOOLEAN)";
/// Events that are made, and sent again and again.
const MADE: u64 = 2_000_000;
const EVENTS_PER_SECOND_MIN: f64 = 1e6;
const EVENT_BYTES_MAX: f64 = 8.0;

/// Stores, asks, and adds all rows.
pub(super) fn run(
    args: &Args,
    directory: &Path,
    duckdb: Option<&mut DuckDb>,
    table: &mut Table,
) -> anyhow::Result<()> {
    let events = args.history_events();
    let bodies = Arc::new(Bodies::generate(Workload::SmartHome, events.min(MADE))?);
    let stored = Stored::start(directory, &[])?;
    stored.sql(DECLARED)?;
    let count = bodies.holding(events);
    let plan = Plan::all(stored.server()?.address, STREAM, &bodies, count);
    let needed = RequiredRate::Events(EVENTS_PER_SECOND_MIN);
    let (rate, mut delta) = sustained::run(&stored, &plan, "smart-home events", needed, table)?;

    delta.wait_for_commits()?;
    let (bytes, rows) = (delta.bytes(), delta.rows());
    let each = bytes as f64 / rows as f64;
    table.push(Row {
        what: "size on disk, smart-home events".to_owned(),
        figure: format!("{each:.2} bytes an event"),
        conditions: format!(
            "{} events of {:.0} bytes of JSON, in {} files; with the files that were merged into these, which are kept \
             for a day, and the Delta log, {}",
            grouped(rows),
            bodies.bytes(count) as f64 / rows as f64,
            delta.files.len(),
            mib(delta.bytes_with_all()?),
        ),
        needed: format!("< {EVENT_BYTES_MAX} bytes"),
        verdict: Verdict::of(each < EVENT_BYTES_MAX),
    });

    let tally = Tally::of(&bodies, count)?;
    stored.sql(&format!("INSERT OVERWRITE TABLE stateAvgUsage {STATES}"))?;
    asked::run(args, &stored, &delta.paths(), &questions(&tally), duckdb, table)?;

    let half_load = rate.min(EVENTS_PER_SECOND_MIN) / 2.0;
    let plan = Plan { first: count, count: None, rate: Some(half_load), ..plan };
    let sent = fresh::run(args, &stored, &plan, bodies.events(count), table)?;
    let first = count + sent.count;
    delta.wait_for(bodies.events(first))?;
    catching_up::run(args, &stored, &Plan { first, ..plan }, &mut delta, table)
}

const METROS: &str = "SELECT metro_area, avg(power_reading) AS avg_usage, min(power_reading) AS min_usage, \
                      max(power_reading) AS max_usage FROM smartHomeData GROUP BY metro_area";
const HOUSES: &str = "SELECT house_id, (max(power_reading) - min(power_reading)) AS usage_range FROM smartHomeData \
                      WHERE is_peak = true AND metro_area = \"Seattle\" GROUP BY house_id";
const STATES: &str = "SELECT state, avg(power_reading) AS state_avg_usage FROM smartHomeData GROUP BY state";
const DIFFERENCES: &str = "SELECT a2.state, (a2.state_avg_usage-a1.overall_avg) AS avg_usage_difference FROM \
                           (select avg(state_avg_usage) as overall_avg from stateAvgUsage) as a1 join stateAvgUsage as a2";

fn questions(tally: &Tally) -> Vec<Question<'_>> {
    let rows = tally.events;
    let question = |what, text: &str, rows, fault: fn(&Tally, &[Value]) -> Option<String>| Question {
        what,
        ours: text.to_owned(),
        // A text in quotation marks, and a join of all with all, are written otherwise.
        theirs: text.replace('"', "'").replace(" join ", " cross join "),
        before: (text == DIFFERENCES).then(|| format!("CREATE OR REPLACE TABLE stateAvgUsage AS {STATES}")),
        stream: STREAM,
        rows,
        fault: Box::new(move |rows| fault(tally, rows)),
    };
    vec![
        question("Q1, power by metro", METROS, rows, Tally::metros_fault),
        question("Q2, range by house in Seattle", HOUSES, rows, Tally::houses_fault),
        question("Q3, average by state", STATES, rows, Tally::states_fault),
        question("Q4, state to average", DIFFERENCES, 0, Tally::differences_fault),
        question("COUNT", "SELECT count(*) AS n FROM smartHomeData", rows, Tally::count_fault),
    ]
}

/// Values of one group.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    count: u64,
    sum: f64,
    least: f32,
    most: f32,
}

impl Spread {
    const NONE: Spread = Spread { count: 0, sum: 0.0, least: f32::INFINITY, most: f32::NEG_INFINITY };

    fn take(&mut self, value: f32) {
        self.add(&Spread { count: 1, sum: f64::from(value), least: value, most: value }, 1);
    }

    fn add(&mut self, other: &Spread, times: u64) {
        self.count += other.count * times;
        self.sum += other.sum * times as f64;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

/// The totals of the events, by plain search of their text, independent of the measured code.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    events: u64,
    metros: BTreeMap<String, Spread>,
    states: BTreeMap<String, Spread>,
    /// In Seattle, at peak.
    houses: BTreeMap<String, Spread>,
}

impl Tally {
    /// The totals of so many bodies.
    fn of(bodies: &Bodies, count: u64) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for (body, times) in bodies.times(count).filter(|(_, times)| *times > 0) {
            tally.add(&Tally::of_text(std::str::from_utf8(&body.bytes)?)?, times);
        }
        Ok(tally)
    }

    fn of_text(text: &str) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        for line in text.lines() {
            let [house, metro, state, power, peak] =
                ["house_id", "metro_area", "state", "power_reading", "is_peak"].map(|key| member(line, key));
            let power: f32 = power?.parse().context("a power is no number")?;
            let (metro, state) = (metro?, state?);
            tally.events += 1;
            group(&mut tally.metros, metro).take(power);
            group(&mut tally.states, state).take(power);
            if metro == "Seattle" && peak? == "true" {
                group(&mut tally.houses, house?).take(power);
            }
        }
        Ok(tally)
    }

    fn add(&mut self, other: &Tally, times: u64) {
        self.events += other.events * times;
        let pairs = [
            (&mut self.metros, &other.metros),
            (&mut self.states, &other.states),
            (&mut self.houses, &other.houses),
        ];
        for (ours, theirs) in pairs {
            for (name, spread) in theirs {
                group(ours, name).add(spread, times);
            }
        }
    }

    fn metros_fault(&self, rows: &[Value]) -> Option<String> {
        groups_fault(rows, "metro_area", &self.metros, |row, spread| {
            is_close(&row["avg_usage"], spread.mean())
                && is_float(&row["min_usage"], spread.least)
                && is_float(&row["max_usage"], spread.most)
        })
    }

    fn houses_fault(&self, rows: &[Value]) -> Option<String> {
        groups_fault(rows, "house_id", &self.houses, |row, spread| {
            is_float(&row["usage_range"], spread.most - spread.least)
        })
    }

    fn states_fault(&self, rows: &[Value]) -> Option<String> {
        groups_fault(rows, "state", &self.states, |row, spread| {
            is_close(&row["state_avg_usage"], spread.mean())
        })
    }

    fn differences_fault(&self, rows: &[Value]) -> Option<String> {
        let means = self.states.values().map(Spread::mean);
        let overall = means.sum::<f64>() / self.states.len() as f64;
        groups_fault(rows, "state", &self.states, |row, spread| {
            // The difference of two nearly equal numbers has fewer correct digits.
            let difference = row["avg_usage_difference"].as_f64();
            difference.is_some_and(|value| (value - (spread.mean() - overall)).abs() < 1e-6)
        })
    }

    fn count_fault(&self, rows: &[Value]) -> Option<String> {
        let is_right = rows.len() == 1 && rows[0]["n"].as_u64() == Some(self.events);
        (!is_right).then(|| format!("{rows:?}, not {}", self.events))
    }
}

fn is_float(value: &Value, expected: f32) -> bool {
    value.as_f64().is_some_and(|value| value as f32 == expected)
}

fn group<'g>(groups: &'g mut BTreeMap<String, Spread>, name: &str) -> &'g mut Spread {
    groups.entry(name.to_owned()).or_insert(Spread::NONE)
}

/// The text of a member's value, without quotation marks; none of them holds an escape, and keys come in no other text.
fn member<'l>(line: &'l str, key: &str) -> anyhow::Result<&'l str> {
    let mut at = 0;
    while let Some(found) = line[at..].find(key) {
        at += found + key.len();
        if let Some(value) = line[at..].strip_prefix("\":") {
            let value = value.strip_prefix('"').unwrap_or(value);
            let end = value.find(['"', ',', '}']).context("a value has no end")?;
            return Ok(&value[..end]);
        }
    }
    anyhow::bail!("an event has no `{key}`")
}

fn groups_fault(
    rows: &[Value],
    key: &str,
    groups: &BTreeMap<String, Spread>,
    is_right: impl Fn(&Value, &Spread) -> bool,
) -> Option<String> {
    let all = || -> anyhow::Result<()> {
        let mut told = BTreeSet::new();
        for row in rows {
            let name = row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
            let group = groups.get(&name).with_context(|| format!("a group `{name}`"))?;
            ensure!(is_right(row, group), "{row}, not of {group:?}");
            ensure!(told.insert(name), "{row} is there twice");
        }
        ensure!(told.len() == groups.len(), "{} groups, not {}", told.len(), groups.len());
        Ok(())
    };
    all().err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
{\"house_id\":3,\"metro_area\":\"Seattle\",\"state\":\"Washington\",\"device_id\":1,\"power_reading\":10.5,\"is_peak\":true}
{\"house_id\":3,\"metro_area\":\"Seattle\",\"state\":\"Washington\",\"device_id\":7,\"power_reading\":4.0,\"is_peak\":true}
{\"house_id\":4,\"metro_area\":\"New York\",\"state\":\"New York\",\"device_id\":1,\"power_reading\":1e2,\"is_peak\":false}
";

    #[test]
    fn answers_are_held_against_the_events() {
        let mut tally = Tally::of_text(TEXT).unwrap();
        let once = Tally::of_text(TEXT).unwrap();
        tally.add(&once, 2);
        assert_eq!(tally.events, 9);
        let seattle =
            json!({"metro_area": "Seattle", "avg_usage": 7.25, "min_usage": 4.0, "max_usage": 10.5});
        let york =
            json!({"metro_area": "New York", "avg_usage": 100, "min_usage": 100.0, "max_usage": 100.0});
        assert_eq!(tally.metros_fault(&[york.clone(), seattle.clone()]), None);
        assert!(tally.metros_fault(std::slice::from_ref(&seattle)).is_some());
        assert!(tally.metros_fault(&[seattle.clone(), seattle]).is_some());
        assert_eq!(tally.houses_fault(&[json!({"house_id": 3, "usage_range": 6.5})]), None);
        assert!(tally.houses_fault(&[json!({"house_id": 3, "usage_range": 6.6})]).is_some());
        let states = [
            json!({"state": "Washington", "avg_usage_difference": -46.375}),
            json!({"state": "New York", "avg_usage_difference": 46.375}),
        ];
        assert_eq!(tally.differences_fault(&states), None);
        assert_eq!(tally.count_fault(&[json!({"n": 9})]), None);
        assert!(tally.count_fault(&[json!({"n": 10})]).is_some());
    }
}
