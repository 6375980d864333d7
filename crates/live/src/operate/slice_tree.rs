//! Caches merges of neighbouring slices, so that a window of many slices is the merge of few.
//!
//! The line is halved recursively. The merge of an interval with several slices is cached when it is first requested, and
//! dropped when one of its slices changes or goes. Any window is a row of at most twice as many such intervals as a
//! logarithm has digits. A window of n slices merges some 2 log2 n of them, whatever the lengths and steps of the windows
//! that share them. Each interval is merged once. These are the base intervals of Arasu and Widom, "Resource Sharing in
//! Continuous Sliding-Window Aggregates", VLDB 2004.
//!
//! Caching pays if slices have keys in common. If a merge has nearly as many groups as its two halves together, neither
//! it nor any enclosing interval is cached. The cache takes no more memory than the slices themselves.

use std::{collections::BTreeMap, ops::Range};

use super::Groups;

/// Slices by where they begin, and by epoch.
pub(super) type SliceMap = BTreeMap<(i64, u64), Groups>;

/// Fewer slices than these are merged one by one.
const SLICES_MIN: usize = 8;

/// An interval of the line: its first point (as [`ordered`]), and the logarithm of its length.
type Interval = (u64, u32);

#[derive(Debug)]
struct Node {
    /// The groups; none: it is not worth keeping.
    groups: Option<Groups>,
    /// The first and the last epoch in it.
    epochs: (u64, u64),
}

/// The merges that are kept.
#[derive(Debug, Default)]
pub(super) struct SliceTree {
    nodes: BTreeMap<Interval, Node>,
    /// A bit for each length of an interval that there may be.
    levels: u64,
    bytes: usize,
}

/// The line's points in their order, from 0 on.
fn ordered(at: i64) -> u64 {
    (at ^ i64::MIN) as u64
}

/// The interval of this length that a point is in.
fn around(at: i64, level: u32) -> Interval {
    let first = ordered(at).checked_shr(level).and_then(|first| first.checked_shl(level));
    (first.unwrap_or(0), level)
}

/// The least interval with both points in it; they are different.
fn interval(first: i64, last: i64) -> Interval {
    around(first, 64 - (ordered(first) ^ ordered(last)).leading_zeros())
}

/// The last slice of an interval's first half, and the first one of its second; there are both.
fn halves(slices: &SliceMap, first: i64, last: i64) -> Option<(i64, i64)> {
    let (from, level) = interval(first, last);
    let middle = (from + (1 << (level - 1))) as i64 ^ i64::MIN;
    let (left, _) = slices.range((first, 0)..(middle, 0)).next_back()?;
    let (right, _) = slices.range((middle, 0)..).next()?;
    Some((left.0, right.0))
}

fn merge_into(whole: &mut Option<Groups>, groups: &Groups) {
    match whole {
        Some(whole) => whole.merge(groups),
        None => *whole = Some(groups.clone()),
    }
}

impl SliceTree {
    /// The merge of the slices that begin in `starts` and are of these epochs; none where there are no such. `bytes_max`
    /// is what merges may take up.
    pub(super) fn merged(
        &mut self,
        slices: &SliceMap,
        starts: Range<i64>,
        epochs: &Range<u64>,
        bytes_max: usize,
    ) -> Option<Groups> {
        let mut whole = None;
        let all = || slices.range((starts.start, 0)..(starts.end, 0));
        if all().nth(SLICES_MIN - 1).is_none() {
            let own = all().filter(|((_, epoch), _)| epochs.contains(epoch));
            own.for_each(|(_, groups)| merge_into(&mut whole, groups));
            return whole;
        }
        let mut from = starts.start;
        while let Some((&(first, _), _)) = slices.range((from, 0)..(starts.end, 0)).next() {
            let end = end_of_row(first, from, starts.end);
            let Some((&(last, _), _)) = slices.range((first, 0)..(end, 0)).next_back() else { break };
            self.build(slices, first, last, bytes_max);
            self.fold(slices, (first, last), epochs, &mut whole);
            from = end;
        }
        whole
    }

    /// Makes the merges of an interval and of all within it; returns true if there is one, or need be none.
    fn build(&mut self, slices: &SliceMap, first: i64, last: i64, bytes_max: usize) -> bool {
        // Few slices are merged from these: they may have no keys in common while more of them do.
        if slices.range((first, 0)..=(last, u64::MAX)).nth(SLICES_MIN - 1).is_none() {
            return true;
        }
        let interval = interval(first, last);
        if let Some(node) = self.nodes.get(&interval) {
            return node.groups.is_some();
        }
        let Some((left, right)) = halves(slices, first, last) else { return false };
        let are_kept =
            [(first, left), (right, last)].map(|(first, last)| self.build(slices, first, last, bytes_max));
        let mut node = Node { groups: None, epochs: (0, u64::MAX) };
        if are_kept == [true, true] {
            let mut whole = None;
            self.fold(slices, (first, left), &(0..u64::MAX), &mut whole);
            let left_groups = whole.as_ref().map_or(0, Groups::len);
            let mut other = None;
            self.fold(slices, (right, last), &(0..u64::MAX), &mut other);
            let groups = left_groups + other.as_ref().map_or(0, Groups::len);
            other.iter().for_each(|other| merge_into(&mut whole, other));
            node.epochs = self.epochs(slices, first, last);
            node.groups = whole
                .filter(|whole| whole.len() * 4 <= groups * 3 && self.bytes + whole.bytes() <= bytes_max);
        }
        let is_kept = node.groups.is_some();
        self.bytes += node.groups.as_ref().map_or(0, Groups::bytes);
        // The interval of all has no bit, and need not be found again: none is as long.
        self.levels |= 1u64.checked_shl(interval.1).unwrap_or(0);
        if interval.1 < u64::BITS {
            self.nodes.insert(interval, node);
        }
        is_kept
    }

    fn epochs(&self, slices: &SliceMap, first: i64, last: i64) -> (u64, u64) {
        let epochs = || slices.range((first, 0)..=(last, u64::MAX)).map(|((_, epoch), _)| *epoch);
        (epochs().min().unwrap_or(0), epochs().max().unwrap_or(0))
    }

    /// Merges the slices of an interval, from the merges there are.
    fn fold(
        &self,
        slices: &SliceMap,
        (first, last): (i64, i64),
        epochs: &Range<u64>,
        whole: &mut Option<Groups>,
    ) {
        if first == last {
            let own = slices.range((first, 0)..=(first, u64::MAX));
            let own = own.filter(|((_, epoch), _)| epochs.contains(epoch));
            return own.for_each(|(_, groups)| merge_into(whole, groups));
        }
        if let Some(Node { groups: Some(groups), epochs: (least, most) }) =
            self.nodes.get(&interval(first, last))
            && epochs.contains(least)
            && epochs.contains(most)
        {
            return merge_into(whole, groups);
        }
        let Some((left, right)) = halves(slices, first, last) else { return };
        self.fold(slices, (first, left), epochs, whole);
        self.fold(slices, (right, last), epochs, whole);
    }

    /// A slice has changed.
    pub(super) fn forget(&mut self, start: i64) {
        if self.nodes.is_empty() {
            return;
        }
        for level in (0..u64::BITS).filter(|level| self.levels & (1 << level) != 0) {
            if let Some(node) = self.nodes.remove(&around(start, level)) {
                self.bytes -= node.groups.as_ref().map_or(0, Groups::bytes);
            }
        }
    }

    /// The slices that begin before `start` are gone.
    pub(super) fn forget_before(&mut self, start: i64) {
        while let Some(first) = self.nodes.first_entry().filter(|first| first.key().0 < ordered(start)) {
            self.bytes -= first.remove().groups.as_ref().map_or(0, Groups::bytes);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = SliceTree::default();
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// End of the longest interval that contains `first` and nothing outside of `[from, to)`.
fn end_of_row(first: i64, from: i64, to: i64) -> i64 {
    let mut end = first.saturating_add(1);
    for level in 1..u64::BITS {
        let (begin, _) = around(first, level);
        let next = u128::from(begin) + (1u128 << level);
        if begin < ordered(from) || next > u128::from(ordered(to)) {
            break;
        }
        end = next as u64 as i64 ^ i64::MIN;
    }
    end
}
