//! Measures the latency of acknowledgements: a thousand requests a second, each of one event, acknowledged from disk.
//!
//! Requests are sent when they are due, whether or not earlier ones were answered. The latency of a request that finds all
//! connections waiting counts from when it was due. Two other latencies are reported beside it. One is that of an
//! acknowledgement from memory on the idle server, one request after another. The other is that of a sync on the idle disk,
//! as many a second and each counted from when it was due. A disk that stalls for a while is therefore counted in both
//! alike, and so is one that must wake up.

use std::{
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use super::bare;
use crate::{
    args::Args,
    http::Client,
    samples::Samples,
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
    workload::published,
};

const STREAM: &str = "acks";
const REQUESTS_PER_SECOND: usize = 1000;
/// More than are ever on their way at once.
const CONNECTIONS: usize = 32;
/// Bytes of a sync that stands for one of the log.
const SYNC_BYTES: usize = 4096;
/// Syncs that an acknowledgement may take beside its work: the one under way, its own, and one of the disk's bad ones.
const SYNCS: f64 = 3.0;
const TURNS: usize = 5;
/// Until the senders of a turn are there.
const HEAD_START: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(1);

/// Measures all three, and adds the row.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let stored = Stored::start(directory, &[])?;
    stored.sql(&format!("CREATE STREAM {STREAM} WITH (store = true)"))?;
    let address = stored.server()?.address;
    let samples = args.samples();
    let count = (if args.quick { 3 } else { 15 }) * REQUESTS_PER_SECOND;
    let requests = requests(address, 256)?;
    let idle = Samples::new(one_by_one(address, &requests.memory, samples)?)?;
    // As many as there are acknowledgements: what is rare on the disk itself is among them.
    let every = Duration::from_secs(1) / REQUESTS_PER_SECOND as u32;
    let unpaused = Samples::new(bare::syncs(directory, SYNC_BYTES, samples, None)?)?;
    // A disk has good and bad seconds: all three are measured by turns.
    let (mut syncs, mut memory, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let mut clients =
        (0..CONNECTIONS).map(|_| Client::connect(address)).collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..TURNS {
        syncs.extend(bare::syncs(directory, SYNC_BYTES, count / TURNS, Some(every))?);
        memory.extend(at_their_times(&mut clients, &requests.memory, count / TURNS)?);
        open.extend(at_their_times(&mut clients, &requests.disk, count / TURNS)?);
    }
    let (syncs, memory, open) = (Samples::new(syncs)?, Samples::new(memory)?, Samples::new(open)?);
    let count = stored.asker()?.count(STREAM)?;
    let sent = (samples + memory.len() + open.len()) as u64;
    let fault = (count != sent).then(|| format!("{count} events, not {sent}; "));
    let (idle_p99, sync_p99) = (idle.quantile(0.99), syncs.quantile(0.99));
    let (p99, p99_max) = (open.quantile(0.99), idle_p99 + SYNCS * sync_p99);
    table.push(Row {
        what: format!("acknowledgement from disk, {} requests/s", grouped(REQUESTS_PER_SECOND as u64)),
        figure: format!(
            "p50 {:.2} ms, p99 {p99:.2} ms, p99.9 {:.2} ms",
            open.quantile(0.5),
            open.quantile(0.999)
        ),
        conditions: format!(
            "{}{}, one event of 1.85 KB a request, each at its time, {} requests, in {TURNS} turns \
             with the others; from memory, idle, one after another: p50 \
             {:.2} ms, p99 {idle_p99:.2} ms; from memory, at as many a second: p50 {:.2} ms, p99 {:.2} ms; a sync of 4 KiB \
             on the idle disk, as many a second: p50 {:.2} ms, p99 {sync_p99:.2} ms, one after another: p99 {:.2} ms",
            fault.as_deref().unwrap_or_default(),
            stored.server()?.what,
            grouped(open.len() as u64),
            idle.quantile(0.5),
            memory.quantile(0.5),
            memory.quantile(0.99),
            syncs.quantile(0.5),
            unpaused.quantile(0.99),
        ),
        needed: format!("p99 < {p99_max:.2} ms: that from memory and three syncs"),
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(p99 < p99_max),
        },
    });
    Ok(())
}

/// Whole requests, acknowledged from memory and from disk.
struct Requests {
    memory: Vec<Vec<u8>>,
    disk: Vec<Vec<u8>>,
}

fn requests(address: SocketAddr, count: usize) -> anyhow::Result<Requests> {
    let client = Client::connect(address)?;
    let mut events = published(0);
    let mut make = |ack: &str| -> Vec<Vec<u8>> {
        let path = format!("/v1/streams/{STREAM}/events?ack={ack}");
        let one = |_| {
            let mut event = Vec::new();
            events.write(1, &mut event);
            client.post_text(&path, "application/json", event.trim_ascii_end())
        };
        (0..count).map(one).collect()
    };
    Ok(Requests { memory: make("memory"), disk: make("disk") })
}

fn post(client: &mut Client, request: &[u8]) -> anyhow::Result<()> {
    client.send(request)?;
    let answer = client.answer()?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).context("an event got no answer")?;
    ensure!(answer["accepted"] == 1, "an event was not taken: {answer}");
    Ok(())
}

fn one_by_one(address: SocketAddr, requests: &[Vec<u8>], samples: usize) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::connect(address)?;
    let mut millis = Vec::with_capacity(samples);
    for request in requests.iter().cycle().take(samples) {
        thread::sleep(PAUSE);
        let start = Instant::now();
        post(&mut client, request)?;
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(millis)
}

fn at_their_times(clients: &mut [Client], requests: &[Vec<u8>], count: usize) -> anyhow::Result<Vec<f64>> {
    let next = AtomicUsize::new(0);
    let start = Instant::now() + HEAD_START;
    thread::scope(|scope| {
        let senders: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let next = &next;
                scope.spawn(move || -> anyhow::Result<Vec<f64>> {
                    let mut millis = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return Ok(millis);
                        }
                        let due = start + Duration::from_secs_f64(number as f64 / REQUESTS_PER_SECOND as f64);
                        let early = due.saturating_duration_since(Instant::now());
                        thread::sleep(early);
                        // A sleep that is too long is the sender's; a connection that was not free in time is not.
                        let from = if early.is_zero() { due } else { Instant::now() };
                        post(client, &requests[number % requests.len()])?;
                        millis.push(from.elapsed().as_secs_f64() * 1e3);
                    }
                })
            })
            .collect();
        let mut all = Vec::with_capacity(count);
        for sender in senders {
            all.extend(sender.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
        }
        Ok(all)
    })
}
