//! Sends events over many connections, as fast as they are taken or at a steady rate, and records when each body was
//! acknowledged.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::bodies::Bodies;
use crate::http::Client;

/// Connections over which bodies are sent: while one waits for its acknowledgement, others send.
const CONNECTIONS: usize = 6;

/// The plan of sending.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) stream: &'static str,
    pub(crate) bodies: Arc<Bodies>,
    /// The number of the first body.
    pub(crate) first: u64,
    /// So many bodies; none: until it is stopped.
    pub(crate) count: Option<u64>,
    /// At so many events a second; none: as fast as they are taken.
    pub(crate) rate: Option<f64>,
}

impl Plan {
    /// So many bodies from the first on, as fast as they are taken.
    pub(crate) fn all(address: SocketAddr, stream: &'static str, bodies: &Arc<Bodies>, count: u64) -> Plan {
        Plan { address, stream, bodies: Arc::clone(bodies), first: 0, count: Some(count), rate: None }
    }
}

/// A body that was acknowledged, on disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckedBody {
    /// Seconds from the beginning.
    pub(crate) at: f64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
}

/// The outcome of sending.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) began: SystemTime,
    /// In the order of their times.
    pub(crate) acked: Vec<AckedBody>,
    /// Bodies.
    pub(crate) count: u64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// Until the last acknowledgement.
    pub(crate) seconds: f64,
}

#[derive(Default)]
struct Shared {
    taken: AtomicU64,
    is_over: AtomicBool,
    begun: AtomicU64,
    acked: AtomicU64,
    all: Mutex<Vec<AckedBody>>,
}

/// Sending that goes on.
pub(crate) struct Sending {
    shared: Arc<Shared>,
    began: SystemTime,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Deserialize)]
struct IngestReply {
    accepted: u64,
    rejected: u64,
}

impl Sending {
    pub(crate) fn start(plan: &Plan) -> anyhow::Result<Sending> {
        let shared = Arc::new(Shared::default());
        let (began, start) = (SystemTime::now(), Instant::now());
        let threads = (0..CONNECTIONS).map(|_| {
            let (shared, plan) = (Arc::clone(&shared), plan.clone());
            let work = move || {
                let sent = send(&plan, &shared, start);
                // A failure ends it for all threads.
                shared.is_over.fetch_or(sent.is_err(), Ordering::AcqRel);
                sent
            };
            thread::Builder::new().name("sender".to_owned()).spawn(work)
        });
        let threads = threads.collect::<Result<_, _>>().context("cannot start a thread")?;
        Ok(Sending { shared, began, threads })
    }

    /// Events that were acknowledged so far.
    pub(crate) fn acked(&self) -> u64 {
        self.shared.acked.load(Ordering::Acquire)
    }

    /// Events that were begun to be sent so far.
    pub(crate) fn started_count(&self) -> u64 {
        self.shared.begun.load(Ordering::Acquire)
    }

    /// Ends it after the bodies that are on their way.
    pub(crate) fn stop(self) -> anyhow::Result<Sent> {
        self.shared.is_over.store(true, Ordering::Release);
        self.finish()
    }

    /// Waits until all is acknowledged.
    pub(crate) fn finish(self) -> anyhow::Result<Sent> {
        for thread in self.threads {
            thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        let mut acked = std::mem::take(&mut *lock(&self.shared.all));
        acked.sort_by(|a, b| a.at.total_cmp(&b.at));
        Ok(Sent {
            began: self.began,
            count: acked.len() as u64,
            events: acked.iter().map(|acked| acked.events).sum(),
            bytes: acked.iter().map(|acked| acked.bytes).sum(),
            seconds: acked.last().map_or(0.0, |acked| acked.at),
            acked,
        })
    }
}

/// Nothing panics while it holds the lock.
fn lock(all: &Mutex<Vec<AckedBody>>) -> std::sync::MutexGuard<'_, Vec<AckedBody>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(plan: &Plan, shared: &Shared, start: Instant) -> anyhow::Result<()> {
    let mut client = Client::connect(plan.address)?;
    let path = format!("/v1/streams/{}/events?ack=disk", plan.stream);
    while !shared.is_over.load(Ordering::Acquire) {
        let number = shared.taken.fetch_add(1, Ordering::Relaxed);
        if plan.count.is_some_and(|count| number >= count) {
            break;
        }
        let body = plan.bodies.body(plan.first + number);
        if let Some(rate) = plan.rate {
            // Bodies are of one size, or nearly so.
            let due = start + Duration::from_secs_f64((number * body.events) as f64 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        shared.begun.fetch_add(body.events, Ordering::AcqRel);
        client.send(&client.post_head(&path, "application/json", body.bytes.len()))?;
        client.send(&body.bytes)?;
        let taken: IngestReply = serde_json::from_slice(&client.answer()?).context("events got no answer")?;
        ensure!(
            taken.accepted == body.events && taken.rejected == 0,
            "{} of {} events were taken, {} refused",
            taken.accepted,
            body.events,
            taken.rejected
        );
        let at = start.elapsed().as_secs_f64();
        shared.acked.fetch_add(body.events, Ordering::AcqRel);
        lock(&shared.all).push(AckedBody { at, events: body.events, bytes: body.bytes.len() as u64 });
    }
    Ok(())
}

impl Sent {
    /// Bytes that were acknowledged in each whole second.
    pub(crate) fn by_second(&self) -> Vec<u64> {
        let mut seconds = vec![0; self.seconds as usize];
        for acked in &self.acked {
            if let Some(second) = seconds.get_mut(acked.at as usize) {
                *second += acked.bytes;
            }
        }
        seconds
    }

    /// The longest time without an acknowledgement, in seconds, from a time on.
    pub(crate) fn longest_pause(&self, from: f64) -> f64 {
        let times = self.acked.iter().map(|acked| acked.at).filter(|at| *at >= from);
        let mut last = from;
        let mut longest: f64 = 0.0;
        for at in times {
            longest = longest.max(at - last);
            last = at;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_told_by_time() {
        let acked = [0.5, 0.7, 2.1, 2.9, 3.5].map(|at| AckedBody { at, events: 1, bytes: 10 });
        let sent = Sent {
            began: SystemTime::UNIX_EPOCH,
            acked: acked.to_vec(),
            count: 5,
            events: 5,
            bytes: 50,
            seconds: 3.5,
        };
        assert_eq!(sent.by_second(), [20, 0, 20]);
        assert!((sent.longest_pause(0.0) - 1.4).abs() < 1e-9);
        assert!((sent.longest_pause(2.0) - 0.8).abs() < 1e-9);
    }
}
