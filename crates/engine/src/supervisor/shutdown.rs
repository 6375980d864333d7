//! Runs the tasks of an engine, and stops them in the reverse order of their dependencies.
//!
//! Each task has a [`TaskKind`]. A close stops one kind after another: the tasks of a kind get their signal when all tasks of
//! the kinds before have ended. So a reader never sees its source stop, and the last commit of a view, the last append of a
//! table and the last checkpoint follow each other. A kind whose tasks do not end within the grace period is aborted; what it
//! did not finish is done again from disk at the next start.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use swiftwater_runtime::lock_order::OrderedMutex;

/// The kinds of tasks, in the order in which they stop: a task reads the state of later kinds only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TaskKind {
    /// Sinks, alerts, jobs, durable queries, change feeds and statements.
    Reader,
    /// Views.
    View,
    /// Joins of streams.
    Join,
    /// Writers of tables, the opening of tables and the copies of joined tables.
    Table,
    /// Checkpoints and the watch over readiness.
    Checkpoint,
}

impl TaskKind {
    /// All kinds, in the order in which they stop.
    pub(crate) const ALL: [TaskKind; 5] =
        [TaskKind::Reader, TaskKind::View, TaskKind::Join, TaskKind::Table, TaskKind::Checkpoint];
}

/// The tasks of an engine.
pub(crate) struct Supervisor {
    /// The runtime in which the tasks run.
    runtime: Handle,
    /// The last kind whose tasks are to stop; none while the engine is open.
    stopping: watch::Sender<Option<TaskKind>>,
    tasks: OrderedMutex<Vec<(TaskKind, JoinHandle<()>)>>,
}

/// The signal on which the tasks of a kind stop.
pub(crate) struct StopSignal {
    kind: TaskKind,
    stopping: watch::Receiver<Option<TaskKind>>,
}

impl StopSignal {
    /// True if the tasks of the kind are to stop.
    pub(crate) fn is_sent(&self) -> bool {
        *self.stopping.borrow() >= Some(self.kind)
    }

    /// Returns when the tasks of the kind are to stop.
    pub(crate) async fn received(&mut self) {
        let kind = Some(self.kind);
        let _ = self.stopping.wait_for(|last| *last >= kind).await;
    }
}

impl Supervisor {
    /// A supervisor whose tasks run in the runtime of the caller.
    pub(crate) fn new() -> Supervisor {
        Supervisor {
            runtime: Handle::current(),
            stopping: watch::Sender::new(None),
            tasks: OrderedMutex::default(),
        }
    }

    /// Starts a task.
    pub(crate) fn spawn(&self, kind: TaskKind, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|(_, task)| !task.is_finished());
        // A statement that begins one may be on threads that are for SQL.
        tasks.push((kind, self.runtime.spawn(task)));
    }

    /// The signal on which the tasks of a kind stop.
    pub(crate) fn stop_signal(&self, kind: TaskKind) -> StopSignal {
        StopSignal { kind, stopping: self.stopping.subscribe() }
    }

    /// Stops all tasks, kind by kind. Each kind has `grace` to end; then its tasks are aborted.
    pub(crate) async fn stop(&self, grace: Duration) {
        for kind in TaskKind::ALL {
            self.send(kind);
            let deadline = Instant::now() + grace;
            while let Some(mut task) = self.next_task(kind) {
                if timeout_at(deadline, &mut task).await.is_err() {
                    task.abort();
                    let _ = task.await;
                }
            }
        }
    }

    /// Aborts all tasks.
    pub(crate) async fn abort(&self) {
        self.send(TaskKind::Checkpoint);
        while let Some(task) = self.next_task(TaskKind::Checkpoint) {
            task.abort();
            let _ = task.await;
        }
    }

    /// Tells the tasks of a kind, and of earlier kinds, to stop.
    fn send(&self, kind: TaskKind) {
        self.stopping.send_modify(|last| *last = (*last).max(Some(kind)));
    }

    /// A task of a kind, or of one before that started late; none if all have ended.
    fn next_task(&self, kind: TaskKind) -> Option<JoinHandle<()>> {
        let mut tasks = self.tasks.lock();
        let place = tasks.iter().position(|(other, _)| *other <= kind)?;
        Some(tasks.swap_remove(place).1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn kinds_stop_one_after_another_in_the_reverse_order_of_their_dependencies() {
        let (supervisor, ends) = (Supervisor::new(), Arc::new(OrderedMutex::<Vec<TaskKind>>::default()));
        // Started in another order than they stop in, and two of each.
        let kinds = TaskKind::ALL.into_iter().rev().chain(TaskKind::ALL);
        for kind in kinds {
            let mut stop = supervisor.stop_signal(kind);
            let later: Vec<StopSignal> = TaskKind::ALL
                .into_iter()
                .filter(|other| *other > kind)
                .map(|other| supervisor.stop_signal(other))
                .collect();
            let ends = Arc::clone(&ends);
            supervisor.spawn(kind, async move {
                stop.received().await;
                // Other tasks run meanwhile: those of later kinds would end first if they could.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                    assert!(later.iter().all(|signal| !signal.is_sent()), "{kind:?} has not ended");
                }
                ends.lock().push(kind);
            });
        }
        assert!(!supervisor.stop_signal(TaskKind::Reader).is_sent());
        supervisor.stop(Duration::from_secs(60)).await;
        let expected: Vec<TaskKind> = TaskKind::ALL.into_iter().flat_map(|kind| [kind, kind]).collect();
        assert_eq!(*ends.lock(), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn task_that_does_not_end_is_aborted_after_the_grace_period() {
        let (supervisor, alive) = (Supervisor::new(), Arc::new(()));
        let held = Arc::clone(&alive);
        supervisor.spawn(TaskKind::View, async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        supervisor.stop(Duration::from_millis(1)).await;
        assert_eq!(Arc::strong_count(&alive), 1, "the task is gone");
        assert!(supervisor.stop_signal(TaskKind::Checkpoint).is_sent(), "the kinds after it were stopped");
    }

    #[tokio::test]
    async fn task_that_starts_late_is_awaited_with_a_later_kind() {
        let supervisor = Arc::new(Supervisor::new());
        let ended = Arc::new(OrderedMutex::<bool>::default());
        let (late, flag) = (Arc::clone(&supervisor), Arc::clone(&ended));
        let mut stop = supervisor.stop_signal(TaskKind::View);
        supervisor.spawn(TaskKind::View, async move {
            stop.received().await;
            late.spawn(TaskKind::Reader, async move {
                tokio::task::yield_now().await;
                *flag.lock() = true;
            });
        });
        supervisor.stop(Duration::from_secs(60)).await;
        assert!(*ended.lock());
    }
}
