//! Records that several queries make of the same events, made once and shared as bytes.
//!
//! Queries that differ in nothing but who asks are common: a hundred readers of one board. Their records of a batch are
//! the same bytes. So are those of queries that differ only in how they write the same filter. A hundred readers of one
//! query therefore cost as much as one, and a copy each into their connections.

use std::{ptr, sync::Arc};

use hashbrown::{HashMap, hash_map::Entry};

use super::QueryStep;
use crate::{
    matching::Matched,
    standing::{CompiledBody, SharedPlan},
};

/// The outputs of a batch so far, by their shape and their events.
#[derive(Default)]
pub(super) struct SharedOutputs {
    made: HashMap<Events, FirstOutput>,
}

/// Events that one [`SharedPlan`] is given: enough of them to look no further where they differ.
#[derive(PartialEq, Eq, Hash)]
struct Events {
    common: *const SharedPlan,
    first: u32,
    last: u32,
    count: usize,
}

/// The place of the query that made records first, and of its step.
#[derive(Clone, Copy)]
struct FirstOutput {
    found: usize,
    step: usize,
}

impl SharedOutputs {
    /// The step of the match at `place`, if an earlier step made the same. If none did, its own is expected at the end of
    /// `steps`.
    pub(super) fn step(
        &mut self,
        place: usize,
        matched: &[Matched<'_>],
        steps: &[QueryStep],
    ) -> Option<QueryStep> {
        let found = &matched[place];
        let query = &found.entry.query;
        let has_others = Arc::strong_count(&query.common) > 1;
        // Rows of lateral views tell of failures; an event's own time is of the query's slices.
        let is_plain = matches!(query.body, CompiledBody::Raw { .. })
            && query.views.is_none()
            && query.pattern.is_none()
            && query.event_time.is_none();
        if !has_others || !is_plain {
            return None;
        }
        let (&first, &last) = (found.rows.first()?, found.rows.last()?);
        let events = Events { common: ptr::from_ref(&*query.common), first, last, count: found.rows.len() };
        let made = match self.made.entry(events) {
            Entry::Occupied(made) => *made.get(),
            Entry::Vacant(free) => {
                free.insert(FirstOutput { found: place, step: steps.len() });
                return None;
            }
        };
        let (other, theirs) = (&matched[made.found], &steps[made.step]);
        if other.rows != found.rows {
            return None;
        }
        let mut step = QueryStep::of(found);
        step.mistyped += theirs.mistyped - other.mistyped;
        step.expression_errors += theirs.expression_errors - other.expression_errors;
        step.rows.clone_from(&theirs.rows);
        Some(step)
    }
}
