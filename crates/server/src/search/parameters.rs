//! Reads the parameters of a search, from the query of a request and from its JSON body.

use std::{net::IpAddr, str::FromStr};

use axum::{body::Body, http::request::Parts};
use serde_json::{Map, Value};
use swiftwater_engine::{
    AggregateRequest, ContextRequest, Drill, FacetRequest, HistogramRequest, RangeRequest, SearchRequest,
    SearchSort,
};
use swiftwater_event::StreamName;
use swiftwater_text::query::{Operator, moment_micros};

use crate::{
    body::{Encoding, Pieces},
    parameters::{bad, cut, no_text, pairs},
    problem::Problem,
    query_request::is_json,
    server::Shared,
};

/// Bytes of the body of a request.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// The parameters of one stream's search; that of several has `stream`, too.
pub(super) const PARAMETERS: [&str; 24] = [
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
    "partial",
    "explain",
    "follow",
];

/// The parameters of a summary of columns.
pub(super) const FIELD_PARAMETERS: [&str; 8] = ["q", "from", "to", "time", "op", "drill", "columns", "limit"];

/// Those of them that may be repeated.
const REPEATED: [&str; 4] = ["drill", "facet", "range", "stream"];

/// Those of them that may be JSON objects, with aggregates.
const OBJECTS: [&str; 3] = ["facet", "range", "histogram"];

/// The words of a parameter that is true or false.
const FLAG: [(&str, bool); 3] = [("false", false), ("true", true), ("", true)];

/// Hits where no limit is stated.
const HITS: usize = 20;
/// Events before and after one of them where no number is stated.
const AROUND_EVENTS: usize = 20;
/// Values of a facet where no limit is stated.
const FACET_VALUES: usize = 20;

/// The parameters of a request, with the values of each.
pub(super) struct Values {
    values: Vec<(String, Vec<String>)>,
    known: &'static [&'static str],
}

impl Values {
    pub(super) fn of_query(query: &str, known: &'static [&'static str]) -> Result<Values, Problem> {
        let mut values = Values { values: Vec::new(), known };
        for (name, value) in pairs(query) {
            let value = value.ok_or_else(|| no_text(&name))?.into_owned();
            values.add(&name, vec![value])?;
        }
        Ok(values)
    }

    fn add(&mut self, name: &str, more: Vec<String>) -> Result<(), Problem> {
        if !self.known.contains(&name) {
            let problem = bad(format!("no parameter `{}` here", cut(name)));
            return Err(problem.hint(format!("Parameters are: {}.", self.known.join(", "))));
        }
        match self.values.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) if REPEATED.contains(&name) => values.extend(more),
            Some(_) => return Err(bad(format!("parameter `{name}` is given twice"))),
            None => self.values.push((name.to_owned(), more)),
        }
        Ok(())
    }

    /// Adds the members of a JSON object.
    pub(super) async fn add_body(
        &mut self,
        shared: &Shared,
        parts: &Parts,
        body: Body,
    ) -> Result<(), Problem> {
        const FORM: &str =
            "Write {\"q\": \"timeout\", \"from\": \"now-15m\"} with Content-Type: application/json.";
        let members = members_of_body(shared, parts, body, FORM).await?;
        for (name, value) in members {
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                Value::Number(number) => Ok(number.to_string()),
                Value::Bool(flag) => Ok(flag.to_string()),
                // Read again where its members are known.
                Value::Object(_) if OBJECTS.contains(&name.as_str()) => Ok(value.to_string()),
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

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, values) = self.values.iter().find(|(known, _)| known == name)?;
        values.first().map(String::as_str)
    }

    pub(super) fn all(&self, name: &str) -> &[String] {
        self.values.iter().find(|(known, _)| known == name).map_or(&[], |(_, values)| values)
    }

    /// One of some words; the first is the default.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, Problem> {
        let Some(text) = self.get(name) else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            bad(format!("parameter `{name}` is {}, not `{}`", names.join(" or "), cut(text)))
        })
    }

    /// Whether the search goes on with later events.
    pub(super) fn follow(&self) -> Result<bool, Problem> {
        self.word("follow", &FLAG)
    }

    /// Whether the answer describes how it was found.
    pub(super) fn explain(&self) -> Result<bool, Problem> {
        self.word("explain", &FLAG)
    }

    pub(super) fn request(
        &self,
        stream: Option<String>,
        client: Option<IpAddr>,
        id: Option<String>,
    ) -> Result<SearchRequest, Problem> {
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
            queries: Vec::new(),
            operator: self.word("op", &[("and", Operator::And), ("or", Operator::Or)])?,
            from: own("from"),
            to: own("to"),
            time: own("time"),
            sort,
            limit: self.number("limit")?.unwrap_or(HITS),
            cursor: own("cursor"),
            columns,
            counts: self.word("count", &[("exact", true), ("none", false)])?,
            highlights: self.word("highlight", &FLAG)?,
            drills: self.all("drill").iter().map(|text| drill(text)).collect::<Result<_, _>>()?,
            sideways: self.word("sideways", &FLAG)?,
            around: self.around()?,
            facets: self.all("facet").iter().map(|text| facet(text)).collect::<Result<_, _>>()?,
            ranges: self.all("range").iter().map(|text| range(text)).collect::<Result<_, _>>()?,
            histogram: self.get("histogram").map(histogram).transpose()?,
            partial: self.word("partial", &FLAG)?,
            id,
            client,
        })
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
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

/// The members of a body that is a JSON object; none without a body. `form` is the hint of an error.
pub(super) async fn members_of_body(
    shared: &Shared,
    parts: &Parts,
    body: Body,
    form: &str,
) -> Result<Map<String, Value>, Problem> {
    let encoding = Encoding::of(&parts.headers)?;
    let timeout = shared.config.body_read_timeout_ms;
    let pieces = Pieces::new(body, encoding, BODY_BYTES_MAX, timeout, shared.share());
    let body = pieces.whole().await.map_err(|fault| fault.problem("a search", BODY_BYTES_MAX))?;
    if !body.is_empty() && !is_json(&parts.headers)? {
        return Err(Problem::bad_request("the body of a search is JSON").hint(form));
    }
    match body.is_empty() {
        true => Ok(Map::new()),
        false => serde_json::from_slice(&body).map_err(|error| {
            Problem::bad_request(format!("the body is not a JSON object: {error}")).hint(form)
        }),
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
    if text.starts_with('{') {
        return facet_of(Members::parse("facet", text)?);
    }
    let (column, options) = options(text, &["limit", "path", "depth", "name"], "facet")?;
    let mut facet = FacetRequest {
        column,
        name: None,
        limit: FACET_VALUES,
        path: None,
        depth: None,
        aggregates: Vec::new(),
        order: None,
    };
    for (name, value) in options {
        let number = || {
            let number = value.parse();
            number.map_err(|_| bad(format!("the {name} of a facet is a number, not `{}`", cut(&value))))
        };
        match &*name {
            "limit" => facet.limit = number()?,
            "depth" => facet.depth = Some(number()?),
            "name" => facet.name = Some(value),
            _ => facet.path = Some(value),
        }
    }
    Ok(facet)
}

/// `column:0,10,100;name=other`. The column may have a `:` itself.
fn range(text: &str) -> Result<RangeRequest, Problem> {
    if text.starts_with('{') {
        return range_of(Members::parse("range", text)?);
    }
    let form =
        || bad(format!("parameter `range` is no range: `{}`", cut(text))).hint("Write range=price:0,10,100.");
    let (written, options) = options(text, &["name"], "range")?;
    let (column, bounds) = match written.split_once(':') {
        Some((column, bounds)) if !column.is_empty() => (column, bounds),
        _ => return Err(form()),
    };
    Ok(RangeRequest {
        column: column.to_owned(),
        name: options.into_iter().next().map(|(_, name)| name),
        bounds: bounds.split(',').map(|bound| bound.trim().to_owned()).collect(),
        aggregates: Vec::new(),
    })
}

/// `column:1m;by=level`, or `auto` instead of the interval.
fn histogram(text: &str) -> Result<HistogramRequest, Problem> {
    if text.starts_with('{') {
        return histogram_of(Members::parse("histogram", text)?);
    }
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
    Ok(HistogramRequest { column: column.to_owned(), interval_micros, by, aggregates: Vec::new() })
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

/// The members of a facet, a range or a histogram that is a JSON object.
struct Members {
    parameter: &'static str,
    members: Map<String, Value>,
}

impl Members {
    fn parse(parameter: &'static str, text: &str) -> Result<Members, Problem> {
        let members = serde_json::from_str(text);
        let members =
            members.map_err(|error| bad(format!("parameter `{parameter}` is not JSON: {error}")))?;
        Ok(Members { parameter, members })
    }

    /// A text or a number.
    fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(bad(format!("member `{name}` of `{}` is a text or a number", self.parameter))),
        }
    }

    fn column(&mut self) -> Result<String, Problem> {
        let parameter = self.parameter;
        self.text("column")?.ok_or_else(|| {
            bad(format!("`{parameter}` has no member `column`")).hint("Write {\"column\": \"level\"}.")
        })
    }

    fn number(&mut self, name: &str) -> Result<Option<usize>, Problem> {
        let number = self.text(name)?.map(|text| text.parse());
        number.transpose().map_err(|_| bad(format!("member `{name}` of `{}` is a number", self.parameter)))
    }

    fn aggregates(&mut self) -> Result<Vec<AggregateRequest>, Problem> {
        const FORM: &str = "Write {\"aggregates\": {\"total\": \"sum(price * qty)\"}}.";
        let aggregates = match self.members.remove("aggregates") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Object(aggregates)) => aggregates,
            Some(_) => {
                return Err(
                    bad(format!("the aggregates of `{}` are not an object", self.parameter)).hint(FORM)
                );
            }
        };
        let read = |(name, expression)| match expression {
            Value::String(expression) => Ok(AggregateRequest { name, expression }),
            _ => Err(bad(format!("the aggregate `{}` is not a text", cut(&name))).hint(FORM)),
        };
        aggregates.into_iter().map(read).collect()
    }

    /// Refuses members that were not read.
    fn finish(self, known: &str) -> Result<(), Problem> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(name) => Err(bad(format!("`{}` has no member `{}`", self.parameter, cut(name)))
                .hint(format!("Members are: {known}."))),
        }
    }
}

fn facet_of(mut members: Members) -> Result<FacetRequest, Problem> {
    let aggregates = members.aggregates()?;
    let order = members.text("order")?.map(|order| match order.strip_prefix('-') {
        Some(name) => (name.to_owned(), true),
        None => (order, false),
    });
    if let Some((name, _)) = &order
        && !aggregates.iter().any(|aggregate| aggregate.name == *name)
    {
        return Err(bad(format!("a facet has no aggregate `{}` to be ordered by", cut(name)))
            .hint("Without `order`, the most frequent value comes first."));
    }
    let facet = FacetRequest {
        column: members.column()?,
        name: members.text("name")?,
        limit: members.number("limit")?.unwrap_or(FACET_VALUES),
        path: members.text("path")?,
        depth: members.number("depth")?,
        aggregates,
        order,
    };
    members.finish("column, name, limit, path, depth, aggregates, order")?;
    Ok(facet)
}

fn range_of(mut members: Members) -> Result<RangeRequest, Problem> {
    let bounds = match members.members.remove("bounds") {
        Some(Value::Array(bounds)) => bounds,
        _ => return Err(bad("the bounds of a range are a list").hint("Write {\"bounds\": [0, 10, 100]}.")),
    };
    let text = |bound| match bound {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(bad("a bound of a range is a number or a text")),
    };
    let range = RangeRequest {
        column: members.column()?,
        name: members.text("name")?,
        bounds: bounds.into_iter().map(text).collect::<Result<_, _>>()?,
        aggregates: members.aggregates()?,
    };
    members.finish("column, name, bounds, aggregates")?;
    Ok(range)
}

fn histogram_of(mut members: Members) -> Result<HistogramRequest, Problem> {
    let interval = members.text("interval")?;
    let interval_micros = match interval.as_deref() {
        None | Some("auto") => None,
        Some(text) => Some(interval_micros(text).ok_or_else(|| {
            bad(format!("`{}` is no interval of a histogram", cut(text))).hint("Write 1m, 1h or auto.")
        })?),
    };
    let histogram = HistogramRequest {
        column: members.column()?,
        interval_micros,
        by: members.text("by")?,
        aggregates: members.aggregates()?,
    };
    members.finish("column, interval, by, aggregates")?;
    Ok(histogram)
}
