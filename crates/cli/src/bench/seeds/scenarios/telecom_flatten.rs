//! Measures the flattening of nested records on one shard: all 62 dimensions and 20 measures become columns of one row.

use std::collections::HashSet;

use anyhow::{Context as _, ensure};
use hyper::Method;
use serde::Deserialize;
use swiftwater_generate::{DIMENSIONS, MEASURES};

use super::telecom::{STREAM, records, server};
use crate::{
    bench::seeds::{
        feed::{FeedResult, send},
        scenario::{Context, Measured, Needs, Row, Scenario},
        server::Server,
    },
    client::{Lines, full},
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "telecom-flatten",
    about: "82 columns out of nested records, on one shard",
    needs: |size| Needs::seconds(size.of(2, 8, 40)),
    run,
};

/// The part of an emit that is compared with the events sent.
#[derive(Deserialize)]
struct Emit {
    records: Vec<Flat>,
}

#[derive(Deserialize)]
struct Flat {
    seq: u64,
    #[serde(rename = "radio.cell")]
    _cell: serde::de::IgnoredAny,
    #[serde(rename = "bytesUl")]
    _bytes: u64,
}

fn run(context: &Context) -> anyhow::Result<Measured> {
    let bodies = records(context.size.of(3, 400, 2400))?;
    let count = context.size.of(3, 400, 2400);
    let server = server(context, 1)?;
    let before = server.numbers()?;
    let (seconds, (fed, rows)) = context.timed(|| flattened(context, &server, &bodies, count))?;
    let after = server.numbers()?;
    let complete = rows.len() as u64 == fed.events && rows.iter().all(|seq| *seq < fed.events);
    let fault = (!complete).then(|| format!("{} different rows came of {} records", rows.len(), fed.events));
    let fault = fault.or(fed.fault(server.events(STREAM)?));
    let events = fed.events as f64;
    let busy = "swiftwater_shard_busy_seconds_total";
    let busy = after.sum(busy) - before.sum(busy);
    let mut measured = Measured::default();
    let conditions = format!(
        "one shard, records of {:.0} bytes over HTTP, rows back over HTTP; {}; {:.1} µs of processor time a record",
        bodies.event_bytes,
        after.busy_since(&before),
        (after.cpu_seconds() - before.cpu_seconds()) * 1e6 / events,
    );
    for key in ["E4/before", "E4/after"] {
        let row = Row::new("flattening on one shard, to rows at the client", events / seconds, "records/s");
        measured.rows.push(row.beside(key).under(conditions.as_str()).unless(fault.clone()));
    }
    let row =
        Row::new("flattening, of the time that the shard was at work", events / busy.max(1e-9), "records/s");
    measured.rows.push(row);
    Ok(measured)
}

/// Numbers of the rows that came.
fn flattened(
    context: &Context,
    server: &Server,
    bodies: &crate::bench::seeds::feed::Bodies,
    count: u64,
) -> anyhow::Result<(FeedResult, HashSet<u64>)> {
    let dimensions = DIMENSIONS.iter().map(|path| format!("{path} AS \"{path}\""));
    let measures = MEASURES.iter().map(|name| format!("meas.{name} AS {name}"));
    let columns: Vec<String> = dimensions.chain(measures).collect();
    let query = format!("SELECT seq, {} FROM STREAM({STREAM}, MAX, TIME)", columns.join(", "));
    // The reader must be connected before anything is sent.
    let mut lines = context.runtime.block_on(async {
        let headers = [("content-type", "text/plain"), ("accept", "application/x-ndjson")];
        let mut connection = server.client().connect().await?;
        let response = connection.send(Method::POST, "/v1/queries", &headers, full(query)).await?;
        let status = response.status();
        ensure!(status.is_success(), "the query was refused: {status}");
        anyhow::Ok((connection, Lines::of(response)))
    })?;
    let all = count * bodies.events;
    let reader = context.runtime.spawn(async move {
        let mut rows = HashSet::new();
        while (rows.len() as u64) < all {
            // A server that sends no more ends this as a row that is missing.
            let next = tokio::time::timeout(std::time::Duration::from_secs(20), lines.1.next()).await;
            let Ok(Some(line)) = next.unwrap_or(Ok(None)) else { break };
            let emit: Emit = serde_json::from_slice(&line).context("an emit is not of flat rows")?;
            rows.extend(emit.records.iter().map(|record| record.seq));
        }
        anyhow::Ok(rows)
    });
    let fed = send(context, server, STREAM, bodies, count)?;
    Ok((fed, context.runtime.block_on(reader)??))
}
