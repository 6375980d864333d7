//! Streams: declared columns, whether events are stored, and the columns found in events.

use serde::{Deserialize, Serialize};
use swiftwater_event::{Millis, Type};
use swiftwater_lang::ddl::{COLUMNS_MAX, CreateStream, Ddl, OnBadEvent, column_name_fault};
use swiftwater_live::columns::InferredColumn;

use crate::{Object, ObjectKind, WireError, statement::read};

/// The stream that stores the bad events of the streams that ask for it.
pub const QUARANTINE: &str = "quarantine";

/// A stream that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEntry {
    /// Its number in the log; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration as it is now.
    pub create: CreateStream,
    /// Columns that were found in its events.
    pub found: Vec<InferredColumn>,
}

/// A stream within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamSnapshot {
    /// The number, as [`StreamEntry::id`].
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration.
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) found: Vec<(Box<str>, String)>,
    /// Its progress.
    #[serde(flatten)]
    pub numbers: StreamNumbers,
}

/// The progress of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamNumbers {
    /// Events before this place in the log are counted in what follows.
    pub position: u64,
    /// The offset of the stream's next event.
    pub next_offset: u64,
    /// The offset of the first event that was stored; none if there was none, or an older version took it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_from: Option<u64>,
    /// Its producers, the least recent one first, with their requests.
    #[serde(default)]
    pub producers: Vec<(Box<str>, Vec<ReceiptSnapshot>)>,
    /// Hashes of what they sent: producer, number, part, hash. Older versions have none, and read past them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hashes: Vec<(Box<str>, u64, u32, u64)>,
}

/// A request of a producer: number, parts, events, offset after them, place in the log after them.
pub type ReceiptSnapshot = (u64, u32, u64, u64, u64);

/// True if bad events of a declared stream are stored in [`QUARANTINE`].
pub fn wants_quarantine(create: &CreateStream) -> bool {
    create.options.on_bad_event == Some(OnBadEvent::Quarantine)
}

/// The columns of names and types as the log and snapshots have them.
pub(crate) fn found(columns: &[(Box<str>, String)]) -> Result<Vec<InferredColumn>, WireError> {
    let column = |(name, ty): &(Box<str>, String)| match Type::parse(ty) {
        Ok(ty) => Ok(InferredColumn { name: name.clone(), ty }),
        Err(error) => Err(WireError::statement(&format!("{name} {ty}"), error)),
    };
    // An earlier version found some columns that a table cannot have; they remain in the text of the events.
    let can_be = |(name, _): &&(Box<str>, String)| column_name_fault(name).is_none();
    columns.iter().filter(can_be).take(COLUMNS_MAX).map(column).collect()
}

impl StreamEntry {
    /// The stream as an object.
    pub fn object(&self) -> Object {
        ObjectKind::Stream.named(self.create.name.as_str())
    }

    /// Returns true if it needs a quarantine, as [`wants_quarantine`].
    pub fn wants_quarantine(&self) -> bool {
        wants_quarantine(&self.create)
    }

    pub(crate) fn snapshot(&self, numbers: StreamNumbers) -> StreamSnapshot {
        StreamSnapshot {
            id: self.id,
            created: self.created,
            text: Ddl::CreateStream(self.create.clone()).to_string(),
            found: self.found.iter().map(|column| (column.name.clone(), column.ty.to_string())).collect(),
            numbers,
        }
    }

    pub(crate) fn from_snapshot(snapshot: &StreamSnapshot) -> Result<StreamEntry, WireError> {
        let StreamSnapshot { id, created, text, found: columns, .. } = snapshot;
        let Ddl::CreateStream(create) = read(text)? else { return Err(WireError::unexpected(text)) };
        Ok(StreamEntry { id: *id, created: *created, create, found: found(columns)? })
    }
}
