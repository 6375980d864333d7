//! Bad events of streams `WITH (on_bad_event = quarantine)`: kept, with the reason, in a stream of their own.

use std::{borrow::Cow, sync::Arc};

use swiftwater_event::{CheckLimits, Checker, EventBatch, RefusedText, Rejection, StreamName};
use swiftwater_lang::{
    Dialect, ParseOptions,
    ddl::{CreateStream, OnBadEvent},
    parse_ddl,
};
use swiftwater_live::columns::Rejected;

use super::{state::History, stored::Declared};
use crate::{AppendOptions, EngineError, Numbered, Ticket, shared::Shared};

/// The stream that keeps bad events of all streams that have theirs kept.
pub const QUARANTINE: &str = "quarantine";

/// An event that its stream does not take, and why.
#[derive(Debug)]
pub(super) struct BadEvent<'e> {
    /// The column at fault, where it is one.
    path: Option<&'e str>,
    reason: Cow<'e, str>,
    event: &'e [u8],
}

/// Whether a declaration wants bad events kept.
pub(super) fn wants_quarantine(create: &CreateStream) -> bool {
    create.options.on_bad_event == Some(OnBadEvent::Quarantine)
}

impl Declared {
    /// Whether bad events are kept.
    pub(crate) fn quarantines(&self) -> bool {
        wants_quarantine(&self.create)
    }
}

impl<'e> BadEvent<'e> {
    /// One that is no event by its text.
    pub(super) fn of_text(refused: &'e RefusedText) -> BadEvent<'e> {
        let RefusedText { rejection: Rejection { line, column, message, .. }, text, is_cut } = refused;
        let cut = if *is_cut {
            format!(" (of its text, the first {} bytes are kept)", text.len())
        } else {
            String::new()
        };
        let reason = format!("line {line}, column {column}: {message}{cut}");
        BadEvent { path: None, reason: reason.into(), event: text }
    }

    /// One that does not fit its stream's columns.
    pub(super) fn of_row(batch: &'e EventBatch, rejected: &'e Rejected) -> BadEvent<'e> {
        let Rejected { row, path, message, .. } = rejected;
        BadEvent { path: Some(path), reason: message.into(), event: batch.event(*row as usize) }
    }
}

impl History {
    /// Keeps bad events of a stream, with the reason, in the stream that is made for them; answers how many. Those of a
    /// numbered request are kept once, as its good ones are.
    pub(super) async fn quarantine(
        &self,
        shared: &Shared,
        of: &Declared,
        bad: &[BadEvent<'_>],
        options: &AppendOptions,
    ) -> Result<(u64, Option<Ticket>), EngineError> {
        let name = StreamName::new(QUARANTINE).expect("it is a name");
        let Some(stored) = self.stored(&name).filter(|_| !bad.is_empty()) else { return Ok((0, None)) };
        let stream = shared.stream(&name)?;
        let mut lines = Vec::new();
        for BadEvent { path, reason, event } in bad {
            let event = String::from_utf8_lossy(event);
            let kept = serde_json::json!({
                "stream": of.create.name.as_str(), "path": path, "reason": reason, "event": event,
            });
            lines.extend_from_slice(kept.to_string().as_bytes());
            lines.push(b'\n');
        }
        let limits = CheckLimits { event_bytes_max: EventBatch::BYTES_MAX / 2, ..CheckLimits::default() };
        let batch = Checker::new(limits).push(lines.into()).batch;
        // Parts without bad events leave no gap, as each part is one of its own producer here.
        let numbered = options.numbered.as_ref().map(|Numbered { producer, sequence, part, .. }| Numbered {
            producer: format!("{}/{part}/{producer}", of.id.0).into(),
            sequence: *sequence,
            part: 0,
            after: 0,
        });
        let options = AppendOptions { numbered, ack: options.ack, ..AppendOptions::default() };
        let appended = Box::pin(self.append(shared, (&stream, &stored), batch, options)).await?;
        Ok((bad.len() as u64, appended.ticket))
    }

    /// Makes the stream that keeps bad events, for a declaration that wants them kept.
    pub(super) async fn make_quarantine(
        self: &Arc<Self>,
        shared: &Shared,
        create: &CreateStream,
    ) -> Result<(), EngineError> {
        if !wants_quarantine(create) || create.name.as_str() == QUARANTINE {
            return Ok(());
        }
        let text = format!(
            "CREATE STREAM IF NOT EXISTS {QUARANTINE} (stream STRING, path STRING, reason STRING, event STRING)"
        );
        let options = ParseOptions::new(Dialect::Native, 0);
        match parse_ddl(&text, &options).map_err(EngineError::Query)? {
            Some(ddl) => Box::pin(self.change_one(shared, &ddl)).await.map(|_| ()),
            None => Ok(()),
        }
    }
}
