//! `/v1/activity/{id}` and `/v1/activities/search`: the events that share an id, and the ids whose events satisfy conditions.
//!
//! ```text
//! GET  /v1/activity/4bf92f35?depth=1&from=now-1h
//! POST /v1/activities/search  {"and": [{"stream": "logs", "q": "timeout"}, {"not": {"stream": "traces", "q": "*"}}], "limit": 20}
//! ```

use std::{fmt::Write, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode},
    response::Response,
};
use serde_json::{Map, Value, json};
use swiftwater_engine::{
    ActivitiesRequest, ActivityEvent, ActivityFollow, ActivityRequest, ActivitySummary, ActivityTree,
    FollowedActivity, Principal, SearchAnswer, SearchedStream, Stage,
};
use swiftwater_event::StreamName;
use swiftwater_sql::SqlError;
use tokio::time::Instant;

use super::{
    answer::{CURSOR, TOTAL, meta_json, response},
    follow::{self, Follow, Line},
    parameters::{Values, members_of_body},
    search_id,
};
use crate::{
    accept::prefers,
    body::heavy,
    parameters::cut,
    problem::Problem,
    routes::{Name, name},
    server::{Connection, Shared},
    status::json_response,
    wire::time_text,
};

/// The parameters of an activity.
const PARAMETERS: [&str; 7] = ["stream", "from", "to", "depth", "limit", "cursor", "follow"];

/// Levels of conditions that are read; the engine accepts fewer.
const LEVELS_MAX: usize = 100;

/// The form of a condition on activities.
const FORM: &str = "Write {\"and\": [{\"stream\": \"logs\", \"q\": \"timeout\"}, {\"not\": {\"stream\": \"traces\", \"q\": \"*\"}}]} \
                    with Content-Type: application/json.";

/// The events of an activity.
pub(crate) async fn activity(
    State(shared): State<Arc<Shared>>,
    path: Name,
    request: Request,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let id = name(path)?;
    let (parts, _) = request.into_parts();
    let values = Values::of_query(parts.uri.query().unwrap_or_default(), &PARAMETERS)?;
    let own = |name: &str| values.get(name).map(str::to_owned);
    let defaults = ActivityRequest::new(id);
    let request = ActivityRequest {
        streams: values.all("stream").iter().map(|name| stream_name(name)).collect::<Result<_, _>>()?,
        from: own("from"),
        to: own("to"),
        depth: values.number("depth")?.unwrap_or(defaults.depth),
        limit: values.number("limit")?.unwrap_or(defaults.limit),
        cursor: own("cursor"),
        search: search_id(&parts.headers)?,
        client: parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address),
        ..defaults
    };
    if values.follow()? {
        let position = follow::position(&parts.headers)?;
        let follow = shared.engine.follow_activity(&Principal::anonymous(), &request, position).await?;
        return Ok(follow::response(&shared, follow, &parts.headers));
    }
    let answer = shared.engine.activity(&Principal::anonymous(), &request).await?;
    let is_ndjson = prefers(&parts.headers, "application/x-ndjson", "application/json");
    Ok(heavy(answer.events.iter().map(|event| event.hit.event.len()).sum(), || {
        let mut text = String::new();
        if is_ndjson {
            for event in &answer.events {
                write_event(event, &mut text);
                text.push('\n');
            }
            let mut response = response("application/x-ndjson", text);
            response.headers_mut().insert(TOTAL, HeaderValue::from(answer.total));
            let cursor = answer.cursor.as_deref().and_then(|cursor| HeaderValue::try_from(cursor).ok());
            if let Some(cursor) = cursor {
                response.headers_mut().insert(CURSOR, cursor);
            }
            return response;
        }
        text += "{\"events\":[";
        for (place, event) in answer.events.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            write_event(event, &mut text);
        }
        let meta = meta(&answer.streams, &answer.stages, started);
        let (total, cursor) = (answer.total, json!(answer.cursor));
        let complete = answer.cursor.is_none();
        let _ = writeln!(
            text,
            "],\"total\":{total},\"cursor\":{cursor},\"complete\":{complete},\"meta\":{meta}}}"
        );
        response("application/json", text)
    }))
}

/// The activities that satisfy a tree of conditions.
pub(crate) async fn activities(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    Values::of_query(parts.uri.query().unwrap_or_default(), &[])?;
    let mut members = members_of_body(&shared, &parts, body, FORM).await?;
    let mut text = |name: &str| match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(Problem::bad_request(format!("member `{name}` is not a text")).hint(FORM)),
    };
    let (from, to, cursor, limit) = (text("from")?, text("to")?, text("cursor")?, text("limit")?);
    let limit = limit.map(|text| {
        let wrong = || Problem::bad_request(format!("member `limit` is a number, not `{}`", cut(&text)));
        text.parse::<usize>().map_err(|_| wrong())
    });
    let defaults = ActivitiesRequest::new(tree(members, "the body", LEVELS_MAX)?);
    let request = ActivitiesRequest {
        from,
        to,
        cursor,
        limit: limit.transpose()?.unwrap_or(defaults.limit),
        search: search_id(&parts.headers)?,
        client: parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address),
        ..defaults
    };
    let answer = shared.engine.activities(&Principal::anonymous(), &request).await?;
    let activities: Vec<Value> = answer.activities.iter().map(summary_json).collect();
    let body = json!({
        "activities": activities,
        "total": answer.total,
        "cursor": answer.cursor,
        "complete": answer.cursor.is_none(),
        "meta": meta(&answer.streams, &answer.stages, started),
    });
    Ok(json_response(StatusCode::OK, &body))
}

impl Follow for ActivityFollow {
    async fn next_line(&mut self) -> Result<Line, SqlError> {
        Ok(match self.next().await? {
            FollowedActivity::Event { event, position } => {
                let mut data = String::with_capacity(event.hit.event.len() + 128);
                write_event(&event, &mut data);
                Line::hit(data, position)
            }
            FollowedActivity::Lost { stream, events, position } => Line::lost(&stream, events, position),
        })
    }
}

/// Reads a condition. `place` names it in errors.
fn tree(mut members: Map<String, Value>, place: &str, levels: usize) -> Result<ActivityTree, Problem> {
    let wrong = |message: String| Problem::bad_request(message).hint(FORM);
    if levels == 0 {
        return Err(wrong(format!("the conditions are nested more than {LEVELS_MAX} levels deep")));
    }
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    let (is_list, is_not) = match names.as_slice() {
        ["and" | "or"] => (true, false),
        ["not"] => (false, true),
        ["q", "stream"] | ["stream", "q"] => (false, false),
        _ => {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", cut(name))).collect();
            return Err(wrong(format!(
                "{place} is `and`, `or`, `not`, or `stream` and `q`, not {}",
                if names.is_empty() { "empty".to_owned() } else { names.join(", ") }
            )));
        }
    };
    let condition = |value: Value, place: &str| match value {
        Value::Object(members) => tree(members, place, levels - 1),
        _ => Err(wrong(format!("{place} is not a JSON object"))),
    };
    if is_not {
        let value = members.remove("not").unwrap_or_default();
        return Ok(ActivityTree::Not(Box::new(condition(value, "`not`")?)));
    }
    if is_list {
        let is_and = members.contains_key("and");
        let name = if is_and { "and" } else { "or" };
        let Some(Value::Array(values)) = members.remove(name) else {
            return Err(wrong(format!("`{name}` is not a list")));
        };
        let trees = values.into_iter().enumerate();
        let trees = trees.map(|(number, value)| condition(value, &format!("condition {number} of `{name}`")));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        return Ok(if is_and { ActivityTree::And(trees) } else { ActivityTree::Or(trees) });
    }
    match (members.remove("stream"), members.remove("q")) {
        (Some(Value::String(stream)), Some(Value::String(query))) => {
            Ok(ActivityTree::Events { stream: stream_name(&stream)?, query })
        }
        _ => Err(wrong(format!("`stream` and `q` of {place} are texts"))),
    }
}

fn stream_name(text: &str) -> Result<StreamName, Problem> {
    StreamName::new(text).map_err(|error| Problem::bad_request(error.to_string()))
}

fn write_event(event: &ActivityEvent, out: &mut String) {
    let ActivityEvent { hit, depth, id, column } = event;
    let time = time_text(hit.time_micros.div_euclid(1000));
    let via = json!({"id": &**id, "column": &**column});
    let _ = write!(
        out,
        "{{\"stream\":{},\"offset\":{},\"time\":\"{time}\",\"depth\":{depth},\"via\":{via},\"event\":{}}}",
        json!(hit.stream.as_str()),
        hit.offset,
        hit.event
    );
}

fn summary_json(activity: &ActivitySummary) -> Value {
    let streams = activity.streams.iter();
    let streams: Map<String, Value> = streams.map(|of| (of.stream.to_string(), json!(of.events))).collect();
    json!({
        "id": activity.id,
        "first": time_text(activity.first_micros.div_euclid(1000)),
        "last": time_text(activity.last_micros.div_euclid(1000)),
        "events": streams,
    })
}

fn meta(streams: &[SearchedStream], stages: &[Stage], started: Instant) -> Value {
    let answer =
        SearchAnswer { streams: streams.to_vec(), stages: stages.to_vec(), ..SearchAnswer::default() };
    meta_json(&answer, started)
}
