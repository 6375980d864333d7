//! Requests for the rows of a view: by key, in ranges and pages, as fresh as the client asks for.

use super::reading::{CHUNK_KEYS, Scanned, ViewRows};
use super::{
    compile::plan_view,
    keys::{
        KEY_MEANINGS_MAX, KeyValue, MEANINGS_MAX, Span, all_keys, keys_before, keys_from, keys_in_both,
        keys_of, keys_within, span,
    },
    view::{At, View},
};
use crate::{
    EngineError,
    durable::history::{History, run_blocking},
};
use std::{
    ops::{Bound, ControlFlow},
    sync::Arc,
    time::Duration,
};
use swiftwater_event::{Millis, Type};
use swiftwater_live::Row;

/// The time a reader waits for a view to get as far as it asked.
const CONSISTENT_TIME_MAX: Duration = Duration::from_secs(30);

/// The same for a view that changes with its commits only, while they fail.
const FAILING_TIME_MAX: Duration = Duration::from_secs(1);

/// The position of a view when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewReading {
    /// The offset of the first event of its stream that it may not count.
    pub position: u64,
    /// Milliseconds since the last event that it counts arrived, where others were taken since; else 0.
    pub age_ms: u64,
    /// Time of the view's creation.
    pub created: Millis,
}

/// A page of a view's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPage {
    /// JSON objects, a line each, in the order of their keys.
    pub rows: Vec<u8>,
    /// The number of rows.
    pub count: u64,
    /// The last key, where there may be more behind it.
    pub next: Option<Vec<u8>>,
    /// The position of the view.
    pub reading: ViewReading,
}

/// The range of a view's rows to read. Values that may be several things bound the keys of each such kind by what they are as
/// that kind: `12` as it is written numbers by the number, and texts by the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ViewRange {
    /// The first key, or the first values of one.
    pub from: Option<Vec<KeyValue>>,
    /// The key at the end, exclusive.
    pub to: Option<Vec<KeyValue>>,
    /// Keys that begin with these values, whatever of what they may be they are.
    pub prefix: Option<Vec<KeyValue>>,
    /// The last key of an earlier page; the rows after it follow.
    pub after: Option<Vec<u8>>,
    /// The most rows.
    pub limit: u64,
}

/// The events that a view counts before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// The present state.
    #[default]
    AsItIs,
    /// All that was acknowledged before.
    AckHorizon,
    /// The events of its stream before this offset.
    Position(u64),
}

impl History {
    /// The rows of a view that counts all that was acknowledged before.
    pub(crate) async fn rows_of_view(&self, name: &str) -> Result<ViewRows, EngineError> {
        let view = self.view(name)?;
        self.wait_for_view(&view, Wanted::AckHorizon).await?;
        if let Some(why) = view.broken() {
            return Err(view.unavailable(why));
        }
        let now = self.clock.now();
        let (keys, shapes) = run_blocking(usize::MAX, || {
            let keys = view.keys_at_present(all_keys())?;
            let shapes = view.shapes(&keys, now, || self.types_by_events(&view))?;
            Ok::<_, EngineError>((keys, shapes))
        })?;
        Ok(ViewRows { view, keys, shapes, now })
    }

    /// The types of a view's columns that follow from the columns that were found in its stream's events so far.
    fn types_by_events(&self, view: &View) -> Vec<Type> {
        let declared = view.stored.declared();
        let mut stream = declared.create.clone();
        stream.columns = declared.columns.found();
        if view.below().is_some() || stream.columns.is_empty() {
            return Vec::new();
        }
        // A view that cannot be planned with these types could be without them.
        let planned = plan_view(self, &view.entry.create, &stream, view.entry.created);
        let columns = planned.ok().and_then(|(plan, _)| plan.columns).unwrap_or_default();
        columns.into_iter().map(|(_, ty)| ty).collect()
    }

    /// Waits until a view counts what it is asked to.
    async fn wait_for_view(&self, view: &View, wanted: Wanted) -> Result<(), EngineError> {
        if matches!(wanted, Wanted::AsItIs)
            && let Some(why) = view.rebuilding()
        {
            // It has less than it had.
            return Err(view.unavailable(view.broken().unwrap_or(why)));
        }
        let position = match wanted {
            Wanted::AsItIs if view.is_whole() => return Ok(()),
            Wanted::AsItIs => 0,
            Wanted::AckHorizon => view.stored.acknowledged(&self.log),
            Wanted::Position(position) => position,
        };
        view.hasten(position);
        let mut progress = view.progress();
        let is_there = |at: &At| view.is_whole() && at.position >= position || view.broken().is_some();
        let reached = progress.wait_for(is_there);
        tokio::pin!(reached);
        let end = tokio::time::Instant::now() + CONSISTENT_TIME_MAX;
        loop {
            let has_ended = match tokio::time::timeout(FAILING_TIME_MAX, &mut reached).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) => true,
                Err(_) => tokio::time::Instant::now() >= end,
            };
            // One that is of another changes with its commits only.
            let is_stuck = view.below().is_some() && view.failing().is_some();
            if has_ended || is_stuck {
                let why =
                    view.failing().or_else(|| view.rebuilding()).unwrap_or_else(|| match view.below() {
                        Some(below) if !view.is_whole() => {
                            format!("it is still reading the rows of view `{below}`")
                        }
                        _ => format!("it is at {} and not yet at {position}", view.at().position),
                    });
                return Err(view.unavailable(why));
            }
        }
    }

    pub(crate) async fn view_as(&self, name: &str, wanted: Wanted) -> Result<Arc<View>, EngineError> {
        let view = self.view(name)?;
        self.as_wanted(view, wanted).await
    }

    /// The view of an endpoint: it is there as long as the endpoint is.
    pub(crate) async fn view_of_endpoint(
        &self,
        name: &str,
        wanted: Wanted,
    ) -> Result<Arc<View>, EngineError> {
        let view = self.view_at_work(name)?;
        self.as_wanted(view, wanted).await
    }

    async fn as_wanted(&self, view: Arc<View>, wanted: Wanted) -> Result<Arc<View>, EngineError> {
        self.wait_for_view(&view, wanted).await?;
        match view.broken() {
            None => Ok(view),
            Some(why) => Err(view.unavailable(why)),
        }
    }

    /// The row of a key of a view, and how far the view is at least; no row where no event has that key, or HAVING leaves it
    /// out. Costs a look into memory, or into the view's files.
    pub(crate) async fn view_row(
        &self,
        name: &str,
        key: &[KeyValue],
        wanted: Wanted,
    ) -> Result<(Option<Row>, ViewReading), EngineError> {
        let view = self.view_as(name, wanted).await?;
        let (wanted, found) = (view.query.key_values(), key.len());
        if !view.query.has_keys_of(found) {
            return Err(EngineError::KeyValues { view: name.to_owned(), wanted, found });
        }
        let now = self.clock.now();
        let reading = view.reading(view.at(), now);
        let keys = keys_of(key)
            .ok_or_else(|| EngineError::KeyMeanings { view: name.to_owned(), most: KEY_MEANINGS_MAX })?;
        for key in keys {
            if let Some(row) = view.row(&key, now)? {
                return Ok((Some(row), reading));
            }
        }
        Ok((None, reading))
    }

    /// Rows of a view in the order of their keys, all as at one position.
    pub(crate) async fn view_rows(
        &self,
        name: &str,
        range: &ViewRange,
        wanted: Wanted,
    ) -> Result<ViewPage, EngineError> {
        let view = self.view_as(name, wanted).await?;
        let most = view.query.key_values();
        let spans_of = |values: &Option<Vec<KeyValue>>, spans: fn(&[KeyValue]) -> Option<Vec<Span>>| {
            let Some(values) = values else { return Ok(all_keys()) };
            if values.len() > most {
                return Err(EngineError::KeyValues {
                    view: name.to_owned(),
                    wanted: most,
                    found: values.len(),
                });
            }
            spans(values)
                .ok_or_else(|| EngineError::KeyMeanings { view: name.to_owned(), most: MEANINGS_MAX })
        };
        let (from, before) = (spans_of(&range.from, keys_from)?, spans_of(&range.to, keys_before)?);
        let within = spans_of(&range.prefix, keys_within)?;
        let after = range.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = vec![span((after, Bound::Unbounded))];
        let others = [before, within, behind];
        let spans = others.iter().fold(from, |spans, others| keys_in_both(&spans, others));
        let now = self.clock.now();
        if spans.is_empty() || range.limit == 0 {
            return Ok(ViewPage {
                rows: Vec::new(),
                count: 0,
                next: None,
                reading: view.reading(view.at(), now),
            });
        }
        let mut rows = Vec::new();
        let scanned = run_blocking(usize::MAX, || {
            let keys = view.keys_at_present(spans)?;
            let limits = (range.limit, CHUNK_KEYS);
            let scanned = view.scan((&keys, &keys.spans), limits, (None, now), |some, _| {
                rows.extend_from_slice(&some);
                Ok(ControlFlow::Continue(()))
            });
            scanned.map(|Scanned { count, next, .. }| (keys.at, count, next))
        });
        let (at, count, next) = scanned?;
        Ok(ViewPage { rows, count, next, reading: view.reading(at, now) })
    }
}
