//! The windows of a view: each group of each window is a key, which begins with the window's start. Windows stand one
//! behind another, at whole multiples of their length since 1970.
//!
//! Time is what the events say, or when they arrived: a window closes when an event comes that is past it, by the
//! lateness, and nothing counts into it afterwards. So what a view holds depends on its events alone, and a replay ends
//! in the same.

use swiftwater_event::Millis;
use swiftwater_lang::plan::{Take, Window, WindowClock};

use super::Unfit;
use crate::{
    NO_TIME, StandingQuery,
    operate::{GroupTable, Groups, Shape, Timeline},
    standing::CompiledGroup,
    step::QueryStep,
};

/// The windows of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewWindows {
    shape: Shape,
    /// By the events' own time: how far the latest may be ahead. None: by arrival.
    lateness_ms: Option<u64>,
}

/// What a batch brings to a view with windows.
#[derive(Debug, Default)]
pub(super) struct FoldedWindows {
    pub(super) groups: Option<GroupTable>,
    /// The latest time so far.
    pub(super) latest: Millis,
    /// Events of windows that are closed.
    pub(super) late: u64,
}

impl ViewWindows {
    /// Those of a query; none where it has none.
    pub(super) fn of(query: &StandingQuery) -> Result<Option<ViewWindows>, Unfit> {
        let (every, take, clock) = match &query.plan.window {
            Window::None => return Ok(None),
            Window::Time { every_ms, take, clock } => (*every_ms, *take, clock),
            Window::Records { .. } | Window::Session { .. } => return Err(Unfit::Window),
        };
        if take != Take::First(every) {
            return Err(Unfit::Window);
        }
        let lateness_ms = match clock {
            WindowClock::Arrival => None,
            WindowClock::Event { lateness_ms, .. } => Some(*lateness_ms),
        };
        Ok(Shape::of(query, 0).map(|shape| ViewWindows { shape: shape.unbounded(), lateness_ms }))
    }

    /// Where the slices of a batch are cut.
    pub(super) fn plan(&self, query: &StandingQuery) -> crate::SlicePlan {
        crate::SlicePlan::of(query, 0)
    }

    /// The first instant after a window that begins there.
    pub fn end(&self, start: Millis) -> Millis {
        start.saturating_add_unsigned(self.shape.every)
    }

    /// All windows that end here or before are closed when the latest time of the events so far is this; none before there
    /// was any.
    pub fn watermark(&self, latest: Millis) -> Option<Millis> {
        (latest != NO_TIME).then(|| latest.saturating_sub_unsigned(self.lateness_ms.unwrap_or(0)))
    }

    /// Where the first window begins that did not end this long before the watermark; before it are those that need not be
    /// kept. None before any event came.
    pub fn first_kept(&self, latest: Millis, retention_ms: u64) -> Option<Millis> {
        let before = self.watermark(latest)?.saturating_sub_unsigned(retention_ms);
        Some(self.shape.start(self.shape.closing_after(before)))
    }

    /// The windows that are closed begin before this.
    pub fn first_open(&self, latest: Millis) -> Option<Millis> {
        self.first_kept(latest, 0)
    }

    /// What a batch brings: its step, and what the shard made of it by arrival. `latest` is the latest time before it, and
    /// `arrival` when it arrived.
    pub(super) fn fold(
        &self,
        group: &CompiledGroup,
        steps: &mut [QueryStep],
        by_arrival: Vec<crate::Partial>,
        (latest, arrival): (Millis, Millis),
    ) -> FoldedWindows {
        let mut folded = FoldedWindows { groups: None, latest, late: 0 };
        let mut add = |start: Millis, groups: &Groups| {
            let whole = folded.groups.get_or_insert_with(|| GroupTable::windowed(group));
            whole.merge_window(start, groups);
        };
        if self.lateness_ms.is_none() {
            // What says that it is earlier than what is closed is here.
            let now = arrival.max(latest);
            let first_open = self.shape.cuts().start_of(now);
            by_arrival.iter().for_each(|partial| add(partial.start.max(first_open), &partial.groups));
            folded.latest = now;
            return folded;
        }
        let mut timeline = Timeline::new(self.shape, self.lateness_ms.unwrap_or(0));
        timeline.advance(latest);
        for timed in steps.iter_mut().filter_map(|step| step.timed.take()) {
            for generation in &timed.generations {
                timeline.advance(generation.peak);
                for (partial, events) in &generation.partials {
                    if timeline.takes(partial.start, *events) {
                        add(partial.start, &partial.groups);
                    }
                }
            }
            folded.latest = folded.latest.max(timed.latest);
        }
        folded.late = timeline.late();
        folded
    }
}
