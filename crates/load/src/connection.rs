//! One connection: the unsent rest of a request, and the part of its answer that was read.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
};

use mio::{Interest, Registry, Token, net::TcpStream};

use crate::{
    answer::{Head, Reader},
    report::Outcome,
};

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) request: usize,
    /// The time at which it was due.
    pub(crate) due: u64,
    /// Start of its last attempt.
    pub(crate) begun: u64,
    pub(crate) attempts: u32,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// See the head of this module.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    stream: Option<TcpStream>,
    is_connected: bool,
    /// The request as it goes out; kept for the next attempt.
    pub(crate) out: Vec<u8>,
    written: usize,
    reader: Reader,
    pub(crate) job: Option<Job>,
    /// Requests that were numbered.
    pub(crate) sequence: u64,
}

/// The state of a connection after polling its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Its request goes on, or it has none.
    Waiting,
    /// The attempt ended so.
    Ended(Outcome),
}

impl Connection {
    /// Begins to send what is in `out`, over a new connection if there is none.
    pub(crate) fn send(
        &mut self,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
        scratch: &mut [u8],
    ) -> ConnectionState {
        self.written = 0;
        self.reader = Reader::default();
        if self.stream.is_none() {
            self.is_connected = false;
            let connected = TcpStream::connect(address).and_then(|mut stream| {
                // Small requests are not to wait for each other.
                let _ = stream.set_nodelay(true);
                registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                Ok(stream)
            });
            match connected {
                Ok(stream) => self.stream = Some(stream),
                Err(_) => return ConnectionState::Ended(Outcome::Unreachable),
            }
        }
        self.poll_io(scratch)
    }

    /// Writes and reads what can be.
    pub(crate) fn poll_io(&mut self, scratch: &mut [u8]) -> ConnectionState {
        let Some(stream) = &mut self.stream else { return ConnectionState::Waiting };
        if !self.is_connected {
            let failed = !matches!(stream.take_error(), Ok(None));
            match stream.peer_addr() {
                Ok(_) if !failed => self.is_connected = true,
                Err(error) if !failed && is_pending(&error) => return ConnectionState::Waiting,
                _ => {
                    self.stream = None;
                    return ConnectionState::Ended(Outcome::Unreachable);
                }
            }
        }
        while self.job.is_some() && self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    if let Some(job) = &mut self.job {
                        job.sent_bytes += count as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The server's last answer before it closed may still be there to be read.
                Err(_) => break,
            }
        }
        self.read(scratch)
    }

    fn read(&mut self, scratch: &mut [u8]) -> ConnectionState {
        while let Some(stream) = &mut self.stream {
            let count = match stream.read(scratch) {
                Ok(0) => return self.closed(),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ConnectionState::Waiting,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.closed(),
            };
            let Some(job) = &mut self.job else {
                // No request asked for it.
                self.stream = None;
                return ConnectionState::Waiting;
            };
            job.received_bytes += count as u64;
            match self.reader.read(&scratch[..count]) {
                Ok((Some(head), taken)) => {
                    // An answer to a request that is not out yet, or two to one: what comes next could not be told apart.
                    if !head.keep_alive || taken < count || self.written < self.out.len() {
                        self.stream = None;
                    }
                    return ConnectionState::Ended(Outcome::Answered(head.status));
                }
                // Less than was asked for is all there is; more will be told of.
                Ok((None, _)) if count < scratch.len() => return ConnectionState::Waiting,
                Ok((None, _)) => {}
                Err(_) => {
                    self.stream = None;
                    return ConnectionState::Ended(Outcome::Malformed);
                }
            }
        }
        ConnectionState::Waiting
    }

    fn closed(&mut self) -> ConnectionState {
        self.stream = None;
        match (self.reader.close(), self.job) {
            (_, None) => ConnectionState::Waiting,
            (Some(Head { status, .. }), _) => ConnectionState::Ended(Outcome::Answered(status)),
            (None, _) => ConnectionState::Ended(Outcome::Closed),
        }
    }

    /// Drops the connection.
    pub(crate) fn drop_stream(&mut self) {
        self.stream = None;
    }
}

/// True if a connection is on its way.
fn is_pending(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected
        || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
}
