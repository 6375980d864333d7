//! One connection of PostgreSQL's protocol.

use std::{collections::HashMap, io, pin::Pin, sync::Arc};

use bytes::{Buf, BytesMut};
use futures_util::StreamExt;
use swiftwater_sql::{
    Answer, Command, Dialect, ErrorKind, Parameter, RunOptions, SqlError,
    forms::{PgNumber, PgType, PgWriter},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    MESSAGE_BYTES_MAX,
    message::{Incoming, Outgoing, malformed, oid, text},
};
use crate::server::Shared;

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
const VERSION_3: i32 = 196_608;
/// The longest message before a session begins.
const STARTUP_BYTES_MAX: usize = 10_000;
/// Statements and portals that a session keeps by name.
const KEPT_MAX: usize = 1000;
/// What was written is sent when it is this much.
const FLUSH_BYTES: usize = 64 << 10;
/// What a client may send ahead while a statement runs.
const AHEAD_BYTES: usize = 64 << 10;

/// A statement that was parsed.
#[derive(Clone)]
struct Prepared {
    text: String,
    types: Vec<i32>,
}

/// A statement with its values, and its answer once it was begun.
struct Portal {
    statement: Prepared,
    parameters: Vec<Parameter>,
    /// Of the answer: 0 text, 1 binary; one for all, or one a column.
    formats: Vec<i16>,
    open: Option<Open>,
}

/// An answer that is being read.
struct Open {
    answer: Pin<Box<Answer>>,
    /// Rows of a batch that were not sent yet.
    rest: Option<(PgWriter, usize, usize)>,
    columns: Vec<(PgType, bool)>,
    sent: u64,
    /// What a statement that writes counted.
    counted: i64,
}

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
    statements: HashMap<String, Prepared>,
    portals: HashMap<String, Portal>,
}

impl Session {
    pub(crate) fn new(stream: TcpStream, shared: Arc<Shared>, number: u32, secret: u32) -> Session {
        Session {
            stream,
            input: BytesMut::new(),
            out: Outgoing::default(),
            shared,
            number,
            secret,
            runs: 0,
            state: b'I',
            statements: HashMap::new(),
            portals: HashMap::new(),
        }
    }

    /// Speaks until the client goes.
    pub(crate) async fn run(&mut self) -> io::Result<()> {
        if !self.begin().await? {
            return Ok(());
        }
        // After an error in an extended query everything up to the next Sync is passed over.
        let mut skipping = false;
        loop {
            self.flush().await?;
            let Some((kind, body)) = self.message().await? else { return Ok(()) };
            let mut message = Incoming(&body);
            let done = match kind {
                b'X' => return Ok(()),
                b'S' => {
                    skipping = false;
                    self.portals.clear();
                    self.out.ready(self.state);
                    Ok(())
                }
                b'H' => Ok(()),
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
                other => Err(Failed::new(format!("message `{}` is not spoken here", char::from(other)))),
            };
            if let Err(Failed { error, text }) = done {
                self.fail(&error, &text);
                skipping = true;
            }
        }
    }

    /// Everything up to the first ReadyForQuery; false if there is no session to be.
    async fn begin(&mut self) -> io::Result<bool> {
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
                VERSION_3 => break,
                _ => return Err(malformed("only version 3 of PostgreSQL's protocol is spoken")),
            }
        }
        self.out.message(b'R', |out| out.extend_from_slice(&0_i32.to_be_bytes()));
        for (name, value) in [
            ("server_version", concat!("16.0 (Swiftwater ", env!("CARGO_PKG_VERSION"), ")")),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO, MDY"),
            ("IntervalStyle", "postgres"),
            ("TimeZone", "UTC"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
        ] {
            self.out.parameter(name, value);
        }
        let (number, secret) = (self.number, self.secret);
        self.out.message(b'K', |out| {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&secret.to_be_bytes());
        });
        self.out.ready(self.state);
        Ok(true)
    }

    /// Statements as text, one after another; the answers of all are sent.
    async fn simple(&mut self, text: &str) -> io::Result<()> {
        let access = match self.shared.sql.access() {
            Ok(access) => access.clone(),
            Err(_) => {
                let error = SqlError::new(ErrorKind::Unavailable, "nothing is stored here");
                self.fail(&error, text);
                return Ok(());
            }
        };
        let statements = match access.sql.statements(text, Dialect::Native) {
            Ok(statements) => statements,
            Err(error) => {
                self.fail(&error, text);
                return Ok(());
            }
        };
        if statements.is_empty() {
            self.out.message(b'I', |_| {});
        }
        let mut from = 0;
        for statement in statements {
            // The statements are parts of the text, in order.
            let begins = text[from..].find(&statement).map_or(from, |at| from + at);
            from = begins;
            let mut portal = Portal {
                statement: Prepared { text: statement, types: Vec::new() },
                parameters: Vec::new(),
                formats: Vec::new(),
                open: None,
            };
            let done = match self.open(&mut portal).await? {
                Ok(()) => {
                    if let Some(open) =
                        portal.open.as_ref().filter(|open| !open.columns.is_empty() && is_query(open))
                    {
                        row_description(&mut self.out, &names(&open.answer), &open.columns);
                    }
                    self.rows(&mut portal, 0).await?
                }
                Err(failed) => Err(failed),
            };
            if let Err(Failed { error, text: statement }) = done {
                let before = text[..begins].chars().count();
                self.fail_in(&error, &statement, before);
                break;
            }
        }
        Ok(())
    }

    fn parse(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let (name, text) = (message.text()?, message.text()?);
        let types = (0..message.count()?).map(|_| message.i32()).collect::<io::Result<Vec<_>>>()?;
        if self.statements.len() >= KEPT_MAX && !self.statements.contains_key(&name) {
            return Ok(Err(Failed::new(format!("a session keeps {KEPT_MAX} statements at most"))));
        }
        self.statements.insert(name, Prepared { text, types });
        self.out.message(b'1', |_| {});
        Ok(Ok(()))
    }

    fn bind(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let (portal, statement) = (message.text()?, message.text()?);
        let Some(statement) = self.statements.get(&statement).cloned() else {
            return Ok(Err(Failed::new(format!("no prepared statement `{statement}`"))));
        };
        let codes = (0..message.count()?).map(|_| message.i16()).collect::<io::Result<Vec<_>>>()?;
        let mut parameters = Vec::new();
        for index in 0..message.count()? {
            let length = message.i32()?;
            let Ok(length) = usize::try_from(length) else {
                parameters.push(Parameter::Null);
                continue;
            };
            let bytes = message.take(length)?;
            let is_binary = match codes.as_slice() {
                [] => false,
                [all] => *all == 1,
                each => each.get(index) == Some(&1),
            };
            match parameter(bytes, statement.types.get(index).copied().unwrap_or(0), is_binary) {
                Some(parameter) => parameters.push(parameter),
                None => return Ok(Err(Failed::new(format!("the value of ${} cannot be read", index + 1)))),
            }
        }
        let formats = (0..message.count()?).map(|_| message.i16()).collect::<io::Result<Vec<_>>>()?;
        if self.portals.len() >= KEPT_MAX {
            return Ok(Err(Failed::new(format!("a session keeps {KEPT_MAX} portals at most"))));
        }
        self.portals.insert(portal, Portal { statement, parameters, formats, open: None });
        self.out.message(b'2', |_| {});
        Ok(Ok(()))
    }

    async fn describe(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let kind = message.take(1)?[0];
        let name = message.text()?;
        if kind == b'P' {
            let Some(mut portal) = self.portals.remove(&name) else {
                return Ok(Err(Failed::new(format!("no portal `{name}`"))));
            };
            let opened = self.described(&mut portal).await?;
            self.portals.insert(name, portal);
            return Ok(opened);
        }
        let Some(statement) = self.statements.get(&name).cloned() else {
            return Ok(Err(Failed::new(format!("no prepared statement `{name}`"))));
        };
        let count = placeholders(&statement.text);
        let types: Vec<i32> =
            (0..count).map(|index| statement.types.get(index).copied().unwrap_or(0)).collect();
        self.out.message(b't', |out| {
            out.extend_from_slice(&(count as i16).to_be_bytes());
            for ty in types {
                // Of unknown type: a text, which becomes what is wanted.
                out.extend_from_slice(&(if ty == 0 { 25 } else { ty }).to_be_bytes());
            }
        });
        // What its columns are shows when it is asked with nulls; that is begun and dropped.
        let parameters = vec![Parameter::Null; count];
        let mut portal = Portal { statement, parameters, formats: Vec::new(), open: None };
        self.described(&mut portal).await
    }

    /// Begins a query, so that its columns are known. What writes has none, and is begun when it is executed.
    async fn described(&mut self, portal: &mut Portal) -> io::Result<Result<(), Failed>> {
        if !begins_as_query(&portal.statement.text) {
            self.out.message(b'n', |_| {});
            return Ok(Ok(()));
        }
        if let Err(failed) = self.open(portal).await? {
            return Ok(Err(failed));
        }
        match &portal.open {
            Some(open) => row_description(&mut self.out, &names(&open.answer), &open.columns),
            None => self.out.message(b'n', |_| {}),
        }
        Ok(Ok(()))
    }

    async fn execute(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let name = message.text()?;
        let limit = u64::try_from(message.i32()?).unwrap_or(0);
        let Some(mut portal) = self.portals.remove(&name) else {
            return Ok(Err(Failed::new(format!("no portal `{name}`"))));
        };
        if portal.open.is_none()
            && let Err(failed) = self.open(&mut portal).await?
        {
            return Ok(Err(failed));
        }
        let done = self.rows(&mut portal, limit).await?;
        if portal.open.is_some() {
            self.portals.insert(name, portal);
        }
        Ok(done)
    }

    fn close(&mut self, message: &mut Incoming<'_>) -> io::Result<()> {
        let kind = message.take(1)?[0];
        let name = message.text()?;
        if kind == b'P' {
            self.portals.remove(&name);
        } else {
            self.statements.remove(&name);
        }
        self.out.message(b'3', |_| {});
        Ok(())
    }

    /// Begins a statement; those of sessions are answered at once, and nothing is open then.
    async fn open(&mut self, portal: &mut Portal) -> io::Result<Result<(), Failed>> {
        let text = portal.statement.text.trim().trim_end_matches(';').to_owned();
        let first: String = text.split_whitespace().next().unwrap_or_default().to_uppercase();
        if self.state == b'E' && !matches!(first.as_str(), "ROLLBACK" | "COMMIT" | "ABORT" | "END") {
            return Ok(Err(Failed::new("a statement of this transaction failed before: ROLLBACK ends it")));
        }
        match first.as_str() {
            "BEGIN" | "START" => self.state = b'T',
            "COMMIT" | "END" | "ROLLBACK" | "ABORT" => self.state = b'I',
            "SET" | "RESET" | "DISCARD" | "DEALLOCATE" => {}
            _ => return self.start(portal, text).await,
        }
        Ok(Ok(()))
    }

    async fn start(&mut self, portal: &mut Portal, text: String) -> io::Result<Result<(), Failed>> {
        let Ok(access) = self.shared.sql.access().cloned() else {
            return Ok(Err(Failed::new("nothing is stored here")));
        };
        self.runs += 1;
        let id = format!("pg-{}-{}", self.number, self.runs);
        let options = RunOptions {
            parameters: portal.parameters.clone(),
            others: access.others.clone(),
            id: Some(id.clone()),
            ..RunOptions::default()
        };
        self.shared.postgres.running(self.number, Some(id));
        let sql = Arc::clone(&access.sql);
        let asked = text.clone();
        let run = async move { sql.run(asked, options).await };
        let answer = match self.while_connected(run).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(Failed { error, text })),
        };
        let types = answer.schema().fields().iter().map(|field| PgType::of(field.data_type()));
        let columns = types
            .enumerate()
            .map(|(index, ty)| {
                let wants_binary = match portal.formats.as_slice() {
                    [] => false,
                    [all] => *all == 1,
                    each => each.get(index) == Some(&1),
                };
                (ty, wants_binary && has_binary(ty))
            })
            .collect();
        let answer = Box::pin(answer);
        portal.open = Some(Open { answer, rest: None, columns, sent: 0, counted: 0 });
        Ok(Ok(()))
    }

    /// Sends rows, all or at most `limit`, and how the statement ended.
    async fn rows(&mut self, portal: &mut Portal, limit: u64) -> io::Result<Result<(), Failed>> {
        let Some(mut open) = portal.open.take() else {
            let tag = portal.statement.text.split_whitespace().next().unwrap_or_default().to_uppercase();
            self.out.complete(tag.trim_end_matches(';'));
            return Ok(Ok(()));
        };
        let is_query = is_query(&open);
        let mut left = if limit == 0 { u64::MAX } else { limit };
        loop {
            let (writer, mut at, rows) = match open.rest.take() {
                Some(rest) => rest,
                None => {
                    let answer = &mut open.answer;
                    match self.while_connected(async { answer.next().await }).await? {
                        None => break,
                        Some(Err(error)) => {
                            let text = portal.statement.text.clone();
                            return Ok(Err(Failed { error, text }));
                        }
                        Some(Ok(batch)) => match PgWriter::new(&batch) {
                            Ok(writer) => (writer, 0, batch.num_rows()),
                            Err(error) => return Ok(Err(Failed { error, text: String::new() })),
                        },
                    }
                }
            };
            if !is_query {
                open.counted = match writer.number(0, 0) {
                    Some(PgNumber::Long(count)) => count,
                    _ => 0,
                };
                continue;
            }
            while at < rows && left > 0 {
                data_row(&mut self.out, &writer, at, &open.columns);
                at += 1;
                left -= 1;
                open.sent += 1;
                if self.out.bytes.len() >= FLUSH_BYTES {
                    self.flush().await?;
                }
            }
            if at < rows || left == 0 {
                if at < rows {
                    open.rest = Some((writer, at, rows));
                }
                self.out.message(b's', |_| {});
                portal.open = Some(open);
                return Ok(Ok(()));
            }
        }
        self.shared.postgres.running(self.number, None);
        let tag = match open.answer.command() {
            Command::Query => format!("SELECT {}", open.sent),
            Command::Insert => format!("INSERT 0 {}", open.counted),
            Command::CreateTable => "CREATE TABLE".to_owned(),
            Command::DropTable => "DROP TABLE".to_owned(),
            Command::Copy => format!("COPY {}", open.counted),
            Command::Other | Command::Nothing => format!("SELECT {}", open.sent),
        };
        self.out.complete(&tag);
        Ok(Ok(()))
    }

    fn fail(&mut self, error: &SqlError, text: &str) {
        self.fail_in(error, text, 0);
    }

    /// As [`Self::fail`], of a statement before which so many characters stand in what the client sent.
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

/// Why a statement failed, and the text that the error's place is in.
struct Failed {
    error: SqlError,
    text: String,
}

impl Failed {
    fn new(what: impl Into<String>) -> Failed {
        Failed { error: SqlError::new(ErrorKind::Invalid, what), text: String::new() }
    }
}

fn is_query(open: &Open) -> bool {
    matches!(open.answer.command(), Command::Query | Command::Other | Command::Nothing)
}

fn names(answer: &Answer) -> Vec<String> {
    answer.schema().fields().iter().map(|field| field.name().clone()).collect()
}

fn row_description(out: &mut Outgoing, names: &[String], columns: &[(PgType, bool)]) {
    out.message(b'T', |bytes| {
        bytes.extend_from_slice(&(columns.len() as i16).to_be_bytes());
        for (name, (ty, is_binary)) in names.iter().zip(columns) {
            text(name, bytes);
            bytes.extend_from_slice(&0_i32.to_be_bytes());
            bytes.extend_from_slice(&0_i16.to_be_bytes());
            let (number, size) = oid(*ty);
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.extend_from_slice(&size.to_be_bytes());
            bytes.extend_from_slice(&(-1_i32).to_be_bytes());
            bytes.extend_from_slice(&i16::from(*is_binary).to_be_bytes());
        }
    });
}

fn data_row(out: &mut Outgoing, writer: &PgWriter, row: usize, columns: &[(PgType, bool)]) {
    out.message(b'D', |bytes| {
        bytes.extend_from_slice(&(columns.len() as i16).to_be_bytes());
        for (column, (ty, is_binary)) in columns.iter().enumerate() {
            let from = bytes.len();
            bytes.extend_from_slice(&(-1_i32).to_be_bytes());
            let written = if *is_binary {
                writer.number(row, column).is_some_and(|number| write_binary(number, *ty, bytes))
            } else {
                writer.write(row, column, bytes)
            };
            if written {
                let length = i32::try_from(bytes.len() - from - 4).unwrap_or(i32::MAX);
                bytes[from..from + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    });
}

fn has_binary(ty: PgType) -> bool {
    matches!(ty, PgType::Bool | PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Float4 | PgType::Float8)
}

fn write_binary(number: PgNumber, ty: PgType, out: &mut Vec<u8>) -> bool {
    match (number, ty) {
        (PgNumber::Boolean(value), _) => out.push(u8::from(value)),
        (PgNumber::Long(value), PgType::Int2) => out.extend_from_slice(&(value as i16).to_be_bytes()),
        (PgNumber::Long(value), PgType::Int4) => out.extend_from_slice(&(value as i32).to_be_bytes()),
        (PgNumber::Long(value), _) => out.extend_from_slice(&value.to_be_bytes()),
        (PgNumber::Float(value), _) => out.extend_from_slice(&value.to_be_bytes()),
        (PgNumber::Double(value), _) => out.extend_from_slice(&value.to_be_bytes()),
    }
    true
}

/// A value of a parameter; none if it cannot be read. Types by their numbers: 16 bool, 20, 21, 23 whole numbers, 700, 701.
fn parameter(bytes: &[u8], ty: i32, is_binary: bool) -> Option<Parameter> {
    if !is_binary {
        let text = std::str::from_utf8(bytes).ok()?;
        return Some(match ty {
            16 => Parameter::Boolean(matches!(text, "t" | "true" | "on" | "1")),
            20 | 21 | 23 => Parameter::Long(text.parse().ok()?),
            700 | 701 => Parameter::Double(text.parse().ok()?),
            _ => Parameter::Text(text.to_owned()),
        });
    }
    Some(match (ty, bytes) {
        (16, [value]) => Parameter::Boolean(*value != 0),
        (21, _) => Parameter::Long(i64::from(i16::from_be_bytes(bytes.try_into().ok()?))),
        (23, _) => Parameter::Long(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
        (20, _) => Parameter::Long(i64::from_be_bytes(bytes.try_into().ok()?)),
        (700, _) => Parameter::Double(f64::from(f32::from_be_bytes(bytes.try_into().ok()?))),
        (701, _) => Parameter::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        (25 | 1043 | 0, _) => Parameter::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
        _ => return None,
    })
}

fn begins_as_query(text: &str) -> bool {
    let first =
        text.trim_start_matches(['(', ' ', '\n', '\t', '\r']).split_whitespace().next().unwrap_or_default();
    ["SELECT", "WITH", "VALUES", "SHOW", "EXPLAIN", "DESCRIBE"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}

/// The largest number of a `$1`, `$2`, … in a text.
fn placeholders(text: &str) -> usize {
    let number = |rest: &str| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).take(4).collect();
        digits.parse().unwrap_or(0)
    };
    text.match_indices('$').map(|(at, _)| number(&text[at + 1..])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_in_both_forms() {
        assert_eq!(parameter(b"7", 23, false), Some(Parameter::Long(7)));
        assert_eq!(parameter(&7_i32.to_be_bytes(), 23, true), Some(Parameter::Long(7)));
        assert_eq!(parameter(&[0; 3], 23, true), None);
        assert_eq!(parameter(b"x", 23, false), None);
        assert_eq!(parameter(b"x", 0, false), Some(Parameter::Text("x".into())));
        assert_eq!(parameter(&0.5_f64.to_be_bytes(), 701, true), Some(Parameter::Double(0.5)));
    }

    #[test]
    fn placeholders_are_counted() {
        assert_eq!(placeholders("SELECT $1, $3 + $2"), 3);
        assert_eq!(placeholders("SELECT '$'"), 0);
    }
}
