//! Parses syslog messages (RFC 5424, RFC 3164) into events, one object per line.
//!
//! ```text
//! <PRI>1 TIME HOST APP PID MSGID [id name="value" …][…] message          RFC 5424; `-` stands for an unknown value
//! <PRI>Jan 31 12:00:00 HOST APP[PID]: message                            RFC 3164, and messages that claim to be:
//! <PRI>2026-01-31T12:00:00.123+01:00 HOST APP: message                   the time of RFC 3339, a year, no host, no tag
//! <PRI>APP[PID]: message                                                 no time, no host, no tag (RFC 3164, 4.3.3)
//! ```
//!
//! [`cisco`] parses the messages of Cisco's devices. A message in no known form is still stored: its event has `malformed`,
//! the reason, and `raw`, the message. The project has its own parser, because existing ones read what they can, do not
//! report what they could not, and change texts on the way.
//! Never fails and never panics, whatever the bytes are.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use swiftwater_event::{Value, write_json};

use super::cisco;
use crate::wire::parse_time;

/// The known properties of a message besides its text.
pub(super) struct MessageContext<'a> {
    /// Its arrival, in microseconds since 1970.
    pub(super) arrival_micros: i64,
    /// Minutes by which times without a zone are ahead of UTC.
    pub(super) utc_offset_minutes: i16,
    /// The sender's address.
    pub(super) peer: &'a str,
    /// It was longer, and what came behind was cut off.
    pub(super) is_cut: bool,
}

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The parsed parts of a message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Message<'a> {
    priority: u8,
    pub(super) micros: Option<i64>,
    pub(super) host: Option<&'a str>,
    app: Option<&'a str>,
    pid: Option<&'a str>,
    pub(super) msgid: Option<&'a str>,
    /// The number that a device counts its messages by.
    pub(super) sequence: Option<&'a str>,
    data: Vec<Element<'a>>,
    pub(super) text: &'a str,
}

/// An element of structured data: its name, and its parameters in their order.
#[derive(Debug, PartialEq)]
pub(super) struct Element<'a> {
    id: &'a str,
    parameters: Vec<(&'a str, Cow<'a, str>)>,
}

/// Adds the event of a message, with the end of its line; false if it is malformed.
pub(super) fn write_event(bytes: &[u8], around: &MessageContext<'_>, out: &mut Vec<u8>) -> bool {
    let raw = String::from_utf8_lossy(bytes);
    let parsed = match around.is_cut {
        true => Err("it exceeds the maximum length, and was cut"),
        false => parse(&raw, around),
    };
    let mut object = Object { out, is_empty: true };
    match &parsed {
        Ok(message) => message.write(&mut object),
        Err(why) => {
            object.text("malformed", why);
            if let Some((priority, _)) = priority(&raw) {
                write_priority(priority, &mut object);
            }
            object.text("raw", &raw);
        }
    }
    object.text("peer", around.peer);
    object.out.extend_from_slice(b"}\n");
    parsed.is_ok()
}

impl Message<'_> {
    fn write(&self, object: &mut Object<'_>) {
        if let Some(micros) = self.micros {
            object.name("time");
            write_json(&Value::Timestamp(micros), object.out);
        }
        write_priority(self.priority, object);
        for (name, value) in [
            ("host", self.host),
            ("app", self.app),
            ("pid", self.pid),
            ("msgid", self.msgid),
            ("sequence", self.sequence),
        ] {
            if let Some(value) = value {
                object.text(name, value);
            }
        }
        if !self.data.is_empty() {
            object.name("data");
            let mut data = Object { out: object.out, is_empty: true };
            for Element { id, parameters } in &self.data {
                data.name(id);
                write_parameters(parameters, data.out);
            }
            data.out.push(b'}');
        }
        object.text("message", self.text);
    }
}

fn write_priority(priority: u8, object: &mut Object<'_>) {
    object.text("facility", FACILITIES[usize::from(priority >> 3)]);
    object.text("severity", SEVERITIES[usize::from(priority & 7)]);
    object.name("severity_number");
    object.out.push(b'0' + (priority & 7));
}

/// A parameter that comes several times is a list.
fn write_parameters(parameters: &[(&str, Cow<'_, str>)], out: &mut Vec<u8>) {
    let mut object = Object { out, is_empty: true };
    if parameters.is_empty() {
        object.out.push(b'{');
    }
    // In the order of the first of each.
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(parameters.len());
    let mut by_name: Vec<(&str, Vec<&str>)> = Vec::with_capacity(parameters.len());
    for (name, value) in parameters {
        let place = *places.entry(name).or_insert(by_name.len());
        match by_name.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => by_name.push((name, vec![value])),
        }
    }
    for (name, values) in by_name {
        if let [value] = values[..] {
            object.text(name, value);
            continue;
        }
        object.name(name);
        for (place, value) in values.into_iter().enumerate() {
            object.out.push(if place == 0 { b'[' } else { b',' });
            write_json(&Value::String(value), object.out);
        }
        object.out.push(b']');
    }
    object.out.push(b'}');
}

/// An object that is being written; its end is the caller's.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    fn name(&mut self, name: &str) {
        self.out.push(if self.is_empty { b'{' } else { b',' });
        self.is_empty = false;
        write_json(&Value::String(name), self.out);
        self.out.push(b':');
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_json(&Value::String(value), self.out);
    }
}

fn parse<'a>(raw: &'a str, around: &MessageContext<'_>) -> Result<Message<'a>, &'static str> {
    let (priority, rest) = priority(raw).ok_or("it has no priority such as `<13>` at its beginning")?;
    let message = match rest.strip_prefix("1 ") {
        Some(rest) => rfc5424(rest)?,
        None => rfc3164(rest, around)?,
    };
    Ok(Message { priority, ..message })
}

/// `<13>`, up to 191.
fn priority(raw: &str) -> Option<(u8, &str)> {
    let (number, rest) = raw.strip_prefix('<')?.split_once('>')?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|number| is_number && *number < 192)?;
    Some((number, rest))
}

/// Parses the part after the version.
fn rfc5424(rest: &str) -> Result<Message<'_>, &'static str> {
    let mut rest = rest;
    let mut field = || {
        let (field, behind) = rest.split_once(' ')?;
        rest = behind;
        (!field.is_empty()).then_some(field)
    };
    let fields = [field(), field(), field(), field(), field()];
    let [Some(time), Some(host), Some(app), Some(pid), Some(msgid)] = fields else {
        return Err("its time, host, application, process or message identifier is missing");
    };
    let known = |field| (field != "-").then_some(field);
    let micros = match known(time) {
        None => None,
        Some(time) => Some(rfc3339(time).ok_or("its time is not in RFC 3339")?),
    };
    let (data, text) = structured_data(rest).ok_or("its structured data is malformed")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Ok(Message {
        micros,
        host: known(host),
        app: known(app),
        pid: known(pid),
        msgid: known(msgid),
        data,
        text,
        ..Message::default()
    })
}

fn rfc3339(text: &str) -> Option<i64> {
    // A mere number is a time elsewhere, not here.
    if text.contains('-') { parse_time(text) } else { None }
}

/// The elements, and the message behind them.
fn structured_data(rest: &str) -> Option<(Vec<Element<'_>>, &str)> {
    let (mut elements, mut ids) = (Vec::new(), HashSet::new());
    let mut rest = match rest.strip_prefix('-') {
        Some(rest) => rest,
        None => {
            let mut rest = rest;
            while let Some(behind) = rest.strip_prefix('[') {
                let (element, behind) = element(behind)?;
                if !ids.insert(element.id) {
                    return None;
                }
                elements.push(element);
                rest = behind;
            }
            if elements.is_empty() {
                return None;
            }
            rest
        }
    };
    if !rest.is_empty() {
        rest = rest.strip_prefix(' ')?;
    }
    Some((elements, rest))
}

/// Parses an element after `[`, including `]`.
fn element(rest: &str) -> Option<(Element<'_>, &str)> {
    let (id, mut rest) = sd_name(rest)?;
    let mut parameters = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix(']') {
            return Some((Element { id, parameters }, behind));
        }
        let (name, behind) = sd_name(rest.strip_prefix(' ')?)?;
        let (value, behind) = sd_value(behind.strip_prefix("=\"")?)?;
        parameters.push((name, value));
        rest = behind;
    }
}

fn sd_name(rest: &str) -> Option<(&str, &str)> {
    let end = rest.find(['=', ' ', ']', '"'])?;
    (end > 0).then(|| rest.split_at(end))
}

/// Parses a value, including the quote at its end. `\` stands before `"`, `\` and `]`; before anything else it means
/// itself.
fn sd_value(rest: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut from = 0;
    let mut unescaped: Option<String> = None;
    let bytes = rest.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => break,
            b'\\' if matches!(bytes.get(at + 1), Some(b'"' | b'\\' | b']')) => {
                unescaped.get_or_insert_default().push_str(&rest[from..at]);
                from = at + 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    let value = match unescaped {
        None => Cow::Borrowed(&rest[..at]),
        Some(text) => Cow::Owned(text + &rest[from..at]),
    };
    Some((value, &rest[at + 1..]))
}

/// Parses the part after the priority.
fn rfc3164<'a>(rest: &'a str, around: &MessageContext<'_>) -> Result<Message<'a>, &'static str> {
    if let Some(message) = cisco::parse(rest, around) {
        return Ok(message);
    }
    let Some((micros, rest)) = time(rest, around) else {
        if begins_as_time(rest) {
            return Err("its time does not exist");
        }
        // Without a time the whole is content, of which a tag may be the beginning.
        let first = rest.split(' ').next().unwrap_or_default();
        return Ok(if is_tag(first) { tagged(rest) } else { Message { text: rest, ..Message::default() } });
    };
    let first = rest.split(' ').next().unwrap_or_default();
    // Without a host the tag comes first: `app:` or `app[7]:`.
    let (host, rest) = match is_tag(first) {
        true => (None, rest),
        false => (Some(first).filter(|host| !host.is_empty()), rest[first.len()..].trim_start_matches(' ')),
    };
    Ok(Message { micros: Some(micros), host, ..tagged(rest) })
}

/// True if this was to be a time, in the form of RFC 3164 or RFC 3339.
fn begins_as_time(rest: &str) -> bool {
    let mut words = rest.split_ascii_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_month = MONTHS.iter().any(|month| month.eq_ignore_ascii_case(first));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = first.split_once('-').is_some_and(|(year, _)| year.len() == 4 && is_number(year));
    is_month && is_number(second) || is_date
}

/// The tag, if there is one, and the message behind it: `app: text`, `app[7]: text`, `text`.
fn tagged(rest: &str) -> Message<'_> {
    let message = Message { text: rest, ..Message::default() };
    let Some(end) = rest.find([':', '[', ' ']).filter(|end| *end > 0) else { return message };
    let (app, behind) = rest.split_at(end);
    if let Some(text) = behind.strip_prefix(':') {
        return Message { app: Some(app), text: without_space(text), ..message };
    }
    let Some((pid, behind)) = behind.strip_prefix('[').and_then(|inner| inner.split_once(']')) else {
        return message;
    };
    let text = behind.strip_prefix(':').unwrap_or(behind);
    Message { app: Some(app), pid: Some(pid), text: without_space(text), ..message }
}

/// The space between the tag and the message is neither's.
fn without_space(text: &str) -> &str {
    text.strip_prefix(' ').unwrap_or(text)
}

fn is_tag(word: &str) -> bool {
    // Addresses of IPv6 have colons too, but do not end in one that stands alone.
    word.ends_with(':') && !word.ends_with("::") || word.contains('[') && !word.starts_with('[')
}

/// The time at the beginning, in microseconds since 1970, and what is behind it and its space.
fn time<'a>(rest: &'a str, around: &MessageContext<'_>) -> Option<(i64, &'a str)> {
    let rest = rest.trim_start_matches(' ');
    let (word, behind) = rest.split_once(' ')?;
    if word.starts_with(|first: char| first.is_ascii_digit()) {
        return Some((rfc3339(word)?, behind));
    }
    let month = word;
    let mut next = behind.trim_start_matches(' ');
    let mut word = || {
        let (word, behind) = next.split_once(' ').unwrap_or((next, ""));
        next = behind.trim_start_matches(' ');
        word
    };
    let day = word();
    let mut clock = word();
    let mut year: Option<i64> = None;
    if clock.len() == 4 {
        year = Some(clock.parse().ok()?);
        clock = word();
    }
    // Some devices put a colon behind it.
    let clock = clock.strip_suffix(':').unwrap_or(clock);
    Some((local_time(year, month, day, clock, around.utc_offset_minutes, around)?, next))
}

/// A time as devices write it, in microseconds since 1970: `Jan`, `2`, `00:00:01.25`, and how far its clock is ahead of UTC.
/// Without a year it is in the one in which it is nearest to its arrival: a message of December may come in January.
pub(super) fn local_time(
    year: Option<i64>,
    month: &str,
    day: &str,
    clock: &str,
    offset_minutes: i16,
    around: &MessageContext<'_>,
) -> Option<i64> {
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
    let day: u8 = day.parse().ok()?;
    let clock = if clock.len() == 7 { Cow::Owned(format!("0{clock}")) } else { Cow::Borrowed(clock) };
    let (sign, offset) = (if offset_minutes < 0 { '-' } else { '+' }, offset_minutes.unsigned_abs());
    let in_year = |year: i64| {
        let zone = format!("{sign}{:02}:{:02}", offset / 60, offset % 60);
        parse_time(&format!("{year:04}-{month:02}-{day:02}T{clock}{zone}"))
    };
    match year {
        Some(year) => in_year(year),
        None => {
            let arrived = 1970 + around.arrival_micros.div_euclid(31_556_952_000_000);
            let candidates = (arrived - 1..=arrived + 1).filter_map(in_year);
            candidates.min_by_key(|micros| micros.abs_diff(around.arrival_micros))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// 2026-01-02T00:00:00Z
    const ARRIVAL: i64 = 1_767_312_000_000_000;

    fn event(raw: impl AsRef<[u8]>) -> Value {
        let around = MessageContext {
            arrival_micros: ARRIVAL,
            utc_offset_minutes: 0,
            peer: "10.0.0.1",
            is_cut: false,
        };
        let mut out = Vec::new();
        let is_good = write_event(raw.as_ref(), &around, &mut out);
        let mut event: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(is_good, event.get("malformed").is_none());
        assert_eq!(event.as_object_mut().unwrap().remove("peer"), Some(json!("10.0.0.1")));
        event
    }

    /// Facility, severity and number, then what else.
    fn with_priority(names: (&str, &str, u8), others: Value) -> Value {
        let mut event = others;
        event["facility"] = names.0.into();
        event["severity"] = names.1.into();
        event["severity_number"] = names.2.into();
        event
    }

    #[test]
    fn the_examples_of_rfc_5424_are_read() {
        assert_eq!(
            event(
                "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed"
            ),
            with_priority(
                ("auth", "crit", 2),
                json!({
                    "time": "2003-10-11T22:14:15.003Z", "host": "mymachine.example.com", "app": "su", "msgid": "ID47",
                    "message": "'su root' failed",
                })
            )
        );
        assert_eq!(
            event(concat!(
                "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - ",
                "[exampleSDID@32473 iut=\"3\" eventSource=\"App\\\"l\\]\\\\ic\\a\"][p@1 ip=\"a\" ip=\"b\" x=\"\"][e] hi [x]"
            )),
            with_priority(
                ("local4", "notice", 5),
                json!({
                    "time": "2003-08-24T12:14:15.000003Z", "host": "192.0.2.1", "app": "myproc", "pid": "8710",
                    "data": {"exampleSDID@32473": {"iut": "3", "eventSource": "App\"l]\\ic\\a"},
                             "p@1": {"ip": ["a", "b"], "x": ""}, "e": {}},
                    "message": "hi [x]",
                })
            )
        );
        assert_eq!(event("<0>1 - - - - - -"), with_priority(("kern", "emerg", 0), json!({"message": ""})));
    }

    #[test]
    fn sixtieth_second_is_a_time_only_where_a_leap_second_can_be() {
        let time = |raw: &str| event(raw)["time"].clone();
        for raw in [
            "<13>1 2026-01-01T10:00:60Z web app - - - x",
            "<13>1 2016-12-31T23:59:60+02:00 web app - - - x",
            "<13>Jan  1 10:00:60 web app: x",
            "<13>Jan  1 2026 10:00:60 web app: x",
            "<13>2026-01-01T10:00:60Z web app: x",
        ] {
            assert!(event(raw).get("malformed").is_some(), "{raw}");
        }
        assert_eq!(time("<13>1 2016-12-31T23:59:60.5Z web app - - - x"), "2017-01-01T00:00:00.500Z");
        assert_eq!(time("<13>1 2017-01-01T01:59:60+02:00 web app - - - x"), "2017-01-01T00:00:00.000Z");
        assert_eq!(time("<13>Dec 31 23:59:60 web app: x"), "2026-01-01T00:00:00.000Z");
        assert_eq!(time("<13>Jun 30 2015 23:59:60 web app: x"), "2015-07-01T00:00:00.000Z");
    }

    #[test]
    fn what_is_sent_as_rfc_3164_is_read() {
        let user = |others| with_priority(("user", "notice", 5), others);
        for (raw, expected) in [
            (
                "<13>Dec 31 23:59:59 web su[7]: 'su root' failed",
                json!({"time": "2025-12-31T23:59:59.000Z", "host": "web", "app": "su", "pid": "7",
                       "message": "'su root' failed"}),
            ),
            (
                "<13>Jan  2 00:00:01.25 web cron: a: b",
                json!({"time": "2026-01-02T00:00:01.250Z", "host": "web", "app": "cron", "message": "a: b"}),
            ),
            (
                "<13>Jan  2 2019 00:00:01: fe80::1 x",
                json!({"time": "2019-01-02T00:00:01.000Z", "host": "fe80::1", "message": "x"}),
            ),
            (
                "<13>Jan 2 00:00:01 su[7]: x",
                json!({"time": "2026-01-02T00:00:01.000Z", "app": "su", "pid": "7", "message": "x"}),
            ),
            (
                "<13>2026-01-02T00:00:00.5+01:00 web app: x",
                json!({"time": "2026-01-01T23:00:00.500Z", "host": "web", "app": "app", "message": "x"}),
            ),
            (
                "<13>Jan  2 00:00:01 web no tag here",
                json!({"time": "2026-01-02T00:00:01.000Z", "host": "web", "message": "no tag here"}),
            ),
        ] {
            assert_eq!(event(raw), user(expected), "{raw}");
        }
        let east =
            MessageContext { arrival_micros: ARRIVAL, utc_offset_minutes: -90, peer: "", is_cut: false };
        let mut out = Vec::new();
        write_event(b"<13>Jan  1 22:00:00 h a: x", &east, &mut out);
        assert!(
            out.starts_with(b"{\"time\":\"2026-01-01T23:30:00.000Z\""),
            "{}",
            String::from_utf8_lossy(&out)
        );
    }

    #[test]
    fn message_without_a_time_is_content() {
        let user = |others| with_priority(("user", "err", 3), others);
        for (raw, expected) in [
            ("<11>msg", json!({"message": "msg"})),
            ("<11>disk is full: /dev/sda1", json!({"message": "disk is full: /dev/sda1"})),
            ("<11>su[7]: x", json!({"app": "su", "pid": "7", "message": "x"})),
            ("<11>app: x", json!({"app": "app", "message": "x"})),
            ("<11>Foo  2 00:00:01 h a: x", json!({"message": "Foo  2 00:00:01 h a: x"})),
            ("<11>may you find this", json!({"message": "may you find this"})),
            ("<11>", json!({"message": ""})),
        ] {
            assert_eq!(event(raw), user(expected), "{raw}");
        }
    }

    #[test]
    fn forms_of_ciscos_devices_are_read() {
        let local = |others| with_priority(("local7", "notice", 5), others);
        for (raw, expected) in [
            (
                "<189>123: *Jan  2 00:00:01.123: %SYS-5-CONFIG_I: Configured from console",
                json!({"sequence": "123", "time": "2026-01-02T00:00:01.123Z", "msgid": "SYS-5-CONFIG_I",
                       "message": "Configured from console"}),
            ),
            (
                "<189>45: router1: 46: .Jan 2 00:00:01.123 UTC: %LINK-3-UPDOWN: Interface a, changed: up",
                json!({"sequence": "46", "host": "router1", "time": "2026-01-02T00:00:01.123Z",
                       "msgid": "LINK-3-UPDOWN", "message": "Interface a, changed: up"}),
            ),
            (
                "<189>Jan 02 2025 00:00:01: %ASA-6-302013: Built outbound",
                json!({"time": "2025-01-02T00:00:01.000Z", "msgid": "ASA-6-302013", "message": "Built outbound"}),
            ),
            (
                "<189>Jan 02 2025 00:00:01 fw1 : %ASA-6-302013: Built",
                json!({"time": "2025-01-02T00:00:01.000Z", "host": "fw1", "msgid": "ASA-6-302013",
                       "message": "Built"}),
            ),
            (
                "<189>: 2025 Jan  2 00:00:01 UTC: %ETHPORT-5-IF_UP: up",
                json!({"time": "2025-01-02T00:00:01.000Z", "msgid": "ETHPORT-5-IF_UP", "message": "up"}),
            ),
            // The offset of "CEST" is not defined.
            (
                "<189>: 2025 Jan  2 00:00:01 CEST: %ETHPORT-5-IF_UP: up",
                json!({"msgid": "ETHPORT-5-IF_UP", "message": "up"}),
            ),
            ("<189>%ASA-6-302013: Built", json!({"msgid": "ASA-6-302013", "message": "Built"})),
            ("<189>cpu at 95%-5-x: hot", json!({"message": "cpu at 95%-5-x: hot"})),
        ] {
            assert_eq!(event(raw), local(expected), "{raw}");
        }
    }

    #[test]
    fn what_is_malformed_is_kept() {
        for raw in [
            "",
            "hello",
            "<192>1 - - - - - -",
            "<1234>x",
            "<>x",
            "<+1>x",
            "<13>2026-13-01T00:00:00Z h a: x",
            "<13>Feb 30 00:00:01 h a: x",
            "<13>1 - - - -",
            "<13>1 - - - - - x",
            "<13>1 2026 - - - - -",
            "<13>1 yesterday - - - - -",
            "<13>1 - - - - - [",
            "<13>1 - - - - - [a",
            "<13>1 - - - - - [a x=\"]",
            "<13>1 - - - - - [a x=\"\"]y",
            "<13>1 - - - - - [a][a]",
            "<13>1 - - - - - [a x]",
        ] {
            let event = event(raw);
            assert_eq!(event["raw"], raw);
            assert_eq!(event.get("severity").is_some(), raw.starts_with("<13>"), "{event}");
        }
        let event = event(b"<13>Jan  2 00:00:01 h a: \xff");
        assert_eq!(event["message"], "\u{fffd}");
    }

    /// The escaped text, as in RFC 5424.
    fn sd_text(value: &str) -> String {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace(']', "\\]")
    }

    proptest! {
        #[test]
        fn any_bytes_become_an_event(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            event(&bytes);
        }

        #[test]
        fn almost_messages_become_events(text in "<[0-9]{1,3}>1? ?[-0-9TZ:. ]{0,20}[\\[\\]\"\\\\= a-c:]{0,30}") {
            let event = event(&text);
            prop_assert!(event.get("malformed").is_none() || event["raw"] == text.as_str());
        }

        #[test]
        fn structured_data_is_read_back(
            elements in prop::collection::btree_map("[a-z@0-9]{1,5}", prop::collection::btree_map("[a-zA-Z]{1,4}", "[\\PC\"\\\\\\]]{0,6}", 0..4), 1..4),
            message in "\\PC{0,10}",
        ) {
            let mut raw = "<13>1 - h a - - ".to_owned();
            for (id, parameters) in &elements {
                raw += &format!("[{id}");
                for (name, value) in parameters {
                    raw += &format!(" {name}=\"{}\"", sd_text(value));
                }
                raw += "]";
            }
            raw += &format!(" {message}");
            let event = event(&raw);
            prop_assert_eq!(&event["data"], &json!(elements));
            prop_assert_eq!(&event["message"], &json!(message.strip_prefix('\u{feff}').unwrap_or(&message)));
        }
    }
}
