//! One stream join: its query, its progress, and the state of both on disk.

use std::{
    collections::VecDeque,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use swiftwater_catalog::kind::stream_join::JoinEntry;
use swiftwater_event::{Backoff, Millis};
use swiftwater_lang::{
    QueryErrors,
    ddl::{CreateJoin, CreateStream},
    plan::JoinPlan,
};
use swiftwater_live::{JoinPlace, JoinProgress, JoinQuery, SIDES};
use swiftwater_log::LogPosition;
use swiftwater_views::{Commit, ViewStore, ViewStoreError};

use super::{state::JoinState, task::RETRY};
use crate::{
    EngineError, RuntimeError,
    durable::stored_stream::StoredStream,
    objects::views::{Defaults, query_error},
    supervisor::DropSignal,
};
use swiftwater_runtime::lock_order::OrderedMutex;

/// Pairs that are to go into the target stand on disk under this and their number.
const OUTBOX: u8 = b'o';

/// A join at work.
pub(crate) struct Join {
    pub(crate) entry: JoinEntry,
    /// The streams that are joined, and the one that gets the pairs.
    pub(super) sides: [Arc<StoredStream>; SIDES],
    pub(super) target: Arc<StoredStream>,
    pub(super) query: JoinQuery,
    pub(super) store: Arc<ViewStore>,
    pub(super) counts: Counts,
    failing: OrderedMutex<Option<Failing>>,
    /// The position at its last failure, and the pauses since.
    pub(super) retry: OrderedMutex<(Option<u64>, Backoff)>,
    pub(super) dropped: DropSignal,
}

/// The reason why a join does not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failing {
    pub(super) why: String,
    /// It is not tried again.
    pub(super) is_for_good: bool,
}

/// The counters of a join that are shown.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// All in the log before here was taken in, and is on disk.
    pub(super) position: AtomicU64,
    /// Pairs that were told since it was created.
    pub(super) pairs: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) ahead: AtomicU64,
    pub(super) untimed: AtomicU64,
    pub(super) passed_over: AtomicU64,
    pub(super) kept_events: AtomicU64,
    pub(super) kept_bytes: AtomicU64,
    pub(super) held_bytes: AtomicU64,
    /// Numbers of pairs that wait to go into the target.
    pub(super) waiting: AtomicU64,
    /// Pairs that the target refused, since the start.
    pub(super) refused: AtomicU64,
}

/// The state of a join at a position of the log.
pub(super) struct PositionedState {
    /// The record of the log that is next, or that is being taken in.
    pub(super) position: LogPosition,
    /// The progress within that record.
    pub(super) place: JoinPlace,
    pub(super) progress: JoinProgress,
    pub(super) pairs: u64,
    /// The number that pairs were given last; 0: none yet.
    pub(super) number: u64,
    /// Numbers of pairs that are on disk and are to go into the target.
    pub(super) waiting: VecDeque<u64>,
    /// Numbers of pairs that are on disk and went into the target.
    pub(super) delivered: Vec<u64>,
    pub(super) state: JoinState,
}

/// The same as it stands beside the position.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    format: u32,
    done: usize,
    after: Option<(i64, u64)>,
    latest: [Option<i64>; SIDES],
    late: u64,
    /// Events that were too far ahead; 0 in states from before `MAX AHEAD`.
    #[serde(default)]
    ahead: u64,
    /// The last progress of each side; none in states from before `IDLE AFTER`.
    #[serde(default)]
    moved: [Option<Millis>; SIDES],
    #[serde(default)]
    last: [Option<Millis>; SIDES],
    untimed: u64,
    passed_over: u64,
    pairs: u64,
    number: u64,
}

const FORMAT: u32 = 1;

/// The reason why the state on disk of a join cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("its state cannot be read")]
    Store(#[from] ViewStoreError),
    #[error("its state was written by a newer version, or is damaged")]
    Note,
    #[error("its state is lost: drop the join, and create it again")]
    Lost,
}

/// Compiles a join over what its streams are declared as.
pub(super) fn compile(
    create: &CreateJoin,
    streams: [&CreateStream; SIDES],
) -> Result<JoinQuery, EngineError> {
    JoinQuery::new(&plan(create, streams)?).map_err(|error| {
        EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![query_error(error.to_string())])))
    })
}

/// The plan of a join, with the defaults of its streams put in.
pub(super) fn plan(create: &CreateJoin, streams: [&CreateStream; SIDES]) -> Result<JoinPlan, EngineError> {
    let mut plan = create.plan(streams).map_err(RuntimeError::Query)?;
    for (side, stream) in plan.sides.iter_mut().zip(streams) {
        let defaults = Defaults::of(stream).map_err(RuntimeError::Query)?;
        let exprs = side.keys.iter_mut().chain(&mut side.filter).chain(&mut side.values);
        exprs.chain([&mut side.time]).for_each(|expr| defaults.put(expr));
    }
    Ok(plan)
}

impl Join {
    pub(super) fn new(
        entry: JoinEntry,
        (sides, target): ([Arc<StoredStream>; SIDES], Arc<StoredStream>),
        query: JoinQuery,
        store: Arc<ViewStore>,
    ) -> Join {
        Join {
            entry,
            sides,
            target,
            query,
            store,
            counts: Counts::default(),
            failing: OrderedMutex::default(),
            retry: OrderedMutex::new((None, RETRY)),
            dropped: DropSignal::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.create.name
    }

    /// The producer of its pairs; no other join has this one's number and time of creation.
    pub(super) fn producer(&self) -> String {
        format!("join {}-{}", self.entry.id, self.entry.created)
    }

    pub(super) fn failing(&self) -> Option<Failing> {
        self.failing.lock().clone()
    }

    /// Records the failure; returns true if it is new.
    pub(super) fn record_failure(&self, failing: Option<Failing>) -> bool {
        let mut known = self.failing.lock();
        let is_news = *known != failing;
        *known = failing;
        is_news
    }

    /// Shows how far it is.
    pub(super) fn show(&self, known: &PositionedState) {
        let (events, bytes) = known.state.counts();
        let counts = &self.counts;
        let shown = [
            (&counts.position, known.position.0),
            (&counts.pairs, known.pairs),
            (&counts.late, known.progress.late),
            (&counts.ahead, known.progress.ahead),
            (&counts.untimed, known.progress.untimed),
            (&counts.passed_over, known.progress.passed_over),
            (&counts.kept_events, events),
            (&counts.kept_bytes, bytes),
            (&counts.held_bytes, known.state.held_bytes() as u64),
            (&counts.waiting, known.waiting.len() as u64),
        ];
        shown.into_iter().for_each(|(count, now)| count.store(now, Ordering::Relaxed));
    }
}

impl PositionedState {
    /// The state on disk. `was_told`: whether the target knows pairs of this join.
    pub(super) fn load(
        join: &Join,
        memory_bytes_max: usize,
        was_told: bool,
    ) -> Result<PositionedState, LoadError> {
        let (id, store) = (join.entry.id, &join.store);
        let kept = JoinState::load(store, id, join.query.time_bounds(), memory_bytes_max)?;
        let mut known = PositionedState {
            position: LogPosition(join.entry.from),
            place: JoinPlace::default(),
            progress: JoinProgress::default(),
            pairs: 0,
            number: 0,
            waiting: VecDeque::new(),
            delivered: Vec::new(),
            state: kept,
        };
        let Some((position, note)) = store.checkpoint(id)? else {
            // It begins. But what was told is on disk before it is told, unless the directory is another one.
            return if was_told { Err(LoadError::Lost) } else { Ok(known) };
        };
        let note: Note = serde_json::from_slice(&note).map_err(|_| LoadError::Note)?;
        if note.format > FORMAT {
            return Err(LoadError::Note);
        }
        known.position = LogPosition(position);
        known.place = JoinPlace { done: note.done, after: note.after };
        let Note { latest, moved, last, late, ahead, untimed, passed_over, .. } = note;
        known.progress = JoinProgress { latest, moved, last, late, ahead, untimed, passed_over };
        (known.pairs, known.number) = (note.pairs, note.number);
        let snapshot = store.snapshot(id)?;
        for pair in snapshot.range((Bound::Included(&[OUTBOX][..]), Bound::Excluded(&[OUTBOX + 1][..]))) {
            let number = pair?.0[1..].try_into().map_err(|_| LoadError::Note)?;
            known.waiting.push_back(u64::from_be_bytes(number));
        }
        Ok(known)
    }

    /// Writes the state to disk, with pairs for the target, if there are any: these have the next number then.
    pub(super) fn commit(&mut self, join: &Join, pairs: &[u8]) -> Result<(), ViewStoreError> {
        let number = self.number + u64::from(!pairs.is_empty());
        let (kept, left) = self.state.changes()?;
        let told: Vec<Vec<u8>> = self.delivered.iter().map(|number| outbox_key(*number)).collect();
        let own = outbox_key(number);
        let note = Note {
            format: FORMAT,
            done: self.place.done,
            after: self.place.after,
            latest: self.progress.latest,
            moved: self.progress.moved,
            last: self.progress.last,
            late: self.progress.late,
            ahead: self.progress.ahead,
            untimed: self.progress.untimed,
            passed_over: self.progress.passed_over,
            pairs: self.pairs,
            number,
        };
        let note = serde_json::to_vec(&note).expect("numbers are JSON");
        let kept = kept.iter().map(|(key, values)| (&key[..], values.as_deref()));
        let told = told.iter().map(|key| (&key[..], None));
        let own = (!pairs.is_empty()).then_some((&own[..], Some(pairs)));
        let changes = kept.chain(told).chain(own);
        let (view, position) = (join.entry.id, self.position.0);
        join.store.commit_all(&[Commit { view, changes, position, note: &note, below: None, log: None }])?;
        if number > self.number {
            self.waiting.push_back(number);
        }
        self.number = number;
        self.delivered.clear();
        self.state.committed(left)
    }

    /// The pairs that are to go into the target next, and their number.
    pub(super) fn next_waiting(&self, join: &Join) -> Result<Option<(u64, Vec<u8>)>, ViewStoreError> {
        let Some(number) = self.waiting.front().copied() else { return Ok(None) };
        let pairs = join.store.get(join.entry.id, &outbox_key(number))?;
        Ok(Some((number, pairs.unwrap_or_default())))
    }
}

fn outbox_key(number: u64) -> Vec<u8> {
    [&[OUTBOX][..], &number.to_be_bytes()].concat()
}
