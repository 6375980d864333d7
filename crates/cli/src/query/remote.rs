//! Queries a server's streams: submits over HTTP, reads the answer as NDJSON, one emit per line; detaches, attaches, ends.

use std::{process::ExitCode, time::Duration};

use anyhow::Context;
use hyper::{Method, Response, StatusCode, body::Incoming, header};
use swiftwater_runtime::QueryForm;

use super::{Answer, WRONG_QUERY, parameter_values, print_text};
use crate::{
    args::{AttachArgs, KillArgs, QueryArgs},
    client::{Client, Lines, Problem, full, read_all},
    exit::{Failure, Outcome},
    output::with_wire_emit,
    signals::{INTERRUPTED, Interrupts, client_runtime},
    stdio::{self, complain},
};

/// Time that the server may take to return its warnings about a query.
const FACTS_WAIT: Duration = Duration::from_secs(2);

/// Time that a query which was told to end may take for its final result.
const FINAL_RESULT_WAIT: Duration = Duration::from_secs(5);

/// Submits the query, and writes the answer.
pub(super) fn run(args: &QueryArgs, text: &str) -> Outcome {
    let runtime = client_runtime().context("cannot start")?;
    runtime.block_on(ask(args, text))
}

async fn ask(args: &QueryArgs, text: &str) -> Outcome {
    let client = Client::new(args.client.url())?;
    let parameters = [
        (args.detach, "detach=true"),
        (args.times, "times=true"),
        (args.bullet, "dialect=bullet"),
        (args.wait_for_missing, "on_missing=wait"),
    ];
    let parameters: Vec<_> =
        parameters.into_iter().filter(|(given, _)| *given).map(|(_, text)| text).collect();
    let path = format!("/v1/queries{}{}", if parameters.is_empty() { "" } else { "?" }, parameters.join("&"));
    let (content_type_sent, body) = if let Some(name) = &args.saved {
        let body = serde_json::json!({"saved": name, "parameters": parameter_values(args)});
        ("application/json", body.to_string())
    } else if QueryForm::of(text) == QueryForm::Json {
        ("application/json", text.to_owned())
    } else if args.parameters.is_empty() {
        ("text/plain; charset=utf-8", text.to_owned())
    } else {
        let body = serde_json::json!({"query": text, "parameters": parameter_values(args)});
        ("application/json", body.to_string())
    };
    let headers = [("content-type", content_type_sent), ("accept", "application/x-ndjson")];
    let (client, response) = client.ask(Method::POST, &path, &headers, &body).await?;
    let status = response.status();
    if !status.is_success() {
        let problem = Problem::read(status, &read_all(response).await?);
        let wrong = matches!(status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE);
        let code = if wrong { WRONG_QUERY } else { 1 };
        return Err(Failure::coded(code, anyhow::anyhow!("{}", problem.text(Some(text)))));
    }
    if args.detach {
        return print_id(&read_all(response).await?);
    }
    if content_type(&response).starts_with("text/plain") {
        return print_text(&String::from_utf8_lossy(&read_all(response).await?));
    }
    let mut answer = Answer::new(args.output, args.quiet);
    if !args.quiet {
        // The query stands already, so it misses nothing meanwhile.
        answer.warn(warnings(&client, (content_type_sent, body), args.bullet).await);
    }
    stream(answer, &client, response, Interrupted::Ends).await
}

/// The server's warnings about a query before it answers; none if they cannot be fetched.
async fn warnings(client: &Client, (content_type, body): (&str, String), is_bullet: bool) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Facts {
        warnings: Vec<String>,
    }
    let asked = async {
        let path = if is_bullet { "/v1/queries/validate?dialect=bullet" } else { "/v1/queries/validate" };
        let headers = [("content-type", content_type)];
        let response = client.connect().await?.send(Method::POST, path, &headers, full(body)).await?;
        anyhow::Ok(serde_json::from_slice::<Facts>(&read_all(response).await?)?.warnings)
    };
    match tokio::time::timeout(FACTS_WAIT, asked).await {
        Ok(Ok(warnings)) => warnings,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// `swiftwater attach`: goes on with a query's answer.
pub(crate) fn attach(args: &AttachArgs) -> Outcome {
    stdio::exit_when_stdout_closes();
    let runtime = client_runtime().context("cannot start")?;
    runtime.block_on(async {
        let client = Client::new(args.client.url())?;
        let after = args.after.map_or_else(String::new, |after| format!("?after={after}"));
        let path = format!("/v1/queries/{}/results{after}", path_segment(&args.id));
        let headers = [("accept", "application/x-ndjson")];
        let (client, response) = client.ask(Method::GET, &path, &headers, "").await?;
        let status = response.status();
        if !status.is_success() {
            let problem = Problem::read(status, &read_all(response).await?);
            return Err(anyhow::anyhow!("{}", problem.text(None)).into());
        }
        stream(Answer::new(args.output, args.quiet), &client, response, Interrupted::Leaves).await
    })
}

/// `swiftwater kill`: ends queries, each whatever becomes of the others.
pub(crate) fn kill(args: &KillArgs) -> Outcome {
    let runtime = client_runtime().context("cannot start")?;
    runtime.block_on(async {
        let client = Client::new(args.client.url())?;
        let mut outcome = ExitCode::SUCCESS;
        for id in &args.ids {
            let (status, body) =
                client.fetch(Method::DELETE, &format!("/v1/queries/{}", path_segment(id))).await?;
            if !status.is_success() {
                complain(&format!("{id}: {}", Problem::read(status, &body).text(None)));
                outcome = ExitCode::FAILURE;
            }
        }
        Ok(outcome)
    })
}

/// Text as one segment of a path: what is no letter or digit is written as its bytes.
fn path_segment(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

/// The action of the first Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupted {
    /// Ends the query at the server, which then gives its final result.
    Ends,
    /// Leaves the query running.
    Leaves,
}

fn content_type(response: &Response<Incoming>) -> &str {
    response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Writes emits as they come.
async fn stream(
    mut answer: Answer,
    client: &Client,
    response: Response<Incoming>,
    interrupted: Interrupted,
) -> Outcome {
    let mut interrupts = Interrupts::catch().context("cannot catch signals")?;
    let mut id =
        response.headers().get("swiftwater-query").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let mut lines = Lines::of(response);
    let mut finished = false;
    let mut ending = false;
    loop {
        let line = tokio::select! {
            line = lines.next() => line?,
            _ = interrupts.next() => {
                let ends = interrupted == Interrupted::Ends && !ending;
                let Some(id) = id.as_ref().filter(|_| ends) else {
                    return Ok(ExitCode::from(INTERRUPTED));
                };
                ending = true;
                end_query(client, id).await?;
                continue;
            }
            () = tokio::time::sleep(FINAL_RESULT_WAIT), if ending => {
                return Err(anyhow::anyhow!("the server returned no final result").into());
            }
        };
        let Some(line) = line else { break };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        finished |= write_line(&mut answer, &line)?;
        if id.is_none() {
            id = Some(answer.meta.query.id.clone()).filter(|id| !id.is_empty());
        }
    }
    if !finished {
        // The part of the answer that came is written all the same.
        answer.end()?;
        return Err(anyhow::anyhow!("the server's answer ended before its end").into());
    }
    answer.end()
}

/// Writes one emit; returns true if it is the last.
fn write_line(answer: &mut Answer, line: &[u8]) -> Result<bool, Failure> {
    let written = with_wire_emit(line, |emit| answer.emit(emit.records, emit.meta_text, emit.meta.clone()));
    written.context("the server's answer is not an emit")??;
    Ok(answer.meta.query.finished.is_some())
}

async fn end_query(client: &Client, id: &str) -> anyhow::Result<()> {
    let (status, body) = client.fetch(Method::DELETE, &format!("/v1/queries/{id}")).await?;
    if !status.is_success() && status != StatusCode::NOT_FOUND {
        anyhow::bail!("cannot end the query: {}", Problem::read(status, &body).text(None));
    }
    Ok(())
}

fn print_id(body: &[u8]) -> Outcome {
    #[derive(serde::Deserialize)]
    struct Created {
        id: String,
    }
    let created: Created = serde_json::from_slice(body).context("the server's answer has no query id")?;
    print_text(&created.id)
}
