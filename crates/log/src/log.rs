//! The public interface of the log.

use std::{
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
};

use bytes::Bytes;
use swiftwater_event::Clock;

use crate::{
    Compression, CompressionPolicy, Disk, DiskRoom, Head, Horizons, LogError, LogOptions, LogPosition,
    LogReader, LogRetentionGuard, LogSnapshot, LogUsage, PRODUCER_ID_BYTES_MAX, PackedPayload, Reservation,
    ReserveFuture, Synced, frame,
    queue::{Queue, Queued, Shared},
    recovery,
    segments::file_bytes,
    sync_futures::{block_on, try_reserve},
    writer::Writer,
};

/// Payloads from this size on are not copied. A smaller payload may be a small part of a buffer that would wait with
/// it.
const SHARED_BYTES_MIN: usize = 64 << 10;

/// Bytes of a record of a few events.
const SMALL_RECORD_BYTES: u64 = 1 << 10;

/// One log, open. Closed, with all that was appended synced, when it is dropped.
pub struct Log {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    writer: Option<JoinHandle<()>>,
}

impl Log {
    /// Opens the log of a directory, which is a new one where there is nothing.
    ///
    /// Reads all of it: what a crash left half written at the end is cut off, and damage to what was once synced is an
    /// error that names the place, unless the options say to skip it. `on_progress` is called by the log's own thread,
    /// under no lock, whenever more is synced, trouble begins or ends; it should be quick, as the log waits for it.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: LogOptions,
        on_progress: Box<dyn Fn(Horizons) + Send + Sync>,
    ) -> Result<Log, LogError> {
        options.check()?;
        let recovered = recovery::recover(Arc::clone(&disk), &options)?;
        let end = recovered.end;
        let mut queue = Queue::new(recovered.live.oldest().unwrap_or(end), end);
        // Nothing is taken for which there is no room. The free space of a disk that does not report it is found out by
        // writing.
        let room = recovered.files.room(&options).unwrap_or(u64::MAX);
        queue.allow(end.saturating_add(room), &options);
        let shared = Arc::new(Shared::new(queue, recovered.live, options, clock, on_progress));
        shared.file_bytes.store(recovered.files.file_bytes, Ordering::Relaxed);
        shared.spares.store(recovered.files.spares.len() as u64, Ordering::Relaxed);
        shared.spare_bytes.store(recovered.files.spare_bytes(), Ordering::Relaxed);
        let writer = Writer::new(Arc::clone(&shared), recovered.files, end);
        let writer = std::thread::Builder::new()
            .name("swiftwater-log".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| LogError::io("start the thread that writes", ".", source))?;
        Ok(Log { shared, disk, writer: Some(writer) })
    }

    /// Room in the queue for a record whose payload has so many bytes packed; `None` where it is full and others wait.
    pub fn try_reserve(&self, bytes: u64) -> Result<Option<Reservation>, LogError> {
        try_reserve(&self.shared, bytes)
    }

    /// Does the same as [`try_reserve`](Self::try_reserve), but waits while the queue is full: producers wait here.
    /// Fails at once, and with [`LogError::Full`] or [`LogError::Failing`], where waiting may be long.
    pub fn reserve(&self, bytes: u64) -> ReserveFuture {
        ReserveFuture::new(&self.shared, bytes, false)
    }

    /// Does the same as [`reserve`](Self::reserve), for threads that may block.
    pub fn reserve_blocking(&self, bytes: u64) -> Result<Reservation, LogError> {
        block_on(self.reserve(bytes))
    }

    /// Makes a payload ready to be appended, compressed as the options say. Takes the caller's time, and shares what is
    /// large and stays as it is.
    pub fn pack(&self, payload: Bytes) -> Result<PackedPayload, LogError> {
        let options = &self.shared.options;
        let compression = match options.compressing {
            CompressionPolicy::Always(compression) => compression,
            // One that would be too large without is tried so.
            CompressionPolicy::AsNeeded if payload.len() as u64 > options.record_bytes_max => {
                Compression::Lz4
            }
            CompressionPolicy::AsNeeded if self.shared.queue().is_short_of_bytes(options) => Compression::Lz4,
            CompressionPolicy::AsNeeded => Compression::None,
        };
        match compression {
            Compression::None if payload.len() >= SHARED_BYTES_MIN => PackedPayload::raw(payload),
            compression => PackedPayload::new(&payload, compression),
        }
    }

    /// Does the same as [`reserve`](Self::reserve), also if the log has no room for other records: a segment's bytes are
    /// reserved for records that may make room, and are allocated on the disk in advance. For few and small records.
    pub fn reserve_urgent(&self, bytes: u64) -> ReserveFuture {
        ReserveFuture::new(&self.shared, bytes, true)
    }

    /// Appends a record and gives the position behind it, which is synced sooner or later. Never waits: records stand
    /// in the log in the order of these calls.
    ///
    /// Room that was reserved too small is made good, so the queue may exceed its bytes by what was lacking.
    pub fn append(
        &self,
        head: Head,
        packed: PackedPayload,
        room: Reservation,
    ) -> Result<LogPosition, LogError> {
        check(&head, &packed, &self.shared.options)?;
        let frame_bytes = frame::frame_bytes(&head, &packed);
        let mut queue = self.shared.queue();
        if queue.closing {
            drop(queue);
            return Err(LogError::Closed);
        }
        queue.reserved_bytes -= room.bytes();
        let has_left_over = room.bytes() > frame_bytes;
        room.spend();
        let position = queue.appended;
        queue.appended += frame_bytes;
        queue.held_bytes += frame_bytes;
        queue.waiting_bytes += frame_bytes;
        queue.frames.push_back(Queued { position, head, packed });
        let end = LogPosition(queue.appended);
        self.shared.notify_writer(&mut queue);
        let next = if has_left_over { queue.next_room_waiter() } else { None };
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
        Ok(end)
    }

    /// Waits until all before a position is synced.
    pub fn synced(&self, position: LogPosition) -> Synced {
        Synced::new(&self.shared, position)
    }

    /// Does the same as [`synced`](Self::synced), for threads that may block.
    pub fn wait_synced(&self, position: LogPosition) -> Result<(), LogError> {
        block_on(self.synced(position))
    }

    /// The progress of the log.
    pub fn horizons(&self) -> Horizons {
        self.shared.queue().horizons()
    }

    /// Reads from a position on, which stands between two records: one that [`append`](Self::append) gave, or the
    /// `position` or `end` of a [`Record`](crate::Record), or the oldest.
    pub fn read(&self, from: LogPosition) -> LogReader {
        LogReader::new(Arc::clone(&self.shared), from)
    }

    /// True if a small record that is not urgent finds room, now or after the next record.
    pub fn has_room(&self) -> bool {
        self.has_room_now() || self.resumes_after_record()
    }

    /// True if a small record that is not urgent finds room now.
    pub fn has_room_now(&self) -> bool {
        let queue = self.shared.queue();
        queue.appended + SMALL_RECORD_BYTES <= queue.position_max
    }

    /// The bytes of the disk that the log has, and those that it needs to take records for ever.
    pub fn disk_room(&self) -> std::io::Result<DiskRoom> {
        let options = &self.shared.options;
        // If no reader needs the log's content, its files are used again.
        let own =
            if self.resumes_after_record() { &self.shared.file_bytes } else { &self.shared.spare_bytes };
        let two = file_bytes(options).saturating_mul(2);
        Ok(DiskRoom {
            free_bytes: self.disk.free_bytes()?,
            own_bytes: own.load(Ordering::Relaxed),
            needed_bytes: options.free_bytes_min.saturating_add(two),
        })
    }

    /// True if a log that accepts no event for want of room would accept one after an [urgent](Self::reserve_urgent) record,
    /// as it has been [trimmed](Self::trim) up to its end.
    pub fn resumes_after_record(&self) -> bool {
        self.shared.queue().resumes_after_record(&self.shared.options)
    }

    /// Releases the segments before a position, sooner or later. A reader there can continue to the end of the
    /// segment that it reads.
    pub fn trim(&self, before: LogPosition) {
        let mut queue = self.shared.queue();
        if before.0 > queue.trim_before {
            queue.trim_before = before.0.min(queue.synced);
        }
        queue.maintenance.trim = true;
        self.shared.notify_writer(&mut queue);
    }

    /// Retains all that can be read now, and what is appended, until the guard is dropped. For moments:
    /// meanwhile the log only grows.
    pub fn retain_all(&self) -> LogRetentionGuard {
        LogRetentionGuard::new(&self.shared)
    }

    /// The log as it is, up to what is synced, to be copied.
    pub fn cut(&self) -> LogSnapshot {
        LogSnapshot::new(&self.shared)
    }

    /// The log's use of memory and disk.
    pub fn usage(&self) -> LogUsage {
        let (queued_bytes, synced) = {
            let queue = self.shared.queue();
            (queue.held_bytes, queue.synced)
        };
        let (segments, oldest) = {
            let live = self.shared.live();
            (live.segments.len(), live.oldest().unwrap_or(synced))
        };
        LogUsage {
            file_bytes: self.shared.file_bytes.load(Ordering::Relaxed),
            segments,
            spares: self.shared.spares.load(Ordering::Relaxed) as usize,
            oldest: LogPosition(oldest),
            queued_bytes,
            groups: self.shared.groups.load(Ordering::Relaxed),
            sync_nanos: self.shared.sync_nanos.load(Ordering::Relaxed),
        }
    }

    /// Takes no more, syncs what was appended and ends. If the disk fails, one more attempt is made:
    /// [`LogError::Failing`] says that not all appended records are synced.
    pub fn close(mut self) -> Result<(), LogError> {
        self.end();
        let queue = self.shared.queue();
        if queue.synced == queue.appended { Ok(()) } else { Err(LogError::Failing) }
    }

    fn end(&mut self) {
        {
            let mut queue = self.shared.queue();
            queue.closing = true;
            queue.writer_waits = false;
            self.shared.work.notify_one();
        }
        if let Some(writer) = self.writer.take()
            // The callback may hold the last of what holds the log: a thread cannot wait for itself.
            && writer.thread().id() != std::thread::current().id()
            && writer.join().is_err()
        {
            tracing::error!("the log's thread ended by a panic");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end();
    }
}

fn check(head: &Head, packed: &PackedPayload, options: &LogOptions) -> Result<(), LogError> {
    if packed.bytes() > options.record_bytes_max {
        return Err(LogError::TooLarge { bytes: packed.bytes(), bytes_max: options.record_bytes_max });
    }
    if let Head::Events(events) = head
        && let Some(producer) = &events.producer
        && producer.id.len() > PRODUCER_ID_BYTES_MAX
    {
        return Err(LogError::ProducerId { bytes: producer.id.len(), bytes_max: PRODUCER_ID_BYTES_MAX });
    }
    Ok(())
}
