//! The options and the result of an append: acknowledgement, numbered requests, refused events.

use std::{collections::BTreeMap, sync::Arc};

use swiftwater_event::{Offset, Position, RefusedText, StreamName};
use swiftwater_live::columns::{RejectedEvent, ValidationRule};
use xxhash_rust::xxh3::Xxh3Default;

/// The time at which the sender of events gets its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ack {
    /// After they were checked.
    None,
    /// After the engine has taken them.
    #[default]
    Memory,
    /// After they are on disk; only if the stream is stored.
    Disk,
}

/// The properties of an append besides its events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppendOptions {
    /// The time at which the sender says it sent them, in microseconds since 1970.
    pub sent_micros: Option<i64>,
    /// The share of its events that the source sends on, where it samples.
    pub source_sample: Option<f64>,
    /// Events that were refused beside these, to be counted.
    pub rejected: u64,
    /// Texts of those, for the stream's quarantine, if it has one ([`crate::Runtime::quarantines`]).
    pub refused: Vec<RefusedText>,
    /// The number of this piece among all such texts of a numbered request, from 0: a piece has up to
    /// [`QUARANTINED_BYTES`] of them, or one.
    pub refused_part: u16,
    /// The sender's own number for them: a stored stream stores each number once.
    pub numbered: Option<Numbered>,
    /// True if none of them is taken in when the stream's columns refuse one.
    pub all_or_none: bool,
    /// The time of their sender's answer. SQL over a stored stream sees all events that were acknowledged before. With
    /// [`Ack::Disk`] these are the synced ones, which the caller acknowledges once [`crate::Runtime::synced`] has
    /// returned; otherwise all that were taken.
    pub ack: Ack,
}

/// A part of a numbered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// The sender: any text of up to [`PRODUCER_BYTES_MAX`] bytes.
    pub producer: Arc<str>,
    /// The number of the request, its own among this producer's requests to the stream.
    pub sequence: u64,
    /// The number of the part within the request, from 0.
    pub part: u16,
    /// The number after that of the last part that was stored; parts from there to this one had no event that was taken in.
    pub after: u16,
    /// A hash of what was sent ([`hash_of`]); what has this number and part and another hash is refused. 0: it is not known.
    pub hash: u64,
}

/// The longest name of a producer, in bytes.
pub const PRODUCER_BYTES_MAX: usize = 128;

/// Bytes of bad events that are kept at once. Written as JSON they may be several times as long, and are to fit into one
/// record of the log all the same.
pub const QUARANTINED_BYTES: usize = 2 << 20;

/// The way the names of the engine's own producers begin: those of sinks, alerts, jobs and the quarantine, and those of joins.
const RESERVED: [&str; 2] = ["swiftwater/", "join "];

/// True if a producer's name is one that only the engine itself may send under.
pub fn is_reserved_producer(name: &str) -> bool {
    // Names of HTTP fields are told apart by case, so these are, too.
    RESERVED.iter().any(|reserved| name.starts_with(reserved))
}

/// The hash of what is sent under a number: never 0. Events are told apart by their bytes, in order.
pub fn hash_of<'e>(pieces: impl IntoIterator<Item = &'e [u8]>) -> u64 {
    let mut hasher = Xxh3Default::new();
    for piece in pieces {
        hasher.update(piece);
        // No event has a bare line end at its end.
        hasher.update(b"\n");
    }
    hasher.digest().max(1)
}

/// The outcome of appended events.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// The position after them.
    pub position: Position,
    /// Their places in the topic that they were written to, if they were: [`Appended::position`] has no meaning then.
    pub written: Option<TopicPlaces>,
    /// Events that were taken in.
    pub accepted: u64,
    /// Events that the stream's columns refuse, in order.
    pub refusals: Vec<Refusal>,
    /// The number of refused events that the stream's quarantine stores.
    pub quarantined: u64,
    /// They were stored by an earlier request of this number: nothing was done now, and the counts are what the stream's
    /// columns say of them as they are now.
    pub is_repeated: bool,
    /// Their place in the log, if the stream is stored: [`crate::Runtime::synced`] waits for it.
    pub ticket: Option<Ticket>,
}

impl Appended {
    /// The outcome for events that no log stores.
    pub fn live(stream: &StreamName, offset: u64, accepted: u64) -> Appended {
        Appended {
            position: Position { source: stream.as_str().into(), partition: 0, offset: Offset(offset) },
            written: None,
            accepted,
            refusals: Vec::new(),
            quarantined: 0,
            is_repeated: false,
            ticket: None,
        }
    }
}

/// The places of events in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlaces {
    /// The topic.
    pub topic: Box<str>,
    /// The place of each event that was taken in, in order.
    pub events: Vec<TopicPlace>,
}

/// The place of an event in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicPlace {
    /// The partition.
    pub partition: u32,
    /// The offset; none where the broker does not say.
    pub offset: Option<u64>,
}

impl TopicPlaces {
    /// The position after the events in each partition whose offsets are known, by partition.
    pub fn ends(&self) -> impl Iterator<Item = (u32, Position)> {
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for TopicPlace { partition, offset } in &self.events {
            let Some(offset) = offset else { continue };
            let end = ends.entry(*partition).or_default();
            *end = (*end).max(offset + 1);
        }
        ends.into_iter().map(|(partition, end)| {
            (partition, Position { source: self.topic.clone(), partition, offset: Offset(end) })
        })
    }
}

/// An event that does not fit its stream's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its row in the batch that was to be appended.
    pub row: u32,
    /// The column at fault.
    pub path: String,
    /// The rule that the event breaks.
    pub rule: ValidationRule,
    /// The fault.
    pub message: String,
}

impl From<&RejectedEvent> for Refusal {
    fn from(rejected: &RejectedEvent) -> Refusal {
        let RejectedEvent { row, path, rule, message } = rejected;
        Refusal { row: *row, path: path.to_string(), rule: *rule, message: message.clone() }
    }
}

/// A place in the log, which is on disk when all before it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);
