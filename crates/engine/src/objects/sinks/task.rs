//! The tasks of sinks: each reads the closed windows or the changes of its view, or the events of its stream, and delivers them one
//! delivery at a time.

use std::{
    collections::{HashMap, VecDeque},
    ops::ControlFlow,
    sync::Arc,
};

use swiftwater_catalog::{
    Change, Object, ObjectKind,
    kind::sink::{Delivered, SinkEntry},
};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::{CreateSink, SinkQuery};
use tokio::sync::Notify;

use super::{
    deliver::{DeliverError, Delivery, Target},
    event_query::EventQuery,
    event_reader::EventReader,
    group_commit::NotGrouped,
    retry::Retry,
    rows::{EventRows, Rows},
};
use crate::{
    EngineError,
    durable::{
        feeds::number_of_sink,
        history::{History, run_blocking},
    },
    objects::views::{NeededBy, Portion, View},
    shared::Shared,
    supervisor::{DropSignal, Maintained, NextAttempt, TaskKind},
};
use swiftwater_runtime::lock_order::{OrderedMutex, level};

/// The sinks whose tasks run.
#[derive(Debug, Default)]
pub(crate) struct SinkTasks {
    at_work: OrderedMutex<HashMap<u32, Arc<SinkTask>>, level::SinkTasks>,
    /// A sink was created or dropped.
    pub(crate) changed: Notify,
}

/// A sink whose task runs.
#[derive(Debug)]
pub(super) struct SinkTask {
    /// The sink's state when its task began, or its last attempt failed.
    entry: OrderedMutex<SinkEntry>,
    object: Object,
    dropped: DropSignal,
    pub(super) tries: Retry,
}

impl SinkTasks {
    pub(super) fn of(&self, id: u32) -> Option<Arc<SinkTask>> {
        self.at_work.lock().get(&id).cloned()
    }
}

impl Maintained for SinkTask {
    type Error = DeliverError;

    fn object(&self) -> Object {
        self.object.clone()
    }

    fn task_kind(&self) -> TaskKind {
        TaskKind::Reader
    }

    fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    async fn run(self: &Arc<Self>, history: &Arc<History>) -> Result<(), DeliverError> {
        let mut entry = self.entry.lock().clone();
        let query = entry.create.query().cloned();
        let ran = match query {
            None => history.deliver_rows_of_view(&mut entry, self).await,
            Some(query) => history.deliver_events(&query, &mut entry, self).await,
        };
        *self.entry.lock() = entry;
        ran
    }

    fn failed(&self, _: &Arc<History>, error: DeliverError) -> NextAttempt {
        let (is_news, pause) = self.tries.failed(error.to_string());
        if is_news {
            tracing::warn!(sink = self.object.name, %error, "a delivery failed; the server retries");
        }
        NextAttempt::After(pause)
    }
}

impl History {
    /// Runs a task for each sink, until the engine closes.
    pub(crate) async fn run_sinks(self: Arc<Self>) {
        let mut closing = self.closing();
        loop {
            let changed = self.objects.sinks.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.start_and_end();
            tokio::select! {
                () = changed => {}
                () = closing.received() => return,
            }
        }
    }

    fn start_and_end(self: &Arc<Self>) {
        let entries: Vec<SinkEntry> = self.with_catalog(|catalog| catalog.sinks().all().cloned().collect());
        let mut at_work = self.objects.sinks.at_work.lock();
        at_work.retain(|id, work| {
            let is_there = entries.iter().any(|entry| entry.id == *id);
            if !is_there {
                work.dropped.send();
            }
            is_there
        });
        for entry in entries {
            if let std::collections::hash_map::Entry::Vacant(vacant) = at_work.entry(entry.id) {
                let work = Arc::new(SinkTask {
                    object: entry.object(),
                    entry: OrderedMutex::new(entry),
                    dropped: DropSignal::default(),
                    tries: Retry::default(),
                });
                vacant.insert(Arc::clone(&work));
                self.maintain(work);
            }
        }
    }

    /// Delivers the rows of a view that there are and that come, until a delivery fails.
    async fn deliver_rows_of_view(
        self: &Arc<Self>,
        entry: &mut SinkEntry,
        work: &SinkTask,
    ) -> Result<(), DeliverError> {
        let view = self.view(entry.create.view().unwrap_or_default())?;
        let mut kept = view.committed_at();
        let rows = Rows::View(Arc::clone(&view), *kept.borrow());
        // All before is on disk: it was when the sink was begun, or was noted since.
        release_delivered(&rows, entry);
        let Some(mut run) = DeliveryRun::open(self, rows, entry, work).await? else { return Ok(()) };
        loop {
            run.rows = Rows::View(Arc::clone(&view), *kept.borrow_and_update());
            if run.deliver_present(self).await?.is_break() {
                return Ok(());
            }
            tokio::select! {
                _ = self.ended(TaskKind::Reader, &work.dropped) => return Ok(()),
                _ = kept.changed() => {}
            }
        }
    }

    /// Delivers rows of the events that there are and that come, until a delivery fails.
    async fn deliver_events(
        self: &Arc<Self>,
        query: &SinkQuery,
        entry: &mut SinkEntry,
        work: &SinkTask,
    ) -> Result<(), DeliverError> {
        let query = Arc::new(self.event_query(query, entry.created)?);
        let mut reader = EventReader::new(self, Arc::clone(&query), entry);
        let rows = Rows::Events(EventRows { query, portions: VecDeque::new(), lost: 0 });
        let Some(mut run) = DeliveryRun::open(self, rows, entry, work).await? else { return Ok(()) };
        loop {
            let Rows::Events(rows) = &mut run.rows else { return Ok(()) };
            tokio::select! {
                biased;
                _ = self.ended(TaskKind::Reader, &work.dropped) => return Ok(()),
                planned = reader.plan(self, run.entry, rows) => planned?,
            }
            if run.deliver_present(self).await?.is_break() {
                return Ok(());
            }
        }
    }

    /// Delivers all that has gathered into a table, which is first asked once for the last delivery that it had before.
    async fn deliver_gathered(
        &self,
        shared: &Arc<Shared>,
        (rows, table): (&Rows, &str),
        entry: &SinkEntry,
        inserted: &mut Option<Option<u64>>,
    ) -> Result<Option<Delivered>, NotGrouped> {
        let inserted = match *inserted {
            Some(inserted) => inserted,
            None => *inserted.insert(self.last_in_table(shared, table, entry).await?),
        };
        self.deliver_together(shared, (rows, table), entry, inserted).await
    }

    /// The compiled query of a sink that was created `now`.
    fn event_query(&self, query: &SinkQuery, now: Millis) -> Result<EventQuery, EngineError> {
        let stored = self.stored(&query.stream);
        let stored =
            stored.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, query.stream.as_str()))?;
        EventQuery::new(query, stored, now)
    }

    /// Logs the progress of a sink.
    pub(super) async fn record_delivered(
        &self,
        entry: &mut SinkEntry,
        delivered: Delivered,
    ) -> Result<(), DeliverError> {
        self.record(Change::Delivered { sink: entry.id, delivered: delivered.clone() }).await?;
        entry.delivered = delivered;
        Ok(())
    }

    /// The sinks of a view's changes, by number, with the place up to which each has them. That place need not be on
    /// disk, except at a start.
    pub(crate) fn sinks_of_changes(&self, view: &View) -> HashMap<u32, Vec<u8>> {
        let is_of = |sink: &&SinkEntry| sink.view == Some(view.id()) && sink.create.is_of_changes();
        let place = |sink: &SinkEntry| (sink.id, sink.delivered.last_key().unwrap_or_default());
        self.with_catalog(|catalog| catalog.sinks().all().filter(is_of).map(place).collect())
    }

    /// Changes of a view need not be kept for a sink that is not in the catalog, or not any more. The caller changes the catalog,
    /// one at a time, and what it changed is on disk.
    pub(crate) fn release_changes(&self, view: &View) {
        let sinks: Vec<u32> = self.sinks_of_changes(view).into_keys().collect();
        // A log that nobody wants is deleted.
        run_blocking(if sinks.is_empty() { usize::MAX } else { 0 }, || view.set_sinks_of_changes(&sinks));
    }
}

/// A run of a sink's task, until a delivery fails.
struct DeliveryRun<'r> {
    rows: Rows,
    target: Target,
    entry: &'r mut SinkEntry,
    work: &'r SinkTask,
    /// The last delivery that a table had before, once it was asked.
    inserted: Option<Option<u64>>,
    /// Number of deliveries to make one by one, as they failed together.
    alone: u64,
    /// The target failed for good, and the sink goes on.
    is_to_reopen: bool,
}

/// The outcome of an attempt to deliver.
enum DeliveryOutcome {
    /// Some rows were delivered, or skipped; there may be more.
    Delivered,
    /// All that is on disk was delivered.
    NothingLeft,
    /// The sink was dropped, or the engine closes.
    Ended,
}

impl<'r> DeliveryRun<'r> {
    /// Opens the target; none if the sink ends meanwhile.
    async fn open(
        history: &History,
        rows: Rows,
        entry: &'r mut SinkEntry,
        work: &'r SinkTask,
    ) -> Result<Option<DeliveryRun<'r>>, DeliverError> {
        let target = tokio::select! {
            biased;
            _ = history.ended(TaskKind::Reader, &work.dropped) => return Ok(None),
            target = Target::open(history, entry, &rows) => target?,
        };
        Ok(Some(DeliveryRun { rows, target, entry, work, inserted: None, alone: 0, is_to_reopen: false }))
    }

    /// Delivers all rows that are there; breaks off if the sink ends meanwhile.
    async fn deliver_present(&mut self, history: &History) -> Result<ControlFlow<()>, DeliverError> {
        loop {
            match self.deliver_next(history).await? {
                DeliveryOutcome::Delivered => {}
                DeliveryOutcome::NothingLeft => return Ok(ControlFlow::Continue(())),
                DeliveryOutcome::Ended => return Ok(ControlFlow::Break(())),
            }
        }
    }

    /// Delivers what comes next: to a table or topic all that has gathered, otherwise one portion.
    async fn deliver_next(&mut self, history: &History) -> Result<DeliveryOutcome, DeliverError> {
        let shared = history.shared()?;
        if std::mem::take(&mut self.is_to_reopen) {
            self.target = Target::open(history, self.entry, &self.rows).await?;
        }
        if let Some(outcome) = self.deliver_group(history, &shared).await? {
            return Ok(outcome);
        }
        let next = || self.rows.next_portion(self.entry, &self.entry.delivered, history.clock.now());
        let Some(portion) = run_blocking(usize::MAX, next)? else {
            return Ok(DeliveryOutcome::NothingLeft);
        };
        self.alone = self.alone.saturating_sub(1);
        self.deliver_portion(history, &shared, portion).await
    }

    /// Delivers to a table or a topic all that has gathered, at once. None where the next portion is to be delivered by itself.
    async fn deliver_group(
        &mut self,
        history: &History,
        shared: &Arc<Shared>,
    ) -> Result<Option<DeliveryOutcome>, DeliverError> {
        if self.alone > 0 {
            return Ok(None);
        }
        let (entry, rows) = (&*self.entry, &self.rows);
        let together = match &mut self.target {
            Target::Table(table) => {
                let inserted = &mut self.inserted;
                let into = history.deliver_gathered(shared, (rows, table), entry, inserted);
                tokio::select! {
                    biased;
                    _ = history.ended(TaskKind::Reader, &self.work.dropped) => None,
                    together = into => Some(together),
                }
            }
            // After a failure one by one, so that `retries` holds for each.
            Target::Kafka(topic) if self.work.tries.failing().is_none() => {
                tokio::select! {
                    biased;
                    _ = history.ended(TaskKind::Reader, &self.work.dropped) => None,
                    together = history.write_gathered(topic, rows, entry) => Some(together),
                }
            }
            _ => return Ok(None),
        };
        let Some(together) = together else { return Ok(Some(DeliveryOutcome::Ended)) };
        self.record_group(history, together).await
    }

    /// Records the outcome of a group.
    async fn record_group(
        &mut self,
        history: &History,
        together: Result<Option<Delivered>, NotGrouped>,
    ) -> Result<Option<DeliveryOutcome>, DeliverError> {
        match together {
            Ok(None) => Ok(Some(DeliveryOutcome::NothingLeft)),
            Ok(Some(delivered)) => {
                if delivered.count > self.entry.delivered.count {
                    history.record_delivered(self.entry, delivered).await?;
                    self.work.tries.record_success();
                } else {
                    self.entry.delivered = delivered;
                }
                release_delivered(&self.rows, self.entry);
                Ok(Some(DeliveryOutcome::Delivered))
            }
            // The target has to be opened again.
            Err(NotGrouped { error: error @ DeliverError::Kafka(_), .. }) => Err(error),
            Err(NotGrouped { deliveries, error }) => {
                let sink = &*self.entry.create.name;
                tracing::debug!(sink, deliveries, %error, "a group of deliveries failed, and is delivered one by one");
                self.alone = deliveries.max(1);
                Ok(None)
            }
        }
    }

    /// Delivers one portion.
    async fn deliver_portion(
        &mut self,
        history: &History,
        shared: &Arc<Shared>,
        portion: Portion,
    ) -> Result<DeliveryOutcome, DeliverError> {
        let Portion { rows, count, last, now } = portion;
        if count == 0 {
            let passed = self.rows.pass(&self.entry.delivered, &last);
            if passed.count > self.entry.delivered.count {
                history.record_delivered(self.entry, passed).await?;
            } else {
                // Windows that still exist are read once more after a restart.
                self.entry.delivered = passed;
            }
            release_delivered(&self.rows, self.entry);
            return Ok(DeliveryOutcome::Delivered);
        }
        let delivery = Delivery {
            by: id_of(self.entry),
            number: self.entry.delivered.count,
            rows: rows.into(),
            hash: 0,
        };
        let length = self.entry.delivered.bytes;
        let delivering = self.target.deliver(history, shared, &delivery, (&self.rows, now), length);
        let delivered = tokio::select! {
            biased;
            _ = history.ended(TaskKind::Reader, &self.work.dropped) => return Ok(DeliveryOutcome::Ended),
            delivered = delivering => delivered,
        };
        let (dead, bytes) = match delivered {
            Ok(bytes) => (0, bytes),
            Err(error) if self.work.tries.is_exhausted(&self.entry.create.options, &error) => {
                match self.deliver_anew(history, shared, (&delivery, now), error).await? {
                    None => (0, length),
                    // The broker went away meanwhile.
                    Some(error) if !self.work.tries.is_exhausted(&self.entry.create.options, &error) => {
                        return Err(error);
                    }
                    Some(error) => {
                        self.deliver_with_dead_letter(history, shared, (&delivery, now), error).await?
                    }
                }
            }
            Err(error) => return Err(error),
        };
        let delivered = self.entry.delivered.after(count, dead, &last, bytes);
        history.record_delivered(self.entry, delivered).await?;
        release_delivered(&self.rows, self.entry);
        self.work.tries.record_success();
        Ok(DeliveryOutcome::Delivered)
    }

    /// Opens a topic anew and delivers once more, before rows are given up: the topic may have them although their acknowledgement
    /// was lost, or may accept larger ones by now. Returns the error for which they are given up, if there is one.
    async fn deliver_anew(
        &mut self,
        history: &History,
        shared: &Arc<Shared>,
        (delivery, now): (&Delivery, Millis),
        error: DeliverError,
    ) -> Result<Option<DeliverError>, DeliverError> {
        let Target::Kafka(_) = self.target else { return Ok(Some(error)) };
        self.target = Target::open(history, self.entry, &self.rows).await?;
        let length = self.entry.delivered.bytes;
        let delivered = self.target.deliver(history, shared, delivery, (&self.rows, now), length).await;
        // A producer that has failed is of no further use.
        self.is_to_reopen = matches!(delivered, Err(DeliverError::Kafka(_)));
        Ok(delivered.err())
    }

    /// Writes the rows that cannot be delivered to the dead-letter stream, and delivers the others. Returns how many rows are
    /// dead, and of a file its length.
    async fn deliver_with_dead_letter(
        &mut self,
        history: &History,
        shared: &Arc<Shared>,
        (delivery, now): (&Delivery, Millis),
        error: DeliverError,
    ) -> Result<(u64, u64), DeliverError> {
        let CreateSink { name, options, .. } = &self.entry.create;
        let dead_letter = options.dead_letter.as_deref();
        let length = self.entry.delivered.bytes;
        let (mut dead, mut rest, mut error) = (0, delivery.clone(), error);
        loop {
            dead += history.to_dead_letter(shared, ("sink", &**name), dead_letter, &rest, &error).await?;
            // These go on without those.
            let Some(good) = rest.without(&error) else { return Ok((dead, length)) };
            match self.target.deliver(history, shared, &good, (&self.rows, now), length).await {
                Ok(bytes) => return Ok((dead, bytes)),
                // The broker sees only rows that fit their schema.
                Err(too_large @ DeliverError::TooLarge(_)) if matches!(error, DeliverError::Unfit(_)) => {
                    (rest, error) = (good, too_large);
                }
                Err(failed) => return Err(failed),
            }
        }
    }
}

/// What a sink has delivered need not be kept for it any more, as its progress is on disk: of windows, those before the last one.
fn release_delivered(rows: &Rows, entry: &SinkEntry) {
    match rows {
        Rows::View(view, _) if entry.create.is_of_changes() => {
            view.changes_delivered(entry.id, entry.delivered.last_key().unwrap_or_default());
        }
        Rows::View(view, _) => view.needs_windows_from(NeededBy::Sink(entry.id), entry.first_needed()),
        Rows::Events(events) => {
            events.query.stored.view_committed(number_of_sink(entry.id), entry.delivered.offset());
        }
    }
}

/// The writer for a sink's deliveries. No other has this one's number and time of creation.
pub(super) fn id_of(entry: &SinkEntry) -> String {
    format!("swiftwater/sink/{}-{}", entry.id, entry.created)
}
