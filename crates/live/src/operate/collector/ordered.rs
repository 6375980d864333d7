//! Windows that consist of single events in the order of the stream: record windows and sessions.

use swiftwater_event::Millis;

use super::{Collector, ResultSet, ResultWindow};
use crate::{
    NO_TIME, SingleRow,
    operate::{
        Axis, Groups, Partial, RowChunk, Slices,
        group_result::{Bounds, GroupResult, write_groups},
        rows::RowStore,
        sessions::{Session, SessionState},
    },
};

impl Collector {
    /// Takes the groups of single events, in the order of the stream.
    pub fn single_rows(
        &mut self,
        rows: Vec<SingleRow>,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        for row in rows {
            if self.axis == Axis::Records {
                let at = self.taken as i64;
                self.taken += 1;
                if let Some(shape) = self.shape
                    && shape.first_holding(at).is_some()
                {
                    slices.add(Partial { epoch: 0, start: shape.cuts().start_of(at), groups: row.groups });
                }
                self.record(row.arrival, slices, now_micros, out);
                continue;
            }
            self.advance(row.peak, slices, now_micros, out);
            let at = if self.axis == Axis::Arrival { row.at.max(self.closed) } else { row.at };
            let Some(sessions) = &mut self.sessions else { continue };
            let mut groups = row.groups;
            // Those of windows by record are picked from slices.
            if let Some(places) = &self.places {
                groups.pick_cells(places);
            }
            let is_late = !sessions.add(&row.key, at, self.closed, SessionState::Groups(groups));
            self.late += u64::from(is_late);
        }
    }

    /// Counts a matched event that was taken in, and closes the windows by record that it fills.
    pub(super) fn record(
        &mut self,
        arrival: Millis,
        slices: &mut Slices,
        now_micros: i64,
        out: &mut Vec<ResultSet>,
    ) {
        let Some(shape) = self.shape else { return };
        let start = shape.cuts().start_of(self.taken as i64 - 1);
        self.first_record.get_or_insert(arrival);
        self.spans.entry(start).or_insert((arrival, arrival)).1 = arrival;
        self.close(self.taken as i64, slices, now_micros, out);
    }

    /// A window of the records in `[start, end)`.
    pub(super) fn window_by_record(&self, window: ResultWindow, start: i64, end: i64) -> ResultWindow {
        let spans = || self.spans.range(start..end.max(start));
        let first = if start == 0 { self.first_record } else { spans().next().map(|(_, (first, _))| *first) };
        let first = first.unwrap_or(self.started);
        let last = spans().next_back().map_or(first, |(_, (_, last))| *last);
        let records = u64::try_from(end - start).unwrap_or(0);
        ResultWindow { kind: "record", records, start: first, end: last, ..window }
    }

    /// Takes a row into its session.
    pub(super) fn row_of_session(&mut self, chunk: &RowChunk, row: usize, number: u64, at: i64) {
        let mut rows = RowStore::default();
        rows.push(chunk, row, number, &self.order);
        let Some(sessions) = &mut self.sessions else { return };
        self.late += u64::from(!sessions.add(&[], at, self.closed, SessionState::Rows(rows)));
    }

    pub(super) fn close_sessions(&mut self, at: i64, now_micros: i64, out: &mut Vec<ResultSet>) {
        while let Some((end, closed)) = self.sessions.as_mut().and_then(|sessions| sessions.close(at)) {
            let result = self.sessions_result(closed, |_| end, now_micros);
            self.emit(result, now_micros, out);
        }
        self.closed = self.closed.max(at);
        if let Some(sessions) = &mut self.sessions {
            sessions.forget(self.closed);
        }
    }

    /// The sessions that are open at the end: by arrival they are cut off there, and are one result.
    pub(super) fn finish_sessions(&mut self, now: Millis, now_micros: i64, out: &mut Vec<ResultSet>) {
        if self.axis != Axis::Arrival {
            return self.close_sessions(i64::MAX, now_micros, out);
        }
        self.close_sessions(now, now_micros, out);
        let open = self.sessions.as_mut().map(|sessions| sessions.take()).unwrap_or_default();
        if !open.is_empty() {
            let result = self.sessions_result(open, |session| now.max(session.last), now_micros);
            self.emit(result, now_micros, out);
        }
    }

    /// One result of several keys' sessions.
    fn sessions_result(
        &mut self,
        sessions: Vec<Session>,
        end: impl Fn(&Session) -> Millis,
        now_micros: i64,
    ) -> ResultSet {
        self.emits += 1;
        let window = ResultWindow {
            kind: "session",
            number: self.emits,
            records: 0,
            start: sessions.iter().map(|session| session.first).min().unwrap_or(NO_TIME),
            end: sessions.iter().map(&end).max().unwrap_or(NO_TIME),
        };
        let mut result = ResultSet { window: Some(window), ..ResultSet::default() };
        let mut groups: Option<Groups> = None;
        let mut text = Vec::new();
        let mut bounds = Vec::new();
        for session in sessions {
            let bound = (session.first, end(&session));
            match session.held {
                SessionState::Rows(rows) => {
                    let answered = (self.limits.times && self.outer.is_none()).then_some(now_micros);
                    // Only Bullet has rows without an order, and it has no sessions.
                    result.count += rows.write(&self.order, answered, &mut text).unwrap_or_default();
                }
                SessionState::Groups(theirs) => {
                    bounds.push(bound);
                    match &mut groups {
                        // Each key is there once: the groups stand in the order of their merging.
                        Some(ours) => ours.merge(&theirs),
                        None => groups = Some(theirs),
                    }
                }
            }
        }
        result.text = text.into();
        if let Some(groups) = groups {
            let of = GroupResult {
                limit: self.order.limit,
                bounds: Bounds::Each(&bounds),
                now: now_micros.div_euclid(1000),
                wanted: None,
            };
            write_groups(&self.query, &groups, &of, &mut result);
        }
        result
    }
}
