//! Views at work: one task per view takes the stream's synced events and commits what they changed (every second by
//! default).
//!
//! Small batches that follow one another and arrived in one millisecond are folded as one.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use swiftwater_catalog::Object;
use swiftwater_event::{Backoff, EventBatch};
use swiftwater_live::{Changes, Shard};
use swiftwater_log::LogReader;
use swiftwater_views::ViewStoreError;
use tokio::task::{JoinError, JoinHandle};

use super::{
    accept::AcceptError,
    behind::BackfillError,
    lifecycle::delete_state,
    lookup::{Awaited, WaitError},
    next_events::Next,
    propagate::{PropagatedChanges, committed_all},
    view::{At, View},
};
use crate::{
    durable::{
        history::{History, causes, run_blocking},
        log_tail::{QueuedBatch, joined},
        stored_stream::Reader,
        table_writer::TableWriterError,
    },
    objects::lookup_join::TableError,
    supervisor::{DropSignal, Ended, Maintained, NextAttempt, TaskKind},
};

/// Pauses between attempts.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(10));

/// The pause after events that could not be taken in; they are there still.
const RETRY_SOON: Duration = Duration::from_millis(50);

/// The number of events from the table whose changes are committed together.
const KEPT_PAST_EVENTS: u64 = 500_000;

/// The reason why a view does not continue.
#[derive(Debug, thiserror::Error)]
enum MaintainError {
    #[error("its events cannot be read")]
    LogTail(#[from] TableWriterError),
    #[error("its events cannot be read from the table")]
    Past(#[from] BackfillError),
    #[error("its events cannot be processed")]
    Take(#[from] AcceptError),
    #[error("its events cannot be joined yet")]
    Wait(#[from] WaitError),
}

impl MaintainError {
    /// True if another attempt would fail in the same way.
    fn is_for_good(&self) -> bool {
        matches!(
            self,
            MaintainError::Take(AcceptError::State | AcceptError::Panic(_))
                | MaintainError::Past(BackfillError::Gone(_))
        )
    }

    /// True if it is no fault: SQL, by which tables are read, is there last.
    fn is_of_the_start(&self) -> bool {
        matches!(
            self,
            MaintainError::Past(BackfillError::Starting)
                | MaintainError::Wait(WaitError::Table(TableError::Starting))
        )
    }
}

/// Batches that are longer are taken by themselves.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// Events that wait for what they are joined with.
struct PendingJoin {
    events: Vec<QueuedBatch>,
    awaited: Awaited,
}

/// True if two batches may be taken as one: small ones that follow one another and arrived at the same time. A batch costs
/// a view far more than one of its events, and where each request is one event, most of a second's batches are such.
fn can_join(fed: &QueuedBatch, next: &QueuedBatch) -> bool {
    let is_small = |fed: &QueuedBatch| fed.batch.bytes().len() <= JOINED_BYTES_MAX;
    is_small(fed)
        && is_small(next)
        && fed.next() == next.first()
        && fed.batch.meta().arrival == next.batch.meta().arrival
}

/// The result of a commit: the changes written to the views over it, and its position.
type CommitOutcome = Result<(Result<Vec<PropagatedChanges>, ViewStoreError>, At), JoinError>;

/// A commit that is being written.
type CommitTask = JoinHandle<CommitOutcome>;

/// The state of a view between two events: something to commit, and room for more.
struct CommitState {
    /// True if there is something to commit when the interval ends.
    is_uncommitted: bool,
    /// Further events may be taken in before the commit.
    has_room: bool,
}

impl Maintained for View {
    type Error = Infallible;

    /// Its last commit is written when the engine closes.
    const STOPS_ITSELF: bool = true;

    fn object(&self) -> Object {
        self.entry.object()
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::View
    }

    fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), Infallible> {
        history.maintain_view(self).await;
        Ok(())
    }

    fn failed(&self, _: &Arc<History>, error: Infallible) -> NextAttempt {
        match error {}
    }

    /// The state in memory may be half changed: a restart of the server continues from disk. The next run waits for the drop.
    fn panicked(&self) -> NextAttempt {
        self.record_failure("a fault of the program stopped the view; restart the server".to_owned(), true);
        NextAttempt::After(Duration::ZERO)
    }

    async fn drop_data(&self, _: &Arc<History>) {
        delete_state(self).await;
    }
}

impl History {
    /// Takes a view's events in and commits it, until it is dropped, cannot go on, or the engine ends.
    pub(super) async fn maintain_view(&self, view: &Arc<View>) {
        let interval = Duration::from_millis(self.config.views_commit_interval_ms.max(1));
        let (mut shard, mut again) = (Shard::default(), None);
        let mut keeping: Option<CommitTask> = None;
        let mut waiting = None;
        let (mut due, mut backoff) = (Box::pin(tokio::time::sleep(interval)), RETRY);
        self.backfill_view(view, &mut shard, &mut backoff).await;
        while view.broken().is_none() {
            let CommitState { is_uncommitted, has_room } = self.start_due_commit(view, &mut keeping);
            // Events that wait for a join come first.
            let may_be_idle = waiting.is_none() && has_room;
            let event = tokio::select! {
                biased;
                _ = self.ended(TaskKind::View, &view.dropped) => break,
                kept = async { keeping.as_mut().expect("it is looked for").await }, if keeping.is_some() => {
                    keeping = None;
                    due.set(tokio::time::sleep(interval));
                    match self.record_commit(view, kept) {
                        true => backoff.reset(),
                        false => due.set(tokio::time::sleep(backoff.pause())),
                    }
                    None
                }
                () = view.commits.nudge.notified() => None,
                () = &mut due, if keeping.is_none() && is_uncommitted => {
                    keeping = Some(self.start_commit(view));
                    None
                }
                events = self.next_joined_events(view, &mut again, &mut waiting), if has_room => Some(events),
                until = self.idle_close(view), if may_be_idle => {
                    view.advance_idle(until);
                    None
                }
            };
            let Some(events) = event else { continue };
            let taken = events.and_then(|events| self.accept_next(view, &mut shard, events));
            let Err(error) = taken else { continue };
            record_error(view, &error);
            if let MaintainError::Wait(_) = &error {
                // They are there still.
                self.pause(TaskKind::View, RETRY_SOON).await;
                continue;
            }
            // From the log, after a while: what was taken out of the feed did not get there.
            view.stored.reread_view(view.id(), view.at().position);
            again = None;
            self.pause(TaskKind::View, RETRY_SOON).await;
        }
        self.finish_view(view, keeping).await;
    }

    /// Folds events that the log no longer has into a view, from its stream's table, until the log has all the rest.
    async fn backfill_view(&self, view: &Arc<View>, shard: &mut Shard, backoff: &mut Backoff) {
        let mut kept_from = None;
        while view.is_behind.load(Ordering::Relaxed) && view.broken().is_none() {
            let past = tokio::select! {
                biased;
                _ = self.ended(TaskKind::View, &view.dropped) => break,
                past = self.joined_past_of(view, &mut kept_from) => past,
            };
            let taken = match past {
                Ok(None) => {
                    view.is_behind.store(false, Ordering::Relaxed);
                    break;
                }
                Ok(Some((events, until))) => {
                    let bytes = events.iter().map(|batch| batch.bytes().len()).sum();
                    let taken = run_blocking(bytes, || {
                        events.iter().try_for_each(|batch| self.accept_one(view, shard, batch))
                    });
                    taken.map(|()| view.pass(until)).map_err(MaintainError::from)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                record_error(view, &error);
                self.pause(TaskKind::View, backoff.pause()).await;
                continue;
            }
            backoff.reset();
            let is_due = view.at().position >= view.committed() + KEPT_PAST_EVENTS;
            if is_due || self.has_changed_much(view) || view.has_unfilled() {
                let kept = self.start_commit(view).await;
                self.record_commit(view, kept);
            }
        }
    }

    /// Begins a commit if one is due, and none is being written or is to be retried later.
    fn start_due_commit(&self, view: &Arc<View>, keeping: &mut Option<CommitTask>) -> CommitState {
        let (is_changed, has_unfilled) = (view.is_changed(), view.has_unfilled());
        // Changes that are not on disk cannot be evicted: if they are too many, events wait, in the log in the end.
        let is_full = is_changed && self.is_full(view);
        let is_due = is_full || (is_changed && self.has_changed_much(view));
        let is_awaited = is_changed && view.is_awaited();
        if !is_changed && keeping.is_none() && self.exceeds_share(view) {
            self.evict_excess(view);
        }
        if (is_due || has_unfilled || is_awaited) && keeping.is_none() && view.failing().is_none() {
            *keeping = Some(self.start_commit(view));
        }
        let has_room = !is_full && (keeping.is_none() || !self.has_changed_much(view));
        CommitState { is_uncommitted: is_changed || has_unfilled, has_room }
    }

    /// Folds the next events into a view, or passes over those that are lost.
    fn accept_next(&self, view: &View, shard: &mut Shard, next: Next) -> Result<(), MaintainError> {
        match next {
            Next::Events(events) => self.accept_events(view, shard, &events).map_err(MaintainError::from),
            Next::Lost(_) if view.has_ended() => Ok(()),
            Next::Lost(end) => {
                report_lost(view, end);
                view.pass(end);
                Ok(())
            }
        }
    }

    /// Commits the rest of a view whose task ends. A broken view waits until it is dropped.
    async fn finish_view(&self, view: &Arc<View>, keeping: Option<CommitTask>) {
        if let Some(keeping) = keeping {
            let kept = keeping.await;
            self.record_commit(view, kept);
        }
        if let Some(why) = view.broken() {
            view.record_on_uppers(&why, true);
            // The log need not keep anything for it.
            view.stored.remove_view(view.id());
            if self.ended(TaskKind::View, &view.dropped).await == Ended::Closing {
                return;
            }
        }
        if !view.dropped.is_sent() && view.is_changed() {
            let kept = self.start_commit(view).await;
            self.record_commit(view, kept);
        }
    }

    fn accept_events(
        &self,
        view: &View,
        shard: &mut Shard,
        events: &[QueuedBatch],
    ) -> Result<(), AcceptError> {
        // Those that it has are passed over before any are joined.
        let position = view.at().position;
        let known = events.iter().take_while(|fed| fed.next() <= position).count();
        for together in events[known..].chunk_by(can_join) {
            if together[0].first() > view.at().position {
                report_lost(view, together[0].first());
            }
            let batch = joined(together);
            run_blocking(batch.bytes().len(), || self.accept_one(view, shard, &batch))?;
        }
        Ok(())
    }

    fn accept_one(&self, view: &View, shard: &mut Shard, batch: &EventBatch) -> Result<(), AcceptError> {
        view.accept_batch(shard, batch, self.clock.now())
    }

    /// Begins to write what changed since the last commit, and what that changes in the views over this one.
    fn start_commit(&self, view: &Arc<View>) -> CommitTask {
        // If only the views over it have changes to take in, its own position is unchanged.
        let is_changed = view.is_changed();
        let (changes, at) = run_blocking(usize::MAX, || {
            if !is_changed {
                return (Changes::default(), view.at());
            }
            let cut = view.cut();
            // Deletions go with the next commit. Keys that cannot be read now are tried again.
            if let Err(error) = view.delete_past(PAST_KEYS_MIN.max(2 * cut.0.len())) {
                tracing::warn!(view = view.name(), %error, "expired keys cannot be deleted yet");
            }
            cut
        });
        let (view, backup_lock) = (Arc::clone(view), Arc::clone(&self.backup_lock));
        let changes_max = self.config.sinks_changes_max;
        tokio::spawn(async move {
            let no_cut_is_made = backup_lock.read_owned().await;
            let writing = move || {
                let _no_cut_is_made = no_cut_is_made;
                (view.write(&changes, at, changes_max), at)
            };
            tokio::task::spawn_blocking(writing).await
        })
    }

    /// Records the end of a commit; returns true if it succeeded.
    fn record_commit(&self, view: &View, kept: Result<CommitOutcome, JoinError>) -> bool {
        let why = match kept.flatten() {
            Ok((Ok(raised), at)) => {
                view.commit_succeeded(at);
                view.record_success();
                committed_all(raised, at);
                self.evict_excess(view);
                return true;
            }
            Ok((Err(error), _)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        view.commit_failed();
        view.record_on_uppers(&why, false);
        if view.record_failure(why.clone(), false) {
            tracing::error!(view = view.name(), why, "a view cannot be persisted; the server retries");
        }
        false
    }

    /// The next events of a view from the table, once the joined objects count all events acknowledged before.
    async fn joined_past_of(
        &self,
        view: &View,
        kept: &mut Option<u64>,
    ) -> Result<Option<(Vec<EventBatch>, u64)>, MaintainError> {
        let past = self.past_of(view, kept).await?;
        Awaited::now(&view.joined, &self.log).reached(self).await?;
        Ok(past)
    }

    /// The next events of a view, when what it is joined with counts all that was acknowledged before them. Nothing is lost
    /// where it is left off.
    async fn next_joined_events(
        &self,
        view: &View,
        again: &mut Option<LogReader>,
        waiting: &mut Option<PendingJoin>,
    ) -> Result<Next, MaintainError> {
        if waiting.is_none() {
            let reader = (Reader::View(view.id()), view.at().position);
            let events = match self.next_events(&view.stored, reader, again).await? {
                Next::Events(events) if !view.joined.is_empty() => events,
                next => return Ok(next),
            };
            *waiting = Some(PendingJoin { events, awaited: Awaited::now(&view.joined, &self.log) });
        }
        if let Some(PendingJoin { awaited, .. }) = waiting {
            awaited.reached(self).await?;
        }
        if view.has_waited.swap(false, Ordering::Relaxed) {
            view.record_success();
        }
        Ok(Next::Events(waiting.take().map(|waiting| waiting.events).unwrap_or_default()))
    }
}

/// Logs that a view continues at `end`, after lost events.
fn report_lost(view: &View, end: u64) {
    tracing::error!(
        view = view.name(),
        stream = view.stored.name.as_str(),
        first = view.at().position,
        end,
        "acknowledged events are lost with a part of the log; the view continues after them"
    );
}

/// Records the reason why a view does not continue.
fn record_error(view: &View, error: &MaintainError) {
    if error.is_of_the_start() {
        return;
    }
    view.has_waited.fetch_or(matches!(error, MaintainError::Wait(_)), Ordering::Relaxed);
    if view.record_failure(causes(error), error.is_for_good()) {
        let error = error as &dyn std::error::Error;
        tracing::error!(view = view.name(), error, "a view is stopped; the server retries if it can");
    }
}

/// Keys on disk that are looked at for being past with each commit, at least: no fewer than twice those that changed.
const PAST_KEYS_MIN: usize = 1 << 14;
