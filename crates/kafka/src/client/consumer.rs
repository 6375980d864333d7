//! The caller's side of a consumer, and the state that it shares with the consumer's thread.
//!
//! Each assignment has a number. What the thread has fetched for an earlier assignment of a partition is dropped here, so
//! that changes take effect at once. A pause is the end of an assignment, and a resume a new one from the next offset:
//! librdkafka itself drops what it has fetched at a pause.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::{Consumer, Fetched, KafkaError};

/// The news that wait for the caller, at most; their bytes have a limit, too. When they are full, the thread reads no more.
const INBOX_ITEMS_MAX: usize = 1024;

/// The time after which an idle thread looks for stalled partitions.
const TICK: Duration = Duration::from_secs(1);

/// The assignment of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assignment {
    /// Its number; it grows from one assignment to the next.
    pub(super) number: u64,
    /// The first offset to read.
    pub(super) from: u64,
}

/// News for the caller, of an assignment; number 0 if they concern all partitions.
#[derive(Debug)]
pub(super) struct News {
    pub(super) assignment: u64,
    pub(super) fetched: Fetched,
}

impl News {
    fn bytes(&self) -> usize {
        match &self.fetched {
            Fetched::Messages(batch) => batch.bytes().len() + 64 * batch.len(),
            _ => 64,
        }
    }
}

/// The state that caller and thread share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the thread.
    work: Condvar,
    /// Wakes the caller.
    news: Notify,
    inbox_bytes_max: usize,
}

#[derive(Default)]
struct State {
    /// The wanted assignments that differ from those of the thread; the last one of each partition.
    changes: BTreeMap<u32, Option<Assignment>>,
    /// The offsets to commit; the last one of each partition.
    commits: BTreeMap<u32, u64>,
    inbox: VecDeque<News>,
    inbox_bytes: usize,
    /// True if the queue of the client may have messages.
    queue_ready: bool,
    /// True if the answer to a call may be there.
    calls_ready: bool,
    closed: bool,
    failure: Option<KafkaError>,
    stalls: u64,
}

/// The work of one turn of the thread.
pub(super) struct Work {
    pub(super) changes: BTreeMap<u32, Option<Assignment>>,
    pub(super) commits: BTreeMap<u32, u64>,
    /// The bytes that the inbox still takes; 0 if it is full.
    pub(super) room_bytes: usize,
    /// True if the queue may have messages. They are to be read until there are none.
    pub(super) queue_ready: bool,
}

impl Shared {
    pub(super) fn new(inbox_bytes_max: usize) -> Shared {
        let state = State { queue_ready: true, ..State::default() };
        Shared { state: Mutex::new(state), work: Condvar::new(), news: Notify::new(), inbox_bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room_bytes(&self, state: &State) -> usize {
        if state.inbox.len() >= INBOX_ITEMS_MAX {
            return 0;
        }
        self.inbox_bytes_max.saturating_sub(state.inbox_bytes)
    }

    /// Waits for work, for a second at most; `None` if the consumer is dropped.
    pub(super) fn wait(&self) -> Option<Work> {
        let is_idle = |state: &mut State| {
            let can_read = state.queue_ready && self.room_bytes(state) > 0;
            !state.closed
                && !can_read
                && !state.calls_ready
                && state.changes.is_empty()
                && state.commits.is_empty()
        };
        let waited = self.work.wait_timeout_while(self.lock(), TICK, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        let room_bytes = self.room_bytes(&state);
        let queue_ready = state.queue_ready;
        state.calls_ready = false;
        if room_bytes > 0 {
            // Set again by the client's callback, or by the thread if it leaves messages in the queue.
            state.queue_ready = false;
        }
        Some(Work {
            changes: std::mem::take(&mut state.changes),
            commits: std::mem::take(&mut state.commits),
            room_bytes,
            queue_ready,
        })
    }

    /// The client's queue may have messages.
    pub(super) fn set_queue_ready(&self) {
        self.lock().queue_ready = true;
        self.work.notify_one();
    }

    /// The answer to a call may be there.
    pub(super) fn set_calls_ready(&self) {
        self.lock().calls_ready = true;
        self.work.notify_one();
    }

    /// Adds news for the caller.
    pub(super) fn send(&self, news: impl IntoIterator<Item = News>) {
        let mut state = self.lock();
        let before = state.inbox.len();
        for news in news {
            state.inbox_bytes += news.bytes();
            state.inbox.push_back(news);
        }
        if state.inbox.len() > before {
            drop(state);
            self.news.notify_one();
        }
    }

    pub(super) fn add_stall(&self) {
        self.lock().stalls += 1;
    }

    /// Ends the consumer with an error, after the news that wait.
    pub(super) fn fail(&self, error: KafkaError) {
        self.lock().failure = Some(error);
        self.news.notify_one();
    }
}

/// The assignment of a partition as the caller sees it.
#[derive(Debug)]
struct Assigned {
    number: u64,
    /// The next offset that the caller gets.
    next: u64,
    paused: bool,
}

/// A consumer whose thread reads librdkafka's queue.
pub(super) struct ClientConsumer {
    shared: Arc<Shared>,
    topic: Box<str>,
    partitions: HashMap<u32, Assigned>,
    assignments: u64,
}

impl ClientConsumer {
    pub(super) fn new(shared: Arc<Shared>, topic: &str) -> ClientConsumer {
        ClientConsumer { shared, topic: topic.into(), partitions: HashMap::new(), assignments: 0 }
    }

    fn change(&self, partition: u32, assignment: Option<Assignment>) {
        self.shared.lock().changes.insert(partition, assignment);
        self.shared.work.notify_one();
    }

    /// The next news that concern a current assignment.
    fn take(&mut self) -> Option<Fetched> {
        let mut state = self.shared.lock();
        let was_full = self.shared.room_bytes(&state) == 0;
        let mut taken = None;
        while let Some(news) = state.inbox.pop_front() {
            state.inbox_bytes -= news.bytes();
            if is_current(&mut self.partitions, &news) {
                taken = Some(news.fetched);
                break;
            }
        }
        if taken.is_none() {
            taken = state.failure.clone().map(Fetched::Failed);
        }
        if was_full && self.shared.room_bytes(&state) > 0 {
            self.shared.work.notify_one();
        }
        taken
    }
}

/// True if news are of the current assignment of their partition, whose next offset is then moved.
fn is_current(partitions: &mut HashMap<u32, Assigned>, news: &News) -> bool {
    let (partition, next) = match &news.fetched {
        Fetched::Messages(batch) => (batch.partition(), Some(batch.next())),
        Fetched::End { partition, next } => (*partition, Some(*next)),
        Fetched::Gap { partition, .. } | Fetched::Waiting { partition: Some(partition), .. } => {
            (*partition, None)
        }
        Fetched::Waiting { partition: None, .. } | Fetched::Failed(_) => return true,
    };
    let Some(assigned) = partitions.get_mut(&partition) else { return false };
    if assigned.paused || assigned.number != news.assignment {
        return false;
    }
    if let Some(next) = next {
        assigned.next = next;
    }
    if matches!(news.fetched, Fetched::Gap { .. }) {
        partitions.remove(&partition);
    }
    true
}

impl std::fmt::Debug for ClientConsumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConsumer")
            .field("topic", &self.topic)
            .field("partitions", &self.partitions)
            .finish()
    }
}

#[async_trait]
impl Consumer for ClientConsumer {
    fn assign(&mut self, partition: u32, from: u64) {
        self.assignments += 1;
        let number = self.assignments;
        self.partitions.insert(partition, Assigned { number, next: from, paused: false });
        self.change(partition, Some(Assignment { number, from }));
    }

    fn unassign(&mut self, partition: u32) {
        if self.partitions.remove(&partition).is_some() {
            self.change(partition, None);
        }
    }

    fn pause(&mut self, partition: u32) {
        let Some(assigned) = self.partitions.get_mut(&partition).filter(|assigned| !assigned.paused) else {
            return;
        };
        assigned.paused = true;
        self.change(partition, None);
    }

    fn resume(&mut self, partition: u32) {
        if let Some(assigned) = self.partitions.get(&partition).filter(|assigned| assigned.paused) {
            self.assign(partition, assigned.next);
        }
    }

    async fn next(&mut self) -> Fetched {
        loop {
            if let Some(fetched) = self.take() {
                return fetched;
            }
            let shared = Arc::clone(&self.shared);
            shared.news.notified().await;
        }
    }

    fn commit(&mut self, offsets: &[(u32, u64)]) {
        self.shared.lock().commits.extend(offsets.iter().copied());
        self.shared.work.notify_one();
    }

    fn stalls(&self) -> u64 {
        self.shared.lock().stalls
    }
}

impl Drop for ClientConsumer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
    }
}
