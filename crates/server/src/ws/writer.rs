//! Writes frames to a WebSocket, compressed if the client wants it.
//!
//! Compressed frames are binary and belong to one raw deflate stream (RFC 1951) for the whole connection. It is flushed after
//! each frame, so a frame can be read as soon as it is there; a newline ends each frame's text.

use std::{io::Write, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use flate2::{Compression, write::DeflateEncoder};
use futures_util::{SinkExt, stream::SplitSink};
use tokio::{sync::mpsc, time::timeout};

/// The time in which a client takes a frame. A client that takes none for so long is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something to write.
pub(super) enum Outgoing {
    Text(String),
    Ping,
    Close(CloseFrame),
}

pub(super) struct Writer {
    sink: SplitSink<WebSocket, Message>,
    queue: mpsc::Receiver<Outgoing>,
    deflate: Option<DeflateEncoder<Vec<u8>>>,
}

impl Writer {
    pub(super) fn new(
        sink: SplitSink<WebSocket, Message>,
        queue: mpsc::Receiver<Outgoing>,
        is_deflated: bool,
    ) -> Writer {
        let deflate = is_deflated.then(|| DeflateEncoder::new(Vec::new(), Compression::fast()));
        Writer { sink, queue, deflate }
    }

    /// Writes until nobody can send any more, or the client takes nothing.
    pub(super) async fn run(mut self) {
        while let Some(outgoing) = self.queue.recv().await {
            let message = match outgoing {
                Outgoing::Text(text) => self.written(text),
                Outgoing::Ping => Message::Ping(bytes::Bytes::new()),
                Outgoing::Close(frame) => Message::Close(Some(frame)),
            };
            if !matches!(timeout(PATIENCE, self.sink.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        let _ = timeout(PATIENCE, self.sink.close()).await;
    }

    fn written(&mut self, mut text: String) -> Message {
        let Some(deflate) = &mut self.deflate else { return Message::Text(text.into()) };
        text.push('\n');
        // Into memory, which takes all.
        let _ = deflate.write_all(text.as_bytes()).and_then(|()| deflate.flush());
        Message::Binary(std::mem::take(deflate.get_mut()).into())
    }
}
