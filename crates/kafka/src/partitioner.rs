//! The partition that a producer writes a key to, by the hash functions that producers use.

/// The hash function by which a producer chooses the partition of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Partitioner {
    /// Murmur2, as Java's producers do: Kafka's own tools, Kafka Streams, Kafka Connect.
    #[default]
    Murmur2,
    /// CRC-32, as librdkafka's producers do unless they are configured otherwise. An empty key is no key.
    Crc32,
}

impl Partitioner {
    /// The partition of a key among so many, of which there is at least one; `None` if the producer takes any.
    pub fn partition(self, key: Option<&[u8]>, partitions: u32) -> Option<u32> {
        let key = key?;
        match self {
            Partitioner::Murmur2 => Some((murmur2(key) & 0x7fff_ffff) % partitions),
            Partitioner::Crc32 if key.is_empty() => None,
            Partitioner::Crc32 => Some(crc32fast::hash(key) % partitions),
        }
    }
}

/// The hash of `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let (words, tail) = key.as_chunks::<4>();
    let mut hash = SEED ^ key.len() as u32;
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !tail.is_empty() {
        let last = tail.iter().rev().fold(0, |last, byte| last << 8 | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java_and_librdkafka() {
        // The examples of Kafka's own UtilsTest.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
        // The check value of CRC-32.
        assert_eq!(Partitioner::Crc32.partition(Some(b"123456789"), u32::MAX), Some(0xcbf4_3926));
        assert_eq!(Partitioner::Crc32.partition(Some(b""), 3), None);
        assert_eq!(Partitioner::Murmur2.partition(Some(b""), 1), Some(0));
        assert_eq!(Partitioner::Murmur2.partition(None, 3), None);
    }
}
