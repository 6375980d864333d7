//! Appends events to a stream, whether it is stored, declared as live-only, or not declared.

use std::{pin::pin, time::Duration};

use swiftwater_event::{EventBatch, StreamName};
use swiftwater_runtime::is_reserved_producer;

use crate::{Ack, AppendOptions, Appended, EngineError, Numbered, RuntimeError, Ticket, shared::Shared};

/// The time that a sender waits for a disk that accepts nothing.
const STALL_TIME_MAX: Duration = Duration::from_secs(10);

impl Shared {
    /// See [`crate::Engine::append`].
    pub(crate) async fn append(
        &self,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        if let Some(Numbered { producer, .. }) = &options.numbered
            && is_reserved_producer(producer)
        {
            return Err(RuntimeError::ReservedProducer(producer.to_string()).into());
        }
        if let Some((history, stored)) = self.stored(stream) {
            let stream = self.stream(stream)?;
            return history.append(self, (&stream, &stored), batch, options).await;
        }
        if self.unstored(stream).is_some_and(|(_, declared)| declared.create.source.is_some()) {
            return Err(EngineError::ReadsTopic(stream.to_string()));
        }
        if let Some(appended) = self.append_to_cluster(stream, &batch, &options).await? {
            return Ok(appended);
        }
        self.append_unstored(stream, batch, options).await
    }

    /// Appends to a stream that is not stored, also events of the topic that it reads.
    pub(crate) async fn append_unstored(
        &self,
        stream: &StreamName,
        batch: EventBatch,
        options: AppendOptions,
    ) -> Result<Appended, EngineError> {
        if let Some((history, declared)) = self.unstored(stream) {
            let live = self.stream(stream)?;
            let held = declared.validate(batch, self.clock.now_micros());
            if !held.good.is_empty() {
                self.enter(held.good.bytes().len()).await?;
            }
            // Those are counted beside the ones that the columns refuse.
            let live_options = AppendOptions { rejected: 0, ..options.clone() };
            let may = || self.is_declared_as(stream, Some(&declared));
            let put = self.put(stream, held.good.clone(), &live_options, may)?;
            let taken = (put.accepted, false);
            let kept = history.quarantine_bad(self, (&live, &declared), &held, &options, taken).await?;
            let refusals = held.refusals();
            return Ok(Appended { refusals, quarantined: kept.count, ticket: kept.ticket, ..put });
        }
        if !batch.is_empty() {
            self.enter(batch.bytes().len()).await?;
        }
        Ok(self.put(stream, batch, &options, || self.is_declared_as(stream, None))?)
    }

    /// See [`crate::Engine::ack`].
    pub(crate) fn ack(&self, stream: &StreamName) -> Option<Ack> {
        self.history.get()?.ack(stream)
    }

    /// See [`crate::Engine::synced`].
    pub(crate) async fn synced(&self, ticket: Ticket) -> Result<(), EngineError> {
        let history = self.history.get().ok_or(EngineError::NoHistory)?;
        let mut synced = pin!(history.synced(ticket));
        loop {
            if let Ok(done) = tokio::time::timeout(STALL_TIME_MAX, &mut synced).await {
                return done;
            }
            if let Some(error) = history.stall_error() {
                return Err(error);
            }
        }
    }
}
