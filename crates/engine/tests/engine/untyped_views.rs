//! Tests views over streams without declared columns, in SQL: their columns have the types of their values, or are refused.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::time::Duration;

use crate::{
    history::{append, sql, stop, try_sql, until_said},
    views::open,
};

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_view_over_an_undeclared_stream_have_the_types_of_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM s WITH (store = true)",
        "CREATE MATERIALIZED VIEW v AS SELECT host, MAX(x) AS hi, MIN(name) AS lo, SUM(y) AS total, LAST(up) AS up, \
         COLLECT_SET(x) AS xs, COUNT(*) AS n FROM STREAM(s) GROUP BY host",
        "CREATE MATERIALIZED VIEW w AS SELECT hi, COUNT(*) AS hosts FROM STREAM(v) GROUP BY hi",
    ] {
        sql(&engine, text).await;
    }
    assert_eq!(sql(&engine, "SELECT host, hi FROM v WHERE host = 'web1'").await, "");
    append(
        &engine,
        "s",
        concat!(
            "{\"host\":\"web1\",\"x\":9,\"name\":\"b\\\"q\",\"y\":1,\"up\":true}\n",
            "{\"host\":\"web2\",\"x\":10,\"name\":\"a\",\"y\":0.5}\n{\"host\":\"web2\",\"x\":7}\n{\"x\":-1}"
        ),
        None,
    )
    .await;
    for round in 0..2 {
        for (text, expected) in [
            ("SELECT hi FROM v WHERE host = 'web1'", "{\"hi\":9}\n"),
            (
                "SELECT max(hi) AS m, sum(hi) AS s, max(host) AS h FROM v",
                "{\"m\":10,\"s\":18,\"h\":\"web2\"}\n",
            ),
            ("SELECT host FROM v WHERE hi > 9", "{\"host\":\"web2\"}\n"),
            ("SELECT lo, total, up FROM v WHERE hi = 9", "{\"lo\":\"b\\\"q\",\"total\":1.0,\"up\":true}\n"),
            ("SELECT host || '!' AS h FROM v ORDER BY host NULLS LAST LIMIT 1", "{\"h\":\"web1!\"}\n"),
            ("SELECT json_length(xs) AS l FROM v WHERE host = 'web2'", "{\"l\":2}\n"),
            ("SELECT hosts FROM w WHERE hi = 10", "{\"hosts\":1}\n"),
            ("SELECT v.host FROM v JOIN w ON v.hi = w.hi WHERE w.hi > 9", "{\"host\":\"web2\"}\n"),
        ] {
            assert_eq!(sql(&engine, text).await, expected, "{text}, round {round}");
        }
        stop(engine, Duration::from_secs(5)).await;
        engine = open(dir.path(), |_| ()).await;
    }
    let described = sql(&engine, "DESCRIBE v").await;
    for (column, ty) in [("host", "VARCHAR"), ("hi", "BIGINT"), ("total", "DOUBLE"), ("up", "BOOLEAN")] {
        let row = format!("{{\"column_name\":\"{column}\",\"data_type\":\"{ty}\"");
        assert!(described.contains(&row), "{row}: {described}");
    }
    // A whole number becomes one of several once fractions come.
    append(&engine, "s", "{\"host\":\"web3\",\"x\":9.5}", None).await;
    assert_eq!(sql(&engine, "SELECT host FROM v WHERE hi < 10 AND hi > 9").await, "{\"host\":\"web3\"}\n");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn view_whose_values_have_no_order_together_is_refused_in_sql_until_they_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM s WITH (store = true)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, LAST(code) AS code FROM STREAM(s) GROUP BY k",
        "CREATE MATERIALIZED VIEW c AS SELECT CAST(code AS STRING) AS code, COUNT(*) AS n FROM STREAM(s) GROUP BY CAST(code AS STRING)",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "s", "{\"k\":1,\"code\":200}\n{\"k\":2,\"code\":\"timeout\"}", None).await;
    let error = try_sql(&engine, "SELECT max(code) FROM v").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "column `code` of view `v` contains numbers and values of other types, which SQL cannot compare with one another"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("CAST(x AS STRING)")), "{:?}", error.hint());
    assert_eq!(sql(&engine, "SELECT n FROM c WHERE code = '200'").await, "{\"n\":1}\n");
    append(&engine, "s", "{\"k\":2,\"code\":404}", None).await;
    assert_eq!(sql(&engine, "SELECT max(code) AS m FROM v").await, "{\"m\":404}\n");
    append(&engine, "s", "{\"k\":1,\"code\":9007199254740993}\n{\"k\":3,\"code\":0.5}", None).await;
    let error = try_sql(&engine, "SELECT code FROM v").await.unwrap_err().to_string();
    assert!(error.contains("whole numbers beyond 2^53 and fractions"), "{error}");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn column_that_is_declared_as_json_stays_json() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM s (k LONG, j JSON)").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW v AS SELECT k, LAST(j) AS j, LAST(*) AS e FROM STREAM(s) GROUP BY k",
    )
    .await;
    append(&engine, "s", "{\"k\":1,\"j\":\"a\"}\n{\"k\":2,\"j\":5}", None).await;
    let rows = "{\"k\":1,\"j\":\"\\\"a\\\"\"}\n{\"k\":2,\"j\":\"5\"}\n";
    assert_eq!(sql(&engine, "SELECT k, j FROM v ORDER BY k").await, rows);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_into_a_table_gets_values_and_no_json() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM s WITH (store = true)",
        "CREATE TABLE closed (host STRING, n BIGINT, hi BIGINT)",
        "CREATE MATERIALIZED VIEW v AS SELECT host, COUNT(*) AS n, MAX(x) AS hi FROM STREAM(s) GROUP BY host \
         WINDOWING TUMBLING(10, EVENT(ts))",
        "CREATE SINK into_table FROM v INTO TABLE closed",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "s", "{\"host\":\"web1\",\"x\":9,\"ts\":1}\n{\"host\":\"web1\",\"x\":10,\"ts\":2}", None)
        .await;
    append(&engine, "s", "{\"host\":\"web1\",\"x\":1,\"ts\":50}", None).await;
    until_said(&engine, "SELECT * FROM closed", "{\"host\":\"web1\",\"n\":2,\"hi\":10}\n").await;
    stop(engine, Duration::from_secs(5)).await;
}
