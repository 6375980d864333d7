//! Rebuilds views whose files were damaged: rereads all their events from the log or from the stream's table. If some events
//! are gone, the view fails for good and reports this, because a count over a part of the events would be a wrong answer.

use std::{ops::Range, sync::atomic::Ordering};

use super::{behind::check_past, view::View};

/// The remedy for a view that cannot be rebuilt.
const REMEDY: &str = "DROP it and CREATE it again, WITH (backfill = true) to count the events that are left";

impl View {
    /// True if it is taking its events in again.
    pub(super) fn is_rebuilding(&self) -> bool {
        self.rebuilt_at.load(Ordering::Relaxed) > 0
    }

    /// The reason why it cannot be read at present, while it is rebuilt.
    pub(super) fn rebuilding(&self) -> Option<String> {
        let until = self.rebuilt_at.load(Ordering::Relaxed);
        let position = self.at().position;
        (until > 0).then(|| {
            format!(
                "its files were damaged, and it is rebuilt from its events: it is at {position} of {until}"
            )
        })
    }

    /// Begins to take all events in again, at a start that found its files damaged.
    pub(super) fn start_rebuilding(&self) {
        let (first, until) = (self.at().position, self.stored.next());
        let (view, stream) = (self.name(), self.stored.name.as_str());
        if first >= until {
            // There were no events, or it has them again.
            self.store.record_rebuilt(self.id());
            return;
        }
        self.rebuilt_at.store(until, Ordering::Relaxed);
        if !self.joined.is_empty() {
            let why = "its files were damaged, and it cannot be rebuilt: its events were joined with rows that have \
                       changed";
            self.give_up(why);
        } else if self.is_behind.load(Ordering::Relaxed)
            && check_past(&self.stored.declared().create).is_err()
        {
            let why = "its files were damaged, and it cannot be rebuilt: the log no longer has its events, and \
                       events with columns inside lists cannot be made from the table's rows";
            self.give_up(why);
        } else {
            tracing::error!(
                view,
                stream,
                first,
                until,
                "the files of a view were damaged; it is rebuilt from its events"
            );
        }
    }

    fn give_up(&self, why: &str) {
        tracing::error!(view = self.name(), why, "a view cannot be rebuilt");
        self.record_failure(format!("{why}; {REMEDY}"), true);
    }

    /// It is kept up to where it is: it is done with that if this is far enough.
    pub(super) fn end_rebuilding(&self) {
        if self.committed() >= self.rebuilt_at.load(Ordering::Relaxed) {
            self.store.record_rebuilt(self.id());
            self.rebuilt_at.store(0, Ordering::Relaxed);
            tracing::info!(view = self.name(), "a view was rebuilt");
        }
    }
}

/// The reason why a view cannot be rebuilt after its stream lost events.
#[derive(Debug, thiserror::Error)]
#[error(
    "its files were damaged, and it cannot be rebuilt: the stream's table has {found} of its events {} to {}; {REMEDY}", offsets.start, offsets.end - 1
)]
pub(super) struct EventsGone {
    pub(super) offsets: Range<u64>,
    pub(super) found: u64,
}
