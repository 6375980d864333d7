//! Other ways in: what other senders speak becomes events.

use serde_json::json;

use crate::client::Running;

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
    assert_eq!(told["errors"][0]["message"], "the text ends within quotes");
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
    assert_eq!(reply.status, 400);
    let body = json!({"resourceLogs": [{"resource": {"attributes": [{"key": "a", "value": 5}]}}]});
    let fields = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/logs", &fields, body.to_string()).await;
    assert_eq!(reply.status, 400);
    let told = reply.json().await;
    assert_eq!(told["detail"], "`resourceLogs[0].resource.attributes[0].value` is no object");
    let reply = server.send("POST", "/v1/logs", &[], "{}").await;
    assert_eq!(reply.status, 415);
}
