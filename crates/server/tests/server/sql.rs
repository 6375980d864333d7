//! Tests `/v1/sql`, over a server without tables: the statements read generated series of numbers.

use std::sync::Arc;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::{Value, json};
use swiftwater_engine::EngineConfig;
use swiftwater_server::SqlAccess;
use swiftwater_sql::{
    At, SchemaRef, SendableRecordBatchStream, Sql, SqlError, SqlOptions, TableKind, TableProvider, Tables,
};

use crate::client::{Running, soon};

pub(crate) struct NoTables;

#[async_trait]
impl Tables for NoTables {
    fn names(&self) -> Vec<(String, TableKind)> {
        Vec::new()
    }

    async fn table(&self, _: &str, _: Option<At>) -> Result<Option<Arc<dyn TableProvider>>, SqlError> {
        Ok(None)
    }

    async fn create_table(
        &self,
        _: &str,
        _: SchemaRef,
        _: Option<SendableRecordBatchStream>,
        _: bool,
    ) -> Result<Option<u64>, SqlError> {
        Ok(None)
    }

    async fn drop_table(&self, _: &str) -> Result<(), SqlError> {
        Ok(())
    }

    async fn insert(&self, _: &str, _: SendableRecordBatchStream, _: bool) -> Result<u64, SqlError> {
        Ok(0)
    }
}

pub(crate) fn access() -> SqlAccess {
    let sql = Sql::new(SqlOptions { threads: 2, ..SqlOptions::default() }, Arc::new(NoTables)).unwrap();
    SqlAccess { sql: Arc::new(sql), others: None }
}

async fn start() -> Running {
    Running::with_sql(EngineConfig::default(), |_| {}, Some(access())).await
}

async fn ask(server: &Running, accept: &str, text: &str) -> (String, String) {
    let reply = server.send("POST", "/v1/sql", &[("accept", accept)], text.to_owned()).await;
    assert_eq!(reply.status, 200);
    let media_type = reply.field("content-type").to_owned();
    (media_type, reply.text().await)
}

/// A text that takes far longer than any test waits.
const ENDLESS: &str =
    "SELECT count(*) FROM range(0, 1000000000) a, range(0, 1000000000) b WHERE a.value + b.value = -1";

#[tokio::test]
async fn rows_come_in_the_form_that_is_accepted() {
    let server = start().await;
    let text =
        "SELECT value AS v, 'a,b' AS t FROM range(0, 3) ORDER BY v; SELECT 1 AS one, NULL AS none, 'x' AS t";
    let (media_type, body) = ask(&server, "*/*", text).await;
    assert_eq!(
        (media_type.as_str(), body.as_str()),
        ("application/json", "[{\"one\":1,\"none\":null,\"t\":\"x\"}]\n")
    );
    let (media_type, body) =
        ask(&server, "application/x-ndjson", "SELECT value AS v FROM range(0, 2) ORDER BY v").await;
    assert_eq!((media_type.as_str(), body.as_str()), ("application/x-ndjson", "{\"v\":0}\n{\"v\":1}\n"));
    let reply = server.send("POST", "/v1/sql", &[("swiftwater-statement", "told")], "SELECT 1 AS a").await;
    assert_eq!(reply.text().await, "[{\"a\":1}]\n");
    let told = server.get("/v1/sql/told").await.json().await;
    assert_eq!((&told["rows_returned"], &told["percent"]), (&json!(1), &json!(100.0)));
    let (media_type, body) = ask(&server, "text/csv", "SELECT 1 AS a, 'x,y' AS b").await;
    assert!(media_type.starts_with("text/csv"), "{media_type}");
    assert_eq!(body, "a,b\r\n1,\"x,y\"\r\n");
    let reply = server
        .send("POST", "/v1/sql", &[("accept", "application/vnd.apache.arrow.stream")], "SELECT 1 AS a")
        .await;
    assert_eq!(reply.field("content-type"), "application/vnd.apache.arrow.stream");
    let none = server.send("POST", "/v1/sql", &[("accept", "text/html")], "SELECT 1").await;
    none.problem(StatusCode::NOT_ACCEPTABLE, "not-acceptable").await;
}

#[tokio::test]
async fn statements_come_as_json_with_parameters() {
    let server = start().await;
    let body = json!({"query": "SELECT value AS v FROM range(0, 10) WHERE value = $1", "parameters": [7]});
    let fields = [("content-type", "application/json")];
    let reply = server.send("POST", "/v1/sql", &fields, body.to_string()).await;
    assert_eq!(reply.json().await, json!([{"v": 7}]));
    let body = json!({"query": "SELECT \"x\" AS t", "dialect": "spark"});
    let reply = server.send("POST", "/v1/sql", &fields, body.to_string()).await;
    assert_eq!(reply.json().await, json!([{"t": "x"}]));
}

#[tokio::test]
async fn faults_have_their_places_and_hints() {
    let server = start().await;
    let problem = |text: &'static str| server.send("POST", "/v1/sql", &[], text);
    let found = problem("SELECT 1;\n SELECT value, count(*)\nFROM range(0, 3)").await;
    let found = found.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    assert_eq!((&found["line"], &found["column"]), (&json!(2), &json!(9)), "{found}");
    assert_eq!(found["hint"], "Add GROUP BY value, or use it in an aggregate.");
    let found = problem("SELECT * FROM nowhere").await.problem(StatusCode::NOT_FOUND, "not-found").await;
    assert_eq!((&found["line"], &found["column"]), (&json!(1), &json!(15)), "{found}");
    problem("SELECT 1 / 0").await.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    let without = Running::start().await;
    let found = without.send("POST", "/v1/sql", &[], "SELECT 1").await;
    found.problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
}

async fn statements(server: &Running) -> Vec<Value> {
    let mut answer = server.get("/v1/sql").await.json().await;
    std::mem::take(answer["statements"].as_array_mut().unwrap())
}

async fn until_statements(server: &Running, count: usize) {
    soon(async {
        while statements(server).await.len() != count {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_statement() {
    let server = start().await;
    let mut client = server.client().await;
    let connection = client.connection();
    let asked = tokio::spawn(async move { client.send("POST", "/v1/sql", &[], ENDLESS).await.status });
    until_statements(&server, 1).await;
    connection.abort();
    until_statements(&server, 0).await;
    asked.abort();
}

#[tokio::test]
async fn a_statement_is_seen_and_ended_by_its_name() {
    let server = start().await;
    let mut client = server.client().await;
    let asked = tokio::spawn(async move {
        client.send("POST", "/v1/sql", &[("swiftwater-statement", "mine")], ENDLESS).await
    });
    until_statements(&server, 1).await;
    let shown = server.get("/v1/sql/mine").await.json().await;
    assert_eq!((&shown["id"], &shown["query"]), (&json!("mine"), &json!(ENDLESS)));
    let taken = server.send("POST", "/v1/sql", &[("swiftwater-statement", "mine")], "SELECT 1").await;
    taken.problem(StatusCode::CONFLICT, "conflict").await;
    assert_eq!(server.send("DELETE", "/v1/sql/mine", &[], "").await.status, 204);
    let ended = soon(asked).await.unwrap();
    ended.problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
    // Its name is free a moment after its answer.
    until_statements(&server, 0).await;
    server.send("DELETE", "/v1/sql/mine", &[], "").await.problem(StatusCode::NOT_FOUND, "not-found").await;
    // The answer is how it ended, not that its name was taken for another.
    let told = server.get("/v1/sql/mine").await.json().await;
    assert_eq!(told["error"]["detail"], "the statement was cancelled", "{told}");
    let odd = server.send("POST", "/v1/sql", &[("swiftwater-statement", "a b")], "SELECT 1").await;
    odd.problem(StatusCode::BAD_REQUEST, "request-invalid").await;
}

#[tokio::test]
async fn an_answer_that_fails_late_breaks_off_and_says_why() {
    let server = start().await;
    let text = "SELECT 10 / (value - 900000) AS v FROM range(0, 1000000)";
    let fields = [("swiftwater-statement", "late"), ("accept", "application/x-ndjson")];
    let reply = server.send("POST", "/v1/sql", &fields, text).await;
    assert_eq!((reply.status, reply.field("swiftwater-statement")), (200, "late"));
    assert!(soon(reply.into_body().collect()).await.is_err());
    let why = server.get("/v1/sql/late").await.json().await;
    assert_eq!(why["error"]["detail"], "divide by zero error", "{why}");
}

#[tokio::test]
async fn a_statement_that_gave_no_rows_is_told_of_after_its_end() {
    let server = start().await;
    let ended = async |id: &str| {
        // Its name is free a moment after its answer.
        until_statements(&server, 0).await;
        server.get(&format!("/v1/sql/{id}")).await.json().await
    };
    for (text, status, word) in [
        ("SELECT 1 / 0", StatusCode::BAD_REQUEST, "query-invalid"),
        ("SELECT * FROM nowhere", StatusCode::NOT_FOUND, "not-found"),
    ] {
        let reply = server.send("POST", "/v1/sql", &[("swiftwater-statement", "wrong")], text).await;
        let problem = reply.problem(status, word).await;
        assert_eq!(ended("wrong").await, json!({"id": "wrong", "error": problem}));
    }
    // One whose name only the list tells.
    let mut client = server.client().await;
    let asked = tokio::spawn(async move { client.send("POST", "/v1/sql", &[], ENDLESS).await });
    until_statements(&server, 1).await;
    let id = statements(&server).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.send("DELETE", &format!("/v1/sql/{id}"), &[], "").await.status, 204);
    soon(asked).await.unwrap().problem(StatusCode::SERVICE_UNAVAILABLE, "unavailable").await;
    assert_eq!(ended(&id).await["error"]["detail"], "the statement was cancelled");
}

#[tokio::test]
async fn an_answer_names_its_columns_in_a_field() {
    let server = start().await;
    let ask = async |text: &str| server.send("POST", "/v1/sql", &[], text.to_owned()).await;
    let reply = ask("SELECT 'a' AS \"gr\u{f6}\u{1f600}\", count(*) AS n FROM range(0, 5) GROUP BY 1").await;
    let columns: Value = serde_json::from_str(reply.field("swiftwater-columns")).unwrap();
    let expected = json!([
        {"name": "gr\u{f6}\u{1f600}", "type": "VARCHAR", "role": "key"},
        {"name": "n", "type": "BIGINT", "role": "measure", "aggregate": "COUNT"},
    ]);
    assert_eq!(columns, expected);
    // Proxies refuse long fields.
    let many = (0..500).map(|n| format!("{n} AS column_{n}")).collect::<Vec<_>>().join(", ");
    let reply = ask(&format!("SELECT {many}")).await;
    assert_eq!((reply.status, reply.headers.get("swiftwater-columns")), (200, None));
}

#[tokio::test]
async fn statements_are_planned_without_being_run() {
    let server = start().await;
    let validate = async |text: &str| server.send("POST", "/v1/sql/validate", &[], text.to_owned()).await;
    let facts = validate(ENDLESS).await.json().await;
    let column = json!({"name": "count(*)", "type": "BIGINT", "role": "measure", "aggregate": "COUNT"});
    assert_eq!(facts, json!({"columns": [column], "changes": false}));
    let facts = validate("CREATE TABLE t (a BIGINT)").await.json().await;
    assert_eq!(facts, json!({"columns": null, "changes": true}));
    let problem =
        validate("SELECT 1;\nSELECT nothing").await.problem(StatusCode::NOT_FOUND, "not-found").await;
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(8)));
    let reserved = [("swiftwater-statement", "validate")];
    let reply = server.send("POST", "/v1/sql", &reserved, "SELECT 1".to_owned()).await;
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn a_read_only_request_changes_nothing() {
    let server = start().await;
    let ask = async |text: &str| server.send("POST", "/v1/sql?read_only=true", &[], text.to_owned()).await;
    assert_eq!(ask("SELECT 1 AS a").await.text().await, "[{\"a\":1}]\n");
    let problem = ask("SELECT 1; DROP TABLE t").await.problem(StatusCode::BAD_REQUEST, "query-invalid").await;
    assert!(problem["detail"].as_str().unwrap().contains("DROP TABLE"), "{problem}");
}
