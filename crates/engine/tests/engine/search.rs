//! Tests that a search in SQL over stored events finds what the same live query finds in them.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use swiftwater_engine::{
    AggregateRequest, EndReason, Engine, EngineConfig, FacetRequest, Followed, HistogramRequest, Piece,
    Principal, RangeRequest, SearchError, SearchRequest, SearchSort, SearchState, SubmitOptions,
};
use swiftwater_event::{StreamName, SystemClock};
use swiftwater_testkit::TestClock;

use crate::crashes::{Kind, Machine};
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

/// The events that a live query finds while they are appended.
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

const SALES: usize = 3000;

/// An engine with a stream of sales in several files.
async fn with_sales(dir: &std::path::Path, change: fn(&mut swiftwater_engine::HistoryConfig)) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let mut history = quick(dir);
    change(&mut history);
    let engine = open_when_free(config, history, Arc::new(SystemClock::new())).await;
    let create = "CREATE STREAM logs (n LONG, category STRING, tags LIST[STRING], price DOUBLE, qty LONG, note STRING)";
    sql(&engine, create).await;
    let event = |n: usize| {
        let category = ["a/x", "a/y", "b", "a/x/deep"][n % 4];
        let tags = ["[\"new\"]", "[\"new\",\"old\"]", "[]"][n % 3];
        format!(
            "{{\"n\":{n},\"category\":\"{category}\",\"tags\":{tags},\"price\":{}.25,\"qty\":{},\"note\":\"sale {n}\"}}",
            n % 17,
            n % 5
        )
    };
    for part in 0..3 {
        let lines: Vec<String> = (part * SALES / 3..(part + 1) * SALES / 3).map(event).collect();
        append(&engine, "logs", &lines.join("\n"), None).await;
        // The last part may wait for its commit.
        let is_committed = || {
            let commits = &engine.history_metrics().unwrap().tables[0];
            part == 2 || (commits.lag_events == 0 && commits.files > part as u64)
        };
        while !is_committed() {
            tokio::task::yield_now().await;
        }
    }
    engine
}

fn aggregate(name: &str, expression: &str) -> AggregateRequest {
    AggregateRequest { name: name.to_owned(), expression: expression.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_hits_are_found_without_reading_older_files() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_sales(dir.path(), |_| ()).await;
    // More events than the first slice has.
    let lines: Vec<String> = (0..70_000).map(|n| format!("{{\"n\":{n},\"note\":\"filler {n}\"}}")).collect();
    append(&engine, "logs", &lines.join("\n"), None).await;
    let newest = SearchRequest { counts: false, limit: 3, ..request("filler") };
    let answer = found(&engine, &newest).await;
    let last = (SALES + 70_000) as u64;
    assert_eq!(offsets(&answer), [last - 1, last - 2, last - 3]);
    let searched = &answer.streams[0].searched;
    assert!(answer.is_complete && searched.start > SALES as u64 && searched.end == last, "{searched:?}");
    let oldest =
        SearchRequest { sort: SearchSort { descending: false, ..SearchSort::default() }, ..newest.clone() };
    let answer = found(&engine, &oldest).await;
    assert_eq!(offsets(&answer), [SALES as u64, SALES as u64 + 1, SALES as u64 + 2]);
    assert!(answer.streams[0].searched.end < last);
    // Rare ones are found in the oldest files, too, and a page goes on behind the last hit.
    let rare = SearchRequest { counts: false, limit: 2, ..request("sale") };
    let first = found(&engine, &rare).await;
    assert_eq!(offsets(&first), [SALES as u64 - 1, SALES as u64 - 2]);
    let second = found(&engine, &SearchRequest { cursor: first.cursor.clone(), ..rare.clone() }).await;
    assert_eq!(offsets(&second), [SALES as u64 - 3, SALES as u64 - 4]);
    assert_eq!(second.streams[0].searched.end, SALES as u64 - 2);
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_answer_is_the_whole_answer_over_the_offsets_that_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_sales(dir.path(), |_| ()).await;
    let facet = FacetRequest {
        column: "category".to_owned(),
        name: None,
        limit: 20,
        path: None,
        depth: None,
        aggregates: Vec::new(),
        order: None,
    };
    let histogram = HistogramRequest {
        column: "_time".to_owned(),
        interval_micros: None,
        by: None,
        aggregates: Vec::new(),
    };
    let whole = SearchRequest {
        facets: vec![facet],
        histogram: Some(histogram),
        limit: 5000,
        ..request("sale -n:7")
    };
    let partial = SearchRequest { partial: true, ..whole.clone() };
    let (whole, partial) = (found(&engine, &whole).await, found(&engine, &partial).await);
    assert!(partial.is_complete);
    assert_eq!(
        (offsets(&partial), partial.total, &partial.facets),
        (offsets(&whole), whole.total, &whole.facets)
    );
    let counts = |answer: &swiftwater_engine::SearchAnswer| {
        answer.histogram.iter().flatten().map(|bucket| bucket.count).sum::<u64>()
    };
    assert_eq!((counts(&partial), counts(&whole)), (SALES as u64 - 1, SALES as u64 - 1));
    engine.shutdown(Duration::from_secs(5)).await;
    // No slice is finished in no time: the answer is that over no offsets.
    let late = tempfile::tempdir().unwrap();
    let engine = with_sales(late.path(), |history| history.search_timeout_ms = 1).await;
    let slow = SearchRequest { partial: true, limit: 0, ..request("sale OR *a* OR *e* OR sale~1") };
    let mut has_ended_early = false;
    for _ in 0..20 {
        let Ok(answer) = engine.search(&Principal::local(), &slow).await else { continue };
        let searched = answer.streams[0].searched.clone();
        assert_eq!(answer.total, Some(searched.end - searched.start));
        has_ended_early |= !answer.is_complete && !answer.warnings.is_empty();
    }
    assert!(has_ended_early);
    let error = engine
        .search(&Principal::local(), &SearchRequest { partial: false, ..slow.clone() })
        .await
        .unwrap_err();
    assert!(error.to_string().contains("search.timeout_ms"), "{error}");
    let hint = |error: &SearchError| match error {
        SearchError::Failed(error) => error.hint().unwrap_or_default().to_owned(),
        busy => panic!("{busy}"),
    };
    assert!(hint(&error).ends_with("CREATE SEARCH INDEX ON \"logs\" (*)."), "{}", hint(&error));
    sql(&engine, "CREATE SEARCH INDEX ON logs (*)").await;
    let whole = SearchRequest { partial: false, ..slow };
    let error = engine.search(&Principal::local(), &whole).await.unwrap_err();
    assert!(!hint(&error).contains("CREATE SEARCH INDEX"), "{}", hint(&error));
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_are_those_of_sql() {
    const INTERVAL_MICROS: i64 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = with_sales(dir.path(), |_| ()).await;
    let expressions = [
        "sum(price * qty)",
        "avg(price)",
        "min(qty)",
        "max(n)",
        "count(*)",
        "count(CASE WHEN qty > 2 THEN 1 END)",
        "first(note)",
    ];
    let aggregates: Vec<AggregateRequest> =
        expressions.iter().enumerate().map(|(number, text)| aggregate(&format!("x{number}"), text)).collect();
    let columns: String = expressions
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let text = if *text == "first(note)" { "first_value(note ORDER BY _offset)" } else { text };
            format!(", {text} AS x{number}")
        })
        .collect();
    let facet = |column: &str, order: Option<(String, bool)>| FacetRequest {
        column: column.to_owned(),
        name: None,
        limit: 20,
        path: None,
        depth: None,
        aggregates: aggregates.clone(),
        order,
    };
    let asked = SearchRequest {
        facets: vec![facet("category", Some(("x0".to_owned(), true))), facet("tags", None)],
        ranges: vec![RangeRequest {
            column: "n".to_owned(),
            name: None,
            bounds: vec!["0".to_owned(), "100".to_owned(), "2500".to_owned()],
            aggregates: aggregates.clone(),
        }],
        histogram: Some(HistogramRequest {
            column: "_time".to_owned(),
            interval_micros: Some(INTERVAL_MICROS),
            by: None,
            aggregates: aggregates.clone(),
        }),
        ..request("sale -n:7")
    };
    let answer = found(&engine, &asked).await;
    let of_row = |aggregates: &[(String, String)]| -> Value {
        aggregates
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::from_str(value).unwrap()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let expected = async |select: &str, rest: &str| -> Vec<Value> {
        let text = format!("SELECT {select}{columns} FROM logs WHERE search('sale -n:7') {rest}");
        let rows = sql(&engine, &text).await;
        rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let without_key = |mut row: Value| {
        row.as_object_mut().unwrap().remove("k");
        row
    };
    let rows = expected("category AS k", "GROUP BY category ORDER BY x0 DESC, k").await;
    let values = &answer.facets[0].values;
    let keys: Vec<Value> = values.iter().map(|value| serde_json::from_str(&value.value).unwrap()).collect();
    assert_eq!(keys, rows.iter().map(|row| row["k"].clone()).collect::<Vec<_>>());
    for (value, row) in values.iter().zip(rows) {
        assert_eq!(of_row(&value.aggregates), without_key(row));
    }
    for value in &answer.facets[1].values {
        let tag: String = serde_json::from_str(&value.value).unwrap();
        let rows = expected("1 AS k", &format!("AND array_has(tags, '{tag}')")).await;
        assert_eq!(of_row(&value.aggregates), without_key(rows[0].clone()), "{tag}");
    }
    for range in &answer.ranges[0].1 {
        let rows = expected("1 AS k", &format!("AND n >= {} AND n < {}", range.from, range.to)).await;
        assert_eq!(of_row(&range.aggregates), without_key(rows[0].clone()));
    }
    let buckets = answer.histogram.as_ref().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), SALES as u64 - 1);
    for bucket in buckets.iter().filter(|bucket| bucket.count > 0).take(20) {
        let time = |micros: i64| format!("arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')");
        let (start, end) = (time(bucket.start_micros), time(bucket.start_micros + INTERVAL_MICROS));
        let rows = expected("1 AS k", &format!("AND _time >= {start} AND _time < {end}")).await;
        assert_eq!(of_row(&bucket.aggregates), without_key(rows[0].clone()), "{start}");
    }
    for (expression, expected) in [
        ("sum(nothing)", "nothing"),
        ("sum(note)", "cannot be computed"),
        ("sum(sum(n))", "cannot be computed"),
        ("sum((SELECT 1))", "subquery"),
        ("sum(n) FROM logs", "expected the end of the expression"),
        ("median(n)", "no aggregate that a search computes"),
    ] {
        let facets =
            vec![FacetRequest { aggregates: vec![aggregate("x", expression)], ..facet("category", None) }];
        let error = engine
            .search(&Principal::local(), &SearchRequest { facets, ..request("sale") })
            .await
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{expression}: {error}");
    }
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_summarized_with_their_values() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_sales(dir.path(), |_| ()).await;
    let answer = engine.search_fields(&Principal::local(), &request("sale"), 3).await.unwrap();
    assert_eq!(answer.answer.total, Some(SALES as u64));
    let field = |name: &str| answer.fields.iter().find(|field| field.column == name).unwrap();
    let category = field("category");
    assert_eq!((category.count, category.distinct, category.is_exact), (SALES as u64, Some(4), true));
    assert_eq!(category.values.len(), 3);
    assert!(category.values.iter().all(|value| value.count == SALES as u64 / 4));
    let n = field("n");
    let distinct = n.distinct.unwrap() as f64;
    assert!(!n.is_exact && (distinct / SALES as f64 - 1.0).abs() < 0.05, "{distinct}");
    let tags = field("tags");
    assert_eq!((tags.distinct, tags.values.len()), (None, 0));
    let columns = Some(vec!["qty".to_owned()]);
    let few = SearchRequest { columns, ..request("n:<10") };
    let answer = engine.search_fields(&Principal::local(), &few, 10).await.unwrap();
    let of = |value: &str| answer.fields[0].values.iter().find(|found| found.value == value).unwrap().count;
    assert_eq!((answer.fields.len(), of("0"), of("4")), (1, 2, 2));
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_wait_are_refused_and_ended() {
    let dir = tempfile::tempdir().unwrap();
    let limits = |history: &mut swiftwater_engine::HistoryConfig| {
        (history.search_searches_max, history.search_waiting_max) = (1, 1);
    };
    let engine = with_sales(dir.path(), limits).await;
    // Each event is compared at length: it takes minutes.
    let words: Vec<String> = (0..300).map(|n| format!("note:/(a|b|sale.*{n}){{1,40}}x/")).collect();
    let slow = words[..60].join(" OR ");
    let lines: Vec<String> =
        (0..20_000).map(|n| format!("{{\"n\":{n},\"note\":\"{}\"}}", "sale ".repeat(200))).collect();
    append(&engine, "logs", &lines.join("\n"), None).await;
    let ask = |id: &str| {
        let (engine, slow) = (engine.clone(), SearchRequest { id: Some(id.to_owned()), ..request(&slow) });
        tokio::spawn(async move { engine.search(&Principal::local(), &slow).await })
    };
    let state = |id: &str| engine.running_search(&Principal::local(), id).map(|search| search.state);
    let reaches = async |id: &str, wanted: SearchState| {
        while state(id) != Some(wanted) {
            tokio::task::yield_now().await;
        }
    };
    let first = ask("first");
    reaches("first", SearchState::Running).await;
    let second = ask("second");
    reaches("second", SearchState::Waiting).await;
    let error = ask("third").await.unwrap().unwrap_err();
    assert!(error.to_string().contains("1 searches are already waiting"), "{error}");
    let same = SearchRequest { id: Some("first".to_owned()), ..request("sale") };
    assert!(engine.search(&Principal::local(), &same).await.unwrap_err().to_string().contains("is running"));
    assert_eq!(
        engine.search_metrics().map(|metrics| (metrics.running, metrics.waiting, metrics.refused)),
        Some((1, 1, 1))
    );
    assert!(engine.end_search(&Principal::local(), "first"));
    assert!(first.await.unwrap().unwrap_err().to_string().contains("was ended"));
    assert_eq!(state("first"), Some(SearchState::Cancelled));
    reaches("second", SearchState::Running).await;
    // Its client is gone.
    second.abort();
    reaches("second", SearchState::Cancelled).await;
    while !engine.sql().unwrap().running().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(
        !engine.end_search(&Principal::local(), "second") && engine.searches(&Principal::local()).is_empty()
    );
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_search_stand_in_sql() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_sales(dir.path(), |_| ()).await;
    for (statement, expected) in [
        (
            "SELECT facet(category, 1) AS f, count(*) AS c FROM logs GROUP BY 1 ORDER BY 1",
            "{\"f\":\"a\",\"c\":2250}\n{\"f\":\"b\",\"c\":750}\n",
        ),
        ("SELECT facet('a/b/c', 2) AS f, facet(NULL, 1) AS g", "{\"f\":\"a/b\",\"g\":null}\n"),
        (
            "SELECT n, _score > 0 AS s FROM search('logs', '\"sale 12\"') ORDER BY n",
            "{\"n\":12,\"s\":true}\n",
        ),
        ("SELECT search_score(note, 'absent') AS s FROM logs WHERE n = 1", "{\"s\":null}\n"),
        ("SELECT count(*) AS c FROM search('logs', 'sale') WHERE _score > 100", "{\"c\":0}\n"),
        (
            "SELECT l.n FROM search('logs', 'n:<3') AS l JOIN logs b ON l.n = b.n ORDER BY 1",
            "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n",
        ),
        (
            "SELECT search_snippet(note, '12', 4) AS s FROM logs WHERE search(note, '12')",
            "{\"s\":\"…e 12\"}\n",
        ),
        ("SELECT search_snippet(note, 'absent') AS s FROM logs WHERE n = 1", "{\"s\":null}\n"),
        ("SELECT search_snippet('read timeout', 'timeout') AS s", "{\"s\":\"read timeout\"}\n"),
    ] {
        assert_eq!(sql(&engine, statement).await, expected, "{statement}");
    }
    for (statement, expected) in [
        ("SELECT facet(category, 0) FROM logs", "from 1"),
        ("SELECT * FROM search('logs')", "has a stream and a query"),
        ("SELECT search_snippet(note, 'a', 0) FROM logs", "from 1 to"),
        ("SELECT search_snippet(note, note) FROM logs", "must be a constant text"),
        ("SELECT search_score(note, note) FROM logs", "must be a constant text"),
        ("SELECT search_score('a')", "needs a table of the FROM clause"),
        ("SELECT search_score(upper(note), 'a') FROM logs", "of a column of a table"),
        ("SELECT search_score(note, 'a') FROM logs, logs b", "of one table"),
        ("SELECT search_score(x.note, 'a') FROM (SELECT * FROM logs) AS x", "not of a subquery"),
        ("SELECT * FROM search('log', 'a')", "log"),
    ] {
        let error = try_sql(&engine, statement).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{statement}: {error}");
    }
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_matching_event_is_followed_once_in_order_while_events_are_appended() {
    let dir = tempfile::tempdir().unwrap();
    let engine = with_sales(dir.path(), |_| ()).await;
    const EVENTS: usize = 600;
    let appended = {
        let engine = engine.clone();
        tokio::spawn(async move {
            for n in 0..EVENTS {
                let word = if n % 3 == 0 { "hit" } else { "miss" };
                append(&engine, "logs", &format!("{{\"n\":{n},\"note\":\"{word} {n}\"}}"), None).await;
            }
        })
    };
    // It begins in the midst of the appends, with as many hits of history as there are.
    let principal = Principal::local();
    while found(&engine, &request("hit")).await.total < Some(20) {
        tokio::task::yield_now().await;
    }
    let all = SearchRequest { limit: 10_000, ..request("hit") };
    let mut follow = engine.follow_search(&principal, all.clone(), None).await.unwrap();
    let next = async |follow: &mut swiftwater_engine::SearchFollow| match follow.next().await.unwrap() {
        Followed::Hit { hit, position } => (hit.offset, position),
        lost @ Followed::Lost { .. } => panic!("{lost:?}"),
    };
    let (mut followed, mut positions) = (Vec::new(), Vec::new());
    for _ in 0..EVENTS / 3 {
        let (offset, position) = next(&mut follow).await;
        followed.push(offset);
        positions.push(position);
    }
    appended.await.unwrap();
    let mut expected = offsets(&found(&engine, &all).await);
    expected.reverse();
    assert_eq!(followed, expected);
    let waits = tokio::time::timeout(Duration::from_millis(1500), follow.next()).await;
    assert!(waits.is_err(), "no event is followed twice");
    // It resumes behind any hit, of history and of later ones.
    for place in [0, 7, EVENTS / 3 - 2] {
        let mut resumed =
            engine.follow_search(&principal, all.clone(), Some(&positions[place])).await.unwrap();
        for expected in &expected[place + 1..] {
            assert_eq!(next(&mut resumed).await.0, *expected);
        }
    }
    let newest = SearchRequest { limit: 2, ..request("hit") };
    let mut follow = engine.follow_search(&principal, newest, None).await.unwrap();
    assert_eq!([next(&mut follow).await.0, next(&mut follow).await.0], expected[expected.len() - 2..]);
    append(&engine, "logs", "{\"note\":\"hit last\"}", None).await;
    assert_eq!(next(&mut follow).await.0, (SALES + EVENTS) as u64);
    for (request, position, expected) in [
        (SearchRequest { to: Some("now".to_owned()), ..all.clone() }, None, "`to` does not go with `follow`"),
        (all.clone(), Some("soon"), "no position of this search"),
        (all.clone(), Some("1,2"), "no position of this search"),
        (all.clone(), Some("99999999"), "no position of this search"),
        (request("a OR"), None, "character 5"),
    ] {
        let error = engine.follow_search(&principal, request, position).await.err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
    engine.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_is_told_of_events_that_were_deleted_before_it_read_them() {
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    let engine = Machine::new(Kind::Disk).open(&clock).await.unwrap();
    sql(&engine, "CREATE STREAM logs (n LONG, note STRING) WITH (retention = '1 second')").await;
    let events = |numbers: std::ops::Range<u64>| -> String {
        numbers.map(|n| format!("{{\"n\":{n},\"note\":\"hit {n}\"}}\n")).collect()
    };
    let principal = Principal::local();
    append(&engine, "logs", &events(0..3), None).await;
    let mut follow = engine.follow_search(&principal, request("hit"), None).await.unwrap();
    let mut position = String::new();
    for offset in 0..3 {
        let Followed::Hit { hit, position: behind } = follow.next().await.unwrap() else { panic!() };
        assert_eq!(hit.offset, offset);
        position = behind;
    }
    // Nobody reads while events come and are deleted.
    append(&engine, "logs", &events(3..50), None).await;
    let deleted = async {
        while sql(&engine, "SELECT count(*) AS n FROM logs").await != "{\"n\":0}\n" {
            clock.advance_ms(100);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), deleted).await.unwrap();
    append(&engine, "logs", &events(50..52), None).await;
    drop(follow);
    let mut follow = engine.follow_search(&principal, request("hit"), Some(&position)).await.unwrap();
    let Followed::Lost { stream, events, position } = follow.next().await.unwrap() else { panic!() };
    assert_eq!((stream.as_str(), events, &*position), ("logs", 47, "50"));
    for offset in 50..52 {
        let Followed::Hit { hit, .. } = follow.next().await.unwrap() else { panic!() };
        assert_eq!(hit.offset, offset);
    }
    engine.shutdown(Duration::from_secs(5)).await;
}
