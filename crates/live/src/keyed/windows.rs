//! The windows of a view: each group of each window is a key, which begins with the window's start. So a window is
//! contiguous on disk. Windows begin or end, as their query declares, at whole multiples of their distance since 1970.
//! If windows overlap, an event is merged into each window that contains it, and stored in each; so the number of such
//! windows has a bound.
//!
//! Time is event time or arrival time: a window closes when an event comes that is past it, by the lateness, and nothing
//! counts into it afterwards. So the closed windows follow from the latest time of the events so far, which is committed
//! beside the position. The content of a view depends on its events alone, and a replay ends in the same.

use swiftwater_event::Millis;
use swiftwater_lang::plan::{Window, WindowClock};

use super::UnsupportedView;
use crate::{
    MaxEventTime, NO_TIME, StandingQuery,
    operate::{GroupTable, Groups, Shape, Timeline},
    standing::CompiledGroup,
    step::QueryStep,
};

/// Maximum number of windows of a view that contain an event: a day by the minute.
pub(super) const HOLDING_MAX: u64 = 1440;

/// The windows of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewWindows {
    shape: Shape,
    /// The length of each, in milliseconds.
    size: u64,
    /// The lateness, for windows by the events' own time. None: by arrival.
    lateness_ms: Option<u64>,
    /// The idle time after which event time advances with the clock; none: never.
    idle_after_ms: Option<u64>,
}

/// The event time of a view with windows. A replay computes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewTime {
    /// The latest event time, advanced by idle periods.
    pub peak: MaxEventTime,
    /// The latest time of an event.
    pub event: Millis,
    /// The arrival of the stream's last event; [`NO_TIME`] if there was none, or it is unknown.
    pub last: Millis,
}

impl Default for ViewTime {
    fn default() -> ViewTime {
        ViewTime { peak: MaxEventTime::NONE, event: NO_TIME, last: NO_TIME }
    }
}

impl ViewTime {
    pub(super) fn last_arrival(self) -> Option<Millis> {
        Some(self.last).filter(|last| *last != NO_TIME)
    }
}

/// The contribution of a batch to a view with windows.
#[derive(Debug)]
pub(super) struct FoldedWindows {
    pub(super) groups: Option<GroupTable>,
    /// The latest event time so far.
    pub(super) peak: MaxEventTime,
    /// The latest event time of the batch.
    pub(super) event: Millis,
    /// Events of windows that are closed.
    pub(super) late: u64,
}

impl ViewWindows {
    /// The windows of a query; none if it has none.
    pub(super) fn of(query: &StandingQuery) -> Result<Option<ViewWindows>, UnsupportedView> {
        let lateness_ms = match &query.plan.window {
            Window::None => return Ok(None),
            Window::Time { clock: WindowClock::Arrival, .. } => None,
            Window::Time { clock: WindowClock::Event { lateness_ms, .. }, .. } => Some(*lateness_ms),
            Window::Records { .. } | Window::Session { .. } => return Err(UnsupportedView::Window),
        };
        let shape = Shape::of(query, 0).ok_or(UnsupportedView::Window)?.unbounded();
        let (Some(size), Some(holding)) = (shape.size(), shape.holding_most()) else {
            return Err(UnsupportedView::Window);
        };
        match holding <= HOLDING_MAX {
            true => {
                Ok(Some(ViewWindows { shape, size, lateness_ms, idle_after_ms: query.plan.idle_after_ms() }))
            }
            false => Err(UnsupportedView::Overlap { holding, most: HOLDING_MAX }),
        }
    }

    /// The boundaries of the slices of a batch.
    pub(super) fn plan(&self, query: &StandingQuery) -> crate::SlicePlan {
        crate::SlicePlan::of(query, 0)
    }

    /// The first instant after a window that begins there.
    pub fn end(&self, start: Millis) -> Millis {
        start.saturating_add_unsigned(self.size)
    }

    /// Start of the window that closes next after the one that starts at `start`.
    pub fn next(&self, start: Millis) -> Millis {
        start.saturating_add_unsigned(self.shape.every)
    }

    /// All windows that end here or before are closed when the latest time of the events so far is this; none before there
    /// was any.
    pub fn watermark(&self, latest: Millis) -> Option<Millis> {
        (latest != NO_TIME).then(|| latest.saturating_sub_unsigned(self.lateness_ms.unwrap_or(0)))
    }

    /// Start of the first window that did not end this long before the watermark; earlier ones need not be kept. None
    /// before any event came.
    pub fn first_kept(&self, latest: Millis, retention_ms: u64) -> Option<Millis> {
        let before = self.watermark(latest)?.saturating_sub_unsigned(retention_ms);
        Some(self.shape.start(self.shape.closing_after(before)))
    }

    /// The windows that are closed begin before this.
    pub fn first_open(&self, latest: Millis) -> Option<Millis> {
        self.first_kept(latest, 0)
    }

    /// True if event time advances while the stream is idle.
    pub fn advances_when_idle(&self) -> bool {
        self.idle_after_ms.is_some()
    }

    /// The time after an idle period until `until`; unchanged if that is too short.
    pub fn advanced_to(&self, time: ViewTime, until: Millis) -> ViewTime {
        match (self.idle_after_ms, time.last_arrival()) {
            (Some(idle), Some(last)) if until >= last.saturating_add_unsigned(idle) => {
                ViewTime { peak: time.peak.advanced_to(until), ..time }
            }
            _ => time,
        }
    }

    /// The arrival at which an idle stream closes the next window; none if all are closed that may hold an event, and one more,
    /// whose absent rows resolve alerts.
    pub fn idle_due(&self, time: ViewTime) -> Option<Millis> {
        let idle_from = time.last_arrival()?.checked_add_unsigned(self.idle_after_ms?)?;
        let open = self.shape.closing_after(self.watermark(time.peak.time)?);
        let last = self.shape.last_holding(time.event);
        if open > last.unwrap_or_else(|| self.shape.closing_after(time.event)).saturating_add(1) {
            return None;
        }
        let reached = self.shape.end(open).checked_add_unsigned(self.lateness_ms?)?;
        time.peak.idle_arrival_of(reached).map(|due| due.max(idle_from))
    }

    /// The groups of a batch: from its step, and by arrival from the shard. `before` is the peak before the batch, and `arrival`
    /// its arrival.
    pub(super) fn fold(
        &self,
        group: &CompiledGroup,
        steps: &mut [QueryStep],
        by_arrival: Vec<crate::Partial>,
        (before, arrival): (MaxEventTime, Millis),
    ) -> FoldedWindows {
        let mut folded = FoldedWindows { groups: None, peak: before, event: NO_TIME, late: 0 };
        // Into each window that is open and holds the slice that begins there.
        let mut add = |slice: Millis, open: i64, groups: &Groups| {
            let (Some(first), Some(last)) = (self.shape.first_holding(slice), self.shape.last_holding(slice))
            else {
                return;
            };
            let whole = folded.groups.get_or_insert_with(|| GroupTable::windowed(group));
            for number in first.max(open)..=last {
                whole.merge_window(self.shape.start(number), groups);
            }
        };
        if self.lateness_ms.is_none() {
            // Events with an arrival before the closed windows count here.
            let now = arrival.max(before.time);
            let (slice, open) = (self.shape.cuts().start_of(now), self.shape.closing_after(now));
            by_arrival.iter().for_each(|partial| add(partial.start.max(slice), open, &partial.groups));
            folded.peak = MaxEventTime { time: now, arrival: now };
            return folded;
        }
        let mut timeline = Timeline::new(self.shape, self.lateness_ms.unwrap_or(0));
        timeline.advance(before);
        for timed in steps.iter_mut().filter_map(|step| step.timed.take()) {
            if let Some(until) = timed.idle_until {
                timeline.advance(timeline.peak().advanced_to(until));
            }
            for generation in &timed.generations {
                timeline.advance(generation.peak);
                for (partial, events) in &generation.partials {
                    if timeline.admit(partial.start, *events) {
                        add(partial.start, timeline.open(), &partial.groups);
                    }
                }
            }
            timeline.advance(timed.latest);
            folded.event = folded.event.max(timed.latest.time);
        }
        folded.peak = timeline.peak();
        folded.late = timeline.late();
        folded
    }
}
