//! Messages of one partition as a structure of arrays: one buffer of bytes, and spans in it.
//!
//! A batch has three allocations however many messages it has, plus one for headers. A null key or value (a tombstone) is
//! distinct from an empty one. Limits: a buffer has at most [`BUFFER_BYTES_MAX`] bytes.

use bytes::{Bytes, BytesMut};

/// The bytes of one batch at most: spans have 32 bits. One message of Kafka is always smaller.
pub const BUFFER_BYTES_MAX: usize = u32::MAX as usize - 1;

/// The kind of a message's timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampKind {
    /// The message has none.
    Missing,
    /// The producer's time.
    Create,
    /// The time at which the broker appended the message.
    Append,
}

/// A message's timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timestamp {
    /// The origin of the time.
    pub kind: TimestampKind,
    /// Milliseconds since 1970-01-01T00:00:00Z; -1 if missing.
    pub millis: i64,
}

impl Timestamp {
    /// No timestamp.
    pub const MISSING: Timestamp = Timestamp { kind: TimestampKind::Missing, millis: -1 };

    /// A producer's time.
    pub fn create(millis: i64) -> Timestamp {
        Timestamp { kind: TimestampKind::Create, millis }
    }

    /// A time of the broker.
    pub fn append(millis: i64) -> Timestamp {
        Timestamp { kind: TimestampKind::Append, millis }
    }
}

/// A range of bytes in the buffer of a batch, or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    const NULL: Span = Span { start: u32::MAX, end: u32::MAX };

    fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        (self != Span::NULL).then(|| &bytes[self.start as usize..self.end as usize])
    }
}

/// The spans of one message.
#[derive(Debug, Clone, Copy)]
struct MessageSpans {
    key: Span,
    value: Span,
    /// The end of its headers in the list of all; they start at the end of those of the message before.
    headers_end: u32,
}

/// The name and value of a header.
#[derive(Debug, Clone, Copy)]
struct HeaderSpans {
    name: Span,
    value: Span,
}

/// Messages of one partition, in the order of their offsets.
///
/// Offsets increase but may have holes, which compaction and transactions leave.
#[derive(Debug, Clone)]
pub struct MessageBatch {
    partition: u32,
    next: u64,
    bytes: Bytes,
    offsets: Vec<u64>,
    timestamps: Vec<Timestamp>,
    spans: Vec<MessageSpans>,
    headers: Vec<HeaderSpans>,
}

impl MessageBatch {
    /// The partition of all messages.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// True if there is no message.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The offset after the last message: the next one to read.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The offset of each message.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The timestamp of each message.
    pub fn timestamps(&self) -> &[Timestamp] {
        &self.timestamps
    }

    /// The bytes of all keys, values and headers.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The key of a message; `None` if it is null.
    ///
    /// # Panics
    ///
    /// If the batch has no such message.
    pub fn key(&self, index: usize) -> Option<&[u8]> {
        self.spans[index].key.of(&self.bytes)
    }

    /// The value of a message; `None` if it is null (a tombstone).
    ///
    /// # Panics
    ///
    /// If the batch has no such message.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.spans[index].value.of(&self.bytes)
    }

    /// The headers of a message with their names and values, in the producer's order. A name may occur several times.
    ///
    /// # Panics
    ///
    /// If the batch has no such message.
    pub fn headers(&self, index: usize) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        let start = index.checked_sub(1).map_or(0, |before| self.spans[before].headers_end as usize);
        let end = self.spans[index].headers_end as usize;
        self.headers[start..end]
            .iter()
            .map(|header| (header.name.of(&self.bytes).unwrap_or_default(), header.value.of(&self.bytes)))
    }

    /// All messages, in the order of their offsets.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        (0..self.len()).map(|index| Message { batch: self, index })
    }
}

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Message<'b> {
    batch: &'b MessageBatch,
    index: usize,
}

impl<'b> Message<'b> {
    /// Its offset.
    pub fn offset(&self) -> u64 {
        self.batch.offsets[self.index]
    }

    /// Its timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.batch.timestamps[self.index]
    }

    /// Its key; `None` if it is null.
    pub fn key(&self) -> Option<&'b [u8]> {
        self.batch.key(self.index)
    }

    /// Its value; `None` if it is null (a tombstone).
    pub fn value(&self) -> Option<&'b [u8]> {
        self.batch.value(self.index)
    }

    /// Its headers, in the producer's order.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&'b [u8], Option<&'b [u8]>)> {
        self.batch.headers(self.index)
    }
}

/// Builds a [`MessageBatch`].
#[derive(Debug)]
pub struct MessageBatchBuilder {
    partition: u32,
    bytes: BytesMut,
    offsets: Vec<u64>,
    timestamps: Vec<Timestamp>,
    spans: Vec<MessageSpans>,
    headers: Vec<HeaderSpans>,
}

impl MessageBatchBuilder {
    /// A batch without messages, with memory for `messages` of `bytes` altogether.
    pub fn with_capacity(partition: u32, messages: usize, bytes: usize) -> MessageBatchBuilder {
        MessageBatchBuilder {
            partition,
            bytes: BytesMut::with_capacity(bytes),
            offsets: Vec::with_capacity(messages),
            timestamps: Vec::with_capacity(messages),
            spans: Vec::with_capacity(messages),
            headers: Vec::new(),
        }
    }

    /// Adds a message. The caller ends the batch before it has [`BUFFER_BYTES_MAX`] bytes.
    pub fn push<'h>(
        &mut self,
        offset: u64,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
    ) {
        debug_assert!(self.offsets.last().is_none_or(|last| *last < offset), "offsets increase");
        let key = self.append(key);
        let value = self.append(value);
        for (header_name, header_value) in headers {
            let name = self.append(Some(header_name));
            let value = self.append(header_value);
            self.headers.push(HeaderSpans { name, value });
        }
        self.offsets.push(offset);
        self.timestamps.push(timestamp);
        self.spans.push(MessageSpans { key, value, headers_end: self.headers.len() as u32 });
    }

    /// The number of messages so far.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// True if no message was added.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The bytes of all messages so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The batch, with the offset after its last message.
    pub fn finish(self, next: u64) -> MessageBatch {
        debug_assert!(
            self.offsets.last().is_none_or(|last| *last < next),
            "`next` is after the last message"
        );
        MessageBatch {
            partition: self.partition,
            next,
            bytes: self.bytes.freeze(),
            offsets: self.offsets,
            timestamps: self.timestamps,
            spans: self.spans,
            headers: self.headers,
        }
    }

    fn append(&mut self, bytes: Option<&[u8]>) -> Span {
        let Some(bytes) = bytes else { return Span::NULL };
        let start = self.bytes.len();
        assert!(bytes.len() <= BUFFER_BYTES_MAX - start, "the caller ends a batch before it has 4 GiB");
        self.bytes.extend_from_slice(bytes);
        Span { start: start as u32, end: self.bytes.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_differs_from_empty() {
        let mut builder = MessageBatchBuilder::with_capacity(3, 0, 0);
        let headers: [(&[u8], Option<&[u8]>); 2] = [(b"h", None), (b"h", Some(b""))];
        builder.push(7, Timestamp::create(5), None, Some(b""), []);
        builder.push(9, Timestamp::MISSING, Some(b""), None, headers);
        builder.push(10, Timestamp::append(6), Some(b"k"), Some(b"v"), [(&b"a"[..], Some(&b"b"[..]))]);
        let batch = builder.finish(12);
        assert_eq!((batch.partition(), batch.len(), batch.next()), (3, 3, 12));
        assert_eq!((batch.key(0), batch.value(0)), (None, Some(&b""[..])));
        assert_eq!((batch.key(1), batch.value(1)), (Some(&b""[..]), None));
        assert_eq!((batch.key(2), batch.value(2)), (Some(&b"k"[..]), Some(&b"v"[..])));
        let headers: Vec<Vec<_>> = batch.messages().map(|message| message.headers().collect()).collect();
        assert_eq!(
            headers,
            [vec![], vec![(&b"h"[..], None), (b"h", Some(&b""[..]))], vec![(&b"a"[..], Some(&b"b"[..]))]]
        );
        assert_eq!(batch.offsets(), [7, 9, 10]);
    }
}
