//! Tests that tables made of a query exist completely or not at all, and that their names are taken meanwhile.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{sync::Arc, time::Duration};

use swiftwater_engine::EngineConfig;
use swiftwater_event::SystemClock;
use tokio::time::sleep;

use crate::history::{open_when_free, quick, sql, try_sql};

/// A statement that returns rows for far longer than any test waits.
const ENDLESS: &str = "CREATE TABLE made AS SELECT value AS n FROM range(0, 1000000000000)";

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_statement_leaves_no_table_and_its_name_is_free_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let engine = open_when_free(config, quick(dir.path()), Arc::new(SystemClock::new())).await;
    let place = dir.path().join("tables/made");
    let making = {
        let engine = engine.clone();
        tokio::spawn(async move { try_sql(&engine, ENDLESS).await })
    };
    while !place.join("_making").exists() {
        assert!(!making.is_finished());
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(sql(&engine, "SHOW TABLES").await, "", "nobody sees it");
    let missing = try_sql(&engine, "SELECT * FROM made").await.unwrap_err();
    assert!(missing.to_string().contains("made"), "{missing}");
    assert!(try_sql(&engine, "DROP TABLE made").await.is_err());
    for taken in ["CREATE STREAM made (a LONG)", "CREATE STREAM made WITH (store = true)"] {
        let refused = try_sql(&engine, taken).await.unwrap_err();
        assert!(refused.to_string().contains("already"), "{refused}");
    }
    making.abort();
    // Waits until that is given up, whole.
    sql(&engine, "CREATE TABLE made AS SELECT 7 AS n").await;
    assert_eq!(sql(&engine, "SELECT n FROM made").await, "{\"n\":7}\n");
    assert!(!place.join("_making").exists());
    engine.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_fail_while_they_are_written_fail_as_they_do_where_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let engine = open_when_free(config, quick(dir.path()), Arc::new(SystemClock::new())).await;
    sql(&engine, "CREATE TABLE t (a BIGINT)").await;
    // Several batches come before the one that fails.
    let select = "SELECT 1 / (value - 60000) AS a FROM range(0, 100000)";
    let expected = try_sql(&engine, select).await.unwrap_err();
    for into in ["CREATE TABLE made AS", "INSERT INTO t", "INSERT OVERWRITE t"] {
        let error = try_sql(&engine, &format!("{into} {select}")).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (expected.kind(), expected.to_string()), "{into}");
    }
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM t").await, "{\"n\":0}\n");
    assert_eq!(sql(&engine, "SHOW TABLES").await.lines().count(), 1);
}
