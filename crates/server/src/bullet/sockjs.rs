//! SockJS 0.3 (sockjs-protocol): the transports by which Bullet's browser client reaches `ws-query`.
//!
//! `websocket` carries one frame per message. `xhr` answers with one frame and is requested again; `xhr_send` carries the
//! other direction. `xhr_streaming` and `eventsource` answer with many frames. `jsonp`, `htmlfile` and iframes are not
//! supported. They exist for browsers that have no other way to reach other sites, and with them the server cannot identify
//! those sites' pages.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::{FromRequestParts, Path, Request, State, WebSocketUpgrade, rejection::PathRejection},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{polling, stomp::Version, websocket::talk};
use crate::{
    parameters::cut,
    problem::Problem,
    server::{Connection, Shared},
};

/// Ids of sessions are made up by clients; no known one makes longer ones.
const SESSION_ID_BYTES_MAX: usize = 128;
/// Bytes read at once from a WebSocket.
const READ_BUFFER_BYTES: usize = 8 << 10;

/// Answers that the endpoint exists.
pub(crate) async fn greeting() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=UTF-8")], "Welcome to SockJS!\n").into_response()
}

/// Answers a client's first request.
pub(crate) async fn info() -> Response {
    // Clients with poor chance of their own mix this into theirs.
    let entropy = RandomState::new().hash_one(0) as u32;
    let info = json!({"websocket": true, "cookie_needed": false, "origins": ["*:*"], "entropy": entropy});
    ([(header::CONTENT_TYPE, "application/json; charset=UTF-8")], info.to_string()).into_response()
}

/// STOMP without SockJS.
pub(crate) async fn plain_websocket(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    upgrade(shared, request, false).await
}

/// Handles all requests below a session.
pub(crate) async fn transport(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    request: Request,
) -> Response {
    let Ok(Path((server, session, transport))) = path else { return nothing() };
    let is_name = |name: &str| !name.is_empty() && !name.contains('.') && name.len() <= SESSION_ID_BYTES_MAX;
    if !is_name(&server) || !is_name(&session) {
        return nothing();
    }
    match (request.method(), transport.as_str()) {
        (&Method::GET, "websocket") => upgrade(shared, request, true).await,
        (&Method::POST, "xhr") => polling::xhr(shared, session).await,
        (&Method::POST, "xhr_streaming") => polling::xhr_streaming(shared, session),
        (&Method::GET, "eventsource") => polling::event_source(shared, session),
        (&Method::POST, "xhr_send") => polling::xhr_send(shared, session, request).await,
        (method, "websocket" | "xhr" | "xhr_streaming" | "eventsource" | "xhr_send") => {
            let detail = format!("method `{}` is not allowed here", cut(method.as_str()));
            let title = "The method is not allowed";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", title, detail).into_response()
        }
        _ => nothing(),
    }
}

pub(super) fn nothing() -> Response {
    (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "text/plain; charset=UTF-8")], Body::empty())
        .into_response()
}

async fn upgrade(shared: Arc<Shared>, request: Request, is_framed: bool) -> Response {
    let (mut parts, _) = request.into_parts();
    let Some(connection) = parts.extensions.get::<Arc<Connection>>().cloned() else {
        return Problem::internal("the connection is not known").into_response();
    };
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    // SockJS puts a frame's text into JSON, where one character may become six.
    let factor = if is_framed { 6 } else { 1 };
    let bytes_max = shared.config.bullet.message_bytes_max.saturating_mul(factor).saturating_add(64);
    upgrade
        .protocols(Version::PROTOCOLS)
        .max_message_size(bytes_max)
        .max_frame_size(bytes_max)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .on_upgrade(move |socket| talk(shared, connection, socket, is_framed))
}
