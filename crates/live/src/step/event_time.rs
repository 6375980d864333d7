//! The event times of a batch: read once for all queries that use the same expression, and how far event time has come.
//!
//! A window by event time closes when the watermark of the events *before* an event has passed the window's end,
//! whatever batches the events came in. A batch in which that may happen is divided into generations.
//!
//! `IDLE AFTER` advances event time while a stream has no events. If an event arrives that long after the event before
//! it, event time first advances to its arrival ([`MaxEventTime::advanced_to`]). The rule depends on arrivals alone, so a replay
//! gives the same result. An idle tick, a batch without events, applies the rule before the next event arrives. It is
//! idempotent, and no later event arrives before it.

use bumpalo::Bump;
use swiftwater_event::{Decoded, Millis, Value, WantId};

use crate::{
    expr::{EvalCounts, Rows, Scratch, parse_rfc3339_micros},
    standing::EventTime,
};

/// The time of an event that has none, or before the first event: before all others.
pub const NO_TIME: Millis = Millis::MIN;

/// The latest event time, and the arrival of the event that has it. The watermark is this time less the lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxEventTime {
    /// The latest event time; [`NO_TIME`] before the first event.
    pub time: Millis,
    /// The arrival of that event.
    pub arrival: Millis,
}

impl MaxEventTime {
    /// The peak before the first event.
    pub const NONE: MaxEventTime = MaxEventTime { time: NO_TIME, arrival: NO_TIME };

    /// The later of two peaks; `self` if their times are equal.
    #[must_use]
    pub fn max(self, other: MaxEventTime) -> MaxEventTime {
        if other.time > self.time { other } else { self }
    }

    /// The peak after an idle period that lasts until `arrival`: event time advances as the clock does. The result is that of an
    /// event with this arrival whose time has the same distance from its arrival as the peak's.
    #[must_use]
    pub fn advanced_to(self, arrival: Millis) -> MaxEventTime {
        if self.time == NO_TIME || self.arrival == NO_TIME || arrival <= self.arrival {
            return self;
        }
        // Event times end there.
        let time = self.time.saturating_add(arrival.saturating_sub(self.arrival));
        MaxEventTime { time: time.min(FURTHEST).max(self.time), arrival }
    }

    /// The arrival at which an idle stream reaches `time`; none before the first event, or if it never does.
    pub fn idle_arrival_of(self, time: Millis) -> Option<Millis> {
        if self.time == NO_TIME || self.arrival == NO_TIME || time > FURTHEST {
            return None;
        }
        self.arrival.checked_add(time.checked_sub(self.time)?.max(0))
    }
}

/// The times of a batch's events.
#[derive(Debug)]
pub(crate) struct EventTimes {
    /// Each event's; [`NO_TIME`] where it has none, or is too far ahead of its arrival.
    pub(crate) times: Vec<Millis>,
    /// The rows of events whose times are too far ahead of their arrival, in ascending order.
    pub(crate) ahead: Vec<u32>,
    /// The latest of those before each event, and of all.
    pub(crate) peaks: Vec<MaxEventTime>,
    pub(crate) latest: MaxEventTime,
}

impl EventTimes {
    pub(crate) fn of(
        time: &EventTime,
        decoded: &Decoded,
        bindings: &[WantId],
        (now, arrival): (Millis, &dyn Fn(u32) -> Millis),
        scratch: &mut Scratch,
    ) -> EventTimes {
        let arena = Bump::new();
        let rows: Vec<u32> = (0..decoded.rows as u32).collect();
        let input = Rows::Events { decoded, bindings, rows: &rows, now };
        let mut values = Vec::new();
        // An event without a time is told of where it is missed: in the queries that matched it.
        time.program.evaluate(&input, scratch, &arena, &mut EvalCounts::default(), &mut values);
        let mut times: Vec<Millis> = values.iter().map(millis).collect();
        let mut ahead = Vec::new();
        if let Some(most) = time.max_ahead_ms {
            for (row, time) in (0..).zip(&mut times) {
                if *time > arrival(row).saturating_add_unsigned(most) {
                    *time = NO_TIME;
                    ahead.push(row);
                }
            }
        }
        let mut latest = MaxEventTime::NONE;
        let peaks = (0..)
            .zip(&times)
            .map(|(row, &time)| {
                let before = latest;
                if time > latest.time {
                    latest = MaxEventTime { time, arrival: arrival(row) };
                }
                before
            })
            .collect();
        EventTimes { times, ahead, peaks, latest }
    }

    /// True if an event's time is too far ahead of its arrival.
    pub(crate) fn is_ahead(&self, row: u32) -> bool {
        self.ahead.binary_search(&row).is_ok()
    }
}

/// The furthest times from 1970, some 270,000 years: as ECMAScript has it. Windows around them have ends that can be told.
const FURTHEST: Millis = 8_640_000_000_000_000;

/// A time, as milliseconds since 1970.
fn millis(value: &Value<'_>) -> Millis {
    let ms = match *value {
        Value::Timestamp(micros) => micros.div_euclid(1000),
        Value::Integer(ms) => i64::from(ms),
        Value::Long(ms) => ms,
        Value::Float(ms) => whole(f64::from(ms)),
        Value::Double(ms) => whole(ms),
        Value::String(text) => parse_rfc3339_micros(text).map_or(NO_TIME, |micros| micros.div_euclid(1000)),
        _ => NO_TIME,
    };
    known_time(ms)
}

/// A time in milliseconds since 1970 as queries have it: [`NO_TIME`] for one that is too far from 1970.
pub fn known_time(ms: Millis) -> Millis {
    if (-FURTHEST..=FURTHEST).contains(&ms) { ms } else { NO_TIME }
}

/// The last whole millisecond that is not after.
fn whole(ms: f64) -> Millis {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if (-BEYOND..BEYOND).contains(&ms) { ms.floor() as i64 } else { NO_TIME }
}
