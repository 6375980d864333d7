//! Shared code of this room's tests: a stream's rows that can be generated again from their offsets, and SQL over a table.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its part of it")]
#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

// Taken as files: a dependency on testkit switches on a feature of serde_json, and all of Arrow and DataFusion would be
// built a second time for these tests.
#[path = "../../../../testkit/src/clock.rs"]
mod clock;
#[path = "../../../../testkit/src/failing_store.rs"]
mod failing_store;
#[path = "../../../../testkit/src/power.rs"]
mod power;

use std::sync::Arc;

pub use clock::TestClock;
pub use failing_store::FailingStore;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray, cast::AsArray, types::Int64Type,
};
use datafusion::prelude::SessionContext;
use swiftwater_event::{Clock, Millis, Offset, SystemClock, Type};
use swiftwater_store::{
    At, ColumnSpec, OFFSET_COLUMN, Rows, Store, StoreOptions, TIME_COLUMN, Table, TableSpec,
};

/// Arrival of the first event of the test streams: 2026-01-01T00:00:00Z.
pub const START_MICROS: i64 = 1_767_225_600_000_000;

pub fn column(name: &str, ty: Type) -> ColumnSpec {
    ColumnSpec { name: name.into(), ty, nullable: true }
}

/// A stream of smart-home events.
pub fn home(name: &str) -> TableSpec {
    TableSpec::new(
        name,
        vec![
            column("house_id", Type::INTEGER),
            column("metro_area", Type::STRING),
            column("device_id", Type::INTEGER),
            column("power_reading", Type::FLOAT),
            column("is_peak", Type::BOOLEAN),
        ],
    )
}

const METROS: [&str; 4] = ["Seattle", "Los Angeles-Long Beach-Anaheim, CA", "Boston", "Miami"];

/// The rows of offsets `first..end`, one a millisecond; each value follows from the offset.
pub fn rows(first: u64, end: u64) -> Rows {
    rows_every(first, end, 1000)
}

/// The same, so many microseconds apart.
pub fn rows_every(first: u64, end: u64, micros: i64) -> Rows {
    let offsets = || first..end;
    let columns: Vec<(&str, ArrayRef)> = vec![
        (OFFSET_COLUMN, Arc::new(offsets().map(|o| o as i64).collect::<Int64Array>())),
        (
            TIME_COLUMN,
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(
                    offsets().map(|o| START_MICROS + o as i64 * micros),
                )
                .with_timezone("UTC"),
            ),
        ),
        ("house_id", Arc::new(offsets().map(|o| (o % 21) as i32).collect::<Int32Array>())),
        (
            "metro_area",
            Arc::new(StringViewArray::from_iter_values(offsets().map(|o| METROS[o as usize % 4]))),
        ),
        ("device_id", Arc::new(offsets().map(|o| (o % 7) as i32).collect::<Int32Array>())),
        ("power_reading", Arc::new(offsets().map(|o| (o % 1000) as f32 / 3.0).collect::<Float32Array>())),
        ("is_peak", Arc::new(offsets().map(|o| Some(o % 2 == 0)).collect::<BooleanArray>())),
    ];
    Rows { first: Offset(first), batch: RecordBatch::try_from_iter(columns).unwrap() }
}

/// Options that commit only when told to.
pub fn patient(location: &std::path::Path) -> StoreOptions {
    let mut options = StoreOptions::at(location.to_str().unwrap());
    options.commit_interval = std::time::Duration::from_secs(3600);
    options
}

pub async fn open(options: StoreOptions) -> Store {
    Store::open(options, clock()).await.unwrap()
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

pub fn now() -> Millis {
    SystemClock::new().now()
}

/// The answer of a statement in which the table is called `t`.
pub async fn sql_at(table: &Table, at: Option<At>, text: &str) -> Vec<RecordBatch> {
    let context = SessionContext::new();
    context.register_table("t", table.provider(at).await.unwrap()).unwrap();
    context.sql(text).await.unwrap().collect().await.unwrap()
}

pub async fn sql(table: &Table, text: &str) -> Vec<RecordBatch> {
    sql_at(table, None, text).await
}

/// The one LONG that a statement answers.
pub async fn long(table: &Table, text: &str) -> i64 {
    let batches = sql(table, text).await;
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// All offsets in the table, in order of the answer.
pub async fn offsets(table: &Table) -> Vec<i64> {
    let batches = sql(table, "SELECT _offset FROM t ORDER BY _offset").await;
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// Fails unless the table holds each offset from 0 on exactly once.
pub async fn check_offsets(table: &Table, end: u64) {
    let found = offsets(table).await;
    let expected: Vec<i64> = (0..end as i64).collect();
    assert!(found == expected, "{} rows, expected {end}; ends with {:?}", found.len(), found.last());
}

/// A statement's answer as text, a row a line.
pub fn text(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .map(|column| {
                    datafusion::common::ScalarValue::try_from_array(column, row).unwrap().to_string()
                })
                .collect();
            lines.push(cells.join("|"));
        }
    }
    lines
}
