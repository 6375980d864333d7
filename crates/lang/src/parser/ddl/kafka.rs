//! Parses the source of a stream, `FROM KAFKA (…)`, and its changes; the target of a sink, `INTO KAFKA (…)`.

use super::super::{Parsed, Parser};
use crate::{
    ddl::{
        KafkaFormat, KafkaOption, KafkaSource, KafkaTarget, KafkaTargetOption, SourcePartitioner,
        StreamChange, StreamOption, StreamOptions,
    },
    source::{Fault, Span},
};

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
