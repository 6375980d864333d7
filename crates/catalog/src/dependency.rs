//! The dependencies between objects: one edge for each object that another needs, and the role in which it needs it.
//!
//! An object that others depend on cannot be dropped; the error names one of those, and what to drop first. The view that an
//! alert owns for its query is dropped with the alert, and a search index with its stream or table.

mod edge;

pub use self::edge::{Dependency, Role};
use crate::{Catalog, CatalogError, Object, ObjectKind, kind::stream::QUARANTINE};

impl Catalog {
    /// All dependencies, except for columns, which a statement that alters a stream looks for by itself.
    pub fn dependencies(&self) -> Vec<Dependency> {
        let mut found = Vec::new();
        let mut add = |role, dependent: &Object, on: Object| {
            found.push(Dependency::new(role, dependent.clone(), on));
        };
        for (name, entry) in self.streams() {
            if entry.wants_quarantine() && name.as_str() != QUARANTINE {
                add(Role::DeadLetter, &entry.object(), ObjectKind::Stream.named(QUARANTINE));
            }
        }
        for view in self.views() {
            // A view that an alert owns is dropped with the alert, and is named as the alert.
            let dependent =
                view.owner.as_ref().map_or(view.object(), |alert| ObjectKind::Alert.named(&**alert));
            if let Some(stream) = self.stream_of_number(view.stream) {
                add(Role::Source, &dependent, stream.object());
            }
            if let Some(below) = self.below(view) {
                add(Role::Source, &dependent, below.object());
            }
            for joined in &view.joined {
                add(Role::Lookup, &dependent, self.joined_object(joined));
            }
        }
        for alert in self.alerts() {
            let object = alert.object();
            if let Some(view) = alert.create.view() {
                add(Role::Watches, &object, ObjectKind::View.named(view));
            }
            alert
                .create
                .streams()
                .for_each(|name| add(Role::Target, &object, ObjectKind::Stream.named(name)));
        }
        for join in self.joins() {
            let object = join.object();
            for side in &join.create.sides {
                add(Role::Source, &object, ObjectKind::Stream.named(side.as_str()));
            }
            add(Role::Target, &object, ObjectKind::Stream.named(join.create.target.as_str()));
        }
        for sink in self.sinks().all() {
            let object = sink.object();
            let view = sink.create.view().map(|view| ObjectKind::View.named(view));
            let stream = sink.create.query().map(|query| ObjectKind::Stream.named(query.stream.as_str()));
            view.into_iter().chain(stream).for_each(|source| add(Role::Source, &object, source));
            sink.create.streams().for_each(|name| add(Role::Target, &object, ObjectKind::Stream.named(name)));
            if let Some(table) = sink.create.table() {
                add(Role::Target, &object, ObjectKind::Table.named(table));
            }
        }
        for endpoint in self.endpoints().iter() {
            let object = endpoint.object();
            if let Some(view) = endpoint.create.view() {
                add(Role::Source, &object, ObjectKind::View.named(view));
            }
            if let Some(stream) = endpoint.create.stream() {
                add(Role::Target, &object, ObjectKind::Stream.named(stream.as_str()));
            }
        }
        found
    }

    /// An error where another object depends on this one, which names it.
    pub fn check_unused(&self, object: &Object) -> Result<(), CatalogError> {
        let dependencies = self.dependencies().into_iter();
        let of_others =
            dependencies.filter(|dependency| dependency.on == *object && dependency.dependent != *object);
        of_others.min().map_or(Ok(()), |dependency| Err(CatalogError::InUse(dependency)))
    }

    /// The object that the events of a view are joined with is a view, or a table.
    fn joined_object(&self, name: &str) -> Object {
        if self.has_view(name) { ObjectKind::View.named(name) } else { ObjectKind::Table.named(name) }
    }
}

#[cfg(test)]
mod tests;
