//! `SHOW PARTITIONS`: the partitions of the topics that streams read.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::reader::{PartitionProgress, TopicReader};
use crate::{
    answer::{table, texts},
    durable::history::History,
    status::{ClusterPartition, TopicMetrics},
};

/// A row of the answer: a partition, or a stream whose topic was not reached yet.
#[derive(Debug, Default)]
struct Row {
    stream: String,
    topic: String,
    partition: Option<u32>,
    position: Option<u64>,
    end: Option<u64>,
    lost: Option<u64>,
    skipped: Option<u64>,
    tombstones: Option<u64>,
    /// Messages that are no events, of a stream of the cluster.
    rejected: Option<u64>,
    state: &'static str,
    error: Option<String>,
    /// The node of the cluster that reads it; none of a stream that only this server reads.
    node: Option<String>,
}

impl Row {
    fn of(reader: &TopicReader, partition: Option<(u32, PartitionProgress)>) -> Row {
        let state = match &partition {
            _ if reader.source().is_paused => "paused",
            _ if reader.failing().is_some() => "failing",
            None => "starting",
            Some((_, at)) if at.is_stopped => "stopped",
            Some((_, at)) if at.error.is_some() => "waiting",
            Some((_, at)) if at.position >= at.end => "caught up",
            Some(_) => "reading",
        };
        let row = Row {
            stream: reader.entry.create.name.to_string(),
            topic: reader.source().topic.to_string(),
            state,
            error: reader.failing(),
            ..Row::default()
        };
        let Some((number, at)) = partition else { return row };
        Row {
            partition: Some(number),
            position: Some(at.position),
            end: Some(at.end),
            lost: Some(at.lost),
            skipped: Some(at.skipped),
            tombstones: Some(at.tombstones),
            error: row.error.or(at.error),
            ..row
        }
    }

    fn of_cluster(partition: ClusterPartition) -> Row {
        let state = match (&partition.node, partition.lag()) {
            (None, _) => "unassigned",
            (_, None) => "starting",
            _ if partition.error.is_some() => "waiting",
            (_, Some(0)) => "caught up",
            _ => "reading",
        };
        Row {
            stream: partition.stream,
            topic: partition.topic,
            partition: Some(partition.partition),
            position: partition.next,
            end: Some(partition.end),
            lost: Some(partition.lost),
            skipped: None,
            tombstones: Some(partition.tombstones),
            rejected: Some(partition.rejected),
            error: partition.error,
            state,
            node: partition.node,
        }
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
                skipped: sum(|at| at.skipped),
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
    pub(crate) fn show_partitions(&self, of_cluster: Vec<ClusterPartition>) -> RecordBatch {
        let mut rows = Vec::new();
        for reader in self.sorted_readers() {
            let partitions = reader.partitions.lock().clone();
            if partitions.is_empty() {
                rows.push(Row::of(&reader, None));
            }
            rows.extend(partitions.into_iter().map(|partition| Row::of(&reader, Some(partition))));
        }
        rows.extend(of_cluster.into_iter().map(Row::of_cluster));
        let numbers = |of: fn(&Row) -> Option<u64>| -> ArrayRef {
            Arc::new(rows.iter().map(|row| of(row).map(|number| number as i64)).collect::<Int64Array>())
        };
        table([
            ("stream", texts(rows.iter().map(|row| &*row.stream))),
            ("topic", texts(rows.iter().map(|row| &*row.topic))),
            ("partition", numbers(|row| row.partition.map(u64::from))),
            ("position", numbers(|row| row.position)),
            ("end", numbers(|row| row.end)),
            ("lag", numbers(|row| Some(row.end?.saturating_sub(row.position?)))),
            ("lost", numbers(|row| row.lost)),
            ("skipped", numbers(|row| row.skipped)),
            ("tombstones", numbers(|row| row.tombstones)),
            ("rejected", numbers(|row| row.rejected)),
            ("state", texts(rows.iter().map(|row| row.state))),
            ("error", Arc::new(rows.iter().map(|row| row.error.clone()).collect::<StringArray>())),
            ("node", Arc::new(rows.iter().map(|row| row.node.clone()).collect::<StringArray>())),
        ])
    }
}
