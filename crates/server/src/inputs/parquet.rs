//! Reads Parquet files as request bodies. The footer of such a file locates its contents, so a body is buffered before it is
//! read. The buffer is an unnamed file in the system's directory for temporary files, and is deleted with the request.
//!
//! Limits: `server.parquet_bytes_max` for each, [`FILES_MAX`] at once; further requests wait, and back-pressure reaches
//! their senders.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
};

use axum::http::{HeaderMap, header};

use crate::body::{BodyFault, Pieces, heavy};

/// Bodies that are held at once.
pub(crate) const FILES_MAX: usize = 4;

/// True if a body is a Parquet file.
pub(crate) fn is_parquet(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|field| field.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    ["application/vnd.apache.parquet", "application/parquet", "application/x-parquet"]
        .iter()
        .any(|parquet| media_type.eq_ignore_ascii_case(parquet))
}

/// The whole body as a file, from its beginning.
pub(crate) async fn buffer_to_file(pieces: &mut Pieces) -> Result<File, BodyFault> {
    let not_held = |error: io::Error| BodyFault::NotHeld(error.to_string());
    let mut file = tempfile::tempfile().map_err(not_held)?;
    while let Some(piece) = pieces.next().await? {
        heavy(usize::MAX, || file.write_all(&piece)).map_err(not_held)?;
    }
    file.seek(SeekFrom::Start(0)).map_err(not_held)?;
    Ok(file)
}
