//! Measures how many queries a few shards can run. Adds queries for the same ten records until the mean time from reading a
//! record to its match exceeds 200 ms.

use std::time::Duration;

use super::bullet::{
    MATCHING, SETTINGS, STREAM, between, bodies, collect, id, mean, post, records, submit_detached, warm_up,
};
use crate::bench::seeds::{
    feed::{Bodies, Feed},
    published::FIGURES,
    scenario::{Context, Measured, Needs, Row, Scenario},
    server::Server,
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-7-queries",
    about: "most queries within 200 ms at 68,400 events/s, on one shard and on two",
    needs: |size| Needs::seconds(size.of(4, 50, 240)),
    run,
};

const RATE: f64 = 68_400.0;
const MATCHED_MS_MAX: f64 = 200.0;

/// The measurements with so many queries.
struct Point {
    queries: usize,
    matched_ms: f64,
    reached: f64,
    cores: f64,
    fault: Option<String>,
}

fn run(context: &Context) -> anyhow::Result<Measured> {
    let rate = context.size.of(1_000.0, RATE, RATE);
    let counts: &[usize] = context.size.of(
        &[20, 350],
        &[50, 140, 240, 350, 400, 450, 500, 550, 600, 650, 2_600, 10_400],
        &[50, 140, 240, 350, 400, 450, 500, 550, 600, 650, 1_300, 2_600, 10_400, 41_600, 83_200],
    );
    let bodies = bodies(0);
    let mut measured = Measured::default();
    let mut lines = Vec::new();
    let mut held = 0;
    for shards in [1, 2] {
        let setting = format!("engine.shards={shards}");
        let settings: Vec<&str> = SETTINGS.into_iter().chain([setting.as_str()]).collect();
        let server = Server::start(context, &settings, false)?;
        let mut points = Vec::new();
        for &queries in counts {
            let point = point(context, &server, &bodies, rate, queries)?;
            let is_over = point.matched_ms >= MATCHED_MS_MAX || point.fault.is_some();
            points.push(point);
            if is_over {
                break;
            }
        }
        for point in &points {
            let what = format!("read to match with {} queries, {shards} shards, mean", point.queries);
            let row = Row::new(what, point.matched_ms, "ms").at_rate(rate, point.reached);
            let row = row.under(format!("{:.2} cores busy", point.cores)).unless(point.fault.clone());
            let key = format!("B7-knee/{}", point.queries);
            let is_published = shards == 2 && FIGURES.iter().any(|figure| figure.key == key);
            measured.rows.push(if is_published { row.beside(key) } else { row });
        }
        let good = points.iter().filter(|point| point.matched_ms < MATCHED_MS_MAX && point.fault.is_none());
        held = good.map(|point| point.queries).max().unwrap_or(0);
        let row = Row::new(format!("most queries within 200 ms, {shards} shards"), held as f64, "queries");
        measured
            .rows
            .push(row.at_rate(rate, points.iter().map(|point| point.reached).fold(f64::MAX, f64::min)));
        let name = if shards == 1 { "one shard" } else { "two shards" };
        lines.push((name, points.iter().map(|point| (point.queries as f64, point.matched_ms)).collect()));
    }
    let theirs = FIGURES.iter().filter_map(|figure| {
        let queries = figure.key.strip_prefix("B7-knee/")?.parse().ok()?;
        Some((queries, figure.figure?))
    });
    lines.push(("published, 20 cores that filter", theirs.collect()));
    measured.plot("Time from read to match", "queries at once", "ms", lines);
    let most = *counts.last().unwrap_or(&0);
    let conditions = format!("on two shards; up to {most} were tried");
    for figure in FIGURES.iter().filter(|figure| figure.key.starts_with("B7/")) {
        let row = Row::new("most queries within 200 ms", held as f64, "queries");
        measured.rows.push(row.beside(figure.key.as_str()).under(conditions.as_str()));
    }
    measured.without("B7-knee/", "not asked at these sizes, or the bound was passed before");
    Ok(measured)
}

fn point(
    context: &Context,
    server: &Server,
    bodies: &Bodies,
    rate: f64,
    queries: usize,
) -> anyhow::Result<Point> {
    let id = id(queries as u64);
    let limit = MATCHING + 1;
    let text = format!("SELECT l1 FROM STREAM({STREAM}, MAX, TIME) WHERE s01 = '{id}' LIMIT {limit}");
    let had = server.events(STREAM)?;
    let ids = submit_detached(context, server, &vec![text; queries])?;
    let feed = Feed::start(context, server, STREAM, bodies, Some(rate))?;
    context.pause(warm_up(context.size))?;
    let before = (context.clock.monotonic_nanos(), server.numbers()?.cpu_seconds());
    let pause = Duration::from_millis(context.size.of(10, 50, 500));
    // Apart from each other, so that the time of each is its own.
    let sent = records(&id, MATCHING, 0).split_inclusive(|byte| *byte == b'\n').try_for_each(|record| {
        post(server, record.to_vec())?;
        context.pause(pause)
    });
    let seconds = (context.clock.monotonic_nanos() - before.0) as f64 / 1e9;
    let cores = (server.numbers()?.cpu_seconds() - before.1) / seconds;
    let fed = feed.end()?;
    sent?;
    let found = collect(context, server, &ids)?;
    let missing = found.iter().filter(|records| records.len() != MATCHING).count();
    let fault = (missing > 0).then(|| format!("{missing} of {queries} queries have not all their records"));
    let fault = fault.or(fed.fault(server.events(STREAM)? - had - MATCHING as u64));
    let times: Vec<f64> =
        found.iter().flatten().filter_map(|record| between(record, "read", "matched")).collect();
    Ok(Point { queries, matched_ms: mean(&times), reached: fed.reached, cores, fault })
}
