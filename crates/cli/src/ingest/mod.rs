//! `swiftwater ingest`: sends events from files and standard input to a server.
//!
//! A file is one request whose body streams: it is read no faster than the server takes it. Followed files are sent in
//! requests of whole lines, so that each is answered. In either case, line numbers are those of the file.

mod blocks;
mod edges;
mod follow;
pub(crate) mod form;
mod producer;
pub(crate) mod send;
mod wait;

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use hyper::Method;
use swiftwater_event::{Clock, Step, StreamName, Type};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{ColumnDef, Ddl},
    parse_kept_ddl,
};

use self::producer::Producers;
use crate::{
    args::{IngestArgs, InputForm},
    client::{Client, full, read_all},
    exit::{Failure, Outcome},
    input_file::{Place, StopReading},
    output::grouped,
    signals::{self, client_runtime},
    stdio::complain,
};

/// Time that the server may take to return a stream's declaration.
const DECLARED_WAIT: Duration = Duration::from_secs(5);

/// Fields with the types that are declared of them.
pub(crate) type DeclaredFields = Vec<(Box<str>, Type)>;

/// The exit status when some events were rejected.
const REJECTED: u8 = 1;
/// The exit status when the sending failed.
const FAILED: u8 = 2;
/// Rejections that are told one by one.
const REJECTIONS_TOLD_MAX: usize = 10;

/// The totals of a run: the events sent, and their outcome.
#[derive(Debug, Default)]
struct Summary {
    accepted: u64,
    rejected: u64,
    sampled_out: u64,
    /// The number of accepted events that an earlier run of the same name sent.
    accepted_before: u64,
    /// Requests of such a run that the server has and does not know any more, so nobody counts their events.
    requests_past: u64,
    /// The events accepted of a long request that is not answered for good.
    part_accepted: u64,
    /// The server's first warning.
    warning: Option<String>,
    /// A request was not answered, so its events may be stored or not.
    is_unsure: bool,
    /// The first rejections: `file:line:column: message`.
    rejections: Vec<String>,
}

impl Summary {
    fn reject(&mut self, rejection: String) {
        if self.rejections.len() < REJECTIONS_TOLD_MAX {
            self.rejections.push(rejection);
        }
    }

    fn report_progress(&self) {
        let rejected = match self.rejected {
            0 => String::new(),
            rejected => format!(", {} rejected", grouped(rejected)),
        };
        let left_out = match self.sampled_out {
            0 => String::new(),
            left_out => format!(", {} left out of the sample", grouped(left_out)),
        };
        let before = match self.accepted_before {
            0 => String::new(),
            before => format!(", {} of them by an earlier run", grouped(before)),
        };
        let accepted = grouped(self.accepted + self.part_accepted);
        complain(&format!("{accepted} events accepted{before}{rejected}{left_out}"));
        if self.requests_past > 0 {
            let requests = grouped(self.requests_past);
            complain(&format!(
                "  the events of {requests} requests that an earlier run sent are not counted"
            ));
        }
        if let Some(warning) = &self.warning {
            complain(&format!("  warning: {warning}"));
        }
        if self.is_unsure {
            complain("  the server did not answer the last request: its events may also be accepted");
        }
        for rejection in &self.rejections {
            complain(&format!("  {rejection}"));
        }
        let told = self.rejections.len() as u64;
        if told > 0 && told < self.rejected {
            complain(&format!("  and {} more", grouped(self.rejected - told)));
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &IngestArgs, clock: Arc<dyn Clock>) -> Outcome {
    StreamName::new(&args.stream).map_err(|error| Failure::coded(FAILED, error))?;
    let client = Client::new(args.client.url()).map_err(|error| Failure::coded(FAILED, error))?;
    let runtime = client_runtime().context("cannot start")?;
    let stop = StopReading::default();
    let stop_at_signal = stop.clone();
    signals::on_interrupt(move || stop_at_signal.stop()).context("cannot catch signals")?;
    let mut summary = Summary::default();
    let mut producers = Producers::new(args.producer.as_deref());
    let mut is_numbered = false;
    let sending = send_all(args, &client, &stop, &clock, (&mut producers, &mut is_numbered), &mut summary);
    let sent = runtime.block_on(sending);
    // A reader that waits for standard input keeps no one from leaving.
    runtime.shutdown_background();
    summary.report_progress();
    let is_cut_short = sent.is_err() || stop.stopped();
    if is_cut_short && is_numbered && args.rate.is_none() && !args.follow && are_files(&places_of(args)) {
        complain(&format!(
            "to send the rest without duplicates, run the same command with --producer {}",
            producers.name()
        ));
    }
    sent.map_err(|error| Failure::coded(FAILED, error))?;
    if stop.stopped() && !args.follow && !args.files.is_empty() {
        complain("interrupted: the rest was not sent");
        return Ok(ExitCode::from(signals::INTERRUPTED));
    }
    let rejected = summary.rejected > 0 && !args.allow_rejected;
    Ok(if rejected { ExitCode::from(REJECTED) } else { ExitCode::SUCCESS })
}

async fn send_all(
    args: &IngestArgs,
    client: &Client,
    stop: &StopReading,
    clock: &Arc<dyn Clock>,
    (producers, is_numbered): (&mut Producers, &mut bool),
    summary: &mut Summary,
) -> anyhow::Result<()> {
    // The connection is checked before the first event, which may be long in coming.
    drop(send::connect(args, client).await?);
    let places = places_of(args);
    if args.producer.is_some() && !are_files(&places) {
        anyhow::bail!("--producer needs files: other input cannot be sent a second time");
    }
    if args.follow && places.iter().any(|place| form_of(args, place) != InputForm::Json) {
        anyhow::bail!("--follow needs lines of JSON");
    }
    if args.follow && !places.contains(&Place::Stdin) {
        let probe = producers.first(&Place::Stdin);
        *is_numbered = send::remembers_numbers(args, client, stop, &probe).await?;
        return follow::follow(args, client, &places, stop, is_numbered.then_some(probe), summary).await;
    }
    if args.follow && places.len() > 1 {
        anyhow::bail!("--follow cannot read standard input and files together");
    }
    let probe = Producers::new(args.producer.as_deref()).first(&Place::Stdin);
    *is_numbered = send::remembers_numbers(args, client, stop, &probe).await?;
    if args.producer.is_some() && !*is_numbered {
        anyhow::bail!(
            "--producer needs a stored stream, and `{}` is live-only: create it first (CREATE STREAM {} WITH (store = true))",
            args.stream,
            args.stream
        );
    }
    let has_csv = places.iter().any(|place| form_of(args, place) == InputForm::Csv);
    let declared = if has_csv { declared_fields(client, &args.stream).await } else { Vec::new() };
    for place in &places {
        if stop.stopped() {
            break;
        }
        let number = is_numbered.then(|| producers.first(place));
        send::file(args, client, place, (stop, &declared), clock, number, summary).await?;
    }
    Ok(())
}

/// The places that events are read from.
fn places_of(args: &IngestArgs) -> Vec<Place> {
    match args.files.as_slice() {
        [] => vec![Place::of(Path::new("-"))],
        files => files.iter().map(|path| Place::of(path)).collect(),
    }
}

/// Returns true if all of them can be read again.
fn are_files(places: &[Place]) -> bool {
    !places.iter().any(Place::is_read_once)
}

/// The declared types of a stream's fields, so that values of CSV are read as these: none if the server does not return
/// them.
async fn declared_fields(client: &Client, stream: &str) -> DeclaredFields {
    let asked = async {
        let headers = [("content-type", "text/plain; charset=utf-8"), ("accept", "application/x-ndjson")];
        let body = full(format!("SHOW CREATE STREAM \"{stream}\""));
        let response = client.connect().await?.send(Method::POST, "/v1/sql", &headers, body).await?;
        anyhow::Ok(read_all(response).await?)
    };
    let Ok(Ok(answer)) = tokio::time::timeout(DECLARED_WAIT, asked).await else { return Vec::new() };
    let row: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&answer).unwrap_or_default();
    let create = row.values().filter_map(serde_json::Value::as_str).find_map(|text| {
        match parse_kept_ddl(text, &ParseOptions::new(Dialect::Native, 0)) {
            Ok(Some(Ddl::CreateStream(create))) => Some(create),
            _ => None,
        }
    });
    let columns = create.into_iter().flat_map(|create| create.columns);
    let field = |column: ColumnDef| match column.event_path().steps() {
        [Step::Key(name)] => Some((name.clone(), column.ty.clone())),
        _ => None,
    };
    columns.filter_map(field).collect()
}

/// The format of an input: that of the flag, else that of its name.
fn form_of(args: &IngestArgs, place: &Place) -> InputForm {
    args.format.unwrap_or_else(|| match place {
        Place::Stdin => InputForm::Json,
        Place::File(path) => InputForm::of(path),
    })
}
