//! Shared code of Bullet's scenarios: its events, padded where a scenario needs larger ones, and many concurrent queries.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use hyper::Method;
use serde_json::{Value, json};
use swiftwater_generate::{Rng, published::PublishedEvents};

use crate::{
    bench::seeds::{
        feed::Bodies,
        scenario::{Context, Size},
        server::Server,
    },
    client::{Client, Connection, full, read_all},
};

/// The stream, which the servers of these scenarios take for `STREAM()`.
pub(super) const STREAM: &str = "bullet";
/// Records that are matched by all queries.
pub(super) const MATCHING: usize = 10;
/// Settings of the servers: as many queries as anybody asks at once.
pub(super) const SETTINGS: [&str; 3] =
    ["engine.default-stream=bullet", "bullet.queries-max=1000000", "engine.queries-max=1000000"];
/// Time that a query may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Time until rates are even.
pub(super) fn warm_up(size: Size) -> Duration {
    Duration::from_millis(size.of(100, 1000, 5000))
}

/// Makes an event so long, by a text that nobody asks for.
pub(super) struct Padding {
    rng: Rng,
    letters: Vec<u8>,
    bytes: usize,
}

impl Padding {
    /// Padding to about so many bytes.
    pub(super) fn to(bytes: usize) -> Padding {
        let mut rng = Rng::new(77);
        let letters = (0..2 * bytes).map(|_| LETTERS[rng.below(LETTERS.len())]).collect();
        Padding { rng, letters, bytes }
    }

    /// Lengthens the event that ends a buffer and begins at a place of it.
    pub(super) fn push(&mut self, start: usize, out: &mut Vec<u8>) {
        let missing = self.bytes.saturating_sub(out.len() - start + 11);
        if out.ends_with(b"}\n") && missing > 0 {
            out.truncate(out.len() - 2);
            let from = self.rng.below(self.bytes);
            out.extend_from_slice(b",\"pad\":\"");
            out.extend_from_slice(&self.letters[from..from + missing]);
            out.extend_from_slice(b"\"}\n");
        }
    }
}

/// Bodies of events of about so many bytes that no query matches.
pub(super) fn bodies(event_bytes: usize) -> Bodies {
    let (mut events, mut padding) = (PublishedEvents::new(21, 0, 0.0), Padding::to(event_bytes));
    Bodies::new(|out| {
        let start = out.len();
        events.write(1, out);
        padding.push(start, out);
    })
}

/// An id that no other event has: it is no UUID of hexadecimal digits.
pub(super) fn id(number: u64) -> String {
    format!("QQQQQQQQ-QQQQ-QQQQ-QQQQ-{number:012}")
}

/// Records with an id, numbered by `l1` from 1000 on.
pub(super) fn records(id: &str, count: usize, event_bytes: usize) -> Vec<u8> {
    let (mut events, mut padding) = (PublishedEvents::new(22, 0, 0.0), Padding::to(event_bytes));
    let mut out = Vec::new();
    for number in 0..count {
        let start = out.len();
        events.write_edited(1, &mut out, |event, _| {
            event.string(0, id.len()).copy_from_slice(id.as_bytes());
            event.long(0).copy_from_slice(format!("{:04}", 1000 + number).as_bytes());
        });
        padding.push(start, &mut out);
    }
    out
}

/// Sends events as they are.
pub(super) fn post(server: &Server, events: Vec<u8>) -> anyhow::Result<()> {
    let path = format!("/v1/streams/{STREAM}/events");
    server.ask(Method::POST, &path, &[("content-type", "application/x-ndjson")], events).map(drop)
}

/// Waits until so many queries stand.
pub(super) fn until_standing(context: &Context, server: &Server, count: f64) -> anyhow::Result<()> {
    let began = context.clock.monotonic_nanos();
    while server.numbers()?.sum("swiftwater_queries") < count {
        let waited = (context.clock.monotonic_nanos() - began) / 1_000_000_000;
        ensure!(waited < 60, "not all of {count} queries run after {waited} s");
        context.pause(Duration::from_millis(5))?;
    }
    Ok(())
}

/// Runs a query by the RPC of Bullet's Storm backend, for the records of an id; returns their number. The connection is
/// held until the answer comes.
pub(super) async fn by_rpc(client: Client, id: String, duration_ms: u64) -> anyhow::Result<usize> {
    let query = json!({
        "filters": [{"field": "s01", "operation": "==", "values": [id]}],
        "aggregation": {"type": "RAW", "size": MATCHING},
        "duration": duration_ms,
    });
    let mut connection = client.connect().await?;
    let response = connection.send(Method::POST, "/drpc/bullet", &[], full(query.to_string())).await?;
    let answer: Value = serde_json::from_slice(&read_all(response).await?).context("a result is no JSON")?;
    ensure!(answer["meta"]["errors"].is_null(), "a query failed: {}", answer["meta"]["errors"]);
    let records = answer["records"].as_array().context("a result has no records")?;
    let mut numbers: Vec<i64> = records.iter().filter_map(|record| record["l1"].as_i64()).collect();
    ensure!(records.iter().all(|record| record["s01"] == id.as_str()), "a record does not match");
    numbers.sort_unstable();
    numbers.dedup();
    ensure!(numbers.len() == records.len(), "a record came twice");
    Ok(records.len())
}

/// Submits detached queries over one connection; returns their ids.
pub(in crate::bench::seeds) fn submit_detached(
    context: &Context,
    server: &Server,
    texts: &[String],
) -> anyhow::Result<Vec<String>> {
    context.runtime.block_on(async {
        let mut connection = server.client().connect().await?;
        let mut ids = Vec::with_capacity(texts.len());
        for text in texts {
            context.check()?;
            let path = "/v1/queries?detach=true&times=true";
            let answer = one(&mut connection, Method::POST, path, text.clone()).await?;
            let answer: Value = serde_json::from_slice(&answer).context("no id of a query")?;
            ids.push(answer["id"].as_str().context("no id of a query")?.to_owned());
        }
        Ok(ids)
    })
}

/// Ends queries that were left standing, over one connection; the records of each.
pub(in crate::bench::seeds) fn collect(
    context: &Context,
    server: &Server,
    ids: &[String],
) -> anyhow::Result<Vec<Vec<Value>>> {
    context.runtime.block_on(async {
        let mut connection = server.client().connect().await?;
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            context.check()?;
            one(&mut connection, Method::DELETE, &format!("/v1/queries/{id}"), String::new()).await?;
            all.push(fetch(&mut connection, id).await?);
        }
        Ok(all)
    })
}

/// The records of a query that ends by itself.
pub(super) fn until_ended(context: &Context, server: &Server, id: &str) -> anyhow::Result<Vec<Value>> {
    context.runtime.block_on(async {
        let mut connection = server.client().connect().await?;
        let fetched = tokio::time::timeout(PATIENCE, fetch(&mut connection, id)).await;
        fetched.with_context(|| format!("a query had not ended after {} s", PATIENCE.as_secs()))?
    })
}

/// All records of a query up to its end.
async fn fetch(connection: &mut Connection, id: &str) -> anyhow::Result<Vec<Value>> {
    let path = format!("/v1/queries/{id}/results?after=0");
    let answer = one(connection, Method::GET, &path, String::new()).await?;
    let mut records = Vec::new();
    for line in answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut emit: Value = serde_json::from_slice(line).context("an emit is no JSON")?;
        let dropped = emit["meta"]["counts"]["dropped"].as_u64().unwrap_or(0);
        ensure!(dropped == 0, "{dropped} records were lost before they were fetched");
        if let Value::Array(some) = emit["records"].take() {
            records.extend(some);
        }
    }
    Ok(records)
}

async fn one(
    connection: &mut Connection,
    method: Method,
    path: &str,
    body: String,
) -> anyhow::Result<bytes::Bytes> {
    let headers = [("content-type", "text/plain"), ("accept", "application/x-ndjson")];
    let response = connection.send(method, path, &headers, full(body)).await?;
    let status = response.status();
    let bytes = read_all(response).await?;
    ensure!(status.is_success(), "{path}: {}", String::from_utf8_lossy(&bytes));
    Ok(bytes)
}

/// Milliseconds from one of a record's times to another.
pub(super) fn between(record: &Value, from: &str, to: &str) -> Option<f64> {
    let at = |name: &str| record["_times"][name].as_i64();
    Some((at(to)? - at(from)?) as f64 / 1e3)
}

/// The mean; 0 of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_id_number_and_size() {
        let id = id(7);
        let text = records(&id, 3, 5 << 10);
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 3);
        for (number, line) in lines.iter().enumerate() {
            let record: Value = serde_json::from_slice(line).unwrap();
            assert_eq!(
                (record["s01"].as_str(), record["l1"].as_i64()),
                (Some(id.as_str()), Some(1000 + number as i64))
            );
            assert!((5100..=5130).contains(&line.len()), "{} bytes", line.len());
        }
        assert!(records(&id, 1, 0).len() < 2000, "no padding makes an event shorter");
    }
}
