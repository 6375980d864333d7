//! A standing query as stored in the index: bound to the columns of the decode plan.

use std::sync::Arc;

use smallvec::SmallVec;
use swiftwater_event::{DecodePlan, Want, WantId};
use swiftwater_lang::plan::Window;

use super::QueryNumber;
use crate::{
    operate::SlicePlan,
    standing::{CompiledBody, StandingQuery},
};

/// A query in the index.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: QueryNumber,
    pub(crate) query: Arc<StandingQuery>,
    /// The division of groups into slices.
    pub(crate) slices: Arc<SlicePlan>,
    /// The paths of the conditions, the residual, the event time and the body, in this order.
    columns: SmallVec<[WantId; 4]>,
    /// Starts in `columns` of those of the residual, the event time and the body.
    starts: [u32; 3],
    /// The body's paths are decoded only of events that matched.
    pub(crate) body_is_late: bool,
    /// All that is made of its events is their number.
    pub(crate) counts_rows: Option<CountsRows>,
}

/// The way a query counts rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountsRows {
    /// All it ever sees.
    Whole,
    /// The rows are counted in windows by arrival.
    Sliced,
}

impl CountsRows {
    fn of(query: &StandingQuery) -> Option<CountsRows> {
        let CompiledBody::Group(group) = &query.body else { return None };
        if !group.counts_rows()
            || query.views.is_some()
            || query.event_time.is_some()
            || query.pattern.is_some()
        {
            return None;
        }
        match query.plan.window {
            Window::None => Some(CountsRows::Whole),
            Window::Time { .. } => Some(CountsRows::Sliced),
            Window::Records { .. } | Window::Session { .. } => None,
        }
    }
}

impl Entry {
    /// `all` must hold the wants of [`wants_of_all`], `late` those of [`wants_when_late`].
    pub(crate) fn new(
        number: QueryNumber,
        query: &Arc<StandingQuery>,
        slices: &Arc<SlicePlan>,
        all: &DecodePlan,
        late: &DecodePlan,
    ) -> Entry {
        let body_is_late = body_is_late(query);
        let bind = |want: &Want| column(want, all);
        let mut columns: SmallVec<[WantId; 4]> =
            query.filter.conditions.iter().map(|condition| bind(&condition.want)).collect();
        let start = |columns: &[WantId]| columns.len() as u32;
        let mut starts = [start(&columns); 3];
        let residual = query.residual.iter().flat_map(|residual| residual.wants.as_slice());
        columns.extend(residual.map(bind));
        starts[1] = start(&columns);
        columns.extend(query.event_time.iter().flat_map(|time| time.wants.as_slice()).map(bind));
        starts[2] = start(&columns);
        let of_body = if body_is_late { late } else { all };
        columns.extend(query.body_wants.as_slice().iter().map(|want| column(want, of_body)));
        let is_cut = || slices.with(0, |_, cuts| cuts.series_count() > 0);
        let counts_rows = match CountsRows::of(query) {
            Some(CountsRows::Whole) if is_cut() => Some(CountsRows::Sliced),
            how => how,
        };
        let (query, slices) = (Arc::clone(query), Arc::clone(slices));
        Entry { number, query, slices, columns, starts, body_is_late, counts_rows }
    }

    /// Columns of the filter's conditions, by their numbers.
    pub(crate) fn conditions(&self) -> &[WantId] {
        &self.columns[..self.starts[0] as usize]
    }

    /// Columns of the residual's wants.
    pub(crate) fn residual(&self) -> &[WantId] {
        &self.columns[self.starts[0] as usize..self.starts[1] as usize]
    }

    /// Columns of the event time's wants.
    pub(crate) fn time(&self) -> &[WantId] {
        &self.columns[self.starts[1] as usize..self.starts[2] as usize]
    }

    /// Columns of the body's wants: in the plan for all events, or (`body_is_late`) in the one for matched events.
    pub(crate) fn body(&self) -> &[WantId] {
        &self.columns[self.starts[2] as usize..]
    }

    /// Columns of the plan for all events.
    pub(crate) fn columns_of_all(&self) -> &[WantId] {
        if self.body_is_late { &self.columns[..self.starts[2] as usize] } else { &self.columns }
    }

    /// Bytes held, about, without the compiled query.
    pub(crate) fn bytes(&self) -> usize {
        let spilled = if self.columns.spilled() { self.columns.capacity() * size_of::<WantId>() } else { 0 };
        size_of::<Entry>() + 16 + spilled
    }

    /// The same query, bound to other plans.
    pub(crate) fn rebound(&self, all: &DecodePlan, late: &DecodePlan) -> Entry {
        Entry::new(self.number, &self.query, &self.slices, all, late)
    }
}

fn column(want: &Want, plan: &DecodePlan) -> WantId {
    plan.find(want).expect("the plan holds every query's wants")
}

/// A query whose filter lets through more than this share of the events has its body's paths decoded of all of them:
/// going through an event a second time costs more than a few more of its fields the first time.
const LATE_SHARE_MAX: f64 = 0.25;

/// True if the body's paths are decoded of matched events only.
pub(crate) fn body_is_late(query: &StandingQuery) -> bool {
    query.filter.guess() < LATE_SHARE_MAX
}

/// The paths that a query reads of every event.
pub(crate) fn wants_of_all(query: &StandingQuery) -> impl Iterator<Item = &Want> {
    let body = if body_is_late(query) { &[] } else { query.body_wants.as_slice() };
    let times = query.event_time.iter().flat_map(|time| time.wants.as_slice());
    query.filter_wants().chain(body).chain(times)
}

/// The paths that a query reads of matched events only.
pub(crate) fn wants_when_late(query: &StandingQuery) -> impl Iterator<Item = &Want> {
    let body = if body_is_late(query) { query.body_wants.as_slice() } else { &[] };
    body.iter()
}
