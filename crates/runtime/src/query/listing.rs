//! Lists standing queries a page at a time, so that an answer is small however many queries run.
//!
//! By age, a page continues after an id. By cost, a page lists the costliest queries, and there is no next page, because
//! costs change between reads.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    ops::Bound,
    sync::{Arc, atomic::Ordering},
};

use crate::{Principal, QueryId, QueryStatus, Runtime, query::handle::QueryHandle};

/// The order of a list of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuerySort {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
    /// The queries with the most processor time are first.
    Cpu,
    /// The queries with the largest state are first.
    State,
    /// The queries with the most matched events are first.
    Matches,
    /// The queries with the most emitted bytes are first.
    Out,
}

impl QuerySort {
    /// The cost by which queries are sorted; none for other orders.
    fn cost(self, status: &QueryStatus) -> Option<u64> {
        match self {
            QuerySort::Oldest | QuerySort::Newest => None,
            QuerySort::Cpu => Some(status.cost.cpu_nanos),
            QuerySort::State => Some(status.state_bytes),
            QuerySort::Matches => Some(status.cost.matches),
            QuerySort::Out => Some(status.cost.bytes_out),
        }
    }

    /// True if a page can continue after an id.
    pub fn has_pages(self) -> bool {
        matches!(self, QuerySort::Oldest | QuerySort::Newest)
    }
}

/// The filter and the order of a list of queries.
#[derive(Debug, Clone, Default)]
pub struct QueryList {
    /// Queries whose id, or whose stream's name, begins with this. (No id begins as a name can.)
    pub prefix: String,
    /// Their order.
    pub sort: QuerySort,
    /// The most queries of a page.
    pub limit: usize,
    /// The last query of the page before, where [`QuerySort::has_pages`].
    pub after: Option<QueryId>,
}

/// A page of the queries.
#[derive(Debug, Clone)]
pub struct QueryPage {
    /// The queries in the requested order.
    pub queries: Vec<QueryStatus>,
    /// The `after` of the next page, where there is one.
    pub next: Option<QueryId>,
}

impl Runtime {
    /// A page of the queries that stand, and of detached ones that ended by themselves and whose results wait.
    pub fn list_queries(&self, _principal: &Principal, list: &QueryList) -> QueryPage {
        let handles = self.handles(list);
        if list.sort.has_pages() {
            let next = match handles.len() > list.limit {
                true => handles[..list.limit].last().map(|handle| handle.meta.id),
                false => None,
            };
            let listed = handles.iter().take(list.limit);
            return QueryPage {
                queries: listed.filter_map(|handle| self.shared().status(handle)).collect(),
                next,
            };
        }
        let mut costliest = BinaryHeap::new();
        for (place, handle) in handles.iter().enumerate() {
            let Some(cost) = self.shared().status(handle).and_then(|status| list.sort.cost(&status)) else {
                continue;
            };
            costliest.push(Reverse((cost, Reverse(place))));
            if costliest.len() > list.limit {
                costliest.pop();
            }
        }
        let places = costliest.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(place)))| place);
        let queries = places.filter_map(|place| self.shared().status(&handles[place])).collect();
        QueryPage { queries, next: None }
    }

    /// The queries that a list may show, in its order by age; one more than a page, so that it is known whether there is
    /// a next one.
    fn handles(&self, list: &QueryList) -> Vec<Arc<QueryHandle>> {
        let is_listed = |handle: &QueryHandle| {
            if handle.is_killed.load(Ordering::Acquire) {
                return false;
            }
            list.prefix.is_empty()
                || handle.stream.as_str().starts_with(&list.prefix)
                || handle.meta.id.to_string().starts_with(&list.prefix)
        };
        let queries = self.shared().queries.read();
        let after = list.after.map_or(Bound::Unbounded, Bound::Excluded);
        let page = list.limit.saturating_add(1);
        let all = |handles: &mut dyn Iterator<Item = &Arc<QueryHandle>>, most: usize| {
            handles.filter(|handle| is_listed(handle)).take(most).map(Arc::clone).collect()
        };
        match list.sort {
            QuerySort::Oldest => {
                all(&mut queries.range((after, Bound::Unbounded)).map(|(_, handle)| handle), page)
            }
            QuerySort::Newest => {
                all(&mut queries.range((Bound::Unbounded, after)).rev().map(|(_, handle)| handle), page)
            }
            _ => all(&mut queries.values(), usize::MAX),
        }
    }
}
