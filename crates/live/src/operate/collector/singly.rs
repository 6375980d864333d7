//! Windows by arrival that close one at a time, as in Bullet.
//!
//! In Bullet, a window is not a part of time: it has the events since the window before it was closed. A look at the
//! clock closes the open window if it is over, and no other; the next window ends a length later, and may be over too.
//! It is closed at the next look at a later clock, or by the next event. That event is in it even if it does not match.
//! If no look comes a window late, such windows cannot be distinguished from windows that are parts of time. A stream
//! with such late windows is processed event by event.
//!
//! Bullet does all this twice: where events are matched, and where results are made. A part without records is not sent
//! from the first to the second, so events that do not match may bring the first ahead of the second. Parts of groups
//! are always sent.

use std::ops::Range;

use swiftwater_event::Millis;

use super::{Collector, ResultSet, WINDOWS_LATE_MAX};
use crate::{
    operate::{Axis, Slices, window::Shape},
    standing::CompiledBody,
};

/// The place of records of the open window while events are matched, as if slices began there.
pub(super) const MATCHES: i64 = i64::MAX - 1;
/// The place of those that were sent on from there.
const SENT: i64 = i64::MAX - 2;

impl Collector {
    /// True if its windows by arrival are closed one at a time: at a look at the clock the open one, if it is over, with
    /// all that came since the one before it.
    pub fn closes_singly(&self) -> bool {
        self.limits.closes_singly && self.axis == Axis::Arrival && self.shape.is_some()
    }

    /// True if the next event closes a window, because the open one was over already when the clock was last looked at.
    pub fn lags(&self) -> bool {
        self.is_over(self.open_for_matches)
    }

    /// True if the next look at the clock closes a window.
    pub(super) fn waits(&self) -> bool {
        self.is_over(self.open)
    }

    /// True if a window was over when the clock was last looked at.
    fn is_over(&self, number: i64) -> bool {
        self.closes_singly() && self.shape.is_some_and(|shape| shape.end(number) <= self.closed)
    }

    /// The number of windows that were closed where events are matched, since it began.
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// The last result is to hold nothing of a window that is open where events are matched.
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// The range of slices of a window.
    pub(super) fn starts(&self, shape: &Shape, number: i64) -> Range<i64> {
        match &self.query.body {
            _ if !self.closes_singly() => shape.from(number)..shape.end(number),
            CompiledBody::Raw { .. } => SENT..MATCHES,
            CompiledBody::Group(_) if self.is_cut_off => i64::MAX..i64::MAX,
            // One that is closed late holds what came until then.
            CompiledBody::Group(_) => shape.from(number)..i64::MAX,
        }
    }

    /// Closes the open window if it ends at `now` or before.
    pub(super) fn close_by_clock(
        &mut self,
        now: Millis,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.closed = self.closed.max(now);
        if self.lags() {
            self.send();
        }
        self.close_open(slices, now_micros, out);
    }

    /// Closes the window that the event closes that was last taken in, where there is one. Nothing of what was taken in
    /// before is left for the next window.
    pub fn close_by_event(&mut self, slices: &mut Slices, now_micros: i64, out: &mut Vec<ResultSet>) {
        if self.lags() && self.send() {
            self.close_open(slices, now_micros, out);
        }
    }

    /// Closes the window that is open while events are matched; returns true if anything is sent.
    fn send(&mut self) -> bool {
        self.open_for_matches += 1;
        self.parts += 1;
        if matches!(self.query.body, CompiledBody::Group(_)) {
            return true;
        }
        let Some(rows) = self.rows.window(MATCHES..i64::MAX, true) else { return false };
        self.rows.slice(SENT).merge(rows);
        true
    }

    /// Closes the window that is open where results are made, if it was over when the clock was last looked at.
    fn close_open(&mut self, slices: &mut Slices, now_micros: i64, out: &mut Vec<ResultSet>) {
        let Some(shape) = self.shape.filter(|_| self.waits()) else { return };
        let number = self.open;
        let result = self.window(&shape, number, shape.end(number), slices, now_micros);
        let earliest = shape.closing_after(self.closed).saturating_sub(WINDOWS_LATE_MAX as i64);
        self.open = number.saturating_add(1).max(earliest);
        self.open_for_matches = self.open_for_matches.max(self.open);
        self.emit(result, now_micros, out);
        self.release(&shape, slices);
    }

    /// The last result: the open window, which still says when it was to close.
    pub(super) fn finish_singly(
        &mut self,
        shape: &Shape,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        if !self.is_cut_off {
            self.send();
        }
        let result = self.window(shape, self.open, shape.end(self.open), slices, now_micros);
        self.emit(result, now_micros, out);
    }
}
