//! Tests that no input from clients of `ws-query` causes a fault, however it is split.

use proptest::prelude::*;

use super::{
    frames::{messages_frame, messages_of},
    stomp::{Frame, Reader, Received, Version},
};

fn version() -> impl Strategy<Value = Version> {
    prop::sample::select(&Version::ALL[..])
}

/// Text that looks like frames often enough.
fn nearly_frames() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "CONNECT",
        "SEND",
        "MESSAGE",
        "\n",
        "\r\n",
        "\n\n",
        "\0",
        ":",
        "\\",
        "\\n",
        "\\c",
        "a:b\n",
        "content-length:",
        "3",
        "99999999999999999999",
        "-1",
        "é",
        "x",
    ]);
    let piece = prop_oneof![9 => piece.prop_map(str::to_owned), 1 => any::<String>()];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Cuts a text where `cuts` say.
fn cut(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(characters.len() + 1)).collect();
    places.push(characters.len());
    places.sort_unstable();
    let mut from = 0;
    let piece = |to| characters[std::mem::replace(&mut from, to)..to].iter().collect();
    places.into_iter().map(piece).collect()
}

/// Frames up to the first fault.
fn read(messages: &[String], version: Version) -> (Vec<Frame>, bool) {
    let mut reader = Reader::new(200);
    let mut frames = Vec::new();
    for message in messages {
        reader.push(message);
        loop {
            match reader.next(version) {
                Ok(Some(Received::Frame(frame))) => frames.push(frame),
                Ok(Some(Received::HeartBeat)) => {}
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_they_are_cut(
        text in nearly_frames(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8), version in version(),
    ) {
        // The bound on what waits is on bytes that came, so a fault may come sooner in pieces; without one, all is same.
        let (whole, whole_fails) = read(std::slice::from_ref(&text), version);
        let (pieces, pieces_fail) = read(&cut(&text, &cuts), version);
        if !whole_fails && !pieces_fail {
            prop_assert_eq!(&pieces, &whole);
        }
        prop_assert!(whole.starts_with(&pieces) || pieces.starts_with(&whole));
    }

    #[test]
    fn what_is_written_is_read(
        fields in prop::collection::vec(("[a-z:\\\\\n]{1,8}", "[^\0\r]{0,20}"), 0..5), body in "[^\0]{0,50}",
    ) {
        let frame = fields.iter().fold(Frame::new("MESSAGE"), |frame, (name, value)| frame.with(name, value.as_str()));
        let frame = frame.body("text/plain", body);
        let mut reader = Reader::new(10_000);
        reader.push(&frame.to_text(Version::V1_2));
        prop_assert_eq!(reader.next(Version::V1_2), Ok(Some(Received::Frame(frame))));
    }

    #[test]
    fn messages_come_out_of_their_frames(texts in prop::collection::vec(any::<String>(), 0..5), odd in any::<String>()) {
        let frame = messages_frame(texts.iter().map(String::as_str));
        prop_assert!(!frame.contains(['\n', '\r']));
        prop_assert_eq!(messages_of(&frame[1..]), Some(texts));
        let _ = messages_of(&odd);
    }
}
