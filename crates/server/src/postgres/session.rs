//! One connection of PostgreSQL's protocol.

use std::{collections::HashMap, io, pin::Pin, sync::Arc};

use bytes::{Buf, BytesMut};
use futures_util::StreamExt;
use swiftwater_sql::{
    Answer, Command, CopyIn, Dialect, ErrorKind, Parameter, RunOptions, SqlError, WireCopy,
    forms::{PgType, PgWriter},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    MESSAGE_BYTES_MAX, catalog,
    copy::{CopyReader, Row, write_header, write_row},
    message::{Incoming, Outgoing, malformed, text},
    values::parameter,
};
use crate::{body::heavy, server::Shared};

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

/// What a client is told of the server when it connects.
const PARAMETERS: [(&str, &str); 8] = [
    ("server_version", concat!("16.0 (Swiftwater ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];
/// What it may ask for besides, by SHOW.
const SHOWN: [(&str, &str); 4] = [
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("search_path", "public"),
    ("max_identifier_length", "63"),
];

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
    /// Rows are to be copied from the client, or to it.
    copy: Option<WireCopy>,
    /// How a statement of sessions ended.
    tag: &'static str,
}

impl Portal {
    fn new(statement: Prepared, parameters: Vec<Parameter>, formats: Vec<i16>) -> Portal {
        Portal { statement, parameters, formats, open: None, copy: None, tag: "" }
    }
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
    /// The transaction wrote something.
    wrote: bool,
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
            wrote: false,
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
                // Of a copy that has failed the client sends what it has begun to.
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
                    Err(Failed::new("08P01", format!("message `{}` is not spoken here", char::from(other))))
                }
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
        for (name, value) in PARAMETERS {
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
            let statement = Prepared { text: statement, types: Vec::new() };
            let mut portal = Portal::new(statement, Vec::new(), Vec::new());
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
            return Ok(Err(Failed::new("54000", format!("a session keeps {KEPT_MAX} statements at most"))));
        }
        self.statements.insert(name, Prepared { text, types });
        self.out.message(b'1', |_| {});
        Ok(Ok(()))
    }

    fn bind(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let (portal, statement) = (message.text()?, message.text()?);
        let Some(statement) = self.statements.get(&statement).cloned() else {
            return Ok(Err(Failed::new("26000", format!("no prepared statement `{statement}`"))));
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
                None => {
                    return Ok(Err(Failed::new(
                        "22P02",
                        format!("the value of ${} cannot be read", index + 1),
                    )));
                }
            }
        }
        let formats = (0..message.count()?).map(|_| message.i16()).collect::<io::Result<Vec<_>>>()?;
        if self.portals.len() >= KEPT_MAX {
            return Ok(Err(Failed::new("54000", format!("a session keeps {KEPT_MAX} portals at most"))));
        }
        self.portals.insert(portal, Portal::new(statement, parameters, formats));
        self.out.message(b'2', |_| {});
        Ok(Ok(()))
    }

    async fn describe(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let kind = message.take(1)?[0];
        let name = message.text()?;
        if kind == b'P' {
            let Some(mut portal) = self.portals.remove(&name) else {
                return Ok(Err(Failed::new("34000", format!("no portal `{name}`"))));
            };
            let opened = self.described(&mut portal).await?;
            self.portals.insert(name, portal);
            return Ok(opened);
        }
        let Some(statement) = self.statements.get(&name).cloned() else {
            return Ok(Err(Failed::new("26000", format!("no prepared statement `{name}`"))));
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
        let mut portal = Portal::new(statement, parameters, Vec::new());
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
            return Ok(Err(Failed::new("34000", format!("no portal `{name}`"))));
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
        let words: Vec<String> = text.split_whitespace().take(3).map(str::to_uppercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let first = words.first().copied().unwrap_or_default();
        let ends = matches!(first, "COMMIT" | "END" | "ROLLBACK" | "ABORT");
        if self.state == b'E' && !ends {
            let what = "a statement of this transaction failed before: ROLLBACK ends it";
            return Ok(Err(Failed::new("25P02", what)));
        }
        portal.tag = match (first, words.get(1).copied().unwrap_or_default()) {
            ("BEGIN", _) => "BEGIN",
            ("START", "TRANSACTION") => "START TRANSACTION",
            ("COMMIT" | "END", _) if self.state != b'E' => "COMMIT",
            // To a savepoint, which there is none.
            ("ROLLBACK", "TO") => return Ok(Err(Failed::new("0A000", "savepoints are not supported"))),
            ("COMMIT" | "END" | "ROLLBACK" | "ABORT", _) => "ROLLBACK",
            ("SET", _) => "SET",
            ("RESET", _) => "RESET",
            ("DISCARD", _) => "DISCARD ALL",
            ("DEALLOCATE", name) => {
                self.deallocate(name, &text);
                "DEALLOCATE"
            }
            ("COPY", _) if uses_the_protocol(&text) => {
                let Ok(access) = self.shared.sql.access() else {
                    return Ok(Err(Failed::new("57P03", "nothing is stored here")));
                };
                return Ok(match access.sql.wire_copy(&text) {
                    Ok(copy) => {
                        portal.copy = Some(copy);
                        Ok(())
                    }
                    Err(error) => Err(Failed { error, text }),
                });
            }
            ("SHOW", _) => return self.start(portal, shown(&words).unwrap_or(text)).await,
            _ => return self.start(portal, text).await,
        };
        match portal.tag {
            "BEGIN" | "START TRANSACTION" => self.state = b'T',
            "COMMIT" | "ROLLBACK" => {
                let wrote = std::mem::take(&mut self.wrote);
                self.state = b'I';
                if wrote && portal.tag == "ROLLBACK" {
                    let failed =
                        Failed::new("0A000", "what the transaction wrote cannot be taken back: it stays");
                    return Ok(Err(failed.hint("Each statement is a transaction here.")));
                }
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    /// Forgets a prepared statement, or all of them.
    fn deallocate(&mut self, name: &str, text: &str) {
        let name =
            if name == "PREPARE" { text.split_whitespace().nth(2) } else { text.split_whitespace().nth(1) };
        match name {
            Some(name) if !name.eq_ignore_ascii_case("ALL") => {
                self.statements.remove(name.trim_matches('"'));
            }
            _ => self.statements.clear(),
        }
    }

    async fn start(&mut self, portal: &mut Portal, text: String) -> io::Result<Result<(), Failed>> {
        let Ok(access) = self.shared.sql.access().cloned() else {
            return Ok(Err(Failed::new("57P03", "nothing is stored here")));
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
        let run = async move {
            let asked = catalog::instead(&asked, &sql).await?.unwrap_or(asked);
            sql.run(asked, options).await
        };
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
                (ty, wants_binary)
            })
            .collect();
        let answer = Box::pin(answer);
        portal.open = Some(Open { answer, rest: None, columns, sent: 0, counted: 0 });
        Ok(Ok(()))
    }

    /// Sends rows, all or at most `limit`, and how the statement ended.
    async fn rows(&mut self, portal: &mut Portal, limit: u64) -> io::Result<Result<(), Failed>> {
        if let Some(copy) = portal.copy.take() {
            let copied = match copy.is_from_client() {
                true => self.copy_in(&copy, &portal.statement.text).await?,
                false => self.copy_out(&copy, portal).await?,
            };
            return Ok(copied.map(|rows| self.out.complete(&format!("COPY {rows}"))));
        }
        let Some(mut open) = portal.open.take() else {
            self.out.complete(portal.tag);
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
                open.counted = writer.long(0, 0).unwrap_or(0);
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
        self.wrote |=
            self.state == b'T' && !matches!(open.answer.command(), Command::Query | Command::Nothing);
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

    /// Sends the rows of a table or query; answers how many.
    async fn copy_out(&mut self, copy: &WireCopy, portal: &mut Portal) -> io::Result<Result<u64, Failed>> {
        let Ok(access) = self.shared.sql.access().cloned() else {
            return Ok(Err(Failed::new("57P03", "nothing is stored here")));
        };
        let text = portal.statement.text.clone();
        let query = match self.while_connected(access.sql.copied(copy)).await? {
            Ok(query) => query,
            Err(error) => return Ok(Err(Failed { error, text })),
        };
        if let Err(failed) = self.start(portal, query).await? {
            return Ok(Err(failed));
        }
        let Some(Open { mut answer, columns, .. }) = portal.open.take() else { return Ok(Ok(0)) };
        self.out.message(b'H', |out| copy_head(columns.len(), out));
        let form = &copy.form;
        if form.has_header {
            let names = names(&answer);
            let names = names.iter().map(String::as_str);
            self.out.message(b'd', |out| write_header(names, form, out));
        }
        let mut sent = 0;
        while let Some(batch) = self.while_connected(async { answer.next().await }).await? {
            let written = batch.and_then(|batch| Ok((PgWriter::new(&batch)?, batch.num_rows())));
            let (writer, rows) = match written {
                Ok(written) => written,
                Err(error) => return Ok(Err(Failed { error, text })),
            };
            for row in 0..rows {
                self.out.message(b'd', |out| write_row(&writer, row, columns.len(), form, out));
                if self.out.bytes.len() >= FLUSH_BYTES {
                    self.flush().await?;
                }
            }
            sent += rows as u64;
        }
        self.shared.postgres.running(self.number, None);
        self.out.message(b'c', |_| {});
        Ok(Ok(sent))
    }

    /// Takes rows into a table or stream, all or none; answers how many.
    async fn copy_in(&mut self, copy: &WireCopy, text: &str) -> io::Result<Result<u64, Failed>> {
        let Ok(access) = self.shared.sql.access().cloned() else {
            return Ok(Err(Failed::new("57P03", "nothing is stored here")));
        };
        let mut rows = match self.while_connected(access.sql.copy_in(copy)).await? {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(Failed { error, text: text.to_owned() })),
        };
        self.out.message(b'G', |out| copy_head(rows.columns(), out));
        self.flush().await?;
        let mut reader = CopyReader::new(copy.form.clone());
        if let Err(failed) = self.take_rows(&mut reader, &mut rows).await? {
            return Ok(Err(failed));
        }
        let copied = self.while_connected(rows.finish()).await?;
        self.wrote |= self.state == b'T' && copied.is_ok();
        Ok(copied.map_err(|error| Failed { error, text: String::new() }))
    }

    /// Reads the client's rows up to their end.
    async fn take_rows(
        &mut self,
        reader: &mut CopyReader,
        into: &mut CopyIn,
    ) -> io::Result<Result<(), Failed>> {
        let mut rows: Vec<Row> = Vec::new();
        loop {
            let Some((kind, body)) = self.message().await? else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let read = match kind {
                b'd' => heavy(body.len().saturating_mul(8), || reader.push(&body, &mut rows)),
                b'c' => reader.finish(&mut rows),
                b'f' => {
                    let why = Incoming(&body).text()?;
                    return Ok(Err(Failed::new("57014", format!("the client gave up copying: {why}"))));
                }
                // A client that speaks the extended protocol sends them with the statement.
                b'H' | b'S' => Ok(()),
                other => {
                    let what = format!("message `{}` does not belong into a copy", char::from(other));
                    return Ok(Err(Failed::new("08P01", what)));
                }
            };
            if let Err(what) = read {
                return Ok(Err(Failed::new("22P04", what)));
            }
            for Row { line, values } in rows.drain(..) {
                if let Err(error) = into.push(line, &values).await {
                    return Ok(Err(Failed { error, text: String::new() }));
                }
            }
            if kind == b'c' {
                return Ok(Ok(()));
            }
        }
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
    /// `state`: the SQLSTATE, by PostgreSQL's list.
    fn new(state: &'static str, what: impl Into<String>) -> Failed {
        Failed { error: SqlError::new(ErrorKind::Invalid, what).with_state(state), text: String::new() }
    }

    fn hint(self, hint: &str) -> Failed {
        Failed { error: self.error.with_hint(hint), text: self.text }
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
            bytes.extend_from_slice(&ty.oid().to_be_bytes());
            bytes.extend_from_slice(&ty.size().to_be_bytes());
            bytes.extend_from_slice(&(-1_i32).to_be_bytes());
            bytes.extend_from_slice(&i16::from(*is_binary).to_be_bytes());
        }
    });
}

fn data_row(out: &mut Outgoing, writer: &PgWriter, row: usize, columns: &[(PgType, bool)]) {
    out.message(b'D', |bytes| {
        bytes.extend_from_slice(&(columns.len() as i16).to_be_bytes());
        for (column, (_, is_binary)) in columns.iter().enumerate() {
            let from = bytes.len();
            bytes.extend_from_slice(&(-1_i32).to_be_bytes());
            let written = match is_binary {
                true => writer.write_binary(row, column, bytes),
                false => writer.write(row, column, bytes),
            };
            if written {
                let length = i32::try_from(bytes.len() - from - 4).unwrap_or(i32::MAX);
                bytes[from..from + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    });
}

/// What stands before the rows of a copy: that all columns are text.
fn copy_head(columns: usize, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&(columns as i16).to_be_bytes());
    out.resize(out.len() + 2 * columns, 0);
}

/// Whether a COPY reads from the client, or writes to it.
fn uses_the_protocol(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';')).rev().take(64);
    words.any(|word| word.eq_ignore_ascii_case("stdin") || word.eq_ignore_ascii_case("stdout"))
}

/// The query that answers a SHOW of a parameter of PostgreSQL's; none if it is none.
fn shown(words: &[&str]) -> Option<String> {
    let name = match words {
        [_, "TRANSACTION", "ISOLATION"] => "transaction_isolation",
        [_, "TIME", "ZONE"] => "TimeZone",
        [_, name] => name,
        _ => return None,
    };
    let mut all = PARAMETERS.iter().chain(&SHOWN);
    let (name, value) = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(format!("SELECT '{value}' AS \"{name}\""))
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
    fn placeholders_are_counted() {
        assert_eq!(placeholders("SELECT $1, $3 + $2"), 3);
        assert_eq!(placeholders("SELECT '$'"), 0);
    }
}
