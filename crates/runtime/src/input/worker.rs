//! A worker of an input: one shard's loop, which checks pieces of the input and matches their events.
//!
//! Workers take pieces from the feed in any order and number what they made of each, so that the merger restores the order.

use std::sync::{Arc, mpsc::SyncSender};

use swiftwater_event::{Checked, Clock, EventBatch, EventMeta, Millis, Offset, Rejection, check_block};
use swiftwater_live::{Index, Partial, QueryStep, Shard, SourcePosition, StepInput};

use super::{
    event_times::EventTimes,
    feed::{Feed, Piece},
    options::{EventPrefilter, InputOptions, QUERY, TIME_BEGINS},
};
use crate::panic_guard::guarded;

/// The output of a worker for a piece.
pub(super) struct WorkerOutput {
    pub(super) number: u64,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) rejections: Vec<Rejection>,
    /// Lines that the piece begins with are counted from 1 in its rejections: how many lines it has.
    pub(super) lines: Option<u64>,
    pub(super) bytes: u64,
    pub(super) step: Option<QueryStep>,
    pub(super) slices: Vec<Partial>,
    /// The latest arrival in it.
    pub(super) latest: Millis,
}

pub(super) enum Message {
    WorkerOutput(Box<WorkerOutput>),
    /// A shard has no more to do; the groups that it holds.
    Left(Vec<Partial>),
}

pub(super) struct Worker {
    pub(super) index: Index,
    /// Slices of groups are over before the input is.
    pub(super) closes: bool,
    pub(super) options: InputOptions,
    pub(super) prefilter: Option<EventPrefilter>,
    pub(super) feed: Arc<Feed>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started: Millis,
}

impl Worker {
    pub(super) fn run(&self, results: &SyncSender<Message>) {
        let mut shard = Shard::default();
        let mut times = self.options.time_field.clone().map(EventTimes::new);
        while let Some((number, piece)) = self.feed.next_piece() {
            let made = guarded("a part of the input could not be processed", || {
                self.match_piece(number, piece, &mut shard, times.as_mut())
            });
            let Ok(made) = made else {
                self.feed
                    .fail(std::io::Error::other("the program failed on a part of it, as its log describes"));
                return;
            };
            if results.send(Message::WorkerOutput(Box::new(made))).is_err() {
                return;
            }
        }
        // The merger may have stopped reading: then nobody wants it.
        let _ = results.send(Message::Left(shard.remove(QUERY)));
    }

    fn match_piece(
        &self,
        number: u64,
        piece: Piece,
        shard: &mut Shard,
        times: Option<&mut EventTimes>,
    ) -> WorkerOutput {
        let (checked, place, bytes, lines) = match piece {
            Piece::Block(block, at) => {
                // Only the first block can begin with a byte order mark, and only it begins at line 1: the others are
                // counted from 2, and the merger knows.
                let first_line = if at == 0 { 1 } else { 2 };
                let lines = memchr::memchr_iter(b'\n', &block).count() as u64;
                let size = block.len() as u64;
                (
                    check_block(block, &self.options.check, first_line),
                    SourcePosition::Byte(at),
                    size,
                    Some(lines),
                )
            }
            Piece::Checked(checked, first, read) => (checked, SourcePosition::Number(first), read, None),
        };
        let Checked { batch, rejected, rejections, .. } = checked;
        let accepted = batch.len() as u64;
        let batch = self.candidates(batch);
        let read_micros = self.clock.now_micros();
        let batch = batch.with_meta(EventMeta {
            arrival: self.started,
            sent_micros: 0,
            read_micros,
            first: Offset(0),
        });
        let arrivals = times.map_or_else(Vec::new, |times| times.of(&batch));
        let nothing = if self.options.time_field.is_some() { TIME_BEGINS } else { self.started };
        let latest = arrivals.last().copied().unwrap_or(nothing);
        let mut steps = Vec::new();
        let nanos = || self.clock.monotonic_nanos();
        let input = StepInput {
            batch: &batch,
            arrivals: &arrivals,
            before: None,
            place,
            now_micros: self.clock.now_micros(),
            record_bytes_max: self.options.config.emit_bytes_max,
            nanos: &nanos,
        };
        shard.step(&self.index, &input, &mut steps);
        // Windows close while the input is read only where it has times; what is not cut stays until the end.
        let slices = if arrivals.is_empty() || !self.closes { Vec::new() } else { shard.remove(QUERY) };
        WorkerOutput {
            number,
            accepted,
            rejected,
            rejections,
            lines,
            bytes,
            step: steps.pop(),
            slices,
            latest,
        }
    }

    /// The events that may match the query.
    fn candidates(&self, batch: EventBatch) -> EventBatch {
        let Some(prefilter) = &self.prefilter else { return batch };
        let candidates = prefilter(&batch);
        if candidates.len() == batch.len() { batch } else { batch.select(&candidates) }
    }
}
