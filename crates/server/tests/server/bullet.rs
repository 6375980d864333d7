//! Tests Bullet's web API over plain HTTP. tests/stomp.rs tests its STOMP endpoint with real clients.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;
use swiftwater_event::StreamName;
use swiftwater_lang::Schema;
use swiftwater_server::ServerConfig;

use crate::client::{Running, soon};

async fn start(change: impl FnOnce(&mut ServerConfig)) -> Running {
    let stream = StreamName::new("s").unwrap();
    Running::with(EngineConfig { default_stream: Some(stream), ..EngineConfig::default() }, change).await
}

const TEXT: [(&str, &str); 1] = [("content-type", "text/plain")];

fn errors(result: &Value) -> Vec<&str> {
    assert_eq!(result["records"], json!([]), "{result}");
    let errors = result["meta"]["errors"].as_array().unwrap();
    errors.iter().map(|error| error["error"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn http_query_answers_one_result() {
    let server = start(|_| {}).await;
    let (text, form) =
        ("SELECT n FROM STREAM(MAX, TIME) LIMIT 1", "{\"aggregation\": {\"size\": 1}, \"duration\": 30000}");
    let http = "/api/bullet/queries/http-query";
    for (path, query) in [(http, text), (http, form), ("/drpc/bullet", form), ("/drpc/any-other", form)] {
        let mut client = server.client().await;
        let asking = tokio::spawn(async move { client.send("POST", path, &TEXT, query).await });
        server.until_queries(1).await;
        server.ingest("s", "{\"n\": 1}").await;
        let reply = asking.await.unwrap();
        assert_eq!((reply.status, reply.field("content-type")), (200, "application/json"));
        let result = reply.json().await;
        assert_eq!(result["records"], json!([{"n": 1}]), "{result}");
        assert_eq!(result["meta"]["Window"]["Name"], "Windowless");
        assert!(result["meta"]["Query"]["Finish Time"].is_i64());
        // The next events are for the next query alone.
        server.until_queries(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_results_with_errors() {
    let server = start(|config| config.bullet.queries_max = 1).await;
    let ask = async |query: &str| {
        let reply = server.send("POST", "/api/bullet/queries/http-query", &TEXT, query.to_owned()).await;
        assert_eq!((reply.status, reply.field("content-type")), (200, "application/json"));
        reply.json().await
    };
    let result = ask("SELEKT * FROM STREAM(MAX, TIME)").await;
    assert!(errors(&result)[0].starts_with("1:1: "), "{result}");
    let result = ask("").await;
    assert_eq!(errors(&result).len(), 1);
    let result = ask("SELECT * FROM STREAM(MAX, TIME) WINDOWING TUMBLING(1000, TIME)").await;
    assert!(errors(&result)[0].contains("does not support windowed queries"), "{result}");
    let _events =
        server.send("POST", "/api/bullet/queries/sse-query", &TEXT, "SELECT * FROM STREAM(MAX, TIME)").await;
    let result = ask("SELECT * FROM STREAM(MAX, TIME)").await;
    assert!(errors(&result)[0].contains("Too many concurrent queries"), "{result}");
    let reply = server.send("POST", "/api/bullet/queries/http-query", &TEXT, vec![b'x'; 100_000]).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(errors(&reply.json().await).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sse_query_answers_an_event_a_window_and_ends_with_its_client() {
    let server = start(|_| {}).await;
    let query = "SELECT n FROM STREAM(MAX, TIME) WINDOWING TUMBLING(2, RECORD)";
    let mut client = server.client().await;
    let mut events = client.send("POST", "/api/bullet/queries/sse-query", &TEXT, query).await;
    assert_eq!((events.status, events.field("content-type")), (200, "text/event-stream"));
    let id = events.field("swiftwater-query").to_owned();
    server.ingest("s", "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n{\"n\": 4}\n").await;
    for n in [1, 3] {
        let line = events.line().await.unwrap();
        let result: Value = serde_json::from_str(line.strip_prefix("data:").unwrap()).unwrap();
        assert_eq!(result["records"], json!([{"n": n}, {"n": n + 1}]));
        assert_eq!(result["meta"]["Query"]["ID"], id.as_str());
        assert_eq!(events.line().await.unwrap(), "");
    }
    client.connection().abort();
    drop(events);
    server.until_queries(0).await;

    let bad = server.send("POST", "/api/bullet/queries/sse-query", &TEXT, "SELEKT").await;
    assert_eq!((bad.status, bad.field("content-type")), (200, "text/event-stream"));
    let text = bad.text().await;
    assert!(
        text.starts_with("data:{\"records\":[],\"meta\":{\"errors\":[") && text.ends_with("\n\n"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_validated() {
    let server = start(|config| {
        let fields = [("n".into(), swiftwater_event::Type::LONG)];
        config.bullet.schema = Some(Arc::new(Schema::new(fields)));
    })
    .await;
    let validate = async |query: &str| {
        server.send("POST", "/api/bullet/queries/validate-query", &TEXT, query.to_owned()).await
    };
    let reply = validate("SELECT n FROM STREAM(MAX, TIME)").await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.text().await, "");
    let reply = validate("SELECT m FROM STREAM(MAX, TIME)").await;
    assert_eq!(reply.status, 422);
    let result = reply.json().await;
    assert!(errors(&result)[0].starts_with("1:8: "), "{result}");
    assert_eq!(server.get("/v1/queries").await.json().await["queries"], json!([]));

    let columns = server.get("/api/bullet/columns").await.json().await;
    let column = json!({"id": "n", "type": "column", "attributes": {"name": "n", "type": "LONG"}});
    assert_eq!(columns["data"], json!([column]));
    let columns = start(|_| {}).await.get("/api/bullet/columns").await.json().await;
    assert_eq!(columns["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn async_queries_are_picked_up() {
    let server = start(|_| {}).await;
    let query = "SELECT n FROM STREAM(MAX, TIME) WINDOWING TUMBLING(1, RECORD)";
    let reply = server.send("POST", "/api/bullet/queries/async-query", &TEXT, query).await;
    assert_eq!(reply.status, 201);
    let place = reply.field("location").to_owned();
    let answer = reply.json().await;
    assert_eq!(answer["query"], query);
    assert!(answer["createTime"].is_i64() && place.ends_with(answer["id"].as_str().unwrap()), "{answer}");
    let results = server.get(&place).await.json().await;
    assert_eq!((&results["results"], &results["complete"]), (&json!([]), &json!(false)));
    server.ingest("s", "{\"n\": 1}\n{\"n\": 2}\n").await;
    let picked_up = async |place: &str, count: usize| {
        soon(async {
            loop {
                let results = server.get(place).await.json().await;
                if results["results"].as_array().unwrap().len() == count {
                    return results;
                }
            }
        })
        .await
    };
    for _ in 0..2 {
        let results = picked_up(&place, 2).await;
        assert_eq!(results["results"][0]["records"], json!([{"n": 1}]));
        assert_eq!(results["last"], 2);
    }
    let results = picked_up(&format!("{place}?after=1"), 1).await;
    assert_eq!(results["results"][0]["records"], json!([{"n": 2}]));
    assert_eq!(server.get(&format!("{place}?before=1")).await.status, 400);
    assert_eq!(server.send("DELETE", &place, &[], "").await.status, 200);
    assert_eq!(server.get(&place).await.status, 404);
    assert_eq!(server.send("DELETE", &place, &[], "").await.status, 404);
    let reply = server.send("POST", "/api/bullet/queries/async-query", &TEXT, "SELEKT").await;
    assert_eq!(reply.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_kills_is_answered_and_who_is_killed_is_told() {
    let server = start(|_| {}).await;
    let mut client = server.client().await;
    let asking = tokio::spawn(async move {
        client.send("POST", "/api/bullet/queries/http-query", &TEXT, "SELECT * FROM STREAM(MAX, TIME)").await
    });
    server.until_queries(1).await;
    let list = server.get("/v1/queries").await.json().await;
    let place = format!("/v1/queries/{}", list["queries"][0]["id"].as_str().unwrap());
    assert_eq!(server.send("DELETE", &place, &[], "").await.status, 204);
    let result = asking.await.unwrap().json().await;
    assert_eq!(errors(&result), ["The query was killed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sockjs_sessions_live_between_requests_and_no_longer() {
    let server = start(|config| {
        config.bullet.disconnect_delay_ms = 200;
        config.bullet.sessions_max = 1;
    })
    .await;
    const BASE: &str = "/api/bullet/queries/ws-query";
    assert_eq!(server.get(BASE).await.text().await, "Welcome to SockJS!\n");
    let info = server.get(&format!("{BASE}/info")).await.json().await;
    assert_eq!((&info["websocket"], &info["cookie_needed"]), (&json!(true), &json!(false)));
    let post = async |path: &str, body: &str| {
        server.send("POST", &format!("{BASE}{path}"), &[], body.to_owned()).await
    };
    assert_eq!(post("/0/a/xhr", "").await.text().await, "o\n");
    assert_eq!(post("/0/b/xhr", "").await.status, 429);
    assert_eq!(post("/0/b/xhr_send", "[]").await.status, 404);
    assert_eq!(post("/0.0/a/xhr", "").await.status, 404);
    assert_eq!(post("/0/a/jsonp", "").await.status, 404);
    assert_eq!(server.get(&format!("{BASE}/0/a/xhr")).await.status, 405);
    assert_eq!(post("/0/a/xhr_send", "").await.text().await, "Payload expected.");
    assert_eq!(post("/0/a/xhr_send", "[\"x").await.text().await, "Broken JSON encoding.");
    let connect = json!(["CONNECT\naccept-version:1.2\nheart-beat:0,0\n\n\0"]).to_string();
    assert_eq!(post("/0/a/xhr_send", &connect).await.status, 204);
    let frame = post("/0/a/xhr", "").await.text().await;
    assert!(frame.starts_with("a[\"CONNECTED\\nversion:1.2\\n"), "{frame}");
    // Without a receiver, there is room for another session after a while.
    soon(async { while post("/0/b/xhr", "").await.status != 200 {} }).await;
    assert_eq!(post("/0/a/xhr_send", &connect).await.status, 404);
    let mut streaming = post("/0/b/xhr_streaming", "").await;
    assert_eq!(streaming.line().await.unwrap().len(), 2048);
    assert_eq!(post("/0/b/xhr", "").await.text().await, "c[2010,\"Another connection still open\"]\n");
    assert_eq!(post("/0/b/xhr_send", "[\"NONSENSE\\n\\n\\u0000\"]").await.status, 204);
    let frame = streaming.line().await.unwrap();
    assert!(frame.starts_with("a[\"ERROR\\n"), "{frame}");
    assert_eq!(streaming.line().await.unwrap(), "c[3000,\"Go away!\"]");
    assert!(streaming.line().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_strangers_may_not_ask() {
    let server = start(|_| {}).await;
    for path in
        ["/api/bullet/columns", "/api/bullet/queries/ws-query/info", "/api/bullet/queries/ws-query/websocket"]
    {
        let fields = [("origin", "http://evil.example")];
        server.send("GET", path, &fields, "").await.problem(StatusCode::FORBIDDEN, "forbidden").await;
    }
    let allowed = start(|config| config.origins_allowed = vec!["http://ui.example".to_owned()]).await;
    let fields = [("origin", "http://ui.example")];
    let reply = allowed.send("GET", "/api/bullet/queries/ws-query/info", &fields, "").await;
    assert_eq!(reply.field("access-control-allow-origin"), "http://ui.example");
    // SockJS's client sends its requests with credentials; there are none, but the browser wants to be told.
    assert_eq!(reply.field("access-control-allow-credentials"), "true");
}
