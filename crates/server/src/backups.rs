//! `/v1/backups`: a snapshot of all durable state, which exists while a client fetches its files.
//!
//! A client begins a backup, fetches the files that it lacks, and ends it. A download resumes where an earlier answer broke
//! off (`Range`). A backup that no client reads expires. The engine defines what a backup contains and promises.

use std::{ops::Range, sync::Arc};

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use futures_util::TryStreamExt;
use serde_json::json;
use swiftwater_engine::{BACKUP_KEPT, Backup, BackupOptions, Principal};

use crate::{
    body::heavy,
    parameters::Parameters,
    problem::Problem,
    routes::{Name, name},
    server::Shared,
    status::json_response,
};

/// Begins a backup: returns its manifest.
pub(crate) async fn begin(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["without_search_index"])?;
    let options = BackupOptions { without_search_index: parameters.flag("without_search_index")? };
    let backup = shared.engine.start_backup(&Principal::anonymous(), options).await?;
    let mut response = backup_response(StatusCode::CREATED, &backup)?;
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/backups/{}", backup.manifest().id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// Returns the manifest of an open backup.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let backup = shared.engine.backup(&Principal::anonymous(), &name(path)?)?;
    backup_response(StatusCode::OK, &backup)
}

/// Ends a backup.
pub(crate) async fn end(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    shared.engine.end_backup(&Principal::anonymous(), &name(path)?)?;
    Ok(StatusCode::NO_CONTENT)
}

fn backup_response(status: StatusCode, backup: &Backup) -> Result<Response, Problem> {
    heavy(usize::MAX, || {
        let manifest = serde_json::to_value(backup.manifest());
        let manifest = manifest.map_err(|error| Problem::internal(error.to_string()))?;
        let kept_ms = u64::try_from(BACKUP_KEPT.as_millis()).unwrap_or(u64::MAX);
        let id = &backup.manifest().id;
        Ok(json_response(status, &json!({"id": id, "kept_ms": kept_ms, "manifest": manifest})))
    })
}

/// A backup's id and a file's name, in a path.
pub(crate) type FileName = Result<Path<(String, String)>, PathRejection>;

/// Bytes of a file: all, or those of `Range`.
pub(crate) async fn file(
    State(shared): State<Arc<Shared>>,
    path: FileName,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let Path((id, name)) =
        path.map_err(|_| Problem::bad_request("the path is not valid percent-encoded UTF-8"))?;
    let backup = shared.engine.backup(&Principal::anonymous(), &id)?;
    let file = backup.file(&name)?;
    let range = headers.get(header::RANGE).and_then(|range| requested(range.to_str().ok()?, file.bytes));
    let (status, range) = match range {
        None => (StatusCode::OK, 0..file.bytes),
        Some(Ok(range)) => (StatusCode::PARTIAL_CONTENT, range),
        Some(Err(())) => return Err(beyond(file.bytes)),
    };
    let bytes = backup.read(&name, range.clone())?;
    // The client notices an interrupted file by its length, and requests the rest.
    let bytes = bytes.inspect_err(move |error| {
        tracing::warn!(%id, %name, error = error as &dyn std::error::Error, "a file of a backup cannot be read");
    });
    let mut response = Body::from_stream(bytes).into_response();
    *response.status_mut() = status;
    let fields = [
        (header::CONTENT_TYPE, Some("application/octet-stream".to_owned())),
        (header::ACCEPT_RANGES, Some("bytes".to_owned())),
        (header::CONTENT_LENGTH, Some((range.end - range.start).to_string())),
        (header::ETAG, Some(format!("\"{}\"", file.crc32c))),
        (
            header::CONTENT_RANGE,
            (status == StatusCode::PARTIAL_CONTENT)
                .then(|| format!("bytes {}-{}/{}", range.start, range.end - 1, file.bytes)),
        ),
    ];
    for (field, text) in fields {
        if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(field, value);
        }
    }
    Ok(response)
}

fn beyond(bytes: u64) -> Problem {
    let detail = format!("`Range` begins beyond the file's {bytes} bytes");
    Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "range-invalid", "The range is outside the file", detail)
        .with("bytes", bytes)
}

/// The bytes that `Range` asks for (RFC 9110); none where it is to be passed over, an error where there are none.
fn requested(range: &str, bytes: u64) -> Option<Result<Range<u64>, ()>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    if first.trim().is_empty() {
        let count = number(last)?;
        return Some(if count == 0 || bytes == 0 { Err(()) } else { Ok(bytes.saturating_sub(count)..bytes) });
    }
    let first = number(first)?;
    let end = if last.trim().is_empty() { bytes } else { number(last)?.saturating_add(1).min(bytes) };
    // An end before the beginning makes no range at all; a beginning behind the file's end, none that can be had.
    match first {
        first if first >= bytes => Some(Err(())),
        first if first >= end => None,
        first => Some(Ok(first..end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_has_them() {
        for (text, wanted) in [
            ("bytes=0-", Some(Ok(0..10))),
            ("bytes=3-", Some(Ok(3..10))),
            ("bytes=3-3", Some(Ok(3..4))),
            ("bytes=3-99", Some(Ok(3..10))),
            ("bytes=-4", Some(Ok(6..10))),
            ("bytes=-40", Some(Ok(0..10))),
            ("bytes=10-", Some(Err(()))),
            ("bytes=-0", Some(Err(()))),
            ("bytes=5-2", None),
            ("bytes=0-1,4-5", None),
            ("lines=0-", None),
            ("bytes=x-", None),
        ] {
            assert_eq!(requested(text, 10), wanted, "{text}");
        }
    }
}
