//! Reading views: by key, in ranges of keys, as a table.

use std::{
    collections::{BTreeMap, btree_map},
    iter::Peekable,
    ops::{Bound, ControlFlow},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use bumpalo::Bump;
use swiftwater_event::{Millis, StreamName, Type, Value};
use swiftwater_live::{
    GroupTable, Held, Key, Row,
    columns::{ColumnsScratch, StreamColumns, arrow_type},
    expr::Scratch,
};
use swiftwater_sql::{RowsInTurn, RowsWanted, SqlError};
use swiftwater_views::{ViewSnapshot, ViewStoreError};

use super::{
    found::Shape,
    key_conditions::keys_satisfying,
    keys::{
        KEY_MEANINGS_MAX, KeyValue, MEANINGS_MAX, Span, all_keys, is_in, keys_before, keys_from,
        keys_in_both, keys_of, keys_within, span,
    },
    view::{At, View, plan_view},
};
use crate::{
    Engine, EngineError, Principal,
    durable::history::{History, heavy},
    tables::{from_engine, rows::as_events},
};

/// How long a reader waits for a view to get as far as it asked.
const CONSISTENT_TIME_MAX: Duration = Duration::from_secs(30);

/// How long of a view that changes with its commits only, where they fail.
const FAILING_TIME_MAX: Duration = Duration::from_secs(1);

/// Keys whose rows are made at once.
const CHUNK_KEYS: usize = 1024;

/// And for statements, which read columns.
pub(super) const BATCH_KEYS: usize = 8192;

/// How far a view was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewReading {
    /// The offset of the first event of its stream that it may not count.
    pub position: u64,
    /// Milliseconds since the last event that it counts arrived, where others were taken since; else 0.
    pub age_ms: u64,
    /// When the view was created.
    pub created: Millis,
}

/// Some rows of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPage {
    /// JSON objects, a line each, in the order of their keys.
    pub rows: Vec<u8>,
    /// How many.
    pub count: u64,
    /// The last key, where there may be more behind it.
    pub next: Option<Vec<u8>>,
    /// How far the view was.
    pub reading: ViewReading,
}

impl View {
    pub(crate) fn unavailable(&self, why: impl ToString) -> EngineError {
        EngineError::ViewUnavailable { view: self.name().to_owned(), why: why.to_string() }
    }

    pub(crate) fn reading(&self, at: At, now: Millis) -> ViewReading {
        let is_behind = self.stored.next() > at.position;
        let age_ms =
            if is_behind && at.arrival > 0 { now.saturating_sub(at.arrival).max(0) as u64 } else { 0 };
        ViewReading { position: at.position, age_ms, created: self.entry.created }
    }

    /// Whether the window of a key need not be kept any more.
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

    /// Looks at the values of the row of a key, and the position after the last event that changed it; none where it has no
    /// row. What is held is looked at in its place: `look` is short, and reads nothing of the view.
    pub(crate) fn look_at<R>(
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
        self.count_read(held != Held::Elsewhere);
        match held {
            Held::Here(group) => Ok(part.look_at(&self.query, group, now, within, look)),
            Held::Nowhere => Ok(None),
            Held::Elsewhere => {
                drop(part);
                let Some(state) = self.stored_state(key)? else { return Ok(None) };
                let looked = self.query.look_at_state(key.as_group(), &state, now, within, look);
                looked.map_err(|error| self.unavailable(error))
            }
        }
    }

    /// What is held of a key, or kept on disk.
    fn state(&self, key: &Key) -> Result<Option<Vec<u8>>, EngineError> {
        let held = self.part(key).state(&self.query, key);
        self.count_read(held.is_some());
        held.map_or_else(|| self.stored_state(key), Ok)
    }

    /// As it is on disk: what is loaded meanwhile is the same until it changes.
    fn stored_state(&self, key: &Key) -> Result<Option<Vec<u8>>, EngineError> {
        self.store.get(self.id(), &key.ordered).map_err(|error| self.unavailable(error))
    }

    fn count_read(&self, is_held: bool) {
        let reads = if is_held { &self.counts.reads_held } else { &self.counts.reads_stored };
        reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Keys between bounds with their states, in order, as they are at one position, until `each` breaks off. Answers that
    /// position, and whether there are no more.
    pub(crate) fn walk(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        each: impl FnMut(Vec<u8>, &[u8]) -> Result<ControlFlow<()>, EngineError>,
    ) -> Result<(At, bool), EngineError> {
        let keys = self.keys_at_present(vec![span(bounds)])?;
        Ok((keys.at, self.walk_keys(&keys, each)?))
    }

    /// Keys in spans, which are in order, as they are.
    fn keys_at_present(&self, mut spans: Vec<Span>) -> Result<KeysAtOnce, EngineError> {
        if let Some(first) = self.first_kept(self.at()) {
            let kept = Key::of_window(first).ordered;
            for span in &mut spans {
                if span.start < kept {
                    span.start.clone_from(&kept);
                }
            }
        }
        spans.retain(|span| span.start < span.end);
        // What is on disk, and what is not yet, at one position.
        let parts = self.all_parts();
        let mut at = self.at();
        let snapshot = self.store.snapshot(self.id()).map_err(|error| self.unavailable(error))?;
        if self.below().is_some() && self.is_whole() {
            // All is on disk, and may be further there already.
            let noted = snapshot.noted().map_err(|error| self.unavailable(error))?;
            at.position = noted.map_or(at.position, |(position, _)| position);
        }
        let is_wanted = |key: &[u8]| is_in(&spans, key);
        let fresh = parts.iter().flat_map(|part| part.unkept(&self.query, is_wanted)).collect();
        Ok(KeysAtOnce { spans, snapshot, fresh, at })
    }

    /// Goes through keys in order until `each` breaks off; answers whether there are no more.
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
    /// time, and how many they are, until it breaks off. Answers how many keys were read, how many rows there were, and the last key where there
    /// are more.
    fn scan(
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
    /// breaks off. Answers how many keys were read.
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

/// Where a scan ended.
struct Scanned {
    /// Keys that were read.
    read: u64,
    /// Rows.
    count: u64,
    /// The last key, where there are more.
    next: Option<Vec<u8>>,
}

/// Keys of a view in spans, each with its state, as they are at one position: those on disk, and those that are not yet.
pub(super) struct KeysAtOnce {
    /// None is empty.
    spans: Vec<Span>,
    snapshot: ViewSnapshot,
    /// Without a state: deleted.
    fresh: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
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

    /// Of some columns only, by their places.
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

    /// Of rows, a line of JSON each.
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
    view: Arc<View>,
    keys: KeysAtOnce,
    shapes: Vec<Shape>,
    now: Millis,
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

    /// Makes rows, and answers how many keys were read.
    fn made(
        &self,
        wanted: &RowsWanted,
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

impl RowsInTurn for ViewRows {
    fn is_key(&self, column: usize) -> bool {
        // JSON is shown as text, and is not in the order of that.
        let is_json = match self.shapes.get(column) {
            Some(Shape::Declared) => self.view.columns[column].1 == Type::Any,
            Some(Shape::Json) | None => true,
            Some(_) => false,
        };
        !is_json && self.view.query.key_columns().contains(&Some(column))
    }

    fn make(&self, wanted: &RowsWanted, give: &mut dyn FnMut(RecordBatch) -> bool) -> Result<u64, SqlError> {
        self.made(wanted, give).map_err(from_engine)
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

/// Which rows of a view are wanted. Values that may be several things bound the keys of each such kind by what they are as that
/// kind: `12` as it is written numbers by the number, and texts by the text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ViewRange {
    /// From this key on, or from these first values of one.
    pub from: Option<Vec<KeyValue>>,
    /// Up to this key, without it.
    pub to: Option<Vec<KeyValue>>,
    /// Keys that begin with these values, whatever of what they may be they are.
    pub prefix: Option<Vec<KeyValue>>,
    /// Behind the key that an earlier page ended with.
    pub after: Option<Vec<u8>>,
    /// The most rows.
    pub limit: u64,
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
        let (keys, shapes) = heavy(usize::MAX, || {
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
        // What cannot be planned with these types could without.
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
                            format!("it is still taking in the rows of view `{below}`")
                        }
                        _ => format!("it is at {} and not yet at {position}", view.at().position),
                    });
                return Err(view.unavailable(why));
            }
        }
    }
}

/// What a view is to count before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// What it does.
    #[default]
    AsItIs,
    /// All that was acknowledged before.
    AckHorizon,
    /// The events of its stream before this offset.
    Position(u64),
}

impl Engine {
    pub(super) fn history_of_views(&self) -> Result<&Arc<History>, EngineError> {
        self.shared().history.get().ok_or(EngineError::NoHistory)
    }

    pub(crate) async fn view_as(&self, name: &str, wanted: Wanted) -> Result<Arc<View>, EngineError> {
        let view = self.history_of_views()?.view(name)?;
        self.as_wanted(view, wanted).await
    }

    /// The view of an endpoint: it is there as long as the endpoint is.
    pub(crate) async fn view_of_endpoint(
        &self,
        name: &str,
        wanted: Wanted,
    ) -> Result<Arc<View>, EngineError> {
        let view = self.history_of_views()?.view_at_work(name)?;
        self.as_wanted(view, wanted).await
    }

    async fn as_wanted(&self, view: Arc<View>, wanted: Wanted) -> Result<Arc<View>, EngineError> {
        self.history_of_views()?.wait_for_view(&view, wanted).await?;
        match view.broken() {
            None => Ok(view),
            Some(why) => Err(view.unavailable(why)),
        }
    }

    /// The row of a key of a view, and how far the view is at least; no row where no event has that key, or HAVING leaves it
    /// out. Costs a look into memory, or into the view's files.
    pub async fn view_row(
        &self,
        _principal: &Principal,
        name: &str,
        key: &[KeyValue],
        wanted: Wanted,
    ) -> Result<(Option<Row>, ViewReading), EngineError> {
        let view = self.view_as(name, wanted).await?;
        let (wanted, found) = (view.query.key_values(), key.len());
        if !view.query.has_keys_of(found) {
            return Err(EngineError::KeyValues { view: name.to_owned(), wanted, found });
        }
        let now = self.clock().now();
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
    pub async fn view_rows(
        &self,
        _principal: &Principal,
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
        let now = self.clock().now();
        if spans.is_empty() || range.limit == 0 {
            return Ok(ViewPage {
                rows: Vec::new(),
                count: 0,
                next: None,
                reading: view.reading(view.at(), now),
            });
        }
        let mut rows = Vec::new();
        let scanned = heavy(usize::MAX, || {
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

    /// The stream that a view is of.
    pub fn stream_of_view(&self, _principal: &Principal, name: &str) -> Result<StreamName, EngineError> {
        Ok(self.history_of_views()?.view(name)?.stream.clone())
    }
}
