//! Limits the time that a connection may take for a request's head: one timer per connection, however many requests it
//! carries.
//!
//! hyper creates a timer for each head that it waits for. With tokio's timers, each is inserted into a wheel that all
//! connections share, behind a lock, and removed when the head has arrived. Here, each head writes one word, and the
//! connection checks it when the last head's time would be up.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Sleep, Timer};
use tokio::time::Instant;

/// No head is waited for.
const NONE: u64 = u64::MAX;
/// The head that is waited for did not come in time.
const PASSED: u64 = 0;

/// The time by which the head of a connection's request must be complete.
#[derive(Debug)]
struct HeadDeadline {
    /// Nanoseconds from `start`, [`NONE`] or [`PASSED`]. Only the connection's own task touches it.
    nanos: AtomicU64,
    start: Instant,
}

impl HeadDeadline {
    fn nanos_of(&self, instant: Instant) -> u64 {
        let nanos = instant.saturating_duration_since(self.start).as_nanos();
        u64::try_from(nanos).unwrap_or(NONE - 1).clamp(PASSED + 1, NONE - 1)
    }
}

/// A connection's timer as hyper wants it, for heads only.
#[derive(Debug, Clone)]
pub(crate) struct HeadTimer(Arc<HeadDeadline>);

impl HeadTimer {
    pub(crate) fn new() -> HeadTimer {
        HeadTimer(Arc::new(HeadDeadline { nanos: AtomicU64::new(NONE), start: Instant::now() }))
    }

    /// True if a head is waited for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.nanos.load(Ordering::Relaxed) != NONE
    }

    /// Ready when a head did not come in time: hyper is to be asked again then, and ends the connection. A head is given `timeout`.
    pub(crate) async fn passed(&self, timeout: Duration) {
        let HeadDeadline { nanos, start } = &*self.0;
        loop {
            let due = match nanos.load(Ordering::Relaxed) {
                // A head awaited from now on is due then or later.
                NONE => Instant::now() + timeout,
                due => *start + Duration::from_nanos(due),
            };
            tokio::time::sleep_until(due).await;
            let now = self.0.nanos_of(Instant::now());
            if nanos.load(Ordering::Relaxed) <= now {
                return nanos.store(PASSED, Ordering::Relaxed);
            }
        }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.0.nanos.store(self.0.nanos_of(deadline.into()), Ordering::Relaxed);
        Box::pin(HeadSleep(Arc::clone(&self.0)))
    }
}

/// Ready once its head did not come in time.
struct HeadSleep(Arc<HeadDeadline>);

impl Future for HeadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.nanos.load(Ordering::Relaxed) {
            PASSED => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl Sleep for HeadSleep {}

impl Drop for HeadSleep {
    fn drop(&mut self) {
        self.0.nanos.store(NONE, Ordering::Relaxed);
    }
}
