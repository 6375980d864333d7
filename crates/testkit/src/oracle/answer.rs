//! The oracle's answer to a query. Checks whether another answer agrees with it, where the two may differ only in the order
//! of equals.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value as Json};

use super::value::{Value, total_order};

/// One record, and what it is ordered by.
#[derive(Debug, Clone)]
pub(super) struct AnswerRow {
    pub(super) record: Map<String, Json>,
    pub(super) keys: Vec<Value>,
}

/// The answer of a query.
#[derive(Debug, Clone)]
pub struct Answer {
    /// All rows before the limit, in order.
    pub(super) rows: Vec<AnswerRow>,
    /// Rows that may stand where one with the same keys does.
    pub(super) spare: Vec<AnswerRow>,
    pub(super) limit: Option<u64>,
    /// The query has an ORDER BY.
    pub(super) is_ordered: bool,
    /// Rows with equal keys come in the order of their events; so do all rows of a query without ORDER BY.
    pub(super) ties_in_order: bool,
}

/// The difference of an answer from the oracle's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement(pub String);

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Disagreement {}

impl Answer {
    /// The number of records the answer has.
    pub fn len(&self) -> usize {
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        self.rows.len().min(limit)
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One right answer; others may have equals in another order, or leave out others of them.
    pub fn records(&self) -> Vec<Map<String, Json>> {
        self.rows[..self.len()].iter().map(|row| row.record.clone()).collect()
    }

    /// Checks that these records are a correct answer: equal to ours, except for the order of groups that ORDER BY
    /// leaves open, and for the choice of those that a LIMIT excludes. Numbers must be of one kind, LONG or DOUBLE,
    /// and equal; 0.0 is -0.0.
    pub fn check(&self, got: &[Map<String, Json>]) -> Result<(), Disagreement> {
        self.compare(got, true)
    }

    /// Checks as [`Answer::check`] does, an answer whose rows may come in any order (as those of several shards do,
    /// streamed) and which does not depend on the rows that a LIMIT selects.
    pub fn check_unordered(&self, got: &[Map<String, Json>]) -> Result<(), Disagreement> {
        let mut any_order = self.clone();
        any_order.ties_in_order = false;
        any_order.rows.iter_mut().chain(&mut any_order.spare).for_each(|row| row.keys.clear());
        any_order.compare(got, false)
    }

    fn compare(&self, got: &[Map<String, Json>], in_order: bool) -> Result<(), Disagreement> {
        if got.len() != self.len() {
            let (first, second) = (shown(&self.records()), shown(got));
            return Err(Disagreement(format!(
                "{} records, not {}; expected:\n{first}\ngot:\n{second}",
                got.len(),
                self.len()
            )));
        }
        let exact = in_order && self.ties_in_order;
        let candidates: Vec<&AnswerRow> = self.rows.iter().chain(&self.spare).collect();
        let mut used = vec![false; candidates.len()];
        for (at, record) in got.iter().enumerate() {
            // Any row that is as good as the one that stands here.
            let found = (0..candidates.len()).find(|&row| {
                !used[row]
                    && (if exact { row == at } else { is_tie(candidates[row], &self.rows[at]) })
                    && same_record(&candidates[row].record, record)
            });
            match found {
                Some(row) => used[row] = true,
                None => {
                    let (first, second) = (shown(&self.records()), shown(got));
                    return Err(Disagreement(format!(
                        "record {at} is {}, and should be {}{}\nexpected:\n{first}\ngot:\n{second}",
                        Json::Object(record.clone()),
                        Json::Object(self.rows[at].record.clone()),
                        if exact || !self.is_ordered { "" } else { ", or one that comes with it" },
                    )));
                }
            }
        }
        Ok(())
    }
}

fn is_tie(a: &AnswerRow, b: &AnswerRow) -> bool {
    a.keys.iter().zip(&b.keys).all(|(a, b)| total_order(a, b) == Ordering::Equal)
}

fn shown(records: &[Map<String, Json>]) -> String {
    const MOST: usize = 30;
    let mut lines: Vec<String> =
        records.iter().take(MOST).map(|record| format!("  {}", Json::Object(record.clone()))).collect();
    if records.len() > MOST {
        lines.push(format!("  … and {} more", records.len() - MOST));
    }
    lines.join("\n")
}

/// The same columns, in any order, with the same values.
fn same_record(ours: &Map<String, Json>, theirs: &Map<String, Json>) -> bool {
    ours.len() == theirs.len()
        && ours.iter().all(|(name, value)| theirs.get(name).is_some_and(|other| same_value(value, other)))
}

fn same_value(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            a.is_f64() == b.is_f64() && if a.is_f64() { a.as_f64() == b.as_f64() } else { a == b }
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Json::Object(a), Json::Object(b)) => same_record(a, b),
        _ => ours == theirs,
    }
}
