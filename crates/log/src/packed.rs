//! Payloads that the caller's thread compresses and checksums, so that the log's own thread only writes.

use std::cell::RefCell;

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::LogError;

/// Payloads shorter than this are kept as they are: a sync costs more than what could be saved.
const COMPRESSED_BYTES_MIN: usize = 128;
/// The most bytes of a payload, before and after compression: lengths in a frame are 32-bit, and its padding must fit.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 30;
const ZSTD_LEVEL: i32 = 1;

/// The compression of payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// The payload is not compressed.
    None,
    /// LZ4 blocks: about half.
    #[default]
    Lz4,
    /// Zstandard, level 1: smaller, and slower to make and to read.
    Zstd,
}

/// The rule for compressing payloads, and the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompressionPolicy {
    /// Payloads are compressed by LZ4 if the disk is slow or has little room, which [`Log::pack`](crate::Log::pack)
    /// detects; otherwise not at all, as compressing takes longer than writing.
    #[default]
    AsNeeded,
    /// Each, where that gains anything.
    Always(Compression),
}

/// A payload, ready to be appended.
#[derive(Debug, Clone)]
pub struct PackedPayload {
    pub(crate) payload: Bytes,
    pub(crate) packing: Compression,
    pub(crate) unpacked_bytes: u32,
    pub(crate) crc: u32,
}

thread_local! {
    /// LZ4's table of recent places, kept between calls because making one costs more than compressing a small payload.
    static TABLE: RefCell<CompressTable> = RefCell::new(CompressTable::large());
    /// The buffer for compressed payloads, at the largest size that they can have; the result is copied out at its own
    /// size.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Scratch space beyond this is given back, so that one large payload does not stay with every thread.
const SCRATCH_BYTES_KEPT: usize = 4 << 20;

impl PackedPayload {
    /// Compresses a payload, or keeps a copy of it where that gains nothing.
    pub fn new(payload: &[u8], compression: Compression) -> Result<PackedPayload, LogError> {
        check_bytes(payload)?;
        let compressed = match compression {
            _ if payload.len() < COMPRESSED_BYTES_MIN => None,
            Compression::None => None,
            Compression::Lz4 => lz4(payload),
            Compression::Zstd => zstd_compressed(payload),
        };
        Ok(match compressed {
            Some(bytes) => PackedPayload::of(bytes, compression, payload.len()),
            None => PackedPayload::of(Bytes::copy_from_slice(payload), Compression::None, payload.len()),
        })
    }

    /// Takes a payload as it is, without a copy.
    pub fn raw(payload: Bytes) -> Result<PackedPayload, LogError> {
        check_bytes(&payload)?;
        let unpacked_bytes = payload.len();
        Ok(PackedPayload::of(payload, Compression::None, unpacked_bytes))
    }

    /// No payload, for records whose head says all.
    pub fn empty() -> PackedPayload {
        PackedPayload::of(Bytes::new(), Compression::None, 0)
    }

    fn of(payload: Bytes, packing: Compression, unpacked_bytes: usize) -> PackedPayload {
        let crc = crc32c::crc32c(&payload);
        // Lengths were checked against `PAYLOAD_BYTES_MAX`, so nothing is cut off here.
        PackedPayload { payload, packing, unpacked_bytes: unpacked_bytes as u32, crc }
    }

    /// The bytes it takes in the log's queue and, but for a few, on disk.
    pub fn bytes(&self) -> u64 {
        self.payload.len() as u64
    }
}

fn check_bytes(payload: &[u8]) -> Result<(), LogError> {
    if payload.len() <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(LogError::TooLarge { bytes: payload.len() as u64, bytes_max: PAYLOAD_BYTES_MAX as u64 })
}

/// `None` where it gains less than a sixteenth, which is not worth the time of reading it.
fn lz4(payload: &[u8]) -> Option<Bytes> {
    SCRATCH.with_borrow_mut(|scratch| {
        let need = get_maximum_output_size(payload.len());
        if scratch.len() < need {
            scratch.resize(need, 0);
        }
        let length = TABLE.with_borrow_mut(|table| compress_into_with_table(payload, scratch, table)).ok()?;
        let gains = length < payload.len() - payload.len() / 16;
        let bytes = gains.then(|| Bytes::copy_from_slice(&scratch[..length]));
        if scratch.len() > SCRATCH_BYTES_KEPT {
            *scratch = Vec::new();
        }
        bytes
    })
}

fn zstd_compressed(payload: &[u8]) -> Option<Bytes> {
    let compressed = zstd::bulk::compress(payload, ZSTD_LEVEL).ok()?;
    (compressed.len() < payload.len() - payload.len() / 16).then(|| Bytes::from(compressed))
}

/// Unpacks a payload, whose checksum was right, into `into`; `None` where it is none of that length after all.
pub(crate) fn unpack(
    payload: &[u8],
    packing: Compression,
    unpacked_bytes: usize,
    into: &mut Vec<u8>,
) -> Option<()> {
    match packing {
        Compression::None => {
            into.clear();
            into.extend_from_slice(payload);
        }
        Compression::Lz4 => {
            into.resize(unpacked_bytes, 0);
            let length = decompress_into(payload, into).ok()?;
            into.truncate(length);
        }
        Compression::Zstd => {
            into.resize(unpacked_bytes, 0);
            let length = zstd::bulk::decompress_to_buffer(payload, into.as_mut_slice()).ok()?;
            into.truncate(length);
        }
    }
    (into.len() == unpacked_bytes).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(payload: &[u8], compression: Compression, expected: Compression) {
        let packed = PackedPayload::new(payload, compression).unwrap();
        assert_eq!(packed.packing, expected);
        let mut unpacked = vec![7; 3];
        unpack(&packed.payload, packed.packing, packed.unpacked_bytes as usize, &mut unpacked).unwrap();
        assert_eq!(unpacked, payload);
        assert_eq!(packed.crc, crc32c::crc32c(&packed.payload));
    }

    #[test]
    fn payload_comes_back() {
        let text = br#"{"carrier":"UA","origin":"EWR","delay":4}"#.repeat(1000);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            check(&text, compression, compression);
            check(b"", compression, Compression::None);
            check(b"short", compression, Compression::None);
        }
    }

    #[test]
    fn payload_that_does_not_shrink_is_kept_as_it_is() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(10_000)
        .collect();
        check(&noise, Compression::Lz4, Compression::None);
        check(&noise, Compression::Zstd, Compression::None);
    }

    #[test]
    fn wrong_length_is_told() {
        let text = b"abcdefgh".repeat(100);
        let packed = PackedPayload::new(&text, Compression::Lz4).unwrap();
        let mut into = Vec::new();
        assert_eq!(unpack(&packed.payload, packed.packing, text.len() - 1, &mut into), None);
        assert_eq!(unpack(&packed.payload, packed.packing, text.len() + 1, &mut into), None);
        assert_eq!(unpack(&packed.payload, Compression::Zstd, text.len(), &mut into), None);
    }
}
