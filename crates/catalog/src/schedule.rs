//! Computes when a job is due: a cron expression of five fields, or `@hourly` and its like, in a time zone.
//!
//! Pure: the caller passes the time. Changes of the clock are treated as in cron. A time that is skipped is due at the first
//! moment after the gap; a time that comes twice is due once. A schedule at intervals (`*` or a step among the hours or
//! minutes) is due as often as time passes.

use std::{fmt, sync::Arc};

use chrono::{DateTime, TimeZone, Utc};
use chrono_tz::Tz;
use croner::{
    Cron,
    errors::CronError,
    parser::{CronParser, Seconds, Year},
};
use swiftwater_event::Millis;

/// A schedule that was read.
#[derive(Clone)]
pub struct Schedule {
    /// The text as given, by which schedules are compared.
    text: Box<str>,
    zone: Tz,
    cron: Arc<Cron>,
}

/// The reason why a schedule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It is no cron expression.
    #[error("the schedule `{schedule}` cannot be read: {why}")]
    Cron {
        /// The text as written.
        schedule: String,
        /// The fault.
        why: String,
    },
    /// Its time never comes.
    #[error("the schedule `{0}` names a time that never occurs")]
    Never(String),
    /// The time zone does not exist.
    #[error("no time zone `{0}`")]
    Zone(String),
}

impl ScheduleError {
    /// The form to write instead.
    pub fn hint(&self) -> &'static str {
        match self {
            ScheduleError::Cron { .. } | ScheduleError::Never(_) => {
                "Write minute, hour, day of month, month, day of week, as in '30 2 * * MON-FRI', or @hourly, @daily, \
                 @weekly, @monthly, @yearly."
            }
            ScheduleError::Zone(_) => "Write a name of the IANA database, like 'Europe/Berlin', or 'UTC'.",
        }
    }
}

impl Schedule {
    /// Reads a schedule; without a zone it is UTC's.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Schedule, ScheduleError> {
        let zone = match zone {
            None => Tz::UTC,
            Some(zone) => zone.parse().map_err(|_| ScheduleError::Zone(zone.to_owned()))?,
        };
        let fault = |why: String| ScheduleError::Cron { schedule: text.to_owned(), why };
        let fields = text.split_whitespace().count();
        let is_named = text.trim_start().starts_with('@');
        if fields != 5 && !is_named {
            return Err(fault(format!("it has {fields} fields, not five")));
        }
        if fields != 1 && is_named {
            return Err(fault("a name is one of @hourly, @daily, @weekly, @monthly, @yearly".to_owned()));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| fault(why(&error)))?;
        let schedule = Schedule { text: text.into(), zone, cron: Arc::new(cron) };
        match schedule.after(0) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::Never(text.to_owned())),
        }
    }

    /// The first time that it is due after a time; `None` where the calendar ends before.
    pub fn after(&self, time: Millis) -> Option<Millis> {
        let next = self.cron.find_next_occurrence(&self.at(time)?, false);
        next.ok().map(|next| next.timestamp_millis())
    }

    /// The last time that it was due, up to a time and with it.
    pub fn up_to(&self, time: Millis) -> Option<Millis> {
        let last = self.cron.find_previous_occurrence(&self.at(time)?, true);
        last.ok().map(|last| last.timestamp_millis())
    }

    /// The time in whole seconds: a schedule is due at the beginning of one.
    fn at(&self, time: Millis) -> Option<DateTime<Tz>> {
        let time = Utc.timestamp_opt(time.div_euclid(1000), 0).single()?;
        Some(time.with_timezone(&self.zone))
    }
}

/// The fault, in the form of our messages.
fn why(error: &CronError) -> String {
    let told = match error {
        CronError::InvalidPattern(why)
        | CronError::IllegalCharacters(why)
        | CronError::ComponentError(why) => why.clone(),
        other => other.to_string(),
    };
    let mut letters = told.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Schedule) -> bool {
        (&self.text, self.zone) == (&other.text, other.zone)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.text, self.zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Millis {
        DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()
    }

    fn text(time: Millis) -> String {
        Utc.timestamp_millis_opt(time).unwrap().format("%FT%TZ").to_string()
    }

    /// The first times after one, each after the one before.
    fn check(schedule: &str, zone: &str, after: &str, expected: &[&str]) {
        let schedule = Schedule::parse(schedule, Some(zone)).unwrap();
        let mut time = millis(after);
        for expected in expected {
            let before = time;
            time = schedule.after(time).unwrap();
            assert_eq!(text(time), *expected, "{schedule:?} after {}", text(before));
            assert_eq!(schedule.up_to(time), Some(time), "{schedule:?}: it is due when it is due");
        }
    }

    #[test]
    fn times_follow_the_fields() {
        check(
            "*/20 8-9 * * MON-FRI",
            "UTC",
            "2026-01-02T09:39:59Z",
            &["2026-01-02T09:40:00Z", "2026-01-05T08:00:00Z", "2026-01-05T08:20:00Z"],
        );
        check("@hourly", "UTC", "2026-01-02T09:00:00Z", &["2026-01-02T10:00:00Z"]);
        check("@daily", "UTC", "2026-12-31T23:59:59.999Z", &["2027-01-01T00:00:00Z"]);
        check("@monthly", "Asia/Kolkata", "2026-01-15T00:00:00Z", &["2026-01-31T18:30:00Z"]);
    }

    #[test]
    fn leap_day_comes_in_leap_years_only() {
        check(
            "0 12 29 2 *",
            "UTC",
            "2096-02-28T00:00:00Z",
            &["2096-02-29T12:00:00Z", "2104-02-29T12:00:00Z", "2108-02-29T12:00:00Z"],
        );
        check("0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", &["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"]);
    }

    #[test]
    fn time_that_the_clocks_leave_out_is_due_after_the_gap() {
        // On 2026-03-29 Berlin goes from 02:00 to 03:00, at 01:00 UTC.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        );
    }

    #[test]
    fn time_that_comes_twice_is_due_once_and_every_hour_is_every_hour() {
        // On 2026-10-25 Berlin goes from 03:00 back to 02:00, at 01:00 UTC.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        );
        check(
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:30:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"],
        );
        check(
            "30 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            &["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"],
        );
    }

    #[test]
    fn last_time_is_found_whatever_was_missed() {
        let schedule = Schedule::parse("0 3 * * *", Some("Europe/Berlin")).unwrap();
        let last = |time: &str| text(schedule.up_to(millis(time)).unwrap());
        assert_eq!(last("2026-06-10T00:59:59.999Z"), "2026-06-09T01:00:00Z");
        assert_eq!(last("2026-06-10T01:00:00Z"), "2026-06-10T01:00:00Z");
        assert_eq!(last("2026-12-31T23:00:00Z"), "2026-12-31T02:00:00Z");
    }

    #[test]
    fn next_time_is_after_and_nothing_is_between() {
        for (schedule, zone) in [
            ("*/7 * * * *", "America/New_York"),
            ("15 1,2,3 * * *", "America/New_York"),
            ("0 0 * * *", "America/Sao_Paulo"),
            ("0 2 * * SUN", "Australia/Lord_Howe"),
        ] {
            let schedule = Schedule::parse(schedule, Some(zone)).unwrap();
            let mut random = swiftwater_testkit::Rng::new(7);
            for _ in 0..300 {
                let time = millis("2026-01-01T00:00:00Z") + random.below(365 * 86_400_000) as Millis;
                let next = schedule.after(time).unwrap();
                assert!(next > time, "{schedule:?} after {}", text(time));
                let last = schedule.up_to(next - 1).unwrap();
                assert!(
                    last <= time,
                    "{schedule:?}: {} lies between {} and {}",
                    text(last),
                    text(time),
                    text(next)
                );
            }
        }
    }

    #[test]
    fn what_is_no_schedule_is_told() {
        let fault = |text: &str, zone: Option<&str>| Schedule::parse(text, zone).unwrap_err().to_string();
        let fields = |text: &str, count: usize| {
            format!("the schedule `{text}` cannot be read: it has {count} fields, not five")
        };
        for (text, count) in [("", 0), ("* * *", 3), ("* * * * * *", 6)] {
            assert_eq!(fault(text, None), fields(text, count));
        }
        assert_eq!(
            fault("61 * * * *", None),
            "the schedule `61 * * * *` cannot be read: number out of bounds"
        );
        assert_eq!(
            fault("@every 1s", None),
            "the schedule `@every 1s` cannot be read: a name is one of @hourly, @daily, @weekly, @monthly, @yearly"
        );
        assert!(fault("@sometimes", None).starts_with("the schedule `@sometimes` cannot be read: "));
        assert_eq!(fault("0 0 30 2 *", None), "the schedule `0 0 30 2 *` names a time that never occurs");
        assert_eq!(fault("@daily", Some("Mars/Olympus")), "no time zone `Mars/Olympus`");
    }
}
