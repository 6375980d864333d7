//! The statements of other nodes of which tasks run here.
//!
//! All tasks of a statement on one worker share a memory pool of `memory_bytes_max`, and are counted together. A worker that runs as
//! many statements as it may refuses another one before anything of it ran.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::TaskKey;

use super::pinned::PinnedPlans;
use crate::cancellation::Cancellation;
use crate::progress::scanned;
use crate::session::Sessions;
use crate::watched::RunMonitor;

/// The error of a worker that has no place for a statement. The caller asks again.
pub(super) const BUSY: &str = "this worker runs as many statements as it may";

/// A statement with tasks here.
pub(super) struct TaskStatement {
    pub(super) runtime: Arc<RuntimeEnv>,
    stop: Arc<Cancellation>,
    /// Each call of the statement, and each task that is spawned for it, holds another one: it runs as long as there are any, and until
    /// it is ended. (The library keeps a task's plan for some seconds after its end, and with it tasks that wait for nothing.)
    monitor: Arc<RunMonitor>,
    tasks: Mutex<Vec<(TaskNumber, Weak<dyn ExecutionPlan>)>>,
}

/// A call of a statement.
pub(super) struct Call {
    number: u64,
    pub(super) statement: Arc<TaskStatement>,
    pub(super) monitor: Arc<RunMonitor>,
}

/// The reasons why a call of a statement is not taken.
pub(super) enum Refusal {
    /// There is no place for another statement.
    Busy,
    /// The statement has ended. A late call of it would wait for a task that does not come.
    Ended,
    Other(DataFusionError),
}

impl From<Refusal> for DataFusionError {
    fn from(refusal: Refusal) -> DataFusionError {
        match refusal {
            Refusal::Busy => DataFusionError::ResourcesExhausted(BUSY.to_owned()),
            Refusal::Ended => DataFusionError::Execution("the statement has ended".to_owned()),
            Refusal::Other(error) => error,
        }
    }
}

/// The stage of a task, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct TaskNumber {
    pub(super) stage: u32,
    pub(super) task: u32,
}

impl TaskNumber {
    pub(super) fn of(key: &TaskKey) -> TaskNumber {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        TaskNumber { stage: number(key.stage_id), task: number(key.task_number) }
    }
}

/// All of them, by number.
pub(super) struct TaskStatements {
    sessions: Arc<Sessions>,
    memory_bytes_max: usize,
    statements_max: usize,
    /// The leaves of this node's own statements, which have a place already.
    pinned: Arc<PinnedPlans>,
    statements: Mutex<Statements>,
}

#[derive(Default)]
struct Statements {
    running: HashMap<u64, Arc<TaskStatement>>,
    /// The last [`ENDED_MAX`] that ended.
    ended: VecDeque<u64>,
}

/// Ended statements that are remembered. A call comes late by milliseconds.
const ENDED_MAX: usize = 1000;

impl TaskStatements {
    pub(super) fn new(
        sessions: Arc<Sessions>,
        memory_bytes_max: usize,
        statements_max: usize,
        pinned: Arc<PinnedPlans>,
    ) -> TaskStatements {
        TaskStatements { sessions, memory_bytes_max, statements_max, pinned, statements: Mutex::default() }
    }

    /// A call of the statement of a number, which begins here if there is none.
    pub(super) fn enter(&self, number: u64) -> Result<Call, Refusal> {
        let mut statements = self.lock();
        if statements.ended.contains(&number) {
            return Err(Refusal::Ended);
        }
        if let Some(statement) = statements.running.get(&number) {
            return Ok(statement.call(number));
        }
        statements.running.retain(|_, statement| statement.is_running());
        if statements.running.len() >= self.statements_max && !self.pinned.is_of(number) {
            return Err(Refusal::Busy);
        }
        let stop = Arc::new(Cancellation::new(None));
        let statement = Arc::new(TaskStatement {
            runtime: self.sessions.statement_runtime().map_err(Refusal::Other)?,
            monitor: Arc::new(RunMonitor::new(Arc::clone(&stop), self.memory_bytes_max)),
            stop,
            tasks: Mutex::default(),
        });
        let call = statement.call(number);
        statements.running.insert(number, statement);
        Ok(call)
    }

    /// Whether a statement is one of this node, of which others read leaves.
    pub(super) fn is_own(&self, number: u64) -> bool {
        self.pinned.is_of(number)
    }

    /// Ends all tasks and calls of a statement: nobody needs their rows any more.
    pub(super) fn end(&self, call: &Call) {
        let mut statements = self.lock();
        if !statements.ended.contains(&call.number) {
            statements.ended.push_back(call.number);
            if statements.ended.len() > ENDED_MAX {
                statements.ended.pop_front();
            }
        }
        drop(statements);
        call.statement.stop.cancel();
    }

    /// The number of statements of which something runs here.
    pub(super) fn running(&self) -> u64 {
        let mut statements = self.lock();
        statements.running.retain(|_, statement| statement.is_running());
        statements.running.len() as u64
    }

    /// The statement of a number, if it has begun here.
    pub(super) fn get(&self, number: u64) -> Option<Arc<TaskStatement>> {
        self.lock().running.get(&number).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Statements> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskStatement {
    fn call(self: &Arc<Self>, number: u64) -> Call {
        Call { number, statement: Arc::clone(self), monitor: Arc::clone(&self.monitor) }
    }

    /// Completes when the statement has ended.
    pub(super) async fn ended(&self) {
        self.stop.cancelled().await;
    }

    fn is_running(&self) -> bool {
        !self.stop.is_cancelled() && Arc::strong_count(&self.monitor) > 1
    }

    /// Adds the plan of a task.
    pub(super) fn add(&self, number: TaskNumber, plan: &Arc<dyn ExecutionPlan>) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push((number, Arc::downgrade(plan)));
    }

    /// Rows and bytes that the scans of each task have read so far. Those of tasks that ended are left out.
    pub(super) fn scanned(&self) -> Vec<(TaskNumber, u64, u64)> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let plans = tasks.iter().filter_map(|(number, plan)| Some((*number, plan.upgrade()?)));
        plans
            .map(|(number, plan)| {
                let (rows, bytes) = scanned(plan.as_ref());
                (number, rows, bytes)
            })
            .collect()
    }
}
