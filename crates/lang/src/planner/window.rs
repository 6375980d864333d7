//! Plans `WINDOWING …`, and checks which windows a query of a kind may have.

use super::{Planner, check::Ty, lower::Scope};
use crate::{
    Dialect, TimeBounds,
    ast::{Include, Query, Unit, WindowShape, WindowSize, Windowing},
    plan::{Expr, Window, WindowClock, WindowContents},
    source::Fault,
};

/// The fault of a window, and the hint.
type WindowFault = (Option<crate::source::Span>, &'static str, &'static str);

impl Planner<'_> {
    /// The window, or `None` with a fault noted. In Bullet the faults of windows have no place.
    pub(super) fn window(&mut self, query: &Query) -> Option<Window> {
        let Some(windowing) = &query.window else { return Some(Window::None) };
        match self.shape(windowing) {
            Ok(window) => Some(window),
            Err(wrong) => self.wrong_window(windowing, wrong),
        }
    }

    fn wrong_window(&mut self, windowing: &Windowing, (span, message, hint): WindowFault) -> Option<Window> {
        let fault = match self.dialect {
            Dialect::Bullet => Fault::whole(message),
            Dialect::Native => Fault::at(span.unwrap_or(windowing.span), message),
        };
        self.fault(fault.hint(hint))
    }

    /// Checks that a query of this kind may have this window; a fault is recorded.
    pub(super) fn check_window(&mut self, query: &Query, window: &Window, is_group: bool) {
        let Some(windowing) = &query.window else { return };
        let is_bullet = self.dialect == Dialect::Bullet;
        let wrong: Option<WindowFault> = match window {
            Window::Time { take: WindowContents::All, .. }
            | Window::Records { take: WindowContents::All, .. }
                if !is_group =>
            {
                Some((
                    None,
                    "a window over ALL needs an aggregation: a RAW query cannot store all events",
                    "Write `TUMBLING(n, TIME)`.",
                ))
            }
            Window::Records { .. } if is_group && is_bullet => Some((
                None,
                "a window counted in records is for queries without aggregation",
                "Write `TUMBLING(n, TIME)`.",
            )),
            _ => None,
        };
        if let Some(wrong) = wrong {
            self.wrong_window(windowing, wrong);
        }
    }

    fn shape(&mut self, windowing: &Windowing) -> Result<Window, WindowFault> {
        match &windowing.shape {
            WindowShape::Tumbling(extent) => {
                positive(extent)?;
                Ok(self.every(extent, WindowContents::First(extent.size)))
            }
            WindowShape::Session(extent) if extent.unit == Unit::Record => Err((
                Some(extent.span),
                "a session is ended by time, not by a number of records",
                "Write `SESSION(n, TIME)`, with n in milliseconds.",
            )),
            WindowShape::Session(extent) => match self.every(extent, WindowContents::First(extent.size)) {
                Window::Time { every_ms, clock, .. } => Ok(Window::Session { gap_ms: every_ms, clock }),
                other => Ok(other),
            },
            WindowShape::Every(emit, include) => {
                positive(emit)?;
                let take = self.take_contents(emit, include)?;
                Ok(self.every(emit, take))
            }
        }
    }

    fn take_contents(&mut self, emit: &WindowSize, include: &Include) -> Result<WindowContents, WindowFault> {
        let is_bullet = self.dialect == Dialect::Bullet;
        let size = match include {
            Include::All if is_bullet && emit.unit == Unit::Record => {
                return Err((
                    Some(emit.span),
                    "a window over ALL cannot be counted in records",
                    "Write `EVERY(n, TIME, ALL)`, with n in milliseconds.",
                ));
            }
            Include::All => return Ok(WindowContents::All),
            Include::First(size) | Include::Last(size) => size,
        };
        positive(size)?;
        let same_unit = match (&emit.unit, &size.unit) {
            (Unit::Event(_), Unit::Event(None)) => true,
            (Unit::Event(Some(one)), Unit::Event(Some(other))) => {
                one.lateness_ms == other.lateness_ms && self.text_of(&one.time) == self.text_of(&other.time)
            }
            (one, other) => one == other,
        };
        if is_bullet && !(same_unit && emit.size == size.size) {
            return Err((
                Some(size.span),
                "a window must contain exactly the events between two emits",
                "Write the same number and unit before and after FIRST.",
            ));
        }
        if !same_unit {
            return Err((
                Some(size.span),
                "a window is counted in one unit",
                "Write the same unit before and after FIRST or LAST.",
            ));
        }
        match include {
            Include::First(size) if size.size > emit.size => Err((
                Some(size.span),
                "FIRST cannot be more than the distance between two emits",
                "Write LAST for windows that overlap.",
            )),
            Include::Last(size) if size.size != emit.size => Ok(WindowContents::Last(size.size)),
            _ => Ok(WindowContents::First(size.size)),
        }
    }

    fn every(&mut self, extent: &WindowSize, take: WindowContents) -> Window {
        if extent.unit == Unit::Record {
            return Window::Records { every: extent.size, take };
        }
        Window::Time { every_ms: extent.size, take, clock: self.clock(extent) }
    }

    /// The time that is gone by.
    pub(super) fn clock(&mut self, extent: &WindowSize) -> WindowClock {
        match &extent.unit {
            Unit::Time | Unit::Record => WindowClock::Arrival,
            Unit::Event(None) => match self.fields.watermark() {
                Some((field, bounds)) => {
                    let (path, ty) = (self.fields.path(field), self.fields.requested_type(field));
                    declared_clock(Expr::Path { path, ty }, bounds)
                }
                None => {
                    let message = "EVENT needs the path of an event's time: the stream declares no WATERMARK";
                    let hint =
                        "Write `EVENT(ts)`, or `EVENT(ts, INTERVAL '5 seconds')` to wait for late events.";
                    self.faults.push(Fault::at(extent.unit_span, message).hint(hint));
                    WindowClock::Arrival
                }
            },
            Unit::Event(Some(event)) => {
                // A fault is noted; what stands in its place is not looked at.
                let time = self.lower(&event.time, Scope::Event).unwrap_or_else(|| self.unknown());
                if let Ty::Known(ty) = &time.ty
                    && !check_time(ty)
                {
                    let message = format!("the time of an event cannot be {ty}");
                    let hint = "Use a TIMESTAMP, or a number of milliseconds since 1970.";
                    self.faults.push(Fault::at(event.time.span, message).hint(hint));
                }
                declared_clock(
                    time.expr,
                    TimeBounds { lateness_ms: event.lateness_ms, ..TimeBounds::default() },
                )
            }
        }
    }
}

/// A clock of event time.
pub(super) fn declared_clock(time: Expr, bounds: TimeBounds) -> WindowClock {
    let TimeBounds { lateness_ms, max_ahead_ms, idle_after_ms } = bounds;
    WindowClock::Event { time, lateness_ms, max_ahead_ms, idle_after_ms }
}

fn check_time(ty: &swiftwater_event::Type) -> bool {
    use swiftwater_event::Type;
    ty.depth() == 0 && *ty != Type::STRING && *ty != Type::BOOLEAN
}

fn positive(extent: &WindowSize) -> Result<(), WindowFault> {
    match extent.size {
        0 => Err((
            Some(extent.span),
            "a window's size must be above 0",
            "Write a number of milliseconds or records.",
        )),
        _ => Ok(()),
    }
}
