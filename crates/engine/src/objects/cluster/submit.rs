//! Queries of the cluster: a node writes one to `.queries`, and every node reads all of them.

use std::sync::{Arc, OnceLock, atomic::Ordering};

use swiftwater_cluster::{QueryNumber, Role};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{ParseOptions, plan::Literal, stream_of};
use swiftwater_runtime::{Principal, QueryForm, QueryId, SubmitOptions, parts::RemoteStart};
use tokio::sync::oneshot;

use super::{
    Cluster, ClusterQuery, ClusterStream, QueryMessage,
    queries::Changes,
    query_text::{form_of, options_of, served},
    refused,
    serving::BeginsSoon,
    topics::READ_BACK,
    unavailable,
};
use crate::{EngineError, durable::history::History, shared::Shared};

/// A query of this node that is written and not read back; nobody waits for it when this is dropped.
struct Awaited<'c> {
    cluster: &'c Cluster,
    key: String,
}

/// A query of this node that was read back, and that it has not begun to serve.
#[derive(Debug)]
pub(super) struct ReadBack {
    number: QueryNumber,
    begins: Millis,
    /// Units wait until it is dropped.
    _begins_soon: BeginsSoon,
}

/// The reason why a query is not taken over.
pub(super) enum NotTakenOver {
    /// It may be later.
    Now(String),
    /// It can never be.
    Ever(String),
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.cluster.written.lock().remove(&self.key);
    }
}

impl Cluster {
    /// Asks a query of the whole cluster if it is over one of its streams, and returns the beginning that it has everywhere.
    pub(crate) async fn ask(
        &self,
        text: &str,
        options: &SubmitOptions,
    ) -> Result<Option<RemoteStart>, EngineError> {
        let Some(shared) = self.shared.upgrade() else { return Ok(None) };
        let now = shared.clock.now();
        let parse_options = ParseOptions {
            parameters: &options.parameters,
            text_bytes_max: shared.config.query_text_bytes_max,
            ..ParseOptions::new(options.dialect, now)
        };
        let named = match options.form {
            QueryForm::Bql => stream_of(text, &parse_options).flatten(),
            QueryForm::Json => None,
        };
        let Some(name) = named.or_else(|| shared.config.default_stream.clone()) else { return Ok(None) };
        if self.stream(&name).is_none() {
            return Ok(None);
        }
        if !self.has_role(Role::Serve) {
            return Err(self.elsewhere(Role::Serve).await);
        }
        self.begin(&shared, shared.new_query_id(), (text, now), options).await
    }

    /// Begins a query over a stream of the cluster on all nodes; this one serves it.
    async fn begin(
        &self,
        shared: &Arc<Shared>,
        id: QueryId,
        (text, now): (&str, Millis),
        options: &SubmitOptions,
    ) -> Result<Option<RemoteStart>, EngineError> {
        // The submission that follows tells what is wrong with it.
        let Ok(wanted) = shared.runtime.wanted(text, options, now) else { return Ok(None) };
        let name = wanted.stream.clone();
        let Some(stream) = self.stream(&name) else { return Ok(None) };
        let plan = shared.runtime.plan(text, options, now)?;
        self.know_partitions(&stream).await?;
        let duration_ms = wanted.ends().map(|ends| ends.abs_diff(now));
        let ends = |begins: Millis| duration_ms.map(|ms| begins.saturating_add_unsigned(ms));
        let (sent, checked) = served(text, options, &plan, stream.schema(), now, ends(now))
            .map_err(|why| refused(format!("stream `{name}` is one of the cluster: {why}")))?;
        self.units_are_read().await?;
        let operator = checked.operator;
        let key = id.to_string();
        let (reply, answer) = oneshot::channel();
        self.written.lock().insert(key.clone(), reply);
        let _awaited = Awaited { cluster: self, key: key.clone() };
        let asked = QueryMessage {
            stream: name.to_string(),
            asked: sent.is_of_events.then(|| (text.to_owned(), form_of(options, plan.dialect))),
            text: sent.text,
            form: sent.form,
            parameters: options.parameters.iter().map(Literal::to_string).collect(),
            duration_ms,
            server: self.me.to_string(),
            operator: (operator.0, operator.1),
            // A schema that this node has beside the stream's is not known to others.
            is_detached: options.detach && options.schema.is_none(),
            waits: options.waits,
            times: options.times,
        };
        let value = serde_json::to_string(&asked).map_err(|error| refused(error.to_string()))?;
        let written = self.write(&self.topics.queries, &key, Some(value)).await;
        let read = match written {
            Ok(_) => tokio::time::timeout(READ_BACK, answer).await.ok().and_then(Result::ok),
            Err(error) => return Err(error),
        };
        let Some(ReadBack { number, begins, _begins_soon: begins_soon }) = read else {
            return Err(match self.stream(&name) {
                Some(_) => {
                    unavailable("the query was written, and could not be read back in time".to_owned())
                }
                None => refused(format!("stream `{name}` of the cluster was dropped")),
            });
        };
        if !self.has_role(Role::Serve) {
            // It began to drain meanwhile. A query that nobody serves is ended.
            drop(begins_soon);
            return Err(self.elsewhere(Role::Serve).await);
        }
        let mut query = checked.at(number, begins, ends(begins));
        query.waits = options.waits;
        let place = Arc::new(OnceLock::new());
        let of_node = (shared.config.shards, asked.is_detached);
        let on = stream.serving.add(query, key.clone(), Arc::clone(&place), of_node);
        drop(begins_soon);
        // Another node may have taken it over, or a client ended it, since it was read back.
        if self.queries.lock().number_of(&key) != Some(number) {
            stream.serving.fail(&key, "the query has ended, or another node has taken it over", true);
        }
        Ok(Some(RemoteStart { stream: on, id, begins, number: place }))
    }

    /// The server knows all partitions before its first query: else it would not wait for those that it has not heard of.
    async fn know_partitions(&self, stream: &ClusterStream) -> Result<(), EngineError> {
        let mut partitions = stream.partitions.load(Ordering::Relaxed);
        if partitions == 0 {
            let topic = self.config.kafka.topic(&stream.topic).await;
            partitions = topic.map_err(|error| unavailable(error.to_string()))?.partitions;
        }
        stream.serving.set_partitions(partitions);
        Ok(())
    }

    /// Waits until this node reads the units for it: those that come before are not for its queries.
    async fn units_are_read(&self) -> Result<(), EngineError> {
        let mut read = self.units_read.subscribe();
        let read = tokio::time::timeout(READ_BACK, read.wait_for(Option::is_some));
        match read.await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(unavailable("this node does not read the results of the cluster yet".to_owned())),
        }
    }

    /// Asks a detached query of a node that is gone again, under its id. It begins anew, and its end is the one that it had.
    pub(super) async fn take_over(&self, query: &ClusterQuery) -> Result<(), NotTakenOver> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let ClusterQuery { key, begins, asked } = query;
        let id: QueryId = key.parse().map_err(|_| NotTakenOver::Ever("its id is not one".to_owned()))?;
        let mut options = options_of(asked).map_err(NotTakenOver::Ever)?;
        let now = shared.clock.now();
        let left = asked.duration_ms.map(|ms| begins.saturating_add_unsigned(ms).saturating_sub(now));
        if left.is_some_and(|left| left <= 0) {
            return Err(NotTakenOver::Ever("its time is over".to_owned()));
        }
        options.duration_ms = left.map(Millis::unsigned_abs);
        options.warning = Some(format!(
            "the node that served the query is gone: the query began anew on node `{}`",
            self.config.node
        ));
        let text = asked.asked_text();
        let parse_options =
            ParseOptions { parameters: &options.parameters, ..ParseOptions::new(options.dialect, now) };
        if let Some(history) = shared.history.get() {
            let pinned = history.pin_joined(&shared, text, &parse_options).await;
            pinned.map_err(|error| NotTakenOver::Now(error.to_string()))?;
        }
        let begun = self.begin(&shared, id, (text, now), &options).await;
        options.remote = begun.map_err(|error| match error {
            EngineError::Cluster(why) => NotTakenOver::Ever(why),
            other => NotTakenOver::Now(other.to_string()),
        })?;
        if options.remote.is_none() {
            let is_known = StreamName::new(&asked.stream).is_ok_and(|name| self.stream(&name).is_some());
            let why = match shared.runtime.plan(text, &options, now) {
                _ if !is_known => "its stream was dropped".to_owned(),
                Err(error) => error.to_string(),
                Ok(_) => return Err(NotTakenOver::Now("this node takes no queries at present".to_owned())),
            };
            return Err(NotTakenOver::Ever(why));
        }
        let begun = shared.runtime.submit(&Principal::anonymous(), text, options);
        begun.map(drop).map_err(|error| NotTakenOver::Ever(error.to_string()))
    }

    /// Reads the streams of the cluster, without end.
    pub(super) async fn read_objects(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let mut retry = Cluster::retry();
        let work = async {
            loop {
                self.ensure_topics().await;
                let take = |_: u64, _: Millis, key: &str, value: Option<&[u8]>| {
                    let text = value.map(|value| String::from_utf8_lossy(value).into_owned());
                    self.apply(&history, key, text.as_deref());
                };
                let read = |next: u64| {
                    self.objects_read.send_replace(next);
                };
                let error = self.follow(&self.topics.objects, take, read).await;
                self.rest("the streams of the cluster are not read at present", &error, &mut retry).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.received() => {}
        }
    }

    /// Reads the queries of the cluster, without end.
    pub(super) async fn read_queries(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let mut retry = Cluster::retry();
        let work = async {
            loop {
                self.ensure_topics().await;
                let take = |offset: u64, time: Millis, key: &str, value: Option<&[u8]>| {
                    self.take_query(offset, time, key, value);
                };
                let read = |next: u64| {
                    self.queries_read.send_if_modified(|known| {
                        let is_new = *known < next;
                        *known = next.max(*known);
                        is_new
                    });
                };
                let error = self.follow(&self.topics.queries, take, read).await;
                self.rest("the queries of the cluster are not read at present", &error, &mut retry).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.received() => {}
        }
    }

    /// Ends a query that this node serves; with `is_others`, another one goes on with it.
    fn fail_query(&self, stream: &str, key: &str, why: &'static str, is_others: bool) {
        let stream = StreamName::new(stream).ok().and_then(|name| self.stream(&name));
        if let Some(stream) = stream {
            stream.serving.fail(key, why, is_others);
        }
    }

    fn take_query(&self, number: u64, begins: Millis, key: &str, value: Option<&[u8]>) {
        let Some(value) = value else {
            let stream = self.queries.lock().end(key);
            // Nobody computes it any more: here it has ended already, or others took this node for gone.
            if let Some(stream) = stream {
                self.fail_query(
                    &stream,
                    key,
                    "other nodes took this one for gone, and ended the query",
                    true,
                );
            }
            return;
        };
        let Ok(asked) = serde_json::from_slice::<QueryMessage>(value) else {
            tracing::error!(key, "the cluster has a query that this release cannot read: upgrade this node");
            return;
        };
        if asked.server != *self.me {
            self.fail_query(&asked.stream, key, "another node has taken the query over", true);
        }
        let stream = StreamName::new(&asked.stream).ok().and_then(|name| self.stream(&name));
        {
            let mut queries = self.queries.lock();
            // A node may have taken it over from another.
            queries.end(key);
            queries.add(number, ClusterQuery { key: key.to_owned(), begins, asked });
        }
        let reply = self.written.lock().remove(key);
        if let (Some(reply), Some(stream)) = (reply, stream) {
            // The client may be gone: then nobody takes the query, and it is ended.
            let _ = reply.send(ReadBack { number, begins, _begins_soon: stream.serving.begins_soon(number) });
        }
    }

    /// The changes of a stream's queries for one of its readers, which was given all with lower numbers than `from`; and the offset up to
    /// which all are known.
    pub(super) fn changes_of(
        &self,
        stream: &StreamName,
        (reader, from): (usize, QueryNumber),
    ) -> (Changes, QueryNumber) {
        // Read first: the changes have at least those.
        let next = *self.queries_read.borrow();
        (self.queries.lock().changes(stream.as_str(), (reader, from)), next)
    }
}
