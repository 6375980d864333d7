//! Descriptions of the views and tables that a query can join, as far as planning needs them.

use swiftwater_event::Type;

use crate::{
    ParseOptions,
    ast::{Query, Source},
    check_length, parser,
};

/// A view or a table that events can be joined with.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// Its name.
    pub name: Box<str>,
    /// The number that distinguishes it from earlier objects of its name.
    pub id: u64,
    /// The column of a view that shows each value of its key; none: no column does. For a table none: any columns
    /// will do.
    pub key: Option<Vec<Option<usize>>>,
    /// Its columns, by name and type; ANY where that is not known.
    pub columns: Vec<(Box<str>, Type)>,
}

/// The names of what a query joins, each once, so that it can be looked up before the query is planned; none where the text is
/// no query, which [`parse`](crate::parse) then tells.
pub fn joined_names(text: &str, options: &ParseOptions<'_>) -> Vec<Box<str>> {
    // Most queries join nothing, and need not be read twice.
    let mentions_join = text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"JOIN"));
    if !mentions_join || check_length(text, options).is_err() {
        return Vec::new();
    }
    let Ok(statement) = parser::parse(text, options.dialect, options.parameters) else { return Vec::new() };
    let mut names = Vec::new();
    gather(&statement.query, &mut names);
    names
}

fn gather(query: &Query, names: &mut Vec<Box<str>>) {
    if let Source::Query(inner) = &query.source {
        gather(inner, names);
    }
    for join in &query.joins {
        if !names.contains(&join.name.text) {
            names.push(join.name.text.clone());
        }
    }
}
