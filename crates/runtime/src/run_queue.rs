//! The queue of streams with pending work, from which shards take the next one.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use crate::stream::{Stream, lock};

/// The streams that have work, and the shards that wait for some.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    state: Mutex<LineState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LineState {
    streams: VecDeque<Arc<Stream>>,
    is_closed: bool,
}

impl RunQueue {
    pub(crate) fn push(&self, stream: Arc<Stream>) {
        lock(&self.state).streams.push_back(stream);
        self.changed.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<Arc<Stream>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(stream) = state.streams.pop_front() {
                return Some(stream);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }
}
