//! The calls of the façade for saved objects.

use std::sync::Arc;

use swiftwater_catalog::kind::saved::SavedEntry;
use swiftwater_lang::ddl::{CreateSaved, SavedKind, SavedName};

use super::Engine;
use crate::{EngineError, Principal, SaveCondition, Saved, SavedError, SavedLimits, SavedList};

impl Engine {
    /// Sets the limits of saved objects for an engine without a data directory; with one they are in its settings.
    pub fn set_saved_limits(&self, limits: SavedLimits) {
        self.shared.saved_in_memory.lock().limits = limits;
    }

    /// True if saved objects outlive the process.
    pub fn keeps_saved(&self) -> bool {
        self.shared.keeps_saved()
    }

    /// The saved objects of a kind whose names begin with `prefix`, after the name `after`, at most `limit` of them.
    pub fn saved_list(
        &self,
        _principal: &Principal,
        kind: SavedKind,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> SavedList {
        self.shared.saved_list(kind, prefix, after, limit)
    }

    /// The saved objects of a kind whose names begin with `prefix`, at most `limit` of them: those that changed last, the newest first.
    pub fn saved_last(
        &self,
        _principal: &Principal,
        kind: SavedKind,
        prefix: &str,
        limit: usize,
    ) -> SavedList {
        self.shared.saved_last(kind, prefix, limit)
    }

    /// A saved object.
    pub fn saved(&self, _principal: &Principal, name: &SavedName) -> Result<Arc<SavedEntry>, EngineError> {
        self.shared.saved(name)
    }

    /// Saves an object under its name, and replaces the one that is there, if the condition holds. It is durable when this returns.
    pub async fn save(
        &self,
        _principal: &Principal,
        create: CreateSaved,
        condition: SaveCondition,
    ) -> Result<Saved, SavedError> {
        self.shared.save(create, condition).await
    }

    /// Drops a saved object, if the condition holds.
    pub async fn drop_saved(
        &self,
        _principal: &Principal,
        name: SavedName,
        condition: SaveCondition,
    ) -> Result<(), SavedError> {
        self.shared.drop_saved(name, condition).await
    }

    /// Stores a state of a page, and returns its key. A link that nobody opens for 90 days is deleted.
    pub async fn link(&self, _principal: &Principal, state: &str) -> Result<Box<str>, SavedError> {
        self.shared.link(state).await
    }

    /// The state that a key stands for; none: there is none, or it is too old.
    pub async fn open_link(
        &self,
        _principal: &Principal,
        key: &str,
    ) -> Result<Option<Box<str>>, EngineError> {
        self.shared.open_link(key).await
    }
}
