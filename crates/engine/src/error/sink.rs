//! Errors of the creation of a sink and of the use of its target.

use super::ErrorKind;

/// An error of a sink.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The view has no windows.
    #[error("view `{0}` has no windows, and a sink delivers closed windows")]
    NoWindows(String),
    /// The target is the stream that the view reads.
    #[error("the view reads stream `{0}`: it would count the delivered rows again")]
    IntoItself(String),
    /// The target is the stream that the sink reads.
    #[error("the sink reads stream `{0}`: it would deliver its own rows again")]
    EventsIntoItself(String),
    /// The query of a sink names a view instead of a stream.
    #[error("`{0}` is a view, and the query of a sink reads a stream")]
    QueryOfView(String),
    /// Events of a stream cannot be made from the rows of its table.
    #[error(
        "column `{column}` of stream `{stream}` is inside a list: a sink that is far behind could not make events from the \
         rows of the stream's table"
    )]
    ColumnWithinList {
        /// The stream.
        stream: String,
        /// Its column.
        column: String,
    },
    /// The target file exists and is not empty, so a sink would cut it off.
    #[error("file `{0}` already exists")]
    FileExists(String),
    /// The target cannot be used.
    #[error("{0}")]
    Target(String),
    /// The target table lacks columns of the view, or has them with other types.
    #[error("table `{table}` cannot store the rows of {origin}: {}", .faults.join(", "))]
    Columns {
        /// The target table.
        table: String,
        /// The view or the query that has the rows.
        origin: String,
        /// A sentence per column.
        faults: Vec<String>,
    },
    /// The messages of changes would have a key that is not the one of the rows.
    #[error("changes have the key of the view, ({names}), and not `{key}`")]
    KafkaKey {
        /// The key that was asked for.
        key: String,
        /// The columns of the view's key.
        names: String,
    },
}

impl SinkError {
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            SinkError::FileExists(_) => ErrorKind::Conflict,
            _ => ErrorKind::Invalid,
        }
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            SinkError::Columns { .. } => {
                Some("A sink matches the columns of its rows and of the table by name.")
            }
            SinkError::KafkaKey { .. } => Some("Leave `key` out."),
            SinkError::QueryOfView(_) => Some(
                "Write FROM and the view's name for its closed windows, or FROM CHANGES OF and its name.",
            ),
            SinkError::ColumnWithinList { .. } => {
                Some("Create a sink of a view over the stream, or declare the whole list as a column.")
            }
            SinkError::NoWindows(_) => Some("Add WINDOWING TUMBLING(…, EVENT(…)) to the view's query."),
            _ => None,
        }
    }
}
