//! CREATE, ALTER and DROP STREAM.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use swiftwater_catalog::Change;
use swiftwater_event::StreamName;
use swiftwater_lang::ddl::{AlterStream, CreateStream, Ddl};

use crate::{
    EngineError,
    ddl::{Context, LoggedAsWritten, Planned, Statement},
    durable::{
        columns::Columns,
        history::{History, causes, table_error},
        spec::table_spec,
        stored_stream::Declared,
    },
    shared::Shared,
};

/// The time a client that is refused because of the store waits for the cause.
const CAUSE_TIME_MAX: Duration = Duration::from_secs(2);

impl Statement for CreateStream {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        Columns::of(self, &[]).map_err(EngineError::Columns)?;
        history.check_connection(self)?;
        let planned = history.plan(ddl, ())?;
        if planned.is_some() && self.is_stored() {
            match history.clear_name(shared, &self.name).await {
                Err(EngineError::Table(why)) => return Err(history.with_cause(why).await),
                cleared => cleared?,
            }
        }
        Ok(planned)
    }

    async fn apply_effect(
        &self,
        Context { history, shared }: Context<'_>,
        (): (),
    ) -> Result<(), EngineError> {
        let entry = history.catalog.newest().stream(&self.name).cloned();
        if !self.is_stored() {
            entry.map_or(Ok(()), |entry| history.unstored.declare(&entry))?;
            history.read_topics();
            return Ok(());
        }
        let opened = history.store.open_table(table_spec(self, &[])).await;
        let opened = opened.map_err(|error| table_error(&error));
        if let (Ok(table), Some(entry)) = (opened.as_ref(), entry) {
            history.open_stream(shared, &entry, Some(table.clone()), history.config.recovered())?;
            history.read_topics();
        }
        if let Err(error) = opened {
            let undo = Ddl::DropStream { name: self.name.clone(), if_exists: true };
            history.record(Change::Ddl(undo.to_string())).await?;
            // The table may be there all the same: whether it was made is what is not known.
            history.pending_store_work.notify_one();
            return Err(error);
        }
        Ok(())
    }
}

impl Statement for AlterStream {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        let planned = history.plan(ddl, ())?;
        if planned.is_some() {
            history.prepare_alter(shared, self).await?;
        }
        Ok(planned)
    }

    async fn apply_effect(
        &self,
        Context { history, shared }: Context<'_>,
        (): (),
    ) -> Result<(), EngineError> {
        history.alter(shared, &self.name).await?;
        history.change_reader(&self.name).await;
        history.set_endpoints(Some(&self.name));
        Ok(())
    }
}

/// `DROP STREAM`.
pub(crate) struct DropStream<'d>(pub(crate) &'d StreamName);

impl LoggedAsWritten for DropStream<'_> {
    async fn apply_effect(&self, Context { history, shared }: Context<'_>) -> Result<(), EngineError> {
        let name = self.0;
        let forget = || {
            history.unstored.forget(name);
            history.stored.write().remove(name)
        };
        let dropped = match shared.find_stream(name) {
            Some(stream) => {
                stream.is_stored.store(false, Ordering::Relaxed);
                let dropped = stream.between_appends(forget);
                stream.forget_recent();
                dropped
            }
            None => forget(),
        };
        if let Some(stored) = dropped {
            stored.end();
        }
        history.end_follower(shared, name);
        history.read_topics();
        // The stream is gone for good; what is left of its table goes as soon as that can be done.
        if let Err(error) = history.clear_dropped(name).await {
            tracing::warn!(stream = %name, %error, "the table of a dropped stream is deleted later");
            history.pending_store_work.notify_one();
        }
        Ok(())
    }
}

impl History {
    /// An error of the store with what it says now, if it says that at once.
    async fn with_cause(&self, why: String) -> EngineError {
        match tokio::time::timeout(CAUSE_TIME_MAX, self.store.tables()).await {
            Ok(Err(error)) if !why.contains(&error.to_string()) => {
                EngineError::Table(format!("{why}: {}", causes(&error)))
            }
            _ => EngineError::Table(why),
        }
    }

    /// Runs the steps of ALTER STREAM that can fail, before the change is logged: it applies whole or not at all.
    async fn prepare_alter(&self, shared: &Shared, alter: &AlterStream) -> Result<(), EngineError> {
        let Some(entry) = self.catalog.newest().altered(alter)? else { return Ok(()) };
        self.check_connection(&entry.create)?;
        Columns::of(&entry.create, &entry.found).map_err(EngineError::Columns)?;
        self.check_views(shared, alter, &entry)?;
        self.check_joins(alter, &entry)?;
        self.check_sinks(alter, &entry)?;
        self.check_endpoints_of(&entry.create)?;
        let Some(stored) = self.stored(&alter.name) else {
            return if entry.create.is_stored() {
                self.clear_name(shared, &alter.name).await
            } else {
                Ok(())
            };
        };
        if !entry.create.is_stored() {
            return Err(EngineError::StaysStored(alter.name.to_string()));
        }
        let table = stored.table().ok_or_else(|| {
            let why = stored.unopened().unwrap_or_default();
            EngineError::Table(format!("the table of stream `{}` is not open yet: {why}", alter.name))
        })?;
        let prepared = table.prepare(&table_spec(&entry.create, &entry.found)).await;
        prepared.map_err(|error| table_error(&error))
    }

    /// Applies a logged ALTER STREAM.
    async fn alter(self: &Arc<Self>, shared: &Shared, name: &StreamName) -> Result<(), EngineError> {
        let entry = self.catalog.newest().stream(name).cloned();
        let Some(entry) = entry else { return Ok(()) };
        let Some(stored) = self.stored(name) else {
            return match entry.create.is_stored() {
                true => self.open_stream(shared, &entry, None, self.config.recovered()),
                false => self.unstored.declare(&entry),
            };
        };
        let spec = table_spec(&entry.create, &entry.found);
        if let Some(table) = stored.table() {
            table.alter(&spec).await.map_err(|error| table_error(&error))?;
        }
        stored.declare(Declared::new(&entry)?);
        Ok(())
    }
}
