//! Alerts: the view that each watches, the view that one owns for its query, and its target.

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{AlertSource, CreateAlert, CreateView, ViewOptions};

use crate::{Object, ObjectKind};

/// An alert that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertEntry {
    /// Its number among views and alerts, whose states are kept side by side; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration.
    pub create: CreateAlert,
    /// It looks at windows that begin here or later; none: at all that close.
    pub from: Option<Millis>,
}

/// The initial state of a new alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AlertStart {
    /// Its query is of the stream's events from this offset on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_from: Option<u64>,
    /// The start, as in [`AlertEntry`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Millis>,
}

/// An alert within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AlertSnapshot {
    pub(crate) id: u32,
    pub(crate) created: Millis,
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Millis>,
    /// The view of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) view: Option<OwnViewSnapshot>,
}

/// The view of an alert's query within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OwnViewSnapshot {
    pub(crate) id: u32,
    pub(crate) stream: u32,
    pub(crate) from: u64,
}

impl AlertEntry {
    /// The alert as an object.
    pub fn object(&self) -> Object {
        ObjectKind::Alert.named(&*self.create.name)
    }

    /// The name of the view that it watches. One that it has for itself has a name that no statement can say.
    pub fn view(&self) -> Box<str> {
        view_of(&self.create)
    }
}

fn view_of(create: &CreateAlert) -> Box<str> {
    match &create.source {
        AlertSource::View(name) => name.clone(),
        AlertSource::Query(_) => format!("alert {}", create.name).into(),
    }
}

/// The view that keeps the query of an alert, if it has one.
pub fn own_view(create: &CreateAlert) -> Option<CreateView> {
    let query = create.query()?.into();
    let options = ViewOptions::default();
    Some(CreateView { name: view_of(create), if_not_exists: false, delete_when: None, options, query })
}
