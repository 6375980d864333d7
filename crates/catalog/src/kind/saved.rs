//! Saved objects, and links to states of a page. The server runs none of them by itself, and no other object depends on one.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateSaved, Ddl, SavedKind, SavedName};

use crate::{CatalogError, ObjectKind, WireError};

/// The largest text of a saved object, in bytes.
pub const SAVED_BYTES_MAX: usize = 1 << 20;

/// The largest state of a page that a link stands for, in bytes.
pub const LINK_BYTES_MAX: usize = 64 << 10;

/// The most links. The links that were not opened for the longest time make room for another one.
pub const LINKS_MAX: usize = 10_000;

/// The most bytes of all states that links stand for.
pub const LINKS_BYTES_MAX: usize = 16 << 20;

/// The time after which a link that nobody opened is deleted.
pub const LINK_KEPT_MS: Millis = 90 * 86_400_000;

/// The time between two changes of a link's last opening, so that a link that is opened often is not written each time.
const LINK_OPENED_STEP_MS: Millis = 86_400_000;

/// A saved object.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedEntry {
    /// The number of its last change among those of all saved objects; never given to another.
    pub revision: u64,
    /// Time of its creation.
    pub created: Millis,
    /// Time of its last change.
    pub changed: Millis,
    /// Its declaration.
    pub create: CreateSaved,
}

/// A link: a short key that stands for the state of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkEntry {
    /// The state.
    pub state: Box<str>,
    /// The day on which it was last opened, as the time of the first opening of that day.
    pub opened: Millis,
}

/// All saved objects and links. Entries are shared, because the catalog is copied for each change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SavedObjects {
    revisions: u64,
    bytes: usize,
    entries: BTreeMap<SavedName, Arc<SavedEntry>>,
    links: BTreeMap<Box<str>, Arc<LinkEntry>>,
    link_bytes: usize,
}

/// All saved objects within a snapshot of the catalog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SavedObjectsSnapshot {
    revisions: u64,
    entries: Vec<SavedSnapshot>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<Box<str>, LinkEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedSnapshot {
    revision: u64,
    created: Millis,
    changed: Millis,
    text: String,
}

/// The object that a saved object is in sentences.
pub fn object_kind(kind: SavedKind) -> ObjectKind {
    match kind {
        SavedKind::Query => ObjectKind::SavedQuery,
        SavedKind::Dashboard => ObjectKind::Dashboard,
        SavedKind::Notebook => ObjectKind::Notebook,
    }
}

impl SavedObjects {
    /// No objects, whose first revision is the one after this.
    pub fn starting_at(revision: u64) -> SavedObjects {
        SavedObjects { revisions: revision, ..SavedObjects::default() }
    }

    /// The saved objects of a kind, by name, after the name `after`.
    pub fn of_kind<'a>(
        &'a self,
        kind: SavedKind,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<SavedEntry>> + use<'a> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let name = |name: &str| SavedName { kind, name: name.into() };
        let start = after.map_or_else(|| Included(name("")), |after| Excluded(name(after)));
        self.entries
            .range((start, Unbounded))
            .take_while(move |(name, _)| name.kind == kind)
            .map(|(_, entry)| entry)
    }

    /// The number of saved objects.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there is none")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all texts and comments.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The saved object of a name; an error if there is none.
    pub fn get(&self, name: &SavedName) -> Result<&Arc<SavedEntry>, CatalogError> {
        self.entries.get(name).ok_or_else(|| CatalogError::not_found(object_kind(name.kind), &*name.name))
    }

    /// Creates or replaces a saved object; returns true if that changed anything.
    pub fn create(&mut self, create: &CreateSaved, at: Millis) -> Result<bool, CatalogError> {
        let known = self.entries.get(&create.name).map(Arc::clone);
        if let Some(known) = &known {
            if !create.or_replace {
                let SavedName { kind, name } = &create.name;
                return CatalogError::unless(create.if_not_exists, object_kind(*kind), name);
            }
            let parts = |create: &CreateSaved| (create.dialect, create.comment.clone());
            if known.create.text == create.text && parts(&known.create) == parts(create) {
                return Ok(false);
            }
        }
        self.revisions += 1;
        self.bytes = self.bytes - known.as_deref().map_or(0, SavedEntry::bytes) + bytes_of(create);
        let created = known.map_or(at, |known| known.created);
        let create = CreateSaved { or_replace: false, if_not_exists: false, ..create.clone() };
        let entry = SavedEntry { revision: self.revisions, created, changed: at, create };
        self.entries.insert(entry.create.name.clone(), Arc::new(entry));
        Ok(true)
    }

    /// Drops a saved object; returns true if that changed anything.
    pub fn drop(&mut self, name: &SavedName, if_exists: bool) -> Result<bool, CatalogError> {
        match self.entries.remove(name) {
            Some(known) => {
                self.bytes -= known.bytes();
                Ok(true)
            }
            None if if_exists => Ok(false),
            None => Err(CatalogError::not_found(object_kind(name.kind), &*name.name)),
        }
    }

    /// The state that a link stands for at a time.
    pub fn link(&self, key: &str, at: Millis) -> Option<&Arc<LinkEntry>> {
        self.links.get(key).filter(|link| link.opened + LINK_KEPT_MS > at)
    }

    /// True if opening a link at this time is a change, so that it stays.
    pub fn opening_is_change(link: &LinkEntry, at: Millis) -> bool {
        link.opened + LINK_OPENED_STEP_MS <= at
    }

    /// Adds a link, or records that it was opened. Links that are too old are deleted, and the oldest ones if there are too many.
    pub fn put_link(&mut self, key: &str, state: Option<&str>, at: Millis) {
        self.links.retain(|_, link| link.opened + LINK_KEPT_MS > at);
        self.link_bytes = self.links.values().map(|link| link.state.len()).sum();
        let known = self.links.remove(key);
        self.link_bytes -= known.as_ref().map_or(0, |known| known.state.len());
        let Some(state) = state.map(Box::from).or(known.map(|known| known.state.clone())) else { return };
        self.link_bytes += state.len();
        let added = self.links.len() + 1;
        self.links.insert(key.into(), Arc::new(LinkEntry { state, opened: at }));
        if added <= LINKS_MAX && self.link_bytes <= LINKS_BYTES_MAX {
            return;
        }
        let mut oldest: Vec<(Millis, Box<str>)> = self
            .links
            .iter()
            .filter(|(other, _)| ***other != *key)
            .map(|(key, link)| (link.opened, key.clone()))
            .collect();
        oldest.sort_unstable();
        for (_, key) in oldest {
            if self.links.len() <= LINKS_MAX && self.link_bytes <= LINKS_BYTES_MAX {
                return;
            }
            self.link_bytes -= self.links.remove(&key).map_or(0, |link| link.state.len());
        }
    }

    pub(crate) fn snapshot(&self) -> SavedObjectsSnapshot {
        let entries = self.entries.values().map(|entry| SavedSnapshot {
            revision: entry.revision,
            created: entry.created,
            changed: entry.changed,
            text: Ddl::CreateSaved(entry.create.clone()).to_string(),
        });
        SavedObjectsSnapshot {
            revisions: self.revisions,
            entries: entries.collect(),
            links: self.links.iter().map(|(key, link)| (key.clone(), LinkEntry::clone(link))).collect(),
        }
    }

    /// `read` reads a statement.
    pub(crate) fn from_snapshot(
        snapshot: &SavedObjectsSnapshot,
        read: impl Fn(&str) -> Result<CreateSaved, WireError>,
    ) -> Result<SavedObjects, WireError> {
        let links = snapshot.links.iter().map(|(key, link)| (key.clone(), Arc::new(link.clone()))).collect();
        let mut objects = SavedObjects { revisions: snapshot.revisions, links, ..Default::default() };
        objects.link_bytes = objects.links.values().map(|link| link.state.len()).sum();
        for SavedSnapshot { revision, created, changed, text } in &snapshot.entries {
            let create = read(text)?;
            objects.bytes += bytes_of(&create);
            let entry = SavedEntry { revision: *revision, created: *created, changed: *changed, create };
            objects.entries.insert(entry.create.name.clone(), Arc::new(entry));
        }
        Ok(objects)
    }
}

impl SavedObjectsSnapshot {
    /// True if there never was one.
    pub(crate) fn is_empty(&self) -> bool {
        self.revisions == 0 && self.links.is_empty()
    }
}

impl SavedEntry {
    /// The bytes of its text and comment.
    pub fn bytes(&self) -> usize {
        bytes_of(&self.create)
    }
}

/// The bytes that a saved object needs.
pub fn bytes_of(create: &CreateSaved) -> usize {
    create.text.len() + create.comment.as_deref().map_or(0, str::len)
}

#[cfg(test)]
mod tests;
