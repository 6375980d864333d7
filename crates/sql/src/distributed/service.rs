//! The calls of a worker's port.
//!
//! Calls are taken, and answers sent, on the thread of connections; what they compute runs on the threads of statements. So a worker
//! that computes still answers those who ask whether it is there, and learns at once that a statement has ended.
//!
//! A task's caller keeps the call `CoordinatorChannel` open as long as its statement runs. When it ends, in whatever way, all tasks of
//! the statement are told to end. The call [`PROGRESS`] returns what they have read so far.

use std::convert::Infallible;
use std::sync::Arc;

use datafusion_distributed::grpc::BoxCloneSyncChannel;
use http_body_util::BodyExt;
use prost::Message;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::headers::WorkerHeaders;
use super::statements::{Call, TaskStatement, TaskStatements};
use crate::watched::Watched;

/// The name of the call for the progress of a statement.
const PROGRESS: &str = "Progress";
const PROGRESS_PATH: &str = "/worker.WorkerService/Progress";
/// The calls of the library that begin a task, and that read its rows.
const COORDINATOR_CHANNEL: &str = "CoordinatorChannel";
const EXECUTE_TASK: &str = "ExecuteTask";

/// What the tasks of a statement on one worker have read so far.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgressMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) tasks: Vec<TaskProgress>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TaskProgress {
    #[prost(uint32, tag = "1")]
    pub(super) stage: u32,
    #[prost(uint32, tag = "2")]
    pub(super) task: u32,
    #[prost(uint64, tag = "3")]
    pub(super) rows: u64,
    #[prost(uint64, tag = "4")]
    pub(super) bytes: u64,
}

/// The progress of a statement's tasks on a worker.
pub(super) async fn progress(
    worker: BoxCloneSyncChannel,
    headers: WorkerHeaders,
) -> Result<ProgressMessage, Status> {
    let mut client = tonic::client::Grpc::new(worker);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(());
    *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers.0);
    let path = http::uri::PathAndQuery::from_static(PROGRESS_PATH);
    let codec = ProstCodec::<(), ProgressMessage>::default();
    client.unary(request, path, codec).await.map(Response::into_inner)
}

/// The library's service, with each call on the threads of statements, as part of its statement.
#[derive(Clone)]
pub(super) struct TaskService<S> {
    pub(super) inner: S,
    pub(super) threads: Handle,
    pub(super) statements: Arc<TaskStatements>,
}

impl<S: NamedService> NamedService for TaskService<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for TaskService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let number = WorkerHeaders::statement(request.headers());
        let call = request.uri().path().rsplit('/').next().unwrap_or_default();
        let (is_begin, is_read) = (call == COORDINATOR_CHANNEL, call == EXECUTE_TASK);
        if call == PROGRESS {
            let read = ReadProgress(self.statements.get(number));
            return Box::pin(async move {
                let codec = ProstCodec::<ProgressMessage, ()>::default();
                Ok(tonic::server::Grpc::new(codec).unary(read, request).await)
            });
        }
        // One that has no place is refused by the call itself.
        let entered = match is_begin || is_read {
            true => self.statements.enter(number).ok(),
            false => None,
        };
        let Some(entered) = entered else { return spawned(&self.threads, self.inner.call(request)) };
        let monitor = Arc::clone(&entered.monitor);
        let request = match is_begin {
            true => {
                let ending = Ending(entered);
                request.map(|body| {
                    with_each_frame(body, move |_| {
                        let _until_the_end = &ending;
                    })
                })
            }
            false => request,
        };
        let response = Watched::new(Arc::clone(&monitor), self.inner.call(request));
        let response = spawned(&self.threads, response);
        Box::pin(async move {
            let response = response.await?;
            // Rows that are sent are the statement's no more.
            Ok(response.map(|body| with_each_frame(body, move |bytes| monitor.record_freed(bytes))))
        })
    }
}

/// Calls a function with the bytes of each frame of a body, and drops it with the body.
fn with_each_frame(body: Body, mut each: impl FnMut(usize) + Send + 'static) -> Body {
    Body::new(body.map_frame(move |frame| {
        each(frame.data_ref().map_or(0, |data| data.len()));
        frame
    }))
}

/// Runs a call on other threads. It ends when nobody waits for its answer.
fn spawned(
    threads: &Handle,
    call: impl Future<Output = Result<http::Response<Body>, Infallible>> + Send + 'static,
) -> BoxFuture<http::Response<Body>, Infallible> {
    struct Aborted(AbortHandle);
    impl Drop for Aborted {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let task = threads.spawn(call);
    let aborted = Aborted(task.abort_handle());
    Box::pin(async move {
        let response = task.await;
        drop(aborted);
        response.unwrap_or_else(|_| Ok(Status::internal("a call to this worker panicked").into_http()))
    })
}

/// Ends the tasks of a statement when its caller does.
struct Ending(Call);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.statement.cancel();
    }
}

struct ReadProgress(Option<Arc<TaskStatement>>);

impl UnaryService<()> for ReadProgress {
    type Response = ProgressMessage;
    type Future = BoxFuture<Response<ProgressMessage>, Status>;

    fn call(&mut self, _request: Request<()>) -> Self::Future {
        let read = self.0.as_ref().map(|statement| statement.scanned()).unwrap_or_default();
        let tasks = read.into_iter().map(|(number, rows, bytes)| TaskProgress {
            stage: number.stage,
            task: number.task,
            rows,
            bytes,
        });
        let message = ProgressMessage { tasks: tasks.collect() };
        Box::pin(std::future::ready(Ok(Response::new(message))))
    }
}
