//! Tests saved objects and links over HTTP.

use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::{HistoryConfig, SavedLimits};

use crate::client::{Reply, Running};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn put(server: &Running, path: &str, fields: &[(&str, &str)], body: &Value) -> Reply {
    let fields: Vec<(&str, &str)> = [JSON].into_iter().chain(fields.iter().copied()).collect();
    server.send("PUT", path, &fields, body.to_string()).await
}

fn dashboard(title: &str) -> Value {
    json!({"version": 1, "title": title, "panels": [{"id": "a", "x": 0, "y": 0, "w": 12, "h": 4,
        "source": {"kind": "text", "markdown": "# \u{fc}"}}]})
}

/// The life of objects, over a server with or without a data directory.
async fn live_and_die(server: &Running, is_kept: bool) {
    assert_eq!(
        server.get("/v1/saved/queries").await.json().await,
        json!({"objects": [], "next": null, "kept": is_kept})
    );
    let text = "SELECT a FROM STREAM(s) WHERE b = 'x;'";
    let made = put(server, "/v1/saved/queries/q", &[], &json!({"content": text, "comment": "it's"})).await;
    assert_eq!(made.status, 201);
    let first = made.field("etag").to_owned();
    let made = made.json().await;
    let revision = made["revision"].as_u64().unwrap();
    let second = format!("\"{}\"", revision + 1);
    assert!(first == format!("\"{revision}\"") && (revision == 1) == is_kept, "{first}");
    assert_eq!(
        (&made["content"], &made["kept"], &made["dialect"]),
        (&json!(text), &json!(is_kept), &json!("native"))
    );
    let found = server.get("/v1/saved/queries/q").await;
    assert_eq!(found.field("etag"), first);
    assert_eq!(found.json().await, made);
    let unchanged = server.send("GET", "/v1/saved/queries/q", &[("if-none-match", &first)], "").await;
    assert_eq!(unchanged.status, 304);

    // The same again is no change; another text is.
    let same = put(server, "/v1/saved/queries/q", &[], &json!({"content": text, "comment": "it's"})).await;
    assert_eq!((same.status, same.field("etag")), (200, &*first));
    let other = put(
        server,
        "/v1/saved/queries/q",
        &[("if-match", &*first)],
        &json!({"content": "{}", "dialect": "bullet"}),
    )
    .await;
    assert_eq!((other.status, other.field("etag")), (200, &*second));
    let late = put(server, "/v1/saved/queries/q", &[("if-match", &*first)], &json!({"content": text})).await;
    let problem = late.problem(StatusCode::PRECONDITION_FAILED, "precondition-failed").await;
    assert_eq!(problem["revision"], revision + 1);
    let absent =
        put(server, "/v1/saved/queries/q", &[("if-none-match", "*")], &json!({"content": text})).await;
    absent.problem(StatusCode::PRECONDITION_FAILED, "precondition-failed").await;
    let gone = put(server, "/v1/saved/queries/r", &[("if-match", "*")], &json!({"content": text})).await;
    let problem = gone.problem(StatusCode::PRECONDITION_FAILED, "precondition-failed").await;
    assert!(problem.get("revision").is_none(), "{problem}");

    // Kinds have names of their own.
    let made = put(server, "/v1/saved/dashboards/q", &[], &json!({"content": dashboard("D")})).await;
    assert_eq!(made.status, 201);
    for name in ["b", "a.1", "a-2"] {
        put(server, &format!("/v1/saved/dashboards/{name}"), &[], &json!({"content": dashboard(name)})).await;
    }
    let names = |list: &Value| {
        let objects = list["objects"].as_array().unwrap();
        objects.iter().map(|object| object["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let list = server.get("/v1/saved/dashboards?limit=2").await.json().await;
    assert_eq!((names(&list), &list["next"]), (vec!["a-2".to_owned(), "a.1".to_owned()], &json!("a.1")));
    assert_eq!(list["objects"][1]["title"], "a.1");
    let list = server.get("/v1/saved/dashboards?after=a.1").await.json().await;
    assert_eq!((names(&list), &list["next"]), (vec!["b".to_owned(), "q".to_owned()], &Value::Null));
    assert_eq!(names(&server.get("/v1/saved/dashboards?prefix=a").await.json().await).len(), 2);

    let last = server.get("/v1/saved/dashboards?sort=changed&limit=2").await.json().await;
    assert_eq!((names(&last), &last["next"]), (vec!["a-2".to_owned(), "a.1".to_owned()], &Value::Null));
    let refused = server.get("/v1/saved/dashboards?sort=changed&after=b").await;
    refused.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;

    let late = server.send("DELETE", "/v1/saved/queries/q", &[("if-match", &*first)], "").await;
    late.problem(StatusCode::PRECONDITION_FAILED, "precondition-failed").await;
    assert_eq!(
        server
            .send("DELETE", "/v1/saved/queries/q", &[("if-match", &*format!("\"x\", W/{second}"))], "")
            .await
            .status,
        204
    );
    server.get("/v1/saved/queries/q").await.problem(StatusCode::NOT_FOUND, "not-found").await;
    let again = server.send("DELETE", "/v1/saved/queries/q", &[], "").await;
    again.problem(StatusCode::NOT_FOUND, "not-found").await;

    let body = json!({"state": "#/ask?text=\u{fc}"});
    let link = server.send("POST", "/v1/saved/links", &[JSON], body.to_string()).await.json().await;
    assert_eq!(link["key"].as_str().unwrap().len(), 10);
    let same = server.send("POST", "/v1/saved/links", &[JSON], body.to_string()).await.json().await;
    assert_eq!(same, link);
    let opened = server.get(&format!("/v1/saved/links/{}", link["key"].as_str().unwrap())).await.json().await;
    assert_eq!(opened["state"], body["state"]);
    server.get("/v1/saved/links/0000000000").await.problem(StatusCode::NOT_FOUND, "not-found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_saved_changed_and_dropped() {
    let server = Running::start().await;
    live_and_die(&server, false).await;
    let directory = tempfile::tempdir().unwrap();
    let mut server = Running::storing(directory.path(), |_| {}).await;
    live_and_die(&server, true).await;
    server.begin_stop();
    server.stopped().await;
    let server = Running::storing(directory.path(), |_| {}).await;
    let list = server.get("/v1/saved/dashboards?prefix=a").await.json().await;
    assert_eq!(list["objects"].as_array().unwrap().len(), 2);
    // A revision is not given again.
    let made = put(&server, "/v1/saved/queries/q", &[], &json!({"content": "SELECT a FROM STREAM(s)"})).await;
    assert_eq!(made.field("etag"), "\"7\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_contents_are_refused_with_their_places() {
    let server = Running::start().await;
    let refused = |path: &'static str, body: Value| {
        let server = &server;
        async move { put(server, path, &[], &body).await }
    };
    let problem = refused("/v1/saved/queries/q", json!({"content": "SELECT a\nFORM STREAM(s)"})).await;
    let problem = problem.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    assert_eq!(problem["line"], 2, "{problem}");
    let mut wrong = dashboard("");
    wrong["panels"][0]["w"] = 13.into();
    let problem = refused("/v1/saved/dashboards/d", json!({"content": wrong})).await;
    let problem = problem.problem(StatusCode::BAD_REQUEST, "content-invalid").await;
    let paths: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/title", "/panels/0/w"]);
    for (path, body, word) in [
        ("/v1/saved/queries/q", json!({"content": 1}), "request-invalid"),
        ("/v1/saved/queries/q", json!({}), "request-invalid"),
        ("/v1/saved/queries/q", json!({"content": "x", "text": "y"}), "request-invalid"),
        ("/v1/saved/queries/q", json!({"content": "{}", "comment": "x".repeat(4097)}), "request-invalid"),
        ("/v1/saved/queries/a%20b", json!({"content": "x"}), "parameter-invalid"),
        (
            "/v1/saved/dashboards/d",
            json!({"content": dashboard("d"), "dialect": "native"}),
            "request-invalid",
        ),
        ("/v1/saved/notebooks/n", json!({"content": "text"}), "content-invalid"),
    ] {
        refused(path, body).await.problem(StatusCode::BAD_REQUEST, word).await;
    }
    refused("/v1/saved/views/v", json!({"content": "x"}))
        .await
        .problem(StatusCode::NOT_FOUND, "not-found")
        .await;
    let both = [("if-match", "\"1\""), ("if-none-match", "*")];
    let both = put(&server, "/v1/saved/queries/q", &both, &json!({"content": "{}"})).await;
    both.problem(StatusCode::BAD_REQUEST, "request-invalid").await;
    // As long as a query may be run, and no longer.
    let most = server.engine.config().query_text_bytes_max;
    let long =
        |bytes: usize| json!({"content": format!("SELECT '{}' AS a FROM STREAM(s)", "x".repeat(bytes))});
    assert_eq!(refused("/v1/saved/queries/q", long(most - 40)).await.status, 201);
    let long = refused("/v1/saved/queries/q", long(most)).await;
    long.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    let large = json!({"content": format!("SELECT '{}' AS a FROM STREAM(s)", "x".repeat(1 << 20))});
    refused("/v1/saved/queries/q", large).await.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    let large = json!({"state": "x".repeat((64 << 10) + 1)}).to_string();
    let large = server.send("POST", "/v1/saved/links", &[JSON], large).await;
    large.problem(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed").await;
    for schema in ["dashboard-1.json", "notebook-1.json"] {
        let schema = server.get(&format!("/v1/saved/schemas/{schema}")).await.json().await;
        assert_eq!(schema["properties"]["version"]["const"], 1);
    }
    server.get("/v1/saved/schemas/x").await.problem(StatusCode::NOT_FOUND, "not-found").await;
}

/// A notebook of so many bytes.
fn notebook(bytes: usize) -> Value {
    let empty = json!({"version": 1, "title": "t", "cells": [{"id": "a", "kind": "markdown", "text": ""}]});
    let fill = "x".repeat(bytes - empty.to_string().len());
    json!({"version": 1, "title": "t", "cells": [{"id": "a", "kind": "markdown", "text": fill}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_refuse_one_more() {
    let server = Running::start().await;
    server.engine.set_saved_limits(SavedLimits { objects_max: 2, bytes_max: 4 << 20 });
    let query = |text: &str| json!({"content": format!("SELECT a FROM STREAM(s) -- {text}")});
    for name in ["a", "b"] {
        assert_eq!(put(&server, &format!("/v1/saved/queries/{name}"), &[], &query("1")).await.status, 201);
    }
    let third = put(&server, "/v1/saved/queries/c", &[], &query("1")).await;
    let problem = third.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    assert_eq!(problem["setting"], "server.saved_max");
    assert_eq!(put(&server, "/v1/saved/queries/b", &[], &query("22")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_objects_are_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let saved = SavedLimits { objects_max: 100, bytes_max: 4 << 20 };
    let history = HistoryConfig { saved, ..HistoryConfig::at(directory.path()) };
    let mut server = Running::storing_as(history, |_| {}).await;
    let content = notebook(1 << 20);
    for number in 0..4 {
        let made =
            put(&server, &format!("/v1/saved/notebooks/n{number}"), &[], &json!({"content": content})).await;
        assert_eq!(made.status, 201, "{number}");
    }
    let one_more = put(&server, "/v1/saved/notebooks/n4", &[], &json!({"content": notebook(200)})).await;
    let problem = one_more.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    assert_eq!(problem["setting"], "server.saved_bytes_max");
    // Quotes are doubled, as there is `$$`: the statement in the log is twice as long.
    let quotes = format!("SELECT a FROM STREAM(s) WHERE a = '$$' -- {}", "'".repeat(60_000));
    server.send("DELETE", "/v1/saved/notebooks/n3", &[], "").await;
    assert_eq!(put(&server, "/v1/saved/queries/q", &[], &json!({"content": quotes})).await.status, 201);
    let numbers = r#"{"version": 1, "title": "t", "panels": [], "refresh_ms": 1000}"#;
    let body = format!(r#"{{"content": {numbers}}}"#);
    assert_eq!(server.send("PUT", "/v1/saved/dashboards/d", &[JSON], body).await.status, 201);
    let body = json!({"state": "#/ask"}).to_string();
    let link = server.send("POST", "/v1/saved/links", &[JSON], body).await.json().await;
    server.begin_stop();
    server.stopped().await;
    let server = Running::storing(directory.path(), |_| {}).await;
    assert_eq!(server.get("/v1/saved/notebooks/n2").await.json().await["content"], content);
    assert_eq!(server.get("/v1/saved/queries/q").await.json().await["content"], json!(quotes));
    assert!(
        server.get("/v1/saved/dashboards/d").await.text().await.contains(numbers),
        "it is not as it was written"
    );
    let link = server.get(&format!("/v1/saved/links/{}", link["key"].as_str().unwrap())).await.json().await;
    assert_eq!(link["state"], "#/ask");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_expect_the_same_revision_one_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    for server in [Running::start().await, Running::storing(directory.path(), |_| {}).await] {
        let query = |n: usize| json!({"content": format!("SELECT a FROM STREAM(s) WHERE a = {n}")});
        let first = put(&server, "/v1/saved/queries/q", &[], &query(0)).await.field("etag").to_owned();
        let fields = [("if-match", &*first)];
        let puts = (1..9).map(|n| {
            let (server, fields) = (&server, &fields);
            async move { put(server, "/v1/saved/queries/q", fields, &query(n)).await.status }
        });
        let statuses = futures_util::future::join_all(puts).await;
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert!(statuses.iter().all(|status| [200, 412].contains(status)), "{statuses:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_query_is_asked_by_its_name() {
    let server = Running::start().await;
    let text = "SELECT a FROM STREAM(s, MAX, TIME) WHERE a > $1 LIMIT 1";
    assert_eq!(put(&server, "/v1/saved/queries/over", &[], &json!({"content": text})).await.status, 201);
    let ask = json!({"saved": "over", "parameters": [4]}).to_string();
    let fields = [JSON, ("accept", "application/x-ndjson")];
    let mut answer = server.send("POST", "/v1/queries", &fields, ask.clone()).await;
    assert_eq!(answer.status, 200);
    server.ingest("s", "{\"a\":4}\n{\"a\":5}\n").await;
    assert_eq!(answer.records(1).await, [json!({"a": 5})]);
    let facts = server.send("POST", "/v1/queries/validate", &[JSON], ask).await.json().await;
    assert_eq!(facts["columns"][0]["name"], "a");
    let ask = json!({"saved": "nothing"}).to_string();
    server.send("POST", "/v1/queries", &[JSON], ask).await.problem(StatusCode::NOT_FOUND, "not-found").await;
    let ask = json!({"saved": "over", "dialect": "native"}).to_string();
    let refused = server.send("POST", "/v1/queries", &[JSON], ask).await;
    refused.problem(StatusCode::BAD_REQUEST, "request-invalid").await;
    // Bullet's rules and its older form are remembered.
    let older =
        json!({"content": " {\"aggregation\": {\"type\": \"RAW\", \"size\": 1}}", "dialect": "bullet"});
    assert_eq!(put(&server, "/v1/saved/queries/older", &[], &older).await.status, 201);
    let found = server.get("/v1/saved/queries/older").await.json().await;
    assert_eq!((&found["dialect"], &found["content"]), (&json!("bullet"), &older["content"]));
}
