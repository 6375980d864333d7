//! Fetches the files of a backup from a server.
//!
//! The files are fetched one after another over one connection. If it breaks, a new connection resumes the file where it
//! broke off. If the server's snapshot has expired, a new one replaces it.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use swiftwater_engine::{BackupFile, BackupManifest, Checksum};

use super::directory::{BackupDir, checksum};
use crate::{
    client::{Client, Connection, Problem, full, read_all},
    progress::Progress,
    stdio::complain,
};

/// Cuts that are tried, each void because a table was dropped, before it is given up.
const CUTS_MAX: usize = 10;
/// Tries of one file that get no further before it is given up, and how long is waited between them.
const TRIES_MAX: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// The result of a fetch.
pub(super) struct Fetched {
    pub(super) manifest: BackupManifest,
    /// Bytes that came over the network.
    pub(super) bytes: u64,
}

/// A backup, as the server reports it.
#[derive(Deserialize)]
struct ManifestReply<'a> {
    #[serde(borrow)]
    manifest: &'a RawValue,
}

/// Fetches a backup into a directory.
pub(super) async fn fetch(
    client: &Client,
    dir: &BackupDir,
    without_search_index: bool,
    quiet: bool,
) -> anyhow::Result<Fetched> {
    let mut fetching = Fetching { client, dir, without_search_index, connection: None, fetched: 0 };
    for _ in 0..CUTS_MAX {
        let manifest = fetching.cut().await?;
        let progress = Progress::bytes(Some(manifest.bytes()), quiet);
        let done = fetching.files(&manifest, &progress).await;
        progress.finish();
        if done? {
            dir.finish(&manifest)?;
            // It would end by itself, so nothing is lost if the server is gone.
            let _ = client.fetch(Method::DELETE, &format!("/v1/backups/{}", manifest.id)).await;
            return Ok(Fetched { manifest, bytes: fetching.fetched });
        }
        complain(
            "a table was dropped, or the server restarted: beginning another backup with the files that are here",
        );
    }
    bail!("tables are dropped faster than a backup can be fetched; try again when fewer are dropped")
}

struct Fetching<'a> {
    client: &'a Client,
    dir: &'a BackupDir,
    without_search_index: bool,
    connection: Option<Connection>,
    fetched: u64,
}

/// The outcome of an attempt to fetch a file.
enum FetchOutcome {
    Whole,
    /// The cut no longer stands.
    Void,
    /// It broke off.
    Broken(anyhow::Error),
}

impl Fetching<'_> {
    /// The cut that was being fetched, if it still stands, or another.
    async fn cut(&mut self) -> anyhow::Result<BackupManifest> {
        if let Some(id) = self.dir.unfinished() {
            let (status, body) =
                self.client.fetch(Method::GET, &format!("/v1/backups/{}", encoded(&id))).await?;
            if status == StatusCode::OK {
                return manifest(&body);
            }
        }
        let path = match self.without_search_index {
            true => "/v1/backups?without_search_index=true",
            false => "/v1/backups",
        };
        let (status, body) = self.client.fetch(Method::POST, path).await?;
        if status != StatusCode::CREATED {
            bail!("{}", Problem::read(status, &body).summary());
        }
        let manifest = manifest(&body)?;
        self.dir.begin(&manifest)?;
        Ok(manifest)
    }

    /// Fetches all missing files; `false` if the snapshot no longer exists.
    async fn files(&mut self, manifest: &BackupManifest, progress: &Progress) -> anyhow::Result<bool> {
        let mut done = 0;
        for file in &manifest.files {
            let (place, part) = self.dir.places(file);
            if checksum(&place)? != Some((file.crc32c, file.bytes)) {
                let (mut tries, mut furthest) = (0, 0);
                loop {
                    match self.file(manifest, file, &part, (progress, done)).await? {
                        FetchOutcome::Whole => break,
                        FetchOutcome::Void => return Ok(false),
                        FetchOutcome::Broken(error) => {
                            self.connection = None;
                            let reached = fs::metadata(&part).map_or(0, |part| part.len());
                            tries = if reached > furthest { 1 } else { tries + 1 };
                            furthest = furthest.max(reached);
                            if tries >= TRIES_MAX {
                                let what =
                                    format!("cannot fetch `{}`; run the command again to resume", file.name);
                                return Err(error).context(what);
                            }
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                }
                fs::rename(&part, &place).with_context(|| format!("cannot rename `{}`", place.display()))?;
            }
            done += file.bytes;
            progress.set(done);
        }
        Ok(true)
    }

    /// Fetches what is lacking of a file, and syncs it.
    async fn file(
        &mut self,
        manifest: &BackupManifest,
        file: &BackupFile,
        part: &Path,
        (progress, done): (&Progress, u64),
    ) -> anyhow::Result<FetchOutcome> {
        let shown = || format!("cannot write `{}`", part.display());
        if let Some(above) = part.parent() {
            fs::create_dir_all(above).with_context(shown)?;
        }
        let (mut sum, mut have) = checksum(part)?.unwrap_or_default();
        if have > file.bytes {
            (sum, have) = (Checksum::default(), 0);
        }
        let mut out = File::options().create(true).append(true).open(part).with_context(shown)?;
        out.set_len(have).with_context(shown)?;
        if have < file.bytes {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                none => match self.client.connect().await {
                    Ok(connection) => none.insert(connection),
                    Err(error) => return Ok(FetchOutcome::Broken(error)),
                },
            };
            let path = format!("/v1/backups/{}/files/{}", encoded(&manifest.id), encoded(&file.name));
            let range = format!("bytes={have}-");
            let fields = [("range", range.as_str())];
            let fields = if have > 0 { &fields[..] } else { &[] };
            let response = match connection.send(Method::GET, &path, fields, full("")).await {
                Ok(response) => response,
                Err(error) => return Ok(FetchOutcome::Broken(error)),
            };
            match response.status() {
                StatusCode::PARTIAL_CONTENT if have > 0 => {}
                StatusCode::OK => {
                    (sum, have) = (Checksum::default(), 0);
                    out.set_len(0).with_context(shown)?;
                }
                StatusCode::NOT_FOUND | StatusCode::CONFLICT => return Ok(FetchOutcome::Void),
                status => {
                    let body = read_all(response).await?;
                    let error = anyhow::anyhow!("{}", Problem::read(status, &body).summary());
                    return if status.is_server_error() {
                        Ok(FetchOutcome::Broken(error))
                    } else {
                        Err(error)
                    };
                }
            }
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                let data = match frame {
                    Ok(frame) => frame.into_data().unwrap_or_default(),
                    Err(error) => {
                        let error = anyhow::Error::new(error).context("the server's answer ended early");
                        return Ok(FetchOutcome::Broken(error));
                    }
                };
                out.write_all(&data).with_context(shown)?;
                sum = sum.and(&data);
                have += data.len() as u64;
                self.fetched += data.len() as u64;
                progress.set(done + have.min(file.bytes));
            }
        }
        if (sum, have) != (file.crc32c, file.bytes) {
            // Not one byte of it can be trusted.
            out.set_len(0).with_context(shown)?;
            let BackupFile { bytes, crc32c, .. } = file;
            let what = format!("received {have} bytes with checksum {sum}, expected {bytes} with {crc32c}");
            return Ok(FetchOutcome::Broken(anyhow::anyhow!(what)));
        }
        out.sync_all().with_context(shown)?;
        Ok(FetchOutcome::Whole)
    }
}

fn manifest(body: &[u8]) -> anyhow::Result<BackupManifest> {
    let told: ManifestReply = serde_json::from_slice(body).context("the server's answer is not a backup")?;
    BackupManifest::from_json(told.manifest.get().as_bytes()).context("the server's answer is invalid")
}

/// A name as one part of a path.
fn encoded(name: &str) -> String {
    let mut path = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => path.push(byte.into()),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}
