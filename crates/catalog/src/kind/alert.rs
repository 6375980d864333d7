//! Alerts: the view that each watches, the view that one owns for its query, and its target.

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{AlertSource, CreateAlert, CreateView, Ddl, ViewOptions};

use super::lookup_join::joined_by;
use crate::{
    Catalog, CatalogError, Object, ObjectKind, WireError,
    catalog::read,
    kind::{stream::StreamEntry, view::ViewEntry},
};

/// An alert that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertEntry {
    /// Its number among views and alerts, whose states are kept side by side; never given to another.
    pub id: u32,
    /// When it was created.
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
    /// As in [`AlertEntry`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Millis>,
}

/// An alert within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AlertSnapshot {
    id: u32,
    created: Millis,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Millis>,
    /// The view of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<OwnViewSnapshot>,
}

/// The view of an alert's query within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OwnViewSnapshot {
    id: u32,
    stream: u32,
    from: u64,
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

impl Catalog {
    /// All alerts, by name.
    pub fn alerts(&self) -> impl ExactSizeIterator<Item = &AlertEntry> {
        self.alerts.values()
    }

    /// An alert of a name; an error if there is none.
    pub fn alert(&self, name: &str) -> Result<&AlertEntry, CatalogError> {
        self.alerts.get(name).ok_or_else(|| CatalogError::not_found(ObjectKind::Alert, name))
    }

    /// Whether an alert would be created.
    pub fn check_alert(&self, create: &CreateAlert) -> Result<bool, CatalogError> {
        let is_new = self.clone().create_alert(create, &AlertStart::default(), 0)?;
        if is_new && let Some(watched) = self.stream_of_alert(create)? {
            self.check_no_way_round(create.streams(), &[watched.create.name.as_str()])?;
        }
        Ok(is_new)
    }

    /// The stream that an alert's view is of, whoever has that.
    pub fn stream_of_alert(&self, create: &CreateAlert) -> Result<Option<&StreamEntry>, CatalogError> {
        if let Some(view) = own_view(create) {
            let stream = self.stream_of_own_view(&view).map(Some);
            return stream.map_err(|error| match error {
                CatalogError::Query(errors) => CatalogError::AlertQuery { text: view.query, errors },
                error => error,
            });
        }
        let stream = self.view(create.view().unwrap_or_default())?.stream;
        Ok(self.streams().map(|(_, entry)| entry).find(|entry| entry.id == stream))
    }

    /// The stream that an alert's own view would be of.
    pub fn stream_of_own_view(&self, create: &CreateView) -> Result<&StreamEntry, CatalogError> {
        if let Some(joined) = joined_by(create).into_iter().next() {
            return Err(CatalogError::AlertOnJoin(joined.into()));
        }
        match self.source_of_view(create)? {
            (stream, None) => Ok(stream),
            (_, Some(below)) => Err(CatalogError::AlertOnViewQuery(below.create.name.to_string())),
        }
    }

    pub(crate) fn create_alert(
        &mut self,
        create: &CreateAlert,
        start: &AlertStart,
        at: Millis,
    ) -> Result<bool, CatalogError> {
        if self.alerts.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::Alert, &create.name);
        }
        let watched = self.stream_of_alert(create)?;
        for name in create.streams() {
            let stream = self.known_stored_stream(name, ObjectKind::Alert)?;
            if watched.is_some_and(|watched| watched.id == stream.id) {
                let watched = create.view().map_or("the query".to_owned(), |view| format!("view `{view}`"));
                return Err(CatalogError::AlertOnItself { watched, stream: name.to_owned() });
            }
        }
        let stream = watched.map(|stream| stream.id);
        if let (Some(view), Some(stream)) = (own_view(create), stream) {
            let owner = Some(create.name.clone());
            let (id, from) = (self.allocate_view_id(), start.events_from.unwrap_or(0));
            self.add_view(ViewEntry {
                id,
                created: at,
                create: view,
                stream,
                of: None,
                from,
                owner,
                joined: Vec::new(),
                tables: Vec::new(),
            });
        }
        let create = CreateAlert { if_not_exists: false, ..create.clone() };
        let entry = AlertEntry { id: self.allocate_view_id(), created: at, create, from: start.from };
        self.alerts.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    pub(crate) fn drop_alert(&mut self, name: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.alerts.remove(name) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::Alert, name)),
            None => Ok(false),
            Some(_) => {
                self.views.retain(|_, view| view.owner.as_deref() != Some(name));
                Ok(true)
            }
        }
    }

    pub(crate) fn snapshot_of_alert(&self, alert: &AlertEntry) -> AlertSnapshot {
        let text = Ddl::CreateAlert(alert.create.clone()).to_string();
        let own = self.views.get(&alert.view()).filter(|view| view.owner.is_some());
        let view = own.map(|view| OwnViewSnapshot { id: view.id, stream: view.stream, from: view.from });
        AlertSnapshot { id: alert.id, created: alert.created, text, from: alert.from, view }
    }

    /// Adds what a snapshot says of an alert.
    pub(crate) fn add_alert(&mut self, snapshot: &AlertSnapshot) -> Result<(), WireError> {
        let AlertSnapshot { id, created, text, from, view } = snapshot;
        let Ddl::CreateAlert(create) = read(text)? else { return Err(WireError::unexpected(text)) };
        if let (Some(OwnViewSnapshot { id, stream, from }), Some(own)) = (view, own_view(&create)) {
            let owner = Some(create.name.clone());
            let (id, stream, from) = (*id, *stream, *from);
            self.add_view(ViewEntry {
                id,
                created: *created,
                create: own,
                stream,
                of: None,
                from,
                owner,
                joined: Vec::new(),
                tables: Vec::new(),
            });
        }
        let entry = AlertEntry { id: *id, created: *created, create, from: *from };
        self.alerts.insert(entry.create.name.clone(), entry);
        Ok(())
    }
}
