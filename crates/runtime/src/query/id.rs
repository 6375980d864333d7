//! Query IDs.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    str::FromStr,
};

use swiftwater_event::Millis;

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Digits of a text: five bits each, the first one three.
const LENGTH: usize = 26;

/// A query's identity: a ULID, whose text is 26 digits of Crockford's base 32, in the order of submission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId([u8; 16]);

/// A text is no query's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a query's id is {LENGTH} digits of {}", str::from_utf8(DIGITS).unwrap_or_default())]
pub struct NotAnId;

impl QueryId {
    /// 48 bits of time, then 80 that nobody can guess. `number` must be new for each.
    pub fn new(now: Millis, number: u64, secret: &RandomState) -> QueryId {
        let random = u128::from(secret.hash_one(number)) << 64 | u128::from(secret.hash_one((number, "low")));
        let bits = (now as u128 & ((1 << 48) - 1)) << 80 | random & ((1 << 80) - 1);
        QueryId(bits.to_be_bytes())
    }
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let digit = |at: usize| DIGITS[(bits >> ((LENGTH - 1 - at) * 5)) as usize & 31];
        let digits: [u8; LENGTH] = std::array::from_fn(digit);
        f.write_str(str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for QueryId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<QueryId, NotAnId> {
        // The first digit has the three bits that are left of 128.
        if text.len() != LENGTH || text.as_bytes()[0] > b'7' {
            return Err(NotAnId);
        }
        let bits = text.bytes().try_fold(0_u128, |bits, byte| {
            let digit = DIGITS.iter().position(|digit| *digit == byte)?;
            Some(bits << 5 | digit as u128)
        });
        bits.map(|bits| QueryId(bits.to_be_bytes())).ok_or(NotAnId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let secret = RandomState::new();
        let id = |now, number| QueryId::new(now, number, &secret);
        let (a, b, c) = (id(1000, 1), id(1000, 2), id(2000, 3));
        assert_ne!(a, b);
        assert!(a < c && b < c);
        assert!(a.to_string() < c.to_string());
    }

    #[test]
    fn texts_are_read_back_and_others_are_not() {
        let secret = RandomState::new();
        for number in 0..100 {
            let id = QueryId::new(1_700_000_000_000 + number, number as u64, &secret);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let largest = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
        assert_eq!(largest.parse::<QueryId>().map(|id| id.to_string()), Ok(largest.to_owned()));
        for text in [
            "",
            "x",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "7zzzzzzzzzzzzzzzzzzzzzzzzz",
            "7ZZZZZZZZZZZZZZZZZZZZZZZZU",
            "7ZZZZZZZZZZZZZZZZZZZZZZZé",
        ] {
            assert_eq!(text.parse::<QueryId>(), Err(NotAnId), "{text}");
        }
    }
}
