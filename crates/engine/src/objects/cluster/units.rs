//! The units of all workers for this node, as it reads them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use swiftwater_cluster::Unit;
use swiftwater_event::StreamName;
use swiftwater_kafka::{Consumer, Fetched, KafkaError, Message, OffsetAt};
use tokio::time::{MissedTickBehavior, interval};

use super::{Cluster, events::Feeds, topics::partition_of};
use crate::durable::history::History;

/// Ends of queries that are written at once.
const ENDS_MAX: usize = 1000;

/// The time between two looks at windows that wait, and at queries that have ended.
const TICK: Duration = Duration::from_millis(50);

impl Cluster {
    /// Takes the units that are sent to this node, and ends queries everywhere that have ended here.
    pub(super) async fn serve(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let mut retry = Cluster::retry();
        loop {
            let served = tokio::select! {
                served = self.try_serve() => served,
                () = stop.received() => return,
            };
            if let Err(error) = served {
                self.rest("the units of workers are not read at present", &error, &mut retry).await;
            }
        }
    }

    async fn try_serve(&self) -> Result<(), KafkaError> {
        let partials = self.ensure_topics().await;
        let partition = partition_of(&self.me, partials);
        // After a failure it goes on where it was.
        let at = (*self.units_read.borrow(), OffsetAt::Latest);
        let (mut consumer, from) = self.read_from(&self.topics.partials, partition, at).await?;
        self.units_read.send_replace(Some(from));
        let mut feeds = Feeds::default();
        let result = self.read_units(&mut *consumer, partition, &mut feeds).await;
        // The events that were taken out for queries are not had again.
        feeds.finish(&self.shared).await;
        result
    }

    async fn read_units(
        &self,
        consumer: &mut dyn Consumer,
        partition: u32,
        feeds: &mut Feeds,
    ) -> Result<(), KafkaError> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                fetched = consumer.next() => match fetched {
                    Fetched::Messages(batch) => {
                        for message in batch.messages() {
                            self.take_unit(&message).await;
                        }
                        self.units_read.send_replace(Some(batch.next()));
                        self.feed_streams(feeds);
                    }
                    Fetched::End { .. } => {}
                    Fetched::Gap { first, .. } => consumer.assign(partition, first),
                    Fetched::Waiting { error, .. } => {
                        tracing::warn!(%error, hint = error.hint(), "the units of workers are not read at present");
                    }
                    Fetched::Failed(error) => return Err(error),
                },
                () = feeds.next(&self.shared) => self.feed_streams(feeds),
                _ = tick.tick() => {
                    self.tick_streams();
                    self.feed_streams(feeds);
                }
            }
        }
    }

    async fn take_unit(&self, message: &Message<'_>) {
        let header = |wanted: &str| {
            let mut headers = message.headers();
            headers
                .find(|(name, _)| *name == wanted.as_bytes())
                .and_then(|(_, value)| std::str::from_utf8(value?).ok())
        };
        let (Some(value), Some(name), Some(node)) = (message.value(), header("stream"), header("node"))
        else {
            return;
        };
        if message.key() != Some(self.me.as_bytes()) {
            return;
        }
        let Some(stream) = StreamName::new(name).ok().and_then(|name| self.stream(&name)) else { return };
        // Readers learn at different times that a topic was made again: offsets of the earlier one say nothing of it.
        let topic = stream.topic_id.lock().map(|topic| topic.to_string());
        if header("topic").is_some_and(|of| topic.is_some_and(|topic| topic != of)) {
            return;
        }
        let unit = match Unit::decode(bytes::Bytes::copy_from_slice(value)) {
            Ok(unit) => unit,
            Err(error) => {
                tracing::error!(node, %error, "results of a worker cannot be read");
                return;
            }
        };
        // Results of a query that is about to begin here.
        let last = stream.serving.last_to_begin();
        while stream.serving.waits_for_begin(last) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if let Some(shared) = self.shared.upgrade() {
                self.end_everywhere(stream.serving.tick(&shared));
            }
        }
        if let Some(shared) = self.shared.upgrade() {
            stream.serving.accept(&shared, &node.into(), unit);
        }
    }

    fn tick_streams(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let dropped = std::mem::take(&mut *self.dropped.lock());
        for stream in dropped {
            stream.serving.fail_all(&shared, "the stream was dropped");
            self.end_everywhere(stream.serving.tick(&shared));
            // One that was about to begin does so first.
            if !stream.serving.keys().is_empty() {
                self.dropped.lock().push(stream);
            }
        }
        for (_, stream) in self.all_streams() {
            stream.serving.set_partitions(stream.partitions.load(Ordering::Relaxed));
            self.end_everywhere(stream.serving.tick(&shared));
        }
    }

    /// Has queries ended on all nodes, soon.
    fn end_everywhere(&self, mut keys: Vec<String>) {
        if !keys.is_empty() {
            self.ended.lock().append(&mut keys);
            self.has_ended.notify_one();
        }
    }

    /// Ends queries on all nodes that have ended here, without end. Those that cannot be written are ended by the next look at queries of
    /// this node that nobody serves.
    pub(super) async fn write_ends(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let work = async {
            loop {
                self.has_ended.notified().await;
                let keys = std::mem::take(&mut *self.ended.lock());
                self.end(&keys).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.received() => {}
        }
    }

    /// Ends queries on all nodes.
    pub(super) async fn end(&self, keys: &[String]) {
        for keys in keys.chunks(ENDS_MAX) {
            let ends: Vec<(&str, Option<String>)> = keys.iter().map(|key| (&**key, None)).collect();
            if let Err(error) = self.write_all(&self.topics.queries, ends).await {
                let queries = keys.len();
                tracing::warn!(%error, queries, "queries of the cluster are not ended on other nodes yet");
            }
        }
    }
}
