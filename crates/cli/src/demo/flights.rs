//! Replays the 336,776 flights that left New York City's airports in 2013, in the order they happened, at any speed,
//! endlessly. Each is one nested event with its airline, airports, plane and weather.
//!
//! The data is embedded (`examples/flights`, 1.7 MB). Joins are precomputed pieces of JSON that are concatenated when events
//! are taken, so that an event costs about one copy of its bytes. Knows no clock: the caller passes the time.

mod fragments;
mod pack;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use self::fragments::Fragments;
use self::pack::{MISSING, Row, YEAR_START_MINUTES};
use super::DemoError;
use super::text::{self, TimeWriter};

const MINUTE_MS: i64 = 60_000;
/// A lap of the replay is the year, so that each lap begins at the same time of day: the last flight of the year left
/// 291 minutes before the first one of the next lap.
const LAP_MS: u64 = 365 * 86_400_000;

/// The factor by which the flights leave faster than in 2013.
///
/// The default is 60,000, a thousand minutes a second: a day takes 1.44 s and the year 8 min 46 s, at 641 events a
/// second on average. The longest time without a departure, the night of 3 November, is 381 minutes, at this speed
/// 0.381 s. So every second of the stream has events, and whatever is asked with `TUMBLING(1000, TIME)` has an answer
/// that is not empty when its first window closes, one second after it was asked. This holds for any speed above 381
/// × 60 = 22,860; at twice and a half that, most of every second is day.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Speed(f64);

impl Speed {
    /// All events are due at once, and carry the time they are taken at.
    pub(crate) const MAX: Speed = Speed(f64::INFINITY);
    /// The speed of a demo by default.
    pub(crate) const DEFAULT: Speed = Speed(60_000.0);

    /// The factor; infinite for the highest speed.
    pub(crate) fn times(self) -> f64 {
        self.0
    }
}

impl Default for Speed {
    fn default() -> Speed {
        Speed::DEFAULT
    }
}

/// Reads `600`, `600x`, `0.5` or `max`.
impl FromStr for Speed {
    type Err = DemoError;

    fn from_str(text: &str) -> Result<Speed, DemoError> {
        if text.eq_ignore_ascii_case("max") {
            return Ok(Speed::MAX);
        }
        let times = text.strip_suffix(['x', 'X']).unwrap_or(text).parse().ok();
        let times = times.filter(|times: &f64| times.is_finite() && *times > 0.0);
        times.map(Speed).ok_or_else(|| DemoError::Speed { text: text.to_owned() })
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Speed::MAX { f.write_str("max") } else { write!(f, "{}x", self.0) }
    }
}

/// The flights of 2013 in the order they happened. Cheap to clone; about 15 MB.
#[derive(Clone)]
pub(crate) struct Flights {
    year: Arc<Year>,
}

struct Year {
    rows: Vec<Row>,
    fragments: Fragments,
}

impl Flights {
    /// Flights that left in a second of 2013, on average.
    pub(crate) const PER_SECOND: f64 = 336_776.0 / (LAP_MS / 1000) as f64;

    /// Unpacks the embedded data, which takes some tens of milliseconds.
    pub(crate) fn open() -> Result<Flights, DemoError> {
        let bytes = pack::decompress()?;
        let mut pack = pack::read(&bytes)?;
        if pack.rows.is_empty() {
            return Err(DemoError::Malformed { what: "no flights" });
        }
        // Stable: flights of one minute keep the pack's order, so that every replay is the same.
        pack.rows.sort_by_cached_key(Row::happened);
        let fragments = Fragments::new(&pack)?;
        Ok(Flights { year: Arc::new(Year { rows: pack.rows, fragments }) })
    }

    /// The number of flights, and so of events in a lap of a replay. Never 0.
    pub(crate) fn count(&self) -> usize {
        self.year.rows.len()
    }

    /// Begins a replay whose first event is at `start_ms` (since 1970-01-01T00:00:00Z), and in which the others follow
    /// at the gaps they had, divided by the speed.
    pub(crate) fn replay(&self, start_ms: i64, speed: Speed) -> Replay {
        let flights = self.clone();
        let (moved, original) = (TimeWriter::new(), TimeWriter::new());
        Replay { flights, start_ms, speed, lap: 0, next: 0, moved, original }
    }
}

/// A replay of the flights, and how far it has come.
#[derive(Clone)]
pub(crate) struct Replay {
    flights: Flights,
    start_ms: i64,
    speed: Speed,
    lap: u64,
    next: usize,
    /// The writers of the event's own time, and of the times of 2013.
    moved: TimeWriter,
    original: TimeWriter,
}

impl Replay {
    /// The time at which the next event is due, in milliseconds since 1970-01-01T00:00:00Z. Never before an earlier
    /// answer.
    pub(crate) fn next_due(&self) -> i64 {
        let rows = &self.flights.year.rows;
        let since_first = i64::from(rows[self.next].happened() - rows[0].happened()) * MINUTE_MS;
        // Each time is worked out from the start of the replay, so that rounding never adds up.
        let offset_ms = self.lap as f64 * LAP_MS as f64 + since_first as f64;
        self.start_ms.saturating_add((offset_ms / self.speed.0) as i64)
    }

    /// Appends the events that are due up to and at `now_ms`, a line each, but at most `events_max`; returns their
    /// number.
    ///
    /// An event's `time` is when it was due, however late it is taken; at `Speed::MAX` it is `now_ms`. After the year's
    /// last flight follows its first one.
    pub(crate) fn push_due(&mut self, now_ms: i64, out: &mut Vec<u8>, events_max: usize) -> usize {
        for taken in 0..events_max {
            let due_ms = self.next_due();
            if due_ms > now_ms {
                return taken;
            }
            self.append(if self.speed == Speed::MAX { now_ms } else { due_ms }, out);
            self.next += 1;
            if self.next == self.flights.count() {
                self.next = 0;
                self.lap += 1;
            }
        }
        events_max
    }

    fn append(&mut self, time_ms: i64, out: &mut Vec<u8>) {
        let row = self.flights.year.rows[self.next];
        let known = |value: i16| (value != MISSING).then_some(value);
        out.extend_from_slice(b"{\"time\":");
        self.moved.instant(time_ms, out);
        out.extend_from_slice(b",\"flight\":");
        text::integer(row.flight, out);
        out.push(b',');
        self.flights.year.fragments.append(&row, out);
        out.extend_from_slice(b"\"air_time\":");
        text::integer_or_null(known(row.air_time), out);
        out.extend_from_slice(b",\"dep_delay\":");
        text::integer_or_null(known(row.dep_delay), out);
        out.extend_from_slice(b",\"arr_delay\":");
        text::integer_or_null(known(row.arr_delay), out);

        let in_2013 = |minutes: i32| (YEAR_START_MINUTES + i64::from(minutes)) * MINUTE_MS;
        out.extend_from_slice(b",\"scheduled\":");
        self.original.instant(in_2013(row.scheduled()), out);
        out.extend_from_slice(b",\"departed\":");
        let departed = row.departure_delay().map(|delay| row.scheduled() + delay);
        match departed {
            Some(minutes) => self.original.instant(in_2013(minutes), out),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"local\":{\"date\":\"");
        self.original.date(in_2013(row.departure), out);
        out.extend_from_slice(b"\",\"sched_dep\":");
        clock(Some(row.departure), out);
        out.extend_from_slice(b",\"dep\":");
        clock(row.departure_delay().map(|delay| row.departure + delay), out);
        out.extend_from_slice(b",\"sched_arr\":");
        clock(Some(row.scheduled_arrival()), out);
        out.extend_from_slice(b",\"arr\":");
        clock(row.arrival(), out);
        let cancelled = row.dep_delay == MISSING;
        let diverted = !cancelled && row.arr_delay == MISSING;
        out.extend_from_slice(if cancelled { b"},\"cancelled\":true" } else { b"},\"cancelled\":false" });
        out.extend_from_slice(if diverted { b",\"diverted\":true}\n" } else { b",\"diverted\":false}\n" });
    }
}

/// Appends `"05:15"` for a minute of any day, or `null`.
fn clock(minutes: Option<i32>, out: &mut Vec<u8>) {
    let Some(minutes) = minutes else {
        return out.extend_from_slice(b"null");
    };
    let of_day = minutes.rem_euclid(1440) as u32;
    out.push(b'"');
    text::two_digits(of_day / 60, out);
    out.push(b':');
    text::two_digits(of_day % 60, out);
    out.push(b'"');
}
