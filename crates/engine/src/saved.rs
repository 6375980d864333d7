//! Reads, saves and drops saved objects, and stores links: in the catalog, or in memory if nothing is stored.

mod show;

use std::sync::Arc;

use swiftwater_catalog::{
    Change,
    kind::saved::{LINK_BYTES_MAX, SavedEntry, SavedObjects, object_kind},
};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateSaved, Ddl, SavedKind, SavedName};

use crate::{
    EngineError,
    ddl::Context,
    durable::history::History,
    hash_of,
    objects::{
        execute,
        saved::{ContentError, check_content, check_saved_room},
    },
    shared::{SavedInMemory, Shared},
    statements::to_its_end,
};

/// The state of a saved object on which a change depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveCondition {
    /// Whatever there is.
    Any,
    /// The object has one of these revisions.
    Revision(Vec<u64>),
    /// The object exists.
    Exists,
    /// There is none.
    Absent,
}

/// A saved object, as it is after a change.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The object.
    pub entry: Arc<SavedEntry>,
    /// It did not exist before.
    pub is_new: bool,
}

/// Saved objects of a kind, by name.
#[derive(Debug, Clone)]
pub struct SavedList {
    /// The objects.
    pub entries: Vec<Arc<SavedEntry>>,
    /// True if there are more after these.
    pub has_more: bool,
}

/// The reason why a saved object is not saved or dropped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SavedError {
    /// The engine refuses it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Its content is wrong.
    #[error("{0}")]
    Content(ContentError),
    /// The condition does not hold; the object as it is.
    #[error("{}", changed(.name, .now.as_deref()))]
    Changed {
        /// The object.
        name: SavedName,
        /// Its state; none: it does not exist.
        now: Option<Arc<SavedEntry>>,
    },
}

fn changed(name: &SavedName, now: Option<&SavedEntry>) -> String {
    let (kind, name) = (name.kind.noun(), &name.name);
    match now {
        Some(now) => {
            format!("{kind} `{name}` has revision {}, and the request expects another state", now.revision)
        }
        None => format!("there is no {kind} `{name}`, and the request expects one"),
    }
}

impl SaveCondition {
    fn check(&self, name: &SavedName, saved: &SavedObjects) -> Result<(), SavedError> {
        let now = saved.get(name).ok();
        let holds = match self {
            SaveCondition::Any => true,
            SaveCondition::Revision(revisions) => now.is_some_and(|now| revisions.contains(&now.revision)),
            SaveCondition::Exists => now.is_some(),
            SaveCondition::Absent => now.is_none(),
        };
        match holds {
            true => Ok(()),
            false => Err(SavedError::Changed { name: name.clone(), now: now.cloned() }),
        }
    }
}

impl Shared {
    /// The history, if saved objects are stored there.
    fn saved_history(&self) -> Option<&Arc<History>> {
        self.history.get().filter(|history| !history.config.is_temporary)
    }

    /// True if saved objects outlive the process.
    pub(crate) fn keeps_saved(&self) -> bool {
        self.saved_history().is_some()
    }

    pub(crate) fn with_saved<T>(&self, look: impl FnOnce(&SavedObjects) -> T) -> T {
        match self.saved_history() {
            Some(history) => history.with_catalog(|catalog| look(catalog.saved())),
            None => look(&self.saved_in_memory.lock().objects),
        }
    }

    /// The saved objects of a kind that changed last, the newest first.
    pub(crate) fn saved_last(&self, kind: SavedKind, prefix: &str, limit: usize) -> SavedList {
        let mut list = self.saved_list(kind, prefix, None, usize::MAX);
        list.entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.revision));
        list.has_more = list.entries.len() > limit;
        list.entries.truncate(limit);
        list
    }

    /// The saved objects of a kind whose names begin with `prefix`, after the name `after`, at most `limit` of them.
    pub(crate) fn saved_list(
        &self,
        kind: SavedKind,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> SavedList {
        self.with_saved(|saved| {
            let entries =
                saved.of_kind(kind, after).filter(|entry| entry.create.name.name.starts_with(prefix));
            let mut entries: Vec<_> = entries.take(limit.saturating_add(1)).map(Arc::clone).collect();
            let has_more = entries.len() > limit;
            entries.truncate(limit);
            SavedList { entries, has_more }
        })
    }

    pub(crate) fn saved(&self, name: &SavedName) -> Result<Arc<SavedEntry>, EngineError> {
        let found = self.with_saved(|saved| saved.get(name).map(Arc::clone));
        found.map_err(|_| EngineError::not_found(object_kind(name.kind), &*name.name))
    }

    /// Saves an object, and replaces the one of its name if the condition holds.
    pub(crate) async fn save(
        self: &Arc<Self>,
        create: CreateSaved,
        condition: SaveCondition,
    ) -> Result<Saved, SavedError> {
        let query_bytes_max = self.config.query_text_bytes_max;
        check_content(&create, query_bytes_max, self.clock.now()).map_err(SavedError::Content)?;
        let create = CreateSaved { or_replace: true, if_not_exists: false, ..create };
        let name = create.name.clone();
        let (is_new, entry) = self.change_saved(name.clone(), Ddl::CreateSaved(create), condition).await?;
        let absent = || EngineError::not_found(object_kind(name.kind), &*name.name);
        Ok(Saved { entry: entry.ok_or_else(absent)?, is_new })
    }

    /// Drops a saved object if the condition holds.
    pub(crate) async fn drop_saved(
        self: &Arc<Self>,
        name: SavedName,
        condition: SaveCondition,
    ) -> Result<(), SavedError> {
        let ddl = Ddl::DropSaved { name: name.clone(), if_exists: false };
        self.change_saved(name, ddl, condition).await.map(drop)
    }

    /// Returns true if there was no object of the name before, and the object after the change. Both are read before another
    /// statement can run.
    async fn change_saved(
        self: &Arc<Self>,
        name: SavedName,
        ddl: Ddl,
        condition: SaveCondition,
    ) -> Result<(bool, Option<Arc<SavedEntry>>), SavedError> {
        let Some(history) = self.saved_history() else {
            let now = self.clock.now();
            let mut memory = self.saved_in_memory.lock();
            condition.check(&name, &memory.objects)?;
            let is_new = find(&memory.objects, &name).is_none();
            memory.change(&ddl, now)?;
            return Ok((is_new, find(&memory.objects, &name)));
        };
        let (history, shared) = (Arc::clone(history), Arc::clone(self));
        to_its_end(&Arc::clone(&history), async move {
            let _one_at_a_time = history.statement_lock.lock().await;
            let is_new = history.with_catalog(|catalog| {
                condition.check(&name, catalog.saved())?;
                Ok::<_, SavedError>(find(catalog.saved(), &name).is_none())
            })?;
            execute(Context { history: &history, shared: &shared }, &ddl).await?;
            Ok((is_new, history.with_catalog(|catalog| find(catalog.saved(), &name))))
        })
        .await
    }

    /// Stores a state of a page; returns its key.
    pub(crate) async fn link(self: &Arc<Self>, state: &str) -> Result<Box<str>, SavedError> {
        let bytes = state.len();
        if bytes > LINK_BYTES_MAX {
            return Err(SavedError::Content(ContentError::TooLarge { bytes, bytes_max: LINK_BYTES_MAX }));
        }
        let now = self.clock.now();
        // Another state with the same ten characters gets a key of its own.
        let known = |key: &str| self.with_saved(|saved| saved.link(key, now).map(Arc::clone));
        let mut salt = 0_u32;
        let key = loop {
            let key = link_key(state, salt);
            match known(&key) {
                Some(link) if *link.state != *state => salt += 1,
                Some(link) if !SavedObjects::opening_is_change(&link, now) => return Ok(key),
                _ => break key,
            }
        };
        self.put_link(key.clone(), Some(state.into())).await?;
        Ok(key)
    }

    /// The state that a key stands for, which stays for another 90 days.
    pub(crate) async fn open_link(self: &Arc<Self>, key: &str) -> Result<Option<Box<str>>, EngineError> {
        let now = self.clock.now();
        let Some(link) = self.with_saved(|saved| saved.link(key, now).map(Arc::clone)) else {
            return Ok(None);
        };
        if SavedObjects::opening_is_change(&link, now)
            && let Err(error) = self.put_link(key.into(), None).await
        {
            tracing::warn!(key, %error, "the opening of a link cannot be recorded");
        }
        Ok(Some(link.state.clone()))
    }

    async fn put_link(self: &Arc<Self>, key: Box<str>, state: Option<Box<str>>) -> Result<(), EngineError> {
        let Some(history) = self.saved_history() else {
            let now = self.clock.now();
            self.saved_in_memory.lock().objects.put_link(&key, state.as_deref(), now);
            return Ok(());
        };
        let history = Arc::clone(history);
        to_its_end(&Arc::clone(&history), async move { history.record(Change::Link { key, state }).await })
            .await
    }
}

impl SavedInMemory {
    fn change(&mut self, ddl: &Ddl, now: Millis) -> Result<(), EngineError> {
        // Greater than those of an earlier process, so that no client takes another object for one that it has read.
        if self.objects == SavedObjects::default() {
            self.objects = SavedObjects::starting_at(now.max(0) as u64);
        }
        match ddl {
            Ddl::CreateSaved(create) => {
                check_saved_room(&self.limits, &self.objects, create)?;
                self.objects.create(create, now)?;
            }
            Ddl::DropSaved { name, if_exists } => {
                self.objects.drop(name, *if_exists)?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn find(saved: &SavedObjects, name: &SavedName) -> Option<Arc<SavedEntry>> {
    saved.get(name).ok().map(Arc::clone)
}

/// Ten characters of the state's hash.
fn link_key(state: &str, salt: u32) -> Box<str> {
    const CHARACTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let hash = hash_of([state.as_bytes(), &salt.to_le_bytes()]);
    (0..10)
        .map(|place| char::from(CHARACTERS[(hash >> (place * 5)) as usize & 31]))
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests;
