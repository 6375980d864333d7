//! Statements over endpoints.

use swiftwater_event::Millis;
use swiftwater_lang::ddl::CreateEndpoint;

use crate::{Catalog, CatalogError};

impl Catalog {
    /// Checks that the objects that a new endpoint names exist.
    pub(crate) fn create_endpoint(
        &mut self,
        create: &CreateEndpoint,
        at: Millis,
    ) -> Result<bool, CatalogError> {
        if self.endpoints.get(&create.name).is_err() {
            if let Some(stream) = create.stream() {
                self.known_stream(stream.as_str())?;
            }
            if let Some(view) = create.view() {
                self.view(view)?;
            }
        }
        self.endpoints.create(create, at)
    }
}
