//! One budget for the bytes of all unfinished input of clients. It covers incomplete events, bodies that are gathered whole,
//! parts of numbered requests, heads of requests, and messages and portals of PostgreSQL's protocol.
//!
//! A [`Share`] belongs to one request or connection, counts its bytes, and frees them when it is dropped. A share of up to
//! [`FREE_BYTES`] always has room, so clients with little data continue when others have used the budget up. A larger share
//! is refused then. The setting is `server.unfinished_bytes_max`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::http::StatusCode;

use crate::problem::Problem;

/// Bytes that each share may hold even if nothing is left: the beginning of a usual event, a usual head.
pub(crate) const FREE_BYTES: usize = 16 << 10;

/// The bytes that all shares hold, and the most there may be.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    max: u64,
}

/// The error that there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetExceeded;

impl Budget {
    pub(crate) fn new(max: u64) -> Budget {
        Budget { used: AtomicU64::new(0), max }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// The bytes that one request or connection holds.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// An empty share.
    pub(crate) fn of(budget: &Arc<Budget>) -> Share {
        Share { budget: Arc::clone(budget), bytes: 0 }
    }

    /// It now holds so many bytes. If there is no room for more, it is unchanged.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let used = &self.budget.used;
        if bytes <= self.bytes {
            used.fetch_sub((self.bytes - bytes) as u64, Ordering::Relaxed);
        } else {
            let more = (bytes - self.bytes) as u64;
            let before = used.fetch_add(more, Ordering::Relaxed);
            if bytes > FREE_BYTES && before + more > self.budget.max {
                used.fetch_sub(more, Ordering::Relaxed);
                return Err(BudgetExceeded);
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes as u64, Ordering::Relaxed);
    }
}

impl BudgetExceeded {
    /// The problem for a client of HTTP.
    pub(crate) fn problem(self) -> Problem {
        let detail = "the bytes of unfinished requests have reached their limit";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "limit-passed", "A limit was exceeded", detail)
            .with("setting", "server.unfinished_bytes_max")
            .hint("Try again later, send smaller events and bodies, or raise server.unfinished_bytes_max.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_within_the_budget_and_free_what_they_held() {
        let budget = Arc::new(Budget::new(100_000));
        let (mut one, mut other) = (Share::of(&budget), Share::of(&budget));
        assert_eq!(one.set(90_000), Ok(()));
        assert_eq!(other.set(FREE_BYTES + 1), Err(BudgetExceeded));
        assert_eq!(budget.used(), 90_000);
        // A client that holds little goes on.
        assert_eq!(other.set(FREE_BYTES), Ok(()));
        assert_eq!(one.set(10), Ok(()));
        assert_eq!(other.set(50_000), Ok(()));
        drop(one);
        assert_eq!(budget.used(), 50_000);
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
