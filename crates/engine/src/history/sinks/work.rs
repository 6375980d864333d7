//! Sinks at work: a task for each takes the windows that its view has closed and kept, one delivery after another.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use swiftwater_event::Millis;
use tokio::sync::{Notify, watch};

use super::{
    deliver::{DeliverError, Target},
    entry::{Delivered, SinkEntry},
};
use crate::{
    EngineError,
    history::{
        catalog::Change,
        state::{History, heavy},
        views::{Closed, View},
    },
    shared::Shared,
    stream::lock,
};

/// The pause after a first failure; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between tries.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Rows of a delivery where the sink does not say.
const BATCH_ROWS: u32 = 1000;

/// The sinks whose tasks run.
#[derive(Debug, Default)]
pub(crate) struct SinksAtWork {
    at_work: Mutex<HashMap<u32, Arc<AtWork>>>,
    /// A sink was created or dropped.
    pub(crate) changed: Notify,
}

/// One that runs.
#[derive(Debug, Default)]
pub(super) struct AtWork {
    is_dropped: watch::Sender<bool>,
    /// Why the last try failed, and how many there were since a delivery came about.
    pub(super) failing: Mutex<Option<(String, u32)>>,
}

impl SinksAtWork {
    pub(super) fn of(&self, id: u32) -> Option<Arc<AtWork>> {
        lock(&self.at_work).get(&id).cloned()
    }
}

/// What ends a sink's task.
enum End {
    Closing,
    Dropped,
}

impl History {
    /// Lets a task run for each sink that there is, until the engine ends.
    pub(crate) async fn keep_sinks(self: Arc<Self>, shared: Weak<Shared>) {
        let mut closing = self.closing();
        loop {
            let changed = self.sinks.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let Some(shared) = shared.upgrade() else { return };
                self.begin_and_end(&shared);
            }
            tokio::select! {
                () = changed => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
        }
    }

    fn begin_and_end(self: &Arc<Self>, shared: &Arc<Shared>) {
        let entries: Vec<SinkEntry> = self.with_catalog(|catalog| catalog.sinks.all().cloned().collect());
        let mut at_work = lock(&self.sinks.at_work);
        at_work.retain(|id, work| {
            let is_there = entries.iter().any(|entry| entry.id == *id);
            if !is_there {
                work.is_dropped.send_replace(true);
            }
            is_there
        });
        for entry in entries {
            if let std::collections::hash_map::Entry::Vacant(vacant) = at_work.entry(entry.id) {
                let work = Arc::new(AtWork::default());
                vacant.insert(Arc::clone(&work));
                let (history, shared) = (Arc::clone(self), Arc::downgrade(shared));
                self.spawn(async move {
                    history.keep_sink(&shared, entry, &work).await;
                });
            }
        }
    }

    async fn keep_sink(self: &Arc<Self>, shared: &Weak<Shared>, mut entry: SinkEntry, work: &AtWork) -> End {
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.deliver_all(shared, &mut entry, work).await {
                Ok(end) => return end,
                Err(error) => error,
            };
            let is_news = {
                let mut failing = lock(&work.failing);
                let (before, tries) = failing.take().unwrap_or_default();
                if tries == 0 {
                    pause = PAUSE_MIN;
                }
                let is_news = before != error.to_string();
                *failing = Some((error.to_string(), tries.saturating_add(1)));
                is_news
            };
            if is_news {
                tracing::warn!(sink = &*entry.create.name, %error, "a sink does not take what it is given; it is tried again");
            }
            tokio::select! {
                end = ends(self, work) => return end,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }

    /// Delivers what there is and what comes, until a delivery fails.
    async fn deliver_all(
        self: &Arc<Self>,
        shared: &Weak<Shared>,
        entry: &mut SinkEntry,
        work: &AtWork,
    ) -> Result<End, DeliverError> {
        let view = self.view(&entry.create.view)?;
        let mut kept = view.kept_at();
        let mut target = Target::of(self, entry)?;
        loop {
            let latest = kept.borrow_and_update().latest;
            while let Some(closed) = self.next_closed(&view, entry, latest)? {
                let shared = shared.upgrade().ok_or(EngineError::ShuttingDown)?;
                if closed.count == 0 {
                    // HAVING leaves all of them out. It is looked at once more after a restart.
                    entry.delivered.pass(&closed.last);
                    continue;
                }
                let delivered = tokio::select! {
                    biased;
                    end = ends(self, work) => return Ok(end),
                    delivered = target.deliver(self, &shared, entry, &view, &closed) => delivered,
                };
                let (dead, bytes) = match delivered {
                    Ok(bytes) => (0, bytes),
                    Err(error) if gives_up(entry, work, &error) => {
                        self.bury(&shared, entry, &closed, &error).await?;
                        (closed.count, entry.delivered.bytes)
                    }
                    Err(error) => return Err(error),
                };
                self.note(entry, entry.delivered.after(closed.count, dead, &closed.last, bytes)).await?;
                lock(&work.failing).take();
            }
            tokio::select! {
                end = ends(self, work) => return Ok(end),
                _ = kept.changed() => {}
            }
        }
    }

    /// The next rows of one window that is closed.
    fn next_closed(
        &self,
        view: &View,
        entry: &SinkEntry,
        latest: Millis,
    ) -> Result<Option<Closed>, DeliverError> {
        let rows = entry.create.options.batch_rows.unwrap_or(BATCH_ROWS);
        let after = entry.delivered.last_key();
        let read = || view.closed(after.as_deref(), entry.from, latest, u64::from(rows), self.clock.now());
        Ok(heavy(usize::MAX, read)?)
    }

    /// Writes down how far a sink is.
    async fn note(&self, entry: &mut SinkEntry, delivered: Delivered) -> Result<(), DeliverError> {
        self.record(Change::Delivered { sink: entry.id, delivered: delivered.clone() }).await?;
        entry.delivered = delivered;
        Ok(())
    }
}

/// Whether what cannot be delivered is to go elsewhere.
fn gives_up(entry: &SinkEntry, work: &AtWork, error: &DeliverError) -> bool {
    let options = &entry.create.options;
    if options.dead_letter.is_none() {
        return false;
    }
    let tries = lock(&work.failing).as_ref().map_or(0, |(_, tries)| *tries);
    error.is_final() || options.retries.is_some_and(|retries| tries >= retries)
}

/// Ready when the engine ends, or the sink is dropped.
async fn ends(history: &History, work: &AtWork) -> End {
    let (mut closing, mut dropped) = (history.closing(), work.is_dropped.subscribe());
    tokio::select! {
        _ = closing.wait_for(|closing| *closing) => End::Closing,
        _ = dropped.wait_for(|dropped| *dropped) => End::Dropped,
    }
}
