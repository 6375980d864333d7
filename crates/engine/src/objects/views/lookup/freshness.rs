//! Waits until joined views and tables are fresh: a view takes a batch only when they count all events acknowledged before.
//!
//! A view joins only objects that existed when it was created, so no cycle of waits can form.

use std::{sync::Arc, time::Duration};

use swiftwater_log::Log;

use super::{super::View, Sources};
use crate::{
    durable::history::History,
    objects::lookup_join::{JoinedTable, TableError},
};

/// The interval between checks whether the awaited view or table fails.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The positions that views, and the tables that are to be fresh, must reach.
#[derive(Default)]
pub(crate) struct Awaited {
    /// Each with the offset that it is to be at.
    views: Vec<(Arc<View>, u64)>,
    /// They are to be as they are in their store.
    tables: Vec<Arc<JoinedTable>>,
}

/// The reason why a joined object does not get there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WaitError {
    #[error("view `{view}`, which its events are joined with, is stopped: {why}")]
    View { view: String, why: String },
    #[error("view `{0}`, which its events are joined with, was dropped")]
    Gone(String),
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Awaited {
    /// All acknowledged events so far of the streams of the joined objects. Events in the log before those of the caller,
    /// which are synced, are among them.
    pub(crate) fn now(joined: &Sources, log: &Log) -> Awaited {
        let views = joined.views.iter().map(|view| (Arc::clone(view), view.stored.acknowledged(log)));
        Awaited { views: views.collect(), tables: joined.tables.clone() }
    }

    /// Waits until it is counted; an error where one who is waited for fails meanwhile. Then it can be waited for again.
    pub(crate) async fn reached(&self, history: &History) -> Result<(), WaitError> {
        for (view, position) in &self.views {
            let mut progress = view.progress();
            loop {
                let reached = progress.wait_for(|at| at.position >= *position);
                match tokio::time::timeout(LOOK_INTERVAL, reached).await {
                    Ok(Ok(_)) => break,
                    Ok(Err(_)) => return Err(WaitError::Gone(view.name().to_owned())),
                    Err(_) if view.has_ended() => return Err(WaitError::Gone(view.name().to_owned())),
                    Err(_) => {}
                }
                if let Some(why) = view.failing() {
                    return Err(WaitError::View { view: view.name().to_owned(), why });
                }
            }
        }
        for table in &self.tables {
            table.refresh(history).await?;
        }
        Ok(())
    }
}
