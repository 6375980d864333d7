//! A bound on bytes: a caller that adds more waits until some bytes have left.
//!
//! Callers enter in the order in which they began to wait, so small ones cannot starve a large one.

use std::{collections::VecDeque, sync::Condvar};

use crate::lock_order::{OrderedMutex, OrderedMutexGuard};
use tokio::sync::Notify;

/// Bytes on their way, and the most there may be. One larger than the bound goes through alone.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    max: usize,
    state: OrderedMutex<GateState>,
    for_threads: Condvar,
    for_tasks: Notify,
}

#[derive(Debug, Default)]
struct GateState {
    used: usize,
    is_closed: bool,
    /// The waiting tasks by their tickets, the next one in front. Bounded by the callers: each has one ticket.
    line: VecDeque<u64>,
    next_ticket: u64,
}

/// A caller's place in the line, from its first vain try on. It leaves the line when it is dropped.
struct Place<'g> {
    gate: &'g ByteBudget,
    ticket: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.gate.lock();
        // Mostly it is the next one, which has entered.
        if state.line.pop_front_if(|first| *first == ticket).is_none() {
            state.line.retain(|other| *other != ticket);
        }
        drop(state);
        // The next one may fit already.
        self.gate.wake();
    }
}

/// The gate was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

impl ByteBudget {
    pub(crate) fn new(max: usize) -> ByteBudget {
        ByteBudget {
            max: max.max(1),
            state: OrderedMutex::default(),
            for_threads: Condvar::new(),
            for_tasks: Notify::new(),
        }
    }

    pub(crate) fn used_and_max(&self) -> (u64, u64) {
        (self.lock().used as u64, self.max as u64)
    }

    pub(crate) async fn enter(&self, bytes: usize) -> Result<(), Closed> {
        let mut place = Place { gate: self, ticket: None };
        loop {
            let mut changed = std::pin::pin!(self.for_tasks.notified());
            changed.as_mut().enable();
            if let Some(entered) = ByteBudget::try_enter(self.max, &mut self.lock(), &mut place, bytes) {
                return entered;
            }
            changed.await;
        }
    }

    pub(crate) fn enter_blocking(&self, bytes: usize) -> Result<(), Closed> {
        // Declared before the lock, so that it is dropped after it.
        let mut place = Place { gate: self, ticket: None };
        let mut state = self.lock();
        loop {
            if let Some(entered) = ByteBudget::try_enter(self.max, &mut state, &mut place, bytes) {
                drop(state);
                return entered;
            }
            state = state.wait(&self.for_threads);
        }
    }

    fn try_enter(
        max: usize,
        state: &mut GateState,
        place: &mut Place<'_>,
        bytes: usize,
    ) -> Option<Result<(), Closed>> {
        if state.is_closed {
            return Some(Err(Closed));
        }
        let is_next = state.line.front().copied() == place.ticket;
        if is_next && (state.used == 0 || state.used + bytes <= max) {
            state.used += bytes;
            return Some(Ok(()));
        }
        if place.ticket.is_none() {
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.line.push_back(ticket);
            place.ticket = Some(ticket);
        }
        None
    }

    pub(crate) fn leave(&self, bytes: usize) {
        let mut state = self.lock();
        state.used = state.used.saturating_sub(bytes);
        drop(state);
        self.wake();
    }

    fn wake(&self) {
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

    /// Admits no further caller.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.wake();
    }

    fn lock(&self) -> OrderedMutexGuard<'_, GateState> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn large_caller_is_not_passed_by_small_ones() {
        let gate = ByteBudget::new(100);
        let mut first = pin!(gate.enter(60));
        assert_eq!(poll(first.as_mut()), Poll::Ready(Ok(())));
        let mut large = pin!(gate.enter(80));
        assert!(poll(large.as_mut()).is_pending());
        // It would fit, but not before the large one.
        let mut small = pin!(gate.enter(10));
        assert!(poll(small.as_mut()).is_pending());
        gate.leave(60);
        assert!(poll(small.as_mut()).is_pending());
        assert_eq!(poll(large.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(poll(small.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(gate.used_and_max(), (90, 100));
    }

    #[test]
    fn caller_that_gives_up_leaves_the_line() {
        let gate = ByteBudget::new(100);
        assert_eq!(gate.enter_blocking(60), Ok(()));
        let mut small = pin!(gate.enter(10));
        {
            let mut large = pin!(gate.enter(80));
            assert!(poll(large.as_mut()).is_pending());
            assert!(poll(small.as_mut()).is_pending());
        }
        assert_eq!(poll(small.as_mut()), Poll::Ready(Ok(())));
        assert!(gate.lock().line.is_empty());
    }

    #[test]
    fn caller_larger_than_the_bound_enters_alone() {
        let gate = ByteBudget::new(100);
        assert_eq!(gate.enter_blocking(1000), Ok(()));
        let mut small = pin!(gate.enter(1));
        assert!(poll(small.as_mut()).is_pending());
        gate.leave(1000);
        assert_eq!(poll(small.as_mut()), Poll::Ready(Ok(())));
        gate.close();
        assert_eq!(gate.enter_blocking(1), Err(Closed));
    }
}
