//! Replaces the history in a binary built without it: an engine that stores nothing, and answers that report this.

use std::{ops::Deref, sync::Arc};

use axum::{Router, http::StatusCode, routing::any};
use swiftwater_event::{Clock, StreamName, Type};
use swiftwater_runtime::{
    Ack, Detached, EngineConfig, Principal, QueryId, Runtime, RuntimeError, SubmitOptions, Ticket,
    parts::Fleeting,
};

use crate::{engine::WITHOUT_HISTORY, problem::Problem, server::Shared};

/// A runtime, with the answers of an engine that stores nothing.
#[derive(Clone)]
pub struct Engine(Runtime);

impl Deref for Engine {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.0
    }
}

impl Engine {
    /// Starts a runtime as [`Runtime::start`] does.
    pub fn start(config: EngineConfig, clock: Arc<dyn Clock>) -> Engine {
        Engine(Runtime::start(config, clock))
    }

    pub(crate) fn ack(&self, _stream: &StreamName) -> Option<Ack> {
        None
    }

    pub(crate) fn quarantines(&self, _stream: &StreamName) -> bool {
        false
    }

    pub(crate) fn discards_events_of(&self, _stream: &StreamName) -> bool {
        false
    }

    pub(crate) fn is_of_cluster(&self, _stream: &StreamName) -> bool {
        false
    }

    pub(crate) fn declared_fields(&self, _stream: &StreamName) -> Vec<(Box<str>, Type)> {
        Vec::new()
    }

    pub(crate) fn not_ready(&self) -> Option<RuntimeError> {
        None
    }

    pub(crate) async fn ensure_stored(
        &self,
        _principal: &Principal,
        _stream: &StreamName,
    ) -> Result<(), RuntimeError> {
        Ok(())
    }

    pub(crate) async fn synced(&self, _ticket: Ticket) -> Result<(), RuntimeError> {
        Ok(())
    }

    pub(crate) async fn pin_joined(&self, _text: &str, _options: &SubmitOptions) -> Result<(), RuntimeError> {
        Ok(())
    }

    pub(crate) async fn ask_cluster(
        &self,
        _text: &str,
        _options: &mut SubmitOptions,
    ) -> Result<(), RuntimeError> {
        Ok(())
    }

    pub(crate) async fn check_receives(&self, _stream: &StreamName) -> Result<(), RuntimeError> {
        Ok(())
    }

    pub(crate) async fn other_node_of_query(&self, _id: &QueryId) -> Option<RuntimeError> {
        None
    }

    pub(crate) async fn submit_detached(
        &self,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Detached, RuntimeError> {
        self.0.submit_fleeting(principal, text, options, Fleeting::Unstored)
    }
}

/// The paths that need history, each answered with what to do.
pub(crate) fn routes(paths: &[&'static str]) -> Router<Arc<Shared>> {
    paths.iter().fold(Router::new(), |router, path| router.route(path, any(refuse)))
}

async fn refuse() -> Problem {
    Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "without-history",
        "This binary was built without history",
        WITHOUT_HISTORY,
    )
}
