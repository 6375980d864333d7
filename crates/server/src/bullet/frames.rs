//! SockJS's frames, and the messages in them; [`super::sockjs`] and [`super::polling`] carry them.
//!
//! ```text
//! frame   = "o" | "h" | "a" [ texts ] | "c" [ code, reason ]        open, heart-beat, messages, closed
//! message = [ texts ] | text                                         JSON; from the client
//! ```

use serde_json::Value;

pub(super) const OPEN: &str = "o";
pub(super) const HEART_BEAT: &str = "h";
/// The session is over.
pub(super) const CLOSED: &str = "c[3000,\"Go away!\"]";
/// The frame for a session with another receiver.
pub(super) const ANOTHER_CONNECTION: &str = "c[2010,\"Another connection still open\"]";

/// A frame with messages.
pub(super) fn messages_frame<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<&str> = texts.into_iter().collect();
    format!("a{}", serde_json::to_string(&texts).expect("texts are written to memory"))
}

/// The messages in what a client sent; none where it is not JSON of that form.
pub(super) fn messages_of(text: &str) -> Option<Vec<String>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    match serde_json::from_str(text).ok()? {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Some(text),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_written() {
        assert_eq!(messages_frame(["a\"b", "\n\0"]), "a[\"a\\\"b\",\"\\n\\u0000\"]");
        let texts = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(messages_of("[\"a\",\"b\"]"), texts(&["a", "b"]));
        assert_eq!(messages_of("\"a\""), texts(&["a"]));
        assert_eq!(messages_of(""), texts(&[]));
        assert_eq!(messages_of("[\"a\",1]"), None);
        assert_eq!(messages_of("[\"a\""), None);
        assert_eq!(messages_of("{}"), None);
    }
}
