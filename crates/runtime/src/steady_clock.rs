//! The engine's clock: the machine's clock without its jumps.
//!
//! Arrival times never go back. If the engine followed a clock that is two hours ahead for a moment, no event would get a
//! later arrival for two hours. It therefore follows a jump ahead only when it has lasted for a minute; until then, time
//! follows the monotonic clock. While the machine's clock is behind, the engine's time runs at half speed until the
//! machine's has caught up.

use std::{sync::Arc, time::Duration};

use crate::lock_order::OrderedMutex;
use swiftwater_event::{Clock, Millis};
use swiftwater_live::expr::push_rfc3339;

/// The machine's clock is followed at once up to so far ahead.
const JUMP: Duration = Duration::from_secs(1);

/// Duration of a jump ahead after which it is followed.
const HOLD: Duration = Duration::from_secs(60);

/// Distance behind the last event in the log, at a start, from which on a warning is logged.
const BEHIND_WARNED: Duration = Duration::from_secs(3600);

/// Distance from which on the engine's time does not begin with that event.
const BEHIND_MAX: Duration = Duration::from_secs(86_400);

/// A clock that goes on evenly, whatever the machine's clock does.
pub struct SteadyClock {
    wall: Arc<dyn Clock>,
    state: OrderedMutex<State>,
}

/// The way the engine's time goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockPace {
    /// The clock follows the machine's.
    InStep,
    /// The machine's clock is so far ahead, since the monotonic clock showed this.
    Waits { ahead: i128, since: u64 },
    /// The machine's clock is behind.
    Slow,
}

/// A change of gait, which is worth a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PaceChange {
    Jumped { ahead: i128 },
    Followed { ahead: i128 },
    Slowed { behind: i128 },
    InStep,
}

#[derive(Debug)]
struct State {
    /// The engine's time, in nanoseconds since 1970, when the monotonic clock showed `at`.
    now: i128,
    at: u64,
    gait: ClockPace,
}

impl State {
    /// Advances to the reading `wall` (nanoseconds since 1970) of the machine's clock and `at` of the monotonic one.
    fn step(&mut self, wall: i128, at: u64) -> Option<PaceChange> {
        let jump = JUMP.as_nanos() as i128;
        // Threads may come here in another order than they read the clocks in.
        let elapsed = i128::from(at.checked_sub(self.at)?);
        self.at = at;
        let steady = self.now + elapsed;
        let ahead = wall - steady;
        if ahead > jump {
            self.now = steady;
            return match self.gait {
                ClockPace::Waits { ahead: before, since } if (ahead - before).abs() <= jump => {
                    if u128::from(at.saturating_sub(since)) < HOLD.as_nanos() {
                        return None;
                    }
                    (self.now, self.gait) = (wall, ClockPace::InStep);
                    Some(PaceChange::Followed { ahead })
                }
                gait => {
                    self.gait = ClockPace::Waits { ahead, since: at };
                    (!matches!(gait, ClockPace::Waits { .. })).then_some(PaceChange::Jumped { ahead })
                }
            };
        }
        let slow = self.now + elapsed / 2;
        if wall >= slow {
            let before = std::mem::replace(&mut self.gait, ClockPace::InStep);
            self.now = wall;
            return (before != ClockPace::InStep).then_some(PaceChange::InStep);
        }
        self.now = slow;
        let behind = slow - wall;
        if self.gait == ClockPace::Slow || behind <= jump {
            return None;
        }
        self.gait = ClockPace::Slow;
        Some(PaceChange::Slowed { behind })
    }
}

fn rfc3339(ms: Millis) -> String {
    let mut text = String::new();
    push_rfc3339(ms.saturating_mul(1000), &mut text);
    text
}

fn seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}

impl SteadyClock {
    /// A clock that begins with the machine's.
    pub(crate) fn new(wall: Arc<dyn Clock>) -> SteadyClock {
        let (at, now) = (wall.monotonic_nanos(), i128::from(wall.now_micros()) * 1000);
        SteadyClock { wall, state: OrderedMutex::new(State { now, at, gait: ClockPace::InStep }) }
    }

    /// The machine's clock.
    pub fn wall(&self) -> &Arc<dyn Clock> {
        &self.wall
    }

    /// Continues from `last`, the arrival of the last event before a restart, if that is later than now. If it is more than a
    /// day later, one of the two is wrong for good, and time is the machine's.
    pub fn start_at(&self, last: Millis) {
        let wall = self.wall.now();
        let behind = Duration::from_millis(u64::try_from(last.saturating_sub(wall)).unwrap_or(0));
        let (last_arrival, clock) = (rfc3339(last), rfc3339(wall));
        if behind > BEHIND_MAX {
            tracing::warn!(
                %last_arrival,
                %clock,
                "the machine's clock is more than a day before the last event in the log. The engine uses the clock. In a stream whose last event is later, events get that event's arrival time until the clock passes it. Set the clock if it is wrong now; create these streams again if it was wrong earlier"
            );
            return;
        }
        if behind > BEHIND_WARNED {
            tracing::warn!(
                %last_arrival,
                %clock,
                "the machine's clock is more than an hour before the last event in the log. The engine's time \
                 continues from that event at half speed until the clock reaches it; windows by arrival and \
                 durations take twice as long. Set the clock if it is wrong"
            );
        }
        let mut state = self.state.lock();
        state.now = state.now.max(i128::from(last) * 1_000_000);
    }

    /// The readings of the machine's clock (in nanoseconds since 1970) and the monotonic one at about one instant: a thread that is
    /// put off between the two looks again.
    fn read_clocks(&self) -> (i128, u64) {
        const TOGETHER_NANOS: u64 = 100_000;
        const LOOKS_MAX: u32 = 8;
        let mut at = self.wall.monotonic_nanos();
        for _ in 1..LOOKS_MAX {
            let wall = self.wall.now_micros();
            let after = self.wall.monotonic_nanos();
            if after.saturating_sub(at) <= TOGETHER_NANOS {
                return (i128::from(wall) * 1000, after);
            }
            at = after;
        }
        (i128::from(self.wall.now_micros()) * 1000, at)
    }

    /// The engine's time less the machine's clock, in seconds.
    pub(crate) fn offset_seconds(&self) -> f64 {
        let now = self.now_micros();
        now.saturating_sub(self.wall.now_micros()) as f64 / 1e6
    }
}

impl Clock for SteadyClock {
    fn now_micros(&self) -> i64 {
        // Before the lock, so that a clock that does not answer holds up nobody else.
        let (wall, at) = self.read_clocks();
        let (now, turn) = {
            let mut state = self.state.lock();
            let turn = state.step(wall, at);
            (state.now, turn)
        };
        match turn {
            None => {}
            Some(PaceChange::Jumped { ahead }) => tracing::warn!(
                seconds = seconds(ahead),
                "the machine's clock jumped ahead: the engine's time ignores the jump, and follows if it lasts for a \
                 minute"
            ),
            Some(PaceChange::Followed { ahead }) => {
                tracing::warn!(
                    seconds = seconds(ahead),
                    "the machine's clock stayed ahead: the engine's time follows"
                );
            }
            Some(PaceChange::Slowed { behind }) => tracing::warn!(
                seconds = seconds(behind),
                "the machine's clock is behind the engine's time, which continues at half speed until the clock \
                 reaches it"
            ),
            Some(PaceChange::InStep) => tracing::info!("the engine's time equals the machine's clock again"),
        }
        i64::try_from(now.div_euclid(1000)).unwrap_or(i64::MAX)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.wall.monotonic_nanos()
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_testkit::TestClock;

    use super::*;

    const START: Millis = 1_700_000_000_000;

    fn clocks() -> (Arc<TestClock>, SteadyClock) {
        let clock = Arc::new(TestClock::at(START));
        let steady = SteadyClock::new(Arc::clone(&clock) as Arc<dyn Clock>);
        (clock, steady)
    }

    #[test]
    fn a_clock_that_goes_on_is_followed_to_the_microsecond() {
        let (clock, steady) = clocks();
        for millis in [0, 1, 20, 5_000, 86_400_000] {
            clock.advance_ms(millis);
            assert_eq!(steady.now_micros(), clock.now_micros());
        }
        // As it is slewed.
        clock.jump_ms(-3);
        clock.advance_ms(10);
        assert_eq!(steady.now(), clock.now());
        clock.jump_ms(400);
        assert_eq!(steady.now(), clock.now());
        assert!(steady.offset_seconds().abs() < 1e-9);
    }

    #[test]
    fn a_jump_ahead_and_back_is_passed_over() {
        let (clock, steady) = clocks();
        clock.jump_ms(7_200_000);
        assert_eq!(steady.now(), START);
        clock.advance_ms(30_000);
        assert_eq!(steady.now(), START + 30_000);
        assert_eq!(steady.offset_seconds(), -7_200.0);
        clock.jump_ms(-7_200_000);
        clock.advance_ms(40_000);
        assert_eq!((steady.now(), steady.now()), (START + 70_000, clock.now()));
    }

    #[test]
    fn a_jump_ahead_that_lasts_is_followed() {
        let (clock, steady) = clocks();
        clock.jump_ms(7_200_000);
        assert_eq!(steady.now(), START);
        clock.advance_ms(59_999);
        assert_eq!(steady.now(), START + 59_999);
        // Another jump begins the minute anew.
        clock.jump_ms(5_000);
        assert_eq!(steady.now(), START + 59_999);
        clock.advance_ms(59_999);
        assert_eq!(steady.now(), START + 119_998);
        clock.advance_ms(1);
        assert_eq!((steady.now(), clock.now()), (START + 7_324_999, START + 7_324_999));
        clock.advance_ms(1);
        assert_eq!(steady.now(), clock.now());
    }

    #[test]
    fn time_goes_on_at_half_the_speed_while_the_clock_is_behind() {
        let (clock, steady) = clocks();
        clock.jump_ms(-10_000);
        assert_eq!(steady.now(), START);
        clock.advance_ms(4_000);
        assert_eq!(steady.now(), START + 2_000);
        clock.advance_ms(16_000);
        assert_eq!((steady.now(), clock.now()), (START + 10_000, START + 10_000));
        clock.advance_ms(7);
        assert_eq!(steady.now(), clock.now());
    }

    #[test]
    fn time_goes_on_however_often_it_is_looked_at() {
        let (clock, steady) = clocks();
        clock.jump_ms(-10_000);
        for _ in 0..1_000 {
            clock.advance(Duration::from_micros(1));
            steady.now_micros();
        }
        assert_eq!(steady.now_micros(), START * 1000 + 500);
    }

    #[test]
    fn time_begins_with_the_last_arrival_where_that_is_later() {
        let (clock, steady) = clocks();
        steady.start_at(START - 5);
        assert_eq!(steady.now(), START);
        steady.start_at(START + 5_000);
        clock.advance_ms(100);
        assert_eq!(steady.now(), START + 5_050);
        assert!((steady.offset_seconds() - 4.95).abs() < 1e-9);
        // One of them is wrong for good.
        steady.start_at(START + 86_500_000);
        assert_eq!(steady.now(), START + 5_050);
    }
}
