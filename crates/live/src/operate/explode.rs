//! Lateral views and joins: turns each matched event into rows, one per element of a list, entry of a map, or joined row.
//!
//! Joins look up rows by key and run as views, too.
//!
//! Rows are produced depth first and a few at a time, so the memory in use stays small however many elements there are. A
//! view passes its rows to the next view when there are [`PART_ROWS`] of them, or when their events have [`PART_BYTES`].
//! An event's container is read once, however many rows it makes.
//!
//! Order: that of the events, then that of the elements. The entries of a map have the order of the event's text, and in
//! Bullet's dialect that of Java's `HashMap`. A null element makes a row like any other. A container makes no row, or
//! with OUTER one row whose new columns are null, in these cases:
//!
//! - it has no elements, is null, or does not exist;
//! - it is no container of the view's kind (in Bullet's dialect, a list of lists and a map of lists are none).
//!
//! A join looks each key of a group of events up once. A key with a null in it has no row; a key of a table may have
//! several.
//!
//! Limit: [`EVENT_ROWS_MAX`] rows of each view per event. Further rows are dropped, and each view of each affected event
//! counts as one failed operation. Therefore the same rows are dropped however the events are split over batches and
//! shards.

use std::{collections::HashMap, ops::ControlFlow};

use bumpalo::Bump;
use swiftwater_event::{Decoded, Millis, Value, WantId};
use swiftwater_lang::Dialect;

use crate::{
    expr::{
        EvalCounts, Rows, Scratch, encode_group_value, has_container_type, hash_map_order, requested_values,
    },
    joined::{CompiledJoin, JoinFailure, KeyRows},
    standing::{CompiledView, CompiledViews},
};

/// Rows that one view makes of one event, at most.
pub(crate) const EVENT_ROWS_MAX: u32 = 1 << 20;

/// Events whose values are in hand at a time, and rows of a view.
const PART_ROWS: usize = 1024;

/// Bytes of the events of those rows, each row's event counted: an expression may make as much of each row.
const PART_BYTES: usize = 1 << 20;

/// Matched events, as the views see them.
pub(crate) struct Matches<'b> {
    /// Columns, and for each matched event its row in them.
    pub(crate) decoded: &'b Decoded,
    pub(crate) rows: &'b [u32],
    /// The columns of the query's wants.
    pub(crate) bindings: &'b [WantId],
    /// The length of a matched event's text, by its place among them.
    pub(crate) event_bytes: &'b dyn Fn(usize) -> usize,
    /// Arrival of the batch.
    pub(crate) now: Millis,
}

/// Rows made of a few of the matched events.
pub(crate) struct ExplodedRows<'r> {
    /// The rows that the views' filter keeps.
    pub(crate) rows: Rows<'r>,
    /// The place of each one's event among the matched ones; ascending.
    pub(crate) matches: Vec<usize>,
}

/// Consumes rows; it breaks off where it needs no more.
pub(crate) type RowConsumer<'t> = dyn FnMut(&ExplodedRows<'_>, &mut EvalCounts) -> ControlFlow<()> + 't;

/// Makes rows of all matched events, in order; returns the failure if rows of a join could not be looked up.
pub(crate) fn explode(
    views: &CompiledViews,
    dialect: Dialect,
    input: &Matches<'_>,
    scratch: &mut Scratch,
    counts: &mut EvalCounts,
    take: &mut RowConsumer<'_>,
) -> Option<JoinFailure> {
    for (part, rows) in input.rows.chunks(PART_ROWS).enumerate() {
        let arena = Bump::new();
        let values = requested_values(input.decoded, input.bindings, rows, dialect, &arena);
        let mut explosion = ExplodeRun {
            views,
            dialect,
            first: part * PART_ROWS,
            input,
            made: vec![vec![0; rows.len()]; views.views.len()],
            scratch,
            counts,
            take,
            failure: None,
        };
        let events: Vec<u32> = (0..rows.len() as u32).collect();
        if explosion.view(0, &values, &events, &[]).is_break() {
            return explosion.failure;
        }
    }
    None
}

/// The views at work on some of the matched events.
struct ExplodeRun<'e, 'b> {
    views: &'e CompiledViews,
    dialect: Dialect,
    /// The place of the first event among the matched ones.
    first: usize,
    input: &'e Matches<'b>,
    /// The rows made so far, by view, then by event.
    made: Vec<Vec<u32>>,
    scratch: &'e mut Scratch,
    counts: &'e mut EvalCounts,
    take: &'e mut RowConsumer<'b>,
    failure: Option<JoinFailure>,
}

/// Rows of one view that are not handed on yet.
struct PendingRows<'a> {
    event_of_row: Vec<u32>,
    slots: Vec<Vec<Value<'a>>>,
    bytes: usize,
}

impl ExplodeRun<'_, '_> {
    /// Runs a view, and all after it, over rows of the one before.
    fn view<'a>(
        &mut self,
        number: usize,
        events: &'a [Vec<Value<'a>>],
        event_of_row: &'a [u32],
        slots: &'a [Vec<Value<'a>>],
    ) -> ControlFlow<()> {
        let all: Vec<u32> = (0..event_of_row.len() as u32).collect();
        let rows = Rows::Exploded { events, event_of_row, slots, rows: &all, now: self.input.now };
        let arena = Bump::new();
        let Some(CompiledView { container, is_outer, columns, join }) = self.views.views.get(number) else {
            return self.emit_rows(&rows, event_of_row, &all, &arena);
        };
        let mut containers = Vec::new();
        container.evaluate(&rows, self.scratch, &arena, self.counts, &mut containers);
        let joined = match join {
            None => None,
            Some(join) => match joined_rows(join, self.input.now, &containers, &arena) {
                Ok(joined) => Some(joined),
                Err(failure) => {
                    self.failure = Some(failure);
                    return ControlFlow::Break(());
                }
            },
        };
        let mut made = PendingRows {
            event_of_row: Vec::new(),
            slots: (0..slots.len() + columns).map(|_| Vec::new()).collect(),
            bytes: 0,
        };
        for (row, container) in containers.iter().enumerate() {
            let of_join = joined.as_ref().map(|joined| joined[row]);
            let length = match of_join {
                Some(found) => found.len(),
                None => self.parts(container, *columns),
            };
            let order = match container {
                Value::Map(entries) if self.dialect == Dialect::Bullet && length > 0 => {
                    hash_map_order(entries)
                }
                _ => Vec::new(),
            };
            for at in 0..length.max(usize::from(*is_outer)) {
                let at = order.get(at).map_or(at, |&at| at as usize);
                if !self.admits(number, event_of_row[row]) {
                    break;
                }
                made.event_of_row.push(event_of_row[row]);
                for (new, old) in made.slots.iter_mut().zip(slots) {
                    new.push(old[row]);
                }
                match (of_join.and_then(|rows| rows.get(at)), container, &mut made.slots[slots.len()..]) {
                    (Some(joined), _, new) => {
                        new.iter_mut().zip(*joined).for_each(|(column, value)| column.push(*value));
                    }
                    (None, Value::List(items), [value]) if length > 0 => value.push(items[at]),
                    (None, Value::Map(entries), [key, value]) if length > 0 => {
                        key.push(Value::String(entries[at].0));
                        value.push(entries[at].1);
                    }
                    (None, _, new) => new.iter_mut().for_each(|column| column.push(Value::Null)),
                }
                made.bytes += (self.input.event_bytes)(self.first + event_of_row[row] as usize);
                if made.event_of_row.len() >= PART_ROWS || made.bytes >= PART_BYTES {
                    self.view(number + 1, events, &made.event_of_row, &made.slots)?;
                    made.clear();
                }
            }
        }
        if made.event_of_row.is_empty() {
            return ControlFlow::Continue(());
        }
        self.view(number + 1, events, &made.event_of_row, &made.slots)
    }

    /// Number of elements or entries that a view of so many columns finds. A value that is there, but is no container
    /// of its kind, is counted.
    fn parts(&mut self, container: &Value<'_>, columns: usize) -> usize {
        let parts = match (container, columns) {
            (Value::Null | Value::Error, _) => Some(0),
            (Value::List(items), 1) => Some(items.len()),
            (Value::Map(entries), 2) => Some(entries.len()),
            _ => None,
        };
        let parts = parts.filter(|_| self.dialect != Dialect::Bullet || has_container_type(container));
        self.counts.expression_errors += u64::from(parts.is_none());
        parts.unwrap_or(0)
    }

    /// True if a view may make one row more of an event. The first that it may not is counted.
    fn admits(&mut self, view: usize, event: u32) -> bool {
        let made = &mut self.made[view][event as usize];
        self.counts.expression_errors += u64::from(*made == EVENT_ROWS_MAX);
        *made = made.saturating_add(1);
        *made <= EVENT_ROWS_MAX
    }

    fn emit_rows<'a>(
        &mut self,
        rows: &Rows<'a>,
        event_of_row: &[u32],
        all: &'a [u32],
        arena: &'a Bump,
    ) -> ControlFlow<()> {
        let mut kept = Vec::new();
        let Rows::Exploded { events, event_of_row: of_row, slots, now, .. } = *rows else {
            return ControlFlow::Continue(());
        };
        match &self.views.filter {
            Some(filter) => filter.filter_rows(rows, self.scratch, arena, self.counts, &mut kept),
            None => kept.extend_from_slice(all),
        }
        if kept.is_empty() {
            return ControlFlow::Continue(());
        }
        let matches = kept.iter().map(|&row| self.first + event_of_row[row as usize] as usize).collect();
        let rows = Rows::Exploded { events, event_of_row: of_row, slots, rows: &kept, now };
        (self.take)(&ExplodedRows { rows, matches }, self.counts)
    }
}

/// The rows of each key, which is a list, in the joined object.
fn joined_rows<'a>(
    join: &CompiledJoin,
    now: Millis,
    keys: &[Value<'a>],
    arena: &'a Bump,
) -> Result<Vec<KeyRows<'a>>, JoinFailure> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut distinct: Vec<&[Value<'_>]> = Vec::new();
    let mut encoded = Vec::new();
    let mut place_of = |key: &Value<'a>| {
        let Value::List(values) = *key else { return None };
        if values.iter().any(|value| matches!(value, Value::Null | Value::Error)) {
            return None;
        }
        encoded.clear();
        values.iter().for_each(|value| encode_group_value(value, Dialect::Native, &mut encoded));
        if let Some(place) = places.get(&encoded) {
            return Some(*place);
        }
        places.insert(encoded.clone(), distinct.len());
        distinct.push(values);
        Some(distinct.len() - 1)
    };
    let place_of_key: Vec<Option<usize>> = keys.iter().map(&mut place_of).collect();
    let found = join.look_up(&distinct, now, arena)?;
    Ok(place_of_key
        .into_iter()
        .map(|place| place.and_then(|place| found.get(place)).copied().unwrap_or(&[]))
        .collect())
}

impl PendingRows<'_> {
    fn clear(&mut self) {
        self.event_of_row.clear();
        self.slots.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
    }
}
