//! The stop signal and the time limit of a run of statements.
//!
//! An aborted task ends only when it next yields. Operators that compute for long check the signal meanwhile
//! ([`stoppable`](crate::stoppable), [`watched`](crate::watched)).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{cancelled, shutting_down};
use crate::{ErrorKind, SqlError};

/// Time that a stopped run has to end by itself before its client is answered without it.
const GRACE: Duration = Duration::from_millis(1000);

/// Stop signal and time limit of a run of statements.
#[derive(Debug)]
pub(crate) struct Cancellation {
    told: AtomicBool,
    /// The same, for who waits for it.
    changes: watch::Sender<bool>,
    /// True if all runs end, rather than because of its reader.
    is_shutdown: AtomicBool,
    /// End of the time limit, and its duration.
    end: Option<(Instant, Duration)>,
}

impl Cancellation {
    /// The state for a run that begins now.
    pub(crate) fn new(duration_max: Option<Duration>) -> Cancellation {
        let end = duration_max.and_then(|duration| Some((Instant::now().checked_add(duration)?, duration)));
        let (changes, _) = watch::channel(false);
        Cancellation { told: AtomicBool::new(false), changes, is_shutdown: AtomicBool::new(false), end }
    }

    /// Cancels the run: nobody needs its result any more.
    pub(crate) fn cancel(&self) {
        self.told.store(true, Ordering::Relaxed);
        self.changes.send_replace(true);
    }

    #[cfg(feature = "distributed")]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    /// Completes when the run is cancelled.
    #[cfg(feature = "distributed")]
    pub(crate) async fn cancelled(&self) {
        // The sender is part of `self`.
        let _ = self.changes.subscribe().wait_for(|told| *told).await;
    }

    /// Completes [`GRACE`] after the run was stopped or its time was over, with the reason.
    ///
    /// A run that computes without yielding does not notice either before it yields. Its client gets this error instead of
    /// waiting. The abandoned run keeps its place among those that run until it yields, so there are never more than
    /// `statements_max` of them.
    pub(crate) async fn grace_expired(self: Arc<Cancellation>) -> SqlError {
        let mut changes = self.changes.subscribe();
        let told = async {
            // The sender is part of `self`, so it outlives this.
            let _ = changes.wait_for(|told| *told).await;
        };
        match self.end {
            None => told.await,
            Some((at, _)) => tokio::select! {
                () = told => {}
                () = tokio::time::sleep_until(at) => {}
            },
        }
        tokio::time::sleep(GRACE).await;
        self.check().err().unwrap_or_else(cancelled)
    }

    /// All runs end.
    pub(crate) fn report_shutdown(&self) {
        self.is_shutdown.store(true, Ordering::Relaxed);
        self.cancel();
    }

    /// The reason why the run was stopped.
    pub(crate) fn why(&self) -> SqlError {
        if self.is_shutdown.load(Ordering::Relaxed) { shutting_down() } else { cancelled() }
    }

    /// An error once it is not wanted any more, or its time is over.
    pub(crate) fn check(&self) -> Result<(), SqlError> {
        if self.told.load(Ordering::Relaxed) {
            return Err(self.why());
        }
        match self.end {
            Some((at, duration)) if at <= Instant::now() => Err(timeout_error(duration)),
            _ => Ok(()),
        }
    }
}

/// The error of a statement that exceeded its time limit.
pub(crate) fn timeout_error(duration: Duration) -> SqlError {
    SqlError::new(ErrorKind::Limit, format!("the statement took longer than {} ms", duration.as_millis()))
        .with_hint("Read less of it, or raise the limit: sql.timeout_ms, or statement_timeout of the client.")
}
