//! The errors of calls to the engine.

mod backup;
mod dedup;
mod sink;
mod skip;
pub(crate) mod sql;

pub use swiftwater_catalog::ErrorKind;
use swiftwater_catalog::{CatalogError, Object, ObjectKind};
use swiftwater_lang::QueryErrors;
use swiftwater_live::{UnsupportedView, columns::ColumnsError};

use crate::RuntimeError;
pub use backup::BackupError;
pub use dedup::DedupError;
pub use sink::SinkError;
pub use skip::SkipError;

/// An error of the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The runtime, or the catalog, refuses it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// An alert would be on a query without groups.
    #[error("the query of an alert needs GROUP BY, or aggregates over all events")]
    AlertOfEvents,
    /// A table that cannot be held in memory.
    #[error("{0}")]
    JoinedTable(String),
    /// A sink cannot be created.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A backup cannot be started, read or ended.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A numbered request conflicts with those before it.
    #[error(transparent)]
    Dedup(#[from] DedupError),
    /// A view, a join or an endpoint cannot be read at present.
    #[error("{} at present: {why}", cannot_be_read(.object))]
    ObjectUnavailable {
        /// The object.
        object: Object,
        /// The cause.
        why: String,
    },
    /// A query cannot be a view.
    #[error(transparent)]
    Unfit(UnsupportedView),
    /// A column of a view, which declares no type for it, holds values that have no type together.
    #[error("column `{column}` of view `{view}` contains {what}, which SQL cannot compare with one another")]
    ViewColumnMixed {
        /// The view.
        view: String,
        /// The column.
        column: String,
        /// The values.
        what: &'static str,
    },
    /// A key has not as many values as the view's.
    #[error("a key of view `{view}` has {}, not {found}", values(*.wanted))]
    KeyValues {
        /// The view.
        view: String,
        /// Values of its keys.
        wanted: usize,
        /// The number of values given.
        found: usize,
    },
    /// The values of a range may be too many different keys.
    #[error("a bound of these keys of view `{view}` has more than {most} possible meanings")]
    KeyMeanings {
        /// The view.
        view: String,
        /// The limit.
        most: usize,
    },
    /// Changes are asked for from a position that there is not yet.
    #[error("there is no position {position} in stream `{stream}`: its log ends at {end}")]
    BeyondEnd {
        /// The stream that the view is of.
        stream: String,
        /// The position.
        position: u64,
        /// The position of the next event.
        end: u64,
    },
    /// An expression of an endpoint, or the query of an alert, cannot be used.
    #[error("{errors}")]
    Expression {
        /// The expression, or the query.
        text: Box<str>,
        /// The fault.
        errors: QueryErrors,
    },
    /// An endpoint cannot be so.
    #[error("{message}")]
    EndpointUnfit {
        /// The reason.
        message: String,
        /// The remedy.
        hint: &'static str,
    },
    /// A job is at work, and never runs twice at once.
    #[error("job `{0}` is running")]
    JobRunning(String),
    /// A declaration cannot be used.
    #[error(transparent)]
    Columns(ColumnsError),
    /// A stream whose events are kept cannot be made one whose events are not.
    #[error("stream `{0}` is stored, and cannot become live-only")]
    StaysStored(String),
    /// Events are appended to a stream that reads them from Kafka.
    #[error("stream `{0}` reads a topic of Kafka, and takes no other events")]
    ReadsTopic(String),
    /// Events are appended to a stream of the cluster that does not write them to its topic.
    #[error("stream `{0}` of the cluster takes no events: it is declared without `produce`")]
    TakesNoEvents(String),
    /// A partition cannot be skipped so.
    #[error(transparent)]
    Skip(#[from] SkipError),
    /// Events cannot be written to the topic of their stream.
    #[error("topic `{topic}` cannot be written at present: {why}{}", if *.is_unsure { "; some of these events may be written" } else { "" })]
    NotWritten {
        /// The topic.
        topic: String,
        /// The cause.
        why: String,
        /// Some of the events may be in the topic.
        is_unsure: bool,
    },
    /// The settings have no connection of this name.
    #[error("{0}")]
    Source(String),
    /// The schemas of a topic's messages cannot be read.
    #[error("{0}")]
    TopicSchemas(String),
    /// A query or a stream of the cluster is not possible.
    #[error("{0}")]
    Cluster(String),
    /// The topics of the cluster cannot be used at present.
    #[error("{0}")]
    ClusterAway(String),
    /// This server is no node of a cluster.
    #[error("this server is no node of a cluster")]
    NoCluster,
    /// Another node of the cluster does this.
    #[error("{text}: ask node `{node}`")]
    OtherNode {
        /// The reason.
        text: String,
        /// The node.
        node: String,
        /// Its address, if it has told one.
        address: Option<String>,
    },
    /// Storing needs a data directory.
    #[error("this server stores nothing: it was started without a data directory")]
    NoHistory,
    /// The log's disk is full, or the log has as many bytes as it may have.
    #[error("nothing can be stored at present: the disk is full, or the log has reached its limit")]
    DiskFull,
    /// The log's disk has no room for the two files that the log needs beside the bytes that it leaves free.
    #[error(
        "nothing can be stored at present: the log in `{dir}` needs {needed_bytes} free bytes on its disk, \
         data.log_free_bytes_min ({free_bytes_min}) plus twice data.log_segment_bytes ({segment_bytes}), and there \
         are {has_bytes}"
    )]
    DiskTooSmall {
        /// The log's directory.
        dir: String,
        /// Bytes that it needs of the disk.
        needed_bytes: u64,
        /// Bytes that are free there, or in files of the log that it can use again.
        has_bytes: u64,
        /// Bytes that it leaves free.
        free_bytes_min: u64,
        /// Bytes of one file, without its head.
        segment_bytes: u64,
    },
    /// The disk neither finishes a sync nor fails it.
    #[error("nothing can be stored at present: the disk has not finished a sync for {seconds} s")]
    DiskStalled {
        /// Seconds that the caller waited.
        seconds: u64,
    },
    /// The data directory, or a part of it, is not the one that was opened.
    #[error("nothing can be stored: `{0}` was deleted or replaced while the server ran")]
    DirectoryGone(String),
    /// Events that are more than the log takes at once, now or later.
    #[error("{bytes} bytes of events cannot be stored at once, limit is {bytes_max}")]
    TooLarge {
        /// Their bytes.
        bytes: u64,
        /// The most bytes that there may be.
        bytes_max: u64,
    },
    /// Events could not be stored.
    #[error("nothing can be stored at present: {0}")]
    NotStored(String),
    /// A table cannot be had.
    #[error("{0}")]
    Table(String),
    /// A table cannot be so.
    #[error("{0}")]
    TableRefuses(String),
}

fn cannot_be_read(object: &Object) -> String {
    match object.kind {
        ObjectKind::Endpoint => format!("{object} cannot answer"),
        ObjectKind::StreamJoin => format!("the state of {object} cannot be read"),
        _ => format!("{object} cannot be read"),
    }
}

/// The text for a number of a key's values.
fn values(count: usize) -> String {
    match count {
        0 => "no values".to_owned(),
        1 => "1 value".to_owned(),
        count => format!("{count} values"),
    }
}

impl From<CatalogError> for EngineError {
    fn from(error: CatalogError) -> EngineError {
        match error {
            CatalogError::AlertQuery { text, errors } => EngineError::Expression { text, errors },
            error => EngineError::Runtime(error.into()),
        }
    }
}

impl EngineError {
    /// The error for a missing object of this kind and name.
    pub fn not_found(kind: ObjectKind, name: impl Into<String>) -> EngineError {
        EngineError::Runtime(RuntimeError::not_found(kind, name))
    }

    /// An object that cannot be read at present, and why.
    pub(crate) fn unavailable(object: Object, why: impl ToString) -> EngineError {
        EngineError::ObjectUnavailable { object, why: why.to_string() }
    }

    /// The kind of the error, by what the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Runtime(error) => error.kind(),
            EngineError::Sink(error) => error.kind(),
            EngineError::Backup(error) => error.kind(),
            EngineError::Skip(error) => error.kind(),
            EngineError::Unfit(_)
            | EngineError::AlertOfEvents
            | EngineError::Expression { .. }
            | EngineError::EndpointUnfit { .. }
            | EngineError::KeyValues { .. }
            | EngineError::KeyMeanings { .. }
            | EngineError::ViewColumnMixed { .. }
            | EngineError::BeyondEnd { .. } => ErrorKind::Invalid,
            EngineError::JobRunning(_)
            | EngineError::StaysStored(_)
            | EngineError::ReadsTopic(_)
            | EngineError::OtherNode { .. }
            | EngineError::NoCluster
            | EngineError::TakesNoEvents(_)
            | EngineError::NoHistory
            | EngineError::Dedup(_) => ErrorKind::Conflict,
            EngineError::Columns(_)
            | EngineError::TooLarge { .. }
            | EngineError::Source(_)
            | EngineError::TopicSchemas(_)
            | EngineError::Cluster(_)
            | EngineError::TableRefuses(_) => ErrorKind::Invalid,
            EngineError::JoinedTable(_) | EngineError::DiskFull | EngineError::DiskTooSmall { .. } => {
                ErrorKind::Limit
            }
            EngineError::NotStored(_)
            | EngineError::NotWritten { .. }
            | EngineError::ClusterAway(_)
            | EngineError::ObjectUnavailable { .. }
            | EngineError::DiskStalled { .. }
            | EngineError::DirectoryGone(_)
            | EngineError::Table(_) => ErrorKind::Unavailable,
        }
    }

    /// The hint of an error of a cluster.
    fn cluster_hint(&self) -> Option<String> {
        let hint = match self {
            EngineError::TakesNoEvents(_) => {
                "Create the stream WITH (produce = true), or produce the events to its topic."
            }
            EngineError::NotWritten { is_unsure: true, .. } => {
                "Send the events again later: those that are in the topic already are then there twice."
            }
            EngineError::NotWritten { is_unsure: false, .. } => {
                "Send the events again later: none of them is written."
            }
            EngineError::NoCluster => {
                "Set `cluster.name`, `cluster.node_id` and a connection `[kafka.NAME]`."
            }
            EngineError::OtherNode { address: Some(address), .. } => {
                return Some(format!("It is at {address}."));
            }
            EngineError::OtherNode { node, address: None, .. } => {
                return Some(format!(
                    "With `cluster.advertise` at node `{node}`, requests would be passed on to it."
                ));
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// A hint that states what to do, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Runtime(error) => error.hint(),
            EngineError::NoHistory => Some("Start it with --data DIR.".to_owned()),
            EngineError::StaysStored(stream) => Some(format!(
                "DROP STREAM {stream} and create it again; SET (retention = …) limits its table."
            )),
            EngineError::ReadsTopic(_) => {
                Some("Produce the events to the topic, or send them to another stream.".to_owned())
            }
            EngineError::Source(_) => {
                Some("Add [kafka.NAME] with `brokers` to the settings, and start the server again.".to_owned())
            }
            EngineError::AlertOfEvents => Some(
                "For a single event, write SELECT device, LAST(*) AS event … GROUP BY device, or MAX, or COUNT(*) \
                 FILTER (…)."
                    .to_owned(),
            ),
            EngineError::Unfit(UnsupportedView::NotTakenOut(_)) => {
                Some("Compute it in SQL over the view, or create a view of the stream.".to_owned())
            }
            EngineError::Unfit(UnsupportedView::WindowsOfRows) => {
                Some("GROUP BY a column instead, such as the start of a window in the view below.".to_owned())
            }
            EngineError::ViewColumnMixed { .. } => Some(
                "Declare the stream's columns, or convert the values to one type, as in CAST(x AS STRING). GET \
                 /v1/views/… returns the rows unchanged."
                    .to_owned(),
            ),
            EngineError::KeyMeanings { .. } => {
                Some("State fewer values, or write them as JSON, which distinguishes numbers from text.".to_owned())
            }
            EngineError::BeyondEnd { .. } => Some(
                "Use the last position of the feed, or 0 for all rows first, or no position for the changes from now \
                 on."
                    .to_owned(),
            ),
            EngineError::EndpointUnfit { hint, .. } if !hint.is_empty() => Some((*hint).to_owned()),
            EngineError::Sink(error) => error.hint().map(str::to_owned),
            EngineError::Backup(error) => error.hint().map(str::to_owned),
            EngineError::Skip(error) => Some(error.hint()),
            EngineError::Dedup(error) => Some(error.hint().to_owned()),
            EngineError::JobRunning(_) => {
                Some("Wait until SHOW JOBS shows another `state`, or DROP the job.".to_owned())
            }
            EngineError::TooLarge { .. } => Some("Send fewer events at a time.".to_owned()),
            EngineError::DirectoryGone(_) => {
                Some("Move it back, or stop the server and restore a backup.".to_owned())
            }
            EngineError::DiskStalled { .. } => {
                Some("Check the disk of the data directory. The server accepts events again once the disk responds.".to_owned())
            }
            EngineError::DiskTooSmall { needed_bytes, has_bytes, .. } => {
                let lacking = needed_bytes.saturating_sub(*has_bytes);
                Some(format!(
                    "Free {lacking} bytes of that disk, or lower data.log_free_bytes_min by as much, or data.log_segment_bytes by half of it."
                ))
            }
            EngineError::DiskFull => Some(
                "Try again later. Free space (DROP and a shorter retention still run), raise data.log_bytes_max, or \
                 lower data.log_free_bytes_min."
                    .to_owned(),
            ),
            EngineError::NotStored(_) => Some("Try again: a numbered request is stored once.".to_owned()),
            _ => self.cluster_hint(),
        }
    }
}

#[cfg(test)]
mod table;
