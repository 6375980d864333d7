//! Events of one size, from a hundred bytes to a megabyte, with a thousand equality queries on their first path.

use std::io::Write;

use swiftwater_testkit::Rng;

use super::{MATCH_SHARE, Workload, query_text};

const QUERIES: usize = 1000;
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Length of the fields of an event's random bytes; other random content would be too slow for a megabyte, and repeated
/// content too easy.
const FIELD_LETTERS: usize = 12;

/// Events with an `id` and as many short fields as make the size.
pub(super) struct Sized {
    rng: Rng,
    bytes: usize,
    truth: Vec<u64>,
}

impl Sized {
    pub(super) fn new(seed: u64, bytes: usize) -> Sized {
        Sized { rng: Rng::new(seed), bytes, truth: vec![0; QUERIES] }
    }

    fn letters(&mut self) -> [u8; FIELD_LETTERS] {
        let mut bits = self.rng.bits();
        [(); FIELD_LETTERS].map(|()| {
            let letter = LETTERS[(bits & 31) as usize];
            bits >>= 5;
            letter
        })
    }
}

/// The value that a query looks for: upper case, which no other has.
fn value(query: usize) -> String {
    format!("QUERY{query:07}")
}

impl Workload for Sized {
    fn queries(&self) -> Vec<String> {
        (0..QUERIES).map(|query| query_text("id", &format!("id = '{}'", value(query)))).collect()
    }

    fn write(&mut self, events: usize, out: &mut Vec<u8>) {
        for _ in 0..events {
            let start = out.len();
            out.extend_from_slice(b"{\"id\":\"");
            if self.rng.chance(MATCH_SHARE) {
                let query = self.rng.below(QUERIES);
                self.truth[query] += 1;
                out.extend_from_slice(value(query).as_bytes());
            } else {
                out.extend_from_slice(&self.letters());
            }
            out.push(b'"');
            let mut field = 0;
            while out.len() - start + 32 < self.bytes {
                // Writing into a vector cannot fail.
                let _ = if field % 4 == 3 {
                    write!(out, ",\"f{field:05}\":{}", self.rng.bits() >> 20)
                } else {
                    write!(out, ",\"f{field:05}\":\"").and_then(|()| {
                        out.extend_from_slice(&self.letters());
                        out.write_all(b"\"")
                    })
                };
                field += 1;
            }
            out.extend_from_slice(b"}\n");
        }
    }

    fn truth(&self) -> &[u64] {
        &self.truth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_size_and_match() {
        for bytes in [100, 1000, 100_000] {
            let mut events = Sized::new(1, bytes);
            let mut out = Vec::new();
            events.write(1000, &mut out);
            let mean = out.len() / 1000;
            assert!(mean <= bytes && mean + 40 > bytes, "{mean} bytes for {bytes}");
            let matches = out
                .split(|&byte| byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap())
                .filter(|event| event["id"].as_str().unwrap().starts_with("QUERY"))
                .count();
            assert_eq!(matches as u64, events.truth().iter().sum::<u64>());
            assert!(matches > 0);
        }
    }
}
