//! Appends events to a stored stream: validates, admits, packs and logs them, and puts them in line for live queries.

use super::history::{History, run_blocking};
use crate::durable::{
    columns::AcceptedColumns,
    dedup::Receipt,
    quarantine::BadEvent,
    stored_stream::{Declared, Outcome, Packing, StoredStream, unavailable},
};
use crate::{Ack, AppendOptions, Appended, EngineError, Numbered, RuntimeError, shared::Shared};
use std::sync::Arc;
use swiftwater_event::{EventBatch, RefusedText};
use swiftwater_runtime::parts::Stream;

impl History {
    /// Appends events to a stored stream.
    pub(crate) async fn append(
        &self,
        shared: &Shared,
        (stream, stored): (&Arc<Stream>, &Arc<StoredStream>),
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        let now_micros = self.clock.now_micros();
        let mut declared = stored.declared();
        if declared.create.source.is_some() {
            return Err(EngineError::ReadsTopic(stored.name.to_string()));
        }
        if let Some(numbered) = &options.numbered
            && let Some(receipt) = stored.find_receipt(numbered, options.ack)?
        {
            return self.repeated(shared, (stream, stored), receipt, (batch, now_micros), &options).await;
        }
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        loop {
            let mut held = declared.validate(batch.clone(), now_micros);
            let refusals = held.refusals();
            let none = Appended { refusals, ..Appended::live(&stored.name, stored.next(), 0) };
            if options.all_or_none && held.has_invalid() {
                return Ok(none);
            }
            let events = held.good.len() as u64;
            let appended = match events {
                0 => none,
                _ => {
                    let good = (held.good.clone(), held.columns.take(), batch.bytes().len());
                    let validated_by = (stream, stored, &declared);
                    let Some((offset, outcome)) =
                        self.store_events(shared, validated_by, good, now_micros, &options).await?
                    else {
                        declared = stored.declared();
                        continue;
                    };
                    Appended { refusals: none.refusals, ..stored.appended(outcome, offset, events) }
                }
            };
            let taken = (events, appended.is_repeated);
            let kept = self.quarantine_bad(shared, (stream, &declared), &held, &options, taken).await?;
            let ticket = appended.ticket.max(kept.ticket);
            return Ok(Appended { quarantined: kept.count, ticket, ..appended });
        }
    }

    /// Appends good events to the log and to the feeds; returns the offset after them. Nothing is appended if the declaration
    /// has changed since they were validated.
    async fn store_events(
        &self,
        shared: &Shared,
        (stream, stored, declared): (&Arc<Stream>, &Arc<StoredStream>, &Arc<Declared>),
        (good, columns, bytes): (EventBatch, Option<AcceptedColumns>, usize),
        now_micros: i64,
        options: &AppendOptions,
    ) -> Result<Option<(u64, Outcome)>, EngineError> {
        let mut closing = self.closing();
        let _admitted = tokio::select! {
            admitted = stored.admit(&*self.clock, (bytes, good.len() as u64)) => admitted,
            () = closing.received() => return Err(EngineError::Runtime(RuntimeError::ShuttingDown)),
        };
        let packed = run_blocking(bytes, || self.log.pack(lines(&good))).map_err(unavailable)?;
        let refused = |error| self.with_numbers(unavailable(error));
        let room = self.log.reserve(packed.bytes()).await.map_err(refused)?;
        shared.enter(bytes).await?;
        let mut packing = Packing { batch: good.clone(), columns, packed, room };
        let result = stream.append_with(good, now_micros, options, |first, arrival| {
            if !self.is_current(stored) {
                return Err(EngineError::Runtime(RuntimeError::StreamReplaced(stored.name.to_string())));
            }
            if !Arc::ptr_eq(declared, &stored.declared()) {
                return Ok((false, None));
            }
            // Arrivals never go back; columns that were filled with another one are read again.
            packing.columns.take_if(|_| declared.has_now() && arrival != now_micros.div_euclid(1000));
            match stored.store(&self.log, packing, (first, arrival), options)? {
                outcome @ Outcome::Appended(_) => Ok((true, Some(outcome))),
                outcome @ Outcome::Repeated(_) => Ok((false, Some(outcome))),
            }
        });
        if !matches!(result, Ok((_, Some(Outcome::Appended(_)), _))) {
            shared.leave(bytes);
        }
        let (offset, outcome, is_new_in_line) = result?;
        if is_new_in_line {
            shared.enqueue(Arc::clone(stream));
        }
        Ok(outcome.map(|outcome| (offset, outcome)))
    }

    /// The answer for events that were stored before. They are held against the columns once more, so that the same is told
    /// of each; nothing is counted again. Bad ones are kept now if the earlier try did not come to that.
    async fn repeated(
        &self,
        shared: &Shared,
        (stream, stored): (&Stream, &StoredStream),
        receipt: Receipt,
        (batch, now_micros): (EventBatch, i64),
        options: &AppendOptions,
    ) -> Result<Appended, EngineError> {
        let (declared, events) = (stored.declared(), batch.len());
        // A request that is stored as a whole or not at all had no refused event.
        let held = if options.all_or_none { batch.select(&[]) } else { batch };
        let held = declared.validate(held, now_micros);
        let refusals = held.refusals();
        let accepted = (events - refusals.len()) as u64;
        let appended = stored.appended(Outcome::Repeated(receipt), receipt.offset, accepted);
        let kept = self.quarantine_bad(shared, (stream, &declared), &held, options, (accepted, true)).await?;
        Ok(Appended {
            refusals,
            quarantined: kept.count,
            ticket: appended.ticket.max(kept.ticket),
            ..appended
        })
    }
}

/// Events of a partition that a stream reads.
pub(crate) struct SourceBatch {
    /// The name under which the partition numbers its batches.
    pub(crate) producer: String,
    /// The offset behind the last message.
    pub(crate) next: u64,
    /// The events.
    pub(crate) batch: EventBatch,
    /// The offset of each event's message.
    pub(crate) offsets: Vec<u64>,
    /// The messages that are no events, with their offsets in ascending order.
    pub(crate) refused: Vec<(u64, RefusedText)>,
}

impl History {
    /// Appends events of a partition, which is read up to `next` from then on. Bad ones are quarantined first: what is behind the
    /// position has been appended or quarantined, at whatever point the server stops.
    pub(crate) async fn append_of_source(
        &self,
        shared: &Shared,
        (stream, stored): (&Arc<Stream>, &Arc<StoredStream>),
        source: &SourceBatch,
        ack: Ack,
    ) -> Result<(), EngineError> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let SourceBatch { producer, next, batch, offsets, refused } = source;
        loop {
            let (declared, now_micros) = (stored.declared(), self.clock.now_micros());
            let mut held = declared.validate(batch.clone(), now_micros);
            let (all, rejected) = held.rejected();
            let texts = refused.iter().map(|(offset, text)| (*offset, BadEvent::of_text(text)));
            let rows = rejected.iter().map(|row| (offsets[row.row as usize], BadEvent::of_row(all, row)));
            let mut bad: Vec<_> = texts.chain(rows).collect();
            bad.sort_by_key(|(offset, _)| *offset);
            let count = bad.len() as u64;
            if declared.quarantines() {
                let producer = format!("{producer}/{}", declared.id.0);
                self.quarantine_of_source(shared, &declared, (&producer, bad)).await?;
            }
            if !held.good.is_empty() {
                let numbered = Numbered {
                    producer: producer.as_str().into(),
                    sequence: *next,
                    part: 0,
                    after: 0,
                    hash: 0,
                };
                let options = AppendOptions { numbered: Some(numbered), ack, ..AppendOptions::default() };
                let good = (held.good.clone(), held.columns.take(), batch.bytes().len());
                let validated_by = (stream, stored, &declared);
                if self.store_events(shared, validated_by, good, now_micros, &options).await?.is_none() {
                    continue;
                }
            }
            stored.record_source_position(producer, *next);
            stream.count_rejected(count);
            return Ok(());
        }
    }
}

/// The events as the log has them: each on a line of its own.
fn lines(batch: &EventBatch) -> bytes::Bytes {
    let is_lines = (1..batch.len()).all(|row| batch.span(row).start == batch.span(row - 1).end + 1)
        && (1..batch.len()).all(|row| batch.bytes()[batch.span(row).start - 1] == b'\n');
    if is_lines && !batch.is_empty() {
        return batch.bytes().slice(batch.span(0).start..batch.span(batch.len() - 1).end);
    }
    let mut lines = Vec::with_capacity(batch.event_bytes() + batch.len());
    for row in 0..batch.len() {
        lines.extend_from_slice(batch.event(row));
        lines.push(b'\n');
    }
    lines.into()
}
