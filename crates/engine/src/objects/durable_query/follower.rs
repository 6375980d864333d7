//! Feeds the synced events of a stream to the durable queries over it: one task for each stream with such queries.
//!
//! The task appends the events to a stream of its own, with their original offsets and arrival times. It advances that
//! stream's time to the arrival of the next event, or to the clock if there is none ([`replay`](super::replay)). Planned
//! steps run in between ([`plan`](super::plan)).

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use swiftwater_catalog::{
    Change, Object, ObjectKind,
    kind::durable_query::{DurableQueryStep, Ended},
};
use swiftwater_event::{Backoff, Millis, StreamName};
use swiftwater_log::LogReader;
use swiftwater_sql::SqlError;
use tokio::sync::{Notify, watch};

use super::plan::{Plan, PlannedAction};
use crate::{
    EndReason,
    durable::{
        history::History,
        log_tail::QueuedBatch,
        stored_stream::{FOLLOWER, Reader, StoredStream},
        table_writer::TableWriterError,
    },
    objects::views::Next,
    shared::Shared,
    supervisor::{DropSignal, Maintained, NextAttempt, TaskKind},
};
use swiftwater_runtime::lock_order::{OrderedMutex, level};
use swiftwater_runtime::parts::Stream;

/// Pauses between attempts.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(10));

/// All of them, by stream.
#[derive(Debug, Default)]
pub(crate) struct Followers(OrderedMutex<BTreeMap<StreamName, Arc<Follower>>, level::Followers>);

/// The reader of a stream that runs the durable queries over it.
#[derive(Debug)]
pub(crate) struct Follower {
    /// The stream that the queries run on.
    pub(super) stream: Arc<Stream>,
    /// The stream that clients append to.
    pub(super) source: Arc<Stream>,
    pub(super) stored: Arc<StoredStream>,
    pub(super) plan: OrderedMutex<Plan, level::FollowerPlan>,
    /// The first event that came after the start of the engine, or of this.
    new_from: u64,
    /// Notified when the plan has changed.
    pub(super) woken: Notify,
    /// The first event that was not looked at when it was last idle, and how far time had come then.
    idle_at: watch::Sender<(u64, Millis)>,
    dropped: DropSignal,
    /// The position when its last run began, and the pauses since it made progress.
    retry: OrderedMutex<(u64, Backoff), level::FollowerRetry>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error("its events cannot be read")]
    LogTail(#[from] TableWriterError),
    #[error("the stream's table cannot be read")]
    Sql(#[from] SqlError),
    #[error("the log cannot be read")]
    Log(#[from] swiftwater_log::LogError),
    #[error("the stream's table is closed")]
    Closed,
    #[error("the engine is starting or ending")]
    Away,
}

impl Follower {
    /// Wakes its task, as a step was planned.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }
}

/// The task of a follower gives events to the durable queries of its stream.
impl Maintained for Follower {
    type Error = FollowError;

    fn object(&self) -> Object {
        ObjectKind::Stream.named(self.stored.name.as_str())
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::Reader
    }

    fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), FollowError> {
        history.run_follower(self).await
    }

    fn failed(&self, _: &Arc<History>, error: FollowError) -> NextAttempt {
        let position = self.plan.lock().position;
        let mut retry = self.retry.lock();
        if position > retry.0 {
            *retry = (position, RETRY);
        }
        if retry.1.failures() == 0 && !matches!(error, FollowError::Away) {
            let error = &error as &dyn std::error::Error;
            tracing::error!(stream = %self.stored.name, error, "durable queries receive no events; the server retries");
        }
        self.stored.reread_view(FOLLOWER, position);
        NextAttempt::After(retry.1.pause())
    }
}

impl History {
    /// The streams of all followers.
    pub(crate) fn followed(&self) -> Vec<Arc<Stream>> {
        self.objects.followers.0.lock().values().map(|follower| Arc::clone(&follower.stream)).collect()
    }

    /// Waits until durable queries have seen all events that there are now, and time has come to now for them.
    pub(crate) async fn all_followed(&self) {
        let now = self.clock.now();
        let all: Vec<Arc<Follower>> = self.objects.followers.0.lock().values().cloned().collect();
        for follower in all {
            let (end, _) = follower.source.mark(i64::MIN);
            let mut idle_at = follower.idle_at.subscribe();
            let is_there = |(offset, time): &(u64, Millis)| *offset >= end && *time >= now;
            tokio::select! {
                _ = idle_at.wait_for(is_there) => {}
                () = follower.dropped.received() => {}
            }
        }
    }

    /// The follower of a stream.
    pub(super) fn follower(&self, name: &StreamName) -> Option<Arc<Follower>> {
        self.objects.followers.0.lock().get(name).cloned()
    }

    /// The number of durable queries over a stream that have begun and not ended.
    pub(crate) fn durable_queries(&self, name: &StreamName) -> u64 {
        self.follower(name).map_or(0, |follower| follower.stream.running_count())
    }

    /// Calls `plan` with the plan of a stream's follower ([`History::follower`]); no event is added to the plan meanwhile. A
    /// missing follower is made, and begins with the event at `from`, or with the next one.
    pub(super) fn with_follower<T>(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        (source, stored): (&Arc<Stream>, &Arc<StoredStream>),
        from: Option<u64>,
        plan: impl FnOnce(&Arc<Follower>, &mut Plan) -> T,
    ) -> T {
        let mut followers = self.objects.followers.0.lock();
        let there = followers.get(&stored.name).cloned();
        let (follower, is_new) = match there {
            Some(follower) => (follower, false),
            None => {
                let from = from.unwrap_or_else(|| stored.add_view(FOLLOWER, self.config.feed_bytes_max));
                let stream = Arc::new(Stream::new(stored.name.clone(), shared.config.shards));
                stream.skip_to(from);
                stream.is_stored.store(true, Ordering::Relaxed);
                let (new_from, _) = source.mark(i64::MIN);
                let follower = Arc::new(Follower {
                    stream,
                    new_from,
                    source: Arc::clone(source),
                    stored: Arc::clone(stored),
                    plan: OrderedMutex::new(Plan { position: from, time: i64::MIN, ..Plan::default() }),
                    woken: Notify::new(),
                    idle_at: watch::Sender::new((from, i64::MIN)),
                    dropped: DropSignal::default(),
                    retry: OrderedMutex::new((from, RETRY)),
                });
                followers.insert(stored.name.clone(), Arc::clone(&follower));
                (follower, true)
            }
        };
        let planned = plan(&follower, &mut follower.plan.lock());
        drop(followers);
        follower.wake();
        if is_new {
            self.maintain(follower);
        }
        planned
    }

    /// Ends what follows a stream that was dropped.
    pub(crate) fn end_follower(&self, shared: &Shared, name: &StreamName) {
        let Some(follower) = self.objects.followers.0.lock().remove(name) else { return };
        follower.dropped.send();
        follower.stored.remove_view(FOLLOWER);
        let (standing, steps) = {
            let mut plan = follower.plan.lock();
            plan.is_over = true;
            (std::mem::take(&mut plan.standing), std::mem::take(&mut plan.steps))
        };
        let why = || format!("stream `{name}` was dropped");
        for step in steps {
            if let PlannedAction::Begin(_) = step.what {
                shared.fail_before(&step.query, &follower.stream, why());
            }
        }
        for query in standing {
            let now = self.clock.now();
            // The catalog knows nothing of it any more.
            let _ = query.following.as_ref().map(|following| following.ended.set(now));
            let has_ended = {
                let _tick = follower.stream.tick.lock();
                shared.end_held(&follower.stream, &query, EndReason::Failed(why()), now)
            };
            // It may be about to begin, on a stream that nothing comes from any more.
            if !has_ended && !shared.is_kept(&query.meta.id) {
                shared.fail_before(&query, &follower.stream, why());
            }
        }
    }

    /// Checkpoints all durable queries, and ends their readers.
    pub(crate) async fn stop_followers(&self) {
        let all: Vec<Arc<Follower>> = self.objects.followers.0.lock().values().cloned().collect();
        for follower in all {
            follower.dropped.send();
            self.checkpoint_queries(&follower).await;
        }
    }

    /// Logs that a durable query has ended by itself.
    pub(crate) fn record_end(
        self: &Arc<Self>,
        id: crate::QueryId,
        reason: EndReason,
        offset: u64,
        at: Millis,
    ) {
        let ended = Ended { at, offset, reason };
        self.write(DurableQueryStep::Ended { query: id.to_string().into(), ended });
    }

    /// Logs that a durable query was forgotten.
    pub(crate) fn record_forgotten(self: &Arc<Self>, id: crate::QueryId) {
        self.write(DurableQueryStep::Forgotten(id.to_string().into()));
    }

    fn write(self: &Arc<Self>, step: DurableQueryStep) {
        let history = Arc::clone(self);
        self.supervisor.spawn(TaskKind::Reader, async move {
            if let Err(error) = history.record(Change::Detached(step)).await {
                // It is found out again after a restart.
                tracing::warn!(%error, "the end of a durable query could not be written");
            }
        });
    }

    /// Passes events to the durable queries of a stream until none is left.
    async fn run_follower(self: &Arc<Self>, follower: &Arc<Follower>) -> Result<(), FollowError> {
        let (stored, stream) = (&follower.stored, &follower.stream);
        let away = |_| FollowError::Away;
        {
            let shared = self.shared().map_err(away)?;
            self.replay_past(&shared, follower).await?;
        }
        let mut again: Option<LogReader> = None;
        let tick = Duration::from_millis(self.shared().map_err(away)?.config.tick_ms.max(1));
        let noted_every = Duration::from_millis(self.shared().map_err(away)?.config.detached_noted_ms.max(1));
        let mut note = tokio::time::interval(noted_every);
        loop {
            {
                let shared = self.shared().map_err(away)?;
                self.carry_out(&shared, follower).await?;
                if self.is_left(&shared, follower) {
                    return Ok(());
                }
            }
            let reader = (Reader::View(FOLLOWER), follower.plan.lock().position);
            let next = tokio::select! {
                biased;
                _ = note.tick() => {
                    self.checkpoint_queries(follower).await;
                    continue;
                }
                next = self.next_events(stored, reader, &mut again) => next?,
                () = follower.woken.notified() => continue,
                () = tokio::time::sleep(tick) => Next::Events(Vec::new()),
            };
            let shared = self.shared().map_err(away)?;
            let is_dropped = follower.dropped.is_sent();
            let events = match next {
                Next::Events(events) => events,
                Next::Lost(_) if is_dropped => return Ok(()),
                Next::Lost(end) => {
                    self.pass_gap(&shared, follower, end).await?;
                    continue;
                }
            };
            if events.is_empty() {
                let (position, now) = (follower.plan.lock().position, self.clock.now());
                let has_all = follower.source.is_at(position, now);
                if has_all && self.is_free(follower) {
                    // All that there was is there: from now on it is as if nothing had been.
                    self.advance(&shared, follower, now).await;
                    self.drain(follower).await;
                    stream.is_again.store(false, Ordering::Relaxed);
                    follower.idle_at.send_replace((position, now));
                }
            }
            for QueuedBatch { batch, .. } in events {
                // A lost part of the log is not waited for.
                self.pass_gap(&shared, follower, batch.meta().first.0).await?;
                self.feed_batch(&shared, follower, batch).await?;
            }
            let has_new = follower.plan.lock().position > follower.new_from;
            if has_new && stream.is_again.load(Ordering::Relaxed) {
                // With a new event all time before it is over, too.
                self.drain(follower).await;
                stream.is_again.store(false, Ordering::Relaxed);
            }
        }
    }

    /// True if no step waits for being written down at this place: until it is, neither events nor time go on.
    fn is_free(&self, follower: &Follower) -> bool {
        let plan = follower.plan.lock();
        plan.steps.front().is_none_or(|step| step.offset > plan.position)
    }

    /// True if nobody follows any more; then this follower is gone.
    fn is_left(&self, shared: &Shared, follower: &Arc<Follower>) -> bool {
        let mut followers = self.objects.followers.0.lock();
        let mut plan = follower.plan.lock();
        // The queries that have ended are retained until they are forgotten: their end may have to be sent again.
        let queries = shared.queries.read();
        plan.standing.retain(|query| queries.contains_key(&query.meta.id));
        drop(queries);
        if !plan.standing.is_empty() || !plan.steps.is_empty() {
            return false;
        }
        plan.is_over = true;
        if followers.get(&follower.stored.name).is_some_and(|there| Arc::ptr_eq(there, follower)) {
            followers.remove(&follower.stored.name);
            follower.stored.remove_view(FOLLOWER);
        }
        true
    }
}
