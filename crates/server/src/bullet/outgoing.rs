//! The queue of messages to one client, bounded by their bytes.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Messages that may wait, whatever their size.
const MESSAGES_MAX: usize = 256;

/// The end that messages are put in.
pub(super) struct Outgoing {
    sender: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
    bytes_max: u32,
    /// The time a message may wait for room before the client is given up.
    pub(super) patience: Duration,
}

/// A message that waits to be sent; its bytes count until it is dropped.
pub(super) struct Waiting {
    /// The message.
    pub(super) text: String,
    _room: OwnedSemaphorePermit,
}

/// Both ends of a queue for `bytes_max` bytes; a message larger than that has it for itself.
pub(super) fn queue(bytes_max: usize, patience: Duration) -> (Outgoing, mpsc::Receiver<Waiting>) {
    let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    let room = Arc::new(Semaphore::new(bytes_max as usize));
    (Outgoing { sender, room, bytes_max, patience }, receiver)
}

impl Outgoing {
    /// Sends a message, and waits for room; false where nobody receives it.
    pub(super) async fn enqueue(&self, text: String) -> bool {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX).clamp(1, self.bytes_max);
        tokio::select! {
            () = self.sender.closed() => false,
            room = Arc::clone(&self.room).acquire_many_owned(bytes) => match room {
                Ok(room) => self.sender.send(Waiting { text, _room: room }).await.is_ok(),
                Err(_) => false,
            },
        }
    }
}
