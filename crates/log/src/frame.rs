//! Frames: the format of records in a segment.
//!
//! Numbers are little-endian. A frame takes a multiple of 8 bytes, so that recovery can search for one after damage.
//!
//! ```text
//! frame   = crc:u32           CRC-32C of what follows up to the payload, begun with the segment's seed
//!           meta_bytes:u16
//!           kind:u8           1 events, 2 catalog, 3 tick
//!           packing:u8        0 none, 1 lz4 block, 2 zstd
//!           payload_bytes:u32
//!           unpacked_bytes:u32
//!           payload_crc:u32   CRC-32C of the payload as it stands here
//!           unsynced:u32      bytes of log before this frame that were not yet known to be synced when it was written
//!           position:u64      of this frame in the log
//!           meta              `meta_bytes` of it, by kind
//!           payload           `payload_bytes` of it
//!           zeros             to the next multiple of 8
//!
//! meta of events  = stream:u32 events:u32 first:u64 arrival:i64 sent_micros:i64 part:u16 has:u16
//!                   [sample:f64]                          where bit 0 of `has` is set
//!                   [sequence:u64 id_bytes:u16 id:UTF-8]  where bit 1 is set
//!                   [hash:u64]                            where bit 2 is set, as bit 1 then is; since version 2 of segments
//! meta of catalog = nothing
//! meta of tick    = now:i64
//! ```
//!
//! A frame is valid only in its segment and at its position. The checksum starts from a seed of the segment's number, and
//! covers the position. Therefore bytes from an earlier use of the file never pass for current ones. `unsynced`
//! distinguishes damage from a torn tail. A frame that was written after all before it was synced proves that the missing
//! bytes before it once existed (`recovery.rs`).

use swiftwater_event::Offset;

use crate::{
    packed::{Compression, PAYLOAD_BYTES_MAX, PackedPayload},
    record::{EventsHead, Head, PRODUCER_ID_BYTES_MAX, Producer, StreamId},
};

/// Bytes of a frame before its meta.
pub(crate) const FIXED_BYTES: usize = 32;
/// The most bytes of meta: events with all that they may have.
pub(crate) const META_BYTES_MAX: usize = 36 + 8 + 10 + PRODUCER_ID_BYTES_MAX + 8;
/// The most bytes that a frame takes beyond its payload.
pub(crate) const OVERHEAD_BYTES_MAX: u64 = (FIXED_BYTES + META_BYTES_MAX + ALIGNMENT) as u64;
/// Frames begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

const HAS_SAMPLE: u16 = 1;
const HAS_PRODUCER: u16 = 2;
const HAS_HASH: u16 = 4;

/// The fault in bytes that should be a frame.
pub(crate) type FrameFault = &'static str;

/// The front of a frame, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    kind: u8,
    meta_bytes: usize,
    pub(crate) packing: Compression,
    pub(crate) payload_bytes: usize,
    pub(crate) unpacked_bytes: usize,
    payload_crc: u32,
    /// The position before which everything was synced when the frame was written.
    pub(crate) synced_before: u64,
}

impl FrameHeader {
    /// Bytes before the payload.
    pub(crate) fn head_bytes(&self) -> usize {
        FIXED_BYTES + self.meta_bytes
    }

    /// Bytes of the whole frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        padded(self.head_bytes() + self.payload_bytes)
    }
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Bytes that a record takes on disk.
pub(crate) fn frame_bytes(head: &Head, packed: &PackedPayload) -> u64 {
    padded(FIXED_BYTES + meta_bytes(head) + packed.payload.len()) as u64
}

fn meta_bytes(head: &Head) -> usize {
    match head {
        Head::Events(events) => {
            let sample = if events.sample.is_some() { 8 } else { 0 };
            let producer = events
                .producer
                .as_ref()
                .map_or(0, |producer| 10 + producer.id.len() + if producer.hash == 0 { 0 } else { 8 });
            36 + sample + producer
        }
        Head::Catalog => 0,
        Head::Tick { .. } => 8,
    }
}

/// Writes all of a frame that stands before its payload; zeros are to follow the payload.
///
/// The producer's id was checked to be short enough, and `synced` to be at most `position`.
pub(crate) fn write_front(
    head: &Head,
    packed: &PackedPayload,
    seed: u32,
    position: u64,
    synced: u64,
    into: &mut Vec<u8>,
) {
    let start = into.len();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&(meta_bytes(head) as u16).to_le_bytes());
    into.push(match head {
        Head::Events(_) => 1,
        Head::Catalog => 2,
        Head::Tick { .. } => 3,
    });
    into.push(match packed.packing {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
    });
    into.extend_from_slice(&(packed.payload.len() as u32).to_le_bytes());
    into.extend_from_slice(&packed.unpacked_bytes.to_le_bytes());
    into.extend_from_slice(&packed.crc.to_le_bytes());
    let unsynced = u32::try_from(position.saturating_sub(synced)).unwrap_or(u32::MAX);
    into.extend_from_slice(&unsynced.to_le_bytes());
    into.extend_from_slice(&position.to_le_bytes());
    write_meta(head, into);
    let crc = crc32c::crc32c_append(seed, &into[start + 4..]);
    into[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

fn write_meta(head: &Head, into: &mut Vec<u8>) {
    match head {
        Head::Catalog => {}
        Head::Tick { now } => into.extend_from_slice(&now.to_le_bytes()),
        Head::Events(events) => {
            into.extend_from_slice(&events.stream.0.to_le_bytes());
            into.extend_from_slice(&events.events.to_le_bytes());
            into.extend_from_slice(&events.first.0.to_le_bytes());
            into.extend_from_slice(&events.arrival.to_le_bytes());
            into.extend_from_slice(&events.sent_micros.to_le_bytes());
            into.extend_from_slice(&events.part.to_le_bytes());
            let sample = if events.sample.is_some() { HAS_SAMPLE } else { 0 };
            let producer = if events.producer.is_some() { HAS_PRODUCER } else { 0 };
            let hash = if events.producer.as_ref().is_some_and(|producer| producer.hash != 0) {
                HAS_HASH
            } else {
                0
            };
            into.extend_from_slice(&(sample | producer | hash).to_le_bytes());
            if let Some(sample) = events.sample {
                into.extend_from_slice(&sample.to_le_bytes());
            }
            if let Some(producer) = &events.producer {
                into.extend_from_slice(&producer.sequence.to_le_bytes());
                into.extend_from_slice(&(producer.id.len() as u16).to_le_bytes());
                into.extend_from_slice(producer.id.as_bytes());
                if producer.hash != 0 {
                    into.extend_from_slice(&producer.hash.to_le_bytes());
                }
            }
        }
    }
}

/// Reads bytes off the front of a slice.
struct ByteReader<'a>(&'a [u8]);

impl ByteReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
}

/// The position that a frame at the front of `bytes` would have; the cheapest test of whether there is one.
pub(crate) fn position_in(bytes: &[u8]) -> Option<u64> {
    bytes.get(24..32)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Reads the front of a frame; `bytes` begins with it and holds its meta.
pub(crate) fn read_front(bytes: &[u8], seed: u32, position: u64) -> Result<FrameHeader, FrameFault> {
    let mut taker = ByteReader(bytes);
    let mut fixed = || {
        let crc = taker.u32()?;
        let meta_bytes = usize::from(taker.u16()?);
        let [kind, packing] = taker.array()?;
        Some((crc, meta_bytes, kind, packing, [taker.u32()?, taker.u32()?, taker.u32()?, taker.u32()?]))
    };
    let (crc, meta_bytes, kind, packing, [payload_bytes, unpacked_bytes, payload_crc, unsynced]) =
        fixed().ok_or("it is cut off")?;
    if taker.u64() != Some(position) {
        return Err("no frame begins there");
    }
    if meta_bytes > META_BYTES_MAX {
        return Err("its head is too long");
    }
    let summed = bytes.get(4..FIXED_BYTES + meta_bytes).ok_or("its head is cut off")?;
    if crc32c::crc32c_append(seed, summed) != crc {
        return Err("the checksum of its head is wrong");
    }
    let packing = match packing {
        0 => Compression::None,
        1 => Compression::Lz4,
        2 => Compression::Zstd,
        _ => return Err("its packing is unknown"),
    };
    let (payload_bytes, unpacked_bytes) = (payload_bytes as usize, unpacked_bytes as usize);
    if payload_bytes > PAYLOAD_BYTES_MAX || unpacked_bytes > PAYLOAD_BYTES_MAX {
        return Err("its payload is too long");
    }
    let synced_before = position
        .checked_sub(u64::from(unsynced))
        .ok_or("it counts more unsynced bytes than there are before it")?;
    Ok(FrameHeader { kind, meta_bytes, packing, payload_bytes, unpacked_bytes, payload_crc, synced_before })
}

/// The payload of a frame; `frame` holds at least all of it.
pub(crate) fn payload<'a>(front: &FrameHeader, frame: &'a [u8]) -> Result<&'a [u8], FrameFault> {
    let start = front.head_bytes();
    let payload = frame.get(start..start + front.payload_bytes).ok_or("its payload is cut off")?;
    if crc32c::crc32c(payload) != front.payload_crc {
        return Err("the checksum of its payload is wrong");
    }
    Ok(payload)
}

/// The head of the record in a frame whose front was read.
pub(crate) fn read_head(front: &FrameHeader, frame: &[u8]) -> Result<Head, FrameFault> {
    let meta = frame.get(FIXED_BYTES..front.head_bytes()).ok_or("its head is cut off")?;
    let mut taker = ByteReader(meta);
    let head = match front.kind {
        1 => events_head(&mut taker).map(Head::Events),
        2 => Some(Head::Catalog),
        3 => taker.i64().map(|now| Head::Tick { now }),
        _ => return Err("its kind is unknown"),
    };
    head.filter(|_| taker.0.is_empty()).ok_or("its head is not as long as it should be")
}

fn events_head(taker: &mut ByteReader) -> Option<EventsHead> {
    let stream = StreamId(taker.u32()?);
    let events = taker.u32()?;
    let first = Offset(taker.u64()?);
    let arrival = taker.i64()?;
    let sent_micros = taker.i64()?;
    let part = taker.u16()?;
    let has = taker.u16()?;
    if has & !(HAS_SAMPLE | HAS_PRODUCER | HAS_HASH) != 0 || has & (HAS_PRODUCER | HAS_HASH) == HAS_HASH {
        return None;
    }
    let sample = if has & HAS_SAMPLE == 0 { None } else { Some(f64::from_le_bytes(taker.array()?)) };
    let producer = if has & HAS_PRODUCER == 0 {
        None
    } else {
        let sequence = taker.u64()?;
        let id_bytes = usize::from(taker.u16()?);
        let (id, rest) = taker.0.split_at_checked(id_bytes)?;
        taker.0 = rest;
        let hash = if has & HAS_HASH == 0 { 0 } else { taker.u64().filter(|hash| *hash != 0)? };
        Some(Producer { id: str::from_utf8(id).ok()?.into(), sequence, hash })
    };
    Some(EventsHead { stream, first, events, arrival, sent_micros, sample, producer, part })
}

/// Reads bytes as a frame of the segment with this seed, as recovery and readers do, and writes it anew: for fuzzing.
///
/// `None` where it is no good frame; else its bytes, which are those it was read from.
#[doc(hidden)]
pub fn check_frame(bytes: &[u8], seed: u32, position: u64) -> Option<Vec<u8>> {
    let front = read_front(bytes, seed, position).ok()?;
    let payload = payload(&front, bytes).ok()?;
    let head = read_head(&front, bytes).ok()?;
    let packed = PackedPayload {
        payload: bytes::Bytes::copy_from_slice(payload),
        packing: front.packing,
        unpacked_bytes: front.unpacked_bytes as u32,
        crc: front.payload_crc,
    };
    let mut again = Vec::new();
    write_front(&head, &packed, seed, position, front.synced_before, &mut again);
    again.extend_from_slice(payload);
    let mut unpacked = Vec::new();
    // For any payload, unpacking must succeed or return an error.
    if front.unpacked_bytes <= 1 << 20 {
        let _ = crate::packed::unpack(payload, front.packing, front.unpacked_bytes, &mut unpacked);
    }
    Some(again)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn heads() -> impl Strategy<Value = Head> {
        let producers = proptest::option::of((".{0,60}", any::<u64>(), prop_oneof![Just(0), any::<u64>()]));
        let samples = proptest::option::of(any::<u64>());
        let times = (any::<i64>(), any::<i64>());
        let events = (any::<u32>(), any::<u64>(), any::<u32>(), times, samples, producers, any::<u16>())
            .prop_map(|(stream, first, events, (arrival, sent_micros), sample, producer, part)| {
                Head::Events(EventsHead {
                    stream: StreamId(stream),
                    first: Offset(first),
                    events,
                    arrival,
                    sent_micros,
                    // Any finite number: what is not a number is not equal to itself.
                    sample: sample.map(|bits| bits as f64 / 3.0),
                    producer: producer.map(|(id, sequence, hash)| Producer { id: id.into(), sequence, hash }),
                    part,
                })
            });
        prop_oneof![events, Just(Head::Catalog), any::<i64>().prop_map(|now| Head::Tick { now })]
    }

    fn written(
        head: &Head,
        payload: &[u8],
        seed: u32,
        position: u64,
        synced: u64,
    ) -> (Vec<u8>, PackedPayload) {
        let packed = PackedPayload::new(payload, Compression::Lz4).unwrap();
        let mut frame = Vec::new();
        write_front(head, &packed, seed, position, synced, &mut frame);
        frame.extend_from_slice(&packed.payload);
        frame.resize(frame_bytes(head, &packed) as usize, 0);
        (frame, packed)
    }

    proptest! {
        #[test]
        fn frame_is_read_as_it_was_written(
            head in heads(),
            text in ".{0,300}",
            seed: u32,
            position in (0_u64..1 << 60).prop_map(|position| position * 8),
            unsynced in 0_u64..1 << 32,
        ) {
            let synced = position.saturating_sub(unsynced);
            let (frame, packed) = written(&head, text.as_bytes(), seed, position, synced);
            prop_assert_eq!(position_in(&frame), Some(position));
            let front = read_front(&frame, seed, position).unwrap();
            prop_assert_eq!(front.frame_bytes(), frame.len());
            prop_assert_eq!(front.synced_before, synced);
            prop_assert_eq!(payload(&front, &frame).unwrap(), &packed.payload[..]);
            prop_assert_eq!(read_head(&front, &frame).unwrap(), head);
            let again = check_frame(&frame, seed, position).unwrap();
            prop_assert_eq!(&again[..], &frame[..again.len()]);
        }

        #[test]
        fn frame_is_good_only_whole_in_its_segment_and_at_its_place(
            head in heads(),
            text in ".{0,100}",
            seed: u32,
            other_seed: u32,
            bit: usize,
        ) {
            let (frame, packed) = written(&head, text.as_bytes(), seed, 4096, 0);
            let summed_bytes = FIXED_BYTES + meta_bytes(&head) + packed.payload.len();
            for end in 0..summed_bytes {
                prop_assert_eq!(check_frame(&frame[..end], seed, 4096), None);
            }
            prop_assert_eq!(check_frame(&frame, seed, 4104), None);
            if other_seed != seed {
                prop_assert_eq!(check_frame(&frame, other_seed, 4096), None);
            }
            let bit = bit % (summed_bytes * 8);
            let mut damaged = frame;
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(check_frame(&damaged, seed, 4096), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            seed: u32,
            position: u64,
        ) {
            // With the position and the checksum put right, more is read of it.
            if bytes.len() >= FIXED_BYTES {
                bytes[5] %= 2;
                bytes[24..32].copy_from_slice(&position.to_le_bytes());
                let end = FIXED_BYTES + usize::from(bytes[4]) + usize::from(bytes[5]) * 256;
                if let Some(summed) = bytes.get(4..end) {
                    let crc = crc32c::crc32c_append(seed, summed);
                    bytes[..4].copy_from_slice(&crc.to_le_bytes());
                }
            }
            let _ = check_frame(&bytes, seed, position);
            if let Ok(front) = read_front(&bytes, seed, position) {
                let _ = read_head(&front, &bytes);
            }
        }
    }

    #[test]
    fn frame_that_says_that_more_was_unsynced_than_lies_before_it_is_refused() {
        let position = 24;
        let (mut bytes, _) = written(&Head::Tick { now: 7 }, b"", 1, position, 0);
        assert_eq!(read_front(&bytes, 1, position).map(|front| front.synced_before), Ok(0));
        bytes[20..24].copy_from_slice(&25_u32.to_le_bytes());
        let crc = crc32c::crc32c_append(1, &bytes[4..FIXED_BYTES + usize::from(bytes[4])]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(
            read_front(&bytes, 1, position).map(|front| front.synced_before),
            Err("it counts more unsynced bytes than there are before it")
        );
    }
}
