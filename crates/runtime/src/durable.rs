//! The interface through which a runtime uses durable objects: declarations, views, joined rows, durable queries.
//!
//! A runtime by itself has none of them. The room above implements [`DurableObjects`], and sets it before it passes the
//! runtime to callers ([`crate::Runtime::set_durable`]).

use std::sync::Arc;

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{Joined, ParseOptions, Schema};
use swiftwater_live::{JoinedRows, StandingQuery};

use crate::{EndReason, QueryId, stream::Stream};

/// The durable state, as far as live queries depend on it.
pub trait DurableObjects: Send + Sync {
    /// True if a view has this name: then no stream can.
    fn is_view(&self, name: &str) -> bool;

    /// True if a stream is in the catalog: its events are validated, and may be stored, so they do not go past its declaration.
    fn is_declared(&self, stream: &StreamName) -> bool;

    /// True if the stream's events are matched elsewhere: its queries need [`crate::SubmitOptions::remote`].
    fn is_remote(&self, stream: &StreamName) -> bool;

    /// The declared types of a stream's fields, or of a view's columns.
    fn schema(&self, name: &StreamName) -> Option<Schema>;

    /// Names of fields that were found in a stored stream's events beside the declared ones.
    fn found_fields(&self, stream: &StreamName) -> Vec<Box<str>>;

    /// Names of stored streams and of views, to suggest one for a misspelled name.
    fn names(&self) -> Vec<String>;

    /// The tables and views that the text of a query joins, as far as they exist.
    fn join_sources(&self, text: &str, options: &ParseOptions<'_>) -> JoinSources;

    /// A query has begun over this name: if it is a view's, the changes of that are its events from now on.
    fn query_began(&self, name: &StreamName);

    /// The number of durable queries on a stream.
    fn durable_queries(&self, stream: &StreamName) -> u64;

    /// Arrival of the oldest event that a stream's table, or a view of it, has not committed.
    fn oldest_pending_arrival(&self, stream: &StreamName) -> Option<Millis>;

    /// The streams that durable queries stand on instead of the streams that they name: they follow what is on disk.
    fn followed(&self) -> Vec<Arc<Stream>>;

    /// A durable query has ended: to be recorded.
    fn query_ended(&self, id: QueryId, reason: EndReason, offset: u64, at: Millis);

    /// Records that a durable query was removed.
    fn query_forgotten(&self, id: QueryId);
}

/// The sources that a query is joined with.
#[derive(Debug, Default)]
pub struct JoinSources {
    /// The definitions for planning.
    pub known: Vec<Joined>,
    /// The rows of each, by the identity that [`Joined::id`] has.
    pub rows: Vec<(u64, Arc<dyn JoinedRows>)>,
}

impl JoinSources {
    /// Attaches to a compiled query the rows that it is joined with.
    pub fn attach(&self, query: &StandingQuery) {
        for join in query.joins() {
            if let Some((_, rows)) = self.rows.iter().find(|(id, _)| *id == join.id) {
                join.set_rows(Arc::clone(rows));
            }
        }
    }
}
