//! Parses HTTP/1.1 answers from pieces of any size. This module does no I/O.
//!
//! Reads only the fields that determine a body's end; bodies are counted and skipped.

/// The most bytes that the head of an answer may have.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of the line of a chunk's size, or of one behind the last chunk.
const LINE_BYTES_MAX: usize = 8 << 10;

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// 200, 404 and so on.
    pub status: u16,
    /// The way its body ends.
    pub length: Length,
    /// True if another request may follow over the same connection.
    pub keep_alive: bool,
}

/// The way an answer's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The body ends after so many bytes.
    Known(u64),
    /// The body ends with an empty chunk.
    Chunked,
    /// The body ends with the connection.
    Close,
}

/// The reason why bytes are no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The first line has no status.
    #[error("the answer does not begin with a status line of HTTP/1.1")]
    Status,
    /// A length or a size of a chunk is no number.
    #[error("the answer's length is no number")]
    Length,
    /// A head or a line has no end.
    #[error("a head of the answer is too long")]
    Long,
}

impl Head {
    /// Reads a head, with or without the empty line at its end.
    ///
    /// # Errors
    ///
    /// Fails if the status is missing, or the length is wrong.
    pub fn parse(head: &[u8]) -> Result<Head, Malformed> {
        let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines.next().unwrap_or_default();
        let mut words = first.split(|byte| *byte == b' ');
        let version = words.next().unwrap_or_default();
        let status = words.next().and_then(number).filter(|status| (100..1000).contains(status));
        let (true, Some(status)) = (version.starts_with(b"HTTP/1."), status) else {
            return Err(Malformed::Status);
        };
        let (mut length, mut keep_alive) = (None, version != b"HTTP/1.0");
        for line in lines {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                // A body in chunks ends with them, whatever length is told.
                if length != Some(Length::Chunked) {
                    length = Some(Length::Known(number(value).ok_or(Malformed::Length)?));
                }
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                length = Some(Length::Chunked);
            } else if name.eq_ignore_ascii_case(b"connection") {
                keep_alive = value.eq_ignore_ascii_case(b"keep-alive")
                    || keep_alive && !value.eq_ignore_ascii_case(b"close");
            }
        }
        let bodiless = status < 200 || status == 204 || status == 304;
        let length = if bodiless { Length::Known(0) } else { length.unwrap_or(Length::Close) };
        Ok(Head { status: status as u16, length, keep_alive: keep_alive && length != Length::Close })
    }
}

/// A whole number in decimal digits.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// An answer that is being read.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The bytes of a head or a line that has not ended yet.
    partial: Vec<u8>,
    at: At,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Head,
    /// The bytes of the body that are to come.
    Body(Head, u64),
    ChunkSize(Head),
    /// The bytes of a chunk that are to come, its line break included.
    Chunk(Head, u64),
    /// The lines behind the last chunk.
    Trailer(Head),
    UntilClose(Head),
}

impl Reader {
    /// Reads the next bytes: the head once the answer is complete, and how many bytes belong to it.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no answer; the connection cannot be used any more.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(Option<Head>, usize), Malformed> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            match self.at {
                At::Head => {
                    let Some(used) = self.until(rest, b"\r\n\r\n", HEAD_BYTES_MAX)? else {
                        return Ok((None, bytes.len()));
                    };
                    taken += used;
                    let head = Head::parse(&self.partial)?;
                    self.partial.clear();
                    self.at = match head.length {
                        // An interim answer, such as `100 Continue`, is skipped.
                        _ if head.status < 200 => At::Head,
                        Length::Known(length) => At::Body(head, length),
                        Length::Chunked => At::ChunkSize(head),
                        Length::Close => At::UntilClose(head),
                    };
                }
                At::Body(head, 0) => {
                    self.at = At::Head;
                    return Ok((Some(head), taken));
                }
                At::Chunk(head, 0) => self.at = At::ChunkSize(head),
                At::Body(..) | At::Chunk(..) if rest.is_empty() => return Ok((None, taken)),
                At::Body(head, left) => {
                    let used = left.min(rest.len() as u64);
                    taken += used as usize;
                    self.at = At::Body(head, left - used);
                }
                At::Chunk(head, left) => {
                    let used = left.min(rest.len() as u64);
                    taken += used as usize;
                    self.at = At::Chunk(head, left - used);
                }
                At::ChunkSize(head) => {
                    let Some(used) = self.until(rest, b"\r\n", LINE_BYTES_MAX)? else {
                        return Ok((None, bytes.len()));
                    };
                    taken += used;
                    let line =
                        self.partial.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                    let size =
                        std::str::from_utf8(line).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
                    let size = size.filter(|size| *size < 1 << 60).ok_or(Malformed::Length)?;
                    self.partial.clear();
                    self.at = if size == 0 { At::Trailer(head) } else { At::Chunk(head, size + 2) };
                }
                At::Trailer(head) => {
                    let Some(used) = self.until(rest, b"\r\n", LINE_BYTES_MAX)? else {
                        return Ok((None, bytes.len()));
                    };
                    taken += used;
                    let is_last = self.partial == b"\r\n";
                    self.partial.clear();
                    if is_last {
                        self.at = At::Head;
                        return Ok((Some(head), taken));
                    }
                }
                At::UntilClose(_) => return Ok((None, bytes.len())),
            }
        }
    }

    /// The connection was closed: the head of the answer that this completes, if it does.
    pub(crate) fn close(&mut self) -> Option<Head> {
        match std::mem::take(self).at {
            At::UntilClose(head) => Some(head),
            _ => None,
        }
    }

    /// Gathers bytes up to and including an end; returns the number taken, none if the end is not among them.
    fn until(&mut self, bytes: &[u8], end: &[u8], most: usize) -> Result<Option<usize>, Malformed> {
        let before = self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(most)]);
        let from = (before + 1).saturating_sub(end.len());
        match memchr::memmem::find(&self.partial[from..], end) {
            Some(found) => {
                self.partial.truncate(from + found + end.len());
                Ok(Some(self.partial.len() - before))
            }
            None if self.partial.len() >= most => Err(Malformed::Long),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
        HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n\
        3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n\
        HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n\
        HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    /// Statuses and sizes of answers that come in pieces of so many bytes.
    fn read(bytes: &[u8], piece: usize) -> Vec<(u16, usize, bool)> {
        let (mut reader, mut answers, mut size) = (Reader::default(), Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() {
                let (head, taken) = reader.read(rest).unwrap();
                size += taken;
                rest = &rest[taken..];
                if let Some(head) = head {
                    answers.push((head.status, size, head.keep_alive));
                    size = 0;
                }
            }
        }
        answers
    }

    #[test]
    fn answers_are_the_same_however_they_are_cut() {
        let whole = read(ANSWERS, ANSWERS.len());
        let statuses: Vec<_> = whole.iter().map(|(status, _, keep_alive)| (*status, *keep_alive)).collect();
        assert_eq!(statuses, [(200, true), (201, true), (204, false), (404, false)]);
        assert_eq!(whole.iter().map(|(_, size, _)| size).sum::<usize>(), ANSWERS.len());
        for piece in 1..ANSWERS.len() {
            assert_eq!(read(ANSWERS, piece), whole, "{piece}");
        }
    }

    #[test]
    fn a_body_of_unknown_length_ends_with_the_connection() {
        let mut reader = Reader::default();
        assert_eq!(reader.read(b"HTTP/1.0 200 OK\r\n\r\nabc").unwrap(), (None, 22));
        assert_eq!(reader.close().map(|head| (head.status, head.keep_alive)), Some((200, false)));
        assert_eq!(reader.read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").unwrap().0, None);
        assert_eq!(reader.close(), None);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let fault = |bytes: &[u8]| Reader::default().read(bytes).unwrap_err();
        assert_eq!(fault(b"SSH-2.0-x\r\n\r\n"), Malformed::Status);
        assert_eq!(fault(b"HTTP/1.1 abc\r\n\r\n"), Malformed::Status);
        assert_eq!(fault(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), Malformed::Length);
        assert_eq!(fault(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"), Malformed::Length);
        assert_eq!(fault(&[b'a'; HEAD_BYTES_MAX + 1]), Malformed::Long);
    }
}
