//! Searches the stored events of a server's streams, page by page.

use std::{
    io::{self, BufWriter, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use hyper::{Method, Response, StatusCode, body::Incoming};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use swiftwater_text::EventSearch;

use super::{Found, WRONG_QUERY, counts};
use crate::{
    args::SearchArgs,
    client::{Client, Lines, Problem, full, read_all},
    exit::{Failure, Outcome},
    signals::client_runtime,
    stdio,
};

/// Hits of a request.
const PAGE_HITS: u64 = 1000;
/// The time for which a search that is followed waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(200);
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

/// The parts of a line of a search that is followed, beside those of its hit.
#[derive(Default, Deserialize)]
struct Mark {
    /// The position behind it.
    position: Option<String>,
    lost: Option<u64>,
    stream: Option<String>,
    error: Option<String>,
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
        let page = ask(&client, &body, None).await?;
        let total = page.total.context("the server did not count")?;
        writeln!(out, "{}", json!({"events": total})).and_then(|()| out.flush()).map_err(Failure::output)?;
        page.searched.iter().for_each(report_partial);
        return Ok(ExitCode::SUCCESS);
    }
    let marks = args.color || stdio::stdout_is_terminal();
    if args.explain || !args.facet.is_empty() || args.histogram.is_some() {
        let answer = ask_whole(&client, &body).await?;
        let written = match args.explain {
            true => counts::write_explanation(&answer, marks, &mut out),
            false => counts::write_counts(&answer, marks, &mut out),
        };
        written.and_then(|()| out.flush()).map_err(Failure::output)?;
        if answer["complete"] == json!(false) {
            report_partial(&answer["searched"]);
        }
        return Ok(ExitCode::SUCCESS);
    }
    // Conditions that need a table's columns have no marks.
    let search = marks.then(|| EventSearch::of_event(query, super::OPERATOR, None).ok()).flatten();
    let mut found = search.map(Found::new);
    if args.follow {
        body.insert("limit".to_owned(), json!(args.limit.unwrap_or(HITS_DEFAULT)));
        return follow(&client, &body, &mut |line| {
            let written = match args.hits {
                true => out.write_all(line).and_then(|()| out.write_all(b"\n")),
                false => write_event(line, (streams.len() > 1, marks), found.as_mut(), &mut out),
            };
            written.and_then(|()| out.flush())
        })
        .await;
    }
    let mut left = if args.all { u64::MAX } else { args.limit.unwrap_or(HITS_DEFAULT) };
    while left > 0 {
        if args.around.is_none() {
            body.insert("limit".to_owned(), json!(left.min(PAGE_HITS)));
        }
        let mut page = ask(&client, &body, None).await?;
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
        if let Some(searched) = page.searched {
            report_partial(&searched);
            break;
        }
        left = left.saturating_sub(hits);
        let Some(cursor) = page.cursor else { break };
        body.insert("cursor".to_owned(), json!(cursor));
    }
    Ok(ExitCode::SUCCESS)
}

/// Goes on with each further hit. After a lost connection it resumes behind the last one.
async fn follow(
    client: &Client,
    body: &Map<String, Value>,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Outcome {
    let mut position: Option<String> = None;
    let mut lines = ask(client, body, None).await?.lines;
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) | Err(_) => {
                stdio::complain("the connection was lost: resuming behind the last event");
                lines = resume(client, body, position.as_deref()).await?;
                continue;
            }
        };
        let mark: Mark = serde_json::from_slice(&line).unwrap_or_default();
        if let Some(error) = mark.error {
            return Err(anyhow::anyhow!("{error}").into());
        }
        position = mark.position.or(position);
        match (mark.lost, mark.stream) {
            (Some(events), Some(stream)) => {
                stdio::complain(&format!(
                    "{events} events of `{stream}` were deleted before they were searched"
                ));
            }
            _ => write(&line).map_err(Failure::output)?,
        }
    }
}

/// The search that is followed again, once the server is there; an error if it is away for [`PATIENCE`].
async fn resume(
    client: &Client,
    body: &Map<String, Value>,
    position: Option<&str>,
) -> Result<Lines, Failure> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match ask(client, body, position).await {
            Ok(page) => return Ok(page.lines),
            Err(failure) if tokio::time::Instant::now() >= deadline => return Err(failure),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Reports that an answer is not whole, and the offsets between which it is.
fn report_partial(searched: &Value) {
    let streams = searched.as_object().into_iter().flatten();
    let parts: Vec<String> = streams
        .map(|(stream, offsets)| format!("`{stream}` from offset {} to {}", offsets["from"], offsets["to"]))
        .collect();
    stdio::complain(&format!("the search took too long: the answer has only events of {}", parts.join(", ")));
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
    put("facet", (!args.facet.is_empty()).then(|| json!(args.facet)));
    put("histogram", args.histogram.as_ref().map(|histogram| json!(histogram)));
    put("around", args.around.map(|offset| json!(offset)));
    let side = args.limit.filter(|_| args.around.is_some());
    put("before", side.map(|events| json!(events)));
    put("after", side.map(|events| json!(events)));
    put("follow", args.follow.then(|| json!(true)));
    put("partial", args.partial.then(|| json!(true)));
    put("explain", args.explain.then(|| json!(true)));
    let counts = !args.facet.is_empty() || args.histogram.is_some();
    put("limit", counts.then(|| json!(0)).or_else(|| args.limit.map(|limit| json!(limit))));
    put("count", (!args.count && !counts).then(|| json!("none")));
    body
}

/// A page of hits.
struct Page {
    lines: Lines,
    total: Option<u64>,
    cursor: Option<String>,
    /// The offsets of each stream between which all events were searched, if the answer is not whole.
    searched: Option<Value>,
}

/// Asks for a page, or for what follows a position.
async fn ask(client: &Client, body: &Map<String, Value>, position: Option<&str>) -> Result<Page, Failure> {
    let response = post(client, body, "application/x-ndjson", position).await?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let total = header("swiftwater-total").and_then(|total| total.parse().ok());
    let cursor = header("swiftwater-cursor").map(str::to_owned);
    let searched = header("swiftwater-searched").and_then(|text| serde_json::from_str(text).ok());
    Ok(Page { lines: Lines::of(response), total, cursor, searched })
}

/// The answer as one JSON object.
async fn ask_whole(client: &Client, body: &Map<String, Value>) -> Result<Value, Failure> {
    let answer = read_all(post(client, body, "application/json", None).await?).await?;
    Ok(serde_json::from_slice(&answer).context("the answer of the server is not JSON")?)
}

async fn post(
    client: &Client,
    body: &Map<String, Value>,
    form: &str,
    position: Option<&str>,
) -> Result<Response<Incoming>, Failure> {
    let mut headers = vec![("content-type", "application/json"), ("accept", form)];
    headers.extend(position.map(|position| ("last-event-id", position)));
    let text = Value::Object(body.clone()).to_string();
    let response = client.connect().await?.send(Method::POST, "/v1/search", &headers, full(text)).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem = Problem::read(status, &read_all(response).await?);
    let is_wrong = matches!(status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE);
    let code = if is_wrong { WRONG_QUERY } else { 1 };
    Err(Failure::coded(code, anyhow::anyhow!("{}", problem.text(None))))
}
