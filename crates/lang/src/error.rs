//! The errors of a query: what is wrong, and where.

use std::fmt;

/// One fault of a query's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// Line, from 1; `None` where the fault is the query's as a whole.
    pub line: Option<u32>,
    /// Column, in characters from 1.
    pub column: Option<u32>,
    /// The fault, lowercase, without a final stop.
    pub message: String,
    /// The advice to the user.
    pub hint: Option<String>,
    /// The line of the text and a caret under the fault; empty where there is no place.
    pub excerpt: String,
}

/// All faults found in one query; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryErrors(pub Vec<QueryError>);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}: ")?;
        }
        f.write_str(&self.message)?;
        if !self.excerpt.is_empty() {
            write!(f, "\n{}", self.excerpt)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for QueryErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for QueryErrors {}
