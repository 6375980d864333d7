//! Runs the published summaries of readings as they were printed, by the number of SQL's threads, and of its workers. A plain loop over the same
//! events checks their output.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

use super::kept::{HOME, RUNNERS, as_published, is_about, rows_of, scanned};
use crate::bench::seeds::{
    scenario::{Context, Measured, Needs, Row, Scenario},
    server::Server,
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "home-sql",
    about: "the published statements over 10 M readings (1,000 M with --full), on one thread and on two, and on 2 and 3 workers",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 2 << 30, 40 << 30), seconds: size.of(5, 20, 1800) },
    run,
};

/// The published statements: `INSERT OVERWRITE TABLE name SELECT …;`, one a line.
const STATEMENTS: &str = include_str!("../../../../../../examples/smart-home/published.sql");
const TEN_MILLION: u64 = 10_000_000;
const PUBLISHED_MOST: u64 = 1_000_000_000;

fn run(context: &Context) -> anyhow::Result<Measured> {
    let sizes: &[u64] = context.size.of(&[20_000], &[TEN_MILLION], &[TEN_MILLION, PUBLISHED_MOST]);
    let mut measured = Measured::default();
    let mut wanted = ExpectedTotals::default();
    let mut server = HOME.server(context, &[])?;
    let bodies = HOME.bodies(|event| wanted.add(event))?;
    let (mut sent, mut rounds) = (0, 0);
    for &size in sizes {
        let (fed, more) = HOME.send(context, &server, (&bodies, size - sent))?;
        (sent, rounds) = (sent + fed.events, rounds + more);
        anyhow::ensure!(fed.failures == 0, "{} bodies failed", fed.failures);
        HOME.wait(context, &server, 0)?;
        for &runner in RUNNERS {
            let (again, _workers) = runner.start(context, server)?;
            server = again;
            for statement in STATEMENTS.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
                context.check()?;
                let table = statement.split_whitespace().nth(3).context("a statement without a table")?;
                let seconds = as_published(context, &server, statement)?;
                let fault = wanted.fault(&server, table, rounds)?;
                let row = Row::new(format!("{table} over {sent} readings, {runner}"), seconds, "s")
                    .under(scanned(sent, seconds, runner))
                    .unless(fault);
                let key = match size {
                    TEN_MILLION => Some(format!("D7/{table}")).filter(|_| table != "ct"),
                    PUBLISHED_MOST => Some(format!("D9/{table}")).filter(|_| table != "stateUsageDifference"),
                    _ => None,
                };
                measured.rows.push(match key {
                    Some(key) => row.beside(key),
                    None => row,
                });
            }
        }
    }
    if !sizes.contains(&PUBLISHED_MOST) {
        measured.without("D9", "a thousand million readings: only with --full");
    }
    Ok(measured)
}

#[derive(Debug, Clone, Copy)]
struct Usage {
    sum: f64,
    count: u64,
    least: f32,
    most: f32,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { sum: 0.0, count: 0, least: f32::INFINITY, most: f32::NEG_INFINITY }
    }
}

impl Usage {
    fn add(&mut self, power: f32) {
        self.sum += f64::from(power);
        self.count += 1;
        (self.least, self.most) = (self.least.min(power), self.most.max(power));
    }

    fn average(&self) -> f64 {
        self.sum / self.count as f64
    }
}

/// The expected results of the statements over the events of all bodies once.
#[derive(Debug, Default)]
struct ExpectedTotals {
    readings: u64,
    by_metro: BTreeMap<String, Usage>,
    by_state: BTreeMap<String, Usage>,
    /// The usage by house, in Seattle at peak times.
    by_house: BTreeMap<u64, Usage>,
}

impl ExpectedTotals {
    fn add(&mut self, event: &[u8]) {
        let event: Value = serde_json::from_slice(event).expect("it was created as JSON");
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let power = event["power_reading"].as_f64().unwrap_or(f64::NAN) as f32;
        self.readings += 1;
        self.by_metro.entry(text("metro_area")).or_default().add(power);
        self.by_state.entry(text("state")).or_default().add(power);
        if event["is_peak"] == true && event["metro_area"] == "Seattle" {
            self.by_house.entry(event["house_id"].as_u64().unwrap_or(0)).or_default().add(power);
        }
    }

    /// The fault in a statement's output, if it has one.
    fn fault(&self, server: &Server, table: &str, rounds: u64) -> anyhow::Result<Option<String>> {
        let rows = rows_of(server, table)?;
        let name = |row: &Value, column: &str| row[column].as_str().unwrap_or_default().to_owned();
        let (wanted, right) = match table {
            "cityUsage" => (self.by_metro.len(), {
                let is_right = |row: &&Value| {
                    self.by_metro.get(&name(row, "metro_area")).is_some_and(|usage| {
                        is_about(&row["avg_usage"], usage.average())
                            && is_about(&row["min_usage"], f64::from(usage.least))
                            && is_about(&row["max_usage"], f64::from(usage.most))
                    })
                };
                rows.iter().filter(is_right).count()
            }),
            "peakDeviceUsageRange" => (self.by_house.len(), {
                let is_right = |row: &&Value| {
                    let usage = row["house_id"].as_u64().and_then(|house| self.by_house.get(&house));
                    usage.is_some_and(|usage| {
                        is_about(&row["usage_range"], f64::from(usage.most - usage.least))
                    })
                };
                rows.iter().filter(is_right).count()
            }),
            "stateAvgUsage" => (self.by_state.len(), {
                let is_right = |row: &&Value| {
                    let usage = self.by_state.get(&name(row, "state"));
                    usage.is_some_and(|usage| is_about(&row["state_avg_usage"], usage.average()))
                };
                rows.iter().filter(is_right).count()
            }),
            "stateUsageDifference" => (self.by_state.len(), {
                let overall =
                    self.by_state.values().map(Usage::average).sum::<f64>() / self.by_state.len() as f64;
                let is_right = |row: &&Value| {
                    let usage = self.by_state.get(&name(row, "state"));
                    usage.is_some_and(|usage| {
                        is_about(&row["avg_usage_difference"], usage.average() - overall)
                    })
                };
                rows.iter().filter(is_right).count()
            }),
            _ => (1, {
                let counts =
                    rows.iter().flat_map(|row| row.as_object().into_iter().flat_map(|row| row.values()));
                counts.filter(|count| count.as_u64() == Some(self.readings * rounds)).count()
            }),
        };
        Ok((right != wanted || rows.len() != wanted).then(|| {
            format!("`{table}` has {} rows, {right} of them right, {wanted} were wanted", rows.len())
        }))
    }
}
