//! The answer of a run of statements: its columns first, then its rows as a stream.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cancellation::Cancellation;
use crate::error::state;
use crate::{ColumnRole, ErrorKind, Progress, SqlError};

/// The kind of the last statement of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// A query, or something that answers like one: EXPLAIN, SHOW, DESCRIBE.
    Query,
    /// `INSERT`; the answer is one row, `rows`: how many were put in.
    Insert,
    /// `CREATE TABLE`, with or without `AS`; one row, `rows`.
    CreateTable,
    /// `DROP TABLE`.
    DropTable,
    /// `COPY … TO`; one row, `rows`: how many were written.
    Copy,
    /// A statement of the engine's.
    Other,
    /// The text has no statement.
    Nothing,
}

/// Message from the task that runs statements to the reader of the answer.
pub(crate) enum Item {
    Rows(RecordBatch),
    Failed(SqlError),
    End,
}

/// The facts of an answer that are known before its rows.
pub(crate) struct AnswerHead {
    pub(crate) schema: SchemaRef,
    pub(crate) roles: Vec<ColumnRole>,
    pub(crate) command: Command,
    /// True if a statement of the text changes something.
    pub(crate) changes: bool,
}

/// The answer of the last statement. Dropping it ends the statement, whatever it was doing.
pub struct Answer {
    pub(crate) head: AnswerHead,
    pub(crate) id: Arc<str>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) rows: mpsc::Receiver<Item>,
    pub(crate) task: Task,
    /// Result of the run, kept until the task has ended; then the statement is no longer listed as running.
    pub(crate) end: Option<Result<(), SqlError>>,
    pub(crate) ended: bool,
    /// Completes when nothing more is waited for.
    pub(crate) given_up: GraceExpired,
}

/// See [`Cancellation::grace_expired`].
pub(crate) type GraceExpired = Pin<Box<dyn Future<Output = SqlError> + Send + Sync>>;

/// The task that runs the statements; it ends with this.
pub(crate) struct Task {
    pub(crate) handle: JoinHandle<()>,
    pub(crate) stop: Arc<Cancellation>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop.cancel();
        self.handle.abort();
    }
}

impl Task {
    /// Returns the reason why the task ended without sending a result.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<SqlError> {
        let end = std::task::ready!(Pin::new(&mut self.handle).poll(context));
        Poll::Ready(match end {
            Err(error) if error.is_panic() => panicked(&*error.into_panic()),
            Err(_) => self.stop.why(),
            Ok(()) => SqlError::internal("the statement ended without an answer"),
        })
    }
}

/// The error for an operator's panic. Arrow has no other answer to texts that are too long for one column of a batch.
fn panicked(payload: &(dyn Any + Send)) -> SqlError {
    let said = payload.downcast_ref::<&str>().copied();
    let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    if said.contains("offset overflow") {
        return SqlError::new(
            ErrorKind::Limit,
            "the values of one column are over 2 GiB together in one batch of rows",
        )
        .with_hint("A long constant is repeated for each of 8,192 rows: use it once, or make it shorter.");
    }
    SqlError::internal("the statement panicked")
}

pub(crate) fn cancelled() -> SqlError {
    SqlError::new(ErrorKind::Unavailable, "the statement was cancelled").with_state(state::CANCELLED)
}

/// The error of all statements and connections at shutdown.
pub fn shutting_down() -> SqlError {
    SqlError::new(ErrorKind::Unavailable, "the server is shutting down").with_state(state::SHUTDOWN)
}

impl Answer {
    /// The columns, in order; none for statements that give no rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.head.schema
    }

    /// The roles of the columns; none where they are not known, as of statements that are not queries.
    pub fn roles(&self) -> &[ColumnRole] {
        &self.head.roles
    }

    /// True if a statement of the text changes something; known of runs that read or plan alone.
    pub fn changes(&self) -> bool {
        self.head.changes
    }

    /// The kind of the last statement.
    pub fn command(&self) -> Command {
        self.head.command
    }

    /// The name under which the run can be cancelled.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Progress of the run.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

/// Batches of at least one row, then the end or one error.
impl Stream for Answer {
    type Item = Result<RecordBatch, SqlError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let ready @ Poll::Ready(_) = self.poll_run(context) {
            return ready;
        }
        let error = std::task::ready!(self.given_up.as_mut().poll(context));
        self.ended = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Answer {
    /// The next rows, or the end, once the run gives them.
    fn poll_run(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch, SqlError>>> {
        if self.end.is_none() {
            match std::task::ready!(self.rows.poll_recv(context)) {
                Some(Item::Rows(batch)) => return Poll::Ready(Some(Ok(batch))),
                Some(Item::Failed(error)) => self.end = Some(Err(error)),
                Some(Item::End) => self.end = Some(Ok(())),
                None => {}
            }
        }
        let why = std::task::ready!(self.task.poll_end(context));
        self.ended = true;
        Poll::Ready(match self.end.take() {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(why)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_for_too_long_a_column_is_a_limit() {
        for (said, kind) in [("offset overflow", ErrorKind::Limit), ("something else", ErrorKind::Internal)] {
            let task = tokio::spawn(async move { std::panic::resume_unwind(Box::new(said.to_owned())) });
            let error: tokio::task::JoinError = task.await.map(|never: ()| never).unwrap_err();
            assert_eq!(panicked(&*error.into_panic()).kind(), kind);
        }
    }
}
