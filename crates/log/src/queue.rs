//! Records that are appended and not yet synced, and who waits for what.
//!
//! One lock guards the queue. The log's thread takes groups out of it, and holds the lock for that alone. Callers take
//! the lock to append a record, which gives the record its position. Nothing calls out or does I/O under it.
//!
//! Callers compress their records in their own threads ([`packed`](crate::packed)), but only while bytes are short: the
//! disk is the bottleneck, or the log has used half of its room ([`Queue::is_short_of_bytes`]). Otherwise compression
//! takes longer than writing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    task::Waker,
};

use swiftwater_event::Clock;

use crate::{
    Horizons, LogError, LogOptions, LogPosition, PackedPayload, StallReason,
    frame::{self, OVERHEAD_BYTES_MAX},
    record::Head,
    segments::LiveSegments,
};

/// A record with its place.
pub(crate) struct Queued {
    pub(crate) position: u64,
    pub(crate) head: Head,
    pub(crate) packed: PackedPayload,
}

impl Queued {
    pub(crate) fn frame_bytes(&self) -> u64 {
        frame::frame_bytes(&self.head, &self.packed)
    }
}

/// Maintenance that the log's thread is asked for beside writing.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MaintenanceRequests {
    /// Segments may have become free.
    pub(crate) trim: bool,
    /// A record was refused for lack of room: the room must be checked again.
    pub(crate) room: bool,
}

impl MaintenanceRequests {
    pub(crate) fn any(self) -> bool {
        self.trim || self.room
    }
}

pub(crate) struct Queue {
    /// The frames that the log's thread has not taken.
    pub(crate) frames: VecDeque<Queued>,
    /// Bytes of `frames`.
    pub(crate) waiting_bytes: u64,
    /// Bytes of what is appended and not synced.
    pub(crate) held_bytes: u64,
    /// Bytes of what may still be appended.
    pub(crate) reserved_bytes: u64,
    pub(crate) appended: u64,
    pub(crate) synced: u64,
    /// The limit of appended positions: beyond it the disk, or the log's share of it, would be full.
    pub(crate) position_max: u64,
    /// The same for what is urgent.
    pub(crate) urgent_position_max: u64,
    pub(crate) trouble: Option<StallReason>,
    /// No more is taken.
    pub(crate) closing: bool,
    /// The log's thread has ended.
    pub(crate) closed: bool,
    pub(crate) maintenance: MaintenanceRequests,
    pub(crate) trim_before: u64,
    /// The log's thread waits for something to do.
    pub(crate) writer_waits: bool,
    pub(crate) room_waiters: BTreeMap<u64, Waker>,
    /// The wakers by position and ticket.
    pub(crate) sync_waiters: BTreeMap<(u64, u64), Waker>,
    next_ticket: u64,
}

impl Queue {
    pub(crate) fn new(oldest: u64, end: u64) -> Queue {
        Queue {
            frames: VecDeque::new(),
            waiting_bytes: 0,
            held_bytes: 0,
            reserved_bytes: 0,
            appended: end,
            synced: end,
            position_max: u64::MAX,
            urgent_position_max: u64::MAX,
            trouble: None,
            closing: false,
            closed: false,
            maintenance: MaintenanceRequests { trim: false, room: true },
            trim_before: oldest,
            writer_waits: false,
            room_waiters: BTreeMap::new(),
            sync_waiters: BTreeMap::new(),
            next_ticket: 0,
        }
    }

    pub(crate) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(crate) fn horizons(&self) -> Horizons {
        Horizons {
            appended: LogPosition(self.appended),
            synced: LogPosition(self.synced),
            trouble: self.trouble,
        }
    }

    /// Sets the position up to which there is room: the last segment's bytes of it are for urgent records.
    pub(crate) fn allow(&mut self, position: u64, options: &LogOptions) {
        self.urgent_position_max = position;
        self.position_max = position.saturating_sub(options.segment_bytes);
    }

    /// True if any record gives the log room that it has not got now: nobody needs what it has, and the next one begins another
    /// segment.
    pub(crate) fn resumes_after_record(&self, options: &LogOptions) -> bool {
        let rest = self.position_max.saturating_sub(self.appended);
        self.trim_before >= self.appended && rest < options.record_bytes_max + OVERHEAD_BYTES_MAX
    }

    /// Takes so many bytes of the queue for somebody; `false`: they must wait.
    pub(crate) fn reserve(
        &mut self,
        bytes: u64,
        is_urgent: bool,
        options: &LogOptions,
    ) -> Result<bool, LogError> {
        if self.closing {
            return Err(LogError::Closed);
        }
        match self.trouble {
            Some(StallReason::Full) => return Err(LogError::Full),
            Some(StallReason::Failing) => return Err(LogError::Failing),
            None => {}
        }
        let wanted = self.reserved_bytes + bytes;
        let position_max = if is_urgent { self.urgent_position_max } else { self.position_max };
        if self.appended + wanted > position_max {
            return Err(LogError::Full);
        }
        if self.held_bytes + wanted > options.queue_bytes_max {
            return Ok(false);
        }
        self.reserved_bytes = wanted;
        Ok(true)
    }

    /// True if bytes are scarce: more wait than one sync takes, so that the disk delays the senders, or at most half of the
    /// log's room is left.
    pub(crate) fn is_short_of_bytes(&self, options: &LogOptions) -> bool {
        let room = self.position_max.saturating_sub(self.trim_before).min(options.bytes_max);
        self.waiting_bytes > options.group_bytes_max || self.appended - self.trim_before > room / 2
    }

    /// The waker of the task that has waited longest for room.
    pub(crate) fn next_room_waiter(&self) -> Option<Waker> {
        self.room_waiters.first_key_value().map(|(_, waker)| waker.clone())
    }

    /// Drains all who wait for no more than what is synced.
    pub(crate) fn drain_synced_waiters(&mut self) -> BTreeMap<(u64, u64), Waker> {
        let rest = self.sync_waiters.split_off(&(self.synced + 1, 0));
        std::mem::replace(&mut self.sync_waiters, rest)
    }
}

/// State that callers, readers and the log's thread share.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    /// Notified when there is work for the log's thread.
    pub(crate) work: Condvar,
    live: Mutex<LiveSegments>,
    pub(crate) options: LogOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) on_progress: Box<dyn Fn(Horizons) + Send + Sync>,
    pub(crate) file_bytes: AtomicU64,
    pub(crate) spares: AtomicU64,
    pub(crate) spare_bytes: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) sync_nanos: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        queue: Queue,
        live: LiveSegments,
        options: LogOptions,
        clock: Arc<dyn Clock>,
        on_progress: Box<dyn Fn(Horizons) + Send + Sync>,
    ) -> Shared {
        Shared {
            queue: Mutex::new(queue),
            work: Condvar::new(),
            live: Mutex::new(live),
            options,
            clock,
            on_progress,
            file_bytes: AtomicU64::new(0),
            spares: AtomicU64::new(0),
            spare_bytes: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            sync_nanos: AtomicU64::new(0),
        }
    }

    /// The lock cannot be held by a panicking thread, and each change is complete, so a poisoned lock guards a good
    /// queue.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The segments, locked as in [`queue`](Self::queue). Taken under no other lock and holds none while others are
    /// taken.
    pub(crate) fn live(&self) -> MutexGuard<'_, LiveSegments> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the log's thread, if it waits.
    pub(crate) fn notify_writer(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.writer_waits) {
            self.work.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short_where_the_disk_is_slow_or_half_full() {
        let options = LogOptions::default();
        let room = options.bytes_max;
        let new = || Queue { position_max: 1000 + room, ..Queue::new(1000, 1000) };
        assert!(!new().is_short_of_bytes(&options));
        let full_groups = |bytes| Queue { waiting_bytes: bytes, ..new() };
        assert!(!full_groups(options.group_bytes_max).is_short_of_bytes(&options));
        assert!(full_groups(options.group_bytes_max + 1).is_short_of_bytes(&options));
        let kept = |bytes| Queue { appended: 1000 + bytes, ..new() };
        assert!(!kept(room / 2).is_short_of_bytes(&options));
        assert!(kept(room / 2 + 1).is_short_of_bytes(&options));
        let trimmed = Queue { trim_before: 1001, position_max: 1001 + room, ..kept(room / 2 + 1) };
        assert!(!trimmed.is_short_of_bytes(&options));
        // The disk has less room than the log may take, or its free space is unknown.
        assert!(Queue { position_max: 1000 + room / 4, ..kept(room / 4) }.is_short_of_bytes(&options));
        assert!(!Queue { position_max: u64::MAX, ..kept(room / 2) }.is_short_of_bytes(&options));
        assert!(Queue { position_max: u64::MAX, ..kept(room / 2 + 1) }.is_short_of_bytes(&options));
    }
}
