//! Measures the time to find one record among many: a query for a value that no other record has, then the record with it.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::bullet::{
    SETTINGS, STREAM, between, bodies, id, mean, post, records, submit_detached, until_ended, warm_up,
};
use crate::bench::seeds::{
    feed::Feed,
    scenario::{Context, Measured, Needs, Row, Scenario},
    server::Server,
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-2-find",
    about: "100 times a query for one record: when it was read, matched and answered",
    needs: |size| Needs::seconds(size.of(2, 8, 130)),
    run,
};

const UNIT: &str = "ms from the query";

/// The times of one query, in milliseconds from when it was submitted.
struct FindTimes {
    read: f64,
    matched: f64,
    answered: f64,
}

fn run(context: &Context) -> anyhow::Result<Measured> {
    let (asked, queries) = (context.size.of(2_000.0, 76_000.0, 76_000.0), context.size.of(5, 100, 100));
    // Theirs had its record after half a second; what counts is the time from then on.
    let pause = Duration::from_millis(context.size.of(5, 20, 445));
    let server = Server::start(context, &server_settings(context), false)?;
    let had = server.events(STREAM)?;
    let feed = Feed::start(context, &server, STREAM, &bodies(0), Some(asked))?;
    context.pause(warm_up(context.size))?;
    let found = (0..queries).map(|number| find(context, &server, number, pause));
    let found = found.collect::<anyhow::Result<Vec<FindTimes>>>();
    let fed = feed.end()?;
    let found = found?;
    let fault = fed.fault(server.events(STREAM)? - had - queries);
    let mean_of = |of: fn(&FindTimes) -> f64| mean(&found.iter().map(of).collect::<Vec<_>>());
    let mut measured = Measured::default();
    let mut push = |key: Option<&str>, what: &str, figure: f64| {
        let unit = if key.is_some() { UNIT } else { "ms" };
        let row = Row::new(what, figure, unit).at_rate(asked, fed.reached);
        let row =
            row.under(format!("mean of {queries}, the record sent {} ms after the query", pause.as_millis()));
        let row = row.unless(fault.clone());
        measured.rows.push(if let Some(key) = key { row.beside(key) } else { row });
    };
    push(Some("B2/read"), "record read", mean_of(|found| found.read));
    push(Some("B2/filtered"), "record matched", mean_of(|found| found.matched));
    push(Some("B2/finished"), "query answered", mean_of(|found| found.answered));
    push(
        None,
        "find one record: from read to answered (theirs: 10.3 ms)",
        mean_of(|found| found.answered - found.read),
    );
    measured.without("B2/queued", "there is no queue in between");
    Ok(measured)
}

/// The settings, unless a server was given.
pub(super) fn server_settings(context: &Context) -> Vec<&'static str> {
    if context.given.is_some() { Vec::new() } else { SETTINGS.to_vec() }
}

fn find(context: &Context, server: &Server, number: u64, pause: Duration) -> anyhow::Result<FindTimes> {
    context.check()?;
    let id = id(number);
    let text = format!("SELECT * FROM STREAM({STREAM}, MAX, TIME) WHERE s01 = '{id}' LIMIT 1");
    let asked = context.clock.now_micros();
    let ids = submit_detached(context, server, &[text])?;
    context.pause(pause)?;
    post(server, records(&id, 1, 0))?;
    let found = until_ended(context, server, &ids[0])?;
    let [record] = found.as_slice() else {
        anyhow::bail!("{} records were found for one", found.len());
    };
    ensure!(record["s01"] == id.as_str(), "another record was found");
    let read = record["_times"]["read"].as_i64().context("the record has no times")? - asked;
    let since_read = |name| between(record, "read", name).context("the record has no times");
    let read = read as f64 / 1e3;
    Ok(FindTimes { read, matched: read + since_read("matched")?, answered: read + since_read("answered")? })
}
