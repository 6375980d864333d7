//! Schedules jobs: each at most once at a time, a limited number at once, the longest-waiting first.
//!
//! The scheduler checks the clock at intervals for due jobs and for runs that have not ended. A failed run backs off before
//! its next attempt, longer after each failure up to a limit; other jobs use its place meanwhile. Jobs take no slots from
//! other statements, so the two compete only for the machine.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use swiftwater_catalog::kind::job::JobRun;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::run::AttemptError;
use crate::{EngineError, durable::history::History, shared::Shared, supervisor::TaskKind};
use swiftwater_runtime::lock_order::{OrderedMutex, level};

/// The time between looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

type Reply = oneshot::Sender<Result<Arc<JobRun>, AttemptError>>;

/// The activity of the jobs of this process.
pub(crate) struct Jobs {
    state: OrderedMutex<State, level::Jobs>,
    places: Arc<Semaphore>,
    /// Notified when an attempt has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    /// The active jobs by number.
    at_work: HashMap<u32, Work>,
}

enum Work {
    /// An attempt is made; it ends when this says so.
    Attempt(watch::Sender<bool>),
    /// A pause after a failure, until the monotonic clock shows this.
    Rest { until_nanos: u64 },
}

/// The activity of a job, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobActivity {
    Nothing,
    Running,
    Resting { until_nanos: u64 },
}

impl Jobs {
    pub(crate) fn new(running_max: usize) -> Jobs {
        Jobs {
            state: OrderedMutex::default(),
            places: Arc::new(Semaphore::new(running_max.clamp(1, Semaphore::MAX_PERMITS))),
            ended: Notify::new(),
        }
    }

    pub(super) fn activity(&self, id: u32) -> JobActivity {
        match self.state.lock().at_work.get(&id) {
            None => JobActivity::Nothing,
            Some(Work::Attempt(_)) => JobActivity::Running,
            Some(Work::Rest { until_nanos }) => JobActivity::Resting { until_nanos: *until_nanos },
        }
    }

    /// A job was altered: it rests no more.
    pub(crate) fn wake(&self, id: u32) {
        let mut state = self.state.lock();
        if let Some(Work::Rest { .. }) = state.at_work.get(&id) {
            state.at_work.remove(&id);
        }
    }

    /// A job was dropped: its attempt ends.
    pub(crate) fn end(&self, id: u32) {
        match self.state.lock().at_work.remove(&id) {
            Some(Work::Attempt(stop)) => {
                stop.send_replace(true);
            }
            Some(Work::Rest { .. }) | None => {}
        }
    }

    /// Ends all attempts, and begins no more. Open attempts are resumed at the next start.
    pub(crate) async fn stop(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let mut is_any = false;
            {
                let mut state = self.state.lock();
                state.is_stopping = true;
                for work in state.at_work.values() {
                    if let Work::Attempt(stop) = work {
                        stop.send_replace(true);
                        is_any = true;
                    }
                }
            }
            if !is_any {
                return;
            }
            ended.await;
        }
    }
}

/// An attempt that is being made; when it ends in whatever way, so does its entry.
struct AttemptGuard {
    history: Arc<History>,
    id: u32,
    /// The pause of the job after this attempt.
    rest: Option<Duration>,
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        let jobs = &self.history.objects.jobs;
        {
            let mut state = jobs.state.lock();
            // A dropped job has no entry any more.
            if state.at_work.remove(&self.id).is_some()
                && let Some(rest) = self.rest
            {
                let rest = u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX);
                let until_nanos = self.history.clock.monotonic_nanos().saturating_add(rest);
                state.at_work.insert(self.id, Work::Rest { until_nanos });
            }
        }
        jobs.ended.notify_waiters();
    }
}

impl History {
    /// Starts what is due, until the engine ends.
    pub(crate) async fn run_jobs(self: Arc<Self>, shared: Weak<Shared>) {
        let mut closing = self.closing();
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                () = closing.received() => return,
            }
            let Some(shared) = shared.upgrade() else { return };
            self.start_due(&shared);
        }
    }

    fn start_due(self: &Arc<Self>, shared: &Arc<Shared>) {
        let (now, nanos) = (self.wall.now(), self.clock.monotonic_nanos());
        // Not logged: what the log says next of a job tells it the same.
        self.change_catalog(|catalog| catalog.jobs_see_time(now));
        let mut waiting: Vec<(i64, u32)> = self.with_catalog(|catalog| {
            let enabled = catalog.jobs().filter(|job| job.is_enabled);
            let since = enabled.filter_map(|job| match job.open() {
                Some(run) => Some((run.due.unwrap_or(run.began), job.id)),
                None => Some((job.next_due().filter(|due| *due <= now)?, job.id)),
            });
            since.collect()
        });
        waiting.sort_unstable();
        for (_, id) in waiting {
            let mut state = self.objects.jobs.state.lock();
            match state.at_work.get(&id) {
                _ if state.is_stopping => return,
                Some(Work::Attempt(_)) => continue,
                Some(Work::Rest { until_nanos }) if nanos < *until_nanos => continue,
                Some(Work::Rest { .. }) | None => {}
            }
            let Ok(place) = Arc::clone(&self.objects.jobs.places).try_acquire_owned() else { return };
            self.start_attempt(&mut state, shared, id, (Some(place), None));
        }
    }

    /// Runs a job now, whatever its schedule says, when there is a place for it.
    pub(super) async fn run_now(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        name: &str,
    ) -> Result<Arc<JobRun>, AttemptError> {
        let id = self.with_catalog(|catalog| catalog.job(name).map(|job| job.id))?;
        let (reply, answer) = oneshot::channel();
        loop {
            let ended = self.objects.jobs.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            {
                let mut state = self.objects.jobs.state.lock();
                if state.is_stopping {
                    return Err(AttemptError::Stopped);
                }
                if !matches!(state.at_work.get(&id), Some(Work::Attempt(_))) {
                    self.start_attempt(&mut state, shared, id, (None, Some(reply)));
                    break;
                }
            }
            if self.with_catalog(|catalog| catalog.job_of(id).is_none_or(|job| job.open().is_some())) {
                return Err(EngineError::JobRunning(name.to_owned()).into());
            }
            // An attempt that is shown as ended is about to leave its place, or another request waits for one.
            tokio::select! {
                () = ended => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
        answer.await.unwrap_or(Err(AttemptError::Stopped))
    }

    fn start_attempt(
        self: &Arc<Self>,
        state: &mut State,
        shared: &Arc<Shared>,
        id: u32,
        (place, reply): (Option<OwnedSemaphorePermit>, Option<Reply>),
    ) {
        let (stop, mut stopped) = watch::channel(false);
        state.at_work.insert(id, Work::Attempt(stop));
        let mut attempting = AttemptGuard { history: Arc::clone(self), id, rest: None };
        let (history, shared) = (Arc::clone(self), Arc::clone(shared));
        self.supervisor.spawn(TaskKind::Reader, async move {
            let attempt = async {
                let places = Arc::clone(&history.objects.jobs.places);
                let _place = match place {
                    Some(place) => place,
                    None => places.acquire_owned().await.map_err(|_| AttemptError::Stopped)?,
                };
                history.attempt(&shared, id).await
            };
            let result = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => Err(AttemptError::Stopped),
                result = attempt => result,
            };
            attempting.rest = history.rest_after(id, &result);
            drop(attempting);
            if let Some(reply) = reply {
                // The client may be gone.
                let _ = reply.send(result);
            }
        });
    }

    /// The time a job rests after an attempt.
    fn rest_after(&self, id: u32, result: &Result<Arc<JobRun>, AttemptError>) -> Option<Duration> {
        let error = match result {
            Ok(_) | Err(AttemptError::Stopped) => return None,
            Err(AttemptError::Statement(error)) => error.to_string(),
            Err(AttemptError::Engine(error)) => error.to_string(),
        };
        let (name, failures) = self.with_catalog(|catalog| {
            let job = catalog.job_of(id)?;
            Some((job.create.name.clone(), job.open().map_or(1, |run| run.failures.max(1))))
        })?;
        let pause_ms =
            pause_ms(failures, self.config.jobs_retry_pause_ms_min, self.config.jobs_retry_pause_ms_max);
        tracing::warn!(job = %name, error, failures, pause_ms, "an attempt at a job failed");
        Some(Duration::from_millis(pause_ms))
    }
}

/// The pause after so many failures: the shortest, then twice as long after each, up to the longest.
fn pause_ms(failures: u32, min: u64, max: u64) -> u64 {
    let doublings = failures.saturating_sub(1).min(32);
    min.saturating_mul(1 << doublings).min(max.max(min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_up_to_a_limit() {
        let pauses: Vec<u64> = (1..=6).map(|failures| pause_ms(failures, 1000, 10_000)).collect();
        assert_eq!(pauses, [1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(pause_ms(u32::MAX, 1000, 300_000), 300_000);
        assert_eq!(pause_ms(1, 5000, 10), 5000, "the longest is no shorter than the shortest");
    }
}
