//! The status pages: streams, metrics, health, and the index.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use swiftwater_event::StreamName;
use swiftwater_runtime::{Principal, StreamList, StreamSort};

use crate::{
    accept::prefers,
    body::heavy,
    config::ConsoleMode,
    console,
    inputs::greeting,
    parameters::{Parameters, bad, cut},
    problem::Problem,
    prometheus,
    routes::{Name, name},
    server::Shared,
    wire::stream_json,
};

/// The most streams of one list, which is some 4 MB.
const STREAMS_MAX: usize = 10_000;

/// `application/json` from a value, with a line's end.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut text = value.to_string();
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A stream's name out of a path.
pub(crate) fn stream_name(path: Name) -> Result<StreamName, Problem> {
    StreamName::new(&name(path)?).map_err(|error| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "stream-name-invalid",
            "No stream can have this name",
            error.to_string(),
        )
        .hint("A name is 1 to 128 of A-Z, a-z, 0-9, `_`, `-` and `.`, beginning with a letter or `_`.")
    })
}

pub(crate) async fn streams(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["prefix", "sort", "limit", "after"])?;
    let sort = stream_sort_of(parameters.get("sort"))?;
    let after = match parameters.get("after") {
        None => None,
        Some(_) if !sort.has_pages() => {
            return Err(bad("a list by numbers has no next page: numbers change in the meantime")
                .hint("Raise `limit`, or write sort=name."));
        }
        Some(name) => {
            Some(StreamName::new(name).map_err(|error| bad(format!("parameter `after`: {error}")))?)
        }
    };
    let prefix = parameters.get("prefix").unwrap_or_default().to_owned();
    let list = StreamList { prefix, sort, limit: parameters.limit(STREAMS_MAX)?, after };
    Ok(heavy(usize::MAX, || {
        let page = shared.engine.list_streams(&Principal::anonymous(), &list);
        let streams: Vec<Value> = page.streams.iter().map(stream_json).collect();
        let mut answer = json!({"streams": streams});
        if let Some(next) = page.next {
            answer["next"] = next.as_str().into();
        }
        json_response(StatusCode::OK, &answer)
    }))
}

/// The order of a list of streams; by name where none is stated.
pub(crate) fn stream_sort_of(name: Option<&str>) -> Result<StreamSort, Problem> {
    Ok(match name {
        None | Some("name") => StreamSort::Name,
        Some("rate") => StreamSort::Rate,
        Some("events") => StreamSort::Events,
        Some("queries") => StreamSort::Queries,
        Some("lag") => StreamSort::Lag,
        Some(other) => {
            return Err(bad(format!("`{}` is not an order of streams", cut(other)))
                .hint("Write sort=name, rate, events, queries or lag."));
        }
    })
}

pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let name = stream_name(path)?;
    let stream = shared.engine.stream(&Principal::anonymous(), &name)?;
    Ok(json_response(StatusCode::OK, &stream_json(&stream)))
}

pub(crate) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = heavy(usize::MAX, || prometheus::text(&shared.families()));
    ([(header::CONTENT_TYPE, prometheus::MEDIA_TYPE)], text).into_response()
}

/// The process is there.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Events and queries are taken.
pub(crate) async fn readyz(State(shared): State<Arc<Shared>>) -> Result<&'static str, Problem> {
    if shared.is_ready() {
        return match heavy(usize::MAX, || shared.engine.not_ready()) {
            None => Ok("ready\n"),
            Some(error) => {
                let problem = not_ready(error.to_string());
                Err(match error.hint() {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                })
            }
        };
    }
    Err(not_ready("the server is shutting down"))
}

fn not_ready(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The server cannot do this now", detail)
}

const ABOUT: &str = "\
Swiftwater: live queries over event streams.

Send events:   curl --data-binary '{\"user\": \"ada\", \"ms\": 12}' http://HOST/v1/streams/clicks/events
Ask a query:   curl -N http://HOST/v1/queries -d 'SELECT * FROM STREAM(clicks, MAX, TIME)'

/v1/streams    streams
/v1/queries    running queries
/v1/views      views, by key
/v1/prepared   prepared queries
/v1/openapi.json   all calls, as OpenAPI
/api/bullet/   the API of Bullet
/metrics       metrics for Prometheus
/healthz       whether the process runs
/readyz        whether the server accepts events and queries
";

pub(crate) async fn index(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Some(greeting) = greeting(&headers) {
        return greeting;
    }
    let wants_page = prefers(&headers, "text/html", "text/plain");
    if wants_page && shared.config.console_mode != ConsoleMode::Off {
        return console::page(&shared, &headers);
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost:8080");
    let text = ABOUT.replace("HOST", host);
    if !wants_page {
        return ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response();
    }
    let mut page = text.replace('&', "&amp;").replace('<', "&lt;");
    for path in ["/v1/streams", "/v1/queries", "/v1/views", "/metrics", "/healthz", "/readyz"] {
        page = page.replace(&format!("\n{path}  "), &format!("\n<a href=\"{path}\">{path}</a>  "));
    }
    let page = format!("<!doctype html><meta charset=utf-8><title>Swiftwater</title><pre>{page}</pre>\n");
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}
