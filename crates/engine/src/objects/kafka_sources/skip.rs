//! `ALTER STREAM … SKIP PARTITION`: sets the position of one partition forward.
//!
//! The reader ends, the position moves, and another reader begins there. The position of a stored stream is persisted before the
//! statement returns and before a message behind it is read, by a snapshot of the catalog, as the first positions are. Positions
//! only grow, so records of the log that are replayed over the snapshot do not set it back.

use std::{ops::Range, sync::Arc};

use swiftwater_catalog::{CatalogError, ObjectKind};
use swiftwater_event::causes;
use swiftwater_kafka::{Kafka, KafkaError, OffsetAt, Topic};
use swiftwater_lang::ddl::{AlterError, KafkaSource, SkipPartition};

use super::{positions::Positions, reader::TopicReader};
use crate::{EngineError, durable::history::History, error::SkipError};

impl History {
    /// Sets the position of a partition forward; returns false if it is there already.
    pub(crate) async fn skip_partition(self: &Arc<Self>, skip: &SkipPartition) -> Result<bool, EngineError> {
        let Some(entry) = self.catalog.newest().stream(&skip.name).cloned() else {
            return match skip.if_exists {
                true => Ok(false),
                false => Err(EngineError::not_found(ObjectKind::Stream, skip.name.as_str())),
            };
        };
        let Some(source) = &entry.create.source else {
            let no_source = AlterError::NoSource { stream: skip.name.to_string() };
            return Err(CatalogError::Alter(no_source).into());
        };
        let kafka = self.kafka(source.options.connection())?;
        let (topic, has) = look_up(&*kafka, source, skip).await?;
        // Statements before this one have taken effect.
        self.start_and_end_readers();
        let reader = {
            let mut readers = self.objects.topic_readers.readers.lock();
            let before = readers.get(&entry.id).cloned();
            before.iter().for_each(|before| before.end());
            let reader = Arc::new(TopicReader::new(entry, before.as_deref()));
            readers.insert(reader.entry.id, Arc::clone(&reader));
            reader
        };
        let skipped = self.skip_unread(&reader, skip, (topic, has)).await;
        self.start_reader(reader);
        skipped
    }

    /// Sets the position while no reader reads the topic.
    async fn skip_unread(
        &self,
        reader: &TopicReader,
        skip: &SkipPartition,
        (topic, has): (Topic, Range<u64>),
    ) -> Result<bool, EngineError> {
        let _alone = reader.reading.lock().await;
        let (name, partition, to) = (reader.source().topic.to_string(), skip.partition, skip.to);
        let positions = Positions::of_reader(self, reader);
        let position = positions.of(topic.id, partition);
        let position = position.ok_or_else(|| SkipError::NoPosition { topic: name.clone(), partition })?;
        if to < position {
            return Err(SkipError::Behind { topic: name, partition, to, position }.into());
        }
        if to > has.end {
            return Err(SkipError::Beyond { topic: name, partition, to, end: has.end }.into());
        }
        if to == position {
            return Ok(false);
        }
        positions.record(topic.id, partition, to);
        // Those that the broker has no more are not skipped by the statement.
        let deleted = has.start.clamp(position, to) - position;
        reader.update(partition, |progress| {
            progress.position = to;
            progress.end = has.end;
            progress.skipped += to - position - deleted;
            progress.is_stopped = false;
            progress.error = None;
        });
        reader.count_lost(&*self.shared()?, partition, deleted);
        tracing::warn!(stream = %skip.name, partition, position, to, "a statement has skipped messages of a partition");
        if matches!(positions, Positions::Stored(_)) {
            self.checkpoint().await.map_err(|error| {
                let why = causes(&error);
                SkipError::NotPersisted { topic: name, partition, why }
            })?;
        }
        Ok(true)
    }
}

/// The topic, and the range of offsets that its partition has.
async fn look_up(
    kafka: &dyn Kafka,
    source: &KafkaSource,
    skip: &SkipPartition,
) -> Result<(Topic, Range<u64>), SkipError> {
    let (name, partition) = (&*source.topic, skip.partition);
    let away =
        |error: KafkaError| SkipError::Away { topic: name.to_owned(), partition, why: error.to_string() };
    let topic = kafka.topic(name).await.map_err(away)?;
    if partition >= topic.partitions {
        let topic_name = name.to_owned();
        return Err(SkipError::NoPartition { topic: topic_name, partition, partitions: topic.partitions });
    }
    let places = [(partition, OffsetAt::Earliest), (partition, OffsetAt::Latest)];
    let offsets = kafka.offsets(name, &places).await.map_err(away)?;
    match offsets[..] {
        [first, end] => Ok((topic, first..end)),
        _ => unreachable!("there is an offset for each place"),
    }
}
