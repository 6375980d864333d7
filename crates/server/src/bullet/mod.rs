//! Bullet's web API under `/api/bullet`, for clients that were written for it. A thin adapter: queries run by Bullet's rules
//! in the same engine, and are listed and ended at `/v1/queries` like all others.
//!
//! | call | |
//! | --- | --- |
//! | `POST queries/http-query` | one result; the connection stays open until then |
//! | `POST queries/sse-query` | a server-sent event for each result; a client that disconnects ends the query |
//! | `POST queries/validate-query` | 204, or 422 with the errors |
//! | `POST queries/async-query`, `GET`, `DELETE queries/async-query/{id}` | submitted now, results fetched later |
//! | `queries/ws-query` | STOMP over SockJS; over a plain WebSocket at `queries/ws-query/websocket` |
//! | `GET columns` | the declared fields, as a JSON API document |
//! | `POST /drpc/{function}` | as `http-query`, for clients of the RPC of Bullet's Storm backend |
//!
//! A query is BQL, or Bullet's JSON form if it begins with `{`. As in Bullet, the answer to a query that cannot run has
//! status 200 and a result whose `meta` has `errors`. [`crate::guard`] checks access before any of this. Bullet admits pages
//! of every origin; here `server.origins_allowed` must name an origin.

mod async_query;
mod columns;
mod conversation;
mod frames;
mod http_query;
#[cfg(test)]
mod laws;
mod outgoing;
mod polling;
#[cfg(feature = "history")]
pub(crate) mod pubsub;
mod sockjs;
mod stomp;
mod websocket;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use swiftwater_lang::Dialect;
use swiftwater_runtime::{Emit, EndReason, Principal, QueryForm, RuntimeError, SubmitOptions, Subscription};
use tokio::sync::Semaphore;

use crate::{
    body::heavy,
    config::BulletConfig,
    queries::heaviness,
    server::Shared,
    wire::{BulletError, write_bullet_emit, write_bullet_errors},
};

/// State shared by all requests to this API.
pub(crate) struct State {
    /// One for each query that may stand at once.
    places: Arc<Semaphore>,
    sessions: polling::Sessions,
}

impl State {
    pub(crate) fn new(config: &BulletConfig) -> State {
        let places = config.queries_max.min(Semaphore::MAX_PERMITS);
        State { places: Arc::new(Semaphore::new(places)), sessions: polling::Sessions::default() }
    }
}

/// The routes, as they are named in metrics.
pub(crate) const ROUTES: [&str; 12] = [
    "/api/bullet/columns",
    "/api/bullet/queries/http-query",
    "/api/bullet/queries/sse-query",
    "/api/bullet/queries/validate-query",
    "/api/bullet/queries/async-query",
    "/api/bullet/queries/async-query/{id}",
    "/api/bullet/queries/ws-query",
    "/api/bullet/queries/ws-query/",
    "/api/bullet/queries/ws-query/info",
    "/api/bullet/queries/ws-query/websocket",
    "/api/bullet/queries/ws-query/{server}/{session}/{transport}",
    "/drpc/{function}",
];

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/api/bullet/columns", get(columns::columns))
        .route("/api/bullet/queries/http-query", post(http_query::http_query))
        .route("/api/bullet/queries/sse-query", post(http_query::sse_query))
        .route("/api/bullet/queries/validate-query", post(http_query::validate_query))
        .route("/api/bullet/queries/async-query", post(async_query::submit_query))
        .route("/api/bullet/queries/async-query/{id}", get(async_query::results).delete(async_query::end))
        .route("/api/bullet/queries/ws-query", get(sockjs::greeting))
        .route("/api/bullet/queries/ws-query/", get(sockjs::greeting))
        .route("/api/bullet/queries/ws-query/info", get(sockjs::info))
        .route("/api/bullet/queries/ws-query/websocket", get(sockjs::plain_websocket))
        .route("/api/bullet/queries/ws-query/{server}/{session}/{transport}", any(sockjs::transport))
        // All functions are one: which topology answers was for Storm to know.
        .route("/drpc/{function}", post(http_query::http_query))
}

/// The options with which Bullet's queries are submitted.
fn options(shared: &Shared, text: &str) -> SubmitOptions {
    SubmitOptions {
        dialect: Dialect::Bullet,
        schema: shared.config.bullet.schema.clone(),
        form: QueryForm::of(text),
        ..SubmitOptions::default()
    }
}

/// Starts a query, or returns a result with the reason why it cannot.
async fn submit(shared: &Shared, text: &str, detach: bool) -> Result<Subscription, String> {
    let mut options = SubmitOptions { detach, ..options(shared, text) };
    // Of the whole cluster, if the default stream is one of a cluster.
    if let Err(error) = shared.engine.ask_cluster(text, &mut options).await {
        let resolutions = error.hint().into_iter().collect();
        return Err(written(&[BulletError { error: error.to_string(), resolutions }]));
    }
    heavy(heaviness(text), || shared.engine.submit(&Principal::anonymous(), text, options))
        .map_err(|error| refusal(&error))
}

/// A result with the reason why a query was refused.
fn refusal(error: &RuntimeError) -> String {
    match error {
        RuntimeError::ShuttingDown => unavailable(),
        _ => written(&BulletError::of(error)),
    }
}

fn unavailable() -> String {
    error_result("Service temporarily unavailable", &["Please try again later"])
}

fn too_many_queries() -> String {
    error_result("Too many concurrent queries in the system", &["Please try again later"])
}

fn invalid_query() -> String {
    error_result("Failed to parse query", &["Please provide a valid query"])
}

/// A result that is an error.
fn error_result(error: &str, resolutions: &[&str]) -> String {
    let resolutions = resolutions.iter().map(|&text| text.to_owned()).collect();
    written(&[BulletError { error: error.to_owned(), resolutions }])
}

fn written(errors: &[BulletError]) -> String {
    let mut out = Vec::new();
    write_bullet_errors(errors, &mut out);
    text_of(out)
}

fn text_of(out: Vec<u8>) -> String {
    String::from_utf8(out).expect("records and errors are written as UTF-8")
}

/// A result's JSON. The result of a killed query says so: its client did not ask for that.
fn result_text(emit: &Emit) -> String {
    if is_killed(emit) {
        return error_result("The query was killed", &["Submit it again."]);
    }
    let mut out = Vec::new();
    write_bullet_emit(emit, &mut out);
    text_of(out)
}

fn is_killed(emit: &Emit) -> bool {
    emit.meta.finished.as_ref().is_some_and(|finished| finished.reason == EndReason::Killed)
}

/// The failure of the query, in its last emit.
fn failure_of(emit: &Emit) -> Option<&str> {
    crate::wire::failure(&emit.meta)
}

/// A result as an answer. Bullet answers errors of queries with 200 too.
fn result_response(status: StatusCode, result: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], result).into_response()
}

/// The time a message may wait to be sent.
fn patience(shared: &Shared) -> Duration {
    Duration::from_millis(shared.config.bullet.send_timeout_ms.max(1))
}
