//! Bullet's web API.

use std::sync::Arc;

use swiftwater_lang::Schema;

use super::{HOUR, KIB, Key, Kind, MIB, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        Key {
            name: "bullet.schema",
            doc: "A file that declares the fields of events (`{\"carrier\": \"STRING\"}`, or Bullet's own form): what \
                  `/api/bullet/columns` tells and queries asked there are checked against; empty: none.",
            kind: Kind::Text(|path| schema_file(path).map(drop)),
            get: |settings| Value::Text(settings.bullet_schema.clone()),
            set: |settings, value| {
                if let Value::Text(path) = value {
                    settings.server.bullet.schema = schema_file(&path).ok().flatten().map(Arc::new);
                    settings.bullet_schema = path;
                }
            },
        },
        number!(
            "bullet.queries_max",
            Kind::Count(1, 10_000_000),
            server.bullet.queries_max,
            "Queries of Bullet's `http-query`, `sse-query` and `ws-query` at once; one more is told that there are too many."
        ),
        number!(
            "bullet.message_bytes_max",
            Kind::Bytes(KIB, 64 * MIB),
            server.bullet.message_bytes_max,
            "The longest message that a client of Bullet's `ws-query` may send."
        ),
        number!(
            "bullet.session_buffer_bytes_max",
            Kind::Bytes(KIB, 128 * MIB),
            server.bullet.session_buffer_bytes_max,
            "Bytes that wait for one client of `ws-query`; a message that is longer has the place for itself."
        ),
        number!(
            "bullet.send_timeout_ms",
            Kind::Millis(100, HOUR),
            server.bullet.send_timeout_ms,
            "The time that a message may wait to be sent before the client is given up."
        ),
        number!(
            "bullet.sessions_max",
            Kind::Count(0, 10_000_000),
            server.bullet.sessions_max,
            "Sessions of `ws-query` by plain requests at once (those over WebSockets are connections)."
        ),
        number!(
            "bullet.disconnect_delay_ms",
            Kind::Millis(100, HOUR),
            server.bullet.disconnect_delay_ms,
            "The time after which such a session ends when nobody receives."
        ),
        number!(
            "bullet.sockjs_heart_beat_ms",
            Kind::Millis(100, HOUR),
            server.bullet.sockjs_heart_beat_ms,
            "The time between SockJS's heart-beats."
        ),
        number!(
            "bullet.stomp_heart_beat_ms",
            Kind::Millis(0, HOUR),
            server.bullet.stomp_heart_beat_ms,
            "The time between STOMP's heart-beats, in either direction, where a client wants them; 0: none."
        ),
    ]
}

/// The schema in a file; none for no file.
fn schema_file(path: &str) -> Result<Option<Schema>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("`{path}` cannot be read: {error}"))?;
    Schema::from_json(&text).map(Some).map_err(|error| format!("`{path}`:{error}"))
}
