//! The files of the log: lists them, creates new ones, and retires old ones.
//!
//! The log's thread makes all changes; readers see only [`LiveSegments`]. Names are synced after each change, so that a crash
//! leaves no gap between segments.
//!
//! The log has one file in reserve, allocated on the disk ahead, for urgent records: catalog changes, which may be what
//! makes room. So a full disk cannot stop them. A start deletes further reserve files.

use std::{
    collections::VecDeque,
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Disk, DiskFile, LogOptions,
    queue::Shared,
    segment::{FRAMES_START, SegmentId, VERSION, segment_name, spare_name},
};

/// A segment that is open.
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) name: Box<str>,
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) file_bytes: u64,
    /// The place up to which the file was written once, with any content: writing there again costs no metadata at the
    /// sync.
    pub(crate) written_to: AtomicU64,
}

impl Segment {
    /// The first position that does not fit into it.
    pub(crate) fn position_max(&self) -> u64 {
        self.id.base.saturating_add(self.file_bytes.saturating_sub(FRAMES_START))
    }
}

/// The segments that can be read.
#[derive(Default)]
pub(crate) struct LiveSegments {
    /// The segments in order; no two have the same base. A segment ends where the next begins.
    pub(crate) segments: VecDeque<Arc<Segment>>,
    /// The ranges that were damaged when the log was opened, and are skipped.
    pub(crate) holes: Vec<Range<u64>>,
    /// Number of snapshots; while there are any, no segment is deleted.
    pub(crate) holds: usize,
}

impl LiveSegments {
    /// The segment that holds a position, and the position where the next begins.
    pub(crate) fn find(&self, position: u64) -> Option<(Arc<Segment>, Option<u64>)> {
        let after = self.segments.partition_point(|segment| segment.id.base <= position);
        let segment = self.segments.get(after.checked_sub(1)?)?;
        Some((Arc::clone(segment), self.segments.get(after).map(|next| next.id.base)))
    }

    /// The position at which a reader at this position continues.
    pub(crate) fn behind_holes(&self, position: u64) -> u64 {
        let hole = self.holes.iter().find(|hole| hole.contains(&position));
        hole.map_or(position, |hole| hole.end)
    }

    pub(crate) fn oldest(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.id.base)
    }
}

/// A file that waits to be used again.
pub(crate) struct SpareFile {
    pub(crate) name: Box<str>,
    pub(crate) file_bytes: u64,
    pub(crate) written_to: u64,
}

impl SpareFile {
    /// Bytes of frames that fit into it.
    fn segment_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(FRAMES_START)
    }
}

/// The reason why there is no new segment.
#[derive(Debug)]
pub(crate) enum BeginError {
    /// The log has all that it may take.
    Full,
    /// The disk says so.
    Io(io::Error),
}

impl From<io::Error> for BeginError {
    fn from(error: io::Error) -> Self {
        BeginError::Io(error)
    }
}

/// The files of the segments, owned by the log's thread.
pub(crate) struct SegmentFiles {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) next_sequence: u64,
    /// Bytes of all files.
    pub(crate) file_bytes: u64,
    /// Spare files, of the present size of segments; or a single smaller one, if the disk has no room for another.
    pub(crate) spares: Vec<SpareFile>,
    /// Files that hold nothing and could not be removed yet, with their bytes.
    pub(crate) doomed: Vec<(Box<str>, u64)>,
    /// Names were changed since they were last synced.
    pub(crate) names_dirty: bool,
}

/// The size of a file on the disk is a multiple of this.
const BLOCK_BYTES: u64 = 4096;

/// Bytes of a new segment's file.
pub(crate) fn file_bytes(options: &LogOptions) -> u64 {
    FRAMES_START + options.segment_bytes
}

/// A file that is smaller than segments are now, and is a spare all the same where there is no other, holds this part of one.
const SMALL_PART: u64 = 8;

/// True if a file may be a spare: because it is as large as segments are now, or, where there is no other, nearly so.
pub(crate) fn may_be_spare(bytes: u64, options: &LogOptions, is_only_one: bool) -> bool {
    let least = FRAMES_START + options.segment_bytes.div_ceil(SMALL_PART);
    bytes == file_bytes(options) || (is_only_one && (least..file_bytes(options)).contains(&bytes))
}

/// Bytes of all files: what the log may take for events, and a file in reserve.
fn bytes_max(options: &LogOptions) -> u64 {
    options.bytes_max.saturating_add(file_bytes(options))
}

impl SegmentFiles {
    /// Makes a segment that begins at `base` and has room for so many bytes of frames, durable but for frames, and the last of
    /// those that can be read.
    pub(crate) fn begin(
        &mut self,
        shared: &Shared,
        base: u64,
        frames_bytes: u64,
    ) -> Result<Arc<Segment>, BeginError> {
        self.clear_doomed()?;
        let id = SegmentId { version: VERSION, sequence: self.next_sequence, base };
        let name: Box<str> = segment_name(id.sequence).into();
        self.next_sequence += 1;
        // The last spare is for when there is no room for another.
        let may_have_more = self.may_have_more(&shared.options);
        let spare = self.spares.last().filter(|spare| spare.segment_bytes() >= frames_bytes);
        let created = match (spare, self.spares.len()) {
            (None, _) => Some(self.create(&shared.options, &name)?),
            (Some(_), 1) if may_have_more => self.create(&shared.options, &name).ok(),
            _ => None,
        };
        let (file, bytes, written_to) = match (created, self.spares.last()) {
            (Some(file), _) => (Ok(file), file_bytes(&shared.options), FRAMES_START),
            (None, Some(spare)) => {
                self.disk.rename(&spare.name, &name)?;
                let (bytes, written_to) = (spare.file_bytes, spare.written_to);
                self.spares.pop();
                self.names_dirty = true;
                (self.disk.open(&name), bytes, written_to)
            }
            (None, None) => return Err(BeginError::Full),
        };
        let begun = file.and_then(|file| {
            self.sync_names()?;
            id.write_headers(&*file)?;
            file.sync()?;
            Ok(file)
        });
        match begun {
            Ok(file) => {
                let written_to = AtomicU64::new(written_to);
                let segment = Arc::new(Segment { id, name, file, file_bytes: bytes, written_to });
                shared.live().segments.push_back(Arc::clone(&segment));
                Ok(segment)
            }
            Err(error) => {
                self.doom(name, bytes);
                Err(error.into())
            }
        }
    }

    fn may_have_more(&self, options: &LogOptions) -> bool {
        self.file_bytes.saturating_add(file_bytes(options)) <= bytes_max(options)
    }

    fn create(&mut self, options: &LogOptions, name: &str) -> Result<Box<dyn DiskFile>, BeginError> {
        let bytes = file_bytes(options);
        if !self.may_take(options, bytes)? {
            return Err(BeginError::Full);
        }
        let file = self.disk.create(name, bytes)?;
        self.file_bytes += bytes;
        self.names_dirty = true;
        Ok(file)
    }

    /// Ensures that there is a spare file, so that a disk that others fill has room for the statements that make room. It may
    /// be of the bytes that the log leaves free for others, as long as they have as many more. If there is no room for a spare
    /// either, the next maintenance tries again.
    pub(crate) fn ensure_spare(&mut self, options: &LogOptions) {
        let bytes = file_bytes(options);
        let is_wanted = self.spares.is_empty() && self.doomed.is_empty() && self.may_have_more(options);
        if is_wanted && self.disk.free_bytes().is_ok_and(|free| free >= 2 * bytes) {
            self.create_spare(bytes);
        }
    }

    /// Creates a spare, if there is none, from bytes that were just freed on the disk, before others use them.
    pub(crate) fn reserve_trimmed(&mut self, options: &LogOptions, cut_bytes: u64) {
        self.ensure_spare(options);
        let bytes = cut_bytes.min(file_bytes(options)) / BLOCK_BYTES * BLOCK_BYTES;
        if self.spares.is_empty() && may_be_spare(bytes, options, true) {
            self.create_spare(bytes);
        }
    }

    /// Returns spare files to the disk, all but one, if less is free than the log leaves to others: rows that tables cannot
    /// commit for lack of room cannot be trimmed either, and then nothing would advance.
    pub(crate) fn release_spares(&mut self, options: &LogOptions) {
        while self.spares.len() > 1 && self.doomed.is_empty() && !self.has_free_reserve(options) {
            let spare = self.spares.remove(0);
            self.doom(spare.name, spare.file_bytes);
        }
    }

    /// True if as much of the disk is free as the log leaves to others. True where the disk does not report it: then writes fail.
    fn has_free_reserve(&self, options: &LogOptions) -> bool {
        self.disk.free_bytes().map_or(true, |free| free >= options.free_bytes_min)
    }

    fn create_spare(&mut self, bytes: u64) {
        let name = self.next_spare_name();
        match self.disk.create(&name, bytes) {
            Ok(_) => {
                self.file_bytes += bytes;
                self.names_dirty = true;
                self.add_spare(name, bytes, FRAMES_START);
            }
            Err(error) => tracing::debug!(%error, "the log cannot create its reserve file"),
        }
    }

    /// Bytes of frames that the next segment has room for, whichever file it gets.
    pub(crate) fn next_segment_bytes(&self, options: &LogOptions) -> u64 {
        self.spares.last().map_or(options.segment_bytes, SpareFile::segment_bytes)
    }

    fn next_spare_name(&mut self) -> Box<str> {
        self.next_sequence += 1;
        spare_name(self.next_sequence - 1).into()
    }

    /// Its bytes are counted.
    pub(crate) fn add_spare(&mut self, name: Box<str>, file_bytes: u64, written_to: u64) {
        // A small one is there for want of another.
        if self.spares.last().is_some_and(|spare| spare.file_bytes < file_bytes)
            && let Some(small) = self.spares.pop()
        {
            self.doom(small.name, small.file_bytes);
        }
        self.spares.push(SpareFile { name, file_bytes, written_to });
    }

    /// Checks that the disk has room for a reservation. The log's own limit is checked before the reservation: if
    /// unfavourable sizes of records leave the ends of segments empty, the log may exceed it by a segment. Otherwise a
    /// deadlock is possible: the reserved records wait for a trim, and the trim for these records.
    fn may_take(&self, options: &LogOptions, bytes: u64) -> io::Result<bool> {
        let free = self.disk.free_bytes()?;
        Ok(free >= options.free_bytes_min.saturating_add(bytes))
    }

    /// Bytes of frames for which new segments could be had now, the last one's for [urgent](crate::Log::reserve_urgent)
    /// records alone.
    pub(crate) fn room(&self, options: &LogOptions) -> io::Result<u64> {
        let free = self.disk.free_bytes()?.saturating_sub(options.free_bytes_min);
        let may_take = bytes_max(options).saturating_sub(self.file_bytes).min(free);
        let more = (may_take / file_bytes(options)).saturating_mul(options.segment_bytes);
        Ok(self.spares.iter().fold(more, |room, spare| room.saturating_add(spare.segment_bytes())))
    }

    /// Bytes of the files in reserve.
    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.file_bytes).sum()
    }

    /// Abandons a segment that failed before anything in it was synced.
    pub(crate) fn abandon_last(&mut self, shared: &Shared) {
        if let Some(segment) = shared.live().segments.pop_back() {
            self.doom(segment.name.clone(), segment.file_bytes);
        }
    }

    /// Removes the files that a start has found and the log has no use for, now or later.
    pub(crate) fn clear_unused(&mut self) {
        if let Err(error) = self.clear_doomed() {
            tracing::warn!(%error, "empty files of the log cannot be deleted; the server retries later");
        }
    }

    /// Removes a file that holds nothing, now or later.
    fn doom(&mut self, name: Box<str>, bytes: u64) {
        self.doomed.push((name, bytes));
        if let Err(error) = self.clear_doomed() {
            tracing::warn!(%error, "an empty file of the log cannot be deleted; the server retries later");
        }
    }

    /// Removes the doomed files, of which there are one or two at most: while there are any, no new segment is begun.
    fn clear_doomed(&mut self) -> io::Result<()> {
        while let Some((name, bytes)) = self.doomed.last() {
            match self.disk.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.file_bytes = self.file_bytes.saturating_sub(*bytes);
            self.doomed.pop();
            self.names_dirty = true;
        }
        Ok(())
    }

    /// Removes the oldest segment, if all of it is before a position; returns true if it did.
    ///
    /// One at a time, so that writing does not wait for many: each costs a sync of the directory.
    pub(crate) fn trim_one(&mut self, shared: &Shared, before: u64) -> io::Result<bool> {
        if self.names_dirty {
            self.sync_names()?;
        }
        let segment = {
            let mut live = shared.live();
            if live.holds > 0 {
                return Ok(false);
            }
            let next = live.segments.get(1).map(|next| next.id.base);
            if next.is_none_or(|next| next > before) {
                return Ok(false);
            }
            live.segments.pop_front()
        };
        let Some(segment) = segment else { return Ok(false) };
        // No reader can begin to read it now. A present reader would read the next content of the file.
        let is_read = Arc::strong_count(&segment) > 1;
        let fits = may_be_spare(segment.file_bytes, &shared.options, self.spares.is_empty());
        let has_room = self.spares.len() < shared.options.spare_segments_max.max(1)
            && (self.spares.is_empty() || self.has_free_reserve(&shared.options));
        let keeps = !is_read && fits && has_room;
        let spare: Box<str> = spare_name(segment.id.sequence).into();
        let given_up =
            if keeps { self.disk.rename(&segment.name, &spare) } else { self.disk.remove(&segment.name) };
        if let Err(error) = given_up {
            // It must go before the next, or a crash would leave a gap.
            shared.live().segments.push_front(segment);
            return Err(error);
        }
        self.names_dirty = true;
        if keeps {
            let written_to = segment.written_to.load(Ordering::Relaxed);
            self.add_spare(spare, segment.file_bytes, written_to);
        } else {
            self.file_bytes = self.file_bytes.saturating_sub(segment.file_bytes);
        }
        self.sync_names()?;
        Ok(true)
    }

    fn sync_names(&mut self) -> io::Result<()> {
        self.disk.sync_names()?;
        self.names_dirty = false;
        Ok(())
    }
}
