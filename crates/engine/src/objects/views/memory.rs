//! The memory budget that all views share. Each view is guaranteed an equal share and may borrow what the others do not use.
//!
//! A view's memory use is recorded at each of its commits, because only state on disk can be evicted. When a view needs its
//! share and others use more than theirs, those are asked to evict. They evict with their next commit, or at once if they
//! have nothing to commit. Until then, memory use exceeds the setting by at most those shares.
//!
//! A commit takes several times the memory of the data that it writes, most of it in the files' tables. A view therefore
//! commits before the interval ends if a quarter of its budget changed. It takes no more than as much again in during the
//! commit.

use std::collections::HashMap;

use super::view::View;
use crate::durable::history::{History, run_blocking};

/// A view commits early when one part of so many of its memory has changed.
const CHANGED_PART: u64 = 4;

/// Least bytes of changes for a commit, so that it is worth a sync.
const CHANGED_BYTES_MIN: u64 = 4 << 20;

/// The memory of views by number, as recorded last.
#[derive(Debug, Default)]
pub(crate) struct ViewsMemory {
    held: HashMap<u32, u64>,
    /// The sum.
    bytes: u64,
}

impl ViewsMemory {
    fn of(&self, view: u32) -> u64 {
        self.held.get(&view).copied().unwrap_or(0)
    }

    fn record(&mut self, view: u32, bytes: u64) {
        let before = self.held.insert(view, bytes).unwrap_or(0);
        self.bytes = self.bytes - before + bytes;
    }

    fn forget(&mut self, view: u32) {
        self.bytes -= self.held.remove(&view).unwrap_or(0);
    }
}

impl History {
    /// Bytes that each view may hold, whatever others do.
    fn share_of_view(&self) -> u64 {
        let views = self.objects.views.read().len();
        (self.config.views_memory_bytes_max / views.max(1)) as u64
    }

    /// Bytes that a view may hold now.
    pub(super) fn memory_of(&self, view: &View) -> u64 {
        let memory = self.objects.views_memory.lock();
        let of_others = memory.bytes - memory.of(view.id());
        drop(memory);
        (self.config.views_memory_bytes_max as u64).saturating_sub(of_others).max(self.share_of_view())
    }

    /// True if a view uses twice its memory share: changes that are not on disk cannot be evicted.
    pub(super) fn is_full(&self, view: &View) -> bool {
        view.memory_use().1 / 2 > self.memory_of(view)
    }

    /// True if so much changed in a view since its last commit was begun that the next is due.
    pub(super) fn has_changed_much(&self, view: &View) -> bool {
        view.changed_bytes() > (self.memory_of(view) / CHANGED_PART).max(CHANGED_BYTES_MIN)
    }

    /// True if other views need the memory that a view holds beyond its share.
    pub(super) fn exceeds_share(&self, view: &View) -> bool {
        let noted = self.objects.views_memory.lock().of(view.id());
        noted > self.memory_of(view)
    }

    /// Makes a view hold no more than it may of what is on disk, and notes what that was: as much it will hold again.
    pub(super) fn evict_excess(&self, view: &View) {
        let most = self.memory_of(view);
        let (_, bytes) = view.memory_use();
        run_blocking(usize::MAX, || view.evict(most as usize));
        let mut memory = self.objects.views_memory.lock();
        // It is forgotten after it has ended.
        if !view.has_ended() {
            memory.record(view.id(), bytes.min(most));
        }
        let is_over = memory.bytes > self.config.views_memory_bytes_max as u64;
        drop(memory);
        if is_over {
            let others = self.all_views().into_iter().filter(|other| other.id() != view.id());
            others
                .filter(|other| self.exceeds_share(other))
                .for_each(|other| other.commits.nudge.notify_one());
        }
    }

    /// Forgets the memory of a view that has ended.
    pub(super) fn forget_memory_of(&self, view: &View) {
        self.objects.views_memory.lock().forget(view.id());
    }
}
