//! Tests `/v1/streams/{stream}/search` and `/v1/search`: every event is found the moment it is acknowledged.

use std::time::Duration;

use serde_json::{Value, json};
use swiftwater_engine::HistoryConfig;

use crate::client::Running;

const LOGS: &str = r#"{"level":"error","message":"read timeout after 30 s","took":30000}
{"level":"info","message":"connection accepted","took":3}
{"level":"error","message":"connection refused","user":{"name":"Ångström"}}"#;
const TRACES: &str = r#"{"span":"a","note":"timeout of the client"}
{"span":"b"}"#;

async fn start(dir: &std::path::Path) -> Running {
    let server = Running::storing(dir, |_| {}).await;
    for stream in ["logs", "traces"] {
        let text = format!("CREATE STREAM {stream} WITH (store = true)");
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200);
    }
    assert_eq!(server.ingest("logs", LOGS).await.status, 200);
    assert_eq!(server.ingest("traces", TRACES).await.status, 200);
    server
}

async fn found(server: &Running, path: &str) -> Value {
    let reply = server.get(path).await;
    assert_eq!(reply.status, 200, "{path}");
    reply.json().await
}

fn offsets(answer: &Value) -> Vec<(&str, u64)> {
    let hits = answer["hits"].as_array().unwrap();
    hits.iter().map(|hit| (hit["stream"].as_str().unwrap(), hit["offset"].as_u64().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_found_by_their_words_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let answer = found(&server, "/v1/streams/logs/search?q=timeout&highlight").await;
    let hit = &answer["hits"][0];
    let event: Value = serde_json::from_str(LOGS.lines().next().unwrap()).unwrap();
    assert_eq!((&hit["event"], &hit["score"]), (&event, &Value::Null));
    let pieces =
        json!({"message": [{"text": "read "}, {"text": "timeout", "match": true}, {"text": " after 30 s"}]});
    assert_eq!(hit["highlight"], pieces);
    assert_eq!(
        (&answer["total"], &answer["cursor"], &answer["complete"]),
        (&json!(1), &Value::Null, &json!(true))
    );
    assert_eq!(answer["meta"]["position"], json!(3));
    for (path, expected) in [
        ("/v1/streams/logs/search", &[("logs", 2), ("logs", 1), ("logs", 0)][..]),
        ("/v1/streams/logs/search?q=connection&sort=_time", &[("logs", 1), ("logs", 2)]),
        ("/v1/streams/logs/search?q=timeout+accepted&op=or", &[("logs", 1), ("logs", 0)]),
        ("/v1/streams/logs/search?q=took:%3E=3&sort=-took", &[("logs", 0), ("logs", 1)]),
        ("/v1/streams/logs/search?q=%C3%85NGSTR%C3%96M", &[("logs", 2)]),
        ("/v1/streams/logs/search?q=error&from=now%2B1h", &[]),
        ("/v1/search?stream=logs&stream=traces&q=timeout", &[("traces", 0), ("logs", 0)]),
    ] {
        assert_eq!(offsets(&found(&server, path).await), expected, "{path}");
    }
    let body =
        json!({"q": "timeout", "stream": ["traces", "logs"], "columns": ["message"], "limit": 5}).to_string();
    let fields = [("content-type", "application/json")];
    let refused = server.send("POST", "/v1/search", &fields, body).await;
    assert_eq!(refused.status, 400, "traces has no column message");
    let body = json!({"q": "timeout", "stream": ["logs"], "columns": ["took", "message"], "count": "none"})
        .to_string();
    let answer = server.send("POST", "/v1/search", &fields, body).await.json().await;
    assert_eq!(answer["hits"][0]["event"], json!({"took": 30000, "message": "read timeout after 30 s"}));
    assert_eq!(answer["total"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_their_cursor_in_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let first = found(&server, "/v1/streams/logs/search?limit=2").await;
    assert_eq!((offsets(&first), &first["total"]), (vec![("logs", 2), ("logs", 1)], &json!(3)));
    assert_eq!(server.ingest("logs", LOGS).await.status, 200);
    let path = format!("/v1/streams/logs/search?limit=2&cursor={}", first["cursor"].as_str().unwrap());
    let second = found(&server, &path).await;
    assert_eq!(
        (offsets(&second), &second["total"], &second["cursor"]),
        (vec![("logs", 0)], &json!(3), &Value::Null)
    );
    let fields = [("accept", "application/x-ndjson")];
    let reply = server.send("GET", "/v1/streams/logs/search?limit=4", &fields, "").await;
    assert_eq!((reply.status, reply.field("swiftwater-total")), (200, "6"));
    let path = format!("/v1/streams/logs/search?limit=4&cursor={}", reply.field("swiftwater-cursor"));
    assert_eq!(reply.text().await.lines().count(), 4);
    let reply = server.send("GET", &path, &fields, "").await;
    assert_eq!(reply.text().await.lines().count(), 2);
    let other = path.replace("search?", "search?q=x&");
    let reply = server.get(&other).await;
    assert_eq!(reply.status, 400);
    assert!(reply.text().await.contains("belongs to another search"));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_ranges_and_times_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let more = r#"{"level":"warn","took":100.5,"tags":["a","b","a"],"at":"2026-01-02T03:04:59Z"}
{"level":"error","took":-1,"tags":[],"at":"2026-01-02T03:05:00Z"}
{"tags":["b"],"at":"1969-12-31T23:59:59Z"}"#;
    let text = "CREATE STREAM typed (level STRING, took DOUBLE, tags LIST[STRING], at TIMESTAMP)";
    assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200);
    assert_eq!(server.ingest("typed", more).await.status, 200);
    let path = "/v1/streams/typed/search?limit=0&facet=level&facet=tags;limit=1&range=took:-1,0,100.5,1000\
                &range=at:2026-01-01,2026-01-03&range=took:0,1000;name=all&facet=level;limit=1;name=first\
                &histogram=at:1m;by=level";
    let answer = found(&server, path).await;
    assert_eq!((&answer["total"], answer["hits"].as_array().unwrap().len()), (&json!(3), 0));
    let counted = |value: &str, count: u64| json!({"value": value, "count": count});
    assert_eq!(
        answer["facets"],
        json!({
            "level": {"values": [counted("error", 1), counted("warn", 1)], "distinct": 2, "missing": 1},
            "first": {"values": [counted("error", 1)], "distinct": 2, "missing": 1},
            "tags": {"values": [counted("b", 2)], "distinct": 2, "missing": 1},
        })
    );
    let range = |from: Value, to: Value, count: u64| json!({"from": from, "to": to, "count": count});
    let took = [
        range(json!(-1), json!(0), 1),
        range(json!(0), json!(100.5), 0),
        range(json!(100.5), json!(1000), 1),
    ];
    let at = [range(json!("2026-01-01"), json!("2026-01-03"), 2)];
    let all = [range(json!(0), json!(1000), 1)];
    assert_eq!(answer["ranges"], json!({"took": took, "at": at, "all": all}));
    assert_eq!(
        answer["histogram"],
        json!([
            {"time": "1969-12-31T23:59:00.000Z", "count": 1},
            {"time": "2026-01-02T03:04:00.000Z", "count": 1, "by": [counted("warn", 1)]},
            {"time": "2026-01-02T03:05:00.000Z", "count": 1, "by": [counted("error", 1)]},
        ])
    );
    let auto =
        found(&server, "/v1/search?stream=logs&stream=typed&q=error&histogram=_time:auto&facet=level").await;
    let count = |bucket: &Value| bucket["count"].as_u64().unwrap();
    let total: u64 = auto["histogram"].as_array().unwrap().iter().map(count).sum();
    assert_eq!((total, &auto["facets"]["level"]["values"][0]), (3, &counted("error", 3)));
    for (parameter, expected) in [
        ("facet=levle", "Did you mean `level`?"),
        ("facet=level;limit=x", "the limit of a facet is a number"),
        ("facet=level;order=a", "has no option `order=a`"),
        ("facet=level&facet=level;limit=1", "as in level;name=other"),
        ("range=took:0,1&range=at:2026-01-01,2026-01-02;name=took", "two ranges have the name `took`"),
        ("range=took:5", "at least two bounds"),
        ("range=took", "Write range=price:0,10,100"),
        ("range=level:a,b", "which has no ranges"),
        ("range=took:a,b", "`a` is no bound"),
        ("histogram=took:1m", "is no TIMESTAMP"),
        ("histogram=at:1y", "Write histogram=_time:1m"),
        ("histogram=at:1ms;by=nothing", "has no column `nothing`"),
    ] {
        let reply = server.get(&format!("/v1/streams/typed/search?{parameter}")).await;
        assert_eq!(reply.status, 400, "{parameter}");
        let text = reply.text().await;
        assert!(text.contains(expected), "{parameter}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_drilled_into_and_events_shown_around_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let text = "CREATE STREAM typed (category STRING, host STRING, tags LIST[STRING], n LONG)";
    assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200);
    let categories = ["a/b/c", "a/b", "a/x", "ab/c", "a", "b"];
    let events: Vec<String> = (0..12)
        .map(|n| {
            let (category, host) = (categories[n % 6], if n % 3 == 0 { "h0" } else { "h1" });
            json!({"category": category, "host": host, "tags": [category], "n": n}).to_string()
        })
        .collect();
    assert_eq!(server.ingest("typed", events.join("\n")).await.status, 200);
    let counted = |value: &str, count: u64| json!({"value": value, "count": count});
    for (parameters, total, facet) in [
        ("drill=category:a/b&facet=category", 4, json!([counted("a/b", 2), counted("a/b/c", 2)])),
        ("drill=category:a/b&drill=category:b&facet=host", 6, json!([counted("h1", 4), counted("h0", 2)])),
        ("drill=category:a/x&drill=host:h0&facet=host&sideways", 0, json!([counted("h1", 2)])),
        ("drill=tags:a/b&facet=category;depth=1", 2, json!([counted("a", 2)])),
        ("facet=category;depth=1", 12, json!([counted("a", 8), counted("ab", 2), counted("b", 2)])),
        ("facet=category;path=a", 12, json!([counted("a/b", 4), counted("a/x", 2)])),
        ("facet=category;path=a;depth=2;limit=1", 12, json!([counted("a/b", 2)])),
        ("drill=n:7&facet=host", 1, json!([counted("h1", 1)])),
    ] {
        let answer = found(&server, &format!("/v1/streams/typed/search?limit=0&{parameters}")).await;
        let facets = answer["facets"].as_object().unwrap().values().next().unwrap();
        assert_eq!((&answer["total"], &facets["values"]), (&json!(total), &facet), "{parameters}");
    }
    for (parameters, expected) in [
        ("around=5&before=2&after=1", &[3, 4, 5, 6][..]),
        ("around=0&before=2&after=2", &[0, 1, 2]),
        ("around=6&before=2&after=9&same=host", &[0, 3, 6, 9]),
        ("around=11&q=host:h0&before=2", &[6, 9, 11]),
    ] {
        let answer = found(&server, &format!("/v1/streams/typed/search?{parameters}")).await;
        let found: Vec<u64> = offsets(&answer).into_iter().map(|(_, offset)| offset).collect();
        assert_eq!(found, expected, "{parameters}");
    }
    for (path, status, expected) in [
        ("typed/search?around=12", 404, "no event with offset 12"),
        ("typed/search?before=1", 400, "need `around`"),
        ("typed/search?drill=a", 400, "drill=category:books/fiction"),
        ("typed/search?drill=a:b", 400, "has no column `a`"),
        ("typed/search?facet=n;path=a", 400, "which has no paths"),
    ] {
        let reply = server.get(&format!("/v1/streams/{path}")).await;
        assert_eq!(reply.status, status, "{path}");
        let text = reply.text().await;
        assert!(text.contains(expected), "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_say_where_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    server.ingest("live", "{}").await;
    for (path, status, expected) in [
        ("/v1/streams/logs/search?q=a+OR", 400, "character 5: `OR` has nothing after it"),
        ("/v1/streams/logs/search?q=mesage:a", 400, "Did you mean `message:`?"),
        ("/v1/streams/logs/search?q=message:/a(%3F=b)/", 400, "cannot look around"),
        ("/v1/streams/logs/search?limit=10001", 422, "`search.hits_max` is 10000"),
        ("/v1/streams/logs/search?limit=many", 400, "parameter `limit` is a number"),
        ("/v1/streams/logs/search?count=some", 400, "`exact` or `none`"),
        ("/v1/streams/logs/search?sort=levle", 400, "Did you mean `level`?"),
        ("/v1/streams/logs/search?time=took&from=now", 400, "is no TIMESTAMP"),
        ("/v1/streams/logs/search?from=soon", 400, "`from` is no time"),
        ("/v1/streams/logs/search?stream=traces", 400, "the path names the stream"),
        ("/v1/streams/logs/search?query=a", 400, "Parameters are: q, from"),
        ("/v1/streams/log/search?q=a", 404, "Did you mean `logs`?"),
        ("/v1/streams/live/search?q=a", 409, "are not stored"),
        ("/v1/search?q=a", 400, "names at least one stream"),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        let text = reply.text().await;
        assert!(text.contains(expected), "{path}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_waits_for_index_files() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let path = "/v1/streams/logs/search/index?wait=60s";
    let reply = server.get(path).await;
    assert_eq!(reply.status, 404);
    assert!(reply.text().await.contains("no search index"));
    let create = "CREATE SEARCH INDEX ON logs (message TEXT, level ID)";
    assert_eq!(server.send("POST", "/v1/sql", &[], create).await.status, 200);
    let progress = found(&server, path).await;
    let counts = ["waiting_files", "waiting_rows", "tail_rows", "unusable_files"].map(|name| &progress[name]);
    assert_eq!((&progress["complete"], counts), (&json!(true), [&json!(0); 4]), "{progress}");
    assert!(progress["indexed_files"].as_u64() > Some(0), "{progress}");
    let answer = found(&server, "/v1/streams/logs/search?q=level:error&limit=0&explain").await;
    assert_eq!((&answer["total"], &answer["meta"]["rows_scanned"]), (&json!(2), &json!(0)), "{answer}");
    assert_eq!(server.get("/v1/streams/logs/search/index?wait=1d").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_is_explained_and_columns_are_summarized() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let answer =
        found(&server, "/v1/search?stream=logs&stream=traces&q=timeout&explain&partial&facet=_offset").await;
    let meta = &answer["meta"];
    assert_eq!((&meta["position"], &meta["warnings"]), (&json!({"logs": 3, "traces": 2}), &json!([])));
    assert_eq!(answer["searched"], json!({"logs": {"from": 0, "to": 3}, "traces": {"from": 0, "to": 2}}));
    // Each row is in a file or waits for its commit, and is read for the hits and for the facet.
    assert_eq!((meta["files"]["indexed"].as_u64(), meta["rows_scanned"].as_u64()), (Some(0), Some(10)));
    let explain = &answer["explain"];
    let condition = explain["streams"]["logs"]["condition"].as_str().unwrap();
    assert!(condition.contains("_offset < 3") && condition.contains("search_at"), "{condition}");
    let stages = explain["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap());
    assert_eq!(stages.collect::<Vec<_>>(), ["plan", "scan", "facets", "hits"]);
    let none = found(&server, "/v1/streams/logs/search?q=timeout").await;
    assert!(none.get("explain").is_none() && none.get("searched").is_none());
    let fields = found(&server, "/v1/streams/logs/search/fields?q=error&columns=level,took&limit=1").await;
    assert_eq!(
        fields["fields"],
        json!([
            {"column": "level", "type": "VARCHAR", "count": 2, "distinct": 1, "exact": true,
             "values": [{"value": "error", "count": 2}]},
            {"column": "took", "type": "BIGINT", "count": 1, "distinct": 1, "exact": true,
             "values": [{"value": 30000, "count": 1}]},
        ])
    );
    assert_eq!(fields["total"], json!(2));
    let body = json!({"limit": 0, "facet": [{"column": "level", "order": "-most", "aggregates": {"most": "max(took)"}}],
        "range": {"column": "took", "bounds": [0, 100], "aggregates": {"sum": "sum(took + 1)"}}});
    let fields = [("content-type", "application/json")];
    let answer = server.send("POST", "/v1/streams/logs/search", &fields, body.to_string()).await.json().await;
    let values = json!([
        {"value": "error", "count": 2, "aggregates": {"most": 30000}},
        {"value": "info", "count": 1, "aggregates": {"most": 3}},
    ]);
    assert_eq!(answer["facets"]["level"]["values"], values);
    assert_eq!(
        answer["ranges"]["took"],
        json!([{"from": 0, "to": 100, "count": 1, "aggregates": {"sum": 4}}])
    );
    for (body, expected) in [
        (json!({"facet": {"column": "level", "order": "most"}}), "no aggregate `most`"),
        (json!({"facet": {"limit": 1}}), "no member `column`"),
        (json!({"facet": {"column": "level", "colour": 1}}), "no member `colour`"),
        (
            json!({"facet": {"column": "level", "aggregates": {"x": "sum(took); DROP STREAM logs"}}}),
            "cannot be read",
        ),
        (json!({"range": {"column": "took"}}), "bounds of a range are a list"),
        (json!({"histogram": {"column": "_time", "interval": "soon"}}), "no interval"),
        (
            json!({"partial": true, "facet": {"column": "level", "aggregates": {"x": "sum(took)"}}}),
            "partial answer",
        ),
    ] {
        let reply = server.send("POST", "/v1/streams/logs/search", &fields, body.to_string()).await;
        let (status, problem) = (reply.status, reply.json().await);
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && detail.contains(expected), "{body}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_are_listed_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let named = [("swiftwater-search", "mine")];
    assert_eq!(server.send("GET", "/v1/streams/logs/search?q=timeout", &named, "").await.status, 200);
    let search = found(&server, "/v1/searches/mine").await;
    assert_eq!(
        (&search["state"], &search["q"], &search["streams"]),
        (&json!("done"), &json!("timeout"), &json!(["logs"]))
    );
    assert!(search["rows_scanned"].is_u64() && search["bytes_read"].is_u64());
    assert_eq!(found(&server, "/v1/searches").await, json!({"searches": []}));
    for (method, path) in [("GET", "/v1/searches/none"), ("DELETE", "/v1/searches/mine")] {
        assert_eq!(server.send(method, path, &[], "").await.status, 404, "{method} {path}");
    }
    for name in ["search-1", "with space", ""] {
        let reply = server.send("GET", "/v1/streams/logs/search", &[("swiftwater-search", name)], "").await;
        assert_eq!(reply.status, 400, "{name}");
    }
    let page = server.get("/metrics").await.text().await;
    assert!(
        page.contains("swiftwater_search_hits_total 1") && page.contains("swiftwater_search_seconds_count 1"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn search_is_followed_in_both_forms_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let lines = [("accept", "application/x-ndjson")];
    let mut follow =
        server.send("GET", "/v1/streams/logs/search?q=error&follow&columns=took", &lines, "").await;
    assert_eq!(follow.field("content-type"), "application/x-ndjson");
    let mut next = async || serde_json::from_str::<Value>(&follow.line().await.unwrap()).unwrap();
    let (first, second) = (next().await, next().await);
    assert_eq!((&first["offset"], &first["position"]), (&json!(0), &json!("1")));
    assert_eq!((&second["offset"], &second["position"]), (&json!(2), &json!("3")));
    assert_eq!(server.ingest("logs", LOGS).await.status, 200);
    let (third, fourth) = (next().await, next().await);
    assert_eq!((&third["offset"], &third["event"]), (&json!(3), &json!({"took": 30000})));
    assert_eq!(fourth["offset"], json!(5));
    let resume = [("last-event-id", first["position"].as_str().unwrap())];
    let mut events = server.send("GET", "/v1/search?stream=logs&q=error&follow", &resume, "").await;
    assert_eq!(events.field("content-type"), "text/event-stream");
    for offset in [2, 3, 5] {
        assert_eq!(events.line().await.unwrap(), format!("id: {}", offset + 1));
        assert_eq!(events.line().await.unwrap(), "event: hit");
        let data = events.line().await.unwrap();
        let hit: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(hit["offset"], json!(offset));
        assert_eq!(events.line().await.unwrap(), "");
    }
    // Its live queries end with the client.
    server.until_queries(2).await;
    drop((follow, events));
    server.until_queries(0).await;
    let wrong = server.send("GET", "/v1/streams/logs/search?follow", &[("last-event-id", "x")], "").await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_beyond_those_that_may_wait_are_refused_with_429() {
    let dir = tempfile::tempdir().unwrap();
    let history =
        HistoryConfig { search_searches_max: 1, search_waiting_max: 0, ..HistoryConfig::at(dir.path()) };
    let server = Running::storing_as(history, |_| {}).await;
    let text = "CREATE STREAM logs WITH (store = true)";
    assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200);
    assert_eq!(server.ingest("logs", LOGS).await.status, 200);
    let refused = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let searches = (0..16).map(|_| server.get("/v1/streams/logs/search?q=timeout"));
            let replies = futures_util::future::join_all(searches).await;
            assert!(replies.iter().all(|reply| [200, 429].contains(&reply.status)));
            if let Some(refused) = replies.into_iter().find(|reply| reply.status == 429) {
                return refused;
            }
        }
    });
    let refused = refused.await.expect("two searches run at once some time");
    assert_eq!(refused.field("retry-after"), "1");
    let problem = refused.json().await;
    assert_eq!((&problem["setting"], &problem["status"]), (&json!("search.waiting_max"), &json!(429)));
    // Alone it has its turn.
    assert_eq!(offsets(&found(&server, "/v1/streams/logs/search?q=timeout").await), [("logs", 0)]);
}
