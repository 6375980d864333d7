//! Stores bad events of streams `WITH (on_bad_event = quarantine)`, each with its reason, in a separate stream.

use std::{borrow::Cow, sync::Arc};

use swiftwater_catalog::kind::stream::{QUARANTINE, wants_quarantine};
use swiftwater_event::{CheckLimits, Checker, EventBatch, RefusedText, Rejection, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{CreateStream, Ddl},
    parse_ddl,
};
use swiftwater_live::columns::RejectedEvent;
use swiftwater_runtime::QUARANTINED_BYTES;

use crate::durable::{history::History, stored_stream::Declared, validation::Quarantined};
use crate::{AppendOptions, EngineError, Numbered, RuntimeError, shared::Shared};

/// An event that its stream does not take, and why.
#[derive(Debug)]
pub(crate) struct BadEvent<'e> {
    /// The column at fault, where it is one.
    path: Option<&'e str>,
    reason: Cow<'e, str>,
    event: &'e [u8],
}

impl Declared {
    /// True if bad events are kept.
    pub(crate) fn quarantines(&self) -> bool {
        wants_quarantine(&self.create)
    }
}

impl<'e> BadEvent<'e> {
    /// One that is no event by its text.
    pub(crate) fn of_text(refused: &'e RefusedText) -> BadEvent<'e> {
        let RefusedText { rejection: Rejection { line, column, message, .. }, text, is_cut } = refused;
        let cut = if *is_cut {
            format!(" (the first {} bytes of its text are stored)", text.len())
        } else {
            String::new()
        };
        let reason = format!("line {line}, column {column}: {message}{cut}");
        BadEvent { path: None, reason: reason.into(), event: text }
    }

    /// One that does not fit its stream's columns.
    pub(crate) fn of_row(batch: &'e EventBatch, rejected: &'e RejectedEvent) -> BadEvent<'e> {
        let RejectedEvent { row, path, message, .. } = rejected;
        BadEvent { path: Some(path), reason: message.into(), event: batch.event(*row as usize) }
    }
}

/// The name under which the quarantine numbers what a client's producer sent.
pub(crate) const QUARANTINE_PRODUCER: &str = "swiftwater/quarantine/";

/// Cuts bad events into pieces, in a way that depends on nothing else.
fn pieces<'b, 'e>(mut bad: &'b [BadEvent<'e>]) -> impl Iterator<Item = &'b [BadEvent<'e>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |event: &&BadEvent<'_>| {
            let is_first = bytes == 0;
            bytes += event.event.len().max(1);
            is_first || bytes <= QUARANTINED_BYTES
        };
        let count = bad.iter().take_while(fits).count();
        let piece = bad.split_off(..count)?;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Bad events of a stream as events of the quarantine.
fn lines(of: &StreamName, bad: &[BadEvent<'_>]) -> Vec<u8> {
    let mut lines = Vec::new();
    for BadEvent { path, reason, event } in bad {
        let event = String::from_utf8_lossy(event);
        let kept =
            serde_json::json!({ "stream": of.as_str(), "path": path, "reason": reason, "event": event });
        lines.extend_from_slice(kept.to_string().as_bytes());
        lines.push(b'\n');
    }
    lines
}

fn as_events(of: &StreamName, bad: &[BadEvent<'_>]) -> EventBatch {
    let limits = CheckLimits { event_bytes_max: EventBatch::BYTES_MAX / 2, ..CheckLimits::default() };
    Checker::new(limits).push(lines(of, bad).into()).batch
}

impl History {
    /// Stores bad events of a stream, with the reason, in its quarantine stream: texts that are no events, and rows of a
    /// batch. Those of a numbered request are kept once, as its good ones are.
    pub(crate) async fn quarantine(
        &self,
        shared: &Shared,
        of: &Declared,
        (texts, batch, rejected): (&[RefusedText], &EventBatch, &[RejectedEvent]),
        options: &AppendOptions,
    ) -> Result<Quarantined, EngineError> {
        let name = StreamName::new(QUARANTINE).expect("it is a name");
        let mut kept =
            Quarantined { is_repeated: !(texts.is_empty() && rejected.is_empty()), ..Quarantined::default() };
        let Some(stored) = self.stored(&name).filter(|_| kept.is_repeated) else {
            return Ok(Quarantined::default());
        };
        let stream = shared.stream(&name)?;
        let texts = texts.iter().map(BadEvent::of_text).collect::<Vec<_>>();
        let rows = rejected.iter().map(|rejected| BadEvent::of_row(batch, rejected)).collect::<Vec<_>>();
        let id = of.id.0;
        for (bad, is_text) in [(texts, true), (rows, false)] {
            for (piece, bad) in pieces(&bad).enumerate() {
                let numbered =
                    options.numbered.as_ref().map(|Numbered { producer, sequence, part, .. }| {
                        // The sender has numbered the pieces of the request's texts.
                        let (of, first) = match is_text {
                            true => ("texts".to_owned(), usize::from(options.refused_part)),
                            false => (part.to_string(), 0),
                        };
                        let part = u16::try_from(first + piece).unwrap_or(u16::MAX);
                        let producer = format!("{QUARANTINE_PRODUCER}{id}/{of}/{producer}").into();
                        Numbered { producer, sequence: *sequence, part, after: 0, hash: 0 }
                    });
                let options = AppendOptions { numbered, ack: options.ack, ..AppendOptions::default() };
                let batch = as_events(&of.create.name, bad);
                let appended = Box::pin(self.append(shared, (&stream, &stored), batch, options)).await?;
                kept.count += appended.accepted;
                kept.ticket = kept.ticket.max(appended.ticket);
                kept.is_repeated &= appended.is_repeated;
            }
        }
        Ok(kept)
    }

    /// Stores bad events of a partition that a stream reads, with their offsets in ascending order. Each piece is numbered by the
    /// offset behind its last one, so those that the quarantine has are known, however the messages are divided.
    pub(crate) async fn quarantine_of_source(
        &self,
        shared: &Shared,
        of: &Declared,
        (producer, bad): (&str, Vec<(u64, BadEvent<'_>)>),
    ) -> Result<(), EngineError> {
        let name = StreamName::new(QUARANTINE).expect("it is a name");
        let Some(stored) = self.stored(&name) else { return Ok(()) };
        let stream = shared.stream(&name)?;
        let producer: Arc<str> = format!("{QUARANTINE_PRODUCER}{producer}").into();
        let known = stored.source_position(&producer).unwrap_or(0);
        let (offsets, bad): (Vec<u64>, Vec<BadEvent<'_>>) =
            bad.into_iter().filter(|(offset, _)| *offset >= known).unzip();
        let mut done = 0;
        for piece in pieces(&bad) {
            done += piece.len();
            let sequence = offsets[done - 1] + 1;
            let numbered = Numbered { producer: Arc::clone(&producer), sequence, part: 0, after: 0, hash: 0 };
            let options = AppendOptions { numbered: Some(numbered), ..AppendOptions::default() };
            let batch = as_events(&of.create.name, piece);
            Box::pin(self.append(shared, (&stream, &stored), batch, options)).await?;
        }
        Ok(())
    }

    /// The statement that creates the quarantine, where a statement declares a stream whose bad events go there.
    pub(crate) fn quarantine_for(&self, ddl: &Ddl) -> Result<Option<Ddl>, EngineError> {
        let declared = match ddl {
            Ddl::CreateStream(create) => Some(create.clone()),
            // An error in the statement is reported when the statement itself is prepared.
            Ddl::AlterStream(alter) => {
                self.catalog.newest().altered(alter).ok().flatten().map(|entry| entry.create)
            }
            _ => None,
        };
        let wants = |create: &CreateStream| wants_quarantine(create) && create.name.as_str() != QUARANTINE;
        if !declared.as_ref().is_some_and(wants) {
            return Ok(None);
        }
        let text = format!(
            "CREATE STREAM IF NOT EXISTS {QUARANTINE} (stream STRING, path STRING, reason STRING, event STRING)"
        );
        Ok(parse_ddl(&text, &ParseOptions::new(Dialect::Native, 0)).map_err(RuntimeError::Query)?)
    }
}
