//! The errors of the store, and what a caller can do about them.

use std::sync::Arc;

/// The kind of an error, by which a caller acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The call can never succeed as it is.
    Invalid,
    /// No such table or version.
    NotFound,
    /// It contradicts what is there.
    Conflict,
    /// The object store cannot be reached, or fails; try again.
    Unavailable,
    /// A limit is reached.
    Limit,
    /// Stored data cannot be read.
    Corrupt,
    /// A fault of this program.
    Internal,
}

/// An error of the store. Cheap to clone, as a table's last failure is shown in its status.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// A location that names no object store.
    #[error("`{location}` cannot be a store's location: {why}")]
    Location {
        /// The location as given.
        location: Box<str>,
        /// The reason.
        why: Box<str>,
    },
    /// The store at the location is not the expected one.
    #[error(
        "the store belongs to another data directory: its file `_swiftwater_store` {}, not `{expected}`",
        found.as_ref().map_or_else(|| "is missing".to_owned(), |found| format!("says `{found}`"))
    )]
    Away {
        /// The id of the store that is.
        expected: Box<str>,
        /// The id that was found.
        found: Option<Box<str>>,
    },
    /// A setting that cannot hold.
    #[error("`{name}` cannot be {value}: {why}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// The value as given.
        value: Box<str>,
        /// The allowed values.
        why: &'static str,
    },
    /// A table that cannot be as it was asked for.
    #[error("table `{table}` is invalid: {why}")]
    Spec {
        /// The table.
        table: Box<str>,
        /// The reason.
        why: Box<str>,
    },
    /// The table does not exist.
    #[error("no table `{0}` in the store")]
    NoTable(Box<str>),
    /// A table was dropped while it was looked at.
    #[error("table `{0}` was dropped during the operation")]
    Dropped(Box<str>),
    /// The table exists already.
    #[error("table `{0}` already exists")]
    TableExists(Box<str>),
    /// The version or time asked for is not, or no longer, there.
    #[error("table `{table}` has no version {version}")]
    NoVersion {
        /// The table.
        table: Box<str>,
        /// The version or the time, as text.
        version: Box<str>,
    },
    /// A table that needs what this store does not know.
    #[error("table `{table}` needs {what}, which this store cannot read")]
    Protocol {
        /// The table.
        table: Box<str>,
        /// The missing feature.
        what: Box<str>,
    },
    /// Another process writes to the same stream's table.
    #[error("table `{table}` has another writer: it is at offset {theirs}, expected {ours}")]
    OtherOwner {
        /// The table.
        table: Box<str>,
        /// The offset of the table.
        theirs: u64,
        /// The expected offset.
        ours: u64,
    },
    /// Rows that cannot be stored in this table.
    #[error("rows do not fit table `{table}`: {why}")]
    Rows {
        /// The table.
        table: Box<str>,
        /// The reason.
        why: Box<str>,
    },
    /// Some of the insertions that were to be one commit are in the table already.
    #[error(
        "insertions {first} to {last} cannot be one commit: table `{table}` already has those up to {inserted}"
    )]
    PartlyInserted {
        /// The table.
        table: Box<str>,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
        /// The last that the table has.
        inserted: u64,
    },
    /// A table has as many columns as it may have.
    #[error("table `{table}` would have {columns} columns, limit is {columns_max}")]
    TooManyColumns {
        /// The table.
        table: Box<str>,
        /// The number of columns that it would have.
        columns: usize,
        /// The limit.
        columns_max: usize,
    },
    /// The table was closed or dropped.
    #[error("table `{0}` is closed")]
    Closed(Box<str>),
    /// The object store failed.
    #[error("the object store failed while {doing}")]
    ObjectStore {
        /// The attempted operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Arc<object_store::Error>,
    },
    /// The Delta log cannot be read or written.
    #[error("the Delta log of table `{table}` failed while {doing}")]
    Delta {
        /// The table.
        table: Box<str>,
        /// The attempted operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Arc<deltalake::DeltaTableError>,
    },
    /// A table that was there is not any more, and was not dropped.
    #[error("the files of table `{0}` are missing: its directory, or its Delta log, is gone")]
    Missing(Box<str>),
    /// The Delta log has invalid content.
    #[error("the Delta log of table `{table}` has {what}")]
    Corrupt {
        /// The table.
        table: Box<str>,
        /// The fault.
        what: Box<str>,
    },
    /// Parquet cannot be written or read.
    #[error("Parquet failed while {doing}")]
    Parquet {
        /// The attempted operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Arc<parquet::errors::ParquetError>,
    },
    /// Columns cannot be converted.
    #[error("columns could not be created while {doing}")]
    Arrow {
        /// The attempted operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Arc<arrow_schema::ArrowError>,
    },
    /// The rows that were to be inserted could not be had.
    #[error("the rows to insert failed: {0}")]
    Input(Box<str>),
    /// A task of the store ended before its work was done.
    #[error("a task of the store ended early while {0}")]
    Task(&'static str),
}

impl StoreError {
    /// The coarse kind, on which a caller may act.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Location { .. }
            | StoreError::Setting { .. }
            | StoreError::Spec { .. }
            | StoreError::Rows { .. }
            | StoreError::Input(_) => ErrorKind::Invalid,
            StoreError::NoTable(_) | StoreError::NoVersion { .. } => ErrorKind::NotFound,
            StoreError::TableExists(_)
            | StoreError::Dropped(_)
            | StoreError::OtherOwner { .. }
            | StoreError::PartlyInserted { .. }
            | StoreError::Protocol { .. } => ErrorKind::Conflict,
            StoreError::TooManyColumns { .. } => ErrorKind::Limit,
            StoreError::Away { .. }
            | StoreError::Closed(_)
            | StoreError::ObjectStore { .. }
            | StoreError::Delta { .. } => ErrorKind::Unavailable,
            StoreError::Missing(_) | StoreError::Corrupt { .. } => ErrorKind::Corrupt,
            StoreError::Parquet { source, .. } => match **source {
                parquet::errors::ParquetError::External(_) => ErrorKind::Unavailable,
                _ => ErrorKind::Corrupt,
            },
            StoreError::Arrow { .. } | StoreError::Task(_) => ErrorKind::Internal,
        }
    }

    /// The advice to the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StoreError::Location { .. } => {
                Some("Use a directory, a file:// URL or an s3://bucket/prefix URL.")
            }
            StoreError::Away { .. } => Some(
                "Mount the store's disk, or set store.location. If you moved the tables, write the id into that file.",
            ),
            StoreError::Missing(_) => {
                Some("Move its files back, restore them from a backup, or drop and create it again.")
            }
            StoreError::NoVersion { .. } => Some(
                "The settings store.log_retention and store.vacuum_retention limit the age of old versions.",
            ),
            StoreError::OtherOwner { .. } => {
                Some("Only one server may write to a store; stop the other one.")
            }
            StoreError::Protocol { .. } => {
                Some("Another program enabled a feature of Delta Lake; rewrite the table without it.")
            }
            StoreError::TooManyColumns { .. } => Some("Leave columns out, or store the rest as one column."),
            _ => None,
        }
    }

    pub(crate) fn store(doing: &'static str) -> impl Fn(object_store::Error) -> StoreError {
        move |source| StoreError::ObjectStore { doing, source: Arc::new(source) }
    }

    pub(crate) fn delta(
        table: &str,
        doing: &'static str,
    ) -> impl Fn(deltalake::DeltaTableError) -> StoreError {
        move |source| StoreError::Delta { table: table.into(), doing, source: Arc::new(source) }
    }

    pub(crate) fn parquet(doing: &'static str) -> impl Fn(parquet::errors::ParquetError) -> StoreError {
        move |source| StoreError::Parquet { doing, source: Arc::new(source) }
    }

    pub(crate) fn arrow(doing: &'static str) -> impl Fn(arrow_schema::ArrowError) -> StoreError {
        move |source| StoreError::Arrow { doing, source: Arc::new(source) }
    }
}

/// A result of this room.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
