//! `POST /v1/streams/{stream}/events`: one object, an array, or NDJSON, of any length.
//!
//! A body goes on in pieces: read, decompressed, split and checked, appended; the next piece is read when the engine
//! has taken the last one, so a full queue is felt by the sender's socket and memory stays within a few pieces. The
//! work is a task of its own, so that what was read is counted even if the client breaks off.
//!
//! `ack` says when the answer comes: `memory`, the default, when the engine has taken all events; `none`, with 202 and
//! no position, when all were checked, while the last piece may still wait for room; `disk` is refused, since no stream
//! is stored yet. `sample` keeps each event with this probability, by a hash of its number in the connection. `sent` (or
//! the field `Swiftwater-Sent`) is the sender's time, in microseconds since 1970 or RFC 3339.

use std::{
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
use swiftwater_engine::{AppendOptions, EngineError, Principal};
use swiftwater_event::{
    CheckLimits, Checked, Checker, EventBatch, EventBatchBuilder, EventMeta, Position, Rejection, StreamName,
};
use tokio::sync::oneshot;

use crate::{
    body::{BodyFault, Encoding, Pieces, heavy},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    routes::Name,
    server::{Connection, Shared},
    status::{json_response, stream_name},
    wire::{parse_time, position_json, rejection_json},
};

/// Refused events that are described in an answer; all are counted.
const REJECTIONS_MAX: usize = 10;
/// What is still read of a body that was refused, so that its sender comes to read why.
const DRAIN_BYTES_MAX: usize = 64 << 20;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ack {
    Memory,
    None,
}

/// What a request says of its events.
#[derive(Debug, Clone, Copy)]
struct Options {
    ack: Ack,
    sample: Option<f64>,
    sent_micros: Option<i64>,
}

/// What became of a body's events.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    rejected: u64,
    sampled_out: u64,
    position: Option<Position>,
    rejections: Vec<Rejection>,
    oversize: bool,
}

/// Why not all of a body was looked at.
enum Stop {
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
    let options = Options::of(parts.uri.query(), &parts.headers, &stream)?;
    let encoding = Encoding::of(&parts.headers)?;
    let bytes_max = shared.config.body_bytes_max;
    if encoding == Encoding::Identity && bytes_max > 0 && content_length(&parts.headers) > bytes_max {
        return Err(too_long(&Tally::default(), options, bytes_max));
    }
    let (answer, answered) = oneshot::channel();
    let ingest = Ingest { shared, connection, stream, options, tally: Tally::default(), waiting: None };
    tokio::spawn(ingest.run(body, encoding, answer));
    answered.await.map_err(|_| Problem::internal("the events were not looked at to their end").closing())
}

fn content_length(headers: &HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

impl Options {
    fn of(query: Option<&str>, headers: &HeaderMap, stream: &StreamName) -> Result<Options, Problem> {
        let parameters = Parameters::parse(query, &["ack", "sample", "sent"])?;
        let ack = match parameters.get("ack") {
            None | Some("memory") => Ack::Memory,
            Some("none") => Ack::None,
            Some("disk") => {
                let detail = format!(
                    "stream `{stream}` is not stored, so its events cannot be acknowledged from disk"
                );
                let problem =
                    Problem::new(StatusCode::CONFLICT, "not-stored", "The stream is not stored", detail);
                return Err(problem.hint("Use ack=memory."));
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
                bad(format!("the time sent is microseconds since 1970 or RFC 3339, not `{}`", cut(text)))
            })?),
        };
        Ok(Options { ack, sample, sent_micros })
    }
}

/// One request's events on their way.
struct Ingest {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    stream: StreamName,
    options: Options,
    tally: Tally,
    /// With `ack=none`: the last events that were checked, and the number refused with them.
    waiting: Option<(EventBatch, u64)>,
}

impl Ingest {
    async fn run(mut self, body: Body, encoding: Encoding, answer: oneshot::Sender<Response>) {
        let config = &self.shared.config;
        let mut pieces = Pieces::new(body, encoding, config.body_bytes_max, config.body_read_timeout_ms);
        let stop = self.read(&mut pieces).await.err();
        let response = self.response(stop.as_ref());
        let gone = answer.send(response).is_err();
        if let Some((batch, rejected)) = self.waiting.take()
            && let Err(error) = self.append(batch, rejected).await
        {
            tracing::debug!(stream = %self.stream, %error, "events that nobody waits for were not taken");
        }
        if gone || matches!(stop, Some(Stop::Body(BodyFault::BrokenOff(_)))) {
            let Tally { accepted, rejected, .. } = self.tally;
            tracing::debug!(stream = %self.stream, accepted, rejected, "a client broke off");
        } else if stop.is_some() {
            pieces.drain(DRAIN_BYTES_MAX, DRAIN_TIME_MAX).await;
        }
    }

    async fn read(&mut self, pieces: &mut Pieces) -> Result<(), Stop> {
        let config = &self.shared.config;
        let mut checker = Checker::new(CheckLimits {
            event_bytes_max: config.event_bytes_max,
            depth_max: config.event_depth_max,
            rejections_described_max: REJECTIONS_MAX,
        });
        loop {
            match pieces.next().await {
                Ok(Some(piece)) => {
                    let checked = heavy(piece.len(), || checker.push(piece));
                    self.take(checked).await?;
                }
                Ok(None) => return self.take(checker.finish()).await,
                // What a limit cut off is told as such, not as an event that ends too early.
                Err(BodyFault::TooLong) => return Err(Stop::Body(BodyFault::TooLong)),
                Err(fault) => {
                    self.take(checker.finish()).await?;
                    return Err(Stop::Body(fault));
                }
            }
        }
    }

    /// Counts and appends what was checked.
    async fn take(&mut self, checked: Checked) -> Result<(), Stop> {
        let Checked { batch, rejected, rejections, .. } = checked;
        self.tally.rejected += rejected;
        self.tally.oversize |= rejections.iter().any(|rejection| rejection.oversize);
        let room = REJECTIONS_MAX.saturating_sub(self.tally.rejections.len());
        self.tally.rejections.extend(rejections.into_iter().take(room));
        let clock = self.shared.engine.clock();
        let read_micros = clock.now_micros();
        let meta = EventMeta {
            arrival: read_micros.div_euclid(1000),
            sent_micros: self.options.sent_micros.unwrap_or(0),
            read_micros,
            ..EventMeta::default()
        };
        let batch = self.sample(batch).with_meta(meta);
        if batch.is_empty() && rejected == 0 {
            return Ok(());
        }
        if self.options.ack == Ack::None {
            self.tally.accepted += batch.len() as u64;
            return match self.waiting.replace((batch, rejected)) {
                Some((before, rejected)) => self.append(before, rejected).await.map(|_| ()),
                None => Ok(()),
            };
        }
        let accepted = batch.len() as u64;
        let position = self.append(batch, rejected).await?;
        if accepted > 0 {
            self.tally.accepted += accepted;
            self.tally.position = Some(position);
        }
        Ok(())
    }

    /// Keeps the sample that was asked for.
    fn sample(&mut self, batch: EventBatch) -> EventBatch {
        let Some(share) = self.options.sample else { return batch };
        let first = self.connection.events.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let seed = mix(self.connection.number);
        let mut kept = EventBatchBuilder::default();
        for row in 0..batch.len() {
            let hash = mix(seed ^ (first + row as u64));
            // 53 bits fill a double exactly, so that a share of 1 keeps all.
            if ((hash >> 11) as f64) < share * (1u64 << 53) as f64 {
                kept.push(&batch, row);
            }
        }
        self.tally.sampled_out += (batch.len() - kept.len()) as u64;
        kept.finish()
    }

    async fn append(&self, batch: EventBatch, rejected: u64) -> Result<Position, Stop> {
        let Options { sent_micros, sample, .. } = self.options;
        let options = AppendOptions { sent_micros, source_sample: sample, rejected };
        let engine = &self.shared.engine;
        engine.append(&Principal::anonymous(), &self.stream, batch, options).await.map_err(Stop::Engine)
    }

    fn response(&self, stop: Option<&Stop>) -> Response {
        let (tally, options, config) = (&self.tally, self.options, &self.shared.config);
        match stop {
            Some(Stop::Body(BodyFault::TooLong)) => {
                too_long(tally, options, config.body_bytes_max).into_response()
            }
            Some(Stop::Body(fault)) => tally
                .told_by(fault.problem("server.body_bytes_max", config.body_bytes_max), options)
                .into_response(),
            Some(Stop::Engine(error)) => {
                tally.told_by(Problem::from(error.clone()).closing(), options).into_response()
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
                tally.told_by(problem, options).into_response()
            }
            None => {
                let first = tally.rejections.first().map_or("", |rejection| rejection.message.as_str());
                let detail = format!("no event was accepted: {first}");
                let problem =
                    Problem::new(StatusCode::BAD_REQUEST, "events-rejected", "No event was accepted", detail);
                tally.told_by(problem, options).into_response()
            }
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Body(fault) => write!(f, "{fault:?}"),
            Stop::Engine(error) => error.fmt(f),
        }
    }
}

fn too_long(tally: &Tally, options: Options, bytes_max: u64) -> Problem {
    tally.told_by(BodyFault::TooLong.problem("server.body_bytes_max", bytes_max), options)
}

impl Tally {
    fn to_json(&self, options: Options) -> Value {
        let errors: Vec<Value> = self.rejections.iter().map(rejection_json).collect();
        let mut value = json!({
            "accepted": self.accepted,
            "rejected": self.rejected,
            "position": self.position.as_ref().map(position_json),
            "errors": errors,
        });
        if options.sample.is_some() {
            value["sampled_out"] = self.sampled_out.into();
        }
        value
    }

    /// Adds what became of the events to a problem.
    fn told_by(&self, problem: Problem, options: Options) -> Problem {
        let Value::Object(members) = self.to_json(options) else { return problem };
        members.into_iter().fold(problem, |problem, (name, value)| problem.with(&name, value))
    }
}

/// Spreads a number over all 64 bits: the finish of SplitMix64 (Steele et al., OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
