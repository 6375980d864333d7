//! Measures objects derived from a view, or beside one: a view over it, events joined with its rows, an alert on it, and
//! pairs of two streams. Each runs over a new directory, with the same events by the same keys, until all results are out.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use swiftwater_testkit::Rng;

use super::pairs::{DECLARED, push};
use crate::{
    args::Args,
    bodies::Bodies,
    sending::{Plan, Sending},
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

const KEYS: usize = 100_000;
const EVENTS: usize = 6_000_000;
const EVENTS_QUICK: usize = 600_000;
const PLACES: usize = 1000;
/// Time until all results must be there.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(20);

/// One thing that is made of the events.
struct Case {
    what: &'static str,
    /// The statements besides the view by key; the rows of `place_of` are there before any event.
    declared: &'static str,
    /// Asks for one number, and what it must come to in the end.
    asked: &'static str,
    expected: fn(&DerivedInput) -> u64,
}

const CASES: [Case; 4] = [
    Case {
        what: "a view by key",
        declared: "",
        asked: "SELECT CAST(sum(total) AS BIGINT) AS x FROM by_key",
        expected: |made| made.total,
    },
    Case {
        what: "a view by key, and a view over its rows",
        declared: "CREATE MATERIALIZED VIEW by_count AS \
             SELECT n, COUNT(*) AS keys, SUM(total) AS total FROM STREAM(by_key) GROUP BY n",
        asked: "SELECT CAST(sum(total) AS BIGINT) AS x FROM by_count",
        expected: |made| made.total,
    },
    Case {
        what: "a view by key, and a view of the events joined with a row each",
        declared: "CREATE MATERIALIZED VIEW by_place AS SELECT p.place, COUNT(*) AS n, SUM(e.v) AS total \
             FROM STREAM(pairs) AS e JOIN place_of AS p ON p.k = e.k GROUP BY p.place",
        asked: "SELECT CAST(sum(total) AS BIGINT) AS x FROM by_place",
        expected: |made| made.total,
    },
    Case {
        what: "a view by key, and an alert on it into a stream",
        declared: "CREATE STREAM told WITH (store = true); \
             CREATE ALERT often ON by_key WHEN n >= {often} INTO told WITH (resolve = false)",
        asked: "SELECT count(*) AS x FROM told",
        expected: |made| made.often_keys,
    },
];

/// Events, and what they come to.
struct DerivedInput {
    bodies: Arc<Bodies>,
    total: u64,
    /// The count from which a key is frequent: about half of the keys are.
    often: u64,
    /// Keys that came so often.
    often_keys: u64,
}

/// Measures and adds the rows.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let events = if args.quick { EVENTS_QUICK } else { EVENTS };
    let made = make(events)?;
    for case in &CASES {
        table.push(of_case(directory, case, &made)?);
    }
    table.push(of_pairs(directory, events / 2)?);
    Ok(())
}

fn make(events: usize) -> anyhow::Result<DerivedInput> {
    let (mut rng, mut text, mut total) = (Rng::new(1), Vec::with_capacity(events * 22), 0);
    let mut times = vec![0; KEYS];
    for _ in 0..events {
        let (key, number) = (rng.below(KEYS), rng.below(1000));
        push(&mut text, key, number);
        total += number as u64;
        times[key] += 1;
    }
    let often = (events / KEYS) as u64;
    let often_keys = times.iter().filter(|&&times: &&u64| times >= often).count() as u64;
    Ok(DerivedInput { bodies: Arc::new(Bodies::of(text.into())?), total, often, often_keys })
}

fn of_case(directory: &Path, case: &Case, made: &DerivedInput) -> anyhow::Result<Row> {
    let stored = Stored::start(directory, &[])?;
    stored.declare(DECLARED)?;
    if case.declared.contains("place_of") {
        stored.declare(
            "CREATE STREAM moves (k LONG NOT NULL, place LONG NOT NULL); \
             CREATE MATERIALIZED VIEW place_of AS SELECT k, LAST(place) AS place FROM STREAM(moves) GROUP BY k",
        )?;
        let lines: String =
            (0..KEYS).map(|key| format!("{{\"k\":{key},\"place\":{}}}\n", key % PLACES)).collect();
        let bodies = Arc::new(Bodies::of(lines.into())?);
        let count = bodies.holding(KEYS as u64);
        Sending::start(&Plan::all(stored.server()?.address, "moves", &bodies, count))?.finish()?;
        stored.wait_for_views()?;
    }
    if !case.declared.is_empty() {
        stored.declare(&case.declared.replace("{often}", &made.often.to_string()))?;
    }
    let events = made.bodies.events(made.bodies.len());
    let start = Instant::now();
    let plan = Plan::all(stored.server()?.address, "pairs", &made.bodies, made.bodies.len());
    let sent = Sending::start(&plan)?.finish()?;
    stored.wait_for_views()?;
    let expected = (case.expected)(made);
    let (found, seconds) = (until(&stored, case.asked, expected)?, start.elapsed().as_secs_f64());
    Ok(row(
        case.what,
        events as f64 / seconds,
        format!(
            "{} events of {} keys, {} told of {}; acknowledged at {} events/s",
            grouped(events),
            grouped(KEYS as u64),
            grouped(found),
            grouped(expected),
            grouped((sent.events as f64 / sent.seconds) as u64),
        ),
        found == expected,
    ))
}

/// Events of two streams that come at once, each with one of the other.
fn of_pairs(directory: &Path, of_each: usize) -> anyhow::Result<Row> {
    let stored = Stored::start(directory, &[])?;
    stored.declare(
        "CREATE STREAM asked (k LONG NOT NULL, v LONG, at TIMESTAMP(ms), WATERMARK FOR at AS at - INTERVAL '60 seconds'); \
         CREATE STREAM given (k LONG NOT NULL, v LONG, at TIMESTAMP(ms), WATERMARK FOR at AS at - INTERVAL '60 seconds'); \
         CREATE STREAM both (k LONG, a LONG, b LONG); \
         CREATE JOIN together INTO both AS SELECT a.k AS k, a.v AS a, b.v AS b FROM STREAM(asked) AS a JOIN STREAM(given) AS b \
         ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL '1 second'",
    )?;
    // A hundred a millisecond, so that bodies on several connections pass one another by less than the lateness.
    let lines = |lag: usize| -> String {
        let line = |number: usize| {
            format!("{{\"k\":{number},\"v\":{},\"at\":{}}}\n", number % 1000, number / 100 + lag)
        };
        (0..of_each).map(line).collect()
    };
    let bodies = [Bodies::of(lines(0).into())?, Bodies::of(lines(500).into())?].map(Arc::new);
    let start = Instant::now();
    let sending = ["asked", "given"].iter().zip(&bodies).map(|(stream, bodies)| {
        Sending::start(&Plan::all(stored.server()?.address, stream, bodies, bodies.len()))
    });
    for sending in sending.collect::<anyhow::Result<Vec<_>>>()? {
        sending.finish()?;
    }
    let sent = start.elapsed().as_secs_f64();
    let asked =
        "SELECT CAST(sum(CASE WHEN a = b AND a = k % 1000 THEN 1 ELSE 0 END) AS BIGINT) AS x FROM both";
    let (found, seconds) = (until(&stored, asked, of_each as u64)?, start.elapsed().as_secs_f64());
    let events = 2 * of_each;
    Ok(row(
        "two streams joined with one another, a pair of every two events",
        events as f64 / seconds,
        format!(
            "{} events of each stream at once, {} pairs told of {}; acknowledged at {} events/s",
            grouped(of_each as u64),
            grouped(found),
            grouped(of_each as u64),
            grouped((events as f64 / sent) as u64),
        ),
        found == of_each as u64,
    ))
}

/// The one number that a statement tells, when it is this much, or when that has taken too long.
fn until(stored: &Stored, asked: &str, expected: u64) -> anyhow::Result<u64> {
    let (start, mut asker) = (Instant::now(), stored.asker()?);
    loop {
        let rows = asker.ask(asked)?;
        ensure!(rows.len() == 1, "`{asked}` has {} rows", rows.len());
        // A sum of no rows is null.
        let found =
            if rows[0]["x"].is_null() { 0 } else { rows[0]["x"].as_u64().context("a sum is no number")? };
        if found >= expected || start.elapsed() > PATIENCE {
            return Ok(found);
        }
        thread::sleep(LOOK);
    }
}

fn row(what: &str, rate: f64, conditions: String, is_right: bool) -> Row {
    Row {
        what: format!("from NDJSON into {what}"),
        figure: format!("{} events/s", grouped(rate as u64)),
        conditions: format!(
            "{}the release binary, sender on the same machine, ack=disk; {conditions}",
            if is_right { "" } else { "what is told is wrong; " }
        ),
        needed: "–".to_owned(),
        verdict: if is_right { Verdict::Told } else { Verdict::Wrong },
    }
}
