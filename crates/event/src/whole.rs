//! Finds the events that contain more than their decoded columns.
//!
//! An event has as many colons of its own as it has keys. If this number equals the number of wanted fields that were
//! found, there is no other field, and no wanted field occurs twice. Therefore no key has to be compared. The builder of
//! a map ([`crate::build`]) records whether a key occurs twice within the map. A value of which no map is built is stored
//! as its whole text.

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

/// The events in which one of these places of the batch's buffer lies.
pub(crate) fn with_one_of(batch: &EventBatch, places: &mut [u32]) -> Option<BooleanBuffer> {
    if places.is_empty() {
        return None;
    }
    places.sort_unstable();
    let has_one = |row: usize| {
        let span = batch.span(row);
        let first = places.partition_point(|&place| (place as usize) < span.start);
        places.get(first).is_some_and(|&place| (place as usize) < span.end)
    };
    Some(BooleanBuffer::collect_bool(batch.len(), has_one))
}
