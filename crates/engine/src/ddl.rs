//! The steps of a statement that changes the catalog: it is checked before it is logged, and logged before it takes effect.
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

use swiftwater_catalog::Change;
use swiftwater_lang::ddl::Ddl;

use crate::{EngineError, RuntimeError, durable::history::History, shared::Shared};

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
    fn apply_effect(
        &self,
        context: Context<'_>,
        prepared: Self::Prepared,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
}

/// A statement that is logged as it is written, and has nothing to prepare.
pub(crate) trait LoggedAsWritten: Sync {
    /// Applies the effects, as [`Statement::apply_effect`].
    fn apply_effect(&self, context: Context<'_>) -> impl Future<Output = Result<(), EngineError>> + Send;
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

    async fn apply_effect(&self, context: Context<'_>, (): ()) -> Result<(), EngineError> {
        self.0.apply_effect(context).await
    }
}

impl History {
    /// A change of the catalog that is logged as its statement is written; none where the statement changes nothing.
    pub(crate) fn plan<P>(&self, ddl: &Ddl, prepared: P) -> Result<Option<Planned<P>>, EngineError> {
        let change = self.catalog.newest().check(ddl)?;
        Ok(change.map(|change| Planned { change, prepared }))
    }
}

/// Runs a statement of one kind; returns true if it changed anything.
pub(crate) async fn carry_out<S: Statement>(
    context: Context<'_>,
    statement: &S,
    ddl: &Ddl,
) -> Result<bool, EngineError> {
    if context.history.config.is_temporary {
        return Err(EngineError::NoHistory);
    }
    let Some(Planned { change, prepared }) = statement.prepare(context, ddl).await? else { return Ok(false) };
    if let Err(error) = context.history.record(change).await {
        statement.abandon(context.history, prepared);
        return Err(error);
    }
    statement.apply_effect(context, prepared).await?;
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
