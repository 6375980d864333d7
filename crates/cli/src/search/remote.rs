//! Searches the stored events of a server's streams, page by page.

use std::{
    io::{self, BufWriter, Write},
    process::ExitCode,
};

use anyhow::Context;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use swiftwater_text::EventSearch;

use super::{Found, WRONG_QUERY};
use crate::{
    args::SearchArgs,
    client::{Client, Lines, Problem, full, read_all},
    exit::{Failure, Outcome},
    signals::client_runtime,
    stdio,
};

/// Hits of a request.
const PAGE_HITS: u64 = 1000;
/// Hits where none are stated.
const HITS_DEFAULT: u64 = 20;

/// A hit, as far as it is shown.
#[derive(Deserialize)]
struct Hit<'h> {
    stream: String,
    time: String,
    #[serde(borrow)]
    event: &'h RawValue,
}

/// Runs the command.
pub(super) fn run(args: &SearchArgs, streams: &[String], query: &str) -> Outcome {
    stdio::exit_when_stdout_closes();
    let runtime = client_runtime().context("cannot start")?;
    runtime.block_on(search(args, streams, query))
}

async fn search(args: &SearchArgs, streams: &[String], query: &str) -> Outcome {
    let client = Client::new(args.client.url())?;
    let mut out = BufWriter::with_capacity(256 << 10, io::stdout());
    let mut body = request(args, streams, query);
    if args.count {
        body.insert("limit".to_owned(), json!(0));
        let lines = ask(&client, &body).await?;
        let total = lines.total.context("the server did not count")?;
        writeln!(out, "{}", json!({"events": total})).and_then(|()| out.flush()).map_err(Failure::output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let marks = args.color || stdio::stdout_is_terminal();
    // Conditions that need a table's columns have no marks.
    let search = marks.then(|| EventSearch::of_event(query, super::OPERATOR, None).ok()).flatten();
    let mut found = search.map(Found::new);
    let mut left = if args.all { u64::MAX } else { args.limit.unwrap_or(HITS_DEFAULT) };
    while left > 0 {
        body.insert("limit".to_owned(), json!(left.min(PAGE_HITS)));
        let mut page = ask(&client, &body).await?;
        let mut hits = 0;
        while let Some(line) = page.lines.next().await? {
            hits += 1;
            let written = match args.hits {
                true => out.write_all(&line).and_then(|()| out.write_all(b"\n")),
                false => write_event(&line, (streams.len() > 1, marks), found.as_mut(), &mut out),
            };
            written.map_err(Failure::output)?;
        }
        out.flush().map_err(Failure::output)?;
        left = left.saturating_sub(hits);
        let Some(cursor) = page.cursor else { break };
        body.insert("cursor".to_owned(), json!(cursor));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the event of a hit; on a terminal after its time and, of several streams, its stream.
fn write_event(
    line: &[u8],
    (is_of_several, marks): (bool, bool),
    found: Option<&mut Found>,
    out: &mut impl Write,
) -> io::Result<()> {
    let hit: Hit<'_> = serde_json::from_slice(line).map_err(io::Error::other)?;
    if marks {
        write!(out, "\x1b[2m{}", hit.time)?;
        if is_of_several {
            write!(out, " {}", hit.stream)?;
        }
        write!(out, "\x1b[0m ")?;
    }
    match found {
        Some(found) => {
            found.write_marked(hit.event.get().as_bytes(), out)?;
            out.write_all(b"\n")
        }
        None => writeln!(out, "{}", hit.event.get()),
    }
}

/// The body of the request.
fn request(args: &SearchArgs, streams: &[String], query: &str) -> Map<String, Value> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    put("q", Some(json!(query)));
    put("stream", Some(json!(streams)));
    put("from", args.from.as_ref().map(|from| json!(from)));
    put("from", args.last.as_ref().map(|last| json!(format!("now-{last}"))));
    put("to", args.to.as_ref().map(|to| json!(to)));
    put("time", args.time.as_ref().map(|time| json!(time)));
    put("sort", args.sort.as_ref().map(|sort| json!(sort)));
    put("columns", (!args.columns.is_empty()).then(|| json!(args.columns)));
    put("count", (!args.count).then(|| json!("none")));
    body
}

/// A page of hits.
struct Page {
    lines: Lines,
    total: Option<u64>,
    cursor: Option<String>,
}

async fn ask(client: &Client, body: &Map<String, Value>) -> Result<Page, Failure> {
    let headers = [("content-type", "application/json"), ("accept", "application/x-ndjson")];
    let text = Value::Object(body.clone()).to_string();
    let response = client.connect().await?.send(Method::POST, "/v1/search", &headers, full(text)).await?;
    let status = response.status();
    if !status.is_success() {
        let problem = Problem::read(status, &read_all(response).await?);
        let is_wrong = matches!(status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE);
        let code = if is_wrong { WRONG_QUERY } else { 1 };
        return Err(Failure::coded(code, anyhow::anyhow!("{}", problem.text(None))));
    }
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let total = header("swiftwater-total").and_then(|total| total.parse().ok());
    let cursor = header("swiftwater-cursor").map(str::to_owned);
    Ok(Page { lines: Lines::of(response), total, cursor })
}
