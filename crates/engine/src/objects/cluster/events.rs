//! Feeds the queries that this node computes with the events that workers send: each is on a stream of its own, whose time is that of the
//! events' messages.

use std::sync::Arc;

use bytes::Bytes;
use swiftwater_cluster::ReleasedEvents;
use swiftwater_event::{CheckLimits, EventBatch, EventMeta, Millis, Offset, check_block};
use swiftwater_runtime::parts::Stream;

use super::{Cluster, serving::Serving};
use crate::{durable::fed_stream::advance_fed, shared::Shared};

impl Cluster {
    /// Feeds the queries of all streams with the events that are complete by now.
    pub(super) async fn feed_streams(&self) {
        for (_, stream) in self.all_streams() {
            let Some(shared) = self.shared.upgrade() else { return };
            stream.serving.feed(&shared).await;
        }
    }
}

impl Serving {
    async fn feed(&self, shared: &Arc<Shared>) {
        let (released, too_many) = {
            let mut served = self.state.served.lock();
            let released = served.server.release();
            let stream = |one: ReleasedEvents| {
                Some((Arc::clone(&served.queries.get(&one.query)?.stream), one.events, one.until))
            };
            let released: Vec<_> = released.into_iter().filter_map(stream).collect();
            let too_many = served.server.with_too_many().filter_map(|number| served.queries.get(&number));
            (released, too_many.map(|query| Arc::clone(&query.stream)).collect::<Vec<_>>())
        };
        for stream in too_many {
            let why = "the node that answers the query had more bytes of events than cluster.event_bytes_per_second allows: have WHERE select \
                       fewer, or raise the setting";
            shared.fail_remote(&stream, None, why);
        }
        for (stream, events, until) in released {
            match feed(shared, &stream, events, until).await {
                Ok(()) => {}
                Err(NotFed::Closed) => return,
                Err(NotFed::Unreadable) => {
                    shared.fail_remote(&stream, None, "an event that another node sent cannot be read");
                }
            }
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
