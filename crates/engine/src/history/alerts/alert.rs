//! One alert: its condition, which keys meet it, and what is told of those.

use std::{
    collections::BTreeMap,
    fmt::Write,
    ops::Bound,
    sync::{Arc, Mutex, atomic::AtomicU64},
};

use bytes::Bytes;
use serde_json::json;
use swiftwater_event::{CheckLimits, EventBatch, Millis, Step, check_block};
use swiftwater_lang::{Dialect, ParseOptions, QueryError, QueryErrors, ddl::CreateAlert, parse};
use swiftwater_live::{Key, RowCondition, Shard, StandingQuery, expr::push_rfc3339};
use swiftwater_views::{ViewStore, ViewStoreError};
use tokio::sync::watch;

use super::AlertEntry;
use crate::{
    EngineError,
    history::{
        stored::Stored,
        views::{View, ViewChange, query_error},
    },
    stream::lock,
};

/// What is kept besides keys stands under these: no key in the order of its values begins so.
const TO_TELL: &[u8] = b"\xfetell";
const NUMBER: &[u8] = b"\xfenumber";

/// An alert at work.
pub(crate) struct Alert {
    pub(crate) entry: AlertEntry,
    pub(super) view: Arc<View>,
    /// The stream that is told.
    pub(super) stored: Arc<Stored>,
    condition: RowCondition,
    pub(super) store: Arc<ViewStore>,
    pub(super) counts: Counts,
    /// Why it does not go on at present.
    failing: Mutex<Option<String>>,
    pub(super) is_dropped: watch::Sender<bool>,
}

/// What is shown of an alert.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Keys that meet the condition.
    pub(super) met: AtomicU64,
    /// Keys that meet it and are not told: there are too many.
    pub(super) passed_over: AtomicU64,
    pub(super) position: AtomicU64,
    /// Messages since the start, and those of them that the stream's columns refused.
    pub(super) messages: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// What an alert knows; the same is on disk, but for the position, which may be an earlier one there.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Keys that meet the condition, in the order of their values, and since when.
    met: BTreeMap<Vec<u8>, Millis>,
    /// Messages that the stream is to be told, a line each, under `number`.
    pub(super) to_tell: Vec<u8>,
    pub(super) number: u64,
    /// All changes of the view before here were taken.
    pub(super) position: u64,
    /// What of the keys is to go to disk; none: the key does not meet the condition any more.
    changed: Vec<(Vec<u8>, Option<Millis>)>,
}

/// Compiles the condition of an alert; the places of its faults are those in the condition's text.
pub(super) fn compile(create: &CreateAlert, view: &View, now: Millis) -> Result<RowCondition, EngineError> {
    let schema = view.declared().schema();
    let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, now) };
    let name = create.view.replace('"', "\"\"");
    // On lines of its own: an error names the line after it.
    let text = format!("SELECT 1 AS met FROM STREAM(\"{name}\") WHERE (\n{}\n)", create.condition);
    let statement = parse(&text, &options).map_err(|mut errors| {
        errors
            .0
            .iter_mut()
            .for_each(|error| error.line = error.line.map(|line| line.saturating_sub(1).max(1)));
        EngineError::Query(errors)
    })?;
    for (path, _) in statement.query.paths() {
        let Some(Step::Key(name)) = path.steps().first() else { continue };
        if !view.columns.iter().any(|(column, _)| column == name) {
            let columns: Vec<&str> = view.columns.iter().map(|(column, _)| &**column).collect();
            let hint = format!("Columns are {}.", columns.join(", "));
            let message = format!("view `{}` has no column `{name}`", create.view);
            let error = QueryError { hint: Some(hint), ..query_error(message) };
            return Err(EngineError::Query(QueryErrors(vec![error])));
        }
    }
    let query = StandingQuery::compile(statement.query)
        .map_err(|error| EngineError::Query(QueryErrors(vec![query_error(error.to_string())])))?;
    RowCondition::new(query).ok_or(EngineError::NoHistory)
}

impl Alert {
    pub(super) fn new(
        entry: AlertEntry,
        (view, stored): (Arc<View>, Arc<Stored>),
        store: Arc<ViewStore>,
        now: Millis,
    ) -> Result<Alert, EngineError> {
        let condition = compile(&entry.create, &view, now)?;
        Ok(Alert {
            entry,
            view,
            stored,
            condition,
            store,
            counts: Counts::default(),
            failing: Mutex::default(),
            is_dropped: watch::Sender::new(false),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.entry.create.name
    }

    /// Under which name its messages are numbered.
    pub(super) fn producer(&self) -> String {
        format!("alert {}", self.entry.id)
    }

    pub(super) fn failing(&self) -> Option<String> {
        lock(&self.failing).clone()
    }

    /// Answers whether that is news.
    pub(super) fn note_failure(&self, why: Option<String>) -> bool {
        let mut failing = lock(&self.failing);
        let is_news = *failing != why;
        *failing = why;
        is_news
    }

    /// Which of some rows meet the condition, in their order; a key without a row does not.
    pub(super) fn meet(&self, shard: &mut Shard, changes: &[ViewChange]) -> Vec<bool> {
        let with_rows: Vec<usize> =
            (0..changes.len()).filter(|&place| changes[place].row.is_some()).collect();
        let mut meets = vec![false; changes.len()];
        let rows = with_rows.iter().filter_map(|&place| changes[place].row.as_deref());
        for row in self.condition.rows(shard, &rows_as_events(rows)) {
            if let Some(&place) = with_rows.get(row as usize) {
                meets[place] = true;
            }
        }
        meets
    }
}

/// JSON objects as a batch, an event each.
fn rows_as_events<'r>(rows: impl Iterator<Item = &'r [u8]>) -> EventBatch {
    let mut text = Vec::new();
    for row in rows {
        text.extend_from_slice(row);
        text.push(b'\n');
    }
    as_events(text)
}

/// A JSON object a line as a batch.
pub(crate) fn as_events(text: Vec<u8>) -> EventBatch {
    let limits = CheckLimits { event_bytes_max: usize::MAX, depth_max: 512, ..CheckLimits::default() };
    check_block(Bytes::from(text), &limits, 1).batch
}

impl Known {
    /// What is on disk.
    pub(super) fn load(alert: &Alert) -> Result<Known, ViewStoreError> {
        let (id, store) = (alert.entry.id, &alert.store);
        let mut known = Known { position: store.position(id)?.unwrap_or(0), ..Known::default() };
        let snapshot = store.snapshot(id)?;
        for pair in snapshot.range((Bound::Unbounded, Bound::Unbounded)) {
            let (key, value) = pair?;
            let number = || value[..].try_into().ok().map(i64::from_be_bytes);
            match &key[..] {
                TO_TELL => known.to_tell = value,
                NUMBER => known.number = number().unwrap_or(0) as u64,
                _ => known.met.extend(number().map(|since| (key, since))),
            }
        }
        Ok(known)
    }

    /// Keys that meet the condition.
    pub(super) fn met(&self) -> impl ExactSizeIterator<Item = &Vec<u8>> {
        self.met.keys()
    }

    /// Takes what became of some keys; what is to be told of that is added to `to_tell`. Answers how many were passed over
    /// because `keys_max` meet the condition.
    pub(super) fn take(
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
                    self.tell(alert, change, "firing", (now, now));
                }
                (Some(since), false) => {
                    self.met.remove(&change.key.ordered);
                    self.changed.push((change.key.ordered.clone(), None));
                    if alert.entry.create.options.resolve != Some(false) {
                        self.tell(alert, change, "resolved", (since, now));
                    }
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        passed_over
    }

    fn tell(&mut self, alert: &Alert, change: &ViewChange, state: &str, (since, at): (Millis, Millis)) {
        let time = |ms: Millis| {
            let mut text = String::new();
            push_rfc3339(ms.saturating_mul(1000), &mut text);
            text
        };
        let mut head = String::new();
        // Writing to a String does not fail.
        let _ = write!(
            head,
            "{{\"alert\":{},\"state\":\"{state}\",\"at\":\"{}\",\"since\":\"{}\",\"key\":",
            json!(alert.name()),
            time(at),
            time(since)
        );
        self.to_tell.extend_from_slice(head.as_bytes());
        self.to_tell.extend_from_slice(&change.key.json());
        self.to_tell.extend_from_slice(b",\"row\":");
        self.to_tell.extend_from_slice(change.row.as_deref().unwrap_or(b"null"));
        self.to_tell.extend_from_slice(b"}\n");
    }

    /// Whether something is to go to disk besides the position.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty() || !self.to_tell.is_empty()
    }

    /// Puts what it knows on disk.
    pub(super) fn commit(&mut self, alert: &Alert) -> Result<(), ViewStoreError> {
        let number = self.number.to_be_bytes();
        let since: Vec<Option<[u8; 8]>> =
            self.changed.iter().map(|(_, since)| since.map(i64::to_be_bytes)).collect();
        let keys = self.changed.iter().zip(&since);
        let keys = keys.map(|((key, _), since)| (&key[..], since.as_ref().map(|since| &since[..])));
        let to_tell = Some(&self.to_tell[..]).filter(|messages| !messages.is_empty());
        let rest = [(TO_TELL, to_tell), (NUMBER, Some(&number[..]))];
        alert.store.commit(alert.entry.id, keys.chain(rest), self.position)?;
        self.changed.clear();
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
