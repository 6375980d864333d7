//! Tells which events hold more than what was decoded of them.
//!
//! An event has as many colons of its own as it has keys. Where that is how many of the wanted fields were found, there is
//! no other field, and none of them twice: so no key has to be looked at.

use arrow_buffer::BooleanBuffer;

use crate::{EventBatch, WantId, walk::Slot};

/// The events that hold other fields than these, or one of these twice. `wants` are of one step each, no two of the same
/// key; `slots` are a batch's, a slot a want and row.
pub(crate) fn with_more<'w>(
    batch: &EventBatch,
    wants: impl Iterator<Item = &'w WantId>,
    slots: &[Slot],
    keys: &mut Vec<u32>,
) -> Option<BooleanBuffer> {
    let rows = batch.len();
    let marks = batch.marks();
    keys.clear();
    keys.extend((0..rows).map(|row| {
        let span = batch.span(row);
        marks.colons(span.start, span.end).map(|(_, colons)| colons.count_ones()).sum::<u32>()
    }));
    for want in wants {
        let slots = &slots[want.0 as usize * rows..][..rows];
        for (keys, slot) in keys.iter_mut().zip(slots) {
            *keys -= u32::from(slot.is_there());
        }
    }
    let any = keys.iter().fold(0, |any, keys| any | keys) != 0;
    any.then(|| BooleanBuffer::collect_bool(rows, |row| keys[row] != 0))
}
