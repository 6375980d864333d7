//! Tests completion and the list of functions.

use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;

use crate::client::Running;

async fn complete(server: &Running, marked: &str) -> Value {
    complete_as(server, marked, "native").await
}

/// The options at `|`.
async fn complete_as(server: &Running, marked: &str, dialect: &str) -> Value {
    let cursor = marked.chars().position(|c| c == '|').unwrap();
    let body = json!({"text": marked.replacen('|', "", 1), "cursor": cursor, "dialect": dialect});
    let fields = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/complete", &fields, body.to_string()).await;
    assert_eq!(reply.status, 200, "{marked}");
    reply.json().await
}

fn inserts(found: &Value, kind: &str) -> Vec<String> {
    let options = found["options"].as_array().unwrap();
    let of_kind = options.iter().filter(|option| option["kind"] == kind);
    of_kind.map(|option| option["insert"].as_str().unwrap().to_owned()).collect()
}

async fn with_flights() -> Running {
    let server = Running::start().await;
    let events = concat!(
        "{\"carrier\":\"UA\",\"dep_delay\":5,\"where\":{\"city\":\"O'Hare\"},\"group\":1,\"late\":true}\n",
        "{\"carrier\":\"UA\",\"dep_delay\":-2.5,\"where\":{\"city\":\"K\u{f6}ln\"}}\n",
        "{\"carrier\":\"AA\",\"dep_delay\":5,\"where\":{\"city\":\"O'Hare\"}}\n",
    );
    assert_eq!(server.ingest("flights", events).await.status, 200);
    server.ingest("fleet-2", "{}\n").await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_paths_and_values_are_those_that_there_are() {
    let server = with_flights().await;
    let found = complete(&server, "SELECT * FROM STREAM(fl|").await;
    assert_eq!((&found["from"], &found["to"]), (&json!(21), &json!(23)));
    assert_eq!(inserts(&found, "stream"), ["\"fleet-2\"", "flights"]);

    let found = complete(&server, "SELECT | FROM STREAM(flights)").await;
    assert_eq!(
        inserts(&found, "path"),
        ["\"where\"", "\"where\".city", "carrier", "dep_delay", "\"group\"", "late"]
    );
    let carrier = &found["options"][2];
    let expected = json!({"label": "carrier", "kind": "path", "insert": "carrier", "type": "string",
        "detail": "in 100 % of recent events", "doc": "For example 'AA'"});
    assert_eq!(carrier, &expected);
    assert!(inserts(&found, "aggregate").contains(&"COUNT(".to_owned()));

    // What begins with the typed text comes first, in any letter case, and then what contains it.
    let found = complete(&server, "SELECT DEL| FROM STREAM(flights)").await;
    assert_eq!(inserts(&found, "path"), ["dep_delay"]);
    let found = complete(&server, "SELECT \"where\".c| FROM STREAM(flights)").await;
    assert_eq!((inserts(&found, "path"), &found["from"]), (vec!["\"where\".city".to_owned()], &json!(7)));
    let found = complete(&server, "SELECT f.la| FROM STREAM(flights) AS f").await;
    assert_eq!(inserts(&found, "path"), ["f.late"]);

    let found = complete(&server, "SELECT * FROM STREAM(flights) WHERE carrier = |").await;
    assert_eq!(inserts(&found, "value"), ["'UA'", "'AA'"]);
    assert_eq!(found["options"][0]["detail"], "66.7 % of recent values");
    let found =
        complete(&server, "SELECT '\u{1f600}' FROM STREAM(flights) WHERE \"where\".city = 'o|'").await;
    assert_eq!((inserts(&found, "value"), &found["from"]), (vec!["'O''Hare'".to_owned()], &json!(53)));
    let found = complete(&server, "SELECT * FROM STREAM(flights) WHERE late = |").await;
    assert_eq!(inserts(&found, "value"), ["TRUE"]);
    let found = complete(&server, "SELECT * FROM STREAM(flights) WHERE dep_delay IN (5, |").await;
    assert_eq!(inserts(&found, "value"), ["5", "-2.5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_completed_and_columns_of_the_query_named() {
    let server = with_flights().await;
    let found =
        complete(&server, "SELECT carrier, COUNT(*) AS n FROM STREAM(flights) GROUP BY carrier HAVING |")
            .await;
    assert_eq!(inserts(&found, "alias"), ["n"]);
    let found = complete(&server, "SELECT * FROM STREAM(flights) gro|").await;
    assert_eq!(inserts(&found, "keyword"), ["GROUP BY"]);
    let found = complete(&server, "SELECT * FROM STREAM(flights) WINDOWING TUM|").await;
    assert_eq!(inserts(&found, "keyword"), ["TUMBLING("]);
    let found = complete(&server, "SELECT CAST(a AS LO|").await;
    assert_eq!(inserts(&found, "type"), ["LONG", "FLOAT"]);
    let found = complete_as(&server, "SELECT APPROX_|", "bullet").await;
    assert_eq!(found["options"], json!([]));
    let found = complete(&server, "SELECT * FROM STREAM(flights)|").await;
    assert_eq!(found["more"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_cut_and_a_long_text_is_answered() {
    let server = Running::start().await;
    for n in 0..250 {
        server.ingest(&format!("s{n}"), "{}\n").await;
    }
    let found = complete(&server, "SELECT * FROM STREAM(|").await;
    assert_eq!((found["options"].as_array().unwrap().len(), &found["more"]), (200, &json!(true)));
    let long = format!("SELECT {}| FROM STREAM(s1)", "a + ".repeat(10_000));
    let found = complete(&server, &long).await;
    assert_eq!(inserts(&found, "keyword"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_none_is_refused() {
    let server = Running::with(EngineConfig::default(), |_| {}).await;
    for (body, part) in [
        ("SELECT", "the body is not a request"),
        ("{\"text\":\"a\"}", "cursor"),
        ("{\"text\":\"a\",\"cursor\":2}", "the text has 1 characters"),
        ("{\"text\":\"a\",\"cursor\":-1}", "`cursor` is -1"),
        ("{\"text\":\"a\",\"cursor\":0,\"dialect\":\"cobol\"}", "cobol"),
        ("{\"text\":\"a\",\"cursor\":0,\"more\":1}", "more"),
    ] {
        let fields = [("content-type", "application/json")];
        let reply = server.send("POST", "/v1/complete", &fields, body.to_owned()).await;
        assert_eq!(reply.status, 400, "{body}");
        let problem = reply.json().await;
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_listed_with_help() {
    let server = Running::start().await;
    let list =
        async |path: &str| server.get(path).await.json().await["functions"].as_array().unwrap().clone();
    let native = list("/v1/functions").await;
    let average = native.iter().find(|function| function["name"] == "AVG").unwrap();
    let expected = json!({"name": "AVG", "kind": "aggregate", "signatures": ["AVG(x)"], "returns": "DOUBLE",
        "doc": "The mean of the numbers."});
    assert_eq!(average, &expected);
    let bullet = list("/v1/functions?dialect=bullet").await;
    assert!(bullet.len() < native.len() && bullet.iter().all(|function| native.contains(function)));
    assert_eq!(server.get("/v1/functions?dialect=x").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_sql_are_those_of_its_engine() {
    let dir = tempfile::tempdir().unwrap();
    let server = Running::storing(dir.path(), |_| {}).await;
    let functions = server.get("/v1/functions?dialect=sql").await.json().await;
    let functions = functions["functions"].as_array().unwrap();
    for (name, kind) in [("sum", "aggregate"), ("date_trunc", "scalar"), ("row_number", "window")] {
        let found = functions.iter().find(|function| function["name"] == name).unwrap();
        assert!(found["kind"] == kind && found["doc"].as_str().unwrap().len() > 5, "{found}");
    }
    assert_eq!(Running::start().await.get("/v1/functions?dialect=sql").await.status, 503);
}
