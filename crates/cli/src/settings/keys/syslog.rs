//! The settings of syslog over TCP and UDP.

use std::net::SocketAddr;

use swiftwater_event::StreamName;

use super::{
    GIB, KIB, Key, Kind, MIB, Value,
    server::{address, address_or_empty},
};

pub(super) fn keys() -> Vec<Key> {
    vec![
        Key {
            name: "syslog.tcp_listen",
            doc: "Address and port for syslog over TCP (RFC 6587). Every client that reaches it can send. \
                  Empty: off.",
            kind: Kind::Text(address_or_empty),
            get: |settings| shown(settings.server.syslog.tcp_listen),
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.server.syslog.tcp_listen = address(&text).ok();
                }
            },
        },
        Key {
            name: "syslog.udp_listen",
            doc: "Address and port for syslog over UDP (RFC 5426). Every client that reaches it can send \
                  under any name. Empty: off.",
            kind: Kind::Text(address_or_empty),
            get: |settings| shown(settings.server.syslog.udp_listen),
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.server.syslog.udp_listen = address(&text).ok();
                }
            },
        },
        Key {
            name: "syslog.stream",
            doc: "Stream that receives the messages.",
            kind: Kind::Text(|text| StreamName::new(text).map(drop).map_err(|error| error.to_string())),
            get: |settings| Value::Text(settings.server.syslog.stream.to_string()),
            set: |settings, value| {
                if let Value::Text(text) = value
                    && let Ok(name) = StreamName::new(&text)
                {
                    settings.server.syslog.stream = name;
                }
            },
        },
        number!(
            "syslog.message_bytes_max",
            Kind::Bytes(480, 16 * MIB),
            server.syslog.message_bytes_max,
            "Maximum length of a message. A longer one is cut."
        ),
        number!(
            "syslog.connections_max",
            Kind::Count(1, 1_000_000),
            server.syslog.connections_max,
            "Maximum number of open connections. Further ones are closed."
        ),
        number!(
            "syslog.queue_bytes_max",
            Kind::Bytes(64 * KIB, GIB),
            server.syslog.queue_bytes_max,
            "Maximum bytes of datagrams that wait to become events. Those that do not fit are lost and \
             counted."
        ),
        Key {
            name: "syslog.utc_offset",
            doc: "Time zone of times without one, as in RFC 3164: `+02:00`.",
            kind: Kind::Text(|text| offset(text).map(drop)),
            get: |settings| {
                let minutes = settings.server.syslog.utc_offset_minutes;
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.unsigned_abs();
                Value::Text(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
            },
            set: |settings, value| {
                if let Value::Text(text) = value
                    && let Ok(minutes) = offset(&text)
                {
                    settings.server.syslog.utc_offset_minutes = minutes;
                }
            },
        },
    ]
}

fn shown(address: Option<SocketAddr>) -> Value {
    Value::Text(address.map(|address| address.to_string()).unwrap_or_default())
}

/// `+02:00` or `-09:30` as minutes.
fn offset(text: &str) -> Result<i16, String> {
    let why = || "not a time zone; write for example `+02:00`".to_owned();
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'+') => (1, &text[1..]),
        Some(b'-') => (-1, &text[1..]),
        _ => return Err(why()),
    };
    let two = |text: &str, most: i16| -> Option<i16> {
        let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_two && *number <= most)
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(why)?;
    match (two(hours, 23), two(minutes, 59)) {
        (Some(hours), Some(minutes)) => Ok(sign * (hours * 60 + minutes)),
        _ => Err(why()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read() {
        assert_eq!(offset("+02:00"), Ok(120));
        assert_eq!(offset("-09:30"), Ok(-570));
        for odd in ["", "2", "+2:00", "+24:00", "+02:60", "02:00", "+0200", "+é1:00"] {
            assert!(offset(odd).is_err(), "{odd}");
        }
    }
}
