//! Windows of equal length on a line of time.

use swiftwater_event::Millis;

/// Windows `[start + n * every, start + (n + 1) * every)`, n from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Where window 0 starts.
    pub start: Millis,
    /// The length of each, in milliseconds; at least 1.
    pub every_ms: u64,
}

impl Grid {
    /// The window that an instant is in; what is before the start is in the first.
    pub fn number(&self, at: Millis) -> u64 {
        u64::try_from(at.saturating_sub(self.start)).unwrap_or(0) / self.every_ms
    }

    /// Where a window starts.
    pub fn start_of(&self, number: u64) -> Millis {
        let offset = i64::try_from(number.saturating_mul(self.every_ms)).unwrap_or(i64::MAX);
        self.start.saturating_add(offset)
    }

    /// The first instant after a window.
    pub fn end_of(&self, number: u64) -> Millis {
        self.start_of(number.saturating_add(1))
    }
}
