//! `/v1/sql`: runs SQL statements over stored data, and lists the running ones.
//!
//! ```text
//! POST /v1/sql?dialect=native|spark      the statements as text, or {"query": "…", "parameters": […], "dialect": "…"}
//! POST /v1/sql/validate                  plans the same, and runs nothing
//! GET /v1/sql                            the running statements, with their progress
//! GET, DELETE /v1/sql/{id}               one of them, or why it failed; ends it
//! ```
//!
//! `Accept` selects the form of the answer: one JSON array, one object per line, CSV, or an Arrow stream. The answer is
//! written as it is computed, no faster than the client reads, and a client that disconnects ends its statement. The field
//! `Swiftwater-Statement` names the statement: the client's own choice, where the request has that field. The field
//! `Swiftwater-Distributed` decides whether it runs on several machines.
//!
//! A failure before the first rows is answered as a problem. A later failure breaks the body off, so that no client mistakes
//! part of an answer for the whole. `GET /v1/sql/{id}` reports on the last hundred statements that ended: why one failed or
//! that it was cancelled, and how much a completed one read.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};
use swiftwater_sql::{
    Answer, ColumnRole, Command, Dialect, Distributed, ErrorKind, OtherStatements, Parameter, Progress,
    RunMode, RunOptions, Running, Sql, SqlError, TaskReading,
    forms::{Form, FormWriter},
    type_name,
};
use tokio::time::Instant;

use crate::{
    accept,
    body::{Encoding, Pieces, heavy},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    queries::without_mark,
    query_request::is_json,
    routes::{Name, name},
    server::{Connection, Shared},
    status::json_response,
};

/// The field that says whether a statement runs on several machines.
const DISTRIBUTED_FIELD: &str = "swiftwater-distributed";
/// The field that names a statement.
pub(crate) const STATEMENT_FIELD: HeaderName = HeaderName::from_static("swiftwater-statement");
/// The field that has the columns of an answer.
const COLUMNS_FIELD: HeaderName = HeaderName::from_static("swiftwater-columns");
/// All fields of an answer together have 4 KiB in many proxies.
const COLUMNS_BYTES_MAX: usize = 3 << 10;
/// `{"name":"a"}` and a comma.
const COLUMN_BYTES_MIN: usize = 13;
/// Bytes kept of the text of an ended statement.
const TEXT_SHOWN_BYTES: usize = 2000;
const ID_CHARS_MAX: usize = 64;
/// Statements that ended and are still told of, for those who ask why an answer ended early and what it cost.
const ENDED_KEPT: usize = 100;
const PARAMETERS_MAX: usize = 1000;
/// Bytes that a batch of rows is taken for, so that writing it does not hold up other requests.
const ROW_BYTES: usize = 64;
const FORM: &str = "Write {\"query\": \"SELECT …\", \"parameters\": []}.";

/// The engine of statements.
#[derive(Clone)]
pub struct SqlAccess {
    /// The engine of statements over tables.
    pub sql: Arc<Sql>,
    /// Receiver of the statements that are not for tables, such as `CREATE STREAM`.
    pub others: Option<Arc<dyn OtherStatements>>,
}

/// SQL, as far as the server has to do with it.
#[derive(Default)]
pub(crate) struct SqlState {
    pub(crate) access: Option<SqlAccess>,
    ended: Mutex<Ended>,
}

impl SqlState {
    pub(crate) fn new(access: Option<SqlAccess>) -> SqlState {
        SqlState { access, ended: Mutex::default() }
    }

    pub(crate) fn access(&self) -> Result<&SqlAccess, Problem> {
        self.access.as_ref().ok_or_else(|| {
            let (status, title) = (StatusCode::SERVICE_UNAVAILABLE, "The server cannot do this now");
            Problem::new(status, "unavailable", title, "nothing is stored here")
                .hint("Start the server with --data DIR.")
        })
    }

    fn record_ended(&self, id: &str, told: Value) {
        self.lock().record_ended(id, told);
    }

    /// Records the failure of a statement, and returns its problem.
    fn failed(&self, id: &str, why: impl Into<Problem>) -> Problem {
        let problem = why.into();
        self.record_ended(id, failed_json(id, &problem));
        problem
    }

    /// Ends one that runs, and keeps that; false if there is none of that name.
    fn cancel(&self, id: &str) -> Result<bool, Problem> {
        let sql = &self.access()?.sql;
        // Under the lock, so that what the statement itself tells of its end comes later, and counts.
        let mut ended = self.lock();
        let is_cancelled = sql.cancel(id);
        if is_cancelled {
            let why = SqlError::new(ErrorKind::Unavailable, "the statement was cancelled");
            ended.record_ended(id, failed_json(id, &why.into()));
        }
        Ok(is_cancelled)
    }

    fn lock(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, id: &str) -> Option<Value> {
        self.lock().0.iter().find(|(other, _)| other == id).map(|(_, told)| told.clone())
    }
}

/// The reports of ended statements, the last of each name; the one that ended first is removed first.
#[derive(Default)]
struct Ended(VecDeque<(String, Value)>);

impl Ended {
    fn record_ended(&mut self, id: &str, told: Value) {
        self.0.retain(|(other, _)| other != id);
        if self.0.len() == ENDED_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), told));
    }
}

/// Runs statements; the last one answers.
pub(crate) async fn run(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query(), &["dialect", "read_only"])?;
    let dialect = parameters.get("dialect").map(dialect_of).transpose()?;
    let mode = if parameters.flag("read_only")? { RunMode::ReadOnly } else { RunMode::Run };
    let form = accept::sql_form(&parts.headers)?;
    let id = statement_id(&parts.headers)?;
    let access = shared.sql.access()?.clone();
    let ask = SqlAsk::of_body(&parts.headers, body_of(&shared, &parts.headers, body).await?, dialect)?;
    let distributed = match parts.headers.get(DISTRIBUTED_FIELD).map(HeaderValue::to_str) {
        None => Distributed::Auto,
        Some(Ok(word)) => Distributed::of_word(word)?,
        Some(Err(_)) => {
            return Err(
                bad("the field Swiftwater-Distributed is no text").hint("Values are: auto, never, always.")
            );
        }
    };
    let options = RunOptions {
        dialect: ask.dialect,
        distributed,
        parameters: ask.parameters,
        others: access.others,
        id: id.clone(),
        client: parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address),
        mode,
        ..RunOptions::default()
    };
    let begun = Instant::now();
    let shown = ask.text[..ask.text.floor_char_boundary(TEXT_SHOWN_BYTES.min(ask.text.len()))].to_owned();
    let answer = match (access.sql.run(ask.text, options).await, id) {
        (Ok(answer), _) => answer,
        (Err(error), Some(id)) => return Err(shared.sql.failed(&id, error)),
        // The client does not know its name.
        (Err(error), None) => return Err(error.into()),
    };
    let id = answer.id().to_owned();
    let columns = columns_field(&answer);
    let body = AnswerBody::begin(Arc::clone(&shared), answer, form, shown, begun).await;
    let body = body.map_err(|problem| shared.sql.failed(&id, problem))?;
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(STATEMENT_FIELD, id);
    }
    if let Some(columns) = columns {
        headers.insert(COLUMNS_FIELD, columns);
    }
    Ok(response)
}

/// Plans statements and runs nothing; the columns are those of the last one.
pub(crate) async fn validate(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query(), &["dialect"])?;
    let dialect = parameters.get("dialect").map(dialect_of).transpose()?;
    let access = shared.sql.access()?.clone();
    let ask = SqlAsk::of_body(&parts.headers, body_of(&shared, &parts.headers, body).await?, dialect)?;
    let options = RunOptions {
        dialect: ask.dialect,
        parameters: ask.parameters,
        others: access.others,
        client: parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address),
        mode: RunMode::Plan,
        ..RunOptions::default()
    };
    let answer = access.sql.run(ask.text, options).await?;
    let columns = (answer.command() == Command::Query).then(|| columns_json(&answer));
    Ok(json_response(StatusCode::OK, &json!({"columns": columns, "changes": answer.changes()})))
}

fn columns_json(answer: &Answer) -> Value {
    let columns = answer.schema().fields().iter().enumerate().map(|(place, field)| {
        let mut column = json!({"name": field.name(), "type": type_name(field.data_type())});
        if let Some(role) = answer.roles().get(place) {
            column["role"] = match role {
                ColumnRole::Key => "key",
                ColumnRole::Measure(_) => "measure",
                ColumnRole::Time => "time",
                ColumnRole::Other => "other",
            }
            .into();
            if let ColumnRole::Measure(Some(aggregate)) = role {
                column["aggregate"] = aggregate.as_str().into();
            }
        }
        column
    });
    columns.collect()
}

/// The columns as the value of a field, in ASCII; none if it would be too long for proxies.
fn columns_field(answer: &Answer) -> Option<HeaderValue> {
    let fields = answer.schema().fields();
    if fields.is_empty() || fields.len() > COLUMNS_BYTES_MAX / COLUMN_BYTES_MIN {
        return None;
    }
    let mut ascii = String::new();
    for c in columns_json(answer).to_string().chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    HeaderValue::from_str(&ascii).ok().filter(|value| value.len() <= COLUMNS_BYTES_MAX)
}

/// Lists the running statements.
pub(crate) async fn list(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let running = shared.sql.access()?.sql.running();
    let statements: Vec<Value> = running.iter().map(running_json).collect();
    Ok(json_response(StatusCode::OK, &json!({"statements": statements})))
}

/// One that runs, or that ended lately.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = name(path)?;
    let running = shared.sql.access()?.sql.running();
    if let Some(running) = running.iter().find(|running| *running.id == *id) {
        return Ok(json_response(StatusCode::OK, &running_json(running)));
    }
    match shared.sql.ended(&id) {
        Some(told) => Ok(json_response(StatusCode::OK, &told)),
        None => Err(no_statement(&id)),
    }
}

/// Ends one.
pub(crate) async fn cancel(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = name(path)?;
    if shared.sql.cancel(&id)? { Ok(StatusCode::NO_CONTENT) } else { Err(no_statement(&id)) }
}

fn no_statement(id: &str) -> Problem {
    let detail = format!("no statement `{}` is running", cut(id));
    Problem::new(StatusCode::NOT_FOUND, "not-found", "The object does not exist", detail)
}

fn failed_json(id: &str, problem: &Problem) -> Value {
    json!({"id": id, "error": problem.to_json()})
}

pub(crate) fn running_json(running: &Running) -> Value {
    progress_json(&running.id, &running.text, running.elapsed, &running.progress)
}

fn progress_json(id: &str, text: &str, elapsed: Duration, progress: &Progress) -> Value {
    let tasks: Vec<Value> = progress.tasks().iter().map(task_json).collect();
    let progress = progress.read();
    json!({
        "id": id,
        "query": text,
        "elapsed_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        "rows_scanned": progress.rows_scanned,
        "bytes_scanned": progress.bytes_scanned,
        "rows_returned": progress.rows_returned,
        "percent": progress.percent,
        "tasks": tasks,
    })
}

fn task_json(task: &TaskReading) -> Value {
    json!({
        "stage": task.stage,
        "task": task.task,
        "node": &*task.node,
        "rows_scanned": task.rows_scanned,
        "bytes_scanned": task.bytes_scanned,
    })
}

/// The way the names begin that the server gives: those of statements without a name, and of PostgreSQL's clients.
const OWN_PREFIXES: [&str; 2] = ["sql-", "pg-"];

fn has_prefix(id: &str, prefix: &str) -> bool {
    id.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn statement_id(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(field) = headers.get(STATEMENT_FIELD) else { return Ok(None) };
    let id = field.to_str().unwrap_or_default();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if let Some(prefix) = OWN_PREFIXES.iter().find(|prefix| has_prefix(id, prefix)) {
        return Err(Problem::bad_request(format!(
            "a statement cannot be named `{}`: names that begin with `{prefix}` are reserved for the server",
            cut(id)
        ))
        .hint("Choose another name, such as `report-7`."));
    }
    if id == "validate" {
        let detail = "a statement cannot be named `validate`: this is a path of the server";
        return Err(Problem::bad_request(detail).hint("Choose another name, such as `report-7`."));
    }
    if (1..=ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(is_part) {
        return Ok(Some(id.to_owned()));
    }
    Err(Problem::bad_request("the field `Swiftwater-Statement` is not a name")
        .hint(format!("A name is 1 to {ID_CHARS_MAX} of A-Z, a-z, 0-9, `_`, `-` and `.`.")))
}

async fn body_of(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    // In JSON every character may be written as six; how long the text itself may be, SQL says.
    let bytes_max = 6 * shared.config.sql_text_bytes_max + 4096;
    let encoding = Encoding::of(headers)?;
    let pieces = Pieces::new(body, encoding, bytes_max, shared.config.body_read_timeout_ms, shared.share());
    let body = pieces.whole().await.map_err(|fault| fault.problem("server.sql_text_bytes_max", bytes_max))?;
    Ok(without_mark(body))
}

/// A client's request for statements.
#[derive(Debug, PartialEq)]
struct SqlAsk {
    text: String,
    dialect: Dialect,
    parameters: Vec<Parameter>,
}

impl SqlAsk {
    fn of_body(headers: &HeaderMap, body: Vec<u8>, dialect: Option<Dialect>) -> Result<SqlAsk, Problem> {
        if !is_json(headers)? {
            let text = String::from_utf8(body).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                Problem::bad_request(format!("the statements are not UTF-8 at byte {at}"))
            })?;
            return Ok(SqlAsk { text, dialect: dialect.unwrap_or_default(), parameters: Vec::new() });
        }
        let value: Value = serde_json::from_slice(&body).map_err(|error| {
            let problem = Problem::bad_request(format!("the body is not valid JSON: {error}"));
            problem.with("line", error.line()).with("column", error.column()).hint(FORM)
        })?;
        let Value::Object(members) = value else {
            return Err(Problem::bad_request("the body is not a JSON object").hint(FORM));
        };
        SqlAsk::of_members(members, dialect)
    }

    fn of_members(members: Map<String, Value>, mut dialect: Option<Dialect>) -> Result<SqlAsk, Problem> {
        let (mut text, mut parameters) = (None, Vec::new());
        for (name, value) in members {
            match (name.as_str(), value) {
                ("query", Value::String(query)) => text = Some(query),
                ("parameters", Value::Null) => {}
                ("parameters", Value::Array(values)) => parameters = parameters_of(values)?,
                ("dialect", Value::String(name)) => {
                    let stated = dialect_of(&name)?;
                    if dialect.is_some_and(|other| other != stated) {
                        return Err(bad("the body states another dialect than the parameter `dialect`"));
                    }
                    dialect = Some(stated);
                }
                ("query" | "dialect", _) => {
                    return Err(Problem::bad_request(format!("member `{name}` is not a string")).hint(FORM));
                }
                ("parameters", _) => {
                    return Err(Problem::bad_request("member `parameters` is not a list").hint(FORM));
                }
                (other, _) => {
                    return Err(Problem::bad_request(format!("no member `{}` here", cut(other)))
                        .hint("Members are: query, parameters, dialect."));
                }
            }
        }
        let text = text.ok_or_else(|| Problem::bad_request("the body has no member `query`").hint(FORM))?;
        Ok(SqlAsk { text, dialect: dialect.unwrap_or_default(), parameters })
    }
}

fn dialect_of(name: &str) -> Result<Dialect, Problem> {
    match name {
        "native" => Ok(Dialect::Native),
        "spark" => Ok(Dialect::Spark),
        other => {
            Err(bad(format!("there is no dialect `{}`", cut(other))).hint("Dialects are: native, spark."))
        }
    }
}

fn parameters_of(values: Vec<Value>) -> Result<Vec<Parameter>, Problem> {
    if values.len() > PARAMETERS_MAX {
        let detail = format!("the statement has {} parameters, limit is {PARAMETERS_MAX}", values.len());
        return Err(Problem::bad_request(detail));
    }
    let parameter = |(at, value): (usize, Value)| match value {
        Value::Null => Ok(Parameter::Null),
        Value::Bool(value) => Ok(Parameter::Boolean(value)),
        Value::String(value) => Ok(Parameter::Text(value)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Ok(Parameter::Long(value)),
            (None, Some(value)) => Ok(Parameter::Double(value)),
            (None, None) => Err(Problem::bad_request(format!("parameter ${} is too large", at + 1))),
        },
        Value::Array(_) | Value::Object(_) => {
            Err(Problem::bad_request(format!("parameter ${} is a list or an object", at + 1))
                .hint("Parameters are texts, numbers, true, false and null."))
        }
    };
    values.into_iter().enumerate().map(parameter).collect()
}

/// An answer on its way to the client.
struct AnswerBody {
    shared: Arc<Shared>,
    answer: Pin<Box<Answer>>,
    text: String,
    begun: Instant,
    writer: FormWriter,
    /// The output written already.
    out: Vec<u8>,
    ended: bool,
}

impl AnswerBody {
    /// The body, once its first rows are there: a statement that fails at once has a status that says so.
    async fn begin(
        shared: Arc<Shared>,
        answer: Answer,
        form: Form,
        text: String,
        begun: Instant,
    ) -> Result<Body, Problem> {
        let mut writer = FormWriter::new(form, answer.schema())?;
        let mut out = Vec::new();
        writer.begin(&mut out);
        let mut body =
            AnswerBody { shared, answer: Box::pin(answer), text, begun, writer, out, ended: false };
        body.fill().await?;
        Ok(Body::from_stream(stream::unfold(Some(body), |body| async move {
            let mut body = body?;
            if body.out.is_empty()
                && let Err(error) = body.fill().await
            {
                body.shared.sql.failed(body.answer.id(), error);
                tracing::debug!(statement = body.answer.id(), "an answer ended early");
                // Once more to the connection, which writes what it has when there is nothing to add: without that a client might
                // get no byte of an answer that has begun.
                tokio::task::yield_now().await;
                return Some((Err(BrokenOff), None));
            }
            if body.out.is_empty() {
                return None;
            }
            let piece = Bytes::from(std::mem::take(&mut body.out));
            Some((Ok(piece), Some(body)))
        })))
    }

    /// Writes the next batch, or the end.
    async fn fill(&mut self) -> Result<(), SqlError> {
        if self.ended {
            return Ok(());
        }
        match self.answer.next().await {
            Some(batch) => {
                let batch = batch?;
                let bytes = batch.num_rows() * batch.num_columns() * ROW_BYTES;
                heavy(bytes, || self.writer.batch(&batch, &mut self.out))
            }
            None => {
                self.ended = true;
                let (id, progress) = (self.answer.id(), self.answer.progress());
                let told = progress_json(id, &self.text, self.begun.elapsed(), progress);
                self.shared.sql.record_ended(id, told);
                self.writer.end(&mut self.out)
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the statement failed after its answer had begun")]
struct BrokenOff;

impl From<SqlError> for Problem {
    fn from(error: SqlError) -> Problem {
        let detail = error.to_string();
        let (status, word, title) = match error.kind() {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "query-invalid", "The query cannot be run"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not-found", "The object does not exist"),
            ErrorKind::Conflict => {
                (StatusCode::CONFLICT, "conflict", "The state of the object does not allow this")
            }
            ErrorKind::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The server cannot do this now")
            }
            // The same statement would pass the same limit again: nothing that a client is to retry.
            ErrorKind::Limit => (StatusCode::UNPROCESSABLE_ENTITY, "limit-passed", "A limit was exceeded"),
            ErrorKind::Corrupt => {
                (StatusCode::INTERNAL_SERVER_ERROR, "corrupt", "The stored data is damaged")
            }
            ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed"),
        };
        if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Internal) {
            tracing::error!(error = &error as &dyn std::error::Error, "a statement failed");
        }
        let mut problem = Problem::new(status, word, title, detail);
        if let Some(place) = error.place() {
            problem = problem.with("line", place.line).with("column", place.column);
        }
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, body: &str) -> Result<SqlAsk, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        SqlAsk::of_body(&headers, body.as_bytes().to_vec(), None)
            .map_err(|problem| problem.to_json()["detail"].as_str().unwrap().to_owned())
    }

    #[test]
    fn names_that_begin_as_the_servers_own_are_refused() {
        let named = |name: &'static str| {
            let headers = HeaderMap::from_iter([(STATEMENT_FIELD, HeaderValue::from_static(name))]);
            statement_id(&headers).map_err(|problem| problem.to_json()["detail"].as_str().unwrap().to_owned())
        };
        for name in ["sql-28", "SQL-28", "sql-", "sql-mine", "pg-3-1", "Pg-"] {
            assert!(named(name).unwrap_err().contains("are reserved for the server"), "{name}");
        }
        for name in ["mine", "sql", "sql_28", "my-sql-28", "pgx", "cli-12-1", "s"] {
            assert_eq!(named(name).unwrap().as_deref(), Some(name));
        }
    }

    #[test]
    fn statements_are_text_or_json() {
        let ask = read("text/plain", "SELECT 1").unwrap();
        assert_eq!(ask, SqlAsk { text: "SELECT 1".into(), dialect: Dialect::Native, parameters: vec![] });
        let ask = read(
            "application/json",
            r#"{"query": "x", "dialect": "spark", "parameters": [null, true, 7, 0.5, "t", 18446744073709551615]}"#,
        )
        .unwrap();
        assert_eq!(ask.dialect, Dialect::Spark);
        let expected = [
            Parameter::Null,
            Parameter::Boolean(true),
            Parameter::Long(7),
            Parameter::Double(0.5),
            Parameter::Text("t".into()),
            Parameter::Double(18_446_744_073_709_551_615.0),
        ];
        assert_eq!(ask.parameters, expected);
        for (body, fault) in [
            ("[]", "the body is not a JSON object"),
            ("{}", "the body has no member `query`"),
            (r#"{"query": 1}"#, "member `query` is not a string"),
            (r#"{"query": "x", "parameters": [[]]}"#, "parameter $1 is a list or an object"),
            (r#"{"query": "x", "times": true}"#, "no member `times` here"),
            (r#"{"query": "x", "dialect": "bullet"}"#, "there is no dialect `bullet`"),
        ] {
            assert_eq!(read("application/json", body).unwrap_err(), fault);
        }
    }
}
