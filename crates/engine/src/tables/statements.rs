//! The tables `system.statements` and `system.statement_tasks`: the running statements of SQL, and their parts on other machines.

use std::sync::Arc;

use arrow_array::{Float64Array, Int64Array, RecordBatch};
use swiftwater_sql::{Running, Sql};

use crate::answer::{table, texts};

/// The table of the running statements, in the schema `system`.
pub(crate) const STATEMENTS: &str = "statements";
/// The table of their parts on other machines.
pub(crate) const STATEMENT_TASKS: &str = "statement_tasks";

fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One row for each statement that runs or waits for its turn, by name.
pub(crate) fn statements(sql: &Sql) -> RecordBatch {
    let running = sql.running();
    let read: Vec<_> = running.iter().map(|run| run.progress.read()).collect();
    let numbers = |number: &dyn Fn(usize) -> u64| {
        Arc::new(Int64Array::from_iter_values((0..running.len()).map(|index| long(number(index)))))
    };
    table([
        ("statement", texts(running.iter().map(|run| &*run.id))),
        ("query", texts(running.iter().map(|run| run.text.as_str()))),
        (
            "elapsed_ms",
            numbers(&|index| u64::try_from(running[index].elapsed.as_millis()).unwrap_or(u64::MAX)),
        ),
        ("rows_scanned", numbers(&|index| read[index].rows_scanned)),
        ("bytes_scanned", numbers(&|index| read[index].bytes_scanned)),
        ("rows_returned", numbers(&|index| read[index].rows_returned)),
        ("percent", Arc::new(read.iter().map(|read| read.percent).collect::<Float64Array>())),
        ("tasks", numbers(&|index| running[index].progress.tasks().len() as u64)),
    ])
}

/// One row for each task of these statements, by statement, stage and task.
pub(crate) fn statement_tasks(sql: &Sql) -> RecordBatch {
    let running = sql.running();
    let of_run =
        |run: &Running| run.progress.tasks().into_iter().map(|task| (Arc::clone(&run.id), task)).collect();
    let tasks: Vec<_> = running.iter().flat_map(|run| -> Vec<_> { of_run(run) }).collect();
    let numbers = |number: &dyn Fn(usize) -> u64| {
        Arc::new(Int64Array::from_iter_values((0..tasks.len()).map(|index| long(number(index)))))
    };
    table([
        ("statement", texts(tasks.iter().map(|(statement, _)| &**statement))),
        ("stage", numbers(&|index| tasks[index].1.stage.into())),
        ("task", numbers(&|index| tasks[index].1.task.into())),
        ("node", texts(tasks.iter().map(|(_, task)| &*task.node))),
        ("rows_scanned", numbers(&|index| tasks[index].1.rows_scanned)),
        ("bytes_scanned", numbers(&|index| tasks[index].1.bytes_scanned)),
    ])
}
