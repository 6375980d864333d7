//! Endpoints: HTTP routes that make events or read a view.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateEndpoint, Ddl, EndpointName};

use crate::{CatalogError, Object, ObjectKind};

/// An endpoint that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointEntry {
    /// Its number among those that are kept; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration.
    pub create: CreateEndpoint,
}

/// All endpoints. A stream or view that one names exists as long as the endpoint: it cannot be dropped before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Endpoints {
    next: u32,
    /// The endpoints by the shape of the path, then by method.
    entries: BTreeMap<(String, &'static str), EndpointEntry>,
}

/// All endpoints within a snapshot of the catalog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EndpointsSnapshot {
    next: u32,
    entries: Vec<EndpointSnapshot>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct EndpointSnapshot {
    id: u32,
    created: Millis,
    text: String,
}

fn key(name: &EndpointName) -> (String, &'static str) {
    (name.path.shape(), name.method.text())
}

impl Endpoints {
    /// All endpoints.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &EndpointEntry> {
        self.entries.values()
    }

    /// The number of endpoints.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there is none")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The endpoint of a method and path; an error if there is none.
    pub fn get(&self, name: &EndpointName) -> Result<&EndpointEntry, CatalogError> {
        self.entries
            .get(&key(name))
            .ok_or_else(|| CatalogError::not_found(ObjectKind::Endpoint, name.to_string()))
    }

    /// Creates an endpoint; returns true if that changed anything. The objects that a new one names must exist.
    pub(crate) fn create(&mut self, create: &CreateEndpoint, at: Millis) -> Result<bool, CatalogError> {
        if let Some(known) = self.entries.get(&key(&create.name)) {
            let name = known.create.name.to_string();
            return CatalogError::unless(create.if_not_exists, ObjectKind::Endpoint, &name);
        }
        let create = CreateEndpoint { if_not_exists: false, ..create.clone() };
        let entry = EndpointEntry { id: self.next, created: at, create };
        self.next += 1;
        self.entries.insert(key(&entry.create.name), entry);
        Ok(true)
    }

    /// True if that changed anything.
    pub(crate) fn drop(&mut self, name: &EndpointName, if_exists: bool) -> Result<bool, CatalogError> {
        match self.entries.remove(&key(name)) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::Endpoint, name.to_string())),
            removed => Ok(removed.is_some()),
        }
    }

    pub(crate) fn snapshot(&self) -> EndpointsSnapshot {
        let entries = self.iter().map(|entry| EndpointSnapshot {
            id: entry.id,
            created: entry.created,
            text: Ddl::CreateEndpoint(entry.create.clone()).to_string(),
        });
        EndpointsSnapshot { next: self.next, entries: entries.collect() }
    }

    /// `read` reads a statement.
    pub(crate) fn from_snapshot<E>(
        snapshot: &EndpointsSnapshot,
        read: impl Fn(&str) -> Result<CreateEndpoint, E>,
    ) -> Result<Endpoints, E> {
        let mut entries = BTreeMap::new();
        for EndpointSnapshot { id, created, text } in &snapshot.entries {
            let create = read(text)?;
            entries.insert(key(&create.name), EndpointEntry { id: *id, created: *created, create });
        }
        Ok(Endpoints { next: snapshot.next, entries })
    }
}

impl EndpointsSnapshot {
    /// True if there never was one.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == 0
    }
}

impl EndpointEntry {
    /// The endpoint as an object.
    pub fn object(&self) -> Object {
        ObjectKind::Endpoint.named(self.create.name.to_string())
    }
}
