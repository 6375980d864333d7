//! Any bytes as what comes over a syslog connection, in pieces of any size: nothing panics, pieces change nothing, no
//! message is longer than may be, and each becomes one event, on one line.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The files stand by themselves: the whole server would take minutes to build, and none of it is asked here.
#[path = "../../crates/server/src/syslog/cisco.rs"]
mod cisco;
#[allow(dead_code)]
#[path = "../../crates/server/src/syslog/frames.rs"]
mod frames;
#[path = "../../crates/server/src/syslog/message.rs"]
mod message;
#[allow(dead_code)]
#[path = "../../crates/server/src/wire/time.rs"]
mod time;

/// The module in which `message` expects times.
mod wire {
    pub(crate) use crate::time::parse_time;
}

use frames::{Frame, Frames};
use message::{MessageContext, write_event};

/// The limit of a message; small, so that it is met.
const MESSAGE_BYTES_MAX: usize = 200;

fuzz_target!(|input: (u8, i64, i16, &[u8])| {
    let (size, arrival_micros, utc_offset_minutes, bytes) = input;
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(whole, read(bytes, usize::from(size) + 1));
    for (bytes, is_cut) in whole {
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
        let around = MessageContext {
            // The times are of the years 1 to 9999, and the zones are possible ones.
            arrival_micros: arrival_micros % 250_000_000_000_000_000,
            utc_offset_minutes: utc_offset_minutes % 1440,
            peer: "::1",
            is_cut,
        };
        let mut out = Vec::new();
        let is_good = write_event(&bytes, &around, &mut out);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        let event: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(event.get("malformed").is_none(), is_good);
        assert!(event["message"].is_string() || event["raw"] == *String::from_utf8_lossy(&bytes));
    }
});

fn read(bytes: &[u8], piece: usize) -> Vec<(Vec<u8>, bool)> {
    let (mut frames, mut found) = (Frames::new(MESSAGE_BYTES_MAX), Vec::new());
    let mut give = |frame: Frame<'_>| found.push((frame.bytes.to_vec(), frame.is_cut));
    bytes.chunks(piece).for_each(|piece| frames.push(piece, &mut give));
    frames.finish(&mut give);
    found
}
