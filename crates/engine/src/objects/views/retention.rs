//! Retains the closed windows of a view that sinks have not delivered, or alerts have not evaluated.
//!
//! Each reader reports the start of the first window that it may read again, even after a crash. It therefore reports only
//! when its progress is on disk. A commit deletes no window from there on, however long `retention` is over. A window is
//! therefore either complete or already delivered. Until a reader has reported, as at a start, all windows stay. Other
//! readers go by `retention` alone ([`View::first_kept`]), and so does memory: windows that are retained for longer are on
//! disk only.
//! Limits: `sinks.sinks_max`, `views.alerts_max`.

use std::collections::{HashMap, HashSet};

use swiftwater_event::Millis;
use swiftwater_live::NO_TIME;

use super::View;
use crate::durable::history::History;

/// A reader of closed windows, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NeededBy {
    /// A sink of the view's windows.
    Sink(u32),
    /// An alert on the view; not one that has the view for itself.
    Alert(u32),
}

/// The start of the first window that each reader may read again; [`NO_TIME`]: it may read all.
pub(super) type Needed = HashMap<NeededBy, Millis>;

impl View {
    /// Retains all windows until this reader states which it no longer needs.
    pub(crate) fn needs_windows(&self, by: NeededBy) {
        self.needed.lock().insert(by, NO_TIME);
    }

    /// This reader no longer reads windows that begin before `first`; none: it may read all. If the reader is gone,
    /// this has no effect.
    pub(crate) fn needs_windows_from(&self, by: NeededBy, first: Option<Millis>) {
        if let Some(needed) = self.needed.lock().get_mut(&by) {
            *needed = first.unwrap_or(NO_TIME);
        }
    }

    /// The start of the first window that any reader may still read; none if there is no reader.
    pub(super) fn first_needed(&self) -> Option<Millis> {
        self.needed.lock().values().copied().min()
    }
}

impl History {
    /// The readers in the catalog of the closed windows of a view, which continues. Each will report its position.
    pub(super) fn readers_of_windows(&self, view: &View) -> Needed {
        self.with_catalog(|catalog| {
            let sinks = catalog
                .sinks()
                .all()
                .filter(|sink| sink.view == Some(view.id()) && !sink.create.is_of_changes());
            let sinks = sinks.map(|sink| NeededBy::Sink(sink.id));
            let alerts = catalog.alerts().filter(|alert| alert.create.view() == Some(view.name()));
            let alerts = alerts.map(|alert| NeededBy::Alert(alert.id));
            sinks.chain(alerts).map(|by| (by, NO_TIME)).collect()
        })
    }

    /// Removes the readers that are not in the catalog, or no longer: they read no windows. The caller changes the
    /// catalog, one at a time.
    pub(crate) fn release_windows(&self) {
        let readers: HashSet<NeededBy> = self.with_catalog(|catalog| {
            let sinks = catalog.sinks().all().map(|sink| NeededBy::Sink(sink.id));
            sinks.chain(catalog.alerts().map(|alert| NeededBy::Alert(alert.id))).collect()
        });
        for view in self.all_views() {
            view.needed.lock().retain(|by, _| readers.contains(by));
        }
    }
}
