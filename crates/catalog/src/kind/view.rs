//! Views: their declarations, and their input, which is a stream's events or another view's rows.

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{CreateView, Ddl},
    parse, stream_of,
};

use super::lookup_join::{TableColumns, joined_by};
use crate::kind::stream::StreamEntry;
use crate::{Catalog, CatalogError, Dependency, Object, ObjectKind, Role, WireError, catalog::read};

/// A view that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewEntry {
    /// Its number among views, alerts and joins, whose state is stored side by side; never given to another.
    pub id: u32,
    /// When it was created.
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
    id: u32,
    created: Millis,
    text: String,
    stream: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<u32>,
    from: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableColumns>,
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

impl Catalog {
    /// All views, those that alerts own included.
    pub fn views(&self) -> impl ExactSizeIterator<Item = &ViewEntry> {
        self.views.values()
    }

    /// Gives a number out, to a view, an alert or a join.
    pub(crate) fn allocate_view_id(&mut self) -> u32 {
        self.next_view += 1;
        self.next_view - 1
    }

    /// The number that the next view gets.
    pub fn next_view(&self) -> u32 {
        self.next_view
    }

    /// A view of a name that no alert owns; an error if there is none.
    pub fn view(&self, name: &str) -> Result<&ViewEntry, CatalogError> {
        let named = self.views.get(name).filter(|view| view.owner.is_none());
        named.ok_or_else(|| CatalogError::not_found(ObjectKind::View, name))
    }

    /// Whether there is a view of this name.
    pub(crate) fn has_view(&self, name: &str) -> bool {
        self.views.contains_key(name)
    }

    /// A view of a name, whoever owns it.
    pub(crate) fn any_view(&self, name: &str) -> Option<&ViewEntry> {
        self.views.get(name)
    }

    /// The view that another is of, if it is of one.
    pub fn below(&self, view: &ViewEntry) -> Option<&ViewEntry> {
        view.of.and_then(|of| self.views.values().find(|below| below.id == of))
    }

    /// The stream that a view would be of, and the view below it where it would be of one; an error where there is none, or
    /// its events are not stored.
    pub fn source_of_view(
        &self,
        create: &CreateView,
    ) -> Result<(&StreamEntry, Option<&ViewEntry>), CatalogError> {
        let options = ParseOptions::new(Dialect::Native, 0);
        let name = match stream_of(&create.query, &options) {
            Some(named) => named.ok_or(CatalogError::NoSource)?,
            // What is wrong with the query says more than that it names no stream.
            None => {
                parse(&create.query, &options).map_err(CatalogError::Query)?;
                return Err(CatalogError::NoSource);
            }
        };
        if let Some(below) = self.views.get(name.as_str()) {
            let no_stream = || CatalogError::not_found(ObjectKind::Stream, name.as_str());
            return Ok((self.stream_of_number(below.stream).ok_or_else(no_stream)?, Some(below)));
        }
        Ok((self.known_stored_stream(name.as_str(), ObjectKind::View)?, None))
    }

    pub(crate) fn create_view(
        &mut self,
        create: &CreateView,
        (from, tables): (u64, &[TableColumns]),
        at: Millis,
    ) -> Result<bool, CatalogError> {
        if self.views.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::View, &create.name);
        }
        if self.known_stream(&create.name).is_ok() {
            return Err(CatalogError::exists(ObjectKind::Stream, &*create.name));
        }
        let (stream, below) = self.source_of_view(create)?;
        let (stream, of) = (stream.id, below.map(|below| below.id));
        let create = CreateView { if_not_exists: false, ..create.clone() };
        let joined = joined_by(&create);
        let (id, tables) = (self.allocate_view_id(), tables.to_vec());
        self.add_view(ViewEntry { id, created: at, create, stream, of, from, owner: None, joined, tables });
        Ok(true)
    }

    pub(crate) fn add_view(&mut self, entry: ViewEntry) {
        self.views.insert(entry.create.name.clone(), entry);
    }

    pub(crate) fn drop_view(&mut self, name: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.views.remove(name) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::View, name)),
            removed => Ok(removed.is_some()),
        }
    }
}
