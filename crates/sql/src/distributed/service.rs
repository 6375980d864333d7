//! The calls of a worker's port.
//!
//! Calls are taken, and answers sent, on the thread of connections; what they compute runs on the threads of statements. So a worker
//! that computes still answers those who ask whether it is there, and learns at once that a statement has ended.
//!
//! A task's caller keeps the call `CoordinatorChannel` open as long as its statement runs. When it ends, in whatever way, all tasks of
//! the statement are told to end. The call [`PROGRESS`] returns what they have read so far.

use std::convert::Infallible;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion_distributed::grpc::BoxCloneSyncChannel;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::headers::WorkerHeaders;
use super::statements::{Call, Refusal, TaskStatement, TaskStatements};
use crate::watched::{RunMonitor, Watched};

/// The name of the call for the progress of a statement.
const PROGRESS: &str = "Progress";
const PROGRESS_PATH: &str = "/worker.WorkerService/Progress";
/// The calls of the library that begin a task, and that read its rows.
const COORDINATOR_CHANNEL: &str = "CoordinatorChannel";
const EXECUTE_TASK: &str = "ExecuteTask";

/// The rows and bytes that the tasks of a statement on one worker have read so far.
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
        if !is_begin && !is_read {
            return spawned(&self.threads, self.inner.call(request));
        }
        let entered = match self.statements.enter(number) {
            Ok(entered) => entered,
            Err(refusal @ Refusal::Ended) => return refused(&refusal.into()),
            // The call itself says so, in the library's way.
            Err(Refusal::Busy | Refusal::Other(_)) => {
                return spawned(&self.threads, self.inner.call(request));
            }
        };
        let (monitor, statement) = (Arc::clone(&entered.monitor), Arc::clone(&entered.statement));
        let request = match is_begin {
            // A read of a leaf that is pinned here is a part of one of this node's own statements, which may be read again.
            true if !self.statements.is_own(number) => {
                request.map(|body| until_the_end(body, entered, Arc::clone(&self.statements)))
            }
            _ => request,
        };
        let response = Watched::new(Arc::clone(&monitor), self.inner.call(request));
        let response = spawned(&self.threads, response);
        Box::pin(async move {
            let response = tokio::select! {
                response = response => response?,
                // It may wait for a task that does not come any more.
                () = statement.ended() => return refused(&Refusal::Ended.into()).await,
            };
            // The counts of a task come after the end of its statement.
            Ok(if is_begin { response } else { response.map(|body| rows(body, statement, monitor)) })
        })
    }
}

/// The rows of a task. Those that are sent are the statement's no more.
///
/// At the end of its statement the task ends, even if its reader neither reads nor goes away: the library keeps readers for a while.
fn rows(mut body: Body, statement: Arc<TaskStatement>, monitor: Arc<RunMonitor>) -> Body {
    let (sender, mut frames) = mpsc::channel(1);
    tokio::spawn(async move {
        let ended = statement.ended();
        tokio::pin!(ended);
        loop {
            let place = tokio::select! {
                place = sender.reserve() => place,
                () = &mut ended => break,
            };
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = sender.closed() => None,
                () = &mut ended => break,
            };
            let (Ok(place), Some(frame)) = (place, frame) else { return };
            let bytes = frame.as_ref().ok().and_then(|frame| frame.data_ref()).map_or(0, |data| data.len());
            monitor.record_freed(bytes);
            let is_broken = frame.is_err();
            place.send(frame);
            if is_broken {
                return;
            }
        }
        let ended = DataFusionError::from(Refusal::Ended).strip_backtrace();
        // There may be no place: then the body ends without its trailers, which is an error, too.
        let _ = sender.try_send(Err(Status::cancelled(ended)));
    });
    Body::new(StreamBody::new(stream::poll_fn(move |context| frames.poll_recv(context))))
}

/// The body of a request. When it ends, or its reader does, all tasks of its statement are told to end.
///
/// It is read by the thread of connections, as the threads of statements may all compute. It has the plan of a task, which is as long
/// as it is, so the queue has no limit.
fn until_the_end(mut body: Body, call: Call, statements: Arc<TaskStatements>) -> Body {
    let (sender, mut frames) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = sender.closed() => None,
            };
            let Some(frame) = frame else { break };
            // A body that was broken off would say so again and again.
            let is_broken = frame.is_err();
            if sender.send(frame).is_err() || is_broken {
                break;
            }
        }
        statements.end(&call);
    });
    Body::new(StreamBody::new(stream::poll_fn(move |context| frames.poll_recv(context))))
}

/// The answer to a call that is not taken.
fn refused(error: &DataFusionError) -> BoxFuture<http::Response<Body>, Infallible> {
    Box::pin(std::future::ready(Ok(Status::cancelled(error.strip_backtrace()).into_http())))
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
