//! One dependency: the object that needs another, and the role in which it needs it.

use std::fmt;

use crate::{Object, ObjectKind};

/// The role in which one object needs another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It reads the other's events or rows.
    Source,
    /// It watches the other's rows.
    Watches,
    /// It writes into the other.
    Target,
    /// It looks up rows of the other.
    Lookup,
    /// It reads this column of the other.
    Column,
    /// It writes into the other what cannot be taken or delivered.
    DeadLetter,
}

/// One object depends on another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// The role in which it needs it.
    pub role: Role,
    /// The object that needs the other.
    pub dependent: Object,
    /// The object that is needed.
    pub on: Object,
    /// The column, of [`Role::Column`].
    pub column: Option<String>,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dependency { role, dependent, on, column } = self;
        match (role, dependent.kind) {
            (Role::Source, ObjectKind::Alert) => write!(f, "the query of {dependent} reads {on}"),
            (Role::Source | Role::Target, ObjectKind::StreamJoin) => {
                write!(f, "{dependent} reads {on}, or writes into it")
            }
            (Role::Source, _) => write!(f, "{dependent} reads {on}"),
            (Role::Watches, _) => write!(f, "{dependent} watches {on}"),
            (Role::Target | Role::DeadLetter, ObjectKind::Alert) | (Role::Target, ObjectKind::Endpoint) => {
                write!(f, "{dependent} writes into {on}")
            }
            (Role::DeadLetter, ObjectKind::Stream) => {
                write!(f, "{on} receives the bad events of {dependent}")
            }
            (Role::Target | Role::DeadLetter, _) => write!(f, "{dependent} delivers to {on}"),
            (Role::Lookup, _) => write!(f, "{dependent} joins {on}"),
            (Role::Column, _) => {
                write!(f, "{dependent} reads column `{}` of {on}", column.as_deref().unwrap_or_default())
            }
        }
    }
}

impl Dependency {
    /// `dependent` needs `on`.
    pub fn new(role: Role, dependent: Object, on: Object) -> Dependency {
        Dependency { role, dependent, on, column: None }
    }

    /// `dependent` reads a column of `on`.
    pub fn on_column(dependent: Object, on: Object, column: impl Into<String>) -> Dependency {
        Dependency { role: Role::Column, dependent, on, column: Some(column.into()) }
    }

    /// The statement that removes the dependency.
    pub(crate) fn remedy(&self) -> String {
        let Object { kind, name } = &self.dependent;
        let kind = kind.word().to_uppercase();
        match self.role {
            Role::DeadLetter if self.dependent.kind == ObjectKind::Stream => {
                format!("ALTER STREAM {name} RESET (on_bad_event), or drop it, first.")
            }
            Role::Column if self.dependent.kind == ObjectKind::SearchIndex => {
                let column = self.column.as_deref().unwrap_or_default();
                format!("ALTER SEARCH INDEX ON {name} DROP {column} first.")
            }
            Role::Column => format!(
                "DROP {kind} {name}, alter the stream, and create the view again WITH (backfill = true)."
            ),
            _ => format!("DROP {kind} {name} first."),
        }
    }
}
