//! Tests `/v1/activity/{id}` and `/v1/activities/search`: the events that share an id, and the ids whose events satisfy conditions.

use serde_json::{Value, json};

use crate::client::Running;

const SCHEMA: &str = "CREATE STREAM logs (trace STRING, message STRING); \
    CREATE STREAM orders (order_id LONG, traces LIST[STRING]); \
    CREATE SEARCH INDEX ON logs (trace ID CORRELATION, message TEXT); \
    CREATE SEARCH INDEX ON orders (order_id ID CORRELATION, traces ID CORRELATION)";
const LOGS: &str = r#"{"trace":"a/b","message":"read timeout"}
{"trace":"c","message":"ok"}
{"trace":"d","message":"timeout"}"#;
const ORDERS: &str = r#"{"order_id":7,"traces":["a/b","e"]}
{"order_id":8,"traces":["c"]}
{"order_id":7,"traces":[]}"#;

async fn start(dir: &std::path::Path) -> Running {
    let server = Running::storing(dir, |_| {}).await;
    assert_eq!(server.send("POST", "/v1/sql", &[], SCHEMA).await.status, 200);
    assert_eq!(server.ingest("logs", LOGS).await.status, 200);
    assert_eq!(server.ingest("orders", ORDERS).await.status, 200);
    server
}

async fn found(server: &Running, path: &str) -> Value {
    let reply = server.get(path).await;
    assert_eq!(reply.status, 200, "{path}");
    reply.json().await
}

/// The stream, the offset, the depth and the id of each event.
fn events(answer: &Value) -> Vec<(&str, u64, u64, &str)> {
    let events = answer["events"].as_array().unwrap().iter();
    let events = events.map(|event| {
        let (stream, id) = (event["stream"].as_str().unwrap(), event["via"]["id"].as_str().unwrap());
        (stream, event["offset"].as_u64().unwrap(), event["depth"].as_u64().unwrap(), id)
    });
    events.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_id_are_answered_with_the_way_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let answer = found(&server, "/v1/activity/a%2Fb").await;
    assert_eq!(events(&answer), [("logs", 0, 0, "a/b"), ("orders", 0, 0, "a/b")]);
    let first = &answer["events"][0];
    assert_eq!(
        (&first["via"], &first["event"]),
        (&json!({"id": "a/b", "column": "trace"}), &json!({"trace": "a/b", "message": "read timeout"}))
    );
    assert_eq!((&answer["total"], &answer["complete"]), (&json!(2), &json!(true)));
    assert_eq!(answer["meta"]["position"], json!({"logs": 3, "orders": 3}));
    for (path, expected) in [
        ("/v1/activity/7", &[("orders", 0, 0, "7"), ("orders", 2, 0, "7")][..]),
        ("/v1/activity/a%2Fb?stream=logs", &[("logs", 0, 0, "a/b")]),
        (
            "/v1/activity/a%2Fb?depth=1",
            &[("logs", 0, 0, "a/b"), ("orders", 0, 0, "a/b"), ("orders", 2, 1, "7")],
        ),
        ("/v1/activity/a%2Fb?from=now%2B1h", &[]),
        ("/v1/activity/a", &[]),
    ] {
        assert_eq!(events(&found(&server, path).await), expected, "{path}");
    }
    let fields = [("accept", "application/x-ndjson")];
    let reply = server.send("GET", "/v1/activity/7?limit=1", &fields, "").await;
    assert_eq!((reply.status, reply.field("swiftwater-total")), (200, "2"));
    let path = format!("/v1/activity/7?limit=1&cursor={}", reply.field("swiftwater-cursor"));
    let answer = found(&server, &path).await;
    assert_eq!((events(&answer), &answer["cursor"]), (vec![("orders", 2, 0, "7")], &Value::Null));
    for (path, status, expected) in [
        ("/v1/activity/7?depth=9", 400, "`depth` is 9"),
        ("/v1/activity/7?limit=0", 400, "`limit` is 0"),
        ("/v1/activity/7?limit=10001", 422, "`search.hits_max` is 10000"),
        ("/v1/activity/7?stream=order", 404, "there is no stream `order`"),
        ("/v1/activity/7?q=x", 400, "no parameter `q`"),
        ("/v1/activity/7?follow&depth=1", 400, "`depth` does not go with `follow`"),
        ("/v1/activity/7?follow&to=now", 400, "`to` does not go with `follow`"),
    ] {
        let reply = server.get(path).await;
        let (answered, problem) = (reply.status, reply.json().await);
        let detail = problem["detail"].as_str().unwrap();
        assert!(answered == status && detail.contains(expected), "{path}: {answered} {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_are_listed_by_their_names_and_need_a_correlation_column() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let named = [("swiftwater-search", "mine")];
    assert_eq!(server.send("GET", "/v1/activity/7", &named, "").await.status, 200);
    let search = found(&server, "/v1/searches/mine").await;
    assert_eq!((&search["state"], &search["q"]), (&json!("done"), &json!("activity 7")));
    let text = "DROP SEARCH INDEX ON logs; DROP SEARCH INDEX ON orders";
    assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200);
    for (path, status) in [("/v1/activity/7", 404), ("/v1/activity/7?stream=logs", 400)] {
        let reply = server.get(path).await;
        let (answered, problem) = (reply.status, reply.json().await);
        let hint = problem["hint"].as_str().unwrap();
        assert!(answered == status && hint.contains("CREATE SEARCH INDEX"), "{path}: {answered} {problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_is_followed_in_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let lines = [("accept", "application/x-ndjson")];
    let mut follow = server.send("GET", "/v1/activity/c?follow", &lines, "").await;
    let mut next = async || serde_json::from_str::<Value>(&follow.line().await.unwrap()).unwrap();
    let (first, second) = (next().await, next().await);
    assert_eq!((&first["stream"], &first["offset"]), (&json!("logs"), &json!(1)));
    assert_eq!((&second["stream"], &second["offset"]), (&json!("orders"), &json!(1)));
    assert_eq!(server.ingest("logs", LOGS).await.status, 200);
    let third = next().await;
    assert_eq!((&third["offset"], &third["via"]), (&json!(4), &json!({"id": "c", "column": "trace"})));
    let resume = [("last-event-id", first["position"].as_str().unwrap())];
    let mut events = server.send("GET", "/v1/activity/c?follow", &resume, "").await;
    assert_eq!(events.field("content-type"), "text/event-stream");
    let id = events.line().await.unwrap();
    assert!(id.starts_with("id: "), "{id}");
    assert_eq!(events.line().await.unwrap(), "event: hit");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_found_by_a_tree_of_conditions() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let fields = [("content-type", "application/json")];
    let leaf = |stream: &str, query: &str| json!({"stream": stream, "q": query});
    let timeout = || leaf("logs", "timeout");
    for (tree, expected) in [
        (timeout(), &["a/b", "d"][..]),
        (json!({"and": [timeout(), leaf("orders", "*")]}), &["a/b"]),
        (json!({"and": [timeout(), {"not": leaf("orders", "*")}]}), &["d"]),
        (json!({"or": [leaf("logs", "ok"), leaf("orders", "order_id:8")], "limit": 9}), &["8", "c"]),
        (json!({"and": [timeout(), timeout()], "from": "now+1h"}), &[]),
    ] {
        let reply = server.send("POST", "/v1/activities/search", &fields, tree.to_string()).await;
        assert_eq!(reply.status, 200, "{tree}");
        let answer = reply.json().await;
        let activities = answer["activities"].as_array().unwrap().iter();
        let mut ids: Vec<&str> = activities.map(|activity| activity["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{tree}");
        assert_eq!(answer["total"], json!(expected.len()));
    }
    let page = |cursor: &Value| {
        let body = json!({"stream": "orders", "q": "*", "limit": 1, "cursor": cursor}).to_string();
        server.send("POST", "/v1/activities/search", &fields, body)
    };
    let (mut cursor, mut ids) = (Value::Null, Vec::new());
    loop {
        let answer = page(&cursor).await.json().await;
        let activity = &answer["activities"][0];
        ids.push((activity["id"].clone(), activity["events"].clone()));
        cursor = answer["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    ids.sort_by_key(|(id, _)| id.to_string());
    let expected = [
        (json!("7"), json!({"orders": 2})),
        (json!("8"), json!({"orders": 1})),
        (json!("a/b"), json!({"logs": 1, "orders": 1})),
        (json!("c"), json!({"logs": 1, "orders": 1})),
        (json!("e"), json!({"orders": 1})),
    ];
    assert_eq!(ids, expected);
    for (body, expected) in [
        (json!({"not": timeout()}), "do not say which activities"),
        (json!({"and": []}), "at least one condition"),
        (json!({"and": timeout()}), "`and` is not a list"),
        (json!({"or": [1]}), "condition 0 of `or` is not a JSON object"),
        (json!({}), "not empty"),
        (json!({"stream": "logs"}), "not `stream`"),
        (json!({"stream": "logs", "q": 1}), "are texts"),
        (json!({"stream": "logs", "q": "a", "sort": "x"}), "`sort`"),
        (json!({"stream": "logs", "q": "mesage:a"}), "no column `mesage`"),
        (json!({"stream": "logs", "q": "a", "limit": "many"}), "`limit` is a number"),
    ] {
        let reply = server.send("POST", "/v1/activities/search", &fields, body.to_string()).await;
        let (status, problem) = (reply.status, reply.json().await);
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && detail.contains(expected), "{body}: {status} {detail}");
    }
}
