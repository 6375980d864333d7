//! Messages of a stream with a `WATERMARK`, which wait for their turn in the order of event time ([`PartitionOrder`]).
//!
//! A partition that is far ahead of others is paused when what waits of it reaches its share of [`BUFFER_BYTES_MAX`]. Nothing that
//! waits is part of a position: a restart reads it again.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use swiftwater_event::{DecodePlan, Decoder, EventBatch, Millis, Values, Want};
use swiftwater_kafka::{Fetched, MessageBatch};
use swiftwater_lang::ddl::{CreateStream, KAFKA_IDLE_AFTER_MS_DEFAULT};
use swiftwater_live::{NO_TIME, known_time};

use super::{Positions, Run, SourceError};
use crate::objects::kafka_sources::{
    convert::convert,
    order::{PartitionOrder, Turn},
};

/// Bytes of the messages that wait, of all partitions. Each partition may have one batch more.
const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Bytes that each partition may have in any case.
const SHARE_BYTES_MIN: usize = 1 << 20;

/// The longest pause before the clock is read again while messages wait.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The messages that wait.
pub(super) struct MessageBuffer {
    order: PartitionOrder,
    times: EventTimes,
    partitions: BTreeMap<u32, BufferedPartition>,
}

#[derive(Default)]
struct BufferedPartition {
    batches: VecDeque<BufferedBatch>,
    bytes: usize,
    /// It is not read until it has less.
    is_paused: bool,
    /// The news that came after the last message.
    then: Option<Fetched>,
}

/// Messages of a batch.
struct BufferedBatch {
    messages: Arc<MessageBatch>,
    places: Range<usize>,
    /// The offset behind the last of them.
    next: u64,
}

impl BufferedBatch {
    fn bytes(&self, place: usize) -> usize {
        let parts = [self.messages.key(place), self.messages.value(place)];
        parts.iter().map(|part| part.map_or(0, <[u8]>::len)).sum::<usize>() + super::MESSAGE_BYTES
    }
}

/// Reads the column that the watermark is of, as queries do.
struct EventTimes {
    plan: DecodePlan,
    decoder: Decoder,
}

impl EventTimes {
    fn of(&mut self, batch: &EventBatch) -> Vec<Millis> {
        let decoded = self.decoder.decode(batch, &self.plan);
        let known = |ms: Option<Millis>| ms.map_or(NO_TIME, known_time);
        match decoded.columns.first().map(|column| &column.values) {
            Some(Values::Timestamp(micros)) => {
                micros.iter().map(|micros| known(micros.map(|micros| micros.div_euclid(1000)))).collect()
            }
            Some(Values::Long(millis)) => millis.iter().map(known).collect(),
            _ => vec![NO_TIME; batch.len()],
        }
    }
}

impl MessageBuffer {
    /// None of a stream without a watermark.
    pub(super) fn of(create: &CreateStream) -> Option<MessageBuffer> {
        let watermark = create.watermark.as_ref()?;
        let column = create.columns.iter().find(|column| column.name == watermark.column)?;
        let want = Want { path: column.event_path(), ty: column.ty.clone() };
        let idle_after_ms = watermark.idle_after_ms.unwrap_or(KAFKA_IDLE_AFTER_MS_DEFAULT);
        Some(MessageBuffer {
            order: PartitionOrder::new(idle_after_ms, watermark.max_ahead_ms),
            times: EventTimes { plan: DecodePlan::new([want]), decoder: Decoder::new() },
            partitions: BTreeMap::new(),
        })
    }

    /// A partition is read from now on; returns the offset behind its messages that wait.
    pub(super) fn assigned(&mut self, partition: u32, now: Millis) -> Option<u64> {
        self.order.begin(partition, now);
        let buffer = self.partitions.entry(partition).or_default();
        buffer.is_paused = false;
        buffer.batches.back().map(|batch| batch.next)
    }

    /// Defers the news of a partition until its messages are appended; returns them if none waits.
    pub(super) fn defer(&mut self, partition: u32, news: Fetched) -> Option<Fetched> {
        match self.partitions.get_mut(&partition).filter(|buffer| !buffer.batches.is_empty()) {
            None => Some(news),
            Some(buffer) => {
                buffer.then = Some(news);
                None
            }
        }
    }

    /// The time to wait until something may be taken that waits; none if only messages change that.
    pub(super) fn wait_time(&self, now: Millis) -> Option<Duration> {
        match self.order.next(now) {
            Turn::Nothing => None,
            Turn::Take(..) => Some(Duration::ZERO),
            Turn::WaitUntil(at) => {
                let left = u64::try_from(at.saturating_sub(now)).unwrap_or(0).max(1);
                Some(Duration::from_millis(left).min(LOOK_AGAIN))
            }
        }
    }

    /// The messages whose turn it is, of one batch, and the offset behind them.
    fn turn(&self, now: Millis) -> Option<(u32, Arc<MessageBatch>, Range<usize>, u64)> {
        let Turn::Take(partition, count) = self.order.next(now) else { return None };
        let batch = self.partitions.get(&partition)?.batches.front()?;
        let end = batch.places.end.min(batch.places.start + count);
        let next = match end == batch.places.end {
            true => batch.next,
            false => batch.messages.offsets()[end],
        };
        Some((partition, Arc::clone(&batch.messages), batch.places.start..end, next))
    }

    /// The first messages of a partition were appended.
    fn taken(&mut self, partition: u32, places: &Range<usize>, now: Millis) {
        self.order.taken(partition, places.len(), now);
        let Some(buffer) = self.partitions.get_mut(&partition) else { return };
        let Some(batch) = buffer.batches.front_mut() else { return };
        buffer.bytes -= places.clone().map(|place| batch.bytes(place)).sum::<usize>().min(buffer.bytes);
        batch.places.start = places.end;
        if batch.places.is_empty() {
            buffer.batches.pop_front();
        }
    }

    fn share_bytes(&self) -> usize {
        (BUFFER_BYTES_MAX / self.partitions.len().max(1)).max(SHARE_BYTES_MIN)
    }
}

impl Run<'_> {
    /// Lets messages of a stream with a watermark wait for their turn.
    pub(super) fn buffer_messages(&mut self, messages: &Arc<MessageBatch>, places: Range<usize>, next: u64) {
        let create = &self.reader.entry.create;
        let declared = match &self.positions {
            Positions::Stored(stored) => Some(stored.declared()),
            Positions::InMemory(_) => self.history.unstored(&create.name),
        };
        let schemas = (&self.schemas, create.options.event_bytes_max);
        let converted = convert(messages, places.clone(), self.reader.source(), schemas);
        let Some(buffer) = &mut self.buffer else { return };
        let (partition, now_micros) = (messages.partition(), self.history.clock.now_micros());
        let mut times = vec![NO_TIME; places.len()];
        let validated = declared.map(|declared| declared.validate(converted.batch.clone(), now_micros));
        let rejected = validated.as_ref().map_or(&[][..], |validated| validated.rejected().1);
        let mut event_times = buffer.times.of(&converted.batch);
        // An event that the columns refuse moves no watermark.
        rejected.iter().for_each(|rejected| event_times[rejected.row as usize] = NO_TIME);
        for (offset, time) in converted.offsets.iter().zip(event_times) {
            if let Ok(place) = messages.offsets()[places.clone()].binary_search(offset) {
                times[place] = time;
            }
        }
        buffer.order.push(partition, times, now_micros.div_euclid(1000));
        let batch = BufferedBatch { messages: Arc::clone(messages), places, next };
        let bytes: usize = batch.places.clone().map(|place| batch.bytes(place)).sum();
        let share_bytes = buffer.share_bytes();
        let buffer = buffer.partitions.entry(partition).or_default();
        buffer.bytes += bytes;
        buffer.batches.push_back(batch);
        buffer.then = None;
        if buffer.bytes > share_bytes && !buffer.is_paused {
            buffer.is_paused = true;
            self.consumer.pause(partition);
        }
    }

    /// Appends the messages whose turn it is.
    pub(super) async fn append_buffered(&mut self) -> Result<(), SourceError> {
        loop {
            let now = self.history.clock.now();
            let turn = self.buffer.as_ref().and_then(|buffer| buffer.turn(now));
            let Some((partition, messages, places, next)) = turn else { return Ok(()) };
            self.append_range(&messages, places.clone(), next).await?;
            let Some(buffer) = &mut self.buffer else { return Ok(()) };
            buffer.taken(partition, &places, now);
            let share_bytes = buffer.share_bytes();
            let Some(buffer) = buffer.partitions.get_mut(&partition) else { continue };
            if buffer.is_paused && buffer.bytes <= share_bytes / 2 {
                buffer.is_paused = false;
                self.consumer.resume(partition);
            }
            if buffer.batches.is_empty()
                && let Some(news) = buffer.then.take()
            {
                self.take_behind(partition, news).await?;
            }
        }
    }
}
