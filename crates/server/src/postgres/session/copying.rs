//! Runs `COPY … FROM STDIN` and `… TO STDOUT` on one connection.

use std::io;

use futures_util::StreamExt;
use swiftwater_sql::{CopyIn, WireCopy, forms::PgWriter};

use super::{
    FLUSH_BYTES, Failed, Session,
    settings::Timer,
    statements::{Open, Portal, names},
};
use crate::{
    body::heavy,
    postgres::{
        copy::{CopyReader, Row, write_header, write_row},
        message::Incoming,
    },
};

impl Session {
    /// Sends the rows of a table or query; returns their number.
    pub(super) async fn copy_out(
        &mut self,
        copy: &WireCopy,
        portal: &mut Portal,
    ) -> io::Result<Result<u64, Failed>> {
        let Ok(access) = self.shared.sql.access().cloned() else {
            return Ok(Err(Failed::new("57P03", "nothing is stored here")));
        };
        let text = portal.statement.text.to_string();
        let query = match self.while_connected(access.sql.copied(copy)).await? {
            Ok(query) => query,
            Err(error) => return Ok(Err(Failed { error, text })),
        };
        if let Err(failed) = self.start(portal, query).await? {
            return Ok(Err(failed));
        }
        let Some(Open { mut answer, columns, timer, .. }) = portal.open.take() else { return Ok(Ok(0)) };
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
                Err(error) => return Ok(Err(Timer::statement_failure(timer.as_ref(), error, text))),
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

    /// Takes rows into a table or stream, all or none; returns their number.
    pub(super) async fn copy_in(&mut self, copy: &WireCopy, text: &str) -> io::Result<Result<u64, Failed>> {
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
        if let Err(failed) = self.read_rows(&mut reader, &mut rows).await? {
            return Ok(Err(failed));
        }
        let copied = self.while_connected(rows.finish()).await?;
        self.wrote |= self.state == b'T' && copied.is_ok();
        Ok(copied.map_err(|error| Failed { error, text: String::new() }))
    }

    /// Reads the client's rows up to their end.
    async fn read_rows(
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
                    return Ok(Err(Failed::new("57014", format!("the client cancelled the copy: {why}"))));
                }
                // A client that speaks the extended protocol sends them with the statement.
                b'H' | b'S' => Ok(()),
                other => {
                    let what = format!("message `{}` is not allowed in a copy", char::from(other));
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
}

/// Writes the header of a copy's rows: all columns are text.
fn copy_head(columns: usize, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&(columns as i16).to_be_bytes());
    out.resize(out.len() + 2 * columns, 0);
}

/// True if a COPY reads from the client, or writes to it.
pub(super) fn uses_the_protocol(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ';')).rev().take(64);
    words.any(|word| word.eq_ignore_ascii_case("stdin") || word.eq_ignore_ascii_case("stdout"))
}
