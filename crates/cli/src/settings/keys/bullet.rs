//! The settings of Bullet's web API.

use std::sync::Arc;

use swiftwater_lang::Schema;

use super::{HOUR, KIB, Key, Kind, MIB, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        Key {
            name: "bullet.schema",
            doc: "File that declares the fields of events (`{\"carrier\": \"STRING\"}`, or Bullet's own \
                  form). `/api/bullet/columns` returns it, and queries there are checked against it. \
                  Empty: none.",
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
            "Maximum number of queries of Bullet's `http-query`, `sse-query` and `ws-query` at once. A \
             further one gets an error."
        ),
        number!(
            "bullet.message_bytes_max",
            Kind::Bytes(KIB, 64 * MIB),
            server.bullet.message_bytes_max,
            "Maximum length of a message from a client of `ws-query`."
        ),
        number!(
            "bullet.session_buffer_bytes_max",
            Kind::Bytes(KIB, 128 * MIB),
            server.bullet.session_buffer_bytes_max,
            "Maximum bytes that wait for one client of `ws-query`. A longer message may wait alone."
        ),
        number!(
            "bullet.send_timeout_ms",
            Kind::Millis(100, HOUR),
            server.bullet.send_timeout_ms,
            "Time for which a message waits to be sent. Then the session ends."
        ),
        number!(
            "bullet.sessions_max",
            Kind::Count(0, 10_000_000),
            server.bullet.sessions_max,
            "Maximum number of sessions of `ws-query` by plain requests. Those over WebSocket count as \
             connections."
        ),
        number!(
            "bullet.disconnect_delay_ms",
            Kind::Millis(100, HOUR),
            server.bullet.disconnect_delay_ms,
            "Time without a receiving request after which a session of `ws-query` by plain requests ends."
        ),
        number!(
            "bullet.sockjs_heart_beat_ms",
            Kind::Millis(100, HOUR),
            server.bullet.sockjs_heart_beat_ms,
            "Time between heart-beats of SockJS."
        ),
        number!(
            "bullet.stomp_heart_beat_ms",
            Kind::Millis(0, HOUR),
            server.bullet.stomp_heart_beat_ms,
            "Time between heart-beats of STOMP in either direction, if the client wants them. 0: none."
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
