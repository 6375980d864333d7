//! Reads messages of the query topic.
//!
//! | | |
//! | --- | --- |
//! | key | the id of the query |
//! | value | BQL, Bullet's JSON form, or a message of Bullet's REST PubSub: `{"id", "content", "metadata": {"signal", "content"}}` |
//! | header `signal` | `KILL` ends the query |
//! | header `reply` | the target of its results: `topic`, `topic:partition`, or `partition` of the result topic |

use std::sync::Arc;

use serde_json::{Map, Value};
use swiftwater_kafka::Message;

/// The most bytes of a query's metadata, which each of its results repeats.
const METADATA_BYTES_MAX: usize = 64 << 10;
/// The longest id of a query.
const ID_BYTES_MAX: usize = 1024;

/// A message of the query topic.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) id: Arc<str>,
    pub(super) action: Action,
    pub(super) reply: Reply,
}

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Begin(String),
    Kill,
}

/// The target of a query's results, and their form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) topic: Arc<str>,
    pub(super) partition: Option<u32>,
    /// The query has named it.
    pub(super) is_named: bool,
    /// The query came as a message of the REST PubSub, and its results go as such, with what its metadata had for them.
    pub(super) metadata: Option<Arc<Value>>,
}

impl Reply {
    fn of(text: Option<&str>, default_topic: &Arc<str>) -> Result<Reply, &'static str> {
        const WRONG: &str = "its header `reply` is neither `topic`, nor `topic:partition`, nor a partition";
        let partition = |text: &str| text.parse().ok().filter(|partition| *partition <= i32::MAX as u32);
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let (topic, partition) = match text {
            None => (Arc::clone(default_topic), None),
            Some(text) => match (text.split_once(':'), partition(text)) {
                (Some((topic, number)), _) => (topic.into(), Some(partition(number).ok_or(WRONG)?)),
                (None, Some(number)) => (Arc::clone(default_topic), Some(number)),
                (None, None) => (text.into(), None),
            },
        };
        match (1..=249).contains(&topic.len()) && topic.chars().all(is_part) {
            true => Ok(Reply { topic, partition, is_named: text.is_some(), metadata: None }),
            false => Err(WRONG),
        }
    }
}

impl Request {
    /// The request in a message; the error says what is wrong with it.
    pub(super) fn of(message: &Message<'_>, default_topic: &Arc<str>) -> Result<Request, &'static str> {
        // Of headers with the same name, the last one counts.
        let header = |wanted: &str| {
            let named = message.headers().filter(|(name, _)| *name == wanted.as_bytes());
            let value = named.last().and_then(|(_, value)| value);
            value.map(|value| std::str::from_utf8(value).map_err(|_| "a header of it is not UTF-8"))
        };
        let (signal, reply) = (header("signal").transpose()?, header("reply").transpose()?);
        let mut reply = Reply::of(reply, default_topic)?;
        let value = message.value().unwrap_or_default();
        let text = std::str::from_utf8(value).map_err(|_| "its value is not UTF-8")?;
        let key = message.key().map(|key| std::str::from_utf8(key).map_err(|_| "its key is not UTF-8"));
        let (mut id, mut text) = (key.transpose()?.map(str::to_owned), text.to_owned());
        let mut is_kill = signal.is_some_and(|signal| signal.eq_ignore_ascii_case("KILL"));
        if let Some(mut wrapped) = wrapped(&text) {
            let metadata = match wrapped.remove("metadata") {
                Some(Value::Object(metadata)) => metadata,
                _ => Map::new(),
            };
            is_kill |= metadata.get("signal").and_then(Value::as_str) == Some("KILL");
            let content = metadata.get("content").cloned().unwrap_or_default();
            if content.to_string().len() > METADATA_BYTES_MAX {
                return Err("its metadata has more than 64 KiB");
            }
            reply.metadata = Some(Arc::new(content));
            if let Some(Value::String(named)) = wrapped.remove("id") {
                id = Some(named);
            }
            text = match wrapped.remove("content") {
                Some(Value::String(content)) => content,
                Some(content @ Value::Object(_)) => content.to_string(),
                _ => String::new(),
            };
        }
        let id = id.filter(|id| !id.is_empty()).ok_or("it has no key, which is the query's id")?;
        if id.len() > ID_BYTES_MAX {
            return Err("its id has more than 1024 bytes");
        }
        let action = if is_kill { Action::Kill } else { Action::Begin(text) };
        Ok(Request { id: id.into(), action, reply })
    }
}

/// The object, if the text is a message of the REST PubSub.
fn wrapped(text: &str) -> Option<Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) if object.get("id").is_some_and(Value::is_string) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_kafka::{MessageBatchBuilder, Timestamp};

    use super::*;

    fn read(key: Option<&str>, value: &str, headers: &[(&str, &str)]) -> Result<Request, &'static str> {
        let mut builder = MessageBatchBuilder::with_capacity(0, 1, 0);
        let headers = headers.iter().map(|(name, value)| (name.as_bytes(), Some(value.as_bytes())));
        let key = key.map(str::as_bytes);
        builder.push(0, Timestamp::MISSING, key, Some(value.as_bytes()), headers);
        let batch = builder.finish(1);
        Request::of(&batch.messages().next().unwrap(), &"results".into())
    }

    fn reply(topic: &str, partition: Option<u32>) -> Reply {
        Reply {
            topic: topic.into(),
            partition,
            is_named: topic != "results" || partition.is_some(),
            metadata: None,
        }
    }

    #[test]
    fn queries_come_as_text_or_as_messages_of_the_rest_pubsub() {
        let begun = |text: &str| Action::Begin(text.to_owned());
        let plain = read(Some("a"), "SELECT 1", &[]).unwrap();
        assert_eq!(
            plain,
            Request { id: "a".into(), action: begun("SELECT 1"), reply: reply("results", None) }
        );
        // Bullet's JSON form of a query is no such message.
        let form = r#"{"filters": [], "duration": 10}"#;
        assert_eq!(read(Some("a"), form, &[]).unwrap().action, begun(form));
        let message = r#"{"id":"b","content":"SELECT 2","metadata":{"signal":null,"content":{"x":1}}}"#;
        let wrapped = read(None, message, &[]).unwrap();
        assert_eq!((&*wrapped.id, wrapped.action), ("b", begun("SELECT 2")));
        assert_eq!(wrapped.reply.metadata.as_deref(), Some(&serde_json::json!({"x": 1})));
        for (value, headers) in
            [("", &[("signal", "KILL")][..]), (r#"{"id":"b","metadata":{"signal":"KILL"}}"#, &[])]
        {
            let killed = read(Some("b"), value, headers).unwrap();
            assert_eq!((&*killed.id, killed.action), ("b", Action::Kill));
        }
    }

    #[test]
    fn replies_go_where_the_header_says() {
        for (header, expected) in [
            ("3", Ok(reply("results", Some(3)))),
            ("others", Ok(reply("others", None))),
            ("others:7", Ok(reply("others", Some(7)))),
            ("others:x", Err(())),
            ("a b", Err(())),
            (":1", Err(())),
            ("", Err(())),
        ] {
            let found = read(Some("a"), "q", &[("reply", "ignored"), ("reply", header)]);
            assert_eq!(found.map(|request| request.reply).map_err(|_| ()), expected, "{header}");
        }
        for (key, value) in [(None, "q"), (Some(""), "q"), (Some(&*"x".repeat(2000)), "q")] {
            assert!(read(key, value, &[]).is_err());
        }
    }
}
