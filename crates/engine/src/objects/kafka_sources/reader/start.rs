//! The first positions of a stream's partitions, by its option `start`.

use swiftwater_kafka::{Kafka, OffsetAt};
use swiftwater_lang::ddl::{KafkaStart, OnGap};

use super::{Positions, Run, SourceError};

impl Run<'_> {
    /// Determines where partitions begin that were not read yet, and persists it, so that a restart begins there as well.
    pub(super) async fn find_first_positions(&mut self) -> Result<(), SourceError> {
        let source = self.reader.source();
        let (is_known, knows_another) = self.positions.know(self.topic.id);
        if !is_known && knows_another && self.on_gap() == OnGap::Stop {
            let stream = self.reader.entry.create.name.to_string();
            return Err(SourceError::MadeAgain { topic: source.topic.to_string(), stream });
        }
        let new: Vec<u32> = (0..self.topic.partitions)
            .filter(|partition| self.positions.of(self.topic.id, *partition).is_none())
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let is_first_start = !is_known && !knows_another;
        let place = |partition: u32| match source.options.start() {
            _ if !is_first_start => Ok(OffsetAt::Earliest),
            KafkaStart::Earliest => Ok(OffsetAt::Earliest),
            KafkaStart::Latest => Ok(OffsetAt::Latest),
            KafkaStart::Timestamp(millis) => Ok(OffsetAt::Timestamp(millis)),
            KafkaStart::Offsets(offsets) => {
                let given = offsets.iter().find(|(given, _)| *given == partition);
                given.map_or(Ok(OffsetAt::Earliest), |(_, offset)| Err(*offset))
            }
        };
        if let (true, KafkaStart::Offsets(offsets)) = (is_first_start, source.options.start()) {
            check_start(&*self.kafka, (&source.topic, self.topic.partitions), &offsets).await?;
        }
        let asked: Vec<(u32, OffsetAt)> =
            new.iter().filter_map(|partition| Some((*partition, place(*partition).ok()?))).collect();
        let found = self.kafka.offsets(&source.topic, &asked).await?;
        let given = new.iter().filter_map(|partition| Some((*partition, place(*partition).err()?)));
        let found = asked.iter().map(|(partition, _)| *partition).zip(found).chain(given);
        for (partition, offset) in found.collect::<Vec<_>>() {
            self.positions.record(self.topic.id, partition, offset);
        }
        if matches!(self.positions, Positions::Stored(_)) {
            self.history.checkpoint().await?;
        }
        Ok(())
    }
}

/// Refuses offsets that the topic, which has so many partitions, does not have.
async fn check_start(
    kafka: &dyn Kafka,
    (topic, count): (&str, u32),
    offsets: &[(u32, u64)],
) -> Result<(), SourceError> {
    let name = || topic.to_owned();
    if let Some((partition, _)) = offsets.iter().find(|(partition, _)| *partition >= count) {
        return Err(SourceError::StartPartition { topic: name(), partition: *partition, count });
    }
    let ends: Vec<(u32, OffsetAt)> =
        offsets.iter().map(|(partition, _)| (*partition, OffsetAt::Latest)).collect();
    let ends = kafka.offsets(topic, &ends).await?;
    let mut given = offsets.iter().zip(ends);
    match given.find(|((_, offset), end)| offset > end) {
        Some(((partition, offset), end)) => {
            Err(SourceError::StartOffset { topic: name(), partition: *partition, offset: *offset, end })
        }
        None => Ok(()),
    }
}
