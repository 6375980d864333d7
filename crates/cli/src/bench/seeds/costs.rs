//! Measures the processor time that an event costs on this machine: a separate server ingests the lines of a file, with
//! queries and without, stored and not.
//!
//! The sender is a separate process, so that its time is not counted. Each part is sent until it took [`CPU_SECONDS`],
//! because the system counts processor time in hundredths.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::Value;
use swiftwater_event::Clock;

use super::{
    feed::{Bodies, send},
    scenario::{Context, Size},
    scenarios::submit_detached,
    server::Server,
};

const STREAM: &str = "size";
/// Processor time that one part is measured over, at least.
const CPU_SECONDS: f64 = 1.0;
/// Bodies that are sent at first; then twice as many, until it took long enough.
const BODIES_FIRST: u64 = 48;
const BODIES_MAX: u64 = 1 << 20;
/// Number of measurements of one part that may have failed requests: others are made again.
const FAILED_MAX: u32 = 3;
/// Number of queries above which a table gives the cost instead of a measurement.
const QUERIES_MAX: u64 = 100_000;
/// Bytes of the lines by which it is measured what is left of them on disk.
const ONCE_BYTES_MAX: usize = 16 << 20;
/// Time within which tables must have all events.
const COMMIT_SECONDS: u64 = 120;

/// Nanoseconds of one core that an event costs.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::bench) struct Measured {
    /// Bytes of an event.
    pub(in crate::bench) event_bytes: f64,
    /// Events that were sent, in all parts.
    pub(in crate::bench) events: u64,
    /// Taking it in and checking it, the requests' own cost left in.
    pub(in crate::bench) intake_nanos: f64,
    /// Decoding and matching, as the shards tell.
    pub(in crate::bench) queries_nanos: f64,
    /// Log, columns and commits; none where nothing is to be kept.
    pub(in crate::bench) store_nanos: Option<f64>,
    /// The bytes in a table's files as a share of the events' bytes.
    pub(in crate::bench) compressed_to: Option<f64>,
}

/// Measures, some seconds long.
pub(in crate::bench) fn measure(
    lines: &[u8],
    queries: u64,
    is_stored: bool,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Measured> {
    let lines: Vec<&[u8]> =
        lines.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    ensure!(!lines.is_empty(), "the file has no lines to measure with");
    let queries = texts(lines[0], queries.min(QUERIES_MAX))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let context = Context {
        size: Size::Short,
        clock,
        stop: Arc::new(AtomicBool::new(false)),
        directory: directory(),
        given: None,
        runtime: runtime.context("cannot start")?,
    };
    let mut next = lines.iter().cycle();
    let mut line = |out: &mut Vec<u8>| {
        if let Some(line) = next.next() {
            out.extend_from_slice(line.trim_ascii());
            out.push(b'\n');
        }
    };
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let once = Bodies::sized(1, bytes.min(ONCE_BYTES_MAX), &mut line);
    let bodies = Bodies::new(line);

    let server = Server::start(&context, &[], false)?;
    let (intake_nanos, mut events) = cost(&context, &server, &bodies, || Ok(()), Server::cpu_seconds)?;
    let mut queries_nanos = 0.0;
    if !queries.is_empty() {
        submit_detached(&context, &server, &queries)?;
        let (nanos, more) = cost(&context, &server, &bodies, || Ok(()), busy_seconds)?;
        (queries_nanos, events) = (nanos, events + more);
    }
    drop(server);
    let mut measured = Measured {
        event_bytes: bodies.event_bytes,
        events,
        intake_nanos,
        queries_nanos,
        store_nanos: None,
        compressed_to: None,
    };
    if is_stored {
        let server = Server::start(&context, &[], true)?;
        server.sql(&format!("CREATE STREAM {STREAM} WITH (store = true)"))?;
        let all_committed = || until_committed(&context, &server);
        // Each line once: what is there again is compressed to next to nothing.
        send(&context, &server, STREAM, &once, 1)?;
        all_committed()?;
        let taken = server.events(STREAM)? as f64 * once.event_bytes;
        let files = server.numbers()?.sum("swiftwater_table_file_bytes");
        measured.compressed_to = Some(files / taken.max(1.0));
        let (nanos, more) = cost(&context, &server, &bodies, all_committed, Server::cpu_seconds)?;
        measured.events += more;
        measured.store_nanos = Some((nanos - intake_nanos).max(0.0));
    }
    Ok(measured)
}

fn directory() -> PathBuf {
    std::env::temp_dir()
}

/// The texts of so many queries that no event matches, over the fields of an event that are text, by turns.
fn texts(event: &[u8], queries: u64) -> anyhow::Result<Vec<String>> {
    if queries == 0 {
        return Ok(Vec::new());
    }
    let event: Value = serde_json::from_slice(event).context("the file's first line is not JSON")?;
    let is_plain =
        |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    let fields = event.as_object().context("the file's first line is not an event: it is not an object")?;
    let texts: Vec<&String> =
        fields.iter().filter(|(_, value)| value.is_string()).map(|(name, _)| name).filter(is_plain).collect();
    ensure!(
        !texts.is_empty(),
        "the file's first event has no text field for the queries: measure with --queries 0"
    );
    let query = |number: u64| {
        let field = texts[number as usize % texts.len()];
        format!("SELECT * FROM STREAM({STREAM}, MAX, TIME) WHERE \"{field}\" = 'no such value {number}'")
    };
    Ok((0..queries).map(query).collect())
}

/// Nanoseconds that an event costs by a clock of the server's, and how many events were sent.
fn cost(
    context: &Context,
    server: &Server,
    bodies: &Bodies,
    settle: impl Fn() -> anyhow::Result<()>,
    seconds: fn(&Server) -> anyhow::Result<f64>,
) -> anyhow::Result<(f64, u64)> {
    // The first bodies take the work that is done once for a stream.
    let mut all = send(context, server, STREAM, bodies, BODIES_FIRST)?.events;
    settle()?;
    let (mut count, mut failed) = (BODIES_FIRST, 0);
    loop {
        let before = (seconds(server)?, server.cpu_seconds()?);
        let fed = send(context, server, STREAM, bodies, count)?;
        settle()?;
        if fed.failures > 0 {
            // A machine that stood still for a while has lost its idle connections. The measurement is then invalid.
            failed += 1;
            ensure!(
                failed < FAILED_MAX,
                "{} bodies of events failed ({}); the server's last warnings: {}",
                fed.failures,
                fed.outcomes,
                server.last_warnings().as_deref().unwrap_or("none")
            );
            continue;
        }
        let after = (seconds(server)?, server.cpu_seconds()?);
        all += fed.events;
        if after.1 - before.1 >= CPU_SECONDS || count >= BODIES_MAX {
            return Ok((1e9 * (after.0 - before.0) / fed.events.max(1) as f64, all));
        }
        count *= 2;
    }
}

impl Server {
    fn cpu_seconds(&self) -> anyhow::Result<f64> {
        Ok(self.numbers()?.cpu_seconds())
    }
}

/// The sum over all stages of all shards.
fn busy_seconds(server: &Server) -> anyhow::Result<f64> {
    Ok(server.numbers()?.sum("swiftwater_shard_busy_seconds_total"))
}

fn until_committed(context: &Context, server: &Server) -> anyhow::Result<()> {
    for _ in 0..COMMIT_SECONDS * 10 {
        if server.numbers()?.sum("swiftwater_table_lag_events") == 0.0 {
            return Ok(());
        }
        context.pause(Duration::from_millis(100))?;
    }
    anyhow::bail!("the events were not committed within {COMMIT_SECONDS} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_ask_for_fields_of_text_by_turns() {
        let queries = texts(br#"{"a":"x","b":1,"c":"y","d.e":"z"}"#, 3).unwrap();
        assert_eq!(queries[0], "SELECT * FROM STREAM(size, MAX, TIME) WHERE \"a\" = 'no such value 0'");
        assert!(queries[1].contains("\"c\" =") && queries[2].contains("\"a\" ="), "{queries:?}");
        assert!(texts(b"{\"b\":1}", 0).unwrap().is_empty());
        assert!(texts(b"{\"b\":1}", 1).unwrap_err().to_string().contains("no text field"));
        assert!(texts(b"[1]", 1).unwrap_err().to_string().contains("it is not an object"));
        assert!(texts(b"x", 1).is_err());
    }
}
