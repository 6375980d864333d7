//! The events in messages of a partition. Messages that are no events are left out, counted, and logged now and then.

use std::ops::Range;

use swiftwater_cluster::Batch;
use swiftwater_event::Millis;
use swiftwater_kafka::{KafkaError, KafkaErrorKind, MessageBatch};
use swiftwater_lang::ddl::KafkaSource;

use super::Reader;
use crate::{
    durable::history::run_blocking,
    objects::{
        cluster::ClusterStream,
        kafka_schemas::{SchemaNews, Schemas},
        kafka_sources::convert::{Converted, convert},
    },
};

/// The time between two warnings of messages that are left out.
const WARNING_NANOS: u64 = 10_000_000_000;

/// The events of some messages.
struct Events {
    batch: Batch,
    /// The messages, or lines of them, that are no events, in the order of their offsets, each with the reason.
    rejected: Vec<(u64, String)>,
    /// The offsets of messages without a value that were left out.
    tombstones: Vec<u64>,
}

impl Reader<'_> {
    /// Takes the messages of a partition up to the first whose schema is not known.
    pub(super) fn take_messages(&mut self, messages: &MessageBatch) {
        let partition = messages.partition();
        let Some(source) = &self.stream.create.source else { return };
        let Some(shared) = self.cluster.shared.upgrade() else { return };
        if self.schemas.waits(partition) {
            return;
        }
        let (known, missing) = self.schemas.known(messages, 0..messages.len());
        // A batch without messages still says how far the partition was read.
        if !known.is_empty() || missing.is_none() {
            let next = messages.offsets().get(known.end).copied().unwrap_or(messages.next());
            let (stream, schemas, now) = ((self.stream, source), &self.schemas, self.broker_time);
            let events = run_blocking(messages.bytes().len(), || {
                let Events { batch, rejected, tombstones } =
                    events_of(messages, (known, next), stream, schemas, now);
                self.worker.take(partition, batch, shared.clock.now_micros());
                (rejected, tombstones)
            });
            self.count(partition, next, events);
        }
        if let Some(schema) = missing {
            // It is read on from this message, which is the worker's next one.
            self.consumer.unassign(partition);
            self.at_end.remove(&partition);
            self.schemas.miss(schema, partition);
        }
    }

    /// Counts the messages before `next` that are left out.
    fn count(&mut self, partition: u32, next: u64, (rejected, tombstones): (Vec<(u64, String)>, Vec<u64>)) {
        let counted = self.cluster.positions.update(&self.stream.topic, partition, |position| {
            let before = position.counted;
            position.counted = before.max(next);
            position.left_out.tombstones +=
                tombstones.iter().filter(|offset| **offset >= before).count() as u64;
            let new = rejected.partition_point(|(offset, _)| *offset < before);
            position.left_out.rejected += (rejected.len() - new) as u64;
            new
        });
        if let Some(new @ [first, ..]) = counted.and_then(|new| rejected.get(new..)) {
            let of = (self.stream, partition);
            self.warnings.warn(self.cluster.nanos(), of, (first, new.len() as u64));
        }
    }

    /// Takes the news of a schema that partitions wait for.
    pub(super) fn take_schema(&mut self, news: SchemaNews) -> Result<(), KafkaError> {
        let (topic, positions) = (&*self.stream.topic, &self.cluster.positions);
        match news {
            SchemaNews::Known(partitions) => {
                for partition in partitions {
                    positions.update(topic, partition, |position| position.waits = None);
                    // One that was given away meanwhile is another node's.
                    if let Some((next, _)) = self.worker.progress(partition) {
                        self.consumer.assign(partition, next);
                    }
                }
            }
            SchemaNews::Away(partitions, why) => {
                for partition in partitions {
                    let before =
                        positions.update(topic, partition, |position| position.waits.replace(why.clone()));
                    if before.is_some_and(|before| before.as_ref() != Some(&why)) {
                        tracing::warn!(stream = %self.name, topic, partition, why, "a partition waits for a schema");
                    }
                }
            }
            SchemaNews::Failed(why) => return Err(KafkaError::new(KafkaErrorKind::Other, why)),
        }
        Ok(())
    }
}

/// Converts messages of a partition, whose schemas are known; `next` is the offset behind them.
fn events_of(
    messages: &MessageBatch,
    (range, next): (Range<usize>, u64),
    (stream, source): (&ClusterStream, &KafkaSource),
    schemas: &Schemas,
    now: Millis,
) -> Events {
    let event_bytes_max = stream.event_bytes_max();
    let Converted { batch, mut offsets, refused, tombstones } =
        convert(messages, range.clone(), source, (schemas, event_bytes_max));
    let mut rejected: Vec<(u64, String)> =
        refused.into_iter().map(|(offset, refused)| (offset, refused.rejection.message)).collect();
    let tombstones = match tombstones {
        0 => Vec::new(),
        _ => {
            let messages = messages.messages().take(range.end).skip(range.start);
            messages.filter(|message| message.value().is_none()).map(|message| message.offset()).collect()
        }
    };
    let events = match &stream.columns {
        None => batch,
        // Without defaults, no answer depends on the time of this.
        Some((columns, _)) => {
            let (good, _, unfit) = columns.accept(batch, now);
            if !unfit.is_empty() {
                rejected.extend(unfit.iter().map(|unfit| {
                    (offsets[unfit.row as usize], format!("`{}`: {}", unfit.path, unfit.message))
                }));
                rejected.sort_by_key(|(offset, _)| *offset);
                let mut unfit = unfit.iter().map(|unfit| unfit.row as usize).peekable();
                let mut row = 0..;
                offsets.retain(|_| row.next().is_some_and(|row| unfit.next_if_eq(&row).is_none()));
            }
            good
        }
    };
    let mut place = range.start;
    let times = offsets.iter().map(|offset| {
        while messages.offsets()[place] < *offset {
            place += 1;
        }
        messages.timestamps()[place].millis
    });
    let times = times.collect();
    Events { batch: Batch { events, offsets, times, next }, rejected, tombstones }
}

/// Warnings of messages that are left out, of which there may be many.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    last_nanos: Option<u64>,
    /// Messages that were left out since the last warning.
    since: u64,
}

impl Warnings {
    /// Messages of a partition are left out; `first` is the first of them, with its reason.
    fn warn(
        &mut self,
        now_nanos: u64,
        (stream, partition): (&ClusterStream, u32),
        (first, count): (&(u64, String), u64),
    ) {
        self.since += count;
        if self.last_nanos.is_some_and(|last| now_nanos.saturating_sub(last) < WARNING_NANOS) {
            return;
        }
        let (offset, reason) = first;
        let (name, topic, left_out) = (&stream.create.name, &*stream.topic, self.since);
        tracing::warn!(stream = %name, topic, partition, offset, reason, left_out, "messages that are no events are left out");
        (self.last_nanos, self.since) = (Some(now_nanos), 0);
    }
}
