//! The runs of a job: what happens to them step by step, what they read of streams, and what all of them came to.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;

use super::JobEntry;

/// Runs of a job that are remembered.
pub const RUNS_KEPT: usize = 100;

/// The bytes of an error that are remembered.
const ERROR_BYTES_MAX: usize = 2000;

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRun {
    /// Its number, from 1.
    pub number: u64,
    /// The time of the schedule that it is for, the last one if it makes up for several; none: it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
    /// Time of its beginning.
    pub began: Millis,
    /// Time of its success; none: it has not succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// Attempts that failed.
    #[serde(default)]
    pub failures: u32,
    /// The last error.
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
    /// The offsets that an incremental run reads, by the streams' numbers in the log.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reads: BTreeMap<u32, StreamRead>,
    /// Tables that the next statement to be done has dropped, or was about to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Box<str>>,
}

/// The part of a stream that a run reads: offsets `[from, to)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRead {
    /// The stream's name.
    pub stream: Box<str>,
    /// The first offset.
    pub from: u64,
    /// The offset after the last.
    pub to: u64,
}

/// A step of a run, as the log has it.
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
        /// The error.
        error: String,
        /// Milliseconds that it took.
        #[serde(default)]
        millis: u64,
    },
}

/// The counted results of a job's runs since it was created, forgotten runs included.
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

impl JobEntry {
    /// Applies a step of a run. A step of an unknown run is ignored.
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

    /// The offsets that a run has to read of a stream whose next offset is `to`.
    pub fn unread(&self, id: u32, stream: &str, to: u64) -> StreamRead {
        let from = self.read_to.get(&id).copied().unwrap_or(0);
        StreamRead { stream: stream.into(), from, to: to.max(from) }
    }

    /// A stream is gone, and its number is not given again.
    pub(crate) fn forget_stream(&mut self, id: u32) {
        self.read_to.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::job::fixture::{HOUR, hourly, run};

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
}
