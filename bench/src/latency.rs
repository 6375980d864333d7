//! Measures latency over loopback HTTP, on an idle and on a half-loaded server.
//!
//! Two spans are measured, each from one thread, which sends and receives on persistent connections:
//!
//! - *Query to first record*: from before the query is written (`SELECT * … LIMIT 1`, no filter) to when its first record
//!   was read. Meanwhile another connection sends events at [`TRICKLE`] a second, one at a time, loaded or not. The wait for
//!   the next event is therefore up to a tenth of a millisecond of this span, plus the excess of a sleep.
//! - *Event to client*: from before a POST of one event is written to when a client has read it. The client asked before,
//!   with a query that only these events match.
//!
//! Half-loaded: one more connection posts bodies of [`LOAD_EVENTS`] events, none of which match, to the same stream at half
//! the rate that one connection reached.
//!
//! A third span is of the engine alone, on one core: from an event's reading to its record, with 50,000 queries running.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use swiftwater_testkit::{Rng, published::PublishedEvents};

use crate::{
    args::Args,
    data::Load as Events,
    http::{Client, Lines},
    run_paced::{EVENTS_PER_SECOND, READ_TO_ANSWER},
    samples::Samples,
    server::Running,
    table::{Row, Table, Verdict, grouped},
    task::{Kind, Task},
    workload::Spec,
};

const STREAM: &str = "latency";
const EVENTS_PATH: &str = "/v1/streams/latency/events";
/// Events a second that flow while queries are asked.
const TRICKLE: u32 = 10_000;
/// Events of one body of load.
const LOAD_EVENTS: usize = 128;
/// Different bodies of load.
const LOAD_BODIES: usize = 8;
/// Goals for p50 and p99, in milliseconds, on an idle server and on one that is half-loaded.
const IDLE_MS_MAX: (f64, f64) = (0.150, 0.600);
const LOADED_MS_MAX: (f64, f64) = (1.0, 5.0);
/// About the bytes of an event.
const EVENT_BYTES: f64 = 1850.0;
/// Queries that stand on one core.
const PACED_QUERIES: usize = 50_000;
const PACED_P99_MS_MAX: f64 = 1.0;

/// Measures all spans and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let server = Running::start()?;
    let samples = args.samples();
    let mut probe = Probe::start(server.address)?;
    let idle = format!("idle, {}", server.what);
    rows(table, "event to client", &idle, IDLE_MS_MAX, event_to_client(&mut probe, samples)?)?;
    let trickle = Trickle::start(server.address)?;
    let asked = query_to_record(server.address, samples)?;
    let flowed = trickle.stop()?;
    let flowing = format!("{idle}, {} events/s flowing", grouped(flowed));
    rows(table, "query to first record", &flowing, IDLE_MS_MAX, asked)?;

    let seconds = if args.quick { 1.0 } else { 3.0 };
    let capacity = Load::start(server.address, None)?.stop_after(seconds)?;
    table.push(Row {
        what: "ingest over one connection".to_owned(),
        figure: format!("{} events/s", grouped(capacity as u64)),
        conditions: format!(
            "{}, bodies of {LOAD_EVENTS} events one after another, one query standing",
            server.what
        ),
        needed: String::new(),
        verdict: Verdict::Told,
    });
    // The waiting events are processed before anything is measured.
    event_to_client(&mut probe, 10)?;
    let load = Load::start(server.address, Some(capacity / 2.0))?;
    let sent = event_to_client(&mut probe, samples)?;
    let trickle = Trickle::start(server.address)?;
    let asked = query_to_record(server.address, samples)?;
    let flowed = trickle.stop()?;
    let rate = load.stop_after(0.0)?;
    let loaded = format!("half-loaded ({} events/s), {}", grouped(rate as u64), server.what);
    rows(table, "event to client", &loaded, LOADED_MS_MAX, sent)?;
    let flowing = format!("{loaded}, {} events/s flowing", grouped(flowed));
    rows(table, "query to first record", &flowing, LOADED_MS_MAX, asked)?;
    drop((probe, server));
    paced(args, table)
}

/// Queries on one core, with the feeder there too, at the rate of Bullet's published tests.
fn paced(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let spec = Spec::Planted { queries: PACED_QUERIES, paths: 50, matches_per_thousand: 50 };
    let seconds = if args.quick { 1.0 } else { 10.0 };
    let load = Events::generate(&args.data(), spec, (EVENTS_PER_SECOND * EVENT_BYTES * seconds) as u64)?;
    let task = Task { cores: 1, ..Task::new(Kind::Paced, spec, PACED_QUERIES, args.tuning) };
    let outcome = task.run(&load)?;
    let fault = task.fault(&load, &outcome);
    let millis = outcome.span(READ_TO_ANSWER)?.iter().map(|micros| micros / 1e3).collect();
    let samples = Samples::new(millis)?;
    let (p50, p99) = (samples.quantile(0.5), samples.quantile(0.99));
    table.push(Row {
        what: format!("latency, read to match, {} queries on one core", grouped(PACED_QUERIES as u64)),
        figure: format!("p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {:.3} ms", samples.quantile(0.999)),
        conditions: format!(
            "{}in the process, {} events/s of {} wanted, check included in the core's work, {:.2} of it busy; from an \
             event's arrival to its record in the subscriber's queue; {} samples",
            fault.as_ref().map_or_else(String::new, |fault| format!("{fault}; ")),
            grouped((outcome.events as f64 / outcome.seconds) as u64),
            grouped(EVENTS_PER_SECOND as u64),
            outcome.cpu_seconds / outcome.seconds,
            grouped(samples.len() as u64),
        ),
        needed: format!("p99 < {PACED_P99_MS_MAX} ms"),
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(p99 < PACED_P99_MS_MAX),
        },
    });
    Ok(())
}

/// The rows of one span, in milliseconds.
fn rows(
    table: &mut Table,
    what: &str,
    conditions: &str,
    (p50_max, p99_max): (f64, f64),
    millis: Vec<f64>,
) -> anyhow::Result<()> {
    let samples = Samples::new(millis)?;
    let (p50, p99) = (samples.quantile(0.5), samples.quantile(0.99));
    table.push(Row {
        what: format!("latency, {what}"),
        figure: format!("p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {:.3} ms", samples.quantile(0.999)),
        conditions: format!("{conditions}; {} samples", grouped(samples.len() as u64)),
        needed: format!("p50 < {p50_max} ms, p99 < {p99_max} ms"),
        verdict: Verdict::of(p50 < p50_max && p99 < p99_max),
    });
    Ok(())
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// A pause that is never the same, so that no sample falls into step with anything.
fn pause(rng: &mut Rng) {
    thread::sleep(Duration::from_micros(200 + rng.below(600) as u64));
}

/// Sends events that a query waits for.
struct Probe {
    sender: Client,
    records: Lines,
    events: PublishedEvents,
    rng: Rng,
}

impl Probe {
    fn start(address: SocketAddr) -> anyhow::Result<Probe> {
        // Every event of these matches their one query.
        let events = PublishedEvents::new(11, 1, 1.0);
        let records = Lines::ask(Client::connect(address)?, &events.queries_over(STREAM)[0])?;
        Ok(Probe { sender: Client::connect(address)?, records, events, rng: Rng::new(5) })
    }
}

fn event_to_client(probe: &mut Probe, samples: usize) -> anyhow::Result<Vec<f64>> {
    let Probe { sender, records, events, rng } = probe;
    let mut all = Vec::with_capacity(samples);
    for _ in 0..samples {
        let mut event = Vec::new();
        events.write(1, &mut event);
        let event = event.trim_ascii_end();
        let request = sender.post_text(EVENTS_PATH, "application/json", event);
        pause(rng);
        let start = Instant::now();
        sender.send(&request)?;
        let line = records.next()?;
        all.push(millis(start));
        ensure!(memchr::memmem::find(&line, event).is_some(), "the client got another event than was sent");
        sender.answer().context("the event was not taken")?;
    }
    Ok(all)
}

fn query_to_record(address: SocketAddr, samples: usize) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::connect(address)?;
    let mut rng = Rng::new(6);
    let query = format!("SELECT * FROM STREAM({STREAM}, MAX, TIME) LIMIT 1");
    let request = client.post_text("/v1/queries", "application/x-ndjson", query.as_bytes());
    let mut all = Vec::with_capacity(samples);
    for _ in 0..samples {
        pause(&mut rng);
        let start = Instant::now();
        client.send(&request)?;
        let head = client.head()?;
        let mut answer = Vec::new();
        while !answer.contains(&b'\n') {
            let piece = client.piece(&head, answer.len())?.context("the answer ended without a record")?;
            answer.extend_from_slice(&piece);
        }
        all.push(millis(start));
        while let Some(piece) = client.piece(&head, answer.len())? {
            answer.extend_from_slice(&piece);
        }
        ensure!(
            answer.starts_with(b"{\"records\":[{\"s01\":"),
            "not a record: {}",
            String::from_utf8_lossy(&answer)
        );
    }
    Ok(all)
}

/// Events that flow one at a time, in one endless body.
struct Trickle {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<u64>>,
}

impl Trickle {
    fn start(address: SocketAddr) -> anyhow::Result<Trickle> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut client = Client::connect(address)?;
        let work = move || {
            let mut events = PublishedEvents::new(12, 0, 0.0);
            client.begin_chunked(EVENTS_PATH)?;
            let start = Instant::now();
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                let mut event = Vec::new();
                events.write(1, &mut event);
                client.send_chunk(&event)?;
                sent += 1;
                let due = start + Duration::from_secs(1) * sent / TRICKLE;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            let rate = f64::from(sent) / start.elapsed().as_secs_f64();
            client.send_chunk(b"")?;
            client.answer()?;
            Ok(rate as u64)
        };
        let thread = thread::Builder::new().name("trickle".to_owned()).spawn(work)?;
        Ok(Trickle { stop, thread })
    }

    /// Ends it; answers how many events a second there were.
    fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    }
}

/// Events that come in many at a time.
struct Load {
    stop: Arc<AtomicBool>,
    events: Arc<AtomicU64>,
    started: Instant,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Load {
    /// At so many events a second, or as fast as they are taken.
    fn start(address: SocketAddr, events_per_second: Option<f64>) -> anyhow::Result<Load> {
        let (stop, events) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&events));
        let mut client = Client::connect(address)?;
        let mut generator = PublishedEvents::new(13, 0, 0.0);
        let requests: Vec<Vec<u8>> = (0..LOAD_BODIES)
            .map(|_| {
                let mut body = Vec::new();
                generator.write(LOAD_EVENTS, &mut body);
                client.post_text(EVENTS_PATH, "application/json", &body)
            })
            .collect();
        let started = Instant::now();
        let work = move || {
            for (number, request) in requests.iter().cycle().enumerate() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                if let Some(rate) = events_per_second {
                    let due = started + Duration::from_secs_f64((number * LOAD_EVENTS) as f64 / rate);
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                client.send(request)?;
                client.answer()?;
                counted.fetch_add(LOAD_EVENTS as u64, Ordering::Relaxed);
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("load".to_owned()).spawn(work)?;
        Ok(Load { stop, events, started, thread })
    }

    /// Ends it after so many more seconds; answers how many events a second there were.
    fn stop_after(self, seconds: f64) -> anyhow::Result<f64> {
        thread::sleep(Duration::from_secs_f64(seconds));
        let rate = self.events.load(Ordering::Relaxed) as f64 / self.started.elapsed().as_secs_f64();
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        Ok(rate)
    }
}
