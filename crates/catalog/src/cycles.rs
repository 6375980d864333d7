//! Detects cycles among the streams that events flow through automatically. In a cycle, events would return to be counted
//! and written again without end.
//!
//! A view does not interrupt a flow: its input is in the end a stream, that of the lowest view below it. Jobs are not part
//! of a flow, because they run on a schedule only. The check runs when an object is created, never on objects that are in
//! the log already.

use swiftwater_lang::ddl::{CreateSink, CreateStream, SinkTarget};

use crate::{Catalog, CatalogError, kind::view::ViewEntry};

/// An object that writes into one stream for events of another.
struct Hop<'c> {
    from: &'c str,
    /// Its kind and name.
    by: (&'static str, &'c str),
    into: &'c str,
}

impl Catalog {
    /// An error where what goes into one of the streams `into` would come to one of `sources`, over others.
    pub fn check_no_way_round<'n>(
        &self,
        into: impl IntoIterator<Item = &'n str>,
        sources: &[&str],
    ) -> Result<(), CatalogError> {
        let hops = self.hops();
        for stream in into {
            if let Some(way) = way(&hops, stream, sources) {
                return Err(CatalogError::Cycle { stream: stream.to_owned(), way });
            }
        }
        Ok(())
    }

    /// The streams that read the topic of a sink, if it has one.
    pub fn streams_of_topic<'c>(&'c self, sink: &CreateSink) -> impl Iterator<Item = &'c str> + use<'c> {
        let target = match &sink.target {
            SinkTarget::Kafka(target) => Some((target.topic.clone(), target.connection().to_owned())),
            _ => None,
        };
        let reads = move |create: &CreateStream| {
            let source = create.source.as_ref().map(|source| (&source.topic, source.options.connection()));
            target.as_ref().is_some_and(|(topic, name)| source == Some((topic, &**name)))
        };
        let streams = self.streams().map(|(_, entry)| &entry.create);
        streams.filter(move |create| reads(create)).map(|create| create.name.as_str())
    }

    fn hops(&self) -> Vec<Hop<'_>> {
        let mut hops = Vec::new();
        for join in self.joins.values() {
            let (by, into) = (("join", &*join.create.name), join.create.target.as_str());
            hops.extend(join.create.sides.iter().map(|side| Hop { from: side.as_str(), by, into }));
        }
        for sink in self.sinks.all() {
            let view = self.views.values().find(|view| sink.view == Some(view.id));
            let below = view.and_then(|view| self.stream_below(view));
            let from = sink.create.query().map(|query| query.stream.as_str()).or(below);
            if let Some(from) = from {
                let by = ("sink", &*sink.create.name);
                let into = sink.create.streams().chain(self.streams_of_topic(&sink.create));
                hops.extend(into.map(|into| Hop { from, by, into }));
            }
        }
        for alert in self.alerts.values() {
            if let Some(from) = self.any_view(&alert.view()).and_then(|view| self.stream_below(view)) {
                let by = ("alert", &*alert.create.name);
                hops.extend(alert.create.streams().map(|into| Hop { from, by, into }));
            }
        }
        hops
    }

    /// The name of the stream that a view is of, or the lowest one below it.
    fn stream_below(&self, view: &ViewEntry) -> Option<&str> {
        let stream = self.stream_of_number(view.stream);
        stream.map(|stream| stream.create.name.as_str())
    }
}

/// The shortest way from a stream to one of others, if there is one.
fn way(hops: &[Hop<'_>], from: &str, to: &[&str]) -> Option<Vec<String>> {
    let mut reached: Vec<(&str, Vec<String>)> = vec![(from, Vec::new())];
    let mut next = 0;
    while let Some((stream, way)) = reached.get(next).cloned() {
        if to.contains(&stream) {
            return Some(way);
        }
        for Hop { by: (kind, name), into, .. } in hops.iter().filter(|hop| hop.from == stream) {
            if reached.iter().all(|(known, _)| known != into) {
                let mut longer = way.clone();
                longer.push(format!("by {kind} `{name}` into stream `{into}`"));
                reached.push((*into, longer));
            }
        }
        next += 1;
    }
    None
}
