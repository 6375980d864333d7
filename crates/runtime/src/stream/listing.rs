//! Lists streams a page at a time, so that an answer is small and cheap however many streams there are.
//!
//! By name, a page continues after a name. By a number, a page lists the streams with the highest numbers, and there is no next
//! page, because numbers change between reads. The whole status is read of listed streams alone.

use std::{cmp::Ordering, sync::Arc};

use swiftwater_event::{Millis, StreamName};

use super::Stream;
use crate::{Principal, Runtime, StreamStatus, shared::Shared};

/// The order of a list of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamSort {
    /// By name.
    #[default]
    Name,
    /// The streams with the most events a second are first.
    Rate,
    /// The streams with the most events are first.
    Events,
    /// The streams with the most queries are first.
    Queries,
    /// The streams whose events have waited longest are first.
    Lag,
}

impl StreamSort {
    /// True if a page can continue after a name.
    pub fn has_pages(self) -> bool {
        self == StreamSort::Name
    }
}

/// The filter and the order of a list of streams.
#[derive(Debug, Clone, Default)]
pub struct StreamList {
    /// Streams whose name begins with this.
    pub prefix: String,
    /// Their order; equal ones are by name.
    pub sort: StreamSort,
    /// The most streams of a page.
    pub limit: usize,
    /// The last stream of the page before, where [`StreamSort::has_pages`].
    pub after: Option<StreamName>,
}

/// A page of the streams.
#[derive(Debug, Clone)]
pub struct StreamPage {
    /// The streams in the requested order.
    pub streams: Vec<StreamStatus>,
    /// The `after` of the next page, where there is one.
    pub next: Option<StreamName>,
}

impl Runtime {
    /// A page of the streams that were created or have had an event.
    pub fn list_streams(&self, _principal: &Principal, list: &StreamList) -> StreamPage {
        let (shared, now) = (self.shared(), self.clock().now());
        let is_listed = |stream: &Arc<Stream>| {
            let name = stream.name.as_str();
            let is_after = list.after.as_ref().is_none_or(|after| name > after.as_str());
            name.starts_with(&list.prefix) && is_after && stream.exists()
        };
        let mut listed: Vec<(f64, Arc<Stream>)> = shared
            .all_streams()
            .into_iter()
            .filter(is_listed)
            .map(|stream| (number(shared, &stream, list.sort, now), stream))
            .collect();
        let order = |(one, a): &(f64, Arc<Stream>), (other, b): &(f64, Arc<Stream>)| -> Ordering {
            other.total_cmp(one).then_with(|| a.name.cmp(&b.name))
        };
        let has_more = listed.len() > list.limit;
        if has_more && list.limit > 0 {
            listed.select_nth_unstable_by(list.limit - 1, order);
        }
        listed.truncate(list.limit);
        listed.sort_unstable_by(order);
        let next = listed.last().filter(|_| has_more && list.sort.has_pages());
        StreamPage {
            next: next.map(|(_, stream)| stream.name.clone()),
            streams: listed.iter().map(|(_, stream)| shared.status_of_stream(stream, now)).collect(),
        }
    }
}

/// The number by which streams are sorted.
fn number(shared: &Shared, stream: &Stream, sort: StreamSort, now: Millis) -> f64 {
    match sort {
        StreamSort::Name => 0.0,
        StreamSort::Rate => stream.events_per_second(),
        StreamSort::Events => stream.event_count().unwrap_or(0) as f64,
        StreamSort::Queries => shared.status_of_stream(stream, now).queries as f64,
        StreamSort::Lag => stream.status(now).lag_ms as f64,
    }
}
