//! The reader of a stream's partitions on this node: matches the events of those that are assigned to it, and sends units.

mod events;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
};

use events::Warnings;
use futures_util::FutureExt;
use swiftwater_cluster::{NodeName, Place, QueryNumber, Unit, Worker, WorkerLimits};
use swiftwater_event::{Millis, StreamName};
use swiftwater_kafka::{
    Consumer, ConsumerOptions, Fetched, Isolation, KafkaError, KafkaErrorKind, OffsetAt, Producer, SendError,
    TopicId,
};
use swiftwater_lang::ddl::KafkaIsolation;
use swiftwater_runtime::parts::count_panic;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{
    Cluster, ClusterStream,
    query_text::computed,
    readers::Order,
    topics::{message, partition_of},
};
use crate::{
    durable::history::{History, run_blocking},
    objects::kafka_schemas::Schemas,
    supervisor::TaskKind,
};

/// Batches of the consumer that are taken before a unit is sent.
const BATCHES_MAX: usize = 64;

/// The time between two looks at partitions that have no events.
const IDLE: std::time::Duration = std::time::Duration::from_millis(200);

/// A run that was so long has worked: pauses begin anew.
const RESET_NANOS: u64 = 30_000_000_000;

/// The time between two looks at the number of partitions.
const REFRESH: std::time::Duration = std::time::Duration::from_secs(10);

/// A broker has all events before the time of an answer less this: replicas take a moment.
const IDLE_MARGIN_MS: Millis = 100;

/// A partition is read again from so many milliseconds back at most.
const RESUME_MS_MAX: u64 = 60_000;

/// A reader from its start to its next failure.
struct Reader<'c> {
    cluster: &'c Cluster,
    /// Its number among those of the stream.
    number: usize,
    name: &'c StreamName,
    stream: &'c ClusterStream,
    /// The topic that it reads.
    topic_id: Option<TopicId>,
    worker: Worker,
    /// This run's own name: units of an earlier run that were not marked do not count.
    node: NodeName,
    consumer: Box<dyn Consumer>,
    producer: Box<dyn Producer>,
    /// The schemas of the messages. A partition waits for one that is not known.
    schemas: Schemas,
    warnings: Warnings,
    partials: u32,
    /// All queries with lower numbers were taken up.
    learned: QueryNumber,
    /// Partitions of which all that there is was read.
    at_end: BTreeSet<u32>,
    /// The latest time that a broker told.
    broker_time: Millis,
}

impl Cluster {
    /// Starts a reader of a stream, which ends with the stream. The first one reads from the start, the others when they have partitions.
    pub(super) fn read_stream(
        self: &Arc<Self>,
        history: &Arc<History>,
        stream: &Arc<ClusterStream>,
        (number, mut orders): (usize, mpsc::Receiver<Order>),
    ) {
        let (cluster, stream, mut stop) = (Arc::clone(self), Arc::downgrade(stream), history.closing());
        history.supervisor.spawn(TaskKind::Reader, async move {
            let mut retry = Cluster::retry();
            let mut runs = 0_u64;
            loop {
                let Some(stream_now) = stream.upgrade() else { return };
                // It may be dropped, and be held by another reader alone.
                if !cluster.stream(&stream_now.create.name).is_some_and(|now| Arc::ptr_eq(&now, &stream_now))
                {
                    return;
                }
                // It begins with what it has now.
                while let Ok(order) = orders.try_recv() {
                    if let Order::Release(_, done) = order {
                        let _ = done.send(());
                    }
                }
                if number > 0 && cluster.owned_of(&stream_now, number).is_empty() {
                    drop(stream_now);
                    let order = tokio::select! {
                        order = orders.recv() => order,
                        () = stop.received() => return,
                    };
                    match order {
                        // Nothing was read of what it has no more; what it has is that of the node.
                        Some(Order::Release(_, done)) => drop(done.send(())),
                        Some(Order::Read(_) | Order::Lose(_)) => {}
                        None => return,
                    }
                    continue;
                }
                let stream = stream_now;
                let name = stream.create.name.clone();
                runs += 1;
                let began = cluster.nanos();
                let work = async {
                    let mut reader = Reader::begin(&cluster, (&name, &stream), (number, runs)).await?;
                    reader.read_partitions(cluster.owned_of(&stream, number)).await?;
                    reader.run(&mut orders).await
                };
                let work = AssertUnwindSafe(work).catch_unwind();
                let result: Result<(), KafkaError> = tokio::select! {
                    result = work => result.unwrap_or_else(|_| {
                        count_panic("the reader of a stream of the cluster");
                        Err(KafkaError::new(KafkaErrorKind::Other, "it failed, and begins anew"))
                    }),
                    () = stop.received() => return,
                };
                let Err(error) = result else { return };
                if cluster.nanos().saturating_sub(began) > RESET_NANOS {
                    retry = Cluster::retry();
                }
                let what = format!("the partitions of stream `{name}` are not read at present");
                cluster.rest(&what, &error, &mut retry).await;
            }
        });
    }
}

impl Cluster {
    fn nanos(&self) -> u64 {
        self.shared.upgrade().map_or(0, |shared| shared.clock.monotonic_nanos())
    }
}

impl<'c> Reader<'c> {
    async fn begin(
        cluster: &'c Cluster,
        (name, stream): (&'c StreamName, &'c ClusterStream),
        (number, run): (usize, u64),
    ) -> Result<Reader<'c>, KafkaError> {
        let partials = cluster.config.kafka.topic(&cluster.topics.partials).await?.partitions;
        let source = stream.create.source.as_ref();
        let isolation = match source.and_then(|source| source.options.isolation) {
            Some(KafkaIsolation::ReadUncommitted) => Isolation::ReadUncommitted,
            None | Some(KafkaIsolation::ReadCommitted) => Isolation::ReadCommitted,
        };
        let schemas = cluster.schemas_of(&stream.create);
        let schemas = schemas.map_err(|why| KafkaError::new(KafkaErrorKind::Configuration, why))?;
        let options = ConsumerOptions {
            isolation,
            group: cluster.topics.workers.clone(),
            shares: u32::try_from(stream.readers.count()).unwrap_or(u32::MAX),
        };
        let consumer = cluster.config.kafka.consumer(&stream.topic, &options)?;
        let producer = cluster.producer_of(&[&cluster.topics.partials]).await?;
        let limits = WorkerLimits::default();
        let kept_bytes_of_all = limits.kept_bytes_of_all / stream.readers.count();
        let limits = WorkerLimits { resume_ms_max: RESUME_MS_MAX, kept_bytes_of_all, ..limits };
        let mut reader = Reader {
            cluster,
            number,
            name,
            stream,
            topic_id: None,
            worker: Worker::new(limits),
            node: format!("{}/{name}/{run}.{number}", cluster.me).into(),
            consumer,
            producer,
            schemas,
            warnings: Warnings::default(),
            partials,
            learned: 0,
            at_end: BTreeSet::new(),
            broker_time: Millis::MIN,
        };
        reader.look_up_partitions().await?;
        reader.ask_time().await?;
        Ok(reader)
    }

    /// Looks up the partitions of the topic.
    async fn look_up_partitions(&mut self) -> Result<(), KafkaError> {
        let topic = self.cluster.config.kafka.topic(&self.stream.topic).await?;
        // One of the readers finds another topic first.
        let before = self.stream.topic_id.lock().replace(topic.id);
        if before.is_some_and(|before| before != topic.id) {
            let mut partitions = Vec::new();
            for ((of, partition), place) in self.cluster.owned.lock().iter_mut() {
                if *of == self.stream.topic {
                    *place = None;
                    partitions.push(*partition);
                }
            }
            partitions.into_iter().for_each(|of| self.cluster.positions.remove(&self.stream.topic, of));
            if let Some(shared) = self.cluster.shared.upgrade() {
                self.stream.serving.reset(&shared);
            }
        }
        self.topic_id.get_or_insert(topic.id);
        self.check_topic()?;
        self.stream.partitions.store(topic.partitions, Ordering::Relaxed);
        Ok(())
    }

    /// Fails if a reader has found that the topic was made again.
    fn check_topic(&self) -> Result<(), KafkaError> {
        match *self.stream.topic_id.lock() == self.topic_id {
            true => Ok(()),
            false => {
                let text = format!("topic `{}` was deleted and made again", self.stream.topic);
                Err(KafkaError::new(KafkaErrorKind::Other, text))
            }
        }
    }

    async fn run(&mut self, orders: &mut mpsc::Receiver<Order>) -> Result<(), KafkaError> {
        let mut queries = self.cluster.queries_read.subscribe();
        // What was read before the subscription.
        self.add_queries();
        let mut flush = interval(self.cluster.config.flush);
        flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut refresh = interval(REFRESH);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle = interval(IDLE);
        idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return Ok(()),
                    Some(order) => self.obey(order).await?,
                },
                Ok(()) = queries.changed() => {
                    queries.borrow_and_update();
                    self.add_queries();
                    self.send().await?;
                }
                news = self.schemas.news() => self.take_schema(news)?,
                fetched = self.consumer.next() => {
                    self.take(fetched)?;
                    for _ in 0..BATCHES_MAX {
                        let Some(more) = self.consumer.next().now_or_never() else { break };
                        self.take(more)?;
                    }
                }
                _ = flush.tick() => self.send().await?,
                _ = idle.tick() => {
                    if !self.cluster.stream(self.name).is_some_and(|now| std::ptr::eq(&*now, self.stream)) {
                        return Ok(());
                    }
                    self.look_at_ends().await?;
                }
                _ = refresh.tick() => self.look_up_partitions().await?,
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), KafkaError> {
        match order {
            Order::Read(partitions) => {
                let own = partitions.into_iter().filter(|(partition, _)| self.has(*partition)).collect();
                self.read_partitions(own).await?;
            }
            Order::Release(partitions, done) => {
                self.send().await?;
                self.stop(&partitions);
                // The member goes on without an answer if it has ended.
                let _ = done.send(());
            }
            // Their positions are forgotten, or those of another reader by now.
            Order::Lose(partitions) => self.stop(&partitions),
        }
        Ok(())
    }

    fn stop(&mut self, partitions: &[u32]) {
        for &partition in partitions {
            self.consumer.unassign(partition);
            self.worker.stop(partition);
            self.at_end.remove(&partition);
        }
    }

    /// Reads partitions from the place that was committed for each, if the queries need that; else from now on.
    async fn read_partitions(&mut self, partitions: BTreeMap<u32, Option<Place>>) -> Result<(), KafkaError> {
        if partitions.is_empty() {
            return Ok(());
        }
        self.add_queries();
        self.ask_time().await?;
        let oldest = self.broker_time.saturating_sub_unsigned(RESUME_MS_MAX);
        let needed = self.worker.first_begin().unwrap_or(self.broker_time).min(self.broker_time).max(oldest);
        let is_wanted = |place: &Option<Place>| place.is_some_and(|place| place.from >= needed);
        let asked: Vec<(u32, OffsetAt)> = partitions
            .iter()
            .filter(|(_, place)| !is_wanted(place))
            .map(|(partition, _)| (*partition, OffsetAt::Timestamp(needed)))
            .collect();
        // The ends first: a message that is written between the two calls is behind them.
        let ends: Vec<(u32, OffsetAt)> =
            asked.iter().map(|(partition, _)| (*partition, OffsetAt::Latest)).collect();
        let ends = self.cluster.config.kafka.offsets(&self.stream.topic, &ends).await?;
        let found = self.cluster.config.kafka.offsets(&self.stream.topic, &asked).await?;
        let found = asked.iter().zip(found.into_iter().zip(ends)).map(|((partition, _), (offset, end))| {
            let place = Place::new(offset.min(end), needed);
            let before = partitions.get(partition).copied().flatten();
            (*partition, Place { done: before.map_or(place.done, |before| before.done), ..place })
        });
        let committed = partitions.iter().filter(|(_, place)| is_wanted(place));
        let committed = committed.filter_map(|(partition, place)| Some((*partition, (*place)?)));
        for (partition, place) in found.chain(committed).collect::<Vec<_>>() {
            self.worker.start(partition, place);
            self.consumer.assign(partition, place.offset);
            self.cluster.positions.begin(&self.stream.topic, partition, place);
        }
        Ok(())
    }

    /// Takes up new queries, and forgets those that have ended.
    fn add_queries(&mut self) {
        let (changes, next) = self.cluster.changes_of(self.name, (self.number, self.learned));
        for ended in changes.ended {
            self.worker.remove_query(ended);
        }
        for (number, asked) in changes.new {
            let Some(shared) = self.cluster.shared.upgrade() else { return };
            self.learned = number + 1;
            let server: NodeName = asked.asked.server.as_str().into();
            match computed(number, asked.begins, &asked.asked, self.stream.schema()) {
                Ok(query) => run_blocking(usize::MAX, || {
                    self.worker.add_query(query, server, shared.clock.now_micros());
                }),
                Err(why) => {
                    tracing::error!(
                        query = asked.asked.text,
                        why,
                        "a query of the cluster cannot be computed here"
                    );
                    self.worker.add_unreadable(number, server);
                }
            }
        }
        self.worker.set_queries_next(next);
    }

    fn take(&mut self, fetched: Fetched) -> Result<(), KafkaError> {
        match fetched {
            Fetched::Messages(messages) => {
                self.at_end.remove(&messages.partition());
                self.take_messages(&messages);
            }
            // They were fetched before the partition began to wait for a schema, and are fetched again.
            Fetched::End { partition, .. } | Fetched::Gap { partition, .. }
                if self.schemas.waits(partition) => {}
            Fetched::End { partition, next } => {
                self.at_end.insert(partition);
                self.worker.advance(partition, next, Millis::MIN);
            }
            Fetched::Gap { partition, wanted, first, .. } => {
                tracing::warn!(stream = %self.name, partition, first, "messages were deleted before they were read");
                self.cluster.positions.update(&self.stream.topic, partition, |position| {
                    position.left_out.lost += first.saturating_sub(wanted.max(position.counted));
                    position.counted = position.counted.max(first);
                });
                let place = Place::new(first, self.broker_time);
                self.worker.start(partition, place);
                self.consumer.assign(partition, first);
            }
            Fetched::Waiting { error, .. } => {
                tracing::warn!(stream = %self.name, %error, hint = error.hint(), "partitions are not read at present");
            }
            Fetched::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// Stops partitions that this reader has no more: an order may have come while it began anew.
    fn stop_those_of_others(&mut self) {
        let others: Vec<u32> = self.worker.partitions().filter(|of| !self.has(*of)).collect();
        self.stop(&others);
    }

    /// True if a partition is this node's and this reader's.
    fn has(&self, partition: u32) -> bool {
        let is_owned = self.cluster.owned.lock().contains_key(&(self.stream.topic.clone(), partition));
        is_owned && self.stream.readers.has(self.number, partition)
    }

    /// Sends what there is, and remembers where successors begin, once the brokers have it.
    async fn send(&mut self) -> Result<(), KafkaError> {
        self.check_topic()?;
        self.stop_those_of_others();
        let units = run_blocking(usize::MAX, || self.worker.flush());
        let place = |of| Some((of, (self.worker.resume(of)?, self.worker.progress(of)?.0)));
        let places: Vec<_> = self.worker.partitions().filter_map(place).collect();
        // Units may be written though that is not confirmed: what is read anew counts as in them.
        for (partition, (place, _)) in &places {
            self.cluster.positions.update(&self.stream.topic, *partition, |of| {
                of.place.done = of.place.done.max(place.done);
            });
        }
        if !units.is_empty() {
            let messages: Vec<_> = units.iter().map(|(server, unit)| self.message(server, unit)).collect();
            self.write(&messages).await?;
        }
        for (partition, position) in places {
            // One that was given away while this waited is another node's.
            if self.cluster.owned.lock().contains_key(&(self.stream.topic.clone(), partition)) {
                self.cluster.positions.update(&self.stream.topic, partition, |of| {
                    (of.place, of.next) = position;
                });
            }
        }
        Ok(())
    }

    async fn write(&mut self, messages: &[swiftwater_kafka::NewMessage]) -> Result<(), KafkaError> {
        match self.producer.send(messages).await {
            Ok(written) => {
                let times = written.iter().map(|written| written.timestamp.millis);
                self.broker_time = times.chain([self.broker_time]).max().unwrap_or(self.broker_time);
                Ok(())
            }
            Err(SendError::Failed(error)) => Err(error),
            Err(SendError::TooLarge(_)) => Err(KafkaError::new(
                swiftwater_kafka::KafkaErrorKind::Configuration,
                format!("topic `{}` does not accept the results of one batch", self.cluster.topics.partials),
            )
            .with_hint("Raise the topic's `max.message.bytes`.")),
        }
    }

    fn message(&self, server: &str, unit: &Unit) -> swiftwater_kafka::NewMessage {
        let partition = partition_of(server, self.partials);
        let topic = self.topic_id.map(|topic| topic.to_string());
        let headers = [("stream", self.name.as_str()), ("node", &*self.node)];
        let headers = headers.into_iter().chain(topic.as_deref().map(|topic| ("topic", topic)));
        let headers = headers.map(|(name, value)| (name.into(), value.into())).collect();
        message(&self.cluster.topics.partials, partition, server, Some(unit.encode().into()), headers)
    }

    /// Asks a broker for its time, by a message to nobody.
    async fn ask_time(&mut self) -> Result<(), KafkaError> {
        let partition = partition_of(&self.node, self.partials);
        let hello = message(&self.cluster.topics.partials, partition, "", None, Arc::default());
        self.write(&[hello]).await
    }

    /// Looks whether partitions that were read to their end still have no more: then they are done up to the time that a broker told
    /// before.
    async fn look_at_ends(&mut self) -> Result<(), KafkaError> {
        let asked: Vec<(u32, OffsetAt)> =
            self.at_end.iter().map(|partition| (*partition, OffsetAt::Latest)).collect();
        if asked.is_empty() || self.worker.query_count() == 0 {
            return Ok(());
        }
        self.ask_time().await?;
        let until = self.broker_time.saturating_sub(IDLE_MARGIN_MS);
        let ends = self.cluster.config.kafka.offsets(&self.stream.topic, &asked).await?;
        for ((partition, _), end) in asked.into_iter().zip(ends) {
            if self.worker.progress(partition).is_some_and(|(next, _)| next >= end) {
                self.worker.advance(partition, end, until);
            }
        }
        self.send().await
    }
}
