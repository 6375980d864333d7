//! A job as the catalog has it: its declaration, how far it has read, and its last runs.
//!
//! A job is the result of a sequence of changes, so it is the same after a restart as before. A run lasts until it has
//! succeeded: after a failure or a restart the same run is resumed, with its number, the same end of what it reads, and the
//! statements that it has completed. So at most one run is open, and it is the last. Pure: knows nothing of clocks, tasks
//! and SQL.

mod due;
mod run;
mod snapshot;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateJob, JobChange};

pub use self::{
    run::{JobRun, JobStep, JobTotals, RUNS_KEPT, StreamRead},
    snapshot::JobSnapshot,
};
use crate::{CatalogError, Schedule};

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEntry {
    /// Its number; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration as it is now.
    pub create: CreateJob,
    /// It runs when its schedule says.
    pub is_enabled: bool,
    /// Its last runs, oldest first.
    pub runs: VecDeque<Arc<JobRun>>,
    /// The results of all its runs, counted.
    pub totals: JobTotals,
    schedule: Schedule,
    /// The time up to which nothing is due any more.
    covered: Millis,
    /// The same while the clock is long before that: it was wrong, and will not come there soon, or is wrong, and will.
    covered_meanwhile: Option<Millis>,
    /// The next due time, whether the job is enabled or not.
    due: Option<Millis>,
    /// The offset at which the next incremental run begins to read each stream, by the stream's number in the log.
    read_to: BTreeMap<u32, u64>,
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

    /// Alters it; returns true if that changed anything. Runs that were missed while it was disabled, or that another
    /// schedule would have had, are not made up for.
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

    /// The run that has not ended.
    pub fn open(&self) -> Option<&Arc<JobRun>> {
        self.runs.back().filter(|run| run.ended.is_none())
    }

    /// The number of the run that is next.
    pub fn next_run(&self) -> u64 {
        self.runs.back().map_or(1, |run| run.number + 1)
    }

    /// True if each run reads only what came since the last one.
    pub fn is_incremental(&self) -> bool {
        self.create.options.incremental == Some(true)
    }

    /// The time an attempt may take, in milliseconds, where it is said; 0: as long as it takes.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.create.options.timeout_ms
    }
}

fn schedule(create: &CreateJob) -> Result<Schedule, CatalogError> {
    Schedule::parse(&create.schedule, create.options.time_zone.as_deref()).map_err(CatalogError::Schedule)
}

/// A job for the tests of its modules.
#[cfg(test)]
mod fixture {
    use swiftwater_lang::ddl::JobOptions;

    use super::*;

    pub(super) const HOUR: Millis = 3_600_000;

    pub(super) fn hourly() -> JobEntry {
        let create = CreateJob {
            name: "j".into(),
            if_not_exists: false,
            schedule: "@hourly".into(),
            options: JobOptions::default(),
            sql: "SELECT 1".into(),
        };
        JobEntry::new(0, create, HOUR / 2).unwrap()
    }

    pub(super) fn run(job: &mut JobEntry, due: Option<Millis>, at: Millis) {
        let number = job.next_run();
        job.apply(number, &JobStep::Began { due }, at);
        job.apply(number, &JobStep::Succeeded { rows: 1, millis: 3 }, at);
    }
}
