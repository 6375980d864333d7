//! The errors of calls to the engine.

pub use swiftwater_catalog::ErrorKind;
use swiftwater_catalog::{CatalogError, ObjectKind};
use swiftwater_lang::QueryErrors;
use swiftwater_live::{UnsupportedView, columns::ColumnsError};

use crate::RuntimeError;

/// An error of the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The runtime, or the catalog, refuses it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// An alert would be on a query without groups.
    #[error("the query of an alert needs GROUP BY, or aggregates over all events")]
    AlertOfEvents,
    /// What a join keeps cannot be read at present.
    #[error("the state of join `{join}` cannot be read at present: {why}")]
    JoinUnavailable {
        /// Which.
        join: String,
        /// Why.
        why: String,
    },
    /// A table that cannot be held in memory.
    #[error("{0}")]
    JoinedTable(String),
    /// A table has not the columns that a sink would deliver.
    #[error("table `{table}` cannot store the rows of view `{view}`: {}", .faults.join(", "))]
    SinkColumns {
        /// The table.
        table: String,
        /// The view.
        view: String,
        /// What is wrong with which column.
        faults: Vec<String>,
    },
    /// A sink would be of a view without windows.
    #[error("view `{0}` has no windows, and a sink delivers closed windows")]
    SinkOfNoWindows(String),
    /// A sink would deliver to the stream that its view is of.
    #[error("the view reads stream `{0}`: it would count the delivered rows again")]
    SinkIntoItself(String),
    /// A file that is there, with something in it that a sink would cut off.
    #[error("file `{0}` already exists")]
    SinkFileThere(String),
    /// What a sink delivers to cannot be used.
    #[error("{0}")]
    SinkTarget(String),
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
    /// A view cannot be read, or kept, at present.
    #[error("view `{view}` cannot be read at present: {why}")]
    ViewUnavailable {
        /// Which.
        view: String,
        /// Why.
        why: String,
    },
    /// A key has not as many values as the view's.
    #[error("a key of view `{view}` has {}, not {found}", values(*.wanted))]
    KeyValues {
        /// The view.
        view: String,
        /// Values of its keys.
        wanted: usize,
        /// What was given.
        found: usize,
    },
    /// The values of a range may be too many different keys.
    #[error("a bound of these keys of view `{view}` has more than {most} possible meanings")]
    KeyMeanings {
        /// The view.
        view: String,
        /// So many they may be.
        most: usize,
    },
    /// Changes are asked for from a position that there is not yet.
    #[error("there is no position {position} in stream `{stream}`: its log ends at {end}")]
    BeyondEnd {
        /// The stream that the view is of.
        stream: String,
        /// The position.
        position: u64,
        /// That of the next event.
        end: u64,
    },
    /// An expression of an endpoint, or the query of an alert, cannot be used.
    #[error("{errors}")]
    Expression {
        /// The expression, or the query.
        text: Box<str>,
        /// What is wrong with it.
        errors: QueryErrors,
    },
    /// An endpoint cannot be so.
    #[error("{message}")]
    EndpointUnfit {
        /// Why not.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// An endpoint cannot answer at present.
    #[error("endpoint {endpoint} cannot answer at present: {why}")]
    EndpointUnavailable {
        /// Which.
        endpoint: String,
        /// Why.
        why: String,
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
    /// Nothing can be stored without a data directory.
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
        /// For how long.
        seconds: u64,
    },
    /// The data directory, or a part of it, is not the one that was opened.
    #[error("nothing can be stored: `{0}` was deleted or replaced while the server ran")]
    DirectoryGone(String),
    /// Events that are more than the log takes at once, now or later.
    #[error("{bytes} bytes of events cannot be stored at once, limit is {bytes_max}")]
    TooLarge {
        /// How many there are.
        bytes: u64,
        /// How many there may be.
        bytes_max: u64,
    },
    /// Events could not be stored.
    #[error("nothing can be stored at present: {0}")]
    NotStored(String),
    /// Whether a request was stored is no longer known.
    #[error(
        "request {sequence} of producer `{producer}` is too old to be deduplicated, {lowest} is the oldest that can be"
    )]
    NumberForgotten {
        /// Who sent it.
        producer: String,
        /// Its number.
        sequence: u64,
        /// The lowest number that is remembered.
        lowest: u64,
    },
    /// A part of a request came before those that precede it.
    #[error(
        "only {parts} parts of request {sequence} of producer `{producer}` are stored, so a later one cannot be"
    )]
    PartMissing {
        /// Who sent it.
        producer: String,
        /// Its number.
        sequence: u64,
        /// Parts that are stored.
        parts: u32,
    },
    /// A producer's number was used before for other events.
    #[error("request {sequence} of producer `{producer}` is already stored with other events")]
    NumberReused {
        /// Who sent it.
        producer: String,
        /// Its number.
        sequence: u64,
    },
    /// A table cannot be had.
    #[error("{0}")]
    Table(String),
    /// A table cannot be so.
    #[error("{0}")]
    TableRefuses(String),
    /// No such backup.
    #[error("no backup `{0}` is open")]
    NoBackup(String),
    /// A backup has no such file.
    #[error("backup `{id}` has no file `{name}`")]
    NoBackupFile {
        /// The backup.
        id: String,
        /// The name that was asked for.
        name: String,
    },
    /// A table that a backup holds was dropped.
    #[error("the backup is invalid: table `{table}` was dropped")]
    BackupVoid {
        /// The table.
        table: String,
    },
    /// As many backups stand as may.
    #[error("{standing} backups are open, which is the limit")]
    TooManyBackups {
        /// How many.
        standing: usize,
    },
    /// A backup cannot be taken.
    #[error("no backup can be started at present: {0}")]
    NotBackedUp(String),
}

/// So many values of a key.
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
    /// There is no object of this kind and name.
    pub fn not_found(kind: ObjectKind, name: impl Into<String>) -> EngineError {
        EngineError::Runtime(RuntimeError::not_found(kind, name))
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Runtime(error) => error.kind(),
            EngineError::SinkOfNoWindows(_)
            | EngineError::SinkIntoItself(_)
            | EngineError::SinkTarget(_)
            | EngineError::SinkColumns { .. }
            | EngineError::Unfit(_)
            | EngineError::AlertOfEvents
            | EngineError::Expression { .. }
            | EngineError::EndpointUnfit { .. }
            | EngineError::KeyValues { .. }
            | EngineError::KeyMeanings { .. }
            | EngineError::ViewColumnMixed { .. }
            | EngineError::BeyondEnd { .. } => ErrorKind::Invalid,
            EngineError::NoBackup(_) | EngineError::NoBackupFile { .. } => ErrorKind::NotFound,
            EngineError::JobRunning(_)
            | EngineError::StaysStored(_)
            | EngineError::SinkFileThere(_)
            | EngineError::NoHistory
            | EngineError::BackupVoid { .. }
            | EngineError::NumberForgotten { .. }
            | EngineError::NumberReused { .. }
            | EngineError::PartMissing { .. } => ErrorKind::Conflict,
            EngineError::Columns(_) | EngineError::TooLarge { .. } | EngineError::TableRefuses(_) => {
                ErrorKind::Invalid
            }
            EngineError::JoinedTable(_)
            | EngineError::DiskFull
            | EngineError::DiskTooSmall { .. }
            | EngineError::TooManyBackups { .. } => ErrorKind::Limit,
            EngineError::NotStored(_)
            | EngineError::NotBackedUp(_)
            | EngineError::ViewUnavailable { .. }
            | EngineError::JoinUnavailable { .. }
            | EngineError::EndpointUnavailable { .. }
            | EngineError::DiskStalled { .. }
            | EngineError::DirectoryGone(_)
            | EngineError::Table(_) => ErrorKind::Unavailable,
        }
    }

    /// What to do, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Runtime(error) => error.hint(),
            EngineError::NoHistory => Some("Start it with --data DIR.".to_owned()),
            EngineError::StaysStored(stream) => Some(format!(
                "DROP STREAM {stream} and create it again; SET (retention = …) limits its table."
            )),
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
            EngineError::SinkColumns { .. } => {
                Some("A sink matches the columns of the view and of the table by name.".to_owned())
            }
            EngineError::SinkOfNoWindows(_) => {
                Some("Add WINDOWING TUMBLING(…, EVENT(…)) to the view's query.".to_owned())
            }
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
            EngineError::NoBackup(_) | EngineError::BackupVoid { .. } => {
                Some("Begin another backup: unchanged files need not be fetched again.".to_owned())
            }
            EngineError::TooManyBackups { .. } => Some(
                "End one with DELETE /v1/backups/{id}. The server ends an unread backup after ten minutes."
                    .to_owned(),
            ),
            EngineError::NotStored(_) => Some("Try again: a numbered request is stored once.".to_owned()),
            EngineError::NumberForgotten { .. } => {
                Some("Number requests in ascending order, and retry before many later ones are sent.".to_owned())
            }
            EngineError::PartMissing { .. } => Some("Send the whole request again.".to_owned()),
            EngineError::NumberReused { .. } => Some(
                "Send other events under an unused number. A retry must have the same body as the first attempt."
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod table;
