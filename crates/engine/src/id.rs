//! Identities of queries.

use std::hash::{BuildHasher, RandomState};

use swiftwater_event::Millis;

use crate::QueryId;

const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A ULID: 48 bits of time, then 80 that nobody can guess. `number` must be new for each.
pub(crate) fn query_id(now: Millis, number: u64, secret: &RandomState) -> QueryId {
    let random = u128::from(secret.hash_one(number)) << 64 | u128::from(secret.hash_one((number, "low")));
    let bits = (now as u128 & ((1 << 48) - 1)) << 80 | random & ((1 << 80) - 1);
    let text: String =
        (0..26).rev().map(|digit| char::from(DIGITS[(bits >> (digit * 5)) as usize & 31])).collect();
    QueryId(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let secret = RandomState::new();
        let (a, b, c) = (query_id(1000, 1, &secret), query_id(1000, 2, &secret), query_id(2000, 3, &secret));
        assert_eq!(a.0.len(), 26);
        assert_ne!(a, b);
        assert!(a < c && b < c);
    }
}
