//! A worker: runs the tasks of other nodes' statements, on SQL's threads.
//!
//! All tasks of a statement on one worker share a memory pool of `memory_bytes_max`. A worker that runs as many statements as it may
//! refuses another one before anything of it ran.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
    WorkerSessionBuilder,
};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Status};

use super::channel::{Channels, Connections, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};
use super::codec::{PlanCodec, received};
use super::headers::{WorkerHeaders, check, version};
use super::pinned::PinnedPlans;
use crate::session::{PlanGoal, Sessions};
use crate::{ErrorKind, SqlError};

/// The part of an error of a worker that has no place for a statement. The caller asks again.
pub(super) const BUSY: &str = "this worker runs as many statements as it may";

/// Makes the sessions of tasks.
pub(super) struct TaskSessions {
    pub(super) sessions: Arc<Sessions>,
    pub(super) codec: Arc<PlanCodec>,
    pub(super) connections: Arc<Connections>,
    pub(super) secret: Option<Arc<str>>,
    pub(super) statements_max: usize,
    /// The runtime of each statement with tasks here, which its tasks share.
    pub(super) statements: Mutex<HashMap<u64, Weak<RuntimeEnv>>>,
    /// The leaves of this node's own statements, which others read here.
    pub(super) pinned: Arc<PinnedPlans>,
    /// The number of tasks that were begun.
    pub(super) tasks: Arc<AtomicU64>,
}

impl TaskSessions {
    /// The runtime of a statement; an error if there is no place for it.
    fn runtime(&self, statement: u64) -> Result<Arc<RuntimeEnv>> {
        let mut statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = statements.get(&statement).and_then(Weak::upgrade) {
            return Ok(runtime);
        }
        statements.retain(|_, runtime| runtime.strong_count() > 0);
        // Its own statements have a place already, as they run.
        if statements.len() >= self.statements_max && !self.pinned.is_of(statement) {
            return Err(DataFusionError::ResourcesExhausted(BUSY.to_owned()));
        }
        let runtime = self.sessions.statement_runtime()?;
        statements.insert(statement, Arc::downgrade(&runtime));
        Ok(runtime)
    }
}

#[async_trait]
impl WorkerSessionBuilder for TaskSessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let WorkerQueryContext { mut builder, headers } = context;
        let statement = WorkerHeaders::statement(&headers);
        let runtime = self.runtime(statement)?;
        let headers = WorkerHeaders::new(self.secret.as_ref(), statement)?;
        let template = self.sessions.template();
        self.tasks.fetch_add(1, Ordering::Relaxed);
        let config = builder.config().get_or_insert_default();
        // The caller's, for what is sent.
        let batch_rows = config.options().execution.batch_size;
        let (ours, options) = (self.sessions.config(PlanGoal::Speed), config.options_mut());
        options.execution = ours.options().execution.clone();
        if usize::from(batch_rows) < ours.batch_size() {
            options.execution.batch_size = batch_rows;
        }
        options.optimizer = ours.options().optimizer.clone();
        options.sql_parser = ours.options().sql_parser.clone();
        config.set_extension(Arc::new(headers.clone()));
        let mut functions: Vec<_> = template.scalar_functions().values().cloned().collect();
        functions.extend(self.codec.functions.unnamed().iter().cloned());
        let channels =
            Channels { connections: Arc::clone(&self.connections), codec: Arc::clone(&self.codec), headers };
        let options = Arc::clone(config.options());
        let rewrite = move |event: WorkerPlanRewriteEvent<'_>| {
            Ok(WorkerPlanRewriteEventResponse::new(received(event.plan, &options)?))
        };
        let builder: SessionStateBuilder = builder
            .with_runtime_env(runtime)
            .with_scalar_functions(functions)
            .with_aggregate_functions(template.aggregate_functions().values().cloned().collect())
            .with_window_functions(template.window_functions().values().cloned().collect())
            .with_distributed_user_codec_arc(Arc::clone(&self.codec) as _)
            .with_distributed_channel_resolver(channels)
            .with_distributed_worker_plan_rewrite_handler(rewrite);
        Ok(builder.build())
    }
}

/// Serves tasks until `stop` completes.
pub(super) async fn serve(
    sessions: TaskSessions,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), SqlError> {
    let unavailable = |error: Box<dyn std::error::Error + Send + Sync>| {
        SqlError::new(ErrorKind::Unavailable, format!("tasks of other nodes cannot be served: {error}"))
    };
    let secret = sessions.secret.clone();
    let worker = Worker::from_session_builder(sessions).with_version(version());
    let authorized = move |request: Request<()>| {
        let headers = request.metadata().clone().into_headers();
        match check(&headers, secret.as_ref()) {
            Ok(()) => Ok(request),
            Err((true, text)) => Err(Status::unauthenticated(text)),
            Err((false, text)) => Err(Status::failed_precondition(text)),
        }
    };
    let service = InterceptedService::new(worker.into_worker_server(), authorized);
    listener.set_nonblocking(true).map_err(|error| unavailable(error.into()))?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| unavailable(error.into()))?;
    let incoming =
        TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(KEEP_ALIVE_INTERVAL));
    // Otherwise a task whose caller is cut off would never end.
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT));
    let served = { server }.add_service(service).serve_with_incoming_shutdown(incoming, stop).await;
    served.map_err(|error| unavailable(error.into()))
}
