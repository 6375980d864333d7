//! Prints queries for tests: the plan as EXPLAIN shows it, or the errors.
//!
//! The lines of a plan are joined by ` | `. Its first part (the stream) is omitted if it is the default stream without a
//! duration.

#![allow(dead_code, reason = "each test uses some of these")]

use swiftwater_lang::{Dialect, ParseOptions, parse};

pub(crate) const NOW: i64 = 1_700_000_000_123;

pub(crate) fn show(text: &str, options: &ParseOptions<'_>) -> String {
    match parse(text, options) {
        Ok(statement) => {
            let plan = statement.query.to_string().replace('\n', " | ");
            plan.strip_prefix("default stream | ").unwrap_or(&plan).to_owned()
        }
        Err(errors) => {
            let show = |error: &swiftwater_lang::QueryError| match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}: {}", error.message),
                _ => error.message.clone(),
            };
            errors.0.iter().map(show).collect::<Vec<_>>().join("; ")
        }
    }
}

#[track_caller]
pub(crate) fn check(dialect: Dialect, text: &str, expected: &str) {
    assert_eq!(show(text, &ParseOptions::new(dialect, NOW)), expected, "{text}");
}

#[track_caller]
pub(crate) fn native(text: &str, expected: &str) {
    check(Dialect::Native, text, expected);
}

#[track_caller]
pub(crate) fn bullet(text: &str, expected: &str) {
    check(Dialect::Bullet, text, expected);
}

/// Checks a query in both dialects.
#[track_caller]
pub(crate) fn both(text: &str, expected: &str) {
    native(text, expected);
    bullet(text, expected);
}
