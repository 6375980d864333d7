//! Sends queries and events by the million to a server over HTTP, as fast as it takes them.

use std::{
    collections::HashMap,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde::Deserialize;

use crate::{args::Tuning, http::Client, task::Blocks};

/// About the size of one body of events.
pub(crate) const BODY_BYTES: usize = 1 << 20;
/// Queries that are sent before the first of them is answered.
const QUERIES_AHEAD: usize = 64;
/// Interval of the checks that the server has processed everything.
const ASK_EVERY: Duration = Duration::from_millis(2);
/// Nothing that waits takes longer.
const ASKS_MAX: usize = 30_000;

/// The outcome of sent events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// From the first byte sent to the last event looked at.
    pub(crate) seconds: f64,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

#[derive(Deserialize)]
struct IngestReply {
    accepted: u64,
    rejected: u64,
}

#[derive(Deserialize)]
struct QueryId {
    id: String,
}

#[derive(Deserialize)]
struct Stream {
    events: u64,
    pending_bytes: u64,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    cost: Cost,
}

#[derive(Deserialize)]
struct Cost {
    matches: u64,
}

#[derive(Deserialize)]
struct Listing {
    queries: Vec<Listed>,
}

/// Starts detached queries over a stream; returns their ids.
pub(crate) fn start_detached(
    address: SocketAddr,
    stream: &str,
    queries: &[String],
) -> anyhow::Result<Vec<String>> {
    let mut client = Client::connect(address)?;
    let mut ids = Vec::with_capacity(queries.len());
    let over = format!("STREAM({stream}, MAX");
    for chunk in queries.chunks(QUERIES_AHEAD) {
        let requests = chunk.iter().flat_map(|query| {
            let query = query.replace("STREAM(MAX", &over);
            client.post_text("/v1/queries?detach=true", "application/json", query.as_bytes())
        });
        let requests: Vec<u8> = requests.collect();
        client.send(&requests)?;
        for query in chunk {
            let answer = client.answer().with_context(|| format!("`{query}` was refused"))?;
            let standing: QueryId = serde_json::from_slice(&answer).context("a query got no id")?;
            ids.push(standing.id);
        }
    }
    Ok(ids)
}

/// Sends all events over so many connections, and waits until the server has looked at them.
pub(crate) fn send(
    address: SocketAddr,
    stream: &str,
    bytes: &Bytes,
    connections: usize,
) -> anyhow::Result<Sent> {
    let blocks = Blocks::new(bytes.clone(), Tuning { block_kib: BODY_BYTES >> 10, ..Tuning::default() });
    let path = format!("/v1/streams/{stream}/events");
    let mut client = Client::connect(address)?;
    let start = Instant::now();
    let (mut accepted, mut rejected) = (0, 0);
    thread::scope(|scope| {
        let senders: Vec<_> = (0..connections)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<(u64, u64)> {
                    let mut client = Client::connect(address)?;
                    let (mut accepted, mut rejected) = (0, 0);
                    while let Some(block) = blocks.next() {
                        client.send(&client.post_head(&path, "application/json", block.len()))?;
                        client.send(&block)?;
                        let taken: IngestReply =
                            serde_json::from_slice(&client.answer()?).context("events got no answer")?;
                        accepted += taken.accepted;
                        rejected += taken.rejected;
                    }
                    Ok((accepted, rejected))
                })
            })
            .collect();
        for sender in senders {
            let (taken, refused) = sender.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            accepted += taken;
            rejected += refused;
        }
        anyhow::Ok(())
    })?;
    wait_until_looked_at(&mut client, stream, accepted)?;
    Ok(Sent { seconds: start.elapsed().as_secs_f64(), accepted, rejected })
}

fn wait_until_looked_at(client: &mut Client, stream: &str, events: u64) -> anyhow::Result<()> {
    for _ in 0..ASKS_MAX {
        let answer = client.get(&format!("/v1/streams/{stream}"))?;
        let status: Stream = serde_json::from_slice(&answer).context("a stream has no status")?;
        if status.events >= events && status.pending_bytes == 0 {
            return Ok(());
        }
        thread::sleep(ASK_EVERY);
    }
    anyhow::bail!("the server has not looked at everything within a minute")
}

/// Number of events that each query has matched.
pub(crate) fn matches(address: SocketAddr, ids: &[String]) -> anyhow::Result<Vec<u64>> {
    let answer = Client::connect(address)?.get("/v1/queries")?;
    let Listing { queries: listed } = serde_json::from_slice(&answer).context("queries are not listed")?;
    let by_id: HashMap<&str, u64> =
        listed.iter().map(|query| (query.id.as_str(), query.cost.matches)).collect();
    ensure!(by_id.len() >= ids.len(), "{} queries are listed, not {}", by_id.len(), ids.len());
    let of =
        |id: &String| by_id.get(id.as_str()).copied().with_context(|| format!("query {id} is not listed"));
    ids.iter().map(of).collect()
}
