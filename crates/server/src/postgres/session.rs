//! One connection of PostgreSQL's protocol.

mod copying;
mod settings;
mod statements;
mod time_zone;

use std::{collections::HashMap, io, sync::Arc};

use bytes::{Buf, BytesMut};
use swiftwater_sql::{ErrorKind, SqlError, postgres_setting, shutting_down};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    MESSAGE_BYTES_MAX,
    message::{Incoming, Outgoing, malformed},
};
use crate::{
    budget::Share,
    server::{Phase, Shared},
};
use settings::Settings;
use statements::{Portal, Prepared};

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
const VERSION_3: i32 = 196_608;
/// The longest message before a session begins.
const STARTUP_BYTES_MAX: usize = 10_000;
/// Bytes of output at which it is sent.
const FLUSH_BYTES: usize = 64 << 10;
/// Bytes that a client may send ahead while a statement runs.
const AHEAD_BYTES: usize = 64 << 10;

/// Settings that a client is told when it connects.
const REPORTED: [&str; 8] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
];

pub(crate) struct Session {
    stream: TcpStream,
    input: BytesMut,
    out: Outgoing,
    shared: Arc<Shared>,
    number: u32,
    secret: u32,
    runs: u64,
    /// `I`, `T` or `E`, as the client is told.
    state: u8,
    /// The transaction wrote something.
    wrote: bool,
    settings: Settings,
    statements: HashMap<String, Prepared>,
    portals: HashMap<String, Portal>,
    /// The share of memory for its state, and for an incomplete message.
    share: Share,
}

impl Session {
    pub(crate) fn new(stream: TcpStream, shared: Arc<Shared>, number: u32, secret: u32) -> Session {
        Session {
            share: shared.share(),
            stream,
            input: BytesMut::new(),
            out: Outgoing::default(),
            shared,
            number,
            secret,
            runs: 0,
            state: b'I',
            wrote: false,
            settings: Settings::default(),
            statements: HashMap::new(),
            portals: HashMap::new(),
        }
    }

    /// Speaks, once it has begun, until the client goes.
    pub(crate) async fn run(&mut self) -> io::Result<()> {
        // After an error in an extended query everything up to the next Sync is passed over.
        let mut skipping = false;
        loop {
            self.flush().await?;
            let shared = Arc::clone(&self.shared);
            let message = tokio::select! {
                biased;
                message = self.message() => message?,
                () = shared.reached(Phase::Closing) => return self.send_shutdown().await,
            };
            let Some((kind, body)) = message else { return Ok(()) };
            let mut message = Incoming(&body);
            let done = match kind {
                b'X' => return Ok(()),
                b'S' => {
                    skipping = false;
                    self.portals.clear();
                    // The rest is no more than it had.
                    let _ = self.share.set(self.kept_bytes());
                    self.out.ready(self.state);
                    Ok(())
                }
                // After a failed copy the client still sends the messages that it has begun.
                b'H' | b'd' | b'c' | b'f' => Ok(()),
                _ if skipping => Ok(()),
                b'Q' => {
                    let text = message.text()?;
                    self.simple(&text).await?;
                    self.out.ready(self.state);
                    Ok(())
                }
                b'P' => self.parse(&mut message)?,
                b'B' => self.bind(&mut message)?,
                b'D' => self.describe(&mut message).await?,
                b'E' => self.execute(&mut message).await?,
                b'C' => {
                    self.close(&mut message)?;
                    Ok(())
                }
                other => {
                    Err(Failed::new("08P01", format!("message `{}` is not supported", char::from(other))))
                }
            };
            if let Err(Failed { error, text }) = done {
                self.fail(&error, &text);
                skipping = true;
            }
        }
    }

    /// Reserves so many bytes more, or refuses them.
    fn reserve_bytes(&mut self, bytes: usize) -> Result<(), Box<Failed>> {
        let kept = self.kept_bytes();
        self.share.set(kept + bytes).map_err(|_| {
            let failed = Failed::new(
                "53200",
                "the bytes of statements, portals and unfinished requests have reached their limit",
            );
            Box::new(failed.hint("Close statements and portals, or raise server.unfinished_bytes_max."))
        })
    }

    fn kept_bytes(&self) -> usize {
        let statements = self.statements.iter().map(|(name, statement)| name.len() + statement.bytes());
        statements.chain(self.portals.values().map(|portal| portal.bytes)).sum()
    }

    /// Exchanges the messages up to the first ReadyForQuery; false if there is no session.
    pub(crate) async fn begin(&mut self) -> io::Result<bool> {
        loop {
            let Some(length) = self.number_ahead().await? else { return Ok(false) };
            let length = usize::try_from(length).map_err(|_| malformed("a length is negative"))?;
            if !(8..=STARTUP_BYTES_MAX).contains(&length) || !self.fill(length).await? {
                return Err(malformed("this is not PostgreSQL's protocol"));
            }
            let body = self.input.split_to(length);
            let mut message = Incoming(&body[4..]);
            match message.i32()? {
                SSL_REQUEST | GSS_REQUEST => self.stream.write_all(b"N").await?,
                CANCEL_REQUEST => {
                    let (number, secret) = (message.i32()? as u32, message.i32()? as u32);
                    if let (Some(id), Ok(access)) =
                        (self.shared.postgres.find(number, secret), self.shared.sql.access())
                    {
                        access.sql.cancel(&id);
                    }
                    return Ok(false);
                }
                VERSION_3 => {
                    if let Err(Failed { error, text }) = self.begin_settings(&mut message)? {
                        self.fail(&error, &text);
                        self.flush().await?;
                        return Ok(false);
                    }
                    break;
                }
                _ => return Err(malformed("only version 3 of PostgreSQL's protocol is supported")),
            }
        }
        self.out.message(b'R', |out| out.extend_from_slice(&0_i32.to_be_bytes()));
        for (name, value) in REPORTED.into_iter().filter_map(postgres_setting) {
            self.out.parameter(name, value);
        }
        if let Some(warning) = self.settings.warning.take() {
            self.out.warning(&warning);
        }
        let (number, secret) = (self.number, self.secret);
        self.out.message(b'K', |out| {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&secret.to_be_bytes());
        });
        self.out.ready(self.state);
        Ok(true)
    }

    /// Reads the client's settings: names and values, up to an empty name.
    fn begin_settings(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        loop {
            let name = message.text()?;
            if name.is_empty() {
                return Ok(Ok(()));
            }
            if let Err(failed) = self.settings.begin(&name, &message.text()?) {
                return Ok(Err(*failed));
            }
        }
    }

    /// Sends the client the error that there are too many sessions.
    pub(crate) async fn refuse(&mut self, limit: usize) -> io::Result<()> {
        self.out.bytes.clear();
        let what = format!("there are {limit} sessions, which is the limit");
        self.out.fatal(&SqlError::new(ErrorKind::Limit, what).with_state("53300"));
        self.flush().await
    }

    /// Notifies the client that the server shuts down.
    async fn send_shutdown(&mut self) -> io::Result<()> {
        self.out.fatal(&shutting_down());
        self.flush().await
    }

    fn fail(&mut self, error: &SqlError, text: &str) {
        self.fail_in(error, text, 0);
    }

    /// Does the same as [`Self::fail`], for a statement that begins after so many characters of the client's text.
    fn fail_in(&mut self, error: &SqlError, statement: &str, before: usize) {
        self.shared.postgres.running(self.number, None);
        if self.state == b'T' {
            self.state = b'E';
        }
        self.out.error(error, statement, before);
    }

    /// Waits for work, and ends it when the client goes away meanwhile.
    async fn while_connected<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            if self.input.len() >= AHEAD_BYTES {
                return Ok(work.await);
            }
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                read = self.stream.read_buf(&mut self.input) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.out.bytes.is_empty() {
            self.stream.write_all(&self.out.bytes).await?;
            self.out.bytes.clear();
        }
        Ok(())
    }

    /// The next message with its kind; none at the end.
    async fn message(&mut self) -> io::Result<Option<(u8, BytesMut)>> {
        if !self.fill(5).await? {
            return Ok(None);
        }
        let kind = self.input[0];
        let length = Incoming(&self.input[1..5]).i32()?;
        let length = usize::try_from(length).map_err(|_| malformed("a length is negative"))?;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(malformed("a message is too long"));
        }
        if length > AHEAD_BYTES && self.share.set(self.kept_bytes() + length).is_err() {
            return Err(malformed(
                "a message finds no room: the bytes of unfinished requests have reached their limit",
            ));
        }
        if !self.fill(length + 1).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut whole = self.input.split_to(length + 1);
        whole.advance(5);
        Ok(Some((kind, whole)))
    }

    async fn number_ahead(&mut self) -> io::Result<Option<i32>> {
        if !self.fill(4).await? {
            return Ok(None);
        }
        Incoming(&self.input[..4]).i32().map(Some)
    }

    /// Reads until so many bytes are there; false if the client has gone.
    async fn fill(&mut self, count: usize) -> io::Result<bool> {
        while self.input.len() < count {
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The error of a statement, and the text that contains the error's place.
struct Failed {
    error: SqlError,
    text: String,
}

impl Failed {
    /// `state`: the SQLSTATE, by PostgreSQL's list.
    fn new(state: &'static str, what: impl Into<String>) -> Failed {
        Failed { error: SqlError::new(ErrorKind::Invalid, what).with_state(state), text: String::new() }
    }

    fn hint(self, hint: &str) -> Failed {
        Failed { error: self.error.with_hint(hint), text: self.text }
    }
}
