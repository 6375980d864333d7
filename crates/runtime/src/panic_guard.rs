//! Contains panics of the engine itself: a panic ends the affected queries, never a shard or the ticker.
//!
//! [`guarded`] contains a panic where the code knows which queries it affects. [`restarted`] is the outer guard of a thread:
//! it runs the thread's loop again. Both log the fault and count it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use tracing::error;

use crate::EndReason;

/// Faults of this process since it started. Threads belong to the process, so its engines share one counter.
static FAULTS: AtomicU64 = AtomicU64::new(0);

/// The number of faults there were since the process started: panics that the engine contained.
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Does the work; if it panics, returns the reason why the queries concerned must end. State that the work was
/// changing must not be used any more, unless it is valid after any change.
pub(crate) fn guarded<T>(what: &'static str, work: impl FnOnce() -> T) -> Result<T, EndReason> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        error!(what, "a fault of the engine: the affected queries are ended");
        EndReason::Failed(format!("{what}: this is a fault of the server, which its log describes"))
    })
}

/// Counts and logs a panic that ended the work of a task, which starts again.
pub fn count_panic(task: &str) {
    FAULTS.fetch_add(1, Ordering::Relaxed);
    error!(task, "a fault of the engine: the task restarts");
}

/// Runs a thread's loop until it returns. A panic that nothing inside contained starts the loop again.
pub(crate) fn restarted(thread: &str, mut run: impl FnMut()) {
    while catch_unwind(AssertUnwindSafe(&mut run)).is_err() {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        error!(thread, "a fault of the engine: the thread's loop restarts");
    }
}
