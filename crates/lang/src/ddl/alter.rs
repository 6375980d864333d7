//! Applies the changes of `ALTER STREAM` to a stream's declaration.

use swiftwater_event::{Primitive, Type};

use super::{AlterStream, CreateStream, Ddl, KafkaSource, StreamChange};
use crate::{Dialect, ParseOptions, QueryErrors};

/// A change that a stream cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlterError {
    /// It has no such column.
    #[error("no column `{column}` in stream `{stream}`")]
    NoColumn {
        /// The stream.
        stream: String,
        /// The column.
        column: String,
    },
    /// It has such a column.
    #[error("stream `{stream}` has a column `{column}` already")]
    ColumnExists {
        /// The stream.
        stream: String,
        /// The column.
        column: String,
    },
    /// Its columns are found in its events.
    #[error("stream `{stream}` declares no columns, so none can be added or altered")]
    Undeclared {
        /// The stream.
        stream: String,
    },
    /// It reads no topic.
    #[error("stream `{stream}` reads no topic of Kafka")]
    NoSource {
        /// The stream.
        stream: String,
    },
    /// The new type cannot represent all values of the column.
    #[error("column `{column}` cannot become {to}: it is {from}")]
    Narrows {
        /// The column.
        column: String,
        /// The present type.
        from: Type,
        /// The new type.
        to: Type,
    },
    /// The result is not a stream that could be created.
    #[error("stream `{stream}` cannot be altered so: {source}")]
    Invalid {
        /// The stream.
        stream: String,
        /// Its faults.
        #[source]
        source: QueryErrors,
    },
}

impl AlterError {
    /// The advice to the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            AlterError::ColumnExists { .. } => {
                Some("Write ADD COLUMN IF NOT EXISTS, or ALTER COLUMN … TYPE.")
            }
            AlterError::Undeclared { .. } => Some("The server adds columns when events have them."),
            AlterError::Narrows { .. } => Some(
                "INTEGER can become LONG or DOUBLE, LONG and FLOAT can become DOUBLE; else add a new column.",
            ),
            AlterError::NoSource { .. } => {
                Some("Create the stream with FROM KAFKA (topic = '…'), or send events to it by HTTP.")
            }
            AlterError::NoColumn { .. } | AlterError::Invalid { .. } => None,
        }
    }
}

impl CreateStream {
    /// This declaration with the changes made; the one that it was is untouched.
    pub fn altered(&self, alter: &AlterStream) -> Result<CreateStream, AlterError> {
        let mut altered = self.clone();
        for change in &alter.changes {
            altered.change(change)?;
        }
        altered.validated()
    }

    /// Reads its own normal form, as that is what the catalog keeps: so what one change makes of conditions and options
    /// of others is found here.
    fn validated(&self) -> Result<CreateStream, AlterError> {
        let read = crate::parse_kept_ddl(&self.to_string(), &ParseOptions::new(Dialect::Native, 0));
        match read {
            Ok(Some(Ddl::CreateStream(create))) => Ok(create),
            Ok(_) => Ok(self.clone()),
            Err(source) => Err(AlterError::Invalid { stream: self.name.to_string(), source }),
        }
    }

    fn source_mut(&mut self) -> Result<&mut KafkaSource, AlterError> {
        let stream = self.name.to_string();
        self.source.as_mut().ok_or(AlterError::NoSource { stream })
    }

    fn change(&mut self, change: &StreamChange) -> Result<(), AlterError> {
        let stream = || self.name.to_string();
        let alters_columns = change.column().is_some();
        if alters_columns && !self.is_declared() {
            return Err(AlterError::Undeclared { stream: stream() });
        }
        let place = |column: &str| {
            let missing = || AlterError::NoColumn { stream: stream(), column: column.to_owned() };
            self.column(column).ok_or_else(missing)
        };
        match change {
            StreamChange::AddColumn { column, if_not_exists } => match self.column(&column.name) {
                Some(_) if *if_not_exists => {}
                Some(_) => {
                    return Err(AlterError::ColumnExists {
                        stream: stream(),
                        column: column.name.to_string(),
                    });
                }
                None => self.columns.push(column.clone()),
            },
            StreamChange::ColumnType { column, ty } => {
                let place = place(column)?;
                let column = &mut self.columns[place];
                if !is_wider(&column.ty, ty) {
                    let (from, to) = (column.ty.clone(), ty.clone());
                    return Err(AlterError::Narrows { column: column.name.to_string(), from, to });
                }
                column.ty = ty.clone();
            }
            StreamChange::ColumnDefault { column, default } => {
                let place = place(column)?;
                self.columns[place].default = default.clone();
            }
            StreamChange::DropNotNull { column } => {
                let place = place(column)?;
                self.columns[place].not_null = false;
            }
            StreamChange::Set(options) => self.options.overlay(options),
            StreamChange::Reset(options) => options.iter().for_each(|option| self.options.reset(*option)),
            StreamChange::Pause(is_paused) => self.source_mut()?.is_paused = *is_paused,
            StreamChange::SetKafka(options) => self.source_mut()?.options.overlay(options),
        }
        Ok(())
    }
}

impl StreamChange {
    /// The column that is added or altered.
    pub fn column(&self) -> Option<&str> {
        match self {
            StreamChange::AddColumn { column, .. } => Some(&column.name),
            StreamChange::ColumnType { column, .. }
            | StreamChange::ColumnDefault { column, .. }
            | StreamChange::DropNotNull { column } => Some(column),
            StreamChange::Set(_)
            | StreamChange::Reset(_)
            | StreamChange::Pause(_)
            | StreamChange::SetKafka(_) => None,
        }
    }
}

/// True if a column of one type can become one of the other.
fn is_wider(from: &Type, to: &Type) -> bool {
    use Primitive::{Double, Float, Integer, Long};
    if from == to {
        return true;
    }
    match (from, to) {
        (Type::Primitive(from), Type::Primitive(to)) => {
            matches!((from, to), (Integer, Long | Double) | (Long | Float, Double))
        }
        _ => false,
    }
}
