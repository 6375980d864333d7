//! A position in a source: the next offset to read.

/// A place in one partition of a source: the number of the event that is read next, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Offset(pub u64);

/// The position for exact recovery: the source, its partition, and the next event to read there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The source's name; for events that came in over HTTP, the stream's.
    pub source: Box<str>,
    /// The partition of the source; 0 where it has only one.
    pub partition: u32,
    /// The next event to read.
    pub offset: Offset,
}
