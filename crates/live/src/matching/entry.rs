//! A standing query as the index holds it: bound to the columns of the decode plan.

use std::sync::Arc;

use swiftwater_event::{DecodePlan, Want, WantId};

use super::QueryNumber;
use crate::{expr::Wants, operate::SlicePlan, standing::StandingQuery};

/// A query in the index.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: QueryNumber,
    pub(crate) query: Arc<StandingQuery>,
    /// How groups are cut into slices.
    pub(crate) slices: Arc<SlicePlan>,
    /// Columns of the filter's conditions, by their numbers.
    pub(crate) conditions: Box<[WantId]>,
    /// Columns of the residual's wants.
    pub(crate) residual: Box<[WantId]>,
    /// Columns of the body's wants: in the plan for all events, or (`body_is_late`) in the one for matched events.
    pub(crate) body: Box<[WantId]>,
    /// Columns of the event time's wants.
    pub(crate) time: Box<[WantId]>,
    /// The body's paths are decoded only of events that matched.
    pub(crate) body_is_late: bool,
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
        let bind = |wants: &Wants, plan: &DecodePlan| {
            wants.as_slice().iter().map(|want| column(want, plan)).collect()
        };
        let body_is_late = body_is_late(query);
        Entry {
            number,
            query: Arc::clone(query),
            slices: Arc::clone(slices),
            conditions: query
                .filter
                .conditions
                .iter()
                .map(|condition| column(&condition.want, all))
                .collect(),
            residual: query
                .residual
                .as_ref()
                .map_or_else(Box::default, |residual| bind(&residual.wants, all)),
            body: bind(&query.body_wants, if body_is_late { late } else { all }),
            time: query.event_time.as_ref().map_or_else(Box::default, |time| bind(&time.wants, all)),
            body_is_late,
        }
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

/// Whether the body's paths are decoded of matched events only.
pub(crate) fn body_is_late(query: &StandingQuery) -> bool {
    query.filter.guess() < LATE_SHARE_MAX
}

/// What a query wants of every event.
pub(crate) fn wants_of_all(query: &StandingQuery) -> impl Iterator<Item = &Want> {
    let body = if body_is_late(query) { &[] } else { query.body_wants.as_slice() };
    let times = query.event_time.iter().flat_map(|time| time.wants.as_slice());
    query.filter_wants().chain(body).chain(times)
}

/// What a query wants of matched events only.
pub(crate) fn wants_when_late(query: &StandingQuery) -> impl Iterator<Item = &Want> {
    let body = if body_is_late(query) { query.body_wants.as_slice() } else { &[] };
    body.iter()
}
