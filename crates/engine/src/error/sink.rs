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
    /// The target file exists and is not empty, so a sink would cut it off.
    #[error("file `{0}` already exists")]
    FileExists(String),
    /// The target cannot be used.
    #[error("{0}")]
    Target(String),
    /// The target table lacks columns of the view, or has them with other types.
    #[error("table `{table}` cannot store the rows of view `{view}`: {}", .faults.join(", "))]
    Columns {
        /// The target table.
        table: String,
        /// The view.
        view: String,
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
                Some("A sink matches the columns of the view and of the table by name.")
            }
            SinkError::KafkaKey { .. } => Some("Leave `key` out."),
            SinkError::NoWindows(_) => Some("Add WINDOWING TUMBLING(…, EVENT(…)) to the view's query."),
            _ => None,
        }
    }
}
