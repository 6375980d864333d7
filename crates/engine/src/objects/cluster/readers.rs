//! The readers of a stream on this node, one for each of its cores: each has a part of the partitions that are assigned to the node.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use swiftwater_cluster::Place;
use swiftwater_runtime::lock_order::OrderedMutex;
use tokio::sync::{mpsc, oneshot};

use super::{
    Cluster, ClusterStream,
    positions::{PartitionName, Position},
};

/// Orders that wait for a reader.
const ORDERS_MAX: usize = 64;

/// The readers of a stream, at most: each is a client of the brokers.
const READERS_MAX: usize = 16;

/// The time that a reader has to send what it has read before its partitions go to another node.
const RELEASE: Duration = Duration::from_secs(5);

/// An order to a reader.
#[derive(Debug)]
pub(super) enum Order {
    /// Partitions are assigned to this node, each with the place that was committed for it.
    Read(Vec<(u32, Option<Place>)>),
    /// Partitions go to another node: what was read is sent, and then answered.
    Release(Vec<u32>, oneshot::Sender<()>),
    /// Partitions may be another node's already.
    Lose(Vec<u32>),
}

/// The readers of a stream.
#[derive(Debug)]
pub(super) struct Readers {
    orders: Vec<mpsc::Sender<Order>>,
    /// The reader of each partition.
    of: OrderedMutex<BTreeMap<u32, usize>>,
}

impl Readers {
    /// Readers for so many cores, and the orders to each.
    pub(super) fn new(cores: usize) -> (Readers, Vec<mpsc::Receiver<Order>>) {
        let channels = (0..cores.clamp(1, READERS_MAX)).map(|_| mpsc::channel(ORDERS_MAX));
        let (orders, inboxes) = channels.unzip();
        (Readers { orders, of: OrderedMutex::default() }, inboxes)
    }

    /// The number of readers.
    pub(super) fn count(&self) -> usize {
        self.orders.len()
    }

    /// The reader of a partition of this node. One that has none gets the one with the fewest.
    pub(super) fn of(&self, partition: u32) -> usize {
        let mut of = self.of.lock();
        if let Some(reader) = of.get(&partition) {
            return *reader;
        }
        let mut counts = vec![0; self.orders.len()];
        of.values().for_each(|reader| counts[*reader] += 1);
        let fewest = (0..counts.len()).min_by_key(|reader| counts[*reader]).unwrap_or(0);
        of.insert(partition, fewest);
        fewest
    }

    /// True if a partition is this reader's.
    pub(super) fn has(&self, reader: usize, partition: u32) -> bool {
        self.of.lock().get(&partition) == Some(&reader)
    }

    fn by_reader(&self, partitions: &[u32]) -> BTreeMap<usize, Vec<u32>> {
        let mut by_reader: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for partition in partitions {
            by_reader.entry(self.of(*partition)).or_default().push(*partition);
        }
        by_reader
    }

    fn forget(&self, partitions: &[u32]) {
        let mut of = self.of.lock();
        for partition in partitions {
            of.remove(partition);
        }
    }

    /// Has partitions read.
    pub(super) async fn read(&self, partitions: &[(u32, Option<Place>)]) {
        let numbers: Vec<u32> = partitions.iter().map(|(partition, _)| *partition).collect();
        for (reader, numbers) in self.by_reader(&numbers) {
            let of_reader = partitions.iter().filter(|(partition, _)| numbers.contains(partition));
            // A reader that has ended has no stream any more.
            let _ = self.orders[reader].send(Order::Read(of_reader.copied().collect())).await;
        }
    }

    /// Has partitions read no more; returns when what was read of them was sent, or some seconds later.
    pub(super) async fn release(&self, partitions: &[u32]) {
        let releases = self.by_reader(partitions).into_iter().map(async |(reader, partitions)| {
            let (done, released) = oneshot::channel();
            if self.orders[reader].send(Order::Release(partitions, done)).await.is_ok() {
                // Its successor begins where the last unit was acknowledged.
                let _ = tokio::time::timeout(RELEASE, released).await;
            }
        });
        join_all(releases).await;
        self.forget(partitions);
    }

    /// Has partitions read no more at once.
    pub(super) async fn lose(&self, partitions: &[u32]) {
        for (reader, partitions) in self.by_reader(partitions) {
            let _ = self.orders[reader].send(Order::Lose(partitions)).await;
        }
        self.forget(partitions);
    }
}

impl Cluster {
    /// The partitions of this node that a reader of a stream has, each with the place behind which nothing is acknowledged.
    pub(super) fn owned_of(&self, stream: &ClusterStream, reader: usize) -> BTreeMap<u32, Option<Place>> {
        let acknowledged: BTreeMap<PartitionName, Position> = self.positions.all().into_iter().collect();
        let owned: Vec<(PartitionName, Option<Place>)> = {
            let owned = self.owned.lock();
            let of_topic = owned.iter().filter(|((of, _), _)| *of == stream.topic);
            of_topic.map(|(name, place)| (name.clone(), *place)).collect()
        };
        let of_reader = owned.into_iter().filter(|(name, _)| stream.readers.of(name.1) == reader);
        of_reader
            .map(|(name, place)| (name.1, acknowledged.get(&name).map(|position| position.place).or(place)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn partitions_are_spread_evenly_and_stay() {
        let (readers, mut inboxes) = Readers::new(3);
        let partitions: Vec<(u32, Option<Place>)> = (0..12).step_by(2).map(|of| (of, None)).collect();
        readers.read(&partitions).await;
        for inbox in &mut inboxes {
            assert!(matches!(inbox.try_recv(), Ok(Order::Read(of)) if of.len() == 2));
        }
        let before: Vec<usize> = (0..12).step_by(2).map(|of| readers.of(of)).collect();
        readers.lose(&[0, 6]).await;
        assert_eq!(readers.of(2), before[1]);
        // The reader that has lost both gets both of the next.
        assert_eq!((readers.of(1), readers.of(3)), (before[0], before[0]));
    }

    #[test]
    fn a_stream_has_a_bounded_number_of_readers() {
        assert_eq!(Readers::new(0).0.count(), 1);
        assert_eq!(Readers::new(500).0.count(), READERS_MAX);
    }
}
