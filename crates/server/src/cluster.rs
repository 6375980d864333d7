//! `/v1/cluster`: the nodes and partitions of the cluster that this server is a node of, its queries, and the drain of this node.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, Uri},
    response::Response,
};
use serde_json::{Value, json};
use swiftwater_engine::{ClusterNode, ClusterPartition, ClusterQueryStatus};

use crate::{body::heavy, parameters::Parameters, problem::Problem, server::Shared, status::json_response};

/// The most queries of one list.
const LISTED_MAX: usize = 10_000;

pub(crate) async fn show(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let status = shared.engine.cluster_status().await?;
    let answer = json!({
        "cluster": status.name,
        "node": status.node,
        "nodes": status.nodes.iter().map(node_json).collect::<Vec<_>>(),
        "partitions": status.partitions.iter().map(partition_json).collect::<Vec<_>>(),
        "queries": status.queries,
        "warnings": status.warnings,
    });
    Ok(json_response(StatusCode::OK, &answer))
}

pub(crate) fn node_json(node: &ClusterNode) -> Value {
    json!({
        "node": node.name,
        "address": node.address,
        "host": node.host,
        "version": node.version,
        "roles": node.roles,
        "state": node.state(),
        "works": node.is_worker,
        "partitions": node.partitions,
        "lag": node.lag,
        "queries": node.queries,
    })
}

fn partition_json(partition: &ClusterPartition) -> Value {
    json!({
        "stream": partition.stream,
        "topic": partition.topic,
        "partition": partition.partition,
        "node": partition.node,
        "next": partition.next,
        "end": partition.end,
        "lag": partition.lag(),
        "rejected": partition.rejected,
        "tombstones": partition.tombstones,
        "lost": partition.lost,
        "error": partition.error,
    })
}

/// Lists the queries of all nodes, the oldest first.
pub(crate) async fn queries(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["limit"])?;
    let limit = parameters.limit(LISTED_MAX)?;
    let queries = shared.engine.cluster_queries(limit)?;
    Ok(heavy(usize::MAX, || {
        let listed: Vec<Value> = queries.iter().map(query_json).collect();
        json_response(StatusCode::OK, &json!({ "queries": listed }))
    }))
}

fn query_json(query: &ClusterQueryStatus) -> Value {
    json!({
        "id": query.id,
        "stream": query.stream,
        "text": query.text,
        "node": query.node,
        "begins": swiftwater_event::rfc3339(query.begins.saturating_mul(1000)),
    })
}

/// Has this node take no more work.
pub(crate) async fn drain(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<StatusCode, Problem> {
    set_draining(&shared, &uri, true)
}

/// Has this node take work again.
pub(crate) async fn resume(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<StatusCode, Problem> {
    set_draining(&shared, &uri, false)
}

fn set_draining(shared: &Shared, uri: &Uri, is_draining: bool) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    shared.engine.drain_cluster_node(is_draining)?;
    Ok(StatusCode::ACCEPTED)
}
