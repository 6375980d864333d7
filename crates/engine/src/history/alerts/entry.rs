//! Alerts in the catalog.

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::ddl::{AlertSource, CreateAlert, CreateView, Ddl, ViewOptions};
use swiftwater_live::Unfit;

use crate::{
    EngineError,
    history::{
        HistoryError,
        catalog::{Catalog, StreamEntry, ViewEntry, exists, joined_by, read, unexpected},
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
    /// It looks at windows that begin here or later; none: at all that close.
    pub(crate) from: Option<Millis>,
}

/// What an alert that is created begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct AlertStart {
    /// Its query is of the stream's events from this offset on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events_from: Option<u64>,
    /// As in [`AlertEntry`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Millis>,
}

/// An alert within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AlertSnapshot {
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
    /// The name of the view that it watches. One that it has for itself has a name that no statement can say.
    pub(crate) fn view(&self) -> Box<str> {
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
pub(super) fn own_view(create: &CreateAlert) -> Option<CreateView> {
    let query = create.query()?.into();
    let options = ViewOptions::default();
    Some(CreateView { name: view_of(create), if_not_exists: false, delete_when: None, options, query })
}

/// A fault of the query of an alert, and not of its condition.
pub(super) fn of_query(error: EngineError, query: &str) -> EngineError {
    match error {
        EngineError::Query(errors) => EngineError::Expression { text: query.into(), errors },
        EngineError::Unfit(Unfit::NoGroups) => EngineError::AlertOfEvents,
        error => error,
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

    /// Whether an alert would be created.
    pub(in crate::history) fn check_alert(&self, create: &CreateAlert) -> Result<bool, EngineError> {
        let is_new = self.clone().create_alert(create, &AlertStart::default(), 0)?;
        if is_new && let Some(watched) = self.stream_of_alert(create)? {
            self.check_no_way_round(create.streams(), &[watched.create.name.as_str()])?;
        }
        Ok(is_new)
    }

    /// The stream that an alert's view is of, whoever has that.
    pub(in crate::history) fn stream_of_alert(
        &self,
        create: &CreateAlert,
    ) -> Result<Option<&StreamEntry>, EngineError> {
        if let Some(view) = own_view(create) {
            let stream = self.stream_of_own_view(&view).map(Some);
            return stream.map_err(|error| of_query(error, &view.query));
        }
        let stream = self.view(create.view().unwrap_or_default())?.stream;
        Ok(self.streams().map(|(_, entry)| entry).find(|entry| entry.id == stream))
    }

    /// The stream that an alert's own view would be of.
    pub(in crate::history) fn stream_of_own_view(
        &self,
        create: &CreateView,
    ) -> Result<&StreamEntry, EngineError> {
        if let Some(joined) = joined_by(create).into_iter().next() {
            return Err(EngineError::AlertOnJoin(joined.into()));
        }
        match self.source_of_view(create)? {
            (stream, None) => Ok(stream),
            (_, Some(below)) => Err(EngineError::AlertOnViewQuery(below.create.name.to_string())),
        }
    }

    pub(in crate::history) fn create_alert(
        &mut self,
        create: &CreateAlert,
        start: &AlertStart,
        at: Millis,
    ) -> Result<bool, EngineError> {
        if self.alerts.contains_key(&create.name) {
            return exists("alert", &create.name, create.if_not_exists);
        }
        let watched = self.stream_of_alert(create)?;
        for name in create.streams() {
            let stream = StreamName::new(name).ok().and_then(|name| self.stream(&name));
            let stream = stream.ok_or_else(|| EngineError::NoStream(name.to_owned()))?;
            if !stream.create.is_stored() {
                return Err(EngineError::AlertIntoUnstored(name.to_owned()));
            }
            if watched.is_some_and(|watched| watched.id == stream.id) {
                let watched = create.view().map_or("the query".to_owned(), |view| format!("view `{view}`"));
                return Err(EngineError::AlertOnItself { watched, stream: name.to_owned() });
            }
        }
        let stream = watched.map(|stream| stream.id);
        if let (Some(view), Some(stream)) = (own_view(create), stream) {
            let owner = Some(create.name.clone());
            let (id, from) = (self.take_view_number(), start.events_from.unwrap_or(0));
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
        let entry = AlertEntry { id: self.take_view_number(), created: at, create, from: start.from };
        self.alerts.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    fn add_view(&mut self, entry: ViewEntry) {
        self.views.insert(entry.create.name.clone(), entry);
    }

    pub(in crate::history) fn drop_alert(
        &mut self,
        name: &str,
        if_exists: bool,
    ) -> Result<bool, EngineError> {
        match self.alerts.remove(name) {
            None if !if_exists => Err(EngineError::NoAlert(name.to_owned())),
            None => Ok(false),
            Some(entry) => {
                if entry.create.query().is_some() {
                    self.views.remove(&entry.view());
                }
                Ok(true)
            }
        }
    }

    /// An error where an alert watches a view of this name.
    pub(in crate::history) fn check_unwatched(&self, view: &str) -> Result<(), EngineError> {
        match self.alerts.values().find(|alert| alert.create.view() == Some(view)) {
            None => Ok(()),
            Some(alert) => {
                Err(EngineError::ViewHasAlert { view: view.to_owned(), alert: alert.create.name.to_string() })
            }
        }
    }

    /// An error where an alert tells a stream of this name.
    pub(in crate::history) fn check_untold(&self, stream: &str) -> Result<(), EngineError> {
        match self.alerts.values().find(|alert| alert.create.streams().any(|told| told == stream)) {
            None => Ok(()),
            Some(alert) => Err(EngineError::StreamHasAlert {
                stream: stream.to_owned(),
                alert: alert.create.name.to_string(),
            }),
        }
    }

    pub(in crate::history) fn snapshot_of_alert(&self, alert: &AlertEntry) -> AlertSnapshot {
        let text = Ddl::CreateAlert(alert.create.clone()).to_string();
        let own = self.views.get(&alert.view()).filter(|view| view.owner.is_some());
        let view = own.map(|view| OwnViewSnapshot { id: view.id, stream: view.stream, from: view.from });
        AlertSnapshot { id: alert.id, created: alert.created, text, from: alert.from, view }
    }

    /// Adds what a snapshot says of an alert.
    pub(in crate::history) fn add_alert(&mut self, snapshot: &AlertSnapshot) -> Result<(), HistoryError> {
        let AlertSnapshot { id, created, text, from, view } = snapshot;
        let Ddl::CreateAlert(create) = read(text)? else { return Err(unexpected(text)) };
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
