//! Shared code of the matching app's scenarios: the app as its users have it, its requests, and the checks after a load.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use swiftwater_generate::{SwipesSettings, Workload};
use swiftwater_load::{Arrival, Body, Counts, Plan, Report, Request, Template};

use crate::bench::seeds::{
    feed::{Bodies, send},
    scenario::{Context, Row},
    server::Server,
};

/// The app, as `examples/swipes` runs it.
const APP: &str = include_str!("../../../../../../examples/swipes/swipes.sql");
pub(super) const STREAM: &str = "swipes";
pub(super) const USERS: u32 = 50_000;
/// The unit of the rates.
pub(super) const UNIT: &str = "requests/s";
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server of these settings that has the app.
pub(super) fn server(context: &Context, settings: &[&str]) -> anyhow::Result<Server> {
    let server = Server::start(context, settings, true)?;
    server.sql(APP).context("the app cannot be declared")?;
    Ok(server)
}

/// Swipes as one of so many users posts them.
pub(super) fn post(weight: u32, swipers: u32) -> anyhow::Result<Request> {
    let workload = Workload::Swipes(SwipesSettings { swipers, posted: true, ..SwipesSettings::default() });
    workload.begin(1)?;
    let made = move |seed| workload.begin(seed).expect("it could be begun before");
    Ok(Request {
        name: "POST".to_owned(),
        weight,
        method: "POST".to_owned(),
        path: Template::new("/swipe/{left|right}/")?,
        fields: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: Body::Made(Box::new(made)),
    })
}

/// A request for a random user: `what` is `stats` or `matches`.
pub(super) fn get(weight: u32, what: &str) -> anyhow::Result<Request> {
    Ok(Request {
        name: format!("GET {what}"),
        weight,
        method: "GET".to_owned(),
        path: Template::new(&format!("/{what}/{{1..{USERS}}}/"))?,
        fields: Vec::new(),
        body: Body::None,
    })
}

/// The pace of requests.
pub(super) enum Pace {
    /// So many requests over so many connections, each as soon as the last was answered.
    Requests(u64, usize),
    /// So many requests a second for so long.
    Rate(f64, Duration),
}

/// Sends requests. A user who has not swiped yet is not found, which is no failure.
pub(super) fn load(
    context: &Context,
    server: &Server,
    requests: Vec<Request>,
    pace: &Pace,
) -> anyhow::Result<Report> {
    let (arrival, requests_max, duration, connections) = match *pace {
        Pace::Requests(count, connections) => (Arrival::Answered, Some(count), None, connections),
        Pace::Rate(rate, duration) => (Arrival::Rate(rate), None, Some(duration), 100),
    };
    let plan = Plan {
        address: server.address,
        host: server.address.to_string(),
        requests,
        arrival,
        requests_max,
        duration,
        warm_up: Duration::ZERO,
        connections,
        threads: 1,
        retries: 0,
        expected: vec![404],
        timeout: TIMEOUT,
        seed: 1,
        producer: None,
    };
    let report = swiftwater_load::run(&plan, &*context.clock, &context.stop, None, None, |_| {})?;
    context.check()?;
    Ok(report)
}

/// Swipes that the stream has, and those that the view of counts has counted: of both, all that were acknowledged.
pub(super) fn counted(server: &Server) -> anyhow::Result<(u64, u64)> {
    let number = |text: &str| {
        let rows = server.sql(text)?;
        let number = rows.first().map(|row| &row["n"]);
        // The sum of no rows is null.
        number.map(|number| number.as_u64().unwrap_or(0)).context("no number")
    };
    let stored = number("SELECT count(*) AS n FROM swipes")?;
    Ok((stored, number("SELECT CAST(sum(likes + dislikes) AS BIGINT) AS n FROM stats")?))
}

/// The fault after so many swipes were acknowledged, if there is one: each must be there once, and counted once.
pub(super) fn fault(
    server: &Server,
    before: u64,
    report: &Report,
    acknowledged: u64,
) -> anyhow::Result<Option<String>> {
    let failures = report.total().failures;
    if failures > 0 {
        return Ok(Some(format!("{failures} requests failed")));
    }
    let (stored, counted) = counted(server)?;
    let wanted = before + acknowledged;
    Ok((stored != wanted || counted != wanted).then(|| {
        format!(
            "{wanted} swipes were acknowledged, {stored} are stored and {counted} are counted by the view"
        )
    }))
}

/// Sends swipes of all users, many a request, so that each user exists; returns their number.
pub(super) fn fill(context: &Context, server: &Server, swipes: u64) -> anyhow::Result<u64> {
    let mut made = Workload::Swipes(SwipesSettings::default()).begin(5)?;
    let bodies = Bodies::new(|out| made.push(out));
    let count = swipes.div_ceil(bodies.events);
    let fed = send(context, server, STREAM, &bodies, count)?;
    let (stored, counted) = counted(server)?;
    anyhow::ensure!(
        fed.failures == 0 && stored == fed.events && counted == fed.events,
        "{} swipes were acknowledged, {stored} are stored and {counted} are counted by the view",
        fed.events
    );
    Ok(fed.events)
}

/// A row of one kind of request, told as the published reports tell it.
pub(super) fn row(what: impl Into<String>, counts: &Counts, seconds: f64) -> Row {
    let latency = &counts.latency;
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let kb = |bytes: u64| bytes as f64 / 1024.0 / seconds;
    let conditions = format!(
        "{} samples, {} failed; ms: mean {:.2}, min {:.2}, max {:.2}, median {:.2}, p90 {:.2}, p95 {:.2}, p99 {:.2}, \
         p99.9 {:.2}; {:.0} KB/s in, {:.0} KB/s out",
        latency.count(),
        counts.failures,
        latency.mean() / 1e6,
        ms(latency.min()),
        ms(latency.max()),
        ms(latency.quantile(0.5)),
        ms(latency.quantile(0.9)),
        ms(latency.quantile(0.95)),
        ms(latency.quantile(0.99)),
        ms(latency.quantile(0.999)),
        kb(counts.sent_bytes),
        kb(counts.received_bytes),
    );
    Row::new(what, rate(counts, seconds), UNIT).under(conditions)
}

/// Requests a second that were answered well.
pub(super) fn rate(counts: &Counts, seconds: f64) -> f64 {
    (counts.latency.count() - counts.failures) as f64 / seconds
}

/// Posts so many swipes over so many connections; the row of it, and the rate.
pub(super) fn posted(
    context: &Context,
    server: &Server,
    what: &str,
    (count, connections): (u64, usize),
) -> anyhow::Result<(Row, f64)> {
    let (before, _) = counted(server)?;
    let report = load(context, server, vec![post(1, USERS)?], &Pace::Requests(count, connections))?;
    let total = report.total();
    let fault = fault(server, before, &report, total.latency.count())?;
    let row = row(what, &total, report.seconds).unless(fault);
    Ok((row.clone(), row.figure))
}

/// The numbers of an answer of a user's counts.
pub(super) fn swipes_of(answer: &[u8]) -> anyhow::Result<u64> {
    let answer: Value = serde_json::from_slice(answer).context("an answer is no JSON")?;
    let number = |name: &str| answer[name].as_u64().with_context(|| format!("an answer without `{name}`"));
    Ok(number("numLikes")? + number("numDislikes")?)
}
