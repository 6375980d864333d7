//! The functions of statements with their help, for people.

use datafusion::logical_expr::Documentation;

/// A function of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlFunction {
    /// Its name.
    pub name: String,
    /// The rows that it needs.
    pub kind: SqlFunctionKind,
    /// A call as an example.
    pub signature: String,
    /// Its help; empty if there is none.
    pub doc: String,
}

/// The rows that a function needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlFunctionKind {
    /// One row.
    Scalar,
    /// The rows of a group.
    Aggregate,
    /// The rows of a window.
    Window,
}

impl SqlFunction {
    pub(crate) fn new(name: &str, kind: SqlFunctionKind, help: Option<&Documentation>) -> SqlFunction {
        let signature =
            help.map(|help| help.syntax_example.trim().to_owned()).filter(|text| !text.is_empty());
        SqlFunction {
            name: name.to_owned(),
            kind,
            signature: signature.unwrap_or_else(|| format!("{name}(…)")),
            doc: help.map(|help| help.description.trim().to_owned()).unwrap_or_default(),
        }
    }
}
