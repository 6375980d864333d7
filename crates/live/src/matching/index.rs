//! The index over all standing queries of a stream: one immutable value, shared by all shards and replaced as a whole.
//!
//! A large main part and a small delta in front of it: adding a query rebuilds the delta only, and the main part when
//! the delta has outgrown it. Ended queries are remembered until the next rebuild of the main part.

use std::{collections::HashSet, sync::Arc};

use swiftwater_event::{DecodePlan, Want};

use super::part::{Part, Standing, body_is_late};
use crate::{operate::SlicePlan, standing::StandingQuery};

/// A query's number in its engine: never used again.
pub type QueryNumber = u64;

/// The queries that stand on a stream.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Decoded of every event.
    pub(crate) all: Arc<DecodePlan>,
    /// Decoded of events that matched a query with a late body.
    pub(crate) late: Arc<DecodePlan>,
    pub(crate) parts: [Arc<Part>; 2],
    ended: Arc<HashSet<QueryNumber>>,
}

const MAIN: usize = 0;
const DELTA: usize = 1;
/// A delta may grow to this, or to the square root of twice the main part where that is more: rebuilding the delta for
/// every query and the main part for every delta then cost the same.
const DELTA_MAX: usize = 128;

impl Index {
    /// The same index and one query more.
    #[must_use]
    pub fn with(&self, number: QueryNumber, query: &Arc<StandingQuery>) -> Index {
        self.with_slices(number, query, &Arc::default())
    }

    /// The same index and one query more; its groups are cut into slices as `slices` says.
    #[must_use]
    pub fn with_slices(
        &self,
        number: QueryNumber,
        query: &Arc<StandingQuery>,
        slices: &Arc<SlicePlan>,
    ) -> Index {
        let added = [(number, query, slices)];
        let old_delta = self.parts[DELTA].entries();
        let all = extended(&self.all, wants_of_all(query).collect());
        let late = extended(&self.late, wants_when_late(query).collect());
        if old_delta.len() < DELTA_MAX.max((self.parts[MAIN].entries().len() * 2).isqrt()) {
            let delta = Part::build(self.standing(DELTA).chain(added), &all, &late);
            let mut ended = Arc::clone(&self.ended);
            if old_delta.iter().any(|entry| !self.stands(entry.number)) {
                // What ended in the old delta is not in the new one.
                let ended = Arc::make_mut(&mut ended);
                old_delta.iter().for_each(|entry| {
                    ended.remove(&entry.number);
                });
            }
            Index { all, late, parts: [Arc::clone(&self.parts[MAIN]), Arc::new(delta)], ended }
        } else {
            let queries: Vec<_> = self.standing(MAIN).chain(self.standing(DELTA)).chain(added).collect();
            Index::of(&queries)
        }
    }

    /// The same index without one query.
    #[must_use]
    pub fn without(&self, number: QueryNumber) -> Index {
        let mut ended = (*self.ended).clone();
        ended.insert(number);
        let smaller = Index { ended: Arc::new(ended), ..self.clone() };
        let standing = smaller.len();
        // What ended is dropped when it is as much as what stands: each query is then rebuilt about once for it.
        if smaller.ended.len() > standing.max(DELTA_MAX) || standing == 0 {
            let queries: Vec<_> = smaller.standing(MAIN).chain(smaller.standing(DELTA)).collect();
            return Index::of(&queries);
        }
        smaller
    }

    fn of(queries: &[Standing<'_>]) -> Index {
        let all =
            Arc::new(DecodePlan::new(queries.iter().flat_map(|(_, query, _)| wants_of_all(query).cloned())));
        let late = Arc::new(DecodePlan::new(
            queries.iter().flat_map(|(_, query, _)| wants_when_late(query).cloned()),
        ));
        let main = Arc::new(Part::build(queries.iter().copied(), &all, &late));
        Index { all, late, parts: [main, Arc::default()], ended: Arc::default() }
    }

    fn standing(&self, part: usize) -> impl Iterator<Item = Standing<'_>> {
        let entries = self.parts[part].entries().iter();
        entries
            .filter(|entry| self.stands(entry.number))
            .map(|entry| (entry.number, &entry.query, &entry.slices))
    }

    pub(crate) fn stands(&self, number: QueryNumber) -> bool {
        self.ended.is_empty() || !self.ended.contains(&number)
    }

    /// Queries that stand.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.entries().len()).sum::<usize>() - self.ended.len()
    }

    /// Whether no query stands.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queries that every event is tested for, those that have ended since the last rebuild among them. Each has a share
    /// of work that a batch costs whatever its size.
    pub fn scanned(&self) -> usize {
        self.parts.iter().map(|part| part.scanned()).sum()
    }

    /// Bytes held, about, without the compiled queries.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes()).sum()
    }

    /// The paths decoded of every event.
    pub fn wants(&self) -> &[Want] {
        self.all.wants()
    }
}

fn wants_of_all(query: &StandingQuery) -> impl Iterator<Item = &Want> {
    let body = if body_is_late(query) { &[] } else { query.body_wants.as_slice() };
    let times = query.event_time.iter().flat_map(|time| time.wants.as_slice());
    query.filter_wants().chain(body).chain(times)
}

fn wants_when_late(query: &StandingQuery) -> impl Iterator<Item = &Want> {
    let body = if body_is_late(query) { query.body_wants.as_slice() } else { &[] };
    body.iter()
}

/// The plan with these wants too; columns that it has keep their places.
fn extended(plan: &Arc<DecodePlan>, wants: Vec<&Want>) -> Arc<DecodePlan> {
    if wants.iter().all(|want| plan.find(want).is_some()) {
        return Arc::clone(plan);
    }
    Arc::new(DecodePlan::new(plan.wants().iter().chain(wants).cloned()))
}
