//! Tests the metrics, pulled and pushed.

use std::collections::BTreeMap;

use serde_json::Value;
use swiftwater_server::OtlpConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::client::{Running, soon};

/// A page as series and their numbers; every series must have a HELP and a TYPE before it.
fn parse(page: &str) -> BTreeMap<String, f64> {
    let mut types = BTreeMap::new();
    let mut series = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.split_once(' ').is_some_and(|(_, help)| help.ends_with('.')), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
        } else {
            let (name, number) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            let histogram =
                ["_bucket", "_sum", "_count"].iter().find_map(|suffix| family.strip_suffix(suffix));
            let is_histogram = |name: &str| types.get(name).is_some_and(|kind| kind == "histogram");
            let known = types.contains_key(family) || histogram.is_some_and(is_histogram);
            assert!(known, "{line}");
            assert!(series.insert(name.to_owned(), number.parse().unwrap()).is_none(), "{line}");
        }
    }
    series
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_tells_what_happened() {
    let server = Running::start().await;
    let mut results = server.ask("*/*", "SELECT * FROM STREAM(s, MAX, TIME)").await;
    server.ingest("s", "{\"n\": 1}\n{\"n\": 2}\nnot an event\n").await;
    assert_eq!(results.records(2).await.len(), 2);
    server.get("/nothing").await;
    let reply = server.get("/metrics").await;
    assert_eq!(reply.field("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let page = reply.text().await;
    let series = parse(&page);
    let number = |name: &str| *series.get(name).unwrap_or_else(|| panic!("{name} is not in {page}"));
    assert_eq!(number("swiftwater_stream_events_total{stream=\"s\"}"), 2.0);
    assert_eq!(number("swiftwater_stream_rejected_total{stream=\"s\"}"), 1.0);
    assert_eq!(number("swiftwater_queries"), 1.0);
    let route = "route=\"/v1/streams/{stream}/events\"";
    assert_eq!(
        number(&format!("swiftwater_http_requests_total{{{route},method=\"POST\",status=\"200\"}}")),
        1.0
    );
    assert_eq!(number(&format!("swiftwater_http_request_seconds_count{{{route}}}")), 1.0);
    assert_eq!(number("swiftwater_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"}"), 1.0);
    for name in [
        "swiftwater_shard_busy_seconds_total{shard=\"1\",stage=\"decode\"}",
        "swiftwater_read_to_match_seconds_bucket{le=\"+Inf\"}",
        "swiftwater_memory_bytes{owner=\"state\"}",
        "swiftwater_memory_bytes_max{owner=\"pending\"}",
        "swiftwater_stream_lag_seconds{stream=\"s\"}",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
    ] {
        number(name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_tells_what_jobs_did() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::storing(directory.path(), |_| {}).await;
    let ask = async |text: &str| server.send("POST", "/v1/sql", &[], text.to_owned()).await.status;
    for text in [
        "CREATE TABLE t (a BIGINT)",
        "CREATE JOB good SCHEDULE '@yearly' AS INSERT INTO t VALUES (1), (2)",
        "CREATE JOB bad SCHEDULE '@yearly' AS SELECT 1 / a FROM (VALUES (0)) AS z(a)",
        "RUN JOB good",
        "RUN JOB good",
    ] {
        assert_eq!(ask(text).await, 200, "{text}");
    }
    assert_eq!(ask("RUN JOB bad").await, 400);
    let page = server.get("/metrics").await.text().await;
    let series = parse(&page);
    let number = |name: &str, job: &str| {
        let name = format!("swiftwater_job_{name}{{job=\"{job}\"}}");
        *series.get(&name).unwrap_or_else(|| panic!("{name} is not in {page}"))
    };
    assert_eq!((number("runs_total", "good"), number("rows_total", "good")), (2.0, 4.0));
    assert_eq!((number("failures_total", "good"), number("retries_total", "good")), (0.0, 0.0));
    assert!(number("seconds_total", "good") < 60.0 && number("running", "good") == 0.0);
    assert_eq!((number("runs_total", "bad"), number("failures_total", "bad")), (0.0, 1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_past_the_limit_are_told_as_one() {
    let server = Running::with(Default::default(), |config| config.metrics_streams_max = 2).await;
    for (stream, count) in [("a", 3), ("b", 1), ("c", 2), ("d", 1)] {
        server.ingest(stream, "{}\n".repeat(count)).await;
    }
    let series = parse(&server.get("/metrics").await.text().await);
    let events =
        |stream: &str| series.get(&format!("swiftwater_stream_events_total{{stream=\"{stream}\"}}")).copied();
    assert_eq!((events("a"), events("c"), events("(others)")), (Some(3.0), Some(2.0), Some(2.0)));
    assert_eq!(events("b"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_tells_of_the_log_and_of_tables() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |config| config.metrics_streams_max = 1).await;
    for stream in ["t", "u", "v"] {
        let create = format!("CREATE STREAM {stream} (a LONG)");
        assert_eq!(server.send("POST", "/v1/sql", &[], create).await.status, 200);
    }
    for stream in ["t", "t", "u", "v"] {
        assert_eq!(server.ingest(stream, "{\"a\":1}\n{\"a\":2}\n").await.status, 200);
    }
    let page = server.get("/metrics").await.text().await;
    let series = parse(&page);
    let number = |name: &str| *series.get(name).unwrap_or_else(|| panic!("{name} is not in {page}"));
    // Each was acknowledged from disk, one after another.
    assert!(number("swiftwater_log_syncs_total") >= 4.0);
    assert!(number("swiftwater_log_bytes_total") > 4.0 * 16.0);
    assert!(number("swiftwater_log_sync_seconds_total") > 0.0);
    assert_eq!(number("swiftwater_log_queued_bytes"), 0.0);
    assert!(number("swiftwater_log_file_bytes") >= number("swiftwater_log_bytes_total"));
    for (stream, most) in [("t", 4.0), ("(others)", 4.0)] {
        let of = |name: &str| number(&format!("swiftwater_table_{name}{{stream=\"{stream}\"}}"));
        // A slow machine may have committed them by now.
        let lag = of("lag_events");
        assert!(if of("commits_total") == 0.0 { lag == most } else { lag < most }, "{page}");
        assert_eq!(of("failing"), 0.0);
        assert_eq!(of("files") > 0.0, of("file_bytes") > 0.0);
        assert!(of("waiting_bytes") > 0.0 || lag < most);
    }
    assert!(!series.contains_key("swiftwater_table_files{stream=\"u\"}"));
}

/// Takes one request of a known length, and answers it.
async fn take(listener: &TcpListener, status: &str) -> (String, Value) {
    let (mut stream, _): (TcpStream, _) = soon(listener.accept()).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = soon(stream.read(&mut chunk)).await.unwrap();
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            return (head.to_owned(), serde_json::from_str(body).unwrap());
        }
        assert!(read > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_pushed_again_and_again_and_at_the_end() {
    let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/otlp", collector.local_addr().unwrap());
    let mut server = Running::with(Default::default(), |config| {
        let headers = vec![("x-key".to_owned(), "secret".to_owned())];
        config.otlp = Some(OtlpConfig { interval_ms: 100, headers, ..OtlpConfig::new(endpoint) });
    })
    .await;
    server.ingest("s", "{}\n{}\n").await;
    take(&collector, "503 Service Unavailable").await;
    let (head, body) = take(&collector, "200 OK").await;
    assert!(head.starts_with("POST /otlp/v1/metrics HTTP/1.1"), "{head}");
    assert!(head.contains("x-key: secret") && head.contains("content-type: application/json"), "{head}");
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let find = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let events = &find("swiftwater_stream_events_total")["sum"]["dataPoints"][0];
    assert_eq!(events["asInt"], "2");
    assert_eq!(events["attributes"][0]["value"]["stringValue"], "s");

    // The same table: what is pushed is what can be pulled.
    let page = server.get("/metrics").await.text().await;
    for metric in metrics {
        assert!(page.contains(&format!("# TYPE {} ", metric["name"].as_str().unwrap())), "{metric}");
    }
    server.begin_stop();
    take(&collector, "200 OK").await;
    drop(collector);
    server.stopped().await;
}
