//! Jobs: statements of SQL that run when their time comes, each time over what is new.
//!
//! What a job is and what has become of its runs stands in the catalog, so in the log. When jobs run, and how
//! many at once, is decided by [`scheduler`], an attempt is made by [`run`], over tables that [`tables`] narrows to what
//! the run is to read.
//!
//! A crash at any time leaves the last run open, and it is taken up again:
//!
//! ```text
//! log:    began ─► reads of stream s [from, to) ─►                                  ─► succeeded (read to `to`)
//! tables:                                          INSERT's commit, with (job, run)
//! ```
//!
//! The offsets that a run reads are written down before it reads, and its number before it writes. So an INSERT that was
//! committed and is not in the log yet is found by its number in its table (or among the stream's producers) and not done
//! again, and what it had read is just what is counted as read.
//! Limits: `jobs.*` of the settings; of each job [`entry::RUNS_KEPT`] runs are remembered.

mod reads;
mod run;
mod scheduler;
mod show;

pub(crate) use scheduler::Jobs;
pub(crate) use show::JOB_RUNS;
