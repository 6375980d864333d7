//! Events are held against their stream's declaration before anything else becomes of them, whether they are stored or not.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use swiftwater_event::{EventBatch, StreamName};

use super::{
    catalog::StreamEntry,
    columns::AcceptedColumns,
    quarantine::BadEvent,
    state::{History, heavy},
    stored::Declared,
};
use crate::{AppendOptions, EngineError, Refusal, Ticket, shared::Shared, stream::Stream};

/// What became of events that were held against a declaration.
pub(crate) struct Held {
    pub(crate) good: EventBatch,
    /// The good ones' columns, where they are worth keeping.
    pub(crate) columns: Option<AcceptedColumns>,
    pub(crate) refusals: Vec<Refusal>,
    /// Of all that were refused, how many the quarantine keeps, and where it has them.
    pub(crate) quarantined: u64,
    pub(crate) ticket: Option<Ticket>,
}

/// Declarations of streams that are not stored.
#[derive(Debug, Default)]
pub(crate) struct Unstored(RwLock<HashMap<StreamName, Arc<Declared>>>);

impl Unstored {
    pub(crate) fn get(&self, name: &StreamName) -> Option<Arc<Declared>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Holds the stream's events against this declaration from now on.
    pub(super) fn declare(&self, entry: &StreamEntry) -> Result<(), EngineError> {
        let declared = Arc::new(Declared::new(entry)?);
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(entry.create.name.clone(), declared);
        Ok(())
    }

    pub(super) fn forget(&self, name: &StreamName) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

impl History {
    /// The declaration of a stream that has one and is not stored.
    pub(crate) fn unstored(&self, name: &StreamName) -> Option<Arc<Declared>> {
        self.unstored.get(name)
    }

    /// Holds events against their stream's declaration. Those that it refuses are counted, and kept where it says so.
    pub(crate) async fn hold(
        &self,
        shared: &Shared,
        (stream, declared): (&Stream, &Declared),
        batch: EventBatch,
        now_micros: i64,
        options: &AppendOptions,
    ) -> Result<Held, EngineError> {
        let (good, columns, rejected) = match batch.is_empty() {
            true => (batch.clone(), None, Vec::new()),
            false => heavy(batch.bytes().len(), || {
                declared.columns.accept(batch.clone(), now_micros.div_euclid(1000))
            }),
        };
        let refusals = rejected.iter().map(Refusal::from).collect();
        if options.all_or_none && !rejected.is_empty() {
            return Ok(Held {
                good: batch.select(&[]),
                columns: None,
                refusals,
                quarantined: 0,
                ticket: None,
            });
        }
        stream.count_rejected(rejected.len() as u64);
        let mut bad = Vec::new();
        if declared.quarantines() {
            bad.extend(options.refused.iter().map(BadEvent::of_text));
            bad.extend(rejected.iter().map(|rejected| BadEvent::of_row(&batch, rejected)));
        }
        let (quarantined, ticket) = self.quarantine(shared, declared, &bad, options).await?;
        Ok(Held { good, columns, refusals, quarantined, ticket })
    }
}
