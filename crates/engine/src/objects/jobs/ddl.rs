//! CREATE, ALTER and DROP JOB.

use swiftwater_lang::ddl::{CreateJob, Ddl};

use crate::{
    EngineError,
    ddl::{Context, LoggedAsWritten, Planned, Statement, check_room},
};

impl Statement for CreateJob {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        let catalog = history.catalog.newest();
        if catalog.job(&self.name).is_err() {
            check_room("number of jobs", "jobs.jobs_max", catalog.jobs().len(), history.config.jobs_max)?;
        }
        history.plan(ddl, ())
    }

    /// The next look at the clock finds it.
    async fn apply_effect(&self, _: Context<'_>, (): ()) -> Result<(), EngineError> {
        Ok(())
    }
}

/// `ALTER JOB`.
pub(crate) struct AlterJob<'d>(pub(crate) &'d str);

impl LoggedAsWritten for AlterJob<'_> {
    async fn apply_effect(&self, Context { history, .. }: Context<'_>) -> Result<(), EngineError> {
        let id = history.catalog.newest().job(self.0)?.id;
        history.objects.jobs.wake(id);
        Ok(())
    }
}

/// `DROP JOB`.
pub(crate) struct DropJob<'d>(pub(crate) &'d str);

impl Statement for DropJob<'_> {
    /// The number of the job.
    type Prepared = Option<u32>;

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<Option<u32>>>, EngineError> {
        let id = history.catalog.newest().job(self.0).ok().map(|job| job.id);
        history.plan(ddl, id)
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        id: Option<u32>,
    ) -> Result<(), EngineError> {
        id.into_iter().for_each(|id| history.objects.jobs.end(id));
        Ok(())
    }
}
