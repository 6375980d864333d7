//! The settings of Bullet's PubSub.

use super::{Key, Kind, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        text!(
            "pubsub.query_topic",
            Kind::Text(topic_or_empty),
            pubsub.query_topic,
            "Topic of Kafka from which queries are read, in Bullet's dialect; a message's key is the query's id. \
             Empty: off."
        ),
        text!(
            "pubsub.result_topic",
            Kind::Text(topic_or_empty),
            pubsub.result_topic,
            "Topic to which their results are written, unless a query names another."
        ),
        text!(
            "pubsub.connection",
            Kind::Text(|_| Ok(())),
            pubsub.connection,
            "Connection of `[kafka.NAME]` that both topics are reached by."
        ),
    ]
}

fn topic_or_empty(text: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text.len() <= 249 && text.chars().all(is_part) {
        true => Ok(()),
        false => Err("the name of a topic has 1 to 249 of A-Z, a-z, 0-9, `.`, `_` and `-`".to_owned()),
    }
}
