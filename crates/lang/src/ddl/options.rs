//! The options of a stream, `WITH (name = value, …)`: their names, values and units. [`super::job`] has those of a job.

use std::fmt;

use super::COLUMNS_MAX;
use swiftwater_event::did_you_mean;

/// The acknowledgement of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ack {
    /// After it has been read.
    None,
    /// After it is in the log, though not yet on disk.
    Memory,
    /// After it is on disk.
    Disk,
}

/// The treatment of an event that does not fit the declared columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnBadEvent {
    /// Its sender is told, and it is forgotten.
    Reject,
    /// It goes to the stream's quarantine, with the reason.
    Quarantine,
}

/// The partitioning of a table's files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PartitionBy {
    /// The files are not partitioned.
    None,
    /// The day (UTC).
    Day,
    /// The hour (UTC).
    Hour,
    /// The values of these columns.
    Columns(Vec<Box<str>>),
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StreamOptions {
    /// Events are kept.
    pub store: Option<bool>,
    /// The time they are kept, in milliseconds.
    pub retention_ms: Option<u64>,
    /// The acknowledgement of an event if the request does not state one.
    pub ack: Option<Ack>,
    /// The partitioning of the table's files.
    pub partition_by: Option<PartitionBy>,
    /// The treatment of bad events.
    pub on_bad_event: Option<OnBadEvent>,
    /// The most columns that a stream without declared ones gets from its events.
    pub columns_max: Option<u32>,
    /// The largest event, in bytes.
    pub event_bytes_max: Option<u64>,
    /// Events that are sent to the stream are written to the topic that it reads.
    pub produce: Option<bool>,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamOption {
    /// `store = true|false`.
    Store,
    /// `retention = '30 days'`.
    Retention,
    /// `ack = none|memory|disk`.
    Ack,
    /// `partition_by = none|day|hour|(column, …)`.
    PartitionBy,
    /// `on_bad_event = reject|quarantine`.
    OnBadEvent,
    /// `columns_max = 1000`.
    ColumnsMax,
    /// `event_bytes_max = '64KiB'`.
    EventBytesMax,
    /// `produce = true|false`.
    Produce,
}

/// A value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `disk`, `true`, `'30 days'`.
    Text(Box<str>),
    /// `100`.
    Number(u64),
    /// A number below 0, or with a point, as no option takes it.
    OtherNumber,
    /// `(a, b)`.
    Names(Vec<Box<str>>),
}

/// The option of a name, in any letter case; the error is a hint.
pub(crate) fn named<O: Copy>(all: &[O], text: fn(O) -> &'static str, name: &str) -> Result<O, String> {
    if let Some(option) = all.iter().find(|option| text(**option).eq_ignore_ascii_case(name)) {
        return Ok(*option);
    }
    let names = || all.iter().map(|option| text(*option));
    Err(match did_you_mean(name, names()) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => format!("Options are {}.", names().collect::<Vec<_>>().join(", ")),
    })
}

impl StreamOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [StreamOption; 8] = [
        StreamOption::Store,
        StreamOption::Retention,
        StreamOption::Ack,
        StreamOption::PartitionBy,
        StreamOption::OnBadEvent,
        StreamOption::ColumnsMax,
        StreamOption::EventBytesMax,
        StreamOption::Produce,
    ];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            StreamOption::Store => "store",
            StreamOption::Retention => "retention",
            StreamOption::Ack => "ack",
            StreamOption::PartitionBy => "partition_by",
            StreamOption::OnBadEvent => "on_bad_event",
            StreamOption::ColumnsMax => "columns_max",
            StreamOption::EventBytesMax => "event_bytes_max",
            StreamOption::Produce => "produce",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<StreamOption, String> {
        named(&Self::ALL, Self::text, name)
    }

    /// True if it can be changed after the stream was created.
    pub(crate) fn can_change(self) -> bool {
        self != StreamOption::Produce
    }

    /// The values that it accepts, for messages.
    fn accepted_values(self) -> &'static str {
        match self {
            StreamOption::Store | StreamOption::Produce => "true or false",
            StreamOption::Retention => "a time such as '30 days'",
            StreamOption::Ack => "none, memory or disk",
            StreamOption::PartitionBy => "none, day, hour or columns in parentheses",
            StreamOption::OnBadEvent => "reject or quarantine",
            StreamOption::ColumnsMax => "a number from 1 to 2048",
            StreamOption::EventBytesMax => "a size such as '64KiB'",
        }
    }
}

impl StreamOptions {
    /// Sets one; the error has the allowed values.
    pub(crate) fn set(&mut self, option: StreamOption, value: &Value) -> Result<(), String> {
        let wrong = || format!("`{}` must be {}", option.text(), option.accepted_values());
        let text = match value {
            Value::Text(text) => text.trim().to_ascii_lowercase(),
            _ => String::new(),
        };
        match option {
            StreamOption::Store => self.store = Some(text.parse().map_err(|_| wrong())?),
            StreamOption::Produce => self.produce = Some(text.parse().map_err(|_| wrong())?),
            StreamOption::Retention => match parse_duration_ms(&text) {
                Some(0) | None => return Err(wrong()),
                Some(ms) => self.retention_ms = Some(ms),
            },
            StreamOption::Ack => {
                self.ack = Some(match text.as_str() {
                    "none" => Ack::None,
                    "memory" => Ack::Memory,
                    "disk" => Ack::Disk,
                    _ => return Err(wrong()),
                });
            }
            StreamOption::PartitionBy => {
                self.partition_by = Some(match (value, text.as_str()) {
                    (Value::Names(names), _) if !names.is_empty() => PartitionBy::Columns(names.clone()),
                    (_, "none") => PartitionBy::None,
                    (_, "day") => PartitionBy::Day,
                    (_, "hour") => PartitionBy::Hour,
                    _ => return Err(wrong()),
                });
            }
            StreamOption::OnBadEvent => {
                self.on_bad_event = Some(match text.as_str() {
                    "reject" => OnBadEvent::Reject,
                    "quarantine" => OnBadEvent::Quarantine,
                    _ => return Err(wrong()),
                });
            }
            StreamOption::ColumnsMax => match value {
                Value::Number(number) if (1..=COLUMNS_MAX as u64).contains(number) => {
                    self.columns_max = Some(*number as u32)
                }
                _ => return Err(wrong()),
            },
            StreamOption::EventBytesMax => {
                let bytes = match value {
                    Value::Number(number) => Some(*number),
                    _ => parse_size_bytes(&text),
                };
                match bytes {
                    Some(0) | None => return Err(wrong()),
                    Some(bytes) => self.event_bytes_max = Some(bytes),
                }
            }
        }
        Ok(())
    }

    /// Forgets one.
    pub(crate) fn reset(&mut self, option: StreamOption) {
        match option {
            StreamOption::Store => self.store = None,
            StreamOption::Retention => self.retention_ms = None,
            StreamOption::Ack => self.ack = None,
            StreamOption::PartitionBy => self.partition_by = None,
            StreamOption::OnBadEvent => self.on_bad_event = None,
            StreamOption::ColumnsMax => self.columns_max = None,
            StreamOption::EventBytesMax => self.event_bytes_max = None,
            StreamOption::Produce => self.produce = None,
        }
    }

    /// Takes over those that `other` sets.
    pub(crate) fn overlay(&mut self, other: &StreamOptions) {
        self.store = other.store.or(self.store);
        self.retention_ms = other.retention_ms.or(self.retention_ms);
        self.ack = other.ack.or(self.ack);
        self.partition_by = other.partition_by.clone().or(self.partition_by.take());
        self.on_bad_event = other.on_bad_event.or(self.on_bad_event);
        self.columns_max = other.columns_max.or(self.columns_max);
        self.event_bytes_max = other.event_bytes_max.or(self.event_bytes_max);
        self.produce = other.produce.or(self.produce);
    }

    /// The options that are set, with their values as written.
    pub fn settings(&self) -> impl Iterator<Item = (StreamOption, String)> + '_ {
        let quoted = |text: &dyn fmt::Display| format!("'{text}'");
        StreamOption::ALL.into_iter().filter_map(move |option| {
            let value = match option {
                StreamOption::Store => self.store?.to_string(),
                StreamOption::Retention => quoted(&DurationText(self.retention_ms?)),
                StreamOption::Ack => match self.ack? {
                    Ack::None => "none".to_owned(),
                    Ack::Memory => "memory".to_owned(),
                    Ack::Disk => "disk".to_owned(),
                },
                StreamOption::PartitionBy => match self.partition_by.as_ref()? {
                    PartitionBy::None => "none".to_owned(),
                    PartitionBy::Day => "day".to_owned(),
                    PartitionBy::Hour => "hour".to_owned(),
                    PartitionBy::Columns(names) => {
                        let names = names.iter().map(|name| super::print::name_text(name));
                        format!("({})", names.collect::<Vec<_>>().join(", "))
                    }
                },
                StreamOption::OnBadEvent => match self.on_bad_event? {
                    OnBadEvent::Reject => "reject".to_owned(),
                    OnBadEvent::Quarantine => "quarantine".to_owned(),
                },
                StreamOption::ColumnsMax => self.columns_max?.to_string(),
                StreamOption::EventBytesMax => quoted(&SizeText(self.event_bytes_max?)),
                StreamOption::Produce => self.produce?.to_string(),
            };
            Some((option, value))
        })
    }
}

/// Units of time with their milliseconds, largest first, each first in the form that is printed.
const TIMES: [(&[&str], u64); 6] = [
    (&["weeks", "week", "w"], 604_800_000),
    (&["days", "day", "d"], 86_400_000),
    (&["hours", "hour", "h"], 3_600_000),
    (&["minutes", "minute", "min", "m"], 60_000),
    (&["seconds", "second", "sec", "s"], 1000),
    (&["milliseconds", "millisecond", "ms"], 1),
];

/// Units of size with their bytes, largest first, in lower case but for the one that is printed.
const SIZES: [(&[&str], u64); 9] = [
    (&["TiB", "tib"], 1 << 40),
    (&["TB", "tb"], 1_000_000_000_000),
    (&["GiB", "gib"], 1 << 30),
    (&["GB", "gb"], 1_000_000_000),
    (&["MiB", "mib"], 1 << 20),
    (&["MB", "mb"], 1_000_000),
    (&["KiB", "kib"], 1 << 10),
    (&["KB", "kb"], 1000),
    (&["B", "b", "bytes", "byte"], 1),
];

/// `30 days`, `1h 30m`, `500ms`: parts of a whole number and a unit, in milliseconds; `None`: it is none, or too long for
/// 63 bits.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    parse_parts(text, &TIMES)
}

/// `64MiB`, `1 GB`: in bytes; `None`: it is none, or has more than 63 bits.
pub fn parse_size_bytes(text: &str) -> Option<u64> {
    parse_parts(text, &SIZES)
}

fn parse_parts(text: &str, units: &[(&[&str], u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|&digits| digits > 0)?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = &rest[..letters];
        let (_, size) =
            units.iter().find(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(unit)))?;
        sum = sum.checked_add(number.checked_mul(*size)?).filter(|sum| *sum <= i64::MAX as u64)?;
        rest = rest[letters..].trim_start();
    }
    (!text.trim().is_empty()).then_some(sum)
}

/// A time in its largest unit that leaves no rest: `30 days`.
pub(super) struct DurationText(pub(super) u64);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Weeks are not printed: nobody says `4 weeks 2 days`, and 30 days are not whole weeks.
        let units = TIMES[1..].iter();
        let whole = units.clone().find(|(_, ms)| self.0 != 0 && self.0.is_multiple_of(*ms));
        let (names, ms) = whole.unwrap_or(&TIMES[5]);
        let number = self.0 / ms;
        write!(f, "{number} {}", names[usize::from(number == 1)])
    }
}

struct SizeText(u64);

impl fmt::Display for SizeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = SIZES.iter().find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes));
        let (names, bytes) = whole.unwrap_or(&SIZES[8]);
        write!(f, "{}{}", self.0 / bytes, names[0])
    }
}
