//! An operator that several queries share: its merged state, its members, and each member's part of the work.
//!
//! Aggregations of one meaning are members of one operator, however they are written and in whatever order their
//! aggregates are. An event is matched and folded once for all of them. Each member has its own windows over the
//! operator's slices, from the event at which it joined. Sessions and windows by record begin when their query begins.
//! Members with such windows share the matching and the values that are computed from each event; each member has
//! windows of its own. By event time, each member has the watermark of the events that it saw itself
//! ([`lines`](crate::lines)).
//!
//! A member sees the events from the offset at which it joined to the one at which it leaves. Outputs are delivered in
//! the order of the stream, so the operator's counts at either offset are known when the first output behind it comes.

use std::{collections::BTreeMap, sync::Arc, sync::atomic::Ordering};

use swiftwater_event::Millis;
use swiftwater_live::{
    CutCounts, Fingerprint, NO_TIME, Partial, QueryNumber, QueryStep, SliceBoundaries, SlicePlan, Slices,
    Timeline,
};

use crate::{EngineConfig, limits, lines::Lines, query::totals::Totals};

/// Series of cuts that one operator may have; beyond, a further operator is opened.
const CUTS_MAX: usize = 64;
/// Offsets at which members joined between whose events it still tells apart; beyond, a further operator is opened.
const EPOCHS_MAX: usize = 256;

/// The work done for the events that an operator saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) candidates: u64,
    pub(crate) residual_tests: u64,
    pub(crate) matches: u64,
    pub(crate) mistyped: u64,
    pub(crate) ahead: u64,
    pub(crate) expression_errors: u64,
    pub(crate) late: u64,
    /// Nanoseconds, divided among those who were members when they were spent.
    pub(crate) nanos: u64,
}

#[derive(Debug)]
struct Member {
    cuts: SliceBoundaries,
    /// The first offset that it sees, and the first that it does not.
    first: u64,
    last: Option<u64>,
    /// The first offset of which a window of it may still hold something.
    from: u64,
    /// The counts when it joined, and when it left.
    at_first: Option<Tally>,
    at_last: Option<Tally>,
}

#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) slices: Slices,
    /// Its members' windows by the events' own time.
    pub(crate) lines: Lines,
    pub(crate) plan: Arc<SlicePlan>,
    pub(crate) meaning: Fingerprint,
    /// Its members make their windows of single events, each its own: it holds nothing for them.
    pub(crate) passes_on: bool,
    members: BTreeMap<QueryNumber, Box<Member>>,
    /// The members that are not leaving: their number, and the boundaries of their windows.
    standing: usize,
    cuts: CutCounts,
    /// Members whose joining or leaving may not have been reached yet.
    moving: Vec<QueryNumber>,
    /// Offsets at which members joined, and up to where on the windows' line there may be events before them.
    apart: BTreeMap<u64, i64>,
    /// The latest event time so far.
    peak: Millis,
    /// Windows of members that were closed since slices were last dropped.
    closed: usize,
    tally: Tally,
    shard_bytes: i64,
    accounted_bytes: u64,
}

impl Tally {
    fn since(&self, before: &Tally) -> Tally {
        Tally {
            candidates: self.candidates - before.candidates,
            residual_tests: self.residual_tests - before.residual_tests,
            matches: self.matches - before.matches,
            mistyped: self.mistyped - before.mistyped,
            ahead: self.ahead - before.ahead,
            expression_errors: self.expression_errors - before.expression_errors,
            late: self.late - before.late,
            nanos: self.nanos - before.nanos,
        }
    }
}

impl Operator {
    pub(crate) fn new(plan: Arc<SlicePlan>, meaning: Fingerprint, passes_on: bool) -> Operator {
        Operator {
            slices: Slices::default(),
            lines: Lines::default(),
            plan,
            meaning,
            passes_on,
            members: BTreeMap::new(),
            standing: 0,
            cuts: CutCounts::default(),
            moving: Vec::new(),
            apart: BTreeMap::new(),
            peak: NO_TIME,
            closed: 0,
            tally: Tally::default(),
            shard_bytes: 0,
            accounted_bytes: 0,
        }
    }

    /// The window boundaries of its members that are not leaving.
    pub(crate) fn cuts(&self) -> SliceBoundaries {
        self.cuts.cuts()
    }

    /// True if more than one query may need what it holds.
    pub(crate) fn is_shared(&self) -> bool {
        self.members.len() > 1
    }

    /// True if a query with these cuts may join.
    pub(crate) fn has_room(&self, cuts: &SliceBoundaries) -> bool {
        self.cuts().and(cuts).series_count() <= CUTS_MAX && self.apart.len() < EPOCHS_MAX
    }

    /// A query sees the events from `first` on, of which those before arrived at `arrived` or earlier; its windows cut as
    /// `cuts` says, and close as `timeline` does where they go by the events' own time.
    pub(crate) fn join(
        &mut self,
        number: QueryNumber,
        (cuts, timeline): (SliceBoundaries, Option<Timeline>),
        (first, arrived): (u64, Millis),
        position: u64,
    ) {
        let at_first = (position >= first).then_some(self.tally);
        let until = match timeline {
            None => arrived,
            Some(_) if position >= first => self.peak,
            Some(_) => i64::MAX,
        };
        if !self.passes_on {
            self.apart.insert(first, until);
        }
        if let Some(timeline) = timeline {
            self.lines.join(number, timeline, first);
        }
        if at_first.is_none() {
            self.moving.push(number);
        }
        self.slices.add_border(first);
        self.cuts.add(&cuts);
        self.standing += 1;
        let member = Member { cuts, first, last: None, from: first, at_first, at_last: None };
        self.members.insert(number, Box::new(member));
    }

    /// A member will see nothing from `last` on.
    pub(crate) fn leave(&mut self, number: QueryNumber, last: u64, position: u64) {
        let Some(member) = self.members.get_mut(&number) else { return };
        member.last = Some(last);
        member.at_last = (position >= last).then_some(self.tally);
        if member.at_first.is_some() && member.at_last.is_none() {
            self.moving.push(number);
        }
        self.standing -= 1;
        self.lines.leave(number, last);
        self.slices.add_border(last);
    }

    /// No window of a member holds anything any more of the events before this offset, which arrived at `arrived` or
    /// earlier.
    pub(crate) fn restrict_from(&mut self, number: QueryNumber, offset: u64, arrived: Millis) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let before = std::mem::replace(&mut member.from, offset);
        self.apart.insert(offset, arrived);
        self.slices.add_border(offset);
        self.slices.remove_border(before);
    }

    /// Takes a member's cuts away, before it leaves; answers those of the others.
    pub(crate) fn cuts_without(&mut self, number: QueryNumber) -> SliceBoundaries {
        if let Some(member) = self.members.get(&number).filter(|member| member.last.is_none()) {
            self.cuts.remove(&member.cuts);
        }
        self.cuts.cuts()
    }

    /// True if a member would be the last to leave.
    pub(crate) fn is_last(&self, number: QueryNumber) -> bool {
        let stands = self.members.get(&number).is_some_and(|member| member.last.is_none());
        self.standing == usize::from(stands)
    }

    /// Removes a member that has left; returns true if there are others.
    pub(crate) fn forget_member(&mut self, number: QueryNumber) -> bool {
        self.lines.forget(number);
        if let Some(member) = self.members.remove(&number) {
            self.slices.remove_border(member.from);
            if let Some(last) = member.last {
                self.slices.remove_border(last);
            }
            self.moving.retain(|moving| *moving != number);
            // A member that left before it was reached needs no separate state.
            let is_alone = || !self.members.values().any(|other| other.first == member.first);
            if member.at_first.is_none() && is_alone() {
                self.apart.remove(&member.first);
            }
        }
        !self.members.is_empty()
    }

    /// The members that see a batch whose first event has the offset `first`.
    pub(crate) fn members_at(&self, first: u64) -> Vec<QueryNumber> {
        let sees = |member: &Member| member.first <= first && member.last.is_none_or(|last| first < last);
        self.members.iter().filter(|(_, member)| sees(member)).map(|(number, _)| *number).collect()
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = QueryNumber> {
        self.members.keys().copied()
    }

    /// Counts closed windows; returns true if unused slices must be searched: that asks each member, so it is not
    /// done for every window.
    pub(crate) fn has_closed(&mut self, windows: usize) -> bool {
        self.closed += windows;
        self.closed * 4 >= self.members.len()
    }

    /// Drops slices that begin before `from`: no member needs them.
    pub(crate) fn drop_before(&mut self, from: i64) {
        self.closed = 0;
        self.slices.drop_before(from);
        self.apart.retain(|_, until| *until >= from);
    }

    /// Reads what a step needs; what it answers means nothing.
    pub(crate) fn touch(&self) -> u64 {
        let state = self.accounted_bytes ^ self.shard_bytes as u64 ^ self.slices.bytes() as u64;
        state ^ self.tally.candidates ^ self.tally.nanos ^ (self.moving.len() ^ self.members.len()) as u64
    }

    /// Takes one shard's step on one batch, whose first event has the offset `first`.
    pub(crate) fn accept_step(&mut self, step: &QueryStep, first: u64) {
        if !self.moving.is_empty() {
            self.move_members(first);
        }
        if let Some(timed) = &step.timed {
            self.peak = self.peak.max(timed.latest.time);
        }
        self.tally.candidates += step.candidates;
        self.tally.residual_tests += step.residual_tests;
        self.tally.matches += step.matches;
        self.tally.mistyped += step.mistyped;
        self.tally.ahead += step.ahead;
        self.tally.expression_errors += step.expression_errors;
        if step.nanos > 0 {
            self.tally.nanos += step.nanos / self.members.len().max(1) as u64;
        }
        self.shard_bytes += step.grown_bytes;
    }

    /// Records the counts when members join or leave at a batch whose first event has the offset `first`.
    fn move_members(&mut self, first: u64) {
        self.moving.retain(|number| {
            let Some(member) = self.members.get_mut(number) else { return false };
            if member.at_first.is_none() && member.first <= first {
                member.at_first = Some(self.tally);
                if let Some(until) = self.apart.get_mut(&member.first) {
                    *until = self.peak.min(*until);
                }
            }
            if member.at_last.is_none() && member.last.is_some_and(|last| last <= first) {
                member.at_last = Some(self.tally);
            }
            member.at_first.is_none() || (member.last.is_some() && member.at_last.is_none())
        });
    }

    /// Takes slices that were held on a shard.
    pub(crate) fn accept_slices(&mut self, partials: Vec<Partial>) {
        for partial in partials {
            self.shard_bytes -= partial.groups.bytes() as i64;
            self.slices.add(partial);
        }
    }

    /// The work done for a member.
    pub(crate) fn tally_of(&self, number: QueryNumber) -> Tally {
        let Some(member) = self.members.get(&number) else { return Tally::default() };
        let Some(before) = &member.at_first else { return Tally::default() };
        let tally = member.at_last.unwrap_or(self.tally).since(before);
        Tally { late: self.lines.late_of(number), ..tally }
    }

    /// A member's share of the bytes held.
    pub(crate) fn bytes_share(&self) -> u64 {
        self.bytes() / self.members.len().max(1) as u64
    }

    fn bytes(&self) -> u64 {
        self.slices.bytes() as u64 + u64::try_from(self.shard_bytes).unwrap_or(0)
    }

    /// Updates the engine's total; returns the fault if it holds too much.
    pub(crate) fn account(&mut self, config: &EngineConfig, totals: &Totals) -> Option<String> {
        let bytes = self.bytes();
        let before = std::mem::replace(&mut self.accounted_bytes, bytes);
        let total = totals.account(before, bytes);
        // No member's share is more than the whole.
        let share = if bytes > config.query_state_bytes_max as u64 { self.bytes_share() } else { bytes };
        if share > config.query_state_bytes_max as u64 {
            return Some(limits::query_state(share, config));
        }
        (bytes > before && total > config.state_bytes_max as u64).then(|| limits::all_state(total, config))
    }

    /// Takes its state out of the engine's total.
    pub(crate) fn forget(&mut self, totals: &Totals) {
        totals.state_bytes.fetch_sub(std::mem::take(&mut self.accounted_bytes), Ordering::Relaxed);
    }
}
