//! Bullet's queries over plain HTTP: the request's body is the query, the response's body the answer.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use swiftwater_runtime::{Principal, Subscription};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

use super::{
    error_result, invalid_query, options, refusal, result_response, result_text, submit, too_many_queries,
};
use crate::{
    body::{Encoding, Pieces, heavy},
    problem::Problem,
    queries::{QUERY_FIELD, heaviness},
    server::Shared,
};

const TEXT_SETTING: &str = "engine.query_text_bytes_max";

/// The text of a query, or the answer to who did not send one.
pub(super) async fn text(shared: &Shared, request: Request) -> Result<String, Response> {
    let (parts, body) = request.into_parts();
    let bytes_max = shared.engine.config().query_text_bytes_max as u64;
    let encoding = Encoding::of(&parts.headers).map_err(problem_response)?;
    let pieces = Pieces::new(body, encoding, bytes_max, shared.config.body_read_timeout_ms, shared.share());
    let body =
        pieces.whole().await.map_err(|fault| problem_response(fault.problem(TEXT_SETTING, bytes_max)))?;
    String::from_utf8(body).map_err(|_| result_response(StatusCode::OK, invalid_query()))
}

/// A fault of the request itself: its own status, and Bullet's form.
fn problem_response(problem: Problem) -> Response {
    let facts = problem.to_json();
    let hint = facts["hint"].as_str().map(str::to_owned).into_iter().collect::<Vec<_>>();
    let hint: Vec<&str> = hint.iter().map(String::as_str).collect();
    let detail = facts["detail"].as_str().unwrap_or_default().to_owned();
    let mut response = problem.into_response();
    *response.body_mut() = Body::from(error_result(&detail, &hint));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// One result, when it is there. Queries with windows have several and are refused.
pub(crate) async fn http_query(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let text = match text(&shared, request).await {
        Ok(text) => text,
        Err(response) => return response,
    };
    let answer = |result| result_response(StatusCode::OK, result);
    let options = options(&shared, &text);
    let facts = heavy(heaviness(&text), || shared.engine.check(&Principal::anonymous(), &text, &options));
    match facts {
        Err(error) => return answer(refusal(&error)),
        Ok(facts) if facts.has_window => {
            return answer(error_result(
                "This particular REST endpoint does not support windowed queries",
                &["Please provide a valid query without a window, or use the SSE or WS endpoints to submit \
                   queries with windows."],
            ));
        }
        Ok(_) => {}
    }
    let Ok(_place) = Arc::clone(&shared.bullet.places).try_acquire_owned() else {
        return answer(too_many_queries());
    };
    let mut subscription = match submit(&shared, &text, false).await {
        Ok(subscription) => subscription,
        Err(errors) => return answer(errors),
    };
    let mut last = None;
    while let Some(emit) = subscription.next().await {
        last = Some(emit);
    }
    let id = subscription.query().id.to_string();
    match last {
        Some(emit) => ([(QUERY_FIELD, id)], answer(result_text(&emit))).into_response(),
        None => answer(super::unavailable()),
    }
}

/// Checks that a query could be run.
pub(crate) async fn validate_query(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let text = match text(&shared, request).await {
        Ok(text) => text,
        Err(response) => return response,
    };
    let options = options(&shared, &text);
    let facts = heavy(heaviness(&text), || shared.engine.check(&Principal::anonymous(), &text, &options));
    match facts {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => result_response(StatusCode::UNPROCESSABLE_ENTITY, refusal(&error)),
    }
}

/// An event for each result. The body holds the query: who goes away ends it.
pub(crate) async fn sse_query(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let text = match text(&shared, request).await {
        Ok(text) => text,
        Err(response) => return response,
    };
    let Ok(place) = Arc::clone(&shared.bullet.places).try_acquire_owned() else {
        return events(Body::from(event(&too_many_queries())));
    };
    match submit(&shared, &text, false).await {
        Err(errors) => events(Body::from(event(&errors))),
        Ok(subscription) => {
            let id = subscription.query().id.to_string();
            let results = Results::new(subscription, place, shared.config.keep_alive_ms);
            let mut response = events(results.body());
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(QUERY_FIELD, id);
            }
            response
        }
    }
}

fn event(result: &str) -> String {
    // A result is one line.
    format!("data:{result}\n\n")
}

fn events(body: Body) -> Response {
    let fields = [(header::CONTENT_TYPE.as_str(), "text/event-stream"), ("x-accel-buffering", "no")];
    (fields, body).into_response()
}

/// Results on their way; the connection takes them no faster than the client reads.
struct Results {
    subscription: Subscription,
    keep_alive: Interval,
    _place: OwnedSemaphorePermit,
}

impl Results {
    fn new(subscription: Subscription, place: OwnedSemaphorePermit, keep_alive_ms: u64) -> Results {
        let period = Duration::from_millis(keep_alive_ms.max(1));
        let mut keep_alive = interval_at(Instant::now() + period, period);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Results { subscription, keep_alive, _place: place }
    }

    fn body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut results| async move {
            let bytes = results.next().await?;
            Some((Ok::<_, Infallible>(bytes), results))
        }))
    }

    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            emit = self.subscription.next() => {
                self.keep_alive.reset();
                Some(event(&result_text(&emit?)).into())
            }
            _ = self.keep_alive.tick() => Some(Bytes::from_static(b":\n\n")),
        }
    }
}
