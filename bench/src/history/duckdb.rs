//! Runs DuckDB as a Python process, for comparison. It is available where the tests' packages are.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::python::python;

/// Reads statements as lines of JSON, and answers each with a line of JSON.
const SCRIPT: &str = include_str!("duckdb.py");

/// A DuckDB that runs, with all cores.
pub(super) struct DuckDb {
    child: Child,
    statements: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(super) version: String,
}

#[derive(Deserialize)]
struct Answer {
    seconds: f64,
    rows: Vec<Value>,
}

impl DuckDb {
    /// Starts it, by the Python that `SWIFTWATER_PYTHON` names, or the one that `make test` has made for its tests.
    pub(super) fn start() -> anyhow::Result<DuckDb> {
        let python = python()?;
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let statements = child.stdin.take().context("DuckDB's input was taken")?;
        let answers = BufReader::new(child.stdout.take().context("DuckDB's output was taken")?);
        let mut duckdb = DuckDb { child, statements, answers, version: String::new() };
        duckdb.version = duckdb.line().context("Python has no package `duckdb`")?.trim().to_owned();
        Ok(duckdb)
    }

    /// Runs a statement: seconds, and its rows as objects.
    pub(super) fn ask(&mut self, text: &str) -> anyhow::Result<(f64, Vec<Value>)> {
        writeln!(self.statements, "{}", Value::from(text))?;
        self.statements.flush()?;
        let line = self.line().with_context(|| format!("DuckDB does not answer `{text}`"))?;
        let Answer { seconds, rows } = serde_json::from_str(&line).context("DuckDB's answer is no JSON")?;
        Ok((seconds, rows))
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(!line.is_empty(), "it has ended");
        Ok(line)
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
