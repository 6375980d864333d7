//! A hash of bytes that is the same on every machine and in every version, so that sketches from any machine merge.
//!
//! It is folded multiplication, after wyhash (Wang Yi, public domain): 16 bytes a step. A sketch hashes it once more
//! before use. The only requirement is therefore that different values seldom have one hash: among 2^32 values, two have
//! the same with a probability of one half. It does not resist deliberate collisions; an attacker would only get an
//! estimate that is too low, of his own values.

const START: u64 = 0xa076_1d64_78bd_642f;
const LEFT: u64 = 0xe703_7ed1_a0b4_28db;
const RIGHT: u64 = 0x8ebc_6af0_9c88_c6e3;

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

fn read_8(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn read_4(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from(u32::from_le_bytes(*chunk)))
}

/// The hash of a value's bytes.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let mut state = START;
    let mut rest = bytes;
    while rest.len() > 16 {
        state = fold(read_8(rest) ^ LEFT, read_8(&rest[8..]) ^ state);
        rest = &rest[16..];
    }
    // The last 16 bytes or fewer, read from both ends: the two may overlap, which the length makes up for.
    let (head, tail) = match rest.len() {
        8.. => (read_8(rest), read_8(&rest[rest.len() - 8..])),
        4..8 => (read_4(rest), read_4(&rest[rest.len() - 4..])),
        1..4 => {
            let (first, middle, last) = (rest[0], rest[rest.len() / 2], rest[rest.len() - 1]);
            (u64::from(first) << 16 | u64::from(middle) << 8 | u64::from(last), 0)
        }
        0 => (0, 0),
    };
    fold(fold(head ^ LEFT, tail ^ state) ^ RIGHT, length as u64 ^ START)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_stay_what_they_are() {
        // Kept sketches and those of other versions hold these.
        let hashes = [&b""[..], b"a", b"abcd", b"0123456789", b"0123456789abcdef0123"].map(hash_bytes);
        let distinct: HashSet<u64> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len());
        assert_eq!(hash_bytes(b"a"), hashes[1]);
    }

    #[test]
    fn values_of_every_length_have_hashes_of_their_own() {
        let mut seen = HashSet::new();
        for length in 0..100 {
            for number in 0u64..200 {
                let mut bytes = vec![0; length];
                bytes.extend(number.to_le_bytes());
                bytes.truncate(length.max(1) + (number > 0) as usize * 8);
                seen.insert(bytes.clone());
            }
        }
        let hashes: HashSet<u64> = seen.iter().map(|bytes| hash_bytes(bytes)).collect();
        assert_eq!(hashes.len(), seen.len());
    }

    #[test]
    fn each_bit_of_a_hash_is_set_half_of_the_time() {
        let mut set = [0u32; 64];
        for number in 0u64..10_000 {
            let hash = hash_bytes(&number.to_le_bytes());
            for (bit, count) in set.iter_mut().enumerate() {
                *count += (hash >> bit & 1) as u32;
            }
        }
        assert!(set.iter().all(|count| (4_500..5_500).contains(count)), "{set:?}");
    }
}
