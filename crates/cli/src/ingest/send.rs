//! One request with events, and its answer.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    Method,
    body::{Body as HttpBody, Frame},
};
use serde::Deserialize;
use swiftwater_event::Clock;
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};

use super::{
    Summary,
    blocks::{Blocks, Cut},
    form::{CsvFaults, CsvLines, ParquetLines},
    form_of,
};
use crate::{
    args::{IngestArgs, InputForm},
    client::{Body, Client, Problem, read_all},
    input_file::{self, Counted, Input, Packing, Place, StopReading},
    output::grouped,
    progress::Progress,
};

/// Blocks that wait between reading and sending.
const BLOCKS_READ_AHEAD: usize = 2;

/// How long an input may pause within one request.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The server's answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    accepted: u64,
    rejected: u64,
    sampled_out: u64,
    errors: Vec<EventError>,
    /// In a refusal: what kind it is.
    #[serde(rename = "type")]
    kind: String,
    /// In a refusal: the setting that says so.
    setting: String,
}

impl Answer {
    /// Whether the whole body was looked at, and no event in it was good.
    fn rejected_all(&self) -> bool {
        self.kind.ends_with(":events-rejected") || self.setting == "server.event_bytes_max"
    }
}

/// One event that was refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventError {
    line: u64,
    column: u64,
    path: Option<String>,
    message: String,
}

/// What a request says of its body.
pub(super) struct Request<'a> {
    pub(super) client: &'a Client,
    pub(super) stream: &'a str,
    pub(super) sample: Option<f64>,
    pub(super) packing: Packing,
    /// The file, for its errors.
    pub(super) name: &'a str,
    /// Lines of the file before this body.
    pub(super) lines_before: u64,
    /// What the file holds; what is sent are lines of JSON.
    pub(super) form: InputForm,
    /// What is known to be wrong with its records.
    pub(super) faults: CsvFaults,
}

impl Request<'_> {
    /// Sends the body, and adds what became of it to the summary.
    pub(super) async fn send(&self, body: Body, summary: &mut Summary) -> anyhow::Result<()> {
        let sample = self.sample.map_or_else(String::new, |share| format!("?sample={share}"));
        let path = format!("/v1/streams/{}/events{sample}", self.stream);
        let mut headers = vec![("content-type", "application/x-ndjson"), ("accept", "application/json")];
        headers.extend(self.packing.content_encoding().map(|packing| ("content-encoding", packing)));
        let response = self.client.connect().await?.send(Method::POST, &path, &headers, body).await;
        let response = response.with_context(|| format!("cannot send {}", self.name))?;
        let status = response.status();
        let text = read_all(response).await?;
        // A refusal tells, too, what was accepted before it.
        let answer: Answer = serde_json::from_slice(&text).unwrap_or_default();
        self.add(&answer, summary);
        if status.is_success() || answer.rejected_all() {
            return Ok(());
        }
        let problem = Problem::read(status, &text);
        Err(anyhow::anyhow!("the server refused {}: {}", self.name, problem.summary()))
    }

    fn add(&self, answer: &Answer, summary: &mut Summary) {
        summary.accepted += answer.accepted;
        summary.rejected += answer.rejected;
        summary.sampled_out += answer.sampled_out;
        for EventError { line, column, path, message } in &answer.errors {
            let path = path.as_ref().map_or_else(String::new, |path| format!("`{path}`: "));
            let place = self.form.place(line + self.lines_before, *column);
            let fault = self.faults.of(line + self.lines_before);
            let message = fault.as_ref().unwrap_or(message);
            summary.reject(format!("{}:{place}: {path}{message}", self.name));
        }
    }
}

/// Opens an input as what is sent of it: as it is, packed or not, or lines of JSON, where `by_lines` or another form asks
/// for them. What is read counts in `bytes_read`, and what is wrong with records goes into `faults`.
fn open(
    place: &Place,
    form: InputForm,
    by_lines: bool,
    stop: &StopReading,
    (bytes_read, faults): (&Arc<AtomicU64>, &CsvFaults),
) -> anyhow::Result<Input> {
    if form == InputForm::Parquet {
        let Place::File(path) = place else {
            anyhow::bail!(
                "a Parquet file cannot be read from standard input: it is read from its end; name the file"
            );
        };
        let (lines, bytes) = ParquetLines::open(path, bytes_read)?;
        return Ok(Input { reader: Box::new(lines), packing: Packing::None, bytes: Some(bytes) });
    }
    let Input { reader, packing, bytes } = input_file::open(place, stop)?;
    let counted = Counted::new(reader, bytes_read);
    if form == InputForm::Json && !by_lines {
        return Ok(Input { reader: Box::new(counted), packing, bytes });
    }
    let unpacked = packing.unpack(counted).with_context(|| format!("cannot unpack {}", place.name()))?;
    let reader: Box<dyn io::Read + Send> = match form {
        InputForm::Csv => Box::new(CsvLines::new(unpacked, faults.clone())),
        _ => unpacked,
    };
    Ok(Input { reader, packing: Packing::None, bytes })
}

/// Sends one file, or standard input.
pub(super) async fn file(
    args: &IngestArgs,
    client: &Client,
    place: &Place,
    stop: &StopReading,
    clock: &Arc<dyn Clock>,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let (counts, faults) = (Arc::new(Counts::default()), CsvFaults::default());
    let form = form_of(args, place);
    let input = open(place, form, args.rate.is_some(), stop, (&counts.bytes, &faults))?;
    let bar_counts = Arc::clone(&counts);
    let progress = Progress::with_events(input.bytes, args.quiet, move |state, out| {
        let events = bar_counts.lines.load(Ordering::Relaxed);
        if events > 0 {
            let rate = events as f64 / state.elapsed().as_secs_f64().max(0.001);
            // Writing to a bar's text does not fail.
            let _ = write!(out, "{} events {}/s", grouped(events), grouped(rate as u64));
        }
    });
    let cut = Cut { block_bytes: args.batch_bytes, rate: args.rate };
    let (sender, receiver) = mpsc::channel(BLOCKS_READ_AHEAD);
    let Input { reader, packing, .. } = input;
    let reading = Reading { packing, stop: stop.clone(), counts: Arc::clone(&counts), sender };
    let blocks_clock = Arc::clone(clock);
    let reader = move || match packing {
        Packing::None => reading.lines(Blocks::new(reader, cut, blocks_clock)),
        _ => reading.raw(reader, cut.block_bytes),
    };
    std::thread::Builder::new().name("read".to_owned()).spawn(reader).context("cannot start a thread")?;
    let name = place.name();
    let blocks = Arc::new(Mutex::new(receiver));
    let sending = async {
        let mut lines_before = 0;
        let mut first = next_block(&blocks).await;
        loop {
            let body = BlockBody::new(first.take(), &blocks, packing);
            let lines = Arc::clone(&body.lines);
            let request = Request {
                client,
                stream: &args.stream,
                sample: args.sample,
                packing,
                name: &name,
                lines_before,
                form,
                faults: faults.clone(),
            };
            request.send(body.boxed(), summary).await?;
            lines_before += lines.load(Ordering::Relaxed);
            first = next_block(&blocks).await;
            if first.is_none() {
                return Ok(());
            }
        }
    };
    let showing = async {
        loop {
            progress.set(counts.bytes.load(Ordering::Relaxed));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let sent = tokio::select! {
        sent = sending => sent,
        () = showing => Ok(()),
    };
    progress.finish();
    match counts.failure.lock().ok().and_then(|mut failure| failure.take()) {
        Some(failure) => Err(anyhow::Error::new(failure).context(format!("cannot read {name} to its end"))),
        None => sent,
    }
}

/// What was read so far.
#[derive(Default)]
struct Counts {
    bytes: Arc<AtomicU64>,
    lines: AtomicU64,
    /// Why reading ended early.
    failure: Mutex<Option<io::Error>>,
}

/// The reading side of a request.
struct Reading {
    packing: Packing,
    stop: StopReading,
    counts: Arc<Counts>,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Reading {
    fn lines(self, mut blocks: Blocks<Box<dyn io::Read + Send>>) {
        self.all(|| {
            let block = blocks.next()?;
            if let Some(block) = &block {
                self.counts
                    .lines
                    .fetch_add(memchr::memchr_iter(b'\n', block).count() as u64, Ordering::Relaxed);
            }
            Ok(block)
        });
    }

    fn raw(self, mut reader: Box<dyn io::Read + Send>, block_bytes: usize) {
        self.all(|| {
            let mut block = vec![0; block_bytes];
            let read = reader.read(&mut block)?;
            block.truncate(read);
            Ok((read > 0).then(|| block.into()))
        });
    }

    fn all(&self, mut next: impl FnMut() -> io::Result<Option<Bytes>>) {
        loop {
            let stopped = self.stop.stopped();
            let block = match next() {
                // The end of a packed file cannot be cut off.
                Ok(Some(_)) if stopped && self.packing != Packing::None => {
                    Err(io::Error::new(io::ErrorKind::Interrupted, "it was interrupted"))
                }
                Ok(Some(_)) if stopped => return,
                Ok(Some(block)) => Ok(block),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let failed = block.is_err();
            let block = block.map_err(|error| {
                let told = io::Error::new(error.kind(), error.to_string());
                if let Ok(mut failure) = self.counts.failure.lock() {
                    *failure = Some(error);
                }
                told
            });
            // Nobody takes it: the server has answered already.
            if self.sender.blocking_send(block).is_err() || failed {
                return;
            }
        }
    }
}

/// Blocks as they are read, taken by one request after another.
type SharedBlocks = Arc<Mutex<mpsc::Receiver<io::Result<Bytes>>>>;

async fn next_block(blocks: &SharedBlocks) -> Option<io::Result<Bytes>> {
    poll_fn(|context| poll_block(blocks, context)).await
}

fn poll_block(blocks: &SharedBlocks, context: &mut TaskContext<'_>) -> Poll<Option<io::Result<Bytes>>> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner).poll_recv(context)
}

/// Blocks as a request's body. It ends where the input ends, or pauses for long: servers give up on bodies that do, and
/// whoever sends a few events wants to know what became of them.
struct BlockBody {
    first: Option<io::Result<Bytes>>,
    blocks: SharedBlocks,
    /// Ends at the pause; none where the body cannot be cut.
    pause: Option<Pin<Box<Sleep>>>,
    /// Whether an event may stand on both sides of a cut here.
    within_line: bool,
    /// Lines given so far.
    lines: Arc<AtomicU64>,
}

impl BlockBody {
    fn new(first: Option<io::Result<Bytes>>, blocks: &SharedBlocks, packing: Packing) -> BlockBody {
        BlockBody {
            first,
            blocks: Arc::clone(blocks),
            pause: (packing == Packing::None).then(|| Box::pin(tokio::time::sleep(PAUSE_MAX))),
            within_line: false,
            lines: Arc::default(),
        }
    }
}

impl HttpBody for BlockBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let block = match this.first.take() {
            Some(block) => Poll::Ready(Some(block)),
            None => poll_block(&this.blocks, context),
        };
        match (block, &mut this.pause) {
            (Poll::Ready(Some(Ok(block))), pause) => {
                if let Some(pause) = pause {
                    pause.as_mut().reset(Instant::now() + PAUSE_MAX);
                    this.within_line = !block.ends_with(b"\n");
                    let lines = memchr::memchr_iter(b'\n', &block).count() as u64;
                    this.lines.fetch_add(lines, Ordering::Relaxed);
                }
                Poll::Ready(Some(Ok(Frame::data(block))))
            }
            (Poll::Ready(Some(Err(error))), _) => Poll::Ready(Some(Err(error))),
            (Poll::Ready(None), _) => Poll::Ready(None),
            (Poll::Pending, Some(pause)) if !this.within_line => pause.as_mut().poll(context).map(|()| None),
            (Poll::Pending, _) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_ends_the_body_between_lines_only() {
        let (sender, receiver) = mpsc::channel(4);
        let blocks = Arc::new(Mutex::new(receiver));
        let send = |block: &'static str| sender.try_send(Ok(Bytes::from_static(block.as_bytes()))).unwrap();
        send("1\n2\n");
        let mut body = BlockBody::new(None, &blocks, Packing::None);
        assert!(body.frame().await.is_some());
        assert!(body.frame().await.is_none());
        assert_eq!(body.lines.load(Ordering::Relaxed), 2);

        send("{");
        let first = next_block(&blocks).await;
        let mut body = BlockBody::new(first, &blocks, Packing::None);
        assert!(body.frame().await.is_some());
        let waiting = tokio::time::timeout(PAUSE_MAX * 3, body.frame()).await;
        assert!(waiting.is_err(), "an event is not cut");
        drop(sender);
        assert!(body.frame().await.is_none());
        assert!(next_block(&blocks).await.is_none());
    }
}
