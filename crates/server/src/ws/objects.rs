//! The status of everything beside streams and queries over a connection: shards, memory, and what is durable.

#[cfg(feature = "history")]
use std::sync::Arc;

use serde_json::{Map, Value, json};
use swiftwater_runtime::{Metrics, STAGES};
#[cfg(feature = "history")]
use {
    swiftwater_engine::{HistoryMetrics, Principal, TableMetrics},
    swiftwater_sql::{
        RecordBatch,
        forms::{Form, FormWriter},
    },
};

#[cfg(not(feature = "history"))]
use crate::engine::WITHOUT_HISTORY;
#[cfg(feature = "history")]
use crate::{cluster, search, sql, views};
use crate::{problem::Problem, server::Shared};

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectsOf {
    Shards,
    Memory,
    Log,
    Tables,
    Views,
    Jobs,
    Sinks,
    Alerts,
    Joins,
    Sources,
    Statements,
    Searches,
    Nodes,
}

/// The kinds, by name.
const KINDS: [(&str, ObjectsOf); 13] = [
    ("shards", ObjectsOf::Shards),
    ("memory", ObjectsOf::Memory),
    ("log", ObjectsOf::Log),
    ("tables", ObjectsOf::Tables),
    ("views", ObjectsOf::Views),
    ("jobs", ObjectsOf::Jobs),
    ("sinks", ObjectsOf::Sinks),
    ("alerts", ObjectsOf::Alerts),
    ("joins", ObjectsOf::Joins),
    ("sources", ObjectsOf::Sources),
    ("statements", ObjectsOf::Statements),
    ("searches", ObjectsOf::Searches),
    ("nodes", ObjectsOf::Nodes),
];

impl ObjectsOf {
    pub(super) fn named(name: &str) -> Option<ObjectsOf> {
        KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub(super) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The names of all kinds, in words.
    pub(super) fn names() -> String {
        KINDS.map(|(name, _)| name).join(", ")
    }
}

/// Up to `limit` objects of a kind.
pub(super) async fn objects(shared: &Shared, kind: ObjectsOf, limit: usize) -> Result<Vec<Value>, Problem> {
    let mut objects = match kind {
        ObjectsOf::Shards => shards(&shared.engine.metrics_of(&[])),
        ObjectsOf::Memory => memory(shared),
        kind => durable(shared, kind).await?,
    };
    objects.truncate(limit);
    Ok(objects)
}

fn shards(metrics: &Metrics) -> Vec<Value> {
    let shards = metrics.shards.iter().enumerate().map(|(number, shard)| {
        let busy: Map<String, Value> = STAGES
            .iter()
            .zip(shard.busy_nanos)
            .map(|(stage, nanos)| ((*stage).to_owned(), nanos.into()))
            .collect();
        json!({
            "shard": number,
            "batches": shard.batches,
            "events": shard.events,
            "busy_nanos": busy,
            "up_nanos": shard.up_nanos,
        })
    });
    shards.collect()
}

/// The bytes that each owner holds, and the most that it may; null: no limit of its own.
fn memory(shared: &Shared) -> Vec<Value> {
    let metrics = shared.engine.metrics_of(&[]);
    let owner = |name: &str, setting: Option<&str>, (used, most): (u64, Option<u64>)| json!({"owner": name, "bytes": used, "bytes_max": most, "setting": setting});
    let (pending, pending_max) = metrics.pending_bytes;
    let (recent, recent_max) = metrics.recent_bytes;
    let (state, state_max) = metrics.state_bytes;
    #[cfg_attr(not(feature = "history"), allow(unused_mut, reason = "with history there are more"))]
    let mut owners = vec![
        owner("events that wait", Some("engine.pending_bytes_max"), (pending, Some(pending_max))),
        owner("results that wait", None, (metrics.subscriber_bytes, None)),
        owner("newest events", Some("engine.recent_bytes_max"), (recent, Some(recent_max))),
        owner("state of queries", Some("engine.state_bytes_max"), (state, Some(state_max))),
    ];
    #[cfg(feature = "history")]
    if let Some(history) = shared.engine.history_metrics_of(&[]) {
        owners.push(owner("rows of views", None, (history.views.held_bytes, None)));
        owners.push(owner("events that wait for the log", None, (history.log_queued_bytes, None)));
        owners.push(owner("events that joins keep", None, (history.joins.kept_bytes, None)));
    }
    owners
}

#[cfg(not(feature = "history"))]
#[allow(clippy::unused_async, reason = "with history it waits for statements")]
async fn durable(_shared: &Shared, _kind: ObjectsOf) -> Result<Vec<Value>, Problem> {
    Err(Problem::bad_request(WITHOUT_HISTORY))
}

#[cfg(feature = "history")]
async fn durable(shared: &Shared, kind: ObjectsOf) -> Result<Vec<Value>, Problem> {
    let history = || {
        // A server without a data directory has nothing durable.
        shared.engine.history_metrics().unwrap_or_default()
    };
    Ok(match kind {
        ObjectsOf::Shards | ObjectsOf::Memory => Vec::new(),
        ObjectsOf::Log => log(&history()),
        ObjectsOf::Tables => history().tables.iter().map(table_json).collect(),
        ObjectsOf::Views => {
            shared.engine.views(&Principal::anonymous()).iter().map(views::view_json).collect()
        }
        ObjectsOf::Statements => shared.sql.access()?.sql.running().iter().map(sql::running_json).collect(),
        ObjectsOf::Searches => {
            shared.engine.searches(&Principal::anonymous()).iter().map(search::running_json).collect()
        }
        ObjectsOf::Nodes => {
            shared.engine.cluster_status().await?.nodes.iter().map(cluster::node_json).collect()
        }
        ObjectsOf::Jobs => shown(shared, "SHOW JOBS").await?,
        ObjectsOf::Sinks => shown(shared, "SHOW SINKS").await?,
        ObjectsOf::Alerts => shown(shared, "SHOW ALERTS").await?,
        ObjectsOf::Joins => shown(shared, "SHOW JOINS").await?,
        ObjectsOf::Sources => shown(shared, "SHOW PARTITIONS").await?,
    })
}

#[cfg(feature = "history")]
fn log(metrics: &HistoryMetrics) -> Vec<Value> {
    vec![json!({
        "bytes": metrics.log_bytes,
        "queued_bytes": metrics.log_queued_bytes,
        "file_bytes": metrics.log_file_bytes,
        "syncs": metrics.log_syncs,
        "sync_nanos": metrics.log_sync_nanos,
    })]
}

#[cfg(feature = "history")]
fn table_json(table: &TableMetrics) -> Value {
    json!({
        "name": table.name.as_str(),
        "lag_events": table.lag_events,
        "commits": table.commits,
        "files": table.files,
        "file_bytes": table.file_bytes,
        "held_back": table.held_back,
        "waiting_bytes": table.waiting_bytes,
        "failing": table.is_failing,
    })
}

/// The rows of a statement that shows something.
#[cfg(feature = "history")]
async fn shown(shared: &Shared, statement: &str) -> Result<Vec<Value>, Problem> {
    let others = shared.sql.access()?.others.as_ref().map(Arc::clone);
    let rows = match others {
        Some(others) => others.run(statement).await?,
        None => None,
    };
    rows.as_ref().map(rows_json).transpose().map(Option::unwrap_or_default)
}

#[cfg(feature = "history")]
fn rows_json(rows: &RecordBatch) -> Result<Vec<Value>, Problem> {
    let mut text = Vec::new();
    let mut writer = FormWriter::new(Form::Json, &rows.schema())?;
    writer.begin(&mut text);
    writer.batch(rows, &mut text)?;
    writer.end(&mut text)?;
    serde_json::from_slice(&text)
        .map_err(|error| Problem::bad_request(format!("rows cannot be shown as JSON: {error}")))
}
