//! The settings of a store. Values are data: this room reads no file; S3's clients read `AWS_…` from the environment.

use std::time::Duration;

use crate::error::{Result, StoreError};

/// Location and limits of a store. Every limit has a default.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// A directory, a `file://` URL or `s3://bucket/prefix`.
    pub location: String,
    /// Options of the object store, by object_store's names: `aws_access_key_id`, `aws_endpoint`, `aws_allow_http` … They
    /// win over the variables `AWS_…` of the environment.
    pub storage: Vec<(String, String)>,
    /// Time that the first uncommitted row waits for a commit at most.
    pub commit_interval: Duration,
    /// Bytes of uncommitted columns that start a commit before that; also about what one commit holds.
    pub commit_bytes: usize,
    /// Bytes of uncommitted columns in memory, per table. Appends wait beyond it.
    pub tail_bytes_max: usize,
    /// Columns of one table, those that every table of a stream has among them.
    pub columns_max: usize,
    /// Compaction makes files of about this size, and leaves larger ones alone.
    pub compact_file_bytes: u64,
    /// Number of neighbouring files of similar size that are merged into one.
    pub compact_files: usize,
    /// A checkpoint of the Delta log is written every so many commits.
    pub checkpoint_commits: u64,
    /// Time for which old versions can be queried: older entries of the Delta log are deleted.
    pub log_retention: Duration,
    /// Time for which unused files are kept, for queries that still read them and for time travel.
    pub vacuum_retention: Duration,
    /// Interval between checks of retention, vacuum and clean-up of the log.
    pub upkeep_interval: Duration,
    /// Compactions, checkpoints and vacuums that run at a time, over all tables.
    pub upkeep_tasks_max: usize,
}

impl StoreOptions {
    /// The defaults, at a location.
    pub fn at(location: impl Into<String>) -> StoreOptions {
        StoreOptions {
            location: location.into(),
            storage: Vec::new(),
            commit_interval: Duration::from_secs(5),
            commit_bytes: 64 << 20,
            tail_bytes_max: 256 << 20,
            columns_max: 2048 + 5,
            compact_file_bytes: 128 << 20,
            compact_files: 16,
            checkpoint_commits: 100,
            log_retention: Duration::from_secs(24 * 3600),
            vacuum_retention: Duration::from_secs(24 * 3600),
            upkeep_interval: Duration::from_secs(60),
            upkeep_tasks_max: 1,
        }
    }

    /// Checks what must hold between settings.
    pub(crate) fn check(&self) -> Result<()> {
        let fault =
            |name, value: u64, why| Err(StoreError::Setting { name, value: value.to_string().into(), why });
        if self.commit_bytes == 0 || self.commit_bytes > 1 << 30 {
            return fault("commit_bytes", self.commit_bytes as u64, "it must be 1 byte to 1 GiB");
        }
        if self.tail_bytes_max < self.commit_bytes {
            return fault(
                "tail_bytes_max",
                self.tail_bytes_max as u64,
                "it must be at least `commit_bytes`: lower that, or raise this",
            );
        }
        if self.commit_interval.is_zero() {
            return fault("commit_interval", 0, "it must be above 0");
        }
        if self.upkeep_interval.is_zero() {
            return fault("upkeep_interval", 0, "it must be above 0");
        }
        if self.columns_max < 4 {
            return fault("columns_max", self.columns_max as u64, "it must be at least 4");
        }
        if self.compact_files < 2 {
            return fault("compact_files", self.compact_files as u64, "it must be at least 2");
        }
        if self.checkpoint_commits == 0 {
            return fault("checkpoint_commits", 0, "it must be at least 1");
        }
        if self.upkeep_tasks_max == 0 {
            return fault("upkeep_tasks_max", 0, "it must be at least 1");
        }
        Ok(())
    }
}
