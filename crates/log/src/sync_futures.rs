//! Waits for room in the log's queue, and for appended records to be synced: by runtime-independent futures, and by
//! blocking.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use crate::{LogError, LogPosition, frame::OVERHEAD_BYTES_MAX, queue::Shared};

/// Room in the log's queue for one record. Drop returns the unused part.
pub struct Reservation {
    shared: Arc<Shared>,
    bytes: u64,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("bytes", &self.bytes).finish()
    }
}

impl Reservation {
    /// Bytes that were taken: what was asked for, and what a frame needs beside.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Uses the reservation up: the caller accounts for its bytes.
    pub(crate) fn spend(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut queue = self.shared.queue();
        queue.reserved_bytes -= self.bytes;
        let next = queue.next_room_waiter();
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// Takes room without waiting, where nobody waits already.
pub(crate) fn try_reserve(shared: &Arc<Shared>, bytes: u64) -> Result<Option<Reservation>, LogError> {
    let bytes = queue_bytes(shared, bytes)?;
    let mut queue = shared.queue();
    let others_wait = !queue.room_waiters.is_empty();
    let reserved = queue.reserve(bytes, false, &shared.options);
    if matches!(reserved, Err(LogError::Full)) {
        queue.maintenance.room = true;
        shared.notify_writer(&mut queue);
    }
    if reserved? {
        if !others_wait {
            return Ok(Some(Reservation { shared: Arc::clone(shared), bytes }));
        }
        queue.reserved_bytes -= bytes;
    }
    Ok(None)
}

/// Bytes of the queue that a record of so many bytes needs.
fn queue_bytes(shared: &Shared, bytes: u64) -> Result<u64, LogError> {
    let bytes_max = shared.options.record_bytes_max;
    if bytes > bytes_max {
        return Err(LogError::TooLarge { bytes, bytes_max });
    }
    // A queue that holds one record of the largest size must have room for its frame as well.
    Ok((bytes + OVERHEAD_BYTES_MAX).min(shared.options.queue_bytes_max))
}

/// Waits for room in the log's queue, in the order of the calls. Can be dropped at any time.
#[must_use = "it does nothing until it is awaited"]
pub struct ReserveFuture {
    shared: Arc<Shared>,
    bytes: u64,
    is_urgent: bool,
    /// Its place in the line, once it waits.
    ticket: Option<u64>,
}

impl ReserveFuture {
    pub(crate) fn new(shared: &Arc<Shared>, bytes: u64, is_urgent: bool) -> ReserveFuture {
        ReserveFuture { shared: Arc::clone(shared), bytes, is_urgent, ticket: None }
    }
}

impl Future for ReserveFuture {
    type Output = Result<Reservation, LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let bytes = queue_bytes(&this.shared, this.bytes)?;
        let mut queue = this.shared.queue();
        let ticket = *this.ticket.get_or_insert_with(|| queue.ticket());
        let is_first = queue.room_waiters.first_key_value().is_none_or(|(&first, _)| first >= ticket);
        let reserved = match queue.reserve(bytes, this.is_urgent, &this.shared.options) {
            Ok(true) if !is_first => {
                queue.reserved_bytes -= bytes;
                Ok(false)
            }
            reserved => reserved,
        };
        if matches!(reserved, Ok(false)) {
            queue.room_waiters.insert(ticket, context.waker().clone());
            return Poll::Pending;
        }
        queue.room_waiters.remove(&ticket);
        this.ticket = None;
        if matches!(reserved, Err(LogError::Full)) {
            queue.maintenance.room = true;
            this.shared.notify_writer(&mut queue);
        }
        // The next task in the queue may find room as well, or must get the same error.
        let next = queue.next_room_waiter();
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
        Poll::Ready(reserved.map(|_| Reservation { shared: Arc::clone(&this.shared), bytes }))
    }
}

impl Drop for ReserveFuture {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut queue = self.shared.queue();
        queue.room_waiters.remove(&ticket);
        let next = queue.next_room_waiter();
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// Waits until the log is synced up to a position. Fails only where the log was closed before. Can be dropped at any time.
#[must_use = "it does nothing until it is awaited"]
pub struct Synced {
    shared: Arc<Shared>,
    position: LogPosition,
    ticket: Option<u64>,
}

impl Synced {
    pub(crate) fn new(shared: &Arc<Shared>, position: LogPosition) -> Synced {
        Synced { shared: Arc::clone(shared), position, ticket: None }
    }
}

impl Future for Synced {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut queue = this.shared.queue();
        if this.position.0 <= queue.synced {
            return Poll::Ready(Ok(()));
        }
        if queue.closed {
            return Poll::Ready(Err(LogError::Closed));
        }
        let ticket = *this.ticket.get_or_insert_with(|| queue.ticket());
        queue.sync_waiters.insert((this.position.0, ticket), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Synced {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.queue().sync_waiters.remove(&(self.position.0, ticket));
        }
    }
}

struct UnparkWaker(Thread);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which stands still meanwhile.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(UnparkWaker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
