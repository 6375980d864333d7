//! The state that all tasks of an engine share: the runtime, and the durable state beside it.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use swiftwater_catalog::kind::saved::SavedObjects;
use swiftwater_event::StreamName;
use swiftwater_runtime::{Runtime, lock_order::OrderedMutex, parts};
use swiftwater_sql::Sql;

use crate::{
    SavedLimits,
    durable::{
        history::History,
        stored_stream::{Declared, StoredStream},
    },
    searches::Searches,
    tables::HistoryTables,
};

/// The saved objects of an engine without a data directory.
#[derive(Debug, Default)]
pub(crate) struct SavedInMemory {
    pub(crate) limits: SavedLimits,
    pub(crate) objects: SavedObjects,
}

pub(crate) struct Shared {
    pub(crate) runtime: Runtime,
    /// The durable state, if there is any; set before callers get the engine.
    pub(crate) history: OnceLock<Arc<History>>,
    /// SQL over it; set with it.
    pub(crate) sql: OnceLock<Arc<Sql>>,
    /// Its tables; set with it.
    pub(crate) tables: OnceLock<Arc<HistoryTables>>,
    searches: OnceLock<Arc<Searches>>,
    /// Saved objects, if nothing is stored.
    pub(crate) saved_in_memory: OrderedMutex<SavedInMemory>,
}

impl Deref for Shared {
    type Target = parts::Shared;

    fn deref(&self) -> &parts::Shared {
        self.runtime.shared()
    }
}

impl Shared {
    pub(crate) fn new(runtime: Runtime) -> Shared {
        Shared {
            runtime,
            history: OnceLock::new(),
            sql: OnceLock::new(),
            tables: OnceLock::new(),
            searches: OnceLock::new(),
            saved_in_memory: OrderedMutex::default(),
        }
    }

    /// The searches of stored events.
    pub(crate) fn searches(&self, history: &History) -> &Arc<Searches> {
        self.searches.get_or_init(|| Arc::new(Searches::new(&history.config)))
    }

    /// The stored stream of this name, and its history.
    pub(crate) fn stored(&self, name: &StreamName) -> Option<(&Arc<History>, Arc<StoredStream>)> {
        let history = self.history.get()?;
        Some((history, history.stored(name)?))
    }

    /// The declaration of a stream that has one and is not stored.
    pub(crate) fn unstored(&self, name: &StreamName) -> Option<(&Arc<History>, Arc<Declared>)> {
        let history = self.history.get()?;
        Some((history, history.unstored(name)?))
    }

    /// True if a stream that is not stored still has the declaration that its events were validated against, or still has none.
    /// Asked under the lock of its intake, under which streams begin to be stored.
    pub(crate) fn is_declared_as(&self, name: &StreamName, declared: Option<&Declared>) -> bool {
        let Some(history) = self.history.get() else { return true };
        let unstored = history.unstored(name);
        history.stored(name).is_none()
            && unstored.map(|unstored| unstored.id) == declared.map(|known| known.id)
    }
}
