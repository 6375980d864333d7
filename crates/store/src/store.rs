//! A store: all tables at one location.

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_schema::{Schema, SchemaRef};
use datafusion_execution::object_store::ObjectStoreUrl;
use futures_util::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, path::Path};
use swiftwater_event::{Clock, Millis};
use tokio::{
    runtime::Handle,
    sync::{Mutex, Semaphore, mpsc},
};

use crate::{
    actions::{self, Add, Commit, Txn},
    committer::{Committer, REQUESTS_MAX},
    error::{Result, StoreError},
    layout::Layout,
    life::StoreSession,
    load::TableLocation,
    location::{self, OpenedLocation},
    options::StoreOptions,
    pinned_snapshot::Pins,
    provider, schema,
    spec::{TableSpec, check_name},
    staged_table::{self, NewTable, StagedTable},
    store_id::ExpectedStoreId,
    table::{Application, ClockRef, Shared, Table},
    table_version::{self, KIND_KEY, TableVersions},
};

/// A mark that a table is being dropped: if the server ends meanwhile, what is left of it goes with the next opening.
const DROPPED: &str = "_dropped";

/// Commits have their files written by as many threads at a time as the machine has cores, but by two at least, so that
/// one does not wait for another that waits for its store.
const WRITERS_MIN: usize = 2;

static STORES: AtomicU64 = AtomicU64::new(0);

/// Delta Lake tables at one location, each a directory with the table's name.
///
/// One process owns a store; others may read its tables at any time. Needs a tokio runtime with time and, for a store on
/// the network, I/O; encoding and compaction run on threads of their own.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Arc<StoreOptions>,
    objects: Arc<dyn ObjectStore>,
    /// The directory, if the store is on this machine.
    directory: Option<PathBuf>,
    url: ObjectStoreUrl,
    clock: ClockRef,
    upkeep: Arc<Semaphore>,
    writing: Arc<Semaphore>,
    /// The runtime on which the store was opened; owners of tables run there.
    runtime: Handle,
    pins: Arc<Pins>,
    life: StoreSession,
    expected: Arc<ExpectedStoreId>,
    making: StagedTable,
    /// Open tables. Held while one is opened or dropped, so that none is opened twice.
    tables: Mutex<HashMap<Box<str>, Table>>,
}

impl Store {
    /// Opens the store that the options name; a local directory is made. Nothing is read yet.
    pub async fn open(options: StoreOptions, clock: Arc<dyn Clock>) -> Result<Store> {
        let OpenedLocation { objects, directory } = location::open(&options)?;
        Store::open_in(objects, directory, options, clock)
    }

    /// Opens a store whose root is that of an object store. The durability of a put is up to the object store;
    /// see [`crate::Durable`].
    pub async fn open_at(
        objects: Arc<dyn ObjectStore>,
        options: StoreOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Store> {
        Store::open_in(objects, None, options, clock)
    }

    fn open_in(
        objects: Arc<dyn ObjectStore>,
        directory: Option<PathBuf>,
        options: StoreOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Store> {
        options.check()?;
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let url = provider::store_url(number)
            .map_err(|error| StoreError::Location { location: "".into(), why: error.to_string().into() })?;
        let upkeep = Arc::new(Semaphore::new(options.upkeep_tasks_max));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let inner = Inner {
            options: Arc::new(options),
            objects,
            directory,
            url,
            clock: ClockRef(clock),
            upkeep,
            writing: Arc::new(Semaphore::new(WRITERS_MIN.max(cores))),
            runtime: Handle::current(),
            pins: Arc::default(),
            life: StoreSession::begin(),
            expected: Arc::default(),
            making: StagedTable::default(),
            tables: Mutex::new(HashMap::new()),
        };
        Ok(Store { inner: Arc::new(inner) })
    }

    fn place(&self, name: &str) -> TableLocation {
        let inner = &self.inner;
        let (store, expected) = (Arc::clone(&inner.objects), Arc::clone(&inner.expected));
        TableLocation { store, expected, table: name.into(), pins: Arc::clone(&inner.pins), life: inner.life }
    }

    /// Its URL for DataFusion.
    pub(crate) fn url(&self) -> &ObjectStoreUrl {
        &self.inner.url
    }

    pub(crate) fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.inner.objects
    }

    pub(crate) fn expected(&self) -> &ExpectedStoreId {
        &self.inner.expected
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.inner.pins
    }

    pub(crate) fn making(&self) -> &StagedTable {
        &self.inner.making
    }

    pub(crate) fn options(&self) -> &StoreOptions {
        &self.inner.options
    }

    /// The maintenance tasks that run at a time, over all tables.
    pub fn upkeep_tasks_max(&self) -> usize {
        self.inner.options.upkeep_tasks_max
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    pub(crate) fn now(&self) -> Millis {
        self.inner.clock.0.now()
    }

    /// Opens a stream's table, or creates it. Columns that the table lacks are added as by [`Table::alter`]; if one must be
    /// rewritten for that, this waits for it.
    pub async fn open_table(&self, spec: TableSpec) -> Result<Table> {
        spec.check(self.inner.options.columns_max)?;
        self.check().await?;
        self.inner.making.until_ended(&spec.name).await;
        let mut tables = self.inner.tables.lock().await;
        if self.inner.making.has(&spec.name) {
            return Err(StoreError::TableExists(spec.name));
        }
        let table = match tables.get(&spec.name) {
            Some(table) => table.clone(),
            None => {
                let place = self.place(&spec.name);
                self.finish_drop(&place).await?;
                let found = place.load(None, spec.time_column.as_deref()).await?;
                let ledger = match found {
                    Some(ledger) => ledger,
                    None => {
                        let partition = spec.partition_columns();
                        let layout =
                            Layout::new(&spec.name, spec.fields(), &partition, spec.time_column.as_deref());
                        self.create(&place, layout, &partition, "stream", Vec::new(), None).await?
                    }
                };
                let table = self.start(place, ledger, &spec);
                tables.insert(spec.name.clone(), table.clone());
                table
            }
        };
        if !table.is_stream() {
            return Err(StoreError::TableExists(spec.name));
        }
        table.alter(&spec).await?;
        Ok(table)
    }

    /// Creates a plain table without rows; types that Delta Lake does not have become wider ones. As of [`NewTable::commit`], the
    /// commit says that this was done in the name of the application.
    pub async fn create_plain(
        &self,
        name: &str,
        schema: SchemaRef,
        once: Option<&Application>,
    ) -> Result<Table> {
        let layout = self.plain_layout(name, &schema)?;
        self.check().await?;
        self.inner.making.until_ended(name).await;
        let mut tables = self.inner.tables.lock().await;
        let place = self.free_place(name, &tables).await?;
        let ledger = self.create(&place, layout, &[], "plain", Vec::new(), once).await?;
        let table = self.start(place, ledger, &TableSpec::new(name, Vec::new()));
        tables.insert(name.into(), table.clone());
        Ok(table)
    }

    /// Begins to create a plain table that is there with its rows or not at all, for `CREATE TABLE AS`. Its name is taken from now on;
    /// who makes one of that name already is waited for.
    pub async fn begin_plain(&self, name: &str, schema: SchemaRef) -> Result<NewTable> {
        let layout = self.plain_layout(name, &schema)?;
        self.check().await?;
        self.inner.making.until_ended(name).await;
        let tables = self.inner.tables.lock().await;
        let place = self.free_place(name, &tables).await?;
        NewTable::begin(self.clone(), place, layout).await
    }

    /// The first commit of a plain table, with all of its rows.
    pub(crate) async fn create_with(
        &self,
        place: &TableLocation,
        layout: Layout,
        adds: Vec<Add>,
        once: Option<&Application>,
    ) -> Result<Table> {
        let mut tables = self.inner.tables.lock().await;
        let ledger = self.create(place, layout, &[], "plain", adds, once).await?;
        let table = self.start(place.clone(), ledger, &TableSpec::new(&place.table, Vec::new()));
        tables.insert(place.table.clone(), table.clone());
        Ok(table)
    }

    /// The location of a new table: no table has the name, and no files of an earlier one are left.
    async fn free_place(&self, name: &str, tables: &HashMap<Box<str>, Table>) -> Result<TableLocation> {
        let place = self.place(name);
        if self.inner.making.has(name) {
            return Err(StoreError::TableExists(name.into()));
        }
        self.finish_drop(&place).await?;
        staged_table::finish_making(&place).await?;
        if tables.contains_key(name) || place.exists().await? {
            return Err(StoreError::TableExists(name.into()));
        }
        Ok(place)
    }

    fn plain_layout(&self, name: &str, schema: &Schema) -> Result<Layout> {
        check_name(name)?;
        let columns_max = self.inner.options.columns_max;
        let fault = |why: String| StoreError::Spec { table: name.into(), why: why.into() };
        if schema.fields().len() > columns_max {
            let columns = schema.fields().len();
            return Err(StoreError::TooManyColumns { table: name.into(), columns, columns_max });
        }
        let mut fields = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for field in schema.fields() {
            if !seen.insert(field.name().to_lowercase()) {
                return Err(fault(format!("column `{}` occurs twice, ignoring case", field.name())));
            }
            let ty = schema::stored_type(field.data_type()).ok_or_else(|| {
                fault(format!("column `{}` is a {}, which cannot be stored", field.name(), field.data_type()))
            })?;
            // Rows come in later, from anywhere: nothing is known of their nulls.
            fields.push(arrow_schema::Field::new(field.name(), ty, true));
        }
        Ok(Layout::new(name, fields, &[], None))
    }

    /// Opens a table that is there, a stream's or a plain one, as it is. `None` if there is none.
    pub async fn table(&self, name: &str) -> Result<Option<Table>> {
        if check_name(name).is_err() {
            return Ok(None);
        }
        let mut tables = self.inner.tables.lock().await;
        if let Some(table) = tables.get(name) {
            return Ok(Some(table.clone()));
        }
        if self.inner.making.has(name) {
            return Ok(None);
        }
        self.check().await?;
        let place = self.place(name);
        self.finish_drop(&place).await?;
        let Some(ledger) = place.load(None, None).await? else { return Ok(None) };
        let table = self.start(place, ledger, &TableSpec::new(name, Vec::new()));
        tables.insert(name.into(), table.clone());
        Ok(Some(table))
    }

    /// The names of all tables, in order.
    pub async fn tables(&self) -> Result<Vec<Box<str>>> {
        self.check().await?;
        let listing = StoreError::store("listing tables");
        let list = self.inner.objects.list_with_delimiter(None).await.map_err(listing)?;
        let mut names = Vec::new();
        for directory in list.common_prefixes {
            let Some(name) = directory.filename() else { continue };
            let place = self.place(name);
            if check_name(name).is_ok() && place.exists().await? && !self.is_dropped(&place).await? {
                names.push(name.into());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Deletes what is left of tables that were to be dropped, and of those whose making came to no end.
    pub async fn finish_left(&self) -> Result<()> {
        self.check().await?;
        let listing = StoreError::store("listing tables");
        let list = self.inner.objects.list_with_delimiter(None).await.map_err(listing)?;
        for directory in list.common_prefixes {
            let Some(name) = directory.filename().filter(|name| check_name(name).is_ok()) else { continue };
            // No other task begins with it meanwhile.
            let tables = self.inner.tables.lock().await;
            if tables.contains_key(name) || self.inner.making.has(name) {
                continue;
            }
            let place = self.place(name);
            self.finish_drop(&place).await?;
            staged_table::finish_making(&place).await?;
        }
        Ok(())
    }

    /// Deletes a table with all its files and versions. Returns whether there was one. Queries that still read it fail.
    pub async fn drop_table(&self, name: &str) -> Result<bool> {
        if check_name(name).is_err() {
            return Ok(false);
        }
        self.check().await?;
        let mut tables = self.inner.tables.lock().await;
        if self.inner.making.has(name) && !tables.contains_key(name) {
            return Ok(false);
        }
        let open = tables.remove(name);
        if let Some(table) = &open {
            table.close().await;
        }
        let place = self.place(name);
        let was_there = open.is_some() || place.exists().await?;
        if !was_there && !place.has_files().await? {
            return Ok(false);
        }
        let mark = place.root().join(DROPPED);
        self.inner
            .objects
            .put(&mark, PutPayload::new())
            .await
            .map_err(StoreError::store("dropping a table"))?;
        self.finish_drop(&place).await?;
        Ok(was_there)
    }

    /// Drops a stream's table as [`Store::drop_table`] does; a plain one of its name is unchanged.
    pub async fn drop_stream_table(&self, name: &str) -> Result<bool> {
        match self.table(name).await {
            Ok(Some(table)) if table.is_stream() => self.drop_table(name).await,
            Ok(_) => Ok(false),
            // A table need not be readable to be deleted.
            Err(_) if self.began_as_stream(name).await => self.drop_table(name).await,
            Err(error) => Err(error),
        }
    }

    /// Returns true if a table's first commit says that it is a stream's, for any later commits.
    async fn began_as_stream(&self, name: &str) -> bool {
        let first = actions::commit_path(&self.place(name).root(), 0);
        let Ok(found) = self.inner.objects.get(&first).await else { return false };
        let Ok(bytes) = found.bytes().await else { return false };
        bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
            .any(|action| action["metaData"]["configuration"][KIND_KEY] == "stream")
    }

    /// Ends all tables; call [`Table::flush`] on those whose rows are to be committed.
    pub async fn close(&self) {
        let tables: Vec<Table> = self.inner.tables.lock().await.drain().map(|(_, table)| table).collect();
        for table in tables {
            table.close().await;
        }
    }

    async fn is_dropped(&self, place: &TableLocation) -> Result<bool> {
        match self.inner.objects.head(&place.root().join(DROPPED)).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(StoreError::store("looking up a table")(error)),
        }
    }

    /// Deletes what is left of a table that was to be dropped; the mark last.
    async fn finish_drop(&self, place: &TableLocation) -> Result<()> {
        if !self.is_dropped(place).await? {
            return Ok(());
        }
        // The mark is there: a cut that begins from now on does not see the table.
        self.inner.pins.drop_table(&place.table);
        let failed = StoreError::store("dropping a table");
        let mark = place.root().join(DROPPED);
        let objects: Vec<_> =
            self.inner.objects.list(Some(&place.root())).try_collect().await.map_err(&failed)?;
        let others: Vec<Path> =
            objects.into_iter().map(|object| object.location).filter(|location| *location != mark).collect();
        for location in others.iter().chain([&mark]) {
            match self.inner.objects.delete(location).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if let Some(directory) = &self.inner.directory {
            let directory = directory.join(&*place.table);
            let deleted = tokio::task::spawn_blocking(move || delete_empty(&directory)).await;
            // They are in nobody's way.
            if let Ok(Err(error)) = deleted {
                tracing::debug!(table = &*place.table, %error, "directories of a dropped table remain");
            }
        }
        Ok(())
    }

    /// Writes the first commit of a table: its schema, and its initial rows.
    async fn create(
        &self,
        place: &TableLocation,
        layout: Layout,
        partition: &[Box<str>],
        kind: &str,
        adds: Vec<Add>,
        once: Option<&Application>,
    ) -> Result<TableVersions> {
        let options = &self.inner.options;
        let seconds = |duration: std::time::Duration| format!("interval {} seconds", duration.as_secs());
        let configuration = vec![
            (KIND_KEY.to_owned(), kind.to_owned()),
            ("delta.logRetentionDuration".to_owned(), seconds(options.log_retention)),
            ("delta.deletedFileRetentionDuration".to_owned(), seconds(options.vacuum_retention)),
        ];
        let now = self.now();
        let id = uuid::Uuid::new_v4().to_string();
        let schema: &Schema = &layout.schema;
        let metadata = table_version::metadata(&place.table, id, schema, partition, configuration, now)?;
        let commit = Commit {
            operation: if adds.is_empty() { "CREATE TABLE" } else { "CREATE TABLE AS SELECT" },
            is_first: true,
            metadata: Some(metadata.clone()),
            adds,
            txns: once.map(|once| Txn::of(once, now)).into_iter().collect(),
            ..Commit::default()
        };
        let id = uuid::Uuid::new_v4().to_string();
        let path = actions::commit_path(&place.root(), 0);
        let payload = PutPayload::from(commit.to_bytes(&id, now));
        let put = place.store.put_opts(&path, payload, PutOptions::from(PutMode::Create)).await;
        if let Err(error) = put
            && !place.is_commit(&path, &id).await.unwrap_or(None).unwrap_or(false)
        {
            return Err(StoreError::store("creating a table")(error));
        }
        let time_column = Some(&*layout.time_column);
        let mut ledger =
            TableVersions::new(&place.table, 0, metadata, time_column, commit.adds, Vec::new(), 0)?;
        ledger.applications.extend(once.map(|once| (once.id.clone(), once.version)));
        Ok(ledger)
    }

    fn start(&self, place: TableLocation, ledger: TableVersions, spec: &TableSpec) -> Table {
        let inner = &self.inner;
        let shared = Arc::new(Shared::new(
            place,
            inner.url.clone(),
            Arc::clone(&inner.options),
            inner.clock.clone(),
            (Arc::clone(&inner.upkeep), Arc::clone(&inner.writing)),
            ledger,
            spec.retention,
        ));
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let owner = Committer::new(Arc::clone(&shared), receiver);
        // The caller that opens a table may be on threads for other work, or end before it.
        inner.runtime.spawn(owner.run());
        Table { shared, requests }
    }
}

/// Deletes a directory and those below it, as far as there are no files in them.
fn delete_empty(directory: &std::path::Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            delete_empty(&entry.path())?;
        }
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}
