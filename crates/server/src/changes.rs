//! `GET /v1/views/{view}/changes`: the change feed of a view, as server-sent events or NDJSON.
//!
//! A change is `{"key": […], "row": {…} | null}`. The last change of a group also has `position` (and, as an event, an
//! `id`): all changes before that position have been sent then. An interrupted feed resumes from there, by `from` or
//! `Last-Event-ID`. The body is produced no faster than the client reads.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use swiftwater_engine::{Principal, ViewChanges, ViewChangesSome};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::{
    accept::prefers,
    parameters::{Parameters, bad, cut},
    problem::Problem,
    routes::{Name, name},
    server::Shared,
    views::marks,
};

pub(crate) async fn changes(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["from"])?;
    let last = headers.get("last-event-id").map(|field| field.to_str().unwrap_or("?"));
    // The position that a browser adds when it connects again is newer than that of the address.
    let from = match last.or(parameters.get("from")) {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| bad(format!("`{}` is not a position", cut(text))))?),
    };
    let is_ndjson = prefers(&headers, "application/x-ndjson", "text/event-stream");
    let view = name(path)?;
    let changes = shared.engine.view_changes(&Principal::anonymous(), &view, from).await?;
    let period = Duration::from_millis(shared.config.keep_alive_ms.max(1));
    let mut keep_alive = interval_at(Instant::now() + period, period);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let media_type = if is_ndjson { "application/x-ndjson" } else { "text/event-stream" };
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx and its like would otherwise gather what should go on at once.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    let marks = marks(&changes.reading());
    let feed = Feed { changes, is_ndjson, keep_alive, begun: false, unsaid: None };
    let body = Body::from_stream(stream::unfold(feed, |mut feed| async move {
        let bytes = feed.next().await?;
        Some((Ok::<_, Infallible>(bytes), feed))
    }));
    Ok((marks, fields, body).into_response())
}

/// A body that gives changes as they come.
struct Feed {
    changes: ViewChanges,
    is_ndjson: bool,
    keep_alive: Interval,
    begun: bool,
    /// Further than what the client was told, as batches came that changed no row.
    unsaid: Option<u64>,
}

impl Feed {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if !std::mem::replace(&mut self.begun, true) {
            // A new reader receives the current position at once, before there is a change.
            return Some(self.position(self.changes.position()));
        }
        loop {
            let some = tokio::select! {
                biased;
                some = self.changes.next() => some,
                _ = self.keep_alive.tick(), if !self.is_ndjson || self.unsaid.is_some() => {
                    let unsaid = self.unsaid.take().map(|position| self.position(position));
                    return Some(unsaid.unwrap_or_else(|| b": still here\n\n".to_vec()));
                }
            };
            match some {
                // Many batches may change no row: from where on to resume is told now and then.
                Ok(Some(some)) if some.changes.is_empty() && !some.ends_walk => {
                    self.unsaid = some.position.or(self.unsaid);
                }
                Ok(some) => {
                    self.keep_alive.reset();
                    self.unsaid = None;
                    return some.map(|some| self.write(&some));
                }
                Err(error) => {
                    tracing::warn!(%error, "a feed of a view's changes ends");
                    return None;
                }
            }
        }
    }

    fn position(&self, position: u64) -> Vec<u8> {
        match self.is_ndjson {
            true => format!("{{\"position\":{position}}}\n"),
            false => format!("id: {position}\nevent: position\ndata: {{\"position\":{position}}}\n\n"),
        }
        .into_bytes()
    }

    fn write(&self, some: &ViewChangesSome) -> Vec<u8> {
        let mut out = Vec::with_capacity(some.changes.len() * 128);
        for (place, change) in some.changes.iter().enumerate() {
            let position = some.position.filter(|_| place + 1 == some.changes.len());
            if !self.is_ndjson {
                if let Some(position) = position {
                    out.extend(format!("id: {position}\n").bytes());
                }
                out.extend_from_slice(b"event: change\ndata: ");
            }
            out.extend_from_slice(b"{\"key\":");
            out.extend_from_slice(&change.key.json());
            out.extend_from_slice(b",\"row\":");
            out.extend_from_slice(change.row.as_deref().unwrap_or(b"null"));
            if let Some(position) = position {
                out.extend(format!(",\"position\":{position}").bytes());
            }
            out.extend_from_slice(if self.is_ndjson { b"}\n" } else { b"}\n\n" });
        }
        if let Some(position) = some.position.filter(|_| some.changes.is_empty()) {
            out = self.position(position);
        }
        out
    }
}
