//! The test clock: it stops until a test moves it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use swiftwater_event::{Clock, Millis};

/// A clock for tests. It is shared by `Arc`; each holder can move it.
///
/// ```
/// use swiftwater_event::Clock;
/// use swiftwater_testkit::TestClock;
///
/// let clock = TestClock::at(1_000);
/// clock.advance(std::time::Duration::from_millis(250));
/// assert_eq!(clock.now(), 1_250);
/// ```
#[derive(Debug)]
pub struct TestClock {
    start_micros: i64,
    now_micros: AtomicI64,
    /// The difference of the time of day from that.
    jumped_micros: AtomicI64,
}

impl TestClock {
    /// A clock that stands at this many milliseconds since 1970; its monotonic time stands at 0.
    pub fn at(start: Millis) -> TestClock {
        let start_micros = start * 1000;
        TestClock { start_micros, now_micros: AtomicI64::new(start_micros), jumped_micros: AtomicI64::new(0) }
    }

    /// Moves the clock on; what is below a microsecond is cut off.
    pub fn advance(&self, by: Duration) {
        self.now_micros.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
    }

    /// Moves the clock on by milliseconds.
    pub fn advance_ms(&self, by: u64) {
        self.advance(Duration::from_millis(by));
    }

    /// Moves the time of day by milliseconds, back too; monotonic time is unchanged.
    pub fn jump_ms(&self, by: i64) {
        self.jumped_micros.fetch_add(by * 1000, Ordering::SeqCst);
    }

    /// Sets the clock, to an earlier time too: as machines' clocks are. Its monotonic time does not go below 0.
    pub fn set(&self, now: Millis) {
        self.now_micros.store(now * 1000, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_micros(&self) -> i64 {
        self.now_micros.load(Ordering::SeqCst) + self.jumped_micros.load(Ordering::SeqCst)
    }

    fn monotonic_nanos(&self) -> u64 {
        let elapsed_micros = self.now_micros.load(Ordering::SeqCst).saturating_sub(self.start_micros);
        u64::try_from(elapsed_micros).unwrap_or(0).saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn clock_stands_until_moved() {
        let clock = TestClock::at(1_700_000_000_000);
        assert_eq!((clock.now(), clock.monotonic_nanos()), (1_700_000_000_000, 0));
        clock.advance_ms(5);
        clock.advance(Duration::from_micros(7));
        assert_eq!(clock.now_micros(), 1_700_000_000_005_007);
        assert_eq!(clock.monotonic_nanos(), 5_007_000);
    }

    #[test]
    fn clock_is_shared_between_threads() {
        let clock = Arc::new(TestClock::at(0));
        let other = Arc::clone(&clock);
        let shared: Arc<dyn Clock> = clock;
        let mover = std::thread::spawn(move || other.advance_ms(1));
        assert!(mover.join().is_ok());
        assert_eq!(shared.now(), 1);
    }

    #[test]
    fn clock_set_back_does_not_turn_monotonic_time_back_below_zero() {
        let clock = TestClock::at(10);
        clock.set(3);
        assert_eq!((clock.now(), clock.monotonic_nanos()), (3, 0));
    }
}
