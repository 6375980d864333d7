//! `swiftwater bench load`: sends HTTP requests according to its flags, and prints the report.

use std::{
    fs::File,
    io::{BufWriter, Write},
    net::ToSocketAddrs,
    path::Path,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use swiftwater_event::Clock;
use swiftwater_load::{Arrival, CONNECTIONS_MAX, Plan, Sample};

use super::{report, requests};
use crate::{
    args::{LoadArgs, ReportForm},
    exit::{Failure, Outcome},
    signals,
    stdio::{complain, stderr_is_terminal, write_out},
};

/// The exit status when a request failed.
const FAILED: u8 = 1;
/// The exit status when it could not be begun.
const NOT_BEGUN: u8 = 2;
const DURATION: Duration = Duration::from_secs(10);

/// The destination of requests.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    path: String,
}

/// Runs the command.
pub(super) fn run(args: &LoadArgs, clock: &dyn Clock) -> Outcome {
    let plan = plan(args).map_err(|error| Failure::coded(NOT_BEGUN, error))?;
    // A server that is not there is told of at once, not by every request.
    std::net::TcpStream::connect_timeout(&plan.address, plan.timeout)
        .with_context(|| format!("cannot reach a server at {}", plan.address))
        .map_err(|error| Failure::coded(NOT_BEGUN, error))?;
    let log = args.csv.as_deref().map(|path| Log::create(path, clock)).transpose();
    let log = log.map_err(|error| Failure::coded(NOT_BEGUN, error))?;
    let stop = Arc::new(AtomicBool::new(false));
    let at_signal = Arc::clone(&stop);
    signals::on_interrupt(move || at_signal.store(true, Ordering::Relaxed))
        .context("cannot catch signals")?;
    let write = log.as_ref().map(|log| |samples: &[Sample]| log.write(&plan, samples));
    let samples = write.as_ref().map(|write| write as &(dyn Fn(&[Sample]) + Sync));
    let every = match args.interval {
        _ if args.quiet => None,
        Some(interval) => Some(interval),
        None => stderr_is_terminal().then_some(Duration::from_secs(1)),
    };
    let report = swiftwater_load::run(&plan, clock, &stop, samples, every, |interval| {
        complain(&report::line(interval));
    })
    .context("cannot send requests")?;
    if let Some(log) = log {
        log.finish()?;
    }
    write_out(|out| match args.output {
        ReportForm::Table => report::write_table(&plan, &report, out),
        ReportForm::Json => writeln!(out, "{:#}", report::document(&plan, &report)),
    })?;
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(signals::INTERRUPTED));
    }
    let is_good = report.total().failures == 0 && report.unsent == 0;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn plan(args: &LoadArgs) -> anyhow::Result<Plan> {
    let target = Target::read(args.target.as_deref().filter(|url| !url.is_empty()))?;
    let requests = requests::read(args, &target.path)?;
    let address = target.host.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let address = address.with_context(|| format!("`{}` cannot be resolved", target.host))?;
    ensure!(
        (1..=CONNECTIONS_MAX).contains(&args.connections),
        "`--connections {}`: allowed: 1 to {CONNECTIONS_MAX}",
        args.connections
    );
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = args.threads.unwrap_or_else(|| (cores / 2).max(1).min(args.connections));
    ensure!(
        (1..=args.connections).contains(&threads),
        "`--threads {threads}`: allowed: 1 to the number of connections, {}",
        args.connections
    );
    let duration = match (args.duration, args.requests_max) {
        (None, None) => Some(args.warm_up + DURATION),
        (duration, _) => duration,
    };
    ensure!(
        duration.is_none_or(|duration| duration > args.warm_up),
        "`--warm-up` is as long as the whole run"
    );
    Ok(Plan {
        address,
        host: target.host,
        requests,
        arrival: args.rate.map_or(Arrival::Answered, Arrival::Rate),
        requests_max: args.requests_max,
        duration,
        warm_up: args.warm_up,
        connections: args.connections,
        threads,
        retries: args.retries,
        expected: args.expect.clone(),
        timeout: args.timeout,
        seed: args.seed,
        producer: args.producer.clone(),
    })
}

impl Target {
    /// Reads `http://host:port/path`; without a URL the usual one.
    fn read(url: Option<&str>) -> anyhow::Result<Target> {
        let url = url.unwrap_or("http://127.0.0.1:8080");
        let bare = match url.split_once("://") {
            Some(("http", bare)) => bare,
            Some(("https", _)) => {
                bail!("`{url}`: https is not supported; use the server's http address")
            }
            Some(_) => bail!("`{url}` is not a server's address; write for example `http://127.0.0.1:8080`"),
            None => url,
        };
        let (host, path) = bare.find('/').map_or((bare, "/"), |slash| bare.split_at(slash));
        ensure!(!host.is_empty() && !host.contains([' ', '@']), "`{url}` names no host");
        let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
        let host = if port.is_some() { host.to_owned() } else { format!("{host}:80") };
        Ok(Target { host, path: path.to_owned() })
    }
}

/// The file of all requests.
struct Log {
    out: Mutex<(BufWriter<File>, Option<std::io::Error>)>,
    began_micros: i64,
    path: String,
}

impl Log {
    fn create(path: &Path, clock: &dyn Clock) -> anyhow::Result<Log> {
        let told = || format!("cannot write `{}`", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(told)?);
        file.write_all(report::CSV_HEADER.as_bytes()).with_context(told)?;
        Ok(Log {
            out: Mutex::new((file, None)),
            began_micros: clock.now_micros(),
            path: path.display().to_string(),
        })
    }

    /// Adds lines; the first error is told at the end.
    fn write(&self, plan: &Plan, samples: &[Sample]) {
        let text = report::csv(plan, self.began_micros, samples);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.1.is_none() {
            out.1 = out.0.write_all(text.as_bytes()).err();
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        let (mut file, error) = self.out.into_inner().unwrap_or_else(PoisonError::into_inner);
        let written = error.map_or_else(|| file.flush(), Err);
        written.with_context(|| format!("cannot write `{}`", self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let read = |url| Target::read(Some(url)).map(|target| (target.host, target.path));
        let pair = |host: &str, path: &str| (host.to_owned(), path.to_owned());
        assert_eq!(read("http://127.0.0.1:8080").unwrap(), pair("127.0.0.1:8080", "/"));
        assert_eq!(read("localhost/a/b?c=d").unwrap(), pair("localhost:80", "/a/b?c=d"));
        assert_eq!(read("http://[::1]:9/").unwrap(), pair("[::1]:9", "/"));
        assert_eq!(read("http://[::1]").unwrap(), pair("[::1]:80", "/"));
        for url in ["https://x", "ftp://x", "http:///x", ""] {
            assert!(read(url).is_err(), "{url}");
        }
    }
}
