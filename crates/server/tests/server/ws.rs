//! Tests `/v1/ws`: frames, credit, pieces, queries that outlive their connection, limits and shutdown.

use futures_util::{SinkExt, StreamExt};
use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};

use crate::{
    client::{Running, soon},
    contract::check_named,
};

const ALL: &str = "SELECT * FROM STREAM(s, MAX, TIME)";

/// A client.
struct Socket {
    inner: WebSocketStream<TcpStream>,
    deflate: Option<flate2::Decompress>,
}

impl Socket {
    async fn open(server: &Running) -> Socket {
        Socket::open_at(server, "/v1/ws").await
    }

    async fn open_at(server: &Running, path: &str) -> Socket {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let mut request = format!("ws://{}{path}", server.address).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "swiftwater.v1".parse().unwrap());
        let (inner, response) = soon(client_async(request, stream)).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "swiftwater.v1");
        let deflate = path.contains("deflate").then(|| flate2::Decompress::new(false));
        let mut socket = Socket { inner, deflate };
        let hello = socket.frame().await;
        assert_eq!(hello["hello"]["limits"]["frame_bytes_max"], 262_144, "{hello}");
        socket
    }

    async fn send(&mut self, frame: Value) {
        self.inner.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next frame; none once the connection is closed.
    async fn next(&mut self) -> Option<Value> {
        soon(self.next_frame()).await
    }

    async fn next_frame(&mut self) -> Option<Value> {
        loop {
            let text = match self.inner.next().await?.ok()? {
                Message::Text(text) => text.as_str().to_owned(),
                Message::Binary(bytes) => self.inflated(&bytes),
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(frame) => {
                    return Some(json!({"closed": frame.map(|frame| u16::from(frame.code))}));
                }
                Message::Frame(_) => unreachable!("a client reads messages"),
            };
            assert!(text.len() <= 262_144);
            let frame = serde_json::from_str(&text).unwrap();
            check_named(&frame, "WebSocketFrame").unwrap();
            return Some(frame);
        }
    }

    fn inflated(&mut self, bytes: &[u8]) -> String {
        let deflate = self.deflate.as_mut().expect("frames are text unless they are asked for as deflated");
        let mut out = Vec::with_capacity(1 << 20);
        deflate.decompress_vec(bytes, &mut out, flate2::FlushDecompress::Sync).unwrap();
        assert_eq!(out.pop(), Some(b'\n'));
        String::from_utf8(out).unwrap()
    }

    async fn frame(&mut self) -> Value {
        self.next().await.expect("the connection is open")
    }

    /// The next event of a subscription, with the pieces of its data put together.
    async fn event(&mut self, id: u64) -> (String, Value) {
        let mut text = String::new();
        loop {
            let frame = self.frame().await;
            assert_eq!(frame["id"], id, "{frame}");
            let event = frame["event"].as_str().unwrap().to_owned();
            let Some(piece) = frame["text"].as_str() else { return (event, frame["data"].clone()) };
            text.push_str(piece);
            if frame["more"] != true {
                return (event, serde_json::from_str(&text).unwrap());
            }
        }
    }

    async fn expect(&mut self, id: u64, event: &str) -> Value {
        let (found, data) = self.event(id).await;
        assert_eq!(found, event, "{data}");
        data
    }

    /// Begins a query; returns its identity.
    async fn ask(&mut self, id: u64, text: &str, more: Value) -> String {
        let mut frame = json!({"id": id, "op": "query", "text": text});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check_named(&frame, "WebSocketRequest").unwrap();
        self.send(frame).await;
        let started = self.expect(id, "started").await;
        started["query"].as_str().unwrap().to_owned()
    }

    /// The values of `n` in the emits to come, until there are so many.
    async fn numbers(&mut self, id: u64, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let data = self.expect(id, "emit").await;
            numbers
                .extend(data["records"].as_array().unwrap().iter().filter_map(|record| record["n"].as_u64()));
        }
        numbers
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn emits_come_as_they_do_over_http() {
    let server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    socket
        .send(json!({"id": 1, "op": "query", "text": "SELECT n, n + 1 AS m FROM STREAM(s, MAX, TIME)"}))
        .await;
    let started = socket.expect(1, "started").await;
    assert_eq!(started["columns"], json!([{"name": "n", "role": "other"}, {"name": "m", "role": "other"}]));
    assert_eq!(server.ingest("s", "{\"n\": 1}\n{\"n\": 2}").await.status, 200);
    let mut lines = server.ask("*/*", ALL).await;
    let emit = socket.expect(1, "emit").await;
    assert_eq!(emit["meta"]["query"]["id"], started["query"]);
    let grouped = "SELECT k, COUNT(*) AS n, window_start FROM STREAM(s, MAX, TIME) GROUP BY k WINDOWING TUMBLING(1000, TIME)";
    socket.send(json!({"id": 2, "op": "query", "text": grouped})).await;
    let columns = loop {
        let frame = socket.frame().await;
        if frame["event"] == "started" {
            break frame["data"]["columns"].clone();
        }
    };
    let expected = json!([
        {"name": "k", "role": "key"},
        {"name": "n", "type": "LONG", "role": "measure", "aggregate": "COUNT"},
        {"name": "window_start", "type": "LONG", "role": "window_start"},
    ]);
    assert_eq!(columns, expected);
    drop(lines.emit());
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_frames_and_queries_are_problems_and_the_connection_stays() {
    let server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    socket.send(json!("x")).await;
    assert_eq!(socket.frame().await["data"]["detail"], "the frame is not a JSON object");
    socket.send(json!({"id": 4, "op": "query", "text": "SELEC *"})).await;
    let problem = socket.expect(4, "problem").await;
    assert_eq!(
        (&problem["status"], &problem["line"], &problem["column"]),
        (&json!(400), &json!(1), &json!(1))
    );
    assert_eq!(socket.expect(4, "ended").await["reason"], "failed");
    socket.send(json!({"id": 5, "op": "query", "text": format!("EXPLAIN {ALL}")})).await;
    assert_eq!(socket.expect(5, "problem").await["hint"], "Send it to POST /v1/queries.");
    socket.expect(5, "ended").await;
    socket.send(json!({"id": 6, "op": "attach", "query": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})).await;
    assert_eq!(socket.expect(6, "problem").await["status"], 404);
    socket.expect(6, "ended").await;
    socket.inner.send(Message::binary(vec![1_u8])).await.unwrap();
    assert_eq!(socket.frame().await["event"], "problem");
    // A number is free again once its subscription has ended, and not before.
    socket.ask(4, ALL, json!({})).await;
    socket.send(json!({"id": 4, "op": "query", "text": ALL})).await;
    assert_eq!(socket.expect(4, "problem").await["detail"], "subscription 4 is there already");
    socket.send(json!({"id": 9, "op": "ping"})).await;
    assert!(socket.expect(9, "pong").await["now"].is_string());
    // What there is not ends nothing.
    socket.send(json!({"id": 77, "op": "end"})).await;
    socket.send(json!({"id": 77, "op": "credit", "bytes": 1})).await;
    server.ingest("s", "{\"n\": 1}").await;
    assert_eq!(socket.numbers(4, 1).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_ended_gets_its_last_emit() {
    let server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    let text = "SELECT COUNT(*) AS n FROM STREAM(s, MAX, TIME)";
    // Without credit, too.
    socket.ask(1, text, json!({"credit": 0})).await;
    server.ingest("s", "{\"n\": 1}\n{\"n\": 2}").await;
    socket.send(json!({"id": 1, "op": "end"})).await;
    let data = loop {
        let data = socket.expect(1, "emit").await;
        if !data["meta"]["query"]["finished"].is_null() {
            break data;
        }
    };
    assert_eq!((&data["records"], &data["meta"]["query"]["reason"]), (&json!([{"n": 2}]), &json!("client")));
    assert_eq!(socket.expect(1, "ended").await["reason"], "client");
    assert_eq!(server.get("/v1/queries").await.json().await["queries"], json!([]));
}

/// `end` may meet a query that its duration has ended: its results are there all the same, and nothing of it remains.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_has_ended_by_itself_gives_its_results_to_one_that_ends_it() {
    let server = Running::start().await;
    for more in [json!({"credit": 0}), json!({"credit": 0, "linger_ms": 60_000})] {
        let mut socket = Socket::open(&server).await;
        let query = socket.ask(1, "SELECT COUNT(*) AS n FROM STREAM(s, 300, TIME)", more).await;
        server.ingest("s", "{\"n\": 1}").await;
        soon(async {
            loop {
                let status = server.get(&format!("/v1/queries/{query}")).await;
                if status.status == 404 || !status.json().await["finished"].is_null() {
                    break;
                }
            }
        })
        .await;
        socket.send(json!({"id": 1, "op": "end"})).await;
        let data = loop {
            let data = socket.expect(1, "emit").await;
            if !data["meta"]["query"]["finished"].is_null() {
                break data;
            }
        };
        assert_eq!(
            (&data["records"], &data["meta"]["query"]["reason"]),
            (&json!([{"n": 1}]), &json!("duration"))
        );
        assert_eq!(socket.expect(1, "ended").await["reason"], "duration");
        assert_eq!(server.get("/v1/queries").await.json().await["queries"], json!([]));
    }
    // No emit of theirs counts as waiting.
    let waiting = soon(async {
        loop {
            let metrics = server.get("/metrics").await.text().await;
            let line =
                metrics.lines().find(|line| line.contains("owner=\"subscribers\"")).unwrap().to_owned();
            if line.ends_with(" 0") {
                break line;
            }
        }
    })
    .await;
    assert!(waiting.ends_with(" 0"), "{waiting}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_reader_takes_over_and_the_older_one_ends_nothing() {
    let server = Running::start().await;
    let mut first = Socket::open(&server).await;
    let query = first.ask(1, "SELECT n FROM STREAM(s, MAX, TIME)", json!({"linger_ms": 60_000})).await;
    let mut second = Socket::open(&server).await;
    second.send(json!({"id": 1, "op": "attach", "query": query, "records_per_second_max": 5})).await;
    second.expect(1, "started").await;
    assert_eq!(first.expect(1, "ended").await["reason"], "replaced");
    first.send(json!({"id": 1, "op": "end"})).await;
    drop(first);
    server.ingest("s", "{\"n\": 7}").await;
    assert_eq!(second.numbers(1, 1).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_without_credit_and_what_is_missed_is_counted() {
    let engine = EngineConfig { subscriber_emits_max: 2, ..EngineConfig::default() };
    let server = Running::with(engine, |_| {}).await;
    let mut socket = Socket::open(&server).await;
    // `started` takes more than this: nothing follows it.
    socket.ask(1, "SELECT n FROM STREAM(s, MAX, TIME)", json!({"credit": 1})).await;
    for n in 1..=20 {
        assert_eq!(server.ingest("s", format!("{{\"n\": {n}}}")).await.status, 200);
        // Each is an emit of its own.
        soon(async { while server.get("/v1/queries").await.json().await["queries"][0]["records"] != n {} })
            .await;
    }
    socket.send(json!({"id": 2, "op": "ping"})).await;
    assert_eq!(socket.frame().await["event"], "pong", "no emit came before it");
    socket.send(json!({"id": 1, "op": "credit", "bytes": 1_000_000})).await;
    let (mut seen, mut dropped) = (Vec::new(), 0);
    while seen.len() as u64 + dropped < 20 {
        let data = socket.expect(1, "emit").await;
        seen.extend(data["records"].as_array().unwrap().iter().map(|record| record["n"].as_u64().unwrap()));
        dropped = data["meta"]["counts"]["dropped"].as_u64().unwrap();
    }
    assert!(dropped > 0 && seen.last() == Some(&20) && seen.is_sorted(), "{seen:?} {dropped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_longer_than_a_frame_comes_in_pieces_between_which_others_come() {
    let server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    socket.ask(1, ALL, json!({"credit": 10_000_000})).await;
    let long = "\"é\\\n".repeat(100_000);
    server.ingest("s", json!({"text": long}).to_string()).await;
    socket.send(json!({"id": 2, "op": "ping"})).await;
    let (mut pieces, mut text, mut has_pong) = (0, String::new(), false);
    loop {
        let frame = socket.frame().await;
        if frame["id"] == 2 {
            has_pong = true;
            continue;
        }
        let Some(piece) = frame["text"].as_str() else { continue };
        text.push_str(piece);
        pieces += 1;
        if frame["more"] != true {
            break;
        }
    }
    assert!(pieces > 2 && has_pong);
    let data: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(data["records"][0]["text"], long);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_taken_up_after_a_broken_connection_without_gap_or_double() {
    let server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    let query = socket.ask(1, "SELECT n FROM STREAM(s, MAX, TIME)", json!({"linger_ms": 60_000})).await;
    let (mut seen, mut last) = (Vec::new(), 0);
    for round in 0..5_u64 {
        for n in 0..4 {
            server.ingest("s", format!("{{\"n\": {}}}", round * 4 + n)).await;
        }
        // The connection breaks after some of the emits, at another place each time.
        while seen.len() as u64 <= round * 4 + round % 3 {
            let frame = socket.frame().await;
            if frame["event"] == "emit" {
                last = frame["number"].as_u64().unwrap();
                let records = frame["data"]["records"].as_array().unwrap();
                seen.extend(records.iter().map(|record| record["n"].as_u64().unwrap()));
            }
        }
        drop(socket);
        socket = Socket::open(&server).await;
        socket.send(json!({"id": 1, "op": "attach", "query": query, "after": last})).await;
        assert_eq!(socket.expect(1, "started").await["query"], *query);
    }
    while seen.len() < 20 {
        seen.extend(socket.numbers(1, 1).await);
    }
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
    // It is no detached query: the list says so.
    assert_eq!(server.get("/v1/queries").await.json().await["queries"][0]["detached"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_lingers_ends_when_its_time_is_over() {
    let server = Running::start().await;
    for linger_ms in [0, 200] {
        let mut socket = Socket::open(&server).await;
        let query = socket.ask(1, ALL, json!({"linger_ms": linger_ms})).await;
        drop(socket);
        // Its end is looked for each second.
        soon(async { while server.get(&format!("/v1/queries/{query}")).await.status != 404 {} }).await;
    }
    let over_http = server.send("POST", "/v1/queries?linger_ms=60000", &[("accept", "*/*")], ALL).await;
    let query = over_http.field("swiftwater-query").to_owned();
    drop(over_http);
    let mut socket = Socket::open(&server).await;
    socket.send(json!({"id": 1, "op": "attach", "query": query})).await;
    socket.expect(1, "started").await;
    let both = server.send("POST", "/v1/queries?linger_ms=1&detach=true", &[], ALL).await;
    both.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fewer_records_come_where_a_client_wants_fewer() {
    let server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    socket.ask(1, "SELECT n FROM STREAM(s, MAX, TIME)", json!({"records_per_second_max": 10})).await;
    let lines: String = (0..5_000).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    server.ingest("s", lines).await;
    let (mut records, mut thinned) = (0, 0);
    while records + thinned < 5_000 {
        let data = socket.expect(1, "emit").await;
        records += data["records"].as_array().unwrap().len() as u64;
        thinned = data["meta"]["counts"]["thinned"].as_u64().unwrap();
    }
    assert!((1..200).contains(&records), "{records}");
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_come_again_and_again() {
    let server = Running::start().await;
    server.ingest("quiet", "{}").await;
    let mut socket = Socket::open(&server).await;
    socket.send(json!({"id": 1, "op": "status", "of": "streams", "interval_ms": 250})).await;
    let first = socket.expect(1, "status").await;
    assert_eq!((&first["of"], &first["streams"][0]["name"]), (&json!("streams"), &json!("quiet")));
    let second = socket.expect(1, "status").await;
    assert!(second["now"].as_str() > first["now"].as_str());
    socket.send(json!({"id": 1, "op": "end"})).await;
    while socket.event(1).await.0 != "ended" {}
    let id = socket.ask(2, ALL, json!({})).await;
    socket.send(json!({"id": 3, "op": "status", "of": "queries", "sort": "cpu", "limit": 1})).await;
    loop {
        let frame = socket.frame().await;
        if frame["id"] == 3 {
            assert_eq!(frame["data"]["queries"][0]["id"], id);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_objects_has_a_status() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    for text in [
        "CREATE STREAM s (k STRING, ts TIMESTAMP)",
        "CREATE STREAM alerts (k STRING, firing BOOLEAN)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k",
        "CREATE MATERIALIZED VIEW h AS SELECT window_start, k, COUNT(*) AS n FROM STREAM(s) GROUP BY k \
         WINDOWING TUMBLING(INTERVAL '5 minutes', EVENT(ts, INTERVAL '30 seconds'))",
        "CREATE STREAM hours (window_start LONG, k STRING, n LONG)",
        "CREATE ALERT a ON v WHEN n > 100 INTO alerts",
        "CREATE TABLE counts (n BIGINT)",
        "CREATE JOB j SCHEDULE '@yearly' AS INSERT INTO counts SELECT count(*) FROM s",
        "CREATE SINK w FROM h INTO STREAM hours",
    ] {
        let reply = server.send("POST", "/v1/sql", &[], text).await;
        let status = reply.status;
        assert_eq!(status, 200, "{text}: {}", reply.text().await);
    }
    let mut socket = Socket::open(&server).await;
    for (id, (of, expected)) in [
        ("shards", "up_nanos"),
        ("memory", "engine.pending_bytes_max"),
        ("log", "sync_nanos"),
        ("tables", "\"name\":\"s\""),
        ("views", "\"name\":\"v\""),
        ("jobs", "\"j\""),
        ("sinks", "\"w\""),
        ("alerts", "\"a\""),
        ("joins", "[]"),
        ("sources", "[]"),
        ("statements", "[]"),
        ("searches", "[]"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = id as u64;
        socket.send(json!({"id": id, "op": "status", "of": of, "interval_ms": 3_600_000})).await;
        let data = socket.expect(id, "status").await;
        assert_eq!(data["of"], of);
        assert!(data[of].to_string().contains(expected), "{of}: {data}");
    }
    for (frame, part) in [
        (json!({"id": 50, "op": "status", "of": "nodes"}), "cluster"),
        (json!({"id": 51, "op": "status", "of": "jobs", "sort": "name"}), "no other order"),
        (json!({"id": 52, "op": "status", "of": "clouds"}), "clouds"),
    ] {
        let id = frame["id"].as_u64().unwrap();
        socket.send(frame).await;
        let problem = socket.expect(id, "problem").await;
        assert!(problem.to_string().contains(part), "{problem}");
        if part == "cluster" {
            socket.expect(id, "ended").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_view_come_and_go_on_where_they_broke() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    for text in [
        "CREATE STREAM s (k STRING)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k",
    ] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    let ingest = async |k: &str| {
        assert_eq!(server.ingest("s", format!("{{\"k\": \"{k}\"}}")).await.status, 200);
    };
    let mut socket = Socket::open(&server).await;
    socket.send(json!({"id": 1, "op": "changes", "view": "v"})).await;
    let started = socket.expect(1, "started").await;
    assert_eq!((&started["view"], &started["position"]), (&json!("v"), &json!(0)));
    ingest("a").await;
    let change = socket.expect(1, "change").await;
    assert_eq!(change["changes"], json!([{"key": ["a"], "row": {"k": "a", "n": 1}}]));
    assert_eq!(change["position"], 1);
    drop(socket);

    ingest("b").await;
    ingest("a").await;
    let mut socket = Socket::open(&server).await;
    socket.send(json!({"id": 7, "op": "changes", "view": "v", "from": 1})).await;
    socket.expect(7, "started").await;
    let (mut rows, mut position) = (std::collections::BTreeMap::new(), 0);
    while position < 3 {
        let change = socket.expect(7, "change").await;
        for one in change["changes"].as_array().unwrap() {
            rows.insert(one["key"][0].as_str().unwrap().to_owned(), one["row"]["n"].clone());
        }
        position = change["position"].as_u64().unwrap_or(position);
    }
    assert_eq!(rows, [("a".to_owned(), json!(2)), ("b".to_owned(), json!(1))].into());
    socket.send(json!({"id": 7, "op": "end"})).await;
    assert_eq!(socket.expect(7, "ended").await["reason"], "client");
    // Without credit the feed waits, and loses nothing.
    socket.send(json!({"id": 8, "op": "changes", "view": "v", "credit": 1})).await;
    socket.expect(8, "started").await;
    for _ in 0..3 {
        ingest("c").await;
    }
    socket.send(json!({"id": 8, "op": "credit", "bytes": 1_000_000})).await;
    loop {
        let (event, data) = socket.event(8).await;
        if event == "change" && data["changes"][0]["row"]["n"] == 3 {
            break;
        }
    }
    socket.send(json!({"id": 9, "op": "changes", "view": "nothing"})).await;
    let problem = socket.expect(9, "problem").await;
    assert_eq!(problem["status"], 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_frames_are_one_stream() {
    let server = Running::start().await;
    let mut socket = Socket::open_at(&server, "/v1/ws?compress=deflate").await;
    socket.ask(1, "SELECT n FROM STREAM(s, MAX, TIME)", json!({})).await;
    for n in 0..10 {
        server.ingest("s", format!("{{\"n\": {n}}}")).await;
    }
    assert_eq!(socket.numbers(1, 10).await, (0..10).collect::<Vec<_>>());
    let refused = server.get("/v1/ws?compress=zip").await;
    refused.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_named() {
    let server = Running::with(EngineConfig::default(), |config| {
        config.ws_connections_max = 1;
        config.ws_subscriptions_max = 1;
    })
    .await;
    let mut socket = Socket::open(&server).await;
    socket.ask(1, ALL, json!({})).await;
    socket.send(json!({"id": 2, "op": "status", "of": "streams"})).await;
    assert_eq!(socket.expect(2, "problem").await["setting"], "server.ws_subscriptions_max");
    let fields = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let refused = server.send("GET", "/v1/ws", &fields, "").await;
    let problem = refused.problem(StatusCode::TOO_MANY_REQUESTS, "limit-passed").await;
    assert_eq!(problem["setting"], "server.ws_connections_max");
    let other = [&fields[..], &[("sec-websocket-protocol", "soap")]].concat();
    server.send("GET", "/v1/ws", &other, "").await.problem(StatusCode::BAD_REQUEST, "request-invalid").await;
    server.get("/v1/ws").await.problem(StatusCode::UPGRADE_REQUIRED, "upgrade-required").await;
    // The place of a connection that has ended is free.
    drop(socket);
    loop {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let request = format!("ws://{}/v1/ws", server.address).into_client_request().unwrap();
        if client_async(request, stream).await.is_ok() {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_subscriptions_and_asks_to_come_back() {
    let mut server = Running::start().await;
    let mut socket = Socket::open(&server).await;
    socket.ask(1, ALL, json!({})).await;
    socket.send(json!({"id": 2, "op": "status", "of": "streams", "interval_ms": 3_600_000})).await;
    socket.expect(2, "status").await;
    server.begin_stop();
    let mut ended = Vec::new();
    let closed = loop {
        let frame = socket.frame().await;
        match frame.get("closed") {
            Some(code) => break code.clone(),
            None if frame["event"] == "ended" => {
                ended.push((
                    frame["id"].as_u64().unwrap(),
                    frame["data"]["reason"].as_str().unwrap().to_owned(),
                ));
            }
            None => {}
        }
    };
    ended.sort();
    assert_eq!(ended, [(1, "shutdown".to_owned()), (2, "shutdown".to_owned())]);
    assert_eq!(closed, json!(u16::from(CloseCode::Restart)));
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::storing(directory.path(), |_| {}).await;
    let about = server.get("/v1/server").await.json().await;
    assert_eq!((&about["version"], &about["has_data"]), (&json!(env!("CARGO_PKG_VERSION")), &json!(true)));
    assert_eq!(about["features"], json!(["history", "saved", "search", "sql", "views"]));
    let alone = Running::start().await;
    assert_eq!(alone.get("/v1/server").await.json().await["features"], json!(["saved"]));
}
