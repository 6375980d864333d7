//! Limits connections that have not sent anything yet. Beyond a small limit, a new one evicts the oldest. Silent
//! connections, however many, therefore never exclude a client that sends.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The newcomers of one port.
#[derive(Debug)]
pub(crate) struct PendingConnections {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest in front. The sender of a closed connection is dropped.
    waiting: VecDeque<(u64, oneshot::Sender<()>)>,
    next: u64,
}

/// One of them; it is none any more when this is dropped.
#[derive(Debug)]
pub(crate) struct PendingConnection {
    newcomers: Arc<PendingConnections>,
    number: u64,
    stays: oneshot::Receiver<()>,
}

impl PendingConnections {
    pub(crate) fn new(max: usize) -> Arc<PendingConnections> {
        Arc::new(PendingConnections { max: max.max(1), state: Mutex::default() })
    }

    /// Takes a connection in, and sends the oldest away where there are too many.
    pub(crate) fn enter(self: &Arc<Self>) -> PendingConnection {
        let (sender, stays) = oneshot::channel();
        let mut state = self.lock();
        if state.waiting.len() >= self.max {
            state.waiting.pop_front();
        }
        let number = state.next;
        state.next += 1;
        state.waiting.push_back((number, sender));
        PendingConnection { newcomers: Arc::clone(self), number, stays }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingConnection {
    /// Ready when it has to go.
    pub(crate) async fn sent_away(&mut self) {
        // Nothing is ever sent: its sender goes.
        let _ = (&mut self.stays).await;
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.newcomers.lock().waiting.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_too_many_sends_the_oldest_away() {
        let newcomers = PendingConnections::new(2);
        let (mut a, mut b) = (newcomers.enter(), newcomers.enter());
        assert!(a.sent_away().now_or_never().is_none());
        let mut c = newcomers.enter();
        assert!(a.sent_away().now_or_never().is_some());
        assert!(b.sent_away().now_or_never().is_none() && c.sent_away().now_or_never().is_none());
        // A connection that has sent something is no longer new, and makes room.
        drop(b);
        let mut d = newcomers.enter();
        assert!(c.sent_away().now_or_never().is_none() && d.sent_away().now_or_never().is_none());
    }
}
