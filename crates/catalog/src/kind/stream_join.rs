//! Joins of two streams: the two inputs, and the stream that receives the pairs.

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateJoin, Ddl};

use crate::{Object, ObjectKind, WireError, statement::read};

/// A join that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinEntry {
    /// Its number among what is kept as views are; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration.
    pub create: CreateJoin,
    /// It is of the events that stand in the log from this place on.
    pub from: u64,
}

/// A join within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinSnapshot {
    pub(crate) id: u32,
    pub(crate) created: Millis,
    pub(crate) text: String,
    pub(crate) from: u64,
}

impl JoinEntry {
    /// The join as an object.
    pub fn object(&self) -> Object {
        ObjectKind::StreamJoin.named(&*self.create.name)
    }

    pub(crate) fn snapshot(&self) -> JoinSnapshot {
        let text = Ddl::CreateJoin(self.create.clone()).to_string();
        JoinSnapshot { id: self.id, created: self.created, text, from: self.from }
    }

    pub(crate) fn from_snapshot(snapshot: &JoinSnapshot) -> Result<JoinEntry, WireError> {
        let Ddl::CreateJoin(create) = read(&snapshot.text)? else {
            return Err(WireError::unexpected(&snapshot.text));
        };
        Ok(JoinEntry { id: snapshot.id, created: snapshot.created, create, from: snapshot.from })
    }
}
