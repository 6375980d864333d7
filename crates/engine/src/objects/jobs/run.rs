//! Makes one attempt at a run: executes its statements in order, and records each when it is done. The attempt has a time
//! limit.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arrow_array::{Int64Array, RecordBatch};
use futures_util::StreamExt;
use swiftwater_catalog::{
    CatalogError, Change,
    kind::job::{JobEntry, JobRun, JobStep},
};
use swiftwater_lang::ddl::{StatementText, split_statements};
use swiftwater_sql::{Answer, Command, ErrorKind as SqlErrorKind, RunOptions, SqlError};
use swiftwater_store::Application;

use super::reads::JobReads;
use crate::{
    EngineError, durable::history::History, error::sql::from_engine, shared::Shared,
    tables::scoped::ScopedTables,
};

/// The time between looks at the clock, whether an attempt has taken too long.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The reason why an attempt did not succeed.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// The engine ends, or the job was dropped: nothing is wrong with it.
    Stopped,
    /// A statement failed, which is written down.
    Statement(SqlError),
    /// The outcome could not be logged.
    Engine(EngineError),
}

impl From<CatalogError> for AttemptError {
    fn from(error: CatalogError) -> AttemptError {
        AttemptError::Engine(error.into())
    }
}

impl From<EngineError> for AttemptError {
    fn from(error: EngineError) -> AttemptError {
        AttemptError::Engine(error)
    }
}

impl History {
    /// Continues the open run of a job, or begins one. Only one task does so at a time.
    pub(super) async fn attempt(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        id: u32,
    ) -> Result<Arc<JobRun>, AttemptError> {
        let job = self.with_catalog(|catalog| catalog.job_of(id).cloned()).ok_or(AttemptError::Stopped)?;
        let (number, done) = match job.open() {
            Some(run) => (run.number, run.statements as usize),
            None => {
                let number = job.next_run();
                let step = JobStep::Began { due: job.last_due(self.wall.now()) };
                self.record(Change::Job { job: id, run: number, step }).await?;
                (number, 0)
            }
        };
        let timeout_ms = job.timeout_ms().unwrap_or(self.config.jobs_timeout_ms);
        let began = self.clock.monotonic_nanos();
        let ends = job.is_incremental().then(|| Arc::new(self.ends()));
        let pieces = split_statements(&job.create.sql);
        for (place, piece) in pieces.iter().enumerate().skip(done) {
            let reads = JobReads { history: Arc::clone(self), job: id, run: number, ends: ends.clone() };
            let tables = ScopedTables {
                tables: Arc::clone(shared.tables.get().ok_or(EngineError::NoHistory)?),
                otherwise: reads,
                application: application(&job, number, place),
            };
            let statement_began = self.clock.monotonic_nanos();
            let result = tokio::select! {
                result = statement(shared, piece, tables) => result.map_err(|error| with_place_in_job(error, piece, &pieces)),
                () = self.time_is_over(began, timeout_ms) => Err(timed_out(&job, timeout_ms)),
            };
            let millis = self.clock.monotonic_nanos().saturating_sub(statement_began) / 1_000_000;
            let step = match result {
                Ok(rows) if place + 1 == pieces.len() => JobStep::Succeeded { rows, millis },
                Ok(rows) => JobStep::Did { rows, millis },
                Err(error) => {
                    let step = JobStep::Failed { error: error.to_string(), millis };
                    self.record(Change::Job { job: id, run: number, step }).await?;
                    return Err(AttemptError::Statement(error));
                }
            };
            self.record(Change::Job { job: id, run: number, step }).await?;
        }
        let run = self.with_catalog(|catalog| catalog.job_of(id)?.runs.back().cloned());
        run.filter(|run| run.number == number).ok_or(AttemptError::Stopped)
    }

    /// Ready when what began then has taken so long; never, if it may take any time.
    async fn time_is_over(&self, began_nanos: u64, timeout_ms: u64) {
        if timeout_ms == 0 {
            return std::future::pending().await;
        }
        let ends_nanos = began_nanos.saturating_add(timeout_ms.saturating_mul(1_000_000));
        while self.clock.monotonic_nanos() < ends_nanos {
            let left = Duration::from_nanos(ends_nanos.saturating_sub(self.clock.monotonic_nanos()));
            tokio::time::sleep(left.min(LOOK_INTERVAL)).await;
        }
    }

    /// The offset after the last acknowledged event of each stored stream.
    fn ends(&self) -> HashMap<u32, u64> {
        self.all_stored().iter().map(|stored| (stored.id.0, stored.acknowledged(&self.log))).collect()
    }
}

fn timed_out(job: &JobEntry, timeout_ms: u64) -> SqlError {
    let what = format!("the attempt exceeded its timeout of {timeout_ms} ms");
    let name = &job.create.name;
    let hint = format!(
        "Raise the timeout: ALTER JOB {name} SET (timeout = '2 h'), or jobs.timeout_ms for all jobs."
    );
    SqlError::new(SqlErrorKind::Limit, what).with_hint(hint)
}

/// The application in whose name a statement writes. No other job has this one's number and time of creation, even
/// of one that was dropped or of another data directory with the same tables.
fn application(job: &JobEntry, run: u64, statement: usize) -> Application {
    let id = format!("swiftwater/job/{}-{}/{statement}", job.id, job.created);
    Application::one(id, run)
}

/// Runs a statement to its end; returns the number of rows written.
async fn statement(
    shared: &Shared,
    piece: &StatementText<'_>,
    tables: ScopedTables<JobReads>,
) -> Result<u64, SqlError> {
    let sql = shared.sql.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
    let options = RunOptions { tables: Some(Arc::new(tables)), has_turn: true, ..RunOptions::default() };
    let mut answer: Answer = sql.run(piece.text, options).await?;
    let writes = matches!(answer.command(), Command::Insert | Command::CreateTable | Command::Copy);
    let mut rows = 0;
    while let Some(batch) = answer.next().await {
        let batch = batch?;
        if writes {
            rows += counted(&batch);
        }
    }
    Ok(rows)
}

/// The answer of a statement that writes: a row with the number of rows written.
fn counted(batch: &RecordBatch) -> u64 {
    let column = batch.column_by_name("rows").and_then(|rows| rows.as_any().downcast_ref::<Int64Array>());
    column.map_or(0, |rows| rows.iter().flatten().filter_map(|rows| u64::try_from(rows).ok()).sum())
}

/// The error with its place in the whole of what the job runs, in its text, as that is all that is kept of it.
fn with_place_in_job(error: SqlError, piece: &StatementText<'_>, pieces: &[StatementText<'_>]) -> SqlError {
    let Some(place) = error.place().filter(|_| pieces.len() > 1 || piece.text.contains('\n')) else {
        return error;
    };
    let column = if place.line == 1 { place.column + u64::from(piece.column) - 1 } else { place.column };
    let line = place.line + u64::from(piece.line) - 1;
    let told = SqlError::new(error.kind(), format!("line {line}, column {column} of the job: {error}"));
    match error.hint() {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}
