//! `swiftwater bench validate`: runs many concurrent queries with known answers against any server.
//!
//! The values that the queries search for are planted in the events that are sent, each in a random number of them. They are
//! counted as they are planted, independently of the server. The answers are checked against these counts.

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use hyper::Method;
use serde_json::json;
use swiftwater_event::Clock;
use swiftwater_generate::published::{PublishedEvents, QUERIES_MAX};

use super::{
    scenario::{Context, Size},
    scenarios::{collect, submit_detached},
    server::Server,
};
use crate::{
    args::{ReportForm, ValidateArgs},
    exit::{Failure, Outcome},
    output::grouped,
    progress::Progress,
    signals,
    stdio::write_out,
};

/// The exit status when an answer was wrong.
const WRONG: u8 = 1;
/// The exit status when it could not be begun.
const NOT_BEGUN: u8 = 2;
/// Events of one request.
const BODY_EVENTS: u64 = 128;

/// Runs the command.
pub(in crate::bench) fn run(args: &ValidateArgs, clock: Arc<dyn Clock>) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let at_signal = Arc::clone(&stop);
    signals::on_interrupt(move || at_signal.store(true, std::sync::atomic::Ordering::Relaxed))
        .context("cannot catch signals")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let context = Context {
        size: Size::Short,
        clock,
        stop,
        directory: std::env::temp_dir(),
        given: Some(args.client.url().to_owned()),
        runtime: runtime.context("cannot start")?,
    };
    let begun = |error| Failure::coded(NOT_BEGUN, error);
    check(args).map_err(begun)?;
    let server = Server::start(&context, &[], false).map_err(begun)?;
    let validated = validate(args, &context, &server);
    if context.check().is_err() {
        return Ok(ExitCode::from(signals::INTERRUPTED));
    }
    let validated = validated?;
    write_out(|out| match args.output {
        ReportForm::Table => writeln!(out, "{}", validated.text()),
        ReportForm::Json => writeln!(out, "{:#}", validated.document()),
    })?;
    Ok(if validated.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

fn check(args: &ValidateArgs) -> anyhow::Result<()> {
    let queries = args.queries;
    ensure!((1..=QUERIES_MAX).contains(&queries), "`--queries {queries}`: allowed: 1 to {QUERIES_MAX}");
    ensure!(args.events > 0, "`--events 0`: write a number above 0");
    Ok(())
}

/// The result.
struct Validated {
    queries: usize,
    events: u64,
    expected: u64,
    found: u64,
    seconds: f64,
    /// The queries with wrong answers: number, expected records, actual records.
    wrong: Vec<(usize, u64, u64)>,
}

impl Validated {
    fn text(&self) -> String {
        let rate = self.events as f64 / self.seconds.max(1e-9);
        let mut text = format!(
            "{} queries at once, {} events in {:.2} s ({} per second): {} of {} records found",
            grouped(self.queries as u64),
            grouped(self.events),
            self.seconds,
            grouped(rate as u64),
            grouped(self.found),
            grouped(self.expected),
        );
        for (query, expected, found) in self.wrong.iter().take(10) {
            text.push_str(&format!("\nquery {query} should have {expected} records and has {found}"));
        }
        match self.wrong.len() {
            0 => text.push_str("\nall answers are correct"),
            wrong => text.push_str(&format!("\n{wrong} answers are wrong")),
        }
        text
    }

    fn document(&self) -> serde_json::Value {
        let wrong = |(query, expected, found): &(usize, u64, u64)| json!({"query": query, "expected": expected, "found": found});
        json!({
            "queries": self.queries,
            "events": self.events,
            "seconds": self.seconds,
            "records_expected": self.expected,
            "records_found": self.found,
            "wrong": self.wrong.iter().map(wrong).collect::<Vec<_>>(),
        })
    }
}

fn validate(args: &ValidateArgs, context: &Context, server: &Server) -> anyhow::Result<Validated> {
    let mut made = PublishedEvents::new(args.seed, args.queries, args.match_share);
    let select = |text: &String| text.replacen("SELECT *", "SELECT s01", 1);
    let texts: Vec<String> = made.queries_over(&args.stream).iter().map(select).collect();
    let ids = submit_detached(context, server, &texts)?;
    let progress = Progress::events(args.events, args.quiet);
    let path = format!("/v1/streams/{}/events", args.stream);
    let began = context.clock.monotonic_nanos();
    let mut sent = 0;
    while sent < args.events {
        context.check()?;
        let count = BODY_EVENTS.min(args.events - sent);
        let mut body = Vec::new();
        made.write(count as usize, &mut body);
        if let Some(rate) = args.rate {
            let due = began + (sent as f64 / rate * 1e9) as u64;
            context.pause(Duration::from_nanos(due.saturating_sub(context.clock.monotonic_nanos())))?;
        }
        server.ask(Method::POST, &path, &[("content-type", "application/x-ndjson")], body)?;
        sent += count;
        progress.set(sent);
    }
    let seconds = (context.clock.monotonic_nanos() - began) as f64 / 1e9;
    progress.finish();
    let found = collect(context, server, &ids)?;
    let counts = found.iter().map(|records| records.len() as u64);
    let pairs = made.truth().iter().copied().zip(counts.clone()).enumerate();
    let wrong = pairs.filter(|(_, (expected, found))| expected != found);
    Ok(Validated {
        queries: args.queries,
        events: sent,
        expected: made.truth().iter().sum(),
        found: counts.sum(),
        seconds,
        wrong: wrong.map(|(query, (expected, found))| (query, expected, found)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told() {
        let good = Validated { queries: 2, events: 1000, expected: 7, found: 7, seconds: 2.0, wrong: vec![] };
        assert!(good.text().contains("(500 per second): 7 of 7 records found\nall answers are correct"));
        let bad = Validated { found: 6, wrong: vec![(1, 4, 3)], ..good };
        assert!(bad.text().ends_with("query 1 should have 4 records and has 3\n1 answers are wrong"));
        assert_eq!(bad.document()["wrong"][0]["found"], 3);
    }
}
