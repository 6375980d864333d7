//! Describes jobs: `SHOW JOBS`, `DESCRIBE JOB`, the answer of `RUN JOB`, and the table `system.job_runs`.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use swiftwater_catalog::kind::job::{JobEntry, JobRun, JobTotals, StreamRead};
use swiftwater_event::Millis;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};

use super::{run::AttemptError, scheduler::JobActivity};
use crate::{
    answer::{table, texts},
    durable::history::History,
    error::sql::from_engine,
    shared::Shared,
    status::JobStatus,
};

fn times(values: impl IntoIterator<Item = Option<Millis>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<TimestampMillisecondArray>().with_timezone("UTC"))
}

fn numbers(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(values.into_iter().map(|value| Some(value as i64)).collect::<Int64Array>())
}

/// Milliseconds as seconds.
fn some_seconds(values: impl IntoIterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.into_iter().map(|ms| Some(ms? as f64 / 1e3)).collect::<Float64Array>())
}

fn some_texts(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

/// The state of a run, by the present activity of its job.
fn state(run: &JobRun, doing: JobActivity) -> &'static str {
    match (run.ended, doing, &run.error) {
        (Some(_), _, _) => "succeeded",
        (None, JobActivity::Running, _) => "running",
        (None, _, Some(_)) => "failed",
        (None, _, None) => "interrupted",
    }
}

/// Attempts so far, with the one that is being made or has succeeded.
fn attempts(run: &JobRun, doing: JobActivity) -> u64 {
    let goes_on = run.ended.is_some() || doing == JobActivity::Running;
    u64::from(run.failures) + u64::from(goes_on)
}

/// The input of a run, as JSON: by stream, the offsets `[from, to)`.
fn reads(run: &JobRun) -> Option<String> {
    if run.reads.is_empty() {
        return None;
    }
    let of =
        |read: &StreamRead| (read.stream.to_string(), serde_json::json!({"from": read.from, "to": read.to}));
    Some(serde_json::Value::Object(run.reads.values().map(of).collect()).to_string())
}

impl History {
    fn all_jobs(&self) -> Vec<(JobEntry, JobActivity)> {
        let jobs: Vec<JobEntry> = self.with_catalog(|catalog| catalog.jobs().cloned().collect());
        jobs.into_iter()
            .map(|job| (self.objects.jobs.activity(job.id), job))
            .map(|(doing, job)| (job, doing))
            .collect()
    }

    pub(crate) fn show_jobs(&self) -> RecordBatch {
        let (now, nanos) = (self.wall.now(), self.clock.monotonic_nanos());
        let jobs = self.all_jobs();
        let last = |of: &dyn Fn(&JobRun, JobActivity) -> Option<String>| {
            some_texts(jobs.iter().map(|(job, doing)| of(job.runs.back()?, *doing)))
        };
        let next = jobs.iter().map(|(job, doing)| match (doing, job.open()) {
            _ if !job.is_enabled => None,
            (JobActivity::Resting { until_nanos }, Some(_)) => {
                Some(now + (until_nanos.saturating_sub(nanos) / 1_000_000) as Millis)
            }
            _ => job.next_due(),
        });
        table([
            ("job", texts(jobs.iter().map(|(job, _)| &*job.create.name))),
            ("schedule", texts(jobs.iter().map(|(job, _)| &*job.create.schedule))),
            (
                "time_zone",
                texts(jobs.iter().map(|(job, _)| job.create.options.time_zone.as_deref().unwrap_or("UTC"))),
            ),
            ("enabled", Arc::new(jobs.iter().map(|(job, _)| Some(job.is_enabled)).collect::<BooleanArray>())),
            ("last_run", times(jobs.iter().map(|(job, _)| Some(job.runs.back()?.began)))),
            ("state", last(&|run, doing| Some(state(run, doing).to_owned()))),
            ("error", last(&|run, _| run.error.clone())),
            ("next_run", times(next)),
            ("timeout_seconds", {
                let timeout = |job: &JobEntry| job.timeout_ms().unwrap_or(self.config.jobs_timeout_ms);
                some_seconds(jobs.iter().map(|(job, _)| Some(timeout(job)).filter(|ms| *ms > 0)))
            }),
            ("runs", numbers(jobs.iter().map(|(job, _)| job.totals.runs))),
            ("failures", numbers(jobs.iter().map(|(job, _)| job.totals.failures))),
            ("retries", numbers(jobs.iter().map(|(job, _)| job.totals.retries))),
            ("rows", numbers(jobs.iter().map(|(job, _)| job.totals.rows))),
            ("seconds", some_seconds(jobs.iter().map(|(job, _)| Some(job.totals.millis)))),
        ])
    }

    /// The totals of all jobs, by name.
    pub(crate) fn job_status(&self) -> Vec<JobStatus> {
        let jobs: Vec<_> = self.with_catalog(|catalog| {
            catalog.jobs().map(|job| (job.id, job.create.name.clone(), job.totals)).collect()
        });
        let status = |(id, name, totals): (u32, Box<str>, JobTotals)| JobStatus {
            name,
            is_running: self.objects.jobs.activity(id) == JobActivity::Running,
            runs: totals.runs,
            failures: totals.failures,
            retries: totals.retries,
            rows: totals.rows,
            millis: totals.millis,
        };
        jobs.into_iter().map(status).collect()
    }

    pub(crate) fn describe_job(&self, name: &str) -> Result<RecordBatch, SqlError> {
        let job = self.with_catalog(|catalog| catalog.job(name).cloned()).map_err(from_engine)?;
        Ok(table([
            ("job", texts([name])),
            ("created", times([Some(job.created)])),
            ("enabled", Arc::new(BooleanArray::from(vec![job.is_enabled]))),
            ("statement", texts([&*job.create.to_string()])),
        ]))
    }

    /// `RUN JOB`: answers the run when it has succeeded.
    pub(crate) async fn run_job(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        name: &str,
    ) -> Result<RecordBatch, SqlError> {
        let error = match self.run_now(shared, name).await {
            Ok(run) => return Ok(runs(&[(name.into(), run, JobActivity::Nothing)])),
            Err(error) => error,
        };
        Err(match error {
            AttemptError::Engine(error) => from_engine(error),
            AttemptError::Stopped => {
                let message = format!("job `{name}` was ended before its end");
                SqlError::new(SqlErrorKind::Unavailable, message)
            }
            AttemptError::Statement(error) => {
                let told = SqlError::new(error.kind(), format!("job `{name}` failed: {error}"));
                match error.hint() {
                    Some(hint) => told.with_hint(hint),
                    None => told,
                }
            }
        })
    }

    /// All runs that are remembered, by job and number.
    pub(crate) fn job_runs(&self) -> RecordBatch {
        let mut all = Vec::new();
        for (job, doing) in self.all_jobs() {
            all.extend(job.runs.iter().map(|run| (job.create.name.clone(), Arc::clone(run), doing)));
        }
        runs(&all)
    }
}

fn runs(all: &[(Box<str>, Arc<JobRun>, JobActivity)]) -> RecordBatch {
    table([
        ("job", texts(all.iter().map(|(job, _, _)| &**job))),
        ("run", numbers(all.iter().map(|(_, run, _)| run.number))),
        ("scheduled_at", times(all.iter().map(|(_, run, _)| run.due))),
        ("started_at", times(all.iter().map(|(_, run, _)| Some(run.began)))),
        ("ended_at", times(all.iter().map(|(_, run, _)| run.ended))),
        ("state", texts(all.iter().map(|(_, run, doing)| state(run, *doing)))),
        ("attempts", numbers(all.iter().map(|(_, run, doing)| attempts(run, *doing)))),
        ("rows", numbers(all.iter().map(|(_, run, _)| run.rows))),
        ("seconds", some_seconds(all.iter().map(|(_, run, _)| Some(run.millis)))),
        ("error", some_texts(all.iter().map(|(_, run, _)| run.error.clone()))),
        ("reads", some_texts(all.iter().map(|(_, run, _)| reads(run)))),
    ])
}
