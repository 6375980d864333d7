//! Windows: which rows each emit is about. Every window is looked at by itself, over all rows.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use swiftwater_lang::plan::{Body, Query, Take, Window, WindowClock};

use super::{
    Answer, Disagreement, Key, Unsupported, check_supported,
    eval::{Row, evaluate},
    result::{Part, key_of, result},
    rows::{Kept, kept},
    time::millis,
    value::Value,
};

/// A query's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// When it began; windows by arrival lie from here on.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Windows by arrival are emitted although nothing fell into them.
    pub emits_empty: bool,
}

/// One emit.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// Its window, where the query has any: its first instant, and the first after it. Of a window that the query's end
    /// cut short, the last instant in it; of windows by record, when the first and the last record came.
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
pub type GotEmit = (Option<(i64, i64)>, Vec<Map<String, Json>>);

impl Emits {
    /// Whether these emits are right: as many, of the same windows, each with a right answer. Of a query without
    /// windows only the records are looked at, however many emits they came in; emits without window and records are
    /// passed over.
    pub fn check(&self, got: &[GotEmit]) -> Result<(), Disagreement> {
        let got: Vec<&GotEmit> =
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

/// What a query emits over events, each with its time of arrival, that never goes back.
pub fn emits(query: &Query, life: Life, events: &[(i64, Json)]) -> Result<Emits, Unsupported> {
    check_supported(query)?;
    let mut watched = Watched { late: 0, rows: Vec::new() };
    let mut watermark = None;
    for (arrival, json) in events {
        let row = Value::of(json);
        let time = match clock(&query.window) {
            None | Some(WindowClock::Arrival) => Some(*arrival),
            Some(WindowClock::Event { time, .. }) => millis(&evaluate(time, Row { event: &row, slots: &[] })),
        };
        if let Some(time) = time {
            watched.rows.extend(kept(query, json).into_iter().map(|kept| Seen {
                kept,
                arrival: *arrival,
                time,
                watermark,
            }));
        }
        if let (Some(WindowClock::Event { lateness_ms, .. }), Some(time)) = (clock(&query.window), time) {
            let reached = time.saturating_sub_unsigned(*lateness_ms);
            watermark = Some(watermark.map_or(reached, |before: i64| before.max(reached)));
        }
    }
    let emits = match &query.window {
        Window::None => vec![watched.emit(query, None, None, |_| true)],
        Window::Time { every_ms, take, clock: WindowClock::Arrival } => {
            watched.by_arrival(query, life, *every_ms as i64, *take)
        }
        Window::Time { every_ms, take, clock: WindowClock::Event { .. } } => {
            watched.by_event_time(query, *every_ms as i64, *take)
        }
        Window::Records { every, take } => watched.by_record(query, *every as usize, *take),
        Window::Session { gap_ms, .. } => watched.sessions(query, life, *gap_ms as i64),
    };
    Ok(Emits { emits, late: watched.late })
}

fn clock(window: &Window) -> Option<&WindowClock> {
    match window {
        Window::Time { clock, .. } | Window::Session { clock, .. } => Some(clock),
        Window::None | Window::Records { .. } => None,
    }
}

/// A row that WHERE keeps, its time, and the watermark of the events before it.
struct Seen<'a> {
    kept: Kept<'a>,
    arrival: i64,
    time: i64,
    watermark: Option<i64>,
}

impl Seen<'_> {
    /// Whether a window with this end was open when the row came.
    fn is_before(&self, end: i64) -> bool {
        self.watermark.is_none_or(|watermark| end > watermark)
    }
}

struct Watched<'a> {
    rows: Vec<Seen<'a>>,
    late: u64,
}

impl<'a> Watched<'a> {
    fn emit(
        &self,
        query: &Query,
        window: Option<(i64, i64)>,
        shown: Option<(i64, i64)>,
        holds: impl Fn(&Seen<'a>) -> bool,
    ) -> Emitted {
        let rows: Vec<Kept<'a>> =
            self.rows.iter().filter(|seen| holds(seen)).map(|seen| seen.kept.clone()).collect();
        Emitted { window: shown, answer: result(query, &[Part { rows, window }]) }
    }

    fn by_arrival(&self, query: &Query, life: Life, every: i64, take: Take) -> Vec<Emitted> {
        let mut emits = Vec::new();
        for number in 0.. {
            let begin = life.start + number * every;
            let close = begin + every;
            let (from, to) = span(take, begin, close, life.start);
            let is_last = close > life.end;
            // What a window over ALL shows again is nothing new.
            let new = if take == Take::All { begin..close } else { from..to };
            let there = self.rows.iter().any(|seen| new.contains(&seen.time));
            let follows_a_window = number > 0 && life.end <= begin;
            if there || (life.emits_empty && !(is_last && follows_a_window)) {
                let end = if is_last { to.min(life.end.max(from)) } else { to };
                let bounds = Some((from, end));
                emits.push(self.emit(query, bounds, bounds, |seen| (from..to).contains(&seen.time)));
            }
            if is_last {
                break;
            }
        }
        emits
    }

    fn by_event_time(&mut self, query: &Query, every: i64, take: Take) -> Vec<Emitted> {
        let (Some(least), Some(greatest)) =
            (self.rows.iter().map(|seen| seen.time).min(), self.rows.iter().map(|seen| seen.time).max())
        else {
            return Vec::new();
        };
        let reach = if let Take::Last(last) = take { last as i64 } else { every };
        let mut emits = Vec::new();
        let mut is_held = vec![false; self.rows.len()];
        let mut has_window = vec![false; self.rows.len()];
        let mut begin = least.div_euclid(every) * every;
        while begin + every - reach <= greatest {
            let close = begin + every;
            let (from, to) = span(take, begin, close, i64::MIN);
            let mut there = false;
            for (place, seen) in self.rows.iter().enumerate() {
                if (from..to).contains(&seen.time) {
                    has_window[place] = true;
                    if seen.is_before(to) {
                        is_held[place] = true;
                        there = true;
                    }
                }
            }
            if there {
                let bounds = Some((from, to));
                emits.push(self.emit(query, bounds, bounds, |seen| {
                    (from..to).contains(&seen.time) && seen.is_before(to)
                }));
            }
            begin = close;
        }
        self.late = has_window.iter().zip(&is_held).filter(|(has, held)| **has && !**held).count() as u64;
        emits
    }

    fn by_record(&self, query: &Query, every: usize, take: Take) -> Vec<Emitted> {
        let mut emits = Vec::new();
        let mut done = 0;
        while done < self.rows.len() {
            let end = (done + every).min(self.rows.len());
            let places = match take {
                Take::First(first) => done..end.min(done + first as usize),
                Take::Last(last) => end.saturating_sub(last as usize)..end,
                Take::All => 0..end,
            };
            let rows = &self.rows[places];
            let shown = rows.first().zip(rows.last()).map(|(first, last)| (first.arrival, last.arrival));
            let part = Part { rows: rows.iter().map(|seen| seen.kept.clone()).collect(), window: None };
            emits.push(Emitted { window: shown, answer: result(query, &[part]) });
            done += every;
        }
        emits
    }

    /// Each group's rows in runs without a gap; those that end at one instant are one emit.
    fn sessions(&mut self, query: &Query, life: Life, gap: i64) -> Vec<Emitted> {
        let mut groups: BTreeMap<Key, Vec<Seen<'a>>> = BTreeMap::new();
        for seen in std::mem::take(&mut self.rows) {
            let key = match &query.body {
                Body::Group(group) => key_of(group, &seen.kept),
                Body::Raw(_) => Key(Vec::new()),
            };
            groups.entry(key).or_default().push(seen);
        }
        let mut by_end: BTreeMap<i64, Vec<Part<'a>>> = BTreeMap::new();
        let _ = life;
        for (_, rows) in groups {
            let mut runs: Vec<Run<'a>> = Vec::new();
            for seen in rows {
                if !seen.is_before(seen.time + gap) {
                    self.late += 1;
                    continue;
                }
                let mut run = Run { first: seen.time, end: seen.time + gap, rows: Vec::new() };
                let mut apart = Vec::new();
                // Those that it meets and that no watermark has closed become one with it.
                for other in std::mem::take(&mut runs) {
                    if other.first < run.end && run.first < other.end && seen.is_before(other.end) {
                        run.first = run.first.min(other.first);
                        run.end = run.end.max(other.end);
                        run.rows.extend(other.rows);
                    } else {
                        apart.push(other);
                    }
                }
                run.rows.push(seen.kept);
                runs = apart;
                runs.push(run);
            }
            for run in runs {
                by_end
                    .entry(run.end)
                    .or_default()
                    .push(Part { rows: run.rows, window: Some((run.first, run.end)) });
            }
        }
        by_end
            .into_values()
            .map(|parts| Emitted {
                window: parts.iter().filter_map(|part| part.window).min(),
                answer: result(query, &parts),
            })
            .collect()
    }
}

struct Run<'a> {
    first: i64,
    end: i64,
    rows: Vec<Kept<'a>>,
}

/// What a window holds that is emitted at `close`, `begin` being when the one before was; nothing before `earliest`.
fn span(take: Take, begin: i64, close: i64, earliest: i64) -> (i64, i64) {
    match take {
        Take::First(first) => (begin, begin + first as i64),
        Take::Last(last) => ((close - last as i64).max(earliest), close),
        Take::All => (earliest, close),
    }
}
