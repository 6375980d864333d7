//! The credit of a subscription: the bytes of data that its client is ready to take.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::frame::CREDIT_BYTES_MAX;

/// The credit. A subscription is read while it has some; the last emit may take more than there is.
#[derive(Debug)]
pub(super) struct Credit {
    bytes: Mutex<i64>,
    added: Notify,
}

impl Credit {
    pub(super) fn new(bytes: u64) -> Credit {
        Credit { bytes: Mutex::new(signed(bytes)), added: Notify::new() }
    }

    pub(super) fn add(&self, bytes: u64) {
        {
            let mut held = self.lock();
            *held = held.saturating_add(signed(bytes)).min(signed(CREDIT_BYTES_MAX));
        }
        self.added.notify_one();
    }

    pub(super) fn spend(&self, bytes: usize) {
        let mut held = self.lock();
        *held = held.saturating_sub(signed(bytes as u64));
    }

    /// Ready when there is some. One task waits.
    pub(super) async fn available(&self) {
        while *self.lock() <= 0 {
            self.added.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, i64> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
