//! The synced events of a stream, given to the durable queries over it: one task for each stream that has such queries.
//!
//! It puts them into a stream of its own, with the offsets and arrivals that they have, and lets the time there come as far as
//! the next event's arrival, or as the clock where there is none: window by window, so that what is closed when does not depend
//! on when it was looked. Queries begin and end between two events, after all before were looked at. Where the log does not have an
//! event any more, it is taken from the stream's table.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use swiftwater_event::{EventBatch, EventMeta, Millis, Offset, StreamName};
use swiftwater_lang::ddl::CreateStream;
use swiftwater_log::{LogPosition, LogReader};
use swiftwater_sql::SqlError;
use tokio::sync::{Notify, watch};

use super::entry::{DetachedStep, Ended};
use crate::{
    EndReason, SubmitOptions,
    begin::WantedQuery,
    history::{
        catalog::Change,
        feed::Fed,
        feeding::FeedError,
        past::{PAST_EVENTS, past_events},
        state::{History, causes, heavy},
        stored::{Reader, Stored},
    },
    running::QueryHandle,
    shared::Shared,
    stream::{Stream, lock},
};

/// What followers are called among the readers of a stream: no view has this number.
pub(crate) const FOLLOWER: u32 = u32::MAX;

/// The pause after a first failure; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long what was given is waited for before the end of the engine is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// All of them, by stream.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<BTreeMap<StreamName, Arc<Follower>>>);

/// What the durable queries over one stream stand on.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Where they stand.
    pub(super) stream: Arc<Stream>,
    /// Where the events come in.
    pub(super) source: Arc<Stream>,
    pub(super) stored: Arc<Stored>,
    pub(super) plan: Mutex<Plan>,
    /// The first event that came after the start of the engine, or of this.
    new_from: u64,
    /// Told when that has changed.
    told: Notify,
    /// The first event that was not looked at when it was last idle, and how far time had come then.
    idle_at: watch::Sender<(u64, Millis)>,
    is_dropped: watch::Sender<bool>,
}

/// What is to be done, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// In the order in which they are done.
    steps: VecDeque<Step>,
    /// The offset of the next event that is given.
    pub(super) position: u64,
    /// Time has come so far.
    pub(super) time: Millis,
    /// Queries that have begun.
    standing: Vec<Arc<QueryHandle>>,
    /// What was last written down of them.
    noted: BTreeMap<Box<str>, crate::following::Noted>,
    /// Nobody follows any more.
    is_over: bool,
}

struct Step {
    /// It is done before the event at this offset.
    offset: u64,
    /// And at this time, or later.
    at: Millis,
    /// It is written down.
    is_sure: bool,
    query: Arc<QueryHandle>,
    what: What,
}

/// What is done.
pub(super) enum What {
    /// A query begins.
    Begin(Box<(WantedQuery, SubmitOptions)>),
    /// It ends.
    End(EndReason),
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("offset", &self.offset).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("its events cannot be read")]
    Feed(#[from] FeedError),
    #[error("the stream's table cannot be read")]
    Sql(#[from] SqlError),
    #[error("the log cannot be read")]
    Log(#[from] swiftwater_log::LogError),
    #[error("the stream's table is closed")]
    Closed,
    #[error("the engine is starting or ending")]
    Away,
}

impl Plan {
    /// Plans a step, behind those that are done before the same event and no later: after a restart an end comes before a later one
    /// of another query, whichever is planned first.
    pub(super) fn add(
        &mut self,
        query: &Arc<QueryHandle>,
        (offset, at): (u64, Millis),
        what: What,
        is_sure: bool,
    ) {
        let place = self.steps.partition_point(|step| (step.offset, step.at) <= (offset, at));
        self.steps.insert(place, Step { offset, at, is_sure, query: Arc::clone(query), what });
    }

    /// What was planned of a query last is written down, or is not to be.
    pub(super) fn settle(&mut self, query: &Arc<QueryHandle>, is_written: bool) {
        let of_query = |step: &Step| !step.is_sure && Arc::ptr_eq(&step.query, query);
        let Some(place) = self.steps.iter().position(of_query) else { return };
        if is_written {
            self.steps[place].is_sure = true;
        } else {
            self.steps.remove(place);
        }
    }

    /// Whether a query has begun or is to.
    pub(super) fn has(&self, query: &Arc<QueryHandle>) -> bool {
        let all = self.standing.iter().chain(self.steps.iter().map(|step| &step.query));
        all.into_iter().any(|one| Arc::ptr_eq(one, query))
    }
}

impl Follower {
    /// Tells its task that something was planned.
    pub(super) fn tell(&self) {
        self.told.notify_one();
    }
}

impl History {
    /// The streams of all followers.
    pub(crate) fn followed(&self) -> Vec<Arc<Stream>> {
        lock(&self.followers.0).values().map(|follower| Arc::clone(&follower.stream)).collect()
    }

    /// Waits until durable queries have seen all events that there are now, and time has come to now for them.
    pub(crate) async fn all_followed(&self) {
        let now = self.clock.now();
        let all: Vec<Arc<Follower>> = lock(&self.followers.0).values().cloned().collect();
        for follower in all {
            let (end, _) = follower.source.mark(i64::MIN);
            let mut idle_at = follower.idle_at.subscribe();
            let mut dropped = follower.is_dropped.subscribe();
            let is_there = |(offset, time): &(u64, Millis)| *offset >= end && *time >= now;
            tokio::select! {
                _ = idle_at.wait_for(is_there) => {}
                _ = dropped.wait_for(|dropped| *dropped) => {}
            }
        }
    }

    /// The follower of a stream.
    pub(super) fn follower(&self, name: &StreamName) -> Option<Arc<Follower>> {
        lock(&self.followers.0).get(name).cloned()
    }

    /// As [`History::follower`], made if there is none; that begins with the event at `from`, or with the next one. `plan` is
    /// called with its plan, which no event comes into meanwhile.
    pub(super) fn with_follower<T>(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        (source, stored): (&Arc<Stream>, &Arc<Stored>),
        from: Option<u64>,
        plan: impl FnOnce(&Arc<Follower>, &mut Plan) -> T,
    ) -> T {
        let mut followers = lock(&self.followers.0);
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
                    plan: Mutex::new(Plan { position: from, time: i64::MIN, ..Plan::default() }),
                    told: Notify::new(),
                    idle_at: watch::Sender::new((from, i64::MIN)),
                    is_dropped: watch::Sender::new(false),
                });
                followers.insert(stored.name.clone(), Arc::clone(&follower));
                (follower, true)
            }
        };
        let planned = plan(&follower, &mut lock(&follower.plan));
        drop(followers);
        follower.tell();
        if is_new {
            let (history, shared) = (Arc::clone(self), Arc::downgrade(shared));
            self.spawn(async move { history.follow(&shared, &follower).await });
        }
        planned
    }

    /// Ends what follows a stream that was dropped.
    pub(in crate::history) fn end_follower(&self, shared: &Shared, name: &StreamName) {
        let Some(follower) = lock(&self.followers.0).remove(name) else { return };
        follower.is_dropped.send_replace(true);
        follower.stored.remove_view(FOLLOWER);
        let (standing, steps) = {
            let mut plan = lock(&follower.plan);
            plan.is_over = true;
            (std::mem::take(&mut plan.standing), std::mem::take(&mut plan.steps))
        };
        let why = || format!("stream `{name}` was dropped");
        for step in steps {
            if let What::Begin(_) = step.what {
                shared.fail_before(&step.query, &follower.stream, why());
            }
        }
        for query in standing {
            let now = self.clock.now();
            // The catalog knows nothing of it any more.
            let _ = query.following.as_ref().map(|following| following.ended.set(now));
            let has_ended = {
                let _tick = lock(&follower.stream.tick);
                shared.end_held(&follower.stream, &query, EndReason::Failed(why()), now)
            };
            // It may be about to begin, on a stream that nothing comes from any more.
            if !has_ended && !lock(&shared.kept).by_id.contains_key(&query.meta.id) {
                shared.fail_before(&query, &follower.stream, why());
            }
        }
    }

    /// Writes down how far all durable queries are, and stops giving them events.
    pub(crate) async fn stop_followers(&self) {
        let all: Vec<Arc<Follower>> = lock(&self.followers.0).values().cloned().collect();
        for follower in all {
            follower.is_dropped.send_replace(true);
            self.note_followed(&follower).await;
        }
    }

    /// Has it written down that a durable query has ended by itself.
    pub(crate) fn note_end(
        self: &Arc<Self>,
        id: crate::QueryId,
        reason: &EndReason,
        offset: u64,
        at: Millis,
    ) {
        let ended = Ended::new(at, offset, reason);
        self.write(DetachedStep::Ended { query: id.to_string().into(), ended });
    }

    /// Has it written down that nothing is left of a durable query.
    pub(crate) fn note_forgotten(self: &Arc<Self>, id: crate::QueryId) {
        self.write(DetachedStep::Forgotten(id.to_string().into()));
    }

    fn write(self: &Arc<Self>, step: DetachedStep) {
        let history = Arc::clone(self);
        self.spawn(async move {
            if let Err(error) = history.record(Change::Detached(step)).await {
                // It is found out again after a restart.
                tracing::warn!(%error, "the end of a durable query could not be written down");
            }
        });
    }

    async fn follow(self: &Arc<Self>, shared: &Weak<Shared>, follower: &Arc<Follower>) {
        let (mut closing, mut dropped) = (self.closing(), follower.is_dropped.subscribe());
        let mut pause = PAUSE_MIN;
        loop {
            let was = lock(&follower.plan).position;
            let followed = tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => return,
                _ = dropped.wait_for(|dropped| *dropped) => return,
                followed = self.follow_on(shared, follower) => followed,
            };
            let Err(error) = followed else { return };
            if lock(&follower.plan).position > was {
                pause = PAUSE_MIN;
            }
            if pause == PAUSE_MIN && !matches!(error, FollowError::Away) {
                let error = &error as &dyn std::error::Error;
                tracing::error!(stream = %follower.stored.name, error, "durable queries are not given events; it is tried again");
            }
            let position = lock(&follower.plan).position;
            follower.stored.read_view_again(FOLLOWER, position);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Gives events until nobody follows any more.
    async fn follow_on(
        self: &Arc<Self>,
        weak: &Weak<Shared>,
        follower: &Arc<Follower>,
    ) -> Result<(), FollowError> {
        let (stored, stream) = (&follower.stored, &follower.stream);
        let away = || FollowError::Away;
        {
            let shared = weak.upgrade().ok_or_else(away)?;
            self.take_past(&shared, follower).await?;
        }
        let mut again: Option<LogReader> = None;
        let tick = Duration::from_millis(weak.upgrade().ok_or_else(away)?.config.tick_ms.max(1));
        let noted_every =
            Duration::from_millis(weak.upgrade().ok_or_else(away)?.config.detached_noted_ms.max(1));
        let mut note = tokio::time::interval(noted_every);
        loop {
            {
                let shared = weak.upgrade().ok_or_else(away)?;
                self.carry_out(&shared, follower).await?;
                if self.is_left(&shared, follower) {
                    return Ok(());
                }
            }
            let events = tokio::select! {
                biased;
                _ = note.tick() => {
                    self.note_followed(follower).await;
                    continue;
                }
                events = self.next_events(stored, Reader::View(FOLLOWER), &mut again) => events?,
                () = follower.told.notified() => continue,
                () = tokio::time::sleep(tick) => Vec::new(),
            };
            let shared = weak.upgrade().ok_or_else(away)?;
            if events.is_empty() {
                let (position, now) = (lock(&follower.plan).position, self.clock.now());
                let has_all = follower.source.is_at(position, now);
                if has_all && self.is_free(follower) {
                    // All that there was is there: from now on it is as if nothing had been.
                    self.advance(&shared, follower, now).await;
                    self.drain(follower).await;
                    stream.is_again.store(false, Ordering::Relaxed);
                    follower.idle_at.send_replace((position, now));
                }
            }
            for Fed { batch, .. } in events {
                self.give(&shared, follower, batch).await?;
            }
            let has_new = lock(&follower.plan).position > follower.new_from;
            if has_new && stream.is_again.load(Ordering::Relaxed) {
                // With a new event all time before it is over, too.
                self.drain(follower).await;
                stream.is_again.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Whether no step waits for being written down at this place: until it is, neither events nor time go on.
    fn is_free(&self, follower: &Follower) -> bool {
        let plan = lock(&follower.plan);
        plan.steps.front().is_none_or(|step| step.offset > plan.position)
    }

    /// Takes what the log has no more from the stream's table.
    async fn take_past(
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
            let position = lock(&follower.plan).position;
            if position >= first {
                return Ok(());
            }
            let until = first.min(position.saturating_add(PAST_EVENTS));
            for batch in past_events(sql, stored, (position, until)).await? {
                self.give(shared, follower, batch).await?;
            }
            self.pass_gap(shared, follower, until).await?;
        }
    }

    /// Goes on at an offset: whoever needs what is not there ends.
    async fn pass_gap(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        follower: &Arc<Follower>,
        offset: u64,
    ) -> Result<(), FollowError> {
        let position = lock(&follower.plan).position;
        if position >= offset {
            return Ok(());
        }
        self.carry_out(shared, follower).await?;
        self.drain(follower).await;
        let why = format!(
            "the events from offset {position} to {} that it needs are gone (by `retention`, or with the log)",
            offset - 1
        );
        let standing = std::mem::take(&mut lock(&follower.plan).standing);
        for query in standing {
            let at = lock(&follower.plan).time;
            let _tick = lock(&follower.stream.tick);
            shared.end_held(&follower.stream, &query, EndReason::Failed(why.clone()), at);
        }
        {
            let mut plan = lock(&follower.plan);
            // What was to begin there begins with a part, which is no answer: it ends, too.
            for step in plan.steps.iter_mut().filter(|step| step.offset < offset) {
                if let What::Begin(_) = step.what {
                    shared.fail_before(&step.query, &follower.stream, why.clone());
                }
            }
            plan.steps.retain(|step| step.offset >= offset);
            plan.position = offset;
        }
        follower.stream.skip_to(offset);
        Ok(())
    }

    /// Gives some events that follow one another and have one arrival.
    async fn give(
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
                let plan = lock(&follower.plan);
                let next = plan.steps.front().map_or(u64::MAX, |step| step.offset);
                (plan.position, end.min(next))
            };
            if position >= end {
                return Ok(());
            }
            if until <= position {
                // A step is not written down yet.
                follower.told.notified().await;
                continue;
            }
            let arrival = batch.meta().arrival;
            if follower.stream.next_due() <= arrival {
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
            shared.pending.enter(part.bytes().len()).await.map_err(|_| FollowError::Away)?;
            {
                // Whoever plans something meanwhile is told how far it is.
                let mut plan = lock(&follower.plan);
                plan.position = until;
                plan.time = plan.time.max(arrival);
                if follower.stream.feed(part, follower.source.sample()) {
                    shared.put_in_line(Arc::clone(&follower.stream));
                }
            }
        }
    }

    /// Does what is to be done before the next event.
    async fn carry_out(&self, shared: &Arc<Shared>, follower: &Arc<Follower>) -> Result<(), FollowError> {
        loop {
            let step = {
                let mut plan = lock(&follower.plan);
                let position = plan.position;
                let is_next = |step: &Step| step.offset <= position && step.is_sure;
                let step =
                    if plan.steps.front().is_some_and(is_next) { plan.steps.pop_front() } else { None };
                // From now on it is known as one that stands.
                if let Some(Step { query, what: What::Begin(_), .. }) = &step {
                    plan.standing.push(Arc::clone(query));
                }
                step
            };
            let Some(Step { at, query, what, .. }) = step else { return Ok(()) };
            self.drain(follower).await;
            match what {
                What::Begin(wanted) => {
                    let (wanted, options) = *wanted;
                    heavy(usize::MAX, || {
                        let _change = lock(&follower.stream.change);
                        shared.begin(&follower.stream, &query, &wanted, &options);
                    });
                }
                What::End(reason) => {
                    self.advance(shared, follower, at).await;
                    heavy(usize::MAX, || {
                        let _tick = lock(&follower.stream.tick);
                        shared.end_held(&follower.stream, &query, reason, at);
                    });
                }
            }
        }
    }

    /// Lets time come so far, from one window's end to the next.
    async fn advance(&self, shared: &Arc<Shared>, follower: &Arc<Follower>, until: Millis) {
        let stream = &follower.stream;
        let mut before = None;
        loop {
            let due = stream.next_due();
            if due > until || before == Some(due) {
                break;
            }
            before = Some(due);
            self.drain(follower).await;
            {
                let mut plan = lock(&follower.plan);
                plan.time = plan.time.max(due);
            }
            heavy(usize::MAX, || shared.tick_stream(stream, due));
            tokio::task::consume_budget().await;
        }
        let mut plan = lock(&follower.plan);
        plan.time = plan.time.max(until);
    }

    /// Waits until all that was given was looked at.
    async fn drain(&self, follower: &Follower) {
        while !follower.stream.is_drained() {
            heavy(usize::MAX, || follower.stream.wait_for_appended(LOOK));
            tokio::task::yield_now().await;
        }
    }

    /// Whether nobody follows any more; then this follower is gone.
    fn is_left(&self, shared: &Shared, follower: &Arc<Follower>) -> bool {
        let mut followers = lock(&self.followers.0);
        let mut plan = lock(&follower.plan);
        // What those need that have ended is kept until they are forgotten: they may have to be told again.
        let queries = shared.queries.read().unwrap_or_else(PoisonError::into_inner);
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

    /// Writes down how far the queries are, where that has changed, and lets go of what they need no more of the log.
    async fn note_followed(&self, follower: &Arc<Follower>) {
        let (changed, needed, position) = {
            let mut plan = lock(&follower.plan);
            let plan = &mut *plan;
            let merge = lock(&follower.stream.merge);
            let mut changed = Vec::new();
            // What is planned may need them, too.
            let mut needed = plan.position;
            for step in &plan.steps {
                needed = needed.min(step.query.following.as_ref().map_or(u64::MAX, |of| of.needs_from()));
            }
            for query in &plan.standing {
                let Some(following) = &query.following else { continue };
                let id: Box<str> = query.meta.id.to_string().into();
                let running = merge.running.get(&query.number);
                let Some(mut noted) = running.and_then(|running| running.note(plan.time, merge.position))
                else {
                    let noted = plan.noted.get(&id).unwrap_or(&following.from);
                    needed = needed.min(noted.from.map_or(following.first, |point| point.offset));
                    continue;
                };
                needed = needed.min(noted.from.map_or(following.first, |point| point.offset));
                let before = plan.noted.get(&id).unwrap_or(&following.from);
                // That only time has passed is not worth a record.
                let time = std::mem::replace(&mut noted.time, before.time);
                if noted != *before {
                    noted.time = time;
                    plan.noted.insert(id.clone(), noted);
                    changed.push((id, noted));
                }
            }
            (changed, needed, plan.position)
        };
        if !changed.is_empty() {
            let recorded = self.record(Change::Detached(DetachedStep::Noted(changed.clone()))).await;
            if let Err(error) = recorded {
                tracing::debug!(
                    error = causes(&error),
                    "how far durable queries are could not be written down"
                );
                changed.iter().for_each(|(id, _)| _ = lock(&follower.plan).noted.remove(id));
                return;
            }
        }
        let appended = self.log.horizons().appended.0;
        // A log that may have little is not to be filled.
        let kept = self.config.detached_log_bytes_max.min(self.config.log_bytes_max / 2);
        let floor = LogPosition(appended.saturating_sub(kept));
        follower.stored.hold_for(FOLLOWER, (needed, position), floor);
    }
}

/// Whether the rows of a stream's table tell of its events all that a query asks of them.
pub(super) fn tells_all(wanted: &WantedQuery, stream: &CreateStream) -> bool {
    let Some(paths) = &wanted.paths else { return false };
    let is_told = |(path, ty): &(swiftwater_event::Path, swiftwater_event::Type)| {
        stream.columns.iter().any(|column| {
            column.event_path() == *path
                && column.default.is_none()
                && column.ty == *ty
                && matches!(ty, swiftwater_event::Type::Primitive(_))
        })
    };
    paths.iter().all(is_told)
}
