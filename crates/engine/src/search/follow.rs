//! Follows a search: the newest hits of the stored events, oldest first, then each further event that matches.
//!
//! ```text
//! live query with SEARCH ─ an event may match ─► stored events from the last position on, in the order of offsets ─► hits
//! ```
//!
//! Hits are always those of stored events, read from exactly the offset on at which the round before ended; so each is
//! answered once, in the order of its stream, and never before it is synced. The matcher only says when to read: a live
//! query over the same stream signals events that match it. Once in [`SWEEP`] the stream is read without a signal, if it
//! grew, for events that only their columns make match. A reader that is slow delays the rounds, and loses no event unless
//! retention deletes it meanwhile; such events are counted. Limits: [`ROUND_HITS`] hits in memory.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use arrow_array::RecordBatch;
use futures_util::future::select_all;
use swiftwater_event::StreamName;
use swiftwater_runtime::{SubmitOptions, Subscription};
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::OFFSET_COLUMN;
use swiftwater_text::query::Operator;
use tokio::time::Instant;

use super::{
    Search, Target,
    condition::identifier,
    costs::Costs,
    nothing_stored,
    request::{Moments, SearchHit, SearchRequest, SearchSort},
};
use crate::{
    Principal,
    durable::{backfill::first_past, stored_stream::StoredStream},
    searches::{SearchError, SearchProgress},
    shared::Shared,
};

/// Hits that one round reads.
const ROUND_HITS: usize = 1000;
/// The time between two reads without a signal.
const SWEEP: Duration = Duration::from_secs(1);
/// The time between two looks whether events are synced that were signalled before.
const SYNC_LOOK: Duration = Duration::from_millis(2);

/// The next of a search that is followed.
#[derive(Debug, Clone)]
pub enum Followed {
    /// An event that matches.
    Hit {
        /// The event.
        hit: SearchHit,
        /// The position behind it, from which [`SearchFollow`] resumes.
        position: String,
    },
    /// Events were deleted before they were searched: the reader was away or too slow.
    Lost {
        /// Their stream.
        stream: StreamName,
        /// Their number.
        events: u64,
        /// The position behind them.
        position: String,
    },
}

/// A search that is followed. Dropping it ends it.
pub struct SearchFollow {
    shared: Arc<Shared>,
    request: SearchRequest,
    moments: Moments,
    streams: Vec<Followable>,
    waiting: VecDeque<Followed>,
    swept: Instant,
}

/// A stream that is followed.
struct Followable {
    stored: Arc<StoredStream>,
    signals: Subscription,
    /// The offset before which all events were searched.
    done: u64,
    /// The offset up to which events are to be searched.
    wanted: u64,
    /// When it was last made sure that no event was deleted before it was searched.
    checked: Option<Instant>,
}

impl SearchFollow {
    /// Begins with the newest hits, or at the position of an earlier answer.
    pub(crate) async fn begin(
        shared: &Arc<Shared>,
        request: SearchRequest,
        position: Option<&str>,
    ) -> Result<SearchFollow, SearchError> {
        check(&request)?;
        let history = shared.history.get().ok_or_else(nothing_stored)?;
        let mut streams = Vec::with_capacity(request.streams.len());
        for name in &request.streams {
            // Streams that are not stored are refused by the search below.
            let Some(stored) = history.stored(name) else { continue };
            let signals = signals(shared, &request, name)?;
            // Events that come from here on are signalled.
            let wanted = stored.next();
            streams.push(Followable { stored, signals, done: wanted, wanted, checked: Some(Instant::now()) });
        }
        let limit = if position.is_some() { 0 } else { request.limit };
        let first = SearchRequest { counts: false, limit, ..request.clone() };
        let answer = super::search(shared, &first).await?;
        let moments = request.moments(shared.clock.now_micros())?;
        for (stream, searched) in streams.iter_mut().zip(&answer.streams) {
            stream.done = searched.position;
        }
        let mut follow = SearchFollow {
            shared: Arc::clone(shared),
            request,
            moments,
            streams,
            waiting: VecDeque::new(),
            swept: Instant::now(),
        };
        match position {
            Some(position) => follow.resume(position)?,
            None => follow.add_history(answer.hits),
        }
        Ok(follow)
    }

    /// The next hit or loss, once there is one. If it is dropped before, nothing is lost.
    pub async fn next(&mut self) -> Result<Followed, SqlError> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Ok(next);
            }
            let mut is_behind = false;
            for place in 0..self.streams.len() {
                is_behind |= self.streams[place].done < self.streams[place].wanted;
                self.round(place).await?;
            }
            if !self.waiting.is_empty() {
                continue;
            }
            match is_behind {
                // What was signalled is not synced yet.
                true => tokio::time::sleep(SYNC_LOOK).await,
                false => self.signalled().await?,
            }
        }
    }

    /// Puts the newest hits in line, oldest first.
    fn add_history(&mut self, mut hits: Vec<SearchHit>) {
        hits.reverse();
        let place_of = |streams: &[Followable], name: &StreamName| {
            streams.iter().position(|stream| stream.stored.name == *name).unwrap_or(0)
        };
        let mut positions: Vec<u64> = self.streams.iter().map(|stream| stream.done).collect();
        for hit in hits.iter().rev() {
            positions[place_of(&self.streams, &hit.stream)] = hit.offset;
        }
        let last = hits.len().saturating_sub(1);
        for (number, hit) in hits.into_iter().enumerate() {
            positions[place_of(&self.streams, &hit.stream)] = hit.offset + 1;
            let position = match number == last {
                true => self.position(),
                false => written(&positions),
            };
            self.waiting.push_back(Followed::Hit { hit, position });
        }
    }

    fn resume(&mut self, position: &str) -> Result<(), SqlError> {
        let refused = || {
            let shown: String = position.chars().take(64).collect();
            SqlError::new(SqlErrorKind::Invalid, format!("`{shown}` is no position of this search"))
                .with_hint(
                    "Repeat the request with the `id` of the last event that was received, or without.",
                )
        };
        let offsets: Result<Vec<u64>, _> = position.split(',').map(str::parse).collect();
        let offsets = offsets.map_err(|_| refused())?;
        if offsets.len() != self.streams.len() {
            return Err(refused());
        }
        for (stream, offset) in self.streams.iter_mut().zip(offsets) {
            if offset > stream.wanted.max(stream.done) {
                return Err(refused());
            }
            (stream.done, stream.checked) = (offset, None);
        }
        Ok(())
    }

    fn position(&self) -> String {
        written(&self.streams.iter().map(|stream| stream.done).collect::<Vec<_>>())
    }

    /// Reads the hits of a stream from where the last round ended, up to what is acknowledged.
    async fn round(&mut self, place: usize) -> Result<(), SqlError> {
        let history = self.shared.history.get().ok_or_else(nothing_stored)?;
        let stream = &self.streams[place];
        let until = stream.stored.acknowledged(&history.log).min(stream.wanted.max(stream.done));
        if until <= stream.done {
            return Ok(());
        }
        self.check_lost(place, until).await?;
        let from = self.streams[place].done;
        let progress = SearchProgress::default();
        let mut search = Search::new(&self.shared, &self.request, None, &progress)?;
        search.moments = self.moments;
        let name = &self.request.streams[place];
        let target = search.target(&self.shared, name, Some(until)).await?;
        let hits = search.hits_between(&target, from..until).await?;
        let is_full = hits.len() == ROUND_HITS;
        let end = hits.last().filter(|_| is_full).map_or(until, |last| last.offset + 1);
        for hit in hits {
            self.streams[place].done = hit.offset + 1;
            let position = self.position();
            self.waiting.push_back(Followed::Hit { hit, position });
        }
        self.streams[place].done = end;
        Ok(())
    }

    /// Counts events from the last round on that are deleted. Looked for only where that round was some time ago.
    async fn check_lost(&mut self, place: usize, until: u64) -> Result<(), SqlError> {
        let sql = self.shared.sql.get().ok_or_else(nothing_stored)?;
        let stream = &mut self.streams[place];
        let checked = stream.checked.replace(Instant::now());
        if checked.is_some_and(|checked| checked.elapsed() < SWEEP) {
            return Ok(());
        }
        let first = first_past(sql, &stream.stored, (stream.done, until)).await?.unwrap_or(until);
        let events = first.saturating_sub(stream.done);
        if events > 0 {
            stream.done = first;
            let stream = stream.stored.name.clone();
            let position = self.position();
            self.waiting.push_back(Followed::Lost { stream, events, position });
        }
        Ok(())
    }

    /// Waits until an event may match, or for the next sweep.
    async fn signalled(&mut self) -> Result<(), SqlError> {
        let sweep = tokio::time::sleep_until(self.swept + SWEEP);
        let signals = self.streams.iter_mut().map(|stream| Box::pin(stream.signals.next()));
        let signalled = tokio::select! {
            biased;
            (emit, place, _) = select_all(signals) => Some((place, emit.is_none())),
            () = sweep => None,
        };
        let Some((place, has_ended)) = signalled else {
            self.swept = Instant::now();
            for stream in &mut self.streams {
                stream.wanted = stream.stored.next();
            }
            return Ok(());
        };
        if has_ended {
            let name = self.streams[place].stored.name.clone();
            self.streams[place].signals = signals_again(&self.shared, &self.request, &name)?;
        }
        let stream = &mut self.streams[place];
        while stream.signals.try_next().is_some() {}
        // Also behind events whose signals were dropped since nobody read them.
        stream.wanted = stream.stored.next();
        Ok(())
    }
}

impl Search<'_> {
    /// The first hits between two offsets, in the order of offsets.
    async fn hits_between(
        &self,
        target: &Target,
        offsets: std::ops::Range<u64>,
    ) -> Result<Vec<SearchHit>, SqlError> {
        let (condition, parameters) = self.condition(target, &offsets, None)?;
        let text = format!(
            "SELECT {} FROM {} WHERE {condition} ORDER BY {OFFSET_COLUMN} LIMIT {ROUND_HITS}",
            self.selected(target)?,
            identifier(target.stored.name.as_str())
        );
        let mut hits = Vec::new();
        let mut add = |rows: &RecordBatch| {
            hits.extend(self.hits_of(target, rows)?);
            Ok(())
        };
        self.read(("follow", Some(0)), (text, parameters), &mut Costs::default(), &mut add).await?;
        hits.sort_unstable_by_key(|hit| hit.offset);
        Ok(hits)
    }
}

/// Refuses what cannot be followed.
fn check(request: &SearchRequest) -> Result<(), SqlError> {
    let refused = [
        (request.sort != SearchSort::default(), "sort"),
        (request.cursor.is_some(), "cursor"),
        (request.to.is_some(), "to"),
        (request.around.is_some(), "around"),
        (request.partial, "partial"),
        (!request.facets.is_empty(), "facet"),
        (!request.ranges.is_empty(), "range"),
        (request.histogram.is_some(), "histogram"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, name)) => {
            let message = format!("`{name}` does not go with `follow`");
            let error = SqlError::new(SqlErrorKind::Invalid, message);
            Err(error.with_hint("A search that is followed has no order but that of time, and no end."))
        }
    }
}

/// A live query over a stream that has a record for each event that may match.
fn signals(shared: &Shared, request: &SearchRequest, stream: &StreamName) -> Result<Subscription, SqlError> {
    let every = format!("SELECT 1 AS one FROM STREAM(\"{stream}\", MAX, TIME)");
    let submit = |text: &str| shared.runtime.submit(&Principal::local(), text, SubmitOptions::default());
    let condition = request.query_of(stream).trim();
    let subscription = match request.operator {
        Operator::And if !condition.is_empty() => {
            let quoted = condition.replace('\'', "''");
            // Some searches are of stored events only: `now` has no meaning in a live query.
            submit(&format!("{every} WHERE SEARCH('{quoted}')")).or_else(|_| submit(&every))
        }
        _ => submit(&every),
    };
    subscription.map_err(crate::error::sql::from_engine)
}

/// The live query again, when it ended: its duration is limited.
fn signals_again(
    shared: &Shared,
    request: &SearchRequest,
    stream: &StreamName,
) -> Result<Subscription, SqlError> {
    if shared.history.get().and_then(|history| history.stored(stream)).is_none() {
        let message = format!("stream `{stream}` was dropped while it was followed");
        return Err(SqlError::new(SqlErrorKind::NotFound, message));
    }
    signals(shared, request, stream)
}

fn written(positions: &[u64]) -> String {
    positions.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}
