//! Opens the log after a crash, or after damage.
//!
//! All segments are read from front to back, every checksum included. A bad frame before the last segment is damage: a
//! segment is begun only when all before it is synced. Damage is reported by position. In the last segment, bad bytes
//! are the torn tail of an unfinished write, unless a good frame behind them proves that they were synced before it was
//! written. Writes that were not synced may reach the disk in any order. The log does not append to a torn tail: the
//! next record goes into a new segment, whose base ends this one. A long torn tail is cut off.
//!
//! No file shows that all files are missing, or the last ones. The caller knows how far the log had come at least
//! ([`LogOptions::known_end`]): the catalog's snapshot and joins record it. It also finds missing first files: the
//! snapshot's position and the offsets that each table lacks must be in the log. If the log is to continue in spite of a
//! loss, it continues behind the lost records: no position is used twice.

use std::{io, ops::Range, sync::Arc, sync::atomic::AtomicU64};

use crate::{
    Disk, LogError, LogOptions, LogPosition,
    frame::FrameFault,
    segment::{FRAMES_START, FileKind, identify, parse_name},
    segments::{LiveSegments, Segment, SegmentFiles, may_be_spare},
    window::{ReadBuffer, ReadLimit},
};

/// A torn tail, and room that was taken and not used, is cut off where there is more of it than this.
const CUT_BYTES_MIN: u64 = 64 << 10;

/// The recovered log.
pub(crate) struct RecoveredLog {
    pub(crate) live: LiveSegments,
    pub(crate) files: SegmentFiles,
    /// End of the log.
    pub(crate) end: u64,
}

pub(crate) fn recover(disk: Arc<dyn Disk>, options: &LogOptions) -> Result<RecoveredLog, LogError> {
    let mut files = SegmentFiles {
        disk: Arc::clone(&disk),
        next_sequence: 1,
        file_bytes: 0,
        spares: Vec::new(),
        doomed: Vec::new(),
        names_dirty: true,
    };
    let segments = open_all(&mut files, options)?;
    for pair in segments.windows(2) {
        if let [before, segment] = pair
            && segment.id.base < before.id.base
        {
            return Err(corrupt(segment, segment.id.base, "it begins before the segment before it", None));
        }
    }
    let mut scan = Scan { window: ReadBuffer::default(), skips: options.skip_corrupt, holes: Vec::new() };
    let mut live = LiveSegments::default();
    let mut end = segments.first().map_or(0, |segment| segment.id.base);
    for (index, segment) in segments.iter().enumerate() {
        end = match segments.get(index + 1) {
            Some(next) => scan.whole(segment, next.id.base)?,
            None => scan.last(segment)?,
        };
    }
    // Nothing is changed on disk where this is refused: what is missing may be put back.
    let lost = end..options.known_end.0;
    if !lost.is_empty() {
        let error = LogError::Short { end: LogPosition(end), known: options.known_end };
        if !options.skip_corrupt {
            return Err(error);
        }
        tracing::error!(%error, "records are lost; the log continues after them, because of data.log_skip_corrupt");
    }
    files.clear_unused();
    let (count, mut cut_bytes) = (segments.len(), 0);
    for (index, mut segment) in segments.into_iter().enumerate() {
        if index + 1 == count {
            let bytes = segment.file_bytes;
            segment = sync_recovered(segment, end)?;
            cut_bytes = bytes - segment.file_bytes;
        }
        live.segments.push_back(Arc::new(segment));
    }
    files.file_bytes += live.segments.iter().map(|segment| segment.file_bytes).sum::<u64>();
    files.reserve_trimmed(options, cut_bytes);
    // Empty segments are removed: those in which nothing was synced before the next was begun, or before the crash.
    let mut index = 0;
    while let Some(segment) = live.segments.get(index) {
        let ends = live.segments.get(index + 1).map_or(end, |next| next.id.base);
        if segment.id.base < ends {
            index += 1;
            continue;
        }
        files.doomed.push((segment.name.clone(), segment.file_bytes));
        live.segments.remove(index);
    }
    live.holes = scan.holes;
    if !lost.is_empty() {
        end = lost.end;
        live.holes.push(lost);
    }
    Ok(RecoveredLog { live, files, end })
}

/// Opens all segments, in order; one of the other files is kept as a spare, and the rest is to be removed.
fn open_all(files: &mut SegmentFiles, options: &LogOptions) -> Result<Vec<Segment>, LogError> {
    let names = files.disk.names().map_err(|source| LogError::io("list", ".", source))?;
    let (mut segments, mut spares) = (Vec::new(), Vec::new());
    for name in names {
        let Some((sequence, is_spare)) = parse_name(&name) else { continue };
        files.next_sequence = files.next_sequence.max(sequence + 1);
        let file = files.disk.open(&name).map_err(|source| LogError::io("open", &name, source))?;
        let bytes = file.bytes().map_err(|source| LogError::io("open", &name, source))?;
        if is_spare {
            files.file_bytes += bytes;
            spares.push((bytes, name));
            continue;
        }
        match identify(&*file, &name, sequence)? {
            FileKind::Segment(id) => {
                let written_to = AtomicU64::new(FRAMES_START);
                segments.push(Segment { id, name, file, file_bytes: bytes, written_to });
            }
            FileKind::Unborn => {
                files.file_bytes += bytes;
                files.doomed.push((name, bytes));
            }
        }
    }
    segments.sort_unstable_by_key(|segment| segment.id.sequence);
    // One stays in reserve. More were for the rate of an earlier run.
    spares.sort_unstable();
    while let Some((bytes, name)) = spares.pop() {
        if files.spares.is_empty() && may_be_spare(bytes, options, true) {
            files.add_spare(name, bytes, FRAMES_START);
        } else {
            files.doomed.push((name, bytes));
        }
    }
    Ok(segments)
}

/// Makes durable what was found in the last segment: a process that was killed may have written and not synced it.
fn sync_recovered(mut segment: Segment, end: u64) -> Result<Segment, LogError> {
    let place = segment.id.place(end);
    let settled = || -> io::Result<u64> {
        let cuts = segment.file_bytes.saturating_sub(place) > CUT_BYTES_MIN;
        if cuts {
            segment.file.truncate(place)?;
        }
        segment.file.sync()?;
        Ok(if cuts { place } else { segment.file_bytes })
    };
    segment.file_bytes = settled().map_err(|source| LogError::io("sync", &segment.name, source))?;
    Ok(segment)
}

struct Scan {
    window: ReadBuffer,
    skips: bool,
    holes: Vec<Range<u64>>,
}

impl Scan {
    /// Reads a segment that ends where the next begins.
    fn whole(&mut self, segment: &Segment, next: u64) -> Result<u64, LogError> {
        let place = ReadLimit { file: &*segment.file, id: segment.id, limit: next };
        let failed = |source| LogError::io("read", &segment.name, source);
        self.window.clear();
        let mut position = segment.id.base;
        while let Some((bad, flaw)) = self.walk(&place, &mut position).map_err(failed)? {
            let resumes = self.next_good(&place, bad).map_err(failed)?.unwrap_or(next);
            self.skip(segment, bad, flaw, resumes)?;
            position = resumes;
        }
        Ok(next)
    }

    /// Reads the last segment and returns its end.
    fn last(&mut self, segment: &Segment) -> Result<u64, LogError> {
        let place = ReadLimit { file: &*segment.file, id: segment.id, limit: segment.position_max() };
        let failed = |source| LogError::io("read", &segment.name, source);
        self.window.clear();
        let mut position = segment.id.base;
        while let Some((bad, flaw)) = self.walk(&place, &mut position).map_err(failed)? {
            let (witness, behind) = self.witness(&place, bad).map_err(failed)?;
            let Some(witness) = witness else {
                let (position, name) = (bad, &segment.name);
                match behind {
                    None => tracing::debug!(position, %name, flaw, "the log ends here"),
                    Some(behind) => tracing::warn!(
                        position, %name, flaw, behind,
                        "the log ends at an incomplete record; later records are skipped, because nothing shows that \
                         they were synced"
                    ),
                }
                return Ok(bad);
            };
            // If the witness is torn itself, all before it is lost and it never was there.
            let resumes = self.next_good(&place, bad).map_err(failed)?.unwrap_or(witness);
            self.skip(segment, bad, flaw, resumes)?;
            position = resumes;
        }
        Ok(position)
    }

    /// Reads good frames up to the limit; `Some`: the next frame is bad.
    fn walk(&mut self, place: &ReadLimit, position: &mut u64) -> io::Result<Option<(u64, FrameFault)>> {
        while *position < place.limit {
            match self.window.check(place, *position)? {
                Ok(end) => *position = end,
                Err(flaw) => return Ok(Some((*position, flaw))),
            }
        }
        Ok(None)
    }

    /// The first good frame behind a position.
    fn next_good(&mut self, place: &ReadLimit, bad: u64) -> io::Result<Option<u64>> {
        let mut from = bad + crate::frame::ALIGNMENT as u64;
        while let Some((position, _)) = self.window.next_front(place, from)? {
            if self.window.check(place, position)?.is_ok() {
                return Ok(Some(position));
            }
            from = position + crate::frame::ALIGNMENT as u64;
        }
        Ok(None)
    }

    /// The first frame behind a position that was written when what stands there was synced; and the first frame behind it.
    fn witness(&mut self, place: &ReadLimit, bad: u64) -> io::Result<(Option<u64>, Option<u64>)> {
        let (mut from, mut first) = (bad + crate::frame::ALIGNMENT as u64, None);
        while let Some((position, front)) = self.window.next_front(place, from)? {
            first.get_or_insert(position);
            if front.synced_before > bad {
                return Ok((Some(position), first));
            }
            from = position + crate::frame::ALIGNMENT as u64;
        }
        Ok((None, first))
    }

    fn skip(&mut self, segment: &Segment, bad: u64, flaw: FrameFault, resumes: u64) -> Result<(), LogError> {
        let error = corrupt(segment, bad, flaw, Some(resumes));
        if !self.skips {
            return Err(error);
        }
        tracing::error!(%error, resumes, "records are lost; the log continues after them, because of \
             data.log_skip_corrupt");
        self.holes.push(bad..resumes);
        Ok(())
    }
}

fn corrupt(segment: &Segment, position: u64, flaw: FrameFault, resumes: Option<u64>) -> LogError {
    LogError::Corrupt {
        position: LogPosition(position),
        name: segment.name.clone(),
        at: segment.id.place(position),
        flaw,
        resumes: resumes.map(LogPosition),
    }
}
