//! Reads the log while it is written.

use std::sync::Arc;

use crate::{
    Head, LogError, LogPosition, Record, frame,
    packed::{Compression, unpack},
    queue::Shared,
    segments::Segment,
    window::{ReadBuffer, ReadLimit},
};

/// Reads records in order, those that are synced and no others: what is not may still be lost.
pub struct LogReader {
    shared: Arc<Shared>,
    position: u64,
    segment: Option<SegmentCursor>,
    window: ReadBuffer,
    unpacked: Vec<u8>,
}

/// The segment that is read, and the position up to which.
struct SegmentCursor {
    segment: Arc<Segment>,
    limit: u64,
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>, from: LogPosition) -> LogReader {
        LogReader {
            shared,
            position: from.0,
            segment: None,
            window: ReadBuffer::default(),
            unpacked: Vec::new(),
        }
    }

    /// Start of the next record.
    pub fn position(&self) -> LogPosition {
        LogPosition(self.position)
    }

    /// The next record; `None` where no more is synced: ask again later.
    ///
    /// Fails with [`LogError::Trimmed`] where the log begins behind the reader, and with [`LogError::Corrupt`] where
    /// no record begins at its position or what stands there is damaged. After an error it stands where it stood.
    // Not an `Iterator`: a record borrows the reader's buffer.
    #[expect(clippy::should_implement_trait, reason = "a record borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, LogError> {
        self.next_where(|_| true)
    }

    /// The same; a record whose head is not wanted has no payload.
    pub fn next_where(&mut self, wants: impl FnOnce(&Head) -> bool) -> Result<Option<Record<'_>>, LogError> {
        if !self.find()? {
            return Ok(None);
        }
        let LogReader { position, segment: Some(reading), window, unpacked, .. } = self else {
            return Ok(None);
        };
        let segment = &reading.segment;
        let place = ReadLimit { file: &*segment.file, id: segment.id, limit: reading.limit };
        let begin = *position;
        let corrupt = |flaw| LogError::Corrupt {
            position: LogPosition(begin),
            name: segment.name.clone(),
            at: segment.id.place(begin),
            flaw,
            resumes: None,
        };
        let failed = |source| LogError::io("read", &segment.name, source);
        let front = window.front(&place, begin).map_err(failed)?.map_err(corrupt)?;
        let frame = window.frame(&place, begin, &front).map_err(failed)?;
        let packed = frame::payload(&front, frame).map_err(corrupt)?;
        let head = frame::read_head(&front, frame).map_err(corrupt)?;
        let payload = match front.packing {
            _ if !wants(&head) => &[],
            Compression::None if packed.len() == front.unpacked_bytes => packed,
            packing => {
                unpack(packed, packing, front.unpacked_bytes, unpacked)
                    .ok_or("its payload cannot be unpacked")
                    .map_err(corrupt)?;
                &unpacked[..]
            }
        };
        let end = begin + front.frame_bytes() as u64;
        *position = end;
        Ok(Some(Record { position: LogPosition(begin), end: LogPosition(end), head, payload }))
    }

    /// True if there is a record at the position; the segment is then the one that holds it.
    fn find(&mut self) -> Result<bool, LogError> {
        if let Some(reading) = &self.segment
            && self.position < reading.limit
        {
            return Ok(true);
        }
        let synced = self.shared.queue().synced;
        let live = self.shared.live();
        self.position = live.behind_holes(self.position);
        if self.position >= synced {
            return Ok(false);
        }
        let oldest = LogPosition(live.oldest().unwrap_or(synced));
        let position = LogPosition(self.position);
        let Some((segment, next)) = live.find(self.position) else {
            return Err(LogError::Trimmed { position, oldest });
        };
        let hole = live.holes.iter().map(|hole| hole.start).find(|&start| start > position.0);
        drop(live);
        let limit = next.unwrap_or(synced).min(synced).min(hole.unwrap_or(u64::MAX));
        let is_same = self.segment.as_ref().is_some_and(|reading| Arc::ptr_eq(&reading.segment, &segment));
        if !is_same {
            self.window.clear();
        }
        self.segment = Some(SegmentCursor { segment, limit });
        Ok(true)
    }
}
