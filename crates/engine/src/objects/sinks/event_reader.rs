//! Reads the events of a sink's stream, and plans the deliveries of their rows.
//!
//! Events come from the sink's feed or the log ([`event_source`](super::event_source)). The offsets at which deliveries end are
//! logged before the first attempt. After a crash the deliveries therefore have the same events under the same numbers, however many
//! events have come since, so that targets recognize them. Events without rows are passed, which is logged once in a while.
//! Limits: [`DELIVERY_BYTES`] bytes of rows, or one row, in a delivery; [`DELIVERIES`] deliveries or so planned at once.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use swiftwater_catalog::kind::sink::{Delivered, SinkEntry, place_of_offset};
use swiftwater_event::{EventBatch, Millis};
use swiftwater_lang::ddl::SinkTarget;
use swiftwater_live::Shard;
use tokio::time::Sleep;

use super::{
    deliver::DeliverError,
    event_query::EventQuery,
    event_source::{EventSource, part},
    rows::{EventRows, batch_rows},
};
use crate::{
    durable::history::{History, run_blocking},
    objects::views::Portion,
};

/// Bytes of the rows of a delivery from which on the next row belongs to the next delivery.
const DELIVERY_BYTES: usize = 1 << 20;
/// Deliveries from which on no further events are made rows.
const DELIVERIES: usize = 1_000;
/// Bytes of events below which a table gets the next ones after an interval: a commit of few costs as much as one of many.
const GATHERED_BYTES: usize = 256 << 10;

/// The reader of a sink's events.
pub(super) struct EventReader {
    source: EventSource,
    /// Events that were read and are not planned, in order.
    read: VecDeque<EventBatch>,
    shard: Shard,
    /// The target is a table, and few events were read last.
    gathers: bool,
    /// Events were passed, and that is not logged.
    is_unrecorded: bool,
    /// The end of the interval since the last record.
    due: Pin<Box<Sleep>>,
    interval: Duration,
}

impl EventReader {
    pub(super) fn new(history: &History, query: Arc<EventQuery>, entry: &SinkEntry) -> EventReader {
        let interval = Duration::from_millis(history.config.views_commit_interval_ms.max(1));
        EventReader {
            source: EventSource::new(query, entry),
            read: VecDeque::new(),
            shard: Shard::default(),
            gathers: false,
            is_unrecorded: true,
            due: Box::pin(tokio::time::sleep(interval)),
            interval,
        }
    }

    /// Waits for events, and plans their deliveries. Returns when there is one that was not made, planned now or before.
    pub(super) async fn plan(
        &mut self,
        history: &History,
        entry: &mut SinkEntry,
        rows: &mut EventRows,
    ) -> Result<(), DeliverError> {
        let done = place_of_offset(entry.delivered.offset());
        rows.portions.retain(|portion| portion.last[..] > done[..]);
        if !rows.portions.is_empty() {
            return Ok(());
        }
        if rows.lost > 0 {
            entry.delivered.lost += std::mem::take(&mut rows.lost);
            self.is_unrecorded = true;
        }
        if let Some(end) = entry.delivered.planned.last().copied() {
            return self.read_planned(history, entry, end, rows).await;
        }
        loop {
            if self.read.is_empty() && !self.read_more(history, entry).await? {
                continue;
            }
            let lost = self.source.take_lost();
            let bytes = self.read.iter().map(|batch| batch.bytes().len()).sum();
            let ends = PortionEnds::Rows(batch_rows(entry));
            let portions = run_blocking(bytes, || self.portions(ends, u64::MAX, history.clock.now()));
            let end = self.read.front().map_or(self.source.next(), |batch| batch.meta().first.0);
            if portions.is_empty() {
                entry.delivered.pass(&place_of_offset(end));
                entry.delivered.lost += lost;
                self.is_unrecorded = true;
                continue;
            }
            self.gathers = bytes < GATHERED_BYTES && matches!(entry.create.target, SinkTarget::Table(_));
            let planned = portions.iter().filter_map(end_of).collect();
            self.record(history, entry, planned).await?;
            // Counted when the deliveries are made: until then each run may read these events again.
            (rows.portions, rows.lost) = (portions, lost);
            return Ok(());
        }
    }

    /// Reads the events of deliveries that were planned in an earlier run.
    async fn read_planned(
        &mut self,
        history: &History,
        entry: &SinkEntry,
        end: u64,
        rows: &mut EventRows,
    ) -> Result<(), DeliverError> {
        while self.source.next() < end {
            let read = self.source.read(history).await?;
            self.read.extend(read);
        }
        rows.lost = self.source.take_lost();
        let ends = PortionEnds::Planned(entry.delivered.planned.clone().into());
        let bytes = self.read.iter().map(|batch| batch.bytes().len()).sum();
        rows.portions = run_blocking(bytes, || self.portions(ends, end, history.clock.now()));
        Ok(())
    }

    /// Reads the next events, or logs that events were passed; returns true if there is something to plan.
    async fn read_more(&mut self, history: &History, entry: &mut SinkEntry) -> Result<bool, DeliverError> {
        if self.gathers && !self.due.is_elapsed() {
            (&mut self.due).await;
        }
        tokio::select! {
            biased;
            () = &mut self.due, if self.is_unrecorded => {
                self.record(history, entry, Vec::new()).await?;
                Ok(false)
            }
            read = self.source.read(history) => {
                self.read.extend(read?);
                Ok(true)
            }
        }
    }

    /// Logs the progress and what is planned next.
    async fn record(
        &mut self,
        history: &History,
        entry: &mut SinkEntry,
        planned: Vec<u64>,
    ) -> Result<(), DeliverError> {
        let delivered = Delivered { planned, ..entry.delivered.clone() };
        history.record_delivered(entry, delivered).await?;
        self.source.release(entry.delivered.offset());
        self.is_unrecorded = false;
        self.due.set(tokio::time::sleep(self.interval));
        Ok(())
    }

    /// Makes deliveries of the rows of events before `until` that were read.
    fn portions(&mut self, ends: PortionEnds, until: u64, now: Millis) -> VecDeque<Portion> {
        let mut portions = Portions { ends, open: Portion::of_events(now), done: VecDeque::new(), now };
        while portions.done.len() < DELIVERIES
            && let Some(batch) = self.read.pop_front()
        {
            let (first, len) = (batch.meta().first.0, batch.len());
            let before = until.saturating_sub(first).min(len as u64) as usize;
            if before < len {
                self.read.push_front(part(&batch, before, len));
            }
            if before > 0
                && let Some(chunk) = self.source.query.rows(&mut self.shard, &part(&batch, 0, before))
            {
                let mut start = 0;
                for (row, end) in chunk.rows.iter().zip(&chunk.ends) {
                    portions.add(first + u64::from(*row), &chunk.text[start..*end]);
                    start = *end;
                }
            }
            if before < len {
                break;
            }
        }
        let end = self.read.front().map_or(self.source.next(), |batch| batch.meta().first.0);
        portions.finish(end)
    }
}

/// The offset before which a portion ends.
fn end_of(portion: &Portion) -> Option<u64> {
    <[u8; 8]>::try_from(&portion.last[..]).ok().map(u64::from_be_bytes)
}

/// The ends of deliveries.
enum PortionEnds {
    /// After so many rows, or [`DELIVERY_BYTES`].
    Rows(u64),
    /// Before these offsets, whatever rows are there.
    Planned(VecDeque<u64>),
}

/// Deliveries that are being made of rows.
struct Portions {
    ends: PortionEnds,
    open: Portion,
    done: VecDeque<Portion>,
    now: Millis,
}

impl Portions {
    /// Adds the row of the event at an offset.
    fn add(&mut self, offset: u64, row: &[u8]) {
        match &self.ends {
            PortionEnds::Rows(rows) => {
                let is_full = self.open.count >= *rows
                    || (self.open.count > 0 && self.open.rows.len() + row.len() > DELIVERY_BYTES);
                if is_full {
                    self.close(offset);
                }
            }
            PortionEnds::Planned(_) => self.close_planned(offset),
        }
        self.open.rows.extend_from_slice(row);
        self.open.count += 1;
    }

    /// Closes the planned deliveries that end at an offset or before.
    fn close_planned(&mut self, offset: u64) {
        while let PortionEnds::Planned(ends) = &mut self.ends
            && let Some(end) = ends.pop_front_if(|end| *end <= offset)
        {
            self.close(end);
        }
    }

    fn close(&mut self, end: u64) {
        let mut portion = std::mem::replace(&mut self.open, Portion::of_events(self.now));
        portion.last = place_of_offset(end).to_vec();
        self.done.push_back(portion);
    }

    /// The deliveries, the last of which ends at an offset.
    fn finish(mut self, end: u64) -> VecDeque<Portion> {
        match self.ends {
            PortionEnds::Planned(_) => self.close_planned(u64::MAX),
            PortionEnds::Rows(_) if self.open.count > 0 => self.close(end),
            PortionEnds::Rows(_) => {}
        }
        self.done
    }
}
