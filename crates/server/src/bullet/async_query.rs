//! Bullet's asynchronous queries: a client submits one, and fetches its results later. They are detached queries in Bullet's
//! form.
//!
//! The engine's limits (`engine.subscriber_bytes_max`, `engine.detached_kept_ms`) bound the retained results. A client can
//! fetch them repeatedly until they are evicted or the query is deleted. `?after=N` leaves out those up to number N.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use swiftwater_runtime::{EndReason, Principal, QueryId, RuntimeError};

use super::{error_result, http_query::text, refusal, result_response, result_text, submit};
use crate::{
    body::heavy,
    parameters::Parameters,
    queries::QUERY_FIELD,
    routes::{Name, name},
    server::Shared,
};

/// Starts a query without a client: `{"id", "query", "createTime"}`.
pub(crate) async fn submit_query(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let text = match text(&shared, request).await {
        Ok(text) => text,
        Err(response) => return response,
    };
    match submit(&shared, &text, true).await {
        Err(errors) => result_response(StatusCode::UNPROCESSABLE_ENTITY, errors),
        Ok(subscription) => {
            let query = subscription.query();
            let id = query.id.to_string();
            let answer = json!({"id": id, "query": text, "createTime": query.received});
            let place = format!("/api/bullet/queries/async-query/{id}");
            let fields = [(header::LOCATION, place), (QUERY_FIELD, id)];
            (fields, result_response(StatusCode::CREATED, answer.to_string())).into_response()
        }
    }
}

/// The results so far: `{"id", "complete", "last", "results": [result, …]}`. `last` is the number of the newest
/// one, from 1; 0 before there is any.
pub(crate) async fn results(State(shared): State<Arc<Shared>>, path: Name, uri: Uri) -> Response {
    let Some(id) = id(path) else { return no_query() };
    let after = match after(&uri) {
        Ok(after) => after,
        Err(why) => return result_response(StatusCode::BAD_REQUEST, error_result(&why, &[])),
    };
    let mut subscription = match shared.engine.attach_after(&Principal::anonymous(), &id, after) {
        Ok(subscription) => subscription,
        Err(RuntimeError::NoQuery(_)) => return no_query(),
        Err(error) => return result_response(StatusCode::CONFLICT, refusal(&error)),
    };
    let mut last = after;
    let mut is_complete = false;
    let mut text = String::new();
    while let Some(emit) = subscription.try_next() {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&result_text(&emit));
        last = emit.meta.number;
        is_complete |= emit.meta.finished.is_some();
    }
    let text = format!("{{\"id\":\"{id}\",\"complete\":{is_complete},\"last\":{last},\"results\":[{text}]}}");
    result_response(StatusCode::OK, text)
}

/// Ends a query and throws its results away.
pub(crate) async fn end(State(shared): State<Arc<Shared>>, path: Name) -> Response {
    let Some(id) = id(path) else { return no_query() };
    let principal = Principal::anonymous();
    let ended = heavy(usize::MAX, || {
        let ended = shared.engine.end_query(&principal, &id, EndReason::Killed);
        // The first call ends a query that stands, the second one forgets what was kept of it.
        let forgotten = shared.engine.end_query(&principal, &id, EndReason::Killed);
        ended.or(forgotten)
    });
    match ended {
        Ok(()) => StatusCode::OK.into_response(),
        Err(_) => no_query(),
    }
}

fn after(uri: &Uri) -> Result<u64, String> {
    let parameters =
        Parameters::parse(uri.query(), &["after"]).map_err(|_| "The only parameter is `after`".to_owned())?;
    let Some(after) = parameters.get("after") else { return Ok(0) };
    after.parse().map_err(|_| "`after` is a number".to_owned())
}

fn id(path: Name) -> Option<QueryId> {
    name(path).ok()?.parse().ok()
}

fn no_query() -> Response {
    result_response(
        StatusCode::NOT_FOUND,
        error_result("The query does not exist", &["It may have been forgotten."]),
    )
}
