//! Views: their declarations, and their input, which is a stream's events or another view's rows.

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::ddl::{CreateView, Ddl};

use super::lookup_join::{TableColumns, joined_by};
use crate::{CatalogError, Dependency, Object, ObjectKind, Role, WireError, statement::read};

/// A view that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewEntry {
    /// Its number among views, alerts and joins, whose state is stored side by side; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration.
    pub create: CreateView,
    /// The stream that it is of, by number; of a view of a view, the stream that the lowest one is of.
    pub stream: u32,
    /// The view that it is of, by number, if it is of one.
    pub of: Option<u32>,
    /// It is of the stream's events from this offset on.
    pub from: u64,
    /// The alert that owns it. Such a view has a name that no statement can write.
    pub owner: Option<Box<str>>,
    /// The names of what its events are joined with.
    pub joined: Vec<Box<str>>,
    /// The tables among that, with the columns that they had.
    pub tables: Vec<TableColumns>,
}

/// A view within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ViewSnapshot {
    pub(crate) id: u32,
    pub(crate) created: Millis,
    pub(crate) text: String,
    pub(crate) stream: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<u32>,
    pub(crate) from: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tables: Vec<TableColumns>,
}

impl ViewEntry {
    /// The view as an object.
    pub fn object(&self) -> Object {
        ObjectKind::View.named(&*self.create.name)
    }

    /// The error that this view, or the alert that owns it, is of a stream, so that the stream cannot change.
    pub fn uses(&self, stream: &StreamName) -> CatalogError {
        let dependent = self.owner.as_ref().map_or(self.object(), |alert| ObjectKind::Alert.named(&**alert));
        CatalogError::InUse(Dependency::new(
            Role::Source,
            dependent,
            ObjectKind::Stream.named(stream.as_str()),
        ))
    }

    pub(crate) fn snapshot(&self) -> ViewSnapshot {
        let text = Ddl::CreateView(self.create.clone()).to_string();
        let (id, created, stream, of, from) = (self.id, self.created, self.stream, self.of, self.from);
        ViewSnapshot { id, created, text, stream, of, from, tables: self.tables.clone() }
    }

    pub(crate) fn from_snapshot(snapshot: &ViewSnapshot) -> Result<ViewEntry, WireError> {
        let ViewSnapshot { id, created, text, stream, of, from, tables } = snapshot;
        let Ddl::CreateView(create) = read(text)? else { return Err(WireError::unexpected(text)) };
        let joined = joined_by(&create);
        let (id, created, stream, of, from) = (*id, *created, *stream, *of, *from);
        Ok(ViewEntry { id, created, create, stream, of, from, owner: None, joined, tables: tables.clone() })
    }
}
