//! Alerts in the catalog.

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateAlert, Ddl};

use crate::{
    EngineError,
    history::{
        HistoryError,
        catalog::{Catalog, exists, read, unexpected},
    },
};

/// An alert that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertEntry {
    /// Its number among views and alerts, whose states are kept side by side; never given to another.
    pub(crate) id: u32,
    /// When it was created.
    pub(crate) created: Millis,
    /// Its declaration.
    pub(crate) create: CreateAlert,
}

/// An alert within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AlertSnapshot {
    id: u32,
    created: Millis,
    text: String,
}

impl AlertEntry {
    pub(crate) fn snapshot(&self) -> AlertSnapshot {
        let text = Ddl::CreateAlert(self.create.clone()).to_string();
        AlertSnapshot { id: self.id, created: self.created, text }
    }

    pub(crate) fn from_snapshot(snapshot: &AlertSnapshot) -> Result<AlertEntry, HistoryError> {
        let Ddl::CreateAlert(create) = read(&snapshot.text)? else { return Err(unexpected(&snapshot.text)) };
        Ok(AlertEntry { id: snapshot.id, created: snapshot.created, create })
    }
}

impl Catalog {
    /// All alerts, by name.
    pub(crate) fn alerts(&self) -> impl ExactSizeIterator<Item = &AlertEntry> {
        self.alerts.values()
    }

    /// An alert of a name; an error if there is none.
    pub(crate) fn alert(&self, name: &str) -> Result<&AlertEntry, EngineError> {
        self.alerts.get(name).ok_or_else(|| EngineError::NoAlert(name.to_owned()))
    }

    pub(in crate::history) fn create_alert(
        &mut self,
        create: &CreateAlert,
        at: Millis,
    ) -> Result<bool, EngineError> {
        if self.alerts.contains_key(&create.name) {
            return exists("alert", &create.name, create.if_not_exists);
        }
        let view = self.view(&create.view)?;
        let name = create.stream.to_string();
        let Some(stream) = self.stream(&create.stream) else { return Err(EngineError::NoStream(name)) };
        if !stream.create.is_stored() {
            return Err(EngineError::AlertIntoUnstored(name));
        }
        if view.stream == stream.id {
            return Err(EngineError::AlertOnItself { view: create.view.to_string(), stream: name });
        }
        let create = CreateAlert { if_not_exists: false, ..create.clone() };
        let entry = AlertEntry { id: self.take_view_number(), created: at, create };
        self.alerts.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    pub(in crate::history) fn drop_alert(
        &mut self,
        name: &str,
        if_exists: bool,
    ) -> Result<bool, EngineError> {
        match self.alerts.remove(name) {
            None if !if_exists => Err(EngineError::NoAlert(name.to_owned())),
            removed => Ok(removed.is_some()),
        }
    }

    /// An error where an alert watches a view of this name.
    pub(in crate::history) fn check_unwatched(&self, view: &str) -> Result<(), EngineError> {
        match self.alerts.values().find(|alert| &*alert.create.view == view) {
            None => Ok(()),
            Some(alert) => {
                Err(EngineError::ViewHasAlert { view: view.to_owned(), alert: alert.create.name.to_string() })
            }
        }
    }

    /// An error where an alert tells a stream of this name.
    pub(in crate::history) fn check_untold(&self, stream: &str) -> Result<(), EngineError> {
        match self.alerts.values().find(|alert| alert.create.stream.as_str() == stream) {
            None => Ok(()),
            Some(alert) => Err(EngineError::StreamHasAlert {
                stream: stream.to_owned(),
                alert: alert.create.name.to_string(),
            }),
        }
    }
}
