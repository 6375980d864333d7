//! The membership of this node: Kafka's consumer group assigns the partitions of all streams of the cluster.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use swiftwater_cluster::{Place, Role};
use swiftwater_kafka::{
    GroupEvent, GroupMember, KafkaError, MemberOptions, OffsetAt, TopicId, TopicPartition,
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{Cluster, positions::place_of};
use crate::durable::history::History;

/// The time between two commits of the places where successors begin.
const COMMIT: Duration = Duration::from_secs(1);

impl Cluster {
    /// Takes part in the group, without end.
    pub(super) async fn join(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let mut retry = Cluster::retry();
        loop {
            let joined = tokio::select! {
                joined = self.try_join() => joined,
                () = stop.received() => return,
            };
            if let Err(error) = joined {
                // The member has left: all that it had is others'.
                self.lose(&self.owned_partitions()).await;
                self.rest("this node is no member of the cluster at present", &error, &mut retry).await;
            }
        }
    }

    fn owned_partitions(&self) -> Vec<TopicPartition> {
        let owned = self.owned.lock();
        owned.keys().map(|(topic, partition)| TopicPartition::new(&**topic, *partition)).collect()
    }

    fn topics_of_streams(&self) -> Vec<String> {
        let mut topics: Vec<String> =
            self.all_streams().iter().map(|(_, stream)| stream.topic.to_string()).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Returns when this node has left the group, as it is draining.
    async fn try_join(&self) -> Result<(), KafkaError> {
        self.ensure_topics().await;
        let mut draining = self.draining.subscribe();
        if !self.config.roles.contains(&Role::Work) {
            return std::future::pending().await;
        }
        until(&mut draining, false).await;
        let mut topics = self.topics_of_streams();
        while topics.is_empty() {
            tokio::select! {
                () = self.changed.notified() => topics = self.topics_of_streams(),
                () = until(&mut draining, true) => return Ok(()),
            }
        }
        let mut member = self.config.kafka.member(&MemberOptions {
            group: self.topics.workers.clone(),
            topics,
            instance_id: None,
            client_id: Some(self.config.node.clone()),
            session_timeout: self.config.session_timeout,
            protocol: self.config.group_protocol,
        })?;
        let mut commit = interval(COMMIT);
        commit.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = member.next() => match event {
                    GroupEvent::Assigned(partitions) => self.assigned(&partitions).await?,
                    GroupEvent::Revoked(partitions) => {
                        self.release(&partitions).await;
                        self.commit(&mut *member);
                        self.forget(&partitions);
                    }
                    GroupEvent::Lost(partitions) => self.lose(&partitions).await,
                    GroupEvent::Waiting(error) => {
                        tracing::warn!(%error, hint = error.hint(), "this node waits for its part of the cluster");
                    }
                    GroupEvent::Failed(error) => return Err(error),
                },
                () = until(&mut draining, true) => {
                    let owned = self.owned_partitions();
                    self.release(&owned).await;
                    self.commit(&mut *member);
                    self.forget(&owned);
                    member.leave().await;
                    return Ok(());
                }
                () = self.changed.notified() => member.subscribe(&self.topics_of_streams()),
                _ = commit.tick() => self.commit(&mut *member),
            }
        }
    }

    /// Has partitions read, once this node knows all queries that the node before it knew.
    async fn assigned(&self, partitions: &[TopicPartition]) -> Result<(), KafkaError> {
        let ends = self.config.kafka.offsets(&self.topics.queries, &[(0, OffsetAt::Latest)]).await?;
        let end = ends.first().copied().unwrap_or(0);
        let mut read = self.queries_read.subscribe();
        // The sender lives as long as this node.
        let _ = read.wait_for(|next| *next >= end).await;
        let committed = self.config.kafka.group_offsets(&self.topics.workers, partitions).await?;
        let mut ids: BTreeMap<&str, TopicId> = BTreeMap::new();
        for of in partitions {
            if !ids.contains_key(&*of.topic) {
                ids.insert(&of.topic, self.config.kafka.topic(&of.topic).await?.id);
            }
        }
        let mut orders: BTreeMap<&str, Vec<(u32, Option<Place>)>> = BTreeMap::new();
        for (partition, committed) in partitions.iter().zip(committed) {
            let place =
                committed.and_then(|(offset, text)| place_of(offset, &text, *ids.get(&*partition.topic)?));
            self.owned.lock().insert(((&*partition.topic).into(), partition.partition), place);
            orders.entry(&partition.topic).or_default().push((partition.partition, place));
        }
        for (topic, partitions) in orders {
            for stream in self.streams_of(topic) {
                stream.readers.read(&partitions).await;
            }
        }
        Ok(())
    }

    async fn release(&self, partitions: &[TopicPartition]) {
        for (topic, partitions) in by_topic(partitions) {
            for stream in self.streams_of(topic) {
                stream.readers.release(&partitions).await;
            }
        }
    }

    async fn lose(&self, partitions: &[TopicPartition]) {
        self.forget(partitions);
        for (topic, partitions) in by_topic(partitions) {
            for stream in self.streams_of(topic) {
                stream.readers.lose(&partitions).await;
            }
        }
    }

    fn streams_of(&self, topic: &str) -> Vec<Arc<super::ClusterStream>> {
        let streams = self.all_streams();
        streams.into_iter().map(|(_, stream)| stream).filter(|stream| *stream.topic == *topic).collect()
    }

    fn commit(&self, member: &mut dyn GroupMember) {
        let mut places = Vec::new();
        for ((topic, partition), position) in self.positions.all() {
            let streams = self.streams_of(&topic);
            let id = streams.first().and_then(|stream| *stream.topic_id.lock());
            let is_owned = self.owned.lock().contains_key(&(topic.clone(), partition));
            if let Some(id) = id.filter(|_| is_owned) {
                let of = TopicPartition::new(&*topic, partition);
                places.push((of, position.place.offset, position.text(id)));
            }
        }
        if !places.is_empty() {
            member.commit(&places);
        }
    }

    fn forget(&self, partitions: &[TopicPartition]) {
        for of in partitions {
            self.owned.lock().remove(&((&*of.topic).into(), of.partition));
            self.positions.remove(&of.topic, of.partition);
        }
    }
}

/// Waits until this node is draining, or no longer. The sender lives as long as the node.
async fn until(draining: &mut watch::Receiver<bool>, wanted: bool) {
    let _ = draining.wait_for(|is_draining| *is_draining == wanted).await;
}

/// The partitions of each topic.
fn by_topic(partitions: &[TopicPartition]) -> BTreeMap<&str, Vec<u32>> {
    let mut topics: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for of in partitions {
        topics.entry(&of.topic).or_default().push(of.partition);
    }
    topics
}
