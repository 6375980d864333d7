//! Errors on the wire: problem details (RFC 9457).
//!
//! A problem's `type` is `urn:swiftwater:problem:` and a word that stays the same between versions; clients branch on that
//! and on the status. People read `title`, `detail` and `hint`.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use swiftwater_lang::{QueryError, QueryErrors};
use swiftwater_runtime::{ErrorKind, RuntimeError};

#[cfg(feature = "history")]
use swiftwater_engine::DedupError;

#[cfg(feature = "history")]
use crate::engine::EngineError;

/// One error, on its way to a client.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<ProblemFields>);

#[derive(Debug, Clone)]
struct ProblemFields {
    status: StatusCode,
    word: &'static str,
    title: &'static str,
    detail: String,
    extra: Map<String, Value>,
    /// True if the connection cannot be used for another request.
    close: bool,
    /// The node of the cluster that does what was asked for.
    node: Option<NodeAddress>,
}

/// The address of another node, beside the answer that names it.
#[derive(Debug, Clone)]
pub(crate) struct NodeAddress(pub(crate) String);

impl Problem {
    /// `title` is the same for all problems of this word; `detail` tells of this one.
    pub(crate) fn new(
        status: StatusCode,
        word: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem(Box::new(ProblemFields {
            status,
            word,
            title,
            detail: detail.into(),
            extra: Map::new(),
            close: false,
            node: None,
        }))
    }

    /// A request that makes no sense as it is.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "request-invalid", "The request is not valid", detail)
    }

    /// The problem that something exceeds a setting's limit.
    pub(crate) fn too_large(detail: impl Into<String>, setting: &'static str, limit: u64) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed", "A limit was exceeded", detail)
            .with("setting", setting)
            .with("limit", limit)
    }

    /// The problem that as many objects are there as a setting allows.
    pub(crate) fn too_many(detail: impl Into<String>, setting: &'static str, limit: u64) -> Problem {
        limit_problem(detail).with("setting", setting).with("limit", limit)
    }

    /// The server itself failed.
    pub(crate) fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed", detail)
    }

    /// An error of the engine, by what its caller can do about it.
    fn of_kind(kind: ErrorKind, detail: String) -> Problem {
        let (status, word, title) = match kind {
            ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "query-invalid", "The query cannot be run"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not-found", "The object does not exist"),
            ErrorKind::Conflict => {
                (StatusCode::CONFLICT, "conflict", "The state of the object does not allow this")
            }
            ErrorKind::Limit => return limit_problem(detail),
            ErrorKind::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The server cannot do this now")
            }
        };
        Problem::new(status, word, title, detail)
    }

    fn and_hint(self, hint: Option<String>) -> Problem {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Adds advice.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Problem {
        self.with("hint", hint.into())
    }

    /// Adds a member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.0.extra.insert(name.to_owned(), value.into());
        self
    }

    /// The status of its answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The fault and the hint, as one text.
    pub(crate) fn full_text(&self) -> String {
        match self.0.extra.get("hint").and_then(Value::as_str) {
            Some(hint) => format!("{}. {hint}", self.0.detail),
            None => self.0.detail.clone(),
        }
    }

    /// Ends the connection after the answer.
    pub(crate) fn closing(mut self) -> Problem {
        self.0.close = true;
        self
    }

    /// The body.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("type".to_owned(), format!("urn:swiftwater:problem:{}", self.0.word).into());
        object.insert("title".to_owned(), self.0.title.into());
        object.insert("status".to_owned(), self.0.status.as_u16().into());
        object.insert("detail".to_owned(), self.0.detail.as_str().into());
        object.extend(self.0.extra.clone());
        Value::Object(object)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut text = self.to_json().to_string();
        text.push('\n');
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.0.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(self.0.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.0.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(node) = self.0.node {
            response.extensions_mut().insert(node);
        }
        response
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Problem {
        let (kind, detail, hint) = (error.kind(), error.to_string(), error.hint());
        let problem = match error {
            RuntimeError::Query(errors) => return query_problem(&errors),
            RuntimeError::Limit { setting, wanted, limit, .. } => {
                limit_problem(detail).with("setting", setting).with("limit", limit).with("wanted", wanted)
            }
            _ => Problem::of_kind(kind, detail),
        };
        problem.and_hint(hint)
    }
}

#[cfg(feature = "history")]
impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        let (kind, detail, hint) = (error.kind(), error.to_string(), error.hint());
        let problem = match error {
            EngineError::Runtime(error) => return error.into(),
            EngineError::TooLarge { bytes_max, .. } => {
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed", "A limit was exceeded", detail)
                    .with("limit", bytes_max)
            }
            EngineError::OtherNode { node, address, .. } => {
                let status = match &address {
                    Some(_) => StatusCode::TEMPORARY_REDIRECT,
                    None => StatusCode::MISDIRECTED_REQUEST,
                };
                let mut problem =
                    Problem::new(status, "other-node", "Another node of the cluster does this", detail)
                        .with("node", node);
                if let Some(address) = address {
                    problem = problem.with("address", &*address);
                    problem.0.node = Some(NodeAddress(address));
                }
                problem
            }
            EngineError::Dedup(DedupError::TooOld { lowest, .. }) => {
                Problem::of_kind(kind, detail).with("lowest", lowest)
            }
            _ => Problem::of_kind(kind, detail),
        };
        problem.and_hint(hint)
    }
}

/// The problem of too many objects or requests; [`Problem::too_large`] is for a request that is itself too large.
fn limit_problem(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit-passed", "A limit was exceeded", detail)
}

/// The first fault is told at the top, all of them under `errors` where there are several.
fn query_problem(QueryErrors(errors): &QueryErrors) -> Problem {
    let detail = errors.first().map_or("", |error| error.message.as_str());
    let mut problem =
        Problem::new(StatusCode::BAD_REQUEST, "query-invalid", "The query cannot be run", detail);
    if let Some(first) = errors.first() {
        problem.0.extra = query_error(first);
    }
    if errors.len() > 1 {
        let all = errors.iter().map(|error| {
            let mut object = query_error(error);
            object.insert("message".to_owned(), error.message.as_str().into());
            Value::Object(object)
        });
        problem = problem.with("errors", all.collect::<Vec<_>>());
    }
    problem
}

fn query_error(error: &QueryError) -> Map<String, Value> {
    let mut object = Map::new();
    if let Some(line) = error.line {
        object.insert("line".to_owned(), json!(line));
    }
    if let Some(column) = error.column {
        object.insert("column".to_owned(), json!(column));
    }
    if let Some(hint) = &error.hint {
        object.insert("hint".to_owned(), hint.as_str().into());
    }
    if !error.excerpt.is_empty() {
        object.insert("excerpt".to_owned(), error.excerpt.as_str().into());
    }
    object
}

#[cfg(all(test, feature = "history"))]
mod tests {
    use super::*;

    fn fault(message: &str) -> QueryError {
        QueryError {
            line: Some(1),
            column: Some(8),
            message: message.to_owned(),
            hint: Some("Write a column.".to_owned()),
            excerpt: "SELECT FROM\n       ^".to_owned(),
        }
    }

    #[test]
    fn a_query_fault_is_told_with_its_place() {
        let problem = Problem::from(RuntimeError::Query(QueryErrors(vec![fault("no columns")])));
        let expected = json!({
            "type": "urn:swiftwater:problem:query-invalid", "title": "The query cannot be run", "status": 400,
            "detail": "no columns", "line": 1, "column": 8, "hint": "Write a column.",
            "excerpt": "SELECT FROM\n       ^",
        });
        assert_eq!(problem.to_json(), expected);
    }

    #[test]
    fn several_query_faults_are_all_told() {
        let problem =
            Problem::from(RuntimeError::Query(QueryErrors(vec![fault("no columns"), fault("no stream")])));
        assert_eq!(problem.to_json()["errors"][1]["message"], "no stream");
        assert_eq!(problem.to_json()["detail"], "no columns");
    }

    #[test]
    fn engine_errors_have_their_statuses() {
        let check = |error: EngineError, status| assert_eq!(Problem::from(error).to_json()["status"], status);
        check(EngineError::Runtime(RuntimeError::NoDefaultStream), 400);
        check(EngineError::Runtime(RuntimeError::NoQuery("x".to_owned())), 404);
        check(EngineError::not_found(swiftwater_runtime::ObjectKind::Stream, "x"), 404);
        check(EngineError::Runtime(RuntimeError::Attached("x".to_owned())), 409);
        check(EngineError::Runtime(RuntimeError::ShuttingDown), 503);
        let limit = EngineError::Runtime(RuntimeError::Limit {
            what: "queries",
            setting: "engine.queries_max",
            wanted: 2,
            limit: 1,
        });
        check(limit, 429);
    }
}
