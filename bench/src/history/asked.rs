//! Measures queries over stored data, by turns with DuckDB over the same files.

use std::{path::PathBuf, time::Instant};

use serde_json::Value;

use super::duckdb::DuckDb;
use crate::{
    args::Args,
    samples::Samples,
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

const ROUNDS: usize = 5;
const RATIO_MAX: f64 = 1.2;
/// Time of DuckDB up to which ours may take as much more.
const SHORT_SECONDS: f64 = 0.1;
const ROWS_PER_SECOND_MIN: f64 = 100e6;
/// Fewer rows are asked in less time than a statement takes to be planned, whatever their rate.
const ROWS_MIN: u64 = 10_000_000;

/// Returns the fault of an answer, if it has one.
pub(super) type Fault<'t> = Box<dyn Fn(&[Value]) -> Option<String> + 't>;

/// A query, in both engines.
pub(super) struct Question<'t> {
    pub(super) what: &'static str,
    pub(super) ours: String,
    pub(super) theirs: String,
    /// The statement that the other engine runs before it, unmeasured.
    pub(super) before: Option<String>,
    /// The stream whose files it reads.
    pub(super) stream: &'static str,
    /// Rows that it is asked of; 0: a few, whose rate is not told.
    pub(super) rows: u64,
    pub(super) fault: Fault<'t>,
}

/// Returns true if a number is this one, except for the order in which it was summed.
pub(super) fn is_close(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() <= 1e-9 * expected.abs())
}

/// Asks all of them and adds their rows.
pub(super) fn run(
    args: &Args,
    stored: &Stored,
    files: &[PathBuf],
    questions: &[Question<'_>],
    mut duckdb: Option<&mut DuckDb>,
    table: &mut Table,
) -> anyhow::Result<()> {
    let files: Vec<String> = files.iter().map(|file| format!("'{}'", file.display())).collect();
    let rounds = if args.quick { 2 } else { ROUNDS };
    for question in questions {
        let source = format!("read_parquet([{}])", files.join(", "));
        let over = |text: &str| text.replace(question.stream, &source);
        let mut asker = stored.asker()?;
        let (mut ours, mut theirs, mut fault) = (Vec::new(), Vec::new(), None);
        if let (Some(duckdb), Some(before)) = (&mut duckdb, &question.before) {
            duckdb.ask(&over(before))?;
        }
        // The first round brings what both keep in memory.
        for round in 0..=rounds {
            let start = Instant::now();
            let rows = asker.ask(&question.ours)?;
            let seconds = start.elapsed().as_secs_f64();
            fault = fault.or_else(|| (question.fault)(&rows));
            ours.extend((round > 0).then_some(seconds));
            if let Some(duckdb) = &mut duckdb {
                let (seconds, rows) = duckdb.ask(&over(&question.theirs))?;
                fault = fault.or_else(|| Some(format!("DuckDB: {}", (question.fault)(&rows)?)));
                theirs.extend((round > 0).then_some(seconds));
            }
        }
        let version = duckdb.as_ref().map(|duckdb| duckdb.version.as_str());
        table.push(row(
            question,
            Samples::new(ours)?,
            Samples::new(theirs).ok(),
            version,
            files.len(),
            fault,
        ));
    }
    Ok(())
}

fn row(
    question: &Question<'_>,
    ours: Samples,
    theirs: Option<Samples>,
    version: Option<&str>,
    files: usize,
    fault: Option<String>,
) -> Row {
    let seconds = ours.median();
    let rate = question.rows as f64 / seconds;
    let other = theirs.as_ref().map(Samples::median);
    let is_near = other.is_none_or(|other| is_as_fast(seconds, other));
    let is_fast = question.rows < ROWS_MIN || rate >= ROWS_PER_SECOND_MIN;
    let told = |rate: f64| format!("{} M rows/s", grouped((rate / 1e6) as u64));
    let compared = match (other, version) {
        (Some(other), Some(version)) => {
            format!("; DuckDB {version}: {other:.3} s, ratio {:.2}", seconds / other)
        }
        _ => "; DuckDB is not there (SWIFTWATER_PYTHON, see CONTRIBUTING.md)".to_owned(),
    };
    Row {
        what: format!("query, {}", question.what),
        figure: match question.rows {
            0 => format!("{seconds:.3} s"),
            _ => format!("{seconds:.3} s, {}", told(rate)),
        },
        conditions: format!(
            "{}`{}`, over HTTP, {files} files in the page cache; {:.3} to {:.3} s in {} rounds by turns{compared}",
            fault.as_ref().map_or_else(String::new, |fault| format!("{fault}; ")),
            question.ours,
            ours.least(),
            ours.most(),
            ours.len(),
        ),
        needed: match question.rows {
            ..ROWS_MIN => format!("≤ {RATIO_MAX} of DuckDB, or {SHORT_SECONDS} s more where that is short"),
            _ => format!(
                "≤ {RATIO_MAX} of DuckDB, or {SHORT_SECONDS} s more where that is short; ≥ {}",
                told(ROWS_PER_SECOND_MIN)
            ),
        },
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(is_near && is_fast),
        },
    }
}

/// Returns true if seconds are within the allowed ratio to the other engine's.
fn is_as_fast(seconds: f64, other: f64) -> bool {
    if other > SHORT_SECONDS { seconds <= RATIO_MAX * other } else { seconds <= other + SHORT_SECONDS }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn short_queries_may_take_a_tenth_of_a_second_more() {
        assert!(is_as_fast(0.12, 0.03) && !is_as_fast(0.14, 0.03));
        assert!(is_as_fast(1.19, 1.0) && !is_as_fast(1.21, 1.0));
        assert!(is_close(&json!(1_000_000.0), 1_000_000.000_000_1) && !is_close(&json!(1.0), 1.001));
        assert!(!is_close(&json!("1"), 1.0));
    }
}
