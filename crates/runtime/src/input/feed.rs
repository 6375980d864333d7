//! Splits the input into pieces and hands each, in order, to the next shard that asks.

use std::sync::Condvar;

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Checked, Checker, first_cut};

use super::options::{InputOptions, InputSource};
use crate::lock_order::{OrderedMutex, level};

/// Bytes of a block: small enough for a core's cache, large enough that what is done once per block does not show.
const BLOCK_BYTES: usize = 512 << 10;
/// Bytes without a place to cut the file after which its events are found one after another.
const CUT_BYTES_MAX: usize = 64 << 20;
/// Blocks per shard that may be under way; a faster shard then waits.
const BLOCKS_AHEAD: u64 = 8;
/// Distributes pieces of the input, in order.
pub(super) struct Feed {
    check: CheckLimits,
    ahead_max: u64,
    /// The rest of the input, and the number of the next piece. Held while reading, which may take for ever: who deals with
    /// pieces never takes it.
    rest: OrderedMutex<(Rest, u64), level::InputRest>,
    pub(super) flow: OrderedMutex<Flow>,
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct Flow {
    /// Pieces that are wholly dealt with.
    done: u64,
    is_stopped: bool,
    pub(super) error: Option<std::io::Error>,
}

enum Rest {
    /// Cut into blocks from this byte on.
    Blocks {
        bytes: Bytes,
        at: usize,
    },
    /// Split event by event.
    Pieces {
        from: PieceSource,
        checker: Box<Checker>,
        events: u64,
    },
    Nothing,
}

enum PieceSource {
    Bytes { bytes: Bytes, at: usize },
    Reader(Box<dyn std::io::Read + Send>),
}

/// A part of the input.
pub(super) enum Piece {
    /// A block to check; it begins at this byte.
    Block(Bytes, u64),
    /// Checked; its first event has this number, and so many bytes were read for it.
    Checked(Checked, u64, u64),
}

impl Feed {
    pub(super) fn new(source: InputSource, options: &InputOptions, shards: usize) -> Feed {
        let checker = Box::new(Checker::new(options.check));
        let rest = match source {
            InputSource::Reader(reader) => {
                Rest::Pieces { from: PieceSource::Reader(reader), checker, events: 0 }
            }
            InputSource::Bytes(bytes) if is_array(&bytes) => {
                Rest::Pieces { from: PieceSource::Bytes { bytes, at: 0 }, checker, events: 0 }
            }
            InputSource::Bytes(bytes) => Rest::Blocks { bytes, at: 0 },
        };
        Feed {
            check: options.check,
            ahead_max: BLOCKS_AHEAD * shards as u64,
            rest: OrderedMutex::new((rest, 0)),
            flow: OrderedMutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The next piece and its number.
    pub(super) fn next_piece(&self) -> Option<(u64, Piece)> {
        let mut rest = self.rest.lock();
        let (rest, next) = &mut *rest;
        let mut flow = self.flow.lock();
        while !flow.is_stopped && *next >= flow.done + self.ahead_max {
            flow = flow.wait(&self.changed);
        }
        if flow.is_stopped {
            return None;
        }
        drop(flow);
        let piece = match rest.next(&self.check) {
            Ok(piece) => piece?,
            Err(error) => {
                self.flow.lock().error.get_or_insert(error);
                *rest = Rest::Nothing;
                return None;
            }
        };
        *next += 1;
        Some((*next - 1, piece))
    }

    /// Ends the feed with an error: no further piece is returned.
    pub(super) fn fail(&self, error: std::io::Error) {
        self.flow.lock().error.get_or_insert(error);
        self.stop();
    }

    pub(super) fn done(&self) {
        self.flow.lock().done += 1;
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        self.flow.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

impl Rest {
    fn next(&mut self, check: &CheckLimits) -> std::io::Result<Option<Piece>> {
        loop {
            match self {
                Rest::Nothing => return Ok(None),
                Rest::Blocks { bytes, at } => {
                    let start = *at;
                    if start == bytes.len() {
                        return Ok(None);
                    }
                    let wish = start + BLOCK_BYTES;
                    if wish >= bytes.len() {
                        *at = bytes.len();
                        return Ok(Some(Piece::Block(bytes.slice(start..), start as u64)));
                    }
                    let horizon = bytes.len().min(wish + CUT_BYTES_MAX);
                    if let Some(cut) = first_cut(&bytes[wish..horizon]) {
                        *at = wish + cut;
                        return Ok(Some(Piece::Block(bytes.slice(start..*at), start as u64)));
                    }
                    let bytes = bytes.clone();
                    *self = Rest::Pieces {
                        from: PieceSource::Bytes { bytes, at: start },
                        checker: Box::new(Checker::new(*check)),
                        events: 0,
                    };
                }
                Rest::Pieces { from, checker, events } => {
                    let chunk = from.next()?;
                    let is_last = chunk.is_empty();
                    let read = chunk.len() as u64;
                    let checked = if is_last { checker.finish() } else { checker.push(chunk) };
                    let first = *events;
                    *events += checked.batch.len() as u64;
                    if is_last {
                        *self = Rest::Nothing;
                    }
                    return Ok(Some(Piece::Checked(checked, first, read)));
                }
            }
        }
    }
}

impl PieceSource {
    /// The next bytes, whatever is there; none at the end.
    fn next(&mut self) -> std::io::Result<Bytes> {
        match self {
            PieceSource::Bytes { bytes, at } => {
                let end = bytes.len().min(*at + BLOCK_BYTES);
                let chunk = bytes.slice(*at..end);
                *at = end;
                Ok(chunk)
            }
            PieceSource::Reader(reader) => {
                let mut buffer = vec![0; BLOCK_BYTES];
                loop {
                    match reader.read(&mut buffer) {
                        Ok(count) => {
                            buffer.truncate(count);
                            return Ok(buffer.into());
                        }
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
}

fn is_array(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}
