//! Limits the rate at which a query emits results.
//!
//! Emits are counted over intervals at least as long as the setting: an interval ends with the first check after that time.
//! A query that exceeds the rate of an interval is ended, or its further emits are dropped. The end of the interval reports
//! a burst even if no emit follows it; until then the query is on the agenda.
//!
//! In Bullet's dialect, the outputs of matching are counted separately in the same way. These are each matched event for
//! windows by record, and the contents of each window for windows by time. Bullet ends these intervals at clock checks that
//! this engine does not make for queries without output. The last checks are therefore remembered, and applied when
//! something is counted.

use std::collections::VecDeque;

use swiftwater_event::Millis;
use swiftwater_lang::Dialect;

use crate::lock_order::OrderedMutex;
use crate::{EngineConfig, FastQuery};

/// Number of readings of the clock that are remembered.
const LOOKS_MAX: usize = 64;

/// The last looks at the clock, earliest first.
#[derive(Debug, Default)]
pub(crate) struct ClockSamples(OrderedMutex<VecDeque<Millis>>);

/// The emits of one query since its last interval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EmitRate {
    /// 0: no limit.
    max: u64,
    interval_ms: u64,
    emits: Interval,
    /// The parts that matching passes on, in Bullet.
    parts: Interval,
    setting: &'static str,
    /// Emits beyond the limit are dropped.
    drops: bool,
    /// The number of dropped emits.
    dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Interval {
    since: Millis,
    count: u64,
}

impl ClockSamples {
    /// The clock is looked at.
    pub(crate) fn add(&self, now: Millis) {
        let mut looks = self.0.lock();
        if looks.back().is_none_or(|last| *last < now) {
            if looks.len() == LOOKS_MAX {
                looks.pop_front();
            }
            looks.push_back(now);
        }
    }
}

impl Interval {
    /// Ends if it is long enough; tells the rate in it, by the second.
    fn end(&mut self, now: Millis, interval_ms: u64) -> Option<f64> {
        let passed_ms = u64::try_from(now.saturating_sub(self.since)).unwrap_or(0);
        if passed_ms < interval_ms {
            return None;
        }
        let rate = self.count as f64 / passed_ms as f64 * 1000.0;
        *self = Interval { since: now, count: 0 };
        Some(rate)
    }
}

impl EmitRate {
    /// The rate of a query that begins now.
    pub(crate) fn new(config: &EngineConfig, dialect: Dialect, now: Millis) -> EmitRate {
        let (max, setting) = match dialect {
            Dialect::Native => (config.query_emits_max, "engine.query_emits_max"),
            Dialect::Bullet => (config.bullet_emits_max, "engine.bullet_emits_max"),
        };
        let drops = dialect == Dialect::Native && config.fast_query == FastQuery::Drop;
        let interval_ms = config.emits_interval_ms.max(1);
        let begins = Interval { since: now, count: 0 };
        EmitRate { max, interval_ms, emits: begins, parts: begins, setting, drops, dropped: 0 }
    }

    /// True if one emit more may be given; it is counted. Always so where too many end the query.
    pub(crate) fn admits(&mut self, now: Millis) -> bool {
        if !self.drops || self.max == 0 {
            return true;
        }
        self.emits.end(now, self.interval_ms);
        self.emits.count += 1;
        let is_admitted = self.emits.count <= self.max;
        self.dropped += u64::from(!is_admitted);
        is_admitted
    }

    /// The report of dropped emits to a reader.
    pub(crate) fn warning(&self) -> Option<String> {
        let EmitRate { max, interval_ms, dropped, setting, .. } = self;
        (*dropped > 0).then(|| {
            format!(
                "{dropped} emits were dropped: the limit is {max} in {interval_ms} ms (`{setting}`). Filter more \
                 events out, or use larger windows"
            )
        })
    }

    /// Counts emits that were given.
    pub(crate) fn add(&mut self, emits: u64) {
        if self.drops {
            return;
        }
        self.emits.count = self.emits.count.saturating_add(emits);
    }

    /// Counts what matching handed on.
    pub(crate) fn add_parts(&mut self, parts: u64) {
        self.parts.count = self.parts.count.saturating_add(parts);
    }

    /// Ends the intervals that were long enough at a look before `until`. In none of them was too much: then the query
    /// would have been due.
    pub(crate) fn catch_up(&mut self, looks: &ClockSamples, until: Millis) {
        if self.max == 0 {
            return;
        }
        let looks = looks.0.lock();
        for &look in looks.iter().filter(|look| **look < until) {
            for interval in [&mut self.emits, &mut self.parts].into_iter().filter(|one| one.count <= self.max)
            {
                interval.end(look, self.interval_ms);
            }
        }
    }

    /// Ends the intervals that are long enough; returns the fault if the rate was exceeded.
    pub(crate) fn check(&mut self, now: Millis) -> Option<String> {
        if self.drops || self.max == 0 {
            return None;
        }
        let limit = self.max as f64 / self.interval_ms as f64 * 1000.0;
        let rates = [self.parts.end(now, self.interval_ms), self.emits.end(now, self.interval_ms)];
        let rate = rates.into_iter().flatten().find(|rate| *rate > limit)?;
        Some(format!("the query emits {rate:.2} times a second, limit is {limit:.2} (`{}`)", self.setting))
    }

    /// The time of its next check if nothing more is emitted.
    pub(crate) fn due(&self) -> Option<Millis> {
        if self.drops || self.max == 0 {
            return None;
        }
        let intervals = [self.emits, self.parts].into_iter().filter(|interval| interval.count > self.max);
        intervals.map(|interval| interval.since.saturating_add_unsigned(self.interval_ms)).min()
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
        assert_eq!(told, "the query emits 30.00 times a second, limit is 20.00 (`engine.query_emits_max`)");
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
    fn intervals_end_with_looks_though_nothing_was_told_then() {
        let looks = ClockSamples::default();
        [1100, 1150, 1200, 1200, 1199].into_iter().for_each(|look| looks.add(look));
        let mut rate = rate(2);
        rate.catch_up(&looks, 1150);
        assert_eq!(rate.emits.since, 1100);
        rate.add_parts(3);
        rate.catch_up(&looks, 1300);
        assert_eq!(rate.due(), Some(1200), "what is too much is left for the look that tells it");
        assert_eq!(rate.emits.since, 1200);
        assert!(rate.check(1200).is_some());
    }

    #[test]
    fn without_a_limit_nothing_is_too_much() {
        let mut rate = rate(0);
        rate.add(u64::MAX);
        assert_eq!((rate.due(), rate.check(5000)), (None, None));
    }
}
