//! The calls of the façade for views and sinks.

use swiftwater_event::StreamName;
use swiftwater_live::Row;

use super::Engine;
use crate::{
    EngineError, KeyValue, Principal, SinkStatus, ViewChanges, ViewPage, ViewRange, ViewReading, ViewStatus,
    Wanted,
};

impl Engine {
    /// All views, by name.
    pub fn views(&self, _principal: &Principal) -> Vec<ViewStatus> {
        let views = self.shared.history.get().map(|history| history.named_views()).unwrap_or_default();
        views.iter().map(|view| view.status()).collect()
    }

    /// One view.
    pub fn view(&self, _principal: &Principal, name: &str) -> Result<ViewStatus, EngineError> {
        Ok(self.history()?.view(name)?.status())
    }

    /// The stream that a view is of.
    pub fn stream_of_view(&self, _principal: &Principal, name: &str) -> Result<StreamName, EngineError> {
        Ok(self.history()?.view(name)?.stream.clone())
    }

    /// The row of a key of a view, and how far the view is at least; no row where no event has that key, or HAVING leaves it
    /// out. Costs a look into memory, or into the view's files.
    pub async fn view_row(
        &self,
        _principal: &Principal,
        name: &str,
        key: &[KeyValue],
        wanted: Wanted,
    ) -> Result<(Option<Row>, ViewReading), EngineError> {
        self.history()?.view_row(name, key, wanted).await
    }

    /// Rows of a view in the order of their keys, all as at one position.
    pub async fn view_rows(
        &self,
        _principal: &Principal,
        name: &str,
        range: &ViewRange,
        wanted: Wanted,
    ) -> Result<ViewPage, EngineError> {
        self.history()?.view_rows(name, range, wanted).await
    }

    /// The changes of a view after a position, or from now on. A position that the log has not come to is refused: it is of another
    /// stream, or of one that was restored since, and its changes might never come.
    pub async fn view_changes(
        &self,
        _principal: &Principal,
        name: &str,
        from: Option<u64>,
    ) -> Result<ViewChanges, EngineError> {
        self.history()?.view_changes(name, from).await
    }

    /// All sinks, by name.
    pub fn sinks(&self, _principal: &Principal) -> Vec<SinkStatus> {
        self.shared.history.get().map(|history| history.sink_statuses()).unwrap_or_default()
    }
}
