//! `swiftwater demo`: runs a server and two live streams to query, in one process.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use swiftwater_event::{
    CheckLimits, Clock, EventBatch, EventBatchBuilder, EventMeta, StreamName, check_block,
};
use swiftwater_runtime::{AppendOptions, Principal, RuntimeError};
use swiftwater_server::{Engine, EngineError};
use tokio::runtime::Handle;

use crate::{
    args::DemoArgs,
    demo::{Flights, HostSampler, Replay},
    exit::{Failure, Outcome},
    serve::{load_settings, serve},
    settings::Settings,
};

/// Events of one batch, at most.
const BATCH_EVENTS_MAX: usize = 5_000;
/// The least time between batches, so that events that are due one by one come in handfuls.
const BATCH_INTERVAL_MS: u64 = 10;
/// The most time between looks at the clock, should it be set.
const LOOK_INTERVAL_MS: u64 = 1_000;
/// Bytes of the flights that are stored.
const FLIGHTS_BYTES_MAX: f64 = (1_u64 << 30) as f64;
/// Bytes of a flight in the stream's table, about.
const FLIGHT_BYTES: f64 = 100.0;
const FLIGHTS_KEPT_MINUTES_MAX: u64 = 30 * 24 * 60;
/// Samples of this machine are stored for a day.
const HOST_KEPT_MINUTES: u64 = 24 * 60;
/// Interval between samples of this machine.
const HOST_INTERVAL_MS: u64 = 1_000;

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, clock: Arc<dyn Clock>) -> Outcome {
    if args.no_flights && args.no_host {
        return Err(anyhow::anyhow!("--no-flights and --no-host together leave no stream").into());
    }
    let mut loaded = load_settings(&args.server)?;
    let settings = &mut loaded.settings;
    if settings.engine.default_stream.is_none() {
        settings.engine.default_stream = Some(stream(if args.no_flights { "host" } else { "flights" }));
    }
    let directory = temporary_directory(args, settings)?;
    let place = match (&directory, settings.data_dir.is_empty()) {
        (Some(_), _) => StoredIn::TemporaryDirectory,
        (None, false) => StoredIn::Directory(settings.data_dir.clone()),
        (None, true) => StoredIn::Nowhere,
    };
    let pace = Arc::new(Pace::default());
    let mut feeders = Vec::new();
    let served = serve(&loaded, Arc::clone(&clock), |engine, addresses| {
        if !args.no_flights {
            feeders.push(feed_flights(args, engine, &clock, &pace)?);
        }
        if !args.no_host {
            feeders.push(feed_host(engine, &clock, &pace)?);
        }
        welcome(args, &place, addresses)
    });
    pace.stop();
    for feeder in feeders {
        // A feeder that panicked has said so.
        let _ = feeder.join();
    }
    served
}

/// The place of the demo's events.
enum StoredIn {
    /// A directory that goes with the process.
    TemporaryDirectory,
    /// This one, which stays.
    Directory(String),
    Nowhere,
}

/// The directory for the events of a demo that was given none; `settings` have it then. It is removed when it is dropped.
#[cfg(feature = "history")]
fn temporary_directory(
    args: &DemoArgs,
    settings: &mut Settings,
) -> Result<Option<tempfile::TempDir>, Failure> {
    if args.no_data {
        settings.data_dir.clear();
        return Ok(None);
    }
    if !settings.data_dir.is_empty() || !settings.cluster.name.is_empty() {
        return Ok(None);
    }
    let made = tempfile::Builder::new().prefix("swiftwater-demo-").tempdir();
    let made = made.context("a directory for temporary files cannot be made; --no-data needs none")?;
    settings.data_dir = made.path().to_string_lossy().into_owned();
    Ok(Some(made))
}

#[cfg(not(feature = "history"))]
fn temporary_directory(_: &DemoArgs, _: &mut Settings) -> Result<Option<()>, Failure> {
    Ok(None)
}

/// Makes feeders wait, and stops them.
#[derive(Default)]
struct Pace {
    stopped: Mutex<bool>,
    woken: Condvar,
}

impl Pace {
    /// Waits; returns true if the replay is to continue.
    fn wait_ms(&self, wait_ms: u64) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = Duration::from_millis(wait_ms);
        match self.woken.wait_timeout_while(stopped, wait, |stopped| !*stopped) {
            Ok((stopped, _)) => !*stopped,
            Err(_) => false,
        }
    }

    fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_all();
    }
}

/// The destination of a source's events.
struct Feed {
    engine: Engine,
    /// The server's, for streams that somebody has declared meanwhile.
    runtime: Handle,
    stream: StreamName,
    clock: Arc<dyn Clock>,
    sample: Option<(f64, SplitMix)>,
    /// The last events were refused, which was reported.
    refused: bool,
}

impl Feed {
    /// Appends lines of events, once there is room for them. Events that the server refuses are reported and left out: a
    /// user may drop and declare the stream while the demo runs, and the next events are those of the new one.
    ///
    /// # Errors
    ///
    /// Only if the server shuts down.
    fn append(&mut self, lines: &mut Vec<u8>) -> Result<(), EngineError> {
        match self.try_append(lines) {
            Ok(()) => self.refused = false,
            Err(error) if swiftwater_server::is_shutting_down(&error) => return Err(error),
            Err(error) => {
                if !std::mem::replace(&mut self.refused, true) {
                    tracing::warn!(stream = %self.stream, %error, "events of the demo were refused");
                }
            }
        }
        Ok(())
    }

    fn try_append(&mut self, lines: &mut Vec<u8>) -> Result<(), EngineError> {
        let checked = check_block(std::mem::take(lines).into(), &CheckLimits::default(), 1);
        if let Some(rejection) = checked.rejections.first() {
            tracing::error!(stream = %self.stream, message = rejection.message, "the demo generated an invalid event");
        }
        let read_micros = self.clock.now_micros();
        let meta = EventMeta { arrival: read_micros.div_euclid(1000), read_micros, ..EventMeta::default() };
        let (batch, source_sample) = match &mut self.sample {
            Some((share, random)) => (sampled(&checked.batch, *share, random), Some(*share)),
            None => (checked.batch, None),
        };
        let options = AppendOptions { source_sample, rejected: checked.rejected, ..AppendOptions::default() };
        let batch = batch.with_meta(meta);
        let (principal, stream) = (Principal::local(), &self.stream);
        match self.engine.append_blocking(&principal, stream, batch.clone(), options.clone()) {
            // Events of a declared stream are stored, which may have to be waited for.
            Err(RuntimeError::Declared) => {
                self.runtime.block_on(self.engine.append(&principal, stream, batch, options)).map(drop)
            }
            appended => Ok(appended.map(drop)?),
        }
    }
}

/// Declares a stream whose events are stored for a time, if events are stored and nobody has declared it before.
#[cfg(feature = "history")]
fn declare(feed: &Feed, kept_minutes: Option<u64>) {
    if feed.engine.sql().is_err() {
        return;
    }
    let options = match kept_minutes {
        Some(minutes) => format!("store = true, retention = '{minutes} minutes'"),
        None => "store = false".to_owned(),
    };
    let text = format!("CREATE STREAM IF NOT EXISTS {} WITH ({options})", feed.stream);
    // Before the server says that it is ready: nobody declares the stream in the meantime.
    let declared = tokio::task::block_in_place(|| feed.runtime.block_on(feed.engine.statements().run(&text)));
    if let Err(error) = declared {
        tracing::error!(stream = %feed.stream, %error, "the demo's stream cannot be declared");
    }
}

#[cfg(not(feature = "history"))]
fn declare(_: &Feed, _: Option<u64>) {}

fn sampled(batch: &EventBatch, share: f64, random: &mut SplitMix) -> EventBatch {
    let mut kept = EventBatchBuilder::default();
    for row in 0..batch.len() {
        if random.next_share() < share {
            kept.push(batch, row);
        }
    }
    kept.finish()
}

/// SplitMix64, after Steele, Lea and Flood, OOPSLA 2014.
struct SplitMix(u64);

impl SplitMix {
    /// The next number in [0, 1).
    fn next_share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn feed_flights(
    args: &DemoArgs,
    engine: &Engine,
    clock: &Arc<dyn Clock>,
    pace: &Arc<Pace>,
) -> anyhow::Result<JoinHandle<()>> {
    let flights = Flights::open().context("cannot replay the flights")?;
    let mut replay = flights.replay(clock.now(), args.speed);
    let sample = args.sample.map(|share| (share, SplitMix(clock.now_micros() as u64)));
    let mut feed = feed_of("flights", engine, clock);
    feed.sample = sample;
    declare(&feed, kept_minutes(args));
    spawn("flights", pace, move |pace| {
        let mut lines = Vec::new();
        while pace.wait_ms(replay_due(&mut replay, &mut feed, &mut lines)?) {}
        Ok(())
    })
}

/// The minutes of flights that are a GiB in the stream's table; none if there are more than that in a minute.
fn kept_minutes(args: &DemoArgs) -> Option<u64> {
    let a_second = args.speed.times() * Flights::PER_SECOND * args.sample.unwrap_or(1.0);
    let minutes = FLIGHTS_BYTES_MAX / (a_second * 60.0 * FLIGHT_BYTES);
    (minutes >= 1.0).then(|| (minutes as u64).min(FLIGHTS_KEPT_MINUTES_MAX))
}

/// Appends the events that are due; returns the time until the next ones.
fn replay_due(replay: &mut Replay, feed: &mut Feed, lines: &mut Vec<u8>) -> Result<u64, EngineError> {
    let taken = replay.push_due(feed.clock.now(), lines, BATCH_EVENTS_MAX);
    if taken > 0 {
        feed.append(lines)?;
    }
    if taken == BATCH_EVENTS_MAX {
        return Ok(0);
    }
    let until_due = replay.next_due().saturating_sub(feed.clock.now()).max(0) as u64;
    Ok(until_due.clamp(BATCH_INTERVAL_MS, LOOK_INTERVAL_MS))
}

fn feed_host(engine: &Engine, clock: &Arc<dyn Clock>, pace: &Arc<Pace>) -> anyhow::Result<JoinHandle<()>> {
    let mut sampler = HostSampler::new().context("cannot sample this machine")?;
    let mut feed = feed_of("host", engine, clock);
    declare(&feed, Some(HOST_KEPT_MINUTES));
    spawn("host", pace, move |pace| {
        let mut lines = Vec::new();
        let mut last_nanos = feed.clock.monotonic_nanos();
        loop {
            let now_nanos = feed.clock.monotonic_nanos();
            let elapsed_ms = (now_nanos - last_nanos) / 1_000_000;
            last_nanos = now_nanos;
            if sampler.sample(feed.clock.now(), elapsed_ms, &mut lines) > 0 {
                feed.append(&mut lines)?;
            }
            let spent_ms = (feed.clock.monotonic_nanos() - now_nanos) / 1_000_000;
            if !pace.wait_ms(HOST_INTERVAL_MS.saturating_sub(spent_ms)) {
                return Ok(());
            }
        }
    })
}

/// The feed into a stream of this name. Within the server's runtime.
fn feed_of(name: &str, engine: &Engine, clock: &Arc<dyn Clock>) -> Feed {
    let (engine, clock) = (engine.clone(), Arc::clone(clock));
    Feed { engine, runtime: Handle::current(), stream: stream(name), clock, sample: None, refused: false }
}

fn spawn(
    name: &'static str,
    pace: &Arc<Pace>,
    feed: impl FnOnce(&Pace) -> Result<(), EngineError> + Send + 'static,
) -> anyhow::Result<JoinHandle<()>> {
    let pace = Arc::clone(pace);
    let feed = move || match feed(&pace) {
        Ok(()) => {}
        Err(error) if swiftwater_server::is_shutting_down(&error) => {}
        Err(error) => tracing::error!(stream = name, %error, "the demo's stream ended"),
    };
    std::thread::Builder::new().name(format!("demo-{name}")).spawn(feed).context("cannot start a thread")
}

fn stream(name: &str) -> StreamName {
    StreamName::new(name).expect("a name of the demo is a stream's name")
}

/// Prints the address of the server and some commands to try; each of these answers within two seconds.
fn welcome(args: &DemoArgs, place: &StoredIn, addresses: &[SocketAddr]) -> Result<(), Failure> {
    let Some(address) = addresses.first() else { return Ok(()) };
    let program = std::env::args().next().filter(|name| !name.contains(char::is_whitespace));
    let text = welcome_text(args, program.as_deref().unwrap_or("swiftwater"), *address, place);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output)
}

fn welcome_text(args: &DemoArgs, program: &str, address: SocketAddr, place: &StoredIn) -> String {
    let elsewhere = if address.port() == 8080 && address.ip().is_loopback() {
        String::new()
    } else {
        format!("--server http://{address} ")
    };
    let mut out = format!("listening on http://{address}\n");
    let mut streams = Vec::new();
    if !args.no_flights {
        streams.push(format!("`flights` (New York's flights of 2013, replayed at {})", args.speed));
    }
    if !args.no_host {
        streams.push("`host` (this machine)".to_owned());
    }
    out.push_str(&format!("\nOpen http://{address} in a browser: the console.\n"));
    out.push_str(&format!("Live streams: {}.\n", streams.join(" and ")));
    out.push_str(&match place {
        StoredIn::TemporaryDirectory => {
            "Their events are stored until the server stops; --data DIR keeps them.\n".to_owned()
        }
        StoredIn::Directory(directory) => format!("Their events are stored in {directory}.\n"),
        StoredIn::Nowhere if cfg!(feature = "history") => "Nothing is stored.\n".to_owned(),
        StoredIn::Nowhere => {
            "This binary has live queries alone. `make build` makes one with SQL, views and search.\n"
                .to_owned()
        }
    });
    out.push_str("Try in another terminal:\n\n");
    for query in queries(args) {
        out.push_str(&format!("  {program} query {elsewhere}\"{query}\"\n"));
    }
    let curled = curled(args);
    out.push_str(&format!(
        "  curl -N http://{address}/v1/queries -H 'Accept: text/event-stream' -d '{curled}'\n"
    ));
    if !matches!(place, StoredIn::Nowhere) && kept_minutes(args).is_some() && !args.no_flights {
        let statement =
            "SELECT carrier, count(*) AS flights FROM flights GROUP BY carrier ORDER BY flights DESC";
        out.push_str(&format!("  {program} sql {elsewhere}\"{statement}\"\n"));
    }
    out.push_str(&format!("  {program} top {}\n\nCtrl-C stops the server.\n", elsewhere.trim_end()));
    out
}

/// Queries worth a try.
fn queries(args: &DemoArgs) -> Vec<&'static str> {
    let mut queries = Vec::new();
    if !args.no_flights {
        queries.extend([
            "SELECT carrier, COUNT(*) AS flights, AVG(dep_delay) AS delay FROM STREAM(1500, TIME) \
             GROUP BY carrier ORDER BY flights DESC",
            "SELECT dest.name AS destination, COUNT(*) AS flights FROM STREAM(flights, MAX, TIME) \
             GROUP BY dest.name ORDER BY flights DESC LIMIT 10 WINDOWING TUMBLING(1000, TIME)",
            "SELECT carrier, flight, dest.name AS destination, dep_delay FROM STREAM(flights, MAX, TIME) \
             WHERE dep_delay > 60 LIMIT 5",
        ]);
    }
    if !args.no_host {
        queries.push(
            "SELECT name, COUNT(*) AS samples, AVG(cpu_percent) AS cpu, MAX(rss_bytes) AS bytes \
             FROM STREAM(host, 1500, TIME) WHERE kind = 'process' GROUP BY name ORDER BY bytes DESC LIMIT 5",
        );
    }
    queries
}

fn curled(args: &DemoArgs) -> &'static str {
    match args.no_flights {
        false => "SELECT COUNT(*) AS flights FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(1000, TIME)",
        true => "SELECT COUNT(*) AS events FROM STREAM(host, MAX, TIME) WINDOWING TUMBLING(1000, TIME)",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn welcome(flags: &[&str], address: &str) -> String {
        let line = ["swiftwater", "demo"].into_iter().chain(flags.iter().copied());
        let Command::Demo(args) = Cli::try_parse_from(line).unwrap().command else { panic!("not demo") };
        welcome_text(&args, "swiftwater", address.parse().unwrap(), &StoredIn::TemporaryDirectory)
    }

    #[test]
    fn the_address_stands_first_and_in_the_commands_where_it_is_needed() {
        let usual = welcome(&[], "127.0.0.1:8080");
        assert!(usual.starts_with("listening on http://127.0.0.1:8080\n"), "{usual}");
        assert!(!usual.contains("--server"), "{usual}");
        let elsewhere = welcome(&[], "127.0.0.1:9");
        assert_eq!(elsewhere.matches("query --server http://127.0.0.1:9 ").count(), 4, "{elsewhere}");
    }

    #[test]
    fn only_streams_that_are_there_are_asked_about() {
        assert!(!welcome(&["--no-flights"], "127.0.0.1:8080").contains("flights"));
        assert!(!welcome(&["--no-host"], "127.0.0.1:8080").contains("host,"));
    }

    #[test]
    fn flights_are_stored_for_as_long_as_they_are_a_gib() {
        let kept = |flags: &[&str]| {
            let line = ["swiftwater", "demo"].into_iter().chain(flags.iter().copied());
            let Command::Demo(args) = Cli::try_parse_from(line).unwrap().command else { panic!("not demo") };
            kept_minutes(&args)
        };
        let usual = kept(&[]).unwrap();
        assert!((200..400).contains(&usual), "{usual}");
        assert!(kept(&["--sample", "0.5"]).unwrap().abs_diff(usual * 2) <= 1);
        assert_eq!(kept(&["--speed", "1"]), Some(FLIGHTS_KEPT_MINUTES_MAX));
        assert_eq!(kept(&["--speed", "max"]), None);
    }

    #[test]
    fn a_sample_keeps_its_share() {
        let lines = "{}\n".repeat(10_000);
        let batch = check_block(lines.into(), &CheckLimits::default(), 1).batch;
        let kept = sampled(&batch, 0.25, &mut SplitMix(1)).len();
        assert!((2_300..2_700).contains(&kept), "{kept}");
        assert_eq!(sampled(&batch, 1.0, &mut SplitMix(1)).len(), 10_000);
    }
}
