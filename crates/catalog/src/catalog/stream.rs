//! Statements over streams: CREATE, ALTER and DROP, and what is found in their events.

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::ddl::{AlterStream, CreateStream};

use crate::{Catalog, CatalogError, ObjectKind, kind::stream::StreamEntry};

impl Catalog {
    /// All streams, by name.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = (&StreamName, &StreamEntry)> {
        self.streams.iter()
    }

    /// A stream of a name, if there is one.
    pub fn stream(&self, name: &StreamName) -> Option<&StreamEntry> {
        self.streams.get(name)
    }

    /// The stream of a number, if it was not dropped.
    pub fn stream_of_number(&self, id: u32) -> Option<&StreamEntry> {
        self.streams.values().find(|stream| stream.id == id)
    }

    /// A stream of a name; an error if there is none.
    pub(crate) fn known_stream(&self, name: &str) -> Result<&StreamEntry, CatalogError> {
        let found = StreamName::new(name).ok().and_then(|name| self.streams.get(&name));
        found.ok_or_else(|| CatalogError::not_found(ObjectKind::Stream, name))
    }

    /// A stream of a name that stores its events, as an object of this kind needs it.
    pub fn known_stored_stream(&self, name: &str, by: ObjectKind) -> Result<&StreamEntry, CatalogError> {
        let entry = self.known_stream(name)?;
        match entry.create.is_stored() {
            true => Ok(entry),
            false => Err(CatalogError::NotStored { stream: name.to_owned(), by }),
        }
    }

    /// Streams that were dropped and whose tables are still to be deleted.
    pub fn dropped(&self) -> impl Iterator<Item = &StreamName> {
        self.dropped.iter()
    }

    /// True if such a stream had this name.
    pub fn is_dropped(&self, name: &StreamName) -> bool {
        self.dropped.contains(name)
    }

    /// Records that the table of a dropped stream is gone. It is not logged: another check costs little.
    pub fn forget_dropped(&mut self, name: &StreamName) {
        self.dropped.remove(name);
    }

    pub(crate) fn create_stream(&mut self, create: &CreateStream, at: Millis) -> Result<bool, CatalogError> {
        let name = create.name.as_str();
        if self.streams.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::Stream, name);
        }
        if self.has_view(name) {
            return Err(CatalogError::exists(ObjectKind::View, name));
        }
        let create = CreateStream { if_not_exists: false, ..create.clone() };
        if create.is_stored() {
            // Its table is created when nothing is left of the one before.
            self.dropped.remove(&create.name);
        }
        let entry = StreamEntry { id: self.next_stream, created: at, create, found: Vec::new() };
        self.next_stream += 1;
        self.streams.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    pub(crate) fn alter_stream(&mut self, alter: &AlterStream) -> Result<bool, CatalogError> {
        let Some(entry) = self.streams.get_mut(&alter.name) else {
            return match alter.if_exists {
                true => Ok(false),
                false => Err(CatalogError::not_found(ObjectKind::Stream, alter.name.as_str())),
            };
        };
        let altered = entry.create.altered(alter).map_err(CatalogError::Alter)?;
        let has_changed = altered != entry.create;
        entry.create = altered;
        Ok(has_changed)
    }

    /// The declaration of a stream after a statement; none if there is no such stream.
    pub fn altered(&self, alter: &AlterStream) -> Result<Option<StreamEntry>, CatalogError> {
        let Some(entry) = self.streams.get(&alter.name) else {
            return match alter.if_exists {
                true => Ok(None),
                false => Err(CatalogError::not_found(ObjectKind::Stream, alter.name.as_str())),
            };
        };
        let create = entry.create.altered(alter).map_err(CatalogError::Alter)?;
        Ok(Some(StreamEntry { create, ..entry.clone() }))
    }

    pub(crate) fn drop_stream(&mut self, name: &StreamName, if_exists: bool) -> Result<bool, CatalogError> {
        let Some(entry) = self.streams.remove(name) else {
            return match if_exists {
                true => Ok(false),
                false => Err(CatalogError::not_found(ObjectKind::Stream, name.as_str())),
            };
        };
        self.jobs.values_mut().for_each(|job| job.forget_stream(entry.id));
        self.durable_queries.forget_stream(entry.id);
        if entry.create.is_stored() {
            // A search index belongs to its stream: it is dropped with it, as rows and table are.
            self.search_indexes.drop(name.as_str(), true)?;
            self.dropped.insert(entry.create.name);
        }
        Ok(true)
    }
}
