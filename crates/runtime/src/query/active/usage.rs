//! The counts and costs of a query, and the limits on its state.

use std::sync::atomic::Ordering;

use super::Running;
use crate::{Counts, EndReason, EngineConfig, QueryCost, limits, query::totals::Totals};

impl Running {
    /// Its counts, when all events before `position` were evaluated.
    pub(super) fn counts(&self, position: u64) -> Counts {
        let seen = self.seen(position);
        let Some(work) = &self.work else { return Counts { seen, ..Counts::default() } };
        Counts {
            seen,
            matched: work.counts.matched + work.shared.matches,
            mistyped: work.counts.mistyped + work.shared.mistyped,
            expression_errors: work.counts.expression_errors + work.shared.expression_errors,
            late: work.counts.late + work.shared.late,
            ahead: work.counts.ahead + work.shared.ahead,
            ..work.counts
        }
    }

    /// Events seen, when all before `position` were looked at.
    pub(crate) fn seen(&self, position: u64) -> u64 {
        let last = self.work.as_ref().and_then(|work| work.last_position);
        last.unwrap_or(position).saturating_sub(self.first_offset)
    }

    /// Its cost.
    pub(crate) fn cost(&self) -> QueryCost {
        let Some(work) = &self.work else { return QueryCost::default() };
        QueryCost {
            candidates: work.cost.candidates + work.shared.candidates,
            residual_tests: work.cost.residual_tests + work.shared.residual_tests,
            matches: work.cost.matches + work.shared.matches,
            cpu_nanos: work.cost.cpu_nanos + work.shared.nanos,
            ..work.cost
        }
    }

    /// Bytes of state held anywhere, its share of its operator's among them.
    pub(crate) fn state_bytes(&self) -> u64 {
        self.work.as_ref().map_or(0, |work| work.bytes() + work.shared_bytes)
    }

    /// Updates the engine's total; returns the reason why the query must end, if it holds too much.
    pub(crate) fn account(&mut self, config: &EngineConfig, totals: &Totals) -> Option<EndReason> {
        let is_cut = self.is_cut;
        let work = self.work();
        let bytes = work.bytes();
        let before = std::mem::replace(&mut work.accounted_bytes, bytes);
        let total = totals.account(before, bytes);
        let reason = if is_cut {
            limits::one_batch(config)
        } else if let Some(failure) = work.collector.failure() {
            failure.to_owned()
        } else if bytes > config.query_state_bytes_max as u64 {
            limits::query_state(bytes, config)
        } else if bytes > before && total > config.state_bytes_max as u64 {
            limits::all_state(total, config)
        } else {
            return None;
        };
        if std::mem::replace(&mut self.is_ending, true) { None } else { Some(EndReason::Failed(reason)) }
    }

    /// Takes its state out of the engine's total.
    pub(crate) fn forget(&mut self, totals: &Totals) {
        if let Some(work) = &mut self.work {
            totals.state_bytes.fetch_sub(std::mem::take(&mut work.accounted_bytes), Ordering::Relaxed);
        }
    }
}
