//! The queries of nodes that are gone: those that go on without a client begin anew on another node, the others end.

use std::{collections::BTreeSet, sync::Arc};

use swiftwater_cluster::Role;
use swiftwater_kafka::OffsetAt;
use tokio::time::{MissedTickBehavior, interval};

use super::{Cluster, nodes::node_of, submit::NotTakenOver};
use crate::durable::history::History;

impl Cluster {
    /// Looks for queries of nodes that are gone, without end.
    pub(super) async fn sweep(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let mut sweep = interval(self.config.sweep);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut suspected = BTreeSet::new();
        let work = async {
            loop {
                sweep.tick().await;
                self.ensure_topics().await;
                self.end_orphans(&mut suspected).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.received() => {}
        }
    }

    /// True if this node has read all streams and queries that there are.
    async fn has_read_all(&self) -> bool {
        let kafka = &self.config.kafka;
        let known = [(&self.topics.objects, &self.objects_read), (&self.topics.queries, &self.queries_read)];
        for (topic, read) in known {
            let Ok(ends) = kafka.offsets(topic, &[(0, OffsetAt::Latest)]).await else { return false };
            if ends.first().is_none_or(|end| *read.borrow() < *end) {
                return false;
            }
        }
        true
    }

    /// Ends the queries of nodes that were no members of the cluster twice, and those of an earlier start of this node.
    async fn end_orphans(&self, suspected: &mut BTreeSet<String>) {
        let Ok(nodes) = self.nodes().await else { return };
        if nodes.is_empty() || !self.has_read_all().await {
            return;
        }
        // One node takes over what others have left.
        let first = nodes.iter().map(|(node, _)| node).find(|node| node.roles.contains(&Role::Serve));
        let is_first = first.is_some_and(|node| node.name == self.config.node);
        let serves = self.has_role(Role::Serve);
        let mut left = Vec::new();
        let nodes: BTreeSet<&str> = nodes.iter().map(|(node, _)| &*node.name).collect();
        let mut ended = Vec::new();
        let mut suspects = BTreeSet::new();
        let mut own: BTreeSet<String> = self.written.lock().keys().cloned().collect();
        for (_, stream) in self.all_streams() {
            own.extend(stream.serving.keys());
        }
        for asked in self.queries.lock().all() {
            let server = &*asked.asked.server;
            let node = node_of(server);
            let is_earlier_start = node == self.config.node && server != &*self.me;
            // One of this node that nobody took up, or whose end could not be written.
            let is_nobodys = server == &*self.me && !own.contains(&asked.key);
            let is_gone = node != self.config.node && !nodes.contains(node);
            let is_suspect = is_gone || is_nobodys;
            if asked.asked.is_detached && (is_earlier_start || is_gone) && first.is_some() {
                let is_left = is_earlier_start || (is_first && suspected.contains(&asked.key));
                match is_left && serves {
                    true => left.push(asked.clone()),
                    false => drop(suspects.insert(asked.key.clone())),
                }
            } else if is_earlier_start || (is_suspect && suspected.contains(&asked.key)) {
                ended.push(asked.key.clone());
            } else if is_suspect {
                suspects.insert(asked.key.clone());
            }
        }
        *suspected = suspects;
        for query in left {
            // Another node may have taken it over meanwhile, or its client has ended it.
            let stands =
                self.queries.lock().get(&query.key).map(|now| (now.begins, now.asked.server.clone()));
            if stands != Some((query.begins, query.asked.server.clone())) {
                continue;
            }
            match self.take_over(&query).await {
                Ok(()) => {}
                Err(NotTakenOver::Now(why)) => {
                    tracing::debug!(query = query.key, why, "a detached query of a node that is gone waits");
                    suspected.insert(query.key);
                }
                Err(NotTakenOver::Ever(why)) => {
                    let what = "a detached query of a node that is gone is not asked again";
                    tracing::warn!(query = query.key, why, "{what}");
                    ended.push(query.key);
                }
            }
        }
        self.end(&ended).await;
    }
}
