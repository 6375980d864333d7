//! Elasticsearch's `_bulk`: each `index` or `create` action line is followed by a document. The document becomes an event of
//! the stream that the action names as its index.
//!
//! `{index}/_doc` takes one document, and answers with its one item.
//!
//! Events cannot be changed or deleted, so each `update` or `delete` fails individually. An `_id` is returned as it came,
//! and not stored. The answer has an item for each action, in their order.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use swiftwater_event::StreamName;
use swiftwater_runtime::TopicPlace;

use super::{append, check, not_kept, warn_in_head, whole_body};
use crate::{
    accept::prefers,
    body::heavy,
    problem::Problem,
    routes::{Name, name},
    server::Shared,
    status::json_response,
};

/// Elasticsearch's version, if a client does not state which it understands.
const VERSION_MAJOR: u8 = 8;

/// Streams that an answer warns of.
const WARNINGS_MAX: usize = 10;

/// Actions of a request, of which each has an item in the answer.
const ITEMS_MAX: usize = 1_000_000;

/// One action.
struct Item {
    action: &'static str,
    index: String,
    id: Option<String>,
    /// Its document's range in the body.
    document: Range<usize>,
    outcome: Outcome,
}

enum Outcome {
    Waiting(StreamName),
    /// At this offset.
    Taken(u64),
    /// At this place of a topic.
    Written(TopicPlace),
    Failed {
        status: u16,
        kind: &'static str,
        reason: String,
    },
}

pub(crate) async fn bulk(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    answer(&shared, None, request).await.unwrap_or_else(refused)
}

pub(crate) async fn bulk_of_index(
    State(shared): State<Arc<Shared>>,
    index: Name,
    request: Request,
) -> Response {
    let answered = match name(index) {
        Ok(index) => answer(&shared, Some(index), request).await,
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(refused)
}

/// `POST /{index}/_doc`: one document, whose id the server chooses.
pub(crate) async fn document(State(shared): State<Arc<Shared>>, index: Name, request: Request) -> Response {
    match name(index) {
        Ok(index) => one(&shared, index, None, request).await.unwrap_or_else(refused),
        Err(problem) => refused(problem),
    }
}

/// `POST` or `PUT /{index}/_doc/{id}`: one document.
pub(crate) async fn named_document(
    State(shared): State<Arc<Shared>>,
    names: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Response {
    match names {
        Ok(Path((index, id))) => one(&shared, index, Some(id), request).await.unwrap_or_else(refused),
        Err(_) => refused(Problem::bad_request("the path is not valid percent-encoded UTF-8")),
    }
}

pub(crate) async fn wrong_method(method: Method) -> Response {
    let method: String = method.as_str().chars().take(32).collect();
    refused(Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "The method is not allowed",
        format!("method `{method}` is not allowed here"),
    ))
}

async fn one(
    shared: &Arc<Shared>,
    index: String,
    id: Option<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let (body, _share) = whole_body(shared, &parts.headers, body).await?;
    let stream = match StreamName::new(&index) {
        Ok(stream) => stream,
        Err(error) => {
            return Ok(failed(StatusCode::BAD_REQUEST, "invalid_index_name_exception", &error.to_string()));
        }
    };
    let document = 0..body.len();
    let outcome = Outcome::Waiting(stream.clone());
    let mut items = [Item { action: "index", index, id, document, outcome }];
    append_documents(shared, &body, &stream, &[0], &mut items).await;
    let [item] = &items;
    let mut response = match &item.outcome {
        Outcome::Failed { status, kind, reason } => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            failed(status, kind, reason)
        }
        _ => {
            let mut told = item.result_json();
            if let Some(told) = told.as_object_mut() {
                told.remove("status");
            }
            as_elasticsearch(StatusCode::CREATED, &told)
        }
    };
    warn(shared, &mut response, [&stream]);
    Ok(response)
}

/// Warns of streams of which nothing is stored, as Elasticsearch warns.
fn warn<'s>(shared: &Shared, response: &mut Response, streams: impl IntoIterator<Item = &'s StreamName>) {
    for warning in streams.into_iter().filter_map(|stream| not_kept(shared, stream)).take(WARNINGS_MAX) {
        warn_in_head(response, &format!("Elasticsearch-{VERSION_MAJOR}.0.0"), &warning);
    }
}

/// A request that is refused as a whole.
fn failed(status: StatusCode, kind: &str, reason: &str) -> Response {
    let cause = json!({"type": kind, "reason": reason});
    let error = json!({"root_cause": [cause], "type": kind, "reason": reason});
    as_elasticsearch(status, &json!({"error": error, "status": status.as_u16()}))
}

/// Elasticsearch's name of a refusal of this status.
fn kind_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        403 => "security_exception",
        404 => "resource_not_found_exception",
        405 => "method_not_allowed_exception",
        408 => "timeout_exception",
        413 => "content_too_long_exception",
        415 => "media_type_header_exception",
        429 | 503 | 507 => "es_rejected_execution_exception",
        500.. => "exception",
        _ => "illegal_argument_exception",
    }
}

/// A problem as Elasticsearch tells it: its clients read no problem details.
pub(crate) fn refused(problem: Problem) -> Response {
    let status = problem.status();
    let mut response = failed(status, kind_of(status), &problem.full_text());
    // The fields for the end of the connection and the time of the next attempt are copied.
    for name in [header::CONNECTION, header::RETRY_AFTER] {
        if let Some(value) = problem.clone().into_response().headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

async fn answer(shared: &Arc<Shared>, index: Option<String>, request: Request) -> Result<Response, Problem> {
    let began = shared.engine.clock().monotonic_nanos();
    let (parts, body) = request.into_parts();
    let (body, _share) = whole_body(shared, &parts.headers, body).await?;
    let mut items = match heavy(body.len(), || read(&body, index.as_deref())) {
        Ok(items) => items,
        Err(reason) => {
            return Ok(failed(StatusCode::BAD_REQUEST, kind_of(StatusCode::BAD_REQUEST), &reason));
        }
    };
    let mut streams: BTreeMap<StreamName, Vec<usize>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        if let Outcome::Waiting(stream) = &item.outcome {
            streams.entry(stream.clone()).or_default().push(place);
        }
    }
    for (stream, places) in &streams {
        append_documents(shared, &body, stream, places, &mut items).await;
    }
    let took = shared.engine.clock().monotonic_nanos().saturating_sub(began) / 1_000_000;
    let errors = items.iter().any(|item| matches!(item.outcome, Outcome::Failed { .. }));
    let text = heavy(body.len(), || bulk_response(took, errors, &items));
    let mut response = of_elasticsearch((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], text));
    warn(shared, &mut response, streams.keys());
    Ok(response)
}

/// The answer, an item at a time: as one value it would be many times as long.
fn bulk_response(took: u64, errors: bool, items: &[Item]) -> Vec<u8> {
    let mut text = format!("{{\"took\":{took},\"errors\":{errors},\"items\":[").into_bytes();
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut text, &item.to_json());
    }
    text.extend_from_slice(b"]}\n");
    text
}

fn as_elasticsearch(status: StatusCode, value: &Value) -> Response {
    of_elasticsearch(json_response(status, value))
}

fn of_elasticsearch(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    // Its clients refuse servers without this field.
    response.headers_mut().insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    response
}

/// The answer to the first request of Elasticsearch's clients and senders, at `/`; none for a client that prefers text. The
/// version is the one that the client says it understands.
pub(crate) fn greeting(headers: &HeaderMap) -> Option<Response> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    let asks = accept.contains("application/vnd.elasticsearch+json");
    if !asks && !prefers(headers, "application/json", "text/plain") {
        return None;
    }
    let compatible = accept.split_once("compatible-with=").map_or("", |(_, rest)| rest);
    let major = compatible.split(|other: char| !other.is_ascii_digit()).next().unwrap_or_default();
    let major: u8 = major.parse().unwrap_or(VERSION_MAJOR);
    let greeting = json!({
        "name": "swiftwater",
        "cluster_name": "swiftwater",
        "version": {
            "number": format!("{major}.0.0"),
            "build_flavor": "default",
            "swiftwater": env!("CARGO_PKG_VERSION"),
        },
        "tagline": "Bulk requests become events; there is nothing to search here",
    });
    Some(as_elasticsearch(StatusCode::OK, &greeting))
}

/// The actions of a body; the error is the whole request's.
fn read(body: &Bytes, index: Option<&str>) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut at = 0;
    let mut number = 0;
    let mut next_line = || {
        while at < body.len() {
            let end = memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |found| at + found);
            let line = at..end;
            at = end + 1;
            number += 1;
            if !body[line.clone()].trim_ascii().is_empty() {
                return Some((line, number));
            }
        }
        None
    };
    while let Some((line, number)) = next_line() {
        if items.len() == ITEMS_MAX {
            return Err(format!("a request has {ITEMS_MAX} actions at most; send the others in another"));
        }
        let malformed = |what: &str| format!("Malformed action/metadata line [{number}], {what}");
        let action: Map<String, Value> =
            serde_json::from_slice(&body[line]).map_err(|error| malformed(&error.to_string()))?;
        let mut actions = action.into_iter();
        let (Some((action, meta)), None) = (actions.next(), actions.next()) else {
            return Err(malformed("expected one action"));
        };
        let action = ["index", "create", "update", "delete"]
            .into_iter()
            .find(|known| *known == action)
            .ok_or_else(|| malformed("expected index, create, update or delete"))?;
        let text = |name: &str| match meta.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let document = match action {
            "delete" => 0..0,
            _ => next_line().ok_or_else(|| malformed("the document after it is missing"))?.0,
        };
        let index = text("_index").or(index.map(str::to_owned));
        let Some(index) = index else { return Err(malformed("it names no index")) };
        let outcome = match (action, StreamName::new(&index)) {
            ("update" | "delete", _) => Outcome::Failed {
                status: 400,
                kind: "illegal_argument_exception",
                reason: "events cannot be changed or deleted".to_owned(),
            },
            (_, Err(error)) => Outcome::Failed {
                status: 400,
                kind: "invalid_index_name_exception",
                reason: error.to_string(),
            },
            (_, Ok(stream)) => Outcome::Waiting(stream),
        };
        items.push(Item { action, index, id: text("_id"), document, outcome });
    }
    Ok(items)
}

/// Appends the documents of one stream; a bad one fails for itself.
async fn append_documents(
    shared: &Shared,
    body: &Bytes,
    stream: &StreamName,
    places: &[usize],
    items: &mut [Item],
) {
    let document = |item: &Item| body.slice(item.document.clone());
    let joined = |places: &[usize], items: &[Item]| {
        let mut lines = Vec::new();
        for place in places {
            lines.extend_from_slice(&document(&items[*place]));
            lines.push(b'\n');
        }
        check(shared, lines.into())
    };
    let mut good = places.to_vec();
    let mut checked = joined(&good, items);
    if checked.rejected > 0 || checked.batch.len() != good.len() {
        good.retain(|place| {
            let alone = check(shared, document(&items[*place]));
            let is_good = alone.rejected == 0 && alone.batch.len() == 1;
            if !is_good {
                let said = alone.rejections.into_iter().next().map(|rejection| rejection.message);
                let reason = said.unwrap_or_else(|| "expected one object".to_owned());
                items[*place].outcome =
                    Outcome::Failed { status: 400, kind: "document_parsing_exception", reason };
            }
            is_good
        });
        checked = joined(&good, items);
    }
    let rejected = (places.len() - good.len()) as u64;
    if good.is_empty() && rejected == 0 {
        return;
    }
    match append(shared, stream, checked.batch, rejected).await {
        Ok(appended) => {
            let mut refusals = appended.refusals.into_iter().peekable();
            let mut offset = appended.position.offset.0.saturating_sub(appended.accepted);
            let is_written = appended.written.is_some();
            let mut written = appended.written.map(|written| written.events).unwrap_or_default().into_iter();
            for (row, place) in good.iter().enumerate() {
                items[*place].outcome = match refusals.next_if(|refusal| refusal.row as usize == row) {
                    Some(refusal) => {
                        let kind = "document_parsing_exception";
                        Outcome::Failed { status: 400, kind, reason: refusal.message }
                    }
                    None if is_written => match written.next() {
                        Some(place) => Outcome::Written(place),
                        None => continue,
                    },
                    None => {
                        offset += 1;
                        Outcome::Taken(offset - 1)
                    }
                };
            }
        }
        Err(error) => {
            // A sender that is told 429 comes again.
            let problem = Problem::from(error.clone());
            let status = match problem.status().as_u16() {
                503 | 507 => 429,
                status => status,
            };
            for place in &good {
                let kind = "es_rejected_execution_exception";
                items[*place].outcome = Outcome::Failed { status, kind, reason: error.to_string() };
            }
        }
    }
}

impl Item {
    fn to_json(&self) -> Value {
        json!({ self.action: self.result_json() })
    }

    /// The result of an action.
    fn result_json(&self) -> Value {
        let mut told = json!({"_index": self.index, "_id": self.id});
        match &self.outcome {
            Outcome::Taken(offset) => self.add_place(&mut told, Some(*offset), offset.to_string()),
            Outcome::Written(TopicPlace { partition, offset }) => {
                let text =
                    offset.map_or_else(|| partition.to_string(), |offset| format!("{partition}:{offset}"));
                self.add_place(&mut told, *offset, text);
            }
            Outcome::Failed { status, kind, reason } => {
                told["status"] = (*status).into();
                told["error"] = json!({"type": kind, "reason": reason});
            }
            Outcome::Waiting(_) => {
                told["status"] = 500.into();
                told["error"] = json!({"type": "exception", "reason": "it was not processed"});
            }
        }
        told
    }

    /// Adds the outcome of a document that was taken; `id`: for one that has none.
    fn add_place(&self, told: &mut Value, offset: Option<u64>, id: String) {
        if self.id.is_none() {
            told["_id"] = id.into();
        }
        told["_version"] = 1.into();
        told["result"] = "created".into();
        told["_shards"] = json!({"total": 1, "successful": 1, "failed": 0});
        if let Some(offset) = offset {
            told["_seq_no"] = offset.into();
        }
        told["_primary_term"] = 1.into();
        told["status"] = 201.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, index: Option<&str>, expected: &str) {
        let shown = match read(&Bytes::copy_from_slice(body.as_bytes()), index) {
            Err(reason) => reason,
            Ok(items) => {
                let show = |item: &Item| {
                    let id = item.id.as_deref().unwrap_or("-");
                    let state = match &item.outcome {
                        Outcome::Failed { kind, .. } => kind,
                        _ => &body[item.document.clone()],
                    };
                    format!("{} {} {id} {state}", item.action, item.index)
                };
                items.iter().map(show).collect::<Vec<_>>().join("; ")
            }
        };
        assert_eq!(shown, expected, "{body}");
    }

    #[test]
    fn actions_are_read_with_their_documents() {
        check("", None, "");
        check(
            "{\"index\":{\"_index\":\"a\",\"_id\":7}}\n{\"x\":1}\n\n{\"create\":{}}\r\n{\"y\":2}\n",
            Some("b"),
            "index a 7 {\"x\":1}; create b - {\"y\":2}",
        );
        check(
            "{\"delete\":{\"_index\":\"a\",\"_id\":\"k\"}}\n{\"update\":{\"_index\":\"a\"}}\n{\"doc\":1}\n{\"index\":{\"_index\":\"é\"}}\n{}",
            None,
            "delete a k illegal_argument_exception; update a - illegal_argument_exception; index é - invalid_index_name_exception",
        );
        check("{\"index\":{}}\n{}", None, "Malformed action/metadata line [1], it names no index");
        check(
            "{\"index\":{\"_index\":\"a\"}}\n",
            None,
            "Malformed action/metadata line [1], the document after it is missing",
        );
        check(
            "{\"indx\":{}}\n{}",
            Some("a"),
            "Malformed action/metadata line [1], expected index, create, update or delete",
        );
        check("{}\n{}", Some("a"), "Malformed action/metadata line [1], expected one action");
        check("{\"a\":1,\"b\":2}", Some("a"), "Malformed action/metadata line [1], expected one action");
    }
}
