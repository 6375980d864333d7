//! Tests that arrival times advance, whatever the machine's clock does.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{Engine, EngineConfig};
use swiftwater_event::Clock;
use swiftwater_testkit::TestClock;

use crate::history::{append, open_when_free, quick, sql, stop};

const START: i64 = 1_700_000_000_000;
const HOURS_2: i64 = 7_200_000;

async fn open(dir: &Path, clock: &Arc<TestClock>) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    open_when_free(config, quick(dir), Arc::clone(clock) as Arc<dyn Clock>).await
}

/// Arrival of each event, in milliseconds since the start.
async fn arrivals(engine: &Engine) -> Vec<i64> {
    let select = "SELECT CAST(EXTRACT(EPOCH FROM _time) * 1000 AS BIGINT) AS ms FROM t ORDER BY _offset";
    let rows = sql(engine, select).await;
    let at = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["ms"].as_i64().unwrap();
    rows.lines().map(|line| at(line) - START).collect()
}

async fn arrive(engine: &Engine) {
    append(engine, "t", "{\"a\":1}", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_go_on_while_the_clock_jumps_ahead_and_back() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    arrive(&engine).await;
    clock.jump_ms(HOURS_2);
    arrive(&engine).await;
    assert_eq!(engine.metrics().clock_offset_seconds, -7200.0);
    clock.advance_ms(1_000);
    arrive(&engine).await;
    clock.jump_ms(-HOURS_2);
    clock.advance_ms(1_000);
    arrive(&engine).await;
    assert_eq!(arrivals(&engine).await, [0, 0, 1_000, 2_000]);
    assert_eq!(engine.metrics().clock_offset_seconds, 0.0);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_stays_ahead_is_followed_and_one_that_is_back_is_waited_for() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    clock.jump_ms(HOURS_2);
    // From here on it is seen to be ahead.
    arrive(&engine).await;
    clock.advance_ms(60_000);
    arrive(&engine).await;
    clock.jump_ms(-10_000);
    arrive(&engine).await;
    clock.advance_ms(4_000);
    arrive(&engine).await;
    clock.advance_ms(20_000);
    arrive(&engine).await;
    let followed = HOURS_2 + 60_000;
    assert_eq!(arrivals(&engine).await, [0, followed, followed, followed + 2_000, followed + 14_000]);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_go_on_after_a_start_before_the_last_of_them() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(TestClock::at(START)));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    arrive(&engine).await;
    stop(engine, Duration::from_secs(5)).await;
    // An hour and a half before that.
    let clock = Arc::new(TestClock::at(START - 5_400_000));
    let engine = open(dir.path(), &clock).await;
    arrive(&engine).await;
    clock.advance_ms(1_000);
    arrive(&engine).await;
    clock.advance_ms(1_000);
    arrive(&engine).await;
    assert_eq!(arrivals(&engine).await, [0, 0, 500, 1_000]);
    stop(engine, Duration::from_secs(5)).await;
}
