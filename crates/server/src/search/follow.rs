//! Follows a search: its newest hits and then each further one, as server-sent events or NDJSON.
//!
//! A task reads the hits and writes them into a queue of [`PIECES_WAITING`] pieces, from which the body is made; a slow client
//! delays it. It ends when the client disconnects, when the search fails or when the engine shuts down.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use swiftwater_engine::{Followed, SearchFollow};
use swiftwater_event::StreamName;
use swiftwater_sql::SqlError;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::answer::write_hit;
use crate::{accept::prefers, parameters::bad, problem::Problem, server::Shared};

/// Hits that wait for the client, beside those of the connection.
const PIECES_WAITING: usize = 64;

/// A search that is followed.
pub(super) trait Follow: Send + 'static {
    /// The next line.
    fn next_line(&mut self) -> impl Future<Output = Result<Line, SqlError>> + Send;
}

/// A line of an answer that has no end.
pub(super) struct Line {
    /// The kind of a server-sent event.
    kind: &'static str,
    /// A JSON object.
    data: String,
    /// The position behind it.
    position: String,
}

impl Line {
    /// A hit, which an object describes.
    pub(super) fn hit(data: String, position: String) -> Line {
        Line { kind: "hit", data, position }
    }

    /// Events of a stream that were deleted before they were searched.
    pub(super) fn lost(stream: &StreamName, events: u64, position: String) -> Line {
        let data = json!({"stream": stream.as_str(), "lost": events}).to_string();
        Line { kind: "lost", data, position }
    }
}

impl Follow for SearchFollow {
    async fn next_line(&mut self) -> Result<Line, SqlError> {
        Ok(match self.next().await? {
            Followed::Hit { hit, position } => {
                let mut data = String::with_capacity(hit.event.len() + 128);
                write_hit(&hit, &mut data);
                Line::hit(data, position)
            }
            Followed::Lost { stream, events, position } => Line::lost(&stream, events, position),
        })
    }
}

/// The position after which a request resumes.
pub(super) fn position(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let position = headers.get("last-event-id").map(HeaderValue::to_str).transpose();
    position.map_err(|_| bad("the field `Last-Event-ID` is no position"))
}

/// The answer, which has no end.
pub(super) fn response(shared: &Shared, follow: impl Follow, headers: &HeaderMap) -> Response {
    let is_ndjson = prefers(headers, "application/x-ndjson", "text/event-stream");
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    tokio::spawn(write(follow, is_ndjson, sender));
    let period = Duration::from_millis(shared.config.keep_alive_ms.max(1));
    let mut keep_alive = interval_at(Instant::now() + period, period);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let media_type = if is_ndjson { "application/x-ndjson" } else { "text/event-stream" };
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx and its like would otherwise gather what should go on at once.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    let body = stream::unfold((receiver, keep_alive), move |(mut receiver, mut keep_alive)| async move {
        let piece = tokio::select! {
            biased;
            piece = receiver.recv() => piece?,
            _ = keep_alive.tick(), if !is_ndjson => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok::<_, Infallible>(piece), (receiver, keep_alive)))
    });
    (fields, Body::from_stream(body)).into_response()
}

/// Writes what is followed until the client is gone, or the search ends.
async fn write(mut follow: impl Follow, is_ndjson: bool, sender: mpsc::Sender<Bytes>) {
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => return,
            next = follow.next_line() => next,
        };
        let has_failed = next.is_err();
        let piece = piece(next, is_ndjson);
        if sender.send(piece.into()).await.is_err() || has_failed {
            return;
        }
    }
}

fn piece(next: Result<Line, SqlError>, is_ndjson: bool) -> String {
    let (kind, mut data, position) = match next {
        Ok(Line { kind, data, position }) => (kind, data, Some(position)),
        Err(error) => {
            tracing::warn!(%error, "a search that was followed ends");
            ("error", json!({"error": error.to_string()}).to_string(), None)
        }
    };
    if is_ndjson {
        if let Some(position) = position {
            // The object goes on with its position.
            data.pop();
            data += &format!(",\"position\":\"{position}\"}}");
        }
        return data + "\n";
    }
    let id = position.map_or(String::new(), |position| format!("id: {position}\n"));
    format!("{id}event: {kind}\ndata: {data}\n\n")
}
