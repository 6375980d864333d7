//! Tests endpoints over HTTP: the swipe app, wholly in SQL.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    client::{Reply, Running},
    contract::check_value,
};

const APP: [&str; 9] = [
    "CREATE STREAM swipes (swiper LONG NOT NULL CHECK (swiper BETWEEN 1 AND 50000), \
     swipee LONG NOT NULL CHECK (swipee BETWEEN 1 AND 1000000), direction STRING NOT NULL, \
     comment STRING NOT NULL CHECK (SIZEOF(comment) <= 256))",
    "CREATE MATERIALIZED VIEW stats AS SELECT swiper, COUNT(*) FILTER (WHERE direction = 'right') AS likes, \
     COUNT(*) FILTER (WHERE direction = 'left') AS dislikes FROM STREAM(swipes) GROUP BY swiper",
    "CREATE ENDPOINT POST '/swipe/{leftorright}/' (\
       leftorright STRING CHECK (leftorright IN ('left', 'right')) ELSE 400 'swipe left or right', \
       swiper LONG NOT NULL, swipee LONG NOT NULL, comment STRING NOT NULL) \
     INTO swipes SELECT swiper, swipee, leftorright AS direction, comment WITH (status = 201, errors = message)",
    "CREATE ENDPOINT GET '/stats/{userID}/' (userID LONG CHECK (userID BETWEEN 1 AND 50000) ELSE 404 'user not found') \
     AS SELECT likes AS \"numLlikes\", dislikes AS \"numDislikes\" FROM stats WHERE swiper = $userID \
     ELSE 404 'user not found' WITH (errors = message)",
    "CREATE MATERIALIZED VIEW matches AS SELECT swiper, \
     COLLECT_SET(CAST(swipee AS STRING), 100) FILTER (WHERE direction = 'right') AS liked FROM STREAM(swipes) GROUP BY swiper",
    "CREATE ENDPOINT GET '/matches/{userID}/' (userID LONG CHECK (userID BETWEEN 1 AND 50000) ELSE 404 'user not found') \
     AS SELECT liked AS \"matchList\" FROM matches WHERE swiper = $userID ELSE 404 'user not found' WITH (errors = message)",
    "CREATE ENDPOINT GET '/health' AS SELECT 'up' AS status",
    "CREATE MATERIALIZED VIEW pairs AS SELECT swiper, swipee, COUNT(*) AS n FROM STREAM(swipes) GROUP BY swiper, swipee",
    "CREATE ENDPOINT GET '/pairs/{id}' (id LONG, least LONG QUERY CHECK (least > 0)) \
     AS SELECT CAST(swipee AS STRING) AS swipee FROM pairs WHERE swiper = $id LIMIT 100",
];

async fn start(dir: &Path) -> Running {
    let server = Running::storing(dir, |config| config.event_bytes_max = 4096).await;
    for text in APP {
        let reply = server.send("POST", "/v1/sql", &[], text).await;
        let status = reply.status;
        assert_eq!(status, 200, "{text}: {}", reply.text().await);
    }
    server
}

async fn swipe(server: &Running, path: &str, body: impl Into<bytes::Bytes>) -> Reply {
    server.send("POST", path, &[], body).await
}

fn event(swiper: &str, swipee: &str) -> String {
    json!({"swiper": swiper, "swipee": swipee, "comment": "nice"}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_swipe_app_is_wholly_sql() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for (path, swipee) in [("/swipe/right/", "12"), ("/swipe/right", "9"), ("/swipe/left/", "12")] {
        let reply = swipe(&server, path, event("7", swipee)).await;
        assert_eq!(reply.status, 201);
        assert!(!reply.field("swiftwater-position").is_empty());
        assert_eq!(reply.text().await, "");
    }
    for path in ["/stats/7/?consistent=true", "/stats/7"] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, reply.field("content-type")), (200, "application/json"));
        assert_eq!((reply.field("swiftwater-position"), reply.field("swiftwater-age-ms")), ("3", "0"));
        assert_eq!(reply.json().await, json!({"numLlikes": 2, "numDislikes": 1}));
    }
    assert_eq!(server.get("/health").await.json().await, json!({"status": "up"}));
    let matches = server.get("/matches/7?consistent=true").await.json().await;
    assert_eq!(matches, json!({"matchList": ["12", "9"]}));
    let reply = server.get("/matches/8/").await;
    assert_eq!((reply.status, reply.json().await), (404, json!({"message": "user not found"})));
    let pairs = server.get("/pairs/7?consistent=3").await.json().await;
    assert_eq!(pairs, json!([{"swipee": "9"}, {"swipee": "12"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_of_each_kind_has_its_status_and_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let good = event("1", "2");
    let long = json!({"swiper": "1", "swipee": "2", "comment": "x".repeat(257)}).to_string();
    let huge = json!({"swiper": "1", "swipee": "2", "comment": "x".repeat(5000)}).to_string();
    for (path, body, status, message) in [
        ("/swipe/up/", &*good, 400, "swipe left or right"),
        ("/swipe/%FF/", &good, 400, "the path is not valid percent-encoded UTF-8"),
        ("/swipe/left/?x=1", &good, 400, "no parameter `x` here. This call takes no parameters."),
        ("/swipe/left/", "", 400, "the body is empty: expected a JSON object"),
        (
            "/swipe/left/",
            "swiper=1",
            400,
            "the body cannot be read: line 1, column 1: expected an event, which is a JSON object, not `s`",
        ),
        (
            "/swipe/left/",
            "{\"swiper\":\"1\"",
            400,
            "the body cannot be read: line 1, column 14: the text ends before the event does",
        ),
        ("/swipe/left/", r#"{"swiper":"1","comment":""}"#, 400, "`swipee` is missing"),
        (
            "/swipe/left/",
            r#"{"swiper":"1","swipee":"abc","comment":""}"#,
            400,
            "`swipee`: expected LONG, found \"abc\"",
        ),
        (
            "/swipe/left/",
            r#"{"swiper":"0","swipee":"2","comment":""}"#,
            400,
            "column `swiper`: `CHECK (swiper BETWEEN 1 AND 50000)` failed",
        ),
        (
            "/swipe/left/",
            r#"{"swiper":"50001","swipee":"2","comment":""}"#,
            400,
            "column `swiper`: `CHECK (swiper BETWEEN 1 AND 50000)` failed",
        ),
        (
            "/swipe/left/",
            r#"{"swiper":"1","swipee":"1000001","comment":""}"#,
            400,
            "column `swipee`: `CHECK (swipee BETWEEN 1 AND 1000000)` failed",
        ),
        ("/swipe/left/", &long, 400, "column `comment`: `CHECK (SIZEOF(comment) <= 256)` failed"),
    ] {
        let reply = swipe(&server, path, body.to_owned()).await;
        assert_eq!(
            (reply.status, reply.field("content-type")),
            (status, "application/json"),
            "{path} {body}"
        );
        assert_eq!(reply.json().await, json!({"message": message}), "{path} {body}");
    }
    let reply = swipe(&server, "/swipe/left", huge).await;
    assert_eq!(reply.status, 413);
    assert_eq!(reply.json().await, json!({"message": "the body is longer than 4096 bytes"}));
    for (path, status, message) in [
        ("/stats/x/", 400, "`userID`: expected LONG, found `x`"),
        ("/stats/0/", 404, "user not found"),
        ("/stats/50001/", 404, "user not found"),
        ("/stats/3/", 404, "user not found"),
        ("/stats/3?userID=4", 400, "no parameter `userID` here. Parameters are: consistent."),
        ("/stats/3?consistent=x", 400, "parameter `consistent` is `true`, `false` or a position, not `x`"),
        ("/stats/3?consistent=%FF", 400, "parameter `consistent` is not valid percent-encoded UTF-8"),
        ("/stats/3?x=%FF", 400, "no parameter `x` here. Parameters are: consistent."),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(reply.json().await, json!({"message": message}), "{path}");
    }
    // Problems, where nothing else is declared.
    let reply = server.get("/pairs/1?least=0").await;
    assert_eq!(reply.field("content-type"), "application/problem+json");
    let problem = reply.json().await;
    assert_eq!(problem["type"], "urn:swiftwater:problem:request-refused");
    assert_eq!(problem["detail"], "`least`: `CHECK (least > 0)` failed");
    for path in ["/swipe", "/swipe/left/right", "/swip/left", "/stats", "/stats//"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    assert_eq!(
        server.send("POST", "/v1/sql", &[], "SELECT count(*) AS n FROM swipes").await.json().await,
        json!([{"n": 0}])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_heads_tags_and_strangers_are_as_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    assert_eq!(swipe(&server, "/swipe/right/", event("7", "8")).await.status, 201);
    for (method, path, allow) in [
        ("GET", "/swipe/left/", "POST"),
        ("DELETE", "/stats/7", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
    ] {
        let reply = server.send(method, path, &[], "").await;
        assert_eq!((reply.status, reply.field("allow")), (405, allow), "{method} {path}");
    }
    let reply = server.get("/stats/7?consistent=true").await;
    let (tag, length) = (reply.field("etag").to_owned(), reply.field("content-length").to_owned());
    assert_eq!((reply.field("cache-control"), tag.is_empty()), ("no-cache", false));
    let reply = server.send("HEAD", "/stats/7", &[], "").await;
    assert_eq!((reply.status, reply.field("content-length"), reply.field("etag")), (200, &*length, &*tag));
    assert_eq!(reply.text().await, "");
    let known = [("if-none-match", &*tag)];
    let reply = server.send("GET", "/stats/7", &known, "").await;
    assert_eq!((reply.status, reply.field("etag")), (304, &*tag));
    assert_eq!(swipe(&server, "/swipe/right/", event("7", "8")).await.status, 201);
    assert_eq!(server.send("GET", "/stats/7?consistent=true", &known, "").await.status, 200);
    let stranger = [("origin", "https://evil.example")];
    assert_eq!(server.send("POST", "/swipe/right", &stranger, event("7", "8")).await.status, 403);
    assert_eq!(server.send("GET", "/stats/7", &[("host", "evil.example")], "").await.status, 403);
    let stats = server.get("/stats/7?consistent=true").await.json().await;
    assert_eq!(stats["numLlikes"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_are_taken_once_and_packed_bodies_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    for sequence in ["1", "2", "2", "1"] {
        let fields = [("swiftwater-producer", "p"), ("swiftwater-sequence", sequence)];
        let reply = server.send("POST", "/swipe/right", &fields, event("5", "6")).await;
        assert_eq!((reply.status, reply.field("swiftwater-position")), (201, sequence));
    }
    let reply = server.send("POST", "/swipe/right", &[("swiftwater-producer", "p")], event("5", "6")).await;
    assert_eq!(reply.status, 400);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, event("5", "7").as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let fields = [("content-encoding", "gzip")];
    assert_eq!(server.send("POST", "/swipe/left", &fields, packed).await.status, 201);
    let stats = server.get("/stats/5?consistent=true").await.json().await;
    assert_eq!(stats, json!({"numLlikes": 2, "numDislikes": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_in_the_contract_and_answer_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path()).await;
    let contract: &'static Value = Box::leak(Box::new(server.get("/v1/openapi.json").await.json().await));
    let paths = &contract["paths"];
    let user = &paths["/stats/{userID}"]["get"]["parameters"][0];
    assert_eq!(
        user,
        &json!({"name": "userID", "in": "path", "required": true,
            "schema": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 50000},
            "description": "`CHECK (userID BETWEEN 1 AND 50000)`"})
    );
    let stats = &paths["/stats/{userID}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    let row = stats["anyOf"].get(0).unwrap_or(stats);
    assert_eq!(row["properties"]["numLlikes"], json!({"type": ["integer", "null"], "format": "int64"}));
    assert_eq!(
        paths["/swipe/{leftorright}"]["post"]["parameters"][0]["schema"]["enum"],
        json!(["left", "right"])
    );
    let body = &paths["/swipe/{leftorright}"]["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["required"], json!(["swiper", "swipee", "comment"]));
    assert_eq!(body["properties"]["swiper"]["type"], json!(["integer", "string"]));
    // Posts may be numbered; one row has a tag, a list of rows has none.
    let named = |path: &str, method: &str, name: &str| {
        let parameters = paths[path][method]["parameters"].as_array().unwrap();
        parameters.iter().any(|one| one["$ref"] == format!("#/components/parameters/{name}"))
    };
    for (path, method, name, is_there) in [
        ("/swipe/{leftorright}", "post", "Producer", true),
        ("/swipe/{leftorright}", "post", "Sequence", true),
        ("/stats/{userID}", "get", "Sequence", false),
        ("/stats/{userID}", "get", "IfNoneMatch", true),
        ("/pairs/{id}", "get", "IfNoneMatch", false),
    ] {
        assert_eq!(named(path, method, name), is_there, "{method} {path}: {name}");
        assert!(contract["components"]["parameters"][name].is_object(), "{name}");
    }
    for (path, has_tag) in [("/stats/{userID}", true), ("/pairs/{id}", false)] {
        let responses = &paths[path]["get"]["responses"];
        let told = (responses["304"].is_object(), responses["200"]["headers"]["ETag"].is_object());
        assert_eq!(told, (has_tag, has_tag), "{path}");
    }
    let good = event("1", "2");
    for (method, path, template, body) in [
        ("POST", "/swipe/left", "/swipe/{leftorright}", &*good),
        ("POST", "/swipe/up", "/swipe/{leftorright}", &*good),
        ("POST", "/swipe/up", "/swipe/{leftorright}", ""),
        ("GET", "/stats/1?consistent=true", "/stats/{userID}", ""),
        ("GET", "/stats/2", "/stats/{userID}", ""),
        ("GET", "/stats/y", "/stats/{userID}", ""),
        ("GET", "/pairs/1?least=3", "/pairs/{id}", ""),
        ("GET", "/pairs/1?least=0", "/pairs/{id}", ""),
        ("GET", "/health", "/health", ""),
    ] {
        let reply = server.send(method, path, &[], body.to_owned()).await;
        let told = &paths[template][method.to_ascii_lowercase()]["responses"][reply.status.to_string()];
        let told = match told["$ref"].as_str() {
            Some(place) => contract.pointer(&place[1..]).unwrap(),
            None => told,
        };
        assert!(told.is_object(), "{method} {path} answers {}", reply.status);
        let form = reply.field("content-type").to_owned();
        let text = reply.text().await;
        match told["content"].get(&form) {
            Some(told) => check_value(&serde_json::from_str(&text).unwrap(), &told["schema"]).unwrap(),
            None => assert_eq!(text, "", "{method} {path}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_counted_by_path_and_are_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path()).await;
    for _ in 0..3 {
        assert_eq!(swipe(&server, "/swipe/right/", event("7", "8")).await.status, 201);
    }
    assert_eq!(swipe(&server, "/swipe/up/", event("7", "8")).await.status, 400);
    let metrics = server.get("/metrics").await.text().await;
    for line in [
        r#"swiftwater_endpoint_requests_total{method="POST",path="/swipe/{leftorright}",class="2xx"} 3"#,
        r#"swiftwater_endpoint_requests_total{method="POST",path="/swipe/{leftorright}",class="4xx"} 1"#,
        r#"swiftwater_endpoint_request_seconds_count{method="POST",path="/swipe/{leftorright}"} 4"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    server.begin_stop();
    server.stopped().await;
    let server = Running::storing(dir.path(), |_| {}).await;
    let stats = server.get("/stats/7?consistent=true").await.json().await;
    assert_eq!(stats, json!({"numLlikes": 3, "numDislikes": 0}));
    let reply = server.send("POST", "/v1/sql", &[], "DROP ENDPOINT GET '/stats/{userID}'").await;
    assert_eq!(reply.status, 200);
    assert_eq!(server.get("/stats/7").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_text_behind_the_question_mark_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    for text in [
        "CREATE STREAM said (a STRING, b STRING)",
        "CREATE ENDPOINT GET '/say' (a STRING, b STRING) AS SELECT $a AS a, $b AS b",
        "CREATE ENDPOINT POST '/say' (a STRING QUERY, b STRING) INTO said",
    ] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    for (query, expected) in [
        ("a=%C3%BC+x&b=%2B", json!({"a": "ü x", "b": "+"})),
        ("&a=&&b=%26=%3D&", json!({"a": "", "b": "&=="})),
        // It may well be sent as what it is.
        ("a=%EF%BF%BD", json!({"a": "\u{fffd}", "b": null})),
    ] {
        let reply = server.get(&format!("/say?{query}")).await;
        assert_eq!((reply.status, reply.json().await), (200, expected), "{query}");
    }
    for (method, query, name) in [
        ("GET", "a=%FF", "a"),
        ("GET", "a=x&b=%C3+", "b"),
        ("GET", "b=%C3%28&a=x", "b"),
        ("POST", "a=%ff", "a"),
    ] {
        let reply = server.send(method, &format!("/say?{query}"), &[], "").await;
        assert_eq!(reply.status, 400, "{method} {query}");
        let problem = reply.json().await;
        let expected = format!("parameter `{name}` is not valid percent-encoded UTF-8");
        assert_eq!(
            (&problem["type"], &problem["detail"]),
            (&json!("urn:swiftwater:problem:parameter-invalid"), &json!(expected)),
            "{method} {query}"
        );
    }
    let count = server.send("POST", "/v1/sql", &[], "SELECT count(*) AS n FROM said").await;
    assert_eq!(count.json().await, json!([{"n": 0}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_says_that_objects_with_parameters_have_no_other_fields() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    for text in [
        "CREATE STREAM people (name STRING)",
        "CREATE ENDPOINT POST '/strict' (name STRING BODY 'user.name') INTO people WITH (other_fields = refuse)",
        "CREATE ENDPOINT POST '/open' (name STRING BODY 'user.name') INTO people",
    ] {
        assert_eq!(server.send("POST", "/v1/sql", &[], text).await.status, 200, "{text}");
    }
    let contract = server.get("/v1/openapi.json").await.json().await;
    for (path, expected) in [("/strict", json!(false)), ("/open", Value::Null)] {
        let body = &contract["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let user = &body["properties"]["user"];
        assert_eq!(user["type"], json!(["object", "null"]), "{path}");
        assert_eq!(
            (&body["additionalProperties"], &user["additionalProperties"]),
            (&expected, &expected),
            "{path}"
        );
    }
    let body = r#"{"user":{"name":"x","age":3}}"#;
    assert_eq!(server.send("POST", "/open", &[], body).await.status, 201);
    let reply = server.send("POST", "/strict", &[], body).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json().await["detail"], "the body has an unknown field `user.age`");
}
