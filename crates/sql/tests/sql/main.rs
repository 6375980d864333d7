//! Tests of statements, their answers, and the output formats.

mod common;
mod forms;
mod groups;
mod ordered;
mod postgres;
mod reference;
mod slt;
mod statements;
mod subqueries;
mod sums;

use std::sync::Arc;

use swiftwater_sql::{Sql, SqlOptions};

/// Statements run on one machine.
const IS_DISTRIBUTED: bool = false;

/// SQL over tables in memory.
fn start(options: SqlOptions, tables: Arc<common::MemoryTables>) -> Sql {
    Sql::new(options, tables).unwrap_or_else(|error| panic!("{error}"))
}
