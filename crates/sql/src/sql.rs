//! The entry point of the crate: runs texts of statements and returns their answers.
//!
//! Statements run on threads of their own, so that a long computation never blocks a listener. A run of statements is one
//! task there. Its rows reach the answer through a queue of two batches, so a slow reader slows the statement. A
//! statement ends when its reader has stopped reading for a while, or when its answer is dropped. Limits: [`SqlOptions`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::admission::AdmissionControl;
use crate::answer::{Answer, GraceExpired, Task, shutting_down};
use crate::cancellation::Cancellation;
use crate::copy::clear_unfinished;
#[cfg(feature = "distributed")]
use crate::distributed::Distribution;
use crate::run::{Run, check_kind};
use crate::session::Sessions;
use crate::watched::{RunMonitor, Watched, watch_spawned_tasks};
use crate::{Dialect, ErrorKind, Progress, RunOptions, SqlError, SqlFunction, SqlOptions, Tables, WireCopy};

/// Nice value of SQL's threads: at 5 the kernel gives a thread about a third of the time of one at 0, where both want to run,
/// and all of a core that is otherwise idle.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// Lowers the thread's priority below the threads that take events in, answer live queries and maintain tables and
/// views.
fn yield_to_intake() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes numbers only; 0 is the calling thread.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) } != 0;
    #[cfg(target_os = "linux")]
    if failed {
        let error = &std::io::Error::last_os_error() as &dyn std::error::Error;
        tracing::debug!(error, "a thread of SQL runs at the same priority as those that take events in");
    }
}

/// Batches that wait for the reader of an answer.
const BATCHES_WAITING: usize = 2;
/// Bytes of a statement's text that others see.
const TEXT_SHOWN_BYTES: usize = 2000;
/// Stack of the threads: trees are walked recursively, and may be deep. Only what is used takes memory.
const STACK_BYTES: usize = 256 << 20;

/// SQL over tables, by DataFusion.
pub struct Sql {
    inner: Arc<Inner>,
    /// Taken when this is dropped.
    runtime: Option<Runtime>,
    /// The thread of the connections to other nodes; none if there are no other nodes.
    connections: Option<Runtime>,
}

pub(crate) struct Inner {
    pub(crate) options: SqlOptions,
    pub(crate) sessions: Arc<Sessions>,
    /// Other machines; none: all statements run here.
    #[cfg(feature = "distributed")]
    pub(crate) distribution: Option<Distribution>,
    pub(crate) tables: Arc<dyn Tables>,
    pub(crate) turns: Arc<AdmissionControl>,
    running: Mutex<BTreeMap<Arc<str>, Entry>>,
    /// No more runs are begun.
    is_shutdown: AtomicBool,
    runs: AtomicU64,
}

struct Entry {
    text: String,
    begun: Instant,
    progress: Arc<Progress>,
    stop: Arc<Cancellation>,
    /// Known right after the task was started.
    abort: Option<AbortHandle>,
}

/// Counts of statements over several machines, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DistributionReading {
    /// Statements that were divided, to run on several machines.
    pub divided: u64,
    /// Their tries after one that a lost worker ended.
    pub repeated: u64,
    /// Those of them that ran on this node in the end.
    pub run_here: u64,
    /// Tasks of other nodes' statements that were begun here.
    pub tasks: u64,
    /// Statements of other nodes of which tasks run here at present.
    pub statements_served: u64,
    /// Bytes of rows that came from tasks of other nodes, as they are in memory.
    pub received_bytes: u64,
}

/// A run of statements, as others see it.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its name.
    pub id: Arc<str>,
    /// Its text, cut off where it is long.
    pub text: String,
    /// Time since it has been running, or waiting for its turn.
    pub elapsed: Duration,
    /// Progress of the run.
    pub progress: Arc<Progress>,
}

impl Sql {
    /// Opens SQL over these tables. Starts `options.threads` threads, and removes unfinished files of an earlier process
    /// under `options.output_roots`.
    pub fn new(options: SqlOptions, tables: Arc<dyn Tables>) -> Result<Sql, SqlError> {
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let sessions = Arc::new(Sessions::new(&options, threads)?);
        #[cfg(feature = "distributed")]
        let (distribution, connections) = match &options.distribution {
            Some(distribution) => {
                let thread = connection_thread()?;
                let handle = thread.handle().clone();
                (Some(Distribution::new(distribution, &sessions, &options, handle)?), Some(thread))
            }
            None => (None, None),
        };
        #[cfg(not(feature = "distributed"))]
        let connections = None;
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("swiftwater-sql")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(yield_to_intake)
            .enable_all()
            .build()
            .map_err(|error| SqlError::internal("threads for SQL cannot be started").with_source(error))?;
        watch_spawned_tasks();
        clear_unfinished(&options.output_roots);
        let turns = Arc::new(AdmissionControl::new(&options));
        let inner = Inner {
            options,
            sessions,
            #[cfg(feature = "distributed")]
            distribution,
            tables,
            turns,
            running: Mutex::new(BTreeMap::new()),
            is_shutdown: AtomicBool::new(false),
            runs: AtomicU64::new(0),
        };
        Ok(Sql { inner: Arc::new(inner), runtime: Some(runtime), connections })
    }

    /// Runs the statements of a text one after another; the last one answers.
    ///
    /// Returns the answer once its columns and its first rows are known. An earlier failure is the error here, with
    /// its place in the text; a later one is the end of the answer. Statements before one that fails have had their
    /// effect. Dropping the future, or the answer, ends the run.
    pub async fn run(&self, text: impl Into<String>, options: RunOptions) -> Result<Answer, SqlError> {
        let mut text: String = text.into();
        // A byte order mark, with which some editors begin a file.
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let progress = Arc::new(Progress::default());
        // Callers that limit the number of runs limit their time, too.
        let ours = self.inner.options.duration_max.filter(|_| !options.has_turn);
        let duration_max = shorter(ours, options.duration_max);
        let stop = Arc::new(Cancellation::new(duration_max));
        let registered = self.register(&text, &options, &progress, &stop)?;
        let id = Arc::clone(&registered.id);
        let (head, columns) = oneshot::channel();
        let (rows, receiver) = mpsc::channel(BATCHES_WAITING + 1);
        let end = rows.clone().try_reserve_owned();
        let end = end.map_err(|_| SqlError::internal("an answer has no room for its end"))?;
        let watch = Arc::new(RunMonitor::new(Arc::clone(&stop), self.inner.options.memory_bytes_max));
        let run = Run {
            inner: Arc::clone(&self.inner),
            tables: Arc::clone(options.tables.as_ref().unwrap_or(&self.inner.tables)),
            options,
            progress: Arc::clone(&progress),
            watch: Arc::clone(&watch),
            head: Some(head),
            rows,
            end,
        };
        let work = async move {
            // Its name is free again when the task ends, in whatever way.
            let registered = registered;
            run.run_to_the_end(&text, duration_max).await;
            drop(registered);
        };
        let Some(runtime) = &self.runtime else {
            return Err(SqlError::internal("SQL is shut down"));
        };
        let handle = runtime.spawn(Watched::new(watch, work));
        if let Some(entry) = self.inner.lock().get_mut(&id) {
            entry.abort = Some(handle.abort_handle());
            // It was told before there was anything to abort.
            if self.inner.is_shutdown.load(Ordering::Acquire) {
                handle.abort();
            }
        }
        let mut given_up: GraceExpired = Box::pin(Arc::clone(&stop).grace_expired());
        let mut task = Task { handle, stop };
        let columns = tokio::select! {
            biased;
            columns = columns => columns,
            error = &mut given_up => return Err(error),
        };
        match columns {
            Ok(Ok(head)) => {
                Ok(Answer { head, id, progress, rows: receiver, task, end: None, ended: false, given_up })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(std::future::poll_fn(|context| task.poll_end(context)).await),
        }
    }

    /// Runs work on the threads of statements.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, SqlError> {
        let runtime = self.runtime.as_ref().ok_or_else(|| SqlError::internal("SQL is shut down"))?;
        Ok(runtime.spawn(work))
    }

    /// The counts of statements over several machines; none if there are no other machines.
    pub fn distribution(&self) -> Option<DistributionReading> {
        #[cfg(feature = "distributed")]
        return self.inner.distribution.as_ref().map(Distribution::read);
        #[cfg(not(feature = "distributed"))]
        None
    }

    /// Runs the tasks of other nodes' statements, which come over this listener, until `stop` completes. The future that is
    /// returned completes then; the tasks do not need it.
    #[cfg(feature = "distributed")]
    pub fn serve_tasks(
        &self,
        listener: std::net::TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<impl Future<Output = Result<(), SqlError>> + Send + 'static, SqlError> {
        let inner = Arc::clone(&self.inner);
        let (Some(threads), Some(connections)) = (&self.runtime, &self.connections) else {
            return Err(SqlError::internal("tasks are served without options for several machines"));
        };
        let threads = threads.handle().clone();
        let work = connections.spawn(async move {
            let Some(distribution) = &inner.distribution else { return Ok(()) };
            distribution.serve(Arc::clone(&inner.sessions), threads, listener, stop).await
        });
        Ok(async move {
            work.await.map_err(|error| SqlError::internal("tasks of other nodes ended").with_source(error))?
        })
    }

    /// Reads a `COPY … TO STDOUT` or `… FROM STDIN`.
    pub fn wire_copy(&self, text: &str) -> Result<WireCopy, SqlError> {
        WireCopy::parse(text, &self.inner.options)
    }

    /// The byte ranges of a text's statements, each without the spaces and comments around it.
    pub fn statements(&self, text: &str, dialect: Dialect) -> Result<Vec<Range<usize>>, SqlError> {
        let statements = crate::text::split(text, dialect, &self.inner.options)?;
        Ok(statements.into_iter().map(|statement| statement.bytes).collect())
    }

    /// Checks that a text can be parsed and has only statements that are run here; an error has the place of the fault. The
    /// names of tables and columns are not checked.
    pub fn check(&self, text: &str, dialect: Dialect) -> Result<(), SqlError> {
        let statements = crate::text::split(text, dialect, &self.inner.options)?;
        statements.iter().try_for_each(|text| check_kind(&text.parse(dialect)?, text))
    }

    /// The runs that are active or wait for their turn.
    pub fn running(&self) -> Vec<Running> {
        let running = self.inner.lock();
        let entries = running.iter().map(|(id, entry)| Running {
            id: Arc::clone(id),
            text: entry.text.clone(),
            elapsed: entry.begun.elapsed(),
            progress: Arc::clone(&entry.progress),
        });
        entries.collect()
    }

    /// Ends a run; its answer ends with an error. False if there is none of that name.
    pub fn cancel(&self, id: &str) -> bool {
        let running = self.inner.lock();
        match running.get(id).and_then(|entry| Some((&entry.stop, entry.abort.as_ref()?))) {
            Some((stop, abort)) => {
                stop.cancel();
                abort.abort();
                true
            }
            None => false,
        }
    }

    /// Ends all runs, and refuses new ones: their answers end with an error that has the reason.
    pub fn shut_down(&self) {
        self.inner.is_shutdown.store(true, Ordering::Release);
        for entry in self.inner.lock().values() {
            entry.stop.report_shutdown();
            if let Some(abort) = &entry.abort {
                abort.abort();
            }
        }
    }

    /// Names of all functions that statements may call, in order.
    pub fn functions(&self) -> Vec<String> {
        self.inner.sessions.functions()
    }

    /// All functions with their help, by name.
    pub fn described_functions(&self) -> Vec<SqlFunction> {
        self.inner.sessions.described_functions()
    }

    /// The source of tables.
    pub fn tables(&self) -> &Arc<dyn Tables> {
        &self.inner.tables
    }

    fn register(
        &self,
        text: &str,
        options: &RunOptions,
        progress: &Arc<Progress>,
        stop: &Arc<Cancellation>,
    ) -> Result<RunRegistration, SqlError> {
        let number = self.inner.runs.fetch_add(1, Ordering::Relaxed);
        let id: Arc<str> = match &options.id {
            Some(id) => id.as_str().into(),
            None => format!("sql-{number}").into(),
        };
        let mut running = self.inner.lock();
        if self.inner.is_shutdown.load(Ordering::Acquire) {
            return Err(shutting_down());
        }
        if running.contains_key(&id) {
            return Err(SqlError::new(ErrorKind::Conflict, format!("a statement `{id}` is running")));
        }
        let shown = text.floor_char_boundary(TEXT_SHOWN_BYTES.min(text.len()));
        let entry = Entry {
            text: text[..shown].to_owned(),
            begun: Instant::now(),
            progress: Arc::clone(progress),
            stop: Arc::clone(stop),
            abort: None,
        };
        running.insert(Arc::clone(&id), entry);
        Ok(RunRegistration { id, inner: Arc::clone(&self.inner) })
    }
}

impl Drop for Sql {
    fn drop(&mut self) {
        // Its threads end in the background: waiting for them here could be waiting on one of them.
        for runtime in [self.runtime.take(), self.connections.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of a run among those that run, while it does.
struct RunRegistration {
    id: Arc<str>,
    inner: Arc<Inner>,
}

impl Drop for RunRegistration {
    fn drop(&mut self) {
        self.inner.lock().remove(&self.id);
    }
}

/// The thread that reads and writes the connections to other nodes, whatever SQL's threads compute.
#[cfg(feature = "distributed")]
fn connection_thread() -> Result<Runtime, SqlError> {
    let thread = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("swiftwater-sql-connections")
        .enable_all()
        .build();
    thread.map_err(|error| SqlError::internal("a thread for SQL cannot be started").with_source(error))
}

fn shorter(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
