//! Reads views: by key, in ranges of keys, and as a table.

use super::requests::ViewReading;
use std::{
    collections::{BTreeMap, btree_map},
    iter::Peekable,
    ops::{Bound, ControlFlow},
    sync::{Arc, atomic::Ordering},
};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use bumpalo::Bump;
use swiftwater_catalog::ObjectKind;
use swiftwater_event::{Millis, Type, Value};
use swiftwater_live::{
    GroupTable, Key, KeyLocation, Row,
    columns::{ColumnsScratch, StreamColumns, arrow_type},
    expr::Scratch,
};
use swiftwater_sql::{RowGenerator, ScanRequest, SqlError};
use swiftwater_views::{ViewSnapshot, ViewStoreError};

use super::{
    found::Shape,
    key_conditions::keys_satisfying,
    keys::{Span, is_in, keys_in_both, span},
    view::{At, View},
};
use crate::{EngineError, error::sql::from_engine, tables::rows::as_events};

/// Keys whose rows are made at once.
pub(super) const CHUNK_KEYS: usize = 1024;

/// Keys of a batch for statements, which read columns.
pub(super) const BATCH_KEYS: usize = 8192;

impl View {
    pub(crate) fn unavailable(&self, why: impl ToString) -> EngineError {
        EngineError::unavailable(ObjectKind::View.named(self.name()), why)
    }

    pub(crate) fn reading(&self, at: At, now: Millis) -> ViewReading {
        let is_behind = self.stored.next() > at.position;
        let age_ms =
            if is_behind && at.arrival > 0 { now.saturating_sub(at.arrival).max(0) as u64 } else { 0 };
        ViewReading { position: at.position, age_ms, created: self.entry.created }
    }

    /// True if the window of a key need not be kept any more.
    fn is_of_the_past(&self, key: &Key) -> bool {
        self.query.windows().is_some() && self.first_kept(self.at()).is_some_and(|first| key.window() < first)
    }

    /// The row of a key.
    pub(crate) fn row(&self, key: &Key, now: Millis) -> Result<Option<Row>, EngineError> {
        if self.is_of_the_past(key) {
            return Ok(None);
        }
        match self.state(key)? {
            Some(state) => {
                let row = self.query.row_of_state(key, &state, now);
                row.map_err(|error| self.unavailable(error))
            }
            None => Ok(None),
        }
    }

    /// Reads the values of the row of a key, and the position after the last event that changed it; none if it has no row.
    /// A row in memory is read in place: `look` is short, and reads nothing of the view.
    pub(crate) fn with_row<R>(
        &self,
        key: &Key,
        now: Millis,
        within: (&mut Scratch, &Bump),
        look: impl FnOnce(&[Value<'_>], u64) -> R,
    ) -> Result<Option<R>, EngineError> {
        if self.is_of_the_past(key) {
            return Ok(None);
        }
        let part = self.part(key);
        let held = part.find(key);
        self.count_read(held != KeyLocation::Elsewhere);
        match held {
            KeyLocation::Here(group) => Ok(part.with_row(&self.query, group, now, within, look)),
            KeyLocation::Nowhere => Ok(None),
            KeyLocation::Elsewhere => {
                drop(part);
                let Some(state) = self.stored_state(key)? else { return Ok(None) };
                let looked = self.query.with_row_of_state(key.as_group(), &state, now, within, look);
                looked.map_err(|error| self.unavailable(error))
            }
        }
    }

    /// The state of a key, from memory or from disk.
    fn state(&self, key: &Key) -> Result<Option<Vec<u8>>, EngineError> {
        let held = self.part(key).state(&self.query, key);
        self.count_read(held.is_some());
        held.map_or_else(|| self.stored_state(key), Ok)
    }

    /// The state on disk: a state loaded meanwhile is the same until it changes.
    fn stored_state(&self, key: &Key) -> Result<Option<Vec<u8>>, EngineError> {
        self.store.get(self.id(), &key.ordered).map_err(|error| self.unavailable(error))
    }

    fn count_read(&self, is_held: bool) {
        let reads = if is_held { &self.counts.reads_held } else { &self.counts.reads_stored };
        reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Keys between bounds with their states, in order, as they are at one position, until `each` breaks off. Returns that
    /// position, and true if there are no more.
    pub(crate) fn walk(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        each: impl FnMut(Vec<u8>, &[u8]) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<(At, bool), EngineError> {
        let keys = self.keys_at_present(vec![span(bounds)])?;
        Ok((keys.at, self.walk_keys(&keys, each)?))
    }

    /// Keys in spans, which are in order, as they are.
    pub(super) fn keys_at_present(&self, mut spans: Vec<Span>) -> Result<KeysAtOnce, EngineError> {
        if let Some(first) = self.first_kept(self.at()) {
            let kept = Key::of_window(first).ordered;
            for span in &mut spans {
                if span.start < kept {
                    span.start.clone_from(&kept);
                }
            }
        }
        spans.retain(|span| span.start < span.end);
        // The rows on disk, and those that are not there yet, at one position.
        let parts = self.all_parts();
        let mut at = self.at();
        let snapshot = self.store.snapshot(self.id()).map_err(|error| self.unavailable(error))?;
        if self.below().is_some() && self.is_whole() {
            // All is on disk, and may be further there already.
            let noted = snapshot.checkpoint().map_err(|error| self.unavailable(error))?;
            at.position = noted.map_or(at.position, |(position, _)| position);
        }
        let is_wanted = |key: &[u8]| is_in(&spans, key);
        let fresh = parts.iter().flat_map(|part| part.unkept(&self.query, is_wanted)).collect();
        Ok(KeysAtOnce { spans, snapshot, fresh, at })
    }

    /// Visits keys in order until `each` breaks off; returns true if there are no more.
    pub(super) fn walk_keys(
        &self,
        keys: &KeysAtOnce,
        each: impl FnMut(Vec<u8>, &[u8]) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<bool, EngineError> {
        self.walk_spans(keys, &keys.spans, each)
    }

    /// The same of some of these keys.
    fn walk_spans(
        &self,
        keys: &KeysAtOnce,
        spans: &[Span],
        mut each: impl FnMut(Vec<u8>, &[u8]) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<bool, EngineError> {
        for Span { start, end } in spans {
            let bounds = (Bound::Included(&start[..]), Bound::Excluded(&end[..]));
            let mut stored = keys.snapshot.range(bounds).peekable();
            let mut fresh = keys.fresh.range::<[u8], _>(bounds).peekable();
            while let Some((key, state)) =
                next_of(&mut stored, &mut fresh).map_err(|error| self.unavailable(error))?
            {
                if each(key, &state)?.is_break() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Rows of some keys, in order, at most so many, with some columns or all; `each` gets those of about `together` keys at a
    /// time, and how many they are, until it breaks off. Returns the number of keys read, the number of rows, and the last key
    /// if there are more.
    pub(super) fn scan(
        &self,
        (keys, spans): (&KeysAtOnce, &[Span]),
        (limit, together): (u64, usize),
        (wanted, now): (Option<&[bool]>, Millis),
        mut each: impl FnMut(Vec<u8>, u64) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<Scanned, EngineError> {
        let no_groups = || self.query.no_groups().ok_or_else(|| self.unavailable("it has no groups"));
        let (mut read, mut count, mut last, mut groups) = (0, 0, None, no_groups()?);
        let mut flush = |groups: GroupTable, count: &mut u64| {
            let result = self.query.rows_of_columns(groups, now, wanted);
            *count += result.count;
            each(result.text.into(), result.count)
        };
        let is_end = self.walk_spans(keys, spans, |key, state| {
            read += 1;
            self.add(&mut groups, &key, state, now)?;
            last = Some(key);
            // With HAVING there may be fewer rows than keys: then there is another round.
            if groups.len() >= together.min(usize::try_from(limit - count).unwrap_or(together))
                && flush(std::mem::replace(&mut groups, no_groups()?), &mut count)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            Ok(if count < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if !groups.is_empty() {
            // It is the last in any case.
            let _ = flush(groups, &mut count)?;
        }
        Ok(Scanned { read, count, next: last.filter(|_| !is_end) })
    }

    /// Counts the rows of some keys, each of which has one, without making them; `each` gets some of them at a time, until it
    /// breaks off. Returns the number of keys read.
    fn count_keys(
        &self,
        (keys, spans): (&KeysAtOnce, &[Span]),
        limit: u64,
        now: Millis,
        mut each: impl FnMut(u64) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<u64, EngineError> {
        let (mut read, mut count, mut rest) = (0, 0, limit);
        let is_end = self.walk_spans(keys, spans, |_, state| {
            read += 1;
            if !self.query.is_state_past(state, now).map_err(|error| self.unavailable(error))? {
                count += 1;
            }
            if count == rest.min(BATCH_KEYS as u64) {
                rest -= count;
                if each(std::mem::take(&mut count))?.is_break() || rest == 0 {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if is_end && count > 0 {
            // It is the last in any case.
            let _ = each(count)?;
        }
        Ok(read)
    }

    pub(super) fn add(
        &self,
        groups: &mut GroupTable,
        key: &[u8],
        state: &[u8],
        now: Millis,
    ) -> Result<(), EngineError> {
        self.query.add_state(groups, key, state, now).map_err(|error| self.unavailable(error))
    }

    /// The types of its columns, in Arrow.
    fn schema(&self, shapes: &[Shape]) -> Arc<Schema> {
        let field = |((name, ty), shape): (&(Box<str>, _), &Shape)| {
            Field::new(&**name, shape.data_type().unwrap_or_else(|| arrow_type(ty)), true)
        };
        Arc::new(Schema::new(self.columns.iter().zip(shapes).map(field).collect::<Vec<_>>()))
    }

    /// Rows, a line of JSON each, as a table. The types of columns that are not declared are those of these rows.
    pub(crate) fn record_batch(&self, text: Vec<u8>, now: Millis) -> Result<RecordBatch, EngineError> {
        RowColumns::of(self, self.shapes_of_rows(&text, now)?)?.batch(text, now)
    }
}

/// The end of a scan.
pub(super) struct Scanned {
    /// Keys that were read.
    pub(super) read: u64,
    /// Rows.
    pub(super) count: u64,
    /// The last key, where there are more.
    pub(super) next: Option<Vec<u8>>,
}

/// Keys of a view in spans, each with its state, as they are at one position: those on disk, and those that are not yet.
pub(super) struct KeysAtOnce {
    /// The spans; none is empty.
    pub(super) spans: Vec<Span>,
    pub(super) snapshot: ViewSnapshot,
    /// The keys that are not on disk yet; without a state: deleted.
    pub(super) fresh: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub(super) at: At,
}

/// Makes columns of a view's rows.
pub(super) struct RowColumns<'v> {
    pub(super) view: &'v View,
    schema: Arc<Schema>,
    shapes: Vec<Shape>,
    columns: StreamColumns,
    scratch: ColumnsScratch,
}

impl RowColumns<'_> {
    pub(super) fn of(view: &View, shapes: Vec<Shape>) -> Result<RowColumns<'_>, EngineError> {
        let all: Vec<usize> = (0..shapes.len()).collect();
        RowColumns::some_of(view, &shapes, &all)
    }

    /// The rows with these columns only, by position.
    fn some_of<'v>(
        view: &'v View,
        shapes: &[Shape],
        places: &[usize],
    ) -> Result<RowColumns<'v>, EngineError> {
        let mut declared = view.declared();
        declared.columns = places.iter().map(|&place| declared.columns[place].clone()).collect();
        let columns = StreamColumns::new(&declared).map_err(EngineError::Columns)?;
        let schema = view.schema(shapes);
        let fields = places.iter().map(|&place| Arc::clone(&schema.fields()[place]));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let shapes = places.iter().map(|&place| shapes[place]).collect();
        Ok(RowColumns { view, schema, shapes, columns, scratch: ColumnsScratch::default() })
    }

    /// The rows as JSON, one line each.
    pub(super) fn batch(&mut self, text: Vec<u8>, now: Millis) -> Result<RecordBatch, EngineError> {
        let batch = as_events(text);
        let rows = batch.len();
        let read = self.columns.read(&batch, now, &mut self.scratch);
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = read.columns.into_iter().zip(&self.shapes).map(|(array, shape)| shape.read(array));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect(), &options)
            .map_err(|error| self.view.unavailable(error))
    }
}

/// All rows of a view at one position, for a statement.
pub(crate) struct ViewRows {
    pub(super) view: Arc<View>,
    pub(super) keys: KeysAtOnce,
    pub(super) shapes: Vec<Shape>,
    pub(super) now: Millis,
}

impl ViewRows {
    /// The types of their columns.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        self.view.schema(&self.shapes)
    }
}

impl ViewRows {
    /// A batch without columns, of so many rows.
    fn only_counted(&self, rows: u64) -> Result<RecordBatch, EngineError> {
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows as usize));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
        batch.map_err(|error| self.view.unavailable(error))
    }

    /// Makes rows, and returns the number of keys read.
    fn produce_rows(
        &self,
        wanted: &ScanRequest,
        give: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<u64, EngineError> {
        let narrowed = keys_satisfying(&wanted.condition, &self.view.query.key_columns());
        let spans = keys_in_both(&self.keys.spans, &narrowed);
        let keys = (&self.keys, &spans[..]);
        if wanted.limit == 0 {
            return Ok(0);
        }
        if wanted.columns.is_empty() && self.view.query.has_a_row_for_each_key() {
            return self
                .view
                .count_keys(keys, wanted.limit, self.now, |rows| Ok(flow(give(self.only_counted(rows)?))));
        }
        let mut are_wanted = vec![false; self.shapes.len()];
        wanted.columns.iter().for_each(|&column| are_wanted[column] = true);
        let mut columns = match wanted.columns.is_empty() {
            true => None,
            false => Some(RowColumns::some_of(&self.view, &self.shapes, &wanted.columns)?),
        };
        let limits = (wanted.limit, BATCH_KEYS);
        let scanned = self.view.scan(keys, limits, (Some(&are_wanted), self.now), |text, count| {
            if count == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            Ok(flow(give(match &mut columns {
                Some(columns) => columns.batch(text, self.now)?,
                None => self.only_counted(count)?,
            })))
        })?;
        Ok(scanned.read)
    }
}

impl RowGenerator for ViewRows {
    fn is_key(&self, column: usize) -> bool {
        // JSON is shown as text, and is not in the order of that.
        let is_json = match self.shapes.get(column) {
            Some(Shape::Declared) => self.view.columns[column].1 == Type::Any,
            Some(Shape::Json) | None => true,
            Some(_) => false,
        };
        !is_json && self.view.query.key_columns().contains(&Some(column))
    }

    fn generate(
        &self,
        wanted: &ScanRequest,
        give: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<u64, SqlError> {
        self.produce_rows(wanted, give).map_err(from_engine)
    }
}

fn flow(goes_on: bool) -> ControlFlow<()> {
    if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

type Pair = (Vec<u8>, Vec<u8>);

/// The next of two rows of keys in order; where both have a key, that of `fresh`, by which a key may be deleted.
fn next_of(
    stored: &mut Peekable<impl Iterator<Item = Result<Pair, ViewStoreError>>>,
    fresh: &mut Peekable<btree_map::Range<'_, Vec<u8>, Option<Vec<u8>>>>,
) -> Result<Option<Pair>, ViewStoreError> {
    loop {
        let is_fresh = match (stored.peek(), fresh.peek()) {
            (Some(Ok((old, _))), Some((new, _))) => {
                if old == *new {
                    stored.next();
                    true
                } else {
                    *new < old
                }
            }
            (Some(Err(_)), _) => false,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !is_fresh {
            return stored.next().transpose();
        }
        if let Some((key, Some(state))) = fresh.next() {
            return Ok(Some((key.clone(), state.clone())));
        }
    }
}
