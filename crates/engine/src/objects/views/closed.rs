//! Reads the closed windows of a view from disk only, so that the reader and the view never block each other.

use std::ops::Bound;

use swiftwater_event::Millis;
use swiftwater_live::Key;

use super::{View, ViewChange};
use crate::EngineError;

/// Rows that are delivered together.
#[derive(Debug, Clone)]
pub(crate) struct Portion {
    /// JSON objects, a line each.
    pub(crate) rows: Vec<u8>,
    /// Number of groups, or of events.
    pub(crate) count: u64,
    /// The last key, or place, that was looked at; of events the place of the next one.
    pub(crate) last: Vec<u8>,
    /// Time of the read.
    pub(crate) now: Millis,
}

impl Portion {
    /// A portion without rows, whose place is still to be set.
    pub(crate) fn of_events(now: Millis) -> Portion {
        Portion { rows: Vec::new(), count: 0, last: Vec::new(), now }
    }
}

/// A part of the groups of one closed window.
#[derive(Debug)]
pub(crate) struct ClosedGroups {
    /// The start of the window.
    pub(crate) window: Millis,
    /// The groups, told apart by their keys without the window's start, in order.
    pub(crate) groups: Vec<ViewChange>,
    /// The last key, with the window's start.
    pub(crate) last: Vec<u8>,
}

impl View {
    /// The next rows of the first window that is closed and has any: behind a key, of windows that begin at `from` or later,
    /// at most so many, in the order of their keys. `latest` is the latest time that is on disk ([`View::committed_at`]). Asked
    /// again it answers the same, as a closed window does not change.
    pub(crate) fn closed(
        &self,
        after: Option<&[u8]>,
        from: Option<Millis>,
        latest: Millis,
        limit: u64,
        now: Millis,
    ) -> Result<Option<Portion>, EngineError> {
        let mut groups = self.query.no_groups().ok_or_else(|| self.unavailable("it has no groups"))?;
        let read = self.walk_closed((after, from), latest, limit, |key, state| {
            self.query.add_state(&mut groups, key, state, now).map_err(|error| self.unavailable(error))
        })?;
        let Some((_, last)) = read else { return Ok(None) };
        let result = self.query.rows(groups, now);
        Ok(Some(Portion { rows: result.text.into(), count: result.count, last, now }))
    }

    /// The same with the key of each group, also of those that have no row.
    pub(crate) fn closed_groups(
        &self,
        after: Option<&[u8]>,
        from: Option<Millis>,
        latest: Millis,
        limit: u64,
        now: Millis,
    ) -> Result<Option<ClosedGroups>, EngineError> {
        let mut groups = Vec::new();
        let read = self.walk_closed((after, from), latest, limit, |ordered, state| {
            let row = Key::of_ordered(ordered).and_then(|key| self.query.row_of_state(&key, state, now));
            let row = row.map_err(|error| self.unavailable(error))?;
            let key = Key::within_window(ordered).map_err(|error| self.unavailable(error))?;
            groups.push(ViewChange::of(key, row));
            Ok(())
        })?;
        Ok(read.map(|(window, last)| ClosedGroups { window, groups, last }))
    }

    /// Reads some groups of one window; returns its start, and the last key.
    fn walk_closed(
        &self,
        (after, from): (Option<&[u8]>, Option<Millis>),
        latest: Millis,
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), EngineError>,
    ) -> Result<Option<(Millis, Vec<u8>)>, EngineError> {
        let Some(open) = self.query.windows().and_then(|windows| windows.first_open(latest)) else {
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
        let snapshot = self.store.snapshot(self.id()).map_err(|error| self.unavailable(error))?;
        let mut read: Option<(Millis, Vec<u8>)> = None;
        for (count, pair) in (0..).zip(snapshot.range((start, Bound::Excluded(&open[..])))) {
            let (key, state) = pair.map_err(|error| self.unavailable(error))?;
            let of = Key::window_of_ordered(&key)
                .ok_or_else(|| self.unavailable("a stored key is damaged, or of another version"))?;
            let window = read.as_ref().map_or(of, |(window, _)| *window);
            if of != window || count >= limit {
                break;
            }
            each(&key, &state)?;
            read = Some((window, key));
        }
        Ok(read)
    }
}
