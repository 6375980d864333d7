//! The tasks of stream joins, from creation to drop: each reads the log, finds pairs, and appends them to the target stream.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bumpalo::Bump;
use swiftwater_catalog::Object;
use swiftwater_event::{Backoff, Decoder, EventBatch};
use swiftwater_live::{InvalidState, JoinPlace, expr::Scratch, join_step};
use swiftwater_log::{Head, LogError, LogPosition, LogReader};
use swiftwater_views::ViewStoreError;

use super::{
    Join,
    join::{Failing, LoadError, PositionedState},
};
use crate::{
    Ack, AppendOptions, DedupError, EngineError, Numbered,
    durable::{
        history::{History, causes, run_blocking},
        table_writer::{TableWriterError, events},
    },
    supervisor::{DropSignal, Maintained, NextAttempt, TaskKind},
    tables::rows::as_events,
};

/// Pauses between attempts, and between looks at a target that cannot be written at present.
pub(super) const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(10));

/// Bytes of events that are taken in together.
const TAKEN_BYTES: usize = 1 << 20;
/// Bytes of the log that are read at once, whosever they are.
const READ_BYTES: u64 = 8 << 20;
/// Pairs that are made at once, and bytes of their events.
const PAIRS_AT_ONCE: (usize, usize) = (1024, 4 << 20);
/// Bytes of pairs that are told under one number, about.
const TOLD_BYTES: usize = 2 << 20;
/// Bytes of pairs that go into the target at once.
const PART_BYTES: usize = 1 << 20;
/// Bytes of events, or of the log, from which on a commit does not wait for more.
const COMMIT_BYTES: usize = 8 << 20;
/// Pairs under so many numbers may wait for a target that cannot take them.
const WAITING_MAX: usize = 1024;

/// The reason why a join does not continue.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("its state cannot be persisted")]
    Store(#[from] ViewStoreError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("its events cannot be read")]
    LogTail(#[from] TableWriterError),
    #[error("the state of an event is damaged")]
    State(#[from] InvalidState),
    #[error("its stream refuses the pairs")]
    Engine(#[from] EngineError),
    #[error(
        "its state has {bytes} bytes, limit is {limit} (`joins.state_bytes_max`): join events that are closer in \
         time, or raise the limit"
    )]
    Full { bytes: u64, limit: u64 },
    #[error(
        "its files were damaged, so the server cannot determine which pairs were sent; DROP it and CREATE it again"
    )]
    Damaged,
}

impl JoinError {
    /// True if another attempt would fail in the same way.
    fn is_for_good(&self) -> bool {
        match self {
            JoinError::Load(LoadError::Lost | LoadError::Note)
            | JoinError::State(_)
            | JoinError::Store(ViewStoreError::KeyTooLong(_))
            | JoinError::Damaged
            | JoinError::Full { .. } => true,
            JoinError::LogTail(TableWriterError::Log(LogError::Trimmed { .. })) => true,
            JoinError::Load(LoadError::Store(_))
            | JoinError::Store(_)
            | JoinError::LogTail(_)
            | JoinError::Engine(_) => false,
        }
    }
}

/// Events of one of the streams, or of both where they are one, as a record of the log has them.
struct Gathered {
    is_of: [bool; 2],
    batch: EventBatch,
    end: LogPosition,
}

/// The buffers of the decoder, reused in each round.
#[derive(Default)]
struct DecodeBuffers {
    decoder: Decoder,
    scratch: Scratch,
}

/// The events that a join reads.
struct Input {
    log: LogReader,
    /// Events that were read, and are not paired yet.
    gathered: Vec<Gathered>,
    tools: DecodeBuffers,
}

/// The outcome of one step of a join.
#[derive(Default)]
struct JoinStep {
    /// Lines that are to go into the target.
    pairs: Vec<u8>,
    /// True if so much is not on disk that a commit is due.
    is_much: bool,
    /// True if there were events to pair, or other records to skip.
    has_read: bool,
}

impl Maintained for Join {
    type Error = JoinError;

    fn object(&self) -> Object {
        self.entry.object()
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::Join
    }

    fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), JoinError> {
        if self.store.is_lost(self.entry.id) {
            return Err(JoinError::Damaged);
        }
        match history.run_join(self).await? {}
    }

    fn failed(&self, history: &Arc<History>, error: JoinError) -> NextAttempt {
        let is_for_good = error.is_for_good();
        if self.record_failure(Some(Failing { why: causes(&error), is_for_good })) {
            let error = &error as &dyn std::error::Error;
            tracing::error!(join = self.name(), error, "a join is stopped; the server retries if it can");
        }
        if is_for_good {
            // The log need not keep anything for it.
            history.retained.release(self.entry.id);
            return NextAttempt::Never;
        }
        let position = Some(self.counts.position.load(Ordering::Relaxed));
        let mut retry = self.retry.lock();
        if retry.0 != position {
            *retry = (position, RETRY);
        }
        NextAttempt::After(retry.1.pause())
    }

    async fn drop_data(&self, history: &Arc<History>) {
        // Work in flight at the drop may have retained the log once more.
        history.retained.release(self.entry.id);
        let (store, id) = (Arc::clone(&self.store), self.entry.id);
        let deleted = tokio::task::spawn_blocking(move || store.delete(id)).await;
        if let Ok(Err(error)) = deleted {
            tracing::warn!(join = self.name(), %error, "the state of a dropped join is deleted at the next start");
        }
    }
}

impl History {
    /// Continues a join from its state on disk.
    async fn run_join(&self, join: &Join) -> Result<Infallible, JoinError> {
        let mut known = self.load_join(join)?;
        let mut committed = known.position;
        self.retained.set(join.entry.id, || committed);
        join.show(&known);
        let log = self.log.read(known.position);
        let mut input = Input { log, gathered: Vec::new(), tools: DecodeBuffers::default() };
        let interval = Duration::from_millis(self.config.views_commit_interval_ms.max(1));
        let mut due = Box::pin(tokio::time::sleep(interval));
        let mut backoff = RETRY;
        let mut pause = backoff.pause();
        loop {
            let [left, right] = [join.sides[0].fed.notified(), join.sides[1].fed.notified()];
            tokio::pin!(left, right);
            left.as_mut().enable();
            right.as_mut().enable();
            let is_told = self.append_waiting(join, &mut known).await?;
            if is_told {
                backoff.reset();
                pause = backoff.pause();
                join.record_failure(None);
            }
            let (mut step, reads_on) = (JoinStep::default(), known.waiting.len() < WAITING_MAX);
            if reads_on {
                step = self.find_pairs(join, &mut known, &mut input, committed)?;
                if step.has_read && step.pairs.is_empty() && !step.is_much {
                    join.show(&known);
                    continue;
                }
            }
            if step.pairs.is_empty() && !step.is_much {
                let is_changed =
                    known.position > committed || known.state.has_changed() || !known.delivered.is_empty();
                let appended = self.log.horizons().appended;
                let has_all = input.log.position() >= appended;
                let is_due = tokio::select! {
                    biased;
                    () = &mut due => true,
                    () = tokio::time::sleep(pause), if !is_told => {
                        pause = backoff.pause();
                        false
                    }
                    synced = self.log.synced(appended), if reads_on && !has_all => {
                        synced.map_err(TableWriterError::Log)?;
                        false
                    }
                    () = &mut left, if reads_on && has_all => false,
                    () = &mut right, if reads_on && has_all => false,
                };
                if !is_due {
                    continue;
                }
                if !is_changed {
                    // Other streams' events, which nobody tells of, are read past, so that the log need not keep them.
                    due.set(tokio::time::sleep(interval));
                    continue;
                }
            }
            self.commit_pairs(join, &mut known, &step.pairs).await?;
            committed = known.position;
            due.set(tokio::time::sleep(interval));
        }
    }

    /// The state of a join on disk.
    fn load_join(&self, join: &Join) -> Result<PositionedState, JoinError> {
        let first = Numbered { producer: join.producer().into(), sequence: 1, part: 0, after: 0, hash: 0 };
        let was_told = !matches!(join.target.find_receipt(&first, Ack::Disk), Ok(None));
        let memory = self.config.joins_memory_bytes_max / self.all_joins().len().max(1);
        Ok(run_blocking(usize::MAX, || PositionedState::load(join, memory, was_told))?)
    }

    /// Reads on in the log and pairs the events. `committed`: how far the join is on disk.
    fn find_pairs(
        &self,
        join: &Join,
        known: &mut PositionedState,
        Input { log, gathered, tools }: &mut Input,
        committed: LogPosition,
    ) -> Result<JoinStep, JoinError> {
        let read_from = log.position();
        if gathered.is_empty() {
            *gathered = run_blocking(usize::MAX, || gather(log, join))?;
        }
        let has_read = log.position() > read_from || !gathered.is_empty();
        let pairs = run_blocking(usize::MAX, || accept_events(join, known, gathered, log.position(), tools))?;
        let (bytes, limit) = (known.state.counts().1, self.config.joins_state_bytes_max);
        if bytes > limit {
            return Err(JoinError::Full { bytes, limit });
        }
        let log_bytes = known.position.0.saturating_sub(committed.0);
        let is_much = known.state.fresh_bytes() >= COMMIT_BYTES || log_bytes >= 4 * COMMIT_BYTES as u64;
        Ok(JoinStep { pairs, is_much, has_read })
    }

    /// Writes the state of a join to disk, with pairs for the target.
    async fn commit_pairs(
        &self,
        join: &Join,
        known: &mut PositionedState,
        pairs: &[u8],
    ) -> Result<(), JoinError> {
        {
            let _no_cut_is_made = self.backup_lock.read().await;
            run_blocking(usize::MAX, || known.commit(join, pairs))?;
        }
        self.retained.set(join.entry.id, || known.position);
        join.show(known);
        Ok(())
    }

    /// Delivers waiting pairs into their stream; returns true if none waits any more. They do where there is no room.
    async fn append_waiting(&self, join: &Join, known: &mut PositionedState) -> Result<bool, JoinError> {
        while let Some((number, pairs)) = run_blocking(usize::MAX, || known.next_waiting(join))? {
            match self.append_pairs(join, number, &pairs).await {
                Ok(()) => {
                    known.waiting.pop_front();
                    known.delivered.push(number);
                    join.show(known);
                }
                // The log may get room when this join has read on.
                Err(error @ EngineError::DiskFull) => {
                    join.record_failure(Some(Failing { why: causes(&error), is_for_good: false }));
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Delivers pairs into their stream, once: it has the number, or gets it.
    async fn append_pairs(&self, join: &Join, number: u64, pairs: &[u8]) -> Result<(), EngineError> {
        let shared = self.shared()?;
        let stream = shared.stream(&join.target.name)?;
        // Each part is one record of the log.
        let part_bytes = PART_BYTES.min(self.config.log().record_bytes_max as usize / 2);
        for (part, lines) in (0u16..).zip(parts(pairs, part_bytes)) {
            let told = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
            let batch = as_events(lines.to_vec());
            let too_large = told.saturating_sub(batch.len() as u64);
            let numbered =
                Numbered { producer: join.producer().into(), sequence: number, part, after: 0, hash: 0 };
            let options =
                AppendOptions { numbered: Some(numbered), ack: Ack::Disk, ..AppendOptions::default() };
            let refused = match self.append(&shared, (&stream, &join.target), batch, options).await {
                Ok(appended) => {
                    if let Some(ticket) = appended.ticket {
                        self.synced(ticket).await?;
                    }
                    let refused = appended.refusals.first();
                    if let Some(refusal) = refused {
                        tracing::warn!(join = join.name(), stream = %join.target.name, error = refusal.message, "pairs are refused");
                    }
                    appended.refusals.len() as u64
                }
                // So old that it is no longer known by its number: it was stored.
                Err(EngineError::Dedup(DedupError::TooOld { .. })) => 0,
                Err(error) => return Err(error),
            };
            join.counts.refused.fetch_add(refused + too_large, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Lines that go into a stream together.
fn parts(mut lines: &[u8], part_bytes: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = match lines.get(part_bytes..) {
            None => lines.len(),
            Some(rest) => {
                rest.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |at| part_bytes + at + 1)
            }
        };
        let part = lines.split_off(..end)?;
        (!part.is_empty()).then_some(part)
    })
}

/// Reads on in the log, up to some bytes of events of the join's streams, and of all.
fn gather(log: &mut LogReader, join: &Join) -> Result<Vec<Gathered>, TableWriterError> {
    let (mut gathered, mut bytes, from) = (Vec::new(), 0, log.position().0);
    let ids = [join.sides[0].id, join.sides[1].id];
    let is_of = |head: &Head| match head {
        Head::Events(head) => ids.map(|id| id == head.stream),
        Head::Catalog | Head::Tick { .. } => [false; 2],
    };
    while bytes < TAKEN_BYTES && log.position().0 < from + READ_BYTES {
        let Some(record) = log.next_where(|head| is_of(head).contains(&true))? else { break };
        let is_of = is_of(&record.head);
        if let (Head::Events(head), true) = (&record.head, is_of.contains(&true)) {
            let batch = events(head, record.payload).ok_or(TableWriterError::NoEvents(record.position.0))?;
            bytes += batch.bytes().len();
            gathered.push(Gathered { is_of, batch, end: record.end });
        }
    }
    Ok(gathered)
}

/// Takes events in, up to some bytes of pairs, which it answers; those that are not done with stay. `read`: how far the log was
/// read.
fn accept_events(
    join: &Join,
    known: &mut PositionedState,
    gathered: &mut Vec<Gathered>,
    read: LogPosition,
    tools: &mut DecodeBuffers,
) -> Result<Vec<u8>, JoinError> {
    let (arena, apart) = (Bump::new(), join.query.time_bounds());
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for Gathered { is_of, batch, .. } in &*gathered {
        let mut of = |side: usize| {
            let events = is_of[side]
                .then(|| join.query.read(side, batch, (&mut tools.decoder, &mut tools.scratch), &arena));
            events.unwrap_or_default().into_iter().map(move |event| (side, event))
        };
        let (mut left, mut right) = (of(0), of(1));
        // For a stream that is joined with itself, each event belongs to both sides, the left one first.
        loop {
            let before = all.len();
            all.extend(left.next());
            all.extend(right.next());
            if all.len() == before {
                break;
            }
        }
        ends.push(all.len());
    }
    let mut lines = Vec::new();
    while known.place.done < all.len() && lines.len() < TOLD_BYTES {
        let mut pairs = Vec::new();
        let progress = (&mut known.progress, &mut known.state);
        known.place = join_step(apart, progress, &all, known.place, PAIRS_AT_ONCE, &mut pairs)?;
        known.pairs += join.query.write(&pairs, &mut tools.scratch, &mut lines)?;
    }
    known.state.expire(apart, &known.progress);
    let JoinPlace { done, after } = known.place;
    let records = ends.iter().take_while(|end| **end <= done).count();
    let before = records.checked_sub(1).map_or(0, |last| ends[last]);
    known.position = match gathered.len() {
        all if all == records => read,
        _ => records.checked_sub(1).map_or(known.position, |last| gathered[last].end),
    };
    // Events of a record that is still to be read may be done with already.
    known.place = if ends.is_empty() { known.place } else { JoinPlace { done: done - before, after } };
    gathered.drain(..records);
    Ok(lines)
}
