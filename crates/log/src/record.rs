//! The records of the log; the log knows their heads and nothing more.

use swiftwater_event::{Millis, Offset};

use crate::LogPosition;

/// The most bytes of a producer's id.
pub const PRODUCER_ID_BYTES_MAX: usize = 256;

/// The number of a stream, as the catalog gave it. Never used again for another stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The kind of a record, and all its properties except the payload.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Events of one stream.
    Events(EventsHead),
    /// A change of the catalog.
    Catalog,
    /// Time has passed.
    Tick {
        /// The time then.
        now: Millis,
    },
}

/// The properties that all events of a record share.
#[derive(Debug, Clone, PartialEq)]
pub struct EventsHead {
    /// The stream of the events.
    pub stream: StreamId,
    /// The offset of the first of them in its stream; the others follow without a gap.
    pub first: Offset,
    /// The number of its events.
    pub events: u32,
    /// Their arrival.
    pub arrival: Millis,
    /// The time at which their sender says they were sent, in microseconds since 1970; 0: not stated.
    pub sent_micros: i64,
    /// The fraction of all events that these are, if the sender took a sample of them.
    pub sample: Option<f64>,
    /// The sender, if it numbers its requests.
    pub producer: Option<Producer>,
    /// The part of the request of the producer's number that these are, from 0.
    pub part: u16,
}

/// A sender that numbers what it sends, so that what it sends again is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Producer {
    /// Its name, of at most [`PRODUCER_ID_BYTES_MAX`] bytes.
    pub id: Box<str>,
    /// The number of what it sent.
    pub sequence: u64,
    /// A hash of what it sent under this number and part, before anything of it was refused; 0: it is not known.
    pub hash: u64,
}

/// A record as it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<'a> {
    /// Its start.
    pub position: LogPosition,
    /// Start of the next one.
    pub end: LogPosition,
    /// Its kind.
    pub head: Head,
    /// Its content, before compression.
    pub payload: &'a [u8],
}
