//! Groups of which some come and go: found by key, taken out as bytes, put back.

use super::{GroupTable, PASSED_OVER};
use crate::operate::cells::image::NoState;

impl GroupTable {
    /// The group of a key, in the encoding of [`crate::expr::encode_group_value`].
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        use std::hash::BuildHasher;
        let hash = self.hasher.hash_one(key);
        self.table.find(hash, |&group| self.key(group as usize) == key).copied()
    }

    /// As [`GroupTable::merge`], of some groups; appends which groups of ours they are. Native only.
    pub(crate) fn merge_chosen(&mut self, other: &GroupTable, chosen: &[u32], ours: &mut Vec<u32>) {
        let group_of = self.merge_some(other, chosen);
        ours.extend(
            chosen.iter().map(|&group| group_of[group as usize]).filter(|&group| group != PASSED_OVER),
        );
    }

    /// Some groups by themselves.
    pub(crate) fn subset(&self, chosen: &[u32]) -> GroupTable {
        let mut subset = self.emptied();
        subset.merge_some(self, chosen);
        subset
    }

    /// Appends a group's state, which [`GroupTable::insert_state`] reads.
    pub(crate) fn encode_state(&self, group: usize, out: &mut Vec<u8>) {
        self.cells.iter().for_each(|cells| cells.encode(group, out));
    }

    /// Puts a group with its state there; its key must be that of none that is. Where the bytes are no state, nothing is.
    pub(crate) fn insert_state(&mut self, key: &[u8], mut state: &[u8]) -> Result<u32, NoState> {
        let group = self.len();
        let mut read = || {
            for cells in &mut self.cells {
                cells.decode(&mut state)?;
            }
            if state.is_empty() { Ok(()) } else { Err(NoState) }
        };
        if let Err(error) = read() {
            self.cells.iter_mut().for_each(|cells| cells.resize(group));
            return Err(error);
        }
        self.heap_bytes += self.cells.iter().map(|cells| cells.heap_bytes(group)).sum::<usize>();
        Ok(self.group(key, &[]))
    }
}
