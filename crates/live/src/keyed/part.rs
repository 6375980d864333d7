//! What is held of some of a view's keys.

use swiftwater_event::Millis;

use super::{Key, KeyedQuery, Row, push_ordered};
use crate::operate::{GroupTable, NoState, push_varint};

/// The groups of the keys of one part, each with what is known of it. Bounded by who holds it: [`KeyedPart::evict`].
#[derive(Debug)]
pub struct KeyedPart {
    groups: GroupTable,
    notes: Vec<Note>,
    /// Groups that changed since the last cut, each once.
    changed: Vec<u32>,
    /// Groups of the last cut, until it is kept.
    cut: Vec<u32>,
    /// No key is kept elsewhere that is not here.
    is_whole: bool,
}

/// What is known of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Note {
    /// The position after its last change.
    changed: u64,
    /// It is among those that changed since the last cut.
    is_changed: bool,
    /// It is in the cut that is not kept yet.
    is_cut: bool,
}

/// States of keys that changed, to be kept: each key in the order of its values, and the state that takes the place of the
/// one before.
#[derive(Debug, Default)]
pub struct Changes {
    bytes: Vec<u8>,
    /// Where each key ends, and each state behind it.
    ends: Vec<(usize, usize)>,
}

impl Changes {
    /// Keys with their states.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        let start = |at: usize| if at == 0 { 0 } else { self.ends[at - 1].1 };
        let ends = self.ends.iter().enumerate();
        ends.map(move |(at, &(key, state))| (&self.bytes[start(at)..key], &self.bytes[key..state]))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl KeyedPart {
    /// Nothing is held. `is_whole`: nothing is kept elsewhere either.
    pub fn new(query: &KeyedQuery, is_whole: bool) -> Option<KeyedPart> {
        let groups = query.no_groups()?;
        Some(KeyedPart { groups, notes: Vec::new(), changed: Vec::new(), cut: Vec::new(), is_whole })
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.groups.bytes() + self.notes.capacity() * size_of::<Note>() + 4 * self.changed.capacity()
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Of some groups the keys that are not here, and may be kept elsewhere.
    pub fn lacks(&self, groups: &GroupTable, chosen: &[u32]) -> Vec<Key> {
        if self.is_whole {
            return Vec::new();
        }
        let keys = chosen.iter().map(|&group| groups.key(group as usize));
        keys.filter(|key| self.groups.find(key).is_none()).map(Key::of_group).collect()
    }

    /// Takes over the state of a key that it lacked, as [`Changes`] has it.
    pub fn load(&mut self, key: &Key, state: &[u8]) -> Result<(), NoState> {
        if self.groups.find(&key.grouped).is_some() {
            return Ok(());
        }
        let (changed, state) = super::split_state(state)?;
        self.groups.insert_state(&key.grouped, state)?;
        self.notes.push(Note { changed, ..Note::default() });
        Ok(())
    }

    /// Takes in some groups of a batch; of what it lacked, all that there was is loaded. `position` is the one after the batch.
    pub fn merge(&mut self, groups: &GroupTable, chosen: &[u32], position: u64) {
        let mut ours = Vec::with_capacity(chosen.len());
        self.groups.merge_chosen(groups, chosen, &mut ours);
        self.notes.resize(self.groups.len(), Note::default());
        for group in ours {
            let note = &mut self.notes[group as usize];
            note.changed = position;
            if !note.is_changed {
                note.is_changed = true;
                self.changed.push(group);
            }
        }
    }

    /// Appends the states of all keys that changed since the last cut; what is cut is held until it is kept, or put back.
    pub fn cut(&mut self, changes: &mut Changes) {
        self.cut.append(&mut self.changed);
        for &group in &self.cut {
            let note = &mut self.notes[group as usize];
            (note.is_changed, note.is_cut) = (false, true);
            push_ordered(self.groups.key(group as usize), &mut changes.bytes);
            let key = changes.bytes.len();
            push_varint(note.changed, &mut changes.bytes);
            self.groups.encode_state(group as usize, &mut changes.bytes);
            changes.ends.push((key, changes.bytes.len()));
        }
    }

    /// The last cut is kept.
    pub fn kept(&mut self) {
        for group in self.cut.drain(..) {
            self.notes[group as usize].is_cut = false;
        }
    }

    /// The last cut could not be kept: what it had changed since the one before.
    pub fn put_back(&mut self) {
        for group in std::mem::take(&mut self.cut) {
            let note = &mut self.notes[group as usize];
            note.is_cut = false;
            if !note.is_changed {
                note.is_changed = true;
                self.changed.push(group);
            }
        }
    }

    /// Lets go of keys that are kept elsewhere, those that changed longest ago first, until about so many bytes are left.
    /// Takes time in what is left.
    pub fn evict(&mut self, bytes_max: usize) {
        let bytes = self.bytes();
        if bytes <= bytes_max || self.groups.is_empty() {
            return;
        }
        let is_held = |note: &Note| note.is_changed || note.is_cut;
        let mut kept: Vec<u32> = (0..self.len() as u32).collect();
        kept.sort_unstable_by_key(|&group| {
            let note = &self.notes[group as usize];
            (!is_held(note), std::cmp::Reverse(note.changed))
        });
        let held = self.notes.iter().filter(|note| is_held(note)).count();
        let most = (self.len() as u128 * bytes_max as u128 / bytes.max(1) as u128) as usize;
        kept.truncate(most.max(held));
        kept.sort_unstable();
        let mut place = vec![u32::MAX; self.len()];
        kept.iter().zip(0..).for_each(|(&group, new)| place[group as usize] = new);
        self.groups = self.groups.subset(&kept);
        self.notes = kept.iter().map(|&group| self.notes[group as usize]).collect();
        for group in self.changed.iter_mut().chain(&mut self.cut) {
            *group = place[*group as usize];
        }
        self.changed.shrink_to_fit();
        self.is_whole = false;
    }

    /// The state of a key as [`Changes`] has it: `None` where the key is not here, `Some(None)` where it is nowhere. Takes no
    /// more time for other keys.
    pub fn state(&self, key: &Key) -> Option<Option<Vec<u8>>> {
        let Some(group) = self.groups.find(&key.grouped) else { return self.is_whole.then_some(None) };
        let mut state = Vec::with_capacity(64);
        push_varint(self.notes[group as usize].changed, &mut state);
        self.groups.encode_state(group as usize, &mut state);
        Some(Some(state))
    }

    /// The row of a key: `None` where the key is not here, `Some(None)` where it has no row, which is so of a key that is
    /// nowhere, too.
    pub fn row(&self, query: &KeyedQuery, key: &Key, now: Millis) -> Option<Option<Row>> {
        // A state that was encoded here is one.
        let row = |state: Vec<u8>| query.row_of_state(key, &state, now).ok().flatten();
        self.state(key).map(|state| state.and_then(row))
    }

    /// Keys that are not kept elsewhere as they are here, in the order of their values, with their states, in any order:
    /// those of them for which `wanted` is true.
    pub fn unkept(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Vec<u8>)> {
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
                push_varint(self.notes[group as usize].changed, &mut state);
                self.groups.encode_state(group as usize, &mut state);
                states.push((key.clone(), state));
            }
        }
        states
    }
}
