//! Splits a TCP connection into syslog messages (RFC 6587). Each message either follows its length (`11 <13>1 - - …`), or
//! ends with a newline or a zero byte. The first byte of each message shows which, because no message begins with a digit.
//!
//! A message longer than the limit is cut to its beginning, and the rest is skipped; nothing beyond that is ever buffered.

/// Digits of a length, at most.
const LENGTH_DIGITS_MAX: usize = 10;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) bytes: &'a [u8],
    /// True if the frame was longer.
    pub(super) is_cut: bool,
}

/// The connection's bytes, as they come.
#[derive(Debug)]
pub(super) struct Frames {
    /// The beginning of a message whose end is not there yet.
    partial: Vec<u8>,
    state: State,
    message_bytes_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The state before a message.
    Begin,
    /// The state within a length, which is in `partial`.
    Length,
    /// The state within a message of which so many bytes are to come.
    Counted(u64),
    /// The state within a line.
    Line,
}

impl Frames {
    pub(super) fn new(message_bytes_max: usize) -> Frames {
        Frames { partial: Vec::new(), state: State::Begin, message_bytes_max }
    }

    /// Reads on, and gives each message that is complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut give: impl FnMut(Frame<'_>)) {
        while let Some(&first) = bytes.first() {
            match self.state {
                State::Begin => match first {
                    // Line ends, and bytes that some senders add after a counted message.
                    b'\n' | b'\r' | 0 | b' ' => bytes = &bytes[1..],
                    b'1'..=b'9' => self.state = State::Length,
                    _ => self.state = State::Line,
                },
                State::Length => match first {
                    b'0'..=b'9' if self.partial.len() < LENGTH_DIGITS_MAX => {
                        self.partial.push(first);
                        bytes = &bytes[1..];
                    }
                    b' ' => {
                        let length = self
                            .partial
                            .iter()
                            .fold(0, |length, digit| length * 10 + u64::from(digit - b'0'));
                        self.partial.clear();
                        self.state = State::Counted(length);
                        bytes = &bytes[1..];
                    }
                    // It was no length, but the beginning of a line.
                    _ => self.state = State::Line,
                },
                State::Counted(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    self.push_bounded(&bytes[..taken]);
                    bytes = &bytes[taken..];
                    let left = left - taken as u64;
                    self.state = State::Counted(left);
                    if left == 0 {
                        self.end(&mut give);
                    }
                }
                State::Line => match memchr::memchr2(b'\n', 0, bytes) {
                    Some(end) => {
                        self.push_bounded(&bytes[..end]);
                        bytes = &bytes[end + 1..];
                        self.end(&mut give);
                    }
                    None => {
                        self.push_bounded(bytes);
                        bytes = &[];
                    }
                },
            }
        }
    }

    /// The connection is at its end: what has no end of its own ends there.
    pub(super) fn finish(&mut self, mut give: impl FnMut(Frame<'_>)) {
        match self.state {
            State::Begin => {}
            State::Counted(_) => {
                let mut bytes = std::mem::take(&mut self.partial);
                bytes.truncate(self.message_bytes_max);
                give(Frame { bytes: &bytes, is_cut: true });
                self.state = State::Begin;
            }
            State::Length | State::Line => self.end(&mut give),
        }
    }

    /// Appends bytes, up to one more than the limit, which shows that there was more.
    fn push_bounded(&mut self, bytes: &[u8]) {
        let room = (self.message_bytes_max + 1).saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    fn end(&mut self, give: &mut impl FnMut(Frame<'_>)) {
        let is_cut = self.partial.len() > self.message_bytes_max;
        self.partial.truncate(self.message_bytes_max);
        let bytes = without_end(&self.partial);
        if !bytes.is_empty() {
            give(Frame { bytes, is_cut });
        }
        self.partial.clear();
        self.state = State::Begin;
    }
}

/// A message without the line's end, or the zero, that some senders put behind it.
pub(super) fn without_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0)).map_or(0, |last| last + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_cut_off_at_the_end_is_no_longer_than_a_message_may_be() {
        let (text, is_cut) = frames(b"40 0123456789012345678901234", 7).remove(0);
        assert_eq!((&*text, is_cut), ("01234567890123456789", true));
    }

    fn frames(bytes: &[u8], piece: usize) -> Vec<(String, bool)> {
        let mut frames = Frames::new(20);
        let mut found = Vec::new();
        let mut give = |frame: Frame<'_>| {
            found.push((String::from_utf8_lossy(frame.bytes).into_owned(), frame.is_cut));
        };
        bytes.chunks(piece).for_each(|piece| frames.push(piece, &mut give));
        frames.finish(&mut give);
        found
    }

    fn check(text: &str, expected: &[(&str, bool)]) {
        let expected: Vec<_> = expected.iter().map(|(text, cut)| ((*text).to_owned(), *cut)).collect();
        for piece in 1..=text.len() {
            assert_eq!(frames(text.as_bytes(), piece), expected, "{text:?} in pieces of {piece}");
        }
    }

    #[test]
    fn messages_come_with_lengths_and_on_lines() {
        check(
            "5 <1>ab4 <1>a<2>x\n<3>y\r\n\n\0<4>z",
            &[("<1>ab", false), ("<1>a", false), ("<2>x", false), ("<3>y", false), ("<4>z", false)],
        );
        // Python's SysLogHandler ends each message with a zero.
        check("<1>a\0<2>b\0<3>c\0", &[("<1>a", false), ("<2>b", false), ("<3>c", false)]);
        check("7 <1>a\nb\n<2>c", &[("<1>a\nb", false), ("<2>c", false)]);
        // No length, but a line that begins with a digit.
        check("12:30 hello\n5 <1>ab", &[("12:30 hello", false), ("<1>ab", false)]);
        check("12345678901234 x\n", &[("12345678901234 x", false)]);
    }

    #[test]
    fn what_is_too_long_is_cut_and_the_next_is_whole() {
        let long = "x".repeat(30);
        let cut = &"x".repeat(20)[..];
        check(&format!("{long}\n<1>a\n"), &[(cut, true), ("<1>a", false)]);
        check(&format!("30 {long}5 <1>ab"), &[(cut, true), ("<1>ab", false)]);
        check("9 <1>a", &[("<1>a", true)]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in prop::collection::vec(prop::sample::select(b"0159 <>a\n\0".to_vec()), 0..60),
                                     piece in 1usize..9) {
            prop_assert_eq!(frames(&bytes, piece), frames(&bytes, 64));
        }
    }
}
