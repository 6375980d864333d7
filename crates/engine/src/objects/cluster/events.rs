//! Feeds the queries that this node computes with the events that workers send: each is on a stream of its own, whose time is that of the
//! events' messages.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
};

use bytes::Bytes;
use swiftwater_cluster::{QueryNumber, ReleasedEvents, TooManyEvents};
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, Millis, Offset, StreamName, check_block};
use swiftwater_runtime::parts::{Stream, count_panic};
use tokio::task::{Id, JoinSet};

use super::{Cluster, serving::Serving};
use crate::{durable::fed_stream::advance_fed, shared::Shared};

/// The feeding of queries under way. Each is a task of its own, so that one which takes long holds up no other.
#[derive(Default)]
pub(super) struct Feeds {
    tasks: JoinSet<()>,
    fed: HashMap<Id, FeedTask>,
    busy: BTreeSet<(StreamName, QueryNumber)>,
}

/// A query that takes events.
struct FeedTask {
    serving: Arc<Serving>,
    query: QueryNumber,
    stream: Arc<Stream>,
}

impl Feeds {
    fn is_busy(&self, name: &StreamName, query: QueryNumber) -> bool {
        self.busy.contains(&(name.clone(), query))
    }

    fn spawn(&mut self, fed: FeedTask, feed: impl Future<Output = ()> + Send + 'static) {
        self.busy.insert((fed.serving.name.clone(), fed.query));
        self.fed.insert(self.tasks.spawn(feed).id(), fed);
    }

    /// Waits until a query has taken its events, without end if none has any.
    pub(super) async fn next(&mut self, shared: &Weak<Shared>) {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (id, has_failed) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), true),
        };
        let Some(FeedTask { serving, query, stream }) = self.fed.remove(&id) else { return };
        serving.state.served.lock().server.fed(query);
        self.busy.remove(&(serving.name.clone(), query));
        if let Some(shared) = shared.upgrade().filter(|_| has_failed) {
            count_panic("the events of a query");
            shared.fail_remote(&stream, None, "the events of the query could not be processed");
        }
    }

    /// Waits until all have taken their events.
    pub(super) async fn finish(&mut self, shared: &Weak<Shared>) {
        while !self.busy.is_empty() {
            self.next(shared).await;
        }
    }
}

impl Cluster {
    /// Feeds the queries of all streams with the events that are complete by now.
    pub(super) fn feed_streams(&self, feeds: &mut Feeds) {
        let Some(shared) = self.shared.upgrade() else { return };
        for (_, stream) in self.all_streams() {
            stream.serving.feed(&shared, feeds);
        }
    }
}

impl Serving {
    fn feed(self: &Arc<Self>, shared: &Arc<Shared>, feeds: &mut Feeds) {
        let (released, too_many) = {
            let mut served = self.state.served.lock();
            let released = served.server.release(|number| feeds.is_busy(&self.name, number));
            let of_query = |one: ReleasedEvents| {
                let stream = Arc::clone(&served.queries.get(&one.query)?.stream);
                Some((one.query, stream, one.events, one.until))
            };
            let released: Vec<_> = released.into_iter().filter_map(of_query).collect();
            let too_many = served.server.with_too_many();
            let too_many = too_many
                .filter_map(|(number, why)| Some((Arc::clone(&served.queries.get(&number)?.stream), why)));
            (released, too_many.collect::<Vec<_>>())
        };
        for (stream, why) in too_many {
            let why = match why {
                TooManyEvents::OfQuery => {
                    "the node that answers the query had more bytes of events than cluster.event_bytes_per_second allows, or could not \
                     process them in time: have WHERE select fewer, or raise the setting"
                }
                TooManyEvents::OfAll => {
                    "the node that answers the query had more than 1 GiB of events of all queries that it computes from events, which wait \
                     for partitions that are behind or to be processed; this query had the most: see SHOW PARTITIONS, or have WHERE \
                     select fewer"
                }
            };
            shared.fail_remote(&stream, None, why);
        }
        for (query, stream, events, until) in released {
            let fed = FeedTask { serving: Arc::clone(self), query, stream: Arc::clone(&stream) };
            let shared = Arc::clone(shared);
            feeds.spawn(fed, async move {
                if let Err(NotFed::Unreadable) = feed(&shared, &stream, events, until).await {
                    shared.fail_remote(&stream, None, "an event that another node sent cannot be read");
                }
            });
        }
    }
}

/// The reason why events are not fed.
enum NotFed {
    /// The engine ends.
    Closed,
    Unreadable,
}

/// Feeds a stream with events, by ascending times; all before `until` are there then.
async fn feed(
    shared: &Arc<Shared>,
    stream: &Arc<Stream>,
    events: Vec<(Millis, Bytes)>,
    until: Millis,
) -> Result<(), NotFed> {
    for same in events.chunk_by(|(before, _), (time, _)| before == time) {
        let arrival = same[0].0;
        if stream.next_due() <= arrival || stream.may_be_idle(arrival) {
            advance_fed(shared, stream, arrival, |_| {}).await;
        }
        let (next, _) = stream.mark(arrival);
        let meta = EventMeta {
            arrival,
            first: Offset(next),
            sent_micros: 0,
            read_micros: shared.clock.now_micros(),
        };
        let batch = batch(same).ok_or(NotFed::Unreadable)?.with_meta(meta);
        shared.enter(batch.bytes().len()).await.map_err(|_| NotFed::Closed)?;
        if stream.feed(batch, None) {
            shared.enqueue(Arc::clone(stream));
        }
    }
    advance_fed(shared, stream, until, |_| {}).await;
    shared.advance_remote(stream, until);
    Ok(())
}

/// Events as a batch.
fn batch(events: &[(Millis, Bytes)]) -> Option<EventBatch> {
    let mut text = Vec::with_capacity(events.iter().map(|(_, event)| event.len() + 1).sum());
    for (_, event) in events {
        text.extend_from_slice(event);
        text.push(b'\n');
    }
    // A worker has checked them, by limits of its own.
    let limits = CheckLimits { event_bytes_max: usize::MAX, depth_max: usize::MAX, ..CheckLimits::default() };
    let checked = check_block(text.into(), &limits, 2);
    (checked.rejected == 0 && checked.batch.len() == events.len()).then_some(checked.batch)
}
