//! Statements over views, and the rows or events that a view reads.

use swiftwater_event::Millis;
use swiftwater_lang::ddl::CreateView;
use swiftwater_lang::{Dialect, ParseOptions, parse, stream_of};

use crate::{
    Catalog, CatalogError, ObjectKind,
    kind::{
        lookup_join::{TableColumns, joined_by},
        stream::StreamEntry,
        view::ViewEntry,
    },
};

impl Catalog {
    /// All views, those that alerts own included.
    pub fn views(&self) -> impl ExactSizeIterator<Item = &ViewEntry> {
        self.views.values()
    }

    /// Allocates a number for a view, an alert or a join.
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

    /// True if there is a view of this name.
    pub(crate) fn has_view(&self, name: &str) -> bool {
        self.views.contains_key(name)
    }

    /// A view of a name, with any owner.
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
            // An error of the query's text is more specific than that it names no stream.
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
