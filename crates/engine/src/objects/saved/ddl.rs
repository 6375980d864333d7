//! CREATE SAVED and DROP SAVED.

use swiftwater_catalog::kind::saved::{SavedObjects, bytes_of};
use swiftwater_lang::ddl::{CreateSaved, Ddl};

use crate::{
    EngineError, RuntimeError, SavedLimits,
    ddl::{Context, LoggedAsWritten, Planned, Statement, check_room},
};

impl Statement for CreateSaved {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        history.with_catalog(|catalog| check_saved_room(&history.config.saved, catalog.saved(), self))?;
        history.plan(ddl, ())
    }

    async fn apply_effect(&self, _: Context<'_>, (): ()) -> Result<(), EngineError> {
        Ok(())
    }
}

/// `DROP SAVED`.
pub(crate) struct DropSaved;

impl LoggedAsWritten for DropSaved {
    async fn apply_effect(&self, _: Context<'_>) -> Result<(), EngineError> {
        Ok(())
    }
}

/// An error if there would be too many saved objects.
pub(crate) fn check_saved_room(
    limits: &SavedLimits,
    saved: &SavedObjects,
    create: &CreateSaved,
) -> Result<(), EngineError> {
    let bytes = bytes_of(create);
    let known = saved.get(&create.name).ok();
    if known.is_none() {
        check_room("number of saved objects", "server.saved_max", saved.len(), limits.objects_max)?;
    }
    let all = saved.bytes() - known.map_or(0, |known| known.bytes()) + bytes;
    if all > limits.bytes_max {
        let (wanted, limit) = (all as u64, limits.bytes_max as u64);
        let (what, setting) = ("bytes of saved objects", "server.saved_bytes_max");
        return Err(EngineError::Runtime(RuntimeError::Limit { what, setting, wanted, limit }));
    }
    Ok(())
}
