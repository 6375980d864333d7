//! Deletes groups by their own rows: such a row, and all earlier rows of its group, no longer count.
//!
//! Rows arrive in the order of the stream, a batch at a time. The batch contributes only the rows after a group's last
//! deleting row. The earlier state of the group is dropped when the batch is merged into it.

use super::{Deletion, GroupTable, PASSED_OVER};

impl GroupTable {
    /// Passes over the rows of groups up to the last one that deletes; `deletes` says of each row whether it does. All rows
    /// of a batch come in one call.
    pub(super) fn delete(&mut self, group_of_row: &mut [u32], deletes: &[bool]) {
        if !deletes.contains(&true) {
            return;
        }
        self.deletions.resize(self.len(), Deletion::None);
        let mut has_rows = vec![false; self.len()];
        for (group, deletes) in group_of_row.iter_mut().zip(deletes).rev() {
            let place = *group as usize;
            let Some(deletion) = self.deletions.get_mut(place) else { continue };
            if *deletes && *deletion == Deletion::None {
                *deletion = if has_rows[place] { Deletion::Before } else { Deletion::All };
            }
            match deletion {
                Deletion::None => has_rows[place] = true,
                _ => *group = PASSED_OVER,
            }
        }
    }

    /// The deletion of a group.
    pub(crate) fn deletion(&self, group: u32) -> Deletion {
        self.deletions.get(group as usize).copied().unwrap_or_default()
    }

    /// Makes a group what it was before its first row.
    pub(crate) fn reset(&mut self, group: u32) {
        self.lanes.reset(group as usize);
        for cells in &mut self.cells {
            let heap = cells.reset(group as usize);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
        if let Some(cells) = &mut self.table_cells {
            let heap = cells.reset(group as usize);
            self.heap_bytes = self.heap_bytes.saturating_add_signed(heap);
        }
    }

    /// A group that is there without rows.
    pub(crate) fn insert_empty(&mut self, key: &[u8]) -> u32 {
        let group = self.group(key, &[]);
        self.resize_cells();
        group
    }
}
