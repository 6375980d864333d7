//! Queries without an end whose groups are stored by key: views.
//!
//! A batch is folded into groups of its own ([`KeyedQuery::fold`]), which are merged into the groups that the view has
//! in memory. These lie in parts ([`KeyedPart`]) by the hash of the key, so that a reader waits only for the part that
//! it reads. A part has recent changes and what fits; the owner of the store has the rest. States leave a part as bytes
//! ([`Changes`]) and return as bytes. The owner fetches the keys that a part reports as missing, so that this module
//! does no I/O.
//!
//! A key that its events delete stays in its part as deleted until that is committed, so no reader finds its old state
//! on disk any more. So does a key whose time is over by the arrivals that the log records. The effect of an event on
//! its key depends on the key's events alone, not on when expired keys are looked for.

mod part;
mod row_hash;
mod rows;
mod windows;

use std::sync::Arc;

use bumpalo::Bump;
use swiftwater_event::{EventBatch, Millis, Value, write_json};
use swiftwater_lang::{
    Dialect,
    plan::{AggregateFunction, Body, Expr, LateralView, Window},
};
use swiftwater_sketch::hash_of_bytes;

pub use self::{
    part::{Changes, KeyLocation, KeyedPart},
    row_hash::RowHash,
    rows::{RowsChanges, RowsError, RowsFold, count_rows},
    windows::{ViewTime, ViewWindows},
};
use crate::{
    JoinFailure, SlicePlan, StandingQuery,
    expr::{Scratch, decode_group_value, decode_ordered_value, encode_group_value, encode_ordered_value},
    matching::Index,
    operate::{
        Bounds, GroupResult, GroupTable, Groups, InvalidState, ResultSet, push_varint, read_varint,
        with_single_row, write_groups,
    },
    standing::CompiledBody,
    step::{Shard, SourcePosition, StepInput},
};

/// The one query of the index.
const NUMBER: u64 = 0;

/// A query that can be a view.
#[derive(Debug)]
pub struct KeyedQuery {
    query: Arc<StandingQuery>,
    index: Index,
    ttl_ms: Option<u64>,
    windows: Option<ViewWindows>,
    /// The aggregate that counts the rows of a group, in a view of another view's rows.
    counting: Option<usize>,
}

/// The reason why a query cannot be maintained as a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedView {
    /// It has no groups.
    #[error("a view stores one row per key: the query needs GROUP BY, or aggregates over all events")]
    NoGroups,
    /// Its groups have several rows, which are no list ([`swiftwater_lang::ParseOptions::lists_rows`]).
    #[error("a view stores one row per key, and QUANTILE, FREQ, CUMFREQ and TOP return several")]
    SeveralRows,
    /// It has windows of another kind.
    #[error(
        "the windows of a view must be by time and of equal length: WINDOWING TUMBLING(n, TIME), TUMBLING(n, \
         EVENT(…)), or EVERY(n, …, LAST, m, …)"
    )]
    Window,
    /// Too many of its windows hold the same event.
    #[error("an event would belong to {holding} windows of the view, limit is {most}")]
    Overlap {
        /// The number of windows that hold it.
        holding: u64,
        /// The limit.
        most: u64,
    },
    /// It ends.
    #[error("a view has no end: the stream cannot have a duration, nor the query a LIMIT")]
    End,
    /// Its rows are in order.
    #[error("a view's rows are in the order of their keys: use ORDER BY in the query that reads the view")]
    Order,
    /// It is of two queries.
    #[error("a view is one query over a stream: write the outer query over the view")]
    Outer,
    /// It is of the matches of a pattern.
    #[error("a view of MATCH_RECOGNIZE is not supported yet")]
    Pattern,
    /// It has no windows that could be kept for a time.
    #[error(
        "`retention` is the time for which closed windows are stored, and the query has no windows: it needs WINDOWING"
    )]
    Retention,
    /// The query runs under Bullet's rules.
    #[error("a view follows the native rules")]
    Bullet,
    /// Rows that lateral views make are to be deleted.
    #[error("DELETE WHEN needs one row per event, and LATERAL VIEW and a join with a table make several")]
    DeletedRows,
    /// Groups of several sets are to be deleted.
    #[error("DELETE WHEN needs one key per event, and grouping sets make several")]
    DeletedSets,
    /// Groups of windows are to be deleted, or have a time to live.
    #[error("windows are stored for `retention`: DELETE WHEN and `ttl` are not allowed with WINDOWING")]
    DeletedWindows,
    /// In a view of a view's rows, an aggregate that cannot retract a row.
    #[error(
        "a view of a view needs aggregates that can retract rows: COUNT, SUM or AVG, not {}",
        .0.name()
    )]
    NotTakenOut(AggregateFunction),
    /// In a view of a view's rows, an aggregate that returns rows.
    #[error(
        "a view of a view needs aggregates that can retract rows: COUNT, SUM or AVG, not QUANTILE, FREQ, CUMFREQ or TOP"
    )]
    RowsNotTakenOut,
    /// In a view of a view's rows, windows.
    #[error("the rows of a view have no time: a view of a view has no WINDOWING")]
    WindowsOfRows,
}

/// The contribution of a batch to a view.
#[derive(Debug, Default)]
pub struct Fold {
    /// The groups of the batch; none where no event is the view's.
    pub groups: Option<GroupTable>,
    /// Events that it is of.
    pub matched: u64,
    /// Number of them with a value that does not fit its wanted type.
    pub mistyped: u64,
    /// Operations that could not be done.
    pub expression_errors: u64,
    /// The event time after the batch, for a view with windows.
    pub time: ViewTime,
    /// Events of windows that were closed before.
    pub late: u64,
    /// Events whose times are too far ahead of their arrival.
    pub ahead: u64,
    /// The reason why its events could not be joined: then nothing of this counts.
    pub failure: Option<JoinFailure>,
}

/// A key of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key as groups have it.
    grouped: Vec<u8>,
    /// The key in the order of its values, for a store that keeps keys sorted.
    pub ordered: Vec<u8>,
}

/// A row of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// One JSON object.
    pub json: Vec<u8>,
    /// The position after the last event that changed it, or may have.
    pub changed: u64,
}

impl KeyedQuery {
    /// Makes a view of a query, if it can be one. With `ttl_ms`, a key is no more when so many milliseconds have passed
    /// since its last event arrived.
    pub fn new(query: StandingQuery, ttl_ms: Option<u64>) -> Result<KeyedQuery, UnsupportedView> {
        let plan = &query.plan;
        if plan.pattern.is_some() {
            return Err(UnsupportedView::Pattern);
        }
        let Body::Group(group) = &plan.body else { return Err(UnsupportedView::NoGroups) };
        let faults = [
            (plan.dialect != Dialect::Native, UnsupportedView::Bullet),
            (plan.outer.is_some(), UnsupportedView::Outer),
            (group.table.as_ref().is_some_and(|table| table.listed.is_empty()), UnsupportedView::SeveralRows),
            (plan.duration_ms.is_some() || plan.limit.is_some(), UnsupportedView::End),
            (!plan.order_by.is_empty(), UnsupportedView::Order),
            (query.deletes() && plan.views.iter().any(may_repeat), UnsupportedView::DeletedRows),
            (query.deletes() && !group.sets.is_empty(), UnsupportedView::DeletedSets),
            (
                (query.deletes() || ttl_ms.is_some()) && plan.window != Window::None,
                UnsupportedView::DeletedWindows,
            ),
        ];
        match faults.into_iter().find(|(is, _)| *is) {
            Some((_, fault)) => Err(fault),
            None => {
                let query = Arc::new(query);
                let windows = ViewWindows::of(&query)?;
                let slices =
                    Arc::new(windows.map_or_else(SlicePlan::default, |windows| windows.plan(&query)));
                Ok(KeyedQuery {
                    index: Index::default().with_slices(NUMBER, &query, &slices),
                    query,
                    windows,
                    ttl_ms,
                    counting: None,
                })
            }
        }
    }

    /// The query.
    pub fn query(&self) -> &StandingQuery {
        &self.query
    }

    /// The number of values a key has; with grouping sets, that of the largest. First comes the start of the window where
    /// there are windows, then the number of the set, from 0 in the order that they are written in.
    pub fn key_values(&self) -> usize {
        let windows = usize::from(self.windows.is_some());
        match &self.query.body {
            CompiledBody::Group(group) if group.sets.is_empty() => windows + group.keys.len(),
            CompiledBody::Group(group) => {
                windows + 1 + group.sets.iter().map(|set| set.len()).max().unwrap_or(0)
            }
            CompiledBody::Raw { .. } => 0,
        }
    }

    /// The column that shows each value of the key unchanged.
    pub fn key_columns(&self) -> Vec<Option<usize>> {
        let CompiledBody::Group(group) = &self.query.body else { return Vec::new() };
        let column_of = |key| group.columns.iter().position(|column| column.program.as_slot() == Some(key));
        // The rows that an aggregate gives are a list here, in one slot.
        let list = usize::from(group.table.is_some());
        let start = group.keys.len() + group.aggregates.len() + list + group.groupings.len();
        let mut columns: Vec<Option<usize>> = self.windows.iter().map(|_| column_of(start)).collect();
        match group.sets.is_empty() {
            true => columns.extend((0..group.keys.len()).map(column_of)),
            // No column shows the grouping set of a row, which determines its keys.
            false => columns.resize(self.key_values(), None),
        }
        columns
    }

    /// The names of a key's values: that of the column that shows one, else its text. Sets have different keys, which are one
    /// name together.
    pub fn key_names(&self) -> Vec<String> {
        let (CompiledBody::Group(group), Body::Group(plan)) = (&self.query.body, &self.query.plan.body)
        else {
            return Vec::new();
        };
        let shown = |column: Option<usize>| column.map(|column| group.columns[column].name.to_string());
        let columns = self.key_columns();
        let (windows, keys) = columns.split_at(usize::from(self.windows.is_some()));
        let window = |column: &Option<usize>| shown(*column).unwrap_or_else(|| "window_start".to_owned());
        let mut names: Vec<String> = windows.iter().map(window).collect();
        if !group.sets.is_empty() {
            names.extend(["the set's number".to_owned(), "the set's keys".to_owned()]);
            return names;
        }
        let slots: Vec<&str> =
            self.query.plan.views.iter().flat_map(|view| &view.columns).map(|name| &**name).collect();
        let field = |key: &Expr| match key {
            Expr::Path { path, .. } => path.to_string(),
            Expr::Slot(slot) => slots[*slot].to_owned(),
            Expr::Literal(_) | Expr::Call { .. } => "an expression".to_owned(),
        };
        let key = |(column, key): (&Option<usize>, &Expr)| shown(*column).unwrap_or_else(|| field(key));
        names.extend(keys.iter().zip(&plan.keys).map(key));
        names
    }

    /// True if some key has so many values.
    pub fn has_keys_of(&self, values: usize) -> bool {
        match &self.query.body {
            CompiledBody::Group(group) if !group.sets.is_empty() => {
                let first = 1 + usize::from(self.windows.is_some());
                group.sets.iter().any(|set| first + set.len() == values)
            }
            _ => values == self.key_values(),
        }
    }

    /// True if each key that is not past has exactly one row, so that counting keys counts rows.
    pub fn has_a_row_for_each_key(&self) -> bool {
        matches!(&self.query.body, CompiledBody::Group(group) if group.having.is_none() && group.table.is_none())
    }

    /// Its windows.
    pub fn windows(&self) -> Option<&ViewWindows> {
        self.windows.as_ref()
    }

    /// Folds a batch of the stream, whose offsets and arrival are in its meta. `shard` is its caller's scratch; `time` is
    /// what [`Fold::time`] was of the batch before.
    pub fn fold(&self, shard: &mut Shard, batch: &EventBatch, time: ViewTime) -> Fold {
        let meta = batch.meta();
        let input = StepInput {
            batch,
            arrivals: &[],
            before: time.last_arrival(),
            place: SourcePosition::Number(meta.first.0),
            now_micros: meta.arrival.saturating_mul(1000),
            record_bytes_max: usize::MAX,
            nanos: &|| 0,
        };
        let mut steps = Vec::new();
        shard.step(&self.index, &input, &mut steps);
        let mut fold = Fold { time: ViewTime { last: meta.arrival, ..time }, ..Fold::default() };
        for step in &mut steps {
            fold.failure = fold.failure.take().or(step.failure.take().map(|failure| *failure));
            fold.matched += step.matches;
            fold.mistyped += step.mistyped;
            fold.ahead += step.ahead;
            fold.expression_errors += step.expression_errors;
        }
        if let (Some(windows), CompiledBody::Group(group)) = (&self.windows, &self.query.body) {
            let of = (time.peak, meta.arrival);
            let folded = windows.fold(group, &mut steps, shard.remove(NUMBER), of);
            (fold.groups, fold.time.peak, fold.late) = (folded.groups, folded.peak, folded.late);
            fold.time.event = time.event.max(folded.event);
            return fold;
        }
        let groups =
            shard.remove(NUMBER).into_iter().map(|partial| partial.groups).reduce(|mut whole, groups| {
                whole.merge(&groups);
                whole
            });
        fold.groups = groups.map(Groups::into_table);
        fold
    }

    /// A table without groups.
    pub fn no_groups(&self) -> Option<GroupTable> {
        match &self.query.body {
            CompiledBody::Group(group) if self.windows.is_some() => Some(GroupTable::windowed(group)),
            CompiledBody::Group(group) => Some(GroupTable::new(group, self.query.dialect())),
            CompiledBody::Raw { .. } => None,
        }
    }

    /// The rows of groups as JSON, a line each, in the order of their keys; those that HAVING leaves out are not there.
    pub fn rows(&self, groups: GroupTable, now: Millis) -> ResultSet {
        self.rows_of_columns(groups, now, None)
    }

    /// The same, with some columns only: those whose place in `wanted` is true.
    pub fn rows_of_columns(&self, groups: GroupTable, now: Millis, wanted: Option<&[bool]>) -> ResultSet {
        let mut result = ResultSet::default();
        let of_each: Vec<(Millis, Millis)> = match &self.windows {
            Some(windows) => {
                let starts = (0..groups.len()).map(|group| groups.window(group));
                starts.map(|start| (start, windows.end(start))).collect()
            }
            None => Vec::new(),
        };
        let bounds = if self.windows.is_some() { Bounds::Each(&of_each) } else { Bounds::None };
        let of = GroupResult { limit: None, bounds, now, wanted };
        write_groups(&self.query, &Groups::of_table(groups), &of, &mut result);
        result
    }

    /// The row of one key, from its state as [`Changes`] has it; none where HAVING leaves it out.
    pub fn row_of_state(&self, key: &Key, state: &[u8], now: Millis) -> Result<Option<Row>, InvalidState> {
        let (KeyMeta { changed, arrival }, state) = self.split_state(state)?;
        if self.is_past(arrival, now) {
            return Ok(None);
        }
        let mut groups = self.no_groups().ok_or(InvalidState)?;
        groups.insert_state(&key.grouped, state)?;
        Ok(self.row(groups, changed, now))
    }

    /// The position after the last event that changed a key, from its state as [`Changes`] has it.
    pub fn changed_of_state(state: &[u8]) -> Result<u64, InvalidState> {
        read_varint(&mut &*state)
    }

    /// Runs a function over the row of one key, from its state as [`Changes`] has it: the values of its columns, and the
    /// position after the last event that changed it. None where HAVING leaves it out.
    pub fn with_row_of_state<R>(
        &self,
        grouped: &[u8],
        state: &[u8],
        now: Millis,
        within: (&mut Scratch, &Bump),
        look: impl FnOnce(&[Value<'_>], u64) -> R,
    ) -> Result<Option<R>, InvalidState> {
        let (stamp, state) = self.split_state(state)?;
        let mut groups = self.no_groups().ok_or(InvalidState)?;
        let group = groups.insert_state(grouped, state)?;
        Ok(self.with_row_of_group((&groups, group), stamp, now, within, look))
    }

    /// The same of a group.
    fn with_row_of_group<R>(
        &self,
        (groups, group): (&GroupTable, u32),
        stamp: KeyMeta,
        now: Millis,
        within: (&mut Scratch, &Bump),
        look: impl FnOnce(&[Value<'_>], u64) -> R,
    ) -> Option<R> {
        if self.is_past(stamp.arrival, now) {
            return None;
        }
        let bounds = self.windows.as_ref().map_or(Bounds::None, |windows| {
            let start = groups.window(group as usize);
            Bounds::One(start, windows.end(start))
        });
        let of_group = (groups, group as usize);
        with_single_row(&self.query, of_group, (bounds, now), within, |values| look(values, stamp.changed))
    }

    /// Adds a key's state, both as [`Changes`] has them, to groups that lack the key, unless the key's time is over.
    pub fn add_state(
        &self,
        groups: &mut GroupTable,
        ordered: &[u8],
        state: &[u8],
        now: Millis,
    ) -> Result<(), InvalidState> {
        let (stamp, state) = self.split_state(state)?;
        match self.is_past(stamp.arrival, now) {
            true => Ok(()),
            false => groups.insert_state(&grouped(ordered)?, state).map(|_| ()),
        }
    }

    /// True if a key can be deleted.
    fn may_delete(&self) -> bool {
        self.ttl_ms.is_some() || self.query.deletes()
    }

    /// The time a key is kept without events.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.ttl_ms
    }

    /// True if a key's time is over by now, from its state as [`Changes`] has it.
    pub fn is_state_past(&self, state: &[u8], now: Millis) -> Result<bool, InvalidState> {
        let (stamp, _) = self.split_state(state)?;
        Ok(self.is_past(stamp.arrival, now))
    }

    /// True if the time of a key is over by now whose last event arrived then.
    fn is_past(&self, arrival: Millis, now: Millis) -> bool {
        self.ttl_ms.is_some_and(|ttl_ms| now.saturating_sub(arrival) >= ttl_ms as i64)
    }

    /// A state as it is kept: its stamp, and the cells.
    fn split_state<'s>(&self, mut state: &'s [u8]) -> Result<(KeyMeta, &'s [u8]), InvalidState> {
        let changed = read_varint(&mut state)?;
        let arrival = if self.ttl_ms.is_some() { read_varint(&mut state)? as Millis } else { 0 };
        Ok((KeyMeta { changed, arrival }, state))
    }

    /// Begins a state.
    fn push_stamp(&self, stamp: KeyMeta, out: &mut Vec<u8>) {
        push_varint(stamp.changed, out);
        if self.ttl_ms.is_some() {
            push_varint(stamp.arrival.max(0) as u64, out);
        }
    }

    fn row(&self, groups: GroupTable, changed: u64, now: Millis) -> Option<Row> {
        // Held by nobody else, so nothing is copied.
        let mut json = Vec::from(self.rows(groups, now).text);
        // The end of the line.
        json.pop()?;
        Some(Row { json, changed })
    }
}

/// True if a view may make several rows of an event.
fn may_repeat(view: &LateralView) -> bool {
    !view.join.as_ref().is_some_and(|join| join.is_view)
}

/// The record of a key besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct KeyMeta {
    /// The position after the last event that changed it.
    changed: u64,
    /// Arrival of that event; for views that keep keys for a limited time only.
    arrival: Millis,
}

impl Key {
    /// The key of these values.
    pub fn of(values: &[Value<'_>]) -> Key {
        let (mut grouped, mut ordered) = (Vec::new(), Vec::new());
        for value in values {
            encode_group_value(value, Dialect::Native, &mut grouped);
            encode_ordered_value(value, &mut ordered);
        }
        Key { grouped, ordered }
    }

    /// The key as groups have it.
    pub fn as_group(&self) -> &[u8] {
        &self.grouped
    }

    /// The lower bound of the keys of windows that begin here or later.
    pub fn of_window(start: Millis) -> Key {
        Key::of(&[Value::Long(start)])
    }

    /// The start of the window that the key of a view with windows is of.
    pub fn window(&self) -> Millis {
        GroupTable::window_of(&self.grouped)
    }

    /// The same of a key in the order of its values.
    pub fn window_of_ordered(ordered: &[u8]) -> Option<Millis> {
        match decode_ordered_value(ordered, &Bump::new())? {
            (Value::Long(start), _) => Some(start),
            _ => None,
        }
    }

    /// A key of a view with windows, in the order of its values, without the start of the window.
    pub fn within_window(ordered: &[u8]) -> Result<Key, InvalidState> {
        let arena = Bump::new();
        let (_, rest) = decode_ordered_value(ordered, &arena).ok_or(InvalidState)?;
        Key::of_ordered(rest)
    }

    /// The key that has these bytes in the order of its values.
    pub fn of_ordered(ordered: &[u8]) -> Result<Key, InvalidState> {
        Ok(Key { grouped: grouped(ordered)?, ordered: ordered.to_vec() })
    }

    /// A key of groups.
    pub fn of_group(grouped: &[u8]) -> Key {
        let mut ordered = Vec::with_capacity(grouped.len() + 8);
        push_ordered(grouped, &mut ordered);
        Key { grouped: grouped.into(), ordered }
    }

    /// Its values as a JSON array.
    pub fn json(&self) -> Vec<u8> {
        let arena = Bump::new();
        let (mut rest, mut out) = (&self.grouped[..], vec![b'[']);
        while !rest.is_empty() {
            let (value, after) = decode_group_value(rest, &arena);
            if out.len() > 1 {
                out.push(b',');
            }
            write_json(&value, &mut out);
            rest = after;
        }
        out.push(b']');
        out
    }

    /// The part in which it is, of so many. The same in every run.
    pub fn part(&self, parts: usize) -> usize {
        part_of(&self.grouped, parts)
    }
}

/// The groups of each of so many parts, and how many are left out because their keys are longer than so many bytes. In
/// the order of its values a key has at most three times as many.
pub fn by_part(groups: &GroupTable, parts: usize, key_bytes_max: usize) -> (Vec<Vec<u32>>, u64) {
    let (mut by_part, mut long) = (vec![Vec::new(); parts.max(1)], 0);
    for group in 0..groups.len() {
        let key = groups.key(group);
        if key.len() > key_bytes_max {
            long += 1;
        } else {
            by_part[part_of(key, parts)].push(group as u32);
        }
    }
    (by_part, long)
}

fn part_of(grouped: &[u8], parts: usize) -> usize {
    (hash_of_bytes(grouped) % parts.max(1) as u64) as usize
}

/// Appends a key that groups have, in the order of its values.
fn push_ordered(grouped: &[u8], out: &mut Vec<u8>) {
    let arena = Bump::new();
    let mut rest = grouped;
    while !rest.is_empty() {
        let (value, after) = decode_group_value(rest, &arena);
        encode_ordered_value(&value, out);
        rest = after;
    }
}

/// A key as groups have it, from one in order.
fn grouped(ordered: &[u8]) -> Result<Vec<u8>, InvalidState> {
    let arena = Bump::new();
    let (mut rest, mut key) = (ordered, Vec::with_capacity(ordered.len()));
    while !rest.is_empty() {
        let (value, after) = decode_ordered_value(rest, &arena).ok_or(InvalidState)?;
        encode_group_value(&value, Dialect::Native, &mut key);
        rest = after;
    }
    Ok(key)
}

#[cfg(test)]
mod tests;
