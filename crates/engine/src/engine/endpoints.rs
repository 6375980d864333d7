//! The calls of the façade for endpoints.

use std::sync::Arc;

use swiftwater_lang::ddl::EndpointName;

use super::Engine;
use crate::{
    Endpoint, EndpointAnswer, EndpointError, EndpointInput, EndpointLimits, EndpointRoute, EngineError,
    Numbered, Principal, Wanted,
};

impl Engine {
    /// The endpoint for a request of this method and path, without its query string.
    pub fn route(&self, method: &str, path: &str) -> EndpointRoute {
        match self.shared.history.get() {
            Some(history) => history.objects.endpoints.find(method, path),
            None => EndpointRoute::None,
        }
    }

    /// All endpoints, in the order of their paths.
    pub fn endpoints(&self, _principal: &Principal) -> Vec<Arc<Endpoint>> {
        self.shared.history.get().map(|history| history.objects.endpoints.all()).unwrap_or_default()
    }

    /// An endpoint of a name.
    pub fn endpoint(
        &self,
        _principal: &Principal,
        name: &EndpointName,
    ) -> Result<Arc<Endpoint>, EngineError> {
        self.history()?.endpoint(name)
    }

    /// Answers a request of an endpoint that returns rows; `wanted` is the position that its view must reach.
    pub async fn answer(
        &self,
        _principal: &Principal,
        endpoint: &Endpoint,
        input: &EndpointInput<'_>,
        wanted: Wanted,
    ) -> Result<EndpointAnswer, EndpointError> {
        self.history()?.answer(endpoint, input, wanted).await
    }

    /// Makes an event of a request of an endpoint that takes events in, and lets the stream take it; `numbered`: the number
    /// of the request, by which it is taken once.
    pub async fn accept_event(
        &self,
        _principal: &Principal,
        endpoint: &Endpoint,
        input: &EndpointInput<'_>,
        options: (Option<Numbered>, &EndpointLimits),
    ) -> Result<EndpointAnswer, EndpointError> {
        self.shared.accept_request(endpoint, input, options).await
    }
}
