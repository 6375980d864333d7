//! The due times of a job: the next by its schedule, the missed ones, and a clock that is wrong for a while.

use swiftwater_event::Millis;

use super::JobEntry;

/// A clock that is back by more than this is wrong, or was. By less, what was due is not due again.
const CLOCK_BACK_MAX: Millis = 24 * 60 * 60 * 1_000;

impl JobEntry {
    /// The next run by its schedule; none while it is disabled. A time in the past is due now.
    pub fn next_due(&self) -> Option<Millis> {
        self.due.filter(|_| self.is_enabled)
    }

    /// The last time that is due by now, which stands for all before it.
    pub fn last_due(&self, now: Millis) -> Option<Millis> {
        let due = self.next_due().filter(|due| *due <= now)?;
        Some(self.schedule.up_to(now).map_or(due, |last| last.max(due)))
    }

    /// Takes note of the present time. If it is long before the covered times, the times from now on are due after all. Once it
    /// is not any more, none of the covered times is due again.
    pub(crate) fn see_time(&mut self, now: Millis) {
        let is_long_before = |covered: Millis| covered > now.saturating_add(CLOCK_BACK_MAX);
        let meanwhile = match self.covered_meanwhile {
            _ if !is_long_before(self.covered) => None,
            Some(meanwhile) if !is_long_before(meanwhile) => return,
            _ => Some(now),
        };
        if meanwhile != self.covered_meanwhile {
            self.covered_meanwhile = meanwhile;
            self.find_due();
        }
    }

    pub(super) fn cover(&mut self, at: Millis) {
        let covered = self.covered_meanwhile.as_mut().unwrap_or(&mut self.covered);
        *covered = (*covered).max(at);
        self.find_due();
    }

    pub(super) fn find_due(&mut self) {
        self.due = self.schedule.after(self.covered_meanwhile.unwrap_or(self.covered));
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::ddl::JobChange;

    use super::*;
    use crate::kind::job::fixture::{HOUR, hourly, run};

    #[test]
    fn one_run_stands_for_all_that_was_missed() {
        let mut job = hourly();
        assert_eq!((job.next_due(), job.last_due(HOUR - 1)), (Some(HOUR), None));
        assert_eq!(job.last_due(HOUR), Some(HOUR));
        assert_eq!(job.last_due(5 * HOUR + 7), Some(5 * HOUR));
        run(&mut job, Some(5 * HOUR), 5 * HOUR + 7);
        assert_eq!((job.next_due(), job.last_due(6 * HOUR - 1)), (Some(6 * HOUR), None));
        // A run on request stands for no time of the schedule.
        run(&mut job, None, 6 * HOUR + 1);
        assert_eq!(job.last_due(6 * HOUR + 1), Some(6 * HOUR));
        // A clock that is set back makes nothing due again.
        assert_eq!(job.last_due(HOUR), None);
        assert!(job.alter(&JobChange::Disable, 0).unwrap());
        assert_eq!(job.last_due(9 * HOUR), None);
        assert!(job.alter(&JobChange::Enable, 9 * HOUR).unwrap());
        assert_eq!(job.next_due(), Some(10 * HOUR));
    }

    #[test]
    fn time_that_was_wrong_by_years_makes_nothing_wait_for_years() {
        let mut job = hourly();
        let (then, now) = (1_000_000 * HOUR, 100 * HOUR);
        run(&mut job, Some(then), then);
        assert_eq!(job.next_due(), Some(then + HOUR));
        // As the clock is seen to be right again, or as the next run stands in the log.
        let mut seen = job.clone();
        seen.see_time(now + 1);
        assert_eq!((seen.last_due(now + 1), seen.next_due()), (None, Some(now + HOUR)));
        run(&mut job, Some(now), now + 1);
        assert_eq!(job.next_due(), Some(now + HOUR));
        let again = JobEntry::from_snapshot(&job.snapshot(), job.create.clone()).unwrap();
        assert_eq!(again, job);
        // Times missed since are made up for, as usual.
        assert_eq!(job.last_due(now + 9 * HOUR + 1), Some(now + 9 * HOUR));
    }

    #[test]
    fn time_that_is_wrong_by_years_for_a_while_makes_nothing_due_again() {
        let mut job = hourly();
        let now = 1_000_000 * HOUR;
        run(&mut job, Some(now), now);
        let before = job.clone();
        job.see_time(HOUR / 2);
        assert_eq!(job.last_due(2 * HOUR + 1), Some(2 * HOUR));
        run(&mut job, Some(2 * HOUR), 2 * HOUR + 1);
        job.see_time(now + 1);
        assert_eq!((job.last_due(now + 1), job.next_due()), (None, Some(now + HOUR)));
        assert_eq!((job.covered, job.covered_meanwhile), (before.covered, None));
    }
}
