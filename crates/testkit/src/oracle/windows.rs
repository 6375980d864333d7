//! Windows: finds the rows of each emit. Every window is computed by itself, over all rows.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};
use swiftwater_lang::plan::{Query, Window, WindowClock, WindowContents};

use super::{
    Answer, Disagreement, Unsupported, check_supported,
    eval::{Row, evaluate},
    result::{Part, result},
    rows::{FilteredRow, filtered_rows},
    time::millis,
    value::Value,
};

/// A query's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLifetime {
    /// Its start; windows by arrival begin here.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// Windows by arrival are emitted although nothing fell into them.
    pub emits_empty: bool,
}

/// One emit.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// Its window, where the query has any: its first instant, and the first after it. For a window that the query's
    /// end cut short, the second is the last instant in it; for windows by record, both are arrivals, of the first and
    /// the last record.
    pub window: Option<(i64, i64)>,
    /// Its records.
    pub answer: Answer,
}

/// All that a query emits.
#[derive(Debug, Clone)]
pub struct Emits {
    /// One after another; of a query without windows, one.
    pub emits: Vec<Emitted>,
    /// Matched events that came after all their windows were closed.
    pub late: u64,
}

/// An emit as it was got: its window's bounds, and its records.
pub type ReceivedEmit = (Option<(i64, i64)>, Vec<Map<String, Json>>);

impl Emits {
    /// Checks that these emits are correct: as many, of the same windows, each with a correct answer. For a query
    /// without windows only the records are compared, in any number of emits; emits without window and records are
    /// ignored.
    pub fn check(&self, got: &[ReceivedEmit]) -> Result<(), Disagreement> {
        let got: Vec<&ReceivedEmit> =
            got.iter().filter(|(window, records)| window.is_some() || !records.is_empty()).collect();
        if let [Emitted { window: None, answer }] = &*self.emits {
            let records: Vec<Map<String, Json>> =
                got.into_iter().flat_map(|(_, records)| records.clone()).collect();
            return answer.check(&records);
        }
        let ours: Vec<_> = self.emits.iter().map(|emit| emit.window).collect();
        let theirs: Vec<_> = got.iter().map(|(window, _)| *window).collect();
        if ours != theirs {
            return Err(Disagreement(format!("windows should be {ours:?}, and are {theirs:?}")));
        }
        for (emit, (window, records)) in self.emits.iter().zip(got) {
            emit.answer
                .check(records)
                .map_err(|Disagreement(why)| Disagreement(format!("in window {window:?}: {why}")))?;
        }
        Ok(())
    }
}

/// The emits of a query over events, each with its time of arrival, which never decreases.
pub fn emits(query: &Query, life: QueryLifetime, events: &[(i64, Json)]) -> Result<Emits, Unsupported> {
    check_supported(query)?;
    let mut watched = WatermarkedRows { late: 0, rows: Vec::new() };
    // The latest time, and when its event arrived; when the last event did.
    let (mut latest, mut last): (Option<(i64, i64)>, Option<i64>) = (None, None);
    for (arrival, json) in events {
        if let (Some(idle), Some(last), Some((time, moved))) = (query.idle_after_ms(), last, &mut latest)
            && arrival - last >= idle as i64
        {
            (*time, *moved) = (*time + arrival - *moved, *arrival);
        }
        last = Some(*arrival);
        let row = Value::of(json);
        let time = match clock(&query.window) {
            None | Some(WindowClock::Arrival) => Some(*arrival),
            Some(WindowClock::Event { time, .. }) => millis(&evaluate(time, Row { event: &row, slots: &[] })),
        };
        let most = query.max_ahead_ms().map(|most| arrival.saturating_add_unsigned(most));
        let time = time.filter(|time| most.is_none_or(|most| *time <= most));
        let watermark = match clock(&query.window) {
            Some(WindowClock::Event { lateness_ms, .. }) => {
                latest.map(|(latest, _): (i64, i64)| latest.saturating_sub_unsigned(*lateness_ms))
            }
            _ => None,
        };
        if let Some(time) = time {
            watched.rows.extend(filtered_rows(query, json).into_iter().map(|kept| TimedRow {
                kept,
                arrival: *arrival,
                time,
                watermark,
            }));
        }
        if let Some(time) = time
            && latest.is_none_or(|(latest, _)| time > latest)
        {
            latest = Some((time, *arrival));
        }
    }
    let emits = match &query.window {
        Window::None => vec![watched.emit(query, None, |_| true)?],
        Window::Time { every_ms, take, clock: WindowClock::Arrival } => {
            watched.by_arrival(query, life, *every_ms as i64, *take)?
        }
        Window::Time { every_ms, take, clock: WindowClock::Event { .. } } => {
            watched.by_event_time(query, *every_ms as i64, *take)?
        }
        Window::Records { every, take } => watched.by_record(query, life, *every as usize, *take)?,
        Window::Session { gap_ms, clock } => {
            let cut = (*clock == WindowClock::Arrival).then_some(life.end);
            watched.sessions(query, *gap_ms as i64, cut)?
        }
    };
    Ok(Emits { emits, late: watched.late })
}

fn clock(window: &Window) -> Option<&WindowClock> {
    match window {
        Window::Time { clock, .. } | Window::Session { clock, .. } => Some(clock),
        Window::None | Window::Records { .. } => None,
    }
}

/// A row that passes WHERE, its time, and the watermark of the events before it.
pub(super) struct TimedRow<'a> {
    pub(super) kept: FilteredRow<'a>,
    arrival: i64,
    pub(super) time: i64,
    watermark: Option<i64>,
}

impl TimedRow<'_> {
    /// True if a window with this end was open when the row came.
    pub(super) fn is_before(&self, end: i64) -> bool {
        self.watermark.is_none_or(|watermark| end > watermark)
    }
}

pub(super) struct WatermarkedRows<'a> {
    pub(super) rows: Vec<TimedRow<'a>>,
    pub(super) late: u64,
}

impl<'a> WatermarkedRows<'a> {
    fn emit(
        &self,
        query: &Query,
        window: Option<(i64, i64)>,
        holds: impl Fn(&TimedRow<'a>) -> bool,
    ) -> Result<Emitted, Unsupported> {
        let rows: Vec<FilteredRow<'a>> =
            self.rows.iter().filter(|seen| holds(seen)).map(|seen| seen.kept.clone()).collect();
        Ok(Emitted { window, answer: result(query, &[Part { rows, window }])? })
    }

    fn by_arrival(
        &self,
        query: &Query,
        life: QueryLifetime,
        every: i64,
        take: WindowContents,
    ) -> Result<Vec<Emitted>, Unsupported> {
        let mut emits = Vec::new();
        for number in 0.. {
            let begin = life.start + number * every;
            let (from, to) = span(take, begin, begin + every, life.start);
            let is_last = to > life.end;
            // Repeated rows of a window over ALL are not new.
            let new = if take == WindowContents::All { begin..to } else { from..to };
            let there = self.rows.iter().any(|seen| new.contains(&seen.time));
            let has_begun = !is_last
                || number == 0
                || life.end > begin
                // At its first instant it is there with an event that it takes in, not with one that falls between windows.
                || self.rows.iter().any(|seen| seen.time >= begin && (from..to).contains(&seen.time));
            if has_begun && (there || life.emits_empty) {
                let end = if is_last { life.end.max(begin) } else { to };
                let bounds = Some((from.min(end), end));
                emits.push(self.emit(query, bounds, |seen| (from..to).contains(&seen.time))?);
            }
            if is_last {
                break;
            }
        }
        Ok(emits)
    }

    fn by_event_time(
        &mut self,
        query: &Query,
        every: i64,
        take: WindowContents,
    ) -> Result<Vec<Emitted>, Unsupported> {
        if take == WindowContents::All {
            return self.all_by_event_time(query, every);
        }
        // For each row, the windows that may contain it: those that close at a multiple of `every` not too long after
        // it.
        let reach = if let WindowContents::Last(last) = take { last as i64 } else { every };
        let closes: BTreeSet<i64> = self
            .rows
            .iter()
            .flat_map(|seen| {
                let first = (seen.time.div_euclid(every) + 1) * every;
                (first..=seen.time + reach.max(every)).step_by(every as usize)
            })
            .collect();
        let mut emits = Vec::new();
        let mut is_held = vec![false; self.rows.len()];
        let mut has_window = vec![false; self.rows.len()];
        for close in closes {
            let (from, to) = span(take, close - every, close, i64::MIN);
            let holds = |seen: &TimedRow<'_>| (from..to).contains(&seen.time) && seen.is_before(to);
            for (place, seen) in self.rows.iter().enumerate() {
                has_window[place] |= (from..to).contains(&seen.time);
                is_held[place] |= holds(seen);
            }
            if self.rows.iter().any(holds) {
                emits.push(self.emit(query, Some((from, to)), holds)?);
            }
        }
        self.late = has_window.iter().zip(&is_held).filter(|(has, held)| **has && !**held).count() as u64;
        Ok(emits)
    }

    /// Windows over ALL close every so often; what came too late for one is in the next, so nothing is late.
    fn all_by_event_time(&self, query: &Query, every: i64) -> Result<Vec<Emitted>, Unsupported> {
        let after = |time: i64| (time.div_euclid(every) + 1) * every;
        let first_close =
            |seen: &TimedRow<'_>| after(seen.watermark.map_or(seen.time, |mark| mark.max(seen.time)));
        let closes: BTreeSet<i64> = self.rows.iter().map(first_close).collect();
        let emit = |close| self.emit(query, Some((0.min(close), close)), |seen| first_close(seen) <= close);
        closes.into_iter().map(emit).collect()
    }

    /// The last window is the one that would be next, as far as it came.
    fn by_record(
        &self,
        query: &Query,
        life: QueryLifetime,
        every: usize,
        take: WindowContents,
    ) -> Result<Vec<Emitted>, Unsupported> {
        let mut emits = Vec::new();
        let mut begin = 0;
        while begin < self.rows.len() {
            let (from, to) = match take {
                WindowContents::First(first) => (begin, begin + first as usize),
                WindowContents::Last(last) => ((begin + every).saturating_sub(last as usize), begin + every),
                WindowContents::All => (0, begin + every),
            };
            let to = to.min(self.rows.len());
            let rows = &self.rows[from.min(to)..to];
            let shown = rows.first().zip(rows.last()).map(|(first, last)| (first.arrival, last.arrival));
            let part = Part { rows: rows.iter().map(|seen| seen.kept.clone()).collect(), window: None };
            let window = shown.or(Some((life.start, life.start)));
            emits.push(Emitted { window, answer: result(query, &[part])? });
            begin += every;
        }
        Ok(emits)
    }
}

/// The span of a window that is emitted at `close`, where `begin` is the time of the one before; nothing before
/// `earliest`.
fn span(take: WindowContents, begin: i64, close: i64, earliest: i64) -> (i64, i64) {
    match take {
        WindowContents::First(first) => (begin, begin + first as i64),
        WindowContents::Last(last) => ((close - last as i64).max(earliest), close),
        WindowContents::All => (earliest, close),
    }
}
