//! The settings of the console.

use swiftwater_server::ConsoleMode;

use super::{Key, Kind, Value};

pub(super) fn keys() -> Vec<Key> {
    vec![
        Key {
            name: "console.mode",
            doc: "The page at `/`. `read_only`: it offers nothing that changes anything, which helps its \
                  users and protects nothing. `off`: `/` is a text.",
            kind: Kind::Choice(&["on", "read_only", "off"]),
            get: |settings| {
                let word = match settings.server.console_mode {
                    ConsoleMode::On => "on",
                    ConsoleMode::ReadOnly => "read_only",
                    ConsoleMode::Off => "off",
                };
                Value::Text(word.to_owned())
            },
            set: |settings, value| {
                if let Value::Text(text) = value {
                    settings.server.console_mode = match text.as_str() {
                        "off" => ConsoleMode::Off,
                        "read_only" => ConsoleMode::ReadOnly,
                        _ => ConsoleMode::On,
                    };
                }
            },
        },
        list!(
            "console.frame_ancestors",
            origin,
            server.console_frame_ancestors,
            "Origins of pages that may show the console in a frame: `https://portal.example.com`."
        ),
    ]
}

/// Checks an origin. It becomes a part of the page's policy.
fn origin(text: &str) -> Result<(), String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let is_of_host =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | ':' | '[' | ']');
    if !host.is_empty() && host.chars().all(is_of_host) {
        return Ok(());
    }
    Err(format!("`{text}` is not an origin; write for example `https://portal.example.com`"))
}
