//! Sends the pending messages of an alert in order and in batches; each attempt at a batch uses the same number.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use swiftwater_event::StreamName;

use super::{
    Alert,
    alert::{NotificationTarget, WatchError},
    state::AlertState,
};
use crate::{
    DedupError, EngineError,
    durable::history::History,
    objects::sinks::{DeliverError, Delivery},
    shared::Shared,
};

impl History {
    /// Sends the pending messages, until none is left. A stream stores each number once; a webhook recognises it.
    pub(super) async fn send_messages(
        &self,
        alert: &Alert,
        told: &NotificationTarget,
        known: &mut AlertState,
    ) -> Result<(), WatchError> {
        while let Some((number, rows)) = known.next_messages(alert.batch_rows()) {
            let shared = self.shared()?;
            let bytes = rows.len();
            let delivery = Delivery { by: alert.id(), number, rows: rows.to_vec().into(), hash: 0 };
            let mut is_given_up = false;
            match told {
                NotificationTarget::Stream(stream) => {
                    self.notify_stream(&shared, alert, stream, &delivery).await?
                }
                NotificationTarget::Webhook(webhook) => {
                    if let Err(error) = delivery.post(webhook).await {
                        self.give_up(&shared, alert, &delivery, error).await?;
                        is_given_up = true;
                    }
                }
            }
            // Before it is counted: who sees the count sees nothing that fails any more.
            alert.tries.record_success();
            if is_given_up {
                count(&alert.counts.dead, &delivery);
            }
            count(&alert.counts.messages, &delivery);
            known.record_notified(bytes);
            self.persist_state(alert, known).await?;
        }
        Ok(())
    }

    async fn notify_stream(
        &self,
        shared: &Arc<Shared>,
        alert: &Alert,
        stream: &StreamName,
        delivery: &Delivery,
    ) -> Result<(), WatchError> {
        match self.append_once(shared, stream, delivery, false).await {
            Ok(appended) => {
                if let Some(refusal) = appended.refusals.first() {
                    let why = &*refusal.message;
                    tracing::error!(alert = alert.name(), %stream, why, "a stream refuses an alert's message, which is lost");
                    alert.counts.refused.fetch_add(appended.refusals.len() as u64, Ordering::Relaxed);
                }
                Ok(())
            }
            // So old that it is no longer known by its number: it was stored.
            Err(EngineError::Dedup(DedupError::TooOld { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Delivers rows that a webhook does not accept to the dead-letter stream, if that is declared and no other attempt
    /// is left.
    async fn give_up(
        &self,
        shared: &Arc<Shared>,
        alert: &Alert,
        delivery: &Delivery,
        error: DeliverError,
    ) -> Result<(), WatchError> {
        let options = &alert.entry.create.options.delivery;
        if !alert.tries.is_exhausted(options, &error) {
            return Err(error.into());
        }
        self.to_dead_letter(
            shared,
            ("alert", alert.name()),
            options.dead_letter.as_deref(),
            delivery,
            &error,
        )
        .await?;
        Ok(())
    }
}

fn count(counter: &AtomicU64, delivery: &Delivery) {
    let messages = delivery.rows.iter().filter(|byte| **byte == b'\n').count();
    counter.fetch_add(messages as u64, Ordering::Relaxed);
}
