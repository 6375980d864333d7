//! The objects of the catalog as they run, by kind: their statements, tasks, state and status.

pub(crate) mod alerts;
pub(crate) mod cluster;
pub(crate) mod durable_query;
pub(crate) mod endpoints;
pub(crate) mod jobs;
pub(crate) mod kafka_schemas;
pub(crate) mod kafka_sources;
pub(crate) mod lookup_join;
pub(crate) mod saved;
pub(crate) mod search_indexes;
pub(crate) mod sinks;
pub(crate) mod stream_joins;
pub(crate) mod streams;
pub(crate) mod views;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use swiftwater_lang::ddl::Ddl;

use crate::{
    EngineError, HistoryConfig,
    ddl::{AsWritten, Context, carry_out},
    durable::history::History,
    shared::Shared,
};
use alerts::Alert;
use cluster::Cluster;
use durable_query::Followers;
use endpoints::Endpoints;
use jobs::Jobs;
use kafka_sources::TopicReaders;
use lookup_join::JoinedTable;
use sinks::SinkTasks;
use stream_joins::Join;
use swiftwater_runtime::lock_order::{OrderedMutex, OrderedRwLock};
use views::{View, ViewsMemory};

/// The running objects, by kind.
pub(crate) struct Objects {
    /// Running views, by name.
    views: OrderedRwLock<BTreeMap<Box<str>, Arc<View>>>,
    views_memory: OrderedMutex<ViewsMemory>,
    /// Running alerts, by name.
    alerts: OrderedRwLock<BTreeMap<Box<str>, Arc<Alert>>>,
    /// Running stream joins, by name.
    joins: OrderedRwLock<BTreeMap<Box<str>, Arc<Join>>>,
    /// The tables that events are joined with, by name.
    joined_tables: OrderedMutex<BTreeMap<Box<str>, Arc<JoinedTable>>>,
    /// The readers of streams with durable queries.
    followers: Followers,
    pub(crate) endpoints: Endpoints,
    pub(crate) jobs: Jobs,
    sinks: SinkTasks,
    topic_readers: TopicReaders,
    /// This node of a cluster, if it is one.
    cluster: OnceLock<Arc<Cluster>>,
}

impl Objects {
    /// No objects.
    pub(crate) fn new(config: &HistoryConfig) -> Objects {
        Objects {
            views: OrderedRwLock::default(),
            views_memory: OrderedMutex::default(),
            alerts: OrderedRwLock::default(),
            joins: OrderedRwLock::default(),
            joined_tables: OrderedMutex::default(),
            followers: Followers::default(),
            endpoints: Endpoints::default(),
            jobs: Jobs::new(config.jobs_running_max),
            sinks: SinkTasks::default(),
            topic_readers: TopicReaders::default(),
            cluster: OnceLock::new(),
        }
    }
}

impl History {
    /// Runs a statement that changes the catalog; returns true if it changed anything.
    pub(crate) async fn change(self: &Arc<Self>, shared: &Shared, ddl: &Ddl) -> Result<bool, EngineError> {
        let _one_at_a_time = self.statement_lock.lock().await;
        let context = Context { history: self, shared };
        // First, so that no stream lacks the quarantine that its declaration asks for.
        if let Some(quarantine) = self.quarantine_for(ddl)? {
            execute(context, &quarantine).await?;
        }
        execute(context, ddl).await
    }
}

/// Runs a statement; returns true if it changed anything. A new kind of object adds its statements here.
pub(crate) async fn execute(context: Context<'_>, ddl: &Ddl) -> Result<bool, EngineError> {
    match ddl {
        Ddl::CreateStream(create) => carry_out(context, create, ddl).await,
        Ddl::AlterStream(alter) => carry_out(context, alter, ddl).await,
        Ddl::DropStream { name, .. } => carry_out(context, &AsWritten(streams::DropStream(name)), ddl).await,
        Ddl::CreateView(create) => carry_out(context, create, ddl).await,
        Ddl::DropView { name, .. } => carry_out(context, &AsWritten(views::DropView(name)), ddl).await,
        Ddl::CreateAlert(create) => carry_out(context, create, ddl).await,
        Ddl::DropAlert { name, .. } => carry_out(context, &AsWritten(alerts::DropAlert(name)), ddl).await,
        Ddl::CreateSink(create) => carry_out(context, create, ddl).await,
        Ddl::DropSink { name, .. } => carry_out(context, &sinks::DropSink(name), ddl).await,
        Ddl::CreateJoin(create) => carry_out(context, create, ddl).await,
        Ddl::DropJoin { name, .. } => carry_out(context, &AsWritten(stream_joins::DropJoin(name)), ddl).await,
        Ddl::CreateJob(create) => carry_out(context, create, ddl).await,
        Ddl::AlterJob { name, .. } => carry_out(context, &AsWritten(jobs::AlterJob(name)), ddl).await,
        Ddl::DropJob { name, .. } => carry_out(context, &jobs::DropJob(name), ddl).await,
        Ddl::CreateEndpoint(create) => carry_out(context, create, ddl).await,
        Ddl::DropEndpoint { .. } => carry_out(context, &AsWritten(endpoints::DropEndpoint), ddl).await,
        Ddl::CreateSearchIndex(create) => carry_out(context, create, ddl).await,
        Ddl::AlterSearchIndex(alter) => carry_out(context, alter, ddl).await,
        Ddl::DropSearchIndex { table, .. } => {
            carry_out(context, &AsWritten(search_indexes::DropSearchIndex(table)), ddl).await
        }
        Ddl::CreateSaved(create) => carry_out(context, create, ddl).await,
        Ddl::DropSaved { .. } => carry_out(context, &AsWritten(saved::DropSaved), ddl).await,
        // They change no definition, so they are not logged.
        Ddl::SkipPartition(skip) => context.history.skip_partition(skip).await,
        Ddl::RebuildSearchIndex(rebuild) => context.history.rebuild_index(rebuild).await,
        // They change nothing.
        Ddl::RunJob { .. }
        | Ddl::Show(_)
        | Ddl::Describe { .. }
        | Ddl::DescribeEndpoint { .. }
        | Ddl::DescribeSearchIndex { .. } => Ok(false),
    }
}
