//! Splits numbered requests into the parts in which they are stored.
//!
//! A part has up to [`PART_BYTES`] of events' text, and as many events as fit, in order. The parts of a body depend only on
//! its events, so a body that is sent again is split at the same places. The position of each event in the body is recorded,
//! for error messages.

use std::sync::Arc;

use axum::http::HeaderMap;
use swiftwater_event::{EventBatch, Origin};
use swiftwater_runtime::{
    Numbered, PRODUCER_BYTES_MAX, QUARANTINED_BYTES, Refusal, RuntimeError, hash_of, is_reserved_producer,
};

use crate::{
    ingest::{RejectedEvent, RejectedEvents},
    parameters::{bad, cut},
    problem::Problem,
};

/// The most bytes of events, with one for the end of each line, that are stored whole or not at all.
pub(crate) const PART_BYTES: usize = 16 << 20;

/// The producer and the number of a request; none if it has no number.
pub(crate) fn number_of(headers: &HeaderMap) -> Result<Option<(Arc<str>, u64)>, Problem> {
    let field = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("").trim());
    let (producer, sequence) = (field("swiftwater-producer"), field("swiftwater-sequence"));
    let (producer, sequence) = match (producer, sequence) {
        (None, None) => return Ok(None),
        (Some(producer), Some(sequence)) => (producer, sequence),
        _ => {
            return Err(bad("the header field Swiftwater-Producer or Swiftwater-Sequence is missing")
                .hint("Send both: a name, and a number that rises with each request."));
        }
    };
    if producer.is_empty() || producer.len() > PRODUCER_BYTES_MAX {
        return Err(bad(format!(
            "Swiftwater-Producer is 1 to {PRODUCER_BYTES_MAX} visible ASCII characters"
        )));
    }
    if is_reserved_producer(producer) {
        return Err(RuntimeError::ReservedProducer(producer.to_owned()).into());
    }
    let number = sequence.parse().map_err(|_| {
        bad(format!("Swiftwater-Sequence is a whole number from 0 to 2^64 - 1, not `{}`", cut(sequence)))
    })?;
    Ok(Some((producer.into(), number)))
}

/// Events that are appended at once.
pub(crate) struct Piece {
    batch: EventBatch,
    source: Source,
}

/// The positions of events in the body.
#[derive(Clone, Default)]
pub(crate) struct Source {
    /// The batches by their first row, with the start of each buffer in the body; ascending.
    segments: Vec<(u32, EventBatch, Origin)>,
}

impl Piece {
    pub(crate) fn new(batch: EventBatch, begins: Origin) -> Piece {
        Piece { source: Source { segments: vec![(0, batch.clone(), begins)] }, batch }
    }

    fn joined(segments: Vec<(EventBatch, Origin)>) -> Piece {
        let batch = match &segments[..] {
            [(batch, _)] => batch.clone(),
            _ => {
                let batches: Vec<EventBatch> = segments.iter().map(|(batch, _)| batch.clone()).collect();
                EventBatch::concat(&batches)
            }
        };
        let mut first = 0;
        let segments = segments.into_iter().map(|(batch, begins)| {
            let from = first;
            first += batch.len() as u32;
            (from, batch, begins)
        });
        Piece { source: Source { segments: segments.collect() }, batch }
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub(crate) fn source(&self) -> Source {
        self.source.clone()
    }

    pub(crate) fn into_batch(self) -> EventBatch {
        self.batch
    }
}

impl Source {
    /// Describes an event that the stream's columns refuse.
    pub(crate) fn describe(&self, refusal: Refusal) -> RejectedEvent {
        let Refusal { row, path, message, .. } = refusal;
        let segment = self.segments.iter().rev().find(|(first, ..)| *first <= row);
        let (line, column) = segment.map_or((0, 0), |(first, batch, begins)| {
            begins.place(batch.bytes(), batch.span((row - first) as usize).start)
        });
        RejectedEvent { line, column, path: Some(path), message }
    }
}

/// A numbered request on its way.
pub(crate) struct Parts {
    producer: Arc<str>,
    sequence: u64,
    /// The number of the part that is gathered.
    part: u16,
    /// The number after that of the last part that is stored.
    after: u16,
    gathered: Vec<(EventBatch, Origin)>,
    bytes: usize,
    rejected: RejectedEvents,
    /// Bytes of the texts in `rejected`.
    rejected_bytes: usize,
}

impl Parts {
    pub(crate) fn new((producer, sequence): (Arc<str>, u64)) -> Parts {
        Parts {
            producer,
            sequence,
            part: 0,
            after: 0,
            gathered: Vec::new(),
            bytes: 0,
            rejected: RejectedEvents::default(),
            rejected_bytes: 0,
        }
    }

    /// A number that is the request's own, and the same when it is sent again.
    pub(crate) fn seed(&self) -> u64 {
        hash_of([self.producer.as_bytes(), &self.sequence.to_le_bytes()])
    }

    /// Bytes of events that wait for their part to be full.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes events, and those that were refused beside them; answers the parts that they complete. Texts of refused ones
    /// are told of apart from events, in pieces of their own: where parts and pieces end must not depend on how the body
    /// arrives.
    pub(crate) fn push(&mut self, piece: Piece, bad: RejectedEvents) -> Vec<(Piece, RejectedEvents, u16)> {
        let mut complete = Vec::new();
        self.rejected.count += bad.count;
        for refused in bad.texts {
            let bytes = refused.text.len().max(1);
            if self.rejected_bytes > 0 && self.rejected_bytes + bytes > QUARANTINED_BYTES {
                complete.push((Piece::joined(Vec::new()), self.drain_texts(), self.part));
            }
            self.rejected_bytes += bytes;
            self.rejected.texts.push(refused);
        }
        let Some((_, _, begins)) = piece.source.segments.first() else { return complete };
        let batch = &piece.batch;
        let mut from = 0;
        for row in 0..batch.len() {
            let bytes = batch.span(row).len() + 1;
            if self.bytes > 0 && self.bytes + bytes > PART_BYTES {
                self.gather(batch, from..row, *begins);
                complete.extend(self.finish());
                from = row;
            }
            self.bytes += bytes;
        }
        self.gather(batch, from..batch.len(), *begins);
        complete
    }

    fn gather(&mut self, batch: &EventBatch, rows: std::ops::Range<usize>, begins: Origin) {
        if rows.is_empty() {
            return;
        }
        let part = if rows.len() == batch.len() {
            batch.clone()
        } else {
            let rows: Vec<u32> = (rows.start as u32..rows.end as u32).collect();
            batch.select(&rows)
        };
        self.gathered.push((part, begins));
    }

    /// The texts of refused events so far, which are a piece.
    fn drain_texts(&mut self) -> RejectedEvents {
        let (texts, part) = (std::mem::take(&mut self.rejected.texts), self.rejected.part);
        self.rejected_bytes = 0;
        let count = self.rejected.count.min(texts.len() as u64);
        self.rejected.count -= count;
        self.rejected.part = part.saturating_add(u16::from(!texts.is_empty()));
        RejectedEvents { count, texts, part }
    }

    /// The part that was gathered, with its number; none where there are no events.
    fn finish(&mut self) -> Option<(Piece, RejectedEvents, u16)> {
        let gathered = std::mem::take(&mut self.gathered);
        self.bytes = 0;
        if gathered.is_empty() {
            return None;
        }
        let number = self.part;
        self.part = self.part.saturating_add(1);
        // Those without a text, where none are kept.
        let count = self.rejected.count.saturating_sub(self.rejected.texts.len() as u64);
        self.rejected.count -= count;
        Some((Piece::joined(gathered), RejectedEvents { count, ..RejectedEvents::default() }, number))
    }

    /// The remaining parts at the end of the body.
    pub(crate) fn rest(&mut self) -> Vec<(Piece, RejectedEvents, u16)> {
        let mut rest: Vec<_> = self.finish().into_iter().collect();
        let count = self.rejected.count;
        let bad = RejectedEvents { count, ..self.drain_texts() };
        if !bad.is_none() {
            rest.push((Piece::joined(Vec::new()), bad, self.part));
        }
        rest
    }

    /// The identity of a part with these events for the engine; the events stored before it are recorded by then.
    pub(crate) fn numbered(&self, part: u16, piece: &Piece) -> Numbered {
        let batch = &piece.batch;
        let hash = match batch.is_empty() {
            true => 0,
            false => hash_of((0..batch.len()).map(|row| batch.event(row))),
        };
        let (producer, sequence, after) = (Arc::clone(&self.producer), self.sequence, self.after);
        Numbered { producer, sequence, part, after, hash }
    }

    /// Records that a part is stored, now or before.
    pub(crate) fn stored(&mut self, part: u16) {
        self.after = part.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use swiftwater_event::{CheckLimits, Checker};
    use swiftwater_runtime::ValidationRule;

    use super::*;

    fn pieces(text: &str, sizes: usize) -> Vec<Piece> {
        let mut checker = Checker::new(CheckLimits::default());
        let mut checked: Vec<_> =
            text.as_bytes().chunks(sizes).map(|chunk| checker.push(Bytes::copy_from_slice(chunk))).collect();
        checked.push(checker.finish());
        checked.into_iter().map(|checked| Piece::new(checked.batch, checked.begins)).collect()
    }

    #[test]
    fn parts_do_not_depend_on_how_a_body_arrives() {
        let event = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1 << 19));
        let text = event.repeat(70);
        let cut = |sizes: usize| {
            let mut parts = Parts::new(("p".into(), 7));
            let mut complete: Vec<_> = pieces(&text, sizes)
                .into_iter()
                .flat_map(|piece| parts.push(piece, RejectedEvents::default()))
                .collect();
            complete.extend(parts.rest());
            complete.into_iter().map(|(piece, _, part)| (piece.len(), part)).collect::<Vec<_>>()
        };
        let expected = [(31, 0), (31, 1), (8, 2)];
        assert_eq!(cut(1 << 20), expected);
        assert_eq!(cut(700_001), expected);
        assert_eq!(cut(usize::MAX), expected);
    }

    #[test]
    fn refused_event_is_found_in_the_body() {
        let text = "{\"n\":1}\n{\"n\":2}\n  {\"n\":3}\n";
        for sizes in 1..text.len() {
            let mut parts = Parts::new(("p".into(), 1));
            for piece in pieces(text, sizes) {
                assert!(parts.push(piece, RejectedEvents::default()).is_empty());
            }
            let rest = parts.rest();
            let [(piece, ..)] = &rest[..] else { panic!("there is one part") };
            let refusal = |row| Refusal {
                row,
                path: "n".to_owned(),
                rule: ValidationRule::Type,
                message: "no".to_owned(),
            };
            let place = |row| {
                let RejectedEvent { line, column, .. } = piece.source().describe(refusal(row));
                (line, column)
            };
            assert_eq!([place(0), place(1), place(2)], [(1, 1), (2, 1), (3, 3)], "pieces of {sizes}");
        }
    }

    #[test]
    fn pieces_of_refused_texts_do_not_depend_on_how_a_body_arrives() {
        let bad = format!("{{\"text\":\"{}\n", "x".repeat(60_000));
        let text = format!("{{\"n\":1}}\n{}{{\"n\":2}}\n{bad}", bad.repeat(100));
        let cut = |sizes: usize| {
            let mut parts = Parts::new(("p".into(), 7));
            let limits = CheckLimits { refused_bytes_kept: 1 << 16, ..CheckLimits::default() };
            let mut checker = Checker::new(limits);
            let pieces = text.as_bytes().chunks(sizes).map(Bytes::copy_from_slice);
            let mut checked: Vec<_> = pieces.map(|piece| checker.push(piece)).collect();
            checked.push(checker.finish());
            let mut complete = Vec::new();
            for checked in checked {
                let bad = RejectedEvents { count: checked.rejected, texts: checked.refused, part: 0 };
                complete.extend(parts.push(Piece::new(checked.batch, checked.begins), bad));
            }
            complete.extend(parts.rest());
            let mut told: Vec<_> = complete
                .iter()
                .map(|(piece, bad, _)| (piece.len(), bad.texts.len(), bad.count, bad.part))
                .collect();
            // Only the order may differ.
            told.sort_unstable();
            told
        };
        let expected = cut(1 << 16);
        assert_eq!(expected, [(0, 33, 33, 2), (0, 34, 34, 0), (0, 34, 34, 1), (2, 0, 0, 0)]);
        assert_eq!(cut(50_001), expected);
        assert_eq!(cut(usize::MAX), expected);
    }
}
