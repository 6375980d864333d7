//! Statements over alerts, and the view that an alert owns for its query.

use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateAlert, CreateView, Ddl};

use crate::{
    Catalog, CatalogError, ObjectKind, WireError,
    kind::{
        alert::{AlertEntry, AlertSnapshot, AlertStart, OwnViewSnapshot, own_view},
        lookup_join::joined_by,
        stream::StreamEntry,
        view::ViewEntry,
    },
    statement::read,
};

impl Catalog {
    /// All alerts, by name.
    pub fn alerts(&self) -> impl ExactSizeIterator<Item = &AlertEntry> {
        self.alerts.values()
    }

    /// An alert of a name; an error if there is none.
    pub fn alert(&self, name: &str) -> Result<&AlertEntry, CatalogError> {
        self.alerts.get(name).ok_or_else(|| CatalogError::not_found(ObjectKind::Alert, name))
    }

    /// True if an alert would be created.
    pub fn check_alert(&self, create: &CreateAlert) -> Result<bool, CatalogError> {
        let is_new = self.clone().create_alert(create, &AlertStart::default(), 0)?;
        if is_new && let Some(watched) = self.stream_of_alert(create)? {
            self.check_no_way_round(create.streams(), &[watched.create.name.as_str()])?;
        }
        Ok(is_new)
    }

    /// The stream of an alert's view, whoever owns the view.
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
