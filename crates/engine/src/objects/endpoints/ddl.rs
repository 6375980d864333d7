//! CREATE ENDPOINT and DROP ENDPOINT, and which endpoints answer requests after a change of the catalog.

use std::sync::Arc;

use swiftwater_catalog::kind::endpoint::EndpointEntry;
use swiftwater_event::StreamName;
use swiftwater_lang::ddl::{CreateEndpoint, CreateStream, Ddl};

use super::{Endpoint, compile::with_counts_of};
use crate::{
    EngineError,
    ddl::{Context, LoggedAsWritten, Planned, Statement, check_room},
    durable::history::History,
};

impl Statement for CreateEndpoint {
    type Prepared = ();

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<()>>, EngineError> {
        let catalog = history.catalog.newest();
        if catalog.endpoints().get(&self.name).is_err() {
            let endpoints = catalog.endpoints().len();
            let limit = history.config.endpoints_max;
            check_room("number of endpoints", "endpoints.endpoints_max", endpoints, limit)?;
            history.compiled(&EndpointEntry { id: 0, created: 0, create: self.clone() })?;
        }
        history.plan(ddl, ())
    }

    async fn apply_effect(&self, Context { history, .. }: Context<'_>, (): ()) -> Result<(), EngineError> {
        history.set_endpoints(None);
        Ok(())
    }
}

/// `DROP ENDPOINT`.
pub(crate) struct DropEndpoint;

impl LoggedAsWritten for DropEndpoint {
    async fn apply_effect(&self, Context { history, .. }: Context<'_>) -> Result<(), EngineError> {
        history.set_endpoints(None);
        Ok(())
    }
}

impl History {
    /// Compiles an endpoint that is in the catalog, or is to be.
    fn compiled(&self, entry: &EndpointEntry) -> Result<Endpoint, EngineError> {
        let stream = entry.create.stream();
        let stream = stream.and_then(|name| {
            self.with_catalog(|catalog| catalog.stream(name).map(|entry| entry.create.clone()))
        });
        let view = entry.create.view().map(|name| self.view(name)).transpose()?;
        Endpoint::new(entry, stream.as_ref(), view.as_deref())
    }

    /// Replaces the table of routes by that of the catalog; unchanged endpoints stay, but for those of `changed`.
    pub(crate) fn set_endpoints(&self, changed: Option<&StreamName>) {
        let entries: Vec<EndpointEntry> =
            self.with_catalog(|catalog| catalog.endpoints().iter().cloned().collect());
        let before = self.objects.endpoints.all();
        let endpoint = |entry: &EndpointEntry| {
            let known = before.iter().find(|known| known.id == entry.id);
            if let Some(known) = known
                && (changed.is_none() || known.create.stream() != changed)
            {
                return Arc::clone(known);
            }
            let compiled = self.compiled(entry).unwrap_or_else(|error| {
                tracing::error!(endpoint = %entry.create.name, %error, "an endpoint cannot be compiled");
                Endpoint::new_broken(entry, error.to_string())
            });
            match known {
                Some(known) => with_counts_of(compiled, known),
                None => Arc::new(compiled),
            }
        };
        self.objects.endpoints.set(entries.iter().map(endpoint).collect());
    }

    /// Fails if an endpoint of a stream cannot continue when the stream is altered.
    pub(crate) fn check_endpoints_of(&self, altered: &CreateStream) -> Result<(), EngineError> {
        let is_of_it = |entry: &&EndpointEntry| entry.create.stream() == Some(&altered.name);
        let entries: Vec<EndpointEntry> =
            self.with_catalog(|catalog| catalog.endpoints().iter().filter(is_of_it).cloned().collect());
        entries.iter().try_for_each(|entry| Endpoint::new(entry, Some(altered), None).map(|_| ()))
    }
}
