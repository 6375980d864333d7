//! Turns the requested paths of a batch into columns.
//!
//! A decoder has three parts: [`crate::seek`] finds wanted keys by the bytes before a colon, [`crate::walk`] notes where
//! each value lies, [`crate::build`] builds the columns. The structure of the batch is checked and marked before
//! ([`crate::structure`]).
//!
//! Rejected: dropping events by a search for the constants of the queries before anything else is known of them (Palkar
//! et al., "Filter Before You Parse", VLDB 2018). This would save parsing. Here every event is checked, for any
//! queries, and the check is most of the cost. By `bench/RESULTS.md` the check runs at 3.5 GB/s on one core with
//! AVX-512, and decoding four fields at 8.6 GB/s. So for an event of 1.85 KB, all but some 215 of 740 ns are spent
//! before a search could spare anything, and the search for each constant is itself a pass over the bytes.
//!
//! A missing value and `null` are null. A key that a map does not have is missing, and so is everything below a `null`.
//! An element past the end of a list does not exist, nor does a step into a value without such parts. Both are null, with
//! a mark in the column's error mask. If keys are equal, the last one counts, with everything below it.
//!
//! These values fit each type:
//!
//! - BOOLEAN: `true` and `false`. STRING: strings.
//! - FLOAT and DOUBLE: any number, rounded to the nearest once, infinite beyond the largest. Also the texts `"NaN"`,
//!   `"Infinity"` and `"-Infinity"`, which is how [`crate::write_json`] writes such numbers.
//! - INTEGER and LONG: numbers whose value is whole and fits, however written (`5`, `5.0`, `1e3`), exactly.
//! - TIMESTAMP: RFC 3339 text (a space may replace the `T`; no zone is UTC), or a value of LONG, in the type's unit.
//! - LIST and MAP: a list, an object. An element that does not fit is null in it, and the row counts as mistyped, once.
//!   With elements of ANY, the column is tagged: everything except the outer container is null and mistyped, and its
//!   contents are not checked.
//! - ANY: everything. A number without point and exponent that fits 64 bits is a Long (`-0` is 0), any other a Double.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};

use crate::{
    Column, DecodePlan, Decoded, EventBatch,
    build::Source,
    order::KeyPredictor,
    seek::Colons,
    structure::block,
    walk::{SeenKey, Slot, Walk},
    whole,
};

/// Decodes batches. Its scratch memory is reused, so one per thread is best.
#[derive(Debug, Default)]
pub struct Decoder {
    slots: Vec<Slot>,
    seen: Vec<Vec<SeenKey>>,
    order: KeyPredictor,
    colons: Colons,
    key: Vec<u8>,
    /// Keys of each event that are not accounted for.
    keys: Vec<u32>,
    /// Starts of objects that have a key twice, among those decoded last.
    doubled: Vec<u32>,
}

impl Decoder {
    /// A decoder with no scratch memory yet.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// The columns of the plan's wants, in their order, with a row per event.
    ///
    /// Texts are views into the batch's own buffer, which the columns keep alive, unless they hold escapes. Cost: one
    /// walk through the events' bytes, and per row and want a few nanoseconds.
    pub fn decode(&mut self, batch: &EventBatch, plan: &DecodePlan) -> Decoded {
        let rows = batch.len();
        let wants = plan.wants();
        self.doubled.clear();
        if wants.is_empty() {
            self.slots.clear();
            return Decoded { rows, columns: Vec::new() };
        }
        self.slots.clear();
        self.slots.resize(rows * wants.len(), Slot::MISSING);
        self.seen.iter_mut().for_each(Vec::clear);
        if self.seen.len() < plan.node_count {
            self.seen.resize_with(plan.node_count, Vec::new);
        }
        self.order.forget();
        self.colons.forget();
        let mut walk = Walk {
            bytes: batch.bytes(),
            slots: &mut self.slots,
            rows,
            row: 0,
            marks: batch.marks(),
            isa: block::widest(),
            order: &mut self.order,
            colons: &mut self.colons,
            seen: &mut self.seen,
            key: &mut self.key,
        };
        walk.events(batch, plan);
        let mut source = Source::new(batch.bytes(), batch.marks());
        let columns = plan.layouts.iter().enumerate().map(|(place, layout)| {
            let slots = &self.slots[place * rows..(place + 1) * rows];
            let (values, misfits) = source.column(layout, slots);
            let errors = slots
                .contains(&Slot::ERROR)
                .then(|| BooleanBuffer::collect_bool(rows, |row| slots[row] == Slot::ERROR));
            let mistyped = (!misfits.is_empty()).then(|| {
                let mut mask = BooleanBufferBuilder::new(rows);
                mask.append_n(rows, false);
                misfits.iter().for_each(|&row| mask.set_bit(row as usize, true));
                mask.finish()
            });
            Column { values, errors, mistyped }
        });
        let columns: Vec<Column> = columns.collect();
        self.doubled = source.into_doubled();
        Decoded { rows, columns }
    }

    /// The same, and the events that hold more than the fields which are wanted whole: other fields, one of these twice, or
    /// a key twice in an object that is decoded as a map; `None`: no event does. Costs some nanoseconds an event more.
    pub fn decode_whole(
        &mut self,
        batch: &EventBatch,
        plan: &DecodePlan,
    ) -> (Decoded, Option<BooleanBuffer>) {
        let decoded = self.decode(batch, plan);
        let own = plan.root.keys.iter().filter_map(|(_, node)| node.here.first());
        let more = whole::with_more(batch, own, &self.slots, &mut self.keys);
        let doubled = whole::with_one_of(batch, &mut self.doubled);
        let more = match (more, doubled) {
            (Some(more), Some(doubled)) => Some(&more | &doubled),
            (more, doubled) => more.or(doubled),
        };
        (decoded, more)
    }
}
