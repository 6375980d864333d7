//! Deduplicates requests of numbered producers, so that a retry is stored once.
//!
//! A producer names itself and numbers its requests, in any order but rising on the whole. For each producer, the last 64
//! numbers are remembered with their outcomes; of the producers, those that wrote most recently. Both bounds survive
//! restarts: the table is rebuilt from the catalog's snapshot and the log, in which every stored part carries its number.
//!
//! A request of several parts is stored part by part, in order, so a count of stored parts suffices. A part none of whose
//! events is accepted leaves no record; the next stored part counts it as present. A hash of each part's content detects a
//! number that is reused for other events. The engine's own producers ([`is_reserved_producer`]) have separate room, so
//! clients cannot evict them. The partitions that a stream reads ([`SOURCE_PRODUCER`]) are never evicted: their last number
//! is the position at which reading resumes.
//! Knows no clock: the producer that wrote last in the log is the most recent.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::durable::quarantine::QUARANTINE_PRODUCER;
use swiftwater_runtime::is_reserved_producer;

/// Numbers kept of each producer.
const SEQUENCES_KEPT: usize = 64;

/// The way the names of the partitions begin that a stream reads. Their number is the offset behind the last message.
pub(crate) const SOURCE_PRODUCER: &str = "swiftwater/kafka/";

/// The producers of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Producers {
    of_clients: ProducerUse,
    of_engine: ProducerUse,
    /// Partitions of topics.
    of_sources: ProducerUse,
}

/// Producers, up to a number; the least recent one is removed first.
#[derive(Debug, Clone, PartialEq)]
struct ProducerUse {
    by_id: HashMap<Box<str>, Producer>,
    /// The producers by a count of writes, to find the least recent one.
    by_use: BTreeMap<u64, Box<str>>,
    uses: u64,
    max: usize,
    /// Numbers kept of each.
    sequences: usize,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Producer {
    used: u64,
    /// The requests by number, ascending; at most [`SEQUENCES_KEPT`].
    requests: VecDeque<Request>,
}

/// A request of which something is stored.
#[derive(Debug, Clone, PartialEq)]
struct Request {
    receipt: Receipt,
    /// The hash of its first part.
    hash: u64,
    /// The hashes of the parts after that.
    hashes: Vec<u64>,
}

/// The outcome of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Its number.
    pub(crate) sequence: u64,
    /// Parts that are stored.
    pub(crate) parts: u32,
    /// Events in them.
    pub(crate) accepted: u64,
    /// The stream's offset after the last of them.
    pub(crate) offset: u64,
    /// The position of the log after the last of them.
    pub(crate) log_position: u64,
}

/// The verdict on a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is to be stored.
    New,
    /// It is stored already.
    StoredStream(Receipt),
    /// Its number is so far below the latest that nobody knows any more; this is the lowest that can be told.
    Forgotten(u64),
    /// Parts before it are missing; so many are there.
    Gap(u32),
    /// Another request was stored under its number.
    Other,
}

impl Request {
    fn hash_of(&self, part: u32) -> u64 {
        match part {
            0 => self.hash,
            part => self.hashes.get(part as usize - 1).copied().unwrap_or(0),
        }
    }

    fn record_hash(&mut self, part: u32, hash: u64) {
        match part {
            0 => self.hash = hash,
            _ if hash == 0 => {}
            part => {
                let place = part as usize - 1;
                self.hashes.resize(self.hashes.len().max(place + 1), 0);
                self.hashes[place] = hash;
            }
        }
    }
}

/// True if clients cannot make so many of these that others go.
fn is_of_engine(id: &str) -> bool {
    // The quarantine's are as many as those of clients.
    is_reserved_producer(id) && !id.starts_with(QUARANTINE_PRODUCER)
}

/// True for a partition of a topic, in its stream or in the quarantine.
fn is_source(id: &str) -> bool {
    id.strip_prefix(QUARANTINE_PRODUCER).unwrap_or(id).starts_with(SOURCE_PRODUCER)
}

impl Producers {
    pub(crate) fn new(max: usize) -> Producers {
        Producers {
            of_clients: ProducerUse::new(max, SEQUENCES_KEPT),
            of_engine: ProducerUse::new(max, SEQUENCES_KEPT),
            of_sources: ProducerUse::new(usize::MAX, 1),
        }
    }

    fn of(&self, id: &str) -> &ProducerUse {
        match id {
            id if is_source(id) => &self.of_sources,
            id if is_of_engine(id) => &self.of_engine,
            _ => &self.of_clients,
        }
    }

    fn of_mut(&mut self, id: &str) -> &mut ProducerUse {
        match id {
            id if is_source(id) => &mut self.of_sources,
            id if is_of_engine(id) => &mut self.of_engine,
            _ => &mut self.of_clients,
        }
    }

    /// The last number of a producer.
    pub(crate) fn last_sequence(&self, id: &str) -> Option<u64> {
        Some(self.of(id).by_id.get(id)?.requests.back()?.receipt.sequence)
    }

    /// The names of the partitions of topics.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &str> {
        self.of_sources.by_id.keys().map(|id| &**id)
    }

    /// The verdict on part `part` of request `sequence`, all of whose parts before `after` are to be there; `hash`: of
    /// what it has, 0 where that is not known.
    pub(crate) fn check(&self, id: &str, sequence: u64, (part, after): (u16, u16), hash: u64) -> Verdict {
        let (part, after) = (u32::from(part), u32::from(after.min(part)));
        let Some(producer) = self.of(id).by_id.get(id) else { return Verdict::of_new(after) };
        match producer.place_of(sequence) {
            Ok(place) => {
                let request = &producer.requests[place];
                match request.receipt.parts {
                    parts if part < parts => match (hash, request.hash_of(part)) {
                        (0, _) | (_, 0) => Verdict::StoredStream(request.receipt),
                        (sent, stored) if sent == stored => Verdict::StoredStream(request.receipt),
                        _ => Verdict::Other,
                    },
                    parts if after <= parts => Verdict::New,
                    parts => Verdict::Gap(parts),
                }
            }
            Err(0) if producer.requests.len() >= self.of(id).sequences => {
                Verdict::Forgotten(producer.requests.front().map_or(0, |request| request.receipt.sequence))
            }
            Err(_) => Verdict::of_new(after),
        }
    }

    /// Records that a part was stored: the last of `part.parts`.
    pub(crate) fn record(&mut self, id: &str, part: Receipt, hash: u64) {
        self.of_mut(id).record(id, part, hash);
    }

    /// Records the hash of a recorded part, from a snapshot.
    pub(crate) fn record_hash(&mut self, id: &str, sequence: u64, part: u32, hash: u64) {
        let Some(producer) = self.of_mut(id).by_id.get_mut(id) else { return };
        if let Ok(place) = producer.place_of(sequence) {
            producer.requests[place].record_hash(part, hash);
        }
    }

    /// All producers and their requests, the least recent one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &Receipt>)> {
        let all = self.of_sources.iter().chain(self.of_engine.iter()).chain(self.of_clients.iter());
        all.map(|(id, producer)| (id, producer.requests.iter().map(|request| &request.receipt)))
    }

    /// The hashes of what was sent, as far as they are known: producer, number, part, hash.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = (&str, u64, u32, u64)> {
        let all = self.of_engine.iter().chain(self.of_clients.iter());
        let requests =
            all.flat_map(|(id, producer)| producer.requests.iter().map(move |request| (id, request)));
        requests.flat_map(|(id, request)| {
            let hashes = [&request.hash].into_iter().chain(&request.hashes).zip(0..);
            let known = hashes.filter(|(hash, _)| **hash != 0);
            known.map(move |(hash, part)| (id, request.receipt.sequence, part, *hash))
        })
    }
}

impl Producer {
    fn place_of(&self, sequence: u64) -> Result<usize, usize> {
        self.requests.binary_search_by_key(&sequence, |request| request.receipt.sequence)
    }
}

impl ProducerUse {
    fn new(max: usize, sequences: usize) -> ProducerUse {
        ProducerUse { by_id: HashMap::new(), by_use: BTreeMap::new(), uses: 0, max: max.max(1), sequences }
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &Producer)> {
        self.by_use.values().filter_map(|id| Some((&**id, self.by_id.get(id)?)))
    }

    fn record(&mut self, id: &str, part: Receipt, hash: u64) {
        self.uses += 1;
        let producer = self.by_id.entry(id.into()).or_default();
        self.by_use.remove(&producer.used);
        producer.used = self.uses;
        self.by_use.insert(self.uses, id.into());
        let number = part.parts.saturating_sub(1);
        match producer.place_of(part.sequence) {
            Ok(place) => {
                let request = &mut producer.requests[place];
                request.receipt = Receipt { accepted: request.receipt.accepted + part.accepted, ..part };
                request.record_hash(number, hash);
            }
            Err(place) => {
                let mut request = Request { receipt: part, hash: 0, hashes: Vec::new() };
                request.record_hash(number, hash);
                producer.requests.insert(place, request);
                if producer.requests.len() > self.sequences {
                    producer.requests.pop_front();
                }
            }
        }
        if self.by_id.len() > self.max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_id.remove(&oldest);
        }
    }
}

impl Verdict {
    fn of_new(after: u32) -> Verdict {
        if after == 0 { Verdict::New } else { Verdict::Gap(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(sequence: u64, parts: u32) -> Receipt {
        Receipt { sequence, parts, accepted: 2, offset: 10 * sequence, log_position: sequence }
    }

    #[test]
    fn retry_is_known_and_later_numbers_are_new() {
        let mut producers = Producers::new(10);
        assert_eq!(producers.check("a", 1, (0, 0), 0), Verdict::New);
        producers.record("a", receipt(1, 1), 0);
        assert_eq!(producers.check("a", 1, (0, 0), 0), Verdict::StoredStream(receipt(1, 1)));
        assert_eq!(producers.check("a", 2, (0, 0), 0), Verdict::New);
        assert_eq!(producers.check("b", 1, (0, 0), 0), Verdict::New);
    }

    #[test]
    fn numbers_may_come_in_any_order_within_those_kept() {
        let mut producers = Producers::new(10);
        for sequence in (100..100 + SEQUENCES_KEPT as u64).rev() {
            assert_eq!(producers.check("a", sequence, (0, 0), 0), Verdict::New);
            producers.record("a", receipt(sequence, 1), 0);
        }
        assert_eq!(producers.check("a", 99, (0, 0), 0), Verdict::Forgotten(100));
        producers.record("a", receipt(1000, 1), 0);
        assert_eq!(producers.check("a", 100, (0, 0), 0), Verdict::Forgotten(101));
        assert_eq!(
            producers.check("a", 500, (0, 0), 0),
            Verdict::New,
            "between those kept, it was never there"
        );
    }

    #[test]
    fn parts_are_stored_in_order_and_once() {
        let mut producers = Producers::new(10);
        assert_eq!(producers.check("a", 1, (1, 1), 0), Verdict::Gap(0));
        producers.record("a", receipt(1, 1), 0);
        assert_eq!(producers.check("a", 1, (2, 2), 0), Verdict::Gap(1));
        assert_eq!(producers.check("a", 1, (1, 1), 0), Verdict::New);
        producers.record("a", receipt(1, 2), 0);
        assert_eq!(
            producers.check("a", 1, (1, 1), 0),
            Verdict::StoredStream(Receipt { accepted: 4, ..receipt(1, 2) })
        );
    }

    #[test]
    fn part_without_a_good_event_leaves_no_gap() {
        let mut producers = Producers::new(10);
        assert_eq!(producers.check("a", 1, (1, 0), 0), Verdict::New, "the first part had none");
        producers.record("a", receipt(1, 2), 0);
        assert_eq!(producers.check("a", 1, (3, 2), 0), Verdict::New, "nor had the third");
        assert_eq!(producers.check("a", 1, (4, 4), 0), Verdict::Gap(2), "but this one was told to be there");
        producers.record("a", receipt(1, 4), 0);
        for part in 0..4 {
            assert!(matches!(producers.check("a", 1, (part, 0), 0), Verdict::StoredStream(_)), "part {part}");
        }
        assert_eq!(producers.check("a", 1, (4, 4), 0), Verdict::New);
    }

    #[test]
    fn who_wrote_longest_ago_is_forgotten_first() {
        let mut producers = Producers::new(2);
        for id in ["a", "b", "a", "c"] {
            producers.record(id, receipt(1, 1), 0);
        }
        assert_eq!(producers.check("b", 1, (0, 0), 0), Verdict::New);
        assert!(matches!(producers.check("a", 1, (0, 0), 0), Verdict::StoredStream(_)));
        let ids: Vec<&str> = producers.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(producers.of_clients.by_use.len(), 2);
    }

    #[test]
    fn clients_push_out_no_producer_of_the_engine() {
        let mut producers = Producers::new(2);
        for own in ["swiftwater/sink/0-1", "join 3-1"] {
            producers.record(own, receipt(1, 1), 0);
        }
        for client in 0..10 {
            producers.record(&format!("p{client}"), receipt(1, 1), 0);
            producers.record(&format!("{QUARANTINE_PRODUCER}1/0/p{client}"), receipt(1, 1), 0);
        }
        for own in ["swiftwater/sink/0-1", "join 3-1"] {
            assert!(matches!(producers.check(own, 1, (0, 0), 0), Verdict::StoredStream(_)), "{own}");
        }
        assert_eq!(producers.iter().count(), 4);
    }

    #[test]
    fn partitions_of_topics_are_never_evicted() {
        let mut producers = Producers::new(2);
        let partition = |number: u64| format!("{SOURCE_PRODUCER}id/{number}");
        for number in 0..100 {
            producers.record(&partition(number), receipt(7, 1), 0);
            producers.record(&partition(number), receipt(number + 8, 1), 0);
            producers.record(&format!("swiftwater/sink/{number}"), receipt(1, 1), 0);
        }
        for number in 0..100 {
            assert_eq!(producers.last_sequence(&partition(number)), Some(number + 8));
            assert_eq!(producers.check(&partition(number), number + 9, (0, 0), 0), Verdict::New);
            assert!(matches!(
                producers.check(&partition(number), number + 8, (0, 0), 0),
                Verdict::StoredStream(_)
            ));
            assert_eq!(producers.check(&partition(number), 7, (0, 0), 0), Verdict::Forgotten(number + 8));
        }
        assert_eq!(producers.sources().count(), 100);
        assert_eq!(producers.iter().map(|(_, receipts)| receipts.count()).sum::<usize>(), 102);
    }

    #[test]
    fn number_that_is_used_again_for_something_else_is_found_in_each_part() {
        let mut producers = Producers::new(2);
        producers.record("a", receipt(1, 1), 10);
        producers.record("a", receipt(1, 3), 30);
        for (part, sent, expected) in
            [(0, 10, true), (0, 11, false), (0, 0, true), (1, 7, true), (2, 30, true), (2, 10, false)]
        {
            let verdict = producers.check("a", 1, (part, 0), sent);
            assert_eq!(matches!(verdict, Verdict::StoredStream(_)), expected, "part {part}: {verdict:?}");
            assert_eq!(verdict == Verdict::Other, !expected);
        }
        assert_eq!(producers.hashes().collect::<Vec<_>>(), [("a", 1, 0, 10), ("a", 1, 2, 30)]);
        let mut again = Producers::new(2);
        again.record("a", receipt(1, 3), 0);
        for (id, sequence, part, hash) in producers.hashes() {
            again.record_hash(id, sequence, part, hash);
        }
        assert_eq!(again.check("a", 1, (0, 0), 11), Verdict::Other);
    }
}
