//! A job as the catalog has it: its declaration, how far it has read, and its last runs.
//!
//! What happens to it is a sequence of changes, so it is the same after a start as before. A run goes on until it has
//! succeeded: after a failure or the server's end it is the same run, with its number, that is taken up again, what it
//! reads ends where it ended before, and what it has done of its statements is not done again. So there is at most one
//! run that has not ended, and it is the last. Pure: knows nothing of clocks, tasks and SQL.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateJob, JobChange};

use crate::{Catalog, CatalogError, ObjectKind, Schedule};

/// Runs of a job that are remembered.
pub const RUNS_KEPT: usize = 100;

/// Of an error so many bytes are remembered.
const ERROR_BYTES_MAX: usize = 2000;

/// A clock that is back by more than this is wrong, or was. By less, what was due is not due again.
const CLOCK_BACK_MAX: Millis = 24 * 60 * 60 * 1_000;

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEntry {
    /// Its number; never given to another.
    pub id: u32,
    /// When it was created.
    pub created: Millis,
    /// Its declaration as it is now.
    pub create: CreateJob,
    /// It runs when its schedule says.
    pub is_enabled: bool,
    /// Its last runs, oldest first.
    pub runs: VecDeque<Arc<JobRun>>,
    /// What all its runs came to.
    pub totals: JobTotals,
    schedule: Schedule,
    /// Nothing is due any more up to here.
    covered: Millis,
    /// The same while the clock is long before that: it was wrong, and will not come there soon, or is wrong, and will.
    covered_meanwhile: Option<Millis>,
    /// What is due next, whether it is enabled or not.
    due: Option<Millis>,
    /// For streams, by their numbers in the log, where the next incremental run begins to read.
    read_to: BTreeMap<u32, u64>,
}

/// What the runs of a job came to since it was created, those that are forgotten included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobTotals {
    /// Runs that succeeded.
    pub runs: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Attempts after a failure that came to their end, in whichever way.
    pub retries: u64,
    /// Rows that were written.
    pub rows: u64,
    /// Milliseconds that statements took, those that failed included.
    pub millis: u64,
}

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRun {
    /// Its number, from 1.
    pub number: u64,
    /// The time of the schedule that it is for, the last one if it makes up for several; none: it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
    /// When it began.
    pub began: Millis,
    /// When it succeeded; none: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// Attempts that failed.
    #[serde(default)]
    pub failures: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Statements that are done.
    #[serde(default)]
    pub statements: u32,
    /// Rows that they wrote.
    #[serde(default)]
    pub rows: u64,
    /// Milliseconds that its statements took, those that failed included.
    #[serde(default)]
    pub millis: u64,
    /// What an incremental run reads, by the streams' numbers in the log.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reads: BTreeMap<u32, StreamRead>,
    /// Tables that the next statement to be done has dropped, or was about to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Box<str>>,
}

/// What of a stream a run reads: offsets `[from, to)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRead {
    /// The stream's name.
    pub stream: Box<str>,
    /// The first offset.
    pub from: u64,
    /// The offset after the last.
    pub to: u64,
}

/// What happens to a run, as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStep {
    /// It begins.
    Began {
        /// The time of the schedule that it is for.
        due: Option<Millis>,
    },
    /// It is to read this of a stream.
    Reads {
        /// The stream's number.
        id: u32,
        /// The offsets.
        read: StreamRead,
    },
    /// A statement is about to drop a table.
    Drops {
        /// Its name.
        table: Box<str>,
    },
    /// One more statement is done.
    Did {
        /// Rows that it wrote.
        rows: u64,
        /// Milliseconds that it took.
        #[serde(default)]
        millis: u64,
    },
    /// The last statement is done.
    Succeeded {
        /// Rows that it wrote.
        rows: u64,
        /// Milliseconds that it took.
        #[serde(default)]
        millis: u64,
    },
    /// A statement failed.
    Failed {
        /// Why.
        error: String,
        /// Milliseconds that it took.
        #[serde(default)]
        millis: u64,
    },
}

/// A job within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobSnapshot {
    id: u32,
    created: Millis,
    text: String,
    is_enabled: bool,
    covered: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    covered_meanwhile: Option<Millis>,
    read_to: Vec<(u32, u64)>,
    runs: Vec<JobRun>,
    #[serde(default)]
    totals: JobTotals,
}

impl JobEntry {
    pub(crate) fn new(id: u32, create: CreateJob, at: Millis) -> Result<JobEntry, CatalogError> {
        let schedule = schedule(&create)?;
        let mut job = JobEntry {
            id,
            created: at,
            create,
            is_enabled: true,
            runs: VecDeque::new(),
            totals: JobTotals::default(),
            schedule,
            covered: at,
            covered_meanwhile: None,
            due: None,
            read_to: BTreeMap::new(),
        };
        job.cover(at);
        Ok(job)
    }

    /// Alters it; answers whether that changed anything. What was missed while it was disabled, or would have been due by
    /// another schedule, is not made up for.
    pub(crate) fn alter(&mut self, change: &JobChange, at: Millis) -> Result<bool, CatalogError> {
        let is_enabled = match change {
            JobChange::Enable => true,
            JobChange::Disable => false,
            _ => self.is_enabled,
        };
        let create = self.create.altered(change);
        if is_enabled == self.is_enabled && create == self.create {
            return Ok(false);
        }
        self.schedule = schedule(&create)?;
        (self.create, self.is_enabled) = (create, is_enabled);
        self.see_time(at);
        self.cover(at);
        Ok(true)
    }

    /// Sees what time it is: where that is long before what is covered, the times from now on are to come after all. When it is
    /// not any more, nothing of what was covered is due again.
    pub(crate) fn see_time(&mut self, now: Millis) {
        let is_long_before = |covered: Millis| covered > now.saturating_add(CLOCK_BACK_MAX);
        let meanwhile = match self.covered_meanwhile {
            _ if !is_long_before(self.covered) => None,
            Some(meanwhile) if !is_long_before(meanwhile) => return,
            _ => Some(now),
        };
        if meanwhile != self.covered_meanwhile {
            self.covered_meanwhile = meanwhile;
            self.find_due();
        }
    }

    fn cover(&mut self, at: Millis) {
        let covered = self.covered_meanwhile.as_mut().unwrap_or(&mut self.covered);
        *covered = (*covered).max(at);
        self.find_due();
    }

    fn find_due(&mut self) {
        self.due = self.schedule.after(self.covered_meanwhile.unwrap_or(self.covered));
    }

    /// The run that has not ended.
    pub fn open(&self) -> Option<&Arc<JobRun>> {
        self.runs.back().filter(|run| run.ended.is_none())
    }

    /// When it runs next by its schedule; none while it is disabled. A time in the past is to be made up for.
    pub fn next_due(&self) -> Option<Millis> {
        self.due.filter(|_| self.is_enabled)
    }

    /// The last time that is due by now, which stands for all before it.
    pub fn last_due(&self, now: Millis) -> Option<Millis> {
        let due = self.next_due().filter(|due| *due <= now)?;
        Some(self.schedule.up_to(now).map_or(due, |last| last.max(due)))
    }

    /// What a run has to read of a stream whose next offset is `to`.
    pub fn unread(&self, id: u32, stream: &str, to: u64) -> StreamRead {
        let from = self.read_to.get(&id).copied().unwrap_or(0);
        StreamRead { stream: stream.into(), from, to: to.max(from) }
    }

    /// Whether each run reads only what came since the last one.
    pub fn is_incremental(&self) -> bool {
        self.create.options.incremental == Some(true)
    }

    /// How long an attempt may take, in milliseconds, where it is said; 0: as long as it takes.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.create.options.timeout_ms
    }

    /// A stream is gone, and its number is not given again.
    pub(crate) fn forget_stream(&mut self, id: u32) {
        self.read_to.remove(&id);
    }

    /// Takes over what happened to a run. What belongs to none is passed over.
    pub(crate) fn apply(&mut self, number: u64, step: &JobStep, at: Millis) {
        self.see_time(at);
        if let JobStep::Began { due } = step {
            if self.open().is_none() {
                self.begin(number, *due, at);
            }
            return;
        }
        let Some(run) = self.runs.back_mut().filter(|run| run.number == number && run.ended.is_none()) else {
            return;
        };
        let run = Arc::make_mut(run);
        let totals = &mut self.totals;
        match step {
            JobStep::Began { .. } => {}
            JobStep::Reads { id, read } => {
                run.reads.insert(*id, read.clone());
            }
            JobStep::Drops { table } => run.drops.push(table.clone()),
            JobStep::Failed { error, millis } => {
                totals.failures += 1;
                totals.retries += u64::from(run.failures > 0);
                totals.millis += millis;
                run.millis += millis;
                run.failures += 1;
                run.error = Some(error[..error.floor_char_boundary(ERROR_BYTES_MAX)].to_owned());
            }
            JobStep::Did { rows, millis } => {
                totals.rows += rows;
                totals.millis += millis;
                run.statements += 1;
                run.rows += rows;
                run.millis += millis;
                run.drops.clear();
            }
            JobStep::Succeeded { rows, millis } => {
                totals.runs += 1;
                totals.retries += u64::from(run.failures > 0);
                totals.rows += rows;
                totals.millis += millis;
                run.statements += 1;
                run.rows += rows;
                run.millis += millis;
                run.ended = Some(at);
                run.error = None;
                run.drops.clear();
                self.read_to.extend(run.reads.iter().map(|(id, read)| (*id, read.to)));
            }
        }
    }

    fn begin(&mut self, number: u64, due: Option<Millis>, at: Millis) {
        if self.runs.len() == RUNS_KEPT {
            self.runs.pop_front();
        }
        self.runs.push_back(Arc::new(JobRun {
            number,
            due,
            began: at,
            ended: None,
            failures: 0,
            error: None,
            statements: 0,
            rows: 0,
            millis: 0,
            reads: BTreeMap::new(),
            drops: Vec::new(),
        }));
        if let Some(due) = due {
            self.cover(due);
        }
    }

    /// The number of the run that is next.
    pub fn next_run(&self) -> u64 {
        self.runs.back().map_or(1, |run| run.number + 1)
    }

    /// What is to be written down.
    pub(crate) fn snapshot(&self) -> JobSnapshot {
        JobSnapshot {
            id: self.id,
            created: self.created,
            text: self.create.to_string(),
            is_enabled: self.is_enabled,
            covered: self.covered,
            covered_meanwhile: self.covered_meanwhile,
            read_to: self.read_to.iter().map(|(id, offset)| (*id, *offset)).collect(),
            runs: self.runs.iter().map(|run| JobRun::clone(run)).collect(),
            totals: self.totals,
        }
    }

    /// The job of a snapshot, whose statement was read.
    pub(crate) fn from_snapshot(snapshot: &JobSnapshot, create: CreateJob) -> Result<JobEntry, CatalogError> {
        let mut job = JobEntry::new(snapshot.id, create, snapshot.created)?;
        job.is_enabled = snapshot.is_enabled;
        job.read_to = snapshot.read_to.iter().copied().collect();
        job.runs = snapshot.runs.iter().cloned().map(Arc::new).collect();
        job.totals = snapshot.totals;
        job.cover(snapshot.covered);
        job.covered_meanwhile = snapshot.covered_meanwhile;
        job.find_due();
        Ok(job)
    }
}

impl JobSnapshot {
    /// Its statement.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Catalog {
    /// All jobs, by name.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &JobEntry> {
        self.jobs.values()
    }

    /// Lets jobs see what time it is, as changes of the log do.
    pub fn jobs_see_time(&mut self, now: Millis) {
        self.jobs.values_mut().for_each(|job| job.see_time(now));
    }

    /// A job of a name; an error if there is none.
    pub fn job(&self, name: &str) -> Result<&JobEntry, CatalogError> {
        self.jobs.get(name).ok_or_else(|| CatalogError::not_found(ObjectKind::Job, name))
    }

    /// The job of a number, if it was not dropped.
    pub fn job_of(&self, id: u32) -> Option<&JobEntry> {
        self.jobs.values().find(|job| job.id == id)
    }

    pub(crate) fn create_job(&mut self, create: &CreateJob, at: Millis) -> Result<bool, CatalogError> {
        if self.jobs.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::Job, &create.name);
        }
        let create = CreateJob { if_not_exists: false, ..create.clone() };
        let job = JobEntry::new(self.next_job, create, at)?;
        self.next_job += 1;
        self.jobs.insert(job.create.name.clone(), job);
        Ok(true)
    }

    pub(crate) fn drop_job(&mut self, name: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.jobs.remove(name) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::Job, name)),
            removed => Ok(removed.is_some()),
        }
    }
}

fn schedule(create: &CreateJob) -> Result<Schedule, CatalogError> {
    Schedule::parse(&create.schedule, create.options.time_zone.as_deref()).map_err(CatalogError::Schedule)
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::ddl::JobOptions;

    use super::*;

    const HOUR: Millis = 3_600_000;

    fn hourly() -> JobEntry {
        let create = CreateJob {
            name: "j".into(),
            if_not_exists: false,
            schedule: "@hourly".into(),
            options: JobOptions::default(),
            sql: "SELECT 1".into(),
        };
        JobEntry::new(0, create, HOUR / 2).unwrap()
    }

    fn run(job: &mut JobEntry, due: Option<Millis>, at: Millis) {
        let number = job.next_run();
        job.apply(number, &JobStep::Began { due }, at);
        job.apply(number, &JobStep::Succeeded { rows: 1, millis: 3 }, at);
    }

    #[test]
    fn only_the_last_runs_are_kept_and_numbers_go_on() {
        let mut job = hourly();
        for at in 0..RUNS_KEPT as Millis + 20 {
            run(&mut job, None, at);
        }
        let numbers: Vec<u64> = job.runs.iter().map(|run| run.number).collect();
        assert_eq!(numbers, (21..=RUNS_KEPT as u64 + 20).collect::<Vec<_>>());
        assert_eq!(job.next_run(), RUNS_KEPT as u64 + 21);
    }

    #[test]
    fn totals_count_what_is_forgotten_too() {
        let mut job = hourly();
        for at in 0..RUNS_KEPT as Millis + 20 {
            run(&mut job, None, at);
        }
        let number = job.next_run();
        job.apply(number, &JobStep::Began { due: None }, 0);
        for step in [
            JobStep::Did { rows: 5, millis: 10 },
            JobStep::Failed { error: "once".to_owned(), millis: 20 },
            JobStep::Failed { error: "twice".to_owned(), millis: 40 },
            JobStep::Succeeded { rows: 7, millis: 80 },
        ] {
            job.apply(number, &step, 1);
        }
        assert_eq!(job.totals, JobTotals { runs: 121, failures: 2, retries: 2, rows: 132, millis: 510 });
        assert_eq!(job.runs.back().unwrap().millis, 150);
        let again = JobEntry::from_snapshot(&job.snapshot(), job.create.clone()).unwrap();
        assert_eq!(again.totals, job.totals);
        // As an earlier version wrote it.
        let mut snapshot = serde_json::to_value(job.snapshot()).unwrap();
        snapshot.as_object_mut().unwrap().remove("totals");
        snapshot["runs"].as_array_mut().unwrap().iter_mut().for_each(|run| {
            run.as_object_mut().unwrap().remove("millis");
        });
        let snapshot: JobSnapshot = serde_json::from_value(snapshot).unwrap();
        assert_eq!(
            JobEntry::from_snapshot(&snapshot, job.create.clone()).unwrap().totals,
            JobTotals::default()
        );
        let step: JobStep = serde_json::from_str(r#"{"did":{"rows":3}}"#).unwrap();
        assert_eq!(step, JobStep::Did { rows: 3, millis: 0 });
    }

    #[test]
    fn one_run_stands_for_all_that_was_missed() {
        let mut job = hourly();
        assert_eq!((job.next_due(), job.last_due(HOUR - 1)), (Some(HOUR), None));
        assert_eq!(job.last_due(HOUR), Some(HOUR));
        assert_eq!(job.last_due(5 * HOUR + 7), Some(5 * HOUR));
        run(&mut job, Some(5 * HOUR), 5 * HOUR + 7);
        assert_eq!((job.next_due(), job.last_due(6 * HOUR - 1)), (Some(6 * HOUR), None));
        // What is asked for stands for none.
        run(&mut job, None, 6 * HOUR + 1);
        assert_eq!(job.last_due(6 * HOUR + 1), Some(6 * HOUR));
        // A clock that is set back makes nothing due again.
        assert_eq!(job.last_due(HOUR), None);
        assert!(job.alter(&JobChange::Disable, 0).unwrap());
        assert_eq!(job.last_due(9 * HOUR), None);
        assert!(job.alter(&JobChange::Enable, 9 * HOUR).unwrap());
        assert_eq!(job.next_due(), Some(10 * HOUR));
    }

    #[test]
    fn time_that_was_wrong_by_years_makes_nothing_wait_for_years() {
        let mut job = hourly();
        let (then, now) = (1_000_000 * HOUR, 100 * HOUR);
        run(&mut job, Some(then), then);
        assert_eq!(job.next_due(), Some(then + HOUR));
        // As the clock is seen to be right again, or as the next run stands in the log.
        let mut seen = job.clone();
        seen.see_time(now + 1);
        assert_eq!((seen.last_due(now + 1), seen.next_due()), (None, Some(now + HOUR)));
        run(&mut job, Some(now), now + 1);
        assert_eq!(job.next_due(), Some(now + HOUR));
        let again = JobEntry::from_snapshot(&job.snapshot(), job.create.clone()).unwrap();
        assert_eq!(again, job);
        // What was missed since is made up for, as ever.
        assert_eq!(job.last_due(now + 9 * HOUR + 1), Some(now + 9 * HOUR));
    }

    #[test]
    fn time_that_is_wrong_by_years_for_a_while_makes_nothing_due_again() {
        let mut job = hourly();
        let now = 1_000_000 * HOUR;
        run(&mut job, Some(now), now);
        let before = job.clone();
        job.see_time(HOUR / 2);
        assert_eq!(job.last_due(2 * HOUR + 1), Some(2 * HOUR));
        run(&mut job, Some(2 * HOUR), 2 * HOUR + 1);
        job.see_time(now + 1);
        assert_eq!((job.last_due(now + 1), job.next_due()), (None, Some(now + HOUR)));
        assert_eq!((job.covered, job.covered_meanwhile), (before.covered, None));
    }

    #[test]
    fn tables_that_a_statement_drops_are_forgotten_when_it_is_done() {
        let mut job = hourly();
        job.apply(1, &JobStep::Began { due: None }, 1);
        for table in ["a", "b"] {
            job.apply(1, &JobStep::Drops { table: table.into() }, 1);
        }
        job.apply(1, &JobStep::Failed { error: "once".to_owned(), millis: 1 }, 1);
        let again = JobEntry::from_snapshot(&job.snapshot(), job.create.clone()).unwrap();
        assert_eq!(again.open().unwrap().drops, ["a".into(), "b".into()]);
        job.apply(1, &JobStep::Did { rows: 0, millis: 1 }, 1);
        assert!(job.open().unwrap().drops.is_empty());
    }

    #[test]
    fn what_belongs_to_no_open_run_changes_nothing() {
        let mut job = hourly();
        run(&mut job, None, 1);
        let before = job.clone();
        let read = StreamRead { stream: "s".into(), from: 0, to: 9 };
        for number in [1, 2, 7] {
            for step in [
                JobStep::Reads { id: 3, read: read.clone() },
                JobStep::Drops { table: "t".into() },
                JobStep::Did { rows: 1, millis: 1 },
                JobStep::Succeeded { rows: 1, millis: 1 },
                JobStep::Failed { error: "late".to_owned(), millis: 1 },
            ] {
                job.apply(number, &step, 2);
            }
        }
        assert_eq!(job, before);
        job.apply(2, &JobStep::Began { due: None }, 3);
        let open = job.clone();
        job.apply(3, &JobStep::Began { due: Some(HOUR) }, 4);
        assert_eq!(job, open, "there is one run at most that has not ended");
    }

    #[test]
    fn next_run_reads_from_where_one_that_succeeded_ended() {
        let mut job = hourly();
        assert_eq!(job.unread(3, "s", 5), StreamRead { stream: "s".into(), from: 0, to: 5 });
        let read = job.unread(3, "s", 5);
        job.apply(1, &JobStep::Began { due: None }, 1);
        job.apply(1, &JobStep::Reads { id: 3, read }, 1);
        job.apply(1, &JobStep::Failed { error: "é".repeat(ERROR_BYTES_MAX), millis: 1 }, 1);
        assert_eq!(job.unread(3, "s", 9).from, 0);
        assert_eq!(job.open().unwrap().error.as_ref().unwrap().len(), ERROR_BYTES_MAX);
        job.apply(1, &JobStep::Succeeded { rows: 1, millis: 1 }, 2);
        assert_eq!(job.unread(3, "s", 9).from, 5);
        assert_eq!(job.unread(4, "t", 2).from, 0);
        job.forget_stream(3);
        assert_eq!(job.unread(3, "s", 9).from, 0);
    }
}
