//! Reads and writes STOMP frames (versions 1.0 to 1.2), which carry a [`super::conversation`].
//!
//! ```text
//! frame  = COMMAND EOL *( name ":" value EOL ) EOL *OCTET NUL *EOL        EOL = [CR] LF
//! ```
//!
//! A frame may come in several messages, and several frames in one. The bytes of an incomplete frame are bounded, and so are
//! its header fields. Line ends between frames are heart-beats.

use std::fmt::Write;

/// Header fields of one frame; more are refused.
const FIELDS_MAX: usize = 64;

/// A version of the protocol; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V1_0,
    V1_1,
    V1_2,
}

impl Version {
    /// All, the best one last.
    pub(super) const ALL: [Version; 3] = [Version::V1_0, Version::V1_1, Version::V1_2];

    pub(super) fn name(self) -> &'static str {
        match self {
            Version::V1_0 => "1.0",
            Version::V1_1 => "1.1",
            Version::V1_2 => "1.2",
        }
    }

    /// The best one that a client knows who says this of itself; who says nothing speaks 1.0.
    pub(super) fn agreed(accepted: Option<&str>) -> Option<Version> {
        let Some(accepted) = accepted else { return Some(Version::V1_0) };
        let knows = |version: &Version| accepted.split(',').any(|name| name.trim() == version.name());
        Version::ALL.into_iter().rev().find(knows)
    }

    /// The names of the subprotocols of a WebSocket, best first.
    pub(super) const PROTOCOLS: [&'static str; 3] = ["v12.stomp", "v11.stomp", "v10.stomp"];
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) command: String,
    fields: Vec<(String, String)>,
    pub(super) body: String,
}

impl Frame {
    pub(super) fn new(command: &str) -> Frame {
        Frame { command: command.to_owned(), fields: Vec::new(), body: String::new() }
    }

    /// Adds a header field.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Frame {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the body and its length.
    pub(super) fn body(mut self, media_type: &str, body: String) -> Frame {
        let length = body.len().to_string();
        self.body = body;
        self.with("content-type", media_type).with("content-length", length)
    }

    /// A header field; where one is repeated, the first counts.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// True if values are written as they are: 1.0 knows no escapes, and CONNECTED is to be read by it too.
    fn is_plain(&self, version: Version) -> bool {
        version == Version::V1_0 || matches!(self.command.as_str(), "CONNECT" | "STOMP" | "CONNECTED")
    }

    /// The frame as text.
    pub(super) fn to_text(&self, version: Version) -> String {
        let mut text = String::with_capacity(self.body.len() + 256);
        text.push_str(&self.command);
        text.push('\n');
        for (name, value) in &self.fields {
            if self.is_plain(version) {
                // Line ends would end the field, so they are not sent.
                let one_line = |text: &str| text.replace(['\r', '\n'], " ");
                let _ = writeln!(text, "{}:{}", one_line(name), one_line(value));
            } else {
                escape(name, version, &mut text);
                text.push(':');
                escape(value, version, &mut text);
                text.push('\n');
            }
        }
        text.push('\n');
        text.push_str(&self.body);
        text.push('\0');
        text
    }
}

fn escape(value: &str, version: Version, out: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            ':' => out.push_str("\\c"),
            '\r' if version == Version::V1_2 => out.push_str("\\r"),
            '\0' => out.push(' '),
            other => out.push(other),
        }
    }
}

fn unescape(value: &str, version: Version) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match characters.next() {
            Some('\\') => '\\',
            Some('n') => '\n',
            Some('c') => ':',
            Some('r') if version == Version::V1_2 => '\r',
            _ => return Err("a header field has an escape that is not known".to_owned()),
        });
    }
    Ok(out)
}

/// A message from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Received {
    /// A line end: the client is there.
    HeartBeat,
    Frame(Frame),
}

/// Frames out of messages.
#[derive(Debug)]
pub(super) struct Reader {
    waiting: Vec<u8>,
    bytes_max: usize,
    /// True if the waiting bytes are no complete frame before a further NUL or line end comes.
    needs_more: bool,
}

impl Reader {
    /// Frames may have `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Reader {
        Reader { waiting: Vec::new(), bytes_max, needs_more: true }
    }

    /// Takes a message.
    pub(super) fn push(&mut self, text: &str) {
        self.waiting.extend_from_slice(text.as_bytes());
        // A frame ends with NUL, a heart-beat is a line end; looking again before one came would find the same.
        self.needs_more &= !text.contains(['\0', '\n']);
    }

    /// The next frame, if it is whole; what is wrong with it, after which nothing more can be read.
    pub(super) fn next(&mut self, version: Version) -> Result<Option<Received>, String> {
        if self.needs_more {
            return self.check_size().map(|()| None);
        }
        let line_end = match self.waiting.as_slice() {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => 0,
        };
        if line_end > 0 {
            self.waiting.drain(..line_end);
            return Ok(Some(Received::HeartBeat));
        }
        match self.frame(version)? {
            Some((frame, bytes)) => {
                self.waiting.drain(..bytes);
                Ok(Some(Received::Frame(frame)))
            }
            None => {
                self.needs_more = true;
                self.check_size().map(|()| None)
            }
        }
    }

    fn check_size(&self) -> Result<(), String> {
        let (bytes, most) = (self.waiting.len(), self.bytes_max);
        if bytes <= most {
            return Ok(());
        }
        Err(format!("a frame has {bytes} bytes or more, limit is {most} (`bullet.message_bytes_max`)"))
    }

    /// A frame and its length, if it is there to its end.
    fn frame(&self, version: Version) -> Result<Option<(Frame, usize)>, String> {
        let bytes = self.waiting.as_slice();
        let mut at = 0;
        let mut next_line = || {
            let end = memchr::memchr(b'\n', &bytes[at..])? + at;
            let line = &bytes[at..end];
            at = end + 1;
            Some((line.strip_suffix(b"\r").unwrap_or(line), at))
        };
        let text = |line: &[u8]| {
            std::str::from_utf8(line).map(str::to_owned).map_err(|_| "a frame is not UTF-8".to_owned())
        };
        let Some((command, _)) = next_line() else {
            // A NUL before the first line's end can come of nothing that is a frame.
            return match bytes.contains(&0) {
                true => Err("a frame has no header".to_owned()),
                false => Ok(None),
            };
        };
        let mut frame = Frame::new(&text(command)?);
        let begin = loop {
            let Some((line, end)) = next_line() else { return Ok(None) };
            if line.is_empty() {
                break end;
            }
            let line = text(line)?;
            let (name, value) =
                line.split_once(':').ok_or_else(|| "a header field has no colon".to_owned())?;
            let (name, value) = if frame.is_plain(version) {
                (name.to_owned(), value.to_owned())
            } else {
                (unescape(name, version)?, unescape(value, version)?)
            };
            if frame.fields.len() >= FIELDS_MAX {
                return Err(format!("a frame has more than {FIELDS_MAX} header fields"));
            }
            frame.fields.push((name, value));
        };
        let rest = &bytes[begin..];
        let length = match frame.field("content-length") {
            None => memchr::memchr(0, rest),
            Some(length) => {
                let length: usize =
                    length.trim().parse().map_err(|_| "`content-length` is not a number".to_owned())?;
                if length > self.bytes_max {
                    let most = self.bytes_max;
                    return Err(format!(
                        "a body of {length} bytes was announced, limit is {most} (`bullet.message_bytes_max`)"
                    ));
                }
                match rest.get(length) {
                    Some(0) => Some(length),
                    Some(_) => return Err("a frame's body is not ended by NUL".to_owned()),
                    None => None,
                }
            }
        };
        let Some(length) = length else { return Ok(None) };
        frame.body = text(&rest[..length])?;
        Ok(Some((frame, begin + length + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(messages: &[&str], version: Version) -> Result<Vec<Received>, String> {
        let mut reader = Reader::new(1000);
        let mut received = Vec::new();
        for message in messages {
            reader.push(message);
            while let Some(one) = reader.next(version)? {
                received.push(one);
            }
        }
        Ok(received)
    }

    fn send(body: &str) -> Received {
        let frame = Frame::new("SEND").with("destination", "/a:b");
        Received::Frame(Frame { body: body.to_owned(), ..frame })
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let text = "\nSEND\r\ndestination:/a\\cb\r\n\r\nhello\0\n\nSEND\ndestination:/a\\cb\n\nyou\0";
        let beat = Received::HeartBeat;
        let expected = vec![beat.clone(), send("hello"), beat.clone(), beat, send("you")];
        assert_eq!(read(&[text], Version::V1_2).as_ref(), Ok(&expected));
        let single: Vec<String> = text.chars().map(String::from).collect();
        let single: Vec<&str> = single.iter().map(String::as_str).collect();
        // A line end that comes in two pieces is two heart-beats' worth at most; the frames are the same.
        let frames = |all: Vec<Received>| all.into_iter().filter(|one| *one != Received::HeartBeat);
        let got: Vec<Received> = frames(read(&single, Version::V1_1).unwrap()).collect();
        assert_eq!(got, frames(expected).collect::<Vec<_>>());
    }

    #[test]
    fn bodies_with_a_length_may_hold_anything() {
        let text = "SEND\ncontent-length:3\n\na\0b\0";
        let Ok(received) = read(&[text], Version::V1_2) else { panic!() };
        let [Received::Frame(frame)] = received.as_slice() else { panic!("{received:?}") };
        assert_eq!(frame.body, "a\0b");
        assert_eq!(read(&["SEND\ncontent-length:5\n\na\0b"], Version::V1_2), Ok(vec![]));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let check = |text: &str, told: &str| {
            let error = read(&[text], Version::V1_1).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        };
        check("\0", "no header");
        check("SEND\nnonsense\n\n\0", "no colon");
        check("SEND\na:\\t\n\n\0", "escape");
        check("SEND\na:\\r\n\n\0", "escape");
        check("SEND\ncontent-length:x\n\n\0", "not a number");
        check("SEND\ncontent-length:99999\n\n\0", "limit is 1000");
        check("SEND\ncontent-length:1\n\nab\0", "not ended by NUL");
        check(&"x".repeat(2000), "limit is 1000");
        check(&format!("SEND\n{}", "a:b\n".repeat(70)), "header fields");
    }

    #[test]
    fn written_frames_are_read_back() {
        for version in Version::ALL {
            let value = if version == Version::V1_0 { "plain" } else { "a:b\nc\\d" };
            let frame = Frame::new("MESSAGE").with("x", value).body("text/plain", "é\n".to_owned());
            let text = frame.to_text(version);
            assert_eq!(read(&[&text], version), Ok(vec![Received::Frame(frame)]));
        }
        assert_eq!(Frame::new("CONNECTED").with("a", "b:c").to_text(Version::V1_2), "CONNECTED\na:b:c\n\n\0");
    }

    #[test]
    fn best_common_version_is_agreed() {
        assert_eq!(Version::agreed(None), Some(Version::V1_0));
        assert_eq!(Version::agreed(Some("1.0, 1.1")), Some(Version::V1_1));
        assert_eq!(Version::agreed(Some("1.2,1.1,2.0")), Some(Version::V1_2));
        assert_eq!(Version::agreed(Some("2.0")), None);
    }
}
