//! The in-memory groups of some of a view's keys: tracks which are changed, cut or deleted, and evicts the others.

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};

use super::{Key, KeyMeta, KeyedQuery, Row, RowHash, push_ordered, row_hash::Workspace};
use crate::{
    expr::Scratch,
    operate::{Deletion, GroupTable, InvalidState},
};

/// The groups of the keys of one part, each with what is known of it. Bounded by who holds it: [`KeyedPart::evict`].
#[derive(Debug)]
pub struct KeyedPart {
    groups: GroupTable,
    notes: Vec<GroupMeta>,
    /// Groups that changed since the last cut, each once.
    changed: Vec<u32>,
    /// Groups of the last cut, until it is kept.
    cut: Vec<u32>,
    /// No key is kept elsewhere that is not here.
    is_whole: bool,
    /// Groups that are here to say that they are deleted.
    deleted: usize,
}

/// The place of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocation {
    /// The key is in the part, as this group, until the part changes.
    Here(u32),
    /// The key is not in the part; it may be kept elsewhere.
    Elsewhere,
    /// The key does not exist.
    Nowhere,
}

/// The record of a group.
#[derive(Debug, Clone, Copy, Default)]
struct GroupMeta {
    stamp: KeyMeta,
    /// It is here to say that it is deleted, until that is kept, and has no rows.
    is_deleted: bool,
    /// It is among those that changed since the last cut.
    is_changed: bool,
    /// It is in the cut that is not kept yet.
    is_cut: bool,
}

/// States of keys that changed, to be kept: each key in the order of its values, and the state that takes the place of the
/// one before; none where the key is deleted.
#[derive(Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    /// The end of each key, and of each state after it.
    ends: Vec<(usize, usize)>,
}

impl Changes {
    /// Keys with their states.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> + Clone {
        let start = |at: usize| if at == 0 { 0 } else { self.ends[at - 1].1 };
        let ends = self.ends.iter().enumerate();
        // No state is empty.
        ends.map(move |(at, &(key, state))| {
            (&self.bytes[start(at)..key], (key < state).then(|| &self.bytes[key..state]))
        })
    }

    /// Appends a key; without a state it is deleted.
    pub(super) fn push(&mut self, key: &[u8], state: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(state);
        self.ends.push((end, self.bytes.len()));
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl KeyedPart {
    /// An empty part. `is_whole`: nothing is kept elsewhere either.
    pub fn new(query: &KeyedQuery, is_whole: bool) -> Option<KeyedPart> {
        let groups = query.no_groups()?;
        Some(KeyedPart {
            groups,
            notes: Vec::new(),
            changed: Vec::new(),
            cut: Vec::new(),
            is_whole,
            deleted: 0,
        })
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.groups.bytes() + self.notes.capacity() * size_of::<GroupMeta>() + 4 * self.changed.capacity()
    }

    /// Approximate bytes of the keys that changed since the last cut.
    pub fn changed_bytes(&self) -> usize {
        (self.bytes() as u128 * self.changed.len() as u128 / self.groups.len().max(1) as u128) as usize
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.groups.len() - self.deleted
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of some groups that are not here, and may be kept elsewhere.
    pub fn lacks(&self, groups: &GroupTable, chosen: &[u32]) -> Vec<Key> {
        if self.is_whole {
            return Vec::new();
        }
        let keys = chosen.iter().map(|&group| groups.key(group as usize));
        keys.filter(|key| self.groups.find(key).is_none()).map(Key::of_group).collect()
    }

    /// Takes over the state of a key that it lacked, as [`Changes`] has it.
    pub fn load(&mut self, query: &KeyedQuery, key: &Key, state: &[u8]) -> Result<(), InvalidState> {
        if self.groups.find(&key.grouped).is_some() {
            return Ok(());
        }
        let (stamp, state) = query.split_state(state)?;
        self.groups.insert_state(&key.grouped, state)?;
        self.notes.push(GroupMeta { stamp, ..GroupMeta::default() });
        Ok(())
    }

    /// Takes in some groups of a batch; of what it lacked, all that there was is loaded. `position` is the one after the batch,
    /// `arrival` when it came.
    pub fn merge(
        &mut self,
        query: &KeyedQuery,
        groups: &GroupTable,
        chosen: &[u32],
        (position, arrival): (u64, Millis),
    ) {
        let left;
        let chosen = match query.may_delete() {
            true => {
                left = self.reset_deleted(query, groups, chosen, arrival);
                &left[..]
            }
            false => chosen,
        };
        let mut ours = Vec::with_capacity(chosen.len());
        self.groups.merge_chosen(groups, chosen, &mut ours);
        self.notes.resize(self.groups.len(), GroupMeta::default());
        for (group, theirs) in ours.into_iter().zip(chosen) {
            self.mark(
                group,
                KeyMeta { changed: position, arrival },
                groups.deletion(*theirs) == Deletion::All,
            );
        }
    }

    /// Makes empty what groups of a batch deleted, or what is past by then. Resets the groups that a batch deleted, or that
    /// have expired by then. Returns the groups that are still to be merged: not those that delete a missing key.
    fn reset_deleted(
        &mut self,
        query: &KeyedQuery,
        groups: &GroupTable,
        chosen: &[u32],
        arrival: Millis,
    ) -> Vec<u32> {
        let mut left = Vec::with_capacity(chosen.len());
        for &theirs in chosen {
            let deletion = groups.deletion(theirs);
            match self.groups.find(groups.key(theirs as usize)) {
                None if deletion == Deletion::All => continue,
                None => {}
                Some(ours) => {
                    let is_past = query.is_past(self.notes[ours as usize].stamp.arrival, arrival);
                    if deletion != Deletion::None || is_past {
                        self.groups.reset(ours);
                    }
                }
            }
            left.push(theirs);
        }
        left
    }

    /// Records that a group changed.
    fn mark(&mut self, group: u32, stamp: KeyMeta, is_deleted: bool) {
        let note = &mut self.notes[group as usize];
        self.deleted = self.deleted + usize::from(is_deleted) - usize::from(note.is_deleted);
        (note.stamp, note.is_deleted) = (stamp, is_deleted);
        if !note.is_changed {
            note.is_changed = true;
            self.changed.push(group);
        }
    }

    /// Deletes a key whose time is over by now; it may be here or be kept elsewhere only. Returns true if it was there.
    pub fn delete_past(&mut self, query: &KeyedQuery, key: &Key, now: Millis) -> bool {
        let group = match self.groups.find(&key.grouped) {
            Some(group) => {
                let note = &self.notes[group as usize];
                if note.is_deleted || !query.is_past(note.stamp.arrival, now) {
                    return false;
                }
                self.groups.reset(group);
                group
            }
            None => {
                let group = self.groups.insert_empty(&key.grouped);
                self.notes.resize(self.groups.len(), GroupMeta::default());
                group
            }
        };
        let stamp = self.notes[group as usize].stamp;
        self.mark(group, stamp, true);
        true
    }

    /// Appends the states of all keys that changed since the last cut; what is cut is held until it is kept, or put back.
    pub fn cut(&mut self, query: &KeyedQuery, changes: &mut Changes) {
        self.cut.append(&mut self.changed);
        for &group in &self.cut {
            let note = &mut self.notes[group as usize];
            (note.is_changed, note.is_cut) = (false, true);
            push_ordered(self.groups.key(group as usize), &mut changes.bytes);
            let key = changes.bytes.len();
            self.push_state(query, group, &mut changes.bytes);
            changes.ends.push((key, changes.bytes.len()));
        }
    }

    /// Appends a group's state, or nothing where it is deleted.
    fn push_state(&self, query: &KeyedQuery, group: u32, out: &mut Vec<u8>) {
        let note = &self.notes[group as usize];
        if !note.is_deleted {
            query.push_stamp(note.stamp, out);
            self.groups.encode_state(group as usize, out);
        }
    }

    /// The last cut is persisted.
    pub fn checkpoint_committed(&mut self) {
        for group in self.cut.drain(..) {
            self.notes[group as usize].is_cut = false;
        }
        // A key whose deletion is persisted is nowhere; deleted keys are removed once that is worth a pass over all
        // keys.
        if 2 * self.deleted > self.groups.len() {
            let notes = self.notes.iter().zip(0..);
            let kept: Vec<u32> = notes.filter(|(note, _)| !note.is_gone()).map(|(_, group)| group).collect();
            self.retain(&kept);
        }
    }

    /// The last cut could not be persisted: its keys count as changed again.
    pub fn checkpoint_failed(&mut self) {
        for group in std::mem::take(&mut self.cut) {
            let note = &mut self.notes[group as usize];
            note.is_cut = false;
            if !note.is_changed {
                note.is_changed = true;
                self.changed.push(group);
            }
        }
    }

    /// Evicts keys that are kept elsewhere, the least recently changed first, until about so many bytes are left. Takes
    /// time in what is left.
    pub fn evict(&mut self, bytes_max: usize) {
        let bytes = self.bytes();
        if bytes <= bytes_max || self.groups.is_empty() {
            return;
        }
        let is_held = |note: &GroupMeta| note.is_changed || note.is_cut;
        let all = 0..self.groups.len() as u32;
        let mut kept: Vec<u32> = all.filter(|&group| !self.notes[group as usize].is_gone()).collect();
        kept.sort_unstable_by_key(|&group| {
            let note = &self.notes[group as usize];
            (!is_held(note), std::cmp::Reverse(note.stamp.changed))
        });
        let held = self.notes.iter().filter(|note| is_held(note)).count();
        let most = (self.groups.len() as u128 * bytes_max as u128 / bytes.max(1) as u128) as usize;
        kept.truncate(most.max(held));
        kept.sort_unstable();
        self.retain(&kept);
        self.is_whole = false;
    }

    /// Removes the windows that begin before this, for good: nothing changes them any more, and their persisted copies
    /// are deleted, too. A cut must be persisted first.
    pub fn expire(&mut self, first: Millis) {
        let groups = 0..self.groups.len() as u32;
        let kept: Vec<u32> = groups.filter(|&group| self.groups.window(group as usize) >= first).collect();
        if kept.len() < self.groups.len() {
            let is_kept = |group: &u32| kept.binary_search(group).is_ok();
            self.changed.retain(is_kept);
            self.cut.retain(is_kept);
            self.retain(&kept);
        }
    }

    /// Retains these groups, ascending, and no others; none that changed is left out.
    fn retain(&mut self, kept: &[u32]) {
        let mut place = vec![u32::MAX; self.groups.len()];
        kept.iter().zip(0..).for_each(|(&group, new)| place[group as usize] = new);
        self.groups = self.groups.subset(kept);
        self.notes = kept.iter().map(|&group| self.notes[group as usize]).collect();
        self.deleted = self.notes.iter().filter(|note| note.is_deleted).count();
        for group in self.changed.iter_mut().chain(&mut self.cut) {
            *group = place[*group as usize];
        }
        self.changed.shrink_to_fit();
    }

    /// The state of a key as [`Changes`] has it: `None` where the key is not here, `Some(None)` where it is nowhere. Takes no
    /// more time for other keys.
    pub fn state(&self, query: &KeyedQuery, key: &Key) -> Option<Option<Vec<u8>>> {
        let group = match self.find(key) {
            KeyLocation::Here(group) => group,
            KeyLocation::Nowhere => return Some(None),
            KeyLocation::Elsewhere => return None,
        };
        let mut state = Vec::with_capacity(64);
        self.push_state(query, group, &mut state);
        Some((!state.is_empty()).then_some(state))
    }

    /// Finds a key.
    pub fn find(&self, key: &Key) -> KeyLocation {
        match self.groups.find(&key.grouped) {
            Some(group) => KeyLocation::Here(group),
            None if self.is_whole => KeyLocation::Nowhere,
            None => KeyLocation::Elsewhere,
        }
    }

    /// Runs a function over the row of a key that is here: the values of its columns, and the position after the last event
    /// that changed it. None where it has no row.
    pub fn with_row<R>(
        &self,
        query: &KeyedQuery,
        group: u32,
        now: Millis,
        within: (&mut Scratch, &Bump),
        look: impl FnOnce(&[Value<'_>], u64) -> R,
    ) -> Option<R> {
        let note = self.notes.get(group as usize).filter(|note| !note.is_deleted)?;
        query.with_row_of_group((&self.groups, group), note.stamp, now, within, look)
    }

    /// The present rows of the keys of some groups, in their order. All that there was of the keys is loaded.
    pub fn shown(
        &self,
        query: &KeyedQuery,
        groups: &GroupTable,
        chosen: &[u32],
        now: Millis,
    ) -> Vec<RowHash> {
        let mut within = Workspace::default();
        let mut shown = |theirs: &u32| {
            let group = self.groups.find(groups.key(*theirs as usize))?;
            let note = &self.notes[group as usize];
            let has_row = !note.is_deleted && !query.is_past(note.stamp.arrival, now);
            if has_row { query.shown_by_group(&self.groups, group, &mut within) } else { None }
        };
        chosen.iter().map(&mut shown).collect()
    }

    /// The row of one key, expired or not; `None` if the key is not here.
    pub fn shown_of(&self, query: &KeyedQuery, key: &Key) -> Option<RowHash> {
        let group = self.groups.find(&key.grouped)?;
        let is_deleted = self.notes[group as usize].is_deleted;
        let shown = || query.shown_by_group(&self.groups, group, &mut Workspace::default());
        Some(if is_deleted { None } else { shown() })
    }

    /// The row of a key: `None` where the key is not here, `Some(None)` where it has no row, which is so of a key that is
    /// nowhere, too.
    pub fn row(&self, query: &KeyedQuery, key: &Key, now: Millis) -> Option<Option<Row>> {
        // A state that was encoded here is one.
        let row = |state: Vec<u8>| query.row_of_state(key, &state, now).ok().flatten();
        self.state(query, key).map(|state| state.and_then(row))
    }

    /// Keys that are not kept elsewhere as they are here, in the order of their values, with their states, in any order:
    /// those of them for which `wanted` is true. A key without a state is deleted.
    pub fn unkept(
        &self,
        query: &KeyedQuery,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let groups = self.changed.iter().chain(self.cut.iter().filter(|&&group| {
            // One that changed since is among those.
            !self.notes[group as usize].is_changed
        }));
        let mut states = Vec::new();
        let mut key = Vec::new();
        for &group in groups {
            key.clear();
            push_ordered(self.groups.key(group as usize), &mut key);
            if wanted(&key) {
                let mut state = Vec::new();
                self.push_state(query, group, &mut state);
                states.push((key.clone(), (!state.is_empty()).then_some(state)));
            }
        }
        states
    }
}

impl GroupMeta {
    /// It is deleted, and that is kept.
    fn is_gone(&self) -> bool {
        self.is_deleted && !self.is_changed && !self.is_cut
    }
}
