//! Statements over joins of two streams.

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::ddl::{CreateJoin, CreateStream};

use crate::{Catalog, CatalogError, ObjectKind, kind::stream_join::JoinEntry};

impl Catalog {
    /// All joins, by name.
    pub fn joins(&self) -> impl ExactSizeIterator<Item = &JoinEntry> {
        self.joins.values()
    }

    /// A join of a name; an error if there is none.
    pub fn join(&self, name: &str) -> Result<&JoinEntry, CatalogError> {
        self.joins.get(name).ok_or_else(|| CatalogError::not_found(ObjectKind::StreamJoin, name))
    }

    /// Checks a join as [`Catalog::check`] does; returns true if it would change anything.
    pub fn check_join(&self, create: &CreateJoin) -> Result<bool, CatalogError> {
        let is_new = self.clone().create_join(create, 0, 0)?;
        if is_new {
            let sides = create.sides.each_ref().map(StreamName::as_str);
            self.check_no_way_round([create.target.as_str()], &sides)?;
        }
        Ok(is_new)
    }

    pub(crate) fn create_join(
        &mut self,
        create: &CreateJoin,
        from: u64,
        at: Millis,
    ) -> Result<bool, CatalogError> {
        if self.joins.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::StreamJoin, &create.name);
        }
        for name in create.sides.iter().chain([&create.target]) {
            self.known_stored_stream(name.as_str(), ObjectKind::StreamJoin)?;
        }
        if create.sides.contains(&create.target) {
            return Err(CatalogError::JoinOfItself(create.target.to_string()));
        }
        let create = CreateJoin { if_not_exists: false, ..create.clone() };
        let entry = JoinEntry { id: self.allocate_view_id(), created: at, create, from };
        self.joins.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    /// The declarations of the two streams of a join.
    pub fn sides_of(&self, create: &CreateJoin) -> Result<[&CreateStream; 2], CatalogError> {
        let side = |name: &StreamName| {
            let entry = self.known_stored_stream(name.as_str(), ObjectKind::StreamJoin)?;
            Ok::<_, CatalogError>(&entry.create)
        };
        Ok([side(&create.sides[0])?, side(&create.sides[1])?])
    }

    pub(crate) fn drop_join(&mut self, name: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.joins.remove(name) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::StreamJoin, name)),
            removed => Ok(removed.is_some()),
        }
    }
}
