//! SockJS's transports over plain requests. A session persists between requests, and ends when no client receives for a
//! while.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use tokio::{
    sync::{self, OwnedMutexGuard, mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    conversation::converse,
    frames::{ANOTHER_CONNECTION, CLOSED, HEART_BEAT, OPEN, messages_frame, messages_of},
    outgoing::{Waiting, queue},
    patience,
    sockjs::nothing,
};
use crate::{
    body::{Encoding, Pieces},
    problem::Problem,
    server::{Phase, Shared},
};

const SCRIPT: &str = "application/javascript; charset=UTF-8";
const PLAIN: &str = "text/plain; charset=UTF-8";
/// A streaming answer ends after about so many bytes, and the client asks for the next one: browsers keep all of it.
const ANSWER_BYTES: usize = 128 << 10;
/// Bytes that browsers must receive before they pass on the rest.
const PRELUDE_BYTES: usize = 2048;
/// Times `disconnect_delay` that a session which is over waits for its client to learn of it.
const OVER_FACTOR: u32 = 4;

/// Sessions by the ids that clients made up.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Box<str>, Arc<Session>>>);

/// One session.
struct Session {
    incoming: mpsc::Sender<String>,
    waiting: Arc<sync::Mutex<mpsc::Receiver<Waiting>>>,
    /// True if somebody receives.
    is_attached: watch::Sender<bool>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().get(id).cloned()
    }
}

/// The session of this id, and whether it was made just now.
fn find_or_open(shared: &Arc<Shared>, id: &str) -> Result<(Arc<Session>, bool), Problem> {
    let config = &shared.config.bullet;
    let (incoming, received) = mpsc::channel(1);
    let (outgoing, waiting) = queue(config.session_buffer_bytes_max, patience(shared));
    let session = {
        let mut sessions = shared.bullet.sessions.lock();
        if let Some(session) = sessions.get(id) {
            return Ok((Arc::clone(session), false));
        }
        let (wanted, most) = (sessions.len() + 1, config.sessions_max);
        if wanted > most {
            let detail = format!("number of sessions would be {wanted}, limit is {most}");
            return Err(Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "limit-passed",
                "A limit was exceeded",
                detail,
            )
            .with("setting", "bullet.sessions_max"));
        }
        let waiting = Arc::new(sync::Mutex::new(waiting));
        let session = Arc::new(Session { incoming, waiting, is_attached: watch::Sender::new(false) });
        sessions.insert(id.into(), Arc::clone(&session));
        session
    };
    let task = run(
        Arc::clone(shared),
        id.into(),
        Arc::clone(&session),
        converse(Arc::clone(shared), received, outgoing),
    );
    tokio::spawn(task);
    Ok((session, true))
}

/// A session from its first request to its last; it stops with the server.
async fn run(
    shared: Arc<Shared>,
    id: Box<str>,
    session: Arc<Session>,
    conversation: impl Future<Output = ()>,
) {
    let delay = Duration::from_millis(shared.config.bullet.disconnect_delay_ms.max(1));
    tokio::select! {
        () = conversation => {}
        () = receiver_absent(&session, delay) => {}
        () = shared.reached(Phase::Cut) => {}
    }
    tokio::select! {
        () = receiver_absent(&session, delay) => {}
        () = sleep(delay * OVER_FACTOR) => {}
        () = shared.reached(Phase::Closing) => {}
    }
    shared.bullet.sessions.lock().remove(&id);
}

/// Ready when nobody has been receiving for so long.
async fn receiver_absent(session: &Session, delay: Duration) {
    let mut attached = session.is_attached.subscribe();
    loop {
        // The sender is the session's own, so there is no error.
        let _ = attached.wait_for(|attached| !attached).await;
        if timeout(delay, attached.wait_for(|attached| *attached)).await.is_err() {
            return;
        }
    }
}

/// The present receiver of a session.
struct Receiving {
    session: Arc<Session>,
    waiting: OwnedMutexGuard<mpsc::Receiver<Waiting>>,
    heart_beat: Duration,
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.session.is_attached.send_replace(false);
    }
}

impl Receiving {
    /// The receiver; none if the session has another one.
    fn begin(shared: &Shared, session: Arc<Session>) -> Option<Receiving> {
        let waiting = Arc::clone(&session.waiting).try_lock_owned().ok()?;
        session.is_attached.send_replace(true);
        let heart_beat = Duration::from_millis(shared.config.bullet.sockjs_heart_beat_ms.max(1));
        Some(Receiving { session, waiting, heart_beat })
    }

    /// The next frame, and whether it is the last one.
    async fn frame(&mut self) -> (String, bool) {
        match timeout(self.heart_beat, self.waiting.recv()).await {
            Err(_) => (HEART_BEAT.to_owned(), false),
            Ok(None) => (CLOSED.to_owned(), true),
            Ok(Some(first)) => {
                let mut bytes = first.text.len();
                let mut messages = vec![first];
                while bytes < ANSWER_BYTES
                    && let Ok(next) = self.waiting.try_recv()
                {
                    bytes += next.text.len();
                    messages.push(next);
                }
                (messages_frame(messages.iter().map(|message| message.text.as_str())), false)
            }
        }
    }
}

fn answer(media_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE.as_str(), media_type), ("x-accel-buffering", "no")], body.into()).into_response()
}

/// One frame.
pub(super) async fn xhr(shared: Arc<Shared>, id: String) -> Response {
    let (session, is_new) = match find_or_open(&shared, &id) {
        Ok(found) => found,
        Err(problem) => return problem.into_response(),
    };
    let frame = if is_new {
        OPEN.to_owned()
    } else {
        match Receiving::begin(&shared, session) {
            None => ANOTHER_CONNECTION.to_owned(),
            Some(mut receiving) => receiving.frame().await.0,
        }
    };
    answer(SCRIPT, frame + "\n")
}

/// Frames, a line each.
pub(super) fn xhr_streaming(shared: Arc<Shared>, id: String) -> Response {
    let prelude = "h".repeat(PRELUDE_BYTES) + "\n";
    stream_frames(&shared, &id, SCRIPT, prelude, |frame| frame + "\n")
}

/// Frames as server-sent events. The client takes percent signs for escapes, so they are escaped.
pub(super) fn event_source(shared: Arc<Shared>, id: String) -> Response {
    let event = |frame: String| format!("data: {}\r\n\r\n", frame.replace('%', "%25"));
    stream_frames(&shared, &id, "text/event-stream; charset=UTF-8", "\r\n".to_owned(), event)
}

fn stream_frames(
    shared: &Arc<Shared>,
    id: &str,
    media_type: &'static str,
    prelude: String,
    write: fn(String) -> String,
) -> Response {
    let (session, is_new) = match find_or_open(shared, id) {
        Ok(found) => found,
        Err(problem) => return problem.into_response(),
    };
    let Some(receiving) = Receiving::begin(shared, session) else {
        return answer(media_type, prelude + &write(ANOTHER_CONNECTION.to_owned()));
    };
    let begin = if is_new { prelude + &write(OPEN.to_owned()) } else { prelude };
    let state = (Some(receiving), Some(begin), 0);
    answer(
        media_type,
        Body::from_stream(stream::unfold(state, move |(receiving, begin, bytes)| async move {
            let mut receiving = receiving?;
            if let Some(begin) = begin {
                return Some((Ok::<_, Infallible>(Bytes::from(begin)), (Some(receiving), None, 0)));
            }
            let (frame, is_last) = receiving.frame().await;
            let bytes = bytes + frame.len();
            let goes_on = !is_last && bytes < ANSWER_BYTES;
            Some((Ok(Bytes::from(write(frame))), (goes_on.then_some(receiving), None, bytes)))
        })),
    )
}

/// Messages from the client.
pub(super) async fn xhr_send(shared: Arc<Shared>, id: String, request: Request) -> Response {
    let Some(session) = shared.bullet.sessions.find(&id) else { return nothing() };
    let (parts, body) = request.into_parts();
    let bytes_max = shared.config.bullet.message_bytes_max as u64 * 6 + 64;
    let encoding = match Encoding::of(&parts.headers) {
        Ok(encoding) => encoding,
        Err(problem) => return problem.into_response(),
    };
    let pieces = Pieces::new(body, encoding, bytes_max, shared.config.body_read_timeout_ms, shared.share());
    let body = match pieces.whole().await {
        Ok(body) => body,
        Err(fault) => return fault.problem("bullet.message_bytes_max", bytes_max).into_response(),
    };
    let refused = |why: &'static str| {
        (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, PLAIN)], why).into_response()
    };
    if body.is_empty() {
        return refused("Payload expected.");
    }
    let Some(texts) = std::str::from_utf8(&body).ok().and_then(messages_of) else {
        return refused("Broken JSON encoding.");
    };
    for text in texts {
        match timeout(patience(&shared), session.incoming.send(text)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return nothing(),
            Err(_) => return refused("The session accepts no messages."),
        }
    }
    (StatusCode::NO_CONTENT, [(header::CONTENT_TYPE, PLAIN)]).into_response()
}
