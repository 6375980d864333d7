//! `/v1/streams/{stream}/search` and `/v1/search`: searches stored events.
//!
//! ```text
//! GET /v1/streams/logs/search?q=timeout&from=now-15m&limit=20
//! GET /v1/streams/logs/search?q=timeout&follow    goes on with later events
//! GET /v1/streams/logs/search/fields?q=timeout    the columns of the events that match
//! GET /v1/streams/logs/search/index?wait=30s      progress of the search index
//! GET /v1/search?stream=logs&stream=traces&q=timeout
//! POST …                                     the same names as members of a JSON object
//! GET /v1/activity/{id}                      the events of all streams that have the id
//! POST /v1/activities/search                 the ids whose events satisfy a tree of conditions
//! GET /v1/searches, GET, DELETE /v1/searches/{id}    what runs
//! ```
//!
//! `Accept` selects one JSON object, or one hit per line with the count and the cursor in the header. A client that
//! disconnects ends its search.

mod activity;
mod answer;
mod follow;
mod parameters;

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri},
    response::Response,
};
use serde_json::{Value, json};
use swiftwater_engine::{Principal, RunningSearch, SearchError, SearchState};
use swiftwater_event::StreamName;
use swiftwater_lang::ddl::parse_duration_ms;
use tokio::time::Instant;

use crate::{
    accept::prefers,
    body::heavy,
    parameters::{Parameters, bad, cut},
    problem::Problem,
    routes::{Name, name},
    server::{Connection, Shared},
    status::json_response,
};
pub(crate) use activity::{activities, activity};
use parameters::{FIELD_PARAMETERS, PARAMETERS, Values};

/// Names a search, in requests and answers.
const SEARCH_FIELD: HeaderName = HeaderName::from_static("swiftwater-search");
/// Characters of such a name.
const ID_CHARS_MAX: usize = 64;
/// How the names begin that the server gives.
const OWN_PREFIX: &str = "search-";

/// Searches one stream.
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    path: Name,
    request: Request,
) -> Result<Response, Problem> {
    let stream = name(path)?;
    answer(&shared, Some(stream), request).await
}

/// Searches several streams.
pub(crate) async fn streams(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    answer(&shared, None, request).await
}

async fn answer(shared: &Arc<Shared>, stream: Option<String>, request: Request) -> Result<Response, Problem> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let mut values = Values::of_query(parts.uri.query().unwrap_or_default(), &PARAMETERS)?;
    if parts.method == Method::POST {
        values.add_body(shared, &parts, body).await?;
    }
    let client = parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address);
    let search = values.request(stream, client, search_id(&parts.headers)?)?;
    let is_explained = values.explain()?;
    if values.follow()? {
        let position = follow::position(&parts.headers)?;
        let follow = shared.engine.follow_search(&Principal::anonymous(), search, position).await?;
        return Ok(follow::response(shared, follow, &parts.headers));
    }
    let answer = shared.engine.search(&Principal::anonymous(), &search).await?;
    Ok(heavy(answer.hits.iter().map(|hit| hit.event.len()).sum(), || {
        match prefers(&parts.headers, "application/x-ndjson", "application/json") {
            true => answer::lines(&answer),
            false => answer::object(&answer, (search.partial, is_explained), started),
        }
    }))
}

/// Summarizes the columns of the events of a stream that match.
pub(crate) async fn fields(
    State(shared): State<Arc<Shared>>,
    path: Name,
    request: Request,
) -> Result<Response, Problem> {
    let (started, stream) = (Instant::now(), name(path)?);
    let (parts, body) = request.into_parts();
    let mut values = Values::of_query(parts.uri.query().unwrap_or_default(), &FIELD_PARAMETERS)?;
    if parts.method == Method::POST {
        values.add_body(&shared, &parts, body).await?;
    }
    let client = parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address);
    let mut search = values.request(Some(stream), client, search_id(&parts.headers)?)?;
    let most = std::mem::replace(&mut search.limit, 0);
    let fields = shared.engine.search_fields(&Principal::anonymous(), &search, most).await?;
    Ok(json_response(StatusCode::OK, &answer::fields(&fields, started)))
}

/// The longest time that a client waits for an index.
const INDEX_WAIT_MAX: Duration = Duration::from_secs(600);

/// The progress of the index files of a stream; with `wait`, once all its events have one, or after that time.
pub(crate) async fn index(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    let stream = name(path)?;
    let stream = StreamName::new(&stream).map_err(|error| bad(error.to_string()))?;
    let parameters = Parameters::parse(uri.query(), &["wait"])?;
    let wait = match parameters.get("wait") {
        None => Duration::ZERO,
        Some(text) => {
            let millis = parse_duration_ms(text);
            let wait = millis.map(Duration::from_millis).filter(|wait| *wait <= INDEX_WAIT_MAX);
            wait.ok_or_else(|| {
                bad(format!("parameter `wait` is a time up to 600s, such as 30s, not `{}`", cut(text)))
            })?
        }
    };
    let found = shared.engine.await_search_index(&Principal::anonymous(), &stream, wait).await?;
    let body = json!({
        "stream": stream.as_str(),
        "complete": found.is_complete,
        "indexed_files": found.indexed_files,
        "waiting_files": found.waiting_files,
        "waiting_rows": found.waiting_rows,
        "tail_rows": found.tail_rows,
        "unusable_files": found.unusable_files,
    });
    Ok(json_response(StatusCode::OK, &body))
}

/// The searches that wait or run.
pub(crate) async fn list(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let searches = shared.engine.searches(&Principal::anonymous());
    let searches: Vec<Value> = searches.iter().map(running_json).collect();
    Ok(json_response(StatusCode::OK, &json!({"searches": searches})))
}

/// A search that waits, runs or ended lately.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = name(path)?;
    let search = shared.engine.running_search(&Principal::anonymous(), &id);
    let search = search.ok_or_else(|| no_search(&id))?;
    Ok(json_response(StatusCode::OK, &running_json(&search)))
}

/// Ends a search.
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = name(path)?;
    match shared.engine.end_search(&Principal::anonymous(), &id) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_search(&id)),
    }
}

fn no_search(id: &str) -> Problem {
    let detail = format!("no search `{}` is running", cut(id));
    Problem::new(StatusCode::NOT_FOUND, "not-found", "The object does not exist", detail)
}

pub(crate) fn running_json(search: &RunningSearch) -> Value {
    let state = match search.state {
        SearchState::Waiting => "waiting",
        SearchState::Running => "running",
        SearchState::Done => "done",
        SearchState::Failed => "failed",
        SearchState::Cancelled => "cancelled",
    };
    json!({
        "id": &*search.id,
        "streams": search.streams.iter().map(|stream| stream.as_str()).collect::<Vec<_>>(),
        "q": search.query,
        "state": state,
        "elapsed_ms": u64::try_from(search.elapsed.as_millis()).unwrap_or(u64::MAX),
        "rows_scanned": search.rows_scanned,
        "bytes_read": search.bytes_read,
    })
}

/// The name that a request gives its search.
fn search_id(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(field) = headers.get(SEARCH_FIELD) else { return Ok(None) };
    let id = field.to_str().unwrap_or_default();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if id.starts_with(OWN_PREFIX) {
        let detail = format!("names of searches that begin with `{OWN_PREFIX}` are reserved for the server");
        return Err(bad(detail).hint("Choose another name, such as `report-7`."));
    }
    if (1..=ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(is_part) {
        return Ok(Some(id.to_owned()));
    }
    Err(bad("the field `Swiftwater-Search` is not a name")
        .hint(format!("A name is 1 to {ID_CHARS_MAX} of A-Z, a-z, 0-9, `_`, `-` and `.`.")))
}

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Problem {
        match error {
            SearchError::Failed(error) => error.into(),
            SearchError::Busy { .. } => {
                let (status, title) = (StatusCode::TOO_MANY_REQUESTS, "A limit was exceeded");
                Problem::new(status, "limit-passed", title, error.to_string())
                    .with("setting", "search.waiting_max")
                    .hint("Try again later, or raise search.searches_max.")
            }
        }
    }
}
