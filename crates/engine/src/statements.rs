//! Executes the engine's statements: CREATE, ALTER, DROP and SHOW of streams, views, jobs, endpoints and search indexes, and RUN JOB.

use std::sync::{Arc, Weak};

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use async_trait::async_trait;
use swiftwater_catalog::ObjectKind;
use swiftwater_event::StreamName;
use swiftwater_lang::{
    Dialect, ParseOptions, QueryErrors,
    ddl::{Ddl, DdlObjectKind, Show, type_text},
    parse_ddl, parse_kept_ddl,
};
use swiftwater_sql::{Dialect as SqlDialect, ErrorKind as SqlErrorKind, OtherStatements, Place, SqlError};
use tokio::sync::oneshot;

use crate::{
    EngineError, RuntimeError,
    answer::{table, texts},
    durable::{history::History, stored_stream::StoredStream},
    error::sql::from_engine,
    objects::saved::{ContentError, check_content},
    shared::Shared,
    supervisor::TaskKind,
};

/// Executes the statements.
pub(crate) struct Statements(Weak<Shared>);

impl Statements {
    pub(crate) fn new(shared: &Arc<Shared>) -> Statements {
        Statements(Arc::downgrade(shared))
    }
}

#[async_trait]
impl OtherStatements for Statements {
    fn takes(&self, words: &[&str]) -> bool {
        matches!(
            words,
            [
                "CREATE" | "ALTER" | "DROP" | "DESCRIBE" | "DESC",
                "STREAM" | "JOB" | "ALERT" | "SINK" | "JOIN" | "ENDPOINT",
                ..
            ] | ["CREATE" | "ALTER" | "DROP", "MATERIALIZED", ..]
                | ["CREATE" | "ALTER" | "DROP", "SEARCH" | "SAVED", ..]
                | ["CREATE", "OR", "REPLACE", "SAVED", ..]
                | ["SHOW", "SAVED", ..]
                | ["SHOW", "CREATE", "SAVED", ..]
                | ["DESCRIBE" | "DESC", "SEARCH", "INDEX", ..]
                | ["SHOW", "SEARCH", "INDEXES", ..]
                | ["SHOW", "CREATE", "SEARCH", ..]
                | ["DROP" | "DESCRIBE" | "DESC", "VIEW", ..]
                | ["RUN", "JOB", ..]
                | ["SHOW", "PARTITIONS" | "NODES", ..]
                | ["SHOW", "STREAMS" | "VIEWS" | "ALERTS" | "SINKS" | "JOINS" | "JOBS" | "ENDPOINTS", ..]
                | ["SHOW", "CREATE", "STREAM" | "VIEW" | "ALERT" | "SINK" | "JOIN" | "ENDPOINT", ..]
        )
    }

    fn check(&self, text: &str) -> Result<(), SqlError> {
        let options = ParseOptions::new(Dialect::Native, 0);
        match parse_ddl(text, &options).map_err(|errors| from_query(&errors))? {
            Some(_) => Ok(()),
            None => Err(not_of_the_engine()),
        }
    }

    async fn run(&self, text: &str) -> Result<Option<RecordBatch>, SqlError> {
        let unavailable = || SqlError::new(SqlErrorKind::Unavailable, "the server is shutting down");
        let shared = self.0.upgrade().ok_or_else(unavailable)?;
        let history = shared.history.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
        let options = ParseOptions::new(Dialect::Native, shared.clock.now());
        let ddl = parse_ddl(text, &options).map_err(|errors| from_query(&errors))?;
        let Some(ddl) = ddl else {
            return Err(not_of_the_engine());
        };
        if let Some(cluster) = history.cluster().filter(|cluster| cluster.takes(&ddl)) {
            if let Ddl::CreateStream(create) = &ddl
                && create.watermark.is_some()
            {
                return Err(from_engine(EngineError::Cluster(format!(
                    "stream `{}` of the cluster cannot have a WATERMARK yet: name the time in the query, as in EVENT(ts)",
                    create.name
                ))));
            }
            let is_changed = cluster.change(&ddl).await.map_err(from_engine)?;
            return Ok(Some(table([(
                "changed",
                Arc::new(BooleanArray::from(vec![is_changed])) as ArrayRef,
            )])));
        }
        if let Some(cluster) = history.cluster() {
            cluster.check_own_name(&ddl).map_err(from_engine)?;
        }
        match ddl {
            Ddl::Show(show) => history.show(&shared, &show).await.map(Some),
            Ddl::Describe { kind, name } => history.describe(kind, &name).map(Some),
            Ddl::DescribeEndpoint { name } => history.describe_endpoint(&name).map(Some),
            Ddl::DescribeSearchIndex { table } => history.describe_search_index(&table).await.map(Some),
            Ddl::RunJob { name } => history.run_job(&shared, &name).await.map(Some),
            _ => {
                if let (Ddl::CreateJob(create), Some(sql)) = (&ddl, shared.sql.get()) {
                    let checked = sql.check(&create.sql, SqlDialect::default());
                    checked.map_err(|error| within(error, text, &create.sql))?;
                }
                if let Ddl::CreateSaved(create) = &ddl {
                    let checked =
                        check_content(create, shared.config.query_text_bytes_max, shared.clock.now());
                    checked.map_err(|error| of_content(&error, text, &create.text))?;
                }
                let of_view = match &ddl {
                    Ddl::CreateView(create) => Some(create.query.clone()),
                    Ddl::CreateAlert(create) => Some(create.condition.clone()),
                    Ddl::CreateJoin(create) => Some(create.query.clone()),
                    _ => None,
                };
                let is_changed =
                    carry_out(history, &shared, ddl).await.map_err(|error| match (error, of_view) {
                        (EngineError::Runtime(RuntimeError::Query(errors)), Some(query)) => {
                            within(from_query(&errors), text, &query)
                        }
                        (EngineError::Expression { text: of, errors }, _) => {
                            within(from_query(&errors), text, &of)
                        }
                        (error, _) => from_engine(history.of_cluster(error)),
                    })?;
                Ok(Some(table([("changed", Arc::new(BooleanArray::from(vec![is_changed])) as ArrayRef)])))
            }
        }
    }
}

impl History {
    /// Creates a stream that events begin, as `CREATE STREAM name WITH (store = true)` does; one that is there by then stays as it is.
    pub(crate) async fn create_stream(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        name: &StreamName,
    ) -> Result<(), EngineError> {
        let text = format!("CREATE STREAM IF NOT EXISTS \"{name}\" WITH (store = true)");
        let create =
            parse_kept_ddl(&text, &ParseOptions::new(Dialect::Native, 0)).map_err(RuntimeError::Query)?;
        let create = create.expect("it is a statement that creates a stream");
        carry_out(self, shared, create).await.map(|_| ())
    }

    /// True if streams that begin by events are stored.
    pub(crate) fn stores_new_streams(&self) -> bool {
        self.config.store_new_streams
    }
}

/// Runs a statement to its end, even if its caller is dropped: a logged change must take effect, too.
async fn carry_out(history: &Arc<History>, shared: &Arc<Shared>, ddl: Ddl) -> Result<bool, EngineError> {
    let (changing, shared) = (Arc::clone(history), Arc::clone(shared));
    to_its_end(history, async move { changing.change(&shared, &ddl).await }).await
}

/// Runs a change to its end, even if its caller is dropped.
pub(crate) async fn to_its_end<T, E>(
    history: &Arc<History>,
    change: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<EngineError> + Send + 'static,
{
    let shutting_down = || Err(E::from(EngineError::Runtime(RuntimeError::ShuttingDown)));
    let (reply, answer) = oneshot::channel();
    let mut closing = history.closing();
    history.supervisor.spawn(TaskKind::Reader, async move {
        let changed = tokio::select! {
            changed = change => changed,
            () = closing.received() => shutting_down(),
        };
        // The client may be gone.
        let _ = reply.send(changed);
    });
    answer.await.unwrap_or_else(|_| Err(E::from(EngineError::Runtime(RuntimeError::ShuttingDown))))
}

/// A fault of a saved object's content, with its place in the statement.
fn of_content(error: &ContentError, text: &str, content: &str) -> SqlError {
    match error {
        ContentError::Query(errors) => within(from_query(errors), text, content),
        _ => SqlError::new(SqlErrorKind::Invalid, error.to_string()),
    }
}

/// An error in what a job runs, or a view asks, with its place in the statement that creates the job.
fn within(error: SqlError, text: &str, sql: &str) -> SqlError {
    let (Some(place), Some(start)) = (error.place(), text.rfind(sql)) else { return error };
    let before = &text[..start];
    let line = before.matches('\n').count() as u64;
    let column = match place.line {
        1 => place.column + before.rsplit('\n').next().map_or(0, |last| last.chars().count() as u64),
        _ => place.column,
    };
    let moved =
        SqlError::new(error.kind(), error.to_string()).at(Some(Place { line: place.line + line, column }));
    match error.hint() {
        Some(hint) => moved.with_hint(hint),
        None => moved,
    }
}

/// The first fault of a statement, with its place.
pub(crate) fn from_query(QueryErrors(errors): &QueryErrors) -> SqlError {
    let Some(first) = errors.first() else {
        return SqlError::new(SqlErrorKind::Invalid, "the statement is wrong");
    };
    let place =
        first.line.zip(first.column).map(|(line, column)| Place { line: line.into(), column: column.into() });
    let error = SqlError::new(SqlErrorKind::Invalid, first.message.clone()).at(place);
    match &first.hint {
        Some(hint) => error.with_hint(hint.clone()),
        None => error,
    }
}

impl History {
    async fn show(&self, shared: &Shared, show: &Show) -> Result<RecordBatch, SqlError> {
        match show {
            Show::Saved(kind) => Ok(shared.show_saved(*kind)),
            Show::CreateSaved(name) => shared.show_create_saved(name),
            Show::Streams => Ok(self.show_streams()),
            Show::Views => Ok(self.show_views()),
            Show::CreateView(name) => self.show_create_view(name),
            Show::Alerts => Ok(self.show_alerts()),
            Show::CreateAlert(name) => self.show_create_alert(name),
            Show::Jobs => Ok(self.show_jobs()),
            Show::Endpoints => Ok(self.show_endpoints()),
            Show::CreateEndpoint(name) => self.show_create_endpoint(name),
            Show::Sinks => Ok(self.show_sinks()),
            Show::CreateSink(name) => self.show_create_sink(name),
            Show::Joins => Ok(self.show_joins()),
            Show::CreateJoin(name) => self.show_create_join(name),
            Show::SearchIndexes => Ok(self.show_search_indexes()),
            Show::CreateSearchIndex(name) => self.show_create_search_index(name),
            Show::Nodes => {
                let cluster = self.cluster().ok_or(EngineError::NoCluster).map_err(from_engine)?;
                cluster.show_nodes().await.map_err(from_engine)
            }
            Show::Partitions => {
                let of_cluster = match self.cluster() {
                    Some(cluster) => cluster.known_partitions().await,
                    None => Vec::new(),
                };
                Ok(self.show_partitions(of_cluster))
            }
            Show::Tables => {
                let hint = "It is a statement of SQL's.";
                Err(SqlError::new(SqlErrorKind::Invalid, "SHOW TABLES does not belong here").with_hint(hint))
            }
            Show::CreateStream(name) => {
                let text = self.with_catalog(|catalog| {
                    catalog.stream(name).map(|entry| Ddl::CreateStream(entry.create.clone()).to_string())
                });
                let of_cluster = || self.cluster()?.statement_of(name);
                let text = text
                    .or_else(of_cluster)
                    .ok_or_else(|| from_engine(EngineError::not_found(ObjectKind::Stream, name.as_str())))?;
                Ok(table([("stream", texts([name.as_str()])), ("statement", texts([&*text]))]))
            }
        }
    }

    fn show_streams(&self) -> RecordBatch {
        let entries: Vec<_> =
            self.with_catalog(|catalog| catalog.streams().map(|(_, entry)| entry.clone()).collect());
        let stored: Vec<Option<Arc<StoredStream>>> =
            entries.iter().map(|entry| self.stored(&entry.create.name)).collect();
        let of_cluster = self.cluster().map(|cluster| cluster.stream_names()).unwrap_or_default();
        // Nothing is known of those but their names.
        let nothing = || of_cluster.iter().map(|_| None);
        let number = |look: &dyn Fn(&StoredStream) -> Option<u64>| -> ArrayRef {
            let values =
                stored.iter().map(|stored| stored.as_ref().and_then(|stored| look(stored)).map(|n| n as i64));
            Arc::new(values.chain(nothing()).collect::<Int64Array>())
        };
        table([
            ("stream", {
                let own = entries.iter().map(|entry| entry.create.name.as_str());
                texts(own.chain(of_cluster.iter().map(|name| name.as_str())))
            }),
            ("stored", {
                let own = entries.iter().map(|entry| Some(entry.create.is_stored()));
                Arc::new(own.chain(of_cluster.iter().map(|_| Some(false))).collect::<BooleanArray>())
            }),
            ("created", {
                let created = entries.iter().map(|entry| Some(entry.created)).chain(nothing());
                Arc::new(created.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
            }),
            ("events", number(&|stored| Some(stored.next()))),
            // Null while the table is not open.
            ("in_table", number(&|stored| stored.table().map(|table| table.appended().0))),
            ("committed", number(&|stored| stored.table().map(|table| table.committed().0))),
        ])
    }

    fn describe(&self, kind: Option<DdlObjectKind>, name: &str) -> Result<RecordBatch, SqlError> {
        if kind == Some(DdlObjectKind::Job) {
            return self.describe_job(name);
        }
        if kind == Some(DdlObjectKind::Join) {
            return self.describe_join(name);
        }
        if kind == Some(DdlObjectKind::Sink) {
            return self.describe_sink(name);
        }
        if kind == Some(DdlObjectKind::View) || kind.is_none() && self.view(name).is_ok() {
            return self.describe_view(name);
        }
        if kind == Some(DdlObjectKind::Alert) {
            return self.describe_alert(name);
        }
        let entry = self.with_catalog(|catalog| {
            catalog.streams().find(|(stream, _)| stream.as_str() == name).map(|(_, entry)| entry.clone())
        });
        let entry = entry.ok_or_else(|| from_engine(EngineError::not_found(ObjectKind::Stream, name)))?;
        let declared = entry.create.columns.iter().map(|column| {
            let default = column.default.as_ref().map(ToString::to_string);
            let checks: Vec<String> = column.checks.iter().map(ToString::to_string).collect();
            (column.name.to_string(), type_text(&column.ty), !column.not_null, default, checks.join(" "))
        });
        let found = entry
            .found
            .iter()
            .map(|column| (column.name.to_string(), type_text(&column.ty), true, None, String::new()));
        let rows: Vec<_> = declared.chain(found).collect();
        Ok(table([
            ("column", texts(rows.iter().map(|row| row.0.as_str()))),
            ("type", texts(rows.iter().map(|row| row.1.as_str()))),
            ("nullable", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<BooleanArray>())),
            ("default", Arc::new(rows.iter().map(|row| row.3.clone()).collect::<StringArray>())),
            ("checks", texts(rows.iter().map(|row| row.4.as_str()))),
        ]))
    }
}

fn not_of_the_engine() -> SqlError {
    SqlError::new(SqlErrorKind::Invalid, "the statement is not one of the engine")
}
