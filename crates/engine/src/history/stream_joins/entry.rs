//! Joins in the catalog.

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::ddl::{CreateJoin, CreateStream, Ddl};

use crate::{
    EngineError,
    history::{
        HistoryError,
        catalog::{Catalog, exists, read, unexpected},
    },
};

/// A join that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinEntry {
    /// Its number among what is kept as views are; never given to another.
    pub(crate) id: u32,
    /// When it was created.
    pub(crate) created: Millis,
    /// Its declaration.
    pub(crate) create: CreateJoin,
    /// It is of the events that stand in the log from this place on.
    pub(crate) from: u64,
}

/// A join within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JoinSnapshot {
    id: u32,
    created: Millis,
    text: String,
    from: u64,
}

impl JoinEntry {
    pub(crate) fn snapshot(&self) -> JoinSnapshot {
        let text = Ddl::CreateJoin(self.create.clone()).to_string();
        JoinSnapshot { id: self.id, created: self.created, text, from: self.from }
    }

    pub(crate) fn from_snapshot(snapshot: &JoinSnapshot) -> Result<JoinEntry, HistoryError> {
        let Ddl::CreateJoin(create) = read(&snapshot.text)? else { return Err(unexpected(&snapshot.text)) };
        Ok(JoinEntry { id: snapshot.id, created: snapshot.created, create, from: snapshot.from })
    }
}

impl Catalog {
    /// All joins, by name.
    pub(crate) fn joins(&self) -> impl ExactSizeIterator<Item = &JoinEntry> {
        self.joins.values()
    }

    /// A join of a name; an error if there is none.
    pub(crate) fn join(&self, name: &str) -> Result<&JoinEntry, EngineError> {
        self.joins.get(name).ok_or_else(|| EngineError::NoJoin(name.to_owned()))
    }

    /// As [`Catalog::check`], of a join: whether it would change anything.
    pub(in crate::history) fn check_join(&self, create: &CreateJoin) -> Result<bool, EngineError> {
        let is_new = self.clone().create_join(create, 0, 0)?;
        if is_new {
            let sides = create.sides.each_ref().map(StreamName::as_str);
            self.check_no_way_round([create.target.as_str()], &sides)?;
        }
        Ok(is_new)
    }

    pub(in crate::history) fn create_join(
        &mut self,
        create: &CreateJoin,
        from: u64,
        at: Millis,
    ) -> Result<bool, EngineError> {
        if self.joins.contains_key(&create.name) {
            return exists("join", &create.name, create.if_not_exists);
        }
        for name in create.sides.iter().chain([&create.target]) {
            self.stored_stream(name)?;
        }
        if create.sides.contains(&create.target) {
            return Err(EngineError::JoinOfItself(create.target.to_string()));
        }
        let create = CreateJoin { if_not_exists: false, ..create.clone() };
        let entry = JoinEntry { id: self.take_view_number(), created: at, create, from };
        self.joins.insert(entry.create.name.clone(), entry);
        Ok(true)
    }

    fn stored_stream(&self, name: &StreamName) -> Result<&CreateStream, EngineError> {
        let entry = self.stream(name).ok_or_else(|| EngineError::NoStream(name.to_string()))?;
        if entry.create.is_stored() {
            Ok(&entry.create)
        } else {
            Err(EngineError::JoinOfUnstored(name.to_string()))
        }
    }

    /// What the two streams of a join are declared as.
    pub(in crate::history) fn sides_of(
        &self,
        create: &CreateJoin,
    ) -> Result<[&CreateStream; 2], EngineError> {
        Ok([self.stored_stream(&create.sides[0])?, self.stored_stream(&create.sides[1])?])
    }

    pub(in crate::history) fn drop_join(&mut self, name: &str, if_exists: bool) -> Result<bool, EngineError> {
        match self.joins.remove(name) {
            None if !if_exists => Err(EngineError::NoJoin(name.to_owned())),
            removed => Ok(removed.is_some()),
        }
    }

    /// An error where a join is of a stream of this name, or writes into it.
    pub(in crate::history) fn check_streams_unjoined(&self, stream: &StreamName) -> Result<(), EngineError> {
        let has_it = |join: &&JoinEntry| join.create.target == *stream || join.create.sides.contains(stream);
        match self.joins.values().find(has_it) {
            None => Ok(()),
            Some(join) => Err(EngineError::StreamHasJoin {
                stream: stream.to_string(),
                join: join.create.name.to_string(),
            }),
        }
    }
}
