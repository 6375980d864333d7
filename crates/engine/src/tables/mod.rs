//! The tables of SQL: stored streams and views, each with every event that was acknowledged before the statement, and plain
//! tables.

pub(crate) mod field_metadata;
pub(crate) mod index_files;
pub(crate) mod insert;
pub(crate) mod plain;
pub(crate) mod rows;
pub(crate) mod scoped;
pub(crate) mod statements;

use insert::failing_apart;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use swiftwater_catalog::ObjectKind;
use swiftwater_event::{StreamName, causes};
use swiftwater_lang::ddl;
use swiftwater_log::{Log, StallReason};
use swiftwater_sql::{
    At, ErrorKind as SqlErrorKind, SchemaRef, SendableRecordBatchStream, SqlError, TableKind, TableProvider,
    Tables, generated_table, not_known, rows_at_hand,
};
use swiftwater_store::{StoreError, Table};
use tokio::sync::oneshot;

use crate::{
    EngineError,
    durable::{history::History, stored_stream::StoredStream},
    error::sql::{from_engine, from_store},
    shared::Shared,
    supervisor::TaskKind,
    tables::{
        field_metadata::FieldMetadata,
        plain::Plain,
        statements::{STATEMENT_TASKS, STATEMENTS, statement_tasks, statements},
    },
};

/// The table of the runs of jobs, in the schema `system`.
pub(crate) const JOB_RUNS: &str = "job_runs";

/// The time a statement waits for what was acknowledged to be in its table.
const FRESH_TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes of JSON that an INSERT appends to a stream at once. One that is no larger is appended whole or not at all.
const INSERT_BYTES: usize = 16 << 20;

/// The longest event that an INSERT makes, whatever requests may send; the stream may want shorter ones.
const INSERT_EVENT_BYTES_MAX: usize = 64 << 20;

/// The most characters of a refused row that an error shows.
const SHOWN_CHARACTERS: usize = 200;

/// The tables of a history, for SQL.
pub(crate) struct HistoryTables {
    shared: Weak<Shared>,
    plain: Arc<Plain>,
}

impl HistoryTables {
    /// The tables of an engine; the plain ones are yet to be named.
    pub(crate) fn new(shared: &Arc<Shared>) -> HistoryTables {
        HistoryTables { shared: Arc::downgrade(shared), plain: Arc::default() }
    }

    /// Sets the names of plain tables.
    pub(crate) fn name_plain(&self, names: impl IntoIterator<Item = String>) {
        self.plain.set(names);
    }

    /// True if it is known which plain tables there are.
    pub(crate) fn knows_plain(&self) -> bool {
        self.plain.names().is_some()
    }

    /// True if the store is to be asked again which there are.
    pub(crate) fn doubts_plain(&self) -> bool {
        !self.plain.is_known()
    }

    /// True if a plain table has a name, one that is still being made included; an error as long as that is not known.
    pub(crate) fn is_plain(&self, name: &str) -> Result<bool, SqlError> {
        self.plain.has(name).ok_or_else(|| not_known(name))
    }

    fn shared(&self) -> Result<Arc<Shared>, SqlError> {
        self.shared
            .upgrade()
            .ok_or_else(|| SqlError::new(SqlErrorKind::Unavailable, "the server is shutting down"))
    }

    pub(crate) fn stored(&self, name: &str) -> Result<Option<Arc<StoredStream>>, SqlError> {
        let Ok(name) = StreamName::new(name) else { return Ok(None) };
        Ok(self.shared()?.stored(&name).map(|(_, stored)| stored))
    }

    /// The columns of a plain table; none if there is no such table.
    pub(crate) async fn plain_schema(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        Ok(self.plain_table(name).await?.map(|table| table.schema()))
    }

    async fn plain_table(&self, name: &str) -> Result<Option<Table>, SqlError> {
        let shared = self.shared()?;
        let Some(history) = shared.history.get() else { return Ok(None) };
        if !self.is_plain(name)? {
            return Ok(None);
        }
        match history.store.table(name).await.map_err(from_store)? {
            Some(table) => {
                table.check_there().await.map_err(from_store)?;
                history.connect_index(name, &table);
                Ok(Some(table))
            }
            // A table that is being made is invisible.
            None if self.plain.is_there(name) == Some(true) => {
                Err(from_store(StoreError::Missing(name.into())))
            }
            None => Ok(None),
        }
    }
}

fn no_earlier_view(name: &str) -> SqlError {
    let message = format!("`{name}` is a view, and has no earlier versions");
    SqlError::new(SqlErrorKind::Invalid, message)
}

/// The table of a stream. One that is being opened is waited for.
async fn opened(stored: &StoredStream) -> Result<&Table, SqlError> {
    if stored.table().is_none() && stored.unopened().is_none() {
        let _ = tokio::time::timeout(FRESH_TIME_MAX, stored.opened()).await;
    }
    stored.table().ok_or_else(|| {
        let why = stored.unopened().unwrap_or_else(|| "it is being opened".to_owned());
        let message = format!("the table of stream `{}` cannot be read yet: {why}", stored.name);
        SqlError::new(SqlErrorKind::Unavailable, message)
            .with_hint("The server retries to open it; events remain in the log until then.")
    })
}

/// Waits until a table has all events of the stream that were acknowledged when this was called.
async fn fresh(log: &Log, stored: &StoredStream, table: &Table) -> Result<(), SqlError> {
    let Some(next) = stored.request_flush(stored.acknowledged(log)) else { return Ok(()) };
    let mut progress = table.progress();
    let waited =
        tokio::time::timeout(FRESH_TIME_MAX, progress.wait_for(|progress| progress.appended.0 >= next)).await;
    match waited {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(SqlError::new(SqlErrorKind::Unavailable, "the table is closed")),
        Err(_) => {
            let behind = next.saturating_sub(table.appended().0);
            let message =
                format!("table `{}` is {behind} events behind the acknowledged events", stored.name);
            let hint = match (table.status().failing, log.horizons().trouble) {
                (Some(failing), _) => {
                    let why = causes(&failing.error);
                    format!("Its store fails: {why}. The acknowledged events are in the log.")
                }
                (None, Some(StallReason::Full)) => {
                    "The log has no space for the last of them: free space on its disk, or raise data.log_bytes_max."
                        .to_owned()
                }
                (None, Some(StallReason::Failing)) => {
                    "The log's disk fails; the server writes the last of them as soon as the disk works.".to_owned()
                }
                (None, None) => "Try again when fewer events arrive.".to_owned(),
            };
            Err(SqlError::new(SqlErrorKind::Unavailable, message).with_hint(hint))
        }
    }
}

#[async_trait]
impl Tables for HistoryTables {
    fn names(&self) -> Vec<(String, TableKind)> {
        let Some(shared) = self.shared.upgrade() else { return Vec::new() };
        let streams = shared.history.get().map(|history| history.all_stored()).unwrap_or_default();
        let streams = streams.iter().map(|stored| (stored.name.to_string(), TableKind::Stream));
        let views = shared.history.get().map(|history| history.named_views()).unwrap_or_default();
        let views = views.iter().map(|view| (view.name().to_owned(), TableKind::View));
        let plain = self.plain.names().unwrap_or_default();
        streams.chain(views).chain(plain.into_iter().map(|name| (name, TableKind::Table))).collect()
    }

    fn names_all(&self) -> bool {
        self.knows_plain()
    }

    async fn table(&self, name: &str, at: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        if let Some(history) = self.shared()?.history.get()
            && history.view(name).is_ok()
        {
            return match at {
                Some(_) => Err(no_earlier_view(name)),
                None => {
                    let rows = history.rows_of_view(name).await.map_err(from_engine)?;
                    Ok(Some(generated_table(rows.schema(), Arc::new(rows))))
                }
            };
        }
        let (table, json) = match self.stored(name)? {
            Some(stored) => {
                let table = opened(&stored).await?;
                if at.is_none() {
                    let shared = self.shared()?;
                    if let Some(history) = shared.history.get() {
                        fresh(&history.log, &stored, table).await?;
                    }
                }
                let declared = stored.declared();
                (table.clone(), declared.columns.json(&declared.create))
            }
            None => match self.plain_table(name).await? {
                Some(table) => (table, Vec::new()),
                None => return Ok(None),
            },
        };
        let at = at.map(|at| match at {
            At::Version(version) => swiftwater_store::At::Version(version),
            At::Timestamp(time) => swiftwater_store::At::Timestamp(time),
        });
        let index = self.shared()?.history.get().and_then(|history| history.index_of(name));
        let metadata = FieldMetadata { json, index };
        let described = table.provider_with_fields(at, &|field| metadata.describe(field)).await;
        described.map(Some).map_err(from_store)
    }

    async fn insertable(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        if self.shared()?.history.get().is_some_and(|history| history.view(name).is_ok()) {
            let message = format!("`{name}` is a view: its rows come from its stream");
            return Err(SqlError::new(SqlErrorKind::Invalid, message));
        }
        if let Some(stored) = self.stored(name)? {
            let schema = opened(&stored).await?.schema();
            let own = schema
                .fields()
                .iter()
                .filter(|field| !ddl::SYSTEM_COLUMNS.contains(&field.name().as_str()))
                .cloned();
            return Ok(Some(Arc::new(arrow_schema::Schema::new(own.collect::<Vec<_>>()))));
        }
        self.plain_schema(name).await
    }

    async fn described(&self, name: &str) -> Result<Option<SchemaRef>, SqlError> {
        let Some(stored) = self.stored(name)? else {
            return Ok(self.table(name, None).await?.map(|table| table.schema()));
        };
        let schema = opened(&stored).await?.schema();
        let declared = stored.declared();
        let is_required = |name: &str| {
            declared.create.columns.iter().any(|column| column.not_null && column.name.as_ref() == name)
        };
        let fields = schema.fields().iter().map(|field| match is_required(field.name()) {
            true => Arc::new(field.as_ref().clone().with_nullable(false)),
            false => Arc::clone(field),
        });
        Ok(Some(Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()))))
    }

    async fn create_table(
        &self,
        name: &str,
        schema: SchemaRef,
        rows: Option<SendableRecordBatchStream>,
        if_not_exists: bool,
    ) -> Result<Option<u64>, SqlError> {
        self.create_once(name, schema, rows, if_not_exists, None).await
    }

    async fn drop_table(&self, name: &str) -> Result<(), SqlError> {
        let shared = self.shared()?;
        let history = shared.history.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
        if !self.plain.is_there(name).ok_or_else(|| not_known(name))? {
            let error = SqlError::new(SqlErrorKind::NotFound, format!("no table `{name}`"));
            return Err(match self.stored(name)? {
                _ if history.view(name).is_ok() => {
                    error.with_hint(format!("It is a materialized view: DROP VIEW {name}."))
                }
                Some(_) => error.with_hint(format!("It is a stream: DROP STREAM {name}.")),
                None => error,
            });
        }
        let (keeper, plain, dropped) = (Arc::clone(history), Arc::clone(&self.plain), name.to_owned());
        to_its_end(history, async move { keeper.drop_plain(&plain, &dropped).await }).await?
    }

    async fn insert(
        &self,
        name: &str,
        rows: SendableRecordBatchStream,
        overwrite: bool,
    ) -> Result<u64, SqlError> {
        let Some(stored) = self.stored(name)? else {
            let table = self.plain_table(name).await?;
            let table =
                table.ok_or_else(|| SqlError::new(SqlErrorKind::NotFound, format!("no table `{name}`")))?;
            let (rows, failure) = failing_apart(rows);
            return table.insert(rows, overwrite).await.map_err(|error| failure.or(error));
        };
        if overwrite {
            let message = format!("`{name}` is a stream, whose events are never overwritten");
            return Err(SqlError::new(SqlErrorKind::Invalid, message).with_hint("Write INSERT INTO."));
        }
        self.insert_events(&stored, rows, None).await
    }

    fn system_names(&self) -> &'static [&'static str] {
        &[JOB_RUNS, STATEMENTS, STATEMENT_TASKS]
    }

    async fn system_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        let shared = self.shared()?;
        match (name, shared.history.get(), shared.sql.get()) {
            (JOB_RUNS, Some(history), _) => rows_at_hand(history.job_runs()).map(Some),
            (STATEMENTS, _, Some(sql)) => rows_at_hand(statements(sql)).map(Some),
            (STATEMENT_TASKS, _, Some(sql)) => rows_at_hand(statement_tasks(sql)).map(Some),
            _ => Ok(None),
        }
    }
}

impl History {
    /// Drops a plain table that is there.
    async fn drop_plain(&self, plain: &Plain, name: &str) -> Result<(), SqlError> {
        // No view is created meanwhile that would be joined with it, and no sink that would deliver to it.
        let _one_at_a_time = self.statement_lock.lock().await;
        if plain.is_there(name) != Some(true) {
            // Another statement has dropped it meanwhile.
            return Err(SqlError::new(SqlErrorKind::NotFound, format!("no table `{name}`")));
        }
        self.with_catalog(|catalog| catalog.check_unused(&ObjectKind::Table.named(name)))
            .map_err(from_engine)?;
        self.record_plain(name, false).await;
        self.store.drop_table(name).await.map_err(from_store)?;
        self.forget_joined(name);
        self.drop_index_of(name).await;
        plain.remove(name);
        Ok(())
    }
}

/// Completes work even if its caller no longer waits.
async fn to_its_end<T: Send + 'static>(
    history: &Arc<History>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, SqlError> {
    let (reply, answer) = oneshot::channel();
    history.supervisor.spawn(TaskKind::Reader, async move {
        // The client may be gone.
        let _ = reply.send(work.await);
    });
    answer.await.map_err(|_| SqlError::new(SqlErrorKind::Unavailable, "the server is shutting down"))
}
