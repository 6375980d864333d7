//! Runs a plan from its first request to its last answer: starts the threads, and merges their counts.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::AtomicBool,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use swiftwater_event::Clock;

use crate::{
    histogram::Histogram,
    plan::Plan,
    report::{Counts, Interval, Report},
    worker::{Run, SampleConsumer, Tally, Worker},
};

/// Runs a plan to its end. Samples are handed on by the threads, some at a time and in no order between threads; intervals
/// on this thread, one whenever so long has passed. After `stop` is set nothing new is sent, and what is on its way ends.
///
/// # Errors
///
/// Fails if a thread cannot be started or cannot wait for its connections. Failures of requests are counted.
pub fn run(
    plan: &Plan,
    clock: &dyn Clock,
    stop: &AtomicBool,
    samples: Option<&SampleConsumer<'_>>,
    every: Option<Duration>,
    mut interval: impl FnMut(&Interval),
) -> io::Result<Report> {
    let kinds = plan.requests.len();
    let tallies: Vec<Mutex<Tally>> = (0..plan.threads)
        .map(|_| Mutex::new(Tally { kinds: vec![Counts::default(); kinds], ..Tally::default() }))
        .collect();
    let run = Run { plan, clock, began: clock.monotonic_nanos(), stop, samples };
    thread::scope(|scope| -> io::Result<()> {
        // Nothing is sent over it: it ends when the last thread does.
        let (working, worked) = mpsc::channel::<()>();
        let threads = tallies.iter().enumerate().map(|(place, tally)| {
            let (run, working) = (&run, working.clone());
            let work = move || {
                let done = Worker::new(run, place, tally).and_then(Worker::work);
                drop(working);
                done
            };
            thread::Builder::new().name("load".to_owned()).spawn_scoped(scope, work)
        });
        let threads = threads.collect::<Result<Vec<_>, _>>()?;
        drop(working);
        let mut told = run.began;
        while let Some(every) = every {
            match worked.recv_timeout(every) {
                Err(RecvTimeoutError::Timeout) => {
                    let now = clock.monotonic_nanos();
                    interval(&collect_interval(&tallies, run.began, told, now));
                    told = now;
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
        }
        Ok(())
    })?;
    Ok(report(plan, tallies))
}

/// The requests that ended since the last interval.
fn collect_interval(tallies: &[Mutex<Tally>], began: u64, told: u64, now: u64) -> Interval {
    let (mut latency, mut failures) = (Histogram::default(), 0);
    for tally in tallies {
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        latency.merge(&tally.interval);
        tally.interval.clear();
        failures += std::mem::take(&mut tally.interval_failures);
    }
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    Interval { at_seconds: seconds(now - began), seconds: seconds(now - told), latency, failures }
}

fn report(plan: &Plan, tallies: Vec<Mutex<Tally>>) -> Report {
    let mut report = Report { kinds: vec![Counts::default(); plan.requests.len()], ..Report::default() };
    let mut last = 0;
    for tally in tallies {
        let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (all, its) in report.kinds.iter_mut().zip(&tally.kinds) {
            all.merge(its);
        }
        report.unsent += tally.unsent;
        last = last.max(tally.last_nanos);
    }
    report.seconds = (last as f64 / 1e9 - plan.warm_up.as_secs_f64()).max(0.0);
    report
}
