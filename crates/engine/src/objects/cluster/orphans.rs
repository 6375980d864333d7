//! The queries of nodes that are gone: those that go on without a client begin anew on another node, the others end.

use std::collections::BTreeSet;

use swiftwater_cluster::Role;

use super::{Cluster, nodes::node_of};

impl Cluster {
    /// Ends the queries of nodes that were no members of the cluster twice, and those of an earlier start of this node.
    pub(super) async fn end_orphans(&self, suspected: &mut BTreeSet<String>) {
        let Ok(nodes) = self.nodes().await else { return };
        if nodes.is_empty() {
            return;
        }
        // One node takes over what others have left.
        let first = nodes.iter().map(|(node, _)| node).find(|node| node.roles.contains(&Role::Serve));
        let takes_over = first.is_some_and(|node| node.name == self.config.node);
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
                let is_left = is_earlier_start || (takes_over && suspected.contains(&asked.key));
                match is_left {
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
            if let Err(why) = self.take_over(&query).await {
                tracing::warn!(
                    query = query.key,
                    why,
                    "a detached query of a node that is gone is not asked again"
                );
                ended.push(query.key);
            }
        }
        self.end(ended).await;
    }
}
