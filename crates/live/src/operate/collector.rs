//! The one place where a query's shards meet: takes rows in the order of the stream and partials in any, and makes
//! results of them as windows close, as records come, and at the end.
//!
//! A pure step machine: time comes in as `now`. Knows nothing of who reads the results.

use std::{collections::BTreeMap, sync::Arc};

use swiftwater_event::Millis;
use swiftwater_lang::plan::{Take, Window};

use super::{
    Grid, Groups, RowChunk, SketchMeta,
    group_result::{Bounds, GroupResult, with_single_group, write_groups},
    outer::OuterQuery,
    rows::{RowOrder, RowStore, write_with_times},
};
use crate::standing::{CompiledBody, StandingQuery};

/// What a result may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorLimits {
    /// One answer is wanted at the end, rather than each match as it comes.
    pub one_answer: bool,
    /// Rows of such an answer where the query states no LIMIT.
    pub answer_rows_default: u64,
    /// Windows that nothing fell into are emitted too.
    pub emits_empty_windows: bool,
    /// Records tell their times.
    pub times: bool,
}

/// Records that are ready to be emitted.
#[derive(Debug, Default, PartialEq)]
pub struct ResultSet {
    /// One record a line.
    pub text: Vec<u8>,
    /// How many.
    pub count: u64,
    /// The window they are of.
    pub window: Option<ResultWindow>,
    /// Operations that could not be done while the records were made.
    pub expression_errors: u64,
    /// How exact approximate answers in it are.
    pub sketches: Vec<SketchMeta>,
    /// Where the records are an outer query's: what `sketches` was of the result that it looked at.
    pub inner_sketches: Option<Vec<SketchMeta>>,
}

/// The window of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultWindow {
    /// `tumbling`, `hopping`, `additive`, `session` or `record`.
    pub kind: &'static str,
    /// From 1, by emits.
    pub number: u64,
    /// Of a window by record: the matched events that it holds; 0 for others.
    pub records: u64,
    /// Its first instant.
    pub start: Millis,
    /// The first instant after it; for a window that was cut short, or one by record, the last instant in it.
    pub end: Millis,
}

/// After a leap of the clock (a machine that slept) so many windows are emitted though nothing fell into them; empty
/// ones before those are left out.
const WINDOWS_LATE_MAX: u64 = 1000;

/// What a window holds until it closes.
#[derive(Debug)]
enum Held {
    Rows(RowStore),
    Groups(Groups),
}

/// The merging end of one query.
#[derive(Debug)]
pub struct Collector {
    query: Arc<StandingQuery>,
    limits: CollectorLimits,
    grid: Option<Grid>,
    started: Millis,
    order: RowOrder,
    /// Open windows by number; one, number 0, where the query has none by time.
    windows: BTreeMap<u64, Held>,
    /// The first window that is not closed.
    open: u64,
    /// Of an additive window: all before the open ones.
    total: Option<Groups>,
    emits: u64,
    /// Rows given out as they came.
    streamed: u64,
    /// Of a window by record: rows in it, when it began, and when the last came.
    records: u64,
    record_start: Millis,
    record_end: Millis,
    is_done: bool,
    outer: Option<OuterQuery>,
}

impl Collector {
    /// The collector of a query that stands from `started` on; time windows begin there, or at `grid_start`.
    pub fn new(
        query: Arc<StandingQuery>,
        started: Millis,
        grid_start: Millis,
        limits: CollectorLimits,
    ) -> Collector {
        let plan = &query.plan;
        let dialect = plan.dialect;
        let has_window = plan.window != Window::None;
        let one_answer = limits.one_answer || plan.outer.is_some();
        let limit = match &query.body {
            CompiledBody::Group(_) => [plan.limit, dialect.groups_max()].into_iter().flatten().min(),
            CompiledBody::Raw { .. } => {
                let default = if one_answer && !has_window { Some(limits.answer_rows_default) } else { None };
                let stated = plan.limit.or(dialect.raw_limit_default()).or(default);
                [stated, dialect.raw_limit_max()].into_iter().flatten().min()
            }
        };
        let descending = match &query.body {
            CompiledBody::Raw { order, .. } => order.iter().map(|(_, descending)| *descending).collect(),
            CompiledBody::Group(_) => Vec::new(),
        };
        Collector {
            limits,
            grid: query.window_ms().map(|every_ms| Grid { start: grid_start, every_ms: every_ms.max(1) }),
            started,
            order: RowOrder { limit, descending, sorts_first: dialect.sorts_first_n() },
            windows: BTreeMap::new(),
            open: 0,
            total: None,
            emits: 0,
            streamed: 0,
            records: 0,
            record_start: started,
            record_end: started,
            is_done: false,
            outer: query.outer.as_ref().map(OuterQuery::new),
            query,
        }
    }

    /// The time windows, where the query has such.
    pub fn grid(&self) -> Option<Grid> {
        self.grid
    }

    /// The most rows of one result; `None`: any number.
    pub fn row_limit(&self) -> Option<u64> {
        self.order.limit
    }

    /// Whether no further event can change what is answered: LIMIT is reached, and there is no window.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        let held: usize = self
            .windows
            .values()
            .map(|held| match held {
                Held::Rows(rows) => rows.bytes(),
                Held::Groups(groups) => groups.bytes(),
            })
            .sum();
        held + self.total.as_ref().map_or(0, Groups::bytes)
    }

    /// When the next time window closes.
    pub fn due(&self) -> Option<Millis> {
        self.grid.map(|grid| grid.end_of(self.open))
    }

    /// Takes the records of one batch; batches must come in the order of the stream. `now_micros` is when what is
    /// given out at once is answered. Answers how many were taken: fewer than there are where LIMIT is reached.
    pub fn rows(&mut self, chunk: &RowChunk, now_micros: i64, out: &mut Vec<ResultSet>) -> usize {
        if self.is_done || chunk.is_empty() {
            return 0;
        }
        match self.query.plan.window {
            Window::Records { every: size, .. } => self.rows_by_record(chunk, size, now_micros, out),
            Window::None if self.streams() => return self.rows_as_they_come(chunk, now_micros, out),
            _ => {
                for row in 0..chunk.len() {
                    if self.is_done {
                        return row;
                    }
                    let number = self.grid.map_or(0, |grid| grid.number(chunk.arrivals[row])).max(self.open);
                    let held = self.windows.entry(number).or_insert_with(|| Held::Rows(RowStore::default()));
                    if let Held::Rows(rows) = held {
                        rows.push(chunk, row, &self.order);
                        self.is_done |= self.grid.is_none() && rows.is_full(&self.order);
                    }
                }
            }
        }
        chunk.len()
    }

    /// Whether each match is given out as it comes.
    fn streams(&self) -> bool {
        self.query.dialect().streams_raw()
            && !self.limits.one_answer
            && self.outer.is_none()
            && self.order.descending.is_empty()
    }

    fn rows_as_they_come(&mut self, chunk: &RowChunk, now_micros: i64, out: &mut Vec<ResultSet>) -> usize {
        let left = self.order.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.streamed));
        let count = (chunk.len() as u64).min(left);
        if count > 0 {
            let mut text = Vec::new();
            if self.limits.times {
                for row in 0..count as usize {
                    write_with_times(chunk.record(row), Some((chunk.times, now_micros)), &mut text);
                }
            } else {
                text.extend_from_slice(&chunk.text[..chunk.ends[count as usize - 1]]);
            }
            self.streamed += count;
            self.emits += 1;
            out.push(ResultSet { text, count, ..ResultSet::default() });
        }
        self.is_done = self.order.limit.is_some_and(|limit| self.streamed >= limit);
        count as usize
    }

    fn rows_by_record(&mut self, chunk: &RowChunk, size: u64, now_micros: i64, out: &mut Vec<ResultSet>) {
        for row in 0..chunk.len() {
            self.count_record(chunk.arrivals[row]);
            let held = self.windows.entry(0).or_insert_with(|| Held::Rows(RowStore::default()));
            if let Held::Rows(rows) = held {
                rows.push(chunk, row, &self.order);
            }
            if self.records == size {
                self.close_by_record(now_micros, out);
            }
        }
    }

    fn count_record(&mut self, arrival: Millis) {
        if self.records == 0 {
            self.record_start = arrival;
        }
        self.record_end = arrival;
        self.records += 1;
    }

    fn close_by_record(&mut self, now_micros: i64, out: &mut Vec<ResultSet>) {
        let held = self.windows.remove(&0);
        self.emits += 1;
        let window = ResultWindow {
            kind: "record",
            number: self.emits,
            records: self.records,
            start: self.record_start,
            end: self.record_end,
        };
        self.records = 0;
        let result = self.result(held, Some(window), now_micros);
        self.give_out(result, now_micros, out);
    }

    /// Takes the groups of a window, from any shard, at any time before the window is closed; later ones are counted
    /// into the first open window.
    pub fn groups(&mut self, window: u64, groups: Groups) {
        let number = if self.grid.is_some() { window.max(self.open) } else { 0 };
        match self.windows.entry(number) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Held::Groups(groups));
            }
            std::collections::btree_map::Entry::Occupied(mut held) => {
                if let Held::Groups(ours) = held.get_mut() {
                    // The larger one stays, so that merging costs what the smaller one holds.
                    if ours.len() < groups.len() {
                        let smaller = std::mem::replace(ours, groups);
                        ours.merge(&smaller);
                    } else {
                        ours.merge(&groups);
                    }
                }
            }
        }
    }

    /// Takes the groups of single rows, in the order of the stream: for windows by record.
    pub fn single_rows(&mut self, rows: Vec<(Millis, Groups)>, now_micros: i64, out: &mut Vec<ResultSet>) {
        let Window::Records { every: size, .. } = self.query.plan.window else { return };
        for (arrival, groups) in rows {
            self.count_record(arrival);
            self.groups(0, groups);
            if self.records == size {
                self.close_by_record(now_micros, out);
            }
        }
    }

    /// Closes the time windows that end at `now` or before.
    pub fn close(&mut self, now: Millis, now_micros: i64, out: &mut Vec<ResultSet>) {
        let Some(grid) = self.grid else { return };
        let earliest = grid.number(now).saturating_sub(WINDOWS_LATE_MAX);
        while grid.end_of(self.open) <= now {
            if self.open < earliest && !self.windows.contains_key(&self.open) {
                self.open = self.windows.keys().next().map_or(earliest, |&first| first.min(earliest));
                continue;
            }
            if !self.limits.emits_empty_windows {
                match self.windows.keys().next() {
                    Some(&first) if grid.end_of(first) <= now => self.open = first,
                    _ => {
                        self.open = grid.number(now);
                        break;
                    }
                }
            }
            let (start, end) = (grid.start_of(self.open), grid.end_of(self.open));
            let held = self.windows.remove(&self.open);
            self.open += 1;
            let result = self.time_window(held, start, end, now_micros);
            self.give_out(result, now_micros, out);
        }
    }

    fn time_window(&mut self, held: Option<Held>, start: Millis, end: Millis, now_micros: i64) -> ResultSet {
        self.emits += 1;
        let additive = matches!(self.query.plan.window, Window::Time { take: Take::All, .. });
        let (kind, start) = if additive { ("additive", self.started) } else { ("tumbling", start) };
        let window = Some(ResultWindow { kind, number: self.emits, records: 0, start, end });
        if !additive {
            return self.result(held, window, now_micros);
        }
        let total = match (self.total.take(), held) {
            (Some(mut total), Some(Held::Groups(new))) => {
                total.merge(&new);
                Some(total)
            }
            (None, Some(Held::Groups(new))) => Some(new),
            (total, _) => total,
        };
        let mut result = ResultSet { window, ..ResultSet::default() };
        let total = self.write_groups(total, now_micros, &mut result);
        self.total = total;
        result
    }

    /// The last result: what the open windows hold, as one. Nothing where all was given out as it came.
    pub fn finish(&mut self, now: Millis, now_micros: i64, out: &mut Vec<ResultSet>) {
        // The machine's clock may have gone back behind what arrived.
        let latest = self.grid.zip(self.windows.keys().next_back()).map(|(grid, &last)| grid.start_of(last));
        let now = latest.map_or(now, |latest| latest.max(now));
        self.close(now, now_micros, out);
        let mut windows = std::mem::take(&mut self.windows).into_values();
        let mut held = windows.next();
        for other in windows {
            if let (Some(Held::Groups(ours)), Held::Groups(theirs)) = (&mut held, &other) {
                ours.merge(theirs);
            }
        }
        let result = match (self.grid, &self.query.plan.window) {
            (Some(grid), _) => {
                if held.is_none() && !self.limits.emits_empty_windows {
                    return;
                }
                let start = grid.start_of(self.open);
                if held.is_none() && now <= start && self.emits > 0 {
                    // A window closed at this very instant, and none is open.
                    return;
                }
                self.time_window(held, start, now.max(start), now_micros)
            }
            (None, Window::Records { .. }) => {
                if held.is_none() {
                    return;
                }
                self.close_by_record_at_end(held, now_micros)
            }
            (None, _) => {
                let is_raw = matches!(self.query.body, CompiledBody::Raw { .. });
                if is_raw && self.streams() {
                    return;
                }
                self.emits += 1;
                self.result(held, None, now_micros)
            }
        };
        self.give_out(result, now_micros, out);
    }

    /// Gives out a result, or what the outer query makes of it.
    fn give_out(&self, result: ResultSet, now_micros: i64, out: &mut Vec<ResultSet>) {
        out.push(match &self.outer {
            Some(outer) => outer.answer(result, self.limits, now_micros.div_euclid(1000), now_micros),
            None => result,
        });
    }

    fn close_by_record_at_end(&mut self, held: Option<Held>, now_micros: i64) -> ResultSet {
        self.emits += 1;
        let window = ResultWindow {
            kind: "record",
            number: self.emits,
            records: self.records,
            start: self.record_start,
            end: self.record_end,
        };
        self.result(held, Some(window), now_micros)
    }

    fn result(&mut self, held: Option<Held>, window: Option<ResultWindow>, now_micros: i64) -> ResultSet {
        let mut result = ResultSet { window, ..ResultSet::default() };
        match held {
            Some(Held::Rows(rows)) => {
                let answered = (self.limits.times && self.outer.is_none()).then_some(now_micros);
                result.count = rows.write(&self.order, answered, &mut result.text);
            }
            Some(Held::Groups(groups)) => {
                self.write_groups(Some(groups), now_micros, &mut result);
            }
            None => {
                self.write_groups(None, now_micros, &mut result);
            }
        }
        result
    }

    /// Writes what groups there are; gives them back.
    fn write_groups(
        &self,
        groups: Option<Groups>,
        now_micros: i64,
        result: &mut ResultSet,
    ) -> Option<Groups> {
        let groups = with_single_group(&self.query, groups)?;
        let bounds = match (&self.grid, &result.window) {
            (Some(_), Some(window)) => Bounds::One(window.start, window.end),
            _ => Bounds::None,
        };
        let of = GroupResult { limit: self.order.limit, bounds, now: now_micros.div_euclid(1000) };
        write_groups(&self.query, &groups, &of, result);
        Some(groups)
    }
}
