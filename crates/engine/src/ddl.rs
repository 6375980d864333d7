//! Carries out a statement that changes the catalog: one at a time, checked before it is logged, logged before it takes effect.
//!
//! ```text
//! parsed ─► prepare ─► log ─► apply to the catalog ─► take effect ─► answer
//!              │        └─ cannot be logged: abandon what was prepared, return the error
//!              └─ refused: return the error        nothing to change: answer `false`
//! ```
//!
//! [`Statement`] has the steps that differ by the kind of object; `objects::execute` names the statement of each kind. After a crash
//! the log has the change or not: a start opens what the catalog has, so a change that was logged takes effect then.

use std::sync::Arc;

use swiftwater_catalog::{Change, ChangeRecord};
use swiftwater_lang::ddl::Ddl;
use swiftwater_log::Head;

use crate::{
    EngineError, RuntimeError, Ticket,
    durable::{
        history::{History, causes},
        stored_stream::unavailable,
    },
    objects,
    shared::Shared,
};

/// The parts of the engine that a statement works on.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) history: &'a Arc<History>,
    pub(crate) shared: &'a Shared,
}

/// A change that can be logged, and what its statement needs to make it take effect.
pub(crate) struct Planned<P> {
    pub(crate) change: Change,
    pub(crate) prepared: P,
}

/// A statement about one kind of object. No other statement changes the catalog between its steps.
pub(crate) trait Statement: Sync {
    /// The parts that are prepared before the change is logged.
    type Prepared: Send;

    /// Validates the statement and does all that can fail. None: there is nothing to change.
    fn prepare(
        &self,
        context: Context<'_>,
        ddl: &Ddl,
    ) -> impl Future<Output = Result<Option<Planned<Self::Prepared>>, EngineError>> + Send;

    /// Releases what was prepared, as the change could not be logged.
    fn abandon(&self, history: &History, prepared: Self::Prepared) {
        let _ = (history, prepared);
    }

    /// Makes the logged change take effect: starts, alters or ends the object.
    fn take_effect(
        &self,
        context: Context<'_>,
        prepared: Self::Prepared,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
}

/// A statement that is logged as it is written, and has nothing to prepare.
pub(crate) trait LoggedAsWritten: Sync {
    /// As [`Statement::take_effect`].
    fn take_effect(&self, context: Context<'_>) -> impl Future<Output = Result<(), EngineError>> + Send;
}

/// Such a statement as a [`Statement`].
pub(crate) struct AsWritten<S>(pub(crate) S);

impl<S: LoggedAsWritten> Statement for AsWritten<S> {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        history.plan(ddl, ())
    }

    async fn take_effect(&self, context: Context<'_>, (): ()) -> Result<(), EngineError> {
        self.0.take_effect(context).await
    }
}

impl History {
    /// Carries out a statement that changes the catalog; answers whether it changed anything.
    pub(crate) async fn change(self: &Arc<Self>, shared: &Shared, ddl: &Ddl) -> Result<bool, EngineError> {
        let _one_at_a_time = self.changing.lock().await;
        let context = Context { history: self, shared };
        // First, so that no stream lacks the quarantine that its declaration asks for.
        if let Some(quarantine) = self.quarantine_for(ddl)? {
            objects::execute(context, &quarantine).await?;
        }
        objects::execute(context, ddl).await
    }

    /// A change of the catalog that is logged as its statement is written; none where the statement changes nothing.
    pub(crate) fn plan<P>(&self, ddl: &Ddl, prepared: P) -> Result<Option<Planned<P>>, EngineError> {
        let change = self.catalog.newest().check(ddl)?;
        Ok(change.map(|change| Planned { change, prepared }))
    }

    /// Appends a change to the log, applies it to the catalog, and waits until it is on disk.
    pub(crate) async fn record(&self, change: Change) -> Result<(), EngineError> {
        let is_urgent = change.is_urgent();
        let record = ChangeRecord::new(self.clock.now(), change);
        let packed = self.log.pack(record.to_bytes().into()).map_err(unavailable)?;
        let bytes = packed.bytes();
        let room = if is_urgent { self.log.reserve_urgent(bytes) } else { self.log.reserve(bytes) };
        let room = room.await.map_err(unavailable)?;
        // One change at a time from the log on, so that a snapshot holds the changes before its position and no other.
        let end = {
            let _no_cut_is_made = self.cutting.read().await;
            let catalog = self.catalog.changing();
            let end = self.log.append(Head::Catalog, packed, room).map_err(unavailable)?;
            let applied = catalog.apply(|catalog| catalog.apply(&record));
            applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
            end
        };
        self.synced(Ticket(end.0)).await
    }

    /// Applies a change to the catalog and writes a snapshot of it, where the log has no room for the change.
    pub(crate) async fn record_by_snapshot(&self, change: Change) -> Result<(), EngineError> {
        let record = ChangeRecord::new(self.clock.now(), change);
        let applied = self.catalog.changing().apply(|catalog| catalog.apply(&record));
        applied.map_err(|error| EngineError::NotStored(error.to_string()))?;
        let written = self.checkpoint().await;
        written.map(drop).map_err(|error| EngineError::NotStored(causes(&error)))
    }
}

/// Carries out a statement of one kind; answers whether it changed anything.
pub(crate) async fn carry_out<S: Statement>(
    context: Context<'_>,
    statement: &S,
    ddl: &Ddl,
) -> Result<bool, EngineError> {
    let Some(Planned { change, prepared }) = statement.prepare(context, ddl).await? else { return Ok(false) };
    if let Err(error) = context.history.record(change).await {
        statement.abandon(context.history, prepared);
        return Err(error);
    }
    statement.take_effect(context, prepared).await?;
    Ok(true)
}

/// An error where one more object would pass the limit that a setting has.
pub(crate) fn check_room(
    what: &'static str,
    setting: &'static str,
    objects: usize,
    limit: usize,
) -> Result<(), EngineError> {
    if objects < limit {
        return Ok(());
    }
    let (wanted, limit) = (objects as u64 + 1, limit as u64);
    Err(EngineError::Runtime(RuntimeError::Limit { what, setting, wanted, limit }))
}
