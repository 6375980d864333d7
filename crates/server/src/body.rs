//! Reads request bodies: decompresses them and splits them into pieces of bounded size as they arrive.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::{Buf, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use zstd::stream::raw::{DParameter, Operation};

use crate::{
    budget::{BudgetExceeded, Share},
    inputs::CsvEvents,
    parameters::cut,
    problem::Problem,
};

/// A piece has at most this many bytes after decompression; as many are gathered of what is there at once.
const PIECE_BYTES: usize = 1 << 20;
/// Windows of zstd larger than 8 MiB are refused (RFC 9659 has senders keep to that).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// DEFLATE's largest window.
const DEFLATE_WINDOW_BITS: u8 = 15;
/// Work on up to this many bytes is done where it stands: it takes less than it costs to move it elsewhere.
const INLINE_BYTES_MAX: usize = 128 << 10;

/// Runs work on `bytes` bytes so that other requests do not wait for it.
pub(crate) fn heavy<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor::MultiThread};
    let can_block = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == MultiThread);
    if bytes <= INLINE_BYTES_MAX || !can_block {
        return work();
    }
    tokio::task::block_in_place(work)
}

/// The way a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    /// DEFLATE in zlib's form, as HTTP means it (RFC 9110).
    Deflate,
    Zstd,
}

impl Encoding {
    /// Reads `Content-Encoding`.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Encoding, Problem> {
        let mut found = Encoding::Identity;
        for field in headers.get_all(header::CONTENT_ENCODING) {
            let name = field.to_str().unwrap_or("?").trim();
            found = match (found, name.to_ascii_lowercase().as_str()) {
                (found, "identity" | "") => found,
                (Encoding::Identity, "gzip" | "x-gzip") => Encoding::Gzip,
                (Encoding::Identity, "deflate") => Encoding::Deflate,
                (Encoding::Identity, "zstd") => Encoding::Zstd,
                _ => {
                    return Err(unsupported(format!(
                        "the body's encoding `{}` cannot be resolved",
                        cut(name)
                    ))
                    .hint("Encodings are: identity, gzip, deflate, zstd; one of them."));
                }
            };
        }
        Ok(found)
    }
}

/// A body in a form that is not read here.
pub(crate) fn unsupported(detail: impl Into<String>) -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported-content",
        "The format of the body is not supported",
        detail,
    )
}

/// The reason why a body was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// The client went away, or framed the body wrongly.
    BrokenOff(String),
    /// The client paused too long.
    Timeout,
    /// The body cannot be decompressed.
    Corrupt(String),
    /// The body has more bytes than allowed.
    TooLong,
    /// The body found no room in memory.
    NotHeld(String),
    /// Clients have begun more than the server may hold of it.
    NoRoom,
    /// It is not what its type says.
    Unreadable(String),
}

/// A body as pieces of at most [`PIECE_BYTES`].
pub(crate) struct Pieces {
    body: Body,
    decoder: Decoder,
    /// The bytes that are still to be decompressed.
    input: Bytes,
    /// The bytes that came too late for the last piece.
    waiting: Option<Bytes>,
    ended: bool,
    pause_max: Option<Duration>,
    /// Bytes that may still come, after decompression.
    bytes_left: u64,
    /// The reason why the connection delivers no more bytes, though the body has not ended; the earlier ones
    /// still count.
    cut_off: Option<BodyFault>,
    /// The reason why no more pieces come.
    fault: Option<BodyFault>,
    /// The body is CSV, and its pieces are its events.
    csv: Option<CsvEvents>,
    /// The share of memory that it holds.
    share: Share,
    /// Bytes of it that its reader holds.
    held: usize,
    /// Bytes that came out of the decoder.
    decoded: u64,
}

impl Pieces {
    /// `bytes_max` counts after decompression; 0 there, and for `pause_ms_max`, is no limit.
    pub(crate) fn new(
        body: Body,
        encoding: Encoding,
        bytes_max: u64,
        pause_ms_max: u64,
        share: Share,
    ) -> Pieces {
        Pieces {
            body,
            decoder: Decoder::new(encoding),
            input: Bytes::new(),
            waiting: None,
            ended: false,
            pause_max: (pause_ms_max > 0).then(|| Duration::from_millis(pause_ms_max)),
            bytes_left: if bytes_max > 0 { bytes_max } else { u64::MAX },
            cut_off: None,
            fault: None,
            csv: None,
            share,
            held: 0,
            decoded: 0,
        }
    }

    /// Reserves so many bytes for decoded data until the body goes on or ends; the decoder's window is counted
    /// with them.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), BodyFault> {
        self.held = bytes;
        self.share.set(bytes + self.decoder.window_bytes(self.decoded)).map_err(|_| BodyFault::NoRoom)
    }

    /// Takes the body for CSV: its pieces are then the events that its records become, one a line.
    pub(crate) fn read_csv(&mut self, csv: CsvEvents) {
        self.csv = Some(csv);
    }

    /// The next piece, never an empty one; `None` at the end. After a fault nothing more comes.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyFault> {
        loop {
            if let Some(fault) = &self.fault {
                return Err(fault.clone());
            }
            if self.input.is_empty() && !self.decoder.has_more() {
                self.gather().await;
            }
            if self.input.is_empty() && !self.decoder.has_more() {
                self.fault = self.cut_off.take();
                if self.fault.is_none() && !self.decoder.may_end() {
                    self.fault = Some(BodyFault::Corrupt("the compressed body ends too early".to_owned()));
                }
                if let Some(fault) = &self.fault {
                    return Err(fault.clone());
                }
                let mut last = Vec::new();
                if let Some(mut csv) = self.csv.take() {
                    csv.finish(&mut last);
                }
                return Ok((!last.is_empty()).then(|| last.into()));
            }
            let mut piece = match self.decoder.decode(&mut self.input) {
                Ok(piece) => piece,
                Err(fault) => {
                    self.fault = Some(BodyFault::Corrupt(fault));
                    continue;
                }
            };
            self.decoded += piece.len() as u64;
            if let Err(fault) = self.reserve(self.held) {
                self.fault = Some(fault);
                continue;
            }
            if piece.len() as u64 > self.bytes_left {
                piece.truncate(self.bytes_left as usize);
                self.fault = Some(BodyFault::TooLong);
            }
            self.bytes_left -= piece.len() as u64;
            if let Some(csv) = &mut self.csv {
                let mut events = Vec::with_capacity(piece.len().saturating_mul(2));
                heavy(piece.len().saturating_mul(8), || csv.push(&piece, &mut events));
                piece = events.into();
            }
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// The whole body, if it is not longer than the limit.
    pub(crate) async fn whole(self) -> Result<Vec<u8>, BodyFault> {
        Ok(self.collect_with_share().await?.0)
    }

    /// The same, with the share of the budget that it uses.
    pub(crate) async fn collect_with_share(mut self) -> Result<(Vec<u8>, Share), BodyFault> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            self.reserve(whole.len() + piece.len())?;
            whole.extend_from_slice(&piece);
        }
        Ok((whole, self.share))
    }

    /// The same, without copying it where it is there in one piece.
    pub(crate) async fn at_once(&mut self) -> Result<Bytes, BodyFault> {
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next().await? else { return Ok(first) };
        let mut whole = BytesMut::from(&*first);
        whole.extend_from_slice(&second);
        while let Some(piece) = self.next().await? {
            self.reserve(whole.len() + piece.len())?;
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Waits for bytes, and joins small chunks that are there at once.
    async fn gather(&mut self) {
        let Some(first) = self.chunk().await else { return };
        self.input = first;
        if self.input.len() >= PIECE_BYTES {
            return;
        }
        let mut joined: Option<BytesMut> = None;
        while let Some(chunk) = self.chunk().now_or_never().flatten() {
            let so_far = joined.as_ref().map_or(self.input.len(), BytesMut::len);
            if so_far + chunk.len() > PIECE_BYTES {
                self.waiting = Some(chunk);
                break;
            }
            let joined = joined.get_or_insert_with(|| BytesMut::from(&*self.input));
            joined.extend_from_slice(&chunk);
        }
        if let Some(joined) = joined {
            self.input = joined.freeze();
        }
    }

    /// The next bytes of the connection. May be dropped while it waits: nothing is lost.
    async fn chunk(&mut self) -> Option<Bytes> {
        if let Some(chunk) = self.waiting.take() {
            return Some(chunk);
        }
        while !self.ended && self.cut_off.is_none() {
            let frame = match self.pause_max {
                None => Ok(self.body.frame().await),
                Some(pause_max) => match self.body.frame().now_or_never() {
                    Some(frame) => Ok(frame),
                    None => tokio::time::timeout(pause_max, self.body.frame()).await,
                },
            };
            match frame {
                Err(_) => self.cut_off = Some(BodyFault::Timeout),
                Ok(None) => self.ended = true,
                Ok(Some(Err(error))) => self.cut_off = Some(BodyFault::BrokenOff(error.to_string())),
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data()
                        && !bytes.is_empty()
                    {
                        return Some(bytes);
                    }
                }
            }
        }
        None
    }
}

/// The forms in which DEFLATE's bytes are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Gzip,
    Zlib,
}

impl Framing {
    fn decompress(self) -> Decompress {
        match self {
            Framing::Gzip => Decompress::new_gzip(DEFLATE_WINDOW_BITS),
            Framing::Zlib => Decompress::new(true),
        }
    }

    /// The name for `Content-Encoding`.
    fn name(self) -> &'static str {
        match self {
            Framing::Gzip => "gzip",
            Framing::Zlib => "deflate",
        }
    }
}

enum Decoder {
    Identity,
    Deflate {
        framing: Framing,
        decompress: Decompress,
        /// True if it is within a member; there may be several, one after another.
        within: bool,
        has_more: bool,
    },
    Zstd {
        /// `None` before the first byte.
        decoder: Option<zstd::stream::raw::Decoder<'static>>,
        within: bool,
        has_more: bool,
    },
}

impl Decoder {
    fn new(encoding: Encoding) -> Decoder {
        match encoding {
            Encoding::Identity => Decoder::Identity,
            Encoding::Gzip => Decoder::deflate(Framing::Gzip),
            Encoding::Deflate => Decoder::deflate(Framing::Zlib),
            Encoding::Zstd => Decoder::Zstd { decoder: None, within: false, has_more: false },
        }
    }

    fn deflate(framing: Framing) -> Decoder {
        Decoder::Deflate { framing, decompress: framing.decompress(), within: false, has_more: false }
    }

    /// True if more may come out without anything more going in.
    fn has_more(&self) -> bool {
        match self {
            Decoder::Identity => false,
            Decoder::Deflate { has_more, .. } | Decoder::Zstd { has_more, .. } => *has_more,
        }
    }

    /// Bytes that it keeps to look back at, after so many came out.
    fn window_bytes(&self, decoded: u64) -> usize {
        match self {
            Decoder::Identity => 0,
            Decoder::Deflate { .. } => 1 << DEFLATE_WINDOW_BITS,
            Decoder::Zstd { .. } => {
                usize::try_from(decoded).unwrap_or(usize::MAX).min(1 << ZSTD_WINDOW_LOG_MAX)
            }
        }
    }

    /// True if what went in so far is whole.
    fn may_end(&self) -> bool {
        match self {
            Decoder::Identity => true,
            Decoder::Deflate { within, .. } | Decoder::Zstd { within, .. } => !within,
        }
    }

    /// The next piece, which may be empty; takes from `input` what that needs.
    fn decode(&mut self, input: &mut Bytes) -> Result<Bytes, String> {
        if let Decoder::Identity = self {
            return Ok(input.split_to(input.len().min(PIECE_BYTES)));
        }
        let mut output = Vec::with_capacity(input.len().saturating_mul(8).clamp(8 << 10, PIECE_BYTES));
        // Decompressing costs about as much as looking at eight times as many bytes.
        heavy(input.len().saturating_mul(8), || self.decompress(input, &mut output))?;
        if output.len() < output.capacity() / 2 {
            output.shrink_to_fit();
        }
        Ok(output.into())
    }

    /// Fills `output` up to its capacity, or as far as `input` goes.
    fn decompress(&mut self, input: &mut Bytes, output: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Decoder::Identity => {}
            Decoder::Deflate { framing, decompress, within, has_more } => loop {
                let (before_in, before_out) = (decompress.total_in(), output.len());
                let status = decompress
                    .decompress_vec(input, output, FlushDecompress::None)
                    .map_err(|_| format!("the body is not valid {}", framing.name()))?;
                let taken = (decompress.total_in() - before_in) as usize;
                input.advance(taken);
                if taken > 0 {
                    *within = true;
                }
                if status == Status::StreamEnd {
                    *decompress = framing.decompress();
                    *within = false;
                }
                *has_more = output.len() == output.capacity() && *within;
                let stuck = taken == 0 && output.len() == before_out;
                if input.is_empty() || output.len() == output.capacity() || stuck {
                    break;
                }
            },
            Decoder::Zstd { decoder, within, has_more } => {
                let decoder = match decoder {
                    Some(decoder) => decoder,
                    None => decoder.insert(zstd_decoder().map_err(|error| error.to_string())?),
                };
                loop {
                    let before = output.len();
                    let mut target = zstd::stream::raw::OutBuffer::around_pos(output, before);
                    let mut source = zstd::stream::raw::InBuffer::around(&input[..]);
                    let hint = decoder
                        .run(&mut source, &mut target)
                        .map_err(|error| format!("the body is not valid zstd: {error}"))?;
                    let taken = source.pos();
                    input.advance(taken);
                    // At a frame's end zstd wants nothing more.
                    *within = hint > 0;
                    *has_more = output.len() == output.capacity() && *within;
                    let stuck = taken == 0 && output.len() == before;
                    if input.is_empty() || output.len() == output.capacity() || stuck {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn zstd_decoder() -> std::io::Result<zstd::stream::raw::Decoder<'static>> {
    let mut decoder = zstd::stream::raw::Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
    Ok(decoder)
}

impl BodyFault {
    /// The problem, for a client that is still there; `bytes_max` is the limit and `setting` its name.
    pub(crate) fn problem(&self, setting: &'static str, bytes_max: u64) -> Problem {
        match self {
            BodyFault::NoRoom => BudgetExceeded.problem(),
            BodyFault::BrokenOff(why) => Problem::bad_request(format!("the body ended early: {why}")),
            BodyFault::Timeout => Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout",
                "The request took too long",
                "the body paused for too long",
            )
            .with("setting", "server.body_read_timeout_ms"),
            BodyFault::Corrupt(what) => Problem::new(
                StatusCode::BAD_REQUEST,
                "body-corrupt",
                "The body cannot be decompressed",
                what.as_str(),
            ),
            BodyFault::NotHeld(why) => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The server cannot do this now",
                format!("the body cannot be stored on disk: {why}"),
            )
            .hint("The server stores it in the directory of temporary files, which TMPDIR names."),
            BodyFault::Unreadable(what) => Problem::new(
                StatusCode::BAD_REQUEST,
                "body-corrupt",
                "The body cannot be read",
                what.as_str(),
            ),
            BodyFault::TooLong => {
                Problem::too_large(format!("the body is longer than {bytes_max} bytes"), setting, bytes_max)
            }
        }
        .closing()
    }
}
