//! The merged groups of an operator, in slices: each holds what is between two cuts of its windows' line, of events that
//! came after one of its queries joined (an *epoch*, named by the offset of its first event) and before the next did.
//!
//! A window is the merge of the slices in it. Slices are kept apart by epoch only where a query that stands begins, or
//! ends, between them; the others are merged as they come.

use std::{collections::BTreeMap, ops::Range};

use super::Groups;

/// A slice as a shard hands it on.
#[derive(Debug)]
pub struct Partial {
    /// The first offset of its epoch.
    pub epoch: u64,
    /// Where it begins on the windows' line.
    pub start: i64,
    /// What is in it.
    pub groups: Groups,
}

/// The slices of an operator.
#[derive(Debug, Default)]
pub struct Slices {
    slices: BTreeMap<(i64, u64), Groups>,
    /// Where an epoch begins that must be kept apart from those before it, and for how many queries.
    borders: BTreeMap<u64, usize>,
    bytes: usize,
}

impl Slices {
    /// Keeps epochs from `epoch` on apart from those before it.
    pub fn add_border(&mut self, epoch: u64) {
        *self.borders.entry(epoch).or_default() += 1;
    }

    /// Takes back one [`Slices::add_border`]; what it alone kept apart is merged, what nobody begins before is dropped.
    pub fn remove_border(&mut self, epoch: u64) {
        let Some(count) = self.borders.get_mut(&epoch) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.borders.remove(&epoch);
        let next = self.borders.range(epoch..).next().map_or(u64::MAX, |(&next, _)| next);
        let moved = self.slices.extract_if(.., |&(_, of), _| (epoch..next).contains(&of)).collect::<Vec<_>>();
        for ((start, epoch), groups) in moved {
            self.bytes -= groups.bytes();
            self.add(Partial { epoch, start, groups });
        }
    }

    /// The borders that there are.
    pub fn borders(&self) -> impl Iterator<Item = u64> {
        self.borders.keys().copied()
    }

    /// Takes in a slice, or more of one. Without any border all epochs are one.
    pub fn add(&mut self, partial: Partial) {
        let epoch = match self.borders.range(..=partial.epoch).next_back() {
            Some((&border, _)) => border,
            None if self.borders.is_empty() => 0,
            // Nobody who stands saw it.
            None => return,
        };
        let Partial { start, mut groups, .. } = partial;
        match self.slices.get_mut(&(start, epoch)) {
            None => {
                self.bytes += groups.bytes();
                self.slices.insert((start, epoch), groups);
            }
            Some(ours) => {
                self.bytes -= ours.bytes();
                // The larger one stays, so that merging costs what the smaller one holds.
                if ours.len() < groups.len() {
                    std::mem::swap(ours, &mut groups);
                }
                ours.merge(&groups);
                self.bytes += ours.bytes();
            }
        }
    }

    /// What the slices hold that begin in `starts` and are of these epochs; `None` where nothing came. With `takes` they
    /// are taken out: no other window needs them.
    pub(crate) fn window(&mut self, starts: Range<i64>, epochs: &Range<u64>, takes: bool) -> Option<Groups> {
        if starts.is_empty() {
            return None;
        }
        if takes {
            let mut taken = self.slices.extract_if((starts.start, 0)..(starts.end, 0), |_, _| true);
            let ((_, _), mut whole) = taken.next()?;
            self.bytes -= whole.bytes();
            for (_, other) in taken {
                self.bytes -= other.bytes();
                whole.merge(&other);
            }
            return Some(whole);
        }
        let slices = self.slices.range((starts.start, 0)..(starts.end, 0));
        let mut slices = slices.filter(|((_, epoch), _)| epochs.contains(epoch)).map(|(_, groups)| groups);
        let mut whole = slices.next()?.clone();
        slices.for_each(|other| whole.merge(other));
        Some(whole)
    }

    /// Where the first slice from `start` on begins that is of these epochs.
    pub(crate) fn first_from(&self, start: i64, epochs: &Range<u64>) -> Option<i64> {
        let mut slices = self.slices.range((start, 0)..).map(|(key, _)| *key);
        slices.find(|(_, epoch)| epochs.contains(epoch)).map(|(start, _)| start)
    }

    /// Where the last slice of these epochs begins.
    pub(crate) fn last(&self, epochs: &Range<u64>) -> Option<i64> {
        let mut slices = self.slices.keys().rev();
        slices.find(|(_, epoch)| epochs.contains(epoch)).map(|(start, _)| *start)
    }

    /// Drops what begins before `start`.
    pub fn drop_before(&mut self, start: i64) {
        while let Some(first) = self.slices.first_entry().filter(|first| first.key().0 < start) {
            self.bytes -= first.remove().bytes();
        }
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
