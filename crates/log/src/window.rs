//! Reads frames from front to back through a buffer.

use std::io;

use crate::{
    DiskFile,
    frame::{self, ALIGNMENT, FIXED_BYTES, FrameFault, FrameHeader, META_BYTES_MAX},
    segment::SegmentId,
};

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// A buffer that grew beyond this for a large frame is given back.
const KEPT_BYTES: usize = 8 << 20;

/// A segment's file, and up to where it may be read.
#[derive(Clone, Copy)]
pub(crate) struct ReadLimit<'a> {
    pub(crate) file: &'a dyn DiskFile,
    pub(crate) id: SegmentId,
    /// No frame reaches beyond this position; nothing behind it is read, as it may be being written.
    pub(crate) limit: u64,
}

/// A buffer of what was last read of a file.
#[derive(Default)]
pub(crate) struct ReadBuffer {
    buffer: Vec<u8>,
    /// Start of the buffer in the file.
    start: u64,
    filled: usize,
}

impl ReadBuffer {
    /// Forgets what was read, for another file.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        if self.buffer.len() > KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }

    /// The bytes at a position; fewer where the file or what may be read of it ends.
    fn bytes(&mut self, place: &ReadLimit, position: u64, length: usize) -> io::Result<&[u8]> {
        let at = place.id.place(position);
        let limit = place.id.place(place.limit);
        let length = length.min(usize::try_from(limit.saturating_sub(at)).unwrap_or(usize::MAX));
        let held = self.start <= at && at + length as u64 <= self.start + self.filled as u64;
        if !held {
            self.fill(place.file, at, length, limit)?;
        }
        let from = (at - self.start) as usize;
        let to = (from + length).min(self.filled);
        Ok(self.buffer.get(from..to).unwrap_or_default())
    }

    /// Moves the window so that it begins at `at` and holds `length` bytes from there, if there are so many.
    fn fill(&mut self, file: &dyn DiskFile, at: u64, length: usize, limit: u64) -> io::Result<()> {
        let skipped = at.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        match skipped {
            Some(skipped) if skipped < self.filled => {
                self.buffer.copy_within(skipped..self.filled, 0);
                self.filled -= skipped;
            }
            _ => self.filled = 0,
        }
        self.start = at;
        let wanted = length.max(CHUNK_BYTES).min(usize::try_from(limit.saturating_sub(at)).unwrap_or(0));
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.filled < length {
            let read = file.read_at(&mut self.buffer[self.filled..wanted], at + self.filled as u64)?;
            if read == 0 {
                break;
            }
            self.filled += read;
        }
        Ok(())
    }

    /// The front of the frame at a position.
    pub(crate) fn front(
        &mut self,
        place: &ReadLimit,
        position: u64,
    ) -> io::Result<Result<FrameHeader, FrameFault>> {
        let bytes = self.bytes(place, position, FIXED_BYTES + META_BYTES_MAX)?;
        let front = frame::read_front(bytes, place.id.seed(), position);
        Ok(front.and_then(|front| {
            let fits = front.frame_bytes() as u64 <= place.limit.saturating_sub(position);
            if fits { Ok(front) } else { Err("it reaches beyond the end") }
        }))
    }

    /// All bytes of a frame whose front was read.
    pub(crate) fn frame(
        &mut self,
        place: &ReadLimit,
        position: u64,
        front: &FrameHeader,
    ) -> io::Result<&[u8]> {
        self.bytes(place, position, front.frame_bytes())
    }

    /// The end of the frame at a position, if all of it is good.
    pub(crate) fn check(&mut self, place: &ReadLimit, position: u64) -> io::Result<Result<u64, FrameFault>> {
        let front = match self.front(place, position)? {
            Ok(front) => front,
            Err(flaw) => return Ok(Err(flaw)),
        };
        let frame = self.frame(place, position, &front)?;
        Ok(frame::payload(&front, frame).map(|_| position + front.frame_bytes() as u64))
    }

    /// The first position at or behind `from` where a frame's front is good, and that front.
    pub(crate) fn next_front(
        &mut self,
        place: &ReadLimit,
        from: u64,
    ) -> io::Result<Option<(u64, FrameHeader)>> {
        let mut position = from;
        while position + FIXED_BYTES as u64 <= place.limit {
            let bytes = self.bytes(place, position, CHUNK_BYTES / 2)?;
            if bytes.len() < FIXED_BYTES {
                break;
            }
            // A frame says its position, so nearly all places are told by one comparison.
            let places = (bytes.len() - FIXED_BYTES) / ALIGNMENT + 1;
            let candidate = (0..places)
                .map(|place| place * ALIGNMENT)
                .find(|&skipped| frame::position_in(&bytes[skipped..]) == Some(position + skipped as u64));
            let Some(skipped) = candidate else {
                position += (places * ALIGNMENT) as u64;
                continue;
            };
            position += skipped as u64;
            if let Ok(front) = self.front(place, position)? {
                return Ok(Some((position, front)));
            }
            position += ALIGNMENT as u64;
        }
        Ok(None)
    }
}
