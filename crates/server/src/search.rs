//! `/v1/streams/{stream}/search` and `/v1/search`: searches stored events.
//!
//! ```text
//! GET /v1/streams/logs/search?q=timeout&from=now-15m&limit=20
//! GET /v1/search?stream=logs&stream=traces&q=timeout
//! POST …                                     the same names as members of a JSON object
//! ```
//!
//! `Accept` selects one JSON object, or one hit per line with the count and the cursor in the header. A client that
//! disconnects ends its search.

use std::{fmt::Write, net::IpAddr, sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, header, request::Parts},
    response::Response,
};
use serde_json::{Map, Value, json};
use swiftwater_engine::{Piece, Principal, SearchAnswer, SearchHit, SearchRequest, SearchSort};
use swiftwater_event::StreamName;
use swiftwater_text::query::Operator;

use crate::{
    accept::prefers,
    body::{Encoding, Pieces, heavy},
    parameters::{bad, cut, no_text, pairs},
    problem::Problem,
    query_request::is_json,
    routes::{Name, name},
    server::{Connection, Shared},
    wire::time_text,
};

const TOTAL: HeaderName = HeaderName::from_static("swiftwater-total");
const CURSOR: HeaderName = HeaderName::from_static("swiftwater-cursor");

/// Bytes of the body of a request.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// The parameters of one stream's search; that of several has `stream`, too.
const PARAMETERS: [&str; 12] =
    ["q", "from", "to", "time", "sort", "limit", "cursor", "columns", "count", "op", "highlight", "stream"];

/// Searches one stream.
pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    path: Name,
    request: Request,
) -> Result<Response, Problem> {
    let stream = name(path)?;
    answer(&shared, Some(stream), request).await
}

/// Searches several streams.
pub(crate) async fn streams(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    answer(&shared, None, request).await
}

async fn answer(shared: &Arc<Shared>, stream: Option<String>, request: Request) -> Result<Response, Problem> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let mut values = Values::of_query(parts.uri.query().unwrap_or_default())?;
    if parts.method == Method::POST {
        values.add_body(shared, &parts, body).await?;
    }
    let client = parts.extensions.get::<Arc<Connection>>().map(|connection| connection.address);
    let search = values.request(stream, client)?;
    let answer = shared.engine.search(&Principal::anonymous(), &search).await?;
    Ok(heavy(answer.hits.iter().map(|hit| hit.event.len()).sum(), || {
        match prefers(&parts.headers, "application/x-ndjson", "application/json") {
            true => lines(&answer),
            false => object(&answer, started),
        }
    }))
}

/// The parameters of a request, with the values of each.
#[derive(Default)]
struct Values(Vec<(String, Vec<String>)>);

impl Values {
    fn of_query(query: &str) -> Result<Values, Problem> {
        let mut values = Values::default();
        for (name, value) in pairs(query) {
            let value = value.ok_or_else(|| no_text(&name))?.into_owned();
            values.add(&name, vec![value])?;
        }
        Ok(values)
    }

    fn add(&mut self, name: &str, more: Vec<String>) -> Result<(), Problem> {
        if !PARAMETERS.contains(&name) {
            let problem = bad(format!("no parameter `{}` here", cut(name)));
            return Err(problem.hint(format!("Parameters are: {}.", PARAMETERS.join(", "))));
        }
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) if name == "stream" => values.extend(more),
            Some(_) => return Err(bad(format!("parameter `{name}` is given twice"))),
            None => self.0.push((name.to_owned(), more)),
        }
        Ok(())
    }

    /// Adds the members of a JSON object.
    async fn add_body(&mut self, shared: &Shared, parts: &Parts, body: Body) -> Result<(), Problem> {
        const FORM: &str =
            "Write {\"q\": \"timeout\", \"from\": \"now-15m\"} with Content-Type: application/json.";
        let encoding = Encoding::of(&parts.headers)?;
        let timeout = shared.config.body_read_timeout_ms;
        let pieces = Pieces::new(body, encoding, BODY_BYTES_MAX, timeout, shared.share());
        let body = pieces.whole().await.map_err(|fault| fault.problem("a search", BODY_BYTES_MAX))?;
        if !body.is_empty() && !is_json(&parts.headers)? {
            return Err(Problem::bad_request("the body of a search is JSON").hint(FORM));
        }
        let members: Map<String, Value> = match body.is_empty() {
            true => Map::new(),
            false => serde_json::from_slice(&body).map_err(|error| {
                Problem::bad_request(format!("the body is not a JSON object: {error}")).hint(FORM)
            })?,
        };
        for (name, value) in members {
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                Value::Number(number) => Ok(number.to_string()),
                Value::Bool(flag) => Ok(flag.to_string()),
                _ => Err(Problem::bad_request(format!("member `{}` is not a text", cut(&name))).hint(FORM)),
            };
            let values = match value {
                Value::Null => continue,
                Value::Array(values) if name == "columns" => {
                    let names = values.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
                    vec![names.join(",")]
                }
                Value::Array(values) if name == "stream" => {
                    values.into_iter().map(text).collect::<Result<Vec<_>, _>>()?
                }
                value => vec![text(value)?],
            };
            self.add(&name, values)?;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&str> {
        let (_, values) = self.0.iter().find(|(known, _)| known == name)?;
        values.first().map(String::as_str)
    }

    /// One of some words; the first is the default.
    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, Problem> {
        let Some(text) = self.get(name) else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            bad(format!("parameter `{name}` is {}, not `{}`", names.join(" or "), cut(text)))
        })
    }

    fn request(&self, stream: Option<String>, client: Option<IpAddr>) -> Result<SearchRequest, Problem> {
        let own = |name: &str| self.get(name).map(str::to_owned);
        let limit = match self.get("limit") {
            None => 20,
            Some(text) => text
                .parse()
                .map_err(|_| bad(format!("parameter `limit` is a number, not `{}`", cut(text))))?,
        };
        let sort = match self.get("sort") {
            None => SearchSort::default(),
            Some(text) => {
                let descending = text.starts_with('-');
                SearchSort { column: text.trim_start_matches('-').to_owned(), descending }
            }
        };
        let columns = own("columns").map(|text| text.split(',').map(|name| name.trim().to_owned()).collect());
        Ok(SearchRequest {
            streams: self.streams(stream)?,
            query: own("q").unwrap_or_default(),
            operator: self.word("op", &[("and", Operator::And), ("or", Operator::Or)])?,
            from: own("from"),
            to: own("to"),
            time: own("time"),
            sort,
            limit,
            cursor: own("cursor"),
            columns,
            counts: self.word("count", &[("exact", true), ("none", false)])?,
            highlights: self.word("highlight", &[("false", false), ("true", true), ("", true)])?,
            client,
        })
    }

    fn streams(&self, stream: Option<String>) -> Result<Vec<StreamName>, Problem> {
        let stated = self.0.iter().find(|(name, _)| name == "stream").map(|(_, values)| &values[..]);
        if stream.is_some() && stated.is_some() {
            return Err(bad("the path names the stream")
                .hint("Several are searched by GET /v1/search?stream=a&stream=b."));
        }
        let names: Vec<&str> = match &stream {
            Some(stream) => vec![stream],
            None => stated.unwrap_or_default().iter().map(String::as_str).collect(),
        };
        let mut streams = Vec::with_capacity(names.len());
        for name in names {
            let name = StreamName::new(name).map_err(|fault| bad(fault.to_string()))?;
            if !streams.contains(&name) {
                streams.push(name);
            }
        }
        Ok(streams)
    }
}

/// All hits as one object.
fn object(answer: &SearchAnswer, started: Instant) -> Response {
    let mut text = String::from("{\"hits\":[");
    for (place, hit) in answer.hits.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_hit(hit, &mut text);
    }
    let position = match answer.streams.as_slice() {
        [stream] => json!(stream.position),
        streams => {
            let positions = streams.iter().map(|stream| (stream.stream.to_string(), json!(stream.position)));
            Value::Object(positions.collect())
        }
    };
    let meta = json!({
        "position": position,
        "rows_scanned": answer.rows_scanned,
        "bytes_read": answer.bytes_read,
        "took_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    let _ = writeln!(
        text,
        "],\"total\":{},\"cursor\":{},\"complete\":true,\"meta\":{meta}}}",
        json!(answer.total),
        json!(answer.cursor)
    );
    response("application/json", text)
}

/// One hit per line.
fn lines(answer: &SearchAnswer) -> Response {
    let mut text = String::new();
    for hit in &answer.hits {
        write_hit(hit, &mut text);
        text.push('\n');
    }
    let mut response = response("application/x-ndjson", text);
    if let Some(total) = answer.total {
        response.headers_mut().insert(TOTAL, HeaderValue::from(total));
    }
    if let Some(cursor) = answer.cursor.as_deref().and_then(|cursor| HeaderValue::try_from(cursor).ok()) {
        response.headers_mut().insert(CURSOR, cursor);
    }
    response
}

fn response(form: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
    response
}

fn write_hit(hit: &SearchHit, out: &mut String) {
    let time = time_text(hit.time_micros.div_euclid(1000));
    let _ = write!(
        out,
        "{{\"stream\":{},\"offset\":{},\"time\":\"{time}\",\"score\":null,\"event\":{}",
        json!(hit.stream.as_str()),
        hit.offset,
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
