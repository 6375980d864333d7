//! The engine's façade: a runtime with the durable state beside it.

mod endpoints;
mod saved;
mod views;

use std::{
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use swiftwater_event::{Clock, EventBatch, Step, StreamName, Type};
use swiftwater_lang::{ParseOptions, ddl::ColumnDef};
use swiftwater_log::{DirDisk, Disk};
use swiftwater_runtime::Runtime;
use swiftwater_sql::{OtherStatements, Sql, SqlError, Tables};
use swiftwater_store::Store;
use tracing::info;

use crate::{
    Ack, ActivitiesAnswer, ActivitiesRequest, ActivityAnswer, ActivityFollow, ActivityRequest, AppendOptions,
    Appended, Backup, BackupOptions, ClusterQueryStatus, ClusterStatus, Detached, Disks, EndReason,
    EngineConfig, EngineError, FieldsAnswer, HistoryConfig, HistoryError, HistoryMetrics, IndexProgress,
    Principal, QueryForm, QueryId, RunningSearch, RuntimeError, SearchAnswer, SearchError, SearchFollow,
    SearchMetrics, SearchRequest, SubmitOptions, Ticket,
    durable::{directory::DataDir, history::History},
    durable_objects::ForRuntime,
    objects::cluster::Cluster,
    searches::Searches,
    shared::Shared,
    statements::Statements,
    supervisor::TaskKind,
    tables::HistoryTables,
};

/// A running engine. Clones are the same engine; it stops with [`Engine::shutdown`], or with the process.
///
/// It derefs to its [`Runtime`], which has the calls for live queries alone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

impl Deref for Engine {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.shared.runtime
    }
}

impl Engine {
    /// Starts a runtime without anything durable. `config.shards` 0 means one per core.
    pub fn start(config: EngineConfig, clock: Arc<dyn Clock>) -> Engine {
        Engine { shared: Arc::new(Shared::new(Runtime::start(config, clock))) }
    }

    /// Starts an engine as [`Engine::start`] does, with a data directory: stored streams continue at their last
    /// position.
    pub async fn open(
        config: EngineConfig,
        history: HistoryConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Engine, HistoryError> {
        let path = history.dir.clone();
        let dir = tokio::task::spawn_blocking(move || DataDir::open(&path));
        let dir = dir.await.map_err(|_| HistoryError::Broken)??;
        let disk = |path: PathBuf| -> Result<Arc<dyn Disk>, HistoryError> {
            let opened = DirDisk::open(&path);
            Ok(Arc::new(opened.map_err(|source| HistoryError::Directory { path, source })?))
        };
        let disks = Disks { log: disk(dir.log())?, catalog: disk(dir.catalog())?, views: Some(dir.views()) };
        let location = dir.tables().to_string_lossy().into_owned();
        let store = Store::open(history.store(location), Arc::clone(&clock)).await?;
        Engine::open_on(config, history, (Some(dir), disks, store), clock).await
    }

    /// Opens an engine as [`Engine::open`] does, on given disks and a given store: for tests in which they fail.
    pub async fn open_with(
        config: EngineConfig,
        history: HistoryConfig,
        (disks, store): (Disks, Store),
        clock: Arc<dyn Clock>,
    ) -> Result<Engine, HistoryError> {
        Engine::open_on(config, history, (None, disks, store), clock).await
    }

    async fn open_on(
        config: EngineConfig,
        history: HistoryConfig,
        (dir, disks, store): (Option<DataDir>, Disks, Store),
        clock: Arc<dyn Clock>,
    ) -> Result<Engine, HistoryError> {
        let engine = Engine::start(config, clock);
        match History::open(history, dir, disks, store, &engine.shared).await {
            Ok(history) => {
                let tables = Arc::new(HistoryTables::new(&engine.shared));
                history.reconcile_at_start(&tables).await;
                let given: Arc<dyn Tables> = Arc::<HistoryTables>::clone(&tables);
                let sql = Sql::new(history.sql_options().await?, given)?;
                let _ = engine.shared.history.set(Arc::clone(&history));
                engine.set_durable(Arc::new(ForRuntime(Arc::clone(&history))));
                let _ = engine.shared.sql.set(Arc::new(sql));
                let _ = engine.shared.tables.set(tables);
                history.start_alerts(&engine.shared);
                history.start_joins(&engine.shared);
                history.start_followers(&engine.shared);
                let shared = Arc::downgrade(&engine.shared);
                history.run_service((TaskKind::Reader, "the scheduler of jobs"), move |history| {
                    history.run_jobs(Weak::clone(&shared))
                });
                history.run_service((TaskKind::Reader, "the start of sinks"), History::run_sinks);
                let readers = (TaskKind::Reader, "the start of readers of topics");
                history.run_service(readers, History::run_topic_readers);
                history.start_cluster(&engine.shared);
                let shared = Arc::downgrade(&engine.shared);
                history.run_service((TaskKind::Table, "the opening of tables"), move |history| {
                    history.reconcile_store(Weak::clone(&shared))
                });
                Ok(engine)
            }
            Err(error) => {
                engine.shutdown(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    /// Starts a backup of everything durable: see [`Backup`].
    pub async fn start_backup(
        &self,
        _principal: &Principal,
        options: BackupOptions,
    ) -> Result<Arc<Backup>, EngineError> {
        self.history()?.start_backup(options).await
    }

    /// A running backup.
    pub fn backup(&self, _principal: &Principal, id: &str) -> Result<Arc<Backup>, EngineError> {
        self.history()?.backup(id)
    }

    /// Ends a backup.
    pub fn end_backup(&self, _principal: &Principal, id: &str) -> Result<(), EngineError> {
        self.history()?.end_backup(id)
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn history(&self) -> Result<&Arc<History>, EngineError> {
        self.shared.history.get().ok_or(EngineError::NoHistory)
    }

    /// Appends checked events to a stream, which exists from its first one on; waits while too many bytes wait to be
    /// matched, or to be stored. An empty batch only counts its rejections. A stored stream's events are on disk when
    /// [`Engine::synced`] returns.
    pub async fn append(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        self.shared.append(stream, batch, options).await
    }

    /// True if a stream keeps events that it does not take: then [`AppendOptions::refused`] is to have their texts.
    pub fn quarantines(&self, stream: &StreamName) -> bool {
        match self.shared.stored(stream) {
            Some((_, stored)) => stored.declared().quarantines(),
            None => self.shared.unstored(stream).is_some_and(|(_, declared)| declared.quarantines()),
        }
    }

    /// True if the server stores events, and the stream is declared neither as stored nor as live-only: nothing of its events is
    /// stored, and its sender may not know.
    pub fn discards_events_of(&self, stream: &StreamName) -> bool {
        let shared = &self.shared;
        shared.history.get().is_some()
            && shared.stored(stream).is_none()
            && shared.unstored(stream).is_none()
            && !self.is_of_cluster(stream)
    }

    /// True if a stream is one of the cluster: its events are in its topic, and this server remembers no numbers of requests.
    pub fn is_of_cluster(&self, stream: &StreamName) -> bool {
        self.shared.history.get().is_some_and(|history| history.is_of_cluster(stream))
    }

    /// Creates a stream whose first events are about to be appended, where the settings say that such streams are stored.
    pub async fn ensure_stored(
        &self,
        _principal: &Principal,
        stream: &StreamName,
    ) -> Result<(), EngineError> {
        match self.shared.history.get() {
            Some(history) if history.stores_new_streams() && self.discards_events_of(stream) => {
                match self.shared.is_found_in_cluster(stream).await? {
                    true => Ok(()),
                    false => history.create_stream(&self.shared, stream).await,
                }
            }
            _ => Ok(()),
        }
    }

    /// Names another node if this one takes no events of a stream of the cluster: ask before any event of a request is appended. Events
    /// that cannot be sent on are appended all the same.
    pub async fn check_receives(&self, stream: &StreamName) -> Result<(), EngineError> {
        match self.cluster() {
            Ok(cluster) if self.is_of_cluster(stream) => cluster.check_receives().await,
            _ => Ok(()),
        }
    }

    /// The fields that a stream declares columns for, by name, with their types; without those that lie deeper in its events.
    pub fn declared_fields(&self, stream: &StreamName) -> Vec<(Box<str>, Type)> {
        let declared = match (self.shared.stored(stream), self.shared.unstored(stream)) {
            (Some((_, stored)), _) => stored.declared(),
            (None, Some((_, declared))) => declared,
            (None, None) => return Vec::new(),
        };
        let field = |column: &ColumnDef| match column.event_path().steps() {
            [Step::Key(name)] => Some((name.clone(), column.ty.clone())),
            _ => None,
        };
        declared.create.columns.iter().filter_map(field).collect()
    }

    /// SQL over what is stored.
    pub fn sql(&self) -> Result<&Arc<Sql>, EngineError> {
        self.shared.sql.get().ok_or(EngineError::NoHistory)
    }

    /// Searches stored events.
    pub async fn search(
        &self,
        _principal: &Principal,
        request: &SearchRequest,
    ) -> Result<SearchAnswer, SearchError> {
        crate::search::search(&self.shared, request).await
    }

    /// Follows a search: its newest hits, oldest first, then each further event that matches, once. `position` resumes after
    /// the answer that had it.
    pub async fn follow_search(
        &self,
        _principal: &Principal,
        request: SearchRequest,
        position: Option<&str>,
    ) -> Result<SearchFollow, SearchError> {
        SearchFollow::begin(&self.shared, request, position).await
    }

    /// The progress of the index files of a stream, once all its events have one, or after some time.
    pub async fn await_search_index(
        &self,
        _principal: &Principal,
        stream: &StreamName,
        wait: std::time::Duration,
    ) -> Result<IndexProgress, SqlError> {
        let history = self.shared.history.get();
        let history = history.ok_or_else(|| crate::error::sql::from_engine(EngineError::NoHistory))?;
        history.await_index(stream, wait).await
    }

    /// Summarizes the columns of the stored events of one stream that match, each with so many of its most frequent values.
    pub async fn search_fields(
        &self,
        _principal: &Principal,
        request: &SearchRequest,
        values: usize,
    ) -> Result<FieldsAnswer, SearchError> {
        crate::search::fields(&self.shared, request, values).await
    }

    /// The stored events of the activity with an id.
    pub async fn activity(
        &self,
        _principal: &Principal,
        request: &ActivityRequest,
    ) -> Result<ActivityAnswer, SearchError> {
        crate::search::activity(&self.shared, request).await
    }

    /// Follows an activity: its newest events, oldest first, then each further event that has the id, once. `position` resumes
    /// after the answer that had it.
    pub async fn follow_activity(
        &self,
        _principal: &Principal,
        request: &ActivityRequest,
        position: Option<&str>,
    ) -> Result<ActivityFollow, SearchError> {
        ActivityFollow::begin(&self.shared, request, position).await
    }

    /// The activities whose events satisfy a tree of conditions.
    pub async fn activities(
        &self,
        _principal: &Principal,
        request: &ActivitiesRequest,
    ) -> Result<ActivitiesAnswer, SearchError> {
        crate::search::activities(&self.shared, request).await
    }

    /// The searches that wait or run.
    pub fn searches(&self, _principal: &Principal) -> Vec<RunningSearch> {
        self.registered_searches().map(|searches| searches.list()).unwrap_or_default()
    }

    /// A search that waits, runs or ended lately.
    pub fn running_search(&self, _principal: &Principal, id: &str) -> Option<RunningSearch> {
        self.registered_searches()?.get(id)
    }

    /// Ends a search; false if there is none of that name.
    pub fn end_search(&self, _principal: &Principal, id: &str) -> bool {
        self.registered_searches().is_some_and(|searches| searches.end(id))
    }

    /// The counts of all searches and index files; none without stored events.
    pub fn search_metrics(&self) -> Option<SearchMetrics> {
        let history = self.shared.history.get()?;
        let (files_built, files_merged) = history.index_builds.counts();
        Some(SearchMetrics { files_built, files_merged, ..self.shared.searches(history).metrics() })
    }

    fn registered_searches(&self) -> Option<&Arc<Searches>> {
        self.shared.history.get().map(|history| self.shared.searches(history))
    }

    /// The executor of the engine's own statements, which are not SQL.
    pub fn statements(&self) -> Arc<dyn OtherStatements> {
        Arc::new(Statements::new(&self.shared))
    }

    /// Acknowledgement of a stream's events unless the request says otherwise; none if the stream is not stored.
    pub fn ack(&self, stream: &StreamName) -> Option<Ack> {
        self.shared.ack(stream)
    }

    /// The reason why events cannot be stored at present; none also if nothing is stored.
    pub fn not_ready(&self) -> Option<EngineError> {
        self.shared.history.get()?.not_ready()
    }

    /// Waits until events that were appended are on disk. If the log cannot write them for ten seconds, the error has the
    /// cause: they may be stored later, or never.
    pub async fn synced(&self, ticket: Ticket) -> Result<(), EngineError> {
        self.shared.synced(ticket).await
    }

    /// Loads the tables that a query is joined with into memory: call it before the query is planned or submitted.
    pub async fn pin_joined(&self, text: &str, options: &SubmitOptions) -> Result<(), EngineError> {
        let Some(history) = self.shared.history.get().filter(|_| options.form == QueryForm::Bql) else {
            return Ok(());
        };
        let parse_options = ParseOptions {
            parameters: &options.parameters,
            text_bytes_max: self.config().query_text_bytes_max,
            ..ParseOptions::new(options.dialect, self.clock().now())
        };
        history.pin_joined(&self.shared, text, &parse_options).await
    }

    /// Asks a query of all nodes if it is over a stream of the cluster: call it right before the query is submitted, with the options
    /// that it is submitted with.
    pub async fn ask_cluster(&self, text: &str, options: &mut SubmitOptions) -> Result<(), EngineError> {
        if let Ok(cluster) = self.cluster() {
            options.remote = cluster.ask(text, options).await?;
        }
        Ok(())
    }

    /// True if this server is a node of a cluster.
    pub fn is_node(&self) -> bool {
        self.shared.history.get().is_some_and(|history| history.cluster().is_some())
    }

    /// The state of the cluster that this server is a node of. Asks the brokers: takes some milliseconds, or fails after some seconds.
    pub async fn cluster_status(&self) -> Result<ClusterStatus, EngineError> {
        self.cluster()?.status().await
    }

    /// The queries of all nodes of the cluster, the oldest first, so many at most.
    pub fn cluster_queries(&self, limit: usize) -> Result<Vec<ClusterQueryStatus>, EngineError> {
        Ok(self.cluster()?.all_queries(limit))
    }

    /// Has this node of a cluster take no more work, or take work again. Returns at once: [`Engine::cluster_status`] tells when
    /// its partitions are others', and the queries that it serves have ended.
    pub fn drain_cluster_node(&self, is_draining: bool) -> Result<(), EngineError> {
        self.cluster()?.drain(is_draining);
        Ok(())
    }

    /// The error that names the node that serves a query, if it is another node of this cluster.
    pub async fn other_node_of_query(&self, id: &QueryId) -> Option<EngineError> {
        self.cluster().ok()?.node_of_query(id).await
    }

    fn cluster(&self) -> Result<&Arc<Cluster>, EngineError> {
        self.shared.history.get().and_then(|history| history.cluster()).ok_or(EngineError::NoCluster)
    }

    /// Starts a query that outlives its client, and where it can, the server: a native one over a stored stream goes on
    /// after a restart. As [`Engine::submit`]; when this returns it is on disk.
    pub async fn submit_detached(
        &self,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Detached, EngineError> {
        self.shared.submit_detached(principal, text, options).await
    }

    /// Runs a query to its end, and answers its plan and what it cost. Refused where nothing would end it.
    pub async fn explain_analyze(
        &self,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<String, EngineError> {
        self.pin_joined(text, &options).await?;
        Ok(self.shared.runtime.explain_analyze(principal, text, options).await?)
    }

    /// Ends a query as [`Runtime::end_query`] does, also a durable one.
    pub fn end_query(
        &self,
        principal: &Principal,
        id: &QueryId,
        reason: EndReason,
    ) -> Result<(), EngineError> {
        let handle = self.handle(id)?;
        if handle.following.is_none() {
            return Ok(self.shared.runtime.end_query(principal, id, reason)?);
        }
        // It ends where its stream was at this call, and not where its own is by now: the runtime does not end it.
        match self.shared.end_durable(&handle, reason)? || self.shared.forget(id) {
            true => Ok(()),
            false => Err(RuntimeError::NoQuery(id.to_string()).into()),
        }
    }

    /// The metrics of the durable state; none without a data directory.
    pub fn history_metrics(&self) -> Option<HistoryMetrics> {
        self.shared.history.get().map(|history| history.metrics())
    }

    /// The same without jobs, sinks and topics, and with the tables of these streams alone: its cost does not grow with the
    /// number of streams.
    pub fn history_metrics_of(&self, streams: &[StreamName]) -> Option<HistoryMetrics> {
        self.shared.history.get().map(|history| history.metrics_of(streams))
    }

    /// Waits until durable queries, who see events when these are on disk, have seen every event appended so far, and their
    /// windows and durations are closed that are over now.
    pub async fn followed(&self) {
        if let Some(history) = self.shared.history.get() {
            history.all_followed().await;
        }
    }

    /// Takes no more events and queries, looks at what waits, gives every query its final result, and stops; after `grace`
    /// it no longer waits for events to be looked at. A second caller waits for the same end; if the first is dropped
    /// half-way, the second continues.
    pub async fn shutdown(&self, grace: Duration) {
        let Some(history) = self.shared.history.get() else {
            return self.shared.runtime.shutdown(grace).await;
        };
        self.shared.runtime.shutdown_with(|| self.stop(history, grace)).await;
    }

    async fn stop(&self, history: &Arc<History>, grace: Duration) {
        if tokio::time::timeout(grace, history.objects.jobs.stop()).await.is_err() {
            info!("jobs were still ending when the grace period was over");
        }
        self.close_intake(grace).await;
        // Before their readers go: how far they were.
        let _ = tokio::time::timeout(grace, history.stop_followers()).await;
        self.end_all();
        history.close(grace).await;
        // They hold the data directory locked as long as they are there.
        self.stop_threads(grace).await;
    }
}
