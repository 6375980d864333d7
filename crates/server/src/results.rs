//! Streams a query's results as the body of an answer.
//!
//! The body is produced emit by emit, no faster than the client reads; the engine decides what a slow client misses. When
//! the client disconnects, the connection drops the body, and with it the subscription; the query then ends unless it is
//! detached.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use swiftwater_runtime::{Emit, Subscription};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::{accept::Form, problem::Problem, queries::QUERY_FIELD, wire};

/// Emits that are there at once are written together, up to about this many bytes.
const TOGETHER_BYTES: usize = 64 << 10;

/// The answer; for [`Form::Json`] it begins with the first emit, so that a query that fails at once has a status that
/// says so.
pub(crate) async fn response(
    mut subscription: Subscription,
    form: Form,
    keep_alive_ms: u64,
) -> Result<Response, Problem> {
    let id = subscription.query().id.to_string();
    let (media_type, body) = match form {
        Form::ServerSentEvents => ("text/event-stream", stream_body(subscription, form, keep_alive_ms)),
        Form::Ndjson => ("application/x-ndjson", stream_body(subscription, form, keep_alive_ms)),
        Form::Json => {
            let first =
                subscription.next().await.ok_or_else(|| Problem::internal("the query returned no answer"))?;
            if first.records.count == 0
                && let Some(message) = wire::failure(&first.meta)
            {
                let (status, title) = (StatusCode::UNPROCESSABLE_ENTITY, "The query failed");
                let problem = Problem::new(status, "query-failed", title, message).with("query", id);
                return Err(match wire::failure_hint(&first.meta) {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                });
            }
            ("application/json", one_answer(subscription, first))
        }
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    // nginx and its like would otherwise gather what should go on at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(QUERY_FIELD, id);
    }
    Ok(response)
}

/// A body that gives emits as they come.
struct Stream {
    subscription: Subscription,
    form: Form,
    keep_alive: Interval,
    begun: bool,
}

fn stream_body(subscription: Subscription, form: Form, keep_alive_ms: u64) -> Body {
    let period = Duration::from_millis(keep_alive_ms.max(1));
    let mut keep_alive = interval_at(Instant::now() + period, period);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = Stream { subscription, form, keep_alive, begun: false };
    Body::from_stream(stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<_, Infallible>(bytes), stream))
    }))
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) && self.form == Form::ServerSentEvents {
            out.extend_from_slice(b"event: query\ndata: ");
            wire::write_query_meta(self.subscription.query(), &mut out);
            out.extend_from_slice(b"\n\n");
            return Some(out.into());
        }
        let emit = tokio::select! {
            biased;
            emit = self.subscription.next() => emit?,
            () = Self::idle(&mut self.keep_alive, self.form) => return Some(Bytes::from_static(b": still here\n\n")),
        };
        self.write(&emit, &mut out);
        while out.len() < TOGETHER_BYTES
            && let Some(emit) = self.subscription.try_next()
        {
            self.write(&emit, &mut out);
        }
        self.keep_alive.reset();
        Some(out.into())
    }

    /// Ready when a comment is due; NDJSON has no comments.
    async fn idle(keep_alive: &mut Interval, form: Form) {
        match form {
            Form::ServerSentEvents => {
                keep_alive.tick().await;
            }
            _ => std::future::pending().await,
        }
    }

    fn write(&mut self, emit: &Emit, out: &mut Vec<u8>) {
        if self.form == Form::ServerSentEvents {
            out.extend_from_slice(format!("id: {}\nevent: emit\ndata: ", emit.meta.number).as_bytes());
            wire::write_emit(emit, out);
            out.push(b'\n');
        } else {
            wire::write_emit(emit, out);
        }
        out.push(b'\n');
    }
}

/// The error of an answer that is cut short.
#[derive(Debug, thiserror::Error)]
#[error("the server stops, or a newer reader took over; the query continues")]
struct CutShort;

/// All emits as one: their records in order, and the last one's meta.
struct CollectedAnswer {
    subscription: Subscription,
    /// An emit that was fetched but not written.
    next: Option<Emit>,
    records: u64,
    begun: bool,
}

fn one_answer(subscription: Subscription, first: Emit) -> Body {
    let answer = CollectedAnswer { subscription, next: Some(first), records: 0, begun: false };
    Body::from_stream(stream::unfold(Some(answer), |answer| async move {
        let mut answer = answer?;
        let emit = match answer.next.take() {
            Some(emit) => emit,
            // The query goes on without this reader: what was sent is no whole answer.
            None => match answer.subscription.next().await {
                Some(emit) => emit,
                None => return Some((Err(CutShort), None)),
            },
        };
        let mut out = Vec::with_capacity(emit.records.text.len() + 512);
        if !std::mem::replace(&mut answer.begun, true) {
            out.extend_from_slice(b"{\"records\":[");
        }
        if answer.records > 0 && emit.records.count > 0 {
            out.push(b',');
        }
        wire::write_records(&emit.records, &mut out);
        answer.records += emit.records.count;
        // Every query's last emit says that it is the last.
        let last = emit.meta.finished.is_some();
        if last {
            out.extend_from_slice(b"],\"meta\":");
            wire::write_meta(&emit.meta, &mut out);
            out.extend_from_slice(b"}\n");
        }
        Some((Ok(Bytes::from(out)), (!last).then_some(answer)))
    }))
}
