//! Shared code of the telecom flow's scenarios: records of probes, rollups over them, and rounds of sending and counting.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use swiftwater_generate::{DIMENSIONS, MEASURES, TelecomSettings, Workload};

use crate::bench::seeds::{
    feed::{Bodies, FeedResult, send},
    scenario::Context,
    server::Server,
};

/// The stream.
pub(super) const STREAM: &str = "telecom";
/// Settings of the servers: rollups with very many groups are what is asked for, and are waited for.
const SETTINGS: [&str; 6] = [
    "engine.query-end-wait-ms=10min",
    "engine.query-state-bytes-max=16GiB",
    "engine.state-bytes-max=16GiB",
    "engine.emit-bytes-max=1GiB",
    "engine.subscriber-bytes-max=1GiB",
    "engine.subscribers-bytes-max=4GiB",
];
/// Interval between checks that all events have been taken in.
const LOOK: Duration = Duration::from_millis(2);

/// A server for rollups, on so many shards; 0: one for each core.
pub(super) fn server(context: &Context, shards: usize) -> anyhow::Result<Server> {
    if context.given.is_some() && shards == 0 {
        return Server::start(context, &[], false);
    }
    let shards = format!("engine.shards={shards}");
    let settings: Vec<&str> = SETTINGS.into_iter().chain([shards.as_str()]).collect();
    Server::start(context, &settings, false)
}

/// Bodies of records as `swiftwater generate telecom` makes them.
pub(super) fn records(bodies: usize) -> anyhow::Result<Bodies> {
    let mut records = Workload::Telecom(TelecomSettings::default()).begin(7)?;
    Ok(Bodies::many(bodies, move |out| records.push(out)))
}

/// `SUM(meas.bytesUl) AS bytesUl, …`, of all twenty.
pub(super) fn sums() -> String {
    let sums: Vec<String> = MEASURES.iter().map(|name| format!("SUM(meas.{name}) AS {name}")).collect();
    sums.join(", ")
}

/// A rollup of the twenty measures by each of the dimensions alone.
pub(super) fn by_each_dimension() -> String {
    let (sums, sets) = (sums(), DIMENSIONS.join(", "));
    format!("SELECT COUNT(*) AS n, {sums} FROM STREAM({STREAM}, MAX, TIME) GROUP BY GROUPING SETS ({sets})")
}

/// The result of a round.
pub(super) struct Round {
    /// The result of sending.
    pub(super) fed: FeedResult,
    /// Events a second, from the first that was sent to when the last was taken in.
    pub(super) rate: f64,
    /// Processor time of the server, in microseconds an event.
    pub(super) cpu_micros: f64,
    /// The share of time of each stage.
    pub(super) busy: String,
    /// Rows of the answer.
    pub(super) groups: usize,
    /// Bytes that the query held, of its groups.
    pub(super) state_bytes: u64,
    /// The fault of the answer, if it has one.
    pub(super) fault: Option<String>,
}

/// Runs a rollup, sends bodies as fast as they are taken, and compares its answer, whose column `n` counts events,
/// with the events sent: each event is in `times` groups.
pub(super) fn round(
    context: &Context,
    server: &Server,
    query: &str,
    bodies: &Bodies,
    count: u64,
    times: u64,
) -> anyhow::Result<Round> {
    context.check()?;
    let had = server.events(STREAM)?;
    let id = server.detach(query)?;
    let before = server.numbers()?;
    let (seconds, fed) = context.timed(|| {
        let fed = send(context, server, STREAM, bodies, count)?;
        drained(context, server)?;
        Ok(fed)
    })?;
    let after = server.numbers()?;
    let state_bytes = server.get(&format!("/v1/queries/{id}"))?["state_bytes"].as_u64().unwrap_or(0);
    let emits = server.end(&id)?;
    let records: Vec<&Value> = emits.iter().filter_map(|emit| emit["records"].as_array()).flatten().collect();
    let counted: u64 = records.iter().filter_map(|record| record["n"].as_u64()).sum();
    let wrong = (counted != fed.events * times)
        .then(|| format!("the groups count {counted} events, not {}", fed.events * times));
    let fault = wrong.or(fed.fault(server.events(STREAM)? - had));
    ensure!(fed.events > 0, "no event was accepted");
    Ok(Round {
        rate: fed.events as f64 / seconds,
        cpu_micros: (after.cpu_seconds() - before.cpu_seconds()) * 1e6 / fed.events as f64,
        busy: after.busy_since(&before),
        groups: records.len(),
        state_bytes,
        fault,
        fed,
    })
}

/// Waits until shards have taken in all that was sent.
pub(super) fn drained(context: &Context, server: &Server) -> anyhow::Result<()> {
    let stream = format!("/v1/streams/{STREAM}");
    loop {
        let pending = server.get(&stream)?["pending_bytes"].as_u64().context("no `pending_bytes`")?;
        if pending == 0 {
            return Ok(());
        }
        context.pause(LOOK)?;
    }
}
