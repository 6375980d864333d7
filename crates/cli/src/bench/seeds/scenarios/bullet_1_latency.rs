//! Measures the latency of the shortest query: `LIMIT 1` without a filter, a hundred times in sequence, while events arrive.
//!
//! Times are relative to the receipt of the query. The published query matched a record read before the query came. Ours
//! sees only later events, so its match always comes after the query.

use anyhow::Context as _;
use hyper::Method;
use serde_json::Value;

use super::bullet::warm_up;
use crate::{
    bench::seeds::{
        feed::{Bodies, Feed},
        scenario::{Context, Measured, Needs, Row, Scenario},
        server::Server,
    },
    client::{full, read_all},
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "bullet-1-latency",
    about: "100 times LIMIT 1 without a filter: when it was matched and answered",
    needs: |size| Needs::seconds(size.of(2, 6, 10)),
    run,
};

const STREAM: &str = "bullet";
const UNIT: &str = "ms from the query";

fn run(context: &Context) -> anyhow::Result<Measured> {
    let (asked, queries) = (context.size.of(2_000.0, 76_000.0, 76_000.0), context.size.of(10, 100, 100));
    let server = Server::start(context, &[], false)?;
    let bodies = Bodies::few_of_bullet();
    let had = server.events(STREAM)?;
    let feed = Feed::start(context, &server, STREAM, &bodies, Some(asked))?;
    context.pause(warm_up(context.size))?;
    let answered = (0..queries).map(|_| {
        context.check()?;
        measure_query(context, &server)
    });
    let answered = answered.collect::<anyhow::Result<Vec<Times>>>();
    let fed = feed.end()?;
    let answered = answered?;
    let fault = fed.fault(server.events(STREAM)? - had);
    let mut measured = Measured::default();
    let mean = |of: fn(&Times) -> f64| answered.iter().map(of).sum::<f64>() / answered.len() as f64;
    let row = |key: &str, what: &str, figure: f64| {
        let row = Row::new(what, figure, UNIT).beside(key).at_rate(asked, fed.reached);
        row.under(format!("mean of {queries}")).unless(fault.clone())
    };
    measured.rows.push(row("B1/filtered", "record matched", mean(|times| times.matched)));
    measured.rows.push(row("B1/received", "query received", 0.0));
    measured.rows.push(row("B1/finished", "record answered", mean(|times| times.answered)));
    let mut whole: Vec<f64> = answered.iter().map(|times| times.whole).collect();
    whole.sort_by(f64::total_cmp);
    for (name, share) in [("median", 0.5), ("p99", 0.99)] {
        let at = ((whole.len() - 1) as f64 * share).round() as usize;
        let what = format!("LIMIT 1 from connecting to the end of the answer, {name}");
        measured.rows.push(Row::new(what, whole[at], "ms"));
    }
    Ok(measured)
}

/// The times of one query, in milliseconds from when it was received.
struct Times {
    matched: f64,
    answered: f64,
    /// Time from before it was sent to when its answer was read.
    whole: f64,
}

fn measure_query(context: &Context, server: &Server) -> anyhow::Result<Times> {
    let text = format!("SELECT * FROM STREAM({STREAM}, MAX, TIME) LIMIT 1");
    let headers = [("accept", "application/x-ndjson"), ("content-type", "text/plain")];
    let (seconds, bytes) = context.timed(|| {
        context.runtime.block_on(async {
            let mut connection = server.client().connect().await?;
            let path = "/v1/queries?times=true";
            read_all(connection.send(Method::POST, path, &headers, full(text)).await?).await
        })
    })?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let emits: Vec<Value> =
        lines.map(serde_json::from_slice).collect::<Result<_, _>>().context("an emit is no JSON")?;
    let records: Vec<&Value> = emits.iter().filter_map(|emit| emit["records"].as_array()).flatten().collect();
    let [record] = records.as_slice() else {
        anyhow::bail!("LIMIT 1 was answered by {} records", records.len());
    };
    anyhow::ensure!(record["s01"].is_string(), "the record is not of this stream");
    let received = emits[0]["meta"]["query"]["received"].as_str().context("no time of the query")?;
    let received = swiftwater_event::from_rfc3339(received.as_bytes()).context("no time of the query")?;
    let since = |name: &str| {
        let at =
            record["_times"][name].as_i64().with_context(|| format!("the record has no time `{name}`"))?;
        anyhow::Ok((at - received) as f64 / 1e3)
    };
    Ok(Times { matched: since("matched")?, answered: since("answered")?, whole: seconds * 1e3 })
}
