//! Records of matched events, on their way and kept.

use std::cmp::Ordering;

use bumpalo::Bump;
use swiftwater_event::Millis;

use super::owned::OwnedValue;
use crate::expr::total_order;

/// When the events of a chunk were sent (0: unknown), read and matched: microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowTimes {
    /// As the sender says.
    pub sent: i64,
    /// Its last byte was here.
    pub read: i64,
    /// The query had matched it.
    pub matched: i64,
}

/// Records of one query from one batch, in the batch's order.
#[derive(Debug, Clone, Default)]
pub struct RowChunk {
    /// The records, one a line.
    pub text: Vec<u8>,
    /// Where each ends in `text`.
    pub ends: Vec<usize>,
    /// They are not all there: they had more bytes than a batch's records may have.
    pub is_cut: bool,
    /// The row of each one's event in its batch.
    pub rows: Vec<u32>,
    /// When each arrived.
    pub arrivals: Vec<Millis>,
    /// Of lateral views, for each record: matched events up to its own, which is one of them. Empty where each matched
    /// event is one record.
    pub(crate) matched: Vec<u64>,
    /// What each is ordered by; empty where the query has no ORDER BY.
    pub(crate) keys: Vec<Box<[OwnedValue]>>,
    /// The batch's times.
    pub times: RowTimes,
}

impl RowChunk {
    /// Records in it.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
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

    /// Those records alone, in the order given.
    pub fn pick(&self, places: &[usize]) -> RowChunk {
        let mut chunk = RowChunk { is_cut: self.is_cut, times: self.times, ..RowChunk::default() };
        for &place in places {
            chunk.text.extend_from_slice(self.record(place));
            chunk.ends.push(chunk.text.len());
            chunk.rows.push(self.rows[place]);
            chunk.arrivals.push(self.arrivals[place]);
            chunk.keys.extend(self.keys.get(place).cloned());
        }
        chunk
    }

    pub(crate) fn record(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.text[start..self.ends[row]]
    }
}

/// Records kept for one result: the first so many, or by an order the first so many of all.
#[derive(Debug, Default)]
pub(crate) struct RowStore {
    rows: Vec<StoredRow>,
    bytes: usize,
    /// Rows ever taken in: ties of the order go to the earlier.
    taken: u64,
}

#[derive(Debug)]
struct StoredRow {
    record: Box<[u8]>,
    keys: Box<[OwnedValue]>,
    number: u64,
    times: RowTimes,
}

/// How many rows a result has, and in what order.
#[derive(Debug, Clone)]
pub(crate) struct RowOrder {
    pub(crate) limit: Option<u64>,
    /// For each key, whether it is descending; empty: order of arrival.
    pub(crate) descending: Vec<bool>,
    /// The first rows are taken, then sorted.
    pub(crate) sorts_first: bool,
}

impl RowStore {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.rows.len() * size_of::<StoredRow>()
    }

    /// Whether further rows cannot change the result.
    pub(crate) fn is_full(&self, order: &RowOrder) -> bool {
        let by_arrival = order.descending.is_empty() || order.sorts_first;
        by_arrival && order.limit.is_some_and(|limit| self.rows.len() as u64 >= limit)
    }

    pub(crate) fn push(&mut self, chunk: &RowChunk, row: usize, order: &RowOrder) {
        if self.is_full(order) {
            return;
        }
        let record: Box<[u8]> = chunk.record(row).into();
        let keys = chunk.keys.get(row).cloned().unwrap_or_default();
        self.bytes +=
            record.len() + keys.iter().map(|key| size_of::<OwnedValue>() + key.heap_bytes()).sum::<usize>();
        self.rows.push(StoredRow { record, keys, number: self.taken, times: chunk.times });
        self.taken += 1;
        // Pruned when it has twice as many rows as will be left: the sorting is paid for by the rows dropped.
        if let Some(limit) = order.limit {
            let most = (limit as usize).saturating_mul(2).max(1024);
            if self.rows.len() > most {
                self.sort(order);
            }
        }
    }

    fn sort(&mut self, order: &RowOrder) {
        if !order.descending.is_empty() {
            let arena = Bump::new();
            self.rows.sort_by(|a, b| {
                compare_keys(&a.keys, &b.keys, &order.descending, &arena).then(a.number.cmp(&b.number))
            });
        }
        if let Some(limit) = order.limit {
            self.rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        self.bytes = self
            .rows
            .iter()
            .map(|row| {
                row.record.len()
                    + row.keys.iter().map(|key| size_of::<OwnedValue>() + key.heap_bytes()).sum::<usize>()
            })
            .sum();
    }

    /// The result: its records' text, with times where `answered` says when they are given out.
    pub(crate) fn write(mut self, order: &RowOrder, answered: Option<i64>, out: &mut Vec<u8>) -> u64 {
        self.sort(order);
        for row in &self.rows {
            write_with_times(&row.record, answered.map(|answered| (row.times, answered)), out);
        }
        self.rows.len() as u64
    }
}

fn compare_keys(a: &[OwnedValue], b: &[OwnedValue], descending: &[bool], arena: &Bump) -> Ordering {
    for ((a, b), &descending) in a.iter().zip(b).zip(descending) {
        let order = total_order(&a.get(arena), &b.get(arena));
        let order = if descending { order.reverse() } else { order };
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
