//! Generates log lines of services, about 350 bytes each: `ts`, `level`, `service`, `host`, `trace_id`, `span_id`, `message`,
//! `status`, `duration_ms` and, four times in a thousand, `stack`.
//!
//! - Twelve lines share a trace: a request through four services and back. Lines of many traces alternate.
//! - Messages are templates with ids, paths, numbers and names. The n-th most frequent template and the n-th most frequent
//!   name have a share of 1/n (Zipf's law), so a few words are in a tenth of all messages and most are in very few.
//! - Two messages in a hundred are in another script, or have emoji.

mod templates;

use std::io::Write;

use self::templates::{FRAMES, MESSAGES, Message, PATHS, SERVICES, TABLES, TRANSLATED};
use crate::{Events, exact, rng::Rng, zipf::Zipf};

/// Traces that are under way.
const TRACES: usize = 64;
const LINES_OF_TRACE: usize = 12;
/// The service of a trace that writes its n-th line: the request goes in and comes back.
const HOPS: [usize; LINES_OF_TRACE] = [0, 0, 1, 1, 2, 3, 3, 2, 2, 1, 0, 0];
const SERVICES_OF_TRACE: usize = 4;
const HOSTS_OF_SERVICE: usize = 16;
const REGIONS: [&str; 4] = ["eu-west-1", "eu-north-1", "us-east-2", "ap-south-1"];
const NAMES: usize = 200_000;
const USERS: usize = 1_000_000;
const SYLLABLES: [&str; 32] = [
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta", "ve",
    "wi", "xo", "zu", "bra", "cle", "dri", "flo", "gru", "sta", "tre", "spi", "an", "er", "in", "on",
];
const TRANSLATED_SHARE: f64 = 0.02;
const STACK_SHARE: f64 = 0.004;
/// Frames of a stack trace, and how many may come on top.
const FRAMES_OF_STACK: (usize, usize) = (20, 40);
const DAY_MS: i64 = 86_400_000;

/// The times of log lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogsSettings {
    /// The time of the first line, in milliseconds since 1970.
    pub start_ms: i64,
    /// Lines per second of event time.
    pub events_per_second: f64,
}

impl Default for LogsSettings {
    fn default() -> LogsSettings {
        // 2026-01-01T00:00:00Z
        LogsSettings { start_ms: 1_767_225_600_000, events_per_second: 10_000.0 }
    }
}

/// A request on its way through services.
#[derive(Debug, Default)]
struct Trace {
    id: (u64, u64),
    /// The services, each with a host and the id of a span.
    hops: [(usize, usize, u64); SERVICES_OF_TRACE],
    user: usize,
    lines: usize,
}

/// A value in a message.
#[derive(Debug, Clone, Copy)]
enum Slot {
    User,
    Id,
    Path,
    Number,
    Millis,
    Address,
    Name,
    Method,
    Table,
    Service,
}

/// A part of a message.
#[derive(Debug)]
enum Part {
    Text(&'static str),
    Slot(Slot),
}

#[derive(Debug)]
struct Template {
    level: &'static str,
    parts: Vec<Part>,
}

/// See the head of this module.
#[derive(Debug)]
pub(crate) struct Logs {
    rng: Rng,
    settings: LogsSettings,
    count: u64,
    traces: Vec<Trace>,
    templates: Vec<Template>,
    /// The cumulative share of each template and those before it.
    shares: Vec<f64>,
    translated: Vec<Vec<Part>>,
    services: Zipf,
    names: Zipf,
    /// The day of the last line, and its text.
    day: (i64, String),
}

impl Logs {
    pub(crate) fn new(seed: u64, settings: &LogsSettings) -> Logs {
        let total: f64 = (1..=MESSAGES.len()).map(|rank| 1.0 / rank as f64).sum();
        let mut sum = 0.0;
        let shares = (1..=MESSAGES.len()).map(|rank| {
            sum += 1.0 / rank as f64 / total;
            sum
        });
        let template = |Message { level, text }: &Message| Template { level, parts: parts(text) };
        let mut logs = Logs {
            rng: Rng::new(seed),
            settings: *settings,
            count: 0,
            traces: Vec::new(),
            templates: MESSAGES.iter().map(template).collect(),
            shares: shares.collect(),
            translated: TRANSLATED.iter().map(|text| parts(text)).collect(),
            services: Zipf::new(SERVICES.len(), 0.8),
            names: Zipf::new(NAMES, 1.0),
            day: (i64::MIN, String::new()),
        };
        for _ in 0..TRACES {
            let trace = logs.trace();
            logs.traces.push(trace);
        }
        logs
    }

    fn trace(&mut self) -> Trace {
        let Logs { rng, services, .. } = self;
        let id = (rng.bits(), rng.bits());
        let hops = std::array::from_fn(|_| (services.draw(rng), rng.below(HOSTS_OF_SERVICE), rng.bits()));
        Trace { id, hops, user: rng.below(USERS), lines: 0 }
    }

    fn push_parts(rng: &mut Rng, names: &Zipf, user: usize, parts: &[Part], out: &mut Vec<u8>) {
        for part in parts {
            let slot = match part {
                Part::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Slot(slot) => slot,
            };
            match slot {
                Slot::User => push_number(user, out),
                Slot::Id => push_hex(rng.bits() & 0xffff_ffff_ffff, 12, out),
                Slot::Path => push_path(rng, out),
                Slot::Number => {
                    let digits = rng.below(5) as u32;
                    push_number(rng.below(10_usize.pow(digits + 1)), out);
                }
                Slot::Millis => push_number(millis(rng), out),
                Slot::Address => {
                    let bits = rng.bits();
                    push_number(10, out);
                    for shift in [0, 8, 16] {
                        out.push(b'.');
                        push_number((bits >> shift & 255) as usize, out);
                    }
                }
                Slot::Name => push_name(names.draw(rng), out),
                Slot::Method => {
                    let methods = ["GET", "GET", "GET", "GET", "POST", "POST", "PUT", "DELETE"];
                    out.extend_from_slice(rng.pick(&methods).as_bytes());
                }
                Slot::Table => out.extend_from_slice(rng.pick(&TABLES).as_bytes()),
                Slot::Service => out.extend_from_slice(rng.pick(&SERVICES).as_bytes()),
            }
        }
    }

    fn push_time(&mut self, out: &mut Vec<u8>) {
        let offset_ms = self.count as f64 * 1000.0 / self.settings.events_per_second;
        let time_ms = self.settings.start_ms.saturating_add(offset_ms as i64);
        let (day, of_day) = (time_ms.div_euclid(DAY_MS), time_ms.rem_euclid(DAY_MS));
        if self.day.0 != day {
            let (year, month, day_of_month) = date(day);
            self.day = (day, format!("{year:04}-{month:02}-{day_of_month:02}T"));
        }
        out.extend_from_slice(self.day.1.as_bytes());
        let (seconds, ms) = (of_day / 1000, of_day % 1000);
        for (value, end) in [(seconds / 3600, b':'), (seconds / 60 % 60, b':'), (seconds % 60, b'.')] {
            out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8, end]);
        }
        out.extend_from_slice(&[
            b'0' + (ms / 100) as u8,
            b'0' + (ms / 10 % 10) as u8,
            b'0' + (ms % 10) as u8,
            b'Z',
        ]);
    }
}

impl Events for Logs {
    fn push(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"ts\":\"");
        self.push_time(out);
        self.count += 1;
        let place = self.rng.below(TRACES);
        let is_translated = self.rng.chance(TRANSLATED_SHARE);
        let has_stack = self.rng.chance(STACK_SHARE);
        let share = self.rng.share();
        let template = self.shares.partition_point(|sum| *sum < share).min(self.templates.len() - 1);
        let Logs { rng, traces, templates, translated, names, .. } = self;
        let Trace { id, hops, user, lines } = &traces[place];
        let (service, host, span) = hops[HOPS[*lines]];
        let template = &templates[template];
        let level = if has_stack { "ERROR" } else { template.level };
        out.extend_from_slice(b"\",\"level\":\"");
        out.extend_from_slice(level.as_bytes());
        out.extend_from_slice(b"\",\"service\":\"");
        out.extend_from_slice(SERVICES[service].as_bytes());
        out.extend_from_slice(b"\",\"host\":\"");
        out.extend_from_slice(SERVICES[service].as_bytes());
        out.extend_from_slice(&[b'-', b'0' + (host / 10) as u8, b'0' + (host % 10) as u8, b'.']);
        out.extend_from_slice(REGIONS[host % REGIONS.len()].as_bytes());
        out.extend_from_slice(b"\",\"trace_id\":\"");
        push_hex(id.0, 16, out);
        push_hex(id.1, 16, out);
        out.extend_from_slice(b"\",\"span_id\":\"");
        push_hex(span, 16, out);
        out.extend_from_slice(b"\",\"message\":\"");
        let parts = if is_translated { &translated[rng.below(translated.len())] } else { &template.parts };
        Logs::push_parts(rng, names, *user, parts, out);
        out.push(b'"');
        if has_stack {
            push_stack(rng, names, out);
        }
        let status = match level {
            "ERROR" => rng.pick(&[500, 500, 502, 503, 504]),
            "WARN" => rng.pick(&[200, 400, 404, 409, 429]),
            _ => rng.pick(&[200, 200, 200, 200, 200, 200, 201, 204]),
        };
        out.extend_from_slice(b",\"status\":");
        push_number(status, out);
        out.extend_from_slice(b",\"duration_ms\":");
        push_number(millis(rng), out);
        let thousandths = rng.below(1000);
        out.extend_from_slice(&[b'.', b'0' + (thousandths / 100) as u8]);
        // A number of JSON may end with 0, and a reader may print it otherwise; these end with 1 to 9.
        out.extend_from_slice(&[b'1' + (thousandths % 9) as u8, b'}', b'\n']);
        self.traces[place].lines += 1;
        if self.traces[place].lines == LINES_OF_TRACE {
            self.traces[place] = self.trace();
        }
    }
}

/// A message's text and values.
fn parts(text: &'static str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        let slot = match after.as_bytes().first() {
            Some(b'u') => Slot::User,
            Some(b'x') => Slot::Id,
            Some(b'p') => Slot::Path,
            Some(b'd') => Slot::Millis,
            Some(b'i') => Slot::Address,
            Some(b'w') => Slot::Name,
            Some(b'm') => Slot::Method,
            Some(b't') => Slot::Table,
            Some(b'v') => Slot::Service,
            _ => Slot::Number,
        };
        parts.push(Part::Slot(slot));
        rest = after.get(1..).unwrap_or_default();
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// A duration, exponentially distributed with a mean of 80 ms.
fn millis(rng: &mut Rng) -> usize {
    (-exact::ln(1.0 - rng.share()) * 80.0) as usize
}

fn push_number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn push_hex(number: u64, digits: u32, out: &mut Vec<u8>) {
    let digit = |place: u32| b"0123456789abcdef"[(number >> (4 * place) & 15) as usize];
    out.extend((0..digits).rev().map(digit));
}

/// The name of a number: two to five syllables, always the same ones.
fn push_name(number: usize, out: &mut Vec<u8>) {
    let mut bits = Rng::new(number as u64).bits();
    for _ in 0..2 + (bits >> 62) {
        out.extend_from_slice(SYLLABLES[(bits & 31) as usize].as_bytes());
        bits >>= 5;
    }
}

fn push_path(rng: &mut Rng, out: &mut Vec<u8>) {
    out.extend_from_slice(rng.pick(&PATHS).as_bytes());
    push_number(rng.below(USERS), out);
}

/// A stack trace of some kilobytes, its line breaks and tabs escaped.
fn push_stack(rng: &mut Rng, names: &Zipf, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"stack\":\"java.lang.IllegalStateException: ");
    push_name(names.draw(rng), out);
    for _ in 0..FRAMES_OF_STACK.0 + rng.below(FRAMES_OF_STACK.1) {
        let (package, class, method) = rng.pick(&FRAMES);
        let line = 10 + rng.below(900);
        // Writing to memory does not fail.
        let _ = write!(out, "\\n\\tat com.example.{package}.{class}.{method}({class}.java:{line})");
    }
    out.push(b'"');
}

/// Year, month and day of the Gregorian calendar, of days since 1970 (Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_454, (2026, 1, 1)),
            (-1, (1969, 12, 31)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }

    #[test]
    fn texts_need_no_escapes() {
        let texts = MESSAGES.iter().map(|message| message.text).chain(TRANSLATED);
        for text in texts.chain(PATHS).chain(SERVICES).chain(TABLES) {
            assert!(text.chars().all(|c| c >= ' ' && c != '"' && c != '\\'), "{text}");
        }
    }
}
