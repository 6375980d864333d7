//! Runs the statements in `tests/sql/slt/*.slt` and compares their answers.
//!
//! ```text
//! # a comment
//! query [spark] [sorted]
//! SELECT 1 AS a
//! ----
//! a
//! 1
//!
//! statement          (whatever its answer)
//! error              (then: kind, place, message; and the hint on a line of its own)
//! same               (two texts, separated by `====`, with equal answers)
//! ```
//!
//! The expected answers are CSV. Each file has tables of its own, filled from the seed that it names: `seed
//! 7`. `SLT_WRITE=1 cargo test -p swiftwater-sql --test sql slt` writes the actual answers; read the
//! difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{MemoryTables, articles, block_on, csv, smart_home, sql};
use swiftwater_sql::{Dialect, RunOptions, Sql, SqlError, SqlOptions};

/// A record of a file: its directive, its text, and its answer.
struct Record {
    directive: String,
    text: String,
    answer: String,
    line: usize,
}

fn records(file: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for (index, block) in blocks(file) {
        let (directive, rest) = block.split_once('\n').unwrap_or((block.as_str(), ""));
        let (text, answer) =
            rest.split_once("\n----\n").unwrap_or((rest.strip_suffix("\n----").unwrap_or(rest), ""));
        records.push(Record {
            directive: directive.to_owned(),
            text: text.to_owned(),
            answer: answer.to_owned(),
            line: index,
        });
    }
    records
}

/// Blocks between empty lines, with the number of their first line. A comment is a block of its own.
fn blocks(file: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in file.lines().enumerate() {
        if line.is_empty() {
            open = false;
        } else if open {
            let (_, block) = blocks.last_mut().unwrap();
            block.push('\n');
            block.push_str(line);
        } else {
            blocks.push((number + 1, line.to_owned()));
            open = true;
        }
    }
    blocks
}

fn error_text(error: &SqlError) -> String {
    let place = error.place().map_or("-".to_owned(), |place| format!("{}:{}", place.line, place.column));
    let mut text = format!("{:?} {place} {error}", error.kind());
    if let Some(hint) = error.hint() {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    text
}

async fn answer(sql: &Sql, record: &Record) -> Result<String, String> {
    let words: Vec<&str> = record.directive.split_whitespace().collect();
    let dialect = if words.contains(&"spark") { Dialect::Spark } else { Dialect::Native };
    let options = || RunOptions { dialect, ..RunOptions::default() };
    let ran = |end: Result<String, SqlError>| end.map_err(|error| error_text(&error));
    let trimmed = |answer: String| {
        let mut lines: Vec<&str> = answer.lines().collect();
        if words.contains(&"sorted") && lines.len() > 1 {
            lines[1..].sort_unstable();
        }
        lines.join("\n")
    };
    match words[0] {
        "query" => ran(csv(sql, &record.text, options()).await).map(trimmed),
        "statement" => ran(csv(sql, &record.text, options()).await).map(|_| String::new()),
        "error" => match csv(sql, &record.text, options()).await {
            Ok(answer) => Err(format!("no error, but: {answer}")),
            Err(error) => Ok(error_text(&error)),
        },
        "same" => {
            let (a, b) = record.text.split_once("\n====\n").ok_or("no ==== in it")?;
            let a = ran(csv(sql, a, options()).await).map(trimmed)?;
            let b = ran(csv(sql, b, options()).await).map(trimmed)?;
            if a == b && a.lines().count() > 1 { Ok(String::new()) } else { Err(format!("{a}\nis not\n{b}")) }
        }
        other => Err(format!("no directive `{other}`")),
    }
}

fn run_file(path: &Path, write: bool) -> (usize, Vec<String>) {
    let file = std::fs::read_to_string(path).unwrap();
    let seed =
        file.lines().find_map(|line| line.strip_prefix("seed ")).map_or(1, |seed| seed.parse().unwrap());
    let tables = Arc::new(MemoryTables::default());
    smart_home(&tables, seed, 4, 1000);
    articles(&tables, seed, 500);
    let sql = sql(tables, SqlOptions::default());
    let mut faults = Vec::new();
    let mut count = 0;
    let mut rewritten = String::new();
    for record in records(&file) {
        let is_text = record.directive.starts_with('#') || record.directive.starts_with("seed ");
        let mut found = record.answer.clone();
        if !is_text {
            count += 1;
            match block_on(answer(&sql, &record)) {
                Ok(answer) if answer == record.answer => {}
                Ok(answer) if write => found = answer,
                Ok(answer) => faults.push(format!(
                    "{}:{} (seed {seed})\n{}\nexpected:\n{}\nfound:\n{answer}",
                    path.display(),
                    record.line,
                    record.text,
                    record.answer
                )),
                Err(fault) => {
                    faults.push(format!(
                        "{}:{} (seed {seed})\n{}\n{fault}",
                        path.display(),
                        record.line,
                        record.text
                    ));
                }
            }
        }
        rewritten.push_str(&record.directive);
        rewritten.push('\n');
        if !record.text.is_empty() {
            rewritten.push_str(&record.text);
            rewritten.push('\n');
        }
        if !found.is_empty() {
            rewritten.push_str("----\n");
            rewritten.push_str(&found);
            rewritten.push('\n');
        }
        rewritten.push('\n');
    }
    if write {
        std::fs::write(path, rewritten.trim_end().to_owned() + "\n").unwrap();
    }
    (count, faults)
}

#[test]
fn every_file_answers_as_it_says() {
    let write = std::env::var_os("SLT_WRITE").is_some();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/slt");
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut all = 0;
    let mut faults = Vec::new();
    for path in &paths {
        let (count, found) = run_file(path, write);
        all += count;
        faults.extend(found);
    }
    println!("{all} records in {} files", paths.len());
    assert!(all > 50, "only {all} records were found");
    assert!(faults.is_empty(), "{} faults\n\n{}", faults.len(), faults.join("\n\n"));
}
