//! Saved objects: the texts of queries, dashboards and notebooks under a name, which nothing runs by itself.
//!
//! ```text
//! CREATE [OR REPLACE] SAVED QUERY|DASHBOARD|NOTEBOOK [IF NOT EXISTS] name [DIALECT BULLET] [COMMENT 'text']
//!   AS $$text$$ | AS 'text'          DIALECT: of a query
//! DROP SAVED QUERY|DASHBOARD|NOTEBOOK [IF EXISTS] name
//! SHOW SAVED QUERIES|DASHBOARDS|NOTEBOOKS          SHOW CREATE SAVED QUERY|DASHBOARD|NOTEBOOK name
//! ```

use std::{
    fmt::{self, Display},
    sync::Arc,
};

use super::print::{name_text, when, write_quoted};
use crate::Dialect;

/// The longest comment of a saved object, in bytes.
pub const SAVED_COMMENT_BYTES_MAX: usize = 4_096;

/// The kind of a saved object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SavedKind {
    /// The text of a live query.
    Query,
    /// A dashboard, as JSON.
    Dashboard,
    /// A notebook, as JSON.
    Notebook,
}

impl SavedKind {
    /// All kinds.
    pub const ALL: [SavedKind; 3] = [SavedKind::Query, SavedKind::Dashboard, SavedKind::Notebook];

    /// The kind in a statement about one object.
    pub fn word(self) -> &'static str {
        match self {
            SavedKind::Query => "QUERY",
            SavedKind::Dashboard => "DASHBOARD",
            SavedKind::Notebook => "NOTEBOOK",
        }
    }

    /// The kind in a statement about all of them.
    pub fn plural(self) -> &'static str {
        match self {
            SavedKind::Query => "QUERIES",
            SavedKind::Dashboard => "DASHBOARDS",
            SavedKind::Notebook => "NOTEBOOKS",
        }
    }

    /// The kind in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            SavedKind::Query => "saved query",
            SavedKind::Dashboard => "dashboard",
            SavedKind::Notebook => "notebook",
        }
    }
}

/// The name of a saved object. Objects of two kinds may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SavedName {
    /// The kind.
    pub kind: SavedKind,
    /// The name among those of the kind.
    pub name: Box<str>,
}

impl Display for SavedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), name_text(&self.name))
    }
}

/// `CREATE SAVED`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSaved {
    /// Kind and name.
    pub name: SavedName,
    /// `OR REPLACE`: an existing one gets this text and this comment.
    pub or_replace: bool,
    /// `IF NOT EXISTS`: an existing one is no error, and stays as it is.
    pub if_not_exists: bool,
    /// `DIALECT BULLET`: the dialect of a query's text; native for everything else.
    pub dialect: Dialect,
    /// `COMMENT`.
    pub comment: Option<Box<str>>,
    /// The text, exactly as it was written. Shared, because the catalog is copied for each change.
    pub text: Arc<str>,
}

impl Display for CreateSaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (replace, optional) =
            (when(self.or_replace, "OR REPLACE "), when(self.if_not_exists, "IF NOT EXISTS "));
        let SavedName { kind, name } = &self.name;
        write!(f, "CREATE {replace}SAVED {} {optional}{}", kind.word(), name_text(name))?;
        f.write_str(when(self.dialect == Dialect::Bullet, " DIALECT BULLET"))?;
        if let Some(comment) = &self.comment {
            f.write_str(" COMMENT ")?;
            write_quoted(f, comment, '\'')?;
        }
        f.write_str(" AS ")?;
        // A `$` at the end would belong to the closing `$$`.
        if self.text.contains("$$") || self.text.ends_with('$') {
            return write_quoted(f, &self.text, '\'');
        }
        f.write_str("$$")?;
        f.write_str(&self.text)?;
        f.write_str("$$")
    }
}

#[cfg(test)]
mod tests;
