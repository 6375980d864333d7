//! The state of an alert in memory and on disk. The two are the same, except that the position on disk may be an earlier
//! one.

use std::{collections::BTreeMap, fmt::Write, ops::Bound};

use serde_json::json;
use swiftwater_event::{Millis, Value, write_json};
use swiftwater_live::Key;
use swiftwater_views::ViewStoreError;

use super::Alert;
use crate::{EngineError, objects::views::ViewChange};

/// The keys of the state besides the view's keys; no key in the order of its values begins so.
const MESSAGES: &[u8] = b"\xfetell";
const SENT_BYTES: &[u8] = b"\xfetold";
const NUMBER: &[u8] = b"\xfenumber";
const LAST: &[u8] = b"\xfelast";

/// The state of an alert.
#[derive(Debug, Default)]
pub(super) struct AlertState {
    /// Keys that meet the condition, and since when.
    met: BTreeMap<Vec<u8>, Millis>,
    /// Messages to send, a line each. The first `sent_bytes` of them were sent, the rest is sent under
    /// `number`.
    messages: Vec<u8>,
    sent_bytes: usize,
    number: u64,
    /// All changes of the view before here were taken.
    pub(super) position: u64,
    /// The last key that was evaluated, if the view has windows.
    pub(super) last: Option<Vec<u8>>,
    /// The keys to write to disk; none: the key does not meet the condition any more.
    changed: Vec<(Vec<u8>, Option<Millis>)>,
    /// True if there are new messages since the last commit.
    has_more: bool,
}

impl AlertState {
    /// The committed state.
    pub(super) fn load(alert: &Alert) -> Result<AlertState, ViewStoreError> {
        let (id, store) = (alert.entry.id, &alert.store);
        let mut known = AlertState { position: store.position(id)?.unwrap_or(0), ..AlertState::default() };
        let snapshot = store.snapshot(id)?;
        for pair in snapshot.range((Bound::Unbounded, Bound::Unbounded)) {
            let (key, value) = pair?;
            let number = || value[..].try_into().ok().map(i64::from_be_bytes);
            match &key[..] {
                MESSAGES => known.messages = value,
                SENT_BYTES => known.sent_bytes = number().unwrap_or(0) as usize,
                NUMBER => known.number = number().unwrap_or(0) as u64,
                LAST => known.last = Some(value),
                _ => known.met.extend(number().map(|since| (key, since))),
            }
        }
        known.sent_bytes = known.sent_bytes.min(known.messages.len());
        Ok(known)
    }

    /// The number of keys that meet the condition.
    pub(super) fn met(&self) -> usize {
        self.met.len()
    }

    /// Keys that meet the condition, in order, between bounds.
    pub(super) fn met_between(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> impl Iterator<Item = &Vec<u8>> {
        self.met.range::<[u8], _>(bounds).map(|(key, _)| key)
    }

    /// Applies the changes of some keys, and adds the messages about them to the pending ones. Returns the number that
    /// were skipped because `keys_max` keys meet the condition.
    pub(super) fn apply(
        &mut self,
        alert: &Alert,
        changes: &[ViewChange],
        meets: &[bool],
        (keys_max, now): (usize, Millis),
    ) -> u64 {
        let mut passed_over = 0;
        for (change, &meets) in changes.iter().zip(meets) {
            match (self.met.get(&change.key.ordered).copied(), meets) {
                (None, true) if self.met.len() >= keys_max => passed_over += 1,
                (None, true) => {
                    self.met.insert(change.key.ordered.clone(), now);
                    self.changed.push((change.key.ordered.clone(), Some(now)));
                    self.queue_message(alert, change, "firing", (now, now));
                }
                (Some(since), false) => {
                    self.met.remove(&change.key.ordered);
                    self.changed.push((change.key.ordered.clone(), None));
                    if alert.entry.create.options.resolve != Some(false) {
                        self.queue_message(alert, change, "resolved", (since, now));
                    }
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        passed_over
    }

    fn queue_message(
        &mut self,
        alert: &Alert,
        change: &ViewChange,
        state: &str,
        (since, at): (Millis, Millis),
    ) {
        // In quotes, and written as times in rows are.
        let time = |ms: Millis| {
            let mut text = Vec::new();
            write_json(&Value::Timestamp(ms.saturating_mul(1000)), &mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        let mut head = String::new();
        // Writing to a String does not fail.
        let _ = write!(
            head,
            "{{\"alert\":{},\"state\":\"{state}\",\"at\":{},\"since\":{},\"key\":",
            json!(alert.name()),
            time(at),
            time(since)
        );
        self.messages.extend_from_slice(head.as_bytes());
        self.messages.extend_from_slice(&change.key.json());
        self.messages.extend_from_slice(b",\"row\":");
        self.messages.extend_from_slice(change.row.as_deref().unwrap_or(b"null"));
        self.messages.extend_from_slice(b"}\n");
        self.has_more = true;
    }

    /// True if something is to go to disk besides the position.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty() || self.has_more
    }

    /// The number and the text of the next messages that are to be told, at most so many; none where there are none. After a
    /// crash these are the same.
    pub(super) fn next_messages(&self, count: usize) -> Option<(u64, &[u8])> {
        let rest = &self.messages[self.sent_bytes..];
        let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let end = ends.take(count).last()?;
        Some((self.number, &rest[..end]))
    }

    /// Records that so many bytes of them were sent; later messages have the next number.
    pub(super) fn record_notified(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        self.number += 1;
        if self.sent_bytes >= self.messages.len() {
            self.messages.clear();
            self.sent_bytes = 0;
            // The copy on disk must be deleted.
            self.has_more = true;
        }
    }

    /// Writes its state to disk. Messages, which may be many, go there once.
    pub(super) fn commit(&mut self, alert: &Alert) -> Result<(), ViewStoreError> {
        let (number, told) = (self.number.to_be_bytes(), (self.sent_bytes as u64).to_be_bytes());
        let since: Vec<Option<[u8; 8]>> =
            self.changed.iter().map(|(_, since)| since.map(i64::to_be_bytes)).collect();
        let keys = self.changed.iter().zip(&since);
        let keys = keys.map(|((key, _), since)| (&key[..], since.as_ref().map(|since| &since[..])));
        let messages = Some(&self.messages[..]).filter(|messages| !messages.is_empty());
        let messages = self.has_more.then_some((MESSAGES, messages));
        let rest = [(SENT_BYTES, Some(&told[..])), (NUMBER, Some(&number[..])), (LAST, self.last.as_deref())];
        alert.store.commit(alert.entry.id, keys.chain(messages).chain(rest), self.position)?;
        self.changed.clear();
        self.has_more = false;
        Ok(())
    }

    /// The keys that meet the condition, with their rows as they are now.
    pub(super) fn rows_of_met(&self, alert: &Alert, now: Millis) -> Result<Vec<ViewChange>, EngineError> {
        let row = |ordered: &Vec<u8>| {
            let key = Key::of_ordered(ordered).map_err(|error| alert.view.unavailable(error))?;
            let row = alert.view.row(&key, now)?;
            Ok(ViewChange::of(key, row))
        };
        self.met.keys().map(row).collect()
    }
}
