//! `GET /v1/server`: the server's version and what it can do; `GET /v1/settings`: its settings.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, Uri},
    response::Response,
};
use serde_json::json;

use crate::{
    config::ConsoleMode, console, parameters::Parameters, problem::Problem, server::Shared,
    status::json_response, wire::time_text,
};

/// The server's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) async fn about(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let default_stream = shared.engine.config().default_stream.as_ref().map(|name| name.to_string());
    let answer = json!({
        "version": VERSION,
        "build": console_build(&shared),
        "now": time_text(shared.engine.clock().now()),
        "up_since": time_text(shared.start_micros.div_euclid(1000)),
        "has_data": has_data(&shared),
        "features": features(&shared),
        "default_stream": default_stream,
    });
    Ok(json_response(StatusCode::OK, &answer))
}

/// A setting in effect, for people. Secrets are hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingStatus {
    /// `section.name`.
    pub name: &'static str,
    /// Its value as the settings file has it.
    pub value: String,
    /// Its default, in the same form.
    pub default: String,
    /// The origin of the value: `default`, a line of a file, a variable or a flag.
    pub origin: String,
    /// The allowed values, in words; empty if its help tells them.
    pub allowed: String,
    /// Its help.
    pub doc: &'static str,
}

/// `GET /v1/settings`.
pub(crate) async fn settings(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["prefix"])?;
    let prefix = parameters.get("prefix").unwrap_or_default();
    let settings = shared.settings.get().map(Vec::as_slice).unwrap_or_default();
    let listed = settings.iter().filter(|setting| setting.name.starts_with(prefix));
    let settings: Vec<_> = listed
        .map(|setting| {
            json!({
                "name": setting.name,
                "value": setting.value,
                "default": setting.default,
                "origin": setting.origin,
                "allowed": setting.allowed,
                "doc": setting.doc,
            })
        })
        .collect();
    Ok(json_response(StatusCode::OK, &json!({"settings": settings})))
}

/// The abilities of this server beyond live queries, in alphabetical order.
pub(crate) fn features(shared: &Shared) -> Vec<&'static str> {
    let mut features = Vec::new();
    if has_data(shared) {
        features.extend(["history", "search", "sql", "views"]);
    }
    #[cfg(feature = "history")]
    {
        features.push("saved");
        if shared.engine.is_node() {
            features.push("cluster");
        }
    }
    features.sort_unstable();
    features
}

/// True if the server stores events.
fn has_data(shared: &Shared) -> bool {
    #[cfg(feature = "history")]
    return shared.sql.access.is_some();
    #[cfg(not(feature = "history"))]
    {
        let _ = shared;
        false
    }
}

/// The build of the console's page; none: it is off.
pub(crate) fn console_build(shared: &Shared) -> Option<&'static str> {
    (shared.config.console_mode != ConsoleMode::Off).then(console::build)
}
