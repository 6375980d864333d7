//! `swiftwater activity`: prints the stored events of all streams that share an id, page by page.

use std::{
    fmt::Write as _,
    io::{self, BufWriter, Write},
    process::ExitCode,
};

use anyhow::Context;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    args::ActivityArgs,
    client::{Client, Lines, Problem, full, read_all},
    exit::{Failure, Outcome},
    query::WRONG_QUERY,
    signals::client_runtime,
    stdio,
};

/// Events of a request.
const PAGE_EVENTS: u64 = 1000;

/// An event, as far as it is shown on a terminal.
#[derive(Deserialize)]
struct Event<'e> {
    stream: String,
    time: String,
    depth: u32,
    via: Via,
    #[serde(borrow)]
    event: &'e RawValue,
}

/// The id through which an event was found.
#[derive(Deserialize)]
struct Via {
    id: String,
    column: String,
}

/// A line of an activity that is followed, if it is no event.
#[derive(Deserialize)]
struct Mark {
    lost: Option<u64>,
    stream: Option<String>,
    error: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &ActivityArgs) -> Outcome {
    stdio::exit_when_stdout_closes();
    let runtime = client_runtime().context("cannot start")?;
    runtime.block_on(print(args))
}

async fn print(args: &ActivityArgs) -> Outcome {
    let client = Client::new(args.client.url())?;
    let mut out = BufWriter::with_capacity(256 << 10, io::stdout());
    let is_shown = args.color || stdio::stdout_is_terminal();
    if args.follow {
        let (mut lines, _) = ask(&client, &path(args, args.limit.unwrap_or(PAGE_EVENTS), None)).await?;
        while let Some(line) = lines.next().await? {
            write_followed(&line, is_shown, &mut out)?;
            out.flush().map_err(Failure::output)?;
        }
        return Err(anyhow::anyhow!("the server ended the activity").into());
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut cursor: Option<String> = None;
    while left > 0 {
        let path = path(args, left.min(PAGE_EVENTS), cursor.as_deref());
        let (mut lines, next) = ask(&client, &path).await?;
        while let Some(line) = lines.next().await? {
            left -= 1;
            write_line(&line, is_shown, &mut out).map_err(Failure::output)?;
        }
        out.flush().map_err(Failure::output)?;
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_followed(line: &[u8], is_shown: bool, out: &mut impl Write) -> Result<(), Failure> {
    if let Ok(Mark { lost, stream, error }) = serde_json::from_slice(line) {
        if let Some(error) = error {
            return Err(anyhow::anyhow!("{error}").into());
        }
        if let (Some(events), Some(stream)) = (lost, stream) {
            stdio::complain(&format!("{events} events of `{stream}` were deleted before they were searched"));
            return Ok(());
        }
    }
    write_line(line, is_shown, out).map_err(Failure::output)
}

/// Writes an event: on a terminal its time, its stream, the id through which it was found if that is another, and itself.
fn write_line(line: &[u8], is_shown: bool, out: &mut impl Write) -> io::Result<()> {
    if !is_shown {
        out.write_all(line)?;
        return out.write_all(b"\n");
    }
    let Event { stream, time, depth, via, event } = serde_json::from_slice(line).map_err(io::Error::other)?;
    write!(out, "\x1b[2m{time} {stream}")?;
    if depth > 0 {
        write!(out, " ({}={})", via.column, via.id)?;
    }
    writeln!(out, "\x1b[0m {}", event.get())
}

/// The path of a request.
fn path(args: &ActivityArgs, limit: u64, cursor: Option<&str>) -> String {
    let mut path = format!("/v1/activity/{}?limit={limit}", encoded(&args.id));
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", encoded(value));
        }
    };
    for stream in &args.stream {
        add("stream", Some(stream));
    }
    let last = args.last.as_ref().map(|last| format!("now-{last}"));
    add("from", args.from.as_deref().or(last.as_deref()));
    add("to", args.to.as_deref());
    add("depth", args.depth.map(|depth| depth.to_string()).as_deref());
    add("cursor", cursor);
    add("follow", args.follow.then_some("true"));
    path
}

/// A text in a URL: every byte but letters and digits is percent-encoded.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            true => encoded.push(char::from(byte)),
            false => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// The events of a page, and the cursor of the next one.
async fn ask(client: &Client, path: &str) -> Result<(Lines, Option<String>), Failure> {
    let headers = [("accept", "application/x-ndjson")];
    let response = client.connect().await?.send(Method::GET, path, &headers, full("")).await?;
    let status = response.status();
    if status.is_success() {
        let cursor = response.headers().get("swiftwater-cursor").and_then(|value| value.to_str().ok());
        let cursor = cursor.map(str::to_owned);
        return Ok((Lines::of(response), cursor));
    }
    let problem = Problem::read(status, &read_all(response).await?);
    let code = if status == StatusCode::BAD_REQUEST { WRONG_QUERY } else { 1 };
    Err(Failure::coded(code, anyhow::anyhow!("{}", problem.text(None))))
}
