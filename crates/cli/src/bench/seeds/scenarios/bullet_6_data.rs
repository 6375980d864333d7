//! Measures the capacity of a core: events of 4.5 KiB with 400 running queries, and the time from reading an event to its
//! match.
//!
//! The rate is a fifth of the maximum, so that five seconds of data can be caught up with in one. The published figures are
//! the cores that sampled rates needed under these conditions. Ours are computed from one measured run: the processor time
//! of an event, times five for catching up, so that the two are comparable.

use swiftwater_generate::published::PublishedEvents;

use super::{
    bullet::{Padding, STREAM, between, collect, mean, submit_detached, warm_up},
    bullet_2_find::server_settings,
};
use crate::bench::seeds::{
    feed::{Bodies, Feed, send},
    published::FIGURES,
    scenario::{Context, Measured, Needs, Row, Scenario},
    server::Server,
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-6-data",
    about: "events/s, MiB/s and memory a core with 400 queries, able to catch up at 5 : 1",
    needs: |size| Needs::seconds(size.of(3, 15, 90)),
    run,
};

const EVENT_BYTES: usize = 4506;
const QUERIES: usize = 400;
/// The share of events that match one of the queries.
const MATCH_SHARE: f64 = 0.002;
/// Seconds of data to be caught up with in one.
const CATCH_UP: f64 = 5.0;
/// Average time from reading to matching that is allowed.
const MATCHED_MS_MAX: f64 = 200.0;

fn run(context: &Context) -> anyhow::Result<Measured> {
    let server = Server::start(context, &server_settings(context), false)?;
    let (mut events, mut padding) =
        (PublishedEvents::new(23, QUERIES, MATCH_SHARE), Padding::to(EVENT_BYTES));
    let texts = events.queries_over(STREAM);
    let texts: Vec<String> = texts.iter().map(|text| text.replace("SELECT *", "SELECT l1")).collect();
    // Matches of each query in the events of all bodies up to each one.
    let mut truth = vec![events.truth().to_vec()];
    let mut made = 0;
    let bodies = Bodies::new(|out| {
        let start = out.len();
        events.write(1, out);
        padding.push(start, out);
        made += 1;
        truth.push(events.truth().to_vec());
    });
    let per_body = bodies.events as usize;
    let all = made / per_body;
    let expected = |count: u64| -> Vec<u64> {
        let (whole, rest) = (count / all as u64, (count % all as u64) as usize);
        let of = |bodies: usize, query: usize| truth[bodies * per_body][query];
        (0..QUERIES).map(|query| whole * of(all, query) + of(rest, query)).collect()
    };

    // As fast as they are taken: what the machine carries.
    let count = context.size.of(4, 1_500, 15_000);
    let had = server.events(STREAM)?;
    let ids = submit_detached(context, &server, &texts)?;
    let before = server.numbers()?;
    let fastest = send(context, &server, STREAM, &bodies, count)?;
    let cpu_seconds = server.numbers()?.cpu_seconds() - before.cpu_seconds();
    let found = collect(context, &server, &ids)?;
    let mut fault = fastest.fault(server.events(STREAM)? - had);
    fault = fault.or_else(|| incomplete(&found, &expected(count)));

    // At a fifth of that: what it would be sized for.
    let rate = fastest.reached / CATCH_UP;
    let (had, ids) = (server.events(STREAM)?, submit_detached(context, &server, &texts)?);
    let before = server.numbers()?;
    let feed = Feed::start(context, &server, STREAM, &bodies, Some(rate))?;
    context.pause(warm_up(context.size) * 3)?;
    let fed = feed.end()?;
    let cores = (server.numbers()?.cpu_seconds() - before.cpu_seconds()) / fed.seconds;
    let found = collect(context, &server, &ids)?;
    fault = fault.or(fed.fault(server.events(STREAM)? - had));
    fault = fault.or_else(|| incomplete(&found, &expected(fed.events / bodies.events)));
    let records = || found.iter().flatten();
    let matched: Vec<f64> = records().filter_map(|record| between(record, "read", "matched")).collect();
    let matched_ms = mean(&matched);

    let cpu_micros = cpu_seconds * 1e6 / fastest.events as f64;
    let gib = server.peak_bytes()? as f64 / f64::from(1 << 30);
    let mib = |events: f64| events * bodies.event_bytes / f64::from(1 << 20);
    let per_core = 1e6 / cpu_micros / CATCH_UP;
    let conditions = format!(
        "computed: {per_core:.0} events/s or {:.0} MiB/s a core with room to catch up, from {cpu_micros:.1} µs of processor \
         time an event measured over {} events of {:.0} bytes; {gib:.2} GiB of memory; {matched_ms:.2} ms from read to match",
        mib(per_core),
        fastest.events,
        bodies.event_bytes,
    );
    let mut measured = Measured::default();
    for figure in FIGURES.iter() {
        let published = figure.key.strip_prefix("B6/").and_then(|rate| rate.parse::<f64>().ok());
        if let Some(published) = published {
            let row =
                Row::new(figure.what.as_str(), published / per_core, "cores").beside(figure.key.as_str());
            measured.rows.push(row.under(conditions.as_str()).unless(fault.clone()));
        }
    }
    let what = "events accepted with 400 running queries, as fast as they are sent";
    let row = Row::new(what, fastest.reached, "events/s").under(format!("{:.0} MiB/s", mib(fastest.reached)));
    measured.rows.push(row.unless(fault.clone()));
    let what = "from read to match, mean, at a fifth of that (theirs: under 200 ms)";
    let bound = if matched_ms < MATCHED_MS_MAX { "within" } else { "above" };
    let row = Row::new(what, matched_ms, "ms").at_rate(rate, fed.reached);
    let row = row.under(format!("{bound} the bound; {} matches, {cores:.2} cores busy", matched.len()));
    measured.rows.push(row.unless(fault));
    Ok(measured)
}

/// The fault of queries that found too few records, or too many.
fn incomplete(found: &[Vec<serde_json::Value>], expected: &[u64]) -> Option<String> {
    let wrong =
        found.iter().zip(expected).filter(|(found, expected)| found.len() as u64 != **expected).count();
    (wrong > 0).then(|| format!("{wrong} of {} queries have not all their records", expected.len()))
}
