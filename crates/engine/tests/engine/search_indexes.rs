//! Tests the statements of search indexes: which are refused, that searches follow a definition, and that it outlives
//! restarts and backups, but not its stream or table.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{Backup, BackupOptions, Engine, EngineConfig, Principal};
use swiftwater_event::SystemClock;
use swiftwater_sql::ErrorKind;

use crate::{
    backup::{begin, fetched, restored},
    history::{append, open_when_free, quick, sql, stop, try_sql},
    index_files::until,
};

async fn open(dir: &Path) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    open_when_free(config, quick(dir), Arc::new(SystemClock::new())).await
}

async fn close(engine: Engine) {
    stop(engine, Duration::from_secs(5)).await;
}

/// The kind and text of the error of a statement, with its hint.
async fn refusal(engine: &Engine, text: &str) -> String {
    let error = try_sql(engine, text).await.expect_err(text);
    format!("{:?}: {error} ({})", error.kind(), error.hint().unwrap_or_default())
}

const CREATE: &str = "CREATE SEARCH INDEX ON logs (Message TEXT (stem = 'english', fold = accents) BOOST 2, host ID, \
    trace ID CORRELATION, category FACET '/', *) WITH (default = message)";

/// All that is said about the definitions of indexes.
async fn described(engine: &Engine) -> String {
    let mut text = sql(engine, "SELECT 1 AS n").await;
    // Behind them is how far the index files are.
    let shown = sql(engine, "SHOW SEARCH INDEXES").await;
    text.extend(shown.lines().filter_map(|line| line.split(",\"indexed_files\"").next()));
    for ask in ["SHOW CREATE SEARCH INDEX ON logs", "SHOW CREATE SEARCH INDEX ON names"] {
        text += &sql(engine, ask).await;
    }
    text + &columns(engine).await
}

/// The columns of an index, without the figures of its files.
async fn columns(engine: &Engine) -> String {
    let described = sql(engine, "DESCRIBE SEARCH INDEX ON logs").await;
    let lines = described.lines().filter_map(|line| line.split(",\"rows\"").next());
    lines.map(|line| format!("{line}}}\n")).collect()
}

async fn create_all(engine: &Engine) {
    for text in [
        "CREATE STREAM logs (n LONG, message STRING, host STRING, trace STRING, category STRING, took DOUBLE, note STRING)",
        "CREATE TABLE names (Name VARCHAR, age BIGINT, height DOUBLE, tags VARCHAR[])",
        CREATE,
        "CREATE SEARCH INDEX ON names (NAME TEXT, age ID, tags FACET)",
    ] {
        sql(engine, text).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_created_described_altered_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    create_all(&engine).await;
    let created = "{\"changed\":true}\n";
    assert_eq!(
        sql(&engine, "SELECT count(*) AS n FROM logs WHERE search('*')").await,
        "{\"n\":0}\n",
        "an empty stream can be searched"
    );
    assert_eq!(
        sql(&engine, &CREATE.replace("INDEX ON", "INDEX IF NOT EXISTS ON")).await,
        "{\"changed\":false}\n"
    );
    assert_eq!(
        columns(&engine).await,
        r#"{"column":"message","kind":"TEXT","options":"(stem = 'english', fold = accents) BOOST 2","default":true}
{"column":"host","kind":"ID","options":"","default":false}
{"column":"trace","kind":"ID","options":"CORRELATION","default":false}
{"column":"category","kind":"FACET","options":"'/'","default":false}
{"column":"*","kind":"TEXT","options":"","default":false}
"#
    );
    assert_eq!(
        sql(&engine, "SHOW CREATE SEARCH INDEX ON names").await,
        "{\"table\":\"names\",\"statement\":\"CREATE SEARCH INDEX ON names (\\n  Name TEXT,\\n  age ID,\\n  tags FACET\\n)\"}\n",
        "columns have the names that the table has"
    );
    let shown = sql(&engine, "SHOW SEARCH INDEXES").await;
    let rows: Vec<serde_json::Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{shown}");
    assert_eq!(
        (&rows[0]["table"], &rows[0]["columns"], &rows[0]["covers_all"]),
        (&"logs".into(), &4.into(), &true.into())
    );
    assert_eq!(
        (&rows[1]["table"], &rows[1]["columns"], &rows[1]["covers_all"]),
        (&"names".into(), &3.into(), &false.into())
    );
    for (text, answer) in [
        ("ALTER SEARCH INDEX ON logs ADD note TEXT, DROP category, SET (default = (message, NOTE))", created),
        ("ALTER SEARCH INDEX ON logs DROP note, ADD note TEXT", "{\"changed\":false}\n"),
        ("ALTER SEARCH INDEX ON logs REBUILD FROM '2026-01-01' TO '2026-02-01'", "{\"changed\":false}\n"),
        ("DROP SEARCH INDEX ON names", created),
        ("DROP SEARCH INDEX IF EXISTS ON names", "{\"changed\":false}\n"),
    ] {
        assert_eq!(sql(&engine, text).await, answer, "{text}");
    }
    let statement = sql(&engine, "SHOW CREATE SEARCH INDEX ON logs").await;
    assert!(
        statement.contains("note TEXT") && statement.contains("(default = (message, note))"),
        "{statement}"
    );
    assert!(!statement.contains("category"), "{statement}");
    close(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_statements_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    create_all(&engine).await;
    for text in [
        "CREATE STREAM live",
        "CREATE STREAM s (a STRING, b DOUBLE, c LONG)",
        "CREATE MATERIALIZED VIEW v AS SELECT host, COUNT(*) AS n FROM STREAM(logs) GROUP BY host",
    ] {
        sql(&engine, text).await;
    }
    for (text, expected) in [
        (CREATE, "Conflict: search index on `logs` already exists ()"),
        (
            "CREATE SEARCH INDEX ON nothing (*)",
            "NotFound: no stream or table `nothing` (SHOW STREAMS and SHOW TABLES list the names.)",
        ),
        (
            "CREATE SEARCH INDEX ON v (*)",
            "Invalid: a search index needs a stored stream or a table, and `v` is a view (Create the index on the stream \
             that the view reads.)",
        ),
        (
            "CREATE SEARCH INDEX ON live (*)",
            "Conflict: a search index needs a stored stream or a table, and `live` is live-only (ALTER STREAM live SET \
             (store = true) stores its events from then on.)",
        ),
        (
            "ALTER SEARCH INDEX ON names ADD hight ID",
            "Invalid: no column `hight` in table `names` (Did you mean `height`?)",
        ),
        (
            "ALTER SEARCH INDEX ON names ADD height ID",
            "Invalid: column `height` is DOUBLE, and cannot be indexed as ID (ID is for texts, whole numbers and booleans, \
             and for lists, maps and JSON of them.)",
        ),
        (
            "CREATE SEARCH INDEX ON s (b TEXT)",
            "Invalid: column `b` is DOUBLE, and cannot be indexed as TEXT (TEXT is for texts, and for lists, maps and JSON \
             with texts.)",
        ),
        (
            "ALTER SEARCH INDEX ON s ADD a TEXT",
            "NotFound: no search index on `s` (SHOW SEARCH INDEXES lists all search indexes.)",
        ),
        (
            "ALTER SEARCH INDEX ON s REBUILD",
            "NotFound: no search index on `s` (SHOW SEARCH INDEXES lists all search indexes.)",
        ),
        (
            "DESCRIBE SEARCH INDEX ON s",
            "NotFound: no search index on `s` (SHOW SEARCH INDEXES lists all search indexes.)",
        ),
        (
            "CREATE SEARCH INDEX ON s (a TXT)",
            "Invalid: expected TEXT, ID or FACET, found `TXT` (Did you mean TEXT?)",
        ),
    ] {
        assert_eq!(refusal(&engine, text).await, expected, "{text}");
    }
    let error = try_sql(&engine, "CREATE SEARCH INDEX ON s (\n  a TXT)").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.place().map(|place| (place.line, place.column)), Some((2, 5)));
    sql(&engine, "CREATE SEARCH INDEX ON s (c ID)").await;
    assert_eq!(
        refusal(&engine, "ALTER STREAM s ALTER COLUMN c TYPE DOUBLE").await,
        "Conflict: search index on `s` reads column `c` of stream `s` (ALTER SEARCH INDEX ON s DROP c first.)"
    );
    close(engine).await;
}

const EVENTS: &str = r#"{"n":0,"message":"Connection refused","host":"web-1","note":"old"}
{"n":1,"message":"refusing connections at the café","host":"web-2","note":"refused"}
{"n":2,"message":"ok","host":"web","trace":"refuse","extra":"refused"}"#;

/// The events that a search finds, by their numbers.
async fn found(engine: &Engine, search: &str) -> Vec<i64> {
    let text = format!("SELECT n FROM logs WHERE search('{search}') ORDER BY n");
    let rows = sql(engine, &text).await;
    rows.lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["n"].as_i64().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_follow_the_definition_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    // The columns of one stream are declared, those of the other are found in its events.
    for create in [
        "CREATE STREAM logs (n LONG, message STRING, host STRING, trace STRING, note STRING)",
        "CREATE STREAM logs WITH (store = true)",
    ] {
        sql(&engine, create).await;
        append(&engine, "logs", EVENTS, None).await;
        assert_eq!(
            found(&engine, "refused").await,
            [0, 1, 2],
            "{create}: without an index, all texts are searched"
        );
        assert_eq!(found(&engine, "host:web").await, [0, 1, 2]);
        // Acknowledged events are known, so their columns can be named.
        sql(
            &engine,
            "CREATE SEARCH INDEX ON logs (message TEXT (stem = 'english', fold = accents), host ID)",
        )
        .await;
        assert_eq!(found(&engine, "refused").await, [0, 1], "{create}: by stems, in the default column");
        assert_eq!(found(&engine, "cafe").await, [1]);
        assert_eq!(found(&engine, "host:web").await, [2], "{create}: an ID is found whole");
        sql(&engine, "ALTER SEARCH INDEX ON logs DROP message, ADD message TEXT, ADD *").await;
        assert_eq!(found(&engine, "cafe").await, [0_i64; 0]);
        assert_eq!(found(&engine, "refused").await, [0, 1, 2], "{create}: every text but the ID");
        assert_eq!(found(&engine, "1").await, [0_i64; 0], "{create}: an ID is no default column");
        sql(&engine, "DROP SEARCH INDEX ON logs").await;
        assert_eq!(found(&engine, "1").await, [0]);
        sql(&engine, "DROP STREAM logs").await;
    }
    close(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_outlive_restarts_and_backups() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    create_all(&engine).await;
    sql(&engine, "ALTER SEARCH INDEX ON logs ADD note ID").await;
    append(&engine, "logs", EVENTS, None).await;
    let before = described(&engine).await;
    let (copy, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    until(&engine, "\"indexed_files\":1,\"waiting_files\":0").await;
    let backup = begin(&engine).await;
    let index_files = |backup: &Backup| {
        backup.manifest().files.iter().filter(|file| file.name.contains("/_search/")).count()
    };
    let without = BackupOptions { without_search_index: true };
    let smaller = engine.start_backup(&Principal::local(), without).await.unwrap();
    assert_eq!((index_files(&backup), index_files(&smaller)), (1, 0), "{:?}", backup.manifest().files);
    fetched(&backup, copy.path()).await;
    close(engine).await;
    let engine = open(dir.path()).await;
    assert_eq!(described(&engine).await, before, "after a restart");
    assert_eq!(found(&engine, "message:refusing").await, [0, 1]);
    close(engine).await;
    restored(copy.path(), to.path()).await.unwrap();
    let engine = open(to.path()).await;
    assert_eq!(described(&engine).await, before, "after a restore");
    assert_eq!(found(&engine, "message:refusing").await, [0, 1]);
    close(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_dropped_with_its_stream_or_table() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).await;
    create_all(&engine).await;
    for text in ["DROP STREAM logs", "DROP TABLE names"] {
        sql(&engine, text).await;
    }
    assert_eq!(sql(&engine, "SHOW SEARCH INDEXES").await, "");
    sql(&engine, "CREATE TABLE names (name VARCHAR)").await;
    close(engine).await;
    let engine = open(dir.path()).await;
    assert_eq!(sql(&engine, "SHOW SEARCH INDEXES").await, "", "after a restart");
    sql(&engine, "CREATE SEARCH INDEX ON names (name TEXT)").await;
    close(engine).await;
}
