//! Threads for work that computes much and waits for files in between.
//!
//! The runtime's blocking threads are not used for this. They write files, by one call each, and there may be as few of them
//! as the machine has cores. Work that occupied all of them would wait for ever for one more.

use tokio::{runtime::Handle, sync::oneshot};

use crate::error::{Result, StoreError};

/// Runs it on a thread of its own, off the threads that serve others. `doing` names it, if it ends by a panic. It runs to
/// its end if nobody waits for it any more. The caller bounds how much of it there is at a time.
pub(crate) async fn run_on_io_thread<T: Send + 'static>(
    doing: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    run_blocking(doing, move |runtime| runtime.block_on(work)).await
}

/// Does the same as [`run_on_io_thread`], for work that waits for futures itself, on the runtime that it receives.
pub(crate) async fn run_blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce(&Handle) -> Result<T> + Send + 'static,
) -> Result<T> {
    let runtime = Handle::current();
    let (done, result) = oneshot::channel();
    let thread = move || {
        // The caller may be gone.
        let _ = done.send(work(&runtime));
    };
    let begun = std::thread::Builder::new().name("store".to_owned()).spawn(thread);
    let thread = begun.map_err(|_| StoreError::Task(doing))?;
    let result = result.await;
    // It has nothing more to do but to end, so nobody waits here. Let go of instead of joined, a thread that ends at that moment
    // can take the process with it: `pthread_detach` of glibc 2.36 looks once more at what may be gone by then.
    let _ = thread.join();
    result.map_err(|_| StoreError::Task(doing))?
}
