//! A bound on bytes: whoever wants to bring more waits until some were taken away.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Bytes on their way, and the most there may be. One larger than the bound goes through alone.
#[derive(Debug)]
pub(crate) struct Gate {
    max: usize,
    state: Mutex<GateState>,
    for_threads: Condvar,
    for_tasks: Notify,
}

#[derive(Debug, Default)]
struct GateState {
    used: usize,
    is_closed: bool,
}

/// The gate was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl Gate {
    pub(crate) fn new(max: usize) -> Gate {
        Gate {
            max: max.max(1),
            state: Mutex::default(),
            for_threads: Condvar::new(),
            for_tasks: Notify::new(),
        }
    }

    pub(crate) fn used_and_max(&self) -> (u64, u64) {
        (self.lock().used as u64, self.max as u64)
    }

    pub(crate) async fn enter(&self, bytes: usize) -> Result<(), Closed> {
        loop {
            let mut changed = std::pin::pin!(self.for_tasks.notified());
            changed.as_mut().enable();
            if let Some(entered) = self.try_enter(&mut self.lock(), bytes) {
                return entered;
            }
            changed.await;
        }
    }

    pub(crate) fn enter_blocking(&self, bytes: usize) -> Result<(), Closed> {
        let mut state = self.lock();
        loop {
            if let Some(entered) = self.try_enter(&mut state, bytes) {
                return entered;
            }
            state = self.for_threads.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn try_enter(&self, state: &mut GateState, bytes: usize) -> Option<Result<(), Closed>> {
        if state.is_closed {
            return Some(Err(Closed));
        }
        let fits = state.used == 0 || state.used + bytes <= self.max;
        fits.then(|| {
            state.used += bytes;
            Ok(())
        })
    }

    pub(crate) fn leave(&self, bytes: usize) {
        let mut state = self.lock();
        state.used = state.used.saturating_sub(bytes);
        drop(state);
        self.for_threads.notify_all();
        self.for_tasks.notify_waiters();
    }

    /// Waits until nothing is on its way.
    pub(crate) async fn empty(&self) {
        loop {
            let mut changed = std::pin::pin!(self.for_tasks.notified());
            changed.as_mut().enable();
            if self.lock().used == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.for_threads.notify_all();
        self.for_tasks.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
