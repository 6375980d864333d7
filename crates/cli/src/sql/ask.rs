//! Runs one text of SQL statements: sends it, watches it, and writes its answer.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, Response, StatusCode, body::Incoming};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    args::SqlForm,
    client::{Client, Problem, full, read_all},
    exit::Failure,
    output::grouped,
    stdio::{stderr_is_terminal, stdout_is_terminal},
    text_table::{self, Table},
};

/// Interval of the shown progress of a statement.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The way in which texts are sent.
pub(crate) struct Asking {
    client: Client,
    pub(crate) form: SqlForm,
    spark: bool,
    parameters: Vec<String>,
    /// Counts statements, for their names.
    count: u64,
}

/// The outcome of the statements of a text.
pub(crate) enum StatementOutcome {
    /// Its answer was written; what there is to tell of it.
    Answered(String),
    /// It is wrong, or failed: why.
    Refused(String),
    /// A person ended it.
    Cancelled,
}

/// The progress of a statement, as reported by the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reading {
    elapsed_ms: u64,
    rows_scanned: u64,
    bytes_scanned: u64,
    percent: Option<f64>,
    error: Option<Problem>,
}

impl Asking {
    pub(crate) fn new(client: Client, form: SqlForm, spark: bool, parameters: Vec<String>) -> Asking {
        Asking { client, form, spark, parameters, count: 0 }
    }

    /// Sends the text, writes the answer as it comes, and ends the statement at Ctrl-C.
    pub(crate) async fn execute(
        &mut self,
        text: &str,
        out: &mut dyn Write,
    ) -> Result<StatementOutcome, Failure> {
        self.count += 1;
        let id = format!("cli-{}-{}", std::process::id(), self.count);
        let watch = self.watch(&id);
        let asked = self.run_statement(text, &id, out);
        tokio::select! {
            biased;
            // The connection goes with the future, and the server ends what nobody waits for.
            _ = tokio::signal::ctrl_c() => Ok(StatementOutcome::Cancelled),
            asked = asked => asked,
            never = watch => match never {},
        }
    }

    async fn run_statement(
        &self,
        text: &str,
        id: &str,
        out: &mut dyn Write,
    ) -> Result<StatementOutcome, Failure> {
        let accept = match self.form {
            // Columns are told even where there are no rows.
            SqlForm::Table | SqlForm::Csv => "text/csv",
            SqlForm::Json => "application/json",
            SqlForm::Ndjson => "application/x-ndjson",
            SqlForm::Arrow => "application/vnd.apache.arrow.stream",
        };
        let parameters: Vec<Value> = self.parameters.iter().map(|text| parameter(text)).collect();
        let dialect = if self.spark { "spark" } else { "native" };
        let body = json!({"query": text, "parameters": parameters, "dialect": dialect}).to_string();
        let fields = [("content-type", "application/json"), ("accept", accept), ("swiftwater-statement", id)];
        let mut connection = self.client.connect().await?;
        let response = connection.send(Method::POST, "/v1/sql", &fields, full(body)).await?;
        let status = response.status();
        if status != StatusCode::OK {
            let problem = Problem::read(status, &read_all(response).await?);
            return Ok(StatementOutcome::Refused(problem.text(Some(text))));
        }
        let written = match self.form {
            SqlForm::Table => self.write_table(response, out).await?,
            _ => write_as_it_comes(response, out).await?,
        };
        match written {
            Ok(rows) => {
                Ok(StatementOutcome::Answered(summary(rows, &self.reading(id).await.unwrap_or_default())))
            }
            Err(broken) => {
                let why = self.reading(id).await.and_then(|reading| reading.error);
                Ok(StatementOutcome::Refused(why.map_or(broken, |problem| problem.text(Some(text)))))
            }
        }
    }

    /// The answer as a table; columns are as wide as what is in the first rows.
    async fn write_table(
        &self,
        response: Response<Incoming>,
        out: &mut dyn Write,
    ) -> Result<Result<Option<u64>, String>, Failure> {
        let mut table = Table::new(stdout_is_terminal());
        let end = each_piece(response, |bytes| table.push(bytes, out)).await?;
        table.finish(out).map_err(Failure::output)?;
        Ok(end.map(|()| Some(table.rows())))
    }

    async fn reading(&self, id: &str) -> Option<Reading> {
        let (status, body) = self.client.fetch(Method::GET, &format!("/v1/sql/{id}")).await.ok()?;
        if status == StatusCode::OK { serde_json::from_slice(&body).ok() } else { None }
    }

    /// Shows how far a statement is, for as long as it is polled.
    async fn watch(&self, id: &str) -> std::convert::Infallible {
        if !stderr_is_terminal() {
            return std::future::pending().await;
        }
        let bar = Bar(ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.0.set_style(style);
        }
        loop {
            tokio::time::sleep(PROGRESS_EVERY).await;
            if let Some(reading) = self.reading(id).await
                && reading.percent.is_none_or(|percent| percent < 100.0)
            {
                bar.0.set_message(scanned(&reading));
                bar.0.tick();
            }
        }
    }

    /// Names for completion: tables and columns. None if the server does not tell them.
    pub(crate) async fn names(&self) -> Vec<String> {
        const NAMES: &str = "SELECT DISTINCT name FROM (SELECT table_name AS name FROM information_schema.columns \
            WHERE table_schema = 'public' UNION ALL SELECT column_name FROM information_schema.columns \
            WHERE table_schema = 'public') ORDER BY name LIMIT 100000";
        let asked = async {
            let mut connection = self.client.connect().await?;
            let fields = [("accept", "text/csv")];
            let response = connection.send(Method::POST, "/v1/sql", &fields, full(NAMES)).await?;
            let is_answer = response.status() == StatusCode::OK;
            let body = read_all(response).await?;
            anyhow::Ok(if is_answer { body } else { Bytes::new() })
        };
        let body = asked.await.unwrap_or_default();
        let rows = text_table::rows_of(&String::from_utf8_lossy(&body));
        rows.into_iter().skip(1).filter_map(|mut row| row.pop().flatten()).collect()
    }
}

/// Clears the line when the statement is over, however it ends.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Passes each piece of a body on; the inner error is that of an interrupted body.
async fn each_piece(
    response: Response<Incoming>,
    mut then: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<Result<(), String>, Failure> {
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                if let Some(data) = frame.data_ref() {
                    then(data).map_err(Failure::output)?;
                }
            }
            Err(error) => return Ok(Err(format!("the server's answer ended early: {error}"))),
        }
    }
    Ok(Ok(()))
}

async fn write_as_it_comes(
    response: Response<Incoming>,
    out: &mut dyn Write,
) -> Result<Result<Option<u64>, String>, Failure> {
    let end = each_piece(response, |bytes| out.write_all(bytes)).await?;
    out.flush().context("cannot write to standard output")?;
    Ok(end.map(|()| None))
}

/// A value for `$1`: a number, true, false or null, else text; JSON's quotes make anything text.
fn parameter(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

/// `3 rows in 0.120 s (1,000,000 rows and 12.0 MB scanned, 8,333,333 rows/s)`.
fn summary(rows: Option<u64>, reading: &Reading) -> String {
    let mut text = match rows {
        Some(1) => "1 row".to_owned(),
        Some(rows) => format!("{} rows", grouped(rows)),
        None => "done".to_owned(),
    };
    let seconds = reading.elapsed_ms as f64 / 1000.0;
    text.push_str(&format!(" in {seconds:.3} s"));
    if reading.rows_scanned > 0 {
        let rate = (reading.rows_scanned as f64 / seconds.max(0.001)) as u64;
        text.push_str(&format!(" ({}, {} rows/s)", scanned(reading), grouped(rate)));
    }
    text
}

fn scanned(reading: &Reading) -> String {
    let megabytes = reading.bytes_scanned as f64 / 1e6;
    let percent = match reading.percent {
        Some(percent) if percent < 100.0 => format!(", {percent:.0} %"),
        _ => String::new(),
    };
    format!("{} rows and {megabytes:.1} MB scanned{percent}", grouped(reading.rows_scanned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_told_with_its_rate() {
        let reading = Reading {
            elapsed_ms: 500,
            rows_scanned: 1_000_000,
            bytes_scanned: 12_000_000,
            percent: Some(100.0),
            error: None,
        };
        let text = summary(Some(3), &reading);
        assert_eq!(text, "3 rows in 0.500 s (1,000,000 rows and 12.0 MB scanned, 2,000,000 rows/s)");
        assert_eq!(summary(Some(1), &Reading::default()), "1 row in 0.000 s");
    }

    #[test]
    fn parameters_are_what_they_look_like() {
        assert_eq!(parameter("7"), json!(7));
        assert_eq!(parameter("true"), json!(true));
        assert_eq!(parameter("\"7\""), json!("7"));
        assert_eq!(parameter("Seattle"), json!("Seattle"));
        assert_eq!(parameter("[1]"), json!("[1]"));
    }
}
