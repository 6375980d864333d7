//! Shows the newest events of a stream, and the paths that they have: for people who look at it before they query it.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use swiftwater_runtime::{EventPath, EventPaths, Principal, RecentEvents, ScalarValue};

use crate::{
    body::heavy,
    parameters::Parameters,
    problem::Problem,
    routes::Name,
    server::Shared,
    status::{json_response, stream_name},
    wire::{time_text, write_time},
};

const EVENTS_DEFAULT: usize = 50;
const EVENTS_MAX: usize = 500;
const PATHS_DEFAULT: usize = 200;
const PATHS_MAX: usize = 2_000;
/// Describing an event's paths costs about as much as looking at so many times its bytes.
const PATHS_COST: usize = 16;

/// `GET /v1/streams/{stream}/recent`.
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    let limit = Parameters::parse(uri.query(), &["limit"])?.limit_or(EVENTS_DEFAULT, EVENTS_MAX)?;
    let recent = shared.engine.recent_events(&Principal::anonymous(), &stream_name(path)?)?;
    let text = heavy(bytes(&recent), || events_json(&recent, limit));
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// `GET /v1/streams/{stream}/paths`.
pub(crate) async fn paths(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    let limit = Parameters::parse(uri.query(), &["limit"])?.limit_or(PATHS_DEFAULT, PATHS_MAX)?;
    let recent = shared.engine.recent_events(&Principal::anonymous(), &stream_name(path)?)?;
    Ok(heavy(bytes(&recent).saturating_mul(PATHS_COST), || {
        let described = EventPaths::of(&recent.events, limit);
        let paths: Vec<Value> = described.paths.iter().map(path_json).collect();
        let value = json!({
            "events": recent.events.len(),
            "since": recent.events.first().map(|oldest| time_text(oldest.arrival)),
            "paths": paths,
            "more": described.has_more,
        });
        json_response(StatusCode::OK, &value)
    }))
}

fn bytes(recent: &RecentEvents) -> usize {
    recent.events.iter().map(|event| event.event.len()).sum()
}

/// The newest events, newest first, each as it arrived.
fn events_json(recent: &RecentEvents, limit: usize) -> Vec<u8> {
    let mut out = b"{\"events\":[".to_vec();
    for (place, event) in recent.events.iter().rev().take(limit).enumerate() {
        out.extend_from_slice(if place > 0 { b",{\"at\":" } else { b"{\"at\":" });
        write_time(event.arrival, &mut out);
        out.extend_from_slice(b",\"event\":");
        out.extend_from_slice(&event.event);
        out.push(b'}');
    }
    out.extend_from_slice(format!("],\"of\":{},\"since\":", recent.arrived).as_bytes());
    match recent.events.first() {
        Some(oldest) => write_time(oldest.arrival, &mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}\n");
    out
}

fn path_json(path: &EventPath) -> Value {
    let types: Map<String, Value> =
        path.types.iter().map(|(name, share)| ((*name).to_owned(), (*share).into())).collect();
    let top: Vec<Value> =
        path.top.iter().map(|(value, share)| json!({"value": scalar_json(value), "share": share})).collect();
    let mut value = json!({
        "path": path.path,
        "types": types,
        "null": path.null,
        "missing": path.missing,
        "distinct": path.distinct,
        "least": path.range.as_ref().map(|(least, _)| scalar_json(least)),
        "greatest": path.range.as_ref().map(|(_, greatest)| scalar_json(greatest)),
        "top": top,
        "example": path.example.as_ref().map(scalar_json),
    });
    if path.has_more {
        value["more"] = true.into();
    }
    value
}

/// A number that no DOUBLE can have is written as queries write it.
fn scalar_json(value: &ScalarValue) -> Value {
    match value {
        ScalarValue::Boolean(value) => (*value).into(),
        ScalarValue::Long(value) => (*value).into(),
        ScalarValue::Double(value) if value.is_finite() => (*value).into(),
        ScalarValue::Double(value) if *value > 0.0 => "Infinity".into(),
        ScalarValue::Double(_) => "-Infinity".into(),
        ScalarValue::Text(text) => text.as_str().into(),
    }
}
