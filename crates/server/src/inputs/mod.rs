//! Foreign input protocols: converts the formats of other senders into events.
//!
//! Each module translates one format into JSON objects, one per line. These are ingested like all other events: the same
//! code checks structure, limits and columns. Bodies are buffered completely here, up to [`BODY_BYTES_MAX`], because their
//! senders split them into small ones and wait for an answer to each.

mod bulk;
mod csv;
mod logs;
mod parquet;
mod protobuf;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
    routing::{post, put},
};
use bytes::Bytes;
use swiftwater_event::{CheckLimits, Checked, EventBatch, EventMeta, StreamName, check_block};
use swiftwater_runtime::{Ack, AppendOptions, Appended, Principal};

pub use self::csv::CsvEvents;
pub(crate) use self::{
    bulk::greeting,
    csv::{FAULT_BYTES, is_csv, is_without_header, report_faults},
    parquet::{FILES_MAX as PARQUET_FILES_MAX, buffer_to_file, is_parquet},
};
use crate::{
    body::{Encoding, Pieces, heavy},
    budget::Share,
    engine::EngineError,
    problem::Problem,
    server::Shared,
};

/// The longest body, after decompression.
const BODY_BYTES_MAX: usize = 100 << 20;

/// The routes, as they are named in metrics.
pub(crate) const ROUTES: [&str; 5] =
    ["/_bulk", "/{index}/_bulk", "/{index}/_doc", "/{index}/_doc/{id}", "/v1/logs"];

pub(crate) fn routes() -> Router<Arc<Shared>> {
    let bulk = || post(bulk::bulk).put(bulk::bulk).fallback(bulk::wrong_method);
    let of_index = || post(bulk::bulk_of_index).put(bulk::bulk_of_index).fallback(bulk::wrong_method);
    let document = || post(bulk::document).fallback(bulk::wrong_method);
    let named = || put(bulk::named_document).post(bulk::named_document).fallback(bulk::wrong_method);
    Router::new()
        .route("/_bulk", bulk())
        .route("/_bulk/", bulk())
        .route("/{index}/_bulk", of_index())
        .route("/{index}/_bulk/", of_index())
        .route("/{index}/_doc", document())
        .route("/{index}/_doc/", document())
        .route("/{index}/_doc/{id}", named())
        .route("/v1/logs", post(logs::logs).fallback(logs::wrong_method))
}

/// The whole body, decompressed, and the share that it takes up until its events are taken.
async fn whole_body(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<(Bytes, Share), Problem> {
    let config = &shared.config;
    let bytes_max = match usize::try_from(config.body_bytes_max) {
        Ok(most) if most > 0 => most.min(BODY_BYTES_MAX),
        _ => BODY_BYTES_MAX,
    };
    let encoding = Encoding::of(headers)?;
    let pieces = Pieces::new(body, encoding, bytes_max as u64, config.body_read_timeout_ms, shared.share());
    let whole = pieces.collect_with_share().await;
    whole
        .map(|(whole, share)| (whole.into(), share))
        .map_err(|fault| fault.problem("server.body_bytes_max", bytes_max as u64))
}

/// Checks events, one a line.
fn check(shared: &Shared, lines: Bytes) -> Checked {
    let config = &shared.config;
    let limits = CheckLimits {
        event_bytes_max: config.event_bytes_max,
        depth_max: config.event_depth_max,
        rejections_described_max: 1,
        ..CheckLimits::default()
    };
    heavy(lines.len(), || check_block(lines, &limits, 1))
}

/// The warning about events that were taken on a server that stores events, and of which nothing is stored.
pub(crate) fn not_kept(shared: &Shared, stream: &StreamName) -> Option<String> {
    shared.engine.discards_events_of(stream).then(|| {
        format!(
            "stream `{stream}` is live-only: its events reach live queries, and are not stored. Create it (CREATE STREAM {stream} WITH \
             (store = true)) or set data.store_new_streams to `yes`"
        )
    })
}

/// Adds the field `Warning` (RFC 7234, 5.5) to an answer; `agent` warns.
pub(crate) fn warn_in_head(response: &mut Response, agent: &str, warning: &str) {
    if let Ok(value) = HeaderValue::from_str(&format!("299 {agent} \"{warning}\"")) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// Returns a problem in the form that clients of a path read: those of Elasticsearch and of OpenTelemetry have forms of
/// their own.
pub(crate) fn problem_at(path: &str, headers: &HeaderMap, problem: Problem) -> Response {
    let mut parts = path.trim_end_matches('/').rsplit('/');
    let is_bulk = match (parts.next(), parts.next()) {
        (Some("_bulk" | "_doc"), _) | (_, Some("_doc")) => !path.starts_with("/v1/"),
        _ => false,
    };
    match path {
        "/v1/logs" => logs::refused(headers, problem),
        _ if is_bulk => bulk::refused(problem),
        _ => problem.into_response(),
    }
}

/// Appends checked events to the engine; ready when they are acknowledged.
async fn append(
    shared: &Shared,
    stream: &StreamName,
    batch: EventBatch,
    rejected: u64,
) -> Result<Appended, EngineError> {
    let read_micros = shared.engine.clock().now_micros();
    let meta = EventMeta {
        arrival: read_micros.div_euclid(1000),
        sent_micros: 0,
        read_micros,
        ..EventMeta::default()
    };
    let engine = &shared.engine;
    engine.ensure_stored(&Principal::anonymous(), stream).await?;
    let ack = engine.ack(stream).unwrap_or_default();
    let options = AppendOptions { rejected, ack, ..AppendOptions::default() };
    let appended = engine.append(&Principal::anonymous(), stream, batch.with_meta(meta), options).await?;
    if let (Some(ticket), Ack::Disk) = (appended.ticket, ack) {
        engine.synced(ticket).await?;
    }
    Ok(appended)
}
