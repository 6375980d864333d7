//! Sends one request with events, and reads its answer.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    Method, Response, StatusCode,
    body::{Body as HttpBody, Frame, Incoming},
    header,
};
use serde::Deserialize;
use swiftwater_event::Clock;
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};

use super::{
    DeclaredFields, Summary,
    blocks::{Blocks, Cut},
    form::{CsvFaults, CsvLines, ParquetLines},
    form_of,
    producer::Number,
    wait::{
        ALL_SENT_BYTES_KEPT, Busy, CutBodies, RetryDeadline, SENT_BYTES_KEPT, SharedBlocks, TextPosition,
        WAIT_MAX, WAIT_MIN, skip,
    },
};
use crate::{
    args::{IngestArgs, InputForm},
    client::{Body, Client, Connection, Problem, full, read_all},
    input_file::{self, Counted, Input, Packing, Place, StopReading},
    output::grouped,
    progress::Progress,
    stdio::complain,
};

/// Blocks that wait between reading and sending.
const BLOCKS_READ_AHEAD: usize = 2;

/// Time that an input may pause within one request.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The same of a numbered request, whose events the server takes when its body ends, and how long its body may take.
const NUMBERED_PAUSE_MAX: Duration = Duration::from_millis(20);
const NUMBERED_TIME_MAX: Duration = Duration::from_secs(1);
/// Bytes of a numbered request: less than the server stores whole or not at all.
const NUMBERED_BYTES: usize = 15 << 20;

/// The server's answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    accepted: Option<u64>,
    rejected: Option<u64>,
    sampled_out: u64,
    errors: Vec<EventError>,
    /// The place of the first event that was not taken, in a refusal.
    next: Option<TextPosition>,
    /// The kind of a refusal.
    #[serde(rename = "type")]
    kind: String,
    /// The setting that caused a refusal.
    setting: String,
    /// A warning: the sender may not know where its events went.
    warning: Option<String>,
    /// The request, or a part of it, was stored before.
    repeated: bool,
    /// The least number that can be deduplicated, in the refusal of a lower one.
    lowest: Option<u64>,
}

impl Answer {
    /// The place to resume at after the accepted events, if it is known.
    fn resume_position(&self) -> Option<TextPosition> {
        let is_untouched = self.accepted.is_none() && self.rejected.is_none();
        self.next.or_else(|| is_untouched.then(TextPosition::default))
    }

    /// Returns true if the whole body was checked, and no event in it was good.
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

/// The description of a request's body.
pub(super) struct Request<'a> {
    pub(super) stream: &'a str,
    pub(super) sample: Option<f64>,
    pub(super) packing: Packing,
    /// The file, for its errors.
    pub(super) name: &'a str,
    /// Start of this body in the file.
    pub(super) begins: TextPosition,
    /// The format of the file; the request has lines of JSON.
    pub(super) form: InputForm,
    /// The known faults of its records.
    pub(super) faults: CsvFaults,
    /// Its number, if it has one, and whether this run has sent it before.
    pub(super) number: Option<(&'a Number, bool)>,
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Sent {
    /// All of it was looked at.
    Whole,
    /// The server has no room now.
    Busy(Busy),
    /// A numbered request is to be sent again, whole.
    Again(Busy),
    /// A numbered request was answered so long ago that the server does not know it any more.
    Past,
    /// The stream is live-only, so no number is remembered for it.
    Unnumbered(String),
}

impl Request<'_> {
    /// Sends the body, and adds what became of it to the summary. `answered` is told when the answer begins: nothing of the
    /// body is needed from then on.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        body: Body,
        answered: impl FnOnce(),
        summary: &mut Summary,
    ) -> anyhow::Result<Sent> {
        let sample = self.sample.map_or_else(String::new, |share| format!("?sample={share}"));
        let path = format!("/v1/streams/{}/events{sample}", self.stream);
        let mut headers = vec![("content-type", "application/x-ndjson"), ("accept", "application/json")];
        headers.extend(self.packing.content_encoding().map(|packing| ("content-encoding", packing)));
        let sequence = self.number.map_or_else(String::new, |(number, _)| number.sequence.to_string());
        if let Some((number, _)) = self.number {
            headers.extend([("swiftwater-producer", &*number.producer), ("swiftwater-sequence", &sequence)]);
        }
        let response = connection.send(Method::POST, &path, &headers, body).await;
        answered();
        let answered = async {
            let response = response?;
            let (status, pause) = (response.status(), retry_after(&response));
            anyhow::Ok((status, pause, read_all(response).await?))
        };
        let answered = answered.await.with_context(|| format!("cannot send {}", self.name));
        let (status, pause, text) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                summary.is_unsure = true;
                if self.number.is_none() {
                    return Err(error);
                }
                let why = format!("{error:#}");
                let (next, is_progress) = (TextPosition::default(), false);
                return Ok(Sent::Again(Busy { next, pause: WAIT_MIN, is_progress, is_lost: true, why }));
            }
        };
        // A refusal tells, too, what was accepted before it.
        let answer: Answer = serde_json::from_slice(&text).unwrap_or_default();
        let is_whole = status.is_success() || answer.rejected_all();
        let problem = Problem::read(status, &text);
        let why = format!("the server refused {}: {}", self.name, problem.summary());
        let is_busy = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::SERVICE_UNAVAILABLE && pause.is_some();
        let pause = pause.unwrap_or_default().clamp(WAIT_MIN, WAIT_MAX);
        if let Some((_, is_again)) = self.number
            && !is_whole
        {
            if answer.kind.ends_with(":not-stored") {
                return Ok(Sent::Unnumbered(why));
            }
            if answer.lowest.is_some() && !is_again {
                return Ok(Sent::Past);
            }
            let accepted = answer.accepted.unwrap_or(0);
            let is_progress = accepted > std::mem::replace(&mut summary.part_accepted, accepted);
            if is_busy {
                let next = TextPosition::default();
                return Ok(Sent::Again(Busy { next, pause, is_progress, is_lost: false, why }));
            }
            return Err(anyhow::anyhow!(why));
        }
        self.add(&answer, summary);
        if is_whole {
            return Ok(Sent::Whole);
        }
        match answer.resume_position() {
            Some(next) if is_busy => {
                let is_progress = answer.accepted > Some(0);
                Ok(Sent::Busy(Busy { next, pause, is_progress, is_lost: false, why }))
            }
            _ => Err(anyhow::anyhow!(why)),
        }
    }

    fn add(&self, answer: &Answer, summary: &mut Summary) {
        (summary.is_unsure, summary.part_accepted) = (false, 0);
        summary.accepted += answer.accepted.unwrap_or(0);
        if answer.repeated && self.number.is_some_and(|(_, is_again)| !is_again) {
            summary.accepted_before += answer.accepted.unwrap_or(0);
        }
        summary.rejected += answer.rejected.unwrap_or(0);
        summary.sampled_out += answer.sampled_out;
        if let Some(warning) = &answer.warning {
            summary.warning.get_or_insert_with(|| warning.clone());
        }
        for EventError { line, column, path, message } in &answer.errors {
            let path = path.as_ref().map_or_else(String::new, |path| format!("`{path}`: "));
            let TextPosition { line, column } =
                self.begins.plus(TextPosition { line: *line, column: *column });
            let place = self.form.place(line, column);
            let fault = self.faults.of(line);
            let message = fault.as_ref().unwrap_or(message);
            summary.reject(format!("{}:{place}: {path}{message}", self.name));
        }
    }
}

/// Checks by a request without a number that the stream stores events, and so remembers numbers of requests.
pub(super) async fn remembers_numbers(
    args: &IngestArgs,
    client: &Client,
    stop: &StopReading,
    number: &Number,
) -> anyhow::Result<bool> {
    let mut patience = RetryDeadline::new(args);
    let mut connection = connect(args, client).await?;
    loop {
        let request = Request {
            stream: &args.stream,
            sample: None,
            packing: Packing::None,
            name: "events",
            begins: TextPosition::default(),
            form: InputForm::Json,
            faults: CsvFaults::default(),
            number: Some((number, false)),
        };
        match request.send(&mut connection, full(""), || {}, &mut Summary::default()).await? {
            Sent::Whole | Sent::Past => return Ok(true),
            Sent::Unnumbered(_) => return Ok(false),
            Sent::Busy(busy) | Sent::Again(busy) => {
                connection = patience.wait(client, stop, &busy, complain).await?;
            }
        }
    }
}

/// Connects, as patiently as `--retry` says.
pub(super) async fn connect(args: &IngestArgs, client: &Client) -> anyhow::Result<Connection> {
    match args.retry {
        Some(patience) => client.connect_patiently(patience).await,
        None => client.connect().await,
    }
}

/// The duration in `Retry-After`, if it is in seconds.
fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let field = response.headers().get(header::RETRY_AFTER)?;
    Some(Duration::from_secs(field.to_str().ok()?.trim().parse().unwrap_or(0)))
}

/// Opens an input in the form in which it is sent: unchanged, compressed or not, or as lines of JSON if `by_lines` or
/// another format requires it. The bytes read count in `bytes_read`, and the faults of records go into `faults`.
pub(crate) fn open(
    place: &Place,
    form: InputForm,
    by_lines: bool,
    (stop, declared): (&StopReading, &DeclaredFields),
    (bytes_read, faults): (&Arc<AtomicU64>, &CsvFaults),
) -> anyhow::Result<Input> {
    if form == InputForm::Parquet {
        let Place::File(path) = place else {
            anyhow::bail!(
                "a Parquet file cannot be read from standard input, because it is read from its end; name the file"
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
        InputForm::Csv => Box::new(CsvLines::new(unpacked, faults.clone(), declared)),
        _ => unpacked,
    };
    Ok(Input { reader, packing: Packing::None, bytes })
}

/// Sends one file, or standard input.
pub(super) async fn file(
    args: &IngestArgs,
    client: &Client,
    place: &Place,
    read: (&StopReading, &DeclaredFields),
    clock: &Arc<dyn Clock>,
    number: Option<Number>,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let mut from = None;
    let mut patience = RetryDeadline::new(args);
    let mut numbered = number.map(|number| Numbered { number, is_again: false, is_past: false });
    while let Some(next) =
        reading(args, (client, &mut patience), (place, from), read, clock, &mut numbered, summary).await?
    {
        from = Some(next);
    }
    match numbered {
        Some(numbered) if numbered.is_past => anyhow::bail!(
            "{} ends before the position that an earlier run with this --producer reached; use another name for \
             another file",
            place.name()
        ),
        _ => Ok(()),
    }
}

/// The progress of an input's numbered requests.
struct Numbered {
    /// Number of the next request.
    number: Number,
    /// This run has sent it.
    is_again: bool,
    /// The server did not know the last one any more.
    is_past: bool,
}

impl Numbered {
    /// The request was answered.
    fn answered(&mut self, is_past: bool) {
        self.number.sequence += 1;
        (self.is_again, self.is_past) = (false, is_past);
    }
}

/// Reads an input and sends it. A packed file is sent as it is until the server has no room for all of it: then the answer
/// is where to go on in what it holds, and so it does with `from`, unpacked. So it is with a file of which the place to go on at is not
/// kept any more.
async fn reading(
    args: &IngestArgs,
    (client, patience): (&Client, &mut RetryDeadline),
    (place, from): (&Place, Option<TextPosition>),
    (stop, declared): (&StopReading, &DeclaredFields),
    clock: &Arc<dyn Clock>,
    numbered: &mut Option<Numbered>,
    summary: &mut Summary,
) -> anyhow::Result<Option<TextPosition>> {
    let (counts, faults) = (Arc::new(Counts::default()), CsvFaults::default());
    let form = form_of(args, place);
    let is_read_once = place.is_read_once();
    // A numbered request is sent again as it was.
    let from = from.filter(|from| numbered.is_none() || *from > TextPosition::default());
    let by_lines = args.rate.is_some() || from.is_some() || is_read_once;
    let mut input = open(place, form, by_lines, (stop, declared), (&counts.bytes, &faults))?;
    let name = place.name();
    let mut is_array = false;
    if let Some(from) = from {
        let skipped = skip(input.reader, from).with_context(|| format!("cannot read {name} again"))?;
        is_array = skipped.1;
        input.reader = Box::new(skipped.0);
    }
    let bar_counts = Arc::clone(&counts);
    let progress = Progress::with_events(input.bytes, args.quiet, move |state, out| {
        let events = bar_counts.lines.load(Ordering::Relaxed);
        if events > 0 {
            let rate = events as f64 / state.elapsed().as_secs_f64().max(0.001);
            // Writing to a bar's text does not fail.
            let _ = write!(out, "{} events {}/s", grouped(events), grouped(rate as u64));
        }
        if bar_counts.waits.load(Ordering::Relaxed) {
            let _ = write!(out, " (waits for the server)");
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
    let kept = match packing {
        Packing::None if is_read_once => ALL_SENT_BYTES_KEPT.max(args.batch_bytes.saturating_mul(4)),
        Packing::None => SENT_BYTES_KEPT,
        // It is read again.
        _ => 0,
    };
    let mut blocks = SharedBlocks::new(receiver, kept);
    match (from, &numbered) {
        (Some(from), None) => blocks.begin_at(from, is_array),
        (Some(from), Some(_)) => blocks.restart_at(from),
        (None, _) => {}
    }
    // A slow sender wants events to be there soon; a file is cut at the same places whenever it is sent.
    let by_time = is_read_once || args.rate.is_some();
    let times = match (packing, &numbered) {
        (Packing::None, Some(_)) => {
            blocks.cut(CutBodies { bytes: NUMBERED_BYTES, by_time });
            by_time.then_some((NUMBERED_PAUSE_MAX, NUMBERED_TIME_MAX))
        }
        (Packing::None, None) => Some((PAUSE_MAX, Duration::MAX)),
        _ => None,
    };
    let blocks = Arc::new(Mutex::new(blocks));
    let sending = async {
        // An input without anything in it is a request, too.
        more(&blocks).await;
        let mut connection = connect(args, client).await?;
        loop {
            let (number, begins) = locked(&blocks).begin();
            let request = Request {
                stream: &args.stream,
                sample: args.sample,
                packing,
                name: &name,
                begins,
                form,
                faults: faults.clone(),
                number: numbered.as_ref().map(|numbered| (&numbered.number, numbered.is_again)),
            };
            let body = BlockBody::new(number, &blocks, times, request.number.is_some()).boxed();
            let sent = request.send(&mut connection, body, || locked(&blocks).answered(), summary).await?;
            match sent {
                Sent::Whole | Sent::Past => {
                    let is_past = matches!(sent, Sent::Past);
                    summary.requests_past += u64::from(is_past);
                    if let Some(numbered) = numbered {
                        numbered.answered(is_past);
                    }
                    locked(&blocks).done();
                    patience.progressed();
                    if !more(&blocks).await {
                        return Ok(None);
                    }
                    connection = connect(args, client).await?;
                }
                Sent::Unnumbered(why) => return Err(anyhow::anyhow!(why)),
                Sent::Again(busy) => {
                    if counts.failure.lock().is_ok_and(|failure| failure.is_some()) {
                        return Ok(None);
                    }
                    if let Some(numbered) = numbered {
                        numbered.is_again = true;
                    }
                    let (is_kept, begins) = {
                        let mut blocks = locked(&blocks);
                        (packing == Packing::None && blocks.again(), blocks.request_begins())
                    };
                    if is_read_once && !is_kept {
                        anyhow::bail!("{}\nthe request is too long for a retry", busy.why);
                    }
                    counts.waits.store(true, Ordering::Relaxed);
                    let say = |text: &str| progress.suspend(|| complain(text));
                    connection = patience.wait(client, stop, &busy, say).await?;
                    counts.waits.store(false, Ordering::Relaxed);
                    if !is_kept {
                        return Ok(Some(begins));
                    }
                    // An input without anything in it is a request, too.
                    more(&blocks).await;
                }
                Sent::Busy(busy) => {
                    let next = begins.plus(busy.next);
                    let kept = match packing {
                        Packing::None => locked(&blocks).rewind_to(next),
                        _ => Err(anyhow::anyhow!("the request was compressed")),
                    };
                    if is_read_once && let Err(error) = kept {
                        return Err(error.context(busy.why));
                    }
                    counts.waits.store(true, Ordering::Relaxed);
                    let say = |text: &str| progress.suspend(|| complain(text));
                    connection = patience.wait(client, stop, &busy, say).await?;
                    counts.waits.store(false, Ordering::Relaxed);
                    if kept.is_err() {
                        return Ok(Some(next));
                    }
                    if !more(&blocks).await {
                        return Ok(None);
                    }
                }
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
        () = showing => Ok(None),
    };
    progress.finish();
    match counts.failure.lock().ok().and_then(|mut failure| failure.take()) {
        Some(failure) => Err(anyhow::Error::new(failure).context(format!("cannot read {name} to its end"))),
        None => sent,
    }
}

/// The counts of the input read so far.
#[derive(Default)]
struct Counts {
    bytes: Arc<AtomicU64>,
    lines: AtomicU64,
    /// True while the server has no room.
    waits: AtomicBool,
    /// The error that ended reading early.
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
            // The receiver is gone: the server has answered already.
            if self.sender.blocking_send(block).is_err() || failed {
                return;
            }
        }
    }
}

fn locked(blocks: &Mutex<SharedBlocks>) -> MutexGuard<'_, SharedBlocks> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if there is another block; waits until that is known.
async fn more(blocks: &Mutex<SharedBlocks>) -> bool {
    poll_fn(|context| locked(blocks).poll_more(context)).await
}

/// Blocks as a request's body. It ends where the input ends, or pauses for long: servers time out such bodies, and a
/// sender of a few events needs their outcome.
struct BlockBody {
    request: u64,
    blocks: Arc<Mutex<SharedBlocks>>,
    /// Ends at the pause; none where the body cannot be cut.
    pause: Option<Pin<Box<Sleep>>>,
    pause_max: Duration,
    /// The time at which a body without pauses ends.
    ends_at: Option<Instant>,
    /// True if an event may continue across a cut here.
    within_line: bool,
    is_numbered: bool,
}

impl BlockBody {
    /// `times`: the longest pause, and how long the body may take; none where time does not end it.
    fn new(
        request: u64,
        blocks: &Arc<Mutex<SharedBlocks>>,
        times: Option<(Duration, Duration)>,
        is_numbered: bool,
    ) -> BlockBody {
        let (pause_max, time_max) = times.unwrap_or((Duration::MAX, Duration::MAX));
        BlockBody {
            request,
            blocks: Arc::clone(blocks),
            pause: times.map(|_| Box::pin(tokio::time::sleep(pause_max))),
            pause_max,
            ends_at: (time_max < Duration::MAX).then(|| Instant::now() + time_max),
            within_line: false,
            is_numbered,
        }
    }

    /// Returns true if the body may end here, as its time is over.
    fn ends(&self) -> bool {
        if self.is_numbered { locked(&self.blocks).end(self.request) } else { !self.within_line }
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
        if this.ends_at.is_some_and(|ends_at| Instant::now() >= ends_at) && this.ends() {
            return Poll::Ready(None);
        }
        let block = locked(&this.blocks).poll(this.request, context);
        match (block, &mut this.pause) {
            (Poll::Ready(Some(Ok(block))), pause) => {
                if let Some(pause) = pause {
                    pause.as_mut().reset(Instant::now() + this.pause_max);
                    this.within_line = !block.ends_with(b"\n");
                }
                Poll::Ready(Some(Ok(Frame::data(block))))
            }
            (Poll::Ready(Some(Err(error))), _) => Poll::Ready(Some(Err(error))),
            (Poll::Ready(None), _) => Poll::Ready(None),
            (Poll::Pending, Some(pause)) => match pause.as_mut().poll(context) {
                Poll::Ready(()) if this.ends() => Poll::Ready(None),
                _ => Poll::Pending,
            },
            (Poll::Pending, None) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_pause_ends_the_body_between_lines_only() {
        let (sender, receiver) = mpsc::channel(4);
        let blocks = Arc::new(Mutex::new(SharedBlocks::new(receiver, 16)));
        let send = |block: &'static str| sender.try_send(Ok(Bytes::from_static(block.as_bytes()))).unwrap();
        send("1\n2\n");
        let (first, _) = locked(&blocks).begin();
        let pause_max = Duration::from_millis(20);
        let times = Some((pause_max, Duration::MAX));
        let mut body = BlockBody::new(first, &blocks, times, false);
        assert!(body.frame().await.is_some());
        assert!(body.frame().await.is_none());

        send("{");
        assert!(more(&blocks).await);
        let (second, begins) = locked(&blocks).begin();
        assert_eq!(begins, TextPosition { line: 3, column: 1 });
        let mut body = BlockBody::new(second, &blocks, times, false);
        assert!(body.frame().await.is_some());
        let waiting = tokio::time::timeout(pause_max * 3, body.frame()).await;
        assert!(waiting.is_err(), "an event is not cut");
        drop(sender);
        assert!(body.frame().await.is_none());
        assert!(!more(&blocks).await);
    }
}
