//! `/v1/queries`: submits, validates, lists and ends queries, and attaches to their results.
//!
//! [`crate::ask`] parses a query. `Accept` selects the form of its answer ([`crate::accept`]); a client that accepts
//! anything gets NDJSON. `application/json` is one answer at the end, so an endless query in that form answers when it is
//! ended. `detach` runs the query without a reader, and resumes it after a restart if its stream is stored; its results are
//! fetched at `/results`. `dialect=bullet` runs it by Bullet's rules.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use swiftwater_lang::{Dialect, plan::Explain};
use swiftwater_runtime::{
    Detached, EndReason, Principal, QueryId, QueryList, QueryPage, QuerySort, RuntimeError, SubmitOptions,
};

use crate::{
    accept::{self, Form, prefers},
    body::{Encoding, Pieces, heavy},
    columns::columns_json,
    parameters::{Parameters, bad, cut},
    prefix::prefix,
    problem::Problem,
    query_request::{QueryRequest, Source, dialect_of},
    results,
    routes::{Name, name},
    server::Shared,
    status::json_response,
    wire::query_json,
};

/// The field that names the query whose results an answer has.
pub(crate) const QUERY_FIELD: HeaderName = HeaderName::from_static("swiftwater-query");
const TEXT_SETTING: &str = "engine.query_text_bytes_max";
/// The most queries of one list, which is some 5 MB.
const LISTED_MAX: usize = 10_000;
/// Texts up to this length are parsed and planned where they stand.
const PLAIN_TEXT_BYTES: usize = 4 << 10;

pub(crate) async fn submit(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let parameters =
        Parameters::parse(parts.uri.query(), &["detach", "dialect", "linger_ms", "on_missing", "times"])?;
    let detach = parameters.flag("detach")?;
    let linger_ms = linger_ms(&parameters, detach)?;
    let times = parameters.flag("times")?;
    let dialect = parameters.get("dialect").map(dialect_of).transpose()?;
    let ask = requested_query(&shared, &parts.headers, body, dialect).await?;
    let text = ask.text();

    let principal = Principal::anonymous();
    let waits = waits_for_missing(&parameters)?;
    let mut options = SubmitOptions { detach, linger_ms, times, waits, ..ask.options() };
    shared.engine.pin_joined(text, &options).await?;
    if text.to_ascii_lowercase().contains("explain") {
        let plan = match heavy(heaviness(text), || shared.engine.check(&principal, text, &options))?.explain {
            Some(Explain::Plan) => {
                Some(heavy(heaviness(text), || shared.engine.explain(&principal, text, &options))?)
            }
            Some(Explain::Analyze) => {
                Some(shared.engine.explain_analyze(&principal, text, options.clone()).await?)
            }
            None => None,
        };
        if let Some(plan) = plan {
            return Ok(explained(&parts.headers, plan));
        }
    }
    if detach {
        shared.engine.ask_cluster(text, &mut options).await?;
        let Detached { id, fleeting, warnings } =
            shared.engine.submit_detached(&principal, text, options).await?;
        let place = format!("/v1/queries/{id}");
        let results = format!("{}{place}/results", prefix(&shared.config.prefix, &parts.headers));
        let mut answer = json!({"id": id.to_string(), "results": results, "durable": fleeting.is_none()});
        if let Some(why) = &fleeting {
            answer["not_durable"] = why.as_ref().into();
        }
        if !warnings.is_empty() {
            answer["warnings"] = warnings.into();
        }
        let fields = [(header::LOCATION, place), (QUERY_FIELD, id.to_string())];
        return Ok((fields, json_response(StatusCode::CREATED, &answer)).into_response());
    }
    let form = accept::form(&parts.headers)?;
    options.one_answer = form == Form::Json;
    shared.engine.ask_cluster(text, &mut options).await?;
    let subscription = heavy(heaviness(text), || shared.engine.submit(&principal, text, options))?;
    results::response(subscription, form, shared.config.keep_alive_ms).await
}

/// Milliseconds for which a query outlives its reader.
fn linger_ms(parameters: &Parameters, detach: bool) -> Result<u64, Problem> {
    let Some(text) = parameters.get("linger_ms") else { return Ok(0) };
    if detach {
        return Err(bad("`linger_ms` and `detach` exclude each other")
            .hint("A detached query outlives its reader for good."));
    }
    text.parse().map_err(|_| bad(format!("`linger_ms` is `{}`, which is no whole number", cut(text))))
}

/// True if windows of a query over a cluster wait for partitions that are missing.
fn waits_for_missing(parameters: &Parameters) -> Result<bool, Problem> {
    match parameters.get("on_missing") {
        None | Some("mark") => Ok(false),
        Some("wait") => Ok(true),
        Some(other) => Err(bad(format!("`on_missing` is `{}`", cut(other))).hint(
            "`mark` answers windows without missing partitions, and names these; `wait` waits for them.",
        )),
    }
}

/// Checks that a query could be run, and returns the shape of its answer.
pub(crate) async fn validate(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query(), &["dialect"])?;
    let dialect = parameters.get("dialect").map(dialect_of).transpose()?;
    let ask = requested_query(&shared, &parts.headers, body, dialect).await?;
    let (text, options) = (ask.text(), ask.options());
    shared.engine.pin_joined(text, &options).await?;
    let facts = heavy(heaviness(text), || shared.engine.check(&Principal::anonymous(), text, &options))?;
    let answer = json!({
        "stream": facts.stream.as_str(),
        "columns": facts.columns.as_deref().map(columns_json),
        "windowed": facts.has_window,
        "explain": facts.explain.is_some(),
        "duration_ms": facts.duration_ms,
        "warnings": facts.warnings,
    });
    Ok(json_response(StatusCode::OK, &answer))
}

/// The query that a request asks; a prepared or saved one with its text.
async fn requested_query(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    dialect: Option<Dialect>,
) -> Result<QueryRequest, Problem> {
    let body = body_of(shared, headers, body).await?;
    let mut ask = QueryRequest::of_body(headers, body, dialect)?;
    if let Source::Prepared(id) = &ask.source {
        let prepared = shared.prepared.find(id)?;
        if ask.dialect.is_some() {
            return Err(Problem::bad_request("a prepared query has its dialect already"));
        }
        ask = QueryRequest { parameters: ask.parameters, ..prepared.ask.clone() };
    }
    let ask = with_saved_text(shared, ask)?;
    check_length(shared, ask.text())?;
    Ok(ask)
}

/// A saved query with its text and its dialect.
pub(crate) fn with_saved_text(shared: &Shared, ask: QueryRequest) -> Result<QueryRequest, Problem> {
    let Source::Saved(name) = &ask.source else { return Ok(ask) };
    if ask.dialect.is_some() {
        return Err(Problem::bad_request("a saved query has its dialect already"));
    }
    #[cfg(feature = "history")]
    {
        let (source, dialect) = crate::saved::source_of(shared, name)?;
        Ok(QueryRequest { source, dialect: Some(dialect), parameters: ask.parameters })
    }
    #[cfg(not(feature = "history"))]
    {
        let _ = (shared, name);
        Err(Problem::bad_request(crate::engine::WITHOUT_HISTORY))
    }
}

pub(crate) fn check_length(shared: &Shared, text: &str) -> Result<(), Problem> {
    let (bytes, most) = (text.len(), shared.engine.config().query_text_bytes_max);
    if bytes > most {
        let detail = format!("the query is {bytes} bytes long, limit is {most}");
        return Err(Problem::too_large(detail, TEXT_SETTING, most as u64));
    }
    Ok(())
}

/// The body of a request that has a query in it.
pub(crate) async fn body_of(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    // In JSON every character may be written as six.
    let bytes_max = shared.engine.config().query_text_bytes_max as u64 * 6 + 4096;
    let encoding = Encoding::of(headers)?;
    let pieces = Pieces::new(body, encoding, bytes_max, shared.config.body_read_timeout_ms, shared.share());
    let body = pieces.whole().await.map_err(|fault| fault.problem(TEXT_SETTING, bytes_max))?;
    Ok(without_mark(body))
}

/// The text without a byte order mark, with which some editors begin a file.
pub(crate) fn without_mark(mut text: Vec<u8>) -> Vec<u8> {
    if text.starts_with(b"\xEF\xBB\xBF") {
        text.drain(..3);
    }
    text
}

/// Lists queries; with `query`, for a client that takes server-sent events, asks one instead. So a browser's
/// `EventSource`, which sends GET only, needs no second call.
pub(crate) async fn list_or_ask(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let known = ["query", "dialect", "on_missing", "prefix", "sort", "limit", "after"];
    let parameters = Parameters::parse(uri.query(), &known)?;
    match parameters.get("query") {
        None => match ["dialect", "on_missing"].iter().find(|name| parameters.get(name).is_some()) {
            Some(alone) => Err(bad(format!("parameter `{alone}` needs a `query` beside it"))),
            None => list(&shared, &parameters),
        },
        Some(text) => submit_by_get(&shared, text, &parameters, &headers).await,
    }
}

async fn submit_by_get(
    shared: &Shared,
    text: &str,
    parameters: &Parameters,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    if let Some(other) =
        ["prefix", "sort", "limit", "after"].iter().find(|name| parameters.get(name).is_some())
    {
        return Err(bad(format!("parameter `{other}` is for the list of queries, and `query` submits one")));
    }
    // A GET that begins something needs a mark that no link, image or form of another page can send.
    if accept::form(headers)? != Form::ServerSentEvents {
        return Err(Problem::bad_request("GET submits a query only with `Accept: text/event-stream`")
            .hint("Send it in the body of POST /v1/queries."));
    }
    check_length(shared, text)?;
    let dialect = parameters.get("dialect").map(dialect_of).transpose()?;
    let ask = QueryRequest { source: Source::Bql(text.to_owned()), dialect, parameters: Vec::new() };
    let mut options = SubmitOptions { waits: waits_for_missing(parameters)?, ..ask.options() };
    shared.engine.pin_joined(text, &options).await?;
    shared.engine.ask_cluster(text, &mut options).await?;
    let principal = Principal::anonymous();
    let subscription = heavy(heaviness(text), || shared.engine.submit(&principal, text, options))?;
    results::response(subscription, Form::ServerSentEvents, shared.config.keep_alive_ms).await
}

fn list(shared: &Shared, parameters: &Parameters) -> Result<Response, Problem> {
    let sort = sort_of(parameters.get("sort"))?;
    let limit = parameters.limit(LISTED_MAX)?;
    let after = match parameters.get("after") {
        None => None,
        Some(_) if !sort.has_pages() => {
            return Err(bad("a list by cost has no next page: costs change in the meantime")
                .hint("Raise `limit`, or write sort=oldest or sort=newest."));
        }
        Some(text) => {
            Some(text.parse().map_err(|error| bad(format!("parameter `after`: `{}`: {error}", cut(text))))?)
        }
    };
    let prefix = parameters.get("prefix").unwrap_or_default().to_owned();
    let list = QueryList { prefix, sort, limit, after };
    Ok(heavy(usize::MAX, || {
        let mut text = list_text(shared, &list);
        text.push('\n');
        (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], text).into_response()
    }))
}

/// The order of a list of queries; the oldest come first where none is stated.
pub(crate) fn sort_of(name: Option<&str>) -> Result<QuerySort, Problem> {
    Ok(match name {
        None | Some("oldest") => QuerySort::Oldest,
        Some("newest") => QuerySort::Newest,
        Some("cpu") => QuerySort::Cpu,
        Some("state") => QuerySort::State,
        Some("matches") => QuerySort::Matches,
        Some("out") => QuerySort::Out,
        Some(other) => {
            return Err(bad(format!("`{}` is not an order of queries", cut(other)))
                .hint("Write sort=oldest, newest, cpu, state, matches or out."));
        }
    })
}

/// A list of queries as a JSON object.
pub(crate) fn list_text(shared: &Shared, list: &QueryList) -> String {
    let QueryPage { queries, next } = shared.engine.list_queries(&Principal::anonymous(), list);
    // Written one by one: as values all of them would be many times as large.
    let mut text = String::from("{\"queries\":[");
    for (place, query) in queries.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&query_json(query).to_string());
    }
    text.push(']');
    if let Some(next) = next {
        text.push_str(&format!(",\"next\":\"{next}\""));
    }
    text.push('}');
    text
}

pub(crate) async fn query(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = id(path)?;
    let status = or_elsewhere(&shared, &id, shared.engine.query(&Principal::anonymous(), &id)).await?;
    Ok(json_response(StatusCode::OK, &query_json(&status)))
}

/// Ends a query; the reader of its results still gets the last emit.
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = id(path)?;
    let ended =
        heavy(usize::MAX, || shared.engine.end_query(&Principal::anonymous(), &id, EndReason::Killed));
    or_elsewhere(&shared, &id, ended).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Attaches to a detached query, after the last emit that was read. A reader that names its last emit
/// (`Last-Event-ID`, as browsers do when they connect again, or `after`) gets those after it, as far as they are
/// kept.
pub(crate) async fn results(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["after"])?;
    let field = headers.get("last-event-id").map(|field| field.to_str().unwrap_or("?"));
    let after = match parameters.get("after").or(field) {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| bad(format!("`{}` is not the number of an emit", cut(text))))?)
        }
    };
    let form = accept::form(&headers)?;
    let (principal, id) = (Principal::anonymous(), id(path)?);
    let subscription = match after {
        None => shared.engine.attach(&principal, &id),
        Some(number) => shared.engine.attach_after(&principal, &id, number),
    };
    let subscription = or_elsewhere(&shared, &id, subscription).await?;
    results::response(subscription, form, shared.config.keep_alive_ms).await
}

/// The result of a call for a query. If this server has no such query, and another node of the cluster serves it, the error names that.
pub(crate) async fn or_elsewhere<T>(
    shared: &Shared,
    id: &QueryId,
    returned: Result<T, impl Into<Problem>>,
) -> Result<T, Problem> {
    match returned.map_err(Into::into) {
        Err(problem) if problem.status() == StatusCode::NOT_FOUND => {
            Err(shared.engine.other_node_of_query(id).await.map_or(problem, Into::into))
        }
        returned => returned,
    }
}

/// The weight of a query's text for [`heavy`].
pub(crate) fn heaviness(text: &str) -> usize {
    if text.len() > PLAIN_TEXT_BYTES { usize::MAX } else { 0 }
}

fn id(path: Name) -> Result<QueryId, Problem> {
    let text = name(path)?;
    Ok(text.parse().map_err(|_| RuntimeError::NoQuery(text))?)
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
