//! Tests that queries are submitted, answered, listed, and ended.

use hyper::StatusCode;
use serde_json::json;

use crate::client::Running;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
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
async fn a_query_that_can_match_nothing_is_warned_of_at_once() {
    let server = Running::start().await;
    server.ingest("s", "{\"host\": \"web1\"}").await;
    let text = "SELECT host FROM STREAM(s) WHERE hots = \"web1\"";
    let mut results = server.ask("application/x-ndjson", text).await;
    let emit = results.emit().await.unwrap();
    assert_eq!(emit["records"], json!([]));
    let warnings: Vec<&str> =
        emit["meta"]["warnings"].as_array().unwrap().iter().filter_map(|told| told.as_str()).collect();
    assert!(warnings.len() == 2 && warnings[0].contains("Did you mean `host`?"), "{warnings:?}");
    assert!(warnings[1].contains("Write text in single quotes: 'web1'"), "{warnings:?}");
    let fields = [("content-type", "text/plain")];
    let facts = server.send("POST", "/v1/queries/validate", &fields, text).await.json().await;
    assert_eq!(facts["warnings"], emit["meta"]["warnings"]);
    let detached = server.send("POST", "/v1/queries?detach=true", &fields, text).await.json().await;
    assert_eq!(detached["warnings"], emit["meta"]["warnings"]);
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
async fn newer_reader_of_a_detached_query_takes_over() {
    let server = Running::start().await;
    let reply = server.send("POST", "/v1/queries?detach=true", &[], ALL).await;
    let place = reply.field("location").to_owned();
    let results = format!("{place}/results");
    server.ingest("s", "{\"n\": 1}").await;
    let accept = ("accept", "text/event-stream");
    let mut reader = server.client().await;
    let mut older = reader.send("GET", &results, &[accept], "").await;
    assert_eq!(ids(&mut older, 1).await, [1]);
    // A browser whose connection broke reads again before the server knows that it did.
    for last in 1..10 {
        let mut client = server.client().await;
        let number = last.to_string();
        let mut newer = client.send("GET", &results, &[accept, ("last-event-id", &number)], "").await;
        assert_eq!(newer.status, 200);
        // The older one's answer ends; it gets nothing that the newer one is to have.
        assert!(ids(&mut older, usize::MAX).await.is_empty());
        server.ingest("s", "{\"n\": 2}").await;
        assert_eq!(ids(&mut newer, 1).await, [last + 1]);
        (older, reader) = (newer, client);
    }
    drop((older, reader));
    let status = server.get(&place).await.json().await;
    assert_eq!(status["records"], 10);
}

/// The ids of server-sent events, up to so many or to the end.
async fn ids(reply: &mut crate::client::Reply, count: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let Some(line) = reply.line().await else { break };
        ids.extend(line.strip_prefix("id: ").map(|id| id.parse::<u64>().unwrap()));
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_a_query_that_is_not_detached_go_to_its_client() {
    let server = Running::start().await;
    let results = server.ask("*/*", ALL).await;
    let place = format!("/v1/queries/{}/results", results.field("swiftwater-query"));
    server.get(&place).await.problem(StatusCode::CONFLICT, "conflict").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_listed_in_pages() {
    let server = Running::start().await;
    let mut all = Vec::new();
    for (stream, count) in [("a", 3), ("b", 2)] {
        for _ in 0..count {
            let text = format!("SELECT * FROM STREAM({stream}, MAX, TIME)");
            let reply = server.send("POST", "/v1/queries?detach=true", &[], text).await;
            all.push(reply.json().await["id"].as_str().unwrap().to_owned());
        }
    }
    let mut of_b = all[3..].to_vec();
    // Ids of one millisecond are in no order.
    all.sort_unstable();
    of_b.sort_unstable();
    let page = async |parameters: &str| {
        let page = server.get(&format!("/v1/queries?{parameters}")).await.json().await;
        let ids =
            page["queries"].as_array().unwrap().iter().map(|query| query["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(page("").await, (all.clone(), None));
    for (sort, mut expected) in
        [("oldest", all.clone()), ("newest", all.iter().rev().cloned().collect::<Vec<_>>())]
    {
        let (mut found, mut after) = (Vec::new(), String::new());
        for _ in 0..3 {
            let (ids, next) = page(&format!("sort={sort}&limit=2{after}")).await;
            found.extend(ids);
            let Some(next) = next else { break };
            after = format!("&after={next}");
        }
        assert_eq!(found, expected, "{sort}");
        expected.truncate(1);
    }
    assert_eq!(page("prefix=b").await.0, of_b);
    assert_eq!(page(&format!("prefix={}", all[1])).await.0, all[1..2]);
    assert_eq!(page("prefix=c").await.0, [""; 0]);
    // The one that matched most is first.
    server.ingest("b", "{}\n{}").await;
    server.send("DELETE", &format!("/v1/queries/{}", of_b[1]), &[], "").await;
    let by_matches = page("sort=matches&limit=2").await.0;
    assert_eq!(by_matches[0], of_b[0]);
    for odd in
        ["sort=size", "limit=0", "limit=10001", "limit=x", "after=x", "dialect=bullet", "on_missing=wait"]
    {
        server
            .get(&format!("/v1/queries?{odd}"))
            .await
            .problem(StatusCode::BAD_REQUEST, "parameter-invalid")
            .await;
    }
    let after = format!("/v1/queries?sort=cpu&after={}", all[0]);
    server.get(&after).await.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_source_asks_by_one_get() {
    let server = Running::start().await;
    let place = "/v1/queries?query=SELECT+n+FROM+STREAM(s,+MAX,+TIME)+LIMIT+1";
    let mut client = server.client().await;
    let asking = client.send("GET", place, &[("accept", "text/event-stream")], "").await;
    assert_eq!((asking.status, asking.field("content-type")), (200, "text/event-stream"));
    server.ingest("s", "{\"n\": 1}").await;
    let text = asking.text().await;
    assert!(text.contains("\"records\":[{\"n\":1}]"), "{text}");
    // A request that a browser can send from a link or an image of another site's page.
    for fields in [&[][..], &[("accept", "text/html, */*")], &[("accept", "*/*")]] {
        let refused = server.send("GET", place, fields, "").await;
        refused.problem(StatusCode::BAD_REQUEST, "request-invalid").await;
    }
    let cross = [("accept", "text/event-stream"), ("origin", "https://evil.example")];
    server.send("GET", place, &cross, "").await.problem(StatusCode::FORBIDDEN, "forbidden").await;
    let accept = ("accept", "text/event-stream");
    let bad = server.send("GET", "/v1/queries?query=SELECT", &[accept], "").await;
    bad.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    let both = server.send("GET", &format!("{place}&limit=3"), &[accept], "").await;
    both.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
    // The ticker removes a query that has had its last record.
    server.until_queries(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_begin_with_the_prefix_of_the_proxy() {
    let server = Running::start().await;
    let fields = [("x-forwarded-prefix", "/live/")];
    let reply = server.send("POST", "/v1/queries?detach=true", &fields, ALL).await;
    let place = reply.field("location").to_owned();
    assert!(place.starts_with("/live/v1/queries/"), "{place}");
    assert_eq!(reply.json().await["results"], format!("{place}/results"));
    let prefixed = Running::with(Default::default(), |config| config.prefix = "/own".to_owned()).await;
    let reply = prefixed.send("POST", "/v1/queries?detach=true", &fields, ALL).await;
    assert!(reply.field("location").starts_with("/own/v1/queries/"));
    let json = [("content-type", "application/json")];
    let reply = prefixed.send("POST", "/v1/prepared", &json, json!({"query": ALL}).to_string()).await;
    assert!(reply.field("location").starts_with("/own/v1/prepared/"), "{}", reply.field("location"));
}

#[tokio::test(flavor = "multi_thread")]
async fn protocol_that_is_not_spoken_is_refused() {
    let server = Running::start().await;
    let upgrade = |protocol| [("connection", "upgrade"), ("upgrade", protocol)];
    let refused = server.send("GET", "/v1/nothing", &upgrade("websocket"), "").await;
    assert_eq!(refused.field("upgrade"), "HTTP/1.1");
    refused.problem(StatusCode::UPGRADE_REQUIRED, "upgrade-not-spoken").await;
    // An offer that a server may pass over, as Java's client makes it.
    assert_eq!(server.send("GET", "/v1/streams", &upgrade("h2c"), "").await.status, 200);
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
    let server = with_default_stream().await;
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
        json!({"query": "SELECT * FROM STREAM(s, MAX, TIME) WHERE a = $1", "parameters": ["x"]}),
        json!({}),
        json!({"filters": [{"field": "id", "operation": "==", "values": ["x"]}], "duration": 30000}),
    ] {
        assert_eq!(send("application/json", &body.to_string()).await.status, 201, "{body}");
    }
    let refused = async |media_type: &str, body: &str, status, word: &str, told: &str| {
        let problem = send(media_type, body).await.problem(status, word).await;
        assert!(problem.to_string().contains(told), "{problem}");
    };
    let bad = StatusCode::BAD_REQUEST;
    let json = "application/json";
    refused(json, "{\"query\": 1}", bad, "request-invalid", "not a string").await;
    refused(json, "{\"qeury\": \"x\"}", bad, "query-invalid", "qeury").await;
    refused(json, "[]", bad, "request-invalid", "not a JSON object").await;
    refused(json, "{\n\"query\": }", bad, "request-invalid", "\"line\":2").await;
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
    let server = with_default_stream().await;
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
    let refused = server.send("POST", "/v1/queries?on_missing=skip", &[], query.to_owned()).await;
    refused.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
    let refused = server.send("POST", "/v1/queries?dialect=sql", &[], query.to_owned()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

async fn with_default_stream() -> Running {
    let stream = swiftwater_event::StreamName::new("s").unwrap();
    let config = swiftwater_engine::EngineConfig { default_stream: Some(stream), ..Default::default() };
    Running::with(config, |_| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn bullets_json_form_is_asked_where_the_body_is_json() {
    let server = with_default_stream().await;
    let query = json!({
        "filters": [{"field": "id", "operation": "==", "values": ["x"]}],
        "aggregation": {"type": "RAW", "size": 1}, "duration": 30000,
    });
    let mut results = server.send("POST", "/v1/queries", &JSON, query.to_string()).await;
    server.ingest("s", "{\"id\": \"y\"}\n{\"id\": \"x\", \"n\": 1}\n").await;
    assert_eq!(results.records(1).await, [json!({"id": "x", "n": 1})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_validated_without_being_run() {
    let server = Running::start().await;
    let validate = async |body: &str| server.send("POST", "/v1/queries/validate", &[], body.to_owned()).await;
    let text = "SELECT a, COUNT(*) AS n FROM STREAM(s, 5000, TIME) GROUP BY a WINDOWING TUMBLING(1000, TIME)";
    let facts = validate(text).await.json().await;
    let expected = json!({"stream": "s", "columns": [{"name": "a", "role": "key"},
        {"name": "n", "type": "LONG", "role": "measure", "aggregate": "COUNT"}], "windowed": true, "explain": false,
        "duration_ms": 5000, "warnings": ["stream `s` has had no event yet"]});
    assert_eq!(facts, expected);
    assert_eq!(validate(ALL).await.json().await["columns"], json!(null));
    let problem = validate("SELECT a, FROM STREAM(").await;
    let problem = problem.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    assert!(problem["line"] == 1 && problem["hint"].is_string(), "{problem}");
    assert_eq!(server.get("/v1/queries").await.json().await, json!({"queries": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_queries_are_asked_with_parameters() {
    let server = Running::with(Default::default(), |config| config.prepared_max = 2).await;
    let text = "SELECT n FROM STREAM(s, MAX, TIME) WHERE id = $1 LIMIT 1";
    let prepare =
        async |body: serde_json::Value| server.send("POST", "/v1/prepared", &JSON, body.to_string()).await;
    let reply = prepare(json!({"name": "by-id", "query": text, "parameters": ["x"]})).await;
    assert_eq!((reply.status, reply.field("location")), (201, "/v1/prepared/by-id"));
    let prepared = reply.json().await;
    assert_eq!((&prepared["query"], &prepared["dialect"]), (&json!(text), &json!("native")));
    let reply = prepare(json!({"name": "by-id", "query": text})).await;
    reply.problem(StatusCode::CONFLICT, "conflict").await;
    let unnamed = prepare(json!({"query": "SELECT * FROM STREAM(s, MAX, TIME)"})).await.json().await;
    assert_eq!(server.get("/v1/prepared").await.json().await["prepared"].as_array().unwrap().len(), 2);
    let reply = prepare(json!({"query": text})).await;
    reply.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    for body in
        [json!({"query": "SELEKT"}), json!({"query": text, "parameters": []}), json!({"prepared": "by-id"})]
    {
        // There is no room for them either, but what is wrong with them comes first.
        assert!([400, 429].contains(&prepare(body).await.status));
    }
    let place = format!("/v1/prepared/{}", unnamed["id"].as_str().unwrap());
    assert_eq!(server.get(&place).await.json().await, unnamed);
    assert_eq!(server.send("DELETE", &place, &[], "").await.status, 204);
    server.send("DELETE", &place, &[], "").await.problem(StatusCode::NOT_FOUND, "not-found").await;

    let ask =
        async |body: serde_json::Value| server.send("POST", "/v1/queries", &JSON, body.to_string()).await;
    let mut one = ask(json!({"prepared": "by-id", "parameters": ["a"]})).await;
    let mut two = ask(json!({"prepared": "by-id", "parameters": ["b'"]})).await;
    server.ingest("s", "{\"id\": \"a\", \"n\": 1}\n{\"id\": \"b'\", \"n\": 2}\n").await;
    assert_eq!((one.records(1).await, two.records(1).await), (vec![json!({"n": 1})], vec![json!({"n": 2})]));
    ask(json!({"prepared": "by-id"})).await.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    ask(json!({"prepared": "none"})).await.problem(StatusCode::NOT_FOUND, "not-found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_had_again_after_a_connection_broke() {
    let server = Running::start().await;
    let three = "SELECT n FROM STREAM(s, MAX, TIME) LIMIT 3";
    let answer = server.send("POST", "/v1/queries?detach=true", &[], three).await.json().await;
    let results = answer["results"].as_str().unwrap();
    for n in 1..=3 {
        server.ingest("s", format!("{{\"n\": {n}}}")).await;
    }
    let events = async |fields: &[(&str, &str)], place: &str| {
        let fields = [&[("accept", "text/event-stream")], fields].concat();
        let text = server.send("GET", place, &fields, "").await.text().await;
        let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
        ids.map(|id| id.parse().unwrap()).collect::<Vec<u64>>()
    };
    let all = events(&[], results).await;
    assert_eq!(all[0], 1);
    let last = *all.last().unwrap();
    assert_eq!(events(&[("last-event-id", "0")], results).await, all);
    assert_eq!(events(&[("last-event-id", "1")], results).await, all[1..]);
    assert_eq!(events(&[], &format!("{results}?after={}", last - 1)).await, [last]);
    let odd = server.send("GET", results, &[("last-event-id", "x")], "").await;
    odd.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
    let place = results.strip_suffix("/results").unwrap();
    assert_eq!(server.send("DELETE", place, &[], "").await.status, 204);
    server.get(results).await.problem(StatusCode::NOT_FOUND, "not-found").await;
}
