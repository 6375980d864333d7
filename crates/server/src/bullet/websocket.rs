//! Runs a conversation over a WebSocket, in SockJS's frames or without them.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{Message, WebSocket};
use futures_util::{SinkExt, StreamExt, stream::SplitSink};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at, timeout},
};

use super::{
    conversation::converse,
    frames::{CLOSED, HEART_BEAT, OPEN, messages_frame, messages_of},
    outgoing::{Waiting, queue},
    patience,
};
use crate::server::{Connection, Phase, Shared};

/// Runs a conversation until either side ends it; `connection` counts as open meanwhile.
pub(super) async fn talk(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    socket: WebSocket,
    is_framed: bool,
) {
    let (sink, mut stream) = socket.split();
    let (incoming, received) = mpsc::channel(1);
    let (outgoing, waiting) = queue(shared.config.bullet.session_buffer_bytes_max, patience(&shared));
    let reading = async {
        while let Some(Ok(message)) = stream.next().await {
            let text = match message {
                Message::Text(text) => text.as_str().to_owned(),
                Message::Binary(bytes) => match String::from_utf8(bytes.to_vec()) {
                    Ok(text) => text,
                    Err(_) => return,
                },
                // Pings are answered where they are read.
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(_) => return,
            };
            if !is_framed {
                if incoming.send(text).await.is_err() {
                    return;
                }
                continue;
            }
            let Some(texts) = messages_of(&text) else { return };
            for text in texts {
                if incoming.send(text).await.is_err() {
                    return;
                }
            }
        }
    };
    let writer = Writer { sink, waiting, is_framed, patience: patience(&shared) };
    let heart_beat = Duration::from_millis(shared.config.bullet.sockjs_heart_beat_ms.max(1));
    let talking =
        async { tokio::join!(converse(Arc::clone(&shared), received, outgoing), writer.run(heart_beat)) };
    tokio::select! {
        // The conversation is dropped with its query: the client is gone, or speaks something else.
        () = reading => {}
        _ = talking => {}
        () = shared.reached(Phase::Cut) => {}
    }
    tracing::debug!(number = connection.number, "session over a WebSocket ended");
}

/// The writing end.
struct Writer {
    sink: SplitSink<WebSocket, Message>,
    waiting: mpsc::Receiver<Waiting>,
    is_framed: bool,
    patience: Duration,
}

impl Writer {
    /// Sends what waits until nothing more can come, or the client takes nothing.
    async fn run(mut self, heart_beat: Duration) {
        if self.is_framed && !self.send(OPEN.to_owned()).await {
            return;
        }
        let mut beat = interval_at(Instant::now() + heart_beat, heart_beat);
        loop {
            let (text, _room) = tokio::select! {
                waiting = self.waiting.recv() => {
                    let Some(waiting) = waiting else { break };
                    let text = if self.is_framed { messages_frame([waiting.text.as_str()]) } else { waiting.text.clone() };
                    (text, Some(waiting))
                }
                _ = beat.tick(), if self.is_framed => (HEART_BEAT.to_owned(), None),
            };
            if !self.send(text).await {
                return;
            }
        }
        if self.is_framed {
            self.send(CLOSED.to_owned()).await;
        }
        let _ = timeout(self.patience, self.sink.close()).await;
    }

    async fn send(&mut self, text: String) -> bool {
        matches!(timeout(self.patience, self.sink.send(Message::Text(text.into()))).await, Ok(Ok(())))
    }
}
