//! Shared code of the event server's scenarios: readings of houses and articles of an encyclopaedia, stored in one stream
//! each, and the measurement of their ingest rate.

use std::{fmt, time::Duration};

use anyhow::Context as _;
use hyper::Method;
use serde_json::Value;
use swiftwater_generate::Workload;

use crate::bench::seeds::{
    feed::{Bodies, FeedResult, send},
    scenario::{Context, Measured, Row},
    server::{Server, free_address},
};

/// Different bodies: what is sent is a multiple of them, so that what they hold is known of all of it.
const BODIES: u64 = 48;
/// Bytes of events that may be acknowledged and not in the table: their log is a third of that, and its disk has a
/// bound.
const BEHIND_BYTES_MAX: f64 = 16e9;
/// The runners of statements whose time is measured.
pub(super) const RUNNERS: &[Runner] = if cfg!(feature = "distributed") {
    &[Runner::Threads(1), Runner::Threads(2), Runner::Workers(2), Runner::Workers(3)]
} else {
    &[Runner::Threads(1), Runner::Threads(2)]
};

/// The runner of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Runner {
    /// The server, with so many threads for SQL.
    Threads(u32),
    /// So many workers of one thread each, as other processes of this machine.
    Workers(u32),
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Runner::Threads(threads) => write!(f, "{threads} threads"),
            Runner::Workers(workers) => write!(f, "{workers} workers"),
        }
    }
}

impl Runner {
    /// The server again with this runner, and its workers.
    pub(super) fn start(self, context: &Context, server: Server) -> anyhow::Result<(Server, Vec<Server>)> {
        let workers = match self {
            Runner::Threads(threads) => {
                return Ok((server.again(&[&format!("sql.threads={threads}")])?, Vec::new()));
            }
            Runner::Workers(workers) => workers,
        };
        let workers = (0..workers).map(|_| server.worker(context)).collect::<anyhow::Result<Vec<_>>>()?;
        let urls: Vec<String> = workers.iter().map(|(_, address)| format!("http://{address}")).collect();
        let settings = [
            "sql.threads=1".to_owned(),
            format!("sql.worker-listen={}", free_address()?),
            format!("sql.workers={}", urls.join(",")),
            "sql.distribute-above-bytes=0".to_owned(),
        ];
        let server = server.again(&settings.each_ref().map(String::as_str))?;
        Ok((server, workers.into_iter().map(|(worker, _)| worker).collect()))
    }
}
/// Interval between checks of the table's progress.
const CAUGHT_UP_LOOKS: Duration = Duration::from_millis(50);

/// A stream and what comes into it.
pub(super) struct StoredInput {
    pub(super) stream: &'static str,
    /// The name of an event.
    pub(super) events: &'static str,
    create: &'static str,
    workload: Workload,
}

/// Readings of devices in houses.
pub(super) const HOME: StoredInput = StoredInput {
    stream: "smartHomeData",
    events: "readings",
    create: "CREATE STREAM smartHomeData (house_id INT, metro_area STRING, state STRING, device_id INT, power_reading FLOAT, \
             is_peak BOOLEAN)",
    workload: Workload::SmartHome,
};

/// Articles of an encyclopaedia.
pub(super) const ARTICLES: StoredInput = StoredInput {
    stream: "wiki",
    events: "articles",
    create: "CREATE STREAM wiki (sha1 STRING, title STRING, revision_ts LONG, contributor_username STRING, contributor_id LONG, \
             comment STRING, model STRING, format STRING, text STRING, length INT)",
    workload: Workload::Articles,
};

impl StoredInput {
    /// A server of these settings that has the stream.
    pub(super) fn server(&self, context: &Context, settings: &[&str]) -> anyhow::Result<Server> {
        // If nothing is measured, the run need not wait for a commit either.
        let soon = context.size.of(Some("store.commit_interval_ms=100ms"), None, None);
        let settings: Vec<&str> =
            settings.iter().copied().chain(soon.filter(|_| context.given.is_none())).collect();
        let server = Server::start(context, &settings, true)?;
        server.sql(self.create).context("the stream cannot be declared")?;
        Ok(server)
    }

    /// Bodies of events; `look` is shown each event once.
    pub(super) fn bodies(&self, mut look: impl FnMut(&[u8])) -> anyhow::Result<Bodies> {
        let mut made = self.workload.begin(5)?;
        Ok(Bodies::many(BODIES as usize, |out| {
            let start = out.len();
            made.push(out);
            look(&out[start..]);
        }))
    }

    /// Sends at least so many events, in whole rounds of all bodies; how many rounds these were. More than
    /// [`BEHIND_BYTES_MAX`] are not sent before the table has caught up with half of that, which counts as time of sending.
    pub(super) fn send(
        &self,
        context: &Context,
        server: &Server,
        (bodies, events): (&Bodies, u64),
    ) -> anyhow::Result<(FeedResult, u64)> {
        let rounds = events.div_ceil(bodies.events * BODIES).max(1);
        let behind_max = (BEHIND_BYTES_MAX / bodies.event_bytes) as u64;
        let at_once = (behind_max / 2 / (bodies.events * BODIES)).max(1);
        let (mut left, mut all) = (rounds, FeedResult::default());
        while left > 0 {
            let now = left.min(at_once);
            let (waited, ()) = context.timed(|| self.wait(context, server, behind_max / 2))?;
            let fed = send(context, server, self.stream, bodies, now * BODIES)?;
            all.events += fed.events;
            all.failures += fed.failures;
            if fed.failures > 0 {
                all.outcomes = fed.outcomes;
            }
            all.seconds += waited + fed.seconds;
            left -= now;
        }
        all.reached = all.events as f64 / all.seconds.max(1e-9);
        Ok((all, rounds))
    }

    /// Waits until all but so many of the events that were acknowledged are in the table.
    pub(super) fn wait(&self, context: &Context, server: &Server, behind: u64) -> anyhow::Result<()> {
        loop {
            let lag = server.numbers()?.sum_of("swiftwater_table_lag_events", "stream", self.stream);
            if lag <= behind as f64 {
                return Ok(());
            }
            context.check()?;
            context.pause(CAUGHT_UP_LOOKS)?;
        }
    }

    /// Events that SQL finds.
    pub(super) fn count(&self, server: &Server) -> anyhow::Result<u64> {
        let rows = server.sql(&format!("SELECT count(*) AS n FROM {}", self.stream))?;
        rows.first().and_then(|row| row["n"].as_u64()).context("no count")
    }

    /// Events a second that are acknowledged from disk, by parts of the run: it is to have no steps.
    pub(super) fn persist(&self, context: &Context, events: u64, keys: &[&str]) -> anyhow::Result<Measured> {
        let server = self.server(context, &[])?;
        let bodies = self.bodies(|_| {})?;
        let (mut sent, mut seconds, mut failures, mut points) = (0, 0.0, 0, Vec::new());
        let parts = context.size.of(2, 10, 10);
        for _ in 0..parts {
            context.check()?;
            let (fed, _) = self.send(context, &server, (&bodies, events / parts))?;
            (sent, seconds, failures) = (sent + fed.events, seconds + fed.seconds, failures + fed.failures);
            points.push((sent as f64, fed.reached));
        }
        let stored = self.count(&server)?;
        let fault = (failures > 0 || stored != sent)
            .then(|| format!("{sent} were acknowledged, {stored} are stored, {failures} bodies failed"));
        let (first, last) = (points[0].1, points[points.len() - 1].1);
        let mut measured = Measured::default();
        let row = Row::new(format!("{} stored, acknowledged from disk", self.events), sent as f64 / seconds, "events/s")
            .under(format!(
                "{sent} of {:.0} bytes in {seconds:.1} s, {:.0} MB/s; the last of {parts} parts at {:.2} of the first's rate; all are found by SQL",
                bodies.event_bytes,
                sent as f64 * bodies.event_bytes / seconds / 1e6,
                last / first,
            ))
            .unless(fault);
        measured.rows.extend(keys.iter().map(|key| row.clone().beside(*key)));
        let (behind, ()) = context.timed(|| self.wait(context, &server, 0))?;
        let table = Row::new(
            format!("{} stored, until the table has them", self.events),
            sent as f64 / (seconds + behind),
            "events/s",
        );
        measured.rows.push(table.under(format!("the last of them {behind:.1} s after the last answer")));
        if let Some(bytes) = server.disk_bytes() {
            let each = bytes as f64 / sent as f64;
            measured.rows.push(
                Row::new(format!("bytes on disk of one of the {}", self.events), each, "bytes")
                    .under("log and table together, files that were merged into others among them"),
            );
        }
        let title = format!("{} stored, by their number", self.events);
        measured.plot(&title, "events", "events/s", vec![("ours", points)]);
        Ok(measured)
    }
}

/// Runs a statement as it was published; how long it took, in seconds.
pub(super) fn as_published(context: &Context, server: &Server, statement: &str) -> anyhow::Result<f64> {
    let headers = [("content-type", "text/plain")];
    let run = || server.ask(Method::POST, "/v1/sql?dialect=spark", &headers, statement.to_owned());
    context.timed(run).map(|(seconds, _)| seconds).with_context(|| format!("`{statement}`"))
}

/// The speed of a statement over so many rows, in words.
pub(super) fn scanned(rows: u64, seconds: f64, runner: Runner) -> String {
    format!("{:.2} M rows/s, all in the table; SQL runs on {runner}", rows as f64 / seconds / 1e6)
}

/// The rows of a table that a statement has written.
pub(super) fn rows_of(server: &Server, table: &str) -> anyhow::Result<Vec<Value>> {
    server.sql(&format!("SELECT * FROM {table}"))
}

/// Returns true if a number of an answer is this one, except for rounding.
pub(super) fn is_about(found: &Value, wanted: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0))
}
