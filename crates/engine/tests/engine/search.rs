//! Tests that a search in SQL over stored events finds what the same live query finds in them.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use swiftwater_engine::{
    EndReason, Engine, EngineConfig, Piece, Principal, SearchRequest, SearchSort, SubmitOptions,
};
use swiftwater_event::{StreamName, SystemClock};

use crate::history::{append, open_when_free, quick, sql, try_sql};

const EVENTS: &str = r#"{"n":0,"message":"Connection refused by 10.0.0.12","status":500,"took":0.25,"seen":"2026-01-02T03:04:05Z","tags":["new","Urgent"]}
{"n":1,"message":"read timeout","status":"500","took":9007199254740993,"attributes":{"http.method":"GET","user":{"name":"Ångström"}}}
{"n":2,"message":"ok","status":404,"seen":1767323045000,"attributes":{"http.method":"POST"}}
{"n":3,"message":{"text":"refused, too"},"tags":"urgent"}
{"n":4,"message":"東京都の天気","status":5e2,"took":"slow"}
{"n":5,"other":"connection","attributes":["GET"]}"#;

const SEARCHES: [&str; 22] = [
    "refused",
    "connection refused",
    "\"connection refused\"",
    "-refused",
    "refused OR timeout",
    "urgent",
    "京都",
    "status:500",
    "status:>=404",
    "took:9007199254740993",
    "took:9007199254740992",
    "tags:urgent",
    "seen:*",
    "attributes.http.method:get",
    "attributes.user.name:\"ÅNGSTRÖM\"",
    "attributes:get",
    "message.text:refused",
    "message:/refus/",
    "message:=\"read time\"",
    "took:slow",
    "10.0.0.12",
    "*",
];

fn numbers(text: &str) -> Vec<i64> {
    let mut numbers: Vec<i64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// What a live query finds in the events, which are appended while it runs.
async fn live(engine: &Engine, condition: &str) -> Vec<i64> {
    let text = format!("SELECT n FROM STREAM(logs) WHERE {condition}");
    let mut query = engine.submit(&Principal::local(), &text, SubmitOptions::default()).unwrap();
    append(engine, "logs", EVENTS, None).await;
    let _ = engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed);
    let mut found = String::new();
    while let Some(emit) = query.next().await {
        found.push_str(std::str::from_utf8(&emit.records.text).unwrap());
    }
    numbers(&found)
}

async fn agree(engine: &Engine, search: &str) {
    let quoted = search.replace('\'', "''");
    let live = live(engine, &format!("SEARCH('{quoted}')")).await;
    let stored = sql(engine, &format!("SELECT DISTINCT n FROM logs WHERE search('{quoted}')")).await;
    assert_eq!(numbers(&stored), live, "{search}");
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_in_stored_events_what_a_live_query_finds() {
    for create in [
        "CREATE STREAM logs WITH (store = true)",
        "CREATE STREAM logs (n LONG, message JSON, status JSON, took DOUBLE, tags LIST[STRING], attributes JSON)",
        "CREATE STREAM logs (n LONG, message STRING) WITH (partition_by = day)",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let config = EngineConfig {
            shards: 1,
            default_stream: Some(StreamName::new("logs").unwrap()),
            ..EngineConfig::default()
        };
        let engine = open_when_free(config, quick(dir.path()), Arc::new(SystemClock::new())).await;
        sql(&engine, create).await;
        append(&engine, "logs", EVENTS, None).await;
        // A declared DOUBLE rounds what is stored.
        let is_rounded = |search: &&str| create.contains("took DOUBLE") && search.starts_with("took:9");
        for search in SEARCHES.into_iter().filter(|search| !is_rounded(search)) {
            match try_sql(&engine, &format!("SELECT 1 FROM logs WHERE search('{search}')")).await {
                Ok(_) => agree(&engine, search).await,
                Err(error) => {
                    let (column, _) = search.split_once(':').unwrap();
                    let error = error.to_string();
                    let is_unknown = error.contains("there is no column") || error.contains("has no field");
                    assert!(is_unknown, "{create}: {search}: {error}");
                    // The field is in the events' own text.
                    let stored = format!("SELECT DISTINCT n FROM logs WHERE search('_event.{search}')");
                    let stored = sql(&engine, &stored).await;
                    assert_eq!(
                        numbers(&stored),
                        live(&engine, &format!("SEARCH('{search}')")).await,
                        "{column}"
                    );
                }
            }
        }
        engine.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_is_a_condition_of_sql_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let engine = open_when_free(config, quick(dir.path()), Arc::new(SystemClock::new())).await;
    sql(&engine, "CREATE STREAM logs WITH (store = true)").await;
    append(&engine, "logs", EVENTS, None).await;
    for (statement, expected) in [
        ("SELECT n FROM logs WHERE search(message, 'refused') ORDER BY n", "{\"n\":0}\n"),
        ("SELECT count(*) FILTER (WHERE search('refused OR timeout')) AS n FROM logs", "{\"n\":3}\n"),
        (
            "SELECT CASE WHEN search('urgent') THEN 1 ELSE 0 END AS u, count(*) AS c FROM logs GROUP BY 1 ORDER BY 1",
            "{\"u\":0,\"c\":4}\n{\"u\":1,\"c\":2}\n",
        ),
        ("SELECT a.n FROM logs a JOIN logs b ON a.n = b.n AND search(b.message, 'timeout')", "{\"n\":1}\n"),
        ("SELECT n FROM (SELECT * FROM logs WHERE status = 404) WHERE search('ok')", "{\"n\":2}\n"),
        ("SELECT n FROM logs WHERE search('_time:>now-1h n:3')", "{\"n\":3}\n"),
        ("SELECT n FROM logs WHERE search('_time:<now-1h')", ""),
        ("SELECT count(*) AS c FROM logs WHERE NOT search('*')", "{\"c\":0}\n"),
        ("SELECT search('a b', 'b') AS f, search(NULL, '-b') AS g", "{\"f\":true,\"g\":true}\n"),
        ("SELECT search(x, 'b') AS f FROM (VALUES ('a'), ('b')) AS t(x)", "{\"f\":false}\n{\"f\":true}\n"),
        (
            "WITH t AS (SELECT arrow_cast(n, 'Dictionary(Int32, Int64)') AS d FROM logs) SELECT count(*) AS c FROM t WHERE search('d:>2')",
            "{\"c\":3}\n",
        ),
    ] {
        assert_eq!(sql(&engine, statement).await, expected, "{statement}");
    }
    for (statement, expected) in [
        ("SELECT 1 FROM logs WHERE search('a OR')", "character 5: `OR` has nothing after it"),
        ("SELECT 1 FROM logs WHERE search('mesage:a')", "there is no column `mesage`"),
        ("SELECT 1 FROM logs WHERE search('n.x:a')", "column `n` has no field `x`"),
        ("SELECT 1 FROM logs WHERE search(message)", "the query of search must be a constant text"),
        ("SELECT 1 FROM logs WHERE search(message, message)", "the query of search must be a constant text"),
        ("SELECT 1 FROM logs WHERE search(message, 'a:b')", "one value is searched"),
        ("SELECT 1 FROM logs a, logs b WHERE search('a')", "of one table"),
    ] {
        let error = try_sql(&engine, statement).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{statement}: {error}");
        assert!(error.hint().is_some() || statement.contains("a OR"), "{statement}");
    }
    let plan = sql(&engine, "EXPLAIN SELECT n FROM logs WHERE search(message, 'refused')").await;
    assert!(plan.contains("search(") && !plan.contains("status"), "other columns are not read: {plan}");
    engine.shutdown(Duration::from_secs(5)).await;
}

fn offsets(answer: &swiftwater_engine::SearchAnswer) -> Vec<u64> {
    answer.hits.iter().map(|hit| hit.offset).collect()
}

fn request(query: &str) -> SearchRequest {
    SearchRequest::new(StreamName::new("logs").unwrap(), query)
}

async fn found(engine: &Engine, request: &SearchRequest) -> swiftwater_engine::SearchAnswer {
    engine.search(&Principal::local(), request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn search_answers_hits_in_order_with_their_count() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let engine = open_when_free(config, quick(dir.path()), Arc::new(SystemClock::new())).await;
    sql(&engine, "CREATE STREAM logs WITH (store = true)").await;
    append(&engine, "logs", EVENTS, None).await;
    let answer = found(&engine, &request("refused")).await;
    assert_eq!((offsets(&answer), answer.total, answer.streams[0].position), (vec![3, 0], Some(2), 6));
    assert_eq!(answer.hits[0].event, EVENTS.lines().nth(3).unwrap());
    assert!(answer.hits[0].highlights.is_none() && answer.cursor.is_none());
    let answer = found(&engine, &SearchRequest { highlights: true, ..request("refused 12") }).await;
    let pieces = &answer.hits[0].highlights.as_ref().unwrap()[..];
    let expected = vec![
        Piece::Text("Connection ".to_owned()),
        Piece::Match("refused".to_owned()),
        Piece::Text(" by 10.0.0.".to_owned()),
        Piece::Match("12".to_owned()),
    ];
    assert_eq!(pieces, [("message".into(), expected)]);
    let sort = |column: &str, descending| SearchSort { column: column.to_owned(), descending };
    let ask = |change: fn(&mut SearchRequest)| {
        let mut request = request("*");
        change(&mut request);
        request
    };
    for (request, expected) in [
        (SearchRequest { sort: sort("n", false), ..request("*") }, &[0, 1, 2, 3, 4, 5][..]),
        (SearchRequest { sort: sort("took", true), ..request("*") }, &[1, 0, 5, 4, 3, 2]),
        (SearchRequest { sort: sort("_time", false), limit: 2, ..request("*") }, &[0, 1]),
        (ask(|request| request.limit = 0), &[]),
        (ask(|request| request.from = Some("now+1h".to_owned())), &[]),
        (ask(|request| request.to = Some("2026-01-01".to_owned())), &[]),
        (SearchRequest { operator: swiftwater_text::query::Operator::Or, ..request("timeout ok") }, &[2, 1]),
    ] {
        let answer = found(&engine, &request).await;
        assert_eq!(offsets(&answer), expected, "{request:?}");
    }
    let columns = Some(vec!["status".to_owned(), "n".to_owned()]);
    let answer = found(&engine, &SearchRequest { columns, ..request("n:1") }).await;
    assert_eq!(answer.hits[0].event, "{\"status\":null,\"n\":1}");
    for (request, expected) in [
        (request("a OR"), "character 5"),
        (request("mesage:a"), "there is no column `mesage`"),
        (SearchRequest { sort: sort("nn", true), ..request("a") }, "no column `nn` to sort by"),
        (SearchRequest { cursor: Some("00".to_owned()), ..request("a") }, "cursor"),
        (SearchRequest { limit: 10_001, ..request("a") }, "`search.hits_max` is 10000"),
        (SearchRequest { from: Some("soon".to_owned()), ..request("a") }, "`from` is no time"),
        (
            SearchRequest { time: Some("n".to_owned()), from: Some("now".to_owned()), ..request("a") },
            "TIMESTAMP",
        ),
        (SearchRequest::new(StreamName::new("log").unwrap(), "a"), "there is no stream `log`"),
    ] {
        let error = engine.search(&Principal::local(), &request).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{request:?}: {error}");
    }
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_put_together_are_the_answer_as_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let mut engine = open_when_free(config.clone(), quick(dir.path()), Arc::new(SystemClock::new())).await;
    sql(&engine, "CREATE STREAM logs WITH (store = true)").await;
    let event = |n: usize| format!("{{\"n\":{n},\"level\":\"{}\",\"text\":\"line {n}\"}}", n % 3);
    let lines = |from: usize, to: usize| (from..to).map(event).collect::<Vec<_>>().join("\n");
    append(&engine, "logs", &lines(0, 100), None).await;
    for sort in ["_time", "level", "n", "_offset"] {
        for descending in [false, true] {
            let sort = SearchSort { column: sort.to_owned(), descending };
            let base = SearchRequest { sort: sort.clone(), ..request("line -n:7") };
            let whole = found(&engine, &SearchRequest { limit: 10_000, ..base.clone() }).await;
            let (mut pages, mut cursor, mut more) = (Vec::new(), None, 100);
            loop {
                let page =
                    found(&engine, &SearchRequest { limit: 13, cursor: cursor.take(), ..base.clone() }).await;
                assert_eq!(page.total, whole.total);
                pages.extend(offsets(&page));
                let Some(next) = page.cursor else { break };
                cursor = Some(next);
                append(&engine, "logs", &lines(more, more + 5), None).await;
                more += 5;
                if more == 115 {
                    engine.shutdown(Duration::from_secs(5)).await;
                    drop(engine);
                    engine =
                        open_when_free(config.clone(), quick(dir.path()), Arc::new(SystemClock::new())).await;
                }
            }
            assert_eq!(pages, offsets(&whole), "{sort:?}");
        }
    }
    engine.shutdown(Duration::from_secs(5)).await;
}
