//! The merged groups of an operator, in slices. The line of its windows is cut wherever a window begins or ends. A slice
//! has the events between two cuts that came after one of the operator's queries joined (an *epoch*, named by the offset
//! of its first event) and before the next joined.
//!
//! Each event is folded into one slice, and a window is the merge of its slices. So a hopping window costs an event no
//! more than a tumbling one. Merges of neighbouring slices are shared ([`slice_tree`](super::slice_tree)). Slices are
//! separate by epoch only if a standing query begins, or ends, between them; the others are merged as they come.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Groups,
    slice_tree::{SliceMap, SliceTree},
};

/// A slice as a shard hands it on.
#[derive(Debug)]
pub struct Partial {
    /// The first offset of its epoch.
    pub epoch: u64,
    /// Its start on the line of windows.
    pub start: i64,
    /// Its groups.
    pub groups: Groups,
}

/// The slices of an operator.
#[derive(Debug, Default)]
pub struct Slices {
    slices: SliceMap,
    /// Merges of neighbours.
    tree: SliceTree,
    /// Start of each epoch that must be kept apart from earlier ones, and the number of queries that need it.
    borders: BTreeMap<u64, usize>,
    bytes: usize,
}

impl Slices {
    /// Separates epochs from `epoch` on from those before it.
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
        self.tree.clear();
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
            // No present query saw it.
            None => return,
        };
        let Partial { start, mut groups, .. } = partial;
        self.tree.forget(start);
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

    /// The merge of the slices that begin in `starts` and are of these epochs; `None` if there are none. With `takes`
    /// they are removed: no other window needs them.
    pub fn window(&mut self, starts: Range<i64>, epochs: &Range<u64>, takes: bool) -> Option<Groups> {
        if starts.is_empty() {
            return None;
        }
        if takes {
            self.tree.clear();
            let mut taken = self.slices.extract_if((starts.start, 0)..(starts.end, 0), |_, _| true);
            let ((_, _), mut whole) = taken.next()?;
            self.bytes -= whole.bytes();
            for (_, other) in taken {
                self.bytes -= other.bytes();
                whole.merge(&other);
            }
            return Some(whole);
        }
        self.tree.merged(&self.slices, starts, epochs, self.bytes)
    }

    /// Start of the first slice from `start` on that is of these epochs.
    pub fn first_from(&self, start: i64, epochs: &Range<u64>) -> Option<i64> {
        let mut slices = self.slices.range((start, 0)..).map(|(key, _)| *key);
        slices.find(|(_, epoch)| epochs.contains(epoch)).map(|(start, _)| start)
    }

    /// The start of the first slice of any epoch from `start` on.
    pub fn first_of_any(&self, start: i64) -> Option<i64> {
        self.first_from(start, &(0..u64::MAX))
    }

    /// Start of the last slice of these epochs.
    pub(crate) fn last(&self, epochs: &Range<u64>) -> Option<i64> {
        let mut slices = self.slices.keys().rev();
        slices.find(|(_, epoch)| epochs.contains(epoch)).map(|(start, _)| *start)
    }

    /// Drops what begins before `start`.
    pub fn drop_before(&mut self, start: i64) {
        while let Some(first) = self.slices.first_entry().filter(|first| first.key().0 < start) {
            self.bytes -= first.remove().bytes();
        }
        self.tree.forget_before(start);
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.bytes + self.tree.bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use swiftwater_event::Value;
    use swiftwater_lang::{Dialect, ParseOptions, parse};

    use super::*;
    use crate::{
        operate::{GroupInput, group_input::InputValues},
        standing::{CompiledBody, StandingQuery},
    };

    /// An action on slices.
    #[derive(Debug, Clone)]
    enum Action {
        /// An event of a key falls into a slice.
        Add(i64, u64, i64),
        Drop(i64),
        Look(i64, i64, Range<u64>),
        Border(u64),
    }

    fn action() -> impl Strategy<Value = Action> {
        let start = || prop_oneof![4 => -60i64..60, 1 => any::<i64>()];
        prop_oneof![
            12 => (start(), 0u64..4, 0i64..5).prop_map(|(start, epoch, key)| Action::Add(start, epoch, key)),
            1 => (-60i64..20).prop_map(Action::Drop),
            4 => (start(), start(), 0u64..3, 1u64..5)
                .prop_map(|(from, to, first, more)| Action::Look(from, to, first..first + more)),
            1 => (1u64..4).prop_map(Action::Border),
        ]
    }

    fn groups_of(query: &StandingQuery, key: i64) -> Groups {
        let CompiledBody::Group(group) = &query.body else { panic!("it makes groups") };
        let mut groups = Groups::new(group, Dialect::Native);
        groups.update(
            1,
            &GroupInput {
                keys: vec![vec![Value::Long(key)]],
                aggregates: vec![InputValues::Rows],
                ..GroupInput::default()
            },
        );
        groups
    }

    fn counts(query: &StandingQuery, groups: Option<&Groups>) -> BTreeMap<String, String> {
        let CompiledBody::Group(group) = &query.body else { panic!("it makes groups") };
        let arena = bumpalo::Bump::new();
        let Some(groups) = groups else { return BTreeMap::new() };
        let slots = groups.evaluate(group, &arena).slots;
        let text = |slot: usize, row: usize| format!("{:?}", slots[slot][row]);
        (0..groups.len()).map(|row| (text(0, row), text(1, row))).collect()
    }

    proptest! {
        #[test]
        fn a_window_is_the_merge_of_its_slices(actions in proptest::collection::vec(action(), 0..150)) {
            let text = "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k";
            let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect("a query").query;
            let query = StandingQuery::compile(plan).expect("a query");
            let mut slices = Slices::default();
            let mut plain: SliceMap = BTreeMap::new();
            let mut borders = vec![0];
            slices.add_border(0);
            for action in actions {
                match action {
                    Action::Add(start, epoch, key) => {
                        let groups = groups_of(&query, key);
                        slices.add(Partial { epoch, start, groups: groups.clone() });
                        match plain.entry((start, epoch)) {
                            std::collections::btree_map::Entry::Vacant(entry) => {
                                entry.insert(groups);
                            }
                            std::collections::btree_map::Entry::Occupied(mut entry) => {
                                entry.get_mut().merge(&groups);
                            }
                        }
                    }
                    Action::Drop(start) => {
                        slices.drop_before(start);
                        plain.retain(|(of, _), _| *of >= start);
                    }
                    // A border parts only what comes after it was put there.
                    Action::Border(epoch) if plain.is_empty() && !borders.contains(&epoch) => {
                        slices.add_border(epoch);
                        borders.push(epoch);
                    }
                    Action::Border(_) => {}
                    Action::Look(from, to, epochs) => {
                        // A query sees from one border to another.
                        if !borders.contains(&epochs.start) {
                            continue;
                        }
                        let epochs = epochs.start..if borders.contains(&epochs.end) { epochs.end } else { u64::MAX };
                        let of = plain.iter().filter(|((start, epoch), _)| {
                            (from..to).contains(start) && epochs.contains(epoch)
                        });
                        let expected = of.map(|(_, groups)| groups.clone()).reduce(|mut whole, groups| {
                            whole.merge(&groups);
                            whole
                        });
                        let got = slices.window(from..to, &epochs, false);
                        prop_assert_eq!(counts(&query, got.as_ref()), counts(&query, expected.as_ref()));
                        let held: usize = slices.slices.values().map(Groups::bytes).sum();
                        prop_assert!(slices.bytes() <= 2 * held);
                    }
                }
            }
            slices.drop_before(i64::MAX);
            prop_assert!(slices.slices.keys().all(|(start, _)| *start == i64::MAX));
            prop_assert!(slices.tree.bytes() <= slices.bytes);
        }
    }
}
