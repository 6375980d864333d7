//! The names of plain tables: those that exist, those that are being created, and those whose files are missing.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use swiftwater_runtime::lock_order::{OrderedMutex, level};
use tokio::sync::Notify;

/// The way a name is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    /// A statement is making the table.
    Making,
    There,
}

/// The names that plain tables have taken.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The names; none as long as the store could not be asked.
    names: OrderedMutex<Option<BTreeMap<String, Name>>, level::TableNames>,
    /// Notified when a table was created, or its creation failed.
    made: Notify,
    /// True if a table was made is not known: the store is to be asked again.
    is_doubtful: AtomicBool,
}

impl Plain {
    /// Adds the existing names; tables that are being made are unchanged.
    pub(crate) fn set(&self, there: impl IntoIterator<Item = String>) {
        let mut names = self.names.lock();
        let names = names.get_or_insert_default();
        names.retain(|_, name| *name == Name::Making);
        for name in there {
            names.entry(name).or_insert(Name::There);
        }
        self.is_doubtful.store(false, Ordering::Relaxed);
    }

    /// The store is to be asked again which there are.
    pub(crate) fn doubt(&self) {
        self.is_doubtful.store(true, Ordering::Relaxed);
    }

    /// True if it is known which there are.
    pub(crate) fn is_known(&self) -> bool {
        self.names.lock().is_some() && !self.is_doubtful.load(Ordering::Relaxed)
    }

    /// The existing ones; none as long as they are not known.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let names = self.names.lock();
        let names = names.as_ref()?.iter().filter(|(_, name)| **name == Name::There);
        Some(names.map(|(name, _)| name.clone()).collect())
    }

    /// True if a name is taken; none as long as that is not known.
    pub(crate) fn has(&self, name: &str) -> Option<bool> {
        self.names.lock().as_ref().map(|names| names.contains_key(name))
    }

    /// True if there is a table of a name, whole; none as long as that is not known.
    pub(crate) fn is_there(&self, name: &str) -> Option<bool> {
        self.names.lock().as_ref().map(|names| names.get(name) == Some(&Name::There))
    }

    /// True if somebody is making a table of this name.
    pub(crate) fn is_being_made(&self, name: &str) -> bool {
        self.names.lock().as_ref().and_then(|names| names.get(name)) == Some(&Name::Making)
    }

    /// Takes a name, which is free, for a table that is to be made. It is free again where that is dropped before it was made.
    pub(crate) fn reserve(self: &Arc<Self>, name: &str) -> ReservedName {
        self.names.lock().get_or_insert_default().insert(name.to_owned(), Name::Making);
        ReservedName { plain: Arc::clone(self), name: name.to_owned() }
    }

    /// Forgets a table.
    pub(crate) fn remove(&self, name: &str) {
        if let Some(names) = &mut *self.names.lock() {
            names.remove(name);
        }
    }

    /// Returns when nobody is making a table of this name.
    pub(crate) async fn until_made(&self, name: &str) {
        loop {
            // Asked for before the look, so that no notice is missed in between.
            let made = self.made.notified();
            tokio::pin!(made);
            made.as_mut().enable();
            if !self.is_being_made(name) {
                return;
            }
            made.await;
        }
    }
}

/// A name that is taken by a table that is being made.
#[derive(Debug)]
pub(crate) struct ReservedName {
    plain: Arc<Plain>,
    name: String,
}

impl ReservedName {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The table is there.
    pub(crate) fn record_created(self) {
        self.plain.names.lock().get_or_insert_default().insert(self.name.clone(), Name::There);
    }
}

impl Drop for ReservedName {
    fn drop(&mut self) {
        if let Entry::Occupied(entry) =
            self.plain.names.lock().get_or_insert_default().entry(self.name.clone())
            && *entry.get() == Name::Making
        {
            entry.remove();
        }
        self.plain.made.notify_waiters();
    }
}
