//! A worker: runs the tasks of other nodes' statements.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion_distributed::{
    DistributedExt, Worker, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
    WorkerSessionBuilder,
};
use tokio::runtime::Handle;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Status};

use super::channel::{Channels, Connections, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};
use super::codec::{PlanCodec, received};
use super::headers::{WorkerHeaders, check, version};
use super::service::TaskService;
use super::statements::{Refusal, TaskStatement, TaskStatements};
use crate::session::{PlanGoal, Sessions};
use crate::stoppable::stoppable;
use crate::{ErrorKind, SqlError};

/// Makes the sessions of tasks.
pub(super) struct TaskSessions {
    pub(super) sessions: Arc<Sessions>,
    pub(super) codec: Arc<PlanCodec>,
    pub(super) connections: Arc<Connections>,
    pub(super) secret: Option<Arc<str>>,
    pub(super) statements: Arc<TaskStatements>,
    /// The number of tasks that were begun.
    pub(super) tasks: Arc<AtomicU64>,
}

impl TaskSessions {
    /// The statement of a call that runs, which holds its place.
    fn statement(&self, number: u64) -> Result<Arc<TaskStatement>> {
        self.statements.get(number).ok_or_else(|| match self.statements.enter(number) {
            Err(refusal) => refusal.into(),
            // A place came free meanwhile. The call has none.
            Ok(_) => Refusal::Busy.into(),
        })
    }
}

#[async_trait]
impl WorkerSessionBuilder for TaskSessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let WorkerQueryContext { mut builder, headers } = context;
        let number = WorkerHeaders::statement(&headers);
        let statement = self.statement(number)?;
        let task = WorkerHeaders::task(&headers);
        let headers = WorkerHeaders::new(self.secret.as_ref(), number)?;
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
        let channels = Channels {
            connections: Arc::clone(&self.connections),
            codec: Arc::clone(&self.codec),
            headers,
            progress: None,
        };
        let options = Arc::clone(config.options());
        let runtime = Arc::clone(&statement.runtime);
        let rewrite = move |event: WorkerPlanRewriteEvent<'_>| {
            let plan = stoppable(received(event.plan, &options)?)?;
            statement.add(task, &plan);
            Ok(WorkerPlanRewriteEventResponse::new(plan))
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

/// Serves tasks until `stop` completes. Runs on the thread of connections; tasks run on `threads`.
pub(super) async fn serve(
    sessions: TaskSessions,
    threads: Handle,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), SqlError> {
    let unavailable = |error: Box<dyn std::error::Error + Send + Sync>| {
        SqlError::new(ErrorKind::Unavailable, format!("tasks of other nodes cannot be served: {error}"))
    };
    let secret = sessions.secret.clone();
    let statements = Arc::clone(&sessions.statements);
    let worker = Worker::from_session_builder(sessions).with_version(version());
    let authorized = move |request: Request<()>| {
        let headers = request.metadata().clone().into_headers();
        match check(&headers, secret.as_ref()) {
            Ok(()) => Ok(request),
            Err((true, text)) => Err(Status::unauthenticated(text)),
            Err((false, text)) => Err(Status::failed_precondition(text)),
        }
    };
    let service = TaskService { inner: worker.into_worker_server(), threads, statements };
    let service = InterceptedService::new(service, authorized);
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
