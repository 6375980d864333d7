//! The committer, a table's owner: the one task that commits to the table.
//!
//! It commits the tail by time and bytes, and between commits the results of maintenance. A commit is durable files
//! first, then one conditional put into the Delta log, whatever the table's size, then the change that callers see, in
//! one step.
//!
//! A commit records the stream's progress in the table (`txn`), so rows that are appended again are skipped. If a
//! put succeeded but its answer was lost, the owner finds the commit in the log by its id and does not repeat it.
//! New columns come with the commit that first has them. If the type of a number column grows, the table's files
//! are rewritten.
//!
//! The owner retries a failing store for as long as it takes, with growing pauses, and the table's status reports the
//! failure. In the pauses, expired files go: a full disk may get room by that. Rows read from the tail stay in the tail
//! until they are committed, so memory is bounded and nothing is lost.
//!
//! Before files are written and after the put, the store must be the expected one ([`store_id`](crate::store_id)): a
//! disk can disappear at any time, and the directory that it is mounted on accepts every write. A commit that went there
//! is repeated, with its files.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arrow_array::RecordBatch;
use arrow_schema::Field;
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload, path::Path};
use swiftwater_event::{Backoff, Millis, causes};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};
use tracing::{debug, warn};

use crate::{
    actions::{self, Add, Commit, Txn},
    encode::Encoder,
    error::{Result, StoreError},
    insert::{Insertion, together},
    io_threads::run_on_io_thread,
    layout::{Layout, evolve},
    load, maintenance,
    table::{CommitFailure, Shared},
    table_version::{self, FileEntry, TableVersions},
    tail::CommitBatch,
};

/// Pauses between attempts at a commit.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
/// Requests that wait for the owner: so many insertions at most go into one commit.
pub(crate) const REQUESTS_MAX: usize = 256;

pub(crate) type Reply = oneshot::Sender<Result<()>>;

/// A caller's request to the owner.
#[derive(Debug)]
pub(crate) enum Request {
    Widen { fields: Vec<Field>, reply: Reply },
    Insert(Insertion),
    Upkeep { reply: Reply },
}

/// The kind of a maintenance task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MaintenanceKind {
    Checkpoint,
    Compact,
    Index,
    Vacuum,
}

/// A task of upkeep.
type MaintenanceTask = futures_util::future::BoxFuture<'static, Result<MaintenanceResult>>;

/// The result of a task of maintenance.
enum MaintenanceResult {
    Compacted { inputs: Vec<Arc<FileEntry>>, adds: Vec<Add> },
    Checkpointed(u64),
    Indexed,
    Vacuumed(HashSet<Box<str>>),
}

/// The result of an attempt to commit.
pub(crate) enum Outcome {
    Committed,
    /// Another writer came first; the ledger is that writer's, and the commit must be computed again.
    Moved,
    /// The store went away meanwhile, and is back without it, and perhaps without its files.
    Lost(StoreError),
}

/// The writer of a version's commit.
enum VersionOwner {
    Ours,
    Another,
    None,
}

pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    upkeep: Option<(MaintenanceKind, JoinHandle<Result<MaintenanceResult>>)>,
    checkpointed: u64,
    vacuumed: Option<Millis>,
    /// The kinds of maintenance that pause until the next tick, after a fault.
    resting: Vec<MaintenanceKind>,
    /// The time until which the tail pauses after a fault, and the pause after the next one.
    retry: Option<Instant>,
    backoff: Backoff,
    /// Bytes of the tail that the next commit takes at most: fewer after one that could not be written.
    cut_bytes: usize,
}

/// Smallest fraction, as a divisor, to which the size of a commit is reduced.
const LESS: usize = 16;

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, requests: mpsc::Receiver<Request>) -> Committer {
        let checkpointed = shared.state().ledger.checkpointed;
        let cut_bytes = shared.options.commit_bytes;
        let (upkeep, resting) = (None, Vec::new());
        Committer {
            shared,
            requests,
            upkeep,
            checkpointed,
            vacuumed: None,
            resting,
            retry: None,
            backoff: RETRY,
            cut_bytes,
        }
    }

    /// Works until the table is closed, dropped, or has no handle any more.
    pub(crate) async fn run(mut self) {
        let result = self.serve().await;
        if let Some((_, upkeep)) = self.upkeep.take() {
            // Nothing is written any more once a table is closed.
            let _ = upkeep.await;
        }
        let closed = StoreError::Closed(self.shared.place.table.clone());
        if let Err(error) = &result
            && !matches!(error, StoreError::Closed(_))
        {
            warn!(table = %self.shared.place.table, error = causes(error), "the table's owner has ended");
        }
        self.shared.end(result.err().unwrap_or(closed));
    }

    async fn serve(&mut self) -> Result<()> {
        let mut tick = tokio::time::interval(self.shared.options.upkeep_interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let shared = Arc::clone(&self.shared);
        let mut closing = shared.closing.subscribe();
        let mut companions = shared.companions.changes();
        loop {
            if *closing.borrow_and_update() {
                return Ok(());
            }
            let due = self.commit_due();
            if due.is_some_and(|due| due <= Instant::now()) {
                self.commit_tail().await?;
                // Requests have their turn even if the next commit is due already.
                match self.requests.try_recv() {
                    Ok(request) => self.answer(request).await?,
                    Err(mpsc::error::TryRecvError::Empty) => {}
                    Err(mpsc::error::TryRecvError::Disconnected) => return Ok(()),
                }
                self.continue_upkeep().await?;
                continue;
            }
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => {
                        self.answer(request).await?;
                        self.continue_upkeep().await?;
                    }
                    None => return Ok(()),
                },
                () = shared.work.notified() => {}
                () = sleep_until(due), if due.is_some() => {}
                (kind, found) = result_of(self.upkeep.as_mut()), if self.upkeep.is_some() => {
                    self.upkeep = None;
                    self.apply_result(kind, found).await?;
                    self.continue_upkeep().await?;
                }
                _ = companions.changed() => self.continue_upkeep().await?,
                _ = closing.changed() => {}
                _ = tick.tick() => {
                    self.resting.clear();
                    self.expire().await?;
                    self.continue_upkeep().await?;
                }
            }
        }
    }

    /// The time at which the tail is to be committed next. `None` while there is nothing in it.
    fn commit_due(&self) -> Option<Instant> {
        let (state, options) = (self.shared.state(), &self.shared.options);
        let since = state.tail.since()?;
        let is_full = state.tail.bytes() >= options.commit_bytes;
        let is_wanted = state.flush_to > state.ledger.committed;
        let due = if is_full || is_wanted { Instant::now() } else { since + options.commit_interval };
        Some(self.retry.map_or(due, |retry| due.max(retry)))
    }

    /// Commits the tail, or notes why that failed and when it is tried again.
    async fn commit_tail(&mut self) -> Result<()> {
        let next = {
            let state = self.shared.state();
            state.tail.cut(self.cut_bytes).map(|cut| (cut, state.layout.clone()))
        };
        let Some((cut, layout)) = next else { return Ok(()) };
        let bytes_max = self.shared.options.commit_bytes;
        let failure = match self.write(cut.batches.clone(), &layout).await {
            Ok(adds) => match self.commit_cut(&cut, &layout, &adds).await? {
                Outcome::Lost(error) => error,
                _ => {
                    self.cut_bytes = self.cut_bytes.saturating_mul(2).min(bytes_max);
                    self.retry = None;
                    self.backoff.reset();
                    return Ok(());
                }
            },
            Err(error @ StoreError::Closed(_)) => return Err(error),
            Err(error) => {
                // A nearly full disk may have room for less, and that lets the log give some back.
                self.cut_bytes = (self.cut_bytes.min(cut.bytes) / 2).max(bytes_max / LESS);
                error
            }
        };
        self.record_failure(failure);
        self.retry = Some(Instant::now() + self.backoff.pause());
        Ok(())
    }

    /// Commits files of the tail, also if other writers commit.
    async fn commit_cut(&self, cut: &CommitBatch, layout: &Layout, adds: &[Add]) -> Result<Outcome> {
        loop {
            let ledger = Arc::clone(&self.shared.state().ledger);
            let now = self.now();
            let commit = Commit {
                operation: "STREAMING UPDATE",
                metadata: new_metadata(&ledger, layout)?,
                adds: adds.to_vec(),
                txns: vec![Txn {
                    app_id: load::app_id(&self.shared.place.table),
                    version: i64::try_from(cut.end).unwrap_or(i64::MAX),
                    last_updated: now,
                }],
                ..Commit::default()
            };
            match self.commit(&ledger, &commit, cut.batches.len()).await? {
                Outcome::Moved => {}
                outcome => return Ok(outcome),
            }
        }
    }

    /// Writes the files of one commit, off the threads that serve others. If the table is closed meanwhile, unfinished
    /// writes are not waited for.
    pub(crate) async fn write(&self, batches: Vec<RecordBatch>, layout: &Layout) -> Result<Vec<Add>> {
        let (place, layout, now) = (self.shared.place.clone(), layout.clone(), self.now());
        let doing = "writing a commit's files";
        let _turn = self.shared.writing.acquire().await.map_err(|_| StoreError::Task(doing))?;
        place.check().await?;
        let mut closing = self.shared.closing.subscribe();
        let work = async move {
            let closed = StoreError::Closed(place.table.clone());
            let mut encoder = Encoder::new(place, layout.clone(), now, true);
            let written = async {
                for batch in &batches {
                    encoder.write(&layout.conform(batch)?).await?;
                }
                encoder.finish_files().await
            };
            let written = tokio::select! {
                biased;
                // A store that does not answer is not waited for to take away what it has; vacuum sweeps that.
                _ = closing.wait_for(|closing| *closing) => return Err(closed),
                written = written => written,
            };
            match written {
                Ok(()) => encoder.finish().await,
                Err(error) => {
                    encoder.abort().await;
                    Err(error)
                }
            }
        };
        run_on_io_thread(doing, work).await
    }

    pub(crate) fn now(&self) -> Millis {
        self.shared.clock.0.now()
    }

    /// Makes a failure known.
    fn record_failure(&self, error: StoreError) {
        let now = self.now();
        let mut state = self.shared.state();
        let (since, tries) =
            state.failing.as_ref().map_or((now, 0), |failing| (failing.since, failing.tries));
        if tries == 0 {
            let error = causes(&error);
            warn!(table = %self.shared.place.table, error, "a commit failed; the server retries");
        }
        state.failing = Some(CommitFailure { error, since, tries: tries + 1 });
    }

    /// Makes a failure known, and waits before the next try. Fails if there is to be none, as the table is closed.
    async fn failed(&self, error: StoreError, backoff: &mut Backoff) -> Result<()> {
        self.record_failure(error);
        self.rest_until(Instant::now() + backoff.pause()).await
    }

    /// Fails if the table is closed meanwhile.
    async fn rest_until(&self, end: Instant) -> Result<()> {
        let mut closing = self.shared.closing.subscribe();
        tokio::select! {
            () = tokio::time::sleep_until(end) => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
        if *closing.borrow() || self.requests.is_closed() {
            return Err(StoreError::Closed(self.shared.place.table.clone()));
        }
        Ok(())
    }

    /// Adds a commit to the log as the version after the ledger's, and publishes it; `taken` batches of the tail are in
    /// it. Fails only if the table cannot go on.
    pub(crate) async fn commit(
        &self,
        ledger: &Arc<TableVersions>,
        commit: &Commit,
        taken: usize,
    ) -> Result<Outcome> {
        let (shared, version) = (&self.shared, ledger.version + 1);
        let id = uuid::Uuid::new_v4().to_string();
        let bytes = bytes::Bytes::from(commit.to_bytes(&id, self.now()));
        let path = actions::commit_path(&shared.place.root(), version);
        let mut backoff = RETRY;
        // The error for which it is not known which store took the commit. From then on it is looked up, not put again:
        // its files are where it went. From then on it is looked for, not put again: its files lie where it went.
        let mut doubt = None;
        loop {
            let failure = match self.put(&path, &bytes, &id, doubt.is_none()).await {
                Err(error) => error,
                Ok(found) => match (found, shared.place.check().await) {
                    (_, Err(error)) => doubt.insert(error).clone(),
                    (VersionOwner::Ours, Ok(())) => break,
                    (VersionOwner::None, Ok(())) => {
                        let gone = || StoreError::Task("committing");
                        return Ok(Outcome::Lost(doubt.unwrap_or_else(gone)));
                    }
                    (VersionOwner::Another, Ok(())) => match self.follow(ledger).await {
                        Ok(()) => return Ok(Outcome::Moved),
                        Err(error @ (StoreError::OtherOwner { .. } | StoreError::Protocol { .. })) => {
                            return Err(error);
                        }
                        Err(error) => error,
                    },
                },
            };
            self.failed(failure, &mut backoff).await?;
        }
        let next = Arc::new(ledger.after(version, commit)?);
        debug!(table = %shared.place.table, version, files = next.files.len(), "committed");
        {
            let mut state = shared.state();
            state.ledger = next;
            state.tail.forget(taken, Instant::now());
            // One without rows says nothing of the rows that wait.
            if taken > 0 || self.retry.is_none() {
                state.failing = None;
            }
            state.commits += 1;
            if state.layout.schema == state.ledger.layout.schema {
                // One and the same, so that batches that conform to it are seen to.
                let schema = Arc::clone(&state.layout.schema);
                Arc::make_mut(&mut state.ledger).layout.schema = schema;
            }
            shared.publish_progress(&state);
        }
        shared.space.notify_waiters();
        Ok(Outcome::Committed)
    }

    /// Writes a commit if its version does not exist, or only looks up the one that does.
    async fn put(&self, path: &Path, bytes: &bytes::Bytes, id: &str, is_put: bool) -> Result<VersionOwner> {
        let place = &self.shared.place;
        if is_put {
            let options = PutOptions::from(PutMode::Create);
            match place.store.put_opts(path, PutPayload::from(bytes.clone()), options).await {
                Ok(_) => return Ok(VersionOwner::Ours),
                Err(object_store::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(StoreError::store("committing")(error)),
            }
        }
        Ok(match place.is_commit(path, id).await? {
            Some(true) => VersionOwner::Ours,
            Some(false) => VersionOwner::Another,
            None => VersionOwner::None,
        })
    }

    /// Takes over what another writer has made of the table, who may do anything but take our stream's place.
    async fn follow(&self, ours: &TableVersions) -> Result<()> {
        self.shared.place.check().await?;
        let time_column = Some(&*ours.layout.time_column);
        let found = self.shared.place.load(None, time_column).await?;
        let mut found = found.ok_or_else(|| StoreError::NoTable(self.shared.place.table.clone()))?;
        if found.committed != ours.committed {
            let (theirs, ours) = (found.committed, ours.committed);
            return Err(StoreError::OtherOwner { table: self.shared.place.table.clone(), theirs, ours });
        }
        // The applications' insertions are unchanged: nobody else writes in their names.
        found.applications = ours.applications.clone();
        self.shared.state().ledger = Arc::new(found);
        Ok(())
    }

    /// Replies to a request, and to the insertions that wait behind it, if it is one.
    async fn answer(&mut self, request: Request) -> Result<()> {
        let mut next = Some(request);
        while let Some(request) = next.take() {
            let (reply, result) = match request {
                Request::Insert(first) => {
                    let (group, other) = together(first, &mut self.requests);
                    next = other;
                    self.insert(group).await?;
                    continue;
                }
                Request::Widen { fields, reply } => (reply, self.widen(&fields).await),
                Request::Upkeep { reply } => (reply, self.run_maintenance().await),
            };
            // The caller may be gone; the work is done nevertheless.
            let _ = reply.send(result.clone());
            result.or_else(|error| if is_fatal(&error) { Err(error) } else { Ok(()) })?;
        }
        Ok(())
    }

    /// Commits the tail, then rewrites all files with columns that grew.
    async fn widen(&mut self, fields: &[Field]) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let goal = shared.state().appended;
        while shared.state().ledger.committed < goal {
            self.commit_tail().await?;
            if let Some(retry) = self.retry {
                self.rest_until(retry).await?;
            }
        }
        loop {
            let (ledger, layout) = {
                let state = shared.state();
                (Arc::clone(&state.ledger), state.layout.clone())
            };
            let evolved = evolve(&shared.place.table, &layout.schema, fields)?;
            let partition: Vec<Box<str>> =
                layout.partition_fields().iter().map(|field| field.name().as_str().into()).collect();
            let wider =
                Layout::new(&shared.place.table, evolved.fields, &partition, Some(&layout.time_column));
            let now = self.now();
            let adds = self.rewrite(&wider, &ledger.files, now, true).await?;
            let commit = Commit {
                operation: "CHANGE COLUMN",
                metadata: new_metadata(&ledger, &wider)?,
                removes: ledger.files.iter().map(|file| file.remove(now, true)).collect(),
                adds,
                ..Commit::default()
            };
            match self.commit(&ledger, &commit, 0).await? {
                Outcome::Committed => {}
                Outcome::Moved => continue,
                Outcome::Lost(error) => return Err(error),
            }
            // Columns may have been added meanwhile.
            let mut state = shared.state();
            let evolved = evolve(&shared.place.table, &state.layout.schema, fields)?;
            let time_column = Some(&*state.layout.time_column);
            state.layout = Layout::new(&shared.place.table, evolved.fields, &partition, time_column);
            return Ok(());
        }
    }

    async fn rewrite(
        &self,
        layout: &Layout,
        files: &[Arc<FileEntry>],
        now: Millis,
        data_change: bool,
    ) -> Result<Vec<Add>> {
        let (place, layout, files) = (self.shared.place.clone(), layout.clone(), files.to_vec());
        let bytes_max = self.shared.options.compact_file_bytes;
        let work =
            async move { maintenance::rewrite(&place, &layout, &files, bytes_max, now, data_change).await };
        run_on_io_thread("rewriting files", work).await
    }

    /// Takes files out whose rows have all expired.
    async fn expire(&self) -> Result<()> {
        loop {
            let (ledger, retention) = {
                let state = self.shared.state();
                (Arc::clone(&state.ledger), state.retention)
            };
            let Some(retention) = retention else { return Ok(()) };
            let now = self.now();
            let expired = maintenance::expired(&ledger, retention, now);
            if expired.is_empty() {
                return Ok(());
            }
            let removes = expired.iter().map(|file| file.remove(now, true)).collect();
            let commit = Commit { operation: "DELETE", removes, ..Commit::default() };
            // A lost commit is tried again at the next tick.
            if !matches!(self.commit(&ledger, &commit, 0).await?, Outcome::Moved) {
                return Ok(());
            }
        }
    }

    /// Takes in what the last task of upkeep found, and begins the next.
    async fn continue_upkeep(&mut self) -> Result<()> {
        if self.upkeep.as_ref().is_some_and(|(_, task)| !task.is_finished()) {
            return Ok(());
        }
        if let Some(mut task) = self.upkeep.take() {
            let (kind, found) = result_of(Some(&mut task)).await;
            self.apply_result(kind, found).await?;
        }
        if let Some((kind, work)) = self.next_upkeep(true) {
            let permits = Arc::clone(&self.shared.upkeep);
            let place = self.shared.place.clone();
            let task = tokio::spawn(async move {
                let _permit =
                    permits.acquire_owned().await.map_err(|_| StoreError::Task("maintaining a table"))?;
                place.check().await?;
                run_on_io_thread("maintaining a table", work).await
            });
            self.upkeep = Some((kind, task));
        }
        Ok(())
    }

    async fn apply_result(&mut self, kind: MaintenanceKind, found: Result<MaintenanceResult>) -> Result<()> {
        match found {
            Ok(found) => {
                self.shared.state().upkeep_failing = None;
                self.apply(found).await
            }
            Err(error) => {
                let causes = causes(&error);
                warn!(table = %self.shared.place.table, error = causes, "maintenance of a table failed; the server retries");
                self.shared.state().upkeep_failing = Some(error);
                self.resting.push(kind);
                Ok(())
            }
        }
    }

    async fn apply(&mut self, found: MaintenanceResult) -> Result<()> {
        match found {
            MaintenanceResult::Checkpointed(version) => self.checkpointed = version,
            MaintenanceResult::Indexed => {}
            MaintenanceResult::Vacuumed(gone) => {
                self.vacuumed = Some(self.now());
                let mut state = self.shared.state();
                Arc::make_mut(&mut state.ledger).removed.retain(|(path, _)| !gone.contains(path));
            }
            MaintenanceResult::Compacted { inputs, adds } => loop {
                let ledger = Arc::clone(&self.shared.state().ledger);
                let there: HashSet<&str> = ledger.files.iter().map(|file| file.add.path.as_str()).collect();
                if !inputs.iter().all(|file| there.contains(file.add.path.as_str())) {
                    // Expired, overwritten or rewritten meanwhile: vacuum sweeps what was merged in vain.
                    break;
                }
                let now = self.now();
                let removes = inputs.iter().map(|file| file.remove(now, false)).collect();
                let adds = adds.clone();
                let commit = Commit { operation: "OPTIMIZE", removes, adds, ..Commit::default() };
                // If the commit was lost, the merged files may be, too.
                match self.commit(&ledger, &commit, 0).await? {
                    Outcome::Moved => continue,
                    Outcome::Committed => self.note_merged(&inputs, &commit.adds),
                    Outcome::Lost(_) => {}
                }
                break;
            },
        }
        Ok(())
    }

    /// Has the companions of files that were merged merged, too.
    fn note_merged(&self, inputs: &[Arc<FileEntry>], adds: &[Add]) {
        let ledger = Arc::clone(&self.shared.state().ledger);
        let entry = |add: &Add| ledger.files.iter().find(|file| file.add.path == add.path).cloned();
        let outputs: Vec<Arc<FileEntry>> = adds.iter().filter_map(entry).collect();
        if outputs.len() == adds.len() {
            self.shared.companions.note_merged(inputs, &outputs);
        }
    }

    /// The next task that is due. Only a task that runs beside commits builds companions: there may be many.
    fn next_upkeep(&self, with_index: bool) -> Option<(MaintenanceKind, MaintenanceTask)> {
        let shared = &self.shared;
        let (place, options, now) = (shared.place.clone(), Arc::clone(&shared.options), self.now());
        let (ledger, retention, is_behind) = {
            let state = shared.state();
            let is_behind = state.is_behind || state.tail.bytes() >= options.commit_bytes;
            (Arc::clone(&state.ledger), state.retention, is_behind)
        };
        let may = |kind| !self.resting.contains(&kind);
        if may(MaintenanceKind::Checkpoint)
            && ledger.version >= self.checkpointed + options.checkpoint_commits
        {
            let (version, keep_after) = (ledger.version, maintenance::before(now, options.log_retention));
            let work = async move {
                maintenance::checkpoint(&place, version, keep_after).await?;
                Ok(MaintenanceResult::Checkpointed(version))
            };
            return Some((MaintenanceKind::Checkpoint, Box::pin(work)));
        }
        let companions = Arc::clone(&shared.companions);
        let may_index = with_index && may(MaintenanceKind::Index) && !is_behind;
        // Merging index files takes little, and the file has none until then.
        if may_index && companions.is_merge_due() {
            return Some((MaintenanceKind::Index, self.index_next(&ledger, Vec::new())));
        }
        // If a commit is due already, or others wait to append, their rows come first, until there are very many files.
        let most = options.compact_files * maintenance::COMPACT_FILES_FACTOR;
        let is_worth = |inputs: &Vec<_>| !is_behind || inputs.len() >= most;
        if may(MaintenanceKind::Compact)
            && let Some(inputs) = maintenance::to_compact(&ledger, &options, retention, now).filter(is_worth)
        {
            if may_index && let Some(task) = self.index_before(&ledger, &inputs) {
                return Some((MaintenanceKind::Index, task));
            }
            // Files of a plain table are read in the order of their times, so what is merged has the time of its first part.
            let oldest = inputs.first().map(|file| file.add.modification_time);
            let time = oldest.filter(|_| !ledger.is_stream()).unwrap_or(now);
            let work = async move {
                let bytes_max = options.compact_file_bytes;
                let adds =
                    maintenance::rewrite(&place, &ledger.layout, &inputs, bytes_max, time, false).await?;
                Ok(MaintenanceResult::Compacted { inputs, adds })
            };
            return Some((MaintenanceKind::Compact, Box::pin(work)));
        }
        let pause = maintenance::before(now, (options.vacuum_retention / 4).max(options.upkeep_interval));
        if may(MaintenanceKind::Vacuum) && self.vacuumed.is_none_or(|last| last < pause) {
            let keep = options.vacuum_retention;
            let work = async move {
                Ok(MaintenanceResult::Vacuumed(
                    maintenance::vacuum(&place, &ledger, &companions, now, keep).await?,
                ))
            };
            return Some((MaintenanceKind::Vacuum, Box::pin(work)));
        }
        if may_index && companions.is_work_left(&ledger.files) {
            return Some((MaintenanceKind::Index, self.index_next(&ledger, Vec::new())));
        }
        None
    }

    /// Merges or builds one companion, of one of the `first` files before all others.
    fn index_next(&self, ledger: &Arc<TableVersions>, first: Vec<Arc<FileEntry>>) -> MaintenanceTask {
        let (companions, place) = (Arc::clone(&self.shared.companions), self.shared.place.clone());
        let ledger = Arc::clone(ledger);
        Box::pin(async move {
            companions.build_next(&place, &ledger, &first).await?;
            Ok(MaintenanceResult::Indexed)
        })
    }

    /// The companion to build before files are merged, so that all of them can be merged: if most files have one, as new files
    /// are the first to be indexed. None if too many files have none: then that of the merged file is built from its rows.
    fn index_before(
        &self,
        ledger: &Arc<TableVersions>,
        inputs: &[Arc<FileEntry>],
    ) -> Option<MaintenanceTask> {
        let missing = self.shared.companions.missing(inputs);
        let is_worth = !missing.is_empty() && missing.len() * 2 <= inputs.len();
        is_worth.then(|| self.index_next(ledger, missing))
    }

    /// Runs all maintenance that is due, now.
    async fn run_maintenance(&mut self) -> Result<()> {
        self.expire().await?;
        if let Some(mut task) = self.upkeep.take() {
            let (kind, found) = result_of(Some(&mut task)).await;
            self.apply_result(kind, found).await?;
        }
        self.resting.clear();
        let last = self.vacuumed.take();
        let result = self.finish_maintenance().await;
        self.vacuumed = self.vacuumed.or(last);
        result
    }

    /// If one task fails, the others still run; the first error is returned at the end.
    async fn finish_maintenance(&mut self) -> Result<()> {
        self.shared.place.check().await?;
        let version = self.shared.state().ledger.version;
        let mut result = Ok(());
        if version > self.checkpointed {
            let keep_after = maintenance::before(self.now(), self.shared.options.log_retention);
            match maintenance::checkpoint(&self.shared.place, version, keep_after).await {
                Ok(()) => self.checkpointed = version,
                Err(error) => {
                    self.resting.push(MaintenanceKind::Checkpoint);
                    result = Err(error);
                }
            }
        }
        while let Some((kind, work)) = self.next_upkeep(false) {
            match run_on_io_thread("maintaining a table", work).await {
                Ok(found) => self.apply(found).await?,
                Err(error) => {
                    self.resting.push(kind);
                    result = result.and(Err(error));
                }
            }
        }
        result
    }
}

/// Returns true if the table cannot continue after the error.
pub(crate) fn is_fatal(error: &StoreError) -> bool {
    matches!(error, StoreError::OtherOwner { .. } | StoreError::Protocol { .. } | StoreError::Closed(_))
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The result of a maintenance task, when it is done.
async fn result_of(
    task: Option<&mut (MaintenanceKind, JoinHandle<Result<MaintenanceResult>>)>,
) -> (MaintenanceKind, Result<MaintenanceResult>) {
    match task {
        Some((kind, task)) => (*kind, task.await.unwrap_or(Err(StoreError::Task("maintaining a table")))),
        None => std::future::pending().await,
    }
}

/// The metadata that a commit must bring along for its rows, if the table's do not suffice.
fn new_metadata(ledger: &TableVersions, layout: &Layout) -> Result<Option<actions::MetaData>> {
    if ledger.layout.schema == layout.schema {
        return Ok(None);
    }
    let partition: Vec<Box<str>> =
        layout.partition_fields().iter().map(|field| field.name().as_str().into()).collect();
    let old = &ledger.metadata;
    let configuration = old.configuration.clone().into_iter().collect();
    let created = old.created_time.unwrap_or(0);
    table_version::metadata(&layout.table, old.id.clone(), &layout.schema, &partition, configuration, created)
        .map(Some)
}
