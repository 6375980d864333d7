//! `swiftwater cluster`: shows the nodes of a cluster, looks for faults, and drains a node.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use hyper::Method;
use serde::Deserialize;

use crate::{
    args::{ClusterArgs, ClusterCommand, ClusterShowArgs, DrainArgs},
    client::{Client, Problem},
    exit::{Failure, Outcome},
    signals::client_runtime,
    stdio::{complain, write_out},
    text_table::Table,
};

/// The time between two looks at a node that is draining.
const LOOK: Duration = Duration::from_millis(500);

/// The answer of `/v1/cluster`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cluster {
    cluster: String,
    node: String,
    nodes: Vec<Node>,
    partitions: Vec<Partition>,
    queries: u64,
    warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    node: String,
    address: Option<String>,
    version: String,
    roles: Vec<String>,
    state: String,
    works: bool,
    partitions: u64,
    lag: u64,
    queries: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Partition {
    stream: String,
    topic: String,
    partition: u32,
    node: Option<String>,
    next: Option<u64>,
    end: u64,
    lag: Option<u64>,
    rejected: Option<u64>,
    lost: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(args: &ClusterArgs) -> Outcome {
    let runtime = client_runtime().context("cannot start")?;
    runtime.block_on(async {
        match &args.command {
            ClusterCommand::Status(args) => status(args).await,
            ClusterCommand::Check(args) => check(&Client::new(args.client.url())?).await,
            ClusterCommand::Drain(args) => drain(args).await,
            ClusterCommand::Resume(args) => {
                call(&Client::new(args.client.url())?, Method::DELETE, "/v1/cluster/drain").await?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn call(client: &Client, method: Method, path: &str) -> anyhow::Result<bytes::Bytes> {
    let (status, body) = client.fetch(method, path).await?;
    match status.is_success() {
        true => Ok(body),
        false => Err(anyhow::anyhow!("{}", Problem::read(status, &body).text(None))),
    }
}

async fn fetch(client: &Client) -> anyhow::Result<Cluster> {
    let body = call(client, Method::GET, "/v1/cluster").await?;
    serde_json::from_slice(&body).context("the server's answer is not the state of a cluster")
}

async fn status(args: &ClusterShowArgs) -> Outcome {
    let client = Client::new(args.client.url())?;
    if args.json {
        let body = call(&client, Method::GET, "/v1/cluster").await?;
        return write_out(|out| out.write_all(&body));
    }
    let cluster = fetch(&client).await?;
    write_out(|out| {
        writeln!(
            out,
            "cluster {}, asked at node {}: {} queries",
            cluster.cluster, cluster.node, cluster.queries
        )?;
        let mut text = String::from("node,state,roles,address,version,partitions,lag,queries\n");
        for Node { node, address, version, roles, state, partitions, lag, queries, .. } in &cluster.nodes {
            let (roles, address) = (roles.join(" "), address.as_deref().unwrap_or_default());
            text += &format!("{node},{state},{roles},{address},{version},{partitions},{lag},{queries}\n");
        }
        table(&text, out)?;
        let mut text = String::from("stream,topic,partition,node,next,end,lag,rejected,lost\n");
        for of in &cluster.partitions {
            let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
            let Partition { stream, topic, partition, node, next, end, lag, rejected, lost } = of;
            let node = node.as_deref().unwrap_or_default();
            let (next, lag) = (number(*next), number(*lag));
            let (rejected, lost) = (number(*rejected), number(*lost));
            text +=
                &format!("\"{stream}\",{topic},{partition},{node},{next},{end},{lag},{rejected},{lost}\n");
        }
        table(&text, out)?;
        cluster.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))
    })
}

fn table(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(false);
    table.push(text.as_bytes(), out)?;
    table.finish(out)
}

async fn check(client: &Client) -> Outcome {
    let cluster = fetch(client).await?;
    for warning in &cluster.warnings {
        complain(&format!("warning: {warning}"));
    }
    if !cluster.warnings.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    write_out(|out| {
        let (nodes, partitions) = (cluster.nodes.len(), cluster.partitions.len());
        writeln!(
            out,
            "cluster {}: {nodes} nodes and {partitions} partitions, nothing is wrong",
            cluster.cluster
        )
    })
}

/// Drains a node, and waits until it has no partitions and serves no queries.
async fn drain(args: &DrainArgs) -> Outcome {
    let client = Client::new(args.client.url())?;
    call(&client, Method::POST, "/v1/cluster/drain").await?;
    if args.no_wait {
        return Ok(ExitCode::SUCCESS);
    }
    let drained = async {
        let mut told = String::new();
        loop {
            // Brokers that do not answer at one time may at the next.
            let cluster = fetch(&client).await.unwrap_or_default();
            let own = cluster.nodes.iter().find(|node| node.node == cluster.node && node.state == "draining");
            if let Some(Node { node, works, partitions, queries, .. }) = own {
                if !*works && *queries == 0 {
                    return Ok(format!("node {node} has no partitions and serves no queries"));
                }
                let now = format!("node {node} has {partitions} partitions and serves {queries} queries");
                if !args.quiet && now != told {
                    complain(&now);
                }
                told = now;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let drained: anyhow::Result<String> = match args.timeout {
        None => drained.await,
        Some(timeout) => tokio::time::timeout(timeout, drained).await.unwrap_or_else(|_| {
            Err(anyhow::anyhow!(
                "the node has not drained in time: it goes on; look with `swiftwater cluster status`"
            ))
        }),
    };
    let drained = drained.map_err(Failure::from)?;
    write_out(|out| writeln!(out, "{drained}"))
}
