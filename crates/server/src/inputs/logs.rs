//! OpenTelemetry's logs over HTTP (OTLP 1.x): `POST /v1/logs`, JSON or Protocol Buffers; one event per log record.
//!
//! The stream is `logs`, or the value of the parameter `stream`. An event has `time`, `observed_time` (RFC 3339, to the
//! microsecond), `severity_number`, `severity_text`, `event_name`, `body`, `trace_id`, `span_id`, `flags`, `attributes`,
//! `resource` (its attributes), `scope` and `scope_version`; those that are not set are left out. Bytes are base64, and
//! identifiers of traces and spans are hexadecimal in lower case. A request of another shape is refused whole; the error
//! names the place.
//!
//! Limits: values nest at most [`DEPTH_MAX`] deep, and events have at most [`LINES_BYTES_MAX`] bytes.

use std::{fmt, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use swiftwater_event::{StreamName, write_json};

use super::{
    append, check, not_kept,
    protobuf::{Field, Malformed, Message},
    whole_body,
};
use crate::{
    body::{heavy, unsupported},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    server::Shared,
    status::json_response,
};

/// Bytes of the events of a request: each has all of its resource's attributes, which come once.
const LINES_BYTES_MAX: usize = 256 << 20;

/// Values within values.
const DEPTH_MAX: usize = 64;

pub(crate) async fn logs(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let headers = request.headers().clone();
    taken(&shared, request).await.unwrap_or_else(|problem| refused(&headers, problem))
}

pub(crate) async fn wrong_method(method: Method, headers: HeaderMap) -> Response {
    let method: String = method.as_str().chars().take(32).collect();
    let detail = format!("method `{method}` is not allowed here");
    let status = StatusCode::METHOD_NOT_ALLOWED;
    refused(&headers, Problem::new(status, "method-not-allowed", "The method is not allowed", detail))
}

/// A problem as OTLP tells it: a `google.rpc.Status`, in the request's form.
pub(crate) fn refused(headers: &HeaderMap, problem: Problem) -> Response {
    let (status, said) = (problem.status(), problem.full_text());
    // As gRPC numbers them (`google.rpc.Code`).
    let code = match status.as_u16() {
        403 => 7,
        404 => 5,
        405 => 12,
        408 => 4,
        409 => 9,
        413 | 429 | 507 => 8,
        503 => 14,
        500.. => 13,
        _ => 3,
    };
    let mut response = if matches!(is_json(headers), Ok(false)) {
        let mut body = vec![0x08, code, 0x12];
        push_varint(said.len() as u64, &mut body);
        body.extend_from_slice(said.as_bytes());
        (status, [(header::CONTENT_TYPE, "application/x-protobuf")], body).into_response()
    } else {
        json_response(status, &json!({"code": code, "message": said})).into_response()
    };
    // The fields for the end of the connection and the time of the next attempt are copied.
    for name in [header::CONNECTION, header::RETRY_AFTER] {
        if let Some(value) = problem.clone().into_response().headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

async fn taken(shared: &Arc<Shared>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query(), &["stream"])?;
    let stream = parameters.get("stream").unwrap_or("logs");
    let stream = StreamName::new(stream).map_err(|error| bad(error.to_string()))?;
    let is_json = is_json(&parts.headers)?;
    let (body, _share) = whole_body(shared, &parts.headers, body).await?;
    let request = if is_json {
        serde_json::from_slice(&body)
            .map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))?
    } else {
        request_of_protobuf(&body)
            .map_err(|Malformed| Problem::bad_request("the body is not an ExportLogsServiceRequest"))?
    };
    let (lines, count) = heavy(body.len(), || events(&request)).map_err(|fault| {
        bad(fault).hint("Send an ExportLogsServiceRequest; divide many records into several requests.")
    })?;
    let checked = check(shared, lines.into());
    let mut rejected = count - checked.batch.len() as u64;
    let mut said = checked.rejections.first().map(|rejection| rejection.message.clone());
    if count > 0 {
        let appended = append(shared, &stream, checked.batch, rejected).await?;
        rejected += appended.refusals.len() as u64;
        said = said.or_else(|| appended.refusals.into_iter().next().map(|refusal| refusal.message));
        if appended.accepted > 0 {
            said = said.or_else(|| not_kept(shared, &stream));
        }
    }
    Ok(done(is_json, rejected, &said.unwrap_or_default()))
}

fn is_json(headers: &HeaderMap) -> Result<bool, Problem> {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|field| field.to_str().ok()).unwrap_or_default();
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(true),
        "application/x-protobuf" | "application/protobuf" => Ok(false),
        other => Err(unsupported(format!("logs cannot be sent as `{}`", cut(other)))
            .hint("Use the Content-Type application/json or application/x-protobuf.")),
    }
}

/// The answer that the logs were taken, except the rejected ones. With none refused, what is said is a warning.
fn done(is_json: bool, rejected: u64, said: &str) -> Response {
    if is_json {
        let partial = match rejected {
            0 if said.is_empty() => json!({}),
            0 => json!({"errorMessage": said}),
            _ => json!({"rejectedLogRecords": rejected.to_string(), "errorMessage": said}),
        };
        return json_response(StatusCode::OK, &json!({ "partialSuccess": partial })).into_response();
    }
    let mut body = Vec::new();
    if rejected > 0 || !said.is_empty() {
        let mut partial = Vec::new();
        if rejected > 0 {
            partial.push(0x08);
            push_varint(rejected, &mut partial);
        }
        partial.push(0x12);
        push_varint(said.len() as u64, &mut partial);
        partial.extend_from_slice(said.as_bytes());
        body.push(0x0a);
        push_varint(partial.len() as u64, &mut body);
        body.extend_from_slice(&partial);
    }
    ([(header::CONTENT_TYPE, "application/x-protobuf")], body).into_response()
}

fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

// ---- events of a request in OTLP's JSON form

/// A position within a request.
#[derive(Debug, Clone, Copy)]
enum At<'p> {
    Root,
    /// A member of an object.
    Member(&'p At<'p>, &'static str),
    /// A part of a list.
    Part(&'p At<'p>, usize),
}

impl At<'_> {
    fn is_not(&self, what: &str) -> String {
        format!("`{self}` is not {what}")
    }
}

/// Writes the path from the root: `resourceLogs[0].resource`.
impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Member(At::Root, name) => f.write_str(name),
            At::Member(of, name) => write!(f, "{of}.{name}"),
            At::Part(of, place) => write!(f, "{of}[{place}]"),
        }
    }
}

/// A member of an object; none where it is missing, or null.
fn member<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Returns a [`member`] that is an object; an error describes the fault.
fn member_object<'a>(object: &'a Value, name: &str, at: &At<'_>) -> Result<Option<&'a Value>, String> {
    match member(object, name) {
        Some(value) if !value.is_object() => Err(at.is_not("an object")),
        value => Ok(value),
    }
}

/// The list within an object, which stands at `at`; empty where it is missing.
fn list<'a>(object: &'a Value, name: &str, at: &At<'_>) -> Result<&'a [Value], String> {
    match member(object, name) {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(at.is_not("a list")),
    }
}

/// Returns a [`list`] of objects.
fn objects<'a>(object: &'a Value, name: &str, at: &At<'_>) -> Result<&'a [Value], String> {
    let list = list(object, name, at)?;
    match list.iter().position(|part| !part.is_object()) {
        Some(place) => Err(At::Part(at, place).is_not("an object")),
        None => Ok(list),
    }
}

/// The records as events, one a line, and how many they are.
fn events(request: &Value) -> Result<(Vec<u8>, u64), String> {
    if !request.is_object() {
        return Err("the body is not an object".to_owned());
    }
    let (mut lines, mut count) = (Vec::new(), 0);
    let all = At::Member(&At::Root, "resourceLogs");
    for (place, of_resource) in objects(request, "resourceLogs", &all)?.iter().enumerate() {
        let at = At::Part(&all, place);
        let at_resource = At::Member(&at, "resource");
        let resource = match member_object(of_resource, "resource", &at_resource)? {
            Some(resource) => attributes(resource, &at_resource)?,
            None => Map::new(),
        };
        let scopes = At::Member(&at, "scopeLogs");
        for (place, of_scope) in objects(of_resource, "scopeLogs", &scopes)?.iter().enumerate() {
            let at = At::Part(&scopes, place);
            let at_scope = At::Member(&at, "scope");
            let scope = member_object(of_scope, "scope", &at_scope)?.map(|scope| (scope, &at_scope));
            let records = At::Member(&at, "logRecords");
            for (place, record) in objects(of_scope, "logRecords", &records)?.iter().enumerate() {
                let event = event(record, &At::Part(&records, place), &resource, scope)?;
                // Writing to memory does not fail, nor does any of these values.
                let _ = serde_json::to_writer(&mut lines, &event);
                lines.push(b'\n');
                count += 1;
                if lines.len() > LINES_BYTES_MAX {
                    let most = LINES_BYTES_MAX >> 20;
                    return Err(format!(
                        "its records become more than {most} MiB of events, each with its resource"
                    ));
                }
            }
        }
    }
    Ok((lines, count))
}

fn event(
    record: &Value,
    at: &At<'_>,
    resource: &Map<String, Value>,
    scope: Option<(&Value, &At<'_>)>,
) -> Result<Value, String> {
    let mut event = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            event.insert(name.to_owned(), value);
        }
    };
    put("time", time(record, "timeUnixNano", at)?);
    put("observed_time", time(record, "observedTimeUnixNano", at)?);
    put("severity_number", number(record, "severityNumber", at)?);
    put("severity_text", text(record, "severityText", at)?);
    put("event_name", text(record, "eventName", at)?);
    let body = plain(member(record, "body"), &At::Member(at, "body"), DEPTH_MAX)?;
    put("body", Some(body).filter(|body| !body.is_null()));
    put("trace_id", id(record, "traceId", at)?);
    put("span_id", id(record, "spanId", at)?);
    put("flags", number(record, "flags", at)?);
    let own = attributes(record, at)?;
    put("attributes", (!own.is_empty()).then(|| own.into()));
    put("resource", (!resource.is_empty()).then(|| resource.clone().into()));
    if let Some((scope, at)) = scope {
        put("scope", text(scope, "name", at)?);
        put("scope_version", text(scope, "version", at)?);
    }
    Ok(event.into())
}

/// The attributes of an object, which stands at `at`.
fn attributes(object: &Value, at: &At<'_>) -> Result<Map<String, Value>, String> {
    pairs(object, "attributes", &At::Member(at, "attributes"), DEPTH_MAX)
}

/// The list of keys and values within an object, which stands at `at`. A key that is not set is empty.
fn pairs(object: &Value, name: &str, at: &At<'_>, depth: usize) -> Result<Map<String, Value>, String> {
    let mut pairs = Map::new();
    for (place, pair) in objects(object, name, at)?.iter().enumerate() {
        let at = At::Part(at, place);
        let key = match member(pair, "key") {
            None => "",
            Some(Value::String(key)) => key,
            Some(_) => return Err(At::Member(&at, "key").is_not("text")),
        };
        let value = plain(member(pair, "value"), &At::Member(&at, "value"), depth)?;
        pairs.insert(key.to_owned(), value);
    }
    Ok(pairs)
}

/// The text within an object, which stands at `at`; none where it is not set.
fn text(object: &Value, name: &'static str, at: &At<'_>) -> Result<Option<Value>, String> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok((!text.is_empty()).then(|| text.as_str().into())),
        Some(_) => Err(At::Member(at, name).is_not("text")),
    }
}

/// Returns the [`text`] of the identifier of a trace or span: hexadecimal text in OTLP's JSON form, where the case of
/// its digits has no meaning, so it becomes lower case. Other text is kept as it is.
fn id(object: &Value, name: &'static str, at: &At<'_>) -> Result<Option<Value>, String> {
    let id = text(object, name, at)?;
    Ok(id.map(|id| match id {
        Value::String(id) if id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            id.to_ascii_lowercase().into()
        }
        other => other,
    }))
}

/// Returns a whole number, as [`text`] does. Names of enumerations are none: OTLP has them as numbers.
fn number(object: &Value, name: &'static str, at: &At<'_>) -> Result<Option<Value>, String> {
    let Some(value) = member(object, name) else { return Ok(None) };
    let number = whole(value).ok_or_else(|| At::Member(at, name).is_not("a whole number"))?;
    Ok((number != 0).then(|| number.into()))
}

/// Returns nanoseconds since 1970 as RFC 3339, as [`text`] does.
fn time(object: &Value, name: &'static str, at: &At<'_>) -> Result<Option<Value>, String> {
    let Some(value) = member(object, name) else { return Ok(None) };
    let nanos = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    let nanos: u64 =
        nanos.ok_or_else(|| At::Member(at, name).is_not("a number of nanoseconds since 1970"))?;
    if nanos == 0 {
        return Ok(None);
    }
    let mut text = Vec::new();
    write_json(&swiftwater_event::Value::Timestamp((nanos / 1000) as i64), &mut text);
    Ok(serde_json::from_slice(&text).ok())
}

/// A whole number, which JSON has as text where it may be longer than 53 bits.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_i64().or_else(|| {
            let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() < i64::MAX as f64;
            value.as_f64().filter(is_whole).map(|number| number as i64)
        }),
    }
}

/// A number with a fraction, which JSON may have as text.
fn double(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => text.parse().ok().map(double_of),
        _ => None,
    }
}

/// A number as JSON; one that is not finite is text, as in the JSON form of Protocol Buffers.
fn double_of(number: f64) -> Value {
    let text = match number {
        _ if number.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        finite => return finite.into(),
    };
    text.into()
}

/// The kinds of OTLP values; a value with none of these, or of a newer kind, is not set.
const KINDS: [&str; 7] =
    ["stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"];

/// A value of OTLP, which stands at `at`, as what it is; null where it is not set.
fn plain(value: Option<&Value>, at: &At<'_>, depth: usize) -> Result<Value, String> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Value::Null) };
    if !value.is_object() {
        return Err(at.is_not("an object"));
    }
    if depth == 0 {
        return Err(format!("`{at}` is nested too deep"));
    }
    let set = KINDS.into_iter().find_map(|kind| Some((kind, member(value, kind)?)));
    let Some((kind, inner)) = set else { return Ok(Value::Null) };
    let at = At::Member(at, kind);
    match kind {
        "boolValue" if inner.is_boolean() => Ok(inner.clone()),
        "boolValue" => Err(at.is_not("a boolean")),
        "intValue" => whole(inner).map(Value::from).ok_or_else(|| at.is_not("a whole number")),
        "doubleValue" => double(inner).ok_or_else(|| at.is_not("a number")),
        "arrayValue" => {
            member_object(value, kind, &at)?;
            let values = At::Member(&at, "values");
            let parts = list(inner, "values", &values)?.iter().enumerate();
            parts.map(|(place, part)| plain(Some(part), &At::Part(&values, place), depth - 1)).collect()
        }
        "kvlistValue" => {
            member_object(value, kind, &at)?;
            pairs(inner, "values", &At::Member(&at, "values"), depth - 1).map(Value::from)
        }
        _ if inner.is_string() => Ok(inner.clone()),
        _ => Err(at.is_not("text")),
    }
}

// ---- Protocol Buffers to that form

type Read<T> = Result<T, Malformed>;

/// A message as an object, its fields read by `read`: a name and a value, or the name of a list and a part of it.
fn object<'a>(
    bytes: &'a [u8],
    mut read: impl FnMut(u32, Field<'a>) -> Read<Option<(&'static str, Value, bool)>>,
) -> Read<Value> {
    let mut message = Message::new(bytes);
    let mut object = Map::new();
    while let Some((number, field)) = message.next()? {
        match read(number, field)? {
            None => {}
            Some((name, value, false)) => {
                object.insert(name.to_owned(), value);
            }
            Some((name, value, true)) => {
                let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value);
                }
            }
        }
    }
    Ok(object.into())
}

fn text_of(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}

fn request_of_protobuf(bytes: &[u8]) -> Read<Value> {
    object(bytes, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => Ok(Some(("resourceLogs", resource_logs(bytes)?, true))),
        _ => Ok(None),
    })
}

fn resource_logs(bytes: &[u8]) -> Read<Value> {
    object(bytes, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => Ok(Some(("resource", with_attributes(bytes, 1)?, false))),
        (2, Field::Bytes(bytes)) => Ok(Some(("scopeLogs", scope_logs(bytes)?, true))),
        _ => Ok(None),
    })
}

fn with_attributes(bytes: &[u8], attributes: u32) -> Read<Value> {
    object(bytes, |number, field| match field {
        Field::Bytes(bytes) if number == attributes => {
            Ok(Some(("attributes", key_value(bytes, DEPTH_MAX)?, true)))
        }
        _ => Ok(None),
    })
}

fn scope_logs(bytes: &[u8]) -> Read<Value> {
    object(bytes, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => {
            let scope = object(bytes, |number, field| match (number, field) {
                (1, Field::Bytes(bytes)) => Ok(Some(("name", text_of(bytes), false))),
                (2, Field::Bytes(bytes)) => Ok(Some(("version", text_of(bytes), false))),
                _ => Ok(None),
            });
            Ok(Some(("scope", scope?, false)))
        }
        (2, Field::Bytes(bytes)) => Ok(Some(("logRecords", log_record(bytes)?, true))),
        _ => Ok(None),
    })
}

fn log_record(bytes: &[u8]) -> Read<Value> {
    object(bytes, |number, field| {
        let (name, value) = match (number, field) {
            (1, Field::Fixed64(nanos)) => ("timeUnixNano", nanos.into()),
            (11, Field::Fixed64(nanos)) => ("observedTimeUnixNano", nanos.into()),
            (2, Field::Varint(number)) => ("severityNumber", number.into()),
            (3, Field::Bytes(bytes)) => ("severityText", text_of(bytes)),
            (5, Field::Bytes(bytes)) => ("body", any_value(bytes, DEPTH_MAX)?),
            (6, Field::Bytes(bytes)) => {
                return Ok(Some(("attributes", key_value(bytes, DEPTH_MAX)?, true)));
            }
            (8, Field::Fixed32(flags)) => ("flags", flags.into()),
            (9, Field::Bytes(bytes)) => ("traceId", hex(bytes).into()),
            (10, Field::Bytes(bytes)) => ("spanId", hex(bytes).into()),
            (12, Field::Bytes(bytes)) => ("eventName", text_of(bytes)),
            _ => return Ok(None),
        };
        Ok(Some((name, value, false)))
    })
}

fn key_value(bytes: &[u8], depth: usize) -> Read<Value> {
    object(bytes, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => Ok(Some(("key", text_of(bytes), false))),
        (2, Field::Bytes(bytes)) => Ok(Some(("value", any_value(bytes, depth)?, false))),
        _ => Ok(None),
    })
}

fn any_value(bytes: &[u8], depth: usize) -> Read<Value> {
    if depth == 0 {
        return Err(Malformed);
    }
    object(bytes, |number, field| {
        let (name, value) = match (number, field) {
            (1, Field::Bytes(bytes)) => ("stringValue", text_of(bytes)),
            (2, Field::Varint(truth)) => ("boolValue", (truth != 0).into()),
            (3, Field::Varint(number)) => ("intValue", (number as i64).into()),
            (4, Field::Fixed64(bits)) => ("doubleValue", double_of(f64::from_bits(bits))),
            (5, Field::Bytes(bytes)) => {
                let list = object(bytes, |number, field| match (number, field) {
                    (1, Field::Bytes(bytes)) => Ok(Some(("values", any_value(bytes, depth - 1)?, true))),
                    _ => Ok(None),
                });
                ("arrayValue", list?)
            }
            (6, Field::Bytes(bytes)) => {
                let list = object(bytes, |number, field| match (number, field) {
                    (1, Field::Bytes(bytes)) => Ok(Some(("values", key_value(bytes, depth - 1)?, true))),
                    _ => Ok(None),
                });
                ("kvlistValue", list?)
            }
            (7, Field::Bytes(bytes)) => ("bytesValue", base64(bytes).into()),
            _ => return Ok(None),
        };
        Ok(Some((name, value, false)))
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn resource_of_many_records_is_not_repeated_without_a_bound() {
        let request = |records: usize| {
            let value = "x".repeat(LINES_BYTES_MAX / 64);
            json!({"resourceLogs": [{
                "resource": {"attributes": [{"key": "k", "value": {"stringValue": value}}]},
                "scopeLogs": [{"logRecords": vec![json!({}); records]}],
            }]})
        };
        assert_eq!(events(&request(60)).unwrap().1, 60);
        assert!(events(&request(70)).unwrap_err().contains("more than 256 MiB"));
    }

    #[test]
    fn records_become_events() {
        let request = json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeLogs": [{"scope": {"name": "web", "version": "1"}, "logRecords": [
                {"timeUnixNano": "1544712660300000123", "severityNumber": 9, "severityText": "INFO",
                 "body": {"stringValue": "hi"}, "traceId": "5b8efff7", "spanId": "",
                 "attributes": [{"key": "n", "value": {"intValue": "5"}}, {"key": "a", "value": {"arrayValue": {"values": [
                    {"boolValue": true}, {"kvlistValue": {"values": [{"key": "k", "value": {"doubleValue": 1.5}}]}}]}}}]},
                {}
            ]}]
        }]});
        let (lines, count) = events(&request).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let mut read = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert_eq!(count, 2);
        assert_eq!(
            read.next(),
            Some(json!({
                "time": "2018-12-13T14:51:00.300Z", "severity_number": 9, "severity_text": "INFO", "body": "hi",
                "trace_id": "5b8efff7", "attributes": {"n": 5, "a": [true, {"k": 1.5}]},
                "resource": {"service.name": "shop"}, "scope": "web", "scope_version": "1",
            }))
        );
        assert_eq!(
            read.next(),
            Some(json!({"resource": {"service.name": "shop"}, "scope": "web", "scope_version": "1"}))
        );
    }

    #[test]
    fn ids_of_traces_and_spans_are_in_lower_case_whatever_the_sender_writes() {
        let ids = |trace: &str, span: &str| {
            let record = json!({"traceId": trace, "spanId": span});
            let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]});
            let event: Value = serde_json::from_slice(&events(&request).unwrap().0).unwrap();
            (event["trace_id"].clone(), event["span_id"].clone())
        };
        let lower = ids("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174");
        assert_eq!(lower, (json!("5b8efff798038103d269b633813fc60c"), json!("eee19b7ec3c1b174")));
        assert_eq!(ids("5B8EFFF798038103D269B633813FC60C", "EEE19B7EC3C1B174"), lower);
        assert_eq!(ids("5b8EFFf798038103D269b633813fC60c", "eEe19B7ec3c1b174"), lower);
        // Base64 is not OTLP's form; there the case of letters has a meaning.
        assert_eq!(
            ids("W47/95gDgQPSabYzgT/GDA==", "Trace-1"),
            (json!("W47/95gDgQPSabYzgT/GDA=="), json!("Trace-1"))
        );
    }

    #[test]
    fn what_has_another_shape_is_told() {
        let told = |request: Value| events(&request).unwrap_err();
        assert_eq!(told(json!([])), "the body is not an object");
        assert_eq!(told(json!({"resourceLogs": 5})), "`resourceLogs` is not a list");
        let within = json!({"resourceLogs": [{"scopeLogs": null}, {"scopeLogs": [{"logRecords": [{}, 1]}]}]});
        assert_eq!(told(within), "`resourceLogs[1].scopeLogs[0].logRecords[1]` is not an object");
        let of_resource = |resource: Value| told(json!({"resourceLogs": [{}, {"resource": resource}]}));
        assert_eq!(of_resource(json!("shop")), "`resourceLogs[1].resource` is not an object");
        assert_eq!(
            of_resource(json!({"attributes": {"a": 1}})),
            "`resourceLogs[1].resource.attributes` is not a list"
        );
        let pair = json!({"key": "a", "value": {"stringValue": "x"}});
        assert_eq!(
            of_resource(json!({"attributes": [pair, {"key": "b", "value": "x"}]})),
            "`resourceLogs[1].resource.attributes[1].value` is not an object"
        );
        assert_eq!(
            of_resource(json!({"attributes": [{"key": 7}]})),
            "`resourceLogs[1].resource.attributes[0].key` is not text"
        );
        let of_record =
            |record: Value| told(json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}));
        let record = "resourceLogs[0].scopeLogs[0].logRecords[0]";
        for (given, fault) in [
            (json!({"body": "hi"}), "body` is not an object"),
            (json!({"body": {"intValue": "x"}}), "body.intValue` is not a whole number"),
            (json!({"body": {"arrayValue": [1]}}), "body.arrayValue` is not an object"),
            (
                json!({"body": {"arrayValue": {"values": [{}, 5]}}}),
                "body.arrayValue.values[1]` is not an object",
            ),
            (json!({"body": {"kvlistValue": {"values": 5}}}), "body.kvlistValue.values` is not a list"),
            (json!({"body": {"stringValue": 5}}), "body.stringValue` is not text"),
            (json!({"body": {"bytesValue": []}}), "body.bytesValue` is not text"),
            (json!({"body": {"boolValue": "yes"}}), "body.boolValue` is not a boolean"),
            (json!({"body": {"doubleValue": "1,5"}}), "body.doubleValue` is not a number"),
            (json!({"timeUnixNano": "abc"}), "timeUnixNano` is not a number of nanoseconds since 1970"),
            (
                json!({"observedTimeUnixNano": -1}),
                "observedTimeUnixNano` is not a number of nanoseconds since 1970",
            ),
            (json!({"severityNumber": "SEVERITY_NUMBER_INFO"}), "severityNumber` is not a whole number"),
            (json!({"flags": 1.5}), "flags` is not a whole number"),
            (json!({"severityText": 5}), "severityText` is not text"),
            (json!({"traceId": 17}), "traceId` is not text"),
            (json!({"attributes": "a=b"}), "attributes` is not a list"),
            (json!({"attributes": [5]}), "attributes[0]` is not an object"),
        ] {
            assert_eq!(of_record(given), format!("`{record}.{fault}"));
        }
        let of_scope = json!({"scopeLogs": [{"scope": {"name": true}, "logRecords": [{}]}]});
        assert_eq!(
            told(json!({"resourceLogs": [of_scope]})),
            "`resourceLogs[0].scopeLogs[0].scope.name` is not text"
        );
        let empty = json!({"resource": null, "scopeLogs": [{"scope": null, "logRecords": [
            {"body": null, "attributes": null}, {"body": {}, "attributes": [{"key": "a"}]}]}]});
        let (lines, _) = events(&json!({"resourceLogs": [empty]})).unwrap();
        assert_eq!(lines, b"{}\n{\"attributes\":{\"a\":null}}\n");
        assert_eq!(events(&json!({"unknown": 5})).unwrap().1, 0);
    }

    #[test]
    fn values_are_what_they_are_said_to_be() {
        let of = |value: Value| plain(Some(&value), &At::Root, 3).unwrap();
        for (given, expected) in [
            (json!({"intValue": "9007199254740993"}), json!(9_007_199_254_740_993_i64)),
            (json!({"intValue": -3}), json!(-3)),
            (json!({"doubleValue": "1.5"}), json!(1.5)),
            (json!({"doubleValue": 2}), json!(2)),
            (json!({"doubleValue": "NaN"}), json!("NaN")),
            (json!({"doubleValue": "-Infinity"}), json!("-Infinity")),
            (json!({"bytesValue": "AP8="}), json!("AP8=")),
            // Unknown fields of a newer sender are ignored.
            (json!({"aNewValue": 1}), json!(null)),
            (json!({"aNewValue": 1, "stringValue": "x"}), json!("x")),
            (json!({"stringValue": null}), json!(null)),
        ] {
            assert_eq!(of(given.clone()), expected, "{given}");
        }
        assert_eq!(double_of(f64::INFINITY), json!("Infinity"));
    }

    fn message(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        push_varint(bytes.len() as u64, &mut out);
        out.extend_from_slice(bytes);
        out
    }

    #[test]
    fn protocol_buffers_say_the_same_as_json() {
        let mut record = vec![0x09];
        record.extend_from_slice(&1_000_000_000_u64.to_le_bytes());
        record.extend_from_slice(&[0x10, 9]);
        record.extend_from_slice(&message(5, &message(1, b"hi")));
        let pair =
            [message(1, b"n"), message(2, &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])]
                .concat();
        record.extend_from_slice(&message(6, &pair));
        record.extend_from_slice(&message(
            6,
            &[message(1, b"b"), message(2, &message(7, b"\x00\xff"))].concat(),
        ));
        record.extend_from_slice(&message(9, &[0xab, 0x01]));
        let bytes = message(1, &message(2, &message(2, &record)));
        let (lines, count) = events(&request_of_protobuf(&bytes).unwrap()).unwrap();
        assert_eq!(count, 1);
        assert_eq!(
            serde_json::from_slice::<Value>(&lines).unwrap(),
            json!({"time": "1970-01-01T00:00:01.000Z", "severity_number": 9, "body": "hi", "trace_id": "ab01",
                   "attributes": {"n": -1, "b": "AP8="}})
        );
        for len in 0..bytes.len() {
            let _ = request_of_protobuf(&bytes[..len]);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = request_of_protobuf(&bytes) {
                let _ = events(&request);
            }
        }
    }
}
