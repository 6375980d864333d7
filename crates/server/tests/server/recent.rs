//! Tests the samples of newest events, their paths, and the history of metrics.

use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;

use crate::client::{Running, soon};

async fn ok(server: &Running, path: &str) -> Value {
    let reply = server.get(path).await;
    assert_eq!(reply.status, 200, "{path}");
    reply.json().await
}

async fn problem(server: &Running, path: &str, status: u16) -> Value {
    let reply = server.get(path).await;
    assert_eq!(reply.status, status, "{path}");
    reply.json().await
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_events_are_shown_as_they_arrived() {
    let server = Running::start().await;
    server.ingest("s", "{\"n\": 1.50, \"n\":  2}\n{\"n\":\"\\u00e9\"}\n").await;
    server.ingest("s", "{\"n\":3}\n").await;
    let reply = server.get("/v1/streams/s/recent").await;
    assert_eq!(reply.field("content-type"), "application/json");
    let text = reply.text().await;
    // Fields, spaces and digits are those of the sender.
    assert!(text.contains("\"event\":{\"n\": 1.50, \"n\":  2}}"), "{text}");
    let recent = ok(&server, "/v1/streams/s/recent?limit=2").await;
    let events: Vec<&Value> =
        recent["events"].as_array().unwrap().iter().map(|event| &event["event"]).collect();
    assert_eq!(events, [&json!({"n": 3}), &json!({"n": "é"})]);
    assert_eq!(recent["of"], 3);
    let (since, at) = (recent["since"].as_str().unwrap(), recent["events"][1]["at"].as_str().unwrap());
    // The oldest event is of the same request as the second.
    assert_eq!(since, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn fast_stream_shows_a_sample_and_how_many_events_there_were() {
    let server = Running::start().await;
    let lines: String = (0..10_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    assert_eq!(server.ingest("s", lines).await.status, 200);
    let recent = ok(&server, "/v1/streams/s/recent?limit=500").await;
    let numbers: Vec<i64> = recent["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"]["n"].as_i64().unwrap())
        .collect();
    assert!((50..500).contains(&numbers.len()), "{}", numbers.len());
    assert!(numbers.is_sorted_by(|a, b| a > b), "the newest are first");
    assert_eq!(recent["of"].as_i64().unwrap(), 10_000 - numbers.last().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_of_the_newest_events_are_described() {
    let server = Running::start().await;
    let events = concat!(
        "{\"carrier\":\"UA\",\"delay\":5,\"from\":{\"code\":\"SFO\"},\"tags\":[\"a\"]}\n",
        "{\"carrier\":\"AA\",\"delay\":-2.5,\"from\":{\"code\":null}}\n",
        "{\"carrier\":\"UA\",\"delay\":\"late\"}\n",
    );
    server.ingest("flights", events).await;
    let found = ok(&server, "/v1/streams/flights/paths").await;
    assert_eq!((&found["events"], &found["more"]), (&json!(3), &json!(false)));
    assert!(found["since"].is_string());
    let names: Vec<&str> =
        found["paths"].as_array().unwrap().iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["carrier", "delay", "\"from\"", "\"from\".code", "tags", "tags[0]"]);
    let expected = json!({
        "path": "carrier",
        "types": {"string": 1.0},
        "null": 0.0,
        "missing": 0.0,
        "distinct": 2,
        "least": "AA",
        "greatest": "UA",
        "top": [{"value": "UA", "share": 2.0 / 3.0}, {"value": "AA", "share": 1.0 / 3.0}],
        "example": "UA",
    });
    assert_eq!(found["paths"][0], expected);
    let delay = &found["paths"][1];
    assert_eq!((&delay["least"], &delay["greatest"]), (&json!(-2.5), &json!(5)));
    assert_eq!(found["paths"][4]["example"], "[\"a\"]");
    // Each of them can be asked for.
    for name in names {
        let text = format!("SELECT {name} AS v FROM STREAM(flights)");
        let reply = server.send("POST", "/v1/queries/validate", &[], text).await;
        assert_eq!(reply.status, 200, "{name}");
    }
    let found = ok(&server, "/v1/streams/flights/paths?limit=1").await;
    assert_eq!((found["paths"].as_array().unwrap().len(), &found["more"]), (1, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_listed_a_page_at_a_time() {
    let server = Running::start().await;
    for n in 0..7 {
        server.ingest(&format!("s{n}"), "{}\n".repeat(n + 1)).await;
    }
    server.ingest("other", "{}\n").await;
    let names = |page: &Value| {
        let streams = page["streams"].as_array().unwrap().iter();
        streams.map(|stream| stream["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let all = ok(&server, "/v1/streams").await;
    assert_eq!((names(&all).as_str(), all.get("next")), ("other s0 s1 s2 s3 s4 s5 s6", None));
    // Each stream is on one page, whatever the size of a page.
    for limit in 1..9 {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = ok(&server, &format!("/v1/streams?prefix=s&limit={limit}{after}")).await;
            assert!(page["streams"].as_array().unwrap().len() <= limit);
            seen.push(names(&page));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen.join(" "), "s0 s1 s2 s3 s4 s5 s6");
        assert_eq!(seen.len(), 7_usize.div_ceil(limit));
    }
    let most = ok(&server, "/v1/streams?sort=events&limit=3").await;
    assert_eq!((names(&most).as_str(), most.get("next")), ("s6 s5 s4", None));
    let _query = server.ask("application/x-ndjson", "SELECT * FROM STREAM(s3, MAX, TIME)").await;
    assert_eq!(names(&ok(&server, "/v1/streams?sort=queries&limit=1").await), "s3");
    for wrong in ["sort=x", "sort=rate&after=s1", "limit=0", "limit=10001", "after=%20", "order=name"] {
        problem(&server, &format!("/v1/streams?{wrong}"), 400).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_have_limits_and_need_a_stream() {
    let server = Running::start().await;
    server.ingest("s", "{}\n").await;
    for call in ["recent", "paths"] {
        assert!(problem(&server, &format!("/v1/streams/none/{call}"), 404).await["detail"].is_string());
        problem(&server, &format!("/v1/streams/s/{call}?limit=0"), 400).await;
        problem(&server, &format!("/v1/streams/s/{call}?limit=2001"), 400).await;
        problem(&server, &format!("/v1/streams/s/{call}?from=1"), 400).await;
        problem(&server, &format!("/v1/streams/9/{call}"), 400).await;
    }
    problem(&server, "/v1/streams/s/recent?limit=501", 400).await;
    assert_eq!(ok(&server, "/v1/streams/s/paths").await["paths"], json!([]));
    let off = Running::with(EngineConfig { recent_bytes_max: 0, ..EngineConfig::default() }, |_| {}).await;
    off.ingest("s", "{\"a\":1}\n").await;
    let nothing = json!({"events": [], "of": 0, "since": null});
    assert_eq!(ok(&off, "/v1/streams/s/recent").await, nothing);
    let nothing = json!({"events": 0, "since": null, "paths": [], "more": false});
    assert_eq!(ok(&off, "/v1/streams/s/paths").await, nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_stream_has_a_sample_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    let run = async |text: &str| {
        let reply = server.send("POST", "/v1/sql", &[], text.to_owned()).await;
        assert_eq!(reply.status, 200, "{text}");
    };
    run("CREATE STREAM s (a LONG NOT NULL)").await;
    let nothing = json!({"events": [], "of": 0, "since": null});
    assert_eq!(ok(&server, "/v1/streams/s/recent").await, nothing);
    // A refused event is no event of the stream.
    server.ingest("s", "{\"a\":1}\n{\"a\":\"x\"}\n{\"a\":2}\n").await;
    let recent = ok(&server, "/v1/streams/s/recent").await;
    let events: Vec<&Value> =
        recent["events"].as_array().unwrap().iter().map(|event| &event["event"]).collect();
    assert_eq!(events, [&json!({"a": 2}), &json!({"a": 1})]);
    assert_eq!(server.engine.metrics().recent_bytes.0, 2 * (7 + 96));
    run("DROP STREAM s").await;
    assert_eq!(server.engine.metrics().recent_bytes.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_the_last_minutes_are_shown() {
    let server = Running::start().await;
    server.ingest("s", "{}\n{}\n").await;
    let name = "swiftwater_stream_events_total";
    // The next sample is at most a second away.
    let history = soon(async {
        loop {
            let history = ok(&server, &format!("/v1/metrics/history?name={name}")).await;
            if history["families"].as_array().is_some_and(|families| !families.is_empty()) {
                return history;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((&history["interval_ms"], &history["left_out"]), (&json!(1000), &json!(0)));
    assert!(history["now"].as_str() >= history["from"].as_str());
    let [series] = &history["families"].as_array().unwrap()[..] else { panic!("{history}") };
    assert_eq!((&series["name"], &series["type"]), (&json!(name), &json!("counter")));
    assert_eq!(series["labels"], json!({"stream": "s"}));
    let values = series["values"].as_array().unwrap();
    assert_eq!(values.last(), Some(&json!(2)));
    let all = ok(&server, "/v1/metrics/history").await;
    let lengths: Vec<usize> = all["families"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["values"].as_array().unwrap().len())
        .collect();
    assert!(lengths.len() > 30 && lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    let names = |history: &Value| -> Vec<String> {
        let families = history["families"].as_array().unwrap().iter();
        families.map(|series| series["name"].as_str().unwrap().to_owned()).collect()
    };
    let some = ok(&server, "/v1/metrics/history?prefix=process_&name=swiftwater_queries,swiftwater_no").await;
    let some = names(&some);
    assert!(some.contains(&"swiftwater_queries".to_owned()), "{some:?}");
    assert!(some.contains(&"process_start_time_seconds".to_owned()), "{some:?}");
    assert!(some.iter().all(|name| name.starts_with("process_") || name == "swiftwater_queries"), "{some:?}");
    problem(&server, "/v1/metrics/history?names=x", 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_are_not_remembered_are_no_series() {
    let server = Running::with(EngineConfig::default(), |config| config.metrics_history_ms = 0).await;
    let history = ok(&server, "/v1/metrics/history").await;
    assert_eq!((&history["from"], &history["families"]), (&Value::Null, &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_log_and_tables_are_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    let create = "CREATE STREAM t (a LONG)";
    assert_eq!(server.send("POST", "/v1/sql", &[], create).await.status, 200);
    let path = "/v1/metrics/history?name=swiftwater_log_bytes_total,swiftwater_table_lag_events";
    soon(async {
        loop {
            let history = ok(&server, path).await;
            if history["families"].as_array().is_some_and(|families| families.len() == 2) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}
