//! `POST /v1/streams/{stream}/events`: one object, an array, NDJSON, or CSV with a header, of any length; or Parquet.
//!
//! A body is processed in pieces: each is read, decompressed, split, checked, and appended. The next piece is read when the
//! engine has taken the last one. A full queue therefore causes back-pressure on the sender's socket, and memory stays
//! within a few pieces. A separate task does the work, so that events that were read are counted even if the client
//! disconnects.
//!
//! `ack` selects when the answer comes:
//!
//! - `disk`: when all events are synced.
//! - `memory`: when the engine has taken them.
//! - `none`: when all were checked, with 202 and no position; the last piece may still wait for room.
//!
//! Without `ack`, the stream's declaration decides: `disk` for a stored stream. For another it is `memory`, and `disk` is
//! refused. Events of a stream of the cluster are taken when its topic has them on all replicas in sync. A request that is refused
//! part way reports the events accepted before, by the same rule. If the disk does not
//! sync them in time, the answer says that their state is unknown.
//!
//! `Swiftwater-Producer` and `Swiftwater-Sequence` are the sender's name and its number for the request. With them, a stored
//! stream stores the request once, however often it is sent. Up to 16 MiB of events are stored whole or not at all; a longer
//! request is stored in parts of that size, each once ([`crate::numbered`]). `sample` keeps each event with this
//! probability, by a hash of its number in the connection, or in a numbered request. `sent` (or the field `Swiftwater-Sent`)
//! is the sender's time, in microseconds since 1970 or RFC 3339.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use swiftwater_event::{
    CheckLimits, Checked, Checker, EventBatch, EventMeta, Position, RefusedText, Rejection, StreamName,
};
use swiftwater_runtime::{Ack, AppendOptions, Appended, Numbered, Principal, Ticket};
#[cfg(feature = "history")]
use swiftwater_sql::{SqlError, forms::ParquetRows};
use tokio::sync::oneshot;

use crate::{
    body::{BodyFault, Encoding, Pieces, heavy},
    config::ServerConfig,
    engine::EngineError,
    inputs::{
        CsvEvents, FAULT_BYTES, buffer_to_file, is_csv, is_parquet, is_without_header, not_kept,
        report_faults, warn_in_head,
    },
    numbered::{Parts, Piece, number_of},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    routes::Name,
    server::{Connection, Shared},
    status::{json_response, stream_name},
    wire::{parse_time, position_json, refused_json},
};

/// Refused events that are described in an answer; all are counted.
const REJECTIONS_MAX: usize = 10;
/// Bytes of the text of each refused event that a stream's quarantine keeps.
const REFUSED_BYTES_KEPT: usize = 64 << 10;
/// The time a request that is refused waits for what was taken of it to be synced: an answer is worth more than a count of
/// what a full disk may not sync for hours, and most senders wait longer than this.
const SYNC_TIME_MAX: Duration = Duration::from_secs(5);
/// The fields of an answer that report stored events.
const SAID_OF_STORED: [&str; 6] = ["accepted", "position", "positions", "quarantined", "repeated", "next"];
/// Rows of a Parquet file are taken in pieces of this much text, or a little more.
const PARQUET_PIECE_BYTES: usize = 1 << 20;

/// The options that a request sets for its events.
#[derive(Debug, Clone, Copy)]
struct Options {
    ack: Ack,
    sample: Option<f64>,
    sent_micros: Option<i64>,
    form: BodyForm,
}

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyForm {
    Json,
    /// CSV with a header.
    Csv,
    Parquet,
}

impl BodyForm {
    fn of(headers: &HeaderMap) -> BodyForm {
        match () {
            () if is_csv(headers) => BodyForm::Csv,
            () if is_parquet(headers) => BodyForm::Parquet,
            () => BodyForm::Json,
        }
    }

    /// For a CSV record, sets the position to its beginning: the known position is one within the event made from it.
    fn with_row_position(self, refused: RejectedEvent) -> RejectedEvent {
        match self {
            BodyForm::Csv => RejectedEvent { column: 1, ..refused },
            BodyForm::Json | BodyForm::Parquet => refused,
        }
    }

    /// The greatest length of a body, 0 for any length, and the setting that says so.
    fn limit(self, config: &ServerConfig) -> (&'static str, u64) {
        let (all, parquet) = (config.body_bytes_max, config.parquet_bytes_max);
        match self {
            BodyForm::Parquet if all == 0 || parquet < all => ("server.parquet_bytes_max", parquet),
            _ => ("server.body_bytes_max", all),
        }
    }
}

/// The counts of a body's events.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    rejected: u64,
    sampled_out: u64,
    quarantined: u64,
    /// All of it was stored before, by a request of the same number.
    repeated: bool,
    position: Option<Position>,
    /// The position in each partition, if the events were written to a topic.
    positions: BTreeMap<u32, Position>,
    /// The log position to sync before the answer.
    ticket: Option<Ticket>,
    /// The request is refused, and whether what was taken is on disk, as it was to be, is not known.
    is_unsure: bool,
    rejections: Vec<RejectedEvent>,
    oversize: bool,
    /// A warning: the sender may not know where its events went.
    warning: Option<String>,
    /// The request is refused: line and column of the first event that was not taken, where that is known.
    next: Option<(u64, u64)>,
}

/// An event that was refused, by its structure or by the stream's columns.
#[derive(Debug)]
pub(crate) struct RejectedEvent {
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// The column at fault, where it is one.
    pub(crate) path: Option<String>,
    pub(crate) message: String,
}

/// Rejected events, beside good ones.
#[derive(Debug, Default)]
pub(crate) struct RejectedEvents {
    pub(crate) count: u64,
    /// Their texts, where they are kept.
    pub(crate) texts: Vec<RefusedText>,
    /// Number of the part to which these texts belong, if the request has a number.
    pub(crate) part: u16,
}

impl RejectedEvents {
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0 && self.texts.is_empty()
    }
}

/// The reason why the rest of a body was not ingested.
enum IngestFailure {
    Body(BodyFault),
    Engine(EngineError),
}

pub(crate) async fn ingest(
    State(shared): State<Arc<Shared>>,
    Extension(connection): Extension<Arc<Connection>>,
    path: Name,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let stream = stream_name(path)?;
    shared.engine.ensure_stored(&Principal::anonymous(), &stream).await?;
    let default = shared.engine.ack(&stream);
    let is_of_cluster = shared.engine.is_of_cluster(&stream);
    // Before the first event: after that, a client that sends the request to another node would write some twice.
    shared.engine.check_receives(&stream).await?;
    let options = Options::of(parts.uri.query(), &parts.headers, &stream, (default, is_of_cluster))?;
    let number = number_of(&parts.headers)?;
    if number.is_some() && is_of_cluster {
        return Err(of_cluster(&stream, "no node can deduplicate its requests").hint(
            "Send without Swiftwater-Producer and Swiftwater-Sequence: a request that is sent again is written again.",
        ));
    }
    if number.is_some() && default.is_none() {
        return Err(not_stored(&stream, "the server cannot deduplicate its requests").hint(
            "Send without Swiftwater-Producer and Swiftwater-Sequence, or create the stream: CREATE STREAM.",
        ));
    }
    let encoding = Encoding::of(&parts.headers)?;
    let limit = options.form.limit(&shared.config);
    if encoding == Encoding::Identity && limit.1 > 0 && content_length(&parts.headers) > limit.1 {
        return Err(too_long(&Tally::default(), options, limit));
    }
    let (answer, answered) = oneshot::channel();
    let parts = number.map(Parts::new);
    let ingest = Ingest {
        shared,
        connection,
        stream,
        options,
        tally: Tally::default(),
        waiting: None,
        parts,
        seen: 0,
    };
    tokio::spawn(ingest.run(body, encoding, answer));
    answered.await.map_err(|_| Problem::internal("the events could not be processed to their end").closing())
}

fn content_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

impl Options {
    /// `default`: when events of the stream are acknowledged unless the request says otherwise, if it is stored; and whether it is a
    /// stream of the cluster.
    fn of(
        query: Option<&str>,
        headers: &HeaderMap,
        stream: &StreamName,
        (default, is_of_cluster): (Option<Ack>, bool),
    ) -> Result<Options, Problem> {
        let parameters = Parameters::parse(query, &["ack", "sample", "sent"])?;
        let ack = match parameters.get("ack") {
            None => default.unwrap_or(Ack::Memory),
            Some("memory") => Ack::Memory,
            Some("none") => Ack::None,
            Some("disk") if default.is_some() => Ack::Disk,
            Some("disk") if is_of_cluster => {
                return Err(of_cluster(stream, "its events cannot be acknowledged from disk").hint(
                    "Use ack=memory, the default: the answer comes when all replicas in sync have the events.",
                ));
            }
            Some("disk") => {
                return Err(not_stored(stream, "its events cannot be acknowledged from disk")
                    .hint("Use ack=memory, or create the stream: CREATE STREAM."));
            }
            Some(other) => {
                return Err(bad(format!(
                    "parameter `ack` is `memory`, `none` or `disk`, not `{}`",
                    cut(other)
                )));
            }
        };
        let sample = match parameters.get("sample") {
            None => None,
            Some(text) => match text.parse::<f64>() {
                Ok(share) if share > 0.0 && share <= 1.0 => Some(share),
                _ => {
                    let detail = format!("parameter `sample` is above 0 and at most 1, not `{}`", cut(text));
                    return Err(bad(detail));
                }
            },
        };
        let field = headers.get("swiftwater-sent").map(|field| field.to_str().unwrap_or("?"));
        let sent_micros = match parameters.get("sent").or(field) {
            None => None,
            Some(text) => Some(parse_time(text.trim()).ok_or_else(|| {
                bad(format!(
                    "the time of sending must be microseconds since 1970 or RFC 3339, not `{}`",
                    cut(text)
                ))
            })?),
        };
        let form = BodyForm::of(headers);
        if form == BodyForm::Csv && is_without_header(headers) {
            return Err(bad(
                "CSV without a header has no names for its fields; send them as the first record",
            ));
        }
        Ok(Options { ack, sample, sent_micros, form })
    }
}

/// One request's events on their way.
struct Ingest {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    stream: StreamName,
    options: Options,
    tally: Tally,
    /// The last checked events, and the number refused with them, with `ack=none`.
    waiting: Option<(Piece, RejectedEvents)>,
    /// The parts of a request with a number.
    parts: Option<Parts>,
    /// Events of a numbered request that were looked at for its sample.
    seen: u64,
}

impl Ingest {
    async fn run(mut self, body: Body, encoding: Encoding, answer: oneshot::Sender<Response>) {
        let config = &self.shared.config;
        let (_, bytes_max) = self.options.form.limit(config);
        let mut pieces =
            Pieces::new(body, encoding, bytes_max, config.body_read_timeout_ms, self.shared.share());
        let read = match self.options.form {
            BodyForm::Json => self.read(&mut pieces).await,
            BodyForm::Csv => {
                let keeps = self.shared.engine.quarantines(&self.stream);
                let csv = CsvEvents::keeping(if keeps { FAULT_BYTES + REFUSED_BYTES_KEPT } else { 0 });
                pieces.read_csv(csv.declared(self.shared.engine.declared_fields(&self.stream)));
                self.read(&mut pieces).await
            }
            BodyForm::Parquet => self.read_parquet(&mut pieces).await,
        };
        let mut stop = read.err();
        if stop.is_none() {
            stop = self.finish().await.err();
        }
        if stop.is_some() {
            self.await_sync().await;
        }
        if self.tally.accepted > 0 {
            self.tally.warning = not_kept(&self.shared, &self.stream);
        }
        let mut response = self.response(stop.as_ref());
        if let Some(warning) = &self.tally.warning {
            warn_in_head(&mut response, "swiftwater", warning);
        }
        let gone = answer.send(response).is_err();
        if let Some((piece, rejected)) = self.waiting.take()
            && let Err(error) = self.append(piece, rejected, None).await
        {
            tracing::debug!(stream = %self.stream, %error, "events of a disconnected client were not accepted");
        }
        if gone || matches!(stop, Some(IngestFailure::Body(BodyFault::BrokenOff(_)))) {
            let Tally { accepted, rejected, .. } = self.tally;
            tracing::debug!(stream = %self.stream, accepted, rejected, "a client disconnected early");
        }
    }

    fn checker(&self) -> Checker {
        let config = &self.shared.config;
        let keeps = self.shared.engine.quarantines(&self.stream);
        Checker::new(CheckLimits {
            event_bytes_max: config.event_bytes_max,
            depth_max: config.event_depth_max,
            rejections_described_max: REJECTIONS_MAX,
            refused_bytes_kept: match self.options.form {
                // The fault of a record precedes its text.
                BodyForm::Csv if keeps => FAULT_BYTES + REFUSED_BYTES_KEPT,
                BodyForm::Csv => FAULT_BYTES,
                _ if keeps => REFUSED_BYTES_KEPT,
                BodyForm::Json | BodyForm::Parquet => 0,
            },
        })
    }

    #[cfg(not(feature = "history"))]
    async fn read_parquet(&mut self, _pieces: &mut Pieces) -> Result<(), IngestFailure> {
        Err(IngestFailure::Body(BodyFault::Unreadable(crate::engine::WITHOUT_HISTORY.to_owned())))
    }

    /// Each row of a file is an event, and its number is the line that is told of it.
    #[cfg(feature = "history")]
    async fn read_parquet(&mut self, pieces: &mut Pieces) -> Result<(), IngestFailure> {
        let shared = Arc::clone(&self.shared);
        // It is never closed.
        let _place = shared.parquet_places.acquire().await;
        let file = buffer_to_file(pieces).await.map_err(IngestFailure::Body)?;
        let unreadable = |error: SqlError| IngestFailure::Body(BodyFault::Unreadable(error.to_string()));
        let mut rows = heavy(usize::MAX, || ParquetRows::open(file)).map_err(unreadable)?;
        let mut checker = self.checker();
        loop {
            let mut lines = Vec::new();
            let read = heavy(usize::MAX, || {
                while lines.len() < PARQUET_PIECE_BYTES {
                    if !rows.next(&mut lines)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            });
            // The events before a fault count, as with all bodies.
            let checked = heavy(lines.len(), || checker.push(lines.into()));
            self.append_checked(checked).await?;
            if !read.map_err(unreadable)? {
                return self.append_checked(checker.finish()).await;
            }
        }
    }

    async fn read(&mut self, pieces: &mut Pieces) -> Result<(), IngestFailure> {
        let mut checker = self.checker();
        loop {
            match pieces.next().await {
                Ok(Some(piece)) => {
                    let checked = heavy(piece.len(), || checker.push(piece));
                    self.append_checked(checked).await?;
                    let gathered = self.parts.as_ref().map_or(0, Parts::gathered_bytes);
                    pieces.reserve(checker.carried_bytes() + gathered).map_err(IngestFailure::Body)?;
                }
                Ok(None) => return self.append_checked(checker.finish()).await,
                // A body that exceeds a limit is reported as such, not as an event that ends too early.
                Err(BodyFault::TooLong) => return Err(IngestFailure::Body(BodyFault::TooLong)),
                Err(fault) => {
                    self.append_checked(checker.finish()).await?;
                    return Err(IngestFailure::Body(fault));
                }
            }
        }
    }

    /// Counts and appends what was checked.
    async fn append_checked(&mut self, mut checked: Checked) -> Result<(), IngestFailure> {
        if self.options.form == BodyForm::Csv {
            report_faults(&mut checked);
        }
        let Checked { batch, rejected, rejections, refused, begins } = checked;
        self.tally.rejected += rejected;
        let rejected = RejectedEvents { count: rejected, texts: refused, part: 0 };
        self.tally.oversize |= rejections.iter().any(|rejection| rejection.oversize);
        let told = self.tally.rejections.len();
        let form = self.options.form;
        self.tally.describe(rejections.into_iter().map(|rejection| form.with_row_position(rejection.into())));
        let sampled_out = self.tally.sampled_out;
        let (sampled, first) = (self.sample(batch.clone()), batch);
        let piece = Piece::new(sampled, begins);
        if self.options.ack == Ack::None && self.parts.is_none() {
            if piece.is_empty() && rejected.is_none() {
                return Ok(());
            }
            self.tally.accepted += piece.len() as u64;
            let Some((before, rejected)) = self.waiting.replace((piece, rejected)) else { return Ok(()) };
            let count = before.len();
            let appended = self.append(before, rejected, None).await;
            if appended.is_err() {
                // The request is refused from there on: what is behind is not taken either.
                let behind = self.waiting.take().map_or(0, |(piece, _)| piece.len());
                self.tally.accepted -= (count + behind) as u64;
            }
            return appended.map(|_| ());
        }
        match &mut self.parts {
            None if piece.is_empty() && rejected.is_none() => Ok(()),
            None => {
                let count = rejected.count;
                let stored = self.store(piece, rejected, None).await;
                if stored.is_err() {
                    let at = if first.is_empty() { 0 } else { first.span(0).start };
                    self.tally.sampled_out = sampled_out;
                    self.tally.set_resume_position(begins.place(first.bytes(), at), (told, count));
                }
                stored
            }
            Some(parts) => {
                for (piece, rejected, part) in parts.push(piece, rejected) {
                    self.store(piece, rejected, Some(part)).await?;
                }
                Ok(())
            }
        }
    }

    /// Appends and counts; `part`: its number, where the request has one.
    async fn store(
        &mut self,
        piece: Piece,
        rejected: RejectedEvents,
        part: Option<u16>,
    ) -> Result<(), IngestFailure> {
        let source = piece.source();
        let numbered = self.parts.as_ref().zip(part).map(|(parts, part)| parts.numbered(part, &piece));
        let Appended { position, written, accepted, refusals, quarantined, is_repeated, ticket } =
            self.append(piece, rejected, numbered).await?;
        if let (Some(parts), Some(part)) = (&mut self.parts, part)
            && (accepted > 0 || is_repeated)
        {
            parts.stored(part);
        }
        let tally = &mut self.tally;
        tally.rejected += refusals.len() as u64;
        tally.quarantined += quarantined;
        tally.repeated |= is_repeated;
        let form = self.options.form;
        tally.describe(refusals.into_iter().map(|refusal| form.with_row_position(source.describe(refusal))));
        tally.accepted += accepted;
        match written {
            Some(written) => tally.positions.extend(written.ends()),
            None if accepted > 0 => tally.position = Some(position),
            None => {}
        }
        tally.ticket = tally.ticket.max(ticket);
        Ok(())
    }

    /// Stores the last part after the body's end, and waits for the disk.
    async fn finish(&mut self) -> Result<(), IngestFailure> {
        let rest = self.parts.as_mut().map(Parts::rest).unwrap_or_default();
        for (piece, rejected, part) in rest {
            self.store(piece, rejected, Some(part)).await?;
        }
        match self.tally.ticket {
            Some(ticket) if self.options.ack == Ack::Disk => {
                self.shared.engine.synced(ticket).await.map_err(IngestFailure::Engine)
            }
            _ => Ok(()),
        }
    }

    /// Waits for the sync before the request is refused, but not without end.
    async fn await_sync(&mut self) {
        let (Some(ticket), Ack::Disk) = (self.tally.ticket, self.options.ack) else { return };
        let is_synced = succeeds_within(SYNC_TIME_MAX, self.shared.engine.synced(ticket)).await;
        self.tally.is_unsure = !is_synced;
    }

    /// Selects the requested sample.
    fn sample(&mut self, batch: EventBatch) -> EventBatch {
        let Some(share) = self.options.sample else { return batch };
        let count = batch.len() as u64;
        let (first, seed) = match &self.parts {
            // A request that is sent again has the same sample.
            Some(parts) => {
                self.seen += count;
                (self.seen - count, mix(parts.seed()))
            }
            None => {
                let first = self.connection.events.fetch_add(count, Ordering::Relaxed);
                (first, mix(self.connection.number))
            }
        };
        let is_kept = |row: &u32| {
            let hash = mix(seed ^ (first + u64::from(*row)));
            // 53 bits fill a double exactly, so that a share of 1 keeps all.
            ((hash >> 11) as f64) < share * (1u64 << 53) as f64
        };
        let kept: Vec<u32> = (0..batch.len() as u32).filter(is_kept).collect();
        self.tally.sampled_out += (batch.len() - kept.len()) as u64;
        batch.select(&kept)
    }

    async fn append(
        &self,
        piece: Piece,
        rejected: RejectedEvents,
        numbered: Option<Numbered>,
    ) -> Result<Appended, IngestFailure> {
        let Options { ack, sent_micros, sample, .. } = self.options;
        let engine = &self.shared.engine;
        let read_micros = engine.clock().now_micros();
        let batch = piece.into_batch().with_meta(EventMeta {
            arrival: read_micros.div_euclid(1000),
            sent_micros: sent_micros.unwrap_or(0),
            read_micros,
            ..EventMeta::default()
        });
        let options = AppendOptions {
            sent_micros,
            source_sample: sample,
            rejected: rejected.count,
            refused: rejected.texts,
            refused_part: rejected.part,
            numbered,
            ack,
            ..AppendOptions::default()
        };
        engine
            .append(&Principal::anonymous(), &self.stream, batch, options)
            .await
            .map_err(IngestFailure::Engine)
    }

    fn response(&self, stop: Option<&IngestFailure>) -> Response {
        let (tally, options, config) = (&self.tally, self.options, &self.shared.config);
        let limit = options.form.limit(config);
        match stop {
            Some(IngestFailure::Body(BodyFault::TooLong)) => too_long(tally, options, limit).into_response(),
            Some(IngestFailure::Body(fault)) => {
                tally.add_outcome(fault.problem(limit.0, limit.1), options).into_response()
            }
            Some(IngestFailure::Engine(error)) => {
                tally.add_outcome(Problem::from(error.clone()).closing(), options).into_response()
            }
            None if tally.accepted > 0 || tally.sampled_out > 0 || tally.rejected == 0 => {
                let status = if options.ack == Ack::None { StatusCode::ACCEPTED } else { StatusCode::OK };
                json_response(status, &tally.to_json(options))
            }
            None if tally.oversize => {
                let limit = config.event_bytes_max as u64;
                let problem = Problem::too_large(
                    format!("no event was accepted, and some are longer than {limit} bytes"),
                    "server.event_bytes_max",
                    limit,
                );
                tally.add_outcome(problem, options).into_response()
            }
            None => {
                let first = tally.rejections.first().map_or("", |rejection| rejection.message.as_str());
                let detail = format!("no event was accepted: {first}");
                let problem =
                    Problem::new(StatusCode::BAD_REQUEST, "events-rejected", "No event was accepted", detail);
                tally.add_outcome(problem, options).into_response()
            }
        }
    }
}

impl std::fmt::Display for IngestFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IngestFailure::Body(fault) => write!(f, "{fault:?}"),
            IngestFailure::Engine(error) => error.fmt(f),
        }
    }
}

fn too_long(tally: &Tally, options: Options, (setting, bytes_max): (&'static str, u64)) -> Problem {
    tally.add_outcome(BodyFault::TooLong.problem(setting, bytes_max), options)
}

impl From<Rejection> for RejectedEvent {
    fn from(rejection: Rejection) -> RejectedEvent {
        let Rejection { line, column, message, .. } = rejection;
        RejectedEvent { line, column, path: None, message }
    }
}

fn not_stored(stream: &StreamName, what: &str) -> Problem {
    let detail = format!("stream `{stream}` is live-only, so {what}");
    Problem::new(StatusCode::CONFLICT, "not-stored", "The stream is live-only", detail)
}

/// The problem of a request that only a stored stream of one node can have.
fn of_cluster(stream: &StreamName, what: &str) -> Problem {
    let detail = format!("stream `{stream}` is one of the cluster, so {what}");
    Problem::new(StatusCode::CONFLICT, "not-stored", "The stream is live-only", detail)
}

impl Tally {
    fn describe(&mut self, refused: impl Iterator<Item = RejectedEvent>) {
        let room = REJECTIONS_MAX.saturating_sub(self.rejections.len());
        self.rejections.extend(refused.take(room));
    }

    /// Sets the position at which a sender resumes when a piece is refused. For the sender the rest of the piece was not
    /// checked, so its rejections are taken back, unless there are more of them than are described. `of_piece`: the
    /// number described before it, and the number of its rejections.
    fn set_resume_position(&mut self, next: (u64, u64), of_piece: (usize, u64)) {
        self.next = Some(next);
        let (told, count) = of_piece;
        if (self.rejections.len() - told) as u64 == count {
            self.rejections.retain({
                let mut index = 0;
                move |refused| {
                    index += 1;
                    index <= told || (refused.line, refused.column) < next
                }
            });
            self.rejected -= count - (self.rejections.len() - told) as u64;
        }
    }

    fn to_json(&self, options: Options) -> Value {
        let errors: Vec<Value> = self.rejections.iter().map(refused_json).collect();
        let mut value = json!({
            "accepted": self.accepted,
            "rejected": self.rejected,
            "position": self.position.as_ref().map(position_json),
            "errors": errors,
        });
        if !self.positions.is_empty() {
            value["positions"] = self.positions.values().map(position_json).collect();
        }
        if options.sample.is_some() {
            value["sampled_out"] = self.sampled_out.into();
        }
        if self.quarantined > 0 {
            value["quarantined"] = self.quarantined.into();
        }
        if self.repeated {
            value["repeated"] = true.into();
        }
        if let Some(warning) = &self.warning {
            value["warning"] = warning.as_str().into();
        }
        if let Some((line, column)) = self.next {
            value["next"] = json!({"line": line, "column": column});
        }
        value
    }

    /// Adds the outcome of the events to a problem.
    fn add_outcome(&self, problem: Problem, options: Options) -> Problem {
        let Value::Object(members) = self.to_json(options) else { return problem };
        let problem = if self.is_unsure { unsure(problem) } else { problem };
        members
            .into_iter()
            .filter(|(name, _)| !self.is_unsure || !SAID_OF_STORED.contains(&name.as_str()))
            .fold(problem, |problem, (name, value)| problem.with(&name, value))
    }
}

/// Adds to a problem's detail that it is unknown which events are stored.
fn unsure(problem: Problem) -> Problem {
    let told = problem.to_json();
    let detail = told["detail"].as_str().unwrap_or_default();
    let detail = format!(
        "{detail}; the events before may or may not be stored: the server accepted them, and the disk has not synced \
         them (a numbered request can be sent again and is stored once)"
    );
    // A member of this name takes the place of the detail.
    problem.with("detail", detail)
}

/// True if something succeeds in time.
async fn succeeds_within(time_max: Duration, done: impl Future<Output = Result<(), EngineError>>) -> bool {
    matches!(tokio::time::timeout(time_max, done).await, Ok(Ok(())))
}

/// Spreads a number over all 64 bits: the finish of SplitMix64 (Steele et al., OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(all(test, feature = "history"))]
mod tests {
    use swiftwater_event::Offset;

    use super::*;

    fn refused_response(is_unsure: bool) -> Value {
        let options = Options { ack: Ack::Disk, sample: None, sent_micros: None, form: BodyForm::Json };
        let tally = Tally {
            accepted: 133,
            rejected: 2,
            quarantined: 2,
            repeated: true,
            next: Some((136, 1)),
            position: Some(Position { source: "s".into(), partition: 0, offset: Offset(133) }),
            is_unsure,
            ..Tally::default()
        };
        tally.add_outcome(Problem::from(EngineError::DiskFull), options).to_json()
    }

    #[test]
    fn refused_request_tells_what_is_stored() {
        let told = refused_response(false);
        assert_eq!((&told["accepted"], &told["position"]["offset"]), (&json!(133), &json!(133)));
        assert_eq!(told["detail"], EngineError::DiskFull.to_string());
        assert_eq!(told["next"], json!({"line": 136, "column": 1}));
    }

    #[test]
    fn rejections_from_where_a_sender_goes_on_are_taken_back() {
        let refused = |line| RejectedEvent { line, column: 3, path: None, message: String::new() };
        let tally = |described: &[u64], rejected| Tally {
            rejections: described.iter().map(|line| refused(*line)).collect(),
            rejected,
            ..Tally::default()
        };
        let mut exact = tally(&[2, 5, 9], 3);
        exact.set_resume_position((7, 1), (1, 2));
        assert_eq!((exact.rejected, exact.rejections.len(), exact.next), (2, 2, Some((7, 1))));
        // The positions of the others are unknown.
        let mut more = tally(&[2, 5, 9], 20);
        more.set_resume_position((7, 1), (1, 19));
        assert_eq!((more.rejected, more.rejections.len()), (20, 3));
    }

    #[test]
    fn refused_request_claims_nothing_that_may_not_be_on_disk() {
        let told = refused_response(true);
        for name in SAID_OF_STORED {
            assert!(told.get(name).is_none(), "{name}: {told}");
        }
        assert_eq!((&told["status"], &told["rejected"]), (&json!(429), &json!(2)));
        let detail = told["detail"].as_str().unwrap_or_default();
        assert!(detail.starts_with(&EngineError::DiskFull.to_string()), "{detail}");
        assert!(detail.contains("may or may not be stored"), "{detail}");
        assert!(told["hint"].is_string(), "{told}");
    }

    #[tokio::test]
    async fn disk_that_does_not_sync_is_not_waited_for_without_end() {
        assert!(!succeeds_within(Duration::from_millis(1), std::future::pending()).await);
        let day = Duration::from_secs(86_400);
        assert!(
            !succeeds_within(
                day,
                std::future::ready(Err(swiftwater_runtime::RuntimeError::ShuttingDown.into()))
            )
            .await
        );
        assert!(succeeds_within(day, std::future::ready(Ok(()))).await);
    }
}
