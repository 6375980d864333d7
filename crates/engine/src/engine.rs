//! The face of the engine.

use std::{sync::Arc, time::Duration};

use swiftwater_event::{Clock, EventBatch, Position, StreamName};
use swiftwater_lang::{Dialect, Schema};

use crate::{Emit, EndReason, EngineConfig, EngineError, Metrics, QueryId, QueryMeta, QueryStatus, StreamStatus};

/// Who asks. Every call into the engine carries one, so that rights can be checked where things are done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// A name for logs and, later, for rights.
    pub name: Arc<str>,
}

impl Principal {
    /// Whoever reaches a server that asks nobody who they are.
    pub fn anonymous() -> Principal {
        Principal { name: "anonymous".into() }
    }

    /// The process itself: its demo sources, its own input.
    pub fn local() -> Principal {
        Principal { name: "local".into() }
    }
}

/// What is known of events besides themselves.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AppendOptions {
    /// When the sender says it sent them, in microseconds since 1970.
    pub sent_micros: Option<i64>,
    /// The share of its events that the source sends on, where it samples.
    pub source_sample: Option<f64>,
    /// Events that were refused beside these, to be counted.
    pub rejected: u64,
}

/// How a query is to stand.
#[derive(Debug, Clone, Default)]
pub struct SubmitOptions {
    /// Whose rules hold.
    pub dialect: Dialect,
    /// One answer is wanted, at the end, rather than a stream of them.
    pub one_answer: bool,
    /// It outlives its asker.
    pub detach: bool,
    /// Each record tells when its event was sent, read, matched and answered (under `_times`).
    pub times: bool,
    /// Declared types of the stream's fields.
    pub schema: Option<Arc<Schema>>,
}

/// A running engine. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    _shared: Arc<EngineConfig>,
}

/// The reading end of a standing query. Dropping it ends the query, unless it is detached.
pub struct Subscription {
    _query: Arc<QueryMeta>,
}

impl Engine {
    /// Starts shards, collector and ticker.
    pub fn start(config: EngineConfig, clock: Arc<dyn Clock>) -> Engine {
        unimplemented!()
    }

    /// The settings that hold.
    pub fn config(&self) -> &EngineConfig {
        unimplemented!()
    }

    /// The clock that the engine was given.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        unimplemented!()
    }

    /// Appends checked events to a stream, which comes to be with its first one; waits while too many bytes wait to be
    /// looked at. An empty batch only counts its rejections. Answers the position after them.
    pub async fn append(
        &self,
        principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Position, EngineError> {
        unimplemented!()
    }

    /// As [`Engine::append`], for a thread that may wait.
    pub fn append_blocking(
        &self,
        principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Position, EngineError> {
        unimplemented!()
    }

    /// Lets a query stand. It sees the events appended after this returns (and may see some that are being looked at).
    pub fn submit(
        &self,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Subscription, EngineError> {
        unimplemented!()
    }

    /// The plan of a query as text, for `EXPLAIN` (with or without that word before it).
    pub fn explain(&self, principal: &Principal, text: &str, options: &SubmitOptions) -> Result<String, EngineError> {
        unimplemented!()
    }

    /// Whether a text is an `EXPLAIN`; false also where it cannot be read.
    pub fn is_explain(&self, text: &str, dialect: Dialect) -> bool {
        unimplemented!()
    }

    /// Takes up the results of a detached query where the last reader left off.
    pub fn attach(&self, principal: &Principal, id: &QueryId) -> Result<Subscription, EngineError> {
        unimplemented!()
    }

    /// All standing queries, oldest first, and detached ones whose results wait.
    pub fn queries(&self, principal: &Principal) -> Vec<QueryStatus> {
        unimplemented!()
    }

    /// One query.
    pub fn query(&self, principal: &Principal, id: &QueryId) -> Result<QueryStatus, EngineError> {
        unimplemented!()
    }

    /// Ends a query: its reader gets a last emit, with the reason. A detached one that has ended is forgotten.
    pub fn end_query(&self, principal: &Principal, id: &QueryId, reason: EndReason) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// All streams, by name.
    pub fn streams(&self, principal: &Principal) -> Vec<StreamStatus> {
        unimplemented!()
    }

    /// One stream.
    pub fn stream(&self, principal: &Principal, name: &StreamName) -> Result<StreamStatus, EngineError> {
        unimplemented!()
    }

    /// All numbers at this moment.
    pub fn metrics(&self) -> Metrics {
        unimplemented!()
    }

    /// Waits until every event appended so far was looked at.
    pub async fn drained(&self) {
        unimplemented!()
    }

    /// Takes no more events and queries, looks at what waits, gives every query its final result, and stops; after
    /// `grace` it stops at once. Does nothing the second time.
    pub async fn shutdown(&self, grace: Duration) {
        unimplemented!()
    }
}

impl Subscription {
    /// What is known of the query from the start.
    pub fn query(&self) -> &Arc<QueryMeta> {
        unimplemented!()
    }

    /// The next emit; `None` after the last one. May be cancelled without losing an emit.
    pub async fn next(&mut self) -> Option<Emit> {
        unimplemented!()
    }

    /// The next emit if there is one now.
    pub fn try_next(&mut self) -> Option<Emit> {
        unimplemented!()
    }

    /// As [`Subscription::next`], for a thread that may wait.
    pub fn next_blocking(&mut self) -> Option<Emit> {
        unimplemented!()
    }

    /// Lets the query stand without this reader, though it was not submitted as detached.
    pub fn detach(self) -> QueryId {
        unimplemented!()
    }
}
