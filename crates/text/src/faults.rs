//! The faults of a search query: all of them at once, each with its place and what to do.

use std::fmt;

/// One fault of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryFault {
    /// The character at which it is, from 1.
    pub column: usize,
    /// The fault.
    pub message: String,
    /// The advice to the user.
    pub hint: Option<String>,
}

/// All faults of a query, in the order of their places.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct QueryFaults(pub Vec<QueryFault>);

impl fmt::Display for QueryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: {}", self.column, self.message)
    }
}

impl fmt::Display for QueryFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

/// Collects faults by their places in the text.
#[derive(Debug)]
pub(crate) struct Faults<'q> {
    text: &'q str,
    found: Vec<(usize, QueryFault)>,
}

impl<'q> Faults<'q> {
    pub(crate) fn of(text: &'q str) -> Faults<'q> {
        Faults { text, found: Vec::new() }
    }

    /// Adds a fault at a byte of the text.
    pub(crate) fn add(&mut self, at: usize, message: impl Into<String>, hint: impl Into<Option<String>>) {
        let column = self.text[..self.text.floor_char_boundary(at)].chars().count() + 1;
        self.found.push((at, QueryFault { column, message: message.into(), hint: hint.into() }));
    }

    pub(crate) fn add_with_hint(&mut self, at: usize, message: impl Into<String>, hint: &str) {
        self.add(at, message, hint.to_owned());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The result, unless there are faults.
    pub(crate) fn or<T>(mut self, result: T) -> Result<T, QueryFaults> {
        if self.found.is_empty() {
            return Ok(result);
        }
        self.found.sort_by_key(|(at, _)| *at);
        Err(QueryFaults(self.found.into_iter().map(|(_, fault)| fault).collect()))
    }
}
