//! Parses the messages of Cisco's devices after the priority. They have no RFC 3164 header, but parts that end in a colon,
//! before the name of the message.
//!
//! ```text
//! SEQUENCE: HOST: *Jan  2 00:00:01.123 UTC: %SYS-5-CONFIG_I: message      IOS; each part may be missing
//! Jan 02 2026 00:00:01 HOST : %ASA-6-302013: message                     ASA
//! : 2026 Jan  2 00:00:01 UTC: %ETHPORT-5-IF_UP: message                  NX-OS
//! ```
//!
//! `*` and `.` before a time mean that no time server sets the device's clock. A zone other than UTC is known by a name
//! alone, which is ambiguous; the event then has no time of its own.

use super::message::{Message, MessageContext, local_time};

/// A message of this form; none where it is not.
pub(super) fn parse<'a>(rest: &'a str, around: &MessageContext<'_>) -> Option<Message<'a>> {
    let (header, msgid, text) = named(rest)?;
    let mut message = Message::default();
    (message.msgid, message.text) = (Some(msgid), text);
    for part in header.split(": ") {
        let part = part.trim_matches([' ', ':']);
        if part.is_empty() {
            continue;
        }
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            message.sequence = Some(part);
        } else if let Some((micros, host)) = time(part, around) {
            message.micros = micros;
            message.host = host.or(message.host);
        } else if !part.contains(' ') {
            message.host = Some(part);
        } else {
            return None;
        }
    }
    Some(message)
}

/// Splits a message into the text before `%NAME-5-NAME: `, that name, and the rest.
fn named(rest: &str) -> Option<(&str, &str, &str)> {
    let at = rest.find('%')?;
    let header = &rest[..at];
    let (name, text) = rest[at + 1..].split_once(':')?;
    let mut parts = name.rsplitn(3, '-');
    let (mnemonic, severity, facility) = (parts.next()?, parts.next()?, parts.next()?);
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    let is_message = is_name(mnemonic) && is_name(facility) && matches!(severity.as_bytes(), [b'0'..=b'7']);
    let ends_part = header.trim_end().is_empty() || header.trim_end().ends_with(':');
    (is_message && ends_part).then(|| (header, name, text.strip_prefix(' ').unwrap_or(text)))
}

/// A time, if it is certain, and the host behind it, if there is one. None where the part is no time.
fn time<'a>(part: &'a str, around: &MessageContext<'_>) -> Option<(Option<i64>, Option<&'a str>)> {
    let mut words = part.trim_start_matches(['*', '.']).split_ascii_whitespace().peekable();
    let is_year = |word: &str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let before = words.next_if(|word| is_year(word));
    let (month, day) = (words.next()?, words.next()?);
    let year = before.or_else(|| words.next_if(|word| is_year(word)));
    let year = year.and_then(|year| year.parse().ok());
    let clock = words.next()?;
    // The zone does not decide if it is a time at all.
    let micros = local_time(year, month, day, clock, around.utc_offset_minutes, around)?;
    let behind: Vec<&str> = words.collect();
    let is_utc = |word: &str| matches!(word, "UTC" | "GMT" | "Z");
    let is_zone =
        |word: &str| (2..=5).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase());
    match behind[..] {
        [] => Some((Some(micros), None)),
        [zone] | [zone, _] if is_zone(zone) => {
            let micros = is_utc(zone).then(|| local_time(year, month, day, clock, 0, around)).flatten();
            Some((micros, behind.get(1).copied()))
        }
        [host] => Some((Some(micros), Some(host))),
        _ => None,
    }
}
