//! CREATE JOIN and DROP JOIN, how joins start with the engine, and whether they go on when a stream is altered.

use std::sync::Arc;

use swiftwater_catalog::{
    CatalogError, Change, Dependency, ObjectKind, Role,
    kind::{stream::StreamEntry, stream_join::JoinEntry},
};
use swiftwater_lang::ddl::{AlterStream, CreateJoin, Ddl};
use swiftwater_live::JoinQuery;
use swiftwater_log::LogPosition;
use swiftwater_views::ViewStore;

use super::{
    Join,
    join::{compile, plan},
};
use crate::{
    EngineError,
    ddl::{Context, LoggedAsWritten, Planned, Statement, check_room},
    durable::history::History,
    shared::Shared,
};

/// A join that can be created. The log keeps what it needs.
pub(crate) struct Prepared {
    query: JoinQuery,
    store: Arc<ViewStore>,
    id: u32,
}

impl Statement for CreateJoin {
    type Prepared = Prepared;

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<Prepared>>, EngineError> {
        if !history.with_catalog(|catalog| catalog.check_join(self))? {
            return Ok(None);
        }
        let joins = history.with_catalog(|catalog| catalog.joins().len());
        check_room("number of joins", "joins.joins_max", joins, history.config.joins_max)?;
        history.check_take_events([self.target.as_str()])?;
        let query = history.with_catalog(|catalog| compile(self, catalog.sides_of(self)?))?;
        let store = history.join_store(&self.name)?;
        let id = history.with_catalog(|catalog| catalog.next_view());
        let from = history.retained.set(id, || history.log.horizons().appended).0;
        let change = Change::Join { text: ddl.to_string(), from };
        Ok(Some(Planned { change, prepared: Prepared { query, store, id } }))
    }

    fn abandon(&self, history: &History, Prepared { id, .. }: Prepared) {
        history.retained.release(id);
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        Prepared { query, store, .. }: Prepared,
    ) -> Result<(), EngineError> {
        let entry = history.with_catalog(|catalog| catalog.join(&self.name).cloned())?;
        history.start_join(entry, query, store)
    }
}

/// `DROP JOIN`.
pub(crate) struct DropJoin<'d>(pub(crate) &'d str);

impl LoggedAsWritten for DropJoin<'_> {
    async fn apply_effect(&self, Context { history, .. }: Context<'_>) -> Result<(), EngineError> {
        history.end_join(self.0);
        Ok(())
    }
}

impl History {
    fn join_store(&self, name: &str) -> Result<Arc<ViewStore>, EngineError> {
        self.view_store(name).map_err(|error| match error {
            EngineError::ObjectUnavailable { why, .. } => {
                EngineError::unavailable(ObjectKind::StreamJoin.named(name), why)
            }
            error => error,
        })
    }

    fn start_join(
        self: &Arc<Self>,
        entry: JoinEntry,
        query: JoinQuery,
        store: Arc<ViewStore>,
    ) -> Result<(), EngineError> {
        let stored =
            |name| self.stored(name).ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name.as_str()));
        let [left, right] = &entry.create.sides;
        let streams = ([stored(left)?, stored(right)?], stored(&entry.create.target)?);
        let join = Arc::new(Join::new(entry, streams, query, store));
        let mut joins = self.objects.joins.write();
        joins.insert(join.entry.create.name.clone(), Arc::clone(&join));
        drop(joins);
        self.maintain(join);
        Ok(())
    }

    /// Retains the log for all joins, before the first trim.
    pub(crate) fn retain_for_joins(&self) -> Result<(), EngineError> {
        let entries: Vec<JoinEntry> = self.with_catalog(|catalog| catalog.joins().cloned().collect());
        for entry in entries {
            let store = self.join_store(&entry.create.name)?;
            let position = store.position(entry.id).map_err(|error| {
                EngineError::unavailable(ObjectKind::StreamJoin.named(&*entry.create.name), error)
            })?;
            self.retained.set(entry.id, || LogPosition(position.unwrap_or(entry.from)));
        }
        Ok(())
    }

    /// Starts all joins of the catalog.
    pub(crate) fn start_joins(self: &Arc<Self>, shared: &Arc<Shared>) {
        let entries: Vec<JoinEntry> = self.with_catalog(|catalog| catalog.joins().cloned().collect());
        let _ = self.engine.set(Arc::downgrade(shared));
        for entry in entries {
            let (id, name) = (entry.id, entry.create.name.clone());
            let begun = self
                .with_catalog(|catalog| compile(&entry.create, catalog.sides_of(&entry.create)?))
                .and_then(|query| Ok((query, self.join_store(&name)?)))
                .and_then(|(query, store)| self.start_join(entry, query, store));
            if let Err(error) = begun {
                tracing::error!(join = &*name, %error, "a join cannot continue");
                self.retained.release(id);
            }
        }
    }

    /// Fails if a join of a stream cannot continue when the stream is altered.
    pub(crate) fn check_joins(&self, alter: &AlterStream, altered: &StreamEntry) -> Result<(), EngineError> {
        self.with_catalog(|catalog| {
            for join in catalog.joins().filter(|join| join.create.sides.contains(&alter.name)) {
                let before = catalog.sides_of(&join.create)?;
                let of = |place: usize| match join.create.sides[place] == alter.name {
                    true => &altered.create,
                    false => before[place],
                };
                // The kept state was computed from events read by the earlier declaration.
                let now = plan(&join.create, [of(0), of(1)]).ok();
                if now.is_none() || now != plan(&join.create, before).ok() {
                    let stream = ObjectKind::Stream.named(alter.name.as_str());
                    let dependency = Dependency::new(Role::Source, join.object(), stream);
                    return Err(CatalogError::InUse(dependency).into());
                }
            }
            Ok(())
        })
    }

    /// Ends a join that is no longer in the catalog.
    pub(crate) fn end_join(&self, name: &str) {
        let removed = self.objects.joins.write().remove(name);
        if let Some(join) = removed {
            self.retained.release(join.entry.id);
            // Its task deletes what is kept of it.
            join.dropped.send();
        }
    }

    /// All joins at work, by name.
    pub(super) fn all_joins(&self) -> Vec<Arc<Join>> {
        self.objects.joins.read().values().cloned().collect()
    }
}
