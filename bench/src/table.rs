//! The table that a run prints.

use std::fmt;

/// The result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is needed; its answers, if it has any, are right.
    Told,
    /// It is as good as needed.
    Passed,
    /// It is not.
    Missed,
    /// An answer is wrong.
    Wrong,
}

impl Verdict {
    /// The verdict for a goal that is met or missed.
    pub(crate) fn of(passed: bool) -> Verdict {
        if passed { Verdict::Passed } else { Verdict::Missed }
    }
}

/// One line of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    pub(crate) conditions: String,
    pub(crate) needed: String,
    pub(crate) verdict: Verdict,
}

impl Row {
    /// The row of a value that could not be measured.
    pub(crate) fn not_measured(what: &str, why: &anyhow::Error) -> Row {
        Row {
            what: what.to_owned(),
            figure: "not measured".to_owned(),
            conditions: format!("{why:#}"),
            needed: String::new(),
            verdict: Verdict::Missed,
        }
    }
}

/// All lines so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a line, and tells it to whoever watches.
    pub(crate) fn push(&mut self, row: Row) {
        eprintln!("{row}");
        self.rows.push(row);
    }

    pub(crate) fn all_correct(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::Wrong)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { what, figure, conditions, needed, verdict } = self;
        let passed = match verdict {
            Verdict::Told => "–",
            Verdict::Passed => "yes",
            Verdict::Missed => "**no**",
            Verdict::Wrong => "**WRONG ANSWER**",
        };
        let needed = if needed.is_empty() { "–" } else { needed };
        write!(f, "| {what} | {needed} | {figure} | {passed} | {conditions} |")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| what | target | measured | passed | conditions |\n| --- | --- | --- | --- | --- |")?;
        self.rows.iter().try_for_each(|row| write!(f, "\n{row}"))
    }
}

/// A whole number with a comma between each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: u64) -> String {
    grouped((bytes + (1 << 19)) >> 20) + " MiB"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_markdown() {
        let mut table = Table::default();
        let row = Row {
            what: "speed".to_owned(),
            figure: grouped(1_234_567),
            conditions: "none".to_owned(),
            needed: String::new(),
            verdict: Verdict::Told,
        };
        table.push(row.clone());
        assert!(table.to_string().ends_with("\n| speed | – | 1,234,567 | – | none |"));
        assert!(table.all_correct());
        table.push(Row { verdict: Verdict::Wrong, ..row });
        assert!(!table.all_correct());
        assert_eq!([grouped(0), grouped(999), grouped(1000)], ["0", "999", "1,000"]);
    }
}
