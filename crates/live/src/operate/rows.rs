//! Records of matched events: in transit from a shard, and stored for a result.

use std::{cmp::Ordering, collections::BTreeMap, ops::Range, sync::Arc};

use bumpalo::Bump;
use bytes::Bytes;
use smallvec::SmallVec;
use swiftwater_event::Millis;
use swiftwater_lang::Dialect;

use super::owned::OwnedValue;
use crate::{MaxEventTime, expr::KeyOrder};

/// The times at which the events of a chunk were sent (0: unknown), read and matched: microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowTimes {
    /// The sender's time.
    pub sent: i64,
    /// Its last byte was here.
    pub read: i64,
    /// The query had matched it.
    pub matched: i64,
}

/// Records of one query from one batch, in the batch's order. If there are very many queries, most have one record: it
/// needs only its text besides this.
#[derive(Debug, Clone, Default)]
pub struct RowChunk {
    /// The records, one a line; queries that make the same of the same events share it.
    pub text: Bytes,
    /// The end of each in `text`.
    pub ends: SmallVec<[usize; 1]>,
    /// They are not all there: they had more bytes than a batch's records may have.
    pub is_cut: bool,
    /// The row of each one's event in its batch.
    pub rows: SmallVec<[u32; 2]>,
    /// Arrival of each.
    pub arrivals: SmallVec<[Millis; 1]>,
    /// For windows by the events' own time: the time of each, and the latest of all events of the batch before it;
    /// the least of all instants if there is none.
    pub event_times: Vec<(Millis, MaxEventTime)>,
    /// The number of matched events up to that of each record, inclusive, for lateral views. Empty where each matched
    /// event is one record.
    pub(crate) matched: Vec<u64>,
    /// The sort keys of each; empty if the query has no ORDER BY.
    pub(crate) keys: Vec<Box<[OwnedValue]>>,
    /// The batch's times.
    pub times: RowTimes,
}

impl RowChunk {
    /// Records in it.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Matched events up to that of the last of the first `records` records.
    pub fn matched(&self, records: usize) -> u64 {
        match records.checked_sub(1) {
            None => 0,
            Some(last) => self.matched.get(last).copied().unwrap_or(records as u64),
        }
    }

    /// The records at these places, in the order given.
    pub fn pick(&self, places: &[usize]) -> RowChunk {
        let mut chunk = RowChunk { is_cut: self.is_cut, times: self.times, ..RowChunk::default() };
        let mut text = Vec::new();
        for &place in places {
            text.extend_from_slice(self.record(place));
            chunk.ends.push(text.len());
            chunk.rows.push(self.rows[place]);
            chunk.arrivals.push(self.arrivals[place]);
            chunk.event_times.extend(self.event_times.get(place));
            chunk.keys.extend(self.keys.get(place).cloned());
        }
        chunk.text = text.into();
        chunk
    }

    /// The text of a record.
    pub fn record(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text[start..self.ends[row]]
    }
}

/// Records kept for one result: the first so many, or by an order the first so many of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowStore {
    rows: Vec<StoredRow>,
    bytes: usize,
}

/// A kept record; windows that overlap share its text.
#[derive(Debug, Clone)]
struct StoredRow {
    record: Arc<[u8]>,
    keys: Arc<[OwnedValue]>,
    /// Its place among all that the query matched: ties of the order go to the earlier.
    number: u64,
    times: RowTimes,
}

/// The number of rows a result has, and in what order.
#[derive(Debug, Clone)]
pub(crate) struct RowOrder {
    pub(crate) limit: Option<u64>,
    /// The order by each key; empty: order of arrival.
    pub(crate) keys: Vec<KeyOrder>,
    /// The first rows are taken, then sorted.
    pub(crate) sorts_first: bool,
    /// The dialect of the query.
    pub(crate) dialect: Dialect,
}

impl RowStore {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.rows.len() * size_of::<StoredRow>()
    }

    /// True if further rows cannot change the result.
    pub(crate) fn is_full(&self, order: &RowOrder) -> bool {
        let by_arrival = order.keys.is_empty() || order.sorts_first;
        by_arrival && order.limit.is_some_and(|limit| self.rows.len() as u64 >= limit)
    }

    /// Takes in a row, which is the query's match of this number.
    pub(crate) fn push(&mut self, chunk: &RowChunk, row: usize, number: u64, order: &RowOrder) {
        // Numbers ascend here, so a store that is full has the first ones.
        if self.is_full(order) {
            return;
        }
        let record: Arc<[u8]> = chunk.record(row).into();
        let keys = chunk.keys.get(row).map_or_else(|| [].into(), |keys| keys.to_vec().into());
        let stored = StoredRow { record, keys, number, times: chunk.times };
        self.bytes += stored.heap_bytes();
        self.rows.push(stored);
        // Pruned when it has twice as many rows as will be left: the sorting is paid for by the rows dropped.
        if let Some(limit) = order.limit {
            let most = (limit as usize).saturating_mul(2).max(1024);
            if self.rows.len() > most {
                self.sort(order);
            }
        }
    }

    /// Takes in the rows of another; they may be more than will be left.
    pub(crate) fn merge(&mut self, other: RowStore) {
        self.bytes += other.bytes;
        self.rows.extend(other.rows);
    }

    /// Sorts, and keeps the first; false where some rows have no order.
    fn sort(&mut self, order: &RowOrder) -> bool {
        let mut is_comparable = true;
        let most = order.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let is_by_key = !order.keys.is_empty();
        if !is_by_key || order.sorts_first {
            self.rows.sort_by_key(|row| row.number);
            self.rows.truncate(most);
        }
        if is_by_key {
            let arena = Bump::new();
            self.rows.sort_by(|a, b| {
                compare_keys(&a.keys, &b.keys, order, &arena, &mut is_comparable)
                    .then(a.number.cmp(&b.number))
            });
            self.rows.truncate(most);
        }
        self.bytes = self.rows.iter().map(StoredRow::heap_bytes).sum();
        is_comparable
    }

    /// The result: its records' text, with times where `answered` says when they are given out. Returns their number;
    /// `None`, and nothing is written, if they have no order.
    pub(crate) fn write(mut self, order: &RowOrder, answered: Option<i64>, out: &mut Vec<u8>) -> Option<u64> {
        if !self.sort(order) {
            return None;
        }
        for row in &self.rows {
            write_with_times(&row.record, answered.map(|answered| (row.times, answered)), out);
        }
        Some(self.rows.len() as u64)
    }
}

impl StoredRow {
    fn heap_bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| size_of::<OwnedValue>() + key.heap_bytes());
        self.record.len() + keys.sum::<usize>()
    }
}

/// Records by where their slices begin on the windows' line.
#[derive(Debug, Default)]
pub(crate) struct RowSlices {
    slices: BTreeMap<i64, RowStore>,
}

impl RowSlices {
    /// The slice that begins here, made if it is new.
    pub(crate) fn slice(&mut self, start: i64) -> &mut RowStore {
        self.slices.entry(start).or_default()
    }

    /// Does the same as [`Slices::window`](super::Slices), for rows.
    pub(crate) fn window(&mut self, starts: Range<i64>, takes: bool) -> Option<RowStore> {
        if starts.is_empty() {
            return None;
        }
        let mut whole: Option<RowStore> = None;
        let mut add = |other: RowStore| match &mut whole {
            None => whole = Some(other),
            Some(whole) => whole.merge(other),
        };
        if takes {
            self.slices.extract_if(starts, |_, _| true).for_each(|(_, rows)| add(rows));
        } else {
            self.slices.range(starts).for_each(|(_, rows)| add(rows.clone()));
        }
        whole
    }

    /// Start of the first slice from `start` on.
    pub(crate) fn first_from(&self, start: i64) -> Option<i64> {
        self.slices.range(start..).next().map(|(start, _)| *start)
    }

    /// Start of the last slice.
    pub(crate) fn last(&self) -> Option<i64> {
        self.slices.last_key_value().map(|(start, _)| *start)
    }

    /// Drops what begins before `start`.
    pub(crate) fn drop_before(&mut self, start: i64) {
        while let Some(first) = self.slices.first_entry().filter(|first| *first.key() < start) {
            first.remove();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slices.values().map(RowStore::bytes).sum()
    }
}

fn compare_keys(
    a: &[OwnedValue],
    b: &[OwnedValue],
    order: &RowOrder,
    arena: &Bump,
    is_comparable: &mut bool,
) -> Ordering {
    for ((a, b), key) in a.iter().zip(b).zip(&order.keys) {
        let order = key.compare(&a.get(arena), &b.get(arena), order.dialect, is_comparable);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Writes one record (a line), and into it, where asked for, its times under `_times` in microseconds since 1970.
pub(crate) fn write_with_times(record: &[u8], times: Option<(RowTimes, i64)>, out: &mut Vec<u8>) {
    let Some((times, answered)) = times else {
        out.extend_from_slice(record);
        return;
    };
    let body = record.strip_suffix(b"}\n").unwrap_or(record);
    out.extend_from_slice(body);
    if body.iter().any(|byte| !matches!(byte, b'{' | b' ')) {
        out.push(b',');
    }
    let sent = if times.sent == 0 { "null".to_owned() } else { times.sent.to_string() };
    let RowTimes { read, matched, .. } = times;
    out.extend_from_slice(
        format!(
            "\"_times\":{{\"sent\":{sent},\"read\":{read},\"matched\":{matched},\"answered\":{answered}}}}}\n"
        )
        .as_bytes(),
    );
}
