//! The queue of streams with pending work, from which shards take the next one.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar},
};

use crate::lock_order::OrderedMutex;
use crate::stream::Stream;

/// The streams that have work, and the shards that wait for some.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    state: OrderedMutex<LineState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineState {
    streams: VecDeque<Arc<Stream>>,
    is_closed: bool,
}

impl RunQueue {
    pub(crate) fn push(&self, stream: Arc<Stream>) {
        self.state.lock().streams.push_back(stream);
        self.changed.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<Arc<Stream>> {
        let mut state = self.state.lock();
        loop {
            if let Some(stream) = state.streams.pop_front() {
                return Some(stream);
            }
            if state.is_closed {
                return None;
            }
            state = state.wait(&self.changed);
        }
    }

    /// Does the same as [`RunQueue::pop`], without a wait.
    #[cfg(test)]
    pub(crate) fn try_pop(&self) -> Option<Arc<Stream>> {
        self.state.lock().streams.pop_front()
    }

    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }
}
