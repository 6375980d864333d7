//! Tests the foreign input protocols: the formats of other senders become events.

use std::{io::Write, net::TcpStream};

use serde_json::{Value, json};
use swiftwater_engine::HistoryConfig;
use swiftwater_server::ServerConfig;

use crate::client::{Running, soon};

/// A log record of OTLP in both forms.
const RECORD: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityText":"WARN"}]}]}]}"#;
const PACKED_RECORD: &[u8] = b"\x0a\x0a\x12\x08\x12\x06\x1a\x04WARN";

fn with_syslog(config: &mut ServerConfig) {
    config.syslog.tcp_listen = Some("127.0.0.1:0".parse().unwrap());
}

/// Sends a message of syslog, and waits until the stream has had `events`.
async fn send_by_syslog(server: &Running, events: u64) {
    let mut tcp = TcpStream::connect(server.syslog_tcp.unwrap()).unwrap();
    tcp.write_all(b"<13>1 - host app - - - hello\n").unwrap();
    soon(async {
        loop {
            let told: Value = server.get("/v1/streams").await.json().await;
            let streams = told["streams"].as_array().unwrap();
            if streams.iter().any(|stream| stream["name"] == "syslog" && stream["events"] == events) {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn unkept(server: &Running) -> String {
    let metrics = server.get("/metrics").await.text().await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("swiftwater_syslog_unkept_total "));
    line.unwrap().to_owned()
}

/// Sends an event by each way in: the answers' warnings, by HTTP, `_bulk`, `_doc`, and OTLP in both forms.
async fn warnings(server: &Running, streams: &str) -> [String; 5] {
    let told = server.ingest(streams, "{\"n\":1}").await;
    let field = told.field("warning").to_owned();
    let told = told.json().await;
    assert_eq!(told["accepted"], 1);
    let by_http = told["warning"].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        field.contains(&by_http),
        field.starts_with("299 swiftwater \"") || by_http.is_empty(),
        "{field}"
    );
    let bulk = server.send("POST", &format!("/{streams}/_bulk"), &[], "{\"index\":{}}\n{\"n\":1}\n").await;
    let document = server.send("POST", &format!("/{streams}/_doc"), &[], "{\"n\":1}").await;
    assert_eq!((bulk.status, document.status), (200, 201));
    let logs = format!("/v1/logs?stream={streams}");
    let json_form = [("content-type", "application/json")];
    let told = server.send("POST", &logs, &json_form, RECORD).await.json().await;
    assert_eq!(told["partialSuccess"].get("rejectedLogRecords"), None);
    let packed_form = [("content-type", "application/x-protobuf")];
    let packed = server.send("POST", &logs, &packed_form, PACKED_RECORD).await.bytes().await;
    let packed = String::from_utf8_lossy(&packed).into_owned();
    let by_json = told["partialSuccess"]["errorMessage"].as_str().unwrap_or_default().to_owned();
    let (bulk, document) = (bulk.field("warning").to_owned(), document.field("warning").to_owned());
    [by_http, bulk, document, by_json, packed]
}

#[tokio::test(flavor = "multi_thread")]
async fn sender_is_warned_when_nothing_of_a_stream_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), with_syslog).await;
    let said = "stream `s` is live-only: its events reach live queries, and are not stored";
    let [by_http, bulk, document, by_json, packed] = warnings(&server, "s").await;
    assert!(by_http.starts_with(said), "{by_http}");
    assert!(bulk.starts_with(&format!("299 Elasticsearch-8.0.0 \"{said}")), "{bulk}");
    assert_eq!(document, bulk);
    assert_eq!(by_json, by_http);
    // partial_success { error_message: "…" }
    assert!(packed.starts_with('\n') && packed.ends_with(&by_http), "{packed}");
    assert!(packed.contains('\x12') && !packed.contains('\x08'), "{packed}");
    assert_eq!(unkept(&server).await, "0");
    send_by_syslog(&server, 1).await;
    soon(async {
        while unkept(&server).await != "1" {
            tokio::task::yield_now().await;
        }
    })
    .await;

    // A declared stream's owner knows, and a server that stores nothing loses nothing.
    let create = "CREATE STREAM kept WITH (store = true); CREATE STREAM live WITH (store = false)";
    assert_eq!(server.send("POST", "/v1/sql", &[], create).await.status, 200);
    let none = [(); 5].map(|()| String::new());
    assert_eq!(warnings(&server, "kept").await, none);
    assert_eq!(warnings(&server, "live").await, none);
    assert_eq!(warnings(&Running::start().await, "s").await, none);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_events_begin_are_stored_where_the_settings_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let history = HistoryConfig { store_new_streams: true, ..HistoryConfig::at(dir.path()) };
    let server = Running::storing_as(history, with_syslog).await;
    let json_form = [("content-type", "application/json")];
    let numbered = [("swiftwater-producer", "p"), ("swiftwater-sequence", "0")];
    let reply = server.send("POST", "/v1/streams/by_http/events", &numbered, "{\"n\":1}").await;
    assert_eq!((reply.status, reply.field("warning")), (200, ""));
    let reply = server.send("POST", "/by_bulk/_bulk", &[], "{\"index\":{}}\n{\"n\":1}\n").await;
    assert_eq!((reply.status, reply.field("warning")), (200, ""));
    let reply = server.send("PUT", "/by_doc/_doc/7", &[], "{\"n\":1}").await;
    assert_eq!((reply.status, reply.field("warning")), (201, ""));
    let reply = server.send("POST", "/v1/logs", &json_form, RECORD).await;
    assert_eq!(reply.json().await, json!({"partialSuccess": {}}));
    send_by_syslog(&server, 1).await;
    assert_eq!(unkept(&server).await, "0");
    for stream in ["by_http", "by_bulk", "by_doc", "logs", "syslog"] {
        let text = format!("SELECT count(*) AS n FROM {stream}");
        let reply = server.send("POST", "/v1/sql", &[("accept", "application/json")], text).await;
        assert_eq!(reply.json().await, json!([{"n": 1}]), "{stream}");
    }
    // A name that is something else's is refused, as CREATE STREAM refuses it.
    assert_eq!(server.send("POST", "/v1/sql", &[], "CREATE TABLE t (n BIGINT)").await.status, 200);
    server.ingest("t", "{\"n\":1}").await.problem(409.try_into().unwrap(), "conflict").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_taken_and_refused_as_elasticsearch_does() {
    let server = Running::start().await;
    let reply = server.send("POST", "/a/_doc", &[], "{\"n\":1}").await;
    assert_eq!((reply.status, reply.field("x-elastic-product")), (201, "Elasticsearch"));
    let told = reply.json().await;
    let expected = json!({
        "_index": "a", "_id": "0", "_version": 1, "result": "created",
        "_shards": {"total": 1, "successful": 1, "failed": 0}, "_seq_no": 0, "_primary_term": 1,
    });
    assert_eq!(told, expected);
    for (method, path) in [("PUT", "/a/_doc/k"), ("POST", "/a/_doc/k"), ("POST", "/a/_doc/")] {
        let reply = server.send(method, path, &[], "{\n \"n\": 2\n}").await;
        assert_eq!(reply.status, 201, "{method} {path}");
        let id = reply.json().await["_id"].clone();
        assert!(id == "k" || path.ends_with('/'), "{id}");
    }
    for path in ["/_bulk/", "/a/_bulk/"] {
        let body = "{\"index\":{\"_index\":\"a\"}}\n{\"n\":3}\n";
        let told = server.send("POST", path, &[], body).await.json().await;
        assert_eq!(told["errors"], false, "{path}: {told}");
    }
    for (method, path, body, status, kind) in [
        ("POST", "/a/_doc", "{\"n\":", 400, "document_parsing_exception"),
        ("POST", "/a/_doc", "{} {}", 400, "document_parsing_exception"),
        ("POST", "/a%20b/_doc", "{}", 400, "invalid_index_name_exception"),
        ("POST", "/a/_doc/%FF", "{}", 400, "illegal_argument_exception"),
        ("POST", "/_bulk", "{\"index\":{}}\n{}\n", 400, "illegal_argument_exception"),
        ("PUT", "/a/_doc", "{}", 405, "method_not_allowed_exception"),
        ("GET", "/_bulk", "", 405, "method_not_allowed_exception"),
        ("DELETE", "/a/_doc/k", "", 405, "method_not_allowed_exception"),
    ] {
        let reply = server.send(method, path, &[], body).await;
        assert_eq!(
            (reply.status, reply.field("x-elastic-product")),
            (status, "Elasticsearch"),
            "{method} {path}"
        );
        let told = reply.json().await;
        assert_eq!((&told["status"], &told["error"]["type"]), (&json!(status), &json!(kind)), "{told}");
        let cause = &told["error"]["root_cause"][0];
        assert_eq!((&cause["type"], &cause["reason"]), (&json!(kind), &told["error"]["reason"]), "{told}");
        assert!(told["error"]["reason"].is_string(), "{told}");
    }
    let packed = [("content-encoding", "br")];
    let told = server.send("POST", "/a/_doc", &packed, "{}").await.json().await;
    assert_eq!(told["error"]["type"], "media_type_header_exception", "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_refused_in_the_form_that_they_came_in() {
    let server = Running::start().await;
    let json_form = [("content-type", "application/json")];
    let told = server.send("POST", "/v1/logs", &json_form, "{").await;
    assert_eq!((told.status, told.field("content-type")), (400, "application/json"));
    let told = told.json().await;
    assert_eq!(told["code"], 3);
    assert!(told["message"].as_str().unwrap().starts_with("the body is not JSON"), "{told}");
    let packed_form = [("content-type", "application/x-protobuf"), ("origin", "http://elsewhere")];
    let reply = server.send("POST", "/v1/logs", &packed_form, PACKED_RECORD).await;
    assert_eq!((reply.status, reply.field("content-type")), (403, "application/x-protobuf"));
    assert!(reply.text().await.starts_with("\x08\x07\x12"));
    let told = server.send("POST", "/a/_doc", &[("origin", "http://elsewhere")], "{}").await.json().await;
    assert_eq!(told["error"]["type"], "security_exception");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_with_a_header_becomes_events() {
    let server = Running::start().await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    let csv = "carrier,delay,\"to, via\"\r\nUA,-5,\"a \"\"b\"\"\"\nAA,x,\n1,2,3,4\n\"7\",7,\"l1\nl2\"\n";
    let fields = [("content-type", "text/csv; charset=utf-8")];
    let reply = server.send("POST", "/v1/streams/s/events", &fields, csv).await;
    assert_eq!(reply.status, 200);
    let told = reply.json().await;
    assert_eq!(
        (&told["accepted"], &told["rejected"], &told["errors"][0]["line"]),
        (&json!(3), &json!(1), &json!(4))
    );
    assert_eq!(told["errors"][0]["message"], "4 values, and 3 names in the header");
    let absent = [("content-type", "text/csv; header=absent")];
    assert_eq!(server.send("POST", "/v1/streams/s/events", &absent, csv).await.status, 400);
    let reply = server.send("POST", "/v1/streams/t/events", &fields, "a\n1\n\"2\n3").await;
    let told = reply.json().await;
    assert_eq!((&told["accepted"], &told["rejected"]), (&json!(1), &json!(1)));
    assert_eq!(told["errors"][0]["message"], "the text ends inside quotes");
    assert_eq!(
        results.records(3).await,
        [
            json!({"carrier": "UA", "delay": -5, "to, via": "a \"b\""}),
            json!({"carrier": "AA", "delay": "x"}),
            json!({"carrier": "7", "delay": 7, "to, via": "l1\nl2"}),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_as_csv_can_be_sent_back_and_columns_of_text_take_digits() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    let columns =
        "(zip STRING, n LONG, d DOUBLE, up BOOLEAN, ts TIMESTAMP, l LIST[LONG], m MAP[STRING], j JSON)";
    // With a byte order mark, as some editors write files.
    let create = format!("\u{feff}CREATE STREAM a {columns}; CREATE STREAM b {columns}");
    assert_eq!(server.send("POST", "/v1/sql", &[], create).await.status, 200);
    let fields = [("content-type", "text/csv")];
    let csv = concat!(
        "zip,n,d,up,ts,l,m,j\n",
        "01234,5,0.5,true,2026-01-01T00:00:00Z,\"[1,2]\",\"{\"\"k\"\":\"\"v, w\"\"}\",\"{\"\"x\"\":[1]}\"\n",
        "12345,\"6\",NaN,false,,,,\"\"\"text\"\"\"\n\"\",,,,,,,7\n",
    );
    let told = server.send("POST", "/v1/streams/a/events", &fields, csv).await.json().await;
    assert_eq!((&told["accepted"], &told["rejected"]), (&json!(3), &json!(0)), "{told}");
    let rows = async |stream: &str, form: &str, what: &str| {
        let text = format!("SELECT {what} FROM {stream} ORDER BY _offset");
        let reply = server.send("POST", "/v1/sql", &[("accept", form)], text).await;
        assert_eq!(reply.status, 200);
        reply.text().await
    };
    let answer = rows("a", "text/csv", "*").await;
    let told = server.send("POST", "/v1/streams/b/events", &fields, answer).await.json().await;
    assert_eq!((&told["accepted"], &told["rejected"]), (&json!(3), &json!(0)), "{told}");
    let what = "zip, n, d, up, ts, l, m, j";
    let (sent, back) =
        (rows("a", "application/x-ndjson", what).await, rows("b", "application/x-ndjson", what).await);
    assert_eq!(sent, back);
    assert!(sent.starts_with("{\"zip\":\"01234\",\"n\":5,\"d\":0.5,\"up\":true"), "{sent}");
    assert!(sent.lines().nth(1).is_some_and(|row| row.starts_with("{\"zip\":\"12345\",\"n\":6")), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_documents_become_events_each_for_itself() {
    let server = Running::start().await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(a, MAX, TIME)").await;
    let body = concat!(
        "{\"index\":{\"_index\":\"a\",\"_id\":\"k\"}}\n{\"n\":1}\n",
        "{\"create\":{}}\n{\"n\":2}\n",
        "{\"index\":{\"_index\":\"a\"}}\n{\"n\":\n",
        "{\"delete\":{\"_index\":\"a\",\"_id\":\"k\"}}\n",
        "{\"index\":{\"_index\":\"a\"}}\n{\"n\":3}\n",
    );
    let reply = server.send("PUT", "/b/_bulk", &[("content-type", "application/x-ndjson")], body).await;
    assert_eq!((reply.status, reply.field("x-elastic-product")), (200, "Elasticsearch"));
    let told = reply.json().await;
    assert_eq!(told["errors"], json!(true));
    let statuses: Vec<_> = told["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let (action, item) = item.as_object().unwrap().iter().next().unwrap();
            format!("{action} {} {} {}", item["_index"], item["_id"], item["status"])
        })
        .collect();
    assert_eq!(
        statuses,
        [
            "index \"a\" \"k\" 201",
            "create \"b\" \"0\" 201",
            "index \"a\" null 400",
            "delete \"a\" \"k\" 400",
            "index \"a\" \"1\" 201",
        ]
    );
    assert_eq!(results.records(2).await, [json!({"n": 1}), json!({"n": 3})]);

    let reply = server.send("POST", "/_bulk", &[], "{\"index\":{}}\n{}\n").await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().await["error"]["type"], "illegal_argument_exception");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_records_become_events() {
    let server = Running::start().await;
    let mut results = server.ask("application/x-ndjson", "SELECT * FROM STREAM(app, MAX, TIME)").await;
    let body = json!({"resourceLogs": [{"resource": {"attributes": [
        {"key": "service.name", "value": {"stringValue": "shop"}}
    ]}, "scopeLogs": [{"logRecords": [{"timeUnixNano": "1000000000", "body": {"stringValue": "hi"}}]}]}]});
    let fields = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/logs?stream=app", &fields, body.to_string()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json().await, json!({"partialSuccess": {}}));
    // resource_logs { scope_logs { log_records { severity_text: "WARN" } } }
    let bytes: &[u8] = b"\x0a\x0a\x12\x08\x12\x06\x1a\x04WARN";
    let fields = [("content-type", "application/x-protobuf")];
    let reply = server.send("POST", "/v1/logs?stream=app", &fields, bytes).await;
    assert_eq!((reply.status, reply.field("content-type")), (200, "application/x-protobuf"));
    assert_eq!(reply.text().await, "");
    assert_eq!(
        results.records(2).await,
        [
            json!({"time": "1970-01-01T00:00:01.000Z", "body": "hi", "resource": {"service.name": "shop"}}),
            json!({"severity_text": "WARN"}),
        ]
    );
    // As exporters pack it.
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, bytes).unwrap();
    let packed = packed.finish().unwrap();
    let packed_fields = [fields[0], ("content-encoding", "deflate")];
    let reply = server.send("POST", "/v1/logs?stream=app", &packed_fields, packed).await;
    assert_eq!(reply.status, 200);
    assert_eq!(results.records(1).await, [json!({"severity_text": "WARN"})]);
    let reply = server.send("POST", "/v1/logs", &fields, "\x0b").await;
    assert_eq!((reply.status, reply.field("content-type")), (400, "application/x-protobuf"));
    // Status { code: 3, message: "…" }
    let said = "the body is not an ExportLogsServiceRequest";
    assert_eq!(reply.text().await, format!("\x08\x03\x12{}{said}", char::from(said.len() as u8)));
    let body = json!({"resourceLogs": [{"resource": {"attributes": [{"key": "a", "value": 5}]}}]});
    let fields = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/logs", &fields, body.to_string()).await;
    assert_eq!(reply.status, 400);
    let told = reply.json().await;
    assert_eq!(told["code"], 3);
    let said = told["message"].as_str().unwrap();
    assert!(said.starts_with("`resourceLogs[0].resource.attributes[0].value` is not an object. "), "{said}");
    let reply = server.send("POST", "/v1/logs", &[], "{}").await;
    assert_eq!(reply.status, 415);
}
