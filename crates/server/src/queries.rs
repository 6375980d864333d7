//! `/v1/queries`: asked, listed, ended, attached to.
//!
//! A query comes as `text/plain` (also without a type, or with the one that `curl -d` sends) or as JSON
//! `{"query": "…", "parameters": []}`. Its answer's form is chosen by `Accept` ([`crate::accept`]); who accepts
//! anything gets NDJSON. `application/json` is one answer at the end, so an endless query asked that way answers when
//! it is ended. `detach` lets the query stand without a reader; its results are fetched at `/results`. `dialect=bullet`
//! takes it by Bullet's rules.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use swiftwater_engine::{EndReason, Principal, QueryId, SubmitOptions};
use swiftwater_lang::Dialect;

use crate::{
    accept::{self, Form, prefers},
    body::{Encoding, Pieces, heavy, unsupported},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    results,
    routes::{Name, name},
    server::Shared,
    status::json_response,
    wire::query_json,
};

/// The field that names the query whose results an answer has.
pub(crate) const QUERY_FIELD: HeaderName = HeaderName::from_static("swiftwater-query");
const TEXT_SETTING: &str = "engine.query_text_bytes_max";
/// Texts up to this length are parsed and planned where they stand.
const PLAIN_TEXT_BYTES: usize = 4 << 10;

pub(crate) async fn submit(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query(), &["detach", "dialect", "times"])?;
    let detach = parameters.flag("detach")?;
    let times = parameters.flag("times")?;
    let dialect = match parameters.get("dialect") {
        None | Some("native") => Dialect::Native,
        Some("bullet") => Dialect::Bullet,
        Some(other) => {
            return Err(
                bad(format!("there is no dialect `{}`", cut(other))).hint("Dialects are: native, bullet.")
            );
        }
    };
    let media = Media::of(&parts.headers)?;

    let text_bytes_max = shared.engine.config().query_text_bytes_max;
    // In JSON every character may be written as six.
    let bytes_max = text_bytes_max as u64 * 6 + 4096;
    let encoding = Encoding::of(&parts.headers)?;
    let pieces = Pieces::new(body, encoding, bytes_max, shared.config.body_read_timeout_ms);
    let body = pieces.whole().await.map_err(|fault| fault.problem(TEXT_SETTING, bytes_max))?;
    let text = media.text(body)?;
    if text.len() > text_bytes_max {
        let detail = format!("the query is {} bytes long, limit is {text_bytes_max}", text.len());
        return Err(Problem::too_large(detail, TEXT_SETTING, text_bytes_max as u64));
    }
    let heaviness = heaviness(&text);

    let principal = Principal::anonymous();
    let mut options = SubmitOptions { dialect, detach, times, ..SubmitOptions::default() };
    if text.to_ascii_lowercase().contains("explain") && shared.engine.is_explain(&text, options.dialect) {
        let plan = heavy(heaviness, || shared.engine.explain(&principal, &text, &options))?;
        return Ok(explained(&parts.headers, plan));
    }
    if detach {
        let subscription = heavy(heaviness, || shared.engine.submit(&principal, &text, options))?;
        let id = subscription.query().id.clone();
        drop(subscription);
        let place = format!("/v1/queries/{id}");
        let answer = json!({"id": id.to_string(), "results": format!("{place}/results")});
        let fields = [(header::LOCATION, place), (QUERY_FIELD, id.to_string())];
        return Ok((fields, json_response(StatusCode::CREATED, &answer)).into_response());
    }
    let form = accept::form(&parts.headers)?;
    options.one_answer = form == Form::Json;
    let subscription = heavy(heaviness, || shared.engine.submit(&principal, &text, options))?;
    results::response(subscription, form, shared.config.keep_alive_ms).await
}

pub(crate) async fn list(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    Ok(heavy(usize::MAX, || {
        let queries = shared.engine.queries(&Principal::anonymous());
        let queries: Vec<Value> = queries.iter().map(query_json).collect();
        json_response(StatusCode::OK, &json!({"queries": queries}))
    }))
}

pub(crate) async fn query(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let status = shared.engine.query(&Principal::anonymous(), &id(path)?)?;
    Ok(json_response(StatusCode::OK, &query_json(&status)))
}

/// Ends a query; whoever reads its results still gets the last emit.
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = id(path)?;
    heavy(usize::MAX, || shared.engine.end_query(&Principal::anonymous(), &id, EndReason::Killed))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Attaches to a detached query.
pub(crate) async fn results(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let form = accept::form(&headers)?;
    let subscription = shared.engine.attach(&Principal::anonymous(), &id(path)?)?;
    results::response(subscription, form, shared.config.keep_alive_ms).await
}

/// What [`heavy`] is to take a query's text for.
pub(crate) fn heaviness(text: &str) -> usize {
    if text.len() > PLAIN_TEXT_BYTES { usize::MAX } else { 0 }
}

fn id(path: Name) -> Result<QueryId, Problem> {
    Ok(QueryId(name(path)?.into()))
}

fn explained(headers: &HeaderMap, mut plan: String) -> Response {
    if prefers(headers, "application/json", "text/plain") {
        return json_response(StatusCode::OK, &json!({"explain": plan}));
    }
    if !plan.ends_with('\n') {
        plan.push('\n');
    }
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], plan).into_response()
}

/// How a query is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Media {
    Text,
    Json,
}

impl Media {
    fn of(headers: &HeaderMap) -> Result<Media, Problem> {
        let Some(field) = headers.get(header::CONTENT_TYPE) else { return Ok(Media::Text) };
        let field = field.to_str().unwrap_or("?");
        let name = field.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match name.as_str() {
            "" | "text/plain" | "application/x-www-form-urlencoded" => Ok(Media::Text),
            "application/json" => Ok(Media::Json),
            _ => Err(unsupported(format!("a query cannot be written as `{}`", cut(field)))
                .hint("Types are: text/plain, application/json.")),
        }
    }

    fn text(self, body: Vec<u8>) -> Result<String, Problem> {
        match self {
            Media::Text => String::from_utf8(body).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                Problem::bad_request(format!("the query is not UTF-8 at byte {at}"))
            }),
            Media::Json => query_of_json(&body),
        }
    }
}

fn query_of_json(body: &[u8]) -> Result<String, Problem> {
    let form = "Write {\"query\": \"SELECT …\", \"parameters\": []}.";
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        let problem = Problem::bad_request(format!("the body is not valid JSON: {error}"));
        problem.with("line", error.line()).with("column", error.column()).hint(form)
    })?;
    let Value::Object(members) = value else {
        return Err(Problem::bad_request("the body is not a JSON object").hint(form));
    };
    let mut query = None;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("query", Value::String(text)) => query = Some(text),
            ("query", _) => return Err(Problem::bad_request("member `query` is not a string").hint(form)),
            ("parameters", Value::Null) => {}
            ("parameters", Value::Array(values)) if values.is_empty() => {}
            ("parameters", Value::Array(_)) => {
                let detail = "parameters of queries are not supported yet";
                let problem = Problem::new(
                    StatusCode::BAD_REQUEST,
                    "not-supported",
                    "This is not supported yet",
                    detail,
                );
                return Err(problem.hint("Write the values into the query."));
            }
            ("parameters", _) => {
                return Err(Problem::bad_request("member `parameters` is not a list").hint(form));
            }
            (other, _) => {
                let detail = format!("no member `{}` in a query's JSON form", cut(other));
                return Err(Problem::bad_request(detail).hint("Members are: query, parameters."));
            }
        }
    }
    query.ok_or_else(|| Problem::bad_request("the body has no member `query`").hint(form))
}
