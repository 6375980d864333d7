//! Tracks the statement for which a thread works: whether it was cancelled, and how much memory it has allocated.
//!
//! The polls of a statement run inside [`Watched`], as do those of every task that DataFusion spawns for it. Meanwhile
//! the thread knows its statement, so code deep inside an operator can ask [`check`] whether to go on, without a
//! parameter. Functions that compute for long check between rows ([`guarded`](crate::guarded)); planning checks between
//! its rules.
//!
//! The process's allocator counts memory. It calls [`count_allocated`] and [`count_freed`]: each adds to a number of its
//! thread, nothing else. The difference of that number over a poll is the amount that the statement allocated or freed.
//! Batches that leave as part of an answer are subtracted. Memory that others allocated and a statement frees lowers its
//! count, at least to zero. If the process's allocator does not count, only the memory pool does, which counts the
//! reservations of operators.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::common::{DataFusionError, Result, human_readable_size};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync;

use crate::SqlError;
use crate::cancellation::Cancellation;

/// Bytes that a statement may allocate beyond the limit of its operators: its plan, batches on their way, buffers of
/// files.
const BEYOND_POOL_BYTES: usize = 64 << 20;

thread_local! {
    /// Bytes that this thread has allocated and not freed. It may be negative: others free, too.
    static NET_BYTES: Cell<i64> = const { Cell::new(0) };
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Adds bytes that the calling thread has allocated. For the global allocator of a process: it does not allocate or panic.
pub fn count_allocated(bytes: usize) {
    add(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Adds bytes that the calling thread has freed.
pub fn count_freed(bytes: usize) {
    add(-i64::try_from(bytes).unwrap_or(i64::MAX));
}

#[inline]
fn add(bytes: i64) {
    // A thread that ends has no number any more, and frees still.
    let _ = NET_BYTES.try_with(|net| net.set(net.get().wrapping_add(bytes)));
}

fn net_bytes() -> i64 {
    NET_BYTES.try_with(Cell::get).unwrap_or(0)
}

/// Monitors one run of statements.
#[derive(Debug)]
pub(crate) struct RunMonitor {
    stop: Arc<Cancellation>,
    /// Allocated by polls that are over.
    bytes: AtomicI64,
    /// The limit of the operators' memory, which errors tell.
    pool_bytes_max: usize,
    bytes_max: i64,
    /// True once the statement had more than its limit after a poll.
    is_over: sync::watch::Sender<bool>,
}

/// The statement that this thread polls for.
struct Current {
    watch: Arc<RunMonitor>,
    /// The thread's number when the poll began.
    net_bytes: i64,
}

impl RunMonitor {
    pub(crate) fn new(stop: Arc<Cancellation>, pool_bytes_max: usize) -> RunMonitor {
        let bytes_max = i64::try_from(pool_bytes_max.saturating_add(BEYOND_POOL_BYTES)).unwrap_or(i64::MAX);
        let (is_over, _) = sync::watch::channel(false);
        RunMonitor { stop, bytes: AtomicI64::new(0), pool_bytes_max, bytes_max, is_over }
    }

    /// Bytes that left the statement: its reader frees them.
    pub(crate) fn record_freed(&self, bytes: usize) {
        self.add(-i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn add(&self, bytes: i64) {
        let changed = |held: i64| Some(held.saturating_add(bytes).max(0));
        // It gives always something.
        let before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).unwrap_or(0);
        if before.saturating_add(bytes) > self.bytes_max {
            self.is_over.send_replace(true);
        }
    }

    /// Completes once the statement had more memory than it may after one of its polls, with the error.
    pub(crate) async fn memory_exceeded(&self) -> SqlError {
        // The sender is part of `self`.
        let _ = self.is_over.subscribe().wait_for(|is_over| *is_over).await;
        SqlError::from(self.too_much(self.bytes.load(Ordering::Relaxed), 0))
    }

    /// The error of a statement that holds so much and wants more.
    fn too_much(&self, held: i64, wanted: usize) -> DataFusionError {
        // Worded as the pool's own, which errors are made of.
        DataFusionError::ResourcesExhausted(format!(
            "Failed to allocate additional {} beside {} that it has allocated for the total memory pool: \
             statement(pool_size: {})",
            human_readable_size(wanted),
            human_readable_size(usize::try_from(held).unwrap_or(0)),
            human_readable_size(self.pool_bytes_max),
        ))
    }

    fn check(&self, in_this_poll: i64, wanted: usize) -> Result<()> {
        self.stop.check()?;
        let held = self.bytes.load(Ordering::Relaxed).saturating_add(in_this_poll);
        let wanted_bytes = i64::try_from(wanted).unwrap_or(i64::MAX);
        if held.saturating_add(wanted_bytes) <= self.bytes_max {
            return Ok(());
        }
        Err(self.too_much(held, wanted))
    }
}

/// An error once the statement that this thread works for is not wanted any more, its time is over, or it has allocated more
/// than it may.
pub(crate) fn check() -> Result<()> {
    check_room(0)
}

/// The same, if it were to allocate so many bytes more.
pub(crate) fn check_room(bytes: usize) -> Result<()> {
    CURRENT.with_borrow(|current| match current {
        Some(current) => current.watch.check(net_bytes().wrapping_sub(current.net_bytes), bytes),
        None => Ok(()),
    })
}

fn current() -> Option<Arc<RunMonitor>> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| Arc::clone(&current.watch)))
}

/// Makes a statement the one that this thread works for, until it is dropped.
struct StatementScope {
    before: Option<Current>,
}

impl StatementScope {
    fn new(watch: &Arc<RunMonitor>) -> StatementScope {
        let current = Current { watch: Arc::clone(watch), net_bytes: net_bytes() };
        StatementScope { before: CURRENT.replace(Some(current)) }
    }
}

impl Drop for StatementScope {
    fn drop(&mut self) {
        if let Some(current) = CURRENT.replace(self.before.take()) {
            current.watch.add(net_bytes().wrapping_sub(current.net_bytes));
        }
    }
}

/// Makes the thread work for no statement, until it is dropped.
struct DetachedScope {
    current: Option<Current>,
}

impl DetachedScope {
    fn new() -> DetachedScope {
        let current = CURRENT.take();
        if let Some(current) = &current {
            current.watch.add(net_bytes().wrapping_sub(current.net_bytes));
        }
        DetachedScope { current }
    }
}

impl Drop for DetachedScope {
    fn drop(&mut self) {
        if let Some(mut current) = self.current.take() {
            current.net_bytes = net_bytes();
            CURRENT.set(Some(current));
        }
    }
}

/// Polls work that a statement waits for and that is not its own: what a table keeps of the rows that are put in is the table's.
pub(crate) async fn elsewhere<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let _left = DetachedScope::new();
        work.as_mut().poll(context)
    })
    .await
}

/// Rows of a statement that are polled from elsewhere: computing them is the statement's, and the rows are not.
pub(crate) fn rows_for_elsewhere(
    watch: &Arc<RunMonitor>,
    rows: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let (watch, mut rows) = (Arc::clone(watch), Watched::new(Arc::clone(watch), rows));
    let leaving = stream::poll_fn(move |context| {
        let polled = rows.poll_in(|rows| rows.poll_next_unpin(context)).unwrap_or(Poll::Ready(None));
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            watch.record_freed(batch.get_array_memory_size());
        }
        polled
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, leaving))
}

/// A future, or a stream, whose polls and whose end are those of a statement.
pub(crate) struct Watched<F> {
    watch: Arc<RunMonitor>,
    /// The future; none once it is dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F> Watched<F> {
    pub(crate) fn new(watch: Arc<RunMonitor>, future: F) -> Watched<F> {
        Watched { watch, future: Some(Box::pin(future)) }
    }

    /// Polls it as the statement; none if there is nothing any more.
    fn poll_in<T>(&mut self, poll: impl FnOnce(&mut Pin<Box<F>>) -> T) -> Option<T> {
        let _entered = StatementScope::new(&self.watch);
        self.future.as_mut().map(poll)
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_in(|future| future.poll_unpin(context)).unwrap_or(Poll::Pending)
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        let _entered = StatementScope::new(&self.watch);
        self.future = None;
    }
}

/// Makes the tasks that DataFusion spawns those of the statement that spawns them.
#[derive(Debug)]
struct InheritStatement;

impl JoinSetTracer for InheritStatement {
    fn trace_future(
        &self,
        future: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match current() {
            Some(watch) => Watched::new(watch, future).boxed(),
            None => future,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match current() {
            Some(watch) => Box::new(move || {
                let _entered = StatementScope::new(&watch);
                work()
            }),
            None => work,
        }
    }
}

/// Watches spawned tasks, from now on and in the whole process.
pub(crate) fn watch_spawned_tasks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if set_join_set_tracer(&InheritStatement).is_err() {
            tracing::warn!("tasks of statements are traced by something else: their memory is not counted");
        }
    });
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use arrow::record_batch::RecordBatch;

    use super::*;

    fn watch(pool_bytes_max: usize) -> Arc<RunMonitor> {
        Arc::new(RunMonitor::new(Arc::new(Cancellation::new(None)), pool_bytes_max))
    }

    #[tokio::test]
    async fn what_a_poll_allocates_is_the_statements() {
        let watch = watch(1000);
        let first = Watched::new(Arc::clone(&watch), async {
            count_allocated(BEYOND_POOL_BYTES);
            check().unwrap();
            check_room(1001).unwrap_err();
            tokio::task::yield_now().await;
            count_allocated(1001);
            check().unwrap_err()
        });
        let error = first.await;
        let told = crate::SqlError::from(error);
        assert_eq!(told.kind(), crate::ErrorKind::Limit);
        assert!(told.to_string().contains("`sql.memory_bytes_max`"), "{told}");
        // Others are not concerned.
        check().unwrap();
        Watched::new(self::watch(1000), async { check().unwrap() }).await;
        watch.record_freed(BEYOND_POOL_BYTES);
        Watched::new(Arc::clone(&watch), async { check().unwrap() }).await;
        assert_eq!(watch.bytes.load(Ordering::Relaxed) / 1100, 0);
    }

    #[tokio::test]
    async fn tasks_that_are_spawned_are_the_statements_too() {
        watch_spawned_tasks();
        let watch = watch(0);
        let spawning = async {
            let task = datafusion::common::runtime::SpawnedTask::spawn(async {
                count_allocated(BEYOND_POOL_BYTES + 1);
                check().is_err()
            });
            assert!(task.await.unwrap());
            let block = datafusion::common::runtime::SpawnedTask::spawn_blocking(|| check().is_err());
            block.await.unwrap()
        };
        assert!(Watched::new(watch, spawning).await);
    }

    #[tokio::test]
    async fn rows_that_are_put_in_are_the_tables() {
        let watch = watch(0);
        let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let rows = stream::once(async move {
            count_allocated(1000);
            check_room(BEYOND_POOL_BYTES - 1000).unwrap();
            check_room(BEYOND_POOL_BYTES).unwrap_err();
            Ok(batch)
        });
        let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), rows));
        let rows = rows_for_elsewhere(&watch, rows);
        Watched::new(Arc::clone(&watch), async {
            let table = async {
                count_allocated(2 * BEYOND_POOL_BYTES);
                check().unwrap();
                assert_eq!(rows.count().await, 1);
            };
            elsewhere(table).await;
            check().unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn a_statement_that_is_stopped_fails_its_next_check() {
        let stop = Arc::new(Cancellation::new(None));
        let watch = Arc::new(RunMonitor::new(Arc::clone(&stop), usize::MAX));
        Watched::new(watch, async {
            check().unwrap();
            stop.cancel();
            assert!(check().is_err());
        })
        .await;
    }
}
