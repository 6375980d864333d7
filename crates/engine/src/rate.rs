//! How often a query may answer.
//!
//! Emits are counted over intervals at least as long as the setting says: an interval ends with the first look after
//! that time. More in it than its length allows ends the query, or is dropped. A burst is told at the interval's end though nothing
//! comes after it: until then the query is on the agenda.

use swiftwater_event::Millis;
use swiftwater_lang::Dialect;

use crate::{EngineConfig, FastQuery};

/// The emits of one query since its last interval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EmitRate {
    /// 0: no limit.
    max: u64,
    interval_ms: u64,
    since: Millis,
    count: u64,
    setting: &'static str,
    /// What is too much is dropped.
    drops: bool,
}

impl EmitRate {
    /// The rate of a query that begins now.
    pub(crate) fn new(config: &EngineConfig, dialect: Dialect, now: Millis) -> EmitRate {
        let (max, setting) = match dialect {
            Dialect::Native => (config.query_emits_max, "engine.query_emits_max"),
            Dialect::Bullet => (config.bullet_emits_max, "engine.bullet_emits_max"),
        };
        let drops = dialect == Dialect::Native && config.fast_query == FastQuery::Drop;
        EmitRate { max, interval_ms: config.emits_interval_ms.max(1), since: now, count: 0, setting, drops }
    }

    /// Whether one emit more may be given; it is counted. Always so where too many end the query.
    pub(crate) fn admits(&mut self, now: Millis) -> bool {
        if !self.drops || self.max == 0 {
            return true;
        }
        if now.saturating_sub(self.since) >= i64::try_from(self.interval_ms).unwrap_or(i64::MAX) {
            (self.since, self.count) = (now, 0);
        }
        self.count += 1;
        self.count <= self.max
    }

    /// Counts emits that were given.
    pub(crate) fn add(&mut self, emits: u64) {
        if self.drops {
            return;
        }
        self.count = self.count.saturating_add(emits);
    }

    /// Ends the interval if it is long enough; says what is wrong if more was emitted than may be.
    pub(crate) fn check(&mut self, now: Millis) -> Option<String> {
        let passed_ms = u64::try_from(now.saturating_sub(self.since)).unwrap_or(0);
        if self.drops || self.max == 0 || passed_ms < self.interval_ms {
            return None;
        }
        let rate = self.count as f64 / passed_ms as f64 * 1000.0;
        let limit = self.max as f64 / self.interval_ms as f64 * 1000.0;
        (self.since, self.count) = (now, 0);
        (rate > limit).then(|| {
            format!("the query answers {rate:.2} times a second, limit is {limit:.2} (`{}`)", self.setting)
        })
    }

    /// When it must be looked at though nothing more is emitted.
    pub(crate) fn due(&self) -> Option<Millis> {
        (!self.drops && self.max > 0 && self.count > self.max)
            .then(|| self.since.saturating_add_unsigned(self.interval_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(max: u64) -> EmitRate {
        let config = EngineConfig { query_emits_max: max, emits_interval_ms: 100, ..EngineConfig::default() };
        EmitRate::new(&config, Dialect::Native, 1000)
    }

    #[test]
    fn burst_is_told_when_the_interval_is_over() {
        let mut rate = rate(2);
        rate.add(3);
        assert_eq!(rate.check(1099), None);
        assert_eq!(rate.due(), Some(1100));
        let told = rate.check(1100).unwrap();
        assert_eq!(told, "the query answers 30.00 times a second, limit is 20.00 (`engine.query_emits_max`)");
    }

    #[test]
    fn as_many_as_allowed_are_let_pass_in_every_interval() {
        let mut rate = rate(2);
        for interval in 1..10 {
            rate.add(2);
            assert_eq!(rate.due(), None);
            assert_eq!(rate.check(1000 + interval * 100), None);
        }
        // A long silence makes room for no more than its own length.
        rate.add(5);
        assert_eq!(rate.check(2200), None);
        rate.add(3);
        assert!(rate.check(2300).is_some());
    }

    #[test]
    fn without_a_limit_nothing_is_too_much() {
        let mut rate = rate(0);
        rate.add(u64::MAX);
        assert_eq!((rate.due(), rate.check(5000)), (None, None));
    }
}
