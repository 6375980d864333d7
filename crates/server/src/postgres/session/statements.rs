//! Runs the statements of one connection, simple and extended: from their text to the rows that are sent.

use std::{io, pin::Pin, sync::Arc};

use futures_util::StreamExt;
use swiftwater_lang::ddl::placeholders;
use swiftwater_sql::{
    Answer, Command, Dialect, ErrorKind, Parameter, RunOptions, SqlError, WireCopy,
    forms::{PgType, PgWriter},
    postgres_setting,
};

use super::{FLUSH_BYTES, Failed, Session, copying::uses_the_protocol, settings::Timer};
use crate::postgres::{
    catalog,
    message::{Incoming, Outgoing, text},
    values::parameter,
};

/// Statements and portals that a session keeps by name.
const KEPT_MAX: usize = 1000;
/// Approximate bytes of a statement or a portal beside its text and its values.
const KEPT_BYTES: usize = 512;

/// A statement that was parsed. Its portals share its text.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) text: Arc<str>,
    types: Arc<[i32]>,
}

impl Prepared {
    /// Bytes that it takes up.
    pub(super) fn bytes(&self) -> usize {
        KEPT_BYTES + self.text.len() + size_of_val(&*self.types)
    }
}

/// A statement with its values, and its answer once it was begun.
pub(super) struct Portal {
    pub(super) statement: Prepared,
    parameters: Vec<Parameter>,
    /// Bytes that the parameters and its name take up.
    pub(super) bytes: usize,
    /// Formats of the answer: 0 text, 1 binary; one for all, or one a column.
    formats: Vec<i16>,
    pub(super) open: Option<Open>,
    /// Rows are to be copied from the client, or to it.
    copy: Option<WireCopy>,
    /// The way a statement of sessions ended.
    tag: &'static str,
}

impl Portal {
    fn new(statement: Prepared, parameters: Vec<Parameter>, formats: Vec<i16>) -> Portal {
        Portal { statement, parameters, bytes: KEPT_BYTES, formats, open: None, copy: None, tag: "" }
    }
}

/// An answer that is being read.
pub(super) struct Open {
    pub(super) answer: Pin<Box<Answer>>,
    /// Rows of a batch that were not sent yet.
    rest: Option<(PgWriter, usize, usize)>,
    pub(super) columns: Vec<(PgType, bool)>,
    sent: u64,
    /// Rows that a writing statement counted.
    counted: i64,
    id: String,
    /// Runs while rows are made, not while the client thinks whether it wants more.
    pub(super) timer: Option<Timer>,
}

impl Session {
    /// Statements as text, one after another; the answers of all are sent.
    pub(super) async fn simple(&mut self, text: &str) -> io::Result<()> {
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
        for statement in statements {
            let begins = statement.start;
            let statement = Prepared { text: text[statement].into(), types: Arc::default() };
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

    pub(super) fn parse(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let (name, text) = (message.text()?, message.text()?);
        let types = (0..message.count()?).map(|_| message.i32()).collect::<io::Result<Vec<_>>>()?;
        if self.statements.len() >= KEPT_MAX && !self.statements.contains_key(&name) {
            return Ok(Err(Failed::new("54000", format!("a session has at most {KEPT_MAX} statements"))));
        }
        let prepared = Prepared { text: text.into(), types: types.into() };
        if let Err(failed) = self.reserve_bytes(prepared.bytes() + name.len()) {
            return Ok(Err(*failed));
        }
        self.statements.insert(name, prepared);
        self.out.message(b'1', |_| {});
        Ok(Ok(()))
    }

    pub(super) fn bind(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let (portal, statement) = (message.text()?, message.text()?);
        let Some(statement) = self.statements.get(&statement).cloned() else {
            return Ok(Err(Failed::new("26000", format!("no prepared statement `{statement}`"))));
        };
        let codes = (0..message.count()?).map(|_| message.i16()).collect::<io::Result<Vec<_>>>()?;
        let mut parameters = Vec::new();
        let mut bytes = portal.len();
        for index in 0..message.count()? {
            let length = message.i32()?;
            let Ok(length) = usize::try_from(length) else {
                parameters.push(Parameter::Null);
                continue;
            };
            let value = message.read_bytes(length)?;
            bytes += size_of::<Parameter>() + length;
            let is_binary = match codes.as_slice() {
                [] => false,
                [all] => *all == 1,
                each => each.get(index) == Some(&1),
            };
            match parameter(value, statement.types.get(index).copied().unwrap_or(0), is_binary) {
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
            return Ok(Err(Failed::new("54000", format!("a session has at most {KEPT_MAX} portals"))));
        }
        let mut made = Portal::new(statement, parameters, formats);
        made.bytes += bytes;
        if let Err(failed) = self.reserve_bytes(made.bytes) {
            return Ok(Err(*failed));
        }
        self.portals.insert(portal, made);
        self.out.message(b'2', |_| {});
        Ok(Ok(()))
    }

    pub(super) async fn describe(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
        let kind = message.read_bytes(1)?[0];
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
                // An unknown type is reported as text, which becomes the required type.
                out.extend_from_slice(&(if ty == 0 { 25 } else { ty }).to_be_bytes());
            }
        });
        // The columns are found by a run with nulls, which is begun and dropped.
        let parameters = vec![Parameter::Null; count];
        let mut portal = Portal::new(statement, parameters, Vec::new());
        self.described(&mut portal).await
    }

    /// Begins a query, so that its columns are known. A statement that writes has none, and is begun when it is
    /// executed.
    async fn described(&mut self, portal: &mut Portal) -> io::Result<Result<(), Failed>> {
        if !begins_as_query(&portal.statement.text) {
            self.out.message(b'n', |_| {});
            return Ok(Ok(()));
        }
        if let Err(failed) = self.open(portal).await? {
            return Ok(Err(failed));
        }
        match &mut portal.open {
            Some(open) => {
                open.timer = None;
                row_description(&mut self.out, &names(&open.answer), &open.columns);
            }
            None => self.out.message(b'n', |_| {}),
        }
        Ok(Ok(()))
    }

    pub(super) async fn execute(&mut self, message: &mut Incoming<'_>) -> io::Result<Result<(), Failed>> {
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

    pub(super) fn close(&mut self, message: &mut Incoming<'_>) -> io::Result<()> {
        let kind = message.read_bytes(1)?[0];
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
            ("SET", _) => match self.settings.set(&text, self.state == b'T') {
                Ok(()) => "SET",
                Err(failed) => return Ok(Err(*failed)),
            },
            ("RESET", name) => {
                self.settings.reset(name);
                "RESET"
            }
            ("DISCARD", name) => {
                self.settings.reset(name);
                "DISCARD ALL"
            }
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
            ("SHOW", name) => {
                let shown = self.settings.shown(name).or_else(|| shown(&words));
                let query = shown.map(|(name, value)| format!("SELECT '{value}' AS \"{name}\""));
                return self.start(portal, query.unwrap_or(text)).await;
            }
            _ => return self.start(portal, text).await,
        };
        match portal.tag {
            "BEGIN" | "START TRANSACTION" => self.state = b'T',
            "COMMIT" | "ROLLBACK" => {
                let wrote = std::mem::take(&mut self.wrote);
                self.settings.end_transaction();
                self.state = b'I';
                if wrote && portal.tag == "ROLLBACK" {
                    let failed = Failed::new("0A000", "the writes of the transaction cannot be rolled back");
                    return Ok(Err(failed.hint("Each statement is its own transaction.")));
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

    pub(super) async fn start(
        &mut self,
        portal: &mut Portal,
        text: String,
    ) -> io::Result<Result<(), Failed>> {
        let Ok(access) = self.shared.sql.access().cloned() else {
            return Ok(Err(Failed::new("57P03", "nothing is stored here")));
        };
        self.runs += 1;
        let id = format!("pg-{}-{}", self.number, self.runs);
        let options = RunOptions {
            parameters: portal.parameters.clone(),
            distributed: self.settings.distributed,
            others: access.others.clone(),
            id: Some(id.clone()),
            client: self.stream.peer_addr().ok().map(|address| address.ip()),
            ..RunOptions::default()
        };
        self.shared.postgres.running(self.number, Some(id.clone()));
        let sql = Arc::clone(&access.sql);
        let timer = self.settings.timer(&sql, &id);
        let asked = text.clone();
        let run = async move {
            let asked = catalog::instead(&asked, &sql).await?.unwrap_or(asked);
            sql.run(asked, options).await
        };
        let answer = match self.while_connected(run).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(Timer::statement_failure(timer.as_ref(), error, text))),
        };
        // Messages count them in 16 bits.
        let columns = answer.schema().fields().len();
        if i16::try_from(columns).is_err() {
            let what = format!("the answer has {columns} columns, limit is {}", i16::MAX);
            return Ok(Err(Failed::new("54011", what)));
        }
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
        portal.open = Some(Open { answer, rest: None, columns, sent: 0, counted: 0, id, timer });
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
        if open.timer.is_none()
            && let Ok(access) = self.shared.sql.access()
        {
            open.timer = self.settings.timer(&access.sql, &open.id);
        }
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
                            let text = portal.statement.text.to_string();
                            return Ok(Err(Timer::statement_failure(open.timer.as_ref(), error, text)));
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
                open.timer = None;
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
}

fn is_query(open: &Open) -> bool {
    matches!(open.answer.command(), Command::Query | Command::Other | Command::Nothing)
}

pub(super) fn names(answer: &Answer) -> Vec<String> {
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

/// The name and value of a parameter of PostgreSQL's that a SHOW asks for; none if it is none.
fn shown(words: &[&str]) -> Option<(&'static str, String)> {
    let name = match words {
        [_, "TRANSACTION", "ISOLATION"] => "transaction_isolation",
        [_, "TIME", "ZONE"] => "TimeZone",
        [_, name] => name,
        _ => return None,
    };
    postgres_setting(name).map(|(name, value)| (name, value.to_owned()))
}

fn begins_as_query(text: &str) -> bool {
    let first =
        text.trim_start_matches(['(', ' ', '\n', '\t', '\r']).split_whitespace().next().unwrap_or_default();
    ["SELECT", "WITH", "VALUES", "SHOW", "EXPLAIN", "DESCRIBE"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}
