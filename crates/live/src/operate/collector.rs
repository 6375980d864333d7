//! Collects the output of a query's shards: merges partials in any order, takes rows in the order of the stream, and
//! emits results.
//!
//! It emits results as windows close, as records arrive, and at the end. A pure step machine: time arrives as `now`.
//! Knows nothing of the results' readers.

mod ordered;
mod patterns;
mod singly;

pub use patterns::PatternFaults;
use std::{collections::BTreeMap, ops::Range, sync::Arc};

use bytes::Bytes;
use swiftwater_event::Millis;
use swiftwater_lang::plan::{Window, WindowContents};

use super::{
    Axis, Groups, Partial, RowChunk, SketchMeta, SliceBoundaries, Slices, Timeline,
    group_result::{Bounds, GroupResult, NO_ORDER, with_single_group, write_groups},
    outer::OuterQuery,
    pattern::Matches,
    rows::{RowOrder, RowSlices, RowStore, write_with_times},
    sessions::Sessions,
    window::Shape,
};
use crate::{
    EventTimeFold, MaxEventTime, NO_TIME,
    standing::{CompiledBody, StandingQuery},
};

/// The limits of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorLimits {
    /// One answer is wanted at the end, rather than each match as it comes.
    pub one_answer: bool,
    /// Number of rows of such an answer if the query states no LIMIT.
    pub answer_rows_default: u64,
    /// Windows that nothing fell into are emitted too.
    pub emits_empty_windows: bool,
    /// Records tell their times.
    pub times: bool,
    /// Windows by arrival close one at a time ([`Collector::closes_singly`]).
    pub closes_singly: bool,
    /// The most matches of a pattern that may be begun with one key.
    pub pattern_partials_max: usize,
}

/// The results after which a query that has emitted something can resume elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeGranularity {
    /// The query resumes from its first event only: its state depends on all that it has seen.
    Never,
    /// The query resumes after so many windows by arrival, each of which is one result, with the events of those that
    /// are open then.
    ByWindows,
    /// The query resumes after so many records: it has no state.
    ByRecords,
}

/// Records that are ready to be emitted.
#[derive(Debug, Default, PartialEq)]
pub struct ResultSet {
    /// One record a line.
    pub text: Bytes,
    /// The number of records.
    pub count: u64,
    /// The window they are of.
    pub window: Option<ResultWindow>,
    /// Operations that could not be done while the records were made.
    pub expression_errors: u64,
    /// The precision of its approximate answers.
    pub sketches: Vec<SketchMeta>,
    /// If the records are an outer query's: the `sketches` of the result that it read.
    pub inner_sketches: Option<Vec<SketchMeta>>,
    /// The reason why it has no records, if it could not be made.
    pub failure: Option<Box<str>>,
}

/// The window of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultWindow {
    /// `tumbling`, `hopping`, `additive`, `session` or `record`.
    pub kind: &'static str,
    /// The number, from 1, by emits.
    pub number: u64,
    /// The number of matched events in a window by record; 0 for others.
    pub records: u64,
    /// Its first instant.
    pub start: Millis,
    /// The first instant after it; for a window that was cut short, or one by record, the last instant in it.
    pub end: Millis,
}

/// Number of empty windows emitted after a leap of the clock (a machine that slept); earlier empty ones are
/// skipped. If windows close singly, so many may wait for their turn.
const WINDOWS_LATE_MAX: u64 = 1000;

/// The state of a window.
#[derive(Debug)]
enum WindowState {
    Rows(RowStore),
    Groups(Groups),
}

/// The merging end of one query. Its groups by time are in the [`Slices`] of its operator, which others may share.
#[derive(Debug)]
pub struct Collector {
    // Rarely used fields are boxed: there is one of these per query.
    query: Arc<StandingQuery>,
    limits: CollectorLimits,
    axis: Axis,
    shape: Option<Shape>,
    /// Each match is given out as it comes.
    streams: bool,
    started: Millis,
    order: RowOrder,
    /// The epochs of the slices that it sees.
    epochs: Range<u64>,
    /// Others may need what is in the slices.
    shares: bool,
    /// The places of its aggregates among those of the slices, if these may have others.
    places: Option<Box<[usize]>>,
    rows: RowSlices,
    sessions: Option<Box<Sessions>>,
    pattern: Option<Box<Matches>>,
    /// The first window that is not closed.
    open: i64,
    /// The same where events are matched: where windows close singly that may be ahead.
    open_for_matches: i64,
    /// Number of windows that were closed there.
    parts: u64,
    /// True if the waiting matches were lost.
    is_cut_off: bool,
    /// Windows were closed up to here: what says that it is earlier is here.
    closed: i64,
    /// The merge of all slices before the open ones, for an additive window.
    total: Option<Box<Groups>>,
    /// The latest event time.
    peak: MaxEventTime,
    emits: u64,
    /// Rows given out as they came.
    streamed: u64,
    /// Matches that were taken in.
    taken: u64,
    /// Arrivals of the first and the last record of each slice, for a window by record.
    spans: BTreeMap<i64, (Millis, Millis)>,
    first_record: Option<Millis>,
    /// Events that came after the last window that would hold them was closed.
    late: u64,
    is_done: bool,
    outer: Option<Box<OuterQuery>>,
}

impl Collector {
    /// The collector of a query that stands from `started` on; windows by arrival begin there, or at `origin`.
    pub fn new(
        query: Arc<StandingQuery>,
        started: Millis,
        origin: Millis,
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
        let keys: Vec<_> = match &query.body {
            CompiledBody::Raw { order, .. } => order.iter().map(|(_, key)| *key).collect(),
            CompiledBody::Group(_) => Vec::new(),
        };
        let streams = dialect.streams_raw() && !one_answer && keys.is_empty();
        let axis = Axis::of(&plan.window);
        Collector {
            limits,
            axis,
            shape: Shape::of(&query, origin),
            streams,
            started,
            order: RowOrder { limit, keys, sorts_first: dialect.sorts_first_n(), dialect },
            epochs: 0..u64::MAX,
            shares: false,
            places: None,
            rows: RowSlices::default(),
            sessions: match plan.window {
                Window::Session { gap_ms, .. } => {
                    Some(Box::new(Sessions::new(gap_ms, axis != Axis::Arrival)))
                }
                _ => None,
            },
            pattern: query.pattern.is_some().then(|| Box::new(Matches::new())),
            open: if matches!(axis, Axis::Event { .. }) { i64::MIN } else { 0 },
            open_for_matches: 0,
            parts: 0,
            is_cut_off: false,
            closed: i64::MIN,
            total: None,
            peak: MaxEventTime::NONE,
            emits: 0,
            streamed: 0,
            taken: 0,
            spans: BTreeMap::new(),
            first_record: None,
            late: 0,
            is_done: false,
            outer: query.outer.as_ref().map(|outer| Box::new(OuterQuery::new(outer))),
            query,
        }
    }

    /// The state from which another collector can continue in its place.
    pub fn resumes(&self) -> ResumeGranularity {
        let is_plain = self.pattern.is_none() && self.sessions.is_none() && !self.limits.closes_singly;
        let has_all = matches!(self.query.plan.window, Window::Time { take: WindowContents::All, .. });
        match self.axis {
            Axis::None if is_plain && self.emits_immediately() => ResumeGranularity::ByRecords,
            Axis::Arrival if is_plain && !has_all && self.shape.is_some() => ResumeGranularity::ByWindows,
            _ => ResumeGranularity::Never,
        }
    }

    /// True if records are emitted as they come, so that which are emitted together is a matter of chance.
    pub fn emits_immediately(&self) -> bool {
        self.axis == Axis::None && self.streams && matches!(self.query.body, CompiledBody::Raw { .. })
    }

    /// Continues after so many windows or records, as [`Collector::resumes`] says; it must not have seen an event yet.
    /// For windows it must see the events from [`Collector::needs_from`] on.
    pub fn resume(&mut self, given: u64) {
        match self.resumes() {
            ResumeGranularity::ByRecords => self.streamed = given,
            ResumeGranularity::ByWindows => {
                self.emits = given;
                self.open = i64::try_from(given).unwrap_or(i64::MAX);
            }
            ResumeGranularity::Never => {}
        }
    }

    /// Earliest arrival of an event that is needed after so many windows by arrival.
    pub fn needs_after(&self, windows: u64) -> Millis {
        let open = i64::try_from(windows).unwrap_or(i64::MAX);
        self.shape.map_or(i64::MIN, |shape| shape.from(open))
    }

    /// The boundaries that its windows by time set for the slices of groups.
    pub fn cuts(&self) -> SliceBoundaries {
        match (self.axis, &self.shape) {
            (Axis::Arrival | Axis::Event { .. }, Some(shape)) => shape.cuts_by(self.axis),
            _ => SliceBoundaries::default(),
        }
    }

    /// The open and closed windows by the events' own time, without their content. It is for a caller that takes slices
    /// in for several collectors, and calls [`Collector::advance`] at the end of windows. None if there are no such
    /// windows.
    pub fn timeline(&self) -> Option<Timeline> {
        match (self.axis, self.shape) {
            (Axis::Event { lateness }, Some(shape)) => Some(Timeline::new(shape, lateness)),
            _ => None,
        }
    }

    /// Restricts it to these epochs of slices.
    pub fn restrict_epochs(&mut self, epochs: Range<u64>) {
        self.epochs = epochs;
    }

    /// It sees no epoch from this one on.
    pub fn restrict_until(&mut self, last: u64) {
        self.epochs.end = last;
    }

    /// The slices have other aggregates too, or in another order: its own are there at these places, each once.
    pub fn map_aggregates(&mut self, places: Box<[usize]>) {
        self.places = Some(places);
    }

    /// Sets the sharing of slices: if true, used slices are left for other queries.
    pub fn share(&mut self, shares: bool) {
        self.shares = shares;
    }

    /// Slices of groups by arrival that begin before this are over at `now`; none where there are no such.
    pub fn is_over_before(&self, now: Millis) -> Option<i64> {
        match (&self.query.body, self.axis, &self.shape) {
            (CompiledBody::Group(_), Axis::Arrival, Some(shape)) => Some(shape.cuts().start_of(now)),
            _ => None,
        }
    }

    /// The most rows of one result; `None`: any number.
    pub fn row_limit(&self) -> Option<u64> {
        self.order.limit
    }

    /// Events that came after the last window that would hold them was closed.
    pub fn late(&self) -> u64 {
        self.late + self.pattern.as_ref().map_or(0, |pattern| pattern.late)
    }

    /// True if no further event can change what is answered: LIMIT is reached, and there is no window.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads the fields that taking records needs, to load the memory of several collectors; the result means nothing.
    pub fn touch(&self) -> u64 {
        let limits = u64::from(self.limits.times) ^ self.order.limit.unwrap_or(0);
        limits ^ self.streamed ^ self.emits ^ self.late ^ u64::from(self.streams) ^ u64::from(self.is_done)
    }

    /// Bytes held, about, besides those in the slices.
    pub fn bytes(&self) -> usize {
        let total = self.total.as_ref().map_or(0, |total| total.bytes());
        let sessions = self.sessions.as_ref().map_or(0, |sessions| sessions.bytes());
        let spans = self.spans.len() * size_of::<(i64, (Millis, Millis))>();
        let pattern = self.pattern.as_ref().map_or(0, |pattern| pattern.bytes());
        self.rows.bytes() + total + sessions + pattern + spans
    }

    /// Arrival time at which the next window closes; for sessions and patterns it may change with every event.
    pub fn due(&self) -> Option<Millis> {
        self.pattern_due().into_iter().chain(self.window_due()).min()
    }

    fn window_due(&self) -> Option<Millis> {
        match (&self.sessions, &self.shape) {
            _ if self.axis != Axis::Arrival => None,
            (Some(sessions), _) => sessions.due(),
            (None, Some(_)) if self.waits() => Some(self.closed.saturating_add(1)),
            (None, Some(shape)) => Some(shape.end(self.open)),
            (None, None) => None,
        }
    }

    /// True if [`Collector::due`] may change when events come.
    pub fn has_sessions(&self) -> bool {
        self.sessions.is_some() || self.pattern.is_some()
    }

    /// Takes the records of one batch; batches must come in the order of the stream. `now_micros` is when what is
    /// given out at once is answered. Returns the number of records taken: fewer than there are if LIMIT is reached.
    /// Their text may be gone then.
    pub fn rows(&mut self, chunk: &mut RowChunk, now_micros: i64, out: &mut Vec<ResultSet>) -> usize {
        if self.is_done || chunk.is_empty() {
            return 0;
        }
        if self.axis == Axis::None && self.streams {
            return self.rows_as_they_come(chunk, now_micros, out);
        }
        let slices = &mut Slices::default();
        for row in 0..chunk.len() {
            if self.is_done {
                return row;
            }
            let number = self.taken;
            self.taken += 1;
            let (time, peak) = chunk.event_times.get(row).copied().unwrap_or((NO_TIME, MaxEventTime::NONE));
            let at = match self.axis {
                Axis::None => 0,
                Axis::Arrival => chunk.arrivals[row].max(self.closed),
                Axis::Records => number as i64,
                Axis::Event { .. } => {
                    self.advance(peak, slices, now_micros, out);
                    time
                }
            };
            if matches!(self.axis, Axis::Event { .. }) && at == NO_TIME {
                continue;
            }
            if self.sessions.is_some() {
                self.row_of_session(chunk, row, number, at);
                continue;
            }
            let held = self.shape.is_none_or(|shape| shape.first_holding(at).is_some());
            let is_late = self.is_late(at);
            self.late += u64::from(is_late);
            if held && !is_late {
                let start = if self.closes_singly() {
                    singly::MATCHES
                } else {
                    self.shape.map_or(0, |shape| shape.cuts().start_of(at))
                };
                let store = self.rows.slice(start);
                store.push(chunk, row, number, &self.order);
                self.is_done |= self.axis == Axis::None && store.is_full(&self.order);
            }
            if self.axis == Axis::Records {
                self.record(chunk.arrivals[row], slices, now_micros, out);
            }
        }
        chunk.len()
    }

    fn rows_as_they_come(
        &mut self,
        chunk: &mut RowChunk,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) -> usize {
        let left = self.order.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.streamed));
        let count = (chunk.len() as u64).min(left);
        if count > 0 {
            let text = if self.limits.times {
                let mut text = Vec::new();
                for row in 0..count as usize {
                    write_with_times(chunk.record(row), Some((chunk.times, now_micros)), &mut text);
                }
                text.into()
            } else if count == chunk.len() as u64 {
                std::mem::take(&mut chunk.text)
            } else {
                // The omitted records are freed before the reader has taken the rest.
                Bytes::copy_from_slice(&chunk.text[..chunk.ends[count as usize - 1]])
            };
            self.streamed += count;
            self.emits += 1;
            out.push(ResultSet { text, count, ..ResultSet::default() });
        }
        self.is_done = self.order.limit.is_some_and(|limit| self.streamed >= limit);
        count as usize
    }

    /// Adds a slice of groups that a shard passes on by arrival: one of a closed window counts in the first open one.
    pub fn partial(&self, partial: Partial, slices: &mut Slices) {
        let start = match (self.axis, &self.shape) {
            (Axis::Arrival, Some(shape)) if self.closed > i64::MIN => {
                partial.start.max(shape.cuts().start_of(self.closed))
            }
            _ => partial.start,
        };
        slices.add(Partial { start, ..partial });
    }

    /// Takes what a batch brings by the events' own time; batches must come in the order of the stream.
    pub fn timed(
        &mut self,
        timed: EventTimeFold,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        if self.pattern.is_some() {
            return self.pattern_time(timed.latest, slices, now_micros, out);
        }
        for generation in timed.generations {
            self.advance(generation.peak, slices, now_micros, out);
            for (partial, events) in generation.partials {
                if self.is_late(partial.start) {
                    self.late += events;
                } else if self.shape.is_none_or(|shape| shape.first_holding(partial.start).is_some()) {
                    slices.add(partial);
                }
            }
        }
        self.advance(timed.latest, slices, now_micros, out);
    }

    /// True if all windows that would hold an instant are closed.
    fn is_late(&self, at: i64) -> bool {
        let by_event = matches!(self.axis, Axis::Event { .. });
        by_event && self.shape.is_some_and(|shape| shape.holds_only_before(at, self.open))
    }

    /// Closes the windows by the events' own time that are over when the latest of the events so far is this.
    pub fn advance(
        &mut self,
        latest: MaxEventTime,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        let Axis::Event { lateness } = self.axis else { return };
        if latest.time > self.peak.time {
            self.peak = latest;
            self.close(latest.time.saturating_sub_unsigned(lateness), slices, now_micros, out);
        }
    }

    /// Advances event time to the arrival `until`, as the stream was idle until then.
    pub fn advance_idle(
        &mut self,
        until: Millis,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        match &self.pattern {
            Some(pattern) => {
                let peak = pattern.peak().advanced_to(until);
                self.pattern_time(peak, slices, now_micros, out);
            }
            None => self.advance(self.peak.advanced_to(until), slices, now_micros, out),
        }
    }

    /// The arrival at which an idle stream closes the next window or session, or completes a match; none if nothing is open.
    pub fn idle_due(&self, slices: &Slices) -> Option<Millis> {
        if let Some(pattern) = &self.pattern {
            return pattern.idle_due(self.query.pattern.as_ref()?);
        }
        let Axis::Event { lateness } = self.axis else { return None };
        let end = match (&self.sessions, &self.shape) {
            (Some(sessions), _) => sessions.due()?,
            (None, Some(shape)) => shape.end(self.first_nonempty_window(shape, self.open, slices)?),
            (None, None) => return None,
        };
        self.peak.idle_arrival_of(end.checked_add_unsigned(lateness)?)
    }

    /// Closes the windows by arrival that end at `now` or before; where they close singly, the first of them.
    pub fn close_by_arrival(
        &mut self,
        now: Millis,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        self.expire_pattern(now, slices, now_micros, out);
        if self.closes_singly() {
            self.close_by_clock(now, slices, now_micros, out);
        } else if self.axis == Axis::Arrival {
            self.close(now, slices, now_micros, out);
        }
    }

    /// Closes the windows that end at `at` on their line, or before.
    fn close(&mut self, at: i64, slices: &mut Slices, now_micros: i64, out: &mut Vec<ResultSet>) {
        if self.sessions.is_some() {
            return self.close_sessions(at, now_micros, out);
        }
        let Some(shape) = self.shape else { return };
        if at <= self.closed {
            return;
        }
        while let Some(number) = self.closing(&shape, at, slices) {
            let result = self.window(&shape, number, shape.end(number), slices, now_micros);
            self.open = number.saturating_add(1);
            self.emit(result, now_micros, out);
            self.release(&shape, slices);
        }
        self.closed = at;
        self.open = self.open.max(shape.closing_after(at));
        self.release(&shape, slices);
    }

    /// The next window that closes at `at` or before.
    fn closing(&self, shape: &Shape, at: i64, slices: &Slices) -> Option<i64> {
        let number = match self.axis {
            Axis::Arrival if self.limits.emits_empty_windows => {
                // After a leap of the clock empty windows are left out but for the last ones.
                let latest = shape.closing_after(at).saturating_sub(WINDOWS_LATE_MAX as i64);
                if self.open < latest {
                    let held = self.first_nonempty_window(shape, self.open, slices);
                    held.map_or(latest, |held| held.min(latest))
                } else {
                    self.open
                }
            }
            Axis::Records => self.open,
            _ => self.first_nonempty_window(shape, self.open, slices)?,
        };
        (shape.end(number) <= at).then_some(number)
    }

    /// The first window from `number` on that is not empty.
    fn first_nonempty_window(&self, shape: &Shape, number: i64, slices: &Slices) -> Option<i64> {
        shape.first_held(number, |from| {
            let rows = self.rows.first_from(from);
            rows.into_iter().chain(slices.first_from(from, &self.epochs)).min()
        })
    }

    /// The state of a window. Windows are asked for in their order.
    fn window_state(&mut self, shape: &Shape, number: i64, slices: &mut Slices) -> Option<WindowState> {
        let starts = self.starts(shape, number);
        if matches!(self.query.body, CompiledBody::Raw { .. }) {
            return self.rows.window(starts, !shape.overlaps()).map(WindowState::Rows);
        }
        let takes = !self.shares && !shape.overlaps();
        self.groups(starts, takes, slices).map(WindowState::Groups)
    }

    /// Its groups of the slices that begin there.
    fn groups(&self, starts: Range<i64>, takes: bool, slices: &mut Slices) -> Option<Groups> {
        let mut groups = slices.window(starts, &self.epochs, takes)?;
        if let Some(places) = &self.places {
            groups.pick_cells(places);
        }
        Some(groups)
    }

    /// Drops what no window needs that is still open.
    fn release(&mut self, shape: &Shape, slices: &mut Slices) {
        let from = if self.open == i64::MIN { i64::MIN } else { shape.from(self.open) };
        self.rows.drop_before(from);
        if !self.shares {
            slices.drop_before(from);
        }
        while let Some(first) = self.spans.first_entry().filter(|first| *first.key() < from) {
            first.remove();
        }
    }

    /// The position from which on it needs slices.
    pub fn needs_from(&self) -> i64 {
        match &self.shape {
            Some(shape) if self.open > i64::MIN => shape.from(self.open),
            _ => i64::MIN,
        }
    }

    /// The result of a window that is cut off at `end`.
    fn window(
        &mut self,
        shape: &Shape,
        number: i64,
        end: i64,
        slices: &mut Slices,
        now_micros: i64,
    ) -> ResultSet {
        self.emits += 1;
        let mut window = ResultWindow {
            kind: shape.kind(),
            number: self.emits,
            records: 0,
            start: shape.start(number).min(end),
            end,
        };
        if self.axis == Axis::Records {
            let start = shape.start(number);
            window = self.window_by_record(window, start, end);
        }
        let held = self.window_state(shape, number, slices);
        if !shape.is_additive() {
            return self.result(held, Some(window), now_micros);
        }
        let total = match (self.total.take(), held) {
            (Some(mut total), Some(WindowState::Groups(new))) => {
                total.merge(&new);
                Some(total)
            }
            (None, Some(WindowState::Groups(new))) => Some(Box::new(new)),
            (total, _) => total,
        };
        let mut result = ResultSet { window: Some(window), ..ResultSet::default() };
        let total = total.map(|total| *total);
        self.total = self.write_groups(total, now_micros, &mut result).map(Box::new);
        result
    }

    /// The last result: what the open windows hold. By arrival and by record that is the window that would close next, cut
    /// off; open sessions are cut off too; windows by the events' own time are all given out whole. Nothing where all was
    /// given out as it came.
    pub fn finish(&mut self, now: Millis, slices: &mut Slices, now_micros: i64, out: &mut Vec<ResultSet>) {
        self.finish_pattern(now, slices, now_micros, out);
        if self.sessions.is_some() {
            return self.finish_sessions(now, now_micros, out);
        }
        let Some(shape) = self.shape else {
            let is_raw = matches!(self.query.body, CompiledBody::Raw { .. });
            if is_raw && self.streams {
                return;
            }
            self.emits += 1;
            let held = if is_raw {
                self.rows.window(i64::MIN..i64::MAX, true).map(WindowState::Rows)
            } else {
                self.groups(i64::MIN..i64::MAX, !self.shares, slices).map(WindowState::Groups)
            };
            let result = self.result(held, None, now_micros);
            self.emit(result, now_micros, out);
            return;
        };
        if self.closes_singly() {
            return self.finish_singly(&shape, slices, now_micros, out);
        }
        let now = match self.axis {
            Axis::Event { .. } => return self.close(i64::MAX, slices, now_micros, out),
            Axis::Records => self.taken as i64,
            Axis::None | Axis::Arrival => {
                // The machine's clock may have gone back behind what arrived.
                let latest = self.rows.last().into_iter().chain(slices.last(&self.epochs)).max();
                let now = latest.map_or(now, |latest| latest.max(now));
                // In Bullet the last result is also that of a window that ends with the query.
                let ends_with_it = i64::from(self.query.dialect().ends_with_window());
                self.close(now.saturating_sub(ends_with_it), slices, now_micros, out);
                now
            }
        };
        let number = self.open;
        let period = shape.period(number);
        // Otherwise a window closed at this very instant, and none is open.
        let newest = self.rows.last().into_iter().chain(slices.last(&self.epochs)).max();
        // Slices in a gap between windows are held for other queries, and do not count here.
        let newest = newest.filter(|newest| shape.first_holding(*newest).is_some());
        let is_open = now > period || newest.is_some_and(|newest| number == 0 || newest >= period);
        let is_left_out = match self.axis {
            Axis::Records => !is_open,
            _ if !self.limits.emits_empty_windows => {
                !is_open || self.first_nonempty_window(&shape, number, slices) != Some(number)
            }
            _ => !is_open && self.emits > 0,
        };
        if is_left_out && !self.query.dialect().ends_with_window() {
            return;
        }
        // A window that ends early contains this very instant. In Bullet it still says when it was to close.
        let says_its_end = self.axis == Axis::Arrival && self.query.dialect().ends_with_window();
        let end = if says_its_end { shape.end(number) } else { now.max(period) };
        let result = self.window(&shape, number, end, slices, now_micros);
        self.emit(result, now_micros, out);
    }

    /// Emits a result, or what the outer query makes of it.
    fn emit(&self, result: ResultSet, now_micros: i64, out: &mut Vec<ResultSet>) {
        out.push(match &self.outer {
            Some(outer) => outer.evaluate(result, self.limits, now_micros.div_euclid(1000), now_micros),
            None => result,
        });
    }

    fn result(
        &mut self,
        held: Option<WindowState>,
        window: Option<ResultWindow>,
        now_micros: i64,
    ) -> ResultSet {
        let mut result = ResultSet { window, ..ResultSet::default() };
        match held {
            Some(WindowState::Rows(rows)) => {
                let answered = (self.limits.times && self.outer.is_none()).then_some(now_micros);
                let mut text = Vec::new();
                match rows.write(&self.order, answered, &mut text) {
                    Some(count) => (result.text, result.count) = (text.into(), count),
                    None => result.failure = Some(NO_ORDER.into()),
                }
            }
            Some(WindowState::Groups(groups)) => {
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
        let bounds = match (self.axis, &result.window) {
            (Axis::Arrival | Axis::Event { .. }, Some(window)) => Bounds::One(window.start, window.end),
            _ => Bounds::None,
        };
        let now = now_micros.div_euclid(1000);
        let of = GroupResult { limit: self.order.limit, bounds, now, wanted: None };
        write_groups(&self.query, &groups, &of, result);
        Some(groups)
    }
}
