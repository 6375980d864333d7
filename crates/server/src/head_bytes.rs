//! Counts the bytes of a request's head as a connection sends them, so that endless heads are bounded. They are part of the
//! budget for unfinished input ([`crate::budget`]). A connection whose head finds no room is closed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{budget::Share, head_timer::HeadTimer};

/// Heads up to this length are not counted: counting costs two writes to what all connections share.
const UNCOUNTED_BYTES: usize = 2 << 10;

/// A connection whose heads are counted while its timer waits for one.
#[derive(Debug)]
pub(crate) struct CountedHeads {
    stream: TcpStream,
    timer: HeadTimer,
    share: Share,
    bytes: usize,
}

impl CountedHeads {
    pub(crate) fn new(stream: TcpStream, timer: HeadTimer, share: Share) -> CountedHeads {
        CountedHeads { stream, timer, share, bytes: 0 }
    }

    /// Counts bytes of the head.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        let before = self.bytes;
        self.bytes = if self.timer.is_waiting() { before + bytes } else { 0 };
        if before.max(self.bytes) <= UNCOUNTED_BYTES {
            return Ok(());
        }
        self.share.set(self.bytes).map_err(|_| {
            io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the bytes of unfinished requests have reached their limit",
            )
        })
    }
}

impl AsyncRead for CountedHeads {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        Poll::Ready(self.count(read))
    }
}

impl AsyncWrite for CountedHeads {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
