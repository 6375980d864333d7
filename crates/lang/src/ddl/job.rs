//! The declaration of a job, and the changes that `ALTER JOB` can make to it.

use super::options::{DurationText, Value, named, parse_duration_ms};

/// `CREATE JOB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateJob {
    /// Its name, by the rules of streams' names.
    pub name: Box<str>,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// The schedule as written: the scheduler parses it.
    pub schedule: Box<str>,
    /// `WITH (…)`.
    pub options: JobOptions,
    /// The SQL as written: one statement, or several with `;` between them.
    pub sql: Box<str>,
}

/// One change of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    /// It runs when its schedule says.
    Enable,
    /// It runs only by `RUN JOB`.
    Disable,
    /// It has another schedule.
    Schedule(Box<str>),
    /// `SET (…)`: those options that are named.
    Set(JobOptions),
    /// `RESET (…)`: back to their defaults.
    Reset(Vec<JobOption>),
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JobOptions {
    /// True if a run reads only the events of each stored stream since the last successful run.
    pub incremental: Option<bool>,
    /// The time zone of the schedule, as written: the scheduler knows the zones.
    pub time_zone: Option<Box<str>>,
    /// The time an attempt at a run may take, in milliseconds; 0: as long as it takes.
    pub timeout_ms: Option<u64>,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobOption {
    /// `incremental = true|false`.
    Incremental,
    /// `time_zone = 'Europe/Berlin'`.
    TimeZone,
    /// `timeout = '30 min'|none`.
    Timeout,
}

impl JobOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [JobOption; 3] = [JobOption::Incremental, JobOption::TimeZone, JobOption::Timeout];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            JobOption::Incremental => "incremental",
            JobOption::TimeZone => "time_zone",
            JobOption::Timeout => "timeout",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<JobOption, String> {
        named(&Self::ALL, Self::text, name)
    }
}

impl JobOptions {
    /// Sets one; the error has the allowed values.
    pub(crate) fn set(&mut self, option: JobOption, value: &Value) -> Result<(), String> {
        match (option, value) {
            (JobOption::Incremental, Value::Text(text)) if text.eq_ignore_ascii_case("true") => {
                self.incremental = Some(true);
            }
            (JobOption::Incremental, Value::Text(text)) if text.eq_ignore_ascii_case("false") => {
                self.incremental = Some(false);
            }
            (JobOption::Incremental, _) => return Err("`incremental` must be true or false".to_owned()),
            (JobOption::TimeZone, Value::Text(zone)) if !zone.trim().is_empty() => {
                self.time_zone = Some(zone.trim().into());
            }
            (JobOption::TimeZone, _) => {
                return Err("`time_zone` must be the name of a time zone such as 'Europe/Berlin'".to_owned());
            }
            (JobOption::Timeout, Value::Text(text)) if text.eq_ignore_ascii_case("none") => {
                self.timeout_ms = Some(0);
            }
            (JobOption::Timeout, value) => {
                let ms = match value {
                    Value::Text(text) => parse_duration_ms(text).filter(|ms| *ms > 0),
                    _ => None,
                };
                let ms = ms.ok_or_else(|| "`timeout` must be a time such as '30 min', or none".to_owned())?;
                self.timeout_ms = Some(ms);
            }
        }
        Ok(())
    }

    fn reset(&mut self, option: JobOption) {
        match option {
            JobOption::Incremental => self.incremental = None,
            JobOption::TimeZone => self.time_zone = None,
            JobOption::Timeout => self.timeout_ms = None,
        }
    }

    /// The options that are set, with their values as written.
    pub fn settings(&self) -> impl Iterator<Item = (JobOption, String)> + '_ {
        JobOption::ALL.into_iter().filter_map(|option| {
            let value = match option {
                JobOption::Incremental => self.incremental?.to_string(),
                JobOption::TimeZone => format!("'{}'", self.time_zone.as_ref()?.replace('\'', "''")),
                JobOption::Timeout => match self.timeout_ms? {
                    0 => "none".to_owned(),
                    ms => format!("'{}'", DurationText(ms)),
                },
            };
            Some((option, value))
        })
    }
}

impl CreateJob {
    /// The job after a change of its schedule or options.
    pub fn altered(&self, change: &JobChange) -> CreateJob {
        let mut job = self.clone();
        match change {
            JobChange::Enable | JobChange::Disable => {}
            JobChange::Schedule(schedule) => job.schedule = schedule.clone(),
            JobChange::Set(options) => {
                job.options.incremental = options.incremental.or(job.options.incremental);
                job.options.time_zone = options.time_zone.clone().or(job.options.time_zone);
                job.options.timeout_ms = options.timeout_ms.or(job.options.timeout_ms);
            }
            JobChange::Reset(options) => options.iter().for_each(|option| job.options.reset(*option)),
        }
        job
    }
}
