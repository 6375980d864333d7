//! Compares expressions with PostgreSQL's own answers: `tests/sql/postgres/*.txt`.
//!
//! ```text
//! round(2.5::float8)          an expression
//! = 2                         PostgreSQL 15's answer; ! if it fails
//! ~ 3                         the answer here, if it differs; ~ ! if it is refused
//! ```
//!
//! `docs/reference/sql.md` names every kind of difference. If PostgreSQL is available, this command queries and writes
//! its answers: `POSTGRES="host=/tmp port=5432 user=postgres" cargo test -p swiftwater-sql --test sql postgres`.
//! `SLT_WRITE=1` writes the answers here. Read the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{MemoryTables, batches, block_on, sql};
use swiftwater_sql::forms::PgWriter;
use swiftwater_sql::{RunOptions, Sql, SqlOptions};

/// The result that stands for a failure.
const FAILS: &str = "!";

fn postgres(connection: &str, expression: &str) -> String {
    let arguments = ["-X", "-A", "-t", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1", "-c"];
    let statement = format!("SELECT {expression}");
    let output = Command::new("psql").arg(connection).args(arguments).arg(statement).output().unwrap();
    match output.status.success() {
        true => String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').replace('\n', "⏎"),
        false => FAILS.to_owned(),
    }
}

async fn here(sql: &Sql, expression: &str) -> (String, String) {
    let answer = batches(sql, &format!("SELECT {expression} AS answer"), RunOptions::default()).await;
    match answer {
        Err(error) => (FAILS.to_owned(), format!("{:?} {error}", error.kind())),
        Ok((_, batches)) => {
            let mut rows = Vec::new();
            for batch in &batches {
                let writer = PgWriter::new(batch).unwrap();
                for row in 0..batch.num_rows() {
                    let mut out = Vec::new();
                    let is_there = writer.write(row, 0, &mut out);
                    rows.push(if is_there {
                        String::from_utf8(out).unwrap().replace('\n', "⏎")
                    } else {
                        "NULL".to_owned()
                    });
                }
            }
            (rows.join("⏎"), String::new())
        }
    }
}

/// Returns true if two answers are the same; numbers may have more digits or fewer.
fn same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        _ if a == b => true,
        (Ok(a), Ok(b)) => a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-14 * a.abs().max(b.abs()),
        _ => false,
    }
}

#[test]
fn expressions_are_answered_as_postgresql_does_or_as_is_written_down() {
    let sql = sql(Arc::new(MemoryTables::default()), SqlOptions::default());
    let oracle = std::env::var("POSTGRES").ok();
    let write = oracle.is_some() || std::env::var_os("SLT_WRITE").is_some();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/postgres");
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut faults = Vec::new();
    let mut count = 0;
    for path in &paths {
        let file = std::fs::read_to_string(path).unwrap();
        let mut lines = file.lines().peekable();
        let mut written = String::new();
        while let Some(line) = lines.next() {
            if line.is_empty() || line.starts_with('#') {
                written.push_str(&format!("{line}\n"));
                continue;
            }
            let mut wanted = String::new();
            let mut known = None;
            while let Some(answer) = lines.next_if(|next| next.starts_with(['=', '!', '~'])) {
                match answer.split_at(1) {
                    ("=", answer) => wanted = answer.strip_prefix(' ').unwrap_or(answer).to_owned(),
                    ("~", answer) => known = Some(answer.strip_prefix(' ').unwrap_or(answer).to_owned()),
                    _ => wanted = FAILS.to_owned(),
                }
            }
            if let Some(connection) = &oracle {
                wanted = postgres(connection, line);
            }
            let (found, why) = block_on(here(&sql, line));
            count += 1;
            let expected = known.as_ref().unwrap_or(&wanted);
            if !same(expected, &found) || known.is_some() && same(&wanted, &found) {
                faults.push(format!(
                    "{}\n  {line}\n  PostgreSQL: {wanted}\n  expected:   {expected}\n  found:      {found} {why}",
                    path.display()
                ));
            }
            let wanted_line = if wanted == FAILS { FAILS.to_owned() } else { format!("= {wanted}") };
            written.push_str(&format!("{line}\n{wanted_line}\n"));
            if !same(&wanted, &found) {
                written.push_str(&format!("~ {found}\n"));
            }
        }
        if write {
            std::fs::write(path, written).unwrap();
        }
    }
    println!("{count} expressions");
    assert!(count > 300, "only {count} expressions were found");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}
