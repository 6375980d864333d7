//! Validates events against their stream's declared columns before they are stored or matched, whether the stream is stored
//! or not.

use std::{collections::HashMap, sync::Arc};

use swiftwater_catalog::kind::stream::StreamEntry;
use swiftwater_event::{EventBatch, StreamName};
use swiftwater_live::columns::RejectedEvent;

use crate::durable::{
    columns::AcceptedColumns,
    history::{History, run_blocking},
    stored_stream::Declared,
};
use crate::{AppendOptions, EngineError, Refusal, Ticket, shared::Shared};
use swiftwater_runtime::lock_order::OrderedRwLock;
use swiftwater_runtime::parts::Stream;

/// The events of a batch after validation against a declaration.
pub(crate) struct ValidatedBatch {
    /// All of them.
    batch: EventBatch,
    pub(crate) good: EventBatch,
    /// The good ones' columns, where they are worth keeping.
    pub(crate) columns: Option<AcceptedColumns>,
    rejected: Vec<RejectedEvent>,
}

/// The place of bad events, if they are quarantined.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quarantined {
    /// The number of them in the quarantine.
    pub(crate) count: u64,
    pub(crate) ticket: Option<Ticket>,
    /// It had all of them by an earlier try of the same request.
    pub(crate) is_repeated: bool,
}

impl ValidatedBatch {
    /// True if an event does not fit the columns.
    pub(crate) fn has_invalid(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// All events, and those that do not fit the columns.
    pub(crate) fn rejected(&self) -> (&EventBatch, &[RejectedEvent]) {
        (&self.batch, &self.rejected)
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        self.rejected.iter().map(Refusal::from).collect()
    }
}

/// Declarations of streams that are not stored.
#[derive(Debug, Default)]
pub(crate) struct Unstored(OrderedRwLock<HashMap<StreamName, Arc<Declared>>>);

impl Unstored {
    pub(crate) fn get(&self, name: &StreamName) -> Option<Arc<Declared>> {
        self.0.read().get(name).cloned()
    }

    /// Validates the stream's events against this declaration from now on.
    pub(crate) fn declare(&self, entry: &StreamEntry) -> Result<(), EngineError> {
        let declared = Arc::new(Declared::new(entry)?);
        let mut all = self.0.write();
        all.insert(entry.create.name.clone(), declared);
        Ok(())
    }

    pub(crate) fn forget(&self, name: &StreamName) {
        self.0.write().remove(name);
    }
}

impl History {
    /// The declaration of a stream that has one and is not stored.
    pub(crate) fn unstored(&self, name: &StreamName) -> Option<Arc<Declared>> {
        self.unstored.get(name)
    }

    /// Counts and quarantines the bad events of a request after its good ones, `accepted` in number, were taken in; returns
    /// their place in the quarantine. Before that nothing is done about bad ones: the request may still be refused, and sent
    /// again.
    pub(crate) async fn quarantine_bad(
        &self,
        shared: &Shared,
        (stream, declared): (&Stream, &Declared),
        held: &ValidatedBatch,
        options: &AppendOptions,
        (accepted, is_repeated): (u64, bool),
    ) -> Result<Quarantined, EngineError> {
        let kept = match declared.quarantines() {
            true => {
                self.quarantine(shared, declared, (&options.refused, &held.batch, &held.rejected), options)
                    .await
            }
            false => Ok(Quarantined::default()),
        };
        let kept = match kept {
            // Events without a request number would be doubled by another attempt.
            Err(error) if accepted > 0 && options.numbered.is_none() => {
                let bad = options.refused.len() + held.rejected.len();
                tracing::warn!(stream = %declared.create.name, bad, %error, "bad events could not be quarantined");
                Quarantined::default()
            }
            kept => kept?,
        };
        if !is_repeated && !kept.is_repeated {
            stream.count_rejected(options.rejected + held.rejected.len() as u64);
        }
        Ok(kept)
    }
}

impl Declared {
    /// Validates events against the declaration. Counts and stores nothing.
    pub(crate) fn validate(&self, batch: EventBatch, now_micros: i64) -> ValidatedBatch {
        if batch.is_empty() {
            return ValidatedBatch { good: batch.clone(), batch, columns: None, rejected: Vec::new() };
        }
        let (good, columns, rejected) = run_blocking(batch.bytes().len(), || {
            self.columns.accept(batch.clone(), now_micros.div_euclid(1000))
        });
        ValidatedBatch { batch, good, columns, rejected }
    }
}
