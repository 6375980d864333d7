//! Jobs: SQL statements that run on a schedule, each time over the new events.
//!
//! The catalog, and so the log, stores each job and the outcomes of its runs. [`scheduler`] decides when jobs run and how
//! many run at once. [`run`] makes one attempt at a run, over tables that [`reads`] restricts to the input of the run.
//!
//! A crash at any time leaves the last run open, and the next start resumes it:
//!
//! ```text
//! log:    began ─► reads of stream s [from, to) ─►                                  ─► succeeded (read to `to`)
//! tables:                                          INSERT's commit, with (job, run)
//! ```
//!
//! The offsets that a run reads are recorded before it reads, and its number before it writes. An INSERT that was committed
//! but is not in the log yet is found by its number, in its table or among the stream's producers. It is not repeated, and
//! exactly the events that it had read count as read.
//! Limits: `jobs.*` of the settings; the catalog remembers the last `RUNS_KEPT` runs of each job.

mod ddl;
mod reads;
mod run;
mod scheduler;
mod show;

pub(crate) use ddl::{AlterJob, DropJob};
pub(crate) use scheduler::Jobs;
