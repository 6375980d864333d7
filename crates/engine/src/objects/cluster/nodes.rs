//! The nodes of the cluster: members of a second consumer group, whose `client.id` describes them. So a node without partitions is known,
//! too, and no node keeps a list of others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use swiftwater_cluster::{NodeDescription, Role, Roles};
use swiftwater_event::StreamName;
use swiftwater_kafka::{GroupEvent, KafkaError, MemberDescription, MemberOptions, OffsetAt, TopicPartition};
use swiftwater_runtime::QueryId;

use super::{
    Cluster, ClusterQuery,
    positions::{Committed, LeftOut},
    unavailable,
};
use crate::{
    EngineError,
    answer::{table, texts},
    durable::history::History,
    status::{ClusterNode, ClusterPartition, ClusterQueryStatus, ClusterStatus},
};

/// The clocks of a node and of the brokers may be apart by so many milliseconds before that is said.
const CLOCKS_APART_MS: u64 = 1_000;

impl Cluster {
    /// This node as others see it: without roles while it is draining.
    pub(super) fn description(&self) -> NodeDescription {
        NodeDescription {
            name: self.config.node.clone(),
            roles: self.roles(),
            address: self.config.advertise.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn roles(&self) -> Roles {
        match *self.draining.borrow() {
            true => Roles::new(),
            false => self.config.roles.clone(),
        }
    }

    pub(super) fn has_role(&self, role: Role) -> bool {
        self.roles().contains(&role)
    }

    /// Takes no more work: partitions go to other nodes, and queries that stand here are served until they end. Or takes work again.
    pub(crate) fn drain(&self, is_draining: bool) {
        self.draining.send_if_modified(|now| std::mem::replace(now, is_draining) != is_draining);
    }

    /// Is a member of the group of nodes, without end.
    pub(super) async fn join_nodes(self: Arc<Self>, history: Arc<History>) {
        let mut stop = history.closing();
        let mut retry = Cluster::retry();
        loop {
            let joined = tokio::select! {
                joined = self.try_join_nodes() => joined,
                () = stop.received() => return,
            };
            if let Err(error) = joined {
                self.rest("other nodes do not know this one at present", &error, &mut retry).await;
            }
        }
    }

    /// Returns when the description has changed.
    async fn try_join_nodes(&self) -> Result<(), KafkaError> {
        self.ensure_topics().await;
        let mut draining = self.draining.subscribe();
        draining.borrow_and_update();
        let mut member = self.config.kafka.member(&MemberOptions {
            group: self.topics.nodes.clone(),
            topics: vec![self.topics.objects.to_string()],
            instance_id: None,
            client_id: Some(self.description().to_string()),
            session_timeout: self.config.session_timeout,
            protocol: self.config.group_protocol,
        })?;
        loop {
            tokio::select! {
                // The sender lives as long as this node.
                Ok(()) = draining.changed() => {
                    member.leave().await;
                    return Ok(());
                }
                event = member.next() => match event {
                    GroupEvent::Waiting(error) => {
                        tracing::warn!(%error, hint = error.hint(), "other nodes do not know this one at present");
                    }
                    GroupEvent::Failed(error) => return Err(error),
                    GroupEvent::Assigned(_) | GroupEvent::Revoked(_) | GroupEvent::Lost(_) => {}
                },
            }
        }
    }

    /// The nodes of the cluster, each with the host that it is connected from, in the order of their names.
    pub(super) async fn nodes(&self) -> Result<Vec<(NodeDescription, String)>, KafkaError> {
        let members = self.config.kafka.group(&self.topics.nodes).await?;
        let described = members
            .into_iter()
            .filter_map(|member| Some((NodeDescription::of_client_id(&member.client_id)?, member.host)));
        let mut nodes: Vec<_> = described.collect();
        nodes.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        Ok(nodes)
    }

    /// The error for work that this node does not take, which names one that does.
    pub(super) async fn elsewhere(&self, role: Role) -> EngineError {
        let nodes = match self.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => return unavailable(error.to_string()),
        };
        let takes = |node: &NodeDescription| node.roles.contains(&role) && node.name != self.config.node;
        let mut others: Vec<NodeDescription> =
            nodes.into_iter().map(|(node, _)| node).filter(takes).collect();
        if others.iter().any(|node| node.address.is_some()) {
            others.retain(|node| node.address.is_some());
        }
        // By turns, about, so that no node gets the work of all.
        let turn = self.shared.upgrade().map_or(0, |shared| shared.clock.now_micros()) as usize;
        let other = (!others.is_empty()).then(|| others.swap_remove(turn % others.len()));
        let what = match role {
            Role::Serve => "takes no queries over the cluster",
            Role::Receive => "takes no events of the cluster",
            Role::Work => "reads no partitions",
        };
        let text = format!("node `{}` {what}", self.config.node);
        match other {
            Some(node) => EngineError::OtherNode { text, node: node.name, address: node.address },
            None => unavailable(format!("{text}, and there is no other node that does")),
        }
    }

    /// Refuses events of the cluster's streams at a node that takes none, by the name of one that does.
    pub(crate) async fn check_receives(&self) -> Result<(), EngineError> {
        match self.has_role(Role::Receive) {
            true => Ok(()),
            false => Err(self.elsewhere(Role::Receive).await),
        }
    }

    /// The error for a query that another node serves; none if no node does.
    pub(crate) async fn node_of_query(&self, id: &QueryId) -> Option<EngineError> {
        let id = id.to_string();
        let server = {
            let queries = self.queries.lock();
            queries.get(&id)?.asked.server.clone()
        };
        let name = node_of(&server);
        let nodes = self.nodes().await.unwrap_or_default();
        let node = nodes.into_iter().map(|(node, _)| node).find(|node| node.name == name)?;
        if node.name == self.config.node {
            return None;
        }
        let text = format!("node `{name}` serves query `{id}`");
        Some(EngineError::OtherNode { text, node: node.name, address: node.address })
    }

    /// The queries of all nodes, the oldest first, so many at most.
    pub(crate) fn all_queries(&self, limit: usize) -> Vec<ClusterQueryStatus> {
        let queries = self.queries.lock();
        let status = |asked: &ClusterQuery| ClusterQueryStatus {
            id: asked.key.clone(),
            stream: asked.asked.stream.clone(),
            text: asked.asked.asked_text().to_owned(),
            node: node_of(&asked.asked.server).to_owned(),
            begins: asked.begins,
        };
        let mut all: Vec<&ClusterQuery> = queries.all().collect();
        all.sort_by(|a, b| (a.begins, &a.key).cmp(&(b.begins, &b.key)));
        all.into_iter().take(limit).map(status).collect()
    }

    /// The state of the whole cluster.
    pub(crate) async fn status(&self) -> Result<ClusterStatus, EngineError> {
        self.ensure_made().await?;
        let found = self.nodes_and_partitions().await;
        let (nodes, partitions, failures) = found.map_err(|error| unavailable(error.to_string()))?;
        let mut status = ClusterStatus {
            name: self.config.name.clone(),
            node: self.config.node.clone(),
            nodes,
            partitions,
            queries: self.queries.lock().all().count() as u64,
            warnings: failures,
        };
        let faults = status.faults();
        status.warnings.extend(faults);
        status.warnings.extend(self.clock_warning().await);
        Ok(status)
    }

    /// Nodes, partitions, and failures of streams whose topics cannot be looked up.
    async fn nodes_and_partitions(
        &self,
    ) -> Result<(Vec<ClusterNode>, Vec<ClusterPartition>, Vec<String>), KafkaError> {
        let nodes = self.nodes().await?;
        let workers = self.config.kafka.group(&self.topics.workers).await?;
        let (partitions, failures) = self.all_partitions(&workers).await;
        let mut queries: HashMap<String, u64> = HashMap::new();
        for asked in self.queries.lock().all() {
            *queries.entry(node_of(&asked.asked.server).to_owned()).or_default() += 1;
        }
        let nodes = nodes.into_iter().map(|(node, host)| {
            let own = || partitions.iter().filter(|of| of.node.as_ref() == Some(&node.name));
            ClusterNode {
                partitions: own().count() as u64,
                is_worker: workers.iter().any(|member| member.client_id == node.name),
                lag: own().filter_map(|of| of.lag()).sum(),
                queries: queries.get(&node.name).copied().unwrap_or(0),
                is_draining: node.roles.is_empty(),
                roles: node.role_names(),
                name: node.name,
                address: node.address,
                version: node.version,
                host: host.trim_start_matches('/').to_owned(),
            }
        });
        Ok((nodes.collect(), partitions, failures))
    }

    /// The partitions of the cluster's streams; none where brokers do not answer.
    pub(crate) async fn known_partitions(&self) -> Vec<ClusterPartition> {
        match self.config.kafka.group(&self.topics.workers).await {
            Ok(workers) => self.all_partitions(&workers).await.0,
            Err(_) => Vec::new(),
        }
    }

    async fn all_partitions(&self, workers: &[MemberDescription]) -> (Vec<ClusterPartition>, Vec<String>) {
        let (mut all, mut failures) = (Vec::new(), Vec::new());
        for (name, stream) in self.all_streams() {
            match self.partitions_of(&name, &stream.topic, workers).await {
                Ok(partitions) => all.extend(partitions),
                Err(error) => failures.push(format!("stream `{name}`: {error}")),
            }
        }
        (all, failures)
    }

    async fn partitions_of(
        &self,
        stream: &StreamName,
        topic: &str,
        workers: &[MemberDescription],
    ) -> Result<Vec<ClusterPartition>, KafkaError> {
        let kafka = &self.config.kafka;
        let owners: BTreeMap<&TopicPartition, &str> = workers
            .iter()
            .flat_map(|member| member.partitions.iter().map(|of| (of, member.client_id.as_str())))
            .collect();
        let described = kafka.topic(topic).await?;
        let asked: Vec<(u32, OffsetAt)> =
            (0..described.partitions).map(|partition| (partition, OffsetAt::Latest)).collect();
        let of_topic: Vec<TopicPartition> =
            (0..described.partitions).map(|of| TopicPartition::new(topic, of)).collect();
        let ends = kafka.offsets(topic, &asked).await?;
        let committed = kafka.group_offsets(&self.topics.workers, &of_topic).await?;
        let partitions = of_topic.iter().zip(ends).zip(committed).map(|((of, end), committed)| {
            let committed = committed.and_then(|(_, text)| Committed::parse(&text, described.id));
            let next = committed.as_ref().map(|committed| committed.next);
            let LeftOut { rejected, tombstones, lost } =
                committed.as_ref().and_then(|committed| committed.left_out).unwrap_or_default();
            let error = committed.and_then(|committed| committed.waits);
            let node = owners.get(of).map(|node| (*node).to_owned());
            let (stream, topic) = (stream.to_string(), topic.to_owned());
            let partition = of.partition;
            ClusterPartition { stream, topic, partition, node, next, end, rejected, tombstones, lost, error }
        });
        Ok(partitions.collect())
    }

    /// A warning if this node's clock and the brokers' are far apart.
    async fn clock_warning(&self) -> Option<String> {
        let asked = self.shared.upgrade()?.clock.now();
        let told = self.broker_time().await?;
        let answered = self.shared.upgrade()?.clock.now();
        // The brokers' time is of a moment between the two.
        let apart =
            if told < asked { asked.abs_diff(told) } else { told.saturating_sub(answered).max(0) as u64 };
        (apart > CLOCKS_APART_MS).then(|| {
            format!(
                "the clock of node `{}` and that of the brokers are {apart} ms apart: windows go by the brokers' clock",
                self.config.node
            )
        })
    }

    /// `SHOW NODES`.
    pub(crate) async fn show_nodes(&self) -> Result<RecordBatch, EngineError> {
        let nodes = self.status().await?.nodes;
        let numbers = |of: fn(&ClusterNode) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(nodes.iter().map(|node| of(node) as i64)))
        };
        let roles: Vec<String> = nodes.iter().map(|node| node.roles.join(" ")).collect();
        Ok(table([
            ("node", texts(nodes.iter().map(|node| &*node.name))),
            ("address", Arc::new(nodes.iter().map(|node| node.address.clone()).collect::<StringArray>())),
            ("host", texts(nodes.iter().map(|node| &*node.host))),
            ("version", texts(nodes.iter().map(|node| &*node.version))),
            ("roles", texts(roles.iter().map(String::as_str))),
            ("state", texts(nodes.iter().map(ClusterNode::state))),
            ("partitions", numbers(|node| node.partitions)),
            ("lag", numbers(|node| node.lag)),
            ("queries", numbers(|node| node.queries)),
        ]))
    }
}

/// The name of the node in that of one of its starts.
pub(super) fn node_of(server: &str) -> &str {
    server.rsplit_once('/').map_or(server, |(node, _)| node)
}

impl ClusterStatus {
    /// The faults of a cluster that can be told from its state.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut names = BTreeSet::new();
        let mut versions = BTreeSet::new();
        for node in &self.nodes {
            versions.insert(&*node.version);
            if !names.insert(&*node.name) {
                faults.push(format!(
                    "two nodes have the name `{}`: give each its own `cluster.node_id`",
                    node.name
                ));
            }
            if node.address.is_none() && !node.is_draining {
                faults.push(format!(
                    "node `{}` tells no address, so others cannot pass requests on to it: set `cluster.advertise`",
                    node.name
                ));
            }
        }
        if !names.contains(&*self.node) {
            faults.push(format!("node `{}` has not joined the cluster (yet)", self.node));
        }
        if versions.len() > 1 {
            let all: Vec<&str> = versions.into_iter().collect();
            faults.push(format!("nodes have different releases: {}", all.join(", ")));
        }
        for role in Role::ALL {
            if !self.nodes.iter().any(|node| node.roles.contains(&role.name())) {
                faults.push(format!("no node has the role `{}`", role.name()));
            }
        }
        let unread = self.partitions.iter().filter(|of| of.node.is_none()).count();
        // While the group divides the partitions, brokers tell the partitions of no member.
        let is_dividing = unread == self.partitions.len() && self.nodes.iter().any(|node| node.is_worker);
        if unread > 0 && !is_dividing {
            faults.push(format!("{unread} of {} partitions are read by no node", self.partitions.len()));
        }
        faults
    }
}
