//! The cursor of a page: where the next one begins, and as of when.
//!
//! It is the hexadecimal form of a checksum and a JSON object, and belongs to one search: with other words, streams, times or
//! another order it is refused.

use std::fmt::Write;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};

use super::request::{Moments, SearchRequest};

/// The version of the form.
const VERSION: u8 = 2;

#[derive(Clone)]
pub(super) struct Cursor {
    pub(super) moments: Moments,
    /// By stream.
    pub(super) positions: Vec<u64>,
    /// The key of the last hit so far, see [`super::scan::Ranking`].
    pub(super) last: LastHit,
    pub(super) total: Option<u64>,
    /// By stream the statistics of scores, if hits are sorted by them.
    pub(super) statistics: Vec<Vec<u8>>,
}

/// The last hit of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastHit {
    /// Its place in the order, as bytes that compare so.
    #[serde(rename = "k")]
    pub(super) key: Box<[u8]>,
    /// Its time and offset, where hits are ordered by the time of arrival.
    #[serde(rename = "a")]
    pub(super) arrival: Option<(i64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct Form {
    v: u8,
    /// The checksum of what is asked.
    r: u32,
    m: Moments,
    p: Vec<u64>,
    l: LastHit,
    c: Option<u64>,
    s: Vec<Vec<u8>>,
}

impl Cursor {
    /// The cursor as text.
    pub(super) fn text(&self, request: &SearchRequest) -> String {
        let (r, p, l) = (checksum(request), self.positions.clone(), self.last.clone());
        let form = Form { v: VERSION, r, m: self.moments, p, l, c: self.total, s: self.statistics.clone() };
        written(&form)
    }

    /// Reads the cursor of a page of the same search.
    pub(super) fn parse(text: &str, request: &SearchRequest) -> Result<Cursor, SqlError> {
        let form: Form = parsed(text)?;
        if form.v != VERSION {
            return Err(refused("the cursor is of another version of the server"));
        }
        if form.r != checksum(request) || form.p.len() != request.streams.len() {
            return Err(refused("the cursor belongs to another search"));
        }
        let Form { m: moments, p: positions, l: last, c: total, s: statistics, .. } = form;
        Ok(Cursor { moments, positions, last, total, statistics })
    }
}

/// A form of a cursor as text.
pub(super) fn written(form: &impl Serialize) -> String {
    // Numbers, texts and lists of them always have a JSON form.
    let json = serde_json::to_vec(form).unwrap_or_default();
    let mut text = String::with_capacity(8 + 2 * json.len());
    let _ = write!(text, "{:08x}", crc32c::crc32c(&json));
    for byte in json {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The form that a text of [`written`] has.
pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, SqlError> {
    let damaged = || refused("the cursor is not one that an answer had");
    let (sum, json) = text.split_at_checked(8).ok_or_else(damaged)?;
    let sum = u32::from_str_radix(sum, 16).map_err(|_| damaged())?;
    let json = bytes_of_hex(json).ok_or_else(damaged)?;
    if crc32c::crc32c(&json) != sum {
        return Err(damaged());
    }
    serde_json::from_slice(&json).map_err(|_| damaged())
}

/// The error of a cursor that is not accepted.
pub(super) fn refused(message: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Invalid, message.to_owned())
        .with_hint("Repeat the request of the page before, with the `cursor` of its answer added.")
}

/// The checksum of what decides which events match, and their order.
fn checksum(request: &SearchRequest) -> u32 {
    let SearchRequest { streams, query, queries, operator, from, to, time, sort, drills, .. } = request;
    let asked = (streams, (query, queries), operator, (from, to, time), sort, drills);
    crc32c::crc32c(format!("{asked:?}").as_bytes())
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use swiftwater_event::StreamName;

    use super::*;

    #[test]
    fn cursor_is_read_as_written_and_refused_for_another_search_or_when_damaged() {
        let request = SearchRequest::new(StreamName::new("logs").unwrap(), "timeout");
        let moments = Moments { now_micros: 5, from: Some(-1), to: None };
        let last = LastHit { key: Box::from([0, 255, 7]), arrival: Some((3, 4)) };
        let statistics = vec![vec![1, 200]];
        let cursor = Cursor {
            moments,
            positions: vec![9],
            last: last.clone(),
            total: Some(2),
            statistics: statistics.clone(),
        };
        let text = cursor.text(&request);
        let read = Cursor::parse(&text, &request).unwrap();
        assert_eq!((read.moments, read.positions, read.last, read.total), (moments, vec![9], last, Some(2)));
        assert_eq!(read.statistics, statistics);
        let other = SearchRequest { query: "timeouts".to_owned(), ..request.clone() };
        assert!(
            Cursor::parse(&text, &other).is_err_and(|error| error.to_string().contains("another search"))
        );
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            assert!(Cursor::parse(&String::from_utf8(bytes).unwrap(), &request).is_err(), "{at}");
        }
        for text in ["", "é", "00", "12345678", "12345678zz", "1234567800é"] {
            assert!(Cursor::parse(text, &request).is_err(), "{text}");
        }
    }
}
