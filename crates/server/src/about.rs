//! `GET /v1/server`: the server's version and what it can do.

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

/// The abilities of this server beyond live queries, in alphabetical order.
pub(crate) fn features(shared: &Shared) -> Vec<&'static str> {
    let mut features = Vec::new();
    if has_data(shared) {
        features.extend(["history", "search", "sql", "views"]);
        features.sort_unstable();
    }
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
