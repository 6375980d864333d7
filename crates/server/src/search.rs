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

use std::{fmt::Write, net::IpAddr, str::FromStr, sync::Arc};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, header, request::Parts},
    response::Response,
};
use serde_json::{Map, Value, json};
use swiftwater_engine::{
    Bucket, ContextRequest, Drill, FacetRequest, HistogramRequest, Piece, Principal, RangeRequest,
    SearchAnswer, SearchHit, SearchRequest, SearchSort,
};
use swiftwater_event::StreamName;
use swiftwater_text::query::{Operator, moment_micros};
use tokio::time::Instant;

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
const PARAMETERS: [&str; 21] = [
    "q",
    "from",
    "to",
    "time",
    "sort",
    "limit",
    "cursor",
    "columns",
    "count",
    "op",
    "highlight",
    "facet",
    "range",
    "histogram",
    "drill",
    "sideways",
    "around",
    "before",
    "after",
    "same",
    "stream",
];

/// Those of them that may be repeated.
const REPEATED: [&str; 4] = ["drill", "facet", "range", "stream"];

/// Hits where no limit is stated.
const HITS: usize = 20;
/// Events before and after one of them where no number is stated.
const AROUND_EVENTS: usize = 20;
/// Values of a facet where no limit is stated.
const FACET_VALUES: usize = 20;

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
            Some((_, values)) if REPEATED.contains(&name) => values.extend(more),
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
                Value::Array(values) if REPEATED.contains(&name.as_str()) => {
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

    fn all(&self, name: &str) -> &[String] {
        self.0.iter().find(|(known, _)| known == name).map_or(&[], |(_, values)| values)
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
            limit: self.number("limit")?.unwrap_or(HITS),
            cursor: own("cursor"),
            columns,
            counts: self.word("count", &[("exact", true), ("none", false)])?,
            highlights: self.word("highlight", &[("false", false), ("true", true), ("", true)])?,
            drills: self.all("drill").iter().map(|text| drill(text)).collect::<Result<_, _>>()?,
            sideways: self.word("sideways", &[("false", false), ("true", true), ("", true)])?,
            around: self.around()?,
            facets: self.all("facet").iter().map(|text| facet(text)).collect::<Result<_, _>>()?,
            ranges: self.all("range").iter().map(|text| range(text)).collect::<Result<_, _>>()?,
            histogram: self.get("histogram").map(histogram).transpose()?,
            client,
        })
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| {
            let number = text.parse();
            number.map_err(|_| bad(format!("parameter `{name}` is a number, not `{}`", cut(text))))
        };
        self.get(name).map(parse).transpose()
    }

    fn around(&self) -> Result<Option<ContextRequest>, Problem> {
        let (before, after) = (self.number("before")?, self.number("after")?);
        let same = self.get("same").map(str::to_owned);
        match self.number("around")? {
            Some(offset) => Ok(Some(ContextRequest {
                offset,
                before: before.unwrap_or(AROUND_EVENTS),
                after: after.unwrap_or(AROUND_EVENTS),
                same,
            })),
            None if before.is_none() && after.is_none() && same.is_none() => Ok(None),
            None => Err(bad("parameters `before`, `after` and `same` need `around`")
                .hint("Write around=OFFSET, with the offset of a hit.")),
        }
    }

    fn streams(&self, stream: Option<String>) -> Result<Vec<StreamName>, Problem> {
        let stated = self.all("stream");
        if stream.is_some() && !stated.is_empty() {
            return Err(bad("the path names the stream")
                .hint("Several are searched by GET /v1/search?stream=a&stream=b."));
        }
        let names: Vec<&str> = match &stream {
            Some(stream) => vec![stream],
            None => stated.iter().map(String::as_str).collect(),
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

/// `column:a/b`.
fn drill(text: &str) -> Result<Drill, Problem> {
    match text.split_once(':') {
        Some((column, path)) if !column.is_empty() => {
            Ok(Drill { column: column.to_owned(), path: path.to_owned() })
        }
        _ => Err(bad(format!("parameter `drill` is no column and value: `{}`", cut(text)))
            .hint("Write drill=category:books/fiction.")),
    }
}

/// `column;limit=20;path=a/b;depth=1`.
fn facet(text: &str) -> Result<FacetRequest, Problem> {
    let (column, options) = options(text, &["limit", "path", "depth"], "facet")?;
    let mut facet = FacetRequest { column, limit: FACET_VALUES, path: None, depth: None };
    for (name, value) in options {
        let number = || {
            let number = value.parse();
            number.map_err(|_| bad(format!("the {name} of a facet is a number, not `{}`", cut(&value))))
        };
        match &*name {
            "limit" => facet.limit = number()?,
            "depth" => facet.depth = Some(number()?),
            _ => facet.path = Some(value),
        }
    }
    Ok(facet)
}

/// `column:0,10,100`. The column may have a `:` itself.
fn range(text: &str) -> Result<RangeRequest, Problem> {
    let form =
        || bad(format!("parameter `range` is no range: `{}`", cut(text))).hint("Write range=price:0,10,100.");
    let (column, bounds) = match text.split_once(':') {
        Some((column, bounds)) if !column.is_empty() => (column, bounds),
        _ => return Err(form()),
    };
    Ok(RangeRequest {
        column: column.to_owned(),
        bounds: bounds.split(',').map(|bound| bound.trim().to_owned()).collect(),
    })
}

/// `column:1m;by=level`, or `auto` instead of the interval.
fn histogram(text: &str) -> Result<HistogramRequest, Problem> {
    let form = || {
        bad(format!("parameter `histogram` is no histogram: `{}`", cut(text)))
            .hint("Write histogram=_time:1m, histogram=_time:auto or histogram=_time:1h;by=level.")
    };
    let (written, options) = options(text, &["by"], "histogram")?;
    let (column, interval) = written.rsplit_once(':').ok_or_else(form)?;
    let interval_micros = match interval {
        "auto" => None,
        interval => Some(interval_micros(interval).ok_or_else(form)?),
    };
    let by = options.into_iter().next().map(|(_, by)| by);
    Ok(HistogramRequest { column: column.to_owned(), interval_micros, by })
}

fn interval_micros(text: &str) -> Option<i64> {
    // From the start of 1970 on, the moment is the interval.
    moment_micros(&format!("now+{text}"), 0).filter(|micros| *micros > 0)
}

/// The text before the first `;`, and the options behind it.
fn options(text: &str, known: &[&str], parameter: &str) -> Result<(String, Vec<(String, String)>), Problem> {
    let mut parts = text.split(';');
    let first = parts.next().unwrap_or_default().to_owned();
    let mut options = Vec::new();
    for part in parts {
        match part.split_once('=') {
            Some((name, value)) if known.contains(&name) => options.push((name.to_owned(), value.to_owned())),
            _ => {
                let problem = bad(format!("parameter `{parameter}` has no option `{}`", cut(part)));
                return Err(problem.hint(format!("Options are: {}=….", known.join("=…, "))));
            }
        }
    }
    Ok((first, options))
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
        "],\"total\":{},\"facets\":{},\"ranges\":{},\"histogram\":{},\"cursor\":{},\"complete\":true,\"meta\":{meta}}}",
        json!(answer.total),
        facets_json(answer),
        ranges_json(answer),
        json!(answer.histogram.as_deref().unwrap_or_default().iter().map(bucket_json).collect::<Vec<_>>()),
        json!(answer.cursor)
    );
    response("application/json", text)
}

fn facets_json(answer: &SearchAnswer) -> Value {
    let facets = answer.facets.iter().map(|facet| {
        let values: Vec<Value> = facet
            .values
            .iter()
            .map(|(value, count)| json!({"value": json_value(value), "count": count}))
            .collect();
        let told = json!({"values": values, "distinct": facet.distinct, "missing": facet.missing});
        (facet.column.clone(), told)
    });
    Value::Object(facets.collect())
}

fn ranges_json(answer: &SearchAnswer) -> Value {
    let ranges = answer.ranges.iter().map(|(column, ranges)| {
        let counts = ranges.iter().map(|range| {
            json!({"from": bound_json(&range.from), "to": bound_json(&range.to), "count": range.count})
        });
        (column.clone(), counts.collect())
    });
    Value::Object(ranges.collect())
}

fn bucket_json(bucket: &Bucket) -> Value {
    let time = time_text(bucket.start_micros.div_euclid(1000));
    if bucket.by.is_empty() {
        return json!({"time": time, "count": bucket.count});
    }
    let by: Vec<Value> =
        bucket.by.iter().map(|(value, count)| json!({"value": json_value(value), "count": count})).collect();
    json!({"time": time, "count": bucket.count, "by": by})
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
