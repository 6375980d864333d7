//! Tests `/v1/views`: reads by key, by range, by many keys at once.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::client::Running;

async fn start(dir: &std::path::Path) -> Running {
    let server = Running::storing(dir, |_| {}).await;
    for text in [
        "CREATE STREAM flights (origin STRING NOT NULL, dest STRING NOT NULL, delay LONG, seat JSON)",
        "CREATE MATERIALIZED VIEW routes AS SELECT origin, dest, COUNT(*) AS n, SUM(delay) AS delay \
         FROM STREAM(flights) GROUP BY origin, dest",
        "CREATE MATERIALIZED VIEW seats AS SELECT seat, COUNT(*) AS n FROM STREAM(flights) GROUP BY seat",
        "CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS n FROM STREAM(flights)",
    ] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    server
}

const EVENTS: &str = r#"{"origin":"JFK","dest":"LAX","delay":5,"seat":12}
{"origin":"JFK","dest":"LAX","delay":-2,"seat":"12"}
{"origin":"JFK","dest":"São Paulo/GRU","delay":1,"seat":true}
{"origin":"EWR","dest":"LAX","seat":null}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_row_comes_by_its_key_with_what_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    assert_eq!(server.ingest("flights", EVENTS).await.status, 200);
    let reply = server.get("/v1/views/routes/keys/JFK/LAX?consistent=true").await;
    assert_eq!((reply.status, reply.field("swiftwater-position")), (200, "4"));
    assert_eq!((reply.field("swiftwater-age-ms"), reply.field("cache-control")), ("0", "no-cache"));
    let tag = reply.field("etag").to_owned();
    assert_eq!(reply.text().await, "{\"origin\":\"JFK\",\"dest\":\"LAX\",\"n\":2,\"delay\":3}\n");
    for (field, status) in [(tag.clone(), 304), (format!("W/{tag}, \"x\""), 304), ("\"x\"".to_owned(), 200)] {
        let reply =
            server.send("GET", "/v1/views/routes/keys/JFK/LAX", &[("if-none-match", &field)], "").await;
        assert_eq!(reply.status, status, "{field}");
    }
    for (path, expected) in [
        (
            "routes/keys/JFK/S%C3%A3o%20Paulo%2FGRU",
            json!({"origin": "JFK", "dest": "São Paulo/GRU", "n": 1, "delay": 1}),
        ),
        ("routes/keys/EWR/LAX", json!({"origin": "EWR", "dest": "LAX", "n": 1, "delay": null})),
        ("seats/keys/12", json!({"seat": 12, "n": 1})),
        ("seats/keys/%2212%22", json!({"seat": "12", "n": 1})),
        ("seats/keys/true", json!({"seat": true, "n": 1})),
        ("seats/keys/null", json!({"seat": null, "n": 1})),
    ] {
        assert_eq!(server.get(&format!("/v1/views/{path}")).await.json().await, expected, "{path}");
    }
    // The next change gives it another tag.
    assert_eq!(server.ingest("flights", r#"{"origin":"JFK","dest":"LAX"}"#).await.status, 200);
    let fields = [("if-none-match", &*tag)];
    let reply = server.send("GET", "/v1/views/routes/keys/JFK/LAX?consistent=5", &fields, "").await;
    assert_eq!((reply.status, reply.json().await["n"].clone()), (200, json!(3)));
    // All keys are in memory, and so it is known there that this one is not.
    assert_eq!(server.get("/v1/views/routes/keys/JFK/nowhere").await.status, 404);
    let metrics = server.get("/metrics").await.text().await;
    let reads: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("swiftwater_views_reads_")).collect();
    assert_eq!(reads, ["swiftwater_views_reads_held_total 12", "swiftwater_views_reads_stored_total 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_pages_and_many_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    assert_eq!(server.ingest("flights", EVENTS).await.status, 200);
    let page = server.get("/v1/views/routes?limit=2&consistent=true").await.json().await;
    let firsts: Vec<&Value> = page["rows"].as_array().unwrap().iter().map(|row| &row["dest"]).collect();
    assert_eq!((firsts, &page["position"]), (vec![&json!("LAX"), &json!("LAX")], &json!(4)));
    let after = page["next"].as_str().unwrap();
    let page = server.get(&format!("/v1/views/routes?limit=2&after={after}")).await.json().await;
    assert_eq!((page["rows"].as_array().unwrap().len(), &page["next"]), (1, &Value::Null));
    let accept = [("accept", "application/x-ndjson")];
    let reply = server.send("GET", "/v1/views/routes?prefix=JFK&limit=1", &accept, "").await;
    assert_eq!(reply.field("content-type"), "application/x-ndjson");
    assert!(!reply.field("swiftwater-next").is_empty());
    assert_eq!(reply.text().await, "{\"origin\":\"JFK\",\"dest\":\"LAX\",\"n\":2,\"delay\":3}\n");
    let from = server.get("/v1/views/routes?from=%5B%22JFK%22,%22M%22%5D&to=K").await.json().await;
    assert_eq!(from["rows"][0]["dest"], "São Paulo/GRU");
    let total = server.get("/v1/views/total").await.json().await;
    assert_eq!(total["rows"], json!([{"n": 4}]));
    let keys = r#"[["EWR","LAX"],["nix","LAX"],["JFK","LAX"]]"#;
    let many = server.send("POST", "/v1/views/routes/keys", &[], keys).await.json().await;
    assert_eq!(many["rows"][1], Value::Null);
    assert_eq!((&many["rows"][0]["n"], &many["rows"][2]["n"]), (&json!(1), &json!(2)));
    let seats = server.send("POST", "/v1/views/seats/keys", &[], "[12, \"12\", null]").await.json().await;
    let seats: Vec<&Value> = seats["rows"].as_array().unwrap().iter().map(|row| &row["seat"]).collect();
    assert_eq!(seats, [&json!(12), &json!("12"), &Value::Null]);
    let views = server.get("/v1/views").await.json().await;
    let told: Vec<(&Value, &Value, &Value)> = views["views"]
        .as_array()
        .unwrap()
        .iter()
        .map(|view| (&view["name"], &view["position"], &view["counts"]["matched"]))
        .collect();
    let four = json!(4);
    let expected = [json!("routes"), json!("seats"), json!("total")];
    assert_eq!(told, expected.iter().map(|name| (name, &four, &four)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_written_as_rows_show_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for text in [
        "CREATE STREAM measures (x DOUBLE, seen TIMESTAMP)",
        "CREATE MATERIALIZED VIEW by_x AS SELECT x, COUNT(*) AS n FROM STREAM(measures) GROUP BY x",
        "CREATE MATERIALIZED VIEW by_time AS SELECT seen, COUNT(*) AS n FROM STREAM(measures) GROUP BY seen",
    ] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    let flights = ["[1,\"a/b\"]", "{\"row\":12}", "\"12\"", "13"]
        .map(|seat| format!("{{\"origin\":\"JFK\",\"dest\":\"LAX\",\"seat\":{seat}}}"));
    assert_eq!(server.ingest("flights", flights.join("\n")).await.status, 200);
    let measures = r#"{"x":"NaN","seen":"2026-01-01T00:00:00Z"}
{"x":"-Infinity","seen":"2026-01-02T00:00:00Z"}
{"x":0.1,"seen":"2026-01-03T00:00:00Z"}"#;
    assert_eq!(server.ingest("measures", measures).await.status, 200);
    for (path, expected) in [
        ("seats/keys/%5B1,%22a%2Fb%22%5D", json!({"seat": [1, "a/b"], "n": 1})),
        ("seats/keys/%7B%22row%22:12.0%7D", json!({"seat": {"row": 12}, "n": 1})),
        ("by_x/keys/NaN", json!({"x": "NaN", "n": 1})),
        ("by_x/keys/-Infinity", json!({"x": "-Infinity", "n": 1})),
        ("by_x/keys/0.1", json!({"x": 0.1, "n": 1})),
    ] {
        let reply = server.get(&format!("/v1/views/{path}?consistent=true")).await;
        assert_eq!(reply.json().await, expected, "{path}");
    }
    let keys = r#"[[[1,"a/b"]], {"row":12}, [{"row":13}], "12"]"#;
    let many = server.send("POST", "/v1/views/seats/keys", &[], keys).await.json().await;
    let found: Vec<&Value> = many["rows"].as_array().unwrap().iter().map(|row| &row["seat"]).collect();
    assert_eq!(found, [&json!([1, "a/b"]), &json!({"row": 12}), &Value::Null, &json!("12")]);
    let many = server.send("POST", "/v1/views/by_x/keys", &[], "[\"NaN\", 0.1, 0.2]").await.json().await;
    let found: Vec<bool> = many["rows"].as_array().unwrap().iter().map(Value::is_object).collect();
    assert_eq!(found, [true, true, false]);
    // A time as text or as JSON; and a text that looks like a number.
    for (range, count) in [
        ("by_time?from=2026-01-02T00:00:00Z", 2),
        ("by_time?from=%222026-01-02T00:00:00Z%22", 2),
        ("by_time?to=%5B%222026-01-02T00:00:00Z%22%5D", 1),
        ("by_time?prefix=2026-01-03T00:00:00Z", 1),
        ("by_x?prefix=NaN", 1),
        ("seats?prefix=12", 1),
        ("seats?prefix=%7B%22row%22:12%7D", 1),
        ("seats?prefix=%5B%5B1,%22a/b%22%5D%5D", 1),
    ] {
        let page = server.get(&format!("/v1/views/{range}")).await.json().await;
        assert_eq!(page["rows"].as_array().unwrap().len(), count, "{range}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let (bad, word) = (StatusCode::BAD_REQUEST, "parameter-invalid");
    for (path, status, word) in [
        ("nix/keys/1", StatusCode::NOT_FOUND, "not-found"),
        ("seats/keys/1", StatusCode::NOT_FOUND, "not-found"),
        ("nix", StatusCode::NOT_FOUND, "not-found"),
        ("seats/keys/1?consistent=soon", bad, word),
        ("seats?limit=0", bad, word),
        ("seats?limit=10001", bad, word),
        ("seats?after=xyz", bad, word),
        ("seats?nix=1", bad, word),
        ("seats/keys/%FF", bad, "request-invalid"),
        ("seats/keys/1/2", bad, "invalid"),
        ("seats?from=%5B1,2%5D", bad, "invalid"),
    ] {
        let reply = server.get(&format!("/v1/views/{path}")).await;
        if word == "invalid" {
            assert_eq!(reply.status, status, "{path}");
        } else {
            reply.problem(status, word).await;
        }
    }
    for body in ["{}", "[[1,2]]", "[1"] {
        let reply = server.send("POST", "/v1/views/seats/keys", &[], body).await;
        assert_eq!(reply.status, bad, "{body}");
    }
    let without = Running::start().await;
    without.get("/v1/views/seats/keys/1").await.problem(StatusCode::CONFLICT, "conflict").await;
    assert_eq!(without.get("/v1/views").await.json().await, json!({"views": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_come_as_they_are_made_and_go_on_where_a_feed_broke() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let mut feed = server.get("/v1/views/total/changes").await;
    assert_eq!((feed.status, feed.field("content-type")), (200, "text/event-stream"));
    let next = async |feed: &mut crate::client::Reply| {
        let mut lines = Vec::new();
        loop {
            let line = feed.line().await.unwrap();
            if line.is_empty() {
                return lines.join("\n");
            }
            lines.push(line);
        }
    };
    assert_eq!(next(&mut feed).await, "id: 0\nevent: position\ndata: {\"position\":0}");
    assert_eq!(server.ingest("flights", EVENTS).await.status, 200);
    let change = "id: 4\nevent: change\ndata: {\"key\":[],\"row\":{\"n\":4},\"position\":4}";
    assert_eq!(next(&mut feed).await, change);
    drop(feed);
    assert_eq!(server.ingest("flights", "{\"origin\":\"EWR\",\"dest\":\"São\"}").await.status, 200);
    server.get("/v1/views/routes?consistent=true").await;
    let fields = [("accept", "application/x-ndjson"), ("last-event-id", "4")];
    let mut feed = server.send("GET", "/v1/views/routes/changes?from=0", &fields, "").await;
    assert_eq!(feed.line().await.unwrap(), "{\"position\":4}");
    assert_eq!(
        feed.line().await.unwrap(),
        "{\"key\":[\"EWR\",\"São\"],\"row\":{\"origin\":\"EWR\",\"dest\":\"São\",\"n\":1,\"delay\":null},\"position\":5}"
    );
    let odd = server.get("/v1/views/routes/changes?from=-1").await;
    odd.problem(StatusCode::BAD_REQUEST, "parameter-invalid").await;
    assert_eq!(server.get("/v1/views/routes/changes?from=5").await.status, 200);
    for (path, last) in [("routes/changes?from=6", ""), ("routes/changes?from=0", "6")] {
        let fields = [("last-event-id", last)];
        let fields = if last.is_empty() { &[][..] } else { &fields[..] };
        let ahead = server.send("GET", &format!("/v1/views/{path}"), fields, "").await;
        let problem = ahead.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
        assert_eq!(problem["detail"], "there is no position 6 in stream `flights`: its log ends at 5");
        assert!(problem["hint"].as_str().unwrap().contains("or 0 for all rows first"), "{problem}");
    }
    server.get("/v1/views/none/changes").await.problem(StatusCode::NOT_FOUND, "not-found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_says_nothing_of_rows_that_did_not_change() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let create = "CREATE MATERIALIZED VIEW firsts AS SELECT origin, FIRST(delay) AS d FROM STREAM(flights) GROUP BY origin";
    assert_eq!(server.send("POST", "/v1/sql", &[], create).await.status, 200);
    let fields = [("accept", "application/x-ndjson")];
    let mut feed = server.send("GET", "/v1/views/firsts/changes", &fields, "").await;
    assert_eq!(feed.line().await.unwrap(), "{\"position\":0}");
    for (origin, delay) in [("EWR", 5), ("EWR", 6), ("EWR", 7), ("JFK", 8)] {
        let event = format!(r#"{{"origin":"{origin}","dest":"LAX","delay":{delay}}}"#);
        assert_eq!(server.ingest("flights", event).await.status, 200);
        server.get("/v1/views/firsts?consistent=true").await;
    }
    assert_eq!(feed.line().await.unwrap(), r#"{"key":["EWR"],"row":{"origin":"EWR","d":5},"position":1}"#);
    assert_eq!(feed.line().await.unwrap(), r#"{"key":["JFK"],"row":{"origin":"JFK","d":8},"position":4}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_of_a_view_is_read_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for text in [
        "CREATE MATERIALIZED VIEW busy AS SELECT n, COUNT(*) AS routes, SUM(delay) AS delay FROM STREAM(routes) GROUP BY n",
        "CREATE MATERIALIZED VIEW all_of_them AS SELECT SUM(routes) AS routes FROM STREAM(busy)",
        "CREATE ENDPOINT GET '/busy/{n}' (n LONG) AS SELECT routes FROM busy WHERE n = $n",
    ] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    assert_eq!(server.ingest("flights", EVENTS).await.status, 200);
    let reply = server.get("/v1/views/busy/keys/1?consistent=true").await;
    assert_eq!((reply.status, reply.field("swiftwater-position")), (200, "4"));
    let tag = reply.field("etag").to_owned();
    assert_eq!(reply.text().await, "{\"n\":1,\"routes\":2,\"delay\":1}\n");
    let fields = [("if-none-match", &*tag)];
    assert_eq!(server.send("GET", "/v1/views/busy/keys/1", &fields, "").await.status, 304);
    // A row goes from one group to another.
    assert_eq!(server.ingest("flights", r#"{"origin":"EWR","dest":"LAX","delay":4}"#).await.status, 200);
    let reply = server.send("GET", "/v1/views/busy/keys/1?consistent=5", &fields, "").await;
    assert_eq!((reply.status, reply.text().await), (200, "{\"n\":1,\"routes\":1,\"delay\":1}\n".to_owned()));
    let page = server.get("/v1/views/busy?from=%5B2%5D&consistent=true").await.json().await;
    assert_eq!((&page["rows"], &page["position"]), (&json!([{"n": 2, "routes": 2, "delay": 7}]), &json!(5)));
    let all = server.get("/v1/views/all_of_them?consistent=true").await.json().await;
    assert_eq!(all["rows"], json!([{"routes": 3}]));
    assert_eq!(server.get("/busy/2?consistent=true").await.json().await, json!({"routes": 2}));
    assert_eq!(server.get("/v1/views/busy/keys/7").await.status, 404);
    let views = server.get("/v1/views").await.json().await;
    let told: Vec<(&Value, &Value, &Value)> = views["views"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|view| view["of_view"] != Value::Null)
        .map(|view| (&view["name"], &view["of_view"], &view["position"]))
        .collect();
    let five = json!(5);
    let (all_of_them, busy, routes) = (json!("all_of_them"), json!("busy"), json!("routes"));
    assert_eq!(told, [(&all_of_them, &busy, &five), (&busy, &routes, &five)]);
    let drop = server.send("POST", "/v1/sql", &[], "DROP VIEW routes").await;
    assert_eq!(drop.status, 409);
    let refused = "CREATE MATERIALIZED VIEW most AS SELECT MAX(n) AS n FROM STREAM(routes)";
    let reply = server.send("POST", "/v1/sql", &[], refused).await;
    assert_eq!(reply.status, 400);
    let why = reply.text().await;
    assert!(why.contains("COUNT, SUM or AVG, not MAX"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_joined_with_rows_of_views_and_tables() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let city = "CREATE TABLE airports AS SELECT * FROM (VALUES ('JFK', 'New York'), ('LAX', 'Los Angeles')) AS t (faa, city)";
    assert_eq!(server.send("POST", "/v1/sql", &[], city).await.status, 200);
    assert_eq!(server.ingest("flights", EVENTS).await.status, 200);
    server.get("/v1/views/routes?consistent=true").await;
    let query = "SELECT f.dest, a.city, r.n FROM STREAM(live) AS f LEFT JOIN airports AS a ON a.faa = f.dest \
         JOIN routes AS r ON r.origin = f.origin AND r.dest = f.dest LIMIT 2";
    let valid = server.send("POST", "/v1/queries/validate", &[], query).await;
    let columns = json!([
        {"name": "dest", "role": "other"},
        {"name": "city", "role": "other", "type": "STRING"},
        {"name": "n", "role": "other", "type": "LONG"},
    ]);
    assert_eq!((valid.status, valid.json().await["columns"].clone()), (200, columns));
    let mut results = server.ask("*/*", query).await;
    let events = "{\"origin\":\"EWR\",\"dest\":\"ORD\"}\n{\"origin\":\"EWR\",\"dest\":\"LAX\"}\n{\"origin\":\"JFK\",\"dest\":\"São Paulo/GRU\"}";
    assert_eq!(server.ingest("live", events).await.status, 200);
    let mut records = Vec::new();
    while let Some(emit) = results.emit().await {
        records.extend(emit["records"].as_array().unwrap().clone());
    }
    let expected = [
        json!({"dest": "LAX", "city": "Los Angeles", "n": 1}),
        json!({"dest": "São Paulo/GRU", "city": null, "n": 1}),
    ];
    assert_eq!(records, expected);
    for (query, line, column, told) in [
        (
            "SELECT 1 FROM STREAM(flights)\nJOIN route r ON r.dest = dest",
            2,
            6,
            "there is no view or table `route`",
        ),
        (
            "SELECT 1 FROM STREAM(flights)\nJOIN routes r ON r.dest = 'x'",
            2,
            18,
            "ON lacks `origin`, which is part of the key of view `routes`",
        ),
    ] {
        let reply = server.send("POST", "/v1/queries/validate", &[], query).await;
        assert_eq!(reply.status, 400, "{query}");
        let problem = reply.json().await;
        let place = (&problem["line"], &problem["column"], &problem["detail"]);
        assert_eq!(place, (&json!(line), &json!(column), &json!(told)), "{problem}");
    }
}
