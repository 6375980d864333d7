//! `SHOW PARTITIONS`: the partitions of the topics that streams read.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::reader::{PartitionProgress, TopicReader};
use crate::{
    answer::{table, texts},
    durable::history::History,
    status::TopicMetrics,
};

/// A row of the answer: a partition, or a stream whose topic was not reached yet.
struct Row {
    reader: Arc<TopicReader>,
    partition: Option<(u32, PartitionProgress)>,
}

impl Row {
    fn state(&self) -> &'static str {
        match &self.partition {
            _ if self.reader.source().is_paused => "paused",
            _ if self.reader.failing().is_some() => "failing",
            None => "starting",
            Some((_, at)) if at.is_stopped => "stopped",
            Some((_, at)) if at.error.is_some() => "waiting",
            Some((_, at)) if at.position >= at.end => "caught up",
            Some(_) => "reading",
        }
    }

    fn error(&self) -> Option<String> {
        self.reader.failing().or_else(|| self.partition.as_ref()?.1.error.clone())
    }
}

impl History {
    /// The topics that streams read, by stream.
    pub(crate) fn topic_metrics(&self) -> Vec<TopicMetrics> {
        let metrics = |reader: Arc<TopicReader>| {
            let partitions = reader.partitions.lock();
            let is_failing = reader.failing().is_some();
            let sum = |of: fn(&PartitionProgress) -> u64| partitions.values().map(of).sum();
            let not_read = |at: &&PartitionProgress| is_failing || at.error.is_some();
            TopicMetrics {
                stream: reader.entry.create.name.to_string(),
                lag: sum(|at| at.end.saturating_sub(at.position)),
                lost: sum(|at| at.lost),
                tombstones: sum(|at| at.tombstones),
                failing_partitions: (partitions.values().filter(not_read).count() as u64)
                    .max(u64::from(is_failing)),
            }
        };
        self.sorted_readers().into_iter().map(metrics).collect()
    }

    fn sorted_readers(&self) -> Vec<Arc<TopicReader>> {
        let mut readers = self.objects.topic_readers.all();
        readers.sort_by(|a, b| a.entry.create.name.as_str().cmp(b.entry.create.name.as_str()));
        readers
    }

    /// The partitions of all topics that streams read, by stream and partition.
    pub(crate) fn show_partitions(&self) -> RecordBatch {
        let mut rows = Vec::new();
        for reader in self.sorted_readers() {
            let partitions = reader.partitions.lock().clone();
            if partitions.is_empty() {
                rows.push(Row { reader: Arc::clone(&reader), partition: None });
            }
            let row = |partition| Row { reader: Arc::clone(&reader), partition: Some(partition) };
            rows.extend(partitions.into_iter().map(row));
        }
        let numbers = |of: fn(&(u32, PartitionProgress)) -> u64| -> ArrayRef {
            let values = rows.iter().map(|row| row.partition.as_ref().map(|partition| of(partition) as i64));
            Arc::new(values.collect::<Int64Array>())
        };
        table([
            ("stream", texts(rows.iter().map(|row| row.reader.entry.create.name.as_str()))),
            ("topic", texts(rows.iter().map(|row| &*row.reader.source().topic))),
            ("partition", numbers(|(number, _)| u64::from(*number))),
            ("position", numbers(|(_, at)| at.position)),
            ("end", numbers(|(_, at)| at.end)),
            ("lag", numbers(|(_, at)| at.end.saturating_sub(at.position))),
            ("lost", numbers(|(_, at)| at.lost)),
            ("tombstones", numbers(|(_, at)| at.tombstones)),
            ("state", texts(rows.iter().map(Row::state))),
            ("error", Arc::new(rows.iter().map(Row::error).collect::<StringArray>())),
        ])
    }
}
