//! Sinks: their declarations, and how far each has delivered.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateSink, SinkTarget};
use swiftwater_live::Key;

use crate::{CatalogError, Object, ObjectKind};

/// All sinks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sinks {
    next: u32,
    sinks: BTreeMap<Box<str>, SinkEntry>,
}

/// A sink that was created.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkEntry {
    /// Its number; never given to another.
    pub id: u32,
    /// Time of its creation.
    pub created: Millis,
    /// Its declaration.
    pub create: CreateSink,
    /// The view that it is of, by number, if it is of one.
    pub view: Option<u32>,
    /// It delivers windows that begin here or later; none: all that close.
    pub from: Option<Millis>,
    /// Its progress.
    pub delivered: Delivered,
}

/// The initial progress of a new sink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SinkStart {
    /// The view, by number, if it is of one.
    pub view: Option<u32>,
    /// It delivers windows that begin here or later; none: all that close.
    pub from: Option<Millis>,
    /// The place behind which it delivers changes or events, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The progress of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Delivered {
    /// Deliveries so far: the next one has this number.
    pub count: u64,
    /// Rows in them.
    pub rows: u64,
    /// The rows among them that went to the dead-letter stream.
    #[serde(default)]
    pub dead: u64,
    /// The last key, of changes the last place, of events the offset after them, as hexadecimal digits; none before the first.
    #[serde(default)]
    pub key: Option<String>,
    /// The length of the file, if the target is one.
    #[serde(default)]
    pub bytes: u64,
    /// The offsets before which the next deliveries end, of a sink of events. Such a delivery has the same events whenever it is made, and
    /// counts even if none of its events is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<u64>,
    /// The number of events that were deleted before they were read, of a sink of events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

/// All sinks within a snapshot of the catalog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SinksSnapshot {
    next: u32,
    sinks: Vec<SinkSnapshot>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SinkSnapshot {
    id: u32,
    created: Millis,
    text: String,
    view: Option<u32>,
    from: Option<Millis>,
    delivered: Delivered,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde has it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The place of an offset among a stream's events.
pub fn place_of_offset(offset: u64) -> [u8; 8] {
    offset.to_be_bytes()
}

impl Delivered {
    /// The last key.
    pub fn last_key(&self) -> Option<Vec<u8>> {
        let digits = self.key.as_ref()?;
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.as_bytes().chunks(2).map(byte).collect()
    }

    /// The offset of the first event that was not delivered, of a sink of events.
    pub fn offset(&self) -> u64 {
        let place = self.last_key().and_then(|place| <[u8; 8]>::try_from(place).ok());
        place.map_or(0, u64::from_be_bytes)
    }

    /// Continues after a key without a delivery.
    pub fn pass(&mut self, key: &[u8]) {
        self.key = Some(digits(key));
        self.drop_done();
    }

    /// The state after another delivery.
    pub fn after(&self, rows: u64, dead: u64, key: &[u8], bytes: u64) -> Delivered {
        let mut after = Delivered {
            count: self.count + 1,
            rows: self.rows + rows,
            dead: self.dead + dead,
            key: Some(digits(key)),
            bytes,
            planned: self.planned.clone(),
            lost: self.lost,
        };
        after.drop_done();
        after
    }

    /// Drops the planned deliveries that were made.
    fn drop_done(&mut self) {
        if !self.planned.is_empty() {
            let offset = self.offset();
            self.planned.retain(|end| *end > offset);
        }
    }
}

impl SinkEntry {
    /// The sink as an object.
    pub fn object(&self) -> Object {
        ObjectKind::Sink.named(&*self.create.name)
    }

    /// Start of the first window that it may read again once its progress is recorded: the one from which it delivered last.
    /// None: it may read all.
    pub fn first_needed(&self) -> Option<Millis> {
        let last = self.delivered.last_key();
        last.as_deref().and_then(Key::window_of_ordered).or(self.from)
    }
}

/// Bytes as hexadecimal digits.
pub fn digits(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path of a file without `./` and double `/`.
fn file_names(path: &str) -> impl Iterator<Item = Component<'_>> {
    Path::new(path).components().filter(|part| *part != Component::CurDir)
}

impl Sinks {
    /// All, by name.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &SinkEntry> {
        self.sinks.values()
    }

    /// The sink of a name; an error if there is none.
    pub fn get(&self, name: &str) -> Result<&SinkEntry, CatalogError> {
        self.sinks.get(name).ok_or_else(|| CatalogError::not_found(ObjectKind::Sink, name))
    }

    /// Creates a sink; returns true if that changed anything.
    pub fn create(
        &mut self,
        create: &CreateSink,
        SinkStart { view, from, after }: SinkStart,
        at: Millis,
    ) -> Result<bool, CatalogError> {
        if self.sinks.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::Sink, &create.name);
        }
        let create = CreateSink { if_not_exists: false, ..create.clone() };
        let name = create.name.clone();
        let delivered = Delivered { key: after, ..Delivered::default() };
        let sink = SinkEntry { id: self.next, created: at, create, view, from, delivered };
        self.next += 1;
        self.sinks.insert(name, sink);
        Ok(true)
    }

    /// An error where a sink writes the same file, however its path is written.
    pub fn check_file(&self, create: &CreateSink) -> Result<(), CatalogError> {
        let SinkTarget::File(path) = &create.target else { return Ok(()) };
        let is_same = |sink: &&SinkEntry| match &sink.create.target {
            SinkTarget::File(other) => file_names(other).eq(file_names(path)),
            _ => false,
        };
        match self.sinks.values().find(is_same) {
            None => Ok(()),
            Some(other) => {
                let (sink, path) = (other.create.name.to_string(), path.to_string());
                Err(CatalogError::SinkFileTaken { sink, path })
            }
        }
    }

    pub(crate) fn drop(&mut self, name: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.sinks.remove(name) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::Sink, name)),
            removed => Ok(removed.is_some()),
        }
    }

    /// Records a delivery; without effect if the sink was dropped.
    pub(crate) fn deliver(&mut self, id: u32, delivered: &Delivered) {
        if let Some(sink) = self.sinks.values_mut().find(|sink| sink.id == id) {
            sink.delivered = delivered.clone();
        }
    }

    /// The place up to which all sinks of a view's changes have them; none without such a sink.
    pub fn changes_done(&self, view: u32) -> Option<Vec<u8>> {
        let of_changes =
            self.sinks.values().filter(|sink| sink.view == Some(view) && sink.create.is_of_changes());
        of_changes.map(|sink| sink.delivered.last_key().unwrap_or_default()).min()
    }

    /// The sinks of the events of a stream.
    pub fn of_events<'s>(&'s self, stream: &str) -> impl Iterator<Item = &'s SinkEntry> + use<'s> {
        let stream: Box<str> = stream.into();
        let is_of = move |sink: &&SinkEntry| {
            sink.create.query().is_some_and(|query| query.stream.as_str() == &*stream)
        };
        self.sinks.values().filter(is_of)
    }

    /// The number that the next sink gets.
    pub fn next_id(&self) -> u32 {
        self.next
    }

    pub(crate) fn snapshot(&self) -> SinksSnapshot {
        let snapshot = |sink: &SinkEntry| SinkSnapshot {
            id: sink.id,
            created: sink.created,
            text: sink.create.to_string(),
            view: sink.view,
            from: sink.from,
            delivered: sink.delivered.clone(),
        };
        SinksSnapshot { next: self.next, sinks: self.sinks.values().map(snapshot).collect() }
    }

    /// `read` makes a declaration of its text.
    pub(crate) fn from_snapshot<E>(
        snapshot: &SinksSnapshot,
        read: impl Fn(&str) -> Result<CreateSink, E>,
    ) -> Result<Sinks, E> {
        let mut sinks = Sinks { next: snapshot.next, sinks: BTreeMap::new() };
        for SinkSnapshot { id, created, text, view, from, delivered } in &snapshot.sinks {
            let create = read(text)?;
            let delivered = delivered.clone();
            let entry = SinkEntry { id: *id, created: *created, create, view: *view, from: *from, delivered };
            sinks.sinks.insert(entry.create.name.clone(), entry);
        }
        Ok(sinks)
    }
}
