//! Sends events to a stream in the background, at a rate or as fast as the server takes them.
//!
//! Bodies are generated beforehand and sent in rotation, so that their generation costs the measured machine nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use swiftwater_event::Clock;
use swiftwater_generate::published::PublishedEvents;
use swiftwater_load::{Arrival, Body, Lines, Plan, Report, Request, Template};

use super::{scenario::Context, server::Server};

/// Different bodies.
const BODIES: usize = 48;
/// Approximate bytes of a body.
const BODY_BYTES: usize = 256 << 10;
/// Approximate bytes of a body with few events.
const FEW_BYTES: usize = 64 << 10;
/// Connections that share a rate: while one waits for its answer, others send.
const CONNECTIONS: usize = 4;
/// Time after which an answer counts as failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bodies of events, each a list of as many.
pub(super) struct Bodies {
    lines: Arc<Lines>,
    /// Events of each.
    pub(super) events: u64,
    /// Bytes of an event.
    pub(super) event_bytes: f64,
}

impl Bodies {
    /// Events that are made by a call each, which ends them with a line break.
    pub(super) fn new(make: impl FnMut(&mut Vec<u8>)) -> Bodies {
        Bodies::many(BODIES, make)
    }

    /// Makes so many bodies.
    pub(super) fn many(bodies: usize, make: impl FnMut(&mut Vec<u8>)) -> Bodies {
        Bodies::sized(bodies, BODY_BYTES, make)
    }

    /// Makes so many bodies of about so many bytes.
    pub(super) fn sized(bodies: usize, body_bytes: usize, mut make: impl FnMut(&mut Vec<u8>)) -> Bodies {
        let mut event = Vec::new();
        make(&mut event);
        let events = (body_bytes / event.len().max(1)).max(1);
        let mut is_first = true;
        let mut all = Vec::with_capacity(bodies * body_bytes * 5 / 4);
        for _ in 0..bodies {
            for place in 0..events {
                all.push(if place == 0 { b'[' } else { b',' });
                // The first event has determined their length.
                if !is_first {
                    event.clear();
                    make(&mut event);
                }
                is_first = false;
                all.extend_from_slice(event.trim_ascii_end());
            }
            all.extend_from_slice(b"]\n");
        }
        let event_bytes = all.len() as f64 / (bodies * events) as f64 - 1.0;
        let lines = Arc::new(Lines::new(all).expect("there is a body"));
        Bodies { lines, events: events as u64, event_bytes }
    }

    /// Events of Bullet's published load tests, that no query matches, few at a time: where it matters how soon the next comes.
    pub(super) fn few_of_bullet() -> Bodies {
        let mut events = PublishedEvents::new(21, 0, 0.0);
        Bodies::sized(BODIES, FEW_BYTES, |out| events.write(1, out))
    }
}

/// The result of sending.
#[derive(Debug, Clone, Default)]
pub(super) struct FeedResult {
    /// Events that were acknowledged.
    pub(super) events: u64,
    /// A second.
    pub(super) reached: f64,
    /// Time until it was ended, or the last answer came.
    pub(super) seconds: f64,
    /// Bodies that were refused or lost.
    pub(super) failures: u64,
    /// The outcomes of the requests, as in `200: 47, 429: 1`.
    pub(super) outcomes: String,
}

impl FeedResult {
    /// The fault of the run, if it has one; `taken` is the number of events that the stream has.
    pub(super) fn fault(&self, taken: u64) -> Option<String> {
        if self.failures > 0 {
            return Some(format!("{} bodies of events failed ({})", self.failures, self.outcomes));
        }
        (taken != self.events)
            .then(|| format!("{} events were acknowledged, the stream has {taken}", self.events))
    }
}

/// Events on their way.
pub(super) struct Feed {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Report>>,
    events: u64,
    clock: Arc<dyn Clock>,
    began: u64,
}

fn plan(server: &Server, stream: &str, bodies: &Bodies, rate: Option<f64>) -> anyhow::Result<Plan> {
    let request = Request {
        name: stream.to_owned(),
        weight: 1,
        method: "POST".to_owned(),
        path: Template::new(&format!("/v1/streams/{stream}/events")).context("a path")?,
        fields: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: Body::Lines(Arc::clone(&bodies.lines)),
    };
    Ok(Plan {
        address: server.address,
        host: server.address.to_string(),
        requests: vec![request],
        arrival: rate.map_or(Arrival::Answered, |rate| Arrival::Rate(rate / bodies.events as f64)),
        requests_max: None,
        duration: None,
        warm_up: Duration::ZERO,
        connections: CONNECTIONS,
        threads: 1,
        retries: 0,
        expected: Vec::new(),
        timeout: PATIENCE,
        seed: 1,
        producer: None,
    })
}

impl Feed {
    /// Starts sending so many events a second, or as fast as they are taken, until it is ended.
    pub(super) fn start(
        context: &Context,
        server: &Server,
        stream: &str,
        bodies: &Bodies,
        rate: Option<f64>,
    ) -> anyhow::Result<Feed> {
        let plan = plan(server, stream, bodies, rate)?;
        let (stop, clock) = (Arc::new(AtomicBool::new(false)), Arc::clone(&context.clock));
        let stopped = Arc::clone(&stop);
        let (timer, began) = (Arc::clone(&clock), clock.monotonic_nanos());
        let work = move || swiftwater_load::run(&plan, &*timer, &stopped, None, None, |_| {});
        let thread = thread::Builder::new().name("feed".to_owned()).spawn(work)?;
        Ok(Feed { stop, thread, events: bodies.events, clock, began })
    }

    /// Ends it, with what is on its way.
    pub(super) fn end(self) -> anyhow::Result<FeedResult> {
        self.stop.store(true, Ordering::Relaxed);
        // The next would have been due later than the last that was: without that time the rate would seem higher.
        let seconds = (self.clock.monotonic_nanos() - self.began) as f64 / 1e9;
        let report = self.thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        Ok(feed_result(&report.context("cannot send events")?, self.events, seconds))
    }
}

/// Sends so many bodies as fast as they are taken.
pub(super) fn send(
    context: &Context,
    server: &Server,
    stream: &str,
    bodies: &Bodies,
    count: u64,
) -> anyhow::Result<FeedResult> {
    ensure!(count > 0, "nothing is to be sent");
    let plan = Plan { requests_max: Some(count), ..plan(server, stream, bodies, None)? };
    let report = swiftwater_load::run(&plan, &*context.clock, &context.stop, None, None, |_| {})?;
    context.check()?;
    Ok(feed_result(&report, bodies.events, 0.0))
}

/// The result of a run that took at least so many seconds.
fn feed_result(report: &Report, events: u64, seconds: f64) -> FeedResult {
    let total = report.total();
    let done = (total.latency.count() - total.failures) * events;
    let seconds = seconds.max(report.seconds);
    let reached = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
    let outcomes: Vec<String> =
        total.outcomes.iter().map(|(outcome, count)| format!("{}: {count}", outcome.name())).collect();
    FeedResult { events: done, reached, seconds, failures: total.failures, outcomes: outcomes.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_lists_of_as_many_events() {
        let mut number = 0;
        let bodies = Bodies::many(3, |out| {
            out.extend_from_slice(
                format!("{{\"n\":{number},\"pad\":\"{}\"}}\n", "x".repeat(50_000)).as_bytes(),
            );
            number += 1;
        });
        assert_eq!(bodies.events, 5);
        assert_eq!(number, 15, "every event that is made is in a body");
        assert!((50_000.0..50_100.0).contains(&bodies.event_bytes), "{}", bodies.event_bytes);
    }

    #[test]
    fn what_was_acknowledged_must_be_there() {
        let outcomes = "200: 3, 429: 1".to_owned();
        let fed = FeedResult { events: 10, reached: 10.0, seconds: 1.0, failures: 0, outcomes };
        assert_eq!(fed.fault(10), None);
        assert!(fed.fault(9).unwrap().contains("the stream has 9"));
        assert!(FeedResult { failures: 1, ..fed }.fault(10).unwrap().contains("(200: 3, 429: 1)"));
    }
}
