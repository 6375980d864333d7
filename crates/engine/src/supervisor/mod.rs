//! Supervises the tasks that maintain objects. It runs a task, retries it after failures and panics, and ends it when its
//! object is dropped or the engine closes.
//!
//! ```text
//!            ┌── failed or panicked: report, pause ──┐
//!            ▼                                       │
//! maintain ─ run ────────────────────────────────────┤
//!                                                    ├─ nothing left to do ──► end
//!                                                    ├─ the engine closes ───► end; the next start resumes from disk
//!                                                    └─ dropped ─────────────► delete its data ──► end
//! ```
//!
//! Any wait of a task, its pauses included, ends at once when the object is dropped or the tasks of its kind are stopped. The
//! [`Supervisor`] stops them kind by kind.
//!
//! The [`Registry`] has all maintained objects. The log is trimmed up to the first position that one of them still needs.
//!
//! The services of the engine itself, such as the scheduler of jobs, have no object. They run again after a panic, too.

mod registry;
mod shutdown;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use swiftwater_catalog::Object;
use swiftwater_log::LogPosition;
use tokio::sync::watch;

pub(crate) use self::{
    registry::{Registration, Registry},
    shutdown::{StopSignal, Supervisor, TaskKind},
};
use crate::durable::history::History;
use swiftwater_runtime::parts::count_panic;

/// Signals to the task of an object that the object was dropped.
#[derive(Debug, Default)]
pub(crate) struct DropSignal(watch::Sender<bool>);

/// The reason why a task ends before its work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The engine closes.
    Closing,
    /// The object was dropped.
    Dropped,
}

/// The time of the next attempt of failed work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAttempt {
    /// The next attempt is after a pause.
    After(Duration),
    /// Never: only a drop ends the object.
    Never,
}

/// An object that a task of its own maintains.
pub(crate) trait Maintained: Send + Sync + 'static {
    /// The error of its work.
    type Error: Send;

    /// Its work watches for a drop and for the close of the engine itself, as it has something to finish then. Other work is
    /// cancelled wherever it waits.
    const STOPS_ITSELF: bool = false;

    /// Its kind and name.
    fn object(&self) -> Object;

    /// The kind of its task: when it stops as the engine closes.
    fn task_kind(&self) -> TaskKind;

    /// The signal to its task that it was dropped.
    fn drop_signal(&self) -> &DropSignal;

    /// The first position of the log that it still needs; none if it needs nothing, as after its work has ended with success.
    fn retains(&self, history: &History) -> Option<LogPosition> {
        let _ = history;
        None
    }

    /// Works until there is nothing left to do. Unless it stops itself, it may be cancelled wherever it waits; the next run
    /// continues from disk.
    fn run(self: &Arc<Self>, history: &Arc<History>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Reports a failure, where it is news, and decides when to try again.
    fn failed(&self, history: &Arc<History>, error: Self::Error) -> NextAttempt;

    /// A panic ended the work; the supervisor has reported it.
    fn panicked(&self) -> NextAttempt {
        NextAttempt::After(PANIC_PAUSE)
    }

    /// Deletes what is on disk of an object that was dropped. Data that cannot be deleted now is deleted at the next
    /// start.
    fn drop_data(&self, history: &Arc<History>) -> impl Future<Output = ()> + Send {
        let _ = history;
        std::future::ready(())
    }
}

/// The pause after a panic: what panics at once must not take a processor.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

impl DropSignal {
    /// The object was dropped.
    pub(crate) fn send(&self) {
        self.0.send_replace(true);
    }

    /// True if it was.
    pub(crate) fn is_sent(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is.
    pub(crate) async fn received(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|is_dropped| *is_dropped).await;
    }
}

impl History {
    /// Registers an object and starts its task.
    pub(crate) fn maintain<M: Maintained>(self: &Arc<Self>, object: Arc<M>) {
        let registration = self.registry.register(&object);
        self.maintain_registered(object, registration);
    }

    /// Starts the task of an object that is registered.
    pub(crate) fn maintain_registered<M: Maintained>(
        self: &Arc<Self>,
        object: Arc<M>,
        registration: Registration,
    ) {
        let history = Arc::clone(self);
        self.supervisor.spawn(object.task_kind(), async move {
            let ended = history.supervise(&object).await;
            let is_dropped = ended == Some(Ended::Dropped) || object.drop_signal().is_sent();
            if is_dropped || ended.is_none() {
                history.registry.remove(registration);
            }
            if is_dropped {
                object.drop_data(&history).await;
            }
        });
    }

    /// Starts a service of the engine itself, which ends when the engine closes. After a panic it starts anew.
    pub(crate) fn run_service<F>(
        self: &Arc<Self>,
        (kind, name): (TaskKind, &'static str),
        work: impl Fn(Arc<History>) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let history = Arc::clone(self);
        self.supervisor.spawn(kind, async move {
            let mut stop = history.supervisor.stop_signal(kind);
            while AssertUnwindSafe(work(Arc::clone(&history))).catch_unwind().await.is_err() {
                count_panic(name);
                tokio::select! {
                    () = stop.received() => return,
                    () = tokio::time::sleep(PANIC_PAUSE) => {}
                }
            }
        });
    }

    /// Runs the work of an object to its end. Returns why it ended before; none if the work ended with success.
    async fn supervise<M: Maintained>(self: &Arc<Self>, object: &Arc<M>) -> Option<Ended> {
        loop {
            let retry = tokio::select! {
                biased;
                ended = self.ended(object.task_kind(), object.drop_signal()), if !M::STOPS_ITSELF => return Some(ended),
                ran = AssertUnwindSafe(object.run(self)).catch_unwind() => match ran {
                    Ok(Ok(())) => return None,
                    Ok(Err(error)) => object.failed(self, error),
                    Err(_) => {
                        count_panic(&object.object().to_string());
                        object.panicked()
                    }
                },
            };
            let pause = async {
                match retry {
                    NextAttempt::After(pause) => tokio::time::sleep(pause).await,
                    NextAttempt::Never => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = self.ended(object.task_kind(), object.drop_signal()) => return Some(ended),
                () = pause => {}
            }
        }
    }

    /// Returns when the engine closes and tasks of the kind stop, or when the object is dropped.
    pub(crate) async fn ended(&self, kind: TaskKind, dropped: &DropSignal) -> Ended {
        let mut stop = self.supervisor.stop_signal(kind);
        tokio::select! {
            () = stop.received() => Ended::Closing,
            () = dropped.received() => Ended::Dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use swiftwater_catalog::ObjectKind;
    use swiftwater_event::SystemClock;
    use swiftwater_log::LogPosition;
    use swiftwater_runtime::lock_order::OrderedMutex;

    use super::*;
    use crate::{Engine, EngineConfig, HistoryConfig};

    /// Panics at first, fails then, and then works until it is dropped.
    #[derive(Default)]
    struct Probe {
        runs: AtomicU32,
        failures: AtomicU32,
        works: watch::Sender<bool>,
        dropped: DropSignal,
        is_deleted: AtomicBool,
        retains: OrderedMutex<Option<LogPosition>>,
    }

    impl Maintained for Probe {
        type Error = u32;

        fn object(&self) -> Object {
            ObjectKind::Sink.named("probe")
        }

        fn task_kind(&self) -> TaskKind {
            TaskKind::Reader
        }

        fn drop_signal(&self) -> &DropSignal {
            &self.dropped
        }

        async fn run(self: &Arc<Self>, _: &Arc<History>) -> Result<(), u32> {
            match self.runs.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("the first run"),
                1 => Err(1),
                _ => {
                    self.works.send_replace(true);
                    std::future::pending().await
                }
            }
        }

        fn retains(&self, _: &History) -> Option<LogPosition> {
            *self.retains.lock()
        }

        fn failed(&self, _: &Arc<History>, error: u32) -> NextAttempt {
            self.failures.fetch_add(error, Ordering::Relaxed);
            NextAttempt::After(Duration::from_millis(1))
        }

        fn panicked(&self) -> NextAttempt {
            NextAttempt::After(Duration::from_millis(1))
        }

        async fn drop_data(&self, _: &Arc<History>) {
            self.is_deleted.store(true, Ordering::Relaxed);
            self.works.send_replace(false);
        }
    }

    async fn open(dir: &std::path::Path) -> (Engine, Arc<History>) {
        let mut history = HistoryConfig::at(dir);
        history.log_free_bytes_min = 0;
        let engine =
            Engine::open(EngineConfig::default(), history, Arc::new(SystemClock::new())).await.unwrap();
        let history = Arc::clone(engine.shared().history.get().unwrap());
        (engine, history)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn service_that_panics_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (engine, history) = open(dir.path()).await;
        let (faults, runs) = (crate::faults(), Arc::new(watch::Sender::new(0)));
        let counted = Arc::clone(&runs);
        history.run_service((TaskKind::Reader, "a service of a test"), move |history| {
            counted.send_modify(|runs| *runs += 1);
            let run = *counted.borrow();
            async move {
                assert!(run > 1, "the first run");
                history.closing().received().await;
            }
        });
        runs.subscribe().wait_for(|runs| *runs == 2).await.unwrap();
        assert!(crate::faults() > faults, "panics are counted");
        engine.shutdown(Duration::from_secs(5)).await;
        assert_eq!(*runs.borrow(), 2, "it ended with the engine");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn task_that_panics_or_fails_runs_again_and_a_drop_deletes_its_data() {
        let dir = tempfile::tempdir().unwrap();
        let (engine, history) = open(dir.path()).await;
        let faults = crate::faults();
        let (probe, closed) = (Arc::new(Probe::default()), Arc::new(Probe::default()));
        for probe in [&probe, &closed] {
            history.maintain(Arc::clone(probe));
            probe.works.subscribe().wait_for(|works| *works).await.unwrap();
            let counts = (probe.runs.load(Ordering::Relaxed), probe.failures.load(Ordering::Relaxed));
            assert_eq!(counts, (3, 1));
        }
        assert!(crate::faults() >= faults + 2, "panics are counted");
        probe.dropped.send();
        probe.works.subscribe().wait_for(|works| !*works).await.unwrap();
        assert!(probe.is_deleted.load(Ordering::Relaxed));
        engine.shutdown(Duration::from_secs(5)).await;
        assert!(!closed.is_deleted.load(Ordering::Relaxed), "what was not dropped stays on disk");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn log_is_trimmed_up_to_what_an_object_retains_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let (engine, history) = open(dir.path()).await;
        history.tick(1).await.unwrap();
        let first = history.log.horizons().appended;
        let (probe, closed) = (Arc::new(Probe::default()), Arc::new(Probe::default()));
        *probe.retains.lock() = Some(first);
        for probe in [&probe, &closed] {
            history.maintain(Arc::clone(probe));
            probe.works.subscribe().wait_for(|works| *works).await.unwrap();
        }
        history.tick(2).await.unwrap();
        history.all_synced().await.unwrap();
        assert!(history.log.horizons().synced > first);
        assert_eq!(history.needed_from(), first);
        let (_, needed) = history.checkpoint().await.unwrap();
        assert_eq!(needed, first, "the probe retains the log");

        probe.dropped.send();
        assert_eq!(history.needed_from(), history.log.horizons().synced, "not after its drop");
        let (counted, needed) = history.checkpoint().await.unwrap();
        assert_eq!(needed, counted);
        probe.works.subscribe().wait_for(|works| !*works).await.unwrap();

        let last = history.log.horizons().synced;
        *closed.retains.lock() = Some(last);
        history.tick(3).await.unwrap();
        engine.shutdown(Duration::from_secs(5)).await;
        assert_eq!(history.needed_from(), last, "an object retains the log after the engine closed");
    }
}
