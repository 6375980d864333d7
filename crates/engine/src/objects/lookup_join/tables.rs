//! Tables that events are joined with: loaded completely into memory, and reloaded when they change.

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arrow_schema::DataType;
use bumpalo::Bump;
use bytes::Bytes;
use futures_util::StreamExt;
use swiftwater_event::{CheckLimits, Decoder, Primitive, TimeUnit, Type, check_block};
use swiftwater_lang::ParseOptions;
use swiftwater_live::{JoinFailure, JoinedRows, KeyRows, LookupRequest, MemoryRows};
use swiftwater_sql::{
    RunOptions,
    forms::{Form, FormWriter},
};
use swiftwater_store::Table;

use crate::{
    EngineError,
    durable::history::{History, causes, run_blocking},
    shared::Shared,
    supervisor::TaskKind,
};
use swiftwater_runtime::lock_order::OrderedRwLock;

/// The interval between checks whether joined tables have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Checks without a join after which a table is removed from memory.
const IDLE_LOOKS_MAX: u32 = 60;
/// Numbers of tables begin here; below are those of views.
const FIRST_ID: u64 = 1 << 32;

/// A table that is joined.
pub(crate) struct JoinedTable {
    pub(crate) id: u64,
    pub(crate) name: Box<str>,
    /// Its columns, by name and type.
    pub(crate) columns: Vec<(Box<str>, Type)>,
    /// It, when it is open.
    table: OnceLock<Table>,
    state: OrderedRwLock<TableState>,
    /// Locked while it is read: one task at a time.
    reading: tokio::sync::Mutex<()>,
    is_dropped: AtomicBool,
    idle_looks: AtomicU32,
}

#[derive(Default)]
struct TableState {
    /// Its rows, and the version that they are of.
    rows: Option<(u64, Arc<MemoryRows>)>,
    /// The reason why its rows can no longer be held in memory.
    failed: Option<String>,
}

/// The reason why a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    #[error("table `{0}`, which its events are joined with, was dropped")]
    Dropped(Box<str>),
    #[error("table `{table}`, which its events are joined with, cannot be read: {why}")]
    Unread { table: Box<str>, why: String },
    #[error("the engine is still starting")]
    Starting,
    #[error(
        "table `{table}`, which events are joined with, needs more than {held} bytes in memory, limit is {limit} \
         (`views.joined_bytes_max`): join a view of its rows, which is on disk, or raise the limit"
    )]
    Large { table: Box<str>, held: usize, limit: usize },
}

impl fmt::Debug for JoinedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinedTable").field(&self.name).finish()
    }
}

impl JoinedTable {
    /// One that is not read yet.
    fn new(name: &str, columns: Vec<(Box<str>, Type)>) -> JoinedTable {
        static NEXT_ID: AtomicU64 = AtomicU64::new(FIRST_ID);
        JoinedTable {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            columns,
            table: OnceLock::new(),
            state: OrderedRwLock::default(),
            reading: tokio::sync::Mutex::default(),
            is_dropped: AtomicBool::new(false),
            idle_looks: AtomicU32::new(0),
        }
    }

    fn version(&self) -> Option<u64> {
        let state = self.state.read();
        state.rows.as_ref().map(|(version, _)| *version)
    }

    fn unread(&self, why: impl ToString) -> TableError {
        TableError::Unread { table: self.name.clone(), why: why.to_string() }
    }

    /// Reads it where it has changed since that was last done.
    pub(crate) async fn refresh(&self, history: &History) -> Result<(), TableError> {
        let _one_at_a_time = self.reading.lock().await;
        if self.is_dropped.load(Ordering::Acquire) {
            return Err(TableError::Dropped(self.name.clone()));
        }
        let table = match self.table.get() {
            Some(table) => table,
            None => {
                let opened = history.store.table(&self.name).await;
                let opened = opened.map_err(|error| self.unread(causes(&error)))?;
                let opened = opened.ok_or_else(|| self.unread("it is not there"))?;
                self.table.get_or_init(|| opened)
            }
        };
        let version = table.status().version;
        if self.version() == Some(version) {
            return Ok(());
        }
        let read = self.read(history).await;
        let mut state = self.state.write();
        match read {
            Ok(rows) => {
                *state = TableState { rows: Some((version, Arc::new(rows))), failed: None };
                Ok(())
            }
            Err(error) => {
                // The state of a table that cannot be read at present is unchanged.
                if let TableError::Large { .. } = &error {
                    *state = TableState { rows: None, failed: Some(error.to_string()) };
                }
                Err(error)
            }
        }
    }

    async fn read(&self, history: &History) -> Result<MemoryRows, TableError> {
        let shared = history.engine.get().and_then(Weak::upgrade);
        let sql = shared.as_ref().and_then(|shared| shared.sql.get());
        let sql = sql.ok_or(TableError::Starting)?;
        let text = format!("SELECT * FROM \"{}\"", self.name.replace('"', "\"\""));
        let failed = |error: swiftwater_sql::SqlError| self.unread(causes(&error));
        let mut answer = sql.run(text, RunOptions::default()).await.map_err(failed)?;
        let (mut rows, mut decoder) = (MemoryRows::new(&self.columns), Decoder::default());
        let limits =
            CheckLimits { event_bytes_max: usize::MAX >> 1, depth_max: 512, ..CheckLimits::default() };
        let limit = history.config.joined_bytes_max;
        while let Some(batch) = answer.next().await {
            let batch = batch.map_err(failed)?;
            run_blocking(usize::MAX, || {
                let mut json = Vec::new();
                let mut writer = FormWriter::new(Form::Ndjson, &batch.schema())?;
                writer.batch(&batch, &mut json)?;
                rows.add(&mut decoder, &check_block(Bytes::from(json), &limits, 1).batch);
                Ok(())
            })
            .map_err(failed)?;
            if rows.bytes() > limit {
                return Err(TableError::Large { table: self.name.clone(), held: rows.bytes(), limit });
            }
        }
        Ok(rows)
    }
}

impl JoinedRows for JoinedTable {
    fn look_up<'a>(
        &self,
        look_up: &LookupRequest<'_>,
        arena: &'a Bump,
    ) -> Result<Vec<KeyRows<'a>>, JoinFailure> {
        if self.is_dropped.load(Ordering::Acquire) {
            return Err(JoinFailure(TableError::Dropped(self.name.clone()).to_string()));
        }
        let rows = {
            let state = self.state.read();
            match (&state.rows, &state.failed) {
                (Some((_, rows)), _) => Arc::clone(rows),
                (None, Some(why)) => return Err(JoinFailure(why.clone())),
                (None, None) => return Err(JoinFailure(self.unread("it was not read yet").to_string())),
            }
        };
        Ok(rows.find(look_up, arena))
    }
}

impl History {
    /// Loads the tables that the text of a query names in joins into memory.
    pub(crate) async fn pin_joined(
        &self,
        shared: &Shared,
        text: &str,
        options: &ParseOptions<'_>,
    ) -> Result<(), EngineError> {
        let Some(tables) = shared.tables.get() else { return Ok(()) };
        for name in swiftwater_lang::joined_names(text, options) {
            if self.view(&name).is_ok() || !tables.is_plain(&name).unwrap_or(false) {
                continue;
            }
            let known = self.objects.joined_tables.lock().get(&name).cloned();
            let joined = match known {
                Some(joined) => joined,
                None => {
                    let table = self.store.table(&name).await;
                    let table = table.map_err(|error| EngineError::Table(causes(&error)))?;
                    let Some(table) = table else { continue };
                    let schema = table.schema();
                    let columns = schema.fields().iter().map(|field| {
                        (Box::<str>::from(field.name().as_str()), event_type(field.data_type()))
                    });
                    self.joined_table(&name, columns.collect())
                }
            };
            joined.idle_looks.store(0, Ordering::Relaxed);
            joined.refresh(self).await.map_err(|error| match error {
                TableError::Large { .. } => EngineError::JoinedTable(error.to_string()),
                error => EngineError::Table(error.to_string()),
            })?;
        }
        Ok(())
    }

    /// A table that is joined; it is read when it is needed.
    pub(crate) fn joined_table(&self, name: &str, columns: Vec<(Box<str>, Type)>) -> Arc<JoinedTable> {
        let mut tables = self.objects.joined_tables.lock();
        let table = tables.entry(name.into()).or_insert_with(|| Arc::new(JoinedTable::new(name, columns)));
        Arc::clone(table)
    }

    /// A table is no more: who is joined with it ends.
    pub(crate) fn forget_joined(&self, name: &str) {
        if let Some(table) = self.objects.joined_tables.lock().remove(name) {
            table.is_dropped.store(true, Ordering::Release);
        }
    }

    /// Reads tables again that have changed, as long as somebody is joined with them, until the engine ends.
    pub(crate) async fn maintain_joined_tables(&self) {
        let mut stop = self.supervisor.stop_signal(TaskKind::Table);
        loop {
            tokio::select! {
                () = stop.received() => return,
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
            let tables: Vec<Arc<JoinedTable>> = self.objects.joined_tables.lock().values().cloned().collect();
            for table in tables {
                // The list's, and this one.
                if Arc::strong_count(&table) > 2 {
                    table.idle_looks.store(0, Ordering::Relaxed);
                    if let Err(error) = table.refresh(self).await
                        && !matches!(error, TableError::Starting)
                    {
                        tracing::warn!(table = &*table.name, %error, "a joined table cannot be refreshed");
                    }
                } else if table.idle_looks.fetch_add(1, Ordering::Relaxed) > IDLE_LOOKS_MAX {
                    self.objects.joined_tables.lock().remove(&table.name);
                }
            }
        }
    }
}

/// The type that a column's values have in events.
fn event_type(ty: &DataType) -> Type {
    match ty {
        DataType::Boolean => Type::BOOLEAN,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            Type::INTEGER
        }
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Type::LONG,
        DataType::Float16 | DataType::Float32 => Type::FLOAT,
        DataType::Float64 => Type::DOUBLE,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::STRING,
        DataType::Timestamp(..) => Type::Primitive(Primitive::Timestamp(TimeUnit::Millisecond)),
        _ => Type::Any,
    }
}
