//! The clock as a parameter: code that needs the time receives a clock from its caller.

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// The source of the time. Only the edges of the system (listeners, the ticker of `engine`) ask; all else gets `now` as
/// data.
pub trait Clock: Send + Sync {
    /// The time now, in microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;
    /// The time now, in milliseconds since 1970-01-01T00:00:00Z.
    fn now(&self) -> Millis {
        self.now_micros().div_euclid(1000)
    }
    /// Nanoseconds since some fixed instant, never going back: for measuring how long something took.
    fn monotonic_nanos(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at 0 now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others are told to use")]
    pub fn new() -> SystemClock {
        SystemClock { start: std::time::Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others are told to use")]
    fn now_micros(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |elapsed| elapsed.as_micros() as i64)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}
