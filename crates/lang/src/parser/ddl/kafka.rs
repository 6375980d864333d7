//! Parses the source of a stream, `FROM KAFKA (…)`, its changes and `SKIP PARTITION`; the target of a sink, `INTO KAFKA (…)`.

use super::{
    super::{Parsed, Parser},
    check::Declaration,
};
use crate::{
    ddl::{
        KAFKA_IDLE_AFTER_MS_DEFAULT, KafkaFormat, KafkaOption, KafkaSource, KafkaTarget, KafkaTargetOption,
        SourcePartitioner, StreamChange, StreamOption, StreamOptions,
    },
    lexer::{Symbol, TokenKind},
    source::{Fault, Span},
};

/// The limits of Kafka's protocol: 32 and 64 bits with a sign.
const PARTITION_MAX: u32 = i32::MAX as u32;
const OFFSET_MAX: u64 = i64::MAX as u64;

impl Parser<'_> {
    /// `KAFKA (topic = 'orders', …)`, behind FROM.
    pub(super) fn kafka_source(&mut self) -> Parsed<KafkaSource> {
        let span = self.span();
        self.expect_word("KAFKA")?;
        let (mut source, mut spans) = (KafkaSource::new(), Vec::new());
        let names = (KafkaOption::of as fn(&str) -> _, KafkaOption::text as fn(_) -> _);
        self.options(names, |option, value| source.set(option, value), &mut spans)?;
        if !spans.iter().any(|(option, _)| *option == KafkaOption::Topic) {
            let fault = Fault::at(span, "`FROM KAFKA` needs a topic");
            return Err(fault.hint("Write FROM KAFKA (topic = 'orders')."));
        }
        // A value that was refused is no option that is missing.
        if self.faults.is_empty()
            && let Err((message, hint)) = source.options.check_schemas()
        {
            return Err(Fault::at(span, message).hint(hint));
        }
        if source.options.partitioner.is_some() && source.options.key.is_none() {
            let fault = Fault::at(span, "`partitioner` of a topic needs `key`");
            return Err(fault.hint("Add `key = 'column'`: the value by which partitions are chosen."));
        }
        Ok(source)
    }

    /// Completes a watermark of a stream over a topic, and checks it against the source.
    pub(super) fn check_event_time(
        &mut self,
        source: &KafkaSource,
        source_span: Span,
        declaration: &mut Declaration,
    ) {
        let Some(watermark) = &mut declaration.watermark else { return };
        watermark.idle_after_ms.get_or_insert(KAFKA_IDLE_AFTER_MS_DEFAULT);
        if source.options.format() == KafkaFormat::Ndjson {
            let message = "a stream with a WATERMARK cannot have `format = ndjson`";
            let hint = "Events of one message cannot be put in order with those of other partitions. Produce a message for each \
                event.";
            self.faults.push(Fault::at(source_span, message).hint(hint));
        }
        let mut columns = declaration.columns.iter();
        let column = columns.find(|column| column.name.text == watermark.column.text);
        if let Some(default) = column.and_then(|column| column.default.as_ref()) {
            let message = "the column of a WATERMARK over a topic can have no default";
            let hint = "The messages of all partitions are put in order by the times that they have.";
            self.faults.push(Fault::at(default.span, message).hint(hint));
        }
    }

    /// Checks `produce` against the other parts of CREATE STREAM.
    pub(super) fn check_produce(
        &mut self,
        source: Option<&KafkaSource>,
        options: &StreamOptions,
        (has_columns, spans): (bool, &[(StreamOption, Span)]),
    ) {
        let Some((_, span)) = spans.iter().find(|(option, _)| *option == StreamOption::Produce) else {
            return;
        };
        let produces = options.produce == Some(true);
        let fault = match source {
            None => Fault::at(*span, "`produce` needs a topic").hint("Add FROM KAFKA (topic = 'orders')."),
            Some(_) if !produces => return,
            Some(_) if options.store.unwrap_or(has_columns) => {
                let hint = "Leave `store = true` and the columns out: streams of a cluster are not stored.";
                Fault::at(*span, "a stored stream cannot `produce`").hint(hint)
            }
            Some(source) if source.options.format() != KafkaFormat::Json => {
                let format = source.options.format().text();
                let message = format!("messages in {format} cannot be produced: `format` must be json");
                Fault::at(*span, message).hint("Leave `format` out, or `produce`.")
            }
            Some(source) if source.options.partitioner == Some(SourcePartitioner::Unknown) => {
                let message = "events with a `key` cannot be produced by an unknown `partitioner`";
                Fault::at(*span, message).hint("Write `partitioner = murmur2` or `partitioner = crc32`.")
            }
            Some(_) => return,
        };
        self.faults.push(fault);
    }

    /// `KAFKA (topic = 'totals', …)`, behind INTO.
    pub(super) fn kafka_target(&mut self) -> Parsed<KafkaTarget> {
        let span = self.span();
        self.expect_word("KAFKA")?;
        let (mut target, mut spans) = (KafkaTarget::default(), Vec::new());
        let names = (KafkaTargetOption::of as fn(&str) -> _, KafkaTargetOption::text as fn(_) -> _);
        self.options(names, |option, value| target.set(option, value), &mut spans)?;
        if !spans.iter().any(|(option, _)| *option == KafkaTargetOption::Topic) {
            let fault = Fault::at(span, "`INTO KAFKA` needs a topic");
            return Err(fault.hint("Write INTO KAFKA (topic = 'totals')."));
        }
        // A value that was refused is no option that is missing.
        if self.faults.is_empty()
            && let Err((message, hint)) = target.check_schema()
        {
            return Err(Fault::at(span, message).hint(hint));
        }
        Ok(target)
    }

    /// `PARTITION number TO offset`, behind SKIP.
    pub(super) fn skip_partition(&mut self) -> Parsed<(u32, u64)> {
        self.expect_word("PARTITION")?;
        let partition = self.number_up_to(PARTITION_MAX.into(), "the number of a partition")?;
        self.expect_word("TO")?;
        let to = self.number_up_to(OFFSET_MAX, "an offset")?;
        if self.symbol_at(0) == Some(Symbol::Comma) {
            return Err(self.skips_alone());
        }
        Ok((u32::try_from(partition).unwrap_or(PARTITION_MAX), to))
    }

    /// The fault of `SKIP PARTITION` beside another change.
    pub(super) fn skips_alone(&self) -> Fault {
        let fault = Fault::at(self.span(), "SKIP PARTITION is a statement of its own");
        fault.hint("Write ALTER STREAM name SKIP PARTITION number TO offset, without other changes.")
    }

    fn number_up_to(&mut self, max: u64, what: &str) -> Parsed<u64> {
        let TokenKind::Whole { value, long: false } = *self.kind() else { return Err(self.expected(what)) };
        let span = self.span();
        self.advance();
        match u64::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            _ => Err(Fault::at(span, format!("{what} can be at most {max}"))),
        }
    }

    /// `(option = value, …)`, behind SET KAFKA.
    pub(super) fn kafka_changes(&mut self) -> Parsed<StreamChange> {
        let (mut source, mut spans) = (KafkaSource::new(), Vec::new());
        let names = (KafkaOption::of as fn(&str) -> _, KafkaOption::text as fn(_) -> _);
        let start = self.at + 1;
        self.options(names, |option, value| source.set(option, value), &mut spans)?;
        if let Some((option, _)) = spans.iter().find(|(option, _)| !option.can_change()) {
            let span = self.tokens[start].span;
            let fault = Fault::at(span, format!("`{}` of a stream cannot be changed", option.text()));
            return Err(fault.hint(match option {
                KafkaOption::Paused => "Write ALTER STREAM name PAUSE, or RESUME.",
                _ => "Create another stream, with this topic and start.",
            }));
        }
        Ok(StreamChange::SetKafka(source.options))
    }
}
