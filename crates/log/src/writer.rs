//! The log's thread: takes groups of records from the queue, writes them, calls fdatasync, and only then reports them as
//! synced.
//!
//! Large groups bypass the page cache if the file system can do that ([`direct`](crate::direct)). Before small groups
//! the thread writes zeros into a new file, preferably while nothing waits. The later syncs then have no metadata to
//! write.
//!
//! After any failure, a record stays in memory until it is synced. After a failed write or sync the file is not synced
//! again: a kernel may have dropped the pages that it could not write and report the next sync as a success (Rebello et
//! al., "Can Applications Recover from fsync Failures?", ATC 2020). All unsynced records are written again into a new
//! segment, which begins where the synced records end. A record has the same position there.

use std::{
    io::{self, IoSlice},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use swiftwater_event::Backoff;

use crate::{
    StallReason,
    frame::{self, ALIGNMENT},
    queue::{MaintenanceRequests, Queue, Queued, Shared},
    segments::{BeginError, Segment, SegmentFiles},
};

/// Payloads up to this are copied next to their fronts: a part more of a system call costs as much.
const COPIED_BYTES_MAX: usize = 2048;
/// Number of zeros written ahead of small groups into a file that was not written before, so that only few syncs
/// have to write metadata.
const AHEAD_BYTES: u64 = 1 << 20;
/// Groups of this size need no zeros ahead: their syncs are rare enough.
const LARGE_GROUP_BYTES: u64 = 256 << 10;
/// Number of zeros written at a time while nothing waits for the log, so that hardly any group has to write them itself. A
/// record that comes meanwhile waits for no more than that. Past the page cache, the zeros leave the next sync only
/// metadata.
const AHEAD_STEP_BYTES: u64 = crate::direct::BYTES_MIN;
/// Small groups are filled up with zeros to the end of a page: a part of one that is not in the page cache would have to be
/// read before it is written. The next group begins in a page that is there.
const PAGE_BYTES: u64 = 4096;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Pauses between attempts to write.
const RETRY: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(500));

pub(crate) struct Writer {
    shared: Arc<Shared>,
    files: SegmentFiles,
    /// The segment being written; `None` at first, and after a failure.
    active: Option<Arc<Segment>>,
    /// The end of what is synced, and of what stands in `active`.
    synced: u64,
    /// The records being written.
    group: Vec<Queued>,
    /// Fronts, small payloads and padding of the group.
    fronts: Vec<u8>,
    /// The last step was a chore.
    has_run_maintenance: bool,
    /// The last group was small, and more such are likely.
    writes_ahead: bool,
}

/// The next step of the thread.
enum Step {
    /// A group was taken.
    Write,
    WriteAhead,
    Maintenance(MaintenanceRequests),
    End,
}

/// Notifies all waiters, however the thread ends, that nothing more will be synced.
struct ShutdownNotifier(Arc<Shared>);

impl Drop for ShutdownNotifier {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.closing = true;
        queue.closed = true;
        let rooms = std::mem::take(&mut queue.room_waiters);
        let syncs = std::mem::take(&mut queue.sync_waiters);
        drop(queue);
        rooms.into_values().chain(syncs.into_values()).for_each(|waker| waker.wake());
    }
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, files: SegmentFiles, end: u64) -> Writer {
        let (group, fronts) = (Vec::new(), Vec::new());
        Writer {
            shared,
            files,
            active: None,
            synced: end,
            group,
            fronts,
            has_run_maintenance: false,
            writes_ahead: false,
        }
    }

    /// Works until the log is closed and all is synced, or cannot be.
    pub(crate) fn run(mut self) {
        let _ending = ShutdownNotifier(Arc::clone(&self.shared));
        loop {
            match self.wait() {
                Step::Write => {
                    if !self.write_until_synced() {
                        return;
                    }
                }
                Step::WriteAhead => self.write_ahead(),
                Step::Maintenance(maintenance) => self.run_maintenance(maintenance),
                Step::End => return,
            }
        }
    }

    /// Waits for something to do, and takes a group if there is one.
    fn wait(&mut self) -> Step {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue();
        loop {
            // Maintenance and groups take turns: giving up many segments must not hold up what is to be synced.
            if queue.maintenance.any() && (queue.frames.is_empty() || !self.has_run_maintenance) {
                self.has_run_maintenance = true;
                return Step::Maintenance(std::mem::take(&mut queue.maintenance));
            }
            if !queue.frames.is_empty() {
                self.has_run_maintenance = false;
                break;
            }
            if queue.closing {
                return Step::End;
            }
            if self.place_ahead().is_some() {
                return Step::WriteAhead;
            }
            queue.writer_waits = true;
            queue = shared.work.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if !shared.options.linger.is_zero() {
            queue.writer_waits = true;
            let more = |queue: &mut Queue| {
                // An append wakes the thread, and clears the mark.
                queue.writer_waits = true;
                queue.waiting_bytes < shared.options.group_bytes_max && !queue.closing
            };
            let waited = shared.work.wait_timeout_while(queue, shared.options.linger, more);
            queue = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            queue.writer_waits = false;
        }
        self.next_group(&mut queue);
        Step::Write
    }

    /// The records that go into one segment and one sync; if not even one record fits into this segment, it is left.
    fn next_group(&mut self, queue: &mut Queue) {
        let Some(first) = queue.frames.front() else { return };
        let end = first.position + first.frame_bytes();
        if self.active.as_ref().is_some_and(|active| end > active.position_max())
            || self.rolls_early(queue, first.frame_bytes())
        {
            self.active = None;
        }
        let position_max = match &self.active {
            Some(active) => active.position_max(),
            None => self.synced + self.files.next_segment_bytes(&self.shared.options),
        };
        let mut bytes = 0;
        while let Some(frame) = queue.frames.front() {
            let frame_bytes = frame.frame_bytes();
            let fits = frame.position + frame_bytes <= position_max;
            if !self.group.is_empty() && (!fits || bytes + frame_bytes > self.shared.options.group_bytes_max)
            {
                break;
            }
            bytes += frame_bytes;
            self.group.extend(queue.frames.pop_front());
        }
        queue.waiting_bytes -= bytes;
    }

    /// True if another segment is begun before this one is full: where there is room for no more than that, and nobody needs what
    /// this one has. Then it can be given up, and is the one in reserve. The next one, which may be smaller, has room for the frame.
    fn rolls_early(&self, queue: &Queue, frame_bytes: u64) -> bool {
        let options = &self.shared.options;
        let is_needed = queue.trim_before < self.synced;
        let has_records = self.active.as_ref().is_some_and(|active| active.id.base < self.synced);
        let is_last = |room| 0 < room && room <= options.segment_bytes;
        let fits = frame_bytes <= self.files.next_segment_bytes(options);
        !is_needed && has_records && fits && self.files.room(options).is_ok_and(is_last)
    }

    /// True if the group is synced; it is tried until it is, or the log is being closed and it failed again.
    fn write_until_synced(&mut self) -> bool {
        let mut backoff = RETRY;
        while let Err(error) = self.write() {
            self.abandon_active();
            let trouble = match &error {
                BeginError::Full => StallReason::Full,
                BeginError::Io(error) if is_full(error) => StallReason::Full,
                BeginError::Io(_) => StallReason::Failing,
            };
            if self.report_trouble(trouble) {
                tracing::warn!(?error, "the log cannot be written; the server retries");
            }
            if !self.pause(backoff.pause()) {
                tracing::error!(
                    ?error,
                    "the log is closed, and the last appended records could not be written"
                );
                return false;
            }
        }
        self.report_synced();
        true
    }

    /// Writes and syncs the group.
    fn write(&mut self) -> Result<(), BeginError> {
        let active = match &self.active {
            Some(active) => Arc::clone(active),
            None => {
                let bytes = self.group_end() - self.synced;
                let begun = self.files.begin(&self.shared, self.synced, bytes)?;
                self.active = Some(Arc::clone(&begun));
                self.report_room();
                begun
            }
        };
        self.fronts.clear();
        // The cuts at which a separate payload comes between fronts: the end of the fronts before it, and the payload's
        // record.
        let mut cuts = Vec::new();
        let mut padding = 0;
        let seed = active.id.seed();
        for (index, frame) in self.group.iter().enumerate() {
            self.fronts.resize(self.fronts.len() + padding, 0);
            let start = self.fronts.len();
            frame::write_front(
                &frame.head,
                &frame.packed,
                seed,
                frame.position,
                self.synced,
                &mut self.fronts,
            );
            let payload = &frame.packed.payload;
            let length = self.fronts.len() - start + payload.len();
            padding = length.next_multiple_of(ALIGNMENT) - length;
            if payload.len() <= COPIED_BYTES_MAX {
                self.fronts.extend_from_slice(payload);
            } else {
                cuts.push((self.fronts.len(), index));
            }
        }
        self.fronts.resize(self.fronts.len() + padding, 0);
        let mut parts = Vec::with_capacity(2 * cuts.len() + 2);
        let mut from = 0;
        for &(to, index) in &cuts {
            parts.push(IoSlice::new(&self.fronts[from..to]));
            parts.push(IoSlice::new(&self.group[index].packed.payload));
            from = to;
        }
        parts.push(IoSlice::new(&self.fronts[from..]));

        let place = active.id.place(self.synced);
        let mut end = active.id.place(self.group_end());
        let is_small = end - place < LARGE_GROUP_BYTES;
        self.writes_ahead = is_small;
        if is_small {
            let page_end = end.next_multiple_of(PAGE_BYTES).min(active.file_bytes).max(end);
            parts.push(IoSlice::new(&ZEROS[..(page_end - end) as usize]));
            end = page_end;
        }
        active.file.write_all_at(&mut parts, place)?;
        if is_small && end > active.written_to.load(Ordering::Relaxed) {
            end = write_zeros(&active, end, AHEAD_BYTES)?;
        }
        let clock = &self.shared.clock;
        let began = clock.monotonic_nanos();
        active.file.sync()?;
        self.shared.sync_nanos.fetch_add(clock.monotonic_nanos().saturating_sub(began), Ordering::Relaxed);
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        active.written_to.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// The place of the next zeros, if any are written while nothing waits.
    fn place_ahead(&self) -> Option<u64> {
        let active = self.active.as_ref().filter(|_| self.writes_ahead)?;
        let written_to = active.written_to.load(Ordering::Relaxed);
        let needed = (active.id.place(self.synced) + AHEAD_BYTES).min(active.file_bytes);
        (written_to < needed).then_some(written_to)
    }

    /// Writes some zeros ahead; they are synced with the next group. If they cannot be written, that group finds it out.
    fn write_ahead(&mut self) {
        let Some((active, place)) = self.active.as_ref().zip(self.place_ahead()) else { return };
        match write_zeros(active, place, AHEAD_STEP_BYTES) {
            Ok(end) => _ = active.written_to.fetch_max(end, Ordering::Relaxed),
            Err(error) => {
                tracing::debug!(%error, "space for the log cannot be reserved in advance");
                self.writes_ahead = false;
            }
        }
    }

    fn group_end(&self) -> u64 {
        self.group.last().map_or(self.synced, |frame| frame.position + frame.frame_bytes())
    }

    /// Abandons a segment that failed; its synced records remain.
    fn abandon_active(&mut self) {
        if let Some(active) = self.active.take()
            && active.id.base == self.synced
        {
            drop(active);
            self.files.abandon_last(&self.shared);
        }
    }

    fn report_synced(&mut self) {
        let end = self.group_end();
        let mut queue = self.shared.queue();
        queue.held_bytes -= end - self.synced;
        queue.synced = end;
        queue.trouble = None;
        let horizons = queue.horizons();
        let synced = queue.drain_synced_waiters();
        let next = queue.next_room_waiter();
        drop(queue);
        self.synced = end;
        self.group.clear();
        synced.into_values().chain(next).for_each(|waker| waker.wake());
        (self.shared.on_progress)(horizons);
    }

    /// True if it is new.
    fn report_trouble(&self, trouble: StallReason) -> bool {
        let mut queue = self.shared.queue();
        if queue.trouble == Some(trouble) {
            return false;
        }
        queue.trouble = Some(trouble);
        let horizons = queue.horizons();
        let rooms = std::mem::take(&mut queue.room_waiters);
        drop(queue);
        rooms.into_values().for_each(|waker| waker.wake());
        (self.shared.on_progress)(horizons);
        true
    }

    /// Waits before trying again, doing what else there is to do; `false`: the log is being closed.
    fn pause(&mut self, pause: Duration) -> bool {
        let shared = Arc::clone(&self.shared);
        let queue = shared.queue();
        let idle = |queue: &mut Queue| {
            queue.writer_waits = true;
            !queue.closing && !queue.maintenance.any()
        };
        let waited = shared.work.wait_timeout_while(queue, pause, idle);
        let mut queue = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        queue.writer_waits = false;
        let maintenance = std::mem::take(&mut queue.maintenance);
        let closing = queue.closing;
        drop(queue);
        if maintenance.any() {
            self.run_maintenance(maintenance);
        }
        !closing
    }

    fn run_maintenance(&mut self, maintenance: MaintenanceRequests) {
        if maintenance.trim {
            let before = self.shared.queue().trim_before;
            match self.files.trim_one(&self.shared, before) {
                Ok(true) => self.shared.queue().maintenance.trim = true,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "a segment of the log cannot be deleted; the next trim retries");
                }
            }
        }
        self.files.ensure_spare(&self.shared.options);
        self.files.release_spares(&self.shared.options);
        self.report_room();
    }

    /// Reports how much may still be appended.
    fn report_room(&self) {
        let files = &self.files;
        self.shared.file_bytes.store(files.file_bytes, Ordering::Relaxed);
        self.shared.spares.store(files.spares.len() as u64, Ordering::Relaxed);
        self.shared.spare_bytes.store(files.spare_bytes(), Ordering::Relaxed);
        // The free space of a disk that does not report it is found out by writing.
        let room = files.room(&self.shared.options).unwrap_or(u64::MAX);
        let end = self.active.as_ref().map_or(self.synced, |active| active.position_max());
        let mut queue = self.shared.queue();
        queue.allow(end.saturating_add(room), &self.shared.options);
        let next = queue.next_room_waiter();
        drop(queue);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// Writes so many zeros, if the file is as long; where they end.
fn write_zeros(segment: &Segment, place: u64, bytes: u64) -> io::Result<u64> {
    let bytes = bytes.min(segment.file_bytes.saturating_sub(place));
    let (whole, rest) = (bytes as usize / ZEROS.len(), bytes as usize % ZEROS.len());
    let mut zeros = vec![IoSlice::new(&ZEROS); whole];
    zeros.push(IoSlice::new(&ZEROS[..rest]));
    segment.file.write_all_at(&mut zeros, place)?;
    Ok(place + bytes)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
