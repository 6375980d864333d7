//! The frames of `/v1/ws`: what clients ask for, and what the server sends.
//!
//! ```text
//! {"id": 1, "op": "query", "text": "SELECT …", "parameters": [], "dialect": "native", "linger_ms": 0,
//!  "records_per_second_max": 1000, "credit": 1048576}
//! {"id": 2, "op": "attach", "query": "01J…", "after": 12, "credit": 1048576}
//! {"id": 3, "op": "status", "of": "streams", "interval_ms": 1000, "sort": "rate", "limit": 200}
//! {"id": 4, "op": "changes", "view": "users", "from": 1024}
//! {"id": 1, "op": "credit", "bytes": 65536}
//! {"id": 1, "op": "end"}
//! {"id": 9, "op": "ping"}
//!
//! {"hello": {…}}
//! {"id": 1, "event": "started", "data": {…}}
//! {"id": 1, "event": "emit", "number": 7, "data": {…}}
//! {"id": 1, "event": "emit", "number": 8, "more": true, "text": "{\"records\":[…"}      data that is longer than a frame
//! ```

use std::time::Duration;

use serde_json::{Map, Value, json};
use swiftwater_lang::{Dialect, plan::Literal};
use swiftwater_runtime::{QueryId, QuerySort, StreamSort};

use super::objects::ObjectsOf;
use crate::{
    parameters::cut,
    problem::Problem,
    queries::sort_of,
    query_request::{Source, dialect_of, literals},
    status::stream_sort_of,
};

/// The longest frame that the server sends, in bytes.
pub(super) const FRAME_BYTES_MAX: usize = 256 << 10;
/// The bytes of a piece of data that is longer than a frame. As a JSON string it may be twice as long.
const PIECE_BYTES: usize = FRAME_BYTES_MAX / 2 - 256;
/// The credit of a subscription that states none, in bytes.
pub(super) const CREDIT_BYTES: u64 = 1 << 20;
/// The most credit that a subscription can have.
pub(super) const CREDIT_BYTES_MAX: u64 = 1 << 40;
/// The largest identity, which a number of JavaScript can have.
const ID_MAX: u64 = (1 << 53) - 1;
/// The least and the most time between two statuses.
const INTERVAL_MS: std::ops::RangeInclusive<u64> = 250..=3_600_000;
/// Objects of one status.
const STATUS_LIMIT: usize = 200;
const STATUS_LIMIT_MAX: usize = 10_000;

/// A client's frame.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientFrame {
    pub(super) id: u64,
    pub(super) op: Op,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Op {
    Query(QueryFrame),
    Attach(AttachFrame),
    Status(StatusFrame),
    Changes(ChangesFrame),
    Credit(u64),
    End,
    Ping,
}

/// A live query.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueryFrame {
    pub(super) source: Source,
    pub(super) dialect: Option<Dialect>,
    pub(super) parameters: Vec<Literal>,
    /// Milliseconds for which it outlives the connection.
    pub(super) linger_ms: u64,
    pub(super) records_per_second_max: Option<u64>,
    pub(super) credit: u64,
}

/// A query that goes on without a reader.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AttachFrame {
    pub(super) query: QueryId,
    /// The number of the last emit that was read.
    pub(super) after: Option<u64>,
    pub(super) records_per_second_max: Option<u64>,
    pub(super) credit: u64,
}

/// The status of objects, again and again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StatusFrame {
    pub(super) of: StatusOf,
    pub(super) interval: Duration,
    pub(super) limit: usize,
    pub(super) credit: u64,
}

/// The changes of a view.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChangesFrame {
    pub(super) view: String,
    /// The position to go on from; none: from now on.
    pub(super) from: Option<u64>,
    pub(super) credit: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum StatusOf {
    Streams(StreamSort),
    Queries(QuerySort),
    Objects(ObjectsOf),
}

impl ClientFrame {
    /// The request of a frame, or the problem with the frame's identity, if it has one.
    pub(super) fn parse(text: &str) -> Result<ClientFrame, (Option<u64>, Problem)> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| (None, Problem::bad_request(format!("the frame is not valid JSON: {error}"))))?;
        let Value::Object(members) = value else {
            return Err((None, Problem::bad_request("the frame is not a JSON object")));
        };
        let mut members = Members(members);
        let id = match members.0.remove("id").as_ref().map(Value::as_u64) {
            Some(Some(id)) if id <= ID_MAX => id,
            Some(_) => {
                return Err((
                    None,
                    Problem::bad_request("member `id` is not a whole number from 0 to 2^53-1"),
                ));
            }
            None => return Err((None, Problem::bad_request("the frame has no member `id`"))),
        };
        let op = members.op().and_then(|op| members.done().map(|()| op));
        op.map(|op| ClientFrame { id, op }).map_err(|problem| (Some(id), problem))
    }
}

/// The members of a frame that were not read yet.
struct Members(Map<String, Value>);

impl Members {
    fn op(&mut self) -> Result<Op, Problem> {
        const OPS: &str = "Operations are: query, attach, status, changes, credit, end, ping.";
        let op =
            self.text("op")?.ok_or_else(|| Problem::bad_request("the frame has no member `op`").hint(OPS))?;
        Ok(match op.as_str() {
            "query" => Op::Query(QueryFrame {
                source: self.source()?,
                dialect: self.text("dialect")?.map(|name| dialect_of(&name)).transpose()?,
                parameters: match self.0.remove("parameters") {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(values)) => literals(values)?,
                    Some(_) => return Err(Problem::bad_request("member `parameters` is not a list")),
                },
                linger_ms: self.number("linger_ms")?.unwrap_or(0),
                records_per_second_max: self.number("records_per_second_max")?,
                credit: self.credit()?,
            }),
            "attach" => {
                let query = self
                    .text("query")?
                    .ok_or_else(|| Problem::bad_request("`attach` needs the member `query`"))?;
                let query = query
                    .parse()
                    .map_err(|error| Problem::bad_request(format!("`{}`: {error}", cut(&query))))?;
                Op::Attach(AttachFrame {
                    query,
                    after: self.number("after")?,
                    records_per_second_max: self.number("records_per_second_max")?,
                    credit: self.credit()?,
                })
            }
            "status" => Op::Status(self.status()?),
            "changes" => Op::Changes(ChangesFrame {
                view: self
                    .text("view")?
                    .ok_or_else(|| Problem::bad_request("`changes` needs the member `view`"))?,
                from: self.number("from")?,
                credit: self.credit()?,
            }),
            "credit" => Op::Credit(
                self.number("bytes")?
                    .ok_or_else(|| Problem::bad_request("`credit` needs the member `bytes`"))?,
            ),
            "end" => Op::End,
            "ping" => Op::Ping,
            other => {
                return Err(Problem::bad_request(format!("there is no operation `{}`", cut(other))).hint(OPS));
            }
        })
    }

    /// The member `text`, or `saved`.
    fn source(&mut self) -> Result<Source, Problem> {
        match (self.text("text")?, self.text("saved")?) {
            (Some(text), None) if text.trim_start().starts_with('{') => Ok(Source::Json(text)),
            (Some(text), None) => Ok(Source::Bql(text)),
            (None, Some(name)) => Ok(Source::Saved(name)),
            (Some(_), Some(_)) => Err(Problem::bad_request("`text` and `saved` exclude each other")),
            (None, None) => Err(Problem::bad_request("a query needs the member `text` or `saved`")),
        }
    }

    fn status(&mut self) -> Result<StatusFrame, Problem> {
        let known = || format!("Kinds are: streams, queries, {}.", ObjectsOf::names());
        let sort = self.text("sort")?;
        let of = match self.text("of")?.as_deref() {
            Some("streams") => StatusOf::Streams(stream_sort_of(sort.as_deref().or(Some("rate")))?),
            Some("queries") => StatusOf::Queries(sort_of(sort.as_deref().or(Some("newest")))?),
            Some(other) => match ObjectsOf::named(other) {
                Some(_) if sort.is_some() => {
                    return Err(Problem::bad_request(format!("the status of {other} has no other order"))
                        .hint("Leave out `sort`."));
                }
                Some(kind) => StatusOf::Objects(kind),
                None => {
                    let detail = format!("there is no status of `{}`", cut(other));
                    return Err(Problem::bad_request(detail).hint(known()));
                }
            },
            None => return Err(Problem::bad_request("`status` needs the member `of`").hint(known())),
        };
        let interval_ms = self.number("interval_ms")?.unwrap_or(1_000);
        if !INTERVAL_MS.contains(&interval_ms) {
            let (least, most) = (INTERVAL_MS.start(), INTERVAL_MS.end());
            return Err(Problem::bad_request(format!(
                "`interval_ms` is {interval_ms}; it is from {least} to {most}"
            )));
        }
        let limit = self.number("limit")?.map_or(STATUS_LIMIT, |limit| usize::try_from(limit).unwrap_or(0));
        if !(1..=STATUS_LIMIT_MAX).contains(&limit) {
            return Err(Problem::bad_request(format!("`limit` is a number from 1 to {STATUS_LIMIT_MAX}")));
        }
        Ok(StatusFrame { of, interval: Duration::from_millis(interval_ms), limit, credit: self.credit()? })
    }

    fn credit(&mut self) -> Result<u64, Problem> {
        Ok(self.number("credit")?.unwrap_or(CREDIT_BYTES).min(CREDIT_BYTES_MAX))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Problem::bad_request(format!("member `{name}` is not a string"))),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_u64();
                let number = number
                    .ok_or_else(|| Problem::bad_request(format!("member `{name}` is not a whole number")))?;
                Ok(Some(number))
            }
        }
    }

    /// A member that nobody has read has no meaning, or one that the client did not intend.
    fn done(&self) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => {
                Err(Problem::bad_request(format!("no member `{}` belongs to this operation", cut(name))))
            }
        }
    }
}

/// A short frame.
pub(super) fn short(id: Option<u64>, event: &str, data: &Value) -> String {
    json!({"id": id, "event": event, "data": data}).to_string()
}

/// A problem as a frame.
pub(super) fn problem(id: Option<u64>, problem: &Problem) -> String {
    short(id, "problem", &problem.to_json())
}

/// An event with data as JSON text, in as many frames as it takes.
pub(super) struct Frames<'d> {
    id: u64,
    event: &'static str,
    number: Option<u64>,
    rest: Option<&'d str>,
    is_whole: bool,
}

impl<'d> Frames<'d> {
    pub(super) fn new(id: u64, event: &'static str, number: Option<u64>, data: &'d str) -> Frames<'d> {
        Frames { id, event, number, rest: Some(data), is_whole: data.len() + 256 <= FRAME_BYTES_MAX }
    }
}

impl Iterator for Frames<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let data = self.rest.take()?;
        let mut frame = format!("{{\"id\":{},\"event\":\"{}\"", self.id, self.event);
        if let Some(number) = self.number {
            frame.push_str(&format!(",\"number\":{number}"));
        }
        if self.is_whole {
            frame.push_str(",\"data\":");
            frame.push_str(data);
            frame.push('}');
            return Some(frame);
        }
        let (piece, rest) = data.split_at(data.floor_char_boundary(PIECE_BYTES));
        if !rest.is_empty() {
            frame.push_str(",\"more\":true");
            self.rest = Some(rest);
        }
        frame.push_str(",\"text\":");
        frame.push_str(&Value::from(piece).to_string());
        frame.push('}');
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(text: &str) -> (Option<u64>, String) {
        let (id, problem) = ClientFrame::parse(text).unwrap_err();
        (id, problem.full_text())
    }

    #[test]
    fn requests_are_read() {
        let ask =
            ClientFrame::parse(r#"{"id": 1, "op": "query", "text": "x", "parameters": [1], "linger_ms": 5}"#);
        let query = QueryFrame {
            source: Source::Bql("x".to_owned()),
            dialect: None,
            parameters: vec![Literal::Integer(1)],
            linger_ms: 5,
            records_per_second_max: None,
            credit: CREDIT_BYTES,
        };
        assert_eq!(ask.unwrap(), ClientFrame { id: 1, op: Op::Query(query) });
        let ask =
            ClientFrame::parse(r#"{"id": 2, "op": "status", "of": "queries", "sort": "cpu", "limit": 5}"#)
                .unwrap();
        let Op::Status(status) = ask.op else { panic!("{ask:?}") };
        assert_eq!((status.of, status.limit), (StatusOf::Queries(QuerySort::Cpu), 5));
        assert_eq!(ClientFrame::parse(r#"{"id": 9007199254740991, "op": "end"}"#).unwrap().op, Op::End);
    }

    #[test]
    fn faults_name_the_member() {
        let check =
            |text: &str, id, expected: &str| assert_eq!(fault(text), (id, expected.to_owned()), "{text}");
        check("[]", None, "the frame is not a JSON object");
        check(r#"{"op": "ping"}"#, None, "the frame has no member `id`");
        check(r#"{"id": -1, "op": "ping"}"#, None, "member `id` is not a whole number from 0 to 2^53-1");
        check(
            r#"{"id": 1, "op": "fly"}"#,
            Some(1),
            "there is no operation `fly`. Operations are: query, attach, status, changes, credit, end, ping.",
        );
        check(r#"{"id": 1, "op": "query"}"#, Some(1), "a query needs the member `text` or `saved`");
        check(r#"{"id": 1, "op": "query", "text": 3}"#, Some(1), "member `text` is not a string");
        check(r#"{"id": 1, "op": "ping", "of": 1}"#, Some(1), "no member `of` belongs to this operation");
        check(r#"{"id": 1, "op": "credit", "bytes": -5}"#, Some(1), "member `bytes` is not a whole number");
        check(
            r#"{"id": 1, "op": "status", "of": "streams", "interval_ms": 1}"#,
            Some(1),
            "`interval_ms` is 1; it is from 250 to 3600000",
        );
    }

    proptest! {
        /// The pieces make the data, no frame is too long, and each is JSON.
        #[test]
        fn pieces_make_the_whole(words in prop::collection::vec("[ a\"\\\\é€😀]{0,64}", 0..64), times in 1_usize..200) {
            let data = Value::from(words.concat().repeat(times)).to_string();
            let frames: Vec<String> = Frames::new(7, "emit", Some(3), &data).collect();
            let mut whole = String::new();
            for (place, frame) in frames.iter().enumerate() {
                prop_assert!(frame.len() <= FRAME_BYTES_MAX);
                let value: Value = serde_json::from_str(frame).unwrap();
                prop_assert_eq!(&value["number"], 3);
                prop_assert_eq!(value["more"] == true, place + 1 < frames.len());
                match value["text"].as_str() {
                    Some(piece) => whole.push_str(piece),
                    None => whole = value["data"].to_string(),
                }
            }
            prop_assert_eq!(whole, data);
        }
    }
}
