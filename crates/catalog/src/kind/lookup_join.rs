//! Lookup joins: the views and tables whose rows the query of a view joins with its events.

use swiftwater_lang::{Dialect, ParseOptions, ddl::CreateView, joined_names};

/// A table that events are joined with: its name, and its columns with their types when the view was created.
pub type TableColumns = (Box<str>, Vec<(Box<str>, String)>);

/// The names of the views and tables that the events of a view are joined with.
pub(crate) fn joined_by(create: &CreateView) -> Vec<Box<str>> {
    joined_names(&create.query, &ParseOptions::new(Dialect::Native, 0))
}
