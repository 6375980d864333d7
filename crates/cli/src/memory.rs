//! The allocator, and its delay before it returns memory to the system.
//!
//! Many queries that begin or end at once rebuild tables and free the old ones. With a long delay, that memory would equal
//! the memory of the queries. With none, each body and each batch costs page faults. With a delay of 0, the transfer from
//! the log into a table takes a fifth longer. With one of 1,000 ms, a query takes half as much memory again.

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_long,
    hint::black_box,
    thread,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t};
#[cfg(feature = "history")]
use swiftwater_sql::{count_allocated, count_freed};

// Without statements of SQL nobody asks.
#[cfg(not(feature = "history"))]
fn count_allocated(_bytes: usize) {}
#[cfg(not(feature = "history"))]
fn count_freed(_bytes: usize) {}

/// Queries allocate small and often, from many threads. Allocations of SQL's statements are counted, each against its
/// limit.
#[global_allocator]
static ALLOCATOR: Counted = Counted(mimalloc::MiMalloc);

/// An allocator that counts for the thread that calls it: an addition to a number of its own.
struct Counted(mimalloc::MiMalloc);

// SAFETY: each call goes to the allocator as it came, and counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocated(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocated(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: as the caller has promised.
        unsafe { self.0.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_freed(layout.size());
        count_allocated(size);
        // SAFETY: as the caller has promised.
        unsafe { self.0.realloc(memory, layout, size) }
    }
}

/// `mi_option_purge_delay` of mimalloc.h, which the crate has no name for: milliseconds until freed memory goes back to the
/// system.
const PURGE_DELAY: mi_option_t = 15;
const PURGE_DELAY_MS: c_long = 30;

/// Interval of the search for memory that has been free for so long: by itself mimalloc searches only when something is
/// freed, and a server may have nothing to do.
const LOOK: Duration = Duration::from_millis(500);

/// Releases free memory from now on, until the process ends.
pub(crate) fn release_free_memory() {
    // SAFETY: an option may be set at any time, by any thread.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
    let give = || {
        // A thread that has allocated nothing collects nothing.
        black_box(Box::new(0_u8));
        loop {
            thread::park_timeout(LOOK);
            // SAFETY: may be called at any time, by any thread.
            unsafe { mi_collect(false) };
        }
    };
    if let Err(error) = thread::Builder::new().name("memory".to_owned()).spawn(give) {
        tracing::warn!(%error, "freed memory returns to the system late: its thread cannot be started");
    }
}
