//! One table: appended rows wait in memory, where SQL reads them, until the table's owner commits them.
//!
//! Any number of callers append and read; only one task of the table, its owner, commits ([`crate::committer`]). Their
//! shared state is here, behind one lock that is never held across a wait. The files of a version and the rows not yet in it
//! are therefore always read together.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arrow_array::{RecordBatch, temporal_conversions::timestamp_ms_to_datetime};
use arrow_schema::{Field, SchemaRef};
use datafusion_catalog::TableProvider;
use datafusion_execution::object_store::ObjectStoreUrl;
use futures_util::Stream;
use object_store::ObjectStoreExt;
use swiftwater_event::{Clock, Millis, Offset};
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot, watch},
    time::Instant,
};

use crate::{
    actions,
    committer::Request,
    companions::Companions,
    error::{Result, StoreError},
    insert::{InsertedRows, Insertion},
    layout::{Layout, evolve},
    load::TableLocation,
    options::StoreOptions,
    provider::Snapshot,
    spec::TableSpec,
    table_version::TableVersions,
    tail::PendingBatches,
};

/// Old versions whose list of files is kept in memory, per table.
const OLD_VERSIONS_MAX: usize = 4;

/// Rows of a stream, in the order of their offsets.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The offset of the first row.
    pub first: Offset,
    /// Columns by name: `_offset` (LONG, ascending), `_time` (TIMESTAMP), declared columns, `_event`. Columns that can be
    /// null may be left out; other types are converted.
    pub batch: RecordBatch,
}

/// The version of a table to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// This version of the Delta table.
    Version(i64),
    /// The version that was the newest at this time.
    Timestamp(Millis),
}

/// An application in whose name rows are inserted once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Name of the application, unique among all.
    pub id: Box<str>,
    /// Number of the insertion.
    pub version: u64,
    /// The first of the insertions that are made as one with this: mostly this one itself.
    pub first: u64,
}

impl Application {
    /// One insertion of an application.
    pub fn one(id: impl Into<Box<str>>, version: u64) -> Application {
        Application { id: id.into(), version, first: version }
    }

    /// Returns true if the insertion is among the application's insertions up to `inserted`; an error if only a part of
    /// it is.
    pub(crate) fn is_done(&self, table: &str, inserted: Option<u64>) -> Result<bool> {
        match inserted {
            Some(inserted) if inserted >= self.version => Ok(true),
            Some(inserted) if inserted >= self.first => Err(StoreError::PartlyInserted {
                table: table.into(),
                first: self.first,
                last: self.version,
                inserted,
            }),
            _ => Ok(false),
        }
    }
}

/// The offsets that a table has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The offset after the last row that was appended.
    pub appended: Offset,
    /// The offset after the last row that is durable in the Delta table.
    pub committed: Offset,
}

/// Status of a table.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its offsets.
    pub progress: Progress,
    /// The newest version.
    pub version: u64,
    /// Files of that version.
    pub files: usize,
    /// Their bytes.
    pub file_bytes: u64,
    /// Rows in them, where known.
    pub rows: u64,
    /// Rows that wait for their commit.
    pub tail_rows: usize,
    /// Bytes of memory that they take.
    pub tail_bytes: usize,
    /// Commits so far, since the table was opened.
    pub commits: u64,
    /// The failure of the next commit, which is tried again until it succeeds.
    pub failing: Option<CommitFailure>,
    /// The last fault of compaction, checkpoints or vacuum, until one succeeds.
    pub upkeep_failing: Option<StoreError>,
}

/// A commit that does not succeed.
#[derive(Debug, Clone)]
pub struct CommitFailure {
    /// The last error.
    pub error: StoreError,
    /// Time of its beginning.
    pub since: Millis,
    /// Number of attempts.
    pub tries: u64,
}

/// The state that changes under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ledger: Arc<TableVersions>,
    /// The next schema: the ledger's layout, or one with columns that the next commit adds.
    pub(crate) layout: Layout,
    pub(crate) retention: Option<Duration>,
    pub(crate) tail: PendingBatches,
    /// Offset after the last appended row.
    pub(crate) appended: u64,
    /// The offset up to which callers wait for a commit.
    pub(crate) flush_to: u64,
    /// Rows wait to be appended, by [`Table::set_behind`].
    pub(crate) is_behind: bool,
    pub(crate) failing: Option<CommitFailure>,
    pub(crate) upkeep_failing: Option<StoreError>,
    /// The reason why nothing can be appended any more.
    pub(crate) ended: Option<StoreError>,
    pub(crate) commits: u64,
    old: VecDeque<Arc<TableVersions>>,
}

/// State that callers and the owner share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) place: TableLocation,
    pub(crate) url: ObjectStoreUrl,
    pub(crate) options: Arc<StoreOptions>,
    pub(crate) clock: ClockRef,
    pub(crate) state: Mutex<State>,
    pub(crate) progress: watch::Sender<Progress>,
    /// Told whenever the tail became shorter, or the table ended.
    pub(crate) space: Notify,
    /// Told whenever the owner should look at the tail.
    pub(crate) work: Notify,
    /// True once the table is to end.
    pub(crate) closing: watch::Sender<bool>,
    /// The maintenance tasks that may run at a time in the whole store.
    pub(crate) upkeep: Arc<Semaphore>,
    /// The commits whose files may be written at a time in the whole store.
    pub(crate) writing: Arc<Semaphore>,
    pub(crate) companions: Arc<Companions>,
}

/// A clock that can be shown.
#[derive(Clone)]
pub(crate) struct ClockRef(pub(crate) Arc<dyn Clock>);

impl std::fmt::Debug for ClockRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Shared {
    pub(crate) fn new(
        place: TableLocation,
        url: ObjectStoreUrl,
        options: Arc<StoreOptions>,
        clock: ClockRef,
        (upkeep, writing): (Arc<Semaphore>, Arc<Semaphore>),
        ledger: TableVersions,
        retention: Option<Duration>,
    ) -> Shared {
        let committed = ledger.committed;
        let offset = Offset(committed);
        let state = State {
            layout: ledger.layout.clone(),
            ledger: Arc::new(ledger),
            retention,
            tail: PendingBatches::default(),
            appended: committed,
            flush_to: 0,
            is_behind: false,
            failing: None,
            upkeep_failing: None,
            ended: None,
            commits: 0,
            old: VecDeque::new(),
        };
        Shared {
            place,
            url,
            options,
            clock,
            state: Mutex::new(state),
            progress: watch::Sender::new(Progress { appended: offset, committed: offset }),
            space: Notify::new(),
            work: Notify::new(),
            closing: watch::Sender::new(false),
            upkeep,
            writing,
            companions: Arc::default(),
        }
    }

    /// The state. A panic while it was held leaves it whole, as nothing in there is half done at any call.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the progress of the table to those who wait for it.
    pub(crate) fn publish_progress(&self, state: &State) {
        let progress =
            Progress { appended: Offset(state.appended), committed: Offset(state.ledger.committed) };
        self.progress.send_if_modified(|old| std::mem::replace(old, progress) != progress);
    }

    /// Ends the table: nothing is appended any more.
    pub(crate) fn end(&self, why: StoreError) {
        let mut state = self.state();
        state.ended.get_or_insert(why);
        drop(state);
        self.closing.send_replace(true);
        self.space.notify_waiters();
        // Wakes those who wait for progress, to find that there will be none.
        self.progress.send_modify(|_| ());
    }
}

/// An open table. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Table {
    pub(crate) shared: Arc<Shared>,
    pub(crate) requests: mpsc::Sender<Request>,
}

impl Table {
    /// The table's name.
    pub fn name(&self) -> &str {
        &self.shared.place.table
    }

    /// Returns true if it is a stream's table, false if it is a plain one.
    pub(crate) fn is_stream(&self) -> bool {
        self.shared.state().ledger.is_stream()
    }

    /// Its columns, those included that the next commit adds.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shared.state().layout.schema)
    }

    /// The offset after the last row that was appended.
    pub fn appended(&self) -> Offset {
        Offset(self.shared.state().appended)
    }

    /// The offset after the last row that is durable in the Delta table: what is before it need never be appended again.
    pub fn committed(&self) -> Offset {
        Offset(self.shared.state().ledger.committed)
    }

    /// Follows how far the table is.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress.subscribe()
    }

    /// Returns true if the next commit is being tried again after a failure of the store.
    pub fn is_failing(&self) -> bool {
        self.shared.state().failing.is_some()
    }

    /// Status of the table.
    pub fn status(&self) -> Status {
        let state = self.shared.state();
        Status {
            progress: Progress {
                appended: Offset(state.appended),
                committed: Offset(state.ledger.committed),
            },
            version: state.ledger.version,
            files: state.ledger.files.len(),
            file_bytes: state.ledger.files.iter().map(|file| file.add.size).sum(),
            rows: state.ledger.files.iter().filter_map(|file| file.rows).sum(),
            tail_rows: state.tail.rows(),
            tail_bytes: state.tail.bytes(),
            commits: state.commits,
            failing: state.failing.clone(),
            upkeep_failing: state.upkeep_failing.clone(),
        }
    }

    /// Adds rows after those that are there. SQL sees them when this returns; they are durable when [`Table::committed`]
    /// has passed them. Rows that were appended before (by their offsets) are passed over, so after a crash the stream is
    /// appended again from [`Table::committed`] on, or from anywhere before it. Waits while the tail is full.
    ///
    /// One caller at a time: two would race for the order of their rows.
    pub async fn append(&self, rows: Rows) -> Result<()> {
        let layout = self.shared.state().layout.clone();
        let mut batch = layout.conform(&rows.batch)?;
        let Some((first, last)) = layout.offsets(&batch) else {
            return if batch.num_rows() == 0 { Ok(()) } else { Err(self.fault("it has no offsets")) };
        };
        let count = batch.num_rows() as u64;
        if first != rows.first.0 || last < first || last - first < count - 1 {
            return Err(self.fault("their offsets do not ascend from the first"));
        }
        let appended = self.shared.state().appended;
        if last < appended {
            return Ok(());
        }
        if first < appended {
            let offsets = batch.column_by_name(crate::spec::OFFSET_COLUMN);
            let offsets = offsets.and_then(|column| {
                arrow_array::cast::AsArray::as_primitive_opt::<arrow_array::types::Int64Type>(column)
            });
            let known = offsets
                .map_or(0, |offsets| offsets.values().partition_point(|offset| (*offset as u64) < appended));
            batch = batch.slice(known, batch.num_rows() - known);
        }
        self.push(batch, last + 1).await
    }

    /// Sets if many rows wait to be appended. While they do they have the machine: files are merged when there are very
    /// many, not as soon as that pays.
    pub fn set_behind(&self, is_behind: bool) {
        self.shared.state().is_behind = is_behind;
    }

    /// Skips to an offset: what is before it and was not appended counts as such, as its rows were lost. The commit that
    /// records this has no rows of them. One caller at a time, as of [`Table::append`].
    pub async fn skip_to(&self, end: Offset) -> Result<()> {
        let none = {
            let state = self.shared.state();
            if end.0 <= state.appended {
                return Ok(());
            }
            RecordBatch::new_empty(Arc::clone(&state.layout.schema))
        };
        self.push(none, end.0).await
    }

    /// Checks that its newest version is still in the store, which may have lost it while it was open.
    pub async fn check_there(&self) -> Result<()> {
        let shared = &self.shared;
        loop {
            let (version, is_checkpointed) = {
                let ledger = &shared.state().ledger;
                (ledger.version, ledger.checkpointed >= ledger.version)
            };
            let newest = actions::commit_path(&shared.place.root(), version);
            match shared.place.store.head(&newest).await {
                Ok(_) => return Ok(()),
                Err(object_store::Error::NotFound { .. }) => {
                    shared.place.check().await?;
                    // Commits that a checkpoint stands for go in the end.
                    let is_there = is_checkpointed && shared.place.exists().await?;
                    if is_there || shared.state().ledger.version != version {
                        if is_there {
                            return Ok(());
                        }
                        continue;
                    }
                    return Err(StoreError::Missing(self.name().into()));
                }
                Err(error) => return Err(StoreError::store("looking up a table")(error)),
            }
        }
    }

    fn fault(&self, why: &str) -> StoreError {
        StoreError::Rows { table: self.name().into(), why: why.into() }
    }

    async fn push(&self, batch: RecordBatch, end: u64) -> Result<()> {
        let (shared, mut batch) = (&self.shared, Some(batch));
        loop {
            // Asked for before the look, so that no notice is missed in between.
            let space = shared.space.notified();
            tokio::pin!(space);
            space.as_mut().enable();
            {
                let mut state = shared.state();
                if let Some(error) = &state.ended {
                    return Err(error.clone());
                }
                if (state.tail.rows() == 0 || state.tail.bytes() < shared.options.tail_bytes_max)
                    && let Some(batch) = batch.take()
                {
                    let was_empty = state.tail.rows() == 0;
                    state.tail.push(batch, end, Instant::now());
                    state.appended = end;
                    shared.publish_progress(&state);
                    if was_empty || state.tail.bytes() >= shared.options.commit_bytes {
                        shared.work.notify_one();
                    }
                    return Ok(());
                }
            }
            space.await;
        }
    }

    /// Returns when all that was appended before is committed.
    pub async fn flush(&self) -> Result<()> {
        let goal = {
            let mut state = self.shared.state();
            state.flush_to = state.flush_to.max(state.appended);
            state.appended
        };
        self.shared.work.notify_one();
        let mut progress = self.shared.progress.subscribe();
        loop {
            {
                let state = self.shared.state();
                if state.ledger.committed >= goal {
                    return Ok(());
                }
                if let Some(error) = &state.ended {
                    return Err(error.clone());
                }
            }
            if progress.changed().await.is_err() {
                return Err(StoreError::Closed(self.name().into()));
            }
        }
    }

    /// The table for SQL, as it is now or was: files and rows that wait for their commit, each row once. Old versions
    /// have no waiting rows.
    pub async fn provider(&self, at: Option<At>) -> Result<Arc<dyn TableProvider>> {
        self.provider_with_fields(at, &|_| None).await
    }

    /// Does the same as [`Table::provider`], with fields of the same names and types that have metadata; `describe` returns
    /// none for a field without changes.
    pub async fn provider_with_fields(
        &self,
        at: Option<At>,
        describe: &(dyn Fn(&Field) -> Option<Field> + Sync),
    ) -> Result<Arc<dyn TableProvider>> {
        let shared = &self.shared;
        let version = match at {
            None => None,
            Some(At::Version(version)) => Some(u64::try_from(version).map_err(|_| self.no_version(version))?),
            Some(At::Timestamp(time)) => {
                let version = shared.place.version_at(time).await?;
                Some(version.ok_or_else(|| self.no_version(format!("at {}", date(time))))?)
            }
        };
        if let Some(version) = version {
            let ledger = self.ledger_at(version).await?;
            return Ok(Arc::new(Snapshot {
                place: shared.place.clone(),
                url: shared.url.clone(),
                layout: ledger.layout.with_fields(describe),
                files: ledger.files.clone(),
                tail: Vec::new(),
                companions: Arc::clone(&shared.companions),
                format: shared.companions.format(),
            }));
        }
        let (layout, ledger, tail) = {
            let state = shared.state();
            let tail: Vec<RecordBatch> = state.tail.batches().cloned().collect();
            (state.layout.clone(), Arc::clone(&state.ledger), tail)
        };
        let files_layout = layout.clone();
        let layout = layout.with_fields(describe);
        // Waiting rows and files may be of an older layout than the table has by now.
        let tail = tail.iter().map(|batch| layout.conform(batch)).collect::<Result<Vec<_>>>()?;
        let files = if Arc::ptr_eq(&files_layout.schema, &ledger.layout.schema)
            || files_layout.schema == ledger.layout.schema
        {
            ledger.files.clone()
        } else {
            ledger.files_in(&files_layout)
        };
        let (place, url) = (shared.place.clone(), shared.url.clone());
        let (companions, format) = (Arc::clone(&shared.companions), shared.companions.format());
        Ok(Arc::new(Snapshot { place, url, layout, files, tail, companions, format }))
    }

    fn no_version(&self, version: impl ToString) -> StoreError {
        StoreError::NoVersion { table: self.name().into(), version: version.to_string().into() }
    }

    async fn ledger_at(&self, version: u64) -> Result<Arc<TableVersions>> {
        let time_column = {
            let state = self.shared.state();
            if state.ledger.version == version {
                return Ok(Arc::clone(&state.ledger));
            }
            if version > state.ledger.version {
                return Err(self.no_version(version));
            }
            if let Some(old) = state.old.iter().find(|old| old.version == version) {
                return Ok(Arc::clone(old));
            }
            state.layout.time_column.clone()
        };
        let found = self.shared.place.load(Some(version), Some(&time_column)).await;
        let ledger = match found {
            Ok(Some(ledger)) => Arc::new(ledger),
            // The log is readable, or the table would not be open: so this version is no longer in it.
            Ok(None) | Err(StoreError::Delta { .. }) => return Err(self.no_version(version)),
            Err(error) => return Err(error),
        };
        let mut state = self.shared.state();
        state.old.push_back(Arc::clone(&ledger));
        while state.old.len() > OLD_VERSIONS_MAX {
            state.old.pop_front();
        }
        Ok(ledger)
    }

    /// Does the part of [`Table::alter`] that may fail. After it the same change succeeds at once; if this fails, nothing
    /// has changed. A preparation that is not used is harmless: a widened column takes the earlier values, too.
    pub async fn prepare(&self, spec: &TableSpec) -> Result<()> {
        let columns_max = self.shared.options.columns_max;
        spec.check(columns_max)?;
        let fields: Vec<_> = {
            let state = self.shared.state();
            self.check_partition(&state, spec)?;
            let evolved = evolve(&spec.name, &state.layout.schema, &spec.fields())?;
            let columns = evolved.fields.len();
            if columns > columns_max {
                return Err(StoreError::TooManyColumns { table: spec.name.clone(), columns, columns_max });
            }
            if evolved.widened.is_empty() {
                return Ok(());
            }
            let is_there = |field: &Field| state.layout.schema.index_of(field.name()).is_ok();
            spec.fields().into_iter().filter(is_there).collect()
        };
        let (reply, answer) = oneshot::channel();
        self.request(Request::Widen { fields, reply }).await?;
        self.answer(answer).await
    }

    fn check_partition(&self, state: &State, spec: &TableSpec) -> Result<()> {
        let names: Vec<Box<str>> =
            state.ledger.metadata.partition_columns.iter().map(|name| name.as_str().into()).collect();
        if names == spec.partition_columns() {
            return Ok(());
        }
        let why = "how it is partitioned cannot be changed".into();
        Err(StoreError::Spec { table: spec.name.clone(), why })
    }

    /// Changes the table: new columns are there for the next rows, and in Delta with the commit that first has them.
    /// INTEGER to LONG, and numbers to DOUBLE, rewrite all files in one commit before this returns; rows may be appended
    /// meanwhile. Columns that are no longer named stay, null from now on. Partitions cannot be changed.
    pub async fn alter(&self, spec: &TableSpec) -> Result<()> {
        spec.check(self.shared.options.columns_max)?;
        let widens = {
            let mut state = self.shared.state();
            self.check_partition(&state, spec)?;
            self.extend(&mut state, spec)?
        };
        if widens {
            let (reply, answer) = oneshot::channel();
            self.request(Request::Widen { fields: spec.fields(), reply }).await?;
            self.answer(answer).await?;
        }
        Ok(())
    }

    /// Takes over what needs no rewriting. Returns whether anything does.
    pub(crate) fn extend(&self, state: &mut State, spec: &TableSpec) -> Result<bool> {
        let mut fields = spec.fields();
        let whole = evolve(&spec.name, &state.layout.schema, &fields)?;
        // A widened column waits until its files are rewritten.
        for field in &mut fields {
            if whole.widened.iter().any(|name| **name == **field.name())
                && let Ok(there) = state.layout.schema.field_with_name(field.name())
            {
                field.set_data_type(there.data_type().clone());
            }
        }
        let added = evolve(&spec.name, &state.layout.schema, &fields)?;
        let (columns, columns_max) = (added.fields.len(), self.shared.options.columns_max);
        if columns > columns_max {
            return Err(StoreError::TooManyColumns { table: spec.name.clone(), columns, columns_max });
        }
        state.retention = spec.retention;
        if added.is_changed || spec.time_column.as_deref() != Some(&*state.layout.time_column) {
            let partition = spec.partition_columns();
            state.layout = Layout::new(&spec.name, added.fields, &partition, spec.time_column.as_deref());
        }
        Ok(!whole.widened.is_empty())
    }

    /// Adds rows to a plain table, or puts them in the place of all that it holds, in one commit, which it may share with other
    /// insertions that wait for it. Returns how many.
    /// Columns go by name; those that are missing are null.
    pub async fn insert<E: std::fmt::Display>(
        &self,
        rows: impl Stream<Item = Result<RecordBatch, E>> + Send,
        overwrite: bool,
    ) -> Result<u64> {
        self.put(rows, overwrite, None).await
    }

    /// Inserts as [`Table::insert`] does, unless this version of the application has inserted before: the commit records
    /// it (`txn`), and is looked up first. `None`: it was done, and nothing was read of the rows. Versions only grow.
    pub async fn insert_once<E: std::fmt::Display>(
        &self,
        rows: impl Stream<Item = Result<RecordBatch, E>> + Send,
        overwrite: bool,
        application: Application,
    ) -> Result<Option<u64>> {
        if self.has_inserted(&application).await? {
            return Ok(None);
        }
        self.put(rows, overwrite, Some(application)).await.map(Some)
    }

    /// Returns true if rows were inserted, or the table made, in the name of this version of the application.
    pub async fn has_inserted(&self, application: &Application) -> Result<bool> {
        application.is_done(self.name(), self.last_inserted(&application.id).await?)
    }

    /// The last insertion of an application that the table has, by its version.
    pub async fn last_inserted(&self, application: &str) -> Result<Option<u64>> {
        let known = self.shared.state().ledger.applications.get(application).copied();
        match known {
            Some(version) => Ok(Some(version)),
            None => self.shared.place.application(application).await,
        }
    }

    async fn put<E: std::fmt::Display>(
        &self,
        rows: impl Stream<Item = Result<RecordBatch, E>> + Send,
        overwrite: bool,
        once: Option<Application>,
    ) -> Result<u64> {
        let layout = {
            let state = self.shared.state();
            if state.ledger.is_stream() {
                return Err(self.fault("it belongs to a stream, which takes events"));
            }
            state.layout.clone()
        };
        let (shared, now) = (&self.shared, self.shared.clock.0.now());
        let (rows, count) = InsertedRows::read(&shared.place, &layout, &shared.options, now, rows).await?;
        let (reply, answer) = oneshot::channel();
        self.request(Request::Insert(Insertion { rows, overwrite, once, reply })).await?;
        self.answer(answer).await?;
        Ok(count)
    }

    /// Merges small files, deletes what has expired and what no version needs, and writes a checkpoint: what the owner
    /// does by itself in time, now and to the end.
    pub async fn upkeep(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.request(Request::Upkeep { reply }).await?;
        self.answer(answer).await
    }

    async fn request(&self, request: Request) -> Result<()> {
        let closed = || StoreError::Closed(self.name().into());
        self.requests.send(request).await.map_err(|_| closed())
    }

    async fn answer(&self, answer: oneshot::Receiver<Result<()>>) -> Result<()> {
        match answer.await {
            Ok(result) => result,
            Err(_) => Err(self
                .shared
                .state()
                .ended
                .clone()
                .unwrap_or_else(|| StoreError::Closed(self.name().into()))),
        }
    }

    /// Ends the table's owner without a last commit; rows that wait are forgotten, as they are in the stream's log.
    /// Returns when nothing is written any more. Call [`Table::flush`] before, to commit them.
    pub async fn close(&self) {
        self.shared.end(StoreError::Closed(self.name().into()));
        self.requests.closed().await;
    }
}

/// A time as RFC 3339 has it, in UTC; what lies beyond all dates as milliseconds.
fn date(time: Millis) -> String {
    match timestamp_ms_to_datetime(time) {
        Some(date) => date.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        None => format!("{time} ms"),
    }
}
