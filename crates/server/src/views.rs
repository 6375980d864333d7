//! `/v1/views`: lists views, and reads them by key, by range, and by many keys at once.
//!
//! A key's values are segments of the path, each percent-encoded. A value is tried as number, boolean, null, list or map
//! (JSON), time and text in turn; in double quotes it is text. Elsewhere a key is JSON: a value, or an array of values.
//! `Swiftwater-Position` and `Swiftwater-Age-Ms` report the position of the view. With `consistent`, the answer waits until
//! the view counts all events acknowledged before, or the events before an offset.

use std::{fmt::Write, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json, value::RawValue};
use swiftwater_engine::{KeyValue, Principal, Row, ViewRange, ViewReading, ViewStatus, Wanted};

use crate::{
    accept::prefers,
    body::{Encoding, Pieces, heavy},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    routes::{Name, name},
    server::Shared,
    status::json_response,
    wire::time_text,
};

pub(crate) const POSITION: HeaderName = HeaderName::from_static("swiftwater-position");
const AGE: HeaderName = HeaderName::from_static("swiftwater-age-ms");
const NEXT: HeaderName = HeaderName::from_static("swiftwater-next");

/// Rows of a page where none are stated, and the most.
const ROWS_DEFAULT: u64 = 100;
const ROWS_MAX: u64 = 10_000;

/// Keys that can be asked for at once.
const KEYS_MAX: usize = 10_000;
/// Bytes of such a request.
const KEYS_BYTES_MAX: u64 = 1 << 20;

pub(crate) async fn list(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    Ok(heavy(usize::MAX, || {
        let views = shared.engine.views(&Principal::anonymous());
        let views: Vec<Value> = views.iter().map(view_json).collect();
        json_response(StatusCode::OK, &json!({"views": views}))
    }))
}

pub(crate) fn view_json(view: &ViewStatus) -> Value {
    let columns: Vec<Value> =
        view.columns.iter().map(|(name, ty)| json!({"name": name, "type": ty})).collect();
    json!({
        "name": view.name,
        "stream": view.stream.as_str(),
        "of_view": view.of_view,
        "query": view.query,
        "created": time_text(view.created),
        "columns": columns,
        "from": view.from,
        "position": view.position,
        "committed": view.committed,
        "lag_events": view.lag_events,
        "from_table": view.from_table,
        "keys_held": view.keys_held,
        "held_bytes": view.held_bytes,
        "counts": {
            "events": view.events.0,
            "matched": view.events.1,
            "mistyped": view.faults.0,
            "expression_errors": view.faults.1,
            "long_keys": view.faults.2,
            "late": view.late,
            "ahead": view.ahead,
        },
        "watermark": view.watermark.map(time_text),
        "failing": view.failing,
    })
}

/// One key's row; 304 where the asker has it already.
pub(crate) async fn row(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["consistent"])?;
    let wanted = requested_consistency(&parameters)?;
    let mut segments = uri.path().split('/').skip(3).map(|segment| {
        let text = percent_decode_str(segment).decode_utf8();
        text.map_err(|_| Problem::bad_request("the path is not valid percent-encoded UTF-8"))
    });
    let view = segments.next().transpose()?.unwrap_or_default();
    let key = segments.skip(1).map(|text| Ok(KeyValue::Written(text?.into_owned())));
    let key: Vec<KeyValue> = key.collect::<Result<_, Problem>>()?;
    let (row, reading) = shared.engine.view_row(&Principal::anonymous(), &view, &key, wanted).await?;
    let Some(row) = row else {
        let written = uri.path().splitn(6, '/').nth(5).unwrap_or_default();
        let problem = Problem::new(
            StatusCode::NOT_FOUND,
            "not-found",
            "The key does not exist",
            format!("view `{}` has no row of key `{}`", cut(&view), cut(written)),
        );
        return Ok((marks(&reading), problem).into_response());
    };
    let tag = tag(&row, &reading);
    let has_it = has_tag(&headers, &tag);
    let fields = [
        (header::ETAG, HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if has_it {
        return Ok((StatusCode::NOT_MODIFIED, marks(&reading), fields).into_response());
    }
    let mut json = row.json;
    json.push(b'\n');
    let json_field = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((marks(&reading), fields, json_field, Body::from(json)).into_response())
}

/// The tag that identifies one state of a row: the view, by its creation, and the last change.
fn tag(row: &Row, reading: &ViewReading) -> String {
    entity_tag([reading.created as u64, row.changed])
}

/// Numbers as an entity tag: in hexadecimal, with `-` between them. By hand, as this is on the way of every GET, and formatting goes
/// through several layers for each number.
pub(crate) fn entity_tag<const N: usize>(numbers: [u64; N]) -> String {
    let mut tag = String::with_capacity(2 + 17 * N);
    for (place, number) in numbers.into_iter().enumerate() {
        tag.push(if place == 0 { '"' } else { '-' });
        let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
        let digit = |at| char::from_digit((number >> (4 * at)) as u32 & 15, 16).unwrap_or_default();
        tag.extend((0..digits).rev().map(digit));
    }
    tag.push('"');
    tag
}

/// True if who asks has what this tag stands for.
pub(crate) fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(header::IF_NONE_MATCH).iter().any(|field| {
        let tags = field.to_str().unwrap_or_default();
        tags.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
    })
}

pub(crate) fn marks(reading: &ViewReading) -> [(HeaderName, HeaderValue); 2] {
    [(POSITION, HeaderValue::from(reading.position)), (AGE, HeaderValue::from(reading.age_ms))]
}

fn requested_consistency(parameters: &Parameters) -> Result<Wanted, Problem> {
    parse_consistency(parameters.get("consistent"))
}

/// The consistency that the parameter `consistent` requests.
pub(crate) fn parse_consistency(consistent: Option<&str>) -> Result<Wanted, Problem> {
    match consistent {
        None | Some("false") => Ok(Wanted::AsItIs),
        Some("true" | "") => Ok(Wanted::AckHorizon),
        Some(position) => position.parse().map(Wanted::Position).map_err(|_| {
            bad(format!("parameter `consistent` is `true`, `false` or a position, not `{}`", cut(position)))
        }),
    }
}

/// Rows in the order of their keys, a page at a time.
pub(crate) async fn rows(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let view = name(path)?;
    let parameters =
        Parameters::parse(uri.query(), &["from", "to", "prefix", "after", "limit", "consistent"])?;
    let wanted = requested_consistency(&parameters)?;
    let key = |name: &str| parameters.get(name).map(key_of_text);
    let limit = match parameters.get("limit") {
        None => ROWS_DEFAULT,
        Some(text) => text.parse().ok().filter(|limit| (1..=ROWS_MAX).contains(limit)).ok_or_else(|| {
            bad(format!("parameter `limit` is a number from 1 to {ROWS_MAX}, not `{}`", cut(text)))
        })?,
    };
    let after = parameters.get("after").map(|text| {
        from_hex(text).ok_or_else(|| bad("parameter `after` is what an earlier page gave as `next`"))
    });
    let range = ViewRange {
        from: key("from"),
        to: key("to"),
        prefix: key("prefix"),
        after: after.transpose()?,
        limit,
    };
    let page = shared.engine.view_rows(&Principal::anonymous(), &view, &range, wanted).await?;
    let next = page.next.as_deref().map(to_hex);
    if prefers(&headers, "application/x-ndjson", "application/json") {
        let fields = [(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))];
        let mut response = (marks(&page.reading), fields, Body::from(page.rows)).into_response();
        if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
            response.headers_mut().insert(NEXT, next);
        }
        return Ok(response);
    }
    let mut text = b"{\"rows\":[".to_vec();
    for (place, row) in page.rows.split(|&byte| byte == b'\n').filter(|row| !row.is_empty()).enumerate() {
        if place > 0 {
            text.push(b',');
        }
        text.extend_from_slice(row);
    }
    let ViewReading { position, age_ms, .. } = page.reading;
    text.extend(
        format!("],\"next\":{},\"position\":{position},\"age_ms\":{age_ms}}}\n", json!(next)).bytes(),
    );
    let fields = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((marks(&page.reading), fields, Body::from(text)).into_response())
}

const KEYS_HINT: &str = "Write [\"a\", \"b\"], or [[\"a\", 1], [\"b\", 2]] where a key has several values.";

/// The rows of many keys, in the order in which they are asked for; null where there is none.
pub(crate) async fn many(
    State(shared): State<Arc<Shared>>,
    path: Name,
    request: Request,
) -> Result<Response, Problem> {
    let view = name(path)?;
    let (parts, body) = request.into_parts();
    let parameters = Parameters::parse(parts.uri.query(), &["consistent"])?;
    let mut wanted = requested_consistency(&parameters)?;
    let encoding = Encoding::of(&parts.headers)?;
    let pieces =
        Pieces::new(body, encoding, KEYS_BYTES_MAX, shared.config.body_read_timeout_ms, shared.share());
    let text = pieces.whole().await.map_err(|fault| fault.problem("a request for keys", KEYS_BYTES_MAX))?;
    let keys: Vec<&RawValue> = serde_json::from_slice(&text)
        .map_err(|_| Problem::bad_request("the body is not a JSON array of keys").hint(KEYS_HINT))?;
    if keys.len() > KEYS_MAX {
        return Err(Problem::bad_request(format!("{} keys, limit is {KEYS_MAX}", keys.len())));
    }
    let principal = Principal::anonymous();
    let (mut out, mut reading) = (b"{\"rows\":[".to_vec(), None);
    for (place, key) in keys.iter().enumerate() {
        let (row, now) = shared.engine.view_row(&principal, &view, &key_of_json(key), wanted).await?;
        // The others are as new.
        wanted = Wanted::AsItIs;
        reading.get_or_insert(now);
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(row.as_ref().map_or(b"null", |row| &row.json));
    }
    out.extend_from_slice(b"]}\n");
    let fields = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    let mut response = (fields, Body::from(out)).into_response();
    if let Some(reading) = reading {
        response.headers_mut().extend(marks(&reading));
    }
    Ok(response)
}

/// A key in a parameter: JSON, or else a text that is tried as in a path.
fn key_of_text(text: &str) -> Vec<KeyValue> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(json) if json.get().starts_with(['[', '"']) => key_of_json(json),
        _ => vec![KeyValue::Written(text.to_owned())],
    }
}

/// A key in JSON. Its values are read as those of events are, so as they are written.
fn key_of_json(key: &RawValue) -> Vec<KeyValue> {
    let values = serde_json::from_str::<Vec<&RawValue>>(key.get());
    // A value other than an array is the key's one value.
    let values = values.unwrap_or_else(|_| vec![key]);
    values.into_iter().map(|value| KeyValue::Json(value.get().to_owned())).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_back_as_the_same() {
        for bytes in [&b""[..], &[0, 0xff, 0x30]] {
            assert_eq!(from_hex(&to_hex(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!((from_hex("0"), from_hex("0g")), (None, None));
    }
}
