//! Endpoints in the catalog.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateEndpoint, Ddl, EndpointName};

use crate::EngineError;

/// An endpoint that was created.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndpointEntry {
    /// Its number among those that are kept; never given to another.
    pub(crate) id: u32,
    /// When it was created.
    pub(crate) created: Millis,
    /// Its declaration.
    pub(crate) create: CreateEndpoint,
}

/// All endpoints. A stream or view that one names is there as long as the endpoint is: whoever drops those asks first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct EndpointEntries {
    next: u32,
    /// By the shape of the path, then by method.
    entries: BTreeMap<(String, &'static str), EndpointEntry>,
}

/// All endpoints within a snapshot of the catalog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EndpointsSnapshot {
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

impl EndpointEntries {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &EndpointEntry> {
        self.entries.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, name: &EndpointName) -> Result<&EndpointEntry, EngineError> {
        self.entries.get(&key(name)).ok_or_else(|| EngineError::NoEndpoint(name.to_string()))
    }

    /// The first that makes events of a stream.
    pub(crate) fn of_stream(&self, stream: &str) -> Option<&EndpointEntry> {
        self.iter().find(|entry| entry.create.stream().is_some_and(|name| name.as_str() == stream))
    }

    /// The first that reads a view.
    pub(crate) fn of_view(&self, view: &str) -> Option<&EndpointEntry> {
        self.iter().find(|entry| entry.create.view() == Some(view))
    }

    /// Whether that changed anything. What a new one names must be there.
    pub(crate) fn create(&mut self, create: &CreateEndpoint, at: Millis) -> Result<bool, EngineError> {
        if let Some(known) = self.entries.get(&key(&create.name)) {
            return match create.if_not_exists {
                true => Ok(false),
                false => Err(EngineError::EndpointExists(known.create.name.to_string())),
            };
        }
        let create = CreateEndpoint { if_not_exists: false, ..create.clone() };
        let entry = EndpointEntry { id: self.next, created: at, create };
        self.next += 1;
        self.entries.insert(key(&entry.create.name), entry);
        Ok(true)
    }

    /// Whether that changed anything.
    pub(crate) fn remove(&mut self, name: &EndpointName, if_exists: bool) -> Result<bool, EngineError> {
        match self.entries.remove(&key(name)) {
            None if !if_exists => Err(EngineError::NoEndpoint(name.to_string())),
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
    ) -> Result<EndpointEntries, E> {
        let mut entries = BTreeMap::new();
        for EndpointSnapshot { id, created, text } in &snapshot.entries {
            let create = read(text)?;
            entries.insert(key(&create.name), EndpointEntry { id: *id, created: *created, create });
        }
        Ok(EndpointEntries { next: snapshot.next, entries })
    }
}

impl EndpointsSnapshot {
    /// Whether there never was one.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == 0
    }
}
