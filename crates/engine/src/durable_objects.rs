//! Implements [`DurableObjects`]: answers the questions of live queries about durable objects.

use std::sync::Arc;

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{ParseOptions, Schema};
use swiftwater_runtime::{DurableObjects, JoinSources, parts::Stream};

use crate::durable::history::History;
use crate::{EndReason, QueryId};

/// A history as its runtime sees it.
pub(crate) struct ForRuntime(pub(crate) Arc<History>);

impl DurableObjects for ForRuntime {
    fn is_view(&self, name: &str) -> bool {
        self.0.is_view(name)
    }

    fn is_declared(&self, stream: &StreamName) -> bool {
        self.0.stored(stream).is_some() || self.0.unstored(stream).is_some() || self.0.is_of_cluster(stream)
    }

    fn is_remote(&self, stream: &StreamName) -> bool {
        self.0.is_of_cluster(stream)
    }

    fn schema(&self, name: &StreamName) -> Option<Schema> {
        if let Ok(view) = self.0.view(name.as_str()) {
            return Some(view.declared().schema());
        }
        if let Some(schema) = self.0.schema_of_cluster(name) {
            return Some(schema);
        }
        self.0.with_catalog(|catalog| {
            let create = &catalog.stream(name)?.create;
            create.is_declared().then(|| create.schema())
        })
    }

    fn found_fields(&self, stream: &StreamName) -> Vec<Box<str>> {
        let Some(stored) = self.0.stored(stream) else { return Vec::new() };
        stored.declared().columns.found().into_iter().map(|column| column.name).collect()
    }

    fn names(&self) -> Vec<String> {
        let streams = self.0.all_stored().into_iter().map(|stored| stored.name.to_string());
        streams.chain(self.0.named_views().iter().map(|view| view.name().to_owned())).collect()
    }

    fn join_sources(&self, text: &str, options: &ParseOptions<'_>) -> JoinSources {
        self.0.sources_of(text, options).sources
    }

    fn query_began(&self, name: &StreamName) {
        self.0.stream_view(name);
    }

    fn durable_queries(&self, stream: &StreamName) -> u64 {
        self.0.durable_queries(stream)
    }

    fn oldest_pending_arrival(&self, stream: &StreamName) -> Option<Millis> {
        self.0.stored(stream)?.oldest_pending_arrival()
    }

    fn followed(&self) -> Vec<Arc<Stream>> {
        self.0.followed()
    }

    fn query_ended(&self, id: QueryId, reason: EndReason, offset: u64, at: Millis) {
        self.0.record_end(id, reason, offset, at);
    }

    fn query_forgotten(&self, id: QueryId) {
        self.0.record_forgotten(id);
    }
}
