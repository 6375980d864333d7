//! Folds a batch of events into the keys of a view.

use super::changefeed::ChangedKey;
use super::view::{At, GROUP_KEY_BYTES_MAX, PARTS, View};
use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};
use swiftwater_event::{EventBatch, EventMeta, Millis, Offset};
use swiftwater_live::{Fold, GroupTable, JoinFailure, RowHash, by_part};
use swiftwater_views::ViewStoreError;

/// The reason why a view cannot take events.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcceptError {
    #[error(transparent)]
    Store(#[from] ViewStoreError),
    #[error("the state of a key cannot be read: it is damaged, or of another version")]
    State,
    #[error("its events cannot be joined")]
    Join(#[from] JoinFailure),
    #[error("the events at offset {0} caused a panic: this is a fault of the engine")]
    Panic(u64),
}

impl View {
    /// Takes in a batch, whole or not at all; events that it has taken before are passed over. Nothing of the view depends on
    /// `now`: it is when readers find the rows that who listens is told of.
    pub(super) fn accept_batch(
        &self,
        shard: &mut swiftwater_live::Shard,
        batch: &EventBatch,
        now: Millis,
    ) -> Result<(), AcceptError> {
        let Some(batch) = rest_of(batch, self.at().position) else { return Ok(()) };
        let (batch, first) = (&*batch, batch.meta().first.0);
        let next = first + batch.len() as u64;
        let folded = catch_unwind(AssertUnwindSafe(|| self.query.fold(shard, batch, self.at().time)));
        let mut fold: Fold = folded.map_err(|_| {
            shard.recover();
            AcceptError::Panic(first)
        })?;
        if let Some(failure) = fold.failure.take() {
            return Err(failure.into());
        }
        let groups = fold.groups.take();
        let by_part = groups.as_ref().map(|groups| by_part(groups, PARTS, GROUP_KEY_BYTES_MAX));
        let (by_part, long_keys) = by_part.unwrap_or_default();
        if let Some(groups) = &groups {
            // All that may fail comes before the first change.
            for (place, chosen) in by_part.iter().enumerate().filter(|(_, chosen)| !chosen.is_empty()) {
                let lacked = self.parts[place].read().lacks(groups, chosen);
                let mut found = Vec::new();
                for key in lacked {
                    found.extend(self.store.get(self.id(), &key.ordered)?.map(|state| (key, state)));
                }
                let mut part = self.change(place);
                for (key, state) in &found {
                    part.load(&self.query, key, state).map_err(|_| AcceptError::State)?;
                }
            }
        }
        // Only this task changes the parts, so before and after it they are as they were left.
        let listened = groups.as_ref().filter(|_| self.listeners.receiver_count() > 0);
        let before = listened.map(|groups| self.shown(groups, &by_part, now));
        let one_position = self.whole.write();
        if let Some(groups) = &groups {
            for (place, chosen) in by_part.iter().enumerate().filter(|(_, chosen)| !chosen.is_empty()) {
                self.change(place).merge(&self.query, groups, chosen, (next, batch.meta().arrival));
            }
        }
        let Fold { matched, mistyped, expression_errors, time, late, ahead, .. } = fold;
        for (count, more) in [
            (&self.counts.events, batch.len() as u64),
            (&self.counts.matched, matched),
            (&self.counts.mistyped, mistyped),
            (&self.counts.errors, expression_errors),
            (&self.counts.long_keys, long_keys),
            (&self.counts.late, late),
            (&self.counts.ahead, ahead),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
        // Before another may look at all parts: they are told with the position that they have.
        self.at.send_replace(At { position: next, arrival: batch.meta().arrival, time });
        drop(one_position);
        if let Some(groups) = &groups
            && self.listeners.receiver_count() > 0
        {
            let keys = before.map(|before| {
                let after = self.shown(groups, &by_part, now);
                ChangedKey::of_groups(groups, &by_part, before.into_iter().zip(after))
            });
            self.announce(keys, next, false);
        }
        Ok(())
    }

    /// The rows of the keys of some groups, part by part.
    fn shown(&self, groups: &GroupTable, by_part: &[Vec<u32>], now: Millis) -> Vec<RowHash> {
        let chosen = by_part.iter().enumerate().filter(|(_, chosen)| !chosen.is_empty());
        let shown = chosen.flat_map(|(place, chosen)| {
            let part = self.parts[place].read();
            part.shown(&self.query, groups, chosen, now)
        });
        shown.collect()
    }
}

/// The events of a batch from an offset on; none if all are before it. The events from the table may end within a batch of the
/// log.
fn rest_of(batch: &EventBatch, from: u64) -> Option<Cow<'_, EventBatch>> {
    let first = batch.meta().first.0;
    let known = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
    if known >= batch.len() {
        return None;
    }
    if known == 0 {
        return Some(Cow::Borrowed(batch));
    }
    let rows: Vec<u32> = (known as u32..batch.len() as u32).collect();
    let meta = EventMeta { first: Offset(from), ..*batch.meta() };
    Some(Cow::Owned(batch.select(&rows).with_meta(meta)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    #[test]
    fn events_that_were_taken_are_left_out() {
        let batch =
            check_block(Bytes::from_static(b"{\"k\":5}\n{\"k\":6}\n{\"k\":7}"), &CheckLimits::default(), 1)
                .batch;
        let batch = batch.with_meta(EventMeta { first: Offset(5), ..EventMeta::default() });
        let left = |from: u64| {
            rest_of(&batch, from).map(|rest| {
                let events: Vec<_> = (0..rest.len()).map(|row| rest.event(row).to_vec()).collect();
                (rest.meta().first.0, String::from_utf8(events.concat()).unwrap())
            })
        };
        let all = (5, "{\"k\":5}{\"k\":6}{\"k\":7}".to_owned());
        for (from, expected) in [
            (0, Some(all.clone())),
            (5, Some(all)),
            (6, Some((6, "{\"k\":6}{\"k\":7}".to_owned()))),
            (7, Some((7, "{\"k\":7}".to_owned()))),
            (8, None),
            (u64::MAX, None),
        ] {
            assert_eq!(left(from), expected, "from {from}");
        }
    }
}
