//! Replays events to the durable queries over a stream and advances their time.
//!
//! Queries begin and end between two events, after all earlier events are processed. Windows close one time after another.
//! Their contents therefore do not depend on when the clock was read. Events that the log no longer has are read from the
//! stream's table.

use std::sync::Arc;

use swiftwater_event::{EventBatch, EventMeta, Millis, Offset};

use super::{
    follower::{FollowError, Follower},
    plan::{PlannedAction, Step},
};
use crate::{
    EndReason,
    durable::{
        backfill::{NullFields, PAST_EVENTS, past_events},
        fed_stream::{advance_fed, drain_fed},
        history::{History, run_blocking},
        stored_stream::FOLLOWER,
    },
    shared::Shared,
};

impl History {
    /// Takes what the log has no more from the stream's table.
    pub(super) async fn replay_past(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        follower: &Arc<Follower>,
    ) -> Result<(), FollowError> {
        let stored = &follower.stored;
        let Some(first) = stored.view_lacks_up_to(FOLLOWER) else { return Ok(()) };
        let sql = shared.sql.get().ok_or(FollowError::Away)?;
        let table = stored.opened().await;
        let mut progress = table.progress();
        progress.wait_for(|progress| progress.appended.0 >= first).await.map_err(|_| FollowError::Closed)?;
        loop {
            self.carry_out(shared, follower).await?;
            let position = follower.plan.lock().position;
            if position >= first {
                return Ok(());
            }
            let until = first.min(position.saturating_add(PAST_EVENTS));
            for batch in past_events(sql, stored, (position, until), NullFields::Written).await? {
                self.feed_batch(shared, follower, batch).await?;
            }
            self.pass_gap(shared, follower, until).await?;
        }
    }

    /// Continues at an offset: queries that need the missing events end.
    pub(super) async fn pass_gap(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        follower: &Arc<Follower>,
        offset: u64,
    ) -> Result<(), FollowError> {
        let position = follower.plan.lock().position;
        if position >= offset {
            return Ok(());
        }
        self.carry_out(shared, follower).await?;
        self.drain(follower).await;
        let why = format!(
            "the events from offset {position} to {} that it needs are deleted (by `retention`, or with the log)",
            offset - 1
        );
        let standing = std::mem::take(&mut follower.plan.lock().standing);
        for query in standing {
            let at = follower.plan.lock().time;
            let _tick = follower.stream.tick.lock();
            shared.end_held(&follower.stream, &query, EndReason::Failed(why.clone()), at);
        }
        {
            let mut plan = follower.plan.lock();
            // A query that was to begin there would begin with a part of its events, which is no answer: it ends, too.
            for step in plan.steps.iter_mut().filter(|step| step.offset < offset) {
                if let PlannedAction::Begin(_) = step.what {
                    shared.fail_before(&step.query, &follower.stream, why.clone());
                }
            }
            plan.steps.retain(|step| step.offset >= offset);
            plan.position = offset;
        }
        follower.stream.skip_to(offset);
        Ok(())
    }

    /// Appends consecutive events of one arrival.
    pub(super) async fn feed_batch(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        follower: &Arc<Follower>,
        batch: EventBatch,
    ) -> Result<(), FollowError> {
        let first = batch.meta().first.0;
        let end = first + batch.len() as u64;
        self.pass_gap(shared, follower, first).await?;
        loop {
            self.carry_out(shared, follower).await?;
            let (position, until) = {
                let plan = follower.plan.lock();
                let next = plan.steps.front().map_or(u64::MAX, |step| step.offset);
                (plan.position, end.min(next))
            };
            if position >= end {
                return Ok(());
            }
            if until <= position {
                // A step is not written down yet.
                follower.woken.notified().await;
                continue;
            }
            let arrival = batch.meta().arrival;
            if follower.stream.next_due() <= arrival || follower.stream.may_be_idle(arrival) {
                self.advance(shared, follower, arrival).await;
            }
            let rows: Vec<u32> = ((position - first) as u32..(until - first) as u32).collect();
            let part = if rows.len() == batch.len() { batch.clone() } else { batch.select(&rows) };
            let meta = EventMeta {
                arrival,
                first: Offset(position),
                sent_micros: 0,
                read_micros: self.clock.now_micros(),
            };
            let part = part.with_meta(meta);
            shared.enter(part.bytes().len()).await.map_err(|_| FollowError::Away)?;
            {
                // The present position is available to a query that is planned meanwhile.
                let mut plan = follower.plan.lock();
                plan.position = until;
                plan.time = plan.time.max(arrival);
                if follower.stream.feed(part, follower.source.sample()) {
                    shared.enqueue(Arc::clone(&follower.stream));
                }
            }
        }
    }

    /// Runs the steps that are due before the next event.
    pub(super) async fn carry_out(
        &self,
        shared: &Arc<Shared>,
        follower: &Arc<Follower>,
    ) -> Result<(), FollowError> {
        loop {
            let step = {
                let mut plan = follower.plan.lock();
                let position = plan.position;
                let is_next = |step: &Step| step.offset <= position && step.is_sure;
                let step =
                    if plan.steps.front().is_some_and(is_next) { plan.steps.pop_front() } else { None };
                // From now on it is known as one that stands.
                if let Some(Step { query, what: PlannedAction::Begin(_), .. }) = &step {
                    plan.standing.push(Arc::clone(query));
                }
                step
            };
            let Some(Step { at, query, what, .. }) = step else { return Ok(()) };
            self.drain(follower).await;
            match what {
                PlannedAction::Begin(wanted) => {
                    let (wanted, options) = *wanted;
                    run_blocking(usize::MAX, || {
                        let _change = follower.stream.change.lock();
                        shared.begin(&follower.stream, &query, &wanted, &options);
                    });
                }
                PlannedAction::End(reason) => {
                    self.advance(shared, follower, at).await;
                    run_blocking(usize::MAX, || {
                        let _tick = follower.stream.tick.lock();
                        shared.end_held(&follower.stream, &query, reason, at);
                    });
                }
            }
        }
    }

    /// Advances time up to an instant, from one window's end to the next.
    pub(super) async fn advance(&self, shared: &Arc<Shared>, follower: &Arc<Follower>, until: Millis) {
        let come_to = |time: Millis| {
            let mut plan = follower.plan.lock();
            plan.time = plan.time.max(time);
        };
        advance_fed(shared, &follower.stream, until, come_to).await;
        come_to(until);
    }

    /// Waits until all that was given was looked at.
    pub(super) async fn drain(&self, follower: &Follower) {
        drain_fed(&follower.stream).await;
    }
}
