//! Any text as what a client of Bullet's `ws-query` sends, STOMP frames and SockJS messages, in pieces of any size:
//! nothing panics, pieces change nothing, and what was read is read again from what is written of it.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The two files stand by themselves: the whole server would take minutes to build, and none of it is asked here.
#[allow(dead_code)]
#[path = "../../crates/server/src/bullet/frames.rs"]
mod frames;
#[allow(dead_code)]
#[path = "../../crates/server/src/bullet/stomp.rs"]
mod stomp;

use frames::{messages_frame, messages_of};
use stomp::{Frame, Reader, Received, Version};

/// The limit of a frame; small, so that it is met.
const BYTES_MAX: usize = 300;

fuzz_target!(|input: (u8, [u8; 3], &str)| {
    let (version, sizes, text) = input;
    let version = Version::ALL[usize::from(version) % Version::ALL.len()];
    let whole = read(&[text], version);
    let pieces = read(&cut(text, &sizes), version);
    // The limit is looked at whenever something came, so pieces may pass it where the whole does not wait at all.
    if let (Ok(whole), Ok(pieces)) = (&whole, &pieces) {
        assert_eq!(whole, pieces);
    }
    for frame in whole.iter().flatten() {
        again(frame, version);
    }
    // Fields are looked up in order, an `accept-version` too.
    if let Some(frame) = whole.iter().flatten().next() {
        let _ = Version::agreed(frame.field("accept-version"));
    }

    if let Some(messages) = messages_of(text) {
        let frame = messages_frame(messages.iter().map(String::as_str));
        assert_eq!(messages_of(&frame[1..]), Some(messages));
    }
});

/// The frames of messages, one after another, or what is wrong with one.
fn read(messages: &[&str], version: Version) -> Result<Vec<Frame>, String> {
    let mut reader = Reader::new(BYTES_MAX);
    let mut frames = Vec::new();
    for message in messages {
        reader.push(message);
        while let Some(received) = reader.next(version)? {
            if let Received::Frame(frame) = received {
                frames.push(frame);
            }
        }
    }
    Ok(frames)
}

/// Pieces of such sizes, over and over.
fn cut<'t>(mut text: &'t str, sizes: &[u8]) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    for &size in sizes.iter().cycle() {
        if text.is_empty() {
            break;
        }
        let (piece, rest) = text.split_at(text.ceil_char_boundary(1 + usize::from(size)).min(text.len()));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

/// A frame is read from its own text, but for what not every version can write.
fn again(frame: &Frame, version: Version) {
    let text = frame.to_text(version);
    assert!(text.ends_with('\0'));
    let again = read(&[&text], version);
    // Printed for debugging, a carriage return and a NUL are `\r` and `\0`.
    let printed = format!("{frame:?}");
    let is_plain = !printed.contains("\\r") && !printed.contains("\\0");
    if is_plain && text.len() <= BYTES_MAX {
        assert_eq!(again.as_deref(), Ok(std::slice::from_ref(frame)), "{text:?}");
    }
}
