//! Registers searches, so that they can be listed and ended, and admits them: so many run, so many wait, others are refused.
//!
//! A search that is ended, or whose client is gone, drops its statements of SQL, which end. The last searches that ended
//! are listed by their id. Limits: `search.searches_max`, `search.waiting_max`, [`ENDED_MAX`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use swiftwater_event::StreamName;
use swiftwater_runtime::LATENCY_BOUNDS_MICROS;
use swiftwater_sql::{ErrorKind as SqlErrorKind, Progress, SqlError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SetOnce},
    time::Instant,
};

use crate::config::HistoryConfig;

/// Ended searches that are still listed by their id.
const ENDED_MAX: usize = 100;
/// Bytes of a query that are listed.
const QUERY_BYTES: usize = 2000;

/// The reason why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// Too many run and wait.
    #[error("{waiting} searches are already waiting")]
    Busy {
        /// Searches that wait for their turn.
        waiting: usize,
    },
    /// It failed.
    #[error(transparent)]
    Failed(#[from] SqlError),
}

/// The state of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchState {
    /// It waits for its turn.
    Waiting,
    /// It runs.
    Running,
    /// It has its answer.
    Done,
    /// It failed.
    Failed,
    /// It was ended, or its client is gone.
    Cancelled,
}

/// A search that waits, runs or ended lately.
#[derive(Debug, Clone)]
pub struct RunningSearch {
    /// Its name.
    pub id: Arc<str>,
    /// The streams.
    pub streams: Vec<StreamName>,
    /// The query, cut off where it is long.
    pub query: String,
    /// Its state.
    pub state: SearchState,
    /// The time since it was asked, or until it ended.
    pub elapsed: Duration,
    /// Rows that were read so far.
    pub rows_scanned: u64,
    /// Bytes that were read from storage so far.
    pub bytes_read: u64,
}

/// Counts of all searches and index files since the start.
#[derive(Debug, Clone, Default)]
pub struct SearchMetrics {
    /// Searches that run.
    pub running: u64,
    /// Searches that wait for their turn.
    pub waiting: u64,
    /// Searches that were refused because too many waited.
    pub refused: u64,
    /// Searches that failed or were ended.
    pub failed: u64,
    /// Searches with an answer, by their time: those up to each of [`LATENCY_BOUNDS_MICROS`] and not the one before, then
    /// those above.
    pub times: [u64; LATENCY_BOUNDS_MICROS.len() + 1],
    /// The sum of these times in microseconds.
    pub micros: u64,
    /// Rows that were read.
    pub rows_scanned: u64,
    /// Hits that were answered.
    pub hits: u64,
    /// Index files that were built from the rows of their data files.
    pub files_built: u64,
    /// Index files that were merged from those of the data files that compaction merged.
    pub files_merged: u64,
}

/// The rows and bytes that a search has read so far.
#[derive(Debug, Default)]
pub(crate) struct SearchProgress {
    rows: AtomicU64,
    bytes: AtomicU64,
    current: Mutex<Option<Arc<Progress>>>,
}

impl SearchProgress {
    /// A statement begins; the one before has ended.
    pub(crate) fn begin(&self, progress: &Arc<Progress>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = current.replace(Arc::clone(progress)) {
            let reading = ended.read();
            self.rows.fetch_add(reading.rows_scanned, Ordering::Relaxed);
            self.bytes.fetch_add(reading.bytes_scanned, Ordering::Relaxed);
        }
    }

    fn read(&self) -> (u64, u64) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = current.as_ref().map(|progress| progress.read()).unwrap_or_default();
        let (rows, bytes) = (self.rows.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        (rows + reading.rows_scanned, bytes + reading.bytes_scanned)
    }
}

/// The searches of an engine.
#[derive(Debug)]
pub(crate) struct Searches {
    turns: Arc<Semaphore>,
    waiting_max: usize,
    state: Mutex<State>,
    number: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    searches: BTreeMap<Arc<str>, Entry>,
    ended: VecDeque<RunningSearch>,
    metrics: SearchMetrics,
}

#[derive(Debug)]
struct Entry {
    streams: Vec<StreamName>,
    query: String,
    begun: Instant,
    state: SearchState,
    progress: Arc<SearchProgress>,
    stop: Arc<SetOnce<()>>,
}

impl Entry {
    fn listed(&self, id: &Arc<str>) -> RunningSearch {
        let (rows_scanned, bytes_read) = self.progress.read();
        RunningSearch {
            id: Arc::clone(id),
            streams: self.streams.clone(),
            query: self.query.clone(),
            state: self.state,
            elapsed: self.begun.elapsed(),
            rows_scanned,
            bytes_read,
        }
    }
}

impl Searches {
    pub(crate) fn new(config: &HistoryConfig) -> Searches {
        Searches {
            turns: Arc::new(Semaphore::new(config.search_searches_max.clamp(1, Semaphore::MAX_PERMITS))),
            waiting_max: config.search_waiting_max,
            state: Mutex::default(),
            number: AtomicU64::new(0),
        }
    }

    /// Searches that wait or run.
    pub(crate) fn list(&self) -> Vec<RunningSearch> {
        self.lock().searches.iter().map(|(id, entry)| entry.listed(id)).collect()
    }

    /// One that waits, runs or ended lately.
    pub(crate) fn get(&self, id: &str) -> Option<RunningSearch> {
        let state = self.lock();
        let running = state.searches.get_key_value(id).map(|(id, entry)| entry.listed(id));
        running.or_else(|| state.ended.iter().rev().find(|ended| *ended.id == *id).cloned())
    }

    /// Ends one; false if there is none of that name.
    pub(crate) fn end(&self, id: &str) -> bool {
        let state = self.lock();
        let entry = state.searches.get(id);
        entry.inspect(|entry| drop(entry.stop.set(()))).is_some()
    }

    pub(crate) fn metrics(&self) -> SearchMetrics {
        let state = self.lock();
        let count = |wanted| state.searches.values().filter(|entry| entry.state == wanted).count() as u64;
        SearchMetrics {
            running: count(SearchState::Running),
            waiting: count(SearchState::Waiting),
            ..state.metrics.clone()
        }
    }

    /// Registers a search, which waits for its turn.
    pub(crate) fn register(
        self: &Arc<Searches>,
        id: Option<&str>,
        streams: &[StreamName],
        query: &str,
    ) -> Result<RegisteredSearch, SqlError> {
        let id: Arc<str> = match id {
            Some(id) => id.into(),
            None => format!("search-{}", self.number.fetch_add(1, Ordering::Relaxed)).into(),
        };
        let shown = query.floor_char_boundary(QUERY_BYTES.min(query.len()));
        let (progress, stop) = (Arc::new(SearchProgress::default()), Arc::new(SetOnce::new()));
        let mut state = self.lock();
        if state.searches.contains_key(&id) {
            let error = SqlError::new(SqlErrorKind::Conflict, format!("a search `{id}` is running"));
            return Err(error.with_hint("Choose another name, or end that one."));
        }
        let entry = Entry {
            streams: streams.to_vec(),
            query: query[..shown].to_owned(),
            begun: Instant::now(),
            state: SearchState::Waiting,
            progress: Arc::clone(&progress),
            stop: Arc::clone(&stop),
        };
        state.searches.insert(Arc::clone(&id), entry);
        drop(state);
        Ok(RegisteredSearch { searches: Arc::clone(self), id, progress, stop, end: SearchState::Cancelled })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A search while it is registered.
#[derive(Debug)]
pub(crate) struct RegisteredSearch {
    searches: Arc<Searches>,
    id: Arc<str>,
    pub(crate) progress: Arc<SearchProgress>,
    stop: Arc<SetOnce<()>>,
    end: SearchState,
}

impl RegisteredSearch {
    /// Does the work of a search in its turn, until it is ended.
    pub(crate) async fn run<T>(
        &self,
        work: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, SearchError> {
        let in_turn = async {
            let _turn = self.turn().await?;
            Ok(work.await?)
        };
        tokio::select! {
            biased;
            () = async { _ = self.stop.wait().await } => {
                let message = format!("the search `{}` was ended", self.id);
                Err(SqlError::new(SqlErrorKind::Unavailable, message).into())
            }
            result = in_turn => result,
        }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, SearchError> {
        let turns = Arc::clone(&self.searches.turns);
        let turn = match Arc::clone(&turns).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                self.check_waiting()?;
                let shut_down = |error| {
                    SqlError::new(SqlErrorKind::Unavailable, "searches are shut down").with_source(error)
                };
                turns.acquire_owned().await.map_err(shut_down)?
            }
        };
        if let Some(entry) = self.searches.lock().searches.get_mut(&self.id) {
            entry.state = SearchState::Running;
        }
        Ok(turn)
    }

    /// Refuses this search if too many others wait.
    fn check_waiting(&self) -> Result<(), SearchError> {
        let mut state = self.searches.lock();
        let is_waiting = |entry: &&Entry| entry.state == SearchState::Waiting;
        // This one is among them.
        let waiting = state.searches.values().filter(is_waiting).count() - 1;
        if waiting < self.searches.waiting_max {
            return Ok(());
        }
        state.metrics.refused += 1;
        Err(SearchError::Busy { waiting })
    }

    /// The search ended: its answer has read so many rows, and has so many hits.
    pub(crate) fn finish(&mut self, answer: Option<(u64, usize)>) {
        let Some((rows_scanned, hits)) = answer else {
            self.end = match self.stop.get() {
                Some(()) => SearchState::Cancelled,
                None => SearchState::Failed,
            };
            return;
        };
        self.end = SearchState::Done;
        let mut state = self.searches.lock();
        let begun = state.searches.get(&self.id).map(|entry| entry.begun);
        let micros = begun.map_or(0, |begun| u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        let metrics = &mut state.metrics;
        let bucket = LATENCY_BOUNDS_MICROS.iter().position(|bound| micros <= *bound);
        metrics.times[bucket.unwrap_or(LATENCY_BOUNDS_MICROS.len())] += 1;
        metrics.micros += micros;
        metrics.rows_scanned += rows_scanned;
        metrics.hits += hits as u64;
    }
}

impl Drop for RegisteredSearch {
    fn drop(&mut self) {
        let mut state = self.searches.lock();
        if self.end != SearchState::Done {
            state.metrics.failed += 1;
        }
        let Some(entry) = state.searches.remove(&self.id) else { return };
        if state.ended.len() == ENDED_MAX {
            state.ended.pop_front();
        }
        let ended = RunningSearch { state: self.end, ..entry.listed(&self.id) };
        state.ended.push_back(ended);
    }
}
