//! Blocks of events in memory, with their fields in a fixed order, or shuffled in each event.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use swiftwater_event::{CheckLimits, EventBatch, check_block};
use swiftwater_testkit::{Rng, published::PublishedEvents};

/// Events that are looked at together.
pub(crate) struct Block {
    pub(crate) text: Bytes,
    /// The same, checked.
    pub(crate) batch: EventBatch,
}

/// The order of an event's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    Kept,
    Shuffled,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Kept => "fields in order",
            Order::Shuffled => "fields shuffled in each event",
        }
    }
}

const BLOCK_BYTES: usize = 256 << 10;
const SEED: u64 = 31;

/// At least so many bytes of events, in blocks.
pub(crate) fn blocks(order: Order, bytes: usize) -> Vec<Block> {
    let mut generator = PublishedEvents::new(SEED, 0, 0.0);
    let mut rng = Rng::new(SEED);
    let mut blocks = Vec::new();
    let mut so_far = 0;
    let mut event = Vec::new();
    while so_far < bytes {
        let mut text = Vec::with_capacity(BLOCK_BYTES + 4096);
        while text.len() < BLOCK_BYTES {
            match order {
                Order::Kept => generator.write(1, &mut text),
                Order::Shuffled => {
                    event.clear();
                    generator.write(1, &mut event);
                    shuffle(event.trim_ascii_end(), &mut rng, &mut text);
                }
            }
        }
        so_far += text.len();
        let text = Bytes::from(text);
        let batch = check_block(text.clone(), &CheckLimits::default(), 1).batch;
        blocks.push(Block { text, batch });
    }
    blocks
}

/// Writes an event with its fields in any order, and a line break.
pub(super) fn shuffle(event: &[u8], rng: &mut Rng, out: &mut Vec<u8>) {
    let inner = &event[1..event.len() - 1];
    let mut fields = Vec::with_capacity(96);
    let (mut start, mut depth, mut is_text) = (0, 0, false);
    for (at, byte) in inner.iter().enumerate() {
        // None of these events has a quote or a backslash within a text.
        match byte {
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => depth += 1,
            b'}' | b']' if !is_text => depth -= 1,
            b',' if !is_text && depth == 0 => {
                fields.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&inner[start..]);
    for at in (1..fields.len()).rev() {
        fields.swap(at, rng.below(at + 1));
    }
    out.push(b'{');
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(field);
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_events_are_the_same_in_another_order() {
        let (kept, shuffled) = (blocks(Order::Kept, 1), blocks(Order::Shuffled, 1));
        let parsed = |block: &Block, row: usize| {
            serde_json::from_slice::<serde_json::Value>(block.batch.event(row)).unwrap()
        };
        let (kept, shuffled) = (&kept[0], &shuffled[0]);
        assert_eq!(kept.batch.len(), shuffled.batch.len());
        for row in 0..kept.batch.len() {
            assert_eq!(parsed(kept, row), parsed(shuffled, row));
            assert_ne!(kept.batch.event(row), shuffled.batch.event(row));
        }
    }
}
