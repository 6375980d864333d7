//! The body of an incoming request. A body that is not read to its end is drained, up to a limit, so that the connection can
//! take the next request. The sender can then read the answer: if a connection closes with unread bytes, TCP discards the
//! answer at the sender, too.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;

/// Bytes of a body's rest that are read at most; beyond it the connection is closed.
const REST_BYTES_MAX: usize = 64 << 20;
const REST_TIME_MAX: Duration = Duration::from_secs(2);

/// A body, whose rest is read off in the background when it is dropped.
pub(crate) struct Received {
    /// The body; none once its end was seen.
    body: Option<Incoming>,
    /// The sender waits to be told to send it.
    is_held_back: bool,
}

impl Received {
    pub(crate) fn new(body: Incoming, headers: &HeaderMap) -> Received {
        let body = (!body.is_end_stream()).then_some(body);
        let is_held_back = body.is_some() && headers.contains_key(header::EXPECT);
        Received { body, is_held_back }
    }

    /// True if a connection cannot be used any further if this is not read.
    pub(crate) fn ends_connection(&self) -> bool {
        let Some(body) = &self.body else { return false };
        self.is_held_back || body.size_hint().lower() > REST_BYTES_MAX as u64
    }
}

/// Marks that the connection ends, in an answer that may have come before all of the body.
pub(crate) fn close(response: &mut Response) {
    if response.status().is_client_error() || response.status().is_server_error() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        if body.is_end_stream() || !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        if let Ok(runtime) = Handle::try_current()
            && !self.is_held_back
        {
            // A timeout needs no further action: the connection is then closed.
            runtime.spawn(tokio::time::timeout(REST_TIME_MAX, read_off(body)));
        }
    }
}

async fn read_off(mut body: Incoming) {
    let mut bytes = 0;
    while bytes < REST_BYTES_MAX
        && let Some(Ok(frame)) = body.frame().await
    {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}
