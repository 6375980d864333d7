//! Which requests of numbered producers a stream has stored, so that a retry is stored once.
//!
//! A producer names itself and numbers its requests, in any order but rising on the whole. Of each producer the last
//! 64 numbers are kept with what became of them; of producers, those that sent last. Both bounds hold
//! over restarts: the table is rebuilt from the catalog's snapshot and the log, where every stored part carries its number.
//! A request of several parts is stored part by part, in order, so how many are there says all. A part none of whose
//! events is taken in is nowhere noted: the next one that is stored counts it among those that are there.
//! Knows no clock: whoever wrote last in the log is the latest.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Numbers kept of each producer.
const SEQUENCES_KEPT: usize = 64;

/// The longest name of a producer, in bytes.
pub const PRODUCER_BYTES_MAX: usize = 128;

/// The producers of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Producers {
    by_id: HashMap<Box<str>, Producer>,
    /// Who wrote when, by a count of writes; for finding who wrote longest ago.
    by_use: BTreeMap<u64, Box<str>>,
    uses: u64,
    max: usize,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Producer {
    used: u64,
    /// By number, ascending; at most [`SEQUENCES_KEPT`].
    receipts: VecDeque<Receipt>,
}

/// What became of one request.
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
    /// Where the log stood after the last of them.
    pub(crate) log_position: u64,
}

/// What is to become of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is to be stored.
    New,
    /// It is stored already.
    Stored(Receipt),
    /// Its number is so far below the latest that nobody knows any more; this is the lowest that can be told.
    Forgotten(u64),
    /// Parts before it are missing; so many are there.
    Gap(u32),
}

impl Producers {
    pub(crate) fn new(max: usize) -> Producers {
        Producers { by_id: HashMap::new(), by_use: BTreeMap::new(), uses: 0, max: max.max(1) }
    }

    /// What is to become of part `part` of request `sequence`, all of whose parts before `after` are to be there.
    pub(crate) fn look(&self, id: &str, sequence: u64, part: u16, after: u16) -> Verdict {
        let (part, after) = (u32::from(part), u32::from(after.min(part)));
        let Some(producer) = self.by_id.get(id) else { return Verdict::of_new(after) };
        match producer.receipts.binary_search_by_key(&sequence, |receipt| receipt.sequence) {
            Ok(place) => {
                let receipt = producer.receipts[place];
                match receipt.parts {
                    parts if part < parts => Verdict::Stored(receipt),
                    parts if after <= parts => Verdict::New,
                    parts => Verdict::Gap(parts),
                }
            }
            Err(0) if producer.receipts.len() >= SEQUENCES_KEPT => {
                Verdict::Forgotten(producer.receipts.front().map_or(0, |receipt| receipt.sequence))
            }
            Err(_) => Verdict::of_new(after),
        }
    }

    /// Notes that a part was stored.
    pub(crate) fn note(&mut self, id: &str, part: Receipt) {
        self.uses += 1;
        let producer = self.by_id.entry(id.into()).or_default();
        self.by_use.remove(&producer.used);
        producer.used = self.uses;
        self.by_use.insert(self.uses, id.into());
        match producer.receipts.binary_search_by_key(&part.sequence, |receipt| receipt.sequence) {
            Ok(place) => {
                let receipt = &mut producer.receipts[place];
                *receipt = Receipt { accepted: receipt.accepted + part.accepted, ..part };
            }
            Err(place) => {
                producer.receipts.insert(place, part);
                if producer.receipts.len() > SEQUENCES_KEPT {
                    producer.receipts.pop_front();
                }
            }
        }
        if self.by_id.len() > self.max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Everything, whoever wrote longest ago first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &Receipt>)> {
        self.by_use.values().filter_map(|id| Some((&**id, self.by_id.get(id)?.receipts.iter())))
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
        assert_eq!(producers.look("a", 1, 0, 0), Verdict::New);
        producers.note("a", receipt(1, 1));
        assert_eq!(producers.look("a", 1, 0, 0), Verdict::Stored(receipt(1, 1)));
        assert_eq!(producers.look("a", 2, 0, 0), Verdict::New);
        assert_eq!(producers.look("b", 1, 0, 0), Verdict::New);
    }

    #[test]
    fn numbers_may_come_in_any_order_within_those_kept() {
        let mut producers = Producers::new(10);
        for sequence in (100..100 + SEQUENCES_KEPT as u64).rev() {
            assert_eq!(producers.look("a", sequence, 0, 0), Verdict::New);
            producers.note("a", receipt(sequence, 1));
        }
        assert_eq!(producers.look("a", 99, 0, 0), Verdict::Forgotten(100));
        producers.note("a", receipt(1000, 1));
        assert_eq!(producers.look("a", 100, 0, 0), Verdict::Forgotten(101));
        assert_eq!(producers.look("a", 500, 0, 0), Verdict::New, "between those kept, it was never there");
    }

    #[test]
    fn parts_are_stored_in_order_and_once() {
        let mut producers = Producers::new(10);
        assert_eq!(producers.look("a", 1, 1, 1), Verdict::Gap(0));
        producers.note("a", receipt(1, 1));
        assert_eq!(producers.look("a", 1, 2, 2), Verdict::Gap(1));
        assert_eq!(producers.look("a", 1, 1, 1), Verdict::New);
        producers.note("a", receipt(1, 2));
        assert_eq!(producers.look("a", 1, 1, 1), Verdict::Stored(Receipt { accepted: 4, ..receipt(1, 2) }));
    }

    #[test]
    fn part_without_a_good_event_leaves_no_gap() {
        let mut producers = Producers::new(10);
        assert_eq!(producers.look("a", 1, 1, 0), Verdict::New, "the first part had none");
        producers.note("a", receipt(1, 2));
        assert_eq!(producers.look("a", 1, 3, 2), Verdict::New, "nor had the third");
        assert_eq!(producers.look("a", 1, 4, 4), Verdict::Gap(2), "but this one was told to be there");
        producers.note("a", receipt(1, 4));
        for part in 0..4 {
            assert!(matches!(producers.look("a", 1, part, 0), Verdict::Stored(_)), "part {part}");
        }
        assert_eq!(producers.look("a", 1, 4, 4), Verdict::New);
    }

    #[test]
    fn who_wrote_longest_ago_is_forgotten_first() {
        let mut producers = Producers::new(2);
        for id in ["a", "b", "a", "c"] {
            producers.note(id, receipt(1, 1));
        }
        assert_eq!(producers.look("b", 1, 0, 0), Verdict::New);
        assert!(matches!(producers.look("a", 1, 0, 0), Verdict::Stored(_)));
        let ids: Vec<&str> = producers.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["a", "c"]);
        assert_eq!(producers.by_use.len(), 2);
    }
}
