//! Reading the windows of a view that are closed, from what is on disk alone: neither holds up the other.

use std::ops::Bound;

use swiftwater_event::Millis;
use swiftwater_live::Key;

use super::View;
use crate::EngineError;

/// Some rows of one window that is closed.
#[derive(Debug)]
pub(crate) struct Closed {
    /// JSON objects, a line each, in the order of their keys.
    pub(crate) rows: Vec<u8>,
    /// How many.
    pub(crate) count: u64,
    /// The last key that was looked at.
    pub(crate) last: Vec<u8>,
    /// When they were read.
    pub(crate) now: Millis,
}

impl View {
    /// The next rows of the first window that is closed and has any: behind a key, of windows that begin at `from` or later,
    /// at most so many. `latest` is the latest time that is on disk ([`View::kept_at`]). Asked again it answers the same, as
    /// a closed window does not change.
    pub(crate) fn closed(
        &self,
        after: Option<&[u8]>,
        from: Option<Millis>,
        latest: Millis,
        limit: u64,
        now: Millis,
    ) -> Result<Option<Closed>, EngineError> {
        let Some((windows, open)) =
            self.query.windows().and_then(|windows| Some((windows, windows.first_open(latest)?)))
        else {
            return Ok(None);
        };
        let (first, open) = (from.map(|from| Key::of_window(from).ordered), Key::of_window(open).ordered);
        let start = match (after, &first) {
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(first)) => Bound::Included(&first[..]),
            (None, None) => Bound::Unbounded,
        };
        let is_none = match start {
            Bound::Included(start) | Bound::Excluded(start) => start >= &open[..],
            Bound::Unbounded => false,
        };
        if is_none {
            return Ok(None);
        }
        let unavailable = |error: &dyn std::fmt::Display| EngineError::ViewUnavailable {
            view: self.name().to_owned(),
            why: error.to_string(),
        };
        let snapshot = self.store.snapshot(self.id()).map_err(|error| unavailable(&error))?;
        let mut closed = Closed { rows: Vec::new(), count: 0, last: Vec::new(), now };
        let mut window = None;
        let mut groups = self.query.no_groups().ok_or_else(|| unavailable(&"it has no groups"))?;
        for pair in snapshot.range((start, Bound::Excluded(&open[..]))) {
            let (key, state) = pair.map_err(|error| unavailable(&error))?;
            let of = Key::window_of_ordered(&key);
            if window.is_some_and(|window| of >= Some(windows.end(window))) || groups.len() as u64 >= limit {
                break;
            }
            window = window.or(of);
            self.query.add_state(&mut groups, &key, &state, now).map_err(|error| unavailable(&error))?;
            closed.last = key;
        }
        if groups.is_empty() {
            return Ok(None);
        }
        let result = self.query.rows(groups, now);
        (closed.rows, closed.count) = (result.text, result.count);
        Ok(Some(closed))
    }
}
