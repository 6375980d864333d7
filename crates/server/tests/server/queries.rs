//! Queries asked, answered, listed, ended.

use hyper::StatusCode;
use serde_json::json;

use crate::client::Running;

const ALL: &str = "SELECT * FROM STREAM(s, MAX, TIME)";
const TWO: &str = "SELECT * FROM STREAM(s, MAX, TIME) LIMIT 2";

#[tokio::test(flavor = "multi_thread")]
async fn lines_come_as_events_do() {
    let server = Running::start().await;
    let mut results = server.ask("*/*", TWO).await;
    assert_eq!(results.field("content-type"), "application/x-ndjson");
    let id = results.field("swiftwater-query").to_owned();
    assert_eq!(id.len(), 26);
    server.ingest("s", "{\"n\": 1}").await;
    let emit = results.emit().await.unwrap();
    assert_eq!(emit["records"], json!([{"n": 1}]));
    assert_eq!(emit["meta"]["query"]["id"], id.as_str());
    assert_eq!(emit["meta"]["query"]["text"], TWO);
    assert_eq!(emit["meta"]["stream"]["name"], "s");
    server.ingest("s", "{\"n\": 2}\n{\"n\": 3}\n").await;
    let mut last = emit;
    while let Some(emit) = results.emit().await {
        last = emit;
    }
    assert_eq!(last["meta"]["query"]["reason"], "limit");
    server.until_queries(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_sent_events_begin_with_the_query() {
    let server = Running::with(Default::default(), |config| config.keep_alive_ms = 10).await;
    let mut results = server.ask("text/event-stream", TWO).await;
    assert_eq!(results.field("content-type"), "text/event-stream");
    assert_eq!(results.line().await.unwrap(), "event: query");
    let line = results.line().await.unwrap();
    let query: serde_json::Value = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(query["id"], results.field("swiftwater-query"));
    assert_eq!(results.line().await.unwrap(), "");
    assert_eq!(results.line().await.unwrap(), ": still here");
    server.ingest("s", "{\"n\": 1}\n{\"n\": 2}\n").await;
    let text = results.text().await;
    assert!(text.contains("id: 1\nevent: emit\ndata: {\"records\":[{\"n\": 1}"), "{text}");
    assert!(text.ends_with("}\n\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_answer_comes_at_the_end() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let asking = tokio::spawn(async move {
        client.send("POST", "/v1/queries", &[("accept", "application/json")], TWO).await
    });
    server.until_queries(1).await;
    for n in 0..3 {
        server.ingest("s", format!("{{\"n\": {n}}}")).await;
    }
    let reply = asking.await.unwrap();
    assert_eq!((reply.status, reply.field("content-type")), (200, "application/json"));
    let answer = reply.json().await;
    assert_eq!(answer["records"], json!([{"n": 0}, {"n": 1}]));
    assert_eq!(answer["meta"]["query"]["reason"], "limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_ends_its_query() {
    let server = Running::start().await;
    for accept in ["text/event-stream", "application/x-ndjson", "application/json"] {
        let mut client = server.client().await;
        let connection = client.connection();
        // For one answer the client goes while it waits for the head, else while it waits for the first emit.
        let asking = tokio::spawn(async move {
            let fields = [("accept", accept)];
            let reply = client.send("POST", "/v1/queries", &fields, ALL).await;
            std::future::pending::<()>().await;
            drop((client, reply));
        });
        server.until_queries(1).await;
        connection.abort();
        server.until_queries(0).await;
        asking.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_listed_and_ended() {
    let server = Running::start().await;
    let mut results = server.ask("*/*", ALL).await;
    let id = results.field("swiftwater-query").to_owned();
    let list = server.get("/v1/queries").await.json().await;
    assert_eq!(list["queries"][0]["id"], id.as_str());
    let place = format!("/v1/queries/{id}");
    let status = server.get(&place).await.json().await;
    assert_eq!((&status["text"], &status["stream"]), (&json!(ALL), &json!("s")));
    assert_eq!((&status["detached"], &status["attached"]), (&json!(false), &json!(true)));
    assert_eq!(server.send("DELETE", &place, &[], "").await.status, 204);
    let last = results.emit().await.unwrap();
    assert_eq!(last["meta"]["query"]["reason"], "killed");
    assert!(results.emit().await.is_none());
    server.send("DELETE", &place, &[], "").await.problem(StatusCode::NOT_FOUND, "not-found").await;
    server.get(&place).await.problem(StatusCode::NOT_FOUND, "not-found").await;
    server.get(&format!("{place}/results")).await.problem(StatusCode::NOT_FOUND, "not-found").await;
    server.get("/v1/queries/%F0%9F%98%80").await.problem(StatusCode::NOT_FOUND, "not-found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_query_is_picked_up_later() {
    let server = Running::start().await;
    let reply = server.send("POST", "/v1/queries?detach=true", &[], TWO).await;
    assert_eq!(reply.status, 201);
    let place = reply.field("location").to_owned();
    let answer = reply.json().await;
    let id = answer["id"].as_str().unwrap();
    assert_eq!(place, format!("/v1/queries/{id}"));
    let results = answer["results"].as_str().unwrap();
    server.ingest("s", "{\"n\": 1}").await;

    let mut client = server.client().await;
    let mut first = client.send("GET", results, &[], "").await;
    assert_eq!(first.records(1).await, [json!({"n": 1})]);
    server.get(results).await.problem(StatusCode::CONFLICT, "conflict").await;
    client.connection().abort();
    drop(first);
    crate::client::soon(async {
        while server.get(&place).await.json().await["attached"] == true {
            tokio::task::yield_now().await;
        }
    })
    .await;

    server.ingest("s", "{\"n\": 2}\n{\"n\": 3}\n").await;
    let answer = server.send("GET", results, &[("accept", "application/json")], "").await.json().await;
    assert_eq!(answer["records"], json!([{"n": 2}]));
    assert_eq!(answer["meta"]["query"]["reason"], "limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_told_as_text_or_json() {
    let server = Running::start().await;
    let text = format!("EXPLAIN {ALL}");
    let reply = server.send("POST", "/v1/queries", &[("accept", "*/*")], text.clone()).await;
    assert_eq!((reply.status, reply.field("content-type")), (200, "text/plain; charset=utf-8"));
    assert!(reply.text().await.ends_with('\n'));
    let reply = server.send("POST", "/v1/queries", &[("accept", "application/json")], text).await;
    assert!(reply.json().await["explain"].is_string());
    assert_eq!(server.get("/v1/queries").await.json().await, json!({"queries": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_read_as_text_and_as_json() {
    let server = Running::start().await;
    let send = async |media_type: &str, body: &str| {
        server.send("POST", "/v1/queries?detach", &[("content-type", media_type)], body.to_owned()).await
    };
    for media_type in ["text/plain", "Text/Plain; charset=utf-8", "application/x-www-form-urlencoded"] {
        assert_eq!(send(media_type, ALL).await.status, 201, "{media_type}");
    }
    for body in [
        json!({"query": ALL}),
        json!({"query": ALL, "parameters": []}),
        json!({"query": ALL, "parameters": null}),
    ] {
        assert_eq!(send("application/json", &body.to_string()).await.status, 201, "{body}");
    }
    let refused = async |media_type: &str, body: &str, status, word: &str, told: &str| {
        let problem = send(media_type, body).await.problem(status, word).await;
        assert!(problem.to_string().contains(told), "{problem}");
    };
    let bad = StatusCode::BAD_REQUEST;
    refused(
        "application/json",
        "{\"query\": \"x\", \"parameters\": [1]}",
        bad,
        "not-supported",
        "not supported",
    )
    .await;
    refused("application/json", "{\"query\": 1}", bad, "request-invalid", "not a string").await;
    refused("application/json", "{\"qeury\": \"x\"}", bad, "request-invalid", "Members are: query").await;
    refused("application/json", "{}", bad, "request-invalid", "no member `query`").await;
    refused("application/json", "[]", bad, "request-invalid", "not a JSON object").await;
    refused("application/json", "{\n\"query\": }", bad, "request-invalid", "\"line\":2").await;
    let unsupported = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    refused("application/xml", "<x/>", unsupported, "unsupported-content", "text/plain").await;
    let reply = server.send("POST", "/v1/queries", &[], vec![0xff, 0xfe]).await;
    reply.problem(bad, "request-invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_queries_are_told_with_their_places() {
    let server = Running::start().await;
    let problem = server.send("POST", "/v1/queries", &[], "SELEKT * FROM STREAM(s, MAX, TIME)").await;
    let problem = problem.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    assert_eq!((&problem["line"], &problem["column"]), (&json!(1), &json!(1)), "{problem}");
    assert!(problem["excerpt"].as_str().unwrap().contains('^'), "{problem}");
    let problem = server.send("POST", "/v1/queries", &[], "SELECT * FROM STREAM()").await;
    let problem = problem.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    assert!(problem["hint"].as_str().unwrap().contains("--default-stream"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bullets_rules_hold_where_asked_for() {
    let stream = swiftwater_event::StreamName::new("s").unwrap();
    let config = swiftwater_engine::EngineConfig { default_stream: Some(stream), ..Default::default() };
    let server = Running::with(config, |_| {}).await;
    let query = "SELECT n, COUNT(*) FROM STREAM(500, TIME) GROUP BY n";
    let answer = server.send(
        "POST",
        "/v1/queries?dialect=bullet",
        &[("accept", "application/json")],
        query.to_owned(),
    );
    let event = async {
        server.until_queries(1).await;
        server.ingest("s", "{\"n\": 1}").await;
    };
    let (answer, ()) = tokio::join!(answer, event);
    assert_eq!(answer.json().await["records"], json!([{"n": "1", "COUNT(*)": 1}]));
    let refused = server.send("POST", "/v1/queries?dialect=sql", &[], query.to_owned()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}
