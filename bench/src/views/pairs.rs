//! Generates events of one key and one number, with random keys, and the expected answer of a view of them.

use bytes::Bytes;
use swiftwater_testkit::Rng;

/// The stream, and its view.
pub(super) const DECLARED: &str = "CREATE STREAM pairs (k LONG NOT NULL, v LONG NOT NULL); \
     CREATE MATERIALIZED VIEW by_key AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM STREAM(pairs) GROUP BY k;";
/// The view's query.
pub(super) const QUERY: &str = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM STREAM(pairs) GROUP BY k";
/// Totals over all keys.
pub(super) const TOTALS: &str =
    "SELECT count(*) AS keys, CAST(sum(n) AS BIGINT) AS n, CAST(sum(total) AS BIGINT) AS total FROM by_key";

/// Lines of events whose keys are below a bound, and the sum of their numbers.
pub(super) fn lines(seed: u64, events: usize, keys: usize) -> (Bytes, u64) {
    let mut rng = Rng::new(seed);
    let (mut text, mut total) = (Vec::with_capacity(events * 24), 0);
    for _ in 0..events {
        let (key, number) = (rng.below(keys), rng.below(1000));
        push(&mut text, key, number);
        total += number as u64;
    }
    (text.into(), total)
}

/// Adds one event.
pub(super) fn push(text: &mut Vec<u8>, key: usize, number: usize) {
    text.extend_from_slice(format!("{{\"k\":{key},\"v\":{number}}}\n").as_bytes());
}
