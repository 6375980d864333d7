//! The owner of a table: the one task that commits to it.
//!
//! It commits the tail by time and bytes, and between commits what upkeep has found. A commit is durable files first,
//! then one conditional put into the Delta log, then the change of what callers see, in one step. A failing store is
//! tried again for as long as it takes, with growing pauses; what was read from the tail stays there until then, so
//! memory is bounded and nothing is lost. If a put succeeded but its answer was lost, the commit is found in the log by
//! its id and not made twice.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arrow_schema::Field;
use object_store::{PutMode, PutOptions, PutPayload};
use swiftwater_event::Millis;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};
use tracing::{debug, warn};

use crate::{
    actions::{self, Add, Commit, Txn},
    apart::apart,
    encode::Encoder,
    error::{Result, StoreError, causes},
    layout::{Layout, evolve},
    ledger::{self, FileEntry, Ledger},
    load,
    table::{Application, Failing, Shared},
    tail::Cut,
    upkeep,
};

/// The pause after a first failure; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Requests that wait for the owner.
pub(crate) const REQUESTS_MAX: usize = 16;

type Reply = oneshot::Sender<Result<()>>;

/// What callers ask of the owner.
#[derive(Debug)]
pub(crate) enum Request {
    Widen { fields: Vec<Field>, reply: Reply },
    Insert { adds: Vec<Add>, overwrite: bool, once: Option<Application>, reply: Reply },
    Upkeep { reply: Reply },
}

/// What a task of upkeep found.
enum Upkept {
    Compacted { inputs: Vec<Arc<FileEntry>>, adds: Vec<Add> },
    Checkpointed(u64),
    Vacuumed(HashSet<Box<str>>),
}

/// Whether a commit took place.
#[derive(PartialEq)]
enum Outcome {
    Committed,
    /// Another writer came first; the ledger is that writer's, and the commit must be made anew.
    Moved,
}

pub(crate) struct Owner {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    upkeep: Option<JoinHandle<Result<Upkept>>>,
    checkpointed: u64,
    vacuumed: Option<Millis>,
    /// After a fault upkeep rests until the next tick.
    rests: bool,
    /// Bytes of the tail that the next commit takes at most: fewer after one that could not be written.
    cut_bytes: usize,
}

/// What a commit takes is lowered to this part at least.
const LESS: usize = 16;

impl Owner {
    pub(crate) fn new(shared: Arc<Shared>, requests: mpsc::Receiver<Request>) -> Owner {
        let checkpointed = shared.state().ledger.checkpointed;
        let cut_bytes = shared.options.commit_bytes;
        Owner { shared, requests, upkeep: None, checkpointed, vacuumed: None, rests: false, cut_bytes }
    }

    /// Works until the table is closed, dropped, or has no handle any more.
    pub(crate) async fn run(mut self) {
        let result = self.serve().await;
        if let Some(upkeep) = self.upkeep.take() {
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
                    Some(request) => self.answer(request).await?,
                    None => return Ok(()),
                },
                () = shared.work.notified() => {}
                () = sleep_until(due), if due.is_some() => {}
                found = result_of(self.upkeep.as_mut()), if self.upkeep.is_some() => {
                    self.upkeep = None;
                    self.take_in(found).await?;
                    self.continue_upkeep().await?;
                }
                _ = closing.changed() => {}
                _ = tick.tick() => {
                    self.rests = false;
                    self.expire().await?;
                    self.continue_upkeep().await?;
                }
            }
        }
    }

    /// When the tail is to be committed next. `None` while there is nothing in it.
    fn commit_due(&self) -> Option<Instant> {
        let (state, options) = (self.shared.state(), &self.shared.options);
        let since = state.tail.since()?;
        let is_full = state.tail.bytes() >= options.commit_bytes;
        let is_wanted = state.flush_to > state.ledger.committed;
        Some(if is_full || is_wanted { Instant::now() } else { since + options.commit_interval })
    }

    async fn commit_tail(&mut self) -> Result<()> {
        let bytes_max = self.shared.options.commit_bytes;
        let mut pause = PAUSE_MIN;
        let (cut, layout, adds) = loop {
            let next = {
                let state = self.shared.state();
                state.tail.cut(self.cut_bytes).map(|cut| (cut, state.layout.clone()))
            };
            let Some((cut, layout)) = next else { return Ok(()) };
            match self.write(&cut, &layout).await {
                Ok(adds) => break (cut, layout, adds),
                Err(error) => {
                    // A nearly full disk may have room for less, and that lets the log give some back.
                    self.cut_bytes = (self.cut_bytes.min(cut.bytes) / 2).max(bytes_max / LESS);
                    self.failed(error, &mut pause).await?;
                }
            }
        };
        self.cut_bytes = self.cut_bytes.saturating_mul(2).min(bytes_max);
        let count = cut.batches.len();
        loop {
            let ledger = Arc::clone(&self.shared.state().ledger);
            let now = self.now();
            let commit = Commit {
                operation: "STREAMING UPDATE",
                metadata: new_metadata(&ledger, &layout)?,
                adds: adds.clone(),
                txn: Some(Txn {
                    app_id: load::app_id(&self.shared.place.table),
                    version: i64::try_from(cut.end).unwrap_or(i64::MAX),
                    last_updated: now,
                }),
                ..Commit::default()
            };
            if self.commit(&ledger, &commit, count).await? == Outcome::Committed {
                return Ok(());
            }
        }
    }

    /// Writes the files of one commit, off the threads that serve others.
    async fn write(&self, cut: &Cut, layout: &Layout) -> Result<Vec<Add>> {
        let (place, layout, now) = (self.shared.place.clone(), layout.clone(), self.now());
        let batches = cut.batches.clone();
        let doing = "writing a commit's files";
        let _turn = self.shared.writing.acquire().await.map_err(|_| StoreError::Task(doing))?;
        let work = async move {
            let mut encoder = Encoder::new(place, layout.clone(), now, true);
            for batch in &batches {
                let written = match layout.conform(batch) {
                    Ok(batch) => encoder.write(&batch).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = written {
                    encoder.abort().await;
                    return Err(error);
                }
            }
            encoder.finish().await
        };
        apart(doing, work).await
    }

    fn now(&self) -> Millis {
        self.shared.clock.0.now()
    }

    /// Makes a failure known, and waits before the next try. Fails if there is to be none, as the table is closed.
    async fn failed(&self, error: StoreError, pause: &mut Duration) -> Result<()> {
        let since = self.now();
        {
            let mut state = self.shared.state();
            let tries = state.failing.as_ref().map_or(0, |failing| failing.tries);
            let since = state.failing.as_ref().map_or(since, |failing| failing.since);
            if tries == 0 {
                let error = causes(&error);
                warn!(table = %self.shared.place.table, error, "a commit failed and is tried again");
            }
            state.failing = Some(Failing { error, since, tries: tries + 1 });
        }
        let mut closing = self.shared.closing.subscribe();
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
        if *closing.borrow() || self.requests.is_closed() {
            return Err(StoreError::Closed(self.shared.place.table.clone()));
        }
        *pause = (*pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Puts a commit into the log as the version after the ledger's, and makes it what callers see; `taken` batches of the
    /// tail are in it. Fails only if the table cannot go on.
    async fn commit(&self, ledger: &Arc<Ledger>, commit: &Commit, taken: usize) -> Result<Outcome> {
        let (shared, version) = (&self.shared, ledger.version + 1);
        let id = uuid::Uuid::new_v4().to_string();
        let bytes = bytes::Bytes::from(commit.to_bytes(&id, self.now()));
        let path = actions::commit_path(&shared.place.root(), version);
        let mut pause = PAUSE_MIN;
        loop {
            let options = PutOptions::from(PutMode::Create);
            match shared.place.store.put_opts(&path, PutPayload::from(bytes.clone()), options).await {
                Ok(_) => break,
                Err(object_store::Error::AlreadyExists { .. }) => {
                    match shared.place.is_commit(&path, &id).await {
                        Ok(true) => break,
                        Ok(false) => match self.follow(ledger).await {
                            Ok(()) => return Ok(Outcome::Moved),
                            Err(error @ (StoreError::OtherOwner { .. } | StoreError::Protocol { .. })) => {
                                return Err(error);
                            }
                            Err(error) => self.failed(error, &mut pause).await?,
                        },
                        Err(error) => self.failed(error, &mut pause).await?,
                    }
                }
                Err(error) => self.failed(StoreError::store("committing")(error), &mut pause).await?,
            }
        }
        let next = Arc::new(ledger.after(version, commit)?);
        debug!(table = %shared.place.table, version, files = next.files.len(), "committed");
        {
            let mut state = shared.state();
            state.ledger = next;
            state.tail.forget(taken, Instant::now());
            state.failing = None;
            state.commits += 1;
            if state.layout.schema == state.ledger.layout.schema {
                // One and the same, so that batches that conform to it are seen to.
                let schema = Arc::clone(&state.layout.schema);
                Arc::make_mut(&mut state.ledger).layout.schema = schema;
            }
            shared.tell(&state);
        }
        shared.space.notify_waiters();
        Ok(Outcome::Committed)
    }

    /// Takes over what another writer has made of the table, who may do anything but take our stream's place.
    async fn follow(&self, ours: &Ledger) -> Result<()> {
        let time_column = Some(&*ours.layout.time_column);
        let found = self.shared.place.load(None, time_column).await?;
        let mut found = found.ok_or_else(|| StoreError::NoTable(self.shared.place.table.clone()))?;
        if found.committed != ours.committed {
            let (theirs, ours) = (found.committed, ours.committed);
            return Err(StoreError::OtherOwner { table: self.shared.place.table.clone(), theirs, ours });
        }
        // What applications have inserted stays so; nobody else writes in their names.
        found.applications = ours.applications.clone();
        self.shared.state().ledger = Arc::new(found);
        Ok(())
    }

    async fn answer(&mut self, request: Request) -> Result<()> {
        match request {
            Request::Insert { adds, overwrite, once, reply } => {
                let result = self.insert(adds, overwrite, once.as_ref()).await;
                // Whoever asked may be gone; it is done nevertheless.
                let _ = reply.send(result.clone());
                result
            }
            Request::Widen { fields, reply } => {
                let result = self.widen(&fields).await;
                let _ = reply.send(result.clone());
                result.or_else(|error| if is_fatal(&error) { Err(error) } else { Ok(()) })
            }
            Request::Upkeep { reply } => {
                let result = self.keep_up().await;
                let _ = reply.send(result.clone());
                result.or_else(|error| if is_fatal(&error) { Err(error) } else { Ok(()) })
            }
        }
    }

    async fn insert(&self, adds: Vec<Add>, overwrite: bool, once: Option<&Application>) -> Result<()> {
        loop {
            let ledger = Arc::clone(&self.shared.state().ledger);
            if let Some(Application { id, version }) = once
                && ledger.applications.get(id).is_some_and(|inserted| inserted >= version)
            {
                // Whoever asked went away while it was done; these files are no part of any version.
                return Ok(());
            }
            let now = self.now();
            let removes = if overwrite {
                ledger.files.iter().map(|file| file.remove(now, true)).collect()
            } else {
                Vec::new()
            };
            let txn = once.map(|once| Txn::of(once, now));
            let commit = Commit { operation: "WRITE", removes, adds: adds.clone(), txn, ..Commit::default() };
            if self.commit(&ledger, &commit, 0).await? == Outcome::Committed {
                return Ok(());
            }
        }
    }

    /// Commits the tail, then rewrites all files with columns that grew.
    async fn widen(&mut self, fields: &[Field]) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let goal = shared.state().appended;
        while shared.state().ledger.committed < goal {
            self.commit_tail().await?;
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
            if self.commit(&ledger, &commit, 0).await? == Outcome::Committed {
                // Columns may have been added meanwhile.
                let mut state = shared.state();
                let evolved = evolve(&shared.place.table, &state.layout.schema, fields)?;
                let time_column = Some(&*state.layout.time_column);
                state.layout = Layout::new(&shared.place.table, evolved.fields, &partition, time_column);
                return Ok(());
            }
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
        let work = async move { upkeep::rewrite(&place, &layout, &files, bytes_max, now, data_change).await };
        apart("rewriting files", work).await
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
            let expired = upkeep::expired(&ledger, retention, now);
            if expired.is_empty() {
                return Ok(());
            }
            let removes = expired.iter().map(|file| file.remove(now, true)).collect();
            let commit = Commit { operation: "DELETE", removes, ..Commit::default() };
            if self.commit(&ledger, &commit, 0).await? == Outcome::Committed {
                return Ok(());
            }
        }
    }

    /// Takes in what the last task of upkeep found, and begins the next.
    async fn continue_upkeep(&mut self) -> Result<()> {
        if self.upkeep.as_ref().is_some_and(|task| !task.is_finished()) {
            return Ok(());
        }
        if let Some(mut task) = self.upkeep.take() {
            let found = result_of(Some(&mut task)).await;
            self.take_in(found).await?;
        }
        if !self.rests
            && let Some(work) = self.next_upkeep()
        {
            let permits = Arc::clone(&self.shared.upkeep);
            self.upkeep = Some(tokio::spawn(async move {
                let _permit =
                    permits.acquire_owned().await.map_err(|_| StoreError::Task("keeping up a table"))?;
                apart("keeping up a table", work).await
            }));
        }
        Ok(())
    }

    async fn take_in(&mut self, found: Result<Upkept>) -> Result<()> {
        match found {
            Ok(found) => {
                self.shared.state().upkeep_failing = None;
                self.apply(found).await
            }
            Err(error) => {
                let causes = causes(&error);
                warn!(table = %self.shared.place.table, error = causes, "upkeep of a table failed and is tried again");
                self.shared.state().upkeep_failing = Some(error);
                self.rests = true;
                Ok(())
            }
        }
    }

    async fn apply(&mut self, found: Upkept) -> Result<()> {
        match found {
            Upkept::Checkpointed(version) => self.checkpointed = version,
            Upkept::Vacuumed(gone) => {
                self.vacuumed = Some(self.now());
                let mut state = self.shared.state();
                Arc::make_mut(&mut state.ledger).removed.retain(|(path, _)| !gone.contains(path));
            }
            Upkept::Compacted { inputs, adds } => loop {
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
                if self.commit(&ledger, &commit, 0).await? == Outcome::Committed {
                    break;
                }
            },
        }
        Ok(())
    }

    fn next_upkeep(&self) -> Option<futures_util::future::BoxFuture<'static, Result<Upkept>>> {
        let shared = &self.shared;
        let (place, options, now) = (shared.place.clone(), Arc::clone(&shared.options), self.now());
        let (ledger, retention, is_behind) = {
            let state = shared.state();
            let is_behind = state.is_behind || state.tail.bytes() >= options.commit_bytes;
            (Arc::clone(&state.ledger), state.retention, is_behind)
        };
        if ledger.version >= self.checkpointed + options.checkpoint_commits {
            let (version, keep_after) = (ledger.version, upkeep::before(now, options.log_retention));
            return Some(Box::pin(async move {
                upkeep::checkpoint(&place, version, keep_after).await?;
                Ok(Upkept::Checkpointed(version))
            }));
        }
        // Where a commit is due already, or others wait to be appended, rows have the machine, until there are very many files.
        let most = options.compact_files * upkeep::COMPACT_FILES_FACTOR;
        let is_worth = |inputs: &Vec<_>| !is_behind || inputs.len() >= most;
        if let Some(inputs) = upkeep::to_compact(&ledger, &options, retention, now).filter(is_worth) {
            return Some(Box::pin(async move {
                let bytes_max = options.compact_file_bytes;
                let adds = upkeep::rewrite(&place, &ledger.layout, &inputs, bytes_max, now, false).await?;
                Ok(Upkept::Compacted { inputs, adds })
            }));
        }
        let pause = upkeep::before(now, (options.vacuum_retention / 4).max(options.upkeep_interval));
        if self.vacuumed.is_none_or(|last| last < pause) {
            let keep = options.vacuum_retention;
            return Some(Box::pin(async move {
                Ok(Upkept::Vacuumed(upkeep::vacuum(&place, &ledger, now, keep).await?))
            }));
        }
        None
    }

    /// All upkeep that there is to do, now.
    async fn keep_up(&mut self) -> Result<()> {
        self.expire().await?;
        if let Some(mut task) = self.upkeep.take() {
            let found = result_of(Some(&mut task)).await;
            self.take_in(found).await?;
        }
        let last = self.vacuumed.take();
        let result = self.keep_up_to_end().await;
        self.vacuumed = self.vacuumed.or(last);
        result
    }

    async fn keep_up_to_end(&mut self) -> Result<()> {
        let mut was_checkpointed = false;
        loop {
            let version = self.shared.state().ledger.version;
            if !was_checkpointed && version > self.checkpointed {
                let keep_after = upkeep::before(self.now(), self.shared.options.log_retention);
                upkeep::checkpoint(&self.shared.place, version, keep_after).await?;
                self.checkpointed = version;
                was_checkpointed = true;
            }
            let Some(work) = self.next_upkeep() else { return Ok(()) };
            let found = apart("keeping up a table", work).await?;
            self.apply(found).await?;
        }
    }
}

/// Whether the table cannot go on after it.
fn is_fatal(error: &StoreError) -> bool {
    matches!(error, StoreError::OtherOwner { .. } | StoreError::Protocol { .. } | StoreError::Closed(_))
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// What a task of upkeep found, when it is done.
async fn result_of(task: Option<&mut JoinHandle<Result<Upkept>>>) -> Result<Upkept> {
    match task {
        Some(task) => task.await.unwrap_or(Err(StoreError::Task("keeping up a table"))),
        None => std::future::pending().await,
    }
}

/// The metadata that a commit must bring along for its rows, if the table's do not suffice.
fn new_metadata(ledger: &Ledger, layout: &Layout) -> Result<Option<actions::MetaData>> {
    if ledger.layout.schema == layout.schema {
        return Ok(None);
    }
    let partition: Vec<Box<str>> =
        layout.partition_fields().iter().map(|field| field.name().as_str().into()).collect();
    let old = &ledger.metadata;
    let configuration = old.configuration.clone().into_iter().collect();
    let created = old.created_time.unwrap_or(0);
    ledger::metadata(&layout.table, old.id.clone(), &layout.schema, &partition, configuration, created)
        .map(Some)
}
