//! Writes the actions of a commit: one file of JSON lines in the Delta log (Delta Lake protocol, "Actions").
//!
//! ```text
//! commit = commitInfo [protocol] [metaData] {remove} {add} {txn}        one JSON object a line
//! ```
//! The project writes commits itself, without a library, because the one owner of a table knows its state. A commit is
//! therefore one conditional put, whatever the table's size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use swiftwater_event::Millis;

use object_store::path::Path;

use crate::table::Application;

/// A file that becomes part of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    /// Path below the table, in URL encoding.
    pub(crate) path: String,
    pub(crate) partition_values: BTreeMap<String, Option<String>>,
    pub(crate) size: u64,
    pub(crate) modification_time: Millis,
    pub(crate) data_change: bool,
    pub(crate) stats: Option<String>,
    /// The checksums of its bytes, among others ([`crate::checksums`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<BTreeMap<String, Option<String>>>,
}

/// A file that is no longer part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub(crate) path: String,
    pub(crate) deletion_timestamp: Millis,
    pub(crate) data_change: bool,
    pub(crate) extended_file_metadata: bool,
    pub(crate) partition_values: BTreeMap<String, Option<String>>,
    pub(crate) size: u64,
}

/// The table's schema and settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetaData {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) format: serde_json::Value,
    pub(crate) schema_string: String,
    pub(crate) partition_columns: Vec<String>,
    pub(crate) configuration: BTreeMap<String, String>,
    pub(crate) created_time: Option<Millis>,
}

/// The last insertion of an application that the table has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Txn {
    pub(crate) app_id: String,
    pub(crate) version: i64,
    pub(crate) last_updated: Millis,
}

impl Txn {
    /// The record of an application's insertions up to its version.
    pub(crate) fn of(application: &Application, now: Millis) -> Txn {
        Txn {
            app_id: application.id.to_string(),
            version: i64::try_from(application.version).unwrap_or(i64::MAX),
            last_updated: now,
        }
    }
}

/// One commit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Commit {
    /// The word for it in the table's history.
    pub(crate) operation: &'static str,
    pub(crate) is_first: bool,
    pub(crate) metadata: Option<MetaData>,
    pub(crate) removes: Vec<Remove>,
    pub(crate) adds: Vec<Add>,
    pub(crate) txns: Vec<Txn>,
}

impl Commit {
    /// The commit's bytes. `id` is found again by [`commit_id`].
    pub(crate) fn to_bytes(&self, id: &str, now: Millis) -> Vec<u8> {
        let rewrites = self.adds.iter().any(|add| !add.data_change) || !self.removes.is_empty();
        let info = json!({
            "timestamp": now,
            "operation": self.operation,
            "operationParameters": {"mode": "Append"},
            "isBlindAppend": !rewrites,
            "engineInfo": concat!("swiftwater/", env!("CARGO_PKG_VERSION")),
            "txnId": id,
        });
        let mut lines = vec![json!({"commitInfo": info})];
        if self.is_first {
            lines.push(json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}));
        }
        lines.extend(self.metadata.iter().map(|metadata| json!({"metaData": metadata})));
        lines.extend(self.removes.iter().map(|remove| json!({"remove": remove})));
        lines.extend(self.adds.iter().map(|add| json!({"add": add})));
        lines.extend(self.txns.iter().map(|txn| json!({"txn": txn})));
        let mut bytes = Vec::new();
        for line in lines {
            bytes.extend_from_slice(line.to_string().as_bytes());
            bytes.push(b'\n');
        }
        bytes
    }
}

fn commit_info(bytes: &[u8]) -> Option<serde_json::Value> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| {
        let mut line: serde_json::Value = serde_json::from_slice(line).ok()?;
        line.get_mut("commitInfo").map(serde_json::Value::take)
    })
}

/// The id of a commit that was written by this store.
pub(crate) fn commit_id(bytes: &[u8]) -> Option<String> {
    Some(commit_info(bytes)?["txnId"].as_str()?.to_owned())
}

/// The time that a commit states for itself.
pub(crate) fn commit_time(bytes: &[u8]) -> Option<Millis> {
    commit_info(bytes)?["timestamp"].as_i64()
}

/// Path of a version's commit, below the table.
pub(crate) fn commit_path(table: &Path, version: u64) -> Path {
    table.clone().join("_delta_log").join(format!("{version:020}.json"))
}

/// The version of a commit file of the log; none for other files.
pub(crate) fn version_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The version of a checkpoint file of the log; none for other files.
pub(crate) fn checkpoint_of(name: &str) -> Option<u64> {
    let (digits, rest) = name.split_once('.')?;
    (digits.len() == 20 && rest.starts_with("checkpoint")).then(|| digits.parse().ok())?
}
