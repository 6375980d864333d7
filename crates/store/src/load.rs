//! Loads a table's state from its Delta log, checkpoints included: when it is opened, when a caller requests an old version,
//! and when another writer was active. Frequent operations, that is commits, do not use this module.

use std::sync::Arc;

use deltalake::{DeltaTable, DeltaTableBuilder, DeltaTableError};
use futures_util::TryStreamExt;
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use swiftwater_event::Millis;
use url::Url;

use crate::{
    actions::{self, Add, MetaData},
    checksums::CheckedStore,
    error::{Result, StoreError},
    life::StoreSession,
    pinned_snapshot::Pins,
    store_id::ExpectedStoreId,
    table_version::{FileEntry, TableVersions},
};

/// A store and where a table lies in it.
#[derive(Debug, Clone)]
pub(crate) struct TableLocation {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) expected: Arc<ExpectedStoreId>,
    pub(crate) table: Box<str>,
    pub(crate) pins: Arc<Pins>,
    pub(crate) life: StoreSession,
}

impl TableLocation {
    pub(crate) fn root(&self) -> Path {
        Path::from(&*self.table)
    }

    /// Path of a file that the log names.
    pub(crate) fn file(&self, path: &str) -> Path {
        path.split('/').fold(self.root(), |root, part| root.join(part))
    }

    /// The store, as it checks what it reads of these files.
    pub(crate) fn checked(&self, files: &[Arc<FileEntry>]) -> CheckedStore {
        let known = files
            .iter()
            .filter_map(|file| Some((self.file(&file.add.path), Arc::clone(file.checksums.as_ref()?))));
        CheckedStore { inner: Arc::clone(&self.store), files: known.collect() }
    }

    /// Checks that the store can be reached and is the expected one.
    pub(crate) async fn check(&self) -> Result<()> {
        self.expected.check(&*self.store).await
    }

    /// Opens the log at a version, or at the newest one. `None` if there is no table.
    pub(crate) async fn delta(&self, version: Option<u64>) -> Result<Option<DeltaTable>> {
        // The library is handed our store; to it the URL is only a path below the store's root, so any scheme that it
        // knows will do, whatever the store is, if its lists are in order.
        let root = format!("memory:///{}/", self.table);
        let url = Url::parse(&root).map_err(|error| StoreError::Corrupt {
            table: self.table.clone(),
            what: format!("a name that is not allowed in a URL: {error}").into(),
        })?;
        let failed = StoreError::delta(&self.table, "reading it");
        let mut builder = DeltaTableBuilder::from_url(url.clone())
            .map_err(&failed)?
            .with_storage_backend(Arc::clone(&self.store), url);
        if let Some(version) = version {
            builder = builder.with_version(version);
        }
        match builder.load().await {
            Ok(table) => Ok(Some(table)),
            Err(DeltaTableError::NotATable(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The table's state at a version, or at the newest one. `None` if there is no table.
    pub(crate) async fn load(
        &self,
        version: Option<u64>,
        time_column: Option<&str>,
    ) -> Result<Option<TableVersions>> {
        if !self.exists().await? {
            return Ok(None);
        }
        let Some(table) = self.delta(version).await? else { return Ok(None) };
        let failed = StoreError::delta(&self.table, "reading it");
        let log = table.log_store();
        let state = table.snapshot().map_err(&failed)?;
        self.check_protocol(state.protocol())?;
        let metadata = self.metadata(state.metadata())?;
        let mut adds = Vec::new();
        for file in state.log_data().iter() {
            if file.deletion_vector_descriptor().is_some() {
                return Err(self.unsupported("deletion vectors"));
            }
            #[expect(deprecated, reason = "nothing else gives out the tags")]
            let tags = file.add_action().tags.map(|tags| tags.into_iter().collect());
            adds.push(Add {
                path: file.path().into_owned(),
                partition_values: file.partition_values_map().into_iter().collect(),
                size: u64::try_from(file.size()).unwrap_or(0),
                modification_time: file.modification_time(),
                data_change: true,
                stats: file.stats(),
                tags,
            });
        }
        let tombstones: Vec<_> = state.all_tombstones(log.as_ref()).try_collect().await.map_err(&failed)?;
        let removed = tombstones
            .iter()
            .map(|stone| (stone.path().as_ref().into(), stone.deletion_timestamp().unwrap_or(0)))
            .collect();
        let committed =
            state.transaction_version(log.as_ref(), app_id(&self.table)).await.map_err(&failed)?.unwrap_or(0);
        let committed = u64::try_from(committed).unwrap_or(0);
        let mut ledger = TableVersions::new(
            &self.table,
            state.version(),
            metadata,
            time_column,
            adds,
            removed,
            committed,
        )?;
        ledger.checkpointed = self.last_checkpoint().await?;
        Ok(Some(ledger))
    }

    /// The last version that an application has inserted; none if it has not.
    pub(crate) async fn application(&self, id: &str) -> Result<Option<u64>> {
        let Some(table) = self.delta(None).await? else { return Ok(None) };
        let failed = StoreError::delta(&self.table, "reading it");
        let (log, state) = (table.log_store(), table.snapshot().map_err(&failed)?);
        let version = state.transaction_version(log.as_ref(), id).await.map_err(&failed)?;
        Ok(version.and_then(|version| u64::try_from(version).ok()))
    }

    fn unsupported(&self, what: &str) -> StoreError {
        StoreError::Protocol { table: self.table.clone(), what: what.into() }
    }

    fn check_protocol(&self, protocol: &deltalake::kernel::Protocol) -> Result<()> {
        if protocol.min_reader_version() > 1 {
            return Err(self.unsupported(&format!("reader version {}", protocol.min_reader_version())));
        }
        if protocol.min_writer_version() > 2 {
            return Err(self.unsupported(&format!("writer version {}", protocol.min_writer_version())));
        }
        Ok(())
    }

    fn metadata(&self, metadata: &deltalake::kernel::Metadata) -> Result<MetaData> {
        let corrupt = |what: String| StoreError::Corrupt { table: self.table.clone(), what: what.into() };
        let schema = metadata
            .parse_schema()
            .map_err(|error| corrupt(format!("a schema that cannot be read: {error}")))?;
        let schema_string = serde_json::to_string(&schema)
            .map_err(|error| corrupt(format!("a schema that cannot be written: {error}")))?;
        Ok(MetaData {
            id: metadata.id().to_owned(),
            name: metadata.name().map(ToOwned::to_owned),
            format: serde_json::json!({"provider": "parquet", "options": {}}),
            schema_string,
            partition_columns: metadata.partition_columns().iter().map(ToString::to_string).collect(),
            configuration: metadata
                .configuration()
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            created_time: metadata.created_time(),
        })
    }

    /// The files of the log.
    pub(crate) async fn log(&self) -> Result<Vec<object_store::ObjectMeta>> {
        let log = self.root().join("_delta_log");
        self.store.list(Some(&log)).try_collect().await.map_err(StoreError::store("listing the Delta log"))
    }

    /// The versions whose commits are still in the log, ascending.
    pub(crate) async fn versions(&self) -> Result<Vec<u64>> {
        let objects = self.log().await?;
        let names = objects.iter().filter_map(|object| object.location.filename());
        let mut versions: Vec<u64> = names.filter_map(actions::version_of).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// Returns true if the table exists.
    pub(crate) async fn exists(&self) -> Result<bool> {
        let log = self.root().join("_delta_log");
        let mut objects = self.store.list(Some(&log));
        while let Some(object) = objects.try_next().await.map_err(StoreError::store("looking up a table"))? {
            if object.location.filename().and_then(actions::version_of).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if there is any file at the table's location.
    pub(crate) async fn has_files(&self) -> Result<bool> {
        let found = self.store.list(Some(&self.root())).try_next().await;
        Ok(found.map_err(StoreError::store("looking up a table"))?.is_some())
    }

    /// Returns true if the existing commit has this id, which is asked after the answer to a put was lost; none if
    /// there is no commit.
    pub(crate) async fn is_commit(&self, path: &Path, id: &str) -> Result<Option<bool>> {
        let failed = StoreError::store("reading a commit");
        let object = match self.store.get(path).await {
            Ok(object) => object,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let bytes = object.bytes().await.map_err(failed)?;
        Ok(Some(actions::commit_id(&bytes).is_some_and(|found| found == id)))
    }

    async fn last_checkpoint(&self) -> Result<u64> {
        let objects = self.log().await?;
        let names = objects.iter().filter_map(|object| object.location.filename());
        Ok(names.filter_map(actions::checkpoint_of).max().unwrap_or(0))
    }

    /// The newest version that was committed at a time or before. `None` if there is none in the log.
    pub(crate) async fn version_at(&self, time: Millis) -> Result<Option<u64>> {
        let versions = self.versions().await?;
        let (mut low, mut high) = (0, versions.len());
        while low < high {
            let middle = (low + high) / 2;
            let path = actions::commit_path(&self.root(), versions[middle]);
            let doing = "reading a commit";
            let object = self.store.get(&path).await.map_err(StoreError::store(doing))?;
            let bytes = object.bytes().await.map_err(StoreError::store(doing))?;
            if actions::commit_time(&bytes).unwrap_or(0) <= time {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1).map(|last| versions[last]))
    }
}

/// The application under which a stream's progress is recorded in its table.
pub(crate) fn app_id(table: &str) -> String {
    format!("swiftwater/{table}/0")
}
