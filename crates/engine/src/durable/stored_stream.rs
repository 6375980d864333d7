//! A stream whose events are stored: how they are accepted, and what waits on the way to its table.
//!
//! Events are validated against the stream's columns, packed, and given room in the log before any lock is taken. Then
//! the lock of the stream's intake gives them their offset and arrival. Under it, they are put into the log's queue,
//! into the feed of the table, and their number among the producer's numbers; so the log has them in the order of their
//! offsets.
//!
//! Events that wait before the lock while their stream is dropped are refused. If its declaration changes meanwhile,
//! they are validated again.

use super::recovered::Recovered;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use swiftwater_catalog::{ReceiptSnapshot, StreamNumbers};
use swiftwater_event::{Backoff, EventBatch, EventMeta, Millis, Offset, StreamName};
use swiftwater_lang::ddl::CreateStream;
use swiftwater_log::{
    EventsHead, Head, Horizons, Log, LogError, LogPosition, PackedPayload, Producer, Reservation, StreamId,
};
use swiftwater_store::{Status as TableStatus, Table};
use tokio::sync::{Notify, SetOnce};

use crate::{
    Ack, AppendOptions, Appended, DedupError, EngineError, Numbered, RuntimeError, TableMetrics, Ticket,
};
use crate::{
    durable::{
        ack_horizon::AckHorizon,
        arrivals::Arrivals,
        backpressure::{Backpressure, Progress},
        columns::{AcceptedColumns, Columns},
        dedup::{Producers, Receipt, Verdict},
        log_tail::{LogTail, QueuedBatch},
        table_writer::RETRY,
    },
    supervisor::DropSignal,
};
use swiftwater_runtime::lock_order::{OrderedMutex, OrderedRwLock};

/// The longest time until senders who wait for readers look again whether these go on.
pub(super) const LOOKS_APART: Duration = Duration::from_millis(100);

/// The readers of a stored stream's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Its table.
    Table,
    /// A view, by number; durable queries as [`FOLLOWER`], a sink as [`number_of_sink`](super::feeds::number_of_sink) says.
    View(u32),
}

/// The number of the durable queries among the views that read a stream. No view has it.
pub(crate) const FOLLOWER: u32 = u32::MAX;

/// A view of the stream: what waits on the way to it.
#[derive(Debug)]
pub(super) struct ViewFeed {
    pub(super) view: u32,
    pub(super) feed: LogTail,
    pub(super) progress: Progress,
    /// The offset before which the view needs no events.
    pub(super) committed: u64,
}

/// A stored stream.
#[derive(Debug)]
pub(crate) struct StoredStream {
    pub(crate) id: StreamId,
    pub(crate) name: StreamName,
    declared: OrderedRwLock<Arc<Declared>>,
    /// Opened when the store can be reached; until then events wait in the log.
    table: SetOnce<Table>,
    /// The reason why it is not open.
    unopened: OrderedMutex<Option<String>>,
    /// The offset of the next event when this began.
    began: u64,
    /// The same now, as `state` has it: for readers, who look at it often.
    next: AtomicU64,
    pub(super) state: OrderedMutex<State>,
    /// The offset before which no event is on its way to the table.
    settled: u64,
    /// Notified when events were put into the feed.
    pub(crate) fed: Notify,
    /// Notified when somebody waits for them to be in the table.
    pub(crate) awaited: Notify,
    /// True if senders may have to wait for the readers.
    pub(super) may_wait: AtomicBool,
    /// Locked by the sender that is next, if some wait.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Notified when a reader made progress.
    pub(super) went_on: Notify,
    /// Requests that waited for the readers.
    pub(super) held_back: AtomicU64,
    dropped: DropSignal,
    /// The table's offset at the writer's last failure, and the pauses since.
    pub(crate) retry: OrderedMutex<(Option<Offset>, Backoff)>,
}

/// The compiled declaration of a stream.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) id: StreamId,
    pub(crate) create: CreateStream,
    pub(crate) columns: Columns,
}

#[derive(Debug)]
pub(super) struct State {
    /// The offset of the next event.
    pub(super) next: u64,
    /// The end of the stream's last events in the log.
    pub(super) last: LogPosition,
    /// The offset of the first event that was stored; none if there was none, or that is not known.
    pub(super) kept_from: Option<u64>,
    pub(super) feed: LogTail,
    pub(super) progress: Progress,
    pub(super) views: Vec<ViewFeed>,
    pub(super) pressure: Backpressure,
    pub(super) producers: Producers,
    pub(super) acknowledged: AckHorizon,
    pub(super) arrivals: Arrivals,
}

/// Events ready to be stored.
pub(crate) struct Packing {
    pub(crate) batch: EventBatch,
    pub(crate) columns: Option<AcceptedColumns>,
    pub(crate) packed: PackedPayload,
    pub(crate) room: Reservation,
}

/// The outcome of storing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// They are in the log before here.
    Appended(LogPosition),
    /// An earlier request of the same number stored them.
    Repeated(Receipt),
}

impl StoredStream {
    pub(crate) fn new(
        id: StreamId,
        declared: Declared,
        table: Option<Table>,
        recovered: Recovered,
    ) -> StoredStream {
        let Recovered { next, last, kept_from, mut feed, pressure, producers, arrivals, views } = recovered;
        let committed = table.as_ref().map_or(0, |table| table.committed().0);
        let views =
            views.into_iter().map(|(view, committed)| ViewFeed::new(view, feed.clone(), committed, next));
        let views = views.collect();
        let needed = feed.retained_from(committed, next);
        if let Some(from) = needed {
            feed.fall_behind(from);
        }
        StoredStream {
            id,
            name: declared.create.name.clone(),
            declared: OrderedRwLock::new(Arc::new(declared)),
            table: SetOnce::new_with(table),
            unopened: OrderedMutex::default(),
            began: next,
            next: AtomicU64::new(next),
            state: OrderedMutex::new(State {
                next,
                last,
                kept_from,
                feed,
                progress: Progress::default(),
                views,
                pressure,
                producers,
                acknowledged: AckHorizon::new(next),
                arrivals,
            }),
            settled: if needed.is_none() { next } else { 0 },
            fed: Notify::new(),
            awaited: Notify::new(),
            may_wait: AtomicBool::new(true),
            turn: tokio::sync::Mutex::default(),
            went_on: Notify::new(),
            held_back: AtomicU64::new(0),
            dropped: DropSignal::default(),
            retry: OrderedMutex::new((None, RETRY)),
        }
    }

    /// Ends the stream, as it was dropped.
    pub(crate) fn end(&self) {
        self.dropped.send();
    }

    /// Returns when the stream is dropped.
    pub(crate) async fn ended(&self) {
        self.dropped.received().await;
    }

    pub(crate) fn drop_signal(&self) -> &DropSignal {
        &self.dropped
    }

    /// Its table, if it is open.
    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.get()
    }

    /// Its table, when it is open.
    pub(crate) async fn opened(&self) -> &Table {
        self.table.wait().await
    }

    /// The reason why its table is not open, if opening was tried.
    pub(crate) fn unopened(&self) -> Option<String> {
        self.unopened.lock().clone()
    }

    /// Records that its table could not be opened; returns true if the reason is new.
    pub(crate) fn record_unopened(&self, why: String) -> bool {
        let mut unopened = self.unopened.lock();
        let is_news = unopened.as_ref() != Some(&why);
        *unopened = Some(why);
        is_news
    }

    /// Sets its table. A table with more events than the log has offsets is refused: new events would be skipped as if
    /// it had them.
    pub(crate) fn set_table(&self, table: Table) -> Result<(), String> {
        let committed = table.committed().0;
        if committed > self.began {
            return Err(format!(
                "it has {committed} events, the log counted {} when the server started: part of the log was lost",
                self.began
            ));
        }
        // A single task opens tables late, so it is not set yet.
        let _ = self.table.set(table);
        *self.unopened.lock() = None;
        Ok(())
    }

    /// The offset before which the table has committed all events; 0 if that is not known.
    pub(crate) fn committed(&self) -> u64 {
        self.table().map_or(0, |table| table.committed().0)
    }

    pub(crate) fn declared(&self) -> Arc<Declared> {
        Arc::clone(&self.declared.read())
    }

    pub(crate) fn declare(&self, declared: Declared) {
        *self.declared.write() = Arc::new(declared);
    }

    /// The offset of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// The offset before which events may have been acknowledged.
    pub(crate) fn acknowledged(&self, log: &Log) -> u64 {
        let synced = log.horizons().synced;
        self.state.lock().acknowledged.up_to(synced)
    }

    /// Requests a commit of the events before an offset: they are written now. Returns the offset that the table is to
    /// reach; none if nothing is on its way to it.
    pub(crate) fn request_flush(&self, next: u64) -> Option<u64> {
        let next = Some(next).filter(|next| *next > self.settled);
        if next > self.table().map(|table| table.appended().0) {
            self.awaited.notify_one();
        }
        next
    }

    /// Appends events to the log and the feed. The caller holds the stream's intake, which has given them `first`
    /// and `arrival`.
    pub(crate) fn store(
        &self,
        log: &Log,
        packing: Packing,
        (first, arrival): (u64, Millis),
        options: &AppendOptions,
    ) -> Result<Outcome, EngineError> {
        let Packing { batch, columns, packed, room } = packing;
        let mut state = self.state.lock();
        if let Some(numbered) = &options.numbered
            && let Some(receipt) = state.find_receipt(numbered, options.ack)?
        {
            return Ok(Outcome::Repeated(receipt));
        }
        let events = batch.len() as u64;
        let head =
            EventsHead {
                stream: self.id,
                first: Offset(first),
                events: events as u32,
                arrival,
                sent_micros: options.sent_micros.unwrap_or(0),
                sample: options.source_sample,
                producer: options.numbered.as_ref().map(|Numbered { producer, sequence, hash, .. }| {
                    Producer { id: (&**producer).into(), sequence: *sequence, hash: *hash }
                }),
                part: options.numbered.as_ref().map_or(0, |numbered| numbered.part),
            };
        let Horizons { appended: start, synced, .. } = log.horizons();
        let end = log.append(Head::Events(head), packed, room).map_err(unavailable)?;
        state.next = first + events;
        self.next.store(state.next, Ordering::Release);
        if state.last == LogPosition(0) {
            state.kept_from = Some(first);
        }
        state.last = end;
        let next = state.next;
        state.acknowledged.record((end, next), options.ack, synced);
        if let Some(Numbered { producer, sequence, part, hash, .. }) = &options.numbered {
            let receipt = Receipt {
                sequence: *sequence,
                parts: u32::from(*part) + 1,
                accepted: events,
                offset: first + events,
                log_position: end.0,
            };
            state.producers.record(producer, receipt, *hash);
        }
        let meta = EventMeta { first: Offset(first), arrival, ..*batch.meta() };
        let batch = batch.with_meta(meta);
        for ViewFeed { feed, .. } in &mut state.views {
            feed.mark(first, start, end);
            feed.push(QueuedBatch { batch: batch.clone(), columns: None, end }, start);
        }
        if state.arrivals.is_full() {
            // Committed events are forgotten, so that instants stay close together.
            state.oldest_pending_arrival(self.table().map_or(self.settled, |table| table.committed().0));
        }
        state.arrivals.record(first, arrival);
        state.feed.mark(first, start, end);
        state.feed.push(QueuedBatch { batch, columns, end }, start);
        if state.feed.is_overrun() || state.views.iter().any(ViewFeed::is_delaying) {
            self.may_wait.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.fed.notify_waiters();
        Ok(Outcome::Appended(end))
    }

    /// The receipt of a part that is stored already; none if it is new.
    pub(crate) fn find_receipt(&self, numbered: &Numbered, ack: Ack) -> Result<Option<Receipt>, EngineError> {
        self.state.lock().find_receipt(numbered, ack)
    }

    /// The offset before which events are lost, where the table has come to `appended` and was given all that feed and log
    /// have: they were counted once, and what was skipped of the log had them.
    pub(crate) fn lost_up_to(&self, appended: u64) -> Option<u64> {
        let state = self.state.lock();
        // Events from before the stream was stored are not lost.
        let was_stored = state.last > LogPosition(0);
        (was_stored && state.feed.is_idle() && appended < state.next).then_some(state.next)
    }

    /// Its numbers for a snapshot.
    pub(crate) fn numbers(&self) -> StreamNumbers {
        let state = self.state.lock();
        let receipts = |receipt: &Receipt| -> ReceiptSnapshot {
            (receipt.sequence, receipt.parts, receipt.accepted, receipt.offset, receipt.log_position)
        };
        let producers = state.producers.iter().map(|(id, all)| (id.into(), all.map(receipts).collect()));
        StreamNumbers {
            position: state.last.0,
            next_offset: state.next,
            kept_from: state.kept_from,
            producers: producers.collect(),
            hashes: state
                .producers
                .hashes()
                .map(|(id, sequence, part, hash)| (id.into(), sequence, part, hash))
                .collect(),
        }
    }

    /// Approximate arrival of the oldest event that its table, or a view of it, has not committed; none if there is no
    /// such event.
    pub(crate) fn oldest_pending_arrival(&self) -> Option<Millis> {
        let committed = self.table().map_or(self.settled, |table| table.committed().0);
        self.state.lock().oldest_pending_arrival(committed)
    }

    /// The metrics of its table.
    pub(crate) fn metrics(&self) -> TableMetrics {
        // Before the stream's next offset is looked at, which is never behind.
        let status = self.table().map(Table::status);
        let committed = status.as_ref().map_or(self.settled, |status| status.progress.committed.0);
        let number = |of: fn(&TableStatus) -> u64| status.as_ref().map_or(0, of);
        TableMetrics {
            name: self.name.clone(),
            lag_events: self.next().saturating_sub(committed),
            commits: number(|status| status.commits),
            files: number(|status| status.files as u64),
            file_bytes: number(|status| status.file_bytes),
            held_back: self.held_back.load(Ordering::Relaxed),
            waiting_bytes: number(|status| status.tail_bytes as u64),
            // It is not opened while its store is away.
            is_failing: status.as_ref().is_none_or(|status| status.failing.is_some()),
        }
    }

    /// The answer for events that were stored, now or before.
    pub(crate) fn appended(&self, outcome: Outcome, offset: u64, events: u64) -> Appended {
        match outcome {
            Outcome::Appended(end) => {
                Appended { ticket: Some(Ticket(end.0)), ..Appended::live(&self.name, offset, events) }
            }
            Outcome::Repeated(receipt) => Appended {
                is_repeated: true,
                ticket: Some(Ticket(receipt.log_position)),
                ..Appended::live(&self.name, receipt.offset, events)
            },
        }
    }
}

impl ViewFeed {
    /// A feed in which all events of the stream in the log are marked.
    pub(super) fn new(view: u32, mut feed: LogTail, committed: u64, next: u64) -> ViewFeed {
        if let Some(from) = feed.retained_from(committed, next) {
            feed.fall_behind(from);
        }
        ViewFeed { view, feed, progress: Progress::default(), committed }
    }
}

impl State {
    /// Does the same as [`StoredStream::oldest_pending_arrival`], if the table has committed the events before this
    /// offset.
    fn oldest_pending_arrival(&mut self, committed: u64) -> Option<Millis> {
        let views = self.views.iter().filter(|view| view.may_delay());
        let behind = views.map(|view| view.committed).fold(committed, u64::min);
        let oldest = self.arrivals.of(behind);
        oldest.filter(|_| behind < self.next)
    }

    pub(super) fn feed_of(&mut self, reader: Reader) -> Option<&mut LogTail> {
        match reader {
            Reader::Table => Some(&mut self.feed),
            Reader::View(view) => self.views.iter_mut().find(|of| of.view == view).map(|of| &mut of.feed),
        }
    }

    /// The receipt of a part that is stored already; none if it is new. The sender gets it at once if it does not wait for a disk.
    fn find_receipt(&mut self, numbered: &Numbered, ack: Ack) -> Result<Option<Receipt>, EngineError> {
        let Numbered { producer, sequence, part, after, hash } = numbered;
        match self.producers.check(producer, *sequence, (*part, *after), *hash) {
            Verdict::New => Ok(None),
            Verdict::StoredStream(receipt) => {
                if ack != Ack::Disk {
                    self.acknowledged.at_once(receipt.offset);
                }
                Ok(Some(receipt))
            }
            Verdict::Forgotten(lowest) => {
                Err(DedupError::TooOld { producer: producer.to_string(), sequence: *sequence, lowest }.into())
            }
            Verdict::Gap(parts) => {
                Err(DedupError::PartMissing { producer: producer.to_string(), sequence: *sequence, parts }
                    .into())
            }
            Verdict::Other => {
                Err(DedupError::NumberReused { producer: producer.to_string(), sequence: *sequence }.into())
            }
        }
    }
}

/// The error of the log for a sender.
pub(crate) fn unavailable(error: LogError) -> EngineError {
    match error {
        LogError::Full => EngineError::DiskFull,
        LogError::Closed => EngineError::Runtime(RuntimeError::ShuttingDown),
        LogError::TooLarge { bytes, bytes_max } => EngineError::TooLarge { bytes, bytes_max },
        error => EngineError::NotStored(error.to_string()),
    }
}
