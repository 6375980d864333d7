//! The events that a stream join retains for later events: in memory, up to a limit, and on disk.
//!
//! ```text
//! event  := 'e' side bucket part key time number  →  values
//! bucket := 'b' side bucket                       →  events, bytes (u64 each)
//! side   := 00 | 01      part := byte      bucket, time, number := 8 bytes, big endian, in the order of their values
//! ```
//!
//! Time is divided into buckets at least as long as the reach of an event. An event therefore finds its matches in two or
//! three buckets, and expired events are deleted a bucket at a time. A bucket is divided into parts by the hash of the
//! events' keys. A part is in memory either completely, or only with the events that are not on disk yet. In the second
//! case, the events of a key are read from disk when they are needed. The result is the same in either case.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use swiftwater_live::{JoinBuffer, JoinEvent, JoinProgress, JoinTimeBounds, Match, SIDES};
use swiftwater_views::{ViewSnapshot, ViewStore, ViewStoreError};

/// Parts of a bucket.
const PARTS: usize = 16;

/// The shortest bucket, in microseconds.
const BUCKET_MICROS_MIN: i64 = 1_000_000;

/// The most that one commit deletes from disk.
const DELETED_AT_ONCE: usize = 20_000;

/// Bytes that an event takes in memory besides its own.
const HELD_OVERHEAD: usize = 112;

const EVENT: u8 = b'e';
const BUCKET: u8 = b'b';

/// The keys that the next commit writes, each with its value.
pub(super) type JoinStateChanges = Vec<(Vec<u8>, Option<Arc<[u8]>>)>;

/// Kept events of a join.
pub(super) struct JoinState {
    store: Arc<ViewStore>,
    join: u32,
    /// The width of a bucket, in microseconds.
    width: i64,
    memory_bytes_max: usize,
    buckets: BTreeMap<(u8, i64), Bucket>,
    /// Bytes of events in memory, about.
    held_bytes: usize,
    /// Events that are not on disk yet.
    fresh: Vec<(Vec<u8>, Arc<[u8]>)>,
    fresh_bytes: usize,
    /// The committed state.
    snapshot: ViewSnapshot,
    /// Buckets that are not needed any more, and may be on disk still.
    gone: Vec<(u8, i64)>,
}

#[derive(Default)]
struct Bucket {
    parts: [Part; PARTS],
    events: u64,
    bytes: u64,
    /// True if it has changed since the last commit.
    has_changed: bool,
}

/// Events by key, time and number.
struct Part {
    rows: BTreeMap<Vec<u8>, Arc<[u8]>>,
    held_bytes: usize,
    is_whole: bool,
}

impl Default for Part {
    fn default() -> Part {
        Part { rows: BTreeMap::new(), held_bytes: 0, is_whole: true }
    }
}

impl JoinState {
    /// Loads the state of a join from disk; the latest buckets go into memory, as far as they fit.
    pub(super) fn load(
        store: &Arc<ViewStore>,
        join: u32,
        apart: &JoinTimeBounds,
        memory_bytes_max: usize,
    ) -> Result<JoinState, ViewStoreError> {
        let [left, right] = apart.lateness;
        let width = apart.high.saturating_sub(apart.low).max(left).max(right).max(BUCKET_MICROS_MIN);
        let mut kept = JoinState {
            store: Arc::clone(store),
            join,
            width,
            memory_bytes_max,
            buckets: BTreeMap::new(),
            held_bytes: 0,
            fresh: Vec::new(),
            fresh_bytes: 0,
            snapshot: store.snapshot(join)?,
            gone: Vec::new(),
        };
        let mut found: Vec<(u8, i64, u64)> = Vec::new();
        for pair in kept.snapshot.range((Bound::Included(&[BUCKET][..]), Bound::Excluded(&[BUCKET + 1][..])))
        {
            let (key, counts) = pair?;
            let (Some([side]), Some(bucket)) = (key.get(1..2), number_at(&key, 2)) else { continue };
            let (events, bytes) = (count_at(&counts, 0), count_at(&counts, 8));
            let part = || Part { is_whole: false, ..Part::default() };
            let bucket_kept =
                Bucket { parts: std::array::from_fn(|_| part()), events, bytes, has_changed: false };
            kept.buckets.insert((*side, bucket), bucket_kept);
            found.push((*side, bucket, bytes + events * HELD_OVERHEAD as u64));
        }
        found.sort_unstable_by_key(|(_, bucket, _)| std::cmp::Reverse(*bucket));
        for (side, bucket, bytes) in found {
            if kept.held_bytes as u64 + bytes <= memory_bytes_max as u64 {
                kept.load_bucket(side, bucket)?;
            }
        }
        Ok(kept)
    }

    /// Takes a bucket from disk into memory.
    fn load_bucket(&mut self, side: u8, bucket: i64) -> Result<(), ViewStoreError> {
        let Some(into) = self.buckets.get_mut(&(side, bucket)) else { return Ok(()) };
        let prefix = bucket_key(EVENT, side, bucket);
        let end = after(&prefix);
        for pair in self.snapshot.range((Bound::Included(&prefix), Bound::Excluded(&end))) {
            let (key, values) = pair?;
            let Some((&part, suffix)) = key[prefix.len()..].split_first() else { continue };
            let bytes = suffix.len() + values.len() + HELD_OVERHEAD;
            let part = &mut into.parts[usize::from(part) % PARTS];
            part.rows.insert(suffix.to_vec(), values.into());
            part.held_bytes += bytes;
            self.held_bytes += bytes;
        }
        into.parts.iter_mut().for_each(|part| part.is_whole = true);
        Ok(())
    }

    /// Events, and the bytes of their keys and values.
    pub(super) fn counts(&self) -> (u64, u64) {
        let counts = self.buckets.values().map(|bucket| (bucket.events, bucket.bytes));
        counts.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
    }

    /// Bytes of events in memory, about.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes that are to go to disk.
    pub(super) fn fresh_bytes(&self) -> usize {
        self.fresh_bytes
    }

    /// True if something is to go to disk.
    pub(super) fn has_changed(&self) -> bool {
        !self.fresh.is_empty() || !self.gone.is_empty()
    }

    /// Deletes the events that cannot pair any more.
    pub(super) fn expire(&mut self, apart: &JoinTimeBounds, progress: &JoinProgress) {
        for side in 0..SIDES {
            let Some(first) = apart.first_needed(progress, side) else { continue };
            let (side, first) = (side as u8, first.div_euclid(self.width));
            while let Some((&key, _)) = self.buckets.range((side, i64::MIN)..(side, first)).next() {
                if let Some(bucket) = self.buckets.remove(&key) {
                    let held: usize = bucket.parts.iter().map(|part| part.held_bytes).sum();
                    self.held_bytes -= held;
                    self.gone.push(key);
                }
            }
        }
    }

    /// The changes to write to disk. Deletions that are too many for one commit go with the next.
    pub(super) fn changes(&self) -> Result<(JoinStateChanges, Vec<(u8, i64)>), ViewStoreError> {
        let mut changes: JoinStateChanges = Vec::with_capacity(self.fresh.len());
        for (key, values) in &self.fresh {
            // Entries of expired buckets need not be written.
            let is_needed =
                number_at(key, 2).is_some_and(|bucket| self.buckets.contains_key(&(key[1], bucket)));
            if is_needed {
                changes.push((key.clone(), Some(Arc::clone(values))));
            }
        }
        for ((side, bucket), counted) in self.buckets.iter().filter(|(_, bucket)| bucket.has_changed) {
            let counts = [counted.events.to_be_bytes(), counted.bytes.to_be_bytes()].concat();
            changes.push((bucket_key(BUCKET, *side, *bucket), Some(counts.into())));
        }
        let (mut left, mut room) = (Vec::new(), DELETED_AT_ONCE);
        for &(side, bucket) in &self.gone {
            let prefix = bucket_key(EVENT, side, bucket);
            let end = after(&prefix);
            let mut deleted = 0;
            let on_disk = self.snapshot.range((Bound::Included(&prefix), Bound::Excluded(&end)));
            for pair in on_disk.take(room) {
                changes.push((pair?.0, None));
                deleted += 1;
            }
            room -= deleted;
            match room {
                0 => left.push((side, bucket)),
                _ => changes.push((bucket_key(BUCKET, side, bucket), None)),
            }
        }
        Ok((changes, left))
    }

    /// The changes were written; `left`: buckets of which not all is deleted yet.
    pub(super) fn committed(&mut self, left: Vec<(u8, i64)>) -> Result<(), ViewStoreError> {
        self.fresh.clear();
        self.fresh_bytes = 0;
        self.gone = left;
        self.snapshot = self.store.snapshot(self.join)?;
        for bucket in self.buckets.values_mut() {
            bucket.has_changed = false;
            for part in bucket.parts.iter_mut().filter(|part| !part.is_whole) {
                self.held_bytes -= part.evict();
            }
        }
        // The oldest buckets are read least.
        let mut parts = self.buckets.values_mut().flat_map(|bucket| &mut bucket.parts);
        while self.held_bytes > self.memory_bytes_max
            && let Some(part) = parts.next()
        {
            part.is_whole = false;
            self.held_bytes -= part.evict();
        }
        Ok(())
    }
}

impl Part {
    /// Evicts the events in memory. Returns their bytes.
    fn evict(&mut self) -> usize {
        self.rows = BTreeMap::new();
        std::mem::take(&mut self.held_bytes)
    }
}

impl JoinBuffer for JoinState {
    type Error = ViewStoreError;

    fn insert(&mut self, side: usize, event: &JoinEvent<'_>) -> Result<(), ViewStoreError> {
        let (Some(time), Some(key)) = (event.time, event.key.as_deref()) else { return Ok(()) };
        let (side, bucket, part) = (side as u8, time.div_euclid(self.width), part_of(key));
        let suffix = [key, &ordered(time), &event.number.to_be_bytes()].concat();
        let whole_key = [&bucket_key(EVENT, side, bucket)[..], &[part], &suffix].concat();
        let values: Arc<[u8]> = event.values.into();
        let bytes = suffix.len() + values.len();
        let into = self.buckets.entry((side, bucket)).or_default();
        into.events += 1;
        into.bytes += bytes as u64;
        into.has_changed = true;
        let part = &mut into.parts[usize::from(part)];
        part.rows.insert(suffix, Arc::clone(&values));
        part.held_bytes += bytes + HELD_OVERHEAD;
        self.held_bytes += bytes + HELD_OVERHEAD;
        self.fresh_bytes += whole_key.len() + values.len();
        self.fresh.push((whole_key, values));
        Ok(())
    }

    fn find(
        &mut self,
        side: usize,
        key: &[u8],
        times: (i64, i64),
        last: Option<(i64, u64)>,
        count: usize,
        out: &mut Vec<Match>,
    ) -> Result<(), ViewStoreError> {
        let (side, part, full) = (side as u8, part_of(key), out.len() + count);
        let (first, end) = (times.0.div_euclid(self.width), times.1.div_euclid(self.width));
        let place = |time: i64, number: u64| [key, &ordered(time), &number.to_be_bytes()].concat();
        let from = match last.filter(|(time, _)| *time >= times.0) {
            Some((time, number)) => Bound::Excluded(place(time, number)),
            None => Bound::Included(place(times.0, 0)),
        };
        let to = Bound::Included(place(times.1, u64::MAX));
        for (&(_, bucket), kept) in self.buckets.range((side, first)..=(side, end)) {
            let room = full - out.len();
            if room == 0 {
                break;
            }
            let kept = &kept.parts[usize::from(part)];
            let in_memory = kept.rows.range((from.clone(), to.clone())).take(room);
            if kept.is_whole {
                for (suffix, values) in in_memory {
                    out.extend(found(suffix, values));
                }
                continue;
            }
            let prefix = [&bucket_key(EVENT, side, bucket)[..], &[part]].concat();
            let whole = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|suffix| [&prefix[..], suffix].concat());
            let (disk_from, disk_to) = (whole(&from), whole(&to));
            let bounds = (disk_from.as_ref().map(|key| &key[..]), disk_to.as_ref().map(|key| &key[..]));
            let mut both: Vec<Match> = Vec::new();
            for pair in self.snapshot.range(bounds).take(room) {
                let (key, values) = pair?;
                both.extend(found(&key[prefix.len()..], &values));
            }
            for (suffix, values) in in_memory {
                both.extend(found(suffix, values));
            }
            both.sort_unstable_by_key(|found| (found.time, found.number));
            out.extend(both.into_iter().take(room));
        }
        Ok(())
    }
}

fn found(suffix: &[u8], values: &[u8]) -> Option<Match> {
    let at = suffix.len().checked_sub(16)?;
    Some(Match { time: number_at(suffix, at)?, number: count_at(suffix, at + 8), values: values.into() })
}

fn bucket_key(kind: u8, side: u8, bucket: i64) -> Vec<u8> {
    [&[kind, side][..], &ordered(bucket)].concat()
}

/// The first key behind all that begin so. It begins with a letter, so there is one.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Big endian, with the sign turned, so that bytes compare as the numbers do.
fn ordered(number: i64) -> [u8; 8] {
    (number as u64 ^ 1 << 63).to_be_bytes()
}

fn number_at(bytes: &[u8], at: usize) -> Option<i64> {
    let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
}

fn count_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// The part of a key: it is in the format on disk, so it never changes. After Fowler, Noll and Vo (FNV-1a).
fn part_of(key: &[u8]) -> u8 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    ((hash >> 32) % PARTS as u64) as u8
}
