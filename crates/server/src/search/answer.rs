//! Writes the answer of a search as one JSON object or as lines.

use std::fmt::Write;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::Response,
};
use serde_json::{Map, Value, json};
use swiftwater_engine::{
    Bucket, FieldSummary, FieldsAnswer, Piece, SearchAnswer, SearchHit, SearchedStream, ValueCount,
};
use tokio::time::Instant;

use crate::wire::time_text;

pub(super) const TOTAL: HeaderName = HeaderName::from_static("swiftwater-total");
pub(super) const CURSOR: HeaderName = HeaderName::from_static("swiftwater-cursor");

/// The offsets of each stream between which all events were searched, of a partial answer.
pub(super) const SEARCHED: HeaderName = HeaderName::from_static("swiftwater-searched");

/// All hits as one object.
pub(super) fn object(
    answer: &SearchAnswer,
    (is_partial, is_explained): (bool, bool),
    started: Instant,
) -> Response {
    let mut text = String::from("{\"hits\":[");
    for (place, hit) in answer.hits.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_hit(hit, &mut text);
    }
    let _ = write!(
        text,
        "],\"total\":{},\"facets\":{},\"ranges\":{},\"histogram\":{},\"cursor\":{},\"complete\":{}",
        json!(answer.total),
        facets_json(answer),
        ranges_json(answer),
        json!(answer.histogram.as_deref().unwrap_or_default().iter().map(bucket_json).collect::<Vec<_>>()),
        json!(answer.cursor),
        answer.is_complete
    );
    if is_partial {
        let searched = |stream: &SearchedStream| searched_json(stream);
        let _ = write!(text, ",\"searched\":{}", by_stream(answer, searched));
    }
    if is_explained {
        let _ = write!(text, ",\"explain\":{}", explain_json(answer));
    }
    let _ = writeln!(text, ",\"meta\":{}}}", meta_json(answer, started));
    response("application/json", text)
}

/// The columns of the events that match.
pub(super) fn fields(answer: &FieldsAnswer, started: Instant) -> Value {
    let field = |field: &FieldSummary| {
        let values: Vec<Value> = field.values.iter().map(value_json).collect();
        json!({
            "column": field.column,
            "type": field.ty,
            "count": field.count,
            "distinct": field.distinct,
            "exact": field.is_exact,
            "values": values,
        })
    };
    let fields: Vec<Value> = answer.fields.iter().map(field).collect();
    json!({"fields": fields, "total": answer.answer.total, "meta": meta_json(&answer.answer, started)})
}

fn by_stream(answer: &SearchAnswer, value: impl Fn(&SearchedStream) -> Value) -> Value {
    Value::Object(answer.streams.iter().map(|stream| (stream.stream.to_string(), value(stream))).collect())
}

/// The offsets between which all events were searched.
fn searched_json(stream: &SearchedStream) -> Value {
    json!({"from": stream.searched.start, "to": stream.searched.end})
}

pub(super) fn meta_json(answer: &SearchAnswer, started: Instant) -> Value {
    let position = match answer.streams.as_slice() {
        [stream] => json!(stream.position),
        _ => by_stream(answer, |stream| json!(stream.position)),
    };
    let sum = |of: fn(&SearchedStream) -> u64| answer.streams.iter().map(of).sum::<u64>();
    json!({
        "position": position,
        "files": {
            "left_out": sum(|stream| stream.files.left_out),
            "indexed": sum(|stream| stream.files.indexed),
            "scanned": sum(|stream| stream.files.scanned),
        },
        "tail_rows": sum(|stream| stream.tail_rows),
        "rows_scanned": answer.rows_scanned(),
        "bytes_read": answer.bytes_read(),
        "took_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "warnings": answer.warnings,
    })
}

/// How the answer was found, and the cost of its parts.
fn explain_json(answer: &SearchAnswer) -> Value {
    let streams = by_stream(answer, |stream| {
        json!({
            "condition": stream.condition,
            "searched": searched_json(stream),
            "files": {
                "left_out": stream.files.left_out,
                "indexed": stream.files.indexed,
                "scanned": stream.files.scanned,
            },
            "tail_rows": stream.tail_rows,
        })
    });
    let stages = answer.stages.iter().map(|stage| {
        json!({
            "stage": stage.name,
            "statements": stage.statements,
            "rows_scanned": stage.rows_scanned,
            "bytes_read": stage.bytes_read,
            "took_ms": stage.micros as f64 / 1e3,
        })
    });
    json!({"streams": streams, "stages": stages.collect::<Vec<_>>()})
}

fn facets_json(answer: &SearchAnswer) -> Value {
    let facets = answer.facets.iter().map(|facet| {
        let values: Vec<Value> = facet.values.iter().map(value_json).collect();
        let told = json!({"values": values, "distinct": facet.distinct, "missing": facet.missing});
        (facet.name.clone(), told)
    });
    Value::Object(facets.collect())
}

fn value_json(value: &ValueCount) -> Value {
    let counted = json!({"value": json_value(&value.value), "count": value.count});
    with_aggregates(counted, &value.aggregates)
}

/// An object with its aggregates, if there are any.
fn with_aggregates(mut object: Value, aggregates: &[(String, String)]) -> Value {
    if !aggregates.is_empty() {
        let values = aggregates.iter().map(|(name, value)| (name.clone(), json_value(value)));
        object["aggregates"] = Value::Object(values.collect::<Map<_, _>>());
    }
    object
}

fn ranges_json(answer: &SearchAnswer) -> Value {
    let ranges = answer.ranges.iter().map(|(name, ranges)| {
        let counts = ranges.iter().map(|range| {
            let (from, to) = (bound_json(&range.from), bound_json(&range.to));
            with_aggregates(json!({"from": from, "to": to, "count": range.count}), &range.aggregates)
        });
        (name.clone(), counts.collect())
    });
    Value::Object(ranges.collect())
}

fn bucket_json(bucket: &Bucket) -> Value {
    let time = time_text(bucket.start_micros.div_euclid(1000));
    let mut object = json!({"time": time, "count": bucket.count});
    if !bucket.by.is_empty() {
        object["by"] = bucket.by.iter().map(value_json).collect();
    }
    with_aggregates(object, &bucket.aggregates)
}

/// A value that was written as JSON.
fn json_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A bound as a number, or as it was written.
fn bound_json(text: &str) -> Value {
    serde_json::from_str::<serde_json::Number>(text).map_or_else(|_| json!(text), Value::Number)
}

/// One hit per line.
pub(super) fn lines(answer: &SearchAnswer) -> Response {
    let mut text = String::new();
    for hit in &answer.hits {
        write_hit(hit, &mut text);
        text.push('\n');
    }
    let mut response = response("application/x-ndjson", text);
    if let Some(total) = answer.total {
        response.headers_mut().insert(TOTAL, HeaderValue::from(total));
    }
    if !answer.is_complete {
        let searched = by_stream(answer, searched_json).to_string();
        response.headers_mut().extend(HeaderValue::try_from(searched).ok().map(|value| (SEARCHED, value)));
    }
    if let Some(cursor) = answer.cursor.as_deref().and_then(|cursor| HeaderValue::try_from(cursor).ok()) {
        response.headers_mut().insert(CURSOR, cursor);
    }
    response
}

pub(super) fn response(form: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
    response
}

pub(super) fn write_hit(hit: &SearchHit, out: &mut String) {
    let time = time_text(hit.time_micros.div_euclid(1000));
    let _ = write!(
        out,
        "{{\"stream\":{},\"offset\":{},\"time\":\"{time}\",\"score\":{},\"event\":{}",
        json!(hit.stream.as_str()),
        hit.offset,
        json!(hit.score),
        hit.event
    );
    if let Some(highlights) = &hit.highlights {
        let pieces = |pieces: &[Piece]| -> Value {
            pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => json!({"text": text}),
                    Piece::Match(text) => json!({"text": text, "match": true}),
                    Piece::Gap => json!({"gap": true}),
                })
                .collect()
        };
        let columns = highlights.iter().map(|(column, of)| (column.to_string(), pieces(of)));
        let _ = write!(out, ",\"highlight\":{}", Value::Object(columns.collect()));
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use swiftwater_engine::SearchedFiles;
    use swiftwater_event::StreamName;

    use super::*;

    #[test]
    fn lines_of_an_incomplete_answer_say_which_events_were_searched() {
        let stream = SearchedStream {
            stream: StreamName::new("logs").unwrap(),
            position: 9,
            searched: 3..9,
            condition: String::new(),
            files: SearchedFiles::default(),
            tail_rows: 0,
        };
        let partial = SearchAnswer { streams: vec![stream], ..SearchAnswer::default() };
        let response = lines(&partial);
        let searched = response.headers().get(&SEARCHED).unwrap().to_str().unwrap();
        let searched: Value = serde_json::from_str(searched).unwrap();
        assert_eq!(searched, json!({"logs": {"from": 3, "to": 9}}));
        let complete = SearchAnswer { is_complete: true, ..partial };
        assert!(!lines(&complete).headers().contains_key(&SEARCHED));
    }
}
