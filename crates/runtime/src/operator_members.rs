//! The members of a shared operator: a query joins the operator of a stream, and leaves it.

use swiftwater_event::Millis;
use swiftwater_live::{Index, QueryNumber};

use crate::{
    merge::Merge,
    query::active::Running,
    stream::{Stream, Turn},
};

impl Merge {
    /// Makes a query a member of an operator, which is new where there is an index with it. The caller holds `change`.
    pub(crate) fn join(
        &mut self,
        stream: &Stream,
        (number, places): (QueryNumber, Option<Box<[usize]>>),
        running: &mut Running,
        turn: Turn,
        index: Option<Index>,
    ) {
        let Some(operator) = self.operators.get_mut(&number) else { return };
        let collector = &mut running.work().collector;
        let cuts = collector.cuts();
        let all = operator.cuts().and(&cuts);
        let begins = stream.turn(turn, index, Some((&operator.plan, all, self.position)));
        let timeline = collector.timeline();
        let (first, _) = begins;
        if !operator.passes_on {
            collector.restrict_epochs(first..u64::MAX);
        }
        if let Some(places) = places {
            collector.map_aggregates(places);
        }
        running.work().operator = Some(number);
        operator.join(running.handle.number, (cuts, timeline), begins, self.position);
        running.first_offset = first;
    }

    /// Begins a member's leaving, with an index without the operator where it is the last member; answers the offset of
    /// the first event that it does not see. The caller holds `change`.
    pub(crate) fn leave(
        &mut self,
        stream: &Stream,
        number: QueryNumber,
        at: Millis,
        index: Option<Index>,
    ) -> Option<u64> {
        let running = self.running.get_mut(&number)?;
        let shared = running.operator()?;
        let operator = self.operators.get_mut(&shared)?;
        let key = operator.meaning.key();
        if index.is_some()
            && let Some(operators) = self.by_meaning.get_mut(&key)
        {
            operators.retain(|operator| *operator != shared);
            if operators.is_empty() {
                self.by_meaning.remove(&key);
            }
        }
        let cuts = operator.cuts_without(number);
        let (last, _) = stream.turn(Turn::Leaves(at), index, Some((&operator.plan, cuts, self.position)));
        operator.leave(number, last, self.position);
        if !operator.passes_on {
            running.work().collector.restrict_until(last);
        }
        Some(last)
    }
}
